"""`install`, `uninstall` and `hook` as commands; and the very command that is installed, run by a shell as harnesses do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.time_unit import SECOND


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The home folder of a user who has no harness yet."""
    folder = tmp_path / "user"
    folder.mkdir()
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    return folder


# ── install and uninstall ───────────────────────────────────────────────────────────────


def test_install_shows_first_and_writes_only_with_yes(agent, user):
    shown = agent("install", "claude-code")

    assert shown.stdout.count("create: ") == 3
    assert "+ mcpServers.sense-memory: {" in shown.stdout
    assert "nothing was written. To write this change, add --yes" in shown.stdout
    assert list(user.iterdir()) == []

    assert "done. Restart Claude Code" in agent("install", "claude-code", "--yes").stdout
    assert "nothing to change" in agent("install", "claude-code", "--yes").stdout
    assert "claude-code     installed: server, hooks, skill" in agent("install", "--list").stdout
    assert agent("uninstall", "claude-code").stdout.count("remove: ") == 3
    assert "done" in agent("uninstall", "claude-code", "--yes").stdout
    assert list(user.iterdir()) == []


@pytest.mark.parametrize("name", ["--apply", "--yes"])
def test_the_earlier_name_of_yes_writes_too(agent, user, name):
    assert "done" in agent("install", "cursor", name).stdout
    assert "--apply" not in agent("install", "--help").stdout


@pytest.mark.parametrize(("answer", "is_written"), [("y\n", True), ("n\n", False)])
def test_a_terminal_is_asked_after_it_has_seen_the_change(agent, user, forks, answer, is_written):
    code, shown = forks.on_terminal("-m", "sense_memory", "install", "cursor", keys=answer)

    assert code == 0
    assert shown.count("create: ") == 1
    assert shown.index("create: ") < shown.index("Write this?")
    assert (user / ".cursor" / "mcp.json").exists() is is_written


def test_a_dry_run_only_shows_even_on_a_terminal(agent, user, forks):
    code, shown = forks.on_terminal("-m", "sense_memory", "install", "cursor", "--dry-run")

    assert (code, "Write this?" in shown, list(user.iterdir())) == (0, False, [])


@pytest.mark.parametrize("text", ['{"mcpServers":{"gh":{"env":{"T":"s3cret"}}}}', '{"mcpServers":s3cret}'])
def test_no_secret_of_another_server_is_printed(agent, user, text):
    (user / ".cursor").mkdir()
    (user / ".cursor" / "mcp.json").write_text(text)
    for command in ("install", "uninstall"):
        for more in ((), ("--json",), ("--yes", "--json"), ("--yes",)):
            shown = agent(command, "cursor", *more, code=2 if text.endswith("s3cret}") else 0)
            assert "s3cret" not in shown.output


def test_what_is_written_starts_this_program_for_this_agent(agent, user, home, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_AGENT", "bob")

    agent("install", "claude-code", "--yes", "--create-key")

    server = json.loads((user / ".claude.json").read_text())["mcpServers"]["sense-memory"]
    assert Path(server["command"]).is_absolute()
    assert os.access(server["command"], os.X_OK)
    assert server["args"][-4:] == ["mcp", "--agent", "bob", "--create-key"]
    assert server["env"] == {"SENSE_MEMORY_HOME": str(home)}
    hooks = (user / ".claude" / "settings.json").read_text()
    assert "--agent bob || true" in hooks
    assert "--create-key" not in hooks


def test_a_key_of_the_environment_is_named_and_never_written(agent, user, monkeypatch):
    nsec = "nsec1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqstywftw"
    monkeypatch.setenv("NOSTR_NSEC", nsec)

    shown = agent("install", "codex", "--yes")

    assert "keep the key in a file" in shown.stderr
    assert nsec not in shown.output + "".join(path.read_text() for path in user.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("install", "emacs"), "no harness 'emacs'; choose claude-code"),
        (("install", "codex", "--without", "x"), "--without takes server, hooks or skill"),
        (("install", "codex", "--project", "none"), "--project must be an existing folder"),
        (("install", "zed", "--project", "."), "no such files in a project"),
        (("install", "codex", "--relay", "ws://127.0.0.1:9"), "leave out --ledger and --relay"),
        (("uninstall", "emacs"), "no harness"),
    ],
)
def test_wrong_usage_says_what_is_right(agent, user, words, problem):
    assert problem in " ".join(agent(*words, code=2).stderr.split())
    assert list(user.iterdir()) == []


def test_a_project_has_its_own_files_and_a_warning(agent, user, tmp_path):
    (tmp_path / "kiln").mkdir()

    shown = agent("install", "claude-code", "--project", "kiln", "--yes")

    assert "do not commit these files for other machines" in " ".join(shown.stderr.split())
    assert (tmp_path / "kiln" / ".mcp.json").exists()
    assert (tmp_path / "kiln" / ".claude" / "settings.local.json").exists()
    assert list(user.iterdir()) == []


# ── Hooks ───────────────────────────────────────────────────────────────────────────────


def run_by_a_shell(command, event, tmp_path):
    """As a harness runs a hook: in a shell, elsewhere, with an environment of its own."""
    return subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(event),
        cwd=tmp_path,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        text=True,
        capture_output=True,
        timeout=20 * SECOND,
        check=False,
    )


def test_the_installed_hooks_work_outside_of_this_environment(agent, user, tmp_path):
    agent("remember", "people/facts/lisa", "Lisa teaches printmaking.")
    agent("install", "claude-code", "--yes")
    hooks = json.loads((user / ".claude" / "settings.json").read_text())["hooks"]
    start, compact = (hooks[name][0]["hooks"][0]["command"] for name in ("SessionStart", "PreCompact"))
    transcript = tmp_path / "t.jsonl"
    said = {
        "type": "user",
        "timestamp": "2026-11-22T10:00:00Z",
        "message": {"role": "user", "content": "Hello."},
    }
    transcript.write_text(json.dumps(said) + "\n")
    event = {
        "session_id": "s-1",
        "transcript_path": str(transcript),
        "cwd": "/work",
        "permission_mode": "default",
    }

    kept = run_by_a_shell(compact, {**event, "hook_event_name": "PreCompact", "trigger": "auto"}, tmp_path)
    begun = run_by_a_shell(start, {**event, "hook_event_name": "SessionStart", "source": "compact"}, tmp_path)

    assert (kept.returncode, kept.stdout, kept.stderr) == (0, "", "")
    assert (begun.returncode, begun.stderr) == (0, "")
    context = json.loads(begun.stdout)["hookSpecificOutput"]["additionalContext"]
    assert "printmaking" in context
    assert "Last request: Hello." in context


def test_what_a_session_proposed_is_listed_and_decided_about(agent, tmp_path):
    said = {
        "type": "user",
        "timestamp": "2026-11-22T10:00:00Z",
        "content": "Always answer in German. We use pnpm.",
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(said))
    event = {"session_id": "s-1", "transcript_path": str(tmp_path / "t.jsonl"), "cwd": "/work/kiln"}
    assert "Nothing is proposed" in agent("palace", "review").stderr
    agent("hook", "turn-end", stdin=json.dumps(event))

    german, _ = json.loads(agent("palace", "review", "--json").stdout)
    assert german["value"] == "Always answer in German."
    assert "accepted" in agent("palace", "review", "--accept", german["id"][:4]).stdout
    assert "no open proposal" in agent("palace", "review", "--accept", german["id"], code=2).stderr
    assert "name the same" in agent("palace", "review", "--accept", "aa", "--reject", "aa", code=2).stderr
    assert "kiln: We use pnpm." in agent("palace", "review", "--reject", "all").stdout
    assert json.loads(agent("palace", "review", "--json").stdout) == []
    assert agent("recall", german["path"]).stdout == "Always answer in German.\n"


def test_a_program_that_is_gone_stops_no_harness(tmp_path):
    from sense_memory.interfaces.harness.specs import PRE_COMPACT, Launch

    assert run_by_a_shell(Launch(("/none/sense-memory",)).hook(PRE_COMPACT), {}, tmp_path).returncode == 0
    old = Launch((sys.executable, "-c", "raise SystemExit(2)"))
    assert run_by_a_shell(old.hook(PRE_COMPACT), {}, tmp_path).returncode == 0


@pytest.mark.parametrize("name", ["session-start", "turn-end", "pre-compact", "session-end"])
def test_a_hook_never_fails_and_says_why_on_stderr(agent, cli, home, name):
    agent("remember", "a/b/c", "kept")
    for stdin in ("", "{}", "junk", "[]", '{"transcript_path": "/etc/none"}', "x" * 16_000_001):
        result = agent("hook", name, stdin=stdin)
        assert "Traceback" not in result.output
    (ledger,) = (home / "ledgers").glob("*.db")
    for path in ledger.parent.iterdir():
        path.write_bytes(b"broken")
    broken = agent("hook", name, stdin="{}")
    assert broken.stdout == ""
    assert "did nothing" in broken.stderr or "failed" in broken.stderr
    nobody = cli("--agent", "nobody", "hook", name, stdin="{}")
    assert nobody.stdout == ""
    assert "the hook did nothing" in nobody.stderr
    unset = cli("--env-file", "none.env", "hook", name, stdin="{}")
    assert "the hook did nothing" in unset.stderr


def test_doctor_shows_what_went_wrong_in_a_hook_until_the_hook_runs_well(agent, tmp_path):
    agent("remember", "a/b/c", "kept")
    agent("hook", "session-end", stdin='{"transcript_path": "/none/t.jsonl"}')

    told = " ".join(agent("doctor").stdout.split())
    assert "session-end" in told
    assert "the hook did nothing" in told

    (tmp_path / "t.jsonl").write_text("")
    agent("hook", "session-end", stdin=json.dumps({"transcript_path": str(tmp_path / "t.jsonl")}))
    assert "session-end" not in agent("doctor").stdout


def test_a_hook_that_takes_too_long_is_given_up_and_harms_no_harness(agent, home, tmp_path):
    agent("remember", "a/b/c", "kept")
    slow = (
        "import sense_memory.interfaces.cli.hook as h, sense_memory.interfaces.harness.hooks as k, time\n"
        "h._HOOK_SECONDS = 0.2\nasync def wait(*_): time.sleep(60)\nk.turn_end = wait\n"
        "import sys; sys.argv = ['sense-memory', 'hook', 'turn-end']\n"
        "from sense_memory.interfaces.cli import main; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", slow],
        input=b"{}",
        env={**os.environ, "SENSE_MEMORY_HOME": str(home)},
        timeout=20 * SECOND,
        check=False,
    )

    assert done.returncode == 0
    assert "given up after 0 s" in (home / "hooks.log").read_text()


def test_a_hook_does_not_wait_for_the_end_of_stdin(agent, user, tmp_path):
    """A harness may leave stdin open after its JSON."""
    agent("remember", "people/facts/lisa", "Lisa teaches printmaking.")
    agent("install", "claude-code", "--yes")
    hooks = json.loads((user / ".claude" / "settings.json").read_text())["hooks"]
    command = hooks["SessionStart"][0]["hooks"][0]["command"]
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
    ) as process:
        process.stdin.write(b'{"session_id": "s"}\n')
        process.stdin.flush()

        assert process.wait(20 * SECOND) == 0
        assert b"printmaking" in process.stdout.read()


def test_a_bug_of_ours_is_told_without_its_text(agent, monkeypatch):
    def broken(*_):
        raise RuntimeError("a memory")

    monkeypatch.setattr("sense_memory.interfaces.harness.hooks.session_start", broken)

    result = agent("hook", "session-start", stdin="{}")

    assert result.stderr == "sense-memory: the hook failed: RuntimeError\n"


def test_a_program_in_a_cache_is_warned_of(agent, user, tmp_path, monkeypatch):
    folder = tmp_path / ".cache" / "uv" / "bin"
    folder.mkdir(parents=True)
    (folder / "sense-memory").touch(mode=0o755)
    with monkeypatch.context() as patch:
        patch.setattr("sysconfig.get_path", lambda *_, **__: str(folder))
        shown = agent("install", "zed").stderr

    assert "runs from a cache" in " ".join(shown.split())
