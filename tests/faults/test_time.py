"""T rows: the version clock."""

from __future__ import annotations


async def test_t01_two_writes_in_one_second(stage):
    """Five edits within a second: strictly later each, and never more than 5 s ahead of the clock."""
    async with stage.relay() as relay, stage.store(relay) as store:
        ids = []
        for number in range(5):
            ids.append(await store.remember("k", f"{stage.plaintext} {number}"))
            stage.clock.advance(0.1)
        assert (await stage.sync(store)).in_step

        versions = [stored.event() for stored in store._ledger.versions("sense-memory/k")]
        times = [version.created_at for version in reversed(versions)]
        assert [version.id for version in reversed(versions)] == ids
        assert times == sorted(set(times))
        assert times[-1] - stage.clock() <= 5
        assert (await store.recall("k")).value == f"{stage.plaintext} 4"
        assert [event["id"] for event in await stage.stored(relay.url)] == [ids[-1]]
