"""`Mem0MemoryIndex` and `Mem0CloudIndex`: entries as raw memories of mem0 (package mem0ai, extra `memory`).

Each entry is one memory with inference off: its text is embedded verbatim, and no model extracts facts from it. The
memory's metadata holds the whole entry. mem0's telemetry is off unless MEM0_TELEMETRY is set. mem0 reads that variable
when it is imported, so a program that imports mem0 before an index does has to set MEM0_TELEMETRY to False.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sense_memory.errors import InvalidInput, MemoryIndexError
from sense_memory.mind.indexes.derived import DerivedIndex, failures, local_embedder, need, options_of, stored
from sense_memory.search.embedders.embedder import embedded


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.search.embedders.embedder import Embedder

_USER: Final = "sense-memory"
_ALL: Final = 1_000_000  # memories in a listing
_PAGE: Final = 100  # memories in a page of the hosted service
_UNUSED: Final = {"api_key": "unused"}  # configures models that mem0 requires and that are never called


class _Mem0(DerivedIndex):
    """The common part of both indexes: one memory for each entry, under one `user_id`."""

    batch: ClassVar = 1  # mem0 gives each memory a new id, so each stored entry must be noted at once

    def __init__(self, client: Any, user_id: str, **more: str) -> None:
        super().__init__()
        self._client, self._user, self._more = client, user_id, more

    def _stored_ids(self) -> Iterable[str]:
        return [row["entry_id"] for row in map(_metadata, self._rows()) if "entry_id" in row]

    def _rows(self) -> Iterator[Any]:
        yield from self._client.get_all(filters={"user_id": self._user}, top_k=_ALL)["results"]

    def _store(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            self._client.add(
                # Some stores cannot hold NUL; the JSON in the metadata escapes it.
                [{"role": "user", "content": entry.text.replace("\0", " ")}],
                user_id=self._user,
                metadata={"entry_id": entry.id, "entry": stored(entry)},
                infer=False,
                **self._more,
            )

    def _hits(self, query: str, k: int) -> Iterable[tuple[object, float | None]]:
        found = self._client.search(
            query, filters={"user_id": self._user}, top_k=k, threshold=0.0, **self._more
        )
        return [(_metadata(row).get("entry"), _score(row)) for row in found["results"]]

    def _wipe(self) -> None:
        self._client.delete_all(user_id=self._user, **self._more)


class Mem0MemoryIndex(_Mem0):
    """An index in mem0's own library, on this machine.

    Args:
        memory: a `mem0.Memory`; see also `local` and `from_config`.
        user_id: the user in mem0 to whom the entries belong; one for each agent.
    """

    name: ClassVar = "mem0"

    def __init__(self, memory: Any, *, user_id: str = _USER) -> None:
        super().__init__(memory, user_id)

    @classmethod
    def local(cls, embedder: Embedder, *, user_id: str = _USER) -> Mem0MemoryIndex:
        """An index in RAM with an embedder of sense-memory: no network, no file, no key.

        Raises:
            MissingExtra: mem0ai is not installed.
            MemoryIndexError: mem0 could not be started.
        """
        need("mem0", "memory")
        with failures(cls.name), warnings.catch_warnings():
            # Qdrant warns that it does not index payloads in RAM, which does not matter here.
            warnings.filterwarnings("ignore", "Payload indexes have no effect", UserWarning)
            from qdrant_client import QdrantClient

            place = {
                "client": QdrantClient(":memory:"),
                "collection_name": "sense-memory",
                "embedding_model_dims": embedder.dimension,
            }
            memory = _memory({"vector_store": {"provider": "qdrant", "config": place}}, embedder)
        return cls(memory, user_id=user_id)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Mem0MemoryIndex:
        """An index from a configuration, which `mem0.Memory.from_config` gets verbatim; `local` if it is empty.

        Without an `embedder`, an embedder of sense-memory is used (`minilm`, or else `static`), and the vector store's
        `embedding_model_dims` must be the dimension of that embedder. The default of `history_db_path` is RAM.

        Raises:
            MissingExtra: mem0ai or the packages of an embedder are not installed.
            MemoryIndexError: mem0 refuses the configuration.
        """
        need("mem0", "memory")
        if not config:
            return cls.local(local_embedder())
        embedder = None if "embedder" in config else local_embedder()
        with failures(cls.name):
            return cls(_memory(config, embedder))


class Mem0CloudIndex(_Mem0):
    """An index in mem0's hosted service. **It sends the text of every indexed entry to mem0's servers.**

    The service stores memories in the background: a search may find an entry only some seconds after it was indexed.

    Args:
        api_key: the key of the service.
        org_id: the organisation to which the key must belong.
        project_id: the project to which the key must belong.
        host: the address of the service; api.mem0.ai by default.
        user_id: the user in mem0 to whom the entries belong; one for each agent.

    Raises:
        MissingExtra: mem0ai is not installed.
        InvalidInput: there is no key.
        MemoryIndexError: the service cannot be reached, refuses the key, or names another organisation or project.
    """

    name: ClassVar = "mem0 cloud"

    def __init__(
        self,
        api_key: str,
        *,
        org_id: str | None = None,
        project_id: str | None = None,
        host: str | None = None,
        user_id: str = _USER,
    ) -> None:
        if not api_key:
            raise InvalidInput("set MEM0_API_KEY to the key of mem0's service")
        need("mem0", "memory")
        wanted = {"org_id": org_id, "project_id": project_id}
        with failures(self.name):
            client = _imported().MemoryClient(api_key=api_key, host=host)
        for what, name in wanted.items():
            if name and getattr(client, what) not in {None, name}:
                raise MemoryIndexError(self.name, f"the key belongs to another {what}; no entry was sent")
        super().__init__(client, user_id, **{what: name for what, name in wanted.items() if name})

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], environ: Mapping[str, str] | None = None
    ) -> Mem0CloudIndex:
        """An index from its options `host`, `org_id`, `project_id` and `user_id`, and a key from the environment.

        Args:
            config: the options, which take precedence over the environment.
            environ: may hold MEM0_API_KEY, MEM0_ORG_ID, MEM0_PROJECT_ID and MEM0_HOST; by default this process's own.

        Raises:
            InvalidInput: there is another option, or no key.
            MissingExtra: mem0ai is not installed.
            MemoryIndexError: as for the class.
        """
        options = options_of(config, "host", "org_id", "project_id", "user_id")
        environ = os.environ if environ is None else environ
        for name in ("host", "org_id", "project_id"):
            options.setdefault(name, environ.get(f"MEM0_{name.upper()}", "").strip() or None)
        return cls(environ.get("MEM0_API_KEY", "").strip(), **options)

    def _rows(self) -> Iterator[Any]:
        number = 1
        while True:
            page = self._client.get_all(
                filters={"user_id": self._user}, page=number, page_size=_PAGE, **self._more
            )
            yield from page["results"]
            if not page.get("next"):
                return
            number += 1


class _Embedding:
    """An embedder of sense-memory behind the interface of mem0."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = "add") -> list[list[float]]:
        is_asked = memory_action == "search"
        rows: list[list[float]] = embedded(self._embedder, texts, as_questions=is_asked).tolist()
        return rows


def _memory(config: Mapping[str, Any], embedder: Embedder | None) -> Any:
    """A `mem0.Memory`. Without `llm` and `embedder`, mem0 gets models with an invalid key, which are never called."""
    filled = {
        "llm": {"provider": "openai", "config": _UNUSED},
        "embedder": {"provider": "openai", "config": _UNUSED},
        "history_db_path": ":memory:",
    }
    memory = _imported().Memory.from_config(filled | dict(config))
    if embedder is not None:
        memory.embedding_model = _Embedding(embedder)
    return memory


def _imported() -> Any:
    """The package mem0, imported without its telemetry and without the warning filters that it sets."""
    before = os.environ.get("MEM0_TELEMETRY")
    os.environ["MEM0_TELEMETRY"] = before or "False"
    try:
        with warnings.catch_warnings():
            import mem0
    finally:
        if before is None:
            del os.environ["MEM0_TELEMETRY"]
    return mem0


def _metadata(row: Any) -> Mapping[str, Any]:
    found = row.get("metadata") if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def _score(row: Any) -> float | None:
    found = row.get("score") if isinstance(row, dict) else None
    return float(found) if isinstance(found, int | float) else None
