"""The snapshot: an encrypted copy of opened records beside the ledger, so that a cold start decrypts few events again.

Guaranteed: where they differ, the ledger wins over the snapshot, and nothing that was forgotten can be read from the
snapshot. A record is used only if the ledger's head is the very event that the record was opened from; every other
record is opened from the ledger, as if there were no snapshot.

Why it is safe: each file has a random key of its own, encrypted to the owner and kept in the ledger. The transaction
that forgets something also drops the key, and every read checks first that the key is still there. Every message is
authenticated with its number, so a part that was altered, cut or moved does not open. An error of the snapshot neither
leaves this module nor is logged; the file counts as absent.

Cost: one encrypted message for each 500 records or each piece of an extra. Records lie in *blocks* by slot, so that
only the blocks of needed records are read. *Extras* are data that cost more to compute from records than to read,
such as an index. The file is written whole, and then moved into place. Events are still decrypted one by one where that is
cheaper (few records of a block are needed), and for what a snapshot leaves out: tombstones, embeddings, and records too
long for a message.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory.errors import NeedsNewerVersion, SignerError
from sense_memory.limits import SNAPSHOT_MESSAGE_BYTES, SNAPSHOT_SEAL_SECONDS, SNAPSHOT_WORTH_SHARE
from sense_memory.nostr.address import PREFIX
from sense_memory.nostr.signer import LocalSigner
from sense_memory.records.envelope import SCHEMA_VERSION, Record
from sense_memory.records.kinds import KINDS


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.caches import SnapshotFile
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.kinds import RecordType


# ── The file of a snapshot ──────────────────────────────────────────────────────────────
# Records in blocks by slot, extras in pieces, and a directory at the end of the file.
#
# Each part is a message that is encrypted and authenticated on its own, so a reader needs no other part. The directory
# says where each message lies; the file ends with the offset of the directory.

MAGIC: Final = b"sense-memory snapshot 4\n"  # another file format gets another number
BLOCK_ROWS: Final = 500  # fewer if the records are long
_DIRECTORY: Final = 0  # the directory's number; other messages are numbered from 1
_WORD_BYTES: Final = 8  # of the directory's offset, and of the length of a block's header


class OpenedRecord(NamedTuple):
    """A record, and the event that it was opened from. A tuple with bytes, because a hundred thousand are held.

    Attributes:
        id: the event's id, 32 bytes.
        type: the record's type; None if a newer version is needed to read it.
        path: the record's path.
        body: the record's fields as JSON; or the schema version that is needed.
        created_at: the event's created_at, seconds since 1970.
        seq: the event's seq in the ledger, or 0 while unknown.
        is_saved: whether the snapshot has the record.
    """

    id: bytes
    type: RecordType | None
    path: str
    body: bytes
    created_at: int
    seq: int = 0
    is_saved: bool = False

    def __repr__(self) -> str:
        return (
            f"OpenedRecord(id={self.id.hex()[:16]}…, type={self.type!r}, path={self.path!r}, seq={self.seq})"
        )

    @classmethod
    def of(
        cls, ident: bytes, found: Record | NeedsNewerVersion, created_at: int, seq: int = 0
    ) -> OpenedRecord:
        """The result of opening an event."""
        if isinstance(found, NeedsNewerVersion):
            return cls(ident, None, "", b"%d" % found.version, created_at, seq)
        # orjson allocates far more than needed; a copy releases the rest
        body = memoryview(orjson.dumps(found.fields)).tobytes()
        return cls(ident, found.type, found.path, body, created_at, seq)

    @property
    def record(self) -> Record:
        """The record.

        Raises:
            NeedsNewerVersion: the record has a newer schema.
        """
        if self.type is None:
            raise NeedsNewerVersion(self.id.hex(), int(self.body))
        return Record(self.type, self.path, orjson.loads(self.body))

    @property
    def can_be_saved(self) -> bool:
        """Whether a snapshot holds records of this type."""
        return self.type is not None and self.type.role.is_live


class _MessageLocation(NamedTuple):
    """The place of a message in the file."""

    number: int
    offset: int
    length: int


class MessageCipher(NamedTuple):
    """Encrypts and decrypts the messages of one file. A key is used for one file, and a number for one message."""

    cipher: ChaCha20Poly1305
    bound: bytes

    def encrypt(self, number: int, text: bytes | bytearray) -> bytes:
        """The encrypted message."""
        return self.cipher.encrypt(number.to_bytes(12, "big"), text, self.bound)

    def decrypt(self, number: int, sealed: bytes) -> bytes:
        """The plain message.

        Raises:
            InvalidTag: the message was altered, moved or cut, or has another key.
        """
        return self.cipher.decrypt(number.to_bytes(12, "big"), sealed, self.bound)


class SnapshotFileReader:
    """The contents of a snapshot's file, read by its directory. A part that cannot be read counts as absent.

    Args:
        file: the snapshot's file.
        sealed: the encrypted key to the file, as the ledger has it.
        seal: the same key, decrypted.

    Attributes:
        count: the number of records in the file.

    Raises:
        Exception: there is no file, or its directory cannot be read.
    """

    def __init__(self, file: SnapshotFile, sealed: str, seal: MessageCipher) -> None:
        self._file, self._sealed, self._seal = file, sealed, seal
        with file.open() as opened:
            if opened.read(len(MAGIC)) != MAGIC:
                raise ValueError("not a snapshot")
            end = opened.seek(-_WORD_BYTES, os.SEEK_END)
            offset = int.from_bytes(opened.read(_WORD_BYTES), "big")
            opened.seek(offset)
            blocks, extras = orjson.loads(seal.decrypt(_DIRECTORY, opened.read(end - offset)))
        self._blocks: list[tuple[str, int, _MessageLocation]] = [
            (first, rows, _MessageLocation(*place)) for first, rows, place in blocks
        ]
        self._firsts = [first for first, _, _ in self._blocks]
        self._extras = {
            name: (made_of, size, [_MessageLocation(*place) for place in places])
            for name, (made_of, size, places) in extras.items()
        }
        self.count = sum(rows for _, rows, _ in self._blocks)
        self._given: set[int] = set()  # blocks that `block` has returned
        self._last: tuple[int, Mapping[str, OpenedRecord]] = -1, {}

    def is_of(self, sealed: str | None) -> bool:
        """Whether this is the key to the file; never again after something was forgotten."""
        return self._sealed == sealed

    def rows(self, number: int) -> int:
        """How many records a block has."""
        return self._blocks[number][1]

    def blocks_of(self, slots: Iterable[str]) -> Counter[int]:
        """The blocks not returned yet that may hold some of these slots, each with how many."""
        counts = Counter(self._block_of(slot) for slot in slots)
        return Counter({number: counts[number] for number in sorted(counts.keys() - self._given - {-1})})

    def block(self, number: int) -> Mapping[str, OpenedRecord]:
        """The records of a block, by slot."""
        self._given.add(number)
        return self._read(number)

    def find(self, slot: str) -> OpenedRecord | None:
        """One record; fast if slots are looked up in order."""
        number = self._block_of(slot)
        if number != self._last[0]:
            self._last = number, self._read(number) if number >= 0 else {}
        return self._last[1].get(slot)

    def extras(self) -> Iterator[tuple[str, str, Iterator[bytes]]]:
        """The name of each extra, what it is made of, and its pieces; pieces that cannot be read are empty."""
        for name, (made_of, _, places) in self._extras.items():
            yield name, made_of, map(self._message, places)

    async def whole(self, name: str, made_of: str) -> memoryview | None:
        """A whole extra; None if it is missing, is made of something else, or cannot be read."""
        known, size, places = self._extras.get(name, ("", 0, []))
        if known != made_of or not places:
            return None
        body, at = bytearray(size), 0
        for place in places:
            piece = self._message(place)
            body[at : at + len(piece)] = piece
            at += len(piece)
            if not piece or len(body) != size:
                return None
            await asyncio.sleep(0)
        return memoryview(body).toreadonly() if at == size else None

    def _block_of(self, slot: str) -> int:
        return bisect_right(self._firsts, slot) - 1

    def _read(self, number: int) -> Mapping[str, OpenedRecord]:
        try:
            return dict(_opened(self._message(self._blocks[number][2])))
        except (ValueError, TypeError, KeyError):  # as if it were empty
            return {}

    def _message(self, place: _MessageLocation) -> bytes:
        """One message; empty if it cannot be read, or if something was forgotten since it was written."""
        if self._file.key != self._sealed:
            return b""
        try:
            with self._file.open() as file:
                file.seek(place.offset)
                return self._seal.decrypt(place.number, file.read(place.length))
        except (OSError, InvalidTag):
            return b""


class SnapshotFileWriter:
    """The file of a new snapshot, while it is written.

    Args:
        file: an empty file, open for writing.
        seal: encrypts its messages.
    """

    def __init__(self, file: BinaryIO, seal: MessageCipher) -> None:
        self._file, self._seal = file, seal
        self._offset, self._number = file.write(MAGIC), _DIRECTORY
        self._blocks: list[tuple[str, int, _MessageLocation]] = []
        self._extras: dict[str, tuple[str, int, list[_MessageLocation]]] = {}

    async def add_extra(self, name: str, made_of: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Add an extra, in messages of `SNAPSHOT_MESSAGE_BYTES`."""
        places, size, waiting = list[_MessageLocation](), 0, bytearray()
        for piece in pieces:
            for start in range(0, len(piece), SNAPSHOT_MESSAGE_BYTES):
                waiting += piece[start : start + SNAPSHOT_MESSAGE_BYTES]
                while len(waiting) >= SNAPSHOT_MESSAGE_BYTES:
                    places.append(await self._add(waiting[:SNAPSHOT_MESSAGE_BYTES]))
                    del waiting[:SNAPSHOT_MESSAGE_BYTES]
            size += len(piece)
        if waiting:
            places.append(await self._add(waiting))
        self._extras[name] = made_of, size, places

    async def add_rows(self, rows: Iterable[tuple[str, OpenedRecord]]) -> None:
        """Add records by slot, in blocks. A record that is longer than any message is left out."""
        block, size = list[tuple[str, OpenedRecord]](), 0
        for row in rows:
            length = len(row[1].body)
            if length > SNAPSHOT_MESSAGE_BYTES:
                continue
            if block and (len(block) == BLOCK_ROWS or size + length > SNAPSHOT_MESSAGE_BYTES):
                await self._add_block(block)
                block, size = [], 0
            block.append(row)
            size += length
        if block:
            await self._add_block(block)

    async def _add_block(self, block: Sequence[tuple[str, OpenedRecord]]) -> None:
        self._blocks.append((block[0][0], len(block), await self._add(_text_of(block))))

    def finish(self) -> None:
        """Write the directory, and its offset."""
        offset = self._offset
        self._file.write(
            self._seal.encrypt(_DIRECTORY, orjson.dumps((self._blocks, self._extras), default=tuple))
        )
        self._file.write(offset.to_bytes(_WORD_BYTES, "big"))

    async def _add(self, text: bytes | bytearray) -> _MessageLocation:
        await asyncio.sleep(0)
        self._number += 1
        sealed = self._seal.encrypt(self._number, text)
        self._file.write(sealed)
        place = _MessageLocation(self._number, self._offset, len(sealed))
        self._offset += len(sealed)
        return place


# ── Blocks ──────────────────────────────────────────────────────────────────────────────


def _text_of(block: Sequence[tuple[str, OpenedRecord]]) -> bytes:
    """The plain text of a block: columns as JSON, then the bodies, so that only the needed bodies are parsed."""
    columns = [
        (
            slot,
            item.seq,
            item.id.hex(),
            item.created_at,
            item.type,
            None if slot == PREFIX + item.path else item.path,
            len(item.body),
        )
        for slot, item in block
    ]
    head = orjson.dumps(tuple(zip(*columns, strict=True)))
    return b"".join((len(head).to_bytes(_WORD_BYTES, "big"), head, *(item.body for _, item in block)))


def _opened(text: bytes) -> Iterator[tuple[str, OpenedRecord]]:
    at = _WORD_BYTES + int.from_bytes(text[:_WORD_BYTES], "big")
    for slot, seq, ident, created_at, kind, path, size in zip(
        *orjson.loads(text[_WORD_BYTES:at]), strict=True
    ):
        where = slot.removeprefix(PREFIX) if path is None else path
        body = text[at : at + size]
        yield slot, OpenedRecord(bytes.fromhex(ident), KINDS[kind], where, body, created_at, seq, True)
        at += size


_KEY_TYPE: Final = "sense-memory:snapshot-key"  # a text that was sealed for anything else is refused


class SnapshotExtra(Protocol):
    """Data that costs more to compute from records than to read.

    Attributes:
        made_of: one line that names the format of the data, and everything else it depends on apart from the records.
        unsaved: how many of its records were not in the saved extra.
    """

    made_of: str
    unsaved: int

    def __len__(self) -> int:
        """The number of records that the data is made of."""

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """The current data, whole, in pieces; None if the data may contain anything that was forgotten."""


class Snapshot:
    """The snapshot of one ledger.

    Args:
        signer: the owner, who seals the key.
        ledger: whose snapshot it is.
    """

    def __init__(self, signer: Signer, ledger: Ledger) -> None:
        self._signer, self._ledger, self._file = signer, ledger, ledger.snapshot
        self._contents: SnapshotFileReader | None = None
        self._is_open = False
        self._taken: set[str] = set()  # extras that were read: their readers write them to the next snapshot

    async def read(self, slots: Sequence[str]) -> AsyncIterator[Mapping[str, OpenedRecord]]:
        """The blocks with so many records of some slots that reading a block costs less than opening the events.

        Each block is returned once; use the block before the next step of the iteration.
        """
        if not slots or not self._file.exists:
            return
        is_local = isinstance(self._signer, LocalSigner)  # a remote signer is asked only once
        least = SNAPSHOT_WORTH_SHARE * min(self._file.slots(), BLOCK_ROWS) if is_local else 2
        if len(slots) < least or (contents := await self._opened()) is None:
            return
        for number, count in contents.blocks_of(slots).items():
            if not is_local or count >= SNAPSHOT_WORTH_SHARE * contents.rows(number):
                yield contents.block(number)
                await asyncio.sleep(0)

    async def lacking(self, opened: Mapping[str, OpenedRecord]) -> tuple[int, int]:
        """How many of some records, by slot, the snapshot lacks; and how many records the snapshot has."""
        contents = await self._opened()
        if contents is None:
            return len(opened), 0
        known = (contents.find(slot) for slot in sorted(opened))
        same = (
            was is not None and was.id == opened[slot].id
            for slot, was in zip(sorted(opened), known, strict=True)
        )
        return len(opened) - sum(same), contents.count

    async def take_extra(self, name: str, made_of: str) -> memoryview | None:
        """An extra, at most once; None if it is missing or made of something else, or something was forgotten since."""
        contents = await self._opened()
        if contents is None or name in self._taken:
            return None
        self._taken.add(name)
        return await contents.whole(name, made_of)

    async def _opened(self) -> SnapshotFileReader | None:
        """The contents of the file as of the first call; None if there is no file, or the file cannot be read."""
        sealed = self._file.key
        if sealed is None or self._is_open:
            return self._contents if self._contents is not None and self._contents.is_of(sealed) else None
        self._is_open = True
        try:
            cipher = _cipher_in(await self._signer.decrypt(sealed, self._signer.public_key))
            self._contents = SnapshotFileReader(self._file, sealed, MessageCipher(cipher, self._bound()))
        except SignerError:  # of a remote signer, which may answer the next time
            self._is_open = False
            raise
        except Exception:  # a cache that cannot be read is ignored: the ledger has everything
            return None
        return self._contents

    async def write(self, opened: Mapping[str, OpenedRecord], extras: Mapping[str, SnapshotExtra]) -> bool:
        """Write a new snapshot of the ledger's live heads, and of extras.

        The new snapshot has the given records (by slot) and extras, the records of the old snapshot, and the old
        extras that nobody has read.

        Returns:
            Whether the snapshot was replaced. The old snapshot stays if another process publishes or writes a
            snapshot, something is being forgotten, the disk is full, or the signer does not answer.
        """
        if self._ledger.path is None:
            return False
        try:
            async with self._ledger.publishing(wait=0) as held:
                return held and await self._replace(opened, extras)
        except Exception:  # a store must close even if a cache cannot be written
            return False

    async def _replace(self, opened: Mapping[str, OpenedRecord], extras: Mapping[str, SnapshotExtra]) -> bool:
        key = ChaCha20Poly1305.generate_key()
        text = orjson.dumps({"type": _KEY_TYPE, "key": key.hex()})
        async with asyncio.timeout(SNAPSHOT_SEAL_SECONDS):
            sealed = await self._signer.encrypt(text, self._signer.public_key)
        before = await self._opened()
        try:
            with self._ledger.write_now(self._file.begin, sealed) as file:
                new = SnapshotFileWriter(file, MessageCipher(ChaCha20Poly1305(key), self._bound()))
                for name, extra in extras.items():  # first: a dump may open more records
                    if (dumped := await extra.dump()) is not None:
                        await new.add_extra(name, extra.made_of, dumped)
                for name, made_of, pieces in () if before is None else before.extras():
                    if name not in self._taken and name not in extras:
                        await new.add_extra(name, made_of, pieces)
                await new.add_rows(_rows(opened, before, self._file.heads()))
                new.finish()
                return self._ledger.write_now(self._file.finish, file, sealed)
        finally:
            self._file.abandon()

    def _bound(self) -> bytes:
        """What every message is bound to: the file format, the schema of records, and the owner."""
        return MAGIC + b"%d %s" % (SCHEMA_VERSION, self._signer.public_key.encode())


def _cipher_in(text: bytes) -> ChaCha20Poly1305:
    """The cipher for the key in a decrypted text.

    Raises:
        ValueError: the text is not the key of a snapshot.
    """
    fields = orjson.loads(text)
    if not isinstance(fields, dict) or fields.get("type") != _KEY_TYPE:
        raise ValueError("not the key of a snapshot")
    return ChaCha20Poly1305(bytes.fromhex(fields["key"]))


def _rows(
    opened: Mapping[str, OpenedRecord],
    before: SnapshotFileReader | None,
    heads: Iterable[tuple[str, int, bytes]],
) -> Iterator[tuple[str, OpenedRecord]]:
    """The known records of the live heads (slot, seq, id), in the order of `heads`."""
    for slot, seq, ident in heads:
        known = opened.get(slot)
        if (known is None or known.id != ident) and before is not None:
            known = before.find(slot)
        if known is not None and known.id == ident and known.can_be_saved:
            yield slot, known._replace(seq=seq)
