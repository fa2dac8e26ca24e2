"""Batches of bulk writes: in order, with progress, and each for itself."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory.memories.bulk import batches, write_batches


async def test_batches_are_written_in_order_and_their_results_counted():
    seen, progress = [], []

    async def write(batch):
        seen.append(list(batch))
        return [number * 10 for number in batch]

    made = await write_batches(batches(range(5), 2), write, progress.append)

    assert seen == [[0, 1], [2, 3], [4]]
    assert made == [0, 10, 20, 30, 40]
    assert progress == [2, 4, 5]


async def test_batches_before_one_that_fails_stay_written():
    written, progress = [], []

    async def write(batch):
        if 2 in batch:
            raise ValueError
        written.extend(batch)
        return batch

    with pytest.raises(ValueError):
        await write_batches(batches(range(5), 2), write, progress.append)

    assert written == [0, 1]
    assert progress == [2]


async def test_other_tasks_get_a_turn_after_each_batch():
    turns = []

    async def other():
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    async def write(batch):
        turns.append("batch")
        return batch

    task = asyncio.create_task(other())
    await write_batches(batches(range(3), 1), write)
    await task

    assert turns == ["batch", "other"] * 3


async def test_nothing_is_written_for_nothing():
    async def write(batch):
        raise AssertionError

    assert await write_batches(batches([], 2), write) == []
