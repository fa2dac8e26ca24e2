"""What stands at an address, and a memory to be written there. Values; nothing is read or written here."""

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
    """What stands at an address, for an edit.

    Attributes:
        slot: where.
        basis: what the ledger holds of it.
        joined: its versions as one; None where there is no memory.
        known: seqs of the forks that need no more looking at, once this is settled.
        stray: where the head is of a memory that was removed before it was written, all versions as one.
        pending: when it was last accessed and how often, as far as not even the ledger knows.
        is_covered: whether the memory lives although what the ledger has on top says otherwise: it is to be written
            anew, above.
        is_forgotten: whether the stray was forgotten; else it was pruned.
        is_revived: whether it lives only because it was recalled here, unknown to who pruned it.
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
        """The memory, its accesses counted; None where there is none."""
        if self.joined is None:
            return None
        at, count = sum_of((self.basis.accessed_at, self.basis.accesses), self.pending)
        memory = self.joined.version.memory
        return revived(memory, at, count) if count else memory

    @property
    def access_is_due(self) -> bool:
        """Whether relays are to learn when the memory was last accessed: a day after the last that they know.

        At once where that brings it back: it is not active as it was written, or counts as dissolved.
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
        slot_state: what it starts from.
        memory: how it is to be.
        says: whether its value is new; otherwise the edit hands on who said it.
        extra: fields to write beside those of the spec.
        settles: whether it only says what its versions make together, which is no edit of this device.
    """

    slot_state: SlotState
    memory: PersonaMemory
    says: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    settles: bool = False

    @property
    def basis(self) -> Basis:
        """What the ledger is told of it: settling takes no accesses along."""
        basis = self.slot_state.basis
        return replace(basis, accessed_at=0.0, accesses=0) if self.settles else basis


def record_of(edit: Edit, device: str, now: float) -> Record:
    """What is written: the next step of this device's count, in knowledge of all that the edit starts from."""
    before = edit.slot_state.joined
    if edit.settles and before is not None:
        version = before.version
        return envelope.persona(fields_of(edit.memory, version.provenance, version.ts, version.rest))
    seen = {} if before is None else dict(before.version.memory.seen)
    pruned = edit.slot_state.basis.removal.seen.get(device, 0)
    seen[device] = max(seen.get(device, 0) + 1, pruned + 1, int(now))  # up, even if it was removed in between
    rest = {} if before is None else {k: v for k, v in before.version.rest.items() if k != RESTORED}
    said = device if before is None or edit.says else before.version.provenance
    return envelope.persona(fields_of(edit.memory.changed(seen=seen), said, now, {**rest, **edit.extra}))


def trimmed(record: Record) -> Record:
    """A record that fits an event, if that can be done without touching its text: its longest lists lose their ends.

    What devices make of a memory together may be larger than what either wrote. The same on every device.
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
    """Accesses: the later time, and as often as both."""
    first, second = first or (0.0, 0), second or (0.0, 0)
    return max(first[0], second[0]), first[1] + second[1]
