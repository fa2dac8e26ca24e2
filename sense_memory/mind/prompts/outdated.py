"""Which recalled memories of the palace a later one may have ended, in another facet. Pure.

Memories of one facet are compared when they are written (`palace.contradictions`). A prompt also compares what it recalls
across facets: "Lisa lives in Berlin" among facts, and "Lisa moved to Lisbon" among events, written later. Nothing is marked;
the older line names the later one, and both are shown. At most `MAX_PAIRS` pairs of the best hits are compared, some 1 ms each.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.detection import between
from sense_memory.search.query import stop_words
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.palace.catalog import Catalog
    from sense_memory.search.hits import Hit

MAX_PAIRS: Final = 8
_OLDER_COUNT: Final = 4  # hits that may have been ended, the best ones
_MAX_CHARS: Final = 240  # a longer text says more than a later one could end


def with_later(hits: Sequence[Hit], catalog: Catalog) -> list[Hit]:
    """Hits in which `suspected_by` also names a later hit of another facet, where the two contradict each other.

    Args:
        hits: the best first.
        catalog: of the palace; what its owner has decided about two memories is not suspected again.
    """
    palace = [hit for hit in hits if hit.kind == "palace" and len(hit.value) <= _MAX_CHARS]
    ended = dict[str, str]()
    for old, new in islice(_pairs(palace), MAX_PAIRS):
        if old.path not in ended and not _is_decided(catalog, old, new) and between(old.value, new.value):
            ended[old.path] = new.path
    return [
        hit.model_copy(update={"suspected_by": (*hit.suspected_by, ended[hit.path])})
        if hit.path in ended
        else hit
        for hit in hits
    ]


def _pairs(hits: Sequence[Hit]) -> Iterator[tuple[Hit, Hit]]:
    """Hits that nothing is known to have ended, each with the later ones that share a word with it, most words first."""
    terms = {hit.path: _terms(hit.value) for hit in hits}
    for old in [hit for hit in hits if not (hit.superseded_by or hit.suspected_by)][:_OLDER_COUNT]:
        shared = {hit.path: len(terms[old.path] & terms[hit.path]) for hit in hits}
        later = [
            hit
            for hit in hits
            if hit.written_at > old.written_at and _place(hit) != _place(old) and shared[hit.path]
        ]
        for new in sorted(later, key=lambda hit: -shared[hit.path]):
            yield old, new


def _is_decided(catalog: Catalog, old: Hit, new: Hit) -> bool:
    one, other = catalog.get(old.path), catalog.get(new.path)
    return (
        one is None
        or other is None
        or other.path in (*one.dismissed, *(one.contradicts or ()))
        or one.path in (*other.dismissed, *(other.contradicts or ()))
    )


def _place(hit: Hit) -> str:
    return hit.path.rpartition("/")[0]


def _terms(text: str) -> set[str]:
    found = set(words(text))
    return found - stop_words(found)
