"""Messages of OpenAI's chat completions as those of agent frameworks: LangChain's and pydantic-ai's. Pure.

Each framework is imported when it is first asked for; it belongs to an optional extra.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Any, cast

from sense_memory.errors import MissingExtra


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import AnyMessage
    from pydantic_ai.messages import ModelMessage, UserContent


def as_langchain(messages: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The messages for LangChain and LangGraph.

    Raises:
        MissingExtra: the extra `langgraph` is not installed.
    """
    try:
        from langchain_core.messages.utils import convert_to_messages
    except ImportError:
        raise MissingExtra("langgraph") from None
    return cast("list[AnyMessage]", convert_to_messages([dict(shown) for shown in messages]))


def as_pydantic_ai(messages: Iterable[Mapping[str, Any]]) -> list[ModelMessage]:
    """The messages for the `message_history` of an agent of pydantic-ai.

    What stands between two answers of the model is one request. A result names the tool of its call.

    Raises:
        MissingExtra: the extra `model` is not installed.
    """
    try:
        from pydantic_ai import messages as kinds
    except ImportError:
        raise MissingExtra("model") from None
    found: list[ModelMessage] = []
    asked: list[Any] = []
    tools: dict[str, str] = {}

    def end_request() -> None:
        if asked:
            found.append(kinds.ModelRequest(parts=list(asked)))
            asked.clear()

    for shown in messages:
        role, content = shown["role"], shown.get("content")
        if role == "assistant":
            end_request()
            parts: list[Any] = [kinds.TextPart(text)] if (text := text_of(content)) else []
            for call in shown.get("tool_calls") or ():
                about = call.get("function") or call.get("custom") or {}
                tools[call["id"]] = about.get("name") or "unknown"
                given = about.get("arguments", about.get("input")) or "{}"
                parts.append(kinds.ToolCallPart(tools[call["id"]], given, tool_call_id=call["id"]))
            found.append(kinds.ModelResponse(parts=parts or [kinds.TextPart("")]))
        elif role == "tool":
            ident = str(shown.get("tool_call_id"))
            asked.append(
                kinds.ToolReturnPart(tools.get(ident, "unknown"), text_of(content), tool_call_id=ident)
            )
        elif role in {"system", "developer"}:
            asked.append(kinds.SystemPromptPart(text_of(content)))
        else:
            asked.append(kinds.UserPromptPart(_user_content(content, kinds)))
    end_request()
    return found


def text_of(content: object) -> str:
    """The text of a content: itself, or the texts of its blocks."""
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
    return content if isinstance(content, str) else ""


def _user_content(content: object, kinds: Any) -> str | list[UserContent]:
    """A user's content; images stay images, and other blocks are named by their type."""
    if not isinstance(content, list):
        return text_of(content)
    return [_user_block(block, kinds) for block in content]


def _user_block(block: Mapping[str, Any], kinds: Any) -> UserContent:
    if block.get("type") == "text":
        return str(block.get("text", ""))
    image = block.get("image_url")
    if block.get("type") != "image_url" or not isinstance(image, dict):
        return f"[{block.get('type')}]"
    url = str(image.get("url", ""))
    head, _, data = url.partition(";base64,")
    if not data or not head.startswith("data:"):
        return cast("UserContent", kinds.ImageUrl(url))
    try:
        return cast("UserContent", kinds.BinaryContent(b64decode(data, validate=True), media_type=head[5:]))
    except NotBase64:
        return "[image_url]"
