"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

A contradiction has a kind, a reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below
the bound, the contradiction is a suggestion for introspection. A wrong act costs more than a missed one, so most
doubtful cases end below the bound. Pure and deterministic: no model, no clock; other languages give no contradictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.claims import Reading, read
from sense_memory.palace.contradictions.opposition import opposition
from sense_memory.palace.contradictions.phrases import unless_named


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.opposition import Opposition
    from sense_memory.palace.contradictions.phrases import Alike

# Whatever leaves one word unexplained ends at 0.74 or below; of what the tuning half has there, 2 of 7 are right.
ACT_BOUND: Final = 0.75
MAX_CANDIDATES_COUNT: Final = 32  # memories compared by one check: those with the rarest words in common
MAX_POSTINGS_COUNT: Final = 500  # entries of the index read by one check
MAX_COMMON_COUNT: Final = 2_000  # memories that may hold a word for it to lead to others, with a second word
MAX_PAIRS_COUNT: Final = 50_000  # comparisons in one look over a palace
MAX_READ_COUNT: Final = 5_000  # memories read for what they claim in one look over a palace: some 0.4 s
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
    reason: str
    acts: bool


@dataclass(frozen=True, slots=True)
class ContradictionScan:
    """The contradictions that a scan of a palace found.

    Attributes:
        contradictions: surest first.
        bounded: whether a limit kept it from looking at, or from showing, everything.
    """

    contradictions: tuple[Contradiction, ...]
    bounded: bool


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
    return _compare(old, read(old), new, read(new), alike) if _comparable(old, new) else None


class ClaimIndex:
    """The claims of the memories of a palace, indexed by word, to find what a new memory contradicts."""

    def __init__(self) -> None:
        self._memories: dict[str, tuple[PersonaMemory, Reading]] = {}
        self._facets: dict[tuple[str, str], dict[str, set[str]]] = {}

    def __len__(self) -> int:
        return len(self._memories)

    def __contains__(self, path: str) -> bool:
        return path in self._memories

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the memory at its path."""
        self.drop(memory.path)
        reading = read(memory)
        self._memories[memory.path] = (memory, reading)
        postings = self._facets.setdefault((memory.domain, memory.facet), {})
        for term in _terms(reading):
            postings.setdefault(term, set()).add(memory.path)

    def drop(self, path: str) -> None:
        """Remove a memory; an unknown path is not an error."""
        if (kept := self._memories.pop(path, None)) is None:
            return
        memory, reading = kept
        postings = self._facets[memory.domain, memory.facet]
        for term in _terms(reading):
            postings[term].discard(path)
            if not postings[term]:
                del postings[term]

    def check(
        self, memory: PersonaMemory, also: Iterable[str] = (), alike: Alike | None = None
    ) -> list[Contradiction]:
        """The contradictions between a memory and the others of its domain and facet.

        At most `MAX_CANDIDATES_COUNT` memories are compared, those that share its rarest words.

        Args:
            memory: the new memory, which need not be in the index.
            also: paths to compare as well, such as neighbours by embedding; unknown paths are skipped.
            alike: how near two phrases are, see `compare`; used for the memories of `also` only.

        Returns:
            Surest first, then by path.
        """
        reading, near = read(memory), dict.fromkeys(also)
        others = [path for path in self._candidates(memory, reading) if path not in near]
        found = self._compared(memory, reading, near, alike) + self._compared(memory, reading, others, None)
        return sorted(found, key=_rank)

    def compared(self, memory: PersonaMemory, also: Iterable[str], alike: Alike) -> list[Contradiction]:
        """As `check`, for the given paths only, to learn which phrases `alike` will be asked for."""
        return sorted(self._compared(memory, read(memory), also, alike), key=_rank)

    def pairs(self, limit: int) -> ContradictionScan:
        """The contradictions within the palace: each memory against the older ones, newest first.

        At most `MAX_PAIRS_COUNT` comparisons are made, so the oldest memories of a very large palace may not be
        compared; `bounded` says so.

        Args:
            limit: contradictions to show.
        """
        newest = sorted(self._memories, key=self._age, reverse=True)
        left = MAX_PAIRS_COUNT
        bounded = False
        found: list[Contradiction] = []
        for path in newest:
            if left < MAX_CANDIDATES_COUNT:
                bounded = True
                break
            memory, reading = self._memories[path]
            candidates = self._candidates(memory, reading)
            left -= len(candidates)
            older = [other for other in candidates if self._age(other) < self._age(path)]
            found += [
                contradiction for other in older if (contradiction := self._against(other, memory, reading))
            ]
        found.sort(key=_rank)
        return ContradictionScan(tuple(found[:limit]), bounded or len(found) > limit)

    def _age(self, path: str) -> tuple[float, str]:
        return self._memories[path][0].created_at, path

    def _compared(
        self, memory: PersonaMemory, reading: Reading, paths: Iterable[str], alike: Alike | None
    ) -> list[Contradiction]:
        known = (path for path in paths if path in self._memories)
        return list(filter(None, (self._against(path, memory, reading, alike) for path in known)))

    def _against(
        self, path: str, memory: PersonaMemory, reading: Reading, alike: Alike | None = None
    ) -> Contradiction | None:
        old, old_reading = self._memories[path]
        return _compare(old, old_reading, memory, reading, alike) if _comparable(old, memory) else None

    def _candidates(self, memory: PersonaMemory, reading: Reading) -> list[str]:
        """The paths that share most words, rare words counting more; independent of the order of insertion."""
        postings = self._facets.get((memory.domain, memory.facet), {})
        lists = sorted(
            ((term, postings[term]) for term in _terms(reading) if term in postings),
            key=lambda entry: (len(entry[1]), entry[0]),
        )
        scores: dict[str, float] = {}
        left = MAX_POSTINGS_COUNT
        common: list[set[str]] = []
        for _, paths in lists:
            if len(paths) > left:
                common.append(paths)
                continue
            left -= len(paths)
            weight = 1.0 / len(paths)
            for path in paths:
                scores[path] = scores.get(path, 0.0) + weight
        for paths in common:
            for path in scores.keys() & paths:
                scores[path] += 1.0 / len(paths)
        if len(common) > 1 and len(common[0]) <= MAX_COMMON_COUNT:
            for path in nsmallest(MAX_CANDIDATES_COUNT, common[0] & common[1]):
                scores.setdefault(path, 0.0)
        scores.pop(memory.path, None)
        ranked = nsmallest(MAX_CANDIDATES_COUNT, [(-score, path) for path, score in scores.items()])
        return [path for _, path in ranked]


def pairs(
    memories: Iterable[PersonaMemory], limit: int, *, max_read: int = MAX_READ_COUNT
) -> ContradictionScan:
    """The contradictions among some memories, given in any order; see `ClaimIndex.pairs`.

    Args:
        memories: superseded ones are ignored.
        limit: contradictions to show.
        max_read: only so many of the newest memories are read for their claims; `bounded` says so.
    """
    current = [memory for memory in memories if not memory.superseded_by]
    newest = nlargest(max_read, current, key=lambda memory: (memory.created_at, memory.path))
    claims = ClaimIndex()
    for memory in newest:
        claims.put(memory)
    scan = claims.pairs(limit)
    return ContradictionScan(scan.contradictions, scan.bounded or len(newest) < len(current))


def _comparable(old: PersonaMemory, new: PersonaMemory) -> bool:
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


def _compare(
    old: PersonaMemory,
    old_reading: Reading,
    new: PersonaMemory,
    new_reading: Reading,
    alike: Alike | None = None,
) -> Contradiction | None:
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


def _terms(reading: Reading) -> frozenset[str]:
    """The terms that a reading is indexed by: its words, and each slot with the words of its subject."""
    slots = [claim.slot for claim in reading.claims if claim.slot is not None]
    filled = (f"{slot.predicate}|{word}" for slot in slots for word in slot.subject)
    return reading.context.union(filled, *(claim.words for claim in reading.claims))


def _rank(contradiction: Contradiction) -> tuple[float, str, str]:
    return (-contradiction.confidence, contradiction.old, contradiction.new)
