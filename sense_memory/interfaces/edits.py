"""What a person or a program edited through a door in this run, each edit with the way to take it back.

An edit names the version that its maker saw, so that no text is lost that somebody else wrote meanwhile (`store.edits`).
Texts that an edit removed are kept in memory until the run ends, and nowhere else.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import EditConflict, InvalidInput
from sense_memory.interfaces.shapes.views import DoneEdit
from sense_memory.memories.history import undo_target
from sense_memory.memories.persona.history import with_later_themes
from sense_memory.models import PINNED, PersonaMemory


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.models import Memory
    from sense_memory.store import MemoryStore

    _Undo = Callable[[], Awaitable[object]]

MAX_EDITS: Final = 100  # that can be taken back; older ones are forgotten


@dataclass(slots=True)
class _Undoable:
    done: DoneEdit
    undo: _Undo = field(repr=False)


class EditSession:
    """The edits of one run of a door.

    Every call but `journal` raises EditConflict, as the calls of `store.edits`, and InvalidInput for what cannot be.

    Args:
        store: an open store.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store, self._edits = store, store.edits
        self._entries: deque[_Undoable] = deque(maxlen=MAX_EDITS)
        self._number = 0

    @property
    def done(self) -> list[DoneEdit]:
        """What was done in this run, the newest first."""
        return [entry.done for entry in reversed(self._entries)]

    async def write(
        self, path: str, value: str, seen: str | None, themes: Sequence[str] | None = None
    ) -> DoneEdit:
        """Write a text in place of the version that was seen, or a new memory where `seen` is None.

        The source of a palace memory is then `user`: who edits here speaks for themselves.
        """
        source = "user" if "/" in path else None
        before = None if seen is None else await self._seen(path)
        ident = await self._edits.write(path, value, seen=seen, themes=themes, source=source)
        there = await self._here(path)
        name = there.path if isinstance(there, PersonaMemory) else path
        found: dict[str, Any] = {
            "superseded": tuple(getattr(ident, "superseded", ())),
            "suspected": tuple(getattr(ident, "suspected", ())),
        }

        async def unwrite() -> None:
            seen = await self._id_of(name, value)
            if before is None:
                await self._edits.forget(name, seen=seen)
            else:
                await self._bring_back(name, before, there, seen)

        return self._add("new" if before is None else "write", name, unwrite, str(ident), **found)

    async def forget(self, path: str, seen: str) -> DoneEdit:
        """Forget the memory that was seen. Taking it back brings text, dates and links; older versions are gone."""
        memory = await self._seen(path)
        await self._edits.forget(path, seen=seen)
        return self._add("forget", path, lambda: self._edits.restore(memory))

    async def move(self, path: str, to: str, seen: str) -> DoneEdit:
        """Move the memory that was seen to a path where none is."""
        memory = await self._seen(path)
        ident = await self._edits.move(path, to, seen=seen)

        async def move_back() -> None:
            await self._edits.move(to, path, seen=await self._id_of(to, memory.value))

        return self._add("move", path, move_back, ident, to=to)

    async def pin(self, path: str, *, pinned: bool) -> DoneEdit:
        """Pin a palace memory, or unpin it."""
        palace = self._store.palace
        memory = await self._here(path)
        if not isinstance(memory, PersonaMemory) or (PINNED in memory.themes) is pinned:
            state = "pinned already" if pinned else "not pinned"
            raise InvalidInput(
                f"{path!r} is {state}, or is not in the palace; only palace memories can be pinned"
            )
        there, back = (palace.pin, palace.unpin) if pinned else (palace.unpin, palace.pin)
        await there(path)
        return self._add("pin" if pinned else "unpin", path, lambda: back(path))

    async def retheme(self, path: str, add: Sequence[str], remove: Sequence[str]) -> DoneEdit:
        """Add themes to a palace memory, and remove others. Raises InvalidInput if that changes nothing."""
        memory = await self._here(path)
        before = memory.themes if isinstance(memory, PersonaMemory) else ()
        gone, new = [one for one in remove if one in before], [one for one in add if one not in before]
        if not gone and not new:
            raise InvalidInput(
                f"{path!r} has these themes already, or is not in the palace; only palace memories have themes"
            )
        await self._edits.retheme(path, add=new, remove=gone)
        return self._add("themes", path, lambda: self._edits.retheme(path, add=gone, remove=new))

    async def journal(self, text: str) -> DoneEdit:
        """Write a journal entry."""
        ident = await self._store.journal(text)
        return self._add("journal", f"journal/{ident}", lambda: self._store.journal.forget(ident), ident)

    async def take_back(self, number: int) -> DoneEdit:
        """Take an edit back, unless the memory has another text by now; what was done later stays.

        Raises:
            InvalidInput: there is no such edit in this run, or it was taken back.
        """
        entry = next((entry for entry in self._entries if entry.done.number == number), None)
        if entry is None or entry.done.is_taken_back:
            raise InvalidInput(
                f"edit {number} was taken back already, or is not among the last {MAX_EDITS} of this run"
            )
        await entry.undo()
        entry.done = replace(entry.done, is_undoable=False, is_taken_back=True)
        entry.undo = _nothing  # it may hold a text
        return entry.done

    async def _id_of(self, path: str, text: str) -> str:
        """The version at a path that has a text. Raises EditConflict where the memory has another one, or is gone.

        Texts are compared, because the version that an edit wrote may be gone: a later move or forgetting that was
        taken back made a new one.
        """
        found = await self.find(path)
        if found is None or found.value != text:
            raise EditConflict(path)
        return found.event_id

    async def _bring_back(
        self, path: str, before: Memory | PersonaMemory, after: Memory | PersonaMemory, seen: str
    ) -> None:
        """Bring the text back that an edit replaced: by an undo if the history has it, otherwise anew.

        `after` is the memory as the edit left it: themes that changed since stay so.
        """
        target = undo_target(list(dropwhile(lambda one: not one.is_head, await self._store.history(path))))
        if target is not None and target.value == before.value:
            await self._edits.undo(path, seen=seen)
        elif isinstance(before, PersonaMemory):
            texts = before, after, await self._here(path)
            themes = with_later_themes(*(one.themes for one in texts if isinstance(one, PersonaMemory)))
            await self._edits.write(path, before.value, seen=seen, themes=themes, like=before)
        else:
            await self._edits.write(path, before.value, seen=seen, like=before)

    async def _here(self, path: str) -> Memory | PersonaMemory:
        """The memory at a path, which is not revived. Raises InvalidInput where there is none."""
        found = await self.find(path)
        if found is None:
            raise InvalidInput(f"there is no memory {path!r}")
        return found

    async def _seen(self, path: str) -> Memory | PersonaMemory:
        """The memory at a path, which its editor saw. Raises EditConflict where it is gone."""
        found = await self.find(path)
        if found is None:
            raise EditConflict(path, "was forgotten since it was read; nothing was written")
        return found

    async def find(self, path: str) -> Memory | PersonaMemory | None:
        """The memory at a path, which is not revived; None if there is none."""
        is_flat = "/" not in path
        return await (self._store.recall(path) if is_flat else self._store.palace.recall(path, revive=False))

    def _add(
        self, action: str, path: str, undo: _Undo, event_id: str = "", *, to: str = "", **found: Any
    ) -> DoneEdit:
        self._number += 1
        done = DoneEdit(self._number, action, path, to, self._store.clock(), event_id, **found)
        self._entries.append(_Undoable(done, undo))
        return done


async def _nothing() -> None:
    """Do nothing."""
