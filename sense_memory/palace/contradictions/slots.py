"""Which slot a clause fills: a subject, a predicate, a value, and how surely the slot holds one value only.

"Lisa lives in Vancouver" fills (lisa, lives in) with vancouver; "speaks German" fills nothing, because one may
speak many languages. Pure; the grammar is a table of English predicates and nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.antonyms import WIDE_PLACES, is_quality, rivals
from sense_memory.palace.contradictions.words import (
    BE,
    FIRST,
    GENERIC,
    PRONOUNS,
    QUALIFIERS,
    STOP,
    stem,
    stems,
)


if TYPE_CHECKING:
    from collections.abc import Sequence


# predicate: patterns (the first word by stem, the others as written); `be` is skipped before participles.
_PREDICATES: Final = {
    "lives in": "live in;live at;reside in;based in;move to;moved to;relocate to;relocated to",
    "works at": "work at;work for;employed by;employed at",
    "born in": "born in;born at",
    "hosted on": "host on;host at;host by;host with;deployed on;deploy on",
    "runs on": "run on;run in;run at",
    "written in": "write in",
    "built with": "build with;build on;build in",
    "licensed under": "license under",
    "printed on": "print on",
    "located in": "locate in;situated in;headquartered in;incorporated in",
    "studies at": "study at",
    "majors in": "major in",
    "plays for": "play for",
    "measured in": "measure in",
    "paid in": "paid in",
    "stored in": "store in;kept in;keep in",
    "called": "call;name;rename to;renamed to",
    "married to": "marry to;marry;engaged to",
    "reports to": "report to",
    "belongs to": "belong to;owned by",
    "listens on": "listen on;listen at",
    "is at": "at",
    "is on": "on the;switch to the;move to the",
    "leads": "lead;head;chair",
    "chose": "choose;decide on;decide for;settle on;pick;opt for;go with;switch to;migrate to",
    "prefers": "prefer",
    "wants": "want",
    "uses": "use",
    "drives": "drive",
    "goes to": "go to;attend",
}
# Passive: one agent or one means at a time.
_BY: Final = "lead manage head run maintain own design host found handle teach chair"
_WITH: Final = (
    "deploy format lint bundle encrypt sign install manage compress render package frame serve power"
)
_PASSIVE: Final = {f"{verb} by": verb for verb in _BY.split()} | {
    f"{verb} with": verb for verb in _WITH.split()
}
EXCLUSIVE: Final = frozenset(
    """lives in|works at|born in|hosted on|runs on|built with|licensed under|printed on|located in|called|
    married to|reports to|belongs to|listens on|studies at|majors in|plays for|measured in|paid in""".replace(
        "\n    ", ""
    ).split("|")
) | frozenset(_PASSIVE)
# What a slot's subject may also be called in a key or a theme.
ALIASES: Final = stems("""live home city residence place address moved job work employer company birthplace born hosting host name
        called editor license ci build runs wife husband partner marriage boss reports manager owner belongs""")
# Nouns whose owner has one of them at a time: "the default branch is …", "Lisa's email is …".
ATTRIBUTES: Final = stems("""name email mail phone number address timezone zone birthday birthplace hometown color license capital ceo
        cto owner maintainer boss manager host browser os pronouns branch version port budget price cost rate
        salary deadline size age height weight password url domain currency font theme scheme wife husband spouse surname
        nickname handle username priority model backend encoding default favorite usual primary best
        preferred only limit maximum minimum target editor database engine storage location nationality
        employer shell provider path endpoint directory folder repository grade level plan tier frequency interval
        timeout ttl seat bank doctor dentist school university instrument major motto mascot framework format
        protocol algorithm strategy policy bucket cluster region author captain coach teacher landlord
        supplier sponsor president mayor director headquarters office nickname code mode channel server""")
_ORDER_TEXT: Final = """answer back build bundle call clean commit compile deploy encrypt format frame install keep lint log measure merge
    name order pack parse print publish render reply respond review run save scan send ship sign speak store test
    track translate update upload wash write"""
_ORDERS: Final = frozenset(_ORDER_TEXT.split())
_ARTICLES: Final = frozenset({"a", "an", "the"})
_LINKS: Final = frozenset({"in", "at", "to", "on", "for", "with", "by", "of"})


def _table() -> dict[str, list[tuple[str, tuple[str, ...], str]]]:
    table: dict[str, list[tuple[str, tuple[str, ...], str]]] = {}
    for name, patterns in (_PREDICATES | {name: name for name in _PASSIVE}).items():
        for pattern in patterns.split(";"):
            first, *rest = pattern.split()
            table.setdefault(stem(first), []).append((first, tuple(rest), name))
    for entries in table.values():
        entries.sort(key=lambda entry: -len(entry[1]))
    return table


_TABLE: Final = _table()


@dataclass(frozen=True, slots=True)
class Slot:
    """What a clause says about its subject.

    Attributes:
        subject: stems of the subject; empty where only the key can tell.
        predicate: the canonical name, such as `lives in`; `is` for everything after to be.
        value: stems of the value.
        text: the value as it was written.
        scope: stems of what limits the statement ("as …", "for …", "when …").
        over: stems of what the value was put above ("chose X over Y").
        article: the article that the value begins with, or nothing.
        person: whether the subject is the first person.
    """

    subject: frozenset[str]
    predicate: str
    value: frozenset[str]
    text: str
    scope: frozenset[str]
    over: frozenset[str]
    article: str
    person: bool


def contents(tokens: Sequence[str]) -> frozenset[str]:
    """The stems of the content words among lowercase tokens."""
    return frozenset(stem(word) for word in tokens if word not in STOP and word != ":")


def slot_of(tokens: Sequence[str]) -> Slot | None:
    """The slot that the lowercase tokens of one clause fill, if they fill one that this module knows."""
    found = _predicate(tokens)
    if found is not None:
        start, end, name = found
        subject = [token for token in tokens[:start] if token not in BE]
        if name == "chose" and not contents(subject):
            subject = []
        return _filled(subject, name, tokens[end:])
    instrument = _instrument(tokens)
    if instrument is not None:
        return instrument
    for place, token in enumerate(tokens):
        if token in BE and 0 < place < len(tokens) - 1:
            return _filled(tokens[:place], "is", tokens[place + 1 :])
    return None


def _predicate(tokens: Sequence[str]) -> tuple[int, int, str] | None:
    for place, token in enumerate(tokens):
        for first, rest, name in _TABLE.get(stem(token), ()):
            end = place + 1 + len(rest)
            if tuple(tokens[place + 1 : end]) != rest or (first in _LINKS and token != first):
                continue
            if first in {"on", "at"} and not (place and tokens[place - 1] in BE):
                continue
            if name in {"called", "leads"} and not _fits(name, tokens, place):
                continue
            if end < len(tokens):
                return place, end, name
    return None


def _fits(name: str, tokens: Sequence[str], place: int) -> bool:
    """`is called X` names a thing, `the call at nine` does not; `X leads Y` needs an X."""
    if name == "called":
        return tokens[place] in {"called", "named", "renamed"}
    return (
        place > 0
        and tokens[place] in {"leads", "led", "heads", "chairs", "lead"}
        and tokens[place - 1] not in STOP
    )


def _instrument(tokens: Sequence[str]) -> Slot | None:
    """`Lint Python with ruff`, `Answer the user in English`: an order, its object, and one way to do it."""
    if not tokens or tokens[0] not in _ORDERS:
        return None
    for link in ("with", "via", "using", "in"):
        if link in tokens:
            place = tokens.index(link)
            if 1 < place < len(tokens) - 1:
                return _filled(tokens[:place], f"… {link}", tokens[place + 1 :])
    return None


def _filled(subject: Sequence[str], name: str, after: Sequence[str]) -> Slot:
    value: list[str] = []
    scope: list[str] = []
    over: list[str] = []
    into = value
    for token in after:
        if token in QUALIFIERS and value:
            into = over if token in {"over", "than"} else scope
        else:
            into.append(token)
    words = contents(subject)
    return Slot(
        subject=words - GENERIC,
        predicate=name,
        value=contents(value),
        text=" ".join(word for word in value if word not in _ARTICLES and word != ":"),
        scope=contents(scope),
        over=contents(over),
        article=value[0] if value and value[0] in _ARTICLES else "",
        person=not (words - GENERIC) and any(token in FIRST for token in subject),
    )


def needs_key(slot: Slot, tokens: Sequence[str]) -> bool:
    """Whether only the key can tell whom the slot is about."""
    if slot.subject or slot.person or slot.predicate.startswith("…"):
        return False
    return (
        not tokens
        or tokens[0] in PRONOUNS
        or slot.predicate not in {"uses", "chose"}
        or tokens[0].endswith("s")
    )


# ── Values ──────────────────────────────────────────────────────────────────────────────
# Whether two values of one slot are different ones, and how surely the slot does not hold both. Pure.

SUGGESTED: Final = 0.6  # possible, and no more than that
_QUALITIES: Final = ("ful", "able", "ible", "ous", "less", "ish", "ly")
_CIRCUMSTANCES: Final = stems(
    """push commit demand background foreground production staging parallel time schedule night home weekend morning
    evening house office battery budget peace harmony luxury poverty fear"""
)
_PLACES: Final = frozenset({"lives in", "located in", "born in", "runs on", "works at", "is"})


def differs(old: Slot, new: Slot) -> bool:
    """Whether two values are different ones, and neither only says more than the other."""
    if not old.value or not new.value or old.value <= new.value or new.value <= old.value:
        return False
    short, long = sorted((old.text, new.text), key=len)
    if long.startswith(short):
        return False
    common = old.value & new.value
    if common and common <= ATTRIBUTES:  # "in the timezone CET": the attribute itself stands in the value
        return len(old.value) == len(new.value) == 2
    return not common or _same_head(old, new)


def _describes(slot: Slot) -> bool:
    """Whether a value is a quality rather than a thing: the supplier may be Tanabe and reliable."""
    last = slot.text.rpartition(" ")[2]
    return not slot.article and ((len(last) > 5 and last.endswith(_QUALITIES)) or is_quality(stem(last)))


def _same_head(old: Slot, new: Slot) -> bool:
    """`a window seat` and `an aisle seat`: the last word is what both are."""
    return (
        stem(old.text.rpartition(" ")[2]) == stem(new.text.rpartition(" ")[2])
        and min(len(old.value), len(new.value)) > 1
    )


def apart(
    old: frozenset[str], new: frozenset[str], contexts: tuple[frozenset[str], frozenset[str]]
) -> int | None:
    """How many limiting words only one side has; None if both have some of their own."""
    left, right = old - new - contexts[1], new - old - contexts[0]
    return None if left and right else len(left) + len(right)


def exclusive(old: Slot, new: Slot, themed: bool) -> float:
    """How surely a slot that holds one value does not hold the other: 0 where it may well.

    `themed` tells whether keys or themes share a word beside the subject.
    """
    name = old.predicate
    brief = max(len(old.value), len(new.value)) <= 2
    kin = (brief and rivals(old.value, new.value)) or _same_head(old, new)
    possible = SUGGESTED - 0.1 if themed else 0.0
    if name in _PLACES and not (old.value | new.value).isdisjoint(_CIRCUMSTANCES):
        return 0.0
    if name in _PLACES and name != "is" and (old.article == "the") != (new.article == "the"):
        return SUGGESTED  # a place and a part of it, or a firm and an office
    if name in _PLACES and (old.value.isdisjoint(WIDE_PLACES) != new.value.isdisjoint(WIDE_PLACES)):
        return SUGGESTED
    if name == "built with":
        return 0.84 if kin else possible
    if name in EXCLUSIVE:
        return SUGGESTED if {"a", "an"} & {old.article, new.article} else 0.88
    if name == "is at":
        return 0.84 if "." in old.text and "." in new.text else possible
    if name == "is":
        if _describes(old) or _describes(new):
            return 0.0
        if not (old.subject & new.subject | old.value & new.value).isdisjoint(ATTRIBUTES):
            return 0.86
        return SUGGESTED if old.article == new.article == "the" else 0.0
    if name == "chose":
        return 0.84 if kin or old.subject & new.subject or old.scope & new.scope else possible
    if name == "uses":
        return 0.84 if old.scope & new.scope else SUGGESTED if kin else 0.0
    if name.startswith("…"):
        return 0.82 if len(old.subject & new.subject) > 1 else 0.0
    if name == "prefers":
        return 0.84 if kin else possible
    if name == "is on":
        return 0.84 if _same_head(old, new) else 0.0
    return (0.82 if kin else 0.0) if name in {"wants", "goes to"} else possible
