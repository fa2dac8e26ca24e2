"""`mind identity`, `mind objectives` and `mind reflect`: what an agent concludes, and what it wants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.delivery import deliver
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, JsonOption, WaitOption, argument, flag, option
from sense_memory.interfaces.cli.invocation import note, of, program
from sense_memory.interfaces.cli.mind.group import (
    IdArgument,
    commands,
    done,
    group,
    only,
    show,
)
from sense_memory.interfaces.text import age, as_json, iso, one_line, quantity, safe


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
)


_SAYS_NOTHING: Final = (
    "There is nothing to distil the identity from yet. Add passages with --classify, which gives them topics:"
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
        "left_out": found.left_out,
        "at": iso(found.at),
    }


def _tell_identity(context: typer.Context, found: AgentIdentity) -> None:
    invocation = of(context)
    if invocation.as_json:
        typer.echo(as_json(_identity_data(found)))
    elif found.at is None:
        typer.echo(
            f"There is no identity yet. Add passages with --classify, then: {program()} mind identity refresh",
            err=True,
        )
    else:
        values = (f"I value {value}." for value in found.values)
        nothing = f"{_SAYS_NOTHING} {program()} mind archive add TEXT --classify"
        typer.echo(safe("\n".join((*found.lines(), *values)) or nothing))
        if found.left_out:
            note(f"{quantity(found.left_out, 'topic')} with the fewest passages did not fit the request")


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
    """Distil the identity from all topics, and print it. The previous identity stays in the history."""

    async def work(store: MemoryStore) -> AgentIdentity:
        found = await store.mind.identity.refresh_identity_kernel()
        await deliver(store, wait)
        return found

    _tell_identity(context, of(context).run(work, creates=True))


@identity.command(
    "set",
    epilog=ends(
        'sense-memory mind identity set --value "share no keys" --value "plain words"',
        "# Remove the roles that were set:",
        'sense-memory mind identity set --role ""',
    ),
)
def set_identity(
    context: typer.Context,
    *,
    values: Annotated[
        list[str] | None, option("TEXT", "A value of the agent. May be repeated.", "--value")
    ] = None,
    roles: Annotated[
        list[str] | None, option("TEXT", "A role of the agent. May be repeated.", "--role")
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Set values and roles by hand, and print the identity. Every refresh keeps them, and they come first. New values
    replace the values that were set before, new roles the roles; "" removes all.
    """
    if values is None and roles is None:
        context.fail("give --value or --role")

    async def work(store: MemoryStore) -> AgentIdentity:
        kernel = store.mind.identity
        if values is not None:
            await kernel.set_values(filter(None, values))
        if roles is not None:
            await kernel.set_roles(filter(None, roles))
        await deliver(store, wait)
        return await kernel.get()

    _tell_identity(context, of(context).run(work, creates=True))


@identity.command("history", epilog=ends("sense-memory mind identity history"))
def identity_history(context: typer.Context, _json: JsonOption = False) -> None:
    """Show the identities in this ledger, newest first."""
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
    text: Annotated[str, argument("TEXT", "The goal.")],
    *,
    priority: Annotated[
        int, typer.Option(metavar="N", min=1, max=9, help="The priority, from 1 (the highest) to 9.")
    ] = 3,
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
    everything: Annotated[bool, flag("--all", text="Include objectives that are done or dropped.")] = False,
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
    ident: IdArgument,
    *,
    dropped: Annotated[bool, flag("--dropped", text="The objective was given up, not reached.")] = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """End an objective."""
    invocation = of(context)

    async def work(store: MemoryStore) -> Objective:
        known = [item.id for item in await store.mind.identity.objectives(status=None)]
        found = only(ident, known, "objective")
        status = "dropped" if dropped else "done"
        changed = await store.mind.identity.change_objective(found, status=status)
        await deliver(store, wait)
        return changed

    found = invocation.run(work)
    done(invocation, _objective_data(found), f"{found.status}: {found.text}")


# ── Reflections ─────────────────────────────────────────────────────────────────────────


@commands.command(
    epilog=ends(
        "sense-memory mind reflect baker",
        "# What the agent itself concluded:",
        'sense-memory mind reflect baker --belief "The miller lies."',
    )
)
def reflect(
    context: typer.Context,
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
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Conclude a belief from what an actor saw since the last reflection, and append the belief to the log.

    Without a language model, rules quote what was said repeatedly or decided. If fewer than N entries are new, or
    nothing can be concluded from them, nothing is appended.
    """
    if based_on and belief is None:
        context.fail("give --belief too: --based-on says what the belief is based on")
    invocation = of(context)

    async def work(store: MemoryStore) -> LogEntry | None:
        mind = store.mind
        if belief is None:
            entry = await mind.reflect(actor, threshold=threshold)
        else:
            known = [entry.id for entry in await mind.log.entries()] if based_on else []
            evidence = [only(ident, known, "entry") for ident in based_on or ()]
            entry = await mind.append_reflection(actor, belief, evidence)
        await deliver(store, wait)
        return entry

    found = invocation.run(work, creates=belief is not None)
    if invocation.as_json:
        typer.echo(as_json({"entry": None if found is None else _reflection_data(found)}))
    elif found is None:
        note(
            f"nothing was appended: {actor} saw fewer than {threshold} new entries (see --threshold), or nothing can be "
            "concluded from them"
        )
    else:
        typer.echo(one_line(str(found.payload.get("belief", ""))))
        if left_out := found.payload.get("left_out"):
            note(f"the model read only the newest entries; {left_out:,} older ones did not fit the request")


def _reflection_data(entry: LogEntry) -> dict[str, Any]:
    from sense_memory.mind.reflection import based_on

    belief = str(entry.payload.get("belief", ""))
    return {
        "id": entry.id,
        "actor": entry.actor,
        "belief": belief,
        "based_on": list(based_on(entry)),
        "left_out": entry.payload.get("left_out", 0),
        "at": iso(entry.at),
    }
