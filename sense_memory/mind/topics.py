"""Topics: free-form names that thoughts gather under, each with a rolling summary (layered memory, layer 3).

A topic exists because a passage has it or because it has a summary. Classification prefers the topics that exist. When
topics grow too many or one grows too broad, `proposals` says so; only `merge` and `rename` change anything.

Two devices that do not know of each other may merge one topic into different ones. Of such merges one counts, the same on
every device: a record of the merged topic says where it went, and its newest version decides. The topic that got it
remembers how many thoughts came with it, and counts them only as long as that record agrees. Its summary stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sense_memory.errors import InvalidInput
from sense_memory.mind.model import ClassifyTopic, UpdateTopicSummary
from sense_memory.mind.salience import jaccard, words
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sense_memory.mind.archive import Archive
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

MANY_COUNT: Final = 30  # topics, from which single ones are proposed for merging
BROAD_COUNT: Final = 20  # passages of one topic, from which a split is proposed,
BROAD_SHARE: Final = 0.4  # if it also has this share of all
_SAME_NAME: Final = 0.5  # Jaccard similarity of names or summaries that should be one topic
_MAX_NAME_CHARS: Final = 60
_MAX_PARTS: Final = 100  # merges that a topic remembers, some 20 KB at most
_PREFIX: Final = f"{address.MIND}topic/"
_INTO: Final = f"{address.MIND}into/"

# A merge: the topic that was merged, how often it had been merged before, and the topic that got it.
_Merge: TypeAlias = tuple[str, int, str]
# Thoughts that a topic got by merges, and these merges, the oldest first: others may have got the thoughts before.
_Part: TypeAlias = tuple[int, tuple[_Merge, ...]]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        name: lower case, words joined by hyphens.
        summary: what the agent holds about it; empty before the first update.
        covered: how many thoughts the summary covers.
        last: id of the last thought that it covers; may be empty.
        passages: how many passages of the archive have the topic.
        is_by_rule: whether rules wrote the summary, and no language model.
    """

    name: str
    summary: str = field(default="", repr=False)
    covered: int = 0
    last: str = ""
    passages: int = 0
    is_by_rule: bool = False


@dataclass(frozen=True, slots=True)
class TopicProposal:
    """A change of topics that an agent may want.

    Attributes:
        kind: `merge` or `split`.
        topics: those concerned.
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
        open_model: gives the model that classifies and summarises, when it is first needed.
    """

    def __init__(
        self, records: MindRecords, archive: Archive, open_model: Callable[[], LanguageModel]
    ) -> None:
        self._records, self._archive, self._open_model = records, archive, open_model

    @cached_property
    def model(self) -> LanguageModel:
        """The language model of all parts of the mind; may be set."""
        return self._open_model()

    async def all(self) -> list[Topic]:
        """Every topic, those with most passages first."""
        counts, merges = await self._archive.topics(), await self._merges()
        found = {record.name: _counted(record, merges) for record in await self._records.under(_PREFIX)}
        found |= {name: Topic(name) for name in counts if name not in found}
        topics = [replace(topic, passages=counts.get(topic.name, 0)) for topic in found.values()]
        return sorted(topics, key=lambda topic: (-topic.passages, topic.name))

    async def list_topics(self) -> list[str]:
        """The names of all topics, those with most passages first."""
        return [topic.name for topic in await self.all()]

    async def get(self, name: str) -> Topic:
        """One topic; an empty one if nothing is known of it."""
        return next((topic for topic in await self.all() if topic.name == name), Topic(name))

    async def classify_topic(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> str:
        """The topic of a text: an existing one where one fits, else a new name."""
        return (await self.classify(text, title, existing_topics))[0]

    async def classify(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """The topics of a text, the best first.

        Args:
            text: the text.
            title: its title.
            existing_topics: names to choose from; by default all topics.

        Raises:
            ModelError: the model gave no usable answer.
        """
        known = {topic.name: topic.summary for topic in await self.all()}
        if existing_topics is not None:
            known = {name: known.get(name, "") for name in existing_topics}
        answer = await self.model.answer(ClassifyTopic(text=text, title=title, existing_topics=known))
        return tuple(dict.fromkeys(name if name in known else topic_name(name) for name in answer.topics))

    async def update_topic_summary(self, topic: str, new_text: str, *, last: str = "") -> Topic:
        """Bring the summary of a topic up to date with a new text; returns the topic.

        Args:
            topic: its name.
            new_text: the newest thought.
            last: id of that thought.

        Raises:
            ModelError: the model gave no usable answer; nothing was changed.
        """
        path = _path(topic)

        async def updated(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            before = _topic(found[path]) if path in found else Topic(topic)
            parts = _parts(found[path]) if path in found else []
            return {path: _fields(await self._told(before, new_text, 1, last), parts)}

        await self._records.change([path], updated)
        return await self.get(topic)

    async def merge(self, topics: Iterable[str], into: str) -> Topic:
        """Make one topic of several: passages get its name, and the summaries are put together.

        A merge that was interrupted is completed by calling it again; nothing is counted twice.

        Raises:
            InvalidInput: none of the topics exists.
            ModelError: the model gave no usable answer; passages may have the new name already.
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
            """The merged topic, and the others emptied with it: whoever merges them again adds nothing."""
            merges, changed = await self._merges(), {}
            after = _topic(found[target]) if target in found else Topic(into)
            parts = _parts(found[target]) if target in found else []
            for path in (path for path in paths.values() if path in found):
                topic = _topic(found[path])
                changed[path] = _fields(Topic(topic.name))
                if topic.summary:
                    after = await self._told(after, topic.summary, topic.covered, after.last or topic.last)
                    went = merges.get(topic.name, ())
                    changed[address.mind_path("into", topic.name)] = {"into": [*went, into]}
                    parts += _given(topic, _parts(found[path]), (topic.name, len(went), into))
            return {target: _fields(after, parts)} | changed

        await self._records.change([target, *paths.values()], merged)
        await self._records.forget([path for name, path in paths.items() if name in known])
        return await self.get(into)

    async def _merges(self) -> dict[str, tuple[str, ...]]:
        """Where each topic that was ever merged went, each time; also where the ledger has not asked relays yet."""
        return {record.name: record.texts("into") for record in await self._records.under(_INTO, asks=False)}

    async def _told(self, topic: Topic, new_text: str, count: int, last: str) -> Topic:
        """A topic after `count` thoughts with a new text, the last of them `last` where it is known."""
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
        """Topics that could be merged, because they are alike or many and small; and topics that grew too broad."""
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
    """A topic's name as this program writes it: lower case, words joined by hyphens; `general` for nothing.

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
        "parts": parts[-_MAX_PARTS:],
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
    """What a topic got by merges; nothing where another program wrote something else."""
    try:
        return [
            (int(count), tuple((str(name), int(number), str(into)) for name, number, into in merges))
            for count, merges in record.fields.get("parts", ())
        ]
    except (TypeError, ValueError):
        return []


def _given(topic: Topic, parts: Sequence[_Part], merge: _Merge) -> list[_Part]:
    """What a merge gives: the topic's own thoughts, and those that it got by earlier merges."""
    own = topic.covered - sum(count for count, _ in parts)
    return [(own, (merge,)), *((count, (*earlier, merge)) for count, earlier in parts)]


def _counted(record: MindRecord, merges: Mapping[str, tuple[str, ...]]) -> Topic:
    """A topic without the thoughts that it got by merges that do not count, because another one does."""
    topic = _topic(record)
    lost = sum(
        count
        for count, earlier in _parts(record)
        if any(
            merges.get(name, ())[number : number + 1] not in {(), (into,)} for name, number, into in earlier
        )
    )
    return replace(topic, covered=max(0, topic.covered - lost))
