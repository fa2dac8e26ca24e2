"""The messages of each conversation, so that a turn of a chat reads its context and not the log.

The index follows the log in RAM: what arrived and what was removed since it was last asked. The cost is two references for
each message.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from sense_memory.mind.chat.messages import counted, role_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sense_memory.mind.log import Log, LogEntry

_SLICE_CHARS: Final = 20_000  # whose tokens are counted before other tasks get a turn, some 10 ms
_order: Final = attrgetter("at", "id")


@dataclass(slots=True, eq=False)
class MessageList:
    """The messages of one conversation.

    Attributes:
        entries: the entries of the messages, by id.
    """

    entries: dict[str, LogEntry] = field(default_factory=dict)
    _ordered: list[LogEntry] = field(default_factory=list)
    _ids: list[str] = field(default_factory=list)
    _is_sorted: bool = True
    _counter: Callable[[str], int] | None = None
    _costs: dict[str, int] = field(default_factory=dict)

    def add(self, entry: LogEntry) -> None:
        """Add a message."""
        last = self._ordered[-1] if self._ordered else None
        self._is_sorted &= last is None or (_order(last) < _order(entry) and self._ids[-1] < entry.id)
        self.entries[entry.id] = entry
        self._ordered.append(entry)
        self._ids.append(entry.id)

    def drop(self, ids: Iterable[str]) -> None:
        """Remove messages; unknown ids are no error."""
        if gone := self.entries.keys() & set(ids):
            for ident in gone:
                del self.entries[ident]
                self._costs.pop(ident, None)
            self._ordered = [entry for entry in self._ordered if entry.id not in gone]
            self._ids = [ident for ident in self._ids if ident not in gone]

    def newest(self, limit: int | None = None) -> Sequence[LogEntry]:
        """The newest messages, oldest first; None for all."""
        self._sort()
        return self._ordered[:] if limit is None else self._ordered[max(0, len(self._ordered) - limit) :]

    def after(self, ident: str) -> Iterator[LogEntry]:
        """The messages with a greater id, by id."""
        self._sort()
        return (self.entries[other] for other in self._ids[bisect_right(self._ids, ident) :])

    def before(self, ident: str, count: int) -> list[LogEntry]:
        """The messages with the greatest ids below an id, by id."""
        self._sort()
        at = bisect_left(self._ids, ident)
        return [self.entries[other] for other in self._ids[max(0, at - count) : at]]

    def greatest_ids(self, count: int) -> list[str]:
        """The greatest ids, in order."""
        self._sort()
        return self._ids[max(0, len(self._ids) - count) :]

    async def costs(self, entries: Sequence[LogEntry], count_tokens: Callable[[str], int]) -> list[int]:
        """The tokens of messages, each counted once as long as the counter is the same; other tasks get turns meanwhile."""
        if self._counter is not count_tokens:
            self._counter, self._costs = count_tokens, {}
        known, found, chars = self._costs, [], 0
        for entry in entries:
            if entry.id not in known:
                texts = list(counted(entry))
                known[entry.id] = sum(map(count_tokens, texts))
                chars += sum(map(len, texts))
            found.append(known[entry.id])
            if chars > _SLICE_CHARS:
                chars = 0
                await asyncio.sleep(0)
        return found

    def _sort(self) -> None:
        if not self._is_sorted:
            self._ordered.sort(key=_order)
            self._ids.sort()
            self._is_sorted = True


class MessageIndex:
    """The messages of all conversations in a log.

    Args:
        log: the log, of one author.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._arrived = self._gone = 0
        self._lists: dict[str, MessageList] = {}

    async def of(self, conversation: str) -> MessageList:
        """The messages of a conversation; no messages if there is no such conversation."""
        await self._refresh()
        return self._lists.get(conversation) or MessageList()

    async def counts(self) -> dict[str, int]:
        """The number of messages of each conversation, the conversation with the newest message first."""
        await self._refresh()
        held = {name: found for name, found in self._lists.items() if found.entries}
        order = sorted(held, key=lambda name: _order(held[name].newest(1)[-1]), reverse=True)
        return {name: len(held[name].entries) for name in order}

    async def _refresh(self) -> None:
        before = self._arrived, self._gone
        arrived, gone = await self._log.changes(*before)
        # Without what another task has taken over meanwhile.
        arrived, gone = arrived[self._arrived - before[0] :], gone[self._gone - before[1] :]
        self._arrived, self._gone = self._arrived + len(arrived), self._gone + len(gone)
        for entry in arrived:
            if entry.conversation is not None and role_of(entry) and self._log.known(entry.id):
                self._lists.setdefault(entry.conversation, MessageList()).add(entry)
        if gone:
            for found in self._lists.values():
                found.drop(gone)
