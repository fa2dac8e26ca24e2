"""The write that broke a check: a binary search over the writes of a ledger, by whole states of it.

Guaranteed: the named write is one after which the line fails and before which it held, both tried. All states are judged with
today's clock, so what merely faded is not blamed on a write. A state in which the line held is looked for first beside the
latest writes that say the words, then 1, 2, 4, 8 … writes ago; from there on, the writes are halved: some 2 · log2(n) states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sense_memory.checks.check_file import Demand
from sense_memory.checks.outcomes import Outcome, outcomes


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.checks.check_file import Expectation, MemoryCheck
    from sense_memory.checks.past_state import PastStates, PastWrite


_MAX_LIKELY: Final = 8  # writes with the words, beside which the line may have held


@dataclass(frozen=True, slots=True)
class Culprit:
    """The write that broke one line of a check.

    Attributes:
        check: the check.
        expected: the line.
        why: what is there instead, now.
        write: the write; None if the line held at none of the earlier states that were tried.
        number: of the write, counted from 1; 0 for none.
        tried: how many states were tried for all lines so far.
    """

    check: MemoryCheck
    expected: Expectation
    why: str
    write: PastWrite | None
    number: int
    tried: int


async def culprit(states: PastStates, checks: Sequence[MemoryCheck], now: float) -> list[Culprit]:
    """The write that broke each line that fails now; empty if all hold.

    Args:
        states: the earlier states of the store.
        checks: what to check; lines with a time of their own are about the past, and no write breaks them.
        now: seconds since 1970.
    """
    search = _Search(states, [replace(check, when="") for check in checks if not check.when], now)
    failing = [one for one in await search.at(len(states)) if not one.ok]
    return [await search.culprit(one) for one in failing]


class _Search:
    def __init__(self, states: PastStates, checks: Sequence[MemoryCheck], now: float) -> None:
        self._states, self._checks, self._now = states, checks, now
        self._tried: dict[int, list[Outcome]] = {}

    async def at(self, count: int) -> list[Outcome]:
        """Whether each line holds after so many writes."""
        if count not in self._tried:
            async with self._states.after(count, self._now) as past:
                self._tried[count] = await outcomes(past, self._checks)
        return self._tried[count]

    async def holds(self, one: Outcome, count: int) -> bool:
        return next(item.ok for item in await self.at(count) if item.expected == one.expected)

    async def _where_it_held(self, one: Outcome) -> int | None:
        """An earlier state in which a line held, rather a late one; None if it held in none that was tried."""
        is_absence = one.expected.wanted in {Demand.NOT_FIND, Demand.NOT_PUT}
        said = await self._states.saying(one.expected.text) if one.expected.text else []
        steps = (2**power for power in range(len(self._states).bit_length()))
        places = [number - is_absence for number in said[:_MAX_LIKELY]]
        places += [len(self._states) - step for step in steps if step < len(self._states)]
        for count in dict.fromkeys((*places, 0)):
            if count < len(self._states) and await self.holds(one, count):
                return count
        return None

    async def culprit(self, one: Outcome) -> Culprit:
        bad = len(self._states)
        good = await self._where_it_held(one)
        if good is None:
            return Culprit(one.check, one.expected, one.why, None, 0, len(self._tried))
        while bad - good > 1:
            middle = (good + bad) // 2
            if await self.holds(one, middle):
                good = middle
            else:
                bad = middle
        write = await self._states.write(bad)
        return Culprit(one.check, one.expected, one.why, write, bad, len(self._tried))
