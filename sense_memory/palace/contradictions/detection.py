"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

Two claims contradict each other where their subjects, relations and scopes agree, the relation holds one value (or the
same clause is denied), and their values are of one kind and differ. Each rule is a function of two claims.

A contradiction has a kind, a reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below
the bound, the contradiction is a suggestion for introspection. A wrong act costs more than a missed one, so whatever is
not nearly sure ends below the bound. Pure and deterministic: no model, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claims import SAYS, Claim, read
from sense_memory.palace.contradictions.figures import measured_apart
from sense_memory.palace.contradictions.phrases import MAX_PHRASE_WORDS, matched, unless_named
from sense_memory.palace.contradictions.turns import TURN, is_turn
from sense_memory.palace.contradictions.vocabulary import (
    ATTRIBUTES,
    EXCLUSIVE,
    LIKELY,
    NAMED,
    OCCASIONS,
    PLACED,
    SCHEDULED,
    SEVERAL,
    STATES,
    STOP,
    TURNS,
    WIDE_PLACES,
    axis,
    is_city,
    of_one_kind,
    place,
    statuses_apart,
    stem,
    words,
)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.palace.contradictions.claims import Reading, Value
    from sense_memory.palace.contradictions.phrases import Alike

ACT_BOUND: Final = 0.75
# How sure a rule is: an order of trust, set by hand, no frequencies.
_SURE: Final = 0.92
_FAIRLY_SURE: Final = 0.88
_LIKELY: Final = 0.6
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
    if (old.domain, old.facet) != (new.domain, new.facet) or old.key == new.key:
        return False
    if old.superseded_by or new.superseded_by:
        return False
    if (old.conflict_of and old.conflict_of == new.path) or (new.conflict_of and new.conflict_of == old.path):
        return False
    if new.path in old.dismissed or old.path in new.dismissed:
        return False
    return not (old.contradicts and new.path in old.contradicts) and not (
        new.contradicts and old.path in new.contradicts
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
        if best is None and is_turn(old.value, new.value, alike):
            best = Opposition(TURN, 0.5, _short(f"perhaps no longer true: {old.value}"))
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
    sides = [
        PersonaMemory.model_validate(
            {"domain": "world", "facet": "facts", "key": key, "value": value, "created_at": 1.0}
        )
        for key, value in (("one-x", old), ("two-x", new))
    ]
    found = compare(sides[0], sides[1])
    return "" if found is None else f"{'acts' if found.acts else 'suspected'}: {found.reason}"


def _surest(old: Reading, new: Reading, alike: Alike | None) -> Opposition | None:
    """The surest opposition of any two claims; of equally sure ones, that of a relation."""
    best: Opposition | None = None
    for before in old.claims:
        whole = before.relation == SAYS
        if not whole and any(_same(before, after) for after in new.claims):
            continue  # the new memory says it again
        for after in new.claims:
            if whole != (after.relation == SAYS) or measured_apart(before.measures, after.measures):
                continue
            found = _clauses(before, after, alike) if whole else _relations(before, after, alike)
            if found and before.measures != after.measures:
                found = found.at_most(_LIKELY)
            if found and (best is None or found.confidence >= best.confidence + (0.001 if whole else 0)):
                best = found
    return best


def _same(one: Claim, other: Claim) -> bool:
    return (
        one.relation == other.relation
        and one.subject == other.subject
        and one.value == other.value
        and one.polarity == other.polarity
    )


def _clauses(old: Claim, new: Claim, alike: Alike | None) -> Opposition | None:
    """The opposition of two clauses as wholes."""
    is_close = old.mood == new.mood and abs(len(old.subject) - len(new.subject)) <= MAX_PHRASE_WORDS
    if not (is_close or new.turned or (old.states and new.states) or (old.figures and new.figures)):
        return None  # most pairs end here
    shared = old.subject & new.subject
    if not shared:
        return None
    found = _said(old, new, shared, alike) if is_close else None
    if found is None:
        return _superseded(old, new) or _other_figure(old, new) or _states(old, new)
    return found.at_most(_LIKELY) if old.mood != "fact" or alike else found


def _relations(old: Claim, new: Claim, alike: Alike | None) -> Opposition | None:
    """The opposition of two claims of relations."""
    if alike is not None:
        return _other_words(old, new, alike)
    if old.relation != new.relation or old.subject != new.subject:
        return None
    found = _reversed(old, new) or _denied(old, new) or _replaced(old, new)
    is_loose = old.aside or old.hedged or new.hedged or old.scope != new.scope
    return found.at_most(_LIKELY) if found and is_loose else found


# ── Rules for whole clauses ─────────────────────────────────────────────────────────────


def _said(old: Claim, new: Claim, shared: frozenset[str], alike: Alike | None) -> Opposition | None:
    """The same clause with one difference: its side, a figure, a status, a thing of one kind.

    >>> between("Telemetry is enabled", "Telemetry is off"), between("Telemetry is off", "Telemetry is not enabled")
    ('acts: enabled → off', '')
    >>> between("Karl smokes", "Karl gave up smoking")
    'acts: now denied: karl smokes'
    >>> between("The cache TTL is 10 minutes", "The cache TTL is 1 hour")
    'acts: 10 minutes → 1 hour'
    >>> between("House 1 is open", "House 2 is closed"), between("The red house is open", "The blue house is closed")
    ('', '')
    """
    left, right = old.subject - new.subject, new.subject - old.subject
    if len(left) > MAX_PHRASE_WORDS or len(right) > MAX_PHRASE_WORDS:
        return None
    found = _opposite(old, new, shared) or _figure(old, new, shared)
    if found is None and len(left) == len(right) == 1:
        return _one_word(old, new)
    if found is None or not (left or right):
        return found
    denied, more = (new, left) if not right else (old, right)
    if (
        not (left and right)
        and len(more) <= 2
        and old.owned == new.owned
        and old.spoken[:1] == new.spoken[:1]
        and _is_denial(denied)
        and dict(old.spoken[-1:]).keys() == dict(new.spoken[-1:]).keys()
    ):
        return found.at_most(_LIKELY)  # the wider claim is the one denied
    if alike is not None and (pairs := matched(_spoken(old, left), _spoken(new, right), alike)):
        taken = "".join(f"; {one} ≈ {other}" for one, other in pairs)
        return replace(found, reason=_short(found.reason + taken)).at_most(_LIKELY)
    return None


def _is_denial(claim: Claim) -> bool:
    """Whether a clause denies, or takes the unfavourable side."""
    return claim.polarity == any(not side for _, side, _ in claim.sides)


def _opposite(old: Claim, new: Claim, shared: frozenset[str]) -> Opposition | None:
    """The same clause affirmed and denied: by a negation, or by a word for the opposite."""
    theirs = {name: (side, word) for name, side, word in new.sides}
    flips = [
        (one, theirs[name][1], name)
        for name, side, one in old.sides
        if name in theirs and theirs[name][0] != side
    ]
    denied = old.polarity != new.polarity
    if len(flips) + denied != 1 or len(shared) < 2 or _figures_differ(old, new):
        return None
    if flips:
        one, other, name = flips[0]
        kind = "sentiment" if name in _FEELINGS else "antonym"
        return Opposition(kind, _SURE, _short(f"{one} → {other}"))
    said, when = (new, "was") if new.polarity else (old, "now")
    words = " ".join(raw for word, raw in said.spoken if word in shared)
    graded = {stem(word) for _, _, word in old.sides} != {stem(word) for _, _, word in new.sides}
    return Opposition("negation", _LIKELY if graded else _SURE, _short(f"{when} denied: {words}"))


def _figures_differ(old: Claim, new: Claim) -> bool:
    return len(old.figures) != len(new.figures) or any(
        one.kind != other.kind or one.differs(other)
        for one, other in zip(old.figures, new.figures, strict=True)
    )


def _figure(old: Claim, new: Claim, shared: frozenset[str]) -> Opposition | None:
    """The same clause with another figure.

    >>> between("The VoxRelay deadline is March 3", "The VoxRelay deadline is 17 March")
    'acts: march 3 → 17 march'
    >>> between("I have a dentist appointment on 4 May", "I have a dentist appointment on 9 May")
    ''
    """
    if len(old.figures) != len(new.figures) or old.polarity != new.polarity or not old.polarity:
        return None
    if old.mood == "past" or not {side[:2] for side in old.sides} <= {side[:2] for side in new.sides}:
        return None
    apart = [
        (a, b) for a, b in zip(old.figures, new.figures, strict=True) if a.kind != b.kind or a.differs(b)
    ]
    if len(apart) != 1 or apart[0][0].kind != apart[0][1].kind:
        return None
    one, other = apart[0]
    text = _short(f"{one.text} → {other.text}")
    if not one.is_date:
        return Opposition("number", _SURE, text)
    if shared & OCCASIONS and not (old.definite and new.definite):
        return None
    if (
        one.kind == "date"
        and not shared & SCHEDULED
        and any(raw.endswith("ed") and word not in old.told for word, raw in old.spoken)
    ):
        return None  # what happened may happen again
    scheduled = bool(shared & SCHEDULED) and not shared & OCCASIONS
    return Opposition("date", _SURE if scheduled else _LIKELY, text)


def _one_word(old: Claim, new: Claim) -> Opposition | None:
    """The same clause with another status, another thing of one kind, or a word turned by its beginning.

    >>> between("The relaunch is in progress", "The relaunch is done"), between("The API is safe", "The API is unsafe")
    ('acts: ongoing → done', 'acts: safe → unsafe')
    """
    if old.polarity != new.polarity or _figures_differ(old, new):
        return None
    (one,), (other,) = old.subject - new.subject, new.subject - old.subject
    said, now = dict(old.spoken).get(one, one), dict(new.spoken).get(other, other)
    text = _short(f"{said} → {now}")
    if one.lstrip("±") == other.lstrip("±"):
        return Opposition("antonym", _SURE, text) if stem(said) != stem(now) else None
    if not old.polarity or old.sides != new.sides:
        return None
    if statuses_apart(one.lstrip("~"), other.lstrip("~")):
        return Opposition("status", _SURE, text)
    if of_one_kind(one, other) and one in old.told and other in new.told:
        return Opposition("value", _LIKELY, text)
    return None


def _superseded(old: Claim, new: Claim) -> Opposition | None:
    """What was said of something, and later of the same thing that it took a turn.

    >>> between("Eszter's operation is on 3 October", "The clinic postponed Eszter's operation to 11 November")
    'suspected: perhaps no longer true: eszter operation'
    """
    if not new.turned or old.turned or not old.polarity or old.mood == "past" or new.mood == "plan":
        return None
    if old.owned != new.owned and old.spoken[:1] == new.spoken[:1]:
        return None
    vague = _VAGUE | {"me", "us"} if new.polarity else _VAGUE  # "I quit …" ends what I do; "now I …" may not
    words = {word: raw for word, raw in old.spoken if word[0] not in "±~@" and word not in vague}
    shared = {word for word, raw in words.items() if word in new.turned and not TURNS.search(raw)}
    used = "replac" in new.subject and {"use", "uses", "run", "runs"} & {raw for _, raw in old.spoken}
    least = 1 if used and shared == {new.spoken[0][0]} else max(2, len(words) / 3)
    if len(words) > _MAX_SUPERSEDED_WORDS or len(shared) < least:
        return None
    said = " ".join(raw for word, raw in words.items() if word in shared)
    return Opposition("status", _LIKELY, _short(f"perhaps no longer true: {said}"))


def _states(old: Claim, new: Claim) -> Opposition | None:
    """Two states of one person that exclude each other.

    >>> between("Salma's husband is Idris", "Salma is divorced"), between("Karl is vegan", "Karl ordered the steak")
    ('suspected: husband → divorced', 'suspected: vegan → steak')
    """
    apart = [state for state in old.states if (state[0], not state[1]) in new.states]
    if not apart or not old.spoken or old.spoken[0][0] != new.spoken[0][0] or old.mood != "fact":
        return None
    if new.mood == "plan" or not (old.polarity and new.polarity) or len(old.spoken) > _MAX_SUPERSEDED_WORDS:
        return None
    (number, side), *_ = sorted(apart)
    before = next(raw for _, raw in old.spoken if STATES.get(stem(raw)) == (number, side))
    after = next(raw for _, raw in new.spoken if STATES.get(stem(raw)) == (number, not side))
    return Opposition("status", _LIKELY, f"{before} → {after}")


def _other_figure(old: Claim, new: Claim) -> Opposition | None:
    """Another figure of the same kind for the same thing, in other words.

    >>> between("The depot holds 40 crates", "The capacity of the depot is 60 crates")
    'suspected: 40 → 60'
    >>> between("The EU server has 8 cores", "The US server has 4 cores")
    ''
    """
    if len(old.figures) != 1 or len(new.figures) != 1 or old.polarity != new.polarity or old.mood != new.mood:
        return None
    one, other = old.figures[0], new.figures[0]
    left, right = old.subject - new.subject, new.subject - old.subject
    shared = (old.subject & new.subject) - _VAGUE
    if old.owned != new.owned and (left | right) & old.names:
        return None
    if old.mood != "fact" or not one.differs(other) or not ((left and right) or new.turned):
        return None
    if len(left) == len(right) == 1 and _spot(old, left) == _spot(new, right):
        return None  # one word for another: another thing
    if not old.spoken or old.spoken[0][0] not in shared or (left | right) & _REPORTED:
        return None
    if any(word[0] in "#@" for word in left | right) or (left & old.names and right & new.names):
        return None
    if one.is_date and (shared & OCCASIONS or not (old.subject | new.subject) & SCHEDULED):
        return None
    if len(shared) < 2 or 2 * len(shared) < min(len(old.subject), len(new.subject)):
        return None
    return Opposition("date" if one.is_date else "number", _LIKELY, _short(f"{one.text} → {other.text}"))


def _spot(claim: Claim, words: frozenset[str]) -> int:
    return next(at for at, (word, _) in enumerate(claim.spoken) if word in words)


_REPORTED: Final = words("tell say think claim believ hear accord")
_VAGUE: Final = words("make go have get feel think work day time year good new thing way help take want life")


# ── Rules for relations ─────────────────────────────────────────────────────────────────


def _reversed(old: Claim, new: Claim) -> Opposition | None:
    """`A over B` against `B over A`.

    >>> between("We chose Orpheus over Kokoro", "We chose Kokoro over Orpheus")
    'acts: chose: Orpheus over Kokoro → Kokoro over Orpheus'
    """
    if not (old.value and new.value and old.over and new.over) or old.polarity != new.polarity:
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
    if old.polarity == new.polarity or not (old.value and new.value) or old.value.words != new.value.words:
        return None
    if old.value.figures != new.value.figures:
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
    if not (old.polarity and new.polarity and old.value and new.value) or old.over or new.over:
        return None
    if old.scope != new.scope and (
        (old.scope and new.scope) or not ((old.placed and new.placed) or (new.changed and not old.scope))
    ):
        return None
    if not _differ(old.value, new.value):
        return None
    sure = _exclusive(old, new, old.value, new.value)
    if not sure:
        return None
    name = old.relation if old.relation != "is" else old.spoken[0][1] if old.spoken else "is"
    return Opposition(_kind_of(old.value), sure, _short(f"{name}: {old.value.text} → {new.value.text}"))


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
    kinds = {one.kind, other.kind}
    alike = any(of_one_kind(a, b) for a in one.words for b in other.words)
    kin = alike or (len(one.words) > 1 and len(other.words) > 1 and one.words[-1] == other.words[-1])
    if name == "uses":
        return (_FAIRLY_SURE if old.scope and old.scope == new.scope else _LIKELY) if kin else 0.0
    if name == "prefers":
        # Short answers may be honest answers; tea is no coffee.
        return (_FAIRLY_SURE if alike else _LIKELY) if kin and "list" not in kinds else 0.0
    if kinds != {one.kind} and "list" not in kinds and not (name == "is" and not old.subject & NAMED):
        return 0.0
    if "list" in kinds:
        return _LIKELY if set(one.words).isdisjoint(other.words) else 0.0
    if name == "is":
        if not old.subject & ATTRIBUTES:
            return 0.0
        if any(axis(value.words[-1])[0] for value in (one, other) if value.words):
            return 0.0
        if old.subject & NAMED and one.kind not in {"name", "figure", "a"}:
            return 0.0
        if one.kind == "figure" and one.figures[0].is_date and not old.subject & SCHEDULED:
            return _LIKELY
        return _FAIRLY_SURE
    if name == "is a":
        return _LIKELY if new.changed else 0.0
    if name == "takes place on" and not (new.changed or old.subject & SCHEDULED - OCCASIONS):
        return 0.0  # a meeting may take place on two days, but one that was moved has left the first
    if name in LIKELY:  # a machine and one of its ports do not exclude each other
        return 0.0 if name == "runs on" and ("port" in one.words) != ("port" in other.words) else _LIKELY
    if name not in EXCLUSIVE or any(word in _CIRCUMSTANCES for word in (*one.words, *other.words)):
        return 0.0
    if not (is_city(one.words) and is_city(other.words)):
        if (not WIDE_PLACES.isdisjoint(one.words)) != (not WIDE_PLACES.isdisjoint(other.words)):
            return _LIKELY if new.changed else 0.0
        if name in PLACED:
            return _LIKELY
    if one.kind in {"name", "figure"} and not (name == "called" and old.subject & SEVERAL):
        return _LIKELY if one.words[:1] == other.words[:1] and one.words else _FAIRLY_SURE
    return _LIKELY


_CIRCUMSTANCES: Final = words(
    "push commit demand background foreground production staging parallel time schedule night home weekend"
)


def _other_words(old: Claim, new: Claim, alike: Alike) -> Opposition | None:
    """A relation of one subject that is called otherwise: somebody's wife, and whom he is married to."""
    if not (old.value and new.value and old.polarity and new.polarity) or old.subject.isdisjoint(new.subject):
        return None
    if old.relation == new.relation != "is":
        return None
    if not ((old.subject ^ new.subject) & ATTRIBUTES or {old.relation, new.relation} & (EXCLUSIVE | LIKELY)):
        return None
    if not _differ(old.value, new.value) or old.value.kind != new.value.kind or old.value.kind == "list":
        return None
    called = [
        _spoken(claim, claim.subject - beside.subject)
        + [word for word in claim.relation.split() if word not in STOP]
        for claim, beside in ((old, new), (new, old))
    ]
    values = old.value.text.lower().split(), new.value.text.lower().split()
    if max(map(len, values)) > MAX_PHRASE_WORDS or matched(values[0], values[1], alike):
        return None
    pairs = matched(called[0], called[1], alike)
    taken = "".join(f"; {one} ≈ {other}" for one, other in pairs)
    text = f"{' '.join(called[0])}: {old.value.text} → {new.value.text}{taken}"
    return Opposition("value", _LIKELY, _short(text)) if pairs else None


def _spoken(claim: Claim, words: Iterable[str]) -> list[str]:
    """Words as they were written, in the order of the clause."""
    return [raw for word, raw in claim.spoken if word in set(words)]


def _short(text: str) -> str:
    text = "".join(sign if sign.isprintable() else " " for sign in text[:400]).replace("_ ", " ")
    text = " ".join(text.split())
    return text if len(text) <= 2 * _REASON_CHARS else text[: 2 * _REASON_CHARS - 1] + "…"
