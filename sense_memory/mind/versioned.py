"""Versioned records: the records under a prefix as values, which are read, listed and edited from the version that counts.

Blocks, the identity, objectives, topics and passages are such values. Guaranteed: an edit never replaces a version that it did
not read, because `MindRecords.change` repeats it from the new version; so an edit may run several times, and must only
compute. Each edit is a new version; earlier ones stay in the local history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sense_memory.mind.records import MindRecord, MindRecords

_T = TypeVar("_T")


class VersionedRecords(Generic[_T]):
    """The values under a prefix.

    Args:
        records: reads and writes the records.
        prefix: such as `mind/block/`; `mind/` for a single record such as `mind/identity`.
        value_of: makes the value of a record.
        fields_of: makes the fields of a record from its value.
    """

    def __init__(
        self,
        records: MindRecords,
        prefix: str,
        value_of: Callable[[MindRecord], _T],
        fields_of: Callable[[_T], Mapping[str, Any]],
    ) -> None:
        self._records, self._prefix = records, prefix
        self._value_of, self._fields_of = value_of, fields_of

    def path(self, name: str) -> str:
        """The path of a record.

        Raises:
            InvalidAddress: no record can have this name.
        """
        return address.record_path(self._prefix, name)

    async def value(self, record: MindRecord) -> _T:
        """The value of a record."""
        return self._value_of(record)

    async def records_of(self, name: str, value: _T) -> Mapping[str, Mapping[str, Any]]:
        """The fields to write for a value, by path: of its record, and of others that belong to it."""
        return {self.path(name): self._fields_of(value)}

    async def get(self, name: str) -> _T | None:
        """The current value; None if there is none. Relays are asked as by `MindRecords.read`."""
        record = await self._records.read(self.path(name))
        return None if record is None else await self.value(record)

    async def all(self) -> dict[str, _T]:
        """The current values by name. Relays are asked as by `MindRecords.under`."""
        return {record.name: await self.value(record) for record in await self._records.under(self._prefix)}

    async def history(self, name: str) -> list[_T]:
        """The versions in this ledger, newest first."""
        versions = await self._records.versions(self.path(name))
        return [await self.value(version) for version in versions if not version.is_forgotten]

    @overload
    async def change(self, name: str, edit: Callable[[_T | None], Awaitable[_T]]) -> _T: ...

    @overload
    async def change(self, name: str, edit: Callable[[_T | None], Awaitable[_T | None]]) -> _T | None: ...

    async def change(self, name: str, edit: Callable[[_T | None], Awaitable[_T | None]]) -> _T | None:
        """Edit a value, again if it changes meanwhile; returns the new value.

        Args:
            name: the name of the record.
            edit: gets the current value, or None; returns the new value, or None to write nothing.

        Raises: as `MindRecords.change`, and as `edit`; nothing was written.
        """
        path, written = self.path(name), list[_T | None]()

        async def edited(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            before = await self.value(found[path]) if path in found else None
            written[:] = [after := await edit(before)]
            return {} if after is None else await self.records_of(name, after)

        await self._records.change([path], edited)
        return written[0]

    async def forget(self, *names: str) -> str:
        """Forget records here, and ask relays to delete them; returns the id of the deletion request."""
        return await self._records.forget([self.path(name) for name in names])
