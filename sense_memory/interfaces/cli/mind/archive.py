"""`mind archive` and `mind topics`: passages to look up later, and the topics that group them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, argument, flag, option
from sense_memory.interfaces.cli.invocation import of, program
from sense_memory.interfaces.cli.mind.group import (
    IdArgument,
    OnlyTopicOption,
    SetLimitOption,
    TextArgument,
    commands,
    deliver,
    done,
    group,
    only,
    show,
)
from sense_memory.interfaces.text import age, iso, quantity, safe


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


def _passage_data(passage: Passage) -> dict[str, Any]:
    return {
        "id": passage.id,
        "content": passage.content,
        "tags": list(passage.tags),
        "topics": list(passage.topics),
        "title": passage.title or None,
        "source": passage.source or None,
        "at": iso(passage.at),
    }


@archive.command("add", epilog=ends('sense-memory mind archive add "The kiln is broken." --tag workshop'))
def add_passage(
    context: typer.Context,
    *,
    text: TextArgument = None,
    tag: Annotated[list[str] | None, option("WORD", "A tag. May be repeated.")] = None,
    title: Annotated[str, option("TEXT", "The title or the source of the passage.")] = "",
    classify: Annotated[
        bool, flag("--classify", text="Find the topics of the passage, and update their summaries.")
    ] = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a passage."""
    content = inputs.text_or_stdin(text, "passage", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> Passage:
        from sense_memory.mind.layers.topics import subject_name  # slow to import

        mind = store.mind
        topics = await mind.topics.classify(content, title) if classify else ()
        if (
            classify and not topics and (name := subject_name(content))
        ):  # asked for: a topic may begin with one passage
            topics = (name,)
        passage = await mind.archive.insert(content, tag or (), topics=topics, title=title)
        for name in topics:
            await mind.topics.update_topic_summary(name, content, last=passage.id)
        await deliver(store, wait)
        return passage

    passage = invocation.run(work, creates=True)
    about = f", topics {', '.join(passage.topics)}" if passage.topics else ""
    done(invocation, _passage_data(passage), f"kept as passage {passage.id}{about}")


@archive.command(
    "list", epilog=ends("sense-memory mind archive list", "sense-memory mind archive list --tag art")
)
def list_passages(
    context: typer.Context,
    *,
    tag: Annotated[str | None, option("WORD", "Only passages with this tag.")] = None,
    topic: OnlyTopicOption = None,
    limit: SetLimitOption = 20,
    _json: JsonOption = False,
) -> None:
    """List the newest passages, newest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Passage]:
        found = await store.mind.archive.all()
        return [
            passage
            for passage in reversed(found)
            if (tag is None or tag in passage.tags) and (topic is None or topic in passage.topics)
        ][:limit]

    found, now = invocation.run(work), time.time()
    rows = [
        (item.id, age(item.at, now), ", ".join((*item.tags, *item.topics)), item.content) for item in found
    ]
    data = [_passage_data(item) for item in found]
    none = "There are no passages." if tag is None and topic is None else "There are no such passages."
    show(invocation, data, ("id", "age", "tags, topics", "content"), rows, none=none)


@archive.command(
    epilog=ends("sense-memory mind archive forget 3f2a90c1", codes={4: "no passage has that id"})
)
def forget(
    context: typer.Context,
    ident: IdArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Forget a passage here, and ask relays to delete it."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[str, delivery.Written]:
        known = [passage.id for passage in await store.mind.archive.all()]
        found = only(ident, known, "passage")
        return found, await delivery.send(store, [await store.mind.archive.delete(found)], wait)

    found, written = invocation.run(work)
    delivery.report_deletion(invocation, written, f"passage {found} is forgotten", {"forgotten": found})


# ── Topics ──────────────────────────────────────────────────────────────────────────────


def _topic_data(topic: Topic, proposals: list[TopicProposal]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "summary": topic.summary,
        "passages": topic.passages,
        "covered": topic.covered,
        "is_by_rule": topic.is_by_rule,
        "proposals": [f"{one.kind}: {one.reason}" for one in proposals if topic.name in one.topics],
    }


topics = commands.group("topics", epilog=ends("sense-memory mind topics"))


@topics.callback(invoke_without_command=True)
def list_topics(context: typer.Context, _json: JsonOption = False) -> None:
    """List the topics of the archive with their summaries, and suggest which to merge or split; or merge topics."""
    if context.invoked_subcommand is not None:
        return
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[Topic], list[TopicProposal]]:
        return await store.mind.topics.all(), await store.mind.topics.proposals()

    found, proposals = invocation.run(work)
    rows = [(topic.name, str(topic.passages), topic.summary) for topic in found]
    data = [_topic_data(topic, proposals) for topic in found]
    none = f"There are no topics yet. Begin with: {program()} mind archive add TEXT --classify"
    show(invocation, data, ("topic", "passages", "summary"), rows, none=none)
    if not invocation.as_json:
        for one in proposals:
            typer.echo(safe(f"{one.kind} {', '.join(one.topics)}? {one.reason}"), err=True)


@topics.command("list", hidden=True)
def list_them(context: typer.Context, _json: JsonOption = False) -> None:
    """As `mind topics`: other groups have a `list` too."""
    list_topics(context)


@topics.command(
    epilog=ends(
        'sense-memory mind archive add "Lisa paints with oil on wood." --classify',
        "sense-memory mind topics merge lisa --into painting",
        codes={2: "none of these topics exists; nothing was changed"},
    )
)
def merge(
    context: typer.Context,
    names: Annotated[list[str], argument("TOPIC...", "The topics to merge.")],
    *,
    into: Annotated[str, option("TOPIC", "The name of the merged topic: one of them, or a new name.")],
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Merge topics: their passages and summaries become those of one topic."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[Topic, list[TopicProposal]]:
        topic = await store.mind.topics.merge(names, into)
        await deliver(store, wait)
        return topic, await store.mind.topics.proposals()

    topic, proposals = invocation.run(work)
    passages = quantity(topic.passages, "passage")
    done(invocation, _topic_data(topic, proposals), f"merged into {topic.name}: {passages}. {topic.summary}")
