"""The agents of a machine: their public keys, their ledgers, and when a relay last showed everything to each.

Public keys are read from plain key files. No password is asked for, no keyring is opened, and ledgers are only read. If
the key of an agent is encrypted, its ledger cannot be assigned, and is listed without a name.
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

_LEDGER_FILES: Final = ("", "-wal")  # the ledger itself, and SQLite's write-ahead log beside it


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The files of one agent in the data folder.

    Attributes:
        name: the agent's name; None for a ledger whose agent is not known.
        npub: the public key; None if the key would have to be decrypted to know it.
        key: "file", "encrypted", "bunker", "unusable" (other users can read the file, or it holds no key), or "none".
        ledger: the ledger file; None if it does not exist, or the public key is not known.
        bytes: the size of the ledger on disk.
        last_sync: when a relay last showed everything, seconds since 1970; None for never.
    """

    name: str | None
    npub: str | None
    key: str
    ledger: Path | None = None
    bytes: int | None = None
    last_sync: float | None = None


def list_agents(settings: Settings, npub_in_use: str | None) -> list[AgentFiles]:
    """The agents of a data folder in the order of their names, then the ledgers that belong to none of them.

    Args:
        settings: the settings of the agent in use, which is listed even if it has no file, unless there is nothing else.
        npub_in_use: the public key of the agent in use; None if the caller does not know it.
    """
    home, found = settings.home, []
    named = agent_names(home)
    for name in sorted({*named, settings.agent}):
        is_in_use = name == settings.agent
        owner, key = _owner(settings.key_file if is_in_use else home / "keys" / f"{name}.key")
        found.append(_with_ledger(home, name, (npub_in_use if is_in_use else None) or owner, key))
    owners = {agent.npub for agent in found}
    ledgers = sorted((home / "ledgers").glob("npub1*.db"))
    if not named and not ledgers and owners == {None}:
        return []
    nameless = [path.stem for path in ledgers if path.stem not in owners]
    return found + [_with_ledger(home, None, owner, "none") for owner in nameless]


def _owner(key_file: Path) -> tuple[str | None, str]:
    """The public key in a plain key file as npub, and the state of the key, see `AgentFiles`."""
    try:
        with open_key(read_key_text(key_file), "the key file", None) as secret:
            return npub(secret.public_key), "file"
    except KeyMissing as missing:
        is_encrypted = missing.locked is not None or key_file.with_suffix(".ncryptsec").exists()
        return (None, "encrypted") if is_encrypted else _bunker_owner(key_file)
    except (BadKey, UnsafeFile):
        return None, "unusable"


def _bunker_owner(key_file: Path) -> tuple[str | None, str]:
    """As `_owner`, of an agent whose key is in a bunker."""
    from sense_memory.signers.bunker_file import SUFFIX, read_account

    try:
        return npub(read_account(key_file.with_suffix(SUFFIX)).public_key), "bunker"
    except KeyMissing:
        return None, "none"
    except (BadKey, UnsafeFile):
        return None, "unusable"


def _with_ledger(home: Path, name: str | None, owner: str | None, key: str) -> AgentFiles:
    path = None if owner is None else ledger_path(home, owner)
    if path is None or not path.exists():
        return AgentFiles(name, owner, key)
    files = [path.with_name(path.name + suffix) for suffix in _LEDGER_FILES]
    size = sum(file.stat().st_size for file in files if file.exists())
    return AgentFiles(name, owner, key, path, size, last_pull(path))
