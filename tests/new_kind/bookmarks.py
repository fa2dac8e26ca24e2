"""Bookmarks: pages that an agent wants to find again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.versioned import VersionedRecords


if TYPE_CHECKING:
    from sense_memory.mind.records import MindRecord, MindRecords


@dataclass(frozen=True, slots=True)
class Bookmark:
    """One bookmark.

    Attributes:
        name: what the page is called.
        url: where the page is.
        note: why it is worth finding again.
    """

    name: str
    url: str
    note: str = ""


@checked
class Bookmarks:
    """The bookmarks of an agent.

    Args:
        records: reads and writes the bookmarks.
    """

    def __init__(self, records: MindRecords) -> None:
        self._bookmarks = VersionedRecords(records, "bookmark/", _bookmark, _fields)

    async def put(self, name: str, url: str, note: str | None = None) -> Bookmark:
        """Write a bookmark; without a note, it keeps its note.

        Raises:
            InvalidInput: the URL is empty; nothing was written.
        """
        if not url.strip():
            raise InvalidInput("a bookmark needs a URL; nothing was written")

        async def edited(found: Bookmark | None) -> Bookmark:
            before = found or Bookmark(name, url)
            return replace(before, url=url, note=before.note if note is None else note)

        return await self._bookmarks.change(name, edited)

    async def all(self) -> list[Bookmark]:
        """All bookmarks, by name."""
        return list((await self._bookmarks.all()).values())

    async def history(self, name: str) -> list[Bookmark]:
        """The versions of a bookmark in this ledger, newest first."""
        return await self._bookmarks.history(name)

    async def forget(self, name: str) -> str:
        """Forget a bookmark, and ask relays to delete it; returns the id of the deletion request."""
        return await self._bookmarks.forget(name)


def _bookmark(record: MindRecord) -> Bookmark:
    return Bookmark(record.name, record.text("url"), record.text("note"))


def _fields(bookmark: Bookmark) -> dict[str, Any]:
    return {"url": bookmark.url, "note": bookmark.note}
