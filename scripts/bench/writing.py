"""The time until a memory is durable: one memory, and thousands."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

import orjson

from sense_memory import MemoryStore

from .figure import Figure, Rule
from .raw_ledger import RawLedger
from .stage import in_turn


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .stage import Stage

_DELETED_COUNT = 32  # memories that one deletion request names
_SINGLE_COUNT = 200  # writes one by one in each repetition


def measure(stage: Stage) -> list[Figure]:
    """The figures of writing."""
    return [_one(stage), _many(stage), _rewriting(stage), _forgetting(stage)]


def _one(stage: Stage) -> Figure:
    stage.say("remember, one by one")
    pairs = stage.pairs[:_SINGLE_COUNT]
    value, floor = in_turn(
        stage.repeat, lambda: asyncio.run(_remember_each(stage, pairs)), lambda: _write_each(stage, pairs)
    )
    return Figure(
        "remember until durable, p50",
        "ms",
        value * 1e3,
        floor * 1e3,
        "sign + seal + one SQLite commit, same schema",
        Rule.RATIO,
        2.0,
    )


def _many(stage: Stage) -> Figure:
    stage.say(f"remember_many({stage.count:,})")
    value, floor = in_turn(stage.repeat, lambda: asyncio.run(_remember_all(stage)), lambda: _write_all(stage))
    return Figure(
        f"remember_many({stage.count:,})",
        "s",
        value,
        floor,
        "sign + seal + open-to-check + one bulk insert, same schema",
        Rule.RATIO,
        1.5,
    )


def _rewriting(stage: Stage) -> Figure:
    stage.say(f"{stage.count:,} rewrites of one key")
    value, floor = in_turn(1, lambda: asyncio.run(_rewrite(stage)), lambda: _rewrite_raw(stage))
    return Figure(
        f"{stage.count:,} rewrites of one key, each",
        "ms",
        value / stage.count * 1e3,
        floor / stage.count * 1e3,
        "sign + seal + one SQLite commit that keeps the one before",
        Rule.RATIO,
        2.0,
    )


def _forgetting(stage: Stage) -> Figure:
    stage.say(f"forget_many({stage.count:,})")
    value, floor = in_turn(
        stage.repeat,
        lambda: asyncio.run(_forget_all(stage, stage.filled())),
        lambda: _forget_raw(stage, stage.filled()),
    )
    return Figure(
        f"forget_many({stage.count:,}), each",
        "ms",
        value / stage.count * 1e3,
        floor / stage.count * 1e3,
        "sign + seal a tombstone, one request for 32, one SQLite commit for both",
        Rule.AT_MOST,
        2.0,
    )


async def _rewrite(stage: Stage) -> float:
    path = stage.path("rewritten")
    async with MemoryStore(
        stage.signer, [stage.relay], ledger=path, background=False, snapshot=False
    ) as store:
        begun = time.perf_counter()
        for number, (_, value) in enumerate(stage.pairs):
            await store.remember("counter", f"{number} {value}")
        return time.perf_counter() - begun


def _rewrite_raw(stage: Stage) -> float:
    ledger = RawLedger(stage.path("raw-rewritten"), stage.signer, stage.relay)
    begun = time.perf_counter()
    for number, (_, value) in enumerate(stage.pairs):
        ledger.replace(row(stage, "counter", f"{number} {value}", int(time.time())))
    took = time.perf_counter() - begun
    ledger.close()
    return took


async def _forget_all(stage: Stage, path: Path) -> float:
    async with MemoryStore(
        stage.signer, [stage.relay], ledger=path, background=False, snapshot=False
    ) as store:
        begun = time.perf_counter()
        await store.forget_many(key for key, _ in stage.pairs)
        return time.perf_counter() - begun


def _forget_raw(stage: Stage, path: Path) -> float:
    ledger = RawLedger(path, stage.signer, stage.relay)
    begun, now = time.perf_counter(), int(time.time())
    for start in range(0, stage.count, _DELETED_COUNT):
        batch = stage.pairs[start : start + _DELETED_COUNT]
        graves = [row(stage, key, "", now) for key, _ in batch]
        ident, body = stage.raw_key.event(now, "", " ".join(ident.hex() for ident, *_ in graves))
        ledger.bury(graves, (ident, f"#{ident.hex()}", now, body))
    took = time.perf_counter() - begun
    ledger.close()
    return took


async def _remember_each(stage: Stage, pairs: Sequence[tuple[str, str]]) -> float:
    times = []
    async with MemoryStore(stage.signer, [stage.relay], ledger=stage.path("one"), background=False) as store:
        for key, value in pairs:
            begun = time.perf_counter()
            await store.remember(key, value)
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _write_each(stage: Stage, pairs: Sequence[tuple[str, str]]) -> float:
    times = []
    ledger = RawLedger(stage.path("raw-one"), stage.signer, stage.relay)
    for key, value in pairs:
        begun = time.perf_counter()
        ledger.insert([row(stage, key, value, int(time.time()))])
        times.append(time.perf_counter() - begun)
    ledger.close()
    return statistics.median(times)


async def _remember_all(stage: Stage) -> float:
    async with MemoryStore(stage.signer, [stage.relay], ledger=stage.path("many"), background=False) as store:
        begun = time.perf_counter()
        await store.remember_many(stage.pairs)
        return time.perf_counter() - begun


def _write_all(stage: Stage) -> float:
    ledger = RawLedger(stage.path("raw-many"), stage.signer, stage.relay)
    begun = time.perf_counter()
    now = int(time.time())
    ledger.insert(
        [row(stage, key, value, now - i // 200, check=True) for i, (key, value) in enumerate(stage.pairs)]
    )
    took = time.perf_counter() - begun
    ledger.close()
    return took


def row(
    stage: Stage, key: str, value: str, now: int, *, check: bool = False
) -> tuple[bytes, str, int, bytes]:
    """A memory, sealed and signed, as a row of the ledger."""
    plaintext = orjson.dumps({"type": "sense-memory:kv", "key": key, "value": value, "ts": time.time()})
    content = stage.raw_key.seal(plaintext)
    if check and stage.raw_key.open(content) != plaintext:
        raise ValueError("sealed something else")
    slot = f"sense-memory/{key}"
    ident, body = stage.raw_key.event(now, slot, content)
    return ident, slot, now, body
