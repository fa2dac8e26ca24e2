"""Statements of a user that hold for every answer: instructions, preferences, allergies.

Only what is said as such counts, sentence by sentence, and a sentence is quoted as it stands: "Please always answer in
German.", "I'm allergic to hazelnuts.", "From now on use metric units." A later sentence about the same subject that
corrects an earlier one takes its place; one that takes back the sentence before it ("no wait, …") is quoted with that.
`holds_for_all` is pure. Memories have a rule of their own (`palace.standing`): who stores "Write short commit messages"
means every commit, and who says it may mean one.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from sense_memory.mind.chat.messages import KIND_PREFIX, own_text
from sense_memory.mind.search.corrections import corrects
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences
from sense_memory.palace.extraction import takes_back
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.mind.log import Log, LogEntry

MAX_STANDING_CHARS: Final = 240  # of a sentence; a longer one is no instruction
MAX_STANDING_COUNT: Final = 100  # sentences that are remembered; each is compared with the others
_READ_COUNT: Final = 500  # entries to read before other tasks get a turn, some 5 ms
_holds = re.compile(
    r"\bplease\b.*\balways\W*$"
    r"|^(?:please,? )?(?:answer|respond|reply|write|speak|talk)(?: to me| me)?(?: only| always)? in (?!the\b|a\b|an\b|my\b)\w+"
    r"|^no (?:calls?|meetings?|appointments?|emails?|messages?) (?:before|after|on|during)\b"
    r"|\bI(?:'d| would)? (?:always |strongly |much |really )?(?:rather|prefer)\b"
    r"|\bI(?:'m| am) (?:(?:very|also|badly|severely) )?(?:allergic|vegan|(?:a )?vegetarian|lactose|coeliac|celiac|colou?r-?blind"
    r"|left-handed|diabetic)\b"
    r"|\bI (?:don't|do not|can't|cannot|never) (?:eat|drink|take|fly|work)\b"
    r"|\bich bin (?:\w+ ){0,2}(?:allergisch|vegan\w*|vegetarier\w*|diabetiker\w*|laktoseintolerant|linkshänder\w*)\b"
    r"|\bich (?:esse|trinke|vertrage) (?:nie\b|kein)"
    r"|\b(?:bitte|gerne?|möchte|hätte)\b.*\b(?:ab jetzt|ab sofort|von nun an|künftig|in zukunft)\b"
    r"|^(?:bitte )?(?:antworte|schreibe?|sprich|rede)(?: mir| mit mir)?(?: bitte)?(?: nur| immer)? (?:auf|in) (?!de[rmn]\b|die\b|das\b|eine?)\w+"
    r"|^(?:bitte )?nenne? mich\b"
    r"|\bje suis (?:\w+ ){0,2}(?:allergique|végane?|végétarien\w*|diabétique|cœliaque|intolérante?)\b"
    r"|^(?:réponds?|écris)(?:-moi)?(?: toujours)? en \w+|^appelle-moi\b"
    r"|\bsoy (?:\w+ ){0,2}(?:alérgic[oa]|vegan[oa]|vegetarian[oa]|diabétic[oa]|celíac[oa]|intolerante)\b"
    r"|^responde(?:me)?(?: siempre)? en \w+|^llámame\b",
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


class StandingSentences:
    """The standing sentences of a user in a log, which they follow: an append costs one look at the new message.

    Args:
        log: holds the messages.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._arrived = self._gone = 0
        self._found: list[tuple[str, LogEntry]] = []
        self._reading = asyncio.Lock()

    async def newest(self, count: int) -> list[tuple[str, LogEntry]]:
        """The newest sentences that still hold, each with its message, newest first."""
        async with self._reading:
            arrived, gone = await self._log.changes(self._arrived, self._gone)
            for number, entry in enumerate(arrived):
                if entry.kind == f"{KIND_PREFIX}user" and self._log.known(entry.id):
                    said = _sayings(own_text(entry))
                    self._found += ((" ".join(text), entry) for text in said if holds_for_all(text[0]))
                if number % _READ_COUNT == 0:
                    await asyncio.sleep(0)
            self._arrived, self._gone = self._arrived + len(arrived), self._gone + len(gone)
            removed = set(gone)
            self._found = _still_held(item for item in self._found if item[1].id not in removed)
            return self._found[::-1][:count]


def _sayings(text: str) -> list[list[str]]:
    """The sentences of a message, each with those after it that take it back."""
    found: list[list[str]] = []
    for sentence in split_sentences(text):
        if found and takes_back(sentence):
            found[-1].append(sentence)
        else:
            found.append([sentence])
    return found


def _still_held(found: Iterable[tuple[str, LogEntry]]) -> list[tuple[str, LogEntry]]:
    """Sentences in the order of time, without those that a later one repeats or corrects."""
    held: list[tuple[str, LogEntry]] = []
    for sentence, entry in sorted(found, key=lambda item: (item[1].at, item[1].id)):
        held = [item for item in held if not _is_replaced(item[0], sentence)]
        held.append((sentence, entry))
    return held[-MAX_STANDING_COUNT:]


def holds_for_all(sentence: str) -> bool:
    """Whether a sentence is an instruction or a preference that holds for every answer.

    >>> said = ("Please always answer in German.", "Ich bin Vegetarier.", "I never saw her.", "Do you always walk?")
    >>> [holds_for_all(sentence) for sentence in said]
    [True, True, False, False]
    """
    said = _lead.sub("", sentence)
    if len(said) > MAX_STANDING_CHARS:  # before the patterns, which take seconds for the longest messages
        return False
    holds, lasts = _holds(said), _lasts(said)  # before the kind, which takes longer
    if not (holds or lasts) or _passes(said):
        return False
    kind = kind_of(said)
    return kind is SentenceKind.INSTRUCTION if not holds else kind is not SentenceKind.QUESTION


def _is_replaced(old: str, new: str) -> bool:
    """Whether a later sentence says the same, or corrects an earlier one."""
    return words(old) == words(new) or corrects(new, old)
