"""`SyncMemoryStore`: the blocking twin of `MemoryStore`, for code without an event loop.

Generated from store.py by scripts/generate_sync_store.py (`make sync-store`): change that file, not this one.
The store lives in an event loop of its own in a background thread, see `loop_thread`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self

from sense_memory.limits import LINGER_SECONDS
from sense_memory.loop_thread import BlockingIterator, LoopThread, collected
from sense_memory.store import MemoryStore, configured


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO

    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona.reviews import Pruned
    from sense_memory.memories.portable import ImportReport
    from sense_memory.memories.status import Status
    from sense_memory.models import Change, Draft, IntrospectionReport, JournalEntry, Memory, PersonaMemory
    from sense_memory.nostr.signer import PynostrKey, Signer
    from sense_memory.palace.plan import Plan
    from sense_memory.palace.search import PersonaHit
    from sense_memory.relay.client.timeouts import Timeouts
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.hits import Hit


class SyncMemoryStore:
    """An agent's memory: a key, a local ledger, and the relays that carry copies.

    Use it as `with SyncMemoryStore(...) as store:`. Every read answers from the ledger, and every write
    returns when it is durable in the ledger; relays follow in the background and on `sync()`. One store serves
    any thread; processes open their own on the same ledger.

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
        self._store = MemoryStore(
            signer,
            relays,
            ledger=ledger,
            background=background,
            offline_first=offline_first,
            allow_plain=allow_plain,
            snapshot=snapshot,
            plan=plan,
            embedder=embedder,
            share_embeddings=share_embeddings,
            close_timeout=close_timeout,
            timeouts=timeouts,
            clock=clock,
        )
        self._loop = LoopThread()
        self._store._tell = self._loop.warnings.append  # noqa: SLF001 - its twin

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> SyncMemoryStore:
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

    def __enter__(self) -> Self:
        self._loop.begin(self._store.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its twin's private name: nobody else is in a fork what it is there.
        self._loop.end(lambda: self._store.__aexit__(kind, error, trace), self._store._abandon)  # noqa: SLF001

    def close(self) -> None:
        """Close connections and ledger, after waiting until relays have taken what is queued; see `close_timeout`.

        Unsent events stay queued and are sent next time. Calls that wait for relays end with StoreClosed. A second
        call, while the first waits, closes at once.
        """
        self._loop.end(self._store.close, self._store._abandon)  # noqa: SLF001 - as above

    def __repr__(self) -> str:
        return f"Sync{self._store!r}"

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._store.public_key

    @property
    def npub(self) -> str:
        """The public key as NIP-19 text."""
        return self._store.npub

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._store.relays

    def remember(self, key: str, value: str) -> str:
        """Write a value under a key. It replaces the previous value, which stays in the local `history`.

        Returns:
            The event's id, once the event is durable in the ledger.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is not text (`TooLargeError`: too long).
            ClockSkewError: this clock is far behind the newest version; the value is kept as a draft, see `drafts`.
            LedgerError: the ledger could not be written.
        """
        return self._loop.wait(self._store.remember(key, value))

    def remember_many(
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

        The callback is called in the caller's thread.
        """
        pairs = collected(pairs)
        return self._loop.wait_counting(
            lambda count: self._store.remember_many(pairs, progress=count), progress
        )

    def recall(self, key: str) -> Memory | None:
        """The memory under a key, from the ledger; None where the key was never written, or was forgotten.

        Relays that the background asks for the first time get some seconds to answer before the result is None. A
        relay that has not shown everything yet may still hold the key: see `Status.never_complete`.

        Raises:
            NotSynced: the ledger does not hold the key, and no relay ever answered completely.
            NeedsNewerVersion: a newer sense-memory wrote the memory.
            InvalidAddress: `key` cannot be a key.
        """
        return self._loop.wait(self._store.recall(key))

    def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The memories under many keys, by key. No relay is asked; keys that the ledger does not hold are left out.

        Raises:
            InvalidAddress: one of them cannot be a key.
        """
        return self._loop.wait(self._store.recall_many(collected(keys)))

    def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address.

        Raises:
            NotSynced: the ledger is empty and no relay ever answered completely.
        """
        return self._loop.wait(self._store.recall_all())

    def forget(self, key: str) -> str:
        """Forget a memory everywhere: purge it here, and have relays replace it by a tombstone and delete it (NIP-09).

        The deletion is published even if the ledger does not hold the key, because relays may. A relay that ignores
        deletions keeps the tombstone; nobody can promise that every copy is gone.

        Returns:
            The id of the deletion request.
        """
        return self._loop.wait(self._store.forget(key))

    def forget_many(self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None) -> list[str]:
        """Forget many memories, as `forget` does, in batches of 32: one deletion request each, whole or not at all.

        Args:
            keys: any iterable of keys.
            progress: called with the number of memories forgotten so far.

        Returns:
            For each key the id of the deletion request that names it.

        Raises:
            InvalidAddress: one of them cannot be a key; nothing was forgotten.
            LedgerError: the ledger could not be written; earlier batches stay forgotten.

        The callback is called in the caller's thread.
        """
        keys = collected(keys)
        return self._loop.wait_counting(lambda count: self._store.forget_many(keys, progress=count), progress)

    def refresh(self, key: str) -> str | None:
        """Sign a memory again, with the same value and the same time inside, for relays that refuse it as too old.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory.

        Returns:
            The new event's id, or None where there is no such memory.

        Raises: as `recall` and `remember`.
        """
        return self._loop.wait(self._store.refresh(key))

    def persona_remember(  # noqa: PLR0917 - the spec's signature
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
        return self._loop.wait(
            self._store.persona_remember(
                domain,
                facet,
                key,
                value,
                themes,
                connections,
                halflife_days=halflife_days,
                source=source,
                confidence=confidence,
            )
        )

    def persona_recall(
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
        return self._loop.wait(
            self._store.persona_recall(domain, facet, key, include_forgotten=include_forgotten)
        )

    def persona_forget(self, domain: str, facet: str, key: str) -> str:
        """Forget a persona memory everywhere, as `forget` does; links to it are ignored from then on.

        Returns:
            The id of the deletion request.
        """
        return self._loop.wait(self._store.persona_forget(domain, facet, key))

    def persona_forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many persona memories, each named by its path `domain/facet/key`. As `forget_many`.

        The callback is called in the caller's thread.
        """
        paths = collected(paths)
        return self._loop.wait_counting(
            lambda count: self._store.persona_forget_many(paths, progress=count), progress
        )

    def persona_connect(self, key1: str, key2: str) -> None:
        """Link two memories both ways and reinforce them: each connection adds a tenth to their relevance.

        Args:
            key1: `domain/facet/key`, or a key that no other memory has.
            key2: the other.

        Raises:
            InvalidInput: a memory does not exist, a bare key is not unique, or both are the same memory.
            NotSynced: the ledger does not hold one of them, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_connect(key1, key2))

    def persona_disconnect(self, key1: str, key2: str) -> None:
        """Remove the link between two memories, if there is one. Arguments and errors as `persona_connect`."""
        return self._loop.wait(self._store.persona_disconnect(key1, key2))

    def persona_dismiss(self, key1: str, key2: str) -> None:
        """Decline a connection or contradiction that `persona_introspect` suggested, for good.

        Arguments and errors as `persona_connect`.
        """
        return self._loop.wait(self._store.persona_dismiss(key1, key2))

    def persona_contradict(self, old_key: str, new_key: str) -> None:
        """Mark a memory as contradicted and superseded by another; it then decays four times faster.

        Both memories stay readable; `undo` of the old one removes the mark.

        Args:
            old_key: `domain/facet/key`, or a key that no other memory has.
            new_key: the memory that is right.

        Raises:
            InvalidInput: as `persona_connect`, or the new memory is itself superseded by the old one.
            NotSynced: the ledger does not hold one of them, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_contradict(old_key, new_key))

    def persona_domains(self) -> list[str]:
        """Every domain that holds a persona memory, sorted. Raises NotSynced as `persona_recall`."""
        return self._loop.wait(self._store.persona_domains())

    def persona_facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a persona memory, sorted. Raises NotSynced as `persona_recall`."""
        return self._loop.wait(self._store.persona_facets(domain))

    def persona_stats(self) -> dict[str, Any]:
        """How many persona memories there are: `total`, by state in `states`, by domain in `domains`, by domain
        and facet in `facets`, and how many `connections`, `superseded` and `conflicts`.

        Raises:
            NotSynced: the ledger holds none, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_stats())

    def persona_search(
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
        return self._loop.wait(self._store.persona_search(query, limit, relevance_floor=relevance_floor))

    def persona_compress(self, domain: str | None = None, *, max_tokens: int = 500) -> str:
        """The active persona memories as compressed text for a prompt, the most relevant ones first.

        A plan with basic compression gets the memories word for word.

        Args:
            domain: only of this domain.
            max_tokens: the largest size of the text, by an estimate that is rather too high; at least 32.

        Raises:
            InvalidInput: `max_tokens` is too small.
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_compress(domain, max_tokens=max_tokens))

    def persona_introspect(self) -> IntrospectionReport:
        """Report on the palace: what needs attention, what could be connected, what changed since the last report.

        No memory is changed. A log of keys and counts is written, encrypted, and sent to relays, so that the next
        introspection on any device can tell what changed. Accept a suggested connection with `persona_connect`;
        decline it with `persona_dismiss`.

        Raises:
            NotSynced: the ledger holds no persona memory, and no relay ever answered completely.
            LedgerError: the log could not be written.
        """
        return self._loop.wait(self._store.persona_introspect())

    def persona_introspections(self, every: float) -> BlockingIterator[IntrospectionReport]:
        """An introspection now, and another every so many seconds until the store is closed.

        Use it as `for report in store.persona_introspections(every): …`. Without `background`, relays are
        asked for news before each introspection.

        Args:
            every: seconds from one introspection to the next, 1 or more.

        Raises:
            InvalidInput: `every` is less than a second.
            PlanLimitError: the plan allows introspection by hand only.
            NotSynced, LedgerError: from the iterator, as `persona_introspect`.
        """
        reports = self._store.persona_introspections(every)

        async def following() -> IntrospectionReport | None:
            return await anext(reports, None)

        return BlockingIterator(self._loop, following)

    def persona_prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
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
        return self._loop.wait(self._store.persona_prune(dry_run=dry_run, without=collected(without)))

    def drafts(self) -> list[Draft]:
        """The drafts of this device, oldest first: texts that are in no memory.

        Either this device's clock did not allow the text to be written (`ClockSkewError`), or another device, which
        had not seen the text, forgot the memory later; `reason` says which. Drafts are kept encrypted, on this
        machine only; `forget` discards the drafts of its key.
        """
        return self._loop.wait(self._store.drafts())

    def publish_draft(self, number: int) -> str:
        """Write a draft over what its key holds, now that the clock is right, or although the memory was forgotten.

        Returns:
            The event's id.

        Raises:
            InvalidInput: there is no such draft. Other errors as `remember`; the draft then stays.
        """
        return self._loop.wait(self._store.publish_draft(number))

    def discard_draft(self, number: int) -> None:
        """Remove a draft for good.

        Raises:
            InvalidInput: there is no such draft.
        """
        return self._loop.call(self._store.discard_draft, number)

    def history(self, key: str) -> list[Version]:
        """Every version of a memory that this ledger has seen, newest first.

        Only the tombstone is left of a forgotten memory. Versions are ordered by the time at which they were
        written, whenever a relay served them.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory, whose versions may differ in
                their links or counts alone.
        """
        return self._loop.wait(self._store.history(key))

    def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, as far as this ledger has seen its versions.

        Args:
            time: seconds since 1970.
        """
        return self._loop.wait(self._store.as_of(time))

    def persona_as_of(
        self, time: float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """Persona memories as they were at a time, as far as this ledger has seen their versions, by path.

        Args:
            time: seconds since 1970.
            domain: only of this domain.
            facet: only of this facet.
        """
        return self._loop.wait(self._store.persona_as_of(time, domain, facet))

    def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Write the value before the last edit as a new version; a second `undo` goes one edit further back.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory: value, themes, links and
                supersession become what they were before the last change to them.

        Returns:
            The memory as it is now, or None where there is no earlier value.
        """
        return self._loop.wait(self._store.undo(key))

    def journal(self, content: str) -> str:
        """Write a journal entry: a direct message to oneself (kind 4, NIP-44), never replaced.

        Returns:
            The event's id, once the event is durable in the ledger.

        Raises: as `remember`.
        """
        return self._loop.wait(self._store.journal(content))

    def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first.

        Args:
            limit: 1 to 100,000.

        Raises:
            InvalidInput: the limit is out of range.
            NotSynced: the ledger holds no entry, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.recent(limit))

    def forget_entry(self, event_id: str) -> str:
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
        return self._loop.wait(self._store.forget_entry(event_id))

    def search(
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
        return self._loop.wait(
            self._store.search(
                query,
                limit,
                within=collected(within),
                since=since,
                source=source,
                relevance_floor=relevance_floor,
            )
        )

    def index(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Index every memory that is not indexed yet, so that the next search covers all of them at once.

        A search does so by itself, but answers after some seconds from the memories that are indexed by then; `gaps`
        says how many are not. An interrupted call continues where it stopped.

        Args:
            progress: called with how many memories are indexed, and of how many.

        Returns:
            How many memories can be searched.

        Raises: as `search`.

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.wait(self._store.index(progress=progress))

    def embed(
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

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.wait(self._store.embed(share=share, dry_run=dry_run, progress=progress))

    def gaps(self) -> Gaps:
        """How many memories the last search knew by words only, although there is an embedder, and why."""
        return self._store.gaps()

    def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
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
        return self._loop.wait(self._store.sync(full=full, retry_refused=retry_refused))

    def flush(self) -> SyncReport:
        """Send queued events without pulling, except from relays that were never pulled completely.

        Recalled persona memories are first written again with their new accesses. The report names those that no
        longer fit an event (`unfit`).
        """
        return self._loop.wait(self._store.flush())

    def holdings(self) -> list[Holding]:
        """Compare what each relay holds with the ledger; no event is fetched or sent.

        All relays are asked at once, for a minute at most. The result is exact for a relay that compares sets
        (NIP-77), a number for one that counts (NIP-45), and unknown otherwise; then only `sync(full=True)` can tell.

        Returns:
            A `Holding` for each relay, in order; a relay that fails raises no error.

        Raises:
            LedgerError: the ledger could not be read.
        """
        return self._loop.wait(self._store.holdings())

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> BlockingIterator[Change]:
        """The changes made elsewhere, from now on: `for change in store.watch(): …`.

        There is one change for each memory that another device, or another process on this ledger, wrote or forgot,
        and for each journal entry; none for what this store wrote. Of several versions that arrive together only the
        last is reported. No change is missed while a relay is away, as long as the relay keeps its events. While a
        watch is open, relays are followed even without `background`. A watch ends with the store, or with `close`.

        Args:
            on_relay: called while the iterator waits, with a relay's URL and its problem; with an empty text when
                the relay reports new events at once. Other relays are asked every half minute.

        Raises:
            ChangesMissed: from the iterator, which was read too slowly and has ended.

        The callback is called in the store's thread, and cannot call the store.
        """
        watch = self._loop.call(self._store.watch, on_relay=on_relay)
        return BlockingIterator(self._loop, watch.next, watch.aclose)

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
        return self._loop.call(self._store.drop_relay, url)

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

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.call(self._store.export, path, overwrite=overwrite, progress=progress)

    def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """Import events from a file of JSON lines; every line is verified and opened, and each bad line is reported.

        New events are sent to the relays as if they had been written here; no newer version is overwritten.

        Args:
            path: the file, or an open binary file.
            progress: called with the number of lines read so far.

        Raises:
            InvalidInput: the file cannot be read.

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.wait(self._store.import_(path, progress=progress))

    def status(self) -> Status:
        """What the ledger holds, and how far each relay is in step with it. No relay is asked."""
        return self._loop.call(self._store.status)

    def is_complete(self) -> bool:
        """As `status().is_complete`, without counting the ledger, which takes 0.2 s for 100,000 memories."""
        return self._loop.call(self._store.is_complete)

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of an event at each relay, by URL: queued, acked, confirmed, refused, parked or superseded."""
        return self._loop.call(self._store.holders, event_id)

    def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one, while neither this store nor another process has the ledger open.

        The damaged file is moved aside and kept. Every event and draft that can still be read is verified, opened and
        filed in the new ledger, unsent events included; `sync` restores the rest from relays. A forgotten memory
        stays forgotten if its tombstone can be read, in the ledger or on a relay.

        Raises:
            InvalidInput: the ledger is sound, is missing, or is not a ledger; the file was not touched.
            WrongKeyError, LedgerTooNew, UnsafeFile: as on opening a store.
        """
        return asyncio.run(self._store.rescue())

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings, and events that no longer verify."""
        return self._loop.call(self._store.integrity)
