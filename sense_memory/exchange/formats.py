"""Which format a file or a folder has, from what is in it; and the reader of each.

The name is asked only where the content says nothing: every Markdown file is a note, and `2026-11-20.md` a day.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import conversations, markdown, readable, structured
from sense_memory.exchange.import_files import Files, open_files, read_source, text_of
from sense_memory.exchange.items import Problem, ReaderResult


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sense_memory.exchange.import_files import Source

EVENTS: Final = "events"  # our encrypted export, and any Nostr events: `MemoryStore.import_` takes them
_CHATS: Final = re.compile(r"(?:.*/)?conversations[-_]?\d*\.json").fullmatch
_NOT_TAKEN: Final = {  # of exports of ChatGPT and Claude, by what it is
    "users.json": "data of the account",
    "user.json": "data of the account",
    "user_settings.json": "settings of the account",
    "message_feedback.json": "feedback on messages",
    "model_comparisons.json": "comparisons of models",
    "shared_conversations.json": "links to shared conversations",
    "chat.html": "the same conversations as a page",
}
_HEAD_BYTES: Final = 400
_LOOKED_AT: Final = 5  # notes of a folder


@dataclass(frozen=True, slots=True)
class Format:
    """A format.

    Attributes:
        name: as `--as` takes it.
        about: what it is, for people.
        read: the reader.
    """

    name: str
    about: str
    read: Callable[[Files], ReaderResult]


def _json_files(files: Files, format_: str = "") -> ReaderResult:
    reading = ReaderResult(format_ or "JSON", problems=list(files.problems), left_out=Counter(files.left_out))
    formats = []
    for source in files.sources:
        try:
            found = _json(source, format_)
        except InvalidInput as error:
            reading.problems.append(Problem(source.shown, 0, str(error)))
        else:
            formats.append(found.format)
            reading.add(found)
    reading.format = ", ".join(dict.fromkeys(formats)) or reading.format
    return reading


def _json(source: Source, format_: str = "") -> ReaderResult:
    raw = _utf8(read_source(source))
    found, bad = structured.parsed(raw)
    first = next((value for _, value in found), None)
    if readable.is_readable_line(first):
        return readable.read_lines(raw, source.shown)
    if not format_ and _are_chats(found):
        reading = conversations.read(found, source.shown)
        reading.problems += [Problem(source.shown, number, reason) for number, reason in bad]
        return reading
    name = "memories of mem0" if format_ == "mem0" or structured.is_mem0(first) else "JSON"
    return structured.objects(found, bad, source.shown, name)


def _are_chats(found: list[tuple[int, Any]]) -> bool:
    values = [value for _, value in found[:20]]
    return any(conversations.kind_of(value) or conversations.is_turn(value) for value in values) or (
        bool(values) and all(conversations.is_message(value) for value in values)
    )


def _utf8(raw: bytes) -> bytes:
    """JSON in UTF-8, whatever its encoding was."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return text_of(raw)[0].encode()
    return raw.removeprefix(b"\xef\xbb\xbf") if b"\0" not in raw[:_HEAD_BYTES] else text_of(raw)[0].encode()


def _chat_files(files: Files) -> ReaderResult:
    """An export of ChatGPT or Claude: its conversations, and Claude's projects and memories."""
    reading = ReaderResult("conversations", problems=list(files.problems), left_out=Counter(files.left_out))
    formats = []
    for source in files.sources:
        name = source.path.name
        try:
            if _CHATS(source.name) or files.is_single:
                found = conversations.read(structured.parsed(_utf8(read_source(source)))[0], source.shown)
                formats.append(found.format)
            elif name == "projects.json":
                found = conversations.claude_projects(structured.parsed(read_source(source))[0], source.shown)
            elif name == "memories.json":
                parsed = structured.parsed(read_source(source))[0]
                found = conversations.claude_memories(parsed, source.shown, _projects(files))
            else:
                reading.left_out[_NOT_TAKEN.get(name, "other files")] += 1
                continue
        except InvalidInput as error:
            reading.problems.append(Problem(source.shown, 0, str(error)))
            continue
        reading.add(found)
    reading.format = formats[0] if len(set(formats)) == 1 else "conversations"
    return reading


def _projects(files: Files) -> list[tuple[int, Any]]:
    """The objects of Claude's `projects.json`; none where it cannot be read, which its own reading says."""
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
        Format("mempalace", "an export of MemPalace", markdown.mempalace),
        Format("chats", "conversations of ChatGPT, Claude and others", _chat_files),
    )
}
NAMES: Final = (*FORMATS, EVENTS)


def recognise(path: Path) -> tuple[str, Files | None]:
    """The format of what lies at a path, and its files where the format is not `events`.

    The format is one of `NAMES`, or `file` for JSON, where each file's objects say what they are.

    Raises:
        InvalidInput: nothing is known about it.
        OSError: it cannot be read.
    """
    if url := re.match(r"(wss?:)/+(.*)", str(path)):
        raise InvalidInput(
            f"add the relay and sync instead: `sense-memory relays add {url[1]}//{url[2]}`, then `sense-memory sync`. What the "
            "published sense-memory 0.3 wrote lies on its relays under its key (`init --import`), and arrives so"
        )
    files = open_files(path)
    name = _of_file(files.sources[0]) if files.is_single else _of_folder(files)
    return (name, None) if name == EVENTS else (name, files)


def read(path: Path, format_: str = "") -> ReaderResult:
    """Read what lies at a path.

    Args:
        path: a file, a folder or a zip archive.
        format_: one of `NAMES`; by default what `recognise` finds.

    Raises:
        InvalidInput: there is no such format, or the events are for `MemoryStore.import_`.
        OSError: the path cannot be read.
    """
    check_name(format_)
    name, files = (format_, open_files(path)) if format_ else recognise(path)
    if files is None or name == EVENTS:
        raise InvalidInput(f"{path} holds events; `store.import_` takes them")
    if name == "file":
        return _json_files(files)
    return FORMATS[name].read(files)


def check_name(format_: str) -> None:
    """Raise InvalidInput where no format has this name; an empty one means that it is recognised."""
    if format_ and format_ not in NAMES:
        raise InvalidInput(f"there is no format {format_!r}; choose {', '.join(NAMES)}")


def _of_folder(files: Files) -> str:
    names = {source.name for source in files.sources}
    if readable.MANIFEST in names:
        return "readable"
    if any(_CHATS(name) for name in names):
        return "chats"
    notes = [source for source in files.sources if source.path.suffix.lower() in markdown.NOTES]
    if notes and all(_is_ours(_head(source)) for source in notes[:_LOOKED_AT]):
        return "readable"  # a part of an export
    if index := files.named("index.md"):
        head = _head(index[0])
        if head.startswith((b"# Palace Export", b"# Snapshot Index", b"# Wing Export")):
            return "mempalace"
    if files.named("MEMORY.md") or {"SOUL.md", "memory"} & {name.partition("/")[0] for name in names}:
        return "openclaw"
    objects = [source for source in files.sources if source.path.suffix.lower() in {".json", ".jsonl"}]
    if objects and not notes:
        return "file"
    return "markdown"


def _of_file(source: Source) -> str:
    suffix = source.path.suffix.lower()
    head = _head(source)
    if suffix in markdown.NOTES:
        return "readable" if _is_ours(head) else "daily" if markdown.is_daily(source) else "notes"
    if not head.strip() or _is_event(source):
        return EVENTS
    try:
        begin = text_of(head)[0].lstrip()[:1]
    except InvalidInput:
        begin = ""
    if begin not in {"{", "["}:
        known = "; ".join(f"{item.about} ({item.name})" for item in FORMATS.values())
        raise InvalidInput(
            f"{source.shown} has no format that import knows; nothing was written. Known are: {known}; our encrypted export "
            f"and other Nostr events ({EVENTS}). `--as NAME` reads a file as one of them"
        )
    return "file"


def _is_ours(head: bytes) -> bool:
    return head.startswith((b"---\nsense-memory: ", b"---\r\nsense-memory: "))


def _head(source: Source) -> bytes:
    try:
        return read_source(source)[:_HEAD_BYTES] if source.size < 64 * 1_024 * 1_024 else b"["
    except InvalidInput:
        return b""


def _is_event(source: Source) -> bool:
    """Whether the first line that is JSON is a Nostr event."""
    try:
        raw = read_source(source)
    except InvalidInput:
        return False
    for line in raw[:4_000_000].split(b"\n")[:50]:
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        return isinstance(found, dict) and {"pubkey", "sig"} <= found.keys()
    return False
