"""The cost of a sync that finds nothing new, or little: bytes on the wire, and time.

The memories are dated one per minute: in a burst, hundreds would share a second.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sense_memory import MemoryStore

from . import child
from .counting import CountingProxy
from .figure import Figure, Rule
from .raw_socket import RawSocket
from .writing import row


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .stage import Stage

_DIFFERENCES_COUNT = 100
_SYNC_COUNT = 5  # on one connection, at least
_SENT_BYTES = len('["EVENT",]') + 8  # around an event: the frame, and the WebSocket's own head and mask
_SERVED_BYTES = len('["EVENT","",]') + 16 + 4  # with a subscription's id, without mask


def measure(stage: Stage) -> list[Figure]:
    """The figures of being in step."""
    stage.say(f"writing {stage.count:,} memories, one a minute")
    begun = int(time.time()) - 60 * stage.count
    events = [
        row(stage, key, value, begun + 60 * minute)[3] for minute, (key, value) in enumerate(stage.pairs)
    ]
    return [*_nothing_new(stage, events), _scattered(stage, events)]


def _nothing_new(stage: Stage, events: Sequence[bytes]) -> list[Figure]:
    stage.say("in step: one sync")
    with _proxied(stage, events) as proxy:
        runs = asyncio.run(_sync_again(stage, proxy))
        floors = [_raw_round(stage, proxy) for _ in runs]
    size, seconds = (statistics.median(column) for column in zip(*runs, strict=True))
    floor_size, floor_seconds = (statistics.median(column) for column in zip(*floors, strict=True))
    name, floor_name = f"in step on {stage.count:,}, one sync", "one REQ that matches nothing"
    return [
        Figure(f"{name}: bytes", "B", size, floor_size, floor_name, Rule.AT_MOST, 2_000),
        Figure(f"{name}: time", "ms", seconds * 1e3, floor_seconds * 1e3, floor_name, Rule.AT_MOST, 60),
    ]


def _scattered(stage: Stage, events: Sequence[bytes]) -> Figure:
    """A sync, dialling included, where half of the differences are missing here and half at the relay."""
    count = min(_DIFFERENCES_COUNT, stage.count)
    stage.say(f"{count} scattered differences")
    chosen = random.Random(stage.seed).sample(events, count)  # noqa: S311 - places, not secrets
    not_here, not_there = set(chosen[: count // 2]), set(chosen[count // 2 :])
    with _proxied(stage, [body for body in events if body not in not_there]) as proxy:
        here = b"\n".join(body for body in events if body not in not_here)
        size = asyncio.run(_sync_apart(stage, proxy, here))
    floor = sum(len(body) + _SERVED_BYTES for body in not_here)
    floor += sum(len(body) + _SENT_BYTES for body in not_there)
    return Figure(
        f"{count} scattered differences in {stage.count:,}, first sync: bytes",
        "B",
        size,
        floor,
        "the frames of these events alone",
        Rule.AT_MOST,
        floor + 100_000,
    )


@contextmanager
def _proxied(stage: Stage, events: Sequence[bytes]) -> Iterator[CountingProxy]:
    """A relay that holds these events, behind a proxy."""
    with child.running("relay", stage.path("relay"), stage.port) as url:
        with RawSocket(url) as connection:
            connection.publish(events)
        with closing(CountingProxy(url)) as proxy:
            yield proxy


async def _sync_again(stage: Stage, proxy: CountingProxy) -> list[tuple[int, float]]:
    """Bytes and seconds of each further sync, once a store is connected and in step."""
    runs = []
    ledger = stage.path("in-step")
    async with MemoryStore(stage.signer, [proxy.url], ledger=ledger, background=False) as store:
        await store.sync()
        for _ in range(max(stage.repeat, _SYNC_COUNT)):
            before, begun = proxy.bytes, time.perf_counter()
            report = await store.sync()
            runs.append((proxy.bytes - before, time.perf_counter() - begun))
            if not report.in_step:
                raise RuntimeError("not in step")
    return runs


async def _sync_apart(stage: Stage, proxy: CountingProxy, lines: bytes) -> int:
    """The bytes of the sync that brings a ledger of these events (JSON lines) in step."""
    ledger = stage.path("apart")
    async with MemoryStore(stage.signer, [proxy.url], ledger=ledger, background=False) as store:
        export = ledger.with_suffix(".jsonl")
        export.write_bytes(lines)
        await store.import_(export)
        before = proxy.bytes
        report = await store.sync()
        size = proxy.bytes - before
        if not report.in_step or len(await store.recall_all()) != stage.count:
            raise RuntimeError("not in step")
    return size


def _raw_round(stage: Stage, proxy: CountingProxy) -> tuple[int, float]:
    with RawSocket(proxy.url) as connection:
        before, begun = proxy.bytes, time.perf_counter()
        connection.request([{"authors": [stage.raw_key.public_key], "kinds": [1]}])
        return proxy.bytes - before, time.perf_counter() - begun
