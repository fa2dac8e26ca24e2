"""A numpy array that grows at its end: appending costs what `list.append` costs, reading is a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray


class Column:
    """One value per row.

    Args:
        dtype: of the values.
        values: to begin with; may be a read-only view, which the first change copies.
    """

    __slots__ = ("_array", "_count")

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | Sequence[Any] = ()) -> None:
        self._array: NDArray[Any] = np.asarray(values, dtype=dtype)
        self._count = len(self._array)

    def __len__(self) -> int:
        return self._count

    @property
    def view(self) -> NDArray[Any]:
        """The values so far; not for keeping, as growth moves them."""
        return self._array[: self._count]

    def __getitem__(self, row: int) -> Any:
        return self._array[row]

    def __setitem__(self, row: Any, value: Any) -> None:
        self._own()
        self._array[row] = value

    def add(self, rows: NDArray[Any], values: NDArray[Any]) -> None:
        """Add to some rows, to one that is named twice both."""
        self._own()  # `add.at` would write into read-only memory without a word
        np.add.at(self._array, rows, values)

    def append(self, value: Any) -> None:
        """Add one row."""
        self._reserve(1)
        self._array[self._count] = value
        self._count += 1

    def extend(self, values: NDArray[Any] | Sequence[Any]) -> None:
        """Add some rows."""
        self._reserve(len(values))
        self._array[self._count : self._count + len(values)] = values
        self._count += len(values)

    def grow(self, count: int, value: Any = 0) -> None:
        """Fill up to at least so many rows."""
        if count > self._count:
            self._reserve(count - self._count)
            self._array[self._count : count] = value
            self._count = count

    def _own(self) -> None:
        if not self._array.flags.writeable:
            self._array = self._array.copy()

    def _reserve(self, more: int) -> None:
        needed = self._count + more
        if needed > len(self._array) or not self._array.flags.writeable:
            room = np.empty(max(needed, len(self._array) * 3 // 2, 16), self._array.dtype)
            room[: self._count] = self._array[: self._count]
            self._array = room
