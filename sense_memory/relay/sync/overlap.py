"""When to fetch again what is dated before the newest that a relay showed.

Events may come to a relay up to two hours after their date (`CURSOR_OVERLAP_SECONDS`), so each whole pull begins so far
before the newest. After a burst that is thousands of known events each time. A pull between two whole ones asks only
for what is dated after the newest and moves no cursor: whatever comes late is found by the next whole pull, however
late that is. The cost is time: with so many known events, what is dated before the newest waits for up to a second for
each of them. A subscription (`listening`), or a sync that somebody asks for, brings it at once.
"""

from __future__ import annotations

from sense_memory.limits import VAIN_DOUBLINGS_COUNT, VAIN_EVENT_SECONDS


class Overlap:
    """How long whole pulls of one relay are put off: twice as long after each that brought nothing new."""

    def __init__(self) -> None:
        self._due = 0.0
        self._fruitless = 0  # whole pulls in a row

    def is_due(self, now: float) -> bool:
        """Whether the next pull is to be a whole one; `now` in seconds of the loop."""
        return now >= self._due

    def fetched(self, now: float, *, in_vain: int, new: int) -> None:
        """A whole pull is over.

        Args:
            now: seconds of the loop.
            in_vain: events that it fetched though they were known.
            new: events that were not known.
        """
        self._fruitless = 0 if new else min(self._fruitless + 1, VAIN_DOUBLINGS_COUNT)
        self._due = now + in_vain * VAIN_EVENT_SECONDS * 2**self._fruitless
