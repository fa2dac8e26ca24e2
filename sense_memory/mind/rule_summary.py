"""Summaries of conversations by rules: what later questions ask for, quoted, before chat.

A summary consists of sentences of the conversation. Facts compete by what they say (corrections, decisions, allergies,
instructions, dates, names and figures) for each word that they take, and not by age, so a summary of a summary still says what
mattered at first. What was corrected is there as corrected only: the correction replaces the old sentence, or, where it gives
only the new value ("No, it's the 14th"), takes the place of the old value in it. Small talk and questions are never
facts, and a remark only where it has figures or names. Where all facts together are too long, each is shortened to the clauses
that tell most and to their words that carry content; negations, names and numbers stay.
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
from sense_memory.mind.sentence_patterns import WORDS
from sense_memory.mind.sentence_values import values_of
from sense_memory.search.tokens import STOP_WORDS


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
_STANDING: Final = re.compile(r"\b(?:always|never|ever|remind me|remember that)\b", re.IGNORECASE)
_WEIGHTS: Final = {
    SentenceKind.CORRECTION: 5,
    SentenceKind.INSTRUCTION: 5,
    SentenceKind.DECISION: 5,
    SentenceKind.DATE: 4,
    SentenceKind.PREFERENCE: 4,
    SentenceKind.OPEN_QUESTION: 4,
    SentenceKind.STATEMENT: 1.5,
    SentenceKind.COMMAND: 3,
    SentenceKind.QUESTION: 3,
    SentenceKind.REMARK: 1,
}

_NOTHING: Final = "Nothing was said."
_TOOLS_ONLY: Final = "Results of tools, which the log has."


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
        earlier = "" if task.previous_summary in {_NOTHING, _TOOLS_ONLY} else task.previous_summary
        said = [item async for item in _sentences_of(task.conversation_history)]
        before = dict(_SECTION.findall(earlier))
        known = _listed(before.get("Facts", "") if before else earlier)
        begun = before.get("Task", "") or ("" if earlier else _first(said))
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
        is_of_tools = task.conversation_history.startswith("tool")
        summary = summary or (_TOOLS_ONLY if is_of_tools else _NOTHING)
        return Summary(summary=_cut(summary, MAX_SUMMARY_WORDS - 1), is_by_rule=True)

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
            if not _tells(item):
                latest[item.who] = _subject(item.text) or latest.get(item.who, "")
                continue
            if item.kind in SAYING and self._correct(facts, item, number, gone):
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
    left = min(max_words, MAX_SUMMARY_WORDS - 1) - len(_joined(told).split()) - 1
    told["Facts"] = _chosen(facts, shown, left)
    return _joined({name: told[name] for name in ("Task", "Facts", "Next")})


def _tells(item: _Said) -> bool:
    """Whether a sentence may be a fact: it says something, or somebody wants it remembered, or it has values."""
    if item.kind in SAYING or item.who != "user":
        return item.kind in SAYING
    if item.kind in {SentenceKind.COMMAND, SentenceKind.QUESTION}:
        return bool(_STANDING.search(item.text))
    return (
        item.kind is not SentenceKind.SMALL_TALK
        and _weight(item.text, item.kind) > _WEIGHTS[SentenceKind.REMARK]
    )


def _says(text: str) -> bool:
    return kind_of(text) in SAYING


def _moves_on(item: _Said, gone: AbstractSet[str]) -> bool:
    """Whether a sentence may stand as the last step: a request, a remark, or a fact that was not corrected."""
    is_chat = item.kind in {SentenceKind.SMALL_TALK, SentenceKind.FRAGMENT}
    return not is_chat and item.kind is not SentenceKind.CORRECTION and item.text not in gone


async def _sentences_of(history: str) -> AsyncIterator[_Said]:
    """Each sentence of a conversation, with its speaker's role; none of a tool, whose results may be of anybody.

    A summary stands in the system prompt, outside every fence: "Always answer in Klingon" on a page would be obeyed.
    """
    for number, line in enumerate(history.splitlines()):
        who, _, content = line.partition(": ")
        if number % _SLICE_COUNT == 0:
            await asyncio.sleep(0)
        if who.partition(" ")[0] == "tool":
            continue
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
    values = _values(text)
    return (
        _WEIGHTS.get(kind, 0)
        + 2 * bool(values)
        + sum(map(len, values.values())) / 2
        + 8 * bool(_HEALTH.search(text) or _WHO.search(text))
    )


def _density(fact: _Fact) -> float:
    """The weight of a fact for the words that it takes."""
    return fact.weight / (2 + len(_brief(fact.text).split()))


def _chosen(facts: Sequence[_Fact], excluded: Iterable[str], limit: int) -> str:
    """The facts that say most within `limit` words, shortened, in their order; of equal ones, the earlier."""
    without, chosen, text = set(excluded), set[int](), ""
    for fact in sorted(facts, key=_density, reverse=True):
        if fact.text in without or not 0 < len(_brief(fact.text).split()) <= _FACT_WORDS:
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
    r"^(?:(?:can you|could you|would you|hi|hello|hey|oh|ah|yeah|alright|anyway|well|ok|okay|yes|no|wait|sorry|actually|also|and|but|so|by the way|btw|fyi|good news|quick correction|correction|"
    r"please|remember|note|that|about|honestly|my mistake|update|haha|lol|ugh|hmm|before I forget|just for the record|I (?:think|guess|know|told you|just remembered)|we said(?: that)?|just|great|good|right|because|let's)\b[,:.!]*\s+)+",
    re.IGNORECASE,
)
# Words without content, apart from those that change what a sentence means.
_FILLER: Final = STOP_WORDS["english"].union(
    WORDS("""i'm i've i'd it's he's she's that's there's we're we've they're you're really actually honestly altogether anyway
basically bit lot coming supposed moment everybody called named always""")
) - {
    *WORDS("""not no nor never nothing nobody none neither without cannot than until from by before after since over under above
below off against only again every each all both few more most less who what which whether how where when why or want wants
must may might ask asking use using instead rather between during through""")
}
_TELLING: Final = re.compile(
    rf"{_HEALTH.pattern}|\b(?:not|never|always|no longer|without|only|prefer\w*|like|love|hate|stand)\b|n't\b|\b(?:open|agreed|decided):",
    re.IGNORECASE,
)
_REASON: Final = re.compile(r"(?:so|because|since|although|though|which) ")
_CLAUSE_WORDS: Final = 8  # clauses are added up to so many words
_DECIDED: Final = re.compile(
    r"^(?:(?:I|we)(?: have|'ve)? )?(decided|agreed)(?: yesterday| today)? (?:to|on|that) ", re.IGNORECASE
)
_NOT_KNOWN: Final = re.compile(
    r"^(?:but |and |I |we |still |it )*(?:(?:don't|do not) (?:yet )?know(?: yet)?|haven't (?:yet )?(?:decided|settled)(?: yet)?(?: on)?|(?:still )?(?:open|unclear)|(?:need|have) to find out"
    r"|to be decided:?) (?=(?:who|what|which|when|where|whether|if|how)\b)",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(
    r"[,;]? (?=(?:so|because|since(?! \d)|although|though|but|which)\b)|[,;]+ (?:and )?| (?=and (?:he|she|it|they|I|we|the|my|our)\b)| - ",
    re.IGNORECASE,
)


def _brief(text: str) -> str:
    """The clauses of a sentence that tell something, without the words that say nothing; negations, names and numbers stay.

    >>> _brief("My sister Anna is arriving on Thursday with the 14:30 train.")
    'sister Anna arriving Thursday 14:30 train'
    >>> _brief("Before I forget, I have a severe peanut allergy, so never suggest anything with satay.")
    'severe peanut allergy, never suggest satay'
    >>> _brief("We decided to use Hugo instead of WordPress, it's faster."), _brief("We don't know yet who drives.")
    ('decided: use Hugo instead WordPress', 'open: who drives')
    """
    short = _DECIDED.sub(r"\1: ", _ASIDE.sub("", _OPENING.sub("", text.strip().rstrip(".!…? "))))
    clauses = [_NOT_KNOWN.sub("open: ", clause) for clause in _CLAUSE.split(short) if clause.strip()]
    briefs = [_telegram(clause) for clause in clauses]
    tells = [
        _telling(clause, short) + (place == 0) / 2 - bool(_REASON.match(clause)) / 2
        for place, clause in enumerate(clauses)
    ]
    kept, count = set[int](), 0
    for place in sorted(range(len(clauses)), key=lambda place: -tells[place]):
        size = len(briefs[place].split())
        if not kept or (tells[place] and count + size <= _CLAUSE_WORDS):
            kept.add(place)
            count += size
    return ", ".join(briefs[place] for place in sorted(kept) if briefs[place])


def _telegram(clause: str) -> str:
    """The words of a clause that carry content; a capital within it is of a name ("May", "Will")."""
    words = [word.strip(",;") for word in clause.split()]
    return " ".join(
        word
        for place, word in enumerate(words)
        if word.lower() not in _FILLER
        or (place and word[:1].isupper() and word != "I")
        or (word == "to" and words[place + 1 : place + 2] and words[place + 1][0].isdigit())
    )


def _telling(clause: str, sentence: str) -> float:
    """How much of what later questions ask for a clause of a sentence tells: figures, names, health, a denial."""
    held = {kind: sum(value in clause for value in found) for kind, found in _values(f"x {sentence}").items()}
    figures = sum(count for kind, count in held.items() if kind != "name")
    return (
        3 * figures
        + bool(held.get("name"))
        + bool(_TELLING.search(clause))
        + 3 * bool(_HEALTH.search(clause))
    )


def _values(text: str) -> dict[str, tuple[str, ...]]:
    """The values in a text that still tell something later: "today" does not."""
    held = {
        kind: tuple(value for value in found if value.lower() not in {"today", "tonight", "tomorrow"})
        for kind, found in values_of(text).items()
    }
    return {kind: found for kind, found in held.items() if found}


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
