"""`SenseMemorySaver`: LangGraph's checkpoints in an agent's ledger, so that a thread goes on after the loss of a machine.

A checkpoint is one value of its thread (`mind.thread_records`), and the writes of one task at a checkpoint another. They are
encrypted and copied to relays like all memories: another machine with the key continues a thread after one `sync`. What a
graph keeps must be what LangGraph's serializer takes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput, MissingExtra
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
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from sense_memory.mind.thread_records import Value
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore

_CHECKPOINT, _WRITES = "c", "w"
_HASH_CHARS: Final = 12
_START_CHARS: Final = len(_CHECKPOINT) + _HASH_CHARS + 2  # of a name, before the id
_DELTAS: Final = "counters_since_delta_snapshot"  # in metadata, by delta channel


class SenseMemorySaver(BaseCheckpointSaver[int]):  # type: ignore[misc]  # mypy reads no framework
    """LangGraph's checkpointer on a `MemoryStore` or a `SyncMemoryStore`, which stays open as long as this is used.

    The asynchronous methods may be awaited in any event loop, the others called in any thread except that of the
    store's own loop. A checkpoint is durable when `put` returns; it travels to relays as memories do.

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

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget the checkpoints that some runs made, of all threads, with what tasks wrote there; reads every checkpoint."""
        self._calls.wait(self._forget_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Write all checkpoints of a thread, and what tasks wrote there, in another thread too, the oldest first.

        A checkpoint that the other thread has already is replaced. An interrupted call can be repeated.
        """
        self._calls.wait(self._copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget earlier checkpoints of some threads, with what tasks wrote there.

        Args:
            thread_ids: the threads.
            strategy: "keep_latest" keeps the newest checkpoint of each namespace, and the earlier ones of which a `DeltaChannel`
                needs the writes; "delete" keeps nothing.

        Raises:
            InvalidInput: no such strategy; nothing was forgotten.
        """
        self._calls.wait(self._prune(thread_ids, strategy))

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

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self._calls.run(self._forget_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await self._calls.run(self._copy(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self._calls.run(self._prune(thread_ids, strategy))

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
        start = _name(_CHECKPOINT, namespace, "")
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
        threads = [str(given["thread_id"])] if "thread_id" in given else await self._threads.threads()
        there = [
            (_id_in(name), thread, name) for thread in threads for name in await self._checkpoints(thread)
        ]
        found: list[CheckpointTuple] = []
        for ident, thread, name in sorted(there, reverse=True):
            if limit is not None and len(found) >= limit:
                break
            if (until and ident >= until) or not _is_named(name, given):
                continue
            item = await self._read(thread, name)
            if item is not None and all(
                item.metadata.get(key) == value for key, value in (wanted or {}).items()
            ):
                found.append(item)
        return found

    async def _checkpoints(self, thread: str) -> Sequence[str]:
        """The names of the checkpoints of a thread, the oldest first."""
        names = [name for name in await self._threads.names(thread) if name.startswith(f"{_CHECKPOINT}-")]
        return sorted(names, key=_id_in)

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
        names, found = await self._threads.names(thread), []
        for name in _writes_of(_name(_CHECKPOINT, namespace, ident), names):
            if (held := await self._threads.read(thread, name)) is not None:
                task, path = held[0]["task"], held[0]["task_path"]
                for place, (channel, value) in self._loaded(*held).items():
                    found.append((writes_sort_key(path, task, place), (task, channel, value)))
        return [write for _, write in sorted(found, key=lambda item: item[0])]

    async def _forget(self, thread: str) -> None:
        await self._threads.forget(str(thread))

    async def _forget_runs(self, runs: Sequence[str]) -> None:
        gone = frozenset(runs)
        for thread in await self._threads.threads() if gone else ():
            items = [await self._read(thread, name) for name in await self._checkpoints(thread)]
            made = [item for item in items if item is not None and item.metadata.get("run_id") in gone]
            await self._forget_checkpoints(thread, [_name_of(item.config) for item in made])

    async def _copy(self, source: str, target: str) -> None:
        names = await self._threads.names(str(source))
        for checkpoint in await self._checkpoints(str(source)):
            for name in (
                *_writes_of(checkpoint, names),
                checkpoint,
            ):  # a checkpoint comes after what was written there
                await self._threads.copy(str(source), name, str(target))

    async def _prune(self, threads: Sequence[str], strategy: str) -> None:
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidInput('strategy must be "keep_latest" or "delete"; nothing was forgotten')
        for thread in map(str, threads):
            if strategy == "delete":
                await self._forget(thread)
                continue
            namespaces: dict[str, list[str]] = {}
            for name in await self._checkpoints(thread):
                namespaces.setdefault(name[:_START_CHARS], []).append(name)
            for names in namespaces.values():
                needed = await self._needed(thread, names)
                await self._forget_checkpoints(thread, [name for name in names if name not in needed])

    async def _needed(self, thread: str, names: Sequence[str]) -> set[str]:
        """Of the checkpoints of a namespace, the oldest first, those that its newest state consists of.

        These are the newest that is there as a whole, those after it, which may still arrive, and those before it back to the
        last whole value of each delta channel. All of them if one of those has not arrived.
        """
        needed, item = set[str](), None
        for name in reversed(names):
            needed.add(name)
            if (item := await self._read(thread, name)) is not None:
                break
        deltas = {} if item is None else item.metadata.get(_DELTAS) or {}
        left = set(deltas)
        while item is not None and (left := left - item.checkpoint["channel_values"].keys()):
            if item.parent_config is None:
                break
            needed.add(_name_of(item.parent_config))
            item = await self._get(item.parent_config)
        return set(names) if item is None else needed

    async def _forget_checkpoints(self, thread: str, gone: Sequence[str]) -> None:
        names = await self._threads.names(thread) if gone else ()
        writes = [name for checkpoint in gone for name in _writes_of(checkpoint, names)]
        if gone:
            await self._threads.forget(thread, [*gone, *writes])

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


def _name_of(config: RunnableConfig) -> str:
    """The name of the checkpoint that a config means."""
    return _name(_CHECKPOINT, _place(config)[1], config["configurable"]["checkpoint_id"])


def _id_in(name: str) -> str:
    return name[_START_CHARS:]


def _writes_of(checkpoint: str, names: Iterable[str]) -> list[str]:
    """Of some names, those of what tasks wrote at a checkpoint."""
    start = f"{_WRITES}{checkpoint.removeprefix(_CHECKPOINT)}-"
    return [name for name in names if name.startswith(start)]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]


def _is_named(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a checkpoint has the namespace and the id of a config, if that has them."""
    namespace, ident = given.get("checkpoint_ns"), given.get("checkpoint_id")
    is_there = namespace is None or name.startswith(_name(_CHECKPOINT, namespace, ""))
    return is_there and ident in {None, _id_in(name)}
