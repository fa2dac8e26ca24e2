"""`backup`: memories and key in one folder.

The memories of a backup are an export with a new name each time, so that no backup replaces a fuller one. The key is
encrypted with a password (NIP-49), and the written key is opened again before the backup counts as done.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from sense_memory.errors import BadKey, InvalidInput
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import check_ledger, of, program, say, secret_of, tell, with_store
from sense_memory.interfaces.cli.program import BACKUP, app
from sense_memory.interfaces.text import as_json, quantity, size


if TYPE_CHECKING:
    from sense_memory.nostr.keys import Secret
    from sense_memory.store import MemoryStore

_MAX_PASSWORD_CHARS = 1_024
_SHORT_CHARS = 12  # a shorter password gets a warning
_MAX_KEY_BYTES = 1_024  # an ncryptsec has 162

PasswordOption = Annotated[
    bool,
    flag("--password-stdin", text="Read the password from the first line of stdin instead of asking for it."),
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
            metavar="FOLDER",
            show_default=False,
            help="The folder, best on another disk. Made if it is missing.",
        ),
    ],
    password_stdin: PasswordOption = False,
    _json: JsonOption = False,
) -> None:
    """Write a backup of memories and key into a folder.

    Type a password twice, unseen; the password encrypts the key (NIP-49). Repeat the backup into the same folder as
    often as you like: memories go into a new file each time, and the key that is there already is opened with the
    password, to check that you still know the password.
    """
    from sense_memory.interfaces.cli.tables import spinner
    from sense_memory.nostr.signer import LocalSigner

    invocation = of(context)
    settings = invocation.settings()
    check_ledger(settings)
    secret = secret_of(settings)
    signer = LocalSigner(secret)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file, which was not touched; choose another folder")
    key = folder / f"{settings.agent}.ncryptsec"
    is_new = not key.exists()
    password = _first_line() if password_stdin else _asked(context, again=is_new)
    if password_stdin and is_new:
        _is_weak(password)
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    memories = folder / f"{settings.agent}-{stamp}.jsonl"
    if memories.exists():
        raise InvalidInput(f"{memories} exists, and was not touched; try again in a second")
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
        raise BadKey(f"{error}, or give another folder for a new backup: {path} was not changed") from None
    if not same:
        raise InvalidInput(f"{path} contains another key, which was not touched; choose another folder")
    return "checked" if was_there else "written"


def _text_of(path: Path) -> str:
    """The content of the encrypted key file. The mode is not checked: encryption protects the key."""
    with path.open("rb") as file:
        return file.read(_MAX_KEY_BYTES).decode("utf-8", errors="replace")


def _asked(context: typer.Context, *, again: bool) -> str:
    """The password, typed unseen; typed twice where there is no key to check it with."""
    from getpass import getpass

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        context.fail("there is no terminal to type the password on; give it on stdin with --password-stdin")
    password = _not_empty(getpass("Password for the key: "))
    while (
        again and _is_weak(password) and (other := getpass("Another password, or Enter to keep this one: "))
    ):
        password = other
    if again and getpass("The same password once more: ") != password:
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
    say(
        "warning",
        f"{problem}: whoever finds the key file may guess the password. A sentence of your own is safer.",
    )
    return True


def _first_line() -> str:
    return _not_empty(sys.stdin.readline(_MAX_PASSWORD_CHARS).rstrip("\r\n"))


def _not_empty(password: str) -> str:
    if not password:
        raise InvalidInput("the password is empty, and nothing was written; give another one")
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
        "Keep this folder away from this machine, and keep the password elsewhere, in a\n"
        "password manager or on paper. Without the password the key cannot be opened;\n"
        "without the key no memory can. Nobody can replace either of them. Do not\n"
        "publish the key file: it is as safe as the password is hard to guess.\n"
        f"To restore: {program()} init --import < KEY, then {program()} import MEMORIES"
    )


def write_events(store: MemoryStore, target: Path | BinaryIO) -> int:
    """Export with a progress bar; an existing file is replaced. Returns how many events."""
    from sense_memory.interfaces.cli.tables import progress

    with progress("exporting", store.status().counts["events"]) as advance:
        return store.export(target, overwrite=True, progress=advance)
