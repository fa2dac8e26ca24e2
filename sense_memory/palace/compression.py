"""The palace in a prompt: the spec's compressed format, active memories only, within a budget of tokens.

    [domain:people/facet:facts]
    vergel: vanilla-js, conventional-commits, no-coauthor, accessibility-first
    lisa: artist, teaches-workshops, partner

    (+37 active memories left out)

Memories are chosen by relevance, the most relevant first, ties by path. A memory that does not fit is left out whole,
because half a memory can say the opposite; shorter memories are still tried. Headers are in alphabetical order; lines
under a header, and memories on a line, are in the order of relevance. `palace.shorthand` shortens the values. Pure: no
clock, no I/O.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.limits import ACTIVE_ABOVE
from sense_memory.palace.catalog import Columns
from sense_memory.palace.shorthand import Piece, header, plain, shorthand
from sense_memory.palace.token_estimate import estimated_tokens


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory

DEFAULT_MAX_TOKENS: Final = 500  # the spec's target for the entire active memory
MIN_MAX_TOKENS: Final = 32  # fewer tokens cannot hold a header, a line and a notice
_MAX_MISSES: Final = 32  # consecutive memories that did not fit; the rest is not tried
_MAX_CHARS_PER_TOKEN: Final = 16  # a longer value cannot fit, however well it compresses
_BREAK_TOKENS: Final = 1  # a line break or a separator, counted on its own


@dataclass(frozen=True, slots=True)
class Compressed:
    """A palace, or one domain of it, in shorthand.

    Attributes:
        text: headers, lines and a notice of how many were left out; empty where no memory is active.
        tokens: the cost of `text`, by the counter that was used.
        included: paths of the memories in `text`, the most relevant first.
        left_out: the number of active memories that are not in `text`.
    """

    text: str
    tokens: int
    included: tuple[str, ...]
    left_out: int


def compress(
    memories: Sequence[PersonaMemory],
    now: float,
    *,
    domain: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    relevances: NDArray[np.float64] | None = None,
    count: Callable[[str], int] = estimated_tokens,
    full: bool = True,
) -> Compressed:
    """The active memories in the spec's compressed format (sense-memory v2, "Compression").

    A superseded memory is left out while its successor is active.

    Args:
        memories: the memories of a palace; their order does not matter.
        now: seconds since 1970.
        domain: only memories of this domain; None for all.
        max_tokens: the most that `text` may cost, 32 or more.
        relevances: current relevance of each memory, in the order of `memories`; computed if None.
        count: counts the tokens of a text; the default is an estimate that errs upward.
        full: whether to use shorthand; otherwise every memory is written word for word under its key (the basic tier).

    Raises:
        InvalidInput: `max_tokens` is below 32.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise InvalidInput(
            f"max_tokens must be at least {MIN_MAX_TOKENS}, not {max_tokens}: fewer tokens hold no memory; "
            "nothing was changed"
        )
    if relevances is None:
        relevances = Columns.of(memories).relevances(now)
    active = _active(memories, relevances, domain)
    short = shorthand if full else plain
    chosen = _chosen(_by_relevance(memories, relevances, active), len(active), max_tokens, count, short)
    text = _text(chosen, len(active) - len(chosen))
    while (tokens := count(text)) > max_tokens and text:  # parts may cost less than the whole text
        chosen = chosen[: len(chosen) - max(1, len(chosen) * (tokens - max_tokens) // (2 * tokens))]
        text = _text(chosen, len(active) - len(chosen)) if chosen or tokens <= max_tokens else ""
    return Compressed(text, tokens, tuple(item.path for item in chosen), len(active) - len(chosen))


# ── Which ───────────────────────────────────────────────────────────────────────────────


def _active(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], domain: str | None
) -> NDArray[np.intp]:
    """The indices of the active memories, without those whose successor is active too."""
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


@dataclass(frozen=True, slots=True)
class _Chosen:
    path: str
    domain: str
    facet: str
    piece: Piece


def _by_relevance(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], active: NDArray[np.intp]
) -> Iterator[PersonaMemory]:
    """The active memories, the most relevant first, ties by path; sorted only as far as the caller reads."""
    order = active[np.argsort(-relevances[active], kind="stable")]
    for _, equal in groupby(order.tolist(), key=relevances.__getitem__):
        heap = [
            f"{memories[index].path}\0{index}" for index in equal
        ]  # bare strings: tuples wake the collector
        heapq.heapify(heap)
        while heap:
            yield memories[int(heapq.heappop(heap).rpartition("\0")[2])]


def _chosen(
    candidates: Iterator[PersonaMemory],
    total: int,
    max_tokens: int,
    count: Callable[[str], int],
    short: Callable[[PersonaMemory], Piece],
) -> list[_Chosen]:
    """The memories that fit, the most relevant first."""
    chosen: list[_Chosen] = []
    room = max_tokens - count(_notice(total)) - _BREAK_TOKENS
    lines: set[tuple[str, str, str]] = set()
    headers: set[tuple[str, str]] = set()
    misses = 0
    for memory in candidates:
        if misses == _MAX_MISSES or room <= _BREAK_TOKENS:
            break
        misses += 1
        if len(memory.value) > _MAX_CHARS_PER_TOKEN * room:
            continue
        item = _Chosen(memory.path, memory.domain, memory.facet, short(memory))
        section, line = (item.domain, item.facet), (item.domain, item.facet, item.piece.head)
        cost = _BREAK_TOKENS + count(
            item.piece.text if line in lines else f"{item.piece.head}: {item.piece.text}"
        )
        if section not in headers:
            cost += _BREAK_TOKENS + count(header(*section))
        if cost <= room:
            room -= cost
            misses = 0
            chosen.append(item)
            headers.add(section)
            lines.add(line)
    return chosen


# ── How ─────────────────────────────────────────────────────────────────────────────────


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
