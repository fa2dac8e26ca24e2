"""One search over a `SearchIndex`: words select candidates, context orders them, each keeps its reasons.

Every score is a sum, and the reasons of a hit are its summands: nothing moves a memory that its reasons do not show.
The order is fixed: best first, of ties the newest, then by id. The words (with neighbours, speaker, day and meaning)
select the best `CANDIDATES` memories over all arrays of the index; only these are then ordered, so a search costs the
listings of its words, a few vector operations over all memories, and a small constant cost. Nothing is kept between
searches, so every search sees the present index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sense_memory.search import evidence


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sense_memory.search.confidence import Clues
    from sense_memory.search.date_evidence import DateEvidence
    from sense_memory.search.documents import DocumentTable
    from sense_memory.search.lexical import LexicalIndex, TermScores


# ── How evidence becomes one ranking ────────────────────────────────────────────────────
# Every kind of evidence in one unit, then a sum.
#
# The unit is the nat: how surprising it would be for any memory to fit so well by chance. BM25 is in nats, because a
# word counts by the logarithm of how few memories have it. A cosine counts by the same logarithm, as if cosines were
# normally distributed: half the square of how many standard deviations it lies above the mean of all memories. So a
# memory that is clearly nearer to the question than all others stands above those that only share one word with it, and
# a memory that has several rare words of the question stands above both. Dividing the scores of words by their standard
# deviation was worse: where few memories have a word of the question, that one word outvoted everything else.
#
# A word and a meaning are not independent: a text is nearer to a question because it shares a word with it, in whatever
# sense ("Who is her manager?", "the stage manager"). So where a word is all that a memory shares with a question, it
# counts no more than its rarity, and the meaning only as far as it goes beyond the word (`evidence.beyond_words`); but
# the two never count less than the meaning alone. Two words confirm each other's sense: such memories, of which
# conversations are full, keep the plain sum. Judging all memories so lowered BEAM by .014, and dropping the last rule
# put memories that have the word below worse ones that lack it. Bare words are looked up, not understood.
#
# A speaker or a date that fits adds a fixed number of nats. The weights were chosen with LoCoMo conversations and BEAM
# chats, where results hardly change around them, and are round on purpose. An option that is off adds nothing.

CANDIDATES: Final = 1_000  # memories that the words select and all evidence orders
SPEAKER_WEIGHT: Final = 8.0  # nats, of the speaker that is asked for
DATE_WEIGHT: Final = 8.0  # nats, of a memory within the time that is asked for
SESSION_WEIGHT: Final = 1.0  # of one standard deviation among the candidates
SESSION_MEMORIES: Final = 25  # a longer session says less about each of its memories
_SAMPLED: Final = 16  # one score in this many is read to estimate where the highest are
MIN_SIMILAR: Final = 0.2  # the cosine from which a memory without any of the words is a candidate


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The evidence that a search uses in addition to the words of each memory; all of it unless switched off.

    Attributes:
        neighbours: memories said just before and after in the same session or on the same day.
        speaker: who said a memory, where the query names a speaker or says "I" or "you".
        dates: when a memory was said, where the query names a date.
        session: how well the whole session fits.
        spread: compounds, and words that resemble an unknown word.
        pieces: long memories are searched piece by piece; decided when an index is made.
        dense: meaning, where the index has an embedder.
    """

    neighbours: bool = True
    speaker: bool = True
    dates: bool = True
    session: bool = True
    spread: bool = True
    pieces: bool = True
    dense: bool = True


def spread(scores: NDArray[Any]) -> float:
    """The standard deviation of some scores; 1 if it is 0."""
    deviation = float(scores.std(dtype=np.float64)) if len(scores) else 0.0
    return deviation if deviation > 1e-9 else 1.0


def highest_rows(scores: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The places of the `count` highest scores above 0, in no order; with all that tie for the last place."""
    places = np.flatnonzero(scores > 0)
    if len(places) <= count:
        return places
    found = scores[places]
    if len(places) > _SAMPLED * _SAMPLED:
        likely = found >= _last_of(found[::_SAMPLED], 2 * count // _SAMPLED + 1)  # of all about twice as many
        if np.count_nonzero(likely) >= count:
            places, found = places[likely], found[likely]
    chosen: NDArray[np.int64] = places[found >= _last_of(found, count)]
    return chosen


def _last_of(scores: NDArray[Any], count: int) -> Any:
    """The lowest of the highest."""
    place = max(0, len(scores) - count)
    return np.partition(scores, place)[place]


SUM_SHARE: Final = (
    0.5  # the share of neighbours' scores that counts as a sum; the rest counts for missing words only
)
_DIGITS: Final = 5  # scores that agree to this many decimals are a tie
_NEARLY: Final = 1e-4  # scores further apart than this are no tie
_DATED_KEY: Final = 0.5  # added for a day that the query asks for, when candidates are chosen
_SPOKEN_KEY: Final = 0.2  # the share that the speaker who is asked for adds, when candidates are chosen
_STEP: Final = 64  # candidates whose factors are computed at a time

Factors = Callable[["Sequence[str]"], "Sequence[float]"]  # of some ids, each 0 to 1; 0 leaves an id out


@dataclass(frozen=True, slots=True)
class Reason:
    """One summand of a hit's score.

    Attributes:
        kind: "word", "prefix", "phrase", "meaning", "neighbours", "session", "speaker" or "date".
        detail: the word as asked for, the speaker, the day, the session; empty where there is none.
        share: the part of the score that this reason adds.
    """

    kind: str
    detail: str
    share: float


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory that was found.

    Attributes:
        id: as it was put into the index.
        score: higher is better; comparable within one search only.
        why: the reasons that make up the score, the largest first; empty if not wanted.
        clues: for `search.confidence`; None if not wanted.
    """

    id: str
    score: float
    why: tuple[Reason, ...] = field(default=(), repr=False)
    clues: Clues | None = field(default=None, repr=False)

    @property
    def on_day(self) -> float:
        """1 if it was said on the days that the query names, less if soon after them, else 0."""
        return min(1.0, sum(reason.share for reason in self.why if reason.kind == "date") / DATE_WEIGHT)


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query, resolved.

    Attributes:
        scored: the score that each word adds to each piece of a memory.
        speakers: numbers of the speakers meant.
        only_speaker: whether the query asks for the speaker alone.
        dated: the times meant; None if the query names no time.
        only_dated: whether it asks for nothing but these times.
        dense: similarity of every memory to the query, where there is an embedder.
        is_sentence: whether the query is a sentence, and not a list of words to look up.
        allowed: which rows may be found; None for all.
        missing: the words and beginnings of the query that nothing has.
    """

    scored: Sequence[TermScores]
    speakers: frozenset[int] = frozenset()
    only_speaker: bool = False
    dated: DateEvidence | None = None
    only_dated: bool = False
    dense: NDArray[np.float32] | None = None
    is_sentence: bool = False
    allowed: NDArray[np.bool_] | None = None
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class IndexContents:
    """The index that is searched.

    Attributes:
        lexical: the words of the pieces.
        table: the other columns of the memories.
        owners: the memory of each piece.
        lengths: words in each memory.
        session_lengths: words in each session.
    """

    lexical: LexicalIndex
    table: DocumentTable
    owners: NDArray[np.int32]
    lengths: NDArray[np.float32]
    session_lengths: NDArray[np.float64]


class Summand(NamedTuple):
    """One summand of the scores of all candidates: its kind, the detail for a row, and its values."""

    kind: str
    detail: Callable[[int], str]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of one search, by row, with the summands of their scores, and when each was said."""

    rows: NDArray[np.int64]
    times: NDArray[np.float64]
    parts: Sequence[Summand]

    def hits(
        self, ids: Sequence[str], limit: int, is_explained: bool, factors: Factors | None = None
    ) -> list[SearchHit]:
        """The best, best first; of ties the newest, then by id."""
        total = np.zeros(len(self.rows))
        for part in self.parts:
            total += part.values
        places = highest_rows(total, limit) if factors is None else np.argsort(-total, kind="stable")
        keyed: list[tuple[float, float, str, int, float]] = []
        step = len(places) if factors is None else _STEP + limit
        for start in range(0, len(places), step or 1):
            part_of = places[start : start + step]
            if len(keyed) >= limit and total[part_of[0]] < -keyed[limit - 1][0]:
                break  # factors only lower scores, so no later candidate can enter
            names = [ids[row] for row in self.rows[part_of].tolist()]
            shares = [1.0] * len(names) if factors is None else factors(names)
            weighed = total[part_of] * shares
            least = _last_of(weighed, limit) - _NEARLY  # the others cannot enter
            for place in np.flatnonzero((weighed > 0) & (weighed >= least)).tolist():
                at = int(part_of[place])
                score = round(float(weighed[place]), _DIGITS)
                keyed.append((-score, -float(self.times[at]), names[place], at, shares[place]))
            keyed.sort()
        best = keyed[:limit]
        reasons = self._why([hit[-2:] for hit in best]) if is_explained else [()] * len(best)
        return [
            SearchHit(ident, -score, why) for (score, _, ident, _, _), why in zip(best, reasons, strict=True)
        ]

    def _why(self, chosen: Sequence[tuple[int, float]]) -> list[tuple[Reason, ...]]:
        """The reasons of some candidates, each given by its place and its factor."""
        places = [at for at, _ in chosen]
        summands = np.array([part.values[places] for part in self.parts], np.float64).T.tolist()
        rows = self.rows[places].tolist()
        found = []
        for row, values, (_, factor) in zip(rows, summands, chosen, strict=True):
            shares = [round(value * factor, _DIGITS) for value in values]
            reasons = [
                Reason(part.kind, part.detail(row), share)
                for part, share in zip(self.parts, shares, strict=True)
                if share > 0
            ]
            found.append(tuple(sorted(reasons, key=_by_share)))
        return found


def _by_share(reason: Reason) -> tuple[float, str, str]:
    return -reason.share, reason.kind, reason.detail


def rank(question: ResolvedQuery, contents: IndexContents, options: SearchOptions) -> Ranking:
    """Order the memories that a question may mean."""
    words = _Words(question.scored, contents)
    whole, dense = words.own, question.dense
    if options.neighbours:
        sides = contents.table.neighbours()
        whole = whole + evidence.lent(whole, contents.lengths, *sides)
        dense = None if dense is None else dense + evidence.lent(dense, contents.lengths, *sides)
    spoken = _spoken(question, contents.table)
    dated = question.dated
    date_fits = None if dated is None else dated.fits()
    if date_fits is not None and question.only_dated:
        question = _among_dated(question, date_fits)
    rows = _candidates(question, whole, spoken, date_fits)
    if options.neighbours:
        offers = evidence.surroundings(rows, *sides)
        own, lent = words.among(rows, offers, evidence.leaning(contents.lengths[rows]))
        near = (whole[rows] - words.own[rows]) * np.float32(SUM_SHARE) + lent * np.float32(1 - SUM_SHARE)
    else:
        own, near = words.among(rows)
    meaning = None
    if dense is not None:
        own, meaning = _meant(question, contents, rows, own, dense)
    parts = [
        Summand(item.wanted.kind, _always(item.wanted.label), values)
        for item, values in zip(question.scored, own, strict=True)
    ]
    parts.append(Summand("neighbours", _always(""), near))
    if options.session and question.scored:
        parts.append(_session_summand(question, contents, rows))
    if spoken is not None:
        parts.append(Summand("speaker", contents.table.speaker, spoken[rows] * np.float32(SPEAKER_WEIGHT)))
    if dated is not None and date_fits is not None:
        parts.append(Summand("date", dated.fit_of, date_fits[rows] * np.float32(DATE_WEIGHT)))
    if meaning is not None:
        parts.append(Summand("meaning", _always(""), meaning))
    return Ranking(rows, contents.table.last_times(rows), parts)


def _meant(
    question: ResolvedQuery,
    contents: IndexContents,
    rows: NDArray[np.int64],
    own: list[NDArray[np.float32]],
    dense: NDArray[np.float32],
) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """The scores that each word adds to some memories, where meaning counts too, and those that meaning adds."""
    is_read = contents.table.column("alive") & (question.dense != 0)  # gaps would narrow the spread
    places = _places(dense, is_read)
    meaning, only = _surprise(places[rows]), _only_words(question.scored, contents.owners, is_read)
    if question.is_sentence:
        own = _bounded(own, question.scored, only[rows] != evidence.NO_WORD)
        beyond = _surprise(evidence.beyond_words(places, only)[rows])
        meaning = np.maximum(beyond, meaning - np.sum(own, axis=0, dtype=np.float32))
    meaning += np.maximum(dense[rows], 0)  # tells apart those that are no surprise
    for number, item in enumerate(question.scored):
        if item.is_other is not None and item.is_other.any():
            itself = _among(rows, contents.owners[item.rows[~item.is_other]], len(places))
            evidence.lower_others(meaning, (only[rows] == number) & ~itself, itself)
    return own, meaning


def _only_words(
    scored: Sequence[TermScores], owners: NDArray[np.int32], is_read: NDArray[np.bool_]
) -> NDArray[np.int16]:
    """`evidence.only_words` of the memories that were read."""
    only = evidence.only_words((owners[item.rows] for item in scored), len(is_read))
    only[~is_read] = evidence.NO_WORD
    return only


def _among(rows: NDArray[np.int64], holders: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Whether some of all memories are among others."""
    there = np.zeros(count, np.bool_)
    there[holders] = True
    return there[rows]


def _bounded(
    own: Sequence[NDArray[np.float32]], scored: Sequence[TermScores], is_one_word: NDArray[np.bool_]
) -> list[NDArray[np.float32]]:
    """The scores that each word adds; to a memory with one word of the question, no more than that word's rarity."""
    return [
        np.where(is_one_word, np.minimum(values, np.float32(item.rarity)), values)
        for item, values in zip(scored, own, strict=True)
    ]


def _places(cosines: NDArray[np.float32], is_read: NDArray[np.bool_]) -> NDArray[np.float32]:
    """How many standard deviations each memory lies above the mean of those that were read."""
    among = cosines[is_read]
    usual = float(among.mean()) if len(among) else 0.0
    found: NDArray[np.float32] = (cosines - np.float32(usual)) / np.float32(spread(among))
    return found


def _surprise(places: NDArray[np.float32]) -> NDArray[np.float32]:
    """How surprising it would be for any memory to lie so high by chance."""
    above: NDArray[np.float32] = np.maximum(places, 0)
    above *= above
    above /= 2
    return above


class _Words:
    """The score that each word adds to each memory, in the piece where all words together add most."""

    def __init__(self, scored: Sequence[TermScores], contents: IndexContents) -> None:
        self._scored = scored
        self._nothing = len(contents.owners)  # the place of -1, no memory
        self.own = contents.lexical.totals(scored)
        self._best: NDArray[np.int64] | None = None  # piece of each memory; None where each has only one
        first_pieces = contents.table.column("first_piece")
        if self._nothing > len(first_pieces):
            found = np.flatnonzero(self.own > 0)
            theirs, scores = contents.owners[found], self.own[found]
            self.own = np.zeros(len(first_pieces), np.float32)
            np.maximum.at(self.own, theirs, scores)
            best = np.flatnonzero(scores == self.own[theirs])[::-1]  # of equal pieces the first
            self._best = np.append(first_pieces, self._nothing)
            self._best[theirs[best]] = found[best]

    def among(
        self,
        rows: NDArray[np.int64],
        offers: Sequence[tuple[NDArray[np.int32], float]] = (),
        lean: NDArray[np.float32] | None = None,
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
        """The scores that each word adds to some memories, and the scores that their neighbours lend them.

        Args:
            rows: the memories.
            offers: the neighbours of each, and the share that they lend.
            lean: how much each leans on its neighbours.

        Returns:
            By word, the scores that it adds; and the sum over words of what the best neighbour has beyond these.
        """
        own, lent = [], np.zeros(len(rows), np.float32)
        places = self._pieces(rows)
        theirs = [(self._pieces(others), np.float32(share)) for others, share in offers]
        dense = np.zeros(self._nothing + 1, np.float32)
        for item in self._scored:
            dense[item.rows] = item.scores
            own.append(dense[places])
            if lean is not None:
                best = reduce(np.maximum, (dense[place] * share for place, share in theirs))
                lent += np.maximum(best * lean - own[-1], 0)
            dense[item.rows] = 0
        return own, lent

    def _pieces(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The best pieces of some memories; for -1, no memory, the last place."""
        return rows if self._best is None else self._best[rows]


def _candidates(
    question: ResolvedQuery,
    whole: NDArray[np.float32],
    spoken: NDArray[np.float32] | None,
    date_fits: NDArray[np.float32] | None,
) -> NDArray[np.int64]:
    """The memories to order: the best by words, meaning and speaker, and those from the days asked for."""
    key = whole / max(float(np.max(whole)) if len(whole) else 0.0, 1e-9)
    if date_fits is not None:
        key = key + date_fits * np.float32(_DATED_KEY)
    if question.dense is not None:
        key = key + question.dense * (question.dense >= MIN_SIMILAR)
    if spoken is not None:
        key = key * (1 + spoken * np.float32(_SPOKEN_KEY))
        if question.only_speaker:
            key = key + spoken
    if question.allowed is not None:
        key = key * question.allowed
    return np.sort(highest_rows(key, CANDIDATES))


def _spoken(question: ResolvedQuery, table: DocumentTable) -> NDArray[np.float32] | None:
    if not question.speakers:
        return None
    spoken = evidence.spoken_by(table.column("speakers"), question.speakers, len(table.speakers.all))
    spoken *= table.column("alive")
    return spoken


def _among_dated(question: ResolvedQuery, date_fits: NDArray[np.float32]) -> ResolvedQuery:
    """The question among the memories of its times; the question as it is if there are none."""
    allowed = date_fits > 0 if question.allowed is None else question.allowed & (date_fits > 0)
    return replace(question, allowed=allowed) if allowed.any() else question


def _session_summand(question: ResolvedQuery, contents: IndexContents, rows: NDArray[np.int64]) -> Summand:
    """The summand of the candidates' sessions; long sessions count less."""
    sessions = contents.table.column("sessions")
    totals = evidence.session_scores(question.scored, contents.owners, sessions, contents.session_lengths)
    of_rows = np.append(totals, 0)[sessions[rows]]
    sizes = np.append(contents.table.session_sizes, 1)[sessions[rows]]
    values = of_rows - of_rows.min(initial=np.inf)
    values *= np.minimum(1, SESSION_MEMORIES / np.maximum(1, sizes))
    return Summand("session", _always(""), values * SESSION_WEIGHT / spread(of_rows))


def _always(text: str) -> Callable[[int], str]:
    return lambda row: text  # noqa: ARG005
