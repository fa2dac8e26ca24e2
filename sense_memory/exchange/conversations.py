"""Conversations of ChatGPT, Claude and other programs, as entries of the log. Pure.

A message keeps its time, and gets an id that follows from it and from the message's own id: importing the same export
again, here or on another device, makes the same entries. Of a conversation in which a message was edited or an answer
made anew, the branch that was last shown is taken; the others are counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.exchange import items
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult
from sense_memory.exchange.markdown import FreePaths
from sense_memory.exchange.transcript import conversation_of, messages_in
from sense_memory.mind.conversation import IMPORTED


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ROLES: Final = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_UNSHOWN: Final = frozenset({"thoughts", "reasoning_recap", "thinking", "redacted_thinking"})
_TEXTLESS: Final = "messages without a text"
_MOST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """One message, as its export has it."""

    ident: str
    role: str
    text: str = field(repr=False)
    at: float | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Chat:
    """One conversation, as its export has it."""

    ident: str
    title: str
    at: float | None
    said: tuple[ExportedMessage, ...]


def kind_of(found: Any) -> str:
    """What a conversation's object is: ChatGPT, Claude, chat, or empty for none."""
    if not isinstance(found, dict):
        return ""
    if isinstance(found.get("mapping"), dict):
        return "ChatGPT"
    if isinstance(found.get("chat_messages"), list):
        return "Claude"
    messages = found.get("messages")
    is_chat = (
        isinstance(messages, list)
        and messages
        and all(_has_speaker_and_text(message) for message in messages[:3])
    )
    return "chat" if is_chat else ""


def _has_speaker_and_text(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("role", found.get("sender")), str)
        and any(name in found for name in ("content", "text", "parts"))
    )


def is_message(found: Any) -> bool:
    """Whether an object is a message on its own, as in JSON lines of one conversation."""
    return _has_speaker_and_text(found) and str(found.get("role", found.get("sender"))).lower() in _ROLES


def read(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """The conversations among the objects of a file, or all its messages as one conversation."""
    reading = ReaderResult("conversations")
    if any(is_turn(value) for _, value in found[:20]):
        return _sessions(found, file)
    if found and all(is_message(value) for _, value in found[:5]):
        found = [
            (1, {"id": items.fingerprint(file), "title": file, "messages": [value for _, value in found]})
        ]
    kinds = []
    for number, value in found:
        kind = kind_of(value)
        if not kind:
            reading.problems.append(Problem(file, number, "is not a conversation"))
            continue
        kinds.append(kind)
        reader = {"ChatGPT": _chatgpt, "Claude": _claude, "chat": _plain}[kind]
        _add(reading, reader(value, reading), kind, file, number)
    reading.left_out += Counter[str]()  # drops zeros
    reading.format = (
        f"conversations of {kinds[0]}" if len(set(kinds)) == 1 and kinds[0] != "chat" else "conversations"
    )
    return reading


def is_turn(found: Any) -> bool:
    """Whether an object is a line of a session of Claude Code."""
    return isinstance(found, dict) and isinstance(found.get("sessionId"), str) and "type" in found


def _sessions(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """The sessions of Claude Code in the lines of a file, as the hook before a compaction keeps them."""
    reading = ReaderResult("sessions of Claude Code")
    begun = set[str]()
    for number, value in found:
        if not is_turn(value):
            reading.problems.append(Problem(file, number, "is not a line of a session"))
            continue
        session, message = value["sessionId"], value.get("message")
        if isinstance(message, dict):
            _blocks_text(message.get("content"), reading)  # counts what is not taken
        path = conversation_of(session)
        for said in messages_in(value, session):
            if path not in begun:
                begun.add(path)
                reading.items.append(
                    _title(
                        path, _text(value.get("cwd")), "Claude Code", file=file, number=number, begin=said.at
                    )
                )
            fields = {
                "kind": f"message.{said.role}",
                "actor": said.role,
                "payload": {"content": said.content},
                "id": said.id,
            }
            origin = items.tool("claude-code", str(value.get("uuid") or number))
            reading.items.append(
                Item(ItemKind.LOG, path, said.content, file, number, said.at, origin, fields)
            )
    reading.left_out += Counter[str]()  # drops zeros
    return reading


def _title(path: str, title: str, kind: str, *, file: str, number: int, begin: float | None) -> Item:
    """The entry that begins a conversation which was imported."""
    fields = {
        "kind": IMPORTED,
        "actor": "import",
        "payload": {"text": title, "format": kind, "file": file},
        "id": _id(begin, path, "title"),
    }
    return Item(ItemKind.LOG, path, title, file, number, begin, fields=fields)


def _add(reading: ReaderResult, chat: Chat, kind: str, file: str, number: int) -> None:
    """The entries of one conversation: its title, then its messages in order."""
    if not chat.said:
        reading.left_out["conversations without a message"] += 1
        return
    name = kind.lower()
    path = items.name_of(f"{name}-{chat.ident}", 100)
    times = [said.at for said in chat.said if said.at is not None]
    begin = min([*times, *([] if chat.at is None else [chat.at])], default=None)
    last = (begin or 0.0) - 1e-6  # of entries without any date, the plan says when
    reading.items.append(_title(path, chat.title, kind, file=file, number=number, begin=begin))
    for said, then in zip(chat.said, _in_order(chat.said), strict=True):
        for count, part in enumerate(items.parts_of(said.text)):
            last = max(last + 1e-6, then)
            payload: dict[str, Any] = {"content": part}
            fields = {
                "kind": f"message.{said.role}",
                "actor": said.name[:_MOST_NAME] or said.role,
                "payload": payload,
                "id": _id(said.at if said.at is not None else begin, path, f"{said.ident}/{count}"),
            }
            origin = items.tool(name, said.ident)
            at = None if begin is None else last
            reading.items.append(Item(ItemKind.LOG, path, part, file, number, at, origin, fields))


def _in_order(messages: Sequence[ExportedMessage]) -> list[float]:
    """The times of messages, 0 where there is none; a system message is never later than what follows.

    ChatGPT dates the system message of a conversation that was continued later than the questions after it.
    """
    times, earliest = list[float](), float("inf")
    for said in reversed(messages):
        at = said.at or 0.0
        if said.role == "system":
            at = min(at, earliest - 1e-6)
        elif said.at is not None:
            earliest = min(earliest, at)
        times.append(at)
    return times[::-1]


def _id(at: float | None, conversation: str, message: str) -> str:
    """The id of an entry: the microsecond, as ids of the log begin, and a hash."""
    mark = hashlib.sha256(f"{conversation}\n{message}".encode("utf-8", "replace")).hexdigest()[:7]
    return f"{int((at or 0.0) * 1e6) & (1 << 52) - 1:013x}{mark}"


# ── ChatGPT ─────────────────────────────────────────────────────────────────────────────


def _chatgpt(found: Mapping[str, Any], reading: ReaderResult) -> Chat:
    mapping: dict[str, Any] = found["mapping"]
    branch = _branch(mapping, found.get("current_node"))
    said = [message for node in branch if (message := _chatgpt_message(node, mapping, reading))]
    ignored = mapping.keys() - set(branch)
    others = sum(_chatgpt_message(node, mapping, ReaderResult("")) is not None for node in ignored)
    if others:
        reading.left_out["messages of other branches"] += others
    ident = str(found.get("conversation_id") or found.get("id") or items.fingerprint("".join(mapping)))
    return Chat(ident, str(found.get("title") or ""), items.time_of(found.get("create_time")), tuple(said))


def _branch(mapping: Mapping[str, Any], current: object) -> list[str]:
    """The nodes from the root to the current one; without one, to the newest leaf."""
    node = current if isinstance(current, str) and current in mapping else _newest_leaf(mapping)
    path: dict[str, None] = {}
    while isinstance(node, str) and node in mapping and node not in path:
        path[node] = None
        node = mapping[node].get("parent") if isinstance(mapping[node], dict) else None
    return list(path)[::-1]


def _newest_leaf(mapping: Mapping[str, Any]) -> str | None:
    def when(node: str) -> float:
        value = mapping[node]
        message = value.get("message") if isinstance(value, dict) else None
        at = items.time_of(message.get("create_time")) if isinstance(message, dict) else None
        return at or 0.0

    leaves = [
        node for node, value in mapping.items() if isinstance(value, dict) and not value.get("children")
    ]
    return max(leaves, key=when, default=None)


def _chatgpt_message(node: str, mapping: Mapping[str, Any], reading: ReaderResult) -> ExportedMessage | None:
    value = mapping[node]
    message = value.get("message") if isinstance(value, dict) else None
    if not isinstance(message, dict):
        return None
    author, content = message.get("author"), message.get("content")
    author = author if isinstance(author, dict) else {}
    role = _ROLES.get(str(author.get("role", "")).lower())
    if role is None or not isinstance(content, dict):
        reading.left_out[_TEXTLESS] += 1
        return None
    if str(content.get("content_type")) in _UNSHOWN:
        reading.left_out["thoughts of the model"] += 1
        return None
    text = _chatgpt_text(content, message)
    if not text.strip():
        reading.left_out[_TEXTLESS] += content.get("content_type") != "text"
        return None
    name = author.get("name")
    at = items.time_of(message.get("create_time"))
    return ExportedMessage(
        str(message.get("id") or node), role, text, at, name if isinstance(name, str) else ""
    )


def _chatgpt_text(content: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if isinstance(parts, list):
        text = "\n".join(filter(None, map(_part, parts)))
        if text.strip():
            return text
    named = ("text", "result", "content", "user_profile", "user_instructions", "model_set_context")
    found = [content[name] for name in named if isinstance(content.get(name), str)]
    metadata = message.get("metadata")
    told = metadata.get("user_context_message_data") if isinstance(metadata, dict) else None
    if not found and isinstance(told, dict):
        found = [value for value in told.values() if isinstance(value, str)]
    return "\n".join(found)


def _part(part: Any) -> str:
    """A part of a message as text; anything else is named in brackets."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("content_type") or part.get("type") or "file")
    return f"[{kind.partition('_')[0]}]"


# ── Claude ──────────────────────────────────────────────────────────────────────────────


def _claude(found: Mapping[str, Any], reading: ReaderResult) -> Chat:
    said: list[ExportedMessage] = []
    for number, message in enumerate(found["chat_messages"], 1):
        if isinstance(message, dict):
            said += _claude_message(message, number, reading)
    ident = str(found.get("uuid") or items.fingerprint(str(found.get("name"))))
    at = items.time_of(found.get("created_at"))
    return Chat(ident, str(found.get("name") or ""), at, tuple(said))


def _claude_message(
    message: Mapping[str, Any], number: int, reading: ReaderResult
) -> Iterator[ExportedMessage]:
    role = _ROLES.get(str(message.get("sender", "")).lower())
    if role is None:
        reading.left_out[_TEXTLESS] += 1
        return
    ident, at = str(message.get("uuid") or number), items.time_of(message.get("created_at"))
    text = _blocks_text(message.get("content"), reading) or _text(message.get("text"))
    if text.strip():
        yield ExportedMessage(ident, role, text, at)
    for place, file in enumerate(_dicts(message.get("attachments"))):
        content = _text(file.get("extracted_content"))
        name = _text(file.get("file_name")) or "attachment"
        if content.strip():
            yield ExportedMessage(f"{ident}/file-{place}", role, f"[{name}]\n{content}", at, name)
        else:
            reading.left_out["files without their text"] += 1
    reading.left_out.update({"files without their text": len(_dicts(message.get("files")))})


def _blocks_text(blocks: object, reading: ReaderResult) -> str:
    """The text of a message in blocks; calls of tools and their results are named in brackets."""
    found = []
    for block in _dicts(blocks):
        kind = str(block.get("type") or "")
        if kind in _UNSHOWN:
            reading.left_out["thoughts of the model"] += 1
        elif kind == "text":
            found.append(_text(block.get("text")))
        elif kind in {"tool_use", "tool_result"}:
            reading.left_out["calls of tools"] += 1
        elif kind:
            found.append(_part(block))
    return "\n".join(text for text in found if text)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def claude_projects(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """The documents and instructions of Claude's projects, as passages of the archive."""
    reading = ReaderResult("Claude")
    for number, project in found:
        if not isinstance(project, dict):
            continue
        name, at = _text(project.get("name")), items.time_of(project.get("created_at"))
        pages = [("instructions", _text(project.get("prompt_template")), at)]
        pages += [
            (_text(doc.get("filename")), _text(doc.get("content")), items.time_of(doc.get("created_at")))
            for doc in _dicts(project.get("docs"))
        ]
        for title, text, then in pages:
            for count, part in enumerate(items.parts_of(text)):
                if part.strip():
                    ident = items.fingerprint(f"{project.get('uuid')}/{title}/{count}")
                    fields = {"content": part, "tags": [name] if name else [], "topics": [], "title": title}
                    path = f"mind/archive/{ident}"
                    when = {"source": "", "ts": then or at or 0.0}
                    reading.items.append(
                        Item(ItemKind.MIND, path, part, file, number, then, fields={**fields, **when})
                    )
    return reading


_titled = re.compile(r"(?m)^(?:#{1,6}[ \t]+(\S.*)|\*\*([^*\n]+)\*\*:?[ \t]*)$").split


def claude_memories(
    found: list[tuple[int, Any]], file: str, projects: Sequence[tuple[int, Any]] = ()
) -> ReaderResult:
    """What Claude itself remembered of the user and of each project: a memory for each heading, else each paragraph.

    Args:
        found: the objects of `memories.json`.
        file: its name.
        projects: the objects of `projects.json`, which has the names of the projects.
    """
    reading, free = ReaderResult("Claude"), FreePaths()
    titles = {
        str(each.get("uuid")): _text(each.get("name")) for each in _dicts([value for _, value in projects])
    }
    for number, value in found:
        memories = value if isinstance(value, dict) else {}
        told = [("people/claude", _text(memories.get("conversations_memory")))]
        of_projects = memories.get("project_memories")
        for ident, text in of_projects.items() if isinstance(of_projects, dict) else ():
            told.append((f"projects/{items.place_of(titles.get(ident) or ident)}", _text(text)))
        for place, text in told:
            for title, part in _remembered(text):
                key = items.slug(title) if title else items.key_of(part)
                if path := free.free(f"{place}/{key}", part):
                    origin = items.document(file, number)
                    reading.items.append(Item(ItemKind.PALACE, path, part, file, number, None, origin))
    return reading


def _remembered(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a memory of Claude, each with its title: by headings and bold lines, without them by paragraphs."""
    first, *rest = _titled(text)
    for part in re.split(r"\n[ \t]*\n", first):
        if part.strip():
            yield "", part.strip("\r\n")
    for heading, bold, part in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if part.strip():
            yield (heading or bold).strip(), part.strip("\r\n").rstrip()


# ── Others ──────────────────────────────────────────────────────────────────────────────


def _plain(found: Mapping[str, Any], reading: ReaderResult) -> Chat:
    """Messages with a role and a text, as chat programs and model APIs have them."""
    said = []
    for number, message in enumerate(_dicts(found.get("messages")), 1):
        role = _ROLES.get(str(message.get("role", message.get("sender", ""))).lower())
        content = message.get("content", message.get("text", message.get("parts")))
        text = content if isinstance(content, str) else _blocks_text(content, reading)
        if role and text.strip():
            times = (
                message.get(name) for name in ("created_at", "timestamp", "create_time", "at", "ts", "time")
            )
            at = next((at for given in times if (at := items.time_of(given)) is not None), None)
            said.append(
                ExportedMessage(str(message.get("id") or number), role, text, at, _text(message.get("name")))
            )
        elif not isinstance(content, list):  # the parts of a list are counted by their kinds
            reading.left_out[_TEXTLESS] += 1
    ident = str(found.get("id") or found.get("uuid") or items.fingerprint(str(found.get("title"))))
    at = items.time_of(found.get("created_at", found.get("create_time")))
    return Chat(ident, _text(found.get("title")) or _text(found.get("name")), at, tuple(said))
