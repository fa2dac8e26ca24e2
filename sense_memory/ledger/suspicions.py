"""Which memories may contradict each other, as far as comparisons have found.

A row names two slots and the versions whose texts were compared, and no word of the texts. Guaranteed: there is at most
one row for two slots in one direction, and none once one of the two versions is purged. The ledger cannot know whether
the memories still have these texts; `memories.persona.suspicions` does. Costs a row for each suspicion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.ledger.database import Database

_ADD: Final = (
    "INSERT INTO suspicions SELECT e.slot, l.slot, e.head, l.head, ? FROM slots e, slots l "
    "WHERE e.head = (SELECT seq FROM events WHERE id = ?) AND l.head = (SELECT seq FROM events WHERE id = ?) "
    "ON CONFLICT DO UPDATE "
    "SET earlier_event = excluded.earlier_event, later_event = excluded.later_event, rules = excluded.rules "
    "WHERE (earlier_event, later_event, rules) <> (excluded.earlier_event, excluded.later_event, excluded.rules)"
)
_ALL: Final = "SELECT earlier, earlier_event, later_event FROM suspicions WHERE rules = ?"


class Suspicion(NamedTuple):
    """Two versions of memories that may contradict each other.

    Attributes:
        slot: of the memory with the earlier text.
        earlier: the seq of the version with the earlier text.
        later: the seq of the version with the later text.
    """

    slot: str
    earlier: int
    later: int


class SuspicionRows:
    """The suspected contradictions of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, pairs: Iterable[tuple[str, str]], rules: str) -> None:
        """Record suspicions between versions that are the heads of their slots; another process may have replaced them.

        Args:
            pairs: the ids of the events that hold the earlier and the later text, 64 hex digits each.
            rules: identifies the rules that found the suspicions.

        Raises:
            LedgerError: the suspicions cannot be written.
        """
        rows = [(rules, bytes.fromhex(earlier), bytes.fromhex(later)) for earlier, later in pairs]
        with self._db.transaction():
            self._db.execute_many(_ADD, rows)

    def found_by(self, rules: str) -> list[Suspicion]:
        """The suspicions that some rules found."""
        return [Suspicion(*row) for row in self._db.rows(_ALL, rules)]
