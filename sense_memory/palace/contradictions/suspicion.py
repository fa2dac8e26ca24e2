"""Whether a later note ends what an earlier one says, in whatever words.

Three small judges, each enough to suspect: a turn of things ("sold", "no longer") told of what the earlier note speaks of;
a linear score of what two notes share and what is left over; and, where an embedder answers, nearness in meaning at a turn.

What is guaranteed: a suspicion and never more; the same two notes and the same vectors give the same answer. Why it is
safe: two notes are not compared where the later one adds to the earlier ("too"), where a number tells their things apart,
and where nothing says that anything is otherwise. The weights are those of a logistic model, fitted by `fit_suspicion.py`,
beside the tests, to pairs by six authors and to natural notes, of which next to none may be suspected; nothing was fitted to
the pairs of four further authors. What it costs: reading a note some 0.1 ms, judging two some 6 µs; an embedder is asked
only where its answer can decide. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from math import log1p
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.figures import Figure, items
from sense_memory.palace.contradictions.vocabulary import axis, place, plain, stem


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.palace.contradictions.phrases import Alike

_PART: Final = re.compile(
    r"[,;:.!?]+(?=\s|$)|\s[\u2014\u2013-]\s|\s(?=(?:because|but|although|while|so|and|after|before|until|unless|if|when|since|which|who)\s)",
    re.IGNORECASE,
)
_TOLD: Final = re.compile(r"[,.;:!?](?=\s|$)|\band\b(?= [a-z])|\bto\b(?= [a-z])")
_NOT: Final = re.compile(r"(?:(?<=wo)|(?<=ca)|)n't\b|(?<=can)not\b")
_LETTERED: Final = re.compile(r"\b([A-Za-z]*[a-z]) ([A-HJ-Z])\b(?![.'&\w])")  # block A
_NUMBERED: Final = re.compile(r"#?[a-z]?\d*$")
_IDENTIFYING: Final = terms.IDENTIFYING - {"version", "v"}
_NAME: Final = re.compile(r"\b[A-ZÀ-Þ][^\W\d_]+")
_SORT: Final = re.compile(r"\b(?:is|am|are|was) an? ")
_CONDITION: Final = re.compile(
    r"(?:In|On|At|During|After|Before|For|From|Every|When|If|Unless|Until|With|Without) "
)
_NO_TOPIC: Final = terms.FIRST | {stem(name) for name in terms.RELATIONS}
_FUNCTION: Final = terms.STOP | terms.NEGATORS
_MAX_TOLD_COUNT: Final = 9  # words of a note that a turn can end as a whole
_MAX_BRIEF_COUNT: Final = 5


@dataclass(frozen=True, slots=True)
class Part:
    """What stands between two signs or conjunctions of a note.

    Attributes:
        row: its words and figures, in order, without articles.
        stems: the row as it is compared.
        words: the stems that carry content.
        figures: its figures.
        denials: how many words deny something.
        sides: its axes, and the side of each.
    """

    row: tuple[str | Figure, ...]
    stems: tuple[object, ...]
    words: frozenset[str]
    figures: tuple[Figure, ...]
    denials: int
    sides: dict[str, bool]

    @classmethod
    def of(cls, text: str) -> Part:
        """A part of a lowercase note."""
        row = tuple(item for item in items(text) if isinstance(item, Figure) or item not in terms.ARTICLES)
        said = [item.removesuffix("'s") for item in row if isinstance(item, str)]
        sides: dict[str, bool] = {}
        for name, side in map(axis, said):
            if name:
                sides.setdefault(name, side)
        return cls(
            row,
            tuple(
                (item.kind, item.value) if isinstance(item, Figure) else stem(item.removesuffix("'s"))
                for item in row
            ),
            frozenset(stem(word) for word in said if word not in _FUNCTION),
            tuple(item for item in row if isinstance(item, Figure)),
            sum(word in terms.NEGATORS for word in said),
            sides,
        )


@dataclass(frozen=True, slots=True)
class Note:
    """A text as it is judged here.

    Attributes:
        text: as it was written.
        parts: its parts that say something.
        words: the stems that carry content.
        names: the stems of its words with a capital.
        numbered: the words that tell a thing from others of its sort: `room #5`, `beta_search`.
        turned: what is said to change: the content words beside "sold", "no longer" or "now".
        begin: its first two words that carry content.
        states: the states that it names: a number of `STATES` and a side.
        turn: whether it tells of a turn of things: "sold", "no longer".
        hint: whether something may hint at one: "now", "new".
        ongoing: whether it tells of what is not over: "still", "going to".
        plan: whether it tells what may be.
        past: whether it tells what was.
        added: whether it says that what was said before stays true.
    """

    text: str = field(compare=False, repr=False)
    parts: tuple[Part, ...]
    words: frozenset[str]
    names: frozenset[str]
    numbered: frozenset[str]
    turned: frozenset[str]
    begin: tuple[str, str]
    states: frozenset[tuple[int, bool]]
    turn: bool
    hint: bool
    ongoing: bool
    plan: bool
    past: bool
    added: bool

    @classmethod
    def of(cls, text: str) -> Note:
        """Reads a text."""
        lower = _NOT.sub(" not", _LETTERED.sub(r"\1 #\2", text).lower().replace("\u2019", "'"))
        parts = [part for part in map(Part.of, map(plain, _PART.split(lower))) if part.row]
        turns = frozenset(stem(word) for turn in terms.TURNS.findall(lower) for word in turn.split())
        is_told = bool(turns) or terms.HINTS.search(lower) is not None
        told = (
            [part for part in _TOLD.split(lower) if terms.TURNS.search(part) or terms.HINTS.search(part)]
            if is_told
            else []
        )
        content = [word for part in parts for word in part.stems if word in part.words]
        words = frozenset(content)
        return cls(
            text,
            tuple(parts),
            words,
            frozenset(stem(name.lower()) for name in _NAME.findall(text)),
            frozenset(_numbered(parts)),
            frozenset(word for part in told for word in Part.of(part).words) - turns,
            (content[0], content[1]) if len(content) > 1 else ("", ""),
            frozenset(state for word in words if (state := terms.STATES.get(word))),
            bool(turns),
            terms.SIGNS.search(lower) is not None,
            terms.ONGOING.search(lower) is not None,
            terms.PLANS.search(lower) is not None,
            terms.PAST.search(lower) is not None and not terms.LASTING.search(lower),
            terms.ADDED.search(lower) is not None,
        )


def _numbered(parts: list[Part]) -> Iterator[str]:
    for part in parts:
        for at, (before, word) in enumerate(pairwise(("", *part.row))):
            if not isinstance(word, str) or word in terms.RELATIONS:
                continue
            is_number = word[0] == "#" and at == 1 and part is parts[0] and before not in {"version", "v"}
            if is_number or "_" in word or (before in _IDENTIFYING and _NUMBERED.match(word)):
                yield word


def suspected(old: Note, new: Note) -> bool:
    """Whether the later note probably ends what the earlier one says, by their words.

    >>> judge = lambda old, new: suspected(Note.of(old), Note.of(new))
    >>> judge("Eszter's operation is on 3 October", "The clinic postponed Eszter's operation to 11 November")
    True
    >>> judge("Karl is vegan", "Karl ordered the steak"), judge("The Rome office is open", "The Oslo office moved")
    (True, False)
    >>> judge("The shower in room 5 drips", "The shower in room 9 was fixed"), judge("Mia plays chess", "Mia plays go too")
    (False, False)
    """
    return not may_both_hold(old, new) and (_is_ended(old, new) or _score(features(old, new)) > 0)


def may_both_hold(old: Note, new: Note) -> bool:
    """Whether both notes can be true: other things, other conditions, another time, or "too"."""
    if new.added or (bool(old.numbered and new.numbered) and old.numbered.isdisjoint(new.numbered)):
        return True
    is_other_time = new.past and old.turn and not new.turn
    is_scoped = _CONDITION.match(new.text) is not None and not (
        new.turn or new.hint or _CONDITION.match(old.text)
    )
    return is_other_time or is_scoped or _is_said_again(old, new) or _other_subject(old, new)


def _is_said_again(old: Note, new: Note) -> bool:
    """Whether the later note says all of the earlier one, with as many denials and no other figure."""
    denials = [sum(part.denials for part in note.parts) % 2 for note in (old, new)]
    figures = [[one.value for part in note.parts for one in part.figures] for note in (old, new)]
    return (
        old.words <= new.words
        and old.turn == new.turn
        and denials[0] == denials[1]
        and figures[0] == figures[1]
    )


def _other_subject(old: Note, new: Note) -> bool:
    """Whether they start with different words and then continue alike: "the Rome office", "the Oslo office"."""
    (one, after), (other, later) = old.begin, new.begin
    return after == later != "" and one not in new.words and other not in old.words


def _is_ended(old: Note, new: Note) -> bool:
    """Whether the later note tells of a turn in what the earlier one speaks of."""
    if not new.turned or old.turn or old.past or new.plan or len(old.words) > _MAX_TOLD_COUNT:
        return False
    words = old.words - terms.VAGUE
    shared = words & new.turned
    if shared and new.turn:
        shared |= words & new.words
    is_brief = (
        new.turn and len(new.words) <= _MAX_BRIEF_COUNT and not shared.isdisjoint(old.names - {old.begin[0]})
    )
    return len(shared) >= (1 if is_brief else max(2, len(words) / 3))


# ── The score ───────────────────────────────────────────────────────────────────────────

_BIAS: Final = -2.66
_WEIGHTS: Final = {
    "unsaid": -2.89,
    "unsaid elsewhere": -2.47,
    "old words": 1.77,
    "turn": 5.32,
    "turn, one word": -2.28,
    "turn, unsaid": -0.06,
    "hint": 3.25,
    "states": 3.25,
    "opposite": 2.67,
    "denial is new": 1.31,
    "denial of less": -1.64,
    "old is ongoing": 1.98,
    "old is past": -1.84,
    "new is past": 0.60,
    "new is a plan": -1.22,
    "same subject": -0.34,
    "same start": 0.75,
    "another word": 0.83,
    "another value": 2.49,
    "another place": 0.97,
    "another date": -0.81,
}


def _score(found: dict[str, float]) -> float:
    """How likely it is that a later note ends an earlier one, by their `features`: above 0 it is suspected."""
    return _BIAS + sum(_WEIGHTS[name] * value for name, value in found.items()) if found else -1.0


def features(old: Note, new: Note) -> dict[str, float]:
    """What two notes that cannot both hold share, and what is left over, by the names of `_WEIGHTS`; nothing where that
    tells nothing.
    """
    shared, names = old.words & new.words, old.names & new.names
    is_state = any((number, not side) in old.states for number, side in new.states)
    if shared <= _NO_TOPIC or (names >= shared and not is_state):
        return {}
    one, other = _nearest(old, new), _nearest(new, old)
    opposite = any(other.sides.get(name, side) != side for name, side in one.sides.items())
    is_denial_new = any(part.denials for part in new.parts) and not any(part.denials for part in old.parts)
    start, end = _frame(one, other)
    gap, filler = len(one.stems) - start - end, len(other.stems) - start - end
    is_slot = 0 < gap <= 3 and 0 < filler <= 3 and start + end > 1
    before = one.row[start - 1] if is_slot and start else ""
    is_denied = is_denial_new or one.denials % 2 != other.denials % 2
    is_other = new.turn or opposite or is_denied or is_state
    if not is_other and (start == len(one.stems) or not (new.hint or is_slot or one.figures)):
        return {}  # it says more, or nothing says that anything is otherwise
    is_repeated = one.words <= new.words and not is_denied if is_other else is_slot
    apart = _figures_apart(one, other)
    if is_repeated and one.figures and other.figures and not apart:
        return {}  # the same figure
    if is_slot and one.figures and other.figures and gap + filler > 2:
        return {}  # another measure
    if is_slot and before in terms.BE and not shared.isdisjoint(terms.SEVERAL):
        return {}
    if is_slot and place(_words(one, start, end)) == place(_words(other, start, end)):
        return {}
    is_other_date = any(figure.is_date for figure in apart) and not (new.turn or new.hint)
    if is_other_date and not shared.isdisjoint(terms.OCCASIONS):
        return {}
    unsaid = len(one.words - new.words)
    return {
        "unsaid": log1p(unsaid),
        "unsaid elsewhere": log1p(max(0, len(old.words - new.words) - unsaid)),
        "old words": log1p(len(old.words)),
        "turn": new.turn,
        "turn, one word": new.turn and len(shared) == 1,
        "turn, unsaid": new.turn * log1p(unsaid),
        "hint": new.hint * len(shared) / min(len(old.words), len(new.words)),
        "states": is_state,
        "opposite": opposite * max(_share(one, new), _share(other, old)),
        "denial is new": is_denial_new,
        "denial of less": (is_denial_new or opposite) and not new.turn and one.words < other.words,
        "old is ongoing": old.ongoing,
        "old is past": old.past,
        "new is past": new.past,
        "new is a plan": new.plan,
        "same subject": old.parts[0].stems[0] == new.parts[0].stems[0],
        "same start": log1p(start),
        "another word": is_slot and gap == filler == 1 and not one.figures,
        "another value": before in terms.BE and not _SORT.search(new.text),
        "another place": before in terms.PLACING,
        "another date": is_other_date,
    }


def _nearest(note: Note, other: Note) -> Part:
    """The part that shares most with another note."""
    return max(note.parts, key=lambda part: len(part.words & other.words) - 0.1 * len(part.words))


def _share(part: Part, other: Note) -> float:
    return len(part.words & other.words) / (len(part.words) or 1)


def _frame(one: Part, other: Part) -> tuple[int, int]:
    """How many words two parts have in common at the start, and at the end."""
    start, most = 0, min(len(one.stems), len(other.stems))
    while start < most and one.stems[start] == other.stems[start]:
        start += 1
    end = 0
    while end < most - start and one.stems[-1 - end] == other.stems[-1 - end]:
        end += 1
    return start, end


def _words(part: Part, start: int, end: int) -> tuple[str, ...]:
    """The words of a part that carry content, without so many items at the start and at the end."""
    return tuple(str(item) for item in part.stems[start : len(part.stems) - end] if item in part.words)


def _figures_apart(one: Part, other: Part) -> list[Figure]:
    """The figures of a part for which another gives one of the same kind that differs."""
    return [a for a in one.figures if any(a.kind == b.kind and a.differs(b) for b in other.figures)]


# ── With an embedder ────────────────────────────────────────────────────────────────────
# A linear score too, fitted on older pairs; its bias is set by hand, so that of the natural notes none more is suspected. Near
# is in standard deviations, of which nothing has more than `_NEAREST`.
_MEANT_BIAS, _TURN, _HINT, _PER_WORD, _PER_NEAR, _NEAREST = -0.2, 5.3, 2.74, -0.27, 0.56, 8.0


def meant(old: Note, new: Note, alike: Alike) -> bool:
    """Whether a later note tells a turn and is near in meaning to an earlier one, with hardly a word in common.

    >>> near = lambda one, other: 5.0
    >>> one, other = Note.of("Berenike teaches Latin"), Note.of("Berenike retired and stands before no class any more")
    >>> meant(one, other, near), meant(one, other, lambda *_: -9.0)
    (True, False)
    """
    turn = _TURN if new.turn else _HINT if new.hint else 0.0
    if not turn or old.turn or old.past or may_both_hold(old, new):
        return False
    score = _MEANT_BIAS + turn + _PER_WORD * (len(old.text.split()) + len(new.text.split()))
    if score + _PER_NEAR * _NEAREST <= 0:
        return False
    return score + _PER_NEAR * alike(*(f"{note.text.rstrip('. ')}." for note in (old, new))) > 0
