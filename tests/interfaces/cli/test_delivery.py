"""What a write tells about relays: F-02 and P-02 of the reliability matrix, as seen from the command line."""

from __future__ import annotations

import asyncio
import time

import pytest

from sense_memory import LocalSigner, MemoryStore, RelayStatus
from sense_memory.interfaces.cli.delivery import Copies, sentence
from sense_memory.limits import IDLE_SECONDS


def test_a_write_waits_for_the_relay_and_says_that_it_has_it(agent, relay):
    result = agent("--relay", relay, "remember", "k", "v")

    assert result.stdout == "kept · accepted by 1 relay\n"


@pytest.mark.parametrize("arguments", [("remember", "k", "v"), ("forget", "old"), ("journal", "hello")])
def test_every_write_reports_the_relay_that_waits_and_exits_with_0(agent, relay, dead_relay, arguments):
    agent("remember", "old", "v")
    result = agent("--relay", relay, "--relay", dead_relay, *arguments)

    assert result.stdout.endswith(
        f" · accepted by 1 of 2 relays, not yet by 1 ({dead_relay}: refused the connection)\n"
    )


@pytest.mark.parametrize("arguments", [("remember", "k", "v"), ("forget", "old"), ("journal", "hello")])
def test_every_write_as_json_names_each_relay(agent, relay, dead_relay, arguments):
    agent("remember", "old", "v")
    found = agent.json("--relay", relay, "--relay", dead_relay, *arguments)

    assert found["acks"] == 1
    assert [(told["url"], told["copy"]["held"], told["problem"]) for told in found["relays"]] == [
        (relay, 1, None),
        (dead_relay, 0, "refused the connection"),
    ]
    assert found["relays"][1]["copy"]["states"] == {"queued": 1}


def test_f02_with_all_relays_down_local_commands_work_and_status_explains(agent, dead_relay):
    down = ("--relay", dead_relay)

    kept = agent(*down, "remember", "k", "v")
    agent(*down, "journal", "hello")
    agent(*down, "forget", "other")

    assert kept.stdout == f"kept · accepted by no relay yet ({dead_relay}: refused the connection)\n"
    assert agent(*down, "recall", "k").stdout == "v\n"
    assert [m["key"] for m in agent.json(*down, "list")] == ["k"]
    assert len(agent.json(*down, "recent")) == 1
    found = agent.json(*down, "status")
    assert found["relays"][0]["events"] == {"queued": 4}
    assert found["is_replicated"] is False
    assert "would be lost" in found["summary"]


def test_what_was_never_in_the_ledger_is_not_called_missing_while_no_relay_answers(agent, dead_relay):
    result = agent("--relay", dead_relay, "recall", "k", code=1)

    assert "a relay may hold what is missing" in result.stderr
    assert agent.json("--relay", dead_relay, "recall", "k", code=1)["error"]["type"] == "NotSynced"


def test_what_waited_is_sent_by_the_next_command_that_reaches_the_relay(agent, relay):
    agent("--relay", relay, "remember", "a", "1", "--wait", "0")
    agent("--relay", relay, "remember", "b", "2")

    found = agent.json("--relay", relay, "status")["relays"][0]["events"]
    assert found == {"acked": 2}


def test_wait_0_contacts_no_relay(agent, relay):
    result = agent("--relay", relay, "remember", "k", "v", "--wait", "0")

    assert result.stdout == f"kept · accepted by no relay yet ({relay}: not contacted)\n"
    assert agent.json("--relay", relay, "status")["relays"][0]["last_complete"] is None


def test_a_relay_that_never_answers_costs_the_wait_and_no_more(agent, silent_relay):
    begun = time.monotonic()

    result = agent("--relay", silent_relay, "remember", "k", "v", "--wait", "0.2")

    assert time.monotonic() - begun < IDLE_SECONDS / 2  # what the connection itself would have waited
    assert result.stdout == f"kept · accepted by no relay yet ({silent_relay}: no answer within 0.2 s)\n"


def test_p02_with_all_relays_refusing_required_acks_exit_with_3_and_the_memory_is_kept(agent, refusing_relay):
    result = agent("--relay", refusing_relay, "remember", "k", "v", "--require-acks", "1", code=3)

    assert result.stdout == f"kept · accepted by no relay yet, refused by 1 ({refusing_relay}: blocked)\n"
    assert (
        result.stderr
        == "error: 0 relays acknowledged this, but --require-acks asked for 1; the write is kept here\n"
    )
    assert agent("--relay", refusing_relay, "recall", "k").stdout == "v\n"


@pytest.mark.parametrize("arguments", [("remember", "k", "v"), ("forget", "old"), ("journal", "hello")])
def test_required_acks_are_met_or_not_by_every_write(agent, relay, dead_relay, arguments):
    both = ("--relay", relay, "--relay", dead_relay)
    agent("remember", "old", "v")

    agent(*both, *arguments, "--require-acks", "1")
    assert agent.json(*both, *arguments, "--require-acks", "2", code=3)["acks"] == 1


def test_required_acks_without_any_relay_exit_with_3(agent):
    assert "kept" in agent("remember", "k", "v", "--require-acks", "1", code=3).stdout


def test_required_acks_that_no_relay_is_asked_for_are_a_contradiction_and_nothing_is_written(agent, relay):
    agent("--relay", relay, "remember", "k", "v", "--require-acks", "1", "--wait", "0", code=2)

    assert agent.json("list") == []


def test_many_memories_count_as_acknowledged_when_each_one_is(agent, relay):
    stdin = "".join(f'{{"key": "k{n}", "value": "v"}}\n' for n in range(30))

    found = agent.json("--relay", relay, "remember", "--many", "-", "--require-acks", "1", stdin=stdin)

    assert (found["count"], found["acks"]) == (30, 1)
    assert found["relays"][0]["copy"]["states"] == {"acked": 30}


def test_a_command_works_while_another_store_holds_the_ledger_open(agent, nsec, home, relay):
    ledger = next((home / "keys").iterdir()).parent.parent / "shared.db"
    agent("--ledger", ledger, "remember", "a", "from the command line")

    async def beside():
        async with MemoryStore(LocalSigner.from_nsec(nsec), [relay], ledger=ledger) as store:
            await store.remember("b", "from the other process")
            done = await asyncio.to_thread(
                agent, "--ledger", ledger, "--relay", relay, "remember", "c", "meanwhile"
            )
            assert done.stdout == "kept · accepted by 1 relay\n"
            listed = await asyncio.to_thread(agent.json, "--ledger", ledger, "list")
            assert [m["key"] for m in listed] == ["a", "b", "c"]
            assert (await store.recall("c")).value == "meanwhile"

    asyncio.run(beside())


# ── The sentence ────────────────────────────────────────────────────────────────────────


def copies(url, state, problem=""):
    known = RelayStatus(url, is_local=False, last_complete=None)
    return Copies(known, states={state: 1}, total=1, problem=problem)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], "on this machine only: no relays are configured"),
        ([copies("wss://a", "acked"), copies("wss://b", "confirmed")], "accepted by 2 relays"),
        (
            [copies("wss://a", "acked"), copies("wss://b", "acked"), copies("wss://c", "queued", "gone")],
            "accepted by 2 of 3 relays, not yet by 1 (wss://c: gone)",
        ),
        (
            [copies("wss://a", "refused", "blocked")],
            "accepted by no relay yet, refused by 1 (wss://a: blocked)",
        ),
        (
            [
                copies("wss://a", "queued", "gone"),
                copies("wss://b", "queued", "late"),
                copies("wss://c", "refused", "no"),
            ],
            "accepted by no relay yet, not yet by 2, refused by 1\n  wss://a: gone\n  wss://b: late\n  wss://c: no",
        ),
    ],
)
def test_the_sentence_says_who_has_it_who_waits_and_who_refuses(given, expected):
    assert sentence(given) == expected


def test_a_list_that_may_lack_what_relays_hold_says_so(agent, dead_relay):
    agent("remember", "here", "x")

    result = agent("--relay", dead_relay, "list")

    assert "here" in result.stdout
    assert result.stderr.startswith("incomplete: ")
    assert not agent("list").stderr  # without relays there is nothing to wait for


def test_a_name_that_is_not_there_brings_those_that_are_like_it(agent):
    agent("remember", "user_timezone", "v")
    agent("palace", "remember", "people/facts/lisa", "artist")

    assert agent("recall", "user_timezon", code=4).stderr.endswith(". Did you mean user_timezone?\n")
    for command in ("recall", "show", "forget"):
        for typed, meant in (("people/facts/lsia", "people/facts/lisa"), ("lissa", "lisa")):
            told = agent("palace", command, typed, code=4).stderr
            assert told.endswith(
                f"no memory under '{typed}' (no relays are configured). Did you mean {meant}?\n"
            )


def test_capital_letters_and_separators_do_not_hide_the_name_that_was_meant(agent):
    """Other programs, whose memories are imported, write names in their own way."""
    agent("palace", "remember", "people/person/Lisa", "artist")
    agent("palace", "remember", "people/person/Emil_Brandt", "seven")

    for typed, meant in (
        ("people/person/lisa", "people/person/Lisa"),
        ("PEOPLE/PERSON/LISA", "people/person/Lisa"),
        ("LISA", "Lisa"),
        ("emil brandt", "Emil_Brandt"),
        ("emil-brandt", "Emil_Brandt"),
    ):
        assert agent("recall", typed, code=4).stderr.endswith(f". Did you mean {meant}?\n")
