"""Keys: a secret has a type, and neither it nor what was mistaken for it is ever shown."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import pprint
import traceback

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pynostr import bech32

from sense_memory.errors import BadKey
from sense_memory.nostr.keys import Secret, npub, parse_public, parse_secret


seeded = settings(max_examples=30, deadline=None, derandomize=True)

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
RAW = hashlib.sha256(b"sense-memory tests: a key that nobody may see").digest()
HEX = RAW.hex()
scalars = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))


@pytest.fixture
def secret():
    return Secret(RAW)


@pytest.fixture(scope="module")
def nsec():
    return Secret(RAW).nsec()


@pytest.fixture(scope="module")
def leaks(nsec):
    """Whether a text holds any 8 characters in a row of the key, in any spelling of it."""
    spellings = (HEX, nsec.removeprefix("nsec1"), repr(RAW)[2:-1], repr(list(RAW))[1:-1], str(int(HEX, 16)))
    parts = {spelled[at : at + 8] for spelled in spellings for at in range(len(spelled) - 7)}

    def found(text):
        return any(part in text.lower() for part in parts)

    assert found(f"key={nsec[:20].upper()}")
    assert found(repr(bytearray(RAW)))
    return found


# ── Secret ──────────────────────────────────────────────────────────────────────────────


@seeded
@given(scalars)
def test_a_secret_reads_back_from_both_of_its_texts(raw):
    secret = Secret(raw)
    assert secret == parse_secret(secret.nsec()) == parse_secret(raw.hex())
    assert raw == parse_secret(secret.nsec().upper()).reveal() == parse_secret(raw.hex().upper()).reveal()
    assert secret.public_key == parse_public(npub(secret.public_key)) == parse_public(secret.public_key)


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\x01" * 31, b"\x01" * 33, "1" * 32, None, 5, [1] * 32])
def test_a_secret_has_32_bytes(raw):
    with pytest.raises(BadKey):
        Secret(raw)


@pytest.mark.parametrize("number", [0, ORDER, ORDER + 1, 2**256 - 1])
def test_a_secret_lies_between_one_and_the_curves_order(number):
    with pytest.raises(BadKey):
        Secret(number.to_bytes(32, "big"))
    with pytest.raises(BadKey):
        parse_secret(number.to_bytes(32, "big").hex())


def test_generated_secrets_differ():
    assert len({Secret.generate().reveal() for _ in range(50)}) == 50


def test_a_closed_secret_is_overwritten_and_refuses_every_use(secret):
    held = secret._bytes
    with secret as same:
        assert same is secret
        assert secret.reveal() == RAW
    assert bytes(32) == held
    for use in (secret.reveal, secret.nsec, lambda: secret.public_key):
        with pytest.raises(BadKey, match="closed"):
            use()
    secret.close()


def test_secrets_compare_by_value_and_have_no_hash(secret):
    assert secret == Secret(RAW)
    assert secret != Secret(RAW[::-1])
    assert secret != RAW
    with pytest.raises(TypeError):
        hash(secret)


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        ascii,
        format,
        pprint.pformat,
        "{}".format,
        "{!r:>80}".format,
        "{!s}".format,
        lambda secret: "%s %r %a" % (secret, secret, secret),  # noqa: UP031
        lambda secret: repr([secret, {"key": secret}, (secret,)]),
        lambda secret: str(BadKey(secret)),
        lambda secret: json.dumps({"key": secret}, default=repr),
    ],
)
def test_k02_reprs_are_redacted(secret, leaks, show):
    shown = show(secret)
    assert "Secret(nsec, 32 bytes)" in shown
    assert not leaks(shown)


@pytest.mark.parametrize(
    "carry_off",
    [
        json.dumps,
        orjson.dumps,
        vars,
        dict,
        list,
        bytes,
        iter,
        copy.copy,
        copy.deepcopy,
        *(lambda secret, protocol=number: pickle.dumps(secret, protocol) for number in range(6)),
        lambda secret: copy.deepcopy({"settings": [secret]}),
    ],
)
def test_k02_a_secret_can_not_be_carried_off_by_accident(secret, leaks, carry_off):
    with pytest.raises(TypeError) as refused:
        carry_off(secret)
    assert not leaks(str(refused.value))


def test_k02_a_failing_assertion_shows_no_key(secret, leaks):
    """What pytest itself would print, local variables included."""
    other = Secret.generate()
    with pytest.raises(AssertionError) as failure:
        assert secret == other
    report = str(failure.value) + str(failure.getrepr(showlocals=True, style="short"))
    assert "Secret(nsec, 32 bytes)" in report
    assert not leaks(report)


# ── What is refused says nothing of what was given ──────────────────────────────────────


def _mistakes(nsec):
    return {
        "mixed case": nsec[:10] + nsec[10:].upper(),
        "wrong checksum": nsec[:-1] + ("q" if nsec[-1] != "q" else "p"),
        "swapped": nsec[:20] + nsec[21] + nsec[20] + nsec[22:],
        "cut": nsec[:-1],
        "doubled": nsec * 2,
        "prefix gone": nsec[5:],
        "prefix of something else": "nsep" + nsec[4:],
        "quoted": f'"{nsec}"',
        "assignment": f"NOSTR_NSEC={nsec}",
        "hex with newline": HEX[:32] + "\n" + HEX[32:],
        "hex with blanks": " ".join(HEX[at : at + 8] for at in range(0, 64, 8)),
        "hex with 0x": "0x" + HEX,
        "hex cut": HEX[:63],
        "full-width digit": "\uff11" + HEX[1:],
        "surrogate": HEX[:-1] + "\ud800",
        "bech32m": bech32.bech32_encode("nsec", bech32.convertbits(RAW, 8, 5), bech32.Encoding.BECH32M),
        "31 bytes": bech32.bech32_encode("nsec", bech32.convertbits(RAW[:31], 8, 5), bech32.Encoding.BECH32),
        "empty": "",
    }


_GIVE = "give nsec1… or 64 hex digits"
_TYPO = "the checksum of this nsec is wrong: look for a typing error"
_LENGTH = "an nsec has 63 characters: compare it with your copy"
_REMEDIES = dict.fromkeys(("mixed case", "wrong checksum", "swapped", "bech32m"), _TYPO)
_REMEDIES |= dict.fromkeys(("cut", "doubled", "31 bytes"), _LENGTH)


@pytest.mark.parametrize("mistake", _mistakes("nsec1" + "q" * 58))
def test_k03_bad_nsec_is_not_echoed(nsec, leaks, mistake):
    text = _mistakes(nsec)[mistake]
    with pytest.raises(BadKey) as refused:
        parse_secret(text)
    given = f"{len(text)} characters given" if text else "nothing was given"
    assert str(refused.value) == f"not a valid secret key ({given}); {_REMEDIES.get(mistake, _GIVE)}"
    whole = (
        "".join(traceback.format_exception(refused.value)) + repr(refused.value) + repr(refused.value.args)
    )
    assert not leaks(whole)


@pytest.mark.parametrize("mistake", _mistakes("nsec1" + "q" * 58))
def test_k03_nothing_but_a_public_key_reads_as_one(nsec, leaks, mistake):
    """The worst paste: a secret where a public key belongs."""
    for text in (_mistakes(nsec)[mistake], nsec):
        with pytest.raises(BadKey) as refused:
            parse_public(text)
        assert not leaks("".join(traceback.format_exception(refused.value)))


def test_k03_an_npub_in_place_of_the_key_is_named_and_not_echoed(secret):
    """pynostr's own reader takes it for a secret key."""
    text = npub(secret.public_key)
    with pytest.raises(BadKey) as refused:
        parse_secret(text)
    assert "this is an npub, the public half" in str(refused.value)
    assert text[5:13] not in str(refused.value)


@pytest.mark.parametrize("text", [None, 5, b"nsec", ["nsec"], RAW])
def test_k03_what_is_no_text_is_refused_too(leaks, text):
    for parse in (parse_secret, parse_public):
        with pytest.raises(BadKey) as refused:
            parse(text)
        assert not leaks(str(refused.value))


def test_blanks_and_a_final_newline_around_a_key_are_forgiven(secret, nsec):
    """That is how keys lie in files."""
    for text in (f"{nsec}\n", f"  {nsec}\t\r\n", f"{HEX}\n", f"\n{HEX.upper()} "):
        assert secret == parse_secret(text)
    assert secret.public_key == parse_public(f" {npub(secret.public_key)}\n")


@settings(seeded, max_examples=75)
@given(st.text(max_size=80) | st.text("nsecpub1qpzry9x8gf2tvdw0s3jn54khce6mua7l", min_size=60, max_size=64))
def test_arbitrary_text_is_a_bad_key_and_nothing_else(text):
    for parse in (parse_secret, parse_public):
        with pytest.raises(BadKey):
            parse(text)


# ── Public keys ─────────────────────────────────────────────────────────────────────────


TWIST_POINTS = {
    "order 3": "00" * 32,
    "order 13": "eb1f7200aecaa86682376fb1c13cd12b732221e774f553b0a0857f88fa20f86d",
    "order 3319": "709858a4c121e4a84eb59c0ded0261093c71e8ca29efeef21a6161c447bcaf9f",
    "all ff": "ff" * 32,
}


@pytest.mark.parametrize("name", TWIST_POINTS)
def test_c08_twist_points_are_refused(name):
    for text in (TWIST_POINTS[name], npub(TWIST_POINTS[name])):
        with pytest.raises(BadKey, match="not a point on the curve"):
            parse_public(text)


@pytest.mark.parametrize("text", ["", "zz", "a" * 63, "A" * 64, "a" * 65, "\uff11" * 64, None])
def test_only_64_lower_case_hex_digits_become_an_npub(text):
    with pytest.raises(BadKey):
        npub(text)
