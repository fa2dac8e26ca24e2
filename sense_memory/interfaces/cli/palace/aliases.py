"""The spellings of 2.0.0a1, hidden: `palace remember`, `recall`, `search`, `list`, `as-of` and `forget`.

The commands of the same name outside the group do the same with a path. The next version removes these spellings.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli.history import palace_as_of
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    AcksOption,
    AnywayOption,
    ConfidenceOption,
    ConnectOption,
    ExplainOption,
    HalflifeOption,
    HitLimitOption,
    IncludeForgottenOption,
    JsonOption,
    PalaceNameArgument,
    PlaceArgument,
    QueryArgument,
    SourceOption,
    ThemeOption,
    ValueArgument,
    WaitOption,
    WhenArgument,
    question,
)
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.memories import (
    PalaceDetails,
    forget_names,
    list_palace,
    recall_in_palace,
    remember_in_palace,
)
from sense_memory.interfaces.cli.names import everything
from sense_memory.interfaces.cli.output import palace_data, show_memory, warn_if_incomplete, warn_of_gaps
from sense_memory.interfaces.cli.palace.group import NONE, commands
from sense_memory.interfaces.cli.palace.shapes import excerpt
from sense_memory.interfaces.cli.text import as_json, one_line


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.search import PersonaHit
    from sense_memory.store import MemoryStore

_PathsArgument = Annotated[
    list[str], typer.Argument(metavar="PATH...", show_default=False, help="The memories.")
]


@commands.command("remember", hidden=True)
def remember(
    context: typer.Context,
    *,
    path: PalaceNameArgument,
    value: ValueArgument = None,
    theme: ThemeOption = None,
    connect: ConnectOption = None,
    halflife: HalflifeOption = None,
    source: SourceOption = None,
    confidence: ConfidenceOption = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory remember` with a path."""
    details = PalaceDetails(theme or [], connect or [], halflife, source, confidence)
    remember_in_palace(context, path, value, details, wait=wait, require_acks=require_acks)


@commands.command("recall", hidden=True)
def recall(context: typer.Context, path: PalaceNameArgument, _json: JsonOption = False) -> None:
    """As `sense-memory recall`, of memories of the palace only."""

    async def work(store: MemoryStore) -> PersonaMemory:
        return await recall_in_palace(store, path)

    show_memory(of(context), of(context).run(work))


@commands.command("list", hidden=True)
def list_memories(
    context: typer.Context,
    *,
    where: PlaceArgument = None,
    include_forgotten: IncludeForgottenOption = False,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory list --palace`."""
    list_palace(of(context), where, include_forgotten=include_forgotten)


@commands.command("as-of", hidden=True)
def as_of(
    context: typer.Context, when: WhenArgument, where: PlaceArgument = None, _json: JsonOption = False
) -> None:
    """As `sense-memory as-of --palace`."""
    palace_as_of(of(context), when, where)


@commands.command("forget", hidden=True)
def forget(
    context: typer.Context,
    *,
    paths: _PathsArgument,
    anyway: AnywayOption = False,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory forget`; a KEY alone means the one memory of the palace that has it."""
    forget_names(context, paths, wait, require_acks, anyway=anyway, is_palace_only=True)


@commands.command("search", hidden=True)
def search(
    context: typer.Context,
    *,
    query: QueryArgument,
    limit: HitLimitOption = 10,
    explain: ExplainOption = False,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory search --in palace`, by words alone, with the weights of the specification.

    A word in the key weighs 3, in a theme 2, in the text 1, and the sum is multiplied by the relevance of the memory.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[PersonaHit], bool]:
        found = await store.persona_search(question(query), limit)
        warn_if_incomplete(store)
        if not invocation.as_json:
            warn_of_gaps(store.gaps())
        return found, bool(found or await everything(store))

    hits, has_memories = invocation.run(work)
    if invocation.as_json:
        now = time.time()
        typer.echo(as_json([palace_data(hit, now) for hit in hits]))
    elif not hits:
        nothing = "Nothing was found. Forgotten memories are not searched; `list --palace --include-forgotten` lists them."
        typer.echo(nothing if has_memories else NONE, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_hits

        print_hits(hits, explain=explain)
    else:
        for hit in hits:
            why = f"\t{one_line(hit.why.text)}" if explain else ""
            typer.echo(f"{one_line(hit.path)}\t{hit.score:.3f}\t{excerpt(hit)}{why}")
