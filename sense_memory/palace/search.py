"""Search in the palace: the specification's weights (key 3, themes 2, value 1), asked of the one index of `search`.

Persona memories lie in that index once, beside whatever else it holds, which this ranking does not see: rarity is
counted among persona memories, and a word that only others have is unknown. The score of a memory is, added up over the words, phrases and beginnings of the query,

    weight of the field x how well the memory's word fits x how rare the word is

times what is left of its relevance. A field has a word or has it not: repetition adds nothing. The same stem
fits 1; the continuation of a beginning 0.8; a compound, or a word that only resembles one that nobody wrote,
0.5. Rarity is a share with mean 1 over what the query asks for, so that of a single word the score is exactly
the specification's: 3, 2 and 1, added up, times relevance. Nothing here reads a clock or keeps a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sense_memory.limits import ACTIVE_ABOVE, FADING_FROM
from sense_memory.models import PersonaMemory
from sense_memory.palace.catalog import relevances_at, row
from sense_memory.search.documents import Ageing, SearchItem
from sense_memory.search.index import MemoryIndex
from sense_memory.search.postings import FIELD_WEIGHTS, KEY, THEMES, VALUE
from sense_memory.search.query import parse, resolve
from sense_memory.search.ranking import highest_rows


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

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
MEANING: Final = "meaning"  # the field of what no word says
MEANING_WEIGHT: Final = 2.0  # of a memory that means just what is asked: as much as a theme
KIND: Final = "palace"  # of persona memories, in the index and in the ids of items
ROLES: Final = frozenset({"user", "agent"})  # the sources that "I" and "you" of a question may mean
STAMP_BYTES: Final = 8
_ID: Final = f"{KIND}/"
_SEARCHED: Final = (KEY, THEMES, VALUE)  # the index's fields, in the order of `FIELDS`
_PLACES: Final = (*FIELDS, MEANING)
_DIGITS: Final = 6  # scores that agree to so many decimals are a tie


# ── Persona memories in the index ───────────────────────────────────────────────────────


def stamp_of(memory: PersonaMemory) -> int:
    """What tells whether a persona memory has to be indexed anew: a hash of all that counts there."""
    joined = "\0".join((memory.key, *memory.themes, "", memory.value, memory.source))
    digest = blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=STAMP_BYTES).digest()
    return int.from_bytes(digest, "big")


def item_of(memory: PersonaMemory, event: int = 0) -> SearchItem:
    """A persona memory as the index takes it.

    Args:
        memory: as it was written.
        event: enough of an event's id, where the memory is just what that event says.
    """
    return SearchItem(
        id=_ID + memory.path,
        text=memory.value,
        speaker=memory.source if memory.source in ROLES else "",
        key=memory.key,
        themes=tuple(memory.themes),
        kind=KIND,
        ageing=Ageing(*row(memory)),
        stamp=stamp_of(memory),
        event=event,
    )


def is_open(relevances: NDArray[np.float64], is_meant: Callable[[], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which persona memories a search may find: active ones, and fading ones that the query directly means.

    Args:
        relevances: current relevance of each.
        is_meant: tells of each whether the query directly means it; asked where one is fading.
    """
    active = relevances > ACTIVE_ABOVE
    fading = (relevances >= FADING_FROM) & ~active
    return active | (fading & is_meant()) if fading.any() else active


@dataclass(frozen=True, slots=True)
class PalaceMatch:
    """A memory that was found.

    Attributes:
        path: `domain/facet/key`.
        score: higher is better; comparable within one search only.
        why: what the score is made of.
    """

    path: str
    score: float
    why: Why


class _FieldMatch(NamedTuple):
    """One wanted thing in one field: what it adds to each row that matched anything."""

    field: int  # in `_PLACES`
    label: str
    values: NDArray[np.float32]


class PalaceIndex:
    """The persona memories in an index.

    Args:
        index: where they lie; by default a new one.
    """

    def __init__(self, index: MemoryIndex | None = None) -> None:
        self.index = MemoryIndex() if index is None else index

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_there()))

    def __contains__(self, path: str) -> bool:
        return _ID + path in self.index

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the one at its path; one whose texts are the same only ages anew."""
        self.put_many((memory,))

    def put_many(self, memories: Iterable[PersonaMemory]) -> int:
        """Add or replace memories, of which the last at a path stays. Many at once cost less each.

        Returns:
            How many were indexed anew because of their texts.
        """
        latest = {memory.path: memory for memory in memories}
        changed = self.index.refreshed(map(item_of, latest.values()))
        self.index.put_many(changed, embeds=False)
        return len(changed)

    def drop(self, path: str) -> None:
        """Take a memory out; one that is not there is no error."""
        self.index.drop(_ID + path)

    def search(
        self,
        query: str,
        *,
        now: float,
        limit: int = 10,
        relevance_floor: float = 0.0,
        near: Mapping[str, float] | None = None,
    ) -> list[PalaceMatch]:
        """The memories that a query means, the best first.

        Forgotten and dissolved memories are left out. A fading one is found only if the query directly means it:
        its whole key or one of its themes stands in the query, or it has a phrase that the query quotes.

        Args:
            query: some words; `"in quotes"` they weigh in as a phrase too, `photo*` is every word that begins so.
            now: the time, seconds since 1970.
            limit: how many at most.
            relevance_floor: 0 to 1; the score is multiplied by floor + (1 - floor) x relevance. 0 is the
                specification's; above 0, age moves memories less.
            near: paths that an embedder finds close in meaning, and how close, 0 to 1; found without a word too.

        Returns:
            Best first; ties by relevance, then by path.
        """
        look = _PalaceQuery(self.index, self._is_there())
        ask = parse(query)
        wanted = resolve(ask, self.index.vocabulary, is_used=look.is_used)
        known = self.index.documents.rows
        meant = {known[_ID + path]: share for path, share in (near or {}).items() if _ID + path in known}
        if limit <= 0 or not (wanted or meant):
            return []
        rows, matches = look.matched(wanted, meant)
        current = relevances_at(now, self.index.documents.ages(rows))
        factors = relevance_floor + (1 - relevance_floor) * current
        totals = np.sum([match.values for match in matches], axis=0, dtype=np.float64) * factors
        totals[~is_open(current, lambda: self.index.meant(query)[rows])] = 0
        chosen = highest_rows(totals, limit).tolist()
        keyed = [
            (-round(float(totals[at]), _DIGITS), -float(current[at]), self._path(rows[at]), at)
            for at in chosen
        ]
        return [
            PalaceMatch(path, -score, _why(matches, int(at), factors[at], -relevance))
            for score, relevance, path, at in sorted(keyed)[:limit]
        ]

    def _is_there(self) -> NDArray[np.bool_]:
        return self.index.documents.of_kind(KIND)

    def _path(self, row: int) -> str:
        return self.index.documents.ids[row].removeprefix(_ID)


# ── Matching ────────────────────────────────────────────────────────────────────────────


class _PalaceQuery:
    """One search: where its terms stand among persona memories, each read once.

    Args:
        index: that is searched.
        is_there: which of its documents are persona memories.
    """

    def __init__(self, index: MemoryIndex, is_there: NDArray[np.bool_]) -> None:
        self._index, self._is_there = index, is_there
        self._found: dict[int, tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}

    def is_used(self, term: int) -> bool:
        """Whether a persona memory has a term."""
        return len(self._with_term(term)[0]) > 0

    def matched(
        self, wanted: Sequence[Wanted], meant: Mapping[int, float]
    ) -> tuple[NDArray[np.int64], list[_FieldMatch]]:
        """The documents that match anything, and what each match adds."""
        fits = [self._fits(item) for item in wanted]
        anywhere = np.zeros(len(self._is_there), np.bool_)
        anywhere[list(meant)] = True
        rarities = [self._rarity(by_field, anywhere) for by_field in fits]
        present = [rarity for rarity in rarities if rarity]
        mean = sum(present) / len(present) if present else 1.0
        rows = np.flatnonzero(anywhere)
        matches = []
        dense = np.zeros(len(self._is_there), np.float32)
        if meant:
            dense[list(meant)] = np.fromiter(meant.values(), np.float32) * np.float32(MEANING_WEIGHT)
            matches.append(_FieldMatch(len(FIELDS), MEANING, dense[rows]))
            dense[:] = 0
        for item, rarity, by_field in zip(wanted, rarities, fits, strict=True):
            for place, (found, strengths) in enumerate(by_field):
                if len(found):
                    weight = FIELD_WEIGHTS[_SEARCHED[place]] * rarity / mean
                    dense[found] = strengths * np.float32(weight)
                    matches.append(_FieldMatch(place, item.label, dense[rows]))
                    dense[found] = 0
        return rows, matches

    def _rarity(self, by_field: Sequence[tuple[NDArray[Any], object]], anywhere: NDArray[np.bool_]) -> float:
        """How rare something is that stands in these documents, which are noted in `anywhere`."""
        there = np.zeros(len(self._is_there), np.bool_)
        for rows, _ in by_field:
            there[rows] = True
        anywhere |= there
        count, total = int(np.count_nonzero(there)), int(np.count_nonzero(self._is_there))
        return float(np.log1p((total - count + 0.5) / (count + 0.5))) if count else 0.0

    def _fits(self, wanted: Wanted) -> list[tuple[NDArray[Any], NDArray[np.float32] | np.float32]]:
        """By field of `FIELDS`, the documents that have a wanted thing, and how well the best of its terms fits there."""
        if wanted.kind == "phrase" or len(wanted.terms) == 1:
            if wanted.kind == "phrase":
                rows, fields = self._among(*self._index.with_phrase(wanted.terms))
            else:
                rows, fields = self._with_term(wanted.terms[0])
            return [(rows[fields & (1 << field) > 0], np.float32(wanted.weights[0])) for field in _SEARCHED]
        found: list[tuple[NDArray[Any], NDArray[np.float32] | np.float32]] = []
        listed = [self._with_term(term) for term in wanted.terms]
        for field in _SEARCHED:
            strongest = np.zeros(len(self._is_there), np.float32)
            for (rows, fields), weight in zip(listed, wanted.weights, strict=True):
                own = rows[fields & (1 << field) > 0]
                strongest[own] = np.maximum(strongest[own], np.float32(weight))
            there = np.flatnonzero(strongest)
            found.append((there, strongest[there]))
        return found

    def _with_term(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        if term not in self._found:
            self._found[term] = self._among(*self._index.with_term(term))
        return self._found[term]

    def _among(
        self, rows: NDArray[np.int32], fields: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        there = self._is_there[rows]
        return rows[there], fields[there]


def _why(matches: Sequence[_FieldMatch], at: int, factor: float, relevance: float) -> Why:
    shares = [(match, float(match.values[at] * factor)) for match in matches if match.values[at] > 0]
    shares.sort(key=lambda share: (-share[1], share[0].field, share[0].label))
    found = tuple(
        Match.model_construct(field=_PLACES[match.field], term=match.label, contribution=share)
        for match, share in shares
    )
    text = f"{', '.join(map(str, found))}; relevance {relevance:.2f}"
    return Why.model_construct(matches=found, relevance=relevance, text=text)
