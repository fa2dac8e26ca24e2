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

import re
from itertools import takewhile
from math import exp, log1p
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.claims import tells_how_many
from sense_memory.palace.contradictions.figures import DATES


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.claims import Alignment, Clause
    from sense_memory.palace.contradictions.sentences import Near

EVIDENCE: Final = ("turn", "hint", "denial", "slot", "figure")  # that something ended
_LEAST, _MOST = 0.5, 0.7  # the confidence of a suspicion
_FARTHEST, _NEAREST = -3.0, 8.0  # nearness beyond counts as this, in standard deviations
_CONDITIONS: Final = frozenset({"if", "when", "unless", "until", "while", "before", "after"})
_AFTER_NAMES: Final = terms.AUXILIARIES | terms.NEGATORS
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
    first, second = (side.words[0].key if side.words else "" for side in (old, new))
    is_other = first not in after.keys and second not in before.keys
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
        "other subject": is_other,
        "old is ongoing": "ongoing" in before.flags,
        "old is past": "past" in before.flags,
        "new is past": "past" in after.flags,
        "new is a plan": "plan" in after.flags,
    }
    is_told = topic or found["turn"]
    return found if is_told and not _may_both_hold(pair, found) else {}


def _may_both_hold(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether both notes can be true: "too"; room 5 and room 9, the Rome office and the Oslo office; another subject without a
    turn of things; "off" and "not on"; the same said again;
    one of several occasions; a sort that is denied ("tea", "no green tea").
    """
    before, after, old, new = pair.old_reading, pair.new_reading, pair.old, pair.new
    is_date = any(a and b and a.kind == b.kind and a.kind in DATES for a, b in pair.apart)
    is_occasion = old.keys & terms.OCCASIONS and any(word.article == "a" for word in old.words)
    is_sort = pair.new_only and new.words[-2:-1] == pair.new_only and new.words[-1].lead == ""
    is_turned = old.polarity != new.polarity
    is_other = found["other subject"] or old.owned != new.owned
    is_other_name = found["other subject"] and _is_named(old) and _is_named(new)
    is_one_of_a_series = not (found["turn"] or found["hint"]) and (_is_numbered(pair) or _is_coded(pair))
    is_other_figure = found["figure"] and not (found["same start"] or found["turn"] or found["hint"])
    return bool(
        "added" in after.flags
        or is_one_of_a_series
        or (before.numbered and after.numbered and before.numbered.isdisjoint(after.numbered))
        or is_other_name
        or (before.keys <= after.keys and is_other_figure)
        or (is_other and not (found["turn"] or found["hint"]))
        or (pair.flips and (found["other subject"] or (is_turned and old.keys == new.keys)))
        or (len(after.clauses) == 1 and old.keys == new.keys and not (pair.apart or found["denial"]))
        or (is_date and ("again" in new.row or is_occasion))
        or (is_turned and not pair.old_only and is_sort)
    )


def _is_named(clause: Clause) -> bool:
    """Whether a clause seems to be about something with a name: "Ana is …", "Ben no longer …", "the Rome office"."""
    verb = str(clause.row[1]) if len(clause.row) > 1 else ""
    is_told = verb in _AFTER_NAMES or verb.endswith("s")
    return any(word.text[0].isupper() and (word.article or is_told) for word in clause.words[:1])


def _is_numbered(pair: Alignment) -> bool:
    """Whether the texts differ in a number that may tell which one of several is meant: "value 3 of load"."""
    return any(
        one is not None
        and other is not None
        and not (tells_how_many(pair.old, one) and tells_how_many(pair.new, other))
        for one, other in pair.apart
    )


def _is_coded(pair: Alignment) -> bool:
    """Whether the texts differ in the digits of a word: `draft-3.txt` and `draft-4.txt`, `0xc62` and `0x1f9`."""
    old, new = ([word.text for word in side] for side in (pair.old_only, pair.new_only))
    return old != new and [_DIGITS.sub("", word) for word in old] == [_DIGITS.sub("", word) for word in new]


_DIGITS: Final = re.compile(r"[\da-f]")  # those of hexadecimal numbers too


# ── The weights ─────────────────────────────────────────────────────────────────────────
# Of each feature: its weight, and what is added to it with each kind of `EVIDENCE`.
_WEIGHTS: Final = {
    "bias": (2.87, 2.46, 2.35, 0.47, -0.41, 0.34),
    "unsaid": (-2.38, -0.49, -1.02, -0.29, 1.04, 1.28),
    "unsaid elsewhere": (-2.77, -0.48, -0.29, -0.30, 0.34, -0.08),
    "all said again": (-2.85, 0.13, -0.93, 1.81, 2.48, 3.55),
    "new words": (-1.80, 0.04, -0.12, 0.13, 0.17, 0.34),
    "new name": (0.54, 0.38, 0.13, -0.48, -0.24, -1.57),
    "one clause": (-0.81, 0.41, 0.75, -0.72, -0.50, -1.53),
    "conditional": (-0.65, -0.30, 0.86, -0.15, -0.64, -0.50),
    "topic": (0.94, 1.08, 0.54, 0.90, -0.04, 0.66),
    "definite": (1.01, -0.50, -0.14, -0.63, -0.34, -0.38),
    "same start": (0.69, -0.28, 0.45, -0.57, -0.08, -0.75),
    "opposite": (0.31, -2.82, 0.43, 0.31, -1.77, -2.94),
    "denied": (0.64, -1.47, -0.70, 0.64, -1.41, -0.29),
    "value": (1.05, -2.41, -1.28, -1.20, 1.05, -1.24),
    "other subject": (-0.13, 0.05, -0.27, 1.98, -1.36, 0.77),
    "old is ongoing": (2.07, -0.04, -0.14, 0.14, -0.40, -1.00),
    "old is past": (-1.53, -1.56, -2.20, -0.04, 0.11, 1.27),
    "new is past": (0.97, -0.42, -0.96, -0.36, 0.11, -2.12),
    "new is a plan": (-0.74, -0.30, -0.00, 0.30, 0.47, -0.30),
    "known": (-0.48, -0.38, 0.02, -0.09, 0.10, 0.22),
    "near": (0.20, 0.31, 0.07, 0.00, -0.07, -0.12),
}


def _score(found: dict[str, float]) -> float:
    columns = [0, *(at for at, kind in enumerate(EVIDENCE, 1) if found[kind])]
    return sum(
        value * sum(weights[at] for at in columns)
        for name, weights in _WEIGHTS.items()
        if (value := found.get(name))
    )
