"""Remote signing (NIP-46): the words of a client and a remote signer, without I/O.

A remote signer, also called a bunker, holds a key and signs for a client. The client has a key pair of its own, by which
the bunker knows it. Requests and answers are events of kind 24133, encrypted between that pair and the bunker's.

Whatever a bunker answers is a claim: each function that reads an answer checks it against what was asked.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

import orjson

from sense_memory.errors import BadPayload, InvalidEvent, InvalidInput, InvalidRelayUrl
from sense_memory.limits import MAX_BUNKER_RELAYS_COUNT
from sense_memory.nostr.event import (
    KIND_APP_DATA,
    KIND_AUTH,
    KIND_DELETION,
    KIND_DIRECT_MESSAGE,
    Event,
    RawEvent,
    Unsigned,
    is_hex64,
    verify,
)
from sense_memory.nostr.relay_url import relay_url


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


KIND_REMOTE_SIGNING: Final = 24133
PERMISSIONS: Final = ",".join(
    [
        "get_public_key",
        "nip44_encrypt",
        "nip44_decrypt",
        *(
            f"sign_event:{kind}"
            for kind in (KIND_APP_DATA, KIND_DIRECT_MESSAGE, KIND_DELETION, KIND_AUTH, 62)
        ),
    ]
)
_METADATA: Final = orjson.dumps({"name": "sense-memory"}).decode()
_ADVICE: Final = "copy it whole from the bunker: bunker://PUBLIC-KEY?relay=wss://relay.example&secret=…"
_MAX_SHOWN_CHARS: Final = 500  # of a URL that a bunker wants a person to open
_shown_url = re.compile(
    r"https://[!-~]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:/[!-~]*)?"
).fullmatch


@dataclass(frozen=True, slots=True)
class BunkerUrl:
    """What a `bunker://` URL says.

    Attributes:
        signer: the bunker's public key, 64 hex digits; not always the key that it signs with.
        relays: where the bunker listens, checked, each once.
        secret: admits one client, once; None where the bunker asks a person instead.
    """

    signer: str
    relays: tuple[str, ...]
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> BunkerUrl:
        """Read a URL.

        Raises:
            InvalidInput: not such a URL; the error repeats no part of it, because it contains a secret.
        """
        try:
            parts = urlsplit(text.strip())
            query = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            raise InvalidInput(f"not the URL of a bunker; {_ADVICE}") from None
        if parts.scheme.lower() != "bunker":
            raise InvalidInput(f"the URL of a bunker begins with bunker://; {_ADVICE}")
        if not is_hex64(parts.netloc.lower()):
            raise InvalidInput(f"the bunker's public key in the URL must have 64 hex digits; {_ADVICE}")
        relays = checked_relays(value for name, value in query if name == "relay")
        if not relays:
            raise InvalidInput(f"the URL of the bunker names no relay that may be dialled; {_ADVICE}")
        secret = next((value for name, value in query if name == "secret" and value), None)
        return cls(parts.netloc.lower(), relays, secret)


def checked_relays(urls: Iterable[object]) -> tuple[str, ...]:
    """Those of some URLs that may be dialled, each once, and not more than a bunker needs."""
    found: dict[str, None] = {}
    for url in urls:
        if isinstance(url, str):
            try:
                found[relay_url(url)] = None
            except InvalidRelayUrl:
                continue
    return tuple(found)[:MAX_BUNKER_RELAYS_COUNT]


# ── Requests ────────────────────────────────────────────────────────────────────────────


def request_id() -> str:
    """A random id for a request: whoever replays an old answer, or guesses one, does not know it."""
    return secrets.token_hex(16)


def request_text(ident: str, method: str, params: Sequence[str]) -> bytes:
    """The plaintext of a request."""
    return orjson.dumps({"id": ident, "method": method, "params": list(params)})


def connect_params(url: BunkerUrl) -> list[str]:
    """What `connect` is called with: who is meant, the secret, what this client will ask for, and its name."""
    return [url.signer, url.secret or "", PERMISSIONS, _METADATA]


def unsigned_text(unsigned: Unsigned, public_key: str) -> str:
    """An event to sign, as JSON."""
    return orjson.dumps(
        {
            "pubkey": public_key,
            "created_at": unsigned.created_at,
            "kind": unsigned.kind,
            "tags": unsigned.tags,
            "content": unsigned.content,
        }
    ).decode()


# ── Answers ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BunkerAnswer:
    """What a bunker answered to one request.

    Attributes:
        id: of the request.
        result: what was asked for; empty with an error.
        error: whether the bunker refused; its own words are not kept, because they are not ours.
        approve_at: a URL where a person has to approve first; the answer proper follows under the same id.
    """

    id: str
    result: str = field(default="", repr=False)
    error: bool = False
    approve_at: str | None = None


def read_answer(plaintext: bytes) -> BunkerAnswer | None:
    """An answer; None for what is none."""
    try:
        found: Any = orjson.loads(plaintext)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(found, dict) or not isinstance(ident := found.get("id"), str):
        return None
    result, error = found.get("result"), found.get("error")
    if result == "auth_url":
        shown = (
            error if isinstance(error, str) and len(error) <= _MAX_SHOWN_CHARS and _shown_url(error) else ""
        )
        return BunkerAnswer(ident, approve_at=shown)
    if error:
        return BunkerAnswer(ident, error=True)
    if result is None:
        result = "null"
    return BunkerAnswer(ident, result if isinstance(result, str) else orjson.dumps(result).decode())


def signed_event(result: str, unsigned: Unsigned, public_key: str) -> Event:
    """The event that was asked for, verified.

    Raises:
        InvalidEvent: anything else; says what is wrong with it.
    """
    event = verify(RawEvent.loads(result))
    if event.pubkey != public_key:
        raise InvalidEvent("it signed with another key")
    wanted = {"created_at": "date", "kind": "kind", "tags": "tags", "content": "content"}
    for name, word in wanted.items():
        if getattr(event, name) != getattr(unsigned, name):
            raise InvalidEvent(f"it changed the {word} that it was given")
    return event


def sealed_payload(result: str) -> str:
    """A NIP-44 payload, as far as its form shows.

    Raises:
        BadPayload: the text has another form. A bunker that answers with the plaintext must not have it published.
    """
    from sense_memory.nostr.nip44 import check_form

    check_form(result)
    return result


def new_relays(result: str) -> tuple[str, ...]:
    """The relays to which a bunker moves; empty if it stays."""
    try:
        found = orjson.loads(result)
    except orjson.JSONDecodeError:
        return ()
    return checked_relays(found) if isinstance(found, list) else ()


def read_public_key(result: str) -> str:
    """The key that a bunker signs with, 64 hex digits. Raises BadPayload."""
    if not is_hex64(result):
        raise BadPayload("not a public key")
    return result
