"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

Two claims contradict each other where their subjects, relations and scopes agree, the relation holds one value (or the
same clause is denied), and their values are of one kind and differ. Two whole clauses do where they say the same but
for one difference: a denial, an opposite, a figure, a status. Each rule is a function of two claims or of two whole
clauses; only `TURN` compares the texts.

What is guaranteed: the same two memories and the same vectors have the same result. A contradiction has a kind, a
reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below the bound, the contradiction
is a suggestion for introspection.

Why it is safe: a wrong act costs more than a missed one, so whatever is not nearly sure ends below the bound. That is
all that holds only in other words, for plans and the past, under other conditions, or of a memory that says more.

What it costs: a memory is read in some 0.2 ms. Comparing two costs some 4 µs where they share nothing, 30 µs where they
share words. Pure: no model, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.claims import read
from sense_memory.palace.contradictions.figures import measured_apart
from sense_memory.palace.contradictions.phrases import GOOD, MAX_PHRASE_WORDS, is_turn, matched, unless_named
from sense_memory.palace.contradictions.vocabulary import is_city, of_one_kind, place, statuses_apart, stem


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.palace.contradictions.claims import Claim, Clause, Reading, Value
    from sense_memory.palace.contradictions.figures import Figure
    from sense_memory.palace.contradictions.phrases import Alike

ACT_BOUND: Final = 0.75
TURN: Final = "turn"  # the kind of what an embedder tells to have ended
# How sure a rule is: an order of trust, set by hand, no frequencies.
_SURE: Final = 0.92
_FAIRLY_SURE: Final = 0.88
_LIKELY: Final = 0.6
_FELT: Final = 2.2  # standard deviations from what is neither good nor bad
_REASON_CHARS: Final = 60
_MAX_SUPERSEDED_WORDS: Final = 9
_FEELINGS: Final = frozenset({"±like", "±trust", "±good", "±support"})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """That one memory contradicts another.

    Attributes:
        old: path of the existing memory.
        new: path of the new one.
        kind: `negation`, `antonym`, `sentiment`, `value`, `number`, `date`, `status` or `turn`.
        confidence: 0 to 1; a rule that subtracts or adds too much ends at the bound.
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
    """What two claims oppose each other in: kind, confidence and reason as a `Contradiction` has them."""

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
            What holds only if different words do is never sure enough to act.

    Returns:
        The surest opposition of their claims, or None.
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
    if not old_reading.keys.isdisjoint(new_reading.keys):
        best = _surest(old_reading, new_reading, None)
    if best is None and alike is not None:
        best = _surest(old_reading, new_reading, unless_named(alike, old.value, new.value))
        is_added = any(clause.added for clause in new_reading.clauses)
        if best is None and not is_added and is_turn(old.value, new.value, alike):
            best = Opposition(TURN, 0.5, f"perhaps no longer true: {_quoted(old.value)}")
    if best is None:
        return None
    if not old_reading.whole:
        best = best.at_most(_LIKELY)
    return Contradiction(
        old.path, new.path, best.kind, best.confidence, best.reason, best.confidence >= ACT_BOUND
    )


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


def _surest(old: Reading, new: Reading, alike: Alike | None) -> Opposition | None:
    """The surest opposition of any two clauses or claims; of equally sure ones, that of a relation."""
    found = []
    for one in old.claims:
        if not any(_told(one) == _told(other) for other in new.claims):
            found += [_relations(one, other, alike) for other in new.claims]
    found += [_clauses(one, other, alike) for one in old.clauses for other in new.clauses]
    return max(filter(None, found), key=attrgetter("confidence"), default=None)


_told: Final = attrgetter("relation", "subject", "value", "polarity")


def _clauses(old: Clause, new: Clause, alike: Alike | None) -> Opposition | None:
    """The opposition of two clauses as wholes."""
    is_close = old.mood == new.mood and abs(len(old.words) - len(new.words)) <= MAX_PHRASE_WORDS
    if new.added or not (
        is_close or new.turned or (old.states and new.states) or (old.figures and new.figures)
    ):
        return None  # most pairs end here
    shared = old.words & new.words
    if not shared or (old.measures != new.measures and measured_apart(old.measures, new.measures)):
        return None
    found = _said(old, new, shared, alike) if is_close else None
    if found is None:
        return _superseded(old, new) or _other_figure(old, new) or _states(old, new)
    return found.at_most(_LIKELY) if old.mood != "fact" or old.added or alike else found


def _relations(old: Claim, new: Claim, alike: Alike | None) -> Opposition | None:
    """The opposition of two claims of relations."""
    if alike is None and (old.relation != new.relation or old.subject != new.subject):
        return None
    if new.added or measured_apart(old.measures, new.measures):
        return None
    if alike is not None:
        return _other_words(old, new, alike)
    found = _reversed(old, new) or _denied(old, new) or _replaced(old, new)
    return found.at_most(_LIKELY) if found and (old.loose or new.loose or old.scope != new.scope) else found


# ── Rules for whole clauses ─────────────────────────────────────────────────────────────


def _said(old: Clause, new: Clause, shared: frozenset[str], alike: Alike | None) -> Opposition | None:
    """The same clause with one difference: its side, a figure, a status, a thing of one kind.

    >>> between("Telemetry is enabled", "Telemetry is off"), between("Telemetry is off", "Telemetry is not enabled")
    ('acts: enabled → off', '')
    >>> between("Karl smokes", "Karl gave up smoking")
    'acts: now denied: “Karl smokes”'
    >>> between("The cache TTL is 10 minutes", "The cache TTL is 1 hour")
    'acts: 10 minutes → 1 hour'
    >>> between("House 1 is open", "House 2 is closed"), between("The red house is open", "The blue house is closed")
    ('', '')
    """
    left, right = old.words - new.words, new.words - old.words
    if len(left) > MAX_PHRASE_WORDS or len(right) > MAX_PHRASE_WORDS:
        return None
    found = _opposite(old, new, shared) or _figure(old, new, shared)
    if found is None and alike is not None and (felt := _felt(old, new, shared, alike)):
        return felt
    if found is None and len(left) == len(right) == 1:
        return _one_word(old, new)
    if found is None or not (left or right):
        return found
    less, more = (new, old) if not right else (old, new)
    if (
        not (left and right)
        and len(left | right) <= 2
        and old.owned == new.owned
        and old.spoken[:1] == new.spoken[:1]
        and (_is_denial(less) if found.kind != "number" else _goes_on(less, more))
    ):
        return found.at_most(_LIKELY)  # the wider claim is the one denied, or only the end is added
    if alike is not None and (pairs := matched(_spoken(old, left), _spoken(new, right), alike)):
        taken = "".join(f"; {one} ≈ {other}" for one, other in pairs)
        return replace(found, reason=_short(found.reason + taken)).at_most(_LIKELY)
    return None


def _is_denial(clause: Clause) -> bool:
    """Whether a clause denies, or takes the unfavourable side."""
    return clause.polarity == any(not side for _, side, _ in clause.sides)


def _goes_on(less: Clause, more: Clause) -> bool:
    """Whether one clause says what the other says, and then more.

    >>> between("Ulric keeps seven goats", "Ulric keeps three goats after Easter")
    'suspected: seven → three'
    >>> between("Sessions last two hours", "Sessions of guests last eight hours")
    ''
    """
    return [word for word, _ in more.spoken[: len(less.spoken)]] == [word for word, _ in less.spoken]


def _opposite(old: Clause, new: Clause, shared: frozenset[str]) -> Opposition | None:
    """The same clause affirmed and denied: by a negation, or by a word for the opposite."""
    flips = [
        (name, one, other)
        for name, side, one in old.sides
        for their_name, their_side, other in new.sides
        if name == their_name and side != their_side
    ]
    if len(flips) + (old.polarity != new.polarity) != 1 or len(shared) < 2 or _figures_apart(old, new):
        return None
    if flips:
        name, one, other = flips[0]
        return Opposition("sentiment" if name in _FEELINGS else "antonym", _SURE, _short(f"{one} → {other}"))
    said, when = (new, "was") if new.polarity else (old, "now")
    return Opposition("negation", _SURE, f"{when} denied: {_quoted(said.text)}")


def _figures_apart(old: Clause, new: Clause) -> list[tuple[Figure | None, Figure | None]]:
    """The figures of two clauses, each with the other's at its place, that are not the same."""
    return [
        (one, other)
        for one, other in zip_longest(old.figures, new.figures)
        if one is None or other is None or one.kind != other.kind or one.differs(other)
    ]


def _figure(old: Clause, new: Clause, shared: frozenset[str]) -> Opposition | None:
    """The same clause with another figure.

    >>> between("The VoxRelay deadline is March 3", "The VoxRelay deadline is 17 March")
    'acts: march 3 → 17 march'
    >>> between("I have a dentist appointment on 4 May", "I have a dentist appointment on 9 May")
    ''
    """
    apart = _figures_apart(old, new)
    if len(apart) != 1 or not (old.polarity and new.polarity) or old.mood == "past":
        return None
    one, other = apart[0]
    if one is None or other is None or one.kind != other.kind:
        return None
    if not {side[:2] for side in old.sides} <= {side[:2] for side in new.sides}:
        return None
    text = _short(f"{one.text} → {other.text}")
    if not one.is_date:
        return Opposition("number", _SURE, text)
    if shared & terms.OCCASIONS:
        return Opposition("date", _LIKELY, text) if old.definite and new.definite else None
    once = terms.SCHEDULED if new.turned else terms.scheduled(one.kind)
    return Opposition("date", _SURE if shared & once else _LIKELY, text)


def _one_word(old: Clause, new: Clause) -> Opposition | None:
    """The same clause with another status, another thing of one kind, or a word turned by its beginning.

    >>> between("The relaunch is in progress", "The relaunch is done"), between("The API is safe", "The API is unsafe")
    ('acts: ongoing → done', 'acts: safe → unsafe')
    """
    if old.polarity != new.polarity or _figures_apart(old, new):
        return None
    (one,), (other,) = old.words - new.words, new.words - old.words
    said, now = dict(old.spoken).get(one, one), dict(new.spoken).get(other, other)
    text = _short(f"{said} → {now}")
    if one.lstrip("±") == other.lstrip("±"):
        return Opposition("antonym", _SURE, text) if stem(said) != stem(now) else None
    if not old.polarity or old.sides != new.sides:
        return None
    if statuses_apart(one.lstrip("~"), other.lstrip("~")):
        return Opposition("status", _SURE, text)
    is_told = of_one_kind(one, other) and one in old.told and other in new.told
    if is_told or _is_slot(old, new):
        return Opposition("value", _LIKELY, text)
    return None


def _is_slot(old: Clause, new: Clause) -> bool:
    """Whether the one word that differs is what is said of a subject under a condition that both share.

    >>> between("Ffion plays the cello in the quartet", "Ffion plays the viola in the quartet")
    'suspected: cello → viola'
    >>> between("Ffion plays the cello", "Ffion plays the viola")
    ''
    """
    at = _place_of(old, old.words - new.words)
    condition = old.spoken[at + 1 :]
    is_same = old.spoken[:at] == new.spoken[:at] and condition == new.spoken[at + 1 :]
    return (
        is_same
        and at > 1
        and bool(condition)
        and condition[0][0] in old.told & new.told
        and old.mood == "fact"
    )


def _superseded(old: Clause, new: Clause) -> Opposition | None:
    """What was said of something, and later of the same thing that it took a turn.

    >>> between("Eszter's operation is on 3 October", "The clinic postponed Eszter's operation to 11 November")
    "suspected: perhaps no longer true: “Eszter's operation is on 3 October”"
    >>> between("My favorite colour is green", "My favorite band is Tinariwen now")
    ''
    """
    if not new.turned or old.turned or not old.polarity or old.mood == "past" or new.mood == "plan":
        return None
    vague = _VAGUE | _OWN if new.polarity else _VAGUE  # "I quit …" ends what I do; "now I …" may not
    words = {word: raw for word, raw in old.spoken if word[0] not in "±~@" and word not in vague}
    shared = {word for word, raw in words.items() if word in new.turned and not terms.TURNS.search(raw)}
    used = "replac" in new.words and {"use", "uses", "run", "runs"} & {raw for _, raw in old.spoken}
    least = 1 if used and shared == {new.spoken[0][0]} else max(2, len(words) / 3)
    if len(words) > _MAX_SUPERSEDED_WORDS or len(shared) < least:
        return None
    return Opposition("status", _LIKELY, f"perhaps no longer true: {_quoted(old.text)}")


def _states(old: Clause, new: Clause) -> Opposition | None:
    """Two states of one person that exclude each other.

    >>> between("Salma's husband is Idris", "Salma is divorced"), between("Karl is vegan", "Karl ordered the steak")
    ('suspected: husband → divorced', 'suspected: vegan → steak')
    """
    apart = sorted(state for state in old.states if (state[0], not state[1]) in new.states)
    if not apart or old.spoken[0][0] != new.spoken[0][0] or old.mood != "fact" or new.mood == "plan":
        return None
    if not (old.polarity and new.polarity) or len(old.spoken) > _MAX_SUPERSEDED_WORDS:
        return None
    number, side = apart[0]
    before = next(raw for _, raw in old.spoken if terms.STATES.get(stem(raw)) == (number, side))
    after = next(raw for _, raw in new.spoken if terms.STATES.get(stem(raw)) == (number, not side))
    return Opposition("status", _LIKELY, f"{before} → {after}")


def _other_figure(old: Clause, new: Clause) -> Opposition | None:
    """Another figure of the same kind for the same thing, in other words.

    >>> between("The depot holds 40 crates", "The capacity of the depot is 60 crates")
    'suspected: 40 → 60'
    >>> between("The EU server has 8 cores", "The US server has 4 cores")
    ''
    """
    if len(old.figures) != 1 or len(new.figures) != 1 or old.polarity != new.polarity or old.mood != new.mood:
        return None
    one, other = old.figures[0], new.figures[0]
    left, right = old.words - new.words, new.words - old.words
    shared = (old.words & new.words) - _VAGUE
    if old.mood != "fact" or not one.differs(other) or not ((left and right) or new.turned):
        return None
    if len(left) == len(right) == 1 and _place_of(old, left) == _place_of(new, right):
        return None  # one word for another: another thing
    if not old.spoken or old.spoken[0][0] not in shared or (left & old.names and right & new.names):
        return None
    if one.is_date and (shared & terms.OCCASIONS or not (old.words | new.words) & terms.SCHEDULED):
        return None
    if len(shared) < 2 or 2 * len(shared) < min(len(old.words), len(new.words)):
        return None
    return Opposition("date" if one.is_date else "number", _LIKELY, _short(f"{one.text} → {other.text}"))


def _place_of(clause: Clause, words: frozenset[str]) -> int:
    return next(at for at, (word, _) in enumerate(clause.spoken) if word in words)


_OWN: Final = terms.words("me us favorit sinc")
_VAGUE: Final = terms.words(
    "make go have get feel think work day time year good new thing way help take want life"
)


# ── Rules for relations ─────────────────────────────────────────────────────────────────


def _reversed(old: Claim, new: Claim) -> Opposition | None:
    """`A over B` against `B over A`.

    >>> between("We chose Orpheus over Kokoro", "We chose Kokoro over Orpheus")
    'acts: chose: Orpheus over Kokoro → Kokoro over Orpheus'
    """
    if not (old.over and new.over) or old.polarity != new.polarity:
        return None
    if set(old.over) != set(new.value.words) or set(new.over) != set(old.value.words):
        return None
    text = f"{old.relation}: {old.value.text} over {new.value.text} → {new.value.text} over {old.value.text}"
    return Opposition("value", _SURE, _short(text))


def _denied(old: Claim, new: Claim) -> Opposition | None:
    """A relation affirmed and denied of one value.

    >>> between("Nora works at Siemens in Munich", "Nora no longer works at Siemens")
    'suspected: works at: Siemens, now denied'
    """
    one, other = old.value, new.value
    if old.polarity == new.polarity or (one.words, one.figures) != (other.words, other.figures):
        return None
    word = "now" if old.polarity else "was"
    return Opposition("negation", _SURE, _short(f"{old.relation}: {old.value.text}, {word} denied"))


def _replaced(old: Claim, new: Claim) -> Opposition | None:
    """A relation that holds one value, with another value of the same kind.

    >>> between("My favourite colour is blue", "My favourite colour is green")
    'acts: favourite colour: blue → green'
    >>> between("Team A lives in Rome", "Team D lives in Oslo"), between("Lisa lives in Vancouver", "Lisa lives in Canada")
    ('', '')
    >>> between("I work at Stripe", "I work at a bank"), between("Agent X is active", "Agent Y is inactive")
    ('', '')
    >>> between("Lisa lives in Rome", "Lisa lives in Trastevere"), between("Lisa lives in Rome", "Lisa lives in Oslo")
    ('suspected: lives in: Rome → Trastevere', 'acts: lives in: Rome → Oslo')
    >>> between("The rent is 900 euros", "The rent will be 950 euros from March")
    'suspected: rent: 900 euros → 950 euros'
    >>> between("Nora prefers short answers", "Nora prefers honest answers")
    'suspected: prefers: short answers → honest answers'
    """
    is_wider = old.scope != new.scope and (old.scope or not new.changed)
    if not (old.polarity and new.polarity) or old.over or new.over or is_wider:
        return None
    sure = _exclusive(old, new, old.value, new.value) if _differ(old.value, new.value) else 0.0
    name = old.spoken[0][1] if old.spoken else old.relation
    text = _short(f"{name}: {old.value.text} → {new.value.text}")
    return Opposition(_kind_of(old.value), sure, text) if sure else None


def _kind_of(value: Value) -> str:
    return "value" if value.kind != "figure" else "date" if value.figures[0].is_date else "number"


def _differ(old: Value, new: Value) -> bool:
    """Whether two values are different ones, and neither says more than the other, or the same in short."""
    if any(figure.kind.startswith("~") for figure in old.figures + new.figures):
        return False
    if old.figures and new.figures and old.words == new.words:
        return len(old.figures) == len(new.figures) and any(
            a.differs(b) for a, b in zip(old.figures, new.figures, strict=True)
        )
    is_measured = bool(old.figures and new.figures) and "a" not in {old.kind, new.kind}
    if is_measured and min(len(old.words), len(new.words)) < 2:
        return False  # in different measures, such as km/h and mph
    one, other = set(place(old.words)), set(place(new.words))
    if not one or not other or one <= other or other <= one:
        return False
    if any(a.startswith(f"{b}.") or b.startswith(f"{a}.") for a in one - other for b in other - one):
        return False  # a version, and the same version in full
    for short, long in ((old, new), (new, old)):
        word = short.words[0]
        if len(short.words) > 1 or len(word) < 2 or "@" in word:
            continue
        if word == "".join(part[0] for part in long.words) or any(
            part.startswith(word) and len(word) > 2 for part in long.words
        ):
            return False  # the same in short
    return True


def _exclusive(old: Claim, new: Claim, one: Value, other: Value) -> float:
    """How surely a relation does not hold two values at once; 0 where it may well."""
    name = old.relation
    values = terms.RELATIONS[name].values if name in terms.RELATIONS else ""
    alike = any(of_one_kind(a, b) for a in one.words for b in other.words)
    kin = alike or (len(one.words) > 1 and len(other.words) > 1 and one.words[-1] == other.words[-1])
    if name == "uses":
        return (_FAIRLY_SURE if old.scope and old.scope == new.scope else _LIKELY) if kin else 0.0
    if name == "prefers":  # short answers may be honest answers; tea is no coffee
        return (_FAIRLY_SURE if alike else _LIKELY) if kin else 0.0
    if one.kind != other.kind and not (name == "is" and not old.subject & terms.NAMED):
        return 0.0
    if name == "is":
        named = one.kind in {"name", "figure", "a"} or not old.subject & terms.NAMED
        if old.subject & terms.ATTRIBUTES:
            return _FAIRLY_SURE if named else 0.0
        return _LIKELY if one.kind in {"name", "figure"} and not old.subject & terms.SEVERAL else 0.0
    if name == "is a":
        return _LIKELY if new.changed else 0.0
    if name == "takes place on" and not (
        new.changed or old.subject & terms.scheduled(one.figures[0].kind) - terms.OCCASIONS
    ):
        return 0.0  # a meeting may take place on two days, but one that was moved has left the first
    if values == "likely":  # a machine and one of its ports do not exclude each other
        return 0.0 if name == "runs on" and ("port" in one.words) != ("port" in other.words) else _LIKELY
    if values == "place" and not (is_city(one.words) and is_city(other.words)):
        is_part = terms.WIDE_PLACES.isdisjoint(one.words) != terms.WIDE_PLACES.isdisjoint(other.words)
        return _LIKELY if new.changed or not is_part else 0.0
    is_sure = one.kind in {"name", "figure"} and not (name == "called" and old.subject & terms.SEVERAL)
    return _FAIRLY_SURE if is_sure else _LIKELY


# ── Rules that ask an embedder ──────────────────────────────────────────────────────────
# Guaranteed: nothing that they find acts, and without an embedder they find nothing.


def _felt(old: Clause, new: Clause, shared: frozenset[str], alike: Alike) -> Opposition | None:
    """Opposite feelings about one thing, in words of which an embedder tells that they are."""
    if len(shared) < 2 or old.polarity != new.polarity or old.mood != "fact" or _figures_apart(old, new):
        return None
    sides = [_spoken(side, side.words - shared) for side in (old, new)]
    if not all(side and all(map(str.isalpha, side)) for side in sides):
        return None
    one, other = map(" ".join, sides)
    bad, good = sorted((alike(one, GOOD), alike(other, GOOD)))
    is_apart = bad < -_FELT and good > _FELT
    return Opposition("sentiment", _LIKELY, _short(f"{one} → {other}")) if is_apart else None


def _other_words(old: Claim, new: Claim, alike: Alike) -> Opposition | None:
    """A relation of one subject that is called otherwise: somebody's wife, and whom he is married to."""
    if not (old.polarity and new.polarity) or old.subject.isdisjoint(new.subject):
        return None
    if old.relation == new.relation != "is":
        return None
    if not ((old.subject ^ new.subject) & terms.ATTRIBUTES or {old.relation, new.relation} & terms.SINGLE):
        return None
    if not _differ(old.value, new.value) or old.value.kind != new.value.kind or old.value.kind == "list":
        return None
    called = [
        _spoken(claim, claim.subject - beside.subject)
        + [word for word in claim.relation.split() if word not in terms.STOP]
        for claim, beside in ((old, new), (new, old))
    ]
    values = old.value.text.lower().split(), new.value.text.lower().split()
    if max(map(len, values)) > MAX_PHRASE_WORDS or matched(values[0], values[1], alike):
        return None
    pairs = matched(called[0], called[1], alike)
    taken = "".join(f"; {one} ≈ {other}" for one, other in pairs)
    text = f"{' '.join(called[0])}: {old.value.text} → {new.value.text}{taken}"
    return Opposition("value", _LIKELY, _short(text)) if pairs else None


def _spoken(claim: Claim | Clause, words: Iterable[str]) -> list[str]:
    """Words as they were written, in the order of the clause."""
    return [raw for word, raw in claim.spoken if word in set(words)]


def _short(text: str, limit: int = 2 * _REASON_CHARS) -> str:
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text[:400]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _quoted(text: str) -> str:
    return f"“{_short(text, _REASON_CHARS)}”"
