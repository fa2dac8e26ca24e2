"""How well contradictions are found: precision and recall of what acts, on both halves of the labelled pairs.

The pairs are in `tests/palace/contradictions.jsonl`. The rules were tuned on one half; a pair's half follows from
a hash of its id. Batch 1 was written before the rules, batch 2 after them and in other phrasing: its recall is what
to expect of notes that nobody had in mind. Floors are those of a judge that calls every pair a contradiction.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

from sense_memory import PersonaMemory
from sense_memory.palace import Claims, compare

from .figure import Figure, Rule


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .stage import Stage

_PAIRS: Final = Path(__file__).parents[2] / "tests" / "palace" / "contradictions.jsonl"
_PRECISION: Final = 95.0  # percent of acts that are right
_RECALLS: Final = {"tune": 85.0, "held": 80.0}  # percent of contradictions that are acted on
_CHECKS_COUNT: Final = 500


@dataclass(frozen=True, slots=True)
class Score:
    """What was counted over some labelled pairs: acts that were right and wrong, and contradictions missed."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        """Percent of the acts that were right."""
        return 100.0 * self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Percent of the contradictions that were acted on."""
        return 100.0 * self.right / max(1, self.right + self.missed)


def labelled() -> list[dict[str, Any]]:
    """The labelled pairs, as they stand in the file."""
    return [json.loads(line) for line in _PAIRS.read_text(encoding="utf-8").splitlines()]


def score(pairs: Iterable[dict[str, Any]]) -> Score:
    """What `compare` makes of labelled pairs."""
    right = wrong = missed = 0
    for pair in pairs:
        verdict = compare(
            PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)
        )
        acted, opposed = verdict is not None and verdict.acts, pair["label"] == "contradiction"
        right += acted and opposed
        wrong += acted and not opposed
        missed += opposed and not acted
    return Score(right, wrong, missed)


def measure(stage: Stage) -> list[Figure]:
    """Precision and recall of acts on both halves, and what putting and checking cost."""
    stage.say("contradictions of labelled pairs")
    figures = []
    for half, recall in _RECALLS.items():
        pairs = [pair for pair in labelled() if pair["half"] == half]
        found, opposed = score(pairs), sum(pair["label"] == "contradiction" for pair in pairs)
        every = 100.0 * opposed / len(pairs)
        name = f"{half} half, {len(pairs)} pairs"
        floor = "calls every pair a contradiction"
        figures += [
            Figure(
                f"precision of acts, {name}", "%", found.precision, every, floor, Rule.AT_LEAST, _PRECISION
            ),
            Figure(f"recall of acts, {name}", "%", found.recall, 100.0, floor, Rule.AT_LEAST, recall),
        ]
    return [*figures, *_costs(stage)]


def _written(text: dict[str, Any], value: str, number: int) -> PersonaMemory:
    return PersonaMemory.model_validate(
        {
            "domain": "people",
            "facet": "facts",
            "key": f"{text['key']}-{number}",
            "value": value,
            "themes": text["themes"],
            "created_at": float(number),
        }
    )


def _costs(stage: Stage) -> list[Figure]:
    """One facet with as many memories as the stage says, from the vocabulary of the labelled pairs."""
    stage.say(f"contradictions among {stage.count:,} memories of one facet")
    texts = [pair[side] for pair in labelled() for side in ("old", "new")]
    claims, puts, checks, bare = Claims(), [], [], []
    for number in range(stage.count + _CHECKS_COUNT):
        text = texts[number % len(texts)]
        value = f"{text['value']} beside {number // 7}" if number >= len(texts) else text["value"]
        memory = _written(text, value, number)
        begun = time.perf_counter()
        if number < stage.count:
            claims.put(memory)
            puts.append(time.perf_counter() - begun)
        else:
            claims.check(memory)
            checks.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        set(value.lower().split())
        bare.append(time.perf_counter() - begun)
    floor, name = median(bare), "splits the text into words"
    check = f"check against {stage.count:,} of one facet"
    return [
        Figure("put one memory, p50", "µs", median(puts) * 1e6, floor * 1e6, name, Rule.AT_MOST, 100),
        Figure(f"{check}, p50", "ms", median(checks) * 1e3, floor * 1e3, name, Rule.AT_MOST, 1),
        Figure(
            f"{check}, p99", "ms", quantiles(checks, n=100)[-1] * 1e3, floor * 1e3, name, Rule.AT_MOST, 10
        ),
    ]
