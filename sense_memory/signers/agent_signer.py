"""The signer of an agent: its key where the key is on this machine, or else the bunker that it was connected with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sense_memory.config.settings import find_secret
from sense_memory.errors import KeyMissing
from sense_memory.nostr.signer import LocalSigner
from sense_memory.signers.bunker_file import SUFFIX, read_account


if TYPE_CHECKING:
    from pathlib import Path

    from sense_memory.config.agent_key import AskPassword
    from sense_memory.config.settings import Settings
    from sense_memory.nostr.signer import Signer


def bunker_path(settings: Settings) -> Path:
    """Where the file of an agent's bunker lies: beside its key file."""
    return settings.key_file.with_suffix(SUFFIX)


def find_signer(
    settings: Settings, *, ask_password: AskPassword | None = None, **options: Any
) -> tuple[Signer, str]:
    """The signer of the agent, and the place where its key was found, in words. Contacts no bunker.

    Decrypting a key blocks for about a second, as in `find_secret`, whose order of places holds; a bunker comes last.

    Args:
        settings: from `Settings.load`.
        ask_password: as for `find_secret`.
        options: of `RemoteSigner`.

    Raises:
        KeyMissing, BadKey, UnsafeFile: no usable key, and no usable file of a bunker.
    """
    path = bunker_path(settings)
    try:
        if settings.key_file != path:
            secret, place = find_secret(settings, ask_password=ask_password)
            return LocalSigner(secret), place
    except KeyMissing as missing:
        if missing.locked is not None or not path.exists():
            raise
    from sense_memory.signers.remote_signer import RemoteSigner

    return RemoteSigner(read_account(path), **options), f"a bunker, see {path}"
