"""`drafts` and `refresh`: texts of this machine that are in no memory, and what a relay calls too old."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli import writing
from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, JsonOption, Stop, of
from sense_memory.interfaces.cli.json_output import draft_data, name_data
from sense_memory.interfaces.cli.memories import KeyArgument  # noqa: TC001 - typer reads the annotations
from sense_memory.interfaces.cli.not_found import no_flat_memory
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.cli.text import age, as_json, safe
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, AcksOption, WaitOption


if TYPE_CHECKING:
    from sense_memory.interfaces.cli.writing import Written
    from sense_memory.models import Draft
    from sense_memory.store import MemoryStore


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
            raise Stop(ExitCode.NOT_FOUND, "NotFound", f"there is no draft {number}")
        if publish is not None:
            ids = [await store.publish_draft(publish)]
            return await writing.send(store, ids, WAIT_SECONDS), keys[number]
        store.discard_draft(number)
        return None, keys[number]

    written, key = invocation.run(work)
    if written is not None:
        result = {**name_data(key), "event_id": written.ids[0]}
        writing.end(invocation, written, f"published draft {publish}", result, 0)
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
    writing.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> Written:
        ident = await store.refresh(key)
        if ident is None:
            raise await no_flat_memory(store, key, "refresh")
        return await writing.send(store, [ident], wait)

    written = invocation.run(work)
    result = {**name_data(key), "event_id": written.ids[0]}
    writing.end(invocation, written, f"refreshed {safe(key)}", result, require_acks)
