"""`MemoryManager`: the documented API of the four-tier memory, over the parts of a mind.

The system prompt is rebuilt only when the compiled blocks have changed. The metadata (dates and counts) changes all the
time, and never causes a rebuild.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.mind.call_checks import checked
from sense_memory.mind.tools import mind_tools, utc


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.mind.blocks import Blocks
    from sense_memory.mind.chat.compaction import ContextState
    from sense_memory.mind.chat.conversation import Conversation
    from sense_memory.mind.layers.archive import Archive
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.search.search import MindSearch
    from sense_memory.mind.tools import MindTool


@checked
class MemoryManager:
    """The memory of one agent in one conversation.

    Args:
        blocks: core memory.
        archive: archival memory.
        search: finds messages and passages.
        conversation: recall memory, and the context window.
        model: summarises conversations.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        blocks: Blocks,
        archive: Archive,
        search: MindSearch,
        conversation: Conversation,
        *,
        model: LanguageModel,
        clock: Callable[[], float],
    ) -> None:
        self._blocks, self._archive, self._search = blocks, archive, search
        self.conversation, self._model, self._clock = conversation, model, clock
        self._compiled = ""
        self._prompt = ""

    async def compile(self) -> str:
        """The memory blocks as XML for the system prompt."""
        return await self._blocks.compile()

    async def compile_metadata(self) -> str:
        """Dates and counts as XML: the current date, the last change of a block, the numbers of messages and passages."""
        changed = [block.updated_at for block in await self._blocks.all() if block.updated_at is not None]
        lines = [f"- The current system date is: {utc(self._clock())}"]
        if changed:
            lines.append(f"- Memory blocks were last modified: {utc(max(changed))}")
        messages, passages = len(await self.conversation.messages()), await self._archive.count()
        lines.append(
            f"- {messages} previous messages between you and the user are stored in recall memory (use "
            "conversation_search to access)"
        )
        lines.append(
            f"- {passages} total memories you created are stored in archival memory (use archival_search to access)"
        )
        return "\n".join(("<memory_metadata>", *lines, "</memory_metadata>"))

    async def system_prompt(self, base: str = "") -> str:
        """Base instructions, blocks and metadata; the same text as before, unless the compiled blocks have changed."""
        compiled = await self.compile()
        if not self._prompt or compiled != self._compiled:
            self._compiled = compiled
            self._prompt = "\n\n".join(filter(None, (base, compiled, await self.compile_metadata())))
        return self._prompt

    async def needs_rebuild(self) -> bool:
        """Whether the compiled blocks differ from those of the last `system_prompt`."""
        return await self.compile() != self._compiled

    def tools(self) -> list[MindTool]:
        """The memory tools of the agent."""
        return mind_tools(self._blocks, self._archive, self._search, self.conversation.id)

    def needs_compaction(self, current_tokens: int) -> bool:
        """Whether a context with this number of tokens takes 80 % of the window or more."""
        return self.conversation.needs_compaction(current_tokens)

    async def compact(self) -> ContextState:
        """Summarise the older messages; see `Conversation.compact`."""
        return await self.conversation.compact(self._model)

    async def message_ids(self) -> list[str]:
        """The ids of the messages in context, oldest first."""
        return await self.conversation.message_ids()

    async def set_message_ids(self, ids: Sequence[str]) -> None:
        """Choose the messages in context; see `Conversation.set_message_ids`."""
        await self.conversation.set_message_ids(ids)
