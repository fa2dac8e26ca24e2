"""One tool that a language model may call, made from an async function: its signature is the schema, its docstring the text.

Every tool of this package is made here: those of the four-tier memory (`sense_memory.mind.tools`), and those of memories
(`sense_memory.interfaces.tools`). A signature and a docstring are written for a model and kept short: every word is paid for
with each prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_Function = TypeVar("_Function", bound="Callable[..., Awaitable[Any]]")
_Tool = TypeVar("_Tool", bound="AgentTool")
_MAX_ERRORS: Final = 3
_ACCESS: Final = "tool_access"


class Access(StrEnum):
    """What a tool may do to a memory."""

    READ = "read"  # changes nothing
    NOTE = "note"  # reads, and notes that it was called, unless the agent may only read
    WRITE = "write"  # what it changes can be taken back; called again, it changes something again
    SETTLE = "settle"  # as WRITE, but called again, it changes nothing
    EXPORT = "export"  # adds a file, and replaces none
    PLAIN_EXPORT = "plain export"  # as EXPORT, and anybody who reads the file reads the memories
    DESTRUCTIVE = "destructive"  # what it deletes is gone; called again, it changes nothing


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One tool.

    Attributes:
        name: as a model calls it.
        description: what it does, for a model.
        parameters: JSON schema of its arguments.
        access: what it may do.
        function: an async function that takes the arguments by name, and raises SenseMemoryError.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    access: Access
    function: Callable[..., Awaitable[Any]] = field(repr=False)

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the tool with a model's arguments; null stands for an argument that is not given.

        Raises:
            InvalidInput: the arguments cannot be used.
            SenseMemoryError: the call failed.
        """
        if not isinstance(arguments, Mapping):
            raise InvalidInput(f"the arguments of {self.name} must be an object")
        given = {name: value for name, value in arguments.items() if value is not None}
        model, _ = arguments_of(getattr(self.function, "__func__", self.function))
        try:
            checked = model.model_validate(given)
        except ValidationError as error:
            unknown = any(item["type"] == "extra_forbidden" for item in error.errors(include_input=False))
            taken = f"; it takes {', '.join(model.model_fields) or 'no arguments'}" if unknown else ""
            raise InvalidInput(f"{self.name}: {problems(error)}{taken}") from None
        return await self.function(**{name: getattr(checked, name) for name in checked.model_fields_set})

    def as_openai(self) -> dict[str, Any]:
        """The tool for OpenAI's chat completions; `interfaces.openai_tools` has strict ones, and those of responses."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def as_anthropic(self) -> dict[str, Any]:
        """The tool for Anthropic's messages."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.parameters)}

    def as_mcp(self) -> dict[str, Any]:
        """The tool for the Model Context Protocol."""
        return {"name": self.name, "description": self.description, "inputSchema": dict(self.parameters)}


def tool(access: Access) -> Callable[[_Function], _Function]:
    """Makes a tool of a method: `tools_of` finds it."""

    def mark(function: _Function) -> _Function:
        setattr(function, _ACCESS, access)
        return function

    return mark


def tools_of(calls: object, kind: type[_Tool], *, read_only: bool = False) -> list[_Tool]:
    """The tools among the methods of an object, in the order of their definition.

    Args:
        calls: has the methods, each marked by `tool`.
        kind: the class of the tools.
        read_only: whether a tool that notes its call only reads.
    """
    marked = (name for name, item in vars(type(calls)).items() if hasattr(item, _ACCESS))
    return [_made(getattr(calls, name), kind, read_only=read_only) for name in marked]


def _made(method: Any, kind: type[_Tool], *, read_only: bool) -> _Tool:
    access = getattr(method, _ACCESS)
    if access is Access.NOTE:
        access = Access.READ if read_only else Access.WRITE
    _, schema = arguments_of(method.__func__)
    return kind(method.__name__, " ".join((inspect.getdoc(method) or "").split()), schema, access, method)


@cache
def arguments_of(function: Callable[..., Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    """A model that checks the arguments of a function, and their schema without what a language model does not need."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid", strict=True), **fields)
    full = model.model_json_schema()
    properties = {name: _plain(part) for name, part in full["properties"].items()}
    schema = {"type": "object", "properties": properties, "required": full.get("required", [])}
    return model, {**schema, "additionalProperties": False}


def _plain(part: Mapping[str, Any]) -> dict[str, Any]:
    """One property: without a title, without null, and with a default only where it says something."""
    found = {key: value for key, value in part.items() if key not in {"title", "anyOf"}}
    for choice in part.get("anyOf", ()):
        if choice != {"type": "null"}:
            found |= choice
    if not found.get("default"):
        found.pop("default", None)
    return found


def problems(error: ValidationError) -> str:
    """What is wrong with arguments, without their values, which may be long or private."""
    found = []
    for item in error.errors(include_input=False, include_url=False, include_context=False)[:_MAX_ERRORS]:
        where = ".".join(map(str, item["loc"]))
        told = {"missing": "is missing", "extra_forbidden": "is not an argument"}.get(item["type"])
        found.append(f"`{where}` {told or item['msg'].replace('Input should be', 'must be')}")
    return "; ".join(found)
