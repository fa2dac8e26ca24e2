"""`doctor --rescue`: a damaged ledger is replaced, kept, and told about."""

from __future__ import annotations

import re

import pytest


@pytest.fixture
def ledger(agent, home):
    """The agent's ledger, with some memories in it."""
    agent("remember", "k0", "v0")
    for number in range(1, 4):
        agent("remember", f"k{number}", f"v{number}")
    (path,) = (home / "ledgers").glob("*.db")
    return path


def spoil(path):
    """Cut off the end, where the last pages of the tables are."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def test_a_damaged_ledger_is_moved_aside_and_what_can_be_read_is_saved(agent, ledger):
    spoil(ledger)
    failed = agent.json("doctor", code=1)
    assert "doctor --rescue" in str(failed)

    found = agent.json("doctor", "--rescue")

    assert found["ok"] is True
    aside = ledger.with_name(f"{ledger.name}.damaged-1")
    assert found["rescued"]["aside"] == str(aside)
    assert aside.exists()
    agent("remember", "later", "works")


def test_the_sentence_says_where_the_damaged_file_is_and_what_to_do(agent, ledger):
    spoil(ledger)

    shown = agent("doctor", "--rescue").stdout

    assert f"{ledger.name}.damaged-1" in shown
    assert "sense-memory sync --full" in shown


def test_a_sound_ledger_is_not_touched(agent, ledger):
    before = ledger.read_bytes()

    failed = agent("doctor", "--rescue", code=2)

    assert "is not damaged; the file was not touched" in failed.stderr
    assert ledger.read_bytes() == before
    assert list(ledger.parent.glob("*damaged*")) == []


def test_the_remedy_names_the_ledger_that_was_named(agent, tmp_path):
    agent("--ledger", "my own.db", "remember", "k", "v")
    spoil(tmp_path / "my own.db")

    failed = agent("--ledger", "my own.db", "list", code=1)

    named = f"sense-memory --ledger '{tmp_path}/my own.db' doctor --rescue"
    assert f"run `{named}`" in " ".join(failed.stderr.split())
    assert "The damaged file is kept" in agent("--ledger", "my own.db", "doctor", "--rescue").stdout


def test_the_remedy_names_the_agent_that_was_named(cli, agent, ledger, home):
    cli("--agent", "bob", "init")
    agent("--agent", "bob", "remember", "k", "v")
    (path,) = set((home / "ledgers").glob("*.db")) - {ledger}
    spoil(path)

    for command, code in (("list", 1), ("doctor", 1)):
        shown = agent("--agent", "bob", "--json", command, code=code).stdout
        assert "run `sense-memory --agent bob doctor --rescue`" in shown


@pytest.mark.parametrize("name", ["notes.db", "own"])
def test_a_file_that_never_was_a_ledger_is_called_so_and_no_rescue_touches_it(agent, ledger, tmp_path, name):
    is_own = name == "own"
    path, words = (ledger, ()) if is_own else (tmp_path / name, ("--ledger", name))
    path.write_text("Buy milk, and never lose this list.\n" * 9)
    before = path.read_bytes()
    problem = f"{'aside' if is_own else 'use another ledger file'}.*: .*{path.name} is not a ledger; it was"

    listed = agent(*words, "list", code=1)
    rescued = agent(*words, "doctor", "--rescue", code=2)

    for failed in (listed, rescued):
        assert re.search(problem, " ".join(failed.stderr.split()))
        assert "is damaged" not in failed.stderr
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.damaged*"))


def test_a_ledger_of_zeros_is_damaged(agent, ledger):
    ledger.write_bytes(bytes(9_000))

    assert "--rescue`" in agent("list", code=1).stderr
    assert "The damaged file is kept" in agent("doctor", "--rescue").stdout
