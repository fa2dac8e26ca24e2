"""The cost of one search over everything: through the index alone, through the store, and as a process."""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory import MemoryStore
from sense_memory.search import SearchIndex, SearchItem

from .figure import Figure, Rule
from .insights import insights, queries
from .stage import best_in_turn
from .starting import LIBRARIES, home_of, output_of, timed


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from .stage import Stage

_SEARCHES_COUNT: Final = 300
_PUTS_COUNT: Final = 3_000  # one by one: enough to include any deferred work
_ENTRIES_COUNT: Final = 200  # of the journal, beside the palace
_STARTS_COUNT: Final = 5  # processes; the best of them counts
_DAY: Final = 86_400.0
_WORD: Final = re.compile(r"\w+")


def measure(stage: Stage) -> list[Figure]:
    """The figures of searching."""
    asked = queries(stage.seed, stage.count, _SEARCHES_COUNT)
    path = _copy(stage)
    asyncio.run(_write_journal(stage, path))
    return [*_index(stage, asked), *_store(stage, path, asked), _command(stage, path, asked[0])]


def _index(stage: Stage, asked: Sequence[str]) -> list[Figure]:
    stage.say(f"an index of {stage.count:,}")
    index = SearchIndex()
    index.put_many(_items(stage.seed, stage.count, 0))
    times = sorted(_seconds(partial(index.search, query)) for query in asked)
    return [
        *_figures(stage, f"SearchIndex.search among {stage.count:,}", times, (1.0, 2.0)),
        *_puts(stage, index),
    ]


def _puts(stage: Stage, index: SearchIndex) -> list[Figure]:
    stage.say(f"items one by one, into an index of {stage.count:,}")
    times, floors = [], []
    for item in _items(stage.seed + 3, _PUTS_COUNT, stage.count):
        times.append(_seconds(partial(index.put, item), time.thread_time))
        floors.append(_seconds(lambda: Counter(_WORD.findall(item.text)), time.thread_time))  # noqa: B023
    name, floor_name = f"SearchIndex.put among {stage.count:,}", "its words, found and counted"
    mean, floor = statistics.mean(times) * 1e3, statistics.mean(floors) * 1e3
    return [
        Figure(f"{name}, mean", "ms", mean, floor, floor_name, Rule.AT_MOST, 1.0),
        Figure(f"{name}, the slowest", "ms", max(times) * 1e3, floor, floor_name, Rule.AT_MOST, 15.0),
    ]


def _items(seed: int, count: int, first: int) -> Iterator[SearchItem]:
    for number, fields in enumerate(insights(seed, count, 0.0), first):
        yield SearchItem(str(number), f"{fields['key']} {fields['value']}", number * _DAY / 40)


def _store(stage: Stage, path: Path, asked: Sequence[str]) -> list[Figure]:
    stage.say(f"search among {stage.count:,}, warm")
    times = sorted(asyncio.run(_search_each(stage, path, asked)))
    return _figures(stage, f"search among {stage.count:,}", times, (3.0, 6.0))


def _figures(stage: Stage, name: str, times: Sequence[float], limits: tuple[float, float]) -> list[Figure]:
    scores = np.random.default_rng(stage.seed).random(stage.count)
    floor = statistics.median(
        _seconds(lambda: np.argpartition(scores, -min(10, stage.count))) for _ in range(20)
    )
    share = max(1.0, stage.count / 10_000)
    values = {"p50": times[len(times) // 2], "p95": times[len(times) * 95 // 100]}
    return [
        Figure(
            f"{name}, {which}",
            "ms",
            value * 1e3,
            floor * 1e3,
            "the ten highest of as many scores",
            Rule.AT_MOST,
            limit * share,
        )
        for (which, value), limit in zip(values.items(), limits, strict=True)
    ]


def _command(stage: Stage, path: Path, query: str) -> Figure:
    stage.say("sense-memory search, as a process")
    home = {"SENSE_MEMORY_HOME": str(home_of(stage, path))}
    command = ["-m", "sense_memory", "search", query]
    output_of(command, home)  # the first search writes the index
    value, floor = best_in_turn(
        max(stage.repeat, _STARTS_COUNT),
        lambda: timed(command, home),
        lambda: timed(["-c", f"import typer, rich.console, numpy, {LIBRARIES}"], {}),
    )
    return Figure(
        f"sense-memory search, {stage.count:,}, one process, best",
        "s",
        value,
        floor,
        "an interpreter that imports the libraries and exits",
        Rule.AT_MOST,
        0.8 * max(1.0, stage.count / 10_000),
    )


def _copy(stage: Stage) -> Path:
    path, palace = stage.path("searched"), stage.palace()
    for file in palace.parent.glob(f"{palace.name}*"):
        shutil.copy(file, path.with_name(path.name + file.name.removeprefix(palace.name)))
    return path


async def _write_journal(stage: Stage, path: Path) -> None:
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        for fields in insights(stage.seed + 2, _ENTRIES_COUNT, 0.0):
            await store.journal(fields["value"])


async def _search_each(stage: Stage, path: Path, asked: Sequence[str]) -> list[float]:
    times, found = [], 0
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        await store.search(asked[0])
        for query in asked:
            begun = time.perf_counter()
            found += len(await store.search(query))
            times.append(time.perf_counter() - begun)
    if not found:
        raise RuntimeError("nothing is found")
    return times


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    begun = clock()
    work()
    return clock() - begun
