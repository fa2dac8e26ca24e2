"""Which memory a name means, and the versions of that memory in the ledger.

Versions are ordered as the ledger orders them (NIP-01: later second, then lower id). A forgotten memory has no earlier
versions: `forget` purges them, and only the tombstone remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidAddress
from sense_memory.ledger import Role
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader


# ── The paths and the head of a name ────────────────────────────────────────────────────
# Other programs spell some paths differently (see `nostr.address`). Each name has one path that this program writes, and
# more paths that it reads.


def paths_of(name: str) -> tuple[str, ...]:
    """The paths to read for a name: the key of a flat memory, or `domain/facet/key` of a persona memory.

    Raises:
        InvalidAddress: `name` is neither of these.
    """
    if isinstance(name, str) and "/" in name:
        return address.persona_lookup_paths(*parts_of(name))
    return address.lookup_paths(name)


def parts_of(name: str) -> tuple[str, str, str]:
    """Domain, facet and key of a persona memory named `domain/facet/key`.

    Raises:
        InvalidAddress: `name` does not have three parts.
    """
    parts = address.persona_name(name).split("/") if isinstance(name, str) else ()
    if len(parts) != 3:
        raise InvalidAddress(f"give a key, or a path domain/facet/key, and not {printable(repr(name))}")
    return parts[0], parts[1], parts[2]


def head_at(ledger: Ledger, paths: Sequence[str]) -> StoredEvent | None:
    """The head at one of these paths, a memory before a tombstone; None if no path has a head."""
    found = [stored for path in paths if (stored := ledger.head(address.d_tag(path)))]
    return next((stored for stored in found if stored.role is Role.MEMORY), found[0] if found else None)


def is_deleted(ledger: Ledger, paths: Sequence[str]) -> bool:
    """Whether the ledger holds a deletion of one of these paths, with or without a tombstone."""
    return any(ledger.is_deleted(address.d_tag(path)) for path in paths)


RESTORED: Final = "restored"  # the field that names the event whose value an undo brought back
_MEMORIES: Final = frozenset({RecordType.FLAT, RecordType.PERSONA, RecordType.TOMBSTONE})


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a memory.

    Attributes:
        value: the text, or None for a tombstone.
        created_at: when the version was written, seconds since 1970.
        event_id: 64 hex digits.
        is_head: whether this version counts now.
        restored: the id of the event whose value an undo wrote again with this version, or empty.
    """

    value: str | None = field(repr=False)
    created_at: float
    event_id: str
    is_head: bool
    restored: str = ""


async def history(ledger: Ledger, reader: Reader, paths: Sequence[str]) -> list[Version]:
    """Every version of a memory that the ledger has seen, newest first.

    Args:
        ledger: holds the versions.
        reader: opens them.
        paths: the paths to read for the memory, see `paths_of`.
    """
    head = head_at(ledger, paths)
    found = []
    versions = [stored for path in paths for stored in ledger.versions(address.d_tag(path))]
    # Each path has its own versions. The sort is stable, so versions of one second keep the ledger's order.
    for stored in sorted(versions, key=lambda item: -item.created_at):
        record = await reader.record(stored)
        if record is not None and record.type in _MEMORIES and not _is_stray(ledger, record, stored):
            is_head = head is not None and head.seq == stored.seq
            written_at = record.written_at(stored)
            found.append(version(record, stored.id.hex(), written_at, is_head=is_head))
    return found


def _is_stray(ledger: Ledger, record: Record, stored: StoredEvent) -> bool:
    """Whether a version belongs to a persona memory that was forgotten before, see `memories.persona.forks`."""
    if record.type is not RecordType.PERSONA:
        return False
    return ledger.edits.forgets(stored.slot, origin_of(record, stored.id.hex(), stored.created_at))


def version(record: Record, event_id: str, created_at: float, *, is_head: bool) -> Version:
    """A version from the record of a memory or a tombstone."""
    forgotten = record.type is RecordType.TOMBSTONE
    restored: Any = record.fields.get(RESTORED, "")
    return Version(
        None if forgotten else record.fields["value"],
        created_at,
        event_id,
        is_head,
        restored if isinstance(restored, str) else "",
    )


def version_at(versions: Sequence[Version], time: float) -> Version | None:
    """The version that counted at a time (seconds since 1970); `versions` are those of one memory, newest first."""
    return next((item for item in versions if item.created_at <= time), None)


def undo_target(versions: Sequence[Version]) -> Version | None:
    """The version whose value an undo writes again; None if there is nothing to undo.

    An undo goes back one step from the head. If the head is itself an undo, the step starts at the version that the head
    restored, so undoing twice goes back two steps. Versions with the same text as the head are not steps.
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
