"""What the ledger remembers of each relay, apart from the outbox: how far it was pulled, and how it behaves.

Remarks are our own codes for what a relay did (see `Remark`); the text of a relay is never kept. Times
are seconds since 1970 and come from the caller.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.database import open_damaged
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
# Why an event waits or was refused at a relay, and what a relay did: codes in the file, sentences for people.
#
# The ledger stores a code, so that a sentence may be worded anew and translated, and queries never compare prose. A text
# without a code, such as why a connection failed, is stored and shown as it is.


class LedgerReason(StrEnum):
    """Reasons that the ledger itself finds; those of a relay's answer are in `nostr.verdict.REASONS`."""

    NOT_OUR_DELETION = "not-our-deletion"
    OLD_DELETION = "old-deletion"
    NO_TOMBSTONE = "no-tombstone"
    LOST = "lost"
    BEHIND = "behind"
    AFTER_DELETION = "after-deletion"


class Remark(StrEnum):
    """What a relay did."""

    LATE = "late"
    FORGETFUL = "forgetful"
    DROPS_DELETIONS = "drops-deletions"
    LOST = "lost"
    INCOMPLETE = "incomplete"
    UNDELETED = "undeleted"
    RATE_LIMITED = "rate-limited"


_REASONS: Final = {
    **REASONS,
    LedgerReason.NOT_OUR_DELETION: "deleted there, though never forgotten here",
    LedgerReason.OLD_DELETION: "an older deletion counts there for what was written anew; `refresh` may help",
    LedgerReason.NO_TOMBSTONE: "keeps neither the deletion request nor the tombstone",
    LedgerReason.LOST: "accepted before, and not there any more",
    LedgerReason.BEHIND: "accepted before, and an older version is served instead",
    LedgerReason.AFTER_DELETION: "waits until the relay has an older deletion request that may remove it",
}
_CODES: Final = {sentence: str(code) for code, sentence in _REASONS.items()}
_REMARKS: Final = {
    Remark.LATE: "sends events after saying that there are no more",
    Remark.FORGETFUL: "forgets what it accepted",
    Remark.DROPS_DELETIONS: (
        "keeps no deletion requests: tombstones stay in their place, and a journal entry that was forgotten may "
        "come back from another device"
    ),
    Remark.LOST: "did not have what it had accepted, when it was last asked",
    Remark.INCOMPLETE: (
        "has not shown everything for hours: conflict copies and recalls do not wait for it any more, and a text "
        "that only it knows to be forgotten may be copied"
    ),
    Remark.UNDELETED: "deletion not honoured: it accepted the request and still serves the memory",
    Remark.RATE_LIMITED: "limits how often it takes events: sending to it pauses, for an hour at most",
}


def reason_code(sentence: str) -> str:
    """What to store for the reason of a verdict: its code, or the text itself if it has none."""
    return _CODES.get(sentence, sentence)


def reason_sentence(stored: str) -> str:
    """The sentence of a stored reason; a text without a code is returned as it is."""
    return _REASONS.get(stored, stored)


def remark_sentence(stored: str) -> str:
    """The sentence of a stored remark; an unknown one, of a newer program, is returned as it is."""
    return {str(code): sentence for code, sentence in _REMARKS.items()}.get(stored, stored)


@dataclass(frozen=True, slots=True)
class RelayState:
    """What is remembered of a relay.

    Attributes:
        url: as configured.
        cursor: where the next pull begins (`since`), or None before the first complete one.
        completed_at: when a pull was last complete, or None.
        swept_at: when a pull without cursor was last complete, or None.
        healed_at: when the events that the relay had lost were last sent again without a user's request, or None.
    """

    url: str
    cursor: int | None
    completed_at: float | None
    swept_at: float | None
    healed_at: float | None

    def may_heal(self, now: float) -> bool:
        """Whether lost events are sent again at once; a relay that keeps losing events gets them once an hour."""
        return self.healed_at is None or now - self.healed_at >= HEAL_SECONDS


def last_pull(path: Path) -> float | None:
    """When any relay last showed a ledger everything; None for never, or where the file cannot be read.

    The file is only read: it is not migrated, and needs no key.
    """
    with suppress(sqlite3.Error), closing(open_damaged(path)) as connection:
        (found,) = connection.execute("SELECT max(completed_at) FROM relays").fetchone()
        return None if found is None else float(found)
    return None


@dataclass(frozen=True, slots=True)
class PullProgress:
    """A pull over several connections, because the relay hung up in the middle.

    Attributes:
        begun_at: when the pull began.
        since: where the walks end, or None for a sweep of everything.
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
        """Cancel everything queued for a relay and forget its cursor; returns the rows cancelled."""
        with self._db.transaction():
            found = self._db.row(
                "SELECT count(*) FROM outbox JOIN relays USING (relay) WHERE url = ? AND state = 'queued'",
                url,
            )
            self._db.execute("DELETE FROM relays WHERE url = ?", url)
        return int(found[0]) if found else 0

    def state(self, url: str) -> RelayState:
        """What is remembered of a relay; blank for an unknown relay."""
        query = "SELECT cursor, completed_at, swept_at, healed_at FROM relays WHERE url = ?"
        return RelayState(url, *(self._db.row(query, url) or (None,) * 4))

    def record_pull(self, url: str, cursor: int | None, now: float, *, swept: bool) -> None:
        """Record a complete pull, never an incomplete one: move the cursor, and forget any unfinished pull."""
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

    def set_clock_back(self, url: str, now: float) -> bool:
        """Correct the times of this relay that a clock running ahead has noted; returns whether there were any.

        Uncorrected, they would stop everything below the cursor, every sweep, healing and retry until the noted time.
        The next pull is a sweep, and everything that waits is due.
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
        """Record that lost events are sent to a relay again now, see `RelayState.may_heal`."""
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
        walks = {  # no id in a position of an earlier version
            int(kind): (second, largest, edge[0] if edge else "")
            for kind, (second, largest, *edge) in json.loads(found[3]).items()
        }
        return PullProgress(found[0], found[1], found[2], walks)

    def save_unfinished_pull(self, url: str, pull: PullProgress | None) -> None:
        """Remember where a pull was cut off; None after a pull that ended, complete or not."""
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
        """Remember that a relay did this; a remark is counted at most once an hour."""
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
        """Forget a remark, with `before` only a remark last made before then: the relay behaves better by now."""
        if remark in self._of(url):
            with self._db.transaction():
                self._db.execute(
                    "DELETE FROM remarks WHERE relay = (SELECT relay FROM relays WHERE url = ?1) "
                    "AND remark = ?2 AND (?3 IS NULL OR noted_at < ?3)",
                    url,
                    remark.value,
                    before,
                )

    def has_remark(self, url: str, remark: Remark) -> bool:
        """Whether a relay did this."""
        return remark in self._of(url)

    def never_shows_all(self, url: str) -> bool:
        """Whether not to wait for this relay: it did not show everything that it holds in `INCOMPLETE_COUNT` hours."""
        return self._of(url).get(Remark.INCOMPLETE, 0) >= INCOMPLETE_COUNT

    def remarks(self, url: str) -> tuple[str, ...]:
        """The remarks for a relay's status. Losing events once or twice may be an accident, see `LOST_COUNT`."""
        return tuple(
            remark_sentence(Remark.LOST if remark == Remark.FORGETFUL and count < LOST_COUNT else remark)
            for remark, count in self._of(url).items()
            if remark != Remark.INCOMPLETE or count >= INCOMPLETE_COUNT
        )

    # ── Rate limits ─────────────────────────────────────────────────────────────────────
    # The remark counts the limits in a row; `counted_at` is the time at which sending resumes.

    def rate_limits(self, url: str) -> int:
        """The number of consecutive offers that a relay ended with a rate limit."""
        return self._of(url).get(Remark.RATE_LIMITED, 0)

    def pause(self, url: str, until: float, count: int, now: float) -> None:
        """Send a relay nothing until a time, because it limited `count` offers in a row."""
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
