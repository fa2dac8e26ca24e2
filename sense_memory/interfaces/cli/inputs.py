"""The input of commands: the arguments and options that several share, texts, files of memories, and moments in time.

A text is an argument, or comes from stdin or a terminal; many memories come from a file.
A file is read and checked as a whole before anything is written. Bytes are kept exactly, a final line break included
unless a command says otherwise; bytes that are not UTF-8 are refused. A value that the ledger already holds is skipped.

People write a moment as they say it: "2027-01-15", "2027-01-15 08:00", "yesterday", "2 days ago", "3h". A day, an hour
or a minute means its end, so that all that happened in it counts; callers may ask for its beginning instead.
"""

from __future__ import annotations

import math
import re
import sys
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.text import one_line
from sense_memory.limits import MAX_PLAINTEXT_BYTES


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from sense_memory.arguments import MemoryFields
    from sense_memory.store import MemoryStore

WAIT_SECONDS: Final = 5.0


def flag(*names: str, text: str, **options: Any) -> Any:
    """An option without a value.

    Args:
        names: as they are typed.
        text: what the option does, for the help page.
        options: as typer's.
    """
    return typer.Option(*names, help=text, show_default=False, metavar="", **options)


def option(metavar: str, text: str, *names: str, **options: Any) -> Any:
    """An option with a value and without a default that is worth showing.

    Args:
        metavar: the value, on the help page.
        text: what the option does, for the help page.
        names: as they are typed; by default the parameter's.
        options: as typer's.
    """
    return typer.Option(*names, metavar=metavar, help=text, show_default=False, **options)


def argument(metavar: str, text: str) -> Any:
    """An argument; as `option`."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def _also_json(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        of(context).as_json = True
    return wanted


UntrustedOption = Annotated[
    bool,
    flag(
        "--untrusted",
        text="Also what tools, documents, imports and other agents said and nobody vouched for.",
    ),
]
JsonOption = Annotated[bool, flag("--json", text="Print JSON for programs.", callback=_also_json)]

# ── Names ───────────────────────────────────────────────────────────────────────────────

_NAME: Final = "A flat key such as user_timezone, or a path DOMAIN/FACET/KEY such as people/facts/lisa."

NameArgument = Annotated[
    str, argument("NAME", f"{_NAME} A KEY alone finds the one memory that has this key.")
]
NewNameArgument = Annotated[str | None, typer.Argument(metavar="NAME", show_default=False, help=_NAME)]
ForgottenArgument = Annotated[list[str] | None, argument("NAME...", "Flat keys, or paths DOMAIN/FACET/KEY.")]
EverythingOption = Annotated[
    bool, flag("--everything", text="Forget all of the agent's memory, here and at every relay.")
]
VanishOption = Annotated[
    bool,
    flag(
        "--vanish",
        text="With --everything: also ask relays that support it to delete all events of the key, those of other programs too (NIP-62).",
    ),
]
PalaceNameArgument = Annotated[
    str, argument("PATH", "DOMAIN/FACET/KEY, or the KEY alone if no other palace memory has this key.")
]
PlaceArgument = Annotated[
    str | None, argument("DOMAIN[/FACET]", "Only this domain, or only this facet of the domain.")
]
WhenArgument = Annotated[
    str,
    argument(
        "WHEN",
        'A date or time in local time, such as 2027-01-15, yesterday (the end of that day) or "2027-01-15 08:00", '
        'or how long ago, such as 3h or "2 days ago".',
    ),
]
PalaceOption = Annotated[bool, flag("--palace", text="Only palace memories.")]
RawOption = Annotated[
    bool, flag("--raw", text="Print exactly the bytes of the value, without a line break after it.")
]
IncludeForgottenOption = Annotated[
    bool, flag("--include-forgotten", text="Include forgotten and dissolved palace memories.")
]

# ── Writes ──────────────────────────────────────────────────────────────────────────────

WaitOption = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Wait up to this many seconds for relays; 0 sends later. A slow relay never makes a write fail.",
    ),
]
AcksOption = Annotated[
    int, option("N", "Exit with code 3 unless N relays acknowledge the write within --wait.", min=0)
]
AnywayOption = Annotated[
    bool, flag("--anyway", text="Request the deletion even if no such memory is known here.")
]
DryRunOption = Annotated[
    bool, flag("--dry-run", "--plan", text="Show what would be done, and change nothing.")
]
YesOption = Annotated[bool, flag("--yes", "-y", "--apply", text="Do it without asking.")]
ValueArgument = Annotated[
    str | None, argument("VALUE", "The text. If it is missing or `-`, read all of stdin, byte for byte.")
]
ThemeOption = Annotated[
    list[str] | None, option("WORD", "Palace: what the memory is about, for search. May be repeated.")
]
ConnectOption = Annotated[
    list[str] | None, option("PATH", "Palace: connect the memory with this one, both ways. May be repeated.")
]
HalflifeOption = Annotated[
    float | None,
    option("DAYS", "Palace: the days after which half of the relevance is left; 30 for a new memory."),
]
SourceOption = Annotated[
    str | None,
    option(
        "SOURCE", "Palace: where the memory comes from: user, agent, import:NAME, tool:NAME or document:HASH."
    ),
]
ContradictionsOption = Annotated[
    str | None,
    option(
        "WHAT",
        "Palace, for this write: act marks memories that the text clearly contradicts (the default), suggest only names them, off does not look for them. SENSE_MEMORY_CONTRADICTIONS sets it for everything.",
    ),
]
ConfidenceOption = Annotated[
    float | None, option("SHARE", "Palace: how certain the memory is, from 0 to 1; 1 for a new memory.")
]

# ── Searches ────────────────────────────────────────────────────────────────────────────

QueryArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="QUERY...",
        help="A question or some words. Quotes make a phrase; photo* matches every word that begins with photo.",
    ),
]
HitLimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1_000, metavar="N", help="Show at most N memories.")
]
SinceOption = Annotated[
    str | None,
    option(
        "WHEN",
        "Only memories written since this time (palace memories: first written): a date, a time, yesterday, or how long "
        'ago, such as "2 days ago".',
    ),
]
ExplainOption = Annotated[
    bool,
    flag("--explain", text="Show why each memory was found, and how much each reason adds to the score."),
]

# ── Texts ───────────────────────────────────────────────────────────────────────────────

MAX_MANY_BYTES: Final = 100_000_000  # of a file of memories; all of it is checked before anything is written
_MAX_PATH_CHARS: Final = 400  # of a path in an error; a path of the palace has fewer
_FIELDS: Final = ("themes", "halflife_days", "source", "confidence")  # in the order of `given.fields`
_DETAILS: Final = (*_FIELDS, "connections")
_ELSEWHERE: Final = "Move whole memories and journal entries with `export` and `import`."
_MANY: Final = ("one `remember --many`", "Split it into several files.")


def text_or_stdin(argument: str | None, what: str, *, is_lines: bool = False) -> str:
    """The argument, or stdin where it is missing or "-".

    Args:
        argument: as it was typed.
        what: a word for the text, for errors.
        is_lines: whether the line break at the end of stdin only ends the last line and is no part of the text.

    Raises:
        InvalidInput: stdin is empty, not UTF-8, or longer than any memory.
    """
    if argument is not None and argument != "-":
        return argument
    if sys.stdin.isatty():
        typer.echo(f"Type the {what}; end with Ctrl-D on a line of its own.", err=True)
    text = _decoded(_read_stdin(MAX_PLAINTEXT_BYTES, f"one {what}", "Split it into several."), "stdin")
    if is_lines and text.endswith("\n"):
        text = text.removesuffix("\n").removesuffix("\r")
    if not text:  # empty stdin is usually an accident, and would replace the memory
        raise InvalidInput(f"stdin is empty; give the {what} there, or as an argument")
    return text


def question(words: Sequence[str]) -> str:
    """The words of a command line as one question.

    Raises:
        InvalidInput: there are no words.
    """
    found = " ".join(words)
    if not found.strip():
        raise InvalidInput("the question is empty; give some words to look for")
    return found


@dataclass(frozen=True, slots=True)
class FileMemory:
    """A memory of a file, checked.

    Attributes:
        name: a flat key, or a path of the palace.
        value: its text.
        details: the other arguments of `persona_remember`, by name; empty for a flat memory.
    """

    name: str
    value: str
    details: Mapping[str, Any]

    @property
    def is_of_palace(self) -> bool:
        """Whether the name is a path of the palace."""
        return "/" in self.name

    @property
    def insight(self) -> MemoryFields:
        """A palace memory as `palace.remember_many` takes it."""
        return cast("MemoryFields", {"path": self.name, "value": self.value, **self.details})


def entries(source: Path) -> list[FileMemory]:
    """The memories of a file, or of stdin for "-".

    The formats are JSON lines `{"key": …, "value": …}`, an array of such objects (as `list --json` prints), one such
    object, and one object `{KEY: VALUE, …}`. A key with slashes is a path of the palace. An object may also give the path
    as `path`, with or without its key, or as `domain`, `facet` and `key`. A palace memory may have `themes`,
    `connections`, `halflife_days`, `source` and `confidence`. One with other fields, as `list --palace --json` prints
    them, is refused, because they would be lost.

    Raises:
        InvalidInput: the file has another format, or more than 100 MB; the error says where.
        InvalidAddress: a key breaks the naming rules; the error says in which line or entry.
    """
    if str(source) == "-":
        text = _decoded(_read_stdin(MAX_MANY_BYTES, *_MANY), "stdin")
    else:
        with source.open("rb") as file:
            text = _decoded(_read(file, MAX_MANY_BYTES, str(source), *_MANY), str(source))
    return [_checked(place, found) for place, found in _objects(text)]


@dataclass(frozen=True, slots=True)
class UnsavedPairs:
    """The pairs to write, of some keys and values.

    Attributes:
        pairs: those whose value differs from the ledger's.
        places: for each memory, the event that already holds it, or the index of its pair.
    """

    pairs: list[tuple[str, str]]
    places: list[str | int]

    def ids(self, written: Sequence[str]) -> list[str]:
        """The events of all memories, given the events of the written pairs."""
        return [place if isinstance(place, str) else written[place] for place in self.places]


async def unsaved_pairs(store: MemoryStore, given: Sequence[tuple[str, str]]) -> UnsavedPairs:
    """The keys and values that differ from what the ledger holds.

    A key that occurs twice is one memory: the last value counts.

    Raises:
        InvalidAddress: a key breaks the naming rules.
    """
    from sense_memory.nostr import address

    named = {address.flat_path(key): value for key, value in given}
    there = await store.recall_many(named)
    found = UnsavedPairs([], [])
    for key, value in named.items():
        kept = there.get(key)
        if kept is not None and (kept.key, kept.value) == (key, value):
            found.places.append(kept.event_id)
        else:
            found.places.append(len(found.pairs))
            found.pairs.append((key, value))
    return found


async def unsaved_insights(store: MemoryStore, given: Sequence[FileMemory]) -> list[FileMemory]:
    """The palace memories of a file that differ from what is there, or are there without a mark but forgotten.

    To write the others again would remove their marks, see `palace.lifecycle`. Of a path that comes several times, all
    or none are returned: the last fields count.
    """
    from sense_memory.memories.persona.arguments import fields, links
    from sense_memory.models import State

    wanted, linked = dict[str, dict[str, Any]](), dict[str, set[str]]()
    for entry in given:
        details = {name: entry.details[name] for name in _DETAILS if name != "connections"}
        wanted.setdefault(entry.name, {}).update(fields(entry.value, **details))
        linked.setdefault(entry.name, set()).update(links(entry.details["connections"]))
    there = {memory.path: memory for memory in await store.persona_recall(include_forgotten=True)}
    unchanged = set()
    for path, named in linked.items():
        memory = there.get(path)
        if memory is None or any(getattr(memory, name) != value for name, value in wanted[path].items()):
            continue
        ends = {to: {to, to.rpartition("/")[2]} for to in memory.connections}
        backward = {to for to in ends if not {path, memory.key}.isdisjoint(linked.get(to, ()))}
        is_linked = not named or all(
            to in backward or not names.isdisjoint(named) for to, names in ends.items()
        )
        is_alive = memory.state in {State.ACTIVE, State.FADING} or memory.contradicts or memory.superseded_by
        if is_alive and is_linked and named <= set().union(*ends.values()):
            unchanged.add(path)
    return [entry for entry in given if entry.name not in unchanged]


def _read_stdin(limit: int, what: str, remedy: str) -> bytes:
    try:
        return _read(typer.get_binary_stream("stdin"), limit, "stdin", what, remedy)
    except OSError as error:
        raise InvalidInput(f"stdin could not be read ({error.strerror})") from None


def _read(file: BinaryIO, limit: int, where: str, what: str, remedy: str) -> bytes:
    """The content of a file; reading stops above the limit."""
    raw = file.read(limit + 1)
    if len(raw) > limit:
        raise InvalidInput(
            f"{where} has more than {limit:,} bytes, the limit of {what}; nothing was written. {remedy}"
        )
    return raw


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"{where} is not UTF-8 text (byte {error.start:,}); nothing was written"
    raise InvalidInput(problem)


def _objects(text: str) -> Iterator[tuple[str, Any]]:
    """Place and content of each entry, unchecked."""
    import orjson

    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = None
    if isinstance(whole, dict) and whole.keys().isdisjoint({"key", "value"}):
        for number, (key, value) in enumerate(whole.items(), 1):
            yield f"entry {number}", {"key": key, "value": value}
    elif isinstance(whole, dict | list):
        items = whole if isinstance(whole, list) else [whole]
        yield from ((f"entry {number}", item) for number, item in enumerate(items, 1))
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"line {number}", _object_of_line(f"line {number}", line)


def _object_of_line(place: str, line: str) -> Any:
    import orjson

    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        raise InvalidInput(f"{place} is not JSON; nothing was written") from None


def _checked(place: str, found: Any) -> FileMemory:
    """An entry; the error names its place."""
    from sense_memory.errors import InvalidAddress

    if not isinstance(found, dict) or "value" not in found or found.keys().isdisjoint({"key", "path"}):
        raise InvalidInput(f'{place} is not an object with "key" and "value"; nothing was written')
    key = found.get("key", found.get("path"))
    name = found.get("path") or key
    if "path" not in found and found.get("domain") and found.get("facet"):
        name = f"{found['domain']}/{found['facet']}/{key}"
    try:
        if isinstance(name, str) and "/" in name and key in {name, name.rpartition("/")[2]}:
            return _insight(name, found)
        if name == key:
            return _flat(key, found)
    except InvalidAddress as error:
        raise InvalidAddress(f"{place}: {_nothing_written(error)}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {_nothing_written(error)}") from None
    shown = one_line(str(name), _MAX_PATH_CHARS)
    raise InvalidInput(f"{place}: the path {shown!r} and the key {key!r} differ; nothing was written")


def _nothing_written(error: InvalidInput) -> str:
    """The sentence of an error, which says once that nothing was written."""
    return str(error) if "nothing was written" in str(error) else f"{error}; nothing was written"


def _flat(key: Any, found: dict[str, Any]) -> FileMemory:
    from sense_memory import arguments
    from sense_memory.records import envelope

    given = [name for name in ("domain", "facet", *_DETAILS) if found.get(name) is not None]
    if given:
        raise InvalidInput(f"{given[0]} is for palace memories, and {key!r} is a flat key: give a path")
    record = envelope.flat(key, arguments.value(found["value"]), time.time())
    _check_size(envelope.plaintext_bytes(record))
    return FileMemory(record.path, found["value"], {})


def _insight(name: str, found: dict[str, Any]) -> FileMemory:
    from sense_memory.memories.persona import arguments as given
    from sense_memory.nostr import address

    parts = address.persona_name(name).split("/")
    if len(parts) != 3:
        problem = f"{name!r} is neither a flat key, which has no '/', nor a path DOMAIN/FACET/KEY"
        raise InvalidInput(f"{problem}; nothing was written. {_ELSEWHERE}")
    if lost := found.keys() - {"path", "domain", "facet", "key", "value", *_DETAILS}:
        problem = f"{min(lost)!r} would be lost, because it is none of value, {', '.join(_DETAILS)}"
        raise InvalidInput(f"{problem}; nothing was written. {_ELSEWHERE}")
    path = address.persona_path(*parts).removeprefix(address.PERSONA)
    details = {detail: found.get(detail) for detail in _DETAILS}
    given.fields(found["value"], *(details[detail] for detail in _FIELDS))
    given.links(details["connections"])
    _check_size(len(found["value"].encode()))  # the store counts the details too
    return FileMemory(path, found["value"], details)


def _check_size(size: int) -> None:
    from sense_memory.errors import TooLargeError

    if size > MAX_PLAINTEXT_BYTES:
        raise TooLargeError(size, MAX_PLAINTEXT_BYTES)


# ── Moments ─────────────────────────────────────────────────────────────────────────────

_UNITS: Final = (  # the names of a unit, without the s of a plural, and its seconds
    (("s", "sec", "second"), 1),
    (("m", "min", "minute"), 60),
    (("h", "hour"), 3_600),
    (("d", "day"), 86_400),
    (("w", "week"), 7 * 86_400),
    (("month",), 30 * 86_400),
    (("y", "year"), 365 * 86_400),
)
_SECONDS: Final = {name: seconds for names, seconds in _UNITS for name in names}
_DAYS: Final = {"today": 0, "yesterday": 1}  # days before today
_LENGTHS: Final = {2: 3_600, 4: 60, 6: 1}  # by the digits of a time: hour, minute, second

_relative = re.compile(r"([0-9]{1,9})\s*([a-z]+?)s?(?:\s+ago)?", re.IGNORECASE).fullmatch
_time_of_day = re.compile(r"[T ]([0-9:]+)(?:[.,]([0-9]+))?").search


def moment(text: str, now: float, *, begins: bool = False) -> float:
    """A moment in seconds since 1970, never later than now.

    Args:
        text: ISO 8601 (without an offset: this machine's time zone), how long ago with or without "ago" (a
            month has 30 days, a year 365), "yesterday", "today" or "now".
        now: seconds since 1970.
        begins: whether a day, an hour or a minute means its beginning instead of its end.

    Raises:
        InvalidInput: the text is not a moment, or the moment is in the future.
    """
    bare = text.strip()
    if bare.lower() in {"now", "just now"}:
        return now
    ago = _relative(bare)
    if ago is not None and ago[2].lower() in _SECONDS:
        return now - int(ago[1]) * _SECONDS[ago[2].lower()]
    try:
        begin, end = _span(_day(bare, now))
    except (ValueError, OverflowError, OSError):
        problem = f'{text!r} is not a time; try 2027-01-15, "2027-01-15 08:00", yesterday, "2 days ago" or 3h'
    else:
        if begin <= now:
            return begin if begins else min(math.nextafter(end, begin), now)
        problem = f"{text!r} is in the future"
    raise InvalidInput(problem)


def duration(text: str) -> float:
    """A length of time in seconds, such as "6h", "30 min" or "1 day".

    Raises:
        InvalidInput: the text is not a length of time, or the length is 0.
    """
    found = _relative(text.strip())
    if found is not None and found[2].lower() in _SECONDS and int(found[1]) and "ago" not in text.lower():
        return float(int(found[1]) * _SECONDS[found[2].lower()])
    raise InvalidInput(f'{text!r} is not a length of time; try 6h, "30 min" or "1 day"')


def _day(text: str, now: float) -> str:
    """The date of a named day; any other text as it is."""
    before = _DAYS.get(text.lower())
    if before is None:
        return text
    return (datetime.fromtimestamp(now, UTC).astimezone().date() - timedelta(days=before)).isoformat()


def _span(text: str) -> tuple[float, float]:
    """The beginning and the end of what an ISO text names: a day, an hour, … or a part of a second."""
    begin = datetime.fromisoformat(text)
    clock = _time_of_day(text)
    if clock is None:
        end = datetime.combine(date.fromisoformat(text) + timedelta(days=1), begin.time())
        return begin.astimezone().timestamp(), end.astimezone().timestamp()
    digits, fraction = clock[1].replace(":", ""), clock[2]
    length = 10.0 ** -len(fraction) if fraction else _LENGTHS[len(digits)]
    first = begin.astimezone().timestamp()
    return first, first + length
