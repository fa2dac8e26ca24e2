"""The goodbye: everything of a key is forgotten here and at the relays, and the relays are asked what they still show.

Guaranteed: each batch is durable whole or not at all, so a goodbye that was killed is finished by another call. The result
counts only what a relay showed after it was asked to delete; what could not be confirmed is said relay by relay.

Cost: one deletion request (NIP-09) for at most 100 addresses or entries, and a tombstone for each address.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from sense_memory.errors import MisfiledError
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sense_memory.ledger.heads import Head
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.nostr.event import Event
    from sense_memory.relay.sync.leftovers import RelayContents

MAX_TAGS_PER_REQUEST_COUNT: Final = 100  # addresses or entries that a request names; some relays take no more
_READ_COUNT: Final = 500


@dataclass(frozen=True, slots=True)
class RelayGoodbye:
    """What one relay did when it was asked to delete everything of a key.

    Attributes:
        url: the relay.
        left: how many memories and journal entries the relay still shows; None if it could not be asked.
        waiting: how many deletions the relay has not accepted.
        vanish: its answer to the request that everything vanish (NIP-62): "not asked", "not supported", "accepted" or
            "refused".
        problem: why `left` may be too low, or is unknown; empty if the relay showed everything.
    """

    url: str
    left: int | None
    waiting: int
    vanish: str
    problem: str = ""

    @property
    def is_confirmed(self) -> bool:
        """Whether the relay shows nothing any more, by its word."""
        return self.left == 0 and not self.problem


@dataclass(frozen=True, slots=True)
class Goodbye:
    """What became of everything.

    Attributes:
        forgotten: how many memories, records and journal entries this call forgot.
        left_here: how many are still in the ledger.
        relays: what each relay did.
    """

    forgotten: int
    left_here: int
    relays: tuple[RelayGoodbye, ...]

    @property
    def is_confirmed(self) -> bool:
        """Whether nothing is left here, and no relay shows anything."""
        return not self.left_here and all(relay.is_confirmed for relay in self.relays)


def count(store: OpenStore, spares: str = "") -> int:
    """How many memories, records and journal entries there are to forget, as far as the ledger knows."""
    return (
        sum(1 for _ in _live(store, spares))
        + len(store.ledger.heads.embeddings())
        + len(store.ledger.drafts.all())
    )


async def erase(
    store: OpenStore,
    *,
    vanish: bool = False,
    progress: Callable[[int], None] | None = None,
    spares: str = "",
) -> Goodbye:
    """Forget everything, here and at the relays, and ask what is left.

    Args:
        store: whose memory it is.
        vanish: also ask relays that support it to delete everything of the key for good (NIP-62), deletions included.
        progress: called with the number forgotten so far.
        spares: the slot of a record that stays.

    Raises:
        LedgerError, SignerError: batches before the error stay forgotten.
    """
    await store.replication.sync()  # what only relays hold is forgotten too
    forgotten = await _forget_all(store, spares, progress or (lambda _: None))
    _discard_local(store)
    if store.options.urls:
        await store.replication.flush()
    asked = (_farewell(store, url, spares, vanish=vanish) for url in store.options.urls)
    return Goodbye(forgotten, count(store, spares), tuple(await asyncio.gather(*asked)))


async def _forget_all(store: OpenStore, spares: str, progress: Callable[[int], None]) -> int:
    done = 0
    embeddings = [slot.removeprefix(address.PREFIX) for slot in store.ledger.heads.embeddings()]
    for batch in _packed(embeddings):
        await store.writer.forget_all(batch, insists=True)
        done += len(batch)
        progress(done)
    while some := list(islice(_live(store, spares), _READ_COUNT)):
        paths, entries = await _opened(store, some)
        for batch in _packed(paths):
            await store.writer.forget_all(batch, insists=True)
            done += len(batch)
            progress(done)
        for start in range(0, len(entries), MAX_TAGS_PER_REQUEST_COUNT):
            part = entries[start : start + MAX_TAGS_PER_REQUEST_COUNT]
            await store.writer.forget_entries(part)
            done += len(part)
            progress(done)
        if not paths and not entries:
            break  # what is left cannot be named; it is counted
    return done


def _live(store: OpenStore, spares: str) -> Iterator[Head]:
    """Every live head but that of one slot, by slot."""
    after = ""
    while heads := store.ledger.heads.live_after(after, _READ_COUNT):
        yield from (head for head in heads if head.slot != spares)
        after = heads[-1].slot


async def _opened(store: OpenStore, heads: Sequence[Head]) -> tuple[list[str], list[Event]]:
    """The paths of the memories among some heads, and the journal entries among them."""
    paths: list[str] = []
    entries: list[Event] = []
    for stored in store.ledger.read([head.seq for head in heads]):
        if not stored.slot.startswith(address.PREFIX):
            entries.append(stored.event())
            continue
        path = address.path_of(stored.slot)
        if path is None:
            record = await store.reader.record(stored)
            path = None if record is None else record.path
        if path is not None:
            paths.append(path)
    return paths, entries


def _packed(paths: Iterable[str]) -> Iterator[list[str]]:
    """Paths in batches whose addresses fit one request."""
    batch, tags = list[str](), 0
    for path in paths:
        more = len(address.d_tags(path))
        if batch and tags + more > MAX_TAGS_PER_REQUEST_COUNT:
            yield batch
            batch, tags = [], 0
        batch.append(path)
        tags += more
    if batch:
        yield batch


def _discard_local(store: OpenStore) -> None:
    """Remove what never was an event: drafts, entries of the log that are in no page, vectors, snapshot."""
    ledger = store.ledger
    for draft in ledger.drafts.all():
        ledger.drafts.discard(draft.number)
    ledger.log_rows.remove([row for row, _ in ledger.log_rows.after(0)])
    ledger.vectors.clear()
    ledger.snapshot.discard()
    ledger.checkpoint()


async def _farewell(store: OpenStore, url: str, spares: str, *, vanish: bool) -> RelayGoodbye:
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.sync.leftovers import RelayFarewell, VanishAnswer

    options = store.options
    relay = RelayFarewell(url, options.signer, options.clock, options.timeouts or Timeouts())
    answer = await relay.vanish() if vanish else VanishAnswer.NOT_ASKED
    found = await relay.contents()
    waiting = sum(store.ledger.outbox.counts(url).get(state, 0) for state in ("queued", "refused", "parked"))
    is_unknown = bool(found.problem) and not found.events
    return RelayGoodbye(
        url, None if is_unknown else await _left(store, found, spares), waiting, answer.value, found.problem
    )


async def _left(store: OpenStore, found: RelayContents, spares: str) -> int:
    """How many of the events at a relay are memories or entries, and not tombstones or events of other programs."""
    left = 0
    for event in found.events:
        if event.kind == KIND_DIRECT_MESSAGE:
            left += event.tag_values("p") == [event.pubkey]
            continue
        tag = event.d_tag or ""
        if not address.is_ours(tag) or (spares and store.ledger.places.slot_at(tag) == spares):
            continue
        left += not await _is_tombstone(store, event)
    return left


async def _is_tombstone(store: OpenStore, event: Event) -> bool:
    stored = store.ledger.by_id(event.id)
    if stored is not None:
        return stored.role.is_tombstone
    try:
        return await store.reader.is_tombstone(event)
    except MisfiledError:
        return False
