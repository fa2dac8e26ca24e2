"""What the page may change: the routes that write. Each edit names the version that the page showed.

Where a memory has another text by now, the answer is 409 with what is there now, and nothing was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.routing import Route

from sense_memory.errors import EditConflict, InvalidInput
from sense_memory.interfaces.edits import EditSession
from sense_memory.interfaces.json_answers import problem
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.web.answers import answering
from sense_memory.interfaces.web.server import MAX_BODY_BYTES


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from sense_memory.interfaces.live import LiveChanges
    from sense_memory.interfaces.shapes.views import DoneEdit
    from sense_memory.store import MemoryStore

MAX_TYPED_CHARS: Final = (
    40  # of a key that has to be typed before its memory is forgotten; for others, the word
)
FORGET_WORD: Final = "forget"
TAB_HEADER: Final = "x-sense-memory-tab"  # which tab of the browser asks; it draws what it changed by itself
_MAX_TAB_CHARS: Final = 40


class EditRoutes:
    """The routes of one store that write.

    Args:
        store: an open store.
        live: tells the other pages what this one changed.
    """

    def __init__(self, store: MemoryStore, live: LiveChanges) -> None:
        self._store, self._live, self._session = store, live, EditSession(store)

    def routes(self) -> list[Route]:
        """The routes: what was done, edits, decisions of the review, and a sync."""
        posts = {"edit": self._edit, "act": self._act, "sync": self._sync}
        routes = [Route(f"/api/{name}", answering(post), methods=["POST"]) for name, post in posts.items()]
        return [Route("/api/edits", answering(self._done), methods=["GET"]), *routes]

    # ── Edits ───────────────────────────────────────────────────────────────────────────

    async def _done(self, _request: Request) -> dict[str, Any]:
        """What was done in this run, the newest first."""
        return {"edits": [shape_of(done) for done in self._session.done]}

    async def _edit(self, request: Request) -> dict[str, Any] | Response:
        """Make one edit: `{"action": …}` with the fields that the action needs."""
        wanted = await _object_in(request)
        try:
            done = await self._made(wanted)
        except EditConflict as error:
            return problem(error, now=await self._now(error.path))
        self._tell_edited(filter(None, (done.path, done.to)), request)
        return {"edit": shape_of(done)}

    async def _made(self, wanted: Mapping[str, Any]) -> DoneEdit:
        """Make the edit that a request describes.

        Raises:
            InvalidInput: it is not an edit, or a field is missing or wrong; nothing was changed.
        """
        session = self._session
        match wanted:
            case {"action": "write", "path": str(path), "value": str(value), "seen": str() | None as seen}:
                return await session.write(path, value, seen, wanted.get("themes"))
            case {"action": "forget", "path": str(path), "seen": str(seen), "typed": str(typed)}:
                if typed != typed_to_forget(path):
                    raise InvalidInput(f"type {typed_to_forget(path)!r} to forget it; nothing was changed")
                return await session.forget(path, seen)
            case {"action": "move", "path": str(path), "to": str(to), "seen": str(seen)}:
                return await session.move(path, to, seen)
            case {"action": "pin" | "unpin" as action, "path": str(path)}:
                return await session.pin(path, pinned=action == "pin")
            case {"action": "themes", "path": str(path), "add": [*add], "remove": [*remove]}:
                return await session.retheme(path, add, remove)
            case {"action": "journal", "value": str(value)}:
                return await session.journal(value)
            case {"action": "take-back", "number": int(number)}:
                return await session.take_back(number)
        raise InvalidInput("the request is not an edit; nothing was changed")

    async def _now(self, path: str) -> dict[str, Any] | None:
        """The memory that is at a path now; None if there is none."""
        found = await self._session.find(path)
        return None if found is None else shape_of(found, self._store.clock())

    def _tell_edited(self, paths: Iterable[str], request: Request) -> None:
        by = request.headers.get(TAB_HEADER, "")[:_MAX_TAB_CHARS]
        for path in paths:
            self._live.tell(
                "change", kind="edited", path=path, key=path.rpartition("/")[2], relay=None, by=by
            )

    async def _sync(self, request: Request) -> dict[str, Any]:
        """Bring every relay and the ledger in step now."""
        await _object_in(request)
        return {**shape_of(await self._store.sync()), "has_relays": bool(self._store.relays)}

    # ── Decisions ───────────────────────────────────────────────────────────────────────

    async def _act(self, request: Request) -> dict[str, Any]:
        """Carry out one decision: `{"action": …, "names": […]}`."""
        wanted = await _object_in(request)
        action, names = wanted.get("action"), wanted.get("names")
        known = self._actions()
        if (
            not isinstance(action, str)
            or action not in known
            or not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
        ):
            raise InvalidInput("there is no such action; nothing was changed")
        count, act = known[action]
        if len(names) != count:
            raise InvalidInput(f"this action is for {count} memories; nothing was changed")
        result = await act(*names)
        self._tell_edited(names, request)
        return {"done": action, "changed": action != "undo" or result is not None}

    def _actions(self) -> Mapping[str, tuple[int, Callable[..., Awaitable[Any]]]]:
        """Each action by name: how many memories it takes, and the method of the store."""
        store = self._store

        async def recall(path: str) -> None:
            if path.count("/") != 2:  # fewer parts would name a whole facet or domain, and revive it
                raise InvalidInput("give domain/facet/key: recall takes one memory; nothing was changed")
            if not await store.persona_recall(*path.split("/")):
                raise InvalidInput("there is no such memory; nothing was changed")

        return {
            "accept-proposal": (1, store.mind.proposals.accept),
            "reject-proposal": (1, store.mind.proposals.reject),
            "connect": (2, store.persona_connect),
            "contradict": (2, store.persona_contradict),
            "disconnect": (2, store.persona_disconnect),
            "dismiss": (2, store.palace.reconcile),
            "recall": (1, recall),
            "reconcile": (2, store.persona_reconcile),
            "undo": (1, store.undo),
        }


def typed_to_forget(path: str) -> str:
    """What a person types to forget a memory: its key, or a word where the key is long or cannot be typed."""
    key = path.rpartition("/")[2]
    can_be_typed = len(key) <= MAX_TYPED_CHARS and key.isascii() and key.isprintable()
    return key if can_be_typed else FORGET_WORD


async def _object_in(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request.

    Raises:
        InvalidInput: it is too large, or no such object; nothing was changed.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise InvalidInput("the request is too large; nothing was changed")
    try:
        wanted = orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        wanted = None
    if not isinstance(wanted, dict):
        raise InvalidInput("the request is not an action; nothing was changed")
    return wanted
