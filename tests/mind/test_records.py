"""The records of the mind, as another version of this program, or another program, may have written them."""

from __future__ import annotations

import pytest

from tests.mind.test_conversation import talk
from tests.mind.test_log import opened


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
