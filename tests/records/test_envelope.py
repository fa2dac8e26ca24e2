"""The envelope: what goes in comes out, what does not come out is not stored, and nothing lies where it should not."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import (
    BadPayload,
    InvalidAddress,
    InvalidInput,
    MisfiledError,
    NeedsNewerVersion,
    SealVerificationError,
    TooLargeError,
    UnsupportedVersion,
)
from sense_memory.limits import MAX_D_TAG_BYTES, MAX_PLAINTEXT_BYTES, MAX_READ_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DIRECT_MESSAGE, RawEvent, Unsigned, verify
from sense_memory.records import envelope
from sense_memory.records.envelope import Record, open_event, seal
from sense_memory.records.kinds import RecordType
from tests.inside import ledger_of, parts_of


TS = 1_712_345_678.123
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def run(coroutine):
    """A coroutine of a local signer, which never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the coroutine waited for something")


@pytest.fixture(scope="module")
def signer():
    return LocalSigner.generate()


@pytest.fixture(scope="module")
def written(signer):
    """An event as some other program with this key would write it: any JSON, any address."""

    def write(fields, *, tag="sense-memory/x", kind=KIND_APP_DATA, tags=None, by=signer):
        plaintext = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
        content = run(by.encrypt(plaintext, signer.public_key))
        if tags is None:
            tags = (("d", tag),) if kind == KIND_APP_DATA else (("p", signer.public_key),)
        return run(by.sign(Unsigned(1_800_000_000, kind, tags, content)))

    return write


class Twisted:
    """A signer that seals or opens in some wrong way."""

    def __init__(self, inner, *, seals=None, opens=None) -> None:
        self._inner, self._seals, self._opens = inner, seals, opens
        self.public_key = inner.public_key

    async def sign(self, unsigned):
        return await self._inner.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        return await self._inner.encrypt(self._seals(plaintext) if self._seals else plaintext, reader)

    async def decrypt(self, payload, author):
        return self._opens() if self._opens else await self._inner.decrypt(payload, author)


# ── There and back ──────────────────────────────────────────────────────────────────────


def there_and_back(signer, record):
    sealed = run(seal(signer, record))
    return run(open_event(signer, run(signer.sign(sealed.at(1_800_000_000)))))


@given(value=TEXT)
def test_any_value_comes_back_unaltered(signer, value):
    record = envelope.flat("key", value, TS)

    assert record == there_and_back(signer, record)


@given(content=TEXT.filter(str.strip))
def test_any_journal_entry_comes_back_unaltered(signer, content):
    record = envelope.journal(content, TS)

    assert record == there_and_back(signer, record)


@given(key=st.text(min_size=1, max_size=256))
def test_any_key_that_is_accepted_comes_back_at_its_address(signer, key):
    try:
        record = envelope.flat(key, "value", TS)
    except InvalidAddress:
        return

    assert record == there_and_back(signer, record)


@pytest.mark.parametrize("path", ["short", "persona/people/facts/lisa", "persona/a/b/" + "k" * 256])
def test_a_tombstone_comes_back_at_its_address(signer, path):
    record = envelope.tombstone(path)

    assert record == there_and_back(signer, record)


def test_a_journal_entry_is_a_direct_message_to_oneself(signer):
    sealed = run(seal(signer, envelope.journal("dear diary", TS)))

    assert (sealed.kind, sealed.tags) == (KIND_DIRECT_MESSAGE, (("p", signer.public_key),))


def test_a_deletion_names_address_events_and_kind():
    unsigned = envelope.deletion("ab" * 32, ("sense-memory/a:b",), ("11" * 32,), 7)

    assert unsigned == Unsigned(
        7,
        5,
        (("a", f"30078:{'ab' * 32}:sense-memory/a:b"), ("e", "11" * 32), ("k", "30078")),
        "",
    )


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ({"type": envelope.DELETION_TYPE, "of": {"a": {"why": "forget"}}}, {"a": {"why": "forget"}}),
        ({"type": "sense-memory:kv", "of": {"a": {"why": "forget"}}}, {}),  # sealed for something else
        ({"type": envelope.DELETION_TYPE, "of": ["a"]}, {}),
        ({"type": envelope.DELETION_TYPE}, {}),
        ("no longer needed", {}),  # the plain reason of another client
        ("", {}),
    ],
)
def test_a_deletion_says_by_path_what_it_removes_if_it_is_one_of_ours(signer, inside, said):
    content = inside
    if isinstance(inside, dict):
        content = run(signer.encrypt(json.dumps(inside).encode(), signer.public_key))
    request = run(signer.sign(envelope.deletion(signer.public_key, ("sense-memory/a",), (), 5, content)))

    assert run(envelope.open_deletion(signer, request)) == said


def test_what_a_deletion_removes_comes_back_unaltered(signer):
    removing = {"a": {"why": "forget", "texts": ["ab" * 8]}, "b": {"why": "prune", "seen": {"mine": 7}}}
    content = run(envelope.seal_deletion(signer, removing))
    request = run(signer.sign(envelope.deletion(signer.public_key, ("sense-memory/a",), (), 5, content)))

    assert run(envelope.open_deletion(signer, request)) == removing


def test_no_text_shows_in_any_repr(signer):
    """K-02."""
    record = envelope.flat("key", "MARKER", TS)
    sealed = run(seal(signer, record))

    shown = repr((record, sealed, envelope.journal("MARKER", TS), sealed.at(1)))

    assert "MARKER" not in shown
    assert sealed.content not in shown


# ── SealedRecord is opened before it is let go (C-03) ─────────────────────────────────────────


def corrupted(plaintext):
    return plaintext[:-3] + bytes([plaintext[-3] ^ 1]) + plaintext[-2:]


def not_for_us():
    raise BadPayload("the payload was altered, or sealed for another key")


@pytest.mark.parametrize(
    "fault",
    [{"seals": corrupted}, {"opens": not_for_us}, {"opens": lambda: b""}],
    ids=["byte", "mac", "empty"],
)
async def test_sealed_is_opened_before_storing(signer, fault):
    async with MemoryStore(Twisted(signer, **fault), ledger=":memory:") as store:
        for attempt in (
            lambda: store.remember("key", "a text"),
            lambda: store.journal("a text"),
            lambda: store.forget("key"),
        ):
            with pytest.raises(SealVerificationError, match="nothing was stored or sent"):
                await attempt()
        assert store.status().counts["events"] == 0


# ── Size (C-06) ─────────────────────────────────────────────────────────────────────────


def flat_of_size(size):
    empty = len(orjson.dumps({"type": "sense-memory:kv", **envelope.flat("key", "", TS).fields}))
    return envelope.flat("key", "x" * (size - empty), TS)


def test_exactly_40960_bytes_are_written(signer):
    record = flat_of_size(MAX_PLAINTEXT_BYTES)

    assert record == there_and_back(signer, record)


def test_one_byte_more_is_refused_with_the_number(signer):
    with pytest.raises(TooLargeError, match="40,961") as caught:
        run(seal(signer, flat_of_size(MAX_PLAINTEXT_BYTES + 1)))

    assert (caught.value.size, caught.value.limit) == (40_961, 40_960)


def test_the_size_counts_bytes_as_they_are_sealed_and_not_characters(signer):
    with pytest.raises(TooLargeError):
        run(seal(signer, envelope.flat("key", "é" * 20_500, TS)))
    with pytest.raises(TooLargeError):
        run(seal(signer, envelope.flat("key", "\n" * 20_500, TS)))


def test_the_largest_event_fits_the_default_of_strfry(signer):
    sealed = run(seal(signer, flat_of_size(MAX_PLAINTEXT_BYTES)))

    assert len(run(signer.sign(sealed.at(1_800_000_000))).body()) <= 65_536


@pytest.mark.parametrize(
    ("size", "fits"), [(65_535, True), (MAX_READ_PLAINTEXT_BYTES, True), (163_841, False)]
)
def test_more_generous_writers_are_read_up_to_163840_bytes(signer, size, fits):
    """NIP-44's long form, which we never write, sealed by the second opinion of nostr-sdk's authors: bytes by hand."""
    record = flat_of_size(size)
    plaintext = orjson.dumps({"type": "sense-memory:kv", **record.fields})
    assert len(plaintext) == size
    content = long_form(signer, plaintext)
    event = run(signer.sign(Unsigned(1_800_000_000, KIND_APP_DATA, (("d", "sense-memory/key"),), content)))

    if fits:
        assert record == run(open_event(signer, event))
    else:
        with pytest.raises(BadPayload):
            run(open_event(signer, event))


def long_form(signer, plaintext):
    """NIP-44 with the six-byte length prefix where the text needs it, written from the NIP's words."""
    import base64
    import hashlib
    import hmac
    import struct

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    from sense_memory.nostr.nip44 import padded_length

    key, nonce = signer._conversation(signer.public_key), secrets.token_bytes(32)
    stream, block = b"", b""
    for count in (1, 2, 3):
        block = hmac.new(key, block + nonce + bytes([count]), hashlib.sha256).digest()
        stream += block
    size = len(plaintext)
    prefix = struct.pack(">H", size) if size < 65_536 else b"\x00\x00" + struct.pack(">I", size)
    padded = prefix + plaintext.ljust(padded_length(size), b"\x00")
    sealed = (
        Cipher(algorithms.ChaCha20(stream[:32], bytes(4) + stream[32:44]), mode=None)
        .encryptor()
        .update(padded)
    )
    mac = hmac.new(stream[44:76], nonce + sealed, hashlib.sha256).digest()
    return base64.b64encode(b"\x02" + nonce + sealed + mac).decode()


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"])
def test_lone_surrogates_are_refused_by_name(signer, value):
    with pytest.raises(InvalidInput, match="surrogate"):
        run(seal(signer, envelope.flat("key", value, TS)))


# ── Misfiled (E-09) ─────────────────────────────────────────────────────────────────────

FLAT = {"type": "sense-memory:kv", "key": "x", "value": "v", "ts": TS}
PERSONA = {"type": "sense-memory:persona", "domain": "people", "facet": "facts", "key": "lisa", "value": "v"}
JOURNAL = {"type": "sense-memory:journal", "content": "dear diary", "ts": TS}
TOMBSTONE = {"type": "sense-memory:tombstone", "key": "x", "value": ""}
LONG = "k" * 256


@pytest.mark.parametrize(
    ("fields", "tag"),
    [
        (FLAT, "sense-memory/y"),
        (FLAT, "sense-memory/X"),
        (FLAT, "sense-memory/persona/people/facts/x"),
        (FLAT, "sense-journal/x"),
        (PERSONA, "sense-memory/lisa"),
        (PERSONA, "sense-memory/persona/people/beliefs/lisa"),
        (TOMBSTONE, "sense-memory/y"),
        ({**TOMBSTONE, "path": "persona/people/facts/x"}, "sense-memory/x"),
        ({**TOMBSTONE, "path": 5}, "sense-memory/x"),
        (JOURNAL, "sense-memory/x"),
        (JOURNAL, "sense-journal/1712345678.124"),
        ({**JOURNAL, "ts": None}, "sense-journal/1712345678.123"),
        ({**FLAT, "key": LONG}, address.d_tag("l" * 256)),
    ],
)
def test_ciphertext_under_another_address_is_misfiled(written, signer, fields, tag):
    with pytest.raises(MisfiledError):
        run(open_event(signer, written(fields, tag=tag)))


@pytest.mark.parametrize("fields", [FLAT, PERSONA, TOMBSTONE])
def test_a_memory_inside_a_direct_message_is_misfiled(written, signer, fields):
    with pytest.raises(MisfiledError):
        run(open_event(signer, written(fields, kind=KIND_DIRECT_MESSAGE)))


async def test_misfiled_ciphertext_is_rejected(signer):
    """E-09 through the intake: real content under another of our d-tags, signed again with the real key."""
    async with MemoryStore(signer, ledger=":memory:") as store:
        real = ledger_of(store).by_id(await store.remember("bank", "real")).event()
        moved = await signer.sign(
            Unsigned(real.created_at + 9, real.kind, (("d", "sense-memory/x"),), real.content)
        )

        assert await parts_of(store).reader.file_served([moved], "wss://relay.example/") == {"misfiled": 1}
        assert await store.recall("x") is None
        assert (await store.recall("bank")).value == "real"


# ── Other writers ───────────────────────────────────────────────────────────────────────


def test_flat_memories_of_the_published_package_open(written, signer):
    """0.3.1 writes with `json.dumps`, so non-ASCII text arrives escaped."""
    event = written(
        {"type": "sense-memory:kv", "key": "größe", "value": "36 ½", "ts": TS}, tag="sense-memory/größe"
    )

    assert run(open_event(signer, event)) == envelope.flat("größe", "36 ½", TS)


def test_the_published_packages_journal_opens(written, signer):
    """0.3.1 keeps it as kind 30078 under `sense-journal/{ts}`, the float as Python prints it."""
    for ts in (TS, 1_712_345_678.0, 1_712_345_678.1234567, 1_712_345_678):
        event = written(
            {"type": "sense-memory:journal", "content": "hello", "ts": ts}, tag=f"sense-journal/{ts}"
        )

        assert run(open_event(signer, event)) == envelope.journal("hello", ts)


def test_the_published_packages_long_keys_open_though_we_would_hash_them(written, signer):
    """0.3.1 spells out keys of up to 256 characters in the d-tag."""
    event = written({**FLAT, "key": LONG}, tag=f"sense-memory/{LONG}")

    assert run(open_event(signer, event)).path == LONG


def test_the_published_packages_persona_memories_open(written, signer):
    event = written({**PERSONA, "relevance": 0.5}, tag="sense-memory/persona/people/facts/lisa")

    record = run(open_event(signer, event))

    assert (record.type, record.path) == (RecordType.PERSONA, "persona/people/facts/lisa")
    assert record.fields["relevance"] == 0.5


@pytest.mark.parametrize("path", ["user_timezone", "persona/people/facts/lisa"])
def test_a_tombstone_reads_as_an_empty_value_to_the_published_package(signer, path):
    """It looks at `key`, which must be the one asked for, and at `value`."""
    sealed = run(seal(signer, envelope.tombstone(path)))

    inside = json.loads(run(signer.decrypt(sealed.content, signer.public_key)))

    assert inside["type"] == "sense-memory:tombstone"
    assert (inside["key"], inside["value"]) == (path.rpartition("/")[2], "")


def test_keys_of_other_writers_are_not_normalised(written, signer):
    nfd = "cafe\u0301"

    record = run(open_event(signer, written({**FLAT, "key": nfd}, tag=f"sense-memory/{nfd}")))

    assert record.path == nfd


# ── Newer writers (E-12) ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({**FLAT, "v": 2}, 2),
        ({**FLAT, "v": 2**40}, 2**40),
        ({**FLAT, "v": "2"}, 0),
        ({**FLAT, "v": True}, 0),
        ({**FLAT, "v": 1.5}, 0),
        ({"type": "sense-memory:dream", "key": "x"}, 1),
        ({"type": "sense-memory:dream", "v": 3}, 3),
    ],
)
def test_a_newer_schema_or_an_unknown_type_needs_a_newer_version(written, signer, fields, version):
    with pytest.raises(NeedsNewerVersion) as caught:
        run(open_event(signer, written(fields)))

    assert caught.value.version == version


def test_our_own_version_may_be_spelled_out(written, signer):
    assert run(open_event(signer, written({**FLAT, "v": 1}))).fields["v"] == 1


@pytest.mark.parametrize("fields", [{**FLAT, "v": 2}, {"type": "sense-memory:dream", "key": "x"}])
async def test_future_schema_is_kept_not_shown(written, signer, fields):
    """E-12: kept, neither shown nor overwritten; `forget` is still obeyed."""
    event = written(fields)
    async with MemoryStore(signer, ledger=":memory:", clock=lambda: 1_800_000_100.0) as store:
        assert await parts_of(store).reader.file_served([event], "wss://relay.example/") == {"new": 1}

        assert await store.recall_all() == []
        for attempt in (lambda: store.recall("x"), lambda: store.remember("x", "ours")):
            with pytest.raises(NeedsNewerVersion, match=f"schema {fields.get('v', 1)}"):
                await attempt()
        assert ledger_of(store).head("sense-memory/x").event() == event
        await store.forget("x")
        assert await store.recall("x") is None


async def test_unknown_fields_survive_a_rewrite(written, signer):
    event = written({**FLAT, "mood": "calm", "nested": {"deep": [1, None, "é"]}, "v": 1})
    async with MemoryStore(signer, ledger=":memory:", clock=lambda: 1_800_000_100.0) as store:
        await parts_of(store).reader.file_served([event], "wss://relay.example/")

        ident = await store.remember("x", "ours")

        opened = await open_event(signer, ledger_of(store).by_id(ident).event())
        device = ledger_of(store).edits.device
    assert opened.fields == {
        "key": "x",
        "value": "ours",
        "ts": 1_800_000_100.0,
        "mood": "calm",
        "nested": {"deep": [1, None, "é"]},
        "v": 1,
        "seen": {device: 1_800_000_100},
        "said": device,
    }


async def test_forgotten_fields_do_not_come_back(written, signer):
    event = written({**FLAT, "mood": "calm"})
    async with MemoryStore(signer, ledger=":memory:", clock=lambda: 1_800_000_100.0) as store:
        await parts_of(store).reader.file_served([event], "wss://relay.example/")
        await store.forget("x")

        ident = await store.remember("x", "ours")

        opened = await open_event(signer, ledger_of(store).by_id(ident).event())
    assert set(opened.fields) == {"key", "value", "ts", "seen", "said"}


# ── Garbage ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "inside",
    [
        b"no json",
        b"[]",
        b'"text"',
        b"{}",
        b'{"type": 5}',
        b'{"type": "other-app:note"}',
        b'{"type": "sense-memory:kv"}',
        b'{"type": "sense-memory:kv", "key": 5, "value": "v"}',
        b'{"type": "sense-memory:kv", "key": "x", "value": null}',
        b'{"type": "sense-memory:persona", "domain": "people", "key": "lisa", "value": "v"}',
        b'{"type": "sense-memory:journal"}',
        b'{"type": "sense-memory:kv", "key": "\\ud800", "value": "v"}',
        b'{"type": "sense-memory:kv", "key": "x", "value": "\xff"}',
        b'{"type": "sense-memory:kv", "key": "x", "value": "v", "ts": NaN}',
        b"[" * 5_000,
    ],
)
def test_what_is_no_record_of_ours_is_a_bad_payload(written, signer, inside):
    with pytest.raises(BadPayload):
        run(open_event(signer, written(inside)))


@given(inside=st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_inside_raise_only_listed_errors(written, signer, inside):
    with pytest.raises((BadPayload, MisfiledError, NeedsNewerVersion)):
        run(open_event(signer, written(inside)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(
    kind=st.sampled_from(
        ["sense-memory:kv", "sense-memory:journal", "sense-memory:persona", "sense-memory:tombstone"]
    ),
    fields=st.dictionaries(
        st.sampled_from(["key", "value", "ts", "v", "path", "content", "domain", "facet"]), json_values
    ),
    direct=st.booleans(),
)
def test_arbitrary_fields_open_or_raise_only_listed_errors(written, signer, kind, fields, direct):
    inside = orjson.dumps({**fields, "type": kind})
    event = written(inside, kind=KIND_DIRECT_MESSAGE if direct else KIND_APP_DATA)
    try:
        record = run(open_event(signer, event))
    except (BadPayload, MisfiledError, NeedsNewerVersion):
        return
    assert (record.type is RecordType.JOURNAL) == direct


def test_a_message_to_somebody_else_is_not_ours(written, signer):
    other = LocalSigner.generate().public_key
    for tags in ((("p", other),), (), (("p", signer.public_key), ("p", other))):
        with pytest.raises(BadPayload):
            run(open_event(signer, written(JOURNAL, kind=KIND_DIRECT_MESSAGE, tags=tags)))


def test_a_future_encryption_is_named_as_such(written, signer):
    event = written(FLAT)
    later = run(signer.sign(Unsigned(1, event.kind, event.tags, "#" + event.content)))

    with pytest.raises(UnsupportedVersion):
        run(open_event(signer, later))


def test_what_another_key_sealed_does_not_open(signer):
    other = LocalSigner.generate()
    content = run(other.encrypt(json.dumps(FLAT).encode(), other.public_key))
    event = run(signer.sign(Unsigned(1, KIND_APP_DATA, (("d", "sense-memory/x"),), content)))

    with pytest.raises(BadPayload):
        run(open_event(signer, event))


# ── Addresses ───────────────────────────────────────────────────────────────────────────


def test_a_long_path_lies_under_its_hash_and_is_true_inside(signer):
    sealed = run(seal(signer, envelope.flat(LONG, "v", TS)))
    event = run(signer.sign(sealed.at(1)))

    assert event.d_tag.startswith("sense-memory/~")
    assert len(event.d_tag) == len("sense-memory/~") + 32
    assert run(open_event(signer, event)).fields["key"] == LONG


@pytest.mark.parametrize(("chars", "hashed"), [(169, False), (170, True)])
def test_the_bound_for_hashing_is_182_bytes(signer, chars, hashed):
    sealed = run(seal(signer, envelope.flat("k" * chars, "v", TS)))

    assert hashed == sealed.tags[0][1].startswith("sense-memory/~")
    assert len(sealed.tags[0][1].encode()) <= MAX_D_TAG_BYTES


def test_a_sealed_event_verifies_like_any_other(signer):
    sealed = run(seal(signer, envelope.flat("key", "value", TS)))

    event = run(signer.sign(sealed.at(1_800_000_000)))

    assert verify(RawEvent.loads(event.body())) == event


def test_a_record_can_be_taken_over_and_replaced():
    """Records are plain values: equal fields make equal records, in any order."""
    one = Record(RecordType.FLAT, "x", {"key": "x", "value": "v"})

    assert replace(one, fields={"value": "v", "key": "x"}) == one


def test_concurrent_seals_never_share_a_nonce(signer):
    async def seals():
        record = envelope.flat("key", "value", TS)
        return await asyncio.gather(*(seal(signer, record) for _ in range(300)))

    contents = [sealed.content for sealed in asyncio.run(seals())]

    assert len({content[:44] for content in contents}) == 300
