"""Which tools an agent gets, and how they are called: each answer is a JSON object that is safe to show to a model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sense_memory.errors import InvalidInput, NotSynced, SenseMemoryError
from sense_memory.interfaces.tools.palace import PalaceCalls
from sense_memory.mind.agent_tool import Access, AgentTool, tools_of
from sense_memory.mind.tools import FourTierCalls, FourTierParts
from sense_memory.plain_text import printed
from sense_memory.store import MemoryStore


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path


class Profile(StrEnum):
    """Which tools an agent gets."""

    PALACE = "palace"  # memories, palace and journal: eleven tools
    MIND = "mind"  # the four-tier memory of `store.mind`: blocks, archive and conversations
    ALL = "all"


@dataclass(frozen=True, slots=True)
class MemoryTool(AgentTool):
    """A tool whose answers are JSON objects. Its function returns one, or a text, which is the object's `result`."""

    async def call(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the tool with a model's arguments, which are checked first.

        Returns a JSON object. Where the arguments cannot be used, or the call failed, it has the one key `error`, with a
        sentence that says what to do.
        """
        try:
            told = _shown(await self.run({} if arguments is None else arguments))
        except NotSynced:
            return {
                "error": "Not found on this machine, but no relay has shown everything yet: try again in a minute. "
                "`status` tells how far each relay is."
            }
        except SenseMemoryError as error:
            return {"error": str(error)}
        return {"result": told} if isinstance(told, str) else told


def _shown(result: Any) -> Any:
    """A result whose texts are safe to show to a model."""
    if isinstance(result, str):
        return printed(result)
    if isinstance(result, dict):
        return {_shown(name): _shown(item) for name, item in result.items()}
    return list(map(_shown, result)) if isinstance(result, list | tuple) else result


def memory_tools(
    store: MemoryStore | Callable[[], Awaitable[MemoryStore]],
    *,
    profile: Profile | str = Profile.PALACE,
    read_only: bool = False,
    allow_destructive: bool = False,
    allow_plain_export: bool = False,
    export_folder: Path | None = None,
    clock: Callable[[], float] = time.time,
) -> list[MemoryTool]:
    """The tools of an agent.

    Args:
        store: an open store, or an async function that gives one when a tool is first used.
        profile: which tools; see `Profile`.
        read_only: only tools that read; with it, `recall` revives nothing and `introspect` keeps no log.
        allow_destructive: also `forget` and `prune`, and `export` where there is an `export_folder`.
        allow_plain_export: also `export_plain`, where there is an `export_folder`: one call writes everything out as
            plain text.
        export_folder: an existing folder, the only one that `export` and `export_plain` write to.
        clock: returns seconds since 1970.

    Raises:
        InvalidInput: no such profile, or `read_only` together with one of the permissions.
    """
    if profile not in list(Profile):
        raise InvalidInput(f"profile must be one of {', '.join(Profile)}")
    for allowed, name in (
        (allow_destructive, "allow_destructive"),
        (allow_plain_export, "allow_plain_export"),
    ):
        if read_only and allowed:
            raise InvalidInput(f"read_only and {name} contradict each other; choose one")

    async def given() -> MemoryStore:
        return store if isinstance(store, MemoryStore) else await store()

    found = list[MemoryTool]()
    if profile != Profile.MIND:
        calls = PalaceCalls(given, clock, read_only=read_only, export_folder=export_folder)
        found += tools_of(calls, MemoryTool, read_only=read_only)
    if profile != Profile.PALACE:

        async def parts() -> FourTierParts:
            mind = (await given()).mind
            return FourTierParts(mind.blocks, mind.archive, mind)

        found += tools_of(FourTierCalls(parts), MemoryTool)
    access = {Access.READ} if read_only else {Access.READ, Access.WRITE, Access.SETTLE}
    access |= {Access.DESTRUCTIVE, Access.EXPORT} if allow_destructive else set()
    access |= {Access.PLAIN_EXPORT} if allow_plain_export else set()
    if export_folder is None:
        access -= {Access.EXPORT, Access.PLAIN_EXPORT}
    return [tool for tool in found if tool.access in access]
