"""`init`: makes or imports an agent's key. The only command that can show a secret, and only when asked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import BadKey, InvalidInput
from sense_memory.interfaces.cli.invocation import JsonOption, of, warnings_as_lines
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.cli.text import as_json


if TYPE_CHECKING:
    from sense_memory.nostr.keys import Secret
    from sense_memory.settings import Settings

_MAX_STDIN_CHARS = 1_024


@app.command(
    rich_help_panel=SETUP,
    epilog="Example: sense-memory init",
    context_settings={"allow_extra_args": True},
)
def init(
    context: typer.Context,
    import_key: Annotated[
        bool,
        typer.Option(
            "--import",
            help="Use a key you have: nsec or 64 hex digits, from stdin or typed unseen.",
            show_default=False,
        ),
    ] = False,
    show_nsec: Annotated[
        bool,
        typer.Option(
            "--show-nsec",
            help="Print the secret key, to write it down. It is all one needs.",
            show_default=False,
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Make a key for an agent, or import one; a key that exists is never overwritten.

    The key is the memory's owner: whoever has it can read and write everything, and without it nobody
    can. With --show-nsec, a key that exists is shown again.
    """
    if context.args:  # never repeated: it may be the key
        raise typer.BadParameter(
            "init takes no arguments; a key comes on stdin or is typed unseen, see --import"
        )
    invocation = of(context)
    settings = invocation.settings()
    exists = settings.key_file.exists() and show_nsec and not import_key
    done = "shown" if exists else "imported" if import_key else "made"
    with _secret(settings, exists=exists, import_key=import_key) as secret:
        shown = secret.nsec() if show_nsec else None
        public_key = secret.public_key
    from sense_memory.nostr.keys import npub

    owner = npub(public_key)
    if invocation.as_json:
        result = {"agent": settings.agent, "npub": owner, "key_file": str(settings.key_file), "done": done}
        typer.echo(as_json(result | ({"nsec": shown} if shown else {})))
    else:
        _explain(settings, owner, done, shown)
    _warn_if_unused(settings, public_key)


def _secret(settings: Settings, *, exists: bool, import_key: bool) -> Secret:
    """The key, in its file already."""
    from sense_memory.keyfile import read_secret, write_secret
    from sense_memory.nostr.keys import Secret

    if exists:
        return read_secret(settings.key_file)
    secret = _imported() if import_key else Secret.generate()
    write_secret(settings.key_file, secret)
    return secret


def _imported() -> Secret:
    from sense_memory.nostr.keys import parse_secret

    if sys.stdin.isatty():
        text: str = typer.prompt("nsec or hex (not shown)", hide_input=True, err=True)
    else:
        text = sys.stdin.read(_MAX_STDIN_CHARS)
    try:
        return parse_secret(text)
    except BadKey as error:
        problem = f"{error}; nothing was written"
    raise InvalidInput(problem)


def _explain(settings: Settings, owner: str, done: str, shown: str | None) -> None:
    what = {"shown": "This is the key", "imported": "Imported the key", "made": "Made a key"}[done]
    lines = [
        f"{what} of agent {settings.agent!r}.",
        f"  public key  {owner}",
        f"  secret key  {settings.key_file} (readable by you only)",
    ]
    lines += [f"  nsec        {shown}"] if shown else []
    lines += [
        "",
        "Back it up now: this key is the only way to open the memory, and nobody can replace it.",
        "Keep a copy outside this machine, on paper or in a password manager.",
        "Whoever has it can read and write everything, so share it with nobody, and log it nowhere.",
    ]
    if not shown:
        lines.append("To see it once, for the copy: sense-memory init --show-nsec")
    typer.echo("\n".join(lines))


def _warn_if_unused(settings: Settings, public_key: str) -> None:
    """Another key may come first, such as NOSTR_NSEC in the environment."""
    from sense_memory.settings import find_secret

    with warnings_as_lines():
        secret, place = find_secret(settings)
    with secret:
        if secret.public_key != public_key:
            typer.echo(f"warning: this key is not the one in use: {place} comes first", err=True)
