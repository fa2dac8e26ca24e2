"""`sense-memory watch`: lines of changes on stdout, words about relays on stderr, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from sense_memory.interfaces.cli.sync import line
from sense_memory.models import Change
from tests.time_unit import SECOND


FIRST = "watching other programs on this machine, and "


@pytest.fixture
def watching(started):
    """Runs the command as a process; yields it once it has said what it watches, and that in `.said`."""

    @contextmanager
    def run(*arguments):
        with started(*arguments) as process:
            process.said = process.stderr.readline()
            yield process

    return run


def test_changes_of_another_device_come_line_by_line_until_ctrl_c(agent, watching, relay, tmp_path):
    device = ("--relay", relay, "--ledger", tmp_path / "other.db")
    with watching("--relay", relay, "watch") as process:
        assert process.said == f"{FIRST}1 relay; Ctrl-C ends it\n"
        assert process.stderr.readline() == f"{relay}: connected\n"
        agent(*device, "remember", "city", "Lisbon\n\x1b[31mred " + "x" * 100)
        ident = agent.json(*device, "journal", "Met Lisa.")["event_id"]
        agent(*device, "forget", "city")

        told = [process.stdout.readline().split("  ", 1)[1] for _ in range(3)]
        assert told == [
            "city  remembered: Lisbon↵ \\u001b[31mred " + "x" * 64 + "…\n",
            f"journal/{ident[:8]}  written: Met Lisa.\n",
            "city  forgotten\n",
        ]
        process.send_signal(signal.SIGINT)
        assert process.wait(10 * SECOND) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_json_lines_end_after_as_many_changes_as_were_asked_for(agent, watching, relay, tmp_path):
    with watching("--relay", relay, "watch", "--json", "--count", "2") as process:
        assert process.stderr.readline() == f"{relay}: connected\n"
        device = ("--relay", relay, "--ledger", tmp_path / "other.db")
        ident = agent.json(*device, "remember", "city", "Zürich\u202e")["event_id"]
        first = process.stdout.readline()
        agent(*device, "forget", "city")
        second = process.stdout.readline()

        assert process.wait(10 * SECOND) == 0
        assert process.stdout.read() == ""
    assert "Zürich\\u202e" in first
    found = json.loads(first)
    assert found.pop("created_at").endswith("Z")
    assert found == {
        "kind": "remembered",
        "path": "city",
        "key": "city",
        "value": "Zürich\u202e",
        "event_id": ident,
        "superseded_by": None,
        "conflict_of": None,
        "relay_url": relay,
    }
    assert (json.loads(second)["kind"], json.loads(second)["value"]) == ("forgotten", None)


def test_other_programs_on_this_machine_are_seen_without_any_relay(agent, watching):
    with watching("watch", "--count", "1") as process:
        assert process.said == f"{FIRST}no relay: none is configured; Ctrl-C ends it\n"
        agent("remember", "city", "Lisbon")
        assert process.stdout.readline().endswith("  city  remembered: Lisbon\n")
        assert process.wait(10 * SECOND) == 0


def test_memories_of_the_palace_are_named_as_its_commands_do_and_a_link_is_no_new_text(agent, watching):
    for key in ("lisa", "studio"):
        agent("palace", "remember", f"people/facts/{key}", "artist")
    with (
        watching("watch", "--count", "2") as process,
        watching("watch", "--json", "--count", "2") as programs,
    ):
        agent("palace", "connect", "lisa", "studio")
        told = [process.stdout.readline().split("  ", 1)[1] for _ in range(2)]
        found = [json.loads(programs.stdout.readline()) for _ in range(2)]
        assert (process.wait(10 * SECOND), programs.wait(10 * SECOND)) == (0, 0)

    assert sorted(told) == [
        "people/facts/lisa  linked, with the same text\n",
        "people/facts/studio  linked, with the same text\n",
    ]
    assert {(change["kind"], change["path"]) for change in found} == {
        ("linked", "people/facts/lisa"),
        ("linked", "people/facts/studio"),
    }


def test_it_says_when_a_relay_is_lost_and_when_it_is_there_again(agent, watching, forks, tmp_path):
    command = [forks.program, "relay", "--data", str(tmp_path / "r.db"), "--port"]

    @contextmanager
    def serving(port):
        with subprocess.Popen([*command, port], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process.stdout.readline().split()[2].rstrip(",")
            finally:
                process.send_signal(signal.SIGINT)
                process.stdout.read()

    with ExitStack() as first:
        url = first.enter_context(serving("0"))
        with watching("--relay", url, "watch", "--count", "1") as process:
            assert process.stderr.readline() == f"{url}: connected\n"
            first.close()
            assert process.stderr.readline().startswith(f"{url}: lost: ")
            with serving(url.rpartition(":")[2]):
                said = iter(process.stderr.readline, f"{url}: connected again\n")
                assert set(said) <= {f"{url}: refused the connection\n"}
                agent("--relay", url, "--ledger", tmp_path / "other.db", "remember", "city", "Lisbon")
                assert process.wait(10 * SECOND) == 0


@pytest.mark.parametrize("arguments", [["--count", "0"], ["--seconds", "-1"]])
def test_numbers_that_make_no_sense_are_wrong_usage(agent, arguments):
    agent("watch", *arguments, code=2)


def test_it_ends_after_some_seconds_whatever_came(agent, dead_relay):
    result = agent("--relay", dead_relay, "watch", "--seconds", "0.3")

    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [f"{dead_relay}: refused the connection"]


def test_a_new_text_in_the_palace_is_shown_and_a_use_of_it_is_not():
    place = {"path": "persona/people/facts/lisa", "key": "lisa", "created_at": 0, "event_id": "00" * 32}

    new, used = (Change(kind=kind, value="artist", **place) for kind in ("remembered", "changed"))

    assert line(new).split("  ")[1:] == ["people/facts/lisa", "remembered: artist"]
    assert line(used).split("  ")[1:] == ["people/facts/lisa", "changed, with the same text"]


def test_a_long_name_is_cut():
    change = Change(kind="forgotten", path="n" * 100, key="n" * 100, created_at=0, event_id="00" * 32)

    assert line(change).split("  ")[1:] == ["n" * 59 + "…", "forgotten"]
