"""Dates as evidence: the times of a memory, and those that its text names, against those of a question. Pure.

A memory has up to four times: when it was said (a message, a journal entry), when it was first written and when its
present text was written (a memory of the palace, a flat memory, a passage), and each time that its text names. The one
that fits best counts, and `fit_of` says which it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search.calendar_days import DAY_SECONDS, Period, date
from sense_memory.search.date_words import MAX_DATED_CHARS, mentions_date
from sense_memory.search.dates import read_dates
from sense_memory.search.documents import MAX_TIME, TIMES
from sense_memory.search.tokens import fold


if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sense_memory.search.dates import DateReading
    from sense_memory.search.documents import DocumentTable, SearchItem
    from sense_memory.search.query import Wanted

MAX_TIMES: Final = 8  # that the text of an item may name
AFTERMATH_DAYS: Final = 7  # people often talk about an event up to so many days later
NEAR_DAYS: Final = 120  # "before the summer" means rather the months before it than years
FAR_FIT: Final = 0.6  # of what lies further away than that
NAMED_FIT: Final = (
    0.7  # of a text that names the time: it has the word for it too, and often speaks of another time
)
WITHIN_FIT: Final = 0.68  # the least of a time within; of one in the week after, it is less
LEAST_FIT: Final = 0.3  # of a text that names a far longer time
_ASKING_ENGLISH: Final = """
note notes noted write wrote written say said tell told mention mentioned discuss discussed talked happen happens happened
happening learn learned learnt remember remembered keep kept save saved stored recorded
"""
_ASKING_ELSEWHERE: Final = """
notiert notierte notizen geschrieben schrieb gesagt sagte erzahlt erzahlte besprochen passiert passierte geschah geschehen
gelernt gemerkt note notes ecrit dit raconte passe appris retenu anote anotado apunte escribi escrito dije dicho paso
ocurrio aprendi
"""
ASKING_WORDS: Final = frozenset(f"{_ASKING_ENGLISH} {_ASKING_ELSEWHERE}".split())
_SENTENCE: Final = re.compile(r"(?<=[^\d][.!?])\s+|\n+")  # not at "14. Juni"
_VERBS: Final = ("", "written on ", "first written on ")  # of `TIMES`


class DateEvidence:
    """The times of memories against the times that a question names.

    Args:
        table: the memories.
        reading: the times that the question names.
        zone: the offset of their clocks from UTC, in seconds east.

    Attributes:
        words: those by which the question names the times, and those that only ask for what was kept, such as "note" in
            "What did I note in March?": an answer need not have them.
    """

    def __init__(self, table: DocumentTable, reading: DateReading, zone: float = 0.0) -> None:
        self._table, self._periods, self._zone = table, reading.periods, zone
        self.words = reading.words | ASKING_WORDS
        self._shifted = [
            Period(period.start - zone, period.end - zone, period.direction) for period in self._periods
        ]

    def is_all(self, wanted: Iterable[Wanted]) -> bool:
        """Whether a question asks for its times alone: no part of it but `words` is a word of the memories."""
        return all(item.label in self.words for item in wanted)

    def fits(self) -> NDArray[np.float32]:
        """How well each row fits: 1 on the days asked for, less in the days after, 0 elsewhere and for removed rows."""
        best = np.zeros(len(self._table), np.float32)
        for name in TIMES:
            times = self._table.column(name)
            np.maximum(best, written_in(times, self._shifted), out=best)
        rows, starts, ends = self._table.said()
        np.maximum.at(best, rows, np.float32(NAMED_FIT) * named_in(starts, ends, self._periods))
        best *= self._table.column("alive")
        return best

    def fit_of(self, row: int) -> str:
        """Which time of a row fits best: "2023-05-08, 2 days later", "says 2026-06-14", "written on 2026-03-02"."""
        rows, starts, ends = self._table.said()
        own = slice(*np.searchsorted(rows, [row, row + 1]).tolist())  # rows are noted in their order
        found = [
            (fit, f"says {_named(start, end)}")
            for start, end, fit in zip(
                starts[own].tolist(),
                ends[own].tolist(),
                named_in(starts[own], ends[own], self._periods).tolist() if own.start < own.stop else (),
                strict=True,
            )
        ]
        times = np.array([self._table.column(name)[row] for name in TIMES]) + self._zone
        fits = written_in(times, self._periods).tolist()
        for verb, time, fit in zip(_VERBS, times.tolist(), fits, strict=True):
            if fit:
                found.append((fit, f"{verb}{_day(time)}{_late(time, self._periods)}"))
        return max(found, key=lambda one: one[0], default=(0.0, ""))[1]


def times_said(item: SearchItem) -> tuple[Period, ...]:
    """The times that the key and the text of an item name, as of its own time; at most `MAX_TIMES`."""
    if item.at is None or not abs(item.at) < MAX_TIME:
        return ()
    folded = fold(f"{item.key}\n{item.text[:MAX_DATED_CHARS]}")
    if not mentions_date(folded, is_question=False):
        return ()
    sentences = _SENTENCE.split(folded)
    found = dict.fromkeys(
        period
        for sentence in sentences
        if mentions_date(sentence, is_question=False)  # most sentences of a long text name no time
        for period in read_dates(sentence, item.at).periods
    )
    return tuple(found)[:MAX_TIMES]


def written_in(times: NDArray[np.float64], periods: Iterable[Period]) -> NDArray[np.float32]:
    """How well times fit some periods; what was written in the week after a period still fits somewhat."""
    best = np.zeros(len(times), np.float32)
    for period in periods:
        first, end = period.bounds
        within = (times >= first) & (times < end)
        if not period.direction:
            best[within] = 1
            after = np.flatnonzero((times >= end) & (times < end + AFTERMATH_DAYS * DAY_SECONDS))
            late = np.floor((times[after] - end) / DAY_SECONDS) + 1
            best[after] = np.maximum(best[after], 0.75 - late * (0.55 / AFTERMATH_DAYS))
        else:
            best[within] = np.maximum(best[within], _nearness(times[within], period))
    return best


def named_in(
    starts: NDArray[np.float64], ends: NDArray[np.float64], periods: Iterable[Period]
) -> NDArray[np.float32]:
    """How well times that texts name fit some periods: by the share of the time that lies within."""
    best = np.zeros(len(starts), np.float32)
    for period in periods:
        first, end = period.bounds
        shares = (np.minimum(ends, end) - np.maximum(starts, first)) / (ends - starts)
        fit = np.where(shares > 0, np.maximum(shares, LEAST_FIT), 0)
        np.maximum(best, fit * _nearness(starts, period), out=best, casting="same_kind")
    return best


def _nearness(times: NDArray[np.float64], period: Period) -> Any:
    """Less for times far from a period before or after which something is asked for."""
    if period.direction not in {"before", "until", "after"}:
        return 1.0
    far = np.abs(times - period.start) > NEAR_DAYS * DAY_SECONDS + (period.end - period.start)
    return np.where(far, FAR_FIT, 1.0)


def _late(time: float, periods: Iterable[Period]) -> str:
    """How long after the times asked for; empty for a time within them."""
    days = [max(0, _number(time) - _number(period.end - 1)) for period in periods if time >= period.bounds[0]]
    late = min(
        (0 if period.bounds[0] <= time < period.bounds[1] else 1 for period in periods), default=0
    ) and min(days, default=0)
    return f", {late} day{'s' * (late > 1)} later" if late else ""


def _named(start: float, end: float) -> str:
    first, last = _day(start), _day(end - 1)
    return first if first == last else f"{first} to {last}"


def _day(time: float) -> str:
    return "{:04}-{:02}-{:02}".format(*date(_number(time)))


def _number(time: float) -> int:
    return int(time // DAY_SECONDS)
