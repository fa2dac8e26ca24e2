"""Statements of a user that hold for every answer: instructions, preferences, allergies. Pure.

Only what is said as such counts, sentence by sentence, and a sentence is quoted as it stands: "Please always answer in
German.", "I'm allergic to hazelnuts.", "From now on use metric units." A later sentence about the same subject that
corrects an earlier one takes its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sense_memory.mind.search.corrections import corrects
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.mind.log import LogEntry

MAX_STANDING_CHARS: Final = 240  # of a sentence; a longer one is no instruction
_holds = re.compile(
    r"\bplease\b.*\balways\W*$"
    r"|^(?:please,? )?(?:answer|respond|reply|write|speak|talk)(?: to me| me)?(?: only| always)? in (?!the\b|a\b|an\b|my\b)\w+"
    r"|^no (?:calls?|meetings?|appointments?|emails?|messages?) (?:before|after|on|during)\b"
    r"|\bI(?:'d| would)? (?:always |strongly |much |really )?(?:rather|prefer)\b"
    r"|\bI(?:'m| am) (?:(?:very|also|badly|severely) )?(?:allergic|vegan|(?:a )?vegetarian|lactose|coeliac|celiac|colou?r-?blind"
    r"|left-handed|diabetic)\b"
    r"|\bI (?:don't|do not|can't|cannot|never) (?:eat|drink|take|fly|work)\b",
    re.IGNORECASE,
).search
_lasts = re.compile(
    r"\b(?:always|never|from now on|whenever|every time|each time|by default|in (?:the )?future|going forward|unless|call me"
    r"|address me|immer|nie|niemals|ab jetzt|von nun an|toujours|jamais|désormais|siempre|nunca|a partir de ahora)\b"
    r"|\b(?:call|meet|book|schedule|write|text|mail|disturb)\b.*\b(?:before|after|on|during)\b"
    r"|\b(?:answers|replies|it) (?:short|brief|simple|formal)\b",
    re.IGNORECASE,
).search
_lead = re.compile(r"^\W*(?:correction|actually|sorry|no|wait)\b[\s,:]*", re.IGNORECASE)
_passes = re.compile(
    r"\b(?:today|tonight|tomorrow|right now|for now|this (?:morning|afternoon|evening|week|weekend|time|once))\b",
    re.IGNORECASE,
).search


def standing_sentences(entries: Iterable[LogEntry]) -> list[tuple[str, LogEntry]]:
    """The sentences of a user that hold for every answer, each with its message, in the order of time.

    Args:
        entries: messages of users, oldest first.
    """
    found: list[tuple[str, LogEntry]] = []
    for entry in entries:
        for sentence in split_sentences(entry.text):
            if len(sentence) <= MAX_STANDING_CHARS and is_standing(sentence):
                found = [item for item in found if not _is_replaced(item[0], sentence)]
                found.append((sentence, entry))
    return found


def is_standing(sentence: str) -> bool:
    """Whether a sentence is an instruction or a preference that holds for every answer.

    >>> is_standing("Please always answer in German."), is_standing("I never saw her."), is_standing("Do you always walk?")
    (True, False, False)
    """
    said = _lead.sub("", sentence)
    kind = kind_of(said)
    if kind is SentenceKind.QUESTION or _passes(said) is not None:
        return False
    is_rule = kind is SentenceKind.INSTRUCTION and _lasts(said) is not None
    return is_rule or _holds(said) is not None


def _is_replaced(old: str, new: str) -> bool:
    """Whether a later sentence says the same, or corrects an earlier one."""
    return words(old) == words(new) or corrects(new, old)
