"""What the owner of a scene announces in the scene's logs. Pure.

An announcement is an entry of the kind `scene.moved`, signed by the owner. There are four: the members under a key, an
invitation to a new key for each member who has to know it, the members who were removed, and the entries of a removed
member that count. The last ones stand under the new key, which the removed member does not have.

Guaranteed: a payload is read whatever types its fields have, because another program, or a member who holds the key, may
have written it; see `fields`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.mind.fields import mapping_in, texts_in
from sense_memory.mind.scenes.membership import are_members


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOVED: Final = "scene.moved"
_PART_COUNT: Final = 600  # digests in one announcement, some 26 KB


@dataclass(frozen=True, slots=True)
class Announcement:
    """One announcement.

    Attributes:
        key: the id of the key that it is about; None if an earlier version of this program wrote it.
        members: the names of the members by public key; None if it names none.
        invitations: texts that only one member each can open, by the member's public key.
        removed: the public keys of members who were removed.
        counted: the digests of the entries that count, by the public key of the removed member who wrote them.
    """

    key: str | None
    members: Mapping[str, str] | None = None
    invitations: Mapping[str, str] = field(default_factory=dict, repr=False)
    removed: frozenset[str] = frozenset()
    counted: Mapping[str, frozenset[str]] = field(default_factory=dict)


def announcement_of(payload: Mapping[str, Any]) -> Announcement | None:
    """The announcement in a payload; None if it names a key in another form than this program writes."""
    key, members = payload.get("key"), payload.get("members")
    if key is not None and not isinstance(key, str):
        return None
    sealed, counted = mapping_in(payload, "invitations"), mapping_in(payload, "counted")
    return Announcement(
        key,
        members if are_members(members) else None,
        {member: text for member, text in sealed.items() if isinstance(text, str)},
        frozenset(texts_in(payload, "removed")),
        {member: frozenset(texts_in(counted, member)) for member in counted},
    )


def counted_parts(key_id: str, digests: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Payloads that name what counts, at least one.

    Args:
        key_id: the id of the key with which the members were removed.
        digests: the public key of the author and the digest of each entry.
    """
    left = sorted(digests)
    for start in range(0, max(1, len(left)), _PART_COUNT):
        counted: dict[str, list[str]] = {}
        for member, digest in left[start : start + _PART_COUNT]:
            counted.setdefault(member, []).append(digest)
        yield {"key": key_id, "counted": counted}


def all_counted(told: Iterable[Announcement], key_id: str) -> dict[str, frozenset[str]]:
    """What counts of each member who was removed with a key, by everything that was announced under that key."""
    found: dict[str, frozenset[str]] = {}
    for one in told:
        if one.key == key_id:
            for member, digests in one.counted.items():
                found[member] = found.get(member, frozenset()) | digests
    return found
