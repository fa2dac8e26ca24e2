"""Search in the palace: the specification's weights (key 3, themes 2, value 1) on the index of `search`.

The score of a memory is, added up over the words, phrases and beginnings of the query,

    weight of the field x how well the memory's word fits x how rare the word is

times what is left of its relevance. A field has a word or has it not: repetition adds nothing. The same stem
fits 1; the continuation of a beginning 0.8; a compound, or a word that only resembles one that nobody wrote,
0.5. Rarity is a share with mean 1 over what the query asks for, so that of a single word the score is exactly
the specification's: 3, 2 and 1, added up, times relevance. Nothing here reads a clock or keeps a text.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sense_memory.limits import ACTIVE_ABOVE, FADING_FROM
from sense_memory.models import PersonaMemory
from sense_memory.palace.catalog import relevances_at, row
from sense_memory.search.column import Column
from sense_memory.search.lexical import LexicalIndex, packed, unpack
from sense_memory.search.postings import Postings
from sense_memory.search.query import MAX_QUERY_CHARS, parse, resolve
from sense_memory.search.ranking import highest_rows
from sense_memory.search.vocabulary import Vocabulary


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sense_memory.search.query import Wanted


# ── What a search of the palace gives ───────────────────────────────────────────────────
# What a search of the palace gives: memories that say why they were found.


class Match(BaseModel):
    """One word, phrase or beginning that was found in one field; or the meaning of all of it.

    Attributes:
        field: "key", "themes" or "value"; "meaning" for what an embedder finds close.
        term: as the query has it, in lower case and without accents; "photo*" for a beginning; "meaning" there.
        contribution: what it adds to the score; all contributions of a hit add up to it.
    """

    model_config = ConfigDict(frozen=True)

    field: str
    term: str = Field(repr=False)
    contribution: Annotated[float, Field(ge=0)]

    def __str__(self) -> str:
        return "close in meaning" if self.field == "meaning" else f"{self.term} in {self.field}"


class Why(BaseModel):
    """Why a memory was found.

    Attributes:
        matches: the largest contribution first.
        relevance: how relevant the memory was at the time of the search.
        text: the same in a sentence.
    """

    model_config = ConfigDict(frozen=True)

    matches: tuple[Match, ...]
    relevance: float
    text: str = Field(repr=False)


class PersonaHit(PersonaMemory):
    """A persona memory that was found by a search.

    Attributes:
        score: higher is better; comparable within one search only.
        why: what the score is made of.
    """

    score: float
    why: Why

    @classmethod
    def of(cls, memory: PersonaMemory, score: float, why: Why) -> PersonaHit:
        """A memory with its score and reasons; nothing is validated again."""
        fields = {name: getattr(memory, name) for name in type(memory).model_fields}
        fields["current_relevance"] = why.relevance
        return cls.model_construct(**fields, score=score, why=why)


FIELDS: Final = ("key", "themes", "value")
WEIGHTS: Final = (3.0, 2.0, 1.0)  # sense-memory v2, "Semantic Search"
MEANING: Final = "meaning"  # the field of what no word says
MEANING_WEIGHT: Final = 2.0  # of a memory that means just what is asked: as much as a theme
FORMAT: Final = 3  # of a dump; another layout, or other words out of a text, has another number
SPARE_ROWS: Final = 1_000  # rows left behind by changes, before they are cleared away
MAX_WHOLE_WORDS: Final = 8  # a key or theme of more words is found word by word only
_PLACES: Final = (*FIELDS, MEANING)
_DIGITS: Final = 6  # scores that agree to so many decimals are a tie
_THEME_GAP: Final = " \n"


@dataclass(frozen=True, slots=True)
class Found:
    """A memory that was found.

    Attributes:
        path: `domain/facet/key`.
        score: higher is better; comparable within one search only.
        why: what the score is made of.
    """

    path: str
    score: float
    why: Why


class _Part(NamedTuple):
    field: int
    label: str
    values: NDArray[np.float32]  # of the rows that matched anything


class PalaceIndex:
    """An index over persona memories, which follows them as they change.

    Args:
        language: of words in Latin letters, for stemming, as Snowball names it.

    Raises:
        KeyError: no such language.
    """

    def __init__(self, language: str = "english") -> None:
        self._lexical = LexicalIndex(len(FIELDS), language)
        self._paths: list[str] = []
        self._rows: dict[str, int] = {}
        self._prints: list[bytes] = []  # of the texts of each row, to see whether they changed
        self._ages = tuple(Column(np.float64) for _ in range(3))  # palace.columns.row
        self._wholes: defaultdict[str, list[int]] = defaultdict(list)  # rows by whole key or theme
        self._whole_of: list[list[str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, path: str) -> bool:
        return path in self._rows

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the one at its path; one whose texts are the same only ages anew."""
        self.put_many((memory,))

    def put_many(self, memories: Iterable[PersonaMemory]) -> int:
        """Add or replace memories, of which the last at a path stays. Many at once cost less each.

        Returns:
            How many were read anew because of their texts.
        """
        count = self._put(memories, self._lexical.extend)
        if len(self._paths) > 2 * len(self) + SPARE_ROWS:
            self._tidy()
        return count

    def take_many(self, memories: Iterable[PersonaMemory]) -> int:
        """As `put_many`, but nobody finds what is new of them before `fold`: that costs less where many are to come."""
        return self._put(memories, self._lexical.take)

    def fold(self) -> None:
        """Let everything that was taken be found."""
        self._lexical.fold()

    def _put(
        self, memories: Iterable[PersonaMemory], index: Callable[[list[tuple[str, str, str]]], None]
    ) -> int:
        fresh: list[tuple[str, str, str]] = []
        aged: dict[int, tuple[float, float, float]] = {}
        for path, memory in {memory.path: memory for memory in memories}.items():
            texts = (memory.key, _THEME_GAP.join(memory.themes), memory.value)
            mark = _print_of(texts)
            known = self._rows.get(path)
            if known is not None and self._prints[known] == mark:
                aged[known] = row(memory)
                continue
            self.drop(path)
            self._rows[path] = len(self._paths)
            self._paths.append(path)
            self._prints.append(mark)
            self._index_wholes(memory)
            for column, value in zip(self._ages, row(memory), strict=True):
                column.append(value)
            fresh.append(texts)
        if aged:
            for column, values in zip(self._ages, zip(*aged.values(), strict=True), strict=True):
                column[list(aged)] = values
        index(fresh)
        return len(fresh)

    def drop(self, path: str) -> None:
        """Take a memory out; one that is not there is no error."""
        known = self._rows.pop(path, None)
        if known is not None:
            self._lexical.drop(known)
            for whole in self._whole_of[known]:
                self._wholes[whole].remove(known)
                if not self._wholes[whole]:
                    del self._wholes[whole]
            self._whole_of[known] = []

    def follow(self, memories: Iterable[PersonaMemory]) -> int:
        """Become the index of exactly these memories; only what changed costs more than a look.

        Returns:
            As `put_many`.
        """
        now_there = list(memories)
        for path in self._rows.keys() - {memory.path for memory in now_there}:
            self.drop(path)
        return self.put_many(now_there)

    def search(
        self,
        query: str,
        *,
        now: float,
        limit: int = 10,
        relevance_floor: float = 0.0,
        relevances: Callable[[Sequence[str]], ArrayLike] | None = None,
        near: Mapping[str, float] | None = None,
    ) -> list[Found]:
        """The memories that a query means, the best first.

        Forgotten and dissolved memories are left out. A fading one is found only if it is directly meant: its
        whole key or one of its themes stands in the query, or it has a phrase that the query quotes.

        Args:
            query: some words; `"in quotes"` they weigh in as a phrase too, `photo*` is every word that begins so.
            now: the time, seconds since 1970.
            limit: how many at most.
            relevance_floor: 0 to 1; the score is multiplied by floor + (1 - floor) x relevance. 0 is the
                specification's; above 0, age moves memories less.
            relevances: current relevances of the given paths, instead of those that follow from the memories.
            near: paths that an embedder finds close in meaning, and how close, 0 to 1; found without a word too.

        Returns:
            Best first; ties by relevance, then by path.
        """
        ask = parse(query)
        wanted = resolve(ask, self._lexical.vocabulary)
        meant = {self._rows[path]: share for path, share in (near or {}).items() if path in self._rows}
        if limit <= 0 or not (wanted or meant) or not len(self):
            return []
        rows, parts, quoted = self._matched(wanted, meant)
        current = self._relevances(rows, now, relevances)
        direct = quoted | np.isin(rows, self._named(query))
        open_ = (current > ACTIVE_ABOVE) | ((current >= FADING_FROM) & direct)
        factors = relevance_floor + (1 - relevance_floor) * current
        totals = np.sum([part.values for part in parts], axis=0, dtype=np.float64) * factors
        chosen = highest_rows(np.where(open_, totals, 0), limit).tolist()
        keyed = [
            (-round(float(totals[at]), _DIGITS), -float(current[at]), self._paths[rows[at]], at)
            for at in chosen
        ]
        return [
            Found(path, -score, self._why(parts, int(at), factors[at], -relevance))
            for score, relevance, path, at in sorted(keyed)[:limit]
        ]

    # ── Matching ────────────────────────────────────────────────────────────────────────

    def _matched(
        self, wanted: Sequence[Wanted], meant: Mapping[int, float]
    ) -> tuple[NDArray[np.int64], list[_Part], NDArray[np.bool_]]:
        """The rows that match anything, what each match adds, and where a quoted phrase stands."""
        fits = [[self._fit(item, field) for field in range(len(FIELDS))] for item in wanted]
        anywhere = np.zeros(len(self._paths), np.bool_)
        anywhere[list(meant)] = True
        rarities = []
        for by_field in fits:
            there = np.zeros(len(self._paths), np.bool_)
            for rows, _ in by_field:
                there[rows] = True
            anywhere |= there
            count = int(np.count_nonzero(there))
            rarities.append(float(np.log1p((len(self) - count + 0.5) / (count + 0.5))) if count else 0.0)
        present = [rarity for rarity in rarities if rarity]
        mean = sum(present) / len(present) if present else 1.0
        matched = np.flatnonzero(anywhere)
        quoted = np.zeros(len(matched), np.bool_)
        parts = []
        dense = np.zeros(len(self._paths), np.float32)
        if meant:
            dense[list(meant)] = np.fromiter(meant.values(), np.float32) * np.float32(MEANING_WEIGHT)
            parts.append(_Part(len(FIELDS), MEANING, dense[matched]))
            dense[:] = 0
        for item, rarity, by_field in zip(wanted, rarities, fits, strict=True):
            for field, (rows, strengths) in enumerate(by_field):
                if len(rows):
                    dense[rows] = strengths * np.float32(WEIGHTS[field] * rarity / mean)
                    parts.append(_Part(field, item.label, dense[matched]))
                    dense[rows] = 0
                    if item.kind == "phrase":
                        quoted |= parts[-1].values > 0
        return matched, parts, quoted

    def _fit(self, wanted: Wanted, field: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The rows whose field has a wanted thing, and how well the best of its terms fits there."""
        if wanted.kind == "phrase" or len(wanted.terms) == 1:
            rows = self._lexical.listing(wanted, field).rows
            return rows, np.full(len(rows), wanted.weights[0], np.float32)
        strongest = np.zeros(len(self._paths), np.float32)
        for term, weight in zip(wanted.terms, wanted.weights, strict=True):
            rows = self._lexical.fields[field].listing(term).rows
            strongest[rows] = np.maximum(strongest[rows], np.float32(weight))
        rows = np.flatnonzero(strongest).astype(np.int32)
        return rows, strongest[rows]

    def _named(self, query: str) -> list[int]:
        """The rows of which the whole key, or a whole theme, stands in the query."""
        stems = self._lexical.vocabulary.stems(query[:MAX_QUERY_CHARS])
        found: set[int] = set()
        for size in range(1, min(len(stems), MAX_WHOLE_WORDS) + 1):
            for at in range(len(stems) - size + 1):
                found.update(self._wholes.get(" ".join(stems[at : at + size]), ()))
        return list(found)

    def _index_wholes(self, memory: PersonaMemory) -> None:
        stems = self._lexical.vocabulary.stems
        names = [stems(text) for text in (memory.key, *memory.themes)]
        wholes = list(dict.fromkeys(" ".join(name) for name in names if 0 < len(name) <= MAX_WHOLE_WORDS))
        for whole in wholes:
            self._wholes[whole].append(len(self._whole_of))
        self._whole_of.append(wholes)

    def _relevances(
        self, rows: NDArray[np.int64], now: float, given: Callable[[Sequence[str]], ArrayLike] | None
    ) -> NDArray[np.float64]:
        if given is not None:
            return np.asarray(given([self._paths[at] for at in rows]), np.float64)
        return relevances_at(now, np.stack([column.view[rows] for column in self._ages]))

    @staticmethod
    def _why(parts: Sequence[_Part], at: int, factor: float, relevance: float) -> Why:
        shares = [(part, float(part.values[at] * factor)) for part in parts if part.values[at] > 0]
        shares.sort(key=lambda share: (-share[1], share[0].field, share[0].label))
        matches = tuple(
            Match.model_construct(field=_PLACES[part.field], term=part.label, contribution=share)
            for part, share in shares
        )
        listed = ", ".join(map(str, matches))
        text = f"{listed}; relevance {relevance:.2f}"
        return Why.model_construct(matches=matches, relevance=relevance, text=text)

    # ── Keeping ─────────────────────────────────────────────────────────────────────────

    def _tidy(self) -> None:
        """Number rows anew, without those that are gone."""
        if len(self._paths) == len(self._rows):
            return
        kept = sorted(self._rows.values())
        self._lexical.keep(np.array(kept, np.int64))
        self._paths = [self._paths[at] for at in kept]
        self._prints = [self._prints[at] for at in kept]
        self._ages = tuple(Column(np.float64, column.view[kept]) for column in self._ages)
        self._number([self._whole_of[at] for at in kept])

    def _number(self, whole_of: list[list[str]]) -> None:
        self._rows = {path: at for at, path in enumerate(self._paths)}
        self._whole_of, self._wholes = whole_of, defaultdict(list)
        for at, wholes in enumerate(whole_of):
            for whole in wholes:
                self._wholes[whole].append(at)

    def dump(self) -> bytes:
        """Everything as bytes. They hold the words of the memories: for encrypted places only."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes | memoryview]:
        """As `dump`, in pieces that are not copied: use them before anything is changed."""
        self._tidy()
        header = {
            "format": FORMAT,
            "vocabulary": self._lexical.vocabulary.dump(),
            "paths": self._paths,
            "wholes": self._whole_of,
        }
        prints = {"prints": np.frombuffer(b"".join(self._prints), np.uint8)}
        ages = {str(number): column.view for number, column in enumerate(self._ages)}
        return packed(header, [prints, ages, *(postings.dump() for postings in self._lexical.fields)])

    @classmethod
    def load(cls, dumped: bytes | memoryview) -> PalaceIndex:
        """What `dump` gave; `follow` then brings it up to date.

        Raises:
            ValueError: another format, or no dump of an index.
        """
        header, groups = unpack(dumped)
        if header.get("format") != FORMAT or len(groups) != 2 + len(FIELDS):
            raise ValueError("these bytes are no index of this format; build it anew")
        prints, ages, *fields = groups
        self = cls(header["vocabulary"]["language"])
        self._lexical.vocabulary = Vocabulary.load(header["vocabulary"])
        self._lexical.fields = tuple(map(Postings.load, fields))
        self._paths = header["paths"]
        marks = prints["prints"].tobytes()
        self._prints = [marks[at : at + _PRINT_BYTES] for at in range(0, len(marks), _PRINT_BYTES)]
        self._ages = tuple(Column(np.float64, ages[str(number)]) for number in range(3))
        self._number(header["wholes"])
        return self


_PRINT_BYTES: Final = 8


def _print_of(texts: Sequence[str]) -> bytes:
    joined = "\0".join(texts).encode("utf-8", "surrogatepass")
    return blake2b(joined, digest_size=_PRINT_BYTES).digest()
