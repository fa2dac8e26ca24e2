"""The snapshot: an encrypted copy of opened records beside the ledger, so that a cold start opens none again.

It is a cache and never the truth. A record of it is used where the ledger's head is the very event that it
was opened from; the rest, and all of it where anything about the file is wrong, is opened from the ledger
as if there were none. Behind the records lie *extras*: what is made of them and costs more to make than to
read, such as an index. Each file has a random key of its own, sealed to the owner and kept by the ledger,
which drops it with whatever is forgotten. Nothing here raises because of a snapshot; nothing is logged.
"""

from __future__ import annotations

import asyncio
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory.envelope import SCHEMA_VERSION, Record, RecordType
from sense_memory.limits import SNAPSHOT_MESSAGE_BYTES, SNAPSHOT_SEAL_SECONDS, SNAPSHOT_WORTH_SHARE
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from sense_memory.errors import NeedsNewerVersion
    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer

_MAGIC: Final = b"sense-memory snapshot 2\n"  # another layout has another number
_KEY_TYPE: Final = "sense-memory:snapshot-key"  # what a signer sealed for anything else is no key
_TAG_BYTES: Final = 16
_ROWS: Final = 500  # in one message, unless they are long
_TYPES: Final = {kind.value: kind for kind in RecordType}
_EXTRA: Final = b"="  # begins a part of an extra; records are JSON


class Opened(NamedTuple):
    """A record with the event that it was opened from. (A tuple, because ten thousand are made at a start.)

    Attributes:
        id: the event's id, 32 bytes.
        record: what is inside; the error where that needs a newer version.
        created_at: the event's, seconds since 1970.
        seq: where the ledger holds the event, or 0 if nobody looked yet.
        is_saved: whether the snapshot has it.
    """

    id: bytes
    record: Record | NeedsNewerVersion
    created_at: int
    seq: int = 0
    is_saved: bool = False


class Extra(Protocol):
    """Something that is made of records and costs more to make than to read.

    Attributes:
        made_of: its format, and whatever else it depends on besides the records, in a line.
        unsaved: how many records went into it that it lacked in the snapshot.
    """

    made_of: str
    unsaved: int

    def __len__(self) -> int:
        """Of how many records it is made."""

    async def dump(self) -> bytes | None:
        """All of it, as of now; None where it may hold something of what was forgotten."""


class Snapshot:
    """The snapshot of one ledger.

    Args:
        signer: the owner, who seals the key.
        ledger: whose snapshot it is.
    """

    def __init__(self, signer: Signer, ledger: Ledger) -> None:
        self._signer, self._ledger, self._file = signer, ledger, ledger.snapshot
        self._extras: dict[
            str, tuple[str, bytes]
        ] = {}  # by name, as read: what it was made of, and all of it
        self._era = ""

    def is_worth(self, events: int) -> bool:
        """Whether reading it costs less than opening so many events one by one."""
        if not events or not self._file.exists:
            return False
        if not isinstance(self._signer, LocalSigner):
            return events > 1  # whoever opens elsewhere is asked once instead of each time
        return events >= SNAPSHOT_WORTH_SHARE * self._file.slots()

    async def read(self) -> Mapping[str, Opened]:
        """Its records by slot; none where there is no snapshot, or anything is wrong with it."""
        sealed = self._file.key
        if sealed is None:
            return {}
        era = self._file.era()
        try:
            cipher = _cipher_in(await self._signer.decrypt(sealed, self._signer.public_key))
            # Nothing waits from here on: what is forgotten meanwhile would be read nevertheless.
            with self._file.open() as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    return {}
                records: dict[str, Opened] = {}
                extras: dict[str, tuple[str, list[memoryview]]] = {}
                for message in _unsealed(file, cipher, self._bound()):
                    if message.startswith(_EXTRA):
                        name, made_of, part = _part(message)
                        extras.setdefault(name, (made_of, []))[1].append(part)
                    else:
                        records.update(_opened(message))
        except Exception:  # a cache: whatever is wrong with it, the ledger is there
            return {}
        self._extras = {name: (made_of, b"".join(parts)) for name, (made_of, parts) in extras.items()}
        self._era = era
        return records

    def take(self, name: str, made_of: str) -> bytes | None:
        """An extra that was read, once; None where there is none, it is made of something else, or since
        something was forgotten.
        """
        known, body = self._extras.pop(name, ("", b""))
        return body if known == made_of and self._is_of_today(self._era) else None

    def _is_of_today(self, era: str) -> bool:
        return bool(era) and self._file.era() == era

    async def write(self, opened: Mapping[str, Opened], extras: Mapping[str, Extra]) -> bool:
        """Replace it by these records, by slot, as far as they are the ledger's live heads, and these extras.

        Extras that were read and that nobody took stay.

        Returns:
            Whether it was replaced: not where another process publishes or writes one, something is being
            forgotten, the disk is full or the signer does not answer. The one before stays then.
        """
        if self._ledger.path is None:
            return False
        try:
            async with self._ledger.publishing(wait=0) as held:
                return held and await self._replace(opened, extras)
        except Exception:  # a cache: no store fails to close because of it
            return False

    async def _replace(self, opened: Mapping[str, Opened], extras: Mapping[str, Extra]) -> bool:
        key = ChaCha20Poly1305.generate_key()
        text = orjson.dumps({"type": _KEY_TYPE, "key": key.hex()})
        async with asyncio.timeout(SNAPSHOT_SEAL_SECONDS):
            sealed = await self._signer.encrypt(text, self._signer.public_key)
        try:
            with self._file.begin(sealed) as file:
                file.write(_MAGIC)
                kept = dict(self._extras) if self._is_of_today(self._era) else {}
                for name, extra in extras.items():
                    dumped = await extra.dump()
                    kept |= {} if dumped is None else {name: (extra.made_of, dumped)}
                rows = _rows(opened, self._file.heads())
                messages = chain(_messages(rows), _extra_messages(kept))
                for message in _sealed(messages, ChaCha20Poly1305(key), self._bound()):
                    file.write(message)
                    await asyncio.sleep(0)
                return self._file.finish(file, sealed)
        finally:
            self._file.abandon()

    def _bound(self) -> bytes:
        """What every message is bound to: this layout of the file, this schema of records, this owner."""
        return _MAGIC + b"%d %s" % (SCHEMA_VERSION, self._signer.public_key.encode())


def _cipher_in(text: bytes) -> ChaCha20Poly1305:
    """The cipher that a sealed key opens.

    Raises:
        ValueError: it is no key to a snapshot.
    """
    fields = orjson.loads(text)
    if not isinstance(fields, dict) or fields.get("type") != _KEY_TYPE:
        raise ValueError("no key to a snapshot")
    return ChaCha20Poly1305(bytes.fromhex(fields["key"]))


# ── Records as messages ─────────────────────────────────────────────────────────────────


def _rows(opened: Mapping[str, Opened], heads: Iterable[tuple[str, int, bytes]]) -> Iterator[tuple[Any, ...]]:
    """What is known of the live heads (slot, seq, id): a row for each of them that is open."""
    for slot, seq, ident in heads:
        known = opened.get(slot)
        if known is not None and known.id == ident and isinstance(known.record, Record):
            record = known.record
            yield slot, seq, ident.hex(), known.created_at, record.type.value, record.path, record.fields


def _messages(rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
    """JSON of some hundred rows each, column by column, which takes a third less time to read."""
    while batch := list(islice(rows, _ROWS)):
        yield from _split(batch)


def _split(batch: Sequence[tuple[Any, ...]]) -> Iterator[bytes]:
    text = orjson.dumps(tuple(zip(*batch, strict=True)))
    if len(text) <= SNAPSHOT_MESSAGE_BYTES:
        yield text
    elif len(batch) > 1:  # a single row that is too long stays out
        middle = len(batch) // 2
        yield from _split(batch[:middle])
        yield from _split(batch[middle:])


def _opened(message: bytes) -> Iterator[tuple[str, Opened]]:
    for slot, seq, ident, created_at, kind, path, fields in zip(*orjson.loads(message), strict=True):
        yield slot, Opened(bytes.fromhex(ident), Record(_TYPES[kind], path, fields), created_at, seq, True)


def _extra_messages(extras: Mapping[str, tuple[str, bytes]]) -> Iterator[bytes]:
    """Extras in pieces that fit into messages, each with the extra's name and what it is made of."""
    for name, (made_of, body) in extras.items():
        head = b"%s%s\0%s\0" % (_EXTRA, name.encode(), made_of.encode())
        size = SNAPSHOT_MESSAGE_BYTES - len(head)
        for start in range(0, len(body), size):
            yield head + body[start : start + size]


def _part(message: bytes) -> tuple[str, str, memoryview]:
    """The name of an extra, what it is made of, and a piece of it."""
    middle = message.index(b"\0")
    end = message.index(b"\0", middle + 1)
    name, made_of = message[len(_EXTRA) : middle], message[middle + 1 : end]
    return name.decode(), made_of.decode(), memoryview(message)[end + 1 :]


# ── Messages in a file ──────────────────────────────────────────────────────────────────


def _sealed(messages: Iterable[bytes], cipher: ChaCha20Poly1305, bound: bytes) -> Iterator[bytes]:
    """Each message with its length before it, and an empty one as the end. A key seals one file only."""
    for number, message in enumerate(chain(messages, (b"",)), 1):
        sealed = cipher.encrypt(_nonce(number), message, bound)
        yield len(sealed).to_bytes(4, "big") + sealed


def _unsealed(file: BinaryIO, cipher: ChaCha20Poly1305, bound: bytes) -> Iterator[bytes]:
    """The messages of a file, each verified before it is given.

    Raises:
        InvalidTag: altered, moved, cut, or sealed under another key.
        ValueError: longer than any of ours, or cut short.
    """
    for number in count(1):
        length = int.from_bytes(file.read(4), "big")
        if not _TAG_BYTES <= length <= SNAPSHOT_MESSAGE_BYTES + _TAG_BYTES:
            raise ValueError("no snapshot")
        sealed = file.read(length)
        if len(sealed) < length:
            raise ValueError("no snapshot: it ends too early")
        message = cipher.decrypt(_nonce(number), sealed, bound)
        if not message:
            return
        yield message


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
