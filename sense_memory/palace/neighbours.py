"""Pairs of memories that are near in meaning, for suggestions of connections. Pure; the caller has the vectors.

Cosines differ from model to model, so nearness is measured against the average cosine of the palace itself. The work is
bounded: of a very large palace only the first memories are compared, each with its nearest others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.limits import MAX_ALIKE_COUNT


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PER_MEMORY_COUNT: Final = 5  # neighbours of each memory
# Of the way from the usual cosine to 1. On labelled pairs, with a table and with a small model, nearly all pairs this
# near share a subject; of random pairs, one in a thousand is this near.
NEAR: Final = 0.55
_BLOCK_ROWS: Final = 512


def near_pairs(paths: Sequence[str], rows: NDArray[np.float32]) -> list[tuple[str, str, float]]:
    """The pairs of memories that mean nearly the same, nearest first.

    Args:
        paths: the paths of the memories, each once; only the first `MAX_ALIKE_COUNT` are compared.
        rows: a unit vector for each memory; a vector of zeros is near to nothing.

    Returns:
        Path, path, and the share of the way from the usual cosine to 1, from `NEAR` up; see
        `palace.connections.suggest`.
    """
    rows = np.ascontiguousarray(rows[:MAX_ALIKE_COUNT], np.float32)
    count = len(rows)
    if count < 2:
        return []
    total = rows.sum(0, dtype=np.float64)
    usual = max(0.0, float(total @ total - count) / (count * (count - 1)))
    bound = usual + NEAR * (1 - usual)
    found: dict[tuple[int, int], float] = {}
    for start in range(0, count, _BLOCK_ROWS):
        for first, second, cosine in _nearest(rows, start, bound):
            found[min(first, second), max(first, second)] = cosine
    pairs = [
        (paths[first], paths[second], min(1.0, (cosine - usual) / max(1 - usual, 1e-6)))
        for (first, second), cosine in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _nearest(rows: NDArray[np.float32], start: int, bound: float) -> list[tuple[int, int, float]]:
    """The nearest others of each row of one block, as far as they are near."""
    cosines = rows[start : start + _BLOCK_ROWS] @ rows.T
    own = np.arange(len(cosines))
    cosines[own, start + own] = -1.0
    near = cosines >= bound
    crowded = np.flatnonzero(near.sum(1) > PER_MEMORY_COUNT)
    best = np.argpartition(-cosines[crowded], PER_MEMORY_COUNT - 1, axis=1)[:, :PER_MEMORY_COUNT]
    near[crowded] = False
    near[crowded[:, None], best] = True
    places, others = np.nonzero(near)
    return list(
        zip((start + places).tolist(), others.tolist(), cosines[places, others].tolist(), strict=True)
    )
