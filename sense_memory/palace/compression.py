"""The palace in a prompt: the spec's compressed format, active memories only, within a budget of tokens.

    [domain:people/facet:facts]
    vergel: vanilla-js, conventional-commits, no-coauthor, accessibility-first
    lisa: artist, teaches-workshops, partner

    (+37 active memories left out)

Which memories. First what has the theme `pinned`. Then what a question needs, if there is one, else nothing. Then
identity, the domain `self`, up to a quarter of the budget. Without a question every domain then gets its share: the next
memory always comes from the domain that has cost least so far. Within a domain the most relevant come first, ties by
path. A memory that does not fit is left out whole, because half a memory can say the opposite; shorter ones are still
tried. The text is counted as a whole, and what its parts were counted too high is filled in further rounds.

Which are doubtful. Where two memories of the text seem to contradict each other, the older one says so, and so does an
edit that lost against a concurrent one. They are marked rather than left out: what is suspected may be wrong.

Headers are in alphabetical order; lines under a header, and memories on a line, are in the order of selection.
`palace.shorthand` shortens the values. Pure: no clock, no I/O.
"""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.limits import ACTIVE_ABOVE
from sense_memory.palace.catalog import Columns
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.shorthand import Piece, header, plain, shorthand


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory


# ── Tokens ──────────────────────────────────────────────────────────────────────────────
# How many tokens a text costs a language model: an estimate that needs no tokenizer and no download.
#
# The estimate errs upward on purpose: a text that fits by the estimate fits by the real tokenizers too. It follows the
# larger count of cl100k and o200k, the tokenizers of OpenAI's models. Words of `token_words.txt`, 12,000 words that are
# one token in both, cost what they cost; every other word is estimated by its pairs of letters, every other script by its
# characters. For English sentences the estimate is 2 to 9 % too high, for German 5 to 12 %, for other languages, code,
# addresses and emoji up to 40 %. The estimate was never seen too low for the text of a palace; single lines of rare words
# can be. A caller with the tokenizer of a model passes its counter to `persona_compress` instead.

# The cost that each pair of letters adds to a word, in tenths of a token (base 16): rows by the first letter, a to z,
# columns by the second. A least-squares fit over the words of those texts; rare pairs cost more.
_PAIRS: Final = (
    "f2126409476122b39030407026"
    "2655077642519848401806a757"
    "4b35079488009b2883404aa947"
    "6870254a62841c51b70a6779a7"
    "1600606a9c753333032295504b"
    "08c85198199589489482278a6a"
    "a8b947406983411ad304388778"
    "49a918573c4858189681285a8a"
    "521120299f4200025501817590"
    "488706c9876c6f76782b5ea9d6"
    "7966368957565699ba57b68c88"
    "3682008626639a34b502278909"
    "22b60a8847b32211ca3c66aa65"
    "3802330a78775544b810648956"
    "3502601877041001a043140045"
    "3d650a9569705810822076b97a"
    "a9877a9bcac298976a782b87ba"
    "4b131243494820176405556909"
    "5f2a247269489a625b22480b1b"
    "493620503896484092046dac05"
    "6047022738700391b021fb957a"
    "5ad7077527874b79985ac5b757"
    "499946701567770a621aec485a"
    "593758c96aa6777292708a8636"
    "6b7a8b9a8bc88578b720aa8c39"
    "7caa49cb6c8f98a8cb6baa8743"
)
_COSTS: Final = {
    chr(97 + row) + chr(97 + column): int(_PAIRS[row * 26 + column], 16) * 10
    for row in range(26)
    for column in range(26)
}
_FREE: Final = 63  # hundredths deducted from a word between spaces or signs: common words are one token

# Hundredths of a token for one character, by ranges: the first code point, then the cost from there on.
_SCRIPTS: Final = (
    (0x0080, 95), (0x0100, 155), (0x0250, 225), (0x0370, 110), (0x0400, 68), (0x0530, 225), (0x0590, 120),
    (0x0600, 92), (0x0700, 225), (0x0900, 130), (0x0980, 165), (0x0E00, 100), (0x0E80, 225), (0x1E00, 100),
    (0x1F00, 225), (0x2010, 100), (0x2028, 225), (0x3000, 140), (0x3040, 95), (0x3100, 225), (0x3400, 140),
    (0xA000, 225), (0xAC00, 116), (0xD7B0, 225), (0xFF00, 140), (0xFFF0, 225), (0x10000, 300),
)  # fmt: skip
_STARTS: Final = [start for start, _ in _SCRIPTS]

_GLUE: Final = re.compile(r"[\d\x80-\U0010ffff]")
_LEADS: Final = "-._/(\"'>"

_PIECES: Final = re.compile(
    r"(?P<ending>(?<=[A-Za-z])['\u2019](?:s|t|re|ve|ll|m|d)(?![A-Za-z]))|(?P<word>[A-Za-z]+)|(?P<number> ?[0-9]+)|(?P<gap>\s*[\n\r]\s*|[ \t\f\v]{2,})"
    r"|(?P<lead>(?<![!-/:-@\[-`{-~])[!-/:-@\[-`{-~](?=[A-Za-z]))|(?P<signs>[!-/:-@\[-`{-~]+)"
    r"|(?P<control>[\x00-\x08\x0e-\x1f\x7f])|(?P<other>[^\x00-\x7f])"
)
_RARE_PERCENT: Final = 103  # of what the pairs say: words that are in no list differ more
_MARGIN: Final = 102  # percent


def estimated_tokens(text: str) -> int:
    """The estimated tokens of a text; the estimate errs upward.

    Args:
        text: any text.

    Returns:
        0 for the empty text, else at least 1.
    """
    hundredths = 0
    for match in _PIECES.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind == "word":
            around = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
            hundredths += _word(piece, _GLUE.search(around) is not None)
        elif kind == "number":  # three digits at a time; the space before digits is a token of its own
            space = piece[0] == " "
            hundredths += 100 * ((len(piece) - space + 2) // 3 + space)
        elif kind == "lead":  # vocabularies hold `.com`, `(the`, `-first`
            hundredths += 50 if piece in _LEADS else 100
        elif kind == "signs":
            count = len(piece)
            hundredths += 100 if count == 1 else 120 if count < 4 else 90 * len(set(piece)) + 10 * count
        else:
            hundredths += _character(piece) if kind == "other" else 100  # an ending, `'s`, is one token
    return -(-hundredths * _MARGIN // 10_000)


@lru_cache(maxsize=16_384)
def _word(word: str, glued: bool) -> int:
    """Hundredths of a token for ASCII letters; letters `glued` to digits or accents are not a dictionary word."""
    lower = word.lower()
    if not glued and lower in _one_token_words() and word in {lower, lower.capitalize()}:
        return 100
    pairs = sum(_COSTS[a + b] for a, b in pairwise(lower))
    cost = 100 + (pairs if glued else max(0, pairs - _FREE))
    if len(word) > 4 and lower[-1] in "aiou":  # hardly an English word: vocabularies hold fewer other words
        cost += 30
    if word[0].isupper() and not glued and cost > 130:  # vocabularies hold names
        cost -= 25
    if len(word) > 2 and word.isupper():
        cost = max(cost, 45 * len(word))
    elif len(word) > 3:
        cost += 40 * sum(letter.isupper() for letter in word[1:])
    return min(cost * _RARE_PERCENT // 100, 100 * len(word))


@cache
def _one_token_words() -> frozenset[str]:
    """Words in lower case that are one token after a space; words that `_word` prices as one token are left out."""
    return frozenset(Path(__file__).with_name("token_words.txt").read_text(encoding="ascii").split())


@lru_cache(maxsize=4_096)
def _character(character: str) -> int:
    """Hundredths of a token for one character outside of ASCII."""
    return _SCRIPTS[bisect_right(_STARTS, ord(character)) - 1][1]


DEFAULT_MAX_TOKENS: Final = 500  # the spec's target for the entire active memory
MIN_MAX_TOKENS: Final = 32  # fewer tokens cannot hold a header, a line and a notice
PINNED: Final = "pinned"  # the theme of memories that are always in the prompt
IDENTITY: Final = "self"  # the domain of what an agent is
_IDENTITY_SHARE: Final = 4  # identity gets a quarter of the budget before the other domains get any
_MAX_MISSES: Final = 8  # consecutive memories of a domain that did not fit; its rest is not tried
_MAX_ROUNDS: Final = 4
_SLACK_SHARE: Final = 60  # this part of the budget is not worth another round
_MAX_CHARS_PER_TOKEN: Final = 16  # a longer value cannot fit, however well it compresses
_OLDER: Final = " (older; may be outdated)"
_LOST: Final = " (an edit that lost; may be wrong)"
_MAX_CHECKS: Final = 8  # texts that are looked over for contradictions; the mark of one may change what fits
_BREAK_TOKENS: Final = 1  # a line break or a separator, counted on its own


class Compressed(str):
    """A palace, or one domain of it, in shorthand: headers, lines, and a notice of how many memories were left out.

    Empty where no memory is active.

    Attributes:
        tokens: the cost of the text, by the counter that was used.
        included: paths of the memories in the text, in the order of selection.
        has_answer: whether it was made for a question for which an active memory was found.
    """

    __slots__ = ("_left_out", "_ranked", "has_answer", "included", "tokens")

    tokens: int
    included: tuple[str, ...]
    has_answer: bool
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
        has_answer: bool = False,
    ) -> Self:
        """A text with what it holds, and all active memories, the most relevant first."""
        self = cls(text)
        self.has_answer = has_answer
        self.tokens, self.included, self._ranked, self._left_out = tokens, included, ranked, None
        return self

    @property
    def left_out(self) -> tuple[str, ...]:
        """Paths of the other active memories, the most relevant first; worked out when first asked for."""
        if self._left_out is None:
            inside = set(self.included)
            self._left_out = tuple(memory.path for memory in self._ranked if memory.path not in inside)
        return self._left_out


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
) -> Compressed:
    """The active memories in the spec's compressed format (sense-memory v2, "Compression").

    A superseded memory is left out while its successor is active.

    Args:
        memories: the memories of a palace; their order does not matter.
        now: seconds since 1970.
        domain: only memories of this domain; None for all.
        needed: paths of memories that a question needs, the most needed first. If any of them is active, only these,
            what is pinned and identity, up to a quarter of the budget, are in the text.
        max_tokens: the most that the text may cost, 32 or more.
        relevances: current relevance of each memory, in the order of `memories`; computed if None.
        count: counts the tokens of a text; the default is an estimate that errs upward.
        full: whether to use shorthand; otherwise every memory is written word for word under its key (the basic tier).

    Raises:
        InvalidInput: `max_tokens` is below 32, or `count` does not return a number of tokens.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise InvalidInput(
            f"max_tokens must be at least {MIN_MAX_TOKENS}, not {max_tokens}: a memory does not fit into fewer tokens"
        )
    if relevances is None:
        relevances = Columns.of(memories).relevances(now)
    active = _active(memories, relevances, domain)
    queues = _Queues.of(memories, relevances, active, needed)
    counted = partial(_counted, count)
    by_path = {memories[index].path: memories[index] for index in active.tolist()}
    marks = {path: _LOST for path, memory in by_path.items() if memory.conflict_of is not None}
    for _ in range(_MAX_CHECKS):
        pieces = _Pieces(shorthand if full else plain, counted, marks)
        best = _fitted(queues, pieces, len(active), max_tokens, counted)
        outdated = _outdated([by_path[path] for path in best[2]]) - marks.keys()
        if not outdated:
            break
        marks |= dict.fromkeys(outdated, _OLDER)
    ranked = _by_relevance(memories, relevances, active)
    return Compressed.of(*best, ranked, has_answer=queues.has_question)


def _outdated(memories: Sequence[PersonaMemory]) -> set[str]:
    """The paths of those memories that a newer one of them seems to contradict."""
    claims = ClaimIndex()
    for memory in memories:
        claims.put(memory)
    for _ in claims.scan():
        pass
    written = {memory.path: memory.created_at for memory in memories}
    pairs = claims.pairs(len(memories) ** 2).contradictions
    return {found.old for found in pairs if written[found.old] < written[found.new]}


def _fitted(
    queues: _Queues, pieces: _Pieces, active_count: int, max_tokens: int, counted: Callable[[str], int]
) -> tuple[str, int, tuple[str, ...]]:
    """The fullest text within the budget, its cost, and the paths in it."""
    room = max_tokens
    best: tuple[str, int, tuple[str, ...]] = ("", 0, ())
    over: list[_Chosen] = []
    for _ in range(_MAX_ROUNDS):
        chosen = _chosen(
            queues, pieces, room - pieces.cost(_notice(active_count)) - _BREAK_TOKENS, max_tokens
        )
        text = _text(chosen, active_count - len(chosen))
        tokens = counted(text)
        if tokens <= max_tokens and (not best[0] or best[1] < tokens):
            best = text, tokens, tuple(item.path for item in chosen)
        over = chosen if chosen and tokens > max_tokens else over
        if len(chosen) == active_count or 0 <= max_tokens - tokens <= max_tokens // _SLACK_SHARE:
            break
        room += max_tokens - tokens
    if over and not best[2]:  # by this counter a text costs far more than its parts
        texts = [partial(_text, over[:length], active_count - length) for length in range(len(over))]
        fits = bisect_right(texts, max_tokens, key=lambda text: counted(text())) - 1
        if fits > 0:
            best = texts[fits](), counted(texts[fits]()), tuple(item.path for item in over[:fits])
    return best


def _counted(count: Callable[[str], int], text: str) -> int:
    """The cost of a text by the counter of a caller; fractions are rounded up."""
    tokens: object = count(text)
    if not isinstance(tokens, int | float | np.integer) or not 0 <= tokens < math.inf:
        raise InvalidInput("count must return a number of tokens, 0 or more; nothing was changed")
    return math.ceil(tokens)


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


def _by_relevance(
    memories: Sequence[PersonaMemory], relevances: NDArray[np.float64], which: NDArray[np.intp]
) -> Iterator[PersonaMemory]:
    """Some memories, the most relevant first, ties by path; sorted only as far as the caller reads."""
    order = which[np.argsort(-relevances[which], kind="stable")]
    for _, equal in groupby(order.tolist(), key=relevances.__getitem__):
        heap = [
            f"{memories[index].path}\0{index}" for index in equal
        ]  # bare strings: tuples wake the collector
        heapq.heapify(heap)
        while heap:
            yield memories[int(heapq.heappop(heap).rpartition("\0")[2])]


class _Queue:
    """Memories in an order, read as far as they were asked for; every round begins at the first."""

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
    """The candidates: what comes first, then the domains by name. With a question, `self` is the only domain."""

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


@dataclass(frozen=True, slots=True)
class _Chosen:
    path: str
    domain: str
    facet: str
    piece: Piece


class _Pieces:
    """The pieces of memories and the costs of texts; each is worked out once, however many rounds there are."""

    def __init__(
        self, short: Callable[[PersonaMemory], Piece], count: Callable[[str], int], marks: Mapping[str, str]
    ) -> None:
        self._short, self._count, self._marks = short, count, marks
        self._made: dict[str, _Chosen] = {}
        self._costs: dict[str, int] = {}

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
            self._costs[text] = self._count(text)
        return self._costs[text]


@dataclass(slots=True)
class _Round:
    """What was chosen in one round, and the room that is left."""

    pieces: _Pieces
    room: int
    chosen: list[_Chosen] = field(default_factory=list)
    begun: set[tuple[str, ...]] = field(default_factory=set)  # sections and lines

    def add(self, memory: PersonaMemory) -> int:
        """Add a memory, if there is room for it; returns what it cost, 0 if there was no room."""
        if len(memory.value) > _MAX_CHARS_PER_TOKEN * self.room:
            return 0
        item = self.pieces.of(memory)
        section, line = (item.domain, item.facet), (item.domain, item.facet, item.piece.head)
        text = item.piece.text if line in self.begun else f"{item.piece.head}: {item.piece.text}"
        cost = _BREAK_TOKENS + self.pieces.cost(text)
        if section not in self.begun:
            cost += _BREAK_TOKENS + self.pieces.cost(header(*section))
        if cost > self.room:
            return 0
        self.room -= cost
        self.chosen.append(item)
        self.begun |= {section, line}
        return cost


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
    """Add memories in their order until they cost `limit` or too many found no room; returns what they cost."""
    spent = misses = 0
    for memory in source:
        added = page.add(memory)
        spent += added
        misses = 0 if added else misses + 1
        if spent >= limit or misses == _MAX_MISSES:
            break
    return spent


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
