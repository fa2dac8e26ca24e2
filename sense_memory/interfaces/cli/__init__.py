"""The command line, `sense-memory`. It parses, calls a store, and prints; it decides nothing about memories.

One module per group of commands; each registers its own. Every command takes `--json`, before or after its name. Only
this module is imported before `main` runs, so that `main` handles Ctrl-C from the start.
"""

from __future__ import annotations

import os
import signal
import sys


TYPE_CHECKING = False  # `typing.TYPE_CHECKING` would import typing, which takes a while
if TYPE_CHECKING:
    from typing import Any

    from sense_memory.interfaces.cli.program import app

__all__ = ["app", "main"]

COMPLETE = (
    "_SENSE_MEMORY_COMPLETE"  # holds the command line so far for a shell's Tab; unset for a typed command
)
_OBJECTS = 200_000  # new objects before a garbage collection; a command on a whole palace makes as many


def __getattr__(name: str) -> Any:
    """The program, which takes a while to import."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sense_memory.interfaces.cli.program import app

    return app


def main() -> None:
    """Run the program: parse `sys.argv`, act, exit. A shell that completes a command line gets words instead.

    Ctrl-C ends the process at once and silently where nothing can be lost: before a command begins, and after it has
    ended. In between, the command reports what is done.
    """
    # Shells make background commands ignore Ctrl-C.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from sense_memory.interfaces.cli import streams

    streams.prepare()
    code = 0
    try:
        code = _run(is_interruptible=is_interruptible)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except streams.OutputFailed as failed:
        code = _without_output(failed)
    finally:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    failed_late = streams.end()
    if failed_late is not None:
        code = code or _without_output(failed_late)
    if code:
        sys.exit(code)


def _run(*, is_interruptible: bool) -> Any:
    """Run the command; returns its exit code."""
    import gc
    import logging

    import typer

    from sense_memory.interfaces.cli.program import app

    if COMPLETE in os.environ:
        from sense_memory.interfaces.cli import completion

        sys.stdout.write(completion.answer(os.environ[COMPLETE]))
        return 0
    command = typer.main.get_command(app)
    gc.set_threshold(_OBJECTS)
    # Commands report the rest in their own words.
    logging.getLogger("sense_memory.relay").setLevel(logging.ERROR)
    try:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.unraisablehook = _unraisable
        command(prog_name="sense-memory")
    except SystemExit as ended:
        return ended.code
    finally:
        gc.freeze()  # memory goes with the process: one more garbage collection takes a tenth of a second
    return 0


def _unraisable(lost: Any) -> None:
    """End at once if Ctrl-C came where Python could not raise the interrupt, but would print and ignore it."""
    if lost.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    sys.__unraisablehook__(lost)


def _without_output(failed: Any) -> int:
    """End a command whose output could not be printed; returns its exit code, which is not an error for `| head`."""
    from sense_memory.interfaces.cli import streams
    from sense_memory.interfaces.cli.invocation import say

    streams.drop()
    if not failed.problem:
        return 0
    say("error", f"stdout could not be written: {failed.problem}")
    return 1
