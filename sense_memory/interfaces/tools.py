"""The tools that an agent uses on its memory: one definition for MCP, function calling, and plain functions.

Each tool is an async function. Its signature is the JSON schema of its arguments, and its docstring is the description
that a language model reads, so both are written for a model and kept short: every word is paid for with each prompt.
Results are JSON values. Those that hold stored text say first that it is data and not an instruction; the text itself is
always a JSON string, so nothing in it can end its frame. No result has a key, an event, or the path of a file.
"""

from __future__ import annotations

import inspect
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from sense_memory.errors import InvalidInput, NotSynced, SenseMemoryError
from sense_memory.interfaces.text import PROBABLY_NOTHING, forgotten_note, iso
from sense_memory.interfaces.tool_results import (
    context_data,
    entries,
    flat_data,
    hit_data,
    memories,
    persona_data,
    replaced,
    report_data,
    status_data,
)
from sense_memory.limits import COMPRESSED_HITS_COUNT, MAX_RECENT_COUNT
from sense_memory.nostr.address import persona_name
from sense_memory.palace.lifecycle import unusual_in
from sense_memory.plain_text import printed
from sense_memory.store import MemoryStore


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from sense_memory.memories.history import Version
    from sense_memory.mind.tools import MindTool
    from sense_memory.models import PersonaMemory

MAX_RESULTS: Final = 50
MAX_CONTEXT_TOKENS: Final = 8_000
_FORGOTTEN_WAY: Final = 'search with state="forgotten"'
_MAX_ERRORS: Final = 3
RECENT_COUNTS: Final = (1_000, MAX_RECENT_COUNT)  # journal entries read for a day: some, then all
_DAY: Final = timedelta(days=1)
_NO_PATH: Final = "give a path domain/facet/key, such as people/facts/lisa; nothing was done"

_is_export_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch


class Access(StrEnum):
    """What a tool may do to a memory."""

    READ = "read"  # changes nothing
    WRITE = "write"  # what it changes can be taken back; called again, it changes something again (but see `ONCE`)
    EXPORT = "export"  # adds a file, and replaces none
    DESTRUCTIVE = "destructive"  # what it deletes is gone; called again, it changes nothing


ONCE: Final = frozenset({"connect"})  # tools that write, and change nothing when they are called again


class Profile(StrEnum):
    """Which tools an agent gets."""

    PALACE = "palace"  # memories, palace and journal: ten tools
    MIND = "mind"  # the four-tier memory of `store.mind`: blocks, archive and conversations
    ALL = "all"


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """One tool.

    Attributes:
        name: as a model calls it.
        description: what it does, for a model.
        parameters: JSON schema of its arguments.
        access: what it may do.
        function: an async function with annotated arguments and a docstring. It returns a JSON object, or a text for the
            tools of the mind, and raises SenseMemoryError.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    access: Access
    function: Callable[..., Awaitable[Any]] = field(repr=False)
    _run: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]] = field(repr=False)

    async def call(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the tool with a model's arguments, which are checked first.

        Returns a JSON object. Where the arguments cannot be used, or the call failed, it has the one key `error`, with a
        sentence that says what to do.
        """
        try:
            return _shown(await self._run(arguments or {}))  # type: ignore[no-any-return]
        except NotSynced:
            return {
                "error": "Not found on this machine, but no relay has shown everything yet: try again in a minute. "
                "`status` tells how far each relay is."
            }
        except SenseMemoryError as error:
            return {"error": str(error)}


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
    export_folder: Path | None = None,
    clock: Callable[[], float] = time.time,
) -> list[MemoryTool]:
    """The tools of an agent.

    Args:
        store: an open store, or an async function that gives one when a tool is first used.
        profile: which tools; see `Profile`.
        read_only: only tools that read; with it, `recall` revives nothing and `introspect` keeps no log.
        allow_destructive: also `forget` and `prune`, and `export` where there is an `export_folder`.
        export_folder: an existing folder, the only one that `export` writes to.
        clock: returns seconds since 1970.

    Raises:
        InvalidInput: no such profile, or both `read_only` and `allow_destructive`.
    """
    if profile not in list(Profile):
        raise InvalidInput(f"profile must be one of {', '.join(Profile)}")
    if read_only and allow_destructive:
        raise InvalidInput("read_only and allow_destructive contradict each other; choose one")

    async def given() -> MemoryStore:
        return store if isinstance(store, MemoryStore) else await store()

    calls = _Calls(given, clock, read_only=read_only, export_folder=export_folder)
    found = [] if profile == Profile.MIND else _palace_tools(calls)
    if profile != Profile.PALACE:
        found += _mind_tools(given)
    allowed = {Access.READ}
    if not read_only:
        allowed |= set(Access) if allow_destructive else {Access.WRITE}
    return [
        tool
        for tool in found
        if tool.access in allowed and (tool.name != "export" or export_folder is not None)
    ]


# ── From a function to a tool ───────────────────────────────────────────────────────────


def _palace_tools(calls: _Calls) -> list[MemoryTool]:
    noting = Access.READ if calls.is_read_only else Access.WRITE  # they keep that they were called, or when
    return [
        _tool(calls.remember, Access.WRITE),
        _tool(calls.recall, noting),
        _tool(calls.search, Access.READ),
        _tool(calls.context, Access.READ),
        _tool(calls.connect, Access.WRITE),
        _tool(calls.supersede, Access.WRITE),
        _tool(calls.introspect, noting),
        _tool(calls.journal, Access.WRITE),
        _tool(calls.recent, Access.READ),
        _tool(calls.status, Access.READ),
        _tool(calls.forget, Access.DESTRUCTIVE),
        _tool(calls.prune, Access.DESTRUCTIVE),
        _tool(calls.export, Access.EXPORT),
    ]


def _tool(function: Callable[..., Awaitable[dict[str, Any]]], access: Access) -> MemoryTool:
    name, description = function.__name__, " ".join((inspect.getdoc(function) or "").split())
    model, schema = _arguments(getattr(function, "__func__", function))

    async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = {
            key: value for key, value in arguments.items() if value is not None
        }  # models send null for "not given"
        try:
            checked = model.model_validate(given)
        except ValidationError as error:
            raise InvalidInput(f"{name}: {_problems(error)}; nothing was done") from None
        return await function(**{key: getattr(checked, key) for key in checked.model_fields_set})

    return MemoryTool(name, description, schema, access, function, run)


@cache
def _arguments(function: Callable[..., Any]) -> tuple[type[BaseModel], dict[str, Any]]:
    """A model that checks the arguments of a function, and their schema without what a language model does not need."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
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


def _problems(error: ValidationError) -> str:
    """What is wrong with arguments, without their values, which may be long or private."""
    found = []
    for item in error.errors(include_input=False, include_url=False, include_context=False)[:_MAX_ERRORS]:
        where = ".".join(map(str, item["loc"]))
        told = {"missing": "is missing", "extra_forbidden": "is not an argument"}.get(item["type"])
        found.append(f"`{where}` {told or item['msg'].replace('Input should be', 'must be')}")
    return "; ".join(found)


def _mind_tools(given: Callable[[], Awaitable[MemoryStore]]) -> list[MemoryTool]:
    from sense_memory.mind.tools import mind_tools

    # Only their schemas are used: each call gets the tools of the open store.
    nothing: Any = None
    return [_mind_tool(tool, given) for tool in mind_tools(nothing, nothing, nothing)]


def _mind_tool(shape: MindTool, given: Callable[[], Awaitable[MemoryStore]]) -> MemoryTool:
    async def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
        tools = (await given()).mind.tools()
        told = await next(tool for tool in tools if tool.name == shape.name).call(arguments)
        is_error = told.startswith("error: ")
        return {"error": told.removeprefix("error: ")} if is_error else {"result": told}

    access = Access.READ if shape.name.endswith("_search") else Access.WRITE
    return MemoryTool(shape.name, shape.description, shape.parameters, access, shape.function, run)


# ── The tools ───────────────────────────────────────────────────────────────────────────

_Path = Annotated[str, Field(description="domain/facet/key")]
_Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS, description="how many at most")]
_Domain = Annotated[str | None, Field(description="only of this domain")]


class _Calls:
    """The functions of the tools, on the store that `given` gives; if `read_only`, recalls and reports leave no trace."""

    def __init__(
        self,
        given: Callable[[], Awaitable[MemoryStore]],
        clock: Callable[[], float],
        *,
        read_only: bool,
        export_folder: Path | None,
    ) -> None:
        self._given, self._clock = given, clock
        self.is_read_only, self._export_folder = read_only, export_folder

    async def remember(
        self,
        path: Annotated[str, Field(description="domain/facet/key such as people/facts/lisa, or a flat key")],
        value: Annotated[str, Field(description="one insight, understandable on its own")],
        *,
        themes: Annotated[list[str] | None, Field(description="topics, for search")] = None,
        connections: Annotated[list[str] | None, Field(description="paths of related memories")] = None,
        halflife_days: Annotated[
            float | None, Field(description="days to half relevance; 30 at first")
        ] = None,
        confidence: Annotated[float | None, Field(ge=0, le=1, description="how sure it is")] = None,
        source: Annotated[str, Field(description="user, agent, tool:NAME or document:HASH")] = "agent",
    ) -> dict[str, Any]:
        """Write a memory, or rewrite the one at this path. Domains: self, people, projects, world, skills or your own;
        facets: facts, beliefs, decisions, procedures, emotions or your own. Tells which memories the value contradicts.
        """
        store = await self._given()
        if "/" not in path:
            if themes or connections or halflife_days is not None or confidence is not None:
                raise InvalidInput(
                    f"give a path domain/facet/key: the flat key {path!r} has no themes, connections, half-life or "
                    "confidence; nothing was written"
                )
            before = await self._head(store, path)
            await store.remember(path, value)
            return {"remembered": path, **replaced(before, value, self._clock())}
        domain, facet, key = _parts(path)
        before = await self._head(store, path)
        told = await store.persona_remember(
            domain,
            facet,
            key,
            value,
            themes or (),
            connections or (),
            halflife_days=halflife_days,
            confidence=confidence,
            source=source,
        )
        result: dict[str, Any] = {"remembered": path, **replaced(before, value, self._clock())}
        for name, paths in (("superseded", told.superseded), ("suspected", told.suspected)):
            found = [
                {"path": other, "reason": item.reason}
                for item in told.contradictions
                for other in (item.old, item.new)
                if other in paths
            ]
            if found:
                result[name] = found
        if told.unmarked:
            result["unmarked"] = [{"path": marked, "by": by} for marked, by in told.unmarked]
        if "superseded" in result:
            result["next"] = "If both are right: supersede with undo=true."
        elif "suspected" in result:
            result["next"] = (
                "If the older one is wrong now: supersede. If both are right: supersede with undo=true."
            )
        return result

    async def recall(
        self,
        path: Annotated[
            str, Field(description="domain/facet/key, a flat key, domain/facet, a domain, or empty")
        ] = "",
        limit: _Limit = 20,
        include_forgotten: Annotated[bool, Field(description="list forgotten ones too")] = False,
    ) -> dict[str, Any]:
        """Read one memory by its exact path, which revives it; or list a facet or domain; or, without a path, name all
        domains and facets.
        """
        store = await self._given()
        path, now, revives = persona_name(path.strip("/")), self._clock(), not self.is_read_only
        if not path:
            stats = await store.persona_stats()
            return {
                "domains": stats["facets"],
                "flat_keys": [memory.key for memory in await store.recall_all()],
            }
        if path.count("/") == 2:
            found = await store.persona_recall(*_parts(path), revive=revives)
        elif path.count("/") > 2:
            raise InvalidInput(_NO_PATH)
        elif "/" in path:
            return await self._listed(store, *path.split("/", 1), limit=limit, is_all=include_forgotten)
        else:
            flat = (await store.recall_many([path])).get(path)
            if flat is not None:
                return memories([flat_data(flat, now)])
            if path in await store.persona_domains():
                return await self._listed(store, path, None, limit=limit, is_all=include_forgotten)
            found = await store.persona_recall(key=path, revive=revives)
        if not found:
            await self._check_synced(store)
            return {"memories": [], "hint": f"No memory at {path!r}. Try search, or recall without a path."}
        return memories((persona_data(memory, now) for memory in found[:limit]), total=len(found))

    async def search(
        self,
        query: Annotated[str, Field(description='words or a question; "quoted" words must be there')],
        *,
        limit: _Limit = 10,
        within: Annotated[
            list[Literal["palace", "journal", "flat"]] | None, Field(description="only there")
        ] = None,
        domain: _Domain = None,
        state: Annotated[
            Literal["active", "fading", "forgotten", "dissolved"] | None,
            Field(description="forgotten ones are shown only so; others are counted"),
        ] = None,
        since: Annotated[str | None, Field(description="only since this day, YYYY-MM-DD")] = None,
    ) -> dict[str, Any]:
        """Find memories and journal entries, the best first, each with why it was found.

        `confidence`, 0 to 1: how probable it is that one of them, or a single one, answers the question.
        """
        store = await self._given()
        options: dict[str, Any] = {"within": within} if within else {}
        if since is not None:
            options["since"] = _day(since).timestamp()
        hits = await store.search(query, limit, domain=domain, state=state, **options)
        if not self.is_read_only:
            await store.mark_used(hits)
        late, doubt = (
            forgotten_note(hits.forgotten, _FORGOTTEN_WAY),
            PROBABLY_NOTHING if hits.is_doubtful else "",
        )
        if not hits and domain is not None and domain not in (known := await store.persona_domains()):
            return {"memories": [], "hint": f"No memory has the domain {domain!r}.", "domains": known}
        if not hits:
            hint = late or "Try other words, or recall a domain."
            return {"memories": [], "forgotten": hits.forgotten, "hint": f"Nothing found. {hint}"}
        more = {"forgotten": hits.forgotten} if hits.forgotten else {}
        told = " ".join(filter(None, (doubt, late)))
        found = memories(hit_data(hit, self._clock()) for hit in hits) | {"confidence": hits.confidence}
        return found | more | ({"hint": told} if told else {})

    async def context(
        self,
        question: Annotated[
            str | None, Field(description="what comes next; what it needs is put first")
        ] = None,
        domain: _Domain = None,
        max_tokens: Annotated[int, Field(ge=32, le=MAX_CONTEXT_TOKENS, description="how long at most")] = 500,
        style: Annotated[
            Literal["plain", "bracketed"],
            Field(description="bracketed: shorthand; `x>y`: x was chosen over y"),
        ] = "plain",
    ) -> dict[str, Any]:
        """What you remember, as much as fits a prompt. Use it at the start of a conversation."""
        store = await self._given()
        found = await store.persona_compress(
            domain, question=question or None, max_tokens=max_tokens, style=style
        )
        if not question:
            return context_data(found)
        hits = await store.persona_search(question, COMPRESSED_HITS_COUNT, domain=domain, relevance_floor=1.0)
        if not self.is_read_only:
            await store.mark_used([hit for hit in hits if hit.path in found.included])
        return context_data(found, hits)

    async def connect(
        self,
        first: _Path,
        second: _Path,
        decline: Annotated[bool, Field(description="never suggest this connection again")] = False,
    ) -> dict[str, Any]:
        """Link two related memories, which reinforces both; or decline a connection that introspect suggests."""
        store = await self._given()
        if decline:
            await store.palace.reconcile(first, second)
            return {"declined": [first, second]}
        await store.persona_connect(first, second)
        return {"connected": [first, second]}

    async def supersede(
        self,
        old: Annotated[str, Field(description="path of the memory that is no longer true")],
        new: Annotated[str, Field(description="path of the memory that replaces it")],
        undo: Annotated[bool, Field(description="both are right: take the mark away")] = False,
    ) -> dict[str, Any]:
        """Mark a memory as superseded by another, or confirm the mark; it then fades four times faster.
        Use it too to decide about a memory in `suspected_by`, which was written later and may contradict this one.
        """
        store = await self._given()
        if undo:
            await store.persona_reconcile(old, new)
            return {"both_right": [old, new]}
        await store.persona_contradict(old, new)
        result = {"superseded": old, "by": new}
        pair = [memory for name in (old, new) for memory in await _named(store, name)]
        unusual = unusual_in(*pair) if len(pair) == 2 else []  # another device may have forgotten one by now
        if not unusual:
            return result
        return {**result, "unusual": unusual, "next": "If this is a mistake: supersede with undo=true."}

    async def introspect(self) -> dict[str, Any]:
        """Report what needs attention: contradictions, stale beliefs, suggested connections, what is about to be
        forgotten.
        """
        store = await self._given()
        return report_data(await store.persona_introspect(dry_run=self.is_read_only))

    async def journal(self, text: Annotated[str, Field(description="the entry")]) -> dict[str, Any]:
        """Write a journal entry: what happened, what you learnt. Entries are never replaced."""
        store = await self._given()
        await store.journal(text)
        return {"written": iso(self._clock())}

    async def recent(
        self,
        limit: _Limit = 10,
        day: Annotated[str | None, Field(description="only of this day, YYYY-MM-DD (UTC)")] = None,
    ) -> dict[str, Any]:
        """Read journal entries, the newest first."""
        store = await self._given()
        if day is None:
            return entries(await store.recent(limit), self._clock())
        begin = _day(day)
        first, last = begin.timestamp(), (begin + _DAY).timestamp()
        for count in RECENT_COUNTS:
            newest = await store.recent(count)
            if len(newest) < count or newest[-1].created_at < first:
                break
        found = [entry for entry in newest if first <= entry.created_at < last]
        return entries(found[:limit], self._clock(), total=len(found))

    async def status(self) -> dict[str, Any]:
        """How many memories there are, and how far each relay has copies of them."""
        store = await self._given()
        return status_data(store.status(), self._clock())

    # ── Those that cannot be taken back ─────────────────────────────────────────────────

    async def forget(self, path: _Path) -> dict[str, Any]:
        """Delete one memory for good here, and ask every relay to delete it. Only when the user asks for it."""
        store = await self._given()
        if await self._head(store, path) is None:
            raise InvalidInput(f"there is no memory at {path!r} here; nothing was forgotten")
        if "/" in path:
            await store.persona_forget(*_parts(path))
        else:
            await store.forget(path)
        return {"forgotten": path}

    async def prune(
        self, apply: Annotated[bool, Field(description="delete; otherwise only show what would be")] = False
    ) -> dict[str, Any]:
        """Delete memories that have been dissolved for 30 days. Show the plan to the user first."""
        store = await self._given()
        report = (await store.persona_prune(dry_run=not apply)).report
        lines = [{"path": line.path, "outcome": line.outcome, "reason": line.reason} for line in report.lines]
        return {
            "applied": apply,
            "memories": lines[:MAX_RESULTS],
            "total": len(lines),
            "held": dict(report.held),
        }

    async def export(
        self, name: Annotated[str, Field(description="a new file's name, such as backup.jsonl")]
    ) -> dict[str, Any]:
        """Write an encrypted backup of everything into the export folder of this machine."""
        store = await self._given()
        if self._export_folder is None or not _is_export_name(name):
            raise InvalidInput(
                "name must be a plain file name of letters, digits, '.', '_' and '-'; nothing was written"
            )
        path = self._export_folder / name
        if path.is_symlink() or path.exists():
            raise InvalidInput("choose another name: there is a file of this name; nothing was written")
        return {"exported": name, "events": store.export(path)}

    # ── What was found ──────────────────────────────────────────────────────────────────

    async def _head(self, store: MemoryStore, path: str) -> Version | None:
        """What the ledger holds at a path now; no relay is asked."""
        return next((one for one in await store.history(path) if one.is_head and one.value is not None), None)

    async def _listed(
        self, store: MemoryStore, domain: str, facet: str | None, *, limit: int, is_all: bool
    ) -> dict[str, Any]:
        found = await store.persona_recall(domain, facet, include_forgotten=is_all)
        if not found:
            stats = await store.persona_stats()
            return {"memories": [], "hint": "No active memory there.", "domains": stats["facets"]}
        shown = (persona_data(memory, self._clock(), is_cut=True) for memory in found[:limit])
        return memories(shown, total=len(found))

    async def _check_synced(self, store: MemoryStore) -> None:
        """Raise NotSynced where a relay may hold what is not here."""
        if not store.relays.were_ever_complete():
            raise NotSynced("this memory is", ())


async def _named(store: MemoryStore, name: str) -> list[PersonaMemory]:
    """The memories with a path or a bare key; none is revived."""
    place, _, key = persona_name(name).rpartition("/")
    domain, _, facet = place.partition("/")
    return await store.persona_recall(domain or None, facet or None, key, revive=False)


def _parts(path: str) -> tuple[str, str, str]:
    parts = persona_name(path.strip("/")).split("/")
    if len(parts) != 3 or not all(parts):
        raise InvalidInput(_NO_PATH)
    return parts[0], parts[1], parts[2]


def _day(text: str) -> datetime:
    """The beginning of a day, UTC."""
    with suppress(ValueError):
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    raise InvalidInput("give a day as YYYY-MM-DD, such as 2026-05-01")
