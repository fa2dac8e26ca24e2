"""What a version of a memory changed, other than its text, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.palace.lifecycle import opponents
from sense_memory.palace.version import memory_of
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.ledger.removals import Origin
    from sense_memory.models import PersonaMemory
    from sense_memory.records.envelope import Record

SIGNED_AGAIN: Final = "signed again"
_FIELDS: Final = ("themes", "source", "confidence")


def changes(before: Record, known: Origin, after: Record, origin: Origin) -> tuple[str, ...]:
    """What a version changed, other than its text, compared with the version before it; empty if only the text changed.

    The words quote the paths of other memories, which any device may have chosen.

    Args:
        before: the version before, of the same memory.
        known: its origin.
        after: the version.
        origin: its origin.
    """
    if before.type is not after.type or not after.type.has_history:
        return ()
    is_same = before.fields["value"] == after.fields["value"]
    if (
        not after.type.traits.is_merged
        and not is_same
        and origin.seen
        and known.device
        and not origin.knows(known)
    ):
        return ("written without knowing the version before",)
    found: list[str] = []
    if after.type is RecordType.PERSONA:
        one, two = (memory_of(record.fields, "", 0) for record in (before, after))
        found = [*_links(one, two), *_figures(one, two)]
    if not found and is_same:
        is_new = (origin.said, origin.said_at) != (known.said, known.said_at)
        found = ["the same text written again" if is_new else SIGNED_AGAIN]
    return tuple(found)


def _links(before: PersonaMemory, after: PersonaMemory) -> Iterator[str]:
    for words, old, new in (
        ("connected with", before.connections, after.connections),
        ("marked as contradicted by", opponents(before), opponents(after)),
        ("without suggestions about", before.dismissed, after.dismissed),
    ):
        yield from (f"{words} {name}" for name in new if name not in old)
        yield from (f"no longer {words} {name}" for name in old if name not in new)


def _figures(before: PersonaMemory, after: PersonaMemory) -> Iterator[str]:
    if (count := after.access_count - before.access_count) > 0:
        yield "recalled" if count == 1 else f"recalled {count:,} times"
    if before.halflife_days != after.halflife_days:
        yield f"half-life {before.halflife_days:g} → {after.halflife_days:g} days"
    yield from (f"other {name}" for name in _FIELDS if getattr(before, name) != getattr(after, name))
    if before.state is not after.state:
        yield f"now {after.state}"
