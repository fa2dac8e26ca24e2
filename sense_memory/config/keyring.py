"""The system's keyring: macOS Keychain, Windows Credential Locker, Secret Service, KWallet.

One entry per agent: service "sense-memory", user the agent's name, value the nsec. The library of the extra
`keyring` is imported on first use. A keyring is lost with its desktop account, so keep a backup of the key. The
words of a backend never reach an error, and an entry is never overwritten. Every call blocks for as long as the
system asks its user to unlock the keyring.
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
    """The key of an agent; None where the agent has no entry, or the extra is not installed.

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
    """Store the key of an agent, and read it back to be sure.

    Raises:
        KeyringError: the keyring is locked, fails, or does not protect its entries; or it already holds another
            key of this agent, which was not touched.
        BadKey: the keyring holds something else under this name, which was not touched.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.priority < _PROTECTED):
        raise KeyringError("the keyring of this machine does not protect its entries; nothing was stored")
    before = load(agent)
    if before == secret:
        return
    if before is not None:
        raise KeyringError(f"it already holds another key of {agent}, which was not touched")
    _ask(lambda backend: backend.set_password(SERVICE, agent, secret.nsec()))
    if load(agent) != secret:
        raise KeyringError("do not rely on the keyring, which did not keep the key")


def delete(agent: str) -> bool:
    """Remove the entry of an agent; False where there was no entry. Without another copy the memories are lost.

    Raises:
        KeyringError: the keyring is locked or fails, there is no keyring, or the entry is still there.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is None:
        return False
    _ask(lambda backend: backend.delete_password(SERVICE, agent))
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is not None:
        raise KeyringError("it still holds the entry")
    return True


def _ask(question: Callable[[KeyringBackend], _T]) -> _T:
    if not installed():
        raise MissingExtra("keyring")
    try:
        from keyring import get_keyring

        return question(get_keyring())
    except Exception as error:  # backends raise whatever the library of their system raises
        kind = type(error).__name__
    # Raised outside the handler, so that the words of a backend, which may repeat the key, are not chained.
    raise KeyringError(_PROBLEMS.get(kind, f"it failed ({kind})"))
