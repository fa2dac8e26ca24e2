"""What kind of sentence a sentence is, so that rules conclude only from sentences that say something. Pure.

Everything that rules conclude (thoughts, topics, beliefs, an identity, the facts of a summary) is a quotation of a sentence of
a kind in `SAYING`. A question, a command, small talk, a passing remark and a fragment are no evidence of anything.

Doubt ends in silence: what no rule knows is a `REMARK` or a `FRAGMENT`. The rules read English best, and the commonest forms
of German, French and Spanish. The cost is some 0.1 ms for each sentence that is read for the first time.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from sense_memory.mind import sentence_patterns as of
from sense_memory.search.tokens import STOP_WORDS


class SentenceKind(StrEnum):
    """What a sentence does."""

    STATEMENT = "statement"  # says something of a subject that a later question may ask for
    PREFERENCE = "preference"  # what somebody likes, loves, hates or prefers
    DECISION = "decision"
    DATE = "date"  # when something happens
    CORRECTION = "correction"  # says that something said before is wrong or has changed
    INSTRUCTION = "instruction"  # holds from now on: "always …", "never …"
    OPEN_QUESTION = "open question"  # says what is not known or decided yet
    REMARK = "remark"  # of the moment: "It took a while."
    SMALL_TALK = "small talk"
    QUESTION = "question"
    COMMAND = "command"  # asks for one action: "Open the window."
    FRAGMENT = "fragment"  # no sentence: "90 cm"


SAYING: Final = frozenset(
    {
        SentenceKind.STATEMENT,
        SentenceKind.PREFERENCE,
        SentenceKind.DECISION,
        SentenceKind.DATE,
        SentenceKind.CORRECTION,
        SentenceKind.INSTRUCTION,
        SentenceKind.OPEN_QUESTION,
    }
)
_MAX_CHARS: Final = 1_000  # of a sentence that is read; a longer one is a table, a log or code
_PARTS: Final = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*").findall
# A point behind one of these ends no sentence.
_SHORT: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Nr|No|ca|approx|etc|vs|e\.g|i\.e|z\.B|bzw|Mme|Mlle|Sr|Sra)|(?:\b(?:am|der|den|the|le|el) \d{1,2}))\.$"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blanks around them.

    >>> split_sentences("Ms. Haller speaks. It costs 2.50 euros!")
    ['Ms. Haller speaks.', 'It costs 2.50 euros!']
    """
    found: list[str] = []
    for line in text.split("\n"):
        waiting = ""
        for part in _PARTS(line):
            waiting = f"{waiting} {part.strip()}".strip()
            if not _SHORT.search(waiting):
                found.append(waiting)
                waiting = ""
        found += [waiting] if waiting else []
    return [sentence for sentence in found if sentence]


def says_something(text: str) -> bool:
    """Whether a text has a sentence from which something can be concluded."""
    return any(kind_of(sentence) in SAYING for sentence in split_sentences(text))


def may_be_thought(text: str) -> bool:
    """Whether a text is more than small talk, questions, commands and fragments; true for languages that no rule reads.

    >>> may_be_thought("Haha, ok! What time is it?"), may_be_thought("Кайя живёт в Граце.")
    (False, True)
    """
    return any(kind_of(sentence) in _THOUGHTS or _is_unread(sentence) for sentence in split_sentences(text))


_THOUGHTS: Final = SAYING | {SentenceKind.REMARK}
_LANGUAGES: Final = ("english", "german", "french", "spanish")
_MANY_LETTERS: Final = 8
_MANY_WORDS: Final = 5
_LONG_WORDS: Final = 8  # so long a fragment is a sentence that the rules do not understand


def _is_unread(sentence: str) -> bool:
    """Whether a sentence seems to be of another script or language than those of the rules, or is long."""
    if kind_of(sentence) is not SentenceKind.FRAGMENT:
        return False
    letters = [letter for letter in sentence if letter.isalpha()]
    if sum(ord(letter) > _LAST_LATIN for letter in letters) > len(letters) / 2:
        return len(letters) >= _MANY_LETTERS or sentence[-1:] == "\u3002"
    words = of.WORDS(sentence.lower())
    known = sum(any(word in STOP_WORDS[name] for name in _LANGUAGES) for word in words)
    return len(words) >= _LONG_WORDS or (len(words) >= _MANY_WORDS and 3 * known <= len(words))


_LAST_LATIN: Final = 0x24F


def saying(text: str) -> list[str]:
    """The sentences of a text from which something can be concluded."""
    return [sentence for sentence in split_sentences(text) if kind_of(sentence) in SAYING]


@lru_cache(8_192)
def kind_of(sentence: str) -> SentenceKind:
    """The kind of one sentence.

    >>> [str(kind_of(text)) for text in ("I know", "My sister lives in Graz.", "No, it's the 14th.")]
    ['small talk', 'statement', 'correction']
    """
    text = " ".join(sentence.replace("\u2019", "'").split())
    if len(text) > _MAX_CHARS or not of.WORDS(text):
        return SentenceKind.FRAGMENT
    told = of.LEAD.sub("", text) or text
    for kind, applies in _RULES:
        if applies(text, told):
            return kind
    return _declared(told)


def is_correction(text: str) -> bool:
    """Whether a sentence says that something is wrong or has changed; a question never does."""
    return kind_of(text) is SentenceKind.CORRECTION


def subject_of(sentence: str) -> tuple[str, ...]:
    """The words of the subject of a sentence in lower case, without articles and pronouns; empty if it has none.

    >>> subject_of("By the way, my sister Anna lives in Graz."), subject_of("It is late.")
    (('sister', 'anna'), ())
    """
    words = of.WORDS(_told(sentence).lower())
    place = _verb_place(words)
    found = (word.removesuffix("'s") for word in words[: place or 0])
    return tuple(word for word in found if word not in of.NO_SUBJECT and not word.isdigit())


def _told(sentence: str) -> str:
    """A sentence without words such as "by the way" at its beginning."""
    return of.LEAD.sub("", " ".join(sentence.replace("\u2019", "'").split()))


def _verb_place(words: list[str]) -> int | None:
    """The place of the finite verb among the first words of a sentence; None if no rule sees one."""
    before = ""
    for place, word in enumerate(words[:9]):
        if word.endswith(("'s", "'re", "'m", "'ve")) and word.partition("'")[0] in of.CONTRACTED:
            return place + 1
        if word in of.ADVERBS:
            continue
        is_free = place and word not in of.NOT_VERBS and before not in of.DETERMINERS and not before.isdigit()
        if is_free and _is_verb(word, before, is_near=place < 5, is_last=place + 1 == len(words)):
            return place
        before = word
    return None


def _is_verb(word: str, before: str, *, is_near: bool, is_last: bool) -> bool:
    if word in of.AUXILIARIES or word in of.THIRD or word in of.OTHER_VERBS:
        return True
    if word in of.BASE and before.endswith("s"):
        return is_near
    is_past = word in of.PAST or (word.endswith("ed") and len(word) > 3)
    is_third = word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and len(word) > 3
    return is_near and (is_past or (is_third and not is_last))


def tells_of_past(sentence: str) -> bool:
    """Whether a sentence tells what happened, and not how things are.

    >>> tells_of_past("The smith forged a hinge."), tells_of_past("The smith forges hinges.")
    (True, False)
    """
    words = of.WORDS(_told(sentence).lower())
    place = _verb_place(words)
    first = 1 if words[:1] in (["i"], ["we"]) else place
    verb = words[first] if first is not None and first < len(words) else ""
    return (
        verb in of.PAST
        or verb in {"was", "were", "had", "did"}
        or (verb.endswith("ed") and len(verb) > len("need"))
    )


# ── The rules, in their order ──


def _is_small_talk(text: str, told: str) -> bool:
    words = {word.lower() for word in of.WORDS(text)}
    return words <= of.SMALL_TALK or bool(
        of.REPLY.match(text) or of.GREETING.match(text) or of.GREETING.match(told)
    )


def _is_question(text: str, told: str) -> bool:
    return (
        text.rstrip(" .…)\"'*_:;-").endswith(("?", "\uff1f"))
        or text.startswith("¿")
        or bool(of.ASKS.match(told))
    )


def _is_fragment(text: str, told: str) -> bool:
    return told.rstrip().endswith(":") or bool(re.match(r"^\S+://\S+$", text))


def _is_corrective(text: str, told: str) -> bool:
    is_said = bool(of.CORRECTS.search(text) or of.CORRECTS.match(told)) and len(of.WORDS(text)) > 1
    return is_said and not of.CLOSED.search(text) and not of.JUDGES.search(told)


def _is_open(text: str, told: str) -> bool:
    del text
    return bool(of.OPEN.search(told))


def _is_instruction(text: str, told: str) -> bool:
    del text
    return bool(of.INSTRUCTS.search(told))


def _is_decision(text: str, told: str) -> bool:
    return bool(of.DECIDES.search(told)) and not re.search(
        r"\b(?:can't|cannot|if|should|might|not yet)\b", text, re.IGNORECASE
    )


def _is_command(text: str, told: str) -> bool:
    del text
    return bool(of.COMMANDS.match(told))


_RULES: Final = (
    (SentenceKind.QUESTION, _is_question),
    (SentenceKind.SMALL_TALK, _is_small_talk),
    (SentenceKind.FRAGMENT, _is_fragment),
    (SentenceKind.OPEN_QUESTION, _is_open),
    (SentenceKind.CORRECTION, _is_corrective),
    (SentenceKind.INSTRUCTION, _is_instruction),
    (SentenceKind.DECISION, _is_decision),
    (SentenceKind.COMMAND, _is_command),
)


def _declared(told: str) -> SentenceKind:
    """The kind of a sentence that only declares something."""
    words = of.WORDS(told.lower())
    if of.PASSING.match(told):
        return SentenceKind.REMARK
    if of.PREFERS.search(told):
        return SentenceKind.REMARK if of.WISHED.search(told) else SentenceKind.PREFERENCE
    place = _verb_place(words)
    is_other = bool(of.OTHER_FIRST.match(told) or of.OTHER_NOUN.match(told))
    is_mine = words[0] in {"i", "we", "i'm", "we're", "i've", "we've"}
    if place is None and not is_other and not is_mine:
        return SentenceKind.FRAGMENT
    if not (is_other or _is_lasting(told, words, place or 1, is_mine=is_mine)):
        return SentenceKind.REMARK
    return SentenceKind.DATE if of.WHEN.search(told) else SentenceKind.STATEMENT


def _is_lasting(told: str, words: list[str], place: int, *, is_mine: bool) -> bool:
    """Whether a declarative sentence says something that a later question may ask for."""
    has_value = bool(of.FIGURE.search(told) or of.WHEN.search(told) or of.NAMED.search(told))
    if is_mine:
        return bool(
            of.FIRST.match(told) or of.HAVE.match(told) or (has_value and not of.REPORTED.search(told))
        )
    if of.REPORTED.search(told) and not of.FIGURE.search(told):
        return False
    head = words[0].partition("'")[0]
    if head in of.PRONOUNS:
        return bool(of.OF_THEM.match(told)) or (
            head in {"it", "its", "he", "she", "they"}
            and bool(of.FIGURE.search(told) or (head != "it" and has_value))
        )
    verb = words[place]
    is_past = verb not in of.AUXILIARIES and (verb in of.PAST or verb.endswith("ed"))
    is_event = is_past and not has_value and (len(words) < 4 or not of.JUST.isdisjoint(words))
    is_none = of.JUDGES.search(told) or is_event or head in of.OPENERS or head[:1].isdigit()
    return not is_none and len(words) > place + 1
