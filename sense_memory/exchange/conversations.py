"""Conversations of ChatGPT, Claude and other programs, as entries of the log. Pure.

A message keeps its time. The id of its entry follows from this time and the message's own id, so importing the same export
again, here or on another device, makes the same entries. If a message was edited or an answer repeated, only the branch
that was shown last is imported; messages of other branches are counted.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.exchange import items
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.exchange.transcript import conversation_of, messages_in
from sense_memory.mind.chat.conversation import IMPORTED


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROLES: Final = {
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
_LEFT_OUT: Final = {  # types of content that are no part of the conversation, with the reason
    **dict.fromkeys(
        ("thoughts", "reasoning_recap", "thinking", "redacted_thinking"), "thoughts of the model"
    ),
    **dict.fromkeys(("tool_use", "tool_result"), "tool calls"),
}
_TEXTLESS: Final = "messages without text"
_NO_FILE_TEXT: Final = "attachments without text"
_MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """One message of an exported conversation.

    Attributes:
        ident: its id in the export.
        role: user, assistant, system or tool.
        text: the text, word for word.
        at: seconds since 1970, or None.
        name: the author's name; empty if there is none.
    """

    ident: str
    role: str
    text: str = field(repr=False)
    at: float | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Chat:
    """One exported conversation.

    Attributes:
        ident: its id in the export.
        title: its title, or empty.
        at: when it began, seconds since 1970, or None.
        messages: the messages that are imported, in order.
    """

    ident: str
    title: str
    at: float | None
    messages: tuple[ExportedMessage, ...]


def kind_of(found: Any) -> str:
    """The format of an object that is a conversation (ChatGPT, Claude or chat); empty for any other object."""
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
    """Whether an object is a single message, as in JSON lines of one conversation."""
    return _has_speaker_and_text(found) and str(found.get("role", found.get("sender"))).lower() in ROLES


def read(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """Read the conversations among the objects of a file; if the objects are messages, they are one conversation."""
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
        reader = {"ChatGPT": _chatgpt, "Claude": _claude, "chat": _generic}[kind]
        add_chat(reading, reader(value, reading), kind, file, number)
    reading.left_out += Counter[str]()  # drops zeros
    reading.format = (
        f"conversations of {kinds[0]}" if len(set(kinds)) == 1 and kinds[0] != "chat" else "conversations"
    )
    return reading


def is_turn(found: Any) -> bool:
    """Whether an object is a line of a session of Claude Code."""
    return isinstance(found, dict) and isinstance(found.get("sessionId"), str) and "type" in found


def _sessions(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """Read sessions of Claude Code from the lines of a transcript.

    The entries are the same as those of the hook that stores a session before its context is compacted.
    """
    reading = ReaderResult("sessions of Claude Code")
    begun = set[str]()
    for number, value in found:
        if not is_turn(value):
            reading.problems.append(Problem(file, number, "is not a line of a session"))
            continue
        session, message = value["sessionId"], value.get("message")
        if isinstance(message, dict):
            _count_left_out(message.get("content"), reading)
        path, folder = conversation_of(session), _text(value.get("cwd"))
        for part in messages_in(value, session):
            if path not in begun:
                begun.add(path)
                reading.items.append(
                    _title(path, folder, "Claude Code", file=file, number=number, begin=part.at)
                )
            fields = {
                "kind": f"message.{part.role}",
                "actor": part.role,
                "payload": {"content": part.content},
                "id": part.id,
            }
            origin = items.tool_origin("claude-code", str(value.get("uuid") or number))
            reading.items.append(
                Item(ItemKind.LOG, path, part.content, file, number, part.at, origin, fields)
            )
    reading.left_out += Counter[str]()  # drops zeros
    return reading


def _title(path: str, title: str, kind: str, *, file: str, number: int, begin: float | None) -> Item:
    """The entry at the beginning of an imported conversation, which has the title."""
    fields = {
        "kind": IMPORTED,
        "actor": "import",
        "payload": {"text": title, "format": kind, "file": file},
        "id": _id(begin, path, "title"),
    }
    return Item(ItemKind.LOG, path, title, file, number, begin, fields=fields)


def add_chat(reading: ReaderResult, chat: Chat, kind: str, file: str, number: int) -> None:
    """Add the entries of one conversation: its title, then its messages in order."""
    if not chat.messages:
        reading.left_out["conversations without a message"] += 1
        return
    name = kind.lower()
    path = items.name_of(f"{name}-{chat.ident}", 100)
    times = [message.at for message in chat.messages if message.at is not None]
    begin = min([*times, *([] if chat.at is None else [chat.at])], default=None)
    last = (begin or 0.0) - 1e-6
    reading.items.append(_title(path, chat.title, kind, file=file, number=number, begin=begin))
    for message, then in zip(chat.messages, _in_order(chat.messages), strict=True):
        for count, part in enumerate(items.parts_of(message.text)):
            last = max(last + 1e-6, then)
            payload: dict[str, Any] = {"content": part}
            fields = {
                "kind": f"message.{message.role}",
                "actor": message.name[:_MAX_NAME_CHARS] or message.role,
                "payload": payload,
                "id": _id(message.at if message.at is not None else begin, path, f"{message.ident}/{count}"),
            }
            origin = items.tool_origin(name, message.ident)
            at = None if begin is None else last  # without any date, the plan sets the dates
            reading.items.append(Item(ItemKind.LOG, path, part, file, number, at, origin, fields))


def _in_order(messages: Sequence[ExportedMessage]) -> list[float]:
    """The times of messages, 0 if a message has none; a system message is never later than the messages after it.

    If a conversation was continued, ChatGPT gives its system message a later time than the messages after it.
    """
    times, earliest = list[float](), float("inf")
    for message in reversed(messages):
        at = message.at or 0.0
        if message.role == "system":
            at = min(at, earliest - 1e-6)
        elif message.at is not None:
            earliest = min(earliest, at)
        times.append(at)
    return times[::-1]


def _id(at: float | None, conversation: str, message: str) -> str:
    """The id of an entry: the microsecond, with which every id of the log begins, and a hash."""
    mark = hashlib.sha256(f"{conversation}\n{message}".encode("utf-8", "replace")).hexdigest()[:7]
    return f"{int((at or 0.0) * 1e6) & (1 << 52) - 1:013x}{mark}"


# ── ChatGPT ─────────────────────────────────────────────────────────────────────────────


def _chatgpt(found: Mapping[str, Any], reading: ReaderResult) -> Chat:
    mapping: dict[str, Any] = found["mapping"]
    branch = _branch(mapping, found.get("current_node"))
    messages = [message for node in branch if (message := _chatgpt_message(node, mapping, reading))]
    ignored = mapping.keys() - set(branch)
    others = sum(_chatgpt_message(node, mapping, ReaderResult("")) is not None for node in ignored)
    if others:
        reading.left_out["messages of other branches"] += others
    ident = str(found.get("conversation_id") or found.get("id") or items.fingerprint("".join(mapping)))
    return Chat(
        ident, str(found.get("title") or ""), items.time_of(found.get("create_time")), tuple(messages)
    )


def _branch(mapping: Mapping[str, Any], current: object) -> list[str]:
    """The nodes from the root to the current node, or to the newest leaf if there is no current node."""
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
    role = ROLES.get(str(author.get("role", "")).lower())
    if role is None or not isinstance(content, dict):
        reading.left_out[_TEXTLESS] += 1
        return None
    if reason := _LEFT_OUT.get(str(content.get("content_type"))):
        reading.left_out[reason] += 1
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
    context = metadata.get("user_context_message_data") if isinstance(metadata, dict) else None
    if not found and isinstance(context, dict):
        found = [value for value in context.values() if isinstance(value, str)]
    return "\n".join(found)


def _part(part: Any) -> str:
    """A part of a message as text; a part without text is named in brackets."""
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
    messages: list[ExportedMessage] = []
    for number, message in enumerate(found["chat_messages"], 1):
        if isinstance(message, dict):
            messages += _claude_message(message, number, reading)
    ident = str(found.get("uuid") or items.fingerprint(str(found.get("name"))))
    at = items.time_of(found.get("created_at"))
    return Chat(ident, str(found.get("name") or ""), at, tuple(messages))


def _claude_message(
    message: Mapping[str, Any], number: int, reading: ReaderResult
) -> Iterator[ExportedMessage]:
    role = ROLES.get(str(message.get("sender", "")).lower())
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
            reading.left_out[_NO_FILE_TEXT] += 1
    reading.left_out.update({_NO_FILE_TEXT: len(_dicts(message.get("files")))})


def _blocks_text(blocks: object, reading: ReaderResult) -> str:
    """The text of a message in blocks; thoughts and tool calls are counted, other blocks without text are named."""
    _count_left_out(blocks, reading)
    kinds = [(_kind(block), block) for block in _dicts(blocks)]
    texts = [
        _text(block.get("text")) if kind == "text" else _part(block)
        for kind, block in kinds
        if kind and kind not in _LEFT_OUT
    ]
    return "\n".join(filter(None, texts))


def _count_left_out(blocks: object, reading: ReaderResult) -> None:
    """Count the blocks of a message that are no part of the conversation."""
    kinds = map(_kind, _dicts(blocks))
    reading.left_out.update(_LEFT_OUT[kind] for kind in kinds if kind in _LEFT_OUT)


def _kind(block: Mapping[str, Any]) -> str:
    return str(block.get("type") or "")


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def passages(
    ident: str, text: str, *, title: str, tags: list[str], at: float | None, place: tuple[str, int]
) -> list[Item]:
    """A text as passages of the archive: one, or several if the text is too long for an event.

    Args:
        ident: what the text is in its program; the same text of the same export gives the same records.
        text: the text, word for word.
        title: the title of the passages; may be empty.
        tags: their tags.
        at: when the text was written, seconds since 1970; None if unknown.
        place: the file's name for people, and the line or number of the object.
    """
    file, number = place
    fields = {"tags": tags, "topics": [], "title": title, "source": "", "ts": at or 0.0}
    return [
        Item(ItemKind.MIND, path, part, file, number, at, fields={"content": part, **fields})
        for count, part in enumerate(items.parts_of(text))
        if part.strip() and (path := f"mind/archive/{items.fingerprint(f'{ident}/{count}')}")
    ]


def claude_projects(found: list[tuple[int, Any]], file: str) -> ReaderResult:
    """Read the documents and instructions of Claude's projects, as passages of the archive."""
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
            reading.items += passages(
                f"{project.get('uuid')}/{title}",
                text,
                title=title,
                tags=[name] if name else [],
                at=then or at,
                place=(file, number),
            )
    return reading


_titled = re.compile(r"(?m)^(?:#{1,6}[ \t]+(\S.*)|\*\*([^*\n]+)\*\*:?[ \t]*)$").split


def claude_memories(
    found: list[tuple[int, Any]], file: str, projects: Sequence[tuple[int, Any]] = ()
) -> ReaderResult:
    """Read Claude's own memory of the user and of each project: one memory per heading, or per paragraph without headings.

    Args:
        found: the objects of `memories.json`.
        file: the name of this file, for people.
        projects: the objects of `projects.json`, which have the names of the projects.
    """
    reading, names = ReaderResult("Claude"), UniquePaths()
    titles = {
        str(each.get("uuid")): _text(each.get("name")) for each in _dicts([value for _, value in projects])
    }
    for number, value in found:
        memories = value if isinstance(value, dict) else {}
        texts = [("people/claude", _text(memories.get("conversations_memory")))]
        of_projects = memories.get("project_memories")
        for ident, text in of_projects.items() if isinstance(of_projects, dict) else ():
            texts.append((f"projects/{items.place_of(titles.get(ident) or ident)}", _text(text)))
        for place, text in texts:
            for title, part in _titled_parts(text):
                key = items.slug(title) if title else items.key_of(part)
                if path := names.assign(f"{place}/{key}", part):
                    origin = items.document_origin(file, number)
                    reading.items.append(Item(ItemKind.PALACE, path, part, file, number, None, origin))
    return reading


def _titled_parts(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text with their titles: one for each heading or bold line; each paragraph before the first is a part too."""
    first, *rest = _titled(text)
    for part in re.split(r"\n[ \t]*\n", first):
        if part.strip():
            yield "", part.strip("\r\n")
    for heading, bold, part in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if part.strip():
            yield (heading or bold).strip(), part.strip("\r\n").rstrip()


# ── Other programs ──────────────────────────────────────────────────────────────────────


def _generic(found: Mapping[str, Any], reading: ReaderResult) -> Chat:
    """A conversation of messages with a role and a text, as chat programs and model APIs write them."""
    messages = []
    for number, message in enumerate(_dicts(found.get("messages")), 1):
        role = ROLES.get(str(message.get("role", message.get("sender", ""))).lower())
        content = message.get("content", message.get("text", message.get("parts")))
        text = content if isinstance(content, str) else _blocks_text(content, reading)
        if role and text.strip():
            times = (
                message.get(name) for name in ("created_at", "timestamp", "create_time", "at", "ts", "time")
            )
            at = next((at for given in times if (at := items.time_of(given)) is not None), None)
            messages.append(
                ExportedMessage(str(message.get("id") or number), role, text, at, _text(message.get("name")))
            )
        elif not isinstance(content, list):  # the blocks of a list were counted by type
            reading.left_out[_TEXTLESS] += 1
    ident = str(found.get("id") or found.get("uuid") or items.fingerprint(str(found.get("title"))))
    at = items.time_of(found.get("created_at", found.get("create_time")))
    return Chat(ident, _text(found.get("title")) or _text(found.get("name")), at, tuple(messages))
