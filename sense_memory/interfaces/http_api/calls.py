"""The calls of the HTTP API. A thing in an answer has the fields of docs/json.md, all of them, and its text is whole."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.interfaces.http_api.routes import route
from sense_memory.interfaces.json_answers import NotHere
from sense_memory.interfaces.live import LiveChanges
from sense_memory.interfaces.prompt_context import context_for
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.shapes.views import (
    JournalList,
    MemoryHistory,
    MemoryList,
    SearchAnswer,
    StoredMemory,
)
from sense_memory.memories.status import Status
from sense_memory.mind.agent_tool import Access
from sense_memory.mind.search.hits import MindHit
from sense_memory.models import Change, ChangeKind, Memory, PersonaMemory
from sense_memory.nostr.address import persona_name
from sense_memory.palace.compression import Compressed
from sense_memory.store import MemoryStore


MAX_LISTED_COUNT: Final = 1_000
_MAX_TOKENS: Final = 32_000

_Path = Annotated[str, Field(min_length=1, max_length=400, description="`domain/facet/key`, or a flat key")]
_PalacePath = Annotated[str, Field(min_length=5, max_length=400, description="`domain/facet/key`")]
_Seen = Annotated[
    str | None,
    Field(
        description="the `event_id` of the version that you read: where the memory has another text by now, nothing is done (409)"
    ),
]
_Domain = Annotated[str | None, Field(description="only of this domain")]


class ApiCalls:
    """The calls, on an open store.

    Args:
        store: is open.
        live: tells the streams of changes what was written here; the store's own watch tells what others wrote.
        is_read_only: whether what is found is not noted as used.
    """

    def __init__(self, store: MemoryStore, live: LiveChanges, *, is_read_only: bool) -> None:
        self._store, self._live, self._is_read_only = store, live, is_read_only

    # ── Read ────────────────────────────────────────────────────────────────────────────

    @route("GET", "/v1/search", Access.READ)
    async def search(
        self,
        query: Annotated[str, Field(min_length=1, description="words or a question")],
        *,
        limit: Annotated[int, Field(ge=1, le=100, description="how many at most, of each kind")] = 10,
        within: Annotated[
            list[Literal["palace", "journal", "flat"]] | None,
            Field(description="only there; may be repeated"),
        ] = None,
        domain: _Domain = None,
        state: Annotated[
            Literal["active", "fading", "forgotten", "dissolved"] | None,
            Field(description="only these; forgotten ones are found only so"),
        ] = None,
        mind: Annotated[bool, Field(description="also search the mind: log, conversations, archive")] = False,
    ) -> SearchAnswer:
        """Find memories and journal entries, the best first.

        What is found counts as used, unless the server is read-only.
        """
        store = self._store
        options: dict[str, Any] = {"within": within} if within else {}
        hits = await store.search(query, limit, domain=domain, state=state, **options)
        if not self._is_read_only:
            await store.mark_used(hits)
        in_mind: list[MindHit] = []
        if mind and store.has_mind():
            with suppress(NotSynced):  # the hits are an answer all the same
                in_mind = await store.mind.search(query, limit)
        return SearchAnswer.of(hits, in_mind)

    @route("GET", "/v1/context", Access.READ)
    async def context(
        self,
        question: Annotated[
            str | None, Field(description="what comes next; what it needs comes first")
        ] = None,
        *,
        domain: _Domain = None,
        max_tokens: Annotated[int, Field(ge=32, le=_MAX_TOKENS, description="how long at most")] = 500,
        style: Annotated[Literal["plain", "bracketed"], Field(description="of the text")] = "plain",
        include_untrusted: Annotated[
            bool, Field(description="also what tools, documents and imports said and nobody vouched for")
        ] = False,
    ) -> Compressed:
        """What is remembered, as much as fits a prompt: text for the system prompt of a model.

        What a question found counts as used, unless the server is read-only.
        """
        found, _ = await context_for(
            self._store,
            question,
            domain=domain,
            max_tokens=max_tokens,
            style=style,
            include_untrusted=include_untrusted,
            marks=not self._is_read_only,
        )
        return found

    @route("GET", "/v1/memory", Access.READ)
    async def memory(self, path: _Path) -> Memory | PersonaMemory:
        """One memory. It is not revived; `recall` revives it."""
        return await self._one(path, revive=False)

    @route("GET", "/v1/memories", Access.READ)
    async def memories(
        self,
        kind: Annotated[Literal["palace", "flat"], Field(description="of which kind")] = "palace",
        *,
        domain: _Domain = None,
        facet: Annotated[str | None, Field(description="only of this facet of the domain")] = None,
        include_forgotten: Annotated[bool, Field(description="forgotten and dissolved ones too")] = False,
        start: Annotated[int, Field(ge=0, le=2**53 - 1, description="leave out so many")] = 0,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED_COUNT, description="how many at most")] = 100,
    ) -> MemoryList:
        """Memories in the order of their paths, in pieces. None is revived."""
        store = self._store
        if facet is not None and domain is None:
            raise InvalidInput("give the domain of the facet too; nothing was done")
        found: list[Any]
        if kind == "flat":
            found = sorted(await store.recall_all(), key=lambda memory: memory.key)
        else:
            palace = await store.persona_recall(
                domain, facet, include_forgotten=include_forgotten, revive=False
            )
            found = sorted(palace, key=lambda memory: memory.path)
        end = start + limit
        return MemoryList(found[start:end], len(found), end if end < len(found) else None)

    @route("GET", "/v1/memory/history", Access.READ)
    async def history(self, path: _Path) -> MemoryHistory:
        """The versions of a memory that this ledger has seen."""
        versions = await self._store.history(path)
        if not versions:
            raise NotHere(f"there is no memory at {path!r} here")
        name = persona_name(path)  # a version does not know its own
        return MemoryHistory([shape_of(version, path=name) for version in versions])

    @route("GET", "/v1/journal", Access.READ)
    async def journal(
        self, limit: Annotated[int, Field(ge=1, le=MAX_LISTED_COUNT, description="how many at most")] = 20
    ) -> JournalList:
        """Entries of the journal, the newest first."""
        return JournalList(await self._store.recent(limit))

    @route("GET", "/v1/status", Access.READ)
    async def status(self) -> Status:
        """How many memories there are, and how far each relay has copies of them. No relay is asked."""
        return self._store.status()

    # ── Write ───────────────────────────────────────────────────────────────────────────

    @route("PUT", "/v1/memory", Access.WRITE)
    async def remember(
        self,
        path: _Path,
        value: Annotated[
            str, Field(min_length=1, description="the text; one insight, understandable on its own")
        ],
        *,
        themes: Annotated[list[str] | None, Field(description="what it is about, for search")] = None,
        connections: Annotated[list[str] | None, Field(description="paths of related memories")] = None,
        halflife_days: Annotated[
            float | None, Field(gt=0, description="days after which relevance has halved")
        ] = None,
        confidence: Annotated[float | None, Field(ge=0, le=1, description="how sure it is")] = None,
        source: Annotated[str | None, Field(description="user, agent, tool:NAME or document:HASH")] = None,
        seen: Annotated[
            str | None,
            Field(
                description="the `event_id` of the version that you read, empty where there was none: where the memory has another text by now, nothing is written (409)"
            ),
        ] = None,
    ) -> StoredMemory:
        """Write a memory, or rewrite the one at this path: the version before it stays in the history."""
        store = self._store
        if seen is not None:
            if connections or halflife_days is not None or confidence is not None:
                raise InvalidInput(
                    "leave out connections, half-life and confidence where you give `seen`: such an edit writes the text, "
                    "its themes and its source; nothing was written"
                )
            edited = await store.edits.write(path, value, seen=seen or None, themes=themes, source=source)
            return self._stored(path, value, edited)
        if "/" not in path:
            if themes or connections or halflife_days is not None or confidence is not None or source:
                raise InvalidInput(
                    f"{path!r} is a flat key: themes, connections, half-life, confidence and source belong to a path "
                    "domain/facet/key; nothing was written"
                )
            return self._stored(path, value, await store.remember(path, value))
        written = await store.palace.remember(
            persona_name(path),
            value,
            themes or (),
            connections or (),
            halflife_days=halflife_days,
            confidence=confidence,
            source=source,
        )
        return self._stored(path, value, written)

    @route("POST", "/v1/memory/recall", Access.WRITE)
    async def recall(self, path: _Path) -> Memory | PersonaMemory:
        """One memory, which is revived, as in every other door."""
        return await self._one(path, revive=True)

    @route("POST", "/v1/memory/undo", Access.WRITE)
    async def undo(self, path: _Path, seen: _Seen = None) -> Memory | PersonaMemory:
        """Give a memory back the text that it had before."""
        store = self._store
        found = await (store.undo(path) if seen is None else store.edits.undo(path, seen=seen))
        if found is None:
            raise NotHere(f"{path!r} has no older text here; nothing was undone")
        self._tell(ChangeKind.REMEMBERED, path, found.event_id, found.value)
        return found

    @route("DELETE", "/v1/memory", Access.DESTRUCTIVE)
    async def forget(self, path: _Path, seen: _Seen = None) -> StoredMemory:
        """Delete a memory for good here, and ask every relay to delete it. Only with `--allow-destructive`."""
        store = self._store
        if not any(one.is_head and one.value is not None for one in await store.history(path)):
            raise NotHere(f"there is no memory at {path!r} here; nothing was forgotten")
        request = await (store.forget(path) if seen is None else store.edits.forget(path, seen=seen))
        self._tell(ChangeKind.FORGOTTEN, path, request)
        return StoredMemory(request)

    @route("POST", "/v1/connections", Access.SETTLE)
    async def connect(
        self,
        first: _PalacePath,
        second: _PalacePath,
    ) -> MemoryList:
        """Link two related memories, which reinforces both. Answers with both."""
        store = self._store
        await store.persona_connect(first, second)
        both = [await self._one(path, revive=False) for path in (first, second)]
        for path, memory in zip((first, second), both, strict=True):
            self._tell(ChangeKind.LINKED, path, memory.event_id, memory.value)
        return MemoryList(both, len(both), None)

    @route("POST", "/v1/journal", Access.WRITE)
    async def write_journal(
        self, text: Annotated[str, Field(min_length=1, description="what happened, what was learnt")]
    ) -> StoredMemory:
        """Write an entry of the journal. Entries are never replaced."""
        event_id = await self._store.journal(text)
        self._tell(ChangeKind.JOURNAL, f"journal/{event_id}", event_id, text)
        return StoredMemory(event_id)

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    def _stored(self, path: str, value: str, event_id: str) -> StoredMemory:
        """The answer to a write; a palace memory's id has what the text contradicts."""
        self._tell(ChangeKind.REMEMBERED, path, str(event_id), value)
        found = (getattr(event_id, name, ()) for name in ("superseded", "suspected"))
        return StoredMemory(str(event_id), *found)

    def _tell(self, kind: ChangeKind, path: str, event_id: str, value: str | None = None) -> None:
        name = persona_name(path)
        change = Change(
            kind=kind,
            path=name,
            key=name.rpartition("/")[2],
            value=value,
            created_at=time.time(),
            event_id=event_id,
        )
        self._live.tell("change", **shape_of(change))

    async def _one(self, path: str, *, revive: bool) -> Memory | PersonaMemory:
        store = self._store
        name = persona_name(path)
        found: Memory | PersonaMemory | None
        if name.count("/") == 2:
            palace = await store.persona_recall(*name.split("/"), revive=revive)
            found = palace[0] if palace else None
        else:
            found = await store.recall(name)
        if found is None:
            raise NotHere(f"there is no memory at {path!r}")
        return found
