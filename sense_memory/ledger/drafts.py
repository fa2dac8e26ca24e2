"""Drafts: texts that could not become versions, kept as ciphertext until the user decides.

A text becomes a draft if the clock did not allow a stamp, if another device forgot a text that it had not seen, or if
the text lost and is too large for a conflict copy. A draft is not an event: a draft has no second and no signature,
and no relay ever sees a draft.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.ledger.database import Database


@dataclass(frozen=True, slots=True)
class SealedDraft:
    """One draft.

    Attributes:
        number: the draft's number, never given twice.
        slot: the address that the text was written for.
        content: ciphertext (NIP-44).
        created_at: when the draft was written, seconds since 1970.
        reason: why the text is a draft; empty if the clock did not allow a stamp.
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

    def add(self, items: Iterable[tuple[str, str]], now: float) -> tuple[int, ...]:
        """Keep drafts, given as slot and ciphertext; returns their numbers."""
        numbers = []
        with self._db.transaction():
            for slot, content in items:
                cursor = self._db.execute(
                    "INSERT INTO drafts (slot, content, created_at) VALUES (?, ?, ?)", slot, content, now
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
        """Remove the drafts for addresses that are forgotten."""
        if found := [slot for (slot,) in self._db.rows_in("SELECT slot FROM drafts WHERE slot IN ", slots)]:
            with self._db.transaction():
                self._db.execute_many("DELETE FROM drafts WHERE slot = ?", [(slot,) for slot in found])
