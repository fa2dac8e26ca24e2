"""Statements of a user that hold for every answer: instructions, preferences, allergies. Pure.

Only what is said as such counts, sentence by sentence, and a sentence is quoted as it stands: "Please always answer in
German.", "I'm allergic to hazelnuts.", "From now on use metric units." A later sentence about the same subject that
corrects an earlier one takes its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sense_memory.mind.search.corrections import corrects
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.mind.log import LogEntry

MAX_STANDING_CHARS: Final = 240  # of a sentence; a longer one is no instruction
_sentences = re.compile(r"[^.!?\n]+[.!?]*").findall
_holds = re.compile(
    r"^\W*(?:(?:and|but|also|so|oh|hey|ok|okay|sorry|by the way|actually|correction|remember|one thing|note)[\s,:]+)*(?:"
    r"(?:please,? )?(?:always|never)\s+(?!mind\b|again\b|ever\b|been\b|had\b|seen\b)[a-z]+"
    r"|from now on\b|going forward\b|in (?:the )?future,? (?:please|always|never|do|don't|use|write|answer)\b|by default\b"
    r"|(?:please,? )?(?:answer|respond|reply|write|speak|talk)(?: to me| me)?(?: only| always)? in (?!the\b|a\b|an\b|my\b)\w+"
    r"|(?:please,? )?(?:keep|make) (?:it|them|your (?:answers|replies)|answers|replies) (?!up\b|on\b|going\b|coming\b|that\b)\w+"
    r"|(?:please,? )?(?:don't|do not|stop) (?:ever )?(?:call|use|send|write|suggest|recommend|remind|mention|ask|book|schedule"
    r"|put|share|tell)\w*\b.*\b(?:any ?more|again|ever|before|after|on|without|with|unless)\b"
    r"|(?:please,? )?call me (?!back\b|when\b|at\b|if\b|later\b|tomorrow\b|tonight\b|on\b|in\b|a\b|as\b|once\b|after\b|before\b)\w+"
    r"|no (?:calls?|meetings?|appointments?|emails?|messages?) (?:before|after|on|during)\b"
    r")"
    r"|\bplease\b.*\balways\W*$"
    r"|\bI(?:'d| would)? (?:always |strongly |much |really )?(?:rather|prefer)\b"
    r"|\bI(?:'m| am) (?:(?:very|also|badly|severely) )?(?:allergic|vegan|(?:a )?vegetarian|lactose|coeliac|celiac|colou?r-?blind"
    r"|left-handed|diabetic)\b"
    r"|\bI (?:don't|do not|can't|cannot|never) (?:eat|drink|take|fly|work)\b",
    re.IGNORECASE,
).search
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
        for sentence in map(str.strip, _sentences(entry.text)):
            if len(sentence) <= MAX_STANDING_CHARS and is_standing(sentence):
                found = [item for item in found if not _is_replaced(item[0], sentence)]
                found.append((sentence, entry))
    return found


def is_standing(sentence: str) -> bool:
    """Whether a sentence is an instruction or a preference that holds for every answer.

    >>> is_standing("Please always answer in German."), is_standing("I never saw her."), is_standing("Do you always walk?")
    (True, False, False)
    """
    is_said = not sentence.rstrip().endswith("?") and _passes(sentence) is None
    return is_said and _holds(sentence) is not None


def _is_replaced(old: str, new: str) -> bool:
    """Whether a later sentence says the same, or corrects an earlier one."""
    return words(old) == words(new) or corrects(new, old)
