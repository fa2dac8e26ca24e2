"""The claims of a palace, indexed by word: what a memory may contradict is found without comparing it with every other.

Pure; which of the memories found contradict is decided by `detection`.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.claims import Reading, read
from sense_memory.palace.contradictions.detection import Contradiction, comparable, compare_readings


if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.phrases import Alike

MAX_CANDIDATES_COUNT: Final = 32  # memories compared by one check: those with the rarest words in common
MAX_POSTINGS_COUNT: Final = 500  # entries of the index read by one check
MAX_COMMON_COUNT: Final = 2_000  # memories that may hold a word for it to lead to others, with a second word
MAX_PAIRS_COUNT: Final = 50_000  # comparisons in one scan: some 1.5 s


@dataclass(frozen=True, slots=True)
class ContradictionScan:
    """The contradictions that a scan of a palace found.

    Attributes:
        contradictions: surest first.
        bounded: whether a limit kept it from looking at, or from showing, everything.
    """

    contradictions: tuple[Contradiction, ...]
    bounded: bool


class ClaimIndex:
    """The claims of the memories of a palace, indexed by word, to find what a new memory contradicts.

    A memory is read once, when it is put, and compared with the whole palace once, by the next `scan`; what a scan
    found counts until one of its memories is put anew or dropped. So a repeated scan costs what has changed.
    """

    def __init__(self) -> None:
        self._memories: dict[str, tuple[PersonaMemory, Reading]] = {}
        self._facets: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._last: tuple[object, Reading] | None = None  # what was read last
        self._fresh: dict[str, None] = {}  # paths put since they were compared
        self._found: dict[tuple[str, str], tuple[Contradiction, PersonaMemory, PersonaMemory]] = {}

    def __len__(self) -> int:
        return len(self._memories)

    def __contains__(self, path: str) -> bool:
        return path in self._memories

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the memory at its path."""
        self.drop(memory.path)
        reading = self._reading(memory)
        self._memories[memory.path] = (memory, reading)
        self._fresh[memory.path] = None
        postings = self._facets.setdefault((memory.domain, memory.facet), {})
        for term in reading.keys:
            postings.setdefault(term, set()).add(memory.path)

    def drop(self, path: str) -> None:
        """Remove a memory; an unknown path is not an error."""
        if (kept := self._memories.pop(path, None)) is None:
            return
        self._fresh.pop(path, None)
        memory, reading = kept
        postings = self._facets[memory.domain, memory.facet]
        for term in reading.keys:
            postings[term].discard(path)
            if not postings[term]:
                del postings[term]

    def keep(self, paths: Container[str]) -> None:
        """Remove all memories but those at these paths."""
        for path in [path for path in self._memories if path not in paths]:
            self.drop(path)

    def check(self, memory: PersonaMemory, alike: Alike | None = None) -> list[Contradiction]:
        """The contradictions between a memory and the others of its domain and facet.

        At most `MAX_CANDIDATES_COUNT` memories are compared, those that share its rarest words.

        Args:
            memory: the new memory, which need not be in the index.
            alike: how near two phrases are, see `compare`.

        Returns:
            Surest first, then by path.
        """
        reading = self._reading(memory)
        candidates = self._candidates(memory, reading)
        found = (self._against(path, memory, reading, alike) for path in candidates)
        return sorted(filter(None, found), key=_rank)

    def _reading(self, memory: PersonaMemory) -> Reading:
        """The claims of a memory; a new memory is checked, then put, and read once."""
        said = memory.key, memory.value, memory.themes
        if self._last is None or self._last[0] != said:
            self._last = said, read(memory)
        return self._last[1]

    def scan(self) -> Iterator[None]:
        """Compare the memories that were put since the last scan with all others, newest first; see `pairs`.

        At most `MAX_PAIRS_COUNT` comparisons are made; the next scan goes on where this one ended. Pauses after each
        memory; while it pauses, memories may be put and dropped.
        """
        left = MAX_PAIRS_COUNT
        done: set[str] = set()
        for path in sorted(self._fresh, key=self._age, reverse=True):
            if path not in self._fresh:
                continue  # dropped meanwhile
            if left < MAX_CANDIDATES_COUNT:
                return
            memory, reading = self._memories[path]
            candidates = self._candidates(memory, reading)
            left -= len(candidates)
            age = self._age(path)
            for other in candidates:
                if self._age(other) < age:
                    self._note(other, path)
                elif other not in done and other not in self._fresh:
                    self._note(path, other)
            del self._fresh[path]
            done.add(path)
            yield

    def pairs(self, limit: int) -> ContradictionScan:
        """The contradictions within the palace that scans have found, each an older memory against a newer one.

        Args:
            limit: contradictions to show.
        """
        self._found = {
            pair: (found, old, new)
            for pair, (found, old, new) in self._found.items()
            if self._is_current(old) and self._is_current(new)
        }
        ranked = nsmallest(limit, (found for found, _, _ in self._found.values()), key=_rank)
        return ContradictionScan(tuple(ranked), bool(self._fresh) or len(self._found) > limit)

    def _note(self, old: str, new: str) -> None:
        memory, reading = self._memories[new]
        if contradiction := self._against(old, memory, reading):
            self._found[old, new] = (contradiction, self._memories[old][0], memory)

    def _is_current(self, memory: PersonaMemory) -> bool:
        known = self._memories.get(memory.path)
        return known is not None and known[0] is memory

    def _age(self, path: str) -> tuple[float, str]:
        return self._memories[path][0].created_at, path

    def _against(
        self, path: str, memory: PersonaMemory, reading: Reading, alike: Alike | None = None
    ) -> Contradiction | None:
        old, old_reading = self._memories[path]
        return compare_readings(old, old_reading, memory, reading, alike) if comparable(old, memory) else None

    def _candidates(self, memory: PersonaMemory, reading: Reading) -> list[str]:
        """The paths that share most words, rare words counting more; independent of the order of insertion."""
        postings = self._facets.get((memory.domain, memory.facet), {})
        lists = sorted(
            ((term, postings[term]) for term in reading.keys if term in postings),
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


def _rank(contradiction: Contradiction) -> tuple[float, str, str]:
    return (-contradiction.confidence, contradiction.old, contradiction.new)
