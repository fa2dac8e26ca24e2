"""One pull of one relay, in the steps that `agenda` decides: a comparison, walks, or walks resumed after a cut-off.

What is guaranteed: a pull is called complete only if the relay itself ended every page or comparison, and sent no event
after that. Only a complete pull moves the cursor, and the cursor never passes the clock or the newest verified event.
An event that the relay had accepted and did not show is queued for the relay again. A relay may hide the journal from us:
then the pull is complete but for the journal, no entry counts as lost, and all of the journal is asked for again, however
old its entries are, until the relay shows it. If it loses other events, the entries that it accepted are sent again too.

Why it is safe: every page is filed before the pull ends, so the cursor never passes an event that was not filed. A pull
that is cut off after some progress saves its positions in the ledger, and the next pull within an hour resumes there.

What it costs: three walks at once (memories, deletions, journal), each with one request per page, and one more to see
that nothing older is left; an event after EOSE repeats the walks. A comparison costs a few hundred bytes if nothing
differs, and one request if something must be proved; if the proof fails, everything is walked. What is concluded from the
answers stands in `conclusions`.

This module handles verified events and cannot read their content.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sense_memory.errors import RelayError
from sense_memory.ledger.relays import Remark
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE, KINDS
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.nip11 import page_size
from sense_memory.relay.client.page import EventPage
from sense_memory.relay.sync import conclusions
from sense_memory.relay.sync.agenda import (
    PullState,
    first_step,
    may_compare_after,
    step_after_blind_comparison,
    step_after_false_comparison,
    step_after_losses,
    step_after_resuming,
)
from sense_memory.relay.sync.reconcile import Reconciler, kinds_filter
from sense_memory.relay.sync.walk import HIDDEN, Position, PullResult, walk_filter


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.relays import PullProgress
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.sync.agenda import PullStep, RelayQuestion
    from sense_memory.relay.sync.conclusions import RemarkChanges
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.walk import Fetch, FileEvents


class _BackgroundFiling:
    """Files one page at a time in a task, while the next page is fetched.

    Args:
        file_events: files verified events.
    """

    def __init__(self, file_events: FileEvents) -> None:
        self._file_events = file_events
        self._task: asyncio.Task[None] | None = None

    async def file_page(self, events: Sequence[Event]) -> None:
        """Begin to file a page, once the page before is filed."""
        await self.done()
        self._task = asyncio.create_task(self._file(events))

    async def done(self) -> None:
        """Wait until every page is filed; raises any exception of `file_events`."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Cancel the filing and wait for its task to end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _file(self, events: Sequence[Event]) -> None:
        await self._file_events(events)


async def walk_and_file(fetch: Fetch, file_events: FileEvents, *wanted: Any, **options: Any) -> PullResult:
    """`walk_filter`, but each page is filed while the next is fetched; all pages are filed when this returns."""
    filing = _BackgroundFiling(file_events)
    try:
        found = await walk_filter(fetch, filing.file_page, *wanted, **options)
        await filing.done()
    finally:
        await filing.close()
    return found


class Puller:
    """Pulls one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: the ledger's public key, 64 hex digits.
        inventories: the compared inventories, shared by all relays of a store.
        clock: seconds since 1970.

    Attributes:
        made_progress: whether the next pull can build on the last pull although it was cut off.
        received_in_overlap: how many events, known or new, the walks of the last pull from the cursor fetched.
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
        self.made_progress, self.received_in_overlap = False, 0
        self._saw_everything = False  # whether the last step covered all events of the relay
        self._newest = 0  # the latest second up to which all events were seen
        self._late_seen: tuple[RelayConnection | None, int] = None, 0  # events after EOSE, counted so far
        self._late_score = 0  # see `_count_late`

    async def pull(
        self,
        connection: RelayConnection,
        file_events: FileEvents,
        question: RelayQuestion,
        as_of: float,
    ) -> PullResult:
        """Pull in the steps that `agenda` decides, and record in the ledger how the relay behaved.

        Args:
            connection: an open connection to the relay.
            file_events: files verified events, page by page.
            question: what to ask for.
            as_of: the relay must show everything that had reached it by this time, seconds since 1970.
        """
        self.made_progress, self.received_in_overlap = False, 0
        step = first_step(question, self._state())
        if step.only_newer:
            return await self._pull_newer(connection, step, file_events)
        found = await self._run_step(connection, step, file_events, as_of)
        lost = found.missing or not await self._serves_confirmed(connection, step, found)
        more = step_after_losses(step, self._state(), lost=bool(lost), saw_all=self._saw_everything)
        if more is not None:
            rest = await self._run_step(connection, more, file_events, as_of)
            found = replace(found + rest, missing=max(found.missing, rest.missing))
        if found.missing and HIDDEN in found.reasons:
            await self._ledger.write(self._send_journal_again, step)
        await self._ledger.write_if_due(self._record_behaviour, found, heals=step.heals)
        return found

    def _send_journal_again(self, step: PullStep) -> None:
        """Queue the entries that the relay accepted, because it lost other events and hides whether it lost entries."""
        outbox, url = self._ledger.outbox, self._url
        entries = outbox.lost_events(url, step.progress.begun_at, kinds=[KIND_DIRECT_MESSAGE])
        outbox.requeue_unseen(url, entries, self._clock(), every=step.heal_seconds)

    async def _serves_confirmed(self, connection: RelayConnection, step: PullStep, found: PullResult) -> bool:
        """Whether the relay passes the spot check; True if this pull is not the one to make it."""
        saw_everything = self._saw_everything
        if not conclusions.must_check_confirmed(found, heals=step.heals, saw_everything=saw_everything):
            return True
        return await self._reconciler.serves_confirmed(connection, fetching(connection))

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
            hides_journal=relays.has_remark(self._url, Remark.HIDES_JOURNAL),
            unfinished=relays.unfinished_pull(self._url),
        )

    async def _pull_newer(
        self, connection: RelayConnection, step: PullStep, file_events: FileEvents
    ) -> PullResult:
        """Ask only for events newer than the newest event seen.

        Such a pull moves no cursor, does not look for missing events, and is not resumed if it is cut off.
        """
        positions = {kind: Position(*place) for kind, place in step.progress.walks.items()}
        walks = await self._walks(connection, step, positions, file_events, wait_after_eose=False)
        unasked = PullResult((HIDDEN,) if step.whole_journal else ())
        found = sum(conclusions.with_hidden(walks).values(), unasked)
        if found.shows_all_but_hidden:
            self._newest = conclusions.seen_until(self._newest, step.progress.begun_at, found.newest)
        return found

    def _record_behaviour(self, found: PullResult, *, heals: bool) -> None:
        """Record how the relay behaved in a pull, and that lost events are being sent again."""
        outbox, relays, url = self._ledger.outbox, self._ledger.relays, self._url
        changes = conclusions.remarks_of_pull(
            found,
            saw_everything=self._saw_everything,
            made_progress=self.made_progress,
            # The outbox is searched only where the answer could remove a remark.
            has_lost=relays.has_remark(url, Remark.FORGETFUL) and outbox.has_lost(url),
            keeps_deletions=relays.has_remark(url, Remark.DROPS_DELETIONS) and outbox.keeps_deletions(url),
        )
        self._remark(changes)
        if found.missing and heals:
            relays.record_healing(self._url, self._clock())

    def _remark(self, changes: RemarkChanges, begun: float | None = None) -> None:
        """Add and remove remarks; `begun` is when the pull began that proves that deletions are honoured."""
        relays = self._ledger.relays
        for remark in changes.add:
            relays.add_remark(self._url, remark, self._clock())
        for remark in changes.remove:
            before = begun if remark is Remark.UNDELETED else None
            relays.remove_remark(self._url, remark, before)

    async def _run_step(
        self, connection: RelayConnection, step: PullStep, file_events: FileEvents, as_of: float
    ) -> PullResult:
        """Carry out one step, and set `_saw_everything` if a comparison or walk was complete."""
        if step.compares:
            compared = await self._compare(connection, step, file_events, since=step.compare_since)
            if compared is not None:
                return compared
            if not connection.is_open:
                self.made_progress = not connection.misbehaving  # the next attempt is a walk
                return PullResult((connection.problem or "",))
            if self._reconciler.was_disproved:
                step = step_after_false_comparison(step, self._state())
        return await self._walk_further(connection, step, file_events, as_of)

    async def _walk_further(
        self, connection: RelayConnection, step: PullStep, file_events: FileEvents, as_of: float
    ) -> PullResult:
        """Walk; then compare where a walk cannot see everything, or walk again if the walk was begun long ago."""
        total = await self._walk(connection, step, file_events)
        self.received_in_overlap = total.received if step.progress.since is not None else 0
        if may_compare_after(total.reasons):
            return await self._compare(connection, step, file_events, completes_walk=True) or total
        if total.shows_all_but_hidden and (more := step_after_resuming(step, self._state(), as_of)):
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
        completes_walk: bool = False,
    ) -> PullResult | None:
        """Pull by comparison, and walk the journal if the relay does not compare it; None if nothing was compared."""
        compared = await self._reconciler.pull(
            connection,
            fetching(connection),
            file_events,
            since=since,
            every=step.heal_seconds,
            with_journal=not step.whole_journal,
            completes_walk=completes_walk,
        )
        if compared is None:
            return None
        pulled = compared.found
        if not compared.saw_journal:
            journal = step_after_blind_comparison(step, pulled.newest, whole=compared.lacks_journal)
            return pulled + await self._walk(connection, journal, file_events)
        begun = step.progress.begun_at
        await self._ledger.write(self._move_cursor, begun, pulled.newest, swept=since is None)
        return pulled

    async def _walk(self, connection: RelayConnection, step: PullStep, file_events: FileEvents) -> PullResult:
        """Walk, and walk again if events arrived after an EOSE."""
        relays, progress = self._ledger.relays, step.progress
        is_known_late = relays.has_remark(self._url, Remark.LATE)
        self._count_late(connection, afresh=True)
        while True:
            waits = conclusions.must_wait_after_eose(self._late_score, is_known_late=is_known_late)
            positions = {kind: Position(*place) for kind, place in progress.walks.items()}
            walks = await self._walks(connection, step, positions, file_events, wait_after_eose=waits)
            before, score = self._late_score, self._count_late(connection)
            if waits or score == before:
                break
        found = conclusions.with_hidden(walks)
        total = sum(found.values(), PullResult(newest=progress.newest))
        is_of_all = step.kinds == KINDS
        changes = conclusions.remarks_of_walk(total, swept=progress.since is None, is_of_all=is_of_all)
        await self._ledger.write_if_due(self._remark, changes, progress.begun_at)
        if total.shows_all_but_hidden:
            missing = await self._ledger.write(self._record_complete, step, total)
            return replace(total, missing=missing)
        left = {kind: positions[kind] for kind, walk in found.items() if not walk.complete}
        await self._ledger.write(self._save_position, progress, total, left, connection)
        return total

    async def _walks(
        self,
        connection: RelayConnection,
        step: PullStep,
        positions: Mapping[int, Position],
        file_events: FileEvents,
        *,
        wait_after_eose: bool,
    ) -> dict[int, PullResult]:
        """Walk all kinds at once; returns the results by kind. Each walk moves its position."""
        fetch, size = fetching(connection, wait_after_eose=wait_after_eose), page_size(connection.information)
        horizon = conclusions.horizon_at(self._clock())
        try:
            async with asyncio.TaskGroup() as group:
                walks = {
                    kind: group.create_task(
                        walk_and_file(
                            fetch,
                            file_events,
                            *self._wanted(connection, step, kind),
                            page_size=size,
                            position=position,
                            horizon=horizon,
                        )
                    )
                    for kind, position in positions.items()
                }
        except BaseExceptionGroup as failed:  # an error of the ledger ends all walks
            raise failed.exceptions[0] from None
        return {kind: walk.result() for kind, walk in walks.items()}

    def _count_late(self, connection: RelayConnection, *, afresh: bool = False) -> int:
        """Count the events after EOSE since the last call; returns the score, see `conclusions.late_score`."""
        known, before = self._late_seen
        count = connection.counts.after_eose - (before if connection is known else 0)
        self._late_seen = connection, connection.counts.after_eose
        self._late_score = conclusions.late_score(self._late_score, count, afresh=afresh)
        return self._late_score

    def _record_complete(self, step: PullStep, found: PullResult) -> int:
        """Record a complete walk: queue the missing events and move the cursor; returns how many events are missing."""
        outbox, begun = self._ledger.outbox, step.progress.begun_at
        # The kinds that the relay does not hide, by the date since when it showed them.
        shown: dict[int, list[int]] = {}
        for kind in step.kinds:
            if not (kind == KIND_DIRECT_MESSAGE and HIDDEN in found.reasons):
                shown.setdefault(step.since(kind) or 0, []).append(kind)
        lost = [
            seq
            for since, kinds in shown.items()
            for seq in outbox.lost_events(self._url, begun, since, kinds)
        ]
        if lost:  # queued before the cursor moves: a crash in between costs another pull, and loses nothing
            outbox.requeue_lost(self._url, lost, begun, self._clock(), every=step.heal_seconds)
        self._move_cursor(begun, found.newest, swept=step.progress.since is None)
        return len(lost)

    def _move_cursor(self, begun: float, newest: int, *, swept: bool) -> None:
        """Record a complete pull."""
        relays, self._saw_everything = self._ledger.relays, swept
        self._newest = conclusions.seen_until(self._newest, begun, newest)
        cursor = conclusions.cursor_after(relays.state(self._url).cursor, begun, newest)
        relays.record_pull(self._url, cursor, self._clock(), swept=swept)

    def _save_position(
        self,
        progress: PullProgress,
        total: PullResult,
        left: Mapping[int, Position],
        connection: RelayConnection,
    ) -> None:
        """Save where a pull was cut off, if a walk moved and the lost connection is the only problem."""
        walks = {kind: (position.second, position.largest, position.edge) for kind, position in left.items()}
        moved = conclusions.has_moved(progress.walks, walks)
        self.made_progress = conclusions.may_resume(
            total, connection.problem, moved=moved, misbehaving=connection.misbehaving
        )
        rest = replace(progress, newest=total.newest, walks=walks) if self.made_progress else None
        self._ledger.relays.save_unfinished_pull(self._url, rest)

    def _wanted(
        self, connection: RelayConnection, step: PullStep, kind: int
    ) -> tuple[Filter, Callable[[], Sequence[str]]]:
        """The filter of a walk, and the d-tags to ask for if a second holds more events than a page.

        A relay that compares sets is not asked for them: a comparison shows all events of the second.
        """
        asks = kind == KIND_APP_DATA and not self._reconciler.may_compare(connection)
        known_tags = self._ledger.places.tags if asks else tuple
        return replace(kinds_filter(self._author, (kind,)), since=step.since(kind)), known_tags


def fetching(connection: RelayConnection, *, wait_after_eose: bool = False) -> Fetch:
    """`RelayConnection.fetch`, except that a closed connection gives an incomplete page instead of a RelayError."""

    async def fetch(filters: Sequence[Filter]) -> EventPage:
        try:
            return await connection.fetch(filters, wait_after_eose=wait_after_eose)
        except RelayError as error:
            return EventPage((), complete=False, reason=error.problem, outcome=RelayOutcome.RETRY)

    return fetch
