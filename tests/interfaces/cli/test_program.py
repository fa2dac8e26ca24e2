"""The program as a whole: help, exit codes, JSON everywhere, errors, secrets, processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from sense_memory import MemoryStore, __version__
from sense_memory.interfaces.cli import app
from sense_memory.interfaces.cli.invocation import say
from tests.time_unit import SECOND


def walk(command=None, path=()):
    """Every command and group, by its words."""
    command = command or typer.main.get_command(app)
    if path:
        yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*path, name))


COMMANDS = dict(walk())
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


# ── Usage ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(cli, option):
    assert cli(option).stdout == f"sense-memory {__version__}\n"


@pytest.mark.parametrize("words", [(), ("recall",), ("palace",), ("palace", "show")])
def test_help_shows_the_same_page_as_the_option(cli, words):
    page = cli(*words, "--help").stdout

    assert cli("help", *words).stdout.rstrip() == page.rstrip()
    assert json.loads(cli("help", *words, "--json").stdout)["help"].rstrip() == page.rstrip()


def test_help_of_an_unknown_command_suggests_one(cli):
    assert "no command 'serch'; did you mean: sense-memory search\n" in cli("help", "serch", code=2).stderr
    assert "no command 'x'" in cli("help", "recall", "x", code=2).stderr


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "remember k two words",
            "VALUE is one argument, and several words were given; put the text in quotes",
        ),
        ("journal two words", "TEXT is one argument, and several words were given; put the text in quotes"),
        ("as-of 2 days ago", 'put the time in quotes, such as "2 days ago": several words were given'),
        ("recall a b", "`sense-memory recall` takes only NAME"),
        ("palace stats x", "`sense-memory palace stats` takes no arguments"),
        ("remember k -5", "no such option: -5; write `--` before a text that begins with a dash"),
        ("search -x", "no such option: -x; write `--` before a text that begins with a dash"),
        ("sync -x", "No such option: -x"),
        ("persona show", "no command 'persona'; did you mean: sense-memory palace"),
    ],
)
def test_a_command_line_that_does_not_fit_is_answered_with_what_to_do(cli, line, problem):
    assert cli(*line.split(), code=2).stderr.splitlines()[0] == f"error: {problem}"


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


@pytest.mark.parametrize("words", [("--json",), ("hook", "--json"), ("--json", "hook")])
def test_json_without_a_command_is_an_error_in_json(cli, words):
    path = " ".join(("sense-memory", *(word for word in words if word != "--json")))

    assert json.loads(cli(*words, code=2).stdout)["error"] == {
        "type": "UsageError",
        "message": f"a command is missing; `{path} --help` lists them",
    }


@pytest.mark.parametrize(
    ("group", "default"),
    [
        ("relays", "list"),
        ("mind", "overview"),
        ("mind blocks", "list"),
        ("mind archive", "list"),
        ("mind conversations", "list"),
        ("mind identity", "show"),
        ("mind objectives", "list"),
        ("mind log", "show"),
        ("mind scenes", "list"),
    ],
)
def test_a_group_without_a_command_shows_what_it_has(agent, group, default):
    agent("mind", "blocks", "append", "human", "Name: Lisa.")
    words = group.split()

    for options in ([], ["--json"], ["--agent", "default", "--json"]):
        assert agent(*words, *options).stdout == agent(*words, default, *options).stdout
    assert "Usage:" in agent(*words, "--help").stdout
    assert "no command 'nothing'" in agent(*words, "nothing", code=2).stderr


def test_the_overview_of_the_mind_counts_and_names_its_parts(agent):
    agent("mind", "conversations", "add", "chat", "Where were we?")

    shown = agent("mind").stdout.splitlines()

    assert shown[0] == "conversations\t1\tchat\tsense-memory mind conversations"
    assert agent.json("mind")[1] == {"part": "blocks", "count": 2, "names": ["persona", "human"]}


def test_json_may_stand_between_a_group_and_its_command(agent):
    assert (
        agent("mind", "--json", "blocks", "list").stdout == agent("mind", "blocks", "list", "--json").stdout
    )


# ── Options before and after ────────────────────────────────────────────────────────────


def test_global_options_mean_the_same_before_and_after_the_command(agent, relay, tmp_path):
    agent("--agent", "bob", "init")
    agent("remember", "k", "bob's", "--agent", "bob", "--ledger", tmp_path / "bob.db")
    (tmp_path / "my.env").write_text(f"SENSE_MEMORY_RELAYS={relay}\n")

    for ledger in (
        ("--agent=bob", f"--ledger={tmp_path / 'bob.db'}"),
        ("--ledger", tmp_path / "bob.db", "--agent", "bob"),
    ):
        assert agent(*ledger, "recall", "k").stdout == "bob's\n"
        assert agent("recall", *ledger, "k").stdout == "bob's\n"
        assert agent("recall", "k", *ledger).stdout == "bob's\n"
    assert agent("relays", "list", "--env-file", "my.env").stdout.startswith(relay)
    assert agent("relays", "--env-file", "my.env", "list").stdout.startswith(relay)


def test_what_stands_after_the_command_wins(cli):
    before = ("--relay", "wss://a.example", "--relay", "wss://b.example")

    assert cli(*before, "relays", "list").stdout.split()[::2] == ["wss://a.example", "wss://b.example"]
    assert cli(*before, "relays", "list", "--relay", "wss://c.example").stdout.split()[0] == "wss://c.example"


@pytest.mark.parametrize("words", [("--agent", "", "status"), ("status", "--agent", "")])
def test_an_agent_without_a_name_is_refused_and_no_other_agent_is_taken(cli, words):
    assert "error: --agent (from the command line): must be 1 to 64" in cli(*words, code=2).stderr


def test_a_value_that_looks_like_an_option_stays_a_value_behind_two_dashes(agent):
    agent("remember", "k", "--", "--agent")

    assert agent("recall", "k").stdout == "--agent\n"


# ── Errors ──────────────────────────────────────────────────────────────────────────────


def test_an_error_of_the_tree_is_one_sentence_on_stderr_or_json_on_stdout(cli):
    text, data = cli("recall", "k", code=1), cli("recall", "k", "--json", code=1)

    assert (text.stdout, data.stderr) == ("", "")
    sentence, title, *places = text.stderr.splitlines()
    assert sentence.startswith("error: no secret key yet; make one with `sense-memory init`")
    assert title == "Looked in:"
    assert all(place.startswith("  ") for place in places)
    assert json.loads(data.stdout)["error"]["type"] == "KeyMissing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recal", "k"], "no command 'recal'; did you mean: sense-memory recall"),
        (["remember"], "give a NAME"),
        (["recall"], "Missing argument"),
        (["list", "--nope"], "No such option"),
        (["watch", "--count", "x"], "Invalid value for '--count'"),
        (["palace", "nosuch"], "no command 'nosuch'"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["asked for first", "asked for last"])
def test_wrong_usage_is_json_too_wherever_that_is_asked_for(cli, arguments, message, first):
    options = ["--json", *arguments] if first else [*arguments, "--json"]

    error = json.loads(cli(*options, code=2).stdout)["error"]

    assert error["type"] == "UsageError"
    assert error["message"].startswith(message)


def test_a_text_is_no_option(cli):
    assert "No such option" in cli("recall", "--nope", "--", "--json", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["recall"], "Usage: sense-memory recall [OPTIONS] NAME\nHelp: sense-memory recall --help\n"),
        (
            ["remember"],
            "Usage: sense-memory remember [OPTIONS] [NAME] [VALUE]\nHelp: sense-memory remember --help\n",
        ),
        (
            ["relays", "ad"],
            "Usage: sense-memory relays [OPTIONS] [COMMAND ...]\nHelp: sense-memory relays --help\n",
        ),
        (["--nope"], "Usage: sense-memory [OPTIONS] COMMAND ...\nHelp: sense-memory --help\n"),
    ],
)
def test_wrong_usage_is_an_error_like_any_other_and_shows_what_is_right(cli, process, arguments, usage):
    shown = cli(*arguments, code=2).stderr

    assert shown.startswith("error: ")
    assert shown.partition("\n")[2] == usage


def test_an_error_is_wrapped_on_a_terminal_and_one_line_elsewhere(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    say("error", "word " * 30)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    say("error", "word " * 30 + "\x1b[31m")

    first, *wrapped = capsys.readouterr().err.splitlines()
    assert len(first) > 150
    assert len(wrapped) == 3
    assert all(len(line) < 60 for line in wrapped)
    assert [line[:2] for line in wrapped] == ["er", "  ", "  "]
    assert "\\u001b[31m" in wrapped[-1]


@pytest.mark.parametrize(
    "command",
    [["recall", "k"], ["list"], ["recent"], ["history", "k"], ["as-of", "now"], ["undo", "k"], ["status"], ["drafts"],
     ["export", "x.jsonl"], ["palace"], ["palace", "recall", "a/b/c"], ["refresh", "k"], ["journal", "--remove", "12345678"]],
    ids=" ".join,
)  # fmt: skip
def test_reading_a_ledger_that_is_not_there_is_an_error_and_makes_none(agent, tmp_path, command):
    shown = agent("--ledger", tmp_path / "typo.db", *command, code=2).stderr

    assert shown.startswith(f"error: there is no ledger {tmp_path / 'typo.db'}; check --ledger.")
    assert not (tmp_path / "typo.db").exists()


def test_a_folder_is_not_a_ledger(agent, tmp_path):
    told = agent("--ledger", tmp_path, "remember", "k", "v", code=1).stderr

    assert told == f"error: {tmp_path} is a folder and cannot be opened as a ledger; name a file\n"


def test_what_writes_makes_the_ledger_that_was_named_and_says_so(agent, tmp_path):
    told = agent("remember", "k", "v", "--ledger", tmp_path / "new.db")

    assert told.stdout.startswith("kept · ")
    assert told.stderr == f"made a new ledger at {tmp_path / 'new.db'}\n"
    assert agent("recall", "k", "--ledger", tmp_path / "new.db").stdout == "v\n"
    assert agent("remember", "k", "w", "--ledger", tmp_path / "new.db").stderr == ""
    assert agent.json("--ledger", tmp_path / "other.db", "remember", "k", "v")["key"] == "k"


def test_the_default_ledger_is_made_without_a_word(agent):
    assert agent("remember", "k", "v").stderr == ""
    assert agent("--ledger", ":memory:", "remember", "k", "v").stderr == ""


def test_a_backup_of_a_ledger_that_is_not_there_is_an_error(agent, tmp_path):
    shown = agent("--ledger", "typo.db", "backup", "usb", "--password-stdin", stdin="correct horse", code=2)

    assert shown.stderr.startswith("error: there is no ledger typo.db; check --ledger.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_a_setting_that_can_not_be_used_exits_with_2_and_says_where_it_came_from(cli, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", "http://x")

    assert "SENSE_MEMORY_RELAYS (from the environment)" in cli("status", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--relay", "nonsense", "list"], "--relay (from the command line): a relay URL starts with wss://"),
        (["list", "--agent", "../x"], "--agent (from the command line): must be 1 to 64"),
        (["--env-file", "none", "list"], "--env-file (from the command line): no such file"),
        (["palace", "--state", "asleep"], "Invalid value for '--state': 'asleep' is not one of"),
        (["completion", "tcsh"], "Invalid value for 'SHELL': 'tcsh' is not one of"),
        (["recent", "-n", "x"], "Invalid value for '--limit' / '-n': it must be a valid integer\n"),
        (
            ["relay", "--port", "99999"],
            "Invalid value for '--port': it must be at most 65535\n",
        ),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(agent, arguments, shown):
    told = agent(*arguments, code=2).stderr

    assert told.startswith(f"error: {shown}")
    assert "Value error" not in told


@pytest.mark.parametrize(
    "text", ["relays = [", 'relays = "wss://a.example"', 'relays = ["nonsense"]', "\xff"]
)
def test_what_is_wrong_with_a_configuration_names_its_file(agent, home, text):
    (home / "config.toml").write_text(text, encoding="latin-1")

    told = agent("status", code=2).stderr

    path = str(home / "config.toml")
    assert path in told
    assert told.count("config.toml") == 1 + ("nonsense" in text or "a.example" in text)
    if text.startswith("relays = [") and '"' not in text:
        assert f"{path}: not TOML at the end of document; correct it there" in told


def test_a_folder_that_can_not_be_written_is_one_sentence(cli, home):
    home.write_text("a file where the data folder should be")

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

    assert result.stdout == "v\n"
    assert re.fullmatch(r"warning: [^\n]*; use a key file of mode 600 instead[^\n]*\n", result.stderr)
    assert nsec not in result.stderr


def test_an_env_file_can_be_named(cli, tmp_path, nsec):
    (tmp_path / "my.env").write_text(f"NOSTR_NSEC={nsec}\nSENSE_MEMORY_RELAYS=wss://a.example\n")
    (tmp_path / "my.env").chmod(0o600)

    assert cli.json("--env-file", "my.env", "relays", "list")["origin"] == ".env"
    assert cli("--env-file", "my.env", "remember", "k", "v", "--wait", "0").stdout.startswith("kept")
    cli("--env-file", "none.env", "status", code=2)


# ── Secrets ─────────────────────────────────────────────────────────────────────────────


NAMES_RELAYS = {
    "remember",
    "forget",
    "journal",
    "sync",
    "audit",
    "publish",
    "status",
    "doctor",
    "watch",
    "create",
    "delete",
}


@pytest.mark.usefixtures("cheap", "whole_seconds")
def test_no_command_but_show_nsec_ever_prints_the_key(agent, relay, dead_relay, secrets, home):
    """The canary: every command, as JSON, with a relay that works and one that does not.

    What each says as text is in its session of `golden/`, where the key is looked for too; what names relays is run as text
    here.
    """
    tried = {
        ("init",): [[], ["--import"]],
        ("doctor",): [[]],
        ("remember",): [["k", "v"], ["--many", "-"], ["a/b", "c"], ["x/y/z", "c", "--theme", "t"]],
        ("recall",): [["k"], ["none"], ["x/y/z"], ["z"]],
        ("search",): [["k"], ["v", "--in", "flat", "--explain"]],
        ("embed",): [[], ["--share", "--dry-run"]],
        ("forget",): [["k"], ["--everything", "--dry-run"]],
        ("rotate",): [["--dry-run"], []],
        ("journal",): [["hello"]],
        ("recent",): [[]],
        ("list",): [[], ["--palace"], ["x/y"]],
        ("history",): [["k"], ["none"]],
        ("as-of",): [["now"], ["now", "k"], ["now", "x/y/z"], ["now", "--palace"], ["nonsense"]],
        ("undo",): [["k"], ["none"]],
        ("drafts",): [[], ["--publish", "1"], ["--discard", "1"]],
        ("refresh",): [["k"], ["none"]],
        ("addresses",): [[], ["private", "--yes"]],
        ("trust",): [[], ["x/y/z"], ["x/y/z", "--yes"], ["--undo", "none"]],
        ("quarantine",): [["--source", "tool:x", "--yes"], ["--show"]],
        ("revoke",): [["--source", "tool:x", "--yes"], ["nonsense"]],
        ("check",): [["-"], ["none"]],
        ("bisect",): [["-"]],
        ("backup",): [["usb"], ["usb", "--password-stdin"]],
        ("export",): [["all.jsonl"], ["-"]],
        ("import",): [["all.jsonl"], ["-"]],
        ("sync",): [[]],
        ("audit",): [[]],
        ("watch",): [["--seconds", "0.3"]],
        ("status",): [[]],
        ("relay",): [["--port", relay.rpartition(":")[2]]],
        ("web",): [["--no-open", "--port", relay.rpartition(":")[2]]],
        ("api",): [["--listen", f"127.0.0.1:{relay.rpartition(chr(58))[2]}"]],
        ("relays", "add"): [["wss://a.example"], ["nonsense"]],
        ("relays", "remove"): [["wss://a.example"]],
        ("relays", "list"): [[]],
        ("relays", "presets"): [[]],
        ("relays", "publish"): [[]],
        ("agents",): [[]],
        ("mirror",): [["none"], ["."], ["--status"], ["--yes"]],
        ("install",): [["claude-code"], ["--list"], ["nonsense"]],
        ("uninstall",): [["claude-code"], ["nonsense"]],
        ("hook", "session-start"): [[]],
        ("hook", "turn-end"): [[]],
        ("hook", "pre-compact"): [[]],
        ("hook", "session-end"): [[]],
        ("palace", "review"): [[], ["--reject", "3f2a"]],
        ("mcp",): [["--listen", "example.com:80"], ["--read-only", "--allow-destructive"]],
        ("completion",): [["bash"], ["nonsense"]],
        ("help",): [[], ["palace", "show"], ["nonsense"]],
        ("palace", "remember"): [["a/b/c", "x"], ["a/b/d", "y", "--connect", "a/b/c"], ["none"]],
        ("palace", "recall"): [["a/b/c"], ["none"]],
        ("palace", "show"): [["a/b/c"], ["none"]],
        ("palace", "search"): [["x"]],
        ("palace", "list"): [[], ["a/b"]],
        ("palace", "as-of"): [["now"]],
        ("palace", "connect"): [["a/b/c", "a/b/d"]],
        ("palace", "disconnect"): [["a/b/c", "a/b/d"]],
        ("palace", "dismiss"): [["a/b/c", "none"]],
        ("palace", "contradict"): [["a/b/c", "a/b/d"]],
        ("palace", "reconcile"): [["a/b/c", "a/b/d"]],
        ("palace", "pin"): [["a/b/c"], ["none"]],
        ("palace", "unpin"): [["a/b/c"]],
        ("palace", "introspect"): [[], ["--schedule", "1h", "--count", "1"]],
        ("palace", "compress"): [[]],
        ("palace", "prune"): [["--dry-run"], ["--yes"]],
        ("palace", "stats"): [[]],
        ("access", "code"): [[]],
        ("access", "revoke"): [["1"], ["--all"]],
        ("palace", "plot"): [[]],
        ("palace", "domains"): [[]],
        ("palace", "facets"): [["a"], ["none"]],
        ("palace", "forget"): [["a/b/c"]],
        ("mind", "blocks", "append"): [["human", "x"], ["none", "x"]],
        ("mind", "blocks", "set"): [["human", "x"]],
        ("mind", "blocks", "list"): [[], ["--compiled"]],
        ("mind", "blocks", "show"): [["human"], ["none"]],
        ("mind", "blocks", "replace"): [["human", "x", "y"], ["human", "none", "y"]],
        ("mind", "blocks", "create"): [["style", "x"]],
        ("mind", "blocks", "history"): [["human"]],
        ("mind", "blocks", "delete"): [["style"]],
        ("mind", "archive", "add"): [["x", "--classify"]],
        ("mind", "archive", "list"): [[]],
        ("mind", "archive", "forget"): [["none"]],
        ("mind", "identity", "refresh"): [[]],
        ("mind", "identity", "set"): [["--value", "x"], ["--role", ""]],
        ("mind", "identity", "show"): [[]],
        ("mind", "identity", "history"): [[]],
        ("mind", "objectives", "add"): [["x"]],
        ("mind", "objectives", "list"): [["--all"]],
        ("mind", "objectives", "done"): [["none"]],
        ("mind", "log", "append"): [["x"]],
        ("mind", "log", "show"): [[]],
        ("mind", "conversations", "add"): [["chat", "x"], ["chat", "x", "--role", "none"]],
        ("mind", "conversations", "list"): [[]],
        ("mind", "conversations", "show"): [["chat"], ["none"]],
        ("mind", "conversations", "compact"): [["chat", "--window", "1"]],
        ("mind", "search"): [["x"], ["x", "--within", "nowhere"]],
        ("mind", "scenes", "create"): [["village", "--as", "baker"]],
        ("mind", "scenes", "invite"): [["none", "none", "smith"]],
        ("mind", "scenes", "join"): [["sense-scene:none"]],
        ("mind", "scenes", "append"): [["village", "x"]],
        ("mind", "scenes", "list"): [[]],
        ("mind", "scenes", "log"): [["village"]],
        ("mind", "scenes", "sync"): [["village"]],
        ("mind", "scenes", "remove"): [["village", "none"]],
        ("mind", "blocks", "compile"): [[]],
        ("mind", "overview"): [[]],
        ("mind", "topics", "list"): [[]],
        ("mind", "prompt"): [["x"]],
        ("mind", "topics", "merge"): [["none", "--into", "x"]],
        ("mind", "reflect"): [["baker"], ["baker", "--belief", "x"]],
        ("mind", "share"): [["people/facts", "none"]],
        ("mind", "unshare"): [["people/facts", "none"]],
        ("mind", "shared"): [[]],
        ("mind", "scenes", "leave"): [["village"]],
    }
    assert set(LEAVES) == set(tried)
    shown = ""
    for path, variants in tried.items():
        for variant in variants:
            for form in (["--json"], []) if path[-1] in NAMES_RELAYS else (["--json"],):
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
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20 * SECOND, check=True
    )

    assert done.stdout.endswith("}\n[]\n")
