"""What came into a ledger from elsewhere: the heads that changed since one last looked.

Whatever filed an event, a relay's session, an import or another process, it is found here, because every
event gets the next number (`seq`). What this process wrote itself is left out. To tell what is gone, the live
heads are held in memory from `begin` to `end`; nothing is decrypted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.schema import Role
from sense_memory.ledger.versions import Stored, deletion_targets
from sense_memory.nostr.event import is_hex64


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.ledger.database import Database
    from sense_memory.nostr.event import Event

_LOOK_COUNT: Final = 500  # events looked at in one go
_HEADS: Final = f"FROM slots s JOIN events e ON e.seq = s.head WHERE e.role = {int(Role.MEMORY)}"
_NEW: Final = (
    f"SELECT seq, id, slot, role, iif(role IN ({int(Role.MEMORY)}, {int(Role.EMBEDDING)}), NULL, body) FROM events "
    f"WHERE seq > ? AND quarantined = 0 AND role <> {int(Role.REPLACED)} ORDER BY seq LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A slot whose live head changed.

    Attributes:
        slot: the slot.
        by: the event that changed it: the new head, or the tombstone or deletion.
        gone: id (hex) of what was live before and is forgotten now; None where there is a new head.
    """

    slot: str
    by: Stored
    gone: str | None = None


class Arrivals:
    """The arrivals of a ledger; it takes note of nothing before `begin`.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._live: dict[str, bytes] | None = None  # id of the live head by slot
        self._seen = 0
        self._ours: dict[
            bytes, int
        ] = {}  # seqs by id: another process may get the seq of a write that failed

    @property
    def last(self) -> int:
        """The number of the event that came last, or 0."""
        (seq,) = self._db.row("SELECT max(seq) FROM events") or (0,)
        return int(seq or 0)

    def begin(self) -> None:
        """From now on, take note."""
        self._seen = self.last
        self._live = dict(self._db.rows(f"SELECT s.slot, e.id {_HEADS}"))

    def end(self) -> None:
        """Take note no more."""
        self._live = None
        self._ours.clear()

    def ours(self, events: Iterable[tuple[bytes, int]]) -> None:
        """These events (id, seq) were written by this process: they are no arrivals."""
        if self._live is not None:
            self._ours.update(events)

    def held(self, ids: Iterable[str]) -> set[str]:
        """Those of some events, by their ids, that are stored here; whatever is no id is not."""
        wanted = {bytes.fromhex(ident) for ident in ids if is_hex64(ident)}
        found = self._db.rows_in("SELECT id FROM events WHERE id IN ", wanted)
        return {ident.hex() for (ident,) in found}

    def names(self, prefix: str) -> list[str]:
        """The slots with a live head that begin with a prefix."""
        return [slot for slot in self._live or () if slot.startswith(prefix)]

    def look(self) -> list[Arrival] | None:
        """What changed with the next events, in the order in which they came; None where there are no more.

        Of several versions of a slot only the one that is the head by now is reported.
        """
        if self._live is None:
            return None
        rows = self._db.rows(_NEW, self._seen, _LOOK_COUNT)
        if not rows:
            return None
        touched: dict[str, Stored | None] = {}  # what to blame where a slot has no live head
        for seq, ident, slot, role, body in rows:
            if role == Role.EMBEDDING:
                continue
            if role == Role.MEMORY:
                touched.setdefault(slot, None)
                continue
            stored = Stored(seq, ident, slot, Role(role), body)
            for target in self._targets(stored.event()) if role == Role.DELETION else (slot,):
                known = touched.get(target)
                if known is None or known.role is not Role.TOMBSTONE or role == Role.TOMBSTONE:
                    touched[target] = stored
        found = self._changes(self._live, touched)
        self._seen = rows[-1][0]
        self._ours = {ident: seq for ident, seq in self._ours.items() if seq > self._seen}
        return found

    def _changes(self, live: dict[str, bytes], touched: Mapping[str, Stored | None]) -> list[Arrival]:
        """What changed from elsewhere, of some slots."""
        columns = "SELECT e.seq, e.id, e.slot, e.role, e.body"
        rows = self._db.rows_in(f"{columns} {_HEADS} AND s.slot IN ", touched)
        heads = {row[2]: Stored(row[0], row[1], row[2], Role(row[3]), row[4]) for row in rows}
        found: list[Arrival] = []
        for slot, blamed in touched.items():
            before, head = live.get(slot), heads.get(slot)
            if head is not None:
                live[slot] = head.id
                if head.id != before:
                    found.append(Arrival(slot, head))
            elif before is not None and blamed is not None:  # else another process forgets it at this moment
                del live[slot]
                found.append(Arrival(slot, blamed, before.hex()))
        theirs = (arrival for arrival in found if arrival.by.id not in self._ours)
        return sorted(theirs, key=lambda arrival: arrival.by.seq)

    def _targets(self, request: Event) -> list[str]:
        """The slots that a deletion touches; another Nostr client may name a version by its id alone."""
        targets = [target for target, _ in deletion_targets(request)]
        named = {bytes.fromhex(target[1:]) for target in targets if target.startswith("#")}
        if any(not target.startswith("#") for target in targets):
            return targets
        return targets + [slot for slot, ident in (self._live or {}).items() if ident in named]
