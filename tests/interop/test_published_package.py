"""What the published sense-memory 0.3.1 writes is read here, and it reads our flat memories."""

from __future__ import annotations

import asyncio
import json
import subprocess
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


@pytest.fixture(scope="module")
def published():
    """Lets an agent on 0.3.1 with the same key do something, each time in a process of its own; returns what it recalls."""
    with subprocess.Popen(
        [PYTHON, "-P", AGENT],  # our package must not be found beside the script
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    ) as process:

        def answer(asked: str) -> dict | None:
            process.stdin.write(f"{asked}\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        async def does(signer: LocalSigner, relay: str, **task: object) -> dict:
            asked = json.dumps({"nsec": signer.export_nsec(), "relay": relay, **task})
            found = await asyncio.to_thread(answer, asked)  # the relay is in this thread
            assert found is not None, "it failed; stderr says why"
            return found

        yield does


async def test_what_the_published_package_wrote_is_read_here(published):
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


async def test_the_published_package_reads_our_flat_memories(published):
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


async def test_shared_vectors_do_not_disturb_it_and_go_with_what_it_forgets(published):
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


async def test_edits_and_deletions_travel_both_ways(published):
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
