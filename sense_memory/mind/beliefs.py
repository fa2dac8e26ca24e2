"""The belief graph: the conclusions of agents, their evidence, and how they support or contradict each other. Pure.

A belief is a reflection in the log (`agent.reflected`). Its evidence is the entries that it names. Its confidence, and the
beliefs that it supports, are what a model or a person said in the reflection: words that two beliefs share are no support,
and nothing is computed. Two beliefs contradict each other if a reflection says so, or if the rules of the palace do.

The graph is built from the entries each time, and compares at most 500 beliefs, which takes some 0.3 s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory import palace
from sense_memory.mind.fields import texts_in
from sense_memory.mind.log import LAST_SECOND
from sense_memory.mind.reflection import REFLECTED, based_on, valid_confidence
from sense_memory.mind.salience import jaccard, words
from sense_memory.models import PersonaMemory


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.log import LogEntry

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
        supports: the ids of beliefs that say the same, by this reflection or by theirs.
        contradicts: the ids of beliefs that cannot be true together with this one, by a reflection or by the palace's rules.
        confidence: 0 to 1, as the reflection says; None if it does not say.
    """

    id: str
    holder: str
    text: str = field(repr=False)
    at: float
    evidence: tuple[str, ...]
    missing: int
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    confidence: float | None = None


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
        """Beliefs, most certain first, equally certain ones newest first; those without a confidence come last.

        Args:
            holder: only beliefs of this agent.
            at_least: the lowest confidence; with any but 0, beliefs without a confidence are left out.
        """
        found = [
            belief
            for belief in self._beliefs.values()
            if (belief.confidence or 0.0) >= at_least and (holder is None or belief.holder == holder)
        ]
        return sorted(found, key=lambda belief: (-_certainty(belief), -belief.at, belief.id))

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
        return sorted(pairs, key=lambda pair: -min(_certainty(pair[0]), _certainty(pair[1])))


def _certainty(belief: Belief) -> float:
    return -1.0 if belief.confidence is None else belief.confidence


def _linked(reflections: Sequence[LogEntry], known: Iterable[str]) -> dict[str, Belief]:
    held = set(known)
    newest = sorted(reflections, key=lambda entry: (entry.at, entry.id))[-NEWEST_COUNT:]
    supports = _said_links(newest, "supports")
    contradicts = _said_links(newest, "contradicts")
    claims = palace.ClaimIndex()
    keys: dict[str, str] = {}  # an id with digits could seem to say which of several things a belief is about
    for place, entry in enumerate(newest):
        keys[_key_of(place)] = entry.id
        memory = as_memory(_key_of(place), _claim(entry), entry.at)
        for found in claims.check(memory):
            _link(contradicts, entry.id, keys[found.old.rpartition("/")[2]])
        claims.put(memory)
    return {
        entry.id: _belief(entry, held, tuple(supports[entry.id]), tuple(contradicts[entry.id]))
        for entry in newest
    }


def _said_links(reflections: Sequence[LogEntry], name: str) -> dict[str, dict[str, None]]:
    """The links that reflections name themselves, in both directions."""
    links: dict[str, dict[str, None]] = {entry.id: {} for entry in reflections}
    for entry in reflections:
        for other in texts_in(entry.payload, name):
            if other in links and other != entry.id:
                _link(links, entry.id, other)
    return links


def _link(links: dict[str, dict[str, None]], one: str, other: str) -> None:
    links[one][other] = links[other][one] = None


def _key_of(place: int) -> str:
    """A key for the comparison that names nothing: letters only."""
    return "belief-" + "".join(chr(ord("a") + int(digit)) for digit in str(place))


def _claim(entry: LogEntry) -> str:
    """A belief without the name of the speaker that it quotes; what a speaker says of itself keeps the name."""
    who, _, said = entry.text.partition(": ")
    is_quoted = bool(said) and len(who) <= _MAX_NAME_CHARS and entry.payload.get("is_by_rule") is True
    return said if is_quoted and not _of_self(said) else entry.text


_MAX_NAME_CHARS: Final = 60
_of_self: Final = re.compile(r"\b(?:I|my|we|our|me)\b|\bI'", re.IGNORECASE).search


def _belief(
    entry: LogEntry, held: set[str], supports: tuple[str, ...], contradicts: tuple[str, ...]
) -> Belief:
    named = dict.fromkeys(based_on(entry))
    evidence = tuple(ident for ident in named if ident in held)
    confidence = valid_confidence(entry.payload.get("confidence"))
    links = tuple(ident for ident in supports if ident not in contradicts), contradicts
    missing = len(named) - len(evidence)
    return Belief(entry.id, entry.actor, entry.text, entry.at, evidence, missing, *links, confidence)


def as_memory(key: str, text: str, at: float) -> PersonaMemory:
    """A statement as a palace memory, for the palace's rules of contradictions: a belief, written at a time.

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
