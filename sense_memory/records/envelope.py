"""The envelope: it encrypts a record of plain fields for an event, and decrypts the event again.

Guaranteed: what was sealed can be opened again, and a record is accepted only at the address that the record names.

Why it is safe: `seal` decrypts its own ciphertext and compares the result with the text before it returns. `open_event`
derives the address from the decrypted fields and compares it with the event's: a ciphertext that was moved to another
address raises `MisfiledError`. Unknown fields are kept, and a record of a newer schema is never interpreted.

Cost: one encryption and one decryption to seal a record, one decryption to open it. Nothing here reads a clock, a
ledger or a relay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from sense_memory.errors import (
    BadPayload,
    InvalidAddress,
    InvalidInput,
    MisfiledError,
    NeedsNewerVersion,
    SealVerificationError,
    TooLargeError,
)
from sense_memory.limits import MAX_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.nostr.event import (
    KIND_APP_DATA,
    KIND_DELETION,
    KIND_DIRECT_MESSAGE,
    Unsigned,
    is_hex64,
)
from sense_memory.records.kinds import KINDS, RecordType, kind_at


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.nostr.event import Event, Tags
    from sense_memory.nostr.signer import Signer

SIZES: Final = (
    1_024,
    4_096,
    16_384,
    MAX_PLAINTEXT_BYTES,
)  # bytes of padded texts: all that a relay sees of a length
D_TAG: Final = (
    "d_tag"  # the field that repeats a private d-tag inside, so that it can be checked without its key
)
COPY_OF: Final = "copy_of_event"  # of a copy at another d-tag: the original's created_at and id
VACATE: Final = "moved"  # why a tombstone or a deletion removes the events at a d-tag, and no memory
_D_TAG_BYTES: Final = len(f'"{D_TAG}":"{"0" * 64}",')
DELETION_TYPE: Final = "sense-memory:deletion"
SCHEMA_VERSION: Final = 1  # a record with a larger `v` is kept, and not shown
_SURELY_SHALLOW: Final = 200  # brackets; JSON with fewer has fewer levels


class DatedEvent(Protocol):
    """An event, as the ledger or the reader holds it."""

    @property
    def created_at(self) -> int:
        """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Record:
    """The inside of an event.

    Attributes:
        type: the kind of the record.
        path: the record's path (`nostr.address`); empty for a journal entry.
        fields: the JSON fields, without `type`; unknown fields are kept.
    """

    type: RecordType
    path: str
    fields: Mapping[str, Any] = field(repr=False)

    def written_at(self, event: DatedEvent) -> float:
        """When the record was written, seconds since 1970: the record's own time, else the date of its event.

        The event's date is read only if the record has no time, because reading it means parsing the event's JSON.
        """
        ts = self.fields.get("ts")  # other writers may have left it out
        return (
            float(ts) if type(ts) is float or type(ts) is int else float(event.created_at)
        )  # a bool is neither


@dataclass(frozen=True, slots=True)
class SealedRecord:
    """Ciphertext that `seal` has verified by decrypting it; not yet dated or signed."""

    kind: int
    tags: Tags
    content: str = field(repr=False)

    @property
    def d_tag(self) -> str:
        """The d-tag; empty for a journal entry."""
        return next((tag[1] for tag in self.tags if tag[0] == "d"), "")

    def at(self, created_at: int) -> Unsigned:
        """The event to sign, dated `created_at` in seconds since 1970."""
        return Unsigned(created_at, self.kind, self.tags, self.content)

    def event_bytes(self) -> int:
        """The length of the signed event as canonical JSON."""
        bare = {"id": "0" * 64, "pubkey": "0" * 64, "created_at": 10**9, "kind": self.kind, "tags": self.tags}
        return len(orjson.dumps({**bare, "content": "", "sig": "0" * 128})) + len(self.content)


def flat(key: str, value: str, ts: float, extra: Mapping[str, Any] | None = None) -> Record:
    """A flat memory; `extra` has the unknown fields of an earlier version, which are kept.

    Raises:
        InvalidAddress: the key breaks the naming rules.
    """
    path = address.flat_path(key)
    return Record(RecordType.FLAT, path, {**(extra or {}), "key": path, "value": value, "ts": ts})


def journal(content: str, ts: float, extra: Mapping[str, Any] | None = None) -> Record:
    """A journal entry; `extra` has fields beside its text.

    Raises:
        InvalidInput: the content is blank, or not a text.
    """
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("a journal entry must be a text that is not blank; nothing was written")
    return Record(RecordType.JOURNAL, "", {**(extra or {}), "content": content, "ts": ts})


def persona(fields: Mapping[str, Any]) -> Record:
    """A palace memory, from fields that `palace.version` made."""
    return Record(RecordType.PERSONA, _path(RecordType.PERSONA, fields), fields)


def introspection(ts: int, report: Mapping[str, Any]) -> Record:
    """The log of an introspection, at `introspection/{ts}`; `ts` is in seconds since 1970."""
    fields = {"ts": ts, "report": report}
    return Record(RecordType.INTROSPECTION, _path(RecordType.INTROSPECTION, fields), fields)


def embedding(path: str, fields: Mapping[str, Any]) -> Record:
    """The vectors of the memory at a path, at `embed/{path}`; `memories/shared_embeddings.py` makes the fields."""
    return Record(RecordType.EMBEDDING, address.EMBEDDING + path, {"key": path, **fields})


def record_at(path: str, fields: Mapping[str, Any]) -> Record:
    """A record that names its path, such as a block, a passage or a page of the log; the path shows its kind.

    Raises:
        InvalidAddress: records that name their path do not lie there.
    """
    kind = kind_at(path)
    if kind is None or not kind.traits.names_path:
        raise InvalidAddress(f"no record can be written at {path!r}; nothing was written")
    return Record(kind, path, {**fields, "path": path})


def tombstone(path: str, removing: Mapping[str, Any] | None = None) -> Record:
    """The record that replaces a forgotten memory; version 0.3.1 reads it as an empty value.

    Args:
        path: the memory's path.
        removing: what the tombstone removes and why, from `origins.removing`.
    """
    key = path.rpartition("/")[2]
    fields = {"key": key, "value": ""} | ({} if key == path else {"path": path})
    return Record(RecordType.TOMBSTONE, path, {**(removing or {}), **fields})


def vacating(path: str) -> Record:
    """The tombstone that removes the events at one d-tag of a path, and not the memory, which has moved to another."""
    return tombstone(path, {"why": VACATE})


async def seal(signer: Signer, record: Record, tag: str = "", *, pads: bool = False) -> SealedRecord:
    """Encrypt a record to the agent's own key, and verify the ciphertext by decrypting it.

    Args:
        signer: the agent's.
        record: what to encrypt.
        tag: the d-tag of the event; by default the readable one. A private one is repeated inside if there is room.
        pads: whether the text is padded to one of `SIZES` first.

    Raises:
        TooLargeError: above 40,960 bytes of JSON.
        InvalidInput: the text holds lone surrogates.
        SealVerificationError: the signer's ciphertext does not decrypt to the text.
    """
    plaintext = _plaintext(record)
    if len(plaintext) > MAX_PLAINTEXT_BYTES:
        raise TooLargeError(len(plaintext), MAX_PLAINTEXT_BYTES)
    tag = tag or address.d_tag(record.path)
    if tag != address.d_tag(record.path) and len(plaintext) + _D_TAG_BYTES <= MAX_PLAINTEXT_BYTES:
        fields = {D_TAG: address.private_hex(tag), **record.fields}
        plaintext = _plaintext(Record(record.type, record.path, fields))
    plaintext = padded(plaintext) if pads else plaintext
    me = signer.public_key
    content = await signer.encrypt(plaintext, me)
    try:
        opened = await signer.decrypt(content, me)
    except BadPayload:
        raise SealVerificationError from None
    if opened != plaintext:
        raise SealVerificationError
    if not record.type.has_address:
        return SealedRecord(KIND_DIRECT_MESSAGE, (("p", me),), content)
    return SealedRecord(KIND_APP_DATA, (("d", tag),), content)


def padded(plaintext: bytes) -> bytes:
    """A JSON text with spaces after it, up to the next of `SIZES`; a longer text is returned as it is."""
    size = next((size for size in SIZES if len(plaintext) <= size), 0)
    return plaintext.ljust(size)


def fits(record: Record) -> bool:
    """Whether a record is small enough for `seal`."""
    return plaintext_bytes(record) <= MAX_PLAINTEXT_BYTES


def plaintext_bytes(record: Record) -> int:
    """The length of a record before encryption. Raises InvalidInput if the text holds lone surrogates."""
    return len(_plaintext(record))


def _plaintext(record: Record) -> bytes:
    try:
        return orjson.dumps({"type": record.type.value, **record.fields})
    except orjson.JSONEncodeError:
        raise InvalidInput("the text is not valid Unicode (lone surrogates); nothing was written") from None


async def seal_deletion(
    signer: Signer, removing: Mapping[str, Mapping[str, Any]], *, pads: bool = False
) -> str:
    """The content of a deletion, encrypted to the agent's own key: by path, what is removed and why.

    Relays that honour a deletion also drop the tombstone, so the deletion repeats what the tombstone says.
    """
    fields = {"type": DELETION_TYPE, "of": removing}
    plaintext = orjson.dumps(fields)
    return await signer.encrypt(padded(plaintext) if pads else plaintext, signer.public_key)


async def open_deletion(signer: Signer, event: Event) -> Mapping[str, Any]:
    """By path, what a deletion removes and why; empty if the deletion does not say."""
    if not event.content:
        return {}
    try:
        fields = _fields(await signer.decrypt(event.content, signer.public_key))
    except BadPayload:
        return {}  # the plain reason of another client
    found = fields.get("of") if fields.get("type") == DELETION_TYPE else None
    return found if isinstance(found, dict) else {}


def deletion(
    public_key: str, d_tags: tuple[str, ...], event_ids: tuple[str, ...], created_at: int, content: str = ""
) -> Unsigned:
    """The NIP-09 request that deletes addresses (up to `created_at`, in seconds since 1970) and single events."""
    tags = (
        *(("a", address.coordinate(public_key, tag)) for tag in d_tags),
        *(("e", ident) for ident in event_ids),
        ("k", str(KIND_APP_DATA)),
    )
    return Unsigned(created_at, KIND_DELETION, tags, content)


def entry_deletion(entries: Sequence[Event], created_at: int) -> Unsigned:
    """The NIP-09 request that deletes journal entries by their ids; entries of 0.3.1 also by their addresses."""
    addresses = (
        ("a", address.coordinate(entry.pubkey, entry.d_tag))
        for entry in entries
        if entry.kind == KIND_APP_DATA and entry.d_tag is not None
    )
    ids = (("e", entry.id) for entry in entries)
    kinds = (("k", kind) for kind in dict.fromkeys(str(entry.kind) for entry in entries))
    return Unsigned(created_at, KIND_DELETION, (*addresses, *ids, *kinds), "")


async def open_event(signer: Signer, event: Event, keys: Iterable[bytes] = ()) -> Record:
    """Decrypt an event, and check that it lies at the address that its record names.

    Args:
        signer: the agent's.
        event: the event.
        keys: of private d-tags, for records that do not repeat theirs.

    Raises:
        BadPayload: not NIP-44 for this key, or not a record of sense-memory.
        MisfiledError: the record names another address.
        NeedsNewerVersion: a newer schema, or an unknown type.
    """
    if event.kind == KIND_DIRECT_MESSAGE and event.tag_values("p") != [signer.public_key]:
        raise BadPayload("a direct message to another key")
    return record_in(event, await signer.decrypt(event.content, signer.public_key), keys)


def record_in(event: Event, plaintext: bytes, keys: Iterable[bytes] = ()) -> Record:
    """As `open_event`, for an event whose text was decrypted already."""
    fields = _fields(plaintext)
    version = fields.get("v", SCHEMA_VERSION)
    name = fields.pop("type", None)
    if not isinstance(name, str) or not name.startswith("sense-memory:"):
        raise BadPayload("not a record of sense-memory")
    kind = KINDS.get(name)
    if type(version) is not int or version > SCHEMA_VERSION or kind is None:
        raise NeedsNewerVersion(event.id, version if type(version) is int else 0)
    path = _path(kind, fields)
    if not (
        _is_at_its_address(event, kind, path, fields)
        or (kind.has_address and _is_at_private_address(event, path, fields, len(plaintext.rstrip()), keys))
    ):
        raise MisfiledError(event.id)
    return Record(kind, path, fields)


async def seal_draft(signer: Signer, record: Record) -> str:
    """The content of a draft that no event was sealed for.

    A remote signer may be out of reach, which may be the very reason why there is a draft. Then its client seals: such a
    content names the client's public key, and both the client and the agent's own key can open it.
    """
    text = _plaintext(record)
    seal_alone = getattr(signer, "seal_draft", None)
    return await (signer.encrypt(text, signer.public_key) if seal_alone is None else seal_alone(text))


async def open_draft(signer: Signer, content: str, slot: str) -> Record:
    """The record in a draft: a ciphertext that never became an event.

    Args:
        signer: the signer that sealed the draft.
        content: NIP-44; or the key of a client, a colon, and NIP-44, see `seal_draft`.
        slot: the address that the draft was written for; empty for a journal entry.

    Raises:
        BadPayload: not NIP-44 for this key, not a record of sense-memory, or a record for another address.
    """
    client, colon, payload = content.partition(":")
    author, payload = (client, payload) if colon and is_hex64(client) else (signer.public_key, content)
    fields = _fields(await signer.decrypt(payload, author))
    kind = KINDS.get(fields.pop("type", ""))
    if kind is None:
        raise BadPayload("not a record of sense-memory")
    fields.pop(D_TAG, None)  # a draft lies at no d-tag
    path = _path(kind, fields)
    if slot != (address.d_tag(path) if kind.has_address else ""):
        raise BadPayload("a draft for another address")
    return Record(kind, path, fields)


def _fields(plaintext: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(plaintext)
    except orjson.JSONDecodeError:
        raise BadPayload("the content is not JSON") from None
    if not isinstance(value, dict):
        raise BadPayload("the content is not a JSON object")
    if plaintext.count(b"[") + plaintext.count(b"{") > _SURELY_SHALLOW and not _can_be_encoded(value):
        raise BadPayload("the content is nested too deeply")
    return value


def _can_be_encoded(value: dict[str, Any]) -> bool:
    """Whether a value can be written again, inside a few others: the decoder accepts more levels than the encoder."""
    try:
        orjson.dumps([[[[value]]]])
    except orjson.JSONEncodeError:
        return False
    return True


def _path(kind: RecordType, fields: Mapping[str, Any]) -> str:
    """The path that the fields name; not normalised, because other writers do not normalise paths."""
    for name in kind.traits.required:
        if not isinstance(fields.get(name), str):
            raise BadPayload("a field of the record is missing, or is not text")
    path = "" if kind.traits.path is None else kind.traits.path(fields)
    return path if isinstance(path, str) else ""


def _is_at_private_address(
    event: Event, path: str, fields: dict[str, Any], size: int, keys: Iterable[bytes]
) -> bool:
    """Whether an event has a private d-tag of its path; the d-tag is taken out of the fields.

    The largest texts have no room for their d-tag, and their key may not have arrived yet: these are believed.
    """
    tag = event.d_tag or ""
    if event.kind != KIND_APP_DATA or not address.is_private(tag):
        return False
    if D_TAG in fields:
        return bool(fields.pop(D_TAG) == address.private_hex(tag))
    is_full = MAX_PLAINTEXT_BYTES - _D_TAG_BYTES < size <= MAX_PLAINTEXT_BYTES
    return is_full or any(address.private_d_tag(key, path) == tag for key in keys)


def _is_at_its_address(event: Event, kind: RecordType, path: str, fields: Mapping[str, Any]) -> bool:
    if kind.has_address:
        tag = event.d_tag
        return event.kind == KIND_APP_DATA and (tag == address.PREFIX + path or tag == address.d_tag(path))
    if event.kind == KIND_DIRECT_MESSAGE:
        return True
    # 0.3.1 keeps its journal as kind 30078 under `sense-journal/{ts}`, ts as Python prints a float.
    return event.d_tag == f"{address.JOURNAL_PREFIX}{fields.get('ts')}"
