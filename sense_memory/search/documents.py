"""What the index knows of each memory besides its words: time, session, speaker, neighbours, pieces.

Rows only ever grow, as in `search.postings`; a memory that changes moves to a new row and keeps its place
among its neighbours. What comes at the end of a session or near it, or changes without moving in time, is linked
at once; what comes far out of order waits for the next search, which sorts all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search.column import Column
from sense_memory.search.dates import DAY_SECONDS, Span, date


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

NO_DAY: Final = -(2**31)  # of a memory without a time
NONE: Final = -1
_MAX_DAY: Final = 2**30
_STEPS: Final = 64  # memories of a session that a new one is moved ahead of, before sorting all costs less


@dataclass(frozen=True, slots=True)
class SearchItem:
    """One memory to search.

    Attributes:
        id: names it; putting the same id again replaces it.
        text: any text.
        timestamp: when it was said, seconds since 1970; None if nobody knows.
        session: the conversation that it belongs to; without one, its day is one.
        speaker: who said it: a name, or a role such as "user" and "assistant".
    """

    id: str
    text: str = field(repr=False)
    timestamp: float | None = None
    session: str = ""
    speaker: str = ""


class Names:
    """Names by number, in the order in which they came."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.all = names or []
        self._numbers = {name: number for number, name in enumerate(self.all)}

    def number(self, name: str) -> int:
        """The number of a name, a new one if need be; -1 for the empty name."""
        if not name:
            return NONE
        if name not in self._numbers:
            self._numbers[name] = len(self.all)
            self.all.append(name)
        return self._numbers[name]


_COLUMNS: Final[dict[str, Any]] = {
    "first_piece": np.int64,
    "times": np.float64,
    "days": np.int32,
    "sessions": np.int32,
    "speakers": np.int32,
    "places": np.int64,
    "before": np.int32,
    "after": np.int32,
    "alive": np.bool_,
}


class Shelf:
    """One row per memory, in columns.

    Attributes:
        ids: of each row.
        rows: the row of each memory that is there.
        sessions, speakers: their names, numbered as in the columns.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.sessions, self.speakers = Names(), Names()
        self._columns = {name: Column(dtype) for name, dtype in _COLUMNS.items()}
        self._sizes = Column(np.int64)  # memories in each session
        self._last: dict[int, int] = {}
        self._is_sorted = True
        self._next_place = 0

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """One column by its name; not for keeping."""
        return self._columns[name].view

    @property
    def session_sizes(self) -> NDArray[np.int64]:
        """How many memories there are in each session; not for keeping."""
        return self._sizes.view

    def put(self, item: SearchItem, first_piece: int) -> int:
        """Add a row; the one that the memory had before, if any, is dropped, and its place kept.

        Returns:
            Its number.
        """
        row, day = len(self.ids), _day_of(item.timestamp)
        name = item.session or (f"\0{day}" if day != NO_DAY else "")  # without a session, the day is one
        time = np.nan if item.timestamp is None else item.timestamp
        values = (first_piece, time, day, self.sessions.number(name))
        more = (self.speakers.number(item.speaker), self._next_place, NONE, NONE, True)
        self._next_place += 1
        self.ids.append(item.id)
        for column, value in zip(self._columns.values(), (*values, *more), strict=True):
            column.append(value)
        self._take_place(item.id, row)
        self.rows[item.id] = row
        return row

    def extend(self, items: Sequence[SearchItem], first_pieces: Sequence[int]) -> None:
        """Add a row for each of many memories that are not there yet; they are linked with the next search."""
        first, days = len(self.ids), [_day_of(item.timestamp) for item in items]
        named = zip(items, days, strict=True)
        names = (item.session or (f"\0{day}" if day != NO_DAY else "") for item, day in named)
        sessions = np.array([self.sessions.number(name) for name in names], np.int32)
        nobody = np.full(len(items), NONE, np.int32)
        columns: tuple[NDArray[Any] | Sequence[Any], ...] = (
            first_pieces,
            [np.nan if item.timestamp is None else item.timestamp for item in items],
            days,
            sessions,
            [self.speakers.number(item.speaker) for item in items],
            range(self._next_place, self._next_place + len(items)),
            nobody,
            nobody,
            np.ones(len(items), np.bool_),
        )
        for column, values in zip(self._columns.values(), columns, strict=True):
            column.extend(values)
        self._next_place += len(items)
        self.ids += [item.id for item in items]
        self.rows |= {item.id: row for row, item in enumerate(items, first)}
        within = sessions[sessions >= 0]
        self._sizes.grow(len(self.sessions.all))
        self._sizes.add(within, np.ones(len(within), np.int64))
        self._is_sorted = self._is_sorted and not len(within)

    def drop(self, ident: str) -> int:
        """Take a memory out, and its neighbours together.

        Returns:
            The row that it had.
        """
        row = self.rows.pop(ident)
        self._columns["alive"][row] = False
        before, after = self._columns["before"], self._columns["after"]
        earlier, later = int(before[row]), int(after[row])
        if earlier >= 0:
            after[earlier] = later
        if later >= 0:
            before[later] = earlier
        before[row] = after[row] = NONE
        session = int(self._columns["sessions"][row])
        if session >= 0:
            self._sizes[session] -= 1
        if self._last.get(session) == row:
            if earlier >= 0:
                self._last[session] = earlier
            else:
                del self._last[session]
        return row

    def _take_place(self, ident: str, row: int) -> None:
        """Link a new row with its neighbours; keep the place of the row that it replaces."""
        columns, old = self._columns, self.rows.get(ident)
        session = int(columns["sessions"][row])
        sides = None
        if old is not None:
            columns["places"][row] = columns["places"][old]
            if session == columns["sessions"][old] and self._key(row) == self._key(old):
                sides = int(columns["before"][old]), int(columns["after"][old])
            self.drop(ident)
        if session < 0:
            return
        self._sizes.grow(session + 1)
        self._sizes[session] += 1
        if self._is_sorted:
            self._link(row, session, *(sides or (self._last.get(session, NONE), NONE)))

    def _link(self, row: int, session: int, earlier: int, later: int) -> None:
        """Link a row between two that follow each other, or as much further ahead as it is earlier."""
        before, after, own = self._columns["before"], self._columns["after"], self._key(row)
        for _ in range(_STEPS):
            if earlier < 0 or self._key(earlier) <= own:
                break
            earlier, later = int(before[earlier]), earlier
        else:
            self._is_sorted = False
            return
        before[row], after[row] = earlier, later
        if earlier >= 0:
            after[earlier] = row
        if later >= 0:
            before[later] = row
        else:
            self._last[session] = row

    def _key(self, row: int) -> tuple[bool, float, int]:
        """What orders the rows of a session: those without a time come last, and else who came first."""
        time = float(self._columns["times"][row])
        return isnan(time), 0.0 if isnan(time) else time, int(self._columns["places"][row])

    def neighbours(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows before and after each in its session; -1 where there is none."""
        if not self._is_sorted:
            self._sort()
        return self.column("before"), self.column("after")

    def _sort(self) -> None:
        sessions, alive = self.column("sessions"), self.column("alive")
        rows = np.flatnonzero(alive & (sessions >= 0))
        keys = (self.column("places")[rows], self.column("times")[rows], sessions[rows])
        rows = rows[np.lexsort(keys)]
        same = sessions[rows[1:]] == sessions[rows[:-1]]
        before, after = np.full(len(self), NONE, np.int32), np.full(len(self), NONE, np.int32)
        before[rows[1:][same]] = rows[:-1][same]
        after[rows[:-1][same]] = rows[1:][same]
        self._columns["before"], self._columns["after"] = Column(np.int32, before), Column(np.int32, after)
        self._last = dict(zip(sessions[rows].tolist(), rows.tolist(), strict=True))
        self._is_sorted = True

    def covered(self) -> Span | None:
        """The days from the first memory to the last; None if none has a time."""
        days = self.column("days")[self.column("alive")]
        days = days[days != NO_DAY]
        return Span(int(days.min()), int(days.max())) if len(days) else None

    def session(self, row: int) -> str:
        """The name of a row's session; empty where it is only a day, or nothing."""
        number = int(self._columns["sessions"][row])
        name = self.sessions.all[number] if number >= 0 else ""
        return "" if name.startswith("\0") else name

    def speaker(self, row: int) -> str:
        """Who said a row."""
        number = int(self._columns["speakers"][row])
        return self.speakers.all[number] if number >= 0 else ""

    def date(self, row: int) -> str:
        """The day of a row, as in 2023-05-08; empty if it has none."""
        day = int(self._columns["days"][row])
        return "" if day == NO_DAY else "{:04}-{:02}-{:02}".format(*date(day))

    def keep(self, rows: NDArray[np.int64], first_pieces: NDArray[np.int64]) -> None:
        """Keep only some rows, numbered anew in this order."""
        self._columns = {name: Column(c.view.dtype, c.view[rows]) for name, c in self._columns.items()}
        self._columns["first_piece"] = Column(np.int64, first_pieces)
        self.ids = [self.ids[row] for row in rows.tolist()]
        self.rows = {ident: row for row, ident in enumerate(self.ids)}
        self._count()
        self._sort()

    def _count(self) -> None:
        """Count the memories of each session; every row has to be alive."""
        sessions = self.column("sessions")
        self._sizes = Column(np.int64, np.bincount(sessions[sessions >= 0], minlength=len(self.sessions.all)))

    def dump(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Names as plain values, and the columns. Every row has to be alive."""
        self.neighbours()
        names = {"ids": self.ids, "sessions": self.sessions.all, "speakers": self.speakers.all}
        return names, {name: column.view for name, column in self._columns.items()}

    @classmethod
    def load(cls, names: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> Shelf:
        """What `dump` gave."""
        self = cls()
        self.ids = names["ids"]
        self.rows = {ident: row for row, ident in enumerate(self.ids)}
        self.sessions, self.speakers = Names(names["sessions"]), Names(names["speakers"])
        self._columns = {name: Column(dtype, columns[name]) for name, dtype in _COLUMNS.items()}
        self._count()
        ends = np.flatnonzero((self.column("after") < 0) & (self.column("sessions") >= 0))
        self._last = dict(zip(self.column("sessions")[ends].tolist(), ends.tolist(), strict=True))
        self._next_place = int(self.column("places").max(initial=-1)) + 1
        return self


def _day_of(time: float | None) -> int:
    """The day of a time; none for what no calendar reaches."""
    if time is None or not abs(time) < _MAX_DAY * DAY_SECONDS:
        return NO_DAY
    return int(time // DAY_SECONDS)
