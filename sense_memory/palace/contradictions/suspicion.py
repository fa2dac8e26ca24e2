"""Whether a later note ends what an earlier one says, in whatever words: a score.

What tells that something ended is evidence of five kinds: a turn of things ("sold", "no longer"), a hint at one ("now"), a
denial or an opposite, another word in the same place, another figure. How much evidence counts depends on what else is
found: whether both notes speak of one topic, how much of the earlier one is left unsaid, whether the later one is a plan. So
each such feature has a weight of its own, and one more for each kind of evidence. All are added up; a score above 0 is a
suspicion. "Mia drives an old van", then "Mia finally sold the van": the turn and the topic, `van`, raise the score, what is
left unsaid (`drives`, `old`) lowers it, and it stays above 0. "Mia sold the sofa" shares no topic with it: only an embedder
could tell that the two notes belong together.

What is guaranteed: a suspicion and never more; the same two notes and the same vectors give the same answer. Why it is safe:
a suspicion changes nothing, and notes that may both hold have no score. The weights are those of a logistic model. It was
fitted by `fit_suspicion.py`, beside the tests, to pairs and profiles by authors who did not know it, and to notes that hardly
ever end each other; nothing was fitted to the pairs of further authors. What it costs: some 10 µs; an embedder is asked only
where its answer can decide. Pure.
"""

from __future__ import annotations

from itertools import takewhile
from math import exp, log1p
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.figures import DATES


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.claims import Alignment
    from sense_memory.palace.contradictions.sentences import Near

EVIDENCE: Final = ("turn", "hint", "denial", "slot", "figure")  # that something ended
_LEAST, _MOST = 0.5, 0.7  # the confidence of a suspicion
_FARTHEST, _NEAREST = -3.0, 8.0  # nearness beyond counts as this, in standard deviations
_CONDITIONS: Final = frozenset({"if", "when", "unless", "until", "while", "before", "after"})
_NO_TOPIC: Final = terms.FIRST | {f"→{name}" for name in terms.RELATIONS}


def suspicion(pair: Alignment, near: Near | None = None) -> float:
    """How surely a later note ends what an earlier one says: a confidence from 0.5 to 0.7, or 0 where it is not suspected.

    Args:
        pair: the alignment of the two notes.
        near: how near two notes are in meaning, see `Sentences.near`; asked only where its answer decides.
    """
    found = features(pair)
    if not found:
        return 0.0
    if near is not None:
        reach = (_score(found | {"known": 1.0, "near": meant}) for meant in (_FARTHEST, _NEAREST))
        if max(reach) <= 0:
            return 0.0
        if (meant := near(pair.old_reading.text, pair.new_reading.text)) is not None:
            found |= {"known": 1.0, "near": min(_NEAREST, max(_FARTHEST, meant))}
    score = _score(found) if found["topic"] or "known" in found else 0.0
    return _LEAST + (_MOST - _LEAST) * (1 - exp(-score)) if score > 0 else 0.0


def features(pair: Alignment) -> dict[str, float]:
    """What two notes share and what only one of them says, by the names of `_WEIGHTS`, and which `EVIDENCE` there is;
    nothing where they may both hold, or share no topic and the later one tells no turn.
    """
    old, new, one, other = pair.old_reading, pair.new_reading, pair.old, pair.new
    topic = (old.keys & new.keys) - _NO_TOPIC - {word.key for word in one.words[:1]}
    denials = [any(not part.polarity and part.keys & topic for part in note.clauses) for note in (old, new)]
    is_denied = denials == [False, True]
    is_slot = all(len({word.phrase for word in side}) == 1 for side in (pair.old_only, pair.new_only))
    same_start = takewhile(lambda words: words[0] == words[1], zip(one.row, other.row, strict=False))
    found: dict[str, float] = {
        "bias": 1.0,
        "turn": "turn" in new.flags - old.flags,
        "hint": "hint" in new.flags - old.flags,
        "denial": bool(pair.flips) or one.polarity != other.polarity or is_denied,
        "slot": is_slot,
        "figure": any(a and b and a.kind == b.kind for a, b in pair.apart),
        "unsaid": log1p(len(one.keys - new.keys)),
        "unsaid elsewhere": log1p(len(old.keys - new.keys - one.keys)),
        "all said again": old.keys <= new.keys,
        "new words": log1p(len(new.keys)),
        "new name": log1p(len(new.names - old.keys)),
        "one clause": len(new.clauses) == 1,
        "conditional": any(clause.joint in _CONDITIONS for clause in new.clauses),
        "topic": log1p(len(topic)),
        "definite": one.definite,
        "same start": log1p(max(0, len(list(same_start)) - 1)),
        "opposite": bool(pair.flips),
        "denied": is_denied,
        "value": is_slot and pair.old_only[0].lead == pair.new_only[0].lead == "be",
        "old is ongoing": "ongoing" in old.flags,
        "old is past": "past" in old.flags,
        "new is past": "past" in new.flags,
        "new is a plan": "plan" in new.flags,
    }
    is_told = topic or found["turn"]
    return found if is_told and not _may_both_hold(pair, found) else {}


def _may_both_hold(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether both notes can be true: "too"; things with other numbers or names; another subject, and no turn of things;
    one of several occasions; a sort that is denied ("tea", "no green tea"); the figure of another thing ("the 5 kg bag", "the
    10 kg bag"); "off" and "not on".
    """
    old, new, one, other = pair.old_reading, pair.new_reading, pair.old, pair.new
    first, second = (side.words[0].key if side.words else "" for side in (one, other))
    is_other = first not in new.keys and second not in old.keys
    is_changed = found["turn"] or found["hint"]
    is_date = any(a and b and a.kind == b.kind and a.kind in DATES for a, b in pair.apart)
    is_occasion = one.keys & terms.OCCASIONS and any(word.article == "a" for word in one.words)
    is_other_figure = found["figure"] and not (found["same start"] or is_changed)
    is_sort = pair.new_only and other.words[-2:-1] == pair.new_only and other.words[-1].lead == ""
    return bool(
        "added" in new.flags
        or (old.numbered and new.numbered and old.numbered.isdisjoint(new.numbered))
        or (is_other and (pair.flips or (first in old.names and second in new.names)))
        or ((is_other or one.owned != other.owned) and not is_changed)
        or (len(new.clauses) == 1 and one.keys == other.keys and not (pair.apart or found["denial"]))
        or (old.keys <= new.keys and is_other_figure)
        or (pair.flips and one.polarity != other.polarity and one.keys == other.keys)
        or (is_date and ("again" in other.row or is_occasion))
        or (one.polarity != other.polarity and not pair.old_only and is_sort)
    )


# ── The weights ─────────────────────────────────────────────────────────────────────────
# Of each feature: its weight, and what is added to it with each kind of `EVIDENCE`.
_WEIGHTS: Final = {
    "bias": (2.93, 2.40, 2.39, 0.47, -0.49, 0.40),
    "unsaid": (-2.36, -0.47, -1.02, -0.26, 0.84, 0.99),
    "unsaid elsewhere": (-2.76, -0.46, -0.30, -0.29, 0.34, -0.18),
    "all said again": (-2.80, 0.20, -0.92, 1.82, 2.38, 3.23),
    "new words": (-1.79, 0.03, -0.11, 0.11, 0.24, 0.41),
    "new name": (0.51, 0.40, 0.10, -0.36, -0.30, -1.40),
    "one clause": (-0.81, 0.45, 0.71, -0.69, -0.45, -1.41),
    "conditional": (-0.72, -0.35, 1.03, -0.07, -0.85, -0.11),
    "topic": (0.90, 1.11, 0.49, 0.91, 0.03, 0.66),
    "definite": (1.06, -0.55, -0.22, -0.58, -0.44, -0.44),
    "same start": (0.69, -0.29, 0.44, -0.55, -0.01, -0.89),
    "opposite": (0.22, -2.78, 0.66, 0.22, -1.65, -4.93),
    "denied": (0.61, -1.32, -0.59, 0.61, -1.50, -0.33),
    "value": (1.06, -2.42, -1.29, -1.15, 1.06, -1.19),
    "old is ongoing": (2.07, -0.02, -0.20, 0.13, -0.35, -1.12),
    "old is past": (-1.43, -1.60, -2.23, -0.17, 0.35, 0.88),
    "new is past": (0.92, -0.40, -0.96, -0.35, 0.22, -1.68),
    "new is a plan": (-0.72, -0.33, -0.01, 0.28, 0.50, -0.34),
    "known": (-0.49, -0.38, -0.00, -0.05, 0.12, 0.22),
    "near": (0.20, 0.31, 0.08, -0.02, -0.08, -0.12),
}


def _score(found: dict[str, float]) -> float:
    columns = [0, *(at for at, kind in enumerate(EVIDENCE, 1) if found[kind])]
    return sum(
        value * sum(weights[at] for at in columns)
        for name, weights in _WEIGHTS.items()
        if (value := found.get(name))
    )
