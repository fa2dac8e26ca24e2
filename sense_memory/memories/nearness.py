"""How near in meaning texts are to a question, as cosines; for callers that index parts of a memory, such as fields of JSON.

The vectors of whole memories are in the index of everything, and in its cache; those of parts are kept while the store is
open, and made again after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.limits import EMBED_BATCH_COUNT
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.evidence import embedding_texts, pieces


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.memories.embedding_jobs import EmbedderClient

_KEPT_COUNT: Final = 50_000  # vectors; 77 MB with 384 numbers each


class TextVectors:
    """The vectors of texts.

    Args:
        embedder: makes them.
    """

    def __init__(self, embedder: EmbedderClient) -> None:
        self._embedder = embedder
        self._rows: dict[str, NDArray[np.float32]] = {}

    async def cosines(
        self, direction: NDArray[np.float32], texts: Mapping[str, Sequence[str]]
    ) -> dict[str, float]:
        """By name, the cosine of the nearest of some texts to a vector of length 1, from -1 to 1.

        A long text counts as its nearest piece. A name without texts is left out, and so is one whose texts the embedder could
        not read.
        """
        cut = {
            name: [piece for text in given for piece in embedding_texts(pieces(text))]
            for name, given in texts.items()
        }
        await self._read({piece for parts in cut.values() for piece in parts})
        found = {}
        for name, parts in cut.items():
            rows = [row for part in parts if (row := self._rows.get(part)) is not None]
            if rows and len(rows) == len(parts):
                found[name] = max(float(np.vecdot(row, direction)) for row in rows)
        return found

    async def _read(self, texts: set[str]) -> None:
        """Embed the texts that have no vector yet, until the embedder fails."""
        if len(self._rows) > _KEPT_COUNT:
            self._rows.clear()
        unread = sorted(texts - self._rows.keys())
        for start in range(0, len(unread), EMBED_BATCH_COUNT):
            part = unread[start : start + EMBED_BATCH_COUNT]
            rows = await self._embedder.rows(part)
            if rows is None:
                return
            self._rows.update(zip(part, normalised(rows), strict=True))
