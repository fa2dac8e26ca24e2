"""What a relay's OK or CLOSED means: one table, which has an answer for any text (NIP-01, NIP-42).

Relays use prefixes that no NIP defines, so an unknown prefix means "try again later", never "drop". A reason is always
in this package's words; the relay's text is not kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sense_memory.limits import MAX_VERDICT_BYTES


class RelayOutcome(StrEnum):
    """What became of an event or a subscription at a relay."""

    ACCEPTED = "accepted"  # stored, or already there
    RETRY = "retry"  # not now: wait and send the same bytes again
    RATE_LIMITED = "rate-limited"  # as retry, and the whole connection pauses
    NEEDS_AUTH = "needs-auth"  # authenticate once, then send again; a second time it is refused
    SUPERSEDED = (
        "superseded"  # the relay says that it holds a newer version: a claim, until that version is pulled
    )
    DELETED = "deleted"  # the relay says the author deleted it
    REFUSED = "refused"  # this relay will not take it; the memory stays here


@dataclass(frozen=True, slots=True)
class RelayVerdict:
    """An outcome and its reason, in this package's words.

    Attributes:
        outcome: what to do.
        reason: from the table, such as "blocked"; empty if accepted.
    """

    outcome: RelayOutcome
    reason: str = ""


# By the code that the ledger stores for a reason. A reason of one word is its own code.
REASONS: Final = {
    "newer-version": "says it has a newer version",
    "proof-of-work": "requires proof of work",
    "no-answer": "no answer",
    "relay-error": "relay error",
    "invalid": "called invalid",
    "unreadable-answer": "unreadable answer",
    "unknown-answer": "unknown answer",
    "too-old": "too old for this relay",
    "too-far-ahead": "too far in the future for this relay",
    "too-large": "too large for this relay",
}
RESTRICTED: Final = RelayVerdict(
    RelayOutcome.REFUSED, "restricted"
)  # not for this client, or not before NIP-42
NO_ANSWER: Final = RelayVerdict(RelayOutcome.RETRY, REASONS["no-answer"])  # nothing came back in time
_ACCEPTED: Final = RelayVerdict(RelayOutcome.ACCEPTED)
_SUPERSEDED: Final = RelayVerdict(RelayOutcome.SUPERSEDED, REASONS["newer-version"])
_DELETED: Final = RelayVerdict(RelayOutcome.DELETED, "deleted")
_BY_PREFIX: Final = {
    "duplicate": _ACCEPTED,
    "rate-limited": RelayVerdict(RelayOutcome.RATE_LIMITED, "rate-limited"),
    "auth-required": RelayVerdict(RelayOutcome.NEEDS_AUTH, "auth-required"),
    "pow": RelayVerdict(RelayOutcome.REFUSED, REASONS["proof-of-work"]),
    "blocked": RelayVerdict(RelayOutcome.REFUSED, "blocked"),
    "restricted": RESTRICTED,
    "mute": RelayVerdict(RelayOutcome.REFUSED, "muted"),
    "unsupported": RelayVerdict(RelayOutcome.REFUSED, "unsupported"),
    "replaced": _SUPERSEDED,
    "deleted": _DELETED,
    "error": RelayVerdict(RelayOutcome.RETRY, REASONS["relay-error"]),
    "invalid": RelayVerdict(RelayOutcome.REFUSED, REASONS["invalid"]),
}
# With these prefixes, or without a prefix, some relays also say that the event is outdated or deleted, so the words
# after the prefix are read too. A false OK with `duplicate:` may be about another version.
_VAGUE: Final = frozenset({"", "duplicate", "blocked", "invalid"})
_GARBAGE: Final = RelayVerdict(RelayOutcome.RETRY, REASONS["unreadable-answer"])
_UNKNOWN: Final = RelayVerdict(RelayOutcome.RETRY, REASONS["unknown-answer"])

_prefix = re.compile(r"([a-z-]{1,32}):").match
# strfry puts its own word before the prefix of NIP-42: "ERROR: auth-required: …".
_behind_error = re.compile(r"error: *((?:auth-required|restricted):)").match
_newer = re.compile(r"have (?:a )?newer (?:event|version)|newer (?:event|version) (?:already )?exists").search
_deleted = re.compile(
    r"\bevent (?:(?:has been|was|is|already) ?)+deleted\b|\buser requested deletion\b"
).search  # of the event, not of an account, a table or a session
_created_at = re.compile(r"created_at|timestamp|future|too (?:far|late|early|old)").search
_too_old = re.compile(r"too early|too old|past|older|ago\b").search
_too_large = re.compile(r"too (?:large|big|long)|size|exceed").search


def classify(accepted: bool, text: str) -> RelayVerdict:
    """The verdict on an OK frame: its boolean and its text.

    A true OK means accepted, whatever the text says: relays put greetings, warnings and advertisements there.
    """
    return _ACCEPTED if accepted else classify_closed(text)


def classify_closed(text: str) -> RelayVerdict:
    """The verdict on the text of a CLOSED frame or a false OK: the prefix decides, and for some the words after it."""
    if len(text.encode(errors="replace")) > MAX_VERDICT_BYTES:
        return _GARBAGE
    lower = text.lower().strip()
    if behind := _behind_error(lower):
        lower = lower[behind.start(1) :]
    found = _prefix(lower)
    prefix = found[1] if found else ""
    if prefix in _VAGUE:
        if _newer(lower):
            return _SUPERSEDED
        if _deleted(lower):
            return _DELETED
    if prefix == "invalid":
        return _invalid(lower)
    return _BY_PREFIX.get(prefix, _UNKNOWN if prefix else _GARBAGE)


def _invalid(lower: str) -> RelayVerdict:
    """`invalid:` is final, unless the event is only dated too far ahead for this relay."""
    if _created_at(lower):
        if _too_old(lower) and "future" not in lower:
            return RelayVerdict(RelayOutcome.REFUSED, REASONS["too-old"])
        return RelayVerdict(RelayOutcome.RETRY, REASONS["too-far-ahead"])
    if _too_large(lower):
        return RelayVerdict(RelayOutcome.REFUSED, REASONS["too-large"])
    return _BY_PREFIX["invalid"]
