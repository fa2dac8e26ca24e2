"""A client of the embedded relay that knows frames and nothing else."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from websockets.asyncio.client import connect

from tests.time_unit import SECOND


class Client:
    """One connection to a relay."""

    def __init__(self, ws) -> None:
        self.ws = ws

    async def send(self, *frame) -> None:
        await self.ws.send(json.dumps(frame))

    async def next(self):
        async with asyncio.timeout(5 * SECOND):
            return json.loads(await self.ws.recv())

    async def publish(self, event):
        """What the relay says of an event: whether it took it, and why."""
        await self.send("EVENT", event)
        return (await self.next())[2:]

    async def put(self, *events) -> None:
        """Publish events at once, each of which the relay has to take."""
        for event in events:
            await self.send("EVENT", event)
        for event in events:
            assert (await self.next())[:3] == ["OK", event["id"], True]

    async def query(self, *filters):
        await self.send("REQ", "query", *filters)
        events = []
        while (frame := await self.next())[0] == "EVENT":
            events.append(frame[2])
        assert frame == ["EOSE", "query"]
        await self.send("CLOSE", "query")
        return events


@asynccontextmanager
async def dial(url, **options):
    """A client past its challenge, which is kept as `client.challenge`."""
    async with connect(url, compression=None, **options) as ws:
        client = Client(ws)
        kind, client.challenge = await client.next()
        assert kind == "AUTH"
        yield client
