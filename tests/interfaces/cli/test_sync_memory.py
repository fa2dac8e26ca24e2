"""`install --sync-memory`: what a harness writes into its own files on one machine is on the other, by one relay."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from sense_memory import MemoryStore
from sense_memory.interfaces.harness.memory_folders import belongs_to, memory_folders, session_folder
from sense_memory.interfaces.harness.specs import Machine


USER_FILES = {  # where each program keeps its memory, of two users with other paths
    "codex": ".codex/AGENTS.md",
    "gemini-cli": ".gemini/GEMINI.md",
    "opencode": ".config/opencode/AGENTS.md",
    "openclaw": ".openclaw/workspace/memory/2026-11-24.md",
    "hermes": ".hermes/memories/USER.md",
}


def checkout(folder, remote="git@github.com:Ada/kiln.git"):
    """A repository, whose settings are as git writes them."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(
        f'[remote "origin"]\n\turl = {remote}\n' if remote else "[core]\n"
    )
    return folder


def memory_of(user, working):
    """Where Claude Code keeps the memory of a repository."""
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in str(working))
    return user / ".claude" / "projects" / name / "memory"


@pytest.fixture
def machines(cli, tmp_path, relay, monkeypatch):
    """Two homes of one agent; calling it with a name makes that machine this one, and returns the user's folder."""
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)

    def switch(name):
        user = tmp_path / name
        user.mkdir(exist_ok=True)
        monkeypatch.setenv("HOME", str(user))
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(user / "sm"))
        return user

    first, second = switch("one"), switch("two")
    switch("one")
    cli("init")
    (second / "sm").mkdir(mode=0o700)
    shutil.copytree(first / "sm" / "keys", second / "sm" / "keys")
    for name in ("one", "two"):
        switch(name)
        cli("relays", "add", relay)
    return switch


def hook(cli, name, working):
    return cli(
        "hook", name, "--sync-memory", "claude-code", stdin=json.dumps({"cwd": str(working), "records": []})
    )


@pytest.mark.parametrize("harness", USER_FILES)
def test_a_note_in_the_files_of_a_program_is_on_the_other_machine(cli, machines, harness):
    for name in ("one", "two"):
        (machines(name) / USER_FILES[harness]).parent.mkdir(parents=True)
    note = machines("one") / USER_FILES[harness]
    note.write_text("Fire the kiln on Mondays.\n")

    assert "to memory" in cli("install", harness, "--sync-memory").stdout
    cli("install", harness, "--sync-memory", "--yes")
    there = machines("two") / USER_FILES[harness]
    cli("install", harness, "--sync-memory", "--yes")
    assert there.read_text() == note.read_text()

    there.write_text("Fire the kiln on Mondays.\n\nLisa glazes.\n")
    cli("mirror", "--yes")
    machines("one")
    cli("mirror", "--yes")
    assert note.read_text() == there.read_text()

    assert "mirror ends" in cli("uninstall", harness, "--yes").stdout
    assert note.read_text() == there.read_text()
    assert json.loads(cli("mirror", "--status", "--json").stdout) == []


def note_of(harness, machines, name):
    """Where a program keeps its memory on a machine, with the folder that the program makes."""
    if harness == "claude-code":
        user = machines(name)
        note = memory_of(user, checkout(user / f"of-{name}" / "kiln")) / "MEMORY.md"
    else:
        note = machines(name) / USER_FILES[harness]
    note.parent.mkdir(parents=True)
    return note


@pytest.fixture
def later(cli, monkeypatch):
    """Runs a command 2 s after the one before, by the clock of the stores: none waits until an edit's second has come."""
    now = [time.time()]
    monkeypatch.setitem(MemoryStore.__init__.__kwdefaults__, "clock", lambda: now[0])

    def run(*words):
        now[0] += 2
        return cli(*words)

    return run


@pytest.mark.parametrize("harness", ["claude-code", *USER_FILES])
def test_what_two_machines_write_offline_meets_in_the_files_of_a_program_and_is_undone(
    later, machines, harness
):
    one, two = (note_of(harness, machines, name) for name in ("one", "two"))
    machines("one")
    one.write_text("# Kiln\n\n- Fire on Mondays.\n\n# Glaze\n\n- Lisa mixes it.\n")
    for name in ("one", "two"):
        machines(name)
        later("install", harness, "--sync-memory", "--yes")
    assert two.read_text() == one.read_text()

    for name, note, old, new in (("one", one, "Mondays", "Tuesdays"), ("two", two, "Lisa", "Ada")):
        machines(name)
        note.write_text(note.read_text().replace(old, new))
        later("mirror", "--yes", "--wait", "0")  # no relay is asked
    for name in ("two", "one", "two"):
        machines(name)
        later("mirror", "--yes", "--wait", "60")
    met = "# Kiln\n\n- Fire on Tuesdays.\n\n# Glaze\n\n- Ada mixes it.\n"
    assert (one.read_text(), two.read_text()) == (met, met)

    two.write_text(met.replace("Ada", "Nobody"))
    later("mirror", "--yes", "--wait", "60")
    machines("one")
    later("mirror", "--yes", "--wait", "60")
    assert "Nobody" in one.read_text()
    later("undo", one)
    later("mirror", "--yes", "--wait", "60")
    machines("two")
    later("mirror", "--yes", "--wait", "60")
    assert (one.read_text(), two.read_text()) == (met, met)


def test_claude_codes_memory_of_a_repository_follows_its_sessions_to_another_path(cli, machines):
    here = checkout(machines("one") / "src" / "kiln")
    note = memory_of(machines("one"), here) / "MEMORY.md"
    note.parent.mkdir(parents=True)
    note.write_text("- The kiln runs on port 7311.\n")
    assert "github.com/ada/kiln/claude-memory" in cli("install", "claude-code", "--sync-memory").stdout
    assert json.loads(cli("mirror", "--status", "--json").stdout) == []
    cli("install", "claude-code", "--sync-memory", "--yes")
    settings = (machines("one") / ".claude" / "settings.json").read_text()
    assert settings.count("--sync-memory claude-code") == 4

    there = checkout(machines("two") / "work" / "kiln-2") / "src"
    cli("install", "claude-code", "--sync-memory", "--yes")
    hook(cli, "session-start", there)
    copy = memory_of(machines("two"), there.parent) / "MEMORY.md"
    assert copy.read_text() == note.read_text()

    copy.write_text(copy.read_text() + "- Lisa fires on Mondays.\n")
    hook(cli, "session-end", there)
    machines("one")
    hook(cli, "session-start", here)
    assert note.read_text() == "- The kiln runs on port 7311.\n- Lisa fires on Mondays.\n"


def test_a_folder_without_a_remote_is_named_and_left_out(cli, machines):
    working = checkout(machines("one") / "kiln", remote="")
    folder = memory_of(machines("one"), working)
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("x\n")

    told = " ".join(cli("install", "claude-code", "--sync-memory", "--yes").stderr.split())

    assert "is left out: its repository has no remote" in told
    hook(cli, "session-start", working)
    assert json.loads(cli("mirror", "--status", "--json").stdout) == []


def test_a_mapping_that_the_user_chose_stays(cli, machines):
    working = checkout(machines("one") / "kiln")
    folder = memory_of(machines("one"), working)
    folder.mkdir(parents=True)
    cli("mirror", folder, "--project", "pottery", "--yes")

    cli("install", "claude-code", "--sync-memory", "--yes")
    hook(cli, "session-start", working)

    (report,) = json.loads(cli("mirror", "--status", "--json").stdout)
    assert report["project"] == "pottery"


def test_a_projects_own_file_is_mirrored_where_it_is_asked_for(cli, machines):
    working = checkout(machines("one") / "kiln")
    (working / "CLAUDE.md").write_text("Use tabs.\n")
    (working / "notes.md").write_text("private\n")

    cli("install", "claude-code", "--project", working, "--sync-memory", "--yes")

    (report,) = json.loads(cli("mirror", "--status", "--json").stdout)
    assert (report["project"], report["in_step"]) == ("github.com/ada/kiln", 1)
    assert "mirror ends" in cli("uninstall", "claude-code", "--project", working, "--yes").stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("zed", "--sync-memory"), "keeps no memory in files"),
        (("hermes", "--project", ".", "--sync-memory"), "keeps no memory in files"),
        (("hermes",), "gets only --sync-memory"),
    ],
)
def test_what_cannot_be_mirrored_is_refused(cli, machines, words, problem):
    machines("one")

    assert problem in " ".join(cli("install", *words, code=2).stderr.split())


def test_the_folder_of_a_session_is_that_of_its_repository(tmp_path):
    machine = Machine(tmp_path, {}, "linux")
    root = checkout(tmp_path / "my.kiln")

    place = session_folder("claude-code", machine, {"cwd": str(root / "a" / "b")})

    assert place.folder == memory_of(tmp_path, root)
    assert place.project == "github.com/ada/kiln/claude-memory"
    assert belongs_to(place.folder, "claude-code", machine)
    assert not belongs_to(tmp_path / "memory", "claude-code", machine)
    assert memory_folders("claude-code", machine) == []
    for event in ({}, {"cwd": 7}, {"cwd": "a"}, {"cwd": "/x" * 200}, {"cwd": "a\0b"}):
        assert session_folder("claude-code", machine, event) is None
    assert session_folder("codex", machine, {"cwd": str(root)}) is None
