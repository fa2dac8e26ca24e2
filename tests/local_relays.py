"""Relays in this process: ours, and nostr-sdk's, which nobody here wrote."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

from sense_memory import EmbeddedRelay, Timeouts
from tests.time_unit import SECOND


# What an honest relay in this process is in time for on a busy machine, too. Nobody waits that long in real time.
PATIENT = Timeouts(
    open=10.0 * SECOND,
    idle=10.0 * SECOND,
    total=20.0 * SECOND,
    notice_settle=5.0 * SECOND,
    ok=10.0 * SECOND,
    send=10.0 * SECOND,
    sign=10.0 * SECOND,
    close=5.0 * SECOND,
)


@asynccontextmanager
async def embedded(clock=time.time):
    """Our relay; gives its URL."""
    async with EmbeddedRelay(clock=clock) as relay:
        yield relay.url


@asynccontextmanager
async def nostr_sdk(clock=time.time):
    """nostr-sdk's relay, without its limits of 60 events a minute and 500 stored ones; gives its URL.

    It reads the real clock, whatever the clock of the test.
    """
    import nostr_sdk as sdk

    # Else it uses a loop that an earlier test set, which is closed by now.
    sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    limit = sdk.RateLimit(max_reqs=100_000, notes_per_minute=1_000_000)
    relay = sdk.LocalRelayBuilder().rate_limit(limit).build()
    await relay.run()
    try:
        yield str(await relay.url())
    finally:
        relay.shutdown()
