"""Search in the palace: the specification's weights (key 3, themes 2, value 1), over the one index of `search`.

The index holds persona memories together with other items, which this ranking ignores: rarity is counted among persona
memories, and a word that only other items have is unknown. The score of a memory is the sum, over the words, phrases
and beginnings of the query, of

    weight of the field x how well the memory's word fits x how rare the word is

times the square of the share of the query that the memory covers (parts weigh by their rarity), times its current
relevance. Repeating a word in a field adds nothing. The same word fits 1; another form of the word somewhat less, if
the word itself is known too; the continuation of a beginning 0.8; a compound, or a word that only resembles an unknown
word, 0.5. Rarity has the mean 1 over the parts of the query, so the score of a single word, and of a memory that has all
words, is exactly the specification's: the sum of 3, 2 and 1, times relevance. So a memory that covers the
question comes before one with a single word of it in the key: "Where does Kaja live?" finds "Kaja lives in Graz" before `live-music`.
A meaning, where there is one, adds to that; for a memory with a single word of a question as in `search.ranking`.
This module reads no clock and keeps no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sense_memory.limits import ACTIVE_ABOVE, FADING_FROM
from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import STATES, relevances_at, row, states_at
from sense_memory.palace.lifecycle import state_at
from sense_memory.search import evidence
from sense_memory.search.direct_relevance import DirectRelevance
from sense_memory.search.documents import Ageing, SearchItem
from sense_memory.search.hits import NOT_QUOTED, Evidence, Explanation, Hits, Kind, told
from sense_memory.search.index import SearchIndex
from sense_memory.search.postings import FIELD_WEIGHTS, KEY, OTHER_FORM_WEIGHT, THEMES, VALUE, fits
from sense_memory.search.query import FAR_WEIGHT, parse, resolve
from sense_memory.search.quotations import quoting
from sense_memory.search.ranking import highest_rows


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.confidence import Clues
    from sense_memory.search.date_evidence import DateEvidence
    from sense_memory.search.query import Wanted


# ── What a search of the palace gives ───────────────────────────────────────────────────
# The results of a search of the palace: memories, each with the reasons why it was found.


class Match(BaseModel):
    """One word, phrase or beginning that was found in one field; or the meaning of the whole memory.

    Attributes:
        field: "key", "themes" or "value"; "meaning" for a match by an embedder; "date" for a time that the query asks
            for; "supersedes", "later" and "newest" for what a memory has from one that it passes, as in an `Evidence`.
        term: as the query has it, in lower case and without accents; "photo*" for a beginning; "meaning" for a match by
            an embedder; which time fits, as in an `Evidence`; the path of the memory that it passes.
        contribution: what this match adds to the score; the score is the sum of all contributions of a hit.
    """

    model_config = ConfigDict(frozen=True)

    field: str
    term: str = Field(repr=False)
    contribution: Annotated[float, Field(ge=0)]

    def __str__(self) -> str:
        if self.field in _RANKED:
            return told(Evidence(kind=self.field, detail=self.term, contribution=self.contribution))
        return "close in meaning" if self.field == "meaning" else f"{self.term} in {self.field}"


class Why(Explanation):
    """Why a memory was found: an `Explanation` that also has each field on its own.

    Attributes:
        matches: the largest contribution first.
        evidence: the same by word, the largest contribution first.
        relevance: how relevant the memory was at the time of the search.
        factor: the factor of the score for that relevance.
        text: the reasons as a sentence.
    """

    matches: tuple[Match, ...]


class PersonaHit(PersonaMemory):
    """A persona memory that was found by a search: all fields of a `Hit`, and those of the memory.

    Attributes:
        kind: palace.
        score: higher is better; comparable within one search only.
        answer_confidence: the estimated probability that it answers the query, 0 to 1; comparable across searches and
            stores. `confidence` is how certain the memory is, whatever is asked.
        why: the reasons of the score.
    """

    kind: Kind = Kind.PALACE
    score: float
    answer_confidence: float = 0.0
    why: Why

    @classmethod
    def of(cls, memory: PersonaMemory, score: float, why: Why, answer_confidence: float = 0.0) -> PersonaHit:
        """A memory in its state of now, with its score and reasons.

        The fields are not validated again, which would cost more than the search (`model_construct` does too).
        """
        hit = cls.__new__(cls)
        own = {"kind": Kind.PALACE, "score": score, "answer_confidence": answer_confidence, "why": why}
        now = {"state": state_at(why.relevance), "current_relevance": why.relevance}
        for name, value in (
            ("__dict__", {**vars(memory), **now, **own}),
            ("__pydantic_fields_set__", set(cls.model_fields)),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(hit, name, value)
        return hit


FIELDS: Final = ("key", "themes", "value")
MEANING: Final = "meaning"  # the field of a match by meaning
DATE: Final = "date"  # the field of a match by a time
DATE_WEIGHT: Final = 3.0  # of a memory of the time that is asked for: a word in its key
MEANING_WEIGHT: Final = 18.0  # of a memory that means exactly the question: three words in all fields
KIND: Final = "palace"  # of persona memories, in the index and in item ids
ROLES: Final = frozenset({"user", "agent"})  # the sources that "I" and "you" in a question may mean
STAMP_BYTES: Final = 8
_ID: Final = f"{KIND}/"
_SEARCHED: Final = (KEY, THEMES, VALUE)  # the index's fields, in the order of `FIELDS`
_PLACES: Final = (*FIELDS, MEANING, DATE)
_RANKED: Final = frozenset({DATE, "supersedes", "later", "newest"})  # matches that are no place of a word
_LEAST_FACTOR: Final = 1e-12  # so that the score of a memory that has almost no relevance is not 0
_DIGITS: Final = 6  # scores that agree to this many decimals are a tie


# ── Persona memories in the index ───────────────────────────────────────────────────────


def stamp_of(memory: PersonaMemory) -> int:
    """A hash of all that the index takes from a persona memory; a new hash means that the memory is indexed anew."""
    joined = "\0".join((memory.key, *memory.themes, "", memory.value, memory.source))
    digest = blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=STAMP_BYTES).digest()
    return int.from_bytes(digest, "big")


def item_of(memory: PersonaMemory, event: int = 0) -> SearchItem:
    """A persona memory as the index takes it.

    Args:
        memory: as it was written.
        event: a part of an event's id, where the memory equals that event.
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
        created=memory.created_at,
        written=memory.written_at,
    )


def is_open(relevances: NDArray[np.float64], is_meant: Callable[[], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which persona memories a search may find: active ones, and fading ones that the query directly means.

    Args:
        relevances: current relevance of each.
        is_meant: returns for each whether the query directly means it; called only if a memory is fading.
    """
    active = relevances > ACTIVE_ABOVE
    fading = (relevances >= FADING_FROM) & ~active
    return active | (fading & is_meant()) if fading.any() else active


def age_factors(relevances: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The factors of scores for age: floor + (1 - floor) x relevance.

    A fading memory counts as if it were just about to fade. A search shows it for strong evidence only, which days
    without an access do not make weaker.
    """
    is_fading = (relevances >= FADING_FROM) & (relevances <= ACTIVE_ABOVE)
    counted = np.where(is_fading, ACTIVE_ABOVE, relevances)
    found: NDArray[np.float64] = floor + (1 - floor) * counted
    return found


def is_in_state(relevances: NDArray[np.float64], state: State) -> NDArray[np.bool_]:
    """Which persona memories a search for one state may find; "forgotten" includes dissolved ones, not pruned yet."""
    found: NDArray[np.bool_] = (
        relevances < FADING_FROM if state == State.FORGOTTEN else states_at(relevances) == STATES.index(state)
    )
    return found


@dataclass(frozen=True, slots=True)
class PalaceMatch:
    """A memory that was found.

    Attributes:
        path: `domain/facet/key`.
        score: higher is better; comparable within one search only.
        why: what the score is made of.
        clues: for `search.confidence`.
    """

    path: str
    score: float
    why: Why
    clues: Clues


_Parts: TypeAlias = (
    "Sequence[tuple[NDArray[Any], NDArray[np.float32]]]"  # rows and fits, by field of `FIELDS`
)


class _FieldMatch(NamedTuple):
    """One part of a query in one field, with the score that it adds to each matching row."""

    field: int  # in `_PLACES`
    kind: str  # as of `Evidence`
    label: str  # empty for a time, which `_why` names
    values: NDArray[np.float32]


class PalaceIndex:
    """The persona memories in an index.

    Args:
        index: the index that holds them; by default a new one.
    """

    def __init__(self, index: SearchIndex | None = None) -> None:
        self.index = SearchIndex() if index is None else index

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_there()))

    def __contains__(self, path: str) -> bool:
        return _ID + path in self.index

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the one at its path; where the texts are the same, only its ageing changes."""
        self.put_many((memory,))

    def put_many(self, memories: Iterable[PersonaMemory]) -> int:
        """Add or replace memories; the last memory at a path stays. Many at once cost less per memory.

        Returns:
            How many were indexed anew because of their texts.
        """
        latest = {memory.path: memory for memory in memories}
        changed = self.index.refreshed(map(item_of, latest.values()))
        self.index.put_many(changed, embeds=False)
        return len(changed)

    def drop(self, path: str) -> None:
        """Remove a memory; a missing memory is not an error."""
        self.index.drop(_ID + path)

    def search(
        self,
        query: str,
        *,
        now: float,
        limit: int = 10,
        relevance_floor: float = 0.0,
        near: Mapping[str, float] | None = None,
        state: State | None = None,
        only: Callable[[str], bool] | None = None,
        forgotten: bool = False,
        zone: float = 0.0,
        beyond_names: NDArray[np.float32] | None = None,
    ) -> Hits[PalaceMatch]:
        """The memories that a query means, the best first.

        A fading memory is found only if the query directly means it, see `search.direct_relevance`. Forgotten and
        dissolved memories are counted if so, and otherwise left out. Where memories have what the query quotes, only
        these are found.

        Args:
            query: some words; words `"in quotes"` count as a phrase too, `photo*` means every word that begins so.
            now: the time, seconds since 1970.
            limit: how many at most.
            relevance_floor: 0 to 1; the score is multiplied by floor + (1 - floor) x relevance, see `age_factors`. 0
                is the specification's; above 0, age moves memories less.
            near: paths close in meaning by an embedder, and how close, 0 to 1; these are found without any word too.
            state: find the memories in this state, and no others; see `is_in_state`.
            only: whether a path may be found.
            forgotten: find forgotten and dissolved memories too, after all others, if the query directly means them.
            zone: as for `SearchIndex.search`.
            beyond_names: as for `SearchIndex.search`.

        Returns:
            Best first; ties by relevance, then by path.
        """
        look = _PalaceQuery(self.index, self._is_there())
        dated = self.index.dated(query, now, zone)
        ask = parse(query)
        wanted = resolve(ask, self.index.vocabulary, is_used=look.is_used)
        known = self.index.documents.rows
        meant = {known[_ID + path]: share for path, share in (near or {}).items() if _ID + path in known}
        if limit <= 0 or not (wanted or meant or dated):
            return Hits()
        rows, matches = look.matched(wanted, meant, ask.is_sentence, dated)
        current = relevances_at(now, self.index.documents.ages(rows))
        factors = np.maximum(age_factors(current, relevance_floor), _LEAST_FACTOR)
        totals = np.sum([match.values for match in matches], axis=0, dtype=np.float64) * factors
        direct = DirectRelevance(self.index, query, look.is_there, meant)
        is_first, is_late = _shown(direct, rows, current, totals, state)
        totals[~(is_first | is_late)] = 0
        if only is not None:
            for at in np.flatnonzero(totals).tolist():
                totals[at] *= only(self._path(rows[at]))
        has_quoted, note = quoting(self.index, query), ""
        if has_quoted is not None:
            if (totals[has_quoted[rows] & is_first] > 0).any():
                totals[~has_quoted[rows]] = 0
            else:
                note = NOT_QUOTED
        on_day = None if dated is None else matches[-1].values
        if (
            on_day is not None
            and dated is not None
            and dated.is_all(wanted)
            and (totals[on_day > 0] > 0).any()
        ):
            totals[on_day == 0] = 0
        best = list[tuple[float, int]]()
        for is_shown in (is_first, is_late) if forgotten else (is_first,):
            best += self._best(np.where(is_shown, totals, 0), current, rows, limit - len(best))
        shown = [
            (
                self.index.documents.ids[rows[at]],
                score,
                0.0 if on_day is None else float(on_day[at]) / DATE_WEIGHT,
            )
            for score, at in best
        ]
        clues = self.index.clues(
            query, wanted, shown, beyond_names, frozenset() if dated is None else dated.words
        )
        found = [
            PalaceMatch(
                self._path(rows[at]),
                score,
                _why(_with_time(matches, dated, int(rows[at])), at, factors[at], float(current[at]), note),
                known,
            )
            for (score, at), known in zip(best, clues, strict=True)
        ]
        late = int(np.count_nonzero(totals[is_late]))
        return Hits(found, forgotten=late - sum(match.why.relevance < FADING_FROM for match in found if late))

    def _best(
        self, totals: NDArray[np.float64], current: NDArray[np.float64], rows: NDArray[np.int64], limit: int
    ) -> list[tuple[float, int]]:
        """The highest totals above 0 and their places; ties by relevance, then by path."""
        keyed = sorted(
            (-round(float(totals[at]), _DIGITS), -float(current[at]), self._path(rows[at]), at)
            for at in (highest_rows(totals, limit).tolist() if limit > 0 else ())
        )
        return [(-score, at) for score, _, _, at in keyed[:limit]]

    def _is_there(self) -> NDArray[np.bool_]:
        return self.index.documents.of_kind(KIND)

    def _path(self, row: int) -> str:
        return self.index.documents.ids[row].removeprefix(_ID)


# ── Matching ────────────────────────────────────────────────────────────────────────────


class _PalaceQuery:
    """One search: the places of its terms among persona memories, each term looked up once.

    Args:
        index: the index that is searched.
        is_there: which documents of the index are persona memories.
    """

    def __init__(self, index: SearchIndex, is_there: NDArray[np.bool_]) -> None:
        self._index, self.is_there = index, is_there
        self._count = int(np.count_nonzero(is_there))
        self._found: dict[int, tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}

    def is_used(self, term: int) -> bool:
        """Whether a persona memory has a term."""
        return len(self._with_term(term)[0]) > 0

    def matched(
        self,
        wanted: Sequence[Wanted],
        meant: Mapping[int, float],
        is_sentence: bool,
        dated: DateEvidence | None,
    ) -> tuple[NDArray[np.int64], list[_FieldMatch]]:
        """The documents that match any part of a query, and the score that each match adds."""
        by_parts = [self._fits(item) for item in wanted]
        anywhere = np.zeros(len(self.is_there), np.bool_)
        anywhere[list(meant)] = True
        fits = None if dated is None else dated.fits() * self.is_there
        if fits is not None:
            anywhere |= fits > 0
        holders = [self._holders(by_field) for by_field in by_parts]
        for found in holders:
            anywhere[found] = True
        rarities = [self._rarity(len(found)) for found in holders]
        present = [rarity for rarity in rarities if rarity]
        mean = sum(present) / len(present) if present else 1.0
        rows = np.flatnonzero(anywhere)
        matches = list[_FieldMatch]()
        dense = np.zeros(len(self.is_there), np.float32)
        credit = self._credit(rows, rarities, by_parts)
        for item, rarity, by_field in zip(wanted, rarities, by_parts, strict=True):
            for place, (found, strengths) in enumerate(by_field):
                if len(found):
                    weight = FIELD_WEIGHTS[_SEARCHED[place]] * rarity / mean
                    dense[found] = strengths * np.float32(weight)
                    matches.append(_FieldMatch(place, item.kind, item.label, dense[rows] * credit))
                    dense[found] = 0
        if meant:
            only = evidence.only_words(holders, len(dense))
            near = self._near(rows, meant, only, matches if is_sentence else ())
            for number, item in enumerate(wanted):
                if item.other < OTHER_FORM_WEIGHT:
                    itself = self._has_itself(by_parts[number])[rows]
                    evidence.lower_others(near, (only[rows] == number) & ~itself, itself)
            matches.append(_FieldMatch(len(FIELDS), MEANING, MEANING, near))
        if fits is not None:
            weighed = fits[rows] * np.float32(DATE_WEIGHT)
            matches.append(_FieldMatch(_PLACES.index(DATE), DATE, "", weighed))
        return rows, matches

    def _near(
        self,
        rows: NDArray[np.int64],
        meant: Mapping[int, float],
        only: NDArray[np.int16],
        matches: Sequence[_FieldMatch],
    ) -> NDArray[np.float32]:
        """What meaning adds to each row beside the matches of a question's words; as in `search.ranking`."""
        near = np.zeros(len(self.is_there), np.float32)
        near[list(meant)] = np.fromiter(meant.values(), np.float32) * np.float32(MEANING_WEIGHT)
        if not matches:
            return near[rows]
        words = sum((match.values for match in matches), np.zeros(len(rows), np.float32))
        found: NDArray[np.float32] = np.maximum(near[rows] - words, evidence.beyond_words(near, only)[rows])
        return np.maximum(found, np.float32(0), out=found)

    def _has_itself(self, by_field: _Parts) -> NDArray[np.bool_]:
        """Whether documents match a part of the query by more than a form that is another word more often."""
        there = np.zeros(len(self.is_there), np.bool_)
        for found, strengths in by_field:
            there[found[strengths > FAR_WEIGHT]] = True
        return there

    def _holders(self, by_field: _Parts) -> NDArray[np.int64]:
        """The documents that match a part of the query in any field."""
        there = np.zeros(len(self.is_there), np.bool_)
        for found, _ in by_field:
            there[found] = True
        return np.flatnonzero(there)

    def _credit(
        self, rows: NDArray[np.int64], rarities: Sequence[float], by_parts: Sequence[_Parts]
    ) -> NDArray[np.float32]:
        """How much of the score of each row its words earn: the share of the question that it covers, squared."""
        present = [(rarity, by_field) for rarity, by_field in zip(rarities, by_parts, strict=True) if rarity]
        if len(present) < 2:
            return np.ones(len(rows), np.float32)
        shares, there = np.zeros(len(rows), np.float32), np.zeros(len(self.is_there), np.float32)
        for rarity, by_field in present:
            share = np.float32(rarity / sum(rarities))
            for found, _ in by_field:
                there[found] = share
            shares += there[rows]
            for found, _ in by_field:
                there[found] = 0
        return shares * shares

    def _rarity(self, count: int) -> float:
        """The rarity of a part that so many documents contain."""
        return float(np.log1p((self._count - count + 0.5) / (count + 0.5))) if count else 0.0

    def _fits(self, wanted: Wanted) -> _Parts:
        """By field of `FIELDS`, the documents that contain a part of the query, and the fit of its best term there."""
        if wanted.kind == "phrase" or len(wanted.terms) == 1:
            if wanted.kind == "phrase":
                rows, fields = self._among(*self._index.with_phrase(wanted.terms))
            else:
                rows, fields = self._with_term(wanted.terms[0])
            strengths = np.full(len(rows), wanted.weights[0], np.float32)
            if wanted.form is not None:
                strengths *= fits(fields, wanted.form, wanted.other)
            places = [fields & (1 << field) > 0 for field in _SEARCHED]
            return [(rows[place], strengths[place]) for place in places]
        found: list[tuple[NDArray[Any], NDArray[np.float32]]] = []
        listed = [self._with_term(term) for term in wanted.terms]
        for field in _SEARCHED:
            strongest = np.zeros(len(self.is_there), np.float32)
            for place, ((rows, fields), weight) in enumerate(zip(listed, wanted.weights, strict=True)):
                fit = np.full(len(rows), weight, np.float32)
                if not place and wanted.form is not None:
                    fit *= fits(fields, wanted.form, wanted.other)
                is_own = fields & (1 << field) > 0
                own = rows[is_own]
                strongest[own] = np.maximum(strongest[own], fit[is_own])
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
        there = self.is_there[rows]
        return rows[there], fields[there]


def _shown(
    direct: DirectRelevance,
    rows: NDArray[np.int64],
    relevances: NDArray[np.float64],
    totals: NDArray[np.float64],
    state: State | None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of some rows a search may show, and which only after these, or count: forgotten ones that are directly meant."""
    is_late = np.zeros(len(rows), np.bool_)
    if state is not None:
        return is_in_state(relevances, state), is_late
    gone = np.flatnonzero((relevances < FADING_FROM) & (totals > 0))
    if len(gone):
        is_late[gone] = direct.rows[rows[gone]]
    return is_open(relevances, lambda: direct.rows[rows]), is_late


def _with_time(matches: Sequence[_FieldMatch], dated: DateEvidence | None, row: int) -> Sequence[_FieldMatch]:
    """The matches with the time of a row that fits the question best."""
    if dated is None:
        return matches
    return [match._replace(label=dated.fit_of(row)) if match.kind == DATE else match for match in matches]


def _why(matches: Sequence[_FieldMatch], at: int, factor: float, relevance: float, note: str) -> Why:
    shares = [(match, float(match.values[at] * factor)) for match in matches if match.values[at] > 0]
    shares.sort(key=lambda share: (-share[1], share[0].field, share[0].label))
    found = tuple(
        Match(field=_PLACES[match.field], term=match.label, contribution=share) for match, share in shares
    )
    text = f"{', '.join(map(str, found))}; relevance {relevance:.2f}"
    text += f"; {note}" if note else ""
    return Why(
        matches=found, evidence=_evidence(shares), relevance=relevance, factor=float(factor), text=text
    )


def _evidence(shares: Sequence[tuple[_FieldMatch, float]]) -> tuple[Evidence, ...]:
    """The matches of one hit by word."""
    parts: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for match, share in shares:
        label = "" if match.kind == MEANING else match.label
        parts.setdefault((match.kind, label), []).append((match.field, share))
    found = [
        Evidence(
            kind=kind,
            detail=label,
            fields=tuple(FIELDS[field] for field, _ in sorted(places) if field < len(FIELDS)),
            contribution=sum(share for _, share in places),
        )
        for (kind, label), places in parts.items()
    ]
    return tuple(sorted(found, key=lambda item: (-item.contribution, item.kind, item.detail)))
