"""What the ledger must know from inside the ciphertext: the origin of a memory, and what a removal reaches.

The ledger decides which versions to keep and which to purge, whatever the order in which events arrive. The facts for
this decision are encrypted. This module reads them from opened records, and writes them into tombstones and deletions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.ledger.removals import ID_CHARS, Origin, Removal
from sense_memory.limits import MAX_SAFE_INTEGER, MAX_VECTOR_COUNT
from sense_memory.nostr import address
from sense_memory.nostr.event import is_hex64
from sense_memory.palace.version import copy_key, counts_in, provenance_in
from sense_memory.records.envelope import COPY_OF


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.nostr.event import Event
    from sense_memory.records.envelope import Record

FORGET: Final = "forget"  # a user asked: removes every text written until then
PRUNE: Final = "prune"  # the memory has dissolved: removes only the versions that the pruner knew
AGAIN: Final = "again"  # a forgotten text came back: removes no more than the first forgetting did


def origin_of(record: Record, event_id: str, created_at: int) -> Origin:
    """The origin of a memory, as its record says.

    Args:
        record: a memory with a history, or a record with the fields of `edited_by`; any other record has a plain origin.
        event_id: the id of the event, 64 hex digits.
        created_at: the date of the event, seconds since 1970.
    """
    fields, kind = record.fields, record.type
    original = original_of(record)
    said_at, first = original or (created_at, event_id)
    copied_at = -1 if original is None else said_at
    if not _says_edits(record):
        return Origin(created_at, first, said_at, copied_at=copied_at)
    seen = counts_in(fields.get("seen"))
    said = provenance_in(fields.get("said"), seen, first, said_at)
    copied = fields.get("conflict_of")
    slot = address.d_tag(address.PERSONA + copied) if isinstance(copied, str) and copied else ""
    text = hash(words_in(record))
    return Origin(
        created_at,
        said.id,
        said.at,
        said.device,
        said.count,
        seen,
        slot,
        text,
        kind.traits.is_merged,
        copied_at,
    )


def original_of(record: Record) -> tuple[int, str] | None:
    """Of a copy at another d-tag, the created_at and the id of the event that it is a copy of; None for any other record."""
    match record.fields.get(COPY_OF):
        case [int() as at, str() as ident] if 0 <= at <= MAX_SAFE_INTEGER and is_hex64(ident):
            return at, ident
    return None


def copy_of(record: Record, event: Event) -> Record:
    """The record of an event, to be written again at another d-tag as what it is: the same version of the memory."""
    original = original_of(record) or (event.created_at, event.id)
    fields = {**record.fields, COPY_OF: list(original)}
    if _says_edits(record):  # the text is the original's, whichever device wrote it
        origin = origin_of(record, event.id, event.created_at)
        fields["said"] = [origin.device, origin.count, origin.said_at, origin.said]
    return replace(record, fields=fields)


def as_edit(record: Record) -> Record:
    """A record without the claim to be a copy, which an edit of a copy would carry along."""
    if COPY_OF not in record.fields:
        return record
    return replace(record, fields={name: value for name, value in record.fields.items() if name != COPY_OF})


def next_seen(before: Origin | None, device: str, now: float) -> dict[str, int]:
    """The version vector of an edit that starts from a version, or from nothing.

    The device's count increases even if the memory was forgotten meanwhile, because it is at least the time.
    """
    seen = {} if before is None else before.seen
    return counted(seen, device, max(seen.get(device, 0) + 1, int(now)))


def counted(seen: Mapping[str, int], device: str, count: int) -> dict[str, int]:
    """A version vector with a new count of a device.

    A vector that becomes too long keeps its highest counts, so it no longer knows versions of devices that have not
    edited the memory for the longest time: should such a version come back, it is merged, and no text is lost.

    Args:
        seen: the version vector before.
        device: the id of the device.
        count: the number of the device's edits.
    """
    made = {**seen, device: count}
    if len(made) > MAX_VECTOR_COUNT:
        latest = sorted(made, key=lambda name: (name != device, -made[name], name))
        made = {name: made[name] for name in latest[: MAX_VECTOR_COUNT // 2]}
    return made


def edited_by(device: str, before: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The fields that say which device edited a record of the mind, and which edits that device knew.

    Args:
        device: the name of this device, `Edits.device`.
        before: the fields that the edit starts from; empty for a new record.
        now: seconds since 1970.
    """
    seen = counts_in(before.get("seen"))
    return {"seen": counted(seen, device, max(seen.get(device, 0) + 1, int(now))), "said": device}


def words_in(record: Record) -> str:
    """The text of a record: the field that its kind names, or else the text of a block or an objective; may be empty."""
    found = record.type.text_of(record.fields)
    if found is None and record.type.traits.names_path:
        found = record.fields.get("value", record.fields.get("text"))
    return found if isinstance(found, str) else ""


def _says_edits(record: Record) -> bool:
    """Whether a record says who edited it: every memory with a history does, others only with a version vector."""
    kind = record.type
    return kind.has_history or (kind.traits.says_edits and isinstance(record.fields.get("seen"), dict))


def removing(why: str, removal: Removal) -> dict[str, Any]:
    """The fields of a tombstone or a deletion that say what it removes; empty fields are left out."""
    fields: dict[str, Any] = {
        "why": why,
        "until": max(removal.until, 0),
        "texts": list(removal.texts),
        "kept": sorted(removal.kept),
        "seen": dict(removal.seen),
        "upto": max(removal.upto, 0),
    }
    return {name: value for name, value in fields.items() if value}


def removal_of(fields: Any, path: str, created_at: int) -> Removal:
    """What a tombstone or a deletion removes at a path, from its fields; other writers leave these fields out.

    Args:
        fields: from `removing`; anything else removes every text up to `created_at`.
        path: the path at which something is removed.
        created_at: the date of the event, seconds since 1970.
    """
    why = fields.get("why") if isinstance(fields, dict) else None
    if why not in {FORGET, PRUNE, AGAIN}:
        return Removal.blind(created_at)
    until = created_at if why == FORGET else _second(fields.get("until"))
    texts = tuple(_ids(fields.get("texts")))
    copies = tuple(address.d_tag(copy_key(path, text)) for text in texts)
    return Removal(
        until,
        texts,
        counts_in(fields.get("seen")),
        _second(fields.get("upto")),
        frozenset(_ids(fields.get("kept"))),
        is_automatic=why != FORGET,
        copies=copies if path.startswith(address.PERSONA) else (),
    )


def with_tags(fields: Mapping[str, Any], private: Iterable[str], vacated: Iterable[str]) -> dict[str, Any]:
    """The fields of a deletion for one path, with the private d-tags in its `a` tags, and with the d-tags that it vacates."""
    found = {"at": list(private), "vacated": list(vacated)}
    return {**fields, **{name: tags for name, tags in found.items() if tags}}


def private_tags_of(removed: Mapping[str, Any]) -> dict[str, str]:
    """By private d-tag in a deletion, the slot; `removed` is what `envelope.open_deletion` returns."""
    return {
        tag: address.d_tag(path)
        for path, fields in removed.items()
        for tag in _tags(fields, "at")
        if address.is_private(tag)
    }


def vacated_tags_of(removed: Mapping[str, Any]) -> tuple[str, ...]:
    """The d-tags that a deletion vacates."""
    return tuple(tag for fields in removed.values() for tag in _tags(fields, "vacated"))


def _tags(fields: Any, name: str) -> list[str]:
    given = fields.get(name) if isinstance(fields, dict) else None
    return (
        [tag for tag in given if isinstance(tag, str) and address.is_ours(tag)]
        if isinstance(given, list)
        else []
    )


def removals_of(record: Record, slot: str, created_at: int) -> Mapping[str, Removal]:
    """What a tombstone removes, by slot."""
    return {slot: removal_of(dict(record.fields), record.path, created_at)}


def _ids(value: Any) -> Iterable[str]:
    given = value if isinstance(value, list) else ()
    return (item for item in given if isinstance(item, str) and len(item) == ID_CHARS)


def _second(value: Any) -> int:
    return value if type(value) is int and 0 < value <= MAX_SAFE_INTEGER else -1
