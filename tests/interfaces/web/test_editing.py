"""What the page may change, as its API has it: edits of what was shown, taken back one by one."""

from __future__ import annotations

import json
import random

import pytest

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.web.server import MAX_BODY_BYTES
from sense_memory.limits import MAX_THEMES_COUNT
from tests.interfaces.web.test_api import Client


LISA = "people/facts/lisa"


class Page:
    """The page of a person, who edits what it shows."""

    def __init__(self, store, clock, **options) -> None:
        self.store, self.ask = store, Client(store, clock, **options)

    async def edit(self, **wanted):
        return await self.ask("/api/edit", "POST", json.dumps(wanted).encode())

    async def done(self, **wanted):
        """The edit that was made; it has to succeed."""
        status, told = await self.edit(**wanted)
        assert 200 == status, told
        return told["edit"]

    async def seen(self, path):
        return (await self.ask(f"/api/memory?path={path}"))[1]["memory"]["event_id"]

    async def value(self, path):
        _, told = await self.ask(f"/api/memory?path={path}")
        return told["memory"]["value"] if "memory" in told else None


async def test_a_person_writes_a_memory_and_takes_that_back(opened, clock):
    async with opened() as store:
        page = Page(store, clock)
        made = await page.done(action="write", path=LISA, value="artist", seen=None, themes=["art"])
        memory = await store.palace.recall(LISA, revive=False)
        assert ("new", LISA, "artist", ("art",), "user") == (
            *(made["action"], made["path"]),
            *(memory.value, memory.themes, memory.source),
        )
        back = await page.done(action="take-back", number=made["number"])

        assert (True, False) == (back["is_taken_back"], back["is_undoable"])
        assert await store.palace.recall(LISA) is None


@pytest.mark.parametrize("path", [LISA, "user_timezone"])
async def test_edits_are_taken_back_one_by_one_down_to_the_first_text(opened, clock, path):
    async with opened() as store:
        page = Page(store, clock)
        await store.remember(path, "one")
        numbers = []
        for text in ("two", "three"):
            made = await page.done(action="write", path=path, value=text, seen=await page.seen(path))
            numbers.append(made["number"])

        status, told = await page.edit(action="take-back", number=numbers[0])
        assert (409, "EditConflict") == (status, told["error"]["type"])  # the later one first
        for number, text in zip(reversed(numbers), ("two", "one"), strict=True):
            await page.done(action="take-back", number=number)
            assert text == await page.value(path)
        status, told = await page.edit(action="take-back", number=numbers[0])
        assert 400 == status
        assert "edit 1 was taken back already" in told["error"]["message"]


@pytest.mark.parametrize("path", [LISA, "user_timezone"])
async def test_a_text_that_changed_elsewhere_is_answered_and_stays(opened, clock, path):
    async with opened() as store:
        page = Page(store, clock)
        await store.remember(path, "artist")
        seen = await page.seen(path)
        await store.remember(path, "moved to Bremen")
        edits = [
            {"action": "write", "value": "potter"},
            {"action": "forget", "typed": path.rpartition("/")[2]},
            {"action": "move", "to": path + "-2"},
        ]
        for wanted in edits:
            status, told = await page.edit(path=path, seen=seen, **wanted)

            assert (409, "EditConflict", "moved to Bremen") == (
                status,
                told["error"]["type"],
                told["now"]["value"],
            )
        await store.forget(path)
        status, told = await page.edit(path=path, seen=seen, **edits[0])
        assert (409, None, None) == (status, told["now"], await page.value(path))
        assert [] == (await page.ask("/api/edits"))[1]["edits"]


@pytest.mark.parametrize("path", [LISA, "user_timezone"])
async def test_a_memory_moves_and_moves_back(opened, clock, path):
    async with opened() as store:
        page, to = Page(store, clock), path.replace("facts", "plans") + "-2"
        await store.remember(path, "artist")
        made = await page.done(action="move", path=path, to=to, seen=await page.seen(path))
        assert (None, "artist") == (await page.value(path), await page.value(to))
        await page.done(action="take-back", number=made["number"])

        assert ("artist", None) == (await page.value(path), await page.value(to))


@pytest.mark.parametrize("path", [LISA, "user_timezone"])
async def test_a_memory_is_forgotten_once_its_key_was_typed_and_comes_back(opened, clock, path):
    async with opened() as store:
        page, key = Page(store, clock), path.rpartition("/")[2]
        await store.remember(path, "artist")
        for typed in ("", "forget", key.upper()):
            status, told = await page.edit(
                action="forget", path=path, seen=await page.seen(path), typed=typed
            )
            assert (400, f"type '{key}' to forget it; nothing was changed") == (
                status,
                told["error"]["message"],
            )
        made = await page.done(action="forget", path=path, seen=await page.seen(path), typed=key)
        assert await page.value(path) is None
        await page.done(action="take-back", number=made["number"])

        assert "artist" == await page.value(path)


async def test_a_key_that_nobody_can_type_is_forgotten_with_a_word(opened, clock):
    async with opened() as store:
        page, path = Page(store, clock), "people/facts/li\u202esa"
        await store.palace.remember(path, "artist")
        memory = await store.palace.recall(path, revive=False)
        await page.done(action="forget", path=path, seen=memory.event_id, typed="forget")

        assert await store.palace.recall(path) is None


@pytest.mark.parametrize("path", [LISA, "user_timezone"])
@pytest.mark.parametrize("action", ["new", "write", "move", "forget"])
async def test_taking_an_edit_back_touches_no_text_that_was_written_later(opened, clock, path, action):
    async with opened() as store:
        page, to = Page(store, clock), path + "-2"
        if action != "new":
            await store.remember(path, "artist")
        seen = None if action == "new" else await page.seen(path)
        wanted = {"action": "write" if action == "new" else action, "path": path, "seen": seen}
        more = {"move": {"to": to}, "forget": {"typed": path.rpartition("/")[2]}}
        made = await page.done(**wanted, **more.get(action, {"value": "potter"}))
        there = to if action == "move" else path
        await store.remember(there, "moved to Bremen")
        status, told = await page.edit(action="take-back", number=made["number"])

        assert (409, "moved to Bremen") == (status, told["now"]["value"])
        assert "moved to Bremen" == await page.value(there)
        assert not (await page.ask("/api/edits"))[1]["edits"][0]["is_taken_back"]


@pytest.mark.parametrize("text", ["two", "one"])
async def test_taking_an_edit_back_leaves_the_themes_that_were_added_later(opened, clock, text):
    async with opened() as store:
        page = Page(store, clock)
        await store.palace.remember(LISA, "one", themes=["art"])
        made = await page.done(
            action="write", path=LISA, value=text, seen=await page.seen(LISA), themes=["stone"]
        )
        await store.palace.pin(LISA)
        await page.done(action="take-back", number=made["number"])

        memory = await store.palace.recall(LISA, revive=False)
        assert (memory.value, set(memory.themes)) == ("one", {"art", "pinned"})


async def test_a_pin_and_a_journal_entry_are_taken_back(opened, clock):
    async with opened() as store:
        page = Page(store, clock)
        await store.remember(LISA, "artist")
        pin = await page.done(action="pin", path=LISA)
        entry = await page.done(action="journal", value="Met Lisa.")
        assert ("pinned",) == (await store.palace.recall(LISA, revive=False)).themes
        assert ["Met Lisa."] == [one.content for one in await store.journal.recent()]
        for made in (entry, pin):
            await page.done(action="take-back", number=made["number"])

        assert () == (await store.palace.recall(LISA, revive=False)).themes
        assert [] == await store.journal.recent()
        _, told = await page.ask("/api/edits")
        assert [("journal", True), ("pin", True)] == [
            (one["action"], one["is_taken_back"]) for one in told["edits"]
        ]


async def test_themes_are_taken_back_and_those_of_others_stay(opened, clock):
    async with opened() as store:
        page = Page(store, clock)
        await store.palace.remember(LISA, "artist", themes=["art", "old"])
        made = await page.done(action="themes", path=LISA, add=["new", "art"], remove=["old"])
        assert ("art", "new") == (await store.palace.recall(LISA, revive=False)).themes
        await store.edits.retheme(LISA, add=["elsewhere"])
        await page.done(action="take-back", number=made["number"])

        assert {"art", "old", "elsewhere"} == set((await store.palace.recall(LISA, revive=False)).themes)


async def test_no_memory_gets_too_many_themes(opened, clock):
    async with opened() as store:
        await store.palace.remember(LISA, "artist", themes=["art"])
        many = [f"theme {number}" for number in range(MAX_THEMES_COUNT)]
        with pytest.raises(InvalidInput, match="nothing was changed"):
            await store.edits.retheme(LISA, add=many)
        assert ("art",) == (await store.palace.recall(LISA, revive=False)).themes
        await store.edits.retheme(LISA, add=many, remove=["art"])

        assert tuple(many) == (await store.palace.recall(LISA, revive=False)).themes


async def test_an_edit_says_what_it_contradicts(opened, clock):
    async with opened() as store:
        page = Page(store, clock)
        await store.palace.remember("people/facts/home", "Lisa lives in Bremen.", source="user")
        made = await page.done(
            action="write", path="people/facts/town", value="Lisa lives in Vancouver.", seen=None
        )

        assert ["people/facts/home"] == made["superseded"] + made["suspected"]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"action": "erase"},
        {"action": ["write"]},
        {"action": "write", "path": LISA, "value": "potter"},  # without what was seen
        {"action": "write", "path": LISA, "value": None, "seen": None},
        {"action": "write", "path": LISA, "value": "potter", "seen": 7},
        {"action": "write", "path": "people/facts", "value": "potter", "seen": None},
        {"action": "write", "path": LISA, "value": "potter", "seen": None, "themes": "art"},
        {"action": "write", "path": LISA, "value": " ", "seen": None},
        {"action": "write", "path": [LISA], "value": "potter", "seen": None},
        {"action": "forget", "path": LISA, "typed": "lisa"},
        {"action": "move", "path": LISA, "seen": "0" * 64},
        {"action": "pin", "path": "user_timezone"},
        {"action": "themes", "path": "user_timezone", "add": ["clock"], "remove": []},
        {"action": "themes", "path": LISA, "add": [], "remove": ["nowhere"]},
        {"action": "take-back", "number": 99},
        {"action": "take-back", "number": "1"},
        {"action": "journal"},
    ],
)
async def test_what_is_no_edit_is_refused_and_changes_nothing(opened, clock, wanted):
    async with opened() as store:
        await store.remember("user_timezone", "UTC")
        page = Page(store, clock)
        before = store.status().counts
        status, told = await page.edit(**wanted)

        assert (400, True) == (status, "Bug" not in told["error"]["type"])
        assert before == store.status().counts


@pytest.mark.parametrize("body", [b"[]", b"7", b'"edit"', b"", b"{", b"\xff"])
@pytest.mark.parametrize("route", ["edit", "act", "sync"])
async def test_a_body_that_is_no_object_is_refused(opened, clock, route, body):
    async with opened() as store:
        status, told = await Client(store, clock)(f"/api/{route}", "POST", body)

        assert (400, "InvalidInput") == (status, told["error"]["type"])


async def test_the_largest_memory_fits_a_request_and_a_larger_one_is_refused(opened, clock):
    async with opened() as store:
        page, text = Page(store, clock), "\x01" * 38_000  # six bytes each in JSON
        status, told = await page.edit(action="write", path="big", value=text, seen=None)
        assert (400, "TooLargeError") == (status, told["error"]["type"])  # of an event, as with every door
        await page.done(action="write", path="big", value="x" * 40_000, seen=None)
        status, _ = await page.ask("/api/edit", "POST", b" " * (MAX_BODY_BYTES + 1))

        assert 400 == status
        assert "x" * 40_000 == await page.value("big")


async def test_a_page_that_only_reads_edits_nothing(opened, clock):
    async with opened() as store:
        page = Page(store, clock, edits=False)
        for route in ("edit", "act", "sync"):
            status, _ = await page.ask.raw(f"/api/{route}", "POST", b'{"action": "journal", "value": "x"}')
            assert 405 == status
        assert [] == await store.journal.recent()


async def test_a_sync_without_relays_says_that_there_are_none(opened, clock):
    async with opened() as store:
        status, told = await Client(store, clock)("/api/sync", "POST", b"{}")

        assert (200, [], False) == (status, told["relays"], told["has_relays"])


# ── The law of taking back ──────────────────────────────────────────────────────────────


async def everything(store):
    """What a person sees of the palace and of the flat memories.

    Without marks: an edit of one memory drops marks that name another one which is forgotten at that time.
    """
    palace = {
        memory.path: (memory.value, set(memory.themes), memory.created_at, set(memory.connections))
        for memory in await store.palace.memories(include_forgotten=True)
    }
    return palace | {memory.key: memory.value for memory in await store.recall_all()}


@pytest.mark.parametrize("seed", range(8))
async def test_all_edits_taken_back_in_turn_leave_everything_as_it_was(opened, clock, seed):
    draw = random.Random(seed)
    names = [f"a/b/{key}" for key in "cdef"] + ["one", "two", "three"]
    async with opened() as store:
        page = Page(store, clock)
        for name in names[:6]:
            await store.remember(name, f"text of {name}")
        await store.palace.connect("a/b/c", "a/b/d")
        await store.palace.contradict("a/b/e", "a/b/c")
        before, numbers = await everything(store), []
        while len(numbers) < 10:
            clock.advance(60)
            path, to = draw.sample(names, 2)
            is_there = path in await everything(store)
            seen = await page.seen(path) if is_there else None
            wanted = draw.choice(
                [
                    {"action": "write", "value": f"text {draw.random()}"},
                    {"action": "forget", "typed": path.rpartition("/")[2]},
                    {"action": "move", "to": to},
                    {"action": draw.choice(["pin", "unpin"])},
                ]
            )
            status, told = await page.edit(path=path, seen=seen, **wanted)
            assert status in {200, 400}, told
            if status == 200:
                numbers.append(told["edit"]["number"])
        assert before != await everything(store)
        for number in reversed(numbers):
            await page.done(action="take-back", number=number)

        assert before == await everything(store)
