"""`store.edits`: edits of what the caller has seen; a text that another process or device wrote meanwhile is not replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory import arguments
from sense_memory.errors import InvalidInput
from sense_memory.memories.conditional_edits import ConditionalEdits
from sense_memory.memories.history import parts_of
from sense_memory.memories.persona import arguments as given
from sense_memory.models import PROVENANCE, PersonaMemory


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.models import Memory


class StoreEdits:
    """Edits of what the caller has seen. Get it as `store.edits`.

    `name` is the key of a flat memory, or the path `domain/facet/key` of a palace memory. `seen` is the event id of the
    version that the caller saw (`memory.event_id`). Every call raises EditConflict where the memory has another text by
    now, and has then written nothing; a memory that was only recalled or linked meanwhile is no conflict.

    Args:
        opened: gives the open store, or raises StoreClosed.
    """

    def __init__(self, opened: Callable[[], OpenStore]) -> None:
        self._open = opened

    async def write(
        self,
        name: str,
        value: str,
        *,
        seen: str | None,
        themes: Sequence[str] | None = None,
        source: str | None = None,
        like: Memory | PersonaMemory | None = None,
    ) -> str:
        """Write a memory in place of the version that was seen; `seen=None` where the caller saw no memory.

        `themes` and `source` are of a palace memory only; without them, it keeps its own. `like` is a memory that came from
        where the text comes from, in place of a source. Returns the event's id, as `remember` does; no draft is kept.
        Raises as `remember`.
        """
        _check_seen(seen)
        async with self._open().writing() as store:
            edits = _edits(store)
            if not _is_path(name):
                return await edits.write_flat(name, arguments.value(value), seen, like)
            fields = given.fields(value, themes, None, source, None)
            if like is not None:
                fields |= {name: getattr(like, name) for name in PROVENANCE}
            return await edits.write(given.NewMemory(given.path(name), fields), seen)

    async def retheme(self, path: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add themes to a palace memory, and remove others; its text, and themes that others changed meanwhile, stay.

        Raises InvalidInput where the path names no one memory, or a theme cannot be used.
        """
        added, removed = given.themes_of(add), given.themes_of(remove)
        async with self._open().writing() as store:
            await store.persona().links.retheme(_path(path), added, removed)

    async def undo(self, name: str, *, seen: str) -> Memory | PersonaMemory | None:
        """Bring back the text before the version that was seen, as `undo`; None where no other text is known."""
        _check_seen(seen)
        async with self._open().writing() as store:
            edits = _edits(store)
            return await (edits.undo(_path(name), seen) if _is_path(name) else edits.undo_flat(name, seen))

    async def move(self, name: str, to: str, *, seen: str) -> str:
        """Move a memory to a name that no memory has, with its text, its dates and its links; returns the event's id.

        A palace memory moves to a path and a flat one to a key. The old name is then forgotten, and its older versions
        with it. A kill in between leaves the memory under both names. Raises InvalidInput where `to` is taken.
        """
        _check_seen(seen)
        if _is_path(name) != _is_path(to):
            raise InvalidInput(
                "a palace memory moves to another path domain/facet/key, and a flat memory to another key; "
                "nothing was moved"
            )
        async with self._open().writing() as store:
            edits = _edits(store)
            if _is_path(name):
                return await edits.move(_path(name), given.path(to), seen)
            return await edits.move_flat(name, to, seen)

    async def forget(self, name: str, *, seen: str) -> str:
        """Forget the memory that was seen, as `forget`; returns the id of the deletion request."""
        _check_seen(seen)
        async with self._open().writing() as store:
            edits = _edits(store)
            return await (
                edits.forget(_path(name), seen) if _is_path(name) else edits.forget_flat(name, seen)
            )

    async def restore(self, memory: Memory | PersonaMemory) -> str:
        """Write a memory that was forgotten as it was, where there is none now; returns the event's id.

        A palace memory gets its dates, links and marks back. Older versions are gone for good.
        """
        async with self._open().writing() as store:
            edits = _edits(store)
            if isinstance(memory, PersonaMemory):
                return await edits.restore(memory)
            return await edits.restore_flat(memory)


def _edits(store: OpenStore) -> ConditionalEdits:
    parts = store.ledger, store.reader, store.writer
    return ConditionalEdits(*parts, flat=store.flat, persona=store.persona(), clock=store.options.clock)


def _is_path(name: object) -> bool:
    return isinstance(name, str) and "/" in name


def _path(name: str) -> str:
    return "/".join(parts_of(name))


def _check_seen(seen: object) -> None:
    if seen is not None and not isinstance(seen, str):
        raise InvalidInput("seen must be the event id of the version that was read; nothing was written")
