"""The tools of an agent as plain functions, for frameworks that take functions as tools.

Frameworks read a tool from its function: name, docstring, and the annotations of its arguments. They look for what an
argument means in different places, so it stands in each: in a line of the docstring under `Args:` (smolagents), and in
the annotation as a plain text (autogen-core) and as a `Field` of pydantic (pydantic-ai, CrewAI). Annotations are types, never
texts that name types. The functions check what a model passes, and answer with a JSON object; what cannot be done is an
answer too, under `error`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import Field

from sense_memory.errors import StoreClosed
from sense_memory.interfaces.store_calls import StoreCalls
from sense_memory.interfaces.tools import MemoryTool, Profile, memory_tools
from sense_memory.sync_store import SyncMemoryStore


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sense_memory.store import MemoryStore


class StoreTools:
    """The tools of an agent on a store, by their names.

    Args:
        store: an open store; a `MemoryStore` in the event loop in which it was opened.
        profile: which tools: "palace", "mind" or "all".
        read_only: only tools that read.
        allow_destructive: also tools whose work cannot be taken back: `forget` and `prune`, and `export` where there is
            an `export_folder`.
        allow_plain_export: also `export_plain`, where there is an `export_folder`.
        export_folder: the only folder that exports are written to.

    Attributes:
        by_name: the tools; a model can call these and no others.

    Raises:
        InvalidInput: not a store, or options that contradict each other.
    """

    def __init__(
        self,
        store: MemoryStore | SyncMemoryStore,
        *,
        profile: Profile | str = Profile.PALACE,
        read_only: bool = False,
        allow_destructive: bool = False,
        allow_plain_export: bool = False,
        export_folder: Path | None = None,
    ) -> None:
        self._calls = StoreCalls(store)
        tools = memory_tools(
            self._calls.store,
            profile=profile,
            read_only=read_only,
            allow_destructive=allow_destructive,
            allow_plain_export=allow_plain_export,
            export_folder=export_folder,
        )
        self.by_name: dict[str, MemoryTool] = {tool.name: tool for tool in tools}

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool, in any event loop; returns a JSON object, with the one key `error` where that failed."""
        try:
            return await self._calls.run(self._call(name, arguments))
        except StoreClosed as error:
            return {"error": str(error)}

    def call_blocking(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """As `call`, in any thread but that of the store's event loop."""
        try:
            return self._calls.wait(self._call(name, arguments))
        except StoreClosed as error:
            return {"error": str(error)}

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool = self.by_name.get(name) if isinstance(name, str) else None
        if tool is None:
            return {"error": f"there is no tool of this name; there are {', '.join(self.by_name)}"}
        required = tool.parameters["required"]
        given = {key: value for key, value in arguments.items() if value is not None or key in required}
        return await tool.call(given)


def memory_functions(store: MemoryStore | SyncMemoryStore, **options: Any) -> list[Callable[..., Any]]:
    """The tools of an agent as functions: async ones on a `MemoryStore`, and blocking ones on a `SyncMemoryStore`.

    Each has a name, a docstring with a line for each argument under `Args:`, and annotations, takes its arguments by name,
    and returns a JSON object as a dict, with the one key `error` where the arguments cannot be used. Keep the store open
    as long as they are used.

    Args:
        store: an open store.
        options: as for `StoreTools`: `profile`, `read_only`, `allow_destructive`, `export_folder`.

    Raises:
        InvalidInput: not a store, or options that contradict each other.
    """
    tools = StoreTools(store, **options)
    is_blocking = isinstance(store, SyncMemoryStore)
    return [_function(tools, tool, is_blocking=is_blocking) for tool in tools.by_name.values()]


def _function(tools: StoreTools, tool: MemoryTool, *, is_blocking: bool) -> Callable[..., Any]:
    signature = inspect.signature(tool.function)
    types = get_type_hints(tool.function, include_extras=True)
    about = {name: part["description"] for name, part in tool.parameters["properties"].items()}
    hints = {name: _described(types[name], text) for name, text in about.items()} | {"return": dict[str, Any]}

    def given(values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        return signature.bind_partial(*values).arguments | named

    async def run(*values: Any, **named: Any) -> dict[str, Any]:
        return await tools.call(tool.name, given(values, named))

    def block(*values: Any, **named: Any) -> dict[str, Any]:
        return tools.call_blocking(tool.name, given(values, named))

    made: Any = block if is_blocking else run
    made.__name__ = made.__qualname__ = tool.name
    made.__doc__ = _docstring(tool.description, about)
    made.__annotations__ = hints
    parameters = [item.replace(annotation=hints[name]) for name, item in signature.parameters.items()]
    made.__signature__ = signature.replace(parameters=parameters, return_annotation=hints["return"])
    function: Callable[..., Any] = made
    return function


def _described(hint: Any, text: str) -> Any:
    """The type of an argument with its description as a text and as a field; the text has to come first."""
    kind, extras = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
    return Annotated[kind, text, *extras] if extras else Annotated[hint, text, Field(description=text)]


def _docstring(description: str, about: Mapping[str, str]) -> str:
    lines = [f"    {name}: {text}" for name, text in about.items()]
    return "\n".join([description, "", "Args:", *lines]) if lines else description
