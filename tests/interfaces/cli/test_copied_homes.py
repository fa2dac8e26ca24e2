"""Copied data folders, and a clock that was ahead for a moment, on the command line."""

from __future__ import annotations

import asyncio
import shutil
import time

from sense_memory import MemoryStore
from tests.inside import ledger_of


def test_three_containers_of_one_image_append_and_a_new_machine_reads_all_of_it(agent, relay, home, tmp_path):
    agent("relays", "add", relay)
    agent("mind", "log", "append", "in the image", "--kind", "x", "--actor", "me")
    agent("sync")
    shutil.copytree(home, tmp_path / "image")
    for number in range(3):
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "image", home)
        agent("mind", "log", "append", f"container {number}", "--kind", "x", "--actor", "me")
        agent("remember", f"people/facts/of-{number}", f"Container {number} wrote this.")

    agent("--ledger", tmp_path / "new.db", "sync")
    shown = agent("--ledger", tmp_path / "new.db", "mind", "log", "show").stdout
    assert [
        text for text in ("in the image", *(f"container {n}" for n in range(3))) if text not in shown
    ] == []


def test_two_homes_that_edit_one_memory_keep_both_texts(agent, relay, home, tmp_path, monkeypatch):
    agent("relays", "add", relay)
    agent("remember", "people/facts/lisa", "Lisa lives in Graz.")
    agent("sync")
    shutil.copytree(home, tmp_path / "copy")
    agent("remember", "people/facts/lisa", "Her phone is 555-1234.", "--wait", "0")
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "copy"))
    agent("remember", "people/facts/lisa", "She is allergic to nuts.", "--wait", "0")
    for folder in (home, tmp_path / "copy", home):
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(folder))
        agent("sync")

    for folder in (home, tmp_path / "copy"):
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(folder))
        shown = agent("list", "people").stdout
        assert "555-1234" in shown
        assert "allergic" in shown


def write(text, *, seconds_ago):
    """Write a palace memory, a flat one and a block, dated back, because the versions of one second are ordered by chance."""

    async def edit():
        def clock():
            return time.time() - seconds_ago

        async with MemoryStore.from_settings(relays=[], background=False, clock=clock) as store:
            await store.persona_remember("people", "facts", "zoe", text)
            await store.remember("user_timezone", text)
            if "human" not in {block.label for block in await store.mind.blocks.all()}:
                await store.mind.blocks.create("human")
            await store.mind.blocks.update("human", value=text)

    asyncio.run(edit())


def test_a_copy_whose_edit_counts_is_told_so_and_so_is_its_original(
    agent, relay, home, tmp_path, monkeypatch
):
    write("Zoe.", seconds_ago=90)
    agent("--relay", relay, "sync")
    original, copied = home, tmp_path / "copy"
    shutil.copytree(original, copied)
    write("Zoe one.", seconds_ago=60)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(copied))
    write("Zoe four.", seconds_ago=30)
    told = []
    for folder in (original, copied, original, copied):
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(folder))
        told.append(" ".join(agent("--relay", relay, "sync").stdout.split()))

    assert "edited on" not in told[0] + told[3]
    assert (
        "the edit made there is the current text: mind/block/human, people/facts/zoe, user_timezone."
        in told[2]
    )
    assert "the edit there counts" not in told[1]
    assert (
        "1 memory was edited on another device too, and the edit made here is the current text. The text of the other device is kept: "
        "people/facts/zoe~conflict-" in told[1]
    )
    assert (
        "2 memories were edited on another device too, and the edit made here is the current text: mind/block/human, user_timezone. The "
        "other text is in `sense-memory history user_timezone` and `sense-memory mind blocks history human`."
        in told[1]
    )
    assert agent("recall", "zoe").stdout == "Zoe four.\n"
    found = [(version["value"], bool(version["conflicts"])) for version in agent.json("history", "zoe")]
    assert ("Zoe one.", True) not in found
    assert ("Zoe four.", True) in found


def test_a_copy_names_a_text_of_its_original_that_lost_and_does_not_call_it_its_own(
    agent, relay, home, tmp_path, monkeypatch
):
    write("Zoe.", seconds_ago=90)
    agent("--relay", relay, "sync")
    copied, other = tmp_path / "copy", tmp_path / "other"
    shutil.copytree(home, copied)
    shutil.copytree(home / "keys", other / "keys")
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(other))
    agent("--relay", relay, "sync")
    write("Zoe two.", seconds_ago=30)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(home))
    write("Zoe one.", seconds_ago=60)
    for folder in (home, copied, other):
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(folder))
        agent("--relay", relay, "sync")
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(copied))
    told = agent("--relay", relay, "sync").stdout

    assert told.endswith(
        "\nOf 2 memories, another text was written under an id of this ledger, here before it was set back or on a copy of "
        "it: mind/block/human, user_timezone. The other text is in `sense-memory history user_timezone` and `sense-memory "
        "mind blocks history human`.\n"
    )
    assert agent.json("--relay", relay, "sync")["unclaimed"] == []


def test_a_clock_that_was_ahead_for_one_entry_stops_no_command(agent, nsec, relay, tmp_path):
    async def ahead():
        def later():
            return time.time() + 86_400

        async with MemoryStore.from_settings(relays=[], background=False, clock=later) as store:
            await store.mind.log.append("x", {"text": "said ahead"}, actor="me")

    asyncio.run(ahead())
    agent("relays", "add", relay)

    agent("mind", "log", "append", "said today", "--kind", "x", "--actor", "me")
    assert "kept" in agent("remember", "fresh", "a memory of today").stdout
    assert "forgotten here" in agent("forget", "fresh").stdout
    found = {check["name"]: check for check in agent.json("doctor")["checks"]}
    assert found["clock"]["state"] == "warn"
    assert "mind/log/" in found["clock"]["finding"]
    agent("--ledger", tmp_path / "new.db", "sync")
    shown = agent("--ledger", tmp_path / "new.db", "mind", "log", "show").stdout
    assert "said today" in shown
    assert "said ahead" in shown


def test_doctor_counts_the_entries_that_are_in_no_page(agent, nsec):
    async def append():
        store = MemoryStore.from_settings(relays=[], background=False)
        await store.__aenter__()
        await store.mind.log.append("x", {"text": "before the kill"}, actor="me")
        ledger_of(store).close()

    asyncio.run(append())

    found = {check["name"]: check for check in agent.json("doctor")["checks"]}
    assert found["log"]["finding"].startswith("1 entry is in no page yet")
