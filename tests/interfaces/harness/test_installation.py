"""Every harness of the table: put in, put in again, taken out; on files of every sort, with real files."""

from __future__ import annotations

import json
import os
import tomllib

import pytest

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.harness import config_text
from sense_memory.interfaces.harness.installation import (
    apply,
    is_found,
    parts_installed,
    plan_install,
    plan_uninstall,
)
from sense_memory.interfaces.harness.specs import HARNESSES, EntryKind, Launch, Machine


LAUNCH = Launch(
    ("/opt/my tools/sense-memory",), ("--agent", "bob"), creates_key=True, env={"SENSE_MEMORY_HOME": "/m"}
)
PARTS = ("server", "hooks", "skill")
EXISTING = {
    EntryKind.JSON_MEMBER: '{\n  // mine\n  "theme": "dark",\n  "token": "s3cret",\n  "mcpServers": {}\n}\n',
    EntryKind.TOML_TABLE: '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"',
}


class Stage:
    """A harness on a machine of its own."""

    def __init__(self, folder, name, *, is_project=False):
        self.spec = HARNESSES[name]
        self.home, self.backups = folder / "home", folder / "backups"
        self.project = folder / "project" if is_project else None
        for made in (self.home, folder / "project"):
            made.mkdir()
        self.base = self.project or self.home
        self.machine = Machine(self.home, {}, "darwin" if self.spec.platforms else "linux")

    def install(self, launch=LAUNCH, parts=PARTS):
        plan = plan_install(self.spec, self.machine, launch, project=self.project, parts=parts)
        self._apply(plan)
        return plan

    def uninstall(self):
        plan = plan_uninstall(self.spec, self.machine, project=self.project, backups=self.backups)
        self._apply(plan)
        return plan

    def _apply(self, plan):
        apply(plan, self.backups, base=self.base, is_project=self.project is not None)

    @property
    def server(self):
        return next(entry for entry in self.spec.entries if entry.part == "server")

    @property
    def file(self):
        return self.server.file(self.machine, self.project)

    def write(self, text):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")

    def tree(self):
        """Every file below the base, with its bytes; links by where they lead."""
        return {
            path.relative_to(self.base).as_posix(): path.readlink()
            if path.is_symlink()
            else path.read_bytes()
            for path in sorted(self.base.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture(params=HARNESSES)
def stage(request, tmp_path):
    return Stage(tmp_path, request.param)


def server_in(stage):
    """The entry of the server, as a harness would read it."""
    text = stage.file.read_text(encoding="utf-8")
    value = tomllib.loads(text) if stage.server.kind == EntryKind.TOML_TABLE else config_text.json_value(text)
    for key in stage.server.path:
        value = value[key]
    return value


# ── In and out ──────────────────────────────────────────────────────────────────────────


def test_on_an_empty_machine_all_is_made_and_all_is_removed(stage):
    plan = stage.install()

    assert {change.action for change in plan} == {"create"}
    words = server_in(stage)
    command = words["command"] if isinstance(words["command"], list) else [words["command"], *words["args"]]
    assert command == ["/opt/my tools/sense-memory", "mcp", "--agent", "bob", "--create-key"]
    assert {"SENSE_MEMORY_HOME": "/m"} in words.values()
    assert parts_installed(stage.spec, stage.machine) == list(
        dict.fromkeys(entry.part for entry in stage.spec.entries)
    )
    assert is_found(stage.spec, stage.machine)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in stage.home.rglob("*") if path.is_file())

    assert {change.action for change in stage.install()} == {"unchanged"}
    stage.uninstall()
    assert list(stage.home.iterdir()) == []
    assert stage.uninstall() == []


def test_settings_and_comments_stay_and_the_file_comes_back_to_the_last_byte(stage):
    stage.write(EXISTING[stage.server.kind])
    stage.file.chmod(0o640)
    before = stage.tree()

    stage.install()

    text = stage.file.read_text()
    assert "mine\n" in text
    assert stage.file.stat().st_mode & 0o777 == 0o640
    again = stage.install(Launch(("/new/sense-memory",)))
    assert "change" in {change.action for change in again}
    assert "bob" not in "".join(path.read_text() for path in stage.home.rglob("*") if path.is_file())
    assert parts_installed(stage.spec, stage.machine)
    stage.uninstall()
    assert stage.tree() == before
    assert stage.file.stat().st_mode & 0o777 == 0o640
    assert {path.stat().st_mode & 0o777 for path in stage.backups.iterdir()} == {0o600}


def test_what_a_user_adds_after_the_installation_stays(stage):
    stage.write(EXISTING[stage.server.kind])
    stage.install()
    added = "\n[later]\na = 1\n" if stage.server.kind == EntryKind.TOML_TABLE else "// later\n"
    stage.write(stage.file.read_text() + added)

    stage.uninstall()

    text = stage.file.read_text()
    assert text.endswith(added)
    assert text.startswith(EXISTING[stage.server.kind][:20])
    assert "sense-memory" not in text


@pytest.mark.parametrize("text", ["", "\n"])
def test_a_blank_file_is_no_fault(stage, text):
    stage.write(text)

    stage.install()

    assert server_in(stage)
    stage.uninstall()
    assert stage.file.read_text() == text


# ── Files that must not be touched ──────────────────────────────────────────────────────


def test_a_malformed_file_is_refused_and_nothing_at_all_is_written(stage):
    stage.write('{"a": [1, 2\n' if stage.server.kind == EntryKind.JSON_MEMBER else "a = 1 2\n")
    before = stage.tree()

    with pytest.raises(
        InvalidInput, match=rf"{stage.file.name} is not (JSON|TOML): .*line.*nothing was changed"
    ):
        stage.install()
    with pytest.raises(InvalidInput, match="nothing was changed"):
        stage.uninstall()

    assert stage.tree() == before
    assert parts_installed(stage.spec, stage.machine) == []


def test_a_link_stays_a_link_to_a_file_kept_elsewhere(stage, tmp_path):
    kept = tmp_path / "dotfiles.txt"
    kept.write_text(EXISTING[stage.server.kind])
    stage.file.parent.mkdir(parents=True, exist_ok=True)
    stage.file.symlink_to(kept)

    stage.install()

    assert stage.file.is_symlink()
    assert "sense-memory" in kept.read_text()
    stage.uninstall()
    assert kept.read_text() == EXISTING[stage.server.kind]
    assert stage.file.is_symlink()


def test_a_file_that_is_read_only_is_left_alone(stage):
    stage.write(EXISTING[stage.server.kind])
    stage.file.chmod(0o400)
    before = stage.tree()

    with pytest.raises(InvalidInput, match="chmod u\\+w"):
        stage.install()

    assert stage.tree() == before


def test_an_entry_of_somebody_else_in_our_place_is_left_alone(stage):
    theirs = {"command": "docker", "args": ["run", "memory"]}
    if stage.server.kind == EntryKind.TOML_TABLE:
        stage.write(config_text.toml_set("", stage.server.path, theirs))
    else:
        stage.write(config_text.json_set("", stage.server.path, theirs))
    before = stage.tree()

    with pytest.raises(InvalidInput, match="did not write"):
        stage.install()
    assert stage.uninstall() == []

    assert stage.tree() == before


@pytest.mark.parametrize("kind", ["folder", "not UTF-8", "link to nowhere", "link in a circle"])
def test_what_is_not_a_text_file_is_refused(tmp_path, kind):
    stage = Stage(tmp_path, "cursor")
    stage.file.parent.mkdir()
    if kind == "folder":
        stage.file.mkdir()
    elif kind == "not UTF-8":
        stage.file.write_bytes(b"\xff\xfe{}")
    else:
        stage.file.symlink_to(stage.file if "circle" in kind else tmp_path / "no" / "where")

    with pytest.raises((InvalidInput, OSError)):
        stage.install()


# ── Projects ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["claude-code", "cursor", "codex", "gemini-cli", "opencode", "vscode"])
def test_a_project_gets_its_own_files_and_the_user_none(tmp_path, name):
    stage = Stage(tmp_path, name, is_project=True)

    stage.install()

    assert list(stage.home.iterdir()) == []
    assert server_in(stage)
    assert stage.file.stat().st_mode & 0o777 == 0o644
    stage.uninstall()
    assert list(stage.project.iterdir()) == []


@pytest.mark.parametrize("name", ["claude-desktop", "windsurf", "zed", "openclaw"])
def test_a_harness_without_files_of_projects_says_so(tmp_path, name):
    with pytest.raises(InvalidInput, match="no such files in a project"):
        Stage(tmp_path, name, is_project=True).install()


def test_a_project_cannot_lead_writing_out_of_itself(tmp_path):
    stage = Stage(tmp_path, "claude-code", is_project=True)
    (stage.home / "rc").write_text("{}")
    (stage.project / ".mcp.json").symlink_to(stage.home / "rc")

    with pytest.raises(InvalidInput, match="leads out of the project"):
        stage.install()

    assert (stage.home / "rc").read_text() == "{}"


# ── Hooks ───────────────────────────────────────────────────────────────────────────────


def test_hooks_of_others_stay_also_in_one_group_with_ours(tmp_path):
    stage = Stage(tmp_path, "claude-code")
    stage.install()
    path = stage.home / ".claude" / "settings.json"
    found = json.loads(path.read_text())
    found["hooks"]["SessionStart"][0]["hooks"].insert(0, {"type": "command", "command": "date"})
    found["hooks"]["Stop"] = [{"hooks": [{"type": "command", "command": "say sense-memory"}]}]
    path.write_text(json.dumps(found, indent=2))

    stage.install(Launch(("/new/sense-memory",)))

    groups = json.loads(path.read_text())["hooks"]["SessionStart"]
    assert [hook["command"] for group in groups for hook in group["hooks"]] == [
        "date",
        "/new/sense-memory hook session-start || true",
    ]
    stage.uninstall()
    assert json.loads(path.read_text()) == {
        "hooks": {
            "SessionStart": [{"hooks": [{"type": "command", "command": "date"}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "say sense-memory"}]}],
        }
    }


def test_parts_can_be_left_out(tmp_path):
    stage = Stage(tmp_path, "claude-code")

    stage.install(parts=("server",))

    assert parts_installed(stage.spec, stage.machine) == ["server"]
    assert list(stage.tree()) == [".claude.json"]


# ── Writing ─────────────────────────────────────────────────────────────────────────────


FOREIGN = {
    "one line": ("cursor", '{"mcpServers":{"gh":{"command":"npx","env":{"K":"v"}}},"o":{"k":"v"}}'),
    "comments": ("cursor", '// c\n{ /* c */ "mcpServers": { // c\n "gh": {"url": "v"}, /* c */ }, }\n'),
    "ours and others on one line": ("cursor", '{"mcpServers":{"gh":{"k":"v"},"sense-memory":OURS}}'),
    "hooks on one line": ("gemini-cli", '{"hooks":{"SessionStart":[{"hooks":[{"command":"K=v x"},HOOK]}]}}'),
    "inline tables": ("codex", 'k = "v" # c\n[mcp_servers]\ngh = { env = { K = "v" } }\n'),
    "tables": ("codex", '[mcp_servers.gh]\nenv = { K = """\nv\n""" }\n[mcp_servers.sense-memory]\nTABLE'),
}


@pytest.mark.parametrize("shape", FOREIGN)
def test_what_is_not_ours_is_never_shown_wherever_it_stands_in_a_file(tmp_path, shape):
    """A secret at each place of each file in turn; where it makes the file malformed, the error does not hold it."""
    name, text = FOREIGN[shape]
    stage = Stage(tmp_path, name)
    for mark, ours in {
        "OURS": '{"command":"sense-memory","args":["mcp"],"env":{"K":"v"}}',
        "HOOK": '{"command":"K=v sense-memory hook session-start"}',
        "TABLE": 'command = "sense-memory"\nargs = ["mcp", "v"]\n',
    }.items():
        text = text.replace(mark, ours)
    seen = set()
    for place in range(len(text) + 1):
        stage.write(f"{text[:place]}s3cret{text[place:]}")
        for plan in (
            lambda: plan_install(stage.spec, stage.machine, LAUNCH, project=None, parts=("server", "hooks")),
            lambda: plan_uninstall(stage.spec, stage.machine, project=None, backups=stage.backups),
        ):
            try:
                shown = "\n".join(line for change in plan() for line in change.lines)
                seen.add("plan")
            except InvalidInput as error:
                shown = str(error)
                seen.add("error")
            assert "s3cret" not in shown, place
    assert seen == {"plan", "error"}


def test_what_is_put_in_is_shown_whole_and_what_is_taken_out_by_its_place(tmp_path):
    stage = Stage(tmp_path, "gemini-cli")
    stage.write('{"mcpServers": {"gh": {}}, "hooks": {"SessionStart": [{"hooks": [{"command": "date"}]}]}}')

    added = stage.install()[0].lines
    replaced = stage.install(Launch(("/new/sense-memory",)))[0].lines
    removed = stage.uninstall()[0].lines

    assert added[:4] == (
        "+ mcpServers.sense-memory: {",
        '+   "command": "/opt/my tools/sense-memory",',
        '+   "args": [',
        '+     "mcp",',
    )
    assert "+ hooks.SessionStart[1]: {" in added
    places = (
        "- mcpServers.sense-memory",
        "- hooks.SessionStart[1]",
        "- hooks.PreCompress[0]",
        "- hooks.SessionEnd[0]",
    )
    assert tuple(line for line in replaced if line.startswith("-")) == places
    assert removed == places


def test_a_skill_of_somebody_else_is_left_alone(tmp_path):
    stage = Stage(tmp_path, "claude-code")
    skill = stage.home / ".claude" / "skills" / "sense-memory" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: sense-memory\n---\nMy own words.\n")
    before = stage.tree()

    with pytest.raises(InvalidInput, match="--without skill; nothing was changed"):
        stage.install()
    assert parts_installed(stage.spec, stage.machine) == []
    assert plan_uninstall(stage.spec, stage.machine, project=None, backups=stage.backups) == []
    assert stage.tree() == before


def test_a_file_that_changed_since_the_plan_is_not_overwritten_and_the_others_are_put_back(tmp_path):
    stage = Stage(tmp_path, "claude-code")
    stage.write("{}\n")
    plan = plan_install(stage.spec, stage.machine, LAUNCH, project=None, parts=PARTS)
    (stage.home / ".claude").mkdir()
    (stage.home / ".claude" / "settings.json").write_text('{"new": 1}')
    before = stage.tree()

    with pytest.raises(InvalidInput, match="changed meanwhile"):
        apply(plan, stage.backups, base=stage.home, is_project=False)

    assert stage.tree() == before


def test_a_failure_in_the_middle_puts_the_files_before_it_back(tmp_path, monkeypatch):
    stage = Stage(tmp_path, "claude-code")
    stage.write("{}\n")
    before = stage.tree()
    sync = os.fsync
    calls = iter([None] * 3)

    def full(descriptor):
        if next(calls, "full") == "full":
            monkeypatch.setattr(os, "fsync", sync)
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        stage.install()

    assert stage.tree() == before


def test_folders_that_the_environment_names_are_used(tmp_path):
    spec = HARNESSES["claude-code"]
    machine = Machine(tmp_path / "home", {"CLAUDE_CONFIG_DIR": str(tmp_path / "cc")}, "linux")

    plan = plan_install(spec, machine, LAUNCH, project=None, parts=PARTS)

    assert [change.path.relative_to(tmp_path / "cc").as_posix() for change in plan] == [
        ".claude.json",
        "settings.json",
        "skills/sense-memory/SKILL.md",
    ]


def test_claude_desktop_has_no_documented_file_on_linux(tmp_path):
    machine = Machine(tmp_path, {}, "linux")

    with pytest.raises(InvalidInput, match="no configuration file for this platform"):
        plan_install(HARNESSES["claude-desktop"], machine, LAUNCH, project=None, parts=PARTS)
    assert not is_found(HARNESSES["claude-desktop"], machine)


def test_every_harness_says_where_its_formats_are_documented():
    for spec in HARNESSES.values():
        assert any(source.startswith("https://") for source in spec.sources), spec.name
