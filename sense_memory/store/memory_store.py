"""`MemoryStore`: the object a user holds. Signatures, docstrings and wiring; no algorithm lives here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sense_memory import arguments
from sense_memory.config.time_zone import offset_at
from sense_memory.limits import LINGER_SECONDS
from sense_memory.memories import drafts
from sense_memory.memories.forget import ForgetTarget, forget_targets
from sense_memory.memories.history import history, paths_of
from sense_memory.memories.open_store import (
    StoreOptions,
    checked_embedder,
    checked_model,
    checked_plan,
    checked_timeouts,
    checked_urls,
)
from sense_memory.memories.persona import arguments as given
from sense_memory.memories.status import Status, has_mind, status_of
from sense_memory.nostr.keys import npub
from sense_memory.nostr.signer import as_signer
from sense_memory.store.configuration import configured
from sense_memory.store.edits import StoreEdits
from sense_memory.store.journal import StoreJournal
from sense_memory.store.lifetime import StoreLifetime
from sense_memory.store.palace import StorePalace
from sense_memory.store.persona_names import PersonaNames
from sense_memory.store.relays import StoreRelays


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from typing import BinaryIO

    from sense_memory.arguments import ContradictionMode, PlanName, ReviveRule, SearchedPart, StateName
    from sense_memory.config.model_choice import ModelChoice
    from sense_memory.memories.backup import ImportReport
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.watch import Watch
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mirror.mirrors import Mirrors
    from sense_memory.models import Draft, JournalEntry, Memory, PersonaMemory, State
    from sense_memory.nostr.signer import PynostrKey, Signer
    from sense_memory.palace.plan import Plan
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.hits import Hit, Hits


class MemoryStore(PersonaNames, StoreLifetime):
    """An agent's memory: a key, a local ledger, and the relays that carry copies.

    Use it as `async with MemoryStore(...) as store:`. Every read answers from the ledger, and every write
    returns when it is durable in the ledger; relays follow in the background and on `sync()`. One store serves
    many tasks of one event loop; threads and processes open their own on the same ledger.

    Every call raises StoreClosed where the store is not open, and LedgerError where the ledger cannot be used
    (StorageFullError: the disk is full), and InvalidInput where an argument cannot be used. A read that finds nothing
    raises NotSynced as long as no relay ever answered completely, because a relay may hold what was asked for.

    A call with many items writes them in batches, each durable whole or not at all; after a LedgerError earlier batches
    stay. `progress` is called with the number done so far. Times are seconds since 1970.

    Args:
        signer: a `Signer`, or a `pynostr.key.PrivateKey`.
        relays: URLs, `wss://…`, or `ws://…` on this machine. Without relays everything stays local.
        ledger: a file, ":memory:", or None for one file per key in the platform's data folder.
        background: follow the relays while the store is open. Otherwise only `sync()`, `flush()`, and reads of a store
            that never reached a relay, connect to relays.
        offline_first: send to relays before a first complete pull from them.
        allow_plain: also dial `ws://` on other machines (unencrypted: the network sees your address and times).
        snapshot: keep opened memories, encrypted, in a file beside the ledger, for a quick start; the file is
            written when the store closes. False removes an existing one.
        plan: bounds what may be added: a `Plan`, "free", "keep", or "self_hosted" (the default, no limits).
        embedder: finds memories by meaning as well as by words: an `Embedder`, an argument of `open_embedder`
            ("static"), or a function that opens an embedder when it is first needed. Only the embedder sees texts.
        share_embeddings: the default of `embed(share=…)`.
        model: the language model of `mind`: a `LanguageModel`, a setting ("ollama:MODEL", "openai:MODEL@URL"), or a
            function that gives one when it is first needed. By default rules answer, and nothing leaves the machine.
        contradictions: the default of `persona_remember(contradictions=…)`: "act", "suggest" or "off". With "off",
            `persona_introspect` and `persona_compress` compare no memories either, and `suspected_by` is empty.
        revive: what makes a memory relevant again. "use": recalling it by its path, wholly, and handing a hit to a
            model, partly; see `mark_used`. Pruning then never deletes what was recalled or used. "recall": recalling
            it by its path alone, and pruning deletes by age alone, as the specification has it.
        search_forgotten: the default of `search(include_forgotten=…)`.
        min_acks: how many relays elsewhere must have a memory to count as replicated; by default more than half of them.
        addresses: "readable", or "private": relays see keyed hashes of names. Both are always read.
        pad_sizes, send_jitter: pad texts to 1, 4, 16 or 40 KiB (by default if private); wait 0 to 120 s before sending.
        close_timeout: seconds, at most, that closing waits until reachable relays have taken what is queued; 0 does
            not wait. The rest is logged, and sent when a store of this ledger is next open.
        read_timeout: seconds, at most, that a read that finds nothing waits for relays that are asked for the first
            time. Then the read raises NotSynced, or believes the relays that answered. About 20 by default.
        timeouts: of relay connections, see `Timeouts`.
        clock: returns seconds since 1970.

    Raises:
        InvalidSetting: no such plan, or `close_timeout` or `read_timeout` is not a number of seconds.
        InvalidInput: no such embedder or language model.
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
        plan: Plan | PlanName | None = None,
        embedder: Embedder | str | Callable[[], Embedder | None] | None = None,
        share_embeddings: bool = False,
        model: LanguageModel | str | Callable[[], LanguageModel | ModelChoice | None] | None = None,
        contradictions: ContradictionMode = "act",
        revive: ReviveRule = "use",
        search_forgotten: bool = False,
        min_acks: int | None = None,
        addresses: arguments.AddressMode = "readable",
        pad_sizes: bool | None = None,
        send_jitter: float = 0.0,
        close_timeout: float = LINGER_SECONDS,
        read_timeout: float | None = None,
        timeouts: Timeouts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        options = StoreOptions(
            signer=as_signer(signer),
            urls=checked_urls(relays, allow_plain=allow_plain),
            ledger=arguments.ledger(ledger),
            background=background,
            offline_first=offline_first,
            snapshot=snapshot,
            timeouts=checked_timeouts(timeouts),
            clock=arguments.function(clock, "clock"),
            plan=checked_plan(plan),
            embedder=checked_embedder(embedder),
            model=checked_model(model),
            share_embeddings=share_embeddings,
            contradictions=arguments.contradictions(contradictions),
            revive=arguments.revive(revive),
            search_forgotten=search_forgotten,
            min_acks=arguments.min_acks(min_acks),
            shown=arguments.shown_to_relays(addresses, pad_sizes, send_jitter),
            close_timeout=arguments.timeout(close_timeout, "close_timeout"),
            read_timeout=None if read_timeout is None else arguments.timeout(read_timeout, "read_timeout"),
            monotonic=time.monotonic,
            zone=offset_at,
        )
        super().__init__(options)
        self._palace = StorePalace(self._now_open, options, lambda: self.mind)
        self._journal, self._edits = StoreJournal(self._now_open), StoreEdits(self._now_open)
        self._relays = StoreRelays(options.urls, self._now_open)
        self._mirror: Mirrors | None = None

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> MemoryStore:
        """A store from the environment, the `.env` file of the agent's home, and the config file.

        `agent` names an agent of this machine, None means the configured one. Each of `options` is passed on to the
        constructor and overrides its setting.

        Raises:
            KeyMissing, BadKey, UnsafeFile: there is no usable key; no key is generated.
            InvalidSetting: a value cannot be used; the error names its source.
        """
        signer, options = configured(agent, options)
        return cls(signer, **options)

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._options.signer.public_key

    @property
    def npub(self) -> str:
        """The public key as NIP-19 text."""
        return npub(self.public_key)

    @property
    def relays(self) -> StoreRelays:
        """The configured relays: a tuple of URLs, with the calls that ask what each holds."""
        return self._relays

    @property
    def journal(self) -> StoreJournal:
        """The journal: `await store.journal(text)` writes an entry."""
        return self._journal

    @property
    def edits(self) -> StoreEdits:
        """Edits of what the caller has seen: a text that was written elsewhere meanwhile is not replaced."""
        return self._edits

    @property
    def mirror(self) -> Mirrors:
        """The folders that are kept in step with memory, such as the memory of a coding agent."""
        if self._mirror is None:
            from sense_memory.mirror.mirrors import Mirrors

            self._mirror = Mirrors(self._now_open, lambda: self.mind.files, time.time)
        return self._mirror

    def clock(self) -> float:
        """The time by the clock of this store, seconds since 1970."""
        return self._options.clock()

    def __repr__(self) -> str:
        return f"MemoryStore({self.npub}, relays={len(self.relays)}, open={self._opened is not None})"

    # ── Memories ────────────────────────────────────────────────────────────────────────

    async def remember(
        self,
        key: str,
        value: str,
        *,
        source: str | None = None,
        session: str | None = None,
        derived_from: Sequence[str] = (),
        created_at: datetime | float | None = None,
    ) -> str:
        """Write a value under a key. It replaces the previous value, which stays in the local `history`.

        `key` may be the path `domain/facet/key` of a palace memory, as in all calls here: `palace.remember` has more to
        say about one, also about `source`, `session` and `derived_from`: without them, a memory keeps its own.

        `created_at`, a datetime or seconds since 1970, is when the value was written, by default now. It does not
        affect which version wins: the version written last does. Returns the event's id, once the event is durable.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is blank or not text (`TooLargeError`: too
                long).
            ClockSkewError: this clock is far behind the newest version; the value is kept as a draft, see `drafts`.
        """
        if _is_path(key):
            about: dict[str, Any] = {"source": source, "session": session, "derived_from": derived_from}
            return await self.palace.remember(key, value, created_at=created_at, **about)
        sources = await self.mind.trust.sources_of(derived_from) if derived_from else None
        async with self._open.writing() as store:
            told = given.provenance(source, session, None, derived_from or None, sources)
            return await store.flat.remember(key, value, created_at, told)

    async def remember_many(
        self,
        pairs: Mapping[str, str] | Iterable[tuple[str, str] | tuple[str, str, datetime | float]],
        *,
        created_at: datetime | float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """Write many values, in batches of 1,000; all are checked first.

        `pairs` is a mapping, or has (key, value) or (key, value, created_at); `created_at` is for values without a
        time of their own. The last value of a key that is given twice counts.

        Returns for each pair, in order, the id of the event that now holds its key. Raises as `remember`, with the
        number of the pair, from 1, and its key.
        """
        async with self._open.writing() as store:
            arguments.callback(progress, "progress")
            return await store.flat.remember_many(arguments.pairs(pairs), store.sending(progress), created_at)

    async def recall(self, key: str) -> Memory | PersonaMemory | None:
        """The memory under a key, from the ledger; None where the key was never written, or was forgotten.

        A palace memory is revived, see `palace.recall`. Relays that the background asks for the first time get some
        seconds to answer before the result is None. Raises NeedsNewerVersion where a newer sense-memory wrote the memory,
        and InvalidAddress where `key` cannot be a key.
        """
        return await (self.palace.recall(key) if _is_path(key) else self._open.flat.recall(key))

    async def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The memories under many keys, by key. No relay is asked; keys that the ledger does not hold are left out."""
        return await self._open.flat.recall_many(arguments.several(keys, "keys"))

    async def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address."""
        return await self._open.flat.recall_all()

    async def forget(self, key: str) -> str:
        """Forget a memory everywhere: purge it here, and have relays replace it by a tombstone and delete it (NIP-09).

        The deletion is published even if the ledger does not hold the key, because relays may. A relay that ignores
        deletions keeps the tombstone; nobody can promise that every copy is gone. Returns the id of the deletion request.
        """
        return (await self.forget_many([key]))[0]

    async def forget_many(
        self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many memories, as `forget` does, in batches of 32: one deletion request each.

        Returns for each key the id of the deletion request that names it. Raises InvalidAddress where one cannot be a
        key; nothing was forgotten.
        """
        arguments.callback(progress, "progress")
        targets = [ForgetTarget.named(key) for key in arguments.several(keys, "keys")]
        async with self._open.writing() as store:
            return await forget_targets(store.ledger, store.writer, targets, progress)

    async def refresh(self, key: str) -> str | None:
        """Sign a memory again, with the same value and the same time inside, for relays that refuse it as too old.

        `key` may be the path `domain/facet/key` of a palace memory. Returns the new event's id, or None where there
        is no such memory. Errors as `recall` and `remember`.
        """
        async with self._open.writing() as store:
            return await store.flat.refresh(key)

    # ── What could not be written ───────────────────────────────────────────────────────

    async def drafts(self) -> list[Draft]:
        """The drafts of this device, oldest first: texts that are in no memory; `reason` says why.

        This device's clock did not allow the text to be written (`ClockSkewError`), or another device forgot the
        memory without having seen the text. Drafts stay on this machine, encrypted; `forget` discards the drafts of
        its key.
        """
        return await drafts.drafts(self._open.ledger, self._options.signer)

    async def publish_draft(self, number: int) -> str:
        """Write a draft over what its key holds, now that the clock is right, or although the memory was forgotten.

        A forgotten palace memory comes back as it was, with its links, its marks and the time of its first writing,
        at full relevance. Returns the event's id. Raises as `remember`, and InvalidInput for an unknown number.
        """
        async with self._open.writing() as store:
            return await drafts.publish(store.ledger, self._options.signer, number, store.write_draft)

    def discard_draft(self, number: int) -> None:
        """Remove a draft for good. Raises InvalidInput where there is no such draft."""
        drafts.discard(self._open.ledger, number)

    # ── History ──────────────────────────────────────────────────────────────────────────────

    async def history(self, key: str) -> list[Version]:
        """Every version of a memory that this ledger has seen, newest first; of a forgotten one only the tombstone."""
        store = self._open
        return await history(store.ledger, store.reader, paths_of(key))

    async def as_of(self, time: datetime | float) -> list[Memory]:
        """Every flat memory as it was at `time`, a datetime or seconds since 1970, as far as this ledger has seen it."""
        return await self._open.flat.as_of(arguments.moment(time))

    async def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Write the previous text of a memory as a new version; a second `undo` goes one text further back.

        `key` may be the path `domain/facet/key` of a palace memory: its themes, source and confidence become what they
        were with that text, and its marks of contradiction as far as they still hold. Connections, accesses and the
        half-life stay; `persona_disconnect` and `persona_reconcile` take a connection and a mark back. Returns the
        memory as it is now, or None where no other text is known.
        """
        async with self._open.writing() as store:
            return await store.undo(key)

    async def share(self, domain: str, facet: str, *, with_: str) -> str:
        """Let another key read one facet of the palace: value, themes, state and times of its memories.

        Returns the invitation, a text that only this key can open: `store.mind.scenes.join(invitation)` joins on the other
        side, and `store.mind.shares.read()` reads. Each `sync` of this store brings the view up to date.

        `with_` is the reader's public key, npub or hex. Raises BadKey where it is none, InvalidInput where it is this
        agent's own key, or the place is no domain and facet.
        """
        return await self.mind.shares.share(domain, facet, with_=with_)

    async def unshare(self, domain: str, facet: str, *, with_: str) -> None:
        """End a share with one reader: later changes are encrypted with a new key. What was read stays readable.

        Raises BadKey as `share`, and InvalidInput where this key does not read this facet.
        """
        await self.mind.shares.unshare(domain, facet, with_=with_)

    async def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first; as `journal.recent`."""
        return await self.journal.recent(limit)

    # ── Search ──────────────────────────────────────────────────────────────────────────

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        within: Iterable[SearchedPart] = ("palace", "journal", "flat", "file"),
        since: float | None = None,
        source: str | None = None,
        domain: str | None = None,
        facet: str | None = None,
        state: State | StateName | None = None,
        theme: str | None = None,
        include_forgotten: bool | None = None,
        relevance_floor: float = 0.9,
    ) -> Hits[Hit]:
        """Find what a question or some words mean among palace memories, flat memories, journal entries and files.

        All share one ranking. A time in the query ("last week", "im März") counts for memories of that time; days are
        those of this machine's time zone. Journal entries also match on the entries just before and after them. Fading
        palace memories are found if the query directly means them: it shares most of its words with them, by rarity, or
        its meaning stands out, or it contains the key or a theme. Forgotten ones are counted if so, and otherwise left
        out. None is revived; see `mark_used`.

        Args:
            query: any text; `"in quotes"` finds only memories with these words, where there are any; `photo*` matches
                the beginning of a word.
            limit: the largest number of hits, 1 to 1,000.
            within: where to search: any of palace, journal, flat and file.
            since: only memories first written at this time or later, seconds since 1970.
            source: only palace memories with this source: user, agent, import, `tool:<name>`, or `tool` for any
                tool.
            domain: only palace memories of this domain.
            facet: only palace memories of facets of this name.
            theme: only palace memories with this theme.
            state: only palace memories in this state, also "fading" and "forgotten" ones, which are otherwise left
                out; dissolved ones, which are not pruned yet, count as forgotten too.
            include_forgotten: forgotten and dissolved memories that the query directly means follow the other hits; by
                default as the store's `search_forgotten`.
            relevance_floor: 0 to 1; scores are multiplied by floor + (1 - floor) x relevance. Journal entries age
                with a half-life of 30 days, flat memories do not age. Below 0.9, many old entries are not found.

        Returns hits with their `score` and `why`, the best first, as a list that also tells how many forgotten
        memories the query directly means (`forgotten`).
        """
        from sense_memory.search.hits import scope

        late = self._options.search_forgotten if include_forgotten is None else include_forgotten
        parts = {"domain": domain, "facet": facet, "theme": theme}
        wanted = scope(within, since, source, state=state, forgotten=late, **parts)
        hits = await (await self._open.search()).search(query, limit, wanted, relevance_floor)
        return hits.replaced(await self._open.persona().suspicions.ranked(hits))

    async def mark_used(self, found: Iterable[Hit | PersonaMemory]) -> int:
        """Note that hits or memories were handed to a model, which keeps the palace memories among them alive.

        A use counts as a recall half a half-life ago: it raises the relevance to 0.71, never to 1, and a second use
        within a day adds nothing. Hits with less than half the score of the best one do not count. Like a recall it
        reaches the ledger within seconds, and relays with a later sync. The tools for agents and MCP do this by
        themselves; a caller with prompts of its own has to. Does nothing with `revive="recall"`. Returns how many
        memories were revived.
        """
        return await self._open.use(given.used_paths(found))

    async def index(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Index every memory that is not indexed yet, so that the next search covers all of them at once.

        A search indexes too, but answers after some seconds; `gaps` says how many are left. An interrupted call
        resumes where it stopped. `progress` is called with two numbers: done, and total. Returns how many memories can
        be searched.
        """
        return await (await self._open.search()).read(progress)

    async def embed(
        self,
        *,
        share: bool | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Have the embedder read every memory that it has not read yet, so that searches find it by meaning.

        Each search spends about a second on this by itself. Vectors that another device of this key has shared are
        used as they are. An interrupted call resumes where it stopped. A different embedder reads everything again.

        Args:
            share: also write the vectors of each memory as an encrypted event (`sense-memory/embed/…`) for other
                devices: some 9 to 14 KB for a memory of 1 KB. By default the store's `share_embeddings`.
            dry_run: only report what would be done; no service is asked.
            progress: called with two numbers: memories done, and total.

        Returns what was done, and what is left and why; empty where there is no embedder. Raises MissingExtra or
        EmbedderError where the embedder cannot be opened, PlanLimitError where the plan has no embeddings.
        """
        arguments.callback(progress, "progress")
        return await self._open.embed(share=share, dry_run=dry_run, progress=progress)

    def gaps(self) -> Gaps:
        """How many memories the last search knew by words only, although there is an embedder, and why."""
        from sense_memory.memories.embedding_jobs import Gaps

        search = None if self._opened is None else self._opened.search_in_use
        return Gaps(0, None) if search is None else search.gaps()

    # ── Relays ──────────────────────────────────────────────────────────────────────────

    async def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
        """Bring every relay and the ledger in step now: pull, then push.

        Recalled palace memories are written again with their new accesses, once a day at most, so that no other
        device prunes what this one uses. `full` fetches every event again, whatever a relay claims to hold, and sends
        again what the relay has lost; `retry_refused` sends again what a relay refused, or did not take for a week.

        Returns a report for each relay; a relay that fails raises no error. `overruled` names the memories in which
        an edit of this device lost since the last call to one of a device that did not know it; the text is in
        `history`, in a conflict copy, or in `drafts`. `written_again` names those that were forgotten, and that another
        device has written again. `conflicts` names the conflict copies of memories where the edit of this device counts;
        `prevailed` names the memories without such copies where it counts. `unclaimed` names those in whose history a text
        was found that was written here before the ledger was set back, or on a copy of it.
        """
        from sense_memory.mind.sync import sync

        return await sync(self._open, lambda: self.mind, full=full, retry_refused=retry_refused)

    async def flush(self) -> SyncReport:
        """Send queued events; pull first only if a relay was never pulled completely, or this ledger may be a copy.

        Recalled palace memories are first written again with their new accesses. The report names those that no
        longer fit an event (`unfit`).
        """
        from sense_memory.mind.sync import flush

        return await flush(self._open, lambda: self.mind)

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> Watch:
        """The changes made elsewhere, from now on: `async for change in store.watch(): …`.

        Each memory or journal entry that another device, or another process on this ledger, wrote or forgot gives one
        change; of several versions that arrive together, only the last one does. While a watch is open, relays are
        followed even without `background`. A watch ends with the store, or with `aclose`.

        `on_relay` is called while the iterator waits: with a relay's URL and its problem, or with an empty text once
        the relay reports new events as they arrive. Other relays are asked every half minute. An iterator that is read
        too slowly raises ChangesMissed and ends.
        """
        store = self._open
        arguments.callback(on_relay, "on_relay")
        return store.watchers().add(on_relay)

    # ── Portable ────────────────────────────────────────────────────────────────────────

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Write every event of the ledger into a file of JSON lines: signed and encrypted, without a secret.

        `path` is created with mode 0600 and moved into place whole, or is an open binary file; `overwrite` replaces
        an existing file. Versions that were replaced within a second, before any relay was sent them, are left out.
        `progress` is called with the number written so far. Returns how many events were written. Raises InvalidInput
        where the file exists, or cannot be written.
        """
        from sense_memory.memories.backup import write_export

        target = arguments.file(path, "write")
        arguments.callback(progress, "progress")
        return write_export(target, self._open.ledger.handed_out(), overwrite=overwrite, progress=progress)

    async def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """Import events from a file of JSON lines; every line is verified and opened, and each bad line is reported.

        New events are sent to the relays as if they had been written here; no newer version is overwritten. `path`
        may be an open binary file; `progress` is called with the number of lines read. Raises InvalidInput where the
        file cannot be read.
        """
        from sense_memory.memories.backup import import_file

        store = self._open
        arguments.callback(progress, "progress")
        report = await import_file(store.reader, arguments.file(path, "readline"), self.public_key, progress)
        await store.replication.settle_forks(complete=not self.relays)
        store.replication.wake()
        return report

    def status(self) -> Status:
        """What the ledger holds, and how far each relay is in step with it. No relay is asked."""
        store = self._open
        pool, now = store.replication.pool_in_use, self._options.clock()
        min_acks, signer = self._options.min_acks, self._options.signer
        return status_of(signer, store.ledger, self.relays, pool, now, min_acks=min_acks)

    def has_mind(self) -> bool:
        """Whether `mind.search` has anything to search: entries of the log, or passages of the archive."""
        return has_mind(self._open.ledger)

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings, and events and entries of the log that were altered."""
        from sense_memory.memories.backup import integrity

        return integrity(self._open.ledger, self._options.signer)


def _is_path(name: object) -> bool:
    """Whether a name is the path of a palace memory: the key of a flat memory has no slash."""
    return isinstance(name, str) and "/" in name
