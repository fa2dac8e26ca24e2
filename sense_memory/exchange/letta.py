"""Agent files of Letta (`.af`): JSON with agents, their blocks of core memory, messages and archival passages. Pure.

* A block becomes a block of the mind with its description and limit; one too long for a block becomes passages.
* The messages of an agent become a conversation: what the user and the agent said. Packets that older agents wrap around
  a message (`user_message`, `send_message`) are opened; other packets, thoughts and tool calls are counted.
* An archival passage, and a file that an agent reads, becomes a passage of the archive.
* Instructions, tools, rules, groups and settings have no place here, and are counted.

Ids in an agent file (`message-6`) are numbered anew by every export, so they identify nothing: an entry or passage is
known by its agent, time and text, and the next export of the same agent adds only what is new.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import items
from sense_memory.exchange.conversations import ROLES, Chat, ExportedMessage, add_chat, passages
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult
from sense_memory.mind.blocks import MAX_BLOCK_CHARS


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLOCK_LISTS: Final = ("core_memory", "memory_blocks", "blocks")
_PASSAGE_LISTS: Final = ("archival_memory", "archival_passages", "passages")
_LEFT_OUT: Final = {  # lists of a file or an agent that have no place here, with the reason
    "tools": "tools",
    "tool_ids": "",  # the tools themselves are counted
    "groups": "groups of agents",
    "sources": "sources of files",
    "mcp_servers": "MCP servers",
    "skills": "skills",
    "tool_rules": "rules for tools",
    "tool_exec_environment_variables": "environment variables",
}
_OPENED: Final = "user_message"  # the packet with the words of the user
_EVENTS: Final = frozenset({"login", "heartbeat", "system_alert", "system_message"})  # packets of the program
_unfit = re.compile(r"[^A-Za-z0-9_-]").sub


def agent_file(found: Any) -> dict[str, Any] | None:
    """The agent file in a JSON value, which may be a text that is JSON itself; None for any other value."""
    whole = _json(found) if isinstance(found, str) else found
    if not isinstance(whole, dict):
        return None
    is_todays = isinstance(whole.get("agents"), list) and isinstance(whole.get("blocks"), list)
    is_first = isinstance(whole.get("core_memory"), list) and isinstance(whole.get("messages"), list)
    return whole if is_todays or is_first else None


def read(given: Any, file: str) -> ReaderResult:
    """Read an agent file.

    Args:
        given: the JSON value.
        file: the file's name for people.

    Raises:
        InvalidInput: the value is no agent file.
    """
    found = agent_file(given)
    if found is None:
        raise InvalidInput("is not an agent file of Letta: it has no agents, or no blocks")
    reading = ReaderResult("an agent file of Letta")
    listed = found.get("agents")
    agents = listed if isinstance(listed, list) else [found]
    blocks = BlockRecords(reading, file, items.time_of(found.get("created_at")))
    shared = {str(block.get("id")): block for block in _dicts(found, "blocks")}
    used, titles = set[str](), set[str]()
    for number, agent in enumerate(agents, 1):
        if not isinstance(agent, dict):
            reading.problems.append(Problem(file, number, "the agent is not an object"))
            continue
        idents = agent.get("block_ids")
        known = [str(ident) for ident in idents if str(ident) in shared] if isinstance(idents, list) else []
        name = _unique(_text(agent.get("name")) or "agent", titles)
        for block in (
            *(shared[ident] for ident in known if ident not in used),
            *_dicts(agent, *_BLOCK_LISTS),
        ):
            blocks.add(block, name, number)
        used |= set(known)
        _agent(agent, name, number, reading, file)
    for block in (block for ident, block in shared.items() if ident not in used):
        blocks.add(block, "", 0)
    for document in _dicts(found, "files"):
        _file(document, reading, file)
    _count(found, reading)
    reading.left_out += Counter[str]()  # drops zeros
    return reading


def _unique(name: str, taken: set[str]) -> str:
    number, wanted = 1, name
    while wanted in taken:
        number += 1
        wanted = f"{name} {number}"
    taken.add(wanted)
    return wanted


def _dicts(found: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    """The objects of the first of these lists that has any."""
    for name in names:
        listed = found.get(name)
        some = [value for value in listed if isinstance(value, dict)] if isinstance(listed, list) else []
        if some:
            return some
    return []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(found: Mapping[str, Any], reading: ReaderResult) -> None:
    for name, reason in _LEFT_OUT.items():
        some = found.get(name)
        if reason and isinstance(some, list | dict) and some:
            reading.left_out[reason] += len(some)


class BlockRecords:
    """Adds blocks of core memory to a reading; each label is given once.

    Args:
        reading: what was found.
        file: the file's name for people.
        at: when the file was written, seconds since 1970; None if unknown.
    """

    def __init__(self, reading: ReaderResult, file: str, at: float | None) -> None:
        self._reading, self._file, self._at = reading, file, at
        self._values: dict[str, str] = {}

    def add(self, block: Mapping[str, Any], agent: str, number: int) -> None:
        """Add a block; agents that share one give it once, and a second block of a label gets the agent's name."""
        value = _text(block.get("value"))
        if not value.strip():
            self._reading.left_out["empty blocks"] += 1
            return
        label = _label(_text(block.get("label")) or "block")
        if self._values.get(label, value) != value:
            label = _label(f"{label}-{items.slug(agent)}")
            while self._values.get(label, value) != value:
                label += "-2"
        if label in self._values:
            self._reading.left_out["duplicates"] += 1
            return
        self._values[label] = value
        if len(value) > MAX_BLOCK_CHARS:
            self._reading.notes.append(
                f"{self._file}: the block {label!r} has more than {MAX_BLOCK_CHARS:,} characters, "
                "and becomes passages of the archive"
            )
            place = (self._file, number)
            self._reading.items += passages(
                f"letta/{agent}/{label}", value, title=label, tags=["letta"], at=self._at, place=place
            )
            return
        limit = block.get("limit")
        fields = {
            "description": _text(block.get("description")),
            "value": value,
            "limit": min(max(limit if type(limit) is int else 0, len(value)), MAX_BLOCK_CHARS),
            "read_only": block.get("read_only") is True,
            "version": 1,
            "ts": self._at,
        }
        path = f"mind/block/{label}"
        self._reading.items.append(
            Item(ItemKind.MIND, path, value, self._file, number, self._at, fields=fields)
        )


def _label(text: str) -> str:
    """A label that can name a block here."""
    found = _unfit("_", text)[:60]
    return found if found[:1].isalpha() or found[:1] == "_" else f"_{found}"


def _file(given: Mapping[str, Any], reading: ReaderResult, file: str) -> None:
    title = _text(given.get("original_file_name")) or _text(given.get("file_name")) or "file"
    content, at = _text(given.get("content")), items.time_of(given.get("file_creation_date"))
    if content.strip():
        ident, place = f"letta/file/{title}/{content}", (file, 0)
        reading.items += passages(ident, content, title=title, tags=["letta"], at=at, place=place)
    else:
        reading.left_out["files without text"] += 1


def _agent(agent: Mapping[str, Any], name: str, number: int, reading: ReaderResult, file: str) -> None:
    """Add the conversation and the passages of one agent; count the rest of it."""
    reading.left_out["instructions of an agent"] += bool(_text(agent.get("system")).strip())
    if "agents" not in agent and "block_ids" in agent:
        _count(agent, reading)
    messages: list[ExportedMessage] = []
    for place, message in enumerate(_dicts(agent, "messages"), 1):
        messages += _messages(message, f"{name}/{place}", reading)
    at = items.time_of(agent.get("created_at"))
    if messages:
        add_chat(reading, Chat(name, name, at, tuple(messages)), "Letta", file, number)
    for place, passage in enumerate(_dicts(agent, *_PASSAGE_LISTS), 1):
        text = _text(passage.get("text")) or _text(passage.get("content"))
        if not text.strip():
            reading.problems.append(Problem(file, place, f"passage {place} of {name} has no text"))
            continue
        tags = passage.get("tags")
        named = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        then = items.time_of(passage.get("created_at"))
        ident = f"letta/{name}/{then}/{text}"
        reading.items += passages(
            ident, text, title="", tags=named or ["letta"], at=then, place=(file, place)
        )


def _messages(message: Mapping[str, Any], place: str, reading: ReaderResult) -> Iterator[ExportedMessage]:
    """What one message says: nothing for instructions and tools, and one text for each `send_message`."""
    role, at = _text(message.get("role")).lower(), items.time_of(message.get("created_at"))
    spoken = [(role, text) for text in _said(message.get("content") or message.get("text"), reading)]
    if role in {"system", "developer"}:
        reading.left_out["system messages"] += 1
        return
    if role in {"tool", "function", "approval"} or ROLES.get(role) is None:
        reading.left_out["tool calls" if role in {"tool", "function"} else "messages of another role"] += 1
        return
    if role == "user":
        spoken = [(role, text) for _, said in spoken for text in _user_words(said, reading)]
    spoken += [("assistant", text) for text in _sent(message.get("tool_calls"), reading)]
    for number, (who, text) in enumerate(spoken):
        if text.strip():
            ident = items.fingerprint(f"{at if at is not None else place}/{who}/{number}/{text}")
            yield ExportedMessage(ident, ROLES[who], text, at, _text(message.get("name")) * (who == "user"))
    if not spoken:
        reading.left_out["messages without text"] += 1


def _said(content: Any, reading: ReaderResult) -> list[str]:
    """The text of a message's content, as one text; thoughts are counted, other parts without text are named."""
    if isinstance(content, str):
        return [content] if content.strip() else []
    found = list[str]()
    for part in content if isinstance(content, list) else ():
        kind = _text(part.get("type")) if isinstance(part, dict) else ""
        if isinstance(part, str):
            found.append(part)
        elif kind in {"", "text"}:
            found.append(_text(part.get("text")) if isinstance(part, dict) else "")
        elif "reasoning" in kind:
            reading.left_out["thoughts of the model"] += 1
        elif kind in {"tool_call", "tool_return"}:
            reading.left_out["tool calls"] += 1
        else:
            found.append(f"[{kind[:40]}]")
    whole = "\n".join(text for text in found if text.strip())
    return [whole] if whole else []


def _user_words(text: str, reading: ReaderResult) -> list[str]:
    """The words of a user, without the packet of an older agent; the packets of events are counted."""
    packet = _json(text)
    kind = _text(packet.get("type"))
    if kind == _OPENED and isinstance(packet.get("message"), str):
        return [packet["message"]]
    if kind not in _EVENTS:
        return [text]
    reading.left_out["events of the program"] += 1
    return []


def _sent(calls: Any, reading: ReaderResult) -> Iterator[str]:
    """What an agent said by calling `send_message`; other calls are counted."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        named = function if isinstance(function, dict) else {}
        words = _json(_text(named.get("arguments"))).get("message")
        if named.get("name") == "send_message" and isinstance(words, str):
            yield words
        else:
            reading.left_out["tool calls"] += 1


def _json(text: str) -> dict[str, Any]:
    """The object in a text; empty if the text is none."""
    try:
        found = orjson.loads(text) if text.lstrip()[:1] == "{" else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
