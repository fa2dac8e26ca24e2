"""Lists of the page that are read in order: the journal by date, the log, the archive, scenes and mirrored folders."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import orjson
from starlette.routing import Route

from sense_memory.errors import InvalidInput, LedgerError, NotSynced
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.web.answers import answering, bounded, number_in, or_nothing, whole_in
from sense_memory.limits import MAX_RECENT_COUNT
from sense_memory.mirror.decisions import MirrorReport


if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from starlette.requests import Request

    from sense_memory.mirror.state import Mirror
    from sense_memory.store import MemoryStore

ENTRIES_COUNT: Final = 100  # of one piece of a list
_DAYS_COUNT: Final = 5_000  # some 14 years with an entry on each day


class Listings:
    """The routes of these lists.

    Args:
        store: an open store.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """The routes, all under `/api/`."""
        reads = {
            "journal": self._journal,
            "journal-days": self._journal_days,
            "log": self._log,
            "archive": self._archive,
            "scenes": self._scenes,
            "scene": self._scene,
            "mirrors": self._mirrors,
        }
        return [Route(f"/api/{name}", answering(read), methods=["GET"]) for name, read in reads.items()]

    def _piece(self, request: Request, items: Sequence[Any], total: int | None = None) -> dict[str, Any]:
        """The piece of a list that a request names by `start` and `count`; `next` is where the next piece starts."""
        start = whole_in(request, "start") or 0
        size = min(whole_in(request, "count") or ENTRIES_COUNT, ENTRIES_COUNT)
        shown = items[start : start + size]
        rows, end = bounded(map(orjson.dumps, map(shape_of, shown)), start)
        if end is None and len(items) > start + size:
            end = start + size
        whole = self._store.relays.were_ever_complete()
        return {
            "rows": rows,
            "next": end,
            "total": len(items) if total is None else total,
            "is_whole": whole,
        }

    # ── The journal ─────────────────────────────────────────────────────────────────────

    async def _journal(self, request: Request) -> dict[str, Any]:
        """The journal, the newest entries first, in pieces; all of it, or what was written from a time to another."""
        start = whole_in(request, "start") or 0
        since, until = number_in(request, "from"), number_in(request, "to")
        is_part = since is not None or until is not None
        count = MAX_RECENT_COUNT if is_part else min(start + ENTRIES_COUNT + 1, MAX_RECENT_COUNT)
        found = await or_nothing(self._store.recent(count))
        if not is_part:
            return self._piece(request, found, self._store.status().counts["entries"])
        low, high = since or 0.0, 2.0**53 if until is None else until
        return self._piece(request, [entry for entry in found if low <= entry.created_at < high])

    async def _journal_days(self, request: Request) -> dict[str, Any]:
        """The days that have entries, the newest first, each with their number; days are those of a time zone."""
        zone = _zone(request.query_params.get("zone", "UTC"))
        found = await or_nothing(self._store.recent(MAX_RECENT_COUNT))
        days = Counter(datetime.fromtimestamp(entry.created_at, zone).date().isoformat() for entry in found)
        listed = sorted(days.items(), reverse=True)
        return {"days": listed[:_DAYS_COUNT], "total": len(found)}

    # ── The mind ────────────────────────────────────────────────────────────────────────

    async def _log(self, request: Request) -> dict[str, Any]:
        """The log, the newest entries first, in pieces; of one kind, where `kind` names it."""
        kind = request.query_params.get("kind") or None
        found = await or_nothing(self._store.mind.log.entries())
        kinds = Counter(entry.kind for entry in found)
        shown = [entry for entry in reversed(found) if kind in {None, entry.kind}]
        return {**self._piece(request, shown), "kinds": kinds.most_common(50)}

    async def _archive(self, request: Request) -> dict[str, Any]:
        """The passages of the archive, the newest first, in pieces; of one topic, where `topic` names it."""
        topic = request.query_params.get("topic") or None
        found = await or_nothing(self._store.mind.archive.all())
        shown = [one for one in found if topic is None or topic in one.topics]
        shown.sort(key=lambda one: (-one.at, one.id))
        return self._piece(request, shown)

    async def _scenes(self, _request: Request) -> dict[str, Any]:
        """The scenes of this agent, without their keys; no relay is asked."""
        return {"scenes": [shape_of(state) for state in await self._store.mind.scenes.all(asks=False)]}

    async def _scene(self, request: Request) -> dict[str, Any]:
        """The entries of a scene, the newest first, in pieces, as its ledger on this machine has them."""
        wanted = request.query_params.get("id", "")
        scenes = self._store.mind.scenes
        state = next((one for one in await scenes.all(asks=False) if one.id == wanted), None)
        if state is None:
            raise InvalidInput("there is no such scene")
        try:
            async with scenes.using(state.id) as scene:
                found, is_member = await scene.entries(), await scene.is_member()
                forged = await scene.forged_count()
        except (NotSynced, LedgerError):
            found, is_member, forged = [], True, 0
        told = {"scene": shape_of(state), "is_member": is_member, "forged": forged}
        return {**told, **self._piece(request, found[::-1])}

    # ── Mirrored folders ────────────────────────────────────────────────────────────────

    async def _mirrors(self, _request: Request) -> dict[str, Any]:
        """The mirrored folders of this machine, each with what is not in step; nothing is written, and no relay is asked."""
        return {"mirrors": [shape_of(await self._mirror(one)) for one in self._store.mirror.all()]}

    async def _mirror(self, mirror: Mirror) -> MirrorReport:
        """Where a mirrored folder stands; the problem, if it is gone."""
        try:
            return await self._store.mirror.plan(mirror.folder)
        except InvalidInput as error:
            return MirrorReport(mirror.folder, mirror.project, problem=str(error), is_plan=True)


def _zone(name: str) -> tzinfo:
    """A time zone by its name, such as Europe/Berlin; UTC where this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not a key of a zone, a folder, or a zone that is not here
        return UTC
