"""Proposals for palace memories from a conversation, by rules. Nothing is written until a caller accepts a proposal.

A rule reads one sentence of one speaker. It finds what speakers say about themselves ("I live in Graz"), about their
family and pets, and what they ask to have remembered. Doubtful sentences give no proposal: questions, conditions, wishes,
quotations, and clauses whose object is only a pronoun. The rules read English. Pure: no clock, no I/O.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, cast

from sense_memory.search.tokens import STOP_WORDS


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.arguments import MemoryFields

MAX_TEXT_CHARS: Final = 1_000_000  # of a conversation; the rest is not read
USER: Final = "user"  # the speaker of a text that names no speaker
_MAX_OBJECT_WORDS: Final = 14
_MAX_SENTENCE_CHARS: Final = 400
_MAX_KEY_WORDS: Final = 4
_AGENTS: Final = frozenset(("assistant", "agent", "ai", "bot", "system", "tool", "model"))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A memory that a conversation suggests.

    Attributes:
        domain: `people`; or `skills`, for instructions to the agent.
        facet: facts, preferences, decisions or procedures.
        key: the speaker and the topic, such as `nora-home`.
        value: one sentence in the third person.
        themes: the themes of the memory.
        reason: the name of the rule that proposes the memory.
        start: where the sentence begins in the text, in characters.
        end: where the sentence ends.
        source: `user`.
    """

    domain: str
    facet: str
    key: str
    value: str = field(repr=False)
    themes: tuple[str, ...] = field(repr=False)
    reason: str
    start: int
    end: int
    source: str = "user"

    def arguments(self) -> MemoryFields:
        """The fields with which `palace.remember_many` accepts this proposal."""
        names = ("domain", "facet", "key", "value", "themes", "source")
        return cast("MemoryFields", {name: getattr(self, name) for name in names})


class Extractor(Protocol):
    """Proposes memories from a conversation, by rules or by a language model."""

    async def propose(self, text: str) -> Sequence[Proposal]:
        """The proposals from a conversation."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern of a clause, and the memory to propose; `{who}`, `{x}` and `{name}` stand for parts of the clause."""

    reason: str
    find: re.Pattern[str]
    facet: str
    key: str
    value: str
    themes: tuple[str, ...] = ()


def _rule(reason: str, find: str, facet: str, key: str, value: str, *themes: str) -> _Rule:
    return _Rule(reason, re.compile(find, re.IGNORECASE), facet, key, value, themes)


KIN: Final = (
    r"wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|son|daughter|brother|sister|mother|mom|mum|father|dad|"
    r"grandmother|grandma|grandfather|grandpa|aunt|uncle|cousin|niece|nephew|dog|cat|puppy|kitten|horse|boss|best friend"
)
_TRADE: Final = (
    r"(?:[\w-]+ ){0,2}?(?:teacher|nurse|doctor|engineer|developer|programmer|designer|artist|writer|author|lawyer|student|"
    r"scientist|researcher|musician|singer|dancer|photographer|chef|cook|baker|carpenter|electrician|plumber|farmer|"
    r"accountant|architect|counselor|therapist|psychologist|manager|journalist|editor|librarian|pilot|mechanic|coach|"
    r"veterinarian|vet|dentist|pharmacist|paramedic|firefighter|soldier|veteran)"
)
_COUNT: Final = r"an?|one|two|three|four|five|six|\d+"
_X: Final = r"(?P<x>[^,.;:!?\u2014()\"]+)"
_RULES: Final = (
    _rule(
        "name",
        r"\bmy name(?: is|'s) (?P<x>[A-Z][\w'-]+(?: [A-Z][\w'-]+)?)",
        "facts",
        "name",
        "{who} is called {x}",
        "name",
    ),
    _rule(
        "home",
        r"\bI (?:now )?live (?P<x>(?:in|near|on) (?!(?:an? |the |my |constant )*(?:dream|past|future|moment|hope|fear|hell|bubble|nightmare|denial|peace|cloud|moon)\b)[^,.;:!?\u2014()\"]+)",
        "facts",
        "home",
        "{who} lives {x}",
        "home",
    ),
    _rule(
        "home",
        r"\bI(?:'ve| have)? (?:just |recently )?moved (?P<x>(?:back )?to (?:the )?[A-Z][^,.;:!?\u2014()\"]*)",
        "facts",
        "home",
        "{who} moved {x}",
        "home",
    ),
    _rule(
        "home",
        r"\bI no longer live (?P<x>(?:in|near|on) [^,.;:!?\u2014()\"]+)",
        "facts",
        "former-home",
        "{who} no longer lives {x}",
        "home",
    ),
    _rule(
        "origin",
        r"\bI(?:'m| am) (?:originally )?from (?P<x>[A-Z][^,.;:!?\u2014()\"]+)",
        "facts",
        "origin",
        "{who} is from {x}",
        "origin",
    ),
    _rule(
        "origin",
        r"\bI (?:was born|grew up) (?P<x>in [^,.;:!?\u2014()\"]+)",
        "facts",
        "origin",
        "{who} comes from there: grew up {x}",
        "origin",
    ),
    _rule(
        "work",
        r"\bI work (?P<x>(?:at|for|as) [^,.;:!?\u2014()\"]+)",
        "facts",
        "work",
        "{who} works {x}",
        "work",
    ),
    _rule(
        "work",
        r"\bI no longer work (?P<x>(?:at|for|as) [^,.;:!?\u2014()\"]+)",
        "facts",
        "former-work",
        "{who} no longer works {x}",
        "work",
    ),
    _rule(
        "work",
        rf"\bI(?:'m| am) (?:now )?(?P<x>an? {_TRADE})\b(?!['-]| (?:of|for|at heart)\b)",
        "facts",
        "role-{name}",
        "{who} is {x}",
        "work",
    ),
    _rule(
        "family",
        r"\bI(?:'m| am) (?:now )?(?P<x>a single (?:mom|mum|mother|dad|father|parent))\b(?!['-])",
        "facts",
        "role-{name}",
        "{who} is {x}",
        "family",
    ),
    _rule(
        "birthday",
        r"\bmy birthday(?: is|'s) (?P<x>(?:on )?[^,.;:!?\u2014()\"]*\d[^,.;:!?\u2014()\"]*)",
        "facts",
        "birthday",
        "{who}'s birthday is {x}",
        "birthday",
    ),
    _rule(
        "family",
        rf"\bmy (?P<name>{KIN})(?:'s name is|,? (?:is )?(?:named|called)) (?P<x>[A-Z][\w'-]+)",
        "facts",
        "{name}",
        "{who}'s {name} is called {x}",
        "family",
    ),
    _rule(
        "family",
        rf"\bI(?:'ve| have) (?:got )?(?P<x>(?:{_COUNT}) (?:[\w-]+ )?(?:kids?|children|sons?|daughters?|brothers?|sisters?|siblings?|dogs?|cats?|pets?|pups?|turtles?))\b",
        "facts",
        "has-{name}",
        "{who} has {x}",
        "family",
    ),
    _rule(
        "health",
        rf"\bI(?:'m| am) allergic to {_X}",
        "facts",
        "allergy-{name}",
        "{who} is allergic to {x}",
        "health",
    ),
    _rule(
        "diet",
        r"\bI(?:'m| am) (?P<x>(?:a (?=\w+(?:[^\w' -]| (?:and|but|so|since|because|now|too)\b|$)))?(?:vegan|vegetarian|gluten[- ]free|lactose intolerant|diabetic))\b(?!')",
        "facts",
        "diet",
        "{who} is {x}",
        "diet",
    ),
    _rule(
        "favourite",
        r"\bmy (?:all[- ]time )?favou?rite (?P<name>[\w -]{2,30}?)(?: is|'s| are) (?P<x>[^,.;:!?\u2014()\"]+)",
        "preferences",
        "favourite-{name}",
        "{who}'s favourite {name}: {x}",
        "preference",
    ),
    _rule(
        "dislikes",
        rf"\bI (?:really |absolutely )?(?:hate|dislike|can't stand|don't like) {_X}",
        "preferences",
        "dislikes-{name}",
        "{who} dislikes {x}",
        "preference",
    ),
    _rule(
        "likes",
        r"\bI (?:really |absolutely |just )?(?:love|like|enjoy|adore) (?P<x>(?!to (?:hear|know|see)\b|the\b)(?:to \w+|\w+ing|[a-z][\w'-]+)\b[^,.;:!?\u2014()\"]*)",
        "preferences",
        "likes-{name}",
        "{who} likes {x}",
        "preference",
    ),
    _rule(
        "prefers",
        rf"\bI(?:'d| would)? (?:always |usually )?prefer {_X}",
        "preferences",
        "prefers-{name}",
        "{who} prefers {x}",
        "preference",
    ),
    _rule(
        "pursuit",
        r"\bI(?:'ve| have) been (?P<x>\w+ing (?:[\w' -]+ )?(?:for|since) [^,.;:!?\u2014()\"]*\b(?:\d+|years?|months?|a decade|school|childhood)\b[^,.;:!?\u2014()\"]*)",
        "facts",
        "pursuit-{name}",
        "{who} has been {x}",
        "activity",
    ),
    _rule(
        "plays",
        r"\bI play (?:the )?(?P<x>(?:the )?(?:piano|guitar|violin|drums|cello|flute|clarinet|saxophone|bass|chess|tennis|soccer|football|basketball|volleyball|golf|baseball|hockey)[^,.;:!?\u2014()\"]*)",
        "facts",
        "plays-{name}",
        "{who} plays {x}",
        "activity",
    ),
    _rule(
        "decision",
        r"\b(?:I|we)(?:'ve| have)? (?:finally |just )?decided (?P<x>(?:to|on|that|against) [^,.;:!?\u2014()\"]+)",
        "decisions",
        "decided-{name}",
        "{who} decided {x}",
        "decision",
    ),
    _rule(
        "plan",
        r"\bI(?:'m| am) planning (?P<x>(?:to|on) [^,.;:!?\u2014()\"]+)",
        "decisions",
        "plans-{name}",
        "{who} plans {x}",
        "plan",
    ),
    _rule(
        "joined",
        r"\bI(?:'ve| have)? (?:just |recently |also )?(?:signed up for|enrolled in|joined) (?P<x>(?:an? |the |my )?[^,.;:!?\u2014()\"]+)",
        "facts",
        "joined-{name}",
        "{who} joined {x}",
        "activity",
    ),
    _rule(
        "change",
        r"\bI(?:'ve| have)? (?:just |recently )?(?P<x>(?:adopted|bought|started|opened|quit|lost|graduated from|retired from) (?:an? (?:new )?|my (?:new |own )?|the )[^,.;:!?\u2014()\"]+)",
        "facts",
        "change-{name}",
        "{who} {x}",
        "change",
    ),
    _rule(
        "interest",
        rf"\bI(?:'m| am) (?:really |very |so )?(?:into|passionate about|keen on|interested in) {_X}",
        "preferences",
        "likes-{name}",
        "{who} is interested in {x}",
        "preference",
    ),
    _rule(
        "goal",
        r"\b(?:my (?:dream|goal)(?: is|'s)|I(?:'ve| have) always wanted|I want) (?P<x>to (?:be|become|open|start|write|learn|run|publish)\b[^,.;:!?\u2014()\"]+)",
        "decisions",
        "goal-{name}",
        "{who} wants {x}",
        "plan",
    ),
    _rule(
        "volunteers",
        r"\bI(?:'ve been| have been)? volunteer(?:ing)? (?P<x>(?:at|for|with) [^,.;:!?\u2014()\"]+)",
        "facts",
        "volunteers-{name}",
        "{who} volunteers {x}",
        "activity",
    ),
    _rule(
        "done",
        r"\bI(?:'ve| have)? (?:just |finally |recently )?(?P<x>(?:won|ran|painted|wrote|published|finished|completed|passed) (?:an? |my )[^,.;:!?\u2014()\"]+)",
        "facts",
        "did-{name}",
        "{who} {x}",
        "change",
    ),
)
_ASKED: Final = re.compile(
    r"^(?:please,? )?(?:remember|note|don't forget)(?: that|:) (?P<x>.{8,})", re.IGNORECASE
)
_ALWAYS: Final = re.compile(
    r"^(?:please,? |from now on,? (?:please,? )?)(?P<x>(?:always|never|don't|do not|use|answer|write|call me)\b.{4,})",
    re.IGNORECASE,
)
_SPEAKER: Final = re.compile(
    r"^[ \t]*(?:\[[^\]\n]{1,40}\][ \t]*)?(?P<who>[^\W\d][\w .'-]{0,39}?)[ \t]*:[ \t]+", re.MULTILINE
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.](?=\w)[^.!?\n]*)*[.!?\n]*")
_END: Final = re.compile(
    r"\s(?:and (?:I|it|we|they|he|she|you|that|(?:now )?(?:live|work)|my [\w ]{2,30}?(?: is|'s| are))\b|but\b|because\b|'?cause\b|so\b|which\b|though\b|although\b|when\b|while\b|if\b|"
    r"since (?:it|I|we|they)\b|as (?:it|I|we|they)\b|it's\b|they're\b|that's\b| - )",
    re.IGNORECASE,
)
_DOUBTFUL: Final = re.compile(
    r"\b(?:if|wish|would|might|maybe|perhaps|used to|almost|imagine|hope|probably|not sure|"
    r"said|says?|tells?|told|someone|pretend\w*|as if|(?<!my )dream\w*|not true|untrue|no more|any ?more)\b",
    re.IGNORECASE,
)
_JOKE: Final = re.compile(r"\b(?:kidding|joking|joke|not really|made that up|April fools?)\b", re.IGNORECASE)
_TAKES_BACK: Final = re.compile(
    r"\W*(?:(?:oh|ah|hm+|uh|er|actually|sorry|oops|but)\b\W*)*(?:no\W+wait|wait\W+(?:actually\W+)?no|no\W+sorry|sorry\W+no"
    r"|actually\W+no|no\W+actually|(?:no\W+)?I meant|(?:scratch|strike) that)\b",
    re.IGNORECASE,
)
_REPORTED: Final = re.compile(
    r"\b(?:said|says?|told|tells?|asked|asks?|wrote|writes?|replied|answered)\b", re.IGNORECASE
)
_VAGUE: Final = re.compile(
    r"^(?:(?:to |in |on |at |for |as )?(?:it|that|this|these|those|them|you|your|yours|him|her|his|their|there|here|what|how|"
    r"when|where|why|who|everything|something|anything|all|seeing you|hearing|being able|the (?:idea|sound|way|look|vibe|"
    r"colou?rs?|feel|view)|so|too|one|some|things?|stuff|the (?:same|one)|(?:a|the) (?:bit|lot))\b)",
    re.IGNORECASE,
)
# The text that may precede "I". Otherwise the clause belongs to a noun ("a job I enjoy") or to a quotation.
_OPENING: Final = re.compile(
    r"(?:^|[,.;:!()\u2014-]|\b(?:and|but|since|because|'?cause|why|how much|so|know|say|think|that|also|well|yeah|yep|now|"
    r"recently|just|you|out|yesterday|weekend|week|night|month|year|ago|today|remember))\s*$",
    re.IGNORECASE,
)
_JOINED: Final = re.compile(
    r"(?:^|[,;]|\b(?:and|but))\s*$", re.IGNORECASE
)  # the text that may precede a second clause
_WHEN: Final = re.compile(
    r" (?:yesterday|today|tonight|for now|now|as well|recently|lately|again|too|last \w+|this (?:week|month|year|morning|weekend)|(?:a|an|one|two|"
    r"three|four|few|a few|some|\d+) (?:days?|weeks?|months?|years?) ago)$",
    re.IGNORECASE,
)
_CUT: Final = re.compile(r":|\.\d")  # the clause is cut off: a list follows, or a number continues
_ABROAD: Final = re.compile(
    r"\b(?:you|your|this|that|these|those|it|them|here|there|he|him|she)\b", re.IGNORECASE
)
_MINE: Final = {
    "my": "their",
    "me": "them",
    "myself": "themselves",
    "i": "they",
    "i'm": "they are",
    "mine": "theirs",
    "our": "their",
    "we": "they",
    "us": "them",
}
_FIRST_PERSON: Final = re.compile(r"(?<![\w'])(?:my|me|myself|I'm|I|mine|our|we|us)(?![\w'])", re.IGNORECASE)


def proposals(text: str) -> list[Proposal]:
    """The memories that a conversation suggests, in the order of the text; of several with one key, the last.

    Args:
        text: lines that begin with a speaker (`Nora: …`), or the user's words alone. Lines of an agent are not read.
    """
    by_sentence: list[tuple[str, list[Proposal]]] = []
    for who, start, sentence in _sentences(text[:MAX_TEXT_CHARS]):
        if _JOKE.search(sentence):  # the sentence before may be the joke, so its proposals are dropped too
            if by_sentence and by_sentence[-1][0] == who:
                by_sentence.pop()
            continue
        if takes_back(sentence) and by_sentence and by_sentence[-1][0] == who:
            by_sentence.pop()
        by_sentence.append((who, list(_of_sentence(who, sentence.rstrip(), start))))
    found: dict[tuple[str, str], Proposal] = {}
    for proposal in (proposal for _, of_sentence in by_sentence for proposal in of_sentence):
        found.pop((proposal.facet, proposal.key), None)
        found[proposal.facet, proposal.key] = proposal
    return list(found.values())


def takes_back(said: str) -> bool:
    """Whether a sentence, or the rest of one, begins by taking back what its speaker said just before.

    >>> [takes_back(said) for said in ("no wait, grams.", ", no wait, grams", "No, I live in Graz.")]
    [True, True, False]
    """
    return _TAKES_BACK.match(said) is not None


def _sentences(text: str) -> Iterator[tuple[str, int, str]]:
    """Each sentence with its speaker and its start, in characters."""
    turns = [turn for turn in _SPEAKER.finditer(text) if not _REPORTED.search(turn["who"])]
    places = [(USER, 0, turns[0].start() if turns else len(text))]
    ends = [turn.start() for turn in turns[1:]] + [len(text)]
    places += [(turn["who"], turn.end(), end) for turn, end in zip(turns, ends, strict=False)]
    for who, start, end in places:
        if who.casefold() in _AGENTS:
            continue
        for found in _SENTENCE.finditer(text, start, end):
            lead = len(found[0]) - len(found[0].lstrip())
            if found[0].strip() and len(found[0]) <= _MAX_SENTENCE_CHARS:
                yield who, found.start() + lead, found[0].strip()


def _of_sentence(who: str, text: str, start: int) -> Iterator[Proposal]:
    sentence = text.replace("\u2019", "'")
    if sentence.endswith("?"):
        return
    span = start, start + len(text)
    person = "The user" if who.casefold() == USER else who
    subject = slug(who)
    if who.casefold() == USER and (asked := _ASKED.match(sentence)) is not None:
        value = asked["x"].strip(" .!")
        yield Proposal(
            "people",
            "facts",
            f"{subject}-noted-{topic(value)}",
            f"{person} asked to remember: {value}",
            (),
            "asked",
            *span,
        )
        return
    if who.casefold() == USER and (order := _ALWAYS.match(sentence)) is not None:
        value = order["x"].strip(" .!")
        yield Proposal(
            "skills",
            "procedures",
            f"rule-{topic(value)}",
            value[0].upper() + value[1:],
            ("rule",),
            "instruction",
            *span,
        )
        return
    yield from (Proposal("people", *parts, *span) for parts in _facts(sentence, person, subject))


def _facts(sentence: str, person: str, subject: str) -> list[tuple[str, str, str, tuple[str, ...], str]]:
    """Facet, key, value, themes and reason for each clause of a sentence that a rule knows, in order."""
    found = {}
    taken: list[range] = []
    for rule in _RULES:
        clause = rule.find.search(sentence)
        if clause is None or not (_JOINED if taken else _OPENING).search(sentence[: clause.start()]):
            continue
        if _DOUBTFUL.search(sentence[max(0, clause.start() - 40) : clause.end()]):
            continue
        if _CUT.match(sentence, clause.end()) or takes_back(sentence[clause.end() :]):
            continue
        x = _object(clause["x"])
        if not x or _VAGUE.match(x) or _ABROAD.search(x):
            continue
        has_name = "name" in rule.find.groupindex
        name = slug(clause["name"]) if has_name else topic(x)
        place = range(clause.start(), clause.start("x") + len(x))
        if not name or any(place.start < other.stop and other.start < place.stop for other in taken):
            continue
        taken.append(place)
        value = rule.value.format(
            who=person,
            x=_FIRST_PERSON.sub(lambda found: _MINE[found[0].lower()], x),
            name=clause["name"] if has_name else name,
        )
        key = f"{subject}-{slug(rule.key.format(name=name))}"
        found[place.start] = rule.facet, key, value, rule.themes, rule.reason
    return [parts for _, parts in sorted(found.items())]


def _object(text: str) -> str:
    """The object of a clause, cut at the end of the clause; empty if it is too long to be one object."""
    end = _END.search(text)
    cut = _WHEN.sub("", (text[: end.start()] if end else text).strip(" '-"))
    return cut if len(cut.split()) <= _MAX_OBJECT_WORDS else ""


def topic(text: str) -> str:
    """The first four words that are not stop words, as part of a key."""
    kept = [word for word in re.findall(r"[\w'-]+", text.lower()) if word not in STOP_WORDS["english"]]
    return slug(" ".join(kept[:_MAX_KEY_WORDS]))


def slug(text: str) -> str:
    """A text as part of a key: lower case, words joined by hyphens."""
    plain = unicodedata.normalize("NFC", text).lower().replace("'", "")
    return re.sub(r"[^\w]+", "-", plain).strip("-_")
