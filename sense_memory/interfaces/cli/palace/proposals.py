"""`palace review`: the memories that sessions proposed, and the decision about each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.invocation import program, tell
from sense_memory.interfaces.cli.operations import as_table, operation
from sense_memory.interfaces.cli.palace.group import REVIEWS, commands
from sense_memory.interfaces.text import age


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.mind.proposals import ProposedMemory
    from sense_memory.store import MemoryStore

ALL = "all"  # in place of an id

_OPEN = as_table(
    ("id", "age", "path", "value", "replaces"),
    lambda one, now: (one.id, age(one.at, now), one.path, one.value, one.replaces),
    none="Nothing is proposed. Hooks of agent harnesses propose memories; which there are: {program} install --list",
)
_DECIDED = as_table(("status", "path", "value"), lambda one, _: (one.status, one.path, one.value), none="")


def _show(found: Sequence[ProposedMemory], given: Any) -> None:
    if given.accept or given.reject:
        _DECIDED(found, given)
        return
    _OPEN(found, given)
    if found:
        tell(f"To decide: {program()} palace review --accept ID --reject ID")


def _problem(given: Any) -> str:
    both = {*(given.accept or ())} & {*(given.reject or ())}
    return f"--accept and --reject name the same proposal: {min(both)}" if both else ""


_Ids = partial(typer.Option, metavar="ID", show_default=False)


@operation(
    commands,
    "review",
    "sense-memory palace review",
    "sense-memory palace review --accept 3f2a --accept 91bc --reject 07de",
    "sense-memory palace review --reject all",
    panel=REVIEWS,
    shows=_show,
    writes=True,
    creates=False,
    refuses=_problem,
)
async def review(
    store: MemoryStore,
    *,
    accept: Annotated[
        list[str] | None,
        _Ids("--accept", help="Make this proposal a memory. Four digits are enough; or `all`."),
    ] = None,
    reject: Annotated[
        list[str] | None, _Ids("--reject", help="Drop this proposal, so that it is not made again; or `all`.")
    ] = None,
) -> list[ProposedMemory]:
    """List the memories that sessions proposed for the palace, or decide about them.

    Hooks of agent harnesses propose what the user said about something lasting: preferences, facts about people and
    projects, decisions, instructions. Nothing of it is a memory before it is accepted. SENSE_MEMORY_PROPOSALS=accept
    accepts everything at once, `off` proposes nothing.
    """
    proposals = store.mind.proposals
    if not accept and not reject:
        return await proposals.open()
    decided = [await proposals.accept(name) for name in await _named(store, accept)]
    return decided + [await proposals.reject(name) for name in await _named(store, reject)]


async def _named(store: MemoryStore, names: Sequence[str] | None) -> list[str]:
    """The ids, where `all` stands for each open proposal."""
    if names and ALL in names:
        return [one.id for one in await store.mind.proposals.open()]
    return list(names or ())
