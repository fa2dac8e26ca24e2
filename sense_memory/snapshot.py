"""The snapshot: an encrypted copy of opened records beside the ledger, so that a cold start opens none again.

It is a cache and never the truth. A record of it is used where the ledger's head is the very event that it
was opened from; the rest, and whatever of it is wrong, is opened from the ledger as if there were none. Records
lie in *blocks* by slot, so that who needs some of them reads no others. Beside them lie *extras*: what is made of
them and costs more to make than to read, such as an index. Each file has a random key of its own, sealed to the
owner and kept by the ledger, which drops it with whatever is forgotten; nothing is read without a look at that.
Nothing here raises because of a snapshot; nothing is logged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import orjson
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory.blocks import BLOCK_ROWS, MAGIC, Contents, NewContents, Opened, Seal
from sense_memory.envelope import SCHEMA_VERSION
from sense_memory.limits import SNAPSHOT_SEAL_SECONDS, SNAPSHOT_WORTH_SHARE
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer

_KEY_TYPE: Final = "sense-memory:snapshot-key"  # what a signer sealed for anything else is no key


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

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """All of it in pieces, as of now; None where it may hold something of what was forgotten."""


class Snapshot:
    """The snapshot of one ledger.

    Args:
        signer: the owner, who seals the key.
        ledger: whose snapshot it is.
    """

    def __init__(self, signer: Signer, ledger: Ledger) -> None:
        self._signer, self._ledger, self._file = signer, ledger, ledger.snapshot
        self._contents: Contents | None = None
        self._is_open = False
        self._taken: set[str] = set()  # extras that somebody has read, and keeps instead

    async def read(self, slots: Sequence[str]) -> AsyncIterator[Mapping[str, Opened]]:
        """The blocks in which so many records of some slots lie that opening their events would cost more.

        Each block is given once; use it before the next is asked for.
        """
        if not slots or not self._file.exists:
            return
        is_local = isinstance(self._signer, LocalSigner)  # a remote one is asked once, and not for each event
        least = SNAPSHOT_WORTH_SHARE * min(self._file.slots(), BLOCK_ROWS) if is_local else 2
        if len(slots) < least or (contents := await self._opened()) is None:
            return
        for number, count in contents.blocks_of(slots).items():
            if not is_local or count >= SNAPSHOT_WORTH_SHARE * contents.rows(number):
                yield contents.block(number)
                await asyncio.sleep(0)

    async def lacking(self, opened: Mapping[str, Opened]) -> tuple[int, int]:
        """How many of some records, by slot, it has not, and how many it has."""
        contents = await self._opened()
        if contents is None:
            return len(opened), 0
        known = (contents.find(slot) for slot in sorted(opened))
        same = (
            was is not None and was.id == opened[slot].id
            for slot, was in zip(sorted(opened), known, strict=True)
        )
        return len(opened) - sum(same), contents.count

    async def take(self, name: str, made_of: str) -> memoryview | None:
        """An extra, once; None where there is none, it is made of something else, or was forgotten from."""
        contents = await self._opened()
        if contents is None or name in self._taken:
            return None
        self._taken.add(name)
        return await contents.whole(name, made_of)

    async def _opened(self) -> Contents | None:
        """What the file holds, as of the first look; None where there is none, or anything is wrong with it."""
        sealed = self._file.key
        if sealed is None or self._is_open:
            return self._contents if self._contents is not None and self._contents.is_of(sealed) else None
        self._is_open = True
        try:
            cipher = _cipher_in(await self._signer.decrypt(sealed, self._signer.public_key))
            self._contents = Contents(self._file, sealed, Seal(cipher, self._bound()))
        except Exception:  # a cache: whatever is wrong with it, the ledger is there
            return None
        return self._contents

    async def write(self, opened: Mapping[str, Opened], extras: Mapping[str, Extra]) -> bool:
        """Replace it by these records, by slot, and those that it has, as far as they are the ledger's live heads;
        and by these extras, and those that nobody has taken.

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
        before = await self._opened()
        try:
            with self._ledger.write_now(self._file.begin, sealed) as file:
                new = NewContents(file, Seal(ChaCha20Poly1305(key), self._bound()))
                for name, extra in extras.items():  # first: bringing one up to date may open more records
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
        """What every message is bound to: this layout of the file, this schema of records, this owner."""
        return MAGIC + b"%d %s" % (SCHEMA_VERSION, self._signer.public_key.encode())


def _cipher_in(text: bytes) -> ChaCha20Poly1305:
    """The cipher that a sealed key opens.

    Raises:
        ValueError: it is no key to a snapshot.
    """
    fields = orjson.loads(text)
    if not isinstance(fields, dict) or fields.get("type") != _KEY_TYPE:
        raise ValueError("no key to a snapshot")
    return ChaCha20Poly1305(bytes.fromhex(fields["key"]))


def _rows(
    opened: Mapping[str, Opened], before: Contents | None, heads: Iterable[tuple[str, int, bytes]]
) -> Iterator[tuple[str, Opened]]:
    """What is known of the live heads (slot, seq, id), in their order."""
    for slot, seq, ident in heads:
        known = opened.get(slot)
        if (known is None or known.id != ident) and before is not None:
            known = before.find(slot)
        if known is not None and known.id == ident and known.can_be_kept:
            yield slot, known._replace(seq=seq)
