"""One relay brought in step with the ledger: pull, then push, over an open connection.

Carries opaque verified events: what is inside them is the intake's business, which is handed in. A
relay that never completed a pull is not pushed to, so that a fresh device overwrites nothing it has not
seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sense_memory.limits import CURSOR_OVERLAP_SECONDS, PUBLISH_WINDOW_COUNT, SWEEP_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import Outcome, Verdict
from sense_memory.relay.pull import Pulled, by_address, pull
from sense_memory.relay.report import RelayReport


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.event import Event
    from sense_memory.relay.connection import RelayConnection

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
        """Pull and push once.

        Raises:
            RelayError: the connection failed; what was done until then is kept.
        """
        served: Counter[str] = Counter()
        pulled = await self._pull(connection, plan, served) if plan.pull else Pulled()
        state = self._ledger.outbox.state(self._url)
        held_back = state.completed_at is None and not plan.offline_first
        sent: Counter[str] = Counter()
        if not held_back:
            async with self._ledger.publishing() as ours:
                if ours:
                    await self._push(connection, sent, served)
        return RelayReport(
            self._url,
            pulled=pulled,
            served=dict(served),
            sent=dict(sent),
            reasons=self._ledger.outbox.reasons(self._url),
            waiting=self._ledger.outbox.counts(self._url).get("queued", 0),
            asked=plan.pull,
            held_back=held_back,
        )

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

        async def take(events: Sequence[Event]) -> None:
            served.update(await self._intake(events, self._url))

        parts = await asyncio.gather(
            *(
                pull(connection.fetch, take, wanted, tags) for wanted, tags in self._wanted(since)
            )
        )
        total = sum(parts, Pulled())
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
        if not slots:
            return

        async def take(events: Sequence[Event]) -> None:
            served.update(await self._intake(events, self._url))

        wanted = Filter(authors=(self._author,), kinds=(KIND_APP_DATA,))
        await by_address(connection.fetch, take, wanted, slots)
