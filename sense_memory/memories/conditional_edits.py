"""Conditional edits: a memory is written, moved or forgotten only if it still has the text that the caller saw.

Guaranteed: no text is replaced or forgotten that the caller did not see, whether it comes from this process, another process
or another device. What counts is the text: a recall or a link elsewhere makes a new version, and is no conflict.

Why it is safe: the state of the slot is read before the comparison, and the ledger compares it again in the transaction that
writes (`ledger.edits`). If anything came in between, the edit starts again from the comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sense_memory.errors import EditConflict, InvalidInput
from sense_memory.ledger import retry_while_moved
from sense_memory.memories.history import head_at
from sense_memory.memories.trust import provenance_of
from sense_memory.nostr import address
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.ledger import Basis, Ledger
    from sense_memory.memories.flat import FlatMemories
    from sense_memory.memories.persona.arguments import NewMemory
    from sense_memory.memories.persona.persona import Check, Persona
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.models import Memory, PersonaMemory
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


class ConditionalEdits:
    """The conditional edits of an open store. `seen` is the event id of the version that the caller saw; None for none.

    Args:
        ledger: holds the versions.
        reader: opens them.
        writer: writes and forgets.
        flat: the flat memories.
        persona: the palace memories.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        *,
        flat: FlatMemories,
        persona: Persona,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._reader, self._writer = ledger, reader, writer
        self._flat, self._persona, self._clock = flat, persona, clock

    # ── Palace memories ─────────────────────────────────────────────────────────────────

    async def write(self, new: NewMemory, seen: str | None) -> Remembered:
        """Write a palace memory. Raises EditConflict, and as `Persona.remember`."""
        return await self._persona.remember(new, drafts=False, check=self._check(new.path, seen))

    async def restore(self, memory: PersonaMemory) -> Remembered:
        """Write a palace memory as it was before it was forgotten, where there is none now. Raises EditConflict."""
        return await self._persona.restore(memory, self._check(memory.path, None))

    async def undo(self, path: str, seen: str) -> PersonaMemory | None:
        """Bring back the text before the one that was seen; None where none is known. Raises EditConflict."""
        domain, facet, key = path.split("/")
        return await self._persona.undo(domain, facet, key, self._check(path, seen))

    async def move(self, path: str, to: str, seen: str) -> str:
        """Move a palace memory to a path where no memory is; returns the id of the event there.

        Raises EditConflict and InvalidInput. A kill in between leaves the memory at both paths.
        """
        ident = await self._persona.copy(path, to, self._check(path, seen))
        await self._forget_moved(path, to, self.forget(path, seen))
        return ident

    async def forget(self, path: str, seen: str) -> str:
        """Forget a palace memory; returns the id of the deletion request. Raises EditConflict."""
        check = self._check(path, seen)
        full, slot = address.PERSONA + path, address.d_tag(address.PERSONA + path)

        async def attempt() -> str:
            await self._persona.palace.refresh()
            slot_state = await self._persona.palace.slot_state(slot)
            await check(slot_state.memory)
            bases = {slot: slot_state.basis}
            return await self._writer.forget_all([full], bases, insists=True, discarded=[slot])

        return await self._forgotten(attempt)

    def _check(self, path: str, seen: str | None) -> Check:
        async def check(memory: PersonaMemory | None) -> None:
            await self._compare(path, memory, seen)

        return check

    # ── Flat memories ───────────────────────────────────────────────────────────────────

    async def write_flat(self, key: str, value: str, seen: str | None, like: Any = None) -> str:
        """Write a flat memory; returns the event's id. Raises EditConflict.

        `like` is a memory that came from where the value comes from; None keeps what the memory says.
        """
        record = envelope.flat(key, value, self._clock(), None if like is None else provenance_of(like))
        await self._flat.check_plan([record])
        return await self._write_flat(record, seen)

    async def restore_flat(self, memory: Memory) -> str:
        """Write a flat memory as of its time where there is none now; returns the event's id. Raises EditConflict."""
        return await self._write_flat(
            envelope.flat(memory.key, memory.value, memory.created_at, provenance_of(memory)), None
        )

    async def undo_flat(self, key: str, seen: str) -> Memory | None:
        """Bring back the text before the one that was seen; None where none is known. Raises EditConflict."""
        record = await self._flat.previous(key)
        if record is None:
            return None
        await self._write_flat(record, seen)
        return await self._flat.here(key)

    async def _write_flat(self, record: Record, seen: str | None) -> str:
        key = record.fields["key"]

        async def attempt() -> str:
            bases = self._bases(key)
            await self._compare(key, await self._flat.here(key), seen)
            return await self._flat.publish_draft(record, bases)

        return await retry_while_moved(attempt)

    async def move_flat(self, key: str, to: str, seen: str) -> str:
        """As `move`, for a flat memory, which keeps the time of its text."""
        memory = await self._flat.here(key)
        await self._compare(key, memory, seen)
        if memory is None or await self._flat.here(to) is not None:
            raise InvalidInput(f"there is a memory at {to!r} already; nothing was moved")
        ident = await self.restore_flat(memory.model_copy(update={"key": to}))
        await self._forget_moved(key, to, self.forget_flat(key, seen))
        return ident

    async def forget_flat(self, key: str, seen: str) -> str:
        """Forget a flat memory; returns the id of the deletion request. Raises EditConflict."""

        async def attempt() -> str:
            bases = self._bases(key)
            await self._compare(key, await self._flat.here(key), seen)
            heads = {path: head_at(self._ledger, [path]) for path in address.lookup_paths(key)}
            live = [path for path, head in heads.items() if head is not None and head.role.is_live]
            return await self._writer.forget_all(live, bases, insists=True, discarded=[*bases])

        return await self._forgotten(attempt)

    def _bases(self, key: str) -> dict[str, Basis]:
        """What the ledger holds at the slots of a key; to be read before the memory itself."""
        slots = map(address.d_tag, address.lookup_paths(key))
        return {slot: self._ledger.edits.basis(slot) for slot in slots}

    # ── Both ────────────────────────────────────────────────────────────────────────────

    async def _forgotten(self, attempt: Callable[[], Awaitable[str]]) -> str:
        ident = await retry_while_moved(attempt)
        self._ledger.checkpoint()
        return ident

    async def _forget_moved(self, old: str, new: str, forgetting: Awaitable[str]) -> None:
        """Forget the old place of a memory that was written at a new one."""
        try:
            await forgetting
        except EditConflict:
            problem = (
                f"got another text while it was moved to {new!r}; both are there, and nothing was forgotten"
            )
            raise EditConflict(old, problem) from None

    async def _compare(self, path: str, memory: Memory | PersonaMemory | None, seen: str | None) -> None:
        """Raise EditConflict unless a memory is what the caller saw."""
        if memory is None:
            if seen is not None:
                raise EditConflict(path, "was forgotten since it was read; nothing was written")
        elif seen is None:
            raise EditConflict(path, "was written by somebody else meanwhile; nothing was written")
        elif memory.event_id != seen and await self._text_of(seen) != memory.value:
            raise EditConflict(path)

    async def _text_of(self, event_id: str) -> str | None:
        """The text of a version; None if the ledger does not have it."""
        stored = self._ledger.by_id(event_id)
        record = None if stored is None else await self._reader.record(stored)
        return None if record is None else record.type.text_of(record.fields)
