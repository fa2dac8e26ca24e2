"""What the ledger records of each relay, apart from the outbox: the progress of pulls, and remarks on its behaviour.

Remarks are codes for what a relay did (see `Remark`); the text of a relay is never stored. Times are seconds since
1970, from the caller.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.database import open_damaged
from sense_memory.ledger.roles import IS_REMOVAL
from sense_memory.limits import (
    CURSOR_OVERLAP_SECONDS,
    HEAL_SECONDS,
    INCOMPLETE_COUNT,
    LOST_COUNT,
    MAX_FUTURE_SECONDS,
    RETRY_MAX_SECONDS,
)
from sense_memory.nostr.verdict import REASONS


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sense_memory.ledger.database import Database


# ── Codes of reasons and remarks ────────────────────────────────────────────────────────
# Why an event is queued or refused at a relay, and what a relay did: codes in the file, sentences for people.
#
# The ledger stores codes, so that sentences may be reworded or translated, and queries compare no prose. A text
# without a code, such as the reason why a connection failed, is stored and shown as it is.


class LedgerReason(StrEnum):
    """Reasons that the ledger finds; the reasons of a relay's answer are in `nostr.verdict.REASONS`."""

    NOT_OUR_DELETION = "not-our-deletion"
    OLD_DELETION = "old-deletion"
    NO_TOMBSTONE = "no-tombstone"
    LOST = "lost"
    BEHIND = "behind"
    UNSEEN = "unseen"
    AFTER_DELETION = "after-deletion"


class Remark(StrEnum):
    """What a relay did."""

    LATE = "late"
    FORGETFUL = "forgetful"
    DROPS_DELETIONS = "drops-deletions"
    LOST = "lost"
    INCOMPLETE = "incomplete"
    UNDELETED = "undeleted"
    HIDES_JOURNAL = "hides-journal"
    RATE_LIMITED = "rate-limited"


_REASONS: Final = {
    **REASONS,
    LedgerReason.NOT_OUR_DELETION: "deleted at the relay, though never forgotten here",
    LedgerReason.OLD_DELETION: "the relay applies an older deletion to this newer version; try `refresh`",
    LedgerReason.NO_TOMBSTONE: "keeps neither the deletion request nor the tombstone",
    LedgerReason.LOST: "accepted earlier, but no longer at the relay",
    LedgerReason.BEHIND: "accepted earlier, but the relay now serves an older version",
    LedgerReason.UNSEEN: "accepted earlier, and hidden: perhaps lost with other events",
    LedgerReason.AFTER_DELETION: "waits until the relay has an older deletion request, which may remove this event",
}
_CODES: Final = {sentence: str(code) for code, sentence in _REASONS.items()}
_REMARKS: Final = {
    Remark.LATE: "sends events after it says that there are no more",
    Remark.FORGETFUL: "loses events that it accepted",
    Remark.DROPS_DELETIONS: (
        "keeps no deletion requests: tombstones take their place, and a forgotten journal entry may "
        "come back from another device"
    ),
    Remark.LOST: "had lost accepted events when it was last asked",
    Remark.INCOMPLETE: (
        "has not shown everything for hours: conflict copies and recalls no longer wait for this relay, so a text "
        "whose deletion only this relay knows may be copied"
    ),
    Remark.UNDELETED: "does not honour a deletion: it accepted the request, but still serves the memory",
    Remark.HIDES_JOURNAL: (
        "hides journal entries (kind 4): it accepts them, but does not show which it keeps, and entries of other devices "
        "do not arrive from it"
    ),
    Remark.RATE_LIMITED: "limits its rate: sending pauses, for an hour at most",
}


def reason_code(sentence: str) -> str:
    """The code to store for the reason of a verdict, or the text itself if it has no code."""
    return _CODES.get(sentence, sentence)


def reason_sentence(stored: str) -> str:
    """The sentence of a stored reason; a text without a code is returned as it is."""
    return _REASONS.get(stored, stored)


def remark_sentence(stored: str) -> str:
    """The sentence of a stored remark; a remark that a newer version wrote is returned unchanged."""
    return {str(code): sentence for code, sentence in _REMARKS.items()}.get(stored, stored)


@dataclass(frozen=True, slots=True)
class RelayState:
    """What is recorded of a relay.

    Attributes:
        url: as configured.
        cursor: where the next pull begins (`since`), or None before the first complete pull.
        completed_at: when a pull was last complete, or None.
        swept_at: when a pull without a cursor was last complete, or None.
        healed_at: when lost events were last sent again without a user's request, or None.
    """

    url: str
    cursor: int | None
    completed_at: float | None
    swept_at: float | None
    healed_at: float | None

    def may_heal(self, now: float) -> bool:
        """Whether lost events may be sent again at once: at most once an hour."""
        return self.healed_at is None or now - self.healed_at >= HEAL_SECONDS

    def behind_seconds(self, now: float) -> float:
        """How many seconds after its last sending an event is sent again to a relay that serves an older version."""
        return 0 if self.may_heal(now) else HEAL_SECONDS


def last_pull(path: Path) -> float | None:
    """When any relay last showed everything; None for never, or if the file cannot be read.

    The file is only read: this migrates nothing, and needs no key.
    """
    with suppress(sqlite3.Error), closing(open_damaged(path)) as connection:
        (found,) = connection.execute("SELECT max(completed_at) FROM relays").fetchone()
        return None if found is None else float(found)
    return None


@dataclass(frozen=True, slots=True)
class PullProgress:
    """The progress of an unfinished pull, which continues on the next connection.

    Attributes:
        begun_at: when the pull began.
        since: the second at which the walks end, or None for a sweep of everything.
        newest: the latest created_at received so far, or 0.
        walks: by kind, the oldest second reached so far (None before the first event), the events of the largest
            page, and the id of an event of that second (empty if none is known). Finished walks are absent.
    """

    begun_at: float
    since: int | None = None
    newest: int = 0
    walks: Mapping[int, tuple[int | None, int, str]] = field(default_factory=dict)


class RelayRecords:
    """The relays of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, urls: Iterable[str]) -> None:
        """Add relays; known relays stay as they are."""
        unknown = [url for url in urls if not self._db.row("SELECT 1 FROM relays WHERE url = ?", url)]
        if unknown:
            with self._db.transaction():
                for url in unknown:
                    self._db.execute("INSERT OR IGNORE INTO relays (url) VALUES (?)", url)

    def remove(self, url: str) -> int:
        """Remove a relay with its outbox rows and its cursor; returns how many queued events were cancelled."""
        with self._db.transaction():
            found = self._db.row(
                "SELECT count(*) FROM outbox JOIN relays USING (relay) WHERE url = ? AND state = 'queued'",
                url,
            )
            self._db.execute("DELETE FROM relays WHERE url = ?", url)
        return int(found[0]) if found else 0

    def state(self, url: str) -> RelayState:
        """What is recorded of a relay; blank for an unknown relay."""
        query = "SELECT cursor, completed_at, swept_at, healed_at FROM relays WHERE url = ?"
        return RelayState(url, *(self._db.row(query, url) or (None,) * 4))

    def record_pull(self, url: str, cursor: int | None, now: float, *, swept: bool) -> None:
        """Record a complete pull: move the cursor, and drop the progress of an unfinished pull."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE relays SET cursor = ?, completed_at = ?, swept_at = iif(?, ?, swept_at) WHERE url = ?",
                cursor,
                now,
                swept,
                now,
                url,
            )
            self._db.execute(
                "DELETE FROM unfinished WHERE relay = (SELECT relay FROM relays WHERE url = ?)", url
            )

    def correct_future_times(self, url: str, now: float) -> bool:
        """Correct times of a relay that were recorded while this clock ran ahead; returns whether there were any.

        Uncorrected, these times would stop pulls below the cursor, sweeps, healing and retries until the recorded time.
        After a correction, the next pull is a sweep, and every queued event is due.
        """
        state, ahead = self.state(url), now + MAX_FUTURE_SECONDS
        times = (
            (state.cursor or 0) + CURSOR_OVERLAP_SECONDS,
            state.completed_at,
            state.swept_at,
            state.healed_at,
        )
        relay = self._number(url)
        last = self._db.row("SELECT max(due_at) FROM outbox WHERE state = 'queued' AND relay = ?", relay)
        waits_until = max((last and last[0]) or 0, self.paused_until(url))
        waits_long = waits_until > now + 2 * RETRY_MAX_SECONDS
        if not waits_long and max(filter(None, times)) <= ahead:
            return False
        with self._db.transaction():
            self.remove_remark(url, Remark.RATE_LIMITED)
            self._db.execute(
                "UPDATE relays SET cursor = min(cursor, ?), completed_at = min(completed_at, ?), "
                "swept_at = NULL, healed_at = NULL WHERE relay = ?",
                int(now) - CURSOR_OVERLAP_SECONDS,
                now,
                relay,
            )
            self._db.execute(
                "UPDATE outbox SET due_at = min(due_at, ?1), seen_at = iif(seen_at > ?1, NULL, seen_at) "
                "WHERE relay = ?2 AND (due_at > ?1 OR seen_at > ?1)",
                now,
                relay,
            )
        return True

    def record_healing(self, url: str, now: float) -> None:
        """Record that lost events are being sent again to a relay; see `RelayState.may_heal`."""
        with self._db.transaction():
            self._db.execute("UPDATE relays SET healed_at = ? WHERE url = ?", now, url)

    # ── Pulls ───────────────────────────────────────────────────────────────────────────

    def unfinished_pull(self, url: str) -> PullProgress | None:
        """The unfinished pull of a relay, or None."""
        found = self._db.row(
            "SELECT begun_at, u.since, newest, walks FROM unfinished u JOIN relays USING (relay) WHERE url = ?",
            url,
        )
        if found is None:
            return None
        walks = {  # earlier versions stored no id
            int(kind): (second, largest, edge[0] if edge else "")
            for kind, (second, largest, *edge) in json.loads(found[3]).items()
        }
        return PullProgress(found[0], found[1], found[2], walks)

    def save_unfinished_pull(self, url: str, pull: PullProgress | None) -> None:
        """Save the progress of an interrupted pull; None removes it, after a pull that ended."""
        if pull is None and self.unfinished_pull(url) is None:
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

    def add_remark(self, url: str, remark: Remark, now: float) -> None:
        """Record a remark on a relay; the remark is counted at most once an hour."""
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

    def remove_remark(self, url: str, remark: Remark, before: float | None = None) -> None:
        """Remove a remark, because the relay behaves better; with `before`, only if it was last made before then."""
        if remark in self._of(url):
            with self._db.transaction():
                self._db.execute(
                    "DELETE FROM remarks WHERE relay = (SELECT relay FROM relays WHERE url = ?1) "
                    "AND remark = ?2 AND (?3 IS NULL OR noted_at < ?3)",
                    url,
                    remark.value,
                    before,
                )

    def excuse_lost_deletions(self, url: str, lost: Iterable[int]) -> None:
        """Remove the remark `UNDELETED` if events that the relay has lost, by seq, are deletions, as after a backup.

        A relay cannot honour a deletion that it no longer has. The deletion is sent again; a relay that has still lost
        events when it is asked next is not excused.
        """
        deletions = self._db.rows_in(f"SELECT seq FROM events WHERE {IS_REMOVAL} AND seq IN ", lost)
        if not self.has_remark(url, Remark.FORGETFUL) and any(deletions):
            self.remove_remark(url, Remark.UNDELETED)

    def has_remark(self, url: str, remark: Remark) -> bool:
        """Whether a relay has a remark."""
        return remark in self._of(url)

    def has_shown_journal(self, url: str) -> bool:
        """Whether a pull of a relay was ever complete, and the relay did not hide the journal in the last one."""
        return self.state(url).completed_at is not None and not self.has_remark(url, Remark.HIDES_JOURNAL)

    def never_shows_all(self, url: str) -> bool:
        """Whether to stop waiting for a relay, because it has not shown everything for `INCOMPLETE_COUNT` hours."""
        return self._of(url).get(Remark.INCOMPLETE, 0) >= INCOMPLETE_COUNT

    def remarks(self, url: str) -> tuple[str, ...]:
        """The remarks to show for a relay, as sentences; losing events is `FORGETFUL` only after `LOST_COUNT` times."""
        return tuple(
            remark_sentence(Remark.LOST if remark == Remark.FORGETFUL and count < LOST_COUNT else remark)
            for remark, count in self._of(url).items()
            if remark != Remark.INCOMPLETE or count >= INCOMPLETE_COUNT
        )

    # ── Rate limits ─────────────────────────────────────────────────────────────────────
    # The remark `rate-limited` counts consecutive limits; its `counted_at` is the time at which sending resumes.

    def rate_limits(self, url: str) -> int:
        """The number of consecutive rate limits of a relay."""
        return self._of(url).get(Remark.RATE_LIMITED, 0)

    def pause(self, url: str, until: float, count: int, now: float) -> None:
        """Pause sending to a relay until a time, after `count` rate limits in a row."""
        with self._db.transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO remarks SELECT relay, ?, ?, ?, ? FROM relays WHERE url = ?",
                Remark.RATE_LIMITED.value,
                now,
                until,
                count,
                url,
            )

    def paused_until(self, url: str) -> float:
        """When sending to a relay resumes, in seconds since 1970; 0 if sending does not pause."""
        found = self._db.row(
            "SELECT counted_at FROM remarks JOIN relays USING (relay) WHERE url = ? AND remark = ?",
            url,
            Remark.RATE_LIMITED.value,
        )
        return float(found[0]) if found else 0.0

    def _of(self, url: str) -> dict[str, int]:
        return dict(
            self._db.rows(
                "SELECT remark, count FROM remarks JOIN relays USING (relay) WHERE url = ? ORDER BY remark",
                url,
            )
        )

    def _number(self, url: str) -> int:
        found = self._db.row("SELECT relay FROM relays WHERE url = ?", url)
        return int(found[0]) if found else 0
