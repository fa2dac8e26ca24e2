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

    Use it as `with SyncMemoryStore(...) as store:`. Every read answers from the ledger and every write
    returns when it is durable there; relays follow in the background and on `sync()`. One store serves
    any thread; processes open their own on the same ledger.

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

    def __enter__(self) -> Self:
        self._loop.begin(self._store.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its twin's private name: nobody else is in a fork what it is there.
        self._loop.end(lambda: self._store.__aexit__(kind, error, trace), self._store._abandon)  # noqa: SLF001

    def close(self) -> None:
        """Close connections and ledger, after waiting for what is queued; see `close_timeout`.

        What relays have not got stays queued and is sent next time. Calls that wait for relays end with
        StoreClosed. A second call, while the first waits, closes at once.
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
        """The same as NIP-19 text."""
        return self._store.npub

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._store.relays

    def remember(self, key: str, value: str) -> str:
        """Keep a value under a key, replacing the one before; the older stays in the local history.

        Returns:
            The event's id, once it is durable in the ledger.

        Raises:
            InvalidInput: the key breaks the naming rules, or the value is no text (`TooLargeError`: too long).
            ClockSkewError: this clock is far behind the newest version; the text is kept, see `drafts`.
            LedgerError: the ledger could not be written.
        """
        return self._loop.wait(self._store.remember(key, value))

    def remember_many(
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

        The callback is called in the caller's thread.
        """
        pairs = collected(pairs)
        return self._loop.wait_counting(
            lambda count: self._store.remember_many(pairs, progress=count), progress
        )

    def recall(self, key: str) -> Memory | None:
        """The value under a key, from the ledger; None when it does not exist or was forgotten.

        Relays that the background asks for the first time get some seconds before it is None. What no relay has
        shown yet may exist all the same: see `Status.never_complete`.

        Raises:
            NotSynced: it is not here, and no relay ever answered completely, so it may exist there.
            NeedsNewerVersion: a newer sense-memory wrote it.
            InvalidAddress: no key at all.
        """
        return self._loop.wait(self._store.recall(key))

    def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The values under many keys by key, from the ledger as it is: no relay is asked, what is not here is left out.

        Raises:
            InvalidAddress: one is no key at all.
        """
        return self._loop.wait(self._store.recall_many(collected(keys)))

    def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address.

        Raises:
            NotSynced: the ledger is empty and no relay ever answered completely.
        """
        return self._loop.wait(self._store.recall_all())

    def forget(self, key: str) -> str:
        """Forget a memory everywhere: purged here, replaced by a tombstone and deleted (NIP-09) on relays.

        The deletion is published even if the key is unknown here, because it may exist on relays. Relays
        that ignore deletions keep the tombstone; nobody can promise that every copy is gone.

        Returns:
            The id of the deletion request.
        """
        return self._loop.wait(self._store.forget(key))

    def forget_many(self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None) -> list[str]:
        """Forget many memories, as `forget` does: in batches of 32 with one request, each batch whole or not at all.

        Args:
            keys: any iterable of keys.
            progress: called with the number forgotten so far.

        Returns:
            For each key the id of the deletion request that names it.

        Raises:
            InvalidAddress: one is no key at all; nothing was forgotten.
            LedgerError: the ledger could not be written; earlier batches stay forgotten.

        The callback is called in the caller's thread.
        """
        keys = collected(keys)
        return self._loop.wait_counting(lambda count: self._store.forget_many(keys, progress=count), progress)

    def refresh(self, key: str) -> str | None:
        """Sign a memory anew, with the same text and the same time inside, for relays that call it too old.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory.

        Returns:
            The new event's id, or None where there is no such memory. Errors as `recall` and `remember`.
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
        return self._loop.wait(
            self._store.persona_recall(domain, facet, key, include_forgotten=include_forgotten)
        )

    def persona_forget(self, domain: str, facet: str, key: str) -> str:
        """Forget a persona memory everywhere, as `forget` does; links that point to it are ignored from then on.

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
            InvalidInput: one does not exist, a bare key is not unique, or both are the same memory.
            NotSynced: one is not here, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_connect(key1, key2))

    def persona_disconnect(self, key1: str, key2: str) -> None:
        """Take the link between two memories away; where there is none, nothing happens. As `persona_connect`."""
        return self._loop.wait(self._store.persona_disconnect(key1, key2))

    def persona_dismiss(self, key1: str, key2: str) -> None:
        """Decline a connection or contradiction that `persona_introspect` suggested, for good. As `persona_connect`."""
        return self._loop.wait(self._store.persona_dismiss(key1, key2))

    def persona_contradict(self, old_key: str, new_key: str) -> None:
        """Mark a memory as contradicted and superseded by another: it decays four times faster from then on.

        Both stay readable; `undo` of the old one takes the mark away.

        Args:
            old_key: `domain/facet/key`, or a key that no other memory has.
            new_key: the memory that is right.

        Raises:
            InvalidInput: as `persona_connect`, or the new one is itself superseded by the old.
            NotSynced: one is not here, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_contradict(old_key, new_key))

    def persona_domains(self) -> list[str]:
        """Every domain that holds a memory, in order. Raises NotSynced as `persona_recall`."""
        return self._loop.wait(self._store.persona_domains())

    def persona_facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a memory, in order. Raises NotSynced as `persona_recall`."""
        return self._loop.wait(self._store.persona_facets(domain))

    def persona_stats(self) -> dict[str, Any]:
        """How many persona memories there are: `total`, by state in `states`, by domain in `domains`, by domain
        and facet in `facets`, and how many `connections`, `superseded` and `conflicts`.

        Raises:
            NotSynced: there is none here, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_stats())

    def persona_search(
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
        return self._loop.wait(self._store.persona_search(query, limit, relevance_floor=relevance_floor))

    def persona_compress(self, domain: str | None = None, *, max_tokens: int = 500) -> str:
        """The active memories in the compressed format for a prompt, the most relevant as far as they fit.

        A plan with basic compression gets them word for word.

        Args:
            domain: only of this domain.
            max_tokens: what the text may cost, by an estimate that is rather too high; at least 32.

        Raises:
            InvalidInput: too few tokens.
            NotSynced: there is no memory here, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.persona_compress(domain, max_tokens=max_tokens))

    def persona_introspect(self) -> IntrospectionReport:
        """Look over the palace: what needs attention, what could be linked, what has changed since the last time.

        Nothing is changed but that a log is written: keys and counts, encrypted, on relays too, so that any
        device can tell the next time what has changed. Accept a suggested connection with `persona_connect`,
        decline it with `persona_dismiss`.

        Raises:
            NotSynced: there is no memory here, and no relay ever answered completely.
            LedgerError: the log could not be written.
        """
        return self._loop.wait(self._store.persona_introspect())

    def persona_introspections(self, every: float) -> BlockingIterator[IntrospectionReport]:
        """An introspection now, and another each time so many seconds have passed, until the store is closed.

        Use it as `for report in store.persona_introspections(every): …`. Where relays are not followed in
        the background, they are asked for what is new before each.

        Args:
            every: seconds between two, 1 or more.

        Raises:
            InvalidInput: less than a second.
            PlanLimitError: the plan has introspection by hand only.
            NotSynced, LedgerError: from the iterator, as `persona_introspect`.
        """
        reports = self._store.persona_introspections(every)

        async def following() -> IntrospectionReport | None:
            return await anext(reports, None)

        return BlockingIterator(self._loop, following)

    def persona_prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
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
        return self._loop.wait(self._store.persona_prune(dry_run=dry_run, without=collected(without)))

    def drafts(self) -> list[Draft]:
        """The texts of this device that are in no memory, oldest first: `reason` says why.

        Either this clock did not allow to write them (`ClockSkewError`), or another device, which had not seen
        them, forgot their memory later. They are kept sealed, on this machine only; `forget` discards those of its
        key.
        """
        return self._loop.wait(self._store.drafts())

    def publish_draft(self, number: int) -> str:
        """Write a draft, now that the clock is right or although it was forgotten; it replaces what its key holds.

        Returns:
            The event's id. Errors as `remember`; the draft stays then.

        Raises:
            InvalidInput: there is no such draft.
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

        Of a forgotten memory only the tombstone is left. Versions that a relay served late are in their
        place in time, not in the order in which they came.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory; a version of that may
                differ from the one before in its links or counts alone.
        """
        return self._loop.wait(self._store.history(key))

    def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, as far as this ledger has seen it.

        Args:
            time: seconds since 1970.
        """
        return self._loop.wait(self._store.as_of(time))

    def persona_as_of(
        self, time: float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """Persona memories as they were at a time, as far as this ledger has seen it, by path.

        Args:
            time: seconds since 1970.
            domain: only of this domain.
            facet: only of this facet.
        """
        return self._loop.wait(self._store.persona_as_of(time, domain, facet))

    def undo(self, key: str) -> Memory | PersonaMemory | None:
        """Bring back the value before the last edit, as a new version; undoing again goes further back.

        Args:
            key: of a flat memory, or the path `domain/facet/key` of a persona memory: what it said, its themes,
                its links and whether it is superseded become what they were before the last change to them.

        Returns:
            The memory as it is now, or None where there is no older value to go back to.
        """
        return self._loop.wait(self._store.undo(key))

    def journal(self, content: str) -> str:
        """Write a journal entry: a direct message to oneself (kind 4, NIP-44), never replaced.

        Returns:
            The event's id, once it is durable. Errors as `remember`.
        """
        return self._loop.wait(self._store.journal(content))

    def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first.

        Args:
            limit: 1 to 100,000.

        Raises:
            InvalidInput: the limit is out of range.
            NotSynced: there is none, and no relay ever answered completely.
        """
        return self._loop.wait(self._store.recent(limit))

    def forget_entry(self, event_id: str) -> str:
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
        """Read every memory that no search has read yet, so that the next one finds all of them at once.

        A search does so by itself, but answers after some seconds from what is read by then; `gaps` says how much is
        not. Interrupted, it goes on where it was.

        Args:
            progress: called with how many are read, and of how many.

        Returns:
            How many memories can be searched. Errors as `search`.

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

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.wait(self._store.embed(share=share, dry_run=dry_run, progress=progress))

    def gaps(self) -> Gaps:
        """What the last search knew by words only, although there is an embedder, and why."""
        return self._store.gaps()

    def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
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
        return self._loop.wait(self._store.sync(full=full, retry_refused=retry_refused))

    def flush(self) -> SyncReport:
        """Send what is queued, without pulling (but for relays that were never pulled completely).

        Persona memories that were recalled are written anew with their accesses first; those of which no event
        can hold that are named (`unfit`), and everything else goes on.
        """
        return self._loop.wait(self._store.flush())

    def holdings(self) -> list[Holding]:
        """What each relay holds, compared with the ledger; nothing is fetched, sent or changed.

        Each relay is asked for a minute at most, all at once. Exact where it compares (NIP-77), numbers where it
        counts (NIP-45), unknown where it does neither: only `sync(full=True)` shows it then.

        Returns:
            One for each relay, in their order; a relay that fails never raises here.

        Raises:
            LedgerError: the ledger could not be read.
        """
        return self._loop.wait(self._store.holdings())

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> BlockingIterator[Change]:
        """The changes made elsewhere, from now on: `for change in store.watch(): …`.

        One for each memory that another device, or another process on this ledger, remembered or forgot, and for
        each journal entry; never for what this store wrote, never twice. Of several versions that come in
        together the last is told. Nothing is missed while a relay is away, as long as it keeps what it is sent:
        when it is back, it is asked for what came meanwhile. While somebody watches, relays are followed even
        where `background` is False. Ends with the store, or with `close`.

        Args:
            on_relay: called, while a change is waited for, with a relay and what is wrong with it; with an empty
                text when the relay tells from now on what comes in. One that does not is asked every half minute.

        Raises:
            ChangesMissed: from the iterator: it was read too slowly, and ends.

        The callback is called in the store's thread, and cannot call the store.
        """
        watch = self._loop.call(self._store.watch, on_relay=on_relay)
        return BlockingIterator(self._loop, watch.next, watch.aclose)

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
        return self._loop.call(self._store.drop_relay, url)

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

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.call(self._store.export, path, overwrite=overwrite, progress=progress)

    def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """Take events from a file of JSON lines: every line is verified and opened, each bad one reported.

        What is new goes to the relays as if it had been written here; nothing newer is overwritten.

        Args:
            path: the file, or an open binary one.
            progress: called with the number of lines read so far.

        Raises:
            InvalidInput: the file cannot be read.

        The callback is called in the store's thread, and cannot call the store.
        """
        return self._loop.wait(self._store.import_(path, progress=progress))

    def status(self) -> Status:
        """What is held here, and how far each relay is; no network."""
        return self._loop.call(self._store.status)

    def is_complete(self) -> bool:
        """As `status().is_complete`, which counts everything first: 0.2 s where 100,000 memories are held."""
        return self._loop.call(self._store.is_complete)

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of one event at each relay: queued, acked, confirmed, refused, parked, superseded."""
        return self._loop.call(self._store.holders, event_id)

    def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one; call it on a store that is not open.

        No other process may use the ledger meanwhile.

        The damaged file is moved aside and kept. What can still be read of it is verified, opened and filed
        in the new ledger, unsent events and drafts included; a `sync` restores the rest from relays. What was
        forgotten stays forgotten as far as its tombstone, here or on a relay, can be read.

        Raises:
            InvalidInput: the ledger is sound, is not there, or is no ledger; it was not touched.
            WrongKeyError, LedgerTooNew, UnsafeKeyFile: as for opening it.
        """
        return asyncio.run(self._store.rescue())

    def integrity(self) -> list[str]:
        """What is wrong with the ledger file: SQLite's findings and events that no longer verify."""
        return self._loop.call(self._store.integrity)
