"""What a slot holds, and an edit of it. Values only: nothing is read or written here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.limits import DAY_SECONDS
from sense_memory.memories.history import RESTORED
from sense_memory.models import State
from sense_memory.palace.lifecycle import revived
from sense_memory.palace.version import fields_of
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.ledger import Basis
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.merge import Joined
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.envelope import Record


_TRIMMED: Final = ("dismissed", "connections", "contradicts", "themes")


@dataclass(frozen=True, slots=True)
class SlotState:
    """What a slot holds, as an edit needs it.

    Attributes:
        slot: its d-tag.
        basis: what the ledger holds at the slot.
        joined: its versions, merged; None where there is no memory.
        known: seqs of the forks that are done with, once this slot is settled.
        stray: all versions, merged, where the head belongs to a memory that had been removed before; see `forks`.
        pending: the last access and the number of accesses that the ledger does not have yet.
        is_covered: whether the memory lives although the head of the ledger says otherwise; it has to be written anew,
            above that head.
        is_forgotten: whether the stray was forgotten; otherwise it was pruned.
        is_revived: whether the memory lives only because it was recalled here, which the device that pruned it did not know.
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
        """The memory with its accesses counted; None where there is none."""
        if self.joined is None:
            return None
        at, count = sum_of((self.basis.accessed_at, self.basis.accesses), self.pending)
        memory = self.joined.version.memory
        return revived(memory, at, count) if count else memory

    @property
    def access_is_due(self) -> bool:
        """Whether the accesses have to be published: a day after the last access that relays know.

        At once where the access brings the memory back: the published memory is not active, or is marked as dissolved.
        """
        if self.joined is None:
            return False
        known, at = self.joined.version.memory, max(self.basis.accessed_at, self.pending[0])
        is_back = known.state is not State.ACTIVE or known.dissolved_at is not None or self.is_revived
        return is_back or at - known.last_accessed >= DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Edit:
    """A memory to be written.

    Attributes:
        slot_state: what the edit starts from.
        memory: the memory to write.
        is_new_value: whether its value is new; otherwise the value keeps its provenance.
        extra: fields to write in addition to those of the specification.
        settles: whether the memory is only the merge of its versions, which is not an edit of this device.
    """

    slot_state: SlotState
    memory: PersonaMemory
    is_new_value: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    settles: bool = False

    def of(self, memory: PersonaMemory) -> Edit:
        """The same edit, of another state of the memory."""
        return self if memory is self.memory else replace(self, memory=memory)

    @property
    def basis(self) -> Basis:
        """What the ledger compares the write with; settling leaves the accesses noted in the ledger."""
        basis = self.slot_state.basis
        return replace(basis, accessed_at=0.0, accesses=0) if self.settles else basis


def record_of(edit: Edit, device: str, now: float) -> Record:
    """The record to write: its version vector covers everything that the edit starts from, and this edit itself."""
    before = edit.slot_state.joined
    if edit.settles and before is not None:
        version = before.version
        return envelope.persona(fields_of(edit.memory, version.provenance, version.ts, version.rest))
    seen = {} if before is None else dict(before.version.memory.seen)
    pruned = edit.slot_state.basis.removal.seen.get(device, 0)
    seen[device] = max(
        seen.get(device, 0) + 1, pruned + 1, int(now)
    )  # rises even if the memory was removed in between
    rest = {} if before is None else {k: v for k, v in before.version.rest.items() if k != RESTORED}
    said = device if before is None or edit.is_new_value else before.version.provenance
    return envelope.persona(fields_of(edit.memory.changed(seen=seen), said, now, {**rest, **edit.extra}))


def trimmed(record: Record) -> Record:
    """A record that fits an event, if cutting the ends of its longest lists is enough; the text is never cut.

    The merge of two versions may be larger than either of them. The result is the same on every device.
    """
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
    """Two counts of accesses as one: the later time, and the sum."""
    first, second = first or (0.0, 0), second or (0.0, 0)
    return max(first[0], second[0]), first[1] + second[1]
