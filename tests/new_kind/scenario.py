"""What becomes of a sighting: run in a process of its own, with a package that knows sightings; prints what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.config.key_file import write_secret
from sense_memory.exchange.readable import write_readable
from sense_memory.mind.sightings import Sighting, Sightings
from sense_memory.nostr.keys import parse_secret


FOLDER = Path(sys.argv[1])
COUNTS = ("heads", "sightings", "older", "tombstones")


class Clock:
    """Each look at it is a second later, so no version waits for a second of its own."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        self.now += 1
        return self.now


CLOCK = Clock()


def store(signer, *relays):
    return MemoryStore(signer, relays, ledger=":memory:", background=False, clock=CLOCK)


def counts(of):
    return {name: of.status().counts[name] for name in COUNTS}


async def devices(saw):
    signer = LocalSigner.generate()
    async with (
        EmbeddedRelay(clock=CLOCK) as relay,
        store(signer, relay.url) as one,
        store(signer, relay.url) as two,
    ):
        assert isinstance(one.mind.sightings, Sightings)
        await one.mind.sightings.put("heron", "old lake", "it fished")
        saw["sent"] = (await one.sync()).complete
        await one.mind.sightings.put("heron", "new lake")
        await one.sync()
        await two.sync()
        assert await two.mind.sightings.all() == [Sighting("heron", "new lake", "it fished")]
        saw["versions"] = [made.place for made in await one.mind.sightings.history("heron")]
        saw["counts"] = counts(one)
        saw["memories"] = [
            len(await one.recall_all()),
            len(await one.recent(5)),
            len(await one.persona_recall()),
        ]

        await asyncio.gather(
            one.mind.sightings.put("heron", "new lake", "says one"),
            two.mind.sightings.put("heron", "new lake", "says two"),
        )
        reports = [await device.sync() for device in (one, two, one)]
        both = [await device.mind.sightings.all() for device in (one, two)]
        saw["in step"] = both[0] == both[1]
        saw["named"] = sorted({name for report in reports for name in (*report.overruled, *report.prevailed)})

        await write_readable(one, FOLDER / "export.jsonl")
        await two.mind.sightings.forget("heron")
        await two.sync()
        await one.sync()
        saw["left"] = [await device.mind.sightings.all() for device in (one, two)]
        saw["counts after"] = counts(two)
        saw["shown whole"] = (await one.sync(full=True)).complete


def commands(saw):
    from typer.testing import CliRunner

    from sense_memory.interfaces.cli import app

    write_secret(FOLDER / "home" / "keys" / "default.key", parse_secret("01" * 32))

    def run(*args):
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 0, done.output
        return done.stdout

    os.environ["SENSE_MEMORY_HOME"] = str(FOLDER / "home")
    run("remember", "editor", "vim")
    run("mind", "sightings", "put", "owl", "the barn")
    saw["imported"] = run("import", "--yes", str(FOLDER / "export.jsonl"))
    saw["listed"] = [one["name"] for one in json.loads(run("--json", "mind", "sightings", "list"))]
    saw["status"] = run("status")


def main():
    saw: dict[str, object] = {}
    asyncio.run(devices(saw))
    if "commands" in sys.argv:
        commands(saw)
    sys.stdout.write(json.dumps(saw))


if __name__ == "__main__":
    main()
