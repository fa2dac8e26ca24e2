from __future__ import annotations

import json
import re

import pytest

from relays.faults import ForgetAfterAck, Refuse
from sense_memory import RelayReport, RelayStatus, Status
from sense_memory.interfaces.cli.sync import outcome, survival
from sense_memory.ledger.relays import Remark, remark_sentence
from sense_memory.relay.sync.walk import HIDDEN, PullResult


pytestmark = pytest.mark.usefixtures("whole_seconds")


# ── sync ────────────────────────────────────────────────────────────────────────────────


def test_sync_sends_what_waits_and_exits_with_0_when_all_is_in_step(agent, relay):
    agent("remember", "k", "v")

    result = agent("--relay", relay, "sync")

    header, row, _, line = result.stdout.splitlines()
    assert header.split() == ["relay", "new", "known", "sent", "waiting", "time"] or "waiting" not in header
    assert row.split()[:4] == [relay, "0", "0", "1"]
    assert line == f"{relay}: in step: nothing to send or fetch (this machine: not a backup)"


def test_a_restored_key_of_which_relays_hold_nothing_is_doubted_until_something_is_written(agent, relay):
    doubt = (
        "\nIf you restored an agent, check whether this is its key, and whether this is its relay: "
        f"the relay holds nothing of {agent.json('status')['npub']}, and neither does this ledger.\n"
    )
    assert agent("--relay", relay, "sync").stdout.endswith(doubt)
    agent("remember", "k", "v")
    assert "If you restored" not in agent("--relay", relay, "sync").stdout


def test_sync_as_json_has_every_number(agent, relay):
    agent("remember", "k", "v")

    found = agent.json("--relay", relay, "sync")

    assert (found["in_step"], found["complete"]) == (True, True)
    (report,) = found["relays"]
    assert (report["events"], report["memories"], report["promised"]) == ({"acked": 1}, 0, 1)
    assert (report["sync"]["sent"], report["sync"]["waiting"]) == ({"accepted": 1}, 0)


def test_another_machine_with_the_same_key_gets_everything(agent, relay, tmp_path):
    agent("--relay", relay, "remember", "k", "v")
    other = ("--relay", relay, "--ledger", tmp_path / "other.db")

    assert agent.json(*other, "sync")["relays"][0]["sync"]["served"] == {"new": 1}
    assert agent(*other, "recall", "k").stdout == "v\n"
    assert agent.json(*other, "sync", "--full")["relays"][0]["sync"]["in_step"]


def test_a_first_sync_rests_on_one_relay_and_says_so_once(agent, relay, start_relay, dead_relay):
    agent("--relay", relay, "remember", "k", "v")
    told = (
        "\nThis ledger was empty, and one relay answered: everything that it shows is here, by trust on first use. A second "
        "relay would show what this one has lost or left out; add one with `sense-memory --ledger one.db relays add wss://relay.example`, then sync again.\n"
    )
    one = ("--relay", relay, "--ledger", "one.db")
    assert agent(*one, "sync").stdout.endswith(told)
    assert "one relay answered" not in agent(*one, "sync").stdout

    two = ("--relay", relay, "--relay", dead_relay, "--ledger", "two.db")
    assert "left out; sync again when the others answer." in agent(*two, "sync", code=3).stdout

    three = ("--relay", relay, "--relay", start_relay(), "--ledger", "three.db")
    assert "one relay answered" not in agent(*three, "sync").stdout
    assert [
        agent.json(*ledger, "sync")["first"] for ledger in (three, ("--relay", relay, "--ledger", "four.db"))
    ] == [
        False,
        True,
    ]


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
    assert [report["sync"]["in_step"] for report in found["relays"]] == [True, False]
    assert found["relays"][1]["problem"] == "refused the connection"


def test_a_relay_that_refuses_makes_sync_exit_with_3_now_and_later(agent, refusing_relay):
    agent("remember", "k", "v")

    result = agent("--relay", refusing_relay, "sync", code=3)

    assert "refused" in result.stdout.splitlines()[0]
    assert f"{refusing_relay}: blocked (1)" in result.stdout
    assert "\x1b" not in result.stdout
    assert agent.json("--relay", refusing_relay, "sync", code=3)["in_step"] is False


def test_status_and_sync_name_the_remedy_for_what_was_refused_by_an_earlier_command(agent, faulty_relay):
    refuses = faulty_relay(Refuse("blocked: no", lambda event: event["kind"] == 4))
    agent("--relay", refuses, "remember", "k", "v")
    assert "retry-refused" not in agent("--relay", refuses, "status").stdout
    agent("--relay", refuses, "journal", "dear diary")
    remedy = (
        "Once the limits or rules of the relay have changed, try `sense-memory sync --retry-refused`: "
        "1 refused event is not sent again."
    )
    shown = agent("--relay", refuses, "status").stdout
    assert f"{refuses}: blocked (1)\n{remedy}\n" in shown
    told = agent("--relay", refuses, "sync", code=3).stdout
    assert told.endswith(f"{refuses}: blocked (1)\n{remedy}\n")  # to try again later would not help


def test_what_a_relay_refused_is_sent_again_only_to_whoever_asks_for_it(agent, refusing_relay):
    agent("--relay", refusing_relay, "remember", "k", "v")
    for options, sent in (((), {}), (("--full",), {}), (("--retry-refused",), {"refused": 1})):
        found = agent.json("--relay", refusing_relay, "sync", *options, code=3)
        assert found["relays"][0]["sync"]["sent"] == sent
        assert found["relays"][0]["events"] == {"refused": 1}
    assert "--retry-refused" in agent("sync", "--help").stdout


def written_on_two_devices(agent, relay, memories):
    """Two ledgers of one agent: the first wrote some memories that no relay has, the other then wrote over each.

    Versions of one key lie a second apart, so the third is later than whatever was written before it.
    """
    one, two = ("--ledger", "one.db"), ("--relay", relay, "--ledger", "two.db")
    text = {value: json.dumps(dict.fromkeys(memories, value)) for value in ("theirs", "mine", "more", "most")}
    agent(*two, "remember", "--many", "-", stdin=text["theirs"])
    agent(*one, "remember", "--many", "-", stdin=text["mine"])
    for value in ("more", "most"):
        agent(*two, "remember", "--many", "-", stdin=text[value])
    return ("--relay", relay, *one)


def test_sync_names_what_was_written_here_and_lost_against_another_device(agent, relay):
    keys = [f"k{number}" for number in range(7)]
    agent("--ledger", "one.db", "remember", "gone", "mine")
    one = written_on_two_devices(agent, relay, keys)
    agent("--ledger", "one.db", "remember", "untouched", "mine")
    agent("--relay", relay, "--ledger", "two.db", "forget", "gone", "--anyway")

    shown = agent(*one, "sync").stdout

    assert shown.endswith(
        "\n7 memories were edited on another device too, and the edit made there is the current text: "
        "k0, k1, k2, k3, k4, k5, k6. What was written here is kept: see `sense-memory --ledger one.db history k0` (and so on). "
        "1 memory was forgotten by another device, which had not seen the text of this one: gone. "
        "What was written here is kept: see `sense-memory --ledger one.db drafts`.\n"
    )
    agent(*one, "history", "gone", code=4)
    assert agent(*one, "drafts").stdout.startswith("draft 1, for gone, written ")
    assert agent(*one, "recall", "k0").stdout == "most\n"
    assert "mine" in [version["value"] for version in agent.json(*one, "history", "k0")]
    assert "edited" not in agent(*one, "sync").stdout


def test_sync_names_what_was_forgotten_here_and_written_again_on_another_device(agent, relay):
    one, two = ("--ledger", "one.db"), ("--relay", relay, "--ledger", "two.db")
    path = "people/facts/secret"
    for name in (path, "pin"):
        agent(*two, "remember", name, "old")
    agent("--relay", relay, *one, "sync")
    agent(*one, "forget", path, "pin")
    for value in ("new", "newer"):  # versions lie a second apart, and the second is later than the tombstone
        agent(*two, "remember", path, value)
        agent(*two, "remember", "pin", value)

    shown = agent("--relay", relay, *one, "sync").stdout
    assert shown.endswith(
        "\n2 memories were written again on another device after being forgotten: people/facts/secret, pin. "
        "To forget it again: `sense-memory --ledger one.db forget NAME`.\n"
    )
    told = agent.json("--relay", relay, *one, "sync")
    assert (told["overruled"], told["written_again"]) == ([], [])


def test_sync_names_the_command_that_shows_an_edit_of_a_block_that_lost(agent, relay):
    one, two = ("--relay", relay, "--ledger", "one.db"), ("--relay", relay, "--ledger", "two.db")
    agent(*two, "mind", "blocks", "set", "human", "theirs")
    agent("--ledger", "one.db", "mind", "blocks", "set", "human", "mine")
    for value in ("more", "most"):
        agent(*two, "mind", "blocks", "set", "human", value)
    shown = agent(*one, "sync").stdout
    assert (
        "mind/block/human. What was written here is kept: see `sense-memory --ledger one.db mind blocks history human`."
        in shown
    )
    assert "mine" in [block["value"] for block in agent.json(*one, "mind", "blocks", "history", "human")]


def test_sync_as_json_names_all_that_lost_and_the_palace_too(agent, relay):
    one, two = ("--ledger", "one.db"), ("--relay", relay, "--ledger", "two.db")
    one = written_on_two_devices(agent, relay, [f"k{number}" for number in range(7)])
    path = "people/facts/lisa"
    agent(*two, "palace", "remember", path, "theirs")
    agent("--ledger", "one.db", "palace", "remember", path, "mine")
    for value in ("more", "most"):
        agent(*two, "palace", "remember", path, value)

    assert agent.json(*one, "sync")["overruled"] == [*(f"k{number}" for number in range(7)), path]
    assert agent(*one, "palace", "recall", path).stdout == "most\n"
    assert agent.json(*one, "sync")["overruled"] == []


def test_sync_tells_the_device_whose_edit_counts_too_and_names_the_copy(agent, relay):
    path = "people/facts/lisa"
    one, two = (("--relay", relay, "--ledger", f"{name}.db") for name in ("one", "two"))
    agent(*one, "remember", path, "both know this")
    agent(*two, "sync")
    agent("--ledger", "one.db", "remember", path, "loser")
    for text in ("between", "winner"):  # versions lie a second apart, and the second is later than the loser
        agent(*two, "remember", path, text)
    agent(*one, "sync")
    told = agent(*two, "sync").stdout

    (copy,) = re.findall(r"kept: (people/facts/lisa~conflict-\w{8})\.\n", told)
    assert (
        "1 memory was edited on another device too, and the edit made here is the current text. The text of the other device is kept: "
        in told
    )
    shown = agent("--ledger", "two.db", "history", path).stdout
    assert f"  + winner\n  in conflict with {copy}\n" in shown
    assert f"  merged with {copy}\n" in shown
    assert f"  + loser\n  in conflict with {path}\n" in agent("--ledger", "two.db", "history", copy).stdout
    assert agent.json(*one, "sync")["conflicts"] == []


def test_an_edit_that_lost_is_marked_wherever_its_text_is_shown(agent, relay):
    path = "people/facts/lisa"
    one, two = (("--relay", relay, "--ledger", f"{name}.db") for name in ("one", "two"))
    agent(*one, "remember", path, "Lisa is an artist.")
    agent(*two, "sync")
    agent("--ledger", "one.db", "remember", path, "Lisa teaches etching.")
    for text in ("between", "Lisa paints."):
        agent(*two, "remember", path, text)
    agent(*one, "sync")

    here = ("--ledger", "one.db")
    mark = f"an edit that lost to {path}"
    (copy,) = (known["path"] for known in agent.json(*here, "list", "--palace") if known["conflict_of"])
    for command in (("list", "--palace"), ("palace",)):
        assert f"\tLisa teaches etching.\t{mark}\n" in agent(*here, *command).stdout
        assert agent(*here, *command).stdout.count("an edit that lost") == 1
    assert f"\t[{mark}] Lisa teaches etching.\n" in agent(*here, "search", "etching").stdout
    assert "\t[an edit that lost to lisa] Lisa" in agent(*here, "palace", "search", "etching").stdout
    hits = agent.json(*here, "search", "Lisa")["hits"]
    assert {hit["path"]: hit["conflict_of"] for hit in hits} == {copy: path, path: None}
    recalled = agent(*here, "recall", copy)
    assert recalled.stdout == "Lisa teaches etching.\n"
    assert recalled.stderr == (
        f"{mark} on another device\nIf it is not needed: sense-memory --ledger one.db forget '{copy}'\n"
    )
    assert agent(*here, "recall", path).stderr == ""


def test_an_edit_that_relays_had_or_that_said_the_same_has_not_lost(agent, relay):
    one = written_on_two_devices(agent, relay, ["k"])
    agent.json(*one, "sync")
    agent("--relay", relay, "--ledger", "two.db", "remember", "k", "newer")
    assert agent.json(*one, "sync")["overruled"] == []

    agent("--ledger", "one.db", "remember", "k", "agreed")
    for value in ("x", "y", "agreed"):
        agent("--relay", relay, "--ledger", "two.db", "remember", "k", value)
    assert agent.json(*one, "sync")["overruled"] == []
    assert agent(*one, "recall", "k").stdout == "agreed\n"


def test_sync_without_relays_exits_with_2_and_a_hint(agent):
    assert "sense-memory relays add" in agent("sync", code=2).stderr
    assert agent.json("sync", code=2)["error"]["type"] == "NoRelays"


STATUS = RelayStatus("wss://a", is_local=False, last_complete=1.0, events={"acked": 1})


@pytest.mark.parametrize(
    ("report", "status", "expected"),
    [
        (RelayReport("wss://a"), STATUS, "in step: nothing to send or fetch"),
        (RelayReport("wss://a", problem="gone"), STATUS, "gone"),
        (RelayReport("wss://a", pulled=PullResult(("no EOSE",))), STATUS, "incomplete: no EOSE"),
        (
            RelayReport("wss://a", pulled=PullResult(("no EOSE",)), held_back=True),
            STATUS,
            "incomplete: no EOSE; nothing is sent until the relay has shown everything",
        ),
        (
            RelayReport("wss://a", pulled=PullResult((HIDDEN,), missing=2), reasons={"odd": 3}, refused=3),
            STATUS,
            f"incomplete: {HIDDEN}; 2 events that it had accepted are gone; sent again, and the next sync checks; odd (3)",
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
        "holds   0 memories and 0 journal entries\n        in 2 events: 1 tombstone, 1 deletion request\n"
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
        "embedder",
        "relays",
        "copies_elsewhere",
        "is_replicated",
        "summary",
        "scenes",
        "dated_ahead",
        "unflushed",
        "manifests",
        "copies",
        "bunker",
        "memories",
        "journal_entries",
        "drafts",
    }
    assert found["counts"]["heads"] == 1
    (line,) = found["relays"]
    assert (line["url"], line["is_local"], line["holds_all"]) == (relay, True, True)
    assert line["last_complete"].endswith("Z")


def test_status_counts_what_a_relay_has_of_the_memories_and_no_older_version(agent, relay, dead_relay):
    both = ("--relay", relay, "--relay", dead_relay)
    for value in ("1", "2", "3"):
        agent("--relay", relay, "remember", "a", value)
    agent("--relay", relay, "journal", "hello")
    agent("--relay", relay, "remember", "b", "x")
    agent("--relay", relay, "forget", "b")
    agent("--relay", relay, "sync")
    agent("--relay", relay, "remember", "d", "not shown yet")
    agent("remember", "c", "not sent")

    _, *rows = next(iter(agent(*both, "status").stdout.split("\n\n")[1:2])).splitlines()
    found = agent.json(*both, "status")

    told = [row.split()[:3] for row in rows if row.startswith("ws:")]
    assert told[:2] == [[relay, "2", "1"], [dead_relay, "0", "0"]]
    assert [(line["memories"], line["promised"]) for line in found["relays"]] == [(2, 1), (0, 0)]
    assert found["relays"][0]["events"]["confirmed"] > 2


def test_a_relay_that_keeps_nothing_is_not_in_step_and_holds_nothing(agent, faulty_relay):
    relay = faulty_relay(ForgetAfterAck())
    for key in ("k", "l"):
        agent("--relay", relay, "remember", key, "v")

    shown = agent("--relay", relay, "sync", code=3).stdout
    assert f"{relay}: 2 events that it had accepted are gone; sent again" in shown
    assert not agent.json("--relay", relay, "sync", "--full", code=3)["in_step"]
    line = agent.json("--relay", relay, "status")["relays"][0]
    assert (line["memories"], line["promised"], line["remarks"]) == (0, 2, [remark_sentence(Remark.LOST)])
    checks = {check["name"]: check for check in agent.json("--relay", relay, "doctor")["checks"]}
    assert remark_sentence(Remark.LOST) in checks[relay]["finding"]
    assert checks[relay]["state"] == "warn"


def test_a_relay_that_claims_to_have_newer_versions_is_not_believed(agent, faulty_relay):
    relay = faulty_relay(Refuse("replaced: have newer event"))

    said = agent("--relay", relay, "remember", "k", "v").stdout
    assert "another device" not in said
    assert "says it has a newer version" in said
    shown = agent("--relay", relay, "sync", code=3).stdout
    assert f"{relay}: says it has a newer version (1)" in shown
    assert agent.json("--relay", relay, "status")["relays"][0]["events"] == {"queued": 1}


def test_a_rate_limit_is_said_with_the_time_at_which_sending_goes_on(agent, faulty_relay):
    """By the write that meets it, by one that is never sent in the pause, by a sync that is asked for, and by status."""
    relay = faulty_relay(Refuse("rate-limited: slow down"))
    pause = r"sending goes on in (1 min|\d+ s): the relay limits the rate"

    assert re.search(pause, agent("--relay", relay, "remember", "k", "v").stdout)
    agent("forget", "k", "--relay", relay)
    assert re.search(pause, agent("--relay", relay, "remember", "later", "v").stdout)
    assert re.search(pause, agent("--relay", relay, "sync", "--full", code=3).stdout)
    assert re.search(pause, agent("--relay", relay, "status").stdout)
    for command, code in (("sync", 3), ("status", 0)):
        (line,) = agent.json("--relay", relay, command, code=code)["relays"]
        assert 0 < line["paused_seconds"] < 75
        assert not line["holds_all"]


def test_status_fits_a_terminal(agent, relay, terminal, tmp_path):
    ledger = tmp_path / "/".join(["a folder with a long name"] * 4) / "ledger.db"
    ledger.parent.mkdir(parents=True)
    for value in ("1", "2"):
        agent("--ledger", ledger, "remember", "a", value)
    agent("--ledger", ledger, "forget", "a")
    agent("--ledger", ledger, "remember", "a", "3")
    agent("--ledger", ledger, "remember", "a", "4")

    shown = re.sub(r"\x1b\[[\d;]*m", "", terminal("--ledger", str(ledger), "--relay", relay, "status"))

    assert max(map(len, shown.splitlines())) <= 80
    assert "".join(line[8:] for line in shown.splitlines()[1:6]).startswith(f"{ledger}"[:60])
    assert str(ledger) in agent("--ledger", ledger, "status").stdout  # whole in a pipe


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
    assert "in 8 events: 4 current, 2 older versions, 1 tombstone, 1 deletion request\n" in shown
    assert counts == {
        "heads": 4,
        "entries": 2,
        "logs": 0,
        "embeddings": 0,
        "files": 0,
        "address_keys": 0,
        "mind": 0,
        "manifests": 0,
        "events": 8,
        "older": 2,
        "tombstones": 1,
        "deletions": 1,
        "quarantined": 0,
        "drafts": 0,
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


def test_tables_in_a_pipe_have_no_blanks_at_the_ends_of_their_lines(agent, relay, dead_relay):
    agent("--relay", relay, "remember", "k", "v")
    agent("palace", "remember", "people/facts/lisa", "artist")
    relays = ("--relay", relay, "--relay", dead_relay)

    for command, code in ((["sync"], 3), (["status"], 0), (["doctor"], 1), (["palace", "show", "lisa"], 0)):
        shown = agent(*relays, *command, code=code).stdout
        assert shown == "".join(f"{line.rstrip()}\n" for line in shown.splitlines()), command


def test_status_and_doctor_say_in_the_same_words_what_a_relay_holds(agent, relay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    agent("--relay", relay, "remember", "k", "v")
    agent("--relay", relay, "journal", "hello")

    shown = agent("--relay", relay, "status").stdout

    assert "holds   1 memory and 1 journal entry\n" in shown
    assert re.search(rf"^relay +shown  accepted  waiting  last pull\n{relay} +0 +2 ", shown, re.MULTILINE)
    agent("--relay", relay, "sync")
    shown = agent("--relay", relay, "status").stdout
    assert re.search(rf"^relay +shown  waiting  last pull\n{relay} +2 ", shown, re.MULTILINE)
    told = agent("--relay", relay, "doctor").stdout
    assert "says it holds 1 memory and 1 journal entry, in the 2 events that belong there, exactly" in told
