"""`Prompt`: messages that are ready for a model, in every format, with a report of what was left out and why. Pure.

The order is cache-friendly: what changes least comes first. The system prompt has instructions, blocks, identity,
objectives, standing preferences and the summary; then come the older messages; what changes with every question, the scene
and the recalled memories, stands just before the newest message of the user. So a provider's cache holds all before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from sense_memory.mind.chat import formats, framework_messages
from sense_memory.mind.chat.messages import Message, message
from sense_memory.mind.prompts.recall import as_text


if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage
    from pydantic_ai.messages import ModelMessage

    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.prompts.recall import Recalled


class PartReport(BaseModel):
    """What one part of a prompt costs, and what of it was left out.

    Attributes:
        name: instructions, blocks, identity, objectives, preferences, summary, scene, recalled or messages.
        tokens: the cost of the part.
        shown: the number of its items in the prompt: lines, memories or messages.
        left_out: the number of items that were left out.
        why: why they were left out; empty if nothing was.
        ids: the ids or paths of the items in the prompt, where they have any.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    tokens: int
    shown: int
    left_out: int = 0
    why: str = ""
    ids: tuple[str, ...] = ()


class PromptReport(BaseModel):
    """What a prompt costs, what was left out of it and why.

    Attributes:
        budget: the largest number of tokens of the prompt.
        tokens: the cost of the prompt, never more than `budget`.
        query: what was looked for in memory; empty if nothing was.
        parts: the parts that the prompt has, or would have, in their order.
        problems: sentences about what could not be read or had to be cut, such as memories that only a relay may have,
            and about forgotten memories that the query means.
    """

    model_config = ConfigDict(frozen=True)

    budget: int
    tokens: int
    query: str = Field(default="", repr=False)
    parts: tuple[PartReport, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read, and nothing was cut."""
        return not self.problems

    def part(self, name: str) -> PartReport:
        """One part by its name; an empty part if the prompt has no such part."""
        found = (part for part in self.parts if part.name == name)
        return next(found, PartReport(name=name, tokens=0, shown=0))


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages that are ready for a model.

    Attributes:
        system: the system prompt.
        messages: the messages after it, oldest first. Messages of a user begin with their time; the message without an id
            has the scene and the recalled memories.
        recalled: the memories in the prompt, the best first.
        report: what the prompt costs, what was left out, and why.
    """

    system: str = field(repr=False)
    recalled: tuple[Recalled, ...] = field(repr=False)
    report: PromptReport
    _entries: tuple[LogEntry, ...] = field(repr=False)
    _is_cut: bool = field(repr=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages after the system prompt, oldest first."""
        return tuple(map(message, self._entries))

    @property
    def text(self) -> str:
        """The prompt as one text, for people and for models that take no messages."""
        said = (f"{item.role}: {item.content}" for item in self.messages)
        return "\n\n".join(filter(None, (self.system, *said)))

    @property
    def memories(self) -> str:
        """The recalled memories alone, for a prompt of your own, such as `extra` of a `ContextBuilder`; empty for none."""
        return as_text(self.recalled)

    def used_paths(self) -> list[str]:
        """The paths of the palace memories in the prompt: those recalled, and those that hold for every answer."""
        standing = (ident for ident in self.report.part("preferences").ids if "/" in ident)
        return [*standing, *(item.ident for item in self.recalled if item.source == "palace")]

    def as_openai(self) -> list[dict[str, Any]]:
        """The prompt for OpenAI's chat completions, and for every API that copies them."""
        return formats.to_openai(self._entries, self.system, is_cut=self._is_cut)

    def as_anthropic(self) -> tuple[str, list[dict[str, Any]]]:
        """The system prompt and the messages for Anthropic's API."""
        return formats.to_anthropic(self._entries, self.system, is_cut=self._is_cut)

    def as_langchain(self) -> list[AnyMessage]:
        """The prompt as messages of LangChain and LangGraph.

        Raises:
            MissingExtra: the extra `langgraph` is not installed.
        """
        return framework_messages.as_langchain(self.as_openai())

    def as_pydantic_ai(self) -> list[ModelMessage]:
        """The prompt as messages of pydantic-ai, for `message_history`.

        Raises:
            MissingExtra: the extra `model` is not installed.
        """
        return framework_messages.as_pydantic_ai(self.as_openai())
