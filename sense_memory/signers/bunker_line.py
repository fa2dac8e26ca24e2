"""The line to a bunker: connections to its relays, over which requests go out and answers come in.

Every relay of the bunker gets each request, because nobody knows over which of them the bunker listens at the moment; the
first answer counts. What a relay withholds, repeats or makes up costs time at most: answers are encrypted and
authenticated between the key pairs of the client and the bunker.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from sense_memory.errors import RelayError, SignerError
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.remote_signing import KIND_REMOTE_SIGNING
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.client.page import OpenLive


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import LocalSigner
    from sense_memory.relay.client.actions import Timeouts

_T = TypeVar("_T")


class BunkerLine:
    """Connections to the relays of a bunker, in one event loop.

    Args:
        client: the key pair of this client; authenticates to relays that ask for it (NIP-42).
        signer: the bunker's public key, the only author that is listened to.
        on_event: called with each event of the bunker for this client, verified.
        now: seconds since 1970.
        timeouts: of each connection.
    """

    def __init__(
        self,
        client: LocalSigner,
        signer: str,
        on_event: Callable[[Event], None],
        now: Callable[[], float],
        timeouts: Timeouts,
    ) -> None:
        self._client, self._signer, self._on_event = client, signer, on_event
        self._now, self._timeouts = now, timeouts
        self._turn = asyncio.Lock()
        self._open: dict[str, RelayConnection] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._changed = asyncio.Event()

    async def connect(self, relays: Sequence[str]) -> None:
        """Listen at some relays, and at no others; connections that are open stay open.

        Raises:
            SignerError: none of them can be reached.
        """
        async with self._turn:
            for url in [url for url in self._open if url not in relays]:
                await self._open.pop(url).close()
            missing = [url for url in relays if url not in self._open]
            problems = await asyncio.gather(*map(self._dial, missing))
            if not self._open:
                told = "; ".join(f"{url}: {problem}" for url, problem in zip(missing, problems, strict=True))
                raise SignerError(f"cannot be asked: none of its relays can be used ({told}); try again")

    @property
    def is_open(self) -> bool:
        """Whether at least one relay is connected."""
        return bool(self._open)

    async def lost(self) -> None:
        """Return once no relay is connected."""
        while self._open:
            self._changed.clear()
            await self._changed.wait()

    async def send(self, event: Event) -> None:
        """Give an event to every relay; returns once one has taken it.

        Raises:
            SignerError: none did.
        """
        sending = [self._spawn(self._publish(relay, event)) for relay in self._open.values()]
        problems = list[str]()
        for done in asyncio.as_completed(sending):
            if not (problem := await done):
                return
            problems.append(problem)
        told = "; ".join(sorted(problems)) or "no relay is connected"
        raise SignerError(f"was not asked: none of its relays took the request ({told}); try again")

    async def close(self) -> None:
        """Hang up."""
        for relay in list(self._open.values()):
            await relay.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _dial(self, url: str) -> str:
        """Connect to one relay, and listen there; returns what went wrong, or nothing."""
        relay = RelayConnection(
            url,
            public_key=self._signer,
            sign=self._client.sign,
            timeouts=self._timeouts,
            clock=asyncio.get_running_loop().time,
            now=self._now,
        )
        try:
            await relay.open()
        except RelayError as error:
            return error.problem
        begun = asyncio.Event()
        listening = self._spawn(self._listen(url, relay, begun))
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([waiting, listening], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not relay.is_open or listening.done():
            await relay.close()
            return relay.problem or "does not serve the answers of a remote signer (kind 24133)"
        self._open[url] = relay
        return ""

    async def _listen(self, url: str, relay: RelayConnection, begun: asyncio.Event) -> None:
        """Pass on what arrives until the relay ends the subscription; it is dialled again when it is needed next."""

        def arrived(events: Sequence[Event]) -> None:
            begun.set()
            for event in events:
                self._on_event(event)

        # Stored events are not asked for: an answer that was stored is one to a request of another time.
        wanted = Filter(
            authors=(self._signer,),
            kinds=(KIND_REMOTE_SIGNING,),
            tags={"p": (self._client.public_key,)},
            limit=1,
        )
        live = OpenLive(opened_at=asyncio.get_running_loop().time(), filters=(wanted,), author=self._signer)
        with suppress(RelayError):
            await relay.listen(live, arrived, lambda _: ())
        if self._open.get(url) is relay:
            del self._open[url]
        self._changed.set()
        self._spawn(relay.close())

    async def _publish(self, relay: RelayConnection, event: Event) -> str:
        """Why a relay did not take an event; empty if it did."""
        try:
            async with aclosing(relay.publish([(event.id, event.body())])) as verdicts:
                async for _, verdict in verdicts:
                    return (
                        "" if verdict.outcome is RelayOutcome.ACCEPTED else f"{relay.url}: {verdict.reason}"
                    )
        except RelayError as error:
            return f"{relay.url}: {error.problem}"
        return f"{relay.url}: the connection ended"

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
