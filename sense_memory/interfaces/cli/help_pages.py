"""The help pages of commands and groups.

A help page says what a command does, lists its options and exit codes, and gives examples to copy. It is plain text,
80 columns wide, or up to 100 if the terminal has room. Exit codes and examples come from the command's epilog, which
`ends` writes. Only headings are styled, and only on a terminal.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Any, Final

import typer


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAX_WIDTH: Final = 100
_MIN_WIDTH: Final = 50
_MAX_TERM_CHARS: Final = 26  # a longer term gets a line of its own
_CODES: Final = {0: "done", 1: "an error, which is explained", 2: "wrong usage or input; nothing was changed"}
_SHARED_OPTIONS: Final = (
    "Options of every command: --agent NAME, --relay URL, --ledger FILE, --env-file FILE. "
    "See sense-memory --help, also for the environment."
)
_EXAMPLES: Final = "Examples"
EARLIER_NAMES: Final = frozenset(
    {"--apply", "--plan"}
)  # of options; they go on working, and no page lists them

_sentence = re.compile(r"(.+?[.:])(?:\s|$)", re.DOTALL).match

Row = tuple[str, str]  # a term and its explanation


def ends(*examples: str, codes: Mapping[int, str] | None = None) -> str:
    """The end of a help page, as an epilog.

    Args:
        examples: shell commands of one line each; a line that begins with `#` is a remark on the next line.
        codes: exit codes with a meaning of their own for this command.
    """
    meanings = sorted({**_CODES, **(codes or {})}.items())
    rows = [f"  {code}  {meaning}" for code, meaning in meanings]
    return "\n".join(("Exit codes:", *rows, "", f"{_EXAMPLES}:", *(f"  {example}" for example in examples)))


def page(command: Any, ctx: Any) -> str:
    """The help page of a command or a group of commands."""
    width = max(_MIN_WIDTH, min(shutil.get_terminal_size().columns, _MAX_WIDTH)) - 1
    blocks = [command.get_usage(ctx), *_paragraphs(inspect.cleandoc(command.help or ""), width)]
    if hasattr(command, "commands"):
        panels = list(_panels(command, ctx))
        column = max(len(name) for _, rows in panels for name, _ in rows)
        blocks += [_block(heading, rows, width, column) for heading, rows in panels]
        if command.program.default:
            blocks.append(f"Without a COMMAND: {command.program.default}")
    options = [param for param in (*command.params, command.get_help_option(ctx)) if param is not None]
    arguments = [param for param in options if param.param_type_name == "argument"]
    blocks.append(_block("Arguments", [(name_of(param), param.help or "") for param in arguments], width))
    rows = [_option(param) for param in options if param not in arguments and not param.hidden]
    blocks.append(_block("Options", rows, width))
    if ctx.parent is not None:
        blocks.append(textwrap.fill(_SHARED_OPTIONS, width, break_on_hyphens=False))
    for heading, lines in _sections(command.epilog or ""):
        listed = [tuple(re.split(r"\s{2,}", line, maxsplit=1)) for line in lines]
        is_list = heading != _EXAMPLES and all(len(row) == 2 for row in listed)
        blocks.append(_block(heading, listed, width) if is_list else _verbatim(heading, lines))
    return "\n\n".join(filter(None, blocks)) + "\n"


def usage(command: Any) -> list[str]:
    """The arguments after a command's name, for the usage line."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    pieces = [name_of(param) if param.required else f"[{name_of(param)}]" for param in arguments]
    if hasattr(command, "commands"):
        is_optional = command.invoke_without_command or command.program.default
        pieces.append("[COMMAND ...]" if is_optional else "COMMAND ...")
    return ["[OPTIONS]", *pieces]


def first_sentence(text: str) -> str:
    """The description of a command, for lists of commands."""
    whole = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    found = _sentence(whole)
    return found[1].rstrip(".:") if found else whole


def _panels(group: Any, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
    """The commands of a group, by the panels they belong to."""
    panels: dict[str, list[Row]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            panel = getattr(command, "rich_help_panel", None)
            rows = panels.setdefault(panel if isinstance(panel, str) else "Commands", [])
            rows.append((name, first_sentence(command.help or "")))
    yield from panels.items()


def name_of(param: Any) -> str:
    """The name of an argument, or of the value of an option."""
    return str(param.metavar or param.name.upper())


def _option(param: Any) -> Row:
    """An option as on the command line, and its meaning with its default."""
    listed = [name for name in sorted(param.opts, key=len) if name not in EARLIER_NAMES]
    names = ", ".join((*listed, *param.secondary_opts))
    shown = names if param.is_flag else f"{names} {name_of(param)}"
    text = param.help or ""
    default = None if param.is_flag or param.show_default is False else param.default
    if isinstance(default, int | float | str) and default != "":
        text += f" Default: {default:g}." if isinstance(default, int | float) else f" Default: {default}."
    return shown, text


def _paragraphs(text: str, width: int) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n\n")):
        yield textwrap.fill(
            " ".join(paragraph.split()), width, break_on_hyphens=False, break_long_words=False
        )


def _sections(epilog: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of an epilog: a heading with a colon, and indented lines. `Example: …` is a section too."""
    text = re.sub(r"^Example: (.*)$", rf"{_EXAMPLES}:\n  \1", inspect.cleandoc(epilog), flags=re.MULTILINE)
    for section in filter(None, text.split("\n\n")):
        heading, *lines = section.split("\n")
        yield heading.rstrip(":"), [line.removeprefix("  ") for line in lines]


def _block(heading: str, rows: Iterable[Any], width: int, least: int = 0) -> str:
    """A heading, and a list of terms with explanations; empty where there are no rows.

    Args:
        heading: without a colon.
        rows: pairs of name and explanation.
        width: characters of a line.
        least: characters of the longest name in other lists, to align this list with them.
    """
    listed = list(rows)
    if not listed:
        return ""
    column = min(_MAX_TERM_CHARS, max(least, *(len(name) for name, _ in listed))) + 4
    lines = []
    for name, text in listed:
        beside = len(name) + 4 <= column
        begin = f"  {name}".ljust(column) if beside else " " * column
        lines += [] if beside else [f"  {name}"]
        lines.append(
            textwrap.fill(
                text, width, initial_indent=begin, subsequent_indent=" " * column, break_on_hyphens=False
            )
            or begin.rstrip()
        )
    return "\n".join((_heading(heading), *lines))


def _verbatim(heading: str, lines: Iterable[str]) -> str:
    return "\n".join((_heading(heading), *(f"  {line}".rstrip() for line in lines)))


def _heading(text: str) -> str:
    return f"{text}:" if "NO_COLOR" in os.environ else typer.style(f"{text}:", bold=True)
