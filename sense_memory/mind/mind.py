"""`Mind`: the parts of an agent's mind as attributes."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sense_memory.config.model_choice import ModelChoice
from sense_memory.errors import SenseMemoryError
from sense_memory.mind.blocks import Blocks
from sense_memory.mind.call_checks import checked
from sense_memory.mind.chat.compaction import COMPACTION_SHARE
from sense_memory.mind.chat.conversation import IMPORTED, Conversation
from sense_memory.mind.chat.message_index import MessageIndex
from sense_memory.mind.files import Files
from sense_memory.mind.flusher import Flusher
from sense_memory.mind.four_tier import MemoryManager
from sense_memory.mind.layers import draft as pipeline
from sense_memory.mind.layers.archive import Archive
from sense_memory.mind.layers.identity import IdentityKernel
from sense_memory.mind.layers.topics import Topics
from sense_memory.mind.log import Log, LogEntry
from sense_memory.mind.model import MAX_LISTED_CHARS, Reflect, RerankPassages
from sense_memory.mind.proposals import Proposals
from sense_memory.mind.records import MindRecords
from sense_memory.mind.reflection import ReflectionTracker, newest_lines, own_reflections, reflect
from sense_memory.mind.scenes.scenes import Scenes
from sense_memory.mind.scenes.share import Shares
from sense_memory.mind.tools import mind_tools
from sense_memory.mind.trust import Trust
from sense_memory.palace import estimated_tokens


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.prompts.prompt import Prompt
    from sense_memory.mind.prompts.standing import StandingSentences
    from sense_memory.mind.scenes.scene import Scene
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.mind.search.search import MindSearch
    from sense_memory.mind.tools import MindTool

_RERANKED: Final = 4  # passages that the model ranks, for each result
_RERANKED_CHARS: Final = 2_000  # of each
CONTEXT_WINDOW_TOKENS: Final = 256_000  # the four-tier memory's default
_log = logging.getLogger("sense_memory.mind")


@checked
class Mind:
    """The mind of an agent. Get it as `store.mind`.

    Args:
        store: the open store. With `background`, the log is flushed a moment after an append.

    Attributes:
        log: everything that happened.
        blocks: core memory, which is always in the prompt.
        archive: passages of long-term memory.
        files: the text files of projects, which mirrors keep in step with folders.
        topics: the topics of thoughts, each with a summary.
        identity: the identity, distilled from the topics, and the objectives.
        proposals: memories that are proposed for the palace.
        trust: whose words may enter a prompt by themselves, and what is kept back.
        shares: facets of palaces that this agent shares with others, and others with this agent.
        scenes: logs that are shared with other agents.
    """

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        self.records = MindRecords(store)
        self._flusher = Flusher(self._write_pages, is_on=store.options.background)
        self.log, self.blocks = Log(self.records, self._flusher.appended), Blocks(self.records)
        self.archive = Archive(self.records)
        self.files = Files(self.records)
        self.topics = Topics(self.records, self.archive, self._open_model)
        self.identity = IdentityKernel(self.records, self.topics)
        self.proposals = Proposals(self.records)
        self.trust = Trust(self.records, self.log)
        self.scenes = Scenes(self.records, self.log)
        self.shares = Shares(store, self.scenes)
        self._messages = MessageIndex(self.log)

    async def prompt(
        self,
        conversation: str | Conversation | None = None,
        *,
        query: str | None = None,
        budget: int | None = None,
        instructions: str = "",
        scene: str | Scene = "",
        count_tokens: Callable[[str], int] | None = None,
        revive: bool = True,
        include_untrusted: bool = False,
    ) -> Prompt:
        """Everything that a model should see now, as messages in one order and within one budget.

        First what changes least: instructions, blocks, identity, objectives, standing preferences, the summary of the
        conversation; then its messages with their times; and just before the user's last message the scene, and what
        memory knows about the question: the palace, the journal, the archive, all conversations and the log. See
        `Prompt`. A part that relays have not shown yet is missing, and `Prompt.report`
        says so.

        Args:
            conversation: its id, or the conversation; None for a prompt without messages.
            query: what to look for in memory; by default the user's last message.
            budget: the largest number of tokens of the prompt; by default four fifths of the conversation's window.
            instructions: your own system prompt, which comes first and is never cut.
            scene: the current scene in words, or an open scene, whose newest entries are shown.
            count_tokens: counts the tokens of a text; by default as the conversation does, by an estimate.
            revive: whether palace memories in the prompt count as used, see `MemoryStore.mark_used`; false for a prompt
                that no model gets.
            include_untrusted: also what tools, documents, imports and other agents said and nobody vouched for, see
                `trust`; it then stands apart, marked as untrusted.

        Raises:
            InvalidInput: the instructions leave no room in the budget, or an argument cannot be used.
        """
        from sense_memory.mind.prompts.assembly import assembled
        from sense_memory.mind.prompts.gathering import Gathering

        chat = self.conversation(conversation) if isinstance(conversation, str) else conversation
        window = CONTEXT_WINDOW_TOKENS if chat is None else chat.window
        count = count_tokens or (estimated_tokens if chat is None else chat.count_tokens)
        gathering = Gathering(self, self._messages, self._standing)
        given = await gathering.gathered(
            chat, query=query, instructions=instructions, scene=scene, include_untrusted=include_untrusted
        )
        found = assembled(given, int(COMPACTION_SHARE * window) if budget is None else budget, count)
        if revive:
            await self.store.use(found.used_paths())
        return found

    @cached_property
    def _standing(self) -> StandingSentences:
        from sense_memory.mind.prompts.standing import StandingSentences  # slow to import, with a stemmer

        return StandingSentences(self.log)

    @cached_property
    def _search(self) -> MindSearch:
        from sense_memory.mind.search.search import MindSearch  # slow to import, with numpy

        return MindSearch(self.store, self.log, self.archive, self._messages)

    async def search(
        self,
        query: str,
        limit: int = 5,
        *,
        within: Iterable[str] = ("conversation", "archive", "log"),
        conversation: str | None = None,
        tags: Collection[str] = (),
        topic: str | None = None,
    ) -> list[MindHit]:
        """The messages, passages and entries of the log that answer a query best; as `MindSearch.search`."""
        return await self._search.search(
            query, limit, within=within, conversation=conversation, tags=tags, topic=topic
        )

    async def warm(self) -> None:
        """Bring the index of `search` up to date, in parts; searches meanwhile do not wait for it."""
        await self._search.warm()

    @property
    def model(self) -> LanguageModel:
        """The language model of all parts: the configured model, or else `RuleModel`. May be set.

        Raises:
            InvalidSetting: the configured model cannot be used.
            MissingExtra: the model's library is not installed.
        """
        return self.topics.model

    @model.setter
    @checked
    def model(self, model: LanguageModel) -> None:
        self.topics.model = model

    def _open_model(self) -> LanguageModel:
        given = self.store.options.model
        found: LanguageModel | ModelChoice | None = None if given is None else given()
        if isinstance(found, ModelChoice):
            from sense_memory.mind.endpoint_model import EndpointModel

            return EndpointModel(found)
        if found is None:
            from sense_memory.mind.rule_model import RuleModel  # slow to import

            return RuleModel()
        return found

    def conversation(
        self,
        conversation_id: str,
        *,
        window: int = CONTEXT_WINDOW_TOKENS,
        count_tokens: Callable[[str], int] = estimated_tokens,
    ) -> Conversation:
        """A conversation, which exists from its first message on.

        Args:
            conversation_id: the conversation's id, 1 to 256 characters without `/`.
            window: the size of the model's context window in tokens.
            count_tokens: counts the tokens of a text; by default an estimate that errs upward.

        Raises:
            InvalidAddress: the id cannot be part of an address.
        """
        return Conversation(
            self.log,
            self.records,
            conversation_id,
            count_tokens=count_tokens,
            window=window,
            index=self._messages,
        )

    async def conversations(self) -> dict[str, int]:
        """The ids of all conversations with the numbers of their messages, newest conversation first."""
        return await self._messages.counts()

    async def conversation_titles(self) -> dict[str, str]:
        """The titles of conversations by their ids; only imported conversations have one."""
        entries = await self.log.entries(kind=IMPORTED)
        return {entry.conversation: entry.text for entry in entries if entry.conversation and entry.text}

    def manager(self, conversation_id: str, *, window: int = CONTEXT_WINDOW_TOKENS) -> MemoryManager:
        """The four-tier memory of one conversation, with that memory's own names."""
        conversation = self.conversation(conversation_id, window=window)
        parts = self.blocks, self.archive, self._search, conversation
        return MemoryManager(*parts, model=self.model, clock=self.store.options.clock)

    def tools(self) -> list[MindTool]:
        """The memory tools for a language model."""
        return mind_tools(self.blocks, self.archive, self._search)

    async def recall(
        self,
        query: str,
        n_results: int = 5,
        topic: str | None = None,
        *,
        tags: Collection[str] = (),
        rerank: bool = False,
    ) -> list[MindHit]:
        """The passages of the archive that are most relevant to a query.

        Args:
            query: a question or some words.
            n_results: the largest number of passages.
            topic: only passages of this topic.
            tags: only passages with one of these tags.
            rerank: have the model rank four times as many passages; their scores remain those of the search.

        Raises:
            ModelError: with `rerank`, the model gave no valid answer.
        """
        count = _RERANKED * n_results if rerank else n_results
        hits = await self.search(query, count, within=("archive",), topic=topic, tags=tags)
        if rerank and len(hits) > 1:
            # Passages that do not fit a request keep their places behind those that do.
            shown = (hit.text[:_RERANKED_CHARS] for hit in hits[: MAX_LISTED_CHARS // _RERANKED_CHARS])
            task = RerankPassages(query=query[:_RERANKED_CHARS], passages=tuple(shown))
            ranked = (await self.model.answer(task)).ranked_indices
            hits = [hits[place] for place in dict.fromkeys((*ranked, *range(len(hits))))]
        return hits[:n_results]

    async def reflect(
        self,
        agent_name: str,
        *,
        threshold: int = 20,
        scene: str = "",
        turn: int | None = None,
        conversation: str | None = None,
    ) -> LogEntry | None:
        """Have the model conclude a belief from the entries since an agent's last reflection, if one is due.

        Of more entries than fit a request (some 32,000 characters), the model reads the newest; `left_out` in the payload
        of the reflection says how many older ones it did not read.

        Args:
            agent_name: the agent, as entries name it in `actor`.
            threshold: the number of visible entries that make a reflection due.
            scene: the current scene, in words.
            turn: the current turn, for the new entry.
            conversation: the conversation's id, for the new entry.

        Returns:
            The entry of the reflection; None if no reflection is due, or if nothing can be concluded.

        Raises:
            InvalidInput: `threshold` is less than 1.
            ModelError: the model gave no valid answer; nothing was appended.
        """
        tracker, entries = ReflectionTracker(agent_name, threshold), await self.log.entries()
        seen = [entry for entry in tracker.pending(entries) if entry.text.strip()]
        if len(seen) < threshold:
            return None
        lines = newest_lines(seen)
        left_out = len(seen) - len(lines)
        earlier = own_reflections(entries, agent_name)
        beliefs = tuple(entry.text for entry in earlier)
        task = Reflect(agent=agent_name, experiences=lines, scene=scene, left_out=left_out, beliefs=beliefs)
        found = await self.model.answer(task)
        if not found.belief.strip():
            return None
        evidence = [seen[left_out + place] for place in found.based_on]
        return await reflect(
            self.log,
            agent_name,
            found.belief,
            evidence,
            turn=turn,
            conversation=conversation,
            is_by_rule=found.is_by_rule,
            left_out=left_out,
            confidence=found.confidence,
            supports=[earlier[place] for place in found.supports],
            contradicts=[earlier[place] for place in found.contradicts],
            # Whatever the model has read may be in the belief, whichever evidence it names.
            sources=self.trust.foreign_sources([*seen[left_out:], *earlier]),
        )

    async def append_reflection(
        self,
        agent_name: str,
        belief: str,
        evidence: Sequence[LogEntry | str],
        *,
        turn: int | None = None,
        conversation: str | None = None,
        confidence: float | None = None,
        supports: Sequence[LogEntry | str] = (),
        contradicts: Sequence[LogEntry | str] = (),
    ) -> LogEntry:
        """Append a belief that the agent concluded itself; see `reflection.reflect`."""
        await self.log.refresh()
        known = (one if isinstance(one, LogEntry) else self.log.known(one) for one in evidence)
        return await reflect(
            self.log,
            agent_name,
            belief,
            evidence,
            turn=turn,
            conversation=conversation,
            confidence=confidence,
            supports=supports,
            contradicts=contradicts,
            sources=self.trust.foreign_sources(filter(None, known)),
        )

    # The functions of draft.py are also methods, so that `SyncMemoryStore.mind` has them without an event loop.
    draft, store_thought, backfill = pipeline.draft, pipeline.store_thought, pipeline.backfill

    async def flush(self) -> int:
        """Write the entries of the log that are in no page yet to pages; returns how many. Raises as `Log.flush`."""
        return await self._flusher.flush()

    async def _write_pages(self) -> int:
        return await self.log.flush()

    async def close(self) -> None:
        """Flush the log and stop. Entries that cannot be flushed stay durable, and the next flush takes them."""
        await self._flusher.stop()
        try:
            await self.flush()
        except SenseMemoryError as error:
            _log.warning(
                "the newest entries of the log are durable here, but not yet in a page that relays get (%s)",
                type(error).__name__,
            )
        finally:
            options = self.store.options
            try:
                await self.scenes.close(options.close_timeout if options.background else 0.0)
            finally:
                if "_search" in vars(self):
                    await self._search.close()
