"""Whether two claims oppose each other, in what, and how surely.

Two claims oppose when they say the same of the same but for one thing: a negation, an antonym, a feeling, a
figure, a date, a status, or the value of a slot that holds one. Words left over on both sides mean that they
speak of different things; two differences at once mean different occasions. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.opposites import WIDE_PLACES, is_quality, opposites, polarity, rivals, statuses_apart
from sense_memory.palace.quantities import other_date, other_number
from sense_memory.palace.slots import ALIASES, ATTRIBUTES, EXCLUSIVE
from sense_memory.palace.words import GENERIC, stem, stems


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.palace.claims import Claim
    from sense_memory.palace.slots import Slot

# How sure a difference of each kind is when nothing else differs. Set by hand: an order of trust, no frequencies.
_SURE: Final = {
    "negation": 0.92,
    "antonym": 0.90,
    "sentiment": 0.88,
    "number": 0.90,
    "date": 0.90,
    "status": 0.92,
}
# What one word costs that only one side has: it may be a condition or a detail, and under a negation it mostly is.
_EXTRA: Final = {
    "negation": 0.20,
    "antonym": 0.16,
    "sentiment": 0.16,
    "number": 0.16,
    "date": 0.16,
    "status": 0.18,
}
_MAX_EXTRA_COUNT: Final = 3
_SUGGESTED: Final = 0.6  # possible, and no more than that
_REASON_CHARS: Final = 60

_SCHEDULED: Final = stems("""deadline due start begin end open close launch release birthday place plan schedule run fly expire pick
        call standup retro meeting freeze return lease return born found establish move leave arrive ship happen occur take deliver handover bed sleep wake happen occur take deliver handover bed sleep wake""")
_VAGUE_THEMES: Final = stems("preferences prefers preference choice decision likes facts style")
_QUALITIES: Final = ("ful", "able", "ible", "ous", "less", "ish", "ly")
_CIRCUMSTANCES: Final = stems(
    """push commit demand background foreground production staging parallel time schedule night home weekend morning
    evening house office battery budget peace harmony luxury poverty fear"""
)
_PLACES: Final = frozenset({"lives in", "located in", "born in", "runs on", "works at", "is"})


@dataclass(frozen=True, slots=True)
class Opposition:
    """What two claims oppose each other in."""

    kind: str
    confidence: float
    reason: str


def opposition(
    old: Claim, old_context: frozenset[str], new: Claim, new_context: frozenset[str]
) -> Opposition | None:
    """The opposition of two claims, or None.

    Args:
        old: what was claimed before.
        old_context: stems of its memory's key and themes.
        new: what is claimed now.
        new_context: stems of its memory's key and themes.
    """
    if old.unreal or new.unreal or (old.negated and new.negated):
        return None
    if old.past != new.past:
        return _ended(old, new)
    pair = _Pair(old, new, old_context, new_context)
    if reversal := pair.reversal():
        return reversal
    typed = pair.typed()
    if old.negated != new.negated:
        return pair.denial(typed)
    if len(typed) > 1:
        return None
    if typed:
        return pair.judged(*typed[0])
    return pair.slots()


def _ended(old: Claim, new: Claim) -> Opposition | None:
    """What was said as present is now said to be over."""
    if not new.formerly or old.negated or new.negated or old.words != new.words:
        return None
    return Opposition(
        "negation", _SUGGESTED, f"was said to be so, now said to be over: {_listed(old, old.words)}"
    )


class _Pair:
    """Two claims side by side."""

    def __init__(
        self, old: Claim, new: Claim, old_context: frozenset[str], new_context: frozenset[str]
    ) -> None:
        self.old = old
        self.new = new
        self.contexts = (old_context, new_context)
        self.only_old = old.words - new.words
        self.only_new = new.words - old.words
        self.shared = frozenset(
            word for word in old.words & new.words if word not in GENERIC and word[0] != "~"
        )

    def reversal(self) -> Opposition | None:
        """`A over B` against `B over A`."""
        if self.old.order is None or self.new.order is None or self.old.words != self.new.words:
            return None
        (old_left, old_right), (new_left, new_right) = self.old.order, self.new.order
        if not old_right or not new_right or not (old_right <= new_left and new_right <= old_left):
            return None
        if self.old.negated != self.new.negated or old_right == new_right:
            return None
        text = f"{_listed(self.old, new_right)} over {_listed(self.old, old_right)} → the other way round"
        return Opposition("value", 0.92, text)

    def typed(self) -> list[tuple[str, frozenset[str], str]]:
        """Every difference with a kind: the kind, the words that make it, the reason."""
        found: list[tuple[str, frozenset[str], str]] = []
        old, new = self.old, self.new
        if old.status and new.status and statuses_apart(old.status[0], new.status[0]):
            words = frozenset({f"~{old.status[0]}", f"~{new.status[0]}"})
            found.append(("status", words, f"{old.status[1]} → {new.status[1]}"))
        elif pairs := opposites(self.only_old, self.only_new):
            a, b = min(pairs)
            feelings = all(polarity(word) for word in (a, b))
            text = f"{old.spoken.get(a, a)} → {new.spoken.get(b, b)}"
            found.append(
                ("sentiment" if feelings else "antonym", frozenset(w for pair in pairs for w in pair), text)
            )
        elif old.mood * new.mood == -1:
            words = frozenset(word for word in self.only_old | self.only_new if polarity(word))
            if words & self.only_old and words & self.only_new:
                text = f"{_listed(old, words & self.only_old)} → {_listed(new, words & self.only_new)}"
                found.append(("sentiment", words, text))
        if text := other_number(old.numbers, new.numbers):
            found.append(("number", frozenset(), text))
        if other_date(old.dates, new.dates):
            found.append(("date", frozenset(), f"{old.date_text} → {new.date_text}"))
        return found

    def denial(self, typed: list[tuple[str, frozenset[str], str]]) -> Opposition | None:
        """One side is negated; a difference beside that makes them agree, or speak of different things."""
        if typed:
            return None
        moods = frozenset(word for word in self.only_old | self.only_new if polarity(word))
        if self.old.mood and self.old.mood == self.new.mood and moods:
            return self.judged("sentiment", moods, f"{_listed(self.old, self.old.words)} → denied")
        denied = self.old if self.new.negated else self.new
        word = "now denied" if self.new.negated else "was denied"
        return self.judged("negation", frozenset(), f"{word}: {_listed(denied, denied.words)}")

    def judged(self, kind: str, words: frozenset[str], reason: str) -> Opposition | None:
        """How sure a single difference is, by what else is not the same."""
        left, right = self._residual(words)
        if (left and right) or not self.shared - words:
            return None
        extra = len(left) + len(right)
        if kind != "date" and bool(self.old.dates) != bool(self.new.dates):
            extra += 1  # only one of them says when
        if extra > _MAX_EXTRA_COUNT:
            return None
        confidence = _SURE[kind] - extra * _EXTRA[kind]
        if kind in {"number", "date"} and (self.old.vague or self.new.vague or self.old.past):
            confidence = min(confidence, _SUGGESTED)
        if kind == "date" and (self.old.occasional or self.new.occasional):
            return None
        if kind == "date" and not self._scheduled():
            confidence = min(confidence, _SUGGESTED)
        return Opposition(kind, confidence, _short(reason))

    def _scheduled(self) -> bool:
        """Whether the date is when something is to happen, rather than one of many times it did."""
        slot = self.old.slot
        return bool(self.shared & _SCHEDULED) or (slot is not None and slot.predicate == "is")

    def _residual(self, words: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
        """What either side has more, but for the words of the difference and what the other's key says."""
        ignored = GENERIC.union(words)
        left = self.only_old - ignored - self.contexts[1]
        right = self.only_new - ignored - self.contexts[0]
        return left, right

    def slots(self) -> Opposition | None:
        """The same slot of the same subject with another value."""
        old, new = self.old.slot, self.new.slot
        if (
            old is None
            or new is None
            or old.predicate != new.predicate
            or self.old.negated
            or self.new.negated
        ):
            return None
        if old.predicate == "leads":
            return self._leads(old, new)
        if not _differs(old, new) or self.old.dates.keys() & self.new.dates.keys():
            return None
        subject = self._same_subject(old, new)
        scope = _apart(old.scope, new.scope, self.contexts)
        about = (self.contexts[0] & self.contexts[1]) - old.subject - new.subject - _VAGUE_THEMES
        sure = _exclusive(old, new, bool(about)) if subject is not None and scope is not None else 0.0
        if not sure or subject is None:
            return None
        sure -= 0.16 * subject
        if scope:
            sure = min(sure, _SUGGESTED)
        if self.new.changed:
            sure = min(0.95, sure + 0.04)
        name = old.predicate.replace("… ", "") if old.predicate != "is" else _listed(self.old, old.subject)
        return Opposition("value", sure, _short(f"{name}: {_cut(old.text)} → {_cut(new.text)}"))

    def _leads(self, old: Slot, new: Slot) -> Opposition | None:
        if old.value != new.value or not old.value or not old.subject or not new.subject:
            return None
        if not old.subject.isdisjoint(new.subject):
            return None
        text = f"leads {_cut(old.text)}: {_listed(self.old, old.subject)} → {_listed(self.new, new.subject)}"
        return Opposition("value", 0.82, _short(text))

    def _same_subject(self, old: Slot, new: Slot) -> int | None:
        """How many words only one subject has; None if they are two subjects."""
        if not old.subject and not new.subject:
            return 0 if old.person == new.person and not self.old.keyed and not self.new.keyed else None
        if old.subject.isdisjoint(new.subject):
            return None
        left = old.subject - new.subject - self.contexts[1] - (ALIASES if self.old.keyed else frozenset())
        right = new.subject - old.subject - self.contexts[0] - (ALIASES if self.new.keyed else frozenset())
        return None if left and right else len(left) + len(right)


def _differs(old: Slot, new: Slot) -> bool:
    """Whether two values are different ones, and neither only says more than the other."""
    if not old.value or not new.value or old.value <= new.value or new.value <= old.value:
        return False
    short, long = sorted((old.text, new.text), key=len)
    if long.startswith(short):
        return False
    common = old.value & new.value
    if common and common <= ATTRIBUTES:  # "in the timezone CET": the attribute itself stands in the value
        return len(old.value) == len(new.value) == 2
    return not common or _same_head(old, new)


def _describes(slot: Slot) -> bool:
    """Whether a value is a quality rather than a thing: the supplier may be Tanabe and reliable."""
    last = slot.text.rpartition(" ")[2]
    return not slot.article and ((len(last) > 5 and last.endswith(_QUALITIES)) or is_quality(stem(last)))


def _same_head(old: Slot, new: Slot) -> bool:
    """`a window seat` and `an aisle seat`: the last word is what both are."""
    return (
        stem(old.text.rpartition(" ")[2]) == stem(new.text.rpartition(" ")[2])
        and min(len(old.value), len(new.value)) > 1
    )


def _apart(
    old: frozenset[str], new: frozenset[str], contexts: tuple[frozenset[str], frozenset[str]]
) -> int | None:
    """How many limiting words only one side has; None if both have some of their own."""
    left, right = old - new - contexts[1], new - old - contexts[0]
    return None if left and right else len(left) + len(right)


def _exclusive(old: Slot, new: Slot, themed: bool) -> float:
    """How surely a slot that holds one value does not hold the other: 0 where it may well.

    `themed` tells whether keys or themes share a word beside the subject.
    """
    name = old.predicate
    brief = max(len(old.value), len(new.value)) <= 2
    kin = (brief and rivals(old.value, new.value)) or _same_head(old, new)
    possible = _SUGGESTED - 0.1 if themed else 0.0
    if name in _PLACES and not (old.value | new.value).isdisjoint(_CIRCUMSTANCES):
        return 0.0
    if name in _PLACES and name != "is" and (old.article == "the") != (new.article == "the"):
        return _SUGGESTED  # a place and a part of it, or a firm and an office
    if name in _PLACES and (old.value.isdisjoint(WIDE_PLACES) != new.value.isdisjoint(WIDE_PLACES)):
        return _SUGGESTED
    if name == "built with":
        return 0.84 if kin else possible
    if name in EXCLUSIVE:
        return _SUGGESTED if {"a", "an"} & {old.article, new.article} else 0.88
    if name == "is at":
        return 0.84 if "." in old.text and "." in new.text else possible
    if name == "is":
        if _describes(old) or _describes(new):
            return 0.0
        if not (old.subject & new.subject | old.value & new.value).isdisjoint(ATTRIBUTES):
            return 0.86
        return _SUGGESTED if old.article == new.article == "the" else 0.0
    if name == "chose":
        return 0.84 if kin or old.subject & new.subject or old.scope & new.scope else possible
    if name == "uses":
        return 0.84 if old.scope & new.scope else _SUGGESTED if kin else 0.0
    if name.startswith("…"):
        return 0.82 if len(old.subject & new.subject) > 1 else 0.0
    if name == "prefers":
        return 0.84 if kin else possible
    if name == "is on":
        return 0.84 if _same_head(old, new) else 0.0
    return (0.82 if kin else 0.0) if name in {"wants", "goes to"} else possible


def _listed(claim: Claim, words: Iterable[str]) -> str:
    """Words as they were written, in the order of the clause."""
    wanted = set(words)
    said = [raw for word, raw in claim.spoken.items() if word in wanted]
    return _cut(" ".join(said or sorted(word.lstrip("~") for word in wanted)))


def _cut(text: str) -> str:
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 1] + "…"


def _short(text: str) -> str:
    return text if len(text) <= 3 * _REASON_CHARS else text[: 3 * _REASON_CHARS - 1] + "…"
