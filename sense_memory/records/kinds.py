"""Kinds of records, as one table of traits: what a ciphertext may hold, where it lies, and how a store treats it.

Code that is about one kind names it, such as `memories.flat`; whatever goes for several asks for a trait. So a new kind is
one line here, and is sealed, opened, filed, held, synced, counted and exported as its traits say; the page "How it is
built" names the files that give it calls and commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from sense_memory.ledger.roles import Role
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class KindTraits:
    """What a store asks of a kind of record.

    Attributes:
        required: the text fields that a record must have.
        path: the path that its fields name, see `nostr.address`; None for a kind without an address, which is a direct
            message to oneself: such a record is never replaced, and its event's id is its slot.
        role: how the ledger treats its events.
        text: the field with the words that people read, or empty.
        fades: whether it counts less with time until it is used again.
        has_history: whether users see its versions and undo them; its fields then say who edited it.
        says_edits: whether its fields may say who edited it.
        is_watched: whether watchers hear of it.
        names_path: whether its records are plain fields that name their path, which `MindRecords` reads and writes.
        is_exported: whether the readable export holds it, record by record; only for a kind that names its path.
        is_merged: whether versions that two devices wrote at once are merged; otherwise the later one counts.
        prefix: with which its paths begin; empty for names without a `/`, and for a kind without an address.
        counted_as: if it is counted apart from memories, the name of the count.
        described: one of its records in a sentence; empty for a kind that is described by its path.
        counted: one of them, and several, as `status` counts them; empty where they are no memories of their own.
    """

    required: tuple[str, ...] = ()
    path: Callable[[Mapping[str, Any]], object] | None = None
    role: Role = Role.MEMORY
    text: str = ""
    fades: bool = False
    has_history: bool = False
    says_edits: bool = False
    is_watched: bool = False
    is_merged: bool = False
    names_path: bool = False
    is_exported: bool = False
    prefix: str = ""
    counted_as: str = ""
    described: str = ""
    counted: tuple[str, str] = ("", "")


def _persona_path(fields: Mapping[str, Any]) -> str:
    return f"{address.PERSONA}{fields['domain']}/{fields['facet']}/{fields['key']}"


def _introspection_path(fields: Mapping[str, Any]) -> str:
    return f"{address.INTROSPECTION}{fields.get('ts', fields.get('timestamp'))}"


def _file_path(fields: Mapping[str, Any]) -> str:
    return address.file_path(fields["project"], fields["name"])


def _device_path(fields: Mapping[str, Any]) -> str:
    page = fields.get("page")
    return f"{address.DEVICE}{fields['device']}" + ("" if page is None else f"/{page}")


class RecordType(StrEnum):
    """A kind of record: the `type` field of its records, and its traits."""

    traits: KindTraits

    def __new__(cls, name: str, traits: KindTraits) -> Self:
        """A kind from its line in the table."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.traits = traits
        return kind

    FLAT = (
        "sense-memory:kv",
        KindTraits(
            ("key", "value"),
            lambda fields: fields["key"],
            text="value",
            has_history=True,
            says_edits=True,
            is_watched=True,
        ),
    )
    JOURNAL = (
        "sense-memory:journal",
        KindTraits(("content",), text="content", fades=True, is_watched=True, described="a journal entry"),
    )
    PERSONA = (
        "sense-memory:persona",
        KindTraits(
            ("domain", "facet", "key", "value"),
            _persona_path,
            text="value",
            fades=True,
            has_history=True,
            says_edits=True,
            is_watched=True,
            is_merged=True,
            prefix=address.PERSONA,
        ),
    )
    INTROSPECTION = (
        "sense-memory:introspection",
        KindTraits(
            path=_introspection_path,
            prefix=address.INTROSPECTION,
            counted_as="logs",
            counted=("log of an introspection", "logs of introspections"),
        ),
    )
    EMBEDDING = (
        "sense-memory:embedding",
        KindTraits(
            ("key", "model"),
            lambda fields: address.EMBEDDING + str(fields["key"]),
            role=Role.EMBEDDING,
            prefix=address.EMBEDDING,
            counted_as=Role.EMBEDDING.traits.counted_as,
            counted=("embedding", "embeddings"),
            described="the vectors of a memory",
        ),
    )
    MIND = (
        "sense-memory:mind",
        KindTraits(
            ("path",),
            lambda fields: fields["path"],
            says_edits=True,
            names_path=True,
            prefix=address.MIND,
            counted_as="mind",
            counted=("record of the mind", "records of the mind"),
        ),
    )
    FILE = (
        "sense-memory:file",
        KindTraits(
            ("path", "project", "name", "value"),
            _file_path,
            text="value",
            names_path=True,
            is_exported=True,
            prefix=address.FILE,
            counted_as="files",
            counted=("mirrored file", "mirrored files"),
        ),
    )
    DEVICE = (
        "sense-memory:device",
        KindTraits(
            ("device",),
            _device_path,
            prefix=address.DEVICE,
            counted_as="manifests",
            counted=("record of a manifest", "records of manifests"),
            described="the manifest of a device",
        ),
    )
    ADDRESS_KEY = (
        "sense-memory:address-key",
        KindTraits(
            ("path", "key"),
            lambda fields: fields["path"],
            names_path=True,
            prefix=address.ADDRESS_KEY,
            counted_as="address_keys",
            counted=("key of private addresses", "keys of private addresses"),
        ),
    )
    TOMBSTONE = (
        "sense-memory:tombstone",
        KindTraits(
            ("key",),
            lambda fields: fields.get("path", fields["key"]),
            role=Role.TOMBSTONE,
        ),
    )

    @property
    def role(self) -> Role:
        """How the ledger treats events of this kind."""
        return self.traits.role

    @property
    def has_address(self) -> bool:
        """Whether its records lie at an address, where a newer version replaces an older one."""
        return self.traits.path is not None

    @property
    def is_key(self) -> bool:
        """Whether its records hold the keys of private d-tags."""
        return self is RecordType.ADDRESS_KEY

    @property
    def has_history(self) -> bool:
        """Whether users see its versions and undo them."""
        return self.traits.has_history

    def text_of(self, fields: Mapping[str, Any]) -> str | None:
        """The words of a record that people read; None if it has none."""
        found = fields.get(self.traits.text)
        return found if isinstance(found, str) else None


KINDS: Final = {kind.value: kind for kind in RecordType}  # by the `type` field of their records
COUNTED: Final = {  # the kinds that are counted apart from memories, by the name of their count
    kind.traits.counted_as: kind for kind in RecordType if kind.traits.counted_as
}
SECTIONS: Final = {  # of these, the ones that the ledger counts by the prefixes of their slots
    name: address.PREFIX + kind.traits.prefix for name, kind in COUNTED.items() if kind.role.is_live
}


def kind_at(path: str) -> RecordType | None:
    """The kind of the records at a path, as far as the path shows it; None for a path of another kind."""
    if "/" not in path:
        return RecordType.FLAT
    found = (kind for kind in RecordType if kind.traits.prefix and path.startswith(kind.traits.prefix))
    return next(found, None)
