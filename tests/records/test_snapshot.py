"""The snapshot: a store answers the same with it, without it and with whatever may have become of it; and forgetting reaches it."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import shutil
import signal
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import orjson
import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore
from sense_memory.limits import SNAPSHOT_MESSAGE_BYTES
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, Event, Unsigned
from sense_memory.nostr.keys import Secret
from sense_memory.records import envelope, snapshot
from sense_memory.records import snapshot as blocks
from sense_memory.records.sealed_caches import CachedIndex
from tests.inside import ledger_of, parts_of, signer_of
from tests.time_unit import SECOND


RELAY = "wss://relay.example/"
NOW = 1_800_000_000
KEY = "5e" * 32


class Counting(LocalSigner):
    """A local signer that counts what it opens."""

    __slots__ = ("opened",)

    def __init__(self, secret=None):
        super().__init__(secret or Secret(bytes.fromhex(KEY)))
        self.opened = 0

    async def decrypt(self, payload, author):
        self.opened += 1
        return await super().decrypt(payload, author)


class Elsewhere:
    """A signer that is not in this process."""

    def __init__(self):
        self._inner = Counting()
        self.public_key = self._inner.public_key
        self.seals, self.asked = True, 0

    @property
    def opened(self):
        return self._inner.opened

    async def sign(self, unsigned):
        return await self._inner.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        self.asked += 1
        if not self.seals:
            raise RuntimeError("the bunker is gone")
        return await self._inner.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        return await self._inner.decrypt(payload, author)


class Stage:
    """A ledger in a folder, its snapshot, and the stores of one key that open it."""

    def __init__(self, folder, clock):
        self.folder, self.clock, self.signer = folder, clock, Counting()
        self.ledger = folder / "a.db"
        self.file = folder / "a.db.snapshot"
        self.part = folder / "a.db.snapshot.part"  # while it is written

    def open(self, by=None, **options):
        return MemoryStore(by or self.signer, **{"ledger": self.ledger, "clock": self.clock, **options})

    async def fill(self, count=6, text="text", **options):
        """A closed store with memories and journal entries, and the snapshot that it leaves."""
        async with self.open(**options) as store:
            await store.remember_many((f"k{number}", f"{text} {number}") for number in range(count))
            for number in range(3):
                await store.journal(f"{text} of day {number}")


@pytest.fixture
def thrifty(tmp_path, clock):
    """A stage on which snapshots are written as rarely as in life."""
    return Stage(tmp_path, clock)


@pytest.fixture
def stage(thrifty, monkeypatch):
    """Every close writes a snapshot if that lacks anything, so that a few memories are enough."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)
    return thrifty


async def answers(store):
    """All that a store says about its memories."""
    memories = await store.recall_all()
    single = [await store.recall(memory.key) for memory in memories]
    assert single == memories
    return memories, await store.recent(1_000)


def sealed_key(ledger, name="snapshot_key"):
    with closing(sqlite3.connect(ledger)) as sql:
        return next(
            (value for (value,) in sql.execute("SELECT value FROM meta WHERE name = ?", (name,))), None
        )


async def key_of(stage):
    """The cipher of a snapshot and what its messages are bound to."""
    sealed = sealed_key(stage.ledger)
    cipher = snapshot._cipher_in(await stage.signer.decrypt(sealed, stage.signer.public_key))
    return cipher, blocks.MAGIC + f"{envelope.SCHEMA_VERSION} {stage.signer.public_key}".encode()


class Whole:
    """The bytes of a snapshot where its file is expected."""

    key = "the key"

    def __init__(self, body):
        self._body = body

    def open(self):
        return io.BytesIO(self._body)


def messages(body, cipher, bound):
    """What a snapshot holds, for whoever has the key; empty where something cannot be read."""
    contents = blocks.SnapshotFileReader(Whole(body), Whole.key, blocks.MessageCipher(cipher, bound))
    pieces = [piece for *_, extra in contents.extras() for piece in extra]
    return [contents._message(place) for _, _, place in contents._blocks] + pieces


async def plaintext(stage):
    """All that a snapshot holds, for whoever has the key."""
    return b"".join(messages(stage.file.read_bytes(), *await key_of(stage)))


# ── What it is good for ─────────────────────────────────────────────────────────────────


async def test_a_cold_start_opens_the_key_to_the_snapshot_and_nothing_else(thrifty):
    await thrifty.fill(250)
    async with thrifty.open() as store:
        thrifty.signer.opened = 0
        found = await answers(store)

        assert thrifty.signer.opened == 1
        assert len(found[0]) == 250
        assert [entry.content for entry in found[1]] == ["text of day 2", "text of day 1", "text of day 0"]


async def test_answers_are_the_same_without_it(stage):
    await stage.fill()
    async with stage.open() as store:
        with_it = await answers(store)
    stage.file.unlink()
    async with stage.open() as store:
        without = await answers(store)

    assert with_it == without


async def test_one_memory_is_opened_without_it(stage):
    """One decryption costs less than the whole file, and the key to that would cost one as well."""
    await stage.fill()
    async with stage.open() as store:
        stage.signer.opened = 0
        await store.recall("k3")
        await store.history("k3")
        assert stage.signer.opened == 1


async def test_a_few_of_many_are_opened_without_it(stage):
    await stage.fill(40)
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recent()) == 3
        assert stage.signer.opened == 3


async def test_a_signer_elsewhere_is_asked_once(stage):
    signer = Elsewhere()
    await stage.fill(by=signer)
    before = signer.opened
    async with stage.open(by=signer) as store:
        await answers(store)

    assert signer.opened == before + 1


async def test_unknown_fields_survive_the_snapshot(stage):
    """What a newer writer put into a memory is still there when the memory is rewritten from the snapshot."""
    fields = {"type": "sense-memory:kv", "key": "k", "value": "v", "ts": NOW, "mood": {"a": [1, None, 0.5]}}
    sealed = await stage.signer.encrypt(json.dumps(fields).encode(), stage.signer.public_key)
    event = await stage.signer.sign(Unsigned(NOW, KIND_APP_DATA, (("d", "sense-memory/k"),), sealed))
    async with stage.open() as store:
        await parts_of(store).reader.file_served([event], RELAY)
    async with stage.open() as store:
        await store.recall_all()
        stage.clock.advance(5)
        await store.remember("k", "new")
        (head,) = ledger_of(store).heads.live_under("sense-memory/")
        inside = orjson.loads(await stage.signer.decrypt(head.event().content, stage.signer.public_key))

    assert inside["mood"] == {"a": [1, None, 0.5]}


async def test_a_memory_without_a_time_inside_has_its_events_time(stage):
    fields = {"type": "sense-memory:kv", "key": "k", "value": "v"}
    sealed = await stage.signer.encrypt(json.dumps(fields).encode(), stage.signer.public_key)
    event = await stage.signer.sign(Unsigned(NOW - 7, KIND_APP_DATA, (("d", "sense-memory/k"),), sealed))
    async with stage.open() as store:
        await parts_of(store).reader.file_served([event], RELAY)
    for _ in range(2):
        async with stage.open() as store:
            (memory,) = await store.recall_all()
            assert memory.created_at == NOW - 7


async def test_old_versions_that_were_read_do_not_push_memories_out_of_it(stage):
    await stage.fill(10)
    stage.clock.advance(5)
    async with stage.open() as store:
        await store.remember_many((f"k{number}", "second") for number in range(10))
        await store.as_of(stage.clock() - 1)
        await store.history("k1")
    async with stage.open() as store:
        stage.signer.opened = 0
        assert {memory.value for memory in await store.recall_all()} == {"second"}
        assert stage.signer.opened == 1


# ── When it is written ──────────────────────────────────────────────────────────────────


async def test_few_memories_need_none(thrifty):
    await thrifty.fill(150)

    assert not thrifty.file.exists()
    assert sealed_key(thrifty.ledger) is None


async def test_it_is_written_anew_after_two_hundred_changes(thrifty):
    await thrifty.fill(200)
    before = thrifty.file.read_bytes()
    async with thrifty.open() as store:
        await store.remember_many((f"l{number}", "new") for number in range(199))
    assert thrifty.file.read_bytes() == before

    async with thrifty.open() as store:
        await store.recall_all()
        await store.remember("one more", "new")
    assert thrifty.file.read_bytes() != before


async def test_it_is_written_whole_so_a_twentieth_must_have_changed(thrifty, monkeypatch):
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    await thrifty.fill(57)  # and three journal entries
    before = thrifty.file.read_bytes()
    async with thrifty.open() as store:
        await store.remember_many([("new1", "v"), ("new2", "v")])
    assert thrifty.file.read_bytes() == before

    async with thrifty.open() as store:
        await store.remember_many([("new3", "v"), ("new4", "v"), ("new5", "v"), ("new6", "v")])
    assert thrifty.file.read_bytes() != before


async def test_reading_changes_nothing(stage):
    await stage.fill()
    before = stage.file.read_bytes()
    async with stage.open() as store:
        await answers(store)
        for number in range(6):
            await store.recall(f"k{number}")

    assert stage.file.read_bytes() == before


async def test_opening_one_by_one_what_is_in_it_changes_nothing(stage):
    await stage.fill()
    before = stage.file.read_bytes()
    async with stage.open() as store:
        for number in range(6):
            await store.recall(f"k{number}")

    assert stage.file.read_bytes() == before


async def test_a_store_that_only_wrote_adds_to_it(stage):
    await stage.fill()
    async with stage.open() as store:
        await store.remember("new", "value")
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 7
        assert stage.signer.opened == 1


async def test_a_ledger_in_memory_has_none(stage):
    signer = Elsewhere()
    async with stage.open(by=signer, ledger=":memory:") as store:
        await store.remember("k", "v")
        await store.recall_all()
        asked = signer.asked

    assert signer.asked == asked
    assert list(stage.folder.iterdir()) == []


async def test_a_store_that_wants_none_writes_none_and_removes_it(stage):
    await stage.fill()
    assert stage.file.exists()
    async with stage.open(snapshot=False) as store:
        assert not stage.file.exists()
        assert len(await store.recall_all()) == 6

    assert not stage.file.exists()
    assert sealed_key(stage.ledger) is None


# ── What is stale ───────────────────────────────────────────────────────────────────────


async def test_what_changed_since_is_opened_from_the_ledger(stage, monkeypatch):
    await stage.fill()
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 200)
    stage.clock.advance(5)
    async with stage.open() as store:
        await store.remember("k3", "edited")
        await store.remember("k9", "new")
    async with stage.open() as store:
        found = {memory.key: memory.value for memory in await store.recall_all()}

    assert found == {**{f"k{number}": f"text {number}" for number in range(6)}, "k3": "edited", "k9": "new"}


class Pieces(CachedIndex):
    """An index that is longer than a message of the snapshot."""

    pieces = (b"one" * SNAPSHOT_MESSAGE_BYTES, b"two", b"")

    def __len__(self):
        return 1

    async def catch_up(self):
        pass

    def dumped(self):
        return self.pieces


@pytest.mark.parametrize(("made", "is_found"), [("this", True), ("something else", False)])
async def test_an_index_comes_back_whole_if_it_is_made_of_the_same(stage, made, is_found):
    await stage.fill(1)
    async with stage.open() as store:
        index = Pieces("pieces", "this", ledger_of(store), parts_of(store).reader)
        assert await index.saved() is None
        index.unsaved = 1
    async with stage.open() as store:
        found = await Pieces("pieces", made, ledger_of(store), parts_of(store).reader).saved()

    assert (found is not None) is is_found
    assert found is None or found == b"".join(Pieces.pieces)


async def test_what_another_process_writes_later_is_seen(stage):
    await stage.fill()
    async with stage.open() as one, stage.open() as two:
        await one.recall_all()
        await two.remember("k3", "edited")
        await two.forget("k4")

        found = {memory.key: memory.value for memory in await one.recall_all()}
        assert found["k3"] == "edited"
        assert "k4" not in found


async def test_what_another_process_changed_meanwhile_is_not_saved_as_it_was(stage):
    await stage.fill()
    async with stage.open() as one:
        await one.recall_all()
        await one.remember("k9", "new")  # enough for a new snapshot
        async with stage.open(snapshot=False) as two:
            stage.clock.advance(5)
            await two.remember("k3", "edited")
    assert b"text 3" not in await plaintext(stage)

    async with stage.open() as store:
        assert {memory.key: memory.value for memory in await store.recall_all()}["k3"] == "edited"


async def test_what_was_forgotten_and_remembered_again_is_listed(stage):
    await stage.fill()
    async with stage.open() as store:
        await store.forget("k3")
        stage.clock.advance(5)
        await store.remember("k3", "again")
        await store.forget("k4")
    for _ in range(2):  # without a snapshot, and with one
        async with stage.open() as store:
            found = {memory.key: memory.value for memory in await store.recall_all()}
            assert found.keys() == {"k0", "k1", "k2", "k3", "k5"}
            assert found["k3"] == "again"


async def test_an_older_ledger_never_believes_a_newer_snapshot(stage):
    """A backup of the ledger is put back, and what is written then gets the places of what was written before."""
    await stage.fill()
    shutil.copy(stage.ledger, f"{stage.ledger}.backup")
    stage.clock.advance(5)
    async with stage.open() as store:
        await store.remember_many([("k0", "lost"), ("k1", "lost")])
    newer = stage.file.read_bytes()
    shutil.copy(f"{stage.ledger}.backup", stage.ledger)
    stage.file.unlink()
    async with stage.open() as store:
        await store.remember_many([("k0", "kept"), ("k1", "kept")])
    stage.file.write_bytes(newer)

    async with stage.open() as store:
        found = {memory.key: memory.value for memory in await store.recall_all()}
    assert (found["k0"], found["k1"]) == ("kept", "kept")


async def test_an_older_snapshot_is_not_read(stage):
    await stage.fill()
    older = stage.file.read_bytes()
    async with stage.open() as store:
        await store.remember("new", "value")
    stage.file.write_bytes(older)
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 7
        assert stage.signer.opened == 8  # the key, for nothing, and each memory


# ── What is wrong ───────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def original():
    """A closed ledger with its snapshot, and what it says; made once, because the many below only read it.

    Whoever cannot read the snapshot opens the key to it, four memories and a journal entry.
    """
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), lambda: float(NOW))

        async def make():
            async with stage.open() as store:
                await store.remember_many((f"k{number}", f"MARKER {number}") for number in range(4))
                await store.journal("MARKER of the day")
                return await answers(store)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
            said = asyncio.run(make())
        assert stage.file.stat().st_size > 500
        yield stage, said


def said_with(original, damage):
    """What the store says with a damaged copy of its snapshot, and how much it had to open for it."""
    whole, _ = original
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), whole.clock)
        shutil.copy(whole.ledger, stage.ledger)
        stage.file.write_bytes(damage(whole.file.read_bytes()))

        async def read():
            async with stage.open() as store:
                return await answers(store)

        return asyncio.run(read()), stage.signer.opened


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_a_flipped_bit_anywhere_changes_no_answer(original, data):
    def flip(snapshot):
        place = data.draw(st.integers(0, len(snapshot) * 8 - 1))
        changed = bytearray(snapshot)
        changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    assert said_with(original, flip) == (original[1], 6)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_a_cut_anywhere_changes_no_answer(original, data):
    def cut(snapshot):
        return snapshot[: data.draw(st.integers(0, len(snapshot) - 1))]

    assert said_with(original, cut) == (original[1], 6)


async def test_no_damage_is_read_as_a_snapshot(original):
    """Not only the answers: whatever byte is altered or missing, not a single record comes out."""
    stage, _ = original
    cipher, bound = await key_of(stage)
    body = stage.file.read_bytes()

    assert b"MARKER 3" in messages(body, cipher, bound)[0]
    for place in range(len(body)):
        changed = bytearray(body)
        changed[place] ^= 0x40
        for damaged in (bytes(changed), body[:place]):
            with suppress(InvalidTag, ValueError, OverflowError, OSError):
                assert messages(damaged, cipher, bound) == [b""]


async def test_a_snapshot_is_bound_to_its_layout_its_schema_and_its_owner(original):
    stage, _ = original
    cipher, bound = await key_of(stage)
    body = stage.file.read_bytes()
    layout_line, rest = bound.split(b"\n")
    schema, owner = rest.split()

    assert (layout_line, int(schema), owner.decode()) == (
        b"sense-memory snapshot 4",
        envelope.SCHEMA_VERSION,
        stage.signer.public_key,
    )
    for place in range(len(bound)):
        changed = bytearray(bound)
        changed[place] ^= 1
        with pytest.raises(InvalidTag):
            messages(body, cipher, bytes(changed))


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: os.urandom(len(whole)),
        lambda whole: whole.replace(b"snapshot 4", b"snapshot 3"),
        lambda whole: whole[:24] + b"\xff\xff\xff\xff" + whole[28:],
        lambda whole: b"SQLite format 3\x00" + whole,
    ],
    ids=["empty", "noise", "another layout", "a huge message", "another program's"],
)
def test_what_is_no_snapshot_changes_no_answer(original, damage):
    assert said_with(original, damage) == (original[1], 6)


@pytest.mark.parametrize("whose", ["another ledger", "another key"])
async def test_a_foreign_snapshot_is_ignored(stage, whose):
    await stage.fill()
    other = stage.folder / "b.db"
    stranger = Counting(Secret.generate()) if whose == "another key" else stage.signer
    async with stage.open(by=stranger, ledger=other) as store:
        await store.remember_many((f"k{number}", "foreign") for number in range(6))
    shutil.copy(f"{other}.snapshot", stage.file)

    async with stage.open() as store:
        assert {memory.value for memory in await store.recall_all()} == {f"text {n}" for n in range(6)}


async def test_a_foreign_key_in_the_ledger_opens_nothing(stage):
    """Ledger and snapshot of another key put together: the key to it is not sealed to us."""
    await stage.fill()
    other = stage.folder / "b.db"
    async with stage.open(by=Counting(Secret.generate()), ledger=other) as store:
        await store.remember_many((f"k{number}", "foreign") for number in range(6))
    shutil.copy(f"{other}.snapshot", f"{stage.ledger}.snapshot")
    with closing(sqlite3.connect(stage.ledger)) as sql:
        sql.execute("UPDATE meta SET value = ? WHERE name = 'snapshot_key'", (sealed_key(other),))
        sql.commit()

    async with stage.open() as store:
        assert {memory.value for memory in await store.recall_all()} == {f"text {n}" for n in range(6)}


async def test_another_text_that_was_sealed_to_us_is_no_key(stage):
    """A note to oneself of another program, put where the key should be; it even holds the key."""
    await stage.fill()
    me = stage.signer.public_key
    fields = orjson.loads(await stage.signer.decrypt(sealed_key(stage.ledger), me))
    note = await stage.signer.encrypt(orjson.dumps({**fields, "type": "note"}), me)
    with closing(sqlite3.connect(stage.ledger)) as sql:
        sql.execute("UPDATE meta SET value = ? WHERE name = 'snapshot_key'", (note,))
        sql.commit()

    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 6
        assert stage.signer.opened == 7


async def test_a_newer_schema_does_not_read_an_older_one(stage, monkeypatch):
    """What could not be understood when it was written might be understood now."""
    await stage.fill()
    monkeypatch.setattr("sense_memory.records.snapshot.SCHEMA_VERSION", envelope.SCHEMA_VERSION + 1)
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 6
        assert stage.signer.opened == 7


async def test_what_was_damaged_is_made_anew(stage):
    await stage.fill()
    stage.file.write_bytes(stage.file.read_bytes()[:-1])
    async with stage.open() as store:
        await answers(store)
    async with stage.open() as store:
        stage.signer.opened = 0
        await answers(store)
        assert stage.signer.opened == 1


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
async def test_what_is_no_plain_file_is_not_read(stage, kind):
    await stage.fill()
    elsewhere = stage.file.rename(stage.folder / "elsewhere")
    before = elsewhere.read_bytes()
    {
        "link": lambda: stage.file.symlink_to(elsewhere),
        "folder": stage.file.mkdir,
        "pipe": lambda: os.mkfifo(stage.file),
    }[kind]()

    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 6
        assert stage.signer.opened == 7  # the key, for nothing, and each memory
    assert elsewhere.read_bytes() == before


async def test_records_of_any_length_fit(stage, monkeypatch):
    """Messages are cut by length, and one record that is longer than any message stays out."""
    monkeypatch.setattr("sense_memory.records.snapshot.SNAPSHOT_MESSAGE_BYTES", 1_000)
    texts = {f"k{number}": "x" * (number * 40) for number in range(1, 31)}
    async with stage.open() as store:
        await store.remember_many(texts.items())
    async with stage.open() as store:
        stage.signer.opened = 0
        found = {memory.key: memory.value for memory in await store.recall_all()}

        assert found == texts
        assert 1 < stage.signer.opened < 15


async def test_a_damaged_block_costs_its_own_records_and_no_others(stage, monkeypatch):
    monkeypatch.setattr("sense_memory.records.snapshot.BLOCK_ROWS", 10)
    await stage.fill(40)
    whole = bytearray(stage.file.read_bytes())
    whole[len(blocks.MAGIC) + 9] ^= 1  # of the first block, where the journal lies and seven memories
    stage.file.write_bytes(whole)
    async with stage.open() as store:
        stage.signer.opened = 0
        memories, entries = await answers(store)

        assert (len(memories), len(entries)) == (40, 3)
        assert stage.signer.opened == 1 + 10


async def test_a_list_reads_the_blocks_of_what_it_lists_and_no_others(stage, monkeypatch):
    monkeypatch.setattr("sense_memory.records.snapshot.BLOCK_ROWS", 10)
    async with stage.open() as store:
        await store.remember_many((f"k{number}", "flat") for number in range(20))
        for number in range(40):
            await store.persona_remember("self", "facts", f"p{number}", "deep")
    read = []
    message = blocks.SnapshotFileReader._message
    monkeypatch.setattr(
        blocks.SnapshotFileReader, "_message", lambda self, place: read.append(place) or message(self, place)
    )
    async with stage.open() as store:
        assert len(await store.recall_all()) == 20
        assert len(read) == 2


# ── At rest ─────────────────────────────────────────────────────────────────────────────


async def test_no_plaintext_at_rest(thrifty, caplog):
    """L-01."""
    caplog.set_level("DEBUG")
    await thrifty.fill(300, text="MARKER")
    async with thrifty.open() as store:
        await answers(store)
        shown = repr(
            [
                vars(store),
                vars(parts_of(store)),
                vars(parts_of(store).reader),
                vars(parts_of(store).reader._snapshot),
            ]
        )

    assert thrifty.file.exists()
    for path in thrifty.folder.iterdir():
        body = path.read_bytes()
        assert b"MARKER" not in body, path
        assert b"of day" not in body, path
    assert "MARKER" not in shown + caplog.text


async def test_the_key_to_it_is_sealed(stage):
    await stage.fill()
    fields = orjson.loads(await stage.signer.decrypt(sealed_key(stage.ledger), stage.signer.public_key))

    for path in stage.folder.iterdir():
        body = path.read_bytes()
        assert fields["key"].encode() not in body
        assert bytes.fromhex(fields["key"]) not in body


async def test_each_file_has_a_key_of_its_own(stage):
    keys = set()
    await stage.fill()
    for number in range(3):
        keys.add(sealed_key(stage.ledger))
        async with stage.open() as store:
            await store.remember("k", f"{number}")

    assert len(keys | {sealed_key(stage.ledger)}) == 4


async def test_only_its_owner_can_read_it(stage):
    before = os.umask(0)
    try:
        await stage.fill()
    finally:
        os.umask(before)

    assert stat.S_IMODE(stage.file.stat().st_mode) == 0o600


async def test_what_lies_where_it_is_written_is_not_written_to(stage):
    victim = stage.folder / "victim"
    victim.write_text("precious")
    stage.part.symlink_to(victim)
    await stage.fill()

    assert victim.read_text() == "precious"
    assert stage.file.is_file()
    assert not stage.file.is_symlink()


# ── Forgetting ──────────────────────────────────────────────────────────────────────────


async def forget_here(store, clock):
    await store.forget("k1")


async def forget_entry_here(store, clock):
    await store.journal.forget((await store.recent())[0].event_id)


async def tombstone_from_a_relay(store, clock):
    writer = parts_of(store).writer
    record = envelope.tombstone("k1")
    sealed = await envelope.seal(writer._signer, record)
    event = await writer._signer.sign(sealed.at(int(clock())))
    assert await parts_of(store).reader.file_served([event], RELAY) == {"new": 1}


async def deletion_from_a_relay(store, clock):
    tags = (("a", f"30078:{store.public_key}:sense-memory/k1"),)
    event = await signer_of(store).sign(Unsigned(int(clock()), KIND_DELETION, tags, ""))
    assert await parts_of(store).reader.file_served([event], RELAY) == {"new": 1}


async def deletion_of_an_old_version(store, clock):
    """The version in the snapshot was replaced since, and is deleted from history now."""
    old = (await store.recall("k1")).event_id
    await store.remember("k1", "newer")
    event = await signer_of(store).sign(Unsigned(int(clock()), KIND_DELETION, (("e", old),), ""))
    await parts_of(store).reader.file_served([event], RELAY)
    assert (await store.recall("k1")).value == "newer"


async def deletion_whose_time_has_come(store, clock):
    tags = (("a", f"30078:{store.public_key}:sense-memory/k1"),)
    event = await signer_of(store).sign(Unsigned(int(clock()) + 900, KIND_DELETION, tags, ""))
    assert await parts_of(store).reader.file_served([event], RELAY) == {"quarantined": 1}
    clock.advance(800)
    ledger_of(store).file_quarantined(clock())


WAYS = [
    forget_here,
    forget_entry_here,
    tombstone_from_a_relay,
    deletion_from_a_relay,
    deletion_of_an_old_version,
    deletion_whose_time_has_come,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_forgetting_removes_it_at_once_with_the_key(stage, way):
    """D-08: neither ciphertext nor key are left in any file when the call returns."""
    await stage.fill()
    before, sealed = stage.file.read_bytes(), sealed_key(stage.ledger)
    stage.clock.advance(60)
    async with stage.open() as store:
        await store.recall_all()
        await way(store, stage.clock)

        assert not stage.file.exists()
        left = b"".join(path.read_bytes() for path in stage.folder.iterdir())
        assert sealed.encode() not in left
        assert not any(before[place : place + 32] in left for place in range(24, len(before) - 32, 32))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_the_next_one_holds_nothing_of_what_was_forgotten(stage, way):
    """Even with the key to it; and it is of use again."""
    await stage.fill(text="ALPHA")
    stage.clock.advance(60)
    async with stage.open() as store:
        await store.recall_all()
        await way(store, stage.clock)
        await store.remember("new", "value")

    inside = await plaintext(stage)
    assert b"ALPHA 2" in inside
    forgotten = b"ALPHA of day 2" if way is forget_entry_here else b"ALPHA 1"
    assert forgotten not in inside


async def test_forgetting_what_never_was_leaves_it(stage):
    await stage.fill()
    before = stage.file.read_bytes()
    async with stage.open() as store:
        await store.forget("unknown")

    assert stage.file.read_bytes() == before


async def begun(stage):
    """Until somebody writes a snapshot."""
    for _ in range(1_000):
        if stage.part.exists():
            return
        await asyncio.sleep(0)
    pytest.fail("no snapshot is written")


async def test_forgetting_elsewhere_while_it_is_written_is_noticed(stage):
    """One store is about to put its file in place when another process forgets."""
    one = await stage.open().__aenter__()
    await one.remember_many((f"k{number}", "SECRET") for number in range(1_100))  # three messages
    async with stage.open() as two:
        closing_one = asyncio.create_task(one.close())
        await begun(stage)
        await two.forget("k1")
        assert not stage.part.exists()
        await closing_one

    assert not stage.file.exists()
    assert not stage.part.exists()
    assert sealed_key(stage.ledger) is None
    assert sealed_key(stage.ledger, "snapshot_next") is None


async def test_a_new_one_is_not_put_in_place_after_somebody_forgot(stage):
    """Even where whoever forgot was killed before it could remove the file that was being written."""
    one = await stage.open().__aenter__()
    await one.remember_many((f"k{number}", "SECRET") for number in range(1_100))
    async with stage.open() as two:
        ledger_of(two).snapshot.sweep = lambda: None
        closing_one = asyncio.create_task(one.close())
        await begun(stage)
        await two.forget("k1")
        assert stage.part.exists()
        await closing_one

    assert not stage.file.exists()
    assert not stage.part.exists()


async def test_a_file_whose_key_is_gone_is_removed_at_the_next_start(stage):
    """As if the process had been killed between forgetting and removing."""
    await stage.fill()
    whole = stage.file.read_bytes()
    async with stage.open() as store:
        await store.forget("k1")
    stage.file.write_bytes(whole)
    stage.part.write_bytes(whole)
    with closing(sqlite3.connect(stage.ledger)) as sql:
        sql.execute("DELETE FROM meta WHERE name LIKE 'snapshot%'")
        sql.commit()

    async with stage.open():
        assert not stage.file.exists()
        assert not stage.part.exists()


# ── Accidents ───────────────────────────────────────────────────────────────────────────

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from sense_memory import LocalSigner, MemoryStore
import sense_memory.records.reader
from sense_memory.ledger.caches import SnapshotFile

where, ledger, key = sys.argv[1:]
sense_memory.records.reader.SNAPSHOT_NEW_COUNT = 1
sense_memory.records.reader.SNAPSHOT_NEW_SHARE = 0
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
replace = Path.replace
if where == "before the end":
    SnapshotFile.finish = die
elif where == "before the rename":
    Path.replace = die
else:
    Path.replace = lambda self, target: (replace(self, target), die())

async def main():
    async with MemoryStore(LocalSigner.from_hex(key), ledger=ledger, clock=lambda: 1_800_000_100.0) as store:
        await store.remember("new", "value")

asyncio.run(main())
"""


@pytest.mark.parametrize("where", ["before the end", "before the rename", "after the rename"])
async def test_a_crash_while_it_is_written_leaves_the_one_before_or_none(stage, forks, where):
    await stage.fill()
    before = stage.file.read_bytes()
    process = await asyncio.create_subprocess_exec(forks.python, "-c", CHILD, where, str(stage.ledger), KEY)
    assert await process.wait() == -signal.SIGKILL

    if where != "after the rename":
        assert stage.file.read_bytes() == before
        assert stage.part.exists()
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 7
        assert stage.signer.opened == (8 if where == "after the rename" else 2)
    assert stage.file.read_bytes() != before
    assert not stage.part.exists()


async def test_opening_removes_what_a_crash_left(stage, forks):
    await stage.fill()
    process = await asyncio.create_subprocess_exec(
        forks.python, "-c", CHILD, "before the end", str(stage.ledger), KEY
    )
    await process.wait()
    assert stage.part.exists()
    async with stage.open() as store:
        assert not stage.part.exists()
        await store.forget("k1")
        assert not stage.file.exists()


async def test_a_full_disk_hurts_neither_closing_nor_the_one_before(stage, monkeypatch):
    await stage.fill()
    before = stage.file.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sense_memory.ledger.caches.os.fsync", full)
        async with stage.open() as store:
            await store.remember("new", "value")

    assert stage.file.read_bytes() == before
    assert not stage.part.exists()
    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 7
        assert stage.signer.opened == 2


async def test_a_folder_that_can_not_be_written_hurts_nothing(stage):
    await stage.fill()
    stage.file.unlink()
    stage.file.mkdir()
    (stage.file / "full").touch()
    async with stage.open() as store:
        assert len(await store.recall_all()) == 6
        await store.forget("k1")
        assert len(await store.recall_all()) == 5


async def test_a_signer_that_is_gone_does_not_keep_a_store_from_closing(stage):
    signer = Elsewhere()
    async with stage.open(by=signer) as store:
        await store.remember("k", "v")
        signer.seals = False

    assert not stage.file.exists()


async def test_a_signer_that_never_answers_does_not_keep_a_store_from_closing(stage, monkeypatch):
    monkeypatch.setattr("sense_memory.records.snapshot.SNAPSHOT_SEAL_SECONDS", 0.01)
    signer = Elsewhere()
    async with stage.open(by=signer) as store:
        await store.remember("k", "v")
        signer.encrypt = lambda plaintext, reader: asyncio.Event().wait()

    assert not stage.file.exists()


async def test_it_is_left_to_the_process_that_publishes(stage):
    """Whoever holds the publisher's lock may be writing one; nobody waits for that."""
    async with stage.open() as one:
        async with ledger_of(one).publishing() as held, stage.open() as two:
            assert held
            await two.remember("k", "v")
            await two.close()
            assert not stage.file.exists()
        await one.remember("l", "v")

    assert stage.file.exists()


async def test_two_stores_may_close_at_once(stage):
    await stage.fill()
    one, two = await stage.open().__aenter__(), await stage.open().__aenter__()
    await one.remember("one", "v")
    await two.remember("two", "v")
    await asyncio.gather(one.close(), two.close())

    async with stage.open() as store:
        stage.signer.opened = 0
        assert len(await store.recall_all()) == 8
        assert stage.signer.opened <= 2


async def test_a_store_that_is_cancelled_while_closing_leaves_no_half_file(stage):
    store = await stage.open().__aenter__()
    await store.remember_many((f"k{number}", "v") for number in range(1_100))
    task = asyncio.create_task(store.close())
    await begun(stage)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not stage.file.exists()
    assert not stage.part.exists()
    async with stage.open() as store:
        assert len(await store.recall_all()) == 1_100


# ── Any order of events ─────────────────────────────────────────────────────────────────

KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("forget"), KEYS),
        st.tuples(st.just("journal"), st.integers(0, 9)),
        st.tuples(st.just("unjournal")),
        st.tuples(st.just("undo"), KEYS),
        st.tuples(st.just("read")),
        st.tuples(st.just("other"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("other forgets"), KEYS),
        st.tuples(st.just("sync")),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(STEPS)
def test_a_store_with_a_snapshot_answers_as_one_without(steps):
    """Two devices with one key; the first closes and opens as it likes, now with a snapshot and now without."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
        patch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)
        asyncio.run(asyncio.wait_for(play(Path(folder), steps), 30 * SECOND))


async def play(folder, steps):
    now = [float(NOW)]
    stage = Stage(folder, lambda: now[0])
    other = await stage.open(ledger=":memory:").__aenter__()
    store = await stage.open().__aenter__()
    for step, *values in [*steps, ("read",), ("reopen", True)]:
        now[0] += 1
        match step:
            case "remember":
                await store.remember(values[0], f"value {values[1]}")
            case "forget":
                await store.forget(values[0])
            case "journal":
                await store.journal(f"entry {values[0]}")
            case "unjournal":
                for entry in (await store.recent())[:1]:
                    await store.journal.forget(entry.event_id)
            case "undo":
                await store.undo(values[0])
            case "read":
                await answers(store)
            case "other":
                await other.remember(values[0], f"other {values[1]}")
            case "other forgets":
                await other.forget(values[0])
            case "sync":
                mine, theirs = events_of(store), events_of(other)
                await parts_of(store).reader.file_served(theirs, RELAY)
                await parts_of(other).reader.file_served(mine, RELAY)
            case "reopen":
                await store.close()
                assert await says(stage, "with") == await says(stage, "without")
                store = await stage.open(snapshot=values[0]).__aenter__()
    await store.close()
    await other.close()


def events_of(store):
    return [Event.restored(body) for body in ledger_of(store).bodies()]


async def says(stage, name):
    """What a copy of the ledger says, with a copy of the snapshot or without."""
    copy = Stage(stage.folder / name, stage.clock)
    copy.folder.mkdir(mode=0o700)
    shutil.copy(stage.ledger, copy.ledger)
    if stage.file.exists():
        shutil.copy(stage.file, copy.file)
    async with copy.open(snapshot=name == "with") as store:
        said = await answers(store), [await store.history(key) for key in "abcd"]
        assert {memory.key for memory in said[0][0]} == {key for key in "abcd" if await store.recall(key)}
    shutil.rmtree(copy.folder)
    return said
