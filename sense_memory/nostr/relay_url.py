"""Relay URLs: which may be dialled, and one spelling for each.

The ledger, reports and the `relay` tag of NIP-42 identify a relay by this spelling, so a relay has the same spelling
however a user typed the URL. Errors name at most the scheme and the host, and only if both look like those of a relay:
anything else may be a password, or a key pasted into the wrong field.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from sense_memory.errors import InvalidRelayUrl


_MAX_URL_CHARS: Final = 2_048
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_SAFE: Final = "!$%&'()*+,-./:;=?@_~"  # of RFC 3986, and `%`, because the URL is already escaped

_unseen = re.compile(r"[\x00-\x20\x7f-\xa0\\]").search
_MAX_SHOWN_LABEL_CHARS: Final = 32  # of a host name in an error: keys are longer

_NO_HOST: Final = "this relay URL has an impossible host or port; give one such as wss://relay.example"
_hostname = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*").fullmatch


def relay_url(text: str, *, allow_plain: bool = False) -> str:
    """The canonical URL of a relay that may be dialled.

    Scheme and host become lower case; the default port, a final dot of the host and the slash of an
    empty path go away. Path and query stay as they are.

    Args:
        text: what a user gave; blanks around it are ignored.
        allow_plain: whether `ws://` may leave this machine. Anyone on the network path then sees what a relay
            sees and may drop it, but can neither read memories nor forge them.

    Raises:
        InvalidRelayUrl: not a `wss://` URL, nor a `ws://` URL of this machine; or the URL has a user name, a fragment,
            or an impossible host or port.
    """
    bare = text.strip() if isinstance(text, str) else ""
    if not bare or len(bare) > _MAX_URL_CHARS or _unseen(bare):
        raise InvalidRelayUrl("not a relay URL such as wss://relay.example")
    try:
        parts = urlsplit(bare)
        port = parts.port
    except ValueError:
        raise InvalidRelayUrl(_NO_HOST) from None
    scheme = parts.scheme.lower()
    _check_parts(parts, scheme)
    host = _canonical_host(parts.hostname or "")
    if port == 0:
        raise InvalidRelayUrl(_NO_HOST)
    if scheme == "ws" and not allow_plain and not _is_loopback(host):
        problem = "ws:// is not encrypted, and is only for a relay on this machine; use wss://"
        raise InvalidRelayUrl(f"{_named(parts)}{problem}")
    suffix = "" if port in {None, _DEFAULT_PORTS[scheme]} else f":{port}"
    path = "" if parts.path == "/" and not parts.query else quote(parts.path, safe=_SAFE)
    query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    return f"{scheme}://{host}{suffix}{path}{query}"


def is_local(url: str) -> bool:
    """Whether a relay URL points to this machine: localhost, 127.0.0.0/8 or ::1.

    A relay on the same machine never counts as a replica.
    """
    try:
        return _is_loopback(_canonical_host(urlsplit(url).hostname or ""))
    except ValueError:
        return False


def is_same_relay(one: str, other: str) -> bool:
    """Whether two relay URLs differ at most in their names for this machine, such as localhost and 127.0.0.1."""
    if one == other or not (is_local(one) and is_local(other)):
        return one == other
    first, second = urlsplit(one), urlsplit(other)
    ports = (part.port or _DEFAULT_PORTS.get(part.scheme) for part in (first, second))
    return len(set(ports)) == 1 and first[2:] == second[2:]


def _check_parts(parts: SplitResult, scheme: str) -> None:
    if scheme not in _DEFAULT_PORTS:
        problem = "a relay URL starts with wss://, or with ws:// for a relay on this machine"
        raise InvalidRelayUrl(f"{_named(parts)}{problem}")
    if "@" in parts.netloc:
        raise InvalidRelayUrl(
            "a relay URL must not contain a user name or password; relays know you by your key"
        )
    if parts.fragment:
        raise InvalidRelayUrl(f"{_named(parts)}a relay URL must not have a fragment (the part behind #)")


def _named(parts: SplitResult) -> str:
    """The start of an error that names its URL: scheme and host. Empty if they may be something else, such as a key."""
    host = (parts.hostname if parts.netloc else parts.path) or ""
    labels = host.split(".")
    is_host = _hostname(host) and (len(labels) > 1 or host == "localhost")
    if "@" in parts.netloc or not is_host or max(map(len, labels)) > _MAX_SHOWN_LABEL_CHARS:
        return ""
    return f"{parts.scheme}://{host}: " if parts.netloc else f"{host}: "


def _canonical_host(host: str) -> str:
    """A host name in lower-case ASCII, or an address in its shortest form, IPv6 within brackets."""
    if ":" in host:
        try:
            if "%" in host:  # an IPv6 scope is valid on one machine only
                raise ValueError
            return f"[{ip_address(host)}]"
        except ValueError:
            raise InvalidRelayUrl(_NO_HOST) from None
    try:
        plain = host.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError:
        plain = ""
    if len(plain) > 253 or not _hostname(plain):
        raise InvalidRelayUrl(_NO_HOST)
    return plain


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
