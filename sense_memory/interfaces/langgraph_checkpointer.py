"""`SenseMemorySaver`: LangGraph's checkpoints in an agent's ledger, so that a thread goes on after the loss of a machine.

A checkpoint is one value of its thread (`mind.thread_records`), and the writes of one task at a checkpoint another. They are
encrypted and copied to relays like all memories: another machine with the key continues a thread after one `sync`. What a
graph keeps must be what LangGraph's serializer takes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import MissingExtra
from sense_memory.interfaces.store_calls import StoreCalls
from sense_memory.mind.thread_records import ThreadRecords


try:
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
except ImportError as error:
    raise MissingExtra("langgraph") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from sense_memory.mind.thread_records import Value
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore

_CHECKPOINT, _WRITES = "c", "w"
_HASH_CHARS: Final = 12


class SenseMemorySaver(BaseCheckpointSaver[int]):  # type: ignore[misc]  # mypy reads no framework
    """LangGraph's checkpointer on a `MemoryStore` or a `SyncMemoryStore`, which stays open as long as this is used.

    The asynchronous methods may be awaited in any event loop, the others called in any thread except that of the
    store's own loop. A checkpoint is durable when `put` returns; it travels to relays as memories do.

    Not offered: `prune`, `copy_thread` and `delete_for_runs`.

    Args:
        store: an open store; a `MemoryStore` in the event loop in which it was opened.
        serde: LangGraph's serializer; by default its own.

    Raises:
        InvalidInput: not a store, or no event loop runs here.
    """

    def __init__(self, store: MemoryStore | SyncMemoryStore, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._calls = StoreCalls(store)
        self._store = self._calls.store

    # ── In threads ──────────────────────────────────────────────────────────────────────

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the newest of a thread; None if there is none."""
        return self._calls.wait(self._get(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        yield from self._calls.wait(self._listed(config, filter, before, limit))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Raises as `MindRecords.write`; nothing was written then."""
        del new_versions  # a checkpoint is stored whole
        return self._calls.wait(self._put(config, checkpoint, metadata))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote. Raises as `put`."""
        self._calls.wait(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread here, and ask relays to delete it."""
        self._calls.wait(self._forget(thread_id))

    # ── In event loops ──────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await self._calls.run(self._get(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        for found in await self._calls.run(self._listed(config, filter, before, limit)):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        del new_versions
        return await self._calls.run(self._put(config, checkpoint, metadata))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        await self._calls.run(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._calls.run(self._forget(thread_id))

    # ── On the store ────────────────────────────────────────────────────────────────────

    @property
    def _threads(self) -> ThreadRecords:
        return ThreadRecords(self._store.mind.records)

    async def _put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        thread, namespace = _place(config)
        kept = {"checkpoint": checkpoint, "metadata": get_checkpoint_metadata(config, metadata)}
        kind, data = self.serde.dumps_typed(kept)
        fields = {
            "kind": kind,
            "namespace": namespace,
            "id": checkpoint["id"],
            "parent": get_checkpoint_id(config),
        }
        await self._threads.write(thread, _name(_CHECKPOINT, namespace, checkpoint["id"]), fields, data)
        return _config(thread, namespace, checkpoint["id"])

    async def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        thread, namespace = _place(config)
        name = f"{_name(_WRITES, namespace, config['configurable']['checkpoint_id'])}-{_hash(task_id)}"

        def added(held: Value | None) -> tuple[Mapping[str, Any], bytes]:
            known = {} if held is None else self._loaded(*held)
            for number, (channel, value) in enumerate(writes):
                place = WRITES_IDX_MAP.get(channel, number)
                if place < 0 or place not in known:  # a task that runs again keeps what it wrote first
                    known[place] = [channel, value]
            kind, data = self.serde.dumps_typed(known)
            return {"kind": kind, "task": task_id, "task_path": task_path}, data

        await self._threads.change(thread, name, added)

    async def _get(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, namespace = _place(config)
        if ident := get_checkpoint_id(config):
            return await self._read(thread, _name(_CHECKPOINT, namespace, ident))
        start = f"{_CHECKPOINT}-{_hash(namespace)}-"
        for name in reversed(await self._threads.names(thread)):  # ids grow with time
            if name.startswith(start) and (found := await self._read(thread, name)) is not None:
                return found
        return None

    async def _listed(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        given = {} if config is None else config["configurable"]
        until = None if before is None else get_checkpoint_id(before)
        threads = [given["thread_id"]] if "thread_id" in given else await self._threads.threads()
        found: list[CheckpointTuple] = []
        for thread in threads:
            names = [name for name in await self._threads.names(thread) if name.startswith(f"{_CHECKPOINT}-")]
            for name in sorted(names, key=_id_in, reverse=True):
                if (until and _id_in(name) >= until) or (limit is not None and len(found) >= limit):
                    continue
                item = await self._read(thread, name)
                if item is not None and _is_meant(item, given, wanted or {}):
                    found.append(item)
        return found

    async def _read(self, thread: str, name: str) -> CheckpointTuple | None:
        held = await self._threads.read(thread, name)
        if held is None:
            return None
        fields, kept = held[0], self._loaded(*held)
        namespace, ident, parent = fields["namespace"], fields["id"], fields.get("parent")
        return CheckpointTuple(
            _config(thread, namespace, ident),
            kept["checkpoint"],
            kept["metadata"],
            _config(thread, namespace, parent) if parent else None,
            await self._writes_at(thread, namespace, ident),
        )

    async def _writes_at(self, thread: str, namespace: str, ident: str) -> Sequence[tuple[str, str, Any]]:
        start, found = f"{_name(_WRITES, namespace, ident)}-", []
        for name in await self._threads.names(thread):
            if name.startswith(start) and (held := await self._threads.read(thread, name)) is not None:
                task, path = held[0]["task"], held[0]["task_path"]
                for place, (channel, value) in self._loaded(*held).items():
                    found.append((writes_sort_key(path, task, place), (task, channel, value)))
        return [write for _, write in sorted(found, key=lambda item: item[0])]

    async def _forget(self, thread: str) -> None:
        await self._threads.forget(thread)

    def _loaded(self, fields: Mapping[str, Any], data: bytes) -> Any:
        return self.serde.loads_typed((fields["kind"], data))


def _place(config: RunnableConfig) -> tuple[str, str]:
    """The id of a thread, and the namespace of a checkpoint."""
    given = config["configurable"]
    return str(given["thread_id"]), str(given.get("checkpoint_ns", ""))


def _config(thread: str, namespace: str, ident: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": ident}}


def _name(kind: str, namespace: str, ident: str) -> str:
    return f"{kind}-{_hash(namespace)}-{ident}"


def _id_in(name: str) -> str:
    return name[len(_CHECKPOINT) + _HASH_CHARS + 2 :]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]


def _is_meant(item: CheckpointTuple, given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    here = item.config["configurable"]
    names = ("checkpoint_ns", "checkpoint_id")
    is_here = all(given.get(name) in {None, here[name]} for name in names)
    return is_here and all(item.metadata.get(name) == value for name, value in wanted.items())
