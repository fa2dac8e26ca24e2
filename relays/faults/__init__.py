"""Liars: small, composable, seeded faults in front of an honest relay, for tests and drills.

`async with FaultyRelay(upstream_url, Withhold(ids), NoEose(), seed=7) as liar: … liar.url …` is a relay
on the loopback interface that lies in these ways; the first fault stands nearest to the client. With
`fault.on = False` a fault is honest again.
"""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from relays.faults.answers import (
    ClosedOnly,
    Drip,
    EarlyEose,
    Flood,
    Forge,
    Fuzz,
    Inject,
    NoEose,
    NoticeOnly,
    Oversized,
    Rollback,
    SplitView,
    Stall,
    Withhold,
)
from relays.faults.lines import (
    AuthGate,
    AuthStorm,
    ClaimsEquality,
    CloseEvery,
    Deaf,
    ExclusiveUntil,
    HangUpAt,
    HidesKinds,
    Information,
    NoNegentropy,
)
from relays.faults.oks import (
    DeletesWhateverTheDate,
    ForgetAfterAck,
    LieInOk,
    RateLimit,
    Refuse,
    SwallowPublish,
)
from relays.proxy import HANGUP, Fault, FaultyRelay, Pause


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from relays.proxy import Frame, Reply, Talk

__all__ = [
    "HANGUP", "AuthGate", "AuthStorm", "ClaimsEquality", "CloseEvery", "ClosedOnly", "Deaf", "DeletesWhateverTheDate", "Drip", "EarlyEose", "ExclusiveUntil", "Fault",
    "FaultyRelay", "Flood", "Forge", "ForgetAfterAck", "Fuzz", "HangUpAt", "HidesKinds", "Information", "Inject", "LieInOk", "NoEose", "NoNegentropy",
    "NoticeOnly", "Oversized", "Pause", "RateLimit", "Record", "Refuse", "Rollback", "SplitView", "Stall",
    "SwallowPublish", "Withhold",
]  # fmt: skip


class Record(Fault):
    """No lie: keeps what passes where it stands. First, it sees what the client sent and was told.

    Attributes:
        frames: (direction, frame) in order; the direction is "client" or "relay", whoever said it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[Literal["client", "relay"], Frame]] = []
        self._news = asyncio.Event()

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Note it."""
        return self._note("relay", frame)

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Note it."""
        return self._note("client", frame)

    def _note(self, who: Literal["client", "relay"], frame: Frame) -> Iterator[Frame]:
        self.frames.append((who, frame))
        self._news.set()
        yield frame

    def said(self, kind: str) -> list[Frame]:
        """The client's frames of a kind, such as "EVENT"."""
        return [frame for who, frame in self.frames if who == "client" and frame[0] == kind]

    def heard(self, kind: str) -> list[Frame]:
        """The relay's frames of a kind, such as "OK"."""
        return [frame for who, frame in self.frames if who == "relay" and frame[0] == kind]

    @property
    def published(self) -> list[str]:
        """Ids of the events that the client sent, in order, each as often as it was sent."""
        return [frame[1]["id"] for frame in self.said("EVENT")]

    async def until(self, happened: Callable[[Record], bool]) -> None:
        """Wait until something is true of this record; the caller bounds the wait."""
        while not happened(self):
            self._news.clear()
            await self._news.wait()
