"""In which fields, and where in a text, the words of a search stand: for whoever shows why it was found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sense_memory.search.query import bare
from sense_memory.search.tokens import fold, is_unspaced, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.search.vocabulary import Vocabulary

_TOKEN: Final = re.compile(r"[^\W_]+(?:['\u2019][a-z]+)?")
_PART_CHARS: Final = 4  # the shortest word that may be a part of a longer one


class Fields:
    """The fields of one memory.

    Args:
        texts: by field.
        vocabulary: of the index that it was found in.
    """

    def __init__(self, texts: Mapping[str, str], vocabulary: Vocabulary) -> None:
        self._words = {name: words(text) for name, text in texts.items()}
        find = self._find = vocabulary.find
        self._terms = {name: {find(word) for word in found} for name, found in self._words.items()}

    def having(self, term: str) -> tuple[str, ...]:
        """The fields that have a term, as hits name it: a word, a phrase, a beginning ("photo*")."""
        wanted = {self._find(word) for word in words(term)} - {None}
        exact = tuple(name for name, there in self._terms.items() if wanted and wanted <= there)
        return exact or tuple(name for name, there in self._words.items() if _has_part(there, term))


def _has_part(found: Iterable[str], term: str) -> bool:
    """Whether some words have one that begins or ends with a term, as parts of a compound do, or nearly so."""
    part = term.removesuffix("*")
    near = part if term.endswith("*") else part[: max(_PART_CHARS, len(part) // 2 + 1)]
    return any(word.startswith(near) or word.endswith(part) or part.endswith(word) for word in found)


def marked(text: str, terms: Iterable[str], language: str = "english") -> list[tuple[int, int]]:
    """The places (start, end) of some terms in a text, in order, none within another.

    Args:
        text: any text.
        terms: as hits name them: folded words, phrases, beginnings ("photo*").
        language: as of the index.
    """
    stem, given = stemmer(language), list(terms)
    beginnings = tuple(term.removesuffix("*") for term in given if term.endswith("*"))
    wanted = {word for term in given if not term.endswith("*") for word in words(term)}
    spaced = {word for word in wanted if not is_unspaced(word)}
    stems = {stem(bare(word)) for word in spaced}
    edges = tuple(word for word in spaced if len(word) >= _PART_CHARS)

    def is_meant(word: str) -> bool:
        if stem(bare(word)) in stems or word.startswith(beginnings or ("\0",)):
            return True
        return len(word) > 2 * _PART_CHARS and (word.startswith(edges) or word.endswith(edges))

    found = [match.span() for match in _TOKEN.finditer(text) if any(map(is_meant, words(match[0])))]
    folded = fold(text)
    searched = folded if len(folded) == len(text) else text
    for word in wanted - spaced:
        found += [match.span() for match in re.finditer(re.escape(word), searched)]
    return _apart(found)


def _apart(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that touch or overlap are one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
