"""The system's keyring: macOS Keychain, Windows Credential Locker, Secret Service, KWallet.

There is one entry for each agent: service "sense-memory", user the agent's name, value the nsec. The library of the
extra `keyring` is imported on first use. A keyring is lost with its desktop account, so keep a backup of the key. An
entry is never overwritten, and no error contains a backend's message. Every call blocks while the system asks the user
to unlock the keyring.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from sense_memory.errors import BadKey, KeyringError, MissingExtra
from sense_memory.nostr.keys import parse_secret


if TYPE_CHECKING:
    from collections.abc import Callable

    from keyring.backend import KeyringBackend

    from sense_memory.nostr.keys import Secret

_T = TypeVar("_T")

SERVICE: Final = "sense-memory"
_PROTECTED: Final = 1  # `keyring` recommends backends from this priority on; plain-text files have less
_PROBLEMS: Final = {
    "NoKeyringError": "there is no keyring on this machine",
    "KeyringLocked": "it is locked; unlock it and try again",
}


def installed() -> bool:
    """Whether the extra `keyring` is installed; the machine may still have no keyring."""
    return find_spec("keyring") is not None


def load(agent: str) -> Secret | None:
    """The key of an agent; None if the agent has no entry, or the extra is not installed.

    Raises:
        KeyringError: the keyring is locked or fails, or there is no keyring.
        BadKey: the entry is not a secret key. The message never repeats the entry.
    """
    if not installed():
        return None
    text = _ask(lambda backend: backend.get_password(SERVICE, agent))
    if text is None:
        return None
    try:
        return parse_secret(text)
    except BadKey as error:
        raise BadKey(f"the system's keyring, {SERVICE}, {agent}: {error}") from None


def save(agent: str, secret: Secret) -> None:
    """Store the key of an agent, and verify it by reading it back.

    Raises:
        KeyringError: the keyring is locked, fails, or does not protect its entries; or it has another key of this
            agent, which was not changed.
        BadKey: the keyring's entry for this agent is not a key; the entry was not changed.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.priority < _PROTECTED):
        raise KeyringError("it does not protect its entries; nothing was stored")
    before = load(agent)
    if before == secret:
        return
    if before is not None:
        raise KeyringError(f"it already has another key of {agent}, which was not changed")
    _ask(lambda backend: backend.set_password(SERVICE, agent, secret.nsec()))
    if load(agent) != secret:
        raise KeyringError("it did not store the key")


def delete(agent: str) -> bool:
    """Remove the entry of an agent; False if there was no entry. Without another copy of the key, memories are lost.

    Raises:
        KeyringError: the keyring is locked or fails, there is no keyring, or the entry is still there.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is None:
        return False
    _ask(lambda backend: backend.delete_password(SERVICE, agent))
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is not None:
        raise KeyringError("it did not remove the entry")
    return True


def _ask(question: Callable[[KeyringBackend], _T]) -> _T:
    if not installed():
        raise MissingExtra("keyring")
    try:
        from keyring import get_keyring

        return question(get_keyring())
    except Exception as error:  # a backend raises whatever the system's library raises
        kind = type(error).__name__
    # Raised outside the handler, so that the backend's error, which may repeat the key, is not chained.
    raise KeyringError(_PROBLEMS.get(kind, f"it failed ({kind})"))
