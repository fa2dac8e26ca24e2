"""Questions with and without an answer in a palace; how well `confidence` tells them apart; and its weights, fitted.

    python -m tests.search.fit_confidence [static|minilm]

`questions.jsonl` has memories and questions that were written for this. Half of them are `tune`; the questions of `held`
were looked at once, when the weights were fixed. Most questions without an answer have names and topics of the
palace. To get more of them, each question is also asked while the memory that answers it is missing. Other natural
notes of `tests/palace` fill the palace up, to 10,000 memories.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sense_memory import open_embedder
from sense_memory.search import SearchIndex, SearchItem
from sense_memory.search.answers import asked_for, has_answer
from sense_memory.search.confidence import Clues, confidence_in, of_answer


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory import Embedder

_HERE: Final = Path(__file__).parent
_PALACE: Final = _HERE.parent / "palace"
SIZES: Final = (30, 300, 1_000, 10_000)
_CHECKED: Final = 5  # hits of each question that the weights are fitted to


class Asked(NamedTuple):
    """A question that was asked: the hits as paths, clues and texts, and the path that answers it, if one does."""

    question: str
    answer: str | None
    hits: list[tuple[str, Clues, str]]
    is_left_out: bool = False  # whether the memory that answers it is missing

    @property
    def confidence(self) -> float:
        """That of the answer."""
        return of_answer(confidence_in(text, self.question, clues) for _, clues, text in self.hits)

    @property
    def is_right(self) -> bool:
        """Whether a hit answers the question."""
        return self.answer in [path for path, _, _ in self.hits]


def _lines(name: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, name.read_text("utf-8").splitlines())


def items(size: int, half: str, seed: int = 0) -> dict[str, SearchItem]:
    """A palace by path; a small one has only memories that were written for the questions of a half."""
    own = [row for row in _lines(_HERE / "questions.jsonl") if "path" in row]
    found = {row["path"]: row for row in own if size > 200 or row["half"] == half}
    if size <= 200:
        found = dict(random.Random(seed).sample(sorted(found.items()), size))
    notes = [*_lines(_PALACE / "palace_200.jsonl"), *_lines(_PALACE / "quiet.jsonl")]
    notes += _lines(_PALACE / "observations.jsonl")
    for pair in _lines(_PALACE / "contradictions_by_author.jsonl"):
        notes += ({"key": key, "value": value} for key, value in (pair["old"], pair["new"]))
    for number, row in enumerate(notes):
        if len(found) >= size:
            break
        key = row.get("key") or "-".join(row.get("value", row.get("text", "")).lower().split()[:4])
        found.setdefault(row.get("path") or f"notes/{number}/{key}", row)
    return {
        path: SearchItem(
            path,
            row.get("value", row.get("text", "")),
            key=path.split("/")[-1],
            themes=tuple(row.get("themes", ())),
        )
        for path, row in found.items()
    }


def asked(half: str, size: int, embedder: Embedder | None = None, seed: int = 0) -> list[Asked]:
    """The questions of a half, asked of a palace, and once more without the memories that answer them."""
    kept = items(size, half, seed)
    index = SearchIndex(embedder=embedder)
    index.put_many(kept.values())
    rows = [row for row in _lines(_HERE / "questions.jsonl") if row["half"] == half and "question" in row]
    found = []
    for row in rows:
        answer = row["answer"] if row["answer"] in kept else None
        found.append(Asked(row["question"], answer, _hits(index, row["question"], kept, embedder)))
        if answer is not None:
            vectors = index.vectors(answer)
            index.drop(answer)
            hits = _hits(index, row["question"], kept, embedder)
            found.append(Asked(row["question"], None, hits, is_left_out=True))
            index.put_many([kept[answer]], embeds=False)
            index.fill({} if vectors is None else {answer: vectors})
    return found


def _hits(
    index: SearchIndex, question: str, kept: dict[str, SearchItem], embedder: Embedder | None
) -> list[tuple[str, Clues, str]]:
    direction = beyond = None
    if embedder is not None:
        texts = index.asks(question), index.asks_beyond_names(question) or index.asks(question)
        direction, beyond = np.asarray(embedder.embed(texts))
    hits = index.search(question, direction=direction, beyond_names=beyond)
    return [(hit.id, hit.clues, kept[hit.id].text) for hit in hits if hit.clues is not None]


def area(found: Sequence[Asked]) -> float:
    """How often a question with an answer has a higher confidence than one without (the area under the ROC curve)."""
    with_answer = np.array([one.confidence for one in found if one.answer])[:, None]
    without = np.array([one.confidence for one in found if not one.answer])[None]
    return float(np.mean((with_answer > without) + 0.5 * (with_answer == without)))


def fitted(by_size: Sequence[Sequence[Asked]], *, has_meaning: bool) -> NDArray[np.float64]:
    """The weights in the order of `Clues` without the day, then has_answer, lacks_answer, the base; a ridge logistic fit.

    Palaces of all sizes count the same, and so do questions with an answer, without, and with the answer left out.
    """
    rows, right, shares = [], [], []
    for found in by_size:
        kinds = [(bool(one.answer), one.is_left_out) for one in found]
        for one, kind in zip(found, kinds, strict=True):
            told = asked_for(one.question)
            for path, clues, text in one.hits[:_CHECKED]:
                fits = has_answer(told, one.question, text)
                meaning = [clues.meaning or 0.0] if has_meaning else []
                given = [clues.covered, clues.named, clues.apart, *meaning]
                rows.append([*given, fits is True, fits is False, 1.0])
                right.append(path == one.answer)
                shares.append(1 / kinds.count(kind))
    x, y, weight = np.array(rows, float), np.array(right, float), np.array(shares)
    scale = np.append(np.maximum(x[:, :-1].std(0), 1e-9), 1.0)
    x, weight = x / scale, weight * len(y) / weight.sum()
    ridge = np.diag(np.append(np.full(x.shape[1] - 1, 2.0), 0.0))
    found_weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ found_weights))
        slope = x.T @ (weight * (p - y)) + ridge @ found_weights
        found_weights -= np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + ridge, slope)
    fit: NDArray[np.float64] = found_weights / scale
    return fit


def main(name: str = "none") -> None:
    """Print the weights, and for each half and size how well they do."""
    embedder = open_embedder(name)
    for half in ("tune", "held"):
        by_size = [asked(half, size, embedder) for size in SIZES]
        if half == "tune":
            print("fitted:", fitted(by_size, has_meaning=embedder is not None).round(2))
        every = [one for found in by_size for one in found]
        print(half, *(f"{size:,}: {area(found):.3f}" for size, found in zip(SIZES, by_size, strict=True)))
        for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
            there = [one for one in every if low <= one.confidence < high]
            print(
                f"  from {low:.1f}: {len(there)} answers, {np.mean([one.is_right for one in there]):.2f} right"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
