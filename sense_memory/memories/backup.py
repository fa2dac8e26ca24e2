"""Export, import, and the rescue of a damaged ledger.

An export is a file of JSON lines: signed, encrypted events, which any Nostr tool can read and only the key can decrypt.
It is written to a temporary file and moved into place whole. An import trusts nothing: every line is parsed, verified
and decrypted like an event from a relay, and each bad line is reported by its number. A rescue treats the rows of a
damaged ledger in the same way.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import secrets
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.config.key_file import sync_folder
from sense_memory.errors import BadPayload, InvalidEvent, InvalidInput, LedgerCorrupt, WrongKeyError
from sense_memory.ledger import Ledger
from sense_memory.ledger.database import refuse_foreign
from sense_memory.ledger.files import remove_if_abandoned
from sense_memory.ledger.rescue import RescueReport, Salvage, move_aside, rename, salvage
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FRAME_BYTES
from sense_memory.nostr.event import RawEvent, verify
from sense_memory.nostr.keys import npub
from sense_memory.operating_system import lock
from sense_memory.records import envelope
from sense_memory.records.local_cipher import LOG_KEY_NAME, opened_cipher
from sense_memory.records.reader import Reader


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import BinaryIO

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer

_PART: Final = re.compile(r"\.export-[0-9a-f]{8}\.part")
_LEFT_OUT: Final = {  # the problem of a line, by the reader's reason for leaving out its event
    "foreign": "an event of another program",
    "misfiled": "holds a memory of another address",
    "unreadable": "cannot be opened with this key",
}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of an import that was left out.

    Attributes:
        number: counted from 1.
        problem: why the line was left out; repeats nothing of the line.
        author: npub of the key that signed the line; empty if the line is not a valid event.
    """

    number: int
    problem: str
    author: str = ""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import.

    Attributes:
        counts: how many good lines were filed as new, known, stale, deleted, quarantined, …
        bad: the lines that were left out, in order.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    bad: tuple[BadLine, ...] = ()


def write_export(
    target: Path | BinaryIO,
    bodies: Iterable[bytes],
    *,
    overwrite: bool,
    progress: Callable[[int], None] | None,
) -> int:
    """Write events as JSON lines to a new file of mode 0600, or to an open file; returns how many.

    Raises:
        InvalidInput: the file exists and `overwrite` is off, or the folder cannot be written.
    """
    if not isinstance(target, Path):
        return _write_lines(target, bodies, progress)
    try:
        if target.exists() and not overwrite:
            raise InvalidInput(
                f"{target} exists; the file was not touched; choose another name, or allow overwriting"
            )
        if target.exists() and not target.is_file():
            raise InvalidInput(f"{target} is not a plain file; it was not touched; choose another name")
        _remove_leftovers(target.parent)
        descriptor, path = _begin(target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                count = _write_lines(file, bodies, progress)
                os.fsync(descriptor)
                path = path or _named(target.parent, partial(_link, descriptor))
                path.replace(target)
        except BaseException:
            if path is not None:
                path.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise InvalidInput(f"{target} cannot be written ({error.strerror})") from None
    return count


def _begin(folder: Path) -> tuple[int, Path | None]:
    """Open a locked file of mode 0600. It has no name if the system allows that, so a killed export leaves nothing."""
    with suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if Path(_own(descriptor)).exists():
            return _locked(descriptor), None
        os.close(descriptor)
    descriptors: list[int] = []
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    path = _named(folder, lambda path: descriptors.append(os.open(path, flags, 0o600)))
    return _locked(descriptors[0]), path


def _named(folder: Path, make: Callable[[Path], None]) -> Path:
    """Make a file with a new name: an export never writes to a file that a killed export or another program made."""
    while True:
        path = folder / f".export-{secrets.token_hex(4)}.part"
        with suppress(FileExistsError):
            make(path)
            return path


def _link(descriptor: int, path: Path) -> None:
    # Python follows the link only if `src_dir_fd` is given, although an absolute name needs no folder.
    os.link(_own(descriptor), path, src_dir_fd=descriptor, follow_symlinks=True)


def _own(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _locked(descriptor: int) -> int:
    with suppress(OSError):  # on a file system without locks, no process removes unlocked files either
        lock(descriptor)
    return descriptor


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed exports."""
    for path in folder.glob(".export-*.part"):
        if _PART.fullmatch(path.name):
            with suppress(OSError):  # the export is still running, or the file belongs to another user
                remove_if_abandoned(path)


def _write_lines(file: BinaryIO, bodies: Iterable[bytes], progress: Callable[[int], None] | None) -> int:
    count = 0
    for count, body in enumerate(bodies, 1):
        file.write(body + b"\n")
        if progress is not None and count % APPLY_BATCH_COUNT == 0:
            progress(count)
    file.flush()
    if progress is not None:
        progress(count)
    return count


async def import_file(
    reader: Reader, source: Path | BinaryIO, author: str, progress: Callable[[int], None] | None
) -> ImportReport:
    """File the events of a file of JSON lines, in batches. Quarantined events whose time has come are filed first.

    Args:
        reader: decrypts and files events.
        source: as `read_import`.
        author: as `read_import`.
        progress: called with the number of lines read so far.

    Raises:
        InvalidInput: the file cannot be read.
    """
    counts: Counter[str] = Counter()
    bad: list[BadLine] = []
    await reader.file_quarantined()  # without relays there is no sync that would do this
    lines = read_import(source, author)
    while batch := list(itertools.islice(lines, APPLY_BATCH_COUNT)):
        good = [(number, event) for number, event in batch if not isinstance(event, BadLine)]
        filed, left_out = await reader.file_events([event for _, event in good], None)
        counts.update({fate: filed[fate] for fate in filed.keys() - set(left_out.values())})
        bad += [line for _, line in batch if isinstance(line, BadLine)]
        bad += [
            BadLine(good[index][0], _LEFT_OUT[reason], npub(author)) for index, reason in left_out.items()
        ]
        if len(batch) == APPLY_BATCH_COUNT:
            await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
        if progress is not None:
            progress(batch[-1][0])
    return ImportReport(dict(counts), tuple(sorted(bad, key=lambda line: line.number)))


def read_import(source: Path | BinaryIO, author: str) -> Iterator[tuple[int, Event | BadLine]]:
    """The lines of a file with their numbers, each as a verified event or a `BadLine`. Blank lines are skipped.

    Args:
        source: JSON lines; an open file stays open.
        author: the only author whose events are imported, 64 hex digits.

    Raises:
        InvalidInput: the file cannot be read.
    """
    try:
        with source.open("rb") if isinstance(source, Path) else nullcontext(source) as file:
            for number, line in enumerate(_lines(file), 1):
                if line is None:
                    yield number, BadLine(number, f"longer than {MAX_FRAME_BYTES:,} bytes")
                elif line.strip():
                    yield number, _checked(number, line, author)
    except OSError as error:
        raise InvalidInput(f"{source} cannot be read ({error.strerror})") from None


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a file; None for a line longer than any event, which is never held in RAM whole."""
    while line := file.readline(MAX_FRAME_BYTES):
        is_whole = line.endswith(b"\n") or len(line) < MAX_FRAME_BYTES
        rest = line
        while len(rest) == MAX_FRAME_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_FRAME_BYTES)
        yield line if is_whole else None


def _checked(number: int, line: bytes, author: str) -> Event | BadLine:
    """The verified event of a line, or a `BadLine` with the problem."""
    try:
        event = verify(RawEvent.loads(line))
    except InvalidEvent as error:
        return BadLine(number, str(error))
    return event if event.pubkey == author else BadLine(number, "signed by another key", npub(event.pubkey))


# ── Rescue ──────────────────────────────────────────────────────────────────────────────


def integrity(ledger: Ledger, signer: Signer) -> list[str]:
    """The problems of a ledger: what SQLite finds, events that no longer verify, and rows of the log that do not open.

    The rows are left out if the signer has to wait for another machine, because this function cannot.
    """
    problems = ledger.integrity()
    for body in ledger.bodies():
        try:
            verify(RawEvent.loads(body))
        except InvalidEvent as error:
            problems.append(f"a stored event does not verify: {error}")
    looking = _altered_rows(ledger, signer)
    try:
        looking.send(None)
    except StopIteration as done:  # a local signer never waits
        problems += done.value
    finally:
        looking.close()
    return problems


async def _altered_rows(ledger: Ledger, signer: Signer) -> list[str]:
    """A problem for each entry of the log that is in no page yet and does not open; one if their key does not open."""
    if not ledger.log_rows:
        return []
    try:
        cipher = await opened_cipher(signer, ledger.log_rows.key or "", LOG_KEY_NAME)
    except BadPayload:
        return ["the key of the log does not open, so its newest entries are left out"]
    problems = []
    for number, body in ledger.log_rows.after(0):
        try:
            cipher.open(body)
        except BadPayload:
            problems.append(
                f"entry {number} of the log was altered, or sealed under another key; it is left out"
            )
    return problems


async def rescue(path: Path, signer: Signer, clock: Callable[[], float]) -> RescueReport:
    """Move a damaged ledger aside, and file its readable events in a new ledger; no process may have the ledger open.

    Args:
        path: the ledger's file.
        signer: decrypts the owner's events.
        clock: seconds since 1970.

    Raises: as `MemoryStore.rescue`.
    """
    if not await asyncio.to_thread(path.is_file):
        raise InvalidInput(f"there is no such file: {path}")
    await asyncio.to_thread(refuse_foreign, path)
    if await _is_sound(path, signer, clock):
        raise InvalidInput(f"{path} is not damaged; the file was not touched")
    fresh = path.with_name(f"{path.name}.rescue")
    _remove_ledger(fresh)
    try:
        report = await _rescued(path, fresh, signer, clock)
        aside = move_aside(path)
        rename(fresh, path)
    finally:
        _remove_ledger(fresh)
    ledger = await Ledger.opened(path, signer.public_key)
    try:
        await ledger.write_if_due(ledger.snapshot.discard)
    finally:
        ledger.close()
    return replace(report, aside=aside)


async def _rescued(path: Path, fresh: Path, signer: Signer, clock: Callable[[], float]) -> RescueReport:
    """File what a damaged ledger holds in a new ledger.

    It gets the name of the damaged one only when it is complete: a rescue that was stopped can be begun again.
    """
    saved = await asyncio.to_thread(salvage, path)
    ledger = await Ledger.opened(fresh, signer.public_key)
    try:
        report = await _file_events(path, saved, ledger, signer, clock)
        lost = await _file_log_rows(saved, ledger, signer)
        return replace(report, unreadable=report.unreadable + lost)
    finally:
        ledger.close()


def _remove_ledger(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", ".lock", ".writers"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


async def _is_sound(path: Path, signer: Signer, clock: Callable[[], float]) -> bool:
    with suppress(LedgerCorrupt):
        ledger = await Ledger.opened(path, signer.public_key)
        try:
            await Reader(signer, ledger, clock).file_quarantined()
            return not integrity(ledger, signer)
        finally:
            ledger.close()
    return False


async def _file_events(
    aside: Path, saved: Salvage, ledger: Ledger, signer: Signer, clock: Callable[[], float]
) -> RescueReport:
    """Verify, decrypt and file the events and drafts that were read from the damaged ledger."""
    reader = Reader(signer, ledger, clock)
    counts: Counter[str] = Counter()
    unreadable, rest = saved.unreadable, iter(saved.bodies)
    while batch := list(itertools.islice(rest, APPLY_BATCH_COUNT)):
        events = [event for body in batch if (event := _verified(body)) is not None]
        if events and all(event.pubkey != signer.public_key for event in events):
            raise WrongKeyError(npub(events[0].pubkey), npub(signer.public_key))
        filed, left_out = await reader.file_events(events, None)
        unreadable += len(batch) - len(events) + len(left_out)
        counts.update({fate: filed[fate] for fate in filed.keys() - set(left_out.values())})
    drafts = [draft for draft in saved.drafts if await _opens(draft, signer)]
    ledger.drafts.add(drafts, clock())
    return RescueReport(aside, dict(counts), len(drafts), unreadable + len(saved.drafts) - len(drafts))


async def _opens(draft: tuple[str, str], signer: Signer) -> bool:
    slot, content = draft
    try:
        await envelope.open_draft(signer, content, slot)
    except (BadPayload, TypeError, AttributeError):  # a damaged row may hold other types
        return False
    return True


async def _file_log_rows(saved: Salvage, ledger: Ledger, signer: Signer) -> int:
    """File the entries of the log that were in no page yet, with their key; returns how many do not open."""
    if not saved.log_rows:
        return 0
    good = list[bytes]()
    with suppress(BadPayload):
        cipher = await opened_cipher(signer, saved.log_key, LOG_KEY_NAME)
        await ledger.write(ledger.log_rows.save_key, saved.log_key)
        for row in saved.log_rows:
            with suppress(BadPayload):
                cipher.open(row)
                good.append(row)
    await ledger.write(ledger.log_rows.add, good)
    return len(saved.log_rows) - len(good)


def _verified(body: bytes) -> Event | None:
    try:
        return verify(RawEvent.loads(body))
    except InvalidEvent:
        return None
