"""Retrievers without this project's search, for the table of `scripts.bench.recall`: what a plainer way would find.

* `SharedWords`: how many words of the question a turn contains, as the specification scores.
* `FullText`: SQLite's FTS5 with its porter stemmer and bm25; the question without its stop words.
* `Cosines`: an embedder alone; each turn as one text, however long, as its model cuts it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

import numpy as np


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory import Embedder

_WORD: Final = re.compile(r"\w+")
_STOP_WORDS_TEXT: Final = """
a about after all also am an and any are as at be because been before being both but by can could did do does doing during for
from had has have having he her hers him his how i if in into is it its just me more most my no nor not of off on once only or
other our ours out over own s same she should so some such t than that the their them then there these they this those through to
too under until up very was we were what when where which while who whom why will with would you your yours
"""
_STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())

Row = tuple[str, str, str, str]  # id, text, timestamp, session


class SharedWords:
    """The specification's scoring alone: how many words of the query a turn contains."""

    def __init__(self) -> None:
        self._turns: list[tuple[str, set[str]]] = []

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation."""
        self._turns = [(ident, _words(text)) for ident, text, _, _ in items]

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the turns that share most words with the query."""
        wanted = _words(query)
        scores = Counter({ident: len(wanted & found) for ident, found in self._turns})
        return [ident for ident, score in scores.most_common(k) if score]


class FullText:
    """SQLite's FTS5: any of the words of the query, ranked by bm25."""

    def __init__(self) -> None:
        self._items: Sequence[Row] = ()
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize='porter unicode61')")

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation."""
        self._items = items
        rows = ((number, text) for number, (_, text, _, _) in enumerate(items))
        self._database.executemany("INSERT INTO turns(rowid, text) VALUES (?, ?)", rows)

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the best turns, best first."""
        found = sorted(_words(query))
        wanted = [word for word in found if word not in _STOP_WORDS] or found
        asked = " OR ".join(f'"{word}"' for word in wanted)
        if not asked:
            return []
        ranked = "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT ?"
        with closing(self._database.execute(ranked, (asked, k))) as rows:
            return [self._items[number][0] for (number,) in rows]


class Cosines:
    """An embedder alone: the turns that are nearest to the query.

    Args:
        embedder: turns texts into vectors of length 1.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._ids: list[str] = []
        self._vectors = np.zeros((0, embedder.dimension), np.float32)

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation."""
        self._ids = [ident for ident, _, _, _ in items]
        self._vectors = np.asarray(self._embedder.embed([text for _, text, _, _ in items]))

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the nearest turns, nearest first."""
        embed = getattr(self._embedder, "embed_questions", self._embedder.embed)
        near = self._vectors @ np.asarray(embed([query]))[0]
        return [self._ids[row] for row in np.argsort(-near, kind="stable")[:k].tolist()]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
