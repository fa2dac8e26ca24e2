"""`remember --many`: the memories of a file, written in one go."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import typer

from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.contradictions import data_of_many, print_contradictions_of_many
from sense_memory.interfaces.cli.invocation import ExitCode, named, note, of, say
from sense_memory.interfaces.cli.names import note_missing
from sense_memory.interfaces.text import quantity


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.arguments import ContradictionMode
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.store import MemoryStore


def remember_many(
    context: typer.Context,
    entries: Sequence[inputs.FileMemory],
    contradictions: str | None,
    wait: float,
    require_acks: int,
) -> None:
    """Keep the memories of a file.

    Args:
        context: of the command.
        entries: of the file, checked.
        contradictions: for the palace memories, as `remember` takes it.
        wait: seconds for relays.
        require_acks: how many relays have to acknowledge each memory.
    """
    invocation = of(context)
    many = _Many(entries, contradictions)

    async def work(store: MemoryStore) -> delivery.Written:
        return await delivery.send(store, await many.keep(store), wait)

    try:
        written = invocation.run(work, creates=True)
    except KeyboardInterrupt:
        say("interrupted", many.how_far())
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except Exception:
        if many.kept:
            note(many.how_far())
        raise
    same, again = many.same, len(entries) - len(many.ids)
    done = f"{quantity(many.total, 'memory', 'memories')} kept" + (f", {same:,} unchanged" if same else "")
    if again:
        done += f", {quantity(again, 'earlier value')} of a repeated key left out"
    told = many.told.values()
    result = {"count": len(many.ids), "unchanged": same, "event_ids": many.ids, **data_of_many(told)}
    try:
        delivery.report_write(invocation, written, done, result, require_acks)
    finally:
        if not invocation.as_json:
            print_contradictions_of_many(told)


@dataclass(slots=True)
class _Many:
    """The memories of a file, and how far they are kept.

    Attributes:
        entries: of the file, checked.
        contradictions: for the palace memories, as `remember` takes it.
        kept: how many are written.
        total: how many are to be written: without those that are there already.
        same: how many are there already.
        told: of each palace memory that was written, what it contradicts.
        ids: the events that hold the memories, each memory once.
    """

    entries: Sequence[inputs.FileMemory]
    contradictions: str | None
    kept: int = 0
    total: int = 0
    same: int = 0
    told: dict[str, Remembered] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    async def keep(self, store: MemoryStore) -> list[str]:
        """Keep them; returns the events that relays should get.

        Those of the palace are written first: what may refuse them refuses before anything is written.
        """
        flat = [(entry.name, entry.value) for entry in self.entries if not entry.is_of_palace]
        insights = [entry for entry in self.entries if entry.is_of_palace]
        paths = {entry.name for entry in insights}
        self.total = len({*paths, *(key for key, _ in flat)})
        unsaved = await inputs.unsaved_pairs(store, flat)
        new = await inputs.unsaved_insights(store, insights) if insights else []
        self.total = len({entry.name for entry in new}) + len(unsaved.pairs)
        self.same = len(paths) + len(unsaved.places) - self.total
        others = unsaved.ids(await self._write(store, new, unsaved.pairs))
        events = await _palace_events(store) if insights else {}
        held = events | self.told | dict(zip(dict.fromkeys(key for key, _ in flat), others, strict=True))
        self.ids = [held[name] for name in dict.fromkeys(entry.name for entry in self.entries)]
        await note_missing(store, [link for entry in insights for link in entry.details["connections"] or ()])
        old = {path for one in self.told.values() for path in one.superseded} & events.keys() - paths
        return [*self.ids, *(events[path] for path in old)]

    async def _write(
        self, store: MemoryStore, insights: Sequence[inputs.FileMemory], pairs: Sequence[tuple[str, str]]
    ) -> list[str]:
        """Write what is new, with a progress bar; returns the events of the pairs."""
        from sense_memory.interfaces.cli.tables import progress

        with progress("keeping", self.total) as advance:

            def count(written: int, before: int = 0) -> None:
                self.kept = before + written
                advance(self.kept)

            if insights:
                mode = cast("ContradictionMode | None", self.contradictions)
                given = [entry.insight for entry in insights]
                with named(contradictions="--contradictions"):
                    found = await store.persona_remember_many(given, contradictions=mode, progress=count)
                self.told.update(zip((entry.name for entry in insights), found, strict=True))
            return await store.remember_many(pairs, progress=partial(count, before=self.kept))

    def how_far(self) -> str:
        """How many memories a broken run has kept."""
        some = f"{self.kept:,} of {quantity(self.total, 'memory', 'memories')} are kept and will be sent"
        is_mixed = len({entry.is_of_palace for entry in self.entries}) > 1
        which = f"{some}, those of the palace first" if is_mixed else f"the first {some}"
        return f"{which}; the rest was not written"


async def _palace_events(store: MemoryStore) -> dict[str, str]:
    """The event that holds each memory of the palace, by path."""
    memories = await store.persona_recall(include_forgotten=True)
    return {memory.path: memory.event_id for memory in memories}
