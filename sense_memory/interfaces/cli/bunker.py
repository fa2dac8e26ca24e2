"""`init --bunker`: connect an agent with a bunker (NIP-46), which keeps the key."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import typer

from sense_memory.interfaces.cli.invocation import ask_to_approve, program, tell
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from sense_memory.config.settings import Settings
    from sense_memory.nostr.remote_signing import BunkerUrl
    from sense_memory.signers.bunker_file import BunkerAccount

_MAX_URL_CHARS: Final = 4_096


def typed_url() -> BunkerUrl:
    """The URL from stdin, or typed unseen: its secret stays out of the list of processes and of the shell's history.

    Raises:
        InvalidInput: not the URL of a bunker.
    """
    from sense_memory.nostr.remote_signing import BunkerUrl

    if sys.stdin.isatty():
        return BunkerUrl.parse(typer.prompt("bunker:// URL (not shown)", hide_input=True, err=True))
    return BunkerUrl.parse(sys.stdin.read(_MAX_URL_CHARS))


def connect(settings: Settings, url: BunkerUrl) -> BunkerAccount:
    """Connect, and write the file by which the agent reaches the bunker from now on.

    Raises:
        SignerError: the bunker refuses, does not answer, or answers something wrong; nothing was written.
        UnsafeFile: the file exists, or its folder is open to others.
    """
    from sense_memory.signers.agent_signer import bunker_path
    from sense_memory.signers.remote_signer import RemoteSigner

    async def introduce() -> BunkerAccount:
        signer = await RemoteSigner.connected(url, on_auth_url=ask_to_approve)
        await signer.disconnect()
        return signer.account.saved(bunker_path(settings))

    return asyncio.run(introduce())


def explain(agent: str, account: BunkerAccount) -> None:
    """What was connected, and what follows."""
    tell(f"Connected agent {agent!r} with a bunker.")
    tell(f"  public key  {npub(account.public_key)}", indent=14)
    tell(f"  bunker      at {', '.join(account.relays)}", indent=14)
    tell(f"  this client {npub(account.client.public_key)}, in {account.path}", indent=14)
    typer.echo(
        "\nThe key itself is not on this machine. Every write asks the bunker, and every\n"
        "start asks it once to open what is here, so it has to run whenever the agent\n"
        "does. To take this machine's access away, revoke its client in the bunker.\n"
        f"\nNext: {program(agent)} relays add wss://relay.example, then {program(agent)} sync"
    )
