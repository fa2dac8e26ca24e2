"""Completion: through bash as a terminal runs it, and through the answers that every shell gets."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sense_memory.config import settings
from sense_memory.interfaces.cli import main
from sense_memory.interfaces.cli.completion import FILES, answer
from tests.conftest import read_until
from tests.time_unit import SECOND


BASH = shutil.which("bash")


def words(line):
    """What is offered for a command line so far, without the meanings."""
    return (
        [offered.partition("\t")[0] for offered in answer(line).splitlines()]
        if answer(line) != FILES
        else FILES
    )


@pytest.fixture
def configured(agent, home):
    agent("--agent", "bob", "init")
    agent("relays", "add", "wss://a.example")
    agent("relays", "add", "ws://127.0.0.1:7447")
    agent("remember", "user_timezone", "Europe/Lisbon", "--wait", 0)


# ── What is offered ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sense-memory rec", ["recall", "recent"]),
        ("sense-memory --agent bob --json rec", ["recall", "recent"]),
        ("sense-memory relays ", ["add", "remove", "list"]),
        ("sense-memory relays re", ["remove"]),
        ("sense-memory mind blocks re", ["replace"]),
        ("sense-memory palace rem", []),
        ("sense-memory palace --st", ["--state"]),
        ("sense-memory palace --state f", ["fading", "forgotten"]),
        ("sense-memory palace show --ver", ["--versions"]),
        ("sense-memory palace con", ["connect", "contradict"]),
        ("sense-memory remember --re", ["--require-acks", "--relay"]),
        ("sense-memory sync --fu", ["--full"]),
        ("sense-memory --ver", ["--version"]),
        ("sense-memory recall --ver", []),
        ("sense-memory recall k --ag", ["--agent"]),
        ("sense-memory --agent ", ["bob", "default"]),
        ("sense-memory --agent=b", ["--agent=bob"]),
        ("sense-memory recall k --agent b", ["bob"]),
        ("sense-memory --relay ", ["wss://a.example", "ws://127.0.0.1:7447"]),
        ("sense-memory relays remove ws:", ["ws://127.0.0.1:7447"]),
        ("sense-memory relays add ", []),
        ("sense-memory completion ", ["bash", "zsh", "fish"]),
        ("sense-memory import ", FILES),
        ("sense-memory import all.jsonl ", FILES),
        ("sense-memory export all.jsonl ", []),
        ("sense-memory backup usb", FILES),
        ("sense-memory remember --many ", FILES),
        ("sense-memory remember --many=x", FILES),
        ("sense-memory --ledger ", FILES),
        ("sense-memory recall ", []),  # memory keys stand in a ledger, which nobody opens for a Tab
        ("sense-memory recall -- --a", []),
        ("sense-memory journal 'an open quo", []),
        ("/usr/bin/sense-memory rec", ["recall", "recent"]),
        ("sense-memory nonsense ", []),
        ("sense-memory", []),
        ("", []),
    ],
)
def test_what_may_stand_there_is_offered(configured, line, expected):
    assert words(line)[: len(expected) or None] == expected or set(words(line)) == set(expected)


def test_everything_is_offered_where_nothing_is_typed(configured):
    assert {"init", "recall", "relays", "completion", "export", "import"} <= set(words("sense-memory "))
    assert {"--agent", "--relay", "--ledger", "--env-file", "--json"} <= set(words("sense-memory list --"))


def test_a_meaning_stands_beside_each_word(configured):
    assert answer("sense-memory recal") == "recall\tPrint the value of a memory, from the local ledger"


@pytest.mark.parametrize("broken", ['relays = "no list"\n', "not toml at all [", "relays = ['https://x']\n"])
def test_settings_that_can_not_be_read_offer_nothing_and_say_nothing(agent, home, broken, capsys):
    (home / "config.toml").write_text(broken)

    assert words("sense-memory --relay ") == []
    assert words("sense-memory rec") == ["recall", "recent"]
    assert capsys.readouterr() == ("", "")


# ── What it never does ──────────────────────────────────────────────────────────────────


def test_a_tab_opens_no_key_and_no_ledger_dials_nobody_and_writes_nothing(configured, home):
    """In a process of its own, with a key that nobody may read, and with everything watched that it loads."""
    for key in (home / "keys").iterdir():
        key.write_text("no key: reading it would fail")
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    program = (
        "import os, sys\n"
        "from sense_memory.interfaces.cli import main\n"
        "for line in sys.argv[1:]:\n"
        "    os.environ['_SENSE_MEMORY_COMPLETE'] = line\n"
        "    main()\n"
        "    print()\n"
        "    print([name for name in ('sqlite3', 'websockets', 'socket', 'rich', 'coincurve') if name in sys.modules])\n"
    )
    lines = "sense-memory --agent ", "sense-memory relays remove ", "sense-memory recall "
    done = subprocess.run(
        [sys.executable, "-c", program, *lines],
        capture_output=True, text=True, timeout=20 * SECOND, check=True,
    )  # fmt: skip
    found = [line for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(found) == len(lines)
    for line in found:
        loaded = set(line.strip("[]").replace("'", "").split(", "))
        assert not loaded & {"sqlite3", "websockets", "rich"}, loaded
    assert done.stderr == ""
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_nothing_exists_before_and_after(home, monkeypatch, capsys):
    monkeypatch.setenv("_SENSE_MEMORY_COMPLETE", "sense-memory --agent ")
    main()

    assert capsys.readouterr() == ("", "")
    assert not home.exists()


def test_a_key_in_the_environment_is_not_looked_at(configured, nsec, monkeypatch, capsys):
    monkeypatch.setenv("NOSTR_NSEC", nsec)
    monkeypatch.setattr(settings, "_warned", set())

    assert words("sense-memory --agent ") == ["bob", "default"]
    assert capsys.readouterr() == ("", "")


# ── Scripts ─────────────────────────────────────────────────────────────────────────────


def test_there_is_a_script_for_each_shell_and_for_no_other(cli):
    for shell, mark in (("bash", "complete -F"), ("zsh", "compdef"), ("fish", "complete --command")):
        assert f"{mark} " in cli("completion", shell).stdout
        assert cli.json("completion", shell)["shell"] == shell
    cli("completion", "tcsh", code=2)


@pytest.fixture
def in_bash(forks):
    """Presses Tab behind a command line in a real bash; returns what would be put there."""

    def press(line):
        script = (
            'eval "$(sense-memory completion bash)" && COMP_LINE=$1 && COMP_POINT=${#COMP_LINE} && '
            '_sense_memory_complete sense-memory && printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = forks.in_shell(script, line)
        assert (done.code, done.stderr) == (0, b"")
        return done.stdout.decode().split()

    return press


@pytest.mark.skipif(BASH is None, reason="no bash here")
def test_bash_completes_commands_values_and_files(configured, in_bash, tmp_path):
    (tmp_path / "memories.jsonl").touch()

    assert set(in_bash("sense-memory rec")) == {"recall", "recent"}
    assert in_bash("sense-memory --agent b") == ["bob"]
    assert in_bash("sense-memory relays remove wss:") == ["//a.example"]  # bash has put "wss:" there already
    assert in_bash("sense-memory import mem") == ["memories.jsonl"]


@pytest.mark.skipif(BASH is None, reason="no bash here")
def test_a_tab_in_an_interactive_bash_finishes_the_word(configured, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PS1", "")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        os.write(ours, b'eval "$(sense-memory completion bash)"; echo re""ady\n')
        read_until(ours, b"ready")
        os.write(ours, b"echo sense-memory; sense-memory relays remove wss\t")
        read_until(ours, b"remove wss://a.example")
        shell.kill()
        os.close(ours)
