"""Messages and tool calls, and their form in the log. Pure.

A message is an entry of the kind `message.user`, `message.assistant`, `message.system` or `message.tool`. Its payload has
the text in `content`, which every version of this program reads. Of a message that a chat API wrote (`chat.formats`), the
payload also has what is needed to give the same message back:

    format          openai or anthropic; missing for a message of `Conversation.add`
    blocks          the content, if it is a list; a text in it is a number, the length of its part of `content`
    tool_calls      the ids of calls that are not in the blocks
    calls           these calls as OpenAI writes them
    tool_call_id    the id of the call that the message answers
    no_content      null or absent: the content that the message has instead of a text
    more            all other fields
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.mind.fields import list_in
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sense_memory.mind.log import LogEntry

ROLES: Final = ("user", "assistant", "system", "tool")
KIND_PREFIX: Final = "message."  # of the kind of an entry that is a message; the role follows
_KINDS: Final = {f"{KIND_PREFIX}{role}": role for role in ROLES}
_ARGUMENTS_CHARS: Final = 400  # of a call in a transcript


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by a model.

    Attributes:
        id: the id that the result names.
        name: the tool; empty if only the id is known.
        arguments: JSON as the model wrote it; for a custom tool of OpenAI, any text.
    """

    id: str
    name: str = ""
    arguments: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        id: the id of the message's entry in the log.
        role: user, assistant, system or tool.
        content: the text; of a content in blocks, the texts of its blocks and of the results of tools.
        at: when it was said, seconds since 1970.
        name: the speaker or the tool; empty if unknown.
        tool_calls: the calls that an assistant's message makes.
        answers: the ids of the calls that the message answers; Anthropic's messages may answer several.
    """

    id: str
    role: str
    content: str = field(repr=False)
    at: float
    name: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    answers: tuple[str, ...] = ()

    @property
    def tool_call_id(self) -> str:
        """The id of the call that the message answers, the first if there are several; empty for none."""
        return self.answers[0] if self.answers else ""


def role_of(entry: LogEntry) -> str | None:
    """The role of a message; None for an entry that is not a message."""
    return _KINDS.get(entry.kind)


def message(entry: LogEntry) -> Message:
    """The message in an entry."""
    role, payload = entry.kind.removeprefix(KIND_PREFIX), entry.payload
    name = "" if entry.actor == role else entry.actor
    if payload.keys() == {"content"}:
        return Message(entry.id, role, str(payload["content"]), entry.at, name)
    return Message(
        entry.id, role, text_of(payload), entry.at, name, tuple(calls(payload)), tuple(answers(payload))
    )


def text_of(payload: Mapping[str, Any]) -> str:
    """The text of a message."""
    return str(payload.get("content", ""))


def is_from_tool(entry: LogEntry) -> bool:
    """Whether a message is the result of a tool, or has one among its blocks: not all of it is what its speaker said."""
    blocks = list_in(entry.payload, "blocks")
    is_result = any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)
    return is_result or role_of(entry) == "tool"


def own_text(entry: LogEntry) -> str:
    """The text of a message without the results of tools among its blocks; nothing of a result."""
    return "\n".join(text_of(part.payload) for part in by_speaker(entry) if role_of(part) != "tool")


def by_speaker(entry: LogEntry) -> Iterator[LogEntry]:
    """A message; as two, the first of a tool, if results of tools stand beside the words of its speaker."""
    if role_of(entry) == "tool" or not is_from_tool(entry):
        yield entry
        return
    blocks = unpacked(entry.payload)
    results, own = (
        packed(block for block in blocks if block.get("type") == kind)[0] for kind in ("tool_result", "text")
    )
    yield replace(entry, kind=f"{KIND_PREFIX}tool", actor="tool", payload={"content": results})
    if own:
        yield replace(entry, payload={"content": own})


# ── Calls and results ───────────────────────────────────────────────────────────────────


def calls(payload: Mapping[str, Any]) -> Iterator[ToolCall]:
    """The calls that a message makes; of messages that an earlier version stored, only the ids may be known."""
    full = {found.id: found for item in list_in(payload, "calls") if (found := of_openai(item)) is not None}
    for item in list_in(payload, "tool_calls"):
        found = of_openai(item) if isinstance(item, dict) else None
        yield found or full.get(str(item)) or ToolCall(str(item))
    for block in list_in(payload, "blocks"):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            arguments = _json(block.get("input"))
            yield ToolCall(str(block.get("id", "")), str(block.get("name", "")), arguments)


def answers(payload: Mapping[str, Any]) -> Iterator[str]:
    """The ids of the calls that a message answers."""
    if ident := payload.get("tool_call_id"):
        yield str(ident)
    for block in list_in(payload, "blocks"):
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield str(block.get("tool_use_id", ""))


def of_openai(given: object) -> ToolCall | None:
    """A call as OpenAI writes it; None if the value is no call."""
    if not isinstance(given, dict) or not isinstance(given.get("id"), str):
        return None
    about = given.get("function") or given.get("custom")
    about = about if isinstance(about, dict) else {}
    return ToolCall(
        given["id"], str(about.get("name", "")), str(about.get("arguments", about.get("input", "")))
    )


def as_openai(call: ToolCall) -> dict[str, Any]:
    """A call as OpenAI writes it."""
    function = {"name": call.name or "unknown", "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


# ── Content in blocks ───────────────────────────────────────────────────────────────────


def packed(blocks: Iterable[Any]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a content in blocks, and the blocks with a length in the place of each text.

    >>> packed([{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "https://x.example"}}])
    ('Look:', [{'type': 'text', 'text': 5}, {'type': 'image_url', 'image_url': {'url': 'https://x.example'}}])
    """
    texts: list[str] = []

    def pack(block: object) -> dict[str, Any]:
        if not isinstance(block, dict):
            raise InvalidInput("each block of a content must be a mapping")
        name = _NAMES.get(str(block.get("type")))
        if name is None or (held := block.get(name)) is None:
            return block
        if isinstance(held, list):
            return {**block, name: [pack(item) for item in held]}
        if not isinstance(held, str):
            raise InvalidInput("the text of a block must be text")
        texts.append(held)
        return {**block, name: len(held)}

    found = [pack(block) for block in blocks]
    return "\n".join(texts), found


def unpacked(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a message, with their texts."""
    text, place = text_of(payload), 0

    def unpack(block: dict[str, Any]) -> dict[str, Any]:
        nonlocal place
        name = _NAMES.get(str(block.get("type")), "")
        held = block.get(name)
        if isinstance(held, list):
            return {**block, name: [unpack(item) for item in held if isinstance(item, dict)]}
        if type(held) is not int:
            return block
        start, place = place, place + held + 1
        return {**block, name: text[start : start + held]}

    return [unpack(block) for block in list_in(payload, "blocks") if isinstance(block, dict)]


_NAMES: Final = {"text": "text", "tool_result": "content"}  # the fields with the texts of blocks


# ── For models ──────────────────────────────────────────────────────────────────────────


def counted(entry: LogEntry) -> Iterator[str]:
    """The texts of a message that cost tokens: its text after its role, its calls, other blocks, and fields such as
    `reasoning_content`.
    """
    payload = entry.payload
    yield f"{entry.kind.removeprefix(KIND_PREFIX)}: {text_of(payload)}"
    for call in calls(payload):
        yield f"{call.name} {call.arguments}"
    for block in list_in(payload, "blocks"):
        if isinstance(block, dict) and str(block.get("type")) not in {"text", "tool_use"}:
            yield _json(block)
    more = payload.get("more")
    if isinstance(more, dict) and (sent := {name: held for name, held in more.items() if held}):
        yield _json(sent)


def line(entry: LogEntry) -> str:
    """A message as one line of a transcript: its role with the name in parentheses, the text, and the calls.

    A line begins with the role, so that no name speaks as another role. Hidden characters are escaped.
    """
    found = message(entry)
    speaker = f"{found.role} ({one_line(found.name)})" if found.name else found.role
    made = (
        f"[calls {call.name}({call.arguments[:_ARGUMENTS_CHARS]})]" for call in found.tool_calls if call.name
    )
    return one_line(" ".join((f"{speaker}: {found.content}", *made)))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
