"""A memory whose key is in the bunker of NDK (the library of many Nostr clients): no line of it was written here."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import SignerError
from sense_memory.nostr.remote_signing import BunkerUrl
from sense_memory.signers.remote_signer import RemoteSigner
from tests.local_relays import PATIENT
from tests.time_unit import SECOND


NDK = Path(__file__).with_name("ndk")
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not (NDK / "node_modules").exists(),
    reason="`make bunker` installs NDK's bunker; it takes node and npm",
)


@asynccontextmanager
async def _bunker(relay, user, token):
    """NDK's bunker as a process; gives its URL."""
    secret = user._secret.reveal().hex()
    process = await asyncio.create_subprocess_exec(
        NODE, "bunker.mjs", relay.url, secret, token, stdout=asyncio.subprocess.PIPE, cwd=NDK
    )
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 20 * SECOND) == b"ready\n"
        yield f"bunker://{user.public_key}?relay={relay.url}&secret={token}"
    finally:
        process.kill()
        await process.wait()


async def _refusal(url):
    """What it says to a wrong token. It does not say when its subscription is open: what is asked before is lost."""
    for _ in range(20):
        try:
            await RemoteSigner.connected(BunkerUrl.parse(url), timeouts=PATIENT, timeout=0.5 * SECOND)
        except SignerError as error:
            if "did not answer" not in str(error):
                return str(error)
    return "no answer"


async def test_it_signs_seals_and_opens_all_that_a_memory_needs(tmp_path):
    user = LocalSigner.generate()
    async with EmbeddedRelay() as relay, _bunker(relay, user, "token") as url:
        options = {"timeouts": PATIENT, "timeout": 10 * SECOND}
        assert "refuses connect" in await _refusal(url.replace("token", "guess"))
        signer = await RemoteSigner.connected(BunkerUrl.parse(url), **options)
        assert signer.public_key == user.public_key
        with_ledger = {"ledger": tmp_path / "ledger.db", "background": False, "timeouts": PATIENT}
        async with MemoryStore(signer, [relay.url], **with_ledger) as store:
            await store.remember("tea", "grün, 绿, 🌱")
            await store.persona_remember("people", "facts", "lisa", 'says "hello" \\ twice')
            await store.journal("saw Lisa")
            await store.forget("tea")
            report = await store.sync()
            assert report.relays[0].problem == ""
            assert report.relays[0].waiting == 0
        again = RemoteSigner(signer.account, **options)
        async with MemoryStore(again, [relay.url], **with_ledger) as store:
            assert (await store.recall("people/facts/lisa")).value == 'says "hello" \\ twice'
        async with MemoryStore(user, [relay.url], ledger=tmp_path / "b.db", background=False) as store:
            await store.sync()
            assert [entry.content for entry in await store.recent()] == ["saw Lisa"]
            assert await store.recall("tea") is None
