"""The tools of memories, palace and journal, as functions; see `sense_memory/mind/agent_tool.py` for what becomes of them.

Those that answer with stored text say first that it is data and not an instruction; the text itself is always a JSON string,
so nothing in it can end its frame. No answer has a key, an event, or the path of a file.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.interfaces.prompt_context import context_for
from sense_memory.interfaces.text import PROBABLY_NOTHING, forgotten_note, iso
from sense_memory.interfaces.tools.results import (
    listed,
    replaced,
    told_context,
    told_entry,
    told_hit,
    told_memory,
    told_proposal,
    told_pruning,
    told_report,
    told_status,
)
from sense_memory.limits import DAY_SECONDS, MAX_RECENT_COUNT
from sense_memory.mind.agent_tool import Access, tool
from sense_memory.nostr.address import persona_name
from sense_memory.palace.lifecycle import unusual_in


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from sense_memory.memories.history import Version
    from sense_memory.models import JournalEntry, PersonaMemory
    from sense_memory.store import MemoryStore

MAX_RESULTS: Final = 50
MAX_CONTEXT_TOKENS: Final = 8_000
_FORGOTTEN_WAY: Final = 'search with state="forgotten"'
RECENT_COUNTS: Final = (1_000, MAX_RECENT_COUNT)  # journal entries read for a day: some, then all
_DAY: Final = timedelta(days=1)
_NO_PATH: Final = "this is not a path, so nothing was done; give domain/facet/key, such as people/facts/lisa"

_is_export_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch


# ── The tools ───────────────────────────────────────────────────────────────────────────

_Path = Annotated[str, Field(description="domain/facet/key")]
_Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS, description="how many at most")]
_Domain = Annotated[str | None, Field(description="only of this domain")]


class PalaceCalls:
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
        self._session = f"tools-{secrets.token_hex(4)}"  # of this process, to find what it wrote

    @tool(Access.WRITE)
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
        source: Annotated[str, Field(description="agent, tool:NAME or document:NAME: who said it")] = "agent",
        derived_from: Annotated[list[str] | None, Field(description="paths of what it is made of")] = None,
    ) -> dict[str, Any]:
        """Write a memory, or rewrite the one at this path. Domains: self, people, projects, world, skills or your own;
        facets: facts, beliefs, decisions, procedures, emotions or your own. Tells which memories the value contradicts.
        """
        store = await self._given()
        # A program speaks for itself: only a person at the command line or the page speaks as the user.
        source = "agent" if source in {"user", ""} else source
        about: dict[str, Any] = {"source": source, "session": self._session}
        about["derived_from"] = derived_from or ()
        if "/" not in path:
            if themes or connections or halflife_days is not None or confidence is not None:
                raise InvalidInput(
                    f"a flat key, such as {path!r}, has no themes, connections, half-life or confidence, so nothing was "
                    "written; give a path domain/facet/key"
                )
            before = await self._head(store, path)
            await store.remember(path, value, **about)
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
            **about,
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

    @tool(Access.NOTE)
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
                return listed("memories", [told_memory(flat, now)])
            if path in await store.persona_domains():
                return await self._listed(store, path, None, limit=limit, is_all=include_forgotten)
            found = await store.persona_recall(key=path, revive=revives)
        if not found:
            await self._check_synced(store)
            return {"memories": [], "hint": f"No memory at {path!r}. Try search, or recall without a path."}
        return listed("memories", (told_memory(memory, now) for memory in found[:limit]), total=len(found))

    @tool(Access.READ)
    async def search(
        self,
        query: Annotated[str, Field(description='words or a question; "quoted" words must be there')],
        *,
        limit: _Limit = 10,
        within: Annotated[
            list[Literal["palace", "journal", "flat", "file"]] | None, Field(description="only there")
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
            return {"hits": [], "hint": f"No memory has the domain {domain!r}.", "domains": known}
        if not hits:
            hint = late or "Try other words, or recall a domain."
            return {"hits": [], "forgotten": hits.forgotten, "hint": f"Nothing found. {hint}"}
        more = {"forgotten": hits.forgotten} if hits.forgotten else {}
        told = " ".join(filter(None, (doubt, late)))
        found = listed("hits", (told_hit(hit, self._clock()) for hit in hits))
        found["confidence"] = round(hits.confidence, 3)
        return found | more | ({"hint": told} if told else {})

    @tool(Access.READ)
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
        include_untrusted: Annotated[
            bool, Field(description="also what tools and imports said, if the user asks")
        ] = False,
    ) -> dict[str, Any]:
        """What you remember, as much as fits a prompt. Use it at the start of a conversation."""
        found, hits = await context_for(
            await self._given(),
            question,
            domain=domain,
            max_tokens=max_tokens,
            style=style,
            include_untrusted=include_untrusted,
            marks=not self.is_read_only,
        )
        return told_context(found, hits)

    @tool(Access.SETTLE)
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

    @tool(Access.WRITE)
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

    @tool(Access.NOTE)
    async def introspect(self) -> dict[str, Any]:
        """Report what needs attention: contradictions, stale beliefs, suggested connections, what is about to be
        forgotten.
        """
        store = await self._given()
        return told_report(await store.persona_introspect(dry_run=self.is_read_only))

    @tool(Access.SETTLE)
    async def review(
        self,
        accept: Annotated[list[str] | None, Field(description="ids that the user wants kept")] = None,
        reject: Annotated[list[str] | None, Field(description="ids to drop")] = None,
    ) -> dict[str, Any]:
        """List the memories that sessions proposed, or settle them as the user decides. They are no memories before."""
        proposals = (await self._given()).mind.proposals
        decided = [await proposals.accept(name) for name in accept or ()]
        decided += [await proposals.reject(name) for name in reject or ()]
        found = [
            told_proposal(one, self._clock()) for one in decided or (await proposals.open())[:MAX_RESULTS]
        ]
        return listed("decided" if decided else "proposed", found)

    @tool(Access.WRITE)
    async def journal(self, text: Annotated[str, Field(description="the entry")]) -> dict[str, Any]:
        """Write a journal entry: what happened, what you learnt. Entries are never replaced."""
        store = await self._given()
        await store.journal(text)
        return {"written": iso(self._clock())}

    @tool(Access.READ)
    async def recent(
        self,
        limit: _Limit = 10,
        day: Annotated[str | None, Field(description="only of this day, YYYY-MM-DD (UTC)")] = None,
    ) -> dict[str, Any]:
        """Read journal entries, the newest first."""
        store = await self._given()
        if day is None:
            return self._entries(await store.recent(limit))
        begin = _day(day)
        first, last = begin.timestamp(), (begin + _DAY).timestamp()
        for count in RECENT_COUNTS:
            newest = await store.recent(count)
            if len(newest) < count or newest[-1].created_at < first:
                break
        found = [entry for entry in newest if first <= entry.created_at < last]
        return self._entries(found[:limit], total=len(found))

    @tool(Access.READ)
    async def status(self) -> dict[str, Any]:
        """How many memories there are, and how far each relay has copies of them."""
        store = await self._given()
        return told_status(store.status())

    # ── Those that cannot be taken back ─────────────────────────────────────────────────

    @tool(Access.DESTRUCTIVE)
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

    @tool(Access.DESTRUCTIVE)
    async def prune(
        self, apply: Annotated[bool, Field(description="delete; otherwise only show what would be")] = False
    ) -> dict[str, Any]:
        """Delete memories that have been dissolved for 30 days. Show the plan to the user first."""
        store = await self._given()
        report = (await store.persona_prune(dry_run=not apply)).report
        return {"dry_run": not apply, **told_pruning(report, MAX_RESULTS)}

    @tool(Access.EXPORT)
    async def export(
        self, name: Annotated[str, Field(description="a new file's name, such as backup.jsonl")]
    ) -> dict[str, Any]:
        """Write an encrypted backup of everything into the export folder of this machine."""
        store = await self._given()
        return {"exported": name, "events": store.export(self._new_export(name))}

    @tool(Access.PLAIN_EXPORT)
    async def export_plain(
        self,
        name: Annotated[str, Field(description="a new file's name that ends in .jsonl")],
        since: Annotated[str | None, Field(description="only since this day, YYYY-MM-DD")] = None,
        until: Annotated[str | None, Field(description="only until the end of this day, YYYY-MM-DD")] = None,
        theme: Annotated[str | None, Field(description="only with this theme")] = None,
        prefix: Annotated[
            str | None, Field(description="only names that begin so, such as projects/")
        ] = None,
    ) -> dict[str, Any]:
        """Write memories as plain text into the export folder of this machine, if the user asks for it. Anybody who reads the file reads them."""
        from sense_memory.exchange import ExportFilter, write_readable

        store = await self._given()
        path = self._new_export(name)
        if path.suffix != ".jsonl":
            raise InvalidInput(
                "the name of a plain export does not end in .jsonl, so nothing was written; add the ending"
            )
        begin = None if since is None else _day(since).timestamp()
        end = None if until is None else _day(until).timestamp() + DAY_SECONDS
        only = ExportFilter(begin, end, theme, prefix)
        done = await write_readable(store, path, only=only)
        part = {"filter": done.conditions, "left_out": done.left_out} if only else {}
        return {"exported": name, "memories": dict(done.counts), **part, "notes": done.notes}

    def _new_export(self, name: str) -> Path:
        """The path of a new file in the export folder.

        Raises:
            InvalidInput: the name is not a plain one, or a file has it.
        """
        if self._export_folder is None or not _is_export_name(name):
            raise InvalidInput(
                "this is not a plain file name, so nothing was written; use letters, digits, '.', '_' and '-'"
            )
        path = self._export_folder / name
        if path.is_symlink() or path.exists():
            raise InvalidInput(
                "there is a file of this name already, so nothing was written; choose another name"
            )
        return path

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
        shown = (told_memory(memory, self._clock(), is_cut=True) for memory in found[:limit])
        return listed("memories", shown, total=len(found))

    def _entries(self, found: Sequence[JournalEntry], total: int | None = None) -> dict[str, Any]:
        return listed("entries", (told_entry(entry, self._clock()) for entry in found), total)

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
    raise InvalidInput("this is not a day; give one as YYYY-MM-DD, such as 2026-05-01")
