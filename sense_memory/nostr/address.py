"""Addresses of memories: paths of the `sense-memory/…` hierarchy, their d-tags, and the naming rules.

A *path* is what follows `sense-memory/`: `user_timezone` for a flat memory, `persona/people/facts/lisa`
for a palace memory. Its *readable d-tag* is `sense-memory/` and the path, or a hash of the path if relays would cut a longer
d-tag (docs/wire-format.md); its *private d-tag* is `sense-memory/` and a keyed hash of the path, from which nobody without
the key learns the path. The true path is inside the ciphertext as well. The ledger files both under the readable one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from typing import Final

from sense_memory.errors import InvalidAddress
from sense_memory.limits import MAX_D_TAG_BYTES, MAX_KEY_CHARS, MAX_NAME_CHARS
from sense_memory.nostr.event import KIND_APP_DATA


PREFIX: Final = "sense-memory/"
JOURNAL_PREFIX: Final = "sense-journal/"  # where the published 0.3.1 package keeps its journal
PERSONA: Final = "persona/"  # prefix of the paths of v2 memories
PERSONA_SLASHES: Final = 3  # in the path of a v2 memory
JOURNAL: Final = "journal/"  # with an event's id: the name of a journal entry, which has no path of its own
EMBEDDING: Final = "embed/"  # with a memory's path: the path of its vectors
INTROSPECTION: Final = "introspection/"  # with seconds since 1970: the path of an introspection log
MIND: Final = "mind/"  # prefix of the paths of the mind's records
ADDRESS_KEY: Final = "address-key/"  # with the key's id: the path of a key of private d-tags
FILE: Final = "file/"  # with a hash of its project and name: the path of a mirrored file
DEVICE: Final = "device/"  # with a device id: the path of its manifest; then a number: of a page of its list
RESERVED_DOMAIN: Final = "flat"  # the spec's name for v1 memories

LOG_PAGES: Final = f"{PREFIX}{MIND}log/"  # prefix of the slots of the log's pages

_PRIVATE_LABEL: Final = b"sense-memory/v1/d\0"  # what a key of private d-tags hashes before the path
_VACATED: Final = "="  # with a d-tag: the slot of what removed the events there, see `ledger.places`

_is_private = re.compile(PREFIX + "[0-9a-f]{64}").fullmatch
_unfindable = re.compile(r"[/\\\ud800-\udfff]").search
_forbidden = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]").search


def flat_path(key: str) -> str:
    r"""The path of a v1 memory: its key, NFC-normalised.

    Raises:
        InvalidAddress: empty or blank, longer than 256 characters, or with `/`, `\`, control characters, lone
            surrogates, `..` or a leading `~`.
    """
    return _name("memory key", key, MAX_KEY_CHARS)


def persona_path(domain: str, facet: str, key: str) -> str:
    """The path of a v2 memory, `persona/{domain}/{facet}/{key}`.

    Raises:
        InvalidAddress: a part breaks the rules of `flat_path` (domain and facet: 64 characters), or the
            domain is `flat`, which is reserved for v1.
    """
    if domain == RESERVED_DOMAIN:
        raise InvalidAddress(
            "'flat' is reserved for flat memories, whose names have no '/'; choose another domain"
        )
    parts = _name("domain", domain, MAX_NAME_CHARS), _name("facet", facet, MAX_NAME_CHARS)
    return PERSONA + "/".join((*parts, _name("memory key", key, MAX_KEY_CHARS)))


def persona_lookup_paths(domain: str, facet: str, key: str) -> tuple[str, ...]:
    """The paths under which a v2 memory may be stored, in order: NFC-normalised, then as given.

    Raises:
        InvalidAddress: as `lookup_paths`, for each part.
    """
    parts = {"domain": domain, "facet": facet, "key": key}
    for what, value in parts.items():
        if not isinstance(value, str) or not value or _unfindable(value):
            raise InvalidAddress(f"a {what} must be a non-empty string without '/', '\\' or invalid Unicode")
    given = PERSONA + "/".join(parts.values())
    return tuple(dict.fromkeys((unicodedata.normalize("NFC", given), given)))


def persona_name(path: str) -> str:
    """The name of a memory: its path, without `persona/` if that is the first of four parts.

    A path of three parts keeps `persona/`: a domain may have this name.
    """
    return path.removeprefix(PERSONA) if path.count("/") == PERSONA_SLASHES else path


def may_be_persona(slot: str) -> bool:
    """Whether a slot may hold a palace memory, the only kind whose concurrent versions are merged.

    True for a hashed address, because the hash hides the path.
    """
    return slot.startswith((f"{PREFIX}{PERSONA}", f"{PREFIX}~"))


def mind_path(*parts: str) -> str:
    """The path of a record of the mind, `mind/{part}/{part}`. A part must not contain `/`.

    Raises:
        InvalidAddress: a part breaks the rules of `flat_path`, or the path is too long to be spelled out in a d-tag.
    """
    *above, name = parts
    return record_path(
        "/".join((MIND[:-1], *(_name("name", part, MAX_KEY_CHARS) for part in above), "")), name
    )


def record_path(prefix: str, name: str) -> str:
    """The path of a record that names its path, such as `mind/block/{name}`.

    Raises:
        InvalidAddress: as `mind_path`.
    """
    path = prefix + _name("name", name, MAX_KEY_CHARS)
    if not _is_short(PREFIX + path):
        raise InvalidAddress(
            f"the address would have more than {MAX_D_TAG_BYTES} bytes; choose a shorter name"
        )
    return path


def file_path(project: str, name: str) -> str:
    """The path of a mirrored file: a hash, so that relays learn neither its name nor its project."""
    return FILE + hashlib.sha256(f"{project}\0{name}".encode()).hexdigest()[:32]


def is_log_page(slot: str) -> bool:
    """Whether a page of the log lies at a slot."""
    return slot.startswith(LOG_PAGES)


def d_tag(path: str) -> str:
    """The d-tag of a path: readable, or `sense-memory/~{32 hex}` where it would exceed 182 bytes."""
    plain = PREFIX + path
    if _is_short(plain):
        return plain
    return f"{PREFIX}~{hashlib.sha256(path.encode()).hexdigest()[:32]}"


def private_d_tag(key: bytes, path: str) -> str:
    """The private d-tag of a path: HMAC-SHA256 under a key of 32 bytes, in hex."""
    return PREFIX + hmac.digest(key, _PRIVATE_LABEL + path.encode(), "sha256").hex()


def is_private(tag: str) -> bool:
    """Whether a d-tag looks private. A flat memory may be named like one, so only its inside proves it."""
    return _is_private(tag) is not None


def private_hex(tag: str) -> str:
    """The 64 hex digits of a private d-tag."""
    return tag.removeprefix(PREFIX)


def vacated_slot(tag: str) -> str:
    """The slot under which the ledger files what removed the events at a d-tag, and nothing else of the memory."""
    return _VACATED + tag


def is_vacated_slot(slot: str) -> bool:
    """Whether a slot is one of `vacated_slot`."""
    return slot.startswith(_VACATED)


def d_tags(path: str) -> tuple[str, ...]:
    """Every d-tag under which an event of a path may be stored: this version's, and 0.3.1's, which never hashes."""
    return tuple(dict.fromkeys((d_tag(path), PREFIX + path)))


def lookup_paths(key: str) -> tuple[str, ...]:
    """The paths under which a flat memory may be stored, in order: NFC-normalised, then as given.

    Names are normalised when they are written, never when they are read: other writers do not normalise.

    Raises:
        InvalidAddress: empty, or with `/`, a backslash or lone surrogates, which no address can hold.
    """
    if not isinstance(key, str):
        raise InvalidAddress(f"the name of a memory must be text, not {type(key).__name__}")
    if not key or _unfindable(key):
        hint = "; a path such as people/facts/lisa belongs to the palace" if "/" in key else ""
        raise InvalidAddress(
            f"a memory key is not empty, and has no '/', '\\' or invalid Unicode{hint}; give the name of a memory"
        )
    return tuple(dict.fromkeys((unicodedata.normalize("NFC", key), key)))


def path_of(tag: str) -> str | None:
    """The path in a d-tag, or None if the d-tag is hashed or belongs to another program."""
    path = tag.removeprefix(PREFIX)
    return None if path == tag or not path or path.startswith("~") else path


def filed_tag(tag: str) -> str:
    """The d-tag under which the ledger files an event with this d-tag: a long d-tag of 0.3.1 is hashed first."""
    path = None if _is_short(tag) else path_of(tag)
    return tag if path is None else d_tag(path)


def is_ours(tag: str) -> bool:
    """Whether a d-tag belongs to sense-memory or to the journal of the published package 0.3.1."""
    return tag.startswith((PREFIX, JOURNAL_PREFIX))


def coordinate(pubkey: str, tag: str) -> str:
    """The `a` tag of an address, `30078:{pubkey}:{d-tag}` (NIP-01)."""
    return f"{KIND_APP_DATA}:{pubkey}:{tag}"


def d_tag_of(coord: str, pubkey: str) -> str | None:
    """The d-tag in an `a` tag of kind 30078 and this author, or None. The d-tag may contain colons."""
    tag = coord.removeprefix(f"{KIND_APP_DATA}:{pubkey}:")
    return tag if tag and tag != coord else None


def _is_short(tag: str) -> bool:
    """Whether a d-tag is short enough for relays. A start checks ten thousand d-tags, so ASCII is not encoded."""
    return len(tag) <= MAX_D_TAG_BYTES and (tag.isascii() or len(tag.encode()) <= MAX_D_TAG_BYTES)


def _name(what: str, value: object, limit: int) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidAddress(f"a {what} must be a non-empty string")
    if not value.strip():
        raise InvalidAddress(f"a {what} must not be blank")
    if _forbidden(value):
        raise InvalidAddress(f"a {what} must not contain '/', '\\', control characters or invalid Unicode")
    name = unicodedata.normalize("NFC", value)
    if len(name) > limit:
        raise InvalidAddress(f"a {what} may have at most {limit} characters, not {len(name)}")
    if ".." in name:
        raise InvalidAddress(f"a {what} must not contain '..'")
    if name.startswith("~"):
        raise InvalidAddress(f"a {what} must not start with '~', which marks hashed addresses")
    return name
