"""The relay contract's stage: each test runs on our relay and on nostr-sdk's, through a raw client.

Client, ids and signatures here are written against the NIPs with stdlib `json` and coincurve, so that the
code under test is never its own judge.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import asynccontextmanager

import pytest
from coincurve import PrivateKey
from websockets.asyncio.client import connect

from tests.local_relays import embedded, nostr_sdk
from tests.time_unit import SECOND


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "nostr_sdk_differs(why): nostr-sdk's relay is known to fail this; passing is an error too"
    )


BASE = int(time.time()) - 1_000_000  # nostr-sdk's relay reads the real clock, so events must be plausible


class Author:
    """Signs events as NIP-01 says, with times relative to a base in the recent past."""

    def __init__(self, number: int) -> None:
        self._key = PrivateKey.from_int(number)
        self.pubkey = self._key.public_key_xonly.format().hex()

    def event(self, kind=1, content="", tags=(), at=0):
        created_at, tags = BASE + at, [list(tag) for tag in tags]
        serial = json.dumps(
            [0, self.pubkey, created_at, kind, tags, content], separators=(",", ":"), ensure_ascii=False
        )
        digest = hashlib.sha256(serial.encode()).digest()
        return {
            "id": digest.hex(),
            "pubkey": self.pubkey,
            "created_at": created_at,
            "kind": kind,
            "tags": tags,
            "content": content,
            "sig": self._key.sign_schnorr(digest).hex(),
        }

    def memory(self, name="lisa", content="", at=0):
        return self.event(30078, content, [["d", f"sense-memory/{name}"]], at)

    def address(self, name="lisa"):
        return f"30078:{self.pubkey}:sense-memory/{name}"


class Client:
    """Frames over a websocket, nothing else. Every wait is bounded."""

    def __init__(self, socket) -> None:
        self.socket = socket
        self._closed = set()

    async def send(self, *frame) -> None:
        await self.socket.send(json.dumps(frame, ensure_ascii=False))

    async def next(self):
        """The next frame that is no AUTH challenge, and no CLOSED in answer to our CLOSE (nostr-sdk's sends one)."""
        async with asyncio.timeout(5 * SECOND):
            while True:
                frame = json.loads(await self.socket.recv())
                if frame[0] != "AUTH" and not (frame[0] == "CLOSED" and frame[1] in self._closed):
                    return frame

    async def publish(self, event) -> tuple[bool, str]:
        await self.send("EVENT", event)
        kind, ident, accepted, text = await self.next()
        assert (kind, ident) == ("OK", event["id"])
        return accepted, text

    async def stored(self, subscription):
        """The events that come for a subscription until its EOSE."""
        events = []
        while (frame := await self.next())[0] == "EVENT":
            assert frame[1] == subscription
            events.append(frame[2])
        assert frame == ["EOSE", subscription]
        return events

    async def close(self, subscription) -> None:
        self._closed.add(subscription)
        await self.send("CLOSE", subscription)

    async def query(self, *filters):
        subscription = f"query {len(self._closed)}"
        await self.send("REQ", subscription, *filters)
        events = await self.stored(subscription)
        await self.close(subscription)
        return events


class Stage:
    """Starts one kind of relay: `async with relay() as dial, dial() as client`."""

    def __init__(self, start) -> None:
        self.name, self._start = start.__name__, start

    @asynccontextmanager
    async def __call__(self):
        async with self._start() as url:

            @asynccontextmanager
            async def dial():
                async with connect(url, compression=None) as socket:
                    yield Client(socket)

            yield dial


@pytest.fixture(params=[embedded, nostr_sdk], ids=lambda start: start.__name__)
def relay(request) -> Stage:
    differs = request.node.get_closest_marker("nostr_sdk_differs")
    if differs is not None and request.param is nostr_sdk:
        request.applymarker(pytest.mark.xfail(reason=differs.args[0], raises=AssertionError, strict=True))
    return Stage(request.param)


@pytest.fixture(scope="session")
def author() -> Author:
    return Author(7)


@pytest.fixture(scope="session")
def stranger() -> Author:
    return Author(8)
