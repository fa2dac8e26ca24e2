"""The same keys, events and payloads in two other implementations, both ways: we are never our own judge.

nostr-sdk is rust-nostr; nostr-tools is the JavaScript library, asked through Node where Node is present.
"""

from __future__ import annotations

import json

import nostr_sdk
import pytest

from sense_memory.errors import BadKey
from sense_memory.nostr import nip44
from sense_memory.nostr.event import RawEvent, verify
from sense_memory.nostr.keys import npub, parse_public, parse_secret
from sense_memory.nostr.signer import LocalSigner


CONTROLS = "".join(map(chr, range(32))) + "\x7f\x80\x85\x9f"
TEXTS = {
    "one byte": "a",
    "one character of four bytes": "🌱",
    "many scripts": "grüße, 漢字, العربية, עברית, हिन्दी, 🏳️‍🌈, e\u0301",
    "json in json": json.dumps({"value": 'a "quoted" \\ line\n', "themes": ["art"]}),
    "separators": "\u2028 \u2029 \ufeff \ufffd \uffff \U0010ffff",
    "controls": CONTROLS,
    "32 bytes": "x" * 32,
    "33 bytes": "x" * 33,
    "256 bytes": "x" * 256,
    "257 bytes": "x" * 257,
    "40,960 bytes": "ü" * 20_480,
    "65,535 bytes": "x" * 65_535,
}
EVENTS = {
    "memory": {"tags": (("d", "sense-memory/persona/people/facts/lisa"),), "content": TEXTS["many scripts"]},
    "controls": {"tags": (("d", CONTROLS), ("t", "")), "content": CONTROLS},
    "separators": {"tags": (("d", "x"), ("t", "\u2028", "\u2029")), "content": TEXTS["separators"]},
    "slashes": {"tags": (("d", "a/b\\c&<>'\""),), "content": "</script> \\u0041 \\/"},
    "deletion": {"kind": 5, "tags": (("e", "ab" * 32), ("a", "30078:x:y"), ("k", "30078")), "content": ""},
    "no tags": {"kind": 1, "tags": (), "content": "note"},
    "the epoch": {"kind": 65_535, "at": 0, "tags": (("",), ("x",)), "content": "x"},
}
NOSTR_SDK_WRITES_BYTES = 65_408  # it reads 65,535, and calls anything above this too long to write
KEYS = ["0" * 63 + "1", "f" * 31 + "e" + "baaedce6af48a03bbfd25e8cd0364140", "67" * 32]


@pytest.fixture(scope="module")
def pairs():
    """Signers over the curve's first, last, and an ordinary secret, with their secret as hex."""
    return [(LocalSigner.from_hex(secret), secret) for secret in KEYS]


@pytest.fixture(params=TEXTS)
def text(request):
    return TEXTS[request.param]


# ── nostr-sdk ───────────────────────────────────────────────────────────────────────────


async def test_nostr_sdk_opens_what_we_seal(text, pairs, stranger):
    for ours, secret in pairs:
        payload = await ours.encrypt(text.encode(), stranger.public_key)
        reader = nostr_sdk.PublicKey.parse(stranger.public_key)
        assert text == nostr_sdk.nip44_decrypt(nostr_sdk.SecretKey.parse(secret), reader, payload)


async def test_we_open_what_nostr_sdk_seals(text, pairs, stranger):
    text = text[:NOSTR_SDK_WRITES_BYTES] if text.isascii() else text
    for ours, secret in pairs:
        payload = nostr_sdk.nip44_encrypt(
            nostr_sdk.SecretKey.parse(secret),
            nostr_sdk.PublicKey.parse(stranger.public_key),
            text,
            nostr_sdk.Nip44Version.V2,
        )
        assert text.encode() == await ours.decrypt(payload, stranger.public_key)
        assert text.encode() == await stranger.decrypt(payload, ours.public_key)


@pytest.mark.parametrize("name", EVENTS)
def test_nostr_sdk_verifies_what_we_sign(make_event, pairs, name):
    for ours, _ in pairs:
        event = make_event(by=ours, **EVENTS[name])
        theirs = nostr_sdk.Event.from_json(event.body().decode())
        assert theirs.verify()
        assert event.id == theirs.id().to_hex()
        assert event.content == theirs.content()
        assert event == verify(RawEvent.loads(theirs.as_json()))


@pytest.mark.parametrize("name", EVENTS)
def test_we_verify_what_nostr_sdk_signs(make_event, pairs, name):
    for ours, secret in pairs:
        wanted = make_event(by=ours, **EVENTS[name])
        unsigned = {key: value for key, value in wanted.as_json().items() if key not in ("id", "sig")}
        signed = nostr_sdk.UnsignedEvent.from_json(json.dumps(unsigned)).sign(nostr_sdk.Keys.parse(secret))
        event = verify(RawEvent.loads(signed.as_json()))
        assert wanted.id == event.id
        assert (wanted.tags, wanted.content) == (event.tags, event.content)


def test_nostr_sdk_spells_keys_as_we_do(pairs):
    for ours, secret in pairs:
        theirs = nostr_sdk.Keys.parse(ours.export_nsec())
        assert secret == theirs.secret_key().to_hex()
        assert theirs.secret_key().to_bech32() == ours.export_nsec()
        assert (
            theirs.public_key().to_hex() == ours.public_key == parse_public(theirs.public_key().to_bech32())
        )
        assert theirs.public_key().to_bech32() == ours.npub
        assert parse_secret(theirs.secret_key().to_bech32()) == parse_secret(secret)


# ── nostr-tools ─────────────────────────────────────────────────────────────────────────


def test_nostr_tools_opens_what_we_seal_and_we_what_it_seals(nostr_tools, pairs, stranger):
    secret = pairs[2][1]
    key = nip44.conversation_key(bytes.fromhex(secret), stranger.public_key)
    texts = list(TEXTS.values())
    payloads = [nip44.encrypt(text.encode(), key) for text in texts]
    conversation, *answers = nostr_tools(
        {"op": "conversation", "secret": secret, "reader": stranger.public_key},
        *({"op": "decrypt", "payload": payload, "key": key.hex()} for payload in payloads),
        *({"op": "encrypt", "text": text, "key": key.hex()} for text in texts),
    )
    assert key.hex() == conversation
    # Their decoder drops a leading byte-order mark, none of these texts has one.
    assert texts == answers[: len(texts)]
    assert texts == [nip44.decrypt(payload, key).decode() for payload in answers[len(texts) :]]


def test_c06_the_long_form_of_nostr_tools_is_read(nostr_tools):
    key = bytes(range(32))
    sizes = (65_536, 70_000, 163_840)
    for size, payload in zip(
        sizes,
        nostr_tools(*({"op": "encrypt", "text": "x" * size, "key": key.hex()} for size in sizes)),
        strict=True,
    ):
        assert nip44.decrypt(payload, key) == b"x" * size


def test_nostr_tools_verifies_what_we_sign_and_we_what_it_signs(nostr_tools, make_event, pairs):
    ours, secret = pairs[2]
    events = [make_event(by=ours, **values) for values in EVENTS.values()]
    forged = {**events[0].as_json(), "content": "other"}
    answers = nostr_tools(
        *({"op": "verify", "event": event.as_json()} for event in events),
        {"op": "verify", "event": forged},
        *({"op": "sign", "template": event.as_json(), "secret": secret} for event in events),
    )
    assert [True] * len(events) + [False] == answers[: len(events) + 1]
    signed = [verify(RawEvent.parse(value)) for value in answers[len(events) + 1 :]]
    assert [event.id for event in events] == [event.id for event in signed]
    assert [event.pubkey for event in events] == [event.pubkey for event in signed]


def test_nostr_tools_spells_keys_as_we_do(nostr_tools, pairs):
    for ours, secret in pairs:
        nsec, public, read_nsec, read_npub, broken = nostr_tools(
            {"op": "nsec", "secret": secret},
            {"op": "npub", "pubkey": ours.public_key},
            {"op": "decode", "text": ours.export_nsec()},
            {"op": "decode", "text": ours.npub},
            {"op": "decode", "text": ours.npub[:-1] + "b"},
        )
        assert (ours.export_nsec(), ours.npub) == (nsec, public)
        assert npub(parse_public(public)) == public
        assert parse_secret(nsec) == parse_secret(secret)
        assert {"type": "nsec", "hex": secret} == read_nsec
        assert {"type": "npub", "hex": ours.public_key} == read_npub
        assert broken == {"error": True}
        with pytest.raises(BadKey):
            parse_public(ours.npub[:-1] + "b")
