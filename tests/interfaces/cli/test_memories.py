from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from select import select

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import LedgerError
from sense_memory.interfaces.cli.tables import print_entries, print_memories
from sense_memory.models import JournalEntry, Memory
from sense_memory.records.envelope import Record, seal
from sense_memory.records.kinds import RecordType
from tests.time_unit import SECOND


HOSTILE = "red \x1b[31m, bidi \u202e, bell \x07, c1 \x9b, link [bold]no[/bold] :smile:"


def is_recent(stamp):
    return abs(time.time() - datetime.fromisoformat(stamp).astimezone(UTC).timestamp()) < 60


# ── remember, recall ────────────────────────────────────────────────────────────────────


def test_a_value_that_was_remembered_is_recalled_and_nothing_else_is_printed(agent):
    agent("remember", "user_timezone", "America/Vancouver")

    result = agent("recall", "user_timezone")

    assert (result.stdout, result.stderr) == ("America/Vancouver\n", "")


def test_without_relays_a_write_says_that_it_is_on_this_machine_only(agent):
    assert agent("remember", "k", "v").stdout == "kept · on this machine only: no relays are configured\n"


def test_writing_a_key_again_replaces_its_value(agent):
    agent("remember", "k", "old")
    agent("remember", "k", "new")

    assert agent("recall", "k").stdout == "new\n"


@pytest.mark.parametrize("arguments", [("remember", "k"), ("remember", "k", "-")])
def test_a_value_comes_from_stdin_where_it_is_missing_or_a_dash(agent, arguments):
    text = "two lines,\n  a tab\t, Zürich 東京 👩\u200d🚀\r\nand a final break\n\n"
    agent(*arguments, stdin=text.encode())

    assert agent.json("recall", "k")["value"] == text
    assert agent("recall", "k", "--raw").stdout_bytes == text.encode()


def test_an_empty_stdin_never_replaces_a_memory(agent):
    agent("remember", "k", "v")

    assert (
        "stdin is empty; give the value there, or as an argument"
        in agent("remember", "k", stdin="", code=2).stderr
    )
    assert agent("recall", "k").stdout == "v\n"


@pytest.mark.parametrize("name", ["k", "people/facts/lisa"])
def test_a_blank_text_never_replaces_a_memory(agent, name):
    agent("remember", name, "v")

    for blank in ("", "  "):
        assert (
            "must not be blank (to remove the memory, forget it)"
            in agent("remember", name, blank, code=2).stderr
        )
    assert agent("recall", name).stdout == "v\n"


def test_a_value_that_begins_with_a_dash_stands_behind_two(agent):
    agent("remember", "k", "-5", code=2)
    agent("remember", "--", "k", "-5")
    assert agent("recall", "k").stdout == "-5\n"


def test_a_value_that_is_not_utf8_is_refused_and_nothing_is_written(agent):
    result = agent("remember", "k", stdin=b"caf\xe9", code=2)

    assert "not UTF-8" in result.stderr
    assert "byte 3" in result.stderr
    agent("recall", "k", code=4)


def test_remember_as_json_says_what_was_written_and_who_has_it(agent):
    found = agent.json("remember", "lisa", "artist")

    assert found == {
        "path": "lisa",
        "key": "lisa",
        "event_id": found["event_id"],
        "unchanged": False,
        "acks": 0,
        "outdated": False,
        "relays": [],
    }
    assert found["event_id"] == agent.json("recall", "lisa")["event_id"]


def test_recall_as_json_has_the_time_as_iso_8601(agent):
    agent("remember", "lisa", "artist")

    found = agent.json("recall", "lisa")

    assert set(found) == {
        *("kind", "path", "key", "value", "created_at", "event_id"),
        *("source", "session", "derived_from", "sources"),
    }
    assert found["created_at"].endswith("Z")
    assert is_recent(found["created_at"])


def test_a_missing_key_exits_with_4_and_says_how_far_that_can_be_trusted(agent):
    result = agent("recall", "x", code=4)

    assert result.stdout == ""
    assert result.stderr == "error: no memory under 'x' (no relays are configured)\n"
    assert agent.json("recall", "x", code=4) == {
        "error": {"type": "NotFound", "message": "no memory under 'x' (no relays are configured)"}
    }


def test_a_missing_key_names_the_relays_it_was_last_in_step_with(agent, relay):
    agent("--relay", relay, "sync")

    result = agent("--relay", relay, "recall", "x", code=4)

    assert "(1 relay last read completely " in result.stderr
    nowhere = "ws://127.0.0.1:9"
    result = agent("--relay", relay, "--relay", nowhere, "recall", "x", code=4)
    assert result.stderr.endswith("; 1 relay never read completely)\n")


def test_a_key_that_breaks_the_rules_exits_with_2(agent):
    for key in ("..", "~x", "a\nb", "people/facts/~x"):
        assert "a memory key must" in agent("remember", key, "v", code=2).stderr
    assert "'a/b' is neither" in agent("remember", "a/b", "v", code=2).stderr
    assert agent.json("recall", "a/b", code=2)["error"]["type"] == "InvalidAddress"


def test_a_value_that_fits_no_relay_exits_with_2_and_says_the_limit(agent):
    result = agent("remember", "k", stdin="x" * 41_000, code=2)

    assert "40,960" in result.stderr
    agent("recall", "k", code=4)


def test_a_terminal_shows_a_value_with_everything_unseen_escaped(agent, terminal):
    agent("remember", "k", HOSTILE + "\nsecond\tline\u3000end")

    shown = terminal("recall", "k")

    assert "\x1b[31m" not in shown
    assert shown == (
        "red \\u001b[31m, bidi \\u202e, bell \\u0007, c1 \\u009b, link [bold]no[/bold] :smile:\n"
        "second\tline\u3000end\n"
    )


# ── What is there already ───────────────────────────────────────────────────────────────


def test_a_value_that_is_there_word_for_word_is_not_written_again(agent):
    first = agent.json("remember", "k", "v")

    again = agent.json("remember", "k", "v")

    assert (first["unchanged"], again["unchanged"]) == (False, True)
    assert again["event_id"] == first["event_id"]
    assert (
        agent("remember", "k", "v").stdout == "unchanged · on this machine only: no relays are configured\n"
    )
    assert len(agent.json("history", "k")) == 1
    assert agent("remember", "k", "v ").stdout.startswith("kept · ")
    assert agent("remember", "k", "v").stdout.startswith("kept · ")
    assert len(agent.json("history", "k")) == 3


def test_what_is_unchanged_is_sent_to_the_relays_that_lack_it(agent, relay, dead_relay):
    agent("remember", "k", "v")

    found = agent("--relay", relay, "remember", "k", "v", "--require-acks", "1")

    assert found.stdout == "unchanged · accepted by 1 relay\n"
    assert agent("--relay", relay, "--ledger", "new.db", "sync").exit_code == 0
    assert agent("--ledger", "new.db", "recall", "k").stdout == "v\n"
    agent("--relay", dead_relay, "remember", "k", "v", "--require-acks", "1", code=3)


def test_what_was_forgotten_is_written_again(agent):
    agent("remember", "k", "v")
    agent("forget", "k")

    assert not agent.json("remember", "k", "v")["unchanged"]
    assert agent("recall", "k").stdout == "v\n"


def test_many_that_are_there_already_are_counted_and_not_written_again(agent):
    first = agent.json("remember", "--many", "-", stdin='{"a": "1", "b": "2", "c": "3"}')

    found = agent.json("remember", "--many", "-", stdin='{"a": "1", "b": "two", "c": "3", "d": "4"}')

    assert (found["count"], found["unchanged"]) == (4, 2)
    assert [found["event_ids"][place] for place in (0, 2)] == [first["event_ids"][place] for place in (0, 2)]
    assert agent.json("status")["counts"]["events"] == 5
    text = '{"a": "1", "b": "2", "c": "3", "d": "4"}'
    assert agent("remember", "--many", "-", stdin=text).stdout.startswith("1 memory kept, 3 unchanged · ")
    assert agent("remember", "--many", "-", stdin=text).stdout.startswith("0 memories kept, 4 unchanged · ")


def test_of_a_key_that_comes_more_than_once_the_last_value_counts(agent):
    agent("remember", "k", "one")

    lines = "".join(f'{{"key": "k", "value": "{value}"}}\n' for value in ("one", "two", "two", "three"))
    found = agent.json("remember", "--many", "-", stdin=lines)

    assert (found["count"], found["unchanged"], len(found["event_ids"])) == (1, 0, 1)
    assert [version["value"] for version in agent.json("history", "k")] == ["three", "one"]
    said = agent("remember", "--many", "-", stdin=lines).stdout
    assert said.startswith("0 memories kept, 1 unchanged, 3 earlier values of a repeated key left out · ")


def test_a_key_that_comes_twice_is_one_memory_that_relays_have(agent, relay):
    lines = '{"key": "k", "value": "one"}\n{"key": "k", "value": "two"}\n'
    found = agent("--relay", relay, "remember", "--many", "-", "--require-acks", "1", stdin=lines).stdout

    assert found == "1 memory kept, 1 earlier value of a repeated key left out · accepted by 1 relay\n"


def test_the_same_text_under_another_spelling_of_the_key_is_no_reason_not_to_write(agent, nsec, tmp_path):
    """Another program may have written a name that is not normalised; ours is written beside it."""
    signer, other, ours = LocalSigner.from_nsec(nsec), "cafe\u0301", "caf\u00e9"

    async def event():
        record = Record(RecordType.FLAT, other, {"key": other, "value": "v", "ts": 1.0})
        return await signer.sign((await seal(signer, record)).at(1_700_000_000))

    (tmp_path / "other.jsonl").write_bytes(asyncio.run(event()).body() + b"\n")
    agent("import", tmp_path / "other.jsonl")
    assert agent("recall", other).stdout == "v\n"

    assert not agent.json("remember", other, "v")["unchanged"]
    assert agent.json("remember", other, "v")["unchanged"]
    assert agent.json("remember", ours, "v")["unchanged"]


def test_what_is_there_is_not_asked_of_a_relay(agent, dead_relay):
    """A write is durable before any relay is dialled, on a new device too."""
    assert agent("--relay", dead_relay, "remember", "k", "v", "--wait", "0").stdout == (
        f"kept · accepted by no relay yet ({dead_relay}: not contacted)\n"
    )


# ── remember --many ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        '{"key": "a", "value": "1"}\n\n{"key": "b", "value": "zwei"}\n',
        '{"a": "1", "b": "zwei"}',
        '[{"key": "a", "value": "1", "event_id": "…"}, {"key": "b", "value": "zwei"}]',
    ],
    ids=["lines", "object", "array"],
)
def test_many_memories_come_from_json_lines_an_object_or_an_array(agent, tmp_path, text):
    (tmp_path / "notes.json").write_text(text)

    assert agent("remember", "--many", "notes.json").stdout.startswith("2 memories kept · ")
    assert agent.json("remember", "--many", "-", stdin=text)["count"] == 2
    assert [(m["key"], m["value"]) for m in agent.json("list")] == [("a", "1"), ("b", "zwei")]


def test_any_name_may_be_a_key_of_one_object(agent):
    agent(
        "remember",
        "--many",
        "-",
        stdin='{"path": "/usr/bin", "themes": "dark", "people/facts/bob": "Baker."}',
    )

    assert agent("recall", "path").stdout == "/usr/bin\n"
    assert agent("recall", "people/facts/bob").stdout == "Baker.\n"


def test_one_line_of_json_is_one_memory_even_though_it_is_an_object(agent):
    agent("remember", "--many", "-", stdin='{"key": "a", "value": "1"}')

    assert agent("recall", "a").stdout == "1\n"


def test_what_list_prints_as_json_can_be_given_to_another_agent(agent):
    agent("remember", "a", "1\n2")
    agent("--agent", "bob", "init")

    agent("--agent", "bob", "remember", "--many", "-", stdin=agent("list", "--json").stdout)

    assert agent("--agent", "bob", "recall", "a").stdout == "1\n2\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"key": "a", "value": "1"}\n{"key": "b"', "line 2 is not JSON"),
        ('{"key": "a", "value": "1"}\n{"key": "b"}', 'line 2 is not an object with "key" and "value"'),
        (
            '{"key": "a", "value": "1"}\n{"key": "b/c", "value": "2"}',
            "is neither a flat key, which has no '/', nor a path DOMAIN/FACET/KEY",
        ),
        ('{"a": "1", "b/c/d": " "}', "entry 2: a memory's value must not be blank"),
        ('{"a": "1", "b/c/d": "%s"}' % ("x" * 41_000), "entry 2: the memory needs"),
        ('[{"key": "a/b/c", "value": "1", "theme": ["x"]}]', "entry 1: 'theme' would be lost"),
        ('[{"key": "a/b/c", "value": "1", "themes": "x"}]', "entry 1: themes must be a list of texts"),
        ('[{"key": "a", "value": "1", "themes": ["x"]}]', "entry 1: themes is for palace memories"),
        ('[{"key": "a", "value": "1", "domain": "people"}]', "entry 1: domain is for palace memories"),
        ('[{"key": "c", "path": "a/b/d", "value": "1"}]', "entry 1: the path 'a/b/d' and the key 'c' differ"),
        ('{"k": "1", "a/b/c": "2", "flat/b/c": "3"}', "entry 3: "),
        ('{"a": "1", "b": 2}', "entry 2: a memory's value must be text"),
        ('{"a": "1", "b": " "}', "entry 2: a memory's value must not be blank"),
        ('[{"key": "a", "value": "1"}, 7]', "entry 2 is not an object"),
        ('{"a": "1"}\n{"key": "b", "value": "%s"}' % ("x" * 41_000), "line 1 is not an object"),
        ('{"a": "1", "b": "%s"}' % ("x" * 41_000), "entry 2: "),
        ("\xff", "not UTF-8"),
    ],
)
def test_a_faulty_file_is_refused_as_a_whole_with_its_place(agent, text, problem):
    result = agent("remember", "--many", "-", stdin=text.encode("latin-1"), code=2)

    assert problem in result.stderr
    assert "nothing was written" in result.stderr
    assert agent.json("list") == []


def test_many_and_a_key_exclude_each_other_and_one_is_needed(agent):
    agent("remember", code=2)
    agent("remember", "k", "--many", "-", stdin="{}", code=2)
    assert agent.json("list") == []


def test_an_empty_file_keeps_nothing_and_is_no_error(agent):
    assert agent.json("remember", "--many", "-", stdin="") == {
        "count": 0,
        "unchanged": 0,
        "event_ids": [],
        "superseded": [],
        "suspected": [],
        "unmarked": [],
        "acks": 0,
        "outdated": False,
        "relays": [],
    }


def test_many_memories_may_be_of_the_palace_too(agent, relay):
    lines = [
        {"key": "user_timezone", "value": "Europe/Lisbon"},
        {"key": "people/facts/home", "value": "Lisa lives in Berlin."},
        {
            "path": "people/facts/lisa",
            "value": "Artist.",
            "themes": ["art"],
            "connections": ["home"],
            "source": None,
        },
        {
            "domain": "people",
            "facet": "facts",
            "key": "moved",
            "value": "Lisa lives in Lisbon.",
            "halflife_days": 5,
        },
    ]
    stdin = "".join(f"{json.dumps(line)}\n" for line in lines)

    found = agent.json("--relay", relay, "remember", "--many", "-", "--require-acks", "1", stdin=stdin)

    assert (found["count"], found["unchanged"], len(set(found["event_ids"]))) == (4, 0, 4)
    assert found["event_ids"][0] == agent.json("recall", "user_timezone")["event_id"]
    (pair,) = found["superseded"]
    assert (pair["old"], pair["new"]) == ("people/facts/home", "people/facts/moved")
    assert found["suspected"] == found["unmarked"] == []
    assert agent("recall", "user_timezone").stdout == "Europe/Lisbon\n"
    lisa = agent.json("recall", "people/facts/lisa")
    assert (lisa["value"], lisa["themes"], lisa["connections"]) == ("Artist.", ["art"], ["people/facts/home"])
    assert agent.json("recall", "people/facts/moved")["halflife_days"] == 5


def test_of_many_palace_memories_it_is_said_what_they_contradict_and_how_to_decide(agent):
    homes = {
        "people/facts/home": "Lisa lives in Berlin.",
        "k": "v",
        "people/facts/moved": "Lisa lives in Kiel.",
    }
    shown = agent("remember", "--many", "-", stdin=json.dumps(homes)).stdout.splitlines()

    assert shown[0].startswith("3 memories kept · ")
    assert shown[1].startswith("people/facts/moved contradicts people/facts/home (lives in: Berlin → Kiel; ")
    assert shown[2].startswith("If both are right: sense-memory palace reconcile people/facts/home people")
    agent(*shown[2].partition("sense-memory ")[2].split())
    assert agent.json("palace", "show", "home")["superseded_by"] is None
    more = {
        f"people/facts/k{number}": f"Lisa lives in {city}." for number, city in enumerate(("Rome", "Oslo"))
    }
    assert (
        "contradicts"
        not in agent("remember", "--many", "-", "--contradictions", "off", stdin=json.dumps(more)).stdout
    )
    agent("remember", "--many", "-", "--theme", "x", stdin="{}", code=2)
    more = {
        f"people/facts/ben{number}": f"Ben lives in {city}." for number, city in enumerate(("Rome", "Oslo"))
    }
    shown = agent("remember", "--many", "-", "--contradictions", "suggest", stdin=json.dumps(more)).stdout
    assert "people/facts/ben1 contradicts people/facts/ben0 (lives in: Rome → Oslo; " in shown
    assert (
        "; nothing was marked.\nIf people/facts/ben0 is wrong now: sense-memory palace contradict " in shown
    )


def test_the_same_file_twice_writes_no_palace_memory_again_and_changes_no_mark(agent):
    entries = [
        {"key": "people/facts/home", "value": "Tom lives in Bonn.", "themes": ["town"]},
        {"key": "people/facts/moved", "value": "Tom lives in Paris.", "connections": ["home"]},
        {"key": "people/facts/pet", "value": "Tom has a cat.", "connections": ["people/facts/moved", "home"]},
    ]
    first = agent.json("remember", "--many", "-", stdin=json.dumps(entries))
    assert [pair["old"] for pair in first["superseded"]] == ["people/facts/home"]
    names = [entry["key"] for entry in entries]
    before = [agent.json("palace", "show", name) for name in names]

    again = agent.json("remember", "--many", "-", stdin=json.dumps(entries))

    assert (again["count"], again["unchanged"]) == (3, 3)
    assert again["superseded"] == again["suspected"] == again["unmarked"] == []
    after = [agent.json("palace", "show", name) for name in names]
    assert again["event_ids"] == [memory["event_id"] for memory in before]
    for field in ("event_id", "contradicts", "superseded_by", "suspected_by", "last_accessed"):
        assert [memory[field] for memory in after] == [memory[field] for memory in before]
    said = agent("remember", "--many", "-", stdin=json.dumps(entries)).stdout
    assert said.startswith("0 memories kept, 3 unchanged · ")


@pytest.mark.parametrize(
    "other",
    [
        {"value": "Tom has a dog."},
        {"themes": ["animals"]},
        {"connections": ["people/facts/work"]},
        {"connections": ["people/facts/work", "people/facts/home", "people/facts/new"]},
        {"halflife_days": 5},
        {"source": "user"},
        {"confidence": 0.5},
    ],
)
def test_of_many_a_palace_memory_with_something_else_is_written(agent, other):
    pet = {"key": "people/facts/pet", "value": "Tom has a cat.", "themes": ["cats"]}
    pet |= {"connections": ["people/facts/work", "home"], "source": "agent"}
    agent("remember", "people/facts/home", "Tom lives in Bonn.")
    agent("remember", "people/facts/work", "Tom sells ships.")
    agent("remember", "--many", "-", stdin=json.dumps([pet]))

    assert agent.json("remember", "--many", "-", stdin=json.dumps([pet, pet]))["unchanged"] == 1
    assert agent.json("remember", "--many", "-", stdin=json.dumps([pet | other]))["unchanged"] == 0
    found = agent.json("palace", "show", "pet")
    for name, value in other.items():
        assert found[name] == value


def test_of_many_an_unchanged_memory_that_a_new_one_supersedes_is_held_by_the_event_with_the_mark(agent):
    home = {"people/facts/home": "Tom lives in Bonn."}
    agent("remember", "--many", "-", stdin=json.dumps(home))

    found = agent.json(
        "remember", "--many", "-", stdin=json.dumps(home | {"people/facts/moved": "Tom lives in Paris."})
    )

    assert (found["unchanged"], [pair["old"] for pair in found["superseded"]]) == (1, ["people/facts/home"])
    assert found["event_ids"][0] == agent.json("palace", "show", "home")["event_id"]


def test_of_many_a_memory_that_faded_is_renewed_but_not_one_with_a_mark(agent, long_ago, remembers):
    given = {
        "people/facts/home": "Tom lives in Bonn.",
        "people/facts/moved": "Tom lives in Paris.",
        "people/facts/pet": "Tom has a cat.",
    }
    long_ago(*((200, remembers(path, value)) for path, value in given.items()))

    found = agent.json("remember", "--many", "-", stdin=json.dumps(given))

    assert (found["count"], found["unchanged"], found["unmarked"]) == (3, 1, [])
    home, moved, pet = (agent.json("palace", "show", path) for path in given)
    assert (home["superseded_by"], home["state"]) == ("people/facts/moved", "dissolved")
    assert (moved["state"], pet["state"]) == ("active", "active")


def test_where_writing_many_fails_it_is_said_what_is_kept(agent, monkeypatch):
    async def fails(*_args, **_options):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(MemoryStore, "remember_many", fails)
    told = agent("remember", "--many", "-", stdin='{"k": "v", "a/b/c": "x", "a/b/d": "y"}', code=1).stderr

    assert told == (
        "2 of 3 memories are kept and will be sent, those of the palace first; the rest was not written\n"
        "error: the disk is full\n"
    )
    assert agent.json("palace")["total"] == 2


def test_what_the_palace_refuses_is_refused_before_anything_is_written(agent):
    entries = [{"key": "k", "value": "v"}, {"key": "a/b/c", "value": "x", "connections": ["nobody"]}]

    assert "nobody" in agent("remember", "--many", "-", stdin=json.dumps(entries), code=2).stderr
    assert agent.json("status")["counts"]["events"] == 0


def test_a_file_that_is_not_there_is_one_sentence(agent):
    assert (
        agent("remember", "--many", "none.json", code=1).stderr
        == "error: none.json: No such file or directory\n"
    )


# ── forget ──────────────────────────────────────────────────────────────────────────────


def test_a_forgotten_memory_is_not_found_and_its_text_has_left_the_ledger(agent, home):
    agent("remember", "k", "v")

    assert agent("forget", "k").stdout == "forgotten here · no relays are configured\n"
    agent("recall", "k", code=4)
    (ledger,) = (home / "ledgers").glob("*.db")
    with sqlite3.connect(ledger) as db:
        assert db.execute("SELECT count(*) FROM events WHERE role = 0").fetchone() == (0,)
    db.close()


# ── journal, recent ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stdin", "text"),
    [("one\n", "one"), ("one\r\n", "one"), ("one\n\n", "one\n"), ("a\nb", "a\nb"), (" one \n", " one ")],
)
def test_the_line_break_that_ends_a_piped_entry_is_no_part_of_it(agent, stdin, text):
    agent("journal", stdin=stdin)

    assert agent.json("recent")[0]["value"] == text
    agent("journal", "as typed\n")
    assert agent.json("recent")[0]["value"] == "as typed\n"


def test_an_entry_of_nothing_but_a_line_break_is_not_written(agent):
    told = "error: stdin is empty; give the entry there, or as an argument\n"
    assert agent("journal", stdin="\n", code=2).stderr == told  # no empty entry is offered, for none is taken
    assert agent.json("recent") == []


def test_the_journal_shows_the_newest_entry_first(agent):
    agent("journal", "first")
    agent("journal", stdin="second\n")

    shown = agent("recent").stdout.splitlines()

    assert [shown[1], shown[4]] == ["second", "first"]
    assert " · 20" in shown[0]


def test_recent_shows_only_what_is_newer_than_since(agent, long_ago):
    long_ago(
        (3, lambda store: store.journal("three days ago")), (1, lambda store: store.journal("yesterday"))
    )

    assert [entry["value"] for entry in agent.json("recent", "--since", "2d")] == ["yesterday"]
    assert len(agent.json("recent", "--since", "4d")) == 2
    assert "There are no journal entries since then." in agent("recent", "--since", "1h").stderr
    agent("recent", "--since", "nonsense", code=2)


def test_recent_as_json_and_its_limit(agent):
    for text in ("one", "two", "three"):
        agent("journal", text)

    found = agent.json("recent", "--limit", "2")

    assert [entry["value"] for entry in found] == ["three", "two"]
    assert set(found[0]) == {"kind", "path", "key", "value", "created_at", "event_id", "source", "session"}
    assert is_recent(found[0]["created_at"])


def test_an_empty_journal_and_an_empty_entry(agent):
    assert agent("recent").stderr.endswith("sync`\nThe journal is empty.\n")
    assert agent.json("recent") == []
    assert "stdin is empty" in agent("journal", stdin="", code=2).stderr
    assert "not blank" in agent("journal", "", code=2).stderr
    assert agent.json("recent", "-n", "0", code=2)["error"] == {
        "type": "InvalidInput",
        "message": "--limit must be between 1 and 100,000, not 0",
    }


def test_journal_as_json(agent):
    found = agent.json("journal", "hello")

    ident = agent.json("recent")[0]["event_id"]
    assert found == {
        "path": f"journal/{ident}",
        "key": ident,
        "event_id": ident,
        "acks": 0,
        "outdated": False,
        "relays": [],
    }


def test_journal_entries_are_escaped_and_never_markup(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    print_entries([JournalEntry(content=HOSTILE, created_at=1_000.0, event_id="a1" * 32)], 1_090.0)

    assert capsys.readouterr().out.splitlines() == [
        f"1 min ago · {datetime.fromtimestamp(1_000, UTC).astimezone():%Y-%m-%d %H:%M} · a1a1a1a1a1a1",
        "red \\u001b[31m, bidi \\u202e, bell \\u0007, c1 \\u009b, link [bold]no[/bold] :smile:",
    ]


# ── journal --remove ────────────────────────────────────────────────────────────────────


def test_a_journal_entry_is_removed_by_the_id_that_recent_shows(agent, home):
    for text in ("first", "second", "third"):
        agent("journal", text)
    shown = agent("recent").stdout.split("\n\n")[1].splitlines()
    assert shown[1] == "second"

    result = agent("journal", "--remove", shown[0].rpartition(" · ")[2])

    assert result.stdout == "removed here · no relays are configured\n"
    assert [entry["value"] for entry in agent.json("recent")] == ["third", "first"]
    (ledger,) = (home / "ledgers").glob("*.db")
    with sqlite3.connect(ledger) as db:
        assert db.execute("SELECT count(*) FROM events WHERE kind = 4").fetchone() == (2,)
    db.close()


def test_removing_an_entry_as_json_and_from_a_relay(agent, relay):
    ident = agent.json("--relay", relay, "journal", "hello")["event_id"]

    found = agent.json("--relay", relay, "journal", "--remove", ident.upper())

    assert found == {**found, "key": ident, "acks": 1}
    assert len(found["deletion_id"]) == 64
    assert agent.json("--relay", relay, "--ledger", "new.db", "sync")["in_step"]
    assert agent.json("--ledger", "new.db", "recent") == []


def test_forget_names_the_lost_edit_of_a_memory_that_is_still_here(agent, relay):
    second = ("--relay", relay, "--ledger", "new.db")
    agent("--relay", relay, "remember", "home/facts/bins", "Monday")
    agent(*second, "sync")
    agent("--relay", relay, "remember", "home/facts/bins", "Tuesday", "--wait", "0")
    agent(*second, "remember", "home/facts/bins", "Friday", "--wait", "0")
    agent(*second, "sync")
    agent("--relay", relay, "sync")
    copies = [found["path"] for found in agent.json("list", "home") if "~" in found["path"]]
    assert len(copies) == 1

    told = agent("forget", "home/facts/bins").stderr

    assert f"{copies[0]} is still here: an edit of home/facts/bins that lost" in told
    assert "still here" not in agent("forget", copies[0]).stderr


def test_an_entry_that_is_not_there_or_not_meant_clearly_is_left_alone(agent):
    memory = agent.json("remember", "k", "v")["event_id"]
    agent("journal", "hello")

    assert "no journal entry" in agent("journal", "--remove", "0" * 12, code=4).stderr
    assert agent.json("journal", "--remove", memory, code=4)["error"]["type"] == "NotFound"
    for wrong in ("abc", "x" * 64, "0" * 65, ""):
        assert "give at least 8 of its digits" in agent("journal", "--remove", wrong, code=2).stderr
    agent("journal", "text", "--remove", "0" * 12, code=2)
    assert len(agent.json("recent")) == 1
    assert agent("recall", "k").stdout == "v\n"


def test_the_beginning_of_two_ids_is_not_enough(agent, monkeypatch):
    async def alike(self, limit):
        return [JournalEntry(content="x", created_at=0.0, event_id=f"{'a' * 63}{n}") for n in (1, 2)]

    monkeypatch.setattr(MemoryStore, "recent", alike)

    assert "2 entries begin with 'aaaaaaaa'" in agent("journal", "--remove", "a" * 8, code=2).stderr


# ── list ────────────────────────────────────────────────────────────────────────────────


def test_in_a_pipe_a_list_is_tabs_with_whole_values_on_one_line_each(agent):
    agent("remember", "b", "x" * 300)
    agent("remember", "a", "one\ntwo\tthree\x1b")

    first, second = (line.split("\t") for line in agent("list").stdout.splitlines())

    assert (first[0], first[2]) == ("a", "one↵ two three\\u001b")
    assert (second[0], second[2]) == ("b", "x" * 300)
    assert is_recent(first[1])


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_in_a_terminal_a_list_fits_its_width(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    memories = [
        Memory(key="k" * 200, value=f"{HOSTILE}\nmore", created_at=0.0, event_id=""),
        Memory(key="tokyo", value="東京 " * 50, created_at=0.0, event_id=""),
    ]

    print_memories(memories, 90.0)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(len(line.encode("utf-16-le")) // 2 <= columns for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "1 min ago" in lines[1]
    assert lines[1].count("…") == 2


def test_a_list_in_a_real_terminal_is_a_table(agent, terminal):
    agent("remember", "lisa", "artist, teaches workshops")

    header, row = re.sub(r"\x1b\[\d*m", "", terminal("list", columns=60)).splitlines()

    assert header.split() == ["key", "age", "value"]
    assert row.startswith("lisa ")
    assert "artist, teaches" in row


def test_an_empty_list(agent):
    assert agent("list").stderr.endswith("sync`\nThere are no flat memories.\n")
    assert agent.json("list") == []


def test_json_escapes_what_a_terminal_must_not_see_and_keeps_letters(agent):
    agent("remember", "k", HOSTILE + "東京 \x7f \U000e0041")

    shown = agent("recall", "k", "--json").stdout

    assert "東京" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert json.loads(shown)["value"] == HOSTILE + "東京 \x7f \U000e0041"


def test_who_interrupts_many_is_told_how_many_are_kept(agent, forks, tmp_path):
    many = tmp_path / "many.json"
    many.write_text(json.dumps({f"k{number}": "v" for number in range(10_000)}))
    command = [forks.program, "remember", "--many", str(many)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 30 * SECOND
        while not agent.json("status")["counts"]["heads"] and time.monotonic() < until:
            select([process.stderr], [], [], 0.02)  # a ledger has no event to wait for
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30 * SECOND)

    kept = agent.json("status")["counts"]["heads"]
    assert process.returncode == 130
    assert 0 < kept < 10_000
    assert f"interrupted: the first {kept:,} of 10,000 memories are kept" in told


def test_a_single_misspelt_object_is_not_taken_for_two_memories(agent):
    told = agent("remember", "--many", "-", stdin='{"key": "a", "vaule": "1"}\n', code=2).stderr

    assert 'entry 1 is not an object with "key" and "value"; nothing was written' in told
    assert agent.json("status")["counts"]["heads"] == 0


@pytest.mark.parametrize(("value", "shown"), [("v", b"v\n"), ("v\n", b"v\n"), ("v\r\n\n", b"v\r\n\n")])
def test_recall_ends_with_one_line_break_and_raw_prints_the_value_alone(agent, value, shown):
    agent("remember", "k", stdin=value)

    assert agent("recall", "k").stdout_bytes == shown
    assert agent("recall", "k", "--raw").stdout_bytes == value.encode()


# ── Names that differ in capital letters only ───────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "other"),
    [("People/Facts/Lisa", "people/facts/lisa"), ("People/facts/tom", "people/facts/tom")],
)
def test_without_a_terminal_a_name_that_differs_in_capital_letters_is_named(agent, path, other):
    agent("remember", "people/facts/lisa", "Artist.")

    said = agent("remember", path, "Painter.")

    assert said.stderr.startswith(f"note: {other!r} differs from {path!r} in capital letters only")
    assert agent("recall", path).stdout == "Painter.\n"
    assert agent("recall", "people/facts/lisa").stdout == "Artist.\n"
    assert agent("remember", path, "Painter of walls.").stderr == ""  # it is known now


def test_a_new_name_of_its_own_is_not_remarked_upon(agent):
    agent("remember", "people/facts/lisa", "Artist.")

    assert agent("remember", "people/beliefs/Lisa", "Honest.").stderr == ""
    assert agent("remember", "people/facts/lisa", "Painter.").stderr == ""


@pytest.mark.parametrize(("answer", "written"), [("y\n", "people/facts/lisa"), ("n\n", "People/Facts/Lisa")])
def test_a_terminal_is_asked_which_of_two_names_that_differ_in_capital_letters_is_meant(
    agent, forks, answer, written
):
    agent("remember", "people/facts/lisa", "Artist.")

    code, shown = forks.on_terminal(
        "-m", "sense_memory", "remember", "People/Facts/Lisa", "Painter.", keys=answer
    )

    assert code == 0
    assert "Write to 'people/facts/lisa'?" in shown
    assert agent("recall", written).stdout == "Painter.\n"
