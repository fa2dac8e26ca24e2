"""How well contradictions are found: what acts and what is suspected, on labelled pairs, traps and natural text.

The corpora are in `tests/palace/`. `contradictions_by_class.jsonl` was written without sight of the rules: pairs of
thirty classes (half of the contradictions in other words than what they contradict), traps, plain sentences of a new
user, and four other languages. The rules were tuned on the half `tune`; of the half `held` their author was told what
fails, in other names and words, and its class `later` was written after the first rules. `contradictions.jsonl` and
`paraphrases.jsonl` are older; `contradictions_by_author.jsonl` is by authors who did not know the rules, and nothing was
fitted to its half `held`; `quiet.jsonl` is a palace in which nothing contradicts anything. An act makes a memory
fade, so hardly one may be wrong; a suspicion costs a glance.

Observations of real conversations are no part of the repository: `SENSE_MEMORY_OBSERVATIONS` names a file of them, one
JSON object a line with `text` and `conversation`, of which nearly none contradicts another.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sense_memory import PersonaMemory
from sense_memory.palace import ClaimIndex, compare

from .figure import Figure, Rule


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.palace import Contradiction

    from .stage import Stage

    Judge: TypeAlias = Callable[[PersonaMemory, PersonaMemory], Contradiction | None]

_CORPORA: Final = Path(__file__).parents[2] / "tests" / "palace"
_PRECISION: Final = 98.0  # percent of acts that are right
_FOUND: Final = {
    "tune": 70.0,
    "held": 60.0,
}  # percent of the contradictions of pairs and plain, acts and suspicions
_TRAPS: Final = 99.0  # percent of traps that do not act
_UNTOUCHED: Final = 999.0  # of 1,000 natural observations: no act concerns them
_UNSUSPECTED: Final = 990.0
_CHECKS_COUNT: Final = 500
_OBSERVATIONS: Final = "SENSE_MEMORY_OBSERVATIONS"


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over some labelled pairs: right and wrong acts, what was found and suspected wrongly, contradictions."""

    right: int
    wrong: int
    found: int
    suspected: int
    opposed: int
    count: int

    @property
    def precision(self) -> float:
        """Percent of the acts that are right."""
        return 100.0 * self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Percent of the contradictions that acted or were suspected."""
        return 100.0 * self.found / max(1, self.opposed)


def labelled(name: str = "contradictions") -> list[dict[str, Any]]:
    """The labelled pairs of a file."""
    text = (_CORPORA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def score(pairs: Iterable[dict[str, Any]], judge: Judge = compare) -> Score:
    """The counts of a judge over labelled pairs."""
    counts: dict[tuple[bool, str], int] = defaultdict(int)
    for pair in pairs:
        old = PersonaMemory(**pair["old"], created_at=1.0)
        verdict = judge(old, PersonaMemory(**pair["new"], created_at=2.0))
        said = "nothing" if verdict is None else "act" if verdict.acts else "suspicion"
        counts[pair["label"] == "contradiction", said] += 1
    acts, suspicions = counts[True, "act"], counts[True, "suspicion"]
    return Score(
        right=acts,
        wrong=counts[False, "act"],
        found=acts + suspicions,
        suspected=counts[False, "suspicion"],
        opposed=acts + suspicions + counts[True, "nothing"],
        count=sum(counts.values()),
    )


def measure(stage: Stage) -> list[Figure]:
    """Precision, recall and traps on both halves, acts and suspicions on quiet and natural text, and costs."""
    stage.say("contradictions of labelled pairs")
    figures = []
    corpus = labelled("contradictions_by_class")
    for half in sorted({pair["half"] for pair in corpus}, reverse=True):
        figures += _by_half([pair for pair in corpus if pair["half"] == half], half)
    figures += _by_authors()
    figures += _changes()
    figures += _quiet(labelled("quiet"), "quiet notes")
    if path := os.environ.get(_OBSERVATIONS):
        figures += _natural(Path(path))
    return [*figures, *_costs(stage)]


def _by_half(pairs: list[dict[str, Any]], half: str) -> list[Figure]:
    judged = score(pair for pair in pairs if pair["set"] in {"pairs", "plain"})
    traps = score(pair for pair in pairs if pair["set"] == "traps")
    others = score(pair for pair in pairs if pair["set"] == "languages")
    name, floor = f"{half} half", "calls every pair a contradiction"
    every = 100.0 * judged.opposed / judged.count
    silent = 100.0 - 100.0 * traps.wrong / max(1, traps.count)
    return [
        Figure(f"precision of acts, {name}", "%", judged.precision, every, floor, Rule.AT_LEAST, _PRECISION),
        Figure(
            f"found, acts and suspicions, {name}",
            "%",
            judged.recall,
            100.0,
            floor,
            Rule.AT_LEAST,
            _FOUND[half],
        ),
        Figure(
            f"found in four other languages, {half} half",
            "%",
            others.recall,
            100.0,
            floor,
            Rule.AT_LEAST,
            65.0,
        ),
        Figure(f"traps that do not act, {half} half", "%", silent, 1.0, floor, Rule.AT_LEAST, _TRAPS),
    ]


def _by_authors() -> list[Figure]:
    """Contradictions by authors who did not know the rules, of those to whose pairs nothing was fitted."""
    place = {"domain": "people", "facet": "facts"}
    judged = score(
        {"label": pair["label"]}
        | {side: place | dict(zip(("key", "value"), pair[side], strict=True)) for side in ("old", "new")}
        for pair in labelled("contradictions_by_author")
        if pair["half"] == "held"
    )
    floor = "calls every pair a contradiction"
    return [
        Figure("found, other authors", "%", judged.recall, 100.0, floor, Rule.AT_LEAST, 72.0),
        Figure("precision, other authors", "%", judged.precision, 50.0, floor, Rule.AT_LEAST, _PRECISION),
    ]


def _changes() -> list[Figure]:
    """Everyday changes in three languages, under keys that say nothing, of those to which nothing was fitted."""
    place = {"domain": "people", "facet": "facts"}
    judged = score(
        {"label": pair["label"]}
        | {side: place | {"key": f"note-{side}", "value": pair[side]} for side in ("old", "new")}
        for pair in labelled("changes")
        if pair["half"] == "held"
    )
    floor = "calls every pair a contradiction"
    unsuspected = 100.0 - 100.0 * judged.suspected / max(1, judged.count - judged.opposed)
    return [
        Figure("found, everyday changes", "%", judged.recall, 100.0, floor, Rule.AT_LEAST, 65.0),
        Figure("unsuspected, of what may both hold", "%", unsuspected, 1.0, floor, Rule.AT_LEAST, 92.0),
    ]


def _natural(path: Path) -> list[Figure]:
    """Acts and suspicions among natural observations, each conversation a facet."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [
        {"domain": "people", "facet": row["conversation"], "key": f"seen-{number}", "value": row["text"]}
        for number, row in enumerate(rows)
    ]
    return _quiet(texts, "natural observations")


def _quiet(texts: list[dict[str, Any]], name: str) -> list[Figure]:
    """How many of 1,000 memories, of which nearly none contradicts another, no act and no suspicion concerns."""
    claims, acts, suspected = ClaimIndex(), 0, 0
    for number, text in enumerate(texts):
        fields = {key: value for key, value in text.items() if key != "half"}
        memory = PersonaMemory(**fields, created_at=float(number))
        found = claims.check(memory)
        acts += sum(each.acts for each in found)
        suspected += any(not each.acts for each in found)
        claims.put(memory)
    each, floor = 1_000.0 / len(texts), "calls every pair a contradiction"
    label = f"of 1,000 of {len(texts):,} {name}"
    acted, doubted = 1_000 - acts * each, 1_000 - suspected * each
    return [
        Figure(f"untouched {label}", "", acted, 1.0, floor, Rule.AT_LEAST, _UNTOUCHED),
        Figure(f"unsuspected {label}", "", doubted, 1.0, floor, Rule.AT_LEAST, _UNSUSPECTED),
    ]


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
