"""stdin, stdout and stderr of the process, made so that no stream can end a command with a traceback.

A closed stream (`<&-`, `>&-`) is opened on the null device: otherwise the next file would get its number, and output
would go into that file. A write that stdout does not take raises `OutputFailed`, which ends the program; a write that
stderr does not take is lost, because no stream is left for a report. This module imports nothing that takes time.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO


if TYPE_CHECKING:
    from collections.abc import Callable

_STDOUT: Final = 1
_STDERR: Final = 2


class OutputFailed(Exception):
    """stdout takes no more output.

    This is not an OSError: libraries handle OSError in ways of their own, and a file may have raised one.

    Attributes:
        problem: why, in a few words; empty where the reader has left, as `head` does when it has enough.
    """

    def __init__(self, error: OSError) -> None:
        self.problem = "" if isinstance(error, BrokenPipeError) else error.strerror or "it takes nothing"
        super().__init__(self.problem)


class _Output(io.FileIO):
    def write(self, data: Any, /) -> Any:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error) from None


class _Messages(io.FileIO):
    def write(self, data: Any, /) -> Any:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Open closed streams, and replace stdout and stderr by streams that fail as described above.

    A stream that a caller has put in the place of the process's own stays.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if _is_closed(number):
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.stdout = _replaced(sys.stdout, _STDOUT, _Output)
    sys.stderr = _replaced(sys.stderr, _STDERR, _Messages)


def end() -> OutputFailed | None:
    """Flush the streams, and drop what cannot be printed; returns what went wrong."""
    try:
        sys.stdout.flush()
    except OutputFailed as error:
        drop()
        return error
    return None


def drop() -> None:
    """Discard the pending output of stdout; otherwise the interpreter would try again, and report an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _replaced(stream: TextIO, number: int, raw: Callable[..., io.FileIO]) -> TextIO:
    """A stream like the given one, on the same file."""
    try:
        is_own = isinstance(stream, io.TextIOWrapper) and stream.fileno() == number
    except OSError:  # in memory
        is_own = False
    if not is_own or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    is_unicode = stream.encoding.lower().startswith("utf")
    return io.TextIOWrapper(
        io.BufferedWriter(raw(number, "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors if is_unicode else "backslashreplace",  # or a single "…" would end the program
        line_buffering=stream.line_buffering or number == _STDERR,
        write_through=stream.write_through,
    )
