"""`palace plot`: the year ahead of a palace, if nothing is recalled, as a picture (PNG, SVG) or as numbers.

matplotlib is imported only for a picture. Every name in a picture is data: matplotlib's own markup is switched off.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput, MissingExtra
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.palace.group import REVIEWS, command, look, no_palace
from sense_memory.interfaces.cli.palace.shapes import BOUNDS
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.text import as_json, one_line, quantity
from sense_memory.limits import DAY_SECONDS


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from sense_memory.palace.catalog import Forecast

_YEAR_DAYS: Final = 365
_STEPS: Final = 120  # moments of a curve
_SHOWN_DAYS: Final = (0, 30, 91, 182, _YEAR_DAYS)  # rows of the table
_FORMATS: Final = (".png", ".svg")


@command(
    REVIEWS,
    "sense-memory palace plot",
    "sense-memory palace plot palace.png",
    "sense-memory palace plot people.svg --domain people --days 90",
    codes={4: "there is no such domain"},
)
def plot(
    context: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", show_default=False, help="Draw a picture into this file: NAME.png or NAME.svg."
        ),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(metavar="DOMAIN", help="Only this domain.", show_default=False)
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=36_500, metavar="N", help="Look this many days ahead.")
    ] = _YEAR_DAYS,
    force: Annotated[bool, flag("--force", text="Replace an existing file.")] = False,
    _json: JsonOption = False,
) -> None:
    """Show how the palace will fade if nothing is recalled: states now and in future, and by domain.

    With a FILE, draw the curves, the states over time and the domains; a picture needs the extra `plot`. Without a
    FILE, print a table; a pipe gets one line for each date, with tabs between date, active, fading, forgotten and
    dissolved. Nothing is revived. An existing file is replaced only with --force.
    """
    invocation = of(context)
    if file is not None and file.suffix.lower() not in _FORMATS:
        raise InvalidInput(
            f"{str(file)!r} ends neither in .png nor in .svg, so the kind of the picture is unknown; name the file *.png or *.svg"
        )
    if file is not None and file.exists() and not force:
        raise InvalidInput(
            f"{file} exists, and was not touched; give another name, or --force to replace the file"
        )
    memories = [insight.memory for insight in look(invocation, domain, needs_place=True)]
    now = time.time()
    if not memories:
        typer.echo(
            as_json(shape_of(PalaceAhead())) if invocation.as_json else no_palace(),
            err=not invocation.as_json,
        )
        return
    from sense_memory.palace.catalog import Forecast  # late: numpy takes a while

    if file is not None:
        ahead = [now + days * DAY_SECONDS * step / (_STEPS - 1) for step in range(_STEPS)]
        _draw(file, Forecast.of(memories, ahead), domain)
    table = Forecast.of(
        memories, [now + day * DAY_SECONDS for day in sorted({*_SHOWN_DAYS, days}) if day <= days]
    )
    if invocation.as_json:
        typer.echo(as_json(shape_of(PalaceAhead.of(table, file))))
    elif file is not None:
        typer.echo(f"drew {quantity(len(memories), 'memory', 'memories')} in {file}")
    else:
        _print(table)


def _at(forecast: Forecast, moment: int) -> dict[str, int]:
    return {state: int(counts[moment]) for state, counts in forecast.states().items()}


@thing("domain now")
@dataclass(frozen=True, slots=True)
class DomainNow:
    """A domain as it is now.

    Attributes:
        domain: its name.
        count: how many memories it has.
        states: how many of them are in each state.
    """

    domain: str
    count: int
    states: Mapping[str, int]

    @classmethod
    def all_of(cls, forecast: Forecast) -> list[DomainNow]:
        """The domains of a forecast, the largest first."""
        return [
            cls(name, len(at), {state: int(counts[0]) for state, counts in forecast.states(at).items()})
            for name, at in forecast.domains().items()
        ]


@thing("moment ahead")
@dataclass(frozen=True, slots=True)
class MomentAhead:
    """The palace at a moment, if nothing is recalled until then.

    Attributes:
        at: the moment.
        states: how many memories are in each state.
    """

    at: float
    states: Mapping[str, int]


@thing("forecast")
@dataclass(frozen=True, slots=True)
class PalaceAhead:
    """How a palace fades if nothing is recalled.

    Attributes:
        file: the picture; null where none was drawn.
        total: how many memories there are.
        ahead: the palace at some moments, now first.
        domains: each domain now, the largest first.
    """

    file: Path | None = None
    total: int = 0
    ahead: Sequence[MomentAhead] = ()
    domains: Sequence[DomainNow] = ()

    @classmethod
    def of(cls, forecast: Forecast, file: Path | None) -> PalaceAhead:
        """The forecast of a palace, and its picture if there is one."""
        moments = [MomentAhead(at, _at(forecast, number)) for number, at in enumerate(forecast.times)]
        return cls(file, len(forecast.memories), moments, DomainNow.all_of(forecast))


def _print(forecast: Forecast) -> None:
    """The states at some moments, and on a terminal the domains as they are now too."""
    states = list(forecast.states())
    rows = [
        (_day(moment), *(f"{count:,}" for count in _at(forecast, number).values()))
        for number, moment in enumerate(forecast.times)
    ]
    show_rows(("if nothing is recalled", *states), rows, numbers=states)
    if sys.stdout.isatty():
        typer.echo()
        found = DomainNow.all_of(forecast)
        named = [(one.domain, *(f"{count:,}" for count in one.states.values())) for one in found]
        show_rows(("domain, now", *states), named, numbers=states)


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d")


# ── The picture ─────────────────────────────────────────────────────────────────────────

_COLOURS: Final = {  # ever lighter, so that they are told apart in grey too
    "active": "#1b7f5c",
    "fading": "#e9a13b",
    "forgotten": "#a3abb5",
    "dissolved": "#d9d2d8",
}
_INKS: Final = {  # of words in these colours, dark enough to read on white
    "active": "#146548",
    "fading": "#a3650c",
    "forgotten": "#59626c",
    "dissolved": "#84717e",
}
_INK: Final = "#22262b"
_SOFT: Final = "#5d6670"
_FAINT: Final = "#d9dde2"
_MAX_CURVES: Final = 120  # more would be a smear, and megabytes of SVG
_MAX_DOMAINS: Final = 10
_LEAST_ROWS: Final = 4  # so that one bar alone does not fill the picture
_NAME_CHARS: Final = 18  # of a domain, in a label
_NEXT_COUNT: Final = 3  # memories that the subtitle names, if it has room for them
_NEXT_CHARS: Final = 118  # of the subtitle, which is as wide as the curves
_PATH_CHARS: Final = 60  # of a path in it
_NEXT_TICK: Final = 1.2  # a relevance above it has a tick of its own
_PNG_DPI: Final = 150
_DIGIT_SHARE: Final = 0.027  # of the largest bar: what a digit takes


def _draw(file: Path, forecast: Forecast, domain: str | None) -> None:
    """Write the picture, and its folder if there is none.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plot") from None
    style: dict[str, Any] = {
        "font.size": 10.5,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _FAINT,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.parse_math": False,
        "svg.hashsalt": "sense-memory",
    }
    with rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing"
        )  # a name in a script without a font here
        figure = Figure(figsize=(11, 8), layout="constrained", facecolor="white")
        title = f"{_span(forecast)} of {_whole(domain)}, if nothing is recalled"
        heading = figure.suptitle(title, fontsize=15, fontweight="bold", ha="left")
        grid = figure.add_gridspec(
            2, 2, height_ratios=(1.15, 1), width_ratios=(1.25, 1), hspace=0.08, wspace=0.04
        )
        _draw_curves(figure.add_subplot(grid[0, :]), forecast)
        _draw_states(figure.add_subplot(grid[1, 0]), forecast)
        _draw_domains(figure.add_subplot(grid[1, 1]), forecast)
        figure.draw_without_rendering()  # now the layout is known
        heading.set_x(figure.axes[0].get_position().x0)
        metadata: dict[str, Any] = {"Title": title, "Description": _next_to_fade(forecast)}
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=_PNG_DPI, metadata=metadata)


def _span(forecast: Forecast) -> str:
    days = round((forecast.times[-1] - forecast.times[0]) / DAY_SECONDS)
    return "The year ahead" if days == _YEAR_DAYS else f"The next {quantity(days, 'day')}"


def _whole(domain: str | None) -> str:
    return "the palace" if domain is None else f"{one_line(domain, _NAME_CHARS)} in the palace"


def _draw_curves(axes: Axes, forecast: Forecast) -> None:
    """The relevance of memories over time, coloured by state; the axis is that of a square root, so that small bounds
    show.
    """
    import numpy as np

    count = len(forecast.memories)
    drawn = np.unique(np.linspace(0, count - 1, min(count, _MAX_CURVES)).round().astype(int))
    top = max(1.0, float(forecast.relevances.max()))
    axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0)), np.square))
    edges = [top, *BOUNDS.values(), 0.0]
    for (state, colour), upper, lower in zip(_COLOURS.items(), edges, edges[1:], strict=False):
        axes.axhspan(lower, upper, color=colour, alpha=0.07, linewidth=0)
        for place in drawn:
            curve = forecast.relevances[place]
            inside = (curve <= upper) & (curve >= lower)
            inside[:-1] |= inside[1:]  # to where the next state begins
            shown = np.where(inside, curve, np.nan)
            if inside.any():
                axes.plot(
                    _dates(forecast), shown, color=colour, linewidth=1.1, alpha=0.75, solid_capstyle="round"
                )
        middle = ((np.sqrt(upper) + np.sqrt(lower)) / 2) ** 2
        axes.text(
            1.008,
            middle,
            state,
            color=_INKS[state],
            fontweight="bold",
            transform=axes.get_yaxis_transform(),
            va="center",
        )
    axes.set_ylim(0, top)
    ticks = [0.0, *reversed(BOUNDS.values()), 1.0, *([top] if top > _NEXT_TICK else [])]
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.set_ylabel("relevance (1: as new)")
    for bound in BOUNDS.values():
        axes.axhline(bound, color=_INK, linewidth=0.5, alpha=0.4, linestyle=(0, (4, 4)))
    which = (
        f"{len(drawn):,} of {count:,} memories"
        if len(drawn) < count
        else quantity(count, "memory", "memories")
    )
    _named(axes, f"Relevance of {which}, from {_dates(forecast)[0]:%-d %B %Y} on", _next_to_fade(forecast))
    _time_axis(axes, forecast)


def _draw_states(axes: Axes, forecast: Forecast) -> None:
    """How many memories are in each state over time, stacked."""
    from matplotlib.ticker import MaxNLocator

    counts = forecast.states()
    axes.stackplot(
        _dates(forecast), *counts.values(), colors=[_COLOURS[state] for state in counts], linewidth=0
    )
    axes.set_ylim(0, len(forecast.memories))
    axes.set_ylabel("memories")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    left = {state: int(numbers[-1]) for state, numbers in counts.items()}
    _named(
        axes,
        "States over time",
        "at the end: " + ", ".join(f"{number:,} {state}" for state, number in left.items() if number),
    )
    _time_axis(axes, forecast)


def _draw_domains(axes: Axes, forecast: Forecast) -> None:
    """How many memories of each domain are in each state now, as stacked bars with their numbers."""
    domains = list(forecast.domains().items())
    shown = domains[:_MAX_DOMAINS]
    if rest := [place for _, places in domains[_MAX_DOMAINS:] for place in places]:
        shown.append((f"{len(domains) - _MAX_DOMAINS:,} more", rest))
    largest = max(len(places) for _, places in shown)
    for row, (_, places) in enumerate(shown):
        begin = 0
        for state, counts in forecast.states(places).items():
            if number := int(counts[0]):
                axes.barh(row, number, left=begin, color=_COLOURS[state], height=0.66)
                if number / largest > _DIGIT_SHARE * (1 + len(f"{number:,}")):
                    ink = "white" if state == "active" else _INK
                    axes.text(
                        begin + number / 2,
                        row,
                        f"{number:,}",
                        color=ink,
                        ha="center",
                        va="center",
                        fontsize=9.5,
                    )
                begin += number
        axes.text(begin + largest * 0.02, row, f"{begin:,}", va="center", fontsize=9.5)
    axes.set_yticks(range(len(shown)), [one_line(name, _NAME_CHARS) for name, _ in shown])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(shown), _LEAST_ROWS) - 0.5, -0.5)
    axes.set_xlim(0, largest * 1.12)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    _named(
        axes,
        "Domains, now",
        ", ".join(f"{int(counts[0]):,} {state}" for state, counts in forecast.states().items() if counts[0]),
    )


def _named(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold", fontsize=12, pad=22)
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, fontsize=9.5, color=_SOFT)


def _time_axis(axes: Axes, forecast: Forecast) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    dates = _dates(forecast)
    axes.set_xlim(dates[0], dates[-1])
    locator = AutoDateLocator(minticks=4, maxticks=9)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))


def _dates(forecast: Forecast) -> list[Any]:
    return [datetime.fromtimestamp(moment).astimezone() for moment in forecast.times]


def _next_to_fade(forecast: Forecast) -> str:
    """The memories that are the next to leave the state active, with the days."""
    from rich.cells import cell_len, set_cell_size

    from sense_memory.limits import ACTIVE_ABOVE

    found = []
    for place, memory in enumerate(forecast.memories):
        is_active = forecast.relevances[place] > ACTIVE_ABOVE
        if is_active[0] and not is_active.all():
            found.append((forecast.times[int(is_active.argmin())], one_line(memory.path)))
    if not found:
        return "no active memory fades in that time"
    told = "next to fade: "
    for number, (moment, path) in enumerate(sorted(found)[:_NEXT_COUNT]):
        name = path if cell_len(path) <= _PATH_CHARS else f"{set_cell_size(path, _PATH_CHARS - 1)}…"
        more = f"{', ' if number else ''}{name} ({datetime.fromtimestamp(moment).astimezone():%-d %b})"
        if cell_len(told + more) > _NEXT_CHARS:
            break
        told += more
    return told
