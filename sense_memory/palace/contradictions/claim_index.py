"""The claims of a palace, indexed by word: what a memory may contradict is found without comparing it with every other.

What is guaranteed: two memories whose words contradict each other share a key (see `Reading.keys` and `index_terms`), and a memory is
compared with the `MAX_CANDIDATES_COUNT` others of its facet that share most keys with it, rare ones first, in whatever
order they were put. Scans compare a memory once, and go on in the next process.

Why it is safe: the bounds may miss a contradiction but make none, because `detection` decides what contradicts. What
was saved counts only for memories that say the same as then.

What it costs: a check reads one memory and makes `MAX_CANDIDATES_COUNT` comparisons at most, 1 ms together. A scan
makes `MAX_PAIRS_COUNT`. 10,000 memories that were read fill 70 MB. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.palace.contradictions.claims import Reading, read
from sense_memory.palace.contradictions.detection import TURN, Contradiction, comparable, compare_readings


if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.sentences import Near

MAX_CANDIDATES_COUNT: Final = 32  # memories compared by one check: those with the rarest words in common
MAX_POSTINGS_COUNT: Final = 500  # entries of the index read by one check
MAX_COMMON_COUNT: Final = 2_000  # memories that may hold a word for it to lead to others, with a second word
MAX_PAIRS_COUNT: Final = 15_000  # comparisons in one scan: some 0.25 s
_MAX_TURNED_COUNT: Final = 2  # of a kind that is never sure: one memory seldom ends more
_READING_COUNT: Final = 12  # comparisons that cost as much as reading a memory
_STAMP_BYTES: Final = 8


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
    """A memory of the index. What it claims is read when it is first compared, if only its keys were saved."""

    memory: PersonaMemory
    keys: frozenset[str]
    age: tuple[float, str]
    known: Reading | None = None

    @property
    def reading(self) -> Reading:
        if self.known is None:
            self.known = read(self.memory)
        return self.known


class ClaimIndex:
    """The claims of the memories of a palace, indexed by word, to find what a new memory contradicts.

    A memory is read once, when it is put, and compared with the whole palace once, by the next `scan`; what a scan
    found counts until one of its memories is put anew or dropped. So a repeated scan costs what has changed. `dump` and
    `restore` carry this over to the next process.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._facets: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._last: tuple[object, Reading] | None = None  # what was read last
        self._fresh: dict[str, None] = {}  # paths put since they were compared
        self._found: dict[tuple[str, str], tuple[Contradiction, PersonaMemory, PersonaMemory]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def put(self, memory: PersonaMemory) -> bool:
        """Add a memory, or replace the memory at its path; False if that one says the same already."""
        known = self._entries.get(memory.path)
        if known is not None and _said(known.memory) == _said(memory):
            return False
        self.drop(memory.path)
        reading = self._reading(memory)
        self._add(memory, reading.index_terms, reading)
        self._fresh[memory.path] = None
        return True

    def _add(self, memory: PersonaMemory, keys: frozenset[str], reading: Reading | None) -> None:
        path = memory.path
        self._entries[path] = _Entry(memory, keys, (memory.written_at, path), reading)
        postings = self._facets.setdefault((memory.domain, memory.facet), {})
        for term in keys:
            postings.setdefault(term, set()).add(path)

    def drop(self, path: str) -> None:
        """Remove a memory; an unknown path is not an error."""
        if (kept := self._entries.pop(path, None)) is None:
            return
        self._fresh.pop(path, None)
        postings = self._facets[kept.memory.domain, kept.memory.facet]
        for term in kept.keys:
            postings[term].discard(path)
            if not postings[term]:
                del postings[term]

    def keep(self, paths: Container[str]) -> None:
        """Remove all memories but those at these paths."""
        for path in [path for path in self._entries if path not in paths]:
            self.drop(path)

    def dump(self) -> bytes:
        """What was read and compared, for `restore`. It holds words of the memories."""
        numbers: dict[str, int] = {}
        rows = []
        for path, entry in self._entries.items():
            keys = [numbers.setdefault(key, len(numbers)) for key in entry.keys]
            rows.append((path, _stamp(entry.memory), path in self._fresh, keys))
        found = [
            (item.old, item.new, item.kind, item.confidence, item.reason, item.acts)
            for item, _, _ in self._current().values()
        ]
        return orjson.dumps((list(numbers), rows, found))

    def restore(self, saved: bytes | memoryview, memories: Mapping[str, PersonaMemory]) -> None:
        """Take over what a `dump` knows of the memories (by path) that say the same as then.

        Raises:
            ValueError, TypeError, LookupError: `dump` did not write this; part of it may have been taken over.
        """
        keys, rows, found = orjson.loads(saved)
        for path, stamp, is_fresh, numbers in rows:
            memory = memories.get(path)
            if memory is None or path in self._entries or _stamp(memory) != stamp:
                continue
            self._add(memory, frozenset([keys[number] for number in numbers]), None)
            if is_fresh:
                self._fresh[path] = None
        for item in found:
            contradiction = Contradiction(*item)
            old, new = self._entries.get(contradiction.old), self._entries.get(contradiction.new)
            if old is not None and new is not None and old.known is None and new.known is None:
                self._found[contradiction.old, contradiction.new] = contradiction, old.memory, new.memory

    def check(self, memory: PersonaMemory, near: Near | None = None) -> list[Contradiction]:
        """The contradictions between a memory and the others of its domain and facet.

        At most `MAX_CANDIDATES_COUNT` memories are compared, those that share its rarest words.

        Args:
            memory: the new memory, which need not be in the index.
            near: how near two notes are in meaning, see `compare`.

        Returns:
            Surest first, then by path; at most `_MAX_TURNED_COUNT` of the kind `TURN`.
        """
        reading = self._reading(memory)
        candidates = self._candidates(memory, reading.index_terms)
        found = (_against(self._entries[path], memory, reading, near) for path in candidates)
        ranked = sorted(filter(None, found), key=_rank)
        turned = [item for item in ranked if item.kind == TURN]
        return [item for item in ranked if item not in turned[_MAX_TURNED_COUNT:]]

    def _reading(self, memory: PersonaMemory) -> Reading:
        """The claims of a memory; a new memory is checked, then put, and read once."""
        said = memory.key, memory.value
        if self._last is None or self._last[0] != said:
            self._last = said, read(memory)
        return self._last[1]

    def scan(self) -> Iterator[None]:
        """Compare the memories that were put since the last scan with all others, newest first; see `pairs`.

        At most `MAX_PAIRS_COUNT` comparisons are made; the next scan goes on where this one ended. Pauses after each
        memory; while it pauses, memories may be put and dropped.
        """
        left = MAX_PAIRS_COUNT
        entries, done = self._entries, set[str]()
        for path in sorted(self._fresh, key=lambda path: entries[path].age, reverse=True):
            if path not in self._fresh:
                continue  # dropped meanwhile
            if left < MAX_CANDIDATES_COUNT:
                return
            entry = entries[path]
            candidates = self._candidates(entry.memory, entry.keys)
            left -= len(candidates) + _READING_COUNT * sum(
                entries[other].known is None for other in candidates
            )
            for other in candidates:
                one = entries[other]
                if one.age < entry.age:
                    self._note(one, entry)
                elif other not in done and other not in self._fresh:
                    self._note(entry, one)
            del self._fresh[path]
            done.add(path)
            yield

    def pairs(self, limit: int) -> ContradictionScan:
        """The contradictions within the palace that scans have found, each an older memory against a newer one.

        Args:
            limit: contradictions to show.
        """
        self._found = self._current()
        ranked = nsmallest(limit, (found for found, _, _ in self._found.values()), key=_rank)
        return ContradictionScan(tuple(ranked), bool(self._fresh) or len(self._found) > limit)

    def _note(self, old: _Entry, new: _Entry) -> None:
        if contradiction := _against(old, new.memory, new.reading):
            self._found[contradiction.old, contradiction.new] = (contradiction, old.memory, new.memory)

    def _current(self) -> dict[tuple[str, str], tuple[Contradiction, PersonaMemory, PersonaMemory]]:
        """What was found between memories of which neither was put anew or dropped."""

        def is_current(memory: PersonaMemory) -> bool:
            known = self._entries.get(memory.path)
            return known is not None and known.memory is memory

        return {pair: entry for pair, entry in self._found.items() if all(map(is_current, entry[1:]))}

    def _candidates(self, memory: PersonaMemory, keys: frozenset[str]) -> list[str]:
        """The paths that share most words, rare words counting more; independent of the order of insertion."""
        postings = self._facets.get((memory.domain, memory.facet), {})
        lists = sorted(
            ((term, postings[term]) for term in keys if term in postings),
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
            for path in paths:
                scores[path] = scores.get(path, 0.0) + 1.0 / len(paths)
        for paths in common:
            for path in scores.keys() & paths:
                scores[path] += 1.0 / len(paths)
        if len(common) > 1 and len(common[0]) <= MAX_COMMON_COUNT:
            scores = dict.fromkeys(nsmallest(MAX_CANDIDATES_COUNT, common[0] & common[1]), 0.0) | scores
        scores.pop(memory.path, None)
        return nsmallest(MAX_CANDIDATES_COUNT, scores, key=lambda path: (-scores[path], path))


def _against(
    entry: _Entry, memory: PersonaMemory, reading: Reading, near: Near | None = None
) -> Contradiction | None:
    if not comparable(entry.memory, memory):
        return None
    return compare_readings(entry.memory, entry.reading, memory, reading, near)


# All of a memory that its contradictions depend on, apart from its path.
_said: Final = attrgetter("value", "written_at", "contradicts", "superseded_by", "conflict_of", "dismissed")


def _stamp(memory: PersonaMemory) -> str:
    """A hash of what its contradictions depend on."""
    said = repr(_said(memory)).encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=_STAMP_BYTES).hexdigest()


def _rank(contradiction: Contradiction) -> tuple[float, str, str]:
    return (-contradiction.confidence, contradiction.old, contradiction.new)
