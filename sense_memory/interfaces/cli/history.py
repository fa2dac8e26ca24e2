"""The time machine: `history`, `as-of` and `undo`, from the versions that the ledger keeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli import delivery
from sense_memory.interfaces.cli.delivery import WAIT_SECONDS, AcksOption, WaitOption
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.invocation import (
    CommandFailed,
    ExitCode,
    Invocation,
    JsonOption,
    of,
    unknown,
)
from sense_memory.interfaces.cli.json_output import (
    draft_data,
    memory_data,
    name_data,
    palace_data,
    version_data,
)
from sense_memory.interfaces.cli.memories import (
    KeyArgument,
    show_memories,
    show_memory,
    warn_if_incomplete,
)
from sense_memory.interfaces.cli.names import in_palace, no_flat_memory
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.cli.text import age, as_json, local_time, quantity, quoted, safe


if TYPE_CHECKING:
    from sense_memory.interfaces.cli.delivery import Written
    from sense_memory.memories.history import Version
    from sense_memory.memories.status import Status
    from sense_memory.models import Draft, Memory, PersonaMemory
    from sense_memory.store import MemoryStore

WhenArgument = Annotated[
    str,
    typer.Argument(
        metavar="WHEN",
        show_default=False,
        help='A date or time, such as 2027-01-15 or yesterday (the end of that day) or "2027-01-15 08:00", in '
        'local time where it has no offset; or how long ago, such as 3h or "2 days ago".',
    ),
]


PathArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        show_default=False,
        help="The memory key; or DOMAIN/FACET/KEY, for a memory of the palace.",
    ),
]


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory history user_timezone",
        "sense-memory history user_timezone -n 1 --json",
        codes={4: "nothing was ever kept under that key here"},
    ),
)
def history(
    context: typer.Context,
    *,
    key: PathArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="How many versions at most.")
    ] = 20,
    _json: JsonOption = False,
) -> None:
    """Show the versions of a memory, newest first, and what each one changed.

    They are those that this ledger has seen; a relay holds the newest only. Of a forgotten memory nothing is left
    but when it was forgotten.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Version]:
        found = await store.history(key)
        if not found:
            raise await no_flat_memory(store, key, "history")
        return found

    versions = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json([version_data(key, version) for version in versions[:limit]]))
        return
    from sense_memory.interfaces.cli.tables import print_history

    print_history(versions[: limit + 1], time.time(), first_seen=len(versions) <= limit)
    if len(versions) > limit:
        older = quantity(len(versions) - limit, "older version")
        typer.echo(f"{older} not shown; all with --limit {len(versions)}", err=True)


@app.command(
    "as-of",
    rich_help_panel=MEMORIES,
    epilog=ends(
        'sense-memory as-of "2 days ago"',
        "sense-memory as-of 2025-01-15",
        'sense-memory as-of "1 min ago" user_timezone',
        codes={
            1: "an error, such as: it is not here, and no relay ever showed everything",
            4: "there was no such memory then",
        },
    ),
)
def as_of(
    context: typer.Context,
    when: WhenArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", show_default=False, help="A memory key: only its value.")
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Show memories as they were at a time.

    All of them, as `list` does, or with a KEY the value under it, as `recall` does. Known is what this ledger has
    seen; what was forgotten since is gone from the past too.
    """
    from sense_memory.interfaces.cli.inputs import moment

    invocation = of(context)
    now = time.time()
    then = moment(when, now)
    shown = _shown(then, now)
    if key is not None:
        _show_value(invocation, key, f"as-of {quoted(when)}", then)
        return

    async def work(store: MemoryStore) -> list[Memory]:
        found = await store.as_of(then)
        if not found and not store.is_complete():
            raise unknown(f"what was kept at {shown} is")
        warn_if_incomplete(store)
        return found

    memories = invocation.run(work)
    show_memories(invocation, memories, none=f"There were no memories here at {shown}.")
    if memories and not invocation.as_json:
        count = quantity(len(memories), "memory", "memories")
        typer.echo(f"{count} as of {shown}", err=True)


def _shown(then: float, now: float) -> str:
    return f"{local_time(then)} ({age(then, now)})"


def _show_value(invocation: Invocation, key: str, command: str, then: float) -> None:
    """The value under a key at a time; `command` shows one of the palace."""
    from sense_memory.memories.history import at
    from sense_memory.models import Memory

    async def work(store: MemoryStore) -> tuple[list[Version], Status]:
        found = await store.history(key)
        elsewhere = None if found else await in_palace(store, key, command)
        if elsewhere is not None:
            raise elsewhere
        return found, store.status()

    versions, status = invocation.run(work)
    version, shown = at(versions, then), _shown(then, time.time())
    if version is None and not status.is_complete:
        raise unknown(f"what {key!r} was at {shown} is")
    if version is None or version.value is None:
        raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"no memory under {key!r} was here at {shown}")
    show_memory(
        invocation,
        Memory(key=key, value=version.value, created_at=version.created_at, event_id=version.event_id),
    )


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory undo user_timezone",
        codes={
            3: "brought back here, but fewer relays than --require-acks have it",
            4: "this ledger knows no older value, or the memory was forgotten, which is final",
        },
    ),
)
def undo(
    context: typer.Context,
    *,
    key: PathArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Bring back the value before the last edit, and print it.

    Undoing again goes further back. Nothing is lost by it: the value becomes a new version, and the one it
    replaces stays in `history`.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[Memory | PersonaMemory, delivery.Written]:
        memory = await store.undo(key)
        if memory is None and not await store.history(key):
            raise await no_flat_memory(store, key, "undo")
        if memory is None:
            raise CommandFailed(
                ExitCode.NOT_FOUND, "NotFound", f"no older value under {key!r} to go back to here"
            )
        return memory, await delivery.send(store, [memory.event_id], wait)

    memory, written = invocation.run(work)
    if not invocation.as_json:
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    delivery.end(invocation, written, "brought back", _as_data(memory), require_acks)


def _as_data(memory: Memory | PersonaMemory) -> dict[str, Any]:
    from sense_memory.models import PersonaMemory

    return palace_data(memory) if isinstance(memory, PersonaMemory) else memory_data(memory)


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory drafts",
        "sense-memory drafts --publish 1",
        "sense-memory drafts --discard 1",
        codes={4: "no draft of that number"},
    ),
)
def drafts(
    context: typer.Context,
    *,
    publish: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write this draft: it counts from now on.", show_default=False),
    ] = None,
    discard: Annotated[
        int | None, typer.Option(metavar="N", help="Remove this draft for good.", show_default=False)
    ] = None,
    _json: JsonOption = False,
) -> None:
    """List texts of this machine that are in no memory; publish one, or discard it.

    Where this clock is far behind the newest version of a memory, a new one could not win over it. Where another
    device forgot a memory later, without having seen what was written here, that text goes too. Either is kept as
    a draft, encrypted and on this machine only.
    """
    if publish is not None and discard is not None:
        context.fail("give one of --publish and --discard")
    invocation = of(context)
    if publish is None and discard is None:
        _list(invocation)
        return

    async def work(store: MemoryStore) -> tuple[Written | None, str]:
        number = discard if publish is None else publish
        keys = {draft.number: draft.key for draft in await store.drafts()}
        if number not in keys:
            raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"there is no draft {number}")
        if publish is not None:
            ids = [await store.publish_draft(publish)]
            return await delivery.send(store, ids, WAIT_SECONDS), keys[number]
        store.discard_draft(number)
        return None, keys[number]

    written, key = invocation.run(work)
    if written is not None:
        result = {**name_data(key), "event_id": written.ids[0]}
        delivery.end(invocation, written, f"published draft {publish}", result, 0)
    elif invocation.as_json:
        typer.echo(as_json({"discarded": discard}))
    else:
        typer.echo(f"discarded draft {discard}")


def _list(invocation: Invocation) -> None:
    async def work(store: MemoryStore) -> list[Draft]:
        return await store.drafts()

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json([draft_data(draft) for draft in found]))
        return
    for draft in found:
        written = age(draft.created_at, time.time())
        why = f", {draft.reason}" if draft.reason else ""
        typer.echo(
            f"draft {draft.number}, for {safe(draft.key)}, written {written}{why}:\n{safe(draft.value)}"
        )
    if not found:
        typer.echo("There are no drafts.", err=True)


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory refresh user_timezone",
        codes={3: "signed here, but fewer relays than --require-acks have it", 4: "no such memory"},
    ),
)
def refresh(
    context: typer.Context,
    *,
    key: KeyArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Sign a memory anew, for relays that call it too old. Its text and its own time stay as they are."""
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> Written:
        ident = await store.refresh(key)
        if ident is None:
            raise await no_flat_memory(store, key, "refresh")
        return await delivery.send(store, [ident], wait)

    written = invocation.run(work)
    result = {**name_data(key), "event_id": written.ids[0]}
    delivery.end(invocation, written, f"refreshed {safe(key)}", result, require_acks)
