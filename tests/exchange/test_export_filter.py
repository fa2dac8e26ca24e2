"""Exports of a part: by date, theme and name, as plain text and as events."""

from __future__ import annotations

import io
import json
from contextlib import asynccontextmanager

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput
from sense_memory.exchange import ExportFilter, read, write_part, write_readable
from sense_memory.exchange.readable import MANIFEST


DAY = 86_400.0


@pytest.fixture
def open_filled(open_again, clock):
    """A store with memories of every kind, of which some are old, and some have a theme: `async with open_filled() as store`."""

    @asynccontextmanager
    async def filled(store):
        async with store:
            await fill(store, clock())
            yield store

    return lambda: filled(open_again())


@pytest.fixture
def open_again(clock):
    """An empty store of the same agent, as on another device."""
    signer = LocalSigner.generate()
    return lambda: MemoryStore(signer, ledger=":memory:", clock=clock, background=False, snapshot=False)


async def fill(store, now):
    """Write seven memories."""
    await store.palace.remember("projects/web/db", "PostgreSQL", ["Infra"], created_at=now - 40 * DAY)
    await store.palace.remember("people/facts/lisa", "Likes tea", ["tea"])
    await store.remember("city", "Lisbon")
    await store.journal.write("a walk", created_at=now - 40 * DAY)
    await store.mind.archive.insert("a passage", ["infra"])
    await store.mind.blocks.create("notes", "".join(chr(0x4E00 + n % 5_000) for n in range(19_000)))
    await store.mind.log.append("note", {"text": "logged"}, actor="agent")


def named(path):
    return sorted(item.text[:10] for item in read(path).items)


@pytest.mark.parametrize("name", ["part", "part.jsonl"])
@pytest.mark.parametrize(
    "case",
    [
        ({"theme": "INFRA"}, ["PostgreSQL", "a passage"]),
        ({"prefix": "projects/"}, ["PostgreSQL"]),
        ({"prefix": "people/", "theme": "tea"}, ["Likes tea"]),
        ({"prefix": "journal/"}, ["a walk"]),
        ({"prefix": "mind/log"}, [""]),
        ({"until": -30 * DAY}, ["PostgreSQL", "a walk"]),
        ({"since": -41 * DAY, "until": -30 * DAY, "theme": "infra"}, ["PostgreSQL"]),
        ({"since": -30 * DAY, "prefix": "c"}, ["Lisbon"]),
    ],
)
async def test_a_part_has_what_fulfils_every_condition_and_says_that_it_is_a_part(
    open_filled, clock, tmp_path, name, case
):
    async with open_filled() as filled:
        conditions, texts = case
        given = {
            what: clock() + value if isinstance(value, float) else value for what, value in conditions.items()
        }
        done = await write_readable(filled, tmp_path / name, only=ExportFilter(**given))

        head = tmp_path / name / MANIFEST if name == "part" else tmp_path / name
        told = json.loads(head.read_text().split("\n")[0] if name != "part" else head.read_text())
        assert named(tmp_path / name) == texts
        assert sum(done.counts.values()) == len(texts)
        assert told["is_partial"] is True
        assert told["filter"].keys() == conditions.keys()
        assert told["left_out"] == done.left_out > 0


async def test_an_export_without_conditions_has_everything_and_does_not_say_that_it_is_a_part(
    open_filled, tmp_path
):
    async with open_filled() as filled:
        done = await write_readable(filled, tmp_path / "all.jsonl", only=ExportFilter())

        assert "filter" not in json.loads((tmp_path / "all.jsonl").read_text().split("\n")[0])
        assert (done.conditions, done.left_out) == ({}, 0)
        assert sum(done.counts.values()) == 7


async def test_a_part_of_the_events_restores_these_memories_and_no_others(open_filled, open_again, tmp_path):
    async with open_filled() as filled:
        count, done = await write_part(filled, tmp_path / "part.jsonl", ExportFilter(theme="infra"))
        async with open_again() as other:
            await other.import_(tmp_path / "part.jsonl")
            paths = [memory.path for memory in await other.persona_recall(include_forgotten=True)]
            passages = await other.mind.archive.all()

        assert (count, done.left_out) == (2, 5)
        assert paths == ["projects/web/db"]
        assert [passage.content for passage in passages] == ["a passage"]


async def test_a_part_of_the_events_has_all_pieces_of_a_long_block_and_no_log(
    open_filled, open_again, tmp_path
):
    async with open_filled() as filled:
        _, done = await write_part(filled, tmp_path / "part.jsonl", ExportFilter(prefix="mind/"))
        async with open_again() as other:
            await other.import_(tmp_path / "part.jsonl")
            block = await other.mind.blocks.get("notes")
            entries = await other.mind.log.entries()

        assert (block.is_whole, len(block.value), entries) == (True, 19_000, [])
        assert "the log is left out" in done.notes[0]


async def test_where_nothing_fulfils_the_filter_nothing_is_written(open_filled, tmp_path):
    async with open_filled() as filled:
        with pytest.raises(InvalidInput, match="none of 7 memories fulfils the filter"):
            await write_readable(filled, tmp_path / "none", only=ExportFilter(theme="absent"))
        with pytest.raises(InvalidInput, match="the log is left out"):
            await write_part(filled, tmp_path / "none", ExportFilter(prefix="mind/log"))

        assert list(tmp_path.iterdir()) == []


async def test_a_part_goes_to_an_open_file_and_replaces_no_file_unasked(open_filled, tmp_path):
    async with open_filled() as filled:
        stream, path = io.BytesIO(), tmp_path / "part.jsonl"
        await write_part(filled, stream, ExportFilter(theme="tea"))
        path.write_text("mine")
        with pytest.raises(InvalidInput, match="exists"):
            await write_part(filled, path, ExportFilter(theme="tea"))

        assert stream.getvalue().count(b"\n") == 1
        assert path.read_text() == "mine"


@pytest.mark.parametrize("conditions", [{"theme": ""}, {"prefix": "  "}, {"since": 2.0, "until": 1.0}])
def test_a_filter_that_would_give_out_everything_or_nothing_by_mistake_is_refused(conditions):
    with pytest.raises(InvalidInput, match="nothing was written"):
        ExportFilter(**conditions)
