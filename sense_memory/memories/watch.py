"""Watches: iterators over the changes of a memory, by this process, other processes and other devices.

Every change is read from the ledger; relays only bring events to the ledger sooner. So no change is reported twice,
stale or unverified, whatever its origin. While a watch is open, relays are listened to, and the ledger is read twice
a second for changes of other processes. Without a watch there is no cost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import WeakSet

from sense_memory.errors import ChangesMissed, SenseMemoryError
from sense_memory.ledger.feed import START
from sense_memory.limits import MAX_CHANGES_COUNT, WATCH_SECONDS
from sense_memory.models import Change, ChangeKind
from sense_memory.nostr import address
from sense_memory.records.kinds import RecordType, kind_at


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.ledger.feed import Cursor, HeadChange
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader

_LINKS = ("connections", "contradicts", "superseded_by", "dismissed")
_HASHED = f"{address.PREFIX}~"  # the prefix of slots that contain a hash instead of the path


class RelayListener(Protocol):
    """Listens to relays for new events."""

    def start_live(self, told: Callable[[str, str], None]) -> None:
        """Subscribe to new events; `told` is called with a relay's URL and its problem."""

    def stop_live(self) -> None:
        """Stop listening."""


class Watch:
    """An iterator of changes: `async for change in store.watch(): …`. Get one from `MemoryStore.watch`.

    The watch also ends with the store, with `aclose`, and when no reference to the watch is left.

    Args:
        after: the position in the ledger after which changes are reported.
        on_relay: called with a relay's URL and its problem, while the watch waits for changes.
        wake: called when the watch has ended.

    Attributes:
        on_other: called when something changed that is reported by no change of its own, such as a record of the mind.
    """

    on_other: Callable[[], None] | None = None

    def __init__(
        self, after: Cursor, on_relay: Callable[[str, str], None] | None, wake: Callable[[], None]
    ) -> None:
        self._after, self._on_relay, self._wake = after, on_relay, wake
        self._changes: deque[Change] = deque()
        self._relays: dict[str, str] = {}
        self._news = asyncio.Event()
        self._error: SenseMemoryError | None = None
        self.is_over = False
        self.waiting = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        change = await self.next()
        if change is None:
            raise StopAsyncIteration
        return change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def next(self) -> Change | None:
        """The next change, as soon as there is one; None when the watch has ended.

        Raises:
            ChangesMissed: more changes arrived than a watch holds.
            LedgerError: the ledger could not be read.
        """
        while True:
            while self._relays and self._on_relay is not None:
                self._on_relay(*self._relays.popitem())
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if self._changes:
                return self._changes.popleft()
            if self.is_over:
                return None
            self._news.clear()
            self.waiting += 1
            try:
                await self._news.wait()
            finally:
                self.waiting -= 1

    async def aclose(self) -> None:
        """End this watch; other watches go on."""
        self.end()
        self._changes.clear()
        self._wake()

    def end(self, error: SenseMemoryError | None = None) -> None:
        """End the watch. Waiting changes are still reported, unless there is an error, which is raised instead."""
        if self.is_over:
            return
        self.is_over, self._error = True, error
        if error is not None:
            self._changes.clear()
        self._news.set()

    def add_change(self, seq: int, change: Change) -> None:
        """Queue a change for the iterator.

        Args:
            seq: the seq of the event that made the change; changes before the watch began are ignored.
            change: the change.
        """
        if self.is_over or seq <= self._after.seq:
            return
        if len(self._changes) >= MAX_CHANGES_COUNT:
            self.end(ChangesMissed())
            return
        self._changes.append(change)
        self._news.set()

    def add_relay(self, url: str, problem: str) -> None:
        """Queue a relay's problem for `on_relay`; a later problem of the same relay replaces an earlier one."""
        if self._on_relay is not None:
            self._relays[url] = problem
            self._news.set()


class Watchers:
    """All watches of a store.

    Args:
        ledger: where changes arrive.
        reader: decrypts events.
        listener: listens to relays; None without relays.
    """

    def __init__(self, ledger: Ledger, reader: Reader, listener: RelayListener | None) -> None:
        self._ledger, self._reader, self._listener = ledger, reader, listener
        self._watches: WeakSet[Watch] = WeakSet()
        self._relays: dict[str, str] = {}
        self._sources: dict[str, str | None] = {}  # the relay that served an event, by event id
        self._paths: dict[str, str] = {}  # the paths of hashed slots, by slot
        self._reported = START  # every change up to this position was reported
        self._logged = 0  # the last row of the log that was seen; entries of it become events later
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, on_relay: Callable[[str, str], None] | None) -> Watch:
        """A new watch, which reports changes from now on."""
        watch = Watch(self._ledger.feed.cursor(), on_relay, self._news.set)
        for url, problem in self._relays.items():
            watch.add_relay(url, problem)
        self._watches.add(watch)
        if self._task is None:
            self._reported, self._logged = self._ledger.feed.cursor(), self._ledger.log_rows.last()
            self._ledger.head_changes.start()
            self._reader.on_new = self._note_source
            self._task = asyncio.create_task(self._run(), name="sense-memory watch")
            if self._listener is not None:
                self._listener.start_live(self._report_relay)
        return watch

    async def close(self) -> None:
        """End all watches, and wait until every task that waits for a change has resumed."""
        task, watches = self._task, list(self._watches)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if self._task is not None:  # cancelled before its first step
                self._end()
        while any(watch.waiting for watch in watches):  # noqa: ASYNC110 - every watch has ended, so this ends soon
            await asyncio.sleep(0)
        if task is not None and not task.cancelled():
            task.result()  # the task fails only by a bug of this module, which must not be hidden

    async def _run(self) -> None:
        try:
            await self._learn_paths()
            while any(not watch.is_over for watch in self._watches):
                self._news.clear()
                await self._report_changes()
                with suppress(TimeoutError):
                    async with asyncio.timeout(WATCH_SECONDS):
                        await self._news.wait()
        except SenseMemoryError as error:
            for watch in self._watches:
                watch.end(error)
        finally:
            self._end()

    def _end(self) -> None:
        """Reset everything to the state before the first watch."""
        if self._listener is not None:
            self._listener.stop_live()
        self._task = self._reader.on_new = None
        self._ledger.head_changes.stop()
        for watch in self._watches:
            watch.end()
        for notes in (self._watches, self._sources, self._paths, self._relays):
            notes.clear()

    def _note_source(self, ids: Sequence[str], relay: str | None) -> None:
        self._sources.update(dict.fromkeys(ids, relay))
        self._news.set()

    def _report_relay(self, url: str, problem: str) -> None:
        self._relays[url] = problem
        for watch in self._watches:
            watch.add_relay(url, problem)

    async def _learn_paths(self) -> None:
        """Note the paths of hashed slots, because the path of a forgotten memory can no longer be read."""
        for slot in self._ledger.head_changes.slots_under(_HASHED):
            stored = self._ledger.head(slot)
            record = await self._reader.record(stored) if stored is not None else None
            if record is not None:
                self._paths[slot] = record.path

    async def _report_changes(self) -> None:
        """Report the changes that have arrived in the ledger to every watch."""
        now = self._ledger.feed.cursor()
        self._report_log()
        while (changes := self._ledger.head_changes.next_batch()) is not None:
            found = [(head.by.seq, await self._change(head)) for head in changes]
            for watch in self._watches:
                for seq, change in found:
                    if change is not None:
                        watch.add_change(seq, change)
            if any(change is None for _, change in found):
                self._report_other()
            await asyncio.sleep(0)  # tasks that wait for changes need a turn before the next batch
        self._reported = now
        self._sources.clear()

    def _report_log(self) -> None:
        """Report that the log has new rows, also those of this process."""
        if any(watch.on_other is not None for watch in self._watches):
            before, self._logged = self._logged, self._ledger.log_rows.last()
            if self._logged > before:
                self._report_other()

    def _report_other(self) -> None:
        for watch in self._watches:
            if watch.on_other is not None:
                watch.on_other()

    async def _change(self, head: HeadChange) -> Change | None:
        """The change to report for a head; None if the head is not a memory, or needs a newer sense-memory."""
        ident = head.by.id.hex()
        record = None if head.by.role.is_request else await self._reader.record(head.by)
        path, fields = self._path(head, record), record.fields if record is not None else {}
        if not path or (head.gone is None and record is None):
            return None
        kind, value, superseded_by, conflict_of = ChangeKind.FORGOTTEN, None, None, None
        if head.gone is None:
            is_memory = record is None or record.type.has_address
            kind = ChangeKind.REMEMBERED if is_memory else ChangeKind.JOURNAL
            value = None if record is None else record.type.text_of(fields)
            if record is not None and record.type is RecordType.PERSONA:
                kind, superseded_by = await self._kind(head, record)
                copied = fields.get("conflict_of")
                conflict_of = copied if isinstance(copied, str) and kind is ChangeKind.REMEMBERED else None
        return Change(
            kind=kind,
            path=path,
            key=path.rpartition("/")[2],
            value=value,
            created_at=_time(fields, head.by),
            event_id=ident,
            relay=self._sources.get(ident),
            superseded_by=superseded_by,
            conflict_of=conflict_of,
        )

    async def _kind(self, head: HeadChange, record: Record) -> tuple[ChangeKind, str | None]:
        """How a palace memory differs from its version at the last report.

        Returns the kind of the change, and the path of the memory that has superseded this one meanwhile, if any.
        """
        versions = self._ledger.versions(head.slot)
        known = next(
            (item for item in versions if item.role.is_live and item.seq <= self._reported.seq), None
        )
        before = None if known is None else await self._reader.record(known)
        by = record.fields.get("superseded_by")
        if not isinstance(by, str) or (before is not None and before.fields.get("superseded_by") == by):
            by = None
        if before is None or before.fields.get("value") != record.fields.get("value"):
            return ChangeKind.REMEMBERED, by
        is_same = all(
            (before.fields.get(name) or None) == (record.fields.get(name) or None) for name in _LINKS
        )
        return (ChangeKind.CHANGED if is_same else ChangeKind.LINKED), by

    def _path(self, head: HeadChange, record: Record | None) -> str:
        """The path to show for a change; empty if the change is not reported."""
        slot = head.slot
        if slot.startswith(("#", address.JOURNAL_PREFIX)):
            return f"journal/{head.gone or head.by.id.hex()}"
        path = address.path_of(slot) or self._paths.get(slot) or slot.removeprefix(address.PREFIX)
        if record is not None:
            path = record.path
            if slot.startswith(_HASHED):
                self._paths[slot] = path
        kind = record.type if record is not None and record.type.role.is_live else kind_at(path)
        return path if kind is not None and kind.traits.is_watched else ""


def _time(fields: Mapping[str, Any], stored: StoredEvent) -> float:
    """When a version was written: the time in the record, or else the date of the event."""
    ts = fields.get("ts")
    return float(ts) if isinstance(ts, int | float) and not isinstance(ts, bool) else float(stored.created_at)
