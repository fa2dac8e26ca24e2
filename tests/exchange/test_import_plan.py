"""The plan: what becomes what; nothing that is here is replaced silently, and a second run changes nothing."""

from __future__ import annotations

import json

import pytest

from sense_memory import InvalidInput
from sense_memory.exchange import carry_out, execution, plan_import, read


DAY = 86_400


@pytest.fixture
def notes(tmp_path):
    """Writes a note of the name MEMORY.md; returns its path."""

    def notes(text, name="MEMORY.md"):
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return notes


async def values(store):
    return {memory.path: memory.value for memory in await store.persona_recall(include_forgotten=True)}


BEFORE = "## User\n- **Editor:** Vim\n- Prefers short answers in the morning\n- Lives in Berlin\n"
AFTER = "# New title\n\n## User\n- Speaks Polish\n- Prefers long answers in the morning\n- **Editor:** Helix\n- Lives in Berlin\n"


async def test_a_second_import_changes_nothing(open_store, bring, notes, fates):
    async with open_store() as store:
        assert fates(await bring(store, notes(BEFORE))) == {"new": 3}
        events = store.status().counts["events"]
        made = await bring(store, notes(BEFORE))
        assert (fates(made), made.to_write, store.status().counts["events"]) == ({"known": 3}, [], events)


async def test_an_edited_line_updates_its_memory(open_store, bring, notes, fates):
    """By its label, and by how alike the texts are; lines that moved are known again, and get the new title as theme."""
    async with open_store() as store:
        await bring(store, notes(BEFORE))
        made = await bring(store, notes(AFTER))

        assert fates(made) == {"new": 1, "changed": 3}
        assert {memory.themes for memory in await store.persona_recall()} == {("New title",)}
        assert fates(await bring(store, notes(AFTER))) == {"known": 4}
        assert made.gone == []
        assert await values(store) == {
            "memory/user/editor": "**Editor:** Helix",
            "memory/user/prefers-short-answers-in-the-morning": "Prefers long answers in the morning",
            "memory/user/lives-in-berlin": "Lives in Berlin",
            "memory/user/speaks-polish": "Speaks Polish",
        }
        assert [version.value for version in await store.history("memory/user/editor")][
            -1
        ] == "**Editor:** Vim"


PARTS = "# Shop\n## Backend\n### Style\n- Use tabs\n- Write tests\n## Frontend\n### Style\n- Write tests\n"


async def test_an_earlier_import_gets_the_headings_above_as_themes_once(
    open_store, bring, notes, fates, clock
):
    """Nothing else of the memories changes: no date, no half-life, no theme of the user, no mark."""
    path = notes(PARTS)
    origin = f"document:{path.name}"
    async with open_store() as store:
        for key, text in (("use-tabs", "Use tabs"), ("write-tests", "Write tests")):
            await store.persona_remember("memory", "style", key, text, source=f"{origin}#L4", themes=["mine"])
        await store.persona_remember("memory", "style", "later", "Use spaces")
        await store.persona_contradict("memory/style/use-tabs", "memory/style/later")
        before = {memory.path: memory for memory in await store.persona_recall()}
        clock.advance(9 * DAY)
        made = await bring(store, path)
        assert fates(made) == {"kept": 1, "changed": 1, "new": 1}
        assert [step.reason for step in made.steps if step.fate.value == "kept"] == [
            "a mark of contradiction is here; --replace adds the file's themes, and removes the mark"
        ]
        after = {memory.path: memory for memory in await store.persona_recall()}
        assert after["memory/style/use-tabs"].superseded_by == "memory/style/later"
        assert after["memory/style/write-tests"].themes == ("mine", "Shop", "Backend")
        assert after["memory/style/write-tests-2"].themes == ("Shop", "Frontend")
        old, new = before["memory/style/write-tests"], after["memory/style/write-tests"]
        assert (new.created_at, new.last_accessed) == (old.created_at, old.last_accessed)
        assert fates(await bring(store, path)) == {"kept": 1, "known": 2}
        assert fates(await bring(store, path, replaces=True)) == {"changed": 1, "known": 2}
        assert (await store.search("Backend", limit=1))[0].key in {"use-tabs", "write-tests"}


async def test_equal_lines_keep_their_headings_when_the_parts_change_places(open_store, bring, notes, fates):
    top, backend, frontend = (
        PARTS.partition("## Backend")[0],
        *PARTS.partition("## Backend")[2].split("## Frontend"),
    )
    async with open_store() as store:
        await bring(store, notes(PARTS))
        made = await bring(store, notes(f"{top}## Frontend{frontend}## Backend{backend}"))
        assert (fates(made), made.gone) == ({"known": 3}, [])


async def test_themes_of_the_user_stay_when_the_themes_of_the_file_do_not_fit(
    open_store, bring, notes, fates
):
    async with open_store() as store:
        await bring(store, notes("## User\n- likes tea\n"))
        mine = [f"mine{number}" for number in range(63)]
        await store.persona_remember("memory", "user", "likes-tea", "likes tea", themes=mine)
        made = await bring(store, notes("# Kitchen\n## Lists\n### User\n- likes tea\n"))
        (memory,) = await store.persona_recall("memory", "user", "likes-tea")
        assert memory.themes == (*mine, "Kitchen")
        assert made.notes == ["memory/user/likes-tea has 64 themes; these did not fit: Lists"]
        assert fates(await bring(store, notes("# Kitchen\n## Lists\n### User\n- likes tea\n"))) == {
            "known": 1
        }


async def test_a_text_changed_here_stays_while_the_line_in_the_file_does_not_change(
    open_store, bring, notes, fates
):
    async with open_store() as store:
        await bring(store, notes(BEFORE))
        await store.persona_remember("memory", "user", "editor", "Uses Zed")
        made = await bring(store, notes(BEFORE))

        assert fates(made) == {"kept": 1, "known": 2}
        assert (await values(store))["memory/user/editor"] == "Uses Zed"
        assert fates(await bring(store, notes(AFTER.replace("Helix", "Vim")))) == {
            "kept": 1,
            "changed": 2,
            "new": 1,
        }
        assert fates(await bring(store, notes(BEFORE), replaces=True))["changed"] >= 1
        assert (await values(store))["memory/user/editor"] == "**Editor:** Vim"


async def test_a_line_that_was_taken_out_is_named_and_its_memory_stays(open_store, bring, notes):
    async with open_store() as store:
        await bring(store, notes(BEFORE))
        made = await bring(store, notes("## User\n- Lives in Berlin\n"))

        assert made.gone == ["memory/user/editor", "memory/user/prefers-short-answers-in-the-morning"]
        assert len(await values(store)) == 3


async def test_another_memory_with_the_name_is_not_touched(open_store, bring, notes, fates):
    async with open_store() as store:
        await store.persona_remember("memory", "user", "editor", "Emacs, says the user", source="user")
        made = await bring(store, notes(BEFORE))

        assert (await values(store))["memory/user/editor"] == "Emacs, says the user"
        assert (await values(store))["memory/user/editor-2"] == "**Editor:** Vim"
        assert [step.reason for step in made.steps if step.reason] == ["memory/user/editor is another memory"]
        assert fates(await bring(store, notes(BEFORE))) == {"known": 3}


async def test_links_follow_memories_that_got_another_name(open_store, bring, notes):
    async with open_store() as store:
        await store.persona_remember("notes", "notes", "Lisa", "somebody else")
        notes("knows [[Max]]", "Lisa.md")
        folder = notes("brother of [[Lisa]]", "Max.md").parent
        await bring(store, folder)

        (max_,) = await store.persona_recall("notes", "notes", "Max")
        assert max_.connections == ("notes/notes/Lisa-2",)


async def test_a_flat_memory_that_differs_stays_unless_it_shall_be_replaced(open_store, bring, notes, fates):
    async with open_store() as store:
        await store.remember("city", "Porto")
        path = notes(json.dumps({"city": "Lisbon", "lang": "pt"}), "x.json")

        assert fates(await bring(store, path)) == {"kept": 1, "new": 1}
        assert (await store.recall("city")).value == "Porto"
        assert fates(await bring(store, path, replaces=True)) == {"changed": 1, "known": 1}
        assert (await store.recall("city")).value == "Lisbon"


async def test_an_object_of_another_program_is_known_by_its_id(open_store, bring, notes, fates):
    async with open_store() as store:
        memory = {"id": "a1", "memory": "Likes tea", "user_id": "u", "categories": ["food"]}
        await bring(store, notes(json.dumps({"results": [memory]}), "x.json"))
        made = await bring(store, notes(json.dumps([memory | {"memory": "Prefers strong coffee"}]), "y.json"))

        assert fates(made) == {"changed": 1}
        assert await values(store) == {"people/food/likes-tea": "Prefers strong coffee"}


async def test_dates_count_for_the_decay_and_future_ones_are_said(open_store, bring, notes, clock):
    async with open_store() as store:
        notes("---\ncreated: 2025-01-01\n---\nold", "Old.md")
        notes("---\ncreated: 2999-01-01\n---\nahead", "Ahead.md")
        folder = notes("undated", "New.md").parent
        made = await bring(store, folder)

        ages = {
            memory.key: clock() - memory.created_at
            for memory in await store.persona_recall(include_forgotten=True)
        }
        assert ages == {"Old": pytest.approx(clock() - 1_735_732_800), "Ahead": 0, "New": 0}
        assert any("future" in note for note in made.notes)


@pytest.mark.parametrize("plan", ["self_hosted", "free"])
async def test_nothing_arrives_forgotten_however_old_it_is(open_store, bring, notes, clock, plan):
    """Otherwise nobody would see it before `palace prune` removes it."""
    notes("---\ncreated: 2010-03-14\n---\nvery old", "Oldest.md")
    notes("---\ncreated: 2020-01-01\nupdated: 2021-03-14\n---\nold", "Old.md")
    folder = notes("undated", "New.md").parent
    async with open_store(plan=plan) as store:
        made = await bring(store, folder)

        found = {memory.key: memory for memory in await store.persona_recall()}
        state = "fading" if plan == "self_hosted" else "active"
        assert {key: memory.state.value for key, memory in found.items()} == {
            "Oldest": state, "Old": state, "New": "active",
        }  # fmt: skip
        assert found["Oldest"].created_at == 1_268_568_000
        assert dict(made.states) == {state: 2, "active": 1} | ({"active": 3} if state == "active" else {})
        assert "so old that they would arrive forgotten: 2" in made.notes[0]
        assert {step.fate.value for step in (await bring(store, folder)).steps} == {"known"}


async def test_a_half_life_is_given_to_what_an_earlier_import_wrote(open_store, bring, notes, fates, clock):
    path = notes("---\ndate: 2026-03-14\n---\n- likes tea\n")
    async with open_store() as store:
        await store.persona_remember("memory", "notes", "own", "said here")
        await bring(store, path, halflife_days=1_000)
        clock.advance(20_000 * DAY)
        assert "here and forgotten by now: 1" in (await bring(store, path)).notes[0]

        made = await bring(store, path, halflife_days=3_650)
        assert (fates(made), made.notes) == ({"changed": 1}, [])
        (memory,) = await store.persona_recall("memory", "notes", "likes-tea", revive=False)
        assert (memory.current_relevance, memory.created_at) == (pytest.approx(0.25), 1_773_489_600)
        assert memory.halflife_days == pytest.approx(10_100, rel=0.02)  # half its age: 3,650 would not do
        assert fates(await bring(store, path, halflife_days=3_650)) == {"known": 1}
        assert (await store.persona_recall("memory", "notes", "own"))[0].halflife_days == 30


async def test_a_half_life_is_for_memories_that_bring_none(open_store, bring, notes):
    async with open_store() as store:
        path = notes(json.dumps([{"content": "a"}, {"content": "b", "halflife_days": 7}]), "x.json")
        await bring(store, path, halflife_days=365)
        found = await store.persona_recall(include_forgotten=True)
        assert {memory.value: memory.halflife_days for memory in found} == {"a": 365, "b": 7}


@pytest.mark.parametrize(("into", "paths"), [
    ("work", {"work/user/editor", "work/user/prefers-short-answers-in-the-morning", "work/user/lives-in-berlin"}),
    ("work/me", {"work/me/editor", "work/me/prefers-short-answers-in-the-morning", "work/me/lives-in-berlin"}),
])  # fmt: skip
async def test_the_place_can_be_chosen(open_store, bring, notes, into, paths):
    async with open_store() as store:
        await bring(store, notes(BEFORE), into=into)
        assert set(await values(store)) == paths
        with pytest.raises(InvalidInput):
            await plan_import(store, read(notes(BEFORE)), into="flat/x")


async def test_a_text_too_long_for_an_event_is_taken_in_parts(open_store, bring, notes, fates):
    text = "# Long\n\n" + "Grüße, ein Absatz.\n\n" * 5_000
    async with open_store() as store:
        folder = notes(text, "Long.md").parent
        made = await bring(store, folder)
        found = await values(store)

        names = [
            "notes/notes/Long",
            *(f"notes/notes/Long part {number}" for number in range(2, len(found) + 1)),
        ]
        assert len(names) > 2
        assert "".join(found[name] for name in names) == text.strip()
        assert (await store.persona_recall("notes", "notes", "Long part 2"))[0].connections == (
            "notes/notes/Long",
        )
        assert set(fates(await bring(store, folder))) == {"known"}
        assert len(made.steps) == len(found)


async def test_a_day_that_goes_on_gets_what_was_added(open_store, bring, notes, fates):
    async with open_store() as store:
        await bring(store, notes("woke up\n", "2026-11-20.md"))
        made = await bring(store, notes("woke up\nhad tea\n\n## Evening\nread\n", "2026-11-20.md"))

        assert fates(made) == {"new": 2}
        assert [entry.content for entry in await store.recent()] == ["## Evening\nread", "had tea", "woke up"]
        again = await bring(store, notes("woke up\nhad tea\n\n## Evening\nread\n", "2026-11-20.md"))
        assert fates(again) == {"known": 2}


async def test_what_a_store_refuses_is_named_and_stops_nothing_else(open_store, notes):
    bad = {"sense-memory": "palace", "path": "a/b/../c", "text": "x"}
    lines = [bad, bad | {"path": "a/b/c", "text": " "}, bad | {"path": "a/b/d", "connections": ["?"]}]
    good = {"sense-memory": "flat", "path": "k", "text": "good"}
    text = "\n".join(map(json.dumps, [*lines, good]))
    async with open_store() as store:
        made = await plan_import(store, read(notes(text, "x.jsonl")))
        done = await carry_out(store, made)

        assert [problem.line for problem in made.problems] == [1, 2]
        assert [problem.line for problem in done.problems] == [3]
        assert {memory.key for memory in await store.recall_all()} == {"k"}


async def test_an_import_that_was_interrupted_is_completed_by_the_next(
    open_store, notes, bring, fates, monkeypatch
):
    monkeypatch.setitem(execution._BATCH, execution.ItemKind.PALACE, 10)
    path = notes("## L\n" + "".join(f"- point number {number}\n" for number in range(35)))

    def stop(count):
        if count >= 20:
            raise KeyboardInterrupt

    async with open_store() as store:
        with pytest.raises(KeyboardInterrupt):
            await carry_out(store, await plan_import(store, read(path)), progress=stop)
        assert len(await values(store)) == 20
        assert fates(await bring(store, path)) == {"known": 20, "new": 15}
        assert len(await values(store)) == 35


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MEMORY.md", "- Prefers tea\n"),
        ("flat.json", '{"user_timezone": "Europe/Lisbon"}'),
        ("2026-11-20.md", "Met Lisa.\n"),
    ],
    ids=["palace", "flat", "journal"],
)
async def test_a_plan_says_so_where_relays_may_hold_what_is_not_here(open_store, notes, name, text):
    async with open_store(relays=["ws://127.0.0.1:9"], read_timeout=0.01) as store:
        made = await plan_import(store, read(notes(text, name)))

    assert len(made.to_write) == 1
    assert ["no relay has shown everything yet" in note for note in made.notes] == [True]
