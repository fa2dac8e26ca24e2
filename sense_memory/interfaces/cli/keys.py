"""`init` makes or imports an agent's key, and `agents` lists the agents on this machine.

`init` is the only command that can show a secret, and only when asked.
"""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import BadKey, InvalidInput, KeyMissing, SenseMemoryError, UnsafeFile
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import of, password_prompt, program, say, warnings_as_lines
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import age, as_json, size


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sense_memory.config.settings import Settings
    from sense_memory.memories.agents import AgentFiles
    from sense_memory.nostr.keys import Secret

_MAX_STDIN_CHARS = 4_096  # enough for what `init --show-nsec` prints
_keys_in = re.compile(r"\bn(?:crypt)?sec1[02-9ac-hj-np-z]{20,}\b").findall


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "sense-memory init",
        "# A second agent on this machine:",
        "sense-memory --agent bob init",
        "# From a backup; asks for the password:",
        "sense-memory init --import < usb/default.ncryptsec",
        codes={1: "the agent has a key already, or no key could be read; nothing was changed"},
    ),
    context_settings={"allow_extra_args": True},
)
def init(
    context: typer.Context,
    import_key: Annotated[
        bool,
        flag(
            "--import",
            text="Import a key that you have: nsec, ncryptsec or 64 hex digits, from stdin or typed unseen. Stdin may be what --show-nsec printed.",
        ),
    ] = False,
    show_nsec: Annotated[
        bool,
        flag("--show-nsec", text="Print the secret key too, so that you can write it down."),
    ] = False,
    bunker: Annotated[
        bool,
        flag(
            "--bunker",
            text="Use a key that stays in a bunker (NIP-46): its bunker:// URL from stdin or typed unseen. This machine gets a key of its own, which the bunker can revoke.",
        ),
    ] = False,
    password_stdin: Annotated[
        bool,
        flag(
            "--password-stdin",
            text="With --import of an ncryptsec: the password is the second line of stdin.",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Make an agent's key, or import one. An existing key is never overwritten.

    The key owns the memory: whoever has the key can read and write everything, and without the key nobody can. With
    --show-nsec, an existing key is shown again. A terminal is then asked what relays shall see, and what to
    connect: harnesses that are on this machine, relays, an embedder; each can be declined. An encrypted key (ncryptsec, as `backup` writes it) is opened with its
    password and stored in a plain key file that only you can read.
    """
    if password_stdin and not import_key:
        context.fail("--password-stdin passes the password of an imported key; give --import too")
    if bunker and (import_key or show_nsec):
        context.fail("--bunker connects with a key that no machine gets to see; give it alone")
    if context.args:  # the argument is never repeated, because it may be the key
        context.fail("init takes no argument; pass a key on stdin or type it unseen, see --import")
    settings = of(context).settings()
    if bunker:
        _connect(context, settings)
        return
    imported = (lambda: _imported(password_stdin=password_stdin)) if import_key else None
    secret, place, done = _key(settings, imported, show=show_nsec)
    with secret:
        shown = secret.nsec() if show_nsec else None
        public_key = secret.public_key
    _report(
        context,
        settings,
        public_key,
        place,
        done=done,
        explain=lambda owner: _explain(settings, owner, place, done, shown),
        shown=shown,
    )


def _connect(context: typer.Context, settings: Settings) -> None:
    """Connect the agent with a bunker that holds its key."""
    from sense_memory.interfaces.cli.bunker import connect, explain, typed_url

    _refuse_second_key(settings, _present(settings, unlock=False)[1])
    account = connect(settings, typed_url())
    place = f"a bunker, see {account.path}"
    told = partial(explain, settings.agent, account)
    _report(context, settings, account.public_key, place, done="connected", explain=lambda _: told())


def _report(
    context: typer.Context,
    settings: Settings,
    public_key: str,
    place: str,
    *,
    done: str,
    explain: Callable[[str], None],
    shown: str | None = None,
) -> None:
    """What became of the agent's key; then a terminal is asked what to connect."""
    from sense_memory.nostr.keys import npub

    if of(context).as_json:
        path = str(settings.key_file) if settings.key_file.exists() else None
        result = {
            "agent": settings.agent,
            "npub": npub(public_key),
            "place": place,
            "key_file": path,
            "done": done,
            "nsec": shown,
        }
        typer.echo(as_json(result))
    else:
        explain(npub(public_key))
    _warn_if_unused(settings, public_key, place)
    if done != "shown":
        from sense_memory.interfaces.cli.first_questions import ask_all

        ask_all(context, settings, is_new=done == "made")
    if not of(context).as_json:
        _tell_next(of(context).settings(), done)


def _key(settings: Settings, imported: Callable[[], Secret] | None, *, show: bool) -> tuple[Secret, str, str]:
    """The agent's key, stored; its place; and "made", "imported" or "shown"."""
    from sense_memory.config.key_file import write_secret
    from sense_memory.nostr.keys import Secret

    wants_present = show and imported is None
    secret, place = _present(settings, unlock=wants_present)
    if wants_present and secret is not None:
        return secret, place, "shown"
    _refuse_second_key(settings, place)
    secret = imported() if imported else Secret.generate()
    write_secret(settings.key_file, secret)
    return secret, f"the key file {settings.key_file}", "imported" if imported else "made"


def _refuse_second_key(settings: Settings, place: str) -> None:
    """Check that the agent has neither a key nor a bunker. Raises UnsafeFile."""
    from sense_memory.signers.agent_signer import bunker_path

    if not place and bunker_path(settings).exists():
        place = f"a bunker, see {bunker_path(settings)}"
    if place:
        raise UnsafeFile(
            f"agent {settings.agent} has a key already, in {place}, and a key is never overwritten or hidden; choose another agent name for another key, such as `sense-memory --agent bob init`"
        )


def _present(settings: Settings, *, unlock: bool) -> tuple[Secret | None, str]:
    """The agent's own key and its place: its file, its entry in the keyring, or its encrypted file.

    The key is None where there is none (the place is empty), and where it is encrypted and not unlocked.
    """
    from sense_memory.config.agent_key import agent_key

    agent = settings.agent if settings.origins["key_file"] == "default" else None
    try:
        ask = password_prompt() if unlock else None
        return agent_key(settings.key_file, agent, ask, home=settings.home)
    except KeyMissing as missing:
        if missing.locked is not None and unlock:
            raise
        return None, missing.locked or ""


def _imported(*, password_stdin: bool) -> Secret:
    """The key from the terminal or stdin, opened where it is encrypted."""
    from sense_memory.config.agent_key import open_key

    ask = password_prompt()
    if password_stdin:
        text = sys.stdin.readline(_MAX_STDIN_CHARS)
        ask = _next_line
    elif sys.stdin.isatty():
        text = typer.prompt("nsec, ncryptsec or hex (not shown)", hide_input=True, err=True)
    else:
        text = sys.stdin.read(_MAX_STDIN_CHARS)
        keys = set(_keys_in(text))
        text = keys.pop() if len(keys) == 1 else text  # of what `init --show-nsec` prints, or of a note
    try:
        return open_key(text, "the key that was given", ask)
    except BadKey as error:
        problem = f"{error}; nothing was written"
    except KeyMissing:
        problem = "the key that was given is encrypted, and nothing was written; run this in a terminal, or pass the password as the second line of stdin with --password-stdin"
    raise InvalidInput(problem)


def _next_line(_prompt: str) -> str:
    return sys.stdin.readline(_MAX_STDIN_CHARS).rstrip("\r\n")


def _explain(settings: Settings, owner: str, place: str, done: str, shown: str | None) -> None:
    what = {"shown": "This is the key", "imported": "Imported the key", "made": "Made a key"}[done]
    ours = program(settings.agent)
    lines = [
        f"{what} for agent {settings.agent!r}.",
        f"  public key  {owner}",
        f"  secret key  in {place}",
    ]
    lines += [f"  nsec        {shown}"] if shown else []
    lines += [
        "",
        "Back it up now: this key is the only way to open the memory, and nobody can",
        "replace it. Keep a copy outside this machine, on paper or in a password manager.",
        "Whoever has the key can read and write everything: share it with nobody.",
    ]
    lines += [] if shown else [f"To see the key for the copy: {ours} init --show-nsec"]
    typer.echo("\n".join(lines))


def _tell_next(settings: Settings, done: str) -> None:
    """What to do after the questions, which may have added relays."""
    ours = program(settings.agent)
    if done == "made":
        typer.echo(f"\nNext: {ours} remember KEY VALUE")
    elif done == "imported":
        typer.echo("\nNext, restore the memory from relays or from a backup:")
        steps = [] if settings.relays else ["relays add wss://relay.example"]
        for step in (*steps, "sync", "import FILE"):
            typer.echo(f"  {ours} {step}")


def _warn_if_unused(settings: Settings, public_key: str, place: str) -> None:
    """Warn if another key comes first, such as NOSTR_NSEC in the environment."""
    from sense_memory.signers.agent_signer import find_signer

    try:
        with warnings_as_lines():
            signer, first = find_signer(settings)  # without a password, which would be asked for twice
    except SenseMemoryError as error:
        if not isinstance(error, KeyMissing) or error.locked != place:
            say("warning", f"another key is in use, not this one: {error}")
        return
    if signer.public_key != public_key:
        say("warning", f"{first} is in use instead of this key")


# ── agents ──────────────────────────────────────────────────────────────────────────────

_PIPED: Final = ("name", "npub", "ledger", "bytes", "last_sync")
_KEYS: Final = {
    "encrypted": "encrypted; the public key needs the password",
    "unusable": "the key file cannot be used; see `doctor`",
    "none": "no key file here",
}


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "sense-memory agents",
        "# What another agent has:",
        "sense-memory --agent bob status",
    ),
)
def agents(context: typer.Context, _json: JsonOption = False) -> None:
    """List the agents on this machine: public key, ledger, size, last sync.

    `*` marks the agent in use. The command asks for no password, opens no keyring and contacts no relay; therefore the
    public key of an encrypted key stays unknown, and its ledger is listed last, without a name. A pipe gets one line
    for each agent, with tabs between name, npub, ledger, bytes, last sync and mark.
    """
    from sense_memory.memories.agents import list_agents

    invocation = of(context)
    settings = invocation.settings()
    data = [_agent_data(agent, settings) for agent in list_agents(settings, _npub_in_environment(settings))]
    if invocation.as_json:
        typer.echo(as_json(data))
    elif not data:
        typer.echo(f"There are no agents here yet. Make one with: {program()} init", err=True)
    elif sys.stdout.isatty():
        now = time.time()
        show_rows(
            ("", "agent", "public key", "ledger", "last sync"), [_agent_row(line, now) for line in data]
        )
    else:
        cells = [(*(line[name] for name in _PIPED), "*" if line["is_in_use"] else "") for line in data]
        show_rows((), [["" if cell is None else str(cell) for cell in row] for row in cells])


def _npub_in_environment(settings: Settings) -> str | None:
    """The public key of a NOSTR_NSEC that is in use; None without one, and where its password would be needed."""
    from sense_memory.config.settings import find_nsec
    from sense_memory.nostr.keys import npub

    with suppress(BadKey, KeyMissing), warnings_as_lines():
        found = find_nsec(settings)
        if found is not None:
            with found[0] as secret:
                return npub(secret.public_key)
    return None


def _agent_data(agent: AgentFiles, settings: Settings) -> dict[str, Any]:
    return {**shape_of(agent), "is_in_use": agent.name == settings.agent}


def _agent_row(agent: Mapping[str, Any], now: float) -> tuple[str, ...]:
    """One agent in the table of a terminal; the npub stays whole, to be copied."""
    owner = agent["npub"] or _KEYS[agent["key"]]
    ledger = "-" if agent["bytes"] is None else size(agent["bytes"])
    last = agent["last_sync"]
    synced = "never" if last is None else age(datetime.fromisoformat(last).timestamp(), now)
    return "*" if agent["is_in_use"] else "", agent["name"] or "?", owner, ledger, synced
