"""`palace compress`, `domains`, `facets`, `stats` and `as-of`: views that change nothing."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.invocation import JsonOption, named, of, unknown
from sense_memory.interfaces.cli.json_output import palace_data
from sense_memory.interfaces.cli.memories import warn_if_incomplete
from sense_memory.interfaces.cli.palace.group import (
    INSIGHTS,
    NONE,
    REVIEWS,
    check_place,
    command,
    insights_of,
    print_lines,
)
from sense_memory.interfaces.cli.palace.naming import PlaceArgument, no_domain, place
from sense_memory.interfaces.cli.palace.shapes import counted
from sense_memory.interfaces.cli.text import age, as_json, local_time, one_line, quantity, safe


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore


@command(
    REVIEWS,
    "sense-memory palace compress",
    "sense-memory palace compress people --max-tokens 200",
    "# As the beginning of a prompt:",
    "(echo 'What you know:'; sense-memory palace compress) > prompt.txt",
    codes={4: "there is no such domain"},
)
def compress(
    context: typer.Context,
    *,
    domain: Annotated[
        str | None, typer.Argument(metavar="DOMAIN", show_default=False, help="Only this domain.")
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="What the text may cost in tokens, by an estimate that is rather too high; at least 32.",
        ),
    ] = 500,
    _json: JsonOption = False,
) -> None:
    """Print the active memories in shorthand, for a prompt: the most relevant as far as they fit.

    What did not fit is counted in the last line. Nothing is revived by it.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> str:
        with named(max_tokens="--max-tokens"):
            text = await store.persona_compress(domain, max_tokens=max_tokens)
        if domain is not None and not text:
            await check_place(store, domain)
        warn_if_incomplete(store)
        return text

    text = invocation.run(work)
    if invocation.as_json:
        from sense_memory.palace.tokens import estimated_tokens

        typer.echo(as_json({"text": text, "tokens": estimated_tokens(text)}))
    elif not text:
        typer.echo("There are no active memories" + (f" in {safe(domain)}." if domain else "."), err=True)
    else:
        typer.echo(safe(text) if sys.stdout.isatty() else text)


@command(REVIEWS, "sense-memory palace domains", "sense-memory palace domains --json")
def domains(context: typer.Context, _json: JsonOption = False) -> None:
    """List the domains, and how many memories each holds."""
    sizes = _sizes(context)
    counts = {domain: sum(facets.values()) for domain, facets in sizes.items()}
    if of(context).as_json:
        typer.echo(as_json([_domain(name, facets) for name, facets in sizes.items()]))
    else:
        _print_counts(counts, "domain", NONE)


@command(
    REVIEWS,
    "sense-memory palace facets people",
    codes={1: "an error, such as: it is not here, and no relay ever showed everything", 4: "no such domain"},
)
def facets(
    context: typer.Context,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", show_default=False, help="Of which domain.")],
    _json: JsonOption = False,
) -> None:
    """List the facets of a domain, and how many memories each holds."""
    sizes = _sizes(context, domain)
    if of(context).as_json:
        typer.echo(as_json(_domain(domain, sizes[domain])["facets"]))
    else:
        _print_counts(sizes[domain], "facet", NONE)


def _sizes(context: typer.Context, domain: str | None = None) -> dict[str, dict[str, int]]:
    """How many memories each facet of each domain holds; a domain that is named has to be there."""

    async def work(store: MemoryStore) -> dict[str, dict[str, int]]:
        sizes: dict[str, dict[str, int]] = (await store.persona_stats())["facets"]
        if domain is not None and domain not in sizes:
            raise no_domain(domain, list(sizes), store.status())
        warn_if_incomplete(store)
        return sizes

    return of(context).run(work)


def _domain(name: str, facets: Mapping[str, int]) -> dict[str, Any]:
    """A domain for JSON, without its memories."""
    listed = [{"facet": facet, "count": count, "memories": None} for facet, count in facets.items()]
    return {"domain": name, "count": sum(facets.values()), "facets": listed}


def _print_counts(counts: Mapping[str, int], what: str, none: str) -> None:
    if not counts:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from rich.text import Text

        from sense_memory.interfaces.cli.tables import plain_table, show

        table = plain_table(what, "memories", numbers=["memories"])
        for name, count in counts.items():
            table.add_row(Text(one_line(name)), f"{count:,}")
        show(table)
    else:
        for name, count in counts.items():
            typer.echo(f"{one_line(name)}\t{count}")


@command(REVIEWS, "sense-memory palace stats", "sense-memory palace stats --json")
def stats(context: typer.Context, _json: JsonOption = False) -> None:
    """Count the memories, by state, domain and facet; and the connected, the superseded, the conflicts."""
    invocation = of(context)

    async def work(store: MemoryStore) -> dict[str, Any]:
        found = await store.persona_stats()
        warn_if_incomplete(store)
        return found

    found = invocation.run(work)
    if invocation.as_json:
        domains = [_domain(name, facets) for name, facets in found.pop("facets").items()]
        typer.echo(as_json({**found, "domains": domains}))
        return
    rows = [("memories", f"{found['total']:,}" + (f": {counted(found['states'])}" if found["total"] else ""))]
    rows.append(("connections", f"{found['connections']:,}"))
    rows += [(name, f"{found[name]:,}") for name in ("superseded", "conflicts") if found[name]]
    for domain, facets in found["facets"].items():
        listed = ", ".join(f"{one_line(facet)} {count:,}" for facet, count in facets.items())
        rows.append((one_line(domain), f"{sum(facets.values()):,}: {listed}"))
    column = max(len(name) for name, _ in rows)
    for name, text in rows:
        typer.echo(f"{name:<{column}}  {text}")


@command(
    INSIGHTS,
    'sense-memory palace as-of "2 days ago"',
    "sense-memory palace as-of 2025-01-15 people/facts",
    name="as-of",
)
def as_of(
    context: typer.Context,
    when: Annotated[
        str,
        typer.Argument(
            metavar="WHEN",
            show_default=False,
            help='A date or time, such as 2027-01-15, yesterday or "2027-01-15 08:00"; or how long ago: 3h, "2 days ago".',
        ),
    ],
    where: PlaceArgument = None,
    _json: JsonOption = False,
) -> None:
    """Show memories as they were at a time, with their state and relevance of then.

    Known is what this ledger has seen; what was forgotten with `forget` since is gone from the past too. For one
    memory, `history` shows what each version changed.
    """
    from sense_memory.interfaces.cli.when import moment

    invocation = of(context)
    now = time.time()
    then = moment(when, now)
    shown = f"{local_time(then)} ({age(then, now)})"

    async def work(store: MemoryStore) -> list[PersonaMemory]:
        found = await store.persona_as_of(then, *place(where))
        if not found and not store.is_complete():
            raise unknown(f"what was kept at {shown} is")
        warn_if_incomplete(store)
        return found

    insights = insights_of(invocation.run(work), then)
    if invocation.as_json:
        typer.echo(as_json([palace_data(insight.memory, then) for insight in insights]))
        return
    if not insights:
        typer.echo(f"There were no memories here at {shown}.", err=True)
        return
    if sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.drawing import print_list

        print_list(insights)
    else:
        print_lines(insights)
    typer.echo(f"{quantity(len(insights), 'memory', 'memories')} as of {shown}", err=True)
