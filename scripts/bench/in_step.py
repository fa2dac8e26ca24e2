"""What it costs to find out that nothing is new, and to exchange a little: bytes on the wire, and time."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING

from sense_memory import MemoryStore

from . import child
from .counting import CountingProxy
from .figure import Figure, Rule
from .raw_ledger import bodies
from .raw_socket import RawSocket


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .stage import Stage

_DIFFERENCES_COUNT = 100
_FRAME_BYTES = len('["EVENT",]') + 8  # around each event: the frame, and the WebSocket's own head and mask


def measure(stage: Stage) -> list[Figure]:
    """The figures of being in step."""
    stage.say("bringing two devices in step")
    with (
        child.running("relay", stage.path("relay"), stage.port),
        closing(CountingProxy(stage.relay)) as proxy,
    ):
        here, there = stage.filled(), stage.path("there")
        for ledger in (here, there):
            asyncio.run(_synced(stage, proxy, ledger))
        return [*_nothing_new(stage, proxy, here), _scattered(stage, proxy, here, there)]


def _nothing_new(stage: Stage, proxy: CountingProxy, ledger: Path) -> list[Figure]:
    stage.say("in step: one sync")
    runs = [asyncio.run(_synced(stage, proxy, ledger)) for _ in range(stage.repeat)]
    floors = [_raw_round(stage, proxy) for _ in range(stage.repeat)]
    size, seconds = (statistics.median(column) for column in zip(*runs, strict=True))
    floor_size, floor_seconds = (statistics.median(column) for column in zip(*floors, strict=True))
    name, floor_name = f"in step on {stage.count:,}, one sync", "dial + one REQ that matches nothing"
    return [
        Figure(f"{name}: bytes", "B", size, floor_size, floor_name, Rule.AT_MOST, 2_000),
        Figure(f"{name}: time", "ms", seconds * 1e3, floor_seconds * 1e3, floor_name, Rule.AT_MOST, 60),
    ]


def _scattered(stage: Stage, proxy: CountingProxy, here: Path, there: Path) -> Figure:
    """Half of the differences are made here, half on another device that has sent them already."""
    count = min(_DIFFERENCES_COUNT, stage.count)
    stage.say(f"{count} scattered differences")
    chosen = random.Random(stage.seed).sample(stage.pairs, count)  # noqa: S311 - places, not secrets
    before = {ledger: len(bodies(ledger)) for ledger in (here, there)}
    asyncio.run(_edited(stage, proxy, there, chosen[: count // 2], send=True))
    asyncio.run(_edited(stage, proxy, here, chosen[count // 2 :]))
    new = [body for ledger in (here, there) for body in bodies(ledger)[before[ledger] :]]
    size, _ = asyncio.run(_synced(stage, proxy, here))
    events = sum(len(body) + _FRAME_BYTES for body in new)
    return Figure(
        f"{count} scattered differences in {stage.count:,}, one sync: bytes",
        "B",
        size,
        events,
        "the frames of these events alone",
        Rule.AT_MOST,
        events + 100_000,
    )


async def _synced(stage: Stage, proxy: CountingProxy, ledger: Path) -> tuple[int, float]:
    """Open, bring in step, close; the bytes of the sync and its time."""
    async with MemoryStore(stage.signer, [proxy.url], ledger=ledger, background=False) as store:
        before, begun = proxy.bytes, time.perf_counter()
        report = await store.sync()
        took = time.perf_counter() - begun
        size = proxy.bytes - before
        if not report.in_step or len(await store.recall_all()) != stage.count:
            raise RuntimeError("not in step")
    return size, took


async def _edited(
    stage: Stage, proxy: CountingProxy, ledger: Path, pairs: Sequence[tuple[str, str]], *, send: bool = False
) -> None:
    async with MemoryStore(stage.signer, [proxy.url], ledger=ledger, background=False) as store:
        await store.remember_many([(key, value[::-1]) for key, value in pairs])
        if send:
            await store.flush()


def _raw_round(stage: Stage, proxy: CountingProxy) -> tuple[int, float]:
    before, begun = proxy.bytes, time.perf_counter()
    with RawSocket(proxy.url) as connection:
        connection.request([{"authors": [stage.raw_key.public_key], "kinds": [1]}])
        return proxy.bytes - before, time.perf_counter() - begun
