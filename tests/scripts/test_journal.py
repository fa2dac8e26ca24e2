from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from time import time

import pytest

from sense_memory import SyncMemoryStore


DEAD = "ws://127.0.0.1:9"  # the discard port: nobody listens there


def told(out):
    """The entries among what was printed."""
    return re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d  (.*)$", out, flags=re.MULTILINE)


async def test_lines_are_kept_until_an_empty_one_and_sent_at_the_end(agent, relays, monkeypatch):
    async with relays(1) as (url,):
        monkeypatch.setenv("SENSE_MEMORY_RELAYS", url)

        done = await agent.run("journal.py", stdin="Met Lisa.\n  She teaches printmaking.  \n\nnot this\n")

        assert (done.code, done.err) == (0, "")
        assert done.out == f"2 written.\n{url}: in step\n"
        async with agent.store(url) as elsewhere:
            assert [entry.content for entry in await elsewhere.recent()] == [
                "She teaches printmaking.",
                "Met Lisa.",
            ]


async def test_the_last_entries_are_shown_first_oldest_on_top(agent):
    await agent.run("journal.py", stdin="\n".join(f"entry {number}" for number in range(7)))

    done = await agent.run("journal.py")

    assert told(done.out) == [f"entry {number}" for number in range(2, 7)]
    assert told((await agent.run("journal.py", "--recent", "2")).out) == ["entry 5", "entry 6"]
    assert told((await agent.start("journal.py", "--recent", "0")).out) == []


async def test_entries_since_a_time_are_shown_all(agent):
    now, days = time(), 0
    ledger = agent.home / "ledgers" / f"{agent.signer.npub}.db"
    with SyncMemoryStore(agent.signer, ledger=ledger, clock=lambda: now - days * 86_400) as store:
        for days in (40, 3, 0):
            store.journal(f"{days} days ago")
    yesterday = f"{datetime.now(UTC).astimezone() - timedelta(days=1):%Y-%m-%dT%H:%M}"

    for since, expected in (
        ("1000w", ["40 days ago", "3 days ago", "0 days ago"]),
        ("4d", ["3 days ago", "0 days ago"]),
        ("12h", ["0 days ago"]),
        (yesterday, ["0 days ago"]),
    ):
        assert told((await agent.run("journal.py", "--since", since)).out) == expected


@pytest.mark.parametrize("since", ["3x", "tomorrow", "2027-13-01", "999999w"])
async def test_a_time_that_is_none_is_wrong_usage(agent, since):
    done = await agent.run("journal.py", "--since", since, stdin="entry\n")

    assert done.code == 2
    assert "is not a time; try 2027-01-15, 12h or 3d" in done.err


async def test_offline_it_works_and_says_what_waits(agent, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", DEAD)

    done = await agent.run("journal.py", stdin="written on a train\n")

    assert (done.code, done.err) == (0, "")
    first, second, third = done.out.splitlines()
    assert first == "There are no entries here yet, and no relay could be asked."
    assert second == "1 written."
    assert re.fullmatch(rf"{DEAD}: .+; it gets the rest next time", third)
    assert told((await agent.run("journal.py")).out) == ["written on a train"]


async def test_without_relays_it_says_where_the_entries_are(agent):
    done = await agent.run("journal.py", stdin="entry")

    assert done.out == "1 written.\nNo relays are configured: the journal is on this machine only.\n"


async def test_an_entry_can_not_steer_the_terminal(agent):
    await agent.run("journal.py", stdin="red \x1b[31m bidi \u202e 東京\n")

    assert told((await agent.run("journal.py")).out) == ["red \\u001b[31m bidi \\u202e 東京"]


async def test_a_missing_key_is_one_sentence(agent):
    (agent.home / "keys" / "default.key").unlink()

    done = await agent.run("journal.py", stdin="entry\n")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: no secret key yet; make one with `sense-memory init`")
    assert done.err.count("\n") == 1


async def test_help(agent):
    done = await agent.run("journal.py", "--help")

    assert done.code == 0
    for word in ("--since", "--recent", "--agent", "Ctrl-D"):
        assert word in done.out
