"""Export and import: JSON lines of signed, encrypted events. Readable by any Nostr tool, useless without the key.

An import is a verification: every line is parsed, verified and opened as if a relay had served it, and
each bad one is reported by its number. A file is written beside its name and moved into place whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidEvent, InvalidInput
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FRAME_BYTES
from sense_memory.nostr.event import RawEvent, verify


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from sense_memory.nostr.event import Event


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of an import that was not taken.

    Attributes:
        number: counted from 1.
        problem: why, in our words.
    """

    number: int
    problem: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of an import.

    Attributes:
        counts: how the good lines were filed: new, known, stale, deleted, quarantined, …
        bad: the lines that were not taken, in order.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    bad: tuple[BadLine, ...] = ()


def write_export(
    path: Path, bodies: Iterable[bytes], *, overwrite: bool, progress: Callable[[int], None] | None
) -> int:
    """Write events as JSON lines into a file of mode 0600; returns how many.

    Raises:
        InvalidInput: the file exists and `overwrite` is off, or the folder can not be written.
    """
    if path.exists() and not overwrite:
        raise InvalidInput(f"{path} exists; it was not touched. Choose another name.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    count = 0
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for count, body in enumerate(bodies, 1):
                file.write(body + b"\n")
                if progress is not None and count % APPLY_BATCH_COUNT == 0:
                    progress(count)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} could not be written ({error.strerror}); nothing was changed.") from None
    finally:
        temporary.unlink(missing_ok=True)
    if progress is not None:
        progress(count)
    return count


def read_import(path: Path, author: str) -> Iterator[tuple[int, Event | str]]:
    """Each line of a file with its number: the verified event, or the problem with it. Blank lines are skipped.

    Args:
        path: JSON lines.
        author: the only author that is taken, 64 hex digits.

    Raises:
        InvalidInput: the file can not be read.
    """
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_FRAME_BYTES):
                number += 1
                while not line.endswith(b"\n") and (rest := file.readline(MAX_FRAME_BYTES)):
                    line = b"-" + rest[-1:]  # longer than any event: read on to its end, keep nothing
                if line.strip():
                    yield number, _checked(line, author)
    except OSError as error:
        raise InvalidInput(f"{path} could not be read ({error.strerror}).") from None


def _checked(line: bytes, author: str) -> Event | str:
    """The verified event of a line, or the problem with it."""
    try:
        event = verify(RawEvent.loads(line))
    except InvalidEvent as error:
        return str(error)
    return event if event.pubkey == author else "signed by another key"
