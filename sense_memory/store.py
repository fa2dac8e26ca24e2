"""`MemoryStore`: the object a user holds. Wiring and docstrings; no algorithm lives here."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sense_memory import envelope
from sense_memory.envelope import RecordType
from sense_memory.errors import InvalidEvent, InvalidInput, LedgerCorrupt, NotSynced, StoreClosed
from sense_memory.ledger import Ledger, Role
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_RECENT_COUNT
from sense_memory.models import Draft, JournalEntry, Memory
from sense_memory.nostr import address
from sense_memory.nostr.keys import npub
from sense_memory.nostr.signer import as_signer
from sense_memory.reader import Reader
from sense_memory.relay.url import is_local, relay_url
from sense_memory.snapshot import Snapshot
from sense_memory.status import RelayStatus, Status
from sense_memory.timeline import RESTORED, before, version
from sense_memory.writer import Writer


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import BinaryIO

    from pynostr.key import PrivateKey

    from sense_memory.envelope import Record
    from sense_memory.ledger import Stored
    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.portable import ImportReport
    from sense_memory.relay.pool import Pool
    from sense_memory.relay.report import SyncReport
    from sense_memory.relay.session import Timeouts
    from sense_memory.snapshot import Opened
    from sense_memory.timeline import Version


class MemoryStore:
    """An agent's memory: a key, a local ledger, and the relays that carry copies.

    Use it as `async with MemoryStore(...) as store:`. Every read answers from the ledger and every write
    returns when it is durable there; relays follow in the background and on `sync()`. One store serves
    many tasks of one event loop; threads and processes open their own on the same ledger.

    Args:
        signer: a `Signer`, or a `pynostr.key.PrivateKey`.
        relays: URLs: `wss://…`, or `ws://` on this machine. None at all keeps everything local.
        ledger: a file, ":memory:", or None for one file per key in the platform's data folder.
        background: follow the relays while open. Without it they are reached by `sync()`, `flush()`, and
            by a read of a store that never reached one.
        offline_first: send to relays before a first complete pull from them.
        allow_plain: also dial `ws://` on other machines (unencrypted: they see your address and times).
        snapshot: keep opened memories, encrypted, in a file beside the ledger, so that the next start need
            not open each again. It is written when a store closes; without it, one that exists is removed.
        timeouts: of relay connections; see `relay.session.Timeouts`.
        clock: seconds since 1970.

    Raises:
        InvalidRelayUrl: a relay that must not be dialled.
        BadKey: `signer` is neither.
    """

    def __init__(
        self,
        signer: Signer | PrivateKey,
        relays: Iterable[str] = (),
        *,
        ledger: str | Path | None = None,
        background: bool = True,
        offline_first: bool = False,
        allow_plain: bool = False,
        snapshot: bool = True,
        timeouts: Timeouts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(relays, str):
            relays = (relays,)
        self._signer = as_signer(signer)
        self._urls = tuple(dict.fromkeys(relay_url(url, allow_plain=allow_plain) for url in relays))
        self._ledger_path = ledger
        self._background, self._offline_first = background, offline_first
        self._snapshot, self._timeouts, self._clock = snapshot, timeouts, clock
        self._ledger: Ledger | None = None
        self._pool: Pool | None = None
        self._last_entry = 0.0

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> MemoryStore:
        """A store from environment, home `.env` and config file (see `settings`).

        Args:
            agent: a named agent of this machine, or None for the configured one.
            options: passed on to `MemoryStore`; `relays` and `ledger` override the settings.

        Raises:
            KeyMissing, BadKey, UnsafeKeyFile: no usable key; nothing is made up.
            InvalidSetting: a value that can not be used, with where it came from.
        """
        signer, options = configured(agent, options)
        return cls(signer, **options)

    async def __aenter__(self) -> Self:
        self._ledger = Ledger(self._ledger_path or _default_ledger(self.public_key), self.public_key)
        snapshot = Snapshot(self._signer, self._ledger) if self._snapshot else None
        self._reader = Reader(self._signer, self._ledger, self._clock, snapshot)
        self._writer = Writer(self._signer, self._ledger, self._reader, relays=self._urls, clock=self._clock)
        try:
            if snapshot is None:
                self._ledger.snapshot.discard()
            self._ledger.release(self._clock())
            self._ledger.outbox.ensure(self._urls)
            if self._urls and self._background:
                self._relay_pool().start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and ledger. What relays have not got stays queued and is sent next time."""
        pool, self._pool = self._pool, None
        ledger, self._ledger = self._ledger, None
        try:
            if pool is not None:
                await pool.close()
        finally:
            if ledger is not None:
                try:
                    await self._reader.save()
                finally:
                    ledger.close()

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._signer.public_key

    @property
    def npub(self) -> str:
        """The same as NIP-19 text."""
        return npub(self.public_key)

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._urls

    def __repr__(self) -> str:
        return f"MemoryStore({self.npub}, relays={len(self._urls)}, open={self._ledger is not None})"

    # ── v1: flat memories ───────────────────────────────────────────────────────────────

    async def remember(self, key: str, value: str) -> str:
        """Keep a value under a key, replacing the one before; the older stays in the local history.

        Returns:
            The event's id, once it is durable in the ledger.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is no text (`TooLargeError`: too long).
            ClockSkewError: this clock is far behind the newest version; the text is kept, see `drafts`.
            LedgerError: the ledger could not be written.
        """
        (ident,) = await self.remember_many([(key, value)])
        return ident

    async def remember_many(
        self, pairs: Iterable[tuple[str, str]], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Keep many values: durable in batches of 1,000, each batch whole or not at all.

        Args:
            pairs: any iterable of key and value, such as a dict's `items()`.
            progress: called with the number written so far.

        Returns:
            The events' ids, in order. Errors as `remember`; earlier batches stay.
        """
        ledger = self._opened()
        ids: list[str] = []
        rest = iter(pairs)
        while batch := list(itertools.islice(rest, APPLY_BATCH_COUNT)):
            now = self._clock()
            records = [envelope.flat(*_pair(item), now) for item in batch]
            ids += await self._writer.write([await self._carry_over(ledger, record) for record in records])
            self._wake()
            if len(batch) == APPLY_BATCH_COUNT:
                await asyncio.sleep(0)  # a local signer never waits, and other tasks want their turn
            if progress is not None:
                progress(len(ids))
        return ids

    async def recall(self, key: str) -> Memory | None:
        """The value under a key, from the ledger; None when it does not exist or was forgotten.

        Raises:
            NotSynced: it is not here, and no relay ever answered completely, so it may exist there.
            NeedsNewerVersion: a newer sense-memory wrote it.
            InvalidAddress: no key at all.
        """
        paths = address.lookup_paths(key)
        stored = self._find(paths)
        if stored is None and await self._ask_relays("this key is"):
            stored = self._find(paths)
        if stored is None or stored.role is Role.TOMBSTONE:
            return None
        record = await self._reader.needed(stored)
        return _memory(stored, record) if record.type is RecordType.FLAT and record.path in paths else None

    async def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address.

        Raises:
            NotSynced: the ledger is empty and no relay ever answered completely.
        """
        found = await self._all_flat()
        if not found and await self._ask_relays("memories are"):
            found = await self._all_flat()
        return found

    async def forget(self, key: str) -> str:
        """Forget a memory everywhere: purged here, replaced by a tombstone and deleted (NIP-09) on relays.

        The deletion is published even if the key is unknown here, because it may exist on relays. Relays
        that ignore deletions keep the tombstone; nobody can promise that every copy is gone.

        Returns:
            The id of the deletion request.
        """
        ledger = self._opened()
        heads = {path: ledger.head(address.d_tag(path)) for path in address.lookup_paths(key)}
        live = [path for path, head in heads.items() if head is not None and head.role is Role.MEMORY]
        ids = [
            await self._writer.forget(path) for path in live or dict.fromkeys((address.flat_path(key), key))
        ]
        for path in dict.fromkeys((*heads, key)):
            ledger.drafts.forget(address.d_tag(path))
        ledger.checkpoint()
        self._wake()
        return ids[0]

    async def refresh(self, key: str) -> str | None:
        """Sign a memory anew, with the same text and the same time inside, for relays that call it too old.

        Returns:
            The new event's id, or None where there is no such memory. Errors as `recall` and `remember`.
        """
        memory = await self.recall(key)
        if memory is None:
            return None
        stored = self._opened().by_id(memory.event_id)
        if stored is None:
            return None
        (ident,) = await self._writer.write([await self._reader.needed(stored)], drafts=False)
        self._wake()
        return ident

    # ── What could not be written ───────────────────────────────────────────────────────

    async def drafts(self) -> list[Draft]:
        """The memories that this clock did not allow to write (`ClockSkewError`), oldest first.

        They are kept sealed, on this machine only; `forget` discards those of its key.
        """
        found = []
        for draft in self._opened().drafts.all():
            record = await envelope.open_draft(self._signer, draft.content, draft.slot)
            key, value = record.fields["key"], record.fields["value"]
            found.append(Draft(number=draft.number, key=key, value=value, created_at=draft.created_at))
        return found

    async def publish_draft(self, number: int) -> str:
        """Write a draft, now that the clock is right; it replaces what its key holds by now.

        Returns:
            The event's id. Errors as `remember`; the draft stays then.

        Raises:
            InvalidInput: there is no such draft.
        """
        ledger = self._opened()
        draft = ledger.drafts.get(number)
        if draft is None:
            raise InvalidInput(f"there is no draft {number}; nothing was written")
        record = await envelope.open_draft(self._signer, draft.content, draft.slot)
        (ident,) = await self._writer.write([await self._carry_over(ledger, record)], drafts=False)
        ledger.drafts.discard(number)
        self._wake()
        return ident

    def discard_draft(self, number: int) -> None:
        """Remove a draft for good.

        Raises:
            InvalidInput: there is no such draft.
        """
        ledger = self._opened()
        if not ledger.drafts.discard(number):
            raise InvalidInput(f"there is no draft {number}; nothing was removed")
        ledger.checkpoint()

    # ── The time machine ────────────────────────────────────────────────────────────────

    async def history(self, key: str) -> list[Version]:
        """Every version of a memory that this ledger has seen, newest first.

        Of a forgotten memory only the tombstone is left. Versions that a relay served late are in their
        place in time, not in the order in which they came.
        """
        ledger = self._opened()
        found = []
        for path in address.lookup_paths(key):
            tag = address.d_tag(path)
            head = ledger.head(tag)
            for stored in ledger.versions(tag):
                record = await self._reader.record(stored)
                if record is not None and record.type in {RecordType.FLAT, RecordType.TOMBSTONE}:
                    is_head = head is not None and head.seq == stored.seq
                    found.append(version(record, stored.id.hex(), _time(record, stored), is_head=is_head))
        return found

    async def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, as far as this ledger has seen it.

        Args:
            time: seconds since 1970.
        """
        found = []
        for stored_versions in self._opened().histories(address.PREFIX):
            for stored in stored_versions:
                record = await self._reader.record(stored)
                if record is not None and _time(record, stored) <= time:
                    if record.type is RecordType.FLAT:
                        found.append(_memory(stored, record))
                    break
        return found

    async def undo(self, key: str) -> Memory | None:
        """Bring back the value before the last edit, as a new version; undoing again goes further back.

        Returns:
            The memory as it is now, or None where there is no older value to go back to.
        """
        earlier = before(await self.history(key))
        if earlier is None or earlier.value is None:
            return None
        record = envelope.flat(key, earlier.value, self._clock(), {RESTORED: earlier.event_id})
        await self._writer.write([await self._carry_over(self._opened(), record)], drafts=False)
        self._wake()
        return await self.recall(key)

    # ── v1: journal ─────────────────────────────────────────────────────────────────────

    async def journal(self, content: str) -> str:
        """Write a journal entry: a direct message to oneself (kind 4, NIP-44), never replaced.

        Returns:
            The event's id, once it is durable. Errors as `remember`.
        """
        self._opened()
        # Two entries of one instant would have no order on another device: a microsecond gives them one.
        self._last_entry = max(self._clock(), self._last_entry + 1e-6)
        (ident,) = await self._writer.write([envelope.journal(content, self._last_entry)])
        self._wake()
        return ident

    async def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first.

        Args:
            limit: 1 to 100,000.

        Raises:
            InvalidInput: the limit is out of range.
            NotSynced: there is none, and no relay ever answered completely.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_RECENT_COUNT:
            raise InvalidInput(f"limit must lie between 1 and {MAX_RECENT_COUNT:,}, not {limit}")
        found = await self._entries(limit)
        if not found and await self._ask_relays("journal entries are"):
            found = await self._entries(limit)
        return found

    async def forget_entry(self, event_id: str) -> str:
        """Remove a journal entry everywhere: purged here, and deleted (NIP-09) on relays that do so.

        The deletion is sent to every relay, even if the entry never was: another device, or a try whose
        answer got lost, may have brought it there. It outlives the entry here, so that no copy comes back.

        Args:
            event_id: `JournalEntry.event_id`, 64 hex digits.

        Returns:
            The id of the deletion request.

        Raises:
            InvalidInput: there is no journal entry with that id; anything else is left alone.
            NotSynced: it is not here, and no relay ever answered completely.
        """
        stored = self._opened().by_id(event_id)
        if stored is None and await self._ask_relays("this journal entry is"):
            stored = self._opened().by_id(event_id)
        record = await self._reader.needed(stored) if stored and stored.role is Role.MEMORY else None
        if stored is None or record is None or record.type is not RecordType.JOURNAL:
            raise InvalidInput("no journal entry has this id; nothing was removed")
        ident = await self._writer.forget_entry(stored.event())
        self._opened().checkpoint()
        self._wake()
        return ident

    # ── Relays ──────────────────────────────────────────────────────────────────────────

    async def sync(self, *, full: bool = False) -> SyncReport:
        """Bring every relay and the ledger in step now: pull, then push.

        Args:
            full: ask for everything instead of what is new, and send again what went missing there.

        Returns:
            A report per relay; a relay that fails never raises here.

        Raises:
            LedgerError: the ledger could not be used (`StorageFullError`: the disk is full).
        """
        from sense_memory.relay.sync import Plan

        return await self._round(Plan(sweep=full))

    async def flush(self) -> SyncReport:
        """Send what is queued, without pulling (but for relays that were never pulled completely)."""
        from sense_memory.relay.sync import Plan

        ledger = self._opened()
        fresh = [url for url in self._urls if ledger.outbox.state(url).completed_at is None]
        return await self._round(Plan(pull=bool(fresh) and not self._offline_first))

    def drop_relay(self, url: str) -> int:
        """Cancel what waits for a relay that is used no more, and forget how far it was pulled.

        It keeps what it has. Should it be used again, it is asked for everything and gets what it lacks.

        Args:
            url: a relay, but none of this store's own.

        Returns:
            How many events were waiting for it.

        Raises:
            InvalidRelayUrl: no URL of a relay.
            InvalidInput: this store uses it.
        """
        relay = relay_url(url, allow_plain=True)
        if relay in self._urls:
            raise InvalidInput(f"this store uses {relay}; open one without it first. Nothing was changed.")
        return self._opened().outbox.forget_relay(relay)

    # ── Portable ────────────────────────────────────────────────────────────────────────

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write every event of the ledger into a file of JSON lines: signed, encrypted, no secret inside.

        Args:
            path: the file; created with mode 0600 and moved into place whole. Or an open binary file.
            overwrite: replace a file that exists.
            progress: called with the number of events written so far.

        Returns:
            How many events were written.

        Raises:
            InvalidInput: the file exists, or can not be written.
        """
        from sense_memory.portable import write_export

        target = Path(path) if isinstance(path, str) else path
        return write_export(target, self._opened().bodies(), overwrite=overwrite, progress=progress)

    async def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """Take events from a file of JSON lines: every line is verified and opened, each bad one reported.

        What is new goes to the relays as if it had been written here; nothing newer is overwritten.

        Args:
            path: the file, or an open binary one.
            progress: called with the number of lines read so far.

        Raises:
            InvalidInput: the file can not be read.
        """
        from sense_memory.portable import LEFT_OUT, BadLine, ImportReport, read_import

        self._opened()
        counts: Counter[str] = Counter()
        bad: list[BadLine] = []
        lines = read_import(Path(path) if isinstance(path, str) else path, self.public_key)
        while batch := list(itertools.islice(lines, APPLY_BATCH_COUNT)):
            good = [(number, event) for number, event in batch if not isinstance(event, str)]
            filed, left_out = await self._reader.take([event for _, event in good], None)
            counts.update({fate: filed[fate] for fate in filed.keys() - set(left_out.values())})
            bad += [BadLine(number, event) for number, event in batch if isinstance(event, str)]
            bad += [BadLine(good[index][0], LEFT_OUT[reason]) for index, reason in left_out.items()]
            if len(batch) == APPLY_BATCH_COUNT:
                await asyncio.sleep(0)  # a local signer never waits, and other tasks want their turn
            if progress is not None:
                progress(batch[-1][0])
        self._wake()
        return ImportReport(dict(counts), tuple(sorted(bad, key=lambda line: line.number)))

    def status(self) -> Status:
        """What is held here, and how far each relay is; no network."""
        ledger = self._opened()
        reports = self._pool.reports if self._pool else {}
        notices = self._pool.notices if self._pool else {}
        lines = []
        for url in self._urls:
            state, report = ledger.outbox.state(url), reports.get(url)
            lines.append(
                RelayStatus(
                    url,
                    is_local(url),
                    state.completed_at,
                    report.problem if report else "",
                    ledger.outbox.counts(url),
                    ledger.outbox.reasons(url),
                    notices.get(url, ()),
                    ledger.notes.remarks(url),
                )
            )
        return Status(self.npub, str(ledger.path or ":memory:"), ledger.census(), tuple(lines))

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of one event at each relay: queued, acked, confirmed, refused, parked, superseded."""
        ledger = self._opened()
        stored = ledger.by_id(event_id)
        return ledger.outbox.holders(stored.seq) if stored else {}

    async def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one; call it on a store that is not open.

        No other process may use the ledger meanwhile.

        The damaged file is moved aside and kept. What can still be read of it is verified, opened and filed
        in the new ledger, unsent events and drafts included; a `sync` restores the rest from relays. What was
        forgotten stays forgotten as far as its tombstone, here or on a relay, can be read.

        Raises:
            InvalidInput: the ledger is sound, is not there, or is no ledger; it was not touched.
            WrongKeyError, LedgerTooNew, UnsafeKeyFile: as for opening it.
        """
        from sense_memory.ledger.rescue import RescueReport, move_aside, salvage

        path = await self._damaged()
        aside = move_aside(path)
        saved = await asyncio.to_thread(salvage, aside)
        counts: Counter[str] = Counter()
        unreadable = saved.unreadable
        async with MemoryStore(self._signer, ledger=path, snapshot=False, clock=self._clock) as store:
            rest = iter(saved.bodies)
            while batch := list(itertools.islice(rest, APPLY_BATCH_COUNT)):
                events = [event for body in batch if (event := _verified(body)) is not None]
                filed, left_out = await store._reader.take(events, None)
                unreadable += len(batch) - len(events) + len(left_out)
                counts.update({fate: filed[fate] for fate in filed.keys() - set(left_out.values())})
            drafts = store._opened().drafts.keep(saved.drafts, self._clock())
        return RescueReport(aside, dict(counts), len(drafts), unreadable)

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings and events that no longer verify."""
        from sense_memory.nostr.event import RawEvent, verify

        ledger = self._opened()
        problems = ledger.integrity()
        for body in ledger.bodies():
            try:
                verify(RawEvent.loads(body))
            except InvalidEvent as error:
                problems.append(f"a stored event does not verify: {error}")
        return problems

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    async def _damaged(self) -> Path:
        """Where the damaged ledger is; raises where it is open, not there, or sound."""
        path = Path(self._ledger_path or _default_ledger(self.public_key))
        if self._ledger is not None or not await asyncio.to_thread(path.is_file):
            raise InvalidInput(f"{path} is open, or there is no such file; nothing was changed")
        with suppress(LedgerCorrupt):
            async with MemoryStore(self._signer, ledger=path, clock=self._clock) as store:
                is_sound = not store.integrity()
            if is_sound:
                raise InvalidInput(f"{path} is sound; it was not touched")
        return path

    def _opened(self) -> Ledger:
        if self._ledger is None:
            raise StoreClosed
        return self._ledger

    def _relay_pool(self) -> Pool:
        """The pool, made when a relay is first needed: a read of the ledger does not pay for sockets."""
        if self._pool is None:
            from sense_memory.relay.pool import Pool
            from sense_memory.relay.session import Timeouts

            self._pool = Pool(
                self._urls,
                self._opened(),
                self._signer,
                self._reader.admit,
                clock=self._clock,
                timeouts=self._timeouts or Timeouts(),
                offline_first=self._offline_first,
            )
        return self._pool

    def _wake(self) -> None:
        if self._pool is not None:
            self._pool.wake()

    async def _round(self, plan: Any) -> SyncReport:
        from sense_memory.relay.report import SyncReport

        self._opened()
        return await self._relay_pool().sync(plan) if self._urls else SyncReport()

    async def _ask_relays(self, what: str) -> bool:
        """Before saying "nothing": make sure a relay was asked completely once. False without relays."""
        outbox = self._opened().outbox
        if not self._urls:
            return False
        if any(outbox.state(url).completed_at is not None for url in self._urls):
            return False
        pool = self._relay_pool()
        await pool.asked()
        if not any(outbox.state(url).completed_at is not None for url in self._urls):
            raise NotSynced(what, pool.problems)
        return True

    def _find(self, paths: Sequence[str]) -> Stored | None:
        ledger = self._opened()
        found = [stored for path in paths if (stored := ledger.head(address.d_tag(path)))]
        return next((stored for stored in found if stored.role is Role.MEMORY), found[0] if found else None)

    async def _carry_over(self, ledger: Ledger, record: Record) -> Record:
        """Unknown fields that a newer writer put into the version before survive the rewrite."""
        before = ledger.head(address.d_tag(record.path))
        if before is None or before.role is not Role.MEMORY:
            return record
        old = await self._reader.needed(before)
        if old.type is not record.type:
            return record
        kept = {name: value for name, value in old.fields.items() if name != RESTORED}
        return envelope.Record(record.type, record.path, {**kept, **record.fields})

    async def _all_flat(self) -> list[Memory]:
        self._opened()
        alive = await self._reader.live(address.PREFIX)
        return [_memory(opened, record) for opened, record in alive if record.type is RecordType.FLAT]

    async def _entries(self, limit: int) -> list[JournalEntry]:
        ledger = self._opened()
        events = [*ledger.journal(limit), *ledger.heads(address.JOURNAL_PREFIX)]
        entries: list[tuple[float, int, JournalEntry]] = []
        for stored, record in await self._reader.records(events):
            if record.type is RecordType.JOURNAL:
                ts = _time(record, stored)
                entry = JournalEntry(
                    content=record.fields["content"], created_at=ts, event_id=stored.id.hex()
                )
                entries.append((ts, stored.seq, entry))
        entries.sort(key=lambda item: item[:2], reverse=True)
        return [entry for _, _, entry in entries[:limit]]


def configured(agent: str | None, options: dict[str, Any]) -> tuple[Signer, dict[str, Any]]:
    """The signer and the options that the settings give a store; options that were passed win.

    Raises: as `MemoryStore.from_settings`.
    """
    from sense_memory.nostr.signer import LocalSigner
    from sense_memory.settings import Settings, find_secret, ledger_path

    settings = Settings.load(agent=agent, relays=options.get("relays"), ledger=options.get("ledger"))
    secret, _ = find_secret(settings)
    signer = LocalSigner(secret)
    ledger = settings.ledger or ledger_path(settings.home, signer.public_key)
    return signer, {**options, "relays": settings.relays, "ledger": ledger}


def _verified(body: bytes) -> Event | None:
    from sense_memory.nostr.event import RawEvent, verify

    try:
        return verify(RawEvent.loads(body))
    except InvalidEvent:
        return None


def _pair(item: object) -> tuple[Any, Any]:
    """A key and a value. A text of two characters is none: it is what iterating over a dict gives."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InvalidInput("each item must be a pair of key and value; nothing of its batch was written")
    return item[0], item[1]


def _memory(stored: Stored | Opened, record: Record) -> Memory:
    return Memory(
        key=record.fields["key"],
        value=record.fields["value"],
        created_at=_time(record, stored),
        event_id=stored.id.hex(),
    )


def _time(record: Record, stored: Stored | Opened) -> float:
    """When it was written: the time inside the ciphertext; other writers may have left it out."""
    ts = record.fields.get("ts")
    if isinstance(ts, int | float) and not isinstance(ts, bool):
        return float(ts)
    return float(stored.created_at)


def _default_ledger(public_key: str) -> Path:
    from sense_memory.settings import Settings, ledger_path

    return ledger_path(Settings.load().home, public_key)
