"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

A contradiction has a kind, a reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below
the bound, the contradiction is a suggestion for introspection. A wrong act costs more than a missed one, so most
doubtful cases end below the bound. Pure and deterministic: no model, no clock; other languages give no contradictions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.claims import read
from sense_memory.palace.contradictions.opposition import opposition
from sense_memory.palace.contradictions.phrases import unless_named


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.claims import Reading
    from sense_memory.palace.contradictions.opposition import Opposition
    from sense_memory.palace.contradictions.phrases import Alike

# Whatever leaves one word unexplained ends at 0.74 or below; of what the tuning half has there, 2 of 7 are right.
ACT_BOUND: Final = 0.75
_MAX_SURE_CLAIMS: Final = 2  # a longer memory says other things too: superseding it whole would bury them


@dataclass(frozen=True, slots=True)
class Contradiction:
    """That one memory contradicts another.

    Attributes:
        old: path of the existing memory.
        new: path of the new one.
        kind: `negation`, `antonym`, `sentiment`, `value`, `number`, `date` or `status`.
        confidence: 0 to 1.
        reason: a fragment to read, such as `lives in: berlin → lisbon`; it quotes the memories.
        acts: whether the confidence reaches `ACT_BOUND`.
    """

    old: str
    new: str
    kind: str
    confidence: float
    reason: str = field(repr=False)
    acts: bool


def compare(old: PersonaMemory, new: PersonaMemory, alike: Alike | None = None) -> Contradiction | None:
    """Whether a new memory contradicts an existing one.

    Memories of different domains or facets, linked as contradicting already, superseded, or two versions of
    one concurrent edit are never compared.

    Args:
        old: the existing memory.
        new: the new one.
        alike: how near two phrases are, such as `Phrases.alike`; by default only the same words mean the same.
            What holds only if different words do is never sure enough to act.

    Returns:
        The surest opposition of their claims, or None.
    """
    return compare_readings(old, read(old), new, read(new), alike) if comparable(old, new) else None


def comparable(old: PersonaMemory, new: PersonaMemory) -> bool:
    """Whether two memories may be compared at all; see `compare`."""
    if (old.domain, old.facet) != (new.domain, new.facet) or old.key == new.key:
        return False
    if old.superseded_by or new.superseded_by:
        return False
    if (old.conflict_of and old.conflict_of == new.path) or (new.conflict_of and new.conflict_of == old.path):
        return False
    if new.path in old.dismissed or old.path in new.dismissed:
        return False
    return not (old.contradicts and new.path in old.contradicts) and not (
        new.contradicts and old.path in new.contradicts
    )


def compare_readings(
    old: PersonaMemory,
    old_reading: Reading,
    new: PersonaMemory,
    new_reading: Reading,
    alike: Alike | None = None,
) -> Contradiction | None:
    """As `compare`, for memories that are `comparable` and were read already."""
    if alike is not None:
        alike = unless_named(alike, old.value, new.value)
    best = None
    for before in old_reading.claims:
        if before in new_reading.claims:
            continue  # the new memory says it again
        for after in new_reading.claims:
            if before.words.isdisjoint(after.words):
                continue
            found = opposition(before, old_reading.context, after, new_reading.context, alike)
            if found and (best is None or _surer(found, best)):
                best = found
    if best is None:
        return None
    sure = old_reading.whole and len(old_reading.claims) <= _MAX_SURE_CLAIMS and not best.by_meaning
    confidence = round(best.confidence if sure else min(best.confidence, ACT_BOUND - 0.05), 2)
    return Contradiction(old.path, new.path, best.kind, confidence, best.reason, confidence >= ACT_BOUND)


def _surer(one: Opposition, other: Opposition) -> bool:
    return (not one.by_meaning, one.confidence) > (not other.by_meaning, other.confidence)
