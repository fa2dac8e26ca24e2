"""`RuleModel`: every task of `model` answered by rules, offline and deterministically. The default model.

The rules choose sentences of their input and never invent one, so an answer contains only statements of its input. Every
answer is marked `is_by_rule`. Words are compared by their stems, without stop words.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from sense_memory.mind.beliefs import as_memory
from sense_memory.mind.model import (
    MAX_SUMMARY_WORDS,
    Answer,
    AnswerT,
    Canonical,
    Canonicalize,
    CheckCoherence,
    ClassifyTopic,
    Coherence,
    CoherenceIssue,
    DistilledIdentity,
    DistillIdentity,
    ExtractedMemories,
    ExtractedMemory,
    ExtractMemories,
    PassageRanking,
    Reflect,
    Reflection,
    Reply,
    RerankPassages,
    SummarizeConversation,
    Summary,
    Task,
    TopicNames,
    TopicSummary,
    UpdateTopicSummary,
    WriteReply,
)
from sense_memory.mind.search.corrections import corrects
from sense_memory.palace import compare
from sense_memory.palace.extraction import proposals
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

_TOPIC_WORDS: Final = 120  # of a topic's summary
_THEME_WORDS: Final = 150  # of an identity's themes
_SAME_BOUND: Final = 0.5  # sentences with this Jaccard similarity or more say the same
_TOPIC_TERMS: Final = (
    2  # a text fits a topic if it shares so many words with the summary, and a quarter of its own
)
_sentences = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*").findall
_role = re.compile(r"\bI(?:'m| am) an? ([^.,;!?\n]{3,60})")
_value = re.compile(r"\bI (?:value|believe in|care about|stand for|prefer) ([^.;!?\n]{3,80})")
_contrast = re.compile(r"\b(?:but|however|although|on the other hand|yet)\b", re.IGNORECASE)
_ban = re.compile(r"\b(?:never|do not|don't|avoid|no|must not|refuse to)\s+(.+)", re.IGNORECASE)
_private = re.compile(
    r"\bkeep\w*\s+(.+?)\s+(?:private|confidential|secret)\b|\b(?:confidentiality|privacy|secrecy) of\s+(.+)",
    re.IGNORECASE,
)
_telling = re.compile(
    r"\b(?:shar|publish|post|send|sent|reveal|tell|told|disclos|leak|forward|show|upload|giv|gave)\w*",
    re.IGNORECASE,
)
_over = re.compile(r"(.+?)\s+(?:over|rather than|instead of|before)\s+(.+)", re.IGNORECASE)
_giving_up = re.compile(
    r"\b(?:will not|won't|refuse to|cannot be bothered|give up|gave up|giving up|abandon\w*|cancel\w*|drop\w*|stop\w*)\b",
    re.IGNORECASE,
)
_denial = re.compile(
    r"\b(?:never|not|no|without|won't|don't|doesn't|cannot|can't|avoid\w*|refus\w*)\b", re.IGNORECASE
)
_filler = re.compile(
    r"^\s*(?:(?:certainly|sure|of course|absolutely|great question)\b[!,.]*\s*|as an? (?:ai|language model|ai language model)"
    r"[^,.]*,\s*)+",
    re.IGNORECASE,
)
_section = re.compile(r"(Task|Facts|State|Next): (.*?)(?= (?:Facts|State|Next): |$)", re.DOTALL)
_LEAST: Final = 6  # a part of a summary may always have so many words
_FACT_WORDS: Final = 49  # words of all facts in a summary
_FACT_CHUNK: Final = 14  # words of one fact
_SLICE_COUNT: Final = 50  # sentences to judge before other tasks get a turn, some 10 ms
_FACT_WEIGHT: Final = 2  # the least weight of a fact
_SMALL_TALK: Final = """
hi hello hey ha haha hahaha lol yes yeah yep no nope ok okay oh ah sure see thanks thank nice great good cool fine right well
wow bye please glad hear welcome sound got understand understood interesting indeed perfect alright sorry know noted lovely
"""
_duty = re.compile(
    r"\b(?:decid|agree|chose|choose|settl|promis|must|never|always|deadline|due|remember|importan|have to|has to|may not"
    r"|do not|don't|prefer|allerg|budget|at most|at least|called|named?\b|password|address|birthday|instead|no longer"
    r"|appointment|requir|forbid|only)",
    re.IGNORECASE,
)
_about_self = re.compile(r"\b(?:my|our|I am|I'm|we are|I live|I work|we live|we work)\b", re.IGNORECASE)
_named = re.compile(r"(?<=[^.!?:\s] )(?:(?:Mr|Ms|Mrs|Dr)\b|(?!I\b)[A-Z][\w-]+)")
_numbered = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence that a summary may contain: its weight, and the stems of its words."""

    text: str
    weight: int
    terms: frozenset[str]

    def replaces(self, old: _Fact) -> bool:
        """Whether the fact corrects or repeats an earlier one."""
        return _jaccard(self.terms, old.terms) >= _SAME_BOUND or corrects(self.text, old.text)


_weight_of: Final = attrgetter("weight")


class RuleModel:
    """Answers every task by rules.

    Args:
        language: the language of words in Latin letters, for their stems, by Snowball's name.
    """

    def __init__(self, language: str = "english") -> None:
        self._stem = stemmer(language)
        self._stops = STOP_WORDS[language]
        self._small_talk = frozenset(map(self._stem, _SMALL_TALK.split()))

    async def answer(self, task: Task[AnswerT]) -> AnswerT:
        """The answer to a task, marked `is_by_rule`. Other coroutines get turns while a conversation is summarised.

        Raises:
            TypeError: no rule answers tasks of this type.
        """
        if isinstance(task, SummarizeConversation):  # as long as a conversation
            return cast("AnswerT", await self._summarize(task))
        rules: Mapping[type, Callable[[Any], Answer]] = {
            ClassifyTopic: self._classify,
            UpdateTopicSummary: self._update_summary,
            DistillIdentity: self._distil,
            CheckCoherence: self._check,
            Reflect: self._reflect,
            Canonicalize: _canonical,
            WriteReply: self._reply,
            RerankPassages: _ranking,
            ExtractMemories: _memories,
        }
        rule = rules.get(type(task))
        if rule is None:
            raise TypeError(f"no rule answers {type(task).__name__}; configure a language model")
        return cast("AnswerT", rule(task).model_copy(update={"is_by_rule": True}))

    def _terms(self, text: str) -> list[str]:
        """The stems of a text in order, without stop words."""
        return [self._stem(word) for word in words(text) if word not in self._stops and len(word) > 1]

    def _central(self, sentences: Sequence[str], about: str = "") -> list[str]:
        """Sentences in the order of centrality: how often their words occur in all of them and in `about`.

        Of equally central sentences the later one comes first.
        """
        counts = Counter(term for sentence in (*sentences, about) for term in set(self._terms(sentence)))

        def centrality(place: int) -> tuple[float, int]:
            terms = set(self._terms(sentences[place]))
            return sum(counts[term] for term in terms) / (len(terms) + 3), place

        order = sorted(range(len(sentences)), key=centrality, reverse=True)
        return [sentences[place] for place in order]

    def _similarity(self, one: str, other: str) -> float:
        """The Jaccard similarity of the stems of two texts, 0 to 1."""
        return _jaccard(set(self._terms(one)), set(self._terms(other)))

    # ── Conversations ───────────────────────────────────────────────────────────────────

    async def _summarize(self, task: SummarizeConversation) -> Summary:
        """The task (the first request, or the task of the previous summary), facts, the state, and the last statement.

        Facts (names, numbers, decisions, duties) compete by weight, not by age, so a summary of a summary still contains
        what was important at first. A later sentence replaces a sentence that it repeats or corrects.
        """
        lines = [line.partition(": ")[::2] for line in task.conversation_history.splitlines() if line.strip()]
        contents = [content for _, content in lines if content]
        before = dict(_section.findall(task.previous_summary))
        asked = next(
            (content for who, content in lines if who.partition(" ")[0] == "user" and content),
            next(iter(contents), ""),
        )
        last = contents[-1] if contents else ""
        first = before.get("Task", asked)
        if last == first or self._is_small_talk(last):
            last = ""
        share = min(1.0, task.max_words / (MAX_SUMMARY_WORDS - 1))
        begun, end = _cut(first, max(_LEAST, int(20 * share))), _cut(last, max(_LEAST, int(14 * share)))
        sentences = [sentence for content in contents for sentence in split_sentences(content)]
        told = f"{before.get('Facts', '')} {before.get('Next', '')}" if before else task.previous_summary
        known = split_sentences(told)
        shown = {begun, end, *split_sentences(begun), *split_sentences(end)}
        terms = await self._terms_of(sentences)
        kept = await self._facts([*known, *sentences], {first, last, *shown}, int(_FACT_WORDS * share))
        used = {first, last, *shown, *kept}
        rest = [
            item
            for item in sentences
            if not terms[item] <= self._small_talk and used.isdisjoint({item, _cut(item, _FACT_CHUNK)})
        ]
        past = split_sentences(before.get("State", "" if before else task.previous_summary))[:1]
        central = await self._most_central(rest, terms) or [item for item in past if item not in used]
        parts = {
            "Task": begun,
            "Facts": " ".join(kept),
            "State": _cut(" ".join(central), max(_LEAST, int(12 * share))),
            "Next": end,
        }
        summary = " ".join(f"{name}: {text}" for name, text in parts.items() if text)
        text = _cut(summary or "Nothing was said.", MAX_SUMMARY_WORDS - 1)
        return Summary(summary=text, is_by_rule=True)

    async def _terms_of(self, sentences: Sequence[str]) -> dict[str, frozenset[str]]:
        """The stems of each sentence."""
        found = {}
        for number, sentence in enumerate(sentences):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            found[sentence] = frozenset(self._terms(sentence))
        return found

    async def _most_central(self, sentences: Sequence[str], terms: Mapping[str, frozenset[str]]) -> list[str]:
        """The first sentence of `_central`, or none."""
        counts, best = Counter[str](), (-1.0, 0)
        for number, sentence in enumerate(sentences):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            counts.update(terms[sentence])
        for place, sentence in enumerate(sentences):
            if place % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            found = terms[sentence]
            best = max(best, (sum(counts[term] for term in found) / (len(found) + 3), place))
        return [sentences[best[1]]] if sentences else []

    def _is_small_talk(self, text: str) -> bool:
        """Whether a text consists of words of greeting, thanks and agreement."""
        return set(self._terms(text)) <= self._small_talk

    async def _facts(self, sentences: Sequence[str], excluded: Collection[str], limit: int) -> list[str]:
        """The weightiest sentences within `limit` words, in their order; of equal weight, the earlier ones."""
        kept: list[_Fact] = []
        for number, sentence in enumerate(sentences):
            if number % _SLICE_COUNT == 0:
                await asyncio.sleep(0)
            fact = _Fact(text := _cut(sentence, _FACT_CHUNK), _weight(text), frozenset(self._terms(text)))
            if sentence not in excluded and fact.weight >= _FACT_WEIGHT:
                kept = [old for old in kept if not fact.replaces(old)] + [fact]
                if len(kept) > limit:
                    kept.remove(min(reversed(kept), key=_weight_of))
        left, chosen = limit, set[str]()
        for fact in sorted(kept, key=_weight_of, reverse=True):
            if len(fact.text.split()) <= left:
                left -= len(fact.text.split())
                chosen.add(fact.text)
        return [fact.text for fact in kept if fact.text in chosen]

    # ── Topics and identity ─────────────────────────────────────────────────────────────

    def _classify(self, task: ClassifyTopic) -> TopicNames:
        counts = Counter(self._terms(task.text))
        counts.update(dict.fromkeys(self._terms(task.title), 2))
        scores = {}
        for topic, summary in task.existing_topics.items():
            named = set(self._terms(topic.replace("-", " "))) & counts.keys()
            shared = set(self._terms(summary)) & counts.keys()
            if named or len(shared) >= max(_TOPIC_TERMS, len(counts) / 4):
                scores[topic] = 3 * sum(counts[term] for term in named) + len(shared)
        if scores:
            best = sorted(scores, key=lambda topic: (-scores[topic], topic))
            return TopicNames(
                topics=tuple(topic for topic in best[:3] if 2 * scores[topic] >= scores[best[0]])
            )
        return TopicNames(topics=(self._new_topic(task, counts),))

    def _new_topic(self, task: ClassifyTopic, counts: Counter[str]) -> str:
        """The two most frequent words, in the order of the text; `general` for a text without words."""
        spelled: dict[str, str] = {}
        for word in words(f"{task.title} {task.text}"):
            spelled.setdefault(self._stem(word), word)
        order = list(spelled)
        best = sorted(counts, key=lambda term: (-counts[term], order.index(term)))[:2]
        return "-".join(spelled[term] for term in sorted(best, key=order.index)) or "general"

    def _update_summary(self, task: UpdateTopicSummary) -> TopicSummary:
        """The previous sentences that the new text neither repeats nor contradicts, then the new text; the newest fit."""
        new = split_sentences(task.new_text)
        old = [
            sentence
            for sentence in split_sentences(task.previous_summary)
            if not any(
                self._similarity(sentence, other) >= _SAME_BOUND or contradicts(sentence, other)
                for other in new
            )
        ]
        return TopicSummary(summary=_newest([*old, *new], _TOPIC_WORDS))

    def _distil(self, task: DistillIdentity) -> DistilledIdentity:
        summaries = sorted(task.topic_summaries.items(), key=lambda item: (-len(item[1].split()), item[0]))
        text = "\n".join(summary for _, summary in summaries)
        leads = [self._central(split_sentences(summary))[:1] for _, summary in summaries]
        sentences = split_sentences(text)
        tensions = [sentence for sentence in sentences if _contrast.search(sentence)]
        tensions += [
            f"{one} / {other}"
            for place, one in enumerate(sentences[:40])
            for other in sentences[place + 1 : 40]
            if contradicts(one, other)
        ]
        return DistilledIdentity(
            themes=_newest([sentence for lead in reversed(leads) for sentence in lead], _THEME_WORDS),
            roles=_distinct(found.strip() for found in _role.findall(text)),
            values=_distinct(found.strip() for found in _value.findall(text)),
            tensions=_distinct(tensions)[:5],
        )

    # ── Reflection, coherence, replies ──────────────────────────────────────────────────

    def _reflect(self, task: Reflect) -> Reflection:
        """The most central experience as the belief; the experiences that share its words are the evidence."""
        belief = self._central(task.experiences, task.scene)[0]
        wanted = set(self._terms(belief))
        shared = [len(wanted & set(self._terms(text))) for text in task.experiences]
        bound = max(1, min(2, len(wanted)))
        based = tuple(place for place, count in enumerate(shared) if count >= bound)
        sentence = next(iter(split_sentences(belief)), belief)
        return Reflection(belief=sentence, based_on=based or (task.experiences.index(belief),))

    def _check(self, task: CheckCoherence) -> Coherence:
        against = [("identity", line) for line in task.identity]
        against += [("objective", line) for line in task.objectives] + [
            ("value", line) for line in task.values
        ]
        issues = []
        for kind, statement in against:
            for sentence in split_sentences(task.output):
                reason = self._conflict(kind, statement, sentence)
                if reason:
                    issue = {"against": kind, "statement": statement, "excerpt": sentence, "reason": reason}
                    issues.append(CoherenceIssue.model_validate(issue))
        return Coherence(is_coherent=not issues, issues=tuple(issues))

    def _conflict(self, kind: str, statement: str, sentence: str) -> str:
        """Why a sentence contradicts a statement; empty if it does not."""
        if contradicts(statement, sentence):
            return "it says the opposite"
        stems, is_denied = set(self._terms(sentence)), bool(_denial.search(sentence))

        def does(what: str) -> bool:
            terms = set(self._terms(what))
            return bool(terms) and terms <= stems

        if (ban := _ban.search(statement)) and does(ban[1]) and not is_denied:
            return "it does what the statement rules out"
        if (secret := _private.search(statement)) and does(secret[1] or secret[2]) and not is_denied:
            return "it tells what is to stay private" if _telling.search(sentence) else ""
        if (choice := _over.search(statement)) and (chosen := _over.search(sentence)):
            first, second = set(self._terms(choice[1])), set(self._terms(choice[2]))
            if (
                first
                and second
                and second <= set(self._terms(chosen[1]))
                and first <= set(self._terms(chosen[2]))
            ):
                return "it chooses the other way round"
        if kind == "objective" and _giving_up.search(sentence) and does(statement):
            return "it gives the objective up"
        return ""

    def _reply(self, task: WriteReply) -> Reply:
        """The sentences of the context, at most three, that share most words with the input."""
        wanted = set(self._terms(task.input))
        sentences = _distinct(split_sentences(task.context))
        shared = {sentence: len(wanted & set(self._terms(sentence))) for sentence in sentences}
        best = sorted((item for item in sentences if shared[item]), key=lambda item: -shared[item])[:3]
        chosen = [sentence for sentence in sentences if sentence in best]
        return Reply(text=" ".join(chosen) or "I remember nothing about that.", is_empty=not chosen)


def _jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blanks around them."""
    return [found for sentence in _sentences(text) if (found := sentence.strip())]


def contradicts(old: str, new: str) -> bool:
    """Whether one sentence certainly contradicts another, by the palace's rules."""
    found = compare(as_memory("old", old, 0.0), as_memory("new", new, 1.0))
    return found is not None and found.acts


def _canonical(task: Canonicalize) -> Canonical:
    text = _filler.sub("", task.text).strip() or task.text.strip()
    return Canonical(text=re.sub(r"[ \t]+", " ", text[:1].upper() + text[1:]))


def _memories(task: ExtractMemories) -> ExtractedMemories:
    names = ("domain", "facet", "key", "value", "themes", "reason")
    found = [
        {name: getattr(proposal, name) for name in names}
        | {"quote": task.conversation[proposal.start : proposal.end]}
        for proposal in proposals(task.conversation)
    ]
    return ExtractedMemories(memories=tuple(map(ExtractedMemory.model_validate, found)))


def _ranking(task: RerankPassages) -> PassageRanking:
    index = SearchIndex()
    index.put_many(SearchItem(str(place), passage) for place, passage in enumerate(task.passages))
    found = [int(hit.id) for hit in index.search(task.query, len(task.passages), explain=False)]
    rest = (place for place in range(len(task.passages)) if place not in found)
    return PassageRanking(ranked_indices=(*found, *rest))


def _weight(sentence: str) -> int:
    """The weight of a sentence: names, numbers, decisions and duties raise the weight, a question has none."""
    if sentence.rstrip("… ").endswith("?"):
        return 0
    is_told = bool(_named.search(sentence)) + bool(_numbered.search(sentence))
    return 2 * bool(_duty.search(sentence)) + 2 * is_told + bool(_about_self.search(sentence))


def _cut(text: str, count: int) -> str:
    """The first `count` words of a text; an ellipsis replaces the others."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= count else " ".join(parts[:count]).rstrip(",;:") + "…"


def _newest(sentences: Sequence[str], count: int) -> str:
    """The last sentences within `count` words, in their order; at least the last sentence, shortened if necessary."""
    kept: list[str] = []
    for sentence in reversed(sentences):
        if kept and sum(len(item.split()) for item in (*kept, sentence)) > count:
            break
        kept.append(_cut(sentence, count))
    return " ".join(reversed(kept))


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
