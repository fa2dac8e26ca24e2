"""The stage under the liars: a proxy in front of an honest relay, and what a fault is.

The proxy hands every frame of a client on to the upstream relay and back, through each fault; the first
fault stands nearest to the client. A fault has no I/O, no clock, and no randomness but its seed's. Loopback
only; nothing here belongs to the installed package.
"""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from websockets.asyncio.client import ClientConnection
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.datastructures import Headers


class Hangup(Enum):
    """What a fault yields to cut the connection, without a farewell."""

    HANGUP = auto()


HANGUP: Final = Hangup.HANGUP

Frame: TypeAlias = list[Any]  # a parsed Nostr frame
Reply: TypeAlias = "Frame | str | bytes | Hangup"  # raw text and bytes pass the other faults untouched
NostrEvent: TypeAlias = "Mapping[str, Any]"  # an event as plain JSON

_log = logging.getLogger(__name__)
_silent = logging.getLogger(f"{__name__}.library")  # websockets would log every frame
_silent.setLevel(logging.CRITICAL + 1)


class Talk:
    """One client's conversation, as a fault sees it.

    Attributes:
        number: of the connection, from 1.
        filters: what each subscription asked for, by its id.
        answered: events that each subscription was sent so far.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.filters: dict[str, Frame] = {}
        self.answered: Counter[str] = Counter()
        self.answers: list[Reply] = []

    def answer(self, *replies: Reply) -> None:
        """From `from_client`: tell the client something at once."""
        self.answers.extend(replies)

    def asks_for(self, subscription: str, kind: int) -> bool:
        """Whether a subscription would take events of that kind."""
        return any(kind in wanted.get("kinds", [kind]) for wanted in self.filters.get(subscription, []))


class Fault:
    """One lie. The base class tells none: it hands every frame on.

    Attributes:
        on: whether it lies at the moment.
        random: its only source of chance, planted by the proxy.
    """

    def __init__(self) -> None:
        self.on = True
        self.plant(0)

    def plant(self, seed: int) -> None:
        """Start the randomness anew from a seed, which `repr` shows."""
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret

    def on_connect(self, talk: Talk) -> Iterable[Reply]:
        """What a client is sent before it said anything."""
        return ()

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """What becomes of a frame on its way to the client."""
        yield frame

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """What becomes of a frame on its way to the relay."""
        yield frame

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed}, on={self.on})"


class FaultyRelay:
    """A lying relay: `async with FaultyRelay(honest.url, NoEose(), seed=7) as liar: … liar.url …`.

    Args:
        upstream: the honest relay's URL; may be changed between connections (a relay restored from a backup).
        faults: the first stands nearest to the client.
        seed: every fault's randomness follows from it.

    Attributes:
        upgrades: the headers of each client's upgrade request.
        close_codes: how each connection ended, as the proxy saw it (RFC 6455).
    """

    def __init__(self, upstream: str, *faults: Fault, seed: int = 0) -> None:
        self.upstream, self.faults, self.seed = upstream, faults, seed
        self.upgrades: list[Headers] = []
        self.close_codes: list[int | None] = []
        self._server: Server | None = None
        self._port = 0
        self._failures: list[Exception] = []
        for place, fault in enumerate(faults):
            fault.plant(seed + place)

    @property
    def url(self) -> str:
        """Where to dial; known once the proxy has been entered, and the same when entered again."""
        return f"ws://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._welcome,
            "127.0.0.1",
            self._port,
            compression="deflate",  # offered to everybody, so that a client can be seen not to take it
            max_size=None,
            close_timeout=1,
            logger=_silent,
        )
        self._port = self._server.sockets[0].getsockname()[1]
        _log.info("%r", self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()
        if self._failures and error is None:
            raise self._failures[0]  # a fault that is itself faulty must not pass for a lie

    def __repr__(self) -> str:
        return f"FaultyRelay(port={self._port}, seed={self.seed}, faults={list(self.faults)})"

    async def _welcome(self, client: ServerConnection) -> None:
        talk = Talk(len(self.upgrades) + 1)
        if client.request is not None:
            self.upgrades.append(client.request.headers)
        try:
            async with connect(
                self.upstream, compression=None, max_size=None, proxy=None, close_timeout=1, logger=_silent
            ) as relay:
                for place, fault in enumerate(self.faults):
                    if fault.on:
                        await self._tell(client, talk, fault.on_connect(talk), place)
                await self._carry(client, relay, talk)
        except (ConnectionClosed, OSError, InvalidHandshake):
            client.transport.abort()
        except Exception as error:
            self._failures.append(error)
            raise
        finally:
            await client.close()
            self.close_codes.append(client.close_code)

    async def _carry(self, client: ServerConnection, relay: ClientConnection, talk: Talk) -> None:
        """Both directions until one of the two ends."""
        pumps = (
            asyncio.create_task(self._from_client(client, relay, talk)),
            asyncio.create_task(self._from_relay(client, relay, talk)),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for result in await asyncio.gather(*pumps, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    async def _from_client(self, client: ServerConnection, relay: ClientConnection, talk: Talk) -> None:
        async for text in client:
            frame = json.loads(text)
            if frame[0] == "REQ":
                talk.filters[frame[1]] = frame[2:]
            replies: list[Reply] = [frame]
            for place, fault in enumerate(self.faults):
                replies = _through(fault, fault.from_client, replies, talk)
                answers, talk.answers = talk.answers, []
                await self._tell(client, talk, answers, place)
            for reply in replies:
                if isinstance(reply, Hangup):
                    client.transport.abort()
                    return
                await relay.send(_text(reply))

    async def _from_relay(self, client: ServerConnection, relay: ClientConnection, talk: Talk) -> None:
        async for text in relay:
            await self._tell(client, talk, [json.loads(text)], len(self.faults))

    async def _tell(self, client: ServerConnection, talk: Talk, said: Iterable[Reply], place: int) -> None:
        """Send something to the client through the faults that stand before a place."""
        replies = list(said)
        for fault in reversed(self.faults[:place]):
            replies = _through(fault, fault.from_relay, replies, talk)
        for reply in replies:
            if isinstance(reply, Hangup):
                client.transport.abort()
                return
            if isinstance(reply, list) and reply[0] == "EVENT":
                talk.answered[reply[1]] += 1
            await client.send(_text(reply))


def _through(
    fault: Fault, hook: Callable[[Frame, Talk], Iterable[Reply]], replies: list[Reply], talk: Talk
) -> list[Reply]:
    if not fault.on:
        return replies
    return [out for reply in replies for out in (hook(reply, talk) if isinstance(reply, list) else (reply,))]


def _text(reply: Frame | str | bytes) -> str | bytes:
    return json.dumps(reply, ensure_ascii=False) if isinstance(reply, list) else reply
