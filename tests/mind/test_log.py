"""The log: entries are durable at once, pages carry them to relays, and nothing that happened is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from contextlib import suppress

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError, InvalidInput, StorageFullError, TooLargeError
from sense_memory.mind.log import LAST_SECOND, NewEntry
from sense_memory.nostr import address
from tests.conftest import FakeClock
from tests.inside import database_of, ledger_of, name_device


ME = "5" * 64
_looks = itertools.count()


def opened(ledger=":memory:", relays=(), **options):
    options = {"background": False, "snapshot": False} | options
    return MemoryStore(LocalSigner.from_hex(ME), relays, ledger=ledger, **options)


def loop_clock():
    """A clock that follows virtual time; each look at it takes a little."""
    found, now = FakeClock(), asyncio.get_running_loop().time
    found.elapsed = lambda: now() + next(_looks) * 1e-4
    return found


async def texts(store):
    return [entry.text for entry in await store.mind.log.entries()]


async def say(store, text, **more):
    return await store.mind.log.append("agent.spoke", {"text": text}, actor="me", **more)


async def test_entries_come_back_in_the_order_in_which_they_were_appended():
    async with opened() as store:
        said = [await say(store, f"line {number}", turn=number) for number in range(50)]
        assert await store.mind.log.entries() == said
        assert await store.mind.log.entries(limit=3) == said[-3:]
        assert await store.mind.log.entries(after=said[10].id) == said[11:]
        assert await store.mind.log.count_since(said[10].id) == 39


async def test_entries_are_chosen_by_kind_actor_conversation_and_time():
    async with opened() as store:
        first = await say(store, "one", conversation="a", at=10.0)
        second = await store.mind.log.append("world.observed", {"text": "two"}, actor="me", at=20.0)
        third = await store.mind.log.append("agent.spoke", {"text": "three"}, actor="you", at=30.0)
        entries = store.mind.log.entries
        assert await entries(kind="agent.spoke") == [first, third]
        assert await entries(actor="me") == [first, second]
        assert await entries(conversation="a") == [first]
        assert await entries(since=20.0) == [second, third]
        assert await entries(kind="agent.spoke", actor="me", since=20.0) == []
        assert await entries(kind="") == await entries(actor="") == await entries(conversation="") == []
        assert await entries(limit=0) == []


async def test_entries_since_the_epoch_are_those_since_the_epoch():
    async with opened() as store:
        await say(store, "before", at=-1.0)
        await say(store, "at", at=0.0)
        assert [entry.text for entry in await store.mind.log.entries(since=0)] == ["at"]


async def test_an_entry_that_was_appended_survives_without_a_flush(tmp_path):
    """The store is never closed, as after a kill."""
    store = opened(tmp_path / "a.db")
    await store.__aenter__()
    entry = await say(store, "before the kill")
    ledger_of(store).close()

    async with opened(tmp_path / "a.db") as again:
        assert await again.mind.log.entries() == [entry]
        await again.mind.flush()
        assert await again.mind.log.entries() == [entry]


async def test_a_ledger_keeps_one_version_of_a_page_however_often_it_was_written(clock):
    async with opened(clock=clock) as store:
        for number in range(5):
            await say(store, f"line {number}")
            await store.mind.flush()
            clock.advance(60)
        ((slot, _),) = ledger_of(store).heads.seqs_beneath(address.LOG_PAGES)
        assert len(ledger_of(store).versions(slot)) == 1
        assert len(await texts(store)) == 5


async def test_a_bare_machine_has_the_log_after_one_sync():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            said = await store.mind.log.append_many(
                [NewEntry("message.user", {"text": f"{number} " + "x" * 500}, "ann") for number in range(300)]
            )
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await bare.mind.log.entries() == said
            assert len(ledger_of(bare).heads.seqs_beneath(address.LOG_PAGES)) < 300 / 20


async def test_closing_brings_the_log_to_relays():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url], background=True) as store:
            await store.sync()
            await say(store, "last words")
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await texts(bare) == ["last words"]


@pytest.mark.virtual_time
async def test_two_devices_write_pages_of_their_own():
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        opened(relays=[relay.url], clock=loop_clock()) as one,
        opened(relays=[relay.url], clock=loop_clock()) as two,
    ):
        await say(one, "first")
        await one.sync()
        await two.sync()
        await say(two, "second")
        await two.sync()
        await say(one, "third")
        await one.sync()
        await two.sync()
        assert await texts(one) == await texts(two) == ["first", "second", "third"]


@pytest.mark.virtual_time
async def test_a_ledger_that_was_set_back_loses_no_entry_that_a_relay_has(tmp_path):
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        async with opened(path, [relay.url], clock=loop_clock()) as store:
            await say(store, "before the image")
            await store.sync()
        shutil.copy(path, image)
        async with opened(path, [relay.url], clock=loop_clock()) as store:
            await say(store, "after the image")
            await store.sync()
        shutil.copy(image, path)
        async with opened(path, [relay.url], clock=loop_clock()) as store:
            await say(store, "after the restore")
            await store.sync()
            await store.sync()
            everything = ["before the image", "after the image", "after the restore"]
            assert await texts(store) == everything
        async with opened(relays=[relay.url], clock=loop_clock()) as bare:
            await bare.sync()
            assert await texts(bare) == everything


async def test_two_processes_that_flush_one_page_lose_nothing(tmp_path):
    """As the processes of an earlier version, which were one device."""
    async with opened(tmp_path / "a.db") as one, opened(tmp_path / "a.db") as two:
        name_device(one, "0badcafe")
        name_device(two, "0badcafe")
        for number in range(6):
            await say(one, f"one {number}")
            await say(two, f"two {number}")
            await one.mind.flush()
            await say(one, f"one more {number}")
            await two.mind.flush()
        assert len(await texts(one)) == len(await texts(two)) == 18
    async with opened(tmp_path / "a.db") as again:
        assert len(await texts(again)) == 18


@pytest.mark.virtual_time
async def test_a_removed_entry_is_gone_here_and_on_relays_and_its_id_stays_removed():
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        opened(relays=[relay.url], clock=loop_clock()) as store,
        opened(relays=[relay.url], clock=loop_clock()) as other,
    ):
        secret, kept = await say(store, "a secret"), await say(store, "kept")
        await store.sync()
        await other.sync()
        await store.mind.log.remove(secret.id)
        await store.sync()
        await other.sync()
        assert await store.mind.log.entries() == await other.mind.log.entries() == [kept]
        with pytest.raises(InvalidInput, match="nothing was removed"):
            await store.mind.log.remove(secret.id)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"kind": ""}, InvalidInput),
        ({"actor": 7}, InvalidInput),
        ({"turn": "3"}, InvalidInput),
        ({"payload": {"text": "\ud800"}}, InvalidInput),
        ({"payload": {"set": {1}}}, InvalidInput),
        ({"payload": "text"}, InvalidInput),
        (
            {"payload": {"deep": json.loads("[" * 251 + "]" * 251)}},
            InvalidInput,
        ),  # a page is deeper than its entry
        ({"at": float("nan")}, InvalidInput),
        ({"at": 1e308}, InvalidInput),
        ({"payload": {"text": "x" * 41_000}}, TooLargeError),
    ],
)
async def test_an_entry_that_cannot_be_kept_is_refused_before_anything_is_written(change, error):
    async with opened() as store:
        fields = {"kind": "agent.spoke", "payload": {"text": "hi"}, "actor": "me"} | change
        with pytest.raises(error):
            await store.mind.log.append_many([NewEntry("a", {}, "me"), NewEntry(**fields)])
        assert await store.mind.log.entries() == []


@pytest.mark.virtual_time
async def test_versions_of_one_page_that_together_fit_no_event_move_on_to_the_next_page(tmp_path):
    """A ledger that was set back three times wrote the same page four times, each with other entries."""
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        async with opened(path, [relay.url], clock=loop_clock()) as store:
            name_device(store, "0badcafe")
            await say(store, "first")
            await store.sync()
        shutil.copy(path, image)
        said = ["first"]
        for number in range(4):
            shutil.copy(image, path)
            async with opened(path, [relay.url], clock=loop_clock()) as store:
                name_device(store, "0badcafe")  # as a ledger of an earlier version kept its name
                said += [f"{number}{line} " + "x" * 2_500 for line in range(5)]
                for text in said[-5:]:
                    await say(store, text)
                await store.sync()
        async with opened(relays=[relay.url], clock=loop_clock()) as bare:
            await bare.sync()
            assert sorted(await texts(bare)) == sorted(said)


async def test_an_entry_that_two_processes_put_into_two_pages_is_removed_from_both(tmp_path):
    row = ["0" * 20, 1.0, "agent.spoke", "me", None, None, {"text": "a secret"}]
    async with opened(tmp_path / "a.db") as store:
        for number in (1, 2):
            await store.mind.records.write({f"mind/log/0badcafe-{number}": {"entries": [row]}})
        assert await texts(store) == ["a secret"]
        await store.mind.log.remove(row[0])
    async with opened(tmp_path / "a.db") as store:
        assert await texts(store) == []


async def test_no_entry_claims_a_time_that_no_calendar_has():
    async with opened() as store:
        rows = [
            [f"{number:020x}", at, "agent.spoke", "me", None, None, {"text": str(at)}]
            for number, at in enumerate([1e300, 5.0, -1e300])
        ]
        await store.mind.records.write({"mind/log/0badcafe-1": {"entries": rows}})
        assert [entry.at for entry in await store.mind.log.entries()] == [-LAST_SECOND, 5.0, LAST_SECOND]


async def test_an_entry_that_another_device_removed_stays_removed_when_its_page_was_written_meanwhile(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as one,
        opened(relays=[relay.url], clock=clock) as two,
    ):
        secret = await say(one, "a secret")
        await one.sync()
        await two.sync()
        await two.mind.log.remove(secret.id)
        clock.advance(60)
        await say(one, "later")
        for store in (one, two, one, two):
            await store.sync()
            clock.advance(60)
        async with opened(relays=[relay.url], clock=clock) as bare:
            await bare.sync()
            assert [await texts(store) for store in (one, two, bare)] == [["later"]] * 3


@pytest.mark.parametrize(
    "page",
    [
        {"entries": 7},
        {"entries": [7, [], ["id"], {}], "removed": "x"},
        {"entries": [["a", "soon", "k", "me", None, None, {}], ["b", 1.0, "k", "me", "1", None, {}]]},
        {"entries": [["c", float("nan"), "k", "me", None, None, {}], ["d", 1.0, "k", 5, None, None, {}]]},
        {"entries": [["", 1.0, "k", "me", None, None, {}], ["e" * 99, 1.0, "k", "me", None, None, {}]]},
        {"removed": [None, 5], "moved": {"a": 1}},
        {},
    ],
)
async def test_a_page_of_another_shape_hides_no_other_entry(page):
    async with opened() as store:
        entry = await say(store, "here")
        await store.mind.records.write({"mind/log/0badcafe-1": page})
        assert await store.mind.log.entries() == [entry]
        await store.mind.flush()
        assert await store.mind.log.entries() == [entry]


async def failing(*_, **__):
    raise StorageFullError("the disk is full")


async def test_entries_whose_page_could_not_be_written_are_written_by_the_next_flush(tmp_path, clock):
    """A write fails once: nothing may be taken for written then."""
    async with opened(tmp_path / "a.db", clock=clock) as store:
        await say(store, "before")
        await store.mind.flush()
        await say(store, "meanwhile")
        records, write = store.mind.records, store.mind.records.write
        records.write = failing
        with pytest.raises(StorageFullError):
            await store.mind.flush()
        records.write = write
        await store.mind.flush()
    async with opened(tmp_path / "a.db", clock=clock) as again:
        assert sorted(await texts(again)) == ["before", "meanwhile"]


async def test_an_entry_that_moves_here_keeps_its_id():
    async with opened() as store:
        (moved,) = await store.mind.log.append_many(
            [NewEntry("k", {"text": "x"}, "me", at=1.0, id="0a" * 10)]
        )
        assert moved.id == "0a" * 10
        await store.mind.flush()
        assert await store.mind.log.get("0a" * 10) == moved
        with pytest.raises(InvalidInput, match="20 hex digits"):
            await store.mind.log.append_many([NewEntry("k", {}, "me", id="../../etc")])


@pytest.mark.virtual_time
async def test_every_message_reaches_a_relay_within_a_minute_and_the_last_ones_with_the_close(clock):
    """The rule: 15 s of quiet, or 40 s of waiting; five messages a minute leave no quiet."""
    said, seen = {}, {}

    async def look(reader):
        await reader.sync()
        for text in await texts(reader):
            seen.setdefault(text, clock())

    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as reader,
    ):
        async with opened(relays=[relay.url], clock=clock, background=True) as store:
            for number in range(7):
                said[f"line {number}"] = clock()
                await say(store, f"line {number}")
                for _ in range(2):
                    await asyncio.sleep(6)
                    await look(reader)
            for _ in range(10):
                await asyncio.sleep(6)
                await look(reader)
            waits = [seen[text] - at for text, at in said.items()]
            assert max(waits) <= 60
            assert len(waits) == 7
            await say(store, "last words")
            closing = clock()
        await look(reader)
        assert "last words" in seen
        assert seen["last words"] - closing <= 15


# ── What goes wrong meanwhile ───────────────────────────────────────────────────────────


class Killed(BaseException):
    """Nobody catches it, as nobody catches kill -9."""


@pytest.mark.parametrize("place", range(6))
async def test_a_flush_that_is_killed_at_any_write_loses_no_entry_and_doubles_none(tmp_path, place):
    """The process ends before its write number `place`, and again in the next process."""
    said = []
    for _ in range(2):
        store = opened(tmp_path / "a.db")
        await store.__aenter__()
        said += [await say(store, f"{len(said)} " + "x" * 3_000) for _ in range(8)]
        ledger, left = ledger_of(store), place

        async def write(change, *values, inner=ledger.write, **options):
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return await inner(change, *values, **options)

        ledger.write = write
        with suppress(Killed):
            await store.mind.flush()
        ledger.close()
    async with opened(tmp_path / "a.db") as again:
        assert await again.mind.log.entries() == said
        await again.mind.flush()
        assert await again.mind.log.entries() == said
        assert not ledger_of(again).log_rows


async def test_a_full_disk_refuses_the_entry_that_does_not_fit_and_keeps_every_other(tmp_path):
    failures = 0
    for pages in range(1, 12, 3):
        said = []
        async with opened(tmp_path / f"{pages}.db") as store:
            database = database_of(ledger_of(store))
            (size,) = database.row("PRAGMA page_count")
            database.rows(f"PRAGMA max_page_count = {size + pages}")
            try:
                for number in range(40):
                    said.append(await say(store, f"{number} " + "x" * 2_000))
                    if number % 5 == 4:
                        await store.mind.flush()
            except StorageFullError:
                failures += 1
            assert await store.mind.log.entries() == said
            database.rows("PRAGMA max_page_count = 1073741823")
            said.append(await say(store, "room again"))
        async with opened(tmp_path / f"{pages}.db") as again:
            assert await again.mind.log.entries() == said
    assert failures >= 2


async def test_a_clock_that_was_set_back_takes_nothing_out_of_a_context(tmp_path, clock):
    async with opened(tmp_path / "a.db", clock=clock) as store:
        chat = store.mind.conversation("c", window=40)
        for number in range(10):
            await chat.add("user", f"before, message number {number}")
        await chat.compact(store.mind.model)
        clock.now -= 3_600
        late = await chat.add("user", "said with the clock set back")
        assert late.id in await chat.message_ids()
        before = await chat.state()
        with pytest.raises(ClockSkewError, match="nothing was written"):
            await chat.compact(store.mind.model)
        assert await chat.state() == before
        clock.now += 3_700
        await chat.compact(store.mind.model)
        assert (await chat.state()).covered_count + len(await chat.in_context()) == 11


async def test_an_altered_row_is_left_out_and_named_and_hides_no_other_entry(tmp_path):
    """The rest of the ledger is sound: the row stays in it until a rescue moves the whole file aside."""
    path = tmp_path / "a.db"
    store = opened(path)
    await store.__aenter__()
    for number in range(3):
        await say(store, f"entry {number}")
    database_of(ledger_of(store)).execute("UPDATE log_rows SET body = zeroblob(60) WHERE row = 2")
    ledger_of(store).close()  # as after a kill
    problem = "entry 2 of the log was altered, or sealed under another key; it is left out"
    for _ in range(2):  # the first store writes the other entries to a page when it closes
        async with opened(path) as store:
            assert store.integrity() == [problem]
            assert await texts(store) == ["entry 0", "entry 2"]
            assert store.mind.log.damaged == {2}
    assert (await opened(path).rescue()).unreadable == 1
    async with opened(path) as store:
        assert store.integrity() == []
        await say(store, "after the rescue")
        assert await texts(store) == ["entry 0", "entry 2", "after the rescue"]
