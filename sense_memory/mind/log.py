"""The log: everything that happened, as append-only entries, collected in pages.

Guaranteed: an entry that `append` returned survives a kill, is on relays after the next `flush`, and keeps its id for
ever. A page never loses an entry: whatever versions of a page exist, on this ledger or on relays, their union counts,
less the entries that any of them says are removed.

Why it is safe: a new entry is a sealed row of its own (`ledger.caches`) until a durable page holds it; a kill between
the two leaves it twice under one id. A device adds entries to its own pages only. If the ledger was set back (a restored
disk image), another process wrote the same page meanwhile, or another device removed an entry of it, the ledger holds
several versions of the page; the next flush unites them, writes the union, and drops only the versions that it has read.
Where several devices do so, they write the same union, which leaves nothing to be written.

Cost: one sealed row for each entry. A page that is not full is signed and sent again with each flush, so sending costs
half a page for each flush, and a relay holds one event for a page of entries.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from sense_memory.errors import InvalidInput, TooLargeError
from sense_memory.ledger.feed import START
from sense_memory.limits import LOG_PAGE_BYTES, MAX_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.records.envelope import RecordType
from sense_memory.records.local_cipher import LocalCipher, local_cipher


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sense_memory.mind.records import MindRecords

_KEY_NAME: Final = "sense-memory:log-key"
_MAX_NAME_CHARS: Final = 256  # of a kind, an actor or a conversation
_MAX_ID_CHARS: Final = 64
_PAGES_AT_ONCE: Final = 8  # pages read without a pause, some 10 ms
_PAGE_OVERHEAD_BYTES: Final = 200  # of a page's JSON without its entries
_PAGE_DEPTH: Final = 8  # levels of JSON that a page adds at most; the encoder has a limit


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing that happened.

    Attributes:
        id: 20 hex digits, in the order of time on one device; never changes.
        kind: what happened, such as `agent.spoke`, `world.observed` or `message.user`; an open set.
        actor: who did it.
        payload: plain JSON values.
        at: seconds since 1970.
        turn: the number of the turn, or None.
        conversation: the conversation's id, or None.
        author: public key of who signed it, 64 hex digits; empty in a log of one's own.
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
        """What the payload says in words: its `text`, `content` or `belief`, or else all its strings."""
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
    """Signs the entries of a log that several authors share, and tells genuine entries from forged ones."""

    async def signature(self, row: list[Any]) -> list[str]:
        """What to add to an entry as it stands in JSON."""

    def is_signed(self, row: list[Any]) -> bool:
        """Whether an author signed exactly this entry; what is not signed is kept nowhere."""

    def may_speak(self, row: list[Any]) -> bool:
        """Whether the author of a signed entry may speak under its name; if not, it is not shown."""


@dataclass(slots=True)
class _Page:
    """What this process knows of a page: its entries (as they stand in JSON, see `_key`) and the ids of removed entries."""

    entries: dict[str, list[Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)  # entries that a later page holds, because this one was full
    seqs: set[int] = field(default_factory=set)  # the versions that were read
    is_behind: bool = False  # whether the head lacks something of the union

    def unite(self, entries: Iterable[list[Any]], removed: set[str], moved: set[str]) -> list[str]:
        """Add what a version says; returns the ids of entries that were here and are removed now."""
        self.removed |= removed
        self.moved |= moved
        gone = [ident for ident in self.removed if ident in self.entries]
        self.entries |= {_key(row): row for row in entries if _key(row) not in self.entries}
        for ident in (self.removed | self.moved) & self.entries.keys():
            del self.entries[ident]
        return gone

    def overflow(self) -> list[list[Any]]:
        """Take out the newest entries that fit no event, after several versions were united; they move on."""
        rows: list[list[Any]] = []
        while self.size() > MAX_PLAINTEXT_BYTES - _PAGE_OVERHEAD_BYTES:
            ident, row = self.entries.popitem()
            self.moved.add(ident)
            rows.append(row)
        return rows[::-1]

    def size(self) -> int:
        """The length of the page's JSON in bytes, about."""
        return _PAGE_OVERHEAD_BYTES + len(orjson.dumps(self.fields()))

    def is_covered_by(self, rows: Iterable[list[Any]], fields: Mapping[str, Any]) -> bool:
        """Whether one version, of which these rows count, says all that the union says."""
        said = {_key(row) for row in rows}
        is_held = self.entries.keys() <= said and self.removed <= _ids(fields, "removed")
        return is_held and said.isdisjoint(self.moved)

    def fields(self) -> dict[str, Any]:
        moved = {"moved": sorted(self.moved)} if self.moved else {}
        return {"entries": list(self.entries.values()), "removed": sorted(self.removed), **moved}


class Log:
    """The log of an agent.

    Args:
        records: writes and opens pages.
        on_append: called after entries were appended, with their size in bytes, to have them flushed soon.
        signing: signs entries and verifies them, where several authors share the log; see `scenes`.

    Attributes:
        forged: ids of entries that are not shown, because their author did not sign them.
    """

    def __init__(
        self,
        records: MindRecords,
        on_append: Callable[[int], None] = lambda _: None,
        signing: SignsEntries | None = None,
    ) -> None:
        self._records, self._store, self._on_append = records, records.store, on_append
        self._signing = signing
        self.forged: set[str] = set()
        self._entries: dict[str, LogEntry] = {}
        self._ordered: list[LogEntry] = []
        self._is_sorted = True
        self._arrived: list[LogEntry] = []
        self._gone: list[str] = []
        self._pages: dict[str, _Page] = {}  # by slot
        self._signed: dict[str, list[Any]] = {}  # rows whose signature was verified
        self._cursor, self._row = START, 0
        self._cipher: LocalCipher | None = None
        self._flushing = asyncio.Lock()
        self._last = 0.0
        self._asked = False

    def judge_again(self, signing: SignsEntries) -> None:
        """Judge all entries again, because there are other members now."""
        self._signing = signing
        self._entries, self._ordered, self._arrived, self._gone = {}, [], [], []
        self._pages, self._signed, self._cursor, self._row = {}, {}, START, 0
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
        """Append one entry; it is durable when this returns.

        Args:
            kind: what happened, such as `agent.spoke`.
            payload: plain JSON values.
            actor: who did it.
            turn: the number of the turn.
            conversation: the conversation's id.
            at: when it happened, seconds since 1970; now by default.

        Raises:
            InvalidInput: a name is empty or too long, or the payload is not plain JSON; nothing was appended.
            TooLargeError: the entry fits no page (some 40,000 bytes of JSON); nothing was appended.
            LedgerError: the ledger could not be written; nothing was appended.
        """
        new = NewEntry(kind, payload, actor, turn, conversation, at)
        return (await self.append_many([new]))[0]

    async def append_many(self, entries: Sequence[NewEntry]) -> list[LogEntry]:
        """Append entries in their order, all or none. Errors as `append`."""
        self._store.check()
        cipher = await self._opened_cipher()
        rows = [self._row_of(entry) for entry in entries]
        if self._signing is not None:
            rows = [[*row, *await self._signing.signature(row)] for row in rows]
        texts = [_json(row) for row in rows]
        for text in texts:
            if len(text) + _PAGE_OVERHEAD_BYTES > MAX_PLAINTEXT_BYTES:
                raise TooLargeError(len(text), MAX_PLAINTEXT_BYTES - _PAGE_OVERHEAD_BYTES)
        async with self._store.writing() as store:
            await store.ledger.write(store.ledger.log_rows.add, [cipher.seal(text) for text in texts])
        self._on_append(sum(map(len, texts)))
        return [_entry(row) for row in rows]

    async def remove(self, entry_id: str) -> None:
        """Remove one entry, here and on relays; its id stays in its page, as removed.

        Raises:
            InvalidInput: no entry has this id, or the log is shared.
        """
        if self._signing is not None:
            raise InvalidInput("an entry of a shared log cannot be removed; nothing was removed")
        await self.flush()
        await self.refresh()  # so that the version that was just written is dropped too
        # Two processes that flush at once can put an entry into two pages.
        held = {slot: page for slot, page in self._pages.items() if entry_id in page.entries}
        if not held:
            raise InvalidInput("no entry of the log has this id; nothing was removed")
        for page in held.values():
            self._drop(page.unite([], {entry_id}, set()))
            page.is_behind = True
        await self._write_pages(held, forgets=True)
        await self.refresh()
        self._store.ledger.checkpoint()

    async def flush(self) -> int:
        """Sign every entry that is in no page yet, and queue the pages for relays; returns how many pages.

        Raises:
            ClockSkewError: this clock is far behind the newest version of a page; the entries stay durable as rows.
            LedgerError: the ledger could not be written; the entries stay durable as rows.
        """
        async with self._flushing:
            await self.refresh()
            ledger, cipher = self._store.ledger, await self._opened_cipher()
            rows = [(number, orjson.loads(cipher.open(body))) for number, body in ledger.log_rows.after(0)]
            known = {ident for page in self._pages.values() for ident in (*page.entries, *page.removed)}
            fresh = [row for _, row in rows if _key(row) not in known]
            touched = [slot for slot, page in self._pages.items() if page.is_behind]
            over = [row for slot in touched for row in self._pages[slot].overflow()]
            held = {key for page in self._pages.values() for key in page.entries} if over else set()
            fresh = [row for row in over if _key(row) not in held] + fresh
            touched += self._place(fresh, ledger.edits.device)
            written = await self._write_pages(dict.fromkeys(touched))
            await ledger.write(ledger.log_rows.remove, [number for number, _ in rows])
            return written

    def _place(self, rows: Iterable[list[Any]], device: str) -> list[str]:
        """Put rows into the pages of this device, new pages where the last one is full; returns the changed slots."""
        prefix = f"{address.LOG_PAGES}{device}-"
        ends = [slot.removeprefix(prefix) for slot in self._pages if slot.startswith(prefix)]
        number = max((int(end) for end in ends if end.isascii() and end.isdigit()), default=0)
        page = self._pages.get(f"{prefix}{number}")
        size = page.size() if page else LOG_PAGE_BYTES
        changed = []
        for row in rows:
            length = len(orjson.dumps(row)) + 1
            if page is None or size + length > LOG_PAGE_BYTES:
                number, size = number + 1, _PAGE_OVERHEAD_BYTES
                page = self._pages[f"{prefix}{number}"] = _Page()
            page.entries[_key(row)] = row
            page.is_behind = True  # until it is written: a flush that fails leaves it to the next
            size += length
            changed.append(f"{prefix}{number}")
        return changed

    async def _write_pages(self, slots: Iterable[str], *, forgets: bool = False) -> int:
        """Write pages, and drop their versions that were read; returns how many pages."""
        pages = {slot: self._pages[slot] for slot in slots}
        if not pages:
            return 0
        read = [seq for page in pages.values() for seq in page.seqs]
        await self._records.write(
            {slot.removeprefix(address.PREFIX): page.fields() for slot, page in pages.items()}
        )
        for page in pages.values():
            page.is_behind = False
            page.seqs.clear()  # the next look brings the new head
        ledger = self._store.ledger
        await ledger.write(partial(ledger.drop_versions, forgets=forgets), read)
        return len(pages)

    def _row_of(self, new: NewEntry) -> list[Any]:
        for what, value in (("kind", new.kind), ("actor", new.actor), ("conversation", new.conversation)):
            if value is None and what == "conversation":
                continue
            if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME_CHARS:
                raise InvalidInput(
                    f"the {what} of an entry must be 1 to {_MAX_NAME_CHARS} characters of text; nothing was appended"
                )
        if new.turn is not None and type(new.turn) is not int:
            raise InvalidInput("the turn of an entry must be a whole number; nothing was appended")
        if new.at is not None and not (type(new.at) in _NUMBERS and abs(new.at) <= LAST_SECOND):
            raise InvalidInput("the time of an entry must be in seconds since 1970; nothing was appended")
        if not isinstance(new.payload, Mapping):
            raise InvalidInput("the payload of an entry must be a mapping; nothing was appended")
        now = self._store.options.clock()
        # Entries of one instant get an order: a microsecond each, unless the clock was set back.
        self._last = self._last + 1e-6 if now <= self._last <= now + 1.0 else now
        at = self._last if new.at is None else float(new.at)
        if new.id and not _is_id(new.id):
            raise InvalidInput("the id of an entry must be 20 hex digits; nothing was appended")
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
        """The entries in the order of time, the oldest first.

        Args:
            kind: only entries of this kind.
            actor: only entries of this actor.
            conversation: only entries of this conversation.
            since: only entries from this time on, seconds since 1970.
            after: only entries after the entry with this id.
            limit: the newest so many of them; all by default.

        Raises:
            InvalidInput: no entry has the id `after`.
            NotSynced: the log is empty here, and no relay answered completely yet.
        """
        found: Sequence[LogEntry] = await self._all()
        if after is not None:
            found = found[await self._place_of(after) + 1 :]
        if kind or actor or conversation or since:
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
        """The entry with an id, or None if there is none or it was removed."""
        await self._all()
        return self._entries.get(entry_id)

    def known(self, entry_id: str) -> LogEntry | None:
        """As `get`, as of the last look into the ledger."""
        return self._entries.get(entry_id)

    def pages(self) -> dict[str, list[str]]:
        """The ids of the entries in each page, by slot, as of the last look into the ledger."""
        return {slot: [row[0] for row in page.entries.values()] for slot, page in self._pages.items()}

    async def count_since(self, entry_id: str) -> int:
        """How many entries came after an entry.

        Raises:
            InvalidInput: no entry has this id.
        """
        return len(await self._all()) - await self._place_of(entry_id) - 1

    async def changes(self, arrived: int, gone: int) -> tuple[list[LogEntry], list[str]]:
        """What a follower has not seen: entries in the order of their arrival here, and ids of removed entries.

        Args:
            arrived: how many arrived entries the follower has seen.
            gone: how many removed ids the follower has seen.
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
        """Read what changed in the ledger since the last look: new pages, other versions of pages, new rows."""
        self._store.check()
        ledger = self._store.ledger
        if not ledger.feed.has_changed(self._cursor):
            return
        changes, judged = ledger.feed.since(self._cursor), self._pages
        slots = [slot for slot in changes.slots if address.is_log_page(slot)]
        if changes.is_everything:
            slots = [slot for slot, _ in ledger.heads.seqs_beneath(address.LOG_PAGES)]
        if slots:
            await self._read_pages(slots)
        await self._read_rows()
        if not self._is_sorted:  # pages come in no order of time
            self._ordered.sort(key=_order)
            self._is_sorted = True
        if self._pages is judged:  # `judge_again` begins anew
            self._cursor = changes.cursor

    async def _read_pages(self, slots: Sequence[str]) -> None:
        ledger, reader = self._store.ledger, self._store.reader
        heads = ledger.heads.uncovered_at(slots)
        crowded = set(ledger.heads.crowded_beneath(address.LOG_PAGES))
        opened = await reader.opened([(head.slot, head.seq) for head in heads])
        own = f"{address.LOG_PAGES}{ledger.edits.device}-"
        for number, item in enumerate(opened):
            if number % _PAGES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if item.type is not RecordType.MIND:
                continue
            slot, fields = address.d_tag(item.path), item.record.fields
            page = self._unite(slot, fields, item.seq)
            if slot in crowded:
                await self._unite_versions(slot)
            # A removal by another device is known to that device alone once this page was written over it.
            is_ours = self._signing is None or slot.startswith(own)
            page.is_behind = is_ours and not page.is_covered_by(self._counted(fields), fields)
        if self._signing is not None:  # who holds the key can delete a page, or write another in its place
            read = {address.d_tag(item.path) for item in opened if item.type is RecordType.MIND}
            for slot in {slot for slot in slots if slot.startswith(own)} - read:
                if slot in self._pages:
                    self._pages[slot].is_behind = bool(self._pages[slot].entries)

    async def _unite_versions(self, slot: str) -> None:
        for stored in self._store.ledger.versions(slot)[1:]:
            record = await self._store.reader.record(stored)
            if record is not None and record.type is RecordType.MIND:
                self._unite(slot, record.fields, stored.seq)

    def _unite(self, slot: str, fields: Mapping[str, Any], seq: int) -> _Page:
        page = self._pages.setdefault(slot, _Page())
        rows = self._counted(fields)
        # Any member can write any page of a scene, so what a page there takes away does not count.
        removed, moved = (
            set[str]() if self._signing else _ids(fields, name) for name in ("removed", "moved")
        )
        self._drop(page.unite(rows, removed, moved))
        page.seqs.add(seq)
        self._add(row for row in rows if _key(row) in page.entries)
        return page

    def _counted(self, fields: Mapping[str, Any]) -> list[list[Any]]:
        """The entries of a page: where several authors share the log, those that their authors signed."""
        return [row for row in _list(fields, "entries") if _is_row(row) and self._is_signed(row)]

    async def _read_rows(self) -> None:
        rows = self._store.ledger.log_rows.after(self._row)
        if not rows:
            return
        cipher = await self._opened_cipher()
        removed = {ident for page in self._pages.values() for ident in page.removed}
        found = [orjson.loads(cipher.open(body)) for _, body in rows]
        self._add(row for row in found if row[0] not in removed)
        self._row = rows[-1][0]

    def _add(self, rows: Iterable[list[Any]]) -> None:
        fresh = (row for row in rows if _key(row) not in self._entries and self._is_genuine(row))
        found = {_key(row): _entry(row) for row in fresh}
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
        if self._signing is None or self._signed.get(_key(row)) == row:
            return True
        if not self._signing.is_signed(row):
            self.forged.add(row[0])
            return False
        self._signed[_key(row)] = row
        return True

    def _drop(self, removed: Iterable[str]) -> None:
        gone = [ident for ident in removed if self._entries.pop(ident, None) is not None]
        if gone:
            self._gone += gone
            self._ordered = [entry for entry in self._ordered if entry.id in self._entries]

    async def _opened_cipher(self) -> LocalCipher:
        if self._cipher is None:
            ledger = self._store.ledger
            self._cipher = await local_cipher(
                self._store.options.signer, ledger.log_rows, _KEY_NAME, ledger.write
            )
        return self._cipher


_is_id: Final = re.compile(r"[0-9a-f]{20}").fullmatch
_NUMBERS: Final = frozenset({int, float})
LAST_SECOND: Final = 253_402_300_799  # of the year 9999; later dates have no calendar
_order: Final = attrgetter("at", "id")


def _key(row: Sequence[Any]) -> str:
    """Names an entry: by its id, and its author where several share the log, so that nobody takes the id of another."""
    return str(row[0]) if len(row) == 7 else f"{row[0]}{row[7]}"


def _entry(row: Sequence[Any]) -> LogEntry:
    ident, at, kind, actor, turn, conversation, payload, *author = row[:8]
    return LogEntry(ident, kind, actor, payload, at, turn, conversation, *author)


def _ids(fields: Mapping[str, Any], name: str) -> set[str]:
    return {ident for ident in _list(fields, name) if isinstance(ident, str)}


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    """A list in a page; empty where another writer put something else."""
    found = fields.get(name)
    return found if isinstance(found, list) else []


def _is_row(row: object) -> bool:
    """Whether a value is an entry as this program writes them; anything else is left out."""
    if not isinstance(row, list) or len(row) < 7:
        return False
    ident, at, kind, actor, turn, conversation, payload = row[:7]
    is_named = isinstance(ident, str) and isinstance(kind, str) and isinstance(actor, str)
    is_timed = type(at) in _NUMBERS and isfinite(at) and (turn is None or type(turn) is int)
    return (
        is_named
        and is_timed
        and 0 < len(ident) <= _MAX_ID_CHARS
        and (conversation is None or isinstance(conversation, str))
        and isinstance(payload, dict)
        and (len(row) == 7 or all(isinstance(text, str) for text in row[7:]))
    )


def _json(row: Sequence[Any]) -> bytes:
    wrapped = row
    for _ in range(_PAGE_DEPTH):
        wrapped = [wrapped]
    try:
        return orjson.dumps(wrapped)[_PAGE_DEPTH:-_PAGE_DEPTH]
    except (orjson.JSONEncodeError, RecursionError):
        raise InvalidInput("the payload of an entry must be plain JSON; nothing was appended") from None
