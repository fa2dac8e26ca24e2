"""The context of a memory as evidence that the memory is meant: its neighbours, its session, who spoke, and when.

Each function is one kind of evidence: it takes arrays, returns one score for each row, and keeps no state.
`search.ranking` has the weights and their origin.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search.lexical import SATURATION
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.lexical import TermScores

PIECE_WORDS: Final = 70  # a longer memory is searched in pieces of about this length
SESSION_LENGTH_SHARE: Final = 0.75  # `b` of BM25 over sessions: how much a long session lowers the score

NOBODY: Final = -1
BEFORE_SHARE: Final = 0.5  # of the score of the memory before
AFTER_SHARE: Final = 0.3  # of the score of the memory after
BESIDE_WORD_SHARE: Final = 0.5  # of the score of a single word that the memory lacks
FAR_WORD_SHARE: Final = 0.3  # two memories away
LEAN_WORDS: Final = 80  # a memory of so many words leans on its neighbours by half of `LEAN_FULLY`
LEAN_FULLY: Final = 1.6  # of a memory without words; above 1 counts as 1

ASKERS: Final = frozenset({"user", "human", "me", "customer"})
ANSWERERS: Final = frozenset({"assistant", "agent", "ai", "bot", "model", "system"})
_FEW: Final = 8  # where fewer memories than one in this many have a score, only those are visited
_ABOUT_ME: Final = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|myself|we|our|us)\b")
_ABOUT_YOU: Final = re.compile(
    r"\b(?:(?:did|do|have|had|would|could|were) you|you|your) (?:\w+ ){0,2}?(?:suggest|recommend|advise|advice|propose|explain|say"
    r"|tell|told|said|mention|provide|give|gave|help|list|describe|outline|answer|recommended|suggested|recommendations?|suggestions?)"
)
_SENTENCE: Final = re.compile(
    "(?<=[.!?\u3002\uff01\uff1f])\\s*(?=\\s|[\u3002\uff01\uff1f]?[\u3040-\u9fff])|\\n+"
)
_LINES: Final = re.compile(r"\n+")
_LINE: Final = " \n"  # between the key, the themes and the text of a memory


def pieces(text: str) -> list[str]:
    """A text in pieces of about 70 words, cut between sentences or lines where that is possible."""
    return ["\n".join(piece) for piece in piece_sentences(text)]


def piece_sentences(text: str) -> list[list[str]]:
    """As `pieces`, each piece as a list of its sentences."""
    if _size(text) <= PIECE_WORDS * 1.3:
        return [[text]]
    found: list[list[str]] = []
    piece: list[str] = []
    size = 0
    for sentence in _sentences(text):
        count = _size(sentence)
        if piece and size + count > PIECE_WORDS * 1.15:
            found.append(piece)
            piece, size = [], 0
        piece.append(sentence)
        size += count
    if found and size < PIECE_WORDS // 4:
        piece = found.pop() + piece
    return [*found, piece]


def embedding_texts(parts: Iterable[str]) -> list[str]:
    """The pieces of a memory for an embedder, in which a line that is repeated for its weight appears once."""
    return [_LINE.join(dict.fromkeys(part.split(_LINE))) for part in parts]


def _size(text: str) -> int:
    """The approximate number of words of a text; in scripts without spaces, four characters count as one word."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return max(text.count(" ") + 1, size // 12)


def _sentences(text: str) -> Iterator[str]:
    # A text whose sentences end only with lines needs no pattern, which would try every character in vain.
    is_plain = text.isascii() and not any(mark in text for mark in ".!?")
    for sentence in (_LINES if is_plain else _SENTENCE).split(text):
        parts = -(-_size(sentence) // PIECE_WORDS)
        if parts <= 1:
            yield sentence
            continue
        size = -(-len(sentence) // parts)
        begin = 0
        while begin < len(sentence):
            space = sentence.rfind(" ", begin + 1, begin + size)
            end = len(sentence) if begin + size >= len(sentence) else space if space > 0 else begin + size
            yield sentence[begin:end]
            begin = end


def pooled(scores: NDArray[np.float32], first_pieces: NDArray[np.int64]) -> NDArray[np.float32]:
    """The best score among the pieces of each row."""
    best = scores[first_pieces]
    if len(scores) > len(best):
        is_first = np.zeros(len(scores), np.bool_)
        is_first[first_pieces] = True
        others = np.flatnonzero(~is_first)  # the n-th belongs to the memory numbered its place less n
        np.maximum.at(best, others - np.arange(1, len(others) + 1), scores[others])
    return best


NO_WORD: Final = -1


def only_words(holders: Iterable[NDArray[Any]], count: int) -> NDArray[np.int16]:
    """For each row, the number of the only word of a question that it has; `NO_WORD` if it has none or several.

    Args:
        holders: by word, the rows that have it.
        count: of all rows.
    """
    only, had = np.full(count, NO_WORD, np.int16), np.zeros(count, np.uint8)
    for number, rows in enumerate(holders):
        there = np.zeros(count, np.bool_)  # a row may be listed twice
        there[rows] = True
        had += there
        only[rows] = number
    only[had != 1] = NO_WORD
    return only


def beyond_words(meaning: NDArray[np.float32], only: NDArray[np.int16]) -> NDArray[np.float32]:
    """The meaning of each row, less what the only word explains that it shares with the question.

    A text that shares a word with the question is nearer to it in whatever sense the word stands there. How much nearer
    is learnt from the others with that word alone: their mean, with one row more that is as usual. So a word that few
    have explains little, and a word that nobody else has explains nothing.

    Args:
        meaning: how near each row is to the question; 0 is the usual.
        only: of `only_words`.
    """
    found = meaning.copy()
    rows = np.flatnonzero(only != NO_WORD)
    words, theirs = only[rows], meaning[rows]
    sums, counts = np.bincount(words, theirs), np.bincount(words)
    found[rows] -= np.maximum(sums[words] - theirs, 0) / counts[words]
    return found


def lower_others(
    meaning: NDArray[np.float32], has_other: NDArray[np.bool_], has_itself: NDArray[np.bool_]
) -> None:
    """Lower, in place, what meaning adds to rows with "jammed" for "jam" to the most that it adds to one with "jam".

    Models that are made of parts of words take the one for the other.
    """
    meaning[has_other] = np.minimum(meaning[has_other], meaning[has_itself].max(initial=0))


def leaning(lengths: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much memories with these numbers of words depend on their neighbours, 0 to 1.

    A short memory often needs its neighbours to be understood; a long memory does not.
    """
    lean: NDArray[np.float32] = np.float32(LEAN_FULLY * LEAN_WORDS) / (np.float32(LEAN_WORDS) + lengths)
    return np.minimum(lean, np.float32(1))


def lent(
    scores: NDArray[np.float32],
    lengths: NDArray[np.float32],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> NDArray[np.float32]:
    """For each memory, the share of its neighbours' scores that counts for it, by how much it leans on them."""
    giving = np.flatnonzero(scores != 0)
    if len(giving) > len(scores) // _FEW:
        return _lent_by_all(scores, lengths, before, after)
    found = np.zeros(len(scores) + 1, np.float32)  # the last place takes -1, no neighbour
    found[after[giving]] = scores[giving] * np.float32(BEFORE_SHARE)
    found[before[giving]] += scores[giving] * np.float32(AFTER_SHARE)
    found = found[:-1]
    taking = np.flatnonzero(found != 0)
    found[taking] *= leaning(lengths[taking])
    return found


def _lent_by_all(
    scores: NDArray[np.float32],
    lengths: NDArray[np.float32],
    before: NDArray[np.int32],
    after: NDArray[np.int32],
) -> NDArray[np.float32]:
    padded = np.append(scores, np.float32(0))  # -1 is no neighbour
    found = padded.take(before, mode="wrap") * np.float32(BEFORE_SHARE)
    found += padded.take(after, mode="wrap") * np.float32(AFTER_SHARE)
    found *= leaning(lengths)
    return found


def surroundings(
    rows: NDArray[np.int64], before: NDArray[np.int32], after: NDArray[np.int32]
) -> list[tuple[NDArray[np.int32], float]]:
    """The memories that may lend a single word to some rows, and the share of its score that they lend."""
    found = []
    for side in (before, after):
        near = side[rows]
        found += [(near, BESIDE_WORD_SHARE), (np.where(near < 0, NOBODY, side[near]), FAR_WORD_SHARE)]
    return found


def session_scores(
    scored: Sequence[TermScores],
    owners: NDArray[np.int32],
    sessions: NDArray[np.int32],
    lengths: NDArray[np.float64],
) -> NDArray[np.float64]:
    """BM25 of whole sessions.

    Args:
        scored: the scores of the words in pieces.
        owners: the memory of each piece.
        sessions: the session of each memory; -1 for none.
        lengths: the number of words in each session.
    """
    totals = np.zeros(len(lengths))
    live = max(1, int(np.count_nonzero(lengths)))
    mean = max(1.0, float(lengths.sum()) / live)
    norms = SATURATION * (1 - SESSION_LENGTH_SHARE + SESSION_LENGTH_SHARE * lengths / mean)
    for item in scored:
        within = sessions[owners[item.rows]] + 1
        counts = np.bincount(within, item.counts, len(lengths) + 1)[1:]
        frequency = int(np.count_nonzero(counts))
        rarity = np.log1p((live - frequency + 0.5) / (frequency + 0.5))
        totals += rarity * counts * (SATURATION + 1) / (counts + norms + 1e-9)
    return totals


def speakers_meant(query: str, names: Sequence[str]) -> tuple[set[int], set[str]]:
    """The speakers that a query means, by number, and the folded words by which it names them.

    A query that contains any word of a name means that speaker. If speakers are roles ("user", "assistant"), "I" and
    "my" mean the role that asks, and "you suggested" means the role that answers.
    """
    asked = set(words(query))
    bare = asked | {word.removesuffix("'s") for word in asked}
    meant, by = set(), set()
    roles = {}
    for number, name in enumerate(names):
        parts = set(words(name))
        if parts & ASKERS:
            roles["asker"] = number
        elif parts & ANSWERERS:
            roles["answerer"] = number
        elif hit := parts & bare:
            meant.add(number)
            by |= hit
    if roles:
        folded = query.lower()
        if "answerer" in roles and _ABOUT_YOU.search(folded):
            meant.add(roles["answerer"])
        elif "asker" in roles and _ABOUT_ME.search(folded):
            meant.add(roles["asker"])
    return meant, by


def spoken_by(speakers: NDArray[np.int32], meant: Collection[int], count: int) -> NDArray[np.float32]:
    """1 for each row of a speaker that the query means, and 0 for the others."""
    table = np.zeros(count + 1, np.float32)  # the last place takes -1, no speaker
    table[list(meant)] = 1
    return table.take(speakers, mode="wrap")
