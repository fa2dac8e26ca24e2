"""An embedder, asked from an event loop: opened when it is first needed, run in a thread, left alone when it fails.

Nothing waits for an embedder that is down: after a failure it is not asked again for a while, and whoever asks
gets None and goes on with words. Texts go to it and nowhere else; which one that is, its owner has chosen.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.errors import EmbedderError, SenseMemoryError
from sense_memory.limits import EMBEDDER_REST_SECONDS


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.search.embedders import Embedder
    from sense_memory.vault import Read, Vault


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a search knows by words only, although there is an embedder.

    Attributes:
        count: memories that it has not read yet.
        trouble: why it failed when it was last asked; None if it did not.
    """

    count: int
    trouble: EmbedderError | None


class Embedding:
    """An embedder in use.

    Args:
        embedder: which one.
        clock: seconds of any clock that never goes back.
        vault: keeps what it made of memories.

    Attributes:
        embedder, clock: as given.
        trouble: why it failed when it was last asked; None if it did not.
    """

    def __init__(self, embedder: Embedder, clock: Callable[[], float], vault: Vault) -> None:
        self.embedder, self._vault = embedder, vault
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
            if not again and self.clock() < self._rests_until:
                return None
            try:
                found = await asyncio.to_thread(self._embed, texts)
            except EmbedderError as error:
                self.trouble, self._rests_until = error, self.clock() + EMBEDDER_REST_SECONDS
                return None
            self.trouble, self._rests_until = None, float("-inf")
            return found

    async def kept(self, slots: Collection[str]) -> Mapping[str, Read]:
        """What was made before of the memories at some slots, by slot."""
        try:
            return await self._vault.find(slots)
        except SenseMemoryError:  # a cache: it is made anew
            return {}

    async def keep(self, reads: Mapping[str, Read]) -> None:
        """Keep what was made of some memories, by slot, if that is possible."""
        with suppress(SenseMemoryError):
            await self._vault.keep(reads)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from sense_memory.search.embedding import checked

        found = checked(self.embedder, self.embedder.embed(texts), len(texts), self._dimension)
        self._dimension = found.shape[1]
        return found
