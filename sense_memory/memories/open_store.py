"""`OpenStore`: the ledger and the parts of a store while it is open, and the options that it was opened with.

A part that not every call needs is made when it is first used: reading a flat memory pays neither for persona
memories nor for sockets. Closing ends the calls that wait for relays, then the parts, then the ledger, even if one of
them fails. A forked process neither uses nor closes what belongs to its parent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from sense_memory import arguments
from sense_memory.errors import InvalidInput, StoreClosed, StoreForked, WrongThreadError
from sense_memory.ledger import Ledger
from sense_memory.limits import COMPRESSED_HITS_COUNT, TURN_SECONDS
from sense_memory.memories.flat import FlatMemories
from sense_memory.memories.history import parts_of
from sense_memory.memories.journal import Journal
from sense_memory.memories.replication import Replication
from sense_memory.nostr.relay_url import relay_url
from sense_memory.nostr.signer import is_remote
from sense_memory.records.addresses import Addresses
from sense_memory.records.kinds import RecordType
from sense_memory.records.reader import Reader
from sense_memory.records.snapshot import Snapshot
from sense_memory.records.writer import Writer
from sense_memory.search.hits import Hits


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from sense_memory.memories.embedding_jobs import EmbedderClient, EmbedReport
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.memories.persona.reviews import IntrospectionSchedule, Pruned, Reviews
    from sense_memory.memories.search import MemorySearch
    from sense_memory.memories.trust import TrustView
    from sense_memory.memories.watch import Watchers
    from sense_memory.models import IntrospectionReport, Memory, PersonaMemory
    from sense_memory.nostr.signer import Signer
    from sense_memory.palace.candidates import Bears
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.compression import Compressed
    from sense_memory.palace.extraction import Extractor, Proposal
    from sense_memory.palace.plan import Plan
    from sense_memory.palace.prompt_style import StyleName
    from sense_memory.palace.search import PersonaHit
    from sense_memory.palace.trust import TrustJudge
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.search.embedders.embedder import Embedder


_ABANDONED: Final[list[object]] = []  # of the process that this one is a fork of: never closed here


# ── Options ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The arguments of `MemoryStore`, checked; see there.

    Attributes:
        monotonic: seconds that never go back, for what limits how long an embedder may take.
        zone: how far this machine's clocks are ahead of UTC at a time, in seconds.
    """

    signer: Signer
    urls: tuple[str, ...]
    ledger: str | Path | None
    background: bool
    offline_first: bool
    snapshot: bool
    plan: Plan
    embedder: Callable[[], Any] | None
    model: Callable[[], Any] | None
    share_embeddings: bool
    contradictions: str
    revive: str
    search_forgotten: bool
    min_acks: int | None
    shown: arguments.ShownToRelays
    close_timeout: float
    read_timeout: float | None
    timeouts: Timeouts | None
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    zone: Callable[[float], float]

    @property
    def path(self) -> str | Path:
        """Where the ledger lies; by default in the platform's data folder."""
        from sense_memory.config.settings import Settings, ledger_path

        return self.ledger or ledger_path(Settings.load().home, self.signer.public_key)


def checked_urls(relays: object, *, allow_plain: bool) -> tuple[str, ...]:
    """The URLs of relays, each once.

    Raises:
        InvalidRelayUrl: a relay that must not be dialled.
    """
    return tuple(dict.fromkeys(relay_url(url, allow_plain=allow_plain) for url in arguments.urls(relays)))


def checked_timeouts(given: Timeouts | None) -> Timeouts | None:
    """The timeouts of connections, or None. Raises InvalidInput."""
    if given is not None:
        from sense_memory.relay.client.actions import Timeouts

        if not isinstance(given, Timeouts):
            raise InvalidInput("timeouts must be a `relay.client.actions.Timeouts`, or None")
    return given


def checked_plan(given: Plan | str | None) -> Plan:
    """The plan that an argument means. Raises InvalidSetting."""
    from sense_memory.palace.plan import checked_plan as checked

    return checked(given)


def checked_embedder(
    given: Embedder | Callable[[], Embedder | None] | str | None,
) -> Callable[[], Any] | None:
    """A function that opens the embedder; None without one. Raises InvalidInput."""
    from sense_memory.search.embedders.choice import opener

    return None if given is None else opener(given)


def checked_model(given: object) -> Callable[[], Any] | None:
    """A function that gives a `LanguageModel`, a `ModelChoice` or None; None without a model. Raises InvalidInput."""
    if isinstance(given, str):
        from sense_memory.config.model_choice import ModelChoice

        return partial(_itself, ModelChoice.parse(given))
    if given is None or (callable(given) and not hasattr(given, "answer")):
        return given
    if isinstance(given, type) or not hasattr(given, "answer"):
        raise InvalidInput(
            "model must be a `LanguageModel`, such as ollama:MODEL, or a function that gives one"
        )
    return partial(_itself, given)


def _itself(given: object) -> object:
    return given


# ── Turns of the event loop ─────────────────────────────────────────────────────────────
# A write with a local signer never waits for I/O, so a loop of writes would block every other task, including relays
# and heartbeats. Therefore each call that writes takes a turn first: if the event loop has not run for 10 ms, the call
# yields once. Guaranteed: concurrent calls continue in the order in which they were made. It is safe because a call
# yields before it decides anything, so it sees what arrived meanwhile, as a later call would. It costs a microsecond for
# each write, and makes the loop run a hundred times a second.


class LoopTurns:
    """The turns of one event loop, for tasks that write one after the other."""

    def __init__(self) -> None:
        self._order = asyncio.Lock()  # first come, first served
        self._since: float | None = None  # the first call of this pass of the loop

    async def take(self) -> None:
        """Let other tasks go first, if none could for `limits.TURN_SECONDS`."""
        async with self._order:
            loop = asyncio.get_running_loop()
            if self._since is None:
                self._since = loop.time()
                loop.call_soon(self._end_round)
            elif loop.time() - self._since >= TURN_SECONDS:
                await asyncio.sleep(0)

    def _end_round(self) -> None:
        self._since = None


# ── The open store ──────────────────────────────────────────────────────────────────────


class OpenStore:
    """What a store has while it is open; `opened` makes one.

    Args:
        options: of the store.
        ledger: the open ledger, which is closed with the store.
        warn: called with a sentence about a relay that will not take a memory.

    Attributes:
        options: of the store.
        ledger: every verified version.
        reader: opens events.
        writer: seals and signs events.
        replication: the relays.
        flat: the flat memories.
        journal: the journal entries.
    """

    def __init__(self, options: StoreOptions, ledger: Ledger, warn: Callable[[str], None]) -> None:
        self.options, self.ledger = options, ledger
        self._process, self._thread, self._is_over = os.getpid(), threading.get_ident(), False
        self._turns, self._embedder_turn = LoopTurns(), asyncio.Lock()
        self._watchers: Watchers | None = None
        self._persona: Persona | None = None
        self._reviews: Reviews | None = None
        self._search: MemorySearch | None = None
        self._trust: TrustView | None = None
        self._embedder: EmbedderClient | None = None
        self._is_draining = False

        signer, clock = options.signer, options.clock
        snapshot = Snapshot(signer, ledger) if options.snapshot else None
        addresses = Addresses(signer, ledger, options.shown.addresses, pads=options.shown.pads)
        self.reader = Reader(signer, ledger, clock, snapshot, addresses=addresses)
        self.writer = Writer(
            signer, ledger, self.reader, relays=options.urls, clock=clock, look=self._warn_of_relay_limits
        )
        parts = ledger, self.reader, self.writer
        self.replication = Replication(
            signer,
            *parts,
            options.urls,
            clock=clock,
            timeouts=options.timeouts,
            offline_first=options.offline_first,
            read_timeout=options.read_timeout,
            send_jitter=options.shown.send_jitter,
            persona=self.persona,
            has_persona=lambda: self._persona is not None,
            warn=warn,
        )
        ask = self.replication.ask
        self.journal = Journal(*parts, clock=clock, ask=self.replication.ask_for_journal, judge=self._judge)
        self.flat = FlatMemories(
            *parts,
            clock=clock,
            ask=ask,
            plan=options.plan,
            persona_count=self._persona_count,
            withheld=self._withheld,
        )

    # ── Opening and closing ─────────────────────────────────────────────────────────────

    @classmethod
    async def opened(cls, options: StoreOptions, warn: Callable[[str], None]) -> Self:
        """Open the ledger, and begin to follow the relays where the options say so.

        Raises: as `Ledger.opened`.
        """
        store = cls(options, await Ledger.opened(options.path, options.signer.public_key), warn)
        try:
            await store._begin()
        except BaseException:
            await store.close()
            raise
        return store

    async def _begin(self) -> None:
        if not self.options.snapshot:
            await self.ledger.write_if_due(self.ledger.snapshot.discard)
        await self.reader.file_quarantined()
        await self.ledger.write_if_due(self.ledger.relays.add, self.options.urls)
        if self.options.urls and self.options.background:
            self.replication.pool().start()

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` until relays have taken what is queued. A second call does not wait."""
        is_first, self._is_draining = not self._is_draining, True
        if is_first and self.options.background:
            await self.replication.drain(seconds)

    async def close(self) -> None:
        """End every call that waits for relays, and close connections, parts and ledger."""
        self._is_over = True
        try:
            await self.replication.end()
            if self._watchers is not None:
                await self._watchers.close()
        finally:
            try:
                await self.replication.close()
            finally:
                try:
                    await self._close_parts()
                finally:
                    self.ledger.close()
                    if is_remote(self.options.signer):
                        await self.options.signer.disconnect()  # type: ignore[attr-defined]

    async def _close_parts(self) -> None:
        if self._search is not None:
            await self._search.close()
        if self._persona is not None:
            await self._persona.close()
        await self.reader.save()

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process is a fork of the one that opened the store."""
        return os.getpid() != self._process

    def abandon(self) -> None:
        """In a fork: the ledger and the connections of the parent process are neither used nor closed."""
        _ABANDONED.append(self)

    # ── Calls ───────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Check that the store may be used here.

        Raises:
            StoreClosed: it is closed, or closing.
            StoreForked: another process opened it.
            WrongThreadError: another thread opened it.
        """
        if self._is_over:
            raise StoreClosed
        if os.getpid() != self._process:
            raise StoreForked
        if threading.get_ident() != self._thread:
            raise WrongThreadError

    def check_thread(self) -> None:
        """Check that this is the thread in which the store was opened. Raises WrongThreadError."""
        if threading.get_ident() != self._thread:
            raise WrongThreadError

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Self]:
        """Run a call that writes: it takes its turn first (see `LoopTurns`), and its writes are then sent to relays."""
        await self._turns.take()
        self.check()
        yield self
        self.replication.wake()

    def sending(self, progress: Callable[[int], None] | None) -> Callable[[int], None]:
        """`progress` for a call that writes in batches, which also has each batch sent to relays."""

        def written(count: int) -> None:
            self.replication.wake()
            if progress is not None:
                progress(count)

        return written

    async def proposals(self, text: str, extractor: Extractor | None) -> list[Proposal]:
        """The palace memories that an extractor, or by default the rules, propose from a conversation."""
        from sense_memory.palace.extraction import proposals

        if extractor is not None:
            return list(await extractor.propose(text))
        return await asyncio.to_thread(proposals, text)  # a long conversation takes seconds

    async def compress(
        self,
        domain: str | None,
        question: str | None,
        max_tokens: int,
        style: StyleName,
        count: Callable[[str], int] | None,
        *,
        include_untrusted: bool,
    ) -> Compressed:
        """The palace as text for a prompt; what a search finds for `question`, if one is given, comes first."""
        judge = None if include_untrusted else await self.trust().judge()
        hits: Hits[PersonaHit] = Hits()
        bears: Bears | None = None
        if question is not None:
            search = await self.search()
            hits = await search.search_palace(question, COMPRESSED_HITS_COUNT, 1.0)
            bears = await search.bearing_on(question)
        is_full = self.options.plan.compression == "full"
        return await self.reviews().compress(
            domain, max_tokens, style, count, hits, full=is_full, bears=bears, judge=judge
        )

    async def use(self, paths: Iterable[str]) -> int:
        """Count a use of palace memories by a model, unless `revive` says that only recalls count; returns how many revived."""
        if self.options.revive != "use":
            return 0
        palace = self.persona().palace
        await palace.refresh()
        return palace.use(paths)

    async def introspect(self, *, dry_run: bool) -> IntrospectionReport:
        """A report on the palace; its log is written unless it is a dry run."""
        if dry_run:
            return await self.reviews().introspected()
        async with self.writing():
            return await self.reviews().introspect()

    async def prune(self, without: Iterable[str], *, dry_run: bool) -> Pruned:
        """Write the states that changed with time, and delete what is due; a dry run only reports."""
        incomplete = self.replication.incomplete(without)
        if dry_run:
            return await self.reviews().planned()
        pruned = await self.reviews().prune(incomplete)
        self.replication.wake()
        return pruned

    async def embed(
        self, *, share: bool | None, dry_run: bool, progress: Callable[[int, int], None] | None
    ) -> EmbedReport:
        """Have the embedder read what it has not read yet; `share` defaults to the store's `share_embeddings`."""
        if self.options.embedder is not None:
            self.options.plan.check_embeddings()
        shares = self.options.share_embeddings if share is None else share
        report = await (await self.search()).embed(share=shares, dry_run=dry_run, progress=progress)
        self.replication.wake()
        return report

    async def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Bring back the previous text of a memory, named by a flat key or a path."""
        if isinstance(key, str) and "/" in key:
            return await self.persona().undo(*parts_of(key))
        return await self.flat.undo(key)

    async def write_draft(self, record: Record, was_forgotten: bool) -> str:
        """Write the memory of a draft over what its key holds; returns the event's id.

        Args:
            record: the content of the draft.
            was_forgotten: whether it is a draft because another device forgot it, or wrote another text.
        """
        if record.type is RecordType.PERSONA:
            return await self.persona().publish_draft(record, was_forgotten=was_forgotten)
        return await self.flat.publish_draft(record)

    # ── Parts, made when they are first used ────────────────────────────────────────────

    def persona(self) -> Persona:
        """The palace memories."""
        self.check()
        if self._persona is None:
            from sense_memory.memories.persona.persona import Persona

            self._persona = Persona(
                *(self.ledger, self.reader, self.writer),
                clock=self.options.clock,
                ask=self.replication.ask,
                plan=self.options.plan,
                embedding=None if self.options.embedder is None else self.embedding,
                contradictions=self.options.contradictions,
                withheld=self._withheld,
            )
        return self._persona

    async def _catalog(self) -> Catalog:
        return await self.persona().palace.refresh()

    async def _judge(self) -> TrustJudge:
        return await self.trust().judge()

    async def _withheld(self) -> Mapping[str, str]:
        return await self.trust().withheld()

    async def _persona_count(self) -> int:
        return len(await self.persona().palace.refresh())

    def reviews(self) -> Reviews:
        """What looks over the palace as a whole."""
        persona = self.persona()
        if self._reviews is None:
            from sense_memory.memories.persona.reviews import Reviews

            keeps_used = self.options.revive == "use"
            self._reviews = Reviews(
                persona, self.ledger, self.reader, self.writer, self.options.clock, keeps_used=keeps_used
            )
        return self._reviews

    def trust(self) -> TrustView:
        """What the rules say of the memories: which may enter a prompt by themselves, and which are kept back."""
        self.check()
        if self._trust is None:
            from sense_memory.memories.trust import TrustView

            self._trust = TrustView(self.ledger, self.reader, self._catalog)
        return self._trust

    def watchers(self) -> Watchers:
        """The open watches for changes."""
        self.check()
        if self._watchers is None:
            from sense_memory.memories.watch import Watchers

            self._watchers = Watchers(self.ledger, self.reader, self.replication.listeners())
        return self._watchers

    async def search(self) -> MemorySearch:
        """The search of all memories."""
        persona, embedding = self.persona(), await self.embedding()
        if self._search is None:
            from sense_memory.memories.search import MemorySearch
            from sense_memory.memories.shared_embeddings import SharedEmbeddings

            clock = self.options.clock
            about: dict[str, Any] = {"clock": clock, "zone": self.options.zone, "ask": self.replication.ask}
            about["catalog"], about["withheld"] = persona.names.catalog, self._withheld
            about["judge"] = self._judge
            if embedding is not None:
                sharing = SharedEmbeddings(embedding.cache, self.ledger, self.reader, self.writer, clock)
                about["meaning"] = embedding, sharing
            if self.options.embedder is not None and not self.options.plan.has_embeddings:
                about["note"] = f"by words only, as the plan {self.options.plan.name} has no embeddings"
            self._search = MemorySearch(persona.palace, self.ledger, self.reader, **about)
        return self._search

    @property
    def search_in_use(self) -> MemorySearch | None:
        """The search; None if it was not needed yet."""
        return self._search

    async def embedding(self) -> EmbedderClient | None:
        """The embedder, opened once; None where the store has none, or its plan has no embeddings."""
        opener = self.options.embedder
        if self._embedder is not None or opener is None or not self.options.plan.has_embeddings:
            return self._embedder
        async with self._embedder_turn:
            if self._embedder is None and (embedder := await asyncio.to_thread(opener)) is not None:
                self.check()
                self._embedder = self._embedder_client(embedder)
        return self._embedder

    def _embedder_client(self, embedder: Embedder) -> EmbedderClient:
        from sense_memory.memories.embedding_jobs import EmbedderClient
        from sense_memory.records.sealed_caches import VectorCache

        is_named = isinstance(getattr(embedder, "name", None), str)
        if not callable(getattr(embedder, "embed", None)) or not is_named:
            raise InvalidInput("`embedder` must open an `Embedder`: something with `name` and `embed`")
        cache = VectorCache(self.options.signer, self.ledger.vectors, embedder.name)
        return EmbedderClient(embedder, self.options.monotonic, cache)

    def _warn_of_relay_limits(self, record: Record, sealed: SealedRecord) -> None:
        self.replication.warn_of_limits(record, sealed)  # it needs the writer, which needs this


def introspection_schedule(
    options: StoreOptions, opened: Callable[[], OpenStore], every: float
) -> IntrospectionSchedule:
    """Introspections of a store, one every so many seconds; without `background`, relays are asked before each.

    Args:
        options: of the store.
        opened: gives the open store. Raises StoreClosed, which ends the schedule.
        every: seconds, 1 or more.

    Raises:
        InvalidInput: `every` is below 1, or not a finite number.
        PlanLimitError: the plan allows introspection by hand only.
    """
    from sense_memory.memories.persona.reviews import IntrospectionSchedule

    async def introspected() -> IntrospectionReport:
        store = opened()
        if options.urls and not options.background:
            await store.replication.sync()
        return await opened().introspect(dry_run=False)

    options.plan.check_schedule()
    return IntrospectionSchedule(introspected, every)
