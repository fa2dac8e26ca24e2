"""What has to be done about one file, from what the folder has, what memory has, and what both had last. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sense_memory.mirror.state import digest_of


if TYPE_CHECKING:
    from sense_memory.mind.files import MirroredFile
    from sense_memory.mirror.state import Base


class StepKind(StrEnum):
    """What is done about a file."""

    KEEP = "keep"  # the folder's text becomes a version in memory
    WRITE = "write"  # memory's text is written into the folder
    MERGE = "merge"  # both have changed
    DELETE = "delete"  # deleted in the folder: moved to history
    REMOVE = "remove"  # deleted elsewhere: removed from the folder
    LEFT = "left"  # left alone, for the reason in the note


@dataclass(frozen=True, slots=True)
class MirrorStep:
    """What was done about a file, or would be.

    Attributes:
        name: the file's path in the folder.
        what: what is done.
        note: what a person should know about it, in a sentence; may be empty.
    """

    name: str
    what: StepKind
    note: str = ""


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What became of a mirrored folder, or of a plan for it.

    Attributes:
        folder: its path.
        project: whose files it holds.
        steps: by file; files that are in step have none.
        problem: why the folder as a whole was left alone, or not wholly brought in step; may be empty.
        in_step_count: how many files are the same in the folder and in memory.
        is_plan: whether nothing was done yet.
        has_passing: whether a file was left alone for a reason that may pass without any change in the folder or in memory.
    """

    folder: str
    project: str
    steps: tuple[MirrorStep, ...] = ()
    problem: str = ""
    in_step_count: int = 0
    is_plan: bool = False
    has_passing: bool = False

    @property
    def is_unfinished(self) -> bool:
        """Whether another run may do more, although nothing changes in the folder or in memory."""
        return bool(self.problem) or self.has_passing

    @property
    def changed(self) -> bool:
        """Whether anything is done or to be done, other than leaving files alone."""
        return any(step.what is not StepKind.LEFT for step in self.steps)


FORGOTTEN = "it was forgotten, which erased its history; it stays in this folder only, until you change it"
DELETED_THERE = "deleted elsewhere, and changed here: it stays"
DELETED_HERE = "deleted here, and changed elsewhere: it comes back"


def decided(name: str, data: bytes | None, base: Base | None, head: MirroredFile | None) -> MirrorStep | None:
    """What to do about a file; None if folder and memory have the same, or neither has it.

    Args:
        name: of the file.
        data: its bytes in the folder; None if it is not there.
        base: what both had last.
        head: the version that counts in memory; None if there is none.
    """
    is_there = head is not None and not head.is_deleted
    if data is None:
        return _of_missing(name, base, head, is_there=is_there)
    if head is not None and is_there and head.text.encode() == data:
        return None
    is_changed = base is None or digest_of(data) != base.digest
    if head is None:
        return MirrorStep(name, StepKind.KEEP) if is_changed else MirrorStep(name, StepKind.LEFT, FORGOTTEN)
    if not is_there:
        if not is_changed:
            return MirrorStep(name, StepKind.REMOVE)
        return MirrorStep(name, StepKind.KEEP, DELETED_THERE if base else "")
    if not is_changed:
        return MirrorStep(name, StepKind.WRITE)
    is_same_head = base is not None and head.event_id == base.event_id
    return MirrorStep(name, StepKind.KEEP if is_same_head else StepKind.MERGE)


def _of_missing(
    name: str, base: Base | None, head: MirroredFile | None, *, is_there: bool
) -> MirrorStep | None:
    if head is None or not is_there:
        return None
    if base is None:
        return MirrorStep(name, StepKind.WRITE)
    if head.event_id == base.event_id:
        return MirrorStep(name, StepKind.DELETE)
    return MirrorStep(name, StepKind.WRITE, DELETED_HERE)
