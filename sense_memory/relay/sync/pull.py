"""The whole pull of one relay: by comparison, by walks, or on from where a walk was cut off.

Decides how far to go back, whether the relay's word that there is no more can be taken, and remembers what
there is to say about how it behaved. Carries opaque verified events.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sense_memory.errors import RelayError
from sense_memory.ledger.outbox import LOST
from sense_memory.ledger.relays import PullProgress, Remark
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    CURSOR_OVERLAP_SECONDS,
    HEAL_SECONDS,
    MAX_FUTURE_SECONDS,
    RESUME_SECONDS,
    SWEEP_SECONDS,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.nip11 import page_size
from sense_memory.relay.client.page import LATE, EventPage
from sense_memory.relay.sync.reconcile import Reconciler
from sense_memory.relay.sync.walk import CROWDED, GAP, Position, PullResult, pull


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.event import Event
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.walk import Fetch, FileEvents

_KINDS = (KIND_DELETION, KIND_APP_DATA, KIND_DIRECT_MESSAGE)  # a walk each
_NOWHERE = dict.fromkeys(_KINDS, (None, 0, ""))  # where each walk begins


class _BackgroundFiling:
    """Files each page while the relay looks for the next one; one page at a time.

    Args:
        file_events: where verified events go.
    """

    def __init__(self, file_events: FileEvents) -> None:
        self._file_events = file_events
        self._task: asyncio.Task[None] | None = None

    async def file_page(self, events: Sequence[Event]) -> None:
        """Begin with a page, once the one before is filed."""
        await self.done()
        self._task = asyncio.create_task(self._file(events))

    async def done(self) -> None:
        """Wait until everything is filed, and raise what filing raised: only now has it been taken."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Leave no page behind that is still being filed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _file(self, events: Sequence[Event]) -> None:
        await self._file_events(events)


async def filed(fetch: Fetch, file_events: FileEvents, *wanted: Any, **options: Any) -> PullResult:
    """`pull`, with the pages filed while the next are on their way; all of them are when it returns."""
    filing = _BackgroundFiling(file_events)
    try:
        found = await pull(fetch, filing.file_page, *wanted, **options)
        await filing.done()
    finally:
        await filing.close()
    return found


class Puller:
    """Pulls one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: its public key, 64 hex digits.
        inventories: what is compared with relays, shared by those of a store.
        clock: seconds since 1970.

    Attributes:
        came_further: whether the last pull, though it was cut off, achieved something that the next builds on.
        repeated: how many events it fetched, known or not, because they are dated after the cursor.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        author: str,
        *,
        inventories: InventoryCache,
        clock: Callable[[], float],
    ) -> None:
        self._url, self._ledger, self._author, self._clock = url, ledger, author, clock
        self._reconciler = Reconciler(url, ledger, author, inventories, clock)
        self.came_further, self.repeated = False, 0
        self._saw_everything = False  # whether the last pull was of all that the relay holds
        self._newest = 0  # the latest second of which it showed all; nothing later was there
        self._late: tuple[RelayConnection | None, int] = None, 0
        self._strikes = 0

    async def pull(
        self,
        connection: RelayConnection,
        file_events: FileEvents,
        *,
        compare: bool,
        sweep: bool,
        as_of: float,
    ) -> PullResult:
        """Compare, or walk, or go on with a walk that was cut off; where a walk finds a crowd, compare after all.

        Args:
            connection: an open connection to the relay.
            file_events: where verified events go, page by page.
            compare: prefer a comparison of everything (NIP-77) to a walk over what is new.
            sweep: walk over everything, where there is no comparison; somebody asks for it himself, so what the
                relay lost is sent again even if it was sent a moment ago.
            as_of: what came to the relay until then has to be shown, in seconds since 1970.
        """
        self.came_further, self.repeated = False, 0
        outbox, relays = self._ledger.outbox, self._ledger.relays
        heals = sweep or relays.state(self._url).may_heal(self._clock())
        every = 0 if heals else HEAL_SECONDS
        # What a relay serves though it was deleted shows in a walk only: a comparison knows it already.
        serves_deleted = relays.has_remark(self._url, Remark.UNDELETED)
        is_forgetful = relays.has_remark(self._url, Remark.FORGETFUL)
        looks_again = (compare and serves_deleted) or ((compare or heals) and is_forgetful)
        progress = self._next_progress(sweep=sweep or looks_again)
        may_compare = progress.walks == _NOWHERE and not serves_deleted
        since = None if compare else progress.since
        found = await self._pull(
            connection, progress, file_events, every, as_of, may_compare=may_compare, since=since
        )
        if found.missing and heals and not self._saw_everything:
            # What is gone of the newest may be all of it.
            whole = self._next_progress(sweep=True)
            rest = await self._pull(
                connection, whole, file_events, every, as_of, may_compare=not serves_deleted
            )
            found = replace(found + rest, missing=max(found.missing, rest.missing))
        if relays.has_remark(self._url, Remark.DROPS_DELETIONS) and outbox.keeps_deletions(self._url):
            await self._ledger.write(relays.remove_remark, self._url, Remark.DROPS_DELETIONS)
        if found.missing or is_forgetful:
            await self._ledger.write(self._remark_on, found, heals=heals)
        if found.complete:
            await self._ledger.write_if_due(relays.remove_remark, self._url, Remark.INCOMPLETE)
        elif not (self.came_further or found.refused):
            await self._ledger.write(relays.add_remark, self._url, Remark.INCOMPLETE, self._clock())
        return found

    async def pull_newer(self, connection: RelayConnection, file_events: FileEvents) -> PullResult | None:
        """Ask only for what is dated after the newest that was seen; None where a whole pull has to be made.

        That takes nothing from the next whole pull: no cursor moves, nothing is looked for that went missing, and
        what is cut off is not resumed.
        """
        self.came_further, self.repeated = False, 0
        progress = self._next_progress(sweep=False)
        is_known = 0 < self._newest <= progress.begun_at  # not where the clock was set back
        if not is_known or progress.since is None or progress.walks != _NOWHERE:
            return None
        newer = replace(progress, since=self._newest + 1)
        positions = {kind: Position(*place) for kind, place in newer.walks.items()}
        walks = await self._walks(connection, newer, positions, file_events, patient=False)
        found = sum(walks.values(), PullResult())
        if found.complete:
            self._see(progress.begun_at, found.newest)
        return found

    def _see(self, begun: float, newest: int) -> None:
        """Everything up to a second was shown in a pull that began then."""
        self._newest = max(self._newest, min(int(begun), newest))

    def _remark_on(self, found: PullResult, *, heals: bool) -> None:
        """Remember whether something was gone that the relay had accepted, until it has shown everything."""
        outbox, relays, now = self._ledger.outbox, self._ledger.relays, self._clock()
        if found.missing:
            relays.add_remark(self._url, Remark.FORGETFUL, now)
            if heals:
                relays.record_healing(self._url, now)
        elif found.complete and self._saw_everything and LOST not in outbox.reasons(self._url):
            relays.remove_remark(self._url, Remark.FORGETFUL)

    async def _pull(
        self,
        connection: RelayConnection,
        progress: PullProgress,
        file_events: FileEvents,
        every: float,
        as_of: float,
        *,
        may_compare: bool,
        since: int | None = None,
    ) -> PullResult:
        """Compare what is dated since a second, or walk; `_saw_everything` tells which of it that was."""
        if may_compare:
            compared = await self._compare(connection, progress, file_events, every, since=since)
            if compared is not None:
                return compared
            if not connection.is_open:
                self.came_further = not connection.misbehaving  # the next try is a walk
                return PullResult((connection.problem or "",))
        total = await self._walk(connection, progress, file_events, every)
        self.repeated = total.received if progress.since is not None else 0
        if total.reasons and {CROWDED, GAP}.issuperset(total.reasons):
            return await self._compare(connection, progress, file_events, every) or total
        if total.complete and as_of - progress.begun_at > BACKGROUND_SECONDS:
            # It goes on with what another run began: what came meanwhile lies above the place.
            saw_everything = self._saw_everything
            total += await self._walk(connection, self._next_progress(sweep=False), file_events, every)
            self._saw_everything = saw_everything
        return total

    async def _compare(
        self,
        connection: RelayConnection,
        progress: PullProgress,
        file_events: FileEvents,
        every: float,
        *,
        since: int | None = None,
    ) -> PullResult | None:
        """A complete pull by comparison, or None."""
        fetch = fetching(connection)
        pulled = await self._reconciler.pull(connection, fetch, file_events, since=since, every=every)
        if pulled is not None:
            await self._ledger.write(self._move_cursor, progress.begun_at, pulled.newest, swept=since is None)
        return pulled

    async def _walk(
        self, connection: RelayConnection, progress: PullProgress, file_events: FileEvents, every: float
    ) -> PullResult:
        """Walk until no event came after the relay had said that there are no more.

        One may have been written at that very moment. A relay that does it again, or sends several, is
        listened to for longer.
        """
        relays = self._ledger.relays
        patient = self._strike(connection, afresh=True) > 1 or relays.has_remark(self._url, Remark.LATE)
        while True:
            positions = {kind: Position(*place) for kind, place in progress.walks.items()}
            found = await self._walks(connection, progress, positions, file_events, patient=patient)
            before, strikes = self._strikes, self._strike(connection)
            if patient or strikes == before:
                break
            patient = strikes > 1
        total = sum(found.values(), PullResult(newest=progress.newest))
        if LATE in total.reasons:
            await self._ledger.write(relays.add_remark, self._url, Remark.LATE, self._clock())
        if total.complete:
            await self._ledger.write_if_due(relays.remove_remark, self._url, Remark.LATE)
            missing = await self._ledger.write(self._completed, progress, total.newest, every)
            return replace(total, missing=missing)
        left = {kind: positions[kind] for kind, walk in found.items() if not walk.complete}
        await self._ledger.write(self._leave_off, progress, total, left, connection)
        return total

    async def _walks(
        self,
        connection: RelayConnection,
        progress: PullProgress,
        positions: Mapping[int, Position],
        file_events: FileEvents,
        *,
        patient: bool,
    ) -> dict[int, PullResult]:
        """The walks of a pull, by kind, all at once; each moves its position."""
        fetch, size = fetching(connection, patient=patient), page_size(connection.information)
        horizon = self._clock() + MAX_FUTURE_SECONDS
        try:
            async with asyncio.TaskGroup() as group:
                walks = {
                    kind: group.create_task(
                        filed(
                            fetch,
                            file_events,
                            *self._wanted(progress, kind),
                            page_size=size,
                            position=position,
                            horizon=horizon,
                        )
                    )
                    for kind, position in positions.items()
                }
        except BaseExceptionGroup as failed:  # the ledger's failure ends all the walks
            raise failed.exceptions[0] from None
        return {kind: walk.result() for kind, walk in walks.items()}

    def _strike(self, connection: RelayConnection, *, afresh: bool = False) -> int:
        """Count a strike, or two, where a relay sent events of an answer that it had finished.

        Args:
            connection: to the relay.
            afresh: forget the strikes where it did nothing of that since this was asked last.
        """
        known, before = self._late
        count = connection.counts.after_eose - (before if connection is known else 0)
        self._late = connection, connection.counts.after_eose
        if afresh and not count:
            self._strikes = 0
        self._strikes += min(count, 2)
        return self._strikes

    def _next_progress(self, *, sweep: bool) -> PullProgress:
        """The pull to make: the one that was cut off a moment ago, or a new one."""
        begun = self._clock()
        left = self._ledger.relays.unfinished_pull(self._url)
        if (
            left is not None
            and 0 <= begun - left.begun_at < RESUME_SECONDS
            and (left.since is None or not sweep)
        ):
            return left
        state = self._ledger.relays.state(self._url)
        swept = (
            sweep or state.cursor is None or state.swept_at is None or begun - state.swept_at > SWEEP_SECONDS
        )
        return PullProgress(begun, None if swept else state.cursor, 0, _NOWHERE)

    def _completed(self, progress: PullProgress, newest: int, every: float) -> int:
        """Everything that was asked for was shown: the cursor moves, and what went missing is queued."""
        outbox, swept = self._ledger.outbox, progress.since is None
        lost = outbox.lost_events(self._url, progress.begun_at, progress.since or 0)
        if lost:  # queued first: a crash in between costs another sweep, and never what was found
            outbox.requeue_lost(self._url, lost, progress.begun_at, self._clock(), every=every)
        self._move_cursor(progress.begun_at, newest, swept=swept)
        if swept:
            self._ledger.relays.remove_remark(self._url, Remark.UNDELETED, progress.begun_at)
        return len(lost)

    def _move_cursor(self, begun: float, newest: int, *, swept: bool) -> None:
        """Never beyond the clock or what was verified, and never back."""
        relays, self._saw_everything = self._ledger.relays, swept
        cursor = relays.state(self._url).cursor
        self._see(begun, newest)
        if newest:
            cursor = max(min(int(begun), newest) - CURSOR_OVERLAP_SECONDS, cursor or 0)
        relays.record_pull(self._url, cursor, self._clock(), swept=swept)

    def _leave_off(
        self,
        progress: PullProgress,
        total: PullResult,
        left: Mapping[int, Position],
        connection: RelayConnection,
    ) -> None:
        """Remember where a pull was cut off, if it came further than before and nothing else was wrong."""
        walks = {kind: (position.second, position.largest, position.edge) for kind, position in left.items()}
        moved = walks.keys() != progress.walks.keys() or any(
            second != progress.walks[kind][0] for kind, (second, _, _) in walks.items()
        )
        self.came_further = moved and total.reasons == (connection.problem,) and not connection.misbehaving
        rest = replace(progress, newest=total.newest, walks=walks) if self.came_further else None
        self._ledger.relays.save_unfinished_pull(self._url, rest)

    def _wanted(self, progress: PullProgress, kind: int) -> tuple[Filter, Callable[[], Sequence[str]]]:
        """What a walk asks for, and the d-tags to ask for where a second holds more than a page."""
        mine = (self._author,)
        tags = {"p": mine} if kind == KIND_DIRECT_MESSAGE else {}
        known_tags = self._ledger.slots if kind == KIND_APP_DATA else tuple
        return Filter(authors=mine, kinds=(kind,), tags=tags, since=progress.since), known_tags


def fetching(connection: RelayConnection, *, patient: bool = False) -> Fetch:
    """`fetch` on a connection that may be gone: what is not answered is an incomplete page like others."""

    async def fetch(filters: Sequence[Filter]) -> EventPage:
        try:
            return await connection.fetch(filters, patient=patient)
        except RelayError as error:
            return EventPage((), complete=False, reason=error.problem, outcome=RelayOutcome.RETRY)

    return fetch
