"""Salience: the visible entries that matter to an agent now (agent-ledger memory, layer 2). Pure.

    salience(e) = 0.30 * relevance(e, scene) + 0.40 * recency(e, turn) + 0.30 * importance(e.kind)

Relevance is the Jaccard similarity between the words of the entry and of the current scene. With a `ScoredMemoryIndex`, it is
the score of the index above what is usual among the visible entries, so that one that stands out does so here too. With
an index that only ranks, it is 1 for the first entry, 1/2 for the second, 1/3 for the third, and so on. Recency is exp(-0.1 * turns passed), which halves in about seven turns. An entry that
claims a later turn than the current one counts as one without a turn, so give the current turn where others write into
the log, as in a scene: otherwise an entry of the turn 1,000,000 would be the only recent one. Importance
depends on the kind. The entries with the highest salience are returned in the order of time, so that a prompt reads
naturally. Without an index, the result depends only on the arguments, to the last bit.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, field
from functools import cache
from heapq import nlargest
from math import exp
from statistics import median
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.episodic import is_visible
from sense_memory.mind.index_protocol import ScoredMemoryIndex, by_rank


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.mind.index_protocol import MemoryIndex
    from sense_memory.mind.log import LogEntry

IMPORTANCE: Final[Mapping[str, float]] = {
    "verdict.final": 1.00,
    "user.injected": 0.95,
    "judge.verdict": 0.90,
    "agent.reflected": 0.85,
    "clue.found": 0.80,
    "world.observed": 0.70,
    "agent.spoke": 0.50,
    "agent.thought": 0.40,
    "run.started": 0.30,
}
USUAL_IMPORTANCE: Final = 0.50  # of kinds that are not in the table; the importance of `agent.spoke`
DECAY_PER_TURN: Final = 0.1
_MAX_HITS: Final = 1_000_000  # the most hits to ask an index for, when invisible entries fill the answer
_CACHED_COUNT: Final = 32_768  # texts whose words are cached
_words = re.compile(r"\w+").findall


@dataclass(frozen=True, slots=True)
class SalienceWeights:
    """The weights of the three terms.

    Attributes:
        relevance: the weight of the similarity to the scene.
        recency: the weight of the turns passed.
        importance: the weight of the kind.
    """

    relevance: float = 0.30
    recency: float = 0.40
    importance: float = 0.30


@dataclass(frozen=True, slots=True)
class SalientEntry:
    """An entry and why it was chosen.

    Attributes:
        entry: the entry.
        salience: the weighted sum.
        relevance, recency, importance: its terms, 0 to 1 each.
    """

    entry: LogEntry
    salience: float
    relevance: float
    recency: float
    importance: float


@checked
@dataclass(frozen=True, slots=True)
class SalienceMemory:
    """The most salient visible entries of an agent.

    Attributes:
        agent_name: the agent, as entries name it in `actor`.
        top_k: the largest number of entries to return.
        weights: the weights of the three terms.
        decay: the decay of recency for each turn.
        importance: the importance of each kind, 0 to 1; other kinds have `USUAL_IMPORTANCE`.
        index: ranks entries by meaning; None for Jaccard similarity.

    Raises:
        InvalidInput: `top_k` is less than 1.
    """

    agent_name: str
    top_k: int = 8
    weights: SalienceWeights = SalienceWeights()
    decay: float = DECAY_PER_TURN
    importance: Mapping[str, float] = field(default_factory=lambda: IMPORTANCE)
    index: MemoryIndex | None = None

    def __post_init__(self) -> None:
        if type(self.top_k) is not int or self.top_k < 1:
            raise InvalidInput("top_k must be a whole number of at least 1")

    def visible(
        self, entries: Iterable[LogEntry], scene: str = "", turn: int | None = None
    ) -> list[LogEntry]:
        """The most salient visible entries, in the given order.

        Args:
            entries: the log, oldest first.
            scene: the current scene, in words.
            turn: the current turn; by default the newest turn of the entries.
        """
        return [found.entry for found in self.scored(entries, scene, turn)]

    def scored(
        self, entries: Iterable[LogEntry], scene: str = "", turn: int | None = None
    ) -> list[SalientEntry]:
        """As `visible`, with the terms of each entry's salience."""
        seen = [entry for entry in entries if is_visible(entry, self.agent_name)]
        turns = _turns(seen, turn)
        now = max(turns, default=0) if turn is None else turn
        relevance = self._relevances(seen, scene)
        fading = {turn: exp(-self.decay * max(0, now - turn)) for turn in set(turns)}
        recency = [fading[turn] for turn in turns]
        importance = [self.importance.get(entry.kind, USUAL_IMPORTANCE) for entry in seen]
        by_relevance, by_recency, by_importance = astuple(self.weights)
        sums = [
            by_relevance * relevant + by_recency * recent + by_importance * important
            for relevant, recent, important in zip(relevance, recency, importance, strict=True)
        ]
        # Of equal sums, the newer entry wins. The newest come first, because they usually have the highest sums, so
        # that `nlargest` keeps few of the others.
        places = range(len(sums) - 1, -1, -1)
        best = sorted(place for _, place in nlargest(self.top_k, zip(reversed(sums), places, strict=True)))
        return [
            SalientEntry(seen[place], sums[place], relevance[place], recency[place], importance[place])
            for place in best
        ]

    def _relevances(self, seen: Sequence[LogEntry], scene: str) -> list[float]:
        if self.index is None or not scene:
            if _kept_words.cache_info().currsize > _CACHED_COUNT:
                _kept_words.cache_clear()  # cheaper than an LRU cache, which costs as much as the rest
            wanted = words(scene)
            return [jaccard(_kept_words(entry.text), wanted) for entry in seen]
        scores = _scores(self.index, seen, scene)
        usual = median([scores.get(entry.id, 0.0) for entry in seen]) if seen else 0.0
        usual = usual if isinstance(self.index, ScoredMemoryIndex) and usual < 1 else 0.0
        return [max(0.0, scores.get(entry.id, 0.0) - usual) / (1 - usual) for entry in seen]


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case."""
    return frozenset(_words(text.lower()))


_kept_words = cache(words)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard similarity of two sets of words, 0 to 1: shared words divided by all words; 0 if both are empty.

    >>> jaccard(frozenset({"a", "b"}), frozenset({"b", "c"}))
    0.3333333333333333
    """
    shared = 0 if one.isdisjoint(other) else len(one & other)
    return shared / (len(one) + len(other) - shared) if shared else 0.0


def _scores(index: MemoryIndex, seen: Sequence[LogEntry], scene: str) -> dict[str, float]:
    """The scores of visible entries by id.

    The visible entries are indexed first. Of a hit only the id and the score are used, and only if it is the id of a visible
    entry. So entries of other agents, removed entries and forged entries in an index never reach a view, and never push a
    visible entry out: while such hits fill the answer, more hits are asked for.
    """
    index.index(tuple(seen))
    visible, count = {entry.id: entry for entry in seen}, len(seen)
    while True:
        if isinstance(index, ScoredMemoryIndex):
            hits = index.scored(scene, count)
            found = {entry.id: score for entry, score in reversed(hits) if entry.id in visible}
        else:
            entries = index.search(scene, count)
            known = {entry.id: entry for entry in entries if entry.id in visible}
            hits, found = by_rank(entries), {entry.id: score for entry, score in by_rank(known.values())}
        if len(found) == len(visible) or len(hits) < count or count > _MAX_HITS:
            return found
        count *= 4


def _turns(entries: Sequence[LogEntry], current: int | None) -> list[int]:
    """The turn of each entry; an entry without a turn, or of a turn to come, has the turn of the entry before it."""
    found: list[int] = []
    for entry in entries:
        is_past = entry.turn is not None and (current is None or entry.turn <= current)
        found.append(entry.turn if is_past and entry.turn is not None else found[-1] if found else 0)
    return found
