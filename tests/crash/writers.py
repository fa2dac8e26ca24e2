"""Several processes write to one ledger and are killed at random moments; what a write returned for must be there.

`python -m tests.crash.writers FOLDER SEED KILLS` keeps WRITERS processes on one ledger, ends one of them with SIGKILL at a
random moment, starts another in its place, and so on. A writer notes each text in a file after `remember` or `journal`
returned, in one write that survives the process. At the end every noted text is looked up. Exits 1 if one is missing, or if
the ledger is damaged.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

from sense_memory import LocalSigner, SyncMemoryStore


WRITERS = 4
LONGEST_SECONDS = 0.3  # between two kills


def write(signer: LocalSigner, ledger: Path, noted: Path, name: int) -> None:
    """Write until the process is killed."""
    with (
        SyncMemoryStore(signer, ledger=ledger, background=False) as store,
        noted.open("a", encoding="utf-8", buffering=1) as notes,
    ):
        for number in count():
            text = f"{name}-{number}"
            if number % 3:
                store.remember(text, f"flat {text}")
                notes.write(f"flat {text}\n")
            else:
                store.journal(f"entry {text}")
                notes.write(f"entry {text}\n")


def started(signer: LocalSigner, ledger: Path, noted: Path, name: int) -> int:
    """A new writer; the id of its process."""
    if (pid := os.fork()) == 0:
        try:
            write(signer, ledger, noted, name)
        finally:  # it writes until it is killed, so that it ended is a failure
            os._exit(3)
    return pid


def play(folder: Path, seed: int, kills: int) -> tuple[int, int, list[str]]:
    """How many texts were noted, how many writers ended by themselves, and what is wrong with the ledger.

    `kills` is at least WRITERS, so that all are killed at the end.
    """
    chance, signer = random.Random(seed), LocalSigner.generate()
    ledger, noted = folder / "ledger.db", folder / "noted.txt"
    names = count()
    running = [started(signer, ledger, noted, next(names)) for _ in range(WRITERS)]
    ended = 0
    for turn in range(kills):
        time.sleep(chance.uniform(0, LONGEST_SECONDS))
        killed = running.pop(chance.randrange(len(running)))
        os.kill(killed, signal.SIGKILL)
        ended += os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) != -signal.SIGKILL
        if turn + WRITERS < kills:
            running.append(started(signer, ledger, noted, next(names)))
    with SyncMemoryStore(signer, ledger=ledger, background=False) as store:
        kept = {memory.value for memory in store.recall_all()}
        kept |= {entry.content for entry in store.recent(100_000)}
        lines = noted.read_text("utf-8").splitlines() if noted.exists() else []
        missing = [f"missing: {text}" for text in lines if text not in kept]
        return len(lines), ended, [*missing, *map(str, store.integrity())]


if __name__ == "__main__":
    shown = play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    print(f"{sys.argv[3]} kills, {shown[0]} texts noted, {shown[1]} writers ended by themselves")
    print(*shown[2], sep="\n", end="")
    sys.exit(bool(shown[1] or shown[2]))
