"""The parts of a question: words, phrases in quotes, beginnings ("photo*"), without stop words.

Stop words are stripped in the language that the question is in, unless nothing else is left. A capital in the middle of
a sentence keeps a word ("Will", "May", "US"): it is a name. `resolve` turns words into terms of a vocabulary; terms
that only resemble a word weigh less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.search.postings import OTHER_FORM_WEIGHT
from sense_memory.search.tokens import STOP_ELSEWHERE, STOP_WORDS, asides, fold, is_unspaced, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sense_memory.search.vocabulary import Vocabulary


MAX_QUERY_CHARS: Final = 4_000  # the rest of a longer query is ignored
MAX_WANTED: Final = 64  # different words and phrases in one query
PREFIX_WEIGHT: Final = 0.8  # the weight of a word with the wanted beginning; the word itself has 1
LIKE_WEIGHT: Final = 0.5  # the weight of a word that resembles an unknown word
FAR_WEIGHT: Final = (
    0.15  # of "tired" for "tires", where a thing is asked for: in all fields less than the word
)
COMPOUND_WEIGHT: Final = 0.5  # "Geburtstagskuchen" for "Kuchen", "basketball" for "ball"
KIN_WEIGHT: Final = 0.5  # of "allergic" for "allergy"
ASIDE_WEIGHT: Final = 0.5  # weight of a single Han character of a longer run

_DOING_WORDS: Final = (
    "do does did has have had is are was were will would can could shall should may might must to not"
)
_DOING: Final = frozenset(_DOING_WORDS.split())
_BEFORE_DOING: Final = frozenset({"who", "i", "you", "we", "they", "he", "she", "it"})
_THING_WORDS: Final = """
the a an my our your his her their its this that these those some any no which what whose many much of for with on in at
about by from under near
"""
_BEFORE_THINGS: Final = frozenset(_THING_WORDS.split())

_QUOTED: Final = re.compile(r'"([^"]{2,})"|“([^“”]{2,})”|„([^„“”]{2,})[“”]|«([^«»]{2,})»|「([^「」]+)」')
_BEGINNING: Final = re.compile(r"(?<!\w)(\w{2,64})\*")
_MAY: Final = re.compile(r"\bMay\b(?! (?:I|we|you|he|she|it|they|the|an?|my|our|this|that)\b)")
_CAPITAL: Final = re.compile(r"(?<![.!?:\n]\s)(?<!^)\b([A-Z][a-z]+|[A-Z]{2,})\b(?!')")

_ABOUT: Final = re.compile(
    r"^(?:tell me|remind me|show me|list|find) |\b(?:anything|everything|something|all|know|kept) (?:\w+ )?(?:about|of|on|with)\b"
)
_OWNER: Final = re.compile(r"(?<!^)\b([A-Z]\w+)(?='s\b)")


@dataclass(frozen=True, slots=True)
class Ask:
    """The parts of a query, folded.

    Attributes:
        words: the words in the order of the query, each once, with its weight (below 1 for asides).
        phrases: words that must follow one another.
        beginnings: the beginnings of words.
        quoted: the words and phrases in quotes.
        things: the words that name a thing, and not an action.
        is_sentence: whether the query is a sentence or a part of one, and not a list of words to look up.
    """

    words: dict[str, float]
    phrases: tuple[tuple[str, ...], ...]
    beginnings: tuple[str, ...]
    quoted: tuple[tuple[str, ...], ...] = ()
    things: frozenset[str] = frozenset()
    is_sentence: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """One part of a query, to look up in the postings.

    Attributes:
        label: the part as the query has it, folded.
        kind: "word", "prefix" or "phrase".
        terms: the terms that count as this part; for a phrase, in order.
        weights: the weight of each term, 0 to 1; equal for all terms of a phrase.
        form: the form of the word (`search.tokens.form_of`), if the first term has that word's stem; else None.
        other: the weight of the form that is another word more often, see `postings.fits`.
    """

    label: str
    kind: str
    terms: tuple[int, ...]
    weights: tuple[float, ...]
    form: int | None = None
    other: float = 1.0


def parse(query: str, ignored: Collection[str] = ()) -> Ask:
    """Read a query.

    Args:
        query: any text.
        ignored: folded words to strip in addition to stop words (names that are matched elsewhere).
    """
    return _parsed(query[:MAX_QUERY_CHARS], frozenset(ignored))


@lru_cache(64)  # one search asks for the same several times
def _parsed(query: str, ignored: frozenset[str]) -> Ask:
    quoted = [words(next(filter(None, match.groups()))) for match in _QUOTED.finditer(query)]
    beginnings = [fold(match[1]) for match in _BEGINNING.finditer(query)]
    named = _named(query)
    found = words(_BEGINNING.sub(" ", query))
    stripped = stop_words(found) - named
    kept = [word for word in found if word not in stripped and bare(word) not in stripped]
    wanted = [word for word in kept if word not in ignored and bare(word) not in ignored] or kept
    if not wanted and not beginnings:
        wanted = found
    weights = dict.fromkeys(_without_kana(wanted), 1.0)
    for word in asides(query):
        weights.setdefault(word, ASIDE_WEIGHT)
    return Ask(
        dict(list(weights.items())[:MAX_WANTED]),
        tuple(dict.fromkeys(tuple(phrase) for phrase in quoted if len(phrase) > 1))[:MAX_WANTED],
        tuple(dict.fromkeys(beginnings))[:MAX_WANTED],
        tuple(dict.fromkeys(tuple(phrase) for phrase in quoted if phrase))[:MAX_WANTED],
        frozenset(_things(found)),
        not stripped.isdisjoint(found),
    )


def _things(found: Sequence[str]) -> Iterator[str]:
    """The words of a query that name a thing, and not an action.

    In a query that is not a sentence, these are all words. In a sentence, these are the words after an article or a
    preposition ("the tires"), and the words before a word such as "did", after which the query names an action.
    """
    is_done, before = False, ""
    is_sentence = any(word in STOP_WORDS["english"] for word in found)
    for word in found:
        if not is_sentence or before in _BEFORE_THINGS or (not is_done and before not in _BEFORE_DOING):
            yield word
        is_done = is_done or word in _DOING
        before = word


def quotes(query: str) -> bool:
    """Whether a query contains a quotation."""
    return bool(_QUOTED.search(query[:MAX_QUERY_CHARS]))


def looks_up(query: str) -> bool:
    """Whether a query only looks words up ("tea", "anything about tea"), and asks for no answer."""
    return not parse(query).is_sentence or bool(_ABOUT.search(fold(query[:MAX_QUERY_CHARS])))


def bare(word: str) -> str:
    """A word without "'s"."""
    return word.removesuffix("'s")


def without_names(query: str, names: Collection[str]) -> str:
    """The text of a question to embed: without the names that are matched elsewhere, and without question marks.

    A name draws near every memory that mentions the name, and a question mark draws near every question. Stop words
    stay: models of whole sentences need them, and tables of single words leave them out themselves.

    Args:
        query: any text.
        names: folded words.
    """
    parts = [(part, words(part)) for part in query.split()]
    kept = [part for part, said in parts if not said or not all(bare(word) in names for word in said)]
    return " ".join(kept).rstrip("?\uff1f ")


def names_in(query: str) -> frozenset[str]:
    """The folded names in a sentence: words with a capital that do not begin it, without "'s"."""
    query = query[:MAX_QUERY_CHARS]
    if not any(word[:1].islower() for word in query.split()[1:]):
        return frozenset()  # a list of words, or all capitals
    found = (*_CAPITAL.findall(query), *_OWNER.findall(query))
    return frozenset(fold(name) for name in found) - {"i"}


def stop_words(found: Collection[str]) -> frozenset[str]:
    """The stop words of the language that most of the words are stop words of; English if in doubt."""
    best = max(STOP_WORDS.values(), key=lambda stops: sum(word in stops for word in found))
    return best | STOP_ELSEWHERE


def _named(query: str) -> set[str]:
    """Words with a capital within a sentence; in a query that is all capitals, only the month."""
    month = {"may"} if _MAY.search(query) else set()
    if not any(word[:1].islower() for word in query.split()[1:]):
        return month
    return month | {fold(match[1]) for match in _CAPITAL.finditer(query)} - {"i"}


def _without_kana(found: list[str]) -> list[str]:
    """Drop pairs of hiragana, which are grammar, unless the query has nothing else."""
    content = [word for word in found if not all("\u3041" <= char <= "\u309f" for char in word)]
    return content or found


def resolve(
    ask: Ask,
    vocabulary: Vocabulary,
    is_spread: bool = True,
    is_used: Callable[[int], bool] = lambda _: True,
) -> list[Wanted]:
    """The terms of a vocabulary that a query asks for.

    Args:
        ask: the parts of the query.
        vocabulary: the vocabulary of the memories.
        is_spread: also take compounds, and for an unknown word those that resemble it.
        is_used: whether a term stands in what is searched; words of other terms are unknown, although a vocabulary
            also has the words of memories that are gone or are not searched.
    """
    found: dict[tuple[int, ...], Wanted] = {}
    for word, weight in ask.words.items():
        terms = _terms(word, weight, vocabulary, is_spread, is_used)
        known = found.get(tuple(terms))
        if terms and (
            known is None or known.weights < tuple(terms.values())
        ):  # a word before it only resembles
            form = vocabulary.form(word) if next(iter(terms)) == vocabulary.find(word) else None
            other = FAR_WEIGHT if word in ask.things else OTHER_FORM_WEIGHT
            found[tuple(terms)] = Wanted(word, "word", tuple(terms), tuple(terms.values()), form, other)
    for beginning in ask.beginnings:
        own = vocabulary.find(beginning)
        terms = dict.fromkeys(sorted(vocabulary.starting(beginning, is_used)), PREFIX_WEIGHT)
        terms |= {own: 1.0} if own is not None else {}
        if terms:
            label = f"{beginning}*"
            found[tuple(terms)] = Wanted(label, "prefix", tuple(terms), tuple(terms.values()))
    for phrase in ask.phrases:
        ids = [term for word in phrase if (term := vocabulary.find(word)) is not None]
        if len(ids) == len(phrase):
            found[(-1, *ids)] = Wanted(" ".join(phrase), "phrase", tuple(ids), (1.0,) * len(ids))
    return list(found.values())


def _terms(
    word: str, weight: float, vocabulary: Vocabulary, is_spread: bool, is_used: Callable[[int], bool]
) -> dict[int, float]:
    own = vocabulary.find(word)
    if own is not None and not is_used(own):
        own = None
    if not is_spread or is_unspaced(word) or not word.isalpha():
        return {} if own is None else {own: weight}
    terms = {} if own is None else {own: weight}
    near = sorted(vocabulary.compounds(word, is_used))
    for term in near:
        terms[term] = weight * COMPOUND_WEIGHT
    if terms:
        terms |= dict.fromkeys(sorted(vocabulary.kin(word, is_used) - terms.keys()), weight * KIN_WEIGHT)
    if not terms:
        terms = dict.fromkeys(sorted(vocabulary.relatives(word, is_used)), weight * LIKE_WEIGHT)
    return terms


# ── Marking ─────────────────────────────────────────────────────────────────────────────
# The fields and the places in a text that contain the words of a search, to show why a memory was found.

_TOKEN: Final = re.compile(r"[^\W_]+(?:['\u2019][a-z]+)?")
_PART_CHARS: Final = 4  # the shortest word that may be a part of a longer one


class Fields:
    """The fields of one memory.

    Args:
        texts: the texts by field.
        vocabulary: the vocabulary of the index that found the memory.
    """

    def __init__(self, texts: Mapping[str, str], vocabulary: Vocabulary) -> None:
        self._words = {name: words(text) for name, text in texts.items()}
        find = self._find = vocabulary.find
        self._terms = {name: {find(word) for word in found} for name, found in self._words.items()}

    def having(self, term: str) -> tuple[str, ...]:
        """The fields that contain a term in the form of hits: a word, a phrase, or a beginning ("photo*")."""
        wanted = {self._find(word) for word in words(term)} - {None}
        exact = tuple(name for name, there in self._terms.items() if wanted and wanted <= there)
        return exact or tuple(name for name, there in self._words.items() if _has_part(there, term))


def _has_part(found: Iterable[str], term: str) -> bool:
    """Whether one of some words begins or ends with a term, or nearly so, as a compound does."""
    part = term.removesuffix("*")
    near = part if term.endswith("*") else part[: max(_PART_CHARS, len(part) // 2 + 1)]
    return any(word.startswith(near) or word.endswith(part) or part.endswith(word) for word in found)


def marked(text: str, terms: Iterable[str], language: str = "english") -> list[tuple[int, int]]:
    """The places (start, end) of some terms in a text, in order and without overlaps.

    Args:
        text: any text.
        terms: the terms of hits: folded words, phrases, beginnings ("photo*").
        language: the language of the index.
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
    """Spans in which spans that touch or overlap are joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
