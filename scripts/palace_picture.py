"""Draw the picture of docs/palace.md: the notes of the demo as a palace that was lived in for seven months.

    python scripts/palace_picture.py docs/palace.png

It needs the extra `plot`. Nothing is contacted, and only the picture is kept. The dates in it are those of today.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import runpy
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from PIL import Image

from sense_memory import LocalSigner, MemoryStore


NOTES = Path(__file__).parent / "demo" / "notes"
PLACES = {  # of the notes, by their file: domain, facet, half-life in days, and recalls in a month
    "people": ("people", "facts", 60, 0.4),
    "preferences": ("self", "preferences", 120, 0.4),
    "dates": ("world", "dates", 30, 0.1),
    "decisions": ("projects", "decisions", 45, 0.15),
    "procedures": ("skills", "procedures", 75, 0.25),
    "projects": ("projects", "facts", 30, 0.3),
}
DAYS = 210
DAY = 86_400


def notes() -> list[tuple[str, str, float, float]]:
    """Path, text, half-life in days, and recalls in a month, of every note."""
    found: list[tuple[str, str, float, float]] = []
    for stem, (domain, facet, halflife, often) in PLACES.items():
        text = (NOTES / f"{stem}.md").read_text(encoding="utf-8")
        parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
        found += [
            (f"{domain}/{facet}/{key.strip()}", value.strip(), halflife, often)
            for key, value in zip(parts[::2], parts[1::2], strict=True)
        ]
    return found


async def live(signer: LocalSigner, ledger: Path) -> None:
    """Remember the notes over seven months and recall some of them, by a clock that ends now."""
    now = time.time()
    chance = random.Random(14)  # noqa: S311 - a story, not a secret
    calendar: list[tuple[float, str, str | None, float]] = []
    for path, text, halflife, often in notes():
        day = chance.uniform(0, DAYS * 0.9)
        calendar.append((day, path, text, halflife))
        while (day := day + chance.expovariate(often / 30)) < DAYS:
            calendar.append((day, path, None, halflife))
    then = now
    async with MemoryStore(signer, ledger=ledger, background=False, clock=lambda: then) as store:
        for day, path, text_or_none, halflife in sorted(calendar, key=lambda item: item[0]):
            then = now - (DAYS - day) * DAY
            if text_or_none is None:
                await store.palace.recall(path)
            else:
                await store.palace.remember(path, text_or_none, halflife_days=halflife)


def main() -> None:
    """Live, then draw with the command line, as a person would."""
    picture = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        signer = LocalSigner.generate()
        key = Path(folder) / "key"
        key.touch(mode=0o600)
        key.write_text(signer.export_nsec(), encoding="utf-8")
        ledger = Path(folder) / "palace.db"
        asyncio.run(live(signer, ledger))
        os.environ |= {"SENSE_MEMORY_HOME": folder, "SENSE_MEMORY_KEY_FILE": str(key)}
        sys.argv = ["sense-memory", "--ledger", str(ledger), "palace", "plot", "--force", str(picture)]
        with suppress(SystemExit):
            runpy.run_module("sense_memory", run_name="__main__")
    with Image.open(picture) as drawn:  # few colours: a palette takes a third of the bytes
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


if __name__ == "__main__":
    main()
