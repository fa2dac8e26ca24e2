"""What searches find of memories that fade, and what a palace loses that is only asked.

`python -m scripts.bench.fading` writes 1,000 notes, of which half are new and half are some days old, and asks for 200
old ones by their own words and by a natural question: the share found among the first five. It asks for 200 new ones
too, and counts the fading ones among their first five. `--embedder minilm` searches by meaning as well.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from rich import box
from rich.console import Console
from rich.table import Table

from sense_memory import LocalSigner, MemoryStore, State

from .notes import notes


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory import Hit, Hits, MemoryFields, PersonaHit

    from .notes import Note

Search: TypeAlias = "Callable[[str, int], Awaitable[Hits[Any]]]"

DAYS: Final = (0, 51, 53, 90, 200)
_DAY: Final = 86_400.0
_START: Final = 1_800_000_000.0
_SECRET: Final = "5e" * 32
_FIRST: Final = 5  # hits that are looked at
_LIMIT: Final = 10
_ASKED_COUNT: Final = 200
_ASKED_DAYS: Final = 400


class Clock:
    """A clock that stands still until it is moved.

    Attributes:
        now: seconds since 1970.
    """

    def __init__(self, now: float = _START) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time."""
        return self.now


async def findability(days: int, count: int, *, held_out: bool, embedder: str | None) -> list[str]:
    """One row of the table: what is found of memories that were last used so many days ago."""
    every = notes(count)
    old, new = every[::2], every[1::2]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        async with _opened(Path(folder), clock, embedder) as store:
            await store.palace.remember_many(cast("list[MemoryFields]", [note.fields for note in old]))
            clock.now += days * _DAY
            await store.palace.remember_many(cast("list[MemoryFields]", [note.fields for note in new]))
            if embedder is not None:
                await store.embed()
            asked, others = ([note for note in part if note.is_held_out == held_out] for part in (old, new))
            cells = [str(days)]
            for search in (store.search, store.persona_search):
                cells += await _found(search, asked[:_ASKED_COUNT])
                cells += await _intruding(search, others[:_ASKED_COUNT])
    return cells


def _opened(folder: Path, clock: Clock, embedder: str | None = None) -> MemoryStore:
    return MemoryStore(
        LocalSigner.from_hex(_SECRET),
        background=False,
        ledger=folder / "a.db",
        clock=clock,
        embedder=embedder,
        contradictions="off",
    )


async def _found(search: Search, asked: Sequence[Note]) -> list[str]:
    """The share found among the first by own words and by questions; in how many answers forgotten ones are counted."""
    cells, forgotten = [], 0
    for queries in ([note.value for note in asked], [note.question for note in asked]):
        found = 0
        for note, query in zip(asked, queries, strict=True):
            hits = await search(query, _LIMIT)
            found += _has(hits[:_FIRST], note)
            forgotten += hits.forgotten > 0
        cells.append(f"{found / len(asked):.2f}")
    return [*cells, f"{forgotten / len(asked) / 2:.2f}"]


async def _intruding(search: Search, asked: Sequence[Note]) -> list[str]:
    """How many fading memories are among the first hits for new ones, and the share of these that is found."""
    fading = found = 0
    for note in asked:
        hits = (await search(note.question, _LIMIT))[:_FIRST]
        fading += sum(hit.state is State.FADING for hit in hits)
        found += _has(hits, note)
    return [f"{fading / len(asked):.2f}", f"{found / len(asked):.2f}"]


def _has(hits: Sequence[Hit | PersonaHit], note: Note) -> bool:
    return any(hit.path == note.path for hit in hits)


async def asked_only(count: int) -> str:
    """What is left of a palace after 400 days in which it was only asked, pruned every ten days.

    A fifth of the notes are asked every month, a fifth twice a year, the others never.
    """
    every = notes(count)
    monthly, seldom = every[: count // 5], every[count // 5 : 2 * count // 5]
    clock, found, asked = Clock(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        async with _opened(Path(folder), clock) as store:
            await store.palace.remember_many(cast("list[MemoryFields]", [note.fields for note in every]))
            for day in range(0, _ASKED_DAYS, 10):
                due = monthly if day % 30 == 10 else seldom if day in {20, 200, 380} else []
                for note in due:
                    asked += 1
                    hits = await store.search(note.question, _LIMIT)
                    if not _has(hits, note) and hits.forgotten:
                        hits = await store.search(note.question, _LIMIT, state="forgotten")
                    found += _has(hits, note)
                    await store.mark_used(hits)
                await store.persona_prune()
                clock.now += 10 * _DAY
            left = {memory.path for memory in await store.persona_recall(include_forgotten=True)}
    lost = [sum(note.path not in left for note in part) for part in (monthly, seldom, every)]
    return (
        f"{count:,} notes, {_ASKED_DAYS} days: of {asked:,} questions {found / asked:.1%} found their note; "
        f"lost of {len(monthly)} asked monthly {lost[0]}, of {len(seldom)} asked seldom {lost[1]}, of all {lost[2]}"
    )


async def _main(options: argparse.Namespace) -> None:
    table = Table(title=f"{options.count:,} notes, half of them old", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("days", justify="right")
    for search in ("search", "persona"):
        for name in ("own words", "question", "forgotten", "fading beside new", "new found"):
            table.add_column(f"{search} {name}", justify="right")
    for days in DAYS:
        table.add_row(
            *await findability(days, options.count, held_out=options.held_out, embedder=options.embedder)
        )
    print(await asked_only(options.count))
    Console(width=None if sys.stdout.isatty() else 180).print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m scripts.bench.fading", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000, help="notes in the palace")
    parser.add_argument(
        "--held-out", action="store_true", help="ask the notes for judging, not those for tuning"
    )
    parser.add_argument("--embedder", help="as for SENSE_MEMORY_EMBEDDER")
    asyncio.run(_main(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
