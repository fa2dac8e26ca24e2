"""The arguments and options that several commands share, each declared once."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import of


WAIT_SECONDS: Final = 5.0


def flag(*names: str, text: str, **options: Any) -> Any:
    """An option without a value.

    Args:
        names: as they are typed.
        text: what the option does, for the help page.
        options: as typer's.
    """
    return typer.Option(*names, help=text, show_default=False, metavar="", **options)


def _also_json(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        of(context).as_json = True
    return wanted


JsonOption = Annotated[bool, flag("--json", text="Print JSON for programs.", callback=_also_json)]

# ── Names ───────────────────────────────────────────────────────────────────────────────

_NAME: Final = "A flat key such as user_timezone, or a path DOMAIN/FACET/KEY such as people/facts/lisa."

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        help=f"{_NAME} A KEY alone finds the one memory that has this key.",
    ),
]
NewNameArgument = Annotated[str | None, typer.Argument(metavar="NAME", show_default=False, help=_NAME)]
NamesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", show_default=False, help="Flat keys, or paths DOMAIN/FACET/KEY."),
]
PalaceNameArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="DOMAIN/FACET/KEY, or the KEY alone if no other memory of the palace has this key.",
    ),
]
PlaceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DOMAIN[/FACET]", show_default=False, help="Only this domain, or this facet of it."
    ),
]
WhenArgument = Annotated[
    str,
    typer.Argument(
        metavar="WHEN",
        show_default=False,
        help='A date or time in local time, such as 2027-01-15, yesterday (the end of that day) or "2027-01-15 08:00", '
        'or how long ago, such as 3h or "2 days ago".',
    ),
]
PalaceOption = Annotated[bool, flag("--palace", text="Only memories of the palace.")]
IncludeForgottenOption = Annotated[
    bool, flag("--include-forgotten", text="Include forgotten and dissolved memories of the palace.")
]

# ── Writes ──────────────────────────────────────────────────────────────────────────────

WaitOption = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Wait up to this many seconds for relays; 0 leaves sending for later. A slow relay never makes a write fail.",
    ),
]
AcksOption = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Exit with code 3 unless N relays acknowledge the write in that time.",
        show_default=False,
    ),
]
AnywayOption = Annotated[bool, flag("--anyway", text="Request the deletion even if no such memory is known.")]
DryRunOption = Annotated[bool, flag("--dry-run", text="Show what would be done, and change nothing.")]
ValueArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="VALUE", show_default=False, help="The text. If missing or `-`, all of stdin, byte for byte."
    ),
]
ThemeOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD",
        help="Palace: what the memory is about, for search. May be repeated.",
        show_default=False,
    ),
]
ConnectOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Palace: connect the memory with this one, both ways. May be repeated.",
        show_default=False,
    ),
]
HalflifeOption = Annotated[
    float | None,
    typer.Option(
        metavar="DAYS",
        help="Palace: after this many days half of the relevance is left; 30 for a new memory.",
        show_default=False,
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="Palace: where the memory comes from: user, agent, import, tool:NAME or document:HASH.",
        show_default=False,
    ),
]
ConfidenceOption = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Palace: how certain the memory is, from 0 to 1; 1 for a new memory.",
        show_default=False,
    ),
]

# ── Searches ────────────────────────────────────────────────────────────────────────────

QueryArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="QUERY...",
        help='A question or some words; "in quotes" a phrase; photo* every word that begins with photo.',
    ),
]
HitLimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1_000, metavar="N", help="Show at most N memories.")
]
ExplainOption = Annotated[
    bool, flag("--explain", text="Say why each memory was found, and how much each reason adds.")
]
