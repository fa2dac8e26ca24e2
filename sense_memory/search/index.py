"""`MemoryIndex`: everything that was said or kept, searchable by its words and by what surrounds it.

It takes items (text, time, session, speaker) and answers questions with hits that explain themselves. It
holds no texts, only their words, so it cannot print a memory; it lives in RAM, and `dump` gives it as bytes
for a place that encrypts them. Adding, replacing and removing one item costs a fraction of a millisecond.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search import context, dates
from sense_memory.search.column import Column
from sense_memory.search.dates import DAY_SECONDS, Span
from sense_memory.search.documents import SearchItem, Shelf
from sense_memory.search.lexical import LexicalIndex, packed, unpack
from sense_memory.search.postings import Postings
from sense_memory.search.query import MAX_QUERY_CHARS, parse, resolve, without_names
from sense_memory.search.ranking import MIN_SIMILAR, Ground, Levers, Question, SearchHit, highest_rows, rank
from sense_memory.search.tokens import fold
from sense_memory.search.vectors import PieceVectors
from sense_memory.search.vocabulary import Vocabulary


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from sense_memory.errors import EmbedderError
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.postings import Folded
    from sense_memory.search.ranking import Factors

FORMAT: Final = 3  # of a dump; another layout, or other words out of a text, has another number
NEAREST_COUNT: Final = 200  # items that meaning alone brings into a ranking by other rules
READ_AT_ONCE: Final = 4_096  # items of many
_MANY: Final = 100  # new items from which on sorting all neighbours costs less than linking each of them
SPARE_ROWS: Final = 1_000  # rows left behind by changes, before they are cleared away


class MemoryIndex:
    """An index over items.

    Args:
        levers: what searches take into account; `pieces` is decided once and for all.
        language: of words in Latin letters, for stemming, as Snowball names it.
        embedder: for meaning besides words; without one, words alone decide.

    Raises:
        KeyError: no such language.
    """

    def __init__(
        self, levers: Levers | None = None, language: str = "english", embedder: Embedder | None = None
    ) -> None:
        self.levers = levers or Levers()
        self._lexical = LexicalIndex(1, language)
        self._shelf = Shelf()
        self._owners, self._lengths = Column(np.int32), Column(np.float32)
        self._session_lengths = Column(np.float64)
        self._meaning = None if embedder is None else PieceVectors(embedder)

    def __len__(self) -> int:
        return len(self._shelf.rows)

    def __contains__(self, ident: str) -> bool:
        return ident in self._shelf.rows

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of all items, and of those that were there."""
        return self._lexical.vocabulary

    @property
    def trouble(self) -> EmbedderError | None:
        """Why the embedder failed when it was last asked; None if it did not."""
        return None if self._meaning is None else self._meaning.trouble

    @property
    def gaps_count(self) -> int:
        """How many items have no vectors, although there is an embedder."""
        return len(self._gaps())

    def without_meaning(self, last: int = 0) -> list[str]:
        """Those items, or so many of them at the end, as they came: put them again, or `fill` them in."""
        return [self._shelf.ids[row] for row in self._gaps()[-last:].tolist()]

    def _gaps(self) -> NDArray[np.int32]:
        rows = self._owners.view[[] if self._meaning is None else self._meaning.gaps()]
        return np.unique(rows[self._shelf.column("alive")[rows]])

    def put(self, item: SearchItem) -> None:
        """Add an item, or replace the one with its id."""
        self.put_many((item,))

    def put_many(self, items: Iterable[SearchItem], *, embeds: bool = True) -> None:
        """Add or replace items, of which the last with an id stays. Unless it `embeds`, vectors wait for `fill`."""
        waiting = iter(items)
        part = list(islice(waiting, READ_AT_ONCE))  # never all texts at once
        if not self._lexical.sorts(len(part)) and len(part) < READ_AT_ONCE:
            self._take(part, self._lexical.extend, embeds)
            return
        try:
            while part:
                self._take(part, self._lexical.take, embeds)
                embeds = embeds and self.trouble is None  # who is down is not asked for every part
                part = list(islice(waiting, READ_AT_ONCE))
        finally:
            self._lexical.fold()

    def take_many(self, items: Iterable[SearchItem]) -> None:
        """Add or replace items without vectors; nobody finds what is new of them before `fold`."""
        self._take(list(items), self._lexical.take, embeds=False)

    def folded(self) -> Folded:
        """What lets everything be found that was taken: nothing changes, so another thread can make it."""
        return self._lexical.fields[0].folded()

    def fold(self, folded: Folded) -> None:
        """Let everything be found that was taken; nothing may have been added since `folded` was made."""
        self._lexical.fields[0].use(folded)

    def _take(self, items: list[SearchItem], index: Callable[[list[tuple[str]]], None], embeds: bool) -> None:
        latest = {item.id: item for item in items}
        first, owned = len(self._lexical), list[int]()
        texts: list[tuple[str]] = []
        starts: list[int] = []
        is_new = self._shelf.rows.keys().isdisjoint(latest)
        for row, item in enumerate(latest.values(), len(self._shelf)):
            if not is_new and item.id in self._shelf.rows:
                self._empty(self._shelf.rows[item.id])
            parts = context.pieces(item.text) if self.levers.pieces else [item.text]
            starts.append(first + len(texts))
            texts += [(part,) for part in parts]
            owned += [row] * len(parts)
        if is_new and len(latest) > _MANY:
            self._shelf.extend(tuple(latest.values()), starts)
        else:
            for item, start in zip(latest.values(), starts, strict=True):
                self._shelf.put(item, start)
        index(texts)
        if self._meaning is not None and embeds:
            self._meaning.extend(context.embedding_texts(text for (text,) in texts))
        elif self._meaning is not None:
            self._meaning.add_gaps(len(texts))
        self._owners.extend(owned)
        self._measure(first)
        if len(self._shelf) > 2 * len(self) + SPARE_ROWS:
            self._tidy()

    def texts_of(self, item: SearchItem) -> list[str]:
        """What an embedder is given for an item: a text for each of its pieces."""
        return context.embedding_texts(context.pieces(item.text) if self.levers.pieces else [item.text])

    def fill(self, vectors: Mapping[str, NDArray[Any]]) -> int:
        """Give items their vectors, made elsewhere: by id, a row for each text of `texts_of`.

        Returns:
            How many took them; not those that are gone, or have another number of pieces by now.
        """
        taken: list[NDArray[Any]] = []
        places: list[int] = []
        for ident, rows in vectors.items():
            row = self._shelf.rows.get(ident)
            own = range(0) if row is None else range(*self._pieces_of(row))
            if rows.shape == (len(own), taken[0].shape[1] if taken else rows.shape[1]):
                taken.append(rows)
                places += own
        if self._meaning is None or not taken or not self._meaning.fill(places, np.concatenate(taken)):
            return 0
        return len(taken)

    def drop(self, ident: str) -> bool:
        """Take an item out.

        Returns: whether it was there.
        """
        if ident not in self._shelf.rows:
            return False
        self._empty(self._shelf.drop(ident))
        return True

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        now: float | None = None,
        levers: Levers | None = None,
        explain: bool = True,
        only: Callable[[str], bool] | None = None,
        factors: Factors | None = None,
        direction: NDArray[np.float32] | None = None,
    ) -> list[SearchHit]:
        """The items that answer a question best.

        Args:
            query: a question or some words; "quoted phrases" weigh in as a whole, "photo*" stands for
                every word that begins so.
            k: how many at most.
            now: from when "last May" counts, seconds since 1970; by default the time of the latest item.
            levers: instead of those of the index.
            explain: whether the hits say why.
            only: which ids may be found; asked once for each item there is.
            factors: what the scores of some ids are multiplied by, each 0 to 1; 0 leaves an item out.
            direction: the vector of `asks(query)`, if it was made elsewhere; by default the embedder is asked.

        Returns:
            Best first, of ties the newest, then by id; only items that the question has something to do with.
        """
        levers, query = levers or self.levers, query[:MAX_QUERY_CHARS]
        if k <= 0 or not len(self):
            return []
        question = self._question(query, now, levers, direction)
        if only is not None:
            allowed = np.fromiter(map(only, self._shelf.ids), np.bool_, len(self._shelf.ids))
            question = replace(question, allowed=allowed)
        if not (question.scored or question.spans or question.only_speaker or question.dense is not None):
            return []
        return rank(question, self._ground(), levers).hits(self._shelf.ids, k, explain, factors)

    def asks(self, query: str) -> str:
        """What an embedder is given for a question; empty if there is nothing to ask."""
        return without_names(query[:MAX_QUERY_CHARS], self._speakers(query[:MAX_QUERY_CHARS], self.levers)[1])

    def _speakers(self, query: str, levers: Levers) -> tuple[set[int], set[str]]:
        return context.speakers_meant(query, self._shelf.speakers.all) if levers.speaker else (set(), set())

    def nearest(self, direction: NDArray[np.float32], count: int = NEAREST_COUNT) -> dict[str, float]:
        """The items that are clearly nearer to a vector than is usual here.

        Returns:
            By id, the share of the way from the usual cosine (at least 0.2) to 1, above 0; at most `count`.
        """
        if (similar := self._similar(direction)) is None:
            return {}
        there = similar[self._shelf.column("alive")]
        usual = max(MIN_SIMILAR, float(there.mean() + there.std()))
        shares = (similar - usual) / max(1 - usual, 1e-6)
        return {
            self._shelf.ids[row]: min(1.0, float(shares[row])) for row in highest_rows(shares, count).tolist()
        }

    def _question(
        self, query: str, now: float | None, levers: Levers, direction: NDArray[np.float32] | None
    ) -> Question:
        meant, names = self._speakers(query, levers)
        ask = parse(query, names)
        wanted = resolve(ask, self._lexical.vocabulary, levers.spread)
        only_speaker = bool(names) and not ask.beginnings and ask.words.keys() <= names
        spans = self._spans(query, now) if levers.dates else []
        dense = None
        if levers.dense and self._meaning is not None:
            if direction is None:
                direction = self._meaning.direction(without_names(query, names))
            dense = None if direction is None else self._similar(direction)
        return Question(self._lexical.scored(wanted), frozenset(meant), only_speaker, spans, dense)

    def _similar(self, direction: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """How near every memory is to what is asked for; None where that cannot be said."""
        if self._meaning is None:
            return None
        similar = self._meaning.similar(direction, self._shelf.column("first_piece"))
        return None if similar is None else np.where(self._shelf.column("alive"), similar, np.float32(0))

    def _spans(self, query: str, now: float | None) -> list[Span]:
        folded = fold(query)
        covered = self._shelf.covered() if dates.mentions_date(folded) else None
        if covered is None:
            return []
        today = covered.last if now is None else int(now // DAY_SECONDS)
        return dates.spans(folded, today, covered)

    def _ground(self) -> Ground:
        lengths, sessions = self._lengths.view, self._session_lengths.view
        return Ground(self._lexical, self._shelf, self._owners.view, lengths, sessions)

    def _measure(self, first_piece: int) -> None:
        """Count the words of what was added from a piece on, by memory and by session."""
        words = self._lexical.fields[0].lengths.view[first_piece:]
        owners = self._owners.view[first_piece:]
        start = len(self._lengths)
        counts = np.bincount(owners - start, words, len(self._shelf) - start)
        self._lengths.extend(counts)
        self._session_lengths.grow(len(self._shelf.sessions.all))
        sessions = self._shelf.column("sessions")[start:]
        known = sessions >= 0
        self._session_lengths.add(sessions[known], counts[known])

    def _empty(self, row: int) -> None:
        """Take a memory's words out."""
        for piece in range(*self._pieces_of(row)):
            self._lexical.drop(piece)
        session = int(self._shelf.column("sessions")[row])
        if session >= 0:
            self._session_lengths[session] -= self._lengths[row]
        self._lengths[row] = 0

    def _pieces_of(self, row: int) -> tuple[int, int]:
        """The first piece of a memory, and the first that is not its any more."""
        starts = self._shelf.column("first_piece")
        return int(starts[row]), int(starts[row + 1]) if row + 1 < len(starts) else len(self._owners)

    def _tidy(self) -> None:
        """Number memories and pieces anew, without those that are gone."""
        alive = self._shelf.column("alive")
        rows = np.flatnonzero(alive)
        if len(rows) == len(alive):
            return
        pieces = np.flatnonzero(alive[self._owners.view])
        renumbered = np.cumsum(alive) - 1
        owners = renumbered[self._owners.view[pieces]]
        self._lexical.keep(pieces)
        if self._meaning is not None:
            self._meaning.select(pieces)
        self._owners = Column(np.int32, owners)
        self._lengths = Column(np.float32, self._lengths.view[rows])
        self._shelf.keep(rows, np.searchsorted(owners, np.arange(len(rows))))

    def dump(self) -> list[bytes | memoryview]:
        """Everything but the vectors, as pieces of bytes that are not copied: use them before anything is changed.

        They hold the words of memories: for encrypted places only. Vectors have a cache of their own.
        """
        self._tidy()
        names, columns = self._shelf.dump()
        own: dict[str, NDArray[Any]] = {
            "owners": self._owners.view,
            "lengths": self._lengths.view,
            "session_lengths": self._session_lengths.view,
        }
        header = {"format": FORMAT, "shelf": names, "pieces": self.levers.pieces}
        header["vocabulary"] = self._lexical.vocabulary.dump()
        return packed(header, [own, columns, self._lexical.fields[0].dump()])

    @classmethod
    def load(
        cls, dumped: bytes | memoryview, levers: Levers | None = None, embedder: Embedder | None = None
    ) -> MemoryIndex:
        """What `dump` gave.

        Args:
            dumped: bytes that this version of the package made; kept alive as long as the index.
            levers: as for a new index; `pieces` stays as it was dumped.
            embedder: for meaning besides words; every memory waits for its vectors, see `fill`.

        Raises:
            ValueError: another format, or no dump of an index.
        """
        header, groups = unpack(dumped)
        if header.get("format") != FORMAT:
            raise ValueError("these bytes are no index of this format; build it anew")
        own, columns, postings = groups
        self = cls(replace(levers or Levers(), pieces=header["pieces"]), embedder=embedder)
        if self._meaning is not None:
            self._meaning.add_gaps(len(own["owners"]))
        self._lexical.vocabulary = Vocabulary.load(header["vocabulary"])
        self._lexical.fields = (Postings.load(postings),)
        self._shelf = Shelf.load(header["shelf"], columns)
        self._owners, self._lengths = Column(np.int32, own["owners"]), Column(np.float32, own["lengths"])
        self._session_lengths = Column(np.float64, own["session_lengths"])
        return self
