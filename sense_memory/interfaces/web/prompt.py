"""The prompt of the mind as the page shows it: what an agent's model would get, and what was left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore

TOKENS: Final = 2_000  # of a prompt if the page names no budget
MAX_TOKENS: Final = 32_000  # some 130 KB


async def prompt_of(store: MemoryStore, query: str, conversation: str, budget: int | None) -> dict[str, Any]:
    """The prompt for a question, with its report; no memory counts as used.

    Args:
        store: an open store.
        query: the question; empty for the last message of the conversation.
        conversation: its id; empty for none.
        budget: tokens, at most `MAX_TOKENS`; by default `TOKENS`.

    Raises:
        InvalidInput: the budget is too small for a prompt.
    """
    size = TOKENS if budget is None else min(budget, MAX_TOKENS)
    found = await store.mind.prompt(conversation or None, query=query or None, budget=size, revive=False)
    messages = [
        {"role": said.role, "name": said.name, "content": said.content, "is_said": bool(said.id)}
        for said in found.messages
    ]
    return {"system": found.system, "messages": messages, "report": found.report.model_dump(mode="json")}
