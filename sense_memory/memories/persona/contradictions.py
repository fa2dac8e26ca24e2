"""Which palace memories a new memory contradicts; the rules are in `palace.contradictions`.

Reading the claims of a memory costs far more than storing it. So the newest 5,000 memories of a facet are read before
one of it is first written (0.6 s, once), and a few older ones before each later write; other tasks get their turn. A
memory is read again only when its text or its contradictions change. Introspection uses the same readings, and compares
a memory with the others once, some 1,500 with each run. All of this outlives the process, in the snapshot.

Contradictions are found by words alone: an embedder found one more in a hundred, suspected as many wrongly, and had to
be asked before a write. Here an embedder only says which memories are near to each other (`near_pairs`), so that
introspection can suggest connections.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from heapq import nlargest
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from sense_memory.errors import SenseMemoryError
from sense_memory.limits import MAX_SUSPICIONS_COUNT
from sense_memory.nostr import address
from sense_memory.palace.connections import near_pairs
from sense_memory.palace.contradictions import RULES_VERSION
from sense_memory.palace.contradictions.claim_index import ClaimIndex, ContradictionScan
from sense_memory.palace.contradictions.claims import claim_the_same, read
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.search import STAMP_BYTES, stamp_of
from sense_memory.records.sealed_caches import CachedIndex, made_of
from sense_memory.search.embedders.embedder import normalised


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from sense_memory.ledger import Ledger
    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.records.reader import Reader
    from sense_memory.records.sealed_caches import MemoryVectors

    Opening: TypeAlias = Callable[[], Awaitable[EmbedderClient | None]]


# ── Meaning ─────────────────────────────────────────────────────────────────────────────


class Meaning:
    """What an embedder says: which memories are near to each other.

    Args:
        embedding: opens the embedder if it is not open; gives None where it cannot be opened.
    """

    def __init__(self, embedding: Opening) -> None:
        self._embedding: Opening | None = embedding
        self._paired: tuple[bytes, list[tuple[str, str, float]]] = (
            b"",
            [],
        )  # what was compared last, and its pairs

    async def pairs(self, memories: Sequence[PersonaMemory]) -> list[tuple[str, str, float]]:
        """The pairs of memories with cached vectors that are near in meaning; see `near_pairs`. The last answer is kept."""
        embedding = await self._opened()
        if embedding is None:
            return []
        slots = {address.d_tag(address.PERSONA + memory.path): memory for memory in memories}
        kept = await embedding.cached({slot: _stamp(memory) for slot, memory in slots.items()})
        rows = {memory.path: _row(kept[slot]) for slot, memory in slots.items() if slot in kept}
        length = max(map(len, rows.values()), default=0)
        paths = sorted(path for path in rows if len(rows[path]) == length)
        table = np.array([rows[path] for path in paths], np.float32)
        compared = sha256("\n".join(paths).encode("utf-8", "surrogatepass") + table.tobytes()).digest()
        if compared != self._paired[0]:
            self._paired = (compared, await asyncio.to_thread(near_pairs, paths, table))
        return self._paired[1]

    async def _opened(self) -> EmbedderClient | None:
        if self._embedding is None:
            return None
        try:
            return await self._embedding()
        except SenseMemoryError:
            self._embedding = None  # not installed, damaged, not in the plan: a search reports the error
            return None


def _row(read: MemoryVectors) -> NDArray[np.float32]:
    """One vector for a memory: the normalised sum of those of its pieces."""
    found: NDArray[np.float32] = normalised(read.rows.sum(0, keepdims=True))[0]
    return found


def _stamp(memory: PersonaMemory) -> str:
    """The text state that vectors belong to, as search writes it."""
    return f"{stamp_of(memory):0{2 * STAMP_BYTES}x}"


# ── Detection ───────────────────────────────────────────────────────────────────────────

MAX_SCANNED_COUNT: Final = (
    10_000  # memories that one process compares for an introspection: their claims fill 70 MB
)
MAX_READ_COUNT: Final = 1_500  # of them, read for what they claim in one scan: some 0.25 s
FIRST_READ_COUNT: Final = 5_000  # memories of a facet that are read before its first check: some 0.6 s
MAX_CONFIRMED_COUNT: Final = 1_000  # suspected pairs that one scan compares, and reads: some 0.6 s
LATER_READ_COUNT: Final = 8  # older memories that are read before each later check: some 1 ms
_SLICE_COUNT: Final = 8  # memories read or compared before other tasks get their turn: some 3 ms


@dataclass(slots=True)
class _FacetReading:
    """How far a facet was read."""

    unread: list[str]  # paths, the newest last
    count: int = 0  # of memories that were read


class ContradictionDetector(CachedIndex):
    """Finds what a new memory contradicts; the palace reports every change here.

    The keys of what was read, and the outcome of what was compared, lie in the snapshot: a process reads a memory only
    to compare it with one that is new. Forgotten memories are dropped one by one, so nothing of them is saved.

    Args:
        palace: the memories.
        ledger: where they lie.
        reader: has the snapshot.
    """

    def __init__(self, palace: Palace, ledger: Ledger, reader: Reader) -> None:
        super().__init__("claims", made_of("claims", RULES_VERSION), ledger, reader)
        self._palace, self._catalog = palace, palace.catalog
        self._claims = ClaimIndex()
        self._is_restored = False
        self._facets: dict[tuple[str, str], _FacetReading] = {}
        self._reading = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._claims)

    async def catch_up(self) -> None:
        """Drop what was forgotten meanwhile."""
        await self._palace.refresh()

    async def dump(self) -> Sequence[bytes | memoryview]:
        """What is known of the memories that exist."""
        await self.catch_up()
        return self.dumped()

    def dumped(self) -> Sequence[bytes | memoryview]:
        """What is known, as bytes."""
        return [self._claims.dump()]

    async def _restore(self) -> None:
        """Take over what the last process knew; call it before anything is read."""
        async with self._reading:
            if self._is_restored:
                return
            if saved := await self.saved():
                with suppress(ValueError, TypeError):  # a cache: what is lacking is read again
                    self._claims = ClaimIndex.restored(
                        saved, {memory.path: memory for memory in self._catalog}
                    )
            self._is_restored = True

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        if memory.path in self._claims or (memory.domain, memory.facet) in self._facets:
            self._put(memory)

    def drop(self, path: str) -> None:
        """A memory is gone."""
        self._claims.drop(path)

    def put_back(self, path: str) -> None:
        """What was put for a path was not written: what the palace holds there counts again."""
        memory = self._catalog.get(path)
        if memory is None:
            self.drop(path)
        else:
            self.put(memory)

    async def check(self, memory: PersonaMemory) -> list[Contradiction]:
        """The contradictions between a new memory and the other memories of its facet that were read, surest first."""
        await self._read_facet(memory.domain, memory.facet)
        return self._claims.check(memory)

    def check_again(self, memory: PersonaMemory, others: Iterable[PersonaMemory]) -> list[Contradiction]:
        """The contradictions between a new memory and some others of its facet, dismissed or not."""
        found = (compare(_open(other), _open(memory)) for other in others)
        return [contradiction for contradiction in found if contradiction is not None]

    def claims_the_same(self, one: PersonaMemory, other: PersonaMemory) -> bool:
        """Whether two texts of a memory make the same claims."""
        return one.value == other.value or claim_the_same(read(one), read(other))

    async def scan(
        self,
        memories: Iterable[PersonaMemory],
        suspected: Iterable[tuple[str, str]],
        limit: int,
    ) -> ContradictionScan:
        """The contradictions within the palace.

        A memory that was compared before is not compared again.

        Other tasks get their turn meanwhile. The newest `MAX_SCANNED_COUNT` memories are compared, of which
        `MAX_READ_COUNT` are read in one scan, and `MAX_CONFIRMED_COUNT` suspected pairs; the next scan goes on.

        Args:
            memories: all memories of the catalog; superseded ones contradict nothing.
            suspected: the paths of the earlier and the later memory of each suspicion that counts.
            limit: contradictions to show, surest first.
        """
        await self._restore()
        current = [memory for memory in memories if not memory.superseded_by]
        newest = nlargest(MAX_SCANNED_COUNT, current, key=lambda memory: memory.written_at)
        unread = [memory for memory in newest if memory.path not in self._claims]
        for number, memory in enumerate(unread[:MAX_READ_COUNT]):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            if self._catalog.get(memory.path) is memory:
                self._put(memory)
        for number, _ in enumerate(self._claims.scan()):
            self.unsaved += 1
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
        scan = self._claims.pairs()
        is_whole = len(unread) <= MAX_READ_COUNT and len(newest) == len(current)
        found = {(item.old, item.new): item for item in scan.contradictions}
        is_whole &= await self._confirm(suspected, found)
        ranked = sorted(found.values(), key=lambda item: (-item.confidence, item.old, item.new))
        return ContradictionScan(tuple(ranked[:limit]), scan.bounded or not is_whole or len(ranked) > limit)

    def found(self) -> Sequence[Contradiction]:
        """The contradictions that scans have found, surest first; at most `MAX_SUSPICIONS_COUNT`."""
        return self._claims.pairs(MAX_SUSPICIONS_COUNT).contradictions

    async def _confirm(
        self, suspected: Iterable[tuple[str, str]], found: dict[tuple[str, str], Contradiction]
    ) -> bool:
        """Add the contradictions of suspected pairs; returns whether all were compared, now or before."""
        left, is_whole = MAX_CONFIRMED_COUNT, True
        for earlier, later in suspected:
            old, new = self._catalog.get(earlier), self._catalog.get(later)
            if (earlier, later) in found or old is None or new is None:
                continue
            known = self._claims.found_between(earlier, later)
            if known is None and left:
                known, left = self._claims.confirm(old, new), left - 1
                self.unsaved += 1
                if left % _SLICE_COUNT == 0:
                    await asyncio.sleep(0)
            if known is None:
                is_whole = False
            else:
                found[earlier, later] = known
        return is_whole

    def compared(self, old: PersonaMemory, new: PersonaMemory) -> list[Contradiction]:
        """The contradiction of a memory against an earlier one; at most one."""
        found = compare(old, new)
        return [] if found is None else [found]

    def _put(self, memory: PersonaMemory) -> None:
        self.unsaved += self._claims.put(memory)

    async def _read_facet(self, domain: str, facet: str) -> None:
        """Read what memories of a facet claim: at first the newest `FIRST_READ_COUNT`, then some older ones each time."""
        await self._restore()
        async with self._reading:
            if (domain, facet) not in self._facets:
                known = sorted(self._catalog.of(domain, facet), key=lambda memory: memory.written_at)
                self._facets[domain, facet] = _FacetReading([memory.path for memory in known])
            reading = self._facets[domain, facet]
            count = max(LATER_READ_COUNT, FIRST_READ_COUNT - reading.count)
            for number in range(min(count, len(reading.unread))):
                if number and number % _SLICE_COUNT == 0:
                    await asyncio.sleep(0)
                memory = self._catalog.get(reading.unread.pop())
                reading.count += 1
                if memory is not None:
                    self._put(memory)


def _open(memory: PersonaMemory) -> PersonaMemory:
    """A memory for which nothing is dismissed."""
    return memory.changed(dismissed=())
