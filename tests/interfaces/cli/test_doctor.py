from __future__ import annotations

import asyncio
import re
import sqlite3
import time

import pytest

from sense_memory import Holding, LocalSigner, MemoryStore
from sense_memory.interfaces.cli import doctor
from sense_memory.interfaces.cli.doctor import CheckState, check_clock, check_holding
from sense_memory.relay.sync.walk import HIDDEN


def states(found):
    """By check its state; what SQLite this machine has is a test of its own."""
    return {check["name"]: check["state"] for check in found["checks"]}


def finding(found, name):
    return "\n".join(check["finding"] for check in found["checks"] if check["name"] == name)


@pytest.fixture
def ledger(agent, home):
    """The agent's ledger, with a memory in it."""
    agent("remember", "k", "v")
    (path,) = (home / "ledgers").glob("*.db")
    return path


def test_a_healthy_local_agent_is_ok_but_warned_that_there_is_no_copy(agent, ledger, home):
    found = agent.json("doctor")

    assert found["ok"] is True
    assert states(found) == {"key": "ok", "ledger": "ok", "relays": "warn", "clock": "ok"}
    assert f"from the key file {home / 'keys' / 'default.key'}, mode 0600" in finding(found, "key")
    assert f"{ledger}, 1 event, all sound, mode 0600" in finding(found, "ledger")


def test_the_table_has_a_line_for_each_check(agent, ledger, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")

    lines = agent("doctor").stdout.splitlines()

    assert [line.split()[:2] for line in lines[1:] if not line.startswith("sqlite")] == [
        ["key", "ok"],
        ["ledger", "ok"],
        ["relays", "warn"],
        ["clock", "ok"],
    ]


def test_what_people_copy_is_whole_in_a_pipe_whatever_the_width(agent, ledger, home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    npub = agent.json("status")["npub"]

    shown = agent("doctor").stdout

    assert f"{npub}, from the key file {home / 'keys' / 'default.key'}, mode 0600\n" in shown
    assert f"{ledger}, 1 event, all sound, mode 0600\n" in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_a_relay_in_step_is_ok_and_says_what_it_is(agent, ledger, relay):
    agent("--relay", relay, "sync")

    found = agent.json("--relay", relay, "doctor")

    assert states(found)[relay] == "ok"
    for fact in ("reachable", "sense-memory", "NIPs 1 9 11", "262,144", "last complete pull", "not a backup"):
        assert fact in finding(found, relay)
    assert states(found)["backup"] == "warn"


def test_a_relay_that_is_down_fails_and_so_does_doctor(agent, ledger, relay, dead_relay):
    found = agent.json("--relay", relay, "--relay", dead_relay, "doctor", code=1)

    assert found["ok"] is False
    assert states(found)[dead_relay] == "fail"
    assert finding(found, dead_relay) == "refused the connection"
    assert states(found)[relay] == "warn"
    assert "never showed everything" in finding(found, relay)
    agent("--relay", dead_relay, "doctor", code=1)


def test_a_relay_whose_messages_are_too_small_for_our_largest_event_is_warned_about(
    agent, ledger, start_relay
):
    small, enough = start_relay(max_message_bytes=65_545), start_relay(max_message_bytes=65_546)
    agent("--relay", small, "--relay", enough, "sync")

    found = agent.json("--relay", small, "--relay", enough, "doctor")

    assert states(found)[small] == "warn"
    assert "takes messages of 65,545 bytes at most, and our largest event has 65,536" in finding(found, small)
    assert states(found)[enough] == "ok"


def test_a_relay_without_an_information_document_is_reachable_all_the_same(
    agent, ledger, refusing_relay, monkeypatch
):
    monkeypatch.setattr(doctor, "DOUBT_SECONDS", 0.2)
    agent("--relay", refusing_relay, "sync", code=3)

    found = agent.json("--relay", refusing_relay, "doctor")

    assert "says nothing about itself" in finding(found, refusing_relay)
    assert "blocked (1)" in finding(found, refusing_relay)


def test_a_missing_key_fails_and_relays_are_checked_nevertheless(cli, relay):
    found = cli.json("--relay", relay, "doctor", code=1)

    assert states(found) == {"key": "fail", relay: "ok", "clock": "ok"}
    assert "sense-memory init" in finding(found, "key")


def test_a_key_file_that_others_can_read_fails_with_the_command_that_mends_it(agent, home):
    (home / "keys" / "default.key").chmod(0o644)

    assert "chmod 600" in finding(agent.json("doctor", code=1), "key")


def test_a_key_in_the_environment_is_warned_about(agent, nsec, monkeypatch):
    monkeypatch.setenv("NOSTR_NSEC", nsec)

    found = agent.json("doctor")

    assert states(found)["settings"] == "warn"
    assert "can read NOSTR_NSEC in the environment" in finding(found, "settings")


def test_a_ledger_that_others_could_read_is_warned_about(agent, ledger):
    ledger.chmod(0o644)

    assert "others could read the ledger (mode 0644)" in finding(agent.json("doctor"), "ledger")


def test_an_altered_event_fails(agent, ledger):
    with sqlite3.connect(ledger) as db:
        (body,) = db.execute("SELECT body FROM events").fetchone()
        at = body.index(b'"sig":"') + 7
        forged = body[:at] + (b"0" if body[at : at + 1] != b"0" else b"1") + body[at + 1 :]
        db.execute("UPDATE events SET body = ?", (forged,))
    db.close()

    found = agent.json("doctor", code=1)

    assert states(found)["ledger"] == "fail"
    assert "does not verify" in finding(found, "ledger")


def test_a_file_that_is_no_ledger_fails(agent, tmp_path):
    (tmp_path / "x.db").write_text("not a database, but long enough to look at\n" * 100)

    assert states(agent.json("--ledger", tmp_path / "x.db", "doctor", code=1))["ledger"] == "fail"


def test_without_a_ledger_none_is_made(agent, tmp_path):
    found = agent.json("--ledger", tmp_path / "x.db", "doctor")

    assert "does not exist yet" in finding(found, "ledger")
    assert not (tmp_path / "x.db").exists()


def test_memories_dated_ahead_of_this_clock_are_a_hint_about_clocks(agent, nsec, relay, tmp_path):
    async def ahead():
        signer, later = LocalSigner.from_nsec(nsec), lambda: time.time() + 700
        async with MemoryStore(
            signer, [relay], ledger=tmp_path / "ahead.db", background=False, clock=later
        ) as store:
            await store.remember("k", "v")
            assert (await store.sync()).in_step

    asyncio.run(ahead())
    agent("--relay", relay, "sync")

    assert "check the clocks" in finding(agent.json("--relay", relay, "doctor"), "clock")
    assert "check the clocks" in agent("--relay", relay, "status").stdout


def test_a_clock_from_before_this_program_fails():
    found = check_clock(None, 1_000_000_000.0)
    assert found.state is CheckState.FAIL
    assert found.finding.startswith("this clock reads 2001-09-09 ")


def test_the_clock_is_shown_to_be_compared_with_another(agent, ledger):
    shown = finding(agent.json("doctor"), "clock")

    assert re.fullmatch(r"reads \d{4}-\d\d-\d\d \d\d:\d\d, and nothing here is dated later", shown)


# ── The SQLite library ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [(3, 40, 1), (3, 51, 2), (3, 51, 3)])
def test_l05_no_sqlite_is_warned_about_because_none_can_damage_a_ledger(agent, ledger, monkeypatch, version):
    """No checkpoint runs beside a writer, so nobody is sent to update what most cannot: see tests/ledger."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)

    assert "sqlite" not in {check["name"] for check in agent.json("doctor")["checks"]}


# ── What relays hold ────────────────────────────────────────────────────────────────────


def test_what_a_relay_holds_stands_below_it_with_what_to_do(agent, ledger, relay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    before = agent("--relay", relay, "doctor").stdout
    agent("--relay", relay, "sync")
    after = agent("--relay", relay, "doctor").stdout

    assert "\n  holds" in before
    assert "warn  says it lacks 1 of the 1 event here: run `sense-memory sync`" in before
    assert (
        "ok    says it holds 1 memory and 0 journal entries, in the 1 event that belongs there, exactly"
        in after
    )


def test_doctor_as_json_has_the_numbers(agent, ledger, relay, dead_relay):
    agent("--relay", relay, "sync")
    agent("remember", "later", "v")

    found = agent.json("--relay", relay, "--relay", dead_relay, "doctor", code=1)

    held, down = found["relays"]
    assert held["holding"] == {
        "method": "negentropy",
        "here": 2,
        "there": 1,
        "missing_there": 1,
        "missing_here": 0,
        "problem": None,
    }
    assert (held["url"], held["problem"]) == (relay, None)
    assert down["url"] == dead_relay
    assert (down["holding"]["method"], down["holding"]["there"]) == ("unknown", None)
    assert down["problem"] == "refused the connection"
    assert states(found)[f"holds {relay}"] == "warn"
    assert f"holds {dead_relay}" not in states(found)  # its own line says what is wrong with it


def test_doctor_changes_neither_relay_nor_ledger(agent, ledger, relay, tmp_path):
    agent("--relay", relay, "sync")
    agent("remember", "later", "v")

    agent("--relay", relay, "doctor")

    assert agent.json("--relay", relay, "status")["relays"][0]["events"] == {"acked": 1}
    (report,) = agent.json("--relay", relay, "--ledger", tmp_path / "other.db", "sync")["relays"]
    assert report["sync"]["served"] == {"new": 1}


@pytest.mark.parametrize(
    ("holding", "state", "words"),
    [
        (Holding("u", "negentropy", 36, 36, 0, 0), "ok", "says it holds the 36 events that belong there, exactly"),
        (Holding("u", "negentropy", 1, 1, 0, 0), "ok", "says it holds the 1 event that belongs there, exactly"),
        (Holding("u", "negentropy", 36, 33, 3, 0), "warn", "says it lacks 3 of the 36 events here: run `sense-memory sync`"),
        (Holding("u", "negentropy", 36, 38, 0, 2), "warn", "says it holds 2 that are not here: run `sense-memory sync`"),
        (Holding("u", "negentropy", 36, 35, 3, 2), "warn", "says it lacks 3 of the 36 events here and holds 2 that"),
        (Holding("u", "count", 36, 36, 0, 0), "ok", "counts 36 events, as many as belong there"),
        (Holding("u", "count", 36, 40, 0, 4), "ok", "counts 40 events, at least 4 more than belong there"),
        (Holding("u", "count", 36, 33, 3, 0), "warn", "at least 3 of the 36 events here are missing: run `sense-memory sync --full`"),
        (Holding("u", "negentropy", 0, 0, 0, 0), "warn", "If you restored an agent, check whether this is its key"),
        (Holding("u", "count", 0, 0, 0, 0), "warn", "its relay: it says it holds nothing of this key"),
        (Holding("u", "unknown", 36), "ok", "only `sense-memory sync --full` shows whether it has"),
        (Holding("u", "unknown", 36, problem="went silent"), "warn", "could not be asked what it holds: went silent"),
        (Holding("u", "negentropy", 36, 36, 0, 0, HIDDEN), "warn", f"says it holds the 36 events that belong there, exactly; {HIDDEN}"),
        (Holding("u", "negentropy", 0, 5, 0, 5, HIDDEN), "warn", f"says it holds 5 that are not here: run `sense-memory sync`; {HIDDEN}"),
        (Holding("u", "count", 36, 34, 2, 0, HIDDEN), "warn", f"run `sense-memory sync --full`; {HIDDEN}"),
        (Holding("u", "negentropy", 0, 0, 0, 0, HIDDEN), "warn", f"could not be asked what it holds: {HIDDEN}"),
    ],
)  # fmt: skip
def test_a_holding_in_words(holding, state, words):
    check = check_holding(holding)

    assert (check.name, check.state) == ("holds u", state)
    assert words in check.finding


def test_a_silent_relay_does_not_hold_up_the_doctor(agent, ledger, silent_relay, monkeypatch):
    monkeypatch.setattr(doctor, "DOUBT_SECONDS", 0.2)

    found = agent.json("--relay", silent_relay, "doctor")

    assert "can neither compare nor count" in finding(found, f"holds {silent_relay}")
