"""The group `palace`, and what it does without a command: draw the palace as a tree, or as lines in a pipe."""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import Invocation, JsonOption, of
from sense_memory.interfaces.cli.json_output import palace_data
from sense_memory.interfaces.cli.memories import warn_if_incomplete
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.palace.naming import no_domain, no_facet
from sense_memory.interfaces.cli.palace.shapes import Insight, Shown, arrange, tally
from sense_memory.interfaces.cli.program import PALACE, Group, Program, app
from sense_memory.interfaces.cli.text import as_json, one_line


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore

INSIGHTS: Final = "Memories"
LINKS: Final = "Links"
REVIEWS: Final = "Reviews"
NONE: Final = (
    "There are no memories in the palace yet. `sense-memory palace remember --help` shows how to begin."
)

_ORDER: Final = (  # of the help page
    *("remember", "recall", "show", "search", "list", "as-of", "forget"),
    *("connect", "disconnect", "dismiss", "contradict"),
    *("introspect", "compress", "prune", "stats", "domains", "facets"),
)


class Palace(Group):
    """The commands of the palace, in the order of its help page."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As `Commands.list_commands`."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)


commands = Program(cls=Palace)
app.add_typer(
    commands,
    name="palace",
    rich_help_panel=PALACE,
    epilog=ends(
        "sense-memory palace",
        "sense-memory palace --domain people --all",
        "# What is about to be forgotten:",
        "sense-memory palace --state fading --state forgotten",
        'sense-memory palace remember people/facts/lisa "artist, teaches workshops"',
        codes={4: "there is no such domain"},
    ),
)


@commands.callback(invoke_without_command=True)
def palace(
    context: typer.Context,
    *,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Draw every memory, however many there are.", show_default=False, metavar=""
        ),
    ] = False,
    domain: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Draw this domain only.", show_default=False)
    ] = None,
    state: Annotated[
        list[Shown] | None,
        typer.Option(
            metavar="STATE",
            help="Draw memories in this state only: active, fading, forgotten or dissolved. May be repeated.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, metavar="N", help="How many memories of each facet are drawn."),
    ] = 5,
    _json: JsonOption = False,
) -> None:
    """Keep memories that fade, connect and contradict, in a palace of domains and facets; or draw it.

    Without a COMMAND the palace is drawn, with what time has left of each memory. A memory of the palace is named DOMAIN/FACET/KEY. Domains and facets are yours to choose; usual are self, people,
    projects, world and skills, with facts, beliefs, decisions, procedures and emotions in them.

    What is not recalled fades. Above a relevance of 0.3 a memory is active, then fading, below 0.1 forgotten, and
    below 0.01 dissolved. Drawing, listing and searching change nothing; `recall` makes a memory active again. On a
    terminal the most relevant of each facet are drawn; a pipe and --json get everything, a pipe one line each: path,
    state, relevance and text, with tabs between them.
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
        typer.echo("There is no such memory." if state else NONE, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.drawing import print_tree

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
    """The memories of the palace, the most relevant first; says on stderr if there may be more on relays.

    With `needs_place` a domain or facet that is named has to be there.
    """

    async def work(store: MemoryStore) -> list[PersonaMemory]:
        found = await store.persona_recall(domain, facet, include_forgotten=include_forgotten)
        if needs_place and domain is not None and not found:
            await check_place(store, domain, facet)
        warn_if_incomplete(store)
        return found

    return insights_of(invocation.run(work), time.time())


async def check_place(store: MemoryStore, domain: str, facet: str | None = None) -> None:
    """A domain and a facet that are named have to be there.

    Raises:
        Stop: one is not; says which there are.
    """
    facets: dict[str, dict[str, int]] = (await store.persona_stats())["facets"]
    name = unicodedata.normalize("NFC", domain)
    if name not in facets:
        raise no_domain(domain, list(facets), store.status())
    if facet is not None and unicodedata.normalize("NFC", facet) not in facets[name]:
        raise no_facet(facet, domain, list(facets[name]))


def insights_of(memories: Sequence[PersonaMemory], now: float) -> list[Insight]:
    """Memories with their relevance at a time, in their order."""
    from sense_memory.palace.lifecycle import current_relevance

    return [Insight(memory, current_relevance(memory, now)) for memory in memories]


def print_lines(insights: Sequence[Insight]) -> None:
    """One line each: path, state, relevance and text, with tabs between them."""
    lines = [
        f"{one_line(memory.path)}\t{memory.state.value}\t{insight.relevance:.3f}\t{one_line(memory.value)}\n"
        for insight in insights
        for memory in (insight.memory,)
    ]
    typer.echo("".join(lines), nl=False)


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
                    "memories": [palace_data(insight.memory, now) for insight in facet.insights],
                }
                for facet in domain.facets
            ],
        }
        for domain in arrange(insights, None)
    ]
    return {"total": len(insights), "states": tally(insights), "domains": domains}


def command(panel: str, *examples: str, **options: Any) -> Callable[[Any], Any]:
    """Registers a command of the group: its panel, its examples, `codes` and `name` where it needs them."""
    epilog = ends(*examples, codes=options.pop("codes", None))
    return commands.command(options.pop("name", None), rich_help_panel=panel, epilog=epilog)
