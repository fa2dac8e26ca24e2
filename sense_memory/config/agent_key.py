"""An agent's key: opened from text that may be encrypted, and looked for where its name leads.

The order is key file, the system's keyring, encrypted key file: what needs nobody at the keyboard comes
first. The keyring knows agents by name only, so it serves the platform's own home folder and no other. Which agent it is, and whether the environment names a key before all of this, is the business of
`settings`. The environment itself is never changed: it belongs to the program that uses this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sense_memory.config import keyring as keychain
from sense_memory.config.key_file import read_key_text
from sense_memory.errors import BadKey, KeychainError, KeyMissing
from sense_memory.nostr.keys import parse_secret
from sense_memory.nostr.nip49 import decrypt_secret, is_ncryptsec, log_n_of


if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sense_memory.nostr.keys import Secret

AskPassword = Callable[[str], str]  # a prompt in, the password out; what it raises ends the search

NSEC_VARIABLE: Final = "NOSTR_NSEC"


def open_key(text: str, place: str, ask_password: AskPassword | None) -> Secret:
    """A secret key from an nsec, 64 hex digits, or an ncryptsec, whose password is asked for once.

    Args:
        text: the key as text.
        place: where it was found, in words, for prompt and errors.
        ask_password: None where nobody can be asked.

    Raises:
        KeyMissing: it is encrypted and nobody can be asked; `locked` is the place.
        BadKey: no key, or a wrong password. Begins with the place, repeats nothing.
    """
    try:
        if not is_ncryptsec(text):
            return parse_secret(text)
        log_n_of(text)  # nobody should type a password for a text that cannot be opened
        if ask_password is None:
            raise KeyMissing((place,), locked=place)
        return decrypt_secret(text, ask_password(f"Password for {place}"))
    except BadKey as error:
        raise BadKey(f"{place}: {error}") from None


def default_home() -> Path:
    """The home folder where nobody chose one: the platform's data folder for sense-memory."""
    from platformdirs import user_data_path

    return user_data_path("sense-memory", appauthor=False)


def agent_key(
    key_file: Path, agent: str | None, ask_password: AskPassword | None, *, home: Path
) -> tuple[Secret, str]:
    """An agent's key, and in words where it was found.

    Args:
        key_file: such as `keys/NAME.key`; its encrypted neighbour is `keys/NAME.ncryptsec`.
        agent: the agent's name. None where the file was named explicitly: then only the file counts.
        ask_password: as for `open_key`.
        home: the agent's home folder. The keyring is asked for agents of `default_home()` only, because two
            home folders may both have an agent "default".

    Raises:
        KeyMissing: none of them has it (`looked`), or an encrypted key cannot be unlocked (`locked`).
        BadKey: what was found is no key, or the password is wrong.
        UnsafeKeyFile: a key file that others could read or replace.
    """
    looked: list[str] = []
    try:
        found = _in_file(key_file, looked, ask_password)
        if found is None and agent is not None:
            found = _in_keyring(agent, looked) if home == default_home() else None
            if found is None:
                found = _in_file(key_file.with_suffix(".ncryptsec"), looked, ask_password)
    except KeyMissing as missing:  # an encrypted one; that the keyring was locked belongs to its message
        raise KeyMissing((*looked, *missing.looked), missing.locked) from None
    if found is None:
        raise KeyMissing(tuple(looked))
    return found


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A copy of the environment without NOSTR_NSEC, for whoever starts another process: `env=` of Popen.

    This package starts no process and leaves `os.environ` as it is. A key that came in through the
    environment stays readable in /proc/PID/environ of this process until it ends, whatever is deleted later.
    """
    return {name: value for name, value in environ.items() if name.upper() != NSEC_VARIABLE}


def _in_file(path: Path, looked: list[str], ask_password: AskPassword | None) -> tuple[Secret, str] | None:
    place = f"the key file {path}"
    try:
        text = read_key_text(path)
    except KeyMissing:
        looked.append(place)
        return None
    return open_key(text, place, ask_password), place


def _in_keyring(agent: str, looked: list[str]) -> tuple[Secret, str] | None:
    if not keychain.installed():
        return None
    place = "the system's keyring"
    try:
        secret = keychain.load(agent)
    except KeychainError as error:
        looked.append(f"{place} ({error.problem})")
        return None
    if secret is None:
        looked.append(f"{place} (no entry for {agent})")
        return None
    return secret, place
