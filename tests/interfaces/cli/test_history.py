"""`history`, `as-of` and `undo`: how they show what the time machine knows."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest

from sense_memory.interfaces.cli.tables import print_history
from sense_memory.memories.history import Version


HOSTILE = "red \x1b[31m, bidi \u202e, bell \x07 [bold]no[/bold] :smile:"
NOW = 1_800_000_000.0


def version(value, ago, *, ident="a", is_head=False, restored=""):
    return Version(value, NOW - ago, ident * 64, is_head, restored)


def local(ago):
    return f"{datetime.fromtimestamp(NOW - ago, UTC).astimezone():%Y-%m-%d %H:%M}"


@pytest.fixture
def edited(agent):
    """An agent that changed its mind twice."""
    for value in ("one", "two", "three"):
        agent("remember", "k", value)
    return agent


# ── history ─────────────────────────────────────────────────────────────────────────────


def test_a_history_shows_what_each_version_changed_newest_first(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    versions = [
        version("Lisa lives in Porto", 60, ident="c", is_head=True, restored="a" * 64),
        version("Lisa lives in Lisbon", 7_200, ident="b"),
        version("Lisa lives in Porto", 90_000, ident="a"),
    ]

    print_history(versions, NOW, first_seen=True)

    assert capsys.readouterr().out.splitlines() == [
        f"1 min ago · {local(60)} · cccccccccccc · now · back to aaaaaaaaaaaa",
        "  - Lisa lives in Lisbon",
        "  + Lisa lives in Porto",
        "",
        f"2 h ago · {local(7_200)} · bbbbbbbbbbbb",
        "  - Lisa lives in Porto",
        "  + Lisa lives in Lisbon",
        "",
        f"1 day ago · {local(90_000)} · aaaaaaaaaaaa",
        "  + Lisa lives in Porto",
    ]


def test_what_was_forgotten_has_no_text_and_what_follows_begins_anew(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    print_history([version("new", 60, is_head=True), version(None, 90)], NOW, first_seen=True)

    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  + new"
    assert lines[3].endswith(" · forgotten")
    assert len(lines) == 4


def test_the_same_text_again_and_a_comparison_that_is_too_long(capsys):
    long = "\n".join(str(number) for number in range(100))
    print_history([version("x", 0), version("x", 1), version(long, 2)], NOW, first_seen=True)

    shown = capsys.readouterr().out
    assert "  the same text\n" in shown
    assert shown.count("\n  + ") == 40
    assert shown.endswith("  … and more\n")


def test_an_older_version_may_be_there_for_comparison_only(capsys):
    print_history([version("two", 0), version("one", 1)], NOW, first_seen=False)

    assert capsys.readouterr().out.splitlines()[1:] == ["  - one", "  + two"]


def test_texts_in_a_history_are_escaped_and_never_markup(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    print_history([version(HOSTILE, 0, restored="\x1b[31m\u202e")], NOW, first_seen=True)

    shown = capsys.readouterr().out
    assert "  + red \\u001b[31m, bidi \\u202e, bell \\u0007 [bold]no[/bold] :smile:\n" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_history_in_a_real_terminal_keeps_its_marks_without_colours(agent, terminal):
    agent("remember", "k", "word " * 30 + "old")
    agent("remember", "k", "word " * 30 + "new")

    shown = terminal("history", "k", columns=60)
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()

    assert not re.search(r"\x1b\[[\d;]*3[12]m", shown)
    assert [line[:4] for line in lines[1:3]] == ["  - ", "  + "]
    assert all(len(line) <= 60 for line in lines)
    assert sum(line.startswith("    ") for line in lines) >= 2


def test_a_history_in_a_real_terminal_has_colours(edited, terminal, monkeypatch):
    monkeypatch.delenv("NO_COLOR")

    shown = terminal("history", "k")

    assert "\x1b[31m  - \x1b[0m" in shown
    assert "\x1b[32m  + \x1b[0m" in shown


def test_a_history_can_be_limited_and_says_so(edited):
    result = edited("history", "k", "--limit", "2")

    assert [line for line in result.stdout.splitlines() if line.startswith("  ")] == [
        "  - two",
        "  + three",
        "  - one",
        "  + two",
    ]
    assert result.stderr == "1 older version not shown; --limit 3 shows all\n"
    assert edited("history", "k", "--limit", "2", "--json").stderr == result.stderr
    assert edited("history", "k", "-n", "3").stderr == ""
    edited("history", "k", "-n", "0", code=2)


def test_a_history_as_json(edited):
    edited("undo", "k")

    found = edited.json("history", "k")

    assert [item["value"] for item in found] == ["two", "three", "two", "one"]
    assert [item["is_head"] for item in found] == [True, False, False, False]
    assert [item["restored"] for item in found] == [found[2]["event_id"], None, None, None]
    assert {(item["path"], item["key"]) for item in found} == {("k", "k")}
    assert len(edited.json("history", "k", "-n", "1")) == 1


def test_a_forgotten_memory_has_a_history_of_one_and_an_unknown_key_has_none(edited):
    edited("forget", "k")

    (left,) = edited.json("history", "k")
    assert (left["value"], left["forgotten"]) == (None, True)
    assert "forgotten" in edited("history", "k").stdout
    assert edited("history", "none", code=4).stdout == ""


# ── as-of ───────────────────────────────────────────────────────────────────────────────


def test_memories_as_they_were_are_listed_as_by_list(edited):
    then = edited.json("history", "k")[1]["created_at"]
    edited("remember", "later", "x")

    result = edited("as-of", then)

    assert result.stdout.split("\t")[0::2] == ["k", "two\n"]
    assert result.stderr.startswith("1 memory as of 20")
    (found,) = edited.json("as-of", then)
    assert (found["key"], found["value"], found["created_at"]) == ("k", "two", then)
    assert edited.json("as-of", "now") == edited.json("list")


def test_one_memory_as_it_was_is_printed_as_by_recall(edited):
    then = edited.json("history", "k")[1]["created_at"]

    assert edited("as-of", then, "k").stdout_bytes == b"two\n"
    assert edited.json("as-of", then, "k")["value"] == "two"
    assert edited("as-of", "now", "k").stdout == "three\n"
    before = edited("as-of", "3h", "k", code=4)
    assert re.search(r"no memory under 'k' was here at 20.* \(3 h ago\)", before.stderr)
    edited("as-of", "now", "none", code=4)


def test_before_everything_there_was_nothing(edited):
    result = edited("as-of", "2020-01-01")

    assert (result.stdout, result.stderr[:28]) == ("", "There were no memories here ")
    assert edited.json("as-of", "2020-01-01") == []


def test_what_was_forgotten_is_gone_from_the_past_too(edited):
    edited("forget", "k")

    assert edited.json("as-of", "now") == []
    edited("as-of", "now", "k", code=4)


def test_a_time_that_is_none_is_wrong_input(edited):
    assert edited("as-of", "yore", code=2).stdout == ""
    assert edited.json("as-of", "2099-01-01", code=2)["error"]["type"] == "InvalidInput"
    edited("as-of", "2", "days", "ago", code=2)


def test_a_day_may_be_named(edited):
    assert edited("as-of", "today", "k").stdout == "three\n"
    assert [memory["value"] for memory in edited.json("as-of", "Today")] == ["three"]
    assert "There were no memories here at" in edited("as-of", "yesterday").stderr
    assert edited("as-of", "3 days ago").stdout == ""
    edited("as-of", "yesterday", "k", code=4)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["undo", "none"], "'none' is"),
        (["undo", "a/b/none"], "'a/b/none' is"),
        (["as-of", "2020-01-01"], "what was kept at 2020-01-02 00:00 ("),
        (["as-of", "2020-01-01", "k"], "what 'k' was at 2020-01-02 00:00 ("),
        (["as-of", "now", "none"], "what 'none' was at 20"),
    ],
)
def test_what_is_not_here_is_unknown_while_no_relay_has_shown_everything(edited, dead_relay, command, what):
    told = edited("--relay", dead_relay, *command, code=1)

    assert told.stdout == ""
    assert told.stderr.startswith(f"error: {what}")
    assert "not in the local ledger, but no relay ever showed everything" in told.stderr
    assert told.stderr.endswith("; run `sense-memory sync`, then try again\n")
    assert edited.json("--relay", dead_relay, *command, code=1)["error"]["type"] == "NotSynced"


def test_what_is_here_is_shown_though_no_relay_has_shown_everything(edited, dead_relay):
    listed = edited("--relay", dead_relay, "as-of", "now")

    assert listed.stdout.startswith("k\t")
    assert listed.stderr.startswith("incomplete: ")
    assert edited("--relay", dead_relay, "undo", "k", "--wait", "0").stdout.startswith("two\n")


def test_a_memory_as_it_was_is_escaped_in_a_terminal(agent, terminal):
    agent("remember", "k", HOSTILE)

    assert terminal("as-of", "now", "k") == (
        "red \\u001b[31m, bidi \\u202e, bell \\u0007 [bold]no[/bold] :smile:\n"
    )


# ── undo ────────────────────────────────────────────────────────────────────────────────


def test_undo_prints_what_it_brought_back_and_again_goes_further(edited):
    first, second = edited("undo", "k"), edited("undo", "k")

    assert first.stdout == "two\nbrought back · on this machine only: no relays are configured\n"
    assert second.stdout.startswith("one\n")
    assert edited("recall", "k").stdout == "one\n"
    told = edited("undo", "k", code=4).stderr
    assert told == (
        "error: 'k' has no older text here, so nothing was undone; `sense-memory history k` shows its versions, "
        "and `remember` writes the text that you want\n"
    )
    assert edited("recall", "k").stdout == "one\n"


@pytest.mark.parametrize("command", ["history", "undo", "refresh"])
def test_a_name_that_is_no_path_is_named_with_what_to_give(agent, command):
    told = agent(command, "people/facts", code=2).stderr

    assert told == "error: 'people/facts' is neither a key nor a path domain/facet/key\n"


@pytest.mark.parametrize("name", ["other", "people/facts/lisa"])
def test_undo_points_to_a_history_only_where_that_has_another_text(agent, name):
    agent("remember", name, "one")
    told = agent("undo", name, code=4).stderr
    assert told == f"error: {name!r} never had another text here, so nothing was undone\n"

    agent("forget", name)
    told = agent("undo", name, code=4).stderr
    assert told == (
        f"error: {name!r} was forgotten, which erased its text for good, so nothing was undone; "
        "remember it anew\n"
    )


@pytest.mark.parametrize("name", ["other", "people/facts/lisa"])
def test_undo_of_a_memory_that_was_forgotten_and_remembered_anew_says_so(agent, name):
    agent("remember", name, "one")
    agent("forget", name)
    agent("remember", name, "two")

    assert agent("undo", name, code=4).stderr == (
        f"error: an earlier text of {name!r} was forgotten, which erased it for good, and {name!r} has had one text "
        "since, so nothing was undone\n"
    )


def test_undo_of_a_memory_without_links_gives_no_advice_about_links(agent):
    agent("remember", "people/facts/home", "Lisa lives in Berlin.")
    agent("remember", "people/facts/work", "Lisa paints.")
    agent("palace", "connect", "home", "work")
    agent("palace", "disconnect", "home", "work")

    assert agent("undo", "people/facts/home", code=4).stderr == (
        "error: 'people/facts/home' never had another text here, so nothing was undone\n"
    )


def test_a_forgotten_key_gives_way_to_the_palace_memory_with_that_key(agent):
    agent("remember", "lisa", "a note")
    agent("forget", "lisa")
    agent("remember", "people/facts/lisa", "one")
    agent("remember", "people/facts/lisa", "two")

    assert "one" in agent("history", "lisa").stdout
    assert agent("undo", "lisa").stdout.startswith("one\n")


def test_a_key_that_begins_with_a_dash_is_quoted_so_that_the_hint_can_be_copied(agent):
    for text in ("one", "two"):
        agent("remember", "--", "-x", text)
    agent("undo", "--", "-x")

    assert "`sense-memory history -- -x`" in agent("undo", "--", "-x", code=4).stderr


def test_undo_as_json_and_on_a_relay(edited, relay):
    found = edited.json("--relay", relay, "undo", "k")

    assert (found["key"], found["value"], found["acks"]) == ("k", "two", 1)
    assert found["event_id"] == edited.json("recall", "k")["event_id"]
    assert abs(datetime.fromisoformat(found["created_at"]).timestamp() - time.time()) < 60
    edited("--relay", relay, "--ledger", "new.db", "sync")
    assert edited("--ledger", "new.db", "recall", "k").stdout == "two\n"


def test_undo_can_ask_for_acknowledgements(edited, dead_relay):
    result = edited("--relay", dead_relay, "undo", "k", "--wait", "1", "--require-acks", "1", code=3)

    assert "0 relays acknowledged this, but --require-acks asked for 1" in result.stderr
    assert edited("recall", "k").stdout == "two\n"
    edited("undo", "k", "--wait", "0", "--require-acks", "1", code=2)
    assert edited("recall", "k").stdout == "two\n"


@pytest.mark.parametrize("prepare", [[], [("remember", "k", "v")], [("remember", "k", "v"), ("forget", "k")]])
def test_there_is_nothing_to_go_back_to(agent, prepare):
    for command in prepare:
        agent(*command)

    assert agent.json("undo", "k", code=4)["error"]["type"] == "NotFound"


def test_what_was_brought_back_is_escaped(agent):
    agent("remember", "k", HOSTILE)
    agent("remember", "k", "x")

    assert "\x1b" not in agent("undo", "k").stdout
