"""Links between palace memories: connections, contradictions and dismissals. Both ends change in one write.

A decision that changes nothing here is written too, because another device may have decided otherwise in between; the
latest decision counts, see `palace.merge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import InvalidInput, TooLargeError
from sense_memory.ledger import retry_while_moved
from sense_memory.limits import MAX_THEMES_COUNT
from sense_memory.memories.persona.palace import EditBatch
from sense_memory.models import PINNED
from sense_memory.palace.lifecycle import (
    opponents,
    reconciled,
    superseded,
    undismissed,
    unopposed,
    without,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.memories.persona.arguments import NameResolver
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradictions.detection import Contradiction


class LinkEditor:
    """Edits the links of a palace.

    Args:
        palace: reads and writes the memories.
        names: resolves the names of memories.
        clock: seconds since 1970.
    """

    def __init__(self, palace: Palace, names: NameResolver, clock: Callable[[], float]) -> None:
        self._palace, self._names, self._clock = palace, names, clock

    async def connect(self, one: str, other: str) -> None:
        """Link two memories both ways, and reinforce both; a memory that has the link already stays as it is."""

        def change(memory: PersonaMemory, to: str) -> PersonaMemory | None:
            if not {to, to.rpartition("/")[2]}.isdisjoint(memory.connections):
                return None
            return memory.changed(
                connections=tuple(dict.fromkeys((*memory.connections, to))),
                last_reinforced=max(self._clock(), memory.last_reinforced),
            )

        await self._change_both(one, other, change, "connected with")

    async def disconnect(self, one: str, other: str) -> None:
        """Remove the link between two memories, if there is one."""

        def change(memory: PersonaMemory, to: str) -> PersonaMemory | None:
            left = tuple(path for path in memory.connections if path not in {to, to.rpartition("/")[2]})
            return None if left == memory.connections else memory.changed(connections=left)

        await self._change_both(one, other, change, "disconnected from")

    async def reconcile(self, one: str, other: str) -> None:
        """Make two memories compatible: remove their marks, and suggest no contradiction or connection of them again.

        If the text of a memory leaves no room in an event for the dismissal, only the mark is removed.
        """
        try:
            await self._reconcile(one, other, dismisses=True)
        except TooLargeError:
            await self._reconcile(one, other, dismisses=False)

    async def _reconcile(self, one: str, other: str, *, dismisses: bool) -> None:
        async def attempt() -> None:
            first, second = await self._names.pair(one, other, "reconciled with")
            batch = EditBatch(self._palace)
            marked = set()
            for path, to in ((first, second), (second, first)):
                memory = await batch.get(path)
                if memory is None:
                    continue
                changed = reconciled(memory, (to,))
                if opponents(changed) != opponents(memory):
                    marked.add(path)
                if not dismisses:
                    changed = changed.changed(dismissed=memory.dismissed)
                batch.change(changed, decides={to})
            await batch.write(skip_unfit=lambda path: path not in marked)

        await retry_while_moved(attempt)

    async def contradict(self, old: str, new: str) -> None:
        """Mark a memory as contradicted and replaced by another, until a hand takes the mark away."""

        async def attempt() -> None:
            first, second = await self._names.pair(old, new, "contradicted by")
            batch = EditBatch(self._palace)
            memory, successor = await batch.get(first), await batch.get(second)
            if leads_to(self._palace.catalog, second, first):
                is_direct = successor is not None and successor.superseded_by == first
                remedy = "reconcile the two first: " if is_direct else ""
                raise InvalidInput(
                    f"{remedy}{second!r} cannot supersede {first!r}, which supersedes it directly or through others; "
                    "nothing was changed"
                )
            if memory is None:
                return
            marked = superseded(memory, second, by_hand=True)
            batch.change(marked, decides={second})
            if successor is not None and first in successor.dismissed:
                batch.change(undismissed(successor, first))
            await batch.write(skip_unfit=lambda path: path == second or marked == memory)

        await retry_while_moved(attempt)

    async def pin(self, name: str, *, pinned: bool) -> str:
        """Add the theme `pinned` to a memory, or remove the theme; returns the path of the memory."""
        return await self.retheme(name, [PINNED] * pinned, [PINNED] * (not pinned))

    async def retheme(self, name: str, add: Iterable[str], remove: Iterable[str]) -> str:
        """Add themes to a memory and remove others; returns the path of the memory.

        Raises:
            InvalidInput: it would have too many themes; nothing was changed.
        """
        added, removed = tuple(add), frozenset(remove)

        async def attempt() -> str:
            path = await self._names.path_of(name)
            batch = EditBatch(self._palace)
            memory = await batch.get(path)
            themes = () if memory is None else memory.themes
            changed = tuple(dict.fromkeys((*(theme for theme in themes if theme not in removed), *added)))
            if len(changed) > max(MAX_THEMES_COUNT, len(themes)):
                raise InvalidInput(
                    f"a memory has at most {MAX_THEMES_COUNT} themes, and {path!r} would have {len(changed)}; nothing was changed"
                )
            if memory is not None and changed != themes:
                batch.change(memory.changed(themes=changed))
                await batch.write()
            return path

        return await retry_while_moved(attempt)

    async def relink(self, batch: EditBatch, path: str, targets: list[str]) -> None:
        """Connect a memory with exactly these targets in a batch; an existing target gets the link back.

        Raises:
            InvalidInput: the memory is one of its own targets.
        """
        memory = await batch.get(path)
        if memory is None:
            return
        if path in targets:
            raise InvalidInput(f"{path!r} cannot be connected with itself; nothing was written")
        batch.change(memory.changed(connections=tuple(targets)))
        for target in dict.fromkeys((*targets, *memory.connections)):
            other = await batch.get(target)
            wanted = target in targets
            if other is None or (path in other.connections) == wanted:
                continue
            links = [link for link in other.connections if link != path] + [path] * wanted
            reinforced = max(self._clock() if wanted else 0.0, other.last_reinforced)
            batch.change(other.changed(connections=tuple(links), last_reinforced=reinforced))

    async def clear_marks_of_removed(self, batch: EditBatch, path: str) -> None:
        """Remove old marks that name a memory written again after a removal: the marks were about the removed memory."""
        if not self._palace.was_removed(path):
            return
        catalog = self._palace.catalog
        list(catalog)  # reads every memory, so that `opposed_by` knows them all
        for other in catalog.opposed_by(path):
            memory = await batch.get(other)
            if memory is not None:
                batch.change(without(memory, path.__eq__))

    async def supersede(
        self, batch: EditBatch, path: str, contradicted: Iterable[str], at: float | None
    ) -> list[str]:
        """Mark memories as superseded by the memory at `path`; returns the paths of the marked memories.

        Args:
            batch: gets the changes.
            path: the new memory.
            contradicted: the paths of memories that the new memory contradicts.
            at: when the new memory was written, if the caller gave a time, as an import does. Memories that were
                written or linked later are not marked.
        """
        marked = []
        for name in contradicted:
            memory, old = await batch.get(path), await batch.get(name)
            if memory is None or old is None or (at is not None and at < old.last_reinforced):
                continue
            memory = undismissed(without(memory, name.__eq__), name)
            batch.change(memory)
            above = memory.superseded_by
            if above is None or not leads_to(self._palace.catalog, above, name):
                batch.change(superseded(old, path))
                marked.append(name)
        return marked

    async def _change_both(
        self, one: str, other: str, change: Callable[[PersonaMemory, str], PersonaMemory | None], what: str
    ) -> None:
        """Change two memories in one write.

        Args:
            one: the name of a memory.
            other: the name of the other memory.
            change: called with each memory and the path of the other; returns the changed memory, or None to keep it.
            what: for the error of `NameResolver.pair`, such as "connected with".
        """

        async def attempt() -> None:
            first, second = await self._names.pair(one, other, what)
            batch = EditBatch(self._palace)
            for path, to in ((first, second), (second, first)):
                memory = await batch.get(path)
                changed = None if memory is None else change(memory, to)
                if changed is not None:
                    batch.change(changed)
            if len(batch):
                await batch.write()

        await retry_while_moved(attempt)


def leads_to(catalog: Catalog, path: str, target: str) -> bool:
    """Whether a memory is superseded by `target`, directly or through others."""
    met: set[str] = set()
    while path not in met:
        met.add(path)
        memory = catalog.get(path)
        if memory is None or memory.superseded_by is None:
            return False
        path = memory.superseded_by
        if path == target:
            return True
    return False


def marks_of(catalog: Catalog, path: str) -> list[tuple[str, str]]:
    """The marks of the memory at a path, and those that it gave others: each as who has the mark, and whom it names."""
    memory = catalog.get(path)
    given = catalog.all_of(catalog.opposed_by(path))
    own = [] if memory is None else [(path, name) for name in opponents(memory)]
    return own + [(other.path, path) for other in given if path in opponents(other)]


async def with_marks_of_text(
    catalog: Catalog, batch: EditBatch, before: PersonaMemory | None, memory: PersonaMemory
) -> PersonaMemory:
    """A memory after a write or an undo; only marks by hand, and those that today's texts account for, are left.

    They do while the later text clearly contradicts the earlier one. The batch removes the other marks that the memory
    gave. If `undo` takes the dismissal that came with that away, the mark is set again. A text that is written now is
    the later one, whatever the clock of another device said.
    """
    if before is None:
        return memory
    memory = _with_marks_that_hold(catalog, memory)
    if before.value == memory.value:
        return memory
    path = memory.path
    catalog.of(memory.domain, memory.facet)  # reads the memories, so that `opposed_by` knows them
    is_undone = memory.written_at < before.written_at
    freed = set(before.dismissed) - set(memory.dismissed)
    for name in sorted(freed.union(catalog.opposed_by(path))):
        other = await batch.get(name) if name in catalog else None
        if other is None:
            continue
        found = _found(other, memory)
        acts, is_later = found is not None and found.acts, other.written_at <= memory.written_at
        if path in opponents(other):
            holds = path in other.marked_by_hand or (acts and (is_later or not is_undone))
            if not holds:
                batch.change(_unmarked(other, path, found))
                memory = _unmarked(memory, name, found)
        elif found is not None and path in other.dismissed and _found(other, before) is None:
            marks = acts and is_later and not leads_to(catalog, path, name)
            batch.change(superseded(other, path) if marks else undismissed(other, path))
    return memory


def _with_marks_that_hold(catalog: Catalog, memory: PersonaMemory) -> PersonaMemory:
    """A memory without the marks that an undo brought back, but that are about a text that is gone."""
    for name in opponents(memory):
        other = catalog.meant(name)
        if other is None or name in memory.marked_by_hand:
            continue
        found = _found(memory, other)
        if found is None or not found.acts or other.written_at < memory.written_at:
            memory = _unmarked(without(memory, name.__eq__), other.path, found)
    return memory


def _unmarked(memory: PersonaMemory, path: str, found: Contradiction | None) -> PersonaMemory:
    """A memory without the mark of another one, which it dismisses, so that no device brings the mark back.

    Where a contradiction is still suspected, it is not dismissed, because introspection would not name it then.
    """
    return without(memory, path.__eq__) if found else reconciled(memory, (path,))


def _found(old: PersonaMemory, new: PersonaMemory) -> Contradiction | None:
    """What two memories contradict each other in by their texts, whatever is marked or dismissed."""
    # Imported here, so that a process that only reads does not load the module.
    from sense_memory.palace.contradictions.detection import compare

    return compare(unopposed(old).changed(dismissed=()), unopposed(new).changed(dismissed=()))
