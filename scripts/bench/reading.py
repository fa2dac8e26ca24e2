"""How fast a store answers: warm, and just opened."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from contextlib import closing
from typing import TYPE_CHECKING

import orjson
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory import MemoryStore

from .figure import Figure, Rule
from .raw_ledger import HEAD, head, heads
from .stage import in_turn


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .stage import Stage

_RECALL_COUNT = 2_000  # single recalls in each repetition


def measure(stage: Stage) -> list[Figure]:
    """The figures of reading."""
    path = stage.filled()
    keys = [key for key, _ in stage.pairs]
    wanted = (keys * (1 + _RECALL_COUNT // len(keys)))[:_RECALL_COUNT]
    return [
        _warm(stage, path, wanted),
        _first(stage, path, keys[len(keys) // 2]),
        _everything(stage, path),
        _from_snapshot(stage, path),
    ]


def _warm(stage: Stage, path: Path, wanted: Sequence[str]) -> Figure:
    stage.say("recall, warm")
    value, floor = in_turn(
        stage.repeat, lambda: asyncio.run(_recall_each(stage, path, wanted)), lambda: _look_up(path, wanted)
    )
    return Figure(
        f"recall(key), {stage.count:,} open and warm, p50",
        "µs",
        value * 1e6,
        floor * 1e6,
        "one SELECT of the head, nothing decrypted",
        Rule.AT_MOST,
        30,
    )


def _first(stage: Stage, path: Path, key: str) -> Figure:
    stage.say("cold open to the first recall")
    value, floor = in_turn(
        max(stage.repeat, 5),
        lambda: asyncio.run(_open_and_recall(stage, path, key)),
        lambda: _open_and_decrypt(stage, path, key),
    )
    return Figure(
        f"cold open to first recall, {stage.count:,}",
        "ms",
        value * 1e3,
        floor * 1e3,
        "connect + one SELECT + decrypt + parse",
        Rule.AT_MOST,
        50,
    )


def _everything(stage: Stage, path: Path) -> Figure:
    stage.say("cold open with everything decoded")
    value, floor = in_turn(
        stage.repeat,
        lambda: asyncio.run(_open_and_recall_all(stage, path, snapshot=False)),
        lambda: _decrypt_all(stage, path),
    )
    return Figure(
        f"cold open, {stage.count:,} decoded, no snapshot",
        "s",
        value,
        floor,
        "connect + one SELECT + decrypt + parse",
        Rule.RATIO,
        1.3,
    )


def _from_snapshot(stage: Stage, path: Path) -> Figure:
    stage.say("cold open from the snapshot")
    asyncio.run(_open_and_recall_all(stage, path, snapshot=True))  # makes it
    file, cipher = stage.path("rows"), ChaCha20Poly1305(ChaCha20Poly1305.generate_key())
    rows = [orjson.loads(stage.raw_key.open(orjson.loads(body)["content"])) for body in heads(path)]
    file.write_bytes(cipher.encrypt(bytes(12), orjson.dumps(rows), b""))
    value, floor = in_turn(
        max(stage.repeat, 5),
        lambda: asyncio.run(_open_and_recall_all(stage, path, snapshot=True)),
        lambda: _decrypt_file(file, cipher),
    )
    return Figure(
        f"cold open, {stage.count:,} decoded, from the snapshot",
        "s",
        value,
        floor,
        "read + decrypt + parse one file of the same records",
        Rule.AT_MOST,
        0.15,
    )


async def _recall_each(stage: Stage, path: Path, wanted: Sequence[str]) -> float:
    times = []
    async with MemoryStore(stage.signer, ledger=path) as store:
        await store.recall_all()
        for key in wanted:
            begun = time.perf_counter()
            await store.recall(key)
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _look_up(path: Path, wanted: Sequence[str]) -> float:
    times = []
    with closing(sqlite3.connect(path)) as sql:
        for key in wanted:
            begun = time.perf_counter()
            sql.execute(HEAD, (f"sense-memory/{key}",)).fetchone()
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


async def _open_and_recall(stage: Stage, path: Path, key: str) -> float:
    begun = time.perf_counter()
    async with MemoryStore(stage.signer, ledger=path) as store:
        found = await store.recall(key)
        took = time.perf_counter() - begun
    if found is None:
        raise RuntimeError("a memory is gone")
    return took


def _open_and_decrypt(stage: Stage, path: Path, key: str) -> float:
    begun = time.perf_counter()
    orjson.loads(stage.raw_key.open(orjson.loads(head(path, f"sense-memory/{key}"))["content"]))
    return time.perf_counter() - begun


async def _open_and_recall_all(stage: Stage, path: Path, *, snapshot: bool) -> float:
    begun = time.perf_counter()
    async with MemoryStore(stage.signer, ledger=path, snapshot=snapshot) as store:
        found = await store.recall_all()
        took = time.perf_counter() - begun
    if len(found) != stage.count:
        raise RuntimeError("memories are gone")
    return took


def _decrypt_all(stage: Stage, path: Path) -> float:
    begun = time.perf_counter()
    texts = {}
    for body in heads(path):
        fields = orjson.loads(stage.raw_key.open(orjson.loads(body)["content"]))
        texts[fields["key"]] = fields
    return time.perf_counter() - begun


def _decrypt_file(file: Path, cipher: ChaCha20Poly1305) -> float:
    begun = time.perf_counter()
    texts = {}
    for fields in orjson.loads(cipher.decrypt(bytes(12), file.read_bytes(), b"")):
        texts[fields["key"]] = fields
    return time.perf_counter() - begun
