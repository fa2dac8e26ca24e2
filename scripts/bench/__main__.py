"""`python -m scripts.bench`: measures, prints a table, and writes JSON when asked.

A missed target is a line of the table, not an error. The exit code says whether every figure could be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from . import (
    compression,
    contradictions,
    footprint,
    in_step,
    introspection,
    large,
    log,
    palace,
    reading,
    replicating,
    searching,
    starting,
    thoughts,
    writing,
)
from .stage import Stage
from .table import as_json, as_table, machine


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .figure import Figure

_GROUPS: Final[dict[str, Callable[[Stage], list[Figure]]]] = {
    "writing": writing.measure,
    "relays": replicating.measure,
    "reading": reading.measure,
    "starting": starting.measure,
    "in-step": in_step.measure,
    "memory": footprint.measure,
    "contradictions": contradictions.measure,
    "introspection": introspection.measure,
    "compression": compression.measure,
    "palace": palace.measure,
    "searching": searching.measure,
    "log": log.measure,
    "thoughts": thoughts.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen groups."""
    options = _parsed(arguments)
    begun = time.monotonic()
    groups: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="sense-memory-bench-") as folder:
        stage = Stage(Path(folder), options.count, options.repeat, options.seed, _Progress())
        for name in options.only or _GROUPS:
            groups[name] = _GROUPS[name](stage)
        if options.large:
            place = Path(folder) / "large"
            place.mkdir()
            groups["large"] = large.measure(Stage(place, large.COUNT, 1, options.seed, _Progress()))
    _Progress.clear()
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print("   ".join(f"{name} {value}" for name, value in machine().items()), highlight=False)
    console.print(as_table(groups))
    console.print(f"{time.monotonic() - begun:.0f} s", highlight=False)
    if options.json is not None:
        wanted = {
            "count": options.count,
            "repeat": options.repeat,
            "seed": options.seed,
            "large": options.large,
        }
        options.json.write_text(json.dumps(as_json(groups, wanted), indent=2) + "\n", encoding="utf-8")
        console.print(f"written to {options.json}", highlight=False)


class _Progress:
    """One line on standard error that says what is being measured."""

    def __call__(self, text: str) -> None:
        start, end = ("\r\x1b[K", "") if sys.stderr.isatty() else ("", "\n")
        print(f"{start}measuring: {text} …", end=end, file=sys.stderr, flush=True)

    @staticmethod
    def clear() -> None:
        """Clear the line before the table."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=_GROUPS, help="measure this group only; may be repeated"
    )
    parser.add_argument("--count", type=_positive, default=10_000, help="how many memories; default: 10,000")
    parser.add_argument(
        "--repeat",
        type=_positive,
        default=3,
        help="how often each figure is measured, the median counts; default: 3",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the key and the texts; default: 1")
    parser.add_argument(
        "--large", action="store_true", help="also measure 100,000 memories, which takes minutes"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        type=Path,
        const=Path("bench.json"),
        metavar="PATH",
        help="also write JSON; default: bench.json",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    main()
