"""Changes as server-sent events: what another process writes arrives, and nothing runs while nobody looks."""

from __future__ import annotations

import asyncio
import json

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput, LedgerCorrupt
from sense_memory.interfaces import live as live_module
from sense_memory.interfaces.live import MAX_STREAMS, LiveChanges
from sense_memory.memories import watch as watch_module


@pytest.fixture
def opened(tmp_path, monkeypatch):
    monkeypatch.setattr(watch_module, "WATCH_SECONDS", 0.02)
    signer = LocalSigner.generate()
    return lambda: MemoryStore(signer, ledger=tmp_path / "palace.db", background=False)


async def following(stream):
    """The next event of a stream: its name and data."""
    async with asyncio.timeout(10):
        frame = (await anext(stream)).decode()
    name, data = frame.removesuffix("\n\n").split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def ends(stream):
    async with asyncio.timeout(10):
        return [frame async for frame in stream]


async def test_what_another_process_writes_arrives_once_in_every_stream(opened):
    async with opened() as page, opened() as agent:
        live = LiveChanges(page)
        streams = [live.open(), live.open()]
        assert [("hello", {})] * 2 == [await following(stream) for stream in streams]
        await agent.palace.remember("people/facts/lisa", "artist\n\nevent: forged")
        for stream in streams:
            name, change = await following(stream)
            assert ("change", "remembered", "people/facts/lisa") == (name, change["kind"], change["path"])
            assert "value" not in change
        for stream in streams:
            await stream.aclose()


async def test_a_stream_may_have_the_texts_each_on_one_line(opened):
    async with opened() as page, opened() as agent:
        stream = LiveChanges(page, with_texts=True).open()
        await following(stream)
        await agent.remember("note", "one\n\nevent: forged\rthree")

        assert "one\n\nevent: forged\rthree" == (await following(stream))[1]["value"]
        await stream.aclose()


async def test_what_is_no_memory_is_told_where_that_is_asked_for(opened):
    async with opened() as page, opened() as agent:
        all_told, memories = LiveChanges(page, with_others=True).open(), LiveChanges(page).open()
        for stream in (all_told, memories):
            await following(stream)
        await agent.mind.log.append("agent.spoke", {"text": "hello"}, actor="agent")
        assert ("other", {}) == await following(all_told)
        await agent.remember("note", "one")

        assert "change" == (await following(memories))[0]
        for stream in (all_told, memories):
            await stream.aclose()


async def test_nothing_watches_the_store_while_no_stream_is_open(opened):
    async with opened() as page:
        live = LiveChanges(page)
        before = asyncio.all_tasks()
        stream = live.open()
        await following(stream)
        assert (1, True) == (live.count, asyncio.all_tasks() > before)
        await stream.aclose()
        await asyncio.wait(asyncio.all_tasks() - before, timeout=10)

        assert asyncio.all_tasks() == before
        assert 0 == live.count
        again = live.open()  # and the next one begins anew
        assert "hello" == (await following(again))[0]
        await again.aclose()


async def test_a_stream_that_was_never_read_gives_its_place_back(opened):
    async with opened() as page:
        live = LiveChanges(page)
        await live.open().aclose()

        assert 0 == live.count


async def test_streams_are_bounded(opened):
    async with opened() as page:
        live = LiveChanges(page)
        streams = [live.open() for _ in range(MAX_STREAMS)]
        late = live.open()
        for stream in streams:
            await following(stream)
        assert [] == await ends(late)
        with pytest.raises(InvalidInput, match="16 streams of changes are open"):
            live.open()
        await streams.pop().aclose()
        streams.append(live.open())
        await following(streams[-1])
        live.close()

        assert [[]] * MAX_STREAMS == [await ends(stream) for stream in streams]


async def test_a_stream_that_is_not_read_is_told_that_it_missed_changes(opened, monkeypatch):
    monkeypatch.setattr(live_module, "MAX_WAITING", 4)
    async with opened() as page:
        live = LiveChanges(page)
        slow, *others = [live.open() for _ in range(6)]
        for stream in (slow, *others):
            await following(stream)
        for number in range(5):
            live.tell("change", number=number)
            for stream in others:
                assert ("change", {"number": number}) == await following(stream)

        assert "missed" == (await following(slow))[0]
        for stream in (slow, *others):
            await stream.aclose()


async def test_streams_end_with_the_store(opened):
    async with opened() as page:
        stream = LiveChanges(page).open()
        await following(stream)

    assert [] == await ends(stream)


async def test_a_stream_that_ends_with_an_error_says_which(opened, monkeypatch):
    async def broken(_watch):
        raise LedgerCorrupt("this ledger is damaged")

    async with opened() as page:
        stream = LiveChanges(page).open()
        monkeypatch.setattr(watch_module.Watch, "next", broken)
        assert [("hello", {}), ("problem", {"message": "this ledger is damaged"})] == [
            await following(stream) for _ in range(2)
        ]
        assert [] == await ends(stream)


async def test_a_watch_that_missed_changes_begins_again_and_says_so(opened, monkeypatch):
    monkeypatch.setattr(watch_module, "MAX_CHANGES_COUNT", 2)
    async with opened() as page, opened() as agent:
        stream = LiveChanges(page).open()
        await following(stream)
        await agent.remember_many({f"key-{number}": "text" for number in range(9)})
        names = [(await following(stream))[0]]
        while names[-1] != "missed":
            names.append((await following(stream))[0])
        await agent.remember("later", "text")
        assert "later" == (await following(stream))[1]["path"]
        await stream.aclose()


async def test_a_quiet_stream_says_that_it_is_alive(opened, monkeypatch):
    monkeypatch.setattr(live_module, "KEEP_ALIVE_SECONDS", 0.01)
    async with opened() as page:
        stream = LiveChanges(page).open()
        await following(stream)

        assert b":\n\n" == await anext(stream)
        await stream.aclose()


async def test_a_bug_ends_the_streams_and_quotes_no_memory(opened, monkeypatch, caplog):
    """Streams that stayed open would look as if nothing changed."""

    text = "the text of a memory"

    async def broken(_watch):
        raise RuntimeError(text)

    async with opened() as page:
        live = LiveChanges(page)
        streams = [live.open(), live.open()]
        monkeypatch.setattr(watch_module.Watch, "next", broken)
        for stream in streams:
            await following(stream)
        told = [await following(stream) for stream in streams]
        monkeypatch.undo()

        assert ["problem"] * 2 == [name for name, _ in told]
        assert [[]] * 2 == [await ends(stream) for stream in streams]
        assert "RuntimeError" in told[0][1]["message"]
        assert "RuntimeError" in caplog.text
        assert text not in str(told) + caplog.text
        again = live.open()  # a later stream begins anew
        assert ("hello", {}) == await following(again)
        await again.aclose()


async def test_a_stream_of_a_store_that_was_closed_says_so_and_ends(opened):
    async with opened() as page:
        stream = LiveChanges(page).open()

    name, told = await following(stream)
    assert ("problem", True) == (name, "is not open" in told["message"])
    assert [] == await ends(stream)


async def test_a_stream_of_a_ledger_that_was_deleted_says_so_and_ends(opened, tmp_path):
    async with opened() as page:
        stream = LiveChanges(page).open()
        await following(stream)
        (tmp_path / "palace.db").unlink()

        name, told = await following(stream)
        assert ("problem", True) == (name, "deleted or replaced" in told["message"])
        assert [] == await ends(stream)
