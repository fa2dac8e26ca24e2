"""`Mem0MemoryIndex` and `Mem0CloudIndex`: entries as raw memories of mem0 (package mem0ai, extra `memory`).

Each entry is one memory with inference off: its text is embedded verbatim, and no model extracts facts from it. The
whole entry is in the memory's metadata. mem0's own telemetry, which it decides on when it is imported, is off unless
MEM0_TELEMETRY is set; a program that imports mem0 itself, before an index does, has to set it to False.
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
_ALL: Final = 1_000_000  # memories of a listing
_PAGE: Final = 100  # memories of a page of the hosted service
_UNUSED: Final = {
    "api_key": "unused"
}  # for models that mem0 wants to have configured, and that are never called


class _Mem0(DerivedIndex):
    """What both have in common: one memory for each entry, under one `user_id`."""

    batch: ClassVar = (
        1  # mem0 makes an id of its own for each memory, so what was stored must be known at once
    )

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
                # Some vector stores of mem0 keep no NUL; the entry itself is escaped.
                [{"role": "user", "content": entry.text.replace("\0", " ")}],
                user_id=self._user,
                metadata={"entry_id": entry.id, "entry": stored(entry)},
                infer=False,
                **self._more,
            )

    def _hits(self, query: str, k: int) -> Iterable[object]:
        found = self._client.search(
            query, filters={"user_id": self._user}, top_k=k, threshold=0.0, **self._more
        )
        return [_metadata(row).get("entry") for row in found["results"]]

    def _wipe(self) -> None:
        self._client.delete_all(user_id=self._user, **self._more)


class Mem0MemoryIndex(_Mem0):
    """An index in mem0's own library, on this machine.

    Args:
        memory: a `mem0.Memory`; see also `local` and `from_config`.
        user_id: the user in mem0 that entries belong to; one for each agent.
    """

    name: ClassVar = "mem0"

    def __init__(self, memory: Any, *, user_id: str = _USER) -> None:
        super().__init__(memory, user_id)

    @classmethod
    def local(cls, embedder: Embedder, *, user_id: str = _USER) -> Mem0MemoryIndex:
        """An index in memory that an embedder of sense-memory serves: no network, no file, no key.

        Raises:
            MissingExtra: mem0ai is not installed.
            MemoryIndexError: mem0 could not be started.
        """
        need("mem0", "memory")
        with failures(cls.name), warnings.catch_warnings():
            # Qdrant in memory says that it indexes no payloads, which is of no matter here.
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
        """An index by the configuration of `mem0.Memory.from_config`, which gets it verbatim; `local` if it is empty.

        Without an `embedder` in it, sense-memory's own is used (`minilm`, or else `static`), and `embedding_model_dims`
        of the vector store has to be its dimension. `history_db_path` is memory unless it says otherwise.

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

    The service files memories in the background: an entry may be found only some seconds after it was indexed.

    Args:
        api_key: of the service.
        org_id: the organisation; the key has to belong to it.
        project_id: the project; the key has to belong to it.
        host: where the service is, if not at api.mem0.ai.
        user_id: the user in mem0 that entries belong to; one for each agent.

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
            raise InvalidInput("set MEM0_API_KEY to the key of mem0's service; nothing was sent")
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
        """An index by its options `host`, `org_id`, `project_id` and `user_id`; the key comes from the environment only.

        Args:
            config: wins over the environment.
            environ: with MEM0_API_KEY, and MEM0_ORG_ID, MEM0_PROJECT_ID and MEM0_HOST; by default the environment.

        Raises:
            InvalidInput: another option, or no key.
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
    """An embedder of sense-memory as mem0 asks one."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = "add") -> list[list[float]]:  # noqa: ARG002
        rows: list[list[float]] = embedded(self._embedder, texts).tolist()
        return rows


def _memory(config: Mapping[str, Any], embedder: Embedder | None) -> Any:
    """A `mem0.Memory`; without `llm` and `embedder`, those that mem0 makes can reach nothing, and are never called."""
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
    """The package, imported without its telemetry and without the filters of warnings that it sets."""
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
