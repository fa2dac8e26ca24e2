"""The output of figures: a table for the terminal, JSON for programs, and a line about the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from .figure import amount


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .figure import Figure

_VERDICT = {True: "[green]hit[/]", False: "[bold red]miss[/]"}


def machine() -> dict[str, Any]:
    """The machine of the run."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def as_table(groups: Mapping[str, Sequence[Figure]]) -> Table:
    """The figures by group."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("figure")
    for name in ("measured", "floor", "ratio", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("the floor is", style="dim")
    for name, figures in groups.items():
        table.add_row(f"[bold]{name}[/]")
        for item in figures:
            table.add_row(
                f"  {item.name}",
                amount(item.value, item.unit),
                amount(item.floor, item.unit),
                f"{item.ratio:.2f}x",
                item.target,
                _VERDICT[item.met],
                item.floor_name,
            )
    return table


def as_json(groups: Mapping[str, Sequence[Figure]], options: Mapping[str, Any]) -> dict[str, Any]:
    """The run as plain values: machine, options, figures by group."""
    return {
        "machine": machine(),
        "options": dict(options),
        "figures": {name: [item.as_json() for item in figures] for name, figures in groups.items()},
    }


def _cpu() -> str:
    """The processor's name, as the system tells it."""
    if (known := Path("/proc/cpuinfo")).exists():
        for line in known.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        asked = ("/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string")
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return platform.processor() or platform.machine()
