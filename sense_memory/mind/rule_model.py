"""`RuleModel`: every task of `model` answered by rules, offline and deterministically. The default model.

The rules quote: an answer contains only sentences of its input, and only those that say something (`sentence_kinds.SAYING`).
Small talk, questions, commands and fragments become no topic, no belief and no part of an identity. What the rules cannot
quote they do not conclude: such an answer is empty. Every answer is marked `is_by_rule`. Words are compared by their stems,
without stop words.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any, Final, cast

from sense_memory.mind.beliefs import as_memory
from sense_memory.mind.model import (
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
    Task,
    TopicNames,
    TopicSummary,
    UpdateTopicSummary,
    WriteReply,
)
from sense_memory.mind.private_identifiers import is_private
from sense_memory.mind.rule_summary import RuleSummary
from sense_memory.mind.search.corrections import corrects
from sense_memory.mind.sentence_kinds import (
    SAYING,
    SentenceKind,
    kind_of,
    saying,
    split_sentences,
    subject_of,
    tells_of_past,
)
from sense_memory.mind.sentence_values import values_of
from sense_memory.palace import compare
from sense_memory.palace.extraction import proposals
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

_TOPIC_WORDS: Final = 120  # of a topic's summary
_TITLE_WORDS: Final = 3  # a title of so many words at most is a topic
_REPEATED_COUNT: Final = 2  # sentences that speak of a new topic's subject
_CHAT: Final = frozenset({SentenceKind.SMALL_TALK, SentenceKind.QUESTION, SentenceKind.COMMAND})
_THEME_WORDS: Final = 150  # of an identity's themes
_SAME_BOUND: Final = 0.5  # sentences with this Jaccard similarity or more say the same
_TOPIC_TERMS: Final = (
    2  # a text fits a topic if it shares so many words with the summary, and a quarter of its own
)
_role = re.compile(r"\bI(?:'m| am) an? ([^.,;!?\n]{3,60})")
_value = re.compile(r"\bI (?:value|believe in|care about|stand for) ([^.;!?\n]{3,80})")
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
_over = re.compile(r"^(.+?)\s(?:over|rather than|instead of|before)\s+(.+)", re.IGNORECASE | re.MULTILINE)
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
_quoted = re.compile(r"^(?P<who>[^\s:][^:\n]{0,60}): (?=\S)")
# How much a kind of sentence is worth a belief by itself; other kinds only if it is said repeatedly.
_BELIEF_WEIGHTS: Final = {
    SentenceKind.CORRECTION: 5,
    SentenceKind.DECISION: 4,
    SentenceKind.INSTRUCTION: 4,
    SentenceKind.PREFERENCE: 3,
    SentenceKind.OPEN_QUESTION: 2,
    SentenceKind.DATE: 2,
}


class RuleModel:
    """Answers every task by rules.

    Args:
        language: the language of words in Latin letters, for their stems, by Snowball's name.
    """

    def __init__(self, language: str = "english") -> None:
        self._stem = stemmer(language)
        self._stops = STOP_WORDS[language]
        self._summary = RuleSummary(self._terms)

    async def answer(self, task: Task[AnswerT]) -> AnswerT:
        """The answer to a task, marked `is_by_rule`. Other coroutines get turns while a conversation is summarised.

        Raises:
            TypeError: no rule answers tasks of this type.
        """
        if isinstance(task, SummarizeConversation):  # as long as a conversation
            return cast("AnswerT", await self._summary.summarize(task))
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

    # ── Topics and identity ─────────────────────────────────────────────────────────────

    def _classify(self, task: ClassifyTopic) -> TopicNames:
        """Existing topics that share words with what the text says, or else a subject that is spoken of repeatedly."""
        said = saying(task.text)
        if not said:
            return TopicNames(topics=())
        counts = Counter(term for sentence in said for term in self._terms(sentence))
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
        return self._new_topic(task, said)

    def _new_topic(self, task: ClassifyTopic, said: Sequence[str]) -> TopicNames:
        """A title as a topic; or the subject of most sentences of the text and of the thoughts without a topic."""
        if 0 < len(title := words(task.title)) <= _TITLE_WORDS:
            return TopicNames(topics=("-".join(title),))
        unsorted = [saying(text) for text in task.unsorted]
        spelled = self._subjects(said)
        earlier = self._subjects(sentence for sentences in unsorted for sentence in sentences)
        mine = Counter(term for sentence in said for term in set(self._terms(sentence)))
        theirs = [
            {term for sentence in sentences for term in self._terms(sentence)} for sentences in unsorted
        ]
        counts = {
            term: count + sum(term in terms for terms in theirs)
            for term, count in mine.items()
            if term in spelled or term in earlier
        }
        best = min(counts, key=lambda term: (-counts[term], term not in spelled, term), default="")
        if not best or counts[best] < _REPEATED_COUNT:
            return TopicNames(topics=())
        also = tuple(place for place, terms in enumerate(theirs) if best in terms)
        return TopicNames(topics=((spelled | earlier)[best],), also=also)

    def _subjects(self, sentences: Iterable[str]) -> dict[str, str]:
        """The words of the subjects of some sentences: their stems, and how they are spelled."""
        found: dict[str, str] = {}
        for sentence in sentences:
            for word in subject_of(sentence):
                if word not in self._stops and len(word) > 2:
                    found.setdefault(self._stem(word), word)
        return found

    def _update_summary(self, task: UpdateTopicSummary) -> TopicSummary:
        """The previous sentences that the new text neither repeats nor corrects, then what the new text says; the newest fit.

        Of a long text only the last sentences can be part of the summary, so only these are read.
        """
        last = _last(split_sentences(task.new_text), _TOPIC_WORDS)
        new = [sentence for sentence in last if kind_of(sentence) in SAYING]
        if not new and not task.previous_summary:
            new = [sentence for sentence in last if kind_of(sentence) not in _CHAT]
        old = [
            sentence
            for sentence in _last(split_sentences(task.previous_summary), _TOPIC_WORDS)
            if not any(
                self._similarity(sentence, other) >= _SAME_BOUND
                or contradicts(sentence, other)
                or corrects(other, sentence)
                for other in new
            )
        ]
        return TopicSummary(summary=_newest([*old, *new], _TOPIC_WORDS))

    def _distil(self, task: DistillIdentity) -> DistilledIdentity:
        """What the topics say in general: the most central view of each, roles, values and tensions.

        A view has no name, number or date: who lives where and what is due when are facts, and no part of an identity.
        """
        summaries = sorted(task.topic_summaries.items(), key=lambda item: (-len(item[1].split()), item[0]))
        told = [[text for text in saying(summary) if not is_private(text)] for _, summary in summaries]
        names = {name for _, summary in summaries for name in _names_in(summary)}
        views = [[text for text in of_topic if _is_view(text, names)] for of_topic in told]
        leads = [self._central(sentences)[:1] for sentences in views]
        sentences = [sentence for of_topic in told for sentence in of_topic]
        text = "\n".join(sentences)
        tensions = [one for one in sentences if _contrast.search(one) and _is_view(one, names)]
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
        """The sentence that is most worth a belief, with its speaker, and the experiences about the same subject as evidence.

        Worth it are corrections, decisions, instructions, preferences, dates and open questions, and any statement whose
        subject another experience speaks of too. Without one, the belief is empty: there is nothing to conclude.
        """
        told = [_quotation(text) for text in task.experiences]
        said = [(place, who, text) for place, (who, whole) in enumerate(told) for text in saying(whole)]
        terms = [frozenset(self._terms(whole)) for _, whole in told]
        scene, best = set(self._terms(task.scene)), (0.0, -1)
        based: dict[int, tuple[int, ...]] = {}
        for number, (place, who, text) in enumerate(said):
            if any(other[1] == who and corrects(other[2], text) for other in said[number + 1 :]):
                continue
            about = set(self._subjects([text])) or set(self._terms(text))
            least = 1 if subject_of(text) else 2
            like = [
                at for at, _, other in said if kind_of(other) in SAYING and len(about & terms[at]) >= least
            ]
            based[number] = tuple(sorted({place, *like}))
            worth = _BELIEF_WEIGHTS.get(kind_of(text), 0) + len(based[number]) - 1
            best = max(best, (worth + len(scene & terms[place]) / 10 if worth else 0.0, number))
        if not best[0]:
            return Reflection(belief="", based_on=())
        _, who, text = said[best[1]]
        return Reflection(belief=f"{who}: {text}" if who else text, based_on=based[best[1]])

    def _check(self, task: CheckCoherence) -> Coherence:
        against = [("identity", line) for line in task.identity]
        against += [("objective", line) for line in task.objectives] + [
            ("value", line) for line in task.values
        ]
        issues = []
        output = split_sentences(task.output)
        for kind, line in against:
            for statement, sentence in product(split_sentences(line), output):
                if reason := self._conflict(kind, statement, sentence):
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
        """The sentences of the context, at most three, that share most words with the input; never a heading or a question."""
        wanted = set(self._terms(task.input))
        told = _distinct(split_sentences(task.context))
        sentences = [
            sentence for sentence in told if kind_of(sentence) not in _CHAT | {SentenceKind.FRAGMENT}
        ]
        shared = {sentence: len(wanted & set(self._terms(sentence))) for sentence in sentences}
        best = sorted((item for item in sentences if shared[item]), key=lambda item: -shared[item])[:3]
        chosen = [sentence for sentence in sentences if sentence in best]
        return Reply(text=" ".join(chosen) or "I remember nothing about that.", is_empty=not chosen)


def _jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


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


def _names_in(text: str) -> Iterator[str]:
    """The names in a text: words with a capital within a sentence, with a possessive, or that live, work or speak."""
    yield from re.findall(r"\b([A-Z]\w+)(?:'s\b| (?:lives|works|studies|teaches|speaks)\b)", text)
    for sentence in split_sentences(text):
        yield from values_of(sentence).get("name", ())


def _is_view(sentence: str, names: AbstractSet[str]) -> bool:
    """Whether a sentence says in general how things are, or what its speaker values or prefers, and has none of some names."""
    is_named = not names.isdisjoint(re.findall(r"[\w-]+", sentence))
    is_told = tells_of_past(sentence) or bool(values_of(sentence))
    return kind_of(sentence) in _VIEWS and not is_named and not is_told


_VIEWS: Final = frozenset({SentenceKind.STATEMENT, SentenceKind.PREFERENCE, SentenceKind.INSTRUCTION})


def _quotation(text: str) -> tuple[str, str]:
    """Who says an experience, and what; nobody for a text without a speaker."""
    match = _quoted.match(text)
    return (match["who"], text[match.end() :]) if match else ("", text)


def _cut(text: str, count: int) -> str:
    """The first `count` words of a text; an ellipsis replaces the others."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= count else " ".join(parts[:count]).rstrip(",;:") + "…"


def _last(sentences: Sequence[str], count: int) -> list[str]:
    """The last sentences with `count` words together, and the one before them."""
    kept, left = list[str](), count
    for sentence in reversed(sentences):
        kept.append(sentence)
        left -= len(sentence.split())
        if left < 0:
            break
    return kept[::-1]


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
