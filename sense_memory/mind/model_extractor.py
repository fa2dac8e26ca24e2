"""`ModelExtractor`: a language model proposes memories from a conversation, for `MemoryStore.persona_extract`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.mind.model import ExtractMemories
from sense_memory.palace.extraction import Proposal


if TYPE_CHECKING:
    from sense_memory.mind.model import LanguageModel


class ModelExtractor:
    """Proposes memories by the task `ExtractMemories`; each proposal names the words of the text behind it.

    Args:
        model: answers the task.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    async def propose(self, text: str) -> list[Proposal]:
        """The proposals from a conversation, in the order of the text.

        Raises:
            ModelError: the model gave no valid answer.
        """
        if not text.strip():
            return []
        task = ExtractMemories(conversation=text)
        found = []
        for item in (await self._model.answer(task)).memories:
            place = task.place_of(item.quote)
            if place is not None:
                about = (item.domain, item.facet, item.key, item.value, item.themes, item.reason)
                found.append(Proposal(*about, *place))
        return sorted(found, key=lambda proposal: proposal.start)
