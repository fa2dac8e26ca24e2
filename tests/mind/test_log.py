"""The log: entries are durable at once, pages carry them to relays, and nothing that happened is lost."""

from __future__ import annotations

import json
import shutil

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError, InvalidInput, TooLargeError
from sense_memory.mind.log import NewEntry
from sense_memory.nostr import address


ME = "5" * 64


def opened(ledger=":memory:", relays=(), **options):
    options = {"background": False, "snapshot": False} | options
    return MemoryStore(LocalSigner.from_hex(ME), relays, ledger=ledger, **options)


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


async def test_an_entry_that_was_appended_survives_without_a_flush(tmp_path):
    """The store is never closed, as after a kill."""
    store = opened(tmp_path / "a.db")
    await store.__aenter__()
    entry = await say(store, "before the kill")
    store._opened.ledger.close()

    async with opened(tmp_path / "a.db") as again:
        assert await again.mind.log.entries() == [entry]
        await again.mind.flush()
        assert await again.mind.log.entries() == [entry]


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
            assert len(bare._opened.ledger.heads.seqs_beneath(address.LOG_PAGES)) < 300 / 20


async def test_closing_brings_the_log_to_relays():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url], background=True) as store:
            await store.sync()
            await say(store, "last words")
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await texts(bare) == ["last words"]


async def test_two_devices_write_pages_of_their_own():
    async with (
        EmbeddedRelay() as relay,
        opened(relays=[relay.url]) as one,
        opened(relays=[relay.url]) as two,
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


async def test_a_ledger_that_was_set_back_loses_no_entry_that_a_relay_has(tmp_path):
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay() as relay:
        async with opened(path, [relay.url]) as store:
            await say(store, "before the image")
            await store.sync()
        shutil.copy(path, image)
        async with opened(path, [relay.url]) as store:
            await say(store, "after the image")
            await store.sync()
        shutil.copy(image, path)
        async with opened(path, [relay.url]) as store:
            await say(store, "after the restore")
            await store.sync()
            await store.sync()
            everything = ["before the image", "after the image", "after the restore"]
            assert await texts(store) == everything
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await texts(bare) == everything


async def test_two_processes_that_flush_one_page_lose_nothing(tmp_path):
    """Two stores on one ledger are one device: both write its last page."""
    async with opened(tmp_path / "a.db") as one, opened(tmp_path / "a.db") as two:
        for number in range(6):
            await say(one, f"one {number}")
            await say(two, f"two {number}")
            await one.mind.flush()
            await say(one, f"one more {number}")
            await two.mind.flush()
        assert len(await texts(one)) == len(await texts(two)) == 18
    async with opened(tmp_path / "a.db") as again:
        assert len(await texts(again)) == 18


async def test_a_removed_entry_is_gone_here_and_on_relays_and_its_id_stays_removed():
    async with (
        EmbeddedRelay() as relay,
        opened(relays=[relay.url]) as store,
        opened(relays=[relay.url]) as other,
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


async def test_versions_of_one_page_that_together_fit_no_event_move_on_to_the_next_page(tmp_path):
    """A ledger that was set back three times wrote the same page four times, each with other entries."""
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay() as relay:
        async with opened(path, [relay.url]) as store:
            await say(store, "first")
            await store.sync()
        shutil.copy(path, image)
        said = ["first"]
        for number in range(4):
            shutil.copy(image, path)
            async with opened(path, [relay.url]) as store:
                said += [f"{number}{line} " + "x" * 2_500 for line in range(5)]
                for text in said[-5:]:
                    await say(store, text)
                await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert sorted(await texts(bare)) == sorted(said)


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


async def test_entries_whose_page_could_not_be_written_are_written_by_the_next_flush(tmp_path, clock):
    """The clock is set back for a while: nothing can be dated then, and nothing may be taken for written."""
    async with opened(tmp_path / "a.db", clock=clock) as store:
        await say(store, "before")
        await store.mind.flush()
        clock.now -= 86_400 * 10
        await say(store, "meanwhile")
        with pytest.raises(ClockSkewError):
            await store.mind.flush()
        clock.now += 86_400 * 10 + 60
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
