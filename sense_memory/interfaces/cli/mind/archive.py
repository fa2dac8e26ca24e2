"""`mind archive` and `mind topics`: passages to look up later, and the topics that group them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import argument, flag, option
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.mind.group import (
    TEXT,
    IdArgument,
    OnlyTopicOption,
    SetLimitOption,
    group,
    only,
)
from sense_memory.interfaces.cli.operations import (
    FromStdin,
    Write,
    as_sentence,
    as_table,
    deletion,
    operation,
)
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import age, quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.layers.archive import Passage
    from sense_memory.mind.layers.topics import Topic, TopicProposal
    from sense_memory.store import MemoryStore

# ── Archive ─────────────────────────────────────────────────────────────────────────────

archive = group(
    "archive",
    "Add, list and forget passages to look up later. `mind search` finds them.",
    'sense-memory mind archive add "Lisa paints with oil on wood." --tag art',
    "sense-memory mind archive list",
)


_LIST = as_table(
    ("id", "age", "tags, topics", "content"),
    lambda item, now: (item.id, age(item.at, now), ", ".join((*item.tags, *item.topics)), item.content),
    none="There are no {such}passages.",
)
_KEPT = as_sentence(
    lambda passage: (
        f"kept as passage {passage.id}" + (f", topics {', '.join(passage.topics)}" if passage.topics else "")
    )
)


def _show_passages(found: list[Passage], given: Any) -> None:
    given.such = "" if given.tag is None and given.topic is None else "such "
    _LIST(found, given)


@operation(
    archive,
    "add",
    'sense-memory mind archive add "The kiln is broken." --tag workshop',
    writes=True,
    shows=_KEPT,
)
async def add_passage(
    store: MemoryStore,
    *,
    text: Annotated[str, TEXT, FromStdin("passage")] = "-",
    tag: Annotated[list[str] | None, option("WORD", "A tag. May be repeated.")] = None,
    title: Annotated[str, option("TEXT", "The title or the source of the passage.")] = "",
    classify: Annotated[
        bool, flag("--classify", text="Find the topics of the passage, and update their summaries.")
    ] = False,
) -> Passage:
    """Add a passage."""
    from sense_memory.mind.layers.topics import subject_name  # slow to import

    mind = store.mind
    topics = await mind.topics.classify(text, title) if classify else ()
    if (
        classify and not topics and (name := subject_name(text))
    ):  # asked for: a topic may begin with one passage
        topics = (name,)
    passage = await mind.archive.insert(text, tag or (), topics=topics, title=title)
    for name in topics:
        await mind.topics.update_topic_summary(name, text, last=passage.id)
    return passage


@operation(
    archive,
    "list",
    "sense-memory mind archive list",
    "sense-memory mind archive list --tag art",
    shows=_show_passages,
)
async def list_passages(
    store: MemoryStore,
    *,
    tag: Annotated[str | None, option("WORD", "Only passages with this tag.")] = None,
    topic: OnlyTopicOption = None,
    limit: SetLimitOption = 20,
) -> list[Passage]:
    """List the newest passages, newest first."""
    return [
        passage
        for passage in reversed(await store.mind.archive.all())
        if (tag is None or tag in passage.tags) and (topic is None or topic in passage.topics)
    ][:limit]


@operation(
    archive,
    "forget",
    "sense-memory mind archive forget 3f2a90c1",
    codes={4: "no passage has that id"},
    writes=True,
    creates=False,
)
async def forget(store: MemoryStore, ident: IdArgument) -> Write:
    """Forget a passage here, and ask relays to delete it."""
    found = only(ident, [passage.id for passage in await store.mind.archive.all()], "passage")
    return deletion(await store.mind.archive.delete(found), f"passage {found} is forgotten", forgotten=found)


# ── Topics ──────────────────────────────────────────────────────────────────────────────

topics = commands.group("topics", epilog=ends("sense-memory mind topics"))


@dataclass(frozen=True, slots=True)
class _Topics:
    """Topics, and suggestions which of all topics to merge or split."""

    topics: list[Topic]
    proposals: list[TopicProposal]

    def data(self) -> list[dict[str, Any]]:
        return [
            {
                **shape_of(topic),
                "proposals": [
                    f"{one.kind}: {one.reason}" for one in self.proposals if topic.name in one.topics
                ],
            }
            for topic in self.topics
        ]


_TOPICS = as_table(
    ("topic", "passages", "summary"),
    lambda topic, _: (topic.name, str(topic.passages), topic.summary),
    none="There are no topics yet. Begin with: {program} mind archive add TEXT --classify",
)


def _show_topics(found: _Topics, given: Any) -> None:
    _TOPICS(found.topics, given)
    for one in found.proposals:
        typer.echo(safe(f"{one.kind} {', '.join(one.topics)}? {one.reason}"), err=True)


def _merged(found: _Topics) -> str:
    [topic] = found.topics
    return f"merged into {topic.name}: {quantity(topic.passages, 'passage')}. {topic.summary}"


@operation(topics, "", json=_Topics.data, shows=_show_topics)
async def list_topics(store: MemoryStore) -> _Topics:
    """List the topics of the archive with their summaries, and suggest which to merge or split; or merge topics."""
    return _Topics(await store.mind.topics.all(), await store.mind.topics.proposals())


@operation(topics, "list", json=_Topics.data, shows=_show_topics, hidden=True)
async def list_them(store: MemoryStore) -> _Topics:
    """As `mind topics`: other groups have a `list` too."""
    return await list_topics(store)


@operation(
    topics,
    "merge",
    'sense-memory mind archive add "Lisa paints with oil on wood." --classify',
    "sense-memory mind topics merge lisa --into painting",
    codes={2: "none of these topics exists; nothing was changed"},
    writes=True,
    creates=False,
    json=lambda found: found.data()[0],
    shows=as_sentence(_merged),
)
async def merge(
    store: MemoryStore,
    names: Annotated[list[str], argument("TOPIC...", "The topics to merge.")],
    *,
    into: Annotated[str, option("TOPIC", "The name of the merged topic: one of them, or a new name.")],
) -> _Topics:
    """Merge topics: their passages and summaries become those of one topic."""
    return _Topics([await store.mind.topics.merge(names, into)], await store.mind.topics.proposals())
