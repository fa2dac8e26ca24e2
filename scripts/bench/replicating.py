"""Relays: publishing and restoring, and the rates of the embedded relay on one connection."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson

from sense_memory import MemoryStore

from . import child
from .figure import Figure, Rule
from .raw_ledger import RawLedger
from .raw_socket import RawSocket
from .stage import in_turn


if TYPE_CHECKING:
    from .stage import Stage

_FILTER_COUNT = 5_000  # events that the embedded relay answers one filter with
_ASKED_COUNT = 5  # times that everything is asked for, at least


def measure(stage: Stage) -> list[Figure]:
    """The figures of relays."""
    publish = publishing(stage)
    return [publish, restoring(stage), _taken(stage, stage.count / publish.floor), _given(stage)]


def publishing(stage: Stage) -> Figure:
    """A store's queue to an empty relay, over the raw socket."""
    stage.say(f"publishing {stage.count:,}")
    events = stage.events
    value, floor = in_turn(stage.repeat, lambda: _publish(stage), lambda: _raw_publish(stage, events))
    return Figure(
        f"publish {stage.count:,}",
        "s",
        value,
        floor,
        "raw socket, 500 in flight, events signed before",
        Rule.RATIO,
        1.3,
    )


def restoring(stage: Stage) -> Figure:
    """An empty ledger filled from a relay."""
    stage.say(f"restoring {stage.count:,}")
    with child.running("relay", stage.path("relay"), stage.port) as url:
        with RawSocket(url) as connection:
            connection.publish(stage.events)
        value, floor = in_turn(
            stage.repeat, lambda: asyncio.run(_restore(stage)), lambda: _raw_restore(stage, url)
        )
    return Figure(
        f"restore {stage.count:,}, verified and decrypted",
        "s",
        value,
        floor,
        "raw fetch + verify + insert, same schema + decrypt + parse",
        Rule.RATIO,
        1.5,
    )


def _publish(stage: Stage) -> float:
    with child.running("relay", stage.path("relay"), stage.port):
        return asyncio.run(_sync(stage))


async def _sync(stage: Stage) -> float:
    async with MemoryStore(stage.signer, [stage.relay], ledger=stage.filled(), background=False) as store:
        begun = time.perf_counter()
        report = await store.sync()
        took = time.perf_counter() - begun
        if not report.in_step:
            raise RuntimeError("publishing failed")
    return took


def _raw_publish(stage: Stage, events: list[bytes]) -> float:
    with child.running("relay", stage.path("relay"), stage.port) as url:
        begun = time.perf_counter()
        with RawSocket(url) as connection:
            accepted = connection.publish(events)
        took = time.perf_counter() - begun
    if accepted != len(events):
        raise RuntimeError("the relay refused something")
    return took


async def _restore(stage: Stage) -> float:
    async with MemoryStore(
        stage.signer, [stage.relay], ledger=stage.path("restored"), background=False
    ) as store:
        begun = time.perf_counter()
        await store.sync()
        took = time.perf_counter() - begun
        if len(await store.recall_all()) != stage.count:
            raise RuntimeError("restoring failed")
    return took


def _raw_restore(stage: Stage, url: str) -> float:
    ledger = RawLedger(stage.path("raw-restored"), stage.signer, stage.relay)
    begun = time.perf_counter()
    with RawSocket(url) as connection:
        events = connection.walk(stage.raw_key.public_key)
    if not all(map(stage.raw_key.is_good, events)):
        raise RuntimeError("the relay forges")
    ledger.insert(
        [
            (bytes.fromhex(event["id"]), event["tags"][0][1], event["created_at"], orjson.dumps(event))
            for event in events
        ],
        "confirmed",
    )
    records = [orjson.loads(stage.raw_key.open(event["content"])) for event in events]
    took = time.perf_counter() - begun
    ledger.close()
    if len(records) != stage.count:
        raise RuntimeError("the walk missed something")
    return took


def _taken(stage: Stage, rate: float) -> Figure:
    """The rate of events that the raw socket published; against the same work without a connection."""
    stage.say("the embedded relay, events in")
    events = stage.events
    seconds = statistics.median(_verify_and_insert(stage, events) for _ in range(stage.repeat))
    return Figure(
        "embedded relay, verified events in",
        "/s",
        rate,
        len(events) / seconds,
        "parse + verify + one bulk insert, no connection",
        Rule.AT_LEAST,
        5_000,
    )


def _verify_and_insert(stage: Stage, events: list[bytes]) -> float:
    with closing(RawLedger(stage.path("raw-in"), stage.signer, stage.relay)) as ledger:
        begun = time.perf_counter()
        rows = []
        for body in events:
            event = orjson.loads(body)
            if not stage.raw_key.is_good(event):
                raise RuntimeError("a bad event")
            rows.append((bytes.fromhex(event["id"]), event["tags"][0][1], event["created_at"], body))
        ledger.insert(rows)
        return time.perf_counter() - begun


def _given(stage: Stage) -> Figure:
    """One REQ for everything, over a server that sends the same bytes blindly."""
    stage.say("the embedded relay, events out")
    events = stage.events
    times = sorted(orjson.loads(body)["created_at"] for body in events)
    # A filter is answered with 5,000 events at most, so everything is asked for in slices of time.
    edges = [*times[:: _FILTER_COUNT - 1_000], times[-1] + 1]
    filters = [
        {"authors": [stage.raw_key.public_key], "since": since, "until": until - 1}
        for since, until in pairwise(edges)
    ]
    frames = [b'["EVENT","raw",' + body + b"]" for body in events] + [b'["EOSE","raw"]']
    path = stage.path("stream")
    path.write_bytes(b"".join(b"\x81\x7e" + len(frame).to_bytes(2, "big") + frame for frame in frames))
    with child.running("relay", stage.path("relay"), stage.port) as url:
        with RawSocket(url) as connection:
            connection.publish(events)
        value, floor = in_turn(
            max(stage.repeat, _ASKED_COUNT),
            lambda: _ask(url, filters, stage.count),
            lambda: _stream(path, stage.count),
        )
    return Figure(
        "embedded relay, events out",
        "/s",
        stage.count / value,
        stage.count / floor,
        "the same bytes sent blindly to the same reader",
        Rule.AT_LEAST,
        50_000,
    )


def _ask(url: str, filters: list[dict[str, object]], count: int) -> float:
    with RawSocket(url) as connection:
        begun = time.perf_counter()
        found = len(connection.request(filters))
        took = time.perf_counter() - begun
    if found != count:
        raise RuntimeError(f"{found} events came instead of {count}")
    return took


def _stream(path: object, count: int) -> float:
    with child.running("stream", path) as url:
        return _ask(url, [{}], count)
