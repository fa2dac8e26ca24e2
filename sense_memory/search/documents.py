"""The columns of the index for each memory, other than its words: time, day, speaker, neighbours, pieces, age.

A *session* is a day: the neighbours of a memory with a time are the memories before and after it on the same day. Rows are
only appended, as in `search.postings`; a changed memory moves to a new row and keeps its place among its neighbours.

Cost: a memory that is added at or near the end of its day, or changes without a change of time, is linked with its
neighbours in a bounded number of steps. A memory far out of order is linked by the next search, which sorts all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sense_memory.search.calendar_days import DAY_SECONDS, Period, Span
from sense_memory.search.column import Column


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

NO_DAY: Final = -(2**31)  # the day of a memory without a time
NONE: Final = -1
_MAX_DAY: Final = 2**30
MAX_TIME: Final = _MAX_DAY * DAY_SECONDS
_STEPS: Final = 64  # a new memory moves ahead of at most so many; for more, sorting all rows costs less


class Ageing(NamedTuple):
    """How a memory ages: its relevance at a time is factor x 2^(-rate x seconds since `since`).

    Attributes:
        since: seconds since 1970.
        rate: halvings per second; 0 for a memory that does not age.
        factor: the relevance at `since`.
    """

    since: float = 0.0
    rate: float = 0.0
    factor: float = 1.0


_UNAGED: Final = Ageing()


@dataclass(frozen=True, slots=True)
class SearchItem:
    """One memory to search.

    Attributes:
        id: the item's id; an item with the same id is replaced.
        text: any text.
        timestamp: when it was said, seconds since 1970; None if unknown.
        speaker: who said it: a name, or a role such as "user" or "assistant".
        key: a name, whose words count as if they were three times in the text.
        themes: texts whose words count as if they were twice in the text.
        kind: the kind of memory, for searches within one kind.
        ageing: for callers that weigh hits by age; the index does not use it.
        stamp: a number that changes if the item has to be indexed again, see `SearchIndex.refreshed`; below 2^64.
        event: a number for the origin of the item (an event, a conversation), kept with the index; below 2^64.
        created: when it was first written, seconds since 1970, for an item without `timestamp`, whose neighbours in time
            say nothing about it; None if unknown.
        written: when its text was written; None if unknown.
    """

    id: str
    text: str = field(repr=False)
    timestamp: float | None = None
    speaker: str = ""
    key: str = field(default="", repr=False)
    themes: tuple[str, ...] = field(default=(), repr=False)
    kind: str = ""
    ageing: Ageing = _UNAGED
    stamp: int = 0
    event: int = 0
    created: float | None = None
    written: float | None = None

    @property
    def at(self) -> float | None:
        """When its text was said or written; None if unknown."""
        return self.written if self.timestamp is None else self.timestamp


class Names:
    """Numbers for names, in the order in which the names were added."""

    def __init__(self, names: list[str] | None = None) -> None:
        self.all = names or []
        self._numbers = {name: number for number, name in enumerate(self.all)}

    def number(self, name: str) -> int:
        """The number of a name, which gets a new number if it has none; -1 for the empty name."""
        if not name:
            return NONE
        if name not in self._numbers:
            self._numbers[name] = len(self.all)
            self.all.append(name)
        return self._numbers[name]

    def known(self, name: str) -> int | None:
        """The number of a name; None where the name has none."""
        return self._numbers.get(name)


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
    "kinds": np.int8,
    "since": np.float64,
    "rates": np.float64,
    "factors": np.float64,
    "stamps": np.uint64,
    "events": np.uint64,
    "created": np.float64,
    "written": np.float64,
}
_SAID: Final[dict[str, Any]] = {"said_rows": np.int32, "said_starts": np.float64, "said_ends": np.float64}
TIMES: Final = (
    "times",
    "written",
    "created",
)  # when a memory was said, its text written, and it first written
_AGES: Final = ("since", "rates", "factors")


class DocumentTable:
    """One row for each memory, in columns.

    Attributes:
        ids: the id of each row.
        rows: the row of each existing memory, by id.
        sessions, speakers, kinds: the names behind the numbers in the columns.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.sessions, self.speakers, self.kinds = Names(), Names(), Names()
        self._columns = {name: Column(dtype) for name, dtype in _COLUMNS.items()}
        self._said = {name: Column(dtype) for name, dtype in _SAID.items()}
        self._sizes = Column(np.int64)  # memories in each session
        self._last: dict[int, int] = {}
        self._is_sorted = True
        self._next_place = 0
        self._covered = inf, -inf

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """A view of one column by its name; do not keep it."""
        return self._columns[name].view

    @property
    def session_sizes(self) -> NDArray[np.int64]:
        """A view of the number of memories in each session; do not keep it."""
        return self._sizes.view

    def of_kind(self, kind: str) -> NDArray[np.bool_]:
        """Which rows hold a memory of a kind."""
        found: NDArray[np.bool_] = (self.column("kinds") == self.kinds.known(kind)) & self.column("alive")
        return found

    def ages(self, rows: Any) -> NDArray[np.float64]:
        """The ageing of some rows, shape (3, n), in the order of `Ageing`."""
        return np.stack([self.column(name)[rows] for name in _AGES])

    def last_times(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """When the text of each of some rows was said or written; before all times where that is unknown."""
        said, written = self.column("times")[rows], self.column("written")[rows]
        return np.nan_to_num(np.where(np.isnan(said), written, said), nan=-inf)

    def update(self, item: SearchItem) -> None:
        """Set the ageing, the event and the times of writing of a memory whose text has not changed."""
        row = self.rows[item.id]
        for name, value in zip(_AGES, item.ageing, strict=True):
            self._columns[name][row] = value
        self._columns["created"][row], self._columns["written"][row] = map(_or_nan, _writing(item))
        self._cover(*map(_or_nan, _writing(item)))
        self._columns["events"][row] = item.event

    def add(self, item: SearchItem, first_piece: int) -> int:
        """Add a row; an earlier row of the memory is dropped, and its place kept.

        Returns:
            The number of the row.
        """
        row, day = len(self.ids), _day_of(item.timestamp)
        values = (first_piece, _or_nan(item.timestamp), day, self.sessions.number(_session(day)))
        more = (self.speakers.number(item.speaker), self._next_place, NONE, NONE, True)
        written = tuple(map(_or_nan, _writing(item)))
        self._cover(_or_nan(item.timestamp), *written)
        state = (self.kinds.number(item.kind), *item.ageing, item.stamp, item.event, *written)
        self._next_place += 1
        self.ids.append(item.id)
        for column, value in zip(self._columns.values(), (*values, *more, *state), strict=True):
            column.append(value)
        self._take_place(item.id, row)
        self.rows[item.id] = row
        return row

    def extend(self, items: Sequence[SearchItem], first_pieces: Sequence[int]) -> None:
        """Add a row for each of many new memories; the next search links them with their neighbours."""
        first, days = len(self.ids), [_day_of(item.timestamp) for item in items]
        sessions = np.array([self.sessions.number(_session(day)) for day in days], np.int32)
        nobody = np.full(len(items), NONE, np.int32)
        columns: tuple[NDArray[Any] | Sequence[Any], ...] = (
            first_pieces,
            [_or_nan(item.timestamp) for item in items],
            days,
            sessions,
            [self.speakers.number(item.speaker) for item in items],
            range(self._next_place, self._next_place + len(items)),
            nobody,
            nobody,
            np.ones(len(items), np.bool_),
            [self.kinds.number(item.kind) for item in items],
            *np.array([item.ageing for item in items], np.float64).T,
            np.array([item.stamp for item in items], np.uint64),
            np.array([item.event for item in items], np.uint64),
            *zip(*(map(_or_nan, _writing(item)) for item in items), strict=True),
        )
        for column, values in zip(self._columns.values(), columns, strict=True):
            column.extend(values)
        for item in items:
            self._cover(*map(_or_nan, (item.timestamp, *_writing(item))))
        self._next_place += len(items)
        self.ids += [item.id for item in items]
        self.rows |= {item.id: row for row, item in enumerate(items, first)}
        within = sessions[sessions >= 0]
        self._sizes.grow(len(self.sessions.all))
        self._sizes.add(within, np.ones(len(within), np.int64))
        self._is_sorted = self._is_sorted and not len(within)

    def say(self, row: int, periods: Sequence[Period]) -> None:
        """Note the times that the text of a row names."""
        for period in periods:
            self._cover(period.start)
            for column, value in zip(self._said.values(), (row, period.start, period.end), strict=True):
                column.append(value)

    def said(self) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """The times that texts name, each as the row, the start and the end; views, do not keep them."""
        rows, starts, ends = (column.view for column in self._said.values())
        return rows, starts, ends

    def drop(self, ident: str) -> int:
        """Remove a memory, and link its neighbours with each other.

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
        """Link a row between two adjacent rows, or further ahead if its time is earlier."""
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
        """Orders the rows of a session: by time, rows without a time last, equal times in the order of adding."""
        time = float(self._columns["times"][row])
        return isnan(time), 0.0 if isnan(time) else time, int(self._columns["places"][row])

    def neighbours(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows before and after each row in its session; -1 for none."""
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
        """The days from the first time that a memory was written or names to the last; None if there is none.

        Removed memories count until their rows are.
        """
        first, last = self._covered
        return Span(_day_of(first), _day_of(last)) if -MAX_TIME < first <= last < MAX_TIME else None

    def _cover(self, *times: float) -> None:
        """Extend the time that is covered; NaN is no time."""
        first, last = self._covered
        for time in times:
            if -MAX_TIME < time < MAX_TIME:
                first, last = min(first, time), max(last, time)
        self._covered = first, last

    def _cover_all(self) -> None:
        self._covered = inf, -inf
        for times in (*map(self.column, TIMES), self._said["said_starts"].view):
            known = times[np.abs(times) < MAX_TIME]
            if len(known):
                self._cover(float(known.min()), float(known.max()))

    def speaker(self, row: int) -> str:
        """The speaker of a row."""
        number = int(self._columns["speakers"][row])
        return self.speakers.all[number] if number >= 0 else ""

    def select(self, rows: NDArray[np.int64], first_pieces: NDArray[np.int64]) -> None:
        """Keep only some rows, which are renumbered in this order."""
        self._columns = {name: Column(c.view.dtype, c.view[rows]) for name, c in self._columns.items()}
        self._columns["first_piece"] = Column(np.int64, first_pieces)
        self._select_said(rows)
        self.ids = [self.ids[row] for row in rows.tolist()]
        self.rows = {ident: row for row, ident in enumerate(self.ids)}
        self._count()
        self._cover_all()
        self._sort()

    def _select_said(self, rows: NDArray[np.int64]) -> None:
        old = self._said["said_rows"].view
        place = np.searchsorted(rows, old)
        is_kept = np.append(rows, NONE)[np.minimum(place, len(rows))] == old
        self._said = {name: Column(c.view.dtype, c.view[is_kept]) for name, c in self._said.items()}
        self._said["said_rows"] = Column(np.int32, place[is_kept])

    def _count(self) -> None:
        """Count the memories of each session; every row has to be alive."""
        sessions = self.column("sessions")
        self._sizes = Column(np.int64, np.bincount(sessions[sessions >= 0], minlength=len(self.sessions.all)))

    def dump(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Names as plain values, and the columns. Every row has to be alive."""
        self.neighbours()
        names = {
            "ids": self.ids,
            "sessions": self.sessions.all,
            "speakers": self.speakers.all,
            "kinds": self.kinds.all,
        }
        return names, {name: column.view for name, column in (self._columns | self._said).items()}

    @classmethod
    def load(cls, names: Mapping[str, Any], columns: Mapping[str, NDArray[Any]]) -> DocumentTable:
        """A table from the result of `dump`."""
        self = cls()
        self.ids = names["ids"]
        self.rows = {ident: row for row, ident in enumerate(self.ids)}
        self.sessions, self.speakers = Names(names["sessions"]), Names(names["speakers"])
        self.kinds = Names(names["kinds"])
        self._columns = {name: Column(dtype, columns[name]) for name, dtype in _COLUMNS.items()}
        self._said = {name: Column(dtype, columns[name]) for name, dtype in _SAID.items()}
        self._count()
        self._cover_all()
        ends = np.flatnonzero((self.column("after") < 0) & (self.column("sessions") >= 0))
        self._last = dict(zip(self.column("sessions")[ends].tolist(), ends.tolist(), strict=True))
        self._next_place = int(self.column("places").max(initial=-1)) + 1
        return self


def _or_nan(time: float | None) -> float:
    return np.nan if time is None else time


def _writing(item: SearchItem) -> tuple[float | None, float | None]:
    return item.created, item.written


def _session(day: int) -> str:
    return "" if day == NO_DAY else str(day)


def _day_of(time: float | None) -> int:
    """The day of a time; `NO_DAY` without a time, or outside of the calendar."""
    if time is None or not abs(time) < MAX_TIME:
        return NO_DAY
    return int(time // DAY_SECONDS)
