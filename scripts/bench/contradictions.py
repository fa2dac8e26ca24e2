"""How well contradictions are found: precision and recall of the contradictions acted on, on both halves of the
labelled pairs.

The pairs are in `tests/palace/contradictions.jsonl`. The rules were tuned on one half; a pair's half follows from a
hash of its id. Batch 1 was written before the rules, batch 2 after them and in other phrasing: its recall is to be
expected for notes that the rules were not written for. Floors are those of a judge that calls every pair a
contradiction.

`paraphrases.jsonl` has contradictions in other words, which rules alone hardly find. Contradictions that an embedder
adds are only ever suggested, so suggestions count there too. Batch 1 was written before an embedder was used; batch 2,
in which one thing is said in another way, before the held half was looked at; batch 3 after the last change of rules.
Batches 2 and 3 are held out whole.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sense_memory import PersonaMemory, open_embedder
from sense_memory.errors import MissingExtra
from sense_memory.palace import ClaimIndex, Phrases, compare

from .figure import Figure, Rule


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory import Embedder
    from sense_memory.palace import Contradiction

    from .stage import Stage

    Judge: TypeAlias = Callable[[PersonaMemory, PersonaMemory], Contradiction | None]

_PAIRS: Final = Path(__file__).parents[2] / "tests" / "palace"
_PRECISION: Final = 95.0  # percent of acts that are right
_RECALLS: Final = {"tune": 85.0, "held": 80.0}  # percent of contradictions that are acted on
# Percent found of contradictions in other words: by rules, and by meaning. Set below the measured values.
_FOUND: Final = {"tune": (5.0, 15.0), "held": (15.0, 35.0)}
_RIGHT: Final = 90.0  # percent right of the contradictions found in other words
_ROUNDS_COUNT: Final = 2  # rounds in which an embedder reads the phrases that comparing needs
_CHECKS_COUNT: Final = 500


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over some labelled pairs: right and wrong findings, and missed contradictions."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        """Percent of the findings that are right."""
        return 100.0 * self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Percent of the contradictions that were found."""
        return 100.0 * self.right / max(1, self.right + self.missed)


def labelled(name: str = "contradictions") -> list[dict[str, Any]]:
    """The labelled pairs of a file."""
    text = (_PAIRS / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def score(pairs: Iterable[dict[str, Any]], judge: Judge = compare, *, suggestions: bool = False) -> Score:
    """The counts of a judge over labelled pairs: of its acts, or of its suggestions too."""
    right = wrong = missed = 0
    for pair in pairs:
        verdict = judge(
            PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)
        )
        said = verdict is not None and (verdict.acts or suggestions)
        opposed = pair["label"] == "contradiction"
        right += said and opposed
        wrong += said and not opposed
        missed += opposed and not said
    return Score(right, wrong, missed)


def by_meaning(embedder: Embedder) -> Judge:
    """A judge that knows from an embedder which phrases mean the same."""
    phrases = Phrases()

    def judge(old: PersonaMemory, new: PersonaMemory) -> Contradiction | None:
        for _ in range(_ROUNDS_COUNT):
            compare(old, new, phrases.alike)
            asked = phrases.asked()
            phrases.learn(asked, embedder.embed(asked))
        return compare(old, new, phrases.alike)

    return judge


def measure(stage: Stage) -> list[Figure]:
    """Precision and recall of acts on both halves, and the costs of putting and checking."""
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
    return [*figures, *_in_other_words(stage), *_costs(stage)]


def _in_other_words(stage: Stage) -> list[Figure]:
    """Found contradictions in other words, acts and suggestions, by rules and with an embedder."""
    stage.say("contradictions in other words")
    try:
        embedder = open_embedder("static")
    except MissingExtra:
        embedder = None
    figures = []
    for half, (by_rules, by_both) in _FOUND.items():
        pairs = [pair for pair in labelled("paraphrases") if pair["half"] == half]
        every = 100.0 * sum(pair["label"] == "contradiction" for pair in pairs) / len(pairs)
        judges: dict[str, tuple[Judge, float]] = {"by words": (compare, by_rules)}
        if embedder is not None:
            judges["by meaning"] = by_meaning(embedder), by_both
        for how, (judge, recall) in judges.items():
            found = score(pairs, judge, suggestions=True)
            name = f"in other words, {how}, {half} half, {len(pairs)} pairs"
            floor = "calls every pair a contradiction"
            figures += [
                Figure(
                    f"right of what is found {name}",
                    "%",
                    found.precision,
                    every,
                    floor,
                    Rule.AT_LEAST,
                    _RIGHT,
                ),
                Figure(f"found {name}", "%", found.recall, 100.0, floor, Rule.AT_LEAST, recall),
            ]
    return figures


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
    claims, puts, checks, bare = ClaimIndex(), [], [], []
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
