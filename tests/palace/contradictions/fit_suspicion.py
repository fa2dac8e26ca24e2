"""Fits the weights of `sense_memory.palace.contradictions.suspicion`, and prints the table to paste.

    python tests/palace/contradictions/fit_suspicion.py OBSERVATIONS

OBSERVATIONS is a file of natural notes, one JSON object a line with `text` and `conversation`, of which next to none ends
another. The other data are in `tests/palace/`: pairs by 22 authors who did not know the program (`fit`; the pairs of eight
more are `held`, and never fitted), everyday changes, which count twice (`fit`), older pairs, profiles (facts of somebody, and
later notes that end none of them), invented observations, and the quiet notes.

A logistic model, ridge-regularised. Its bound lies where few natural notes are suspected by models that were fitted to the
other conversations: what a model says of the notes that it was fitted to is too good.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claims import Alignment, Reading, read
from sense_memory.palace.contradictions.detection import difference, sureness
from sense_memory.palace.contradictions.suspicion import EVIDENCE, features


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray


_CORPORA: Final = Path(__file__).parents[1]
_OLDER: Final = "contradictions", "paraphrases", "contradictions_by_class"
_PROFILE_WEIGHT: Final = 0.4
_HARDEST_COUNT: Final = (
    4_500  # pairs of natural notes that a first fit finds most suspicious; the others say nothing
)
_SUSPECTED_COUNT: Final = 14  # natural and quiet notes that may be suspected
_CHANGE_WEIGHT: Final = 2.0
_RIDGE: Final = 20.0
_STEPS_COUNT: Final = 14


@dataclass(frozen=True)
class Pair:
    """Two notes, whether the later one ends the earlier one, and how much that counts."""

    old: str
    new: str
    is_end: bool
    weight: float
    conversation: str = ""


def _rows(name: str) -> list[dict[str, Any]]:
    text = (_CORPORA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _labelled() -> Iterator[Pair]:
    for row in _rows("contradictions_by_author"):
        if row["half"] == "fit":
            yield Pair(row["old"][1], row["new"][1], row["label"] == "contradiction", 1.0)
    for row in _rows("changes"):
        if row["half"] == "fit":
            yield Pair(row["old"], row["new"], row["label"] == "contradiction", _CHANGE_WEIGHT)
    for name in _OLDER:
        for row in _rows(name):
            if row.get("half", "tune") == "tune":
                is_end = row["label"] == "contradiction"
                yield Pair(row["old"]["value"], row["new"]["value"], is_end, 1.0)
    facts = [row for row in _rows("profiles") if row["half"] == "fit" and row["part"] == "fact"]
    for row in _rows("profiles"):
        if row["half"] == "fit" and row["part"] != "fact":
            for fact in facts:
                if fact["profile"] == row["profile"]:
                    is_end = row.get("ends") == fact["text"]
                    yield Pair(fact["text"], row["text"], is_end, 1.0 if is_end else _PROFILE_WEIGHT)


def _natural(rows: Iterable[dict[str, Any]], *, invented: bool = False) -> Iterator[Pair]:
    conversations = defaultdict(list)
    for row in rows:
        conversations[row["conversation"]].append(row["text"])
    for name, texts in conversations.items():
        for old, new in combinations(texts, 2):
            yield Pair(old, new, is_end=False, weight=1.0, conversation="" if invented else name)


class _Design:
    """The matrix of some pairs: each feature, alone and with each kind of evidence."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        readings: dict[str, Reading] = {}
        self.pairs: list[Pair] = []
        found = []
        for pair in pairs:
            for text in (pair.old, pair.new):
                if text not in readings:
                    place = {"domain": "d", "facet": "f", "key": "k", "value": text, "created_at": 1.0}
                    readings[text] = read(PersonaMemory.model_validate(place))
            notes = readings[pair.old], readings[pair.new]
            if notes[0].keys.isdisjoint(notes[1].keys):
                continue
            aligned = Alignment.of(*notes)
            is_sure = sureness(aligned, difference(aligned))
            if not is_sure and (row := features(aligned)):
                self.pairs.append(pair)
                found.append(row)
        self.names = [name for name in found[0] if name not in EVIDENCE]
        self.columns = np.array([[float(row[name]) for name in self.names] for row in found], np.float32)
        self.kinds = np.array([[1.0, *(float(row[kind]) for kind in EVIDENCE)] for row in found], np.float32)
        self.is_end = np.array([pair.is_end for pair in self.pairs], np.float64)
        self.weight = np.array([pair.weight for pair in self.pairs])

    def keep(self, places: NDArray[Any]) -> None:
        """Leaves out the other pairs."""
        self.pairs = [self.pairs[place] for place in places]
        for name in ("columns", "kinds", "is_end", "weight"):
            setattr(self, name, getattr(self, name)[places])

    def matrix(self) -> NDArray[np.float64]:
        """One row a pair."""
        values = self.columns[:, :, None] * self.kinds[:, None, :]
        return values.reshape(len(self.pairs), -1).astype(np.float64)


def _fitted(x: NDArray[Any], y: NDArray[Any], weight: NDArray[Any]) -> NDArray[np.float64]:
    """Newton's method, on columns of one scale; the bias, which is the first, is not regularised."""
    scale = np.maximum(x.std(axis=0), 0.1)
    scale[0] = 1.0
    x, ridge = x / scale, _RIDGE * np.r_[0.0, np.ones(x.shape[1] - 1)]
    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS_COUNT):
        p = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        slope = x.T @ (weight * (p - y)) + ridge * beta
        beta -= np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(ridge), slope)
    fitted: NDArray[np.float64] = beta / scale
    return fitted


def _bound(scores: NDArray[np.float64], pairs: list[Pair], count: int) -> float:
    """The score above which so many natural notes are suspected."""
    suspected = set()
    for place in np.argsort(-scores):
        suspected |= {pairs[place].new} if pairs[place].conversation else set()
        if len(suspected) > count:
            return float(scores[place])
    return 0.0


def main(path: Path) -> None:
    """Fits, moves the bound, and prints what to paste."""
    labelled = _Design(_labelled())
    observations = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    quiet = [
        {"text": row["value"], "conversation": "quiet"} for row in _rows("quiet") if row.get("half") != "held"
    ]
    invented = _rows("observations")
    natural = _Design([*_natural([*observations, *quiet]), *_natural(invented, invented=True)])

    def fitted(kept: NDArray[Any]) -> NDArray[np.float64]:
        x = np.vstack([labelled.matrix(), natural.matrix()[kept]])
        is_end = np.concatenate([labelled.is_end, natural.is_end[kept]])
        return _fitted(x, is_end, np.concatenate([labelled.weight, natural.weight[kept]]))

    everything = np.ones(len(natural.pairs), bool)
    first = natural.matrix() @ fitted(everything)
    natural.keep(np.sort(np.argsort(-first)[:_HARDEST_COUNT]))
    conversations = np.array([pair.conversation for pair in natural.pairs])
    scores = np.full(len(conversations), -np.inf)
    for name in sorted(set(conversations) - {""}):
        mine = conversations == name
        scores[mine] = natural.matrix()[mine] @ fitted(~mine)
    table = fitted(np.ones(len(conversations), bool)).reshape(-1, 1 + len(EVIDENCE))
    table[labelled.names.index("bias"), 0] -= _bound(scores, natural.pairs, _SUSPECTED_COUNT)
    for name, row in zip(labelled.names, table, strict=True):
        sys.stdout.write(f'    "{name}": ({", ".join(f"{weight:.2f}" for weight in row)}),\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
