"""Shared embeddings: the vectors of memories, as events for the owner's other devices.

An *embedding* is an event at `embed/{path of the memory}`. It holds the name of the model, the state of the memory (its
*stamp*), and the vectors. An embedding with another model, stamp or dimension is ignored, and replaced when vectors are
shared next. An embedding is forgotten with its memory. The vectors to share come from the cache: this module calls no
embedder.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import ClockSkewError
from sense_memory.limits import MAX_DELETED_COUNT
from sense_memory.nostr import address
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.ledger import Ledger
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.sealed_caches import VectorCache, VectorSource
    from sense_memory.records.writer import Writer

_DIGITS: Final = 5  # significant digits of each number; half precision, which the cache uses, has fewer
_LENGTH_SLACK: Final = 0.01  # vectors have length 1, up to rounding


class SharedEmbeddings:
    """Writes and reads the embeddings of one model and one ledger.

    Args:
        cache: holds the vectors.
        ledger: holds the embeddings.
        reader: decrypts embeddings.
        writer: encrypts and signs embeddings.
        clock: seconds since 1970.
    """

    def __init__(
        self, cache: VectorCache, ledger: Ledger, reader: Reader, writer: Writer, clock: Callable[[], float]
    ) -> None:
        self._cache, self._ledger, self._vectors = cache, ledger, ledger.vectors
        self._reader, self._writer, self._clock = reader, writer, clock

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    def seqs_of(self, origins: Iterable[VectorSource]) -> dict[VectorSource, int]:
        """The seqs of the embeddings of some memories, of any model and stamp."""
        slots = {origin.embedding: origin for origin in origins}
        return {slots[slot]: seq for slot, seq in self._ledger.heads.embeddings(slots).items()}

    async def fitting(self, seqs: Mapping[VectorSource, int]) -> AsyncIterator[tuple[VectorSource, Record]]:
        """The embeddings of this model that were made of the current state of their memory.

        Args:
            seqs: the seq of an embedding, by memory.

        Raises:
            LedgerCorrupt: an embedding can no longer be decrypted.
        """
        origins = {seq: origin for origin, seq in seqs.items()}
        for stored in self._ledger.read(list(origins)):
            record, origin = await self._reader.record(stored), origins[stored.seq]
            if record is None or record.fields["model"] != self._cache.model:
                continue
            if record.fields.get("stamp") == origin.stamp:
                yield origin, record

    async def read(
        self, seqs: Mapping[VectorSource, int], dimension: int
    ) -> dict[VectorSource, NDArray[Any]]:
        """The vectors in the embeddings that fit this model, its dimension, and the current state of their memory.

        Args:
            seqs: the seq of an embedding, by memory.
            dimension: the dimension of this model.

        Raises:
            LedgerCorrupt: an embedding can no longer be decrypted.
        """
        found = {origin: _rows(record.fields, dimension) async for origin, record in self.fitting(seqs)}
        return {origin: rows for origin, rows in found.items() if rows is not None}

    async def note_cached(self, seqs: Mapping[VectorSource, int]) -> None:
        """Note that the cache holds the vectors of these embeddings (seqs by memory).

        Raises:
            LedgerError: the ledger cannot be written.
        """
        await self._vectors.write(
            self._vectors.record_embeddings, {origin.slot: seq for origin, seq in seqs.items()}
        )

    # ── Sharing ─────────────────────────────────────────────────────────────────────────

    def unshared(self, origins: Mapping[str, VectorSource]) -> dict[str, VectorSource]:
        """The memories among `origins` that have cached vectors, and no embedding known to hold these vectors."""
        slots = self._vectors.without_embedding(self._cache.model)
        return {name: origin for name, origin in origins.items() if origin.slot in slots}

    async def share(self, origins: Sequence[VectorSource]) -> Counter[str]:
        """Write embeddings with the cached vectors of some memories, unless the embeddings exist. Durable on return.

        Returns:
            How many embeddings were `shared`, were `too_large` for an event, and stayed `unshared`, because the clock
            or a newer sense-memory does not allow the write.

        Raises:
            LedgerError: the ledger could not be written.
        """
        cached = await self._cached(origins)
        known = await self._already_shared(cached)
        records: dict[VectorSource, Record] = {}
        counts: Counter[str] = Counter()
        for origin in (origin for origin in cached if origin not in known):
            record = envelope.embedding(origin.path, self._fields(origin, cached[origin]))
            if not envelope.fits(record):
                counts["too_large"] += 1
            elif self._is_foreign(origin.embedding):
                counts["unshared"] += 1
            else:
                records[origin] = record
        written = await self._write(records)
        await self.note_cached(known | self.seqs_of(written))
        counts.update(shared=len(written), unshared=len(records) - len(written))
        return counts

    async def _cached(self, origins: Sequence[VectorSource]) -> dict[VectorSource, NDArray[Any]]:
        """The cached vectors of some memories in their current state."""
        reads = await self._cache.find({origin.slot: origin.stamp for origin in origins})
        return {origin: reads[origin.slot].rows for origin in origins if origin.slot in reads}

    async def _already_shared(self, cached: Mapping[VectorSource, NDArray[Any]]) -> dict[VectorSource, int]:
        """The seqs of embeddings that exist already, with as many vectors as are cached."""
        seqs = self.seqs_of(cached)
        if not seqs:
            return {}
        found = await self.read(seqs, next(iter(cached.values())).shape[1])
        return {origin: seqs[origin] for origin, rows in found.items() if rows.shape == cached[origin].shape}

    def _fields(self, origin: VectorSource, rows: NDArray[Any]) -> dict[str, Any]:
        """The fields of an embedding; `pieces` holds the vectors of the second and later pieces of a long text."""
        first, *others = _rounded(rows).tolist()
        fields = {"embedding": first, "model": self._cache.model, "created_at": int(self._clock())}
        fields["stamp"] = origin.stamp
        return {**fields, "pieces": others} if others else fields

    def _is_foreign(self, slot: str) -> bool:
        """Whether the address of an embedding holds a record of a newer sense-memory, or of another program."""
        head = self._ledger.head(slot)
        return head is not None and head.role.is_live

    async def _write(self, records: Mapping[VectorSource, Record]) -> list[VectorSource]:
        """Write embeddings, except those that the clock does not allow; returns the memories of the written ones.

        All are written together. If the clock refuses, each is written alone, so the write is no longer all or none.
        """
        try:
            await self._writer.write(list(records.values()), drafts=False)
        except ClockSkewError:
            if len(records) == 1:
                return []
            parts = [await self._write({origin: record}) for origin, record in records.items()]
            return [origin for part in parts for origin in part]
        return list(records)

    # ── Forgetting ──────────────────────────────────────────────────────────────────────

    async def forget_orphans(self, alive: Iterable[str]) -> int:
        """Forget the embeddings of forgotten memories; returns how many.

        Args:
            alive: the paths of all memories that exist.
        """
        embeddings = self._ledger.heads.embeddings()
        if not embeddings:
            return 0
        expected = {address.d_tag(address.EMBEDDING + path) for path in alive}
        gone = [seq for slot, seq in embeddings.items() if slot not in expected]
        records = [await self._reader.record(stored) for stored in self._ledger.read(gone)]
        return await forget(
            self._writer,
            [record.path for record in records if record is not None and self._is_orphan(record)],
        )

    def _is_orphan(self, record: Record) -> bool:
        """Whether the ledger knows that an embedding's memory was forgotten: a memory that is missing may still arrive."""
        path = record.path.removeprefix(address.EMBEDDING)
        is_entry = path.startswith(address.JOURNAL)
        slot = f"#{path.removeprefix(address.JOURNAL)}" if is_entry else address.d_tag(path)
        return self._ledger.edits.was_forgotten(slot)


async def forget(writer: Writer, paths: Sequence[str]) -> int:
    """Forget embeddings by their paths, except batches that the clock does not allow; returns how many."""
    count = 0
    for start in range(0, len(paths), MAX_DELETED_COUNT):
        part = paths[start : start + MAX_DELETED_COUNT]
        with suppress(ClockSkewError):
            await writer.forget_all(part)
            count += len(part)
    return count


# ── Numbers ─────────────────────────────────────────────────────────────────────────────


def _rows(fields: Mapping[str, Any], dimension: int) -> NDArray[np.float64] | None:
    """The vectors in an embedding, a row for each piece of the text; None if the fields are not valid vectors.

    Another program with the key may have written any value in the fields.
    """
    others = fields.get("pieces", [])
    if not isinstance(others, list):
        return None
    try:
        rows = np.array([fields.get("embedding"), *others])
    except (ValueError, TypeError, OverflowError):
        return None
    if rows.dtype.kind not in "iuf" or rows.ndim != 2 or rows.shape[1] != dimension:
        return None
    if not (np.abs(rows) <= 1 + _LENGTH_SLACK).all():  # false for NaN too
        return None
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(1))
    is_valid = (np.abs(lengths - 1) <= _LENGTH_SLACK) | (lengths == 0)  # zeros: the piece has no meaning
    return rows.astype(np.float64) if is_valid.all() else None


def _rounded(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers rounded to `_DIGITS` significant digits."""
    values = np.asarray(rows, np.float64)
    sizes = np.floor(np.log10(np.abs(values), out=np.zeros_like(values), where=values != 0))
    scales = 10.0 ** (_DIGITS - 1 - sizes)
    rounded: NDArray[np.float64] = np.round(values * scales) / scales + 0.0  # turns -0.0 into 0.0
    return rounded
