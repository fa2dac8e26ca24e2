"""What an embedder says of words that are in no table of this package: which short phrases mean the same, and how near two
sentences are.

Cosines of different models cannot be compared, so what "near" means is measured with each: two phrases mean the
same when they are nearer than things of one kind usually are to each other ("brother" and "sister", "tea" and
"coffee"). Nothing is embedded here: a phrase without a known vector is noted, and the caller may have it embedded.
Sentences are nearer to each other than words are, so for them "usual" is measured among sentences. Pure.
"""

from __future__ import annotations

import re
from itertools import combinations, product
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.vocabulary import KINDS, axis, of_one_kind, stem


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    # How near two phrases are: from 0 up they mean the same. Of two sentences, which end with a full stop: by how many
    # standard deviations they are nearer than two sentences about one person usually are.
    Alike: TypeAlias = Callable[[str, str], float]

MAX_ASKED_COUNT: Final = 64  # phrases noted at a time: a call of an endpoint, half a second of a small model
MAX_KNOWN_COUNT: Final = 10_000  # phrases remembered: some 10 MB
MAX_PHRASE_WORDS: Final = 3  # longer ones are statements, not phrases
MAX_NAMED_CHARS: Final = 2_000  # of a value that is looked through for names
_WORD: Final = re.compile(r"[^\W\d_]\w*")
_UNKNOWN: Final = -100.0
_CLEARLY: Final = 1.75  # standard deviations above what is usual between things of one kind

# Of which kinds "near" is measured: those of everyday things.
_MEASURES: Final = KINDS[:27]
_TOLD: Final = """lives in Graz, works at a bakery, plays the violin, is allergic to nuts, has two brothers,
likes hiking, drives an old van, speaks Polish, was born in May, is learning to swim, prefers short answers,
sold the house, reads novels at night, pays 900 euros of rent, is married to Tom, wants a dog"""
_SENTENCES: Final = tuple(f"Nora {told}." for told in _TOLD.replace("\n", " ").split(", "))
_SAMPLE: Final = (*(word for kind in _MEASURES for word in kind), *_SENTENCES)


class Phrases:
    """What phrases mean, as far as an embedder has said; until then nothing means the same."""

    def __init__(self) -> None:
        self._rows: dict[str, NDArray[Any]] = {}
        self._asked: dict[str, None] = {}
        self._bound: float | None = None
        self._usual = 0.0, 1.0  # mean and standard deviation of sentences

    def asked(self) -> list[str]:
        """What has to be learned, so that questions that were asked can be answered; it is noted no longer."""
        found, self._asked = list(self._asked), {}
        if found and self._bound is None:
            found += [word for word in _SAMPLE if word not in found]
        return found

    def learn(self, phrases: Sequence[str], rows: NDArray[Any]) -> None:
        """What some phrases mean: for each a row of length 1, all of one model."""
        if len(self._rows) > MAX_KNOWN_COUNT:
            self._rows = {}
        self._rows |= zip(phrases, rows, strict=True)
        if self._bound is None and self._rows.keys() >= set(_SAMPLE):
            known = self._rows
            near = _spread(known[a] @ known[b] for kind in _MEASURES for a, b in combinations(kind, 2))
            self._bound = min(1.0, near[0] + _CLEARLY * near[1])
            self._usual = _spread(known[a] @ known[b] for a, b in combinations(_SENTENCES, 2))

    def alike(self, one: str, other: str) -> float:
        """How near two phrases, or two sentences, are; see `Alike`. Far below, and noted, where it is not known yet."""
        if one == other:
            return 1.0
        if self._bound is None or one not in self._rows or other not in self._rows:
            missing = [phrase for phrase in (one, other) if phrase not in self._rows]
            if len(self._asked) + len(missing) <= MAX_ASKED_COUNT:
                self._asked |= dict.fromkeys(missing or (one,))
            return _UNKNOWN
        near = float(self._rows[one] @ self._rows[other])
        usual, spread = self._usual
        return (near - usual) / spread if one[-1] == other[-1] == "." else near - self._bound


def _spread(cosines: Iterable[Any]) -> tuple[float, float]:
    """The mean and the standard deviation."""
    values = [float(cosine) for cosine in cosines]
    return mean(values), max(pstdev(values), 1e-6)


def matched(old: Sequence[str], new: Sequence[str], alike: Alike) -> list[tuple[str, str]]:
    """How the differing words of two statements mean the same, word by word or as a whole; empty if they do not.

    An extra word on one side says one thing more, unless it brings the whole nearer: "cell phone"
    is nearer to "mobile" than "phone" is, "mother running" farther from "jogging" than "running".

    Args:
        old: words that only the one has, in order.
        new: words that only the other has.
        alike: how near two phrases are.
    """
    if not 0 < len(old) <= MAX_PHRASE_WORDS or not 0 < len(new) <= MAX_PHRASE_WORDS:
        return []
    if not all(word.isalpha() for word in (*old, *new)):
        return []  # names of things, versions, marks
    pairs = list(product(old, new))
    near = {pair: -1.0 if differ(*pair) else alike(*pair) for pair in pairs}
    found = [pair for pair in pairs if near[pair] >= 0]
    left, right = (set(side).difference(pair[at] for pair in found) for at, side in enumerate((old, new)))
    if not left and not right:
        return found
    whole = " ".join(old), " ".join(new)
    needed = 0.0 if left and right else max(near.values())
    is_clear = not any(differ(*pair) for pair in pairs)
    return [whole] if is_clear and alike(*whole) >= max(0.0, needed) else []


def unless_named(alike: Alike, *texts: str) -> Alike:
    """As `alike`, but never for two phrases that both contain a name: a word that a text capitalises.

    Names resemble each other ("Paul" and "Paula") and still mean different people.
    """
    written = (word for text in texts for word in _WORD.findall(text[:MAX_NAMED_CHARS]))
    names = {word.lower() for word in written if word[0].isupper()}

    def judged(one: str, other: str) -> float:
        named = [not names.isdisjoint(phrase.split()) for phrase in (one, other)]
        return -1.0 if all(named) else alike(one, other)

    return judged


def differ(one: str, other: str) -> bool:
    """Whether two words are known to mean different things, however near they stand."""
    a, b = stem(one), stem(other)
    (name, side), (other_name, other_side) = axis(one), axis(other)
    return a != b and (of_one_kind(a, b) or (bool(name) and name == other_name and side != other_side))
