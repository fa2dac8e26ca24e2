"""`mind identity`, `mind objectives` and `mind reflect`: what an agent concludes, and what it wants."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.inputs import argument, flag, option
from sense_memory.interfaces.cli.invocation import note, program
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.mind.group import IdArgument, group, only
from sense_memory.interfaces.cli.operations import as_sentence, as_table, operation
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import age, one_line, quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.layers.identity import AgentIdentity, Objective
    from sense_memory.mind.log import LogEntry
    from sense_memory.store import MemoryStore

# ── Identity and objectives ─────────────────────────────────────────────────────────────

identity = group(
    "identity",
    "Read the agent's identity, set its values and roles, or distil it from the topics and objectives.",
    "sense-memory mind identity show",
    'sense-memory mind identity set --value "never share private keys"',
    default="show",
)


_SAYS_NOTHING: Final = (
    "There is nothing to distil the identity from yet. Add passages with --classify, which gives them topics:"
)


def _show_identity(found: AgentIdentity, _: Any) -> None:
    if found.at is None:
        typer.echo(
            f"There is no identity yet. Add passages with --classify, then: {program()} mind identity refresh",
            err=True,
        )
        return
    values = (f"I value {value}." for value in found.values)
    nothing = f"{_SAYS_NOTHING} {program()} mind archive add TEXT --classify"
    typer.echo(safe("\n".join((*found.lines(), *values)) or nothing))
    if found.left_out:
        note(f"{quantity(found.left_out, 'topic')} with the fewest passages did not fit the request")


_IDENTITIES = as_table(
    ("age", "thoughts", "themes"),
    lambda item, now: (age(item.at or now, now), str(item.covered), item.themes),
    none="There is no identity yet.",
)
_of_identity = partial(operation, identity, shows=_show_identity)


@_of_identity("show", "sense-memory mind identity show")
async def show_identity(store: MemoryStore) -> AgentIdentity:
    """Print the identity as it was last distilled."""
    return await store.mind.identity.get()


@_of_identity("refresh", "sense-memory mind identity refresh", writes=True)
async def refresh_identity(store: MemoryStore) -> AgentIdentity:
    """Distil the identity from all topics, and print it. The previous identity stays in the history."""
    return await store.mind.identity.refresh_identity_kernel()


@_of_identity(
    "set",
    'sense-memory mind identity set --value "share no keys" --value "plain words"',
    "# Remove the roles that were set:",
    'sense-memory mind identity set --role ""',
    writes=True,
    refuses=lambda given: "give --value or --role" if given.values is None and given.roles is None else "",
)
async def set_identity(
    store: MemoryStore,
    *,
    values: Annotated[
        list[str] | None, option("TEXT", "A value of the agent. May be repeated.", "--value")
    ] = None,
    roles: Annotated[
        list[str] | None, option("TEXT", "A role of the agent. May be repeated.", "--role")
    ] = None,
) -> AgentIdentity:
    """Set values and roles by hand, and print the identity. Every refresh keeps them, and they come first. New values
    replace the values that were set before, new roles the roles; "" removes all.
    """
    kernel = store.mind.identity
    if values is not None:
        await kernel.set_values(filter(None, values))
    if roles is not None:
        await kernel.set_roles(filter(None, roles))
    return await kernel.get()


@_of_identity("history", "sense-memory mind identity history", shows=_IDENTITIES)
async def identity_history(store: MemoryStore) -> list[AgentIdentity]:
    """Show the identities in this ledger, newest first."""
    return await store.mind.identity.history()


objectives = group(
    "objectives",
    "Set and end the objectives of the agent.",
    'sense-memory mind objectives add "Finish the portrait" --priority 1',
)


_OBJECTIVES = as_table(
    ("id", "priority", "status", "text"),
    lambda item, _: (item.id, str(item.priority), item.status, item.text),
    none="There are no objectives.",
)
_of_objectives = partial(operation, objectives)


@_of_objectives(
    "add",
    'sense-memory mind objectives add "Finish the portrait"',
    writes=True,
    shows=as_sentence(lambda found: f"added as objective {found.id}"),
)
async def add_objective(
    store: MemoryStore,
    text: Annotated[str, argument("TEXT", "The goal.")],
    *,
    priority: Annotated[
        int, typer.Option(metavar="N", min=1, max=9, help="The priority, from 1 (the highest) to 9.")
    ] = 3,
) -> Objective:
    """Add an objective."""
    return await store.mind.identity.set_objective(text, priority=priority)


@_of_objectives(
    "list", "sense-memory mind objectives list", "sense-memory mind objectives list --all", shows=_OBJECTIVES
)
async def list_objectives(
    store: MemoryStore,
    *,
    everything: Annotated[bool, flag("--all", text="Include objectives that are done or dropped.")] = False,
) -> list[Objective]:
    """List the objectives by priority."""
    return await store.mind.identity.objectives(status=None if everything else "active")


@_of_objectives(
    "done",
    "sense-memory mind objectives done 3f2a90c1",
    codes={4: "no objective has that id"},
    writes=True,
    creates=False,
    shows=as_sentence(lambda found: f"{found.status}: {found.text}"),
)
async def end_objective(
    store: MemoryStore,
    ident: IdArgument,
    *,
    dropped: Annotated[bool, flag("--dropped", text="The objective was given up, not reached.")] = False,
) -> Objective:
    """End an objective."""
    known = [item.id for item in await store.mind.identity.objectives(status=None)]
    status = "dropped" if dropped else "done"
    return await store.mind.identity.change_objective(only(ident, known, "objective"), status=status)


# ── Reflections ─────────────────────────────────────────────────────────────────────────


def _reflection_data(found: LogEntry | None) -> dict[str, Any]:
    from sense_memory.interfaces.shapes.views import ConcludedBelief

    return {"entry": None if found is None else shape_of(ConcludedBelief.of(found))}


def _show_reflection(found: LogEntry | None, given: Any) -> None:
    if found is None:
        note(
            f"nothing was appended: {given.actor} saw fewer than {given.threshold} new entries (see --threshold), or nothing "
            "can be concluded from them"
        )
        return
    typer.echo(one_line(str(found.payload.get("belief", ""))))
    if left_out := found.payload.get("left_out"):
        note(f"the model read only the newest entries; {left_out:,} older ones did not fit the request")


def _is_without_belief(given: Any) -> str:
    missing = given.based_on and given.belief is None
    return "--based-on says what the belief is based on; give --belief too" if missing else ""


@operation(
    commands,
    "reflect",
    "sense-memory mind reflect baker",
    "# What the agent itself concluded:",
    'sense-memory mind reflect baker --belief "The miller lies."',
    writes=True,
    creates=lambda given: given.belief is not None,
    refuses=_is_without_belief,
    json=_reflection_data,
    shows=_show_reflection,
)
async def reflect(
    store: MemoryStore,
    actor: Annotated[str, argument("ACTOR", "Who reflects: an actor in the log.")],
    *,
    belief: Annotated[
        str | None, option("TEXT", "Append this belief instead of a conclusion of the model.")
    ] = None,
    based_on: Annotated[
        list[str] | None,
        option(
            "ID",
            "With --belief: the id of an entry that the belief is based on. May be repeated.",
            "--based-on",
        ),
    ] = None,
    threshold: Annotated[
        int, typer.Option(metavar="N", min=1, help="Reflect only if at least N entries are new.")
    ] = 20,
) -> LogEntry | None:
    """Conclude a belief from what an actor saw since the last reflection, and append the belief to the log.

    Without a language model, rules quote what was said repeatedly or decided. If fewer than N entries are new, or
    nothing can be concluded from them, nothing is appended.
    """
    if belief is None:
        return await store.mind.reflect(actor, threshold=threshold)
    known = [entry.id for entry in await store.mind.log.entries()] if based_on else []
    evidence = [only(ident, known, "entry") for ident in based_on or ()]
    return await store.mind.append_reflection(actor, belief, evidence)
