"""`store.edits`: a text that was written elsewhere meanwhile is neither replaced nor forgotten."""

from __future__ import annotations

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import EditConflict, InvalidAddress, InvalidInput


LISA, EMIL, NORA = "people/facts/lisa", "people/facts/emil", "people/facts/nora"
NAMES = [LISA, "user_timezone"]


@pytest.fixture
def opened(tmp_path, clock):
    """Opens stores of one agent on one ledger, as two processes have them."""
    signer = LocalSigner.generate()

    def open_store():
        return MemoryStore(
            signer, ledger=tmp_path / "palace.db", background=False, clock=clock, contradictions="off"
        )

    return open_store


async def seen(store, name):
    found = await (store.palace.recall(name, revive=False) if "/" in name else store.recall(name))
    return None if found is None else found.event_id


def edits_of(store, name, known):
    """Each edit of a memory by its name, as coroutines that were not awaited."""
    return {
        "write": lambda: store.edits.write(name, "potter", seen=known),
        "forget": lambda: store.edits.forget(name, seen=known),
        "undo": lambda: store.edits.undo(name, seen=known),
        "move": lambda: store.edits.move(name, name + "-2", seen=known),
    }


# ── Writing ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
async def test_a_text_that_was_seen_is_replaced_and_keeps_its_history(opened, name):
    async with opened() as store:
        await store.remember(name, "artist")
        await store.edits.write(name, "printmaker", seen=await seen(store, name))

        assert ["printmaker", "artist"] == [version.value for version in await store.history(name)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edit", ["write", "forget", "undo", "move"])
async def test_a_text_that_another_process_wrote_meanwhile_stays(opened, name, edit):
    async with opened() as page, opened() as agent:
        await page.remember(name, "artist")
        await page.remember(name, "printmaker")
        known = await seen(page, name)
        await agent.remember(name, "moved to Bremen")

        with pytest.raises(EditConflict, match="has changed since it was read; nothing was written"):
            await edits_of(page, name, known)[edit]()
        assert "moved to Bremen" == (await agent.recall(name)).value
        assert await agent.recall(name + "-2") is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edit", ["write", "forget", "undo"])
async def test_a_text_that_arrives_between_the_comparison_and_the_write_stays(
    opened, monkeypatch, name, edit
):
    """The ledger compares again in the transaction that writes."""
    async with opened() as page, opened() as agent:
        await page.remember(name, "artist")
        await page.remember(name, "printmaker")
        known, writer, calls = await seen(page, name), page._open.writer, []
        sign = writer._stamped_and_signed

        async def signed_late(*args, **options):
            if not calls:
                calls.append(await agent.remember(name, "moved to Bremen"))
            return await sign(*args, **options)

        monkeypatch.setattr(writer, "_stamped_and_signed", signed_late)
        with pytest.raises(EditConflict, match="has changed since it was read; nothing was written"):
            await edits_of(page, name, known)[edit]()
        assert calls
        assert "moved to Bremen" == (await agent.recall(name)).value


@pytest.mark.parametrize("name", NAMES)
async def test_a_new_memory_replaces_none_that_somebody_else_wrote_meanwhile(opened, name):
    async with opened() as page, opened() as agent:
        await agent.remember(name, "artist")

        with pytest.raises(EditConflict, match="was written by somebody else meanwhile"):
            await page.edits.write(name, "potter", seen=None)
        await page.forget(name)
        await page.edits.write(name, "potter", seen=None)
        assert "potter" == (await agent.recall(name)).value


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edit", ["write", "forget", "undo", "move"])
async def test_a_memory_that_was_forgotten_meanwhile_does_not_come_back(opened, name, edit):
    async with opened() as page:
        await page.remember(name, "artist")
        known = await seen(page, name)
        await page.forget(name)

        if edit == "undo":
            assert await page.edits.undo(name, seen=known) is None
        else:
            with pytest.raises(EditConflict, match="was forgotten since it was read"):
                await edits_of(page, name, known)[edit]()
        assert await page.recall(name) is None
        assert await page.recall(name + "-2") is None


async def test_a_recall_or_a_link_elsewhere_is_no_conflict(opened, clock):
    async with opened() as page, opened() as agent:
        await page.remember(LISA, "artist")
        await page.remember(EMIL, "seven")
        known = await seen(page, LISA)
        await agent.palace.connect(LISA, EMIL)
        assert known != await seen(page, LISA)
        await page.edits.write(LISA, "printmaker", seen=known)

        memory = await agent.palace.recall(LISA, revive=False)
        assert ("printmaker", (EMIL,)) == (memory.value, memory.connections)


@pytest.mark.parametrize("name", NAMES)
async def test_what_was_seen_is_named_by_an_event_id(opened, name):
    async with opened() as store:
        await store.remember(name, "artist")

        with pytest.raises(InvalidInput, match="seen must be the event id"):
            await store.edits.write(name, "potter", seen=7)
        with pytest.raises(EditConflict):
            await store.edits.write(name, "potter", seen="not an id")


# ── Moving ──────────────────────────────────────────────────────────────────────────────


async def test_a_moved_memory_keeps_its_text_its_dates_and_its_links_both_ways(opened, clock):
    async with opened() as store:
        remember, path = store.palace.remember, "people/plans/lisa-vale"
        await remember(EMIL, "seven")
        await remember(NORA, "lives in Bremen")
        await remember(LISA, "lives in Vancouver", ["art"], [EMIL], halflife_days=90)
        await store.palace.contradict(NORA, LISA)
        await store.palace.pin(LISA)
        clock.advance(100_000)
        before = await store.palace.recall(LISA, revive=False)
        await store.edits.move(LISA, path, seen=before.event_id)

        after = await store.palace.recall(path, revive=False)
        same = (
            "value",
            "themes",
            "created_at",
            "written_at",
            "halflife_days",
            "last_accessed",
            "connections",
        )
        assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
        assert await store.palace.recall(LISA) is None
        emil, nora = [await store.palace.recall(name, revive=False) for name in (EMIL, NORA)]
        assert ((path,), path) == (emil.connections, nora.superseded_by)
        await store.edits.move(path, LISA, seen=after.event_id)

        back = await store.palace.recall(LISA, revive=False)
        assert [getattr(before, name) for name in same] == [getattr(back, name) for name in same]
        assert LISA == (await store.palace.recall(NORA)).superseded_by


async def test_a_flat_memory_moves_with_the_time_of_its_text(opened, clock):
    async with opened() as store:
        await store.remember("tz", "UTC")
        before = await store.recall("tz")
        clock.advance(1_000)
        await store.edits.move("tz", "user_timezone", seen=before.event_id)

        after = await store.recall("user_timezone")
        assert ("UTC", before.created_at) == (after.value, after.created_at)
        assert await store.recall("tz") is None


@pytest.mark.parametrize("name", NAMES)
async def test_no_memory_is_moved_onto_another(opened, name):
    async with opened() as store:
        await store.remember(name, "artist")
        await store.remember(name + "-2", "seven")
        known = await seen(store, name)

        for to in (name + "-2", name):
            with pytest.raises(InvalidInput, match=r"there is a memory at .* already; nothing was moved"):
                await store.edits.move(name, to, seen=known)
        assert ["artist", "seven"] == [(await store.recall(key)).value for key in (name, name + "-2")]


async def test_a_memory_moves_to_a_name_of_its_own_sort_only(opened):
    async with opened() as store:
        await store.remember(LISA, "artist")
        known = await seen(store, LISA)

        with pytest.raises(InvalidInput, match="a palace memory moves to another path"):
            await store.edits.move(LISA, "lisa", seen=known)
        with pytest.raises(InvalidAddress):
            await store.edits.move(LISA, "people/facts", seen=known)


@pytest.mark.parametrize("name", NAMES)
async def test_a_text_that_arrives_while_its_memory_moves_is_not_forgotten(opened, monkeypatch, name):
    async with opened() as page, opened() as agent:
        await page.remember(name, "artist")
        known, writer = await seen(page, name), page._open.writer
        forget = writer.forget_all

        async def forgotten_late(*args, **options):
            await agent.remember(name, "moved to Bremen")
            return await forget(*args, **options)

        monkeypatch.setattr(writer, "forget_all", forgotten_late)
        with pytest.raises(EditConflict, match="got another text while it was moved"):
            await page.edits.move(name, name + "-2", seen=known)
        assert ["moved to Bremen", "artist"] == [
            (await agent.recall(key)).value for key in (name, name + "-2")
        ]


# ── Forgetting, and taking that back ────────────────────────────────────────────────────


async def test_a_forgotten_memory_comes_back_as_it_was(opened, clock):
    async with opened() as store:
        await store.palace.remember(EMIL, "seven")
        await store.palace.remember(LISA, "lives in Vancouver", ["art"], [EMIL], source="user")
        await store.palace.remember(NORA, "lives in Bremen")
        await store.palace.contradict(NORA, LISA)
        clock.advance(100_000)
        before = await store.palace.recall(LISA, revive=False)
        await store.edits.forget(LISA, seen=before.event_id)
        assert await store.palace.recall(LISA) is None
        await store.edits.restore(before)

        after = await store.palace.recall(LISA, revive=False)
        same = ("value", "themes", "created_at", "written_at", "source", "last_accessed", "connections")
        assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
        assert LISA == (await store.palace.recall(NORA)).superseded_by
        with pytest.raises(EditConflict):
            await store.edits.restore(before)


async def test_a_forgotten_flat_memory_comes_back_with_its_time(opened, clock):
    async with opened() as store:
        await store.remember("tz", "UTC")
        before = await store.recall("tz")
        clock.advance(1_000)
        await store.edits.forget("tz", seen=before.event_id)
        assert await store.recall("tz") is None
        await store.edits.restore(before)

        found = await store.recall("tz")
        assert ("UTC", before.created_at) == (found.value, found.created_at)


@pytest.mark.parametrize("name", NAMES)
async def test_an_undo_of_what_was_seen_brings_the_text_before_it_back(opened, name):
    async with opened() as store:
        await store.remember(name, "artist")
        await store.remember(name, "printmaker")

        assert "artist" == (await store.edits.undo(name, seen=await seen(store, name))).value
