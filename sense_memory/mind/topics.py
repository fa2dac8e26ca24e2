"""Topics: free-form names for groups of thoughts, each with a rolling summary (layered memory, layer 3).

A topic exists if a passage has it or if it has a summary. Classification prefers existing topics. If there are too many
topics, or one is too broad, `proposals` says so and changes nothing.

Guaranteed: if two devices merge one topic into different topics without knowing of each other, its thoughts count once,
in the same topic on every device. Safe, because a record of the merged topic names its targets, and the newest version of
that record decides. Each target remembers how many thoughts came with the merge, and counts them only while the record
agrees; the text of its summary stays. The cost is one small record for each merged topic.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.mind.model import ClassifyTopic, UpdateTopicSummary
from sense_memory.mind.salience import jaccard, words
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sense_memory.mind.archive import Archive
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

MANY_COUNT: Final = 30  # with so many topics, a merge of those with single passages is proposed
BROAD_COUNT: Final = 20  # a split of a topic is proposed if it has so many passages,
BROAD_SHARE: Final = 0.4  # and this share of all passages
_SAME_NAME: Final = 0.5  # topics whose names or summaries have a higher Jaccard similarity should be one
_MAX_NAME_CHARS: Final = 60
_MAX_PARTS_BYTES: Final = 8_192  # of the merges that a topic remembers
_MAX_STEPS: Final = 8  # merges of the same thoughts that a topic remembers, the newest
_MAX_TARGETS: Final = 50  # targets of one topic that are remembered, the newest
_PREFIX: Final = f"{address.MIND}topic/"
_INTO: Final = f"{address.MIND}into/"

# A merge: the merged topic, how often it had been merged before, and its target.
_Merge: TypeAlias = tuple[str, int, str]
# A number of thoughts that came to a topic by merges, and these merges, oldest first: thoughts may be merged repeatedly.
_Part: TypeAlias = tuple[int, tuple[_Merge, ...]]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        name: lower-case words joined by hyphens.
        summary: the agent's view of the topic; empty before the first update.
        covered: the number of thoughts that the summary covers.
        last: the id of the last thought that the summary covers; may be empty.
        passages: the number of passages of the archive with the topic.
        is_by_rule: whether rules wrote the summary, and not a language model.
    """

    name: str
    summary: str = field(default="", repr=False)
    covered: int = 0
    last: str = ""
    passages: int = 0
    is_by_rule: bool = False


@dataclass(frozen=True, slots=True)
class TopicProposal:
    """A proposed change of topics.

    Attributes:
        kind: `merge` or `split`.
        topics: the topics to change.
        reason: why, in words.
    """

    kind: str
    topics: tuple[str, ...]
    reason: str


class Topics:
    """The topics of an agent.

    Args:
        records: holds the summaries.
        archive: holds the passages.
        open_model: opens the model that classifies and summarises, when it is first needed.
    """

    def __init__(
        self, records: MindRecords, archive: Archive, open_model: Callable[[], LanguageModel]
    ) -> None:
        self._records, self._archive, self._open_model = records, archive, open_model

    @cached_property
    def model(self) -> LanguageModel:
        """The language model of all parts of the mind. May be set."""
        return self._open_model()

    async def all(self) -> list[Topic]:
        """All topics, those with most passages first."""
        counts, merges = await self._archive.topics(), await self._merges()
        found = {record.name: _counted(record, merges) for record in await self._records.under(_PREFIX)}
        found |= {name: Topic(name) for name in counts if name not in found}
        topics = [replace(topic, passages=counts.get(topic.name, 0)) for topic in found.values()]
        return sorted(topics, key=lambda topic: (-topic.passages, topic.name))

    async def list_topics(self) -> list[str]:
        """The names of all topics, those with most passages first."""
        return [topic.name for topic in await self.all()]

    async def get(self, name: str) -> Topic:
        """One topic; an empty topic if the name is unknown."""
        return next((topic for topic in await self.all() if topic.name == name), Topic(name))

    async def classify_topic(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> str:
        """The topic of a text: an existing topic that fits, or else a new name."""
        return (await self.classify(text, title, existing_topics))[0]

    async def classify(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """The topics of a text, best first.

        Args:
            text: the text.
            title: the title of the text.
            existing_topics: the names to choose from; by default all topics.

        Raises:
            ModelError: the model gave no valid answer.
        """
        known = {topic.name: topic.summary for topic in await self.all()}
        if existing_topics is not None:
            known = {name: known.get(name, "") for name in existing_topics}
        answer = await self.model.answer(ClassifyTopic(text=text, title=title, existing_topics=known))
        return tuple(dict.fromkeys(name if name in known else topic_name(name) for name in answer.topics))

    async def update_topic_summary(self, topic: str, new_text: str, *, last: str = "") -> Topic:
        """Update the summary of a topic with a new text; returns the topic.

        Args:
            topic: the topic's name.
            new_text: the newest thought.
            last: the id of that thought.

        Raises:
            ModelError: the model gave no valid answer; nothing was changed.
        """
        path = _path(topic)

        async def updated(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            before = _topic(found[path]) if path in found else Topic(topic)
            parts = _parts(found[path]) if path in found else []
            return {path: _fields(await self._summarised(before, new_text, 1, last), parts)}

        await self._records.change([path], updated)
        return await self.get(topic)

    async def merge(self, topics: Iterable[str], into: str) -> Topic:
        """Merge topics into one: passages get its name, and the model merges the summaries.

        An interrupted merge is completed by repeating it; no thought is counted twice.

        Raises:
            InvalidInput: none of the topics exists.
            ModelError: the model gave no valid answer; passages may already have the new name.
        """
        names = [name for name in dict.fromkeys(topics) if name != into]
        known = set(await self.list_topics())
        if known.isdisjoint(names):
            raise InvalidInput("none of these topics exists; nothing was changed")
        for passage in await self._archive.all():
            if not set(names).isdisjoint(passage.topics):
                await self._archive.rename_topics(passage.id, dict.fromkeys(names, into))
        target, paths = _path(into), {name: _path(name) for name in names}

        async def merged(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            """The target, and the merged topics, emptied in the same write so that another merge adds nothing."""
            merges, changed = await self._merges(), {}
            after = _topic(found[target]) if target in found else Topic(into)
            parts = _parts(found[target]) if target in found else []
            for path in (path for path in paths.values() if path in found):
                topic = _topic(found[path])
                changed[path] = _fields(Topic(topic.name))
                if topic.summary:
                    last = after.last or topic.last
                    after = await self._summarised(after, topic.summary, topic.covered, last)
                    earlier = merges.get(topic.name, ())
                    changed[address.mind_path("into", topic.name)] = {"into": _newest([*earlier, into])}
                    parts += _merged_parts(topic, _parts(found[path]), (topic.name, len(earlier), into))
            return {target: _fields(after, parts)} | changed

        await self._records.change([target, *paths.values()], merged)
        await self._records.forget([path for name, path in paths.items() if name in known])
        return await self.get(into)

    async def _merges(self) -> dict[str, tuple[str, ...]]:
        """The targets of every topic that was ever merged, oldest merge first. Relays are not asked."""
        return {record.name: record.texts("into") for record in await self._records.under(_INTO, asks=False)}

    async def _summarised(self, topic: Topic, new_text: str, count: int, last: str) -> Topic:
        """A topic whose summary includes a new text of `count` thoughts; `last` is the id of the last one, if known."""
        task = UpdateTopicSummary(topic=topic.name, previous_summary=topic.summary, new_text=new_text)
        answer = await self.model.answer(task)
        return replace(
            topic,
            summary=answer.summary,
            covered=topic.covered + count,
            last=last or topic.last,
            is_by_rule=answer.is_by_rule,
        )

    async def proposals(self) -> list[TopicProposal]:
        """Merges of topics that are similar, or many and small; and splits of topics that are too broad."""
        topics = await self.all()
        found = [
            TopicProposal("merge", (one.name, other.name), "their names or summaries are nearly the same")
            for place, one in enumerate(topics)
            for other in topics[place + 1 :]
            if _alike(one, other)
        ]
        total = sum(topic.passages for topic in topics)
        found += [
            TopicProposal("split", (topic.name,), f"{topic.passages} of {total} passages are in this topic")
            for topic in topics
            if topic.passages >= BROAD_COUNT and topic.passages >= BROAD_SHARE * total and len(topics) > 1
        ]
        single = tuple(topic.name for topic in topics if topic.passages <= 1)
        if len(topics) >= MANY_COUNT and len(single) > len(topics) / 2:
            reason = f"{len(single)} of {len(topics)} topics have one passage at most"
            found.append(TopicProposal("merge", single, reason))
        return found


def topic_name(text: str) -> str:
    """A text as the name of a topic: lower-case words joined by hyphens; `general` for a text without words.

    >>> topic_name("Agent Epistemology / memory")
    'agent-epistemology-memory'
    """
    return "-".join(dict.fromkeys(_ordered_words(text)))[:_MAX_NAME_CHARS].strip("-") or "general"


def _ordered_words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()


def _alike(one: Topic, other: Topic) -> bool:
    names = jaccard(words(one.name.replace("-", " ")), words(other.name.replace("-", " ")))
    return names > _SAME_NAME or (
        bool(one.summary) and jaccard(words(one.summary), words(other.summary)) > _SAME_NAME
    )


def _path(name: str) -> str:
    return address.mind_path("topic", name)


def _fields(topic: Topic, parts: Sequence[_Part] = ()) -> dict[str, Any]:
    return {
        "parts": _remembered(parts),
        "summary": topic.summary,
        "covered": topic.covered,
        "last": topic.last,
        "is_by_rule": topic.is_by_rule,
    }


def _topic(record: MindRecord) -> Topic:
    return Topic(
        record.name,
        record.text("summary"),
        record.whole("covered"),
        record.text("last"),
        is_by_rule=record.is_true("is_by_rule"),
    )


def _parts(record: MindRecord) -> list[_Part]:
    """The parts of a topic that came by merges; empty if another program wrote other values."""
    try:
        return [
            (int(count), tuple((str(name), int(number), str(into)) for name, number, into in merges))
            for count, merges in record.fields.get("parts", ())
        ]
    except (TypeError, ValueError):
        return []


def _newest(targets: Sequence[str]) -> list[str]:
    """The targets of a topic at the same places, with empty texts for the oldest ones if there are many."""
    old = max(0, len(targets) - _MAX_TARGETS)
    return [*[""] * old, *targets[old:]]


def _remembered(parts: Sequence[_Part]) -> list[_Part]:
    """The parts as far as their record has room: old merges are forgotten, and their thoughts count from then on."""
    kept: list[_Part] = []
    for steps in range(_MAX_STEPS, 0, -1):
        counts = Counter[tuple[_Merge, ...]]()
        for count, merges in parts:
            counts[merges[-steps:]] += count
        kept = [(count, merges) for merges, count in counts.items() if count]
        if len(orjson.dumps(kept)) <= _MAX_PARTS_BYTES:
            break
    while len(orjson.dumps(kept)) > _MAX_PARTS_BYTES:
        del kept[: 1 + len(kept) // 10]
    return kept


def _merged_parts(topic: Topic, parts: Sequence[_Part], merge: _Merge) -> list[_Part]:
    """The parts that a merge adds to its target: the topic's own thoughts, and its parts of earlier merges."""
    own = topic.covered - sum(count for count, _ in parts)
    return [(own, (merge,)), *((count, (*earlier, merge)) for count, earlier in parts)]


def _counted(record: MindRecord, merges: Mapping[str, tuple[str, ...]]) -> Topic:
    """A topic without the thoughts of merges that do not count, because a later merge of the same topic does."""
    topic = _topic(record)
    lost = sum(
        count
        for count, earlier in _parts(record)
        if any(
            merges.get(name, ())[number : number + 1] not in {(), ("",), (into,)}
            for name, number, into in earlier
        )
    )
    return replace(topic, covered=max(0, topic.covered - lost))
