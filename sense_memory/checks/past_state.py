"""A whole memory as it was: a store of its own in a temporary folder, with the writes up to a moment and no relay.

Guaranteed: the store that is asked stays as it is, and nothing of the copy outlives the call. The copy has the same signed
events, verified again, and the entries of the log up to then. What was forgotten since is not in it, because forgetting erases
texts, and so are versions that were replaced within their second. It searches by words, without an embedder, and its clock
stands still.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import SenseMemoryError
from sense_memory.memories.trust import provenance_in_fields
from sense_memory.mind.entry_sources import name_of, source_of
from sense_memory.mind.log import NewEntry
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent, verify
from sense_memory.records import envelope
from sense_memory.store import MemoryStore


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sense_memory.mind.log import LogEntry

_LOG: Final = f"{address.PREFIX}{address.MIND}log/"
_BATCH_COUNT: Final = 500


@dataclass(frozen=True, slots=True)
class PastWrite:
    """One write of a memory.

    Attributes:
        at: when it was written, seconds since 1970.
        event_id: of the event, 64 hex digits; of an entry of the log its own id.
        path: what was written: a path, a flat key, `log:CONVERSATION/ID`; empty where only a newer version can read it.
        value: the text; empty for a deletion.
        source: who said it; empty if unknown.
        device: which device wrote it; empty if unknown.
    """

    at: float
    event_id: str
    path: str = ""
    value: str = field(default="", repr=False)
    source: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class _Raw:
    """One write as it lies in the ledger: an event as a line of JSON, or an entry of the log."""

    at: float
    event_id: str
    line: bytes = b""
    entry: LogEntry | None = None


class PastStates:
    """The earlier states of a store, one after each of its writes.

    Args:
        store: the open store.
        writes: its writes in the order of time; `PastStates.of` reads them.
    """

    def __init__(self, store: MemoryStore, writes: Sequence[_Raw]) -> None:
        self._store, self._writes = store, writes
        self._texts: list[str] | None = None

    @classmethod
    async def of(cls, store: MemoryStore) -> PastStates:
        """Read the writes of a store."""
        exported = io.BytesIO()
        store.export(exported)
        writes = [one for line in exported.getvalue().splitlines() if (one := _event(line)) is not None]
        entries = await store.mind.log.entries()
        writes += [_Raw(entry.at, entry.id, entry=entry) for entry in entries]
        return cls(store, sorted(writes, key=lambda one: one.at))

    def __len__(self) -> int:
        return len(self._writes)

    def until(self, time: float) -> int:
        """How many writes there were at a time, seconds since 1970."""
        return sum(one.at <= time for one in self._writes)

    @asynccontextmanager
    async def after(self, count: int, now: float) -> AsyncIterator[MemoryStore]:
        """A store with the first writes only.

        Args:
            count: how many.
            now: what its clock says, seconds since 1970.
        """
        options: dict[str, Any] = {"relays": [], "background": False, "snapshot": False, "clock": lambda: now}
        part = self._writes[:count]
        with tempfile.TemporaryDirectory(prefix="sense-memory-past-") as folder:
            signer = self._store.mind.store.options.signer
            async with MemoryStore(signer, ledger=Path(folder) / "past.db", **options) as past:
                lines = [one.line for one in part if one.line]
                await past.import_(io.BytesIO(b"\n".join(lines)))
                said = [_again(one.entry) for one in part if one.entry is not None]
                for start in range(0, len(said), _BATCH_COUNT):
                    await past.mind.log.append_many(said[start : start + _BATCH_COUNT])
                yield past

    async def saying(self, words: str) -> list[int]:
        """The numbers of the writes whose text has some words, the latest first."""
        if self._texts is None:
            numbers = range(1, len(self._writes) + 1)
            self._texts = [(await self.write(number)).value.casefold() for number in numbers]
        wanted = words.casefold()
        return [number for number, text in enumerate(self._texts, 1) if wanted in text][::-1]

    async def write(self, number: int) -> PastWrite:
        """One of the writes, counted from 1, with what it wrote."""
        raw = self._writes[number - 1]
        signer = self._store.mind.store.options.signer
        if raw.entry is not None:
            source, text = source_of(raw.entry, signer.public_key), raw.entry.text
            return PastWrite(raw.at, raw.event_id, name_of(raw.entry), text, source)
        try:
            record = await envelope.open_event(signer, verify(RawEvent.loads(raw.line)))
        except SenseMemoryError:
            return PastWrite(raw.at, raw.event_id)
        device = record.fields.get("said", "")
        device = device if isinstance(device, str) else str(device[0]) if device else ""
        text = record.fields.get("value") or record.fields.get("content") or ""
        path = record.path.removeprefix(address.PERSONA) or "journal"
        return PastWrite(
            *(raw.at, raw.event_id, path, str(text)),
            provenance_in_fields(record.fields)["source"] or str(record.fields.get("made_by", "")),
            device,
        )


def _event(line: bytes) -> _Raw | None:
    """An event of an export; None for a page of the log, whose entries count one by one."""
    event = orjson.loads(line)
    names = [tag[1] for tag in event["tags"] if tag[:1] == ["d"] and len(tag) > 1]
    if any(name.startswith(_LOG) for name in names):
        return None
    return _Raw(float(event["created_at"]), event["id"], line)


def _again(entry: LogEntry) -> NewEntry:
    return NewEntry(
        entry.kind, entry.payload, entry.actor, entry.turn, entry.conversation, entry.at, entry.id
    )
