"""`check` and `bisect`: whether a memory still knows what it must, and which write broke it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.checks import PastStates, PastWrite, culprit, outcomes, parsed
from sense_memory.checks.check_file import MAX_FILE_BYTES
from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import argument, moment, option
from sense_memory.interfaces.cli.invocation import ExitCode, note
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes.shape import thing
from sense_memory.interfaces.text import iso, one_line, quantity


if TYPE_CHECKING:
    from sense_memory.checks import Culprit, MemoryCheck, Outcome
    from sense_memory.store import MemoryStore

_VALUE_CHARS = 200


@thing("checked line")
@dataclass(frozen=True, slots=True)
class CheckedLine:
    """One line of a file of checks.

    Attributes:
        line: its number in the file.
        asked: the question; empty for a prompt without one.
        as_of: the time that it was checked at; null for now.
        expected: what the line says.
        ok: whether it holds.
        why: what was there instead; empty if it holds.
    """

    line: int
    asked: str
    as_of: str | None
    expected: str
    ok: bool
    why: str


@thing("broken line", or_null=("path", "event_id", "value", "source", "device"))
@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line that fails, with the write that broke it.

    Attributes:
        line: its number in the file.
        asked: the question; empty for a prompt without one.
        expected: what the line says.
        why: what is there instead.
        number: of the write, in the order of time, from 1; 0 if the line never held, as far as is known here.
        path: what was written; null if the line never held.
        event_id: the event, or the entry of the log; as above.
        written_at: when; as above.
        value: the text, cut; as above.
        source: who said it; null if unknown.
        device: which device wrote it; null if unknown.
        tried: how many states were tried.
    """

    line: int
    asked: str
    expected: str
    why: str
    number: int
    path: str
    event_id: str
    written_at: float | None
    value: str
    source: str
    device: str
    tried: int


_File = Annotated[Path, argument("FILE", "The file of checks, or - for stdin.")]


def _read(file: Path) -> tuple[MemoryCheck, ...]:
    try:
        with typer.get_binary_stream("stdin") if str(file) == "-" else file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text in UTF-8") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"{file} is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return parsed(text)
    except InvalidInput as error:
        raise InvalidInput(f"{'stdin' if str(file) == '-' else file}: {error}") from None


def _line(one: Outcome, when: float | None) -> CheckedLine:
    as_of = None if when is None else iso(when)
    return CheckedLine(one.expected.line, one.check.question, as_of, one.expected.told, one.ok, one.why)


def _show(found: list[CheckedLine], _: Any) -> None:
    for one in found:
        asked = f' asked "{one_line(one.asked)}"' if one.asked else ""
        as_of = f" as of {one.as_of}" if one.as_of else ""
        why = f": {one_line(one.why)}" if one.why else ""
        typer.echo(
            f"{'ok  ' if one.ok else 'FAIL'} line {one.line}{asked}{as_of} {one_line(one.expected)}{why}"
        )
    failed = sum(not one.ok for one in found)
    note(f"{quantity(len(found), 'line')} checked, {failed:,} failed")


def _code(found: list[Any]) -> int:
    return ExitCode.ERROR if any(not getattr(one, "ok", False) for one in found) else ExitCode.OK


@operation(
    app,
    "check",
    "sense-memory check memory.checks",
    "sense-memory check memory.checks --at yesterday",
    "sense-memory check memory.checks --json",
    codes={1: "a line fails, or an error", 2: "the file cannot be read"},
    panel=MEMORIES,
    shows=_show,
    ends_with=_code,
)
async def check(
    store: MemoryStore,
    file: _File,
    *,
    at: Annotated[str | None, option("WHEN", "Check the whole memory as it was then.")] = None,
) -> list[CheckedLine]:
    """Check that the memory finds what it must, and puts nothing into a prompt that must not be there.

    A file has lines such as `asked "Where does Lisa live?"`, `must find "Lisbon"`, `must not put "ignore previous" into a
    prompt`, `at most 800 tokens`, and `as of 2026-11-01`. Nothing is written or revived. A past state is rebuilt from what this
    ledger has, in a temporary folder: without what was forgotten since, and without an embedder.
    """
    checks, now = _read(file), time.time()
    states: PastStates | None = None
    found: list[CheckedLine] = []
    for one in checks:
        when = moment(at or one.when, now) if at or one.when else None
        if when is None:
            made = await outcomes(store, [one])
        else:
            states = states or await PastStates.of(store)
            async with states.after(states.until(when), when) as past:
                made = await outcomes(past, [one])
        found += (_line(item, when) for item in made)
    return found


def _broken(one: Culprit) -> BrokenLine:
    write = one.write or PastWrite(0.0, "")
    value = one_line(write.value)
    return BrokenLine(
        one.expected.line,
        one.check.question,
        one.expected.told,
        one.why,
        one.number,
        write.path,
        write.event_id,
        write.at if one.write is not None else None,
        value if len(value) <= _VALUE_CHARS else f"{value[:_VALUE_CHARS]}…",
        write.source,
        write.device,
        one.tried,
    )


def _show_broken(found: list[BrokenLine], _: Any) -> None:
    for one in found:
        asked = f' asked "{one_line(one.asked)}"' if one.asked else ""
        typer.echo(f"line {one.line}{asked} {one_line(one.expected)}: {one_line(one.why)}")
        if not one.number:
            typer.echo("  it held at no earlier state that this ledger can show")
            continue
        typer.echo(f"  broken by write {one.number:,}: {one_line(one.path) or 'of a newer version'}")
        typer.echo(f"  written {iso(one.written_at or 0.0)}, event {one.event_id[:8]}")
        typer.echo(
            f"  from {one_line(one.source) or 'nobody who is named'}, device {one_line(one.device) or 'unknown'}"
        )
        if one.value:
            typer.echo(f"  {one.value}")
    note("every line holds" if not found else f"{quantity(found[-1].tried, 'state')} tried")


@operation(
    app,
    "bisect",
    "sense-memory bisect memory.checks",
    codes={1: "a line fails, or an error", 2: "the file cannot be read"},
    panel=MEMORIES,
    shows=_show_broken,
    ends_with=_code,
)
async def bisect(store: MemoryStore, file: _File) -> list[BrokenLine]:
    """Name the write that broke a check: which memory, when, from which source, by which device.

    The states after earlier writes are rebuilt and tried, about as many as the number of writes has binary digits, twice. Lines
    with `as of` are left out. What was forgotten since is in no earlier state, because forgetting erases texts.
    """
    states = await PastStates.of(store)
    return [_broken(one) for one in await culprit(states, _read(file), time.time())]
