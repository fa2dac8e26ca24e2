"""Claude's memory tool (`memory_20250818`) on an agent's memories: each file is one memory.

`/memories/{domain}/{facet}/{key}` is a palace memory, and `/memories/{key}` a flat one. Files at other depths are in
the palace too, see `nested_names`; every path is read back exactly as given. Answers and refusals are the sentences of
`BetaLocalFilesystemMemoryTool`, the SDK's own tool on files, wherever that has one.

A path is a name and is never opened as a file. Paths that try to leave `/memories` are refused nevertheless, because
they show that something is wrong.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from sense_memory.errors import InvalidInput, MissingExtra, NotSynced, SenseMemoryError
from sense_memory.interfaces.nested_names import (
    memory_key,
    nested_key,
    nested_name,
    palace_domain,
    palace_name,
)
from sense_memory.interfaces.store_calls import StoreCalls
from sense_memory.plain_text import printable


try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise MissingExtra("anthropic") from error
from sense_memory.palace.sources import is_told


if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from sense_memory.arguments import MemoryFields
    from sense_memory.models import Memory, PersonaMemory
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore

ROOT: Final = "/memories"
SOURCE: Final = "tool:anthropic"  # the source of files in the palace that are created here
MAX_VIEWED_CHARS: Final = 16_000  # of a file that is viewed without a range, as the tool's documentation says
MAX_LISTED_COUNT: Final = 1_000  # lines of a listing
_NUMBER_WIDTH: Final = 6
_AROUND: Final = 2  # lines before and after a change
_LEVELS: Final = 2

_Parts = tuple[str, ...]  # a path below /memories

_is_unsafe = re.compile(
    r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?:2e|2f|5c|25|[01][0-9a-f]|7f|c0)", re.IGNORECASE
).search
_locks: WeakKeyDictionary[MemoryStore, tuple[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


class _StoreFiles:
    """The common part of both tools: the files of a store. It comes before the SDK's class in the order of bases."""

    def __init__(
        self,
        store: MemoryStore | SyncMemoryStore,
        *,
        folder: str = "",
        halflife_days: float | None = None,
        cache_control: Any = None,
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]  # of the SDK's class
        self._calls = StoreCalls(store)
        self._files = MemoryFiles(self._calls.store, folder, halflife_days)


class SenseMemoryTool(_StoreFiles, BetaAbstractMemoryTool):  # type: ignore[misc]  # mypy reads no SDK
    """The memory tool for `Anthropic`: pass it in `tools=[…]` of `client.beta.messages.tool_runner`.

    Args:
        store: an open store; a `MemoryStore` is called from other threads than that of its event loop.
        folder: the domain, or `domain/facet`, in which all files lie; by default all memories of the agent are files.
        halflife_days: of new files in the palace; by default 30. A file fades for `persona_compress` and search,
            stays in every listing until `persona_prune` deletes it, and is revived when it is viewed.
        cache_control: Anthropic's, for the tool's definition.

    Raises:
        InvalidInput: not a store, or not a folder.
    """

    def execute(self, command: Any) -> str:
        """Run one command of the model.

        Raises:
            ToolError: the command cannot be carried out; nothing was changed.
        """
        return self._calls.wait(self._files.execute(command))

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Forget every file, for good. The journal, and memories outside `folder`, stay."""
        return self._calls.wait(self._files.clear())


class AsyncSenseMemoryTool(_StoreFiles, BetaAsyncAbstractMemoryTool):  # type: ignore[misc]  # mypy reads no SDK
    """The memory tool for `AsyncAnthropic`. Arguments and errors as `SenseMemoryTool`."""

    async def execute(self, command: Any) -> str:
        """Run one command of the model. Errors as `SenseMemoryTool.execute`."""
        return await self._calls.run(self._files.execute(command))

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Forget every file, for good. The journal, and memories outside `folder`, stay."""
        return await self._calls.run(self._files.clear())


@dataclass(frozen=True, slots=True)
class _File:
    """A memory as a file.

    Attributes:
        parts: its path.
        memory: the memory.
    """

    parts: _Parts
    memory: Memory | PersonaMemory

    @property
    def size(self) -> int:
        """In bytes, as UTF-8."""
        return len(self.memory.value.encode())


class MemoryFiles:
    """The commands of the memory tool on a store, one at a time, because an edit reads and then writes.

    Args:
        store: an open store.
        folder: in which all files lie; empty for all memories.
        halflife_days: of new palace memories; None for 30.
    """

    def __init__(self, store: MemoryStore, folder: str, halflife_days: float | None) -> None:
        self._store, self._halflife_days = store, halflife_days
        self._folder = tuple(part for part in folder.split("/") if part)
        if not all(_is_name(part) for part in self._folder):
            raise InvalidInput("folder must be a domain, or domain/facet")

    async def execute(self, command: Any) -> str:
        """Run a command; raises ToolError if the command cannot be carried out."""
        name = getattr(command, "command", None)
        commands: dict[Any, Any] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }
        if name not in commands:
            raise ToolError(f"Unknown command: {printable(repr(name))}")
        return await self._run(commands[name](command))

    async def clear(self) -> str:
        """Forget every file."""
        return await self._run(self._clear())

    async def _run(self, call: Coroutine[Any, Any, str]) -> str:
        async with _lock(self._store):
            try:
                return await call
            except NotSynced:
                raise ToolError(
                    "Not found on this machine, but no relay has shown everything yet; try again in a minute"
                ) from None
            except SenseMemoryError as error:
                raise ToolError(f"{error}") from None

    # ── Commands ────────────────────────────────────────────────────────────────────────

    async def _view(self, command: Any) -> str:
        path = _text(command, "path")
        parts = _parts(path)
        file = None if path.endswith("/") else await self._find(parts, revive=True)
        if file is not None:
            return _viewed(path, file.memory.value, getattr(command, "view_range", None))
        below = await self._below(parts)
        if not below and parts:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return _listing(path.rstrip("/"), len(parts), below)

    async def _create(self, command: Any) -> str:
        path, text = _text(command, "path"), _text(command, "file_text")
        parts = _file_parts(path)
        if await self._is_taken(parts):
            raise ToolError(f"File {path} already exists")
        await self._write(parts, text, is_new=True)
        return f"File created successfully at: {path}"

    async def _str_replace(self, command: Any) -> str:
        path, old = _text(command, "path"), _text(command, "old_str")
        new = "" if getattr(command, "new_str", None) is None else _text(command, "new_str")
        file = await self._edited(path)
        text = file.memory.value
        count = text.count(old) if old else 0  # without overlaps
        if not count:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
            )
        if count > 1:
            lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in _places(text, old))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old, new)
        await self._write(file.parts, changed)
        first = text.count("\n", 0, text.index(old))
        snippet = changed.split("\n")[max(0, first - _AROUND) : first + 1 + _AROUND]
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(snippet, max(0, first - _AROUND) + 1)
        )

    async def _insert(self, command: Any) -> str:
        path, added, after = (
            _text(command, "path"),
            _text(command, "insert_text"),
            getattr(command, "insert_line", None),
        )
        file = await self._edited(path)
        lines = file.memory.value.removesuffix("\n").split("\n")
        if type(after) is not int or not 0 <= after <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {after}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(after, added.rstrip("\n"))
        changed = "\n".join(lines)
        await self._write(file.parts, changed if changed.endswith("\n") else f"{changed}\n")
        return f"The file {path} has been edited."

    async def _delete(self, command: Any) -> str:
        path = _text(command, "path")
        parts = _parts(path)
        if not parts:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        gone = await self._chosen(path, parts)
        if not gone:
            raise ToolError(f"The path {path} does not exist")
        await self._forget(gone)
        return f"Successfully deleted {path}"

    async def _rename(self, command: Any) -> str:
        old_path, new_path = _text(command, "old_path"), _text(command, "new_path")
        old, new = _parts(old_path), _parts(new_path)
        if not old:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        if not new or await self._is_taken(new):
            raise ToolError(f"The destination {new_path} already exists")
        _file_parts(new_path)
        moved = await self._chosen(old_path, old)
        if not moved:
            raise ToolError(f"The path {old_path} does not exist")
        if new[: len(old)] == old:
            raise ToolError(f"{new_path} lies within {old_path}")
        await self._copy([(file, new + file.parts[len(old) :]) for file in moved])
        await self._forget(moved)
        return f"Successfully renamed {old_path} to {new_path}"

    async def _edited(self, path: str) -> _File:
        """The file that a command changes."""
        parts = _parts(path)
        file = None if path.endswith("/") else await self._find(parts, revive=True)
        if file is not None:
            return file
        if not parts or await self._below(parts):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    async def _clear(self) -> str:
        await self._forget(await self._below(()))
        return "All memory cleared"

    # ── Files ───────────────────────────────────────────────────────────────────────────

    def _place(self, parts: _Parts) -> tuple[str, str, str] | str:
        """The place of a file: a palace memory's, or the key of a flat memory."""
        labels = (*self._folder, *parts[:-1])
        return palace_name(labels, parts[-1]) if labels else memory_key(parts[-1])

    async def _find(self, parts: _Parts, *, revive: bool = False) -> _File | None:
        """The file at a path; None where there is none."""
        if not parts:
            return None
        place = self._place(parts)
        if isinstance(place, str):
            flat = await self._store.recall(place)
            return None if flat is None else _File(parts, flat)
        found = await self._store.persona_recall(*place, revive=revive)
        return _File(parts, found[0]) if found else None

    async def _find_here(self, parts: _Parts) -> _File | None:
        """As `_find`, but without an error if no relay has answered yet: a sync merges what is created then with older
        versions.
        """
        try:
            return await self._find(parts)
        except NotSynced:
            return None

    async def _is_taken(self, parts: _Parts) -> bool:
        """Whether a file or a directory has this path."""
        return await self._find_here(parts) is not None or bool(await self._below(parts, is_there=True))

    async def _below(self, parts: _Parts, *, is_there: bool = False) -> list[_File]:
        """The files in a directory and below it, ordered by path; with `is_there`, no error if no relay has answered yet."""
        below = (*self._folder, *parts)
        domain = palace_domain(below[0]) if below else None
        memories: list[Memory | PersonaMemory] = [] if below else list(await self._store.recall_all())
        try:
            memories += await self._store.persona_recall(domain, include_forgotten=True)
        except NotSynced:
            if not memories and not is_there:
                raise
        named = ((_path_of(memory), memory) for memory in memories)
        files = [
            _File(path[len(self._folder) :], memory)
            for path, memory in named
            if len(path) > len(below) and path[: len(below)] == below and all(map(_is_name, path))
        ]
        return sorted(files, key=lambda file: file.parts)

    async def _chosen(self, path: str, parts: _Parts) -> list[_File]:
        """The file at a path, or else the files in the directory there."""
        file = None if path.endswith("/") else await self._find(parts)
        return await self._below(parts) if file is None else [file]

    async def _write(self, parts: _Parts, text: str, *, is_new: bool = False) -> None:
        if not text.strip():
            raise ToolError("Write some text, or delete the file: an empty file cannot be kept")
        place = self._place(parts)
        if isinstance(place, str):
            await self._store.remember(place, text)
            return
        given: dict[str, Any] = {"halflife_days": self._halflife_days, "source": SOURCE} if is_new else {}
        await self._store.persona_remember(*place, text, contradictions="off", **given)

    async def _copy(self, moves: Sequence[tuple[_File, _Parts]]) -> None:
        """Write files under new paths, with their palace data; links among these files follow."""
        flat, palace, new_paths = list[tuple[str, str]](), list[tuple[Any, tuple[str, str, str]]](), {}
        for file, parts in moves:
            place = self._place(parts)
            if isinstance(place, str):
                flat.append((place, file.memory.value))
            else:
                palace.append((file.memory, place))
                new_paths[_name_of(file.memory)] = "/".join(place)
        copies = [_copied(memory, place, new_paths) for memory, place in palace]
        await self._store.persona_remember_many(copies, contradictions="off")
        await self._store.remember_many(flat)

    async def _forget(self, files: Iterable[_File]) -> None:
        flat, palace = [], []
        for file in files:
            place = self._place(file.parts)
            if isinstance(place, str):
                flat.append(place)
            else:
                palace.append("/".join(place))
        if palace:
            await self._store.persona_forget_many(palace)
        if flat:
            await self._store.forget_many(flat)


def _lock(store: MemoryStore) -> asyncio.Lock:
    """The lock that all memory tools on a store share, for the event loop in which the store is open now."""
    loop, known = asyncio.get_running_loop(), _locks.get(store)
    if known is None or known[0] is not loop:
        known = _locks[store] = loop, asyncio.Lock()
    return known[1]


def _path_of(memory: Memory | PersonaMemory) -> _Parts:
    """The path of a memory below `/memories`; empty if the memory has none."""
    domain = getattr(memory, "domain", None)
    if domain is None:
        name = nested_key(memory.key)
        return () if name is None else (name,)
    found = nested_name(domain, getattr(memory, "facet", ""), memory.key)
    return () if found is None else (*found[0], found[1])


def _name_of(memory: Any) -> str:
    """The path of a palace memory in the palace, or the key of a flat one."""
    return str(getattr(memory, "path", memory.key))


def _copied(memory: Any, place: tuple[str, str, str], new_paths: dict[str, str]) -> MemoryFields:
    """The fields of a memory at another place."""
    found: MemoryFields = {"path": "/".join(place), "value": memory.value}
    if not hasattr(memory, "path"):
        # What is not known to be the user's or the agent's own stays what it is.
        own = all(map(is_told, (memory.source, *memory.sources)))
        source = SOURCE if own else memory.source
        return cast("MemoryFields", {**found, **_provenance(memory), "source": source})
    links = [new_paths.get(path, path) for path in memory.connections]
    fields = {
        **found,
        "themes": memory.themes,
        "halflife_days": memory.halflife_days,
        **_provenance(memory),
        "source": memory.source,
        "confidence": memory.confidence,
        "connections": links,
    }
    return cast("MemoryFields", fields)


def _provenance(memory: Any) -> dict[str, Any]:
    """Where a memory came from, apart from its source."""
    return {
        "session": memory.session,
        "derived_from": memory.derived_from,
        "sources": memory.sources,
    }


# ── Paths ───────────────────────────────────────────────────────────────────────────────


def _text(command: Any, name: str) -> str:
    """A text field of a command; a model may have left the field out, or given another type."""
    given = getattr(command, name, None)
    if not isinstance(given, str):
        raise ToolError(f"`{name}` must be text")
    return given


def _parts(path: str) -> _Parts:
    """The parts of a path below `/memories`; none for that directory itself."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {printable(path)}")
    parts = tuple(part for part in path.removeprefix(ROOT).split("/") if part)
    if ".." in parts:
        raise ToolError(f"Path {printable(path)} would escape {ROOT} directory")
    if not all(map(_is_name, parts)):
        raise ToolError(f"Path {printable(path)} is not a plain path")
    return parts


def _file_parts(path: str) -> _Parts:
    """The parts of the path of a file that is to be written."""
    parts = _parts(path)
    if not parts or path.endswith("/"):
        raise ToolError(f"{path} is a directory; give the path of a file")
    return parts


def _is_name(part: str) -> bool:
    return part not in {"", ".", ".."} and "/" not in part and not _is_unsafe(part)


# ── Texts for the model ─────────────────────────────────────────────────────────────────


def _viewed(path: str, text: str, view_range: Any) -> str:
    """A file with line numbers, or the lines of a range (from 1, both included; -1 is the end)."""
    lines, head = text.split("\n"), f"Here's the content of {path} with line numbers:\n"
    if view_range is None:
        shown = _fitting(lines)
        left = len(lines) - len(shown)
        more = f"\n… {left} more lines; view them with view_range [{len(shown) + 1}, -1]" if left else ""
        return head + _numbered(shown, 1) + more
    is_pair = isinstance(view_range, list) and [type(number) for number in view_range] == [int, int]
    first, last = view_range if is_pair else (1, 0)
    first, last = max(1, first), len(lines) if last == -1 else last
    if not first <= min(last, len(lines)):
        raise ToolError(
            f"Invalid `view_range` parameter: {printable(repr(view_range))}. It should be two line numbers "
            f"within [1, {len(lines)}], the second not before the first, or -1 for the end"
        )
    return head + _numbered(lines[first - 1 : last], first)


def _fitting(lines: Sequence[str]) -> Sequence[str]:
    """The first lines that a view shows, at least one."""
    room = MAX_VIEWED_CHARS
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return lines[: max(1, count)]
    return lines


def _numbered(lines: Iterable[str], first: int) -> str:
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _places(text: str, part: str) -> list[int]:
    """Where a part begins in a text, overlaps included."""
    found, place = [], text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found


def _listing(path: str, depth: int, files: Sequence[_File]) -> str:
    """A directory with its contents up to two levels below; a directory's size is that of all its files."""
    sizes: dict[_Parts, int] = {}  # a directory's ends in an empty part
    whole = 0
    for file in files:
        inside = file.parts[depth:]
        whole += file.size
        for level in range(1, min(_LEVELS, len(inside)) + 1):
            if inside[level - 1].startswith("."):
                break
            name = inside[:level] + ("",) * (level < len(inside))
            sizes[name] = sizes.get(name, 0) + file.size
    listed = sorted(sizes)[:MAX_LISTED_COUNT]
    more = [f"… {len(sizes) - len(listed)} more; view a subdirectory"] if len(sizes) > len(listed) else []
    head = f"Here're the files and directories up to {_LEVELS} levels deep in {path}, excluding hidden items:"
    return "\n".join(
        [
            head,
            f"{_size(whole)}\t{path}",
            *(f"{_size(sizes[name])}\t{path}/{'/'.join(name)}" for name in listed),
            *more,
        ]
    )


def _size(count: int) -> str:
    """A number of bytes, as `du -h` shows it.

    >>> _size(0), _size(900), _size(2048), _size(2049), _size(5632)
    ('0B', '900B', '2K', '2.0K', '5.5K')
    """
    size, unit = float(count), "B"
    for larger in "KMG":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f}{unit}" if size.is_integer() else f"{size:.1f}{unit}"
