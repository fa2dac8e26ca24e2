"""The log of the mind: an append, its pages on a relay, a restore, and what is asked of it at every turn.

`python -m scripts.bench.log` prints the table of page sizes that `LOG_PAGE_BYTES` was chosen by.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

import sense_memory.limits
import sense_memory.mind.log
import sense_memory.nostr.address
from sense_memory import MemoryStore
from sense_memory.mind import ContextBuilder, LogEntry, NewEntry, SalienceMemory

from . import child
from .figure import Figure, Rule
from .insights import insights, queries
from .stage import Stage


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SIZES: Final = (4_096, 8_192, 16_384, 32_768)
MESSAGES_PER_MEMORY: Final = 10  # of a run's `count`: 100,000 messages by default
_APPENDS_COUNT: Final = 300
_ASKED_COUNT: Final = 200
_COMPILED_COUNT: Final = 200
_TURNS_COUNT: Final = 100
_CONTEXT_COUNT: Final = 500
_HOURS: Final = 8
_EPOCH: Final = 1_790_000_000.0
_BUDGET_TOKENS: Final = 2_000
_SCENE: Final = "Where does Kaja live?"


def measure(stage: Stage) -> list[Figure]:
    """The figures of the log."""
    restored, events = _restoring(
        stage, stage.count * MESSAGES_PER_MEMORY, sense_memory.limits.LOG_PAGE_BYTES
    )
    turns = [turn(stage, count) for count in (stage.count // 10, stage.count)]
    return [_append(stage), restored, events, *_asking(stage), *turns, _context(stage)]


# ── Appending ───────────────────────────────────────────────────────────────────────────


def _append(stage: Stage) -> Figure:
    stage.say("appending to the log, one by one")
    value, floor = asyncio.run(_appends(stage))
    return Figure(
        "append to the log until durable, p50",
        "ms",
        value * 1e3,
        floor * 1e3,
        "seal + one SQLite insert and commit",
        Rule.RATIO,
        2.0,
    )


async def _appends(stage: Stage) -> tuple[float, float]:
    """The medians of an append and of its floor, which take turns one by one."""
    texts = messages(stage.seed, _APPENDS_COUNT)
    times, floors = [], []
    raw = _RawRows(stage.path("raw-rows"))
    async with MemoryStore(stage.signer, ledger=stage.path("appended"), background=False) as store:
        log = store.mind.log
        await log.append("message.user", {"text": "the first makes the key"}, actor="ann")
        for number, text in enumerate(texts):
            begun = time.perf_counter()
            entry = await log.append("message.user", {"text": text}, actor="ann", conversation="c")
            between = time.perf_counter()
            raw.add([entry.id, entry.at, entry.kind, entry.actor, None, "c", {"text": text}])
            times.append(between - begun)
            floors.append(time.perf_counter() - between)
            if number % 10 == 9:  # as `_flush_soon` does, so that the rows do not pile up
                await log.flush()
    raw.close()
    return statistics.median(times), statistics.median(floors)


class _RawRows:
    """Sealed rows in a file of their own, with the settings of a ledger."""

    def __init__(self, path: Path) -> None:
        self._sql = sqlite3.connect(path, isolation_level=None)
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "secure_delete = ON",
        ):
            self._sql.execute(f"PRAGMA {pragma}")
        self._sql.execute("CREATE TABLE log_rows (row INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)")
        self._cipher = ChaCha20Poly1305(os.urandom(32))

    def add(self, row: Sequence[Any]) -> None:
        nonce = os.urandom(12)
        body = nonce + self._cipher.encrypt(nonce, orjson.dumps(row), b"log")
        self._sql.execute("BEGIN IMMEDIATE")
        self._sql.execute("INSERT INTO log_rows (body) VALUES (?)", (body,))
        self._sql.execute("COMMIT")

    def close(self) -> None:
        self._sql.close()


# ── Restoring ───────────────────────────────────────────────────────────────────────────


def _restoring(stage: Stage, count: int, page: int) -> tuple[Figure, Figure]:
    stage.say(f"restoring {count:,} messages, pages of {page:,} bytes")
    seconds, events = _restored(stage, count, page)
    share = count / 100_000
    return (
        Figure(
            f"restore {count:,} messages",
            "s",
            seconds,
            max(share, 1e-3),
            "10 µs for each message",
            Rule.AT_MOST,
            max(15.0 * share, 1.0),
        ),
        Figure(
            f"messages for each event, {count:,}",
            "",
            count / events,
            1.0,
            "an event for each message",
            Rule.AT_LEAST,
            30.0,
        ),
    )


def _restored(stage: Stage, count: int, page: int) -> tuple[float, int]:
    """Seconds until a bare machine has every message from a relay, and the events on that relay."""
    with _PagesOf(page), child.running("relay", stage.path("relay"), stage.port):
        events = asyncio.run(_send(stage, count))
        return asyncio.run(_restore(stage, count)), events


async def _send(stage: Stage, count: int) -> int:
    path = stage.path("log")
    async with MemoryStore(stage.signer, [stage.relay], ledger=path, background=False) as store:
        await _write(store, messages(stage.seed, count))
        report = await store.sync()
        if not report.complete:
            raise RuntimeError("the relay did not take the log")
        return len(store.mind.store.ledger.heads.seqs_beneath(sense_memory.nostr.address.LOG_PAGES))


async def _restore(stage: Stage, count: int) -> float:
    path = stage.path("bare")
    begun = time.perf_counter()
    async with MemoryStore(stage.signer, [stage.relay], ledger=path, background=False) as store:
        await store.sync()
        found = len(await store.mind.log.entries())
        seconds = time.perf_counter() - begun
    if found != count:
        raise RuntimeError(f"{found:,} of {count:,} messages came back")
    return seconds


async def _write(store: MemoryStore, texts: Sequence[str]) -> None:
    """Messages a minute apart, the newest now."""
    await store.mind.log.append_many(
        [
            NewEntry("message.user", {"text": text}, "ann", conversation="c", at=_EPOCH + 60.0 * number)
            for number, text in enumerate(texts)
        ]
    )
    await store.mind.flush()


# ── Asking ──────────────────────────────────────────────────────────────────────────────


def _asking(stage: Stage) -> list[Figure]:
    count = stage.count * MESSAGES_PER_MEMORY
    stage.say(f"conversation_search among {count:,}")
    searched, compiled = asyncio.run(_asked(stage, count))
    floor = "the ten highest of as many scores"
    share = max(1.0, count / 100_000)
    return [
        Figure(
            f"conversation_search among {count:,}, p50",
            "ms",
            searched * 1e3,
            _highest(count) * 1e3,
            floor,
            Rule.AT_MOST,
            20.0 * share,
        ),
        Figure("compile the blocks, p50", "ms", compiled * 1e3, 0.001, "one microsecond", Rule.AT_MOST, 1.0),
    ]


async def _asked(stage: Stage, count: int) -> tuple[float, float]:
    async with MemoryStore(stage.signer, ledger=":memory:", background=False, snapshot=False) as store:
        await _write(store, messages(stage.seed, count))
        search = partial(store.mind.search, within=("conversation",))
        asked = queries(stage.seed, count, _ASKED_COUNT)
        await search(asked[0])
        searched = [await _seconds(partial(search, query)) for query in asked]
        await store.mind.blocks.compile()
        compiled = [await _seconds(store.mind.blocks.compile) for _ in range(_COMPILED_COUNT)]
    return statistics.median(searched), statistics.median(compiled)


def turn(stage: Stage, count: int) -> Figure:
    """What a turn of a chat costs in a long conversation: a message is added, and the context is read and counted."""
    stage.say(f"a turn of a chat among {count:,} messages")
    value, floor = asyncio.run(_turns(stage, count))
    return Figure(
        f"a turn of a chat among {count:,} messages, CPU, p50",
        "ms",
        value * 1e3,
        floor * 1e3,
        "seal + one SQLite insert and commit, and a list of the messages in context",
        Rule.AT_MOST,
        5.0,
    )


async def _turns(stage: Stage, count: int) -> tuple[float, float]:
    """The medians of the CPU seconds of a turn and of its floor, which take turns one by one."""
    texts, raw, times, floors = messages(stage.seed, count), _RawRows(stage.path("raw-rows")), [], []
    async with MemoryStore(stage.signer, ledger=stage.path("turns"), background=False) as store:
        await store.mind.log.append_many(
            [NewEntry("message.user", {"content": text}, "user", conversation="c") for text in texts]
        )
        await store.mind.flush()
        chat = store.mind.conversation("c")
        await chat.set_message_ids([said.id for said in await chat.messages(_CONTEXT_COUNT)])
        for text in texts[:_TURNS_COUNT]:
            begun = time.thread_time()
            said = await chat.add("user", text)
            context = await chat.as_messages()
            await chat.tokens()
            between = time.thread_time()
            raw.add([said.id, said.at, "message.user", "user", None, "c", {"content": text}])
            [{"role": message["role"], "content": message["content"]} for message in context]
            times.append(between - begun)
            floors.append(time.thread_time() - between)
    raw.close()
    return statistics.median(times), statistics.median(floors)


def _context(stage: Stage) -> Figure:
    stage.say(f"a context from {stage.count:,} entries")
    entries = [
        LogEntry(str(number), "agent.spoke", "ann", {"text": text}, _EPOCH + number, number // 3)
        for number, text in enumerate(messages(stage.seed, stage.count))
    ]
    memory, builder = SalienceMemory("ann", top_k=20), ContextBuilder(_BUDGET_TOKENS)
    times = []
    choose = partial(memory.visible, scene=_SCENE)
    for _ in range(20):
        begun = time.thread_time()
        builder.build(entries, identity="a baker", scene=_SCENE, memory=choose)
        times.append(time.thread_time() - begun)
    return Figure(
        f"a context from {stage.count:,} entries, p50",
        "ms",
        statistics.median(times) * 1e3,
        _highest(stage.count) * 1e3,
        "the ten highest of as many scores",
        Rule.AT_MOST,
        20.0 * max(1.0, stage.count / 10_000),
    )


def _highest(count: int) -> float:
    scores = np.random.default_rng(1).random(count)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        np.argpartition(scores, -min(10, count))
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


async def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


def messages(seed: int, count: int) -> list[str]:
    """Texts as people and agents write them: one to four notes, 180 characters in the middle."""
    dice = random.Random(seed)  # noqa: S311 - texts, not secrets
    notes = [fields["value"] for fields in insights(seed, min(count, 20_000), 0.0)]
    return [" ".join(dice.choices(notes, k=dice.randint(1, 4))) for _ in range(count)]


# ── The table of page sizes ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sent:
    """What a conversation cost.

    Attributes:
        sent: bytes of all events that were sent, versions of one page included.
        flushes: how often the log was flushed.
        events: on the relay in the end.
    """

    sent: int
    flushes: int
    events: int


def arrivals(per_minute: float, count: int) -> list[float]:
    """The seconds at which messages arrive, evenly."""
    return [60.0 * number / per_minute for number in range(count)]


def flushes(times: Sequence[float], sizes: Sequence[int], page: int) -> Iterator[int]:
    """After how many messages the log is flushed each time, by the rule of `Mind`: quiet, waited, or a page is full."""
    first = 0
    for number, at in enumerate(times):
        following = times[number + 1] if number + 1 < len(times) else float("inf")
        latest = times[first] + sense_memory.limits.LOG_WAIT_SECONDS
        is_full = sum(sizes[first : number + 1]) >= page and following > at  # looked at once a second
        due = at if is_full else min(at + sense_memory.limits.LOG_QUIET_SECONDS, latest)
        if following > due or (is_full and int(following) > int(at)):
            yield number + 1
            first = number + 1


async def _converse(stage: Stage, times: Sequence[float], page: int) -> Sent:
    texts = messages(stage.seed, len(times))
    sizes = [len(text) + 100 for text in texts]
    sent = done = count = 0
    path = stage.path("talk")
    async with MemoryStore(stage.signer, ledger=path, background=False, snapshot=False) as store:
        ledger, seen = store.mind.store.ledger, set[int]()
        for until in flushes(times, sizes, page):
            await store.mind.log.append_many(
                [
                    NewEntry("message.user", {"text": text}, "ann", conversation="c")
                    for text in texts[done:until]
                ]
            )
            await store.mind.flush()
            done, count = until, count + 1
            heads = ledger.heads.seqs_beneath(sense_memory.nostr.address.LOG_PAGES)
            sent += sum(len(ledger.versions(slot)[0].body) for slot, seq in heads if seq not in seen)
            seen |= {seq for _, seq in heads}
        return Sent(sent, count, len(heads))


class _PagesOf:
    """Pages of another size, within a `with`."""

    def __init__(self, page: int) -> None:
        self._page = page

    def __enter__(self) -> None:
        self._set(self._page)

    def __exit__(self, *_: object) -> None:
        self._set(sense_memory.limits.LOG_PAGE_BYTES)

    @staticmethod
    def _set(page: int) -> None:
        vars(sense_memory.mind.log)["LOG_PAGE_BYTES"] = page


def main() -> None:
    """Print the table of page sizes."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    minutes = 60 * _HOURS
    talks = {
        "slow": arrivals(1, minutes),
        "fast": arrivals(5, 5 * minutes),
        "burst": arrivals(1_200, 1_000),
    }
    print("| page | " + " | ".join(f"{name}: MB sent, flushes, events" for name in talks), end="")
    print(f" | events of {count:,} | restored in |\n|{'---|' * (len(talks) + 3)}")
    with tempfile.TemporaryDirectory(prefix="sense-memory-bench-") as folder:
        stage = Stage(Path(folder), count // MESSAGES_PER_MEMORY, 1, 1, lambda _: None)
        for page in SIZES:
            with _PagesOf(page):
                costs = [asyncio.run(_converse(stage, times, page)) for times in talks.values()]
            seconds, events = _restored(stage, count, page)
            parts = [f"{cost.sent / 1e6:.2f}, {cost.flushes:,}, {cost.events:,}" for cost in costs]
            print(f"| {page:,} B | {' | '.join(parts)} | {events:,} | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
