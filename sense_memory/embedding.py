"""An embedder, asked from an event loop: opened when it is first needed, run in a thread, left alone when it fails.

Nothing waits for an embedder that is down: after a failure it is not asked again for a while, and whoever asks
gets None and goes on with words. Texts go to it and nowhere else; which one that is, its owner has chosen.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from sense_memory.errors import EmbedderError, SenseMemoryError
from sense_memory.limits import EMBEDDER_REST_SECONDS


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.search.embedder import Embedder
    from sense_memory.vault import Read, Vault

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a search knows by words only, although there is an embedder; and what it does not know yet.

    Attributes:
        count: memories that the embedder has not read yet.
        trouble: why it failed when it was last asked; None if it did not.
        unread: memories that are not in the index yet, so that no search finds them: it is built when one is first
            asked for, some ten thousand memories in a second.
    """

    count: int
    trouble: EmbedderError | None
    unread: int = 0


@dataclass(frozen=True, slots=True)
class EmbedReport(Gaps):
    """What `MemoryStore.embed` did, and what is left.

    Attributes:
        embedded: memories that the embedder has read now.
        taken: memories whose vectors another device of this key has shared, so that nobody had to read them.
        shared: memories whose vectors were written as events.
        too_large: memories whose vectors do not fit an event: long texts, which have many. They are searched by
            meaning here all the same; another device has to embed them itself.
        unshared: memories whose vectors still are to be shared: the version there is from a clock far ahead, or
            from a newer sense-memory.
        forgotten: events with the vectors of memories that are forgotten; they are forgotten too now.
        model: the embedder's name; empty where there is none.
    """

    embedded: int = 0
    taken: int = 0
    shared: int = 0
    too_large: int = 0
    unshared: int = 0
    forgotten: int = 0
    model: str = field(default="", compare=False)


class Embedding:
    """An embedder in use.

    Args:
        embedder: which one.
        clock: seconds of any clock that never goes back.
        vault: keeps what it made of memories.

    Attributes:
        embedder, clock, vault: as given.
        trouble: why it failed when it was last asked; None if it did not.
    """

    def __init__(self, embedder: Embedder, clock: Callable[[], float], vault: Vault) -> None:
        self.embedder, self.vault = embedder, vault
        self.trouble: EmbedderError | None = None
        self.clock, self._rests_until = clock, float("-inf")
        self._dimension: int | None = None  # until it is known
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """Of the model."""
        return self.embedder.name

    async def rows(self, texts: Sequence[str], *, again: bool = False) -> NDArray[np.float32] | None:
        """A row for each text; None, with `trouble`, where it fails or has just failed.

        Args:
            texts: what to embed.
            again: ask even if it has just failed.
        """
        async with self._turn:
            return await self._asked(lambda: self._embed(texts), again=again)

    async def dimension(self, *, again: bool = False) -> int | None:
        """How many numbers each of its rows has; None, with `trouble`, as `rows`."""
        async with self._turn:
            if self._dimension is None:
                from sense_memory.search.embedding import dimension_of

                self._dimension = await self._asked(lambda: dimension_of(self.embedder), again=again)
            return self._dimension

    async def read(
        self, texts: Mapping[str, Sequence[str]], *, again: bool = False
    ) -> dict[str, NDArray[np.float32]] | None:
        """The rows of some memories, each of several texts, by name and in one call; None as `rows`."""
        rows = await self.rows([text for parts in texts.values() for text in parts], again=again)
        if rows is None:
            return None
        ends = list(accumulate(map(len, texts.values())))
        return {name: rows[end - len(texts[name]) : end] for name, end in zip(texts, ends, strict=True)}

    async def kept(self, stamps: Mapping[str, str]) -> Mapping[str, Read]:
        """What was made before of some memories, given as slot and stamp, in just these states; by slot."""
        try:
            return await self.vault.find(stamps)
        except SenseMemoryError:  # a cache: it is made anew
            return {}

    async def keep(self, reads: Mapping[str, Read]) -> None:
        """Keep what was made of some memories, by slot, if that is possible."""
        with suppress(SenseMemoryError):
            await self.vault.keep(reads)

    async def _asked(self, question: Callable[[], _T], *, again: bool) -> _T | None:
        if not again and self.clock() < self._rests_until:
            return None
        try:
            found = await asyncio.to_thread(question)
        except EmbedderError as error:
            self.trouble, self._rests_until = error, self.clock() + EMBEDDER_REST_SECONDS
            return None
        self.trouble, self._rests_until = None, float("-inf")
        return found

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from sense_memory.search.embedding import embedded

        found = embedded(self.embedder, texts, self._dimension)
        self._dimension = found.shape[1]
        return found
