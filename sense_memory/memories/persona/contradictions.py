"""Which memories of the palace a new memory contradicts; the rules are in `palace.contradictions`.

Reading the claims of a memory costs far more than storing it. So a facet is read when a memory of it is first
written, and a memory is read again only when its text or its contradictions change. Introspection uses the same
readings, and compares a memory with the others once.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from heapq import nlargest
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from sense_memory.errors import SenseMemoryError
from sense_memory.limits import EMBED_BATCH_COUNT, MAX_SUSPICIONS_COUNT
from sense_memory.nostr import address
from sense_memory.palace.connections import near_pairs
from sense_memory.palace.contradictions import claims as claimed
from sense_memory.palace.contradictions.claim_index import ClaimIndex, ContradictionScan
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.contradictions.phrases import Phrases
from sense_memory.palace.search import STAMP_BYTES, item_of, stamp_of
from sense_memory.records.caches import MemoryVectors
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.index import texts_of
from sense_memory.search.ranking import MIN_SIMILAR
from sense_memory.search.vectors import VectorIndex


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.models import PersonaMemory

    Opening: TypeAlias = Callable[[], Awaitable[EmbedderClient | None]]
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradictions.detection import Contradiction


# ── Nearness in meaning ─────────────────────────────────────────────────────────────────
# The embedder is asked before a write, never during one, and for `LOOK_SECONDS` at most: where it is slow, down or
# not installed, memories are compared by their words alone. While a call that took too long is still running, the
# embedder is not asked again. Vectors come from the shared vector cache, and new vectors go there.

LOOK_SECONDS: Final = 2.0  # a write waits for the embedder at most this long
NEAREST_COUNT: Final = 8  # memories near in meaning that are compared as well
MAX_PIECES_COUNT: Final = 8  # a text of more pieces is compared by its words alone
_ROUNDS_COUNT: Final = 2  # calls for phrases; the answers to the first decide what the second asks


class Nearness:
    """Which memories of a facet are near in meaning to a new one, and which phrases mean the same.

    Args:
        embedding: opens the embedder if it is not open; gives None where it cannot be opened.

    Attributes:
        phrases: the vectors of the phrases asked for so far.
    """

    def __init__(self, embedding: Opening) -> None:
        self._embedding: Opening | None = embedding
        self._facets: dict[tuple[str, str], _FacetVectors] = {}
        self._fresh: dict[str, MemoryVectors] = {}  # by path: of memories that are about to be written
        self._looks: set[asyncio.Task[list[str]]] = set()
        self._turn, self._is_late = asyncio.Lock(), False
        self._paired: tuple[bytes, list[tuple[str, str, float]]] = (
            b"",
            [],
        )  # what was compared last, and its pairs
        self.phrases = Phrases()

    async def look(
        self, memory: PersonaMemory, others: Callable[[], Iterable[PersonaMemory]], claims: ClaimIndex
    ) -> list[str]:
        """The paths of the memories of a facet that are nearest in meaning to a new one, nearest first.

        Afterwards `phrases` holds the vectors that comparing with those memories needs. Takes `LOOK_SECONDS` at most.

        Args:
            memory: the new memory.
            others: gives all memories of its facet; called once for each facet.
            claims: the claims of the same memories.
        """
        self._is_late = self._is_late and bool(self._looks)
        if self._embedding is None or self._is_late:
            return []
        look = asyncio.create_task(self._look(memory, others, claims))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)
        done, _ = await asyncio.wait({look}, timeout=LOOK_SECONDS)
        if not done:
            self._is_late = True
            return []
        # An error of the embedder must not keep a memory from being written; a search reports the error.
        return [] if look.cancelled() or look.exception() is not None else look.result()

    async def keep(self, path: str) -> None:
        """Keep the vectors of a memory that `look` was asked for, because the memory has been written now."""
        read = self._fresh.get(path)
        if read is not None and (embedding := await self._opened()) is not None:
            await embedding.store({_slot(path): read})

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        facet = self._facets.get((memory.domain, memory.facet))
        if facet is not None and facet.put(memory) and (read := self._fresh.pop(memory.path, None)):
            facet.fill({memory.path: read})

    def drop(self, path: str) -> None:
        """A memory is gone."""
        domain, name, _ = path.split("/", 2)
        if (facet := self._facets.get((domain, name))) is not None:
            facet.drop(path)

    def close(self) -> None:
        """Cancel the calls of the embedder that are running."""
        for look in self._looks:
            look.cancel()

    async def pairs(self, memories: Sequence[PersonaMemory]) -> list[tuple[str, str, float]]:
        """The pairs of memories with vectors that are near in meaning; see `near_pairs`. The last answer is kept."""
        embedding = await self._opened()
        if embedding is None:
            return []
        rows = {path: _row(read) for path, read in (await _kept(embedding, memories)).items()}
        length = max(map(len, rows.values()), default=0)
        paths = sorted(path for path in rows if len(rows[path]) == length)
        table = np.array([rows[path] for path in paths], np.float32)
        compared = sha256("\n".join(paths).encode("utf-8", "surrogatepass") + table.tobytes()).digest()
        if compared != self._paired[0]:
            self._paired = (compared, await asyncio.to_thread(near_pairs, paths, table))
        return self._paired[1]

    # ── One look ────────────────────────────────────────────────────────────────────────

    async def _look(
        self, memory: PersonaMemory, others: Callable[[], Iterable[PersonaMemory]], claims: ClaimIndex
    ) -> list[str]:
        async with self._turn:  # two writes to one facet would read the facet twice
            embedding = await self._opened()
            if embedding is None or len(_texts(memory)) > MAX_PIECES_COUNT:
                return []
            facet = self._facets.get((memory.domain, memory.facet))
            if facet is None:
                facet = self._facets[memory.domain, memory.facet] = _FacetVectors(others())
                facet.fill(await _kept(embedding, facet.unread()))
            row = await self._read(embedding, facet, memory)
            if row is None:
                return []
            near = facet.nearest(row, memory.path)
            await self._learn(embedding, memory, near, claims)
            return near

    async def _read(
        self, embedding: EmbedderClient, facet: _FacetVectors, memory: PersonaMemory
    ) -> NDArray[np.float32] | None:
        """Embed a memory, together with some memories of its facet that have no vectors yet."""
        batch = [other for other in facet.unread(EMBED_BATCH_COUNT) if other.path != memory.path]
        reads = await _embedded(embedding, [memory, *batch])
        if reads is None:
            return None
        own = reads.pop(memory.path)
        if len(self._fresh) > EMBED_BATCH_COUNT:
            self._fresh.clear()  # their memories were never written
        self._fresh[memory.path] = own
        if reads:
            facet.fill(reads)
            await embedding.store({_slot(path): read for path, read in reads.items()})
        return _row(own)

    async def _learn(
        self, embedding: EmbedderClient, memory: PersonaMemory, near: Sequence[str], claims: ClaimIndex
    ) -> None:
        """Embed the phrases that comparing a memory with those near it needs."""
        for _ in range(_ROUNDS_COUNT):
            claims.compared(memory, near, self.phrases.alike)
            asked = self.phrases.asked()
            rows = await embedding.rows(asked) if asked else None
            if rows is None:
                break
            self.phrases.learn(asked, rows)

    async def _opened(self) -> EmbedderClient | None:
        if self._embedding is None:
            return None
        try:
            return await self._embedding()
        except SenseMemoryError:
            self._embedding = None  # not installed, damaged, not in the plan: a search reports the error
            return None


class _FacetVectors:
    """The vectors of the memories of one facet.

    Args:
        memories: all memories of the facet.
    """

    def __init__(self, memories: Iterable[PersonaMemory]) -> None:
        self._unread = {memory.path: memory for memory in memories}
        self._stamps: dict[str, str] = {}  # by path: the stamp of the text that the vectors are of
        self._index: VectorIndex | None = None  # until the dimension is known

    def put(self, memory: PersonaMemory) -> bool:
        """Add or replace a memory; returns whether it needs vectors."""
        if self._stamps.get(memory.path) == _stamp(memory):
            return False
        self.drop(memory.path)
        self._unread[memory.path] = memory
        return True

    def drop(self, path: str) -> None:
        """A memory is gone."""
        self._unread.pop(path, None)
        if self._stamps.pop(path, None) is not None and self._index is not None:
            self._index.drop(path)

    def unread(self, count: int | None = None) -> list[PersonaMemory]:
        """The memories without vectors, the newest first; `count` at most."""
        newest = sorted(self._unread.values(), key=lambda memory: (-memory.created_at, memory.path))
        return newest[:count]

    def fill(self, reads: Mapping[str, MemoryVectors]) -> None:
        """Store vectors by path, except those of memories that have changed in the meantime."""
        for path, read in reads.items():
            memory = self._unread.get(path)
            if memory is None or _stamp(memory) != read.stamp:
                continue
            row = _row(read)
            if self._index is None:
                self._index = VectorIndex(len(row))
            if len(row) == self._index.dimension:
                self._index.put(path, row)
                self._stamps[path] = read.stamp
                del self._unread[path]

    def nearest(self, row: NDArray[np.float32], but: str) -> list[str]:
        """The paths of the memories nearest to a vector, nearest first, without `but`."""
        if self._index is None or self._index.dimension != len(row) or not row.any():
            return []
        found = self._index.search(row, NEAREST_COUNT + 1)
        near = zip(found.ids, found.similarities.tolist(), strict=True)
        return [path for path, cosine in near if path != but and cosine >= MIN_SIMILAR][:NEAREST_COUNT]


async def _kept(embedding: EmbedderClient, memories: Sequence[PersonaMemory]) -> dict[str, MemoryVectors]:
    """The cached vectors of some memories, by path; those of an older text are left out."""
    kept = await embedding.cached({_slot(memory.path): _stamp(memory) for memory in memories})
    return {memory.path: kept[slot] for memory in memories if (slot := _slot(memory.path)) in kept}


async def _embedded(
    embedding: EmbedderClient, memories: Sequence[PersonaMemory]
) -> dict[str, MemoryVectors] | None:
    """The vectors of some memories, by path, from one call of the embedder; None where the call fails."""
    rows = await embedding.read({memory.path: _texts(memory) for memory in memories})
    if rows is None:
        return None
    return {memory.path: MemoryVectors(_stamp(memory), rows[memory.path]) for memory in memories}


def _texts(memory: PersonaMemory) -> list[str]:
    """The texts to embed for a memory, the same that search embeds."""
    return texts_of(item_of(memory))


def _row(read: MemoryVectors) -> NDArray[np.float32]:
    """One vector for a memory: the normalised sum of those of its pieces."""
    found: NDArray[np.float32] = normalised(read.rows.sum(0, keepdims=True))[0]
    return found


def _stamp(memory: PersonaMemory) -> str:
    """The text state that vectors belong to, as search writes it."""
    return f"{stamp_of(memory):0{2 * STAMP_BYTES}x}"


def _slot(path: str) -> str:
    return address.d_tag(address.PERSONA + path)


MAX_SCANNED_COUNT: Final = (
    10_000  # memories that one process compares for an introspection: their claims fill 70 MB
)
MAX_READ_COUNT: Final = 5_000  # of them, read for what they claim in one scan: some 0.4 s
_SLICE_COUNT: Final = 8  # memories read or compared before other tasks get their turn: some 3 ms


class ContradictionDetector:
    """Finds what a new memory contradicts; the palace reports every change here.

    Args:
        catalog: the memories.
        nearness: finds memories near in meaning; by default only words are compared.
    """

    def __init__(self, catalog: Catalog, nearness: Nearness | None = None) -> None:
        self._catalog, self._nearness = catalog, nearness
        self._claims = ClaimIndex()
        self._whole: set[tuple[str, str]] = set()  # the facets of which every memory was read
        self._read: dict[str, PersonaMemory] = {}  # by path: the memory whose claims were read
        self._suspicions: dict[tuple[str, str], Contradiction] = {}

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        if self._nearness is not None:
            self._nearness.put(memory)
        if memory.path in self._read or (memory.domain, memory.facet) in self._whole:
            self._put(memory)

    def drop(self, path: str) -> None:
        """A memory is gone."""
        if self._nearness is not None:
            self._nearness.drop(path)
        if self._read.pop(path, None) is not None:
            self._claims.drop(path)

    def put_back(self, path: str) -> None:
        """What was put for a path was not written: what the palace holds there counts again."""
        memory = self._catalog.get(path)
        if memory is None:
            self.drop(path)
        else:
            self.put(memory)

    async def look(self, memory: PersonaMemory) -> list[str]:
        """The paths of memories near in meaning to a new one, for `check`; none without an embedder."""
        facet = memory.domain, memory.facet
        claims = self._claims_beside(memory)
        if self._nearness is None or not claims.has_other(memory):
            return []  # there is nothing to compare with
        return await self._nearness.look(memory, lambda: self._catalog.of(*facet), claims)

    def check(self, memory: PersonaMemory, near: Sequence[str] = ()) -> list[Contradiction]:
        """The contradictions between a new memory and the other memories of its facet, surest first.

        Args:
            memory: the new memory.
            near: the paths that `look` gave.
        """
        alike = None if self._nearness is None or not near else self._nearness.phrases.alike
        return self._claims_beside(memory).check(memory, near, alike)

    def check_again(self, memory: PersonaMemory, paths: Iterable[str]) -> list[Contradiction]:
        """The contradictions between a new memory and some others of its facet, dismissed or not."""
        others = self._catalog.all_of(paths)
        found = (compare(_open(other), _open(memory)) for other in others)
        return [contradiction for contradiction in found if contradiction is not None]

    def claims_the_same(self, one: PersonaMemory, other: PersonaMemory) -> bool:
        """Whether two texts of a memory make the same claims."""
        return one.value == other.value or claimed.read(one).claims == claimed.read(other).claims

    async def written(self, path: str) -> None:
        """Keep the vectors that `look` made for a memory, because the memory is in the ledger now."""
        if self._nearness is not None:
            await self._nearness.keep(path)

    async def scan(self, memories: Iterable[PersonaMemory], limit: int) -> ContradictionScan:
        """The contradictions within the palace, and those that were suspected since this store was opened.

        A memory that was compared before is not compared again.

        Other tasks get their turn meanwhile. The newest `MAX_SCANNED_COUNT` memories are compared, of which
        `MAX_READ_COUNT` are read in one scan; the next scan goes on.

        Args:
            memories: all memories of the catalog; superseded ones contradict nothing.
            limit: contradictions to show, surest first.
        """
        current = [memory for memory in memories if not memory.superseded_by]
        newest = nlargest(MAX_SCANNED_COUNT, current, key=lambda memory: memory.created_at)
        unread = [memory for memory in newest if memory.path not in self._read]
        for number, memory in enumerate(unread[:MAX_READ_COUNT]):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            if self._catalog.get(memory.path) is memory:
                self._put(memory)
        for number, _ in enumerate(self._claims.scan()):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
        scan = self._claims.pairs(limit)
        is_whole = len(unread) <= MAX_READ_COUNT and len(newest) == len(current)
        found = self._suspicions | {(item.old, item.new): item for item in scan.contradictions}
        ranked = sorted(found.values(), key=lambda item: (-item.confidence, item.old, item.new))
        return ContradictionScan(tuple(ranked), scan.bounded or not is_whole)

    def _put(self, memory: PersonaMemory) -> None:
        if not _says_the_same(self._read.get(memory.path), memory):
            self._claims.put(memory)
            self._read[memory.path] = memory

    def _claims_beside(self, memory: PersonaMemory) -> ClaimIndex:
        """The claims of the palace, with those of every memory of one memory's facet."""
        facet = memory.domain, memory.facet
        if facet not in self._whole:
            self._whole.add(facet)
            for other in self._catalog.of(*facet):
                self._put(other)
        return self._claims

    def suspect(self, found: Iterable[Contradiction]) -> None:
        """Keep contradictions that are too doubtful to act on, for the next introspection."""
        for contradiction in found:
            self._suspicions[contradiction.old, contradiction.new] = contradiction
        while len(self._suspicions) > MAX_SUSPICIONS_COUNT:
            del self._suspicions[next(iter(self._suspicions))]


def _open(memory: PersonaMemory) -> PersonaMemory:
    """A memory for which nothing is dismissed."""
    return memory.changed(dismissed=())


def _says_the_same(known: PersonaMemory | None, memory: PersonaMemory) -> bool:
    return known is not None and all(
        getattr(known, name) == getattr(memory, name)
        for name in ("value", "themes", "contradicts", "superseded_by", "conflict_of", "dismissed")
    )
