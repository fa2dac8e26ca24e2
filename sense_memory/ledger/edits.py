"""Edits of memories: the state that an edit starts from, the accesses not yet in a version, and drafts.

An edit reads a memory, changes something and writes the memory back.

Guaranteed: an edit overwrites only the version that it started from, whether another version comes from this process,
another process or another device. A recorded access is neither lost nor counted twice.

Why it is safe: `basis` reads the head and the forks of a slot, and `check_bases` compares them in the transaction that
writes. If anything has changed in between, `HeadMoved` is raised and nothing is written. What a version knows is inside
the ciphertext. So the ledger lists as a *fork* every version that another device's version replaces, and every version
that arrives late, until an edit that knows the fork is written.

Cost: five queries by index to read a basis, and two to check it; a row for each fork, and for each memory that was read
since its last edit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sense_memory.ledger.device_id import DeviceId, is_own_device, wrote
from sense_memory.ledger.removals import (
    NOTHING,
    HeadMoved,
    Origin,
    Removal,
    add_head_fork,
    read_removal,
)
from sense_memory.ledger.roles import IS_TOMBSTONE
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.versions import FiledEvent

_COVERED_TO = (
    "SELECT max(second) FROM (SELECT until AS second FROM deletions WHERE target = ? UNION ALL "
    f"SELECT created_at FROM events WHERE slot = ? AND {IS_TOMBSTONE} AND quarantined = 0)"
)


_T = TypeVar("_T")


async def retry_while_moved(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Await an attempt that reads, decides and writes once, and repeat it after each `HeadMoved`.

    Each repetition means that another writer succeeded. Every edit of this package that starts from what it read is such an
    attempt, so none replaces a version that it did not read.
    """
    while True:
        with suppress(HeadMoved):
            return await attempt()


@dataclass(frozen=True, slots=True)
class Basis:
    """The state of a slot that an edit starts from.

    Attributes:
        head: the head's seq, or None if the slot has no head.
        forks: seqs of the versions that the head may not know.
        accessed_at: the last access that no version contains yet, seconds since 1970, or 0.
        accesses: the number of accesses that no version contains yet.
        removal: what was forgotten or pruned at the slot.
        covered_to: the second of the last tombstone or deletion, or -1; no earlier version can be the head.
    """

    head: int | None = None
    forks: tuple[int, ...] = ()
    accessed_at: float = 0.0
    accesses: int = 0
    removal: Removal = NOTHING
    covered_to: int = -1


class Edits:
    """The bases, forks and accesses of a ledger.

    Args:
        db: the open ledger file.

    Attributes:
        device_id: the id under which this process writes.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.device_id = DeviceId(db)

    @property
    def device(self) -> str:
        """The id under which this process writes, 8 hex digits; see `DeviceId`."""
        return self.device_id.get()

    def is_own(self, device: str) -> bool:
        """Whether this ledger, or the ledger of which it is a copy, has written under a device id."""
        return is_own_device(self._db, device)

    def wrote(self, origin: Origin) -> bool:
        """Whether this ledger, as it stands, wrote a text: not a copy of it, and not this ledger before it was set back."""
        return wrote(self._db, origin.device, origin.said)

    # ── Editing ─────────────────────────────────────────────────────────────────────────

    def basis(self, slot: str) -> Basis:
        """The current state of a slot, for an edit."""
        (covered_to,) = self._db.row(_COVERED_TO, slot, slot) or (None,)
        return Basis(
            *self._versions(slot),
            *self.access(slot),
            read_removal(self._db, slot),
            -1 if covered_to is None else covered_to,
        )

    def access(self, slot: str) -> tuple[float, int]:
        """The last time and the number of a slot's accesses that no version contains yet; zeros if there are none."""
        last_at, count = self._db.row("SELECT last_at, count FROM access WHERE slot = ?", slot) or (0.0, 0)
        return last_at, count

    def _versions(self, slot: str) -> tuple[int | None, tuple[int, ...]]:
        """The seq of a slot's head, and the seqs of the versions that the head may not know."""
        head = self._db.row("SELECT head FROM slots WHERE slot = ?", slot)
        listed = self._db.rows("SELECT event FROM forks WHERE slot = ? ORDER BY event", slot)
        return (head[0] if head else None), tuple(seq for (seq,) in listed)

    def removal(self, slot: str) -> Removal:
        """What was forgotten or pruned at a slot, as far as this ledger knows."""
        return read_removal(self._db, slot)

    def forgets(self, slot: str, origin: Origin) -> bool:
        """Whether the text of a version was forgotten, at its slot or at the slot of which it is a conflict copy."""
        return self.removal(slot).forgets(origin) or self.is_forgotten_copy(origin)

    def is_forgotten_copy(self, origin: Origin) -> bool:
        """Whether a version is a conflict copy of a text that was forgotten at the original slot."""
        return bool(origin.copy_of) and self.removal(origin.copy_of).names(origin.said)

    def was_forgotten(self, slot: str) -> bool:
        """Whether the ledger knows a deletion or a tombstone of a slot."""
        return self._db.row(_COVERED_TO, slot, slot) not in {None, (None,)}

    def check_bases(self, items: Iterable[FiledEvent], bases: Mapping[str, Basis] | None) -> dict[str, Basis]:
        """Check the bases of some edits, and return them; call this in the transaction that writes the edits.

        Raises:
            HeadMoved: a slot has changed since its basis was read.
        """
        based = {item.slot: bases[item.slot] for item in items if item.slot in bases} if bases else {}
        for slot, basis in based.items():
            if self._versions(slot) != (basis.head, basis.forks):
                raise HeadMoved
        return based

    def complete_edit(self, slot: str, based: Mapping[str, Basis]) -> None:
        """Remove the forks and accesses that a written edit includes; call this in the edit's transaction."""
        basis = based.get(slot, Basis())
        if basis.forks:
            self._db.execute("DELETE FROM forks WHERE slot = ?", slot)
        if basis.covered_to >= 0:
            add_head_fork(self._db, slot)
        if basis.accesses:
            self._db.execute("UPDATE access SET count = count - ? WHERE slot = ?", basis.accesses, slot)
            self._db.execute("DELETE FROM access WHERE slot = ? AND count <= 0", slot)

    # ── Forks ───────────────────────────────────────────────────────────────────────────

    def forked_slots(self) -> list[str]:
        """The slots with versions that their heads may not know."""
        return [slot for (slot,) in self._db.rows("SELECT DISTINCT slot FROM forks ORDER BY slot")]

    def forks(self) -> dict[str, tuple[int, ...]]:
        """By forked slot, the seqs of the versions that its head may not know."""
        found: dict[str, tuple[int, ...]] = {}
        for slot, seq in self._db.rows("SELECT slot, event FROM forks ORDER BY slot, event"):
            found[slot] = (*found.get(slot, ()), seq)
        return found

    def forked_copies(self) -> list[str]:
        """The forked slots that may be conflict copies or flat memories; a hashed address may be either."""
        hashed = f"{address.PREFIX}~"
        return [
            slot
            for slot in self.forked_slots()
            if "~conflict-" in slot or slot.startswith(hashed) or not address.may_be_persona(slot)
        ]

    def remove_forks(self, slot: str, seqs: Iterable[int]) -> None:
        """Remove forks that the head of a slot turns out to know."""
        with self._db.transaction():
            self._db.execute_many(
                "DELETE FROM forks WHERE slot = ? AND event = ?", [(slot, seq) for seq in seqs]
            )

    # ── Accesses ────────────────────────────────────────────────────────────────────────

    def record_accesses(self, accesses: Sequence[tuple[str, float, int]]) -> None:
        """Record accesses of memories, which stay local until the next edit of each memory.

        Args:
            accesses: for each memory its slot, the last time (seconds since 1970), and the number.
        """
        with self._db.transaction():
            self._db.execute_many(
                "INSERT INTO access VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
                "SET last_at = max(last_at, excluded.last_at), count = count + excluded.count",
                accesses,
            )

    def accesses(self) -> dict[str, tuple[float, int]]:
        """By slot, the last time and the number of the accesses that no version contains yet."""
        rows = self._db.rows("SELECT slot, last_at, count FROM access")
        return {slot: (last_at, count) for slot, last_at, count in rows}

    # ── Edits that lost ─────────────────────────────────────────────────────────────────

    def overruled(self) -> list[str]:
        """The slots at which an edit of this device met another that did not know it, or a forgotten memory was written
        again, and the user has not been told yet.
        """
        return [slot for (slot,) in self._db.rows("SELECT slot FROM overruled ORDER BY slot")]

    def clear_overruled(self, slots: Iterable[str]) -> None:
        """Clear slots that have been shown to the user."""
        with self._db.transaction():
            self._db.execute_many("DELETE FROM overruled WHERE slot = ?", [(slot,) for slot in slots])


# ── Drafts ──────────────────────────────────────────────────────────────────────────────
# Texts that did not become versions, kept as ciphertext until the user decides.
#
# A text becomes a draft if the clock did not allow a stamp, if another device forgot a text that it had not seen, or if
# the text lost and is too large for a conflict copy. A draft is not an event: it has no second and no signature, and no
# relay ever sees a draft.


@dataclass(frozen=True, slots=True)
class SealedDraft:
    """One draft.

    Attributes:
        number: the draft's number, never given twice.
        slot: the address that the text was written for.
        content: ciphertext (NIP-44).
        created_at: when the draft was written, seconds since 1970.
        reason: why the text is a draft; empty if the reason is the clock.
    """

    number: int
    slot: str
    content: str = field(repr=False)
    created_at: float
    reason: str = ""


class Drafts:
    """The drafts of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, items: Iterable[tuple[str, str]], now: float, reason: str = "") -> tuple[int, ...]:
        """Save drafts of one time and reason, given as slot and ciphertext; returns their numbers."""
        numbers = []
        with self._db.transaction():
            for slot, content in items:
                cursor = self._db.execute(
                    "INSERT INTO drafts (slot, content, created_at, reason) VALUES (?, ?, ?, ?)",
                    *(slot, content, now, reason),
                )
                numbers.append(int(cursor.lastrowid or 0))
        return tuple(numbers)

    def all(self) -> list[SealedDraft]:
        """Every draft, in the order in which they were written."""
        rows = self._db.rows("SELECT draft, slot, content, created_at, reason FROM drafts ORDER BY draft")
        return [SealedDraft(*row) for row in rows]

    def get(self, number: int) -> SealedDraft | None:
        """One draft, or None."""
        found = self._db.row(
            "SELECT draft, slot, content, created_at, reason FROM drafts WHERE draft = ?", number
        )
        return SealedDraft(*found) if found else None

    def discard(self, number: int) -> bool:
        """Remove a draft; returns whether the draft existed."""
        with self._db.transaction():
            return self._db.execute("DELETE FROM drafts WHERE draft = ?", number).rowcount > 0

    def remove_at(self, slots: Iterable[str]) -> None:
        """Remove the drafts for some addresses, which are being forgotten."""
        if found := [slot for (slot,) in self._db.rows_in("SELECT slot FROM drafts WHERE slot IN ", slots)]:
            with self._db.transaction():
                self._db.execute_many("DELETE FROM drafts WHERE slot = ?", [(slot,) for slot in found])
