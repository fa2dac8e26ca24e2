"""`Persona`: what `MemoryStore` does with persona memories. Each call reads the palace once and writes once.

An edit starts from what the ledger holds now. Where another task, process or device wrote first, the call starts
again from what was written. The errors are those that the methods of the store name.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import ClockSkewError, NeedsNewerVersion
from sense_memory.ledger import Role
from sense_memory.limits import MAX_ALIKE_COUNT, MAX_BATCH_COUNT
from sense_memory.memories.persona.batch import EditBatch, retry_while_moved
from sense_memory.memories.persona.edit import Edit
from sense_memory.memories.persona.forks import settle_forks
from sense_memory.memories.persona.history import as_of, undone, versions
from sense_memory.memories.persona.links import LinkEditor, leads_to, superseded
from sense_memory.memories.persona.names import NameResolver, path_in, path_to
from sense_memory.memories.persona.palace import ROOTS, Palace
from sense_memory.models import PersonaMemory, State
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable
from sense_memory.palace.lifecycle import shown
from sense_memory.palace.plan import Usage
from sense_memory.palace.version import memory_of


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.contradictions import ContradictionDetector, Nearness, Opening
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradictions.claim_index import ContradictionScan
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.palace.plan import Plan
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


_log: Final = logging.getLogger("sense_memory.persona")


class Persona:
    """The persona memories of an open store.

    Args:
        ledger: where the memories are stored.
        reader: opens their events.
        writer: seals and signs them.
        clock: seconds since 1970.
        ask: asks a relay, if none was asked yet; see `NameResolver`.
        plan: the limits of what may be added.
        embedding: opens the embedder, to find contradictions in other words; by default only words are compared.

    Attributes:
        palace: all persona memories, opened.
        names: resolves their names.
        links: edits their links.
    """

    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        *,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
        plan: Plan,
        embedding: Opening | None = None,
    ) -> None:
        self._ledger, self._reader, self._writer, self._clock = ledger, reader, writer, clock
        self._plan, self._embedding = plan, embedding
        self.palace = Palace(ledger, reader, writer, clock)
        self.names = NameResolver(self.palace, ask)
        self.links = LinkEditor(self.palace, self.names, clock)
        self._contradictions: ContradictionDetector | None = None
        self._nearness: Nearness | None = None

    # ── Remember, recall, forget ────────────────────────────────────────────────────────

    async def remember(
        self, path: str, fields: dict[str, Any], connections: Sequence[str], *, drafts: bool = True
    ) -> str:
        """Write a memory at a path (`domain/facet/key`), with checked fields; returns the event id."""
        if "halflife_days" in fields:
            self._plan.check_halflife(fields["halflife_days"])
        near = await self._near(path, fields)

        async def attempt() -> str:
            catalog = await self.palace.refresh()
            batch = EditBatch(self.palace)
            before = await batch.get(path)
            if before is None:
                self._check_plan(catalog, path)
            memory = self._written(path, before, fields)
            batch.change(memory, is_new_value=True)
            doubtful = await self._contradict(batch, path, near)
            if connections:
                targets = [path_in(catalog, name) or path_to(name) for name in connections]
                await self.links.relink(batch, path, list(dict.fromkeys(targets)))
            ident = await self._write_first(batch, path, drafts=drafts)
            self._detector().suspect(doubtful)
            return ident

        ident = await retry_while_moved(attempt)
        await self._detector().written(path)
        return ident

    async def recall_one(self, domain: str, facet: str, key: str) -> PersonaMemory | None:
        """The memory at an exact path, revived; None where there is none."""
        tags = address.persona_lookup_paths(domain, facet, key)
        paths = [path.removeprefix(address.PERSONA) for path in tags]
        catalog = await self.names.catalog(
            lambda found: any(path in found for path in paths), "this memory is"
        )
        for path in paths:
            if path in catalog:
                return shown(self.palace.touch(path), self._clock())
        for path in tags:
            stored = self._ledger.head(address.d_tag(path))
            if stored is not None and stored.role is Role.MEMORY:
                await self._reader.readable_record(stored)  # raises, where a newer version wrote it
        return None

    async def recall_key(self, key: str, domain: str | None, facet: str | None) -> list[PersonaMemory]:
        """The memories with a bare key, in a domain or a facet if given; if there is only one, it is revived."""

        def paths(catalog: Catalog) -> list[str]:
            named = dict.fromkeys(path for name in address.lookup_paths(key) for path in catalog.named(name))
            candidates = (catalog.get(path) for path in named)
            return [
                memory.path
                for memory in candidates
                if memory is not None and domain in {None, memory.domain} and facet in {None, memory.facet}
            ]

        catalog = await self.names.catalog(paths, "this memory is")
        wanted = set(paths(catalog))
        if len(wanted) == 1:
            return [shown(self.palace.touch(wanted.pop()), self._clock())]
        now = self._clock()
        everything = catalog.ranked(now, domain, facet, include_forgotten=True) if wanted else ()
        return [shown(memory, now) for memory in everything if memory.path in wanted]

    async def listing(
        self, domain: str | None, facet: str | None, *, include_forgotten: bool
    ) -> list[PersonaMemory]:
        """The memories of a domain or a facet, or all; the most relevant first."""

        def ranked(catalog: Catalog) -> list[PersonaMemory]:
            now = self._clock()
            found = catalog.ranked(now, domain, facet, include_forgotten=include_forgotten)
            return [shown(memory, now) for memory in found]

        return ranked(await self.palace.refresh()) or ranked(await self.names.catalog(ranked))

    # ── The past ────────────────────────────────────────────────────────────────────────

    async def publish_draft(self, record: Record) -> str:
        """Write the memory of a draft over what the ledger holds now; returns the event id."""
        memory = memory_of(record.fields, "", 0)
        names = ("value", "themes", "halflife_days", "source", "confidence")
        links = [path for path in memory.connections if path != memory.path]
        return await self.remember(
            memory.path, {name: getattr(memory, name) for name in names}, links, drafts=False
        )

    async def undo(self, domain: str, facet: str, key: str) -> PersonaMemory | None:
        """Restore a memory to what it was before its last change; None where there is nothing to restore."""

        async def attempt() -> PersonaMemory | None:
            for path in address.persona_lookup_paths(domain, facet, key):
                slot = address.d_tag(path)
                slot_state = await self.palace.slot_state(slot)
                edit = undone(slot_state, await versions(self._ledger, self._reader, slot), self._clock())
                if edit is not None:
                    await self.palace.write([edit])
                    return (await self.palace.refresh()).get(edit.memory.path)
            return None

        return await retry_while_moved(attempt)

    async def as_of(self, time: float, domain: str | None, facet: str | None) -> list[PersonaMemory]:
        """The memories as they were at a time, in the order of their paths."""
        slots = (slot for slot, _ in self._ledger.heads.seqs_beneath(*ROOTS))
        found = await as_of(self._ledger, self._reader, slots, time)
        wanted = (
            memory for memory in found if domain in {None, memory.domain} and facet in {None, memory.facet}
        )
        return sorted(wanted, key=lambda memory: memory.path)

    # ── Between devices ─────────────────────────────────────────────────────────────────

    async def settle(self, *, heard: bool = True) -> int:
        """Merge concurrent versions, see `forks.settle_forks`; returns how many memories were written.

        Args:
            heard: whether every relay has told everything; if not, only forgotten copies are removed.
        """
        return await settle_forks(self._ledger, self.palace, heard=heard)

    async def publish_accesses(self, *, due: bool = False) -> list[str]:
        """Publish the accesses of recalled memories; returns the paths of the memories that do not fit an event.

        A text near the size limit may leave no room for the fields that an access adds; the accesses of such a
        memory stay on this machine.

        Args:
            due: publish only where the last access that relays know is a day old, or the memory is not active there.
        """
        if not self.palace.unpublished_accesses():
            return []
        await self.palace.refresh()
        unfit: list[str] = []
        slots = self.palace.unpublished_accesses()
        if due:
            return list(filter(None, [await self._publish_access(slot) for slot in slots]))
        for start in range(0, len(slots), MAX_BATCH_COUNT):
            part = slots[start : start + MAX_BATCH_COUNT]

            async def attempt(part: Sequence[str] = part) -> list[str]:
                slot_states = [await self.palace.slot_state(slot) for slot in part]
                edits = [
                    Edit(slot_state, slot_state.memory) for slot_state in slot_states if slot_state.memory
                ]
                ids = await self.palace.write(edits, skip_unfit=lambda _: True)
                return [edit.memory.path for edit, ident in zip(edits, ids, strict=True) if not ident]

            unfit += await retry_while_moved(attempt)
        return unfit

    async def _publish_access(self, slot: str) -> str:
        """Publish the accesses of one memory, if they are due; returns its path where the memory does not fit an event."""

        async def attempt() -> str:
            slot_state = await self.palace.slot_state(slot)
            if slot_state.memory is None or not slot_state.access_is_due:
                return ""
            (ident,) = await self.palace.write(
                [Edit(slot_state, slot_state.memory)], skip_unfit=lambda _: True
            )
            return "" if ident else slot_state.memory.path

        with suppress(ClockSkewError, NeedsNewerVersion):
            return await retry_while_moved(attempt)
        return ""

    async def close(self) -> None:
        """Save the accesses to the ledger, and stop waiting for the embedder."""
        if self._nearness is not None:
            self._nearness.close()
        await self.palace.try_save_accesses()

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    def _check_plan(self, catalog: Catalog, path: str) -> None:
        """Raise `PlanLimitError` where the plan does not allow one more memory at a path."""
        if self._plan.max_memories is not None or self._plan.max_domains is not None:
            domain, facet, _ = path.split("/")
            facets = {name: frozenset(facets) for name, facets in catalog.sizes().items()}
            held = Usage(len(catalog) + self._ledger.heads.flat_count(), facets)
            self._plan.check_adding(held)
            self._plan.check_place(held, domain, facet)

    def _written(self, path: str, before: PersonaMemory | None, fields: dict[str, Any]) -> PersonaMemory:
        """The memory to write: fields that were not given keep their values."""
        now = self._clock()
        domain, facet, key = path.split("/")
        if before is None:
            return PersonaMemory(domain=domain, facet=facet, key=key, created_at=now, **fields)
        changed = before.changed(
            **fields,
            relevance=1.0,
            last_accessed=max(now, before.last_accessed),
            last_reinforced=max(now, before.last_reinforced),
            state=State.ACTIVE,
            dissolved_at=None,
        )
        if before.value == changed.value:
            return changed
        return changed.changed(contradicts=(), superseded_by=None)  # those were about the old value

    async def _near(self, path: str, fields: dict[str, Any]) -> list[str]:
        """The paths of memories near in meaning to the one about to be written; none without an embedder."""
        if self._embedding is None:
            return []
        before = (await self.palace.refresh()).get(path)
        return await self._detector().look(_unopposed(self._written(path, before, fields)))

    async def _contradict(self, batch: EditBatch, path: str, near: Sequence[str]) -> list[Contradiction]:
        """Mark the memories that a new one surely contradicts as superseded; returns the doubtful contradictions."""
        memory = await batch.get(path)
        if memory is None:
            return []
        found = self._detector().check(_unopposed(memory), near)
        for contradiction in found:
            old = await batch.get(contradiction.old) if contradiction.acts else None
            if old is None:
                continue
            memory = memory.changed(
                contradicts=tuple(other for other in memory.contradicts if other != old.path),
                superseded_by=None if memory.superseded_by == old.path else memory.superseded_by,
            )
            batch.change(memory)
            above = memory.superseded_by
            if above is None or not leads_to(self.palace.catalog, above, old.path):
                batch.change(superseded(old, path))
        return [contradiction for contradiction in found if not contradiction.acts]

    def _detector(self) -> ContradictionDetector:
        if self._contradictions is None:
            # Imported here, so that a process that only reads does not pay for it.
            from sense_memory.memories.persona.contradictions import ContradictionDetector

            self._contradictions = ContradictionDetector(self.palace.catalog, self._meaning())
            self.palace.follow(self._contradictions)
        return self._contradictions

    def _meaning(self) -> Nearness | None:
        if self._nearness is None and self._embedding is not None:
            from sense_memory.memories.persona.contradictions import Nearness

            self._nearness = Nearness(self._embedding)
        return self._nearness

    async def _write_first(self, batch: EditBatch, path: str, *, drafts: bool) -> str:
        """Write a batch; where the clock forbids that, write the memory at `path` alone, as a draft if `drafts`.

        A change of another memory that would not fit an event is skipped, so that a full memory does not keep others
        from being written.
        """
        if len(batch) > 1:
            with suppress(ClockSkewError):
                ids = await batch.write(skip_unfit=lambda other: other != path)
                if unfit := [other for other, ident in ids.items() if not ident]:
                    _log.warning(
                        "no room for a link to %s in %s",
                        printable(path),
                        printable(", ".join(unfit)),
                    )
                return ids[path]
        return (await batch.only(path).write(drafts=drafts))[path]

    async def suspected(self, limit: int) -> ContradictionScan:
        """The contradictions that were found since this store was opened, and by comparing memories now.

        Args:
            limit: contradictions to show.
        """
        return await self._detector().scan(self.palace.catalog, limit)

    async def alike(self) -> list[tuple[str, str, float]]:
        """Pairs of active or fading memories that are near in meaning, among those with embeddings."""
        nearness = self._meaning()
        if nearness is None:
            return []
        ranked = (await self.palace.refresh()).ranked(self._clock(), None, None)
        return await nearness.pairs(ranked[:MAX_ALIKE_COUNT])


def _unopposed(memory: PersonaMemory) -> PersonaMemory:
    """A memory without its contradictions: remembering a superseded memory again makes it valid again."""
    return memory.changed(contradicts=(), superseded_by=None)
