"""NIP-44: what may be sealed, what may be opened, and that everything else is a BadPayload."""

from __future__ import annotations

import base64
import binascii
import struct
import tracemalloc

import pytest
from coincurve import PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import BadKey, BadPayload, TooLargeError, UnsupportedVersion
from sense_memory.limits import MAX_READ_PLAINTEXT_BYTES
from sense_memory.nostr import nip44
from sense_memory.nostr.keys import Secret


seeded = settings(max_examples=30, deadline=None, derandomize=True)

KEY = bytes(range(100, 132))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def long_form(size: int) -> bytes:
    """Padded bytes of the NIP's extension: two zeros, four bytes of length, the text, zeros."""
    return struct.pack(">HI", 0, size) + bytes(b"x" * size).ljust(nip44.padded_length(size), b"\x00")


@seeded
@given(st.binary(min_size=1, max_size=2_000), st.binary(min_size=32, max_size=32))
def test_what_is_sealed_opens_again(plaintext, key):
    assert plaintext == nip44.decrypt(nip44.encrypt(plaintext, key), key)


@seeded
@given(st.binary(min_size=1, max_size=300), st.binary(min_size=32, max_size=32))
def test_our_seal_is_the_one_that_the_nips_text_gives(seal_padded, plaintext, nonce):
    padded = struct.pack(">H", len(plaintext)) + plaintext.ljust(nip44.padded_length(len(plaintext)), b"\x00")
    assert seal_padded(padded, KEY, nonce=nonce) == nip44.encrypt(plaintext, KEY, nonce=nonce)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 65, 256, 257, 40_960, 65_534, 65_535])
def test_sizes_at_the_edges_of_the_padding(size):
    payload = nip44.encrypt(b"x" * size, KEY)
    assert nip44.decrypt(payload, KEY) == b"x" * size
    assert 1 + 32 + 2 + nip44.padded_length(size) + 32 == len(base64.b64decode(payload))


@seeded
@given(st.integers(1, 200_000))
def test_padding_holds_the_text_and_wastes_little(length):
    padded = nip44.padded_length(length)
    assert length <= padded
    assert padded % 32 == 0
    assert padded == nip44.padded_length(padded)
    assert padded <= max(32, length * 5 // 4, length + 31)


@pytest.mark.parametrize("length", [0, -1])
def test_nothing_has_no_padding(length):
    with pytest.raises(ValueError):
        nip44.padded_length(length)


def test_the_conversation_key_is_the_same_from_both_sides():
    one, two = Secret(KEY), Secret(KEY[::-1])
    assert nip44.conversation_key(one.reveal(), two.public_key) == nip44.conversation_key(
        two.reveal(), one.public_key
    )


@seeded
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_any_flipped_bit_is_refused(position, bit):
    data = bytearray(base64.b64decode(nip44.encrypt(b"a text of some length", KEY)))
    data[position % len(data)] ^= 1 << bit
    with pytest.raises(BadPayload):
        nip44.decrypt(base64.b64encode(data).decode(), KEY)


def test_another_key_opens_nothing():
    with pytest.raises(BadPayload, match="another key"):
        nip44.decrypt(nip44.encrypt(b"text", KEY), KEY[::-1])


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_and_nonces_have_32_bytes(size):
    for key, nonce in ((bytes(size), bytes(32)), (bytes(32), bytes(size))):
        with pytest.raises(BadPayload):
            nip44.message_keys(key, nonce)


@settings(seeded, max_examples=75)
@given(st.text(max_size=200) | st.text(ALPHABET + "=#", min_size=132, max_size=400))
def test_arbitrary_text_is_a_bad_payload_and_nothing_else(payload):
    with pytest.raises(BadPayload):
        nip44.decrypt(payload, KEY)


@settings(seeded, max_examples=75)
@given(
    st.sampled_from([0, 1, 31, 32, 33, 64, 65, 96, 65_535]) | st.integers(0, 100),
    st.sampled_from([0, 31, 32, 33, 64, 96, 128]),
    st.sampled_from([b"\x00", b"\x01", b"\xff"]),
)
def test_a_padding_under_a_good_mac_is_judged_as_the_nip_does(seal_padded, stated, size, filler):
    """Only somebody with the key can send these; `unpad` of the NIP's pseudocode says which are right."""
    padded = struct.pack(">H", stated) + filler * size
    text = padded[2 : 2 + stated]
    if stated and len(text) == stated and size == nip44.padded_length(stated):
        assert text == nip44.decrypt(seal_padded(padded, KEY), KEY)
    else:
        with pytest.raises(BadPayload):
            nip44.decrypt(seal_padded(padded, KEY), KEY)


# ── Rows of the threat model ────────────────────────────────────────────────────────


def test_c02_nonces_never_repeat():
    """And they are not made from the text: it is the same text each time."""
    nonces = {base64.b64decode(nip44.encrypt(b"same", KEY))[1:33] for _ in range(5_000)}
    assert len(nonces) == 5_000


def test_c04_truncated_payloads_give_errors():
    payload = nip44.encrypt(b"a text longer than one block of padding", KEY)
    for size in range(len(payload)):
        with pytest.raises(BadPayload):
            nip44.decrypt(payload[:size], KEY)


def test_c04_truncated_bytes_give_errors():
    """0 … 98 decoded bytes, and every cut of a longer message."""
    data = base64.b64decode(nip44.encrypt(b"a text longer than one block of padding", KEY))
    for size in range(len(data)):
        with pytest.raises(BadPayload):
            nip44.decrypt(base64.b64encode(data[:size]).decode(), KEY)


def test_c04_short_plaintexts_with_a_valid_mac_give_errors(seal_padded):
    for size in range(34):
        for byte in (b"\x00", b"\x01", b"\xff"):
            with pytest.raises(BadPayload):
                nip44.decrypt(seal_padded(byte * size, KEY), KEY)


def test_c05_oversized_payload_rejected_before_base64(monkeypatch):
    def unreachable(*args, **kwargs):
        raise AssertionError("base64 was decoded")

    monkeypatch.setattr(binascii, "a2b_base64", unreachable)
    payload = "A" * 50_000_000
    tracemalloc.start()
    with pytest.raises(BadPayload, match="50,000,000"):
        nip44.decrypt(payload, KEY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_c05_one_character_group_too_much_is_too_much(seal_padded, monkeypatch):
    longest = len(seal_padded(long_form(MAX_READ_PLAINTEXT_BYTES), KEY))
    with pytest.raises(BadPayload, match="altered"):
        nip44.decrypt("Ag" + "A" * (longest - 2), KEY)
    monkeypatch.setattr(binascii, "a2b_base64", None)
    with pytest.raises(BadPayload, match=f"not {longest + 4:,}"):
        nip44.decrypt("Ag" + "A" * (longest + 2), KEY)


def test_c06_the_long_form_is_read(seal_padded):
    for size in (65_536, 65_537, 100_000, MAX_READ_PLAINTEXT_BYTES):
        assert nip44.decrypt(seal_padded(long_form(size), KEY), KEY) == b"x" * size


def test_c06_the_cap_on_reading_is_honoured(seal_padded):
    """One byte more that is still in the same padding, and a payload that is longer as a whole."""
    for size in (MAX_READ_PLAINTEXT_BYTES + 1, 200_000):
        with pytest.raises(BadPayload):
            nip44.decrypt(seal_padded(long_form(size), KEY), KEY)
    payload = nip44.encrypt(b"x" * 1_000, KEY)
    assert nip44.decrypt(payload, KEY, max_bytes=1_000)
    for cap in (999, 500, 1):
        with pytest.raises(BadPayload):
            nip44.decrypt(payload, KEY, max_bytes=cap)


def test_c06_the_long_form_is_never_written():
    for size in (65_536, 65_537, MAX_READ_PLAINTEXT_BYTES):
        with pytest.raises(TooLargeError) as refused:
            nip44.encrypt(b"x" * size, KEY)
        assert (refused.value.size, refused.value.limit) == (size, 65_535)
    opened = base64.b64decode(nip44.encrypt(b"x" * 65_535, KEY))
    assert len(opened) == 1 + 32 + 2 + 65_536 + 32


@pytest.mark.parametrize("size", [0, 1, 32, 65_535])
def test_c06_a_long_form_for_a_short_text_is_refused(seal_padded, size):
    """One text, one form: the NIP asks it."""
    padded = struct.pack(">HI", 0, size) + bytes(nip44.padded_length(max(size, 1)))
    with pytest.raises(BadPayload, match="padding"):
        nip44.decrypt(seal_padded(padded, KEY), KEY)


@pytest.mark.parametrize("stated", [65_537 + 2**24, 2**24, 2**31, 2**32 - 1])
def test_c06_all_four_bytes_of_a_long_length_count(seal_padded, stated):
    padded = struct.pack(">HI", 0, stated) + bytes(nip44.padded_length(65_537))
    with pytest.raises(BadPayload, match="padding"):
        nip44.decrypt(seal_padded(padded, KEY), KEY)


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_c07_other_versions_are_unsupported(seal_padded, version):
    payload = seal_padded(b"\x00\x04text".ljust(34, b"\x00"), KEY, version=version)
    with pytest.raises(UnsupportedVersion):
        nip44.decrypt(payload, KEY)


def test_c07_the_hash_prefix_is_a_future_encoding():
    """Named as such whatever its length: the NIP wants the reader told to upgrade."""
    payload = nip44.encrypt(b"text", KEY)
    for text in ("#", "#" + payload, "#" + payload[1:], "#" * 1_000_000):
        with pytest.raises(UnsupportedVersion):
            nip44.decrypt(text, KEY)


@pytest.mark.parametrize(
    "point",
    [
        "00" * 32,
        "eb1f7200aecaa86682376fb1c13cd12b732221e774f553b0a0857f88fa20f86d",
        "709858a4c121e4a84eb59c0ded0261093c71e8ca29efeef21a6161c447bcaf9f",
        "ff" * 32,
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f",
        "",
        "02",
        "zz" * 32,
        "aa" * 33,
    ],
)
def test_c08_twist_points_are_refused(point):
    """x coordinates of order 3, 13 and 3319 on the twist, all ff, the field's prime, and no points at all."""
    with pytest.raises(BadKey):
        nip44.conversation_key(KEY, point)


def test_c09_padding_must_have_the_length_that_the_text_asks_for(seal_padded):
    text = b"\x00\x04text"
    assert nip44.decrypt(seal_padded(text.ljust(2 + 32, b"\x00"), KEY), KEY) == b"text"
    for padded in (33, 31 + 32, 64, 96, 128):
        with pytest.raises(BadPayload):
            nip44.decrypt(seal_padded(text.ljust(2 + padded, b"\x00"), KEY), KEY)


@pytest.mark.parametrize("stated", [0, 33, 34, 64, 65_535])
def test_c09_the_stated_length_must_fit_the_padding(seal_padded, stated):
    with pytest.raises(BadPayload, match="padding"):
        nip44.decrypt(seal_padded(struct.pack(">H", stated) + bytes(32), KEY), KEY)


def test_c09_bytes_after_the_text_are_not_looked_at(seal_padded):
    """The NIP checks the padding's length, not its zeros; refusing more than it does would lose texts."""
    assert nip44.decrypt(seal_padded(b"\x00\x04text".ljust(34, b"!"), KEY), KEY) == b"text"


@pytest.mark.parametrize(("size", "unused_bits"), [(33, 2), (65, 4)])
def test_c09_a_base64_tail_has_one_spelling(size, unused_bits):
    payload = nip44.encrypt(b"x" * size, KEY)
    body, tail = payload.rstrip("=")[:-1], payload[len(payload.rstrip("=")) :]
    value = ALPHABET.index(payload.rstrip("=")[-1])
    for noise in range(1, 1 << unused_bits):
        other = body + ALPHABET[value | noise] + tail
        assert base64.b64decode(other) == base64.b64decode(payload)
        with pytest.raises(BadPayload, match="canonical"):
            nip44.decrypt(other, KEY)


def test_c09_base64_holds_nothing_but_its_alphabet():
    payload = nip44.encrypt(b"x" * 65, KEY)
    assert payload.endswith("==")
    spellings = [
        payload[:40] + "\n" + payload[40:],
        payload[:40] + " " + payload[40:],
        payload + "\n",
        "\n" + payload,
        payload[:-1],
        payload[:-2],
        payload + "=",
        payload + "====",
        payload + "AAAA",
        payload[:4] + "==" + payload[4:],
        payload[:40] + "-_" + payload[42:],
        payload[:40] + "é" + payload[41:],
        payload[:40] + "\x00" + payload[41:],
        payload[:40] + "\ud800" + payload[41:],
    ]
    for other in spellings:
        with pytest.raises(BadPayload):
            nip44.decrypt(other, KEY)


def test_c10_ecdh_is_unhashed():
    """Secret 1 and the public key of secret 2; coincurve's own ECDH hashes and would give another key."""
    one, two = bytes(31) + b"\x01", Secret(bytes(31) + b"\x02").public_key
    key = nip44.conversation_key(one, two)
    assert key.hex() == "c41c775356fd92eadc63ff5a0dc1da211b268cbea22316767095b2871ea1412d"
    hashed = PrivateKey(one).ecdh(b"\x02" + bytes.fromhex(two))
    assert key != nip44.hmac.digest(b"nip44-v2", hashed, "sha256")
