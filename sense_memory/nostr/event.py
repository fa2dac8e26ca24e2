"""Events (NIP-01): strict parsing into `RawEvent`, and verification into `Event`.

"Verified" is a type. A `RawEvent` is only a claim. `verify` (recomputed id, BIP-340 signature, shape) and a local
signer produce an `Event`, and only an `Event` enters ledgers and views.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import InitVar, dataclass
from functools import lru_cache
from typing import Any, Final

import orjson
from coincurve import PublicKeyXOnly

from sense_memory.errors import InvalidEvent
from sense_memory.limits import MAX_SAFE_INTEGER, MAX_TAGS_COUNT


KIND_DIRECT_MESSAGE: Final = 4  # NIP-04's kind, here with NIP-44 content: the journal
KIND_DELETION: Final = 5  # NIP-09
KIND_AUTH: Final = 22242  # NIP-42
KIND_APP_DATA: Final = 30078  # NIP-78, addressable
KINDS: Final = (KIND_DELETION, KIND_APP_DATA, KIND_DIRECT_MESSAGE)  # all that is synchronised

Tags = tuple[tuple[str, ...], ...]

_PROOF: Final = object()
_hex64 = re.compile(r"[0-9a-f]{64}").fullmatch
_hex128 = re.compile(r"[0-9a-f]{128}").fullmatch


def is_hex64(value: object) -> bool:
    """Whether a value is exactly 64 lower-case ASCII hex digits (NIP-01)."""
    return isinstance(value, str) and _hex64(value) is not None


def event_id(pubkey: str, created_at: int, kind: int, tags: Tags, content: str) -> str:
    """The id of an event: SHA-256 over its serialisation (NIP-01), as 64 hex digits.

    Raises:
        InvalidEvent: a string is not valid Unicode.
    """
    try:
        serial = orjson.dumps([0, pubkey, created_at, kind, tags, content])
    except orjson.JSONEncodeError:
        raise InvalidEvent("a string in the event is not valid Unicode") from None
    return hashlib.sha256(serial).hexdigest()


@dataclass(frozen=True, slots=True)
class Unsigned:
    """The fields that a signer is asked to sign.

    Attributes:
        created_at: seconds since 1970.
        kind: the event's kind.
        tags: tuples of strings.
        content: ciphertext, or empty.
    """

    created_at: int
    kind: int
    tags: Tags
    content: str

    def __repr__(self) -> str:
        return f"Unsigned(kind={self.kind}, created_at={self.created_at})"


@dataclass(frozen=True, slots=True, repr=False)
class RawEvent:
    """An event of the right shape whose id and signature are not checked.

    Attributes:
        id: 64 lower-case hex digits.
        pubkey: the author, 64 lower-case hex digits.
        created_at: seconds since 1970, 0 … 2**53 - 1.
        kind: 0 … 65,535.
        tags: tuples of strings.
        content: any text; events of this package hold ciphertext or nothing.
        sig: 128 lower-case hex digits.
    """

    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: Tags
    content: str
    sig: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind={self.kind}, id={self.id[:16]}…, created_at={self.created_at})"

    @classmethod
    def parse(cls, value: object) -> RawEvent:
        """Read an event from parsed JSON; unknown fields are ignored.

        Raises:
            InvalidEvent: a field is missing or has the wrong type, range or alphabet.
        """
        if not isinstance(value, dict):
            raise InvalidEvent("an event must be a JSON object")
        ident, pubkey, sig = value.get("id"), value.get("pubkey"), value.get("sig")
        if not (is_hex64(ident) and is_hex64(pubkey) and isinstance(sig, str) and _hex128(sig)):
            raise InvalidEvent("id, pubkey and sig must be 64, 64 and 128 lower-case hex digits")
        created_at, kind = value.get("created_at"), value.get("kind")
        if type(created_at) is not int or not 0 <= created_at <= MAX_SAFE_INTEGER:
            raise InvalidEvent("created_at must be a plain integer of seconds")
        if type(kind) is not int or not 0 <= kind <= 65_535:
            raise InvalidEvent("kind must be a plain integer of 0 to 65535")
        content = value.get("content")
        if not isinstance(content, str):
            raise InvalidEvent("content must be a string")
        return cls(str(ident), str(pubkey), created_at, kind, _tags(value.get("tags")), content, sig)

    @classmethod
    def loads(cls, body: bytes | str) -> RawEvent:
        """Read an event from its JSON text; errors as `parse`."""
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise InvalidEvent("not JSON") from None
        return cls.parse(value)

    def as_json(self) -> dict[str, Any]:
        """The event as plain JSON values, in the field order of NIP-01."""
        return {
            "id": self.id,
            "pubkey": self.pubkey,
            "created_at": self.created_at,
            "kind": self.kind,
            "tags": self.tags,
            "content": self.content,
            "sig": self.sig,
        }

    def body(self) -> bytes:
        """The event as canonical JSON bytes: what the ledger stores and relays receive.

        Raises:
            InvalidEvent: a string is not valid Unicode.
        """
        try:
            return orjson.dumps(self.as_json())
        except orjson.JSONEncodeError:
            raise InvalidEvent("a string in the event is not valid Unicode") from None

    def tag_values(self, name: str) -> list[str]:
        """The first value of every tag of that name, in order; tags without a value are left out."""
        return [tag[1] for tag in self.tags if len(tag) > 1 and tag[0] == name]

    @property
    def d_tag(self) -> str | None:
        """The `d` tag's value if there is exactly one and it is not empty (NIP-01), else None."""
        found = None
        for tag in self.tags:
            if len(tag) > 1 and tag[0] == "d":
                if found is not None:
                    return None
                found = tag[1]
        return found or None


@dataclass(frozen=True, slots=True, repr=False)
class Event(RawEvent):
    """A verified event: its id is the hash of its fields and its author signed that id.

    Not constructible by hand: see `verify`, `LocalSigner.sign` and `Event.restored`.
    """

    proof: InitVar[object] = None

    def __post_init__(self, proof: object) -> None:
        if proof is not _PROOF:
            raise TypeError("an Event comes from verify() or from a signer; use RawEvent for claims")

    @classmethod
    def signed(cls, pubkey: str, unsigned: Unsigned, ident: str, sig: str) -> Event:
        """An event that this process has just signed. For local signers only."""
        return cls(
            ident, pubkey, unsigned.created_at, unsigned.kind, unsigned.tags, unsigned.content, sig, _PROOF
        )

    @classmethod
    def restored(cls, body: bytes) -> Event:
        """An event from bytes that this program stored after verifying them. For the ledger only.

        Raises:
            InvalidEvent: the bytes are not an event, so the stored event is damaged.
        """
        try:
            value = orjson.loads(body)
            return cls(
                value["id"],
                value["pubkey"],
                value["created_at"],
                value["kind"],
                tuple(map(tuple, value["tags"])),
                value["content"],
                value["sig"],
                _PROOF,
            )
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise InvalidEvent("the stored event is damaged") from None


def verify(raw: RawEvent) -> Event:
    """Check an event's id, its BIP-340 signature, and the `d` tag of an addressable event.

    Raises:
        InvalidEvent: the id is not the hash of the fields, the signature does not match the author, or an
            addressable event does not carry exactly one non-empty `d` tag.
    """
    if event_id(raw.pubkey, raw.created_at, raw.kind, raw.tags, raw.content) != raw.id:
        raise InvalidEvent("the id does not match the event")
    if 30_000 <= raw.kind < 40_000 and not _has_one_d_tag(raw.tags):
        raise InvalidEvent("an addressable event needs exactly one d tag")
    try:
        good = _verifier(raw.pubkey).verify(bytes.fromhex(raw.sig), bytes.fromhex(raw.id))
    except ValueError:
        good = False
    if not good:
        raise InvalidEvent("the signature does not match the author")
    return Event(raw.id, raw.pubkey, raw.created_at, raw.kind, raw.tags, raw.content, raw.sig, _PROOF)


def wins_over(created_at: int, ident: str, other_created_at: int, other_ident: str) -> bool:
    """Whether one version of an address replaces another: the later, or at a tie the lower id (NIP-01)."""
    return (created_at, other_ident) > (other_created_at, ident)


@lru_cache(maxsize=256)
def _verifier(pubkey: str) -> PublicKeyXOnly:
    """A parsed public key; parsing costs as much as a third of a verification."""
    return PublicKeyXOnly(bytes.fromhex(pubkey))


def _has_one_d_tag(tags: Tags) -> bool:
    found = [tag for tag in tags if tag and tag[0] == "d"]
    return len(found) == 1 and len(found[0]) > 1 and found[0][1] != ""


def _tags(value: object) -> Tags:
    if not isinstance(value, list | tuple) or len(value) > MAX_TAGS_COUNT:
        raise InvalidEvent(f"tags must be a list of at most {MAX_TAGS_COUNT}")
    for tag in value:
        if not isinstance(tag, list | tuple) or not all(isinstance(item, str) for item in tag):
            raise InvalidEvent("each tag must be a list of strings")
    return tuple(map(tuple, value))
