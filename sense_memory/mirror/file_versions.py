"""Versions of a file that machines wrote without knowing of each other, united into one.

A version knows another if its version vector has it, or has another machine's version with the same text: so two machines
that unite the same versions at once need not unite their results. Of the versions that the head
does not know, each is merged into it by sections, from the newest version that both know. The result depends on the set of
versions only: machines with the same versions write the same text. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sense_memory.mirror.sections import suffix_of
from sense_memory.mirror.state import digest_of
from sense_memory.mirror.text_merge import merged


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.mind.files import MirroredFile


@dataclass(frozen=True, slots=True)
class UnitedFile:
    """What becomes of concurrent versions.

    Attributes:
        file: the united version, whose version vector has all of them.
        conflicts: how many sections now stand there in two texts.
        copies: texts that cannot be merged into the file, by the names under which they are kept.
    """

    file: MirroredFile
    conflicts: int = 0
    copies: Mapping[str, str] = field(default_factory=dict)


def has_seen(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether a version vector has another."""
    return all(one.get(writer, 0) >= count for writer, count in other.items())


def joined_seen(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The version vector of what two versions knew together."""
    return {writer: max(one.get(writer, 0), other.get(writer, 0)) for writer in (*one, *other)}


def unknown_to(head: MirroredFile, versions: Sequence[MirroredFile]) -> list[MirroredFile]:
    """The versions that the head does not know, oldest first; of those, only what no other of them knows."""

    def is_known(version: MirroredFile) -> bool:
        if head.is_like(version) or has_seen(head.seen, version.seen):
            return True
        alike = (one for one in versions if one.is_like(version) and not has_seen(version.seen, one.seen))
        return any(has_seen(head.seen, one.seen) for one in alike)

    if not head.seen:  # of another program: the later version counts, and the others stay in the history
        return []
    left = [version for version in versions if not is_known(version)]
    newest = {version.text if not version.is_deleted else None: version for version in reversed(left)}
    found = list(newest.values())
    chosen = [
        version
        for version in found
        if not any(other is not version and has_seen(other.seen, version.seen) for other in found)
    ]
    return sorted(chosen, key=lambda version: (version.written_at, version.event_id))


def united(
    head: MirroredFile, versions: Sequence[MirroredFile], fits: Callable[[MirroredFile], bool]
) -> UnitedFile | None:
    """The versions of a file as one; None if the head knows all of them.

    Args:
        head: the version that counts.
        versions: all that are known, the head among them.
        fits: whether a version fits an event.
    """
    others = unknown_to(head, versions)
    if not others:
        return None
    found = UnitedFile(head)
    for other in others:
        found = _with(found, other, versions, fits)
    return found


def _with(
    so_far: UnitedFile,
    other: MirroredFile,
    versions: Sequence[MirroredFile],
    fits: Callable[[MirroredFile], bool],
) -> UnitedFile:
    one, seen = so_far.file, joined_seen(so_far.file.seen, other.seen)
    if one.is_deleted or other.is_deleted:  # what was changed stays
        chosen = other if one.is_deleted else one
        return replace(so_far, file=replace(chosen, event_id=one.event_id, seen=seen))
    first, second = sorted((one, other), key=lambda file: (file.written_at, file.event_id))
    merge = merged(_common_text(one, other, versions), first.text, second.text, one.name)
    if merge is not None:
        made = replace(one, text=merge.text, seen=seen)
        if fits(made):
            return replace(so_far, file=made, conflicts=so_far.conflicts + merge.conflicts)
    copies = {**so_far.copies, copy_name(one.name, other.text): other.text}
    return replace(so_far, file=replace(one, seen=seen), copies=copies)


def _common_text(one: MirroredFile, other: MirroredFile, versions: Sequence[MirroredFile]) -> str:
    """The text of the newest version that two versions know; empty if there is none."""
    common = (
        version
        for version in versions
        if has_seen(one.seen, version.seen) and has_seen(other.seen, version.seen)
    )
    newest = max(common, key=lambda version: (sum(version.seen.values()), version.written_at), default=None)
    return "" if newest is None else newest.text


def copy_name(name: str, text: str) -> str:
    """The name under which the other text of a file is kept, the same on every machine."""
    above, slash, last = name.rpartition("/")
    suffix = suffix_of(last)
    stem = last[: len(last) - len(suffix) - 1] if suffix else last
    mark = digest_of(text.encode())[:6]
    return (
        f"{above}{slash}{stem}.other-{mark}{'.' if suffix else ''}{last[len(stem) + 1 :] if suffix else ''}"
    )
