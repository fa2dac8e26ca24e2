"""One pull of one relay, step by step as `agenda` says: by comparison, by walks, or on from where a walk was cut off.

What is guaranteed: a pull is called complete only if the relay itself said, for every page or comparison, that there is
no more, and then kept silent. Only a complete pull moves the cursor, and the cursor never passes the clock or the newest
verified event. Events that the relay had accepted and did not show are queued for it again.

Why it is safe: pages are filed before the pull ends, so no cursor ever passes an event that was not stored. A pull that
was cut off leaves its position in the ledger and goes on from there for an hour; after that it begins anew.

What it costs: three walks at once (memories, deletions, journal), each of as many requests as the relay has pages, plus
one request each to see that nothing older is left. A comparison costs a few hundred bytes where nothing differs.

It carries verified events whose content it cannot read.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sense_memory.errors import RelayError
from sense_memory.ledger.relays import Remark
from sense_memory.limits import (
    CURSOR_OVERLAP_SECONDS,
    MAX_FUTURE_SECONDS,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.nip11 import page_size
from sense_memory.relay.client.page import LATE, EventPage
from sense_memory.relay.sync.agenda import (
    PullState,
    first_step,
    may_compare_after,
    step_after_losses,
    step_after_resuming,
)
from sense_memory.relay.sync.reconcile import Reconciler
from sense_memory.relay.sync.walk import Position, PullResult, pull


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.relays import PullProgress
    from sense_memory.nostr.event import Event
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.sync.agenda import PullStep, RelayQuestion
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.walk import Fetch, FileEvents


class _BackgroundFiling:
    """Files each page while the relay looks for the next page; one page at a time.

    Args:
        file_events: files verified events.
    """

    def __init__(self, file_events: FileEvents) -> None:
        self._file_events = file_events
        self._task: asyncio.Task[None] | None = None

    async def file_page(self, events: Sequence[Event]) -> None:
        """Begin to file a page, after the page before is filed."""
        await self.done()
        self._task = asyncio.create_task(self._file(events))

    async def done(self) -> None:
        """Wait until every page is filed, and raise what filing raised."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Stop filing, so that no task is left behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _file(self, events: Sequence[Event]) -> None:
        await self._file_events(events)


async def filed(fetch: Fetch, file_events: FileEvents, *wanted: Any, **options: Any) -> PullResult:
    """`pull`, but each page is filed while the next is fetched; all pages are filed when this returns."""
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
        came_further: whether the last pull, though cut off, achieved something that the next pull builds on.
        repeated: how many events the last pull fetched, known or not, because they are dated after the cursor.
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
        question: RelayQuestion,
        as_of: float,
    ) -> PullResult:
        """Make a pull, step by step as `agenda` says, and remember what the pull shows of the relay.

        Args:
            connection: an open connection to the relay.
            file_events: where verified events go, page by page.
            question: what to ask for.
            as_of: what came to the relay until then has to be shown, in seconds since 1970.
        """
        self.came_further, self.repeated = False, 0
        outbox, relays = self._ledger.outbox, self._ledger.relays
        state = self._state()
        step = first_step(question, state)
        if step.only_newer:
            return await self._pull_newer(connection, step, file_events)
        found = await self._make(connection, step, file_events, as_of)
        more = step_after_losses(step, self._state(), missing=found.missing, saw_all=self._saw_everything)
        if more is not None:
            rest = await self._make(connection, more, file_events, as_of)
            found = replace(found + rest, missing=max(found.missing, rest.missing))
        if relays.has_remark(self._url, Remark.DROPS_DELETIONS) and outbox.keeps_deletions(self._url):
            await self._ledger.write(relays.remove_remark, self._url, Remark.DROPS_DELETIONS)
        if found.missing or state.is_forgetful:
            await self._ledger.write(self._remark_on, found, heals=step.heals)
        if found.complete:
            await self._ledger.write_if_due(relays.remove_remark, self._url, Remark.INCOMPLETE)
        elif not (self.came_further or found.refused):
            await self._ledger.write(relays.add_remark, self._url, Remark.INCOMPLETE, self._clock())
        return found

    def _state(self) -> PullState:
        """What is known of the relay now."""
        relays = self._ledger.relays
        known, now = relays.state(self._url), self._clock()
        return PullState(
            now,
            cursor=known.cursor,
            swept_at=known.swept_at,
            newest_seen=self._newest,
            may_heal=known.may_heal(now),
            serves_deleted=relays.has_remark(self._url, Remark.UNDELETED),
            is_forgetful=relays.has_remark(self._url, Remark.FORGETFUL),
            unfinished=relays.unfinished_pull(self._url),
        )

    async def _pull_newer(
        self, connection: RelayConnection, step: PullStep, file_events: FileEvents
    ) -> PullResult:
        """Ask only for what is newer than the newest event seen.

        The next whole pull stays the same: no cursor moves, missing events are not looked for, and a pull that is cut
        off is not resumed.
        """
        positions = {kind: Position(*place) for kind, place in step.progress.walks.items()}
        walks = await self._walks(connection, step.progress, positions, file_events, wait_after_eose=False)
        found = sum(walks.values(), PullResult())
        if found.complete:
            self._see(step.progress.begun_at, found.newest)
        return found

    def _see(self, begun: float, newest: int) -> None:
        """Note that a pull, begun at `begun`, showed everything up to the second `newest`."""
        self._newest = max(self._newest, min(int(begun), newest))

    def _remark_on(self, found: PullResult, *, heals: bool) -> None:
        """Remember whether the relay lost accepted events, until the relay has shown everything."""
        outbox, relays, now = self._ledger.outbox, self._ledger.relays, self._clock()
        if found.missing:
            relays.add_remark(self._url, Remark.FORGETFUL, now)
            if heals:
                relays.record_healing(self._url, now)
        elif found.complete and self._saw_everything and not outbox.has_lost(self._url):
            relays.remove_remark(self._url, Remark.FORGETFUL)

    async def _make(
        self, connection: RelayConnection, step: PullStep, file_events: FileEvents, as_of: float
    ) -> PullResult:
        """Make one step; `_saw_everything` then says whether it was of everything."""
        if step.compares:
            compared = await self._compare(connection, step, file_events, since=step.compare_since)
            if compared is not None:
                return compared
            if not connection.is_open:
                self.came_further = not connection.misbehaving  # the next try is a walk
                return PullResult((connection.problem or "",))
        total = await self._walk(connection, step, file_events)
        self.repeated = total.received if step.progress.since is not None else 0
        if may_compare_after(total.reasons):
            return await self._compare(connection, step, file_events) or total
        if total.complete and (more := step_after_resuming(step, self._state(), as_of)):
            saw_everything = self._saw_everything
            total += await self._walk(connection, more, file_events)
            self._saw_everything = saw_everything
        return total

    async def _compare(
        self,
        connection: RelayConnection,
        step: PullStep,
        file_events: FileEvents,
        *,
        since: int | None = None,
    ) -> PullResult | None:
        """A complete pull by comparison, or None."""
        pulled = await self._reconciler.pull(
            connection, fetching(connection), file_events, since=since, every=step.heal_seconds
        )
        if pulled is not None:
            begun = step.progress.begun_at
            await self._ledger.write(self._move_cursor, begun, pulled.newest, swept=since is None)
        return pulled

    async def _walk(self, connection: RelayConnection, step: PullStep, file_events: FileEvents) -> PullResult:
        """Walk again until no event arrives after the relay's EOSE.

        A single late event may have been written at that very moment. After repeated or several late events we listen
        to the relay for longer.
        """
        relays, progress = self._ledger.relays, step.progress
        wait_after_eose = self._strike(connection, afresh=True) > 1 or relays.has_remark(
            self._url, Remark.LATE
        )
        while True:
            positions = {kind: Position(*place) for kind, place in progress.walks.items()}
            found = await self._walks(
                connection, progress, positions, file_events, wait_after_eose=wait_after_eose
            )
            before, strikes = self._strikes, self._strike(connection)
            if wait_after_eose or strikes == before:
                break
            wait_after_eose = strikes > 1
        total = sum(found.values(), PullResult(newest=progress.newest))
        if LATE in total.reasons:
            await self._ledger.write(relays.add_remark, self._url, Remark.LATE, self._clock())
        if total.complete:
            await self._ledger.write_if_due(relays.remove_remark, self._url, Remark.LATE)
            missing = await self._ledger.write(self._completed, progress, total.newest, step.heal_seconds)
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
        wait_after_eose: bool,
    ) -> dict[int, PullResult]:
        """The walks of a pull, by kind, all at once; each moves its position."""
        fetch, size = fetching(connection, wait_after_eose=wait_after_eose), page_size(connection.information)
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
        """Count a strike, or two, if a relay sent events after the EOSE of their answer.

        Args:
            connection: to the relay.
            afresh: whether to forget the strikes if the relay sent no such events since the last call.
        """
        known, before = self._late
        count = connection.counts.after_eose - (before if connection is known else 0)
        self._late = connection, connection.counts.after_eose
        if afresh and not count:
            self._strikes = 0
        self._strikes += min(count, 2)
        return self._strikes

    def _completed(self, progress: PullProgress, newest: int, every: float) -> int:
        """Note that everything asked for was shown: move the cursor, and queue the missing events."""
        outbox, swept = self._ledger.outbox, progress.since is None
        lost = outbox.lost_events(self._url, progress.begun_at, progress.since or 0)
        if lost:  # queued first: a crash in between costs another sweep, and never what was found
            outbox.requeue_lost(self._url, lost, progress.begun_at, self._clock(), every=every)
        self._move_cursor(progress.begun_at, newest, swept=swept)
        if swept:
            self._ledger.relays.remove_remark(self._url, Remark.UNDELETED, progress.begun_at)
        return len(lost)

    def _move_cursor(self, begun: float, newest: int, *, swept: bool) -> None:
        """Move the cursor, never beyond the clock or the newest verified event, and never back."""
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
        """Remember where a pull was cut off, if the pull came further than before and nothing else was wrong."""
        walks = {kind: (position.second, position.largest, position.edge) for kind, position in left.items()}
        moved = walks.keys() != progress.walks.keys() or any(
            second != progress.walks[kind][0] for kind, (second, _, _) in walks.items()
        )
        self.came_further = moved and total.reasons == (connection.problem,) and not connection.misbehaving
        rest = replace(progress, newest=total.newest, walks=walks) if self.came_further else None
        self._ledger.relays.save_unfinished_pull(self._url, rest)

    def _wanted(self, progress: PullProgress, kind: int) -> tuple[Filter, Callable[[], Sequence[str]]]:
        """The filter of a walk, and the d-tags to ask for if a second holds more than a page."""
        mine = (self._author,)
        tags = {"p": mine} if kind == KIND_DIRECT_MESSAGE else {}
        known_tags = self._ledger.slots if kind == KIND_APP_DATA else tuple
        return Filter(authors=mine, kinds=(kind,), tags=tags, since=progress.since), known_tags


def fetching(connection: RelayConnection, *, wait_after_eose: bool = False) -> Fetch:
    """`fetch` on a connection that may be gone: what is not answered is an incomplete page like others."""

    async def fetch(filters: Sequence[Filter]) -> EventPage:
        try:
            return await connection.fetch(filters, wait_after_eose=wait_after_eose)
        except RelayError as error:
            return EventPage((), complete=False, reason=error.problem, outcome=RelayOutcome.RETRY)

    return fetch
