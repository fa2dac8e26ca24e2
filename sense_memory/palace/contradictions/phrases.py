"""What is said in other words: which short phrases mean the same, which speak of what is good, and whether a later text
ends what an earlier one says. An embedder tells the first two, and helps with the last.

Cosines of different models cannot be compared, so what "near" means is measured with each: two phrases mean the
same when they are nearer than things of one kind usually are to each other ("brother" and "sister", "tea" and
"coffee"). Nothing is embedded here: a phrase without a known vector is noted, and the caller may have it embedded.
Sentences are nearer to each other than words are, so for them "usual" is measured among sentences. What is good and what
is bad is the difference of a few words of both. Pure.
"""

from __future__ import annotations

import re
from itertools import combinations, product
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.vocabulary import KINDS, axis, kinds_of, of_one_kind, stem


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    from sense_memory.palace.contradictions.claims import Reading

    # How near two phrases are: from 0 up they mean the same. Of two sentences, which end with a full stop: by how many
    # standard deviations they are nearer than two sentences about one person usually are. Of a phrase and `GOOD`: by how
    # many it speaks of what is good and liked, below 0 of what is bad, among words that speak of neither.
    Alike: TypeAlias = Callable[[str, str], float]

MAX_ASKED_COUNT: Final = 64  # phrases noted at a time: a call of an endpoint, half a second of a small model
MAX_KNOWN_COUNT: Final = 10_000  # phrases remembered: some 10 MB
MAX_PHRASE_WORDS: Final = 3  # longer ones are statements, not phrases
MAX_NAMED_CHARS: Final = 2_000  # of a value that is looked through for names
_DIGIT: Final = re.compile(r"\d")
_WORD: Final = re.compile(r"[^\W\d_]\w*")
_UNKNOWN: Final = -100.0
_CLEARLY: Final = 1.75  # standard deviations above what is usual between things of one kind

# Of which kinds "near" is measured: those of everyday things.
_MEASURES: Final = KINDS[:27]
_SENTENCES: Final = tuple(
    f"Nora {told}."
    for told in """
lives in Graz, works at a bakery, plays the violin, is allergic to nuts, has two brothers, likes hiking, drives an old van,
speaks Polish, was born in May, is learning to swim, prefers short answers, sold the house, reads novels at night,
pays 900 euros of rent, is married to Tom, wants a dog""".replace("\n", " ")
    .strip()
    .split(", ")
)
GOOD: Final = "±good"  # with a phrase: how good what it speaks of is; see `Alike`
_GOOD: Final = ["like", "love", "enjoy", "good", "great", "excellent"]
_BAD: Final = ["dislike", "hate", "detest", "bad", "poor", "awful"]
_SAMPLE: Final = (*(word for kind in _MEASURES for word in kind), *_SENTENCES, *_GOOD, *_BAD)


class Phrases:
    """What phrases mean, as far as an embedder has said; until then nothing means the same."""

    def __init__(self) -> None:
        self._rows: dict[str, NDArray[Any]] = {}
        self._asked: dict[str, None] = {}
        self._bound: float | None = None
        self._usual = self._neutral = (
            0.0,
            1.0,
        )  # mean and standard deviation: of sentences, of words along `GOOD`

    def asked(self) -> list[str]:
        """What has to be learned, so that questions that were asked can be answered; it is noted no longer."""
        found, self._asked = list(self._asked), {}
        if found and self._bound is None:
            found += [word for word in _SAMPLE if word not in found]
        return found

    def learn(self, phrases: Sequence[str], rows: NDArray[Any]) -> None:
        """What some phrases mean: for each a row of length 1, all of one model."""
        if len(self._rows) > MAX_KNOWN_COUNT:
            self._rows = {name: row for name, row in self._rows.items() if name == GOOD}
        self._rows |= zip(phrases, rows, strict=True)
        if self._bound is None and self._rows.keys() >= set(_SAMPLE):
            known = self._rows
            near = _spread(known[a] @ known[b] for kind in _MEASURES for a, b in combinations(kind, 2))
            self._bound = min(1.0, near[0] + _CLEARLY * near[1])
            self._usual = _spread(known[a] @ known[b] for a, b in combinations(_SENTENCES, 2))
            known[GOOD] = _middle([known[word] for word in _GOOD]) - _middle([known[word] for word in _BAD])
            self._neutral = _spread(known[word] @ known[GOOD] for kind in _MEASURES for word in kind)

    def alike(self, one: str, other: str) -> float:
        """How near two phrases, or two sentences, are; see `Alike`. Far below, and noted, where it is not known yet."""
        if one == other:
            return 1.0
        if self._bound is None or one not in self._rows or other not in self._rows:
            missing = [phrase for phrase in (one, other) if phrase not in self._rows and phrase != GOOD]
            if len(self._asked) + len(missing) <= MAX_ASKED_COUNT:
                self._asked |= dict.fromkeys(missing or (one,))
            return 0.0 if other == GOOD else _UNKNOWN
        near = float(self._rows[one] @ self._rows[other])
        usual, spread = self._neutral if other == GOOD else self._usual
        return (near - usual) / spread if other == GOOD or one[-1] == other[-1] == "." else near - self._bound


def _middle(rows: list[NDArray[Any]]) -> NDArray[Any]:
    return sum(rows[1:], rows[0]) / len(rows)


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


# ── Two notes ───────────────────────────────────────────────────────────────────────────
# Two notes that differ in more than one thing are suspected by a linear score of what they share. Its weights are those
# of a logistic model, fitted on development sets of pairs and on a natural corpus; above 0 is a suspicion. An embedder
# adds how much nearer the notes are in meaning than the words they share make them, in standard deviations of what is
# usual, of which nothing has more than `_NEAREST`.
_BIAS, _PER_NEAR, _NEAR_OF_SHARED, _NEAREST = 1.65, 0.35, 5.0, 8.0
_WEIGHTS: Final = {
    "unsaid": -1.0,  # for each word of the old one that the new one has not
    "length": -0.11,  # for each word of the new one
    "share": -1.4,  # of the words of the old one that the new one has
    "states": 2.3,  # of one person, that exclude each other
    "turn": 1.9,
    "turned": 1.5,  # a turn, and they share more than the subject
    "hint": 1.8,  # at a turn
    "changed": 1.25,
    "apart": -1.2,  # two things of one kind
    "figure": -1.2,  # that both have
    "figures": 2.5,  # one each, that differ, for one subject in other words
    "plan": -0.6,  # the new one
    "occasion": -0.5,  # only one of them tells which
}


def is_over(old: Reading, new: Reading, texts: tuple[str, str], alike: Alike | None) -> bool:
    """Whether a later note says, in other words, that what an earlier one says holds no longer.

    Something must have changed, or two figures or states of the same thing must differ; a linear score of what the notes
    share decides. A pair that cannot reach the bound is never asked for, so most texts are never embedded for it.

    Args:
        old: what the earlier one says.
        new: what the later one says.
        texts: both as they were written.
        alike: how near two texts are; by default only words count.
    """
    shared, changed = old.words & new.words, new.turn > 0 or any(clause.changed for clause in new.clauses)
    if not shared or old.turn == 2 or old.clauses[0].mood == "past":
        return False
    if not (changed or any(clause.figures or clause.states for clause in new.clauses)):
        return False  # most pairs end here
    if _other_subject(old, new, shared) or any(clause.added for clause in new.clauses):
        return False
    found = _features(old, new)
    is_about = bool(alike or shared - {_words(old)[0]})  # more than the subject
    if not (found["states"] or (is_about and (changed or found["figures"]))):
        return False
    score = _BIAS + sum(_WEIGHTS[name] * value for name, value in found.items())
    if alike is not None:
        score -= _PER_NEAR * _NEAR_OF_SHARED * found["share"]
        if score + _PER_NEAR * _NEAREST > 0:
            score += _PER_NEAR * alike(*(f"{text.rstrip('. ')}." for text in texts))
    return score > 0


def _features(old: Reading, new: Reading) -> dict[str, float]:
    """What two notes share, by the names of `_WEIGHTS`."""
    shared = old.words & new.words
    figures = [one for clause in old.clauses for one in clause.figures]
    others = [one for clause in new.clauses for one in clause.figures]
    kinds = [(one, two) for one in figures for two in others if one.kind == two.kind]
    states = {state for clause in old.clauses for state in clause.states}
    return {
        "unsaid": min(len(old.words - shared), 12),
        "length": new.length,
        "share": len(shared) / len(old.words or " "),
        "apart": not kinds_of(old.words - shared).isdisjoint(kinds_of(new.words - shared)),
        "states": any(
            (number, not side) in states for clause in new.clauses for number, side in clause.states
        ),
        "turn": new.turn == 2,
        "turned": new.turn == 2 and bool(shared - {_words(old)[0]}),
        "hint": new.turn == 1,
        "changed": any(clause.changed for clause in new.clauses),
        "figure": any(not one.differs(two) for one, two in kinds),
        "figures": len(figures) == len(others) == 1
        and _words(old)[0] in shared
        and 2 < len(old.words ^ new.words) <= len(shared) + 2
        and any(one.differs(two) and not one.is_date for one, two in kinds),
        "plan": any(clause.mood == "plan" for clause in new.clauses),
        "occasion": any(key[0] == "@" for key in old.words ^ new.words),
    }


def _other_subject(old: Reading, new: Reading, shared: frozenset[str]) -> bool:
    """Whether both begin with something that the other has not, and go on alike ("the Berlin meeting", "the Lisbon
    meeting"), or speak of things with two numbers.
    """
    (one, after, *_), (other, *later) = _words(old), _words(new)
    numbered = [any(map(_DIGIT.search, note.words - shared)) for note in (old, new)]
    return all(numbered) or (shared.isdisjoint((one, other)) and after in later[:1])


def _words(note: Reading) -> list[str]:
    return [token.key.lstrip("±~") for clause in note.clauses for token in clause.tokens] + ["", ""]
