"""`rotate`: give an agent a new key, carry everything to it, and delete what the old key signed."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import DryRunOption, JsonOption, YesOption, flag
from sense_memory.interfaces.cli.invocation import (
    CommandFailed,
    ExitCode,
    ask_to_approve,
    confirm,
    of,
    password_prompt,
    program,
    store_of,
    tell,
    warnings_as_lines,
)
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, quantity
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from pathlib import Path

    from sense_memory.config.rotated_keys import RotatedKeys
    from sense_memory.config.settings import Settings
    from sense_memory.memories.goodbye import Goodbye
    from sense_memory.memories.rotation import Carried, ReadBack
    from sense_memory.nostr.signer import Signer
    from sense_memory.store.rotation import Rotation

_SHOWN_CHARS = 12  # of an npub in the name of a file


@dataclass(frozen=True, slots=True)
class Rotated:
    """The result of a rotation.

    Attributes:
        old: the public key that was given up.
        new: the public key that is in use now.
        carried: what was carried; None where that was done by an earlier call.
        relays: what each relay showed of the new key.
        goodbye: what became of the old key's events.
        old_key_file: where the old key is kept; None while its events are still being deleted.
    """

    old: str
    new: str
    carried: Carried | None
    relays: tuple[ReadBack, ...]
    goodbye: Goodbye | None
    old_key_file: str | None


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "sense-memory rotate --dry-run",
        "sense-memory rotate",
        codes={
            1: "a relay lacks something under the new key; nothing was deleted, run it again",
            3: "the new key is in use, and not every deletion under the old key is confirmed; run it again",
        },
    ),
)
def rotate(
    context: typer.Context,
    dry_run: DryRunOption = False,
    bunker: Annotated[
        bool,
        flag("--bunker", text="The new key stays in a bunker: its bunker:// URL from stdin or typed unseen."),
    ] = False,
    vanish: Annotated[
        bool,
        flag(
            "--vanish",
            text="In the end, ask relays that support it to delete all events of the old key (NIP-62). Other devices then do not learn of the new key.",
        ),
    ] = False,
    yes: YesOption = False,
    _json: JsonOption = False,
) -> None:
    """Give the agent a new key, because the old one may be in other hands.

    Everything is sealed again under the new key, in a new ledger, and sent to the relays. Each relay is then asked for it.
    Once every relay that answers has all of it, the new key takes the place of the old one, and everything of the old key is
    deleted. Interrupted, the same command goes on. Whoever has the old key can still read what they copied before.
    """
    invocation = of(context)
    settings = invocation.settings()
    keys = _keys_of(settings)
    if dry_run:
        _print_plan(asyncio.run(_plan(settings, keys)), as_json_text=invocation.as_json)
        return
    if not yes:
        _ask(settings)
    result = asyncio.run(_rotate(settings, keys, bunker=bunker, vanish=vanish))
    if invocation.as_json:
        typer.echo(as_json(shape_of(result)))
    else:
        _print(result)
    if result.old_key_file is None:
        raise typer.Exit(ExitCode.NOT_REPLICATED)


def _keys_of(settings: Settings) -> RotatedKeys:
    """The agent's key files. Raises InvalidInput where its key lies elsewhere."""
    from sense_memory.config.rotated_keys import RotatedKeys
    from sense_memory.config.settings import find_nsec

    keys = RotatedKeys(settings.key_file)
    if settings.ledger is not None:
        raise InvalidInput("a rotation makes a ledger of its own; leave out --ledger. Nothing was changed")
    with warnings_as_lines():
        is_elsewhere = find_nsec(settings, ask_password=password_prompt()) is not None
    if is_elsewhere or (keys.current is None and keys.next is None):
        raise InvalidInput(
            f"the key to rotate must lie in the agent's key file, {settings.key_file}, or in a bunker; put it there with "
            f"`{program()} init --import`, and take it out of the environment or the keyring. Nothing was changed"
        )
    keys.finish_switch()
    return keys


async def _plan(settings: Settings, keys: RotatedKeys) -> dict[str, Any]:
    """What a rotation would do; nothing is written."""
    current = keys.current or keys.next
    signer = _signer_in(current)  # type: ignore[arg-type]  # checked by `_keys_of`
    async with store_of(settings, signer, background=False) as store:
        status = store.status()
        scenes = len(await store.mind.scenes.all(asks=False))
        return {
            "npub": npub(signer.public_key),
            "stage": keys.stage.value,
            "counts": dict(status.counts),
            "relays": list(settings.relays),
            "scenes": scenes,
            "mirrors": len(store.mirror.all()),
        }


def _print_plan(plan: dict[str, Any], *, as_json_text: bool) -> None:
    if as_json_text:
        typer.echo(as_json(plan))
        return
    counts = plan["counts"]
    tell(f"Would give up {plan['npub']} for a new key.")
    tell(
        f"  carried   {quantity(counts['heads'], 'memory', 'memories')} and entries, {counts['older']:,} older versions",
        indent=12,
    )
    tell(f"  sent to   {', '.join(plan['relays']) or 'nowhere: no relays are configured'}", indent=12)
    tell(f"  deleted   afterwards, under the old key, {quantity(counts['events'], 'event')}", indent=12)
    if plan["scenes"]:
        tell(
            f"  scenes    {quantity(plan['scenes'], 'scene')}: the keys by which this agent reads and writes there are carried; "
            "who has the old key may have them too, so have a new key given out in each scene",
            indent=12,
        )
    if plan["mirrors"]:
        tell(
            f"  mirrors   {quantity(plan['mirrors'], 'folder')} must be mirrored again afterwards", indent=12
        )
    tell("  not kept  embeddings of journal entries and search indexes; they are made again", indent=12)


def _ask(settings: Settings) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput(
            "nothing was changed: confirm on a terminal, or give --yes; --dry-run shows what would be done"
        )
    if not confirm(f"Give agent {settings.agent!r} a new key, and delete everything under the old one?"):
        raise typer.Exit(ExitCode.OK)


async def _rotate(settings: Settings, keys: RotatedKeys, *, bunker: bool, vanish: bool) -> Rotated:
    """Go on where the last call stopped."""
    from sense_memory.config.rotated_keys import RotationStage
    from sense_memory.store.rotation import Rotation

    if keys.stage is not RotationStage.DELETING and keys.next is None:
        await _make_next(settings, keys, bunker=bunker)
    is_deleting = keys.stage is RotationStage.DELETING
    old = _signer_in(keys.old if is_deleting else keys.current)  # type: ignore[arg-type]  # both exist at this stage
    new = _signer_in(keys.current if is_deleting else keys.next)  # type: ignore[arg-type]
    carried, relays = None, list["ReadBack"]()
    async with AsyncExitStack() as stack:
        rotation = Rotation(
            *[
                await stack.enter_async_context(store_of(settings, one, background=False))
                for one in (old, new)
            ]
        )
        if not is_deleting:
            carried, relays = await _carry(rotation)
            keys.switch()
        goodbye = await _delete(rotation, vanish=vanish)
    kept = keys.keep_old(npub(old.public_key)[:_SHOWN_CHARS]) if goodbye.is_confirmed else None
    return Rotated(
        npub(old.public_key),
        npub(new.public_key),
        carried,
        tuple(relays),
        goodbye,
        None if kept is None else str(kept),
    )


async def _carry(rotation: Rotation) -> tuple[Carried, list[ReadBack]]:
    """Carry everything, and check that it is there. Raises CommandFailed where it is not; nothing was deleted."""
    from sense_memory.interfaces.cli.tables import progress

    with progress("carrying", rotation.old.status().counts["events"]) as advance:
        carried = await rotation.carry(advance)
    relays = await rotation.read_back()
    lacking = [relay for relay in relays if relay.missing]
    if carried.missing or lacking or (relays and all(relay.missing is None for relay in relays)):
        names = ", ".join(f"{relay.url} lacks {relay.missing:,}" for relay in lacking)
        what = names or (
            f"{carried.missing:,} are not carried yet" if carried.missing else "no relay could be asked"
        )
        raise CommandFailed(
            ExitCode.ERROR,
            "NotCarried",
            f"under the new key, not everything is there: {what}. The old key stays in use, and nothing was deleted; run "
            f"`{program()} rotate` again",
        )
    return carried, relays


async def _delete(rotation: Rotation, *, vanish: bool) -> Goodbye:
    from sense_memory.interfaces.cli.tables import progress

    with progress("deleting", rotation.old.count_everything()) as advance:
        return await rotation.delete_old(vanish=vanish, progress=advance)


async def _make_next(settings: Settings, keys: RotatedKeys, *, bunker: bool) -> None:
    """Make the next key, or connect with the bunker that has it."""
    from sense_memory.config.key_file import write_secret
    from sense_memory.config.rotated_keys import BUNKER, KEY
    from sense_memory.nostr.keys import Secret

    if bunker:
        from sense_memory.interfaces.cli.bunker import typed_url
        from sense_memory.signers.remote_signer import RemoteSigner

        signer = await RemoteSigner.connected(typed_url(), on_auth_url=ask_to_approve)
        await signer.disconnect()
        if signer.public_key == _signer_in(keys.current).public_key:  # type: ignore[arg-type]  # checked before
            raise InvalidInput(
                f"the bunker has the key that agent {settings.agent!r} has already; choose a new one there"
            )
        signer.account.saved(keys.place_of_next(BUNKER))
    else:
        with Secret.generate() as secret:
            write_secret(keys.place_of_next(KEY), secret)


def _signer_in(path: Path) -> Signer:
    """The signer of a key file or of a bunker's file."""
    from sense_memory.config.agent_key import agent_key
    from sense_memory.config.rotated_keys import BUNKER
    from sense_memory.nostr.signer import LocalSigner
    from sense_memory.signers.bunker_file import read_account
    from sense_memory.signers.remote_signer import RemoteSigner

    if path.suffix == BUNKER:
        return RemoteSigner(read_account(path), on_auth_url=ask_to_approve)
    return LocalSigner(agent_key(path, None, password_prompt(), home=path.parent)[0])


def _print(result: Rotated) -> None:
    tell(f"The key is {result.new} now; {result.old} was given up.")
    if result.carried is not None:
        tell(
            f"Carried {quantity(result.carried.heads, 'memory or record', 'memories and records')} to the new key."
        )
    if result.relays:
        show_rows(
            ("relay", "lacks under the new key", "finding"),
            [
                (
                    relay.url,
                    "?" if relay.missing is None else f"{relay.missing:,}",
                    relay.problem or "has everything",
                )
                for relay in result.relays
            ],
        )
    if result.goodbye is not None and result.goodbye.relays:
        from sense_memory.interfaces.cli.goodbye import show_relays

        show_relays(result.goodbye)
    if result.old_key_file is None:
        tell(f"Not every deletion under the old key is confirmed. Run it again later: {program()} rotate")
    else:
        tell(f"The old key is kept in {result.old_key_file}; nothing needs it any more.")
    tell("Back up the new key now, and give it to your other devices: they still have the old one.")
