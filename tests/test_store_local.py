"""The v1 API through `MemoryStore` without relays: what an agent does all day, and what must never go wrong with it."""

from __future__ import annotations

import asyncio
import inspect
import json
import sqlite3
import threading
import unicodedata
from dataclasses import replace

import pytest
from pynostr.key import PrivateKey

from sense_memory import (
    InvalidInput,
    JournalEntry,
    LocalSigner,
    Memory,
    MemoryStore,
    SenseMemoryError,
    Signer,
    StoreClosed,
    SyncMemoryStore,
)
from sense_memory.errors import (
    BadKey,
    ClockSkewError,
    InvalidAddress,
    StorageFullError,
    TooLargeError,
    WrongKeyError,
)
from sense_memory.ledger.manifests import NOTHING_CHECKED
from sense_memory.mind.rule_model import RuleModel
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from tests.inside import database_of, ledger_of, parts_of
from tests.time_unit import SECOND


@pytest.fixture
def signer():
    return LocalSigner.generate()


@pytest.fixture
def open_store(signer, clock, tmp_path):
    """A store on the test's ledger file and clock, not opened yet."""

    def make(by=None, **options):
        return MemoryStore(by or signer, **{"ledger": tmp_path / "a.db", "clock": clock, **options})

    return make


@pytest.fixture
def written_elsewhere(signer):
    """A flat memory as another program with this key writes it: keys are taken as they come."""

    async def write(store, key, value, at):
        plaintext = json.dumps({"type": "sense-memory:kv", "key": key, "value": value, "ts": at}).encode()
        content = await signer.encrypt(plaintext, signer.public_key)
        event = await signer.sign(Unsigned(at, KIND_APP_DATA, (("d", f"sense-memory/{key}"),), content))
        assert await parts_of(store).reader.file_served([event], "wss://relay.example/") == {"new": 1}

    return write


# ── Remember and recall ─────────────────────────────────────────────────────────────────


async def test_what_is_remembered_is_recalled(open_store, clock):
    async with open_store() as store:
        ident = await store.remember("user_timezone", "America/Vancouver")

        assert await store.recall("user_timezone") == Memory(
            key="user_timezone", value="America/Vancouver", created_at=clock(), event_id=ident
        )


async def test_memories_survive_closing_and_reopening(open_store):
    async with open_store() as store:
        ident = await store.remember("key", "value")
        await store.journal("dear diary")

    async with open_store() as store:
        assert (await store.recall("key")).event_id == ident
        assert [entry.content for entry in await store.recent()] == ["dear diary"]


async def test_writing_a_key_again_replaces_it(open_store, clock):
    async with open_store() as store:
        await store.remember("key", "one")
        clock.advance(60)
        second = await store.remember("key", "two")

        found = await store.recall("key")
        assert (found.value, found.event_id, found.created_at) == ("two", second, clock())
        assert len(await store.recall_all()) == 1


async def test_an_unknown_key_is_none(open_store):
    async with open_store() as store:
        assert await store.recall("nothing") is None
        assert await store.recall_all() == []
        assert await store.recent() == []


async def test_any_text_that_is_not_blank_is_fine(open_store):
    texts = [" x ", "\x00", "ünïcödé", "🧠" * 100, "a\nb\r\n", "</script>", "\u202e\u200b", '{"type": "x"}']
    async with open_store() as store:
        for number, text in enumerate(texts):
            await store.remember(str(number), text)

        assert [(await store.recall(str(number))).value for number in range(len(texts))] == texts


async def test_all_memories_come_in_the_order_of_their_addresses(open_store):
    async with open_store() as store:
        for key in ("b", "a", "c", "B", "ä", "k" * 256):
            await store.remember(key, key)

        found = [memory.key for memory in await store.recall_all()]
        assert sorted(["b", "a", "c", "B", "ä"]) == [key for key in found if len(key) < 200]
        assert len(found) == 6


async def test_journal_and_memories_do_not_mix(open_store):
    async with open_store() as store:
        await store.remember("key", "value")
        await store.journal("entry")

        assert [memory.key for memory in await store.recall_all()] == ["key"]
        assert [entry.content for entry in await store.recent()] == ["entry"]


async def test_two_stores_on_one_ledger_see_each_others_writes(open_store):
    async with open_store() as one, open_store() as two:
        await one.remember("key", "one")
        assert (await two.recall("key")).value == "one"
        await two.remember("key", "two")
        assert (await one.recall("key")).value == "two"
        await one.forget("key")
        assert await two.recall("key") is None


async def test_a_store_may_be_opened_again_after_closing(open_store):
    store = open_store()
    for value in ("one", "two"):
        async with store:
            await store.remember("key", value)
    async with store:
        assert (await store.recall("key")).value == "two"


# ── Time ────────────────────────────────────────────────────────────────────────────────


def seconds_of(store, key):
    """The stamps of a key's versions in the order they were written."""
    stored = sorted(ledger_of(store).versions(f"sense-memory/{key}"), key=lambda version: version.seq)
    return [version.event().created_at for version in stored]


async def test_two_writes_in_one_second(open_store, clock):
    """T-01."""
    async with open_store() as store:
        for number in range(5):
            await store.remember("key", str(number))

        assert seconds_of(store, "key") == [int(clock())] * 5
        assert [version.value for version in await store.history("key")] == ["4", "3", "2", "1", "0"]
        assert (await store.recall("key")).value == "4"
        assert (await store.recall("key")).created_at == clock()  # the time inside does not drift


async def test_thirty_edits_a_forgetting_and_a_new_beginning_in_one_second(open_store):
    async with open_store() as store:
        for number in range(30):
            await store.remember("key", str(number))
        await store.forget("key")
        assert await store.recall("key") is None
        await store.remember("key", "again")

        assert (await store.recall("key")).value == "again"
        first, second = seconds_of(store, "key")
        assert second > first
    async with open_store() as store:
        assert (await store.recall("key")).value == "again"
        await store.forget("key")
        assert await store.recall("key") is None


async def test_forgetting_twice_and_forgetting_the_unknown_are_fine(open_store):
    async with open_store() as store:
        await store.remember("key", "value")
        ids = [await store.forget("key"), await store.forget("key"), await store.forget("never seen")]

        assert len(set(ids)) == 3
        assert await store.recall("key") is None
        assert store.status().counts["deletions"] == 3


# ── Forgetting ──────────────────────────────────────────────────────────────────────────


async def test_forget_returns_the_deletions_id_and_keeps_tombstone_and_deletion(open_store, signer):
    async with open_store() as store:
        memory = await store.remember("key", "value")
        ident = await store.forget("key")

        request = ledger_of(store).by_id(ident).event()
        assert request.kind == 5
        assert request.tag_values("a") == [f"30078:{signer.public_key}:sense-memory/key"]
        assert memory in request.tag_values("e")
        assert store.status().counts == {
            "heads": 0,
            "entries": 0,
            "logs": 0,
            "embeddings": 0,
            "files": 0,
            "mind": 0,
            "manifests": 0,
            "address_keys": 0,
            "events": 2,
            "older": 0,
            "tombstones": 1,
            "deletions": 1,
            "quarantined": 0,
            "drafts": 0,
        }


async def test_local_purge_is_real(open_store, tmp_path):
    """D-08: the ciphertext is in no file of the folder, and the text not in this store's memory."""
    async with open_store() as store:
        ciphertexts = []
        for number in range(3):
            ident = await store.remember("key", f"MARKER {number}" * 40)
            ciphertexts.append(ledger_of(store).by_id(ident).event().content.encode())
        await store.remember("other", "stays")
        await store.forget("key")

        files = [file.read_bytes() for file in tmp_path.iterdir()]
        assert not any(ciphertext in file for ciphertext in ciphertexts for file in files)
        assert not any(ciphertext[:64] in file for ciphertext in ciphertexts for file in files)
        held = [opened.record.fields for opened in parts_of(store).reader._open.values()]
        assert "MARKER" not in repr(held)


async def test_a_ledger_with_a_relative_path_stays_where_it_is_when_the_program_changes_its_folder(
    signer, tmp_path, monkeypatch
):
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    async with MemoryStore(signer, ledger="l.db") as store:
        monkeypatch.chdir(tmp_path / "there")
        await store.remember("key", "value")
        await store.forget("key")
        await store.remember("key", "again")
    assert list((tmp_path / "there").iterdir()) == []
    async with MemoryStore(signer, ledger=tmp_path / "l.db") as store:
        assert (await store.recall("key")).value == "again"


# ── Many ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", "1"), ("b", "2")],
        (("a", "1"), ("b", "2")),
        {"a": "1", "b": "2"}.items(),
        (pair for pair in [("a", "1"), ("b", "2")]),
        [["a", "1"], ["b", "2"]],
    ],
    ids=["list", "tuple", "items", "generator", "lists"],
)
async def test_many_take_any_iterable_of_pairs(open_store, pairs):
    async with open_store() as store:
        ids = await store.remember_many(pairs)

        assert [(await store.recall(key)).event_id for key in "ab"] == ids


async def test_a_key_twice_in_one_batch_ends_with_the_later_value(open_store):
    async with open_store() as store:
        ids = await store.remember_many([("a", "1"), ("b", "x"), ("a", "2"), ("a", "3")])

        found = await store.recall("a")
        assert (found.value, found.event_id) == ("3", ids[3])
        assert ids == [ids[3], ids[1], ids[3], ids[3]]
        assert [version.value for version in await store.history("a")] == ["3"]


async def test_progress_counts_what_is_durable(open_store):
    async with open_store() as store:
        seen = []

        def progress(written):
            seen.append((written, store.status().counts["heads"]))

        ids = await store.remember_many(
            ((f"key {number}", "v") for number in range(2_500)), progress=progress
        )

        assert seen == [(1_000, 1_000), (2_000, 2_000), (2_500, 2_500)]
        assert len(ids) == 2_500


@pytest.mark.parametrize(
    ("bad", "error", "told"),
    [
        (
            ("bad/key", "v"),
            InvalidAddress,
            r"^entry 1501 \('bad/key'\): a memory key must not .*nothing was written$",
        ),
        (("key", 7), InvalidInput, r"^entry 1501 \('key'\): .*must be text.*nothing was written$"),
        (
            ("key", "x" * 50_000),
            TooLargeError,
            r"^entry 1501 \('key'\): the memory needs .*nothing was written",
        ),
        (("key", "\ud800"), InvalidInput, r"^entry 1501 \('key'\): .*nothing was written$"),
        (("k\x1b" * 200, "v"), InvalidAddress, r"^entry 1501 \('k\\x1b.{60,80}\): .*nothing was written$"),
        (
            "ab",
            InvalidInput,
            "^entry 1501: it must be a pair of key and value, or key, value and a time; nothing was written$",
        ),
        ({"a", "b"}, InvalidInput, "pair"),
        (("a",), InvalidInput, "pair"),
        (("a", "b", "c"), InvalidInput, "created_at must"),
        (("a", "b", 0, 0), InvalidInput, "pair"),
        (None, InvalidInput, "pair"),
    ],
)
async def test_an_entry_that_can_not_be_written_is_named_and_keeps_all_of_them_out(
    open_store, bad, error, told
):
    async with open_store() as store:
        with pytest.raises(error, match=told):
            await store.remember_many([*((f"key {number}", "v") for number in range(1_500)), bad])

        assert store.status().counts["events"] == 0


async def test_a_mapping_is_taken_as_it_is(open_store):
    async with open_store() as store:
        ids = await store.remember_many({"ab": "v", "cd": "w"})

        assert [(await store.recall(key)).event_id for key in ("ab", "cd")] == ids


async def test_an_entry_that_the_clock_forbids_is_named_before_anything_is_written(open_store, clock):
    async with open_store() as store:
        await store.remember("late", "v")
        clock.advance(-86_400)
        pairs = [*((f"key {number}", "v") for number in range(1_500)), ("late", "w")]
        with pytest.raises(ClockSkewError, match=r"^entry 1501 \('late'\): .*kept as drafts 1 to 1501"):
            await store.remember_many(pairs)

        assert store.status().counts["events"] == 1
        assert len(await store.drafts()) == 1_501


async def test_an_iterable_that_fails_is_not_swallowed(open_store):
    def pairs():
        yield "a", "1"
        raise ZeroDivisionError

    async with open_store() as store:
        with pytest.raises(ZeroDivisionError):
            await store.remember_many(pairs())

        assert await store.recall_all() == []


async def test_none_at_all_is_none(open_store):
    async with open_store() as store:
        assert await store.remember_many([]) == []


async def test_other_tasks_get_their_turn_between_batches(open_store):
    """A local signer never waits, so ten thousand writes would otherwise hold the loop for seconds."""
    async with open_store() as store:
        seen = set()

        async def other():
            while True:
                seen.add(store.status().counts["heads"])
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await store.remember_many((f"key {number}", "v") for number in range(3_000))
        task.cancel()

        assert {1_000, 2_000} <= seen


# ── Journal ─────────────────────────────────────────────────────────────────────────────


async def test_five_hundred_entries_of_one_second_come_back_newest_first(open_store, clock):
    """More than a second may hold: some are dated back, and the order of writing still rules."""
    async with open_store() as store:
        ids = [await store.journal(f"entry {number}") for number in range(500)]

        found = await store.recent(20)
        assert [entry.content for entry in found] == [f"entry {number}" for number in range(499, 479, -1)]
        assert [entry.event_id for entry in found] == ids[:-21:-1]
        times = [entry.created_at for entry in found]
        assert times == sorted(set(times), reverse=True)  # so that other devices see the same order
        assert all(0 <= time - clock() < 0.001 for time in times)
        assert len(await store.recent(1_000)) == 500


async def test_the_journal_is_ordered_by_when_it_was_written(open_store, clock):
    async with open_store() as store:
        for number in range(5):
            await store.journal(str(number))
            clock.advance(0.25)

        found = await store.recent()
        assert [entry.content for entry in found] == ["4", "3", "2", "1", "0"]
        assert found[0] == JournalEntry(content="4", created_at=clock() - 0.25, event_id=found[0].event_id)


async def test_the_same_text_twice_is_two_entries(open_store):
    async with open_store() as store:
        assert await store.journal("again") != await store.journal("again")
        assert len(await store.recent()) == 2


async def test_the_published_packages_journal_is_read_in_its_place(open_store, signer, clock):
    async with open_store() as store:
        await store.journal("first")
        clock.advance(10)
        ts = clock()
        inside = json.dumps({"type": "sense-memory:journal", "content": "by 0.3.1", "ts": ts}).encode()
        content = await signer.encrypt(inside, signer.public_key)
        tags = (("d", f"sense-journal/{ts}"),)
        await parts_of(store).reader.file_served(
            [await signer.sign(Unsigned(int(ts), KIND_APP_DATA, tags, content))], "wss://relay.example/"
        )
        clock.advance(10)
        await store.journal("last")

        assert [entry.content for entry in await store.recent()] == ["last", "by 0.3.1", "first"]
        assert [entry.content for entry in await store.recent(2)] == ["last", "by 0.3.1"]
        assert await store.recall_all() == []


# ── Names ───────────────────────────────────────────────────────────────────────────────

NFC, NFD = "café", "cafe\u0301"


async def test_a_key_is_one_key_however_its_accents_are_typed(open_store):
    assert unicodedata.normalize("NFC", NFD) == NFC != NFD
    async with open_store() as store:
        await store.remember(NFD, "one")
        await store.remember(NFC, "two")

        assert [(memory.key, memory.value) for memory in await store.recall_all()] == [(NFC, "two")]
        assert (await store.recall(NFD)).value == "two"
        await store.forget(NFD)
        assert await store.recall(NFC) is None


async def test_an_unnormalised_key_of_another_writer_is_found_as_it_is(open_store, written_elsewhere, clock):
    async with open_store() as store:
        await written_elsewhere(store, NFD, "theirs", int(clock()))

        found = await store.recall(NFD)
        assert (found.key, found.value) == (NFD, "theirs")
        assert await store.recall(NFC) is None


async def test_forgetting_reaches_every_spelling_of_a_key(open_store, written_elsewhere, clock):
    """Else the other spelling would come back as the memory that was just forgotten."""
    async with open_store() as store:
        await store.remember(NFC, "ours")
        await written_elsewhere(store, NFD, "theirs", int(clock()))
        await store.forget(NFD)

        assert await store.recall(NFD) is None
        assert await store.recall_all() == []


async def test_a_spelling_that_was_forgotten_before_does_not_shield_the_other(
    open_store, written_elsewhere, clock
):
    async with open_store() as store:
        await store.remember(NFC, "ours")
        await store.forget(NFC)
        await written_elsewhere(store, NFD, "theirs", int(clock()))
        await store.forget(NFD)

        assert await store.recall(NFD) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("a..b", "theirs"), ("~tilde", "theirs"), ("tab\there", "theirs"), ("x" * 300, "theirs"), ("  ", "\n")],
)
async def test_memories_of_other_writers_that_break_our_rules_are_readable_and_forgettable(
    open_store, written_elsewhere, clock, key, value
):
    async with open_store() as store:
        await written_elsewhere(store, key, value, int(clock()))

        assert (await store.recall(key)).value == value
        await store.forget(key)
        assert await store.recall(key) is None


async def test_a_hashed_address_is_no_key(open_store):
    async with open_store() as store:
        await store.remember("k" * 256, "long")
        (head,) = ledger_of(store).heads.live_under("sense-memory/")
        tag = head.event().d_tag

        assert await store.recall(tag.removeprefix("sense-memory/")) is None
        assert (await store.recall("k" * 256)).value == "long"


# ── Bad input ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda store: store.remember("", "v"), InvalidAddress),
        (lambda store: store.remember(" \u3000", "v"), InvalidAddress),
        (lambda store: store.remember("a/b", "v"), InvalidAddress),
        (lambda store: store.remember("a\\b", "v"), InvalidAddress),
        (lambda store: store.remember("a..b", "v"), InvalidAddress),
        (lambda store: store.remember("~a", "v"), InvalidAddress),
        (lambda store: store.remember("a\nb", "v"), InvalidAddress),
        (lambda store: store.remember("a\x00b", "v"), InvalidAddress),
        (lambda store: store.remember("a\x85b", "v"), InvalidAddress),
        (lambda store: store.remember("\ud800", "v"), InvalidAddress),
        (lambda store: store.remember("k" * 257, "v"), InvalidAddress),
        (lambda store: store.remember(None, "v"), InvalidAddress),
        (lambda store: store.remember(5, "v"), InvalidAddress),
        (lambda store: store.remember(b"key", "v"), InvalidAddress),
        (lambda store: store.remember("key", ""), InvalidInput),
        (lambda store: store.remember("key", " \t\n"), InvalidInput),
        (lambda store: store.remember_many([("good", "v"), ("blank", " ")]), InvalidInput),
        (lambda store: store.remember("key", None), InvalidInput),
        (lambda store: store.remember("key", 5), InvalidInput),
        (lambda store: store.remember("key", b"v"), InvalidInput),
        (lambda store: store.remember("key", ["v"]), InvalidInput),
        (lambda store: store.remember("key", "\udfff"), InvalidInput),
        (lambda store: store.remember("key", "x" * 50_000), TooLargeError),
        (lambda store: store.remember_many([("good", "v"), ("bad/key", "v")]), InvalidAddress),
        (lambda store: store.journal(""), InvalidInput),
        (lambda store: store.journal(" \n"), InvalidInput),
        (lambda store: store.journal(None), InvalidInput),
        (lambda store: store.journal(b"text"), InvalidInput),
        (lambda store: store.journal("\ud800"), InvalidInput),
        (lambda store: store.journal("x" * 50_000), TooLargeError),
        (lambda store: store.recall(""), InvalidAddress),
        (lambda store: store.recall(None), InvalidAddress),
        (lambda store: store.recall("a/b"), InvalidAddress),
        (lambda store: store.recall("\ud800"), InvalidAddress),
        (lambda store: store.forget(""), InvalidAddress),
        (lambda store: store.forget("a\\b"), InvalidAddress),
        (lambda store: store.forget("\udfff"), InvalidAddress),
        (lambda store: store.forget("never seen\n"), InvalidAddress),
        (lambda store: store.recent(0), InvalidInput),
        (lambda store: store.recent(-1), InvalidInput),
        (lambda store: store.recent(100_001), InvalidInput),
        (lambda store: store.recent("20"), InvalidInput),
        (lambda store: store.recent(2.5), InvalidInput),
        (lambda store: store.recent(True), InvalidInput),
        (lambda store: store.recent(None), InvalidInput),
    ],
)
async def test_bad_input_is_a_clear_error_and_writes_nothing(open_store, call, error):
    async with open_store() as store:
        with pytest.raises(error) as caught:
            await call(store)

        assert isinstance(caught.value, SenseMemoryError)
        assert len(str(caught.value)) > 20
        assert store.status().counts["events"] == 0


@pytest.mark.parametrize("ident", ["", "xyz", "Z" * 64, "ab" * 32, None, 5])
async def test_an_unknown_event_has_no_holders(open_store, ident):
    async with open_store() as store:
        assert store.relays.holders(ident) == {}


def test_what_is_no_key_is_refused_without_an_echo():
    for bad in (None, "nsec1marker", b"MARKER" * 6, 5, LocalSigner):
        with pytest.raises(BadKey) as caught:
            MemoryStore(bad)
        assert "marker" not in str(caught.value).lower()


# ── Open and closed ─────────────────────────────────────────────────────────────────────


async def test_every_method_of_a_closed_store_says_so(open_store):
    never, closed = open_store(), open_store()
    async with closed:
        pass
    for store in (never, closed):
        for call in (
            lambda store=store: store.remember("key", "v"),
            lambda store=store: store.remember_many([]),
            lambda store=store: store.recall("key"),
            lambda store=store: store.recall_all(),
            lambda store=store: store.forget("key"),
            lambda store=store: store.journal("entry"),
            lambda store=store: store.recent(),
            lambda store=store: store.sync(),
            lambda store=store: store.flush(),
        ):
            with pytest.raises(StoreClosed, match="not open"):
                await call()
        for call in (
            store.status,
            store.relays.were_ever_complete,
            store.has_mind,
            store.integrity,
            lambda store=store: store.relays.holders("ab" * 32),
        ):
            with pytest.raises(StoreClosed):
                call()
        await store.close()


def test_a_closed_store_of_a_program_without_a_loop_is_told_how_it_is_opened(signer, tmp_path):
    store = SyncMemoryStore(signer, ledger=tmp_path / "a.db")
    with pytest.raises(StoreClosed, match=r"`with SyncMemoryStore\(\.\.\.\) as store:`"):
        store.recall("key")


async def test_the_names_of_a_closed_store_are_still_there(open_store, signer):
    store = open_store()

    async with store:
        assert store.relays.were_ever_complete()  # without relays there is nothing to wait for
    assert (store.public_key, store.npub, store.relays) == (signer.public_key, signer.npub, ())


async def test_the_wrong_key_opens_nothing(open_store, tmp_path):
    """L-04 through the store, which stays closed."""
    async with open_store() as store:
        await store.remember("key", "value")
    before = (tmp_path / "a.db").read_bytes()
    other = open_store(by=LocalSigner.generate())

    with pytest.raises(WrongKeyError):
        async with other:
            raise AssertionError("opened with the wrong key")

    assert before == (tmp_path / "a.db").read_bytes()
    with pytest.raises(StoreClosed):
        other.status()


async def test_an_error_while_opening_leaves_nothing_open(open_store, monkeypatch):
    store = open_store()

    def broken():
        raise ZeroDivisionError

    store._options = replace(store._options, clock=broken)
    with pytest.raises(ZeroDivisionError):
        async with store:
            raise AssertionError("never entered")

    with pytest.raises(StoreClosed):
        store.status()


async def test_disk_full_is_an_error_and_the_store_goes_on(open_store):
    """P-14."""
    async with open_store() as store:
        await store.remember("before", "v")
        (pages,) = database_of(ledger_of(store)).row("PRAGMA page_count")
        database_of(ledger_of(store)).row(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StorageFullError):
            await store.remember_many((f"key {number}", "v" * 1_000) for number in range(50))
        assert [memory.key for memory in await store.recall_all()] == ["before"]
        database_of(ledger_of(store)).row("PRAGMA max_page_count=1000000")
        await store.remember("after", "v")

        assert [memory.key for memory in await store.recall_all()] == ["after", "before"]
        assert store.integrity() == []


async def test_without_relays_nothing_counts_as_replicated(open_store, tmp_path):
    async with open_store() as store:
        await store.remember("key", "value")
        status = store.status()

        assert (status.npub, status.ledger, status.relays) == (store.npub, str(tmp_path / "a.db"), ())
        assert not status.is_replicated
        assert (await store.sync()).relays == (await store.flush()).relays == ()


async def test_a_ledger_in_memory_leaves_no_file(open_store, tmp_path):
    async with open_store(ledger=":memory:") as store:
        await store.remember("key", "value")

        assert store.status().ledger == ":memory:"
        assert (await store.recall("key")).value == "value"
    assert list(tmp_path.iterdir()) == []


async def test_status_counts_what_is_held(open_store, clock):
    async with open_store() as store:
        await store.remember_many([("a", "1"), ("b", "1"), ("c", "1")])
        await store.remember("a", "2")
        await store.journal("entry")
        await store.forget("c")

        assert store.status().counts == {
            "heads": 3,  # two memories and an entry
            "entries": 1,
            "logs": 0,
            "embeddings": 0,
            "files": 0,
            "mind": 0,
            "manifests": 0,
            "address_keys": 0,
            "events": 6,  # these, the version before, tombstone and deletion
            "older": 1,
            "tombstones": 1,
            "deletions": 1,
            "quarantined": 0,
            "drafts": 0,
        }


# ── Concurrent tasks ────────────────────────────────────────────────────────────────────


async def test_two_hundred_tasks_write_two_hundred_keys(open_store):
    async with open_store() as store:
        ids = await asyncio.gather(*(store.remember(f"key {number}", str(number)) for number in range(200)))

        assert len(set(ids)) == 200
        assert {memory.key: memory.value for memory in await store.recall_all()} == {
            f"key {number}": str(number) for number in range(200)
        }


async def test_two_hundred_tasks_write_one_key(open_store):
    async with open_store() as store:
        ids = await asyncio.gather(*(store.remember("key", str(number)) for number in range(200)))

        assert len(set(ids)) == len(seconds_of(store, "key")) == 200
        assert len(set(seconds_of(store, "key"))) == 1
        assert (await store.recall("key")).value == "199"


async def test_tasks_that_remember_forget_and_recall_at_once_leave_a_sound_ledger(open_store):
    async with open_store() as store:
        await asyncio.gather(
            *(store.remember(f"key {number % 7}", str(number)) for number in range(60)),
            *(store.forget(f"key {number % 5}") for number in range(30)),
            *(store.recall(f"key {number % 7}") for number in range(30)),
            *(store.journal(str(number)) for number in range(30)),
        )

        assert {memory.key for memory in await store.recall_all()} == {"key 5", "key 6"}
        assert len(await store.recent(100)) == 30
        assert store.integrity() == []


# ── At rest, and in what is shown ───────────────────────────────────────────────────────


async def test_no_plaintext_at_rest(open_store, tmp_path):
    """L-01: neither texts nor, of course, the key; while open, with the write-ahead log full, and after closing."""
    marker = "MARKERplain"
    async with open_store() as store:
        await store.remember_many((f"key {number}", f"{marker} {number}") for number in range(900))
        for number in range(100):
            await store.journal(f"{marker} entry {number}")
        await store.recall_all()
        await store.recent(100)
        await store.forget("key 1")
        for file in tmp_path.iterdir():
            assert marker.encode() not in file.read_bytes(), file.name
    assert marker.encode() not in (tmp_path / "a.db").read_bytes()


async def test_no_repr_shows_a_text_or_the_key(open_store, signer):
    """K-02."""
    secret = signer._secret.reveal().hex()
    async with open_store() as store:
        await store.remember("key", "MARKER")
        await store.journal("MARKER")
        shown = repr(
            [
                store,
                vars(store),
                store.status(),
                await store.recall("key"),
                await store.recall_all(),
                await store.recent(),
                await store.sync(),
                ledger_of(store).head("sense-memory/key"),
                ledger_of(store).versions("sense-memory/key"),
                parts_of(store).reader,
                vars(parts_of(store).reader),
                parts_of(store).writer,
                SyncMemoryStore(signer),
            ]
        )

    assert "MARKER" not in shown
    assert secret not in shown
    assert signer.export_nsec() not in shown


def test_the_repr_of_a_store_says_who_and_whether_it_is_open(open_store, signer):
    assert repr(open_store()) == f"MemoryStore({signer.npub}, relays=0, open=False)"
    assert repr(SyncMemoryStore(signer)) == f"SyncMemoryStore({signer.npub}, relays=0, open=False)"


@pytest.mark.parametrize(
    "tamper",
    [
        lambda body: body.replace(b'"kind":30078', b'"kind":30079'),
        lambda body: body.replace(b'"tags":[["d",', b'"tags":[["e",'),
        lambda body: body[:-3] + (b"0" if body[-3:-2] != b"0" else b"1") + body[-2:],
        lambda body: body.replace(b'"content":"A', b'"content":"B'),
        lambda body: body[:-20],
        lambda _: b"",
    ],
    ids=["kind", "tag", "signature", "content", "cut", "empty"],
)
async def test_integrity_finds_a_tampered_body(open_store, tmp_path, tamper):
    async with open_store() as store:
        await store.remember("key", "MARKER")
        assert store.integrity() == []
    connection = sqlite3.connect(tmp_path / "a.db")
    (body,) = connection.execute("SELECT body FROM events").fetchone()
    assert tamper(body) != body
    connection.execute("UPDATE events SET body = ?", (tamper(body),))
    connection.commit()
    connection.close()

    async with open_store() as store:
        assert store.integrity() != []
        assert "MARKER" not in " ".join(store.integrity())


async def test_integrity_finds_bodies_that_changed_places(open_store, tmp_path):
    """Each still verifies; only its place is wrong: an older version put back as the head."""
    async with open_store() as store:
        await store.remember("key", "old")
        await store.remember("key", "new")
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("UPDATE events SET body = (SELECT body FROM events WHERE seq = 1) WHERE seq = 2")
    connection.commit()
    connection.close()

    async with open_store() as store:
        assert store.integrity() == ["event 2 is damaged or misplaced"]
        with pytest.raises(SenseMemoryError, match="damaged"):
            await store.recall("key")


# ── Keys ────────────────────────────────────────────────────────────────────────────────


class Remote:
    """A signer of somebody else's making: four members, and every call takes a turn of the loop."""

    def __init__(self) -> None:
        self._inner = LocalSigner.generate()
        self.public_key = self._inner.public_key

    async def sign(self, unsigned):
        await asyncio.sleep(0)
        return await self._inner.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        await asyncio.sleep(0)
        return await self._inner.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        await asyncio.sleep(0)
        return await self._inner.decrypt(payload, author)


async def test_a_custom_signer_works(open_store):
    signer = Remote()
    assert isinstance(signer, Signer)
    async with open_store(by=signer) as store:
        await store.remember("key", "one")
        await asyncio.gather(*(store.remember("key", str(number)) for number in range(20)))
        await store.journal("entry")
        await store.forget("other")

        assert (await store.recall("key")).value in {str(number) for number in range(20)}
        assert store.integrity() == []


async def test_a_pynostr_key_is_accepted(open_store):
    key = PrivateKey()
    async with open_store(by=key) as store:
        await store.remember("key", "value")

        assert store.public_key == key.public_key.hex()
        assert (await store.recall("key")).value == "value"
    async with open_store(by=LocalSigner.from_hex(key.hex())) as store:
        assert (await store.recall("key")).value == "value"


# ── The blocking twin ───────────────────────────────────────────────────────────────────


def public_members(cls):
    return {name: member for name, member in inspect.getmembers_static(cls) if not name.startswith("_")}


def test_the_blocking_store_has_the_same_methods_with_the_same_arguments():
    asynchronous, blocking = public_members(MemoryStore), public_members(SyncMemoryStore)

    assert set(blocking) - set(asynchronous) == {"inner"}  # which only the blocking store has
    assert set(asynchronous) <= set(blocking)
    for name, member in asynchronous.items():
        twin = blocking[name]
        assert type(member) is type(twin), name
        if inspect.isfunction(member):
            assert inspect.signature(member).parameters == inspect.signature(twin).parameters, name
            assert not inspect.iscoroutinefunction(twin), name


def test_the_blocking_store_works_the_same(signer, clock, tmp_path):
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db", clock=clock) as store:
        ids = store.remember_many({"a": "1", "b": "2"}.items())
        ids.append(store.remember("c", "3"))
        store.journal("entry")

        assert [memory.event_id for memory in store.recall_all()] == ids
        assert store.recall("c").value == "3"
        assert [entry.content for entry in store.recent(5)] == ["entry"]
        assert (store.public_key, store.npub, store.relays) == (signer.public_key, signer.npub, ())
        assert store.relays.holders(ids[0]) == {}
        assert store.integrity() == []
        synced = store.sync()  # which also checks manifests, where a flush checks none
        assert replace(synced, manifests=NOTHING_CHECKED) == store.flush()
        store.forget("c")
        assert store.recall("c") is None
        assert store.status().counts["heads"] == 3
        with pytest.raises(InvalidAddress):
            store.remember("a/b", "v")


def test_the_blocking_mind_has_the_same_parts(signer, clock, tmp_path):
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db", clock=clock) as store:
        mind = store.mind
        mind.blocks.memory_append("human", "Name: Lisa.")
        chat = mind.conversation("chat", window=60)
        for number in range(12):
            chat.add("user", f"Part {number} of the recipe needs salt.")
        mind.archive.insert("Lisa paints with oil on wood.", (tag for tag in ("art",)))

        assert mind.blocks.get("human").value == "Name: Lisa."
        assert chat.compact(mind.model).covered_count + len(chat.in_context()) == 12
        assert mind.manager("chat").compile() == mind.blocks.compile()
        assert [hit.text for hit in mind.recall("what does Lisa paint")] == ["Lisa paints with oil on wood."]
        tools = {tool.name: tool for tool in mind.tools()}
        assert tools["memory_append"].call({"block": "human", "content": "Likes salt."}) == (
            "the block 'human' is at version 2"
        )
        mind.scenes.create("village", as_name="baker").append("world.observed", {"text": "it rains"})
        mind.model = other = RuleModel()
        assert mind.model.__dict__["_viewed"] is other
        for wrong in (lambda: mind.nothing, lambda: setattr(mind, "nothing", 1)):
            with pytest.raises(AttributeError, match="nothing"):
                wrong()
        with pytest.raises(InvalidInput, match="no block"):
            mind.blocks.get("none")
        assert "archive" in dir(mind)
        assert repr(mind).startswith("BlockingView(")
    with pytest.raises(StoreClosed):
        mind.blocks.all()
    with pytest.raises(StoreClosed):
        _ = store.mind


def test_a_block_of_the_blocking_mind_begins_and_ends_in_the_stores_thread(signer, tmp_path):
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db") as store:
        scenes = store.mind.scenes
        state = scenes.create("village", as_name="baker").state
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db") as store:
        scenes = store.mind.scenes
        with scenes.using(state.id) as scene:
            scene.append("world.observed", {"text": "it rains"})
        with pytest.raises(StoreClosed):  # its ledgers were closed with the block
            scene.append("world.observed", {"text": "it pours"})
        for error in (ValueError("of the block"), KeyboardInterrupt()):
            with pytest.raises(type(error)), scenes.using(state.id):
                raise error
        with pytest.raises(InvalidInput, match="in no scene"), scenes.using("none"):
            pass
        with scenes.using(state.id) as scene:
            assert [entry.payload["text"] for entry in scene.entries()] == ["it rains"]
            store.close()


def test_the_blocking_store_serves_threads_and_ends_its_own(signer):
    before = threading.active_count()
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        threads = [threading.Thread(target=store.remember, args=(f"key {n}", "v")) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10 * SECOND)
        assert len(store.recall_all()) == 8

    assert threading.active_count() == before


def test_the_blocking_store_is_rescued_closed_and_only_when_damaged(signer, tmp_path):
    store = SyncMemoryStore(signer, ledger=tmp_path / "a.db")
    with store:
        store.remember_many((f"key {number}", "v") for number in range(200))
        with pytest.raises(InvalidInput, match="open"):
            store.rescue()
    with pytest.raises(InvalidInput, match="not damaged"):
        store.rescue()

    whole = (tmp_path / "a.db").read_bytes()
    (tmp_path / "a.db").write_bytes(whole[: len(whole) // 2])
    store.rescue()

    with store:
        assert store.integrity() == []


def test_pairs_and_progress_of_the_blocking_store_may_use_the_store(signer):
    """They run in the caller's thread: in the store's own they would wait for themselves."""
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        store.remember("a", "1")
        seen = []
        store.remember_many(
            ((name, store.recall("a").value) for name in "bc"),
            progress=lambda count: seen.append((count, len(store.recall_all()))),
        )

        seen += store.forget_many((name for name in "bc"), progress=seen.append)
        assert seen[:2] == [(2, 3), 2]
        assert len(store.recall_all()) == 1
        with pytest.raises(ZeroDivisionError):
            store.remember_many({"b": "1"}, progress=lambda count: count / 0)


def test_a_callback_in_the_stores_thread_is_refused_rather_than_left_to_wait_for_itself(signer, tmp_path):
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        store.remember("a", "1")
        store.export(tmp_path / "export.jsonl")

        with pytest.raises(InvalidInput, match="wait for itself"):
            store.palace.compress(count=lambda _: store.recall("a"))


def test_a_closed_blocking_store_says_so(signer):
    store = SyncMemoryStore(signer, ledger=":memory:")
    calls = [
        lambda: store.remember("key", "v"),
        lambda: store.remember_many([]),
        store.recall_all,
        store.status,
        store.integrity,
        store.sync,
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()
    with store:
        assert store.recall_all() == []
    for call in calls:
        with pytest.raises(StoreClosed):
            call()
    store.close()


def test_a_blocking_store_that_can_not_open_leaves_no_thread(signer, tmp_path):
    before = threading.active_count()
    (tmp_path / "a.db").write_bytes(b"Dear diary, " * 1_000)
    with pytest.raises(SenseMemoryError), SyncMemoryStore(signer, ledger=tmp_path / "a.db"):
        raise AssertionError("opened")

    assert threading.active_count() == before
