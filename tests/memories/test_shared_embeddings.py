"""What an embedder made of memories, shared with the owner's other devices; never wrong, never left behind."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import numpy as np
import pytest

from sense_memory import EmbeddedRelay, EmbedReport, LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.config.settings import Settings
from sense_memory.errors import EmbedderError, InvalidSetting, StorageFullError
from sense_memory.memories import shared_embeddings as module
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from tests.inside import database_of, ledger_of, parts_of
from tests.memories.topics import DIMENSION, vectors_of


DAY = 86_400
LONG = "key " + "x" * 190  # hashed at its own address, and at that of its vectors
NEARLY_LONG = "k" * 165  # hashed at that of its vectors only


class Topics:
    """An embedder that knows three topics, and notes which memories it was shown; questions have no blank in them."""

    dimension = DIMENSION

    def __init__(self, name="topics-1"):
        self.name, self.shown, self.fails_after = name, [], None

    def embed(self, texts):
        memories = [text for text in texts if " " in text]
        if memories and self.fails_after is not None and len(self.shown) >= self.fails_after:
            raise EmbedderError(self.name, "the power is out")
        self.shown += memories
        return vectors_of(texts)


@pytest.fixture
def signer():
    return LocalSigner.from_hex("5e" * 32)


@pytest.fixture
def open_store(signer, clock, tmp_path):
    """A store of the agent; each name is a device with a ledger of its own."""

    def make(name="a", embedder=None, relays=(), **options):
        options = {"ledger": tmp_path / f"{name}.db", "clock": clock, "background": False, **options}
        return MemoryStore(signer, relays, embedder=embedder, **options)

    return make


class Devices:
    """Devices of one agent on one relay, each with an embedder of its own."""

    def __init__(self, open_store, relay, stack) -> None:
        self._open_store, self.relay, self._stack = open_store, relay, stack

    async def open(self, name, embedder=None):
        return await self._stack.enter_async_context(self._open_store(name, embedder, [self.relay.url]))

    async def filled(self, name, embedder=None):
        """As `open`, on a ledger that holds `fill`, of which the embedder has not seen anything yet."""
        async with self._open_store(name, None, [self.relay.url]) as store:
            await fill(store)
        return await self.open(name, embedder)

    async def on_relay(self, name="witness"):
        """The vectors that the relay serves to an empty machine."""
        async with self._open_store(name, None, [self.relay.url], ledger=":memory:") as fresh:
            assert (await fresh.sync()).in_step
            return embeddings(fresh)


@pytest.fixture
def devices(open_store, clock, tmp_path):
    """`async with devices() as on:` and then `await on.open("phone", Topics())`."""

    class OpenedRecord:
        async def __aenter__(self):
            self.stack = AsyncExitStack()
            relay = await self.stack.enter_async_context(EmbeddedRelay(tmp_path / "relay.db", clock=clock))
            return Devices(open_store, relay, self.stack)

        async def __aexit__(self, *error):
            await self.stack.aclose()

    return OpenedRecord


async def fill(store):
    """Memories of every kind; one has several pieces, some lie at hashed addresses."""
    await store.remember("pet", "a purring kitten, striped")
    await store.remember(LONG, "darjeeling in the afternoon")
    await store.persona_remember("home", "facts", "vehicle", "engine rebuilt in the garage")
    await store.persona_remember("home", "facts", NEARLY_LONG, "nothing of interest")
    await store.journal("Bought darjeeling at the market.")
    await store.remember("story", "A long story without any topic. " * 60)


COUNT = 6


async def in_step(*stores):
    for _ in range(2):
        for store in stores:
            assert (await store.sync()).in_step


async def paths(store, query, **options):
    return [hit.path for hit in await store.search(query, **options)]


def embeddings(store):
    """The vectors in a ledger, as events: content by address."""
    events = [json.loads(body) for body in ledger_of(store).bodies()]
    slots = ledger_of(store).heads.embeddings()
    ids = {stored.id.hex(): stored.slot for slot in slots if (stored := ledger_of(store).head(slot))}
    return {ids[event["id"]]: event["content"] for event in events if event["id"] in ids}


def counts(store):
    return store.status().counts


# ── Nobody reads twice ──────────────────────────────────────────────────────────────────


async def test_a_second_device_need_not_embed_again(devices):
    async with devices() as on:
        one = await on.filled("one", Topics())
        done = await one.embed(share=True)
        assert done == EmbedReport(0, None, embedded=COUNT, shared=COUNT)
        await in_step(one)

        topics = Topics()
        other = await on.open("other", topics)
        await in_step(other)
        assert (await paths(other, "feline"))[0] == "pet"
        assert (await paths(other, "automobile"))[0] == "home/facts/vehicle"
        assert topics.shown == []
        assert ledger_of(other).vectors.without_embedding("topics-1") == set()
        assert await other.embed(share=True) == EmbedReport(0, None)  # and there is nothing more to tell


async def test_what_was_taken_over_is_kept_and_not_opened_again(devices, monkeypatch):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await one.embed(share=True)
        await in_step(one, other)
        assert (await other.embed()).taken == COUNT
        await other.close()
        topics = Topics()
        other = await on.open("other", topics)
        monkeypatch.setattr(module.SharedEmbeddings, "read", None)
        assert (await paths(other, "feline"))[0] == "pet"
        assert topics.shown == []


async def test_what_is_taken_over_finds_as_well_as_what_was_made(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await one.embed(share=True)
        await in_step(one, other)
        assert await other.embed() == EmbedReport(0, None, taken=COUNT)
        for query in ("feline", "beverage", "automobile", "story"):
            found = [
                [(hit.path, round(hit.score, 3)) for hit in await store.search(query)]
                for store in (one, other)
            ]
            assert found[0] == found[1]
            assert found[0]


async def test_a_restored_machine_need_not_embed_again(devices, open_store, tmp_path):
    async with devices() as on:
        one = await on.filled("one", Topics())
        await one.embed(share=True)
        one.export(tmp_path / "all.jsonl")
        topics = Topics()
        async with open_store("restored", topics) as restored:
            await restored.import_(tmp_path / "all.jsonl")
            assert (await paths(restored, "feline"))[0] == "pet"
        assert topics.shown == []


async def test_who_embedded_before_the_others_vectors_came_tells_them_no_second_time(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await in_step(one, other)
        assert (await other.embed()).embedded == COUNT
        assert (await one.embed(share=True)).shared == COUNT
        await in_step(one, other)
        before = counts(other)["events"]
        assert await other.embed(share=True) == EmbedReport(0, None)
        assert counts(other)["events"] == before


async def test_vectors_that_come_later_are_taken_over_then(devices):
    async with devices() as on:
        topics = Topics()
        one, other = await on.filled("one", Topics()), await on.open("other", topics)
        await in_step(one, other)
        topics.fails_after = 0
        assert await paths(other, "feline") == []
        assert other.gaps().count == COUNT
        await one.embed(share=True)
        await in_step(one, other)
        assert (await other.embed()).taken == COUNT
        assert topics.shown == []


# ── Only where it is wished ─────────────────────────────────────────────────────────────


async def test_nothing_is_shared_unless_that_is_asked_for(open_store):
    async with open_store("a") as store:
        await fill(store)
    async with open_store("a", Topics()) as store:
        await store.search("feline")
        assert (await store.embed()).shared == 0
        assert counts(store)["embeddings"] == 0
        assert (await store.embed(share=True)).shared == COUNT
    async with open_store("b", Topics(), share_embeddings=True) as store:
        await fill(store)
        assert (await store.embed(share=False)).shared == 0
        assert (await store.embed()).shared == COUNT


@pytest.mark.parametrize(
    ("said", "shared"),
    [("yes", 1), ("TRUE", 1), ("on", 1), ("1", 1), ("no", 0), ("Off", 0), ("", 0), (None, 0)],
)
async def test_a_setting_says_what_embed_does_where_it_is_not_told(
    tmp_path, monkeypatch, signer, said, shared
):
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path))
    monkeypatch.delenv("SENSE_MEMORY_SHARE_EMBEDDINGS", raising=False)
    (tmp_path / ".env").write_text(f"NOSTR_NSEC={signer.export_nsec()}\n")
    (tmp_path / ".env").chmod(0o600)
    if said is not None:
        monkeypatch.setenv("SENSE_MEMORY_SHARE_EMBEDDINGS", said)
    async with MemoryStore.from_settings(embedder=Topics(), background=False, snapshot=False) as store:
        await store.remember("pet", "kitten one")
        assert (await store.embed()).shared == shared


def test_a_setting_that_is_neither_yes_nor_no_is_named(tmp_path):
    environ = {"SENSE_MEMORY_SHARE_EMBEDDINGS": "perhaps"}
    with pytest.raises(
        InvalidSetting, match=r"SENSE_MEMORY_SHARE_EMBEDDINGS \(from the environment\): must be yes or no"
    ):
        Settings.load(home=tmp_path, environ=environ)


async def test_a_plan_says_what_would_be_done_and_does_nothing(open_store):
    topics = Topics()
    async with open_store("a") as store:
        await fill(store)
    async with open_store("a", topics) as store:
        assert await store.embed(dry_run=True, share=True) == EmbedReport(COUNT, None)
        assert topics.shown == []
        await store.embed()
        await store.remember("new", "kitten one")
        await store.remember("pet", "an old automobile")
        assert await store.embed(dry_run=True, share=True) == EmbedReport(2, None, unshared=COUNT - 1)
        assert await store.embed(dry_run=True) == EmbedReport(2, None)
        assert counts(store)["embeddings"] == 0


async def test_progress_reaches_its_end(open_store):
    async with open_store("a") as store:
        await fill(store)
    async with open_store("a", Topics()) as store:
        seen = []
        await store.embed(share=True, progress=lambda done, of: seen.append((done, of)))
        assert seen[0] == (0, 2 * COUNT)
        assert seen[-1] == (2 * COUNT, 2 * COUNT)
        assert seen == sorted(seen)


def test_the_twin_for_threads_shares_too(signer, clock, tmp_path):
    options = {"ledger": tmp_path / "a.db", "clock": clock, "background": False}
    with SyncMemoryStore(signer, embedder=Topics(), **options) as store:
        store.remember("pet", "kitten one")
        seen = []
        assert store.embed(share=True, progress=lambda *counts: seen.append(counts)).shared == 1
        assert seen[-1] == (2, 2)


# ── An embedding is no memory ───────────────────────────────────────────────────────────


async def test_what_is_shared_shows_up_nowhere_as_a_memory(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other")
        await in_step(one, other)
        watch = other.watch()
        listed = await other.recall_all(), await other.recent(), await other.persona_recall()
        before, stats, found = counts(other), await other.persona_stats(), await paths(other, "kitten")
        await one.embed(share=True)
        await one.remember("last", "done")
        await in_step(one, other)
        change = await anext(watch)
        assert change.path == "last"  # the first that there is to tell
        assert [m for m in await other.recall_all() if m.key != "last"] == listed[0]
        assert (await other.recent(), await other.persona_recall()) == listed[1:]
        assert await other.persona_stats() == stats
        assert await paths(other, "kitten") == found
        after = counts(other)
        assert after["heads"] == before["heads"] + 1
        assert after["embeddings"] == COUNT
        assert after["older"] == before["older"]
        assert other.status().relays[0].memories == after["heads"]
        assert len(await other.as_of(2e9)) == len(await other.recall_all()) == 4


async def test_a_changed_text_is_shared_in_place_of_the_one_before(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await one.embed(share=True)
        await one.remember("pet", "an old automobile")
        await one.persona_remember("home", "facts", "vehicle", "it is a kitten")
        await in_step(one, other)
        assert (await one.embed(share=True)).shared == 2
        assert counts(one)["embeddings"] == COUNT
        assert counts(one)["older"] == 2  # of the texts; nobody goes back to vectors
        await in_step(one, other)
        assert (await other.embed()).taken == COUNT
        assert "pet" in await paths(other, "engine")
        assert counts(other)["embeddings"] == COUNT


async def test_vectors_have_no_history_in_whatever_order_they_come(open_store, plant, clock):
    async with open_store("a") as store:
        for at in (20, 10, 30, 15):
            await plant(store, LONG, {**GOOD, "created_at": at}, clock() - 100 + at)
        assert (counts(store)["embeddings"], counts(store)["events"]) == (1, 1)
        (slot,) = ledger_of(store).heads.embeddings()
        assert ledger_of(store).head(slot).created_at == clock() - 70
        assert ledger_of(store).edits.forked_slots() == []


# ── Never wrong ─────────────────────────────────────────────────────────────────────────


async def test_vectors_of_an_older_text_are_never_used(devices):
    async with devices() as on:
        topics = Topics()
        one, other = await on.filled("one", Topics()), await on.open("other", topics)
        await one.embed(share=True)
        await one.remember("pet", "an old automobile")
        await one.persona_remember("home", "facts", "vehicle", "it is a kitten")
        await in_step(one, other)
        assert "pet" not in await paths(other, "feline")
        assert "home/facts/vehicle" in await paths(other, "feline")
        assert topics.shown == ["vehicle \nit is a kitten", "pet \nan old automobile"]


async def test_vectors_of_an_older_text_are_not_told_as_those_of_the_new_one(open_store):
    """It was changed, and the embedder could not read it since."""
    topics = Topics()
    async with open_store("a", topics) as store:
        await store.remember("pet", "kitten one")
        await store.embed()
        await store.remember("pet", "an old automobile")
        topics.fails_after = 0
        stopped = await store.embed(share=True)
        assert (stopped.count, stopped.shared) == (1, 0)
        assert counts(store)["embeddings"] == 0


async def test_another_model_reads_anew_and_goes_on_where_it_was_interrupted(devices):
    async with devices() as on:
        one = await on.open("one", Topics())
        await one.remember_many((f"k{number}", f"note number {number}") for number in range(200))
        await one.embed(share=True)
        await in_step(one)
        await one.close()

        topics = Topics("topics-2")
        topics.fails_after = 64
        one = await on.open("one", topics)
        stopped = await one.embed(share=True)
        assert (stopped.count, stopped.embedded, stopped.shared) == (136, 64, 64)
        assert stopped.trouble.problem == "the power is out"
        await one.close()

        topics.fails_after, topics.shown = None, []
        one = await on.open("one", topics)
        assert await one.embed(share=True) == EmbedReport(0, None, embedded=136, shared=136)
        assert len(topics.shown) == 136
        assert counts(one)["embeddings"] == 200
        await in_step(one)

        same, former = Topics("topics-2"), Topics()
        other, old = await on.open("other", same), await on.open("old", former)
        await in_step(other, old)
        assert (await other.embed()).taken == 200
        assert (await old.embed()).embedded == 200
        assert (len(same.shown), len(former.shown)) == (0, 200)


async def test_sharing_that_is_interrupted_goes_on_where_it_was(open_store, monkeypatch):
    monkeypatch.setattr("sense_memory.memories.embedding_jobs.MAX_BATCH_COUNT", 4)
    async with open_store("a", Topics()) as store:
        await store.remember_many((f"k{number}", f"note number {number}") for number in range(10))
        write, batches = parts_of(store).writer.write, []

        async def failing(records, **options):
            batches.append(len(records))
            if len(batches) == 2:
                raise StorageFullError("disk")
            return await write(records, **options)

        monkeypatch.setattr(parts_of(store).writer, "write", failing)
        with pytest.raises(StorageFullError):
            await store.embed(share=True)
        assert counts(store)["embeddings"] == 4
    async with open_store("a", Topics()) as store:
        assert await store.embed(share=True) == EmbedReport(0, None, shared=6)
        assert counts(store)["embeddings"] == 10


async def test_what_was_written_and_not_noted_is_found_and_not_written_again(open_store, monkeypatch):
    """The power failed between the event and the note of it."""
    async with open_store("a") as store:
        await fill(store)
    async with open_store("a", Topics()) as store:
        with monkeypatch.context() as patch:
            patch.setattr(ledger_of(store).vectors, "record_embeddings", lambda told: None)
            await store.embed(share=True)
        before = counts(store)["events"]
        assert await store.embed(share=True) == EmbedReport(0, None)
        assert counts(store)["events"] == before


# What someone with the same key and other software, or worse, may have put there.
GOOD = {"embedding": [1, 0, 0, 0], "model": "topics-1", "created_at": 1}
HOSTILE = {
    "another dimension": {**GOOD, "embedding": [1, 0, 0]},
    "no number": {**GOOD, "embedding": ["NaN", 0, 0, 1]},
    "texts of numbers": {**GOOD, "embedding": ["1", "0", "0", "0"]},
    "truths": {**GOOD, "embedding": [True, False, False, False]},
    "nothing": {**GOOD, "embedding": None},
    "null among them": {**GOOD, "embedding": [1, None, 0, 0]},
    "missing": {"model": "topics-1"},
    "a text": {**GOOD, "embedding": "1000"},
    "an object": {**GOOD, "embedding": {"0": 1}},
    "empty": {**GOOD, "embedding": []},
    "huge numbers": {**GOOD, "embedding": [1e308, 1e308, 0, 0]},
    "longer than 1": {**GOOD, "embedding": [1, 1, 0, 0]},
    "whole numbers beyond measure": {**GOOD, "embedding": [2**64 - 1, 0, 0, 0]},
    "deep": {**GOOD, "embedding": [[[[[1]]]]] * 4},
    "deeper than arrays are": {**GOOD, "embedding": json.loads("[" * 90 + "1" + "]" * 90)},
    "deep by one": {**GOOD, "embedding": [[1, 0, 0, 0]]},
    "ragged": {**GOOD, "pieces": [[1, 0]]},
    "a piece too many": {**GOOD, "pieces": [[1, 0, 0, 0]]},
    "pieces that are none": {**GOOD, "pieces": {"0": [1, 0, 0, 0]}},
    "many numbers": {**GOOD, "embedding": [0.001] * 8_000},
    "another model": {**GOOD, "model": "topics-2"},
    "another state": {**GOOD, "stamp": "0" * 16},
    "no state": {**GOOD, "stamp": None},
    "a state that is no text": {**GOOD, "stamp": ["x"]},
}


@pytest.fixture
def plant(signer):
    """Files an event of our key, made elsewhere, at an address."""

    async def put(store, path, fields, at, tag=None):
        text = json.dumps({"type": "sense-memory:embedding", "key": path, **fields}).encode()
        content = await signer.encrypt(text, signer.public_key)
        tag = tag or f"sense-memory/embed/{path}"
        event = await signer.sign(Unsigned(int(at), KIND_APP_DATA, (("d", tag),), content))
        return await parts_of(store).reader.file_served([event], "wss://relay.example/")

    return put


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
async def test_what_is_no_vector_of_this_memory_by_this_model_is_not_used_but_replaced(
    open_store, plant, clock, fields
):
    topics = Topics()
    async with open_store("a", topics) as store:
        ident = await store.remember("pet", "kitten one")
        fields = {"stamp": ident[:16], **fields}
        assert await plant(store, "pet", fields, clock()) == {"new": 1}
        assert await paths(store, "feline") == ["pet"]
        assert topics.shown == ["pet \nkitten one"]
        clock.advance(5)
        assert (await store.embed(share=True)).shared == 1
    again = Topics()
    async with open_store("a", again) as store:
        await store.search("feline")
        assert (await store.embed(share=True)).shared == 0
    assert again.shown == []


async def test_these_would_be_used_if_nothing_were_wrong_with_them(open_store, plant, clock):
    topics = Topics()
    async with open_store("a", topics) as store:
        ident = await store.remember("note", "nothing at all")
        await plant(store, "note", {**GOOD, "stamp": ident[:16]}, clock())
        assert await paths(store, "feline") == ["note"]
        assert topics.shown == []


async def test_vectors_moved_to_another_memory_are_misfiled(open_store, plant, clock):
    async with open_store("a", Topics()) as store:
        filed = await plant(store, "note", GOOD, clock(), tag="sense-memory/embed/pet")
        assert filed == {"misfiled": 1}
        assert await plant(store, "pet", GOOD, clock(), tag="sense-memory/pet") == {"misfiled": 1}


async def test_what_a_newer_version_or_another_program_wrote_there_stays(open_store, plant, clock):
    async with open_store("a", Topics()) as store:
        await store.remember("pet", "kitten one")
        await store.remember("vehicle", "engine two")
        await plant(store, "pet", {**GOOD, "v": 2}, clock())
        clock.advance(5)
        done = await store.embed(share=True)
        assert (done.shared, done.unshared) == (1, 1)
        assert ledger_of(store).heads.embeddings().keys() == {"sense-memory/embed/vehicle"}


async def test_where_a_version_is_far_ahead_of_this_clock_the_others_are_shared_all_the_same(
    open_store, plant, clock
):
    async with open_store("a", Topics()) as store:
        for number in range(3):
            await store.remember(f"k{number}", f"note number {number}")
        clock.advance(3_000)
        await plant(store, "k1", GOOD, clock())
        clock.advance(-3_000)
        done = await store.embed(share=True)
        assert (done.shared, done.unshared) == (2, 1)
        assert await store.drafts() == []
        clock.advance(3_100)
        assert await store.embed(share=True) == EmbedReport(0, None, shared=1)


async def test_vectors_that_do_not_fit_an_event_are_counted_and_used_here(devices):
    async with devices() as on:
        topics = Topics()
        one, other = await on.open("one", Topics()), await on.open("other", topics)
        await one.remember("pet", "kitten one")
        await one.remember("story", "A purring kitten without end. " * 1_200)
        shared = await one.embed(share=True)
        assert (shared.shared, shared.too_large, shared.unshared) == (
            2,
            0,
            0,
        )  # four numbers a piece fit well
        await in_step(one, other)
        wide = Wide()
        await one.close()
        one = await on.open("one", wide)
        shared = await one.embed(share=True)
        assert (shared.embedded, shared.shared, shared.too_large) == (2, 1, 1)
        assert set(await paths(one, "feline")) == {"pet", "story"}
        assert (await one.embed(share=True)).too_large == 1


class Wide(Topics):
    """The same with many more numbers."""

    dimension = 404

    def __init__(self):
        super().__init__("wide")

    def embed(self, texts):
        rows = np.concatenate([super().embed(texts), np.full((len(texts), 400), 0.0123, np.float32)], axis=1)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ── Never left behind ───────────────────────────────────────────────────────────────────


def traces(found):
    """What must not be found any more, of ciphertexts by address."""
    return [content[place : place + 40].encode() for content in found.values() for place in (60, 300)]


async def forget_all(store):
    for key in ("pet", LONG, "story"):
        await store.forget(key)
    for key in ("vehicle", NEARLY_LONG):
        await store.persona_forget("home", "facts", key)
    (entry,) = await store.recent()
    await store.journal.forget(entry.event_id)


async def test_forgetting_takes_the_vectors_along_everywhere(devices, tmp_path):
    """No byte of any of them is left: not in either ledger, not on an honest relay."""
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await one.embed(share=True)
        await in_step(one, other)
        await other.search("feline")
        doomed = traces(embeddings(one))
        assert len(doomed) == 2 * COUNT
        await one.close()
        await other.close()
        files = ("one.db", "other.db", "relay.db")
        before = {name for name in files if any(trace in everything(tmp_path, name) for trace in doomed)}
        assert before == set(files)

        other = await on.open("other")  # without an embedder
        await forget_all(other)
        assert counts(other)["embeddings"] == 0
        await in_step(other)
        one = await on.open("one", Topics())
        await in_step(one)
        assert counts(one)["embeddings"] == 0
        assert await on.on_relay() == {}
        await one.close()
        await other.close()
    for name in files:
        assert not any(trace in everything(tmp_path, name) for trace in doomed), name


def everything(folder, name):
    """A file and what lies beside it."""
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.name.startswith(name))


async def test_one_request_deletes_a_memory_and_its_vectors(open_store):
    async with open_store("a", Topics()) as store:
        await store.remember("pet", "kitten one")
        await store.embed(share=True)
        request = await store.forget("pet")
        event = ledger_of(store).by_id(request).event()
        addresses = [tag.split(":", 2)[2] for tag in event.tag_values("a")]
        assert addresses == ["sense-memory/pet", "sense-memory/embed/pet"]
        assert counts(store)["tombstones"] == 2


async def test_vectors_of_what_another_device_forgot_meanwhile_are_forgotten_with_the_next_sync(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other")
        await in_step(one, other)
        await forget_all(other)  # which has never heard of any vectors
        await one.embed(share=True)
        assert counts(one)["embeddings"] == COUNT
        await in_step(other, one)
        # At hashed addresses only `embed` can tell whose they were.
        assert counts(one)["embeddings"] == 2
        assert (await one.embed()).forgotten == 2
        await in_step(one, other)
        assert (counts(one)["embeddings"], counts(other)["embeddings"]) == (0, 0)
        assert await on.on_relay() == {}


async def test_vectors_of_what_is_forgotten_while_they_are_told_are_forgotten_at_once(
    open_store, monkeypatch
):
    async with open_store("a", Topics()) as store:
        await store.remember("pet", "kitten one")
        await store.remember("vehicle", "engine two")
        write = parts_of(store).writer.write

        async def racing(records, **options):
            monkeypatch.setattr(parts_of(store).writer, "write", write)
            await store.forget("pet")
            return await write(records, **options)

        monkeypatch.setattr(parts_of(store).writer, "write", racing)
        assert await store.embed(share=True) == EmbedReport(0, None, embedded=2, shared=2, forgotten=1)
        assert ledger_of(store).heads.embeddings().keys() == {"sense-memory/embed/vehicle"}


@pytest.mark.parametrize("by", ["address", "id"])
async def test_vectors_that_another_program_deletes_are_gone(open_store, signer, clock, by):
    async with open_store("a", Topics()) as store:
        await store.remember("pet", "kitten one")
        await store.embed(share=True)
        clock.advance(5)
        head = ledger_of(store).head("sense-memory/embed/pet")
        address = f"30078:{signer.public_key}:sense-memory/embed/pet"
        tags = (("a", address),) if by == "address" else (("e", head.id.hex()), ("k", "30078"))
        await parts_of(store).reader.file_served(
            [await signer.sign(Unsigned(int(clock()), 5, tags, ""))], None
        )
        assert counts(store)["embeddings"] == 0
        assert (await store.recall("pet")).value == "kitten one"
        assert (await store.embed(share=True)).shared == 1


async def test_a_relay_that_says_they_were_deleted_has_not_taken_them(open_store):
    async with open_store("a", Topics(), relays=["wss://relay.example"]) as store:
        await store.remember("pet", "kitten one")
        await store.embed(share=True)
        head = ledger_of(store).head("sense-memory/embed/pet")
        ledger_of(store).outbox.record_verdicts(
            store.relays[0], {head.seq: RelayVerdict(RelayOutcome.DELETED, "deleted")}, 1e9
        )
        assert store.relays.holders(head.id.hex()) == {store.relays[0]: "refused"}


async def test_vectors_whose_memory_has_not_come_yet_stay(devices, plant, clock):
    async with devices() as on:
        one = await on.open("one", Topics())
        await plant(one, "unheard of", GOOD, clock())
        await plant(one, "journal/" + "ab" * 32, GOOD, clock())
        await in_step(one)
        assert (await one.embed()).forgotten == 0
        assert counts(one)["embeddings"] == 2


async def test_what_is_remembered_again_is_shared_again(devices):
    async with devices() as on:
        one, other = await on.open("one", Topics()), await on.open("other", Topics())
        await one.remember("pet", "kitten one")
        await one.embed(share=True)
        await one.forget("pet")
        await one.remember("pet", "kitten two")
        assert await one.embed(share=True) == EmbedReport(0, None, embedded=1, shared=1)
        await in_step(one, other)
        assert await other.embed() == EmbedReport(0, None, taken=1)
        assert list(await on.on_relay()) == ["sense-memory/embed/pet"]


async def test_pruning_takes_the_vectors_along(devices, clock):
    async with devices() as on:
        one = await on.open("one", Topics())
        await one.persona_remember("world", "facts", "news", "an old automobile", halflife_days=1)
        await one.persona_remember("world", "facts", NEARLY_LONG, "an old garage", halflife_days=1)
        await one.remember("pet", "kitten one")
        await one.embed(share=True)
        await in_step(one)
        for _ in range(2):
            clock.advance(40 * DAY)
            await one.persona_prune()
        assert counts(one)["embeddings"] == 1
        await in_step(one)
        assert list(await on.on_relay()) == ["sense-memory/embed/pet"]


async def test_without_any_shared_vectors_a_store_looks_for_none(open_store, monkeypatch):
    """Only whether there are any is asked, of an index."""
    async with open_store("a") as store:
        await fill(store)
    async with open_store("a", Topics()) as store:
        monkeypatch.setattr(module.SharedEmbeddings, "read", None)
        await store.search("feline")
        await store.embed()
        plan = database_of(ledger_of(store)).rows(
            "EXPLAIN QUERY PLAN SELECT 1 FROM slots WHERE slot >= 'a' AND slot < 'b'"
        )
        assert "USING PRIMARY KEY" in plan[0][-1] or "USING COVERING INDEX" in plan[0][-1]


async def test_vectors_that_come_in_are_not_held_in_memory_and_make_nothing_be_read_again(devices):
    async with devices() as on:
        one, other = await on.filled("one", Topics()), await on.open("other", Topics())
        await in_step(one, other)
        before = ledger_of(other).feed.cursor()
        await one.embed(share=True)
        await in_step(one, other)
        assert (await other.embed()).taken == COUNT
        assert not ledger_of(other).feed.since(before).slots
        for store in (one, other):
            assert parts_of(store).reader._open
            assert not ledger_of(store).heads.embeddings().keys() & parts_of(store).reader._open.keys()


# ── Numbers ─────────────────────────────────────────────────────────────────────────────


def test_five_digits_are_as_good_as_what_is_kept():
    rows = np.random.default_rng(7).normal(size=(50, 384))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0, :3] = 0, -0.0, 6e-8
    kept = rows.astype(np.float16)
    told = module._rounded(kept)
    assert (told.astype(np.float16) == kept).all()
    assert told.ravel().tolist() == [float(f"{number:.5g}") for number in kept.ravel().tolist()]
    assert "-0.0," not in json.dumps(told.tolist())
