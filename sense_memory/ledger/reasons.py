"""Why an event waits or was refused at a relay, and what a relay did: codes in the file, sentences for people.

The ledger stores a code, so that a sentence may be worded anew and translated, and queries never compare prose. A text
without a code, such as why a connection failed, is stored and shown as it is.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sense_memory.nostr.verdict import REASONS


class Reason(StrEnum):
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
    Reason.NOT_OUR_DELETION: "deleted there, though never forgotten here",
    Reason.OLD_DELETION: "an older deletion counts there for what was written anew; `refresh` may help",
    Reason.NO_TOMBSTONE: "keeps neither the deletion request nor the tombstone",
    Reason.LOST: "accepted before, and not there any more",
    Reason.BEHIND: "accepted before, and an older version is served instead",
    Reason.AFTER_DELETION: "waits until the relay has an older deletion request that may remove it",
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
