"""Reads what a prompt is made of, from every part of a mind and from the memories of its store. It writes nothing.

Everything is read at the same time. What cannot be read, because no relay has shown everything yet, is missing in the
prompt and named in its report: incomplete is not empty.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from xml.sax.saxutils import escape, quoteattr

from sense_memory.errors import NotSynced
from sense_memory.memories.status import was_ever_complete
from sense_memory.memories.trust import of_flat
from sense_memory.memories.trust import of_memory as trust_of_memory
from sense_memory.mind.blocks import DESCRIPTIONS
from sense_memory.mind.chat.compaction import ContextState
from sense_memory.mind.chat.messages import role_of
from sense_memory.mind.context import line as entry_line
from sense_memory.mind.episodic import EpisodicMemory
from sense_memory.mind.prompts.assembly import Gathered
from sense_memory.mind.prompts.budget import Line, Part
from sense_memory.mind.prompts.dates import day
from sense_memory.mind.prompts.outdated import with_later
from sense_memory.mind.prompts.recall import CONTEXT_COUNT, answer_to, of_entry, of_memory, says_something
from sense_memory.mind.search.hits import EVERYWHERE, MindHit, Place
from sense_memory.mind.search.said_after import said_after
from sense_memory.models import PINNED
from sense_memory.palace.candidates import first_by_bearing
from sense_memory.palace.sources import is_told
from sense_memory.palace.standing import has_standing_kind, is_about_health, is_standing, says_so
from sense_memory.plain_text import one_line, printed
from sense_memory.search.hits import Kind, scope
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.blocks import Block, Blocks
    from sense_memory.mind.chat.conversation import Conversation
    from sense_memory.mind.chat.message_index import MessageIndex
    from sense_memory.mind.layers.archive import Archive, Passage
    from sense_memory.mind.layers.identity import IdentityKernel
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.prompts.recall import Recalled
    from sense_memory.mind.prompts.standing import StandingSentences
    from sense_memory.mind.scenes.scene import Scene
    from sense_memory.mind.trust import EntryGate, Trust
    from sense_memory.models import PersonaMemory
    from sense_memory.search.hits import Hit

_T = TypeVar("_T")

RECALLED_COUNT: Final = 30  # hits of each search, of which a prompt shows those that are worth it
_STANDING_COUNT: Final = 16  # memories, and as many sentences of the user, that hold for every answer
_READ_COUNT: Final = 1_000  # memories whose text is searched for an instruction, the most relevant ones
_SCENE_COUNT: Final = 12  # entries of a scene, the newest
_RELEVANCE_FLOOR: Final = 0.9  # as `MemoryStore.search`
_order: Final = attrgetter("at", "id")


class PromptSources(Protocol):
    """The parts that a prompt is made of; a `Mind` has them."""

    store: OpenStore
    log: Log
    blocks: Blocks
    identity: IdentityKernel
    archive: Archive
    trust: Trust

    async def search(
        self, query: str, limit: int = 5, *, within: Iterable[str] = EVERYWHERE
    ) -> list[MindHit]:
        """The messages, passages and entries of the log that answer a query best."""


class Gathering:
    """Reads the parts of a mind for one prompt.

    Args:
        mind: the mind.
        messages: the messages of its conversations.
        standing: what its user said for every answer.
    """

    def __init__(self, mind: PromptSources, messages: MessageIndex, standing: StandingSentences) -> None:
        self._mind, self._messages, self._standing, self._store = mind, messages, standing, mind.store
        self._problems: list[str] = []

    async def gathered(
        self,
        conversation: Conversation | None,
        *,
        query: str | None,
        instructions: str,
        scene: str | Scene,
        include_untrusted: bool = False,
    ) -> Gathered:
        """Everything that a prompt is made of.

        Args:
            conversation: the conversation that goes on; None for a prompt without messages.
            query: what to look for in memory; None for the last message of the user.
            instructions: the caller's own words.
            scene: the current scene in words, or a scene whose newest entries are shown.
            include_untrusted: also memories that nobody vouched for.
        """
        summary, messages, is_compacted = await self._conversation(conversation)
        asked = _last_question(messages) if query is None else query
        blocks, identity, (preferences, told), shown, memories = await asyncio.gather(
            self._known(self._blocks(), Part("blocks", ())),
            self._known(self._identity(), ()),
            self._known(self._preferences(asked), (Part("preferences", ()), {})),
            self._known(self._scene(scene), Part("scene", ())),
            self.recalled(asked, include_untrusted=include_untrusted),
        )
        if not was_ever_complete(self._store.ledger, self._store.options.urls):
            self._problems.append("no relay has shown everything yet: memories may be missing; run `sync`")
        return Gathered(
            printed(instructions).strip(),
            (blocks, *identity, preferences, summary),
            shown,
            tuple(messages),
            tuple(memories),
            asked,
            is_compacted,
            self._store.options.clock(),
            tuple(dict.fromkeys(self._problems)),
            told,
        )

    async def _conversation(self, conversation: Conversation | None) -> tuple[Part, Sequence[LogEntry], bool]:
        """The summary of a conversation, its messages in context, and whether earlier ones have left the context."""
        nothing = Part("summary", ())
        if conversation is None:
            return nothing, (), False
        missing: tuple[ContextState, Sequence[LogEntry]] = ContextState(), ()
        state, context = await self._known(conversation.context(), missing)
        gate = await self._mind.trust.gate()
        if gate.withholds:
            said = await self._mind.log.entries(conversation=conversation.id)
            context = [entry for entry in context if not gate.held(entry)]
            if any(map(gate.held, said)):  # the summary may say what it said
                return nothing, context, True
        if not state.summary:
            return nothing, context, bool(state.covers)
        head = f'<summary of="{state.covered_count} earlier messages">'
        return Part("summary", (Line(_data(state.summary)),), head, "</summary>"), context, True

    async def _known(self, read: Awaitable[_T], missing: _T) -> _T:
        """What can be read, or what stands for it while no relay has shown everything."""
        try:
            return await read
        except NotSynced:
            return missing

    # ── The system prompt ───────────────────────────────────────────────────────────────

    async def _blocks(self) -> Part:
        blocks = [block for block in await self._mind.blocks.speaking() if block.value.strip()]
        if broken := [block.label for block in blocks if not block.is_whole]:
            self._problems.append(f"a part of the block {', '.join(broken)} has not arrived; run `sync`")
        return Part("blocks", tuple(Line(_block(block), block.label) for block in blocks))

    async def _identity(self) -> tuple[Part, Part]:
        kernel: IdentityKernel = self._mind.identity
        identity, objectives = await kernel.get(), await kernel.objectives()
        values = (f"I value: {value}" for value in identity.values)
        said = tuple(Line(_data(text)) for text in (*identity.lines(), *values))
        aims = tuple(Line(f"- {_data(aim.text)}", aim.id) for aim in objectives)
        return (
            Part("identity", said, "<identity>", "</identity>"),
            Part("objectives", aims, "<objectives>", "</objectives>"),
        )

    async def _preferences(self, asked: str) -> tuple[Part, Mapping[str, str]]:
        """What holds for every answer, and the words of each by its path or id.

        Where there are more than are shown, those that bear on the request come first.

        These are pinned memories, memories of a standing kind (`palace.standing`), and what the user said so. What a tool,
        a document or another agent said never becomes an instruction, unless somebody trusts it and pinned it. Where not all
        fit, health
        goes before what the user said, that before other instructions, and wishes that only their place tells come
        last.
        """
        catalog = await self._store.persona().palace.refresh()
        ranked = catalog.ranked(self._store.options.clock())
        view = self._store.trust()
        judge, withheld = await view.judge(), await view.withheld()
        held = [
            memory
            for number, memory in enumerate(ranked)
            if _holds_always(memory, reads=number < _READ_COUNT)
            and memory.path not in withheld
            and judge.may_speak(trust_of_memory(memory))
        ]
        # Where all have room, their order stays: the caches of models live on that.
        if asked and len(held) > _STANDING_COUNT:
            bears = await (await self._store.search()).bearing_on(asked)
            held = list(first_by_bearing(held, bears))
        gate = await self._mind.trust.gate()
        said = [one for one in await self._standing.newest(_STANDING_COUNT) if gate.words_may_speak(one[1])]
        ranked_lines = [
            (_rank(text, is_rule=True), Line(f"- {_data(text)} (the user, {day(entry.at)})", entry.id))
            for text, entry in said
        ]
        ranked_lines += [
            (_rank(memory.value, is_rule=PINNED in memory.themes or says_so(memory)), _standing_line(memory))
            for memory in held[:_STANDING_COUNT]
        ]
        lines = [line for _, line in sorted(ranked_lines, key=itemgetter(0))]
        told = {memory.path: memory.value for memory in held} | {entry.id: text for text, entry in said}
        return Part("preferences", tuple(lines), "<standing_preferences>", "</standing_preferences>"), told

    async def _scene(self, scene: str | Scene) -> Part:
        head, tail = "<scene>", "</scene>"
        if isinstance(scene, str):
            text = _data_lines(scene)
            return Part("scene", (Line(text),) if text else (), head, tail)
        seen = EpisodicMemory(scene.name_of_self or "-", _SCENE_COUNT).visible(await scene.entries())
        lines = tuple(Line(escape(entry_line(entry)), entry.id) for entry in seen)
        return Part("scene", lines, head, tail, keeps_last=True)

    # ── Memories ────────────────────────────────────────────────────────────────────────

    async def recalled(self, query: str, *, include_untrusted: bool = False) -> list[Recalled]:
        """The memories of every search that may answer a query, in no order; nothing for small talk.

        Memories that nobody vouched for are only counted, unless they are asked for.
        """
        if not says_something(query):
            return []
        memories, entries = await asyncio.gather(
            self._known(self._memories(query), []), self._known(self._entries(query), [])
        )
        found = [*memories, *entries]
        if not include_untrusted and (count := sum(not item.may_speak for item in found)):
            self._problems.append(
                f"left out, because nobody vouched for where they came from: {count:,} of the memories that were found; "
                "include_untrusted (--untrusted) shows them, and `trust` lets them in"
            )
            found = [item for item in found if item.may_speak]
        return found

    async def _memories(self, query: str) -> list[Recalled]:
        search = await self._store.search()
        wanted = scope(("palace", "journal", "flat"), None, None)
        found = await search.search(query, RECALLED_COUNT, wanted, _RELEVANCE_FLOOR)
        if found.forgotten:
            self._problems.append(
                f"forgotten memories that the question means are left out: {found.forgotten:,}; a search with the state "
                "`forgotten` shows them, and recall brings one back"
            )
        persona = self._store.persona()
        catalog, judge = persona.palace.catalog, await self._store.trust().judge()
        hits = await persona.suspicions.annotated(found)
        speaking: list[Hit] = []
        for hit in hits:
            memory = catalog.get(hit.path) if hit.kind == Kind.PALACE else None
            if judge.may_speak(of_flat(hit) if memory is None else trust_of_memory(memory)):
                speaking.append(hit)
        if persona.compares:
            speaking = with_later(speaking, catalog)
        told = {hit.path: hit for hit in speaking}
        return [
            item if hit.path in told else replace(item, may_speak=False)
            for hit in hits
            if (item := of_memory(told.get(hit.path, hit))) is not None
        ]

    async def _entries(self, query: str) -> list[Recalled]:
        hits = await self._mind.search(query, RECALLED_COUNT, within=tuple(map(str, EVERYWHERE)))
        me = self._store.options.signer.public_key
        found: list[Recalled] = []
        by_id = {hit.id: hit for hit in hits}
        for hit in hits:
            entry = None if hit.place is Place.ARCHIVE else self._mind.log.known(hit.id)
            if entry is None and hit.place is not Place.ARCHIVE:
                continue  # removed meanwhile
            around = await self._around(hit)
            later = await self._later(hit, by_id, answer_to(entry, around) if entry else None)
            found += of_entry(hit, entry, around, query, me, later=later)
        gate, passages, log = await self._mind.trust.gate(), await self._passages(hits), self._mind.log
        return [
            item
            if all(_speaks(log.known(ident), passages.get(ident), gate) for ident in item.idents)
            else replace(item, may_speak=False)
            for item in found
        ]

    async def _passages(self, hits: Iterable[MindHit]) -> Mapping[str, Passage]:
        """The passages of the archive by id, if one of the hits is a passage."""
        if all(hit.place is not Place.ARCHIVE for hit in hits):
            return {}
        return {passage.id: passage for passage in await self._mind.archive.all()}

    async def _later(
        self, hit: MindHit, by_id: Mapping[str, MindHit], answer: LogEntry | None
    ) -> LogEntry | MindHit | None:
        """What corrects a hit, or the answer to it; where that was corrected too, the last correction."""
        if answer is not None:
            hit = by_id.get(answer.id) or await self._answered(hit, answer)
        last, seen = hit, {hit.id}
        while last.corrected_by in by_id and last.corrected_by not in seen:
            last = by_id[last.corrected_by]
            seen.add(last.id)
        if last is hit:
            return self._mind.log.known(hit.corrected_by) if answer is not None else None
        return last if last.place is Place.ARCHIVE else self._mind.log.known(last.id)

    async def _answered(self, hit: MindHit, answer: LogEntry) -> MindHit:
        """The answer to a question as a hit, with its correction, which the search of the question did not look for."""
        found = MindHit(
            hit.place, answer.id, answer.text, answer.at, hit.score, answer.actor, hit.conversation
        )
        later = (await said_after([found], self._messages)).get(answer.id)
        return found if later is None or not later.is_sure else replace(found, corrected_by=later.hit.id)

    async def _around(self, hit: MindHit) -> Sequence[LogEntry]:
        """A message with those around it in the conversation."""
        if hit.place is not Place.CONVERSATION or hit.conversation is None:
            return ()
        found = await self._messages.of(hit.conversation)
        entry = found.entries.get(hit.id)
        if entry is None:
            return ()
        ordered = found.newest()
        place = bisect_left(ordered, _order(entry), key=_order)
        return ordered[max(0, place - CONTEXT_COUNT - 1) : place + CONTEXT_COUNT + 2]


def _holds_always(memory: PersonaMemory, *, reads: bool) -> bool:
    """Whether a memory stands in every prompt: by its place, or, if its text is read, by its words."""
    if PINNED in memory.themes:
        return memory.superseded_by is None and memory.conflict_of is None
    return is_told(memory.source) and (reads or has_standing_kind(memory)) and is_standing(memory)


def _speaks(entry: LogEntry | None, passage: Passage | None, gate: EntryGate) -> bool:
    """Whether what is under one id may enter a prompt by itself; a thought has the id of the entry that it came from."""
    return (entry is None or gate.may_speak(entry)) and (passage is None or gate.passage_may_speak(passage))


def _rank(text: str, *, is_rule: bool) -> int:
    """The place of a standing text among others: health, instructions, wishes."""
    return 0 if is_about_health(text) else 1 if is_rule else 2


def _standing_line(memory: PersonaMemory) -> Line:
    """A memory as a line; its key is left out where the text says it."""
    key = memory.key.replace("_", " ")
    about = f"{_data(memory.key)}, " if set(words(key)) - set(words(memory.value)) else ""
    return Line(f"- {_data(memory.value)} ({about}{day(memory.written_at)})", memory.path)


def _last_question(messages: Sequence[LogEntry]) -> str:
    """The last message of the user; before it the one before, if the last says nothing for itself ("And when?")."""
    said = (entry.text for entry in reversed(messages) if role_of(entry) == "user")
    last = next(said, "")
    if says_something(last) or not last.rstrip().endswith("?"):
        return last
    return f"{next(said, '')} {last}"


# ── Stored text as data ─────────────────────────────────────────────────────────────────


def _block(block: Block) -> str:
    """A block as an element; its description is shown unless the label says the same."""
    about = (
        ""
        if block.label in DESCRIPTIONS or not block.description
        else f" about={quoteattr(one_line(block.description))}"
    )
    return f"<{block.label}{about}>\n{_data_lines(block.value)}\n</{block.label}>"


def _data_lines(text: str) -> str:
    return escape(printed(text)).strip()


def _data(text: str) -> str:
    return escape(one_line(text))
