"""The stage under the liars: a proxy in front of an honest relay, and what a fault is.

The proxy hands every frame of a client on to the upstream relay and back, through each fault; the first
fault stands nearest to the client. The relay's information document (NIP-11) takes the same way. A fault
has no I/O, no clock, and no randomness but its seed's. Loopback only; nothing here belongs to the
installed package.
"""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.http11 import Response


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from websockets.asyncio.client import ClientConnection
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request


class Hangup(Enum):
    """What a fault yields to cut the connection, without a farewell."""

    HANGUP = auto()
    TOO_LARGE = auto()  # with a farewell: code 1009


HANGUP: Final = Hangup.HANGUP
TOO_LARGE: Final = Hangup.TOO_LARGE


@dataclass(frozen=True, slots=True)
class Pause:
    """What a fault yields to let so many seconds pass before anything else goes this way."""

    seconds: float


Frame: TypeAlias = list[Any]  # a parsed Nostr frame
Reply: TypeAlias = "Frame | str | bytes | Hangup | Pause"  # all but frames pass the other faults untouched
NostrEvent: TypeAlias = "Mapping[str, Any]"  # an event as plain JSON

_DISABLED: Final = "blocked: negentropy is disabled"

_log = logging.getLogger(__name__)
_silent = logging.getLogger(f"{__name__}.library")  # websockets would log every frame
_silent.setLevel(logging.CRITICAL + 1)


class _HungUp(Exception):
    """A fault cuts the connection."""

    def __init__(self, how: Hangup) -> None:
        self.says_why = how is TOO_LARGE
        super().__init__(how)


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

    def information(self, document: bytes) -> bytes:
        """What becomes of the relay's information document (NIP-11)."""
        return document

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed}, on={self.on})"


class FaultyRelay:
    """A lying relay: `async with FaultyRelay(honest.url, NoEose(), seed=7) as liar: … liar.url …`.

    Args:
        upstream: the honest relay's URL; may be changed between connections (a relay restored from a backup).
        faults: the first stands nearest to the client.
        seed: every fault's randomness follows from it.
        negentropy: whether it compares (NIP-77) as the upstream relay does. Otherwise it refuses, as many
            relays do, so that clients have to ask for events, about which most faults lie.

    Attributes:
        upgrades: the headers of each client's upgrade request.
        inquiries: how often its information document was asked for.
        close_codes: how each connection ended, as the proxy saw it (RFC 6455).
    """

    def __init__(self, upstream: str, *faults: Fault, seed: int = 0, negentropy: bool = False) -> None:
        self.upstream, self.faults, self.seed, self.negentropy = upstream, faults, seed, negentropy
        self.upgrades: list[Headers] = []
        self.inquiries = 0
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
            process_request=self._inform,
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

    async def _inform(self, _client: ServerConnection, request: Request) -> Response | None:
        """The information document, to whoever asks for it as NIP-11 says."""
        if request.headers.get("Accept") != "application/nostr+json":
            return None
        self.inquiries += 1
        document = await _document(self.upstream)
        for fault in reversed(self.faults):
            document = fault.information(document) if fault.on else document
        headers = Headers({"Content-Type": "application/nostr+json", "Content-Length": str(len(document))})
        return Response(200, "OK", headers, document)

    async def _welcome(self, client: ServerConnection) -> None:
        talk = Talk(len(self.upgrades) + 1)
        if client.request is not None:
            self.upgrades.append(client.request.headers)
        try:
            async with connect(
                self.upstream, compression=None, max_size=None, proxy=None, close_timeout=1, logger=_silent
            ) as relay:
                try:
                    for place, fault in enumerate(self.faults):
                        if fault.on:
                            await self._tell(client, talk, fault.on_connect(talk), place)
                    await self._carry(client, relay, talk)
                except _HungUp as cut:
                    if cut.says_why:
                        await client.close(1009)
                    client.transport.close()  # what was said before still arrives, a farewell does not
                    relay.transport.abort()
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
            asyncio.create_task(client.wait_closed()),  # a fault that pauses would not notice
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
            if frame[0] == "NEG-OPEN" and not self.negentropy:
                await self._tell(client, talk, [["NEG-ERR", frame[1], _DISABLED]], len(self.faults))
                continue
            replies: list[Reply] = [frame]
            for place, fault in enumerate(self.faults):
                replies = list(_through(fault, fault.from_client, replies, talk))
                answers, talk.answers = talk.answers, []
                await self._tell(client, talk, answers, place)
            for reply in replies:
                if isinstance(reply, Hangup):
                    raise _HungUp(reply)
                if isinstance(reply, Pause):
                    await asyncio.sleep(reply.seconds)
                else:
                    await relay.send(_text(reply))

    async def _from_relay(self, client: ServerConnection, relay: ClientConnection, talk: Talk) -> None:
        async for text in relay:
            await self._tell(client, talk, [json.loads(text)], len(self.faults))

    async def _tell(self, client: ServerConnection, talk: Talk, said: Iterable[Reply], place: int) -> None:
        """Send something to the client through the faults that stand before a place."""
        replies = said
        for fault in reversed(self.faults[:place]):
            replies = _through(fault, fault.from_relay, replies, talk)
        for reply in replies:
            if isinstance(reply, Hangup):
                raise _HungUp(reply)
            if isinstance(reply, Pause):
                await asyncio.sleep(reply.seconds)
                continue
            if isinstance(reply, list) and reply[0] == "EVENT":
                talk.answered[reply[1]] += 1
            await client.send(_text(reply))


def _through(
    fault: Fault, hook: Callable[[Frame, Talk], Iterable[Reply]], replies: Iterable[Reply], talk: Talk
) -> Iterable[Reply]:
    """What a fault makes of replies, one by one as they are asked for: a flood takes no memory."""
    if not fault.on:
        return replies
    return chain.from_iterable(
        hook(reply, talk) if isinstance(reply, list) else (reply,) for reply in replies
    )


def _text(reply: Frame | str | bytes) -> str | bytes:
    return json.dumps(reply, ensure_ascii=False) if isinstance(reply, list) else reply


async def _document(url: str) -> bytes:
    """The information document of the upstream relay; empty where it has none."""
    parts = urlsplit(url)
    try:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except OSError:
        return b""
    lines = ("GET / HTTP/1.1", f"Host: {parts.netloc}", "Accept: application/nostr+json", "Connection: close")
    try:
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii"))
        answer = await reader.read()
    finally:
        writer.transport.abort()
    return answer.partition(b"\r\n\r\n")[2]
