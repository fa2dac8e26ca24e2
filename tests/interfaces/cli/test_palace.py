"""`palace`: memories that fade, connect and contradict, through the real program."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.time_unit import SECOND


HOSTILE = "red \x1b[31m, bidi \u202e, bell \x07 [bold]no[/bold] :smile:"
ESCAPED = "red \\u001b[31m, bidi \\u202e, bell \\u0007 [bold]no[/bold] :smile:"


def lines(result):
    return [line.split("\t") for line in result.stdout.splitlines()]


# ── remember, recall ────────────────────────────────────────────────────────────────────


def test_what_is_remembered_is_recalled_byte_for_byte_and_by_its_bare_key(agent, process):
    value = "Zürich 東京\r\n\x1b[31m\u202e\n"
    assert agent("palace", "remember", "people/facts/lisa", "-", stdin=value).stdout.startswith("kept · ")

    assert process("palace", "recall", "people/facts/lisa").stdout == value.encode()
    assert process("palace", "recall", "lisa").stdout == value.encode()


def test_the_same_text_at_the_same_place_is_renewed_and_that_is_said(agent):
    remember = ("palace", "remember", "people/facts/lisa")
    assert agent(*remember, "artist").stdout.startswith("kept · ")
    assert agent(*remember, "artist").stdout.startswith("renewed · ")
    assert agent(*remember, "sculptor").stdout.startswith("kept · ")
    assert agent(*remember, "artist").stdout.startswith("kept · ")  # it was said before, and not now
    assert agent.json(*remember, "artist")["renewed"]
    assert not agent.json(*remember, "painter")["renewed"]
    agent("palace", "forget", "lisa")
    assert agent(*remember, "painter").stdout.startswith("kept · ")


def test_options_are_kept_and_stay_where_they_are_not_given(agent):
    agent("palace", "remember", "people/facts/bob", "friend")
    agent("palace", "remember", "people/facts/lisa", "artist", "--theme", "art", "--theme", "print",
          "--connect", "bob", "--halflife", "10", "--source", "user", "--confidence", "0.7")  # fmt: skip
    agent("palace", "remember", "people/facts/lisa", "sculptor")

    found = agent.json("palace", "recall", "lisa")

    assert found["path"] == "people/facts/lisa"
    assert found["value"] == "sculptor"
    assert found["themes"] == ["art", "print"]
    assert found["connections"] == ["people/facts/bob"]
    assert (found["halflife_days"], found["source"], found["confidence"]) == (10, "user", 0.7)
    assert found["state"] == "active"
    assert found["current_relevance"] > 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found["last_accessed"])
    assert "seen" not in found


@pytest.mark.parametrize("path", ["lisa", "people/lisa", "a/b/c/d", "people//lisa", "flat/facts/x"])
def test_what_is_no_path_is_not_remembered(agent, path):
    assert agent("palace", "remember", path, "x", code=2).stderr.startswith("error: ")
    assert agent.json("palace")["total"] == 0


def test_a_memory_that_contradicts_another_says_what_it_superseded_and_how_to_take_that_back(palace):
    shown = palace("palace", "remember", "people/facts/lisa-moved", "Lisa lives in Lisbon.").stdout

    assert re.search(
        r"^This contradicts people/facts/lisa-home \(lives in: Berlin → Lisbon; \d\d% sure\), which is superseded",
        shown,
        flags=re.MULTILINE,
    )
    command = re.search(r"^If both are right: sense-memory (.*)$", shown, flags=re.MULTILINE)[1]
    assert palace.json("palace", "recall", "lisa-home")["superseded_by"] == "people/facts/lisa-moved"
    palace(*command.split())
    assert palace.json("palace", "recall", "lisa-home")["superseded_by"] is None


@pytest.mark.parametrize(
    ("mode", "superseded", "suspected"),
    [("act", ["people/facts/lisa-home"], []), ("suggest", [], ["people/facts/lisa-home"]), ("off", [], [])],
)
def test_what_contradicts_is_marked_or_named_or_not_looked_for(palace, mode, superseded, suspected):
    moved = ("remember", "people/facts/lisa-moved", "Lisa lives in Lisbon.", "--contradictions", mode)
    told = palace.json(*moved)

    assert [item["path"] for item in told["superseded"]] == superseded
    assert [item["path"] for item in told["suspected"]] == suspected
    assert ("is wrong now: sense-memory palace contradict" in palace(*moved).stdout) == (mode == "suggest")
    palace("remember", "x/y/z", "x", "--contradictions", "maybe", code=2)
    palace("remember", "flat", "x", "--contradictions", "off", code=2)


def test_where_contradictions_are_off_for_an_agent_no_command_compares_memories(agent, monkeypatch):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.", "--contradictions", "off")
    agent("remember", "people/facts/moved", "Lisa lives in Lisbon.", "--contradictions", "off")
    assert "(compare moved, written later)" in agent("palace", "compress").stdout
    assert len(agent.json("palace", "introspect")["suggested_contradictions"]) == 1
    assert agent.json("recall", "home")["suspected_by"] == ["people/facts/moved"]

    monkeypatch.setenv("SENSE_MEMORY_CONTRADICTIONS", "off")
    assert agent.json("remember", "people/facts/now", "Lisa lives in Rome.")["superseded"] == []
    assert "(compare" not in agent("palace", "compress").stdout
    report = agent.json("palace", "introspect")
    assert report["suggested_contradictions"] == []
    assert report["bounded"]["suggested_contradictions"] == "contradictions were not searched for"
    assert agent.json("recall", "home")["suspected_by"] == []
    assert not any(hit["suspected_by"] for hit in agent.json("search", "Lisa lives")["hits"])

    monkeypatch.setenv("SENSE_MEMORY_CONTRADICTIONS", "suggest")
    assert len(agent.json("remember", "people/facts/new", "Lisa lives in Oslo.")["suspected"]) == 3
    monkeypatch.setenv("SENSE_MEMORY_CONTRADICTIONS", "no")
    assert "must be act, suggest or off" in agent("recall", "home", code=2).stderr


def test_what_was_superseded_before_is_not_told_again(palace):
    first = palace.json("palace", "remember", "people/facts/lisa-moved", "Lisa lives in Lisbon.")
    again = palace.json("palace", "remember", "people/facts/lisa-moved", "Lisa lives in Lisbon now.")

    (told,) = first["superseded"]
    assert (told["path"], told["kind"]) == ("people/facts/lisa-home", "value")
    assert 0.75 <= told["confidence"] <= 1
    assert again["superseded"] == []


def test_relays_get_the_memory_and_what_it_superseded(palace, relay, dead_relay):
    result = palace.json(
        "--relay", relay, "palace", "remember", "people/facts/lisa-moved", "Lisa lives in Lisbon."
    )

    assert result["acks"] == 1
    assert [shown["copy"]["held"] for shown in result["relays"]] == [2]
    late = palace(
        "--relay",
        dead_relay,
        "palace",
        "remember",
        "a/b/c",
        "x",
        "--require-acks",
        "1",
        "--wait",
        "0.5",
        code=3,
    )
    assert "0 relays acknowledged this, but --require-acks asked for 1; the write is kept here" in late.stderr
    palace("palace", "remember", "a/b/c", "x", "--wait", "0", "--require-acks", "1", code=2)


def test_recall_counts_as_an_access_and_says_what_has_superseded_it(palace):
    palace("palace", "contradict", "lisa-home", "lisa")

    result = palace("palace", "recall", "lisa-home")

    assert result.stdout == "Lisa lives in Berlin.\n"
    assert result.stderr == "superseded by people/facts/lisa\n"
    assert palace.json("palace", "show", "lisa-home")["access_count"] == 1


def test_a_key_that_several_have_and_one_that_nobody_has(agent):
    agent("palace", "remember", "people/facts/x", "1")
    agent("palace", "remember", "world/facts/x", "2")

    several = agent("palace", "recall", "x", code=2).stderr
    assert "several memories have the key 'x'; give the path: 'people/facts/x', 'world/facts/x'" in several
    assert (
        "no memory under 'none' (no relays are configured)"
        in agent("palace", "recall", "none", code=4).stderr
    )
    agent("palace", "recall", "people/facts/none", code=4)
    agent("palace", "show", "x", code=2)
    agent("remember", "boat_name", "Otter")
    assert agent("palace", "show", "boat_name", code=4).stderr.endswith(
        "no palace memory under 'boat_name' here. To recall the flat memory: sense-memory recall boat_name\n"
    )


# ── The tree, list, search ──────────────────────────────────────────────────────────────


def test_in_a_pipe_the_palace_is_a_line_for_each_memory(palace):
    found = lines(palace("palace"))

    assert [line[0] for line in found[:2]] == ["people/emotions/studio", "people/facts/lisa"]
    assert {line[1] for line in found} == {"active", "fading", "forgotten", "dissolved"}
    assert found[1][3] == "artist, teaches workshops"
    assert float(found[0][2]) > float(found[-1][2])


def test_domains_and_states_can_be_chosen(palace):
    assert {line[0].split("/")[0] for line in lines(palace("palace", "--domain", "world"))} == {"world"}
    fading = palace("palace", "--state", "fading", "--state", "dissolved")
    assert [line[0] for line in lines(fading)] == ["people/facts/lisa-home", "world/facts/old-news"]
    nothing = palace("palace", "--state", "forgotten", "--domain", "people")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no memories in that state.\n")
    palace("palace", "--state", "asleep", code=2)
    assert "without a COMMAND" in palace("palace", "--domain", "people", "list", code=2).stderr


@pytest.mark.parametrize(
    "command",
    [["palace", "--domain"], ["palace", "facets"], ["palace", "list"], ["palace", "compress"]],
    ids=" ".join,
)
def test_a_domain_that_is_not_there_is_not_found_and_those_that_are_there_are_named(palace, command):
    shown = palace(*command, "none", code=4)

    assert (shown.stdout, shown.stderr) == (
        "",
        "error: there is no domain 'none'; the domains: people, projects, world\n",
    )
    assert palace.json(*command, "none", code=4)["error"]["type"] == "NotFound"


def test_a_facet_that_is_not_there_is_not_found_either(palace):
    told = palace("palace", "list", "people/fact", code=4).stderr

    assert told == "error: there is no facet 'fact' in people; its facets: emotions, facts\n"


def test_of_many_domains_ten_are_named(long_ago, agent, remembers):
    long_ago(*((1, remembers(f"d{number:02}/facts/x")) for number in range(12)))

    told = agent("palace", "--domain", "none", code=4).stderr

    assert told.endswith("the domains: d00, d01, d02, d03, d04, d05, d06, d07, d08, d09 and 2 more\n")


@pytest.mark.parametrize("command", [["palace", "--domain"], ["palace", "facets"]], ids=" ".join)
def test_a_domain_is_not_called_missing_while_no_relay_has_shown_everything(palace, dead_relay, command):
    told = palace("--relay", dead_relay, *command, "none", code=1).stderr

    assert "not in the local ledger" in told
    assert "there is no domain" not in told
    assert palace.json("--relay", dead_relay, *command, "none", code=1)["error"]["type"] == "NotSynced"


def test_a_palace_of_the_past_is_not_called_empty_while_no_relay_has_shown_everything(palace, dead_relay):
    unknown = palace("--relay", dead_relay, "palace", "as-of", "2020-01-01", code=1).stderr

    assert "what was kept at 2020-01-02 00:00" in unknown
    assert "run `sense-memory sync`" in unknown
    assert palace("--relay", dead_relay, "palace", "as-of", "now").stderr.startswith("incomplete: ")
    assert "There were no memories here" in palace("palace", "as-of", "2020-01-01").stderr


def test_recall_names_a_later_memory_that_may_contradict_it_and_what_decides(palace):
    palace("palace", "remember", "people/facts/ana", "Ana prefers tabs.")
    palace("palace", "remember", "people/facts/ana-2", "Ana prefers spaces.")
    pair = "people/facts/ana people/facts/ana-2"

    result = palace("recall", "people/facts/ana")

    assert result.stdout == "Ana prefers tabs.\n"
    assert result.stderr == (
        "A later memory may contradict this: people/facts/ana-2.\n"
        f"If this is wrong now: sense-memory palace contradict {pair}\n"
        f"If both are right: sense-memory palace dismiss {pair}\n"
    )
    assert palace.json("recall", "people/facts/ana")["suspected_by"] == ["people/facts/ana-2"]
    shown = {path: rest for path, _, _, *rest in lines(palace("list", "--palace"))}
    assert shown["people/facts/ana"] == [
        "Ana prefers tabs.",
        "perhaps contradicted by people/facts/ana-2",
    ]
    links = palace.json("palace", "show", "people/facts/ana-2")["links"]
    assert links == [{"kind": "perhaps contradicts", "path": "people/facts/ana", "is_here": True}]

    palace("palace", "dismiss", "people/facts/ana", "people/facts/ana-2")

    assert palace("recall", "people/facts/ana").stderr == ""


@pytest.mark.parametrize("command", [["list", "--palace"], ["palace"], ["palace", "list"]], ids=" ".join)
def test_a_piped_line_ends_with_what_superseded_the_memory(palace, command):
    palace("palace", "contradict", "lisa", "studio")

    shown = {path: rest for path, _, _, *rest in lines(palace(*command))}

    assert shown["people/facts/lisa"] == ["artist, teaches workshops", "superseded by people/emotions/studio"]
    assert shown["people/emotions/studio"] == ["The studio felt like home."]


# ── What is not there, and what cannot be used ─────────────────────────────────────────


def test_a_connection_with_what_is_not_there_yet_is_made_and_told(palace):
    targets = ("--connect", "people/facts/liza", "--connect", "lisa", "--connect", "world/facts/tram")

    told = palace("palace", "remember", "people/facts/marco", "plays the cello", *targets)

    assert told.stdout.startswith("kept · ")
    assert told.stderr == (
        "note: the connection counts once people/facts/liza exists; there is no such memory yet\n"
    )
    assert palace.json("palace", "show", "marco")["connections"] == [
        "people/facts/liza",
        "people/facts/lisa",
        "world/facts/tram",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--halflife", "0"], "--halflife must be between 1e-05 and 36,500"),
        (["--halflife", "nan"], "--halflife must be between"),
        (["--confidence", "3"], "--confidence must be between 0 and 1"),
        (["--theme", " "], "--theme must be non-empty texts"),
        (["--connect", ""], "--connect must be non-empty texts"),
        (["--halflife", "soon"], "Invalid value for '--halflife': it must be a valid number\n"),
    ],
)
def test_an_option_that_can_not_be_used_is_named_as_it_was_typed(agent, options, problem):
    shown = agent("palace", "remember", "people/facts/lisa", "artist", *options, code=2).stderr

    assert shown.startswith(f"error: {problem}")
    assert agent.json("palace")["total"] == 0


def test_too_few_tokens_are_told_by_the_option(agent):
    assert agent("palace", "compress", "--max-tokens", "3", code=2).stderr.startswith(
        "error: --budget (--max-tokens) must be at least 32, not 3: fewer tokens cannot hold a memory\n"
    )


def test_pinning_what_no_prompt_shows_says_so(agent):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.")
    agent("remember", "people/facts/moved", "Lisa lives in Lisbon.")

    assert agent("palace", "pin", "people/facts/moved").stderr == ""
    said = agent("palace", "pin", "people/facts/home").stderr
    assert said.startswith(
        "compress leaves this memory out while people/facts/moved, which superseded it, is active."
    )


def test_reconcile_says_that_there_was_no_mark(agent):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.")
    agent("remember", "people/facts/moved", "Lisa lives in Lisbon.")
    pair = ("people/facts/home", "people/facts/moved")
    assert "no mark" not in agent("palace", "reconcile", *pair).stdout

    said = agent("palace", "reconcile", *pair).stdout

    assert (
        "\nThere was no mark between them to remove; from now on, `introspect` suggests nothing about the two."
        in said
    )
    assert "no suggestions with people/facts/moved" in agent("palace", "show", pair[0]).stdout


def test_undo_of_a_link_says_that_there_is_no_other_text_and_how_to_take_the_link_back(agent):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.")
    agent("remember", "people/facts/work", "Lisa paints.")
    agent("palace", "connect", "home", "work")

    told = agent("undo", "people/facts/home", code=4).stderr

    assert told == (
        "error: 'people/facts/home' never had another text here, so nothing was undone; `sense-memory palace "
        "disconnect` takes a connection back, and `sense-memory palace reconcile` a mark of contradiction\n"
    )
    assert agent.json("recall", "home")["connections"] == ["people/facts/work"]
    assert "\n  connected with people/facts/work\n" in agent("history", "home").stdout
    assert agent.json("history", "home", "-n", "1")[0]["changes"] == ["connected with people/facts/work"]


def test_a_connection_that_is_there_already_is_not_written_again(agent):
    for name in ("home", "work"):
        agent("remember", f"people/facts/{name}", f"Lisa's {name}")
    assert agent("palace", "connect", "home", "work").stdout.startswith("connected: people/facts/home and ")
    versions = agent.json("history", "home")

    told = agent("palace", "connect", "work", "home").stdout
    assert told.startswith("already connected: people/facts/work and people/facts/home")
    assert agent.json("palace", "connect", "home", "work")["link"] == "connected"
    assert agent.json("history", "home") == versions


def test_what_becomes_of_a_mark_is_said(agent):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.")
    agent("remember", "people/facts/work", "Lisa paints.")
    pair = ("people/facts/home", "people/facts/work")

    agent("palace", "contradict", *pair)
    assert "The mark between them was removed: both are right." in agent("palace", "dismiss", *pair).stdout
    agent("remember", "people/facts/work", "Lisa draws.")
    assert "brought back · " in agent("undo", "people/facts/work").stdout

    mark = "people/facts/home is {} marked as superseded by people/facts/moved{}.\n"
    agent("remember", "people/facts/moved", "Lisa lives in Lisbon.")
    assert mark.format("no longer", "") in agent("remember", "people/facts/moved", "Lisa swims.").stdout
    assert mark.format("", " again").replace("  ", " ") in agent("undo", "people/facts/moved").stdout
    said = agent("remember", "people/facts/home", "Lisa lives in Berlin.").stdout
    assert mark.format("no longer", "") in said
    assert re.search(r"This contradicts people/facts/moved \(.* sure\); nothing was marked\.\n", said)
    agent("palace", "contradict", "home", "moved")
    assert mark.format("no longer", "") in agent("forget", "people/facts/moved").stdout


def test_a_prompt_says_what_it_left_out_and_why(agent):
    agent("remember", "people/facts/tea", "Lisa drinks green tea.")
    agent("remember", "work/facts/port", "The server listens on port 8080.")
    asked = ("palace", "compress", "--style", "plain", "--question")

    told = agent(*asked, "What tea does Lisa drink?")
    assert told.stdout == (
        "# people facts\nLisa drinks green tea.\n\n# work facts\nThe server listens on port 8080.\n"
    )
    assert told.stderr == ""
    agent("remember", "world/facts/tides", "Tides are high at noon. " * 40)
    said = agent(*asked, "What tea does Lisa drink?", "--budget", "32").stderr
    assert said.startswith("left out: world/facts/tides")
    assert said.endswith("; give a larger --budget, or pin what you need\n")
    said = agent(*asked, "zzyzx", "--budget", "5000").stderr
    assert said == "Nothing was found for the question; this is the palace without it.\n"


def test_an_empty_palace_says_how_to_begin(agent):
    result = agent("palace")

    assert result.stdout == ""
    assert "Begin with: sense-memory remember DOMAIN/FACET/KEY VALUE" in result.stderr
    assert agent.json("palace") == {
        "total": 0,
        "states": {"active": 0, "fading": 0, "forgotten": 0, "dissolved": 0},
        "domains": [],
    }


def test_the_palace_as_json_is_its_tree(palace):
    found = palace.json("palace", "--domain", "people")

    assert found["total"] == 3
    (people,) = found["domains"]
    assert [(facet["facet"], facet["count"]) for facet in people["facets"]] == [("emotions", 1), ("facts", 2)]
    assert people["facets"][1]["memories"][0]["path"] == "people/facts/lisa"


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_tree_that_fits(palace, terminal, columns):
    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal("palace", columns=columns)).splitlines()

    assert shown[0] == "7 memories: 4 active, 1 fading, 1 forgotten, 1 dissolved"
    assert shown[1:4] == ["people  3", "├── emotions  1", shown[3]]
    assert re.match(r"│   └── studio +████████ 1\.0\d +The studio", shown[3])
    assert any(re.search(r"lisa-home +██░░░░░░ 0\.25 fading +Lisa lives", line) for line in shown)
    assert max(map(len, shown)) <= columns


def test_a_big_facet_is_bounded_and_all_of_it_can_be_had(agent, long_ago, remembers, terminal):
    long_ago(*((1, remembers(f"world/facts/fact-{number:02}", "x")) for number in range(42)))

    shown = terminal("palace")
    assert shown.count("fact-") == 5
    assert "… and 37 more" in shown
    assert terminal("palace", "--limit", "2").count("fact-") == 2
    whole = terminal("palace", "--all")
    assert whole.count("fact-") == 42
    assert "more" not in whole


def test_colours_mean_states(palace, terminal, monkeypatch):
    monkeypatch.delenv("NO_COLOR")

    shown = terminal("palace", columns=120)

    assert re.search(r"\x1b\[32mlisa +\x1b\[0m", shown)
    assert re.search(r"\x1b\[33mlisa-home\x1b\[0m", shown)
    assert re.search(r"\x1b\[31mold-news +\x1b\[0m", shown)


def test_what_can_show_ascii_only_gets_ascii(palace, terminal, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    palace("palace", "remember", "world/facts/tokyo", "東京")

    tree, life = terminal("palace"), terminal("palace", "show", "lisa")

    assert (tree + life).isascii()
    plain = re.sub(r"\x1b\[[\d;]*m", "", tree)
    assert re.search(r"\+-- tokyo +######## 1\.00 +\\u6771\\u4eac", plain)
    assert "####" in life
    assert "^ now" in life


def test_lists_leave_out_what_is_forgotten_unless_it_is_asked_for(palace, terminal):
    usual = lines(palace("palace", "list"))
    assert [line[1] for line in usual] == ["active"] * 4 + ["fading"]
    assert len(palace.json("palace", "list", "--include-forgotten")) == 7
    assert [line[0] for line in lines(palace("palace", "list", "people/facts"))] == [
        "people/facts/lisa",
        "people/facts/lisa-home",
    ]
    assert palace("palace", "list", "world").stderr == (
        "There are no active or fading memories in world. --include-forgotten lists the others.\n"
    )
    palace("palace", "list", "a/b/c", code=2)
    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal("palace", "list"))
    assert re.search(
        r"^people/facts/lisa +████ 1\.\d\d +active +artist, teaches w", shown, flags=re.MULTILINE
    )
    assert max(map(len, shown.splitlines())) <= 80


def test_a_search_finds_and_explains(palace, terminal):
    found = lines(palace("palace", "search", "lisa", "--explain"))
    assert [line[0] for line in found] == ["people/facts/lisa", "people/facts/lisa-home"]
    assert re.fullmatch(r"lisa in key; relevance 1\.\d\d", found[0][3])
    assert len(lines(palace("palace", "search", "voice", "-n", "1"))) == 1
    (first, _) = palace.json("palace", "search", "voice")["hits"]
    assert (first["path"], first["why"]["matches"][0]["field"]) == ("projects/decisions/voice", "key")
    shown = terminal("palace", "search", "lisa", "--explain", columns=120)
    assert re.search(r"lisa in key \d\.\d\d; relevance 1\.\d\d", shown)
    assert "lisa in key 0.90 + lisa in themes 0.60 + lisa in value 0.30" in shown


def test_a_search_of_nothing_at_all_says_how_to_begin_and_a_question_has_words(agent):
    assert (
        "Begin with: sense-memory remember DOMAIN/FACET/KEY VALUE"
        in agent("palace", "search", "zeppelin").stderr
    )
    assert agent("palace", "search", " ", code=2).stderr == (
        "error: the question is empty; give some words to look for\n"
    )


def test_a_search_that_finds_nothing_says_so(palace):
    result = palace("palace", "search", "zeppelin")

    assert result.stdout == ""
    assert result.stderr.startswith("Nothing was found.")
    assert palace.json("palace", "search", "zeppelin") == {"hits": [], "forgotten": 0, "confidence": 0.0}


def test_looking_revives_nothing(palace):
    before = palace.json("palace")
    for command in (
        ["list"],
        ["search", "lisa"],
        ["show", "lisa"],
        ["compress"],
        ["stats"],
        ["introspect"],
        [],
    ):
        palace("palace", *command)

    after = palace.json("palace")
    assert accesses(after) == accesses(before)


def accesses(found):
    return [
        (memory["path"], memory["access_count"], memory["last_accessed"])
        for domain in found["domains"]
        for facet in domain["facets"]
        for memory in facet["memories"]
    ]


def test_hostile_texts_are_escaped_and_never_markup(agent, terminal):
    agent("palace", "remember", "people/facts/h", "--theme", "a[red]b", "--", HOSTILE)
    agent("palace", "remember", "people/facts/i", "[/bold] x", "--connect", "h")

    for command in (["list"], ["search", "h", "--explain"], ["show", "h"], ["show", "i"], []):
        shown = terminal("palace", *command, columns=200)
        assert "\x1b[31m" not in shown, command
        assert "\u202e" not in shown, command
        assert ESCAPED in re.sub(r"\x1b\[[\d;]*m", "", shown), command


# ── show ────────────────────────────────────────────────────────────────────────────────


def test_show_tells_the_life_of_a_memory(palace, terminal, relay):
    palace("--relay", relay, "sync")
    palace("palace", "contradict", "lisa-home", "lisa", "--wait", "0")

    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal("--relay", relay, "palace", "show", "lisa"))

    assert shown.startswith("people/facts/lisa\nartist, teaches workshops\n\n")
    for fact in (r"state +active, relevance 1\.", r"half-life +30 days", r"recalled +never", r"source +user"):
        assert re.search(rf"^{fact}", shown, flags=re.MULTILINE), fact
    assert re.search(r"^themes +art, teaching", shown, flags=re.MULTILINE)
    assert re.search(rf"^relay +{re.escape(relay)} (accepted|showed) it", shown, flags=re.MULTILINE)
    assert re.search(r"^ +0\.3 +0\.1 +0\.01$", shown, flags=re.MULTILINE)
    assert re.search(r"^ +▲ now$", shown, flags=re.MULTILINE)
    assert re.search(r"^fading from +20\d\d-.*\(in \d+ days\)", shown, flags=re.MULTILINE)
    assert "\n  connected with people/emotions/studio  The studio felt" in shown
    assert "\n  supersedes people/facts/lisa-home  Lisa lives in Berlin." in shown
    assert "\n  - artist\n  + artist, teaches workshops\n" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_show_as_json_has_everything(palace, relay):
    palace("palace", "contradict", "lisa-home", "lisa")

    found = palace.json("--relay", relay, "palace", "show", "lisa-home")

    assert found["links"] == [{"kind": "superseded by", "path": "people/facts/lisa", "is_here": True}]
    assert list(found["begins"]) == ["fading", "forgotten", "dissolved"]
    assert sorted(found["begins"].values()) == list(found["begins"].values())
    assert found["versions"][0]["is_head"]
    assert [shown["copy"] for shown in found["relays"]] == [{"held": 0, "states": {"queued": 1}}]


def test_show_knows_links_that_lead_nowhere_and_those_that_were_declined(palace):
    palace("palace", "dismiss", "lisa", "voice")
    palace("palace", "forget", "people/emotions/studio")

    found = palace.json("palace", "show", "lisa")["links"]

    assert {"kind": "connected with", "path": "people/emotions/studio", "is_here": False} in found
    assert {"kind": "no suggestions with", "path": "projects/decisions/voice", "is_here": True} in found
    palace("palace", "show", "none", code=4)


def test_versions_that_say_the_same_are_one(palace):
    palace("palace", "connect", "lisa", "voice")

    shown = palace("palace", "show", "lisa").stdout
    assert "the same text" not in shown
    assert shown.count("\n  + artist") == 2
    one = palace("palace", "show", "lisa", "--versions", "1").stdout
    assert "… and 1 older one: `history`" in one
    assert "versions" not in palace("palace", "show", "lisa", "--versions", "0").stdout


# ── Links ───────────────────────────────────────────────────────────────────────────────


def test_memories_are_connected_and_disconnected(palace, relay):
    shown = palace("--relay", relay, "palace", "connect", "voice", "projects/facts/voxrelay").stdout
    assert shown == "connected: projects/decisions/voice and projects/facts/voxrelay · accepted by 1 relay\n"
    assert palace.json("palace", "show", "voice")["connections"] == ["projects/facts/voxrelay"]

    gone = palace.json("palace", "disconnect", "voxrelay", "voice")
    assert gone["paths"] == ["projects/facts/voxrelay", "projects/decisions/voice"]
    assert palace.json("palace", "show", "voice")["connections"] == []


@pytest.mark.parametrize("command", ["connect", "disconnect", "dismiss", "contradict", "reconcile"])
def test_links_need_two_memories_that_are_there(palace, command):
    said = palace("palace", command, "lisa", "people/facts/lisa-hame", code=4).stderr
    assert said.startswith("error: no memory under 'people/facts/lisa-hame' (no relays are configured)")
    assert "Did you mean people/facts/lisa-home" in said
    palace("palace", command, "lisa", "lisa", code=2)


@pytest.mark.parametrize("command", ["pin", "unpin", "show"])
def test_a_name_that_no_memory_has_is_told_alike_by_every_command(palace, command):
    said = palace("palace", command, "lisa-hame", code=4).stderr
    assert said.startswith(
        "error: no memory under 'lisa-hame' (no relays are configured). Did you mean lisa-home"
    )


def test_a_contradiction_says_how_to_take_it_back(palace):
    result = palace("palace", "contradict", "lisa-home", "lisa")

    assert result.stdout == (
        "superseded by people/facts/lisa: people/facts/lisa-home · on this machine only: no relays are configured\n"
        "To undo this: sense-memory palace reconcile people/facts/lisa-home people/facts/lisa\n"
    )
    palace("palace", "reconcile", "people/facts/lisa-home", "people/facts/lisa")
    assert palace.json("palace", "show", "lisa-home")["superseded_by"] is None
    assert palace.json("palace", "contradict", "lisa-home", "lisa")["link"] == "contradicted"


@pytest.mark.parametrize(
    "names", [("-a/facts/\u202eb", "-a/facts/it's c\u200b"), ("a/b/c d", "-a/b/\u00a0東京")]
)
def test_a_command_to_copy_means_the_same_names_in_a_shell(agent, names):
    for name in names:
        agent("remember", "--", name, f"x{len(name)}")
    shown = agent("palace", "contradict", "--", *names).stdout

    command = re.search(r"^To undo this: sense-memory (.*)$", shown, flags=re.MULTILINE)[1]
    assert command.isprintable()
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    words = read.decode().split("\0")[:-1]
    assert words == ["palace", "reconcile", "--", *names]
    agent(*words)
    assert agent.json("palace", "show", "--", names[0])["superseded_by"] is None


def test_a_mark_across_domains_or_against_the_order_of_writing_is_set_and_called_unusual(agent):
    agent("remember", "projects/facts/garden", "The garden has a shed.")
    agent("remember", "people/facts/lisa", "Lisa lives in Berlin.")
    agent("remember", "people/facts/moved", "Lisa lives in Kiel.", "--contradictions", "off")

    usual = agent("palace", "contradict", "lisa", "moved")
    both = agent("palace", "contradict", "moved", "garden")
    assert "reconcile the two first" in agent("palace", "contradict", "moved", "lisa", code=2).stderr
    agent("palace", "reconcile", "moved", "garden")
    agent("palace", "reconcile", "lisa", "moved")
    swapped = agent.json("palace", "contradict", "moved", "lisa")

    assert usual.stderr == ""
    assert both.stderr.splitlines() == [
        "note: this is unusual: they are of different domains, people and projects",
        "note: this is unusual: people/facts/moved was written later than projects/facts/garden",
    ]
    assert swapped["unusual"] == ["people/facts/moved was written later than people/facts/lisa"]
    assert agent.json("palace", "show", "moved")["contradicts"] == ["people/facts/lisa"]


def test_a_second_mark_is_called_unusual_and_undoing_it_leaves_the_first(agent):
    agent("remember", "people/facts/home", "Hanna lives in Leipzig.")
    agent("remember", "people/facts/moved", "Hanna lives in Berlin.")
    agent("remember", "people/facts/other", "Jonas eats fish again.")
    before = agent.json("palace", "show", "home")

    mistake = agent("palace", "contradict", "home", "other")
    undo = re.search(r"^To undo this: sense-memory (.*)$", mistake.stdout, flags=re.MULTILINE)[1]
    agent(*undo.split())
    after = agent.json("palace", "show", "home")

    assert mistake.stderr == (
        "note: this is unusual: people/facts/home was already contradicted by people/facts/moved\n"
    )
    assert before["superseded_by"] == after["superseded_by"] == "people/facts/moved"
    assert before["contradicts"] == after["contradicts"] == ["people/facts/moved"]
    assert agent("palace", "contradict", "home", "moved").stderr == ""


def test_forgetting_is_for_good(palace, relay):
    palace("--relay", relay, "sync")

    assert palace("--relay", relay, "palace", "forget", "people/facts/lisa").stdout == (
        "forgotten here, deletion requested · accepted by 1 relay\n"
    )
    palace("palace", "recall", "lisa", code=4)
    again = palace("palace", "forget", "people/facts/lisa", code=4)
    assert again.stdout == ""
    assert again.stderr.startswith("error: no memory under 'people/facts/lisa' (")


def test_what_is_forgotten_may_be_named_by_its_bare_key_where_that_is_unique(palace):
    palace("palace", "remember", "world/facts/lisa", "a street")
    several = palace("palace", "forget", "lisa", code=2).stderr
    assert (
        "several memories have the key 'lisa'; give the path: 'people/facts/lisa', 'world/facts/lisa'"
        in several
    )

    assert palace.json("palace", "forget", "voxrelay")["path"] == "projects/facts/voxrelay"
    palace("palace", "recall", "projects/facts/voxrelay", code=4)
    nobody = palace("palace", "forget", "voxrelay", code=4)
    assert (nobody.stdout, nobody.stderr) == (
        "",
        "error: no memory under 'voxrelay' (no relays are configured)\n",
    )


# ── Reviews ─────────────────────────────────────────────────────────────────────────────


def test_a_palace_in_shorthand(palace):
    shown = palace("palace", "compress").stdout
    assert shown.startswith("[domain:people/facet:emotions]\nstudio felt like home\n")
    assert "Berlin" not in shown  # it is fading
    only = palace.json("palace", "compress", "projects", "--max-tokens", "64")
    assert only["text"].startswith("[domain:projects/")
    assert 0 < only["tokens"] <= 64
    assert "no active memories in world." in palace("palace", "compress", "world").stderr
    palace("palace", "compress", "--max-tokens", "3", code=2)
    assert palace.json("palace", "compress", "--domain", "projects", "--budget", "64") == only
    palace("palace", "compress", "people", "--domain", "people", code=2)


def test_compress_says_on_stderr_what_it_left_out_and_pinning_brings_it_in(palace):
    everything = palace.json("palace", "compress")["included"]
    small = palace.json("palace", "compress", "--budget", "32")
    assert sorted(small["included"] + small["left_out"]) == sorted(everything)
    path = small["left_out"][-1]
    said = palace("palace", "compress", "--budget", "32").stderr
    assert said.startswith(f"left out: {small['left_out'][0]}")
    assert "pinned: " in palace("palace", "pin", path).stdout
    assert palace.json("palace", "compress", "--budget", "32")["included"][0] == path
    assert palace.json("palace", "unpin", path)["link"] == "not pinned"
    assert palace.json("palace", "compress", "--budget", "32") == small


def test_a_question_brings_what_it_needs(palace):
    found = palace.json("palace", "compress", "--question", "Which voice did we choose?")
    assert found["included"][0] == "projects/decisions/voice"
    assert found["text"].startswith("[domain:projects/facet:decisions]\nvoice: Orpheus>Kokoro\n")
    assert "people/emotions/studio" in found["included"]
    found = palace.json("palace", "compress", "--style", "plain", "--question", "Where does Lisa live?")
    assert (
        "people/facts/lisa-home" in found["included"]
    )  # fading, so the specification's notation leaves it out
    assert re.search(r"Lisa lives in Berlin\. \(\d{4}-\d\d-\d\d\)", found["text"])
    assert palace("palace", "compress", "--style", "short", code=2).stderr


def test_counts(palace, terminal):
    assert palace("palace", "domains").stdout == "people\t3\nprojects\t2\nworld\t2\n"
    assert palace("palace", "facets", "people").stdout == "emotions\t1\nfacts\t2\n"
    (people, *_) = palace.json("palace", "domains")
    assert (people["domain"], people["count"]) == ("people", 3)
    assert people["facets"] == palace.json("palace", "facets", "people")
    assert people["facets"][1] == {"facet": "facts", "count": 2, "memories": None}
    assert (
        "there is no domain 'none'; the domains: people" in palace("palace", "facets", "none", code=4).stderr
    )
    shown = palace("palace", "stats").stdout
    assert shown.startswith("memories     7: 4 active, 1 fading, 1 forgotten, 1 dissolved\nconnections  1\n")
    assert "\npeople       3: emotions 1, facts 2\n" in shown
    assert palace.json("palace", "stats")["states"]["fading"] == 1
    assert re.search(r"people +3\n", terminal("palace", "domains"))


def test_the_palace_as_it_was(palace):
    then = lines(palace("palace", "as-of", "4 days ago", "people"))

    assert [line[0] for line in then] == ["people/facts/lisa", "people/facts/lisa-home"]
    assert then[0][3] == "artist"
    found = palace.json("palace", "as-of", "100 days ago")
    assert [(memory["path"], memory["state"]) for memory in found] == [
        ("world/facts/old-news", "dissolved"),
        ("world/facts/tram", "active"),
    ]
    assert "There were no memories here at" in palace("palace", "as-of", "2020-01-01").stderr


def test_an_introspection_gives_reasons_and_commands_that_work(palace):
    shown = palace("palace", "introspect").stdout

    assert shown.startswith("7 memories: 4 active, 1 fading, 1 forgotten, 1 dissolved\n")
    assert "projects/decisions/voice and projects/facts/voxrelay: share" in shown
    command = re.search(r"^    sense-memory (palace connect .*)$", shown, flags=re.MULTILINE)[1]
    palace(*command.split())
    again = palace("palace", "introspect").stdout
    assert "Could be connected" not in again
    assert "Since the last introspection, less than an hour ago: only links.\n" in again


def test_an_introspection_tells_what_has_changed(palace):
    palace("palace", "introspect")
    palace("palace", "remember", "people/facts/lisa-moved", "Lisa lives in Lisbon.")

    shown = palace("palace", "introspect").stdout
    assert re.search(
        r"^Since the last introspection, less than an hour ago: 1 new, .*1 contradicted\.$",
        shown,
        re.MULTILINE,
    )
    assert "Check 1 new mark: people/facts/lisa-home is superseded by people/facts/lisa-moved\n" in shown
    assert "  new 1: people/facts/lisa-moved\n" in shown
    assert "  contradicted 1: people/facts/lisa-home by people/facts/lisa-moved\n" in shown
    assert "people/facts/lisa-home is superseded by people/facts/lisa-moved\n" in shown
    data = palace.json("palace", "introspect")
    (pair,) = data["contradictions"]
    assert pair["paths"] == ["people/facts/lisa-home", "people/facts/lisa-moved"]
    assert data["changes"]["new"] == []
    assert data["changes"]["counts"]["new"] == 0
    assert data["counts"]["contradictions"] == 1
    assert data["digest"][0] == shown.splitlines()[0]
    assert data["total_memories"] == 8
    palace("palace", "reconcile", *pair["paths"])
    palace("remember", "people/facts/lisa-moved", "Lisa has moved to Lisbon.")
    changes = palace.json("palace", "introspect")["changes"]
    assert (changes["rewritten"], changes["settled"]) == (["people/facts/lisa-moved"], [pair["paths"]])


def test_an_introspection_brings_up_what_is_forgotten_and_only_counts_what_is_alone(palace):
    shown = palace("palace", "introspect").stdout
    everything = palace("palace", "introspect", "--all").stdout
    alone = palace.json("palace", "introspect", "--all")["orphaned"]

    found = re.search(
        r"^Forgotten, but not dissolved yet · 1\n  (\S+): dissolves in \d+ days$", shown, re.MULTILINE
    )
    assert f"    sense-memory recall {found[1]}\n" in shown
    assert f"\nNot connected with anything: {len(alone)}.\n" in shown
    assert "Not connected with anything ·" not in shown
    assert f"\nNot connected with anything · {len(alone)}\n" in everything
    assert palace.json("palace", "introspect")["orphaned"] == []


def test_introspection_on_a_schedule_ends_after_the_count(palace, relay):
    result = palace("--relay", relay, "palace", "introspect", "--schedule", "6h", "--count", "1", "--json")

    (line,) = result.stdout.splitlines()
    assert json.loads(line)["total_memories"] == 7
    assert "── 20" in palace("palace", "introspect", "--schedule", "1 day", "--count", "1").stdout
    palace("palace", "introspect", "--schedule", "soon", code=2)
    palace("palace", "introspect", "--schedule", "6h ago", code=2)
    palace("palace", "introspect", "--count", "1", code=2)


def test_ctrl_c_ends_introspection_on_a_schedule(palace, forks):
    running = subprocess.Popen(
        [forks.program, "palace", "introspect", "--schedule", "6h"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with running:
        assert running.stdout.readline().startswith("── ")
        running.send_signal(2)
        running.stdout.read()
        assert running.wait(10 * SECOND) == 0


def test_a_plan_without_a_schedule_says_so(palace, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_PLAN", "free")

    error = palace.json("palace", "introspect", "--schedule", "6h", code=1)["error"]
    assert error["type"] == "PlanLimitError"


# ── prune ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def due(palace, long_ago):
    """A palace in which one memory was seen dissolved 31 days ago."""
    long_ago((31, lambda store: store.persona_prune()))
    return palace


def test_a_plan_shows_everything_and_changes_nothing(due, terminal):
    plan = lines(due("palace", "prune", "--dry-run"))
    assert ["world/facts/old-news", "delete"] in [line[:2] for line in plan]
    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal("palace", "prune", "--dry-run"))
    assert re.search(r"^delete for good +1 +world/facts/old-news *$", shown, flags=re.MULTILINE)
    assert re.search(r"^active → fading +\d", shown, flags=re.MULTILINE)
    data = due.json("palace", "prune", "--dry-run")
    assert data["dry_run"]
    assert {line["outcome"] for line in data["lines"]} == {"planned"}
    assert due.json("palace")["total"] == 7


def test_pruning_writes_and_deletes(due, relay):
    shown = due("--relay", relay, "palace", "prune").stdout

    assert re.search(
        r"^\d memories pruned here, deletion requested · accepted by 1 relay$", shown, flags=re.MULTILINE
    )
    assert due.json("palace")["total"] == 6
    nothing = due.json("palace", "prune")
    assert (nothing["count"], nothing["lines"]) == (0, [])


def test_a_relay_that_can_not_be_asked_holds_deletions_back(due, dead_relay):
    result = due("--relay", dead_relay, "palace", "prune", "--yes", "--wait", "0", code=3)

    assert "held back: 1 memory, because not every relay showed what it holds" in result.stderr
    assert due.json("palace")["total"] == 7
    told = due("--relay", dead_relay, "palace", "prune", "--without", dead_relay, "--wait", "0").stdout
    says = f"deletion queued · accepted by no relay yet ({dead_relay}: refused the connection)\n"
    assert told.endswith(f"1 memory pruned here, {says}")
    assert due.json("palace")["total"] == 6
    due("palace", "prune", "--without", "wss://unknown.example", code=2)


@pytest.mark.parametrize(("answer", "left"), [("n", 7), ("y", 6)])
def test_on_a_terminal_deletion_is_asked_for(due, terminal_with_keys, answer, left):
    code, shown = terminal_with_keys(f"{answer}\n", "palace", "prune")

    assert "Delete 1 memory for good? [y/N]" in shown
    assert code == (0 if answer == "y" else 1)
    assert ("nothing was pruned" in shown) == (answer == "n")
    assert due.json("palace")["total"] == left


def test_a_question_that_is_not_answered_prunes_nothing(due, terminal_with_keys):
    code, shown = terminal_with_keys("\x04", "palace", "prune")

    assert (code, "nothing was changed, because" in " ".join(shown.split()), "Aborted" in shown) == (
        130,
        True,
        False,
    )
    assert due.json("palace")["total"] == 7


def test_yes_asks_nothing(due, terminal_with_keys):
    code, shown = terminal_with_keys("", "palace", "prune", "--yes")

    assert (code, "for good?" in shown) == (0, False)


# ── Cheap ───────────────────────────────────────────────────────────────────────────────


def test_reading_the_palace_loads_neither_websockets_nor_rich_nor_the_mind(palace, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", "wss://relay.example")
    commands = "palace recall lisa", "palace list", "search lisa"
    program = (
        "import contextlib, sys\n"
        "from sense_memory.interfaces.cli import main\n"
        "for command in sys.argv[1:]:\n"
        "    sys.argv = ['sense-memory', *command.split(), '--json']\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main()\n"
        "    loaded = {'websockets', 'rich', 'sense_memory.mind.mind'} & set(sys.modules)\n"
        "    print(f'loaded by {command}: {sorted(loaded)}')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *commands],
        capture_output=True, text=True, timeout=20 * SECOND, check=True,
    )  # fmt: skip

    found = [line for line in done.stdout.splitlines() if line.startswith("loaded by ")]
    assert found == [f"loaded by {command}: []" for command in commands]


def test_a_domain_may_be_called_persona(agent):
    """Addresses on relays begin with that word, too; it is no part of the name there, and here it is."""
    path = "persona/facts/lisa"
    assert agent.json("remember", path, "v")["path"] == path
    assert agent.json("remember", "a/b/c", "w", "--connect", "persona/later/x")["path"] == "a/b/c"

    assert agent("recall", path).stdout == agent("recall", "lisa").stdout == "v\n"
    assert agent.json("recall", f"persona/{path}")["path"] == path
    assert [line["path"] for line in agent.json("history", path)] == [path]
    assert [line["path"] for line in agent.json("list", "persona")] == [path]
    assert agent.json("forget", path)["path"] == path
