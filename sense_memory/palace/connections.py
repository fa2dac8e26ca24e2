"""Connection discovery: pairs of memories that share two or more themes and are not connected. Pure.

Guaranteed: the result is deterministic, every pair is a pair of active or fading memories whose relation is not decided
yet, and a search that reached a bound says so in `Suggestions.bounded`. The work is bounded for a palace of any size.

Memories with the same two themes form a group. Pairs are taken from the smallest groups first, because a rare theme is
the strongest evidence, and the best of the scored pairs are listed. If not all fit, each memory first appears in two
pairs at most. A caller with embeddings may add pairs that are near in meaning.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from sense_memory.limits import (
    FADING_FROM,
    MAX_ALIKE_COUNT,
    SCORED_PAIRS_COUNT,
    SUGGESTED_PAIRS_COUNT,
    THEME_GROUP_COUNT,
    THEME_PAIRS_COUNT,
    THEMES_PAIRED_COUNT,
)
from sense_memory.models import PINNED


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory


# ── Links ───────────────────────────────────────────────────────────────────────────────
# A link is a path, or a bare key that only one memory has. A link to a missing memory, an ambiguous bare key, and a link
# of a memory to itself are ignored here, because names are checked when they are written.


class Edges(NamedTuple):
    """Links as two parallel columns, in the order of the owners and of their links.

    Attributes:
        owners: the places of the memories that have the links.
        others: the places of the memories to which the links lead.
    """

    owners: NDArray[np.int64]
    others: NDArray[np.int64]


class Links:
    """The links of some memories; a memory is named by its place in the sequence.

    Args:
        memories: each path once.
        paths: the paths of the memories, if the caller already has them.

    Attributes:
        paths: the paths of the memories.
        connected: the links in `connections`.
        opposed: the places that `contradicts` and `superseded_by` name, by the place of the memory with these fields.
        dismissed: the places that `dismissed` and `conflict_of` name, likewise.
    """

    def __init__(self, memories: Sequence[PersonaMemory], paths: Sequence[str] | None = None) -> None:
        self.paths = [memory.path for memory in memories] if paths is None else paths
        self._memories = memories
        self._places = dict(zip(self.paths, range(len(memories)), strict=True))
        self._of_keys: dict[str, int] | None = None  # most palaces have no bare link
        self.connected = self._edges([memory.connections for memory in memories])
        self.opposed: dict[int, set[int]] = {}
        self.dismissed: dict[int, set[int]] = {}
        for place, memory in enumerate(memories):
            if memory.contradicts or memory.superseded_by is not None:
                self.opposed[place] = self._places_named(place, (*memory.contradicts, memory.superseded_by))
            if memory.dismissed or memory.conflict_of is not None:
                self.dismissed[place] = self._places_named(place, (*memory.dismissed, memory.conflict_of))

    def place(self, link: str) -> int | None:
        """The place of the memory to which a link leads; None if it leads to no memory."""
        found = self._places.get(link, -1) if "/" in link else self._of_key(link)
        return None if found < 0 else found

    def settled(self) -> Edges:
        """All links of any kind. The relation of two linked memories is decided: nothing is suggested for them."""
        lists = [*self.opposed.items(), *self.dismissed.items()]
        owners = np.repeat([place for place, _ in lists], [len(meant) for _, meant in lists])
        others = [other for _, meant in lists for other in meant]
        return Edges(
            np.concatenate((self.connected.owners, owners)).astype(np.int64),
            np.concatenate((self.connected.others, others)).astype(np.int64),
        )

    def _places_named(self, place: int, links: Sequence[str | None]) -> set[int]:
        found = {self.place(link) for link in links if link is not None} - {None, place}
        return {other for other in found if other is not None}

    def _edges(self, lists: Sequence[Sequence[str]]) -> Edges:
        links = list(chain.from_iterable(lists))
        owners = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
        others = np.fromiter(map(self._places.get, links, repeat(-1)), np.int64, len(links))
        for number in np.flatnonzero(others < 0).tolist():
            if "/" not in links[number]:
                others[number] = self._of_key(links[number])
        meant = (others >= 0) & (others != owners)
        return Edges(owners[meant], others[meant])

    def _of_key(self, key: str) -> int:
        """The place of the only memory with a bare key; -1 if no memory or several have it."""
        if self._of_keys is None:
            self._of_keys = {}
            for place, memory in enumerate(self._memories):
                self._of_keys[memory.key] = -1 if memory.key in self._of_keys else place
        return self._of_keys.get(key, -1)


_SHOWN_COUNT: Final = 5  # themes that a reason names
_PAIRS_PER_MEMORY_COUNT: Final = 2  # keeps ten similar memories from filling the list
_POOL_FACTOR: Final = 10  # candidates for each pair that is listed


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Two memories that could be connected.

    Attributes:
        first: the memory whose path comes first.
        second: the other memory.
        score: the rarer the shared themes, the higher; comparable within one run only.
        reason: what the two memories have in common.
    """

    first: PersonaMemory
    second: PersonaMemory
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The result of a search for connections.

    Attributes:
        pairs: best first.
        bounded: why there may be more pairs, in words; empty if all pairs were scored and are listed.
    """

    pairs: tuple[Suggestion, ...] = ()
    bounded: tuple[str, ...] = ()


def suggest(
    memories: Sequence[PersonaMemory],
    relevances: Sequence[float] | NDArray[np.float64],
    *,
    links: Links | None = None,
    near: Iterable[tuple[str, str, float]] = (),
    undecided: Iterable[tuple[str, str]] = (),
    count: int = SUGGESTED_PAIRS_COUNT,
) -> Suggestions:
    """Pairs of active or fading memories that could be connected (sense-memory v2, "Connection Discovery").

    Themes are compared without case and accents. Two memories are not suggested if either is linked to the other as a
    connection, a contradiction, a successor, a dismissal, or the original of a conflict copy.

    Args:
        memories: each path once, in any order.
        relevances: the current relevance of each memory, in the same order (see `palace.catalog`).
        links: the links of the same memories, if the caller already has them.
        near: pairs (path, path, similarity above 0 and up to 1) that are near in meaning. They are suggested whatever
            themes they share. A similarity weighs at most as much as a theme that only these two memories have.
        undecided: pairs of paths that are not suggested, because another question about them is open: one dismissal would
            settle both.
        count: the largest number of pairs.
    """
    links = links or Links(memories)
    candidates = _Candidates(memories, np.asarray(relevances, dtype=np.float64), links, undecided)
    bounded = candidates.themes.bounded()
    alike = candidates.alike(bounded)
    similar = candidates.near(near)
    scored = _spread(candidates.scored(alike, similar, _POOL_FACTOR * count), count)
    if len(alike) + len(similar) > count:
        bounded.append(f"only the best {count} pairs are listed")
    return Suggestions(tuple(candidates.suggestion(found, similar) for found in scored), tuple(bounded))


def _spread(scored: Sequence[_ScoredPair], count: int) -> list[_ScoredPair]:
    """The best of some ranked pairs. If not all fit, pairs of memories that are in few chosen pairs come first."""
    uses = Counter[int]()
    chosen: list[_ScoredPair] = []
    others: list[_ScoredPair] = []
    for pair in scored:
        both = (pair.first, pair.second)
        is_new = all(uses[number] < _PAIRS_PER_MEMORY_COUNT for number in both)
        (chosen if is_new else others).append(pair)
        if is_new:
            uses.update(both)
    return sorted([*chosen, *others][:count])


def folded(text: str) -> str:
    """A theme without case, accents and extra blanks."""
    if text.isascii():  # most themes are ASCII, and a large palace has many
        return " ".join(text.lower().split())
    parts = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(sign for sign in parts if not unicodedata.combining(sign)).casefold().split())


@dataclass(frozen=True, slots=True)
class _Themes:
    """The themes of some memories, as numbers.

    Attributes:
        table: a row for each memory, with the themes that other memories have too, rarest first; padded with -1.
        weights: the weight of each shared theme, higher for rarer themes.
        cut: the number of memories with more themes than a row holds.
    """

    table: NDArray[np.int64]
    weights: NDArray[np.float64]
    cut: int

    @classmethod
    def of(cls, spelled: Sequence[Sequence[str]]) -> _Themes:
        """The themes of each memory, from their written forms."""
        texts = {theme: folded(theme) for theme in set(chain.from_iterable(spelled))}
        numbers = {text: number for number, text in enumerate(sorted(set(texts.values())))}
        of_themes = {
            theme: numbers[text] if text not in {"", PINNED} else -1 for theme, text in texts.items()
        }
        flat = np.fromiter(map(of_themes.__getitem__, chain.from_iterable(spelled)), np.int64)
        lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))
        owners = np.repeat(np.arange(len(spelled)), lengths)[flat >= 0]
        total = max(1, len(numbers))
        owners, flat = np.divmod(np.unique(owners * total + flat[flat >= 0]), total)
        counts = np.bincount(flat, minlength=total)
        owners, flat = owners[counts[flat] > 1], flat[counts[flat] > 1]
        order = np.lexsort((flat, counts[flat], owners))
        owners, flat = owners[order], flat[order]
        columns = np.arange(len(owners)) - np.searchsorted(owners, owners)
        fits = columns < THEMES_PAIRED_COUNT
        table = np.full((len(spelled), THEMES_PAIRED_COUNT), -1, dtype=np.int64)
        table[owners[fits], columns[fits]] = flat[fits]
        cut = np.count_nonzero(columns == THEMES_PAIRED_COUNT)
        return cls(table, np.log1p(len(spelled) / np.maximum(counts, 1)), int(cut))

    def bounded(self) -> list[str]:
        """In words, how many memories have themes that were left out; empty if none."""
        few = f"of {self.cut:,} memories only the {THEMES_PAIRED_COUNT} rarest themes count"
        return [few] if self.cut else []

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every pair of themes of every memory: the pair as one number, and the number of the memory."""
        codes, members = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for other in range(1, THEMES_PAIRED_COUNT):
            rows = np.flatnonzero(self.table[:, other] >= 0)
            table = self.table[rows]
            for one in range(other if len(rows) else 0):
                low, high = (
                    np.minimum(table[:, one], table[:, other]),
                    np.maximum(table[:, one], table[:, other]),
                )
                codes.append(low * len(self.weights) + high)
                members.append(rows)
        return np.concatenate(codes), np.concatenate(members)

    def shared(self, firsts: NDArray[np.int64], seconds: NDArray[np.int64]) -> NDArray[np.float64]:
        """The sum of the weights of the themes that both memories of a pair have, for each pair."""
        ours, theirs = self.table[firsts], self.table[seconds]
        found = np.zeros(len(firsts))
        for column in ours.T:
            common = (column[:, None] == theirs).any(axis=1) & (column >= 0)
            found[common] += self.weights[column[common]]
        return found


class _ScoredPair(NamedTuple):
    """A pair that sorts by rank, best first. `first` and `second` are numbers of candidates."""

    minus_score: float
    apart: bool  # whether the memories are in different domains; among equal scores, pairs of one domain come first
    path: str
    other_path: str
    first: int
    second: int


class _Candidates:
    """The memories that may be connected, most relevant first. A pair is the number first * count + second."""

    def __init__(
        self,
        memories: Sequence[PersonaMemory],
        relevances: NDArray[np.float64],
        links: Links,
        undecided: Iterable[tuple[str, str]],
    ) -> None:
        by_path = np.array(sorted(range(len(memories)), key=links.paths.__getitem__), dtype=np.int64)
        by_relevance = by_path[np.argsort(-relevances[by_path], kind="stable")]
        chosen = by_relevance[relevances[by_relevance] >= FADING_FROM]
        self._places: list[int] = chosen.tolist()
        self._of_places = np.full(len(memories), -1, dtype=np.int64)
        self._of_places[chosen] = np.arange(len(chosen))
        self._links, self._undecided = links, undecided
        self._memories = memories
        self._count = max(1, len(chosen))
        # Visited in the order of memory addresses, which takes a fraction of the time of the order of relevance.
        spelled = [memories[place].themes for place in np.sort(chosen).tolist()]
        themes = _Themes.of(spelled)
        self.themes = _Themes(themes.table[np.argsort(np.argsort(chosen))], themes.weights, themes.cut)

    def alike(self, bounded: list[str]) -> NDArray[np.int64]:
        """Pairs that share two themes and are not settled, pairs of small groups first."""
        pairs = _joined(self._groups(bounded), self._count, bounded)
        if len(pairs):
            pairs = pairs[~np.isin(pairs, self._settled)]
        if len(pairs) > SCORED_PAIRS_COUNT:
            bounded.append(
                f"{SCORED_PAIRS_COUNT:,} of {len(pairs):,} pairs were scored, those with rare themes first"
            )
        return pairs[:SCORED_PAIRS_COUNT]

    def near(self, named: Iterable[tuple[str, str, float]]) -> dict[int, float]:
        """The named pairs that may be connected, with their similarities."""
        found: dict[int, float] = {}
        for one, other, similarity in islice(named, SCORED_PAIRS_COUNT):
            first, second = sorted((self._number_of(one), self._number_of(other)))
            if first >= 0 and first != second and 0 < similarity < math.inf:
                pair = first * self._count + second
                found[pair] = max(min(similarity, 1.0), found.get(pair, 0.0))
        settled = set(self._settled.tolist()) if found else set()
        return {pair: similarity for pair, similarity in found.items() if pair not in settled}

    def scored(self, alike: NDArray[np.int64], similar: dict[int, float], count: int) -> list[_ScoredPair]:
        """The best pairs, best first."""
        pairs = np.unique(np.r_[alike, np.fromiter(similar, np.int64)])
        firsts, seconds = np.divmod(pairs, self._count)
        scores = self.themes.shared(firsts, seconds)
        if similar:
            rarest = math.log1p(self._count)
            scores += np.array([rarest * similar.get(pair, 0.0) for pair in pairs.tolist()])
        scores = scores.round(9)
        if count < len(scores):
            good = scores >= np.partition(scores, -count)[-count]  # and all that tie with the last
            firsts, seconds, scores = firsts[good], seconds[good], scores[good]
        rows = zip(firsts.tolist(), seconds.tolist(), scores.tolist(), strict=True)
        return heapq.nsmallest(count, (self._ranked(first, second, score) for first, second, score in rows))

    def suggestion(self, scored: _ScoredPair, similar: dict[int, float]) -> Suggestion:
        """The suggestion of a scored pair, with its reason."""
        one, other = self._memory(scored.first), self._memory(scored.second)
        words = {folded(theme): theme for theme in reversed(one.themes)}
        theirs = {folded(theme) for theme in other.themes}
        shared = sorted(text for text in words if text and text in theirs)
        reasons = []
        if shared:
            shown = ", ".join(words[text] for text in shared[:_SHOWN_COUNT])
            more = f" and {len(shared) - _SHOWN_COUNT} more" if len(shared) > _SHOWN_COUNT else ""
            reasons.append(f"share: {shown}{more}")
        low, high = sorted((scored.first, scored.second))
        similarity = similar.get(low * self._count + high)
        if similarity is not None:
            reasons.append(f"near in meaning ({similarity:.2f})")
        return Suggestion(one, other, -scored.minus_score, "; ".join(reasons))

    def _groups(self, bounded: list[str]) -> Iterator[NDArray[np.int64]]:
        """Groups of memories with the same two themes: an array for each size, a row for each group, smallest first."""
        codes, members = self.themes.pairs()
        order = np.lexsort((members, codes))
        codes, members = codes[order], members[order]
        starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else codes
        sizes = np.diff(np.r_[starts, len(codes)])
        if np.any(sizes > THEME_GROUP_COUNT):
            bounded.append(
                f"of memories that share two themes, only the {THEME_GROUP_COUNT} most relevant are compared"
            )
        lengths = np.minimum(sizes, THEME_GROUP_COUNT)
        for length in range(2, THEME_GROUP_COUNT + 1):
            chosen = starts[lengths == length]
            if len(chosen):
                yield members[chosen[:, None] + np.arange(length)]

    @cached_property
    def _settled(self) -> NDArray[np.int64]:
        """The pairs of memories that are linked, or undecided, which are not suggested."""
        owners, others = (self._of_places[places] for places in self._links.settled())
        numbers = [(self._number_of(one), self._number_of(other)) for one, other in self._undecided]
        open_owners, open_others = np.array(numbers, np.int64).reshape(-1, 2).T
        owners, others = np.r_[owners, open_owners], np.r_[others, open_others]
        both = (owners >= 0) & (others >= 0)
        first, second = np.minimum(owners, others)[both], np.maximum(owners, others)[both]
        pairs: NDArray[np.int64] = first * self._count + second
        return pairs

    def _ranked(self, first: int, second: int, score: float) -> _ScoredPair:
        apart = self._memory(first).domain != self._memory(second).domain
        (path, one), (other_path, other) = sorted(
            (self._links.paths[self._places[number]], number) for number in (first, second)
        )
        return _ScoredPair(-score, apart, path, other_path, one, other)

    def _memory(self, number: int) -> PersonaMemory:
        return self._memories[self._places[number]]

    def _number_of(self, path: str) -> int:
        place = self._links.place(path)
        return -1 if place is None else int(self._of_places[place])


def _joined(groups: Iterable[NDArray[np.int64]], count: int, bounded: list[str]) -> NDArray[np.int64]:
    """The pairs within groups, each pair once, in the order of the groups."""
    found, total = [np.empty(0, np.int64)], 0
    for group in groups:
        one, other = np.triu_indices(group.shape[1], 1)
        rows = max(0, THEME_PAIRS_COUNT - total) // len(one)
        # The members of a group are sorted, so the first number of a pair is the smaller one.
        found.append((group[:rows, one] * count + group[:rows, other]).ravel())
        total += len(found[-1])
        if rows < len(group):
            bounded.append("themes that many memories share were not all compared")
            break
    pairs = np.concatenate(found)
    _, places = np.unique(pairs, return_index=True)
    return pairs[np.sort(places)]


# ── Similarity of meaning ───────────────────────────────────────────────────────────────
# Cosines differ from model to model, so a similarity is measured relative to the average cosine of the palace: 0 at the
# average, 1 for equal vectors. The work is bounded: only the first `MAX_ALIKE_COUNT` memories are compared.

PER_MEMORY_COUNT: Final = 5  # nearest neighbours of each memory
# The least similarity of a pair. On labelled pairs, with a table and with a small model, nearly all pairs above it share a
# subject; one random pair in a thousand is above it.
NEAR: Final = 0.55
_BLOCK_ROWS: Final = 512


def near_pairs(paths: Sequence[str], rows: NDArray[np.float32]) -> list[tuple[str, str, float]]:
    """The pairs of memories that mean nearly the same, nearest first.

    Args:
        paths: the paths of the memories, each once; only the first `MAX_ALIKE_COUNT` are compared.
        rows: a unit vector for each memory; a vector of zeros is near no other.

    Returns:
        Triples of path, path, and similarity relative to the average cosine, from `NEAR` to 1; for `suggest`.
    """
    rows = np.ascontiguousarray(rows[:MAX_ALIKE_COUNT], np.float32)
    count = len(rows)
    if count < 2:
        return []
    total = rows.sum(0, dtype=np.float64)
    usual = max(0.0, float(total @ total - count) / (count * (count - 1)))
    bound = usual + NEAR * (1 - usual)
    found: dict[tuple[int, int], float] = {}
    for start in range(0, count, _BLOCK_ROWS):
        for first, second, cosine in _nearest(rows, start, bound):
            found[min(first, second), max(first, second)] = cosine
    pairs = [
        (paths[first], paths[second], min(1.0, (cosine - usual) / max(1 - usual, 1e-6)))
        for (first, second), cosine in found.items()
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _nearest(rows: NDArray[np.float32], start: int, bound: float) -> list[tuple[int, int, float]]:
    """The nearest neighbours of each row of one block, with a cosine of at least `bound`."""
    cosines = rows[start : start + _BLOCK_ROWS] @ rows.T
    own = np.arange(len(cosines))
    cosines[own, start + own] = -1.0
    near = cosines >= bound
    crowded = np.flatnonzero(near.sum(1) > PER_MEMORY_COUNT)
    best = np.argpartition(-cosines[crowded], PER_MEMORY_COUNT - 1, axis=1)[:, :PER_MEMORY_COUNT]
    near[crowded] = False
    near[crowded[:, None], best] = True
    places, others = np.nonzero(near)
    return list(
        zip((start + places).tolist(), others.tolist(), cosines[places, others].tolist(), strict=True)
    )
