"""What age makes of the scores of a search over everything, and the reasons that its hits give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.limits import ACTIVE_ABOVE, DAY_SECONDS, DEFAULT_HALFLIFE_DAYS, FADING_FROM
from sense_memory.palace.lifecycle import current_relevance
from sense_memory.search.hits import Evidence, Explanation, Kind
from sense_memory.search.marking import Fields
from sense_memory.search.query import MAX_QUERY_CHARS, parse
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.search.ranking import SearchHit
    from sense_memory.search.vocabulary import Vocabulary

_WORDS: Final = frozenset({"word", "prefix", "phrase"})


class Weigher:
    """Weighs the memories of one search, by their names in the index.

    Args:
        persona: the persona memory of a name; None for other kinds, and for one that is gone.
        written_at: when a journal entry was written, seconds since 1970.
        vocabulary: of the index.
        query: what is asked for.
        now: seconds since 1970.
        floor: of the factor.
    """

    def __init__(
        self,
        persona: Callable[[str], PersonaMemory | None],
        written_at: Callable[[str], float],
        vocabulary: Vocabulary,
        *,
        query: str,
        now: float,
        floor: float,
    ) -> None:
        self._persona, self._written_at, self._vocabulary = persona, written_at, vocabulary
        self._query, self._now, self._floor = query[:MAX_QUERY_CHARS], now, floor
        self._asked = ""

    def factors(self, names: Sequence[str]) -> list[float]:
        """What scores are multiplied by; 0 for what is forgotten, or fades and is not directly meant."""
        return [self._weighed(name)[1] for name in names]

    def explain(self, hit: SearchHit, texts: Mapping[str, str]) -> Explanation:
        """The reasons of a hit, with the fields (of its texts, by name) that its words stand in."""
        fields = Fields(texts, self._vocabulary)
        evidence = [
            Evidence(
                kind=reason.kind,
                detail=reason.detail,
                fields=fields.having(reason.detail) if reason.kind in _WORDS else (),
                contribution=reason.share,
            )
            for reason in hit.why
        ]
        return Explanation.of(evidence, *self._weighed(hit.id))

    def _weighed(self, name: str) -> tuple[float, float]:
        """What age has left of a memory, and its factor."""
        if name.startswith(f"{Kind.FLAT}/"):
            return 1.0, 1.0
        if name.startswith(f"{Kind.JOURNAL}/"):
            age = max(0.0, self._now - self._written_at(name)) / DAY_SECONDS
            left: float = 0.5 ** (age / DEFAULT_HALFLIFE_DAYS)
            return left, self._factor(left)
        memory = self._persona(name)
        left = 0.0 if memory is None else current_relevance(memory, self._now)
        is_open = left > ACTIVE_ABOVE or (
            left >= FADING_FROM and memory is not None and self._is_meant(memory)
        )
        return left, self._factor(left) if is_open else 0.0

    def _factor(self, relevance: float) -> float:
        return self._floor + (1 - self._floor) * min(1.0, relevance)

    def _is_meant(self, memory: PersonaMemory) -> bool:
        """Whether the whole key or a theme stands in the query, or the memory has a phrase that it quotes."""
        stems = self._vocabulary.stems
        self._asked = self._asked or _line(stems(self._query))
        names = [_line(stems(text)) for text in (memory.key, *memory.themes)]
        if any(name.strip() and name in self._asked for name in names):
            return True
        phrases = parse(self._query).phrases
        return bool(phrases) and any(_line(phrase) in _line(words(memory.value)) for phrase in phrases)


def _line(parts: Iterable[str]) -> str:
    return f" {' '.join(parts)} "
