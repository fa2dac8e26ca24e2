"""The API of the page: calls of a store as JSON, each answer below a megabyte. It decides nothing about memories.

Things have the fields of docs/json.md (`shape_of`), and long texts in lists are cut; the rows that the palace is drawn from are
numbers for `decay.js`. A long list is sent in pieces; `next` names the next piece. Texts are sent unchanged: the page shows them as text.
Reading writes nothing and revives no memory.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile, islice
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sense_memory.__about__ import __version__
from sense_memory.errors import InvalidInput, NotSynced, SenseMemoryError
from sense_memory.interfaces.json_answers import error_answer, json_answer
from sense_memory.interfaces.live import LiveChanges
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.shapes.introspection import first_findings
from sense_memory.interfaces.shapes.views import (
    FINDINGS,
    CountedConversation,
    SearchAnswer,
    StoredConversation,
)
from sense_memory.interfaces.text import forgotten_note, memories_in
from sense_memory.interfaces.web.answers import (
    answering,
    bounded,
    first_of,
    number_in,
    or_else,
    or_nothing,
    whole_in,
)
from sense_memory.interfaces.web.editing import EditRoutes
from sense_memory.interfaces.web.graph import linked
from sense_memory.interfaces.web.listings import ENTRIES_COUNT, Listings
from sense_memory.interfaces.web.prompt import prompt_of
from sense_memory.interfaces.web.server import TOKEN_HEADER
from sense_memory.memories.history import undo_target
from sense_memory.mind.chat.compaction import ContextState
from sense_memory.mind.layers.identity import AgentIdentity
from sense_memory.models import IntrospectionReport
from sense_memory.palace.lifecycle import is_by_hand
from sense_memory.search.hits import Hits


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from sense_memory.interfaces.web.answers import Handler
    from sense_memory.interfaces.web.server import ServerSecrets
    from sense_memory.models import Memory, PersonaMemory
    from sense_memory.store import MemoryStore

_EXCERPT_CHARS: Final = 160
_SEARCH_CHARS: Final = 400
_SEARCH_COUNT: Final = 30
_VERSIONS_COUNT: Final = 60
_LISTED_COUNT: Final = 100  # of each list of an introspection
_PICTURES_COUNT: Final = 4  # pictures of the palace that are kept while pages read them


@dataclass(frozen=True, slots=True)
class Picture:
    """The palace at a moment, which does not change while the page reads it in pieces.

    Attributes:
        number: names the picture.
        at: seconds since 1970.
        memories: in the order of their paths.
    """

    number: int
    at: float
    memories: tuple[PersonaMemory, ...]


class Api:
    """The routes of one store.

    Args:
        store: an open store.
        access: the secrets of this run.
        agent: the name of the agent, as settings have it.
        clock: seconds since 1970.

    Attributes:
        live: tells open pages what changes.
    """

    def __init__(
        self,
        store: MemoryStore,
        access: ServerSecrets,
        *,
        agent: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._access, self._agent, self._clock = store, access, agent, clock
        live = LiveChanges(store, with_others=True)
        self._editing, self.live = EditRoutes(store, live), live
        self._pictures: dict[int, Picture] = {}
        self._number = 0

    def routes(self) -> list[Route]:
        """The routes, all under `/api/`."""
        reads: dict[str, Handler] = {
            "palace": self._palace,
            "memory": self._memory,
            "flat": self._flat,
            "graph": self._graph,
            "search": self._search,
            "introspection": self._introspection,
            "proposals": self._proposals,
            "relays": self._relays,
            "mind": self._mind,
            "conversation": self._conversation,
            "prompt": self._prompt,
        }
        routes = [Route(f"/api/{name}", answering(read), methods=["GET"]) for name, read in reads.items()]
        routes.append(Route("/api/session", self._session, methods=["GET"]))
        routes.append(Route("/api/events", self._events, methods=["GET"]))
        return [*routes, *Listings(self._store).routes(), *self._editing.routes()]

    async def warm(self) -> None:
        """Open the memories, index them and review them while the browser starts, so that the first looks do not wait."""
        with suppress(SenseMemoryError):  # the page says what is wrong
            await self._store.persona_recall()
            await self._store.index()
            if self._store.has_mind():
                await self._store.mind.warm()
            await self._store.persona_introspect(dry_run=True)  # last: it reads every text for what it claims

    async def _session(self, request: Request) -> Response:
        """Who the agent is: for the browser of the session, or for one that exchanges the token now."""
        cookie, given = "", request.headers.get(TOKEN_HEADER)
        if not self._access.admits(request):
            cookie = self._access.exchange(given) if given else ""
            if not cookie:
                return error_answer(401, "Unauthorized", "this link was used already")
        state = self._store.status()
        answer = json_answer(
            {
                "npub": self._store.npub,
                "agent": self._agent,
                "version": __version__,
                "now": self._clock(),
                "page": self._access.page_token if cookie else None,
                "edit": self._access.edit_token if self._access.may_edit else None,
                "counts": dict(state.counts),
                "relays": len(state.relays),
            }
        )
        if cookie:
            answer.set_cookie(self._access.cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def _events(self, request: Request) -> Response:
        """Changes as they arrive, until the page is closed."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        try:
            stream = self.live.open()
        except InvalidInput as error:
            return error_answer(503, type(error).__name__, str(error))
        return StreamingResponse(stream, media_type="text/event-stream")

    # ── The palace ──────────────────────────────────────────────────────────────────────

    async def _picture(self, request: Request) -> Picture:
        """The picture that a request names, or a new picture of now or of a past time."""
        number = whole_in(request, "picture")
        if number is not None:
            if number not in self._pictures:
                raise InvalidInput("this picture of the palace is no longer kept; ask for a new one")
            return self._pictures[number]
        at = number_in(request, "at")
        if at is None:
            at, memories = self._clock(), await self._memories()
        else:
            memories = await self._store.persona_as_of(at)
        self._number += 1
        picture = Picture(self._number, at, tuple(sorted(memories, key=lambda memory: memory.path)))
        self._pictures[picture.number] = picture
        while len(self._pictures) > _PICTURES_COUNT:
            del self._pictures[min(self._pictures)]
        return picture

    def _is_whole(self) -> bool:
        """Whether a relay has ever shown everything; if none has, nothing here does not mean nothing anywhere."""
        return self._store.relays.were_ever_complete()

    async def _memories(self) -> list[PersonaMemory]:
        try:
            return await self._store.persona_recall(include_forgotten=True)
        except NotSynced:
            return []

    async def _palace(self, request: Request) -> dict[str, Any]:
        """The memories in pieces, each as a row of `_row`."""
        picture = await self._picture(request)
        start = whole_in(request, "start") or 0
        rows = (orjson.dumps(_row(memory)) for memory in islice(picture.memories, start, None))
        listed, end = bounded(rows, start)
        return {
            "picture": picture.number,
            "at": picture.at,
            "now": self._clock(),
            "total": len(picture.memories),
            "rows": listed,
            "next": end,
            "is_whole": self._is_whole(),
        }

    async def _memory(self, request: Request) -> dict[str, Any]:
        """One palace memory, or a flat one: as it is, its versions, and which relays hold it."""
        path = request.query_params.get("path", "")
        versions = await self._store.history(path)
        found: PersonaMemory | Memory | None = None
        if path.count("/") == 2:
            found = next(iter(await self._store.persona_recall(*path.split("/"), revive=False)), None)
        else:
            found = await self._store.recall(path)
        if found is None:
            raise InvalidInput("there is no such memory")
        now = self._clock()
        rows = (orjson.dumps(shape_of(version, path=path)) for version in versions[:_VERSIONS_COUNT])
        return {
            "now": now,
            "memory": shape_of(found, now),
            "versions": bounded(rows, 0)[0],
            "versions_total": len(versions),
            "can_undo": undo_target(list(dropwhile(lambda version: not version.is_head, versions)))
            is not None,
            "holders": self._store.relays.holders(found.event_id),
            "relays": list(self._store.relays),
        }

    async def _flat(self, request: Request) -> dict[str, Any]:
        """The flat memories, in pieces, now or at a past time."""
        start, at = whole_in(request, "start") or 0, number_in(request, "at")
        memories = await (or_nothing(self._store.recall_all()) if at is None else self._store.as_of(at))
        rows = (
            orjson.dumps(shape_of(memory) | {"value": _excerpt(memory.value)}) for memory in memories[start:]
        )
        listed, end = bounded(rows, start)
        return {"total": len(memories), "rows": listed, "next": end, "is_whole": self._is_whole()}

    async def _graph(self, request: Request) -> dict[str, Any]:
        """Memories that are linked, and their links: around one memory, or the most linked ones of a domain or all."""
        memories, now = {memory.path: memory for memory in await self._memories()}, self._clock()
        domain = request.query_params.get("domain") or None
        shown = linked(memories, now, around=request.query_params.get("path"), domain=domain)
        return {
            "now": now,
            "rows": [_row(memories[path]) for path in shown.paths],
            "edges": shown.edges,
            "reachable": shown.reachable,
            "domains": shown.domains,
            "total": len(memories),
            "is_whole": self._is_whole(),
        }

    # ── Search, reviews, relays ─────────────────────────────────────────────────────────

    async def _search(self, request: Request) -> dict[str, Any]:
        """The hits of a question, each with its reasons; hits of the mind are ranked separately."""
        query = request.query_params.get("q", "").strip()
        if not query:
            return {"hits": [], "in_mind": []}
        begun = time.perf_counter()
        hits: Hits[Any] = await or_else(self._store.search(query, _SEARCH_COUNT + 1), Hits())
        late: Hits[Any] = Hits()
        if count := min(hits.forgotten, _SEARCH_COUNT):
            late = await self._store.search(query, count, state="forgotten")
        asks_mind = self._store.has_mind()
        in_mind = await or_nothing(self._store.mind.search(query, _SEARCH_COUNT + 1)) if asks_mind else []
        found = shape_of(SearchAnswer.of(hits, in_mind), self._clock())
        return {
            **found,
            "hits": [_cut(hit, "value") for hit in found["hits"][:_SEARCH_COUNT]],
            "has_more": len(hits) > _SEARCH_COUNT,
            "forgotten_hits": [_cut(hit, "value") for hit in shape_of(late)],
            "forgotten_note": forgotten_note(hits.forgotten, "the list below"),
            "in_mind": [_cut(hit, "text") for hit in found["in_mind"][:_SEARCH_COUNT]],
            "has_more_in_mind": len(in_mind) > _SEARCH_COUNT,
            "seconds": time.perf_counter() - begun,
            "is_whole": self._is_whole(),
        }

    async def _introspection(self, _request: Request) -> dict[str, Any]:
        """What needs attention. No log is written, because a page asks more often than a user introspects."""
        try:
            report = await self._store.persona_introspect(dry_run=True)
        except NotSynced:
            report = IntrospectionReport(created_at=self._clock())
        found = _report(report)
        named = (memory.conflict_of for memory in report.conflicts[:_LISTED_COUNT])
        lost_to = {path: await self._store.palace.recall(path, revive=False) for path in named if path}
        counting = {path: _excerpt(memory.value) for path, memory in lost_to.items() if memory is not None}
        of = {memory.path: memory.conflict_of for memory in report.conflicts[:_LISTED_COUNT]}
        return {**found, "counting": counting, "conflict_of": of, "is_whole": self._is_whole()}

    async def _proposals(self, _request: Request) -> dict[str, Any]:
        """The memories that sessions proposed, oldest first; `accept-proposal` and `reject-proposal` decide about one."""
        return {"proposals": shape_of(await or_nothing(self._store.mind.proposals.open()))}

    async def _relays(self, _request: Request) -> dict[str, Any]:
        """What the ledger knows of each relay. No relay is asked."""
        state = self._store.status()
        heads = state.counts["heads"] + state.counts["mind"]  # as the counts of relays are
        shape = shape_of(state)
        for relay in shape["relays"]:
            relay["missing"] = max(0, heads - relay["memories"] - relay["promised"])
            relay["holds_all"] = relay["holds_all"] and not relay["missing"]
        told = {name: shape[name] for name in ("memories", "journal_entries", "drafts", "relays")}
        return {"now": self._clock(), "heads": heads, **told}

    # ── The mind ────────────────────────────────────────────────────────────────────────

    async def _mind(self, _request: Request) -> dict[str, Any]:
        """Blocks, topics, the identity, objectives, and the conversations with the number of their messages."""
        mind = self._store.mind
        identity = await or_else(mind.identity.get(), AgentIdentity())
        topics = await or_nothing(mind.topics.all())
        conversations = await or_else(mind.conversations(), {})
        titles = await or_else(mind.conversation_titles(), {})
        return {
            "blocks": first_of(await or_nothing(mind.blocks.all())),
            "topics": first_of(topics),
            "topics_total": len(topics),
            "identity": shape_of(identity) | {"lines": identity.lines()},
            "objectives": first_of(await or_nothing(mind.identity.objectives())),
            "conversations": first_of(
                CountedConversation(name, count, titles.get(name, ""))
                for name, count in conversations.items()
            ),
            "conversations_total": len(conversations),
            "is_whole": self._is_whole(),
        }

    async def _conversation(self, request: Request) -> dict[str, Any]:
        """The messages of a conversation, the newest first, in pieces; and the summary of older ones."""
        conversation = self._store.mind.conversation(request.query_params.get("id", ""))
        start = whole_in(request, "start") or 0
        messages = (await or_nothing(conversation.messages()))[::-1]
        state = await or_else(conversation.state(), ContextState())
        shape = shape_of(StoredConversation(conversation.id, state, messages[start : start + ENTRIES_COUNT]))
        rows = map(orjson.dumps, shape["messages"])
        listed, end = bounded(rows, start)
        if end is None and len(messages) > start + ENTRIES_COUNT:
            end = start + ENTRIES_COUNT
        whole = {"total": len(messages), "is_whole": self._is_whole()}
        return {**shape, "messages": listed, "next": end, **whole}

    async def _prompt(self, request: Request) -> dict[str, Any]:
        """What an agent would get for a question, and what was left out of it and why."""
        asked = request.query_params
        query, conversation = asked.get("q", "").strip(), asked.get("conversation", "")
        return await prompt_of(self._store, query, conversation, whole_in(request, "budget"))


# ── Shapes ──────────────────────────────────────────────────────────────────────────────


def _row(memory: PersonaMemory) -> list[Any]:
    """A memory as the page lists it; `decay.js` names the columns."""
    return [
        memory.path,
        _excerpt(memory.value),
        memory.relevance,
        memory.halflife_days,
        memory.last_accessed,
        memory.created_at,
        len(memory.connections),
        len(memory.contradicts),
        memory.superseded_by is not None,
        memory.written_at,
        memory.access_count,
        memory.themes,
    ]


def _excerpt(text: str) -> str:
    beginning = " ".join(text[: 2 * _EXCERPT_CHARS].split())
    cut = len(beginning) > _EXCERPT_CHARS or len(text) > 2 * _EXCERPT_CHARS
    return f"{beginning[:_EXCERPT_CHARS]}…" if cut else beginning


def _report(report: IntrospectionReport) -> dict[str, Any]:
    """An introspection: the beginning of each list, with excerpts of the memories that it names."""
    # The decided ones come last.
    open_pairs = [pair for pair in report.contradictions if not is_by_hand(*pair)]
    found = first_findings(report, _LISTED_COUNT, contradictions=len(open_pairs))
    excerpts: dict[str, str] = {}
    for name in FINDINGS:
        for item in getattr(report, name)[: len(found[name])]:
            excerpts |= {memory.path: _excerpt(memory.value) for memory in memories_in(item)}
    return {**found, "decided": len(report.contradictions) - len(open_pairs), "excerpts": excerpts}


def _cut(hit: dict[str, Any], name: str) -> dict[str, Any]:
    """A hit whose long text is cut."""
    return hit | {"is_cut": len(hit[name]) > _SEARCH_CHARS, name: hit[name][:_SEARCH_CHARS]}
