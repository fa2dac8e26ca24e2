"""The commands on memories. Writes are durable first and sent second; reads are local."""

from __future__ import annotations

import sys
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import NotSynced
from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.delivery import WAIT_SECONDS, AcksOption, AnywayOption, WaitOption
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, JsonOption, echo_all, note, of, say
from sense_memory.interfaces.cli.json_output import memory_data, name_data
from sense_memory.interfaces.cli.names import (
    ask_relays,
    flat_keys,
    in_palace,
    meant,
    no_flat_memory,
    nothing_forgotten,
    refuse_path,
)
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.cli.text import as_json, as_json_list, iso, one_line, quantity, safe


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.memories.embedding_jobs import Gaps
    from sense_memory.models import Memory
    from sense_memory.store import MemoryStore

KeyArgument = Annotated[
    str,
    typer.Argument(metavar="KEY", show_default=False, help="The memory key: its name, 1 to 256 characters."),
]


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory remember user_timezone America/Vancouver",
        "sense-memory remember notes < notes.md",
        "# Done only when two relays have it:",
        'sense-memory remember plan "Ship on Friday." --require-acks 2',
        "# Many at once, as `list --json` prints them:",
        "sense-memory remember --many memories.json",
        codes={
            3: "kept here, but fewer relays than --require-acks have it",
            130: "interrupted; of many, it says how many are kept",
        },
    ),
)
def remember(
    context: typer.Context,
    *,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY", show_default=False, help="The memory key: its name, 1 to 256 characters."
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE", show_default=False, help="The text. Missing or `-`: all of stdin, as it is."
        ),
    ] = None,
    many: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Many at once: JSON lines with key and value, a list of such, or one object. `-` is stdin.",
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Keep a value under a memory key, in place of the one before.

    Kept means durable in the local ledger. Relays then get a few seconds to take it; what they have not got by
    then is queued, and sent by the next command that talks to them. The value before stays in `history`. What is
    kept here word for word already is not written again. A value that begins with a dash needs `--` before it.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    if many is not None:
        if key is not None:
            context.fail("--many takes the memory keys from the file; give no KEY with it")
        _remember_many(context, inputs.pairs(many), wait, require_acks)
        return
    if key is None:
        context.fail("give a KEY, the name of the memory, or a file with --many")
    text = inputs.text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, bool]:
        news = await inputs.news(store, [(key, text)])
        ids = news.ids(await store.remember_many(news.pairs))
        return await delivery.send(store, ids, wait), not news.pairs

    written, unchanged = invocation.run(work, creates=True)
    result = {**name_data(key), "event_id": written.ids[0], "unchanged": unchanged}
    delivery.end(invocation, written, "unchanged" if unchanged else "kept", result, require_acks)


def _remember_many(
    context: typer.Context, pairs: list[tuple[str, str]], wait: float, require_acks: int
) -> None:
    from sense_memory.interfaces.cli.tables import progress

    invocation = of(context)
    kept, total = 0, len(pairs)
    same = 0

    async def work(store: MemoryStore) -> delivery.Written:
        nonlocal total, same
        news = await inputs.news(store, pairs)
        total, same = len(news.pairs), len(news.places) - len(news.pairs)
        with progress("keeping", total) as advance:

            def count(written: int) -> None:
                nonlocal kept
                kept = written
                advance(written)

            ids = news.ids(await store.remember_many(news.pairs, progress=count))
        return await delivery.send(store, ids, wait)

    try:
        written = invocation.run(work, creates=True)
    except KeyboardInterrupt:
        some = f"the first {kept:,} of {quantity(total, 'memory', 'memories')} are kept and will be sent"
        say("interrupted", f"{some}; the rest was not written")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    done = f"{quantity(total, 'memory', 'memories')} kept" + (f", {same:,} unchanged" if same else "")
    if again := len(pairs) - len(written.ids):
        done += f", {quantity(again, 'earlier value')} of a key that comes again left out"
    result = {"count": len(written.ids), "unchanged": same, "event_ids": list(written.ids)}
    delivery.end(invocation, written, done, result, require_acks)


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory recall user_timezone",
        "sense-memory recall notes > notes.md",
        "sense-memory recall user_timezone --json",
        codes={1: "an error, such as: it is not here, and no relay could be asked", 4: "no such memory"},
    ),
)
def recall(context: typer.Context, key: KeyArgument, _json: JsonOption = False) -> None:
    """Print the value under a memory key, from the local ledger.

    In a pipe the value comes out byte for byte and nothing else; a terminal gets it with everything unseen
    escaped. Relays are asked only where the ledger has nothing and none of them was ever asked.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> Memory:
        await refuse_path(store, key, "palace recall")
        try:
            memory = await store.recall(key)
        except NotSynced as error:
            raise await in_palace(store, key, "palace recall") or error from None
        if memory is None:
            raise await no_flat_memory(store, key, "palace recall")
        return memory

    show_memory(invocation, invocation.run(work))


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory forget user_timezone",
        "# Write it down, and leave the relays for later:",
        "sense-memory forget user_timezone --wait 0",
        codes={
            3: "forgotten here, but fewer relays than --require-acks took the deletion",
            4: "nothing is kept under that key, here or on any relay; nothing was written",
        },
    ),
)
def forget(
    context: typer.Context,
    *,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", show_default=False, help="The memory keys: one or several."),
    ],
    anyway: AnywayOption = False,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Purge memories here, for good, and ask every relay to delete them.

    Where nothing is kept under a key here, relays are asked for it first. If all of them answer and none has it,
    nothing at all is written; if one cannot be asked, or with --anyway, the deletion is requested all the same. Nobody
    can promise that every copy is gone.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[delivery.Forgotten]]:
        names, unsure = list(dict.fromkeys(keys)), ""
        unknown = {key for key in names if not await _is_here(store, key)}
        if unknown and not anyway:
            unsure = await ask_relays(store, wait)
            absent = [key for key in names if key in unknown and not await _is_here(store, key)]
            for key in absent:
                if not unsure or await in_palace(store, key, "palace forget"):
                    stop = await no_flat_memory(store, key, "palace forget")
                    raise nothing_forgotten(stop, absent, names)
            for key in absent:
                note(f"{key!r} is not here{meant(key, await flat_keys(store))}")
            unknown = set(absent)
        ids = await store.forget_many(names)
        forgotten = [
            delivery.Forgotten(name_data(key), ident, unsure if key in unknown else None)
            for key, ident in zip(names, ids, strict=True)
        ]
        return await delivery.send(store, list(dict.fromkeys(ids)), wait), forgotten

    written, forgotten = invocation.run(work, creates=True)
    delivery.end_forgetting(invocation, written, forgotten, require_acks)


async def _is_here(store: MemoryStore, key: str) -> bool:
    """Whether the ledger has something to forget under a key: a memory, or a draft of one. No relay is asked."""
    await refuse_path(store, key, "palace forget")
    there = await store.recall_many([key])
    return bool(there) or any(draft.key == key for draft in await store.drafts())


@app.command(
    "list",
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory list",
        "# Everything, for `remember --many` elsewhere:",
        "sense-memory list --json > memories.json",
    ),
)
def list_memories(context: typer.Context, _json: JsonOption = False) -> None:
    """List all memories under plain keys with their ages and values.

    The number of memories in the palace is printed on stderr; `palace list` shows them. On a terminal a value is cut
    to the width. In a pipe there is one line each: key, time and whole value, with tabs between them.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[Memory], int]:
        found = await store.recall_all()
        warn_if_incomplete(store)
        counts = store.status().counts
        return found, counts["heads"] - counts["entries"] - len(found)

    memories, others = invocation.run(work)
    show_memories(invocation, memories, none="There are no memories under plain keys.")
    if others > 0 and not invocation.as_json:
        count = quantity(others, "memory", "memories")
        note(f"{count} in the palace: sense-memory palace list")


# ── StateChoice by other commands too ─────────────────────────────────────────────────────────


def show_memory(invocation: Invocation, memory: Memory) -> None:
    """One memory: as JSON, escaped for a terminal, or byte for byte in a pipe."""
    if invocation.as_json:
        typer.echo(as_json(memory_data(memory)))
    elif sys.stdout.isatty():
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    else:
        typer.echo(memory.value.encode(), nl=False)


def show_memories(invocation: Invocation, memories: Sequence[Memory], *, none: str) -> None:
    """Memories as JSON, as a table for a terminal, or one line each in a pipe; `none` where there is none."""
    if invocation.as_json:
        echo_all(as_json_list(memory_data(memory) for memory in memories), "")
    elif not memories:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_memories

        print_memories(memories, time.time())
    else:
        echo_all(
            f"{one_line(memory.key)}\t{iso(memory.created_at)}\t{one_line(memory.value)}"
            for memory in memories
        )


def warn_if_incomplete(store: MemoryStore) -> None:
    """Say on stderr that a list may lack what relays hold: incomplete is not "everything"."""
    if not store.is_complete():
        note("incomplete: no relay has shown everything yet, so there may be more; run `sense-memory sync`")


def warn_of_gaps(gaps: Gaps) -> None:
    """Say on stderr that memories were searched by words only, although there is an embedder."""
    if gaps.trouble is not None:
        note(f"searched by words only: {gaps.trouble}")
    elif gaps.count:
        count = quantity(gaps.count, "memory was", "memories were")
        note(f"{count} searched by words only, not embedded yet; run `sense-memory embed`")
