"""The state of a slot of a palace memory, and an edit that starts from that state. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.limits import DAY_SECONDS
from sense_memory.memories.history import RESTORED
from sense_memory.models import State
from sense_memory.palace.lifecycle import revived
from sense_memory.palace.version import fields_of
from sense_memory.records import envelope
from sense_memory.records.origins import counted


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sense_memory.ledger import Basis
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.merge import Joined
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.envelope import Record


_TRIMMED: Final = (
    "dismissed",
    "connections",
    "marked_by_hand",
    "contradicts",
    "themes",
)  # the lists that `trimmed` may cut
_SPARED: Final = frozenset({"decided", "written_at"})  # times that `trimmed` leaves out first


@dataclass(frozen=True, slots=True)
class SlotState:
    """The state of a slot, from which an edit starts.

    Attributes:
        slot: the d-tag.
        basis: what the ledger holds at the slot; a write is refused if this has changed.
        joined: the merged versions; None if there is no memory.
        known: the seqs of forks that need no further merge, once this slot is settled.
        stray: all versions, merged, if the head belongs to a memory that had been removed before; see `forks`.
        pending: the time and the number of accesses that the ledger does not have yet.
        is_covered: whether a version lives, but not the head; the memory has to be written again, above the head.
        is_forgotten: whether the stray was forgotten; otherwise it was pruned.
        is_revived: whether the memory lives only because it was recalled here, unknown to the device that pruned it.
    """

    slot: str
    basis: Basis
    joined: Joined | None = None
    known: tuple[int, ...] = ()
    stray: PersonaVersion | None = None
    pending: tuple[float, int] = (0.0, 0)
    is_covered: bool = False
    is_revived: bool = False
    is_forgotten: bool = False

    @property
    def memory(self) -> PersonaMemory | None:
        """The memory with its accesses counted; None if there is no memory."""
        if self.joined is None:
            return None
        at, count = sum_of((self.basis.accessed_at, self.basis.accesses), self.pending)
        memory = self.joined.version.memory
        return revived(memory, at, count) if count else memory

    def access_is_due(self, now: float) -> bool:
        """Whether the accesses have to be published at a time: a day after the last published access.

        They are due at once if they bring the memory back: if the published version is not active, or is dissolved. The
        first access is due when the memory is a day old, also if it was a use that is dated back.
        """
        if self.joined is None:
            return False
        known, at = self.joined.version.memory, max(self.basis.accessed_at, self.pending[0])
        is_back = known.state is not State.ACTIVE or known.dissolved_at is not None or self.is_revived
        if not known.access_count:
            at = max(at, now)
        return is_back or at - known.last_accessed >= DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Edit:
    """A memory to be written.

    Attributes:
        slot_state: the state from which the edit starts.
        memory: the memory to write.
        is_new_value: whether this device writes the value; otherwise the value keeps its provenance.
        extra: fields to write in addition to those of the memory.
        settles: whether the memory is only the merge of its versions, and not an edit of this device.
        decides: the names that a hand dismisses or marks with this edit, also if they were dismissed or marked before.
    """

    slot_state: SlotState
    memory: PersonaMemory
    is_new_value: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    settles: bool = False
    decides: frozenset[str] = frozenset()

    def of(self, memory: PersonaMemory) -> Edit:
        """The same edit with another content of the memory."""
        return self if memory is self.memory else replace(self, memory=memory)

    @property
    def basis(self) -> Basis:
        """The state with which the ledger compares the write. An edit that settles keeps the accesses in the ledger."""
        basis = self.slot_state.basis
        return replace(basis, accessed_at=0.0, accesses=0) if self.settles else basis


def record_of(edit: Edit, device: str, now: float) -> Record:
    """The record to write. Its version vector `seen` covers every version that the edit starts from, and the edit."""
    before = edit.slot_state.joined
    if edit.settles and before is not None:
        version = before.version
        kept = version.provenance, version.ts, version.rest, version.decided
        return envelope.persona(fields_of(edit.memory, *kept))
    known = {} if before is None else before.version.memory.seen
    pruned = edit.slot_state.basis.removal.seen.get(device, 0)
    # The count rises even if the memory was removed in between, and its version vector with it.
    seen = counted(known, device, max(known.get(device, 0) + 1, pruned + 1, int(now)))
    rest = {} if before is None else {k: v for k, v in before.version.rest.items() if k != RESTORED}
    provenance = device if before is None or edit.is_new_value else before.version.provenance
    return envelope.persona(
        fields_of(
            edit.memory.changed(seen=seen), provenance, now, {**rest, **edit.extra}, decided_in(edit, now)
        )
    )


def decided_in(edit: Edit, now: float) -> dict[str, int]:
    """When each name was last dismissed or marked by hand, or that was taken back, as far as it is known.

    What this edit decides gets a later time than what its device knows, also if the clock of another device is ahead.
    """
    joined, memory = edit.slot_state.joined, edit.memory
    before = None if joined is None else joined.version.memory
    dismissed, marked = ((), ()) if before is None else (before.dismissed, before.marked_by_hand)
    decided = {} if joined is None else dict(joined.version.decided)
    changed = {*dismissed} ^ {*memory.dismissed} | {*marked} ^ {*memory.marked_by_hand}
    for name in changed | edit.decides:
        decided[name] = max(int(now), decided.get(name, 0) + 1)
    return dict(sorted(decided.items()))


def trimmed(record: Record) -> Record:
    """A record with its longest lists cut until it fits an event, if that is enough; the text is never cut.

    The merge of two versions may be larger than either of them. Every device cuts the same record in the same way.
    """
    if not envelope.fits(record):
        record = envelope.persona({k: v for k, v in record.fields.items() if k not in _SPARED})
    fields = dict(record.fields)
    lists = {name: list(fields[name]) for name in _TRIMMED if fields.get(name)}
    while lists and not envelope.fits(record):
        longest = max(lists, key=lambda name: (sum(map(len, lists[name])), name))
        lists[longest].pop()
        fields[longest] = list(lists[longest])
        if not lists[longest]:
            del lists[longest]
        record = envelope.persona(fields)
    return record


def sum_of(first: tuple[float, int] | None, second: tuple[float, int] | None) -> tuple[float, int]:
    """Two pairs of last access and number of accesses as one: the later time, and the sum."""
    first, second = first or (0.0, 0), second or (0.0, 0)
    return max(first[0], second[0]), first[1] + second[1]


def is_other_than(edit: Edit) -> Callable[[Edit], bool]:
    """Whether another edit is about another memory than this one."""
    return lambda other: other.memory.path != edit.memory.path
