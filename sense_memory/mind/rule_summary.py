"""Summaries of conversations by rules: what later questions ask for, quoted, before chat.

A summary consists of sentences of the conversation. Facts compete by what they say (corrections, decisions, allergies,
instructions, dates, names and figures) for each word that they take, and not by age, so a summary of a summary still says what
mattered at first. What was corrected is there as corrected only: the correction replaces the old sentence, or, where it gives
only the new value ("No, it's the 14th"), takes the place of the old value in it. Small talk, questions and remarks are never
facts. Where all facts together are too long, each is shortened by words that say nothing, never by a negation, a name or a
number.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sense_memory.mind.model import MAX_SUMMARY_WORDS, Summary
from sense_memory.mind.search.corrections import corrected, corrects, in_contrast, is_elliptic
from sense_memory.mind.search.revisions import Revision, best_revisions
from sense_memory.mind.sentence_kinds import (
    SAYING,
    SentenceKind,
    kind_of,
    split_sentences,
    subject_of,
)
from sense_memory.mind.sentence_values import values_of


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from sense_memory.mind.model import SummarizeConversation

_SLICE_COUNT: Final = 20  # sentences to judge before other tasks get a turn, some 10 ms
_SAME_BOUND: Final = 0.5  # sentences with this Jaccard similarity or more say the same
_NEAR_COUNT: Final = 8  # statements before a correction that it may mean without naming them
_KEPT_COUNT: Final = 100  # facts to choose from, the weightiest; more would not fit in any case
_STATE_COUNT: Final = 200  # the newest sentences, of which the most central one is the state
_LEAST: Final = 6  # a part of a summary may always have so many words
_FACT_WORDS: Final = 14  # of one fact
_TASK_WORDS, _STATE_WORDS, _NEXT_WORDS = 20, 12, 14
_SHORT_TASK_WORDS: Final = 8  # of the task, where facts are many
_SECTION: Final = re.compile(r"(Task|Facts|State|Next): (.*?)(?= (?:Facts|State|Next): |$)", re.DOTALL)
_REQUEST: Final = re.compile(
    r"\b(?:please|can you|could you|would you|help me|i want|i need|i'd like|we want|we need to|let's)\b",
    re.IGNORECASE,
)
_HEALTH: Final = re.compile(
    r"\b(?:allerg\w+|intoleran\w+|diabet\w+|asthma\w*|celiac|coeliac|vegan|vegetarian|pregnant|epilep\w+|insulin|inhaler|gluten|blood type"
    r"|can't eat|cannot eat|don't eat|medication|afraid of|unverträglich\w*)\b",
    re.IGNORECASE,
)
_WHO: Final = re.compile(
    r"\b(?:my name is|call me|I (?:live|work|teach|run|was born))\b|\b(?:I'm|I am) (?:[A-Z]\w+|(?:the|an?) \w+ (?:at|of|in|for)\b)"
)
_WEIGHTS: Final = {
    SentenceKind.CORRECTION: 5,
    SentenceKind.INSTRUCTION: 5,
    SentenceKind.DECISION: 5,
    SentenceKind.DATE: 4,
    SentenceKind.PREFERENCE: 4,
    SentenceKind.OPEN_QUESTION: 4,
    SentenceKind.STATEMENT: 3,
    SentenceKind.REMARK: 0,
}


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence that a summary may contain.

    Attributes:
        text: the sentence.
        weight: how much it matters.
        terms: the stems of its words.
        number: the place of the sentence in the conversation; 0 for one of the previous summary.
        source: the sentence as it was said; empty if that is the text.
        who: the role of its speaker; empty if unknown.
    """

    text: str
    weight: float
    terms: frozenset[str]
    number: int = 0
    source: str = ""
    who: str = ""

    def may_be_corrected_by(self, who: str) -> bool:
        """Whether it was said by the same speaker, or the user corrects it."""
        return who in {"user", self.who}


@dataclass(frozen=True, slots=True)
class _Said:
    """One sentence of the conversation: who said it, and its kind; the first of a message has the whole message too."""

    who: str
    text: str
    kind: SentenceKind
    message: int
    whole: str = ""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a conversation began with, what was said last, and the state by the previous summary."""

    first: str
    last: str
    state: str


class RuleSummary:
    """Summarises conversations by rules.

    Args:
        terms: the stems of a text, without stop words.
    """

    def __init__(self, terms: Callable[[str], Sequence[str]]) -> None:
        self._terms = terms

    async def summarize(self, task: SummarizeConversation) -> Summary:
        """The task, the facts, the state and the last statement, within `max_words` words."""
        said = [item async for item in _sentences_of(task.conversation_history)]
        before = dict(_SECTION.findall(task.previous_summary))
        known = _listed(before.get("Facts", "") if before else task.previous_summary)
        begun = before.get("Task", "") or ("" if task.previous_summary else _first(said))
        known += [
            text for part in ("Task", "Next") for text in split_sentences(before.get(part, "")) if _says(text)
        ]
        facts, gone = await self._facts(known, said)
        first = " ".join(text for text in split_sentences(begun) if text not in gone)
        last = next((item.text for item in reversed(said[-_NEAR_COUNT:]) if _moves_on(item, gone)), "")
        parts = _Parts(first, last, before.get("State", ""))
        summary = self._whole(facts, said, parts, task.max_words)
        if len(summary.split()) > task.max_words:
            summary = _shortened(facts, parts, task.max_words)
        return Summary(summary=_cut(summary or "Nothing was said.", MAX_SUMMARY_WORDS - 1), is_by_rule=True)

    # ── Facts ───────────────────────────────────────────────────────────────────────────

    async def _facts(self, known: Sequence[str], said: Sequence[_Said]) -> tuple[list[_Fact], set[str]]:
        """The facts, oldest first, each as it was last corrected; and the sentences that were corrected."""
        facts: list[_Fact] = []
        gone = set[str]()
        for text in known:
            self._add(facts, _Fact(text, _weight(text, _kind_of_fact(text)), self._stems(text)))
        done = -1  # the message that was a correction as a whole
        latest: dict[str, str] = {}  # the subject of each speaker's last statement
        for number, item in enumerate(said, 1):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            if item.whole and self._revise(facts, item, number, gone):
                done = item.message
            if item.message == done:
                continue
            if item.kind not in SAYING:
                latest[item.who] = _subject(item.text) or latest.get(item.who, "")
                continue
            if self._correct(facts, item, number, gone):
                continue
            text = _named(item, latest.get(item.who, ""))
            latest[item.who] = _subject(item.text) or latest.get(item.who, "")
            weight = _weight(item.text, item.kind)
            if item.who != "user":
                weight = weight / 2 if values_of(item.text) or item.kind is SentenceKind.DECISION else 0
            self._add(facts, _Fact(text, weight, self._stems(text), number, item.text, item.who))
        return facts, gone

    def _correct(self, facts: list[_Fact], item: _Said, number: int, gone: set[str]) -> bool:
        """Replace the facts that a sentence corrects; whether nothing is left to add."""
        stems = self._stems(item.text)
        own = [fact for fact in facts if fact.may_be_corrected_by(item.who)]
        alike = (fact for fact in reversed(own) if not stems.isdisjoint(fact.terms))
        old = next((fact for fact in alike if corrects(item.text, fact.text)), None)
        if old is None:
            near = [fact for fact in own if number - fact.number <= _NEAR_COUNT]
            place = corrected(item.text, [fact.text for fact in near])
            old = None if place is None else near[place]
        if old is None:
            return is_elliptic(item.text)
        gone.update({old.text, old.source})
        at = facts.index(old)
        if is_elliptic(item.text) or _is_about_values(old.text, item.text):
            text = _renewed(old.text, item.text)
            facts[at : at + 1] = (
                [replace(old, text=text, terms=self._stems(text), number=number)] if text else []
            )
            return True
        text = _cleaned(item.text)
        facts[at] = _Fact(
            text, _WEIGHTS[SentenceKind.CORRECTION], self._stems(text), number, item.text, item.who
        )
        gone.update(self._forget_others(facts, at, item.text))
        return True

    def _revise(self, facts: list[_Fact], item: _Said, number: int, gone: set[str]) -> bool:
        """Replace the fact that a whole message surely revises, where none of its statements alone corrects one."""
        own = [fact for fact in facts if fact.may_be_corrected_by(item.who)]
        best = best_revisions(item.whole, [fact.text for fact in own])
        if Revision.SURE not in best.values():
            return False
        alone = split_sentences(item.whole)
        saying = [text for text in alone if kind_of(text) in SAYING]
        if any(is_elliptic(text) or any(corrects(text, fact.text) for fact in own) for text in saying):
            return False
        old = own[max(best)]
        gone.update({old.text, old.source, *alone})
        stems, weight = self._stems(item.whole), _WEIGHTS[SentenceKind.CORRECTION]
        facts[facts.index(old)] = _Fact(item.whole, weight, stems, number, item.whole, item.who)
        return True

    def _forget_others(self, facts: list[_Fact], at: int, text: str) -> list[str]:
        """Drop what else a correction corrects; returns the sentences."""
        stems = self._stems(text)
        others = [
            fact
            for fact in facts
            if fact is not facts[at] and not stems.isdisjoint(fact.terms) and corrects(text, fact.text)
        ]
        facts[:] = [fact for fact in facts if fact not in others]
        return [said for fact in others for said in (fact.text, fact.source)]

    def _add(self, facts: list[_Fact], fact: _Fact) -> None:
        """Add a fact in place of those that it repeats."""
        if not fact.weight or not fact.terms:
            return
        facts[:] = [
            old for old in facts if _jaccard(old.terms, fact.terms) < _SAME_BOUND or _differ(old, fact)
        ]
        facts.append(fact)
        if len(facts) > _KEPT_COUNT:
            facts.remove(min(reversed(facts), key=_density))

    def _stems(self, text: str) -> frozenset[str]:
        return frozenset(self._terms(text))

    # ── The parts ───────────────────────────────────────────────────────────────────────

    def _whole(self, facts: Sequence[_Fact], said: Sequence[_Said], parts: _Parts, max_words: int) -> str:
        """The parts in whole sentences; what a part says, no other repeats."""
        share = min(1.0, max_words / (MAX_SUMMARY_WORDS - 1))
        begun = _cut(parts.first, max(_LEAST, int(_TASK_WORDS * share)))
        end = _cut(parts.last, max(_LEAST, int(_NEXT_WORDS * share)))
        shown = {parts.last, end, *split_sentences(parts.first), *split_sentences(begun)}
        whole = [fact for fact in facts if fact.text not in shown]
        shown |= {fact.text for fact in whole}
        newest = said[-_STATE_COUNT:]
        rest = [item.text for item in newest if item.kind is SentenceKind.REMARK and item.text not in shown]
        state = next(iter(self._central(rest)), parts.state)
        told = {
            "Task": begun,
            "Facts": " ".join(_cut(_sentence(fact.text), _FACT_WORDS) for fact in whole),
            "State": _cut(state, max(_LEAST, int(_STATE_WORDS * share))),
            "Next": "" if parts.last in split_sentences(parts.first) else end,
        }
        return _joined(told)

    def _central(self, sentences: Sequence[str]) -> list[str]:
        """The last of the sentences whose words occur most often in all of them; or none."""
        counts: dict[str, int] = {}
        stems = [self._stems(sentence) for sentence in sentences]
        for found in stems:
            for term in found:
                counts[term] = counts.get(term, 0) + 1
        scores = [sum(counts[term] for term in found) / (len(found) + 3) for found in stems]
        return (
            [sentences[max(range(len(scores)), key=lambda place: (scores[place], place))]] if scores else []
        )


_STEPS: Final = frozenset(
    {SentenceKind.COMMAND, SentenceKind.DECISION, SentenceKind.OPEN_QUESTION, SentenceKind.DATE}
)


def _shortened(facts: Sequence[_Fact], parts: _Parts, max_words: int) -> str:
    """A request as the task, as many facts as fit in short, and the next step, if the last sentence is one."""
    first = next(iter(split_sentences(parts.first)), "")
    is_asked = kind_of(first) is not SentenceKind.QUESTION and bool(_REQUEST.search(first))
    is_asked |= kind_of(first) is SentenceKind.COMMAND
    is_step = bool(parts.last) and kind_of(parts.last) in _STEPS
    told = {
        "Task": _cut(_brief(first), _SHORT_TASK_WORDS) if is_asked else "",
        "Next": _cut(_brief(parts.last), _LEAST) if is_step else "",
    }
    shown = {text for text in (first, parts.last) if _brief(text) in told.values()}
    left = max_words - len(_joined(told).split()) - 1
    told["Facts"] = _chosen(facts, shown, left)
    return _joined({name: told[name] for name in ("Task", "Facts", "Next")})


def _says(text: str) -> bool:
    return kind_of(text) in SAYING


def _moves_on(item: _Said, gone: AbstractSet[str]) -> bool:
    """Whether a sentence may stand as the last step: a request, a remark, or a fact that was not corrected."""
    is_chat = item.kind in {SentenceKind.SMALL_TALK, SentenceKind.FRAGMENT}
    return not is_chat and item.kind is not SentenceKind.CORRECTION and item.text not in gone


async def _sentences_of(history: str) -> AsyncIterator[_Said]:
    """Each sentence of a conversation, with its speaker's role."""
    for number, line in enumerate(history.splitlines()):
        who, _, content = line.partition(": ")
        if number % _SLICE_COUNT == 0:
            await asyncio.sleep(0)
        for place, text in enumerate(split_sentences(content)):
            whole = "" if place else content.strip()
            yield _Said(who.partition(" ")[0], text, kind_of(text), number, whole)


def _first(said: Sequence[_Said]) -> str:
    """What the conversation is about: the first request of the user, or else the first thing that it says."""
    users = [item for item in said if item.who == "user"] or list(said)
    asked = [
        item for item in users[:_NEAR_COUNT] if _REQUEST.search(item.text) and len(item.text.split()) > 3
    ]
    told = [item for item in users if item.kind not in {SentenceKind.SMALL_TALK, SentenceKind.FRAGMENT}]
    first = next(iter((*asked, *told, *users)), None)
    return "" if first is None else " ".join(item.text for item in said if item.message == first.message)


def _listed(text: str) -> list[str]:
    """The facts of a summary: its sentences, or what semicolons separate."""
    return [
        part.strip() for sentence in split_sentences(text) for part in sentence.split("; ") if part.strip()
    ]


def _kind_of_fact(text: str) -> SentenceKind:
    """The kind of a fact of a previous summary, which may have lost its subject."""
    whole = (
        text.replace("open: ", "We don't know yet ")
        .replace("decided: ", "decided to ")
        .replace("agreed: ", "agreed to ")
    )
    kinds = (kind_of(whole), kind_of(f"I {whole}"))
    return next((kind for kind in kinds if kind in SAYING), SentenceKind.STATEMENT)


def _weight(text: str, kind: SentenceKind) -> float:
    """How much a later question may want a sentence."""
    values = values_of(text)
    return (
        _WEIGHTS.get(kind, 0)
        + bool(values)
        + len(values.keys() - {"weekday"}) / 2
        + 4 * bool(_HEALTH.search(text) or _WHO.search(text))
    )


def _density(fact: _Fact) -> float:
    """The weight of a fact for the words that it takes."""
    return float(fact.weight**0.7) / (1 + len(_brief(fact.text).split()))


def _chosen(facts: Sequence[_Fact], excluded: Iterable[str], limit: int) -> str:
    """The facts that say most within `limit` words, shortened, in their order; of equal ones, the earlier."""
    without, chosen, text = set(excluded), set[int](), ""
    for fact in sorted(facts, key=_density, reverse=True):
        if fact.text in without or len(_brief(fact.text).split()) > _FACT_WORDS:
            continue
        more = _listing(_brief(item.text) for item in facts if id(item) in chosen or item is fact)
        if len(more.split()) <= limit:
            text = more
            chosen.add(id(fact))
    return text


def _listing(facts: Iterable[str]) -> str:
    """Short facts in a row; one with the same subject as the fact before it does not repeat the subject."""
    text, before = "", ""
    for fact in facts:
        label, _, rest = fact.partition(": ")
        is_same = rest and before.startswith(label)
        text += (f", {rest}" if is_same else f"; {fact}") if text else fact
        before = before if is_same else fact
    return text


# ── Short forms ─────────────────────────────────────────────────────────────────────────

_ASIDE: Final = re.compile(
    r",? (?:by the way|btw|haha|lol|to be honest|you know|of course|please|as you know)(?=[,.!]|$)"
    r"|[,;]? (?:in case|if you ever|so (?:keep|please|look|don't|no\b(?! \w+s?\b))|so that you|I (?:measured|mixed|looked|think|checked|hope)|when you)\b.*$",
    re.IGNORECASE,
)
_OPENING: Final = re.compile(
    r"^(?:(?:can you|could you|would you|hi|hello|hey|oh|ah|well|ok|okay|yes|no|wait|sorry|actually|also|and|but|so|by the way|btw|fyi|good news|quick correction|correction|"
    r"please|remember|note|that|about|honestly|my mistake|update|haha|lol|just|great|good|right|because|let's)\b[,:.!]*\s+)+",
    re.IGNORECASE,
)
_ME: Final = re.compile(
    r"^(?:I'm|I am|I've|I have(?= (?:decided|agreed|chosen|picked|lived|worked))|I|we're|we are|we've|we|my|our)\s+",
    re.IGNORECASE,
)
_EMPTY: Final = re.compile(
    r"\b(?:the|(?-i:an?)|really|just|also|actually|already|there|will|is|are|am|going to|now|very|quite|(?:called|named)(?= (?-i:[A-Z]))|(?<!afraid )(?<!head )(?<!out )(?<!full )of(?= \w+ \d))\s+(?!not\b|n't|no longer|never)",
    re.IGNORECASE,
)
_DECIDED: Final = re.compile(r"^(decided|agreed) (?:to|on|that) ", re.IGNORECASE)
_NOT_KNOWN: Final = re.compile(
    r"^(?:still |it )*(?:(?:don't|do not) (?:yet )?know(?: yet)?|haven't (?:yet )?(?:decided|settled)(?: yet)?(?: on)?|(?:still )?(?:open|unclear)|(?:need|have) to find out"
    r"|to be decided:?) (?=(?:who|what|which|when|where|whether|if|how)\b)",
    re.IGNORECASE,
)
_BEFORE_DATE: Final = re.compile(
    r"\b(?:on|at) (?=(?:the )?(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|\d))", re.IGNORECASE
)
_CLAUSE_WORDS: Final = (
    8  # a longer fact is shortened to its first clause, unless the others have names or numbers
)
_FURTHER: Final = re.compile(
    r"(?<=\w),? (?:so|because|since|although|though|but|which)\b.*$|(?<=\w), (?:he|she|it|they|I|we|don't|and)\b.*$",
    re.IGNORECASE,
)


def _brief(text: str) -> str:
    """A sentence without the words that say nothing; its negations, names and numbers stay.

    >>> _brief("My sister Anna is arriving on Thursday with the 14:30 train.")
    'sister Anna arriving on Thursday with 14:30 train'
    """
    short = _ASIDE.sub("", _OPENING.sub("", text.strip().rstrip(".!… ")))
    short = _DECIDED.sub(r"\1: ", _EMPTY.sub("", _ME.sub("", short)))
    if len(short.split()) > _CLAUSE_WORDS:
        short = _FURTHER.sub(lambda match: match[0] if values_of(match[0]) else "", short)
    short = _NOT_KNOWN.sub("open: ", _BEFORE_DATE.sub("", short)).strip(" ,;")
    return short or text.strip()


def _cleaned(text: str) -> str:
    """A correction without the words that say so, and without the old value."""
    return _sentence(_OPENING.sub("", in_contrast(text.strip())[0]))


def _is_about_values(old: str, new: str) -> bool:
    """Whether the old sentence has values of all kinds that the correction has, and of more."""
    given, held = values_of(in_contrast(new)[0]), values_of(old)
    return bool(given) and given.keys() < held.keys()


def _renewed(old: str, new: str) -> str:
    """An old sentence with the value of a correction in the place of its own; empty if it was taken back."""
    said, over = in_contrast(new)
    given, held, ended = values_of(said), values_of(old), values_of(over)
    for kind, values in given.items():
        value = next((item for item in values if item not in held.get(kind, ())), "")
        gone = [item for item in held.get(kind, ()) if item not in values]
        named = [item for item in gone if item in over]
        if value and gone and (named or kind not in ended):
            old = old.replace((named or gone)[-1], value)
    return old if given else ""


def _named(item: _Said, before: str) -> str:
    """A sentence about "she" or "it" with the subject of the sentence before; one of an assistant with its speaker."""
    text = item.text
    match = re.match(
        r"^(?:and |but |also )?(?:(she|he|it|they)(?:'s|'re| is| are| was)?|its|her|his|their) ",
        text,
        re.IGNORECASE,
    )
    if match and before:
        return f"{before}: {text[match.end() :]}"
    return (
        f"{item.who}: {text}"
        if item.who != "user" and re.match(r"(?:I|we|my|our)\b", text, re.IGNORECASE)
        else text
    )


def _subject(text: str) -> str:
    """The subject of a sentence as it is written, at most its last two words."""
    low = subject_of(text)
    found = [word for word in re.findall(r"[\w-]+", text) if word.lower() in low]
    return " ".join(found[: len(low)][-2:])


def _differ(old: _Fact, new: _Fact) -> bool:
    """Whether two like sentences are about different values: two codes, two ports."""
    one, other = values_of(old.text), values_of(new.text)
    return bool(old.terms - new.terms and new.terms - old.terms) and one != other


def _joined(parts: dict[str, str]) -> str:
    return " ".join(f"{name}: {text}" for name, text in parts.items() if text)


def _sentence(text: str) -> str:
    return text if text[-1:] in ".!?…" else f"{text}."


def _cut(text: str, count: int) -> str:
    """The first `count` words of a text; an ellipsis replaces the others."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= count else " ".join(parts[:count]).rstrip(",;:") + "…"


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
