"""The claims of a palace, indexed by word: what a memory may contradict is found without comparing it with every other.

What is guaranteed: two memories whose words contradict each other share a key (see `Reading.keys` and `index_terms`), and a
memory is compared with the `MAX_CANDIDATES_COUNT` others of its facet that share most terms with it, in whatever order they were
put. Scans compare a memory once, and go on in the next process.

Why it is safe: the bounds may miss a contradiction but make none, because `detection` decides what contradicts. What
was saved counts only for memories that say the same as then; it is sealed where it lies, so nobody else wrote it.

What it costs: a check reads one memory and makes `MAX_CANDIDATES_COUNT` comparisons at most, 1 ms together. A scan
makes `MAX_PAIRS_COUNT`. 10,000 memories that were read fill 70 MB. Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.palace.contradictions.claims import Reading, read
from sense_memory.palace.contradictions.detection import Contradiction, compare_readings, turned


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sense_memory.models import PersonaMemory

MAX_CANDIDATES_COUNT: Final = 16  # memories compared by one check: those that share most words
MAX_POSTINGS_COUNT: Final = 500  # memories found by their rare words; by further words they are ranked only
MAX_PAIRS_COUNT: Final = 8_000  # comparisons in one scan, of some 500 memories: 0.25 s to 0.5 s
_MAX_SUSPECTED_COUNT: Final = 3  # of one new memory: it seldom ends more
_READING_COUNT: Final = 4  # comparisons that cost as much as reading a memory


@dataclass(frozen=True, slots=True)
class ContradictionScan:
    """The contradictions that a scan of a palace found.

    Attributes:
        contradictions: surest first.
        bounded: whether a limit kept it from looking at, or from showing, everything.
    """

    contradictions: tuple[Contradiction, ...]
    bounded: bool


@dataclass(slots=True)
class _Entry:
    """A memory of the index.

    Attributes:
        memory: as it was put.
        terms: what it is found by.
        known: its reading; None in a restored entry until it is first compared.
        is_compared: whether a scan compared it with the others.
        found: its contradictions, by the paths of the old and the new memory.
    """

    memory: PersonaMemory
    terms: frozenset[str]
    known: Reading | None = None
    is_compared: bool = False
    found: dict[tuple[str, str], Contradiction] = field(default_factory=dict)

    @property
    def reading(self) -> Reading:
        if self.known is None:
            self.known = read(self.memory)
        return self.known


class ClaimIndex:
    """The claims of the memories of a palace, indexed by word, to find what a new memory contradicts.

    A memory is read once, when it is put (or when it is first compared, after `restored`), and looked up among the others
    of its facet once, by the next `scan`; what a scan found counts until one of its memories is put anew or dropped. So a
    repeated scan costs what has changed. `dump` and `restored` carry this over to the next process.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # The paths that a term leads to, by domain and facet.
        self._facets: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._last: dict[tuple[str, str], Reading] = {}  # what was read last, by key and value

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def put(self, memory: PersonaMemory) -> bool:
        """Add a memory, or replace the memory at its path; False if that one says the same already."""
        known = self._entries.get(memory.path)
        if known is not None and _claimed(known.memory) == _claimed(memory):
            return False
        self.drop(memory.path)
        reading = self._reading(memory)
        self._add(_Entry(memory, reading.index_terms, reading))
        return True

    def _add(self, entry: _Entry) -> None:
        memory = entry.memory
        self._entries[memory.path] = entry
        postings = self._facets.setdefault((memory.domain, memory.facet), {})
        for term in entry.terms:
            postings.setdefault(term, set()).add(memory.path)

    def drop(self, path: str) -> None:
        """Remove a memory, and what was found of it; an unknown path is not an error."""
        if (entry := self._entries.pop(path, None)) is None:
            return
        for pair in entry.found:
            (other,) = {*pair} - {path}
            del self._entries[other].found[pair]
        postings = self._facets[entry.memory.domain, entry.memory.facet]
        for term in entry.terms:
            postings[term].discard(path)
            if not postings[term]:
                del postings[term]

    def dump(self) -> bytes:
        """What was read and compared, for `restored`. It holds words of the memories."""
        rows = [
            (path, _stamp(entry.memory), entry.is_compared, [*entry.terms])
            for path, entry in self._entries.items()
        ]
        return orjson.dumps((rows, self._found()))

    @classmethod
    def restored(cls, saved: bytes | memoryview, memories: Mapping[str, PersonaMemory]) -> ClaimIndex:
        """An index of what a `dump` knows of the memories (by path) that say the same as then.

        Raises:
            ValueError, TypeError: `dump` did not write this.
        """
        index = cls()
        rows, found = orjson.loads(saved)
        for path, stamp, is_compared, terms in rows:
            memory = memories.get(path)
            if memory is not None and _stamp(memory) == stamp:
                index._add(_Entry(memory, frozenset(terms), is_compared=is_compared))
        for item in found:
            index._note(Contradiction(**item))
        return index

    def _note(self, found: Contradiction | None) -> None:
        if found and found.old != found.new and {found.old, found.new} <= self._entries.keys():
            pair = found.old, found.new
            self._entries[found.old].found[pair] = self._entries[found.new].found[pair] = found

    def _found(self) -> list[Contradiction]:
        entries = self._entries.items()
        return [found for path, entry in entries for found in entry.found.values() if found.new == path]

    def found_between(self, old: str, new: str) -> Contradiction | None:
        """The known contradiction of a memory against an earlier one, by their paths."""
        return None if (entry := self._entries.get(old)) is None else entry.found.get((old, new))

    def confirm(self, old: PersonaMemory, new: PersonaMemory) -> Contradiction:
        """The contradiction of two memories that are suspected to contradict each other; `turned` if words alone show none.

        Both are put, and what was found counts as what a scan has found.
        """
        self.put(old)
        self.put(new)
        sides = (old, self._entries[old.path].reading, new, self._entries[new.path].reading)
        found = compare_readings(*sides) or turned(old, new)
        self._note(found)
        return found

    def check(self, memory: PersonaMemory) -> list[Contradiction]:
        """The contradictions between a memory and the others of its domain and facet.

        At most `MAX_CANDIDATES_COUNT` memories are compared, those that share most words with it.

        Args:
            memory: the new memory, which need not be in the index.

        Returns:
            Surest first, then by path.
        """
        reading = self._reading(memory)
        others = self._candidates(memory, reading.index_terms)
        found = (compare_readings(other.memory, other.reading, memory, reading) for other in others)
        return _ranked(filter(None, found))

    def _reading(self, memory: PersonaMemory) -> Reading:
        """The claims of a memory; a new memory is checked, then put, and read once."""
        said = memory.key, memory.value
        if said not in self._last:
            self._last = {said: read(memory)}
        return self._last[said]

    def scan(self) -> Iterator[None]:
        """Compare the memories that were put since the last scan with all others, newest first; see `pairs`.

        At most `MAX_PAIRS_COUNT` comparisons are made; the next scan goes on where this one ended. Pauses after each
        memory; while it pauses, memories may be put and dropped.
        """
        left = MAX_PAIRS_COUNT
        fresh = {path: entry for path, entry in self._entries.items() if not entry.is_compared}
        for path, entry in sorted(fresh.items(), key=lambda item: _age(item[1]), reverse=True):
            if left < MAX_CANDIDATES_COUNT:
                return
            if self._entries.get(path) is not entry:
                continue  # dropped meanwhile
            for other in self._candidates(entry.memory, entry.terms):
                left -= 1 if other.known else _READING_COUNT
                old, new = sorted((entry, other), key=_age)
                if new is entry or new.memory.path not in fresh:  # else it came before this one
                    self._note(compare_readings(old.memory, old.reading, new.memory, new.reading))
            entry.is_compared = True
            yield

    def pairs(self, limit: int | None = None) -> ContradictionScan:
        """The contradictions within the palace that scans have found, each an older memory against a newer one, surest first.

        Args:
            limit: contradictions to show; None for all.
        """
        found, is_whole = _ranked(self._found()), all(entry.is_compared for entry in self._entries.values())
        return ContradictionScan(tuple(found[:limit]), not is_whole or found[:limit] != found)

    def _candidates(self, memory: PersonaMemory, terms: frozenset[str]) -> list[_Entry]:
        """The entries that share most terms, where a term in 16 memories counts half; in whatever order they were put."""
        postings = self._facets.get((memory.domain, memory.facet), {})
        scores: dict[str, float] = {}
        for count, term in sorted((len(postings[term]), term) for term in terms if term in postings):
            is_rare, weight = len(scores) + count <= MAX_POSTINGS_COUNT, count**-0.25
            for path in postings[term] if is_rare else postings[term] & scores.keys():
                scores[path] = scores.get(path, 0.0) + weight
        scores.pop(memory.path, None)
        if not scores:
            return []
        least = nlargest(MAX_CANDIDATES_COUNT, scores.values())[-1]
        best = sorted((-score, path) for path, score in scores.items() if score >= least)
        return [self._entries[path] for _, path in best[:MAX_CANDIDATES_COUNT]]


# All of a memory that its contradictions depend on, apart from its path.
_claimed: Final = attrgetter(
    "value", "written_at", "contradicts", "superseded_by", "conflict_of", "dismissed"
)


def _stamp(memory: PersonaMemory) -> str:
    """A hash of what its contradictions depend on."""
    return blake2b(repr(_claimed(memory)).encode(), digest_size=8).hexdigest()


def _age(entry: _Entry) -> tuple[float, str]:
    return (entry.memory.written_at, entry.memory.path)


def _ranked(found: Iterable[Contradiction]) -> list[Contradiction]:
    """Surest first, then by path; of each new memory at most `_MAX_SUSPECTED_COUNT` that are only suspected."""
    ranked: list[Contradiction] = []
    suspected: Counter[str] = Counter()
    for item in sorted(found, key=lambda item: (-item.confidence, item.old, item.new)):
        suspected[item.new] += not item.acts
        if item.acts or suspected[item.new] <= _MAX_SUSPECTED_COUNT:
            ranked.append(item)
    return ranked
