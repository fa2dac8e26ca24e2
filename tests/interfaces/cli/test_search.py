"""`search` on the command line: for people at 80 columns, for pipes, and for programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.time_unit import SECOND


NOTHING = {"hits": [], "in_mind": [], "forgotten": 0, "confidence": 0.0, "is_doubtful": False}


LONG = " ".join(f"filler{number}" for number in range(200))


@pytest.fixture
def filled(agent):
    """An agent that remembers, keeps a palace, and writes a journal."""
    agent("remember", "favourite_tea", "Darjeeling, first flush")
    agent(
        *("palace", "remember", "people/facts/lisa", "artist, teaches painting workshops on Saturdays"),
        *("--theme", "art", "--source", "user"),
    )
    agent("journal", "Lisa showed me how to mix green for the painting of the harbour.")
    agent("journal", f"{LONG} chrysanthemum {LONG}")
    return agent


def rows(result):
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_a_pipe_gets_one_line_for_each_hit_of_every_kind(filled):
    found = rows(filled("search", "what", "did", "lisa", "say", "about", "painting", "and", "tea"))

    assert [len(row) for row in found[:3]] == [5, 5, 5]
    assert {row[0] for row in found} == {"palace", "journal", "flat"}
    assert {row[1] for row in found} >= {"people/facts/lisa", "favourite_tea"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", row[2]) for row in found)
    scores = [float(row[3]) for row in found]
    assert scores == sorted(scores, reverse=True)


def test_a_day_may_be_named_and_what_can_not_be_used_is_named_as_it_was_typed(filled):
    assert rows(filled("search", "lisa", "--since", "today"))
    assert rows(filled("search", "lisa", "--since", "yesterday"))

    for wrong in ("palace,diary", "mind,diary", ","):
        assert filled("search", "lisa", "--in", wrong, code=2).stderr == (
            "error: --in must name one or more of palace, journal, flat, file, mind\n"
        )


def test_what_another_memory_replaced_is_marked_wherever_it_is_found(filled):
    filled("palace", "remember", "people/facts/lisa-new", "no longer teaches painting")
    filled("palace", "contradict", "lisa", "lisa-new")

    texts = {row[1]: row[4] for row in rows(filled("search", "lisa painting", "--in", "palace"))}
    assert texts["people/facts/lisa"].startswith("[superseded by people/facts/lisa-new] artist, ")
    assert not texts["people/facts/lisa-new"].startswith("[")
    texts = {row[0]: row[2] for row in rows(filled("palace", "search", "lisa painting"))}
    assert texts["people/facts/lisa"].startswith("[superseded by lisa-new] artist, ")


def test_what_a_later_memory_may_contradict_is_marked_wherever_it_is_found(filled):
    filled("palace", "remember", "people/facts/ana", "Ana prefers tabs")
    filled("palace", "remember", "people/facts/ana-2", "Ana prefers spaces")

    texts = {row[1]: row[4] for row in rows(filled("search", "Ana prefers"))}
    assert texts["people/facts/ana"] == "[perhaps contradicted by people/facts/ana-2] Ana prefers tabs"
    assert texts["people/facts/ana-2"] == "Ana prefers spaces"
    hits = {hit["path"]: hit["suspected_by"] for hit in filled.json("search", "Ana prefers")["hits"]}
    assert hits["people/facts/ana"] == ["people/facts/ana-2"]
    assert hits["people/facts/ana-2"] == []


def test_explaining_names_the_words_their_fields_and_what_is_left_of_a_memory(filled):
    (lisa,) = rows(filled("search", "art lisa teaching", "--in", "palace", "--explain"))

    assert "lisa in key" in lisa[5]
    assert "art in themes" in lisa[5]
    assert "teach" in lisa[5]
    assert lisa[5].endswith("relevance 1.00")


def test_programs_get_everything(filled):
    hits = {hit["kind"]: hit for hit in filled.json("search", "lisa darjeeling")["hits"]}

    assert set(hits) == {"palace", "journal", "flat"}
    assert hits["palace"]["path"] == "people/facts/lisa"
    assert hits["palace"]["source"] == "user"
    assert hits["flat"]["value"] == "Darjeeling, first flush"
    (evidence, *_) = hits["flat"]["why"]["evidence"]
    assert (evidence["kind"], evidence["detail"], evidence["fields"]) == ("word", "darjeeling", ["value"])
    assert hits["flat"]["created_at"].endswith("Z")


def test_kinds_sources_times_and_numbers_narrow_it_down(filled):
    assert {row[0] for row in rows(filled("search", "lisa", "--in", "palace, flat"))} == {"palace"}
    assert {row[0] for row in rows(filled("search", "lisa", "--source", "user"))} == {"palace"}
    assert len(rows(filled("search", "lisa painting", "-n", "1"))) == 1
    assert rows(filled("search", "lisa", "--since", "1h"))
    assert rows(filled("search", "lisa", "--since", "2001-01-01"))
    assert "Nothing was found." in filled("search", "lisa", "--since", "now").stderr


@pytest.mark.parametrize(
    "wrong",
    [("--in", "nonsense"), ("--in", ","), ("--since", "nonsense"), ("--limit", "0"), ("--limit", "1001")],
)
def test_what_makes_no_sense_is_refused(filled, wrong):
    filled("search", "lisa", *wrong, code=2)


def test_where_nothing_is_kept_it_says_how_to_begin(agent):
    result = agent("search", "zeppelin")

    assert (result.stdout, result.stderr) == (
        "",
        (
            "to restore memories from relays, run `sense-memory relays add URL`, then `sense-memory sync`\n"
            "Nothing is kept yet. `sense-memory remember --help` shows how to begin.\n"
        ),
    )
    assert agent.json("search", "zeppelin") == NOTHING


def test_a_question_has_words(filled):
    assert filled("search", "", " ", code=2).stderr == (
        "error: the question is empty; give some words to look for\n"
    )


def test_a_source_that_there_can_not_be_is_refused_with_those_there_are(filled):
    assert filled("search", "lisa", "--source", "usr", code=2).stderr == (
        "error: --source must be user, agent, import, tool, tool:NAME or document:HASH, not 'usr'; "
        "memories here are from: user\n"
    )
    for possible in ("tool", "tool:mail", "agent"):
        assert filled("search", "lisa", "--source", possible).stderr == "Nothing was found.\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("--domain peopel", "no memory has the domain 'peopel'. Did you mean people?"),
        ("--domain zoo", "no memory has the domain 'zoo'; the domains: people, projects"),
        ("--facet fact", "no memory has the facet 'fact'. Did you mean facts?"),
        ("--domain people --facet plans", "no memory of people has the facet 'plans'; the facets: facts"),
        ("--theme arts", "no memory has the theme 'arts'. Did you mean art?"),
        ("--theme ART", None),
        ("--domain projects --facet plans --theme art", "no memory of projects has the theme 'art'"),
    ],
)
def test_a_domain_facet_or_theme_that_no_memory_has_is_named_with_those_there_are(agent, given, told):
    agent("remember", "people/facts/lisa", "Lisa paints.", "--theme", "art")
    agent("remember", "projects/plans/garden", "A shed.")

    result = agent("search", "zeppelin", *given.split())
    assert result.stderr.splitlines() == ["Nothing was found.", *([told] if told else [])]
    assert agent.json("search", "zeppelin", *given.split()) == NOTHING


def test_nothing_found_is_said_and_is_no_error(filled):
    result = filled("search", "zeppelin")

    assert (result.stdout, result.stderr) == ("", "Nothing was found.\n")
    assert filled.json("search", "zeppelin") == NOTHING


def test_a_terminal_shows_the_words_where_they_stand_at_80_columns(filled, terminal):
    shown = terminal("search", "painting chrysanthemum", "--explain")

    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= 80
    assert re.search(r"\x1b\[1(;32)?mpainting\x1b\[0m workshops", shown)
    assert re.search(r"\x1b\[1(;32)?mchrysanthemum\x1b\[0m", shown)  # in the middle of a long text
    assert re.search(
        r"^  …filler.* chrysanthemum filler.*\n  .*…$", plain, re.MULTILINE
    )  # more on both sides
    assert re.search(r"painting in value \d\.\d\d", plain)
    assert re.search(r"^people/facts/lisa · palace · (\d+ s ago|just now) · \d\.\d\d$", plain, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{12} · journal · ", plain, re.MULTILINE)


def test_what_is_kept_can_not_paint_the_terminal(agent, terminal):
    agent("journal", "red \x1b[31malert\x07 painting \u202e")
    agent("remember", "k\u200bey", "painting [bold]markup[/bold]")

    shown = terminal("search", "painting alert", "--explain")

    assert "\x1b[31m" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "[bold]markup[/bold]" in shown
    assert "\x1b[31m" not in agent("search", "painting alert").stdout


def test_a_person_sees_how_far_the_first_index_is_and_nothing_once_it_is_there(agent, forks):
    lines = (json.dumps({"key": f"k{number}", "value": "an otter sleeps"}) for number in range(450))
    agent("remember", "--many", "-", stdin="\n".join(lines))

    def shown():
        command = [forks.program, "search", "otter", "--limit", "1"]
        script = f"import pty, sys; sys.exit(pty.spawn({command}) >> 8)"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, timeout=20 * SECOND, check=True
        )
        return done.stdout.decode()

    first = shown()
    assert "reading memories" in first
    assert re.search(r"\b[24][05]0/450\b", first)
    assert " 0/0 " not in first
    assert first.index("450/450") < first.index("sleeps")
    assert "reading memories" not in shown()


# ── list ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def aged(agent, long_ago):
    long_ago(
        (9, lambda store: store.remember("user_name", "Ines")),
        (9, lambda store: store.persona_remember("people", "facts", "lisa", "artist")),
        (1, lambda store: store.remember("user_timezone", "Europe/Lisbon")),
        (1, lambda store: store.remember("city", "Lisbon")),
        (1, lambda store: store.persona_remember("people", "facts", "bo", "pianist")),
        (1, lambda store: store.persona_remember("world", "facts", "tram", "Tram 28")),
    )
    return agent


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("", ["city", "user_name", "user_timezone"]),
        ("--prefix user_", ["user_name", "user_timezone"]),
        ("--since 3d", ["city", "user_timezone"]),
        ("--prefix user_ --since 3d", ["user_timezone"]),
        ("--limit 2", ["city", "user_name"]),
        ("--prefix none", []),
        ("--prefix people/", ["people/facts/bo", "people/facts/lisa"]),
        ("--palace --prefix people/facts/l", ["people/facts/lisa"]),
        ("people --since 3d", ["people/facts/bo"]),
    ],
)
def test_list_is_narrowed_by_name_time_and_number(aged, options, names):
    assert sorted(found["path"] for found in aged.json("list", *options.split())) == names


def test_list_counts_what_it_leaves_out(aged):
    assert "2 more memories; raise --limit to see more\n" in aged("list", "-n", "1").stderr
    assert aged("list", "--prefix", "none").stderr.endswith(
        "No memory fits.\n3 memories in the palace: sense-memory list --palace\n"
    )
    assert "'soon' is not a time" in aged("list", "--since", "soon", code=2).stderr
    aged("list", "--limit", "0", code=2)


def test_the_palace_is_narrowed_down_by_its_places_themes_and_states(filled):
    filled("palace", "remember", "work/notes/lisa", "Lisa reviews on Fridays")
    for option, value in (
        ("--domain", "people"),
        ("--facet", "facts"),
        ("--theme", "Art"),
        ("--state", "active"),
    ):
        found = filled.json("search", "lisa", "artist", "--in", "palace", "--limit", "1", option, value)[
            "hits"
        ]
        assert [hit["path"] for hit in found] == ["people/facts/lisa"]
        assert (found[0]["domain"], found[0]["themes"], found[0]["state"]) == ("people", ["art"], "active")
    assert filled("search", "lisa", "--state", "asleep", code=2).stderr.startswith(
        "error: --state must be one of"
    )
    assert rows(filled("search", '"reviews on Fridays" lisa'))[0][1] == "work/notes/lisa"


# ── Fading and forgotten memories ───────────────────────────────────────────────────────


@pytest.fixture
def old(agent, long_ago):
    """A fading memory and a forgotten one."""
    long_ago(
        (130, lambda store: store.persona_remember("people", "facts", "bo", "Bo plays the accordion")),
        (70, lambda store: store.persona_remember("people", "facts", "lisa", "Lisa paints harbours")),
    )
    return agent


def test_a_fading_memory_is_marked_and_a_forgotten_one_is_counted_with_the_way_to_it(old):
    assert "[fading] Lisa paints harbours" in old("search", "who paints harbours?").stdout
    assert "[fading] Lisa paints harbours" in old("palace", "search", "who paints harbours?").stdout
    note = "1 forgotten memory matches; --state forgotten shows it, recall brings one back"
    nothing = old("search", "who plays the accordion?").stderr
    assert "Nothing was found." in nothing
    assert note in nothing
    assert "1 forgotten memory matches" in old("palace", "search", "who plays the accordion?").stderr
    assert "[forgotten] Bo plays" in old("search", "accordion", "--state", "forgotten").stdout
    assert old.json("search", "accordion") == {**NOTHING, "forgotten": 1}
    assert old.json("palace", "search", "accordion") == {"hits": [], "forgotten": 1, "confidence": 0.0}


def test_forgotten_memories_follow_the_others_where_that_is_wanted(old, monkeypatch):
    found = old.json("search", "lisa and bo", "--include-forgotten")
    assert ([hit["state"] for hit in found["hits"]], found["forgotten"]) == (["fading", "forgotten"], 0)
    monkeypatch.setenv("SENSE_MEMORY_SEARCH_FORGOTTEN", "yes")
    assert "[forgotten] Bo plays" in old("search", "accordion").stdout
    assert old.json("search", "accordion", "--no-include-forgotten") == {**NOTHING, "forgotten": 1}


def test_a_persons_search_is_no_use(old):
    for _ in range(2):
        (hit,) = old.json("search", "paints harbours")["hits"]
        assert hit["state"] == "fading"


def test_where_probably_nothing_is_kept_it_says_so_once_and_lists_the_nearest(filled):
    for command in (("search",), ("palace", "search")):
        found = filled(*command, "What perfume does Lisa wear?")
        assert found.stderr.count("Probably nothing about this is kept; these are only the nearest.") == 1
        assert "people/facts/lisa" in found.stdout
        told = filled.json(*command, "What perfume does Lisa wear?")
        assert told["confidence"] == max(hit["answer_confidence"] for hit in told["hits"]) < 0.2
        assert "Probably nothing" not in filled(*command, "lisa").stderr
