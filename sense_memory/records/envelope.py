"""The envelope: a record of plain fields in, a signed and encrypted event out, and back.

`seal` opens its own ciphertext before the text is let go. `open_event` derives the address from the inside again
and compares it with the outside: a ciphertext that was moved to another address is misfiled, not believed.
Nothing here reads a clock, a ledger or a relay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from sense_memory.errors import (
    BadPayload,
    InvalidInput,
    MisfiledError,
    NeedsNewerVersion,
    SealVerificationError,
    TooLargeError,
)
from sense_memory.limits import MAX_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE, Unsigned


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.nostr.event import Event, Tags
    from sense_memory.nostr.signer import Signer

DELETION_TYPE: Final = "sense-memory:deletion"
SCHEMA_VERSION: Final = 1  # a record with a larger `v` is kept and not shown


class RecordType(StrEnum):
    """The `type` field of a record: what the ciphertext holds."""

    FLAT = "sense-memory:kv"
    JOURNAL = "sense-memory:journal"
    PERSONA = "sense-memory:persona"
    INTROSPECTION = "sense-memory:introspection"
    EMBEDDING = "sense-memory:embedding"
    MIND = "sense-memory:mind"
    TOMBSTONE = "sense-memory:tombstone"


_KNOWN_TYPES: Final = {kind.value: kind for kind in RecordType}
_NEEDED: Final = {  # the fields that must be present, as text
    RecordType.FLAT: ("key", "value"),
    RecordType.JOURNAL: ("content",),
    RecordType.PERSONA: ("domain", "facet", "key", "value"),
    RecordType.INTROSPECTION: (),
    RecordType.EMBEDDING: ("key", "model"),
    RecordType.MIND: ("path",),
    RecordType.TOMBSTONE: ("key",),
}


class DatedEvent(Protocol):
    """An event, as the ledger or the reader holds it."""

    @property
    def created_at(self) -> int:
        """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Record:
    """The inside of an event.

    Attributes:
        type: one of the types above.
        path: the record's path (`nostr.address`); empty for a journal entry.
        fields: the JSON fields, without `type`; unknown fields are kept.
    """

    type: RecordType
    path: str
    fields: Mapping[str, Any] = field(repr=False)

    def written_at(self, event: DatedEvent) -> float:
        """When the record was written, seconds since 1970: the time inside it, else the date of its event.

        The event is read only if the record has no time, because reading its date means parsing its JSON.
        """
        ts = self.fields.get("ts")  # other writers may have left it out
        return (
            float(ts) if type(ts) is float or type(ts) is int else float(event.created_at)
        )  # a bool is neither


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """Ciphertext that was opened again and compared; still without a time and a signature."""

    kind: int
    tags: Tags
    content: str = field(repr=False)

    def at(self, created_at: int) -> Unsigned:
        """The event to sign, dated `created_at` in seconds since 1970."""
        return Unsigned(created_at, self.kind, self.tags, self.content)

    def event_bytes(self) -> int:
        """The length of the signed event as canonical JSON."""
        bare = {"id": "0" * 64, "pubkey": "0" * 64, "created_at": 10**9, "kind": self.kind, "tags": self.tags}
        return len(orjson.dumps({**bare, "content": "", "sig": "0" * 128})) + len(self.content)


def flat(key: str, value: str, ts: float, extra: Mapping[str, Any] | None = None) -> Record:
    """A v1 memory; `extra` carries the unknown fields of an earlier version over.

    Raises:
        InvalidAddress: the key breaks the naming rules.
    """
    path = address.flat_path(key)
    return Record(RecordType.FLAT, path, {**(extra or {}), "key": path, "value": value, "ts": ts})


def journal(content: str, ts: float) -> Record:
    """A journal entry.

    Raises:
        InvalidInput: the content is blank, or not a text.
    """
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("a journal entry must be a text that is not blank; nothing was written")
    return Record(RecordType.JOURNAL, "", {"content": content, "ts": ts})


def persona(fields: Mapping[str, Any]) -> Record:
    """A v2 memory, from its fields as `palace.version` makes them."""
    return Record(RecordType.PERSONA, _path(RecordType.PERSONA, fields), fields)


def introspection(ts: int, report: Mapping[str, Any]) -> Record:
    """The log of an introspection, at `introspection/{ts}`: seconds since 1970."""
    fields = {"ts": ts, "report": report}
    return Record(RecordType.INTROSPECTION, _path(RecordType.INTROSPECTION, fields), fields)


def embedding(path: str, fields: Mapping[str, Any]) -> Record:
    """The vectors of the memory at a path, at `embed/{path}`; `memories/shared_embeddings.py` fills in the rest."""
    return Record(RecordType.EMBEDDING, address.EMBEDDING + path, {"key": path, **fields})


def mind(path: str, fields: Mapping[str, Any]) -> Record:
    """A record of the mind at a path from `address.mind_path`, such as a block, a passage or a page of the log."""
    return Record(RecordType.MIND, path, {**fields, "path": path})


def tombstone(path: str, removing: Mapping[str, Any] | None = None) -> Record:
    """The record that replaces a forgotten memory; version 0.3.1 reads it as an empty value.

    Args:
        path: the memory's path.
        removing: what the tombstone removes and why, as `origins` writes it.
    """
    key = path.rpartition("/")[2]
    fields = {"key": key, "value": ""} | ({} if key == path else {"path": path})
    return Record(RecordType.TOMBSTONE, path, {**(removing or {}), **fields})


async def seal(signer: Signer, record: Record) -> SealedRecord:
    """Encrypt a record to oneself and check that it opens again.

    Raises:
        TooLargeError: above 40,960 bytes of JSON.
        InvalidInput: the text holds lone surrogates.
        SealVerificationError: the signer's ciphertext does not open to the text.
    """
    plaintext = _plaintext(record)
    if len(plaintext) > MAX_PLAINTEXT_BYTES:
        raise TooLargeError(len(plaintext), MAX_PLAINTEXT_BYTES)
    me = signer.public_key
    content = await signer.encrypt(plaintext, me)
    try:
        opened = await signer.decrypt(content, me)
    except BadPayload:
        raise SealVerificationError from None
    if opened != plaintext:
        raise SealVerificationError
    if record.type is RecordType.JOURNAL:
        return SealedRecord(KIND_DIRECT_MESSAGE, (("p", me),), content)
    return SealedRecord(KIND_APP_DATA, (("d", address.d_tag(record.path)),), content)


def fits(record: Record) -> bool:
    """Whether a record is small enough for `seal`."""
    return plaintext_bytes(record) <= MAX_PLAINTEXT_BYTES


def plaintext_bytes(record: Record) -> int:
    """The length of a record before it is sealed. Raises InvalidInput if the text holds lone surrogates."""
    return len(_plaintext(record))


def _plaintext(record: Record) -> bytes:
    try:
        return orjson.dumps({"type": record.type.value, **record.fields})
    except orjson.JSONEncodeError:
        raise InvalidInput("the text is not valid Unicode (lone surrogates); nothing was written") from None


async def seal_deletion(signer: Signer, removing: Mapping[str, Mapping[str, Any]]) -> str:
    """The content of a deletion: what it removes and why, by path, as in the tombstones; encrypted to oneself.

    Relays that honour a deletion drop the tombstone with the memory, so the deletion has to say the same.
    """
    fields = {"type": DELETION_TYPE, "of": removing}
    return await signer.encrypt(orjson.dumps(fields), signer.public_key)


async def open_deletion(signer: Signer, event: Event) -> Mapping[str, Any]:
    """What a deletion removes and why, by path; empty if the deletion does not say."""
    if not event.content:
        return {}
    try:
        fields = _fields(await signer.decrypt(event.content, signer.public_key))
    except BadPayload:
        return {}  # another client's reason
    found = fields.get("of") if fields.get("type") == DELETION_TYPE else None
    return found if isinstance(found, dict) else {}


def deletion(
    public_key: str, d_tags: tuple[str, ...], event_ids: tuple[str, ...], created_at: int, content: str = ""
) -> Unsigned:
    """The NIP-09 request that deletes addresses and the named events, at the second of the last tombstone."""
    tags = (
        *(("a", address.coordinate(public_key, tag)) for tag in d_tags),
        *(("e", ident) for ident in event_ids),
        ("k", str(KIND_APP_DATA)),
    )
    return Unsigned(created_at, KIND_DELETION, tags, content)


def entry_deletion(entry: Event, created_at: int) -> Unsigned:
    """The NIP-09 request that deletes a journal entry: by its id, and 0.3.1's by their address as well."""
    if entry.kind == KIND_APP_DATA and entry.d_tag is not None:
        return deletion(entry.pubkey, (entry.d_tag,), (entry.id,), created_at)
    return Unsigned(created_at, KIND_DELETION, (("e", entry.id), ("k", str(entry.kind))), "")


async def open_event(signer: Signer, event: Event) -> Record:
    """Decrypt an event of ours and check that its address is the address that its inside names.

    Raises:
        BadPayload: not NIP-44 for this key, or no record of ours inside.
        MisfiledError: the inside names another address.
        NeedsNewerVersion: a newer schema, or an unknown type.
    """
    if event.kind == KIND_DIRECT_MESSAGE and event.tag_values("p") != [signer.public_key]:
        raise BadPayload("a direct message to somebody else")
    fields = _fields(await signer.decrypt(event.content, signer.public_key))
    version = fields.get("v", SCHEMA_VERSION)
    name = fields.pop("type", None)
    if not isinstance(name, str) or not name.startswith("sense-memory:"):
        raise BadPayload("not a record of sense-memory")
    kind = _KNOWN_TYPES.get(name)
    if type(version) is not int or version > SCHEMA_VERSION or kind is None:
        raise NeedsNewerVersion(event.id, version if type(version) is int else 0)
    path = _path(kind, fields)
    if not _lies_there(event, kind, path, fields):
        raise MisfiledError(event.id)
    return Record(kind, path, fields)


async def open_draft(signer: Signer, content: str, slot: str) -> Record:
    """The record in a ciphertext of ours that never became an event.

    Args:
        signer: the signer that sealed the draft.
        content: NIP-44.
        slot: the address that the draft was written for; empty for a journal entry.

    Raises:
        BadPayload: not NIP-44 for this key, no record of ours inside, or one for another address.
    """
    fields = _fields(await signer.decrypt(content, signer.public_key))
    kind = _KNOWN_TYPES.get(fields.pop("type", ""))
    if kind is None:
        raise BadPayload("not a record of sense-memory")
    path = _path(kind, fields)
    if slot != ("" if kind is RecordType.JOURNAL else address.d_tag(path)):
        raise BadPayload("a draft for another address")
    return Record(kind, path, fields)


def _fields(plaintext: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(plaintext)
    except orjson.JSONDecodeError:
        raise BadPayload("the content is not JSON") from None
    if not isinstance(value, dict):
        raise BadPayload("the content is not a JSON object")
    return value


def _path(kind: RecordType, fields: Mapping[str, Any]) -> str:
    """The path that the inside claims; never normalised, because other writers did not."""
    for name in _NEEDED[kind]:
        if not isinstance(fields.get(name), str):
            raise BadPayload("a field of the record is missing or not a text")
    if kind is RecordType.JOURNAL:
        return ""
    if kind is RecordType.PERSONA:
        return f"{address.PERSONA}{fields['domain']}/{fields['facet']}/{fields['key']}"
    if kind is RecordType.INTROSPECTION:
        return f"{address.INTROSPECTION}{fields.get('ts', fields.get('timestamp'))}"
    if kind is RecordType.EMBEDDING:
        return address.EMBEDDING + str(fields["key"])
    if kind is RecordType.MIND:
        return str(fields["path"])
    path = fields.get("path", fields["key"]) if kind is RecordType.TOMBSTONE else fields["key"]
    return path if isinstance(path, str) else ""


def _lies_there(event: Event, kind: RecordType, path: str, fields: Mapping[str, Any]) -> bool:
    if kind is not RecordType.JOURNAL:
        tag = event.d_tag
        return event.kind == KIND_APP_DATA and (tag == address.PREFIX + path or tag == address.d_tag(path))
    if event.kind == KIND_DIRECT_MESSAGE:
        return True
    # 0.3.1 keeps its journal as kind 30078 under `sense-journal/{ts}`, ts as Python prints a float.
    return event.d_tag == f"{address.JOURNAL_PREFIX}{fields.get('ts')}"
