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
    before, after, old, new = pair.old_reading, pair.new_reading, pair.old, pair.new
    topic = (before.keys & after.keys) - _NO_TOPIC - {word.key for word in old.words[:1]}
    denials = [
        any(not part.polarity and part.keys & topic for part in note.clauses) for note in (before, after)
    ]
    is_denied = denials == [False, True]
    is_slot = all(len({word.phrase for word in side}) == 1 for side in (pair.old_only, pair.new_only))
    same_start = takewhile(lambda words: words[0] == words[1], zip(old.row, new.row, strict=False))
    found: dict[str, float] = {
        "bias": 1.0,
        "turn": "turn" in after.flags - before.flags,
        "hint": "hint" in after.flags - before.flags,
        "denial": bool(pair.flips) or old.polarity != new.polarity or is_denied,
        "slot": is_slot,
        "figure": any(a and b and a.kind == b.kind for a, b in pair.apart),
        "unsaid": log1p(len(old.keys - after.keys)),
        "unsaid elsewhere": log1p(len(before.keys - after.keys - old.keys)),
        "all said again": before.keys <= after.keys,
        "new words": log1p(len(after.keys)),
        "new name": log1p(len(after.names - before.keys)),
        "one clause": len(after.clauses) == 1,
        "conditional": any(clause.joint in _CONDITIONS for clause in after.clauses),
        "topic": log1p(len(topic)),
        "definite": old.definite,
        "same start": log1p(max(0, len(list(same_start)) - 1)),
        "opposite": bool(pair.flips),
        "denied": is_denied,
        "value": is_slot and pair.old_only[0].lead == pair.new_only[0].lead == "be",
        "old is ongoing": "ongoing" in before.flags,
        "old is past": "past" in before.flags,
        "new is past": "past" in after.flags,
        "new is a plan": "plan" in after.flags,
    }
    is_told = topic or found["turn"]
    return found if is_told and not _may_both_hold(pair, found) else {}


def _may_both_hold(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether both notes can be true: "too"; things with other numbers or names; another subject, and no turn of things;
    one of several occasions; a sort that is denied ("tea", "no green tea"); the figure of another thing ("the 5 kg bag", "the
    10 kg bag"); "off" and "not on".
    """
    before, after, old, new = pair.old_reading, pair.new_reading, pair.old, pair.new
    first, second = (side.words[0].key if side.words else "" for side in (old, new))
    is_other = first not in after.keys and second not in before.keys
    is_changed = found["turn"] or found["hint"]
    is_date = any(a and b and a.kind == b.kind and a.kind in DATES for a, b in pair.apart)
    is_occasion = old.keys & terms.OCCASIONS and any(word.article == "a" for word in old.words)
    is_other_figure = found["figure"] and not (found["same start"] or is_changed)
    is_sort = pair.new_only and new.words[-2:-1] == pair.new_only and new.words[-1].lead == ""
    return bool(
        "added" in after.flags
        or (before.numbered and after.numbered and before.numbered.isdisjoint(after.numbered))
        or (is_other and (pair.flips or (first in before.names and second in after.names)))
        or ((is_other or old.owned != new.owned) and not is_changed)
        or (len(after.clauses) == 1 and old.keys == new.keys and not (pair.apart or found["denial"]))
        or (before.keys <= after.keys and is_other_figure)
        or (pair.flips and old.polarity != new.polarity and old.keys == new.keys)
        or (is_date and ("again" in new.row or is_occasion))
        or (old.polarity != new.polarity and not pair.old_only and is_sort)
    )


# ── The weights ─────────────────────────────────────────────────────────────────────────
# Of each feature: its weight, and what is added to it with each kind of `EVIDENCE`.
_WEIGHTS: Final = {
    "bias": (2.80, 2.41, 2.39, 0.46, -0.37, 0.38),
    "unsaid": (-2.39, -0.47, -1.01, -0.25, 1.03, 0.90),
    "unsaid elsewhere": (-2.77, -0.48, -0.29, -0.28, 0.32, -0.23),
    "all said again": (-2.90, 0.23, -0.86, 1.92, 2.52, 3.26),
    "new words": (-1.76, 0.04, -0.11, 0.11, 0.16, 0.41),
    "new name": (0.54, 0.39, 0.08, -0.36, -0.27, -1.43),
    "one clause": (-0.81, 0.43, 0.74, -0.66, -0.51, -1.40),
    "conditional": (-0.63, -0.35, 0.94, -0.14, -0.67, -0.21),
    "topic": (0.95, 1.09, 0.47, 0.89, -0.06, 0.76),
    "definite": (1.03, -0.55, -0.20, -0.56, -0.43, -0.41),
    "same start": (0.70, -0.28, 0.44, -0.57, -0.02, -0.91),
    "opposite": (0.26, -2.84, 0.62, 0.26, -1.69, -4.97),
    "denied": (0.62, -1.34, -0.52, 0.62, -1.46, -0.36),
    "value": (1.07, -2.45, -1.31, -1.22, 1.07, -1.22),
    "old is ongoing": (2.08, -0.04, -0.20, 0.15, -0.39, -1.10),
    "old is past": (-1.43, -1.60, -2.23, -0.18, 0.32, 0.88),
    "new is past": (0.93, -0.39, -0.95, -0.37, 0.19, -1.68),
    "new is a plan": (-0.73, -0.32, 0.02, 0.28, 0.47, -0.30),
    "known": (-0.44, -0.37, -0.01, -0.07, 0.08, 0.28),
    "near": (0.20, 0.30, 0.08, -0.01, -0.06, -0.13),
}


def _score(found: dict[str, float]) -> float:
    columns = [0, *(at for at, kind in enumerate(EVIDENCE, 1) if found[kind])]
    return sum(
        value * sum(weights[at] for at in columns)
        for name, weights in _WEIGHTS.items()
        if (value := found.get(name))
    )
