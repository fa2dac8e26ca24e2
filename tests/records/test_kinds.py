"""The table of kinds: what lies on relays never changes, and every path belongs to one kind."""

from __future__ import annotations

from itertools import permutations

import pytest

from sense_memory.errors import InvalidAddress
from sense_memory.ledger import Role
from sense_memory.records.envelope import record_at
from sense_memory.records.kinds import COUNTED, KINDS, SECTIONS, RecordType, kind_at


def test_the_names_of_kinds_are_those_of_every_record_so_far():
    """They stand in ciphertexts on relays. Whatever a kind is to the ledger, `Role.MEMORY` is what most are."""
    roles = {kind.value.removeprefix("sense-memory:"): kind.role for kind in RecordType}

    assert roles == {
        "kv": Role.MEMORY,
        "journal": Role.MEMORY,
        "persona": Role.MEMORY,
        "introspection": Role.MEMORY,
        "embedding": Role.EMBEDDING,
        "mind": Role.MEMORY,
        "file": Role.MEMORY,
        "device": Role.MEMORY,
        "address-key": Role.MEMORY,
        "tombstone": Role.TOMBSTONE,
    }
    assert KINDS == {kind.value: kind for kind in RecordType}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("user_timezone", RecordType.FLAT),
        ("persona/people/facts/lisa", RecordType.PERSONA),
        ("introspection/1700000000", RecordType.INTROSPECTION),
        ("embed/persona/people/facts/lisa", RecordType.EMBEDDING),
        ("mind/block/human", RecordType.MIND),
        ("file/0123456789abcdef0123456789abcdef", RecordType.FILE),
        ("device/0a1b2c3d", RecordType.DEVICE),
        ("device/0a1b2c3d/7", RecordType.DEVICE),
        ("elsewhere/x", None),
    ],
)
def test_a_path_shows_its_kind(path, kind):
    assert kind_at(path) is kind


def test_no_prefix_begins_another_so_every_path_has_one_kind():
    prefixes = [kind.traits.prefix for kind in RecordType if kind.traits.prefix]

    assert not [pair for pair in permutations(prefixes, 2) if pair[0].startswith(pair[1])]
    assert all(prefix.endswith("/") for prefix in prefixes)


def test_what_is_counted_apart_has_a_name_and_words_and_a_place():
    names = ["logs", "embeddings", "mind", "files", "manifests", "address_keys"]
    assert list(COUNTED) == names
    assert list(SECTIONS) == [
        name for name in names if name != "embeddings"
    ]  # they are counted by their role
    assert all(all(kind.traits.counted) and kind.traits.prefix for kind in COUNTED.values())


def kinds_with(trait):
    return {kind.name for kind in RecordType if getattr(kind.traits, trait)}


def test_each_trait_belongs_to_these_kinds_and_to_no_other():
    """A new kind has none of them but those in its line."""
    assert kinds_with("fades") == {"JOURNAL", "PERSONA"}
    assert kinds_with("has_history") == {"FLAT", "PERSONA"}
    assert kinds_with("says_edits") == {"FLAT", "PERSONA", "MIND"}
    assert kinds_with("is_watched") == {"FLAT", "JOURNAL", "PERSONA"}
    assert kinds_with("is_merged") == {"PERSONA"}
    assert kinds_with("names_path") == {"ADDRESS_KEY", "FILE", "MIND"}
    assert kinds_with("is_exported") == {"FILE"}
    assert {kind.name for kind in RecordType if not kind.has_address} == {"JOURNAL"}


@pytest.mark.parametrize(
    ("kind", "fields", "path"),
    [
        (RecordType.FLAT, {"key": "user_timezone"}, "user_timezone"),
        (RecordType.PERSONA, {"domain": "a", "facet": "b", "key": "c"}, "persona/a/b/c"),
        (RecordType.INTROSPECTION, {"ts": 7}, "introspection/7"),
        (RecordType.INTROSPECTION, {"timestamp": 8}, "introspection/8"),
        (RecordType.EMBEDDING, {"key": "persona/a/b/c"}, "embed/persona/a/b/c"),
        (RecordType.MIND, {"path": "mind/block/human"}, "mind/block/human"),
        (RecordType.TOMBSTONE, {"key": "k"}, "k"),
        (RecordType.TOMBSTONE, {"key": "k", "path": "persona/a/b/k"}, "persona/a/b/k"),
    ],
)
def test_a_record_lies_where_its_fields_say(kind, fields, path):
    assert kind.traits.path(fields) == path


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        (RecordType.FLAT, {"value": "v"}, "v"),
        (RecordType.FLAT, {"value": 5}, None),
        (RecordType.FLAT, {}, None),
        (RecordType.JOURNAL, {"content": "c"}, "c"),
        (RecordType.MIND, {"value": "v"}, None),
    ],
)
def test_the_words_of_a_record_are_text_or_nothing(kind, fields, text):
    assert kind.text_of(fields) == text


def test_every_trait_that_needs_another_has_it():
    for kind in RecordType:
        traits = kind.traits
        assert not traits.is_exported or (traits.names_path and traits.text and traits.prefix), kind
        assert not traits.names_path or (kind.has_address and "path" in traits.required), kind
        assert not traits.has_history or (traits.says_edits and traits.text), kind


@pytest.mark.parametrize("path", ["user_timezone", "persona/a/b/c", "embed/a", "elsewhere/x"])
def test_a_record_that_names_its_path_lies_only_where_its_kind_does(path):
    with pytest.raises(InvalidAddress, match="nothing was written"):
        record_at(path, {"value": "v"})
