"""The memories that a prompt may hold, in the order in which they are tried. Pure.

Pinned memories come first, then those that a question needs. The others wait in queues, by relevance: standing
preferences and instructions in one (`palace.standing`), and one for each domain. A queue is read only as far as the
budget goes, so that a palace of a hundred thousand costs little more than one of a hundred. For a request, standing
memories are in the order in which they bear on it (`palace.bearing`), the five hundred most relevant of them.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import chain, groupby, islice, zip_longest
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from sense_memory.limits import ACTIVE_ABOVE, FADING_FROM
from sense_memory.models import PINNED
from sense_memory.palace.standing import has_standing_kind, is_standing


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory

    Bears = Callable[[Sequence[PersonaMemory]], Sequence[float]]


IDENTITY: Final = "self"  # the domain of the agent's identity
STANDING: Final = "\0standing"  # the queue of preferences and instructions; no domain has this name
_MAX_SPARE_COUNT: Final = 200  # memories that are tried for the rest of the budget
_MAX_READ_COUNT: Final = 1_000  # memories whose text is searched for a standing preference
_MAX_ORDERED_COUNT: Final = 500  # standing memories that are put in the order of a request
_WINDOW: Final = 12  # memories of a queue of which one without a new header may come first


def active(
    memories: Sequence[PersonaMemory],
    relevances: NDArray[np.float64],
    domain: str | None,
    needed: frozenset[str] = frozenset(),
) -> NDArray[np.intp]:
    """The indices of the active memories, and of the `needed` ones that are fading.

    Memories whose successor is among them are left out.
    """
    found = np.flatnonzero(relevances > ACTIVE_ABOVE)
    if needed:
        fading = np.flatnonzero((relevances <= ACTIVE_ABOVE) & (relevances >= FADING_FROM))
        more = [i for i in fading.tolist() if memories[i].path in needed]
        found = np.concatenate([found, np.array(more, dtype=np.intp)])
    superseded = {memories[i].superseded_by for i in found.tolist()} - {None}
    if not superseded and domain is None:
        return found
    heads = {memories[i].path for i in found.tolist()} if superseded else set()
    kept = [
        i
        for i in found.tolist()
        if memories[i].superseded_by not in heads and domain in {None, memories[i].domain}
    ]
    return np.array(kept, dtype=np.intp)


def by_relevance(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], which: NDArray[np.intp]
) -> Iterator[PersonaMemory]:
    """Some memories, most relevant first, ties by path; ties are sorted only as far as the caller reads."""
    order = which[np.argsort(-relevances[which], kind="stable")]
    for _, equal in groupby(order.tolist(), key=relevances.__getitem__):
        heap = [f"{memories[index].path}\0{index}" for index in equal]  # the garbage collector skips strings
        heapq.heapify(heap)
        while heap:
            yield memories[int(heapq.heappop(heap).rpartition("\0")[2])]


class Queue:
    """An iterable of memories that can be read again; the source is read only as far as needed."""

    def __init__(self, memories: Iterable[PersonaMemory]) -> None:
        self._source = iter(memories)
        self._read: list[PersonaMemory] = []

    def __iter__(self) -> Iterator[PersonaMemory]:
        place = 0
        while True:
            if place == len(self._read):
                memory = next(self._source, None)
                if memory is None:
                    return
                self._read.append(memory)
            yield self._read[place]
            place += 1


class NearFirst:
    """Memories of a queue: of the next twelve, the first that needs no new header; otherwise the most relevant.

    A header costs as much as half a memory. No memory is passed over more than eleven times in a row.

    Args:
        queue: the memories, most relevant first.
        begun: the sections whose header stands, which the caller goes on filling.
    """

    def __init__(self, queue: Queue, begun: set[tuple[str, ...]]) -> None:
        self._source, self._begun = iter(queue), begun
        self._held: deque[PersonaMemory] = deque()
        self._passes = 0

    def __iter__(self) -> Iterator[PersonaMemory]:
        return self

    def __next__(self) -> PersonaMemory:
        self._held.extend(islice(self._source, _WINDOW - len(self._held)))
        if not self._held:
            raise StopIteration
        near = (i for i, memory in enumerate(self._held) if (memory.domain, memory.facet) in self._begun)
        place = next(near, 0) if self._passes < _WINDOW - 1 else 0
        self._passes = self._passes + 1 if place else 0
        memory = self._held[place]
        del self._held[place]
        return memory


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates, in three parts; a memory may be in two of the queues.

    Attributes:
        first: pinned memories, then those that a question needs.
        queues: the others: `STANDING`, then the domains by name.
        has_question: whether any memory is needed.
        is_by_bearing: whether standing memories are in the order in which they bear on a request.
    """

    first: Queue
    queues: dict[str, Queue]
    has_question: bool
    is_by_bearing: bool = False

    @classmethod
    def of(
        cls,
        memories: Sequence[PersonaMemory],
        relevances: NDArray[np.float64],
        which: NDArray[np.intp],
        needed: Sequence[str],
        bears: Bears | None = None,
    ) -> Self:
        """The candidates among `memories[index]` for each index of `which`; `needed` are paths, most needed first.

        `bears` tells how much each of some standing memories bears on a request; None without one.
        """
        pinned: list[int] = []
        found: dict[str, PersonaMemory] = {}
        rest: list[int] = []
        kinds: list[int] = []
        domains: defaultdict[str, list[int]] = defaultdict(list)
        paths = set(needed)
        for index in which.tolist():
            memory = memories[index]
            if memory.themes and PINNED in memory.themes:
                pinned.append(index)
                continue
            rest.append(index)
            if paths and memory.path in paths:
                found[memory.path] = memory
            else:
                domains[memory.domain].append(index)
            # A needed one too: the other needed ones may leave no room for it.
            if has_standing_kind(memory) and is_standing(memory):
                kinds.append(index)

        def ranked(indices: list[int]) -> Iterator[PersonaMemory]:
            return by_relevance(memories, relevances, np.array(indices, dtype=np.intp))

        first = [*ranked(pinned), *(found[path] for path in needed if path in found)]
        queues = {name: Queue(ranked(domains[name])) for name in sorted(domains)}
        spoken = (memory for memory in islice(ranked(rest), _MAX_READ_COUNT) if is_standing(memory))
        standing: Iterable[PersonaMemory] = chain(ranked(kinds), spoken)
        if bears is not None:
            standing = first_by_bearing(standing, bears)
        return cls(Queue(first), {STANDING: Queue(standing), **queues}, bool(found), bears is not None)

    def queue(self, name: str, begun: set[tuple[str, ...]]) -> Iterator[PersonaMemory]:
        """The memories of a queue in the order in which they are tried; for `begun` see `NearFirst`."""
        queue = self.queues[name]
        return iter(queue) if name == STANDING and self.is_by_bearing else NearFirst(queue, begun)

    def spare(self, taken: set[str]) -> list[PersonaMemory]:
        """Memories whose paths are not in `taken`: pinned and needed ones, then each queue in turn."""
        turns = zip_longest(*self.queues.values())
        rest = chain(self.first, (memory for turn in turns for memory in turn if memory is not None))
        found = {memory.path: memory for memory in islice(rest, _MAX_SPARE_COUNT + len(taken))}
        return [memory for path, memory in found.items() if path not in taken]


def first_by_bearing(standing: Iterable[PersonaMemory], bears: Bears) -> Iterator[PersonaMemory]:
    """Standing memories, each once: pinned ones, then those that bear most on a request; ties stay in their order.

    From number `_MAX_ORDERED_COUNT` on, they stay in their order too.
    """
    source = iter(standing)
    once = list({memory.path: memory for memory in islice(source, _MAX_ORDERED_COUNT)}.values())
    bearing = [
        np.inf if PINNED in memory.themes else one for memory, one in zip(once, bears(once), strict=True)
    ]
    order = np.argsort(-np.asarray(bearing, np.float64), kind="stable")
    yield from (once[place] for place in order.tolist())
    yield from source
