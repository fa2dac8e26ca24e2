from __future__ import annotations

import pytest

from sense_memory import RelayReport, RelayStatus, Status
from sense_memory.interfaces.cli.syncing import outcome, survival
from sense_memory.relay.pull import Pulled


RELAY_KEYS = {
    "url",
    "problem",
    "pulled",
    "served",
    "sent",
    "reasons",
    "waiting",
    "asked",
    "held_back",
    "seconds",
    "is_local",
    "complete",
    "in_step",
    "events",
}


# ── sync ────────────────────────────────────────────────────────────────────────────────


def test_sync_sends_what_waits_and_exits_with_0_when_all_is_in_step(agent, relay):
    agent("remember", "k", "v")

    result = agent("--relay", relay, "sync")

    header, row, _, line = result.stdout.splitlines()
    assert header.split() == ["relay", "new", "known", "sent", "waiting", "time"] or "waiting" not in header
    assert row.split()[:4] == [relay, "0", "0", "1"]
    assert line == f"{relay}: in step (this machine: not a backup)"


def test_sync_as_json_has_every_number(agent, relay):
    agent("remember", "k", "v")

    found = agent.json("--relay", relay, "sync")

    assert (found["in_step"], found["complete"]) == (True, True)
    (report,) = found["relays"]
    assert set(report) >= RELAY_KEYS
    assert (report["sent"], report["events"], report["waiting"]) == ({"accepted": 1}, {"acked": 1}, 0)


def test_another_machine_with_the_same_key_gets_everything(agent, relay, tmp_path):
    agent("--relay", relay, "remember", "k", "v")
    other = ("--relay", relay, "--ledger", tmp_path / "other.db")

    assert agent.json(*other, "sync")["relays"][0]["served"] == {"new": 1}
    assert agent(*other, "recall", "k").stdout == "v"
    assert agent.json(*other, "sync", "--full")["relays"][0]["in_step"]


def test_a_relay_that_is_down_makes_sync_exit_with_3_and_the_others_are_served(agent, relay, dead_relay):
    agent("remember", "k", "v")
    both = ("--relay", relay, "--relay", dead_relay)

    result = agent(*both, "sync", code=3)

    assert f"{relay}: in step" in result.stdout
    assert f"{dead_relay}: refused the connection" in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.startswith(f"{dead_relay} "))
    assert row.split()[1:4] == ["-", "-", "-"]  # not reached: that is not 0
    assert "Nothing is lost" in result.stdout
    found = agent.json(*both, "sync", code=3)
    assert [report["in_step"] for report in found["relays"]] == [True, False]
    assert found["relays"][1]["problem"] == "refused the connection"


def test_a_relay_that_refuses_makes_sync_exit_with_3_now_and_later(agent, refusing_relay):
    agent("remember", "k", "v")

    result = agent("--relay", refusing_relay, "sync", code=3)

    assert "refused" in result.stdout.splitlines()[0]
    assert f"{refusing_relay}: blocked (1)" in result.stdout
    assert "\x1b" not in result.stdout
    assert agent.json("--relay", refusing_relay, "sync", code=3)["in_step"] is False


def test_what_a_relay_refused_is_sent_again_only_to_whoever_asks_for_it(agent, refusing_relay):
    agent("--relay", refusing_relay, "remember", "k", "v")
    for options, sent in (((), {}), (("--full",), {}), (("--retry-refused",), {"refused": 1})):
        found = agent.json("--relay", refusing_relay, "sync", *options, code=3)
        assert found["relays"][0]["sent"] == sent
        assert found["relays"][0]["events"] == {"refused": 1}
    assert "--retry-refused" in agent("sync", "--help").stdout


def test_sync_without_relays_exits_with_2_and_a_hint(agent):
    assert "sense-memory relays add" in agent("sync", code=2).stderr
    assert agent.json("sync", code=2)["error"]["type"] == "NoRelays"


STATUS = RelayStatus("wss://a", is_local=False, last_complete=1.0, events={"acked": 1})


@pytest.mark.parametrize(
    ("report", "status", "expected"),
    [
        (RelayReport("wss://a"), STATUS, "in step"),
        (RelayReport("wss://a", problem="gone"), STATUS, "gone"),
        (RelayReport("wss://a", pulled=Pulled(("no EOSE",))), STATUS, "incomplete: no EOSE"),
        (
            RelayReport("wss://a", pulled=Pulled(("no EOSE",)), held_back=True),
            STATUS,
            "incomplete: no EOSE; nothing is sent before it has shown everything",
        ),
        (
            RelayReport("wss://a", reasons={"rate-limited": 1_000}),
            RelayStatus("wss://a", is_local=False, last_complete=1.0, events={"queued": 1_000}),
            "rate-limited (1,000)",
        ),
    ],
)
def test_an_outcome_says_why_a_relay_is_not_in_step(report, status, expected):
    assert expected == outcome(report, status)


# ── status ──────────────────────────────────────────────────────────────────────────────


def test_status_names_owner_ledger_counts_and_each_relay(agent, relay, home):
    agent("--relay", relay, "remember", "k", "v")
    agent("--relay", relay, "forget", "k")

    shown = agent("--relay", relay, "status").stdout

    assert "npub1" in shown
    assert str(home / "ledgers") in shown
    assert (
        "holds   0 memories and 0 journal entries\n        in 2 events: 1 of what was forgotten, 1 deletion request\n"
        in shown
    )
    assert f"{relay}    " in shown or f"{relay}  " in shown
    assert "this machine: not a backup" in shown
    assert shown.splitlines()[-1].startswith("If this machine were lost, the memory would be lost")


def test_status_as_json(agent, relay):
    agent("--relay", relay, "remember", "k", "v")

    found = agent.json("--relay", relay, "status")

    assert set(found) == {
        "npub",
        "ledger",
        "counts",
        "relays",
        "copies_elsewhere",
        "is_replicated",
        "summary",
    }
    assert found["counts"]["heads"] == 1
    (line,) = found["relays"]
    assert (line["url"], line["is_local"], line["holds_all"]) == (relay, True, True)
    assert line["last_complete"].endswith("Z")


def test_status_of_an_agent_without_memories_or_relays(agent):
    assert "holds   0 memories and 0 journal entries\n        in 0 events\n" in agent("status").stdout
    assert agent.json("status")["relays"] == []


def test_the_counts_of_status_add_up(agent):
    for value in ("1", "2", "3"):
        agent("remember", "a", value)
    agent("remember", "b", "v")
    agent("remember", "c", "v")
    agent("forget", "b")
    for text in ("one", "two"):
        agent("journal", text)

    shown = agent("status").stdout
    counts = agent.json("status")["counts"]

    assert "holds   2 memories and 2 journal entries\n" in shown
    assert "in 8 events: 4 current, 2 older versions, 1 of what was forgotten, 1 deletion request\n" in shown
    assert counts == {
        "heads": 4,
        "entries": 2,
        "logs": 0,
        "events": 8,
        "older": 2,
        "tombstones": 1,
        "deletions": 1,
        "quarantined": 0,
    }


def status_of(*relays):
    return Status("npub", ":memory:", {}, relays)


ELSEWHERE = RelayStatus("wss://a", is_local=False, last_complete=1.0, events={"acked": 3})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (status_of(), "the memory would be lost: no relays"),
        (
            status_of(RelayStatus("ws://localhost", is_local=True, last_complete=1.0)),
            "its only relays are on",
        ),
        (status_of(ELSEWHERE), "would survive: 1 relay elsewhere says it holds all of it"),
        (status_of(ELSEWHERE, ELSEWHERE), "would survive: 2 relays elsewhere say they hold all of it"),
        (
            status_of(RelayStatus("wss://a", is_local=False, last_complete=None, events={"queued": 3})),
            "no relay elsewhere has any of it",
        ),
        (
            status_of(
                RelayStatus("wss://a", is_local=False, last_complete=1.0, events={"acked": 3, "queued": 1})
            ),
            "a part of the memory would be lost",
        ),
    ],
)
def test_one_sentence_says_whether_the_memory_survives_this_machine(status, expected):
    assert expected in survival(status)
