"""What a mind costs that has much to remember: its first search, a recall after an insert, and a thought by rules.

All figures are processor time of this process, with the task that makes the index.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING, Final

from sense_memory import MemoryStore
from sense_memory.mind import NewEntry

from .figure import Figure, Rule
from .insights import queries
from .log import MESSAGES_PER_MEMORY, messages


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .stage import Stage

_BATCH_COUNT: Final = 500  # passages written at once
_ASKED_COUNT: Final = 20
_PER_THOUGHT: Final = 10  # of a run's `count`: 1,000 thoughts by default
# Thoughts of which a cost is the median; the first so many are not counted, because summaries grow.
_FEW_COUNT: Final = 50


def measure(stage: Stage) -> list[Figure]:
    """The figures of a large mind."""
    return [*asyncio.run(_first_search(stage)), asyncio.run(_recalls(stage)), asyncio.run(_thoughts(stage))]


async def _first_search(stage: Stage) -> list[Figure]:
    count = stage.count * MESSAGES_PER_MEMORY
    stage.say(f"the first search of the mind among {count:,}")
    texts, query = messages(stage.seed, count), queries(stage.seed, count, 1)[0]
    async with MemoryStore(stage.signer, ledger=":memory:", snapshot=False) as store:
        new = [NewEntry("message.user", {"text": text}, "ann", conversation="c") for text in texts]
        await store.mind.log.append_many(new)
        await store.mind.flush()
        await store.mind.log.entries()
        found = []

        async def search() -> None:
            found.extend(await store.mind.search(query))

        seconds = await _cpu(search)
        index = await _cpu(store.mind.warm)
    if not found:
        raise RuntimeError("nothing is found")
    share, floor, name = max(1.0, count / 100_000), _split(texts), "splits the texts"
    return [
        Figure(
            f"the first search of the mind among {count:,}",
            "s",
            seconds,
            floor,
            name,
            Rule.AT_MOST,
            1.5 * share,
        ),
        Figure(
            f"making the rest of its index, {count:,}", "s", index, floor, name, Rule.AT_MOST, 8.0 * share
        ),
    ]


async def _recalls(stage: Stage) -> Figure:
    stage.say(f"recalls after inserts among {stage.count:,}")
    async with MemoryStore(
        stage.signer, ledger=stage.path("archive"), background=False, snapshot=False
    ) as store:
        await _fill(store, messages(stage.seed, stage.count))
        await store.mind.recall("bread")
        times = []
        for number in range(_ASKED_COUNT):
            await store.mind.archive.insert(f"The {number}th loaf was the best.")
            times.append(await _cpu(lambda: store.mind.recall("bread")))
    return Figure(
        f"a recall after an insert among {stage.count:,}, p50",
        "ms", statistics.median(times) * 1e3, 1.0, "one millisecond", Rule.AT_MOST, 10.0,
    )  # fmt: skip


async def _fill(store: MemoryStore, texts: list[str]) -> None:
    for first in range(0, len(texts), _BATCH_COUNT):
        part = enumerate(texts[first : first + _BATCH_COUNT], first)
        await store.mind.records.write(
            {f"mind/archive/{number:016x}": {"content": text, "ts": float(number)} for number, text in part}
        )


async def _thoughts(stage: Stage) -> Figure:
    count = max(3 * _FEW_COUNT, stage.count // _PER_THOUGHT)
    stage.say(f"{count:,} thoughts")
    times = []
    async with MemoryStore(
        stage.signer, ledger=stage.path("thoughts"), background=False, snapshot=False
    ) as store:
        for text in messages(stage.seed, count):
            entry = await store.mind.log.append("agent.output", {"text": text}, actor="me")
            times.append(await _cpu(lambda: store.mind.store_thought(entry)))  # noqa: B023
    return Figure(
        f"a thought by rules after {count:,} others, p50", "ms",
        statistics.median(times[-_FEW_COUNT:]) * 1e3, statistics.median(times[_FEW_COUNT : 2 * _FEW_COUNT]) * 1e3,
        f"one after {_FEW_COUNT} others", Rule.RATIO, 1.5,
    )  # fmt: skip


async def _cpu(work: Callable[[], Awaitable[object]]) -> float:
    begun = time.process_time()
    await work()
    return time.process_time() - begun


def _split(texts: list[str]) -> float:
    begun = time.process_time()
    for text in texts:
        text.split()
    return time.process_time() - begun
