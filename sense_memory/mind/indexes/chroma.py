"""`ChromaIndex`: entries in a Chroma collection (package chromadb, extra `chroma`)."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sense_memory.mind.indexes.derived import (
    DerivedVectorIndex,
    failures,
    local_embedder,
    need,
    options_of,
    stored,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.mind.log import LogEntry
    from sense_memory.search.embedders.embedder import Embedder

_COLLECTION: Final = "sense-memory-log"


class ChromaIndex(DerivedVectorIndex):
    """An index in Chroma, in this process: no server, no network, no telemetry.

    Args:
        embedder: makes the vectors; Chroma's embedding function, which downloads a model, is never used.
        path: the folder of the index, in plaintext; None for an index in RAM.
        collection: the beginning of the collection's name; each embedder has its own collection.

    Raises:
        MissingExtra: chromadb is not installed.
        MemoryIndexError: Chroma cannot open the folder.
    """

    name: ClassVar = "chroma"

    def __init__(
        self, embedder: Embedder, *, path: str | Path | None = None, collection: str = _COLLECTION
    ) -> None:
        super().__init__(embedder)
        need("chromadb", "chroma")
        import chromadb
        from chromadb.config import Settings

        # All clients in RAM share one database, so each index in RAM has its own collection.
        mark = embedder.name if path is not None else uuid.uuid4().hex
        self._name = f"{collection}-{hashlib.sha256(mark.encode()).hexdigest()[:12]}"
        with failures(self.name):
            settings = Settings(anonymized_telemetry=False)
            self._client = (
                chromadb.EphemeralClient(settings)
                if path is None
                else chromadb.PersistentClient(str(path), settings)
            )
            self._collection = self._opened()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ChromaIndex:
        """An index from its options: `path`, `collection`, `embedder` (a setting such as "static").

        Raises:
            InvalidInput: there is another option, or no embedder.
            MissingExtra: chromadb or the packages of the embedder are not installed.
            MemoryIndexError: Chroma cannot open the folder.
        """
        options = options_of(config, "path", "collection", "embedder")
        need("chromadb", "chroma")
        return cls(local_embedder(options.pop("embedder", None)), **options)

    def _opened(self) -> Any:
        return self._client.get_or_create_collection(
            self._name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def _stored_ids(self) -> Iterable[str]:
        return list(self._collection.get(include=[])["ids"])

    def _insert(self, rows: Sequence[tuple[LogEntry, NDArray[np.float32]]]) -> None:
        self._collection.upsert(
            ids=[entry.id for entry, _ in rows],
            embeddings=[vector for _, vector in rows],
            metadatas=[{"entry": stored(entry)} for entry, _ in rows],
        )

    def _nearest(self, vector: NDArray[np.float32], k: int) -> Iterable[tuple[object, float | None]]:
        count = min(k, self._collection.count())
        if not count:
            return []
        wanted = ["metadatas", "distances"]
        found = self._collection.query(query_embeddings=[vector], n_results=count, include=wanted)
        rows = zip(found["metadatas"][0], found["distances"][0], strict=True)
        return [(row.get("entry"), 1.0 - distance) for row, distance in rows if row]

    def _wipe(self) -> None:
        self._client.delete_collection(self._name)
        self._collection = self._opened()
