"""Addresses: which names are allowed, and that two memories never share a d-tag."""

from __future__ import annotations

import hashlib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidAddress
from sense_memory.limits import MAX_D_TAG_BYTES
from sense_memory.nostr.address import (
    PREFIX,
    coordinate,
    d_tag,
    d_tag_of,
    flat_path,
    is_ours,
    lookup_paths,
    path_of,
    persona_path,
)


seeded = settings(max_examples=30, deadline=None, derandomize=True)

NAUGHTY = ["/", "\\", "\x00", "\n", "\x1b", "\x7f", "\x85", "\ud800", "\udfff"]


def _allowed(name: str) -> bool:
    try:
        return bool(flat_path(name))
    except InvalidAddress:
        return False


keys = st.text(min_size=1, max_size=256).filter(_allowed) | st.integers(120, 180).map("x".__mul__)
names = st.text(min_size=1, max_size=64).filter(
    lambda name: _allowed(name) and len(unicodedata.normalize("NFC", name)) <= 64 and name != "flat"
)
paths = keys.map(flat_path) | st.builds(persona_path, names, names, keys)


def test_paths_spell_the_hierarchy_of_the_specification():
    assert flat_path("user_timezone") == "user_timezone"
    assert persona_path("people", "facts", "lisa") == "persona/people/facts/lisa"
    assert d_tag("persona/people/facts/lisa") == "sense-memory/persona/people/facts/lisa"


@pytest.mark.parametrize(
    "key", ["a", "x" * 256, "Grüße", "two words", "a.b", ".hidden", "a~b", "🌱", "a:b", "flat"]
)
def test_everyday_keys_are_allowed(key):
    assert key == flat_path(key)
    assert f"persona/self/notes/{key}" == persona_path("self", "notes", key)


@pytest.mark.parametrize(
    "key", ["", "x" * 257, "~x", "..", "a..b", *NAUGHTY, *(f"a{one}b" for one in NAUGHTY)]
)
def test_keys_that_break_the_rules_are_refused(key):
    with pytest.raises(InvalidAddress):
        flat_path(key)
    with pytest.raises(InvalidAddress):
        persona_path("people", "facts", key)


@pytest.mark.parametrize("name", ["", "x" * 65, "~x", "a..b", "a/b", "a\\b", "a\nb", None, 5, b"people"])
def test_domains_and_facets_follow_the_same_rule_with_64_characters(name):
    for domain, facet in ((name, "facts"), ("people", name)):
        with pytest.raises(InvalidAddress):
            persona_path(domain, facet, "lisa")
    assert persona_path("x" * 64, "y" * 64, "lisa")


@pytest.mark.parametrize("key", [None, 5, b"bytes", ["a"], True])
def test_a_key_is_text(key):
    with pytest.raises(InvalidAddress, match="string"):
        flat_path(key)


def test_the_domain_flat_is_reserved():
    with pytest.raises(InvalidAddress, match="reserved"):
        persona_path("flat", "facts", "lisa")
    assert persona_path("flats", "flat", "flat")


def test_names_are_normalised_before_they_are_measured():
    """An `é` of two code points and one of one are the same memory."""
    assert flat_path("cafe\u0301") == flat_path("caf\u00e9") == "caf\u00e9"
    assert persona_path("cafe\u0301", "e\u0301", "x") == persona_path("caf\u00e9", "\u00e9", "x")
    assert flat_path("e\u0301" * 256) == "\u00e9" * 256


@settings(seeded, max_examples=75)
@given(st.text(max_size=300))
def test_a_key_is_normalised_once_or_refused(key):
    try:
        path = flat_path(key)
    except InvalidAddress:
        return
    assert path == flat_path(path) == unicodedata.normalize("NFC", key)
    assert "/" not in path


def test_a_key_is_looked_for_as_we_write_it_and_as_it_was_given():
    """Other writers do not normalise: normalised when written, never when read."""
    assert lookup_paths("caf\u00e9") == ("caf\u00e9",)
    assert lookup_paths("cafe\u0301") == ("caf\u00e9", "cafe\u0301")


@seeded
@given(st.text())
def test_any_key_that_could_be_written_is_looked_for(key):
    try:
        path = flat_path(key)
    except InvalidAddress:
        return
    assert path == lookup_paths(key)[0]


@pytest.mark.parametrize("key", ["x" * 300, "a..b", "~x", "a\nb", "x~conflict-01234567"])
def test_keys_of_other_writers_and_derived_keys_are_looked_for_too(key):
    """The naming rules are for what is written here."""
    assert lookup_paths(key) == (key,)


@pytest.mark.parametrize("key", ["", None, 5, b"x", "a/b", "/", "a\\b", "\ud800", "x\udfff"])
def test_what_no_address_can_hold_is_not_looked_for(key):
    with pytest.raises(InvalidAddress):
        lookup_paths(key)


@seeded
@given(paths, paths)
def test_d_tags_are_injective_and_short(one, two):
    for path in (one, two):
        tag = d_tag(path)
        assert len(tag.encode()) <= MAX_D_TAG_BYTES
        assert is_ours(tag)
        assert path_of(tag) in (path, None)
    assert (d_tag(one) == d_tag(two)) is (one == two)


@seeded
@given(st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=3), keys)
def test_a_flat_memory_never_shares_an_address_with_a_persona_memory(parts, key):
    assert d_tag(flat_path(key)) != d_tag(persona_path(parts[0], parts[-1], key))


@pytest.mark.parametrize("unit", ["x", "ü", "漢", "🌱"])
def test_a_path_is_hashed_from_the_first_byte_on_that_does_not_fit(unit):
    """182 bytes of UTF-8 fit, whatever they spell."""
    size = len(unit.encode())
    room = (MAX_D_TAG_BYTES - len(PREFIX)) // size
    assert d_tag(unit * room) == PREFIX + unit * room
    path = unit * (room + 1)
    assert d_tag(path) == f"{PREFIX}~{hashlib.sha256(path.encode()).hexdigest()[:32]}"
    assert path_of(d_tag(path)) is None


def test_no_key_can_imitate_a_hashed_address():
    with pytest.raises(InvalidAddress):
        flat_path(d_tag("x" * 200).removeprefix(PREFIX))


@pytest.mark.parametrize(
    ("tag", "path", "ours"),
    [
        ("sense-memory/x", "x", True),
        ("sense-memory/persona/a/b/c", "persona/a/b/c", True),
        ("sense-memory/~0123", None, True),
        ("sense-memory/", None, True),
        ("sense-memory", None, False),
        ("sense-memoryx/x", None, False),
        ("Sense-Memory/x", None, False),
        (" sense-memory/x", None, False),
        ("sense-journal/1700000000", None, True),
        ("other", None, False),
        ("", None, False),
    ],
)
def test_which_d_tags_are_ours_and_what_they_spell(tag, path, ours):
    assert path == path_of(tag)
    assert ours is is_ours(tag)


@seeded
@given(st.text(min_size=1))
def test_a_coordinate_reads_back_whatever_the_d_tag_holds(tag):
    """Colons included."""
    pubkey = "ab" * 32
    assert f"30078:{pubkey}:{tag}" == coordinate(pubkey, tag)
    assert tag == d_tag_of(coordinate(pubkey, tag), pubkey)


@pytest.mark.parametrize("kind", ["30079", "3007", "030078", "+30078", ""])
def test_coordinates_of_other_kinds_or_authors_are_not_ours(kind):
    pubkey, other = "ab" * 32, "cd" * 32
    assert d_tag_of(f"{kind}:{pubkey}:sense-memory/x", pubkey) is None
    assert d_tag_of(coordinate(other, "sense-memory/x"), pubkey) is None
    assert d_tag_of(coordinate(pubkey, ""), pubkey) is None
    assert d_tag_of("", pubkey) is None
