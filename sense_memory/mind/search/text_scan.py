"""Search by words without an index: every text is read for the words of the query.

A search reads the texts while the index is not ready, so that nobody waits for the index. `best_texts` chooses the texts
for a small index of their own, which ranks them. Guaranteed: a text that has a word of the query is chosen, unless
`MAX_CHOSEN_COUNT` others have more or rarer words of the query. Words that only resemble a word of the query may be
missed. Cost: some 0.4 s for 100,000 messages, in parts of 10 ms.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from sense_memory.search.query import parse
from sense_memory.search.tokens import fold, stemmer


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_CHOSEN_COUNT: Final = 500  # texts that are then indexed, in some 20 ms
_READ_COUNT: Final = 2_000  # texts to read before other tasks get a turn, some 10 ms
_T = TypeVar("_T")


async def best_texts(query: str, things: Sequence[_T], text_of: Callable[[_T], str | None]) -> list[_T]:
    """At most `MAX_CHOSEN_COUNT` things whose texts have most words of a query, and rare ones, in their order.

    Of texts with the same words, the later ones are chosen; if few texts have a word, the last texts are chosen too.

    Args:
        query: the query.
        things: what to choose from.
        text_of: the text of a thing; None if the thing must not be chosen.
    """
    wanted = list(_beginnings(query))
    has = np.zeros((len(wanted), len(things)), np.bool_)
    is_meant = np.zeros(len(things), np.bool_)
    for first in range(0, len(things), _READ_COUNT):
        await asyncio.sleep(0)
        texts = [text_of(thing) for thing in things[first : first + _READ_COUNT]]
        folded = ["" if text is None else fold(text) for text in texts]
        is_meant[first : first + len(texts)] = [text is not None for text in texts]
        for number, start in enumerate(wanted):
            has[number, first : first + len(texts)] = [start in text for text in folded]
    weights = np.log1p(len(things) / np.maximum(has.sum(1), 1))
    places = np.flatnonzero(is_meant)
    order = np.lexsort((places, (weights @ has)[places]))
    return [things[place] for place in sorted(places[order[-MAX_CHOSEN_COUNT:]].tolist())]


def _beginnings(query: str) -> Iterator[str]:
    """The beginnings that all regular forms of the words of a query share: "mov" for "moved", "cit" for "cities"."""
    asked, stem = parse(query), stemmer("english")
    for start in dict.fromkeys((*map(stem, asked.words), *asked.beginnings)):
        yield start[:-1] if start[-1:] in {"e", "i", "y"} and len(start) > 2 else start
