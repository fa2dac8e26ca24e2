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
from sense_memory.limits import CURSOR_OVERLAP_SECONDS, PUBLISH_WINDOW_COUNT, SWEEP_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import Outcome, Verdict
from sense_memory.relay.page import Page
from sense_memory.relay.pull import Pulled, by_address, pull
from sense_memory.relay.report import RelayReport


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.event import Event
    from sense_memory.relay.connection import RelayConnection
    from sense_memory.relay.pull import Fetch, Take

_SEND_COUNT = 4 * PUBLISH_WINDOW_COUNT  # read from the outbox at a time


class Intake(Protocol):
    """Where verified events of a relay go; says how each was filed."""

    async def __call__(self, events: Sequence[Event], relay: str) -> Mapping[str, int]:
        """File events that a relay served; returns counts by fate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run should do.

    Attributes:
        pull: ask the relay for what is new.
        sweep: ask for everything, without cursor, and look for what went missing.
        offline_first: push even where no pull was ever complete.
    """

    pull: bool = True
    sweep: bool = False
    offline_first: bool = False


class RelaySync:
    """The synchronisation of one ledger with one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: its public key, 64 hex digits.
        intake: where pulled events go.
        clock: seconds since 1970.
    """

    def __init__(
        self, url: str, ledger: Ledger, author: str, intake: Intake, clock: Callable[[], float]
    ) -> None:
        self._url, self._ledger, self._author = url, ledger, author
        self._intake, self._clock = intake, clock

    async def run(self, connection: RelayConnection, plan: Plan) -> RelayReport:
        """Pull and push once; a connection that fails on the way becomes the report's `problem`."""
        before = _useless(connection)
        served: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        pulled = await self._pull(connection, plan, served) if plan.pull else Pulled()
        held_back = self.is_held_back(plan)
        if not held_back and connection.is_open:
            async with self._ledger.publishing() as ours:
                if ours:
                    with suppress(RelayError):  # the connection knows what happened to it
                        await self._push(connection, sent, served)
        return replace(
            self.standing(),
            problem=connection.problem or "",
            pulled=pulled,
            served=dict(served),
            sent=dict(sent),
            useless=dict(_useless(connection) - before),
            misbehaving=connection.misbehaving,
            asked=plan.pull,
            held_back=held_back,
        )

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
        outbox, begun = self._ledger.outbox, self._clock()
        state = outbox.state(self._url)
        swept = (
            plan.sweep
            or state.cursor is None
            or state.swept_at is None
            or begun - state.swept_at > SWEEP_SECONDS
        )
        since = None if swept else state.cursor

        fetch, take = _fetching(connection), self._taking(served)
        try:
            async with asyncio.TaskGroup() as group:
                walks = [
                    group.create_task(pull(fetch, take, wanted, tags)) for wanted, tags in self._wanted(since)
                ]
        except BaseExceptionGroup as failed:  # the ledger's failure ends all three walks
            raise failed.exceptions[0] from None
        total = sum((walk.result() for walk in walks), Pulled())
        if total.complete:
            newest = min(int(begun), total.newest) - CURSOR_OVERLAP_SECONDS
            cursor = max(newest, state.cursor or 0) if total.newest else state.cursor
            outbox.completed(self._url, cursor, self._clock(), swept=swept)
            if swept:
                outbox.missing(self._url, begun, self._clock())
        return total

    def _wanted(self, since: int | None) -> tuple[tuple[Filter, Callable[[], Sequence[str]]], ...]:
        """The three walks, each with the d-tags to ask for where a second holds more than a page."""
        mine = (self._author,)
        return (
            (Filter(authors=mine, kinds=(KIND_DELETION,), since=since), tuple),
            (Filter(authors=mine, kinds=(KIND_APP_DATA,), since=since), self._ledger.slots),
            (Filter(authors=mine, kinds=(KIND_DIRECT_MESSAGE,), tags={"p": mine}, since=since), tuple),
        )

    async def _push(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        outbox = self._ledger.outbox
        outbox.backfill(self._url, self._clock())
        newer: list[str] = []
        while parcels := outbox.due(self._url, self._clock(), _SEND_COUNT):
            waiting = {parcel.id: parcel for parcel in parcels}
            verdicts: dict[int, Verdict] = {}
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


def _fetching(connection: RelayConnection) -> Fetch:
    """`fetch` on a connection that may be gone: what is not answered is an incomplete page like others."""

    async def fetch(filters: Sequence[Filter]) -> Page:
        try:
            return await connection.fetch(filters)
        except RelayError as error:
            return Page((), complete=False, reason=error.problem, outcome=Outcome.RETRY)

    return fetch
