"""Which memory a name means, and the versions of that memory in the ledger.

Versions are ordered as the ledger orders them (NIP-01: later second, then lower id). A forgotten memory has no earlier
versions: `forget` purges them, and only the tombstone remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidAddress
from sense_memory.memories.conflicts import copies_of
from sense_memory.memories.version_changes import SIGNED_AGAIN, changes
from sense_memory.nostr import address
from sense_memory.plain_text import printable
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.ledger.removals import Origin
    from sense_memory.memories.conflicts import ConflictCopy
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader


# ── The paths and the head of a name ────────────────────────────────────────────────────
# Other programs spell some paths differently (see `nostr.address`). Each name has one path that this program writes, and
# more paths that it reads.


def paths_of(name: str) -> tuple[str, ...]:
    """The paths to read for a name: the key of a flat memory, or `domain/facet/key` of a palace memory.

    Raises:
        InvalidAddress: `name` is neither of these.
    """
    if isinstance(name, str) and "/" in name:
        return address.persona_lookup_paths(*parts_of(name))
    return address.lookup_paths(name)


def parts_of(name: str) -> tuple[str, str, str]:
    """Domain, facet and key of a palace memory named `domain/facet/key`.

    Raises:
        InvalidAddress: `name` does not have three parts, or one of them is empty.
    """
    if not isinstance(name, str):
        raise InvalidAddress(f"the name of a memory must be text, not {type(name).__name__}")
    parts = address.persona_name(name).split("/")
    if len(parts) != 3 or not all(parts):
        raise InvalidAddress(f"{printable(repr(name))} is neither a key nor a path domain/facet/key")
    return parts[0], parts[1], parts[2]


def head_at(ledger: Ledger, paths: Sequence[str]) -> StoredEvent | None:
    """The head at one of these paths, a memory before a tombstone; None if no path has a head."""
    found = [stored for path in paths if (stored := ledger.head(address.d_tag(path)))]
    return next((stored for stored in found if stored.role.is_live), found[0] if found else None)


def is_deleted(ledger: Ledger, paths: Sequence[str]) -> bool:
    """Whether the ledger holds a deletion of one of these paths, with or without a tombstone."""
    return any(ledger.is_deleted(address.d_tag(path)) for path in paths)


RESTORED: Final = "restored"  # the field that names the event whose value an undo brought back


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a memory.

    Attributes:
        value: the text, or None for a tombstone.
        created_at: when the version was written, seconds since 1970.
        event_id: 64 hex digits.
        is_head: whether this version is the current one.
        restored: the id of the event whose value an undo wrote again with this version, or empty.
        changes: what else this version changed, in words, such as "connected with people/facts/bob".
        conflicts: of a version of a memory, the names of the conflict copies whose text and this one did not know each
            other; of a version of a conflict copy, the name of its memory.
    """

    value: str | None = field(repr=False)
    created_at: float
    event_id: str
    is_head: bool
    restored: str = ""
    changes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


async def history(ledger: Ledger, reader: Reader, paths: Sequence[str]) -> list[Version]:
    """Every version of a memory that the ledger has seen, newest first.

    Args:
        ledger: holds the versions.
        reader: opens them.
        paths: the paths to read for the memory, see `paths_of`.
    """
    head = head_at(ledger, paths)
    kept: list[tuple[StoredEvent, Record, Origin]] = []
    versions = [stored for path in paths for stored in ledger.versions(address.d_tag(path))]
    # Each path has its own versions. The sort is stable, so versions of one second keep the ledger's order.
    for stored in sorted(versions, key=lambda item: -item.created_at):
        record = await reader.record(stored)
        if (
            record is not None
            and (record.type.has_history or record.type.role.is_tombstone)
            and not _is_stray(ledger, record, stored)
        ):
            kept.append((stored, record, origin_of(record, stored.id.hex(), stored.created_at)))
    found = []
    for (stored, record, origin), older in zip_longest(kept, kept[1:]):
        is_head = head is not None and head.seq == stored.seq
        shown = version(record, stored.id.hex(), record.written_at(stored), is_head=is_head)
        told = () if older is None else changes(older[1], older[2], record, origin)
        found.append(replace(shown, changes=told))
    copies = [copy for path in paths if "/" in path for copy in await copies_of(ledger, reader, path)]
    return _with_conflicts(found, [origin for _, _, origin in kept], copies)


def _with_conflicts(
    found: list[Version], origins: Sequence[Origin], copies: Sequence[ConflictCopy]
) -> list[Version]:
    """Versions with the names of conflict copies, each at the versions that did not know the text that lost.

    If no such version is here, the name stands at the merge: the oldest version that knew that text and has another.
    """
    for copy in copies:
        lost = [place for place, origin in enumerate(origins) if origin.said == copy.origin.said]
        others = [place for place, origin in enumerate(origins) if copy.was_unknown_to(origin)]
        knew = [place for place, origin in enumerate(origins) if origin.knows(copy.origin)]
        merge = sorted({*knew} - {*lost})[-1:]
        name = copy.path.removeprefix(address.PERSONA)
        for place in others or merge:
            found[place] = replace(found[place], conflicts=(*found[place].conflicts, name))
        for place in merge:
            if found[place].changes == (SIGNED_AGAIN,):
                found[place] = replace(found[place], changes=(f"merged with {name}",))
    return found


def _is_stray(ledger: Ledger, record: Record, stored: StoredEvent) -> bool:
    """Whether a version belongs to a palace memory that was forgotten before, see `memories.persona.forks`."""
    if not record.type.traits.is_merged:
        return False
    return ledger.edits.forgets(stored.slot, origin_of(record, stored.id.hex(), stored.created_at))


def version(record: Record, event_id: str, created_at: float, *, is_head: bool) -> Version:
    """A version from the record of a memory or a tombstone."""
    forgotten = record.type.role.is_tombstone
    original = record.fields.get("conflict_of")
    return Version(
        None if forgotten else record.fields["value"],
        created_at,
        event_id,
        is_head,
        restored_in(record.fields),
        conflicts=(original,) if isinstance(original, str) and original else (),
    )


def version_at(versions: Sequence[Version], time: float) -> Version | None:
    """The version that counted at a time (seconds since 1970); `versions` are those of one memory, newest first."""
    return next((item for item in versions if item.created_at <= time), None)


def undo_target(versions: Sequence[Version]) -> Version | None:
    """The version whose text an undo writes again; None if there is nothing to undo.

    An undo goes from the head back to the last version with another text. If an undo brought the text of the head back,
    the step starts at the version that this undo restored, so undoing twice goes back two steps. Versions with the same
    text, which only record an access, a link or a new signature, are not steps.
    """
    if not versions or not versions[0].is_head:
        return None
    texts = {None, versions[0].value}
    same = takewhile(lambda item: item.value == versions[0].value, versions)
    restored = next((item.restored for item in same if item.restored), None)
    place = next((index for index, item in enumerate(versions) if item.event_id == restored), 0)
    return next((item for item in versions[place + 1 :] if item.value not in texts), None)


def restored_in(fields: Mapping[str, Any]) -> str:
    """The id of the event whose text an undo wrote again, as a version says; empty if it says none."""
    restored = fields.get(RESTORED, "")
    return restored if isinstance(restored, str) else ""
