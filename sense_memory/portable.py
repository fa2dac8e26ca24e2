"""Export and import: JSON lines of signed, encrypted events. Readable by any Nostr tool, useless without the key.

An import is a verification: every line is parsed, verified and opened as if a relay had served it, and
each bad one is reported by its number. A file is written beside its name and moved into place whole.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidEvent, InvalidInput
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FRAME_BYTES
from sense_memory.nostr.event import RawEvent, verify


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
        with open(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            for count, body in enumerate(bodies, 1):  # noqa: B007 - the last number is the result
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


async def read_import(
    path: Path,
    author: str,
    admit: Callable[[Sequence[tuple[int, Event]]], Awaitable[tuple[Mapping[str, int], Sequence[BadLine]]]],
    *,
    progress: Callable[[int], None] | None,
) -> ImportReport:
    """Verify a file of JSON lines and hand good events over in batches.

    Args:
        path: the file.
        author: the only author that is taken, 64 hex digits.
        admit: files events; says how each was filed, and which could not be opened.
        progress: called with the number of lines read.

    Raises:
        InvalidInput: the file can not be read.
    """
    counts: Counter[str] = Counter()
    bad: list[BadLine] = []
    batch: list[tuple[int, Event]] = []

    async def hand_over() -> None:
        filed, refused = await admit(batch)
        counts.update(filed)
        bad.extend(refused)
        batch.clear()

    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_FRAME_BYTES):
                number += 1
                event = _checked(line, author)
                if isinstance(event, str):
                    bad.append(BadLine(number, event))
                elif event is not None:
                    batch.append((number, event))
                if len(batch) >= APPLY_BATCH_COUNT:
                    await hand_over()
                    if progress is not None:
                        progress(number)
    except OSError as error:
        raise InvalidInput(f"{path} could not be read ({error.strerror}).") from None
    await hand_over()
    if progress is not None:
        progress(number)
    return ImportReport(dict(counts), tuple(sorted(bad, key=lambda line: line.number)))


def _checked(line: bytes, author: str) -> Event | str | None:
    """The verified event of a line, the problem with it, or None for a blank line."""
    if not line.strip():
        return None
    try:
        event = verify(RawEvent.loads(line))
    except InvalidEvent as error:
        return str(error)
    return event if event.pubkey == author else "signed by another key"
