"""The belief graph: what agents concluded, from what, and how the conclusions stand to each other. Pure.

A belief is a reflection of the log (`agent.reflected`). It rests on its evidence, is supported by beliefs that say the
same, and contradicted by beliefs that cannot be true with it; what contradicts is decided by the rules of the palace.

    confidence = (1 + evidence + supporting beliefs) / (2 + evidence + supporting + 2 * contradicting beliefs)

which is one half for a bare claim, rises with what speaks for it, and falls below one half where more speaks against it.
Built anew from the entries each time: some 0.3 s for 500 beliefs, which is as many as are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory import palace
from sense_memory.mind.reflection import REFLECTED, based_on
from sense_memory.mind.salience import jaccard, words
from sense_memory.models import PersonaMemory


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.log import LogEntry

SUPPORT_BOUND: Final = 0.5  # Jaccard similarity from which two beliefs say the same
NEWEST_COUNT: Final = 500  # beliefs that are compared with each other, the newest


@dataclass(frozen=True, slots=True)
class Belief:
    """One belief, with its place in the graph.

    Attributes:
        id: of the reflection.
        holder: who believes it.
        text: the belief.
        at: when it was concluded, seconds since 1970.
        evidence: ids of the entries that it is based on, as far as the log holds them.
        missing: how many named entries the log does not hold.
        supports: ids of beliefs that say the same.
        contradicts: ids of beliefs that cannot be true with it.
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
        """0 to 1: how far evidence and other beliefs bear the belief out."""
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
        """Beliefs, the most certain first, of equals the newest.

        Args:
            holder: of one agent only.
            at_least: the lowest confidence.
        """
        found = [
            belief
            for belief in self._beliefs.values()
            if belief.confidence >= at_least and (holder is None or belief.holder == holder)
        ]
        return sorted(found, key=lambda belief: (-belief.confidence, -belief.at, belief.id))

    def about(self, text: str, *, limit: int = 5) -> list[Belief]:
        """The beliefs that share most words with a text, at least one; of equals the most certain."""
        wanted = words(text)
        scored = [(jaccard(words(belief.text), wanted), belief) for belief in self.beliefs()]
        return [belief for score, belief in sorted(scored, key=lambda item: -item[0]) if score > 0][:limit]

    def evidence(self, belief_id: str) -> list[LogEntry]:
        """The entries that a belief is based on, as far as the log holds them."""
        belief = self.belief(belief_id)
        return [] if belief is None else [self._entries[ident] for ident in belief.evidence]

    def tensions(self) -> list[tuple[Belief, Belief]]:
        """The pairs of beliefs that contradict each other, the older first in each; the most certain pairs first."""
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
        memory, said = as_memory(entry.id, entry.text, entry.at), words(entry.text)
        against = {found.old.rpartition("/")[2] for found in claims.check(memory)}
        alike = (other for other, theirs in read if jaccard(said, theirs) >= SUPPORT_BOUND)
        for links, others in ((contradicts, sorted(against)), (supports, alike)):
            for other in others:
                if links is contradicts or other not in against:
                    links[entry.id].append(other)
                    links[other].append(entry.id)
        claims.put(memory)
        read.append((entry.id, said))
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
    """A statement as the palace's rules of contradictions read it: a belief of the agent's own, written at a time."""
    return PersonaMemory(
        domain="self",
        facet="beliefs",
        key=key,
        value=text,
        last_accessed=at,
        last_reinforced=at,
        created_at=at,
    )
