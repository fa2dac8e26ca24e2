"""What a memory claims: for each clause who is spoken of, what is said, with what value, under which conditions.

A claim is (subject, relation, value, scope, polarity). A clause makes one of the relation that it names ("Nora works at
Bosch"), where `vocabulary` knows it, and is read as a whole too: its words, with opposites folded into an axis and
figures set apart, so that "telemetry is enabled" and "telemetry is off" are one sentence with two sides.
Nothing else is understood. Long texts are read up to a bound. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.figures import Figure, Measures, items, measures
from sense_memory.palace.contradictions.vocabulary import axis, plain, stem, words


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.figures import Item

MAX_READ_CHARS: Final = 2_000  # of a value; notes are far shorter, and a clause beyond counts as not said
MAX_CLAUSES_COUNT: Final = 8  # read of one memory
MAX_CLAUSE_ITEMS: Final = 40  # a longer clause is not a short note
_MAX_KEY_CHARS: Final = 256
_MAX_SUBJECT_WORDS: Final = 6
_MAX_VALUE_WORDS: Final = 6
_MAX_BARE_ITEMS: Final = 3
_MAX_SURE_CLAUSES: Final = 2
_TRIVIAL: Final = words("new now note updat current old later my 1 2 3")


@dataclass(frozen=True, slots=True)
class Value:
    """The noun phrase that a relation gives.

    Attributes:
        words: its stems, in order.
        text: as it was written, without an article.
        kind: `name`, `figure`, `list`, `a` (one of a sort), or `word`.
        figures: what figures it has.
    """

    words: tuple[str, ...]
    text: str
    kind: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """That a subject has a value in a relation.

    Attributes:
        subject: stems of whom it is about.
        relation: a name of `RELATIONS`, `is` for an attribute that the subject names, or `is a`.
        value: what the relation gives.
        scope: stems of the conditions it holds under.
        polarity: whether it is affirmed.
        over: what the value is preferred over.
        changed: whether it says that something is new.
        loose: whether the clause says more than the claim, that the value is to come, or what it includes.
        spoken: of an attribute its name, then the subject's stems and words as they were written.
        measures: in what its figures are measured: per month, before tax.
        added: whether it says that what was said before stays true: "too", "also".
    """

    subject: frozenset[str]
    relation: str
    value: Value
    scope: frozenset[str]
    polarity: bool
    over: tuple[str, ...] = ()
    changed: bool = False
    loose: bool = False
    spoken: tuple[tuple[str, str], ...] = ()
    measures: Measures = frozenset()
    added: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """What a clause says as a whole.

    Attributes:
        text: as it was written.
        words: stems of all that it says but figures; `±` for an axis, `~` for a status, `@` for a date that tells which.
        spoken: these stems in order, and the words as they were written.
        polarity: whether it is affirmed.
        mood: `fact`, `past` or `plan`.
        sides: its axes, the side of each, and the word for it.
        figures: what figures it gives.
        measures: in what they are measured: per month, before tax.
        states: the states that it names: a number of `STATES` and a side.
        names: stems of its capitalised words, except the first.
        told: the words after a form of `be` or a preposition: what the clause says about its subject.
        turned: stems of the part that reports a change: what was left, moved or cancelled.
        owned: whether it begins with a possession: "Nora's brother", so it is not about Nora.
        definite: whether it begins with something already known: "the", "my", "Nora's".
        added: as a claim has it.
    """

    text: str = field(compare=False, repr=False)
    words: frozenset[str]
    spoken: tuple[tuple[str, str], ...]
    polarity: bool
    mood: str
    sides: tuple[tuple[str, bool, str], ...]
    figures: tuple[Figure, ...]
    measures: Measures
    states: frozenset[tuple[int, bool]]
    names: frozenset[str]
    told: frozenset[str]
    turned: frozenset[str]
    owned: bool
    definite: bool
    added: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What a memory says.

    Attributes:
        clauses: at most `MAX_CLAUSES_COUNT`.
        claims: the relations that they name.
        whole: whether everything was read and has two clauses at most: a longer memory says other things too.
        keys: what the memory is found by. Two memories whose words contradict each other share a key. Keys depend
            on the memory's key and value only.
    """

    clauses: tuple[Clause, ...]
    claims: tuple[Claim, ...]
    whole: bool
    keys: frozenset[str]


# ── How English, mostly, says things ─────────────────────────────────────────────────────


def _any_case(*parts: str) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_CLAUSE: Final = _any_case(
    r"(?<=[^\W\d])[.](?=\s|$)|(?<=[\d%)'\"])[.](?=\s+[^\W\d_]|\s*$)|[!;\n\r()\u2014\u2013]+|(?<=\?)|,? but "
)
_LABEL: Final = _any_case(
    r"^\s*(?:\[[^\]]{0,40}\]|\(?\d{4}-\d\d-\d\d\)?|(?:note|update|fyi|ps|correction)(?=:))[:,]?\s*"
)
_QUOTES: Final = str.maketrans("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb", "''" + '"' * 5)
_SHORT: Final = tuple(
    (_any_case(short), long)
    for short, long in {
        r"\bcan(?:'t|not)\b": "can not",
        r"\bwon't\b": "will not",
        r"\b(could|would|do|does|did|is|are|was|were|has|have|had|must|should)n't\b": r"\1 not",
        r"\b(he|she|it|that|there|who)'s\b": r"\1 is",
        r"\bI'm\b": "I am",
        r"'re\b": " are",
        r"'ve\b": " have",
        r"'ll\b": " will",
        r"(?<=\w)'s\b|(?<=s)'(?=\s)": "",
        r"\b([ldmtsjnq])'(?=[aeiouyhàâéèêî])": r"\1' ",
        r"(\w+)-(year|month|week)s?-old\b": r"\1 \2s old",
    }.items()
)
_REASON: Final = _any_case(
    r",? (?:because|so that|due to|thanks to|since (?=he|she|it|they|the |i )|as (?=it|she|he|they|i |the )).*$"
)
# Team A, Agent X, Vitamin D: the letter is part of the name. Not "I", and not the "A" of A Title In Capitals.
_LETTERED: Final = re.compile(r"\b([A-Za-z]*[a-z]) ((?:[B-HJ-Z]|A(?! ?[A-Z]))\b(?![.'&]))")
_HEDGE: Final = re.compile(
    r"\b(?:will|shall|going to|wird|werden|sera|será|vai|va a|including|excluding|incl|excl|plus|(?:before|after) tax)\b"
)
_SINCE: Final = _any_case(
    r",? \b(?:since|as of|from|ab|seit|depuis|desde) (?:\w+ )?(?:\d{4}|january|february|march|april|may|june|july|august|",
    r"september|october|november|december|\w+day|spring|summer|autumn|winter)\b|,? for (?:\w+|\d+) (?:years|months|weeks)\b",
)
_ASIDE: Final = _any_case(
    r", | (?:with (?=(?:my|his|her|their|our)\b)|which|who|whose|where|while|and (?=(?:he|she|it|they|is|has|\w+s)\b)|\w+ing)\b"
)
_END: Final = _any_case(
    r",(?!\d)| - |(?<![\w.@/-])(?:and|or|but|when|whenever|where|which|who|whose|with|without|for|in|on|at|during|until|",
    r"unless|while|if|from|near|among|after|before|by|so|to|than|over|instead|rather|including|except|every|each|these|this|",
    r"as|via|since|now|again|any|ab|seit|für|als|depuis|pour|avec|à|al|para|con|com|desde|mit|bei|gezogen|umgezogen)\b",
)
_OVER: Final = _any_case(
    r" (?:over|(?:better|more) than|rather than|instead of|to|than|als|à|au|aux|al|a|do que|que|ao) "
)
_COPULA: Final = _any_case(
    r"^(?P<subject>[^,:]{2,80}?)(?: (?:(?:was|has been|is) (?:moved|postponed|changed|raised|cut|lowered|increased|reduced|",
    r"extended|shifted|pushed|set)(?: back| forward)? to|went (?:up|down) to|will be|has been|is|are|am|was|ist|sind|est|",
    r"sont|es|son|é|são)(?: now| currently| set to| jetzt| maintenant| ahora| agora)?(?: at| on| in| am| le| el)? |: )(?P<value>.+)$",
)
_DATED: Final = _any_case(
    r"^(?P<subject>(?!an? |there )[^,:]{2,80}?) (?:(?P<moved>(?:(?:was|has been|is|got) )?(?:now )?(?:moved|postponed|pushed|",
    r"put|shifted|rescheduled|delayed|changed|brought|slipped)(?: back| forward| up| out)? (?:to|until))|(?:takes place|",
    r"happens|is(?: now)?(?: due| scheduled| planned| set)?)(?: on| for| at)?) (?P<value>.+)$",
)
_DWELLING: Final = re.compile(r"^ (?:an?|the) [\w -]{2,30}? in (?=[A-ZÀ-Þ])")
_OWNER: Final = _any_case(r"(?!an? |one )\w+ ")
_OWNS: Final = _any_case(r"\s*(?:\w+(?:'s|s') |(?:my|his|her|their|our) )")
_LEADING_ARTICLE: Final = _any_case(r"^(?:the|my|our) ")
_MOVES: Final = re.compile(r"moved|switched|migrated|renamed|settled|relocated|(?:has|ist|se|a|mudou) ")
_SWITCH: Final = _any_case(r"^ ?from (?P<left>.+?) to (?P<new>.+)$")
_LISTED: Final = _any_case(r" ?(?:and|or|und|et|y|e|,) ?\w")
_PART: Final = re.compile(r",|\band\b(?= [a-z])|\bto\b(?= [a-z])")
_CAPITAL: Final = re.compile(r"(?<=[\w,] )[A-ZÀ-Þ][\w-]+")
_KEY_WORD: Final = re.compile(r"[^\W_]+")
_NAME_LIKE: Final = re.compile(r"[^\W\d_]*[A-ZÀ-ÞŠŽ\d@/.#+][\w@/.#+-]*")
_SORT: Final = _any_case(r"(?:now )?(?:an?|eine?|une?|uma?|una) ")
_RENEWED: Final = frozenset(("new", "current"))
_BEFORE_VERBS: Final = terms.AUXILIARIES | terms.CHANGES | {"also", "set"}
_NO_SUBJECT: Final = terms.AUXILIARIES | words(
    "who that which if when whether said says thinks believes and or because"
)
_NO_ACTOR: Final = terms.AUXILIARIES | terms.ARTICLES | terms.FIRST - {"i", "we"}
_INDEFINITE: Final = words("a an ein eine un une una um uma")
_OPENING: Final = words("on in at since every by until from")
_LEADING: Final = words("in by on with via to at under using wants want")
_DEFINITE: Final = words("the my our this der die das le la les el los las o a os as")


# ── Reading ─────────────────────────────────────────────────────────────────────────────


def read(memory: PersonaMemory) -> Reading:
    """What a memory claims."""
    key = frozenset(
        stem(word)
        for word in _KEY_WORD.findall(memory.key[:_MAX_KEY_CHARS].lower())
        if word not in terms.STOP
    )
    texts = _split(_LABEL.sub("", memory.value[:MAX_READ_CHARS].translate(_QUOTES)))
    found = [_Text.of(*text) for text in texts[:MAX_CLAUSES_COUNT]]
    clauses: list[Clause] = []
    claims: list[Claim] = []
    for text in filter(None, found):
        unnamed = claims[0].subject if claims else key - terms.KEY_NOISE
        clauses.append(_whole(text, unnamed))
        claims += _related(text, unnamed, key)
    whole = len(memory.value) <= MAX_READ_CHARS and len(texts) <= _MAX_SURE_CLAUSES and all(found)
    return Reading(tuple(clauses), tuple(claims), whole, _keys(clauses, claims))


def _keys(clauses: Iterable[Clause], claims: Iterable[Claim]) -> frozenset[str]:
    """The words of each clause, and each relation with its subject."""
    return frozenset(word.lstrip("±~") for clause in clauses for word in clause.words) | {
        f"{claim.relation}|{' '.join(sorted(claim.subject))}" for claim in claims
    }


def _split(text: str) -> list[tuple[str, str, bool]]:
    """The clauses of a text as written, without short forms, and whether each begins with what somebody has."""
    found = []
    for clause in _CLAUSE.split(text):
        if clause and not clause.isspace():
            said = clause
            if "'" in said or "-old" in said or "cannot" in said:
                for short, long in _SHORT:
                    said = short.sub(long, said)
            found.append((clause, " ".join(said.split()), _OWNS.match(clause) is not None))
    return found


@dataclass(frozen=True, slots=True)
class _Text:
    """A clause, cut into words and figures.

    Attributes:
        written: as it was written.
        clause: without short forms.
        text: without reasons, idioms said in one word each.
        lower: `text` in lower case.
        items: its words and figures.
        owned: whether it begins with what somebody has.
        mood: `fact`, `past` or `plan`.
        measures: in what its figures are measured.
        added: as a claim has it.
    """

    written: str
    clause: str
    text: str
    lower: str
    items: list[Item]
    owned: bool
    mood: str
    measures: Measures
    added: bool

    @classmethod
    def of(cls, written: str, clause: str, owned: bool) -> _Text | None:
        """None for a question, a quotation, and what is too long for a note."""
        if "?" in clause or '"' in clause:
            return None
        text = plain(_REASON.sub("", _LETTERED.sub(r"\1-\2", clause)))
        lower = text.lower()
        found = items(lower)
        if not 0 < len(found) <= MAX_CLAUSE_ITEMS:
            return None
        numbers = any(isinstance(item, Figure) and not item.is_date for item in found)
        measured = measures(clause.lower()) if numbers else frozenset[tuple[str, str]]()
        added = terms.ADDED.search(lower) is not None
        return cls(written, clause, text, lower, found, owned, _mood(lower, found), measured, added)


def _mood(lower: str, found: Sequence[Item]) -> str:
    if terms.PLANS.search(lower):
        return "plan"
    if found[-1] in terms.STATUS or terms.LASTING.search(lower):
        return "fact"
    return "past" if terms.PAST.search(lower) or _is_event(found) else "fact"


def _is_event(found: Sequence[Item]) -> bool:
    """Whether the second or third word is a verb of the past: "Nora played", not "a used car", "is based"."""
    for before, item in pairwise(found[:3]):
        if isinstance(item, str) and len(item) > 4 and item.endswith("ed") and item not in terms.STATUS:
            return not axis(item)[0] and before not in _NO_ACTOR
    return False


# ── Relations ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Subject:
    """Whom a clause is about.

    Attributes:
        words: stems.
        keyed: whether only the key tells it.
        positive: whether what follows is affirmed of it.
        changed: whether what follows is new.
    """

    words: frozenset[str]
    keyed: bool
    positive: bool
    changed: bool


def _related(text: _Text, unnamed: frozenset[str], key: frozenset[str]) -> Iterator[Claim]:
    """The claims of one clause; `unnamed` is the subject if it names none, `key` the words of the key."""
    if text.mood == "fact":
        changed = not terms.CHANGES.isdisjoint(item for item in text.items if isinstance(item, str))
        hedged = _HEDGE.search(text.lower) is not None
        for rule in (_scheduled, _verbal, _attribute):
            if found := list(rule(text, unnamed, changed)):
                break
        else:
            found = list(_bare(text, key, changed))
        for claim in found:
            loose = claim.loose or hedged or text.added
            yield replace(claim, loose=loose, measures=text.measures, added=text.added)


def _scheduled(text: _Text, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`The launch is on 3 March`, `… was moved to 17 March`: when something takes place."""
    if said := _DATED.match(text.text):
        subject = _subject(said["subject"], unnamed, changed or said["moved"] is not None)
        if subject is not None and not subject.words & terms.ATTRIBUTES:
            for claim in _filled(subject, "takes place on", said["value"]):
                if claim.value.kind == "figure" and claim.value.figures[0].is_date:
                    yield claim


def _verbal(text: _Text, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`Nora works at Bosch`: the first relation that has a subject, and what a switch from something denies."""
    said = text.text
    for match in terms.RELATION.finditer(text.lower if len(text.lower) == len(said) else said):
        name = terms.RELATION_NAMES[int((match.lastgroup or "r0")[1:])]
        before, after = said[: match.start()], said[match.end() :]
        subject = _subject(before, unnamed, changed or _MOVES.search(match[0]) is not None)
        if subject is None:
            continue
        if name == "lives in":
            after = _DWELLING.sub(" ", after)
        elif name == "uses" and (switch := _SWITCH.match(after)):
            yield from _filled(replace(subject, positive=False), name, switch["left"])
            after = switch["new"]
        elif name == "leads" and (led := _value(after)):  # one leads many, and each is led by one
            name, after, subject = "led by", before, replace(subject, words=frozenset(led[0].words))
        yield from _filled(subject, name, after)
        return


def _attribute(text: _Text, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`The deadline of X is …`, `… is Nora's employer`: what an attribute's owner has; `Nora is a nurse`."""
    if not (said := _COPULA.match(text.text)):
        return
    left, right = said["subject"], said["value"]
    for owner, value in ((left, right), (right, left)):
        subject = _subject(owner, unnamed, changed)
        if subject is None or not subject.positive or (owner is right and not _OWNER.match(owner)):
            continue
        if subject.words & _RENEWED:
            subject = replace(subject, words=subject.words - _RENEWED or subject.words, changed=True)
        attributes = subject.words & terms.ATTRIBUTES
        name = terms.RELATION_OF.get(*attributes) if len(attributes) == 1 else None
        if not attributes and owner is left and _SORT.match(right):
            yield from _filled(subject, "is a", right)
        elif not attributes and (owner is right or len(subject.words) < 2):
            continue
        elif name and len(subject.words) == 2:
            yield from _filled(replace(subject, words=subject.words - attributes), name, value)
        else:
            spoken = [(stem(item), item) for item in items(owner.lower()) if isinstance(item, str)]
            for claim in _filled(subject, "is", value):
                yield replace(claim, spoken=(("", _LEADING_ARTICLE.sub("", owner.strip())), *spoken))
        return


def _bare(text: _Text, key: frozenset[str], changed: bool) -> Iterator[Claim]:
    """A value alone, such as a timezone: its key tells of what."""
    if (
        len(text.items) <= _MAX_BARE_ITEMS
        and terms.AUXILIARIES.isdisjoint(text.items)
        and key & terms.ATTRIBUTES
    ):
        yield from _filled(_Subject(key - _TRIVIAL, True, True, changed), "is", text.text)


def _subject(text: str, unnamed: frozenset[str], changed: bool) -> _Subject | None:
    """The subject of a clause, from the words before its verb; None if they are not a noun phrase."""
    found = items(text.strip().lower())
    words = [item for item in found if isinstance(item, str) and item not in terms.NEGATORS]
    positive = (len(found) - len(words)) % 2 == 0
    if "," in text or any(isinstance(item, Figure) for item in found):
        return None
    while words and words[-1] in _BEFORE_VERBS:
        words.pop()
    if not _NO_SUBJECT.isdisjoint(words):
        return None
    if not words or (words[0] in terms.PRONOUNS and len(words) == 1):
        return _Subject(unnamed, True, positive, changed) if unnamed else None
    stems = frozenset(stem(word) for word in words if word in terms.FIRST or word not in terms.STOP)
    if words[0] in terms.PRONOUNS:
        stems |= unnamed
    return _Subject(stems, False, positive, changed) if 0 < len(stems) <= _MAX_SUBJECT_WORDS else None


def _filled(subject: _Subject, name: str, after: str) -> Iterator[Claim]:
    """The claim that a subject has the value at the start of a text, under the conditions that follow it."""
    found = _value(after)
    if found is None or not subject.words:
        return
    value, rest, over = found
    rest, since = _SINCE.subn("", rest)
    aside = _ASIDE.search(rest)
    scope = rest[: aside.start()] if aside else rest
    yield Claim(
        subject=(subject.words - set(value.words) if subject.keyed else subject.words) or subject.words,
        relation=name,
        value=value,
        scope=frozenset(_contents(items(scope.lower()))),
        polarity=subject.positive,
        over=over,
        changed=subject.changed or since > 0,
        loose=aside is not None and bool(rest[aside.start() :].strip(" ,")),
    )


def _value(after: str) -> tuple[Value, str, tuple[str, ...]] | None:
    """The value at the start of a text, what comes after it, and what it is preferred over."""
    text = after.strip(" :").rstrip(" .,'")
    over: tuple[str, ...] = ()
    preferred = _OVER.search(text)
    phrase = _cut(text[: preferred.start()] if preferred else text)
    rest = text[len(phrase) :]
    if preferred:
        other = _cut(text[preferred.end() :])
        over = tuple(_contents(items(other.lower())))
        rest = text[preferred.end() + len(other) :] if preferred.start() <= len(phrase) + 1 else rest
    words = phrase.split()
    article = words[0].lower() if words and words[0].lower() in terms.ARTICLES else ""
    spoken = words[1:] if article else words
    figures = tuple(item for item in items(phrase.lower()) if isinstance(item, Figure))
    stems = tuple(_contents(item for item in items(" ".join(spoken).lower()) if isinstance(item, str)))
    if not (stems or figures) or len(stems) > _MAX_VALUE_WORDS:
        return None
    if _LISTED.match(rest) and not _ASIDE.match(rest):
        kind = "list"
    elif figures and not stems:
        kind = "figure"
    elif article in _INDEFINITE:
        kind = "a"
    else:
        kind = "name" if _is_name(spoken, article) else "word"
    return Value(stems, " ".join(spoken), kind, figures), rest, over


def _is_name(words: Sequence[str], article: str) -> bool:
    """Whether words are written as a name: with capitals, figures or signs; behind an article all of them."""
    like = [_NAME_LIKE.fullmatch(word) is not None for word in words]
    return all(like) if article else like[0] or like[-1]


def _cut(text: str) -> str:
    """A text up to the end of its first noun phrase."""
    end = _END.search(text)
    return text[: end.start()].rstrip() if end else text


# ── Whole clauses ───────────────────────────────────────────────────────────────────────


def _whole(text: _Text, unnamed: frozenset[str]) -> Clause:
    """A clause as one statement: its words, the axes it takes sides on, its figures, whether it is denied."""
    found = text.items
    verb = next((at for at, item in enumerate(found) if at and item in terms.AUXILIARIES), 0)
    opening = _opening(found, verb)
    named, sides = _named(found, verb)
    words = {f"@{item.text}": item.text for item in opening}
    for _, word, item in named:
        words.setdefault(word, item)
    if found[0] in terms.PRONOUNS:
        words |= {word: word for word in unnamed}
    return Clause(
        text=text.written,
        words=frozenset(words),
        spoken=tuple(words.items()),
        polarity=sum(item in terms.NEGATORS for item in found) % 2 == 0,
        mood=text.mood,
        sides=tuple(sorted(sides)),
        figures=tuple(item for item in found if isinstance(item, Figure) and item not in opening),
        measures=text.measures,
        states=frozenset(state for raw in words.values() if (state := terms.STATES.get(stem(raw)))),
        names=frozenset(stem(name.lower()) for name in _CAPITAL.findall(text.clause)),
        told=frozenset(word for at, word, _ in named if _is_told(found, at)),
        turned=_turned(text.clause),
        owned=text.owned,
        definite=found[0] in _DEFINITE or text.owned,
        added=text.added,
    )


def _opening(found: Sequence[Item], verb: int) -> list[Figure]:
    """The dates before the verb, or those that open a clause: they tell which occasion is meant."""
    end = max(verb, 3 * (found[0] in _OPENING))
    return [item for item in found[:end] if isinstance(item, Figure) and item.is_date]


def _named(
    found: Sequence[Item], verb: int
) -> tuple[list[tuple[int, str, str]], Iterable[tuple[str, bool, str]]]:
    """The content of a clause: place, stem (or axis, or status) and word of each item; and its axes, as `Clause.sides`."""
    named: list[tuple[int, str, str]] = []
    sides: dict[str, tuple[str, bool, str]] = {}
    for at, item in enumerate(found):
        if isinstance(item, Figure) or item in terms.NEGATORS or not _is_content(item):
            continue
        word, (name, side) = stem(item), axis(item)
        if item in terms.STATUS and (at == len(found) - 1 or 0 < verb < at):
            word = f"~{terms.STATUS[item]}"
        elif name and sides.setdefault(name, (name, side, item))[1] == side:
            word = name
        named.append((at, word, item))
    return named, sides.values()


def _is_told(found: Sequence[Item], at: int) -> bool:
    """Whether the item at a place follows a form of `be` or a preposition, with or without an article between them."""
    if at < 2:
        return False
    before = found[at - 2] if found[at - 1] in terms.ARTICLES else found[at - 1]
    return before in terms.BE or before in _LEADING


def _turned(clause: str) -> frozenset[str]:
    """The stems of those parts of a clause that tell of a turn of things."""
    parts = _PART.split(clause) if _is_turn(clause) else ()
    turns = [part.lower() for part in parts if _is_turn(part)]
    return frozenset(word for part in turns for word in _contents(items(part)))


def _is_turn(text: str) -> bool:
    return (terms.TURNS.search(text) or terms.HINTS.search(text)) is not None


def _is_content(word: str) -> bool:
    return word not in terms.STOP or word in terms.FIRST


def _contents(found: Iterable[Item]) -> list[str]:
    """The stems of the words that carry content, and the figures as words."""
    return [
        f"#{item.kind}{item.value}" if isinstance(item, Figure) else stem(item)
        for item in found
        if isinstance(item, Figure) or _is_content(item)
    ]
