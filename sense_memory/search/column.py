"""Numpy arrays that grow at their end: an append costs as much as `list.append`, and a read is a view."""

from __future__ import annotations

import threading
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

_FAST_LEVEL: Final = 1  # of zlib: four times as fast as the default, with a result that is a tenth larger


class Column:
    """A growing array with one value for each row.

    Args:
        dtype: the type of the values.
        values: the first values; may be a read-only view, which the first change copies.
    """

    __slots__ = ("_array", "_count")

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | Sequence[Any] = ()) -> None:
        self._array: NDArray[Any] = np.asarray(values, dtype=dtype)
        self._count = len(self._array)

    def __len__(self) -> int:
        return self._count

    @property
    def view(self) -> NDArray[Any]:
        """The current values. Do not keep the view: growth moves the values."""
        return self._array[: self._count]

    def __getitem__(self, row: int) -> Any:
        return self._array[row]

    def __setitem__(self, row: Any, value: Any) -> None:
        self._own()
        self._array[row] = value

    def add(self, rows: NDArray[Any], values: NDArray[Any]) -> None:
        """Add values to some rows; a row that is named twice gets both values."""
        self._own()  # `add.at` writes into read-only memory without an error
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
        """Append rows with `value` until there are at least `count` rows."""
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


class PackedColumn:
    """A growing array of whole numbers that are rarely read.

    Loaded numbers stay packed until the first read, which costs some 2 ms for each million numbers; numbers can be added
    before that. Packing puts all lowest bytes first, then all second bytes, and so on, so that small numbers give long
    runs of zeros. Several threads may read at the same time, as long as no thread adds.

    Args:
        packed: the first numbers, as returned by `packed` of another column; referenced until the first read.
        count: the number of numbers in `packed`.
    """

    __slots__ = ("_count", "_late", "_packed", "_unpacking")

    def __init__(self, packed: NDArray[np.uint8] | None = None, count: int = 0) -> None:
        self._packed, self._count = packed, count
        self._late = Column(np.int32)  # the numbers after the packed numbers
        self._unpacking = threading.Lock()

    def __len__(self) -> int:
        return self._count + len(self._late)

    @property
    def view(self) -> NDArray[np.int32]:
        """The current numbers. Do not keep the view: growth moves the numbers."""
        with self._unpacking:
            if self._packed is not None:
                self._unpack(self._packed)
        return self._late.view

    def extend(self, values: NDArray[Any] | Sequence[int]) -> None:
        """Add some numbers."""
        self._late.extend(values)

    def packed(self) -> NDArray[np.uint8]:
        """All numbers as packed bytes, for storage; the format is private."""
        packed = self._packed  # another thread may be reading
        if packed is not None and not len(self._late):
            return packed
        packer = zlib.compressobj(_FAST_LEVEL)
        numbers = self.view.astype("<i4", copy=False).view(np.uint8).reshape(-1, 4)
        parts = [packer.compress(np.ascontiguousarray(numbers[:, place]).data) for place in range(4)]
        return np.frombuffer(b"".join((*parts, packer.flush())), np.uint8)

    def _unpack(self, packed: NDArray[np.uint8]) -> None:
        planes = np.frombuffer(zlib.decompress(packed.data), np.uint8).reshape(4, self._count)
        loaded = np.empty((len(self), 4), np.uint8)
        for place, plane in enumerate(planes):
            loaded[: self._count, place] = plane
        numbers = loaded.view("<i4").reshape(-1)
        numbers[self._count :] = self._late.view
        self._late, self._packed, self._count = Column(np.int32, numbers), None, 0
