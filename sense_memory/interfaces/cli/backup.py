"""`backup`: the memories and the key in one folder, each useless without what is kept elsewhere.

The memories are an export under a new name each time, so that no backup replaces a fuller one. The key is
encrypted with a password (NIP-49), and what was written is opened again before anyone relies on it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import BadKey, InvalidInput
from sense_memory.interfaces.cli.invocation import (
    JsonOption,
    check_ledger,
    of,
    say,
    secret_of,
    tell,
    with_store,
)
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.portable import write_events
from sense_memory.interfaces.cli.program import BACKUP, app
from sense_memory.interfaces.cli.text import as_json, quantity, size


if TYPE_CHECKING:
    from sense_memory.nostr.keys import Secret
    from sense_memory.store import MemoryStore

_MAX_PASSWORD_CHARS = 1_024
_SHORT_CHARS = 12  # below it a password is called short
_MAX_KEY_BYTES = 1_024  # an ncryptsec has 162

PasswordOption = Annotated[
    bool,
    typer.Option(
        "--password-stdin",
        help="Take the password from stdin, one line, instead of asking for it.",
        show_default=False,
        metavar="",
    ),
]


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup consists of.

    Attributes:
        agent: the agent's name.
        npub: whose memory it is.
        memories_file: the export.
        events: how many events are in it.
        key_file: the encrypted key.
        key_done: "written", or "checked" where it was there and the password opens it.
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

    It asks twice for a password, unseen, and encrypts the key with it (NIP-49). Repeat it into the same folder as
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
        raise InvalidInput(f"{memories} exists; it was not touched. Try again in a second.")
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
    """Write the encrypted key, or check the one that is there; either way the password opens it."""
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
        raise InvalidInput(f"{path} holds another key, which was not touched. Choose another folder.")
    return "checked" if was_there else "written"


def _text_of(path: Path) -> str:
    """What the file of the encrypted key holds. Whatever its mode: a disk may know none, and it is encrypted."""
    with path.open("rb") as file:
        return file.read(_MAX_KEY_BYTES).decode("utf-8", errors="replace")


def _asked(context: typer.Context, *, again: bool) -> str:
    """The password, typed unseen; twice where nothing can tell whether it was typed right."""
    from getpass import getpass

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        context.fail("nobody can be asked for a password here; give it on stdin with --password-stdin")
    password = _not_empty(getpass("Password for the key: "))
    while (
        again and _is_weak(password) and (other := getpass("Another password, or Enter to keep this one: "))
    ):
        password = other
    if again and getpass("The same once more: ") != password:
        raise InvalidInput("the two passwords differ; nothing was written")
    return password


def _is_weak(password: str) -> bool:
    """Whether a password is easy to guess; says so."""
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
