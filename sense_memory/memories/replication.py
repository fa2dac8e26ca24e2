"""Replication of an open store: sync with its relays, and the settlement of forks after every relay has answered.

The pool of relays is made when a relay is first needed, so a read of the ledger never loads sockets. Closing the store
ends every call that waits for relays with `StoreClosed`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sense_memory.errors import InvalidInput, LedgerError, NotSynced, StoreClosed
from sense_memory.ledger.relays import Remark
from sense_memory.limits import HOUR_SECONDS, SMALL_EVENT_BYTES
from sense_memory.memories.manifests import Manifests
from sense_memory.nostr import address
from sense_memory.nostr.relay_url import relay_url
from sense_memory.plain_text import printable


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from sense_memory.arguments import AddressMode
    from sense_memory.ledger import Ledger
    from sense_memory.memories.address_moves import AddressMoves, AddressPlan
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.sync.agenda import SyncPlan
    from sense_memory.relay.sync.audit import RelayAudit
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.pool import Pool
    from sense_memory.relay.sync.reports import FirstTrust, SyncReport


_T = TypeVar("_T")
_log: Final = logging.getLogger("sense_memory.store")


class Replication:
    """The relays of an open store.

    Args:
        signer: signs for the owner of the memory.
        ledger: the events to exchange with relays.
        reader: files the events that relays serve.
        writer: forgets orphaned embeddings.
        urls: the relays, checked.
        clock: seconds since 1970.
        timeouts: the timeouts of each connection; None for the defaults.
        offline_first: send even to relays that were never pulled completely.
        read_timeout: the longest time in seconds that `ask` waits; None to wait until every relay answered or failed.
        send_jitter: seconds, at most, that the background waits before it sends what was written.
        persona: gives the palace memories, which are made when they are first needed.
        has_persona: whether the palace memories were made.
        warn: called with a sentence about a relay that will refuse a memory.
    """

    def __init__(
        self,
        signer: Signer,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        urls: Sequence[str],
        *,
        clock: Callable[[], float],
        timeouts: Timeouts | None,
        offline_first: bool,
        read_timeout: float | None,
        send_jitter: float,
        persona: Callable[[], Persona],
        has_persona: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        self._signer, self._ledger, self._reader, self._writer = signer, ledger, reader, writer
        self._urls, self._clock, self._warn = urls, clock, warn
        self._timeouts, self._offline_first = timeouts, offline_first
        self._read_timeout, self._send_jitter = read_timeout, send_jitter
        self._persona, self._has_persona = persona, has_persona
        self.manifests = Manifests(ledger, reader, writer, clock)
        self._pool: Pool | None = None
        self._waiting: set[asyncio.Future[Any]] = set()  # calls that wait for relays
        self._is_over, self._has_pulled = False, False
        self._accesses_at = 0.0

    # ── The pool ────────────────────────────────────────────────────────────────────────

    def pool(self) -> Pool:
        """The pool of relays, which is made by the first call."""
        self._check_open()
        if self._pool is None:
            from sense_memory.relay.sync.pool import Pool

            self._pool = Pool(
                self._urls,
                self._ledger,
                self._signer,
                self.admit,
                clock=self._clock,
                timeouts=self._usual_timeouts(),
                offline_first=self._offline_first,
                act_on_pull=self._settle_after_pull,
                send_delay=lambda: random.SystemRandom().uniform(0.0, self._send_jitter),
            )
        return self._pool

    def listeners(self) -> Pool | None:
        """The pool, which can listen to relays; None if the store has no relays."""
        return self.pool() if self._urls else None

    @property
    def pool_in_use(self) -> Pool | None:
        """The pool; None if no relay was needed yet."""
        return self._pool

    def wake(self) -> None:
        """Start sending what was written, if relays are followed."""
        if self._pool is not None:
            self._pool.wake()

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` until relays have taken every queued event, and log what is still queued."""
        if self._pool is None:
            return
        if seconds > 0:
            await self._pool.drain(seconds)
        if self._is_over:  # another call closed the store meanwhile
            return
        left: dict[str, int] = {}
        with suppress(LedgerError):
            left = {url: self._ledger.outbox.counts(url).get("queued", 0) for url in self._urls}
        for url in filter(left.get, left):
            sentence = (
                "still queued for %s: %s. The ledger keeps queued events, and the next open store sends them"
            )
            _log.warning(sentence, url, f"{left[url]:,} event{'s' * (left[url] > 1)}")

    async def end(self) -> None:
        """End every call that waits for relays with StoreClosed."""
        self._is_over = True
        waiting = [task for task in self._waiting if task.cancel()]
        if waiting:
            await asyncio.wait(waiting)

    async def close(self) -> None:
        """Close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    # ── Sync ────────────────────────────────────────────────────────────────────────────

    async def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
        """Pull from every relay, then push. The caller adds the edits that lost, see `drafts.edit_notices`."""
        from sense_memory.relay.sync.agenda import RelayQuestion, SyncPlan

        is_first = not self._ledger.feed.cursor().seq
        fresh = [url for url in self._urls if not self._has_answered(url)]
        before = await self.manifests.sent()
        unfit = await self._publish_accesses()
        if retry_refused:
            await self._ledger.write(self._ledger.outbox.requeue_refused, self._urls, self._clock())
        report = await self._round(SyncPlan(RelayQuestion.SWEEP if full else RelayQuestion.COMPARE))
        if not self._urls:
            await self.settle_forks()
        report = await self._checked(report, fresh, before)
        trust = self._first_trust(report) if is_first and self._urls else None
        return replace(report, unfit=(*report.unfit, *unfit), is_first=is_first, trust=trust)

    async def _checked(
        self,
        report: SyncReport,
        fresh: Sequence[str],
        before: Mapping[int, Mapping[str, tuple[str, float]]],
    ) -> SyncReport:
        """A report with what manifests say about the memories here."""
        unanswered = [relay.url for relay in report.relays if not relay.complete]
        shown = [url for url in fresh if url not in unanswered]
        found = await self.manifests.check(unanswered=unanswered, fresh=shown, before=before)
        return replace(report, manifests=found)

    async def write_manifest(self) -> bool:
        """Sync, then write the manifest of this ledger and send it; returns whether there was anything new to say.

        Raises:
            NotSynced: a relay did not show everything, or something is missing here; nothing was written.
        """
        report = await self.sync()
        if not self._urls or not report.complete:
            raise NotSynced("all memories are", report.problems)
        written = await self.manifests.write()
        await self.flush()
        return written

    async def accept_losses(self) -> int:
        """As `StoreRelays.accept_losses`."""
        count = await self.manifests.accept_losses()
        self.wake()
        return count

    async def publish_relays(self) -> dict[str, str]:
        """As `StoreRelays.publish`."""
        from sense_memory.relay.sync.announcement import announced

        published = announced(self._urls, self._signer, clock=self._clock, timeouts=self._usual_timeouts())
        return await self._while_open(published)

    def _first_trust(self, report: SyncReport) -> FirstTrust:
        """How far the relays agreed that filled an empty ledger."""
        from sense_memory.relay.sync.reports import FirstTrust

        complete = [relay.url for relay in report.relays if relay.complete]
        shown = [self._ledger.manifests.shown_by(url) for url in complete]
        live = self._ledger.heads.live_ids().keys() & set().union(*shown)
        return FirstTrust(len(self._urls), len(complete), sum(live <= slots for slots in shown))

    async def flush(self) -> SyncReport:
        """Push; pull first if a relay was never pulled completely, unless `offline_first`.

        A ledger with a new device id may have been copied or set back, so it is pulled first too.
        """
        from sense_memory.relay.sync.agenda import RelayQuestion, SyncPlan

        unfit: list[str] = []
        if self._has_persona() or self._ledger.edits.accesses():
            unfit = await self._persona().publish_accesses()
        fresh = [url for url in self._urls if self._ledger.relays.state(url).completed_at is None]
        may_be_copy = self._ledger.edits.device_id.is_renewed and not self._has_pulled
        pulls = (bool(fresh) or may_be_copy) and not self._offline_first
        report = await self._round(SyncPlan(RelayQuestion.COMPARE if pulls else RelayQuestion.PUSH))
        return replace(report, unfit=tuple(unfit))

    async def holdings(self) -> list[Holding]:
        """What each relay holds, compared with the ledger."""
        from sense_memory.relay.sync.holdings import holdings

        timeouts = self._usual_timeouts()
        asked = holdings(self._urls, self._ledger, self._signer, clock=self._clock, timeouts=timeouts)
        return await self._while_open(asked)

    async def audit(self, *, full: bool, progress: Callable[[str, int], None] | None) -> list[RelayAudit]:
        """What each relay holds of what it should, and beside that; `full` reads everything, whatever a relay claims."""
        from sense_memory.relay.sync.audit import audit

        asked = audit(
            self._urls,
            self._ledger,
            self._signer,
            full=full,
            clock=self._clock,
            timeouts=self._usual_timeouts(),
            progress=progress or (lambda _url, _count: None),
        )
        return await self._while_open(asked)

    async def ask(self, what: str, found: Callable[[], object] = lambda: False) -> bool:
        """Wait for the first answers of relays, before a caller answers "nothing".

        Waits as `Pool.wait_for_first_answers` does, for `read_timeout` at most.

        Args:
            what: the beginning of the sentence of `NotSynced`, such as "memories are".
            found: whether the ledger holds what the caller looks for.

        Returns:
            Whether relays were asked; False if every relay has already answered completely once.

        Raises:
            NotSynced: nothing was found, and no relay ever answered completely.
        """
        return await self._ask(what, found, self._has_answered)

    async def ask_for_journal(self, what: str) -> bool:
        """As `ask`, before a caller answers that there is no journal entry: a relay that hides the journal does not count.

        Raises:
            NotSynced: no relay ever showed its journal entries.
        """
        return await self._ask(what, lambda: False, self._ledger.relays.has_shown_journal)

    def _has_answered(self, url: str) -> bool:
        return self._ledger.relays.state(url).completed_at is not None

    async def _ask(self, what: str, found: Callable[[], object], answered: Callable[[str], bool]) -> bool:
        if all(map(answered, self._urls)):
            return False
        pool = self.pool()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._read_timeout):
                await self._while_open(pool.wait_for_first_answers(found))
        if not found() and not any(map(answered, self._urls)):
            raise NotSynced(what, pool.problems or self._hiding())
        return True

    def _hiding(self) -> tuple[str, ...]:
        """One sentence for each relay that hides the journal, where this process has not asked it yet."""
        from sense_memory.relay.sync.walk import HIDDEN

        hides, relays = Remark.HIDES_JOURNAL, self._ledger.relays
        return tuple(f"{url}: {HIDDEN}" for url in self._urls if relays.has_remark(url, hides))

    def incomplete(self, without: object) -> Callable[[], Coroutine[Any, Any, list[str]]]:
        """A function that syncs, and returns each relay that did not answer completely, with the reason.

        Args:
            without: the URLs of relays that need not answer.

        Raises:
            InvalidInput: `without` names no relay of this store.
        """
        left_out = _relay_urls(without)
        if unknown := left_out - set(self._urls):
            raise InvalidInput(f"this store does not use {', '.join(sorted(unknown))}")

        async def ask() -> list[str]:
            report = await self.sync()
            return [
                f"{relay.url} ({relay.problem or ', '.join(relay.pulled.reasons)})"
                for relay in report.relays
                if not relay.complete and relay.url not in left_out
            ]

        return ask

    def drop(self, url: str) -> int:
        """Discard the ledger's state for a relay that this store does not use; returns how many events were queued.

        Raises:
            InvalidRelayUrl: `url` is not the URL of a relay.
            InvalidInput: this store uses the relay.
        """
        relay = relay_url(url, allow_plain=True)
        if relay in self._urls:
            raise InvalidInput(
                f"this store uses {relay}; open a store without this relay first. Nothing was changed."
            )
        return self._ledger.relays.remove(relay)

    async def _round(self, plan: SyncPlan) -> SyncReport:
        from sense_memory.relay.sync.reports import SyncReport

        await self._reader.file_quarantined()
        if not self._urls:
            return SyncReport()
        report = await self._while_open(self.pool().sync(plan))
        shows_all = all(relay.shows_all_but_hidden for relay in report.relays)
        self._has_pulled |= plan.question.pulls and shows_all
        return report

    async def _while_open(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await work with relays; raises StoreClosed if the store closes meanwhile."""
        task = asyncio.ensure_future(work)
        self._waiting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_over and not _is_cancelled():
                raise StoreClosed from None
            raise
        finally:
            self._waiting.discard(task)

    def _check_open(self) -> None:
        if self._is_over:
            raise StoreClosed

    def _usual_timeouts(self) -> Timeouts:
        from sense_memory.relay.client.actions import Timeouts

        return self._timeouts or Timeouts()

    # ── Events from relays ──────────────────────────────────────────────────────────────

    async def admit(self, events: Sequence[Event], relay: str | None) -> Mapping[str, int]:
        """File the events that a relay served; returns counts by what became of them.

        The accesses of this device are saved first, so that a pruning by another device does not win over them.
        """
        if self._has_persona():
            await self._persona().palace.try_save_accesses()
        counts = await self._reader.file_served(events, relay)
        await self.settle_forks(complete=False)
        return counts

    async def _settle_after_pull(self) -> bool:
        """Settle forks, publish accesses and write the manifest, after every reachable relay has shown everything.

        A recall sends nothing by itself: its access is published here, at most once an hour. The manifest of this ledger
        is written only if no relay is left out. Returns whether anything was written.
        """
        self._check_open()
        before = self._ledger.feed.cursor().seq
        await self.settle_forks()
        await self.address_moves().tidy(self._reader.addresses.mode)
        now = self._clock()
        if not 0 <= now - self._accesses_at < HOUR_SECONDS:
            self._accesses_at = now
            await self._publish_accesses()
            await self.manifests.check()
        if self._pool is not None and self._pool.shows_all:
            await self.manifests.write_if_due()
        self._check_open()
        return self._ledger.feed.cursor().seq != before

    async def settle_forks(self, *, complete: bool = True) -> None:
        """Merge versions that devices wrote without knowing of each other, and forget embeddings of gone memories.

        Args:
            complete: whether every reachable relay has shown everything; if not, only forgotten copies are removed. A
                relay that cannot be reached, or never shows everything, is not waited for.
        """
        self._check_open()
        edits = self._ledger.edits
        if edits.forked_slots() if complete else edits.forked_copies():
            await self._persona().settle_forks(complete=complete)
        if orphans := self._ledger.vectors.orphans():
            from sense_memory.memories.shared_embeddings import forget

            await forget(self._writer, [slot.removeprefix(address.PREFIX) for slot in orphans])

    def address_moves(self) -> AddressMoves:
        """Moves records between addresses."""
        from sense_memory.memories.address_moves import AddressMoves

        return AddressMoves(self._ledger, self._reader, self._writer, self._urls)

    async def switch_addresses(
        self, mode: AddressMode, without: Collection[str], progress: Callable[[str, int], None]
    ) -> AddressPlan:
        """Move every record to its address in a mode, and vacate what relays have shown there; returns what is left.

        From now on this store writes in this mode.
        """
        moves = self.address_moves()
        await self.sync()
        self._reader.addresses.mode = mode
        await moves.copy_all(mode, partial(progress, "written"))
        for _ in range(2 if self._urls else 0):  # the first sends the copies, the second reads them back
            await self.sync()
        if await moves.vacate(mode, partial(progress, "removed"), without=without):
            await self.sync()
        return await moves.plan(mode, without=without)

    async def _publish_accesses(self) -> list[str]:
        """Publish the accesses that are due; returns the paths of memories whose accesses do not fit an event."""
        self._check_open()
        if not self._has_persona() and not self._ledger.edits.accesses():
            return []
        return await self._persona().publish_accesses(due=True)

    def warn_of_limits(self, record: Record, sealed: SealedRecord) -> None:
        """Warn of relays whose NIP-11 documents say that they will refuse an event that was just written."""
        size = sealed.event_bytes()
        if self._pool is None or size < SMALL_EVENT_BYTES:
            return
        for url, limit in self._pool.broken_limits(size, len(sealed.content)).items():
            what = record.type.traits.described or record.path.removeprefix(address.PERSONA)
            self._warn(
                f"{url} will refuse {printable(what)}: the relay accepts {limit}. "
                "The event is stored here and sent to the other relays."
            )


def _is_cancelled() -> bool:
    """Whether the current task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _relay_urls(given: object) -> set[str]:
    """The relays named by one URL or by several, checked."""
    urls = (given,) if isinstance(given, str) else given
    if not isinstance(urls, Iterable):
        raise InvalidInput("relays must be given by their URLs")
    return {relay_url(url, allow_plain=True) for url in urls}
