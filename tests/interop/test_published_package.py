"""What the published sense-memory 0.3.1 writes is read here, and it reads our flat memories."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "published" / "bin" / "python"
AGENT = Path(__file__).with_name("published_agent.py")

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="the environment of sense-memory 0.3.1 is made by `make test`"
)


async def published(signer: LocalSigner, relay: str, **task: object) -> dict:
    """Let an agent on 0.3.1 with the same key do something, and hear what it recalls."""
    process = await asyncio.create_subprocess_exec(
        PYTHON,
        "-P",  # our package must not be found beside the script
        AGENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin"},
    )
    asked = json.dumps({"nsec": signer.export_nsec(), "relay": relay, **task}).encode()
    out, err = await process.communicate(asked)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_what_the_published_package_wrote_is_read_here():
    signer = LocalSigner.generate()
    theirs = {"tz": "America/Vancouver", "名前": "リサ 🎨", "multi.line-key": "one\ntwo"}
    async with EmbeddedRelay() as relay:
        await published(signer, relay.url, remember=theirs, journal=["first entry", "second entry"])

        async with MemoryStore(signer, [relay.url], ledger=":memory:", background=False) as store:
            report = await store.sync()
            found = {memory.key: memory.value for memory in await store.recall_all()}
            entries = [entry.content for entry in await store.recent()]

        assert report.complete
        assert theirs == found
        assert ["second entry", "first entry"] == entries
        assert {"new": 5} == dict(report.relays[0].served)


async def test_the_published_package_reads_our_flat_memories():
    signer = LocalSigner.generate()
    ours = {"user_timezone": "Europe/Berlin", "käse": "Bergkäse ❤"}
    async with EmbeddedRelay() as relay:
        async with MemoryStore(signer, [relay.url], ledger=":memory:", background=False) as store:
            await store.remember_many(ours.items())
            assert (await store.sync()).in_step

        heard = await published(signer, relay.url, recall=[*ours, "never-written"])

        assert {**ours, "never-written": None} == heard["recall"]
        assert ours == heard["recall_all"]


class Constant:
    """An embedder that finds everything alike."""

    name, dimension = "constant", 2

    def embed(self, texts):
        return np.array([[1, 0]] * len(texts), np.float32)


async def test_shared_vectors_do_not_disturb_it_and_go_with_what_it_forgets():
    signer = LocalSigner.generate()
    ours = {"user_timezone": "Europe/Berlin", "editor": "helix"}
    options = {"ledger": ":memory:", "background": False, "embedder": Constant()}
    async with EmbeddedRelay() as relay, MemoryStore(signer, [relay.url], **options) as store:
        await store.remember_many(ours.items())
        await published(signer, relay.url, remember={"theirs": "text"}, journal=["an entry"])
        await store.sync()
        assert (await store.embed(share=True)).shared == 4
        assert (await store.sync()).in_step

        heard = await published(signer, relay.url, recall=[*ours])
        assert heard["recall"] == ours
        assert heard["recall_all"] == {**ours, "theirs": "text"}

        await published(signer, relay.url, forget=["editor"])
        await store.sync()
        assert store.status().counts["embeddings"] == 3


async def test_edits_and_deletions_travel_both_ways():
    signer = LocalSigner.generate()
    async with EmbeddedRelay() as relay:
        await published(signer, relay.url, remember={"a": "theirs", "b": "theirs", "c": "theirs"})
        async with MemoryStore(signer, [relay.url], ledger=":memory:", background=False) as store:
            await store.sync()
            await store.remember("a", "ours")
            await store.forget("b")
            assert (await store.sync()).in_step
            heard = await published(signer, relay.url, recall=["a", "b", "c"], forget=["c"])
            await store.sync()

            assert {"a": "ours", "b": None} == {key: heard["recall"][key] for key in "ab"}
            assert await store.recall("c") is None
            assert (await store.recall("a")).value == "ours"
