"""The project of a folder: the same on every machine."""

from __future__ import annotations

import json

import pytest

from sense_memory.mirror.project import normal_remote, project_of


def repository(folder, url, name="origin"):
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "{name}"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
    )
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:Ada/Engine.git",
        "https://github.com/ada/engine.git",
        "https://github.com/ada/engine/",
        "https://ada:secret@github.com/ada/engine",
        "https://ada:se@cret@github.com/ada/engine.git?private_token=secret#secret",
        "ssh://git@github.com:22/ada/engine.git",
        "git://GitHub.com/ada/engine",
        "git+ssh://git@github.com/ada/engine.git",
    ],
)
def test_every_way_to_write_a_remote_is_one_project(url, tmp_path):
    assert normal_remote(url) == "github.com/ada/engine"
    assert project_of(repository(tmp_path / "x", url)) == "github.com/ada/engine"


@pytest.mark.parametrize(
    "url", ["/srv/git/engine.git", "file:///srv/git/engine.git", "../engine", "C:\\git\\engine"]
)
def test_a_remote_on_this_machine_counts_by_its_name(url):
    assert normal_remote(url) == "engine"


def test_a_folder_in_a_repository_is_named_after_its_path_there(tmp_path):
    root = repository(tmp_path / "checkout", "git@github.com:ada/engine.git")
    inner = root / "docs" / "notes"
    inner.mkdir(parents=True)

    assert project_of(inner) == "github.com/ada/engine/docs/notes"


def test_a_folder_without_a_remote_is_named_by_itself(tmp_path):
    (tmp_path / "my notes").mkdir()
    (tmp_path / "bare" / ".git").mkdir(parents=True)
    (tmp_path / "bare" / ".git" / "config").write_text("[core]\n\tbare = false\n")
    (tmp_path / "odd" / ".git").mkdir(parents=True)
    (tmp_path / "odd" / ".git" / "config").write_text("not a configuration")

    assert project_of(tmp_path / "my notes") == "my notes"
    assert project_of(tmp_path / "bare") == "bare"
    assert project_of(tmp_path / "odd") == "odd"


def test_another_remote_counts_where_there_is_no_origin(tmp_path):
    assert (
        project_of(repository(tmp_path / "x", "git@host.example:a/b.git", "upstream")) == "host.example/a/b"
    )


def test_a_work_tree_has_the_project_of_its_repository(tmp_path):
    root = repository(tmp_path / "main", "git@github.com:ada/engine.git")
    inner = root / ".git" / "worktrees" / "second"
    inner.mkdir(parents=True)
    (inner / "commondir").write_text("../..\n")
    second = tmp_path / "second"
    second.mkdir()
    (second / ".git").write_text(f"gitdir: {inner}\n")

    assert project_of(second) == "github.com/ada/engine"


@pytest.mark.parametrize("says_where", [True, False])
def test_the_memory_of_claude_code_belongs_to_the_project_of_the_working_directory(tmp_path, says_where):
    working = repository(tmp_path / "my.app", "git@github.com:ada/engine.git")
    slug = "".join(char if char.isalnum() else "-" for char in str(working))
    memory = tmp_path / ".claude" / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    if says_where:
        lines = [{"type": "summary"}, {"type": "user", "cwd": str(working)}]
        (memory.parent / "session.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    assert project_of(memory) == "github.com/ada/engine/claude-memory"
