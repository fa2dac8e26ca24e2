"""What is remembered of each relay besides its outbox: a pull that was cut off, and how the relay behaves.

Remarks are ours, from what a relay did; nothing that it said is kept here. Times are seconds since 1970 and
come from the caller.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sense_memory.limits import HEAL_SECONDS, INCOMPLETE_COUNT, LOST_COUNT


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.ledger.database import Database


class Remark(StrEnum):
    """What a relay did, for its status."""

    LATE = "sends events after saying that there are no more"
    FORGETFUL = "forgets what it accepted"
    DROPS_DELETIONS = (
        "keeps no deletion requests: tombstones stay in their place, and a journal entry that was forgotten may "
        "come back from another device"
    )
    LOST = "did not have what it had accepted, when it was last asked"
    INCOMPLETE = (
        "has not shown everything for hours: conflict copies and recalls do not wait for it any more, and a text "
        "that only it knows to be forgotten may be copied"
    )
    UNDELETED = "deletion not honoured: it accepted the request and still serves the memory"


@dataclass(frozen=True, slots=True)
class PullProgress:
    """A pull that goes over several connections, because the relay hung up in the middle.

    Attributes:
        begun_at: when it began.
        since: where its walks end, or None for a sweep of everything.
        newest: the latest created_at that came so far, or 0.
        walks: by kind the oldest second reached so far (None where nothing came yet), the events of the largest
            page, and the id of an event of that second (empty where none is known); those that are done are absent.
    """

    begun_at: float
    since: int | None = None
    newest: int = 0
    walks: Mapping[int, tuple[int | None, int, str]] = field(default_factory=dict)


class Notes:
    """The notes of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    # ── Pulls ───────────────────────────────────────────────────────────────────────────

    def unfinished(self, url: str) -> PullProgress | None:
        """The pull of a relay that was cut off, or None."""
        found = self._db.row(
            "SELECT begun_at, u.since, newest, walks FROM unfinished u JOIN relays USING (relay) WHERE url = ?",
            url,
        )
        if found is None:
            return None
        walks = {  # without an id where an earlier version left off
            int(kind): (second, largest, edge[0] if edge else "")
            for kind, (second, largest, *edge) in json.loads(found[3]).items()
        }
        return PullProgress(found[0], found[1], found[2], walks)

    def leave_off(self, url: str, pull: PullProgress | None) -> None:
        """Remember where a pull was cut off; None for one that ended, however it did."""
        if pull is None and self.unfinished(url) is None:
            return
        with self._db.transaction():
            self._db.execute(
                "DELETE FROM unfinished WHERE relay = (SELECT relay FROM relays WHERE url = ?)", url
            )
            if pull is not None:
                self._db.execute(
                    "INSERT INTO unfinished SELECT relay, ?, ?, ?, ? FROM relays WHERE url = ?",
                    pull.begun_at,
                    pull.since,
                    pull.newest,
                    json.dumps(dict(pull.walks)),
                    url,
                )

    # ── Remarks ─────────────────────────────────────────────────────────────────────────

    def note(self, url: str, remark: Remark, now: float) -> None:
        """Remember that a relay did this; it counts once an hour."""
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO remarks SELECT relay, ?1, ?2, ?2, 1 FROM relays WHERE url = ?3 "
                "ON CONFLICT DO UPDATE SET noted_at = ?2, count = count + (counted_at <= ?2 - ?4), "
                "counted_at = iif(counted_at <= ?2 - ?4, ?2, counted_at)",
                remark.value,
                now,
                url,
                HEAL_SECONDS,
            )

    def drop(self, url: str, remark: Remark, before: float | None = None) -> None:
        """Forget a remark, or one that was not made since a time: the relay has shown that it can do better."""
        if remark in self._of(url):
            with self._db.transaction():
                self._db.execute(
                    "DELETE FROM remarks WHERE relay = (SELECT relay FROM relays WHERE url = ?1) "
                    "AND remark = ?2 AND (?3 IS NULL OR noted_at < ?3)",
                    url,
                    remark.value,
                    before,
                )

    def is_noted(self, url: str, remark: Remark) -> bool:
        """Whether a relay did this."""
        return remark in self._of(url)

    def never_shows_all(self, url: str) -> bool:
        """Whether nobody is to wait for all that a relay holds: it did not show it in `INCOMPLETE_COUNT` hours."""
        return self._of(url).get(Remark.INCOMPLETE, 0) >= INCOMPLETE_COUNT

    def remarks(self, url: str) -> tuple[str, ...]:
        """What is to be said of a relay, in our words. To forget once or twice may be an accident: see `LOST_COUNT`."""
        return tuple(
            Remark.LOST if remark == Remark.FORGETFUL and count < LOST_COUNT else remark
            for remark, count in self._of(url).items()
            if remark != Remark.INCOMPLETE or count >= INCOMPLETE_COUNT
        )

    def _of(self, url: str) -> dict[str, int]:
        return dict(
            self._db.rows(
                "SELECT remark, count FROM remarks JOIN relays USING (relay) WHERE url = ? ORDER BY remark",
                url,
            )
        )
