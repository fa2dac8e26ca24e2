"""Conclusions from a pull: the cursor, remarks on the relay, and whether to wait, check or resume. No I/O, no clock.

`agenda` decides what a relay is asked; this module decides what its answers prove. `pull` asks, and records what is
concluded here.

What is guaranteed: the cursor never passes the clock or the newest verified event, and never goes back. A remark is
removed only by a pull that showed the contrary. A kind that the relay hides is named and is never taken for empty.

Why it is safe to go on beside a hidden journal: an entry of the journal replaces nothing and is replaced by nothing, so
sending the other kinds to such a relay overwrites nothing unseen. A relay that hides memories or deletions is sent nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.relays import Remark
from sense_memory.limits import CURSOR_OVERLAP_SECONDS, MAX_FUTURE_SECONDS
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE
from sense_memory.relay.client.authentication import UNAUTHENTICATED
from sense_memory.relay.client.page import LATE
from sense_memory.relay.sync.walk import HIDDEN, PullResult


if TYPE_CHECKING:
    from collections.abc import Mapping

_LATE_SCORE: Final = 2  # from this score on, every page waits for late events

# ── Times ───────────────────────────────────────────────────────────────────────────────


def horizon_at(now: float) -> float:
    """The date beyond which an event is quarantined, so that it moves no cursor. Seconds since 1970."""
    return now + MAX_FUTURE_SECONDS


def seen_until(before: int, begun: float, newest: int) -> int:
    """The latest second up to which all events were seen.

    Args:
        before: the same, before this pull.
        begun: when the pull began; a relay may have accepted an event with a later date meanwhile.
        newest: the latest date of the pull's verified events, or 0.
    """
    return max(before, min(int(begun), newest))


def cursor_after(cursor: int | None, begun: float, newest: int) -> int | None:
    """The cursor after a complete pull; unchanged if the relay showed no event. Arguments as `seen_until`."""
    if not newest:
        return cursor
    return max(min(int(begun), newest) - CURSOR_OVERLAP_SECONDS, cursor or 0)


# ── Events after EOSE ───────────────────────────────────────────────────────────────────
# A single late event may have been written just then. After several late events, or repeated ones, every page waits.


def late_score(before: int, count: int, *, afresh: bool = False) -> int:
    """The score after `count` further late events: one more for a single event, two more for several.

    Args:
        before: the score before.
        count: late events since then.
        afresh: whether a new walk begins, which forgets the score if no late event arrived in between.
    """
    return (0 if afresh and not count else before) + min(count, 2)


def must_wait_after_eose(score: int, *, is_known_late: bool) -> bool:
    """Whether every page waits for late events; `is_known_late`: whether the relay has the remark `LATE`."""
    return score >= _LATE_SCORE or is_known_late


# ── A kind that the relay hides ─────────────────────────────────────────────────────────


def with_hidden(walks: Mapping[int, PullResult]) -> dict[int, PullResult]:
    """The walks by kind, with the reason `HIDDEN` if the relay refuses only the journal.

    A relay that refuses every kind refuses us, and hides nothing in particular.
    """
    found = dict(walks)
    journal = found.get(KIND_DIRECT_MESSAGE)
    others = [walk for kind, walk in found.items() if kind != KIND_DIRECT_MESSAGE]
    if journal is not None and _is_refused(journal) and not any(map(_is_refused, others)):
        found[KIND_DIRECT_MESSAGE] = replace(journal, reasons=(HIDDEN,), refused=False)
    return found


def _is_refused(walk: PullResult) -> bool:
    """Whether the relay refused to answer, for good or until we authenticate."""
    return walk.refused or (bool(walk.reasons) and UNAUTHENTICATED.issuperset(walk.reasons))


# ── Resuming and checking ───────────────────────────────────────────────────────────────


def has_moved(
    before: Mapping[int, tuple[int | None, int, str]], after: Mapping[int, tuple[int | None, int, str]]
) -> bool:
    """Whether a pull ended a walk or reached an older second. The walks are positions, see `PullProgress.walks`."""
    return after.keys() != before.keys() or any(
        second != before[kind][0] for kind, (second, _, _) in after.items()
    )


def may_resume(found: PullResult, problem: str | None, *, moved: bool, misbehaving: bool) -> bool:
    """Whether the next pull continues this one: it moved, and a lost connection is its only problem.

    Args:
        found: the result of the pull.
        problem: why the connection is not open, or None.
        moved: see `has_moved`.
        misbehaving: whether we hung up because the relay broke the protocol.
    """
    reasons = [reason for reason in found.reasons if reason != HIDDEN]
    return moved and reasons == [problem] and not misbehaving


def must_check_confirmed(found: PullResult, *, heals: bool, saw_everything: bool) -> bool:
    """Whether to ask for events that the relay had shown before, because the pull asked only for recent events.

    Args:
        found: the result of the pull.
        heals: whether events that turn out to be lost may be sent again now.
        saw_everything: whether the pull covered all events.
    """
    return found.shows_all_but_hidden and heals and not saw_everything


# ── Remarks ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RemarkChanges:
    """The remarks to add to a relay, and those to remove."""

    add: frozenset[Remark] = frozenset()
    remove: frozenset[Remark] = frozenset()


def remarks_of_walk(found: PullResult, *, swept: bool, is_of_all: bool = True) -> RemarkChanges:
    """The remarks that follow from walks.

    Args:
        found: the result of the walks.
        swept: whether the walks asked for events of any date.
        is_of_all: whether all kinds were walked; otherwise only the journal, and the others were compared.
    """
    add = {
        remark
        for remark, reason in ((Remark.LATE, LATE), (Remark.HIDES_JOURNAL, HIDDEN))
        if reason in found.reasons
    }
    remove: set[Remark] = set()
    if found.shows_all_but_hidden and is_of_all:
        remove.add(Remark.LATE)
        if swept:
            remove.add(Remark.UNDELETED)
    if found.complete:
        remove.add(Remark.HIDES_JOURNAL)
    return RemarkChanges(frozenset(add), frozenset(remove))


def remarks_of_pull(
    found: PullResult, *, saw_everything: bool, made_progress: bool, has_lost: bool, keeps_deletions: bool
) -> RemarkChanges:
    """The remarks that follow from a whole pull.

    Args:
        found: the result of the pull.
        saw_everything: whether the last step covered all events.
        made_progress: whether the next pull can build on this one although it was cut off.
        has_lost: whether an event is still queued because the relay lost it.
        keeps_deletions: whether the relay has shown a deletion request.
    """
    add: set[Remark] = set()
    remove: set[Remark] = set()
    if keeps_deletions:
        remove.add(Remark.DROPS_DELETIONS)
    if found.missing:
        add.add(Remark.FORGETFUL)
    elif found.shows_all_but_hidden and saw_everything and not has_lost:
        remove.add(Remark.FORGETFUL)
    if found.shows_all_but_hidden:
        remove.add(Remark.INCOMPLETE)
    elif not (made_progress or found.refused):
        add.add(Remark.INCOMPLETE)
    return RemarkChanges(frozenset(add), frozenset(remove))
