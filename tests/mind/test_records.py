"""The records of the mind, as another version of this program, or another program, may have written them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from tests.mind.chat.test_conversation import talk
from tests.mind.test_log import ME, opened


STRANGE = (None, True, 7, -1.5, "text", ["a", 7], {"a": 1}, [], "")
FIELDS = ("value", "limit", "version", "read_only", "ts", "tags", "topics", "content", "summary", "covered", "message_ids",
          "covered_count", "upto", "roles", "sketch", "priority", "status", "text", "keys", "members", "id", "relays")  # fmt: skip
PATHS = (
    "block/human",
    "archive/0123456789abcdef",
    "topic/t",
    "identity",
    "objective/o",
    "conversation/c1",
    "scene/s",
)


@pytest.mark.parametrize("value", STRANGE, ids=repr)
async def test_a_field_of_another_type_counts_as_absent(value):
    async with opened() as store:
        mind = store.mind
        await mind.records.write({f"mind/{path}": dict.fromkeys(FIELDS, value) for path in PATHS})
        assert {block.label for block in await mind.blocks.all()} == {"persona", "human"}
        assert len(await mind.archive.all()) == 1
        assert [topic.name for topic in await mind.topics.all()]
        assert await mind.identity.get()
        assert len(await mind.identity.objectives(status=None)) == 1
        assert await talk(store).in_context() == []
        assert await mind.scenes.all() == []
        assert await mind.search("text") is not None
        assert await mind.blocks.compile()


# ── Two at once ─────────────────────────────────────────────────────────────────────────


class Slow(LocalSigner):
    """A signer that is elsewhere: whoever encrypts lets others go first."""

    async def encrypt(self, plaintext, recipient):
        await asyncio.sleep(0)
        return await super().encrypt(plaintext, recipient)


@asynccontextmanager
async def two_processes(folder):
    """Two stores on one ledger, as two processes have them."""
    options = {"ledger": folder / "a.db", "background": False, "snapshot": False}
    async with (
        MemoryStore(Slow.from_hex(ME), **options) as one,
        MemoryStore(Slow.from_hex(ME), **options) as two,
    ):
        yield one.mind, two.mind


async def test_lines_that_two_processes_append_to_a_block_at_once_are_all_there(tmp_path):
    async with two_processes(tmp_path) as minds:
        await asyncio.gather(
            *(
                mind.blocks.memory_append("human", f"{name} {number}")
                for number in range(5)
                for name, mind in zip("ab", minds, strict=True)
            )
        )
        for mind in minds:
            block = await mind.blocks.get("human")
            assert sorted(block.value.splitlines()) == sorted(
                f"{name} {number}" for number in range(5) for name in "ab"
            )
            assert block.version == 10


async def test_a_block_that_two_processes_create_at_once_is_created_once(tmp_path):
    async with two_processes(tmp_path) as (one, two):
        done = await asyncio.gather(
            one.blocks.create("rules", "be kind"),
            two.blocks.create("rules", "be quick"),
            return_exceptions=True,
        )
        assert [type(found).__name__ for found in done] == ["Block", "InvalidInput"]
        assert (await two.blocks.get("rules")).value == "be kind"


async def test_two_processes_that_change_an_objective_or_a_topic_at_once_lose_nothing(tmp_path):
    async with two_processes(tmp_path) as (one, two):
        goal = await one.identity.set_objective("Ship it")
        passage = await one.archive.insert("A note.", topics=["a", "b"])
        await asyncio.gather(
            one.identity.change_objective(goal.id, priority=1),
            two.identity.change_objective(goal.id, status="done"),
            *(
                mind.topics.update_topic_summary("tea", f"Tea {name}{number} wants patience number {number}.")
                for number in range(3)
                for name, mind in (("x", one), ("y", two))
            ),
            one.archive.rename_topics(passage.id, {"a": "c"}),
            two.archive.rename_topics(passage.id, {"b": "d"}),
        )
        (found,) = await one.identity.objectives(status=None)
        assert (found.priority, found.status) == (1, "done")
        assert (await two.topics.get("tea")).covered == 6
        assert (await two.archive.get(passage.id)).topics == ("c", "d")


async def test_a_conversation_that_two_processes_compact_at_once_is_compacted_once(tmp_path):
    async with two_processes(tmp_path) as minds:
        one, two = (mind.conversation("c", window=40) for mind in minds)
        for number in range(12):
            await one.add("user", f"message number {number} of this talk")
        done = await asyncio.gather(one.compact(minds[0].model), two.compact(minds[1].model))
        assert done[0] == done[1] == await one.state()
        assert done[0].covered_count + len(await two.in_context()) == 12


# ── Two devices ─────────────────────────────────────────────────────────────────────────


async def test_of_two_devices_the_later_block_counts_and_sync_names_the_other_one(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as one,
        opened(relays=[relay.url], clock=clock) as two,
    ):
        await one.mind.blocks.memory_append("human", "Name: Lisa")
        await one.sync()
        await two.sync()
        clock.advance(60)
        await one.mind.blocks.memory_append("human", "said on one")
        clock.advance(60)
        await two.mind.blocks.memory_append("human", "said on two")
        assert (await one.sync()).overruled == ()
        assert (await two.sync()).overruled == ()
        assert (await one.sync()).overruled == ("mind/block/human",)
        for store in (one, two):
            assert (await store.mind.blocks.get("human")).value == "Name: Lisa\nsaid on two"
        assert "Name: Lisa\nsaid on one" in [block.value for block in await one.mind.blocks.history("human")]
        clock.advance(60)
        await one.mind.blocks.memory_append("human", "said on one")  # it knows both
        await one.sync()
        assert (await two.sync()).overruled == ()
        assert (await two.mind.blocks.get("human")).value == "Name: Lisa\nsaid on two\nsaid on one"


async def test_a_block_that_is_deleted_elsewhere_before_its_edit_was_seen_is_a_draft(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as one,
        opened(relays=[relay.url], clock=clock) as two,
    ):
        await one.mind.blocks.create("rules", "be kind")
        await one.sync()
        await two.sync()
        clock.advance(60)
        await one.mind.blocks.memory_append("rules", "be quick")
        clock.advance(60)
        await two.mind.blocks.delete("rules")
        await two.sync()
        assert (await one.sync()).overruled == ("mind/block/rules",)
        (draft,) = await one.drafts()
        assert (draft.key, draft.value) == ("mind/block/rules", "be kind\nbe quick")
        await one.publish_draft(draft.number)
        assert (await one.mind.blocks.get("rules")).value == "be kind\nbe quick"
