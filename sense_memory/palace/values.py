"""Whether two values of one slot are different ones, and how surely the slot does not hold both. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.palace.opposites import WIDE_PLACES, is_quality, rivals
from sense_memory.palace.slots import ATTRIBUTES, EXCLUSIVE
from sense_memory.palace.words import stem, stems


if TYPE_CHECKING:
    from sense_memory.palace.slots import Slot

SUGGESTED: Final = 0.6  # possible, and no more than that
_QUALITIES: Final = ("ful", "able", "ible", "ous", "less", "ish", "ly")
_CIRCUMSTANCES: Final = stems(
    """push commit demand background foreground production staging parallel time schedule night home weekend morning
    evening house office battery budget peace harmony luxury poverty fear"""
)
_PLACES: Final = frozenset({"lives in", "located in", "born in", "runs on", "works at", "is"})


def differs(old: Slot, new: Slot) -> bool:
    """Whether two values are different ones, and neither only says more than the other."""
    if not old.value or not new.value or old.value <= new.value or new.value <= old.value:
        return False
    short, long = sorted((old.text, new.text), key=len)
    if long.startswith(short):
        return False
    common = old.value & new.value
    if common and common <= ATTRIBUTES:  # "in the timezone CET": the attribute itself stands in the value
        return len(old.value) == len(new.value) == 2
    return not common or _same_head(old, new)


def _describes(slot: Slot) -> bool:
    """Whether a value is a quality rather than a thing: the supplier may be Tanabe and reliable."""
    last = slot.text.rpartition(" ")[2]
    return not slot.article and ((len(last) > 5 and last.endswith(_QUALITIES)) or is_quality(stem(last)))


def _same_head(old: Slot, new: Slot) -> bool:
    """`a window seat` and `an aisle seat`: the last word is what both are."""
    return (
        stem(old.text.rpartition(" ")[2]) == stem(new.text.rpartition(" ")[2])
        and min(len(old.value), len(new.value)) > 1
    )


def apart(
    old: frozenset[str], new: frozenset[str], contexts: tuple[frozenset[str], frozenset[str]]
) -> int | None:
    """How many limiting words only one side has; None if both have some of their own."""
    left, right = old - new - contexts[1], new - old - contexts[0]
    return None if left and right else len(left) + len(right)


def exclusive(old: Slot, new: Slot, themed: bool) -> float:
    """How surely a slot that holds one value does not hold the other: 0 where it may well.

    `themed` tells whether keys or themes share a word beside the subject.
    """
    name = old.predicate
    brief = max(len(old.value), len(new.value)) <= 2
    kin = (brief and rivals(old.value, new.value)) or _same_head(old, new)
    possible = SUGGESTED - 0.1 if themed else 0.0
    if name in _PLACES and not (old.value | new.value).isdisjoint(_CIRCUMSTANCES):
        return 0.0
    if name in _PLACES and name != "is" and (old.article == "the") != (new.article == "the"):
        return SUGGESTED  # a place and a part of it, or a firm and an office
    if name in _PLACES and (old.value.isdisjoint(WIDE_PLACES) != new.value.isdisjoint(WIDE_PLACES)):
        return SUGGESTED
    if name == "built with":
        return 0.84 if kin else possible
    if name in EXCLUSIVE:
        return SUGGESTED if {"a", "an"} & {old.article, new.article} else 0.88
    if name == "is at":
        return 0.84 if "." in old.text and "." in new.text else possible
    if name == "is":
        if _describes(old) or _describes(new):
            return 0.0
        if not (old.subject & new.subject | old.value & new.value).isdisjoint(ATTRIBUTES):
            return 0.86
        return SUGGESTED if old.article == new.article == "the" else 0.0
    if name == "chose":
        return 0.84 if kin or old.subject & new.subject or old.scope & new.scope else possible
    if name == "uses":
        return 0.84 if old.scope & new.scope else SUGGESTED if kin else 0.0
    if name.startswith("…"):
        return 0.82 if len(old.subject & new.subject) > 1 else 0.0
    if name == "prefers":
        return 0.84 if kin else possible
    if name == "is on":
        return 0.84 if _same_head(old, new) else 0.0
    return (0.82 if kin else 0.0) if name in {"wants", "goes to"} else possible
