"""Episodic memory: the recent window of the entries that an agent may see (agent-ledger memory, layer 1). Pure.

An agent sees its own entries of any kind, and everybody's entries of the globally visible kinds. Every view starts from
this filter, so no view shows an agent an entry that it must not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.mind.log import LogEntry

GLOBAL_KINDS: Final = frozenset(
    {"world.observed", "judge.verdict", "user.injected", "run.started", "agent.reflected"}
)


def is_visible(entry: LogEntry, agent_name: str) -> bool:
    """Whether an agent may see an entry: its own entry, or an entry of a globally visible kind."""
    return entry.actor == agent_name or entry.kind in GLOBAL_KINDS


@checked
@dataclass(frozen=True, slots=True)
class EpisodicMemory:
    """The newest visible entries of an agent.

    Attributes:
        agent_name: the agent, as entries name it in `actor`.
        max_recent: the largest number of entries in the window, at least 1.

    Raises:
        InvalidInput: `max_recent` is less than 1.
    """

    agent_name: str
    max_recent: int = 8

    def __post_init__(self) -> None:
        if type(self.max_recent) is not int or self.max_recent < 1:
            raise InvalidInput("max_recent must be a whole number of at least 1")

    def visible(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """The window: the newest visible entries, at most `max_recent`, in the given order."""
        return [entry for entry in entries if is_visible(entry, self.agent_name)][-self.max_recent :]
