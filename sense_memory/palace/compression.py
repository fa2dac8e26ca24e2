"""The palace in a prompt, within a budget of tokens: the specification's compressed format, or plain sentences.

    [domain:people/facet:facts]
    vergel: vanilla-js, conventional-commits, no-coauthor, accessibility-first
    lisa: artist, teaches-workshops, partner

    (+37 active memories left out)

Guaranteed: the text never costs more than the budget, by the counter of the caller; every memory in it is whole, because
half a memory can say the opposite; and the same memories give the same text. Safe, because the finished text is counted
as a whole before it is returned. The cost is one pass over the active memories, and a few rounds over those that fit.

Selection (`palace.candidates`). Memories with the theme `pinned` come first, then those that a question needs, if there
is a question. Then standing preferences and instructions get up to a quarter of the budget, for a question in the order
in which they bear on it (`palace.bearing`), and so does identity, the domain `self`. The domains share the rest: the
next memory always comes from the domain that has cost least so far. Within a domain the most relevant come first, ties
by path, but of twelve, one under a header that stands goes first. A memory that does not fit is left out, and shorter
ones are still tried. The whole text costs less than the sum of its parts, so further rounds fill the rest of the
budget.

Doubt. If a later memory seems to contradict one of the text, that one names it, to be compared: no more is known, so none
is called outdated. The memories of the text are compared with each other; a later one that was left out has to be known as
`suspected`. An edit that lost to a concurrent edit is marked too, and so is a memory that another one replaced which is no
longer active. All stay in the text.

Headers are in alphabetical order, or with a question, in the order of selection; lines under a header, and memories on a
line, are in the order of selection. `palace.prompt_style` writes them. Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.limits import ACTIVE_ABOVE
from sense_memory.palace.candidates import IDENTITY, STANDING, Candidates, active, by_relevance
from sense_memory.palace.catalog import Columns
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.prompt_style import Chosen, Style, StyleName, style_of, text_of, with_key
from sense_memory.palace.sources import least_trusted_last
from sense_memory.palace.token_estimate import estimated_tokens


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.candidates import Bears


DEFAULT_MAX_TOKENS: Final = 500  # the specification's target for all active memories
MIN_MAX_TOKENS: Final = 32  # fewer tokens cannot hold a header, a line and a notice
_FIRST_SHARE: Final = (
    4  # standing memories, and identity, get up to a quarter of the budget before the others get any
)
_MAX_MISSES: Final = (
    8  # after so many consecutive memories that do not fit, the rest of a domain is not tried
)
_MAX_ROUNDS: Final = 4  # of choosing memories, each with the tokens that the round before left
_SLACK_SHARE: Final = 60  # one 60th of the budget is not worth another round
_MAX_CHARS_PER_TOKEN: Final = 16  # a longer value cannot fit, however well it compresses
_MAX_CHECKS: Final = (
    8  # searches for contradictions: each mark makes the text longer, and may change the selection
)
_MIN_USED_SHARE: Final = 0.92  # of the budget; below this, memories that fit into the rest are looked for
_MAX_REPLACED_COUNT: Final = 6  # memories that may make room for longer ones
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
        untrusted: the paths of active memories that are left out because nobody vouched for their source.
    """

    __slots__ = (
        "_left_out",
        "_ranked",
        "has_answer",
        "included",
        "is_doubtful",
        "sources",
        "tokens",
        "untrusted",
    )

    tokens: int
    included: tuple[str, ...]
    sources: tuple[str, ...]
    has_answer: bool
    is_doubtful: bool
    untrusted: tuple[str, ...]
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
        self.is_doubtful, self.untrusted = False, ()
        self.has_answer, self.sources = has_answer, least_trusted_last(sources)
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
    bears: Bears | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    relevances: NDArray[np.float64] | None = None,
    count: Callable[[str], int] = estimated_tokens,
    style: StyleName = "bracketed",
    full: bool = True,
    compares: bool = True,
    suspected: Mapping[str, str] = MappingProxyType({}),
) -> Compressed:
    """The active memories for a prompt, in the specification's format (sense-memory v2, "Compression") or as sentences.

    A superseded memory is left out while its successor is active.

    Args:
        memories: the memories of a palace; their order does not matter.
        now: seconds since 1970.
        domain: only memories of this domain; None for all.
        needed: the paths of memories that a question needs, most needed first. They come right after pinned memories, and
            the text begins with their headers. As sentences, they may be fading, and are then dated.
        bears: tells how much each of some standing memories bears on what is asked for, see `palace.bearing`; they
            come in that order. None: by relevance.
        max_tokens: the budget of the text, 32 or more.
        relevances: the current relevance of each memory, in the order of `memories`; computed if None.
        count: counts the tokens of a text; the default is an estimate that errs upward.
        style: `bracketed`, the specification's format, or `plain`: sentences under short headers.
        full: whether the format has shorthand; otherwise every memory is word for word under its key (the basic tier).
        compares: whether memories are compared, and those that a later one seems to contradict get a note.
        suspected: by path, the path of a later memory that is known to perhaps contradict one.

    Raises:
        InvalidInput: `max_tokens` is below 32, there is no such style, or `count` does not return a number of tokens.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise InvalidInput(
            f"max_tokens must be at least {MIN_MAX_TOKENS}, not {max_tokens}: fewer tokens cannot hold a memory"
        )
    if relevances is None:
        relevances = Columns.of(memories).relevances(now)
    written = style_of(style, is_full=full)
    which = active(memories, relevances, domain, frozenset(needed if written.faded else ()))
    candidates = Candidates.of(memories, relevances, which, needed, bears)
    pieces = _Pieces(written, partial(_checked_count, count), is_sorted=not candidates.has_question)
    fading = which[relevances[which] <= ACTIVE_ABOVE]
    faded = {memories[i].path: written.marked(written.faded, memories[i]) for i in fading.tolist()}
    pieces.mark(faded | _marks(written, memories, which))
    claims = ClaimIndex()
    for _ in range(_MAX_CHECKS):
        draft = _fitted(candidates, pieces, len(which), max_tokens)
        chosen = [pieces.memories[item.path] for item in draft.chosen]
        if not compares or not pieces.doubt(_doubts(claims, chosen, suspected)):
            break
    ranked = by_relevance(memories, relevances, which)
    included = tuple(item.path for item in draft.chosen)
    chosen = [pieces.memories[path] for path in included]
    sources = (source for memory in chosen for source in (memory.source, *memory.sources))
    return Compressed.of(
        draft.text, draft.tokens, included, ranked, sources=sources, has_answer=candidates.has_question
    )


def _marks(style: Style, memories: Sequence[PersonaMemory], which: NDArray[np.intp]) -> dict[str, str]:
    """By path, the marks of edits that lost, and of memories that another one replaced which is not among `which`."""
    marks: dict[str, str] = {}
    known: set[str] = set()
    for memory in (memories[index] for index in which.tolist()):
        if memory.conflict_of is not None:
            marks[memory.path] = style.marked(style.lost, memory)
        elif memory.superseded_by is not None:
            known = known or {one.path for one in memories}
            if (newer := memory.superseded_by) in known:
                marks[memory.path] = style.marked(style.replaced, memory, newer.rpartition("/")[2])
    return marks


def _doubts(
    claims: ClaimIndex, memories: Sequence[PersonaMemory], suspected: Mapping[str, str]
) -> dict[str, str]:
    """By the path of a memory that later ones seem to contradict, the path of the latest of these: one among them, or one
    that is known, see `suspected`, and may be left out. `claims` is kept between calls.
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
    paths = {path: suspected[path] for path in by_path.keys() & suspected.keys()}
    return paths | {old.path: new.path for new, old in later}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A text, its cost, and the memories in it."""

    text: str
    tokens: int
    chosen: list[Chosen]

    @classmethod
    def of(cls, chosen: list[Chosen], active_count: int, pieces: _Pieces) -> Self:
        left_out = active_count - len(chosen)
        text = text_of(pieces.style, chosen, left_out, is_sorted=pieces.is_sorted)
        return cls(text, pieces.count(text), chosen)


_NOTHING: Final = _Draft("", 0, [])


def _fitted(candidates: Candidates, pieces: _Pieces, active_count: int, max_tokens: int) -> _Draft:
    """The longest text of some rounds that fits the budget, with the rest of the budget filled."""
    room = max_tokens
    best = over = _NOTHING
    for _ in range(_MAX_ROUNDS):
        chosen = _chosen(
            candidates,
            pieces,
            room - pieces.cost(pieces.style.notice(active_count)) - _BREAK_TOKENS,
            max_tokens,
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
    return _with_rest_filled(best, candidates, pieces, active_count, max_tokens)


def _with_rest_filled(
    draft: _Draft, candidates: Candidates, pieces: _Pieces, active_count: int, max_tokens: int
) -> _Draft:
    """A draft with more memories, if it uses less than `_MIN_USED_SHARE` of the budget.

    If no memory fits, up to `_MAX_REPLACED_COUNT` memories make room, those chosen last first; but never the first
    memory of the text, and no pinned or needed one.
    """
    enough = _MIN_USED_SHARE * max_tokens
    if draft.tokens >= enough or not draft.chosen or len(draft.chosen) == active_count:
        return draft
    fixed = {memory.path for memory in candidates.first} | {draft.chosen[0].path}
    free = sum(item.path not in fixed for item in draft.chosen)
    best = draft
    for replaced in range(min(_MAX_REPLACED_COUNT, free) + 1):
        chosen = draft.chosen[: len(draft.chosen) - replaced]
        begun = _Draft.of(chosen, active_count, pieces)
        filled = _filled(
            begun, candidates.spare({item.path for item in chosen}), active_count, max_tokens, pieces
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
        raise InvalidInput("count must return a number of tokens, 0 or more")
    return math.ceil(tokens)


# ── Selection ───────────────────────────────────────────────────────────────────────────


class _Pieces:
    """The pieces of memories and the costs of texts, each computed once for all rounds.

    Attributes:
        memories: those with a piece, by path.
    """

    def __init__(self, style: Style, count: Callable[[str], int], *, is_sorted: bool) -> None:
        self.style, self.count, self.is_sorted = style, count, is_sorted
        self._marks: dict[str, str] = {}
        self._named: set[str] = set()
        self.memories: dict[str, PersonaMemory] = {}
        self._made: dict[str, Chosen] = {}
        self._costs: dict[str, int] = {}

    def mark(self, marks: Mapping[str, str]) -> bool:
        """End the pieces of some memories with marks from now on; returns whether any of them had no mark before."""
        unmarked = marks.keys() - self._marks.keys()
        for path in unmarked:
            self._marks[path] = marks[path]
            self._made.pop(path, None)
        return bool(unmarked)

    def doubt(self, later: Mapping[str, str]) -> bool:
        """Mark memories that later ones may contradict, and begin the lines of the later ones with their keys.

        Returns whether any of them had no mark before.
        """
        marks = {
            path: self.style.marked(self.style.later, self.memories[path], other.rpartition("/")[2])
            for path, other in later.items()
        }
        named = set(later.values()) - self._named
        self._named |= named
        for path in named:
            self._made.pop(path, None)
        return self.mark(marks)

    def of(self, memory: PersonaMemory) -> Chosen:
        path = memory.path
        made = self._made.get(path)
        if made is None:
            self.memories[path] = memory
            piece, mark = self.style.piece(memory), self._marks.get(path)
            if path in self._named:
                piece = with_key(piece, memory)
                mark = mark or self.style.marked(self.style.named, memory) or None
            mark = self.style.suffix(memory) if mark is None else mark
            if mark:
                piece = replace(piece, text=piece.text + mark, alone=piece.alone and piece.alone + mark)
            made = self._made[path] = Chosen(path, memory.domain, memory.facet, piece)
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
    chosen: list[Chosen] = field(default_factory=list)
    begun: set[tuple[str, ...]] = field(default_factory=set)  # sections and lines
    paths: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, pieces: _Pieces, room: int, chosen: list[Chosen]) -> Self:
        """A round that continues with memories that were already chosen."""
        begun: set[tuple[str, ...]] = {part for item in chosen for part in _parts_of(item)}
        return cls(pieces, room, chosen, begun, {item.path for item in chosen})

    def cost(self, memory: PersonaMemory) -> int:
        """The cost of adding a memory; 0 if the memory is too long for the room that is left."""
        if len(memory.value) > _MAX_CHARS_PER_TOKEN * self.room:
            return 0
        item = self.pieces.of(memory)
        section, line = _parts_of(item)
        joins = self.pieces.style.joins and item.piece.head and line in self.begun
        cost = _BREAK_TOKENS + self.pieces.cost(item.piece.text if joins else item.piece.line)
        if section not in self.begun:
            cost += _BREAK_TOKENS + self.pieces.cost(self.pieces.style.header(*section))
        return cost

    def add(self, memory: PersonaMemory) -> int:
        """Add a memory if it fits; returns its cost, or 0 if it does not fit."""
        cost = self.cost(memory)
        if not 0 < cost <= self.room:
            return 0
        item = self.pieces.of(memory)
        self.room -= cost
        self.chosen.append(item)
        self.paths.add(item.path)
        self.begun.update(_parts_of(item))
        return cost


def _parts_of(item: Chosen) -> tuple[tuple[str, str], tuple[str, str, str]]:
    """The section and the line of a memory."""
    return (item.domain, item.facet), (item.domain, item.facet, item.piece.head)


def _chosen(candidates: Candidates, pieces: _Pieces, room: int, max_tokens: int) -> list[Chosen]:
    """The memories of one round."""
    page = _Round(pieces, room)
    first = iter(candidates.first)
    _fill(page, first, room - max_tokens // _FIRST_SHARE if candidates.has_question else room)
    sources = {name: candidates.queue(name, page.begun) for name in candidates.queues}
    spent = dict.fromkeys(sources, 0)
    for name in (STANDING, IDENTITY):
        if name in sources:
            spent[name] = _fill(page, sources[name], max_tokens // _FIRST_SHARE)
    _fill(page, first, room)
    misses = dict.fromkeys(sources, 0)
    turns = [(cost, name) for name, cost in spent.items()]
    heapq.heapify(turns)
    while turns and page.room > _BREAK_TOKENS:
        cost, name = heapq.heappop(turns)
        memory = next((memory for memory in sources[name] if memory.path not in page.paths), None)
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
        if memory.path in page.paths:
            continue
        added = page.add(memory)
        spent += added
        misses = 0 if added else misses + 1
        if spent >= limit or misses == _MAX_MISSES:
            break
    return spent
