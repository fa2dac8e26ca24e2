"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

Two clauses are aligned: what they share, and what is left of each. They contradict each other where they say the same
but for one difference: a denial, an opposite, a figure, a status, or another filler of one phrase, where that can have
one only. What is left besides is the rest: with none the contradiction acts; with more said on one side, or the rest
of both the same in other words, it is suspected. Each difference is a function. Where there is none, `suspicion` judges the
whole texts: `TURN`.

What is guaranteed: the same two memories and the same vectors have the same result. A contradiction has a kind, a
reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below the bound, the contradiction
is a suggestion for introspection.

Why it is safe: a wrong act costs more than a missed one, so whatever is not nearly sure ends below the bound: what an
embedder matched, a plan, the past, and a text that says more.

What it costs: a memory is read in some 0.2 ms. Comparing two costs some 4 µs where they share nothing, 30 µs where they
share words. Pure: no model, no clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.claims import read
from sense_memory.palace.contradictions.phrases import MAX_PHRASE_WORDS, matched, unless_named
from sense_memory.palace.contradictions.suspicion import meant, suspected
from sense_memory.palace.contradictions.vocabulary import (
    is_city,
    of_one_kind,
    place,
    statuses_apart,
    stem,
)


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.claims import Clause, Reading, Token
    from sense_memory.palace.contradictions.figures import Figure
    from sense_memory.palace.contradictions.phrases import Alike

ACT_BOUND: Final = 0.75
TURN: Final = "turn"  # the kind of what the later text as a whole seems to end
# How sure a rule is: an order of trust, set by hand, no frequencies.
_SURE: Final = 0.92
_FAIRLY_SURE: Final = 0.88
_LIKELY: Final = 0.6
_DOUBTFUL: Final = 0.5
_REASON_CHARS: Final = 60
_MAX_KIN_WORDS: Final = 6
_FEELINGS: Final = frozenset({"±like", "±trust", "±good", "±support"})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """That one memory contradicts another.

    Attributes:
        old: path of the existing memory.
        new: path of the new one.
        kind: `negation`, `antonym`, `sentiment`, `value`, `number`, `date`, `status` or `turn`.
        confidence: 0 to 1.
        reason: a fragment to read, such as `lives in: Berlin → Lisbon`; it quotes the memories.
        acts: whether the confidence reaches `ACT_BOUND`.
    """

    old: str
    new: str
    kind: str
    confidence: float
    reason: str = field(repr=False)
    acts: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", min(1.0, max(0.0, self.confidence)))


@dataclass(frozen=True, slots=True)
class Opposition:
    """What two memories oppose each other in: kind, confidence and reason as a `Contradiction` has them."""

    kind: str
    confidence: float
    reason: str

    def at_most(self, bound: float) -> Opposition:
        """The same, and not surer than a bound."""
        return replace(self, confidence=min(self.confidence, bound))


def compare(old: PersonaMemory, new: PersonaMemory, alike: Alike | None = None) -> Contradiction | None:
    """Whether a new memory contradicts an existing one.

    Memories of different domains or facets, linked as contradicting already, superseded, or two versions of
    one concurrent edit are never compared.

    Args:
        old: the existing memory.
        new: the new one.
        alike: how near two phrases are, such as `Phrases.alike`; by default only the same words mean the same.
            A match that needs it never acts.

    Returns:
        The surest opposition of their clauses, else that of the whole texts, or None.
    """
    return compare_readings(old, read(old), new, read(new), alike) if comparable(old, new) else None


def comparable(old: PersonaMemory, new: PersonaMemory) -> bool:
    """Whether two memories may be compared at all; see `compare`."""
    return (
        (old.domain, old.facet) == (new.domain, new.facet)
        and old.key != new.key
        and not (old.superseded_by or new.superseded_by)
        and not any(
            other.path in {one.conflict_of, *one.dismissed, *(one.contradicts or ())}
            for one, other in ((old, new), (new, old))
        )
    )


def compare_readings(
    old: PersonaMemory,
    old_reading: Reading,
    new: PersonaMemory,
    new_reading: Reading,
    alike: Alike | None = None,
) -> Contradiction | None:
    """As `compare`, for memories that are `comparable` and were read already."""
    best = None
    notes = old_reading.note, new_reading.note
    if not old_reading.keys.isdisjoint(new_reading.keys):
        best = _surest(old_reading, new_reading, None)
        if best is None and suspected(*notes):
            best = _ended(old)
    if best is None and alike is not None:
        best = _surest(old_reading, new_reading, unless_named(alike, old.value, new.value))
        if best is None and meant(*notes, alike):
            best = _ended(old)
    if best is None:
        return None
    if not old_reading.whole:
        best = best.at_most(_LIKELY)
    return Contradiction(
        old.path, new.path, best.kind, best.confidence, best.reason, best.confidence >= ACT_BOUND
    )


def _ended(old: PersonaMemory) -> Opposition:
    return Opposition(TURN, _DOUBTFUL, f"perhaps no longer true: {_quoted(old.value)}")


def between(old: str, new: str) -> str:
    """What two texts of one facet contradict each other in, for a look at the rules.

    >>> between("Nora works at Siemens", "Nora works at Bosch")
    'acts: works at: Siemens → Bosch'
    >>> between("Nora likes tea", "Nora likes juice")
    ''
    >>> between("Nora speaks German", "Nora speaks French")
    ''
    """
    place = {"domain": "world", "facet": "facts", "created_at": 1.0}
    sides = [
        PersonaMemory.model_validate(place | {"key": key, "value": value})
        for key, value in (("one-x", old), ("two-x", new))
    ]
    found = compare(sides[0], sides[1])
    return "" if found is None else f"{'acts' if found.acts else 'suspected'}: {found.reason}"


@dataclass(frozen=True, slots=True)
class _Aligned:
    """Two clauses, and what only one of them says.

    Attributes:
        shared: the keys of both.
        left: the tokens of the old one that the new one has not.
        right: those of the new one that the old one has not.
        apart: their figures, each with the other's at its place, that are not the same.
        flips: the axes on which they take two sides, with the words of both.
        relation: the name of the relation of both, or nothing.
    """

    old: Clause
    new: Clause
    shared: frozenset[str]
    left: tuple[Token, ...]
    right: tuple[Token, ...]
    apart: tuple[tuple[Figure | None, Figure | None], ...]
    flips: tuple[tuple[str, str, str], ...]
    relation: str

    @classmethod
    def of(cls, old: Clause, new: Clause, shared: frozenset[str]) -> _Aligned:
        """The alignment of two clauses that share keys."""
        figures = zip_longest(old.figures, new.figures)
        sides = product(old.sides, new.sides)
        return cls(
            old,
            new,
            shared,
            tuple(token for token in old.tokens if token.key not in shared),
            tuple(token for token in new.tokens if token.key not in shared),
            tuple((a, b) for a, b in figures if not a or not b or a.kind != b.kind or a.differs(b)),
            tuple((name, a, b) for (name, up, a), (other, to, b) in sides if name == other and up != to),
            next((key[1:] for key in sorted(shared) if key[0] == "→"), ""),
        )


Phrase: TypeAlias = "tuple[Token, ...]"
Found: TypeAlias = "tuple[Opposition, Phrase] | None"  # a difference, and the tokens that it consists of


def _surest(old: Reading, new: Reading, alike: Alike | None) -> Opposition | None:
    """The surest opposition of any two clauses."""
    found = (_clauses(one, other, alike) for one, other in product(old.clauses, new.clauses))
    return max(filter(None, found), key=attrgetter("confidence"), default=None)


def _clauses(old: Clause, new: Clause, alike: Alike | None) -> Opposition | None:
    """The opposition of two clauses."""
    shared = old.keys & new.keys
    if not shared or max(len(old.keys), len(new.keys)) > len(shared) + MAX_PHRASE_WORDS + 1:
        return None  # most pairs end here
    if old.mood != new.mood or new.added:
        return None
    pair = _Aligned.of(old, new, shared)
    found = _one_difference(pair, alike)
    is_doubtful = old.mood != "fact" or old.added or alike or _is_loose(pair)
    return found.at_most(_LIKELY) if found and is_doubtful else found


def _is_loose(pair: _Aligned) -> bool:
    """Whether both clauses may well be true: of any one of several, with an opposite that is not what is said of the
    subject, or with what they share in another order, so in other roles.

    >>> between("Anna has a big dog", "Anna has a small dog"), between("Some doors are open", "Some doors are closed")
    ('suspected: big → small', 'suspected: open → closed')
    >>> between("Parser depends on lexer", "Lexer does not depend on parser")
    'suspected: now denied: “Parser depends on lexer”'
    """
    old, new = ([one.key for one in side.tokens if one.key in pair.shared] for side in (pair.old, pair.new))
    is_aside = pair.flips and not all(_is_predicate(side, pair.flips[0][0]) for side in (pair.old, pair.new))
    is_any = any(_ANY.match(side.text) for side in (pair.old, pair.new)) and not (
        pair.apart and pair.old.text[:2].lower() in {"a ", "an"}
    )
    return is_aside or is_any or (old != new and not _over(pair.old, pair.relation))


_PLACES: Final = frozenset({"±befor", "±insid"})  # opposites that are prepositions
_ANY: Final = re.compile(
    r"\s*(?:an?|some\w*|many|several|most|few|one|two|three|another|sometimes|often|.* can be)\b",
    re.IGNORECASE,
)


def _is_predicate(clause: Clause, key: str) -> bool:
    """Whether a word is what a clause says of its subject: its verb, behind `be`, or its last word."""
    at = next((at for at, token in enumerate(clause.tokens) if token.key == key), 0)
    lead = clause.tokens[at].lead
    is_verb = at == 1 and not lead and key not in _PLACES
    return lead == "be" or at == len(clause.tokens) - 1 or is_verb


# ── One difference ──────────────────────────────────────────────────────────────────────


def _one_difference(pair: _Aligned, alike: Alike | None) -> Opposition | None:
    """The one difference of two clauses, as sure as what else is left of them allows.

    >>> between("Telemetry is enabled", "Telemetry is off"), between("Telemetry is off", "Telemetry is not enabled")
    ('acts: enabled → off', '')
    >>> between("Karl smokes", "Karl gave up smoking")
    'acts: now denied: “Karl smokes”'
    >>> between("House 1 is open", "House 2 is closed"), between("The red house is open", "The blue house is closed")
    ('', '')
    """
    opposed = len(pair.flips) + (pair.old.polarity != pair.new.polarity)
    if opposed + len(pair.apart) > 1:
        return None
    if opposed:
        found = _opposite(pair)
    elif pair.apart:
        found = _figure(pair)
    else:
        found = _reversed(pair) or _turned_word(pair) or _filler(pair, alike)
    if found:
        return _with_rest(pair, *found, alike)
    return None


def _with_rest(pair: _Aligned, found: Opposition, used: Phrase, alike: Alike | None) -> Opposition | None:
    """A difference, as sure as the rest of both clauses allows.

    >>> between("Nora works at Siemens in Munich", "Nora no longer works at Siemens")
    'suspected: now denied: “Nora works at Siemens in Munich”'
    >>> between("Ulric keeps seven goats", "Ulric keeps three goats after Easter")
    'suspected: seven → three'
    >>> between("Sessions last two hours", "Sessions of guests last eight hours")
    ''
    """
    left, right = (tuple(one for one in side if one not in used) for side in (pair.left, pair.right))
    if not left and not right:
        return found if found.kind != "value" or alike is None else None
    less, more = (pair.new, pair.old) if left else (pair.old, pair.new)
    is_wider = _goes_on(less, more) if found.kind in {"number", "date"} else _is_denial(less)
    if found.kind != "value" and is_wider and less.owned == more.owned and not (left and right):
        return found.at_most(_LIKELY)
    one, other = ([token.text.lower().partition(" ")[0] for token in side] for side in (left, right))
    pairs = matched(one, other, alike) if alike else []
    taken = "".join(f"; {before} ≈ {after}" for before, after in pairs)
    return replace(found, reason=_short(found.reason + taken)).at_most(_LIKELY) if pairs else None


def _is_denial(clause: Clause) -> bool:
    """Whether a clause denies, or takes the unfavourable side."""
    return clause.polarity == any(not side for _, side, _ in clause.sides)


def _goes_on(less: Clause, more: Clause) -> bool:
    """Whether one clause says what the other says, and then more."""
    return [one.key for one in more.tokens[: len(less.tokens)]] == [one.key for one in less.tokens]


def _opposite(pair: _Aligned) -> Found:
    """The same clause affirmed and denied: by a negation, or by a word for the opposite."""
    if len(pair.shared) < 2:
        return None
    for name, one, other in pair.flips:
        kind = "sentiment" if name in _FEELINGS else "antonym"
        return Opposition(kind, _SURE, _short(f"{one} → {other}")), ()
    said, when = (pair.new, "was") if pair.new.polarity else (pair.old, "now")
    return Opposition("negation", _SURE, f"{when} denied: {_quoted(said.text)}"), ()


def _figure(pair: _Aligned) -> Found:
    """The same clause with another figure.

    >>> between("The cache TTL is 10 minutes", "The cache TTL is 1 hour")
    'acts: 10 minutes → 1 hour'
    >>> between("The VoxRelay deadline is March 3", "The VoxRelay deadline is 17 March")
    'acts: march 3 → 17 march'
    >>> between("I have a dentist appointment on 4 May", "I have a dentist appointment on 9 May")
    ''
    >>> between("The inspector comes on 4 May", "The inspector comes again on 9 May")
    ''
    """
    old, new, (one, other) = pair.old, pair.new, pair.apart[0]
    if not old.polarity or old.mood == "past" or one is None or other is None or one.kind != other.kind:
        return None
    text = _short(f"{one.text} → {other.text}")
    if not one.is_date:
        return Opposition("number", _SURE, text), ()
    said = {key.lstrip("±→") for key in pair.shared}
    is_occasion = not said.isdisjoint(terms.OCCASIONS)
    if " again " in new.text or (is_occasion and not (old.definite and new.definite)):
        return None
    once = terms.SCHEDULED - (terms.TIMETABLED if one.kind == "clock" else set())
    is_once = new.changed or (not is_occasion and not said.isdisjoint(once))
    return Opposition("date", _SURE if is_once and len(old.figures) == 1 else _LIKELY, text), ()


def _reversed(pair: _Aligned) -> Found:
    """`A over B` against `B over A`.

    >>> between("We chose Orpheus over Kokoro", "We chose Kokoro over Orpheus")
    'acts: chose: Orpheus over Kokoro → Kokoro over Orpheus'
    """
    if pair.left or pair.right or pair.old.tokens[0].key != pair.new.tokens[0].key:
        return None
    one, other = _over(pair.old, pair.relation), _over(pair.new, pair.relation)
    if not one - other or not other - one:
        return None
    first, last = (" ".join(t.text for t in pair.old.tokens if t.key in keys) for keys in (other, one))
    text = f"{pair.relation or 'rather'}: {first} over {last} → {last} over {first}"
    return Opposition("value", _SURE, _short(text)), ()


def _over(clause: Clause, relation: str) -> frozenset[str]:
    """The keys of the phrase that something is preferred over."""
    leads = terms.OVER_PREFERRED if relation in {"prefers", "chose"} else terms.OVER
    phrases = {token.phrase for token in clause.tokens if token.lead in leads}
    return frozenset(token.key for token in clause.tokens if token.phrase in phrases)


def _turned_word(pair: _Aligned) -> Found:
    """The same clause with another status, or a word turned by its beginning.

    >>> between("The relaunch is in progress", "The relaunch is done"), between("The API is safe", "The API is unsafe")
    ('acts: ongoing → done', 'acts: safe → unsafe')
    """
    if not any(token.key[0] in "±~" for token in pair.left + pair.right):
        return None
    for one, other in product(pair.left, pair.right):
        is_turned = one.key.lstrip("±") == other.key.lstrip("±") and stem(one.text) != stem(other.text)
        if is_turned or (statuses_apart(one.key.lstrip("~"), other.key.lstrip("~")) and pair.old.polarity):
            text = _short(f"{one.text} → {other.text}")
            return Opposition("antonym" if is_turned else "status", _SURE, text), (one, other)
    return None


def _filler(pair: _Aligned, alike: Alike | None) -> Found:
    """The same clause with another filler of one phrase, where that has one filler only.

    >>> between("My favourite colour is blue", "My favourite colour is green")
    'acts: favourite colour: blue → green'
    >>> between("Lisa lives in Rome", "Lisa lives in Trastevere"), between("Lisa lives in Rome", "Lisa lives in Oslo")
    ('suspected: lives in: Rome → Trastevere', 'acts: lives in: Rome → Oslo')
    """
    olds, news = _phrases(pair.old, pair.left), _phrases(pair.new, pair.right)
    if not pair.old.polarity or (alike is None and max(len(olds), len(news)) > 1):
        return None  # whatever fills one, a rest is left
    for one, other in product(olds, news):
        if sure := _exclusive(pair, one, other, alike):
            rest = tuple(token for token in pair.left if token not in one)
            text = f"{_about(pair, rest)}: {_said(one)} → {_said(other)}"
            return Opposition("value", sure, _short(text)), one + other
    return None


def _phrases(clause: Clause, apart: Phrase) -> list[Phrase]:
    """The phrases of a clause that hold one of these tokens."""
    numbers = dict.fromkeys(token.phrase for token in apart)
    return [tuple(token for token in clause.tokens if token.phrase == number) for number in numbers]


def _said(phrase: Phrase) -> str:
    return " ".join(token.text for token in phrase)


def _about(pair: _Aligned, rest: Phrase) -> str:
    """What is said to be otherwise: the relation, or the attribute, whose name may be the rest."""
    shared = (token for token in pair.old.tokens if token.key in pair.shared)
    named = tuple(token for token in shared if token.text.lower() not in terms.FIRST)
    return pair.relation.replace("_", " ") or _said(rest or named)


def _exclusive(pair: _Aligned, one: Phrase, other: Phrase, alike: Alike | None) -> float:
    """How surely a phrase cannot have both fillers at once; 0 where it may well.

    >>> between("Team A lives in Rome", "Team D lives in Oslo"), between("Lisa lives in Vancouver", "Lisa lives in Canada")
    ('', 'suspected: lives in: Vancouver → Canada')
    >>> between("I work at Stripe", "I work at a bank"), between("Agent X is active", "Agent Y is inactive")
    ('', '')
    >>> between("Nora prefers short answers", "Nora prefers honest answers")
    'suspected: prefers: short answers → honest answers'
    """
    words, others = (tuple(stem(token.text.lower()) for token in phrase) for phrase in (one, other))
    if not _differ(words, others):
        return 0.0
    kind, leads = _kind(one) if _kind(one) == _kind(other) else "", {one[0].lead, other[0].lead}
    is_named, is_kin = kind == "name", _are_kin(words, others, pair.shared)
    values = terms.RELATIONS.get(pair.relation)
    if values == "held":
        return _FAIRLY_SURE if is_named and len(pair.shared) > 1 else 0.0
    if values == "many" and leads == {"→"}:
        is_head = min(len(words), len(others)) > 1 and words[-1] == others[-1]
        return _FAIRLY_SURE if is_kin and pair.relation == "prefers" else _LIKELY * (is_kin or is_head)
    if values and leads <= {"→", "be"}:
        is_one = values == "one" or (values == "place" and is_city(words) and is_city(others))
        is_several = pair.relation == "called" and not pair.shared.isdisjoint(terms.SEVERAL)
        return _FAIRLY_SURE if is_named and is_one and not is_several else _LIKELY * bool(kind)
    if _is_attribute(pair, kind, leads):
        return _FAIRLY_SURE
    if leads <= {"be", "→"} and is_named and alike:
        return _LIKELY
    if leads == {"be"} and kind in {"a", "name"}:
        is_told = len(pair.shared) > 1 and pair.shared.isdisjoint(terms.SEVERAL)
        return _LIKELY * (is_told if is_named else pair.new.changed)
    is_led = len(leads) == 1 and leads <= terms.PLACING | {"be", "with", "by", "via", "to"}
    is_placed = kind and leads <= terms.PLACING and pair.old.definite and len(pair.shared) > 1
    return _LIKELY if is_led and (is_kin or is_placed) else 0.0


def _is_attribute(pair: _Aligned, kind: str, leads: set[str]) -> bool:
    """Whether it is told what an attribute of somebody is: "her email is …"; not of one of several."""
    attributes = pair.shared & terms.ATTRIBUTES
    is_told = "be" in leads or (len(leads) == 1 and leads <= terms.PLACING)
    is_own = kind in {"a", "name"} or not attributes & terms.NAMED
    is_any = any(token.article == "a" for token in pair.old.tokens if token.key in attributes)
    return bool(attributes) and len(pair.shared) > 1 and is_told and is_own and not is_any


def _are_kin(words: tuple[str, ...], others: tuple[str, ...], shared: frozenset[str]) -> bool:
    """Whether two values differ in things of one kind, and in nothing else on both sides."""
    left, right = set(words) - shared, set(others) - shared
    pairs = product(words[:_MAX_KIN_WORDS], others[:_MAX_KIN_WORDS])
    return any(of_one_kind(a, b) and not (left - {a} and right - {b}) for a, b in pairs)


_NAME_LIKE: Final = re.compile(r"[^\W\d_]*[A-ZÀ-ÞŠŽ\d@/.#+][\w@/.#+-]*")


def _kind(phrase: Phrase) -> str:
    """`a` (one of a sort), `name` (with capitals, figures or signs; behind an article all of it), or `word`."""
    if phrase[0].article == "a":
        return "a"
    like = [_NAME_LIKE.fullmatch(token.text) is not None for token in phrase]
    return "name" if (all(like) if phrase[0].article else like[0] or like[-1]) else "word"


def _differ(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether two values are different ones, and neither says more than the other, or the same in short."""
    one, other = set(place(old)), set(place(new))
    if one <= other or other <= one:
        return False
    return not (_is_short(old, new) or _is_short(new, old))


def _is_short(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether a value is the initials, or the beginning, of another."""
    word = short[0] if short[0].isalpha() else f"{short[0]}."  # 3.1 is not the beginning of 3.11
    is_begun = any(part.startswith(word) for part in long) or word == "".join(part[0] for part in long)
    return len(short) == 1 < len(short[0]) and is_begun


def _short(text: str, limit: int = 2 * _REASON_CHARS) -> str:
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text[:400]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _quoted(text: str) -> str:
    return f"“{_short(text, _REASON_CHARS)}”"
