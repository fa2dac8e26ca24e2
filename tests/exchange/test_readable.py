"""The readable export: plain text that a person can read and edit, and that imports back word for word."""

from __future__ import annotations

import asyncio
import json
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sense_memory import InvalidInput
from sense_memory.exchange import Fate, carry_out, plan_import, read, write_readable
from sense_memory.exchange.readable import safe_name
from sense_memory.mind.log import NewEntry


HARD = [
    "trailing spaces   \n\n\n",
    "---\nnot: front matter\n---\n",
    "\r\nwindows\r\nlines\r\n",
    "\ufeffBOM, \u2028 separators \u0085 and \x00 nul\x0b",
    "\U0001f469\u200d\U0001f467 \xdcn\xef — 漢字 \u202ertl",
    "# heading\n\n```\ncode\n```\n",
    "\n",  # blank, and so only a part of others
    "{}",
    "...",
]
TEXTS = [text for text in HARD if text.strip()]
NAMES = [
    "Lisa",
    "lisa",
    "LISA ",
    "con",
    "nul.txt",
    "a.",
    "a ",
    'q?*<>|:"',
    "é",
    "e\u0301x",
    "x" * 250,
    "ﬁ",
    "fi",
    "--",
    "#1",
    "emoji 👍",
]


async def everything(store):
    """What a store holds, comparable with another store; times to the microsecond."""

    def told(value):
        return round(value, 5) if isinstance(value, float) else value

    palace = {
        memory.path: {
            name: told(value)
            for name, value in memory.model_dump().items()
            if name not in {"seen", "event_id", "current_relevance", "state"}
        }
        for memory in await store.persona_recall(include_forgotten=True)
    }
    flat = {memory.key: (memory.value, told(memory.created_at)) for memory in await store.recall_all()}
    journal = [(entry.content, told(entry.created_at)) for entry in await store.recent(1_000)]
    records = store.mind.records
    mind = {
        record.path: {name: value for name, value in record.fields.items() if name not in {"seen", "said"}}
        for part in ("block", "archive", "topic", "objective", "conversation")
        for record in await records.under(f"mind/{part}/")
    }
    identity = await records.read("mind/identity")
    log = await store.mind.log.entries()
    kernel = identity and {name: identity.fields[name] for name in identity.fields.keys() - {"seen", "said"}}
    return palace, flat, journal, mind, kernel, log


async def fill(store, clock):
    """A bit of everything, with texts and names that are hard to write down."""
    memories = [
        {"domain": "d.", "facet": "Con", "key": name, "value": text, "created_at": clock() - 1e6 * number}
        for number, (name, text) in enumerate(zip(NAMES, TEXTS * 3, strict=False), 1)
    ]
    await store.persona_remember_many(memories, contradictions="off")
    await store.persona_remember(
        "people", "facts", "lisa", "Lisa: likes tea", ["tea", "a, b", "pinned"], ["d./Con/con"]
    )
    await store.persona_remember(
        "people", "facts", "max", "x", halflife_days=365.25, source="document:a#L1", confidence=0.25
    )
    await store.persona_contradict("people/facts/max", "people/facts/lisa")
    await store.persona_recall("people", "facts", "max")
    await store.remember_many([(name, text) for name, text in zip(NAMES, TEXTS * 3, strict=False)])
    for text in [*TEXTS, "twice", "twice"]:
        await store.journal(text)
        clock.advance(3_600.5)
    mind = store.mind
    await mind.blocks.update("persona", value=TEXTS[0])
    await mind.blocks.create("notes", TEXTS[4], description="d: 'x'", limit=99, read_only=True)
    passage = await mind.archive.insert(TEXTS[2], ["tag, with comma"], topics=["t"], title="T")
    await mind.topics.update("t") if hasattr(mind.topics, "update") else None
    await mind.identity.set_objective("win", priority=1)
    await mind.records.write(
        {"mind/identity": {"themes": "I am.\n", "roles": ["r"], "ts": clock(), "newer": {"x": 1}}}
    )
    conversation = mind.conversation("a: b")
    for number, text in enumerate(TEXTS):
        await conversation.add(
            "user" if number % 2 else "assistant", text, name="N", at=clock() - 100 + number
        )
    await mind.log.append(
        "world.observed", {"deep": {"list": [1, 2.5, None]}, "text": passage.id}, actor="me", turn=3
    )


@pytest.mark.parametrize("name", ["out", "out.jsonl"])
async def test_a_readable_export_imports_back_word_for_word(open_store, bring, clock, tmp_path, name):
    async with open_store() as one, open_store() as other:
        await fill(one, clock)
        exported = await write_readable(one, tmp_path / name)
        made = await bring(other, tmp_path / name)

        assert await everything(other) == await everything(one)
        assert {step.fate for step in made.steps} == {Fate.NEW}
        assert sum(exported.counts.values()) == len(made.steps)
        again = await bring(other, tmp_path / name)
        assert {step.fate for step in again.steps} == {Fate.KNOWN}
        assert (again.problems, again.gone) == ([], [])


_NAME = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda name: (
        name.strip() and ".." not in name and not name.startswith("~") and not set(name) & {"/", "\\"}
    )
)
_TEXT = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=60).filter(str.strip)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    places=st.lists(
        st.tuples(_NAME.filter(lambda name: name != "flat"), _NAME, _NAME, _TEXT), min_size=1, max_size=6
    ),
    flat=st.dictionaries(_NAME, _TEXT, max_size=4),
)
@pytest.mark.parametrize("name", ["out", "out.jsonl"])
def test_whatever_the_names_and_texts_are(open_store, tmp_path_factory, places, flat, name):
    async def moved():
        target = tmp_path_factory.mktemp("x") / name
        async with open_store() as one, open_store() as other:
            await one.persona_remember_many(
                [{"domain": d, "facet": f, "key": k, "value": v} for d, f, k, v in places],
                contradictions="off",
            )
            await one.remember_many(flat)
            await write_readable(one, target)
            made = await plan_import(other, read(target))
            assert made.problems == []
            await carry_out(other, made)
            assert (await everything(other))[:2] == (await everything(one))[:2]

    asyncio.run(moved())


async def test_relays_that_never_answered_do_not_stop_an_import(open_store, bring, tmp_path, fates):
    async with open_store() as store:
        await store.mind.blocks.update("human", value="Anna")
        await write_readable(store, tmp_path / "out")
    async with open_store(relays=["ws://127.0.0.1:9"]) as other:
        made = await bring(other, tmp_path / "out")
        assert fates(made) == {"new": 1}
        assert (await other.mind.blocks.get("human")).value == "Anna"


async def test_a_part_of_an_export_is_one_too(open_store, bring, tmp_path, fates):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "likes tea")
        await store.mind.blocks.update("human", value="Anna")
        await write_readable(store, tmp_path / "out")
        for part in ("palace", "palace/people", "mind", "mind/block/human.md"):
            assert fates(await bring(store, tmp_path / "out" / part)) == {"known": 1}


async def test_only_the_owner_can_read_the_files(open_store, clock, tmp_path):
    async with open_store() as store:
        await fill(store, clock)
        await write_readable(store, tmp_path / "out")
        await write_readable(store, tmp_path / "out.jsonl")

    paths = list((tmp_path / "out").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert "plain text" in (tmp_path / "out" / "README.md").read_text()


async def test_files_of_others_are_never_overwritten(open_store, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.md").write_text("mine")
    (tmp_path / "mine.jsonl").write_text("mine")
    async with open_store() as store:
        await store.remember("k", "v")
        for target in (tmp_path / "mine", tmp_path / "mine.jsonl"):
            with pytest.raises(InvalidInput, match="not touched"):
                await write_readable(store, target)

    assert (tmp_path / "mine" / "thesis.md").read_text() == "mine" == (tmp_path / "mine.jsonl").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "mine.jsonl"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "CON", "com1.txt", "a" * 300, "x.", " x ", "", ".hid", "a\0b"]
)
def test_a_name_is_safe_on_every_file_system(name):
    found = safe_name(name)

    assert "/" not in found
    assert found not in {"", ".", ".."}
    assert len(found.encode()) <= 101
    assert not found.startswith((".", " "))
    assert not found.endswith((".", " "))
    assert found.partition(".")[0].lower() not in {"con", "com1"}


async def test_an_edit_of_a_file_is_an_edit_of_its_memory(open_store, bring, tmp_path, fates):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "likes tea", ["tea"])
        await store.persona_remember("people", "facts", "max", "likes rum")
        await write_readable(store, tmp_path / "out")
        lisa = tmp_path / "out" / "palace" / "people" / "facts" / "lisa.md"
        lisa.write_text(
            lisa.read_text().replace("likes tea", "likes coffee").replace('["tea"]', "[coffee, drinks]")
        )
        made = await bring(store, tmp_path / "out")

        (found,) = await store.persona_recall("people", "facts", "lisa")
        assert (found.value, found.themes) == ("likes coffee", ("coffee", "drinks"))
        assert fates(made) == {"known": 1, "changed": 1}
        assert [version.value for version in await store.history("people/facts/lisa")][-1] == "likes tea"


async def test_what_changed_here_since_the_export_stays(open_store, bring, tmp_path, fates):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "likes tea")
        await store.remember("city", "Lisbon")
        await store.mind.blocks.update("human", value="one")
        await write_readable(store, tmp_path / "out")
        await store.persona_remember("people", "facts", "lisa", "likes coffee")
        await store.remember("city", "Porto")
        await store.mind.blocks.update("human", value="two")
        made = await bring(store, tmp_path / "out")

        assert fates(made) == {"kept": 3}
        assert {step.reason for step in made.steps} == {"changed here since the export"}
        assert (await store.recall("city")).value == "Porto"

        await bring(store, tmp_path / "out", replaces=True)
        assert (await store.recall("city")).value == "Lisbon"
        assert (await store.persona_recall("people", "facts", "lisa"))[0].value == "likes tea"
        assert (await store.mind.blocks.get("human")).value == "one"


async def test_an_editor_that_changes_all_line_breaks_changes_no_memory(open_store, bring, tmp_path, fates):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "one\ntwo\n")
        await write_readable(store, tmp_path / "out")
        (path,) = (tmp_path / "out" / "palace").rglob("*.md")
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

        assert fates(await bring(store, tmp_path / "out")) == {"known": 1}


async def test_what_was_damaged_is_named_and_the_rest_is_taken(open_store, tmp_path):
    async with open_store() as store:
        for key in ("a", "b", "c"):
            await store.persona_remember("d", "f", key, f"text {key}")
        await write_readable(store, tmp_path / "out")
        await write_readable(store, tmp_path / "out.jsonl")
    facet = tmp_path / "out" / "palace" / "d" / "f"
    (facet / "a.md").write_text("no front matter")
    (facet / "b.md").write_text('---\nsense-memory: "palace"\n---\nlost its path\n')
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    (tmp_path / "out.jsonl").write_text(
        "\n".join([lines[0], "{broken", json.dumps({"sense-memory": "palace"}), lines[3]])
    )
    async with open_store() as store:
        made = await plan_import(store, read(tmp_path / "out"))
        assert [(problem.file, problem.line) for problem in made.problems] == [
            ("out/palace/d/f/a.md", 0),
            ("out/palace/d/f/b.md", 1),
        ]
        assert [step.item.path for step in made.steps] == ["d/f/c"]
        made = await plan_import(store, read(tmp_path / "out.jsonl"))
        assert [problem.line for problem in made.problems] == [2, 3]
        assert [step.item.path for step in made.steps] == ["d/f/c"]


async def test_a_file_cannot_bring_the_keys_of_scenes(open_store, tmp_path):
    line = {"sense-memory": "mind", "path": "mind/scene/x", "text_is": "", "fields": {"key": "k"}}
    (tmp_path / "x.jsonl").write_text(json.dumps(line))
    async with open_store() as store:
        made = await plan_import(store, read(tmp_path / "x.jsonl"))
        assert ([problem.line for problem in made.problems], made.steps) == ([1], [])


async def test_an_imported_log_is_the_same_on_both_devices(open_store, bring, tmp_path):
    async with open_store() as one, open_store() as other:
        await one.mind.log.append_many([NewEntry("k", {"n": number}, "me") for number in range(300)])
        await write_readable(one, tmp_path / "out.jsonl")
        await bring(other, tmp_path / "out.jsonl")
        await other.mind.flush()
        assert await other.mind.log.entries() == await one.mind.log.entries()


async def test_an_export_of_a_newer_version_is_not_guessed_at(open_store, tmp_path):
    async with open_store() as store:
        await store.remember("k", "v")
        await write_readable(store, tmp_path / "out")
        await write_readable(store, tmp_path / "out.jsonl")
    for path in (tmp_path / "out" / "sense-memory.json", tmp_path / "out.jsonl"):
        path.write_text(
            path.read_text().replace('"version": 1', '"version": 2').replace('"version":1', '"version":2')
        )
    with pytest.raises(InvalidInput, match="update sense-memory"):
        read(tmp_path / "out")
    assert [problem.reason[:15] for problem in read(tmp_path / "out.jsonl").problems] == ["a newer version"]


@pytest.mark.parametrize("name", ["out", "out.jsonl"])
async def test_a_block_that_lies_in_several_events_comes_back_whole(name, tmp_path, open_store, bring, fates):
    """19,000 Chinese characters have 57,000 bytes, more than an event."""
    text = "".join(chr(0x4E00 + number % 5_000) for number in range(19_000))
    async with open_store() as store:
        await store.mind.blocks.create("big", text, read_only=True)
        await write_readable(store, tmp_path / name)
        assert fates(await bring(store, tmp_path / name)) == {"known": 1}
    async with open_store() as other:
        await bring(other, tmp_path / name)
        block = await other.mind.blocks.get("big")
        assert (block.value, block.is_whole, block.read_only) == (text, True, True)
        assert fates(await bring(other, tmp_path / name)) == {"known": 1}
