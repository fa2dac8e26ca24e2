"""Row C-01, official_vectors: what the standards publish decides, not our own round trips.

NIP-44 and BIP-340 come from `tests/vectors`, pinned by SHA-256; the NIP-19 pairs stand in the NIP's text.
"""

from __future__ import annotations

import csv
import hashlib
import json

import pytest

from sense_memory.errors import BadKey, BadPayload, TooLargeError, UnsupportedVersion
from sense_memory.nostr import nip44, signer
from sense_memory.nostr.event import _verifier
from sense_memory.nostr.keys import Secret, npub, parse_public, parse_secret
from sense_memory.nostr.signer import LocalSigner


SHA256 = {
    "nip44.vectors.json": "269ed0f69e4c192512cc779e78c555090cebc7c785b609e338a62afc3ce25040",
    "bip340.test-vectors.csv": "34c9d1d9c3a88d524bc80778540dc43f8306ec249a7485293063c376db851c2d",
}
PUBLIC = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
NPUB = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
SECRET = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"
NSEC = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"


@pytest.fixture(scope="module")
def nip44_vectors(vectors):
    return json.loads((vectors / "nip44.vectors.json").read_bytes())["v2"]


@pytest.fixture(scope="module")
def bip340_vectors(vectors):
    with (vectors / "bip340.test-vectors.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", SHA256)
def test_c01_the_vectors_are_the_published_ones(vectors, name):
    assert SHA256[name] == hashlib.sha256((vectors / name).read_bytes()).hexdigest()


def test_c01_nip44_conversation_keys(nip44_vectors):
    cases = nip44_vectors["valid"]["get_conversation_key"]
    assert len(cases) == 35
    for case in cases:
        key = nip44.conversation_key(bytes.fromhex(case["sec1"]), case["pub2"])
        assert case["conversation_key"] == key.hex(), case


def test_c01_nip44_message_keys(nip44_vectors):
    group = nip44_vectors["valid"]["get_message_keys"]
    assert len(group["keys"]) == 32
    for case in group["keys"]:
        keys = nip44.message_keys(bytes.fromhex(group["conversation_key"]), bytes.fromhex(case["nonce"]))
        assert (case["chacha_key"], case["chacha_nonce"], case["hmac_key"]) == tuple(k.hex() for k in keys)


def test_c01_nip44_padded_lengths(nip44_vectors):
    cases = nip44_vectors["valid"]["calc_padded_len"]
    assert len(cases) == 24
    assert cases == [[length, nip44.padded_length(length)] for length, _ in cases]


def test_c01_nip44_messages_seal_and_open(nip44_vectors):
    cases = nip44_vectors["valid"]["encrypt_decrypt"]
    assert len(cases) == 10
    for case in cases:
        one, two = Secret(bytes.fromhex(case["sec1"])), Secret(bytes.fromhex(case["sec2"]))
        key = nip44.conversation_key(one.reveal(), two.public_key)
        assert case["conversation_key"] == key.hex()
        assert key == nip44.conversation_key(two.reveal(), one.public_key)
        plaintext = case["plaintext"].encode()
        assert case["payload"] == nip44.encrypt(plaintext, key, nonce=bytes.fromhex(case["nonce"]))
        assert plaintext == nip44.decrypt(case["payload"], key)


def test_c01_nip44_long_messages_by_checksum(nip44_vectors):
    cases = nip44_vectors["valid"]["encrypt_decrypt_long_msg"]
    assert len(cases) == 3
    for case in cases:
        key = bytes.fromhex(case["conversation_key"])
        plaintext = (case["pattern"] * case["repeat"]).encode()
        assert case["plaintext_sha256"] == hashlib.sha256(plaintext).hexdigest()
        payload = nip44.encrypt(plaintext, key, nonce=bytes.fromhex(case["nonce"]))
        assert case["payload_sha256"] == hashlib.sha256(payload.encode()).hexdigest()
        assert plaintext == nip44.decrypt(payload, key)


def test_c01_nip44_lengths_that_are_not_written(nip44_vectors):
    """Zero is no message. From 65,536 bytes on the NIP has a long form since 2026-06-28: not written here."""
    lengths = nip44_vectors["invalid"]["encrypt_msg_lengths"]
    assert lengths == [0, 65_536, 100_000, 10_000_000]
    with pytest.raises(BadPayload):
        nip44.encrypt(b"", bytes(32))
    for length in lengths[1:]:
        with pytest.raises(TooLargeError) as refused:
            nip44.encrypt(b"x" * length, bytes(32))
        assert (length, 65_535) == (refused.value.size, refused.value.limit)


def test_c01_nip44_keys_that_are_refused(nip44_vectors):
    cases = nip44_vectors["invalid"]["get_conversation_key"]
    assert len(cases) == 8
    for case in cases:
        with pytest.raises(BadKey):
            nip44.conversation_key(bytes.fromhex(case["sec1"]), case["pub2"])


def test_c01_nip44_payloads_that_are_refused(nip44_vectors):
    cases = nip44_vectors["invalid"]["decrypt"]
    assert len(cases) == 12
    for case in cases:
        with pytest.raises(BadPayload) as refused:
            nip44.decrypt(case["payload"], bytes.fromhex(case["conversation_key"]))
        if "version" in case["note"]:
            assert refused.type is UnsupportedVersion


def test_c01_bip340_signatures_are_made(bip340_vectors, monkeypatch):
    """Through LocalSigner's own signing call, its randomness replaced by the vector's `aux_rand`.

    Vectors of other lengths than 32 bytes are left to `verify`: an event id always has 32.
    """
    made = 0
    for row in bip340_vectors:
        if not row["secret key"] or len(row["message"]) != 64:
            continue
        made += 1
        local = LocalSigner.from_hex(row["secret key"])
        assert row["public key"].lower() == local.public_key
        monkeypatch.setattr(
            signer.secrets, "token_bytes", lambda size, row=row: bytes.fromhex(row["aux_rand"])
        )
        assert row["signature"].lower() == local._schnorr(bytes.fromhex(row["message"])).hex()
    assert made == 4


def test_c01_bip340_signatures_are_judged(bip340_vectors):
    """Through the cached key object that `verify` uses; its ValueError is `verify`'s "does not match the author".

    `verify` itself cannot take these rows: it only ever checks a signature of an event's own hash.
    """
    assert len(bip340_vectors) == 19
    for row in bip340_vectors:
        try:
            good = _verifier(row["public key"].lower()).verify(
                bytes.fromhex(row["signature"]), bytes.fromhex(row["message"])
            )
        except ValueError:
            good = False
        assert (row["verification result"] == "TRUE") is good, row["index"]


def test_c01_nip19_keys_both_ways():
    assert (npub(PUBLIC), parse_public(NPUB)) == (NPUB, PUBLIC)
    assert (parse_secret(SECRET).nsec(), parse_secret(NSEC).reveal().hex()) == (NSEC, SECRET)


def test_c01_nip19_any_altered_character_is_refused():
    for position in range(5, 63):
        other = "q" if NPUB[position] != "q" else "p"
        with pytest.raises(BadKey):
            parse_public(NPUB[:position] + other + NPUB[position + 1 :])
