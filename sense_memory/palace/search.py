"""Search in the palace: the specification's weights (key 3, themes 2, value 1), over the one index of `search`.

The index holds palace memories together with other items, which this ranking ignores: rarity is counted among persona
memories, and a word that only other items have is unknown. The score of a memory is the sum, over the words, phrases
and beginnings of the query, of

    weight of the field x how well the memory's word fits x how rare the word is

times the square of the share of the query that the memory covers (parts weigh by their rarity), times its current
relevance. Repeating a word in a field adds nothing. The same word fits 1; another form of the word somewhat less, if
the word itself is known too; the continuation of a beginning 0.8; a compound, or a word that only resembles an unknown
word, 0.5. Rarity has the mean 1 over the parts of the query, so the score of a single word, and of a memory that has
all words, is exactly the specification's: the sum of 3, 2 and 1, times relevance. So a memory that covers the question
comes before one with a single word of it in the key: "Where does Kaja live?" finds "Kaja lives in Graz" before
`live-music`. A meaning, where there is one, adds to that; for a memory with a single word of a question as in
`search.ranking`. This module reads no clock and keeps no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sense_memory.limits import ACTIVE_ABOVE, FADING_FROM
from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import STATES, relevances_at, row, states_at
from sense_memory.palace.field_matches import DATE, DATE_WEIGHT, FIELDS, MEANING, PLACES, FieldMatches
from sense_memory.palace.lifecycle import state_at
from sense_memory.search.direct_relevance import DirectRelevance
from sense_memory.search.documents import Ageing, SearchItem
from sense_memory.search.hits import NOT_QUOTED, Evidence, Explanation, Hits, Kind, told
from sense_memory.search.index import SearchIndex
from sense_memory.search.query import parse, resolve
from sense_memory.search.quotations import quoting
from sense_memory.search.ranking import highest_rows


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.palace.field_matches import FieldMatch
    from sense_memory.search.confidence import Clues
    from sense_memory.search.date_evidence import DateEvidence


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
    """A palace memory that was found by a search: all fields of a `Hit`, and those of the memory.

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


KIND: Final = "palace"  # of palace memories, in the index and in item ids
ROLES: Final = frozenset({"user", "agent"})  # the sources that "I" and "you" in a question may mean
STAMP_BYTES: Final = 8
_ID: Final = f"{KIND}/"
_RANKED: Final = frozenset({DATE, "supersedes", "later", "newest"})  # matches that are no place of a word
_LEAST_FACTOR: Final = 1e-12  # so that the score of a memory that has almost no relevance is not 0
_DIGITS: Final = 6  # scores that agree to this many decimals are a tie


# ── Palace memories in the index ───────────────────────────────────────────────────────


def stamp_of(memory: PersonaMemory) -> int:
    """A hash of all that the index takes from a palace memory; a new hash means that the memory is indexed anew."""
    joined = "\0".join((memory.key, *memory.themes, "", memory.value, memory.source))
    digest = blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=STAMP_BYTES).digest()
    return int.from_bytes(digest, "big")


def item_of(memory: PersonaMemory, event: int = 0) -> SearchItem:
    """A palace memory as the index takes it.

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
    """Which palace memories a search may find: active ones, and fading ones that the query directly means.

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
    """Which palace memories a search for one state may find; "forgotten" includes dissolved ones, not pruned yet."""
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


class PalaceIndex:
    """The palace memories in an index.

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
            Best first; ties by relevance, then by path; for a question that names a time, the newest before.
        """
        look = FieldMatches(self.index, self._is_there())
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
        scored = _Scored(rows, matches, current, factors, totals, dated)
        direct = DirectRelevance(self.index, query, look.is_there, meant, dated)
        is_first, is_late = _shown(direct, scored, state)
        totals[~(is_first | is_late)] = 0
        if only is not None:
            for at in np.flatnonzero(totals).tolist():
                totals[at] *= only(self._path(rows[at]))
        note = self._keep_quoted(query, scored, is_first)
        if dated is not None and dated.is_all(wanted):
            scored.keep_dated()
        best, more = list[tuple[float, int]](), limit + 1  # the clues of the last hit need the next one
        for is_shown in (is_first, is_late) if forgotten else (is_first,):
            best += self._best(scored, is_shown, more - len(best))
        ids, said = self.index.documents.ids, frozenset[str]() if dated is None else dated.words
        shown = [(ids[rows[at]], score, scored.on_day(at)) for score, at in best]
        clues = self.index.clues(query, wanted, shown, beyond_names, said)
        found = [
            PalaceMatch(self._path(rows[at]), score, scored.why(at, note), known)
            for (score, at), known in zip(best[:limit], clues, strict=False)
        ]
        late = int(np.count_nonzero(totals[is_late]))
        return Hits(found, forgotten=late - sum(match.why.relevance < FADING_FROM for match in found if late))

    def _keep_quoted(self, query: str, scored: _Scored, is_first: NDArray[np.bool_]) -> str:
        """Keep only what has all that the query quotes, if a memory has that which a search shows; else a note on it."""
        has_quoted = quoting(self.index, query)
        if has_quoted is None:
            return ""
        has_quoted = has_quoted[scored.rows]
        if not (scored.totals[has_quoted & is_first] > 0).any():
            return NOT_QUOTED
        scored.totals[~has_quoted] = 0
        return ""

    def _best(self, scored: _Scored, is_shown: NDArray[np.bool_], limit: int) -> list[tuple[float, int]]:
        """The highest totals above 0 and their places; ties by time if the question is dated, then relevance and path."""
        totals, rows = np.where(is_shown, scored.totals, 0), scored.rows
        is_dated = scored.dated is not None
        times = self.index.documents.last_times(rows) if is_dated else np.zeros(len(rows))
        keyed = sorted(
            (
                -round(float(totals[at]), _DIGITS),
                -float(times[at]),
                -float(scored.current[at]),
                self._path(rows[at]),
                at,
            )
            for at in (highest_rows(totals, limit).tolist() if limit > 0 else ())
        )
        return [(-key[0], key[-1]) for key in keyed[:limit]]

    def _is_there(self) -> NDArray[np.bool_]:
        return self.index.documents.of_kind(KIND)

    def _path(self, row: int) -> str:
        return self.index.documents.ids[row].removeprefix(_ID)


# ── What a search weighs ────────────────────────────────────────────────────────────────


class _Scored(NamedTuple):
    """The memories that match a query.

    Attributes:
        rows: in the index.
        matches: what the score is made of, before age; where the query names a time, that comes last.
        current: their relevances.
        factors: of the scores, for that relevance.
        totals: the scores; 0 for a memory that is not found after all.
        dated: the times that the query names.
    """

    rows: NDArray[np.int64]
    matches: Sequence[FieldMatch]
    current: NDArray[np.float64]
    factors: NDArray[np.float64]
    totals: NDArray[np.float64]
    dated: DateEvidence | None

    def keep_dated(self) -> None:
        """Keep only the memories of the times that the query names, if there are any."""
        is_dated = self.matches[-1].values > 0
        if (self.totals[is_dated] > 0).any():
            self.totals[~is_dated] = 0

    def on_day(self, at: int) -> float:
        """How well a memory fits the times that the query names, 0 to 1."""
        return 0.0 if self.dated is None else float(self.matches[-1].values[at]) / DATE_WEIGHT

    def why(self, at: int, note: str) -> Why:
        """The reasons of a memory."""
        matches = _with_time(self.matches, self.dated, int(self.rows[at]))
        return _why(matches, at, self.factors[at], float(self.current[at]), note)


def _shown(
    direct: DirectRelevance, scored: _Scored, state: State | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which memories a search may show, and which only after these, or count: forgotten ones that are directly meant."""
    rows, current = scored.rows, scored.current
    is_late = np.zeros(len(rows), np.bool_)
    if state is not None:
        return is_in_state(current, state), is_late
    gone = np.flatnonzero((current < FADING_FROM) & (scored.totals > 0))
    if len(gone):
        is_late[gone] = direct.rows[rows[gone]]
    return is_open(current, lambda: direct.rows[rows]), is_late


def _with_time(matches: Sequence[FieldMatch], dated: DateEvidence | None, row: int) -> Sequence[FieldMatch]:
    """The matches with the time of a row that fits the question best."""
    if dated is None:
        return matches
    return [match._replace(label=dated.fit_of(row)) if match.kind == DATE else match for match in matches]


def _why(matches: Sequence[FieldMatch], at: int, factor: float, relevance: float, note: str) -> Why:
    shares = [(match, float(match.values[at] * factor)) for match in matches if match.values[at] > 0]
    shares.sort(key=lambda share: (-share[1], share[0].field, share[0].label))
    found = tuple(
        Match(field=PLACES[match.field], term=match.label, contribution=share) for match, share in shares
    )
    text = f"{', '.join(map(str, found))}; relevance {relevance:.2f}"
    text += f"; {note}" if note else ""
    return Why(
        matches=found, evidence=_evidence(shares), relevance=relevance, factor=float(factor), text=text
    )


def _evidence(shares: Sequence[tuple[FieldMatch, float]]) -> tuple[Evidence, ...]:
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
