"""The log: everything that happened, as append-only entries, collected in pages.

Guaranteed: an entry that `append` returned survives a kill, is queued for relays by the next `flush`, and never changes
its id. A page never loses an entry: the entries of a page are the union of all its versions, on this ledger or on relays,
except entries that a page lists as removed. A page that was dated by a clock that ran ahead stops nothing.

Safe, because a new entry is a sealed row (`ledger.caches`) until a durable page holds it; after a kill between the two,
the entry exists twice under one id. A process adds entries only to pages of its device id, which no other process has and
no copy of the ledger (`ledger.device_id`), so a page is replaced only by a page with all its entries. The ledger can still hold
several versions of a page: if another device removed one of its entries, or from an earlier version of this program. The
next flush writes the union of the versions, and drops only versions that it has read. Devices that do this at the same
time write the same union, so no further write follows.

A page that is dated too far ahead of the clock is left alone, and the next entries get a new page. Entries and removals that
only such pages hold are written again, because other devices do not read them before their date.

Cost: one sealed row for each entry. A page that is not full is signed and sent again with each flush, so each flush sends
half a page on average, and a relay holds one event for each page. Reading decrypts each version of a page once in a
process, and keeps the whole log in RAM.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from sense_memory.errors import BadPayload, InvalidInput, TooLargeError
from sense_memory.ledger.feed import START
from sense_memory.limits import MAX_PLAINTEXT_BYTES
from sense_memory.mind.call_checks import checked
from sense_memory.mind.fields import list_in, texts_in
from sense_memory.mind.log_pages import (
    NUMBERS,
    PAGE_OVERHEAD_BYTES,
    LogPage,
    LogPages,
    entry_key,
    is_row,
)
from sense_memory.nostr import address
from sense_memory.records.kinds import RecordType
from sense_memory.records.local_cipher import LOG_KEY_NAME, LocalCipher, local_cipher


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sense_memory.mind.records import MindRecords

_MAX_NAME_CHARS: Final = 256  # of a kind, an actor or a conversation
_RESTORE_SECONDS: Final = 3600  # a page that a relay does not take is written again after this time
_PAGES_AT_ONCE: Final = 8  # pages read before other tasks get a turn, some 10 ms
_PAGE_DEPTH: Final = 8  # levels of JSON that a page adds to an entry, at most; the encoder limits the depth


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing that happened.

    Attributes:
        id: 20 hex digits, ordered by time on one device; never changes.
        kind: what happened, such as `agent.spoke`, `world.observed` or `message.user`; any name is allowed.
        actor: who did it.
        payload: plain JSON values.
        at: when it happened, seconds since 1970.
        turn: the number of the turn, or None.
        conversation: the conversation's id, or None.
        author: the public key of the signer, 64 hex digits; empty unless several authors share the log.
    """

    id: str
    kind: str
    actor: str
    payload: Mapping[str, Any] = field(repr=False)
    at: float
    turn: int | None = None
    conversation: str | None = None
    author: str = ""

    @property
    def text(self) -> str:
        """The words of the payload: its `text`, `content` or `belief`, or else all its strings."""
        for name in ("text", "content", "belief"):
            if isinstance(value := self.payload.get(name), str):
                return value
        return " ".join(value for value in self.payload.values() if isinstance(value, str))


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry for `Log.append_many`; the fields are those of `LogEntry`. By default `at` is now, and `id` a new one."""

    kind: str
    payload: Mapping[str, Any] = field(repr=False)
    actor: str
    turn: int | None = None
    conversation: str | None = None
    at: float | None = None
    id: str = ""


class SignsEntries(Protocol):
    """Signs the entries of a log that several authors share, given as rows (see `Log`), and detects forged ones."""

    async def signature(self, row: list[Any]) -> list[str]:
        """The author's public key and signature, to append to a row."""

    def is_signed(self, row: list[Any]) -> bool:
        """Whether an author signed exactly this row; an unsigned row is never stored."""

    def may_speak(self, row: list[Any]) -> bool:
        """Whether the author of a signed row may speak under its actor's name; if not, the entry is not shown."""


@partial(checked, but=("known",))
class Log:
    """The log of an agent.

    Args:
        records: writes and decrypts pages.
        on_append: called after an append with the size of the entries in bytes, to schedule a flush.
        signing: signs and verifies entries; None unless several authors share the log, see `scenes`.

    Attributes:
        forged: the ids of entries that are not shown, because their author did not sign them.
        damaged: the numbers of rows of the ledger that were altered; they are left out, and `integrity` names them.
    """

    def __init__(
        self,
        records: MindRecords,
        on_append: Callable[[int], None] = lambda _: None,
        signing: SignsEntries | None = None,
    ) -> None:
        self._records, self._store, self._on_append = records, records.store, on_append
        self.forged, self.damaged = set[str](), set[int]()
        self._cipher: LocalCipher | None = None
        self._flushing = asyncio.Lock()
        self._last, self._asked = 0.0, False
        self.judge(signing)

    def judge(self, signing: SignsEntries | None) -> None:
        """Judge all entries, for the first time or again, after the members have changed."""
        self._signing = signing
        self._entries: dict[str, LogEntry] = {}
        self._ordered: list[LogEntry] = []
        self._is_sorted = True
        self._arrived, self._gone = list[LogEntry](), list[str]()
        self._pages = LogPages()
        self._signed: dict[str, list[Any]] = {}  # rows whose signature was verified
        self._cursor, self._row = START, 0
        self.forged.clear()

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    async def append(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        actor: str,
        turn: int | None = None,
        conversation: str | None = None,
        at: float | None = None,
    ) -> LogEntry:
        """Append one entry. Durable on return.

        Args:
            kind: what happened, such as `agent.spoke`.
            payload: plain JSON values.
            actor: who did it.
            turn: the number of the turn.
            conversation: the conversation's id.
            at: when it happened, seconds since 1970; now by default.

        Raises:
            InvalidInput: a name is empty or too long, or the payload is not plain JSON; nothing was appended.
            TooLargeError: the entry does not fit a page (some 40,000 bytes of JSON); nothing was appended.
            LedgerError: the ledger could not be written; nothing was appended.
        """
        new = NewEntry(kind, payload, actor, turn, conversation, at)
        return (await self.append_many([new]))[0]

    async def append_many(self, entries: Sequence[NewEntry]) -> list[LogEntry]:
        """Append entries in their order, all or none. Durable on return. Raises as `append`."""
        self._store.check()
        cipher = await self._opened_cipher()
        rows = [self._row_of(entry) for entry in entries]
        texts = [_json(row) for row in rows]
        if self._signing is not None:
            rows = [[*row, *await self._signing.signature(row)] for row in rows]
            texts = [_json(row) for row in rows]
        for text in texts:
            if len(text) + PAGE_OVERHEAD_BYTES > MAX_PLAINTEXT_BYTES:
                raise TooLargeError(len(text), MAX_PLAINTEXT_BYTES - PAGE_OVERHEAD_BYTES)
        async with self._store.writing() as store:
            await store.ledger.write(store.ledger.log_rows.add, [cipher.seal(text) for text in texts])
        self._on_append(sum(map(len, texts)))
        return [_entry(row) for row in rows]

    async def remove(self, entry_id: str) -> None:
        """Remove one entry here and on relays; its page lists its id as removed.

        Raises:
            InvalidInput: no entry has this id, or the log is shared.
        """
        if self._signing is not None:
            raise InvalidInput("an entry of a shared log cannot be removed; nothing was removed")
        await self.flush()
        await self.refresh()  # so that the version that was just written is dropped too
        held = self._pages.holding(entry_id)
        if not held:
            raise InvalidInput("no entry of the log has this id; nothing was removed")
        ahead = self._ahead()
        self._pages.removed.add(entry_id)
        self._drop(self._pages.remove_from(held))
        await self._write_pages(held - ahead, forgets=True)
        await self._withdraw(held & ahead)
        await self.refresh()
        self._store.ledger.checkpoint()

    async def flush(self) -> int:
        """Write every entry that is in no page yet to a page, and queue the pages for relays; returns how many pages.

        Raises:
            LedgerError: the ledger could not be written; the entries stay durable as rows.
        """
        async with self._flushing:
            ledger, rows = self._store.ledger, await self._opened_rows(0)
            await self.refresh()  # nothing may wait between this and the write: `judge` forgets what was read
            pages = self._pages
            known = pages.entries() | pages.removed
            fresh = [row for _, row in rows if entry_key(row) not in known]
            ahead = self._ahead()
            self._restore_replaced()
            touched = [slot for slot, page in pages.by_slot.items() if page.is_behind and slot not in ahead]
            untaken = partial(ledger.heads.untaken_beneath, address.LOG_PAGES)
            stranded, removed = pages.stranded(ahead, self._is_own, untaken)
            fresh = [*pages.overflow(touched), *stranded, *fresh]
            touched += pages.place(fresh, ledger.edits.device, ahead, removed)
            written = await self._write_pages(dict.fromkeys(touched))
            await ledger.write(ledger.log_rows.remove, [number for number, _ in rows])
            return written

    def _restore_replaced(self) -> None:
        """Write a page of a shared log again, once an hour, if a relay holds something else there that does not open."""
        if self._signing is None:  # nobody else has the key
            return
        until = int(self._store.options.clock()) - _RESTORE_SECONDS
        for slot in self._store.ledger.heads.superseded_beneath(address.LOG_PAGES, until):
            page = self._pages.by_slot.get(slot)
            if page is not None and self._is_own(slot):
                page.is_behind = bool(page.entries)

    def _ahead(self) -> frozenset[str]:
        """The slots of pages that are dated too far ahead of this clock to be written, also of deleted ones."""
        now = self._store.options.clock()
        return frozenset(self._store.ledger.heads.dated_ahead(address.LOG_PAGES, now))

    async def _withdraw(self, slots: Collection[str]) -> None:
        """Delete pages dated ahead by their ids, here and on relays, because an entry of theirs was removed.

        Before that, their entries and what they list as removed are put into a page of this ledger.
        """
        if not slots:
            return
        rows, device = self._pages.only_in(slots), self._store.ledger.edits.device
        removed = {ident for slot in slots for ident in self._pages.by_slot[slot].removed}
        moved = self._pages.place(rows, device, self._ahead(), removed)
        await self._write_pages(dict.fromkeys(moved))
        await self._records.forget([slot.removeprefix(address.PREFIX) for slot in slots])

    async def _write_pages(self, slots: Iterable[str], *, forgets: bool = False) -> int:
        """Write pages, and drop the versions of them that were read; returns how many pages."""
        pages = {slot: self._pages.by_slot[slot] for slot in slots}
        if not pages:
            return 0
        read = [seq for page in pages.values() for seq in page.seqs]
        await self._records.write(
            {slot.removeprefix(address.PREFIX): page.fields() for slot, page in pages.items()}
        )
        for page in pages.values():
            page.is_behind = False
            page.seqs.clear()  # the next refresh reads the new head
        ledger = self._store.ledger
        await ledger.write(partial(ledger.drop_versions, forgets=forgets), read)
        return len(pages)

    def _row_of(self, new: NewEntry) -> list[Any]:
        for what, value in (("kind", new.kind), ("actor", new.actor), ("conversation", new.conversation)):
            if value is None and what == "conversation":
                continue
            if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME_CHARS:
                raise InvalidInput(
                    f"the {what} of an entry must be 1 to {_MAX_NAME_CHARS} characters of text"
                )
        if new.turn is not None and type(new.turn) is not int:
            raise InvalidInput("the turn of an entry must be a whole number")
        if new.at is not None and not (type(new.at) in NUMBERS and abs(new.at) <= LAST_SECOND):
            raise InvalidInput("the time of an entry must be in seconds since 1970")
        if not isinstance(new.payload, Mapping):
            raise InvalidInput("the payload of an entry must be a mapping")
        now = self._store.options.clock()
        # Entries of one instant get times a microsecond apart, unless the clock was set back.
        self._last = self._last + 1e-6 if now <= self._last <= now + 1.0 else now
        at = self._last if new.at is None else float(new.at)
        if new.id and not _is_id(new.id):
            raise InvalidInput("the id of an entry must be 20 hex digits")
        ident = new.id or f"{int(self._last * 1e6) & (1 << 52) - 1:013x}{secrets.randbits(28):07x}"
        return [ident, at, new.kind, new.actor, new.turn, new.conversation, dict(new.payload)]

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def entries(
        self,
        *,
        kind: str | None = None,
        actor: str | None = None,
        conversation: str | None = None,
        since: float | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[LogEntry]:
        """The entries in the order of time, oldest first.

        Args:
            kind: only entries of this kind.
            actor: only entries of this actor.
            conversation: only entries of this conversation.
            since: only entries from this time on, seconds since 1970.
            after: only entries after the entry with this id.
            limit: only the newest entries, this many; None for all.

        Raises:
            InvalidInput: no entry has the id `after`.
            NotSynced: the log is empty here, and no relay has answered completely yet.
        """
        found: Sequence[LogEntry] = await self._all()
        if after is not None:
            found = found[await self._place_of(after) + 1 :]
        if (kind, actor, conversation, since) != (None, None, None, None):
            found = [
                entry
                for entry in found
                if (kind is None or entry.kind == kind)
                and (actor is None or entry.actor == actor)
                and (conversation is None or entry.conversation == conversation)
                and (since is None or entry.at >= since)
            ]
        return list(found if limit is None else found[max(0, len(found) - limit) :])

    async def get(self, entry_id: str) -> LogEntry | None:
        """The entry with an id; None if no entry has the id, or the entry was removed."""
        await self._all()
        return self._entries.get(entry_id)

    def known(self, entry_id: str) -> LogEntry | None:
        """As `get`, but as of the last `refresh`."""
        return self._entries.get(entry_id) if isinstance(entry_id, str) else None

    def pages(self) -> dict[str, list[str]]:
        """The ids of the entries in each page, by slot, as of the last `refresh`."""
        return {slot: [row[0] for row in page.entries.values()] for slot, page in self._pages.by_slot.items()}

    def signed(self) -> list[list[Any]]:
        """The rows of a shared log that members signed, as of the last `refresh`."""
        return list(self._signed.values())

    async def count_since(self, entry_id: str) -> int:
        """The number of entries after an entry.

        Raises:
            InvalidInput: no entry has this id.
        """
        return len(await self._all()) - await self._place_of(entry_id) - 1

    async def changes(self, arrived: int, gone: int) -> tuple[list[LogEntry], list[str]]:
        """The changes that a follower has not seen: new entries in the order of arrival, and ids of removed entries.

        Args:
            arrived: the number of arrived entries that the follower has seen.
            gone: the number of removed ids that the follower has seen.
        """
        await self._all()
        return self._arrived[arrived:], self._gone[gone:]

    async def _place_of(self, entry_id: str) -> int:
        entry = await self.get(entry_id)
        if entry is None:
            raise InvalidInput("no entry of the log has this id")
        return bisect_left(self._ordered, _order(entry), key=_order)

    async def _all(self) -> list[LogEntry]:
        await self.refresh()
        if not self._entries and not self._asked:
            self._asked = True
            if await self._store.replication.ask("entries of the log are"):
                await self.refresh()
        return self._ordered

    async def refresh(self) -> None:
        """Read the changes in the ledger since the last refresh: new pages, new versions of pages, new rows."""
        self._store.check()
        ledger = self._store.ledger
        judged: LogPages | None = None
        # Again, if `judge` has meanwhile forgotten what was read.
        while judged is not self._pages and ledger.feed.has_changed(self._cursor):
            changes, judged = ledger.feed.since(self._cursor), self._pages
            slots = [slot for slot in changes.slots if address.is_log_page(slot)]
            if changes.is_everything:
                held = (slot for slot, _ in ledger.heads.seqs_beneath(address.LOG_PAGES))
                slots = [*{*self._pages.by_slot, *held}]
            if slots:
                await self._read_pages(slots)
            await self._read_rows()
            if not self._is_sorted:  # pages are not read in the order of time
                self._ordered.sort(key=_order)
                self._is_sorted = True
            if self._pages is judged:
                self._cursor = changes.cursor

    async def _read_pages(self, slots: Sequence[str]) -> None:
        ledger, reader = self._store.ledger, self._store.reader
        heads = ledger.heads.live_heads_at(slots)
        if self._signing is None:
            self._drop(self._pages.close({*slots} - {head.slot for head in heads}))
        crowded, removed = set(ledger.heads.crowded_beneath(address.LOG_PAGES)), len(self._pages.removed)
        opened = await reader.opened([(head.slot, head.seq) for head in heads])
        for number, item in enumerate(opened):
            if number % _PAGES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if item.type is not RecordType.MIND:
                continue
            slot, fields = address.d_tag(item.path), item.record.fields
            page = self._unite(slot, fields, item.seq, item.created_at)
            if slot in crowded:
                await self._unite_versions(slot)
            # Another device may have removed an entry in a version that this head has replaced.
            is_ours = self._signing is None or self._is_own(slot)
            page.is_behind = is_ours and not page.is_covered_by(self._counted(fields), fields)
        read = {address.d_tag(item.path) for item in opened if item.type is RecordType.MIND}
        if self._signing is not None:  # any holder of the key can delete or replace a page
            for slot in {slot for slot in slots if self._is_own(slot)} - read:
                if (held := self._pages.by_slot.get(slot)) is not None:
                    held.is_behind = bool(held.entries)

        is_more = len(self._pages.removed) > removed
        self._drop(self._pages.remove_from(self._pages.by_slot if is_more else read))

    def _is_own(self, slot: str) -> bool:
        """Whether a page is of this ledger."""
        return self._store.ledger.edits.is_own(slot.removeprefix(address.LOG_PAGES).rpartition("-")[0])

    async def _unite_versions(self, slot: str) -> None:
        for stored in self._store.ledger.versions(slot)[1:]:
            record = await self._store.reader.record(stored)
            if record is not None and record.type is RecordType.MIND:
                self._unite(slot, record.fields, stored.seq, stored.created_at)

    def _unite(self, slot: str, fields: Mapping[str, Any], seq: int, created_at: int) -> LogPage:
        page = self._pages.at(slot)
        rows = self._counted(fields)
        # Any member can write any page of a scene, so removals in its pages do not count.
        removed, moved = (
            set[str]() if self._signing else {*texts_in(fields, name)} for name in ("removed", "moved")
        )
        self._pages.removed |= removed
        self._drop(page.unite(rows, removed, moved))
        page.seqs.add(seq)
        # A member may claim any time, but no entry of a page is later than the page.
        latest = created_at + 1.0 if self._signing else inf
        self._add((row for row in rows if entry_key(row) in page.entries), latest)
        return page

    def _counted(self, fields: Mapping[str, Any]) -> list[list[Any]]:
        """The valid rows of a page; in a shared log, only rows that their authors signed."""
        return [row for row in list_in(fields, "entries") if is_row(row) and self._is_signed(row)]

    async def _read_rows(self) -> None:
        rows = await self._opened_rows(self._row)
        self._add(row for _, row in rows if row[0] not in self._pages.removed)
        self._row = rows[-1][0] if rows else self._row

    async def _opened_rows(self, after: int) -> list[tuple[int, list[Any]]]:
        """The rows of the ledger after a row, by number; an altered row is left out, and stays in the ledger."""
        found: list[tuple[int, list[Any]]] = []
        for number, body in self._store.ledger.log_rows.after(after):
            try:
                found.append((number, orjson.loads((await self._opened_cipher()).open(body))))
            except BadPayload:
                self.damaged.add(number)
        return found

    def _add(self, rows: Iterable[list[Any]], latest: float = inf) -> None:
        fresh = (row for row in rows if entry_key(row) not in self._entries and self._is_genuine(row))
        found = {entry_key(row): _entry(row, latest) for row in fresh}
        self._entries |= found
        new = list(found.values())
        self._arrived += new
        for entry in new:
            self._is_sorted &= not self._ordered or _order(entry) > _order(self._ordered[-1])
            self._ordered.append(entry)

    def _is_genuine(self, row: list[Any]) -> bool:
        if self._signing is None or (self._is_signed(row) and self._signing.may_speak(row)):
            return True
        self.forged.add(row[0])
        return False

    def _is_signed(self, row: list[Any]) -> bool:
        if self._signing is None or self._signed.get(entry_key(row)) == row:
            return True
        if not self._signing.is_signed(row):
            self.forged.add(row[0])
            return False
        self._signed[entry_key(row)] = row
        return True

    def _drop(self, removed: Iterable[str]) -> None:
        gone = [ident for ident in removed if self._entries.pop(ident, None) is not None]
        if gone:
            self._gone += gone
            self._ordered = [entry for entry in self._ordered if entry.id in self._entries]

    async def _opened_cipher(self) -> LocalCipher:
        if self._cipher is None:
            ledger, signer = self._store.ledger, self._store.options.signer
            self._cipher = await local_cipher(signer, ledger.log_rows, LOG_KEY_NAME, ledger.write)
        return self._cipher


_is_id: Final = re.compile(r"[0-9a-f]{20}").fullmatch
LAST_SECOND: Final = 253_402_300_799  # the end of the year 9999, after which `datetime` ends
_order: Final = attrgetter("at", "id")


def _entry(row: Sequence[Any], latest: float = inf) -> LogEntry:
    ident, at, kind, actor, turn, conversation, payload, *author = row[:8]
    # Another program may claim a time that no calendar has.
    at = max(-LAST_SECOND, min(at, latest, LAST_SECOND))
    return LogEntry(ident, kind, actor, payload, at, turn, conversation, *author)


def _json(row: Sequence[Any]) -> bytes:
    wrapped = row
    for _ in range(_PAGE_DEPTH):
        wrapped = [wrapped]
    try:
        return orjson.dumps(wrapped)[_PAGE_DEPTH:-_PAGE_DEPTH]
    except (orjson.JSONEncodeError, RecursionError):
        raise InvalidInput("the payload of an entry must be plain JSON") from None
