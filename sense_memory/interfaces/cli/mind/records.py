"""`mind blocks`, `archive`, `topics`, `identity` and `objectives`: what somebody wrote into the mind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli import inputs
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, flag
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.mind.group import (
    SetLimitOption,
    commands,
    deliver,
    done,
    group,
    only,
    show,
)
from sense_memory.interfaces.cli.program import ends
from sense_memory.interfaces.cli.text import age, as_json, iso, safe


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.mind.archive import Passage
    from sense_memory.mind.blocks import Block, Blocks
    from sense_memory.mind.identity import AgentIdentity, Objective
    from sense_memory.mind.topics import Topic, TopicProposal
    from sense_memory.store import MemoryStore

LabelArgument = Annotated[
    str,
    typer.Argument(metavar="LABEL", show_default=False, help="The block, such as persona or human."),
]
TextArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        show_default=False,
        help="The text. If missing or `-`, all of stdin without the line break at its end.",
    ),
]

# ── Blocks ──────────────────────────────────────────────────────────────────────────────

blocks = group(
    "blocks",
    "Read and change blocks, the core memory that stands in every prompt.\n\nThe blocks persona and human always exist. A "
    "block holds up to 20,000 characters. Tools of an agent cannot change a read-only block; `set` can.",
    "sense-memory mind blocks list",
    'sense-memory mind blocks append human "Prefers short answers."',
)


def _block_data(block: Block) -> dict[str, Any]:
    return {
        "label": block.label,
        "description": block.description,
        "value": block.value,
        "limit": block.limit,
        "read_only": block.read_only,
        "version": block.version,
        "updated_at": iso(block.updated_at),
    }


@blocks.command("list", epilog=ends("sense-memory mind blocks list"))
def list_blocks(
    context: typer.Context,
    *,
    compiled: Annotated[
        bool, flag("--compiled", text="Print the blocks as XML for a system prompt.")
    ] = False,
    _json: JsonOption = False,
) -> None:
    """List the blocks."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Block]:
        return await store.mind.blocks.all()

    found = invocation.run(work)
    if compiled and not invocation.as_json:
        from sense_memory.mind.blocks import compile_blocks

        typer.echo(safe(compile_blocks(found)))
        return
    rows = [(block.label, f"{len(block.value)}/{block.limit}", block.value) for block in found]
    show(invocation, [_block_data(block) for block in found], ("label", "chars", "value"), rows, none="")


@blocks.command(
    "show", epilog=ends("sense-memory mind blocks show human", codes={2: "there is no such block"})
)
def show_block(context: typer.Context, label: LabelArgument, _json: JsonOption = False) -> None:
    """Print the text of a block."""
    invocation = of(context)

    async def work(store: MemoryStore) -> Block:
        return await store.mind.blocks.get(label)

    block = invocation.run(work)
    typer.echo(as_json(_block_data(block)) if invocation.as_json else safe(block.value))


def _change(context: typer.Context, wait: float, change: Callable[[Blocks], Awaitable[Block]]) -> None:
    invocation = of(context)

    async def work(store: MemoryStore) -> Block:
        block = await change(store.mind.blocks)
        await deliver(store, wait)
        return block

    block = invocation.run(work, creates=True)
    size = f"{len(block.value):,} of {block.limit:,} characters"
    done(invocation, _block_data(block), f"{block.label} is at version {block.version}: {size}")


@blocks.command(
    "set",
    epilog=ends(
        'sense-memory mind blocks set persona "I am a patient baker."',
        "sense-memory mind blocks set persona --read-only",
    ),
)
def set_block(
    context: typer.Context,
    label: LabelArgument,
    text: TextArgument = None,
    *,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the block is for.", show_default=False)
    ] = None,
    read_only: Annotated[
        bool | None,
        typer.Option(
            "--read-only/--writable",
            help="Whether tools of an agent may not change it.",
            show_default=False,
            metavar="",
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Replace the whole text of a block, or its description, or whether it is read-only."""
    value = text
    if text == "-" or (text is None and description is None and read_only is None):
        value = inputs.text_or_stdin(text, "text", is_lines=True)

    async def change(found: Blocks) -> Block:
        return await found.update(label, value=value, description=description, read_only=read_only)

    _change(context, wait, change)


@blocks.command("append", epilog=ends('sense-memory mind blocks append human "Lives in Lisbon."'))
def append_block(
    context: typer.Context,
    label: LabelArgument,
    text: TextArgument = None,
    *,
    line: Annotated[
        int,
        typer.Option(metavar="N", min=-1, help="Insert after N lines; -1 is the end.", show_default=False),
    ] = -1,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a line to a block, at its end or after a line."""
    content = inputs.text_or_stdin(text, "line", is_lines=True)
    _change(context, wait, lambda found: found.memory_insert(label, content, line))


@blocks.command(
    "replace", epilog=ends('sense-memory mind blocks replace human "Lives in Porto." "Lives in Lisbon."')
)
def replace_block(
    context: typer.Context,
    label: LabelArgument,
    old: Annotated[
        str, typer.Argument(metavar="OLD", show_default=False, help="Text that occurs exactly once.")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", show_default=False, help='The new text; "" removes the old one.')
    ],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Replace some text within a block."""
    _change(context, wait, lambda found: found.memory_replace(label, old, new))


@blocks.command(
    "create",
    epilog=ends('sense-memory mind blocks create style "Short sentences."'),
)
def create_block(
    context: typer.Context,
    label: LabelArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="The first text.")] = "",
    *,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="What the block is for.", show_default=False)
    ] = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=20_000, help="Most characters of its text.")
    ] = 20_000,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a block."""
    _change(context, wait, lambda found: found.create(label, text, description=description, limit=limit))


@blocks.command("history", epilog=ends("sense-memory mind blocks history human"))
def block_history(
    context: typer.Context, label: LabelArgument, *, limit: SetLimitOption = 20, _json: JsonOption = False
) -> None:
    """Show the versions of a block that this ledger keeps, newest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Block]:
        return (await store.mind.blocks.history(label))[:limit]

    found, now = invocation.run(work), time.time()
    rows = [(str(block.version), age(block.updated_at or now, now), block.value) for block in found]
    data = [_block_data(block) for block in found]
    show(invocation, data, ("version", "age", "value"), rows, none="The block was never written.")


@blocks.command("delete", epilog=ends("sense-memory mind blocks delete style"))
def delete_block(
    context: typer.Context,
    label: LabelArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Delete a block, here and on relays. The blocks persona and human become empty."""
    invocation = of(context)

    async def work(store: MemoryStore) -> None:
        await store.mind.blocks.delete(label)
        await deliver(store, wait)

    invocation.run(work)
    done(invocation, {"deleted": label}, f"{label} is deleted here, deletion requested")


# ── Archive ─────────────────────────────────────────────────────────────────────────────

archive = group(
    "archive",
    "Keep passages to look up later, with tags. `mind search` finds them.",
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
    tag: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A tag. May be repeated.", show_default=False)
    ] = None,
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="Where the passage comes from.", show_default=False)
    ] = "",
    classify: Annotated[
        bool, flag("--classify", text="Find its topics, and bring their summaries up to date.")
    ] = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Keep a passage."""
    content = inputs.text_or_stdin(text, "passage", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> Passage:
        mind = store.mind
        topics = await mind.topics.classify(content, title) if classify else ()
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
    tag: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only passages with this tag.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only passages of this topic.", show_default=False)
    ] = None,
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
    show(invocation, data, ("id", "age", "tags, topics", "content"), rows, none="There are no such passages.")


@archive.command(
    epilog=ends("sense-memory mind archive forget 3f2a90c1", codes={4: "no passage has that id"})
)
def forget(
    context: typer.Context,
    ident: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The id, or its beginning.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Forget a passage, here and on relays."""
    invocation = of(context)

    async def work(store: MemoryStore) -> str:
        known = [passage.id for passage in await store.mind.archive.all()]
        found = only(ident, known, "passages")
        await store.mind.archive.delete(found)
        await deliver(store, wait)
        return found

    found = invocation.run(work)
    done(invocation, {"forgotten": found}, f"passage {found} is forgotten here, deletion requested")


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


@commands.command(epilog=ends("sense-memory mind topics"))
def topics(context: typer.Context, _json: JsonOption = False) -> None:
    """List the topics of the archive with their summaries, and what could be merged or split."""
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[Topic], list[TopicProposal]]:
        return await store.mind.topics.all(), await store.mind.topics.proposals()

    found, proposals = invocation.run(work)
    rows = [(topic.name, str(topic.passages), topic.summary) for topic in found]
    data = [_topic_data(topic, proposals) for topic in found]
    none = "There are no topics yet. Begin with: sense-memory mind archive add TEXT --classify"
    show(invocation, data, ("topic", "passages", "summary"), rows, none=none)
    if not invocation.as_json:
        for one in proposals:
            typer.echo(safe(f"{one.kind} {', '.join(one.topics)}? {one.reason}"), err=True)


# ── Identity and objectives ─────────────────────────────────────────────────────────────

identity = group(
    "identity",
    "Read the identity of the agent, or distil it anew from its topics and objectives.",
    "sense-memory mind identity show",
)


def _identity_data(found: AgentIdentity) -> dict[str, Any]:
    return {
        "themes": found.themes,
        "roles": list(found.roles),
        "objectives": list(found.objectives),
        "values": list(found.values),
        "tensions": list(found.tensions),
        "recent_reflections": list(found.recent_reflections),
        "covered": found.covered,
        "is_by_rule": found.is_by_rule,
        "at": iso(found.at),
    }


def _tell_identity(context: typer.Context, found: AgentIdentity) -> None:
    invocation = of(context)
    if invocation.as_json:
        typer.echo(as_json(_identity_data(found)))
    elif found.at is None:
        typer.echo(
            "There is no identity yet. Keep some thoughts, then: sense-memory mind identity refresh", err=True
        )
    else:
        values = (f"I value {value}." for value in found.values)
        typer.echo(safe("\n".join((*found.lines(), *values)) or "The topics say nothing of it yet."))


@identity.command("show", epilog=ends("sense-memory mind identity show"))
def show_identity(context: typer.Context, _json: JsonOption = False) -> None:
    """Print the identity as it was last distilled."""

    async def work(store: MemoryStore) -> AgentIdentity:
        return await store.mind.identity.get()

    _tell_identity(context, of(context).run(work))


@identity.command("refresh", epilog=ends("sense-memory mind identity refresh"))
def refresh_identity(
    context: typer.Context, *, wait: WaitOption = WAIT_SECONDS, _json: JsonOption = False
) -> None:
    """Distil the identity anew from all topics, and print it. The identity before stays in the history."""

    async def work(store: MemoryStore) -> AgentIdentity:
        found = await store.mind.identity.refresh_identity_kernel()
        await deliver(store, wait)
        return found

    _tell_identity(context, of(context).run(work, creates=True))


@identity.command("history", epilog=ends("sense-memory mind identity history"))
def identity_history(context: typer.Context, _json: JsonOption = False) -> None:
    """Show the identities that this ledger keeps, newest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[AgentIdentity]:
        return await store.mind.identity.history()

    found, now = invocation.run(work), time.time()
    rows = [(age(item.at or now, now), str(item.covered), item.themes) for item in found]
    data = [_identity_data(item) for item in found]
    show(invocation, data, ("age", "thoughts", "themes"), rows, none="There is no identity yet.")


objectives = group(
    "objectives",
    "Set and end the objectives of the agent.",
    'sense-memory mind objectives add "Finish the portrait" --priority 1',
)


def _objective_data(found: Objective) -> dict[str, Any]:
    return {
        "id": found.id,
        "text": found.text,
        "priority": found.priority,
        "status": found.status,
        "at": iso(found.at),
    }


@objectives.command("add", epilog=ends('sense-memory mind objectives add "Finish the portrait"'))
def add_objective(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="The goal.")],
    *,
    priority: Annotated[int, typer.Option(metavar="N", min=1, max=9, help="From 1, the highest, to 9.")] = 3,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add an objective."""
    invocation = of(context)

    async def work(store: MemoryStore) -> Objective:
        found = await store.mind.identity.set_objective(text, priority=priority)
        await deliver(store, wait)
        return found

    found = invocation.run(work, creates=True)
    done(invocation, _objective_data(found), f"added as objective {found.id}")


@objectives.command(
    "list", epilog=ends("sense-memory mind objectives list", "sense-memory mind objectives list --all")
)
def list_objectives(
    context: typer.Context,
    *,
    everything: Annotated[bool, flag("--all", text="Those that are done or dropped too.")] = False,
    _json: JsonOption = False,
) -> None:
    """List the objectives by priority."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Objective]:
        return await store.mind.identity.objectives(status=None if everything else "active")

    found = invocation.run(work)
    rows = [(item.id, str(item.priority), item.status, item.text) for item in found]
    data = [_objective_data(item) for item in found]
    show(invocation, data, ("id", "priority", "status", "text"), rows, none="There are no objectives.")


@objectives.command(
    "done", epilog=ends("sense-memory mind objectives done 3f2a90c1", codes={4: "no objective has that id"})
)
def end_objective(
    context: typer.Context,
    ident: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The id, or its beginning.")],
    *,
    dropped: Annotated[bool, flag("--dropped", text="It was given up, not reached.")] = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """End an objective."""
    invocation = of(context)

    async def work(store: MemoryStore) -> Objective:
        known = [item.id for item in await store.mind.identity.objectives(status=None)]
        found = only(ident, known, "objectives")
        status = "dropped" if dropped else "done"
        changed = await store.mind.identity.change_objective(found, status=status)
        await deliver(store, wait)
        return changed

    found = invocation.run(work)
    done(invocation, _objective_data(found), f"{found.status}: {found.text}")
