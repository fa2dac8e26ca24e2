"""`Persona`: the calls of `MemoryStore` on palace memories.

Each call reads the current state of the ledger and writes once. If another task, process or device writes in between,
the call starts again from the new state. The errors are those that the methods of the store name.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sense_memory.errors import ClockSkewError, InvalidInput, SignerError, TooLargeError
from sense_memory.ledger import retry_while_moved
from sense_memory.limits import MAX_ALIKE_COUNT, MAX_BATCH_COUNT, MAX_PLAINTEXT_BYTES
from sense_memory.memories.bulk import batches, numbered_errors, write_batches
from sense_memory.memories.persona.accesses import publish_accesses
from sense_memory.memories.persona.arguments import PAST, NameResolver, NewMemory, path_in, path_to, selection
from sense_memory.memories.persona.edit import is_other_than
from sense_memory.memories.persona.forks import settle_forks
from sense_memory.memories.persona.history import as_of, undone, versions
from sense_memory.memories.persona.links import LinkEditor, marks_of, with_marks_of_text
from sense_memory.memories.persona.moves import add_copy
from sense_memory.memories.persona.palace import ROOTS, EditBatch, Palace
from sense_memory.memories.persona.remembered import Found, Remembered
from sense_memory.memories.persona.suspicions import Suspicions
from sense_memory.models import PROVENANCE, PersonaMemory, State
from sense_memory.nostr import address
from sense_memory.palace.lifecycle import (
    current_state,
    is_undecided,
    opponents,
    shown,
    superseded,
    unopposed,
)
from sense_memory.palace.plan import Usage
from sense_memory.palace.sources import is_from_outside
from sense_memory.palace.version import fields_of, memory_of
from sense_memory.plain_text import printable
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.contradictions import ContradictionDetector, Meaning, Opening
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradictions.claim_index import ContradictionScan
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.palace.plan import Plan
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


Check: TypeAlias = "Callable[[PersonaMemory | None], Awaitable[None]]"

_log: Final = logging.getLogger("sense_memory.persona")
_TEXT: Final = ("value", "themes", "halflife_days", *PROVENANCE, "confidence")  # what a version says


class Persona:
    """The palace memories of an open store.

    Args:
        ledger: holds the memories.
        reader: decrypts events.
        writer: encrypts and signs events.
        clock: seconds since 1970.
        ask: asks the relays, see `NameResolver`.
        plan: limits what may be added.
        embedding: opens the embedder that finds memories near in meaning, to suggest connections; None without one.
        contradictions: what to do with contradictions: `act`, `suggest` or `off`, which compares nothing.
        withheld: gives the paths of memories that a rule keeps back: they are not recalled.

    Attributes:
        palace: all palace memories, decrypted.
        names: resolves names of memories.
        links: edits links between memories.
        suspicions: which memories may contradict each other.
        withheld: as the argument.
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
        contradictions: str = "act",
        withheld: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self.withheld = withheld
        self._ledger, self._reader, self._writer, self._clock = ledger, reader, writer, clock
        self._plan, self._embedding, self._mode = plan, embedding, contradictions
        self.palace = Palace(ledger, reader, writer, clock)
        self.names = NameResolver(self.palace, ask)
        self.links = LinkEditor(self.palace, self.names, clock)
        self.suspicions = Suspicions(self.palace, ledger, reader, clock, shows=self.compares)
        self._contradictions: ContradictionDetector | None = None
        self._meaning: Meaning | None = None

    # ── Remember, recall, forget ────────────────────────────────────────────────────────

    async def remember(
        self,
        new: NewMemory,
        *,
        contradictions: str | None = None,
        drafts: bool = True,
        check: Check | None = None,
    ) -> Remembered:
        """Write a memory; fields that were not given keep their values.

        Args:
            new: the memory.
            contradictions: `act`, `suggest` or `off`; None for the mode of the store.
            drafts: whether the memory becomes a draft if the clock does not allow the write.
            check: called with what the write would replace; raises where that must not be replaced.
        """
        path = new.path
        if "halflife_days" in new.fields:
            self._plan.check_halflife(new.fields["halflife_days"])
        mode = contradictions or self._mode

        async def attempt() -> Remembered:
            catalog = await self.palace.refresh()
            if path not in catalog:
                self._check_plan(catalog, [path])
            batch = EditBatch(self.palace)
            if check is not None:
                await check(await batch.get(path))
            found = await self._add(batch, new, mode)
            ids = await self._write_first(batch, path, drafts=drafts)
            await self._keep_suspicions([found], ids)
            return Remembered.of(ids, path, found)

        try:
            return await retry_while_moved(attempt)
        except SignerError as error:
            raise await self._kept(error, [new] if drafts else []) from None

    async def _kept(self, error: SignerError, memories: Sequence[NewMemory]) -> SignerError:
        """Keep as drafts what a remote signer did not let the palace write; returns the error that names the drafts."""
        made = [self._memory_to_write(new.path, None, new.fields) for new in memories]
        records = [envelope.persona(fields_of(memory, "", self._clock(), {})) for memory in made]
        return await self._writer.kept(error, records)

    async def remember_many(
        self, memories: Sequence[NewMemory], written: Callable[[int], None], contradictions: str | None = None
    ) -> list[Remembered]:
        """Write many memories in batches, each whole or not at all; a path that is given twice is written once.

        Each memory is compared with all memories, those written before it by this call included, as if each were
        written alone. Contradictions are found by words; the embedder is not called.

        Args:
            memories: the memories to write, checked.
            written: called after each batch with the number of memories written so far.
            contradictions: `act`, `suggest` or `off`; None for the mode of the store.
        """
        catalog = await self.palace.refresh()
        memories, each = self._checked(catalog, memories), dict[str, NewMemory]()
        for memory in memories:
            # What is given twice is written where it is given last: it is the later text.
            each[memory.path] = each.pop(memory.path).then(memory) if memory.path in each else memory
            if "halflife_days" in memory.fields:
                self._plan.check_halflife(memory.fields["halflife_days"])
        self._check_plan(catalog, [path for path in each if path not in catalog])
        mode, rest = contradictions or self._mode, list(each.values())

        async def write(part: Sequence[NewMemory]) -> list[Remembered]:
            return await retry_while_moved(partial(self._remember_part, part, mode))

        done = dict(
            zip(each, await write_batches(batches(rest, MAX_BATCH_COUNT), write, written), strict=True)
        )
        return [done[memory.path] for memory in memories]

    def _checked(self, catalog: Catalog, memories: Sequence[NewMemory]) -> list[NewMemory]:
        """The memories with their links resolved to paths; an error names a memory by its number and path."""
        checked, named = list[NewMemory](), dict[str, str]()  # named: the path of an earlier memory, by key
        for number, new in enumerate(memories, 1):
            with numbered_errors(number, (new.path,)):
                memory = self._memory_to_write(new.path, catalog.get(new.path), new.fields)
                size = envelope.plaintext_bytes(envelope.persona(fields_of(memory, "", 0.0, {})))
                if size > MAX_PLAINTEXT_BYTES:
                    raise TooLargeError(size, MAX_PLAINTEXT_BYTES)
                links = [
                    path_in(catalog, name) or named.get(name) or path_to(name) for name in new.connections
                ]
                if new.path in links:
                    raise InvalidInput(f"{new.path!r} cannot be connected with itself; nothing was written")
            checked.append(NewMemory(new.path, new.fields, tuple(links)))
            named[new.path.rpartition("/")[2]] = new.path
        return checked

    async def _remember_part(self, part: Sequence[NewMemory], mode: str) -> list[Remembered]:
        """Write one batch; returns the results in its order."""
        await self.palace.refresh()
        batch, paths = EditBatch(self.palace), [memory.path for memory in part]
        found: dict[str, Found] = {}
        compared: set[str] = set()
        try:
            for memory in part:
                found[memory.path] = added = await self._add(batch, memory, mode)
                # The following memories of the batch are compared with these changes too.
                for path in (memory.path, *added.marked) if mode != "off" else ():
                    compared.add(path)
                    if (changed := await batch.get(path)) is not None:
                        self._detector().put(changed)
            ids = await self._write_paths(batch, paths)
        except BaseException:
            for path in compared:
                self._detector().put_back(path)
            raise
        await self._keep_suspicions(found.values(), ids)
        return [Remembered.of(ids, path, found[path]) for path in paths]

    async def _write_paths(self, batch: EditBatch, paths: Sequence[str]) -> dict[str, str]:
        """Write a batch; if the clock does not allow that, keep the memories at `paths` as drafts."""
        wanted = frozenset(paths)
        with suppress(ClockSkewError):
            return await batch.write(skip_unfit=lambda other: other not in wanted)
        return await batch.only(*paths).write(drafts=True)

    async def _add(self, batch: EditBatch, new: NewMemory, mode: str) -> Found:
        """Add a memory to a batch, with the marks that it sets and removes."""
        path, at = new.path, new.fields.get("created_at")
        before = await batch.get(path)
        if before is None and not new.is_restored:
            await self.links.clear_marks_of_removed(batch, path)
        memory = self._memory_to_write(path, before, new.fields)
        decided = opponents(memory)  # marks that came with the memory, from a draft or an import
        memory = await with_marks_of_text(self.palace.catalog, batch, before, memory)
        marks = [] if before is None else marks_of(self.palace.catalog, path)
        batch.change(memory, is_new_value=True)
        found = [] if mode == "off" else await self._find_contradictions(batch, before, memory, marks)
        found = [item for item in found if item.old not in decided]
        if at is not None:
            found = [item for one in found for item in await self._in_order(batch, memory, one)]
        acting = [item.old for item in found if item.acts and item.new == path]
        if mode != "act" or (
            before is not None and acting and self._detector().claims_the_same(before, memory)
        ):
            acting = []  # what is said again marks nothing: the other memory may be right too
        if is_from_outside(memory.source):  # a fetched page must not mark as wrong what somebody told
            others = {old: await batch.get(old) for old in acting}
            acting = [old for old, one in others.items() if one is None or is_from_outside(one.source)]
        marked = await self.links.supersede(batch, path, acting, at)
        if new.connections:
            targets = [path_in(self.palace.catalog, name) or path_to(name) for name in new.connections]
            await self.links.relink(batch, path, list(dict.fromkeys(targets)))
        owners = {owner: await batch.get(owner) for owner, _ in marks}
        left = {(path, name) for path, one in owners.items() if one is not None for name in opponents(one)}
        return Found(found, marked, [mark for mark in marks if mark not in left])

    async def _keep_suspicions(self, found: Iterable[Found], written: Mapping[str, str]) -> None:
        suspected = [item for one in found for item in one.contradictions if item.old not in one.marked]
        await self.suspicions.keep(suspected, written)

    async def _in_order(
        self, batch: EditBatch, memory: PersonaMemory, found: Contradiction
    ) -> list[Contradiction]:
        """A contradiction of a memory with a date of its own and another one: of the later text against the earlier."""
        other = await batch.get(found.old)
        if other is None or other.written_at <= memory.written_at:
            return [found]
        return self._detector().compared(unopposed(memory), other)

    async def copy(self, old: str, new: str, check: Check) -> str:
        """Write a memory at another path, with its links, see `moves`; returns the event's id. `check` as for `remember`.

        Raises:
            InvalidInput: there is a memory at that path.
        """

        async def attempt() -> str:
            catalog = await self.palace.refresh()
            self._check_plan(catalog, [new], adds=False)
            batch = EditBatch(self.palace)
            await check(await batch.get(old))
            await self.links.clear_marks_of_removed(batch, new)
            await add_copy(batch, catalog, old, new)
            return (await batch.write(skip_unfit=lambda path: path != new))[new]

        return await retry_while_moved(attempt)

    async def recall(
        self,
        domain: str | None,
        facet: str | None,
        key: str | None,
        *,
        include_forgotten: bool = False,
        revive: bool = True,
    ) -> list[PersonaMemory]:
        """As `MemoryStore.persona_recall`: a memory by its path, memories by a bare key, or a listing."""
        domain, facet = selection(domain, facet)
        if key is None:
            found, withheld = (
                await self.listing(domain, facet, include_forgotten=include_forgotten),
                await self.withheld(),
            )
            return [memory for memory in found if memory.path not in withheld]
        if domain is None or facet is None:
            return await self.recall_key(key, domain, facet, revive=revive)
        memory = await self.recall_one(domain, facet, key, revive=revive)
        return [] if memory is None else [memory]

    async def recall_one(
        self, domain: str, facet: str, key: str, *, revive: bool = True
    ) -> PersonaMemory | None:
        """The memory at an exact path, revived if `revive`; None if there is no such memory."""
        tags = address.persona_lookup_paths(domain, facet, key)
        paths = [path.removeprefix(address.PERSONA) for path in tags]
        catalog = await self.names.catalog(
            lambda found: any(path in found for path in paths), "this memory is"
        )
        for path in paths:
            if path in await self.withheld():
                return None
            if (there := catalog.get(path)) is not None:
                return shown(self.palace.touch(path) if revive else there, self._clock())
        for path in tags:
            stored = self._ledger.head(address.d_tag(path))
            if stored is not None and stored.role.is_live:
                await self._reader.readable_record(stored)  # raises if a newer sense-memory wrote the memory
        return None

    async def recall_key(
        self, key: str, domain: str | None, facet: str | None, *, revive: bool = True
    ) -> list[PersonaMemory]:
        """The memories with a bare key, within a domain or facet if given; a single match is revived if `revive`."""

        def paths(catalog: Catalog) -> list[str]:
            named = dict.fromkeys(path for name in address.lookup_paths(key) for path in catalog.named(name))
            candidates = (catalog.get(path) for path in named)
            return [
                memory.path
                for memory in candidates
                if memory is not None and domain in {None, memory.domain} and facet in {None, memory.facet}
            ]

        catalog = await self.names.catalog(paths, "this memory is")
        wanted = set(paths(catalog)) - (await self.withheld()).keys()
        if len(wanted) == 1 and revive:
            return [shown(self.palace.touch(wanted.pop()), self._clock())]
        now = self._clock()
        everything = catalog.ranked(now, domain, facet, include_forgotten=True) if wanted else ()
        return [shown(memory, now) for memory in everything if memory.path in wanted]

    async def listing(
        self, domain: str | None, facet: str | None, *, include_forgotten: bool
    ) -> list[PersonaMemory]:
        """The memories of a domain or a facet, or all memories, most relevant first."""

        def ranked(catalog: Catalog) -> list[PersonaMemory]:
            now = self._clock()
            found = catalog.ranked(now, domain, facet, include_forgotten=include_forgotten)
            return [shown(memory, now) for memory in found]

        return ranked(await self.palace.refresh()) or ranked(await self.names.catalog(ranked))

    # ── History ─────────────────────────────────────────────────────────────────────────

    async def restore(self, memory: PersonaMemory, check: Check | None = None) -> Remembered:
        """Write a memory as it was before it was forgotten: with its dates, its links and its marks, its dismissals, and
        the marks in other memories that name it. `check` as for `remember`.
        """
        fields = {name: getattr(memory, name) for name in (*_TEXT, "created_at", *PAST)}
        links = tuple(path for path in memory.connections if path != memory.path)
        new = NewMemory(memory.path, fields, links, is_restored=True)
        return await self.remember(new, contradictions="off", drafts=False, check=check)

    async def publish_draft(self, record: Record, *, was_forgotten: bool) -> Remembered:
        """Write the memory of a draft over the current memory; returns the event id.

        If the path has no memory, and `was_forgotten` on another device, the memory becomes what it was: first written
        when it was, with its marks, with its dismissals, and with the marks in other memories that name it.
        """
        memory = memory_of(record.fields, "", 0)
        fields = {name: getattr(memory, name) for name in _TEXT}
        is_restored = was_forgotten and memory.path not in await self.palace.refresh()
        if is_restored:
            was = {name: getattr(memory, name) for name in (*PAST, "created_at")}
            fields |= {**was, "relevance": 1.0, "last_accessed": self._clock()}
        links = tuple(path for path in memory.connections if path != memory.path)
        return await self.remember(NewMemory(memory.path, fields, links, is_restored), drafts=False)

    async def undo(
        self, domain: str, facet: str, key: str, check: Check | None = None
    ) -> PersonaMemory | None:
        """Bring back the previous text; None if no other text is known. `check` as for `remember`."""

        async def attempt() -> PersonaMemory | None:
            await self.palace.refresh()
            for path in address.persona_lookup_paths(domain, facet, key):
                slot = address.d_tag(path)
                slot_state = await self.palace.slot_state(slot)
                if check is not None and slot_state.memory is not None:
                    await check(slot_state.memory)
                edit = undone(slot_state, await versions(self._ledger, self._reader, slot), self._clock())
                if edit is not None:
                    batch, before = EditBatch(self.palace), slot_state.memory
                    edit = edit.of(await with_marks_of_text(self.palace.catalog, batch, before, edit.memory))
                    suspected = await self._mark_again(batch, before, edit.memory)
                    await self.palace.write([edit, *batch.edits()], skip_unfit=is_other_than(edit))
                    restored = (await self.palace.refresh()).get(edit.memory.path)
                    await self.suspicions.keep(suspected)
                    return restored
            return None

        return await retry_while_moved(attempt)

    async def _mark_again(
        self, batch: EditBatch, before: PersonaMemory | None, memory: PersonaMemory
    ) -> list[Contradiction]:
        """Set the marks again that the text which an undo restores had set, and that went without a dismissal.

        Returns the contradictions that are only suspected.
        """
        if self._mode == "off" or before is None or before.value == memory.value:
            return []
        suspected, path, marks = [], memory.path, self._mode == "act"
        for one in await self._detector().check(unopposed(memory)):
            for item in await self._in_order(batch, memory, one):
                other = await batch.get(one.old)
                if other is None or not is_undecided(other, memory):
                    continue
                if marks and item.acts and item.new == path and await self._had_mark(other, path):
                    batch.change(superseded(other, path))
                else:
                    suspected.append(item)
        return suspected

    async def _had_mark(self, memory: PersonaMemory, name: str) -> bool:
        """Whether a memory with its text of today has ever had a mark that names a path, as far as is known here."""
        slot = address.d_tag(address.PERSONA + memory.path)
        past = (version.memory for version in await versions(self._ledger, self._reader, slot))
        return any(name in opponents(one) and one.value == memory.value for one in past)

    async def as_of(self, time: float, domain: str | None, facet: str | None) -> list[PersonaMemory]:
        """The memories as they were at a time (seconds since 1970), in the order of their paths."""
        slots = (slot for slot, _ in self._ledger.heads.seqs_beneath(*ROOTS))
        found = await as_of(self._ledger, self._reader, slots, time)
        wanted = (
            memory for memory in found if domain in {None, memory.domain} and facet in {None, memory.facet}
        )
        return sorted(wanted, key=lambda memory: memory.path)

    # ── Between devices ─────────────────────────────────────────────────────────────────

    async def settle_forks(self, *, complete: bool = True) -> int:
        """Merge concurrent versions, see `forks.settle_forks`; returns how many memories were written."""
        return await settle_forks(self._ledger, self.palace, complete=complete)

    async def publish_accesses(self, *, due: bool = False) -> list[str]:
        """Publish accesses of memories, see `accesses.publish_accesses`; returns the paths of those that do not fit."""
        return await publish_accesses(self.palace, due=due)

    async def close(self) -> None:
        """Save pending accesses to the ledger."""
        await self.palace.try_save_accesses()

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    def _check_plan(self, catalog: Catalog, paths: Sequence[str], *, adds: bool = True) -> None:
        """Check that the plan allows memories at some paths, and with `adds`, that there are more of them.

        Raises:
            PlanLimitError: it does not.
        """
        if not paths or (self._plan.max_memories is None and self._plan.max_domains is None):
            return
        facets = {name: frozenset(facets) for name, facets in catalog.sizes().items()}
        count = len(catalog) + self._ledger.heads.flat_count()
        if adds:
            self._plan.check_adding(Usage(count, facets), len(paths))
        for path in paths:
            domain, facet, _ = path.split("/")
            self._plan.check_place(Usage(count, facets), domain, facet)
            facets[domain] = facets.get(domain, frozenset()) | {facet}

    def _memory_to_write(
        self, path: str, before: PersonaMemory | None, fields: dict[str, Any]
    ) -> PersonaMemory:
        """The memory to write; fields that were not given keep their values."""
        now = self._clock()
        at = fields.get("created_at", now)
        if before is None:
            domain, facet, key = path.split("/")
            new = PersonaMemory(domain=domain, facet=facet, key=key, **{**fields, "created_at": at})
            return new if at >= now else new.changed(state=current_state(new, now))
        given = {name: value for name, value in fields.items() if name not in PAST}
        changed = before.changed(
            **{**given, "created_at": min(at, before.created_at)},
            written_at=max(at, before.written_at),
            relevance=1.0,
            last_accessed=max(at, before.last_accessed),
            last_reinforced=max(at, before.last_reinforced),
            state=State.ACTIVE,
            dissolved_at=None,
        )
        return unopposed(changed)  # the marks were about what was said before

    async def _find_contradictions(
        self,
        batch: EditBatch,
        before: PersonaMemory | None,
        memory: PersonaMemory,
        marks: Iterable[tuple[str, str]],
    ) -> list[Contradiction]:
        """The contradictions of a memory, most certain first.

        Memories that were reconciled with this memory are compared again only if its claims have changed; those that it
        marked (`marks`, see `marks_of`), if they are no longer marked in the batch.
        """
        detector, dismissed = self._detector(), memory.dismissed if before is None else before.dismissed
        found = await detector.check(unopposed(memory).changed(dismissed=dismissed))
        again = [owner for owner, name in marks if name == memory.path]
        if before is not None and memory.dismissed and not detector.claims_the_same(before, memory):
            again += memory.dismissed
        known = {item.old for item in found}
        if paths := [
            path for path in dict.fromkeys(again) if path not in known and path in self.palace.catalog
        ]:
            others = [await batch.get(path) for path in paths]
            found += detector.check_again(unopposed(memory), filter(None, others))
            found.sort(key=lambda item: -item.confidence)
        return found

    def _detector(self) -> ContradictionDetector:
        if self._contradictions is None:
            # Imported here, so that a process that only reads does not load the module.
            from sense_memory.memories.persona.contradictions import ContradictionDetector

            self._contradictions = ContradictionDetector(self.palace, self._ledger, self._reader)
            self.palace.follow(self._contradictions)
        return self._contradictions

    def _embedder(self) -> Meaning | None:
        if self._meaning is None and self._embedding is not None:
            from sense_memory.memories.persona.contradictions import Meaning

            self._meaning = Meaning(self._embedding)
        return self._meaning

    async def _write_first(self, batch: EditBatch, path: str, *, drafts: bool) -> dict[str, str]:
        """Write a batch; if the clock does not allow that, write the memory at `path` alone, as a draft if `drafts`.

        A change of another memory that does not fit an event is skipped, and gets an empty id, so that a full memory
        does not block the write.
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
                return ids
        return await batch.only(path).write(drafts=drafts)

    @property
    def compares(self) -> bool:
        """Whether memories are compared with each other in this store, to find contradictions."""
        return self._mode != "off"

    async def suspected(self, limit: int) -> ContradictionScan | None:
        """The contradictions that are known, and those of a comparison now.

        Args:
            limit: the largest number of contradictions to return.

        Returns None if the mode of the store is `off`.
        """
        if not self.compares:
            return None
        scan = await self._detector().scan(self.palace.catalog, await self.suspicions.pairs(), limit)
        await self.suspicions.keep(self._detector().found())
        return scan

    async def alike(self) -> list[tuple[str, str, float]]:
        """Pairs of active or fading memories whose embeddings are close, with their similarity."""
        meaning = self._embedder()
        if meaning is None:
            return []
        ranked = (await self.palace.refresh()).ranked(self._clock(), None, None)
        return await meaning.pairs(ranked[:MAX_ALIKE_COUNT])
