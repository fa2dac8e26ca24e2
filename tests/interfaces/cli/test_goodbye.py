"""`forget --everything` on the command line."""

from __future__ import annotations


def test_it_plans_asks_and_then_forgets_everything(agent, relay):
    agent("relays", "add", relay)
    agent("remember", "tea", "green")
    agent("journal", "saw Lisa")
    agent("sync")
    assert agent.json("forget", "--everything", "--dry-run")["planned"] == 2
    assert "nothing was forgotten" in agent("forget", "--everything", code=2).stderr
    assert agent("recall", "tea").stdout == "green\n"

    found = agent.json("forget", "--everything", "--yes")
    assert (found["is_confirmed"], found["left_here"]) == (True, 0)
    assert [(line["left"], line["vanish"]) for line in found["relays"]] == [(0, "not asked")]
    assert agent.json("status")["counts"]["heads"] == 0
    assert "nothing is left" in agent("forget", "--everything", "--yes").stdout


def test_a_relay_that_cannot_be_asked_is_an_exit_code(agent):
    agent("remember", "tea", "green")
    said = agent("--relay", "ws://127.0.0.1:1", "forget", "--everything", "--yes", code=3)
    assert "Not everything is confirmed" in said.stdout.replace("\n", " ")


def test_names_and_everything_do_not_go_together(agent):
    assert "not both" in agent("forget", "tea", "--everything", code=2).stderr
    assert "belong to --everything" in agent("forget", "tea", "--vanish", code=2).stderr.replace("\n", " ")
    assert "Missing argument" in agent("forget", code=2).stderr
