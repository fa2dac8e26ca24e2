"""The cost of a palace through the store: writing, searching, loading, and views of the whole palace.

The palace is made of sealed and signed events, which are imported like those of another program, so that no store has
to write ten thousand memories one by one.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from sense_memory import MemoryStore

from . import child
from .figure import Figure, Rule
from .insights import insights, queries
from .raw_ledger import RawLedger
from .stage import best_in_turn, in_turn, sealed_insight
from .starting import LIBRARIES, home_of, output_of, timed


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from .stage import Stage

_SINGLE_COUNT: Final = 200  # writes, and searches, of each repetition
_ROUNDS_COUNT: Final = 40  # introspections, after which a palace of 10,000 is compared
_STARTS_COUNT: Final = 5  # processes; the best of them counts


def measure(stage: Stage) -> list[Figure]:
    """The figures of a palace."""
    path = stage.palace()
    asyncio.run(_open_and_search(stage, path, ""))  # writes a snapshot, as any store does
    return [
        _remember(stage, path),
        *_views(stage, path),
        _opening(stage, path),
        _command(stage, path),
        footprint(stage, path),
    ]


def footprint(stage: Stage, path: Path | None = None) -> Figure:
    """The memory of an open palace after a search."""
    stage.say(f"memory of a palace, {stage.count:,}")
    path = stage.palace() if path is None else path
    value, floor = in_turn(
        stage.repeat,
        lambda: child.asked("searched", path, stage.seed),
        lambda: child.asked("plain", path, stage.seed),
    )
    limit = 120.0 if stage.count <= 10_000 else 700.0 * max(1.0, stage.count / 100_000)
    return Figure(
        f"memory of a palace, {stage.count:,} open and indexed",
        "MB",
        value,
        floor,
        "the same texts in a dict, the same imports",
        Rule.AT_MOST,
        limit,
    )


# ── Writing ─────────────────────────────────────────────────────────────────────────────


def _remember(stage: Stage, path: Path) -> Figure:
    stage.say(f"persona_remember into {stage.count:,}")
    fresh = list(insights(stage.seed + 1, _SINGLE_COUNT, time.time()))
    value, floor = in_turn(
        stage.repeat,
        lambda: asyncio.run(_remember_each(stage, _copy(stage, path), fresh)),
        lambda: _write_each(stage, fresh),
    )
    return Figure(
        f"persona_remember into {stage.count:,}, p50",
        "ms",
        value * 1e3,
        floor * 1e3,
        "sign + seal + one SQLite commit, same schema",
        Rule.AT_MOST,
        3.0,
    )


async def _remember_each(stage: Stage, path: Path, fresh: Sequence[dict[str, Any]]) -> float:
    times = []
    async with MemoryStore(stage.signer, [stage.relay], ledger=path, background=False) as store:
        await store.persona_stats()
        for fields in fresh:
            place = fields["domain"], fields["facet"], f"new-{fields['key']}"
            begun = time.perf_counter()
            await store.persona_remember(*place, fields["value"], fields["themes"])
            times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _write_each(stage: Stage, fresh: Sequence[dict[str, Any]]) -> float:
    times = []
    ledger = RawLedger(stage.path("raw-palace"), stage.signer, stage.relay)
    for fields in fresh:
        begun = time.perf_counter()
        ledger.insert([sealed_insight(stage.raw_key, fields, int(time.time()))])
        times.append(time.perf_counter() - begun)
    ledger.close()
    return statistics.median(times)


# ── Views ───────────────────────────────────────────────────────────────────────────────


def _views(stage: Stage, path: Path) -> list[Figure]:
    stage.say(f"views of a palace, {stage.count:,}")
    return asyncio.run(_measure_views(stage, _copy(stage, path)))


async def _measure_views(stage: Stage, path: Path) -> list[Figure]:
    rounds = range(max(3, stage.repeat))
    asked = queries(stage.seed, stage.count, _SINGLE_COUNT)
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        await store.persona_search(asked[0])
        search, _ = await _median(asked, store.persona_search)
        counts = [len(await store.persona_search(query, 1_000)) for query in asked]
        stats, _ = await _median(rounds, lambda _: store.persona_stats())
        compress, text = await _median(rounds, lambda _: store.persona_compress())
        introspect, report = await _median([0], lambda _: store.persona_introspect())
        for _ in range(_ROUNDS_COUNT):  # each introspection reads and compares a part
            if "suggested_contradictions" in report.bounded:
                report = await store.persona_introspect()
        again, report = await _median(rounds, lambda _: store.persona_introspect())
    if not any(counts) or not text or report.total_memories != stage.count:
        raise RuntimeError("the palace is not the one that was written")
    found = max(1, int(statistics.median(counts)))
    ages, large = np.linspace(-1.0, 0.0, stage.count), max(1.0, stage.count / 100_000)
    texts = [fields["value"] for fields in insights(stage.seed, stage.count, 0.0)]
    return [
        _figure(
            f"persona_search among {stage.count:,}, p50",
            search,
            lambda: np.argsort(-(np.arange(found) * 1.5 * np.exp2(ages[:found]))),
            f"scores and orders {found:,} matches that it is given",
            2.0 if stage.count <= 10_000 else 15.0 * large,
        ),
        _figure(
            f"persona_stats of {stage.count:,}",
            stats,
            lambda: np.exp2(ages),
            "one exp2 over as many numbers",
            20.0 * large,
        ),
        _figure(
            f"persona_compress of {stage.count:,}",
            compress,
            lambda: np.argsort(np.exp2(ages)),
            "relevances, and their order",
            50.0 * max(1.0, stage.count / 10_000),
        ),
        _figure(
            f"persona_introspect of {stage.count:,}, first of a process",
            introspect,
            lambda: [set(value.split()) for value in texts],
            "splits the texts into words",
            1_000.0 * large,
        ),
        _figure(
            f"persona_introspect of {stage.count:,}, when all were compared",
            again,
            lambda: np.exp2(ages),
            "one exp2 over as many numbers",
            1_000.0 * large,
        ),
    ]


def _figure(name: str, seconds: float, floor: Callable[[], object], floor_name: str, limit: float) -> Figure:
    bare = statistics.median(_seconds(floor) for _ in range(5))
    return Figure(name, "ms", seconds * 1e3, bare * 1e3, floor_name, Rule.AT_MOST, limit)


async def _median(items: Iterable[Any], call: Callable[[Any], Awaitable[Any]]) -> tuple[float, Any]:
    """The median seconds of a call over items, and its last result."""
    times, result = [], None
    for item in items:
        begun = time.perf_counter()
        result = await call(item)
        times.append(time.perf_counter() - begun)
    return statistics.median(times), result


# ── Starting ────────────────────────────────────────────────────────────────────────────


def _opening(stage: Stage, path: Path) -> Figure:
    stage.say(f"a store that opens and searches, {stage.count:,}")
    query = queries(stage.seed, stage.count, 1)[0]
    listing = orjson.dumps(list(insights(stage.seed, stage.count, 0.0)))
    value, floor = in_turn(
        stage.repeat,
        lambda: asyncio.run(_open_and_search(stage, path, query)),
        lambda: _seconds(lambda: orjson.loads(listing)),
    )
    return Figure(
        f"open and search a palace of {stage.count:,}",
        "s",
        value,
        floor,
        "reads the fields from one JSON text",
        Rule.AT_MOST,
        0.6 * max(1.0, stage.count / 10_000),
    )


async def _open_and_search(stage: Stage, path: Path, query: str) -> float:
    begun = time.perf_counter()
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        await store.persona_search(query)
        return time.perf_counter() - begun


def _command(stage: Stage, path: Path) -> Figure:
    stage.say("sense-memory search --in palace, as a process")
    home = {"SENSE_MEMORY_HOME": str(home_of(stage, _copy(stage, path)))}
    command = ["-m", "sense_memory", "search", "--in", "palace", queries(stage.seed, stage.count, 1)[0]]
    output_of(command, home)
    value, floor = best_in_turn(
        max(stage.repeat, _STARTS_COUNT),
        lambda: timed(command, home),
        lambda: timed(["-c", f"import typer, rich.console, numpy, {LIBRARIES}"], {}),
    )
    return Figure(
        f"sense-memory search --in palace, {stage.count:,}, one process, best",
        "s",
        value,
        floor,
        "an interpreter that imports the libraries and exits",
        Rule.AT_MOST,
        0.6 * max(1.0, stage.count / 10_000),
    )


def _copy(stage: Stage, path: Path) -> Path:
    """A copy of the ledger, with the files beside it."""
    copy = stage.path("palace-copy")
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copy.with_name(file.name))
    return copy


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
