"""Fits the weights of `sense_memory.palace.contradictions.suspicion`, and prints them.

    python tests/palace/contradictions/fit_suspicion.py OBSERVATIONS

OBSERVATIONS is a file of natural notes, one JSON object a line with `text` and `conversation`, of which next to none ends
another. The other data are in `tests/palace/`: pairs by six authors who did not know the program, older pairs at less
weight, and the quiet notes. Four more authors' pairs (`held`) are never fitted. A logistic model, ridge-regularised; its
bound lies where few natural notes and few quiet ones are suspected.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.palace.contradictions.suspicion import Note, features, may_both_hold


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

_CORPORA: Final = Path(__file__).parents[1]
_OLDER: Final = "contradictions", "paraphrases", "contradictions_by_class"
_WEIGHT_OF_OLDER: Final = 0.3  # of their contradictions: their authors knew the rules
_WEIGHTS_OF_NATURAL: Final = (
    0.1,
    1.0,
)  # of natural notes, of which there are thousands of pairs, and of quiet ones
_NATURAL_COUNT: Final = 7  # pairs that may be suspected
_QUIET_COUNT: Final = 4
_RIDGE: Final = 1.0
_STEPS_COUNT: Final = 60


def _rows(name: str) -> list[dict[str, Any]]:
    text = (_CORPORA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _labelled() -> Iterator[tuple[str, str, bool, float]]:
    """Old text, new text, whether the new one ends the old one, weight."""
    for row in _rows("contradictions_by_author"):
        if row["half"] == "fit":
            yield row["old"][1], row["new"][1], row["label"] == "contradiction", 1.0
    for name in _OLDER:
        for row in _rows(name):
            if row.get("half", "tune") == "tune":
                is_one = row["label"] == "contradiction"
                yield row["old"]["value"], row["new"]["value"], is_one, _WEIGHT_OF_OLDER if is_one else 1.0


def _natural(path: Path) -> Iterator[tuple[str, str]]:
    conversations = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        conversations[row["conversation"]].append(row["text"])
    for texts in conversations.values():
        yield from combinations(texts, 2)


def _features(pairs: Iterable[tuple[str, str]]) -> list[dict[str, float]]:
    notes: dict[str, Note] = {}
    for pair in pairs:
        for text in pair:
            if text not in notes:
                notes[text] = Note.of(text)
    read = ((notes[old], notes[new]) for old, new in pairs)
    return [{} if may_both_hold(old, new) else features(old, new) for old, new in read]


def _matrix(found: list[dict[str, float]], names: list[str]) -> NDArray[np.float64]:
    return np.array([[1.0, *(float(row[name]) for name in names)] for row in found])


def _fitted(x: NDArray[Any], y: NDArray[Any], weight: NDArray[Any]) -> NDArray[np.float64]:
    """Newton's method, on columns of one scale; the bias is not regularised."""
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


def main(path: Path) -> None:
    """Fits, moves the bound, and prints what to paste."""
    labelled = list(_labelled())
    natural, quiet = list(_natural(path)), list(combinations([row["value"] for row in _rows("quiet")], 2))
    found = _features([(old, new) for old, new, _, _ in labelled])
    kept = [place for place, row in enumerate(found) if row]
    names = list(found[kept[0]])
    sets = [[row for row in _features(pairs) if row] for pairs in (natural, quiet)]
    x, *others = (_matrix(rows, names) for rows in ([found[place] for place in kept], *sets))
    count = sum(map(len, others))
    beta = _fitted(
        np.vstack([x, *others]),
        np.r_[[labelled[place][2] for place in kept], np.zeros(count)],
        np.r_[
            [labelled[place][3] for place in kept],
            np.repeat(_WEIGHTS_OF_NATURAL, [len(rows) for rows in others]),
        ],
    )
    limits = zip(others, (_NATURAL_COUNT, _QUIET_COUNT), strict=True)
    beta[0] -= max(np.sort(rows @ beta)[::-1][limit] for rows, limit in limits)
    sys.stdout.write(f"_BIAS: Final = {beta[0]:.2f}\n_WEIGHTS: Final = {{\n")
    for name, weight in zip(names, beta[1:], strict=True):
        sys.stdout.write(f'    "{name}": {weight:.2f},\n')
    sys.stdout.write("}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
