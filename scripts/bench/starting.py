"""The cost of starting a process: the import, and one command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from .child import ROOT
from .figure import Figure, Rule
from .stage import best_in_turn


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .stage import Stage

_START_COUNT = 5  # processes at least; the best one counts, because the machine does other things too
LIBRARIES = "asyncio, sqlite3, coincurve, orjson, pydantic, cryptography.hazmat.primitives.ciphers"
_TIMED = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"


def measure(stage: Stage) -> list[Figure]:
    """The figures of starting."""
    return [_import(stage), _command(stage)]


def _import(stage: Stage) -> Figure:
    stage.say("import sense_memory")
    value, floor = best_in_turn(
        max(stage.repeat, _START_COUNT),
        lambda: float(output_of(["-c", _TIMED.format("from sense_memory import LocalSigner, MemoryStore")])),
        lambda: float(output_of(["-c", _TIMED.format(f"import {LIBRARIES}")])),
    )
    return Figure(
        "import sense_memory and its MemoryStore, best",
        "s",
        value,
        floor,
        "import of the libraries that it needs",
        Rule.AT_MOST,
        0.2,
    )


def _command(stage: Stage) -> Figure:
    stage.say("sense-memory recall, as a process")
    home = home_of(stage, stage.filled())
    key, text = stage.pairs[-1]
    value, floor = best_in_turn(
        max(stage.repeat, _START_COUNT),
        lambda: _recall(home, key, text),
        lambda: timed(["-c", f"import typer, rich.console, {LIBRARIES}"], {}),
    )
    return Figure(
        f"sense-memory recall, {stage.count:,}, one process, best",
        "s",
        value,
        floor,
        "an interpreter that imports the libraries and exits",
        Rule.AT_MOST,
        0.4,
    )


def home_of(stage: Stage, ledger: Path) -> Path:
    """A data folder with the run's key, and a copy of a ledger and of the files beside it."""
    home = stage.path("home").parent
    (home / "ledgers").mkdir()
    (home / "keys").mkdir(mode=0o700)
    for file in ledger.parent.glob(f"{ledger.name}*"):
        shutil.copy(file, home / "ledgers" / f"{stage.signer.npub}.db{file.name.removeprefix(ledger.name)}")
    key_file = home / "keys" / "default.key"
    key_file.touch(mode=0o600)
    key_file.write_text(stage.signer.export_nsec(), encoding="ascii")
    return home


def _recall(home: Path, key: str, text: str) -> float:
    begun = time.perf_counter()
    said = output_of(["-m", "sense_memory", "recall", key], {"SENSE_MEMORY_HOME": str(home)})
    took = time.perf_counter() - begun
    if said.rstrip("\n") != text:
        raise RuntimeError("the command said something else")
    return took


def timed(arguments: Sequence[str], variables: Mapping[str, str]) -> float:
    """The seconds that a fresh interpreter takes."""
    begun = time.perf_counter()
    output_of(arguments, variables)
    return time.perf_counter() - begun


def output_of(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """The output of a fresh interpreter, in an environment without the settings of the user.

    The interpreter may keep the bytecode that it compiles: an installed package has bytecode, and so have the libraries
    of the floor.
    """
    ours = ("SENSE_MEMORY_", "NOSTR_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(  # noqa: S603 - this interpreter
        (sys.executable, *arguments),
        cwd=ROOT,
        env={**environment, **(variables or {})},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
