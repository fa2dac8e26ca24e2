"""The formats that can be imported: how each is recognised, and its reader.

A format is recognised by content. The file name decides only for notes: any Markdown file is a note, and a note with a
name like `2026-11-20.md` is a daily note. To recognise a format, only the beginning of a file is read.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import (
    basic_memory,
    cogx,
    conversations,
    knowledge_graph,
    letta,
    markdown,
    mempalace,
    readable,
    structured,
)
from sense_memory.exchange.import_files import (
    SQLITE_HEAD,
    SourceFiles,
    open_files,
    read_source,
    text_of,
    utf8_of,
)
from sense_memory.exchange.items import Problem, ReaderResult


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sense_memory.exchange.import_files import Source

EVENTS: Final = "events"  # our encrypted export and other Nostr events, which `MemoryStore.import_` imports
_CHATS: Final = re.compile(r"(?:.*/)?conversations[-_]?\d*\.json").fullmatch
_IGNORED_FILES: Final = {  # files in exports of ChatGPT and Claude, with the reason for leaving them out
    "users.json": "account data",
    "user.json": "account data",
    "user_settings.json": "account settings",
    "message_feedback.json": "feedback on messages",
    "model_comparisons.json": "model comparisons",
    "shared_conversations.json": "links to shared conversations",
    "chat.html": "the same conversations as HTML",
}
_GZIP: Final = b"\x1f\x8b"
_HEAD_BYTES: Final = 400
_EVENT_BYTES: Final = 4_000_000  # the first JSON line of a file of events is looked for in this many bytes,
_EVENT_LINES: Final = 50  # and in this many lines
_SAMPLE_COUNT: Final = 5  # notes of a folder that are looked at, and
_SAMPLE_LINES: Final = 20  # lines of JSON lines


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be imported.

    Attributes:
        name: its name for `--as`.
        about: a description for people.
        read: the reader.
    """

    name: str
    about: str
    read: Callable[[SourceFiles], ReaderResult]


def _json_files(files: SourceFiles, format_: str = "") -> ReaderResult:
    reading = ReaderResult(format_ or "JSON", problems=list(files.problems), left_out=Counter(files.left_out))
    formats = []
    for source in files.sources:
        try:
            found = _json_file(source, format_)
        except InvalidInput as error:
            reading.problems.append(Problem(source.shown, 0, str(error)))
        else:
            formats.append(found.format)
            reading.add(found)
    reading.format = ", ".join(dict.fromkeys(formats)) or reading.format
    return reading


def _json_file(source: Source, format_: str = "") -> ReaderResult:
    raw = utf8_of(read_source(source))
    found, bad = structured.parsed(raw)
    first = next((value for _, value in found), None)
    if readable.is_readable_line(first):
        return readable.read_lines(raw, source.shown)
    if format_ == "server-memory" or (not format_ and _is_graph(first, raw)):
        if not knowledge_graph.is_graph(first):
            found, bad = structured.lines_of(raw)
        return knowledge_graph.read(found, bad, source.shown)
    if format_ == "letta" or (not format_ and letta.agent_file(first) is not None):
        return letta.read(first, source.shown)
    if not format_ and _are_messages(found):
        reading = conversations.read(found, source.shown)
        reading.problems += [Problem(source.shown, number, reason) for number, reason in bad]
        return reading
    name = "memories of mem0" if format_ == "mem0" or structured.is_mem0(first) else "JSON"
    return structured.objects(found, bad, source.shown, name)


def _is_graph(first: Any, raw: bytes) -> bool:
    """Whether a file has entities or relations; a single relation is looked for in the line, because its object is flat."""
    lines = b"\n".join(raw.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
    return any(
        knowledge_graph.is_record(value) for value in (first, *(v for _, v in structured.lines_of(lines)[0]))
    )


def _are_messages(found: list[tuple[int, Any]]) -> bool:
    values = [value for _, value in found[:20]]
    return any(conversations.kind_of(value) or conversations.is_turn(value) for value in values) or (
        bool(values) and all(conversations.is_message(value) for value in values)
    )


def _chat_files(files: SourceFiles) -> ReaderResult:
    """An export of ChatGPT or Claude: its conversations, and Claude's projects and memories."""
    reading = ReaderResult("conversations", problems=list(files.problems), left_out=Counter(files.left_out))
    formats = set[str]()
    for source in files.sources:
        is_chats = files.is_single or _CHATS(source.name) is not None
        try:
            found = _chat_file(source, files, is_chats=is_chats)
        except InvalidInput as error:
            reading.problems.append(Problem(source.shown, 0, str(error)))
            continue
        reading.add(found)
        formats |= {found.format} if is_chats else set()
    reading.format = formats.pop() if len(formats) == 1 else "conversations"
    return reading


def _chat_file(source: Source, files: SourceFiles, *, is_chats: bool) -> ReaderResult:
    """What one file of an export of ChatGPT or Claude contains.

    Raises:
        InvalidInput: the file cannot be read.
    """
    name = source.path.name
    if is_chats:
        return conversations.read(structured.parsed(utf8_of(read_source(source)))[0], source.shown)
    if name == "projects.json":
        return conversations.claude_projects(structured.parsed(read_source(source))[0], source.shown)
    if name == "memories.json":
        parsed = structured.parsed(read_source(source))[0]
        return conversations.claude_memories(parsed, source.shown, _projects(files))
    return ReaderResult("", left_out=Counter([_IGNORED_FILES.get(name, "other files")]))


def _projects(files: SourceFiles) -> list[tuple[int, Any]]:
    """The objects of Claude's `projects.json`; empty if it cannot be read, which `_chat_file` reports."""
    for source in files.sources:
        if source.path.name == "projects.json":
            with suppress(InvalidInput):
                return structured.parsed(read_source(source))[0]
    return []


FORMATS: Final = {
    item.name: item
    for item in (
        Format("readable", "our own readable export", readable.read_folder),
        Format("openclaw", "an OpenClaw workspace", lambda files: markdown.folder(files, markdown.OPENCLAW)),
        Format("markdown", "a folder of notes", lambda files: markdown.folder(files, "a folder of notes")),
        Format(
            "notes", "one note with headings and lists", lambda files: markdown.note(files, as_daily=False)
        ),
        Format("daily", "one daily note", lambda files: markdown.note(files, as_daily=True)),
        Format("json", "JSON or JSON lines", lambda files: _json_files(files, "JSON")),
        Format("mem0", "memories of mem0", lambda files: _json_files(files, "mem0")),
        Format(
            "server-memory", "the graph of server-memory", lambda files: _json_files(files, "server-memory")
        ),
        Format("letta", "an agent file of Letta", lambda files: _json_files(files, "letta")),
        Format("mempalace", "a store or an export of MemPalace", mempalace.read),
        Format("basic-memory", "notes of basic-memory", basic_memory.read),
        Format("cogx", "an archive of cognee", cogx.read),
        Format("chats", "conversations of ChatGPT, Claude and others", _chat_files),
    )
}
NAMES: Final = (*FORMATS, EVENTS)


def recognise(path: Path) -> tuple[str, SourceFiles | None]:
    """The format of a file, folder or archive, and its files unless the format is `events`.

    The format is one of `NAMES`, or `file` for JSON, whose format each object decides.

    Raises:
        InvalidInput: the format is not known.
        OSError: the path cannot be read.
    """
    if url := re.match(r"(wss?:)/+(.*)", str(path)):
        raise InvalidInput(
            f"add the relay and sync instead: `sense-memory relays add {url[1]}//{url[2]}`, then `sense-memory sync`. Memories "
            "of the published sense-memory 0.3 are on its relays; use the key that wrote them (`init --import`)"
        )
    files = open_files(path)
    name = _of_file(files.sources[0]) if files.is_single else _of_folder(files)
    return (name, None) if name == EVENTS else (name, files)


def read(path: Path, format_: str = "") -> ReaderResult:
    """Read a file, a folder or a zip archive.

    Args:
        path: the file, folder or archive.
        format_: one of `NAMES`; empty to recognise the format.

    Raises:
        InvalidInput: the format is not known, or is `events`, which `MemoryStore.import_` imports.
        OSError: the path cannot be read.
    """
    check_name(format_)
    name, files = (format_, open_files(path)) if format_ else recognise(path)
    if files is None or name == EVENTS:
        raise InvalidInput(f"{path} contains events; use `store.import_`")
    if name == "file":
        return _json_files(files)
    return FORMATS[name].read(files)


def check_name(format_: str) -> None:
    """Raise InvalidInput if no format has this name; an empty name is valid."""
    if format_ and format_ not in NAMES:
        raise InvalidInput(f"no format named {format_!r}; choose {', '.join(NAMES)}")


def _of_folder(files: SourceFiles) -> str:
    names = {source.name for source in files.sources}
    if readable.MANIFEST in names:
        return "readable"
    if any(_CHATS(name) for name in names):
        return "chats"
    notes = [source for source in files.sources if source.path.suffix.lower() in markdown.NOTES]
    if notes and all(_is_readable_note(_head(source)) for source in notes[:_SAMPLE_COUNT]):
        return "readable"  # a part of an export
    if any(cogx.is_archive(files, _head(manifest)) for manifest in files.named(cogx.MANIFEST)):
        return "cogx"
    if mempalace.is_store(files):
        return "mempalace"
    if index := files.named("index.md"):
        head = _head(index[0])
        if head.startswith((b"# Palace Export", b"# Snapshot Index", b"# Wing Export")):
            return "mempalace"
    if files.named("MEMORY.md") or {"SOUL.md", "memory"} & {name.partition("/")[0] for name in names}:
        return "openclaw"
    if notes and all(basic_memory.is_note(_head(source)) for source in notes[:_SAMPLE_COUNT]):
        return "basic-memory"
    objects = [source for source in files.sources if source.path.suffix.lower() in {".json", ".jsonl"}]
    if objects and not notes:
        return "file"
    return "markdown"


def _of_file(source: Source) -> str:
    suffix = source.path.suffix.lower()
    head = _head(source)
    if suffix in markdown.NOTES:
        return _of_note(source, head)
    if head.startswith(SQLITE_HEAD):
        return "mempalace"
    if not head.strip() or _is_event(source):
        return EVENTS
    if head.startswith(_GZIP):
        raise InvalidInput(f"unpack {source.name} first: it is compressed with gzip; nothing was written")
    begin = _first_character(head)
    if begin == '"' and suffix == ".af":  # some servers write the agent file as a text in JSON
        return "letta"
    if begin not in {"{", "["}:
        known = "; ".join(f"{item.about} ({item.name})" for item in FORMATS.values())
        raise InvalidInput(
            f"the format of {source.name} is not recognised, and nothing was written; name it with `--as NAME`. Formats: {known}; our encrypted export and other Nostr events ({EVENTS})"
        )
    return "file"


def _first_character(head: bytes) -> str:
    """The first character that is no blank; empty if the bytes are no text. The last character may be cut."""
    for cut in range(4):
        with suppress(InvalidInput):
            return text_of(head[: len(head) - cut])[0].lstrip()[:1]
    return ""


def _of_note(source: Source, head: bytes) -> str:
    if _is_readable_note(head):
        return "readable"
    if basic_memory.is_note(head):
        return "basic-memory"
    return "daily" if markdown.is_daily(source) else "notes"


def _is_readable_note(head: bytes) -> bool:
    return head.startswith((b"---\nsense-memory: ", b"---\r\nsense-memory: "))


def _head(source: Source, size: int = _HEAD_BYTES) -> bytes:
    """The first bytes of a file; empty if it cannot be read."""
    try:
        return read_source(source, size)
    except InvalidInput:
        return b""


def _is_event(source: Source) -> bool:
    """Whether the first line that is JSON is a Nostr event."""
    for line in _head(source, _EVENT_BYTES).split(b"\n")[:_EVENT_LINES]:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        return isinstance(found, dict) and {"pubkey", "sig"} <= found.keys()
    return False
