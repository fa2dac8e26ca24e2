"""What an agent framework keeps of its threads: values as bytes of any size, each at a name in the folder of a thread.

A value is compressed, and written in one transaction: its first piece in the record of its name, the others beside it.
Guaranteed: a value is read whole or not at all, because each piece carries the token of its value; so a checkpoint of which a
relay has not sent everything yet counts as missing, and the one before it is the newest. `change` never replaces a version
that it did not read, written by whichever task or process on this ledger. A relay sees sizes, times and a
hash of the thread's id. The cost is one event for each 28 KB.
"""

from __future__ import annotations

import secrets
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sense_memory.mind.records import MindRecord, MindRecords

Value: TypeAlias = "tuple[Mapping[str, Any], bytes]"  # the fields and the bytes of a value

_FOLDER: Final = f"{address.MIND}thread/"
_PIECE_BYTES: Final = 28_000  # as base64, 37 of the 40 KB of an event
_OWN_FIELDS: Final = frozenset({"thread", "of", "count", "data"})  # beside the fields that a caller gives
_PIECE: Final = "+"  # between a name and the number of a piece; names do not contain it


class ThreadRecords:
    """Reads and writes the values of threads.

    Args:
        records: the records of a mind.
    """

    def __init__(self, records: MindRecords) -> None:
        self._records = records

    async def write(self, thread: str, name: str, fields: Mapping[str, Any], value: bytes) -> None:
        """Write a value over its earlier version. Raises as `MindRecords.write`; nothing was written then.

        Args:
            thread: the thread's id, any text.
            name: of the value, without `/` and `+`.
            fields: plain JSON values that are read with it.
            value: the bytes.
        """
        await self._records.write(_records(thread, name, fields, value))

    async def change(
        self, thread: str, name: str, edit: Callable[[Value | None], tuple[Mapping[str, Any], bytes]]
    ) -> None:
        """Write what an edit makes of a value, with its fields; repeat this if another writer was faster.

        Args:
            thread: as `write`.
            name: as `write`.
            edit: gets the value as `read` returns it, and returns what to write; may be called several times.

        Raises: as `MindRecords.change`; nothing was written then.
        """
        path = f"{_folder(thread)}{name}"

        async def edited(before: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            value = await self._value(before[path]) if path in before else None
            return _records(thread, name, *edit(value))

        await self._records.change([path], edited)

    async def read(self, thread: str, name: str) -> Value | None:
        """The fields and the bytes of a value; None if it does not exist, or has not arrived as a whole.

        Raises:
            NotSynced: the ledger does not have it, and no relay has answered completely yet.
        """
        first = await self._records.read(f"{_folder(thread)}{name}")
        return None if first is None else await self._value(first)

    async def _value(self, first: MindRecord) -> Value | None:
        """The value whose first piece is in a record; None if the others are of another value or did not arrive."""
        found = [first]
        for number in range(1, first.whole("count", 1)):
            piece = await self._records.read(f"{first.path}{_PIECE}{number}")
            if piece is None or piece.text("of") != first.text("of"):
                return None
            found.append(piece)
        try:
            return first.fields, zlib.decompress(b"".join(map(_bytes, found)))
        except (ValueError, zlib.error):  # another program wrote it
            return None

    async def names(self, thread: str) -> list[str]:
        """The names of the values of a thread, in order; relays are asked if there is none here."""
        folder = _folder(thread)
        found = self._records.names_under(folder)
        if not found and await self._records.store.replication.ask("threads are"):
            found = self._records.names_under(folder)
        return sorted(name for name in found if _PIECE not in name)

    async def threads(self) -> list[str]:
        """The ids of all threads, in order."""
        found = set[str]()
        for folder in {path.rpartition("/")[0] for path in self._records.paths_beneath(_FOLDER)}:
            for name in self._records.names_under(f"{folder}/"):
                record = await self._records.read(f"{folder}/{name}")
                if record is not None and (thread := record.text("thread")):
                    found.add(thread)
                    break
        return sorted(found)

    async def copy(self, thread: str, name: str, to: str) -> None:
        """Write a value of a thread under the same name in another thread. Does nothing if it is not there as a whole.

        Raises: as `read` and `write`.
        """
        held = await self.read(thread, name)
        if held is not None:
            fields = {key: value for key, value in held[0].items() if key not in _OWN_FIELDS}
            await self.write(to, name, fields, held[1])

    async def forget(self, thread: str, names: Iterable[str] | None = None) -> None:
        """Forget values of a thread here, and ask relays to delete them; by default all of them."""
        folder = _folder(thread)
        chosen = None if names is None else frozenset(names)
        there = self._records.names_under(folder)
        gone = [name for name in there if chosen is None or name.partition(_PIECE)[0] in chosen]
        await self._records.forget([f"{folder}{name}" for name in gone])


def _records(thread: str, name: str, fields: Mapping[str, Any], value: bytes) -> dict[str, Mapping[str, Any]]:
    """The records of a value, by path."""
    packed, token = zlib.compress(value), secrets.token_hex(8)
    pieces = [packed[start : start + _PIECE_BYTES] for start in range(0, len(packed), _PIECE_BYTES)]
    path, about = f"{_folder(thread)}{name}", {"of": token, "count": len(pieces)}
    made: dict[str, Mapping[str, Any]] = {
        path: {**fields, "thread": thread, **about, "data": _text(pieces[0])}
    }
    for number, piece in enumerate(pieces[1:], 1):
        made[f"{path}{_PIECE}{number}"] = {"of": token, "data": _text(piece)}
    return made


def _folder(thread: str) -> str:
    return f"{_FOLDER}{sha256(thread.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}/"


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(record: MindRecord) -> bytes:
    return b64decode(record.text("data"), validate=True)
