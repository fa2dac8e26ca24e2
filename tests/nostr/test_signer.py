"""Signers: what a store sees of a key, and what nobody sees."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import pprint

import orjson
import pytest
from pynostr.key import PrivateKey

from sense_memory.errors import BadKey, BadPayload, InvalidEvent, TooLargeError
from sense_memory.nostr import nip44
from sense_memory.nostr.event import Event, RawEvent, Unsigned, verify
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.signer import LocalSigner, Signer, as_signer


RAW = hashlib.sha256(b"sense-memory tests: a signer's key").digest()
UNSIGNED = Unsigned(1_800_000_000, 30078, (("d", "sense-memory/x"),), "sealed")


@pytest.fixture
def mine():
    return LocalSigner(Secret(RAW))


@pytest.fixture
def leaks(mine):
    """Whether a text holds 8 characters in a row of the key or of a derived conversation key."""
    conversation = nip44.conversation_key(RAW, mine.public_key)
    spellings = [mine.export_nsec().removeprefix("nsec1")]
    for value in (RAW, conversation):
        spellings += [value.hex(), repr(value)[2:-1], repr(list(value))[1:-1]]
    parts = {spelled[at : at + 8] for spelled in spellings for at in range(len(spelled) - 7)}
    return lambda text: any(part in text.lower() for part in parts)


async def test_what_a_signer_signs_verifies_and_is_what_was_asked(mine):
    event = await mine.sign(UNSIGNED)
    assert isinstance(event, Event)
    assert event == verify(RawEvent.loads(event.body()))
    assert mine.public_key == event.pubkey
    assert Unsigned(event.created_at, event.kind, event.tags, event.content) == UNSIGNED


async def test_two_signatures_of_one_event_differ_and_its_id_does_not(mine):
    """BIP-340's auxiliary randomness is fresh each time; a re-sent event keeps its id."""
    one, two = await mine.sign(UNSIGNED), await mine.sign(UNSIGNED)
    assert one.id == two.id
    assert one.sig != two.sig


async def test_text_that_is_no_unicode_is_not_signed(mine):
    with pytest.raises(InvalidEvent):
        await mine.sign(Unsigned(1, 1, (), "\ud800"))


async def test_what_is_sealed_for_a_reader_opens_at_both_ends(mine, stranger):
    payload = await mine.encrypt("grüße 🌱".encode(), stranger.public_key)
    assert await stranger.decrypt(payload, mine.public_key) == "grüße 🌱".encode()
    assert await mine.decrypt(payload, stranger.public_key) == "grüße 🌱".encode()
    with pytest.raises(BadPayload):
        await mine.decrypt(payload, mine.public_key)


async def test_a_signer_seals_for_itself(mine):
    assert await mine.decrypt(await mine.encrypt(b"note", mine.public_key), mine.public_key) == b"note"


async def test_sealing_refuses_what_nip44_refuses(mine):
    with pytest.raises(TooLargeError):
        await mine.encrypt(b"x" * 65_536, mine.public_key)
    with pytest.raises(BadPayload):
        await mine.encrypt(b"", mine.public_key)
    with pytest.raises(BadKey):
        await mine.encrypt(b"x", "00" * 32)


async def test_the_conversation_key_is_computed_once(mine, stranger, monkeypatch):
    computed = []
    real = nip44.conversation_key
    monkeypatch.setattr(nip44, "conversation_key", lambda *pair: computed.append(pair[1]) or real(*pair))
    for _ in range(3):
        payload = await mine.encrypt(b"x", stranger.public_key)
        await mine.decrypt(payload, stranger.public_key)
        await mine.encrypt(b"x", mine.public_key)
    assert [stranger.public_key, mine.public_key] == computed


async def test_a_closed_signer_keeps_nothing_and_refuses_every_use(mine):
    payload = await mine.encrypt(b"x", mine.public_key)
    mine.close()
    for refused in (
        mine.sign(UNSIGNED),
        mine.encrypt(b"x", mine.public_key),
        mine.decrypt(payload, mine.public_key),
    ):
        with pytest.raises(BadKey, match="closed"):
            await refused
    with pytest.raises(BadKey, match="closed"):
        mine.export_nsec()
    assert mine._conversations == {}
    assert mine.npub in repr(mine)
    mine.close()


def test_a_signer_is_made_from_any_spelling_of_its_key(mine):
    nsec, hexed = mine.export_nsec(), RAW.hex()
    made = [
        LocalSigner.from_nsec(nsec),
        LocalSigner.from_nsec(f" {nsec}\n"),
        LocalSigner.from_nsec(nsec.upper()),
        LocalSigner.from_hex(hexed),
        LocalSigner.from_hex(f"{hexed.upper()}\n"),
        LocalSigner.from_pynostr(PrivateKey(RAW)),
        as_signer(PrivateKey(RAW)),
    ]
    assert {mine.public_key} == {one.public_key for one in made}
    assert {nsec} == {one.export_nsec() for one in made}


def test_generated_signers_differ():
    assert len({LocalSigner.generate().public_key for _ in range(20)}) == 20


def test_each_way_in_takes_its_own_spelling_only(mine, leaks):
    nsec, hexed = mine.export_nsec(), RAW.hex()
    for make, texts in {
        LocalSigner.from_nsec: (hexed, mine.npub, "", nsec[:-1], None, 5, RAW),
        LocalSigner.from_hex: (nsec, nsec.upper(), mine.npub, "", hexed[:-1], None, 5, RAW),
    }.items():
        for text in texts:
            with pytest.raises(BadKey) as refused:
                make(text)
            assert not leaks(repr(refused.value))


def test_a_signer_passes_through_as_signer_unchanged(mine):
    assert isinstance(mine, Signer)
    assert mine is as_signer(mine)


@pytest.mark.parametrize("value", [None, "text", RAW, RAW.hex(), 5, object(), LocalSigner, Secret(RAW)])
def test_what_is_no_signer_is_refused_without_being_shown(leaks, value):
    with pytest.raises(BadKey) as refused:
        as_signer(value)
    assert not leaks(str(refused.value))


def test_an_nsec_in_place_of_a_signer_is_refused_without_being_shown(mine, leaks):
    with pytest.raises(BadKey) as refused:
        as_signer(mine.export_nsec())
    assert not leaks(str(refused.value))


async def test_k02_reprs_are_redacted(mine, leaks):
    payload = await mine.encrypt(b"marker-plaintext", mine.public_key)
    event = await mine.sign(Unsigned(1, 30078, (("d", "sense-memory/x"),), payload))
    for value in (mine, [mine], {"signer": mine}, UNSIGNED, event, RawEvent.loads(event.body())):
        shown = repr(value) + str(value) + ascii(value) + pprint.pformat(value) + f"{value}"
        assert not leaks(shown)
        assert "sealed" not in shown
        assert payload[:8] not in shown
    assert repr(mine) == f"LocalSigner({mine.npub})"


@pytest.mark.parametrize(
    "carry_off",
    [
        vars,
        json.dumps,
        orjson.dumps,
        copy.copy,
        copy.deepcopy,
        dict,
        *(lambda signer, protocol=number: pickle.dumps(signer, protocol) for number in range(6)),
    ],
)
async def test_k02_a_signer_can_not_be_carried_off_by_accident(mine, leaks, carry_off):
    await mine.encrypt(b"x", mine.public_key)  # so that a conversation key is there to be leaked
    with pytest.raises(TypeError) as refused:
        carry_off(mine)
    assert not leaks(str(refused.value))


async def test_k02_a_failing_assertion_shows_no_key(mine, stranger, leaks):
    await mine.encrypt(b"x", mine.public_key)
    with pytest.raises(AssertionError) as failure:
        assert mine == stranger
    report = str(failure.value) + str(failure.getrepr(showlocals=True, style="short"))
    assert mine.npub in report
    assert not leaks(report)
