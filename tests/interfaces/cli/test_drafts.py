"""`drafts` and `refresh` on the command line."""

from __future__ import annotations

import asyncio
import time

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError


@pytest.fixture
def draft(agent, home):
    """A draft of the agent, made while its clock was a day behind."""
    agent("remember", "k", "before")
    (ledger,) = (home / "ledgers").glob("*.db")

    async def write():
        signer = LocalSigner.from_hex("01" * 32)
        behind = time.time() - 86_400
        async with MemoryStore(signer, ledger=ledger, background=False, clock=lambda: behind) as store:
            with pytest.raises(ClockSkewError):
                await store.remember("k", "after\x1b[31m")

    asyncio.run(write())
    return agent


def test_a_draft_is_shown_with_its_text_escaped(draft):
    shown = draft("drafts").stdout
    assert shown.startswith("draft 1, for k, written 1 day")
    assert "after" in shown
    assert "\x1b" not in shown
    assert shown.endswith(
        "\n\nPublish a draft with `sense-memory drafts --publish N`, or discard it with "
        "`sense-memory drafts --discard N`.\n"
    )
    (found,) = draft.json("drafts")
    assert (found["number"], found["key"], found["value"]) == (1, "k", "after\x1b[31m")


def test_status_says_that_there_are_drafts(draft):
    assert "\n        1 draft, in no memory; see: sense-memory drafts\n" in draft("status").stdout
    assert draft.json("status")["counts"]["drafts"] == 1
    draft("drafts", "--discard", "1")
    assert "draft" not in draft("status").stdout


def test_a_draft_is_published(draft):
    assert draft("drafts", "--publish", "1").stdout.startswith("published draft 1")
    assert draft.json("recall", "k")["value"] == "after\x1b[31m"
    assert draft.json("drafts") == []


def test_a_draft_is_discarded(draft):
    assert draft.json("drafts", "--discard", "1") == {"discarded": 1}
    assert draft("drafts").stdout == ""
    assert draft.json("recall", "k")["value"] == "before"


@pytest.mark.parametrize("option", ["--publish", "--discard"])
def test_an_unknown_draft_is_not_found(agent, option):
    assert agent("drafts", option, "7", code=4).stdout == ""


def test_publish_and_discard_contradict_each_other(draft):
    draft("drafts", "--publish", "1", "--discard", "1", code=2)
    assert len(draft.json("drafts")) == 1


def test_refresh_keeps_text_and_time(agent):
    before = agent.json("remember", "k", "v")
    value = agent.json("recall", "k")
    after = agent.json("refresh", "k")
    assert after["event_id"] != before["event_id"]
    assert agent.json("recall", "k") == {**value, "event_id": after["event_id"]}
    assert "refreshed k" in agent("refresh", "k").stdout
    agent("refresh", "unknown", code=4)


def test_a_text_that_another_device_forgot_unseen_is_shown_with_the_reason_and_can_be_published(
    agent, tmp_path
):
    old, new = "people/facts/home", "people/facts/moved"
    agent("remember", "k", "unseen")
    agent("remember", new, "Orla keeps goats.")
    agent("remember", old, "Orla lives in Lisbon.")
    agent("palace", "contradict", old, new)

    async def forget_elsewhere():
        later = time.time() + 60
        signer = LocalSigner.from_hex("01" * 32)
        async with MemoryStore(signer, ledger=":memory:", background=False, clock=lambda: later) as other:
            await other.forget("k")
            await other.persona_forget(*old.split("/"))
            other.export(tmp_path / "other.jsonl")

    asyncio.run(forget_elsewhere())
    agent("import", tmp_path / "other.jsonl")

    assert "another device forgot the memory before it saw this text:\nunseen" in agent("drafts").stdout
    flat, palace = sorted(agent.json("drafts"), key=lambda draft: draft["path"])
    assert flat["reason"] == "another device forgot the memory before it saw this text"
    agent("drafts", "--publish", str(flat["number"]))
    assert agent("recall", "k").stdout == "unseen\n"
    assert agent("drafts", "--publish", str(palace["number"])).stdout.endswith(
        f"\nIt is marked as superseded by {new}.\nIf both are right: sense-memory palace reconcile {old} {new}\n"
    )
    assert agent.json("drafts") == []
