"""The stage of a run: its key, its memories, its folder, and the repetitions. Everything follows from the seed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import shutil
import socket
import statistics
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from sense_memory import LocalSigner, MemoryStore

from .insights import insights
from .raw_ledger import bodies
from .raw_nostr import RawKey


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

VALUE_CHARS = 1_024
PER_SECOND_COUNT = 50  # events that a second holds: docs/wire-format.md
_WORDS = (
    "agent",
    "Lisa",
    "noon",
    "said",
    "prints",
    "paper",
    "ink",
    "river",
    "bread",
    "later",
    "blue",
    "notebook",
)

T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """The inputs of every measurement.

    Args:
        folder: for files; removed at the end.
        count: memories.
        repeat: how often each figure and its floor are measured, in turn.
        seed: of the key and of the texts.
        say: shows what is being measured.
    """

    folder: Path
    count: int
    repeat: int
    seed: int
    say: Callable[[str], None]

    @cached_property
    def signer(self) -> LocalSigner:
        """The key as a store takes it."""
        return LocalSigner.from_hex(secret_of(self.seed).hex())

    @cached_property
    def raw_key(self) -> RawKey:
        """The key as a floor takes it."""
        return RawKey(secret_of(self.seed))

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """Keys and values."""
        dice = random.Random(self.seed)  # noqa: S311 - texts, not secrets
        words = " ".join(dice.choices(_WORDS, k=20_000))
        places = (dice.randrange(len(words) - VALUE_CHARS) for _ in range(self.count))
        return [(f"note-{i:06}", words[place : place + VALUE_CHARS]) for i, place in enumerate(places)]

    @cached_property
    def port(self) -> int:
        """A free port, the same for every relay of this run: ledgers know relays by their URL."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    @property
    def relay(self) -> str:
        """The URL of the run's relay, whether it runs or not."""
        return f"ws://127.0.0.1:{self.port}"

    def path(self, name: str) -> Path:
        """A new path in the folder."""
        number = sum(1 for _ in self.folder.glob(f"{name}-*"))
        place = self.folder / f"{name}-{number}"
        place.mkdir()
        return place / "file.db"

    def filled(self) -> Path:
        """A fresh copy of a ledger with every memory, all of them queued for the relay."""
        copy = self.path("copy")
        shutil.copy(self._filled, copy)
        return copy

    def palace(self) -> Path:
        """A fresh copy of a ledger with a palace of `insights`, as many as there are memories."""
        copy = self.path("palace")
        shutil.copy(self._palace, copy)
        return copy

    def mixed(self) -> Path:
        """A ledger with `count` memories, half of them flat and half in a palace, and no snapshot."""
        self.say(f"{self.count:,} memories of both kinds to begin with")
        path, half, now = self.path("mixed"), self.count // 2, int(time.time())
        lines = (
            sealed_insight(self.raw_key, fields, now - number // PER_SECOND_COUNT)[-1]
            for number, fields in enumerate(insights(self.seed, self.count - half, now))
        )
        asyncio.run(self._fill(path, self.pairs[:half]))
        asyncio.run(self._import(path, io.BytesIO(b"\n".join(lines))))
        path.with_name(f"{path.name}.snapshot").unlink(missing_ok=True)
        return path

    @cached_property
    def events(self) -> list[bytes]:
        """The events of every memory, as canonical JSON."""
        return bodies(self._filled)

    @cached_property
    def _filled(self) -> Path:
        self.say(f"writing {self.count:,} memories to begin with")
        path = self.path("filled")
        asyncio.run(self._fill(path, self.pairs))
        return path

    @cached_property
    def _palace(self) -> Path:
        self.say(f"a palace of {self.count:,} to begin with")
        path = self.path("palace-made")
        now = int(time.time())
        lines = (
            sealed_insight(self.raw_key, fields, now - number // PER_SECOND_COUNT)[-1]
            for number, fields in enumerate(insights(self.seed, self.count, now))
        )
        asyncio.run(self._import(path, io.BytesIO(b"\n".join(lines))))
        return path

    async def _import(self, path: Path, lines: io.BytesIO) -> None:
        async with MemoryStore(self.signer, [self.relay], ledger=path, background=False) as store:
            report = await store.import_(lines)
        if report.bad:
            raise RuntimeError(f"{len(report.bad)} events of the palace were not taken")

    async def _fill(self, path: Path, pairs: Sequence[tuple[str, str]]) -> None:
        async with MemoryStore(self.signer, [self.relay], ledger=path, background=False) as store:
            await store.remember_many(pairs)


def sealed_insight(key: RawKey, fields: dict[str, Any], now: int) -> tuple[bytes, str, int, bytes]:
    """A persona memory, sealed and signed, as a row of the ledger."""
    slot = "sense-memory/persona/{domain}/{facet}/{key}".format(**fields)
    content = key.seal(orjson.dumps({"type": "sense-memory:persona", **fields}))
    ident, body = key.event(now, slot, content)
    return ident, slot, now, body


def secret_of(seed: int) -> bytes:
    """The key of a run, for nothing else: anybody who knows the seed knows the key."""
    return hashlib.sha256(f"sense-memory bench {seed}".encode()).digest()


def in_turn(repeat: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure. The measures take turns, so that a busy moment of the machine affects all of them."""
    rounds = [[measure() for measure in measures] for _ in range(repeat)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def best_in_turn(repeat: int, *measures: Callable[[], float]) -> list[float]:
    """As `in_turn`, but the best of each measure."""
    rounds = [[measure() for measure in measures] for _ in range(repeat)]
    return [min(column) for column in zip(*rounds, strict=True)]
