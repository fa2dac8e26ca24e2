"""The file of a bunker: how an agent reaches its remote signer, and the key pair by which the signer knows this machine.

It lies beside the key files, as `keys/AGENT.bunker`, is read and written with the same care (mode 0600), and does not
contain the agent's key. Whoever copies it can ask the bunker for signatures until the bunker's owner revokes this client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.config.key_file import read_key_text, replace_private, write_private
from sense_memory.errors import BadKey
from sense_memory.nostr.event import is_hex64
from sense_memory.nostr.keys import Secret, parse_secret
from sense_memory.nostr.remote_signing import checked_relays


if TYPE_CHECKING:
    from pathlib import Path

SUFFIX: Final = ".bunker"
_TYPE: Final = "sense-memory:bunker"
_MAX_BYTES: Final = 32_768


@dataclass(frozen=True, slots=True)
class BunkerAccount:
    """How one agent reaches its remote signer.

    Attributes:
        client: the key of this client; the signer knows this machine by it.
        signer: the public key that the bunker answers with, 64 hex digits.
        relays: where the bunker listens.
        public_key: the key that the bunker signs with: whose memory it is, 64 hex digits.
        path: the file; None for an account that is not kept.
    """

    client: Secret
    signer: str
    relays: tuple[str, ...]
    public_key: str
    path: Path | None = None

    def saved(self, path: Path) -> BunkerAccount:
        """Write a new file; returns the account with its path.

        Raises:
            UnsafeFile: the file exists (it was not touched), or its folder is open to others.
            OSError: the folder cannot be written, or the disk is full.
        """
        write_private(path, self.as_text(), instead="another agent name")
        return replace(self, path=path)

    def moved(self, relays: tuple[str, ...]) -> BunkerAccount:
        """The account at other relays, which the file then names."""
        found = replace(self, relays=relays)
        if self.path is not None:
            replace_private(self.path, found.as_text())
        return found

    def as_text(self) -> str:
        """What the file contains: it holds the client's key."""
        fields = {
            "type": _TYPE,
            "client": self.client.nsec(),
            "signer": self.signer,
            "relays": self.relays,
            "public_key": self.public_key,
        }
        return orjson.dumps(fields).decode()


def read_account(path: Path) -> BunkerAccount:
    """The account in a file.

    Raises:
        KeyMissing: there is no such file.
        UnsafeFile: others can read or replace the file; the error says what to do.
        BadKey: the file is not one of a bunker; no part of it is repeated.
    """
    text = read_key_text(path, max_bytes=_MAX_BYTES)
    try:
        fields = orjson.loads(text)
        relays = checked_relays(fields["relays"])
        is_whole = fields["type"] == _TYPE and is_hex64(fields["signer"]) and is_hex64(fields["public_key"])
        if is_whole and relays:
            return BunkerAccount(
                parse_secret(fields["client"]), fields["signer"], relays, fields["public_key"], path
            )
    except (ValueError, KeyError, TypeError):  # of orjson and BadKey too: neither may be chained
        pass
    raise BadKey(f"{path} is not the file of a bunker; connect anew with `sense-memory init --bunker`")
