"""`SearchIndex`: items, searchable by their words and their context.

The index takes items (text, time, speaker, key, themes) and answers questions with hits that give their reasons. An
item is one *document*, a row of `search.documents`, and one or more *pieces*, rows of `search.lexical` and
`search.vectors`. The index lives in RAM, and `dump` returns its bytes for storage that encrypts them.

Guaranteed: a search sees each item as it was last put, whole, or not at all. (After `put_many_unsorted`, words are found
once `use_sorted` was called.) The index holds no texts, only their words, so it cannot print a memory.

Why it is safe: a changed item gets new rows and its old rows are emptied, in one call that awaits nothing. Rows are
renumbered only when more than half of them, and `SPARE_ROWS` more, are empty, or for `dump`.

Cost: adding, replacing or removing one item takes a fraction of a millisecond on average; the one that renumbers costs
time in proportion to the index. A search reads the postings of its words and ranks what they name: some 1 ms among
10,000 memories, which take some 10 MB at 60 words each.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search import evidence
from sense_memory.search.calendar_days import DAY_SECONDS
from sense_memory.search.clues import QuestionPart, clues_of, parts_of
from sense_memory.search.column import Column
from sense_memory.search.date_evidence import DateEvidence, times_said
from sense_memory.search.date_words import mentions_date
from sense_memory.search.dates import read_dates
from sense_memory.search.documents import DocumentTable, SearchItem
from sense_memory.search.item_texts import rows_of, texts_of
from sense_memory.search.lexical import LexicalIndex, packed, unpack
from sense_memory.search.postings import Postings
from sense_memory.search.query import MAX_QUERY_CHARS, looks_up, names_in, parse, resolve, without_names
from sense_memory.search.quotations import quoting
from sense_memory.search.ranking import (
    MIN_SIMILAR,
    IndexContents,
    ResolvedQuery,
    SearchHit,
    SearchOptions,
    highest_rows,
    rank,
)
from sense_memory.search.tokens import fold
from sense_memory.search.vectors import PieceVectors
from sense_memory.search.vocabulary import Vocabulary


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.errors import EmbedderError
    from sense_memory.search.confidence import Clues
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.lexical import RowText, TermRows, TermScores
    from sense_memory.search.postings import Listing, SortedPostings
    from sense_memory.search.query import Ask, Wanted
    from sense_memory.search.ranking import Factors

FORMAT: Final = 6  # of a dump; changes with the layout, and with the words that are taken from a text
NEAREST_COUNT: Final = 200  # items that `nearest` returns for rankings by other rules
READ_AT_ONCE: Final = 4_096  # items to read at a time
_MANY: Final = 100  # for so many new items, sorting all neighbours costs less than linking each item
SPARE_ROWS: Final = 1_000  # empty rows that are kept before all rows are renumbered


class SearchIndex:
    """An index over items.

    Args:
        options: the default options of searches; `pieces` cannot change later.
        language: the language of words in Latin letters, for stemming, by Snowball's name.
        embedder: for searches by meaning; None for words only.

    Raises:
        KeyError: no such language.
    """

    def __init__(
        self,
        options: SearchOptions | None = None,
        language: str = "english",
        embedder: Embedder | None = None,
    ) -> None:
        self.options = options or SearchOptions()
        self._lexical = LexicalIndex(language)
        self._table = DocumentTable()
        self._owners, self._lengths = Column(np.int32), Column(np.float32)
        self._session_lengths = Column(np.float64)
        self._meaning = None if embedder is None else PieceVectors(embedder)

    def __len__(self) -> int:
        return len(self._table.rows)

    def __contains__(self, ident: str) -> bool:
        return ident in self._table.rows

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of all items, removed items included."""
        return self._lexical.vocabulary

    @property
    def trouble(self) -> EmbedderError | None:
        """Why the last call of the embedder failed; None if it succeeded."""
        return None if self._meaning is None else self._meaning.trouble

    @property
    def gaps_count(self) -> int:
        """The number of items without vectors, if there is an embedder."""
        return len(self._gaps())

    def without_meaning(self, last: int = 0) -> list[str]:
        """The items without vectors, or the `last` of them, in the order of adding; `put` or `fill` adds vectors."""
        return [self._table.ids[row] for row in self._gaps()[-last:].tolist()]

    def _gaps(self) -> NDArray[np.int32]:
        rows = self._owners.view[[] if self._meaning is None else self._meaning.gaps()]
        return np.unique(rows[self._table.column("alive")[rows]])

    def put(self, item: SearchItem) -> None:
        """Add an item, or replace the item with its id."""
        self.put_many((item,))

    def put_many(self, items: Iterable[SearchItem], *, embeds: bool = True) -> None:
        """Add or replace items; the last item with an id stays. Without `embeds`, vectors wait for `fill`."""
        waiting = iter(items)
        part = list(islice(waiting, READ_AT_ONCE))  # so that not all texts are in RAM at once
        if not self._lexical.sorts(len(part)) and len(part) < READ_AT_ONCE:
            self._add(part, self._lexical.extend, embeds)
            return
        try:
            while part:
                self._add(part, self._lexical.extend_unsorted, embeds)
                embeds = embeds and self.trouble is None  # a failing embedder is called once
                part = list(islice(waiting, READ_AT_ONCE))
        finally:
            self._lexical.sort_in()

    def put_many_unsorted(self, items: Iterable[SearchItem]) -> None:
        """As `put_many`, without vectors; searches find the new words only after `use_sorted`."""
        self._add(list(items), self._lexical.extend_unsorted, embeds=False)

    def sorted_postings(self) -> SortedPostings:
        """The argument of `use_sorted`. This call changes nothing, so another thread can make it."""
        return self._lexical.postings.sorted_postings()

    def use_sorted(self, found: SortedPostings) -> None:
        """Make unsorted items findable. Nothing may have been added since the call of `sorted_postings`."""
        self._lexical.postings.use(found)

    def _add(self, items: list[SearchItem], index: Callable[[list[RowText]], None], embeds: bool) -> None:
        latest = {item.id: item for item in items}
        first, owned = len(self._lexical), list[int]()
        texts: list[RowText] = []
        spoken: list[str] = []
        starts: list[int] = []
        is_new = self._table.rows.keys().isdisjoint(latest)
        for row, item in enumerate(latest.values(), len(self._table)):
            if not is_new and item.id in self._table.rows:
                self._empty(self._table.rows[item.id])
            parts = rows_of(item, is_cut=self.options.pieces)
            starts.append(first + len(texts))
            texts += parts
            owned += [row] * len(parts)
            if self._meaning is not None and embeds:
                spoken += self.texts_of(item)
        if is_new and len(latest) > _MANY:
            self._table.extend(tuple(latest.values()), starts)
        else:
            for item, start in zip(latest.values(), starts, strict=True):
                self._table.add(item, start)
        for row, item in enumerate(latest.values(), len(self._table) - len(latest)):
            self._table.say(row, times_said(item))
        index(texts)
        if self._meaning is not None and embeds:
            self._meaning.extend(spoken)
        elif self._meaning is not None:
            self._meaning.add_gaps(len(texts))
        self._owners.extend(owned)
        self._measure(first)
        if len(self._table) > 2 * len(self) + SPARE_ROWS:
            self._tidy()

    def texts_of(self, item: SearchItem) -> list[str]:
        """The texts to embed for an item, one for each of its pieces."""
        return texts_of(item, is_cut=self.options.pieces)

    def fill(self, vectors: Mapping[str, NDArray[Any]]) -> int:
        """Give items vectors that the caller made: by id, a row for each text of `texts_of`.

        Returns:
            The number of filled items; items that are gone, or now have another number of pieces, are skipped.
        """
        taken: list[NDArray[Any]] = []
        places: list[int] = []
        for ident, rows in vectors.items():
            row = self._table.rows.get(ident)
            own = range(0) if row is None else range(*self._pieces_of(row))
            if rows.shape == (len(own), taken[0].shape[1] if taken else rows.shape[1]):
                taken.append(rows)
                places += own
        if self._meaning is None or not taken or not self._meaning.fill(places, np.concatenate(taken)):
            return 0
        return len(taken)

    def vectors(self, ident: str) -> NDArray[np.float32] | None:
        """The vectors of an item, in the form for `fill`; None if it has none."""
        row = self._table.rows.get(ident)
        return None if row is None or self._meaning is None else self._meaning.at(*self._pieces_of(row))

    def piece_count(self, ident: str) -> int:
        """The number of vectors that an item has or will have; 0 if the index does not hold the item."""
        row = self._table.rows.get(ident)
        return 0 if row is None else len(range(*self._pieces_of(row)))

    def refreshed(self, items: Iterable[SearchItem]) -> list[SearchItem]:
        """Update the age and event of items whose stamp has not changed; returns the other items, for `put_many`."""
        stamps, changed = self._table.column("stamps"), list[SearchItem]()
        for item in items:
            row = self._table.rows.get(item.id)
            if row is not None and int(stamps[row]) == item.stamp:
                self._table.update(item)
            else:
                changed.append(item)
        return changed

    def drop(self, ident: str) -> bool:
        """Remove an item.

        Returns: whether the index held the item.
        """
        if ident not in self._table.rows:
            return False
        self._empty(self._table.drop(ident))
        return True

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        now: float | None = None,
        zone: float = 0.0,
        options: SearchOptions | None = None,
        explain: bool = True,
        kinds: Collection[str] | None = None,
        only: Callable[[str], bool] | NDArray[np.bool_] | None = None,
        factors: Factors | None = None,
        direction: NDArray[np.float32] | None = None,
        similar: NDArray[np.float32] | None = None,
        beyond_names: NDArray[np.float32] | None = None,
    ) -> list[SearchHit]:
        """The items that answer a question best.

        Args:
            query: a question or some words; where items have all that it quotes, only these are found, and "photo*"
                stands for every word that begins so.
            k: how many at most.
            now: the time that "last May" counts from, seconds since 1970; by default the time of the latest item.
            zone: the offset from UTC of the clocks that "this morning" means, in seconds east.
            options: replaces the options of the index.
            explain: whether hits get reasons and clues.
            kinds: of the items that may be found; None for all.
            only: whether an id may be found; called once for each item of these kinds. Or which rows of `documents`.
            factors: returns the factors of the scores of some ids, each 0 to 1; 0 leaves an item out.
            direction: the vector of `asks(query)`, if the caller made it; by default the embedder is called.
            similar: `similar(direction)`, if the caller has it.
            beyond_names: the vector of `asks_beyond_names(query)`, for the clues of hits.

        Returns the items that match the question in some way, best first; ties: newest first, then by id.
        """
        options, query = options or self.options, query[:MAX_QUERY_CHARS]
        if k <= 0 or not len(self):
            return []
        dated = self.dated(query, now, zone) if options.dates else None
        question = self._question(query, dated, options, direction, similar)
        if kinds is not None or only is not None:
            question = replace(question, allowed=self._allowed(kinds, only))
        if not (question.scored or question.dated or question.only_speaker or question.dense is not None):
            return []
        hits, has_quoted, more = list[SearchHit](), quoting(self, query), k + explain  # the last one's next
        if has_quoted is not None:
            allowed = has_quoted if question.allowed is None else question.allowed & has_quoted
            narrowed = replace(question, allowed=allowed)
            hits = rank(narrowed, self._contents(), options).hits(self._table.ids, more, explain, factors)
        if not hits:
            hits = rank(question, self._contents(), options).hits(self._table.ids, more, explain, factors)
        if not explain:
            return hits
        found = [(hit.id, hit.score, 0.0 if dated is None else hit.on_day) for hit in hits]
        said = frozenset[str]() if dated is None else dated.words
        parts = self._parts(query, question.scored, question.missing, said)
        clues = self._clues(query, found, parts, beyond_names)
        return [SearchHit(hit.id, hit.score, hit.why, one) for hit, one in zip(hits[:k], clues, strict=False)]

    def _allowed(
        self, kinds: Collection[str] | None, only: Callable[[str], bool] | NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        if kinds is None:
            allowed = self._table.column("alive").copy()
        else:
            allowed = np.zeros(len(self._table), np.bool_)
            for kind in kinds:
                allowed |= self._table.of_kind(kind)
        if isinstance(only, np.ndarray):
            allowed &= only
        elif only is not None:
            for row in np.flatnonzero(allowed).tolist():
                allowed[row] = only(self._table.ids[row])
        return allowed

    def asks(self, query: str) -> str:
        """The text to embed for a question; empty if there is nothing to embed."""
        return without_names(query := query[:MAX_QUERY_CHARS], self._speakers(query, self.options)[1])

    def asks_beyond_names(self, query: str) -> str:
        """The text to embed for what a question asks of those that it names; empty if it asks for nothing else."""
        query = query[:MAX_QUERY_CHARS]
        return without_names(query, names_in(query) | self._speakers(query, self.options)[1])

    def clues(
        self,
        query: str,
        wanted: Sequence[Wanted],
        found: Sequence[tuple[str, float, float]],
        direction: NDArray[np.float32] | None = None,
        said: Collection[str] = (),
    ) -> list[Clues]:
        """What is known about some hits, for `confidence`.

        Args:
            query: the question.
            wanted: its parts, as `query.resolve` gives them.
            found: the ids of the hits, their scores, and how well they fit the times of the question; the best first.
            direction: the vector of `asks_beyond_names`; None for words only.
            said: the words by which the question names times, which an answer need not have.
        """
        query = query[:MAX_QUERY_CHARS]
        missing = self._missing(parse(query), wanted)
        parts = self._parts(query, self._lexical.found(wanted), missing, said)
        return self._clues(query, found, parts, direction)

    def _parts(
        self,
        query: str,
        found: Iterable[TermRows | TermScores],
        missing: Iterable[str],
        said: Collection[str],
    ) -> list[QuestionPart]:
        """The parts of a question but the words by which it names times."""
        others = (item for item in found if item.wanted.label not in said)
        names = frozenset[str]() if looks_up(query) else names_in(query)
        return parts_of(others, (word for word in missing if word not in said), names, len(self))

    def _clues(
        self,
        query: str,
        found: Sequence[tuple[str, float, float]],
        parts: Sequence[QuestionPart],
        direction: NDArray[np.float32] | None,
    ) -> list[Clues]:
        spans = [self._pieces_of(self._table.rows[ident]) for ident, _, _ in found]
        clues = clues_of(spans, found, parts, is_lookup=looks_up(query))
        if direction is None or self._meaning is None:
            return clues
        places = self._meaning.places(direction, spans)
        return [one._replace(meaning=place) for one, place in zip(clues, places, strict=True)]

    def _speakers(self, query: str, options: SearchOptions) -> tuple[set[int], set[str]]:
        return evidence.speakers_meant(query, self._table.speakers.all) if options.speaker else (set(), set())

    def nearest(self, direction: NDArray[np.float32], count: int = NEAREST_COUNT) -> dict[str, float]:
        """The items that are clearly nearer to a vector than most are, at most `count`, by id, with their similarity.

        It is relative to the usual cosine (at least 0.2): above 0, up to 1.
        """
        near = self.near_rows(self.similar(direction), count)
        return {self._table.ids[row]: share for row, share in near.items()}

    def near_rows(self, similar: NDArray[np.float32] | None, count: int = NEAREST_COUNT) -> dict[int, float]:
        """As `nearest`, by row, from the result of `similar`."""
        if similar is None:
            return {}
        there = similar[self._table.column("alive")]
        usual = max(MIN_SIMILAR, float(there.mean() + there.std()))
        shares = (similar - usual) / max(1 - usual, 1e-6)
        return {row: min(1.0, float(shares[row])) for row in highest_rows(shares, count).tolist()}

    # ── For callers that keep the index up to date ──────────────────────────────────────────

    def ids_of(self, kind: str) -> list[str]:
        """The items of a kind."""
        return [self._table.ids[row] for row in np.flatnonzero(self._table.of_kind(kind)).tolist()]

    def events(self, kind: str) -> dict[str, int]:
        """The event of each item of a kind."""
        rows = np.flatnonzero(self._table.of_kind(kind))
        marks = self._table.column("events")[rows].tolist()
        return {self._table.ids[row]: mark for row, mark in zip(rows.tolist(), marks, strict=True)}

    def stamp(self, ident: str) -> int | None:
        """The stamp of an item; None if the index does not hold the item."""
        row = self._table.rows.get(ident)
        return None if row is None else int(self._table.column("stamps")[row])

    # ── For rankings by other rules ─────────────────────────────────────────────────────

    @property
    def documents(self) -> DocumentTable:
        """The columns of all items; read only."""
        return self._table

    def with_term(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """The items (rows of `documents`, some repeated) that have a term, and the fields of each occurrence."""
        return self._owned(self._lexical.postings.listing(term))

    def with_phrase(self, terms: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """As `with_term`, for consecutive terms."""
        return self._owned(self._lexical.postings.phrase(terms))

    def _owned(self, listing: Listing) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        owners: NDArray[np.int32] = self._owners.view[listing.rows]
        return owners, listing.fields

    def _question(
        self,
        query: str,
        dated: DateEvidence | None,
        options: SearchOptions,
        direction: NDArray[np.float32] | None,
        dense: NDArray[np.float32] | None,
    ) -> ResolvedQuery:
        meant, names = self._speakers(query, options)
        wanted, missing, ask = self._resolved(query, names, options)
        only_speaker = bool(names) and not ask.beginnings and ask.words.keys() <= names
        if dense is None and options.dense and self._meaning is not None:
            if direction is None:
                direction = self._meaning.direction(without_names(query, names))
            dense = None if direction is None else self.similar(direction)
        return ResolvedQuery(
            scored=self._lexical.scored(wanted),
            speakers=frozenset(meant),
            only_speaker=only_speaker,
            dated=dated,
            only_dated=dated is not None and dated.is_all(wanted),
            dense=dense,
            is_sentence=ask.is_sentence,
            missing=missing,
        )

    def _resolved(
        self, query: str, names: Collection[str], options: SearchOptions
    ) -> tuple[list[Wanted], list[str], Ask]:
        """The terms that a query asks for, its words and beginnings that no item has, and its parts."""
        ask = parse(query, names)
        wanted = resolve(ask, self.vocabulary, options.spread, self._lexical.postings.has)
        return wanted, self._missing(ask, wanted), ask

    def _missing(self, ask: Ask, wanted: Sequence[Wanted]) -> list[str]:
        known = {item.label for item in wanted} | {term for item in wanted for term in item.terms}
        asked = [*ask.words, *(f"{beginning}*" for beginning in ask.beginnings)]
        return [word for word in asked if known.isdisjoint((word, self.vocabulary.find(word)))]

    def similar(self, direction: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The similarity in meaning of every item to the question; None without vectors."""
        if self._meaning is None:
            return None
        similar = self._meaning.similar(direction, self._table.column("first_piece"))
        return None if similar is None else np.where(self._table.column("alive"), similar, np.float32(0))

    def dated(self, query: str, now: float | None = None, zone: float = 0.0) -> DateEvidence | None:
        """The times that a question names, against those of the items; None without any. Arguments as of `search`."""
        folded = fold(query)
        covered = self._table.covered() if mentions_date(folded) else None
        if covered is None:
            return None
        if now is None:
            now = float(np.nanmax(self._table.column("times"), initial=covered.first * DAY_SECONDS))
        reading = read_dates(folded, now + zone, covered)
        return DateEvidence(self._table, reading, zone) if reading.periods else None

    def _contents(self) -> IndexContents:
        lengths, sessions = self._lengths.view, self._session_lengths.view
        return IndexContents(self._lexical, self._table, self._owners.view, lengths, sessions)

    def _measure(self, first_piece: int) -> None:
        """Count the words of all pieces from this one on, by item and by session."""
        words = self._lexical.postings.lengths.view[first_piece:]
        owners = self._owners.view[first_piece:]
        start = len(self._lengths)
        counts = np.bincount(owners - start, words, len(self._table) - start)
        self._lengths.extend(counts)
        self._session_lengths.grow(len(self._table.sessions.all))
        sessions = self._table.column("sessions")[start:]
        known = sessions >= 0
        self._session_lengths.add(sessions[known], counts[known])

    def _empty(self, row: int) -> None:
        """Remove an item's words."""
        for piece in range(*self._pieces_of(row)):
            self._lexical.drop(piece)
        session = int(self._table.column("sessions")[row])
        if session >= 0:
            self._session_lengths[session] -= self._lengths[row]
        self._lengths[row] = 0

    def _pieces_of(self, row: int) -> tuple[int, int]:
        """The first piece of an item, and the first piece after it."""
        starts = self._table.column("first_piece")
        return int(starts[row]), int(starts[row + 1]) if row + 1 < len(starts) else len(self._owners)

    def _tidy(self) -> None:
        """Renumber items and pieces, without the removed ones."""
        alive = self._table.column("alive")
        rows = np.flatnonzero(alive)
        if len(rows) == len(alive):
            return
        pieces = np.flatnonzero(alive[self._owners.view])
        renumbered = np.cumsum(alive) - 1
        owners = renumbered[self._owners.view[pieces]]
        self._lexical.select(pieces)
        if self._meaning is not None:
            self._meaning.select(pieces)
        self._owners = Column(np.int32, owners)
        self._lengths = Column(np.float32, self._lengths.view[rows])
        self._table.select(rows, np.searchsorted(owners, np.arange(len(rows))))

    def dump(self) -> list[bytes | memoryview]:
        """The index without its vectors, as pieces of bytes that are not copied: use them before the index changes.

        The bytes contain the words of memories: store them only encrypted. Vectors have another cache.
        """
        self._tidy()
        names, columns = self._table.dump()
        own: dict[str, NDArray[Any]] = {
            "owners": self._owners.view,
            "lengths": self._lengths.view,
            "session_lengths": self._session_lengths.view,
        }
        header = {"format": FORMAT, "documents": names, "pieces": self.options.pieces}
        header["vocabulary"] = self._lexical.vocabulary.dump()
        return packed(header, [own, columns, self._lexical.postings.dump()])

    @classmethod
    def load(
        cls,
        dumped: bytes | memoryview,
        options: SearchOptions | None = None,
        embedder: Embedder | None = None,
    ) -> SearchIndex:
        """An index from the bytes of `dump`.

        Args:
            dumped: the bytes of `dump` of this version of the package; referenced as long as the index.
            options: as for a new index, but `pieces` is that of the dump.
            embedder: for searches by meaning; every item waits for its vectors, see `fill`.

        Raises:
            ValueError: the bytes have another format, or are not a dump of an index.
        """
        header, groups = unpack(dumped)
        if header.get("format") != FORMAT:
            raise ValueError("build the index anew: these bytes are not an index of this format")
        own, columns, postings = groups
        self = cls(replace(options or SearchOptions(), pieces=header["pieces"]), embedder=embedder)
        if self._meaning is not None:
            self._meaning.add_gaps(len(own["owners"]))
        self._lexical.vocabulary = Vocabulary.load(header["vocabulary"])
        self._lexical.postings = Postings.load(postings)
        self._table = DocumentTable.load(header["documents"], columns)
        self._owners, self._lengths = Column(np.int32, own["owners"]), Column(np.float32, own["lengths"])
        self._session_lengths = Column(np.float64, own["session_lengths"])
        return self
