"""`store.palace`: the memories that fade, each under a path `domain/facet/key`, and the views of them.

The specification calls them persona memories: `store.persona_recall` and its other names are in `store.persona_names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sense_memory import arguments
from sense_memory.memories.forget import ForgetTarget, forget_targets
from sense_memory.memories.history import parts_of
from sense_memory.memories.open_store import introspection_schedule
from sense_memory.memories.persona import arguments as given


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from sense_memory.arguments import ContradictionMode, MemoryFields, StateName
    from sense_memory.memories.open_store import OpenStore, StoreOptions
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.memories.persona.reviews import IntrospectionSchedule, Pruned
    from sense_memory.mind.mind import Mind
    from sense_memory.models import IntrospectionReport, PersonaMemory
    from sense_memory.palace.compression import Compressed
    from sense_memory.palace.extraction import Extractor, Proposal
    from sense_memory.palace.prompt_style import StyleName
    from sense_memory.palace.search import PersonaHit
    from sense_memory.search.hits import Hits


class StorePalace:
    """The palace of a store. Get it as `store.palace`.

    A memory is named by its path `domain/facet/key`. Where two memories are named to connect or compare them, a key that
    no other memory has is enough. Errors as `MemoryStore`.

    Args:
        opened: gives the open store, or raises StoreClosed.
        options: of the store.
        mind: gives the mind, which knows what a memory is derived from.
    """

    def __init__(
        self, opened: Callable[[], OpenStore], options: StoreOptions, mind: Callable[[], Mind]
    ) -> None:
        self._open, self._options, self._mind = opened, options, mind

    async def remember(
        self,
        path: str,
        value: str,
        themes: Sequence[str] = (),
        connections: Sequence[str] = (),
        *,
        halflife_days: float | None = None,
        source: str | None = None,
        session: str | None = None,
        observed_at: datetime | float | None = None,
        derived_from: Sequence[str] = (),
        confidence: float | None = None,
        contradictions: ContradictionMode | None = None,
        created_at: datetime | float | None = None,
    ) -> Remembered:
        """Write a memory under a path, at full relevance.

        An edit keeps what is not passed. A memory of the same facet that the value clearly contradicts is marked as
        superseded in the same write, but never by one from a tool or a document if the old one is from neither;
        `reconcile` takes that back, and `introspect` lists what is only suspected. Writing the same value again takes all
        marks from the memory.

        Args:
            path: `domain/facet/key`. Domains are such as self, people, projects, world, skills; facets such as facts,
                beliefs, decisions, procedures, emotions; any other name of 1 to 64 characters is as good, but for the
                domain `flat`. A key has 1 to 256 characters.
            value: any text; the whole memory must fit 40,960 bytes.
            themes: what the memory is about, for search.
            connections: paths or unique keys of related memories, which are linked both ways; a path may be unwritten
                yet.
            halflife_days: days after which relevance has halved; 30 for a new memory.
            source: user, agent, `import:<name>`, `tool:<name>`, `document:<hash>`, `scene:<name>`, or empty. Only what
                the user or the agent said enters a prompt by itself.
            session: in which session or conversation it was written.
            observed_at: when what it says was observed, if that was not now.
            derived_from: the names of what it was made of: paths, flat keys, `archive:ID`, `block:LABEL`,
                `log:CONVERSATION/ID`. It is trusted no more than the least of them.
            confidence: 0 to 1; 1 for a new memory.
            contradictions: "act" marks, "suggest" only tells, "off" does not look, in this call; by default as the store.
            created_at: as in `MemoryStore.remember`; the memory fades from then on.

        Returns the event's id, which also has `superseded` and `suspected` (paths) and `contradictions` (the
        reasons). Raises as `MemoryStore.remember`, and NeedsNewerVersion where a newer sense-memory wrote the memory.
        """
        sources = await self._mind().trust.sources_of(derived_from) if derived_from else None
        async with self._open().writing() as store:
            fields = given.fields(value, themes, halflife_days, None, confidence)
            fields |= given.provenance(source, session, observed_at, derived_from or None, sources)
            if created_at is not None:
                fields["created_at"] = arguments.written_at(created_at, self._options.clock())
            mode = given.mode(contradictions)
            new = given.NewMemory(given.path(path), fields, tuple(given.links(connections)))
            return await store.persona().remember(new, contradictions=mode)

    async def remember_many(
        self,
        memories: Iterable[MemoryFields],
        *,
        contradictions: ContradictionMode | None = None,
        created_at: datetime | float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Remembered]:
        """Write many palace memories, in batches of 200; all are checked first.

        `memories` are mappings with the arguments of `remember`. The new memories are checked in order, also against each
        other. A path that is given twice is written once, with the last value. `created_at` as in
        `MemoryStore.remember_many`. A memory that moves here may bring its past
        (relevance, last_accessed, last_reinforced, written_at, access_count, contradicts, superseded_by,
        marked_by_hand, dismissed), which counts where the path holds no memory yet.

        Returns for each memory, in order, what `remember` returns. Raises as `remember`, with the
        number of the memory, from 1.
        """
        async with self._open().writing() as store:
            arguments.callback(progress, "progress")
            mode = given.mode(contradictions)
            named = await self._with_sources(memories)
            new = given.new_memories(named, self._options.clock(), created_at)
            return await store.persona().remember_many(new, store.sending(progress), mode)

    async def _with_sources(self, memories: Iterable[Any]) -> list[Any]:
        """Memories with the sources of what they are derived from, where they name something here."""
        found = arguments.several(memories, "memories")
        for place, memory in enumerate(found):
            parts = memory.get("derived_from") if isinstance(memory, Mapping) else None
            if parts and memory.get("sources") is None:
                found[place] = {**memory, "sources": await self._mind().trust.sources_of(parts)}
        return found

    async def extract(self, text: str, *, extractor: Extractor | None = None) -> list[Proposal]:
        """Propose palace memories from a conversation; nothing is written.

        Lines of `text` may begin with a speaker (`Nora: …`); otherwise the text is the user's. By default, rules read
        what speakers say of themselves, in English, without a network; an `extractor`, such as a language model,
        replaces the rules.

        Returns proposals in the order of the text, each with its place there and the reason; accept some with
        `remember_many(proposal.arguments() for proposal in …)`.
        """
        given.conversation(text, extractor)
        return await self._open().proposals(text, extractor)

    async def recall(self, path: str, *, revive: bool = True) -> PersonaMemory | None:
        """The memory at a path; None where it was never written, or was forgotten.

        Recalling revives a memory, whatever its state: its relevance is 1 again, and its access count grows by one, which
        relays learn on `sync`; `revive=False` leaves it as it is.

        Raises NeedsNewerVersion where a newer sense-memory wrote the memory, InvalidAddress where `path` is no path.
        """
        found = await self.memories(*parts_of(path), revive=revive)
        return found[0] if found else None

    async def memories(
        self,
        domain: str | None = None,
        facet: str | None = None,
        key: str | None = None,
        *,
        include_forgotten: bool = False,
        revive: bool = True,
    ) -> list[PersonaMemory]:
        """The active and fading memories of a facet, of a domain, or all, the most relevant first; none is revived.

        A key finds every memory with that key, also a forgotten one, and revives the memory, as `recall`, if it is the
        only one. `include_forgotten` adds forgotten and dissolved memories. Raises as `recall`.
        """
        persona = self._open().persona()
        found = await persona.recall(domain, facet, key, include_forgotten=include_forgotten, revive=revive)
        return await persona.suspicions.annotated(found)

    async def forget(self, path: str) -> str:
        """Forget a memory everywhere, as `MemoryStore.forget` does; links to it are ignored from then on."""
        return (await self.forget_many([path]))[0]

    async def forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """Forget many memories, each named by its path. As `MemoryStore.forget_many`."""
        arguments.callback(progress, "progress")
        targets = [ForgetTarget.persona(*parts_of(path)) for path in arguments.several(paths, "paths")]
        async with self._open().writing() as store:
            return await forget_targets(store.ledger, store.writer, targets, progress)

    async def connect(self, key1: str, key2: str) -> None:
        """Link two memories both ways and reinforce them: each connection adds a tenth to their relevance.

        If they are linked already, nothing is written.

        Each is named by `domain/facet/key`, or by a key that no other memory has. Raises InvalidInput where a memory
        does not exist, a bare key is not unique, or both are the same memory.
        """
        async with self._open().writing() as store:
            await store.persona().links.connect(key1, key2)

    async def disconnect(self, key1: str, key2: str) -> None:
        """Remove the link between two memories, if there is one. Arguments and errors as `connect`."""
        async with self._open().writing() as store:
            await store.persona().links.disconnect(key1, key2)

    async def reconcile(self, old_key: str, new_key: str) -> None:
        """Take the mark away that one memory contradicts or supersedes another: both are right.

        The mark does not come back from another device, unless it was set there by hand later, nor because one of the
        two is written again, unless its new text makes another claim. `contradict` sets it again. Arguments
        and errors as `connect`.
        """
        async with self._open().writing() as store:
            await store.persona().links.reconcile(old_key, new_key)

    async def contradict(self, old_key: str, new_key: str) -> None:
        """Mark a memory as superseded by another: it decays four times faster. `reconcile` removes the mark.

        If another device dismissed or reconciled the two, the later decision counts; if it marked the new memory as
        superseded by the old one, the memory that was created later stands.
        Arguments and errors as `connect`; InvalidInput too where the old memory itself supersedes the new
        one.
        """
        async with self._open().writing() as store:
            await store.persona().links.contradict(old_key, new_key)

    async def domains(self) -> list[str]:
        """Every domain that holds a palace memory, sorted. Raises NotSynced as `recall`."""
        return (await self._open().persona().names.catalog()).domains()

    async def facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a palace memory, sorted. Raises NotSynced as `recall`."""
        name, _ = given.selection(domain, None)
        return [] if name is None else (await self._open().persona().names.catalog()).facets(name)

    async def stats(self) -> dict[str, Any]:
        """How many palace memories there are, as `total`, `states`, `domains`, `facets` (by domain), `connections`,
        `superseded` and `conflicts`. Raises NotSynced.
        """
        return await self._open().reviews().stats()

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        domain: str | None = None,
        facet: str | None = None,
        state: StateName | None = None,
        theme: str | None = None,
        since: float | None = None,
        source: str | None = None,
        include_forgotten: bool | None = None,
        relevance_floor: float = 0.0,
    ) -> Hits[PersonaHit]:
        """Find palace memories by key, themes and value, and by meaning where there is an embedder; none is revived.

        Arguments as `MemoryStore.search`, but `relevance_floor` is 0 by default, as the specification has it: the higher
        the floor, the less age counts. Fading memories are found where the query directly means them, and count as if
        they were just about to fade.

        Returns memories with their `score` and `why`, the best first; with `forgotten` as `MemoryStore.search`.
        """
        from sense_memory.search.hits import scope

        late = self._options.search_forgotten if include_forgotten is None else include_forgotten
        parts = {"domain": domain, "facet": facet, "theme": theme}
        wanted = scope("palace", since, source, state=state, forgotten=late, **parts)
        hits = await (await self._open().search()).search_palace(query, limit, relevance_floor, wanted)
        return hits.replaced(await self._open().persona().suspicions.ranked(hits))

    async def compress(
        self,
        domain: str | None = None,
        *,
        question: str | None = None,
        max_tokens: int = 500,
        style: StyleName = "bracketed",
        count: Callable[[str], int] | None = None,
        include_untrusted: bool = False,
    ) -> Compressed:
        """The active palace memories as text for a prompt; nothing is revived.

        Pinned memories come first, then what a search finds for a question, then standing preferences and the domain
        `self` (a quarter of the budget each), then a share for every domain, the most relevant first.

        Args:
            domain: only of this domain.
            question: what the prompt is about. Fading memories that answer it are in a plain text, dated.
            max_tokens: the largest size of the text; at least 32.
            style: `bracketed`, the specification's notation, which a plan with basic compression has word for word; or
                `plain`: sentences under short headers.
            count: the tokens of a text, by your model's tokenizer; by default an estimate, some 8 % too high for
                English.
            include_untrusted: also memories from tools, documents and imports that nobody vouched for, see
                `store.mind.trust`; without it, `untrusted` of the result names them.

        Returns the text, which also tells its `tokens`, and the paths `included` and `left_out`.
        """
        arguments.callback(count, "count")
        options: dict[str, Any] = {"include_untrusted": include_untrusted}
        return await self._open().compress(domain, question, max_tokens, style, count, **options)

    async def pin(self, key: str) -> None:
        """Pin a memory, so that `compress` puts it first while it is active; it gets the theme `pinned`.

        `key` and errors as in `connect`.
        """
        async with self._open().writing() as store:
            await store.persona().links.pin(key, pinned=True)

    async def unpin(self, key: str) -> None:
        """Unpin a memory: its theme `pinned` is taken away. Errors as `connect`."""
        async with self._open().writing() as store:
            await store.persona().links.pin(key, pinned=False)

    async def introspect(self, *, dry_run: bool = False) -> IntrospectionReport:
        """Report on the palace: what needs attention, what could be connected, what changed since the last report.

        No memory is changed. An encrypted log of keys and counts is written, with which the next introspection on any
        device compares; `dry_run` writes none. Accept a suggested connection with `connect`; decline it with
        `dismiss`.
        """
        return await self._open().introspect(dry_run=dry_run)

    async def prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
        """Write the states that changed with time, and delete memories that have been dissolved for 30 days.

        Every relay is asked first, because another device may have used a memory. If a relay does not answer
        completely, nothing is deleted and the report names the relay; `without` lists relays, by URL, that need not
        answer. `dry_run` only reports.

        Returns how many memories changed their state or were deleted; `report` lists each with the reason. Raises
        InvalidInput where `without` names a relay that this store does not use.
        """
        return await self._open().prune(without, dry_run=dry_run)

    async def as_of(
        self, time: datetime | float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """As `as_of`, for palace memories: of one domain, of one facet, or all; ordered by path."""
        domain, facet = given.selection(domain, facet)
        return await self._open().persona().as_of(arguments.moment(time), domain, facet)

    def introspections(self, every: float) -> IntrospectionSchedule:
        """An introspection now, and another every so many seconds (1 or more) until the store is closed.

        Use it as `async for report in store.palace.introspections(every): …`. Without `background`, relays are asked for
        news before each. Raises PlanLimitError where the plan allows introspection by hand only.
        """
        return introspection_schedule(self._options, self._open, every)
