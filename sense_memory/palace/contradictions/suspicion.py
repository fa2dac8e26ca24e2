"""Whether a later note ends what an earlier one says, in whatever words.

Six kinds of evidence can tell so: a turn of things ("sold", "no longer"), a hint at one ("now"), a denial or an opposite,
another word in the same place, another figure, another date. How much each counts depends on what the two notes share
and on what is left of them: a score, linear in what is found, with a weight for each kind of evidence.

What is guaranteed: a suspicion and never more; the same two notes and the same vectors give the same answer. Why it is
safe: two notes are not compared where the later one adds to the earlier ("too"), where a number or a name tells their
subjects apart, and where they share nothing but their subject. The weights are those of a logistic model. It was fitted by
`fit_suspicion.py`, beside the tests, to pairs and profiles by authors who did not know it, and to notes that hardly ever
end each other; nothing was fitted to the pairs of further authors. What it costs: some 20 µs; an embedder is asked where
its answer can decide. Pure.
"""

from __future__ import annotations

import re
from math import exp, log1p
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.claims import Alignment, Clause, Reading, Word
    from sense_memory.palace.contradictions.sentences import Near

_LEAST, _MOST = 0.5, 0.7  # the confidence of a suspicion
_FARTHEST, _NEAREST = -3.0, 8.0  # nearness beyond counts as this, in standard deviations
_MAX_SLOT_COUNT: Final = 3  # words that may fill a place
_CONDITION: Final = re.compile(
    r"(?:In|On|At|During|After|Before|For|From|Every|When|If|Unless|Until|With|Without) "
)
CONDITIONS: Final = frozenset({"if", "when", "unless", "until", "while", "before", "after"})
KINDS: Final = ("turn", "hint", "denial", "slot", "figure", "date")  # of evidence
_NO_TOPIC: Final = terms.FIRST | {f"→{name}" for name in terms.RELATIONS} | {"me"}


def suspicion(old: Reading, new: Reading, pair: Alignment, near: Near | None = None) -> float:
    """How surely a later note ends what an earlier one says: a confidence from 0.5 to 0.7, or 0 where it is not suspected.

    Args:
        old: the earlier note.
        new: the later one.
        pair: their alignment.
        near: how near two notes are in meaning, see `Sentences.near`.
    """
    found = features(old, new, pair)
    if not found:
        return 0.0
    if near is not None:
        known, slope = (
            _score(found | {"known": 1.0}),
            _score({"near": 1.0} | {kind: found[kind] for kind in KINDS}),
        )
        if known + max(slope * _FARTHEST, slope * _NEAREST) <= 0:
            return 0.0
        meant = near(old.text, new.text)
        if meant is not None:
            return _confidence(known + slope * min(_NEAREST, max(_FARTHEST, meant)))
    return _confidence(_score(found)) if found["topic"] else 0.0


def _confidence(score: float) -> float:
    return _LEAST + (_MOST - _LEAST) * (1 - exp(-score)) if score > 0 else 0.0


def is_scoped(old: Reading, new: Reading) -> bool:
    """Whether the later note begins with a condition, and the earlier one does not."""
    return _CONDITION.match(new.text) is not None and not _CONDITION.match(old.text)


# ── What is found ───────────────────────────────────────────────────────────────────────


def features(old: Reading, new: Reading, pair: Alignment) -> dict[str, float]:
    """What two notes share, and what is left of them, by the names of `_WEIGHTS`; nothing where they share no topic and
    the later one tells no turn, and where both may hold.
    """
    one, other, left, right = pair.old, pair.new, pair.left, pair.right
    first, second = (side.words[0].key if side.words else "" for side in (one, other))
    is_passive = len(other.words) > 1 and other.words[1].lead == "be"
    subject = _NO_TOPIC | {first} | ({second} & old.names & new.names if not is_passive else set())
    topic, said, told = (words - subject for words in (old.keys & new.keys, old.keys, new.keys))
    is_new_denial = _is_new_denial(old, new, topic)
    evidence = _evidence(old, new, pair, is_new_denial=is_new_denial)
    if not (topic or evidence["turn"]) or _may_both_hold(old, new, pair, evidence):
        return {}
    lead = left[0].lead if evidence["slot"] and left[0].lead == right[0].lead else ""
    unsaid = len(one.keys - new.keys)
    return evidence | {
        "one": 1.0,
        "unsaid": log1p(unsaid),
        "unsaid elsewhere": log1p(max(0, len(old.keys - new.keys) - unsaid)),
        "unsaid before": log1p(len(right)),
        "old words": log1p(len(old.keys)),
        "new words": log1p(len(new.keys)),
        "topic": log1p(len(topic)),
        "no topic": not topic,
        "topic of old": len(topic) / (len(said) or 1),
        "topic of new": len(topic) / (len(told) or 1),
        "clause shared": len(pair.shared) / (len(one.keys) + len(right) or 1),
        "turned": log1p(len(topic & new.turned)),
        "turned of old": len(topic & new.turned) / (len(said) or 1),
        "opposite": bool(pair.flips),
        "denied": one.polarity != other.polarity,
        "denied elsewhere": is_new_denial,
        "old is ongoing": "ongoing" in old.flags,
        "old is past": not old.flags.isdisjoint({"past", "event"}),
        "new is past": "past" in new.flags,
        "new is a plan": "plan" in new.flags,
        "old is a turn": "turn" in old.flags,
        "same first word": one.row[:1] == other.row[:1],
        "same start": log1p(_start(one.row, other.row)),
        "all said again": old.keys <= new.keys,
        "nothing else said": new.keys <= old.keys,
        "other subject": first not in new.keys and second not in old.keys,
        "other owner": one.owned != other.owned,
        "definite": one.definite,
        "name lost": log1p(len(old.names - new.keys)),
        "name new": log1p(len(new.names - old.keys)),
        "one word": evidence["slot"] and len(left) == len(right) == 1,
        "value": lead == "be",
        "object": evidence["slot"] and lead in {"", "the"} and left[0] is not one.words[0],
        "scoped": is_scoped(old, new),
        "conditional": any(clause.joint in CONDITIONS for clause in new.clauses),
        "one clause": len(new.clauses) == 1,
    }


def _may_both_hold(old: Reading, new: Reading, pair: Alignment, evidence: dict[str, float]) -> bool:
    """Whether both notes can be true: "too"; things with other numbers or names; another subject, and no turn of things;
    one of several occasions; a sort that is denied ("tea", "no green tea"); the same figure; "off" and "not on".
    """
    one, other = pair.old, pair.new
    first, second = ([word.key for word in side.words[:2]] for side in (one, other))
    is_other = not ({*first[:1]} & new.keys or {*second[:1]} & old.keys)
    is_named = {*first[:1]} <= old.names - {"me"} and {*second[:1]} <= new.names & new.turned
    is_numbered = old.numbered and new.numbered and old.numbered.isdisjoint(new.numbered)
    is_placed = {word.key for word in pair.left} <= old.numbered and all(word.phrase for word in pair.left)
    is_figure = one.figures and other.figures and not pair.apart and old.keys <= new.keys
    return bool(
        "added" in new.flags
        or (is_numbered and (evidence["denial"] or not is_placed))
        or (is_other and (is_named or pair.flips))
        or ((is_other or one.owned != other.owned) and not (evidence["turn"] or evidence["hint"]))
        or (len(new.clauses) == 1 and one.keys == other.keys and not (pair.apart or evidence["denial"]))
        or (is_figure and not evidence["denial"])
        or (pair.flips and one.polarity != other.polarity and one.keys == other.keys)
        or (evidence["date"] and ("again" in other.row or _is_one_of_several(one)))
        or (one.polarity != other.polarity and not pair.left and _is_sort(pair))
    )


def _is_one_of_several(clause: Clause) -> bool:
    """Whether a clause tells of an occasion of which there may be others: "a dentist appointment"."""
    return bool(clause.keys & terms.OCCASIONS) and any(word.article == "a" for word in clause.words)


def _is_sort(pair: Alignment) -> bool:
    """Whether all that the later clause adds is one word before the last: "green tea"."""
    words = pair.new.words
    return (
        len(pair.right) == 1 < len(words)
        and words[-2] == pair.right[0]
        and words[-1].lead == ""
        and words[-1].phrase == words[-2].phrase
    )


def _evidence(old: Reading, new: Reading, pair: Alignment, *, is_new_denial: bool) -> dict[str, float]:
    """Which kinds of evidence there are."""
    apart = [a.is_date for a, b in pair.apart if a and b and a.kind == b.kind]
    return {
        "turn": "turn" in new.flags - old.flags,
        "hint": "hint" in new.flags - old.flags,
        "denial": bool(pair.flips) or pair.old.polarity != pair.new.polarity or is_new_denial,
        "slot": _is_slot(pair.left) and _is_slot(pair.right),
        "figure": not all(apart),
        "date": any(apart),
    }


def _is_slot(words: tuple[Word, ...]) -> bool:
    """Whether words fill one place of a clause."""
    return 0 < len(words) <= _MAX_SLOT_COUNT and len({word.phrase for word in words}) == 1


def _is_new_denial(old: Reading, new: Reading, topic: frozenset[str]) -> bool:
    """Whether only the later note denies something that both speak of."""
    denials = [any(not part.polarity and part.keys & topic for part in note.clauses) for note in (old, new)]
    return denials == [False, True]


def _start(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    """How many words two clauses have in common at the start."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


# ── The weights ─────────────────────────────────────────────────────────────────────────
# Of each feature: its weight, and what is added to it with each of `KINDS`.
_WEIGHTS_TEXT: Final = """
one: 3.70 1.34 1.04 0.47 -0.16 1.32 0.57
unsaid: -1.51 -0.18 -0.51 -0.33 0.24 0.30 0.14
unsaid elsewhere: -1.88 -0.46 0.08 -0.50 -0.51 0.08 -1.13
unsaid before: -0.27 0.16 0.18 -0.15 0.18 -0.01 0.75
old words: -1.03 0.24 0.06 0.25 0.10 0.46 0.72
new words: -1.74 0.22 0.01 0.14 0.07 0.58 0.81
topic: 0.63 -0.37 -0.81 0.78 0.42 0.41 1.38
no topic: 0.04 0.04 -0.46 0.23 1.32 -0.34 1.19
topic of old: 0.39 1.43 1.76 1.37 -0.88 -0.84 -0.22
topic of new: 0.21 1.04 1.94 -0.58 0.59 -1.43 -0.35
clause shared: 0.34 2.14 -0.01 -0.49 1.19 -0.62 0.21
turned: 0.99 0.02 -0.45 0.25 0.58 -1.47 -0.15
turned of old: -0.10 -0.34 0.72 -1.41 -1.38 2.54 -0.95
opposite: 0.24 -3.06 1.03 0.24 -1.72 -3.37 -3.76
denied: -0.16 -0.40 0.61 -0.16 -0.37 -0.96 -0.02
denied elsewhere: 0.66 -1.30 -0.58 0.66 -1.13 -1.37 0.00
old is ongoing: 1.47 0.33 0.02 0.52 0.47 -0.45 -0.53
old is past: -1.22 -1.73 -2.06 0.37 -0.60 2.64 -1.72
new is past: 0.81 -0.32 -1.64 -0.04 0.45 -1.77 0.66
new is a plan: -0.59 -0.38 -0.57 0.50 0.66 -1.26 -0.70
old is a turn: 0.30 0.00 -2.04 -1.47 -0.73 1.95 -0.90
same first word: -0.60 0.23 0.07 -0.35 -0.02 -1.38 -1.65
same start: 0.85 -0.46 0.27 -0.29 0.01 -0.37 0.44
all said again: -1.87 -0.06 -1.22 0.90 1.87 0.97 1.46
nothing else said: -1.39 -1.03 1.24 0.95 1.00 0.08 2.53
other subject: 0.19 0.11 -1.54 1.06 -1.35 -0.31 -0.18
other owner: 0.30 -1.16 -0.03 0.20 0.50 -0.48 2.51
definite: 0.56 0.03 -0.19 -0.26 -0.02 -0.15 1.55
name lost: -0.17 -0.20 0.28 -0.45 -0.33 0.72 -1.93
name new: 0.65 0.17 0.04 -0.44 -0.10 -1.41 -1.71
one word: -0.12 0.05 -0.23 -1.31 -0.12 -0.24 -0.31
value: 0.96 -2.64 -0.74 0.32 0.96 -1.99 0.00
object: -0.42 -0.62 0.57 1.51 -0.42 1.05 -0.02
scoped: -1.08 -0.87 2.99 -0.51 -0.16 0.30 -0.33
conditional: -0.76 -0.11 0.16 0.61 -0.87 0.53 -3.07
one clause: -0.33 -0.15 -0.25 -0.38 -0.58 -0.93 -2.85
known: -0.42 -0.25 -0.03 -0.15 0.19 0.16 0.14
near: 0.21 0.28 0.07 0.01 -0.11 -0.09 -0.11
"""
_WEIGHTS: Final = {
    name: tuple(map(float, row.split()))
    for name, row in (line.split(": ") for line in _WEIGHTS_TEXT.strip().splitlines())
}


def _score(found: dict[str, float]) -> float:
    columns = [0, *(at for at, kind in enumerate(KINDS, 1) if found[kind])]
    return sum(
        value * sum(weights[at] for at in columns)
        for name, value in found.items()
        if value and (weights := _WEIGHTS.get(name))
    )
