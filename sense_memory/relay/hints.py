"""What follows from a relay's information document (NIP-11) for planning. Hints: a relay may mean none of it.

Pure functions; without a document, or without the field, nothing follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.limits import MIN_PAGE_COUNT, PAGE_COUNT
from sense_memory.nostr.wire import publish
from sense_memory.relay.negentropy import FRAME_BYTES, MIN_FRAME_BYTES


if TYPE_CHECKING:
    from sense_memory.relay.nip11 import RelayInformation

_ROOM_BYTES: Final = 1_024  # for what stands around hex or ids in a frame: its name, and a filter


def page_size(information: RelayInformation | None) -> int:
    """How many events to ask for at once: as many as we like, or as the relay sends at most."""
    told = information.max_limit if information is not None else None
    return PAGE_COUNT if told is None or told < MIN_PAGE_COUNT else min(told, PAGE_COUNT)


def may_compare(information: RelayInformation | None) -> bool:
    """Whether to try a comparison (NIP-77): the relay says that it can, or says nothing about itself at all."""
    return information is None or 77 in information.supported_nips


def may_count(information: RelayInformation | None) -> bool:
    """As `may_compare`, for a count (NIP-45)."""
    return information is None or 45 in information.supported_nips


def frame_bytes(information: RelayInformation | None) -> int:
    """How long a message of a comparison may be, before hex doubles it on the wire."""
    told = information.max_message_length if information is not None else None
    return FRAME_BYTES if told is None else max(MIN_FRAME_BYTES, min(FRAME_BYTES, (told - _ROOM_BYTES) // 2))


def ids_count(information: RelayInformation | None) -> int:
    """How many events to ask for by their ids at once."""
    told = information.max_message_length if information is not None else None
    fit = PAGE_COUNT if told is None else (told - _ROOM_BYTES) // len(f'"{"0" * 64}",')
    return max(1, min(page_size(information), fit))


def is_too_large(body: bytes, information: RelayInformation | None) -> bool:
    """Whether a relay says that it takes no event of this size.

    Args:
        body: the event as canonical JSON.
        information: what the relay says about itself.
    """
    if information is None:
        return False
    if broken_limit(len(body), 0, information):
        return True
    content = information.max_content_length
    return content is not None and len(body) > content and len(orjson.loads(body)["content"]) > content


def broken_limit(event_bytes: int, content_chars: int, information: RelayInformation) -> str:
    """The limit that an event of this size breaks, in words; empty where a relay names none that it breaks."""
    message, content = information.max_message_length, information.max_content_length
    if message is not None and event_bytes + len(publish(b"")) > message:
        return (
            f"messages of {message:,} bytes at most, and this is one of {event_bytes + len(publish(b'')):,}"
        )
    if content is not None and content_chars > content:
        return f"contents of {content:,} characters at most, and this one has {content_chars:,}"
    return ""
