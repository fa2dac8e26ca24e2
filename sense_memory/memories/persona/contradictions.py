"""The seam to `palace.contradictions.detection`: what a new memory contradicts, facet by facet, as facets are asked for.

Reading a memory for its claims costs far more than keeping it, so only facets that are written to are read,
and only once: an access or a link changes no claim.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from sense_memory.errors import SenseMemoryError
from sense_memory.limits import EMBED_BATCH_COUNT, MAX_SUSPICIONS_COUNT
from sense_memory.memories.search_items import item_of_persona, stamp_of
from sense_memory.nostr import address
from sense_memory.palace.contradictions.detection import ClaimIndex
from sense_memory.palace.contradictions.phrases import Phrases
from sense_memory.palace.neighbours import near_pairs
from sense_memory.records.vector_cache import Read
from sense_memory.search.context import embedding_texts, pieces
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.ranking import MIN_SIMILAR
from sense_memory.search.vectors import VectorIndex


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.memories.embedding_jobs import Embedding
    from sense_memory.models import PersonaMemory

    Opening: TypeAlias = Callable[[], Awaitable[Embedding | None]]
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradictions.detection import Contradiction
    # MERGED


# ── Nearness ────────────────────────────────────────────────────────────────────────────
# What the memories of a facet mean beside what they say: which are near a new one, which phrases mean the same.
#
# An embedder is asked before anything is written, never inside a write, and nobody waits long for it: where it is
# slow, down or not installed, memories are compared by their words. While a call that took too long goes on, it is
# not asked again. What was made of memories before is not made again; what is made here is kept for others.

LOOK_SECONDS: Final = 2.0  # that a write waits at most
NEAREST_COUNT: Final = 8  # memories that meaning adds to those compared
MAX_PIECES_COUNT: Final = 8  # of a longer text nobody asks what it means: it is no short note
_ROUNDS_COUNT: Final = 2  # calls for phrases; the second for what only answers to the first make worth asking


class Nearness:
    """The meaning of the memories of some facets.

    Args:
        embedding: opens the embedder, or has it open; gives None where there is none after all.

    Attributes:
        phrases: what phrases mean, as far as it was asked for.
    """

    def __init__(self, embedding: Opening) -> None:
        self._embedding: Opening | None = embedding
        self._facets: dict[tuple[str, str], _Facet] = {}
        self._fresh: dict[str, Read] = {}  # by path: of memories that are about to be written
        self._looks: set[asyncio.Task[list[str]]] = set()
        self._turn, self._is_late = asyncio.Lock(), False
        self.phrases = Phrases()

    async def look(
        self, memory: PersonaMemory, others: Callable[[], Iterable[PersonaMemory]], claims: ClaimIndex
    ) -> list[str]:
        """The memories of a facet that mean most nearly what a new one means, nearest first, as paths.

        After that, `phrases` knows what there is to know for comparing with them. Takes `LOOK_SECONDS` at most.

        Args:
            memory: the new one.
            others: gives all of its facet; called once for each facet.
            claims: the same, read for what they claim.
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
        # Whatever an embedder raises, a memory is remembered; who searches is told.
        return [] if look.cancelled() or look.exception() is not None else look.result()

    async def keep(self, path: str) -> None:
        """A memory that was looked at has been written: what was made of it is kept."""
        read = self._fresh.get(path)
        if read is not None and (embedding := await self._opened()) is not None:
            await embedding.keep({_slot(path): read})

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
        """Look no further."""
        for look in self._looks:
            look.cancel()

    async def pairs(self, memories: Sequence[PersonaMemory]) -> list[tuple[str, str, float]]:
        """The pairs that mean nearly the same among memories that an embedder has read; see `near_pairs`."""
        embedding = await self._opened()
        if embedding is None:
            return []
        rows = {path: _row(read) for path, read in (await _kept(embedding, memories)).items()}
        length = max(map(len, rows.values()), default=0)
        paths = [path for path in rows if len(rows[path]) == length]
        return await asyncio.to_thread(
            near_pairs, paths, np.array([rows[path] for path in paths], np.float32)
        )

    # ── One look ────────────────────────────────────────────────────────────────────────

    async def _look(
        self, memory: PersonaMemory, others: Callable[[], Iterable[PersonaMemory]], claims: ClaimIndex
    ) -> list[str]:
        async with self._turn:  # two of one facet would have it read twice
            embedding = await self._opened()
            if embedding is None or len(_texts(memory)) > MAX_PIECES_COUNT:
                return []
            facet = self._facets.get((memory.domain, memory.facet))
            if facet is None:
                facet = self._facets[memory.domain, memory.facet] = _Facet(others())
                facet.fill(await _kept(embedding, facet.unread()))
            row = await self._read(embedding, facet, memory)
            if row is None:
                return []
            near = facet.nearest(row, memory.path)
            await self._learn(embedding, memory, near, claims)
            return near

    async def _read(
        self, embedding: Embedding, facet: _Facet, memory: PersonaMemory
    ) -> NDArray[np.float32] | None:
        """Have the embedder read a memory, and some of its facet that it has not read yet."""
        batch = [other for other in facet.unread(EMBED_BATCH_COUNT) if other.path != memory.path]
        reads = await _embedded(embedding, [memory, *batch])
        if reads is None:
            return None
        own = reads.pop(memory.path)
        if len(self._fresh) > EMBED_BATCH_COUNT:
            self._fresh.clear()  # what was to be written and was not
        self._fresh[memory.path] = own
        if reads:
            facet.fill(reads)
            await embedding.keep({_slot(path): read for path, read in reads.items()})
        return _row(own)

    async def _learn(
        self, embedding: Embedding, memory: PersonaMemory, near: Sequence[str], claims: ClaimIndex
    ) -> None:
        """Have the embedder read the phrases that comparing a memory with those near it will ask about."""
        for _ in range(_ROUNDS_COUNT):
            claims.compared(memory, near, self.phrases.alike)
            asked = self.phrases.asked()
            rows = await embedding.rows(asked) if asked else None
            if rows is None:
                break
            self.phrases.learn(asked, rows)

    async def _opened(self) -> Embedding | None:
        if self._embedding is None:
            return None
        try:
            return await self._embedding()
        except SenseMemoryError:
            self._embedding = None  # not installed, damaged, not in the plan: who searches is told
            return None


class _Facet:
    """The vectors of the memories of one facet.

    Args:
        memories: all of them.
    """

    def __init__(self, memories: Iterable[PersonaMemory]) -> None:
        self._unread = {memory.path: memory for memory in memories}
        self._stamps: dict[str, str] = {}  # by path: of the states that there are vectors of
        self._index: VectorIndex | None = None  # until the dimension is known

    def put(self, memory: PersonaMemory) -> bool:
        """A memory is new, or changed; whether it has no vector now."""
        if self._stamps.get(memory.path) == stamp_of(memory):
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
        """The memories without a vector, or so many of them, the newest."""
        newest = sorted(self._unread.values(), key=lambda memory: (-memory.created_at, memory.path))
        return newest[:count]

    def fill(self, reads: Mapping[str, Read]) -> None:
        """Give memories what was made of them, by path, unless they have changed meanwhile."""
        for path, read in reads.items():
            memory = self._unread.get(path)
            if memory is None or stamp_of(memory) != read.stamp:
                continue
            row = _row(read)
            if self._index is None:
                self._index = VectorIndex(len(row))
            if len(row) == self._index.dimension:
                self._index.put(path, row)
                self._stamps[path] = read.stamp
                del self._unread[path]

    def nearest(self, row: NDArray[np.float32], but: str) -> list[str]:
        """The paths of the nearest memories but one, nearest first."""
        if self._index is None or self._index.dimension != len(row) or not row.any():
            return []
        found = self._index.search(row, NEAREST_COUNT + 1)
        near = zip(found.ids, found.similarities.tolist(), strict=True)
        return [path for path, cosine in near if path != but and cosine >= MIN_SIMILAR][:NEAREST_COUNT]


async def _kept(embedding: Embedding, memories: Sequence[PersonaMemory]) -> dict[str, Read]:
    """What was made before of some memories as they are, by path."""
    kept = await embedding.kept({_slot(memory.path): stamp_of(memory) for memory in memories})
    return {memory.path: kept[slot] for memory in memories if (slot := _slot(memory.path)) in kept}


async def _embedded(embedding: Embedding, memories: Sequence[PersonaMemory]) -> dict[str, Read] | None:
    """What the embedder makes of some memories, by path, in one call; None where it fails."""
    rows = await embedding.read({memory.path: _texts(memory) for memory in memories})
    if rows is None:
        return None
    return {memory.path: Read(stamp_of(memory), rows[memory.path]) for memory in memories}


def _texts(memory: PersonaMemory) -> list[str]:
    """What an embedder is given for a memory, just as the search over everything has it."""
    return embedding_texts(pieces(item_of_persona(memory).text))


def _row(read: Read) -> NDArray[np.float32]:
    """One vector for a memory of several pieces."""
    found: NDArray[np.float32] = normalised(read.rows.sum(0, keepdims=True))[0]
    return found


def _slot(path: str) -> str:
    return address.d_tag(address.PERSONA + path)


class Contradictions:
    """Follows a palace.

    Args:
        catalog: its memories.
        nearness: what they mean; by default only their words count.
    """

    def __init__(self, catalog: Catalog, nearness: Nearness | None = None) -> None:
        self._catalog, self._nearness = catalog, nearness
        self._facets: dict[tuple[str, str], ClaimIndex] = {}
        self._read: dict[str, PersonaMemory] = {}  # by path, as read for their claims
        self._suspicions: dict[tuple[str, str], Contradiction] = {}

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        if self._nearness is not None:
            self._nearness.put(memory)
        claims = self._facets.get((memory.domain, memory.facet))
        if claims is not None and not _says_the_same(self._read.get(memory.path), memory):
            claims.put(memory)
            self._read[memory.path] = memory

    def drop(self, path: str) -> None:
        """A memory is gone."""
        if self._nearness is not None:
            self._nearness.drop(path)
        known = self._read.pop(path, None)
        if known is not None:
            self._facets[known.domain, known.facet].drop(path)

    async def look(self, memory: PersonaMemory) -> list[str]:
        """The memories that mean nearly what a new one means, for `check`; none where there is no embedder."""
        facet = memory.domain, memory.facet
        claims = self._claims(memory)
        if self._nearness is None or len(claims) <= (memory.path in claims):
            return []  # nothing to compare it with
        return await self._nearness.look(memory, lambda: self._catalog.of(*facet), claims)

    def check(self, memory: PersonaMemory, near: Sequence[str] = ()) -> list[Contradiction]:
        """What a memory contradicts among those of its facet, surest first.

        Args:
            memory: the new one.
            near: what `look` gave for it.
        """
        alike = None if self._nearness is None or not near else self._nearness.phrases.alike
        return self._claims(memory).check(memory, near, alike)

    async def written(self, path: str) -> None:
        """A memory for which `look` was asked is in the ledger now."""
        if self._nearness is not None:
            await self._nearness.keep(path)

    def _claims(self, memory: PersonaMemory) -> ClaimIndex:
        facet = memory.domain, memory.facet
        if facet not in self._facets:
            self._facets[facet] = ClaimIndex()
            for other in self._catalog.of(*facet):
                self.put(other)
        return self._facets[facet]

    def suspect(self, found: Iterable[Contradiction]) -> None:
        """Keep what is too doubtful to act on, for the next introspection."""
        for contradiction in found:
            self._suspicions[contradiction.old, contradiction.new] = contradiction
        while len(self._suspicions) > MAX_SUSPICIONS_COUNT:
            del self._suspicions[next(iter(self._suspicions))]

    def suspicions(self) -> list[Contradiction]:
        """What was suspected since this store was opened, surest first."""
        return sorted(
            self._suspicions.values(),
            key=lambda contradiction: (-contradiction.confidence, contradiction.old),
        )


def _says_the_same(known: PersonaMemory | None, memory: PersonaMemory) -> bool:
    return known is not None and all(
        getattr(known, name) == getattr(memory, name)
        for name in ("value", "themes", "contradicts", "superseded_by", "conflict_of", "dismissed")
    )
