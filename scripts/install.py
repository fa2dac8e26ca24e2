"""Run `pip install` and show its progress: on one moving line of a terminal, elsewhere as a line each ten seconds.

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
LINE_SECONDS = 10.0  # between two lines where there is no terminal
WHEEL = "|/-\\"
# The line of pip that begins a step, and the text to show for the step.
STEPS = (
    (re.compile(r"\s*Installing build dependencies"), "preparing the build"),
    (re.compile(r"Building wheels"), "building"),
    (re.compile(r"Installing collected packages: "), "unpacking"),
)
PACKAGE = re.compile(r"(?:Collecting|Processing \S*/)\s*([A-Za-z0-9_.]+?)(?:[-<>=!~;\[ ]|$)")


@dataclass(slots=True)
class Progress:
    """The present step of pip, the packages that it has found, and its whole output."""

    doing: str = "starting pip"
    packages: int = 0
    said: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        """Take one line of pip's output."""
        self.said.append(line)
        if PACKAGE.match(line):
            self.packages += 1
            self.doing = "fetching packages"
        self.doing = next((shown for begins, shown in STEPS if begins.match(line)), self.doing)

    def line(self, seconds: float) -> str:
        """How far pip is, in one line."""
        return f"{seconds:3.0f} s  {self.doing}" + (f" ({self.packages} so far)" if self.packages else "")

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
        ticks, shown_at = 0, 0.0
        while reader.is_alive():
            seconds = time.monotonic() - begun
            if sys.stdout.isatty():
                step = f"{WHEEL[ticks % len(WHEEL)]} {progress.line(seconds)}"
                print(f"\r\033[K{step}", end="", flush=True)
            elif seconds - shown_at >= LINE_SECONDS:
                print(f"  {progress.line(seconds)}", flush=True)
                shown_at = seconds
            ticks += 1
            reader.join(TICK_SECONDS)
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    else:
        print(f"  {progress.line(time.monotonic() - begun)}: {'failed' if pip.returncode else 'done'}")
    if pip.returncode:
        sys.stderr.writelines(progress.said)
    return pip.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
