"""Draw docs/images/two-machines.svg, the moving picture of the README: one memory on two machines, from a real run.

    python scripts/two_machines.py

The commands of STORY are run on a relay of this machine, each machine with a data folder of its own, and the picture shows
what they printed. It is an SVG of a few kilobytes that moves by itself; where a reader asked for less motion, it shows the
end. A test runs the story again and compares.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from sense_memory import EmbeddedRelay


if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[str, str], str]  # the command and the name of the machine; what it printed

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "two-machines.svg"
PORT: Final = "7447"  # in the picture, whatever the port was
STORY: Final = (
    ("laptop", 'sense-memory remember people/facts/lisa "Artist, teaches printmaking."'),
    ("server", "sense-memory sync | grep 'in step'"),
    ("server", "sense-memory recall people/facts/lisa"),
    ("server", 'sense-memory remember people/facts/lisa "Artist, teaches on Fridays."'),
    ("laptop", 'rm -r "$SENSE_MEMORY_HOME/ledgers"  # the laptop loses its memory'),
    ("laptop", "sense-memory sync | grep 'in step'"),
    ("laptop", "sense-memory recall people/facts/lisa"),
)
_WIDTH, _LINE, _LEFT, _TOP = 780, 21, 18, 46
_SECONDS: Final = 1.6  # a command stands before the next one appears
_REST_SECONDS: Final = 4.0
_COLOURS: Final = {"laptop": "#7ee0a8", "server": "#8ec5ff"}


def played(run: Run) -> list[tuple[str, str, list[str]]]:
    """Run the story; each step's machine, command and output."""
    return [(machine, command, run(command, machine).splitlines()) for machine, command in STORY]


def drawn(steps: list[tuple[str, str, list[str]]]) -> str:
    """The picture of a story."""
    period = len(steps) * _SECONDS + _REST_SECONDS
    texts, styles, row = [], [], 0
    for number, (machine, command, output) in enumerate(steps):
        begins = 100 * number * _SECONDS / period
        styles.append(
            f"@keyframes s{number}{{0%,{begins:.1f}%{{opacity:0}}{begins + 1:.1f}%,100%{{opacity:1}}}}"
            f".s{number}{{animation:s{number} {period:g}s infinite}}"
        )
        lines = [
            f'<tspan fill="{_COLOURS[machine]}">{machine} $</tspan> {escape(command)}',
            *(f'<tspan fill="#b8bcc4">{escape(line)}</tspan>' for line in output),
        ]
        for line in lines:
            texts.append(f'<text class="s{number}" x="{_LEFT}" y="{_TOP + row * _LINE}">{line}</text>')
            row += 1
    height = _TOP + row * _LINE
    dots = "".join(f'<circle cx="{20 + 18 * place}" cy="17" r="5" fill="#4a4f58"/>' for place in range(3))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">',
            "<title>One memory on two machines: written on a laptop, changed on a server, and back on the laptop after its memory was deleted</title>",
            "<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#f2f3f5;white-space:pre}",
            *styles,
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="9" fill="#1d2026"/>{dots}',
            *texts,
            "</svg>\n",
        )
    )


async def main() -> None:
    """Play the story with the program of this environment, and write the picture."""
    with tempfile.TemporaryDirectory(prefix="sense-memory-picture-") as folder:
        async with EmbeddedRelay() as relay:
            programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            kept = {name: value for name, value in os.environ.items() if not name.startswith("SENSE_MEMORY")}
            kept |= {"PATH": programs, "SENSE_MEMORY_RELAYS": relay.url}

            def run(command: str, machine: str) -> str:
                environment = {**kept, "SENSE_MEMORY_HOME": f"{folder}/{machine}"}
                done = subprocess.run(  # noqa: S602 - the commands of STORY
                    command, shell=True, env=environment, text=True, capture_output=True, check=True
                )
                return done.stdout.replace(relay.url.rpartition(":")[2], PORT)

            def story() -> list[tuple[str, str, list[str]]]:
                run("sense-memory init", "laptop")
                run(f'sense-memory init --import < "{folder}/laptop/keys/default.key"', "server")
                return played(run)

            PICTURE.write_text(drawn(await asyncio.to_thread(story)), encoding="utf-8")
    print(f"{PICTURE.name}  {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    asyncio.run(main())
