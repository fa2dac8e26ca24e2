"""What NIP-01, NIP-09 and NIP-40 say about keeping an event: its class, its address, its expiry, what it deletes.

Part of the embedded relay. Pure functions over verified events: no storage, no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.nostr.event import KIND_DELETION, is_hex64


if TYPE_CHECKING:
    from sense_memory.nostr.event import RawEvent


def is_ephemeral(kind: int) -> bool:
    """Whether a kind is passed on and never stored (NIP-01)."""
    return 20_000 <= kind < 30_000


def is_replaceable(kind: int) -> bool:
    """Whether an author has one event of this kind, the newest (NIP-01)."""
    return kind in {0, 3} or 10_000 <= kind < 20_000


def is_addressable(kind: int) -> bool:
    """Whether an author has one event of this kind and `d` tag, the newest (NIP-01)."""
    return 30_000 <= kind < 40_000


def address_of(event: RawEvent) -> str | None:
    """The place that only one event may hold, written as an `a` tag; None for regular events."""
    if is_replaceable(event.kind):
        return f"{event.kind}:{event.pubkey}:"
    if is_addressable(event.kind):
        return f"{event.kind}:{event.pubkey}:{event.d_tag or ''}"
    return None


def expires_at(event: RawEvent) -> int | None:
    """The second from which an event is gone (NIP-40), or None; a value that is no number is ignored."""
    for value in event.tag_values("expiration"):
        if value.isascii() and value.isdigit() and len(value) <= 16:
            return min(int(value), MAX_SAFE_INTEGER)
    return None


def is_protected(event: RawEvent) -> bool:
    """Whether only the authenticated author may publish the event (NIP-70)."""
    return ("-",) in event.tags


def deleted_ids(event: RawEvent) -> list[str]:
    """The ids that a kind 5 names; whether they are its author's own is for the storage to see (NIP-09)."""
    return (
        [value for value in event.tag_values("e") if is_hex64(value)] if event.kind == KIND_DELETION else []
    )


def deleted_addresses(event: RawEvent) -> list[str]:
    """The author's own addresses that a kind 5 names; a stranger's are left out (NIP-09).

    What is not written as `address_of` writes it is no event's address, and deletes nothing.
    """
    if event.kind != KIND_DELETION:
        return []
    return [value for value in event.tag_values("a") if value.split(":", 2)[1:2] == [event.pubkey]]


def indexed_tags(event: RawEvent) -> set[tuple[str, str]]:
    """The tags that a filter can ask for: single-letter names with their first value (NIP-01)."""
    return {
        (tag[0], tag[1])
        for tag in event.tags
        if len(tag) > 1 and len(tag[0]) == 1 and tag[0].isascii() and tag[0].isalpha()
    }
