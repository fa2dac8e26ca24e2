"""`backup`, `export` and `import`: memories and key in one folder, and events as a file of JSON lines.

The memories of a backup are an export with a new name each time, so that no backup replaces a fuller one. The key is
encrypted with a password (NIP-49), and the written key is opened again before the backup counts as done. An import
verifies every line.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from sense_memory.errors import BadKey, InvalidInput
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import (
    ExitCode,
    check_ledger,
    of,
    say,
    secret_of,
    tell,
    with_store,
)
from sense_memory.interfaces.cli.program import BACKUP, app, ends
from sense_memory.interfaces.cli.text import as_json, one_line, quantity, size


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.memories.portable import BadLine
    from sense_memory.nostr.keys import Secret
    from sense_memory.store import MemoryStore

_MAX_PASSWORD_CHARS = 1_024
_SHORT_CHARS = 12  # a shorter password gets a warning
_MAX_KEY_BYTES = 1_024  # an ncryptsec has 162

PasswordOption = Annotated[
    bool,
    flag("--password-stdin", text="Take the password from stdin, one line, instead of asking for it."),
]


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup consists of.

    Attributes:
        agent: the agent's name.
        npub: the agent's public key.
        memories_file: the export.
        events: how many events are in it.
        key_file: the encrypted key.
        key_done: "written", or "checked" where the key file existed and the password opens it.
    """

    agent: str
    npub: str
    memories_file: str
    events: int
    key_file: str
    key_done: str


@app.command(
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory backup /media/usb/sense-memory",
        'echo "correct horse battery staple" | sense-memory backup usb --password-stdin',
    ),
)
def backup(
    context: typer.Context,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", show_default=False, help="Where to, best on a disk of its own. Made if missing."
        ),
    ],
    password_stdin: PasswordOption = False,
    _json: JsonOption = False,
) -> None:
    """Write a backup of memories and key into a folder.

    You type a password twice, unseen, which encrypts the key (NIP-49). Repeat the backup into the same folder as
    often as you like: memories go into a new file each time, and a key that is there already is opened with the
    password, to see that you still know it.
    """
    from sense_memory.interfaces.cli.tables import spinner
    from sense_memory.nostr.signer import LocalSigner

    invocation = of(context)
    settings = invocation.settings()
    check_ledger(settings)
    secret = secret_of(settings)
    signer = LocalSigner(secret)
    key = folder / f"{settings.agent}.ncryptsec"
    is_new = not key.exists()
    password = _first_line() if password_stdin else _asked(context, again=is_new)
    if password_stdin and is_new:
        _is_weak(password)
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    memories = folder / f"{settings.agent}-{stamp}.jsonl"
    if memories.exists():
        raise InvalidInput(f"try again in a second: {memories} exists, and was not touched")
    with spinner("encrypting the key"):
        done = _keep_key(key, secret, password)

    async def work(store: MemoryStore) -> int:
        return write_events(store, memories)

    count = asyncio.run(with_store(settings, signer, work))
    made = Backup(settings.agent, signer.npub, str(memories), count, str(key), done)
    if invocation.as_json:
        typer.echo(as_json(asdict(made)))
    else:
        _explain(made, memories.stat().st_size)


def _keep_key(path: Path, secret: Secret, password: str) -> str:
    """Write the encrypted key, or check the existing one; either way the password opens the key."""
    from sense_memory.config.key_file import write_ncryptsec
    from sense_memory.nostr.nip49 import decrypt_secret, encrypt_secret

    was_there = path.exists()
    if not was_there:
        write_ncryptsec(path, encrypt_secret(secret, password))
    try:
        with decrypt_secret(_text_of(path), password) as found:
            same = found == secret
    except BadKey as error:
        raise BadKey(f"{path}: {error}. Nothing was changed; another folder takes a new backup.") from None
    if not same:
        raise InvalidInput(f"choose another folder: {path} holds another key, which was not touched")
    return "checked" if was_there else "written"


def _text_of(path: Path) -> str:
    """The content of the encrypted key file. The mode is not checked: encryption protects the key."""
    with path.open("rb") as file:
        return file.read(_MAX_KEY_BYTES).decode("utf-8", errors="replace")


def _asked(context: typer.Context, *, again: bool) -> str:
    """The password, typed unseen; typed twice where there is no key to check it with."""
    from getpass import getpass

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        context.fail("give the password on stdin with --password-stdin: there is no terminal to type it on")
    password = _not_empty(getpass("Password for the key: "))
    while (
        again and _is_weak(password) and (other := getpass("Another password, or Enter to keep this one: "))
    ):
        password = other
    if again and getpass("The same once more: ") != password:
        raise InvalidInput("the two passwords differ; nothing was written")
    return password


def _is_weak(password: str) -> bool:
    """Whether a password is easy to guess; warns if so."""
    if len(password) < _SHORT_CHARS:
        problem = f"this password is short ({quantity(len(password), 'character')})"
    elif password.isdecimal():
        problem = "this password has digits only"
    else:
        return False
    say("warning", f"{problem}: whoever finds the key file may guess it. A sentence of your own is safer.")
    return True


def _first_line() -> str:
    return _not_empty(sys.stdin.readline(_MAX_PASSWORD_CHARS).rstrip("\r\n"))


def _not_empty(password: str) -> str:
    if not password:
        raise InvalidInput("an empty password protects nothing; nothing was written")
    return password


def _explain(made: Backup, size_bytes: int) -> None:
    opens = (
        "encrypted with the password"
        if made.key_done == "written"
        else "there already; the password opens it"
    )
    tell(f"Backup of agent {made.agent!r}, {made.npub}")
    tell(
        f"  memories  {made.memories_file}  ({quantity(made.events, 'event')}, {size(size_bytes)})", indent=12
    )
    tell(f"  key       {made.key_file}  ({opens})", indent=12)
    typer.echo(
        "\n"
        "Keep this folder away from this machine, and the password apart from it, in a\n"
        "password manager or on paper. Without the password the key cannot be opened,\n"
        "without the key no memory: nobody can replace either. Do not publish the key\n"
        "file: it is as safe as the password is hard to guess.\n"
        "To restore: sense-memory init --import < KEY, then sense-memory import MEMORIES"
    )


_MAX_SHOWN: Final = 20  # bad lines; JSON lists all of them
_MAX_AUTHORS_SHOWN: Final = 5
_CHUNK_BYTES: Final = 1 << 20
_FATES: Final = {  # how lines were filed, in the words of the table
    "new": "new",
    "known": "known",
    "stale": "older",
    "deleted": "forgotten",
    "quarantined": "dated ahead",
}


@app.command(
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory export memories.jsonl --force",
        "sense-memory export - | gzip > memories.jsonl.gz",
        codes={2: "wrong usage, or the file exists; nothing was changed"},
    ),
)
def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="Where to. `-` is stdout.")
    ],
    force: Annotated[bool, flag("--force", text="Replace a file that exists.")] = False,
    _json: JsonOption = False,
) -> None:
    """Write everything the ledger holds into a file, one signed and encrypted event a line.

    Without the key it is useless, so keep the key too, elsewhere: `backup` does both. Any Nostr tool can read the
    lines, and `import` takes them back. A file that exists is only replaced with --force.
    """
    invocation = of(context)
    to_stdout = str(file) == "-"
    if to_stdout and (invocation.as_json or sys.stdout.isatty()):
        context.fail("give a FILE, or redirect stdout and leave out --json: stdout is for the events here")
    if not to_stdout and not force and file.exists():
        raise InvalidInput(
            f"give another name, or --force to replace the file: {file} exists, and was not touched"
        )

    async def work(store: MemoryStore) -> int:
        return write_events(store, typer.get_binary_stream("stdout") if to_stdout else file)

    count = invocation.run(work)
    if to_stdout:
        return
    if invocation.as_json:
        typer.echo(as_json({"file": str(file), "events": count, "bytes": file.stat().st_size}))
    else:
        typer.echo(
            f"{quantity(count, 'event')} in {file}, {size(file.stat().st_size)}, useless without the key"
        )


def write_events(store: MemoryStore, target: Path | BinaryIO) -> int:
    """Export with a progress bar; an existing file is replaced. Returns how many events."""
    from sense_memory.interfaces.cli.tables import progress

    with progress("exporting", store.status().counts["events"]) as advance:
        return store.export(target, overwrite=True, progress=advance)


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of importing files.

    Attributes:
        counts: how the good lines of all files were filed.
        bad: the lines that were not taken, each with its file.
        unread: the files that could not be read, or not to their end, each with the reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[Path, BadLine]] = field(default_factory=list)
    unread: dict[Path, str] = field(default_factory=dict)


@app.command(
    "import",
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory import memories.jsonl",
        "sense-memory import /media/usb/sense-memory/*.jsonl",
        "gunzip < memories.jsonl.gz | sense-memory import -",
        codes={0: "every line was taken", 1: "some were not, each with its reason; the others were"},
    ),
)
def import_events(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", show_default=False, help="JSON lines of events, in any order. `-` is stdin."
        ),
    ],
    _json: JsonOption = False,
) -> None:
    """Take events from files, such as exports, and verify each.

    Nothing newer is overwritten, and repeating it changes nothing. Lines that cannot be taken are listed with
    their numbers and reasons, and so are files that cannot be read; the others are taken. Relays get what is new
    with the next sync.
    """
    invocation = of(context)
    found = Imported()
    counted = _counted(files, found)
    has_relays, owner = False, ""
    if counted:

        async def work(store: MemoryStore) -> tuple[bool, str]:
            await _import(store, counted, found)
            return bool(store.relays), store.npub

        has_relays, owner = invocation.run(work, creates=True)
    if invocation.as_json:
        typer.echo(as_json(_data(found)))
    else:
        if counted:
            _print(found, has_relays, owner, is_one=len(files) == 1)
        for file, problem in found.unread.items():
            say("error", f"{file}: {problem}")
    if found.bad or found.unread:
        raise typer.Exit(ExitCode.ERROR)


def _counted(files: Sequence[Path], found: Imported) -> dict[Path, int | None]:
    """How many lines each file has, for the progress bar; None for stdin, pipes and devices. Notes files that cannot be
    read.

    Raises:
        OSError: the only file cannot be read.
    """
    counted: dict[Path, int | None] = {}
    for file in files:
        try:
            counted[file] = (
                None if str(file) == "-" or file.is_fifo() or file.is_char_device() else _count_lines(file)
            )
        except OSError as error:
            if len(files) == 1:
                raise
            found.unread[file] = error.strerror or "cannot be read"
    return counted


async def _import(store: MemoryStore, counted: Mapping[Path, int | None], found: Imported) -> None:
    from sense_memory.interfaces.cli.tables import progress

    numbers = list(counted.values())
    total = None if None in numbers else sum(number or 0 for number in numbers)
    done = 0
    with progress("verifying", total) as advance:
        for file, number in counted.items():
            source = typer.get_binary_stream("stdin") if str(file) == "-" else file

            def moved(count: int, before: int = done) -> None:
                advance(before + count)

            try:
                report = await store.import_(source, progress=moved)
            except InvalidInput as error:
                if len(counted) == 1 and not found.unread:
                    raise
                found.unread[file] = str(error).removeprefix(f"{file} ")
                continue
            finally:
                done += number or 0
            found.counts.update(report.counts)
            found.bad.extend((file, line) for line in report.bad)


def _count_lines(path: Path) -> int:
    """The lines of a file, for the progress bar."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _data(found: Imported) -> dict[str, Any]:
    return {
        "counts": dict(found.counts),
        "bad": [
            {"file": str(file), **asdict(line), "author": line.author or None} for file, line in found.bad
        ],
        "unread": [{"file": str(file), "problem": problem} for file, problem in found.unread.items()],
    }


def _print(found: Imported, has_relays: bool, owner: str, *, is_one: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    counts = {"new": 0, "known": 0, **found.counts}
    names = [_FATES[fate] for fate in counts]
    table = plain_table(*names, numbers=names)
    table.add_row(*(f"{count:,}" for count in counts.values()))
    show(table)
    if found.bad:
        show(Text(), Text(f"{quantity(len(found.bad), 'line')} not taken:"))
        for file, line in found.bad[:_MAX_SHOWN]:
            where = "" if is_one else f"{one_line(str(file))}, "
            show(Text(f"  {where}line {line.number:,}: {line.problem}"))
        if len(found.bad) > _MAX_SHOWN:
            show(Text(f"  and {len(found.bad) - _MAX_SHOWN:,} more; --json lists them all"))
        others = Counter(line.author for _, line in found.bad if line.author not in {"", owner})
        for author, count in others.most_common(_MAX_AUTHORS_SHOWN):
            verb = "is" if count == 1 else "are"
            show(Text(f"{quantity(count, 'event')} {verb} of {author}; this key is {owner}."))
        if others:
            show(Text("Import them as the agent whose key that is: sense-memory --agent NAME import FILE"))
        elif not found.counts and not any(line.author for _, line in found.bad):
            show(
                Text(
                    "None of it is an event. Keys and values are taken by `sense-memory remember --many FILE`."
                )
            )
    if counts["new"] and has_relays:
        show(Text(), Text("Relays get what is new with the next sync: sense-memory sync"))
