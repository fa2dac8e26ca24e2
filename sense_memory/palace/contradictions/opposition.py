"""Whether two claims oppose each other, in what, and how surely.

Two claims oppose when they say the same of the same but for one thing: a negation, an antonym, a feeling, a
figure, a date, a status, or the value of a slot that holds one. Words left over on both sides mean that they
speak of different things; two differences at once mean different occasions. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.antonyms import opposites, polarity, statuses_apart
from sense_memory.palace.contradictions.phrases import MAX_PHRASE_WORDS, matched
from sense_memory.palace.contradictions.quantities import other_date, other_number
from sense_memory.palace.contradictions.slots import (
    ALIASES,
    ATTRIBUTES,
    EXCLUSIVE,
    SUGGESTED,
    apart,
    differs,
    exclusive,
)
from sense_memory.palace.contradictions.words import GENERIC, STOP, stems


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.palace.contradictions.claims import Claim
    from sense_memory.palace.contradictions.phrases import Alike
    from sense_memory.palace.contradictions.slots import Slot

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
_REASON_CHARS: Final = 60

_SCHEDULED: Final = stems("""deadline due start begin end open close launch release birthday place plan schedule run fly expire pick
        call standup retro meeting freeze return lease return born found establish move leave arrive ship happen occur take deliver handover bed sleep wake happen occur take deliver handover bed sleep wake""")
_VAGUE_THEMES: Final = stems("preferences prefers preference choice decision likes facts style")


@dataclass(frozen=True, slots=True)
class Opposition:
    """What two claims oppose each other in.

    Attributes:
        kind, confidence, reason: as a `Contradiction` has them.
        by_meaning: whether it holds only if different words mean the same; which, the reason says.
    """

    kind: str
    confidence: float
    reason: str
    by_meaning: bool = False


def opposition(
    old: Claim,
    old_context: frozenset[str],
    new: Claim,
    new_context: frozenset[str],
    alike: Alike | None = None,
) -> Opposition | None:
    """The opposition of two claims, or None.

    Args:
        old: what was claimed before.
        old_context: stems of its memory's key and themes.
        new: what is claimed now.
        new_context: stems of its memory's key and themes.
        alike: how near two phrases are, from 0 up they mean the same; by default only the same words do.
    """
    if old.unreal or new.unreal or (old.negated and new.negated):
        return None
    if old.past != new.past:
        return _ended(old, new)
    pair = _Pair(old, new, old_context, new_context, alike)
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
        "negation", SUGGESTED, f"was said to be so, now said to be over: {_listed(old, old.words)}"
    )


class _Pair:
    """Two claims side by side."""

    def __init__(
        self,
        old: Claim,
        new: Claim,
        old_context: frozenset[str],
        new_context: frozenset[str],
        alike: Alike | None,
    ) -> None:
        self.old, self.new, self.alike = old, new, alike
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
        if not self.shared - words:
            return None
        left, right = self._residual(words)
        pairs = self._meant(left, right)
        if left and right and not pairs:
            return None
        extra = 0 if pairs else len(left) + len(right)
        if kind != "date" and bool(self.old.dates) != bool(self.new.dates):
            extra += 1  # only one of them says when
        if extra > (0 if pairs else _MAX_EXTRA_COUNT):
            return None  # words taken for others are doubt enough
        confidence = _SURE[kind] - extra * _EXTRA[kind]
        if kind in {"number", "date"} and (self.old.vague or self.new.vague or self.old.past):
            confidence = min(confidence, SUGGESTED)
        if kind == "date" and (self.old.occasional or self.new.occasional):
            return None
        if kind == "date" and not self._scheduled():
            confidence = min(confidence, SUGGESTED)
        return Opposition(kind, confidence, _short(reason + _taken(pairs)), bool(pairs))

    def _meant(self, left: frozenset[str], right: frozenset[str]) -> list[tuple[str, str]]:
        """How what either side has more means the same, all of it; empty where it does not."""
        if self.alike is None:
            return []
        return matched(_said(self.old, left), _said(self.new, right), self.alike)

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
        if old is None or new is None or self.old.negated or self.new.negated:
            return None
        if old.predicate == new.predicate == "leads":
            return self._leads(old, new)
        if not differs(old, new) or self.old.dates.keys() & self.new.dates.keys():
            return None
        if old.predicate != new.predicate:
            return self._other_words(old, new)
        left, right = self._subjects(old, new)
        pairs = self._meant(left, right)
        if pairs:
            old, new = replace(old, subject=old.subject | right), replace(new, subject=new.subject | left)
            left = right = frozenset()
        sure = self._filled(old, new, left, right)
        if not sure or (pairs and self._agree(old, new)):
            return None
        name = old.predicate.replace("… ", "") if old.predicate != "is" else _listed(self.old, old.subject)
        text = f"{name}: {_cut(old.text)} → {_cut(new.text)}{_taken(pairs)}"
        return Opposition("value", sure, _short(text), bool(pairs))

    def _filled(self, old: Slot, new: Slot, left: frozenset[str], right: frozenset[str]) -> float:
        """How surely a slot cannot have both values; `left` and `right` are what only one subject has."""
        scope = apart(old.scope, new.scope, self.contexts)
        if (left and right) or scope is None or not self._one_subject(old, new):
            return 0.0
        about = (self.contexts[0] & self.contexts[1]) - old.subject - new.subject - _VAGUE_THEMES
        sure = exclusive(old, new, bool(about))
        if not sure:
            return 0.0
        sure -= 0.16 * (len(left) + len(right))
        if scope:
            sure = min(sure, SUGGESTED)
        return min(0.95, sure + 0.04) if self.new.changed else sure

    def _other_words(self, old: Slot, new: Slot) -> Opposition | None:
        """Slots that are called otherwise: somebody's wife, and whom he is married to."""
        named = (old.subject ^ new.subject) & ATTRIBUTES
        if self.alike is None or old.subject.isdisjoint(new.subject):
            return None
        if not named and EXCLUSIVE.isdisjoint((old.predicate, new.predicate)):
            return None
        one, other = self._called(self.old, old, new), self._called(self.new, new, old)
        pairs = matched(one, other, self.alike)
        if not pairs or self._agree(old, new):
            return None
        text = f"{' '.join(one)}: {_cut(old.text)} → {_cut(new.text)}{_taken(pairs)}"
        return Opposition("value", SUGGESTED, _short(text), by_meaning=True)

    def _called(self, claim: Claim, slot: Slot, beside: Slot) -> list[str]:
        """What a slot is called: its predicate, and of its subject what the other one has not."""
        predicate = [word for word in slot.predicate.split() if word not in STOP and word != "…"]
        return _said(claim, slot.subject - beside.subject) + predicate

    def _agree(self, old: Slot, new: Slot) -> bool:
        """Whether two values mean the same, or are too long to tell."""
        one, other = _said(self.old, old.value - new.value), _said(self.new, new.value - old.value)
        if self.alike is None or max(len(one), len(other)) > MAX_PHRASE_WORDS:
            return True
        return bool(matched(one, other, self.alike))

    def _leads(self, old: Slot, new: Slot) -> Opposition | None:
        if old.value != new.value or not old.value or not old.subject or not new.subject:
            return None
        if not old.subject.isdisjoint(new.subject):
            return None
        text = f"leads {_cut(old.text)}: {_listed(self.old, old.subject)} → {_listed(self.new, new.subject)}"
        return Opposition("value", 0.82, _short(text))

    def _one_subject(self, old: Slot, new: Slot) -> bool:
        """Whether two slots may be of one subject."""
        if not old.subject and not new.subject:
            return old.person == new.person and not self.old.keyed and not self.new.keyed
        return not old.subject.isdisjoint(new.subject)

    def _subjects(self, old: Slot, new: Slot) -> tuple[frozenset[str], frozenset[str]]:
        """The words that only one of two subjects has."""
        left = old.subject - new.subject - self.contexts[1] - (ALIASES if self.old.keyed else frozenset())
        right = new.subject - old.subject - self.contexts[0] - (ALIASES if self.new.keyed else frozenset())
        return left, right


def _listed(claim: Claim, words: Iterable[str]) -> str:
    """Words as they were written, in the order of the clause."""
    wanted = set(words)
    said = [raw for word, raw in claim.spoken.items() if word in wanted]
    return _cut(" ".join(said or sorted(word.lstrip("~") for word in wanted)))


def _said(claim: Claim, words: frozenset[str]) -> list[str]:
    """Words as they were written, in the order of the clause; nothing where only the key has one of them."""
    return (
        [raw for word, raw in claim.spoken.items() if word in words] if words <= claim.spoken.keys() else []
    )


def _taken(pairs: Iterable[tuple[str, str]]) -> str:
    """Which words were taken as the same, for a reason."""
    return "".join(f"; {one} ≈ {other}" for one, other in pairs)


def _cut(text: str) -> str:
    return text if len(text) <= _REASON_CHARS else text[: _REASON_CHARS - 1] + "…"


def _short(text: str) -> str:
    return text if len(text) <= 3 * _REASON_CHARS else text[: 3 * _REASON_CHARS - 1] + "…"
