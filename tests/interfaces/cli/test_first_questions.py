"""What `init` asks on a terminal: answered, declined, answered with something else, and ended."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from sense_memory.config.settings import Settings
from tests.conftest import read_until


HARNESS, RELAYS = "Give Claude Code this memory?", "Which?"
ADDRESSES, EMBEDDER = "Addresses", "Search by meaning too"
DECLINED = {HARNESS: "\n", RELAYS: "\n", ADDRESSES: "\n", EMBEDDER: "\n"}


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user who has Claude Code, and no other harness."""
    folder = tmp_path / "user"
    (folder / ".claude").mkdir(parents=True)
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def init(user, terminal_with_keys):
    """`init` with the answers that are given, in the order of the questions; returns what the terminal shows."""

    def run(*options, **answers):
        typed = DECLINED | {
            {"harness": HARNESS, "relays": RELAYS, "addresses": ADDRESSES, "embedder": EMBEDDER}[name]: keys
            for name, keys in answers.items()
        }
        code, shown = terminal_with_keys("".join(typed.values()), *options, "init")
        assert code == 0, shown
        return shown

    return run


def settings(home):
    return Settings.load(home=home, environ={})


def has_memory(user):
    path = user / ".claude.json"
    return path.exists() and "sense-memory" in json.loads(path.read_text())["mcpServers"]


def test_enter_leaves_everything_as_it_is_and_what_comes_next_stands_last(init, user, home):
    shown = init()

    assert shown.index("Made a key") < shown.index(HARNESS) < shown.index(RELAYS)
    assert shown.splitlines()[-1] == "Next: sense-memory remember KEY VALUE"
    assert shown.count("Next") == 1
    assert not has_memory(user)
    assert settings(home).relays == ()
    assert not settings(home).wants_embedder


@pytest.mark.parametrize("yes", ["y", "YES", " yes "])
def test_yes_gives_the_harness_its_memory(init, user, yes):
    shown = init(harness=f"{yes}\n")

    assert has_memory(user)
    assert "done. Restart Claude Code" in shown


@pytest.mark.parametrize("no", ["n", "No", "", "  "])
def test_no_and_nothing_are_no(init, user, no):
    init(harness=f"{no}\n")

    assert not has_memory(user)


def test_another_answer_is_explained_and_the_question_is_asked_again(init, user):
    shown = init(harness="maybe\ny\n")

    assert "'maybe' is neither y (yes) nor n (no)." in shown
    assert shown.count(HARNESS) == 2
    assert has_memory(user)


def test_a_preset_is_added_and_one_that_does_not_exist_is_answered_with_those_that_do(init, home):
    shown = init(relays="loca\nlocal\n")

    assert "'loca' is none of these: none, local, starter, wide, or a URL." in shown
    assert settings(home).relays == ("ws://127.0.0.1:7447",)


def test_a_url_is_a_relay_and_a_wrong_one_is_explained_and_asked_for_again(init, home):
    shown = init(relays="https://relay.example\nwss://relay.example\n")

    assert "error:" in shown
    assert shown.count(RELAYS) == 2
    assert settings(home).relays == ("wss://relay.example",)


@pytest.mark.parametrize(
    ("answer", "chosen"), [("", "private"), ("readable", "readable"), ("hidden\nprivate", "private")]
)
def test_a_new_key_gets_private_addresses_unless_somebody_wants_readable_ones(init, home, answer, chosen):
    shown = init(addresses=f"{answer}\n")

    assert settings(home).addresses == chosen
    assert ("'hidden' is none of these: private, readable." in shown) == ("hidden" in answer)


def test_addresses_that_cannot_be_saved_are_said_and_the_key_stays(init, home):
    home.mkdir(exist_ok=True)
    (home / "agents").write_text("no folder")

    shown = init()

    assert "error:" in shown
    assert (home / "keys" / "default.key").exists()
    assert shown.splitlines()[-1].startswith("Next: ")


@pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="no embedder is installed")
def test_an_embedder_is_written_into_the_env_file(init, home):
    assert "SENSE_MEMORY_EMBEDDER=static is in " in init(embedder="y\n")

    assert settings(home).wants_embedder


def test_what_fails_is_said_and_the_other_questions_follow(init, user, home):
    (user / ".claude.json").write_text("{ not JSON")

    shown = init(harness="y\n", relays="local\n")

    assert "error:" in shown
    assert settings(home).relays == ("ws://127.0.0.1:7447",)
    assert (user / ".claude.json").read_text() == "{ not JSON"
    assert shown.splitlines()[-1].startswith("Next: ")


def is_ended(shown, home):
    """Whether the questions were ended at the first one, with the key made and the rest explained."""
    later = all(
        f"  sense-memory {command}\n" in shown
        for command in ("install", "relays add", "addresses", "embed --help")
    )
    return (
        (home / "keys" / "default.key").exists()
        and later
        and RELAYS not in shown
        and shown.splitlines()[-1] == "Next: sense-memory remember KEY VALUE"
    )


def test_the_end_of_input_ends_the_questions_and_the_key_stays(init, home):
    assert is_ended(init(harness="\x04"), home)


@contextmanager
def on_a_terminal(*command):
    """A process on a terminal of its own, and that terminal; whoever uses it reads all that the process shows."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        try:
            yield process, ours
        except BaseException:
            process.kill()  # it may wait for an answer
            raise
    os.close(theirs)
    os.close(ours)


def test_an_interrupt_ends_the_questions_and_the_key_stays(user, home, forks):
    with on_a_terminal(forks.program, "init") as (process, terminal):
        shown = read_until(terminal, HARNESS.encode())
        process.send_signal(signal.SIGINT)
        shown += read_until(terminal, b"remember KEY VALUE\r\n")

    assert process.returncode == 0
    assert is_ended(shown.decode().replace("\r\n", "\n"), home)


def test_what_to_do_later_names_the_agent(init):
    shown = init("--agent", "bob", harness="\x04")

    assert "  sense-memory --agent bob relays add\n" in shown


def test_after_an_import_what_restores_the_memory_stands_last_and_knows_the_relays(user, nsec):
    questions = {
        b"(not shown): ": nsec,
        HARNESS.encode(): "",
        RELAYS.encode(): "local",
        ADDRESSES.encode(): "",
    }
    if importlib.util.find_spec("wordllama"):
        questions[EMBEDDER.encode()] = ""
    shown = ""
    with on_a_terminal(sys.executable, "-m", "sense_memory", "init", "--import") as (process, terminal):
        for question, answer in questions.items():
            shown += read_until(terminal, question).decode()
            os.write(terminal, f"{answer}\n".encode())
        shown += read_until(terminal, b"import FILE\r\n").decode()

    assert process.returncode == 0
    assert nsec not in shown
    assert shown.index(RELAYS) < shown.index("Next, restore")
    assert "relays add" not in shown.partition("Next, restore")[2]


def test_nothing_is_asked_where_something_is_configured_already(user, home, monkeypatch, terminal_with_keys):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", "wss://relay.example")
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static")
    (user / ".claude").rmdir()

    monkeypatch.setenv("SENSE_MEMORY_ADDRESSES", "private")

    shown = terminal_with_keys("", "init")[1]

    assert not any(question in shown for question in DECLINED)


def test_a_pipe_and_json_are_asked_nothing(cli, user):
    assert "?" not in cli("init").stdout
    assert cli.json("--agent", "bob", "init")["done"] == "made"
