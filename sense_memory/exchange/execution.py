"""Execution of the plan of an import.

Each batch is durable as a whole. An item that the store refuses is reported, and the others are still written. To complete
an import that was interrupted, plan and execute again: the plan skips what has been written already.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.exchange.items import Item, ItemKind, Problem
from sense_memory.exchange.readable import BLOCKS, OWN_FORMATS
from sense_memory.mind.blocks import records_of_block
from sense_memory.mind.log import NewEntry
from sense_memory.nostr import address
from sense_memory.palace.sources import least_trusted_last


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sense_memory.arguments import MemoryFields
    from sense_memory.exchange.import_plan import ImportPlan
    from sense_memory.store import MemoryStore

_PASSAGES: Final = f"{address.MIND}archive/"
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
        session: names this import in rules (`store.mind.trust`); empty for our own readable export, which says itself
            where its memories came from.
        trusted: whether its memories may enter prompts by themselves.
    """

    written: Counter[ItemKind] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    session: str = ""
    trusted: bool = False


async def carry_out(
    store: MemoryStore,
    plan: ImportPlan,
    *,
    trusted: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Write the items of a plan in batches. To complete an interrupted call, plan and carry out again.

    Args:
        store: the store for which the plan was made.
        plan: the plan.
        trusted: whether a person vouches for what is imported: only then it may enter prompts by itself.
        progress: called with the number of items written so far.

    Raises:
        LedgerError, PlanLimitError, ClockSkewError: nothing more can be written; earlier batches stay.
    """
    is_own = set(plan.format.split(", ")) <= OWN_FORMATS
    done, count = Imported(session="" if is_own else f"import-{secrets.token_hex(4)}", trusted=trusted), 0
    if trusted and not is_own:  # before anything is written, so that a broken import is trusted too
        rule = await store.mind.trust.plan("trust", session=done.session)
        await store.mind.trust.apply(rule)
    by_kind: defaultdict[ItemKind, list[Item]] = defaultdict(list)
    for item in plan.to_write:
        by_kind[item.kind].append(item if is_own else _told(item, done.session))
    for kind, write in _WRITERS.items():
        for start in range(0, len(by_kind[kind]), _BATCH[kind]):
            batch = by_kind[kind][start : start + _BATCH[kind]]
            done.written[kind] += await _write_batch(store, batch, write, done.problems)
            count += len(batch)
            if progress is not None:
                progress(count)
    return done


def _told(item: Item, session: str) -> Item:
    """An item of another program with where it came from, as its kind says that."""
    origin, fields = item.origin or "import", dict(item.fields)
    if item.kind in {ItemKind.PALACE, ItemKind.FLAT, ItemKind.JOURNAL}:
        fields |= {"source": origin, "session": session}
    elif item.kind is ItemKind.LOG:
        fields["payload"] = {**fields["payload"], "origin": origin, "session": session}
    elif item.path.startswith(BLOCKS):
        fields |= {"sources": [origin], "session": session}
    elif item.path.startswith(_PASSAGES):
        fields |= {"origin": origin, "session": session}
    return replace(item, fields=fields)


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
        memories.append(cast("MemoryFields", {**item.fields, **given}))
    await store.palace.remember_many(memories, contradictions="off")


async def _write_flat(store: MemoryStore, batch: Sequence[Item]) -> None:
    now = store.clock()
    plain = [item for item in batch if not item.fields]
    await store.remember_many([(item.path, item.text, now if item.at is None else item.at) for item in plain])
    for item in (one for one in batch if one.fields):
        said = [text for text in (item.fields.get("source"), *item.fields.get("sources", ())) if text]
        source = least_trusted_last(map(str, said))[-1] if said else ""
        session = str(item.fields.get("session", ""))
        at = now if item.at is None else item.at
        await store.remember(item.path, item.text, source=source, session=session, created_at=at)


async def _write_journal(store: MemoryStore, batch: Sequence[Item]) -> None:
    own = [item for item in batch if not item.fields.get("source")]
    await store.journal.write_many([item.text if item.at is None else (item.text, item.at) for item in own])
    for item in (one for one in batch if one.fields.get("source")):
        told = {name: str(item.fields.get(name, "")) for name in ("source", "session")}
        await store.journal.write(item.text, created_at=item.at, **told)


async def _write_log(store: MemoryStore, batch: Sequence[Item]) -> None:
    entries = []
    for item in batch:
        payload, fields = dict(item.fields["payload"]), item.fields
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
