"""The belief graph: the conclusions of agents, their evidence, and how they support or contradict each other. Pure.

A belief is a reflection in the log (`agent.reflected`). Its evidence is the entries that it names. Beliefs that say the
same support it; beliefs that contradict it by the rules of the palace cannot be true together with it.

    confidence = (1 + evidence + supporting beliefs) / (2 + evidence + supporting + 2 * contradicting beliefs)

The confidence is one half for a claim without evidence, rises with evidence and support, and falls below one half if
contradictions outweigh them. The graph is built from the entries each time, and compares at most 500 beliefs, which
takes some 0.3 s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory import palace
from sense_memory.mind.log import LAST_SECOND
from sense_memory.mind.reflection import REFLECTED, based_on
from sense_memory.mind.salience import jaccard, words
from sense_memory.models import PersonaMemory


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.log import LogEntry

SUPPORT_BOUND: Final = 0.5  # two beliefs with this Jaccard similarity or more say the same
NEWEST_COUNT: Final = 500  # the newest beliefs, which are compared with each other


@dataclass(frozen=True, slots=True)
class Belief:
    """One belief, with its links in the graph.

    Attributes:
        id: the id of the reflection.
        holder: the agent that holds the belief.
        text: the belief.
        at: when the belief was concluded, seconds since 1970.
        evidence: the ids of the named entries that the log holds.
        missing: the number of named entries that the log does not hold.
        supports: the ids of beliefs that say the same.
        contradicts: the ids of beliefs that contradict this one.
        confidence: 0 to 1, see above.
    """

    id: str
    holder: str
    text: str = field(repr=False)
    at: float
    evidence: tuple[str, ...]
    missing: int
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()

    @property
    def confidence(self) -> float:
        """The confidence by evidence and other beliefs, 0 to 1."""
        backing = len(self.evidence) + len(self.supports)
        return (1 + backing) / (2 + backing + 2 * len(self.contradicts))


class BeliefGraph:
    """The beliefs of all agents in some entries.

    Args:
        entries: the log, or the part of it that may be seen, oldest first.
    """

    def __init__(self, entries: Iterable[LogEntry]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        found = [entry for entry in self._entries.values() if entry.kind == REFLECTED and entry.text.strip()]
        self._beliefs = _linked(found, self._entries.keys())

    def __len__(self) -> int:
        return len(self._beliefs)

    def belief(self, belief_id: str) -> Belief | None:
        """One belief by the id of its reflection, or None."""
        return self._beliefs.get(belief_id)

    def beliefs(self, *, holder: str | None = None, at_least: float = 0.0) -> list[Belief]:
        """Beliefs, most certain first, equally certain ones newest first.

        Args:
            holder: only beliefs of this agent.
            at_least: the lowest confidence.
        """
        found = [
            belief
            for belief in self._beliefs.values()
            if belief.confidence >= at_least and (holder is None or belief.holder == holder)
        ]
        return sorted(found, key=lambda belief: (-belief.confidence, -belief.at, belief.id))

    def about(self, text: str, *, limit: int = 5) -> list[Belief]:
        """The beliefs most similar to a text, with at least one shared word; equal ones most certain first."""
        wanted = words(text)
        scored = [(jaccard(words(belief.text), wanted), belief) for belief in self.beliefs()]
        return [belief for score, belief in sorted(scored, key=lambda item: -item[0]) if score > 0][:limit]

    def evidence(self, belief_id: str) -> list[LogEntry]:
        """The entries that are the evidence of a belief, as far as the log holds them."""
        belief = self.belief(belief_id)
        return [] if belief is None else [self._entries[ident] for ident in belief.evidence]

    def tensions(self) -> list[tuple[Belief, Belief]]:
        """The pairs of beliefs that contradict each other, each with the older first; most certain pairs first."""
        pairs = [
            (belief, self._beliefs[other])
            for belief in self._beliefs.values()
            for other in belief.contradicts
            if (belief.at, belief.id) < (self._beliefs[other].at, other)
        ]
        return sorted(pairs, key=lambda pair: -min(pair[0].confidence, pair[1].confidence))


def _linked(reflections: Sequence[LogEntry], known: Iterable[str]) -> dict[str, Belief]:
    held = set(known)
    newest = sorted(reflections, key=lambda entry: (entry.at, entry.id))[-NEWEST_COUNT:]
    supports: dict[str, list[str]] = {entry.id: [] for entry in newest}
    contradicts: dict[str, list[str]] = {entry.id: [] for entry in newest}
    claims = palace.ClaimIndex()
    read: list[tuple[str, frozenset[str]]] = []
    for entry in newest:
        memory, mine = as_memory(entry.id, entry.text, entry.at), words(entry.text)
        against = {found.old.rpartition("/")[2] for found in claims.check(memory)}
        alike = (other for other, theirs in read if jaccard(mine, theirs) >= SUPPORT_BOUND)
        for links, others in ((contradicts, sorted(against)), (supports, alike)):
            for other in others:
                if links is contradicts or other not in against:
                    links[entry.id].append(other)
                    links[other].append(entry.id)
        claims.put(memory)
        read.append((entry.id, mine))
    return {
        entry.id: _belief(entry, held, tuple(supports[entry.id]), tuple(contradicts[entry.id]))
        for entry in newest
    }


def _belief(
    entry: LogEntry, held: set[str], supports: tuple[str, ...], contradicts: tuple[str, ...]
) -> Belief:
    named = dict.fromkeys(based_on(entry))
    evidence = tuple(ident for ident in named if ident in held)
    missing = len(named) - len(evidence)
    return Belief(entry.id, entry.actor, entry.text, entry.at, evidence, missing, supports, contradicts)


def as_memory(key: str, text: str, at: float) -> PersonaMemory:
    """A statement as a persona memory, for the palace's rules of contradictions: a belief, written at a time.

    An entry of the log may claim any time; the nearest time that a memory can have is taken.
    """
    at = min(max(at, 0.0), LAST_SECOND)
    return PersonaMemory(
        domain="self",
        facet="beliefs",
        key=key,
        value=text,
        last_accessed=at,
        last_reinforced=at,
        created_at=at,
    )
