"""`MemoryStore`: the object a user holds. Signatures, docstrings and wiring; no algorithm lives here."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sense_memory import arguments
from sense_memory.errors import (
    InvalidInput,
    StoreClosed,
    StoreForked,
    WrongThreadError,
    warn_of_limit,
)
from sense_memory.ledger import Ledger
from sense_memory.limits import (
    LINGER_SECONDS,
)
from sense_memory.memories import drafts
from sense_memory.memories.flat import FlatMemories
from sense_memory.memories.forget import ForgetTarget, forget_targets
from sense_memory.memories.history import history
from sense_memory.memories.journal import Journal
from sense_memory.memories.lookup import parts_of, paths_of
from sense_memory.memories.replication import Replication
from sense_memory.memories.status import Status, status_of
from sense_memory.memories.turns import Turns
from sense_memory.nostr import address
from sense_memory.nostr.keys import npub
from sense_memory.nostr.relay_url import relay_url
from sense_memory.nostr.signer import as_signer
from sense_memory.records.envelope import RecordType
from sense_memory.records.reader import Reader
from sense_memory.records.snapshot import Snapshot
from sense_memory.records.writer import Writer


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import BinaryIO

    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.embedding_jobs import EmbedderClient, EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.memories.persona.reviews import IntrospectionSchedule, Pruned, Reviews
    from sense_memory.memories.portable import ImportReport
    from sense_memory.memories.search import MemorySearch
    from sense_memory.memories.watch import Watch, Watchers
    from sense_memory.models import Draft, IntrospectionReport, JournalEntry, Memory, PersonaMemory
    from sense_memory.nostr.signer import PynostrKey, Signer
    from sense_memory.palace.plan import Plan
    from sense_memory.palace.search import PersonaHit
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.relay.client.timeouts import Timeouts
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.hits import Hit


_ABANDONED: Final[list[object]] = []  # of the process that this one is a fork of: never closed here


class MemoryStore:
    """An agent's memory: a key, a local ledger, and the relays that carry copies.

    Use it as `async with MemoryStore(...) as store:`. Every read answers from the ledger, and every write
    returns when it is durable in the ledger; relays follow in the background and on `sync()`. One store serves
    many tasks of one event loop; threads and processes open their own on the same ledger.

    Args:
        signer: a `Signer`, or a `pynostr.key.PrivateKey`.
        relays: their URLs: `wss://…`, or `ws://` on this machine. Without relays everything stays local.
        ledger: a file, ":memory:", or None for one file per key in the platform's data folder.
        background: follow the relays while the store is open. Without it, only `sync()`, `flush()`, and a read
            of a store that never reached a relay connect to relays.
        offline_first: send to relays before a first complete pull from them.
        allow_plain: also dial `ws://` on other machines (unencrypted: the network sees your address and times).
        snapshot: keep opened memories, encrypted, in a file beside the ledger, so that the next start does not
            open each memory again. The file is written when the store closes; False removes an existing one.
        plan: bounds what may be added: a `Plan`, "free", "keep", or "self_hosted" (the default, no limits).
            Existing memories can always be read, changed and forgotten.
        embedder: finds memories by meaning as well as by words: an `Embedder`, an argument of `open_embedder`
            ("static"), or a function that opens an embedder when it is first needed. Only the embedder sees texts.
        share_embeddings: the default of `embed(share=…)`.
        close_timeout: seconds, at most, for which closing waits until relays have taken what is queued; 0 does not
            wait. Closing never waits for a relay that cannot be reached, nor without `background`. Events that
            are still queued are logged as a warning, and sent when a store of this ledger is open next.
        timeouts: of relay connections, see `Timeouts`.
        clock: returns seconds since 1970.

    Raises:
        InvalidSetting: no such plan, or `close_timeout` is not a number of seconds.
        InvalidInput: no such embedder.
        InvalidRelayUrl: a relay that must not be dialled.
        BadKey: `signer` is neither a `Signer` nor a pynostr key.
    """

    def __init__(
        self,
        signer: Signer | PynostrKey,
        relays: Iterable[str] = (),
        *,
        ledger: str | Path | None = None,
        background: bool = True,
        offline_first: bool = False,
        allow_plain: bool = False,
        snapshot: bool = True,
        plan: Plan | str | None = None,
        embedder: Embedder | str | Callable[[], Embedder | None] | None = None,
        share_embeddings: bool = False,
        close_timeout: float = LINGER_SECONDS,
        timeouts: Timeouts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._signer = as_signer(signer)
        self._urls = tuple(
            dict.fromkeys(relay_url(url, allow_plain=allow_plain) for url in arguments.urls(relays))
        )
        self._ledger_path = arguments.ledger(ledger)
        self._background, self._offline_first = background, offline_first
        self._snapshot, self._timeouts = snapshot, _checked_timeouts(timeouts)
        self._clock = arguments.function(clock, "clock")
        from sense_memory.palace.plan import checked_plan

        self._plan, self._open_embedder = checked_plan(plan), _opener(embedder)
        self._shares_embeddings, self._close_timeout = (
            share_embeddings,
            arguments.close_timeout(close_timeout),
        )
        self._tell: Callable[[str], None] = warn_of_limit
        self._is_opening = self._is_closing = False
        self._process = os.getpid()
        self._ledger: Ledger | None = None
        self._watchers: Watchers | None = None
        self._persona_memories: Persona | None = None
        self._palace_reviews: Reviews | None = None
        self._search: MemorySearch | None = None
        self._embedder: EmbedderClient | None = None

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> MemoryStore:
        """A store from the environment, the `.env` file of the agent's home, and the config file.

        Args:
            agent: a named agent of this machine, or None for the configured one.
            options: passed on to the constructor; each overrides its setting.

        Raises:
            KeyMissing, BadKey, UnsafeFile: there is no usable key; no key is generated.
            InvalidSetting: a value cannot be used; the error names its source.
        """
        signer, options = configured(agent, options)
        return cls(signer, **options)

    async def __aenter__(self) -> Self:
        if self._ledger is not None or self._is_opening:
            raise InvalidInput(
                "this store is open already; nothing was changed. Close it first, or open another."
            )
        self._is_opening = True
        try:
            await self._open()
        finally:
            self._is_opening = False
        return self

    async def _open(self) -> None:
        self._process, self._thread, self._is_closing = os.getpid(), threading.get_ident(), False
        self._embedder_turn, self._turns = asyncio.Lock(), Turns()
        path = self._ledger_path or _default_ledger(self.public_key)
        self._ledger = await Ledger.opened(path, self.public_key)
        snapshot = Snapshot(self._signer, self._ledger) if self._snapshot else None
        self._reader = Reader(self._signer, self._ledger, self._clock, snapshot)
        self._writer = Writer(
            *(self._signer, self._ledger, self._reader),
            relays=self._urls,
            clock=self._clock,
            look=self._warn_of_relay_limits,
        )
        parts = self._ledger, self._reader, self._writer
        self._replication = Replication(
            self._signer,
            *parts,
            self._urls,
            clock=self._clock,
            timeouts=self._timeouts,
            offline_first=self._offline_first,
            persona=self._persona,
            has_persona=lambda: self._persona_memories is not None,
            warn=self._tell,
        )
        self._journal = Journal(*parts, clock=self._clock, ask=self._replication.ask)
        self._flat = FlatMemories(
            *parts,
            clock=self._clock,
            ask=self._replication.ask,
            plan=self._plan,
            persona_count=self._persona_count,
        )
        try:
            if snapshot is None:
                await self._ledger.write_if_due(self._ledger.snapshot.discard)
            await self._reader.file_quarantined()
            await self._ledger.write_if_due(self._ledger.relays.add, self._urls)
            if self._urls and self._background:
                self._replication.pool().start()
        except BaseException:
            await self._end()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_cut_short = kind is not None and not issubclass(kind, Exception)  # cancelled, or Ctrl-C
        await self._close_within(0.0 if is_cut_short else self._close_timeout)

    async def close(self) -> None:
        """Close connections and ledger, after waiting until relays have taken what is queued; see `close_timeout`.

        Unsent events stay queued and are sent next time. Calls that wait for relays end with StoreClosed. A second
        call, while the first waits, closes at once.
        """
        await self._close_within(self._close_timeout)

    async def _close_within(self, seconds: float) -> None:
        if os.getpid() != self._process:
            self._abandon()
            return
        if self._ledger is None:
            return
        self._refuse_other_thread()
        is_first, self._is_closing = not self._is_closing, True
        try:
            if is_first and self._background:
                await self._replication.drain(seconds)
        finally:
            await self._end()

    def _abandon(self) -> None:
        """In a fork: the ledger and the connections of the parent process are neither used nor closed."""
        if self._ledger is not None:
            _ABANDONED.append((self._ledger, self._replication, self._watchers))
        self._ledger = self._watchers = None

    async def _end(self) -> None:
        watchers, self._watchers = self._watchers, None
        ledger, self._ledger = self._ledger, None
        if ledger is None:
            return
        try:
            await self._replication.end()
            if watchers is not None:
                await watchers.close()
        finally:
            await self._close(ledger)

    async def _close(self, ledger: Ledger) -> None:
        try:
            await self._replication.close()
        finally:
            persona, self._persona_memories, self._palace_reviews = self._persona_memories, None, None
            search, self._search = self._search, None
            self._embedder = None
            try:
                if search is not None:
                    await search.close()
                if persona is not None:
                    await persona.close()
                await self._reader.save()
            finally:
                ledger.close()

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._signer.public_key

    @property
    def npub(self) -> str:
        """The public key as NIP-19 text."""
        return npub(self.public_key)

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._urls

    def __repr__(self) -> str:
        return f"MemoryStore({self.npub}, relays={len(self._urls)}, open={self._ledger is not None})"

    # ── v1: flat memories ───────────────────────────────────────────────────────────────

    async def remember(self, key: str, value: str) -> str:
        """Write a value under a key. It replaces the previous value, which stays in the local `history`.

        Returns:
            The event's id, once the event is durable in the ledger.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is not text (`TooLargeError`: too long).
            ClockSkewError: this clock is far behind the newest version; the value is kept as a draft, see `drafts`.
            LedgerError: the ledger could not be written.
        """
        await self._writing()
        ident = await self._flat.remember(key, value)
        self._wake()
        return ident

    async def remember_many(
        self,
        pairs: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """Write many values, in batches of 1,000 that are durable whole or not at all.

        All values are checked before anything is written. Where a key is given twice, its last value is written,
        as one version.

        Args:
            pairs: a mapping, or any iterable of (key, value).
            progress: called with the number of memories written so far.

        Returns:
            For each pair, in order, the id of the event that now holds its key.

        Raises:
            InvalidInput, NeedsNewerVersion, PlanLimitError, ClockSkewError: as `remember`; the error names the
                pair by its number, from 1, and its key. Nothing was written.
            LedgerError: the ledger could not be written; earlier batches stay.
        """
        await self._writing()
        arguments.callback(progress, "progress")

        def written(count: int) -> None:
            self._wake()
            if progress is not None:
                progress(count)

        return await self._flat.remember_many(arguments.pairs(pairs), written)

    async def recall(self, key: str) -> Memory | None:
        """The memory under a key, from the ledger; None where the key was never written, or was forgotten.

        Relays that the background asks for the first time get some seconds to answer before the result is None. A
        relay that has not shown everything yet may still hold the key: see `Status.never_complete`.

        Raises:
            NotSynced: the ledger does not hold the key, and no relay ever answered completely.
            NeedsNewerVersion: a newer sense-memory wrote the memory.
            InvalidAddress: `key` cannot be a key.
        """
        self._opened()
        return await self._flat.recall(key)

    async def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The memories under many keys, by key. No relay is asked; keys that the ledger does not hold are left out.

        Raises:
            InvalidAddress: one of them cannot be a key.
        """
        self._opened()
        return await self._flat.recall_many(arguments.several(keys, "keys"))

    async def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address.

        Raises:
            NotSynced: the ledger is empty and no relay ever answered completely.
        """
        self._opened()
        return await self._flat.recall_all()

    async def forget(self, key: str) -> str:
        """Forget a memory everywhere: purge it here, and have relays replace it by a tombstone and delete it (NIP-09).

        The deletion is published even if the ledger does not hold the key, because relays may. A relay that ignores
        deletions keeps the tombstone; nobody can promise that every copy is gone.

        Returns:
            The id of the deletion request.
        """
        (ident,) = await self._forget([ForgetTarget.flat(key)])
        return ident

    async def forget_many(
        self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many memories, as `forget` does, in batches of 32: one deletion request each, whole or not at all.

        Args:
            keys: any iterable of keys.
            progress: called with the number of memories forgotten so far.

        Returns:
            For each key the id of the deletion request that names it.

        Raises:
            InvalidAddress: one of them cannot be a key; nothing was forgotten.
            LedgerError: the ledger could not be written; earlier batches stay forgotten.
        """
        return await self._forget(
            [ForgetTarget.flat(key) for key in arguments.several(keys, "keys")], progress
        )

    async def refresh(self, key: str) -> str | None:
        """Sign a memory again, with the same value and the same time inside, for relays that refuse it as too old.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory.

        Returns:
            The new event's id, or None where there is no such memory.

        Raises: as `recall` and `remember`.
        """
        await self._writing()
        ident = await self._flat.refresh(key)
        if ident is not None:
            self._wake()
        return ident

    # ── v2: persona memories ────────────────────────────────────────────────────────────

    async def persona_remember(  # noqa: PLR0917 - the spec's signature
        self,
        domain: str,
        facet: str,
        key: str,
        value: str,
        themes: Sequence[str] = (),
        connections: Sequence[str] = (),
        *,
        halflife_days: float | None = None,
        source: str | None = None,
        confidence: float | None = None,
    ) -> str:
        """Write a persona memory under a domain, a facet and a key, at full relevance.

        Writing an existing key is an edit: themes, links, half-life, confidence, source and the count of accesses
        stay unless they are passed. A memory of the same facet that the new value clearly contradicts is marked as
        superseded in the same write; a contradiction that is only suspected waits for `persona_introspect`.

        Args:
            domain: such as self, people, projects, world, skills; any name of 1 to 64 characters but `flat`.
            facet: such as facts, beliefs, decisions, procedures, emotions; any name of 1 to 64 characters.
            key: 1 to 256 characters.
            value: any text; the whole memory must fit 40,960 bytes.
            themes: what the memory is about, for search; by default the existing themes stay.
            connections: paths or unique keys of related memories, which are linked both ways; by default the
                existing connections stay. A path may name a memory that is still to be written.
            halflife_days: days after which relevance has halved; 30 for a new memory.
            source: user, agent, import, `tool:<name>`, `document:<hash>`, or empty.
            confidence: 0 to 1; 1 for a new memory.

        Returns:
            The event's id, once the event is durable in the ledger.

        Raises:
            InvalidInput: an argument cannot be used (`InvalidAddress`: a name, `TooLargeError`: too long).
            NeedsNewerVersion: a newer sense-memory wrote the head, which is not overwritten.
            ClockSkewError: this clock is far behind the newest version; the value is kept as a draft, see `drafts`.
            LedgerError: the ledger could not be written.
        """
        from sense_memory.memories.persona import arguments as given

        await self._writing()
        path = address.persona_path(domain, facet, key).removeprefix(address.PERSONA)
        fields = given.fields(value, themes, halflife_days, source, confidence)
        ident = await self._persona().remember(path, fields, given.links(connections))
        self._wake()
        return ident

    async def persona_recall(
        self,
        domain: str | None = None,
        facet: str | None = None,
        key: str | None = None,
        *,
        include_forgotten: bool = False,
    ) -> list[PersonaMemory]:
        """One memory by its exact key, or the memories of a facet, of a domain, or all.

        Recalling by the exact key revives a memory, whatever its state: its relevance is 1 again, and it has one
        access more. The ledger notes the access; relays learn of it with `sync`, the memory's next edit, `flush` or
        `persona_prune`. Listing does not revive memories; it returns active and fading ones, the most relevant
        first. A key without domain or facet finds every memory with that key; a single one is revived.

        Args:
            domain: only of this domain.
            facet: only of this facet.
            key: only with this key.
            include_forgotten: list forgotten and dissolved memories too.

        Returns:
            The memories, in their present state; an empty list where there is none.

        Raises:
            NotSynced: the ledger holds none, and no relay ever answered completely.
            NeedsNewerVersion: a newer sense-memory wrote the memory.
            InvalidAddress: an argument cannot be a name.
        """
        from sense_memory.memories.persona import arguments as given

        persona = self._persona()
        domain, facet = given.selection(domain, facet)
        if key is None:
            return await persona.listing(domain, facet, include_forgotten=include_forgotten)
        if domain is None or facet is None:
            return await persona.recall_key(key, domain, facet)
        memory = await persona.recall_one(domain, facet, key)
        return [] if memory is None else [memory]

    async def persona_forget(self, domain: str, facet: str, key: str) -> str:
        """Forget a persona memory everywhere, as `forget` does; links to it are ignored from then on.

        Returns:
            The id of the deletion request.
        """
        (ident,) = await self._forget([ForgetTarget.persona(domain, facet, key)])
        return ident

    async def persona_forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many persona memories, each named by its path `domain/facet/key`. As `forget_many`."""
        targets = [ForgetTarget.persona(*parts_of(path)) for path in arguments.several(paths, "paths")]
        return await self._forget(targets, progress)

    async def persona_connect(self, key1: str, key2: str) -> None:
        """Link two memories both ways and reinforce them: each connection adds a tenth to their relevance.

        Args:
            key1: `domain/facet/key`, or a key that no other memory has.
            key2: the other.

        Raises:
            InvalidInput: a memory does not exist, a bare key is not unique, or both are the same memory.
            NotSynced: the ledger does not hold one of them, and no relay ever answered completely.
        """
        await self._writing()
        await self._persona().links.connect(key1, key2)
        self._wake()

    async def persona_disconnect(self, key1: str, key2: str) -> None:
        """Remove the link between two memories, if there is one. Arguments and errors as `persona_connect`."""
        await self._writing()
        await self._persona().links.disconnect(key1, key2)
        self._wake()

    async def persona_dismiss(self, key1: str, key2: str) -> None:
        """Decline a connection or contradiction that `persona_introspect` suggested, for good.

        Arguments and errors as `persona_connect`.
        """
        await self._writing()
        await self._persona().links.dismiss(key1, key2)
        self._wake()

    async def persona_contradict(self, old_key: str, new_key: str) -> None:
        """Mark a memory as contradicted and superseded by another; it then decays four times faster.

        Both memories stay readable; `undo` of the old one removes the mark.

        Args:
            old_key: `domain/facet/key`, or a key that no other memory has.
            new_key: the memory that is right.

        Raises:
            InvalidInput: as `persona_connect`, or the new memory is itself superseded by the old one.
            NotSynced: the ledger does not hold one of them, and no relay ever answered completely.
        """
        await self._writing()
        await self._persona().links.contradict(old_key, new_key)
        self._wake()

    async def persona_domains(self) -> list[str]:
        """Every domain that holds a persona memory, sorted. Raises NotSynced as `persona_recall`."""
        return (await self._persona().names.catalog()).domains()

    async def persona_facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a persona memory, sorted. Raises NotSynced as `persona_recall`."""
        from sense_memory.memories.persona import arguments as given

        name, _ = given.selection(domain, None)
        return [] if name is None else (await self._persona().names.catalog()).facets(name)

    async def persona_stats(self) -> dict[str, Any]:
        """How many persona memories there are: `total`, by state in `states`, by domain in `domains`, by domain
        and facet in `facets`, and how many `connections`, `superseded` and `conflicts`.

        Raises:
            NotSynced: the ledger holds none, and no relay ever answered completely.
        """
        return await self._reviews().stats()

    async def persona_search(
        self, query: str, limit: int = 10, *, relevance_floor: float = 0.0
    ) -> list[PersonaHit]:
        """Find persona memories by key, themes and value, and by meaning where there is an embedder.

        Active memories are searched, and fading ones that the query directly means. Searching does not revive
        memories.

        Args:
            query: some words; words `"in quotes"` also match as a phrase, `photo*` matches every word with that
                beginning.
            limit: the largest number of results, 1 to 1,000.
            relevance_floor: 0 to 1; scores are multiplied by floor + (1 - floor) x relevance. 0 is the value of
                the specification; the higher the floor, the less age counts.

        Returns:
            Memories with their `score` and `why`, the best first.

        Raises:
            InvalidInput: the query is not text, or a number is out of range.
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
        """
        return await (await self._memory_search()).search_palace(query, limit, relevance_floor)

    async def persona_compress(self, domain: str | None = None, *, max_tokens: int = 500) -> str:
        """The active persona memories as compressed text for a prompt, the most relevant ones first.

        A plan with basic compression gets the memories word for word.

        Args:
            domain: only of this domain.
            max_tokens: the largest size of the text, by an estimate that is rather too high; at least 32.

        Raises:
            InvalidInput: `max_tokens` is too small.
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
        """
        full = self._plan.compression == "full"
        return await self._reviews().compress(domain, max_tokens, full=full)

    async def persona_introspect(self) -> IntrospectionReport:
        """Report on the palace: what needs attention, what could be connected, what changed since the last report.

        No memory is changed. A log of keys and counts is written, encrypted, and sent to relays, so that the next
        introspection on any device can tell what changed. Accept a suggested connection with `persona_connect`;
        decline it with `persona_dismiss`.

        Raises:
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
            LedgerError: the log could not be written.
        """
        await self._writing()
        report = await self._reviews().introspect()
        self._wake()
        return report

    def persona_introspections(self, every: float) -> IntrospectionSchedule:
        """An introspection now, and another every so many seconds until the store is closed.

        Use it as `async for report in store.persona_introspections(every): …`. Without `background`, relays are
        asked for news before each introspection.

        Args:
            every: seconds from one introspection to the next, 1 or more.

        Raises:
            InvalidInput: `every` is less than a second.
            PlanLimitError: the plan allows introspection by hand only.
            NotSynced, LedgerError: from the iterator, as `persona_introspect`.
        """
        from sense_memory.memories.persona.reviews import IntrospectionSchedule

        self._plan.check_schedule()

        async def look() -> IntrospectionReport:
            self._opened()
            if self._urls and not self._background:
                await self._replication.sync()
            return await self.persona_introspect()

        return IntrospectionSchedule(look, every)

    async def persona_prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
        """Write the states that changed with time, and delete memories that have been dissolved for 30 days.

        Every relay is asked for what it holds before anything is deleted, because another device may have used a
        memory. If a relay does not answer completely, nothing is deleted, and the report names the relay.

        Args:
            dry_run: only report what would be done.
            without: URLs of relays that need not answer.

        Returns:
            How many memories changed their state or were deleted; `report` lists each with the reason.

        Raises:
            InvalidInput: `without` names no relay of this store.
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
            LedgerError: the ledger could not be written.
        """
        self._opened()
        incomplete = self._replication.incomplete(without)
        if dry_run:
            return await self._reviews().planned()
        done = await self._reviews().prune(incomplete)
        self._wake()
        return done

    # ── What could not be written ───────────────────────────────────────────────────────

    async def drafts(self) -> list[Draft]:
        """The drafts of this device, oldest first: texts that are in no memory.

        Either this device's clock did not allow the text to be written (`ClockSkewError`), or another device, which
        had not seen the text, forgot the memory later; `reason` says which. Drafts are kept encrypted, on this
        machine only; `forget` discards the drafts of its key.
        """
        return await drafts.drafts(self._opened(), self._signer)

    async def publish_draft(self, number: int) -> str:
        """Write a draft over what its key holds, now that the clock is right, or although the memory was forgotten.

        Returns:
            The event's id.

        Raises:
            InvalidInput: there is no such draft. Other errors as `remember`; the draft then stays.
        """

        async def write(record: Record) -> str:
            part = self._persona() if record.type is RecordType.PERSONA else self._flat
            return await part.publish_draft(record)

        ident = await drafts.publish(await self._writing(), self._signer, number, write)
        self._wake()
        return ident

    def discard_draft(self, number: int) -> None:
        """Remove a draft for good.

        Raises:
            InvalidInput: there is no such draft.
        """
        drafts.discard(self._opened(), number)

    # ── History ──────────────────────────────────────────────────────────────────────────────

    async def history(self, key: str) -> list[Version]:
        """Every version of a memory that this ledger has seen, newest first.

        Only the tombstone is left of a forgotten memory. Versions are ordered by the time at which they were
        written, whenever a relay served them.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory, whose versions may differ in
                their links or counts alone.
        """
        return await history(self._opened(), self._reader, paths_of(key))

    async def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, as far as this ledger has seen its versions.

        Args:
            time: seconds since 1970.
        """
        self._opened()
        return await self._flat.as_of(arguments.moment(time))

    async def persona_as_of(
        self, time: float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """Persona memories as they were at a time, as far as this ledger has seen their versions, by path.

        Args:
            time: seconds since 1970.
            domain: only of this domain.
            facet: only of this facet.
        """
        from sense_memory.memories.persona import arguments as given

        domain, facet = given.selection(domain, facet)
        return await self._persona().as_of(arguments.moment(time), domain, facet)

    async def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Write the value before the last edit as a new version; a second `undo` goes one edit further back.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory: value, themes, links and
                supersession become what they were before the last change to them.

        Returns:
            The memory as it is now, or None where there is no earlier value.
        """
        await self._writing()
        if isinstance(key, str) and "/" in key:
            memory = await self._persona().undo(*parts_of(key))
            self._wake()
            return memory
        if not await self._flat.undo(key):
            return None
        self._wake()
        return await self._flat.recall(key)

    # ── v1: journal ─────────────────────────────────────────────────────────────────────

    async def journal(self, content: str) -> str:
        """Write a journal entry: a direct message to oneself (kind 4, NIP-44), never replaced.

        Returns:
            The event's id, once the event is durable in the ledger.

        Raises: as `remember`.
        """
        await self._writing()
        ident = await self._journal.write(content)
        self._wake()
        return ident

    async def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first.

        Args:
            limit: 1 to 100,000.

        Raises:
            InvalidInput: the limit is out of range.
            NotSynced: the ledger holds no entry, and no relay ever answered completely.
        """
        self._opened()
        return await self._journal.recent(limit)

    async def forget_entry(self, event_id: str) -> str:
        """Remove a journal entry everywhere: purge it here, and have relays delete it (NIP-09).

        The deletion is sent to every relay, even to one that was never sent the entry: another device, or an attempt
        whose answer was lost, may have brought the entry there. The ledger keeps the deletion, so that no copy of
        the entry comes back.

        Args:
            event_id: `JournalEntry.event_id`, 64 hex digits.

        Returns:
            The id of the deletion request.

        Raises:
            InvalidInput: there is no journal entry with this id; other events are never removed.
            NotSynced: the ledger does not hold the entry, and no relay ever answered completely.
        """
        await self._writing()
        ident = await self._journal.forget(event_id)
        self._wake()
        return ident

    # ── Search ──────────────────────────────────────────────────────────────────────────

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        within: Iterable[str] = ("palace", "journal", "flat"),
        since: float | None = None,
        source: str | None = None,
        relevance_floor: float = 0.9,
    ) -> list[Hit]:
        """Find what a question or some words mean among persona memories, flat memories and journal entries.

        All of them share one ranking. Journal entries also match on the entries just before and after them, and on a
        date that the query names. Forgotten persona memories are left out, and fading ones unless the query directly
        means them. Searching does not revive memories.

        Args:
            query: any text; words `"in quotes"` also match as a phrase, `photo*` matches every word with that
                beginning.
            limit: the largest number of hits, 1 to 1,000.
            within: where to search: any of palace, journal and flat.
            since: only memories first written at this time or later, seconds since 1970.
            source: only persona memories with this source: user, agent, import, `tool:<name>`, or `tool` for any tool.
            relevance_floor: 0 to 1; scores are multiplied by floor + (1 - floor) x relevance. Journal entries age
                with a half-life of 30 days, flat memories do not age. Below 0.9, many old entries are not found.

        Returns:
            Hits with their `score` and `why`, the best first.

        Raises:
            InvalidInput: an argument cannot be used.
            NotSynced: the ledger holds nothing to search, and no relay ever answered completely.
        """
        from sense_memory.search.hits import scope

        wanted = scope(within, since, source)
        return await (await self._memory_search()).search(query, limit, wanted, relevance_floor)

    async def index(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Index every memory that is not indexed yet, so that the next search covers all of them at once.

        A search does so by itself, but answers after some seconds from the memories that are indexed by then; `gaps`
        says how many are not. An interrupted call continues where it stopped.

        Args:
            progress: called with how many memories are indexed, and of how many.

        Returns:
            How many memories can be searched.

        Raises: as `search`.
        """
        return await (await self._memory_search()).read(progress)

    async def embed(
        self,
        *,
        share: bool | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Have the embedder read every memory that it has not read yet, so that searches find it by meaning.

        Each search spends about a second on this by itself; many memories and a slow embedder need longer. Vectors
        that another device of this key has shared are taken over. An interrupted call continues where it stopped. A
        different embedder reads everything again.

        Args:
            share: also write the vectors of each memory as an encrypted event (`sense-memory/embed/…`) for other
                devices and for a restored one: some 9 to 14 KB for a memory of 1 KB. By default the store's
                `share_embeddings`.
            dry_run: only report what would be done: `count` memories read, `taken` over from other devices, and
                `unshared` ones shared. No service is asked.
            progress: called with how many memories are done, and of how many.

        Returns:
            What was done, and what is left and why; an empty report where there is no embedder.

        Raises:
            MissingExtra, EmbedderError: the embedder cannot be opened.
            PlanLimitError: the plan does not include embeddings.
            LedgerError: the ledger could not be written.
        """
        arguments.callback(progress, "progress")
        wanted = self._shares_embeddings if share is None else share
        report = await (await self._memory_search()).embed(share=wanted, dry_run=dry_run, progress=progress)
        self._wake()
        return report

    def gaps(self) -> Gaps:
        """How many memories the last search knew by words only, although there is an embedder, and why."""
        from sense_memory.memories.embedding_jobs import Gaps

        return Gaps(0, None) if self._search is None else self._search.gaps()

    # ── Relays ──────────────────────────────────────────────────────────────────────────

    async def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
        """Bring every relay and the ledger in step now: pull, then push.

        Recalled persona memories are first written again with their new accesses, so that no other device prunes what
        this one uses: each memory once a day at most, or when the access changes its state. Background rounds do so
        once an hour. It costs one event of the memory's size each.

        Args:
            full: pull everything instead of what is new, and send again what a relay has lost.
            retry_refused: send again the events that a relay refused, or did not take for a week. Otherwise they are
                never sent again, because the relay would refuse them each time.

        Returns:
            A report for each relay; a relay that fails raises no error. `overruled` names the memories in which an
            edit of this device lost since the last call, because another device that did not know the edit wrote
            later, or forgot the memory. The text is in `history`, in a conflict copy, or in `drafts`.

        Raises:
            LedgerError: the ledger could not be used (`StorageFullError`: the disk is full).
        """
        self._opened()
        report = await self._replication.sync(full=full, retry_refused=retry_refused)
        return replace(report, overruled=await drafts.overruled(self._opened(), self._reader, self._signer))

    async def flush(self) -> SyncReport:
        """Send queued events without pulling, except from relays that were never pulled completely.

        Recalled persona memories are first written again with their new accesses. The report names those that no
        longer fit an event (`unfit`).
        """
        self._opened()
        return await self._replication.flush()

    async def holdings(self) -> list[Holding]:
        """Compare what each relay holds with the ledger; no event is fetched or sent.

        All relays are asked at once, for a minute at most. The result is exact for a relay that compares sets
        (NIP-77), a number for one that counts (NIP-45), and unknown otherwise; then only `sync(full=True)` can tell.

        Returns:
            A `Holding` for each relay, in order; a relay that fails raises no error.

        Raises:
            LedgerError: the ledger could not be read.
        """
        self._opened()
        return await self._replication.holdings()

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> Watch:
        """The changes made elsewhere, from now on: `async for change in store.watch(): …`.

        There is one change for each memory that another device, or another process on this ledger, wrote or forgot,
        and for each journal entry; none for what this store wrote. Of several versions that arrive together only the
        last is reported. No change is missed while a relay is away, as long as the relay keeps its events. While a
        watch is open, relays are followed even without `background`. A watch ends with the store, or with `aclose`.

        Args:
            on_relay: called while the iterator waits, with a relay's URL and its problem; with an empty text when
                the relay reports new events at once. Other relays are asked every half minute.

        Raises:
            ChangesMissed: from the iterator, which was read too slowly and has ended.
        """
        ledger = self._opened()
        arguments.callback(on_relay, "on_relay")
        if self._watchers is None:
            from sense_memory.memories.watch import Watchers

            self._watchers = Watchers(ledger, self._reader, self._replication.listeners())
        return self._watchers.add(on_relay)

    def drop_relay(self, url: str) -> int:
        """Discard the queue and the pull position of a relay that is no longer used.

        The relay keeps its events. Should it be used again, it is pulled completely and sent what it lacks.

        Args:
            url: a relay that this store does not use.

        Returns:
            How many events were queued for the relay.

        Raises:
            InvalidRelayUrl: `url` is not the URL of a relay.
            InvalidInput: this store uses the relay.
        """
        relay = relay_url(url, allow_plain=True)
        if relay in self._urls:
            raise InvalidInput(f"this store uses {relay}; open one without it first. Nothing was changed.")
        return self._opened().relays.remove(relay)

    # ── Portable ────────────────────────────────────────────────────────────────────────

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write every event of the ledger into a file of JSON lines: signed and encrypted, without a secret.

        Versions that were replaced within a second, before any relay was sent them, are left out; they stay in the
        local history.

        Args:
            path: the file, which is created with mode 0600 and moved into place whole, or an open binary file.
            overwrite: replace an existing file.
            progress: called with the number of events written so far.

        Returns:
            How many events were written.

        Raises:
            InvalidInput: the file exists, or cannot be written.
        """
        from sense_memory.memories.portable import write_export

        target = arguments.file(path, "write")
        arguments.callback(progress, "progress")
        return write_export(target, self._opened().handed_out(), overwrite=overwrite, progress=progress)

    async def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """Import events from a file of JSON lines; every line is verified and opened, and each bad line is reported.

        New events are sent to the relays as if they had been written here; no newer version is overwritten.

        Args:
            path: the file, or an open binary file.
            progress: called with the number of lines read so far.

        Raises:
            InvalidInput: the file cannot be read.
        """
        from sense_memory.memories.portable import import_file

        self._opened()
        arguments.callback(progress, "progress")
        report = await import_file(self._reader, arguments.file(path, "readline"), self.public_key, progress)
        await self._replication.settle(heard=not self._urls)
        self._wake()
        return report

    def status(self) -> Status:
        """What the ledger holds, and how far each relay is in step with it. No relay is asked."""
        return status_of(
            self.public_key, self._opened(), self._urls, self._replication.pool_in_use, self._clock()
        )

    def is_complete(self) -> bool:
        """As `status().is_complete`, without counting the ledger, which takes 0.2 s for 100,000 memories."""
        states = map(self._opened().relays.state, self._urls)
        return not self._urls or any(state.completed_at is not None for state in states)

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of an event at each relay, by URL: queued, acked, confirmed, refused, parked or superseded."""
        ledger = self._opened()
        stored = ledger.by_id(event_id)
        return ledger.outbox.states_by_relay(stored.seq) if stored else {}

    async def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one, while neither this store nor another process has the ledger open.

        The damaged file is moved aside and kept. Every event and draft that can still be read is verified, opened and
        filed in the new ledger, unsent events included; `sync` restores the rest from relays. A forgotten memory
        stays forgotten if its tombstone can be read, in the ledger or on a relay.

        Raises:
            InvalidInput: the ledger is sound, is missing, or is not a ledger; the file was not touched.
            WrongKeyError, LedgerTooNew, UnsafeFile: as on opening a store.
        """
        from sense_memory.memories.rescue import rescue

        path = Path(self._ledger_path or _default_ledger(self.public_key))
        if self._ledger is not None or not await asyncio.to_thread(path.is_file):
            raise InvalidInput(f"{path} is open, or there is no such file; nothing was changed")
        return await rescue(path, self._signer, self._clock)

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings, and events that no longer verify."""
        from sense_memory.memories.rescue import integrity

        return integrity(self._opened())

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    def _opened(self) -> Ledger:
        if self._ledger is None:
            raise StoreClosed
        if os.getpid() != self._process:
            raise StoreForked
        self._refuse_other_thread()
        return self._ledger

    def _refuse_other_thread(self) -> None:
        if self._ledger is not None and threading.get_ident() != self._thread:
            raise WrongThreadError

    async def _writing(self) -> Ledger:
        """The open ledger, for a call that is about to write; see `Turns`."""
        self._opened()
        await self._turns.take()
        return self._opened()

    def _persona(self) -> Persona:
        """The persona memories, opened when one is first needed, so that a flat memory does not pay for them."""
        ledger = self._opened()
        if self._persona_memories is None:
            from sense_memory.memories.persona.persona import Persona

            self._persona_memories = Persona(
                ledger,
                self._reader,
                self._writer,
                clock=self._clock,
                ask=self._replication.ask,
                plan=self._plan,
                embedding=None if self._open_embedder is None else self._embedding,
            )
        return self._persona_memories

    async def _persona_count(self) -> int:
        return len(await self._persona().palace.refresh())

    def _reviews(self) -> Reviews:
        persona, ledger = self._persona(), self._opened()
        if self._palace_reviews is None:
            from sense_memory.memories.persona.reviews import Reviews

            self._palace_reviews = Reviews(persona, ledger, self._reader, self._writer, self._clock)
        return self._palace_reviews

    async def _memory_search(self) -> MemorySearch:
        persona, ledger = self._persona(), self._opened()
        embedding = await self._embedding()
        if self._search is None:
            from sense_memory.memories.search import MemorySearch
            from sense_memory.memories.shared_embeddings import SharedEmbeddings

            about: dict[str, Any] = {"clock": self._clock, "ask": self._replication.ask}
            about["catalog"] = persona.names.catalog
            if embedding is not None:
                sharing = SharedEmbeddings(embedding.cache, ledger, self._reader, self._writer, self._clock)
                about["meaning"] = embedding, sharing
            self._search = MemorySearch(persona.palace, ledger, self._reader, **about)
        return self._search

    async def _embedding(self) -> EmbedderClient | None:
        """The embedder, opened once, when it is first needed; None where the store has no embedder."""
        if self._embedder is not None or self._open_embedder is None:
            return self._embedder
        self._plan.check_embeddings()
        async with self._embedder_turn:
            if (
                self._embedder is None
                and (embedder := await asyncio.to_thread(self._open_embedder)) is not None
            ):
                from sense_memory.memories.embedding_jobs import EmbedderClient
                from sense_memory.records.vector_cache import VectorCache

                if not callable(getattr(embedder, "embed", None)) or not isinstance(
                    getattr(embedder, "name", None), str
                ):
                    raise InvalidInput(
                        "`embedder` must open an `Embedder`: something with `name` and `embed`"
                    )
                cache = VectorCache(self._signer, self._opened().vectors, embedder.name)
                self._embedder = EmbedderClient(embedder, time.monotonic, cache)
        return self._embedder

    def _warn_of_relay_limits(self, record: Record, sealed: SealedRecord) -> None:
        self._replication.warn_of_limits(record, sealed)  # it needs the writer, which needs this

    def _wake(self) -> None:
        self._replication.wake()

    async def _forget(
        self, targets: Sequence[ForgetTarget], progress: Callable[[int], None] | None = None
    ) -> list[str]:
        arguments.callback(progress, "progress")
        ids = await forget_targets(await self._writing(), self._writer, targets, progress)
        self._wake()
        return ids


def configured(agent: str | None, options: dict[str, Any]) -> tuple[Signer, dict[str, Any]]:
    """The signer and the options of a store from the settings; each option that is passed overrides its setting.

    Raises: as `MemoryStore.from_settings`.
    """
    from sense_memory.config.settings import Settings, find_embedder, find_secret, ledger_path
    from sense_memory.nostr.signer import LocalSigner

    options = arguments.settings(agent, options)
    settings = Settings.load(agent=agent, relays=options.get("relays"), ledger=options.get("ledger"))
    secret, _ = find_secret(settings)
    signer = LocalSigner(secret)
    ledger = settings.ledger or ledger_path(settings.home, signer.public_key)
    embedder = partial(find_embedder, settings) if settings.wants_embedder else None
    return signer, {
        "plan": settings.plan,
        "embedder": embedder,
        "share_embeddings": settings.share_embeddings,
        **options,
        "relays": settings.relays,
        "ledger": ledger,
    }


def _default_ledger(public_key: str) -> Path:
    from sense_memory.config.settings import Settings, ledger_path

    return ledger_path(Settings.load().home, public_key)


def _checked_timeouts(given: Timeouts | None) -> Timeouts | None:
    """The timeouts of connections, or None."""
    if given is not None:
        from sense_memory.relay.client.timeouts import Timeouts

        if not isinstance(given, Timeouts):
            raise InvalidInput("timeouts must be a `relay.client.timeouts.Timeouts`, or None")
    return given


def _opener(embedder: Embedder | Callable[[], Embedder | None] | str | None) -> Callable[[], Any] | None:
    from sense_memory.search.embedders.choice import opener

    return None if embedder is None else opener(embedder)
