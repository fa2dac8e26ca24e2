"""Reflection: when an agent should condense the entries that it has seen into a belief (agent-ledger memory, layer 3).

A reflection is an entry of the kind `agent.reflected` with the payload `{"belief": …, "based_on": [entry ids]}`. Where a model
or a person says so, the payload also has `confidence` from 0 to 1, and the ids of earlier reflections in `supports` and
`contradicts`. It has `left_out` where the model did not read the oldest entries because there were too many. The kind is globally visible, so every
agent reads the belief. In a `Digest` a belief replaces the entries that it is based on: after K reflections a context holds
K beliefs and the recent window, instead of every entry. Nothing is stored outside the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.context import MAX_LINE_CHARS
from sense_memory.mind.episodic import is_visible
from sense_memory.mind.fields import texts_in
from sense_memory.mind.model import MAX_LISTED_CHARS
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.log import Log, LogEntry

REFLECTED: Final = "agent.reflected"


@checked
@dataclass(frozen=True, slots=True)
class ReflectionTracker:
    """Tells from the entries when a reflection is due. Pure.

    Attributes:
        agent_name: the agent, as entries name it in `actor`.
        threshold: the number of visible entries since the agent's last reflection that make the next one due.

    Raises:
        InvalidInput: `threshold` is less than 1.
    """

    agent_name: str
    threshold: int = 20

    def __post_init__(self) -> None:
        if type(self.threshold) is not int or self.threshold < 1:
            raise InvalidInput("threshold must be a whole number of at least 1")

    def observe(self, entries: Iterable[LogEntry]) -> bool:
        """Whether a reflection is due."""
        return len(self.pending(entries)) >= self.threshold

    def pending(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """The visible entries since the agent's last reflection, on which the next one is based.

        Reflections, of this agent and of others, are not experiences and are left out.
        """
        found: list[LogEntry] = []
        for entry in entries:
            if entry.kind == REFLECTED:
                if entry.actor == self.agent_name:
                    found.clear()
            elif is_visible(entry, self.agent_name):
                found.append(entry)
        return found


@dataclass(frozen=True, slots=True)
class Digest:
    """The entries that an agent has to read: beliefs instead of the entries behind them, and the recent window.

    Attributes:
        beliefs: the agent's reflections, oldest first.
        recent: the newest visible entries on which no belief of the agent is based.
    """

    beliefs: tuple[LogEntry, ...]
    recent: tuple[LogEntry, ...]

    def __len__(self) -> int:
        return len(self.beliefs) + len(self.recent)


@checked
def digest(entries: Iterable[LogEntry], agent_name: str, window: int = 8) -> Digest:
    """The K beliefs of an agent and its window: K * 1 + window entries instead of N * K + window."""
    seen = [entry for entry in entries if is_visible(entry, agent_name)]
    beliefs = tuple(entry for entry in seen if entry.kind == REFLECTED and entry.actor == agent_name)
    covered = {ident for belief in beliefs for ident in (belief.id, *based_on(belief))}
    rest = [entry for entry in seen if entry.id not in covered]
    return Digest(beliefs, tuple(rest[-window:]))


def based_on(reflection: LogEntry) -> tuple[str, ...]:
    """The ids of the entries that a reflection names as its evidence; items that are not texts are left out."""
    return texts_in(reflection.payload, "based_on")


def newest_lines(entries: Sequence[LogEntry]) -> tuple[str, ...]:
    """The newest of some entries for the task `Reflect`, one line each and `MAX_LISTED_CHARS` at most, oldest first."""
    lines, left = list[str](), MAX_LISTED_CHARS
    for entry in reversed(entries):
        line = f"{one_line(entry.actor)}: {one_line(entry.text)[:MAX_LINE_CHARS]}"
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    return tuple(reversed(lines))


def own_reflections(entries: Iterable[LogEntry], agent_name: str) -> list[LogEntry]:
    """The newest reflections of an agent, oldest first, with a quarter of `MAX_LISTED_CHARS` at most."""
    found = [
        entry
        for entry in entries
        if entry.kind == REFLECTED and entry.actor == agent_name and 0 < len(entry.text) <= MAX_LINE_CHARS
    ]
    return found[-(MAX_LISTED_CHARS // 4 // MAX_LINE_CHARS) :]


@checked
async def reflect(
    log: Log,
    agent_name: str,
    belief: str,
    evidence: Sequence[LogEntry | str],
    *,
    turn: int | None = None,
    conversation: str | None = None,
    is_by_rule: bool = False,
    left_out: int = 0,
    confidence: float | None = None,
    supports: Sequence[LogEntry | str] = (),
    contradicts: Sequence[LogEntry | str] = (),
    sources: Sequence[str] = (),
) -> LogEntry:
    """Append a reflection to the log.

    Args:
        log: the log.
        agent_name: the agent that reflects.
        belief: the conclusion, in words.
        evidence: the entries on which the belief is based, or their ids.
        turn: the current turn.
        conversation: the conversation's id.
        is_by_rule: whether rules, and no model or agent, concluded the belief; if so, the payload says so.
        left_out: how many older entries were not read for the belief; if any, the payload says so.
        confidence: how certain the belief is, 0 to 1, by whoever concluded it; None if nobody says.
        supports: earlier reflections that say the same, or their ids.
        contradicts: earlier reflections that cannot be true together with this one, or their ids.
        sources: who else than the user and the agent said what was read for it, see `Trust.foreign_sources`.

    Raises:
        InvalidInput: the belief is empty, or the confidence is not 0 to 1; nothing was appended.
    """
    if not isinstance(belief, str) or not belief.strip():
        raise InvalidInput("a belief must be a non-empty text")
    if confidence is not None and valid_confidence(confidence) is None:
        raise InvalidInput("the confidence must be a number from 0 to 1")
    marks = {
        "is_by_rule": is_by_rule,
        "left_out": left_out,
        "confidence": confidence,
        "supports": _ids(supports),
        "contradicts": _ids(contradicts),
        "sources": list(sources),
    }
    given = {
        name: mark for name, mark in marks.items() if mark or (name == "confidence" and mark is not None)
    }
    payload = {"belief": belief, "based_on": _ids(evidence)} | given
    return await log.append(REFLECTED, payload, actor=agent_name, turn=turn, conversation=conversation)


def valid_confidence(value: object) -> float | None:
    """A confidence from 0 to 1; None for any other value, because other programs may write to a log."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1 else None


def _ids(entries: Sequence[LogEntry | str]) -> list[str]:
    return [entry if isinstance(entry, str) else entry.id for entry in entries]
