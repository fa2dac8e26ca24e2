"""What writing a palace memory found: contradictions with other memories, and marks that it set and removed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.palace.contradictions.detection import Contradiction


class Remembered(str):
    """The event id that `persona_remember` returns, with the contradictions that were found.

    Attributes:
        contradictions: every contradiction that was found, most certain first, each with a confidence and a reason;
            `acts` says whether the old memory was marked. Where the new text was given an earlier date than that of
            the other memory, `new` is the other one.
        superseded: the paths of the memories that were marked as superseded.
        suspected: the paths of the other memories that the text seems to contradict; these are not marked.
        unmarked: the marks that this write removed: each as who had the mark, and whom it named.
    """

    __slots__ = ("contradictions", "superseded", "suspected", "unmarked")
    contradictions: tuple[Contradiction, ...]
    superseded: tuple[str, ...]
    suspected: tuple[str, ...]
    unmarked: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, ids: Mapping[str, str], path: str, found: Found) -> Remembered:
        """The event id of a memory at a path, with what was found for it; `ids` has the events that were written."""
        self, items = cls(ids[path]), found.contradictions
        marked = {old for old in found.marked if ids.get(old)}
        self.contradictions = tuple(replace(item, acts=item.old in marked) for item in items)
        self.superseded = tuple(item.old for item in items if item.old in marked)
        self.suspected = tuple(_other(item, path) for item in items if item.old not in marked)
        self.unmarked = tuple(found.unmarked)
        return self


def _other(found: Contradiction, path: str) -> str:
    """The memory that a contradiction is about, besides the one at a path."""
    return found.new if found.old == path else found.old


@dataclass(frozen=True, slots=True)
class Found:
    """What was found when a memory was added to a batch.

    Attributes:
        contradictions: most certain first.
        marked: the paths of the memories to be marked as superseded.
        unmarked: the marks to be removed, as `Remembered` has them.
    """

    contradictions: list[Contradiction]
    marked: list[str]
    unmarked: list[tuple[str, str]]
