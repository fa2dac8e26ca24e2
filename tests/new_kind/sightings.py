"""Sightings: birds that an agent has seen, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.versioned import VersionedRecords


if TYPE_CHECKING:
    from sense_memory.mind.records import MindRecord, MindRecords


@dataclass(frozen=True, slots=True)
class Sighting:
    """One sighting.

    Attributes:
        name: the bird.
        place: where it was seen.
        note: what else there is to say.
    """

    name: str
    place: str
    note: str = ""


@checked
class Sightings:
    """The sightings of an agent.

    Args:
        records: reads and writes the sightings.
    """

    def __init__(self, records: MindRecords) -> None:
        self._sightings = VersionedRecords(records, "sighting/", _sighting, _fields)

    async def put(self, name: str, place: str, note: str | None = None) -> Sighting:
        """Write a sighting; without a note, it keeps its note.

        Raises:
            InvalidInput: the place is empty; nothing was written.
        """
        if not place.strip():
            raise InvalidInput("a sighting needs a place; nothing was written")

        async def edited(found: Sighting | None) -> Sighting:
            before = found or Sighting(name, place)
            return replace(before, place=place, note=before.note if note is None else note)

        return await self._sightings.change(name, edited)

    async def all(self) -> list[Sighting]:
        """All sightings, by name."""
        return list((await self._sightings.all()).values())

    async def history(self, name: str) -> list[Sighting]:
        """The versions of a sighting in this ledger, newest first."""
        return await self._sightings.history(name)

    async def forget(self, name: str) -> str:
        """Forget a sighting, and ask relays to delete it; returns the id of the deletion request."""
        return await self._sightings.forget(name)


def _sighting(record: MindRecord) -> Sighting:
    return Sighting(record.name, record.text("place"), record.text("note"))


def _fields(sighting: Sighting) -> dict[str, Any]:
    return {"place": sighting.place, "note": sighting.note}
