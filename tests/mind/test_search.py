"""One search over messages, the log and the archive."""

from __future__ import annotations

import pytest

from sense_memory import EmbeddedRelay
from sense_memory.errors import InvalidInput
from sense_memory.mind.search import Place
from tests.mind.test_conversation import talk
from tests.mind.test_log import opened


async def told(store):
    conversation = talk(store)
    await conversation.add("user", "My sister Kaja moved to Graz last spring.")
    await conversation.add("assistant", "Noted. Does she like the mountains there?")
    await store.mind.log.append("world.observed", {"text": "A storm closed the road to Graz."}, actor="world")
    await store.mind.archive.insert("Kaja restores old violins.", ["people", "music"], topics=["family"])
    await store.mind.archive.insert("The deploy key rotates in May.", "work, keys")


async def texts(store, query, **options):
    return [hit.text for hit in await store.mind.search(query, **options)]


async def test_messages_entries_and_passages_are_found_by_one_search():
    async with opened() as store:
        await told(store)
        found = await store.mind.search("Kaja Graz", 10)
        assert {hit.place for hit in found} == set(Place)
        assert found[0].text == "My sister Kaja moved to Graz last spring."
        assert all(hit.why for hit in found)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"within": ["archive"]}, ["Kaja restores old violins."]),
        ({"within": ["log"]}, ["A storm closed the road to Graz."]),
        ({"within": ["conversation"], "limit": 1}, ["My sister Kaja moved to Graz last spring."]),
        ({"tags": ["music"]}, ["Kaja restores old violins."]),
        ({"tags": ["keys"]}, []),
        ({"topic": "family"}, ["Kaja restores old violins."]),
        ({"conversation": "c1", "limit": 1}, ["My sister Kaja moved to Graz last spring."]),
        ({"conversation": "elsewhere"}, []),
    ],
)
async def test_a_search_can_be_narrowed(options, expected):
    async with opened() as store:
        await told(store)
        assert await texts(store, "Kaja in Graz", **options) == expected


async def test_what_is_appended_changed_or_removed_is_found_so_at_once():
    async with opened() as store:
        await told(store)
        assert await texts(store, "zither") == []
        entry = await store.mind.log.append("agent.thought", {"text": "I would like a zither"}, actor="me")
        passage = await store.mind.archive.insert("A zither has strings.", source="entry-1")
        assert {"I would like a zither", "A zither has strings."} <= set(await texts(store, "zither"))
        await store.mind.archive.insert("It has many strings.", source=passage.source)
        await store.mind.log.remove(entry.id)
        assert await texts(store, "zither") == []
        await store.mind.archive.delete(passage.id)
        assert await texts(store, "strings") == []


async def test_a_bare_machine_finds_everything():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            await told(store)
            expected = await store.mind.archive.all()
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert await bare.mind.archive.all() == expected
            assert (await texts(bare, "violins"))[0] == "Kaja restores old violins."
            assert await bare.mind.archive.tags() == {"keys": 1, "music": 1, "people": 1, "work": 1}


@pytest.mark.parametrize(("content", "tags"), [("", ()), ("  ", ()), (None, ()), ("text", [7])])
async def test_a_passage_without_text_is_refused(content, tags):
    async with opened() as store:
        with pytest.raises(InvalidInput, match="nothing was written"):
            await store.mind.archive.insert(content, tags)
        with pytest.raises(InvalidInput, match="nothing was removed"):
            await store.mind.archive.delete("nothing")
