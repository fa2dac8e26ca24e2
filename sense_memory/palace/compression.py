"""The palace in a prompt: the spec's compressed format, active memories only, within a budget of tokens.

    [domain:people/facet:facts]
    vergel: vanilla-js, conventional-commits, no-coauthor, accessibility-first
    lisa: artist, teaches-workshops, partner

    (+37 active memories left out)

Guaranteed: the text never costs more than the budget, by the counter of the caller; every memory in it is whole, because
half a memory can say the opposite; and the same memories give the same text. Safe, because the finished text is counted
as a whole before it is returned. The cost is one pass over the active memories, and a few rounds over those that fit.

Selection. Memories with the theme `pinned` come first. Memories that a question needs come next, if there is a question.
Then identity, the domain `self`, gets up to a quarter of the budget. Without a question, the other domains share the
rest: the next memory always comes from the domain that has cost least so far. Within a domain the most relevant come
first, ties by path. A memory that does not fit is left out, and shorter ones are still tried. The whole text costs less
than the sum of its parts, so further rounds fill the rest of the budget.

Doubt. If a later memory seems to contradict one of the text, that one names it, to be compared: no more is known, so none
is called outdated. The memories of the text are compared with each other; a later one that was left out has to be known as
`suspected`. An edit that lost to a concurrent edit is marked too. All stay in the text.

Headers are in alphabetical order; lines under a header, and memories on a line, are in the order of selection.
`palace.shorthand` shortens the values. Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice, zip_longest
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.limits import ACTIVE_ABOVE
from sense_memory.models import PINNED
from sense_memory.palace.catalog import Columns
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.shorthand import Piece, head_of, header, plain, shorthand
from sense_memory.palace.token_estimate import estimated_tokens


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory


DEFAULT_MAX_TOKENS: Final = 500  # the specification's target for all active memories
MIN_MAX_TOKENS: Final = 32  # fewer tokens cannot hold a header, a line and a notice
IDENTITY: Final = "self"  # the domain of the agent's identity
_IDENTITY_SHARE: Final = 4  # identity gets up to a quarter of the budget before the other domains get any
_MAX_MISSES: Final = (
    8  # after so many consecutive memories that do not fit, the rest of a domain is not tried
)
_MAX_ROUNDS: Final = 4
_SLACK_SHARE: Final = 60  # one 60th of the budget is not worth another round
_MAX_CHARS_PER_TOKEN: Final = 16  # a longer value cannot fit, however well it compresses
_LATER: Final = " (compare {key}, written later)"
_LOST: Final = " (an edit that lost; may be wrong)"
_MAX_CHECKS: Final = (
    8  # searches for contradictions: each mark makes the text longer, and may change the selection
)
_MIN_USED_SHARE: Final = 0.92  # of the budget; below this, memories that fit into the rest are looked for
_MAX_SPARE_COUNT: Final = 200  # memories that are tried for the rest of the budget
_MAX_REPLACED_COUNT: Final = 6  # memories that may make room for longer ones
_SOURCES: Final = (
    "user",
    "agent",
    "",
    "import",
    "document",
    "tool",
)  # from the most trusted kind to the least trusted
_BREAK_TOKENS: Final = 1  # the cost of a line break or a separator


class Compressed(str):
    """A palace, or one domain, as compressed text: headers, lines, and the number of memories that were left out.

    Empty if no memory is active.

    Attributes:
        tokens: the cost of the text, by the counter that was used.
        included: the paths of the memories in the text, in the order of selection.
        sources: the sources of these memories, each once, the least trusted last; "" stands for a missing source.
        has_answer: whether the text was made for a question, and an active memory was found for the question.
        is_doubtful: whether what was found probably does not answer the question.
    """

    __slots__ = ("_left_out", "_ranked", "has_answer", "included", "is_doubtful", "sources", "tokens")

    tokens: int
    included: tuple[str, ...]
    sources: tuple[str, ...]
    has_answer: bool
    is_doubtful: bool
    _ranked: Iterator[PersonaMemory]
    _left_out: tuple[str, ...] | None

    @classmethod
    def of(
        cls,
        text: str,
        tokens: int,
        included: tuple[str, ...],
        ranked: Iterator[PersonaMemory],
        *,
        sources: Iterable[str] = (),
        has_answer: bool = False,
    ) -> Self:
        """A compressed text; `ranked` are all active memories, most relevant first."""
        self = cls(text)
        self.is_doubtful = False
        self.has_answer, self.sources = has_answer, tuple(sorted(set(sources), key=_distrust))
        self.tokens, self.included, self._ranked, self._left_out = tokens, included, ranked, None
        return self

    @property
    def left_out(self) -> tuple[str, ...]:
        """The paths of the other active memories, most relevant first; computed when first used."""
        if self._left_out is None:
            inside = set(self.included)
            self._left_out = tuple(memory.path for memory in self._ranked if memory.path not in inside)
        return self._left_out

    @property
    def trust(self) -> str:
        """The least trusted source in the text, which bounds the trust in the whole text; "" if it is missing."""
        return self.sources[-1] if self.sources else ""


def compress(
    memories: Sequence[PersonaMemory],
    now: float,
    *,
    domain: str | None = None,
    needed: Sequence[str] = (),
    max_tokens: int = DEFAULT_MAX_TOKENS,
    relevances: NDArray[np.float64] | None = None,
    count: Callable[[str], int] = estimated_tokens,
    full: bool = True,
    compares: bool = True,
    suspected: Mapping[str, str] = MappingProxyType({}),
) -> Compressed:
    """The active memories in the specification's compressed format (sense-memory v2, "Compression").

    A superseded memory is left out while its successor is active.

    Args:
        memories: the memories of a palace; their order does not matter.
        now: seconds since 1970.
        domain: only memories of this domain; None for all.
        needed: the paths of memories that a question needs, most needed first. If any of them is active, the text holds
            only these, pinned memories, and identity up to a quarter of the budget.
        max_tokens: the budget of the text, 32 or more.
        relevances: the current relevance of each memory, in the order of `memories`; computed if None.
        count: counts the tokens of a text; the default is an estimate that errs upward.
        full: whether to use shorthand; otherwise every memory is written word for word under its key (the basic tier).
        compares: whether memories are compared, and those that a later one seems to contradict get a note.
        suspected: by path, the path of a later memory that is known to perhaps contradict one.

    Raises:
        InvalidInput: `max_tokens` is below 32, or `count` does not return a number of tokens.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise InvalidInput(
            f"max_tokens must be at least {MIN_MAX_TOKENS}, not {max_tokens}: fewer tokens cannot hold a memory"
        )
    if relevances is None:
        relevances = Columns.of(memories).relevances(now)
    active = _active(memories, relevances, domain)
    queues = _Queues.of(memories, relevances, active, needed)
    counted = partial(_checked_count, count)
    by_path = {memories[index].path: memories[index] for index in active.tolist()}
    pieces = _Pieces(shorthand if full else plain, counted)
    pieces.mark({path: _LOST for path, memory in by_path.items() if memory.conflict_of is not None})
    claims = ClaimIndex()
    for _ in range(_MAX_CHECKS):
        draft = _fitted(queues, pieces, len(active), max_tokens)
        chosen = [by_path[item.path] for item in draft.chosen]
        if not compares or not pieces.mark(_doubts(claims, chosen, suspected)):
            break
    ranked = _by_relevance(memories, relevances, active)
    included = tuple(item.path for item in draft.chosen)
    sources = (by_path[path].source for path in included)
    return Compressed.of(
        draft.text, draft.tokens, included, ranked, sources=sources, has_answer=queues.has_question
    )


def _distrust(source: str) -> tuple[int, str]:
    """A sort key for sources: the user's own words come first, the results of tools last."""
    kind = source.partition(":")[0]
    return (_SOURCES.index(kind) if kind in _SOURCES else len(_SOURCES), source)


def _doubts(
    claims: ClaimIndex, memories: Sequence[PersonaMemory], suspected: Mapping[str, str]
) -> dict[str, str]:
    """By path, the marks of memories that later ones seem to contradict, which name the latest of these: one among them,
    or one that is known, see `suspected`, and may be left out. `claims` is kept between calls.
    """
    by_path = {memory.path: memory for memory in memories}
    for memory in memories:
        claims.put(memory)
    for _ in claims.scan():
        pass
    pairs = claims.pairs().contradictions
    both = ((by_path.get(found.old), by_path.get(found.new)) for found in pairs)
    later = [(new, old) for old, new in both if old and new and old.written_at < new.written_at]
    later.sort(key=lambda pair: (pair[0].written_at, pair[0].path))
    names = {path: suspected[path].rpartition("/")[2] for path in by_path.keys() & suspected.keys()}
    names |= {old.path: new.key for new, old in later}
    return {path: _LATER.format(key=head_of(name)) for path, name in names.items()}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A text, its cost, and the memories in it."""

    text: str
    tokens: int
    chosen: list[_Chosen]

    @classmethod
    def of(cls, chosen: list[_Chosen], active_count: int, pieces: _Pieces) -> Self:
        text = _text(chosen, active_count - len(chosen))
        return cls(text, pieces.count(text), chosen)


_NOTHING: Final = _Draft("", 0, [])


def _fitted(queues: _Queues, pieces: _Pieces, active_count: int, max_tokens: int) -> _Draft:
    """The longest text of some rounds that fits the budget, with the rest of the budget filled."""
    room = max_tokens
    best = over = _NOTHING
    for _ in range(_MAX_ROUNDS):
        chosen = _chosen(
            queues, pieces, room - pieces.cost(_notice(active_count)) - _BREAK_TOKENS, max_tokens
        )
        draft = _Draft.of(chosen, active_count, pieces)
        if draft.tokens > max_tokens:
            over = draft
        elif not best.text or best.tokens < draft.tokens:
            best = draft
        if len(chosen) == active_count or 0 <= max_tokens - draft.tokens <= max_tokens // _SLACK_SHARE:
            break
        room += max_tokens - draft.tokens
    if over.chosen and not best.chosen:  # by the caller's counter, a text costs far more than its parts
        drafts = [
            partial(_Draft.of, over.chosen[:length], active_count, pieces)
            for length in range(len(over.chosen))
        ]
        fits = bisect_right(drafts, max_tokens, key=lambda draft: draft().tokens) - 1
        best = drafts[fits]() if fits > 0 else best
    return _with_rest_filled(best, queues, pieces, active_count, max_tokens)


def _with_rest_filled(
    draft: _Draft, queues: _Queues, pieces: _Pieces, active_count: int, max_tokens: int
) -> _Draft:
    """A draft with more memories, if it uses less than `_MIN_USED_SHARE` of the budget.

    If no memory fits, up to `_MAX_REPLACED_COUNT` memories make room, those chosen last first; but never the first
    memory of the text, and no pinned or needed one.
    """
    enough = _MIN_USED_SHARE * max_tokens
    if draft.tokens >= enough or not draft.chosen or len(draft.chosen) == active_count:
        return draft
    fixed = {memory.path for memory in queues.first} | {draft.chosen[0].path}
    free = sum(item.path not in fixed for item in draft.chosen)
    best = draft
    for replaced in range(min(_MAX_REPLACED_COUNT, free) + 1):
        chosen = draft.chosen[: len(draft.chosen) - replaced]
        begun = _Draft.of(chosen, active_count, pieces)
        filled = _filled(
            begun, queues.spare({item.path for item in chosen}), active_count, max_tokens, pieces
        )
        best = filled if filled.tokens > best.tokens else best
        if best.tokens >= enough:
            break
    return best


def _filled(
    draft: _Draft, spare: list[PersonaMemory], active_count: int, max_tokens: int, pieces: _Pieces
) -> _Draft:
    """A draft with some spare memories: the first that uses enough of the budget, or else the longest that fits."""
    enough = _MIN_USED_SHARE * max_tokens
    while draft.tokens < enough:
        page = _Round.of(pieces, max_tokens - draft.tokens, draft.chosen)
        costs = [(page.cost(memory), memory) for memory in spare]
        fitting = [(cost, memory) for cost, memory in costs if 0 < cost <= page.room]
        if not fitting:
            break
        filling = (item for item in fitting if draft.tokens + item[0] >= enough)
        _, memory = next(filling, None) or max(fitting, key=itemgetter(0))
        spare = [other for other in spare if other is not memory]
        more = _Draft.of([*draft.chosen, pieces.of(memory)], active_count, pieces)
        draft = more if more.tokens <= max_tokens else draft
    return draft


def _checked_count(count: Callable[[str], int], text: str) -> int:
    """The cost of a text by the caller's counter; fractions are rounded up."""
    tokens: object = count(text)
    if not isinstance(tokens, int | float | np.integer) or not 0 <= tokens < math.inf:
        raise InvalidInput("count must return a number of tokens, 0 or more; nothing was changed")
    return math.ceil(tokens)


# ── Selection ───────────────────────────────────────────────────────────────────────────


def _active(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], domain: str | None
) -> NDArray[np.intp]:
    """The indices of the active memories, without memories whose successor is active too."""
    active = np.flatnonzero(relevances > ACTIVE_ABOVE)
    superseded = {memories[i].superseded_by for i in active.tolist()} - {None}
    if not superseded and domain is None:
        return active
    heads = {memories[i].path for i in active.tolist()} if superseded else set()
    kept = [
        i
        for i in active.tolist()
        if memories[i].superseded_by not in heads and domain in {None, memories[i].domain}
    ]
    return np.array(kept, dtype=np.intp)


def _by_relevance(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], which: NDArray[np.intp]
) -> Iterator[PersonaMemory]:
    """Some memories, most relevant first, ties by path; ties are sorted only as far as the caller reads."""
    order = which[np.argsort(-relevances[which], kind="stable")]
    for _, equal in groupby(order.tolist(), key=relevances.__getitem__):
        heap = [f"{memories[index].path}\0{index}" for index in equal]  # the garbage collector skips strings
        heapq.heapify(heap)
        while heap:
            yield memories[int(heapq.heappop(heap).rpartition("\0")[2])]


class _Queue:
    """An iterable of memories that can be read again; the source is read only as far as needed."""

    def __init__(self, memories: Iterable[PersonaMemory]) -> None:
        self._source = iter(memories)
        self._read: list[PersonaMemory] = []

    def __iter__(self) -> Iterator[PersonaMemory]:
        place = 0
        while True:
            if place == len(self._read):
                memory = next(self._source, None)
                if memory is None:
                    return
                self._read.append(memory)
            yield self._read[place]
            place += 1


@dataclass(frozen=True, slots=True)
class _Queues:
    """The candidates: pinned and needed memories first, then the domains by name; with a question, only `self`."""

    first: _Queue
    domains: dict[str, _Queue]
    has_question: bool

    @classmethod
    def of(
        cls,
        memories: Sequence[PersonaMemory],
        relevances: NDArray[np.float64],
        active: NDArray[np.intp],
        needed: Sequence[str],
    ) -> Self:
        pinned: list[int] = []
        found: dict[str, PersonaMemory] = {}
        domains: defaultdict[str, list[int]] = defaultdict(list)
        paths = set(needed)
        for index in active.tolist():
            memory = memories[index]
            if memory.themes and PINNED in memory.themes:
                pinned.append(index)
            elif paths and memory.path in paths:
                found[memory.path] = memory
            else:
                domains[memory.domain].append(index)

        def ranked(which: list[int]) -> Iterator[PersonaMemory]:
            return _by_relevance(memories, relevances, np.array(which, dtype=np.intp))

        first = [*ranked(pinned), *(found[path] for path in needed if path in found)]
        names = [name for name in sorted(domains) if name == IDENTITY or not found]
        return cls(_Queue(first), {name: _Queue(ranked(domains[name])) for name in names}, bool(found))

    def spare(self, taken: set[str]) -> list[PersonaMemory]:
        """Memories whose paths are not in `taken`: pinned and needed ones, then, without a question, each domain in turn."""
        turns = zip_longest(*(() if self.has_question else self.domains.values()))
        rest = chain(self.first, (memory for turn in turns for memory in turn if memory is not None))
        return list(islice((memory for memory in rest if memory.path not in taken), _MAX_SPARE_COUNT))


@dataclass(frozen=True, slots=True)
class _Chosen:
    path: str
    domain: str
    facet: str
    piece: Piece


class _Pieces:
    """The pieces of memories and the costs of texts, each computed once for all rounds."""

    def __init__(self, short: Callable[[PersonaMemory], Piece], count: Callable[[str], int]) -> None:
        self._short, self.count = short, count
        self._marks: dict[str, str] = {}
        self._made: dict[str, _Chosen] = {}
        self._costs: dict[str, int] = {}

    def mark(self, marks: Mapping[str, str]) -> bool:
        """End the pieces of some memories with marks from now on; returns whether any of them had no mark before."""
        unmarked = marks.keys() - self._marks.keys()
        for path in unmarked:
            self._marks[path] = marks[path]
            self._made.pop(path, None)
        return bool(unmarked)

    def of(self, memory: PersonaMemory) -> _Chosen:
        path = memory.path
        made = self._made.get(path)
        if made is None:
            piece = self._short(memory)
            if mark := self._marks.get(path):
                piece = replace(piece, text=piece.text + mark)
            made = self._made[path] = _Chosen(path, memory.domain, memory.facet, piece)
        return made

    def cost(self, text: str) -> int:
        if text not in self._costs:
            self._costs[text] = self.count(text)
        return self._costs[text]


@dataclass(slots=True)
class _Round:
    """The memories chosen in one round, and the tokens that are left."""

    pieces: _Pieces
    room: int
    chosen: list[_Chosen] = field(default_factory=list)
    begun: set[tuple[str, ...]] = field(default_factory=set)  # sections and lines

    @classmethod
    def of(cls, pieces: _Pieces, room: int, chosen: list[_Chosen]) -> Self:
        """A round that continues with memories that were already chosen."""
        begun: set[tuple[str, ...]] = {part for item in chosen for part in _parts_of(item)}
        return cls(pieces, room, chosen, begun)

    def cost(self, memory: PersonaMemory) -> int:
        """The cost of adding a memory; 0 if the memory is too long for the room that is left."""
        if len(memory.value) > _MAX_CHARS_PER_TOKEN * self.room:
            return 0
        item = self.pieces.of(memory)
        section, line = _parts_of(item)
        text = item.piece.text if line in self.begun else f"{item.piece.head}: {item.piece.text}"
        cost = _BREAK_TOKENS + self.pieces.cost(text)
        if section not in self.begun:
            cost += _BREAK_TOKENS + self.pieces.cost(header(*section))
        return cost

    def add(self, memory: PersonaMemory) -> int:
        """Add a memory if it fits; returns its cost, or 0 if it does not fit."""
        cost = self.cost(memory)
        if not 0 < cost <= self.room:
            return 0
        item = self.pieces.of(memory)
        self.room -= cost
        self.chosen.append(item)
        self.begun.update(_parts_of(item))
        return cost


def _parts_of(item: _Chosen) -> tuple[tuple[str, str], tuple[str, str, str]]:
    """The section and the line of a memory."""
    return (item.domain, item.facet), (item.domain, item.facet, item.piece.head)


def _chosen(queues: _Queues, pieces: _Pieces, room: int, max_tokens: int) -> list[_Chosen]:
    """The memories of one round."""
    page = _Round(pieces, room)
    _fill(page, queues.first, room)
    sources = {name: iter(queue) for name, queue in queues.domains.items()}
    spent = dict.fromkeys(sources, 0)
    if IDENTITY in sources:
        spent[IDENTITY] = _fill(page, sources[IDENTITY], max_tokens // _IDENTITY_SHARE)
    misses = dict.fromkeys(sources, 0)
    turns = [] if queues.has_question else [(cost, name) for name, cost in spent.items()]
    heapq.heapify(turns)
    while turns and page.room > _BREAK_TOKENS:
        cost, name = heapq.heappop(turns)
        memory = next(sources[name], None)
        if memory is None or misses[name] == _MAX_MISSES:
            continue
        added = page.add(memory)
        misses[name] = 0 if added else misses[name] + 1
        heapq.heappush(turns, (cost + added, name))
    return page.chosen


def _fill(page: _Round, source: Iterable[PersonaMemory], limit: int) -> int:
    """Add memories in order, until they cost `limit` or too many in a row do not fit; returns their cost."""
    spent = misses = 0
    for memory in source:
        added = page.add(memory)
        spent += added
        misses = 0 if added else misses + 1
        if spent >= limit or misses == _MAX_MISSES:
            break
    return spent


# ── Text ────────────────────────────────────────────────────────────────────────────────


def _text(chosen: Sequence[_Chosen], left_out: int) -> str:
    sections: dict[tuple[str, str], dict[str, list[str]]] = {}
    for item in chosen:
        lines = sections.setdefault((item.domain, item.facet), {})
        pieces = lines.setdefault(item.piece.head, [])
        if item.piece.text not in pieces:
            pieces.append(item.piece.text)
    blocks = [
        "\n".join([header(*section), *(_line(head, pieces) for head, pieces in lines.items())])
        for section, lines in sorted(sections.items())
    ]
    return "\n\n".join([*blocks, _notice(left_out)] if left_out else blocks)


def _line(head: str, pieces: Sequence[str]) -> str:
    """`head: a, b`, or `head: a b; c, d` where a comma could be misread."""
    plain = all(" " not in piece and "," not in piece for piece in pieces)
    return f"{head}: {(', ' if plain else '; ').join(pieces)}"


def _notice(left_out: int) -> str:
    return f"(+{left_out} active memor{'y' if left_out == 1 else 'ies'} left out)"
