"""What went wrong in hooks, which have nobody to tell: harnesses hide what they print. `doctor` shows it.

A failure is one line of JSON in `hooks.log` in the data folder, which only the user can read. Its sentence is that of an
error of this program, or the name of another error's class: never a memory, nor a line of a transcript. A hook that runs
well again takes the failures of its own name away.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.operating_system import create_private
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME: Final = "hooks.log"
_MAX_COUNT: Final = 50  # the newest failures
_MAX_BYTES: Final = 200_000
_MAX_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A hook that did nothing, or not all of its work.

    Attributes:
        at: when, seconds since 1970.
        hook: its name, such as session-end.
        problem: what happened.
    """

    at: float
    hook: str
    problem: str


def failures(home: Path) -> list[HookFailure]:
    """The failures since each hook last ran well, oldest first; a line that is damaged is left out."""
    found = list[HookFailure]()
    try:
        with (home / NAME).open("rb") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return found
    for line in lines:
        with suppress(orjson.JSONDecodeError, TypeError, ValueError, KeyError):
            row = orjson.loads(line)
            found.append(HookFailure(float(row["at"]), str(row["hook"]), str(row["problem"])))
    return found


def note_failure(home: Path, failure: HookFailure) -> None:
    """Add a failure. A log that cannot be written is given up, because a hook must not fail."""
    if not home.is_dir():  # nothing was set up here, and a failure must not begin it
        return
    problem = one_line(failure.problem)[:_MAX_CHARS]
    _write(home, [*failures(home), HookFailure(failure.at, failure.hook, problem)])


def note_success(home: Path, hook: str) -> None:
    """Take away the failures of a hook that has run well."""
    found = failures(home)
    left = [failure for failure in found if failure.hook != hook]
    if len(left) < len(found):
        _write(home, left)


def _write(home: Path, found: Sequence[HookFailure]) -> None:
    path, new = home / NAME, home / f".{NAME}.{os.getpid()}"
    with suppress(OSError):
        with open(create_private(new), "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.writelines(orjson.dumps(failure) + b"\n" for failure in found[-_MAX_COUNT:])
        new.replace(path)
    with suppress(OSError):
        new.unlink(missing_ok=True)
