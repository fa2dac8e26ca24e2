"""Messages in the formats of chat APIs: OpenAI's chat completions, and Anthropic's messages. Pure.

Guaranteed: a message that came in a format goes out in that format as it came, with tool calls, results, content in blocks
and fields that this program does not know. In the other format it keeps its texts, images, calls and results, and loses
what that format does not have, such as thinking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.mind.chat import messages
from sense_memory.plain_text import label


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.mind.log import LogEntry

_OPENAI_ROLES: Final = {"developer": "system", "function": "tool"}  # roles that are stored under another name
_SPOKEN: Final = {f"{messages.KIND_PREFIX}{role}": role for role in messages.ROLES if role != "tool"}
_NOTHING: Final = "nothing was appended"
_EARLIER: Final = "The earlier messages are summarised in the system prompt."


# ── From an API ─────────────────────────────────────────────────────────────────────────


def from_openai(given: object) -> tuple[str, dict[str, Any]]:
    """The role and the payload of a message of OpenAI's chat completions.

    Raises:
        InvalidInput: the value is not such a message.
    """
    fields = _fields(given)
    shown = fields.pop("role", None)
    role = _OPENAI_ROLES.get(str(shown), shown)
    if role not in messages.ROLES:
        known = ", ".join((*messages.ROLES, *_OPENAI_ROLES))
        raise InvalidInput(f"an OpenAI message needs one of the roles {known}; {_NOTHING}")
    payload = {"format": "openai"} | _content(fields)
    fields.pop("content", None)
    if calls := fields.pop("tool_calls", None) if fields.get("tool_calls") else None:
        found = [messages.of_openai(call) for call in calls] if isinstance(calls, list) else [None]
        if None in found:
            raise InvalidInput(f"each tool call of an OpenAI message needs an id; {_NOTHING}")
        payload |= {"tool_calls": [call.id for call in found if call], "calls": calls}
    if isinstance(fields.get("tool_call_id"), str):
        payload["tool_call_id"] = fields.pop("tool_call_id")
    more = fields | ({} if shown == role else {"role": shown})
    return str(role), payload | ({"more": more} if more else {})


def from_anthropic(given: object) -> tuple[str, dict[str, Any]]:
    """The role and the payload of a message of Anthropic's API. Only role and content of a response are kept.

    Raises:
        InvalidInput: the value is not such a message.
    """
    fields = _fields(given)
    role, content = fields.get("role"), fields.get("content")
    if role not in ("user", "assistant", "system") or not isinstance(content, str | list):
        known = "the role user, assistant or system, and text or a list as its content"
        raise InvalidInput(f"an Anthropic message needs {known}; {_NOTHING}")
    payload = {"format": "anthropic"} | _content(fields)
    blocks = payload.get("blocks", ())
    is_result = bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
    return "tool" if is_result else str(role), payload


def _fields(given: object) -> dict[str, Any]:
    try:
        found = plain(given)
    except (RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(f"a message must be a mapping, or an object of the SDK; {_NOTHING}")
    return found


def plain(value: object) -> Any:
    """A value as JSON has it: of an object of an SDK, the fields that were set."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def _content(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a payload for the content of a message."""
    content = fields.get("content")
    if isinstance(content, str):
        return {"content": content}
    if isinstance(content, list):
        text, blocks = messages.packed(content)
        return {"content": text, "blocks": blocks}
    if content is None:
        return {"content": "", "no_content": "null" if "content" in fields else "absent"}
    raise InvalidInput(f"the content of a message must be text or a list; {_NOTHING}")


# ── To OpenAI ───────────────────────────────────────────────────────────────────────────


def to_openai(entries: Iterable[LogEntry], system: str = "", *, is_cut: bool = False) -> list[dict[str, Any]]:
    """Messages for OpenAI's chat completions.

    Args:
        entries: the messages.
        system: the system prompt.
        is_cut: whether earlier messages were summarised. A result that came after its call was summarised is a user's
            message then, because the API refuses a result without a call.
    """
    found: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for entry in entries:
        payload, role = entry.payload, _SPOKEN.get(entry.kind)
        # Most messages are no more than this, and a context may have thousands.
        if role and len(payload) == 1 and isinstance(content := payload.get("content"), str):
            found.append({"role": role, "content": content})
        else:
            found += _to_openai(entry)
    return list(_with_calls_of_openai(found)) if is_cut else found


def _with_calls_of_openai(found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages, with each result as a user's message whose call is not before it."""
    made = set[str]()
    for shown in found:
        if shown["role"] == "tool" and str(shown.get("tool_call_id")) not in made:
            content = shown.get("content")
            yield {"role": "user", "content": content if isinstance(content, list) else f"[tool] {content}"}
            continue
        made |= {call.id for call in messages.calls(shown)}
        yield shown


def _to_openai(entry: LogEntry) -> Iterable[dict[str, Any]]:
    role, payload = entry.kind.removeprefix(messages.KIND_PREFIX), entry.payload
    if payload.get("format") == "anthropic":
        return _openai_of_anthropic(role, payload)
    more = payload.get("more")
    more = more if isinstance(more, dict) else {}
    if role == "tool" and not payload.get("tool_call_id") and not more:
        # A result of an unknown call is refused as a tool's message.
        return ({"role": "user", "content": f"{label(entry.actor)} {messages.text_of(payload)}"},)
    found: dict[str, Any] = {"role": role}
    if payload.get("no_content") != "absent":
        is_null = payload.get("no_content") == "null"
        content: Any = messages.unpacked(payload) if "blocks" in payload else messages.text_of(payload)
        found["content"] = None if is_null else content
    if "calls" in payload:
        found["tool_calls"] = payload["calls"]
    elif "format" not in payload and (
        calls := [messages.as_openai(call) for call in messages.calls(payload)]
    ):
        found["tool_calls"] = calls
    if payload.get("tool_call_id"):
        found["tool_call_id"] = payload["tool_call_id"]
    return (found | more,)


def _openai_of_anthropic(role: str, payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "blocks" not in payload:
        yield {"role": role, "content": messages.text_of(payload)}
        return
    blocks = messages.unpacked(payload)
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    if role in {"assistant", "system"}:
        calls = [messages.as_openai(call) for call in messages.calls(payload)]
        content = "\n".join(texts)
        yield {"role": role, "content": content or (None if calls else "")} | (
            {"tool_calls": calls} if calls else {}
        )
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            ident = str(block.get("tool_use_id", ""))
            yield {"role": "tool", "tool_call_id": ident, "content": _result_text(block.get("content"))}
    parts = [_openai_part(block) for block in blocks if block.get("type") != "tool_result"]
    if parts:
        yield {"role": "user", "content": parts}


def _openai_part(block: Mapping[str, Any]) -> dict[str, Any]:
    source = block.get("source")
    if block.get("type") == "text":
        return {"type": "text", "text": str(block.get("text", ""))}
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") in {"url", "base64"}:
        data = f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": str(source.get("url", data))}}
    return {"type": "text", "text": f"[{block.get('type')}]"}


def _result_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(_openai_part(block).get("text", "[image]")) for block in content)
    return content if isinstance(content, str) else ""


# ── To Anthropic ────────────────────────────────────────────────────────────────────────


def to_anthropic(
    entries: Iterable[LogEntry], system: str = "", *, is_cut: bool = False
) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the messages for Anthropic's API.

    Args:
        entries: the messages.
        system: the beginning of the system prompt; messages of the role system that came in another format follow.
        is_cut: whether earlier messages were summarised. A user's message then says so if an assistant's would be first
            or none is left, and a result that came after its call was summarised is no result but a text; the API refuses both.
    """
    prompts, found = [system] if system else [], list[dict[str, Any]]()
    # Whether the last message has results only; the results of parallel calls are added to it.
    is_joined = False
    for entry in entries:
        role, payload = entry.kind.removeprefix(messages.KIND_PREFIX), entry.payload
        if payload.get("format") == "anthropic":
            content: Any = messages.unpacked(payload) if "blocks" in payload else messages.text_of(payload)
            found.append({"role": "user" if role == "tool" else role, "content": content})
            is_joined = False
        elif role == "system":
            prompts.append(messages.text_of(payload))
        else:
            content = _anthropic_content(role, payload)
            is_result = role == "tool" and isinstance(content, list)
            if is_result and is_joined:
                found[-1]["content"] += content
            elif content:  # the API refuses messages and texts that are blank
                found.append({"role": "assistant" if role == "assistant" else "user", "content": content})
            is_joined = is_result
    if is_cut:
        found = list(_with_calls_of_anthropic(found))
    if is_cut and (not found or found[0]["role"] == "assistant"):
        found.insert(0, {"role": "user", "content": _EARLIER})
    return "\n\n".join(prompts), found


def _with_calls_of_anthropic(found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages, with the content of each result instead of it whose call is not before it."""
    made = set[str]()
    for shown in found:
        blocks = shown["content"]
        if not isinstance(blocks, list):
            yield shown
            continue
        made |= {str(block.get("id")) for block in blocks if block.get("type") == "tool_use"}
        lost = [
            block
            for block in blocks
            if block.get("type") == "tool_result" and str(block.get("tool_use_id")) not in made
        ]
        held = [block for block in blocks if block not in lost]  # results have to come first
        content = held + [part for block in lost for part in _parts(block.get("content"))]
        if content or not lost:  # the API refuses empty messages
            yield {**shown, "content": content}


def _parts(content: object) -> list[dict[str, Any]]:
    """The content of a result as blocks."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": f"[tool] {content}"}] if content else []


def _anthropic_content(role: str, payload: Mapping[str, Any]) -> str | list[dict[str, Any]]:
    """The content of a message that did not come from Anthropic."""
    more = payload.get("more")
    refused = more.get("refusal") if isinstance(more, dict) else None
    text = messages.text_of(payload) or str(refused or "")
    found = [_anthropic_block(part) for part in messages.unpacked(payload)] if "blocks" in payload else []
    blocks = [block for block in found if block["type"] != "text" or block["text"].strip()]
    if role == "tool" and payload.get("tool_call_id"):
        ident = str(payload["tool_call_id"])
        return [{"type": "tool_result", "tool_use_id": ident, "content": blocks or text}]
    text = text if text.strip() else ""
    calls = [_tool_use(call) for call in messages.calls(payload)]
    if not calls:
        return blocks or text
    return [*(blocks or ([{"type": "text", "text": text}] if text else [])), *calls]


def _tool_use(call: messages.ToolCall) -> dict[str, Any]:
    try:
        given = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        given = call.arguments
    taken = given if isinstance(given, dict) else {"input": given}
    return {"type": "tool_use", "id": call.id, "name": call.name or "unknown", "input": taken}


def _anthropic_block(part: Mapping[str, Any]) -> dict[str, Any]:
    image = part.get("image_url")
    if part.get("type") == "text":
        return {"type": "text", "text": str(part.get("text", ""))}
    if part.get("type") == "image_url" and isinstance(image, dict):
        url = str(image.get("url", ""))
        head, _, data = url.partition(";base64,")
        if data and head.startswith("data:"):
            source = {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
        else:
            source = {"type": "url", "url": url}
        return {"type": "image", "source": source}
    return {"type": "text", "text": str(part.get("refusal") or f"[{part.get('type')}]")}
