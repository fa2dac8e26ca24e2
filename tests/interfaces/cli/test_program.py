"""The program as a whole: help, exit codes, JSON everywhere, errors, secrets, processes."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from sense_memory import MemoryStore, __version__
from sense_memory.interfaces.cli import app


def walk(command=None, path=()):
    """Every command and group, by its words."""
    command = command or typer.main.get_command(app)
    if path:
        yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*path, name))


COMMANDS = dict(walk())
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


# ── Help ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_text_and_an_example(cli, path):
    shown = cli(*path, "--help").stdout

    assert len(COMMANDS[path].help.split()) >= 4
    assert f"Example: sense-memory {path[0]}" in shown
    for option in COMMANDS[path].params:
        assert option.help, f"{option.name} has no help"


def test_every_example_of_the_help_works(agent, relay, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", relay)
    examples = [command.epilog.removeprefix("Example: sense-memory ") for command in COMMANDS.values()]
    agent("remember", "user_timezone", "x")
    agent("remember", "user_timezone", "y")
    agent("export", "memories.jsonl")

    for example in examples:
        arguments = shlex.split(example)
        if arguments[0] in {
            "relay",
            "backup",
        }:  # runs for ever; needs a terminal: they have tests of their own
            continue
        code = {"init": 1, "forget": 0}.get(arguments[0], 0)  # the agent has a key already
        if arguments[0] == "forget":
            arguments[1] = "another"
        agent(*arguments, code=code)


def test_the_help_documents_the_exit_codes(cli):
    shown = " ".join(cli("--help").stdout.split())

    for code in ("0 done", "1 error", "2 wrong usage", "3 not replicated", "4 not found"):
        assert code in shown
    assert "Example: sense-memory" in shown


def test_version(cli):
    assert cli("--version").stdout == f"sense-memory {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["recall"], ["recall", "a", "b"], ["recent", "-n", "x"]])
def test_wrong_usage_exits_with_2(cli, arguments):
    cli(*arguments, code=2)


# ── JSON ────────────────────────────────────────────────────────────────────────────────


def test_every_command_understands_json(cli):
    for path, command in LEAVES.items():
        assert "--json" in [name for option in command.params for name in option.opts], path


@pytest.mark.parametrize(
    "command", [["recall", "k"], ["list"], ["status"], ["doctor"], ["recall", "none"], ["relays", "list"]]
)
def test_json_means_the_same_before_and_after_the_command(agent, command):
    agent("remember", "k", "v")

    before = CliRunner().invoke(app, ["--json", *command])
    after = CliRunner().invoke(app, [*command, "--json"])

    assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)
    json.loads(before.stdout)


# ── Errors ──────────────────────────────────────────────────────────────────────────────


def test_an_error_of_the_tree_is_one_sentence_on_stderr_or_json_on_stdout(cli):
    text, data = cli("recall", "k", code=1), cli("recall", "k", "--json", code=1)

    assert (text.stdout, data.stderr) == ("", "")
    assert text.stderr.startswith("error: no secret key found; looked at ")
    assert text.stderr.count("\n") == 1
    assert json.loads(data.stdout)["error"]["type"] == "KeyMissing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recal", "k"], "No such command 'recal'. Did you mean"),
        (["remember"], "give a KEY"),
        (["recall"], "Missing argument"),
        (["list", "--nope"], "No such option"),
    ],
)
def test_wrong_usage_is_json_too_where_that_is_asked_for_first(cli, arguments, message):
    error = cli.json(*arguments, code=2)["error"]

    assert error["type"] == "UsageError"
    assert error["message"].startswith(message)


def test_a_setting_that_can_not_be_used_exits_with_2_and_says_where_it_came_from(cli, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", "http://x")

    assert "SENSE_MEMORY_RELAYS (from environment)" in cli("status", code=2).stderr


def test_a_folder_that_can_not_be_written_is_one_sentence(cli, home):
    home.write_text("a file where the home folder should be")

    result = cli("init", code=1)

    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_what_nobody_expected_keeps_its_traceback(agent, monkeypatch):
    async def broken(self, key):
        raise RuntimeError("a bug")

    monkeypatch.setattr(MemoryStore, "recall", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        agent("recall", "k")
    assert app.pretty_exceptions_enable is False  # typer's own would print local variables


def test_a_settings_warning_is_one_line_and_does_not_touch_stdout(agent, nsec, monkeypatch):
    agent("remember", "k", "v")
    monkeypatch.setenv("NOSTR_NSEC", nsec)

    result = agent("recall", "k")

    assert result.stdout == "v"
    assert re.fullmatch(r"warning: NOSTR_NSEC is set in the environment[^\n]*\n", result.stderr)
    assert nsec not in result.stderr


def test_an_env_file_can_be_named(cli, tmp_path, nsec):
    (tmp_path / "my.env").write_text(f"NOSTR_NSEC={nsec}\nSENSE_MEMORY_RELAYS=wss://a.example\n")
    (tmp_path / "my.env").chmod(0o600)

    assert cli.json("--env-file", "my.env", "relays", "list")["origin"] == ".env"
    assert cli("--env-file", "my.env", "remember", "k", "v", "--wait", "0").stdout.startswith("kept")
    cli("--env-file", "none.env", "status", code=2)


# ── Secrets ─────────────────────────────────────────────────────────────────────────────


def test_no_command_but_show_nsec_ever_prints_the_key(agent, relay, dead_relay, secrets, home):
    """The canary: every command, in text and JSON, with a relay that works and one that does not."""
    tried = {
        ("init",): [[], ["--import"]],
        ("doctor",): [[]],
        ("remember",): [["k", "v"], ["--many", "-"], ["a/b", "c"]],
        ("recall",): [["k"], ["none"]],
        ("forget",): [["k"]],
        ("journal",): [["hello"]],
        ("recent",): [[]],
        ("list",): [[]],
        ("history",): [["k"], ["none"]],
        ("as-of",): [["now"], ["now", "k"], ["nonsense"]],
        ("undo",): [["k"], ["none"]],
        ("drafts",): [[], ["--publish", "1"], ["--discard", "1"]],
        ("refresh",): [["k"], ["none"]],
        ("backup",): [["usb"], ["usb", "--password-stdin"]],
        ("export",): [["all.jsonl"], ["-"]],
        ("import",): [["all.jsonl"], ["-"]],
        ("sync",): [[]],
        ("status",): [[]],
        ("relay",): [["--port", relay.rpartition(":")[2]]],
        ("relays", "add"): [["wss://a.example"], ["nonsense"]],
        ("relays", "remove"): [["wss://a.example"]],
        ("relays", "list"): [[]],
    }
    assert set(LEAVES) == set(tried)
    shown = ""
    for path, variants in tried.items():
        for variant in variants:
            for form in ([], ["--json"]):
                arguments = ["--relay", relay, "--relay", dead_relay, *form, *path, *variant]
                result = CliRunner().invoke(app, arguments, input=secrets[0] if path == ("init",) else "{}")
                assert result.exception is None or isinstance(result.exception, SystemExit), arguments
                shown += result.output

    written = b"".join(
        path.read_bytes() for path in home.rglob("*") if path.is_file() and path.suffix != ".key"
    ).decode("latin-1")
    for secret in (*secrets, secrets[0][5:30], secrets[1][:24]):
        assert secret not in shown
        assert secret not in written


# ── Processes ───────────────────────────────────────────────────────────────────────────


def test_real_processes_share_a_memory_and_a_pipe_gets_the_value_byte_for_byte(process):
    value = "Zürich 東京\r\n\x1b[31m\u202e\n".encode()
    assert process("init").code == 0

    assert process("remember", "k", stdin=value).stdout.startswith(b"kept")

    recalled = process("recall", "k")
    assert (recalled.code, recalled.stdout, recalled.stderr) == (0, value, b"")
    assert process("recall", "none").code == 4


def test_reading_loads_neither_websockets_nor_rich(agent, monkeypatch):
    agent("remember", "k", "v")
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", "wss://relay.example")
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print([m for m in ('websockets', 'rich', 'http.client') if m in sys.modules]))\n"
        "sys.argv = ['sense-memory', 'recall', 'k', '--json']\n"
        "from sense_memory.interfaces.cli import main\n"
        "main()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )

    assert done.stdout.endswith("}\n[]\n")
