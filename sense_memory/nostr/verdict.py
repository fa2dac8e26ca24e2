"""What a relay's OK or CLOSED means: one table, total over arbitrary text (NIP-01, NIP-42).

Real relays add words of their own, so an unknown prefix means "try again later", never "drop".
The reason kept is always one of our own words: a relay's text does not travel on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sense_memory.limits import MAX_NOTICE_CHARS, MAX_VERDICT_BYTES


class RelayOutcome(StrEnum):
    """The seven things that can become of an event or a subscription at a relay."""

    ACCEPTED = "accepted"  # stored, or already there
    RETRY = "retry"  # not now: wait and send the same bytes again
    RATE_LIMITED = "rate-limited"  # as retry, and the whole connection pauses
    NEEDS_AUTH = "needs-auth"  # authenticate once, then send again; a second time it is refused
    SUPERSEDED = "superseded"  # the relay says that it holds a newer version: a claim until that was pulled
    DELETED = "deleted"  # the relay says the author deleted it
    REFUSED = "refused"  # this relay will not take it; the memory stays here


@dataclass(frozen=True, slots=True)
class RelayVerdict:
    """An outcome and why, in our words.

    Attributes:
        outcome: what to do.
        reason: words of the table, such as "blocked"; empty where accepted.
    """

    outcome: RelayOutcome
    reason: str = ""


# By the code under which the ledger keeps a reason. Reasons that are one word are their own code.
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
# Prefixes under which some relays also say that the event is outdated or deleted: only there, and where no prefix
# is given, the words count. A false OK with `duplicate:` may be about another version.
_VAGUE: Final = frozenset({"", "duplicate", "blocked", "invalid"})
_GARBAGE: Final = RelayVerdict(RelayOutcome.RETRY, REASONS["unreadable-answer"])
_UNKNOWN: Final = RelayVerdict(RelayOutcome.RETRY, REASONS["unknown-answer"])

_prefix = re.compile(r"([a-z-]{1,32}):").match
_newer = re.compile(r"have (?:a )?newer (?:event|version)|newer (?:event|version) (?:already )?exists").search
_deleted = re.compile(
    r"\bevent (?:(?:has been|was|is|already) ?)+deleted\b|\buser requested deletion\b"
).search  # of the event, not of an account, a table or a session
_created_at = re.compile(r"created_at|timestamp|future|too (?:far|late|early|old)").search
_too_old = re.compile(r"too early|too old|past|older|ago\b").search
_too_large = re.compile(r"too (?:large|big|long)|size|exceed").search


def classify(accepted: bool, text: str) -> RelayVerdict:
    """The verdict on an OK frame: its boolean and its text.

    A true OK is accepted whatever the text says: relays greet, warn and advertise there.
    """
    return _ACCEPTED if accepted else classify_closed(text)


def classify_closed(text: str) -> RelayVerdict:
    """The verdict on a CLOSED frame's text, or on the text of a false OK: its prefix decides before its words."""
    if len(text.encode(errors="replace")) > MAX_VERDICT_BYTES:
        return _GARBAGE
    lower = text.lower().strip()
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
    """`invalid:` is final except where only our clock has to catch up."""
    if _created_at(lower):
        if _too_old(lower) and "future" not in lower:
            return RelayVerdict(RelayOutcome.REFUSED, REASONS["too-old"])
        return RelayVerdict(RelayOutcome.RETRY, REASONS["too-far-ahead"])
    if _too_large(lower):
        return RelayVerdict(RelayOutcome.REFUSED, REASONS["too-large"])
    return _BY_PREFIX["invalid"]


def printable(text: str, limit: int = MAX_NOTICE_CHARS) -> str:
    """Untrusted text for a terminal: cut to `limit` characters, then what is not printable escaped.

    That is every control, bidi, zero-width and tag character, lone surrogates, line separators, unusual
    spaces and unassigned code points (`str.isprintable`).
    """
    cut = text[:limit]
    return cut if cut.isprintable() else "".join(map(_shown, cut))


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
