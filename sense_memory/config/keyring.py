"""The system's keyring: macOS Keychain, Windows Credential Locker, Secret Service, KWallet.

One entry per agent: service "sense-memory", user the agent's name, value the nsec. It needs the extra
`keyring`, which is imported when it is first asked. A keyring lives and dies with a desktop account, so it is
never the only place of a key: keep a backup too. What a backend says never reaches an error, and an entry is
never overwritten. Every call blocks, for as long as the system asks its user to unlock the keyring.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from sense_memory.errors import BadKey, KeychainError, MissingExtra
from sense_memory.nostr.keys import parse_secret


if TYPE_CHECKING:
    from collections.abc import Callable

    from keyring.backend import KeyringBackend

    from sense_memory.nostr.keys import Secret

_T = TypeVar("_T")

SERVICE: Final = "sense-memory"
_PROTECTED: Final = 1  # the priority from which `keyring` recommends a backend; plain-text files have less
_PROBLEMS: Final = {
    "NoKeyringError": "there is none on this machine",
    "KeyringLocked": "it is locked; unlock it and try again",
}


def installed() -> bool:
    """Whether the extra `keyring` is there; a machine can still be without a keyring."""
    return find_spec("keyring") is not None


def load(agent: str) -> Secret | None:
    """An agent's key; None where it has no entry, or the extra is not installed.

    Raises:
        KeychainError: the keyring is locked, failing, or there is none.
        BadKey: the entry is no secret key. Nothing of it is repeated.
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
    """Store an agent's key, and read it back: when this returns, the keyring gives it out again.

    Raises:
        KeychainError: the keyring is locked, failing, or none that protects its entries; or it holds
            another key of that agent already, which was not touched.
        BadKey: it holds something else under that name, which was not touched.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.priority < _PROTECTED):
        raise KeychainError("the one of this machine does not protect what it stores; nothing was stored")
    before = load(agent)
    if before == secret:
        return
    if before is not None:
        raise KeychainError(f"it holds another key of {agent} already, which was not touched")
    _ask(lambda backend: backend.set_password(SERVICE, agent, secret.nsec()))
    if load(agent) != secret:
        raise KeychainError("it did not keep the key; do not rely on it")


def delete(agent: str) -> bool:
    """Remove an agent's entry; False where there was none. Without another copy its memories are lost.

    Raises:
        KeychainError: the keyring is locked, failing, or there is none; or it did not remove the entry.
        MissingExtra: the extra `keyring` is not installed.
    """
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is None:
        return False
    _ask(lambda backend: backend.delete_password(SERVICE, agent))
    if _ask(lambda backend: backend.get_password(SERVICE, agent)) is not None:
        raise KeychainError("it still holds the entry")
    return True


def _ask(question: Callable[[KeyringBackend], _T]) -> _T:
    if not installed():
        raise MissingExtra("keyring", "keyring>=25")
    try:
        from keyring import get_keyring

        return question(get_keyring())
    except Exception as error:  # backends raise whatever the library of their system raises
        kind = type(error).__name__
    # outside the handler, so that a backend's words, which may repeat the key, are not dragged along
    raise KeychainError(_PROBLEMS.get(kind, f"it failed ({kind})"))
