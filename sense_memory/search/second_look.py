"""A second look: memories about a name that the best hit brings in, and that the question cannot know.

"Does the lady who cleans the office let herself in?" finds "The office is cleaned by Rosalind". That Rosalind has no key
stands in another memory, which shares no word with the question. `named_in` finds it by her name, and `with_named` gives
it one of the last places. In German texts, where every noun has a capital, nothing is taken for a name.

Guaranteed: the best hits stay where they are, all but the last `NAMED_COUNT` of ten or more, and no score rises. Every
memory that is found has a name that stands in the text, does not stand in the question, and is rare (`RARE_SHARE`,
`RARE_COUNT`). The order is fixed: the most evidence first, then by id. Evidence is the rarity of the shared names, and of
the words of the question that the memory has. Pure; nothing is kept.

Cost: reads the postings of the names, and only where one is rare also those of the question's words.
"""

from __future__ import annotations

import re
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from sense_memory.search.query import bare, looks_up, parse, quotes, stop_words
from sense_memory.search.ranking import Reason, SearchHit
from sense_memory.search.tokens import STOP_WORDS, words


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.index import SearchIndex

RARE_SHARE: Final = 0.04  # of all memories; a name that more of them have leads nowhere
RARE_COUNT: Final = 50  # memories with a name; more are not looked at
NAMED_COUNT: Final = 3  # memories that a second look adds at most
_FULL: Final = 10  # with a lower limit, only places that are free are taken
_REPEATED: Final = 4  # places of a word in one memory; a name with more places than that is not rare
_STEP: Final = 0.01  # of the lowest score, by which each is below the one before it
_CAPITAL: Final = re.compile(r"(?<![.!?]\s)(?<!^)\b[^\W\d_a-z][\w'-]*[^\W\d_A-Z][\w'-]*")
_NO_NAMES_TEXT: Final = """
january february march april may june july august september october november december monday tuesday wednesday thursday
friday saturday sunday mr mrs ms miss dr prof sir mondays tuesdays wednesdays thursdays fridays saturdays sundays
easter christmas english german french spanish italian
"""
_NO_NAMES: Final = STOP_WORDS["english"] | frozenset(_NO_NAMES_TEXT.split())


class Named(NamedTuple):
    """A memory that has a name of another one: its id, the evidence for it in nats, and the name, folded."""

    id: str
    evidence: float
    name: str


def asks_on(query: str) -> bool:
    """Whether a second look can help: a question asks for an answer, and quotes nothing."""
    return not looks_up(query) and not quotes(query)


def new_names(text: str, query: str) -> list[str]:
    """The folded words of names within the sentences of a text, but those of the question, each once."""
    if stop_words(words(text)) >= STOP_WORDS["german"]:
        return []
    asked = {bare(word) for word in words(query)} | _NO_NAMES
    found = (bare(word) for name in _CAPITAL.findall(text) for word in words(name))
    return [word for word in dict.fromkeys(found) if word not in asked and len(word) > 1]


def with_named(
    index: SearchIndex,
    query: str,
    found: Sequence[SearchHit],
    limit: int,
    *,
    text: str,
    factors: Callable[[Sequence[str]], Sequence[float]],
) -> list[SearchHit]:
    """Hits, of which the last ones are memories with a rare name of the first hit, if there are any.

    Args:
        index: that was searched.
        query: the question.
        found: its hits, the best first.
        limit: how many hits at most.
        text: of the first hit.
        factors: of the scores of some ids; 0 leaves an id out.
    """
    free = NAMED_COUNT if limit >= _FULL else min(NAMED_COUNT, limit - len(found))
    if not found or free <= 0 or not asks_on(query):
        return list(found)
    first = {hit.id for hit in found[: limit - free]}
    named = [one for one in named_in(index, text, query) if one.id not in first]
    shown = factors([one.id for one in named])
    named = [one for one, share in zip(named, shown, strict=True) if share > 0][:free]
    known, ids = {hit.id: hit for hit in found}, {one.id for one in named}
    kept = [hit for hit in found if hit.id not in ids][: limit - len(named)]
    score = kept[-1].score if kept else found[-1].score
    path = found[0].id.partition("/")[2]
    late = list[SearchHit]()
    for number, one in enumerate(named, 1):
        share = round(score * (1 - number * _STEP), 5)
        reason = Reason("named", f"{one.name}, named in {path}", share)
        late.append(known.get(one.id) or SearchHit(one.id, share, (reason,)))
    return kept + late


def named_in(index: SearchIndex, text: str, query: str) -> list[Named]:
    """The memories that have a rare name of a text, the most evidence first.

    Args:
        index: of the memories.
        text: of the best hit.
        query: the question.
    """
    count = len(index)
    most = min(RARE_COUNT, max(2.0, RARE_SHARE * count))
    evidence, names = dict[int, float](), dict[int, str]()
    for name in new_names(text, query):
        there = _having(index, name)
        rows = np.unique(there) if len(there) <= _REPEATED * most else there
        if len(rows) <= most:
            for row in rows.tolist():
                evidence[row] = evidence.get(row, 0.0) + log(count / len(rows))
                names.setdefault(row, name)
    if not evidence:
        return []
    chosen = np.array(sorted(evidence), np.int32)
    chosen = chosen[index.documents.column("alive")[chosen]]
    for word in parse(query).words:
        has_word = np.zeros(len(index.documents), np.bool_)
        has_word[_having(index, word)] = True
        rows = chosen[has_word[chosen]]
        if len(rows):
            rarity = log(max(1.0, count / np.count_nonzero(has_word)))
            for row in rows.tolist():
                evidence[row] += rarity
    ids = index.documents.ids
    return sorted((Named(ids[row], evidence[row], names[row]) for row in chosen.tolist()), key=_by_evidence)


def _by_evidence(found: Named) -> tuple[float, str]:
    return -found.evidence, found.id


def _having(index: SearchIndex, word: str) -> NDArray[np.int32]:
    """The rows of the memories that have a word, some repeated."""
    term = index.vocabulary.find(word)
    return np.empty(0, np.int32) if term is None else index.with_term(term)[0]
