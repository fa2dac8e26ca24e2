"""The time machine: what a memory was, from the versions that the append-only ledger keeps. Pure.

Versions are ordered as the ledger orders them (NIP-01: later second, then lower id). What was forgotten
has no past: `forget` purges it, and only the tombstone remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.records.envelope import RecordType


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.records.envelope import Record

RESTORED: Final = "restored"  # the field that names the event whose value an undo brought back


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a flat memory.

    Attributes:
        value: the text, or None where it was forgotten.
        created_at: when it was written, seconds since 1970.
        event_id: 64 hex digits.
        is_head: whether this version counts now.
        restored: the event id that an undo brought back with this version, or empty.
    """

    value: str | None = field(repr=False)
    created_at: float
    event_id: str
    is_head: bool
    restored: str = ""


def version(record: Record, event_id: str, created_at: float, *, is_head: bool) -> Version:
    """A version from an opened record: a memory, or the tombstone that took its place."""
    forgotten = record.type is RecordType.TOMBSTONE
    restored: Any = record.fields.get(RESTORED, "")
    return Version(
        None if forgotten else record.fields["value"],
        created_at,
        event_id,
        is_head,
        restored if isinstance(restored, str) else "",
    )


def at(versions: Sequence[Version], time: float) -> Version | None:
    """The version that counted at a time (seconds since 1970), of one key's versions, newest first."""
    return next((item for item in versions if item.created_at <= time), None)


def before(versions: Sequence[Version]) -> Version | None:
    """What an undo of the head brings back: the version before it, or before the one it had restored.

    So undoing twice goes back two steps, instead of back and forth. A version with the same text is no step.
    """
    if not versions or not versions[0].is_head:
        return None
    place = 0
    if versions[0].restored:
        place = next(
            (index for index, item in enumerate(versions) if item.event_id == versions[0].restored), 0
        )
    passed = {None, versions[0].value}
    return next((item for item in versions[place + 1 :] if item.value not in passed), None)
