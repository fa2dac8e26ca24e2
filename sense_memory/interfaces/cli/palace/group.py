"""The group `palace`: alone it draws the palace as a tree, or as lines in a pipe; and `compress`, `stats`, `domains`,
`facets`.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, UntrustedOption, argument, flag, option
from sense_memory.interfaces.cli.invocation import Invocation, named, of, program
from sense_memory.interfaces.cli.names import check_place, no_domain
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.output import print_lines, warn_if_incomplete
from sense_memory.interfaces.cli.palace.shapes import (
    Insight,
    StateChoice,
    StyleChoice,
    arrange,
    counted,
    tally,
)
from sense_memory.interfaces.cli.program import PALACE, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, one_line, safe, untrusted_note


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.compression import Compressed
    from sense_memory.store import MemoryStore

INSIGHTS: Final = "Memories"
LINKS: Final = "Links"
REVIEWS: Final = "Reviews"

_NAMED_COUNT: Final = 3  # memories that the line about what was left out names
_MODULES: Final = {  # by command, in the order of the help page
    **dict.fromkeys(
        ("show", "connect", "disconnect", "dismiss", "contradict", "reconcile", "pin", "unpin"), "memory"
    ),
    "introspect": "reviews",
    "review": "proposals",
    "compress": "group",
    "prune": "reviews",
    "plot": "plot",
    **dict.fromkeys(("stats", "domains", "facets"), "group"),
    **dict.fromkeys(("remember", "recall", "search", "list", "as-of", "forget"), "memory"),  # hidden
}

commands = app.group(
    "palace",
    "sense_memory.interfaces.cli.palace",
    _MODULES,
    rich_help_panel=PALACE,
    epilog=ends(
        "sense-memory palace",
        "sense-memory palace --domain people --all",
        "# What is about to be forgotten:",
        "sense-memory palace --state fading --state forgotten",
        'sense-memory remember people/facts/lisa "artist, teaches workshops"',
        codes={4: "there is no such domain"},
    ),
)


def no_palace() -> str:
    """The sentence of a list that is empty because the palace is."""
    return f"There are no memories in the palace yet. Begin with: {program()} remember DOMAIN/FACET/KEY VALUE"


@commands.callback(invoke_without_command=True)
def palace(
    context: typer.Context,
    *,
    everything: Annotated[bool, flag("--all", text="Draw every memory, however many there are.")] = False,
    domain: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Draw this domain only.", show_default=False)
    ] = None,
    state: Annotated[
        list[StateChoice] | None,
        typer.Option(
            metavar="STATE",
            help="Draw memories in this state only: active, fading, forgotten or dissolved. May be repeated.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="Draw at most N memories of each facet.")
    ] = 5,
    _json: JsonOption = False,
) -> None:
    """Draw the palace, whose memories fade, connect and contradict; or run one of its commands.

    Without a COMMAND, draw the palace with the current relevance of each memory. The path of a palace memory is
    DOMAIN/FACET/KEY. You choose the domains and facets; the usual domains are self, people, projects, world and
    skills, and the usual facets are facts, beliefs, decisions, procedures and emotions.

    A memory fades unless it is recalled. Above a relevance of 0.3 a memory is active, then fading, below 0.1
    forgotten, and below 0.01 dissolved. `recall` makes a memory active again; drawing, listing and searching revive
    nothing. `remember`, `search`, `list`, `as-of` and `forget` take paths of the palace too. A terminal shows the most
    relevant memories of each facet; a pipe and --json get all of them. A pipe gets one line for each memory: path,
    state, relevance and text, with tabs between them, and `superseded by PATH` or `an edit that lost to PATH` if it is so.
    """
    if context.invoked_subcommand is not None:
        if everything or domain or state:
            context.fail(
                "--all, --domain and --state are for drawing the palace; give them without a COMMAND"
            )
        return
    invocation = of(context)
    insights = look(invocation, domain, needs_place=True)
    if state:
        wanted = {str(one.value) for one in state}
        insights = [insight for insight in insights if insight.memory.state.value in wanted]
    if invocation.as_json:
        typer.echo(as_json(_data(insights)))
    elif not insights:
        typer.echo("There are no memories in that state." if state else no_palace(), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_tree

        print_tree(arrange(insights, None if everything else limit), tally(insights))
    else:
        print_lines(insights)


def look(
    invocation: Invocation,
    domain: str | None = None,
    facet: str | None = None,
    *,
    include_forgotten: bool = True,
    needs_place: bool = False,
) -> list[Insight]:
    """The palace memories, the most relevant first; warns on stderr if relays may hold more.

    With `needs_place`, a missing domain or facet is an error.
    """

    async def work(store: MemoryStore) -> list[PersonaMemory]:
        found = await store.persona_recall(domain, facet, include_forgotten=include_forgotten)
        if needs_place and domain is not None and not found:
            await check_place(store, domain, facet)
        warn_if_incomplete(store)
        return found

    return insights_of(invocation.run(work), time.time())


def insights_of(memories: Sequence[PersonaMemory], now: float) -> list[Insight]:
    """Memories with their relevance at a time, in their order."""
    from sense_memory.palace.lifecycle import current_relevance

    return [Insight(memory, current_relevance(memory, now)) for memory in memories]


def _data(insights: Sequence[Insight]) -> dict[str, Any]:
    now = time.time()
    domains = [
        {
            "domain": domain.name,
            "count": domain.count,
            "facets": [
                {
                    "facet": facet.name,
                    "count": facet.count,
                    "memories": [shape_of(insight.memory, now) for insight in facet.insights],
                }
                for facet in domain.facets
            ],
        }
        for domain in arrange(insights, None)
    ]
    return {"total": len(insights), "states": tally(insights), "domains": domains}


def command(panel: str, *examples: str, **options: Any) -> Callable[[Any], Any]:
    """Registers a command of the group with its panel and examples, and with `codes` and `name` if needed."""
    epilog = ends(*examples, codes=options.pop("codes", None))
    return commands.command(options.pop("name", None), rich_help_panel=panel, epilog=epilog)


def _show_compressed(found: Compressed, given: Any) -> None:
    if not found:
        if found.untrusted:
            return  # there are some, and the note about them says why none is shown
        domain = given.domain or given.domain_option
        typer.echo("There are no active memories" + (f" in {safe(domain)}." if domain else "."), err=True)
        return
    typer.echo(safe(found) if sys.stdout.isatty() else found)
    if found.left_out:
        typer.echo(_left_out(found.left_out), err=True)


def _names_two_domains(given: Any) -> str:
    is_twice = given.domain is not None and given.domain_option is not None
    return "the domain was given twice; give it as the argument or with --domain" if is_twice else ""


_reviews = partial(operation, commands, panel=REVIEWS)


@_reviews(
    "compress",
    "sense-memory palace compress",
    "sense-memory palace compress people --budget 200",
    'sense-memory palace compress --style plain --question "What does Lisa eat?"',
    "# As the beginning of a prompt:",
    "(echo 'What you know:'; sense-memory palace compress) > prompt.txt",
    codes={4: "there is no such domain"},
    refuses=_names_two_domains,
    shows=_show_compressed,
)
async def compress(
    store: MemoryStore,
    *,
    domain: Annotated[str | None, argument("DOMAIN", "Only this domain.")] = None,
    domain_option: Annotated[str | None, option("DOMAIN", "The same as the argument.", "--domain")] = None,
    question: Annotated[
        str | None,
        option(
            "TEXT",
            "Begin with what a search finds for this question, after pinned memories.",
            "--question",
            "-q",
        ),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option(
            "--budget",
            "--max-tokens",
            metavar="N",
            help="Print at most N tokens, at least 32. The estimate of tokens is a little too high.",
        ),
    ] = 500,
    style: Annotated[
        StyleChoice,
        typer.Option(
            "--style",
            metavar="STYLE",
            help="bracketed, the notation of the specification, or plain: sentences under short headers.",
        ),
    ] = StyleChoice.BRACKETED,
    untrusted: UntrustedOption = False,
) -> Compressed:
    """Print the active memories for a prompt, as many as fit.

    Pinned memories are chosen first, then standing preferences and some of the domain self, then a share for every
    domain, the most relevant first. The last line counts the memories that did not fit, and stderr names some of them.
    Nothing is revived.

    In the notation, a line has the words of the key that the text does not say, a colon, and the text; memories about one
    subject share a line, with `;` or `,` between them. Hyphens join words of a text, `x>y` means that x was chosen over y,
    and parentheses after a decision hold its reason. `(compare KEY, written later)` says that the memory before it and that
    one may contradict each other.
    """
    only = domain if domain is not None else domain_option
    options: dict[str, Any] = {"question": question, "max_tokens": max_tokens, "style": style.value}
    options["include_untrusted"] = untrusted
    with named(max_tokens="--budget (--max-tokens)"):
        text = await store.persona_compress(only, **options)
    if only is not None and not text:
        await check_place(store, only)
    warn_if_incomplete(store)
    if text.untrusted:
        typer.echo(untrusted_note(len(text.untrusted)), err=True)
    if question is not None and text and not text.has_answer:
        typer.echo("Nothing was found for the question; this is the palace without it.", err=True)
    elif text.is_doubtful:
        typer.echo("Probably nothing about the question is kept; the nearest comes first.", err=True)
    return text


def _left_out(paths: Sequence[str]) -> str:
    """`left out: people/facts/lisa, … and 34 more; give a larger --budget, or pin what you need`."""
    shown = ", ".join(one_line(path) for path in paths[:_NAMED_COUNT])
    more = "" if len(paths) <= _NAMED_COUNT else f" and {len(paths) - _NAMED_COUNT:,} more"
    return f"left out: {shown}{more}; give a larger --budget, or pin what you need"


Sizes = dict[str, dict[str, int]]  # how many memories each facet of each domain has


@_reviews(
    "domains",
    "sense-memory palace domains",
    "sense-memory palace domains --json",
    json=lambda sizes: [_domain(name, facets) for name, facets in sizes.items()],
    shows=lambda sizes, _: _print_counts(
        {domain: sum(facets.values()) for domain, facets in sizes.items()}, "domain", no_palace()
    ),
)
async def domains(store: MemoryStore) -> Sizes:
    """List the domains, and how many memories each has."""
    return await _sizes(store)


@_reviews(
    "facets",
    "sense-memory palace facets people",
    codes={
        1: "an error, such as: the domain is not here, and no relay ever showed everything",
        4: "no such domain",
    },
    json=lambda sizes: _domain("", sizes)["facets"],
    shows=lambda sizes, _: _print_counts(sizes, "facet", no_palace()),
)
async def facets(
    store: MemoryStore, domain: Annotated[str, argument("DOMAIN", "The domain.")]
) -> dict[str, int]:
    """List the facets of a domain, and how many memories each has."""
    return (await _sizes(store, domain))[domain]


async def _sizes(store: MemoryStore, domain: str | None = None) -> Sizes:
    """How many memories each facet of each domain holds; a named domain must exist."""
    sizes: Sizes = (await store.persona_stats())["facets"]
    if domain is not None and domain not in sizes:
        raise no_domain(domain, list(sizes), store.status())
    warn_if_incomplete(store)
    return sizes


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


def _stats_data(found: dict[str, Any]) -> dict[str, Any]:
    domains = [_domain(name, facets) for name, facets in found.pop("facets").items()]
    return {**found, "domains": domains}


def _show_stats(found: dict[str, Any], _: Any) -> None:
    rows = [("memories", f"{found['total']:,}" + (f": {counted(found['states'])}" if found["total"] else ""))]
    rows.append(("connections", f"{found['connections']:,}"))
    rows += [(name, f"{found[name]:,}") for name in ("superseded", "conflicts") if found[name]]
    for domain, facets in found["facets"].items():
        listed = ", ".join(f"{one_line(facet)} {count:,}" for facet, count in facets.items())
        rows.append((one_line(domain), f"{sum(facets.values()):,}: {listed}"))
    column = max(len(name) for name, _ in rows)
    for name, text in rows:
        typer.echo(f"{name:<{column}}  {text}")


@_reviews(
    "stats",
    "sense-memory palace stats",
    "sense-memory palace stats --json",
    json=_stats_data,
    shows=_show_stats,
)
async def stats(store: MemoryStore) -> dict[str, Any]:
    """Count the memories by state, domain and facet, and the connections, superseded memories and conflicts."""
    found = await store.persona_stats()
    warn_if_incomplete(store)
    return found
