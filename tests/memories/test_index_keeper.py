"""The keeper of a search index: what a search finds that waits for all, for one source, or for some seconds."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from sense_memory.errors import StoreClosed
from sense_memory.memories.index_keeper import IndexKeeper, ItemChanges
from sense_memory.search.documents import SearchItem
from tests.inside import parts_of
from tests.mind.test_log import opened
from tests.time_unit import SECOND


MANY_OR_FEW = [3, 300]  # many are sorted together, later


class Notes:
    """A source of notes, each with its text as its name; where it is held, it waits after its notes once or more."""

    def __init__(self, *texts):
        self.texts, self.gates, self.reached = [texts] if texts else [], [], asyncio.Event()
        self.problem = None

    @property
    def left(self):
        return sum(map(len, self.texts))

    def has_changed(self):
        return bool(self.texts)

    def begin(self, saved):
        if saved is not None:
            raise ValueError

    def saved(self):
        return "what a newer version saves"

    def hold(self, count=1):
        self.gates = [asyncio.Event() for _ in range(count)]

    def release(self):
        self.gates.pop(0).set()

    async def changes(self, _index):
        seen, self.texts = self.texts, []
        if self.problem is not None:
            raise self.problem
        for texts in seen:
            yield ItemChanges((), [SearchItem(text, text) for text in texts])
        self.reached.set()
        for gate in list(self.gates):
            await gate.wait()
            yield ItemChanges((), ())


@asynccontextmanager
async def kept(*sources, ledger=":memory:", **options):
    async def nothing(*_):
        return None

    async with opened(ledger, **options) as store, asyncio.timeout(10 * SECOND):
        inner = parts_of(store)
        about = "notes", "made of notes", inner.ledger, inner.reader, sources
        keeper = IndexKeeper(*about, embedder=nothing, was_read=nothing)
        yield keeper
        await keeper.close()


def found(index, word):
    return sorted(hit.id for hit in index.search(word, 1_000))


async def test_a_search_finds_what_was_written_while_an_earlier_reading_was_under_way():
    notes = Notes("old otter")
    async with kept(notes) as keeper:
        notes.hold()
        first = asyncio.create_task(keeper.current())
        await notes.reached.wait()
        notes.texts.append(["new otter"])
        late = [asyncio.create_task(keeper.current()) for _ in range(2)]
        await asyncio.sleep(0)
        notes.release()
        for task in late:
            assert found(await task, "otter") == ["new otter", "old otter"]
        await first


async def test_who_waits_for_one_source_does_not_wait_for_another():
    quick, slow = Notes("quick otter"), Notes("slow otter")
    async with kept(quick, slow) as keeper:
        slow.hold()
        waiting = asyncio.create_task(keeper.current())
        await slow.reached.wait()
        assert found(await keeper.current_of(0), "otter") == ["quick otter", "slow otter"]
        assert not waiting.done()
        slow.release()
        await waiting


@pytest.mark.parametrize("count", MANY_OR_FEW)
async def test_a_source_that_is_waited_for_comes_before_the_rest_of_another(count):
    quick, slow = Notes(), Notes("slow weasel")
    async with kept(quick, slow) as keeper:
        slow.hold(2)
        waiting = asyncio.create_task(keeper.current())
        await slow.reached.wait()
        quick.texts.append([f"otter {number}" for number in range(count)])
        wanted = asyncio.create_task(keeper.current_of(0))
        await asyncio.sleep(0)
        slow.release()
        assert len(found(await wanted, "otter")) == count
        assert not waiting.done()
        slow.release()
        await waiting


@pytest.mark.parametrize("count", MANY_OR_FEW)
async def test_a_search_that_waits_only_for_some_seconds_finds_what_is_indexed_by_then(count):
    notes = Notes(*(f"otter {number}" for number in range(count)))
    async with kept(notes) as keeper:
        notes.hold(2)
        while not notes.reached.is_set():
            assert await keeper.current_within(0) is None
        wanted = asyncio.create_task(keeper.so_far())
        await asyncio.sleep(0)
        notes.texts.append(["weasel"])
        notes.release()
        assert len(found(await wanted, "otter")) == count
        assert await keeper.current_within(0) is None
        notes.release()
        assert found(await keeper.current(), "weasel") == ["weasel"]


async def test_a_caller_that_is_cancelled_leaves_the_reading_to_the_others():
    notes = Notes("otter")
    async with kept(notes) as keeper:
        notes.hold()
        gone, waiting = (asyncio.create_task(keeper.current()) for _ in range(2))
        await notes.reached.wait()
        gone.cancel()
        await asyncio.wait({gone})
        notes.release()
        assert found(await waiting, "otter") == ["otter"]


async def test_a_reading_that_fails_fails_for_all_who_wait_and_the_next_one_goes_on():
    notes = Notes("otter")
    async with kept(notes, Notes("weasel")) as keeper:
        notes.problem = OSError("no disk")
        for wait in (keeper.current, lambda: keeper.current_of(0)):
            with pytest.raises(OSError, match="no disk"):
                await wait()
            notes.texts.append(["otter"])
        notes.problem = None
        assert found(await keeper.current(), "otter") == ["otter"]
        assert found(await keeper.current(), "weasel") == ["weasel"]


async def test_who_waits_while_the_keeper_closes_is_told_that_the_store_was_closed():
    notes = Notes("otter")
    async with kept(notes) as keeper:
        notes.hold()
        waiting = [asyncio.create_task(work) for work in (keeper.current(), keeper.current_of(0))]
        await notes.reached.wait()
        await keeper.close()
        for task in waiting:
            with pytest.raises(StoreClosed):
                await task


async def test_a_saved_index_whose_source_cannot_go_on_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)
    for _ in range(2):
        async with kept(Notes("otter"), ledger=tmp_path / "a.db", snapshot=True) as keeper:
            assert found(await keeper.current(), "otter") == ["otter"]
            assert keeper.unsaved == 1
