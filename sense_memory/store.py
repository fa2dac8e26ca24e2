"""`MemoryStore`: the object a user holds. Wiring and docstrings; no algorithm lives here."""

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
from sense_memory.memories import drafts, removal
from sense_memory.memories.flat import FlatMemories
from sense_memory.memories.history import history
from sense_memory.memories.journal import Journal
from sense_memory.memories.lookup import parts_of, paths_of
from sense_memory.memories.removal import Named
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
    from sense_memory.memories.embedding_jobs import Embedding, EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.memories.persona.reviews import IntrospectionSchedule, Pruned, Reviews
    from sense_memory.memories.persona.search import PalaceSearch
    from sense_memory.memories.portable import ImportReport
    from sense_memory.memories.search import Finding
    from sense_memory.memories.watch import Watch, Watchers
    from sense_memory.models import Draft, IntrospectionReport, JournalEntry, Memory, PersonaMemory
    from sense_memory.nostr.signer import PynostrKey, Signer
    from sense_memory.palace.plan import Plan
    from sense_memory.palace.search import PersonaHit
    from sense_memory.records.envelope import Record, Sealed
    from sense_memory.relay.client.timeouts import Timeouts
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.hits import Hit


_ABANDONED: Final[list[object]] = []  # of the process that this one is a fork of: never closed here


class MemoryStore:
    """An agent's memory: a key, a local ledger, and the relays that carry copies.

    Use it as `async with MemoryStore(...) as store:`. Every read answers from the ledger and every write
    returns when it is durable there; relays follow in the background and on `sync()`. One store serves
    many tasks of one event loop; threads and processes open their own on the same ledger.

    Args:
        signer: a `Signer`, or a `pynostr.key.PrivateKey`.
        relays: URLs: `wss://…`, or `ws://` on this machine. None at all keeps everything local.
        ledger: a file, ":memory:", or None for one file per key in the platform's data folder.
        background: follow the relays while open. Without it they are reached by `sync()`, `flush()`, and
            by a read of a store that never reached one.
        offline_first: send to relays before a first complete pull from them.
        allow_plain: also dial `ws://` on other machines (unencrypted: they see your address and times).
        snapshot: keep opened memories, encrypted, in a file beside the ledger, so that the next start need
            not open each again. It is written when a store closes; without it, one that exists is removed.
        plan: what may be added: a `Plan`, or free, keep or self_hosted, the default without limits. What is
            there already can always be read, changed and forgotten.
        embedder: finds by meaning besides words: an `Embedder`, what `open_embedder` takes ("static"), or a
            function that opens one when it is first needed. Texts are shown to it, and to no other.
        share_embeddings: what `embed` does where it is not told: whether it shares what the embedder made.
        close_timeout: seconds for which closing waits at most until relays have taken what is queued; 0 does not
            wait. A relay that cannot be reached is not waited for, and nothing is without `background`. What is
            still queued then is logged as a warning, and sent when a store of this ledger is open next.
        timeouts: of relay connections; see `relay.client.timeouts.Timeouts`.
        clock: seconds since 1970.

    Raises:
        InvalidSetting: no such plan, or no number of seconds.
        InvalidInput: no such embedder.
        InvalidRelayUrl: a relay that must not be dialled.
        BadKey: `signer` is neither.
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
        self._shares_embeddings, self._close_timeout = share_embeddings, arguments.patience(close_timeout)
        self._tell: Callable[[str], None] = warn_of_limit
        self._is_opening = self._is_closing = False
        self._process = os.getpid()
        self._ledger: Ledger | None = None
        self._watchers: Watchers | None = None
        self._palace: Persona | None = None
        self._views: Reviews | None = None
        self._finds: PalaceSearch | None = None
        self._everything: Finding | None = None
        self._meaning: Embedding | None = None

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> MemoryStore:
        """A store from environment, home `.env` and config file (see `settings`).

        Args:
            agent: a named agent of this machine, or None for the configured one.
            options: passed on to `MemoryStore`; `relays` and `ledger` override the settings.

        Raises:
            KeyMissing, BadKey, UnsafeKeyFile: no usable key; nothing is made up.
            InvalidSetting: a value that cannot be used, with where it came from.
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
            look=self._foresee,
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
            has_persona=lambda: self._palace is not None,
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
            await self._reader.release()
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
        """Close connections and ledger, after waiting for what is queued; see `close_timeout`.

        What relays have not got stays queued and is sent next time. Calls that wait for relays end with
        StoreClosed. A second call, while the first waits, closes at once.
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
        """In a fork: what belongs to the other process is neither used nor closed."""
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
            palace, self._palace, self._views = self._palace, None, None
            everything, self._everything = self._everything, None
            self._finds = self._meaning = None
            try:
                if everything is not None:
                    await everything.close()
                if palace is not None:
                    await palace.close()
                await self._reader.save()
            finally:
                ledger.close()

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._signer.public_key

    @property
    def npub(self) -> str:
        """The same as NIP-19 text."""
        return npub(self.public_key)

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._urls

    def __repr__(self) -> str:
        return f"MemoryStore({self.npub}, relays={len(self._urls)}, open={self._ledger is not None})"

    # ── v1: flat memories ───────────────────────────────────────────────────────────────

    async def remember(self, key: str, value: str) -> str:
        """Keep a value under a key, replacing the one before; the older stays in the local history.

        Returns:
            The event's id, once it is durable in the ledger.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is no text (`TooLargeError`: too long).
            ClockSkewError: this clock is far behind the newest version; the text is kept, see `drafts`.
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
        """Keep many values: durable in batches of 1,000, each batch whole or not at all.

        All of them are checked before anything is written. A key that is given twice means the last: it is one
        memory, and gets one version.

        Args:
            pairs: a mapping, or any iterable of key and value.
            progress: called with the number of memories written so far.

        Returns:
            For each pair the id of the event that holds its key now, in order.

        Raises:
            InvalidInput, NeedsNewerVersion, PlanLimitError, ClockSkewError: as `remember`, and says which entry, by
                its number from 1 and its key. Nothing was written.
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
        """The value under a key, from the ledger; None when it does not exist or was forgotten.

        Relays that the background asks for the first time get some seconds before it is None. What no relay has
        shown yet may exist all the same: see `Status.never_complete`.

        Raises:
            NotSynced: it is not here, and no relay ever answered completely, so it may exist there.
            NeedsNewerVersion: a newer sense-memory wrote it.
            InvalidAddress: no key at all.
        """
        self._opened()
        return await self._flat.recall(key)

    async def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The values under many keys by key, from the ledger as it is: no relay is asked, what is not here is left out.

        Raises:
            InvalidAddress: one is no key at all.
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
        """Forget a memory everywhere: purged here, replaced by a tombstone and deleted (NIP-09) on relays.

        The deletion is published even if the key is unknown here, because it may exist on relays. Relays
        that ignore deletions keep the tombstone; nobody can promise that every copy is gone.

        Returns:
            The id of the deletion request.
        """
        (ident,) = await self._forget([Named.flat(key)])
        return ident

    async def forget_many(
        self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many memories, as `forget` does: in batches of 32 with one request, each batch whole or not at all.

        Args:
            keys: any iterable of keys.
            progress: called with the number forgotten so far.

        Returns:
            For each key the id of the deletion request that names it.

        Raises:
            InvalidAddress: one is no key at all; nothing was forgotten.
            LedgerError: the ledger could not be written; earlier batches stay forgotten.
        """
        return await self._forget([Named.flat(key) for key in arguments.several(keys, "keys")], progress)

    async def refresh(self, key: str) -> str | None:
        """Sign a memory anew, with the same text and the same time inside, for relays that call it too old.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory.

        Returns:
            The new event's id, or None where there is no such memory. Errors as `recall` and `remember`.
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
        """Keep an insight under a domain, a facet and a key, at full relevance.

        Overwriting is an edit: themes, links, half-life, confidence, source and the count of accesses stay
        unless they are passed. A memory of the same facet that the new text clearly contradicts is marked as
        superseded in the same write; what is only suspected waits for `persona_introspect`.

        Args:
            domain: such as self, people, projects, world, skills; any name of 1 to 64 characters but `flat`.
            facet: such as facts, beliefs, decisions, procedures, emotions; any name of 1 to 64 characters.
            key: 1 to 256 characters.
            value: any text; with everything else it must fit 40,960 bytes.
            themes: what it is about, for search; none keeps those that are there.
            connections: paths or unique keys of related memories, linked both ways, instead of those that are
                there; none keeps those. A path may name a memory that is still to be written.
            halflife_days: days after which relevance has halved; 30 for a new memory.
            source: user, agent, import, `tool:<name>`, `document:<hash>`, or empty.
            confidence: 0 to 1; 1 for a new memory.

        Returns:
            The event's id, once it is durable in the ledger.

        Raises:
            InvalidInput: something given cannot be used (`InvalidAddress`: a name, `TooLargeError`: too long).
            NeedsNewerVersion: a newer sense-memory wrote what is there; it is not overwritten.
            ClockSkewError: this clock is far behind the newest version; the text is kept, see `drafts`.
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

        Recalling by the exact key revives a memory, whatever its state: relevance 1 again, one access more.
        That is noted here; relays learn it with `sync` (see there), the memory's next edit, `flush` or
        `persona_prune`. Listing is no access; it gives active and fading memories, the most relevant first. A key
        without domain or facet finds the memories that have it; if that is one, it counts as recalled.

        Args:
            domain: only of this domain.
            facet: only of this facet.
            key: only with this key.
            include_forgotten: list forgotten and dissolved memories too.

        Returns:
            Memories in their state of now; none where there is none.

        Raises:
            NotSynced: there is none here, and no relay ever answered completely, so it may exist there.
            NeedsNewerVersion: a newer sense-memory wrote it.
            InvalidAddress: no name at all.
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
        """Forget a persona memory everywhere, as `forget` does; links that point to it are ignored from then on.

        Returns:
            The id of the deletion request.
        """
        (ident,) = await self._forget([Named.persona(domain, facet, key)])
        return ident

    async def persona_forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many persona memories, each named by its path `domain/facet/key`. As `forget_many`."""
        names = [Named.persona(*parts_of(path)) for path in arguments.several(paths, "paths")]
        return await self._forget(names, progress)

    async def persona_connect(self, key1: str, key2: str) -> None:
        """Link two memories both ways and reinforce them: each connection adds a tenth to their relevance.

        Args:
            key1: `domain/facet/key`, or a key that no other memory has.
            key2: the other.

        Raises:
            InvalidInput: one does not exist, a bare key is not unique, or both are the same memory.
            NotSynced: one is not here, and no relay ever answered completely.
        """
        await self._writing()
        await self._persona().links.connect(key1, key2)
        self._wake()

    async def persona_disconnect(self, key1: str, key2: str) -> None:
        """Take the link between two memories away; where there is none, nothing happens. As `persona_connect`."""
        await self._writing()
        await self._persona().links.disconnect(key1, key2)
        self._wake()

    async def persona_dismiss(self, key1: str, key2: str) -> None:
        """Decline a connection or contradiction that `persona_introspect` suggested, for good. As `persona_connect`."""
        await self._writing()
        await self._persona().links.dismiss(key1, key2)
        self._wake()

    async def persona_contradict(self, old_key: str, new_key: str) -> None:
        """Mark a memory as contradicted and superseded by another: it decays four times faster from then on.

        Both stay readable; `undo` of the old one takes the mark away.

        Args:
            old_key: `domain/facet/key`, or a key that no other memory has.
            new_key: the memory that is right.

        Raises:
            InvalidInput: as `persona_connect`, or the new one is itself superseded by the old.
            NotSynced: one is not here, and no relay ever answered completely.
        """
        await self._writing()
        await self._persona().links.contradict(old_key, new_key)
        self._wake()

    async def persona_domains(self) -> list[str]:
        """Every domain that holds a memory, in order. Raises NotSynced as `persona_recall`."""
        return (await self._persona().names.catalog()).domains()

    async def persona_facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a memory, in order. Raises NotSynced as `persona_recall`."""
        from sense_memory.memories.persona import arguments as given

        name, _ = given.selection(domain, None)
        return [] if name is None else (await self._persona().names.catalog()).facets(name)

    async def persona_stats(self) -> dict[str, Any]:
        """How many persona memories there are: `total`, by state in `states`, by domain in `domains`, by domain
        and facet in `facets`, and how many `connections`, `superseded` and `conflicts`.

        Raises:
            NotSynced: there is none here, and no relay ever answered completely.
        """
        return await self._reviews().stats()

    async def persona_search(
        self, query: str, limit: int = 10, *, relevance_floor: float = 0.0
    ) -> list[PersonaHit]:
        """Find memories by meaning: key, themes and text of active ones, and fading ones that are directly meant.

        Searching is no access: nothing is revived by being found.

        Args:
            query: some words; `"in quotes"` they weigh in as a phrase too, `photo*` is every word that begins so.
            limit: how many at most, 1 to 1,000.
            relevance_floor: 0 to 1; scores are multiplied by floor + (1 - floor) x relevance. 0 is the
                specification's; above 0, age moves memories less.

        Returns:
            Memories with their `score` and `why`, the best first.

        Raises:
            InvalidInput: the query is no text, or a number is out of range.
            NotSynced: there is no memory here, and no relay ever answered completely.
        """
        return await self._palace_search().search(query, limit, relevance_floor)

    async def persona_compress(self, domain: str | None = None, *, max_tokens: int = 500) -> str:
        """The active memories in the compressed format for a prompt, the most relevant as far as they fit.

        A plan with basic compression gets them word for word.

        Args:
            domain: only of this domain.
            max_tokens: what the text may cost, by an estimate that is rather too high; at least 32.

        Raises:
            InvalidInput: too few tokens.
            NotSynced: there is no memory here, and no relay ever answered completely.
        """
        full = self._plan.compression == "full"
        return await self._reviews().compress(domain, max_tokens, full=full)

    async def persona_introspect(self) -> IntrospectionReport:
        """Look over the palace: what needs attention, what could be linked, what has changed since the last time.

        Nothing is changed but that a log is written: keys and counts, encrypted, on relays too, so that any
        device can tell the next time what has changed. Accept a suggested connection with `persona_connect`,
        decline it with `persona_dismiss`.

        Raises:
            NotSynced: there is no memory here, and no relay ever answered completely.
            LedgerError: the log could not be written.
        """
        await self._writing()
        report = await self._reviews().introspect()
        self._wake()
        return report

    def persona_introspections(self, every: float) -> IntrospectionSchedule:
        """An introspection now, and another each time so many seconds have passed, until the store is closed.

        Use it as `async for report in store.persona_introspections(every): …`. Where relays are not followed in
        the background, they are asked for what is new before each.

        Args:
            every: seconds between two, 1 or more.

        Raises:
            InvalidInput: less than a second.
            PlanLimitError: the plan has introspection by hand only.
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
        """Write what time has done: states that changed, and the deletion of what has been dissolved for 30 days.

        Before anything is deleted every relay is asked for what it holds, because a memory may have been used
        on another device. Where one does not answer completely nothing is deleted, and the report names it.

        Args:
            dry_run: only say what would be done.
            without: relays that need not answer.

        Returns:
            How many memories changed their state or were deleted; `report` has each of them and why.

        Raises:
            InvalidInput: `without` names no relay of this store.
            NotSynced: there is no memory here, and no relay ever answered completely.
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
        """The texts of this device that are in no memory, oldest first: `reason` says why.

        Either this clock did not allow to write them (`ClockSkewError`), or another device, which had not seen
        them, forgot their memory later. They are kept sealed, on this machine only; `forget` discards those of its
        key.
        """
        return await drafts.drafts(self._opened(), self._signer)

    async def publish_draft(self, number: int) -> str:
        """Write a draft, now that the clock is right or although it was forgotten; it replaces what its key holds.

        Returns:
            The event's id. Errors as `remember`; the draft stays then.

        Raises:
            InvalidInput: there is no such draft.
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

    # ── The time machine ────────────────────────────────────────────────────────────────

    async def history(self, key: str) -> list[Version]:
        """Every version of a memory that this ledger has seen, newest first.

        Of a forgotten memory only the tombstone is left. Versions that a relay served late are in their
        place in time, not in the order in which they came.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory; a version of that may
                differ from the one before in its links or counts alone.
        """
        return await history(self._opened(), self._reader, paths_of(key))

    async def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, as far as this ledger has seen it.

        Args:
            time: seconds since 1970.
        """
        self._opened()
        return await self._flat.as_of(arguments.moment(time))

    async def persona_as_of(
        self, time: float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """Persona memories as they were at a time, as far as this ledger has seen it, by path.

        Args:
            time: seconds since 1970.
            domain: only of this domain.
            facet: only of this facet.
        """
        from sense_memory.memories.persona import arguments as given

        domain, facet = given.selection(domain, facet)
        return await self._persona().as_of(arguments.moment(time), domain, facet)

    async def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Bring back the value before the last edit, as a new version; undoing again goes further back.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory: what it said, its themes,
                its links and whether it is superseded become what they were before the last change to them.

        Returns:
            The memory as it is now, or None where there is no older value to go back to.
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
            The event's id, once it is durable. Errors as `remember`.
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
            NotSynced: there is none, and no relay ever answered completely.
        """
        self._opened()
        return await self._journal.recent(limit)

    async def forget_entry(self, event_id: str) -> str:
        """Remove a journal entry everywhere: purged here, and deleted (NIP-09) on relays that do so.

        The deletion is sent to every relay, even if the entry never was: another device, or a try whose
        answer got lost, may have brought it there. It outlives the entry here, so that no copy comes back.

        Args:
            event_id: `JournalEntry.event_id`, 64 hex digits.

        Returns:
            The id of the deletion request.

        Raises:
            InvalidInput: there is no journal entry with that id; anything else is left alone.
            NotSynced: it is not here, and no relay ever answered completely.
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
        """Find what a question or some words mean: among persona memories, flat ones and the journal, in one ranking.

        Besides its words counts what surrounds an entry of the journal, and the date where the query names one.
        Forgotten persona memories are left out, fading ones too unless they are directly meant. Searching is no
        access.

        Args:
            query: any text; `"in quotes"` words weigh in as a phrase too, `photo*` is every word that begins so.
            limit: how many at most, 1 to 1,000.
            within: where to look: some of palace, journal and flat.
            since: only what was first written then or later, seconds since 1970.
            source: only persona memories from there: user, agent, import, `tool:<name>`, or `tool` for any of them.
            relevance_floor: 0 to 1; scores are multiplied by floor + (1 - floor) x relevance. Entries of the
                journal age with a half-life of 30 days, flat memories do not. Below 0.9, much that was said long
                ago is not found any more.

        Returns:
            Hits with their `score` and `why`, the best first.

        Raises:
            InvalidInput: something given cannot be used.
            NotSynced: there is no memory here at all, and no relay ever answered completely.
        """
        from sense_memory.search.hits import scope

        wanted = scope(within, since, source)
        return await (await self._finding()).search(query, limit, wanted, relevance_floor)

    async def index(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Read every memory that no search has read yet, so that the next one finds all of them at once.

        A search does so by itself, but answers after some seconds from what is read by then; `gaps` says how much is
        not. Interrupted, it goes on where it was.

        Args:
            progress: called with how many are read, and of how many.

        Returns:
            How many memories can be searched. Errors as `search`.
        """
        return await (await self._finding()).read(progress)

    async def embed(
        self,
        *,
        share: bool | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Have the embedder read every memory that it has not yet, so that searches find it by meaning.

        Searches do so by themselves for about a second each; a large memory and a slow embedder take longer.
        What another device of this key has shared is taken over instead. Interrupted, it goes on where it was.
        A change of the embedder begins anew.

        Args:
            share: also write what was made of each memory as an event (`sense-memory/embed/…`), encrypted, for
                the other devices and for a restored one: some 9 to 14 KB for a memory of 1 KB. By default what
                the store was opened with, which is not to.
            dry_run: only say what would be done: `count` memories read, `taken` ones taken over from what other
                devices have shared, and `unshared` ones shared besides. Asks no service.
            progress: called with how much is done, and of how much.

        Returns:
            What was done, and what is left and why; nothing of either where there is no embedder.

        Raises:
            MissingExtra, EmbedderError: the embedder cannot be opened.
            PlanLimitError: the plan has no embeddings.
            LedgerError: the ledger could not be written.
        """
        arguments.callback(progress, "progress")
        wanted = self._shares_embeddings if share is None else share
        report = await (await self._finding()).embed(share=wanted, dry_run=dry_run, progress=progress)
        self._wake()
        return report

    def gaps(self) -> Gaps:
        """What the last search knew by words only, although there is an embedder, and why."""
        from sense_memory.memories.embedding_jobs import Gaps

        return Gaps(0, None) if self._everything is None else self._everything.gaps()

    # ── Relays ──────────────────────────────────────────────────────────────────────────

    async def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
        """Bring every relay and the ledger in step now: pull, then push.

        Persona memories that were recalled are written anew with their accesses first: each once a day at most, or
        where that changes its state, so that no other device prunes what is used here. Background rounds look for
        them once an hour. It costs an event of the memory's size each.

        Args:
            full: ask for everything instead of what is new, and send again what went missing there.
            retry_refused: send once more what relays refused, or never took in a week. Else neither is ever
                sent again, because a relay that said no would say it again and again.

        Returns:
            A report per relay; a relay that fails never raises here.

        Raises:
            LedgerError: the ledger could not be used (`StorageFullError`: the disk is full).

        `overruled` names the memories at which an edit of this device lost since the last call: another device,
        which did not know it, wrote later, or forgot the memory. The text is in `history`, in a conflict copy, or
        in `drafts`.
        """
        self._opened()
        report = await self._replication.sync(full=full, retry_refused=retry_refused)
        return replace(report, overruled=await drafts.overruled(self._opened(), self._reader, self._signer))

    async def flush(self) -> SyncReport:
        """Send what is queued, without pulling (but for relays that were never pulled completely).

        Persona memories that were recalled are written anew with their accesses first; those of which no event
        can hold that are named (`unfit`), and everything else goes on.
        """
        self._opened()
        return await self._replication.flush()

    async def holdings(self) -> list[Holding]:
        """What each relay holds, compared with the ledger; nothing is fetched, sent or changed.

        Each relay is asked for a minute at most, all at once. Exact where it compares (NIP-77), numbers where it
        counts (NIP-45), unknown where it does neither: only `sync(full=True)` shows it then.

        Returns:
            One for each relay, in their order; a relay that fails never raises here.

        Raises:
            LedgerError: the ledger could not be read.
        """
        self._opened()
        return await self._replication.holdings()

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> Watch:
        """The changes made elsewhere, from now on: `async for change in store.watch(): …`.

        One for each memory that another device, or another process on this ledger, remembered or forgot, and for
        each journal entry; never for what this store wrote, never twice. Of several versions that come in
        together the last is told. Nothing is missed while a relay is away, as long as it keeps what it is sent:
        when it is back, it is asked for what came meanwhile. While somebody watches, relays are followed even
        where `background` is False. Ends with the store, or with `aclose`.

        Args:
            on_relay: called, while a change is waited for, with a relay and what is wrong with it; with an empty
                text when the relay tells from now on what comes in. One that does not is asked every half minute.

        Raises:
            ChangesMissed: from the iterator: it was read too slowly, and ends.
        """
        ledger = self._opened()
        arguments.callback(on_relay, "on_relay")
        if self._watchers is None:
            from sense_memory.memories.watch import Watchers

            self._watchers = Watchers(ledger, self._reader, self._replication.listeners())
        return self._watchers.add(on_relay)

    def drop_relay(self, url: str) -> int:
        """Cancel what waits for a relay that is used no more, and forget how far it was pulled.

        It keeps what it has. Should it be used again, it is asked for everything and gets what it lacks.

        Args:
            url: a relay, but none of this store's own.

        Returns:
            How many events were waiting for it.

        Raises:
            InvalidRelayUrl: no URL of a relay.
            InvalidInput: this store uses it.
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
        """Write every event of the ledger into a file of JSON lines: signed, encrypted, no secret inside.

        Left out are texts that were replaced within a second, before any relay was given them: they stay in the
        history here.

        Args:
            path: the file; created with mode 0600 and moved into place whole. Or an open binary file.
            overwrite: replace a file that exists.
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
        """Take events from a file of JSON lines: every line is verified and opened, each bad one reported.

        What is new goes to the relays as if it had been written here; nothing newer is overwritten.

        Args:
            path: the file, or an open binary one.
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
        """What is held here, and how far each relay is; no network."""
        return status_of(self.public_key, self._opened(), self._urls, self._replication.pool_in_use)

    def is_complete(self) -> bool:
        """As `status().is_complete`, which counts everything first: 0.2 s where 100,000 memories are held."""
        states = map(self._opened().relays.state, self._urls)
        return not self._urls or any(state.completed_at is not None for state in states)

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of one event at each relay: queued, acked, confirmed, refused, parked, superseded."""
        ledger = self._opened()
        stored = ledger.by_id(event_id)
        return ledger.outbox.holders(stored.seq) if stored else {}

    async def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one; call it on a store that is not open.

        No other process may use the ledger meanwhile.

        The damaged file is moved aside and kept. What can still be read of it is verified, opened and filed
        in the new ledger, unsent events and drafts included; a `sync` restores the rest from relays. What was
        forgotten stays forgotten as far as its tombstone, here or on a relay, can be read.

        Raises:
            InvalidInput: the ledger is sound, is not there, or is no ledger; it was not touched.
            WrongKeyError, LedgerTooNew, UnsafeKeyFile: as for opening it.
        """
        from sense_memory.memories.rescue import rescue

        path = Path(self._ledger_path or _default_ledger(self.public_key))
        if self._ledger is not None or not await asyncio.to_thread(path.is_file):
            raise InvalidInput(f"{path} is open, or there is no such file; nothing was changed")
        return await rescue(path, self._signer, self._clock)

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings and events that no longer verify."""
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
        """The palace, made when a persona memory is first asked for: a flat memory does not pay for it."""
        ledger = self._opened()
        if self._palace is None:
            from sense_memory.memories.persona.persona import Persona

            self._palace = Persona(
                ledger,
                self._reader,
                self._writer,
                clock=self._clock,
                ask=self._replication.ask,
                plan=self._plan,
                embedding=None if self._open_embedder is None else self._embedding,
            )
        return self._palace

    async def _persona_count(self) -> int:
        return len(await self._persona().palace.refresh())

    def _reviews(self) -> Reviews:
        persona, ledger = self._persona(), self._opened()
        if self._views is None:
            from sense_memory.memories.persona.reviews import Reviews

            self._views = Reviews(persona, ledger, self._reader, self._writer, self._clock)
        return self._views

    def _palace_search(self) -> PalaceSearch:
        persona, ledger = self._persona(), self._opened()
        if self._finds is None:
            from sense_memory.memories.persona.search import PalaceSearch

            near = None if self._open_embedder is None else self._near
            self._finds = PalaceSearch(persona, ledger, self._reader, clock=self._clock, near=near)
        return self._finds

    async def _finding(self) -> Finding:
        palace, ledger = self._persona().palace, self._opened()
        embedding = await self._embedding()
        if self._everything is None:
            from sense_memory.memories.search import Finding
            from sense_memory.memories.shared_embeddings import Sharing

            about: dict[str, Any] = {"clock": self._clock, "ask": self._replication.ask}
            if embedding is not None:
                sharing = Sharing(embedding.vault, ledger, self._reader, self._writer, self._clock)
                about["meaning"] = embedding, sharing
            self._everything = Finding(palace, ledger, self._reader, **about)
        return self._everything

    async def _near(self, query: str) -> Mapping[str, float]:
        return await (await self._finding()).near(query)

    async def _embedding(self) -> Embedding | None:
        """The embedder, opened when it is first needed, once; None where nobody chose one."""
        if self._meaning is not None or self._open_embedder is None:
            return self._meaning
        self._plan.check_embeddings()
        async with self._embedder_turn:
            if (
                self._meaning is None
                and (embedder := await asyncio.to_thread(self._open_embedder)) is not None
            ):
                from sense_memory.memories.embedding_jobs import Embedding
                from sense_memory.records.vector_cache import Vault

                if not callable(getattr(embedder, "embed", None)) or not isinstance(
                    getattr(embedder, "name", None), str
                ):
                    raise InvalidInput("what was to open the embedder gave something else")
                vault = Vault(self._signer, self._opened().vectors, embedder.name)
                self._meaning = Embedding(embedder, time.monotonic, vault)
        return self._meaning

    def _foresee(self, record: Record, sealed: Sealed) -> None:
        self._replication.warn_of_limits(record, sealed)  # it needs the writer, which needs this

    def _wake(self) -> None:
        self._replication.wake()

    async def _forget(
        self, names: Sequence[Named], progress: Callable[[int], None] | None = None
    ) -> list[str]:
        arguments.callback(progress, "progress")
        ids = await removal.forget(await self._writing(), self._writer, names, progress)
        self._wake()
        return ids


def configured(agent: str | None, options: dict[str, Any]) -> tuple[Signer, dict[str, Any]]:
    """The signer and the options that the settings give a store; options that were passed win.

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
