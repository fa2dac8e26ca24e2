"""`mind bookmarks`: pages that an agent wants to find again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer  # noqa: TC002 - typer reads the annotations

from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, argument
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.mind.group import deliver, done, group, show
from sense_memory.interfaces.cli.program import ends


if TYPE_CHECKING:
    from sense_memory.mind.bookmarks import Bookmark
    from sense_memory.store import MemoryStore

bookmarks = group("bookmarks", "Keep pages to find again.", "sense-memory mind bookmarks list")


@bookmarks.command("put", epilog=ends("sense-memory mind bookmarks put nips https://nips.example"))
def put(
    context: typer.Context,
    name: Annotated[str, argument("NAME", "What the page is called.")],
    url: Annotated[str, argument("URL", "Where the page is.")],
    *,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Write a bookmark."""
    invocation = of(context)

    async def work(store: MemoryStore) -> Bookmark:
        made = await store.mind.bookmarks.put(name, url)
        await deliver(store, wait)
        return made

    made = invocation.run(work, creates=True)
    done(invocation, asdict(made), f"{made.name}: {made.url}")


@bookmarks.command("list", epilog=ends("sense-memory mind bookmarks list"))
def list_bookmarks(context: typer.Context, *, _json: JsonOption = False) -> None:
    """List the bookmarks."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Bookmark]:
        return await store.mind.bookmarks.all()

    found = invocation.run(work)
    rows = [(one.name, one.url, one.note) for one in found]
    show(invocation, [asdict(one) for one in found], ("name", "url", "note"), rows, none="no bookmarks")
