"""The cost of a hundred thousand memories, half in a palace and half flat: the first search, and processes.

Measured once, and only with `--large`, because making the memories takes a minute.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory import MemoryStore

from . import child, footprint, log, palace, replicating
from .figure import Figure, Rule
from .insights import queries
from .raw_ledger import heads
from .starting import LIBRARIES, home_of, timed


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .stage import Stage

COUNT: Final = 100_000
_STARTS_COUNT: Final = 3  # processes; the best of them counts
_IMPORTS: Final = f"import typer, rich.console, numpy, {LIBRARIES}"


def measure(stage: Stage) -> list[Figure]:
    """The figures of a large ledger."""
    path = stage.mixed()
    return [
        replicating.publishing(stage),
        replicating.restoring(stage),
        footprint.restoring(stage),
        *footprint.measure(stage),
        *palace.measure(stage),
        *first_search(stage, path),
        *processes(stage, path),
        log.turn(stage, stage.count),
    ]


def first_search(stage: Stage, path: Path) -> list[Figure]:
    """The cost of the first search in a ledger, and of waiting for other tasks meanwhile."""
    stage.say(f"the first search among {stage.count:,}")
    seconds, waited = asyncio.run(_search_first(stage, path))
    floor = _seconds(lambda: [_text_of(stage, body).split() for body in heads(path)])
    about: dict[str, Any] = {"floor_name": "decrypts, parses and splits the texts", "rule": Rule.AT_MOST}
    return [
        Figure(
            name=f"the first search among {stage.count:,}",
            unit="s", value=seconds, floor=floor, limit=13.5 * _share(stage), **about,
        ),
        Figure(
            name=f"the longest that other tasks wait meanwhile, {stage.count:,}",
            unit="ms", value=waited, floor=floor * 1e3, limit=500.0 * _share(stage), **about,
        ),
    ]  # fmt: skip


async def _search_first(stage: Stage, path: Path) -> tuple[float, float]:
    """The seconds of the search, and the longest wait of another task in milliseconds."""
    waited = last = 0.0

    async def other() -> None:
        nonlocal waited, last
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            waited, last = max(waited, now - last), now

    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        task = asyncio.create_task(other())
        begun = last = time.perf_counter()
        await store.index()
        hits = await store.search(queries(stage.seed, stage.count // 2, 1)[0])
        now = time.perf_counter()
        seconds, waited = now - begun, max(waited, now - last)  # also if the other task had no turn
        task.cancel()
    if not hits:
        raise RuntimeError("nothing was found")
    return seconds, waited * 1e3


def processes(stage: Stage, path: Path) -> list[Figure]:
    """The cost of a list and a search as processes, after one process has written a snapshot."""
    home, asked = home_of(stage, path), queries(stage.seed, stage.count // 2, 1)[0]
    return [
        *_process(stage, home, ("list",), 2.05, 243.0),
        *_process(stage, home, ("search", asked), 1.55, 302.0),
    ]


def _process(
    stage: Stage, home: Path, arguments: Sequence[str], seconds: float, megabytes: float
) -> list[Figure]:
    name = f"sense-memory {arguments[0]}, {stage.count:,}, one process"
    stage.say(name)
    command, variables = ("-m", "sense_memory", *arguments), {"SENSE_MEMORY_HOME": str(home)}
    timed(command, variables)
    return [
        Figure(
            f"{name}, best",
            "s",
            min(timed(command, variables) for _ in range(_STARTS_COUNT)),
            min(timed(["-c", _IMPORTS], {}) for _ in range(_STARTS_COUNT)),
            "an interpreter that imports the libraries and exits",
            Rule.AT_MOST,
            seconds * _share(stage),
        ),
        Figure(
            f"{name}, peak memory",
            "MB",
            child.asked("command", home, *arguments),
            child.asked("command", home, "--version"),
            "prints its version",
            Rule.AT_MOST,
            megabytes * _share(stage),
        ),
    ]


def _share(stage: Stage) -> float:
    return max(1.0, stage.count / COUNT)


def _text_of(stage: Stage, body: bytes) -> str:
    text: str = orjson.loads(stage.raw_key.open(orjson.loads(body)["content"]))["value"]
    return text


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
