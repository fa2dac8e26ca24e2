"""What the protocol's tests share: signed events, a second NIP-44 writer, and nostr-tools in Node."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.signer import LocalSigner
from tests.time_unit import SECOND


HERE = Path(__file__).parent
INSTALL_SECONDS = 60 * SECOND


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of the standards' vectors."""
    return HERE.parent / "vectors"


@pytest.fixture(scope="session")
def finish():
    """Run a coroutine that never waits, such as a LocalSigner's, without a loop."""

    def run(coroutine):
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("the coroutine waited for something")

    return run


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    """A signer whose secret is SHA-256 of a fixed text."""
    return LocalSigner(Secret(hashlib.sha256(b"sense-memory tests: one").digest()))


@pytest.fixture(scope="session")
def stranger() -> LocalSigner:
    return LocalSigner(Secret(hashlib.sha256(b"sense-memory tests: two").digest()))


@pytest.fixture(scope="session")
def make_event(signer, finish):
    """Sign an event: an addressable one of ours unless told otherwise."""

    def make(
        content="sealed", *, tags=(("d", "sense-memory/x"),), kind=KIND_APP_DATA, at=1_800_000_000, by=signer
    ):
        return finish(by.sign(Unsigned(at, kind, tags, content)))

    return make


@pytest.fixture(scope="session")
def seal_padded():
    """NIP-44 around bytes that are padded already, written from the NIP's text: the second opinion.

    It seals what our own writer never would: long forms, wrong paddings, other versions.
    """

    def seal(padded: bytes, key: bytes, *, nonce: bytes = bytes(range(32)), version: int = 2) -> str:
        stream, block = b"", b""
        for count in (1, 2, 3):
            block = hmac.new(key, block + nonce + bytes([count]), hashlib.sha256).digest()
            stream += block
        cipher = Cipher(algorithms.ChaCha20(stream[:32], bytes(4) + stream[32:44]), mode=None)
        sealed = cipher.encryptor().update(padded)
        mac = hmac.new(stream[44:76], nonce + sealed, hashlib.sha256).digest()
        return base64.b64encode(bytes([version]) + nonce + sealed + mac).decode()

    return seal


@pytest.fixture(scope="session")
def nostr_tools(tmp_path_factory):
    """Ask nostr-tools: a list of requests in, the list of its answers out (see nostr_tools/cross.mjs).

    The package is installed once per session into a temporary folder, from the lock file's hashes.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not both on the PATH")
    folder = tmp_path_factory.mktemp("nostr_tools")
    for name in ("package.json", "package-lock.json", "cross.mjs"):
        shutil.copy(HERE / "nostr_tools" / name, folder)
    flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--fetch-retries=0")
    try:
        done = subprocess.run(
            [npm, "ci", *flags],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
            env={**os.environ, "NO_UPDATE_NOTIFIER": "1"},
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"nostr-tools was not installed within {INSTALL_SECONDS} s")
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if "error code" in line), "npm failed")
        if "EINTEGRITY" in reason or "EUSAGE" in reason:  # anything else is an unreachable registry
            pytest.fail(f"nostr-tools and its lock file disagree: {reason}")
        pytest.skip(f"nostr-tools could not be installed: {reason}")

    def ask(*requests):
        answered = subprocess.run(
            [node, "cross.mjs"],
            cwd=folder,
            input=json.dumps(requests),
            capture_output=True,
            text=True,
            timeout=30 * SECOND,
            check=True,
        )
        return json.loads(answered.stdout)

    return ask
