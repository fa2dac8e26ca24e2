"""Mirror one key's memory between relays. Uses only the public API.

Each relay gets a ledger of its own in a temporary folder. First the ledger is filled with what the relay holds, then
with what the other relays hold. The difference is the plan: the events that each relay lacks. One more sync sends these
events. The agent's own ledger is not touched, and no relay gets an event that none of the named relays holds.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sense_memory import MemoryStore, SenseMemoryError


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory import RelayReport

LOOK_SECONDS = 0.2  # between two looks at the progress of sending


@dataclass
class Copy:
    """One relay, and the ledger with what that relay holds.

    Attributes:
        store: a store of this relay alone, on a ledger of its own.
        gives: whether other relays get the events of this relay.
        takes: whether this relay gets the events that it lacks.
        holds: how many events this relay showed.
        lacks: how many events of the other relays this relay lacks, or None while unknown.
        problem: why this relay could not be asked completely, or is not in step; empty if it is in step.
        sent: the answers of this relay, counted by kind.
    """

    store: MemoryStore
    gives: bool
    takes: bool
    holds: int = 0
    lacks: int | None = None
    problem: str = ""
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The relay."""
        return self.store.relays[0]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        facts = {name: getattr(self, name) for name in ("url", "gives", "takes", "holds", "lacks", "problem")}
        return {**facts, "sent": self.sent}


def arguments() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="Without a URL, the configured relays are mirrored. "
        "Exit code 0: every relay is in step or, with --dry-run, every relay could be asked.",
    )
    parser.add_argument("relays", metavar="URL", nargs="*", help="bring these relays in step with each other")
    parser.add_argument(
        "--from",
        dest="sources",
        metavar="URL",
        action="append",
        help="only copy from this relay; may be repeated",
    )
    parser.add_argument(
        "--to",
        dest="targets",
        metavar="URL",
        action="append",
        help="only copy to this relay; may be repeated",
    )
    parser.add_argument("--agent", metavar="NAME", help="the agent of this machine; default: default")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and send nothing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    if bool(options.sources) != bool(options.targets) or (options.sources and options.relays):
        parser.error("give relays to mirror, or both --from and --to")
    return options


def stores(options: argparse.Namespace, folder: Path) -> list[Copy]:
    """A copy for each relay, in the order given."""
    both = options.relays or (() if options.sources else configured(options.agent))
    sources, targets = (options.sources, options.targets) if options.sources else (both, both)
    copies: dict[str, Copy] = {}
    for number, url in enumerate((*sources, *targets)):
        store = MemoryStore.from_settings(
            agent=options.agent, relays=[url], ledger=folder / f"{number}.db", background=False
        )
        copy = copies.setdefault(store.relays[0], Copy(store, gives=False, takes=False))
        copy.gives |= number < len(sources)
        copy.takes |= number >= len(sources)
    if len(copies) < 2:
        raise SystemExit("error: give two different relays as arguments")
    return list(copies.values())


def configured(agent: str | None) -> tuple[str, ...]:
    """The relays of the settings."""
    return MemoryStore.from_settings(agent=agent).relays


async def look(copy: Copy, folder: Path, done: Callable[[], None]) -> None:
    """Ask a relay for everything it holds."""
    (report,) = (await copy.store.sync()).relays
    copy.problem = "" if report.complete else why(report)
    copy.holds = copy.store.export(export_of(copy, folder))
    done()


async def compare(copies: list[Copy], folder: Path) -> None:
    """Find out which events of the other relays each relay lacks, in its own ledger.

    The newest events come first, so that replaced versions do not count.
    """
    given = {line for copy in copies if copy.gives for line in lines_of(export_of(copy, folder))}
    newest_first = sorted(given, key=lambda line: int(json.loads(line)["created_at"]), reverse=True)
    for target in copies:
        if target.takes and not target.problem:
            report = await target.store.import_(io.BytesIO(b"\n".join(newest_first)))
            target.lacks = report.counts.get("new", 0)


async def send(copy: Copy, progress: Progress) -> None:
    """Give a relay what it lacks."""
    task = progress.add_task(copy.url, total=copy.lacks)
    syncing = asyncio.create_task(copy.store.sync())
    while not syncing.done():
        await asyncio.wait([syncing], timeout=LOOK_SECONDS)
        queued = copy.store.status().relays[0].events.get("queued", copy.lacks or 0)
        progress.update(task, completed=(copy.lacks or 0) - queued)
    (report,) = syncing.result().relays
    copy.sent = dict(report.sent)
    copy.problem = "" if report.in_step else why(report)
    progress.update(task, completed=copy.sent.get("accepted", 0))


def why(report: RelayReport) -> str:
    """The problem of a relay, in words."""
    reasons = (*report.pulled.reasons, *report.reasons)
    return report.problem or ", ".join(reasons) or "not finished; try again later"


def lines_of(path: Path) -> list[bytes]:
    """The lines of an export."""
    return path.read_bytes().splitlines()


def export_of(copy: Copy, folder: Path) -> Path:
    """The file with the events that a relay showed."""
    return folder / f"{copy.url.replace('/', '_')}.jsonl"


def say_plan(copies: list[Copy]) -> None:
    """Print what each relay holds and lacks."""
    for copy in copies:
        held = f"{copy.url}: holds {copy.holds:,} {'event' if copy.holds == 1 else 'events'}"
        if copy.problem:
            print(f"{held}, but did not show everything ({copy.problem}); nothing is sent to it")
        elif copy.takes:
            print(f"{held}, lacks {copy.lacks:,}")
        else:
            print(held)


def say_outcome(copies: list[Copy]) -> None:
    """Print the result for each relay."""
    for copy in copies:
        if copy.takes:
            print(f"{copy.url}: {copy.sent.get('accepted', 0):,} sent, {copy.problem or 'in step'}")


async def mirror(options: argparse.Namespace, folder: Path) -> int:
    """Look, plan, send; returns the exit code."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, highlight=False)
    async with AsyncExitStack() as stack:
        copies = stores(options, folder)
        for copy in copies:
            await stack.enter_async_context(copy.store)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            asking = progress.add_task("asking", total=len(copies))
            await asyncio.gather(*(look(copy, folder, lambda: progress.advance(asking)) for copy in copies))
            await compare(copies, folder)
            if not options.json:
                say_plan(copies)
            if not options.dry_run:
                await asyncio.gather(*(send(copy, progress) for copy in copies if copy.lacks is not None))
        if options.json:
            print(
                json.dumps(
                    {"npub": copies[0].store.npub, "relays": [copy.as_json() for copy in copies]}, indent=2
                )
            )
        elif not options.dry_run:
            say_outcome(copies)
        return int(any(copy.problem for copy in copies))


def main() -> int:
    """Run it in a folder that is removed at the end."""
    options = arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="sense-memory-mirror-") as folder:
            return asyncio.run(mirror(options, Path(folder)))
    except SenseMemoryError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
