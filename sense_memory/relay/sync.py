"""One relay brought in step with the ledger: pull, then push, over an open connection.

Carries opaque verified events: what is inside them is the intake's business, which is handed in. A
relay that never completed a pull is not pushed to, so that a fresh device overwrites nothing it has not
seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sense_memory.errors import RelayError
from sense_memory.ledger.notes import Remark, Unfinished
from sense_memory.limits import CURSOR_OVERLAP_SECONDS, PUBLISH_WINDOW_COUNT, RESUME_SECONDS, SWEEP_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import Outcome, Verdict
from sense_memory.relay.hints import is_too_large, page_size
from sense_memory.relay.page import LATE, Page
from sense_memory.relay.pull import CROWDED, Position, Pulled, by_address, pull
from sense_memory.relay.reconcile import Reconciler
from sense_memory.relay.report import RelayReport


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.event import Event
    from sense_memory.relay.connection import RelayConnection
    from sense_memory.relay.pull import Fetch, Take
    from sense_memory.relay.reconcile import Stock

_SEND_COUNT = 4 * PUBLISH_WINDOW_COUNT  # read from the outbox at a time
_KINDS = (KIND_DELETION, KIND_APP_DATA, KIND_DIRECT_MESSAGE)  # a walk each
_NOWHERE = dict.fromkeys(_KINDS, (None, 0))  # where each walk begins
_TOO_LARGE = Verdict(Outcome.REFUSED, "too large for this relay")


class Intake(Protocol):
    """Where verified events of a relay go; says how each was filed."""

    async def __call__(self, events: Sequence[Event], relay: str) -> Mapping[str, int]:
        """File events that a relay served; returns counts by fate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run should do.

    Attributes:
        pull: ask the relay for what is new.
        compare: compare everything instead (NIP-77), where the relay can.
        sweep: ask for everything, without cursor, and look for what went missing; a comparison does both.
        offline_first: push even where no pull was ever complete.
    """

    pull: bool = True
    compare: bool = True
    sweep: bool = False
    offline_first: bool = False


class RelaySync:
    """The synchronisation of one ledger with one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: its public key, 64 hex digits.
        intake: where pulled events go.
        stock: what is compared with relays, shared by those of a store.
        clock: seconds since 1970.

    Attributes:
        was_cut_off: whether the relay hung up in the last run.
        came_further: whether that run achieved something all the same; the next one goes on from there.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        author: str,
        intake: Intake,
        *,
        stock: Stock,
        clock: Callable[[], float],
    ) -> None:
        self._url, self._ledger, self._author = url, ledger, author
        self._intake, self._clock = intake, clock
        self._reconciler = Reconciler(url, ledger, author, stock, clock)
        self.was_cut_off = self.came_further = False
        self._late: tuple[RelayConnection | None, int] = None, 0
        self._reported: tuple[RelayConnection | None, Counter[str]] = None, Counter()

    async def run(self, connection: RelayConnection, plan: Plan) -> RelayReport:
        """Pull and push once; a connection that fails on the way becomes the report's `problem`."""
        self.came_further = False
        served: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        pulled = await self._pull(connection, plan, served) if plan.pull else Pulled()
        held_back = self.is_held_back(plan)
        if not held_back and connection.is_open:
            async with self._ledger.publishing() as ours:
                if ours:
                    with suppress(RelayError):  # the connection knows what happened to it
                        await self._push(connection, sent, served)
        self.was_cut_off = not connection.is_open and not connection.misbehaving
        self.came_further |= bool(sent) or (plan.pull and pulled.complete)
        return replace(
            self.standing(),
            problem=connection.problem or "",
            pulled=pulled,
            served=dict(served),
            sent=dict(sent),
            useless=self._new_useless(connection),
            misbehaving=connection.misbehaving,
            asked=plan.pull,
            held_back=held_back,
        )

    def _new_useless(self, connection: RelayConnection) -> dict[str, int]:
        """What a relay sent that was of no use, since the last report or since it was dialled."""
        known, before = self._reported
        now = _useless(connection)
        self._reported = connection, now
        return dict(now - before if connection is known else now)

    def standing(self) -> RelayReport:
        """What the ledger says of this relay, when nothing was asked of it."""
        outbox = self._ledger.outbox
        counts = outbox.counts(self._url)
        return RelayReport(
            self._url,
            reasons=outbox.reasons(self._url),
            waiting=counts.get("queued", 0),
            refused=counts.get("refused", 0) + counts.get("parked", 0),
            asked=False,
        )

    def is_held_back(self, plan: Plan) -> bool:
        """Whether nothing may be sent, because the relay never showed everything it has."""
        return self._ledger.outbox.state(self._url).completed_at is None and not plan.offline_first

    async def _pull(self, connection: RelayConnection, plan: Plan, served: Counter[str]) -> Pulled:
        """Compare, or walk, or go on with a walk that was cut off; where a walk finds a crowd, compare after all."""
        course = self._course(plan)
        is_fresh = course.walks == _NOWHERE
        if is_fresh and (plan.compare or course.since is None):
            compared = await self._compare(connection, course, served)
            if compared is not None:
                return compared
            if not connection.is_open:
                self.came_further = not connection.misbehaving  # the next try is a walk
                return Pulled((connection.problem or "",))
        total = await self._walk(connection, course, served)
        if total.reasons == (CROWDED,):
            return await self._compare(connection, course, served) or total
        return total

    async def _compare(
        self, connection: RelayConnection, course: Unfinished, served: Counter[str]
    ) -> Pulled | None:
        """A complete pull by comparison, or None."""
        pulled = await self._reconciler.pull(connection, _fetching(connection), self._taking(served))
        if pulled is not None:
            self._move_cursor(course.begun_at, pulled.newest, swept=True)
            self._remark_on(pulled.missing)
        return pulled

    async def _walk(self, connection: RelayConnection, course: Unfinished, served: Counter[str]) -> Pulled:
        """Walk until no event came after the relay had said that there are no more.

        One may have been written at that very moment; a relay that does it twice is listened to for longer.
        """
        notes = self._ledger.notes
        noted = notes.is_noted(self._url, Remark.LATE)
        for patient in (True,) if noted else (False, False, True):
            positions = {kind: Position(*place) for kind, place in course.walks.items()}
            found = await self._walks(connection, course, positions, served, patient=patient)
            if not self._went_on(connection):
                break
        total = sum(found.values(), Pulled(newest=course.newest))
        if LATE in total.reasons:
            notes.note(self._url, Remark.LATE, self._clock())
        if total.complete:
            notes.drop(self._url, Remark.LATE)
            return replace(total, missing=self._completed(course, total.newest))
        left = {kind: positions[kind] for kind, walk in found.items() if not walk.complete}
        self._leave_off(course, total, left, connection)
        return total

    async def _walks(
        self,
        connection: RelayConnection,
        course: Unfinished,
        positions: Mapping[int, Position],
        served: Counter[str],
        *,
        patient: bool,
    ) -> dict[int, Pulled]:
        """The walks of a pull, by kind, all at once; each moves its position."""
        fetch, take = _fetching(connection, patient=patient), self._taking(served)
        size = page_size(connection.information)
        try:
            async with asyncio.TaskGroup() as group:
                walks = {
                    kind: group.create_task(
                        pull(fetch, take, *self._wanted(course, kind), page_size=size, position=position)
                    )
                    for kind, position in positions.items()
                }
        except BaseExceptionGroup as failed:  # the ledger's failure ends all the walks
            raise failed.exceptions[0] from None
        return {kind: walk.result() for kind, walk in walks.items()}

    def _went_on(self, connection: RelayConnection) -> bool:
        """Whether a relay sent events of an answer that it had finished, since this was asked last."""
        known, before = self._late
        self._late = connection, connection.counts.after_eose
        return connection.counts.after_eose > (before if connection is known else 0)

    def _course(self, plan: Plan) -> Unfinished:
        """The pull to make: the one that was cut off a moment ago, or a new one."""
        begun = self._clock()
        left = self._ledger.notes.unfinished(self._url)
        if (
            left is not None
            and 0 <= begun - left.begun_at < RESUME_SECONDS
            and (left.since is None or not plan.sweep)
        ):
            return left
        state = self._ledger.outbox.state(self._url)
        swept = (
            plan.sweep
            or state.cursor is None
            or state.swept_at is None
            or begun - state.swept_at > SWEEP_SECONDS
        )
        return Unfinished(begun, None if swept else state.cursor, 0, _NOWHERE)

    def _completed(self, course: Unfinished, newest: int) -> int:
        """Everything that was asked for was shown: the cursor moves, and what went missing is queued."""
        outbox, swept = self._ledger.outbox, course.since is None
        lost = len(outbox.lost(self._url, course.begun_at)) if swept else 0
        if lost:  # queued first: a crash in between costs another sweep, and never what was found
            outbox.missing(self._url, course.begun_at, self._clock())
        self._move_cursor(course.begun_at, newest, swept=swept)
        if swept:
            self._remark_on(lost)
            self._ledger.notes.drop(self._url, Remark.UNDELETED, course.begun_at)
        return lost

    def _remark_on(self, lost: int) -> None:
        """Everything was seen: remember whether something was gone that the relay had accepted."""
        if lost:
            self._ledger.notes.note(self._url, Remark.FORGETFUL, self._clock())
        else:
            self._ledger.notes.drop(self._url, Remark.FORGETFUL)

    def _move_cursor(self, begun: float, newest: int, *, swept: bool) -> None:
        """Never beyond the clock or what was verified, and never back."""
        outbox = self._ledger.outbox
        cursor = outbox.state(self._url).cursor
        if newest:
            cursor = max(min(int(begun), newest) - CURSOR_OVERLAP_SECONDS, cursor or 0)
        outbox.completed(self._url, cursor, self._clock(), swept=swept)
        self._ledger.notes.leave_off(self._url, None)

    def _leave_off(
        self, course: Unfinished, total: Pulled, left: Mapping[int, Position], connection: RelayConnection
    ) -> None:
        """Remember where a pull was cut off, if it came further than before and nothing else was wrong."""
        walks = {kind: (position.second, position.largest) for kind, position in left.items()}
        moved = walks.keys() != course.walks.keys() or any(
            second != course.walks[kind][0] for kind, (second, _) in walks.items()
        )
        self.came_further = moved and total.reasons == (connection.problem,) and not connection.misbehaving
        rest = replace(course, newest=total.newest, walks=walks) if self.came_further else None
        self._ledger.notes.leave_off(self._url, rest)

    def _wanted(self, course: Unfinished, kind: int) -> tuple[Filter, Callable[[], Sequence[str]]]:
        """What a walk asks for, and the d-tags to ask for where a second holds more than a page."""
        mine = (self._author,)
        tags = {"p": mine} if kind == KIND_DIRECT_MESSAGE else {}
        known_tags = self._ledger.slots if kind == KIND_APP_DATA else tuple
        return Filter(authors=mine, kinds=(kind,), tags=tags, since=course.since), known_tags

    async def _push(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        outbox = self._ledger.outbox
        outbox.backfill(self._url, self._clock())
        newer: list[str] = []
        while parcels := outbox.due(self._url, self._clock(), _SEND_COUNT):
            verdicts = {p.seq: _TOO_LARGE for p in parcels if is_too_large(p.body, connection.information)}
            parcels = [parcel for parcel in parcels if parcel.seq not in verdicts]
            waiting = {parcel.id: parcel for parcel in parcels}
            async for ident, verdict in connection.publish((p.id, p.body) for p in parcels):
                if verdict == Verdict(Outcome.RETRY, connection.problem or ""):
                    continue  # cut off on the way: no word of the relay's, so it stays due
                parcel = waiting.pop(ident)
                verdicts[parcel.seq] = verdict
                sent[verdict.outcome.value] += 1
                if verdict.outcome is Outcome.SUPERSEDED:
                    newer.append(parcel.slot)
                if len(verdicts) >= PUBLISH_WINDOW_COUNT:
                    outbox.record(self._url, verdicts, self._clock())
                    verdicts = {}
            outbox.record(self._url, verdicts, self._clock())
            if waiting:
                break  # rate-limited or cut off: the rest stays queued
        await self._pull_newer(connection, newer, served)

    async def _pull_newer(
        self, connection: RelayConnection, slots: Sequence[str], served: Counter[str]
    ) -> None:
        """Fetch what the relay says is newer than ours, at once."""
        wanted = Filter(authors=(self._author,), kinds=(KIND_APP_DATA,))
        await by_address(_fetching(connection), self._taking(served), wanted, slots)

    def _taking(self, served: Counter[str]) -> Take:
        async def take(events: Sequence[Event]) -> None:
            served.update(await self._intake(events, self._url))

        return take


def _useless(connection: RelayConnection) -> Counter[str]:
    """What the relay sent so far that was of no use. A challenge is none of that: relays greet with it."""
    return Counter({**asdict(connection.counts), "challenges": 0})


def _fetching(connection: RelayConnection, *, patient: bool = False) -> Fetch:
    """`fetch` on a connection that may be gone: what is not answered is an incomplete page like others."""

    async def fetch(filters: Sequence[Filter]) -> Page:
        try:
            return await connection.fetch(filters, patient=patient)
        except RelayError as error:
            return Page((), complete=False, reason=error.problem, outcome=Outcome.RETRY)

    return fetch
