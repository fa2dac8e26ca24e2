"""What a relay still shows of a key after everything was deleted there, and the request that all of it vanish (NIP-62).

Each question is asked on a connection of its own. All answers are claims: a relay that shows nothing may still keep
something. Nothing is recorded in the ledger.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.errors import RelayError, SignerError
from sense_memory.limits import NIP11_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE, Unsigned
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.client.nip11 import page_size, relay_information
from sense_memory.relay.sync.pull import fetching
from sense_memory.relay.sync.reconcile import kinds_filter
from sense_memory.relay.sync.walk import walk_filter


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts

KIND_VANISH: Final = 62
NIP_VANISH: Final = 62


class VanishAnswer(StrEnum):
    """What a relay answered to the request that everything of a key vanish."""

    NOT_ASKED = "not asked"
    UNSUPPORTED = "not supported"
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RelayContents:
    """The memories and journal entries that a relay shows.

    Attributes:
        events: verified events of the key.
        problem: why the relay may hold more than that; empty if it showed everything.
    """

    events: tuple[Event, ...] = ()
    problem: str = ""


class RelayFarewell:
    """What one relay is asked when a key is given up.

    Args:
        url: the relay.
        signer: the key.
        clock: seconds since 1970.
        timeouts: of each connection.
    """

    def __init__(self, url: str, signer: Signer, clock: Callable[[], float], timeouts: Timeouts) -> None:
        self._url, self._signer, self._clock, self._timeouts = url, signer, clock, timeouts

    async def contents(self) -> RelayContents:
        """Everything of the key that the relay shows, apart from deletion requests."""
        found: list[Event] = []

        async def keep(events: Sequence[Event]) -> None:
            found.extend(events)

        problems: list[str] = []
        try:
            async with self._connection() as relay:
                relay.information = await relay_information(
                    self._url, min(NIP11_SECONDS, self._timeouts.open)
                )
                for kind in (KIND_APP_DATA, KIND_DIRECT_MESSAGE):
                    wanted = kinds_filter(self._signer.public_key, (kind,))
                    size = page_size(relay.information)
                    walk = await walk_filter(fetching(relay), keep, wanted, page_size=size)
                    problems += walk.reasons
        except RelayError as error:
            problems.append(error.problem)
        return RelayContents(tuple(found), "; ".join(dict.fromkeys(problems)))

    async def vanish(self) -> VanishAnswer:
        """Ask the relay to delete everything of the key for good (NIP-62), if it says that it does that."""
        information = await relay_information(self._url, min(NIP11_SECONDS, self._timeouts.open))
        if information is None or NIP_VANISH not in information.supported_nips:
            return VanishAnswer.UNSUPPORTED
        try:
            request = await self._signer.sign(
                Unsigned(int(self._clock()), KIND_VANISH, (("relay", self._url),), "")
            )
            async with (
                self._connection() as relay,
                aclosing(relay.publish([(request.id, request.body())])) as verdicts,
            ):
                async for _, verdict in verdicts:
                    is_taken = verdict.outcome is RelayOutcome.ACCEPTED
                    return VanishAnswer.ACCEPTED if is_taken else VanishAnswer.REFUSED
        except (RelayError, SignerError):
            pass
        return VanishAnswer.REFUSED

    def _connection(self) -> RelayConnection:
        return RelayConnection(
            self._url,
            public_key=self._signer.public_key,
            sign=self._signer.sign,
            timeouts=self._timeouts,
            clock=asyncio.get_running_loop().time,
            now=self._clock,
        )
