"""The agents of a machine: their public keys, their ledgers, and when each was last in step with a relay.

A plain key file is read for its public key. No password is asked for and no keyring is opened, and ledgers are only
read. Where an encrypted key hides whose a ledger is, the ledger is listed without a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.config.agent_key import agent_names, open_key
from sense_memory.config.key_file import read_key_text
from sense_memory.config.settings import ledger_path
from sense_memory.errors import BadKey, KeyMissing, UnsafeFile
from sense_memory.ledger.relays import last_pull
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from pathlib import Path

    from sense_memory.config.settings import Settings

_SIDES: Final = ("", "-wal")  # of a ledger: what is not yet in the file itself is beside it


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """What the home folder holds of one agent.

    Attributes:
        name: None for a ledger whose agent is not known here.
        npub: the public key; None where only opening the key would show it.
        key: "file", "encrypted", "unusable" (others can read the file, or it is no key), or "none" in this folder.
        ledger: the file of its memories; None where there is none, or the public key is not known.
        bytes: of that file on disk.
        last_sync: when a relay last showed everything, seconds since 1970; None for never.
    """

    name: str | None
    npub: str | None
    key: str
    ledger: Path | None = None
    bytes: int | None = None
    last_sync: float | None = None


def list_agents(settings: Settings, npub_in_use: str | None) -> list[AgentFiles]:
    """The agents of a home folder, by name, and then the ledgers that belong to none of them.

    Args:
        settings: those of the agent in use, which is listed even without a file here.
        npub_in_use: the public key of the agent in use, if the caller knows it.
    """
    home, found = settings.home, []
    for name in sorted({*agent_names(home), settings.agent}):
        is_in_use = name == settings.agent
        owner, key = _owner(settings.key_file if is_in_use else home / "keys" / f"{name}.key")
        found.append(_with_ledger(home, name, (npub_in_use if is_in_use else None) or owner, key))
    owners = {agent.npub for agent in found}
    ledgers = sorted((home / "ledgers").glob("npub1*.db"))
    nameless = [path.stem for path in ledgers if path.stem not in owners]
    return found + [_with_ledger(home, None, owner, "none") for owner in nameless]


def _owner(key_file: Path) -> tuple[str | None, str]:
    """The public key in a plain key file, as npub, and the state of the key."""
    try:
        with open_key(read_key_text(key_file), "the key file", None) as secret:
            return npub(secret.public_key), "file"
    except KeyMissing as missing:
        is_encrypted = missing.locked is not None or key_file.with_suffix(".ncryptsec").exists()
        return None, "encrypted" if is_encrypted else "none"
    except (BadKey, UnsafeFile):
        return None, "unusable"


def _with_ledger(home: Path, name: str | None, owner: str | None, key: str) -> AgentFiles:
    path = None if owner is None else ledger_path(home, owner)
    if path is None or not path.exists():
        return AgentFiles(name, owner, key)
    sides = [path.with_name(path.name + side) for side in _SIDES]
    size = sum(side.stat().st_size for side in sides if side.exists())
    return AgentFiles(name, owner, key, path, size, last_pull(path))
