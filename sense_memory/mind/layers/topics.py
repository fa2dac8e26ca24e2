"""Topics: free-form names for groups of thoughts, each with a rolling summary (layered memory, layer 3).

A topic exists if a passage has it or if it has a summary. Classification prefers existing topics. If there are too many
topics, or one is too broad, `proposals` says so and changes nothing.

Guaranteed: if two devices merge topics without knowing of each other, every thought counts once, in the same topic on
every device. Safe, because thoughts have a source, the topic that they were first counted in and how often it had been
merged before. A record of each merged topic names its targets, and the newest version of that record decides. Each target
remembers how many thoughts came from which source. Of all topics that remember a source, one counts it: the one that it
was merged into last; a number that two devices raised is not added up. If the newest version of a topic has lost a source,
because another device replaced it, the number in the merged topic's record counts. The text of a summary stays where it is.
Of two summaries that two devices updated at once, the later counts, and its number with it; the thoughts are passages, and
none is lost. (Adding the numbers would count a thought twice that both devices took from one log.)
The cost is one small record for each merged topic.

A model is shown at most `MAX_LISTED_CHARS` characters of topics with each text, the nearest first; see `topic_choice`.
Records stay in RAM once they were read, so storing a thought reads only what has changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.layers.topic_choice import TopicChoice
from sense_memory.mind.model import ClassifyTopic, UpdateTopicSummary
from sense_memory.mind.records import RecordView
from sense_memory.mind.salience import jaccard, words
from sense_memory.mind.sentence_kinds import saying, subject_of
from sense_memory.mind.versioned import VersionedRecords
from sense_memory.nostr import address
from sense_memory.palace.sources import is_told


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence

    from sense_memory.mind.layers.archive import Archive, Passage
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

MANY_COUNT: Final = 30  # with so many topics, a merge of those with single passages is proposed
BROAD_COUNT: Final = 20  # a split of a topic is proposed if it has so many passages,
BROAD_SHARE: Final = 0.4  # and this share of all passages
_SAME_NAME: Final = 0.5  # topics whose names or summaries have a higher Jaccard similarity should be one
_MAX_NAME_CHARS: Final = 60
_MAX_PARTS_BYTES: Final = 8_192  # of the merges that a topic remembers
_MAX_STEPS: Final = 16  # merges of the same thoughts that a topic remembers, the newest
_MAX_TARGETS: Final = 50  # targets of one topic that are remembered, the newest
_UNSORTED_COUNT: Final = 20  # thoughts without a topic that a model is shown with a text
_UNSORTED_CHARS: Final = 300  # of each
_PREFIX: Final = f"{address.MIND}topic/"
_INTO: Final = f"{address.MIND}into/"

# A merge: the merged topic, how often it had been merged before, and its target.
_Merge: TypeAlias = tuple[str, int, str]
# Thoughts that were first counted in one topic: its name, and how often it had been merged before.
_Source: TypeAlias = tuple[str, int]
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


@dataclass(frozen=True, slots=True)
class _Held:
    """A topic's record: `topic.covered` is the sum of its own thoughts and of its parts.

    Attributes:
        generation: how often the topic had been merged before it got its own thoughts.
        is_whole: whether the record names the source of all thoughts that came by merges.
    """

    topic: Topic
    parts: tuple[_Part, ...]
    generation: int
    is_whole: bool = True

    @property
    def own(self) -> int:
        return max(0, self.topic.covered - sum(count for count, _ in self.parts))

    def moved(self, *merges: _Merge) -> list[_Part]:
        """The parts after a merge of this topic: its own thoughts, and its parts, without those that were elsewhere."""
        name = self.topic.name
        parts = [
            (count, (*earlier, *merges) if earlier[-1][2] == name else earlier)
            for count, earlier in self.parts
        ]
        return [(self.own, merges), *parts] if self.own else parts


@dataclass(frozen=True, slots=True)
class _Move:
    """One merge of a topic, in the record of its merges.

    Attributes:
        target: the topic that it was merged into; empty if that was forgotten.
        generation: how often the target had been merged before; None if an earlier version wrote the record.
        count: how many own thoughts the topic had.
    """

    target: str
    generation: int | None = None
    count: int = 0


_Moves: TypeAlias = "Mapping[str, tuple[_Move, ...]]"  # the merges of each topic, oldest first


@checked
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
        self._topics = _TopicRecords(records, self._moves)
        self._summaries = RecordView(records, _PREFIX, lambda record: record)
        self._merges = RecordView(records, _INTO, _moves)
        self._choice = TopicChoice()

    @cached_property
    def model(self) -> LanguageModel:
        """The language model of all parts of the mind. May be set."""
        return self._open_model()

    async def all(self) -> list[Topic]:
        """All topics, those with most passages first."""
        counts, moves = await self._archive.topics(), await self._moves()
        records = await self._summaries.refresh()
        held = [_held(name, record, moves) for name, record in records.items()]
        covered = _covered(held, moves)
        found = {
            name: replace(item.topic, covered=covered[name]) for item in held if (name := item.topic.name)
        }
        found |= {name: Topic(name) for name in counts if name not in found}
        topics = [replace(topic, passages=counts.get(topic.name, 0)) for topic in found.values()]
        return sorted(topics, key=lambda topic: (-topic.passages, topic.name))

    async def summaries(self) -> dict[str, str]:
        """The summary of each topic, which may be empty; the topics with most passages first."""
        counts, records = await self._archive.topics(), await self._summaries.refresh()
        names = sorted({*counts, *records}, key=lambda name: (-counts.get(name, 0), name))
        return {name: records[name].text("summary") if name in records else "" for name in names}

    async def list_topics(self) -> list[str]:
        """The names of all topics, those with most passages first."""
        return [topic.name for topic in await self.all()]

    async def get(self, name: str) -> Topic:
        """One topic; an empty topic if the name is unknown."""
        return next((topic for topic in await self.all() if topic.name == name), Topic(name))

    async def classify_topic(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> str:
        """The topic of a text: an existing topic that fits, or else a new name; `general` for a text without a subject."""
        return next(iter(await self.classify(text, title, existing_topics)), subject_name(text) or "general")

    async def classify(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """The topics of a text, best first; none if it says nothing, or is the first text about its subject.

        Of more topics than fit a request, the model is shown those nearest to the text.

        Args:
            text: the text.
            title: the title of the text.
            existing_topics: the names to choose from; by default all topics.

        Raises:
            ModelError: the model gave no valid answer.
        """
        return (await self.sorted_in(text, title, existing_topics))[0]

    async def sorted_in(
        self, text: str, title: str = "", existing_topics: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...], tuple[Passage, ...]]:
        """As `classify`, with the thoughts without a topic that belong to the first topic, oldest first.

        By rules, a new topic begins when a second thought speaks of its subject; the first one is sorted in then.

        Raises:
            ModelError: the model gave no valid answer.
        """
        known = await self.summaries()
        if existing_topics is not None:
            known = {name: known.get(name, "") for name in existing_topics}
        shown = self._choice.nearest(known, f"{title} {text}")
        left_out = len(known) - len(shown)
        loose = await self._unsorted(text)
        task = ClassifyTopic(
            text=text,
            title=title,
            existing_topics=shown,
            left_out=left_out,
            unsorted=tuple(passage.content[:_UNSORTED_CHARS] for passage in loose),
        )
        answer = await self.model.answer(task)
        names = tuple(dict.fromkeys(name if name in known else topic_name(name) for name in answer.topics))
        also = sorted(set(answer.also)) if names else []
        return names, tuple(loose[place] for place in also)

    async def _unsorted(self, text: str) -> list[Passage]:
        """The thoughts without a topic that share most words with a text, oldest first."""
        wanted = words(text)
        thoughts = (one for one in await self._archive.all() if one.source and not one.topics)
        loose = [one for one in thoughts if not one.sources and is_told(one.origin)]
        shared = [
            (len(wanted & words(passage.content)), passage) for passage in loose if passage.content != text
        ]
        best = sorted(shared, key=lambda item: -item[0])[:_UNSORTED_COUNT]
        return sorted(
            (passage for count, passage in best if count), key=lambda passage: (passage.at, passage.id)
        )

    async def update_topic_summary(self, topic: str, new_text: str, *, last: str = "") -> Topic:
        """Update the summary of a topic with a new text; returns the topic.

        Args:
            topic: the topic's name.
            new_text: the newest thought.
            last: the id of that thought.

        Raises:
            ModelError: the model gave no valid answer; nothing was changed.
        """
        await self._update(topic, new_text, last)
        return await self.get(topic)

    async def cover(self, topic: str, thought: str, thought_id: str) -> None:
        """Update the summary of a topic with a thought, unless it is the last thought that the topic covers.

        Raises:
            ModelError: the model gave no valid answer; nothing was changed.
        """
        await self._update(topic, thought, thought_id, once=True)

    async def _update(self, topic: str, new_text: str, last: str, *, once: bool = False) -> None:

        async def updated(found: _Held | None) -> _Held | None:
            moves = await self._moves()
            before = _renewed(found or _held(topic, None, moves), moves)
            if once and before.topic.last == last:
                return None
            return replace(before, topic=await self._summarised(before.topic, new_text, 1, last))

        await self._topics.change(topic, updated)

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
            raise InvalidInput("none of these topics exists")
        for passage in await self._archive.all():
            if not set(names).isdisjoint(passage.topics):
                await self._archive.rename_topics(passage.id, dict.fromkeys(names, into))
        target, paths = self._topics.path(into), {name: self._topics.path(name) for name in names}

        async def merged(found: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            """The target, and the merged topics, emptied in the same write so that another merge adds nothing."""
            moves, changed = await self._moves(), {}
            after = _renewed(_held(into, found.get(target), moves), moves)
            for name, path in ((name, path) for name, path in paths.items() if path in found):
                source, earlier = _renewed(_held(name, found[path], moves), moves), moves.get(name, ())
                has_thoughts = bool(source.topic.summary or source.own)
                if has_thoughts:
                    move = _Move(into, after.generation, source.own)
                    changed[address.mind_path("into", name)] = _fields_of_moves([*earlier, move])
                    after = await self._united(after, source, (name, len(earlier), into))
                changed[path] = _fields(_Held(Topic(name), (), source.generation + has_thoughts))
            return {target: _fields(after)} | changed

        await self._records.change([target, *paths.values()], merged)
        await self._records.forget([path for name, path in paths.items() if name in known])
        return await self.get(into)

    async def _moves(self) -> _Moves:
        """The merges of every topic that was ever merged. Relays are not asked."""
        return await self._merges.refresh(asks=False)

    async def _united(self, target: _Held, source: _Held, merge: _Merge) -> _Held:
        """A topic after a merge: its summary includes the other one, and each part is there once."""
        parts = dict[tuple[_Merge, ...], int]()
        for count, merges in (*target.parts, *source.moved(merge)):
            parts[merges] = max(count, parts.get(merges, 0))
        last = target.topic.last or source.topic.last
        topic = await self._summarised(target.topic, source.topic.summary, source.topic.covered, last)
        return _Held(
            replace(topic, covered=target.own + sum(parts.values())),
            tuple((count, merges) for merges, count in parts.items()),
            target.generation,
            target.is_whole and source.is_whole,
        )

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


def subject_name(text: str) -> str:
    """The subject of the first sentence of a text that says something, as the name of a topic; empty if it has none.

    >>> subject_name("Haha! My press is from 1930."), subject_name("I know.")
    ('press', '')
    """
    found = next((named for sentence in saying(text) if (named := subject_of(sentence))), ())
    return topic_name(found[0]) if found else ""


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


def _fields(held: _Held) -> dict[str, Any]:
    parts, topic = _remembered(held.parts), held.topic
    return {
        "parts": parts,
        "generation": held.generation,
        "is_whole": held.is_whole and {merges for _, merges in parts} >= {merges for _, merges in held.parts},
        "summary": topic.summary,
        "covered": topic.covered,
        "last": topic.last,
        "is_by_rule": topic.is_by_rule,
    }


class _TopicRecords(VersionedRecords[_Held]):
    """Topics as records, which are read with the merges of all topics."""

    def __init__(self, records: MindRecords, moves: Callable[[], Awaitable[_Moves]]) -> None:
        super().__init__(records, _PREFIX, lambda record: _held(record.name, record, {}), _fields)
        self._moves = moves

    async def value(self, record: MindRecord) -> _Held:
        """What a topic's record holds."""
        return _held(record.name, record, await self._moves())


def _held(name: str, record: MindRecord | None, moves: _Moves) -> _Held:
    """What a record holds; without the generation of an earlier version, its thoughts came after all merges."""
    latest = len(moves.get(name, ()))
    if record is None:
        return _Held(Topic(name), (), latest)
    generation = record.whole("generation", latest)
    return _Held(_topic(record), tuple(_parts(record)), generation, record.is_true("is_whole"))


def _renewed(held: _Held, moves: _Moves) -> _Held:
    """A topic for new thoughts: what another device has merged since the topic was written becomes a part of it."""
    name, latest = held.topic.name, len(moves.get(held.topic.name, ()))
    path, end = _path((name, held.generation), moves)
    steps = path if end == (name, held.generation) else path[:1]  # merges in a circle bring the thoughts back
    return replace(held, parts=tuple(held.moved(*steps)) if steps else held.parts, generation=latest)


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
            if merges
        ]
    except (TypeError, ValueError):
        return []


def _moves(record: MindRecord) -> tuple[_Move, ...]:
    targets, taken = record.texts("into"), record.fields.get("taken")
    try:
        found = [(int(generation), int(count)) for generation, count in taken or ()]
        return tuple(
            _Move(target, None if more[0] < 0 else more[0], more[1])
            for target, more in zip(targets, found, strict=True)
        )
    except (TypeError, ValueError):  # an earlier version wrote the targets only
        return tuple(_Move(target) for target in targets)


def _fields_of_moves(moves: Sequence[_Move]) -> dict[str, Any]:
    """The record of a topic's merges; the oldest of many are forgotten, and leave their places."""
    old = max(0, len(moves) - _MAX_TARGETS)
    kept = [*[_Move("", 0)] * old, *moves[old:]]
    taken = [(-1 if move.generation is None else move.generation, move.count) for move in kept]
    return {"into": [move.target for move in kept], "taken": taken}


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


def _covered(held: Sequence[_Held], moves: _Moves) -> Counter[str]:
    """How many thoughts count in each topic: each source once, and where it is now."""
    known = {item.topic.name: item.is_whole for item in held}
    claims: dict[_Source, list[_Claim]] = {}
    for item in held:
        for source, claim in _claims(item, moves).items():
            claims.setdefault(source, []).append(claim)
    found = Counter[str]()
    for rivals in claims.values():
        best, most = max(rivals, key=_last), max(rivals, key=_count)
        place = _place(best.start, moves, known)
        found[place if place in known else best.topic] += best.count
        found[most.topic] += most.count - best.count  # that came while another device merged the topic
    for name, merges in moves.items():
        for number, move in enumerate(merges):
            if (name, number) not in claims and known.get(place := _place((name, number), moves, known)):
                found[place] += move.count
    return found


@dataclass(frozen=True, slots=True)
class _Claim:
    """A topic that remembers a source: where it says that the source went last, after how many merges."""

    topic: str
    count: int
    start: _Source
    is_current: bool
    steps: int


_count: Final = attrgetter("count", "topic")
_last: Final = attrgetter("is_current", "steps", "topic")


def _claims(held: _Held, moves: _Moves) -> dict[_Source, _Claim]:
    """The sources that a topic remembers, without those of merges that a later merge has replaced."""
    name = held.topic.name
    here = name, held.generation
    is_current = not _next(here, moves)
    found = {here: _Claim(name, held.own, here, is_current, 0)} if held.own else {}
    for count, merges in held.parts:
        if any((move := _next(one[:2], moves)) and move.target != one[2] for one in merges):
            continue
        source, is_here = merges[0][:2], merges[-1][2] == name
        start = here if is_here else merges[-1][:2]
        claim = _Claim(name, count, start, is_here and is_current, len(merges))
        before = found.get(source, claim)
        found[source] = replace(max(before, claim, key=_last), count=max(before.count, count))
    return found


def _next(source: _Source, moves: _Moves) -> _Move | None:
    """The merge of a source, if it was merged."""
    name, number = source
    found = moves.get(name, ())[number : number + 1] if number >= 0 else ()
    return found[0] if found and found[0].target else None


def _path(source: _Source, moves: _Moves) -> tuple[list[_Merge], _Source]:
    """The merges of a source, in order, and where it is then; merges in a circle end where the circle closes."""
    path: list[_Merge] = []
    seen: set[_Source] = set()
    while source not in seen and (move := _next(source, moves)):
        seen.add(source)
        path.append((*source, move.target))
        generation = len(moves.get(move.target, ())) if move.generation is None else move.generation
        source = move.target, generation
    return path, source


def _place(source: _Source, moves: _Moves, known: Container[str]) -> str:
    """The topic where a source is now; of topics that were merged into each other at once, one that exists."""
    waiting, tried, places = [source], {source}, list[str]()
    while waiting:
        path, end = _path(waiting.pop(), moves)
        circle = next((path[start:] for start, merge in enumerate(path) if merge[:2] == end), [])
        onward = {(name, number + 1) for name, number, _ in circle} - tried
        tried |= onward
        waiting += onward
        places += [] if circle else [end[0]]
    return min(places, key=lambda name: (name not in known, name), default=source[0])
