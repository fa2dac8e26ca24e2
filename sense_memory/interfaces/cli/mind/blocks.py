"""`mind blocks`: the core memory that is part of every prompt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, argument, flag, option
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.mind.group import (
    SetLimitOption,
    TextArgument,
    deliver,
    done,
    group,
    show,
)
from sense_memory.interfaces.text import age, as_json, iso, safe


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.mind.blocks import Block, Blocks
    from sense_memory.store import MemoryStore

LabelArgument = Annotated[
    str,
    argument("LABEL", "The block, such as persona or human."),
]

blocks = group(
    "blocks",
    "Read and change blocks, the core memory that is part of every prompt.\n\nThe blocks persona and human always exist. A "
    "block has up to 20,000 characters. An agent's tools cannot change a read-only block; `set` can.",
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
    compiled: Annotated[bool, flag("--compiled", text="As `mind blocks compile`.", hidden=True)] = False,
    _json: JsonOption = False,
) -> None:
    """List the blocks."""
    invocation = of(context)
    if compiled and not invocation.as_json:
        compile_blocks(context)
        return

    async def work(store: MemoryStore) -> list[Block]:
        return await store.mind.blocks.all()

    found = invocation.run(work)
    rows = [(block.label, f"{len(block.value)}/{block.limit}", block.value) for block in found]
    show(invocation, [_block_data(block) for block in found], ("label", "chars", "value"), rows, none="")


@blocks.command("compile", epilog=ends("sense-memory mind blocks compile > prompt.xml"))
def compile_blocks(context: typer.Context, _json: JsonOption = False) -> None:
    """Print the blocks as XML for a system prompt."""
    invocation = of(context)

    async def work(store: MemoryStore) -> str:
        return await store.mind.blocks.compile()

    text = invocation.run(work)
    typer.echo(as_json({"text": text}) if invocation.as_json else safe(text))


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
    description: Annotated[str | None, option("TEXT", "What the block is for.")] = None,
    read_only: Annotated[
        bool | None,
        option("", "Whether an agent's tools may change the block.", "--read-only/--writable"),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Set the text or the description of a block, or make it read-only or writable."""
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
        option("N", "Insert after line N; 0 is the beginning, -1 the end.", min=-1),
    ] = -1,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Add a line to a block, at the end or after line N."""
    content = inputs.text_or_stdin(text, "line", is_lines=True)
    _change(context, wait, lambda found: found.memory_insert(label, content, line))


@blocks.command(
    "replace", epilog=ends('sense-memory mind blocks replace human "Lives in Porto." "Lives in Lisbon."')
)
def replace_block(
    context: typer.Context,
    label: LabelArgument,
    old: Annotated[str, argument("OLD", "The old text; it must occur exactly once.")],
    new: Annotated[str, argument("NEW", 'The new text; "" removes the old text.')],
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
    text: Annotated[str, argument("TEXT", "The first text.")] = "",
    *,
    description: Annotated[str, option("TEXT", "What the block is for.")] = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=20_000, help="The most characters that the block may have.")
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
    """Show the versions of a block in this ledger, newest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Block]:
        return (await store.mind.blocks.history(label))[:limit]

    found, now = invocation.run(work), time.time()
    rows = [(str(block.version), age(block.updated_at or now, now), block.value) for block in found]
    data = [_block_data(block) for block in found]
    show(
        invocation,
        data,
        ("version", "age", "value"),
        rows,
        none=f"There are no versions of a block {label!r} here.",
    )


@blocks.command("delete", epilog=ends("sense-memory mind blocks delete style"))
def delete_block(
    context: typer.Context,
    label: LabelArgument,
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Delete a block here, and ask relays to delete it. The blocks persona and human become empty."""
    invocation = of(context)

    async def work(store: MemoryStore) -> delivery.Written:
        return await delivery.send(store, [await store.mind.blocks.delete(label)], wait)

    written = invocation.run(work)
    delivery.report_deletion(invocation, written, f"{label} is deleted", {"deleted": label})
