"""How many bytes an event has, on the wire and in the file of the embedded relay: the inputs of the plan in relays/README.md.

    python scripts/relay_bytes.py 20000

Memories have the lengths of the demo's notes (some 150 bytes each), each under a name of its own. Nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path

import orjson

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


NOTES = Path(__file__).parent / "demo" / "notes"


def texts() -> list[str]:
    """The texts of the demo's notes."""
    files = (file.read_text(encoding="utf-8") for file in sorted(NOTES.glob("*.md")))
    return [part.strip() for text in files for part in re.split(r"^## .+\n", text, flags=re.MULTILINE)[1:]]


async def copy_to_relay(pairs: list[tuple[str, str]], folder: Path) -> float:
    """Write memories to a relay whose file is in a folder, and export them; the seconds that the relay took."""
    async with (
        EmbeddedRelay(folder / "relay.db") as relay,
        MemoryStore(
            LocalSigner.generate(), [relay.url], ledger=folder / "ledger.db", background=False
        ) as store,
    ):
        await store.remember_many(pairs)
        begun = time.perf_counter()
        await store.sync()
        seconds = time.perf_counter() - begun
        store.export(folder / "events.jsonl")
        return seconds


def main() -> None:
    """Write memories to a relay, and look at its file and at an export."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    notes = texts()
    pairs = [(f"note-{number}", f"{notes[number % len(notes)]} {number}") for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="sense-memory-bytes-") as place:
        folder = Path(place)
        seconds = asyncio.run(copy_to_relay(pairs, folder))
        lines = (folder / "events.jsonl").read_bytes().splitlines()
        events = [len(orjson.dumps(orjson.loads(line))) for line in lines if b'"sig"' in line]
        on_disk = sum(file.stat().st_size for file in folder.glob("relay.db*"))
    text = sum(len(value.encode()) for _, value in pairs) / count
    print(
        f"{count:,} memories of {text:.0f} bytes: {sum(events) / len(events):.0f} bytes an event on the wire, "
        f"{on_disk / count:.0f} in the relay's file, {count / seconds:,.0f} events/s from one client"
    )


if __name__ == "__main__":
    main()
