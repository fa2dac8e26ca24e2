"""Execution of the plan of an import.

Each batch is durable as a whole. An item that the store refuses is reported, and the others are still written. To complete
an import that was interrupted, plan and execute again: the plan skips what has been written already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.exchange.items import Item, ItemKind, Problem
from sense_memory.exchange.readable import BLOCKS
from sense_memory.mind.blocks import records_of_block
from sense_memory.mind.log import NewEntry


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sense_memory.arguments import MemoryFields
    from sense_memory.exchange.import_plan import ImportPlan
    from sense_memory.store import MemoryStore

_BATCH: Final = {
    ItemKind.PALACE: 200,
    ItemKind.FLAT: 500,
    ItemKind.JOURNAL: 500,
    ItemKind.LOG: 200,
    ItemKind.MIND: 50,
}


@dataclass(slots=True)
class Imported:
    """The result of an import.

    Attributes:
        written: how many items of each kind were written.
        problems: items that the store refused, each with the reason.
    """

    written: Counter[ItemKind] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)


async def carry_out(
    store: MemoryStore, plan: ImportPlan, *, progress: Callable[[int], None] | None = None
) -> Imported:
    """Write the items of a plan in batches. To complete an interrupted call, plan and carry out again.

    Args:
        store: the store for which the plan was made.
        plan: the plan.
        progress: called with the number of items written so far.

    Raises:
        LedgerError, PlanLimitError, ClockSkewError: nothing more can be written; earlier batches stay.
    """
    done, count = Imported(), 0
    by_kind: defaultdict[ItemKind, list[Item]] = defaultdict(list)
    for item in plan.to_write:
        by_kind[item.kind].append(item)
    for kind, write in _WRITERS.items():
        for start in range(0, len(by_kind[kind]), _BATCH[kind]):
            batch = by_kind[kind][start : start + _BATCH[kind]]
            done.written[kind] += await _write_batch(store, batch, write, done.problems)
            count += len(batch)
            if progress is not None:
                progress(count)
    return done


async def _write_batch(
    store: MemoryStore,
    batch: Sequence[Item],
    write: Callable[[MemoryStore, Sequence[Item]], Awaitable[object]],
    problems: list[Problem],
) -> int:
    """Write a batch, or if the store refuses the batch, each item alone; returns how many items were written."""
    try:
        await write(store, batch)
    except InvalidInput as error:
        if len(batch) == 1:
            problems.append(Problem(batch[0].file, batch[0].line, _plain(error)))
            return 0
        return sum([await _write_batch(store, [item], write, problems) for item in batch])
    return len(batch)


def _plain(error: InvalidInput) -> str:
    """The reason in an error, without the number of the entry in the batch."""
    text = str(error).removeprefix("entry 1")
    text = text.partition("): ")[2] if text.startswith(" (") else text.removeprefix(": ")
    return text.removesuffix("; nothing was written").removesuffix(", and nothing was written")


async def _write_palace(store: MemoryStore, batch: Sequence[Item]) -> None:
    memories: list[MemoryFields] = []
    for item in batch:
        domain, facet, key = item.path.split("/")
        given = {"domain": domain, "facet": facet, "key": key, "value": item.text, "created_at": item.at}
        memories.append(cast("MemoryFields", {"source": item.origin, **item.fields, **given}))
    await store.palace.remember_many(memories, contradictions="off")


async def _write_flat(store: MemoryStore, batch: Sequence[Item]) -> None:
    now = store.clock()
    await store.remember_many([(item.path, item.text, now if item.at is None else item.at) for item in batch])


async def _write_journal(store: MemoryStore, batch: Sequence[Item]) -> None:
    await store.journal.write_many([item.text if item.at is None else (item.text, item.at) for item in batch])


async def _write_log(store: MemoryStore, batch: Sequence[Item]) -> None:
    entries = []
    for item in batch:
        payload, fields = dict(item.fields["payload"]), item.fields
        if item.origin:
            payload["origin"] = item.origin
        conversation, turn = fields.get("conversation", item.path), fields.get("turn")
        entries.append(
            NewEntry(fields["kind"], payload, fields["actor"], turn, conversation, item.at, fields["id"])
        )
    await store.mind.log.append_many(entries)


async def _write_mind(store: MemoryStore, batch: Sequence[Item]) -> None:
    fields: dict[str, Mapping[str, Any]] = {}
    for item in batch:
        label = item.path.removeprefix(BLOCKS)
        if label == item.path:
            fields[item.path] = item.fields
        else:
            fields |= await records_of_block(store.mind.records, label, item.fields)

    async def edited(_: object) -> dict[str, Mapping[str, Any]]:
        return fields

    try:
        await store.mind.records.change(fields, edited)
    except NotSynced:  # no relay has answered yet, so no known record could be edited
        await store.mind.records.write(fields)


_WRITERS: Final = {
    ItemKind.PALACE: _write_palace,
    ItemKind.FLAT: _write_flat,
    ItemKind.JOURNAL: _write_journal,
    ItemKind.MIND: _write_mind,
    ItemKind.LOG: _write_log,
}
