"""`doctor --rescue`: a damaged ledger is replaced, kept, and told about."""

from __future__ import annotations

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
