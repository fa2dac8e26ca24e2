"""The secret key of an agent: read from a text that may be encrypted, and found by the agent's name.

The search order is key file, system keyring, encrypted key file: a key that needs no password comes first. The keyring
identifies agents by name only, so the keyring is searched for the default data folder only. `settings` decides which
agent is meant, and whether the environment has a key that comes before this search. The environment is never changed,
because it belongs to the program that uses this package.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sense_memory.config import keyring as keychain
from sense_memory.config.key_file import read_key_text
from sense_memory.errors import BadKey, KeyMissing, KeyringError
from sense_memory.nostr.keys import parse_secret
from sense_memory.nostr.nip49 import decrypt_secret, is_ncryptsec, log_n_of


if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sense_memory.nostr.keys import Secret

AskPassword = Callable[[str], str]  # takes a prompt, returns the password; an exception ends the search

NSEC_VARIABLE: Final = "NOSTR_NSEC"


def open_key(text: str, place: str, ask_password: AskPassword | None) -> Secret:
    """The secret key in an nsec, 64 hex digits, or an ncryptsec, whose password is asked for once.

    Args:
        text: the key as text.
        place: where the text was found, in words, for the prompt and for errors.
        ask_password: asks the user for the password; None if nobody can be asked.

    Raises:
        KeyMissing: the key is encrypted and `ask_password` is None; `locked` is the place.
        BadKey: the text is not a key, or the password is wrong. The message never repeats the text.
    """
    try:
        if not is_ncryptsec(text):
            return parse_secret(text, forms="nsec1…, ncryptsec1… or 64 hex digits")
        log_n_of(text)  # raises before a password is typed for a text that cannot be opened
        if ask_password is None:
            raise KeyMissing((place,), locked=place)
        return decrypt_secret(text, ask_password(f"Password for {place}"))
    except BadKey as error:
        raise BadKey(f"{place}: {error}") from None


def default_home() -> Path:
    """The default data folder, which is the platform's for sense-memory."""
    from platformdirs import user_data_path

    return user_data_path("sense-memory", appauthor=False)


def agent_key(
    key_file: Path, agent: str | None, ask_password: AskPassword | None, *, home: Path
) -> tuple[Secret, str]:
    """The key of an agent, and the place where it was found, in words.

    Args:
        key_file: such as `keys/NAME.key`; the encrypted key file beside it is `keys/NAME.ncryptsec`.
        agent: the agent's name; None if the file was named explicitly, so that only the file is read.
        ask_password: as for `open_key`.
        home: the agent's data folder. The keyring is searched for agents of `default_home()` only, because two
            data folders may both have an agent "default".

    Raises:
        KeyMissing: no place has the key (`looked`), or an encrypted key cannot be unlocked (`locked`).
        BadKey: a place holds something other than a key, or the password is wrong.
        UnsafeFile: others can read or replace the key file.
    """
    looked: list[str] = []
    try:
        found = _in_file(key_file, looked, ask_password)
        if found is None and agent is not None:
            found = _in_keyring(agent, looked) if home == default_home() else None
            if found is None:
                found = _in_file(key_file.with_suffix(".ncryptsec"), looked, ask_password)
    except KeyMissing as missing:  # an encrypted key; the message also says what was wrong with the keyring
        raise KeyMissing((*looked, *missing.looked), missing.locked) from None
    if found is None:
        raise KeyMissing(tuple(looked))
    return found


def agent_names(home: Path) -> list[str]:
    """The agents that have a key file or a config file in a data folder. Opens no key and no keyring."""
    files = {"keys": {".key", ".ncryptsec", ".bunker"}, "agents": {".toml"}}
    found = set()
    for folder, endings in files.items():
        with contextlib.suppress(OSError):
            found |= {path.stem for path in (home / folder).iterdir() if path.suffix in endings}
    return sorted(found)


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A copy of the environment without NOSTR_NSEC, for the `env=` of a child process.

    This package starts no process and never changes `os.environ`. A key in the environment stays readable in
    /proc/PID/environ until the process ends, even if the variable is deleted.
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
    except KeyringError as error:
        looked.append(f"{place} ({error.problem})")
        return None
    if secret is None:
        looked.append(f"{place} (no entry for {agent})")
        return None
    return secret, place
