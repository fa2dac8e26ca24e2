"""Run `pip install` and show its progress: on one line of a terminal, elsewhere as a line for each step.

The output of pip is held back, and shown if pip fails. The arguments are those of `pip install`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable

TICK_SECONDS = 0.2
# The line of pip that begins a step, and the text to show for the step. Packages follow the order of the requirements.
STEPS = (
    (re.compile(r"\s*Installing build dependencies"), "preparing the build"),
    (re.compile(r"(?:Collecting|Processing \S*/)\s*([A-Za-z0-9_.]+?)(?:[-<>=!~;\[ ]|$)"), "fetching {}"),
    (re.compile(r"Building wheels"), "building"),
    (re.compile(r"Installing collected packages: (.*)"), "installing {} packages"),
)


@dataclass(slots=True)
class Progress:
    """The present step of pip, and its whole output."""

    doing: str = "starting pip"
    said: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        """Take one line of pip's output."""
        self.said.append(line)
        for begins, shown in STEPS:
            if found := begins.match(line):
                what = found[1] if found.groups() else ""
                self.doing = shown.format(len(what.split(", ")) if ", " in what else what)
                return

    def drain(self, lines: Iterable[str]) -> None:
        """Take all lines, until pip closes its end."""
        for line in lines:
            self.read(line)


def main() -> int:
    """Install; returns pip's exit code."""
    command = [sys.executable, "-u", "-m", "pip", "--disable-pip-version-check", "install", *sys.argv[1:]]
    begun, progress = time.monotonic(), Progress()
    with subprocess.Popen(  # noqa: S603 - the Makefile's own arguments
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        reader = threading.Thread(target=progress.drain, args=(pip.stdout,))
        reader.start()
        shown = ""
        while reader.is_alive():
            step = f"  {time.monotonic() - begun:3.0f} s  {progress.doing}"
            if sys.stdout.isatty():
                print(f"\r\033[K{step}", end="", flush=True)
            elif progress.doing != shown:
                print(step, flush=True)
                shown = progress.doing
            reader.join(TICK_SECONDS)
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    if pip.returncode:
        sys.stderr.writelines(progress.said)
    return pip.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
