"""Copied ledgers: whatever is copied, or brought back, nothing that was acknowledged disappears unnamed."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack

import pytest

from relays.faults import FaultyRelay, HidesKinds
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from tests.inside import database_of, ledger_of, name_device


KEY = LocalSigner.from_hex("7" * 64)
LISA = "people", "facts", "lisa"


def opened(path, relays=(), **options):
    return MemoryStore(KEY, relays, ledger=path, **{"background": False, "snapshot": False} | options)


def copy(source, target):
    for file in target.parent.glob(f"{target.name}*"):
        file.unlink()
    for file in source.parent.glob(f"{source.name}*"):
        shutil.copy(file, target.parent / file.name.replace(source.name, target.name, 1))


async def say(store, text):
    await store.mind.log.append("agent.spoke", {"text": text}, actor="me")


async def said(store):
    return [entry.text for entry in await store.mind.log.entries()]


async def texts(store):
    return {memory.path: memory.value for memory in await store.persona_recall(include_forgotten=True)}


async def sync_all(stores, clock, rounds=3):
    reports = []
    for _ in range(rounds):
        for store in stores:
            clock.advance(2)
            reports.append(await store.sync())
    assert all(report.complete for report in reports)
    return reports[-len(stores) :]


@pytest.mark.parametrize("end", ["flush", "close", "sync"])
async def test_short_lived_containers_of_one_image_lose_no_entry_of_the_log(end, tmp_path, clock):
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened(path, [relay.url], clock=clock) as store:
            await say(store, "in the image")
            await store.sync()
        copy(path, image)
        for number in range(3):
            clock.advance(2)
            copy(image, path)
            options = {"background": end == "close", "close_timeout": 10.0}
            async with opened(path, [relay.url], clock=clock, **options) as store:
                await say(store, f"container {number}")
                if end != "close":
                    await getattr(store, end)()
        async with opened(tmp_path / "new.db", [relay.url], clock=clock) as bare:
            assert (await bare.sync()).in_step
            assert await said(bare) == ["in the image", "container 0", "container 1", "container 2"]


async def test_two_copies_that_edit_one_palace_memory_keep_both_texts(tmp_path, clock):
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "Lisa lives in Graz.")
            await store.sync()
        copy(tmp_path / "a.db", tmp_path / "b.db")
        stores = [
            await stack.enter_async_context(opened(tmp_path / name, [relay.url], clock=clock))
            for name in ("a.db", "b.db")
        ]
        for store, text in zip(stores, ("her phone is 555", "she is allergic"), strict=True):
            clock.advance(2)
            await store.persona_remember(*LISA, text)
        await sync_all(stores, clock)

        for store in stores:
            assert set((await texts(store)).values()) == {"her phone is 555", "she is allergic"}


@pytest.mark.parametrize("kind", ["flat", "block"])
async def test_the_loser_of_two_copies_is_told(kind, tmp_path, clock):
    async def write(store, text):
        clock.advance(2)
        if kind == "flat":
            await store.remember("k", text)
        else:
            await store.mind.blocks.update("persona", value=text)

    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as store:
            if kind == "block":
                await store.mind.blocks.create("persona")
            await write(store, "in the image")
            await store.sync()
        copy(tmp_path / "a.db", tmp_path / "b.db")
        one, two = [
            await stack.enter_async_context(opened(tmp_path / name, [relay.url], clock=clock))
            for name in ("a.db", "b.db")
        ]
        await write(one, "of the first")
        await write(two, "of the second")
        reports = await sync_all([one, two], clock, rounds=1)
        reports += await sync_all([one, two], clock, rounds=1)

        assert ("k" if kind == "flat" else "mind/block/persona") in reports[2].overruled


NAMES = {"palace": "people/facts/lisa", "flat": "k", "block": "mind/block/persona"}
NOTICES = ("overruled", "written_again", "conflicts", "prevailed", "unclaimed")


async def write(store, kind, text):
    if kind == "palace":
        await store.persona_remember(*LISA, text)
    elif kind == "flat":
        await store.remember("k", text)
    else:
        await store.mind.blocks.update("persona", value=text)


async def make_image(path, relay, kind, clock):
    """A ledger that knows one text, and has written something else since."""
    async with opened(path, [relay.url], clock=clock) as store:
        if kind == "block":
            await store.mind.blocks.create("persona")
        await write(store, kind, "in the image")
        await store.remember("written last", "in the image")
        await store.sync()


async def notices_of(stores, clock, rounds=3):
    """What each store is told in some rounds of sync, by the name of the field, without empty fields."""
    told = [{} for _ in stores]
    for _ in range(rounds):
        for store, found in zip(stores, told, strict=True):
            clock.advance(2)
            report = await store.sync()
            assert report.complete
            for name in NOTICES:
                if getattr(report, name):
                    found[name] = (*found.get(name, ()), *getattr(report, name))
    return told


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("winner", ["copy", "device"])
async def test_each_copy_is_told_once_which_edit_counts_and_one_that_wrote_nothing_is_not_told_it_did(
    winner, kind, tmp_path, clock
):
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        await make_image(tmp_path / "a.db", relay, kind, clock)
        for name in ("b.db", "c.db") if winner == "copy" else ("b.db",):
            copy(tmp_path / "a.db", tmp_path / name)
        stores = [
            await stack.enter_async_context(opened(tmp_path / name, [relay.url], clock=clock))
            for name in ("a.db", "b.db", "c.db")
        ]
        original, _, other = stores
        await other.sync()
        await other.forget("written last")
        await write(original, kind, "of the original")
        clock.advance(2)
        await write(other, kind, "of the other")
        told = await notices_of(stores, clock)

        copies = [path for path in await texts(original) if "conflict" in path] if kind == "palace" else []
        name, won = NAMES[kind], ("conflicts", copies[0]) if copies else ("prevailed", NAMES[kind])
        bystanders = {} if kind == "palace" else {"unclaimed": (name,)}
        assert told == [{"overruled": (name,)}, bystanders, {won[0]: (won[1],)}]


@pytest.mark.parametrize("kind", NAMES)
async def test_a_copy_of_a_ledger_of_an_earlier_version_is_not_told_that_its_edit_lost(kind, tmp_path, clock):
    """That version noted the last event under an id, and not how many events there were."""
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        await make_image(tmp_path / "a.db", relay, kind, clock)
        copy(tmp_path / "a.db", tmp_path / "b.db")
        stores = [
            await stack.enter_async_context(opened(tmp_path / name, [relay.url], clock=clock))
            for name in ("a.db", "b.db")
        ]
        with database_of(ledger_of(stores[1])).transaction():
            database_of(ledger_of(stores[1])).execute(
                "UPDATE meta SET value = substr(value, 1, 64) WHERE name LIKE 'device:%'"
            )
        for store in stores:
            clock.advance(2)
            await write(store, kind, f"of {stores.index(store)}")
        first, second = await notices_of(stores, clock)

        assert first == {"overruled": (NAMES[kind],)}
        assert second.keys() == {"conflicts" if kind == "palace" else "prevailed"}


async def test_a_text_from_before_a_ledger_was_set_back_that_lost_to_another_device_is_named(tmp_path, clock):
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=clock) as relay:
        await make_image(path, relay, "flat", clock)
        copy(path, image)
        async with opened(tmp_path / "b.db", [relay.url], clock=clock) as other:
            await other.sync()
            async with opened(path, [relay.url], clock=clock) as store:
                clock.advance(2)
                await write(store, "flat", "of Tuesday")
                await store.sync()
            copy(image, path)
            clock.advance(2)
            await write(other, "flat", "of the other")
            async with opened(path, [relay.url], clock=clock) as store:
                (told,) = await notices_of([store], clock, rounds=1)
                assert told == {}
                assert await notices_of([other, store], clock) == [
                    {"prevailed": ("k",)},
                    {"unclaimed": ("k",)},
                ]
                assert "of Tuesday" in {version.value for version in await store.history("k")}


async def test_a_ledger_that_was_set_back_replaces_nothing_unread(tmp_path, clock):
    """A flush of the restored ledger first asks what relays have."""
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened(path, [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "of Monday")
            await store.remember("flat", "of Monday")
            await store.sync()
        copy(path, image)
        clock.advance(60)
        async with opened(path, [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "of Tuesday")
            await store.remember("flat", "of Tuesday")
            await store.remember("new", "of Tuesday")
            await say(store, "on Tuesday")
            await store.sync()
        copy(image, path)
        clock.advance(60)
        async with opened(path, [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "of Wednesday")
            await store.remember("flat", "of Wednesday")
            await say(store, "on Wednesday")
            await store.flush()
            assert (await store.recall("new")).value == "of Tuesday"
            assert set((await texts(store)).values()) == {"of Tuesday", "of Wednesday"}
            assert await said(store) == ["on Tuesday", "on Wednesday"]
            assert {version.value for version in await store.history("flat")} >= {
                "of Tuesday",
                "of Wednesday",
            }
            report = await store.sync()
            assert (report.overruled, report.prevailed) == ((), ("flat",))
        async with opened(tmp_path / "new.db", [relay.url], clock=clock) as bare:
            await bare.sync()
            assert set((await texts(bare)).values()) == {"of Tuesday", "of Wednesday"}
            assert await said(bare) == ["on Tuesday", "on Wednesday"]


async def test_a_ledger_that_closes_asks_relays_first_if_it_was_set_back(tmp_path, clock):
    path, image = tmp_path / "a.db", tmp_path / "image.db"
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened(path, [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "of Monday")
            await store.sync()
        copy(path, image)
        for number in range(3):
            copy(image, path)
            clock.advance(60)
            options = {"background": True, "close_timeout": 10.0}
            async with opened(path, [relay.url], clock=clock, **options) as store:
                await store.persona_remember(*LISA, f"container {number}")
        async with opened(tmp_path / "new.db", [relay.url], clock=clock) as bare:
            await bare.sync()
            assert set((await texts(bare)).values()) == {f"container {number}" for number in range(3)}


async def test_processes_that_follow_each_other_write_one_page(tmp_path, clock):
    for number in range(20):
        clock.advance(1)
        async with opened(tmp_path / "a.db", clock=clock) as store:
            await say(store, f"call {number}")
    async with opened(tmp_path / "a.db", clock=clock) as store:
        assert len(await said(store)) == 20
        assert len(store.mind.log.pages()) == 1


@pytest.mark.parametrize("path", ["flat", "people/facts/lisa"])
async def test_two_processes_whose_memory_was_copied_part_when_they_meet(path, tmp_path, clock):
    async def write(store, text):
        clock.advance(2)
        await (store.persona_remember(*LISA, text) if "/" in path else store.remember(path, text))

    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay(clock=clock))
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as store:
            await write(store, "in the image")
            await store.sync()
        copy(tmp_path / "a.db", tmp_path / "b.db")
        one, two = [
            await stack.enter_async_context(opened(tmp_path / name, [relay.url], clock=clock))
            for name in ("a.db", "b.db")
        ]
        for store in (one, two):
            name_device(store, "0badcafe")
        await write(one, "of the first")
        await write(two, "of the second")
        reports = await sync_all([one, two], clock, rounds=2)

        assert path in reports[0].overruled
        assert ledger_of(one).edits.device != "0badcafe"
        await write(one, "of the first again")
        await write(two, "of the second again")
        await sync_all([one, two], clock)
        held = {version.value for store in (one, two) for version in await store.history(path)}
        assert held >= {"of the first again", "of the second again"}


async def test_a_moved_ledger_goes_on_and_loses_nothing(tmp_path, clock):
    home, moved = tmp_path / "home", tmp_path / "moved"
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened(home / "a.db", [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "before the move")
            await say(store, "before the move")
            await store.sync()
        home.rename(moved)
        clock.advance(60)
        async with opened(moved / "a.db", [relay.url], clock=clock) as store:
            await store.persona_remember(*LISA, "after the move")
            await say(store, "after the move")
            await store.flush()
            assert (await store.sync()).overruled == ()
            assert await texts(store) == {"people/facts/lisa": "after the move"}
            assert await said(store) == ["before the move", "after the move"]


@pytest.mark.virtual_time
async def test_a_copy_asks_a_relay_that_hides_the_journal_once_before_it_sends(tmp_path, clock):
    async with (
        EmbeddedRelay(clock=clock) as behind,
        FaultyRelay(behind.url, HidesKinds(4), negentropy=True) as relay,
    ):
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as store:
            await store.remember("key", "value")
            await store.sync()
        copy(tmp_path / "a.db", tmp_path / "b.db")
        async with opened(tmp_path / "b.db", [relay.url], clock=clock) as store:
            asked = []
            for number in range(3):
                clock.advance(2)
                await store.remember("key", f"value {number}")
                asked.append((await store.flush()).relays[0].asked)
            assert asked == [True, False, False]
