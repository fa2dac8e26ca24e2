"""`mind blocks`: the core memory that is part of every prompt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.inputs import argument, flag, option
from sense_memory.interfaces.cli.mind.group import TEXT, SetLimitOption, group
from sense_memory.interfaces.cli.operations import (
    FromStdin,
    Write,
    as_sentence,
    as_table,
    as_text,
    deletion,
    operation,
)
from sense_memory.interfaces.text import age, safe


if TYPE_CHECKING:
    from sense_memory.mind.blocks import Block
    from sense_memory.store import MemoryStore

LabelArgument = Annotated[str, argument("LABEL", "The block, such as persona or human.")]

blocks = group(
    "blocks",
    "Read and change blocks, the core memory that is part of every prompt.\n\nThe blocks persona and human always exist. A "
    "block has up to 20,000 characters. An agent's tools cannot change a read-only block; `set` can.",
    "sense-memory mind blocks list",
    'sense-memory mind blocks append human "Prefers short answers."',
)


def _size(block: Block) -> str:
    return f"{len(block.value):,} of {block.limit:,} characters"


_LIST = as_table(
    ("label", "chars", "value"),
    lambda block, _: (block.label, f"{len(block.value)}/{block.limit}", block.value),
    none="",
)
_VERSIONS = as_table(
    ("version", "age", "value"),
    lambda block, now: (str(block.version), age(block.updated_at or now, now), block.value),
    none="There are no versions of a block {label!r} here.",
)
_CHANGED = as_sentence(lambda block: f"{block.label} is at version {block.version}: {_size(block)}")

_reads = partial(operation, blocks)
_changes = partial(operation, blocks, shows=_CHANGED, writes=True)


def _show_blocks(found: list[Block], given: Any) -> None:
    if given.compiled:
        from sense_memory.mind.blocks import compile_blocks

        typer.echo(safe(compile_blocks(found)))
    else:
        _LIST(found, given)


@_reads("list", "sense-memory mind blocks list", shows=_show_blocks)
async def list_blocks(
    store: MemoryStore,
    *,
    compiled: Annotated[bool, flag("--compiled", text="As `mind blocks compile`.", hidden=True)] = False,  # noqa: ARG001 - how it is shown
) -> list[Block]:
    """List the blocks."""
    return await store.mind.blocks.all()


@operation(
    blocks,
    "compile",
    "sense-memory mind blocks compile > prompt.xml",
    json=lambda text: {"text": text},
    shows=as_text(str),
)
async def compile_all(store: MemoryStore) -> str:
    """Print the blocks as XML for a system prompt."""
    return await store.mind.blocks.compile()


@_reads(
    "show",
    "sense-memory mind blocks show human",
    codes={2: "there is no such block"},
    shows=as_text(lambda block: block.value),
)
async def show_block(store: MemoryStore, label: LabelArgument) -> Block:
    """Print the text of a block."""
    return await store.mind.blocks.get(label)


@_changes(
    "set",
    'sense-memory mind blocks set persona "I am a patient baker."',
    "sense-memory mind blocks set persona --read-only",
)
async def set_block(
    store: MemoryStore,
    label: LabelArgument,
    text: Annotated[str | None, TEXT, FromStdin("text", unless=("description", "read_only"))] = None,
    *,
    description: Annotated[str | None, option("TEXT", "What the block is for.")] = None,
    read_only: Annotated[
        bool | None, option("", "Whether an agent's tools may change the block.", "--read-only/--writable")
    ] = None,
) -> Block:
    """Set the text or the description of a block, or make it read-only or writable."""
    return await store.mind.blocks.update(label, value=text, description=description, read_only=read_only)


@_changes("append", 'sense-memory mind blocks append human "Lives in Lisbon."')
async def append_block(
    store: MemoryStore,
    label: LabelArgument,
    text: Annotated[str, TEXT, FromStdin("line")] = "-",
    *,
    line: Annotated[int, option("N", "Insert after line N; 0 is the beginning, -1 the end.", min=-1)] = -1,
) -> Block:
    """Add a line to a block, at the end or after line N."""
    return await store.mind.blocks.memory_insert(label, text, line)


@_changes("replace", 'sense-memory mind blocks replace human "Lives in Porto." "Lives in Lisbon."')
async def replace_block(
    store: MemoryStore,
    label: LabelArgument,
    old: Annotated[str, argument("OLD", "The old text; it must occur exactly once.")],
    new: Annotated[str, argument("NEW", 'The new text; "" removes the old text.')],
) -> Block:
    """Replace some text within a block."""
    return await store.mind.blocks.memory_replace(label, old, new)


@_changes("create", 'sense-memory mind blocks create style "Short sentences."')
async def create_block(
    store: MemoryStore,
    label: LabelArgument,
    text: Annotated[str, argument("TEXT", "The first text.")] = "",
    *,
    description: Annotated[str, option("TEXT", "What the block is for.")] = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=20_000, help="The most characters that the block may have.")
    ] = 20_000,
) -> Block:
    """Add a block."""
    return await store.mind.blocks.create(label, text, description=description, limit=limit)


@_reads("history", "sense-memory mind blocks history human", shows=_VERSIONS)
async def block_history(
    store: MemoryStore, label: LabelArgument, *, limit: SetLimitOption = 20
) -> list[Block]:
    """Show the versions of a block in this ledger, newest first."""
    return (await store.mind.blocks.history(label))[:limit]


@operation(blocks, "delete", "sense-memory mind blocks delete style", writes=True, creates=False)
async def delete_block(store: MemoryStore, label: LabelArgument) -> Write:
    """Delete a block here, and ask relays to delete it. The blocks persona and human become empty."""
    return deletion(await store.mind.blocks.delete(label), f"{label} is deleted", deleted=label)
