"""NIP-49: what opens, what is refused before any work, and that nothing secret is ever repeated.

scrypt is slow on purpose, so the tests that need it share one encrypted key: five calls in all.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import time
import traceback

import nostr_sdk
import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from hypothesis import given, settings
from hypothesis import strategies as st
from pynostr import bech32

from sense_memory.errors import BadKey, InvalidSetting
from sense_memory.nostr import nip49
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.nip49 import decrypt_secret, encrypt_secret, is_ncryptsec, log_n_of
from tests.time_unit import SECOND


VECTOR = (
    "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4j"
    "dzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
)
VECTOR_KEY = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"
TYPED = "\u212b\u2126\u1e9b\u0323"  # Å Ω ẛ̣ of the NIP, as one keyboard sends it
NORMALISED = bytes.fromhex("c385cea9e1b9a9")  # the same, as the NIP says it must be hashed
SECRET = Secret(bytes(range(1, 33)))


def payload(text):
    return bytes(bech32.convertbits(bech32.bech32_decode(text)[1], 5, 8, pad=False))


def encode(raw, prefix="ncryptsec", spec=bech32.Encoding.BECH32):
    return bech32.bech32_encode(prefix, bech32.convertbits(raw, 8, 5), spec)


def with_byte(at, value):
    raw = bytearray(payload(VECTOR))
    raw[at] = value
    return encode(bytes(raw))


def everything(error):
    """What of an error could reach a log, its chain included."""
    shown = "".join(traceback.format_exception(error))
    while error is not None:
        shown += repr(error) + repr(error.args) + repr(vars(error))
        error = error.__context__
    return shown


def says(text, shown):
    """Whether any 8 characters in a row of a text appear."""
    bare, shown = re.sub("ncryptse[cx]1", "", text.lower()), shown.lower()
    return any(bare[at : at + 8] in shown for at in range(min(len(bare) - 7, 400)))


@pytest.fixture
def no_scrypt(monkeypatch):
    def work(*_, **__):
        raise AssertionError("scrypt was asked to work")

    monkeypatch.setattr(nip49, "Scrypt", work)


@pytest.fixture(scope="module")
def encrypted():
    return encrypt_secret(SECRET, TYPED, log_n=16)


# ── What opens ──────────────────────────────────────────────────────────────────────────


def test_c01_the_nips_own_vector_opens():
    assert decrypt_secret(f"  {VECTOR}\n", "nostr").reveal().hex() == VECTOR_KEY


def test_k05_password_normalised(encrypted):
    """What was encrypted with the NIP's unnormalised sample opens for whoever types the normal form."""
    assert decrypt_secret(encrypted, NORMALISED.decode()) == SECRET


def test_another_implementation_opens_what_we_encrypt(encrypted):
    theirs = nostr_sdk.EncryptedSecretKey.from_bech32(encrypted)
    assert theirs.decrypt(TYPED).to_hex() == SECRET.reveal().hex()
    assert theirs.key_security() == nostr_sdk.KeySecurity.UNKNOWN


def test_an_encrypted_key_has_the_shape_of_the_nip(encrypted):
    raw = payload(encrypted)
    assert len(encrypted) == 162
    assert (len(raw), raw[0], raw[1], raw[42]) == (91, 2, 16, 2)
    assert log_n_of(encrypted) == log_n_of(encrypted.upper()) == 16
    assert is_ncryptsec(encrypted)
    assert is_ncryptsec(f" {encrypted.upper()}\n")
    assert not is_ncryptsec(SECRET.nsec())


def test_salt_and_nonce_are_fresh_and_the_usual_cost_is_18(monkeypatch):
    asked = []

    def fast_scrypt(*, salt, length, n, r, p):
        asked.append((length, n, r, p))
        return Scrypt(salt, length, 2, r, p)

    monkeypatch.setattr(nip49, "Scrypt", fast_scrypt)
    first, second = (payload(encrypt_secret(SECRET, "a password")) for _ in range(2))
    assert asked == [(32, 2**18, 8, 1)] * 2
    assert first[2:18] != second[2:18]
    assert first[18:42] != second[18:42]
    assert first[43:] != second[43:]
    assert decrypt_secret(encode(first), "a password") == SECRET


# ── What is refused ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("log_n", [0, 15, 21, 63, 255])
def test_k04_ncryptsec_cost_is_bounded(no_scrypt, log_n):
    text = with_byte(1, log_n)
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        with pytest.raises(BadKey, match=f"of 16 to 20: this encrypted key asks for {log_n}") as refused:
            decrypt_secret(text, "nostr")
        taken.append(time.thread_time() - begun)
        assert not says(text, everything(refused.value))
    assert min(taken) < 0.010
    with pytest.raises(BadKey):
        log_n_of(text)
    with pytest.raises(InvalidSetting, match="must be 16 to 20"):
        encrypt_secret(SECRET, "nostr", log_n=log_n)


@pytest.mark.parametrize("log_n", range(16, 21))
def test_k04_every_cost_within_the_bounds_is_known(log_n):
    assert log_n_of(with_byte(1, log_n)) == log_n


def test_a_wrong_password_says_so_and_repeats_nothing(encrypted):
    password = "correct horse battery staple"
    with pytest.raises(BadKey, match="the password does not open") as refused:
        decrypt_secret(encrypted, password)
    shown = everything(refused.value)
    assert not says(password, shown)
    assert not says(encrypted, shown)


@pytest.mark.parametrize("at", [2, 18, 41, 42, 43, 90])
def test_every_altered_byte_is_noticed(monkeypatch, at):
    """Salt, nonce, key security byte, sealed key and tag; with a cheap scrypt, which is not what is tested."""
    monkeypatch.setattr(nip49, "Scrypt", lambda *, salt, length, n, r, p: Scrypt(salt, length, 2, r, p))
    raw = bytearray(payload(encrypt_secret(SECRET, "a password")))
    assert decrypt_secret(encode(bytes(raw)), "a password") == SECRET
    raw[at] ^= 1
    with pytest.raises(BadKey, match="or the key was altered"):
        decrypt_secret(encode(bytes(raw)), "a password")


def test_a_sealed_text_that_is_no_key_is_refused(monkeypatch):
    monkeypatch.setattr(nip49, "Scrypt", lambda *, salt, length, n, r, p: Scrypt(salt, length, 2, r, p))
    monkeypatch.setattr(Secret, "reveal", lambda self: bytes(32))
    text = encrypt_secret(SECRET, "a password")
    with pytest.raises(BadKey, match="out of range for the curve"):
        decrypt_secret(text, "a password")


def _mistakes():
    raw = payload(VECTOR)
    return {
        "mixed case": VECTOR[:20] + VECTOR[20:].upper(),
        "wrong checksum": VECTOR[:-1] + "q",
        "swapped": VECTOR[:30] + VECTOR[31] + VECTOR[30] + VECTOR[32:],
        "cut": VECTOR[:-1],
        "doubled": VECTOR * 2,
        "huge": VECTOR * 10_000,
        "no prefix": VECTOR[10:],
        "quoted": f'"{VECTOR}"',
        "bech32m": encode(raw, spec=bech32.Encoding.BECH32M),
        "another prefix": encode(raw, prefix="ncryptsex"),
        "90 bytes": encode(raw[:90]),
        "92 bytes": encode(raw + b"\x00"),
        "full-width": VECTOR[:-1] + "\uff11",
        "surrogate": VECTOR[:-1] + "\ud800",
        "plain": SECRET.nsec(),
        "empty": "",
    }


@pytest.mark.parametrize("mistake", _mistakes())
def test_what_is_no_encrypted_key_is_refused_without_echo(no_scrypt, mistake):
    text = _mistakes()[mistake]
    with pytest.raises(BadKey, match=rf"\(ncryptsec\), {len(text)} characters given") as refused:
        decrypt_secret(text, "nostr")
    assert not says(text, everything(refused.value))


def test_padding_bits_have_to_be_zero(no_scrypt):
    words = bech32.bech32_decode(VECTOR)[1]
    words[-1] |= 1
    text = bech32.bech32_encode("ncryptsec", words, bech32.Encoding.BECH32)
    assert len(text) == len(VECTOR)
    with pytest.raises(BadKey, match="not a valid encrypted key"):
        decrypt_secret(text, "nostr")


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_another_version_is_named(no_scrypt, version):
    with pytest.raises(BadKey, match=f"version {version} of NIP-49"):
        decrypt_secret(with_byte(0, version), "nostr")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.text(max_size=200)
    | st.text("qpzry9x8gf2tvdw0s3jn54khce6mua7l", min_size=152, max_size=152).map("ncryptsec1".__add__)
)
def test_arbitrary_text_is_a_bad_key_and_nothing_else(text):
    with pytest.raises(BadKey):
        decrypt_secret(text, "nostr")


# ── Passwords and memory ────────────────────────────────────────────────────────────────


def test_an_empty_password_protects_nothing(no_scrypt):
    with pytest.raises(InvalidSetting, match="protects nothing"):
        encrypt_secret(SECRET, "")


def test_a_password_that_is_no_text_is_refused_without_echo(no_scrypt):
    """What a terminal of another encoding hands over; the codec's own error carries the whole password."""
    password = "correct horse\udcff battery staple"
    for use in (lambda: encrypt_secret(SECRET, password), lambda: decrypt_secret(VECTOR, password)):
        with pytest.raises(InvalidSetting, match="must be text") as refused:
            use()
        assert not says(password, everything(refused.value))


def test_too_little_memory_is_an_error_and_not_the_end_of_the_process(monkeypatch):
    def too_much(**_):
        raise MemoryError

    monkeypatch.setattr(nip49, "Scrypt", too_much)
    with pytest.raises(BadKey, match="cannot provide the 1,024 MiB"):
        decrypt_secret(with_byte(1, 20), "nostr")
    with pytest.raises(InvalidSetting, match="256 MiB of memory"):
        encrypt_secret(SECRET, "nostr")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_AS")
def test_a_process_that_may_not_have_the_memory_lives_on():
    """With the real scrypt; an implementation that aborts would take the agent down with it."""
    program = """
import resource, sys
from sense_memory.errors import BadKey
from sense_memory.nostr.nip49 import decrypt_secret
resource.setrlimit(resource.RLIMIT_AS, (900 * 2**20, 900 * 2**20))
try:
    decrypt_secret(sys.argv[1], "nostr")
except BadKey as error:
    print(error)
"""
    command = [sys.executable, "-c", program, with_byte(1, 20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30 * SECOND, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1,024 MiB" in done.stdout


# ── XChaCha20 ───────────────────────────────────────────────────────────────────────────


def reference_hchacha20(key, nonce):
    """The rounds as RFC 8439 and draft-irtf-cfrg-xchacha write them."""

    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) % 2**32
            mixed = state[z] ^ state[x]
            state[z] = (mixed << turn | mixed >> 32 - turn) % 2**32

    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))
    for _ in range(10):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for start in range(4):
            quarter(start, 4 + (start + 1) % 4, 8 + (start + 2) % 4, 12 + (start + 3) % 4)
    return struct.pack("<8I", *state[:4], *state[12:])


def test_hchacha20_passes_the_drafts_vector():
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a0000000031415927")
    wanted = "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"
    assert reference_hchacha20(key, nonce).hex() == nip49._hchacha20(key, nonce).hex() == wanted


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16) | st.just(b"\xff" * 16))
def test_hchacha20_is_the_rounds_alone(key, nonce):
    """Also where the nonce lies in ChaCha20's block counter and that counter is full."""
    assert nip49._hchacha20(key, nonce) == reference_hchacha20(key, nonce)
