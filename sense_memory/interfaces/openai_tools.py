"""The tools of an agent for OpenAI's function calling, in chat completions and in responses.

Schemas are strict by default, so that the service itself enforces them: every argument is required, and an optional
argument may be null. What a model passes is checked nevertheless, because not every service with this protocol is
strict.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sense_memory.interfaces.functions import StoreTools


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOT_JSON: Final = "the arguments must be a JSON object"


class OpenAITools(StoreTools):
    """The tools of an agent, declared for a model and called by name. Arguments and errors as `StoreTools`."""

    def chat(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """`tools` of a chat completion; without `strict` for services that do not know it."""
        return [
            {
                "type": "function",
                "function": _function(tool.name, tool.description, tool.parameters, strict=strict),
            }
            for tool in self.by_name.values()
        ]

    def responses(self, *, strict: bool = True) -> list[dict[str, Any]]:
        """`tools` of a response."""
        return [
            {"type": "function", **_function(tool.name, tool.description, tool.parameters, strict=strict)}
            for tool in self.by_name.values()
        ]

    async def dispatch(self, name: str, arguments: str) -> str:
        """Call a tool as a model asks, and return JSON for the model.

        Args:
            name: of the tool; only those that were declared can be called.
            arguments: a JSON object, as the model wrote it.

        Bad arguments and failed calls return an object whose only key is `error`; a bug is raised.
        """
        given = _arguments(arguments)
        return _json({"error": _NOT_JSON} if given is None else await self.call(name, given))

    def dispatch_blocking(self, name: str, arguments: str) -> str:
        """As `dispatch`, in any thread but that of the store's event loop."""
        given = _arguments(arguments)
        return _json({"error": _NOT_JSON} if given is None else self.call_blocking(name, given))

    async def answers(self, calls: Iterable[Any]) -> list[dict[str, Any]]:
        """Call tools one after the other, and return what the next request has to contain.

        Args:
            calls: `message.tool_calls` of a chat completion, or `response.output`, of which other items are skipped.
        """
        return [_answer(call, await self.dispatch(*asked)) for call in calls if (asked := _asked(call))]

    def answers_blocking(self, calls: Iterable[Any]) -> list[dict[str, Any]]:
        """As `answers`, in any thread but that of the store's event loop."""
        return [_answer(call, self.dispatch_blocking(*asked)) for call in calls if (asked := _asked(call))]


def _asked(call: Any) -> tuple[str, str] | None:
    """The name and the arguments of a call; None for any other item."""
    kind = getattr(call, "type", None)
    if kind == "function":
        return call.function.name, call.function.arguments
    return (call.name, call.arguments) if kind == "function_call" else None


def _answer(call: Any, told: str) -> dict[str, Any]:
    if call.type == "function":
        return {"role": "tool", "tool_call_id": call.id, "content": told}
    return {"type": "function_call_output", "call_id": call.call_id, "output": told}


def _arguments(text: object) -> dict[str, Any] | None:
    """The JSON object in a text; an empty text, which some models send, means an empty object."""
    if not isinstance(text, str):
        return None
    try:
        found = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _json(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False)  # escapes would cost a model more tokens


def _function(name: str, description: str, parameters: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    schema = _strict(parameters) if strict else dict(parameters)
    return {"name": name, "description": description, "parameters": schema, "strict": strict}


def _strict(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every property required; optional ones may be null and name their default."""
    properties = {
        name: dict(part) if name in parameters["required"] else _nullable(part)
        for name, part in parameters["properties"].items()
    }
    return {**parameters, "properties": properties, "required": list(properties)}


def _nullable(part: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in part.items() if key != "default"}
    found["type"] = [part["type"], "null"]
    if "enum" in part:
        found["enum"] = [*part["enum"], None]
    if "default" in part:
        told = f"by default {part['default']}"
        found["description"] = f"{part['description']}; {told}" if "description" in part else told
    return found
