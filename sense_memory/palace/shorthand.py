"""One memory as a piece of the compressed format: the head of a line, and the text after the colon. Pure.

Guaranteed: the meaning stays. No word is moved, and no number, name, negation, modal verb, quantity, condition, date or
quotation is removed. A value cannot forge a line or a header: line breaks become `; `, and `[domain:` becomes
`(domain:`. Safe, because each rule applies only to a few forms in which nothing depends on the removed words; any other
sentence keeps all its words. The rules know English words, which hardly occur in texts of other languages. The cost is
some regular expressions for each memory.

* Head. "Lisa teaches workshops" under the key `lisa-teaches-workshops` gets the head `lisa` and the text "teaches
  workshops", so that memories about one subject can share a line; `alone` is the sentence, which costs less on a line of
  its own. Otherwise the head is what `palace.labels` finds missing in the text, if anything, and the sentence keeps its
  subject.
* `the` is removed where nothing depends on it, and `is a` after a subject that is the head. Every other word stays.
* A choice between two things of one kind becomes `x>y`: `Use pnpm>npm`. In the facet `decisions`, "We chose" is removed
  too, and a reason at the end is put in parentheses.
* Two or three plain words about a subject become one `hyphenated-word`, so that a list about a subject can be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.labels import label_of
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


@dataclass(frozen=True, slots=True)
class Piece:
    """A memory in a prompt.

    Attributes:
        head: the beginning of the line, before the colon; empty if the text needs none.
        text: the text after the colon; never empty.
        alone: a line of its own that says the same in fewer tokens, for a head that no other memory shares; or empty.
    """

    head: str
    text: str
    alone: str = ""

    @property
    def line(self) -> str:
        """The memory on a line of its own."""
        return self.alone or (f"{self.head}: {self.text}" if self.head else self.text)


# ── Cleaning ────────────────────────────────────────────────────────────────────────────

_EMPTY: Final = "(empty)"
_SPACES: Final = re.compile(r"[^\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BREAKS: Final = re.compile(r" ?[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_SIGNS: Final = (
    ".,;:!?\u2026\u3001\u3002\uff01\uff1a\uff1b\uff1f"  # after these, a line break becomes a space
)
_FORGED: Final = re.compile(r"[\[\uff3b]([\s\u200b-\u200f\u2060]*domain)", re.IGNORECASE)


def cleaned(text: str) -> str:
    """A text on one line that imitates no header; hidden characters are escaped."""
    text = _BREAKS.sub(_joint, _SPACES.sub(" ", text.strip()))
    return one_line(_FORGED.sub(r"(\1", text))


def _joint(found: re.Match[str]) -> str:
    """The replacement of a line break: a semicolon, or a space if a sign ends the line before."""
    before = found.string[: found.start()][-1:]
    return " " if before in _SIGNS else "; "


def header(domain: str, facet: str) -> str:
    """`[domain:people/facet:facts]`; brackets in names become parentheses."""
    return f"[domain:{_name(domain)}/facet:{_name(facet)}]"


def _name(text: str) -> str:
    return cleaned(text).replace("[", "(").replace("]", ")")


# ── The piece ───────────────────────────────────────────────────────────────────────────

# Quotations, code, addresses and options: hidden from every rule.
_LITERAL: Final = re.compile(
    r"`[^`]{0,500}`|\"[^\"]{0,500}\"|“[^”]{0,500}”|„[^“”]{0,500}[“”]|«[^»]{0,500}»|(?<![\w'])'[^']{0,500}'(?!\w)"
    r"|(?<![\w\u2018])\u2018[^\u2019]{0,500}\u2019(?!\w)|(?<!\S)(?:\S*(?:://|@|[\\{}<=|~$]|\w\()|--?[A-Za-z])\S*(?<![.,;:!?])"
)
_HIDDEN: Final = re.compile(r"\x1a(\d+)\x1a")


def head_of(key: str) -> str:
    """The key of a memory as the format has it."""
    return _name(key) or "?"


def plain(memory: PersonaMemory) -> Piece:
    """A memory under its key, word for word: the format without shorthand."""
    return Piece(head_of(memory.key), cleaned(memory.value) or _EMPTY)


def shorthand(memory: PersonaMemory) -> Piece:
    """A memory's piece of the compressed format."""
    whole = plain(memory)
    literals: list[str] = []

    def hide(found: re.Match[str]) -> str:
        literals.append(found[0])
        return f"\x1a{len(literals) - 1}\x1a"

    def short(text: str) -> str:
        text = _with_choice(_with_reason(text) if decision else text, decision=decision)
        text = _DECIDED.sub("", text) if decision else text
        return _without_last_dot(_without_the(text))

    def shown(text: str) -> str:
        return _HIDDEN.sub(lambda found: literals[int(found[1])], text) or whole.text

    decision = memory.facet == "decisions"
    text = _without_filler(_LITERAL.sub(hide, whole.text))
    head, rest, is_predicate = _split_head(whole.head, text, whole.text, is_own=memory.domain == "self")
    named = _IS_A.sub("", rest) if is_predicate else rest
    brief = short(named)
    brief = _hyphenated(brief) if is_predicate or head not in {"", whole.head} else brief
    alone = shown(short(text)) if is_predicate and named == rest else ""
    return Piece(head, shown(brief), alone)


# ── Words without content ───────────────────────────────────────────────────────────────

_FILLER: Final = (
    (
        re.compile(
            r"^(?:(?:Please )?note that|Keep in mind that|It is important to (?:note|know|remember) that) ",
            re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(r"\bdue to the fact that\b"), "because"),
    (re.compile(r"^Due to the fact that\b"), "Because"),
    (re.compile(r"\bin order to\b"), "to"),
    (re.compile(r"^In order to\b"), "To"),
)
_NEVER_DOTLESS: Final = re.compile(
    r"\.\.$|(?<!\d )(?:^|[\s(.])[^\W\d_]\.$|\b(?:am|ab|bis|den|dem|der|vom|zum|und|oder) \d{1,2}\.$"
    r"|\b(?:etc|usw|bzw|ca|approx|Jr|Sr|Inc|Ltd|Co|Corp|Nr|St|Str)\.$"
)
# `the` has a meaning before the first words, and after the second: the only, in the case of, all the time.
_THE_STAYS_BEFORE: Final = frozenset(
    "one ones other others more less better worse only same latter former following first last next previous second "  # noqa: SIM905 - reads best as words
    "third fourth fifth best worst most least very whole rest end beginning time way case event question place course "
    "front back house office point future past present fact moment day night red black poor rich old young elderly blind "
    "deaf dead sick injured homeless unemployed disabled public positive negative unknown right left number two three "
    "four five likes like and or of in on at to is are was were has had record fly spot side charge world".split()
)
_THE_STAYS_AFTER: Final = frozenset("all half twice double both what more less the".split())  # noqa: SIM905 - as above
# Before a name with a noun, `the` belongs to the noun: the Brightfold pilot; not so in the Hague, The Cure.
_THE: Final = re.compile(
    r"(?:^The|(?<![^ (])the) (?=[a-z0-9]|[A-Z][\w-]+ (?P<noun>[a-z]{3,})(?![\w'\u2019-]))"
)
_AFTER_THE: Final = re.compile(r"([\w-]+)(['\u2019])?")
# After a subject, the colon replaces `is a`, except where the noun would then read as an adjective: a patient, a minor.
_IS_A: Final = re.compile(
    r"^(?:is|are) an? (?=[A-Za-z\x1a])(?!(?:few|little|lot|bit|couple|number|hundred|thousand|million|dozen|half|quarter"
    r"|third|second|patient|minor|native|original|relative|professional|adult|right|cold|must|plus|minus|liberal"
    r"|conservative|radical|criminal|individual|human|mute|mobile|representative|executive|regular|novel|light|fine"
    r"|match|kind|mean|standard|potential|private|general|major|musical|classic|secret|given|high|low|first|no|good)\b)"
)


def _without_filler(text: str) -> str:
    for pattern, short in _FILLER:
        text = pattern.sub(short, text)
    return text


def _without_the(text: str) -> str:
    """A text without `the` before lower-case words and numbers, except where something depends on it."""
    return _THE.sub(_the, text)


def _the(found: re.Match[str]) -> str:
    """The replacement of `the`: nothing, or `the` itself where something depends on it."""
    after = _AFTER_THE.match(found.string, found.end())
    before = found.string[max(0, found.start() - 20) : found.start()].strip().rpartition(" ")[2]
    noun = found["noun"]
    stays = (
        after is None
        or (noun and (noun in _FUNCTION or noun in _VERBS or _VERB.fullmatch(noun)))
        or after[2]  # the user's
        or after[1] in _THE_STAYS_BEFORE
        or re.fullmatch(r"\d+(?:st|nd|rd|th)|\w{4,}est", after[1])
        or before.lower() in _THE_STAYS_AFTER
    )
    return found[0] if stays else ""


def _without_last_dot(text: str) -> str:
    return text[:-1] if text.endswith(".") and not _NEVER_DOTLESS.search(text) else text


# ── The head ────────────────────────────────────────────────────────────────────────────

WORD: Final = re.compile(r"[^\W_]+")
# Words that are neither nouns nor verbs: a name ends before such a word, and no predicate begins with one.
_FUNCTION: Final = frozenset(
    "a about above after against all almost along also although am among an and another any around as at be because been "  # noqa: SIM905 - reads best as words
    "before behind being below beside besides between beyond both but by despite during each either else even every except few "
    "for from he her here hers him his how i if in including inside into it its itself just least less like many more "
    "most much my near neither nobody none nor nothing of off on once one ones only onto or other our ours out outside "
    "over own per plus rather she since so some somebody someone such than that the their them then there these they this those though "
    "through till to together toward towards under unless until up upon us versus via vs we what when where whereas "
    "whether which while who whom whose why with within without yet you your instead "
    "nearly hardly barely rarely seldom perhaps maybe und oder mit von vom zum zur der die das bei aus als wie y e o con de del et ou avec du des com para ed en van".split()
)
_VERBS: Final = frozenset(
    "is are was were has have had do does did can cannot could may might must shall should will would not never no "  # noqa: SIM905 - as above
    "now still".split()
)
_VERB: Final = re.compile(
    r"[a-z]{2,}(?:s|ed|ly|n['\u2019]t)|also|became|began|bought|broke|brought|built|came|caught|chose|fell|felt|found|gave|got|grew"
    r"|held|kept|knew|left|led|lives?|lost|made|met|often|paid|ran|read|said|saw|sent|sold|spent|spoke|stood|taught|thought|told|took"
    r"|went|won|wrote"
)


def _split_head(key: str, value: str, said: str, *, is_own: bool) -> tuple[str, str, bool]:
    """The head for a value, the text without the words of the head, and whether the text is a predicate of the head.

    `said` is the value with its quotations, in which words of the key may stand; `is_own` as for `label_of`.
    """
    keys = list(WORD.finditer(key))
    names = [word[0].lower() for word in keys]
    label, colon, rest = value.partition(": ")
    if colon and rest and [word[0].lower() for word in WORD.finditer(label)] == names:
        return key, rest, True
    count, end = subject_of(names, value)
    needed = label_of(key, said, is_sentence=count > 0, is_own=is_own)
    if count and not needed:
        return key[: keys[count - 1].end()], value[end:].lstrip(" "), True
    return needed, value, False


def subject_of(names: list[str], value: str) -> tuple[int, int]:
    """How many words of the key are the subject at the beginning of the value, and where it ends; (0, 0) for none.

    A subject is followed by a verb; without a verb there is no subject.
    """
    article = re.match(r"(?:The|the|An?) (?=[a-z])", value) or _THE.match(value)
    place = article.end() if article and (value[article.end()].islower() or not _the(article)) else 0
    subject = (0, 0)
    for count, name in enumerate(names, 1):
        word = WORD.match(value, place)
        if (
            word is None
            or word[0].lower() != name
            or name in _FUNCTION
            or (count > 1 and name.endswith("ly"))
        ):
            break
        place = word.end()
        follower = re.match(r" ([a-z][a-z'\u2019-]+)(?=[ .,;]|$)", value[place:])
        if follower and follower[1] in _VERBS:
            return count, place
        if follower and follower[1] not in _FUNCTION and _VERB.fullmatch(follower[1]) and not subject[0]:
            subject = count, place
        place += value[place : place + 1] in {" ", "-", "_"}
    return subject


def _hyphenated(text: str) -> str:
    """Two or three plain words joined by hyphens; any other text unchanged."""
    words = text.split(" ")
    is_plain = all(re.fullmatch(r"[a-z]+(?:-[a-z]+)*", word) for word in words[:-1]) and re.fullmatch(
        r"[a-z]+(?:-[a-z]+)*|[A-Z]{2,4}", words[-1]
    )
    if not (2 <= len(words) <= 3 and is_plain) or any(
        word in _FUNCTION or (word in _VERBS and (index or word != "no")) for index, word in enumerate(words)
    ):
        return text
    return "-".join(words).lower()


# ── Choices and reasons ─────────────────────────────────────────────────────────────────

_CHOICE: Final = re.compile(
    r"^(?P<verb>(?:(?:We|we|I) )?(?P<chose>[Cc]hose|[Pp]icked|[Ss]elected|went with|opted for|settled on|decided on|decided to) "
    r"|(?:(?:We|we|I) )?(?:[Pp]refers?|[Uu]ses?|[Cc]hoose|[Pp]ick) |)"
    r"(?P<chosen>[^\s,;:!?()>]+(?: [^\s,;:!?()>]+){0,2}?) (?P<mark>over|instead of|rather than) "
    r"(?P<other>[^\s,;:!?()>]+?(?: [^\s,;:!?()>]+?){0,2}?)"
    r"(?P<rest>\.?$|[,;:] .*| \(.*|\. .*| (?:because|for|in|on|at|as|from|until|unless|if|when|where|wherever|since|but|to|with|by) .*)$"
)
# Before these words, `over` names a way or a time, not a choice: a call over lunch, DNS over HTTPS.
_WAYS: Final = frozenset(
    "zoom teams phone telephone email mail signal slack discord chat video lunch dinner breakfast tcp udp tls ssl ssh "  # noqa: SIM905 - as above
    "http https tor wifi ethernet vpn quic websocket websockets usb bluetooth lan radio land sea weekend weekends night "
    "christmas easter summer winter spring autumn time".split()
)
_NO_THING: Final = (
    _FUNCTION
    | _VERBS
    | frozenset(
        "today yesterday tomorrow again anyway first last next too later earlier two three four five six seven eight nine "  # noqa: SIM905 - as above
        "ten eleven twelve twenty thirty hundred thousand half twice three-quarters".split()
    )
)
_DECIDED: Final = re.compile(r"^(?:We|we) (?:have )?(?:decided|agreed) to (?=[a-z]+ (?!over\b))")
_REASON: Final = re.compile(r",? because(?P<of> of)? (?P<reason>[^;!?()]{1,500}?)\.?$")
_NOT_A_REASON: Final = re.compile(
    r"\b(?:unless|until|except|but|although|though|while|whereas|because|so|if|when)\b|\. ", re.IGNORECASE
)
_NOT_BEFORE_A_REASON: Final = re.compile(
    r"\b(?:no|not|never|nor|neither|nobody|nothing|none|without|cannot|hardly|because|that|said"
    r"|(?:believe|think|say|claim|hope|fear|feel|expect|suspect|guess|argue|know)s?)\b|n['\u2019]t\b|[;()]|\. "
    r"|\b(?:only|just|partly|mainly|mostly|simply|probably|perhaps|maybe|is|was|are|were|and|or|but|even)$",
    re.IGNORECASE,
)


def _with_choice(text: str, *, decision: bool) -> str:
    """`We chose Orpheus 3B over Kokoro` becomes `orpheus-3b>kokoro`, if both sides are certainly of one kind.

    They are if both are names, or both are the same number of plain words. The choice must begin the text.
    """
    found = _CHOICE.match(text)
    if found is None or not (found["verb"] or decision):
        return text
    chosen, other = _side(found["chosen"]), _side(found["other"])
    names = _is_name(chosen) and _is_name(other)
    words = _is_common(chosen) and _is_common(other) and len(chosen) == len(other)
    decided_to = found["chose"] == "decided to"
    if (decided_to and found["mark"] == "over") or not (words or (names and not decided_to)):
        return text
    if (found["mark"] == "over" and other[0].lower() in _WAYS) or not (found["verb"] or names):
        return text
    verb = "" if decision and found["chose"] else found["verb"]
    is_slug = decision and max(len(chosen), len(other)) > 1  # a lone name keeps its case
    sides = ["-".join(_lowered(word) if is_slug else word for word in side) for side in (chosen, other)]
    return f"{verb}{'>'.join(sides)}{found['rest']}"


def _side(words: str) -> list[str]:
    return re.sub(r"^(?:an?|the) |\b(?:our|my) (?=own$)", "", words).split(" ")


def _is_name(words: list[str]) -> bool:
    """Whether every word looks like a name: `Orpheus 3B`, `D1`, `useState`."""
    return all(
        re.fullmatch(r"(?=.*[A-Z])[\w.+#-]+", word) and not (word.istitle() and word.lower() in _NO_THING)
        for word in words
    )


def _is_common(words: list[str]) -> bool:
    """Whether every word is plain and in lower case: `tabs`, `snake_case`."""
    return all(
        re.fullmatch(r"[a-z]+(?:[-_][a-z]+)*", word) and (word not in _NO_THING or (word == "own" and index))
        for index, word in enumerate(words)
    )


def _lowered(word: str) -> str:
    return word.lower() if re.fullmatch(r"[A-Z][a-z]+|\d+(?:\.\d+)?B", word) else word


def _with_reason(text: str) -> str:
    """`… because it is cheap.` becomes `… (it is cheap)`, if the reason ends the text and is unambiguous."""
    found = _REASON.search(text)
    if found is None or not found.start():
        return text
    before, reason = text[: found.start()], found["reason"]
    if _NOT_A_REASON.search(reason) or _NOT_BEFORE_A_REASON.search(before):
        return text
    if found["of"]:
        items = [item.strip() for item in re.sub(r"(?<!,) and (?=[^,]*$)", ", ", reason).split(",")]
        if any(len(item.split(" ")) > 4 or item.startswith(("and ", "or ")) for item in items):
            return text
        reason = re.sub(r"^(?:its|the|an?) ", "", ", ".join(items))
    elif "," in reason:
        return text
    return f"{before} ({reason})"
