"""The API of a new store on a socket of its own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from sense_memory import LocalSigner, MemoryStore
from sense_memory.interfaces.http_api.server import application
from sense_memory.interfaces.live import LiveChanges
from sense_memory.interfaces.loopback import listener_at
from sense_memory.interfaces.web.server import WebServer


TOKEN = "t" * 43


@asynccontextmanager
async def serving():
    """The URL of the server, and the store."""
    signer = LocalSigner.from_hex("01" * 32)
    async with MemoryStore(signer, [], ledger=":memory:", background=False) as store:
        with listener_at("127.0.0.1:0") as listener:
            port, live = listener.getsockname()[1], LiveChanges(store, with_texts=True)
            server = WebServer(application(store, TOKEN, port, live, allow_destructive=True))
            running = asyncio.create_task(server.serve([listener]))
            yield f"http://127.0.0.1:{port}", store
            live.close()
            server.stop()
            await running
