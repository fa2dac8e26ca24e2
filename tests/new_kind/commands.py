"""`mind bookmarks`: pages that an agent wants to find again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sense_memory.interfaces.cli.inputs import argument
from sense_memory.interfaces.cli.mind.group import group
from sense_memory.interfaces.cli.operations import as_sentence, as_table, operation


if TYPE_CHECKING:
    from sense_memory.mind.bookmarks import Bookmark
    from sense_memory.store import MemoryStore

bookmarks = group("bookmarks", "Keep pages to find again.", "sense-memory mind bookmarks list")

_LIST = as_table(("name", "url", "note"), lambda one, _: (one.name, one.url, one.note), none="no bookmarks")
_WRITTEN = as_sentence(lambda made: f"{made.name}: {made.url}")


@operation(
    bookmarks, "put", "sense-memory mind bookmarks put nips https://nips.example", shows=_WRITTEN, writes=True
)
async def put(
    store: MemoryStore,
    name: Annotated[str, argument("NAME", "What the page is called.")],
    url: Annotated[str, argument("URL", "Where the page is.")],
) -> Bookmark:
    """Write a bookmark."""
    return await store.mind.bookmarks.put(name, url)


@operation(bookmarks, "list", "sense-memory mind bookmarks list", shows=_LIST)
async def list_bookmarks(store: MemoryStore) -> list[Bookmark]:
    """List the bookmarks."""
    return await store.mind.bookmarks.all()
