"""One search over everything: persona memories, flat memories and the journal, in one index.

One index, and not a ranked list of each kind: scores of different lists can not be compared (the best of a
poor list is still its best), while in one a word is as rare as it is in all that the agent knows. A key counts
as if its words stood three times in the text and themes twice, which is the specification's weights on BM25;
what was said on a day lends its words to its neighbours in the journal, and to nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from sense_memory.envelope import RecordType
from sense_memory.keeping import Kept, made_of
from sense_memory.persona.finding import LANGUAGE, check
from sense_memory.search.fusion import Levers
from sense_memory.search.hits import Hit, Kind
from sense_memory.search.index import FORMAT, MemoryIndex, SearchItem
from sense_memory.weighing import Weigher


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sense_memory.envelope import Record
    from sense_memory.ledger import Ledger
    from sense_memory.ledger.edits import Placed
    from sense_memory.models import PersonaMemory
    from sense_memory.persona.palace import Palace
    from sense_memory.reader import Reader
    from sense_memory.search.ranking import SearchHit
    from sense_memory.search.scope import Scope
    from sense_memory.snapshot import Opened

ROLES: Final = frozenset({"user", "agent"})  # the sources that "I" and "you" of a question may mean
_KEY_TIMES: Final = 3  # sense-memory v2, "Semantic Search": its weights beside the value's 1
_THEMES_TIMES: Final = 2
_STAMP_BYTES: Final = 8
_PART_COUNT: Final = 2_000  # memories that are read at a time: some 0.2 s


class _Said(NamedTuple):
    """A flat memory or journal entry in the index. `name` is empty for what is there and is neither."""

    name: str
    stamp: str  # of the event that it was read from
    seq: int
    created_at: float


class Finding(Kept):
    """The index of everything that a ledger holds.

    Args:
        palace: its persona memories.
        ledger: where everything lies.
        reader: opens it.
        clock: seconds since 1970.
        ask: makes sure that a relay was asked before "nothing" is said; whether one was.
    """

    def __init__(
        self,
        palace: Palace,
        ledger: Ledger,
        reader: Reader,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._levers = Levers()
        super().__init__("everything", made_of("all", FORMAT, LANGUAGE, self._levers), ledger, reader)
        self._palace, self._clock, self._ask = palace, clock, ask
        self._index: MemoryIndex | None = None
        self._said: dict[str, _Said] = {}  # by slot
        self._slots: dict[str, str] = {}  # by name
        self._stamps: dict[str, str] = {}  # of persona memories, by path
        self._changed: dict[str, PersonaMemory | None] = {}  # by path, since the last search
        self._version, self._seq = (-1, -1), -1
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    async def search(self, query: str, limit: int, scope: Scope, relevance_floor: float) -> list[Hit]:
        """The memories that answer a question best, the best first."""
        check(query, limit, relevance_floor)
        index = await self._current()
        if not len(index) and await self._ask("memories are"):
            index = await self._current()
        now = self._clock()
        weigher = Weigher(
            self._memory, self._written_at, index.vocabulary, query=query, now=now, floor=relevance_floor
        )
        only = None if scope.is_all else self._filter(scope)
        # How well a day fits tells entries of the journal apart; beside memories without a day it is unfair.
        levers = replace(self._levers, session=scope.within == {Kind.JOURNAL})
        found = index.search(query, limit, now=now, levers=levers, only=only, factors=weigher.factors)
        hits = [await self._hit(hit, weigher) for hit in found]
        return [hit for hit in hits if hit is not None]

    # ── Following the ledger ────────────────────────────────────────────────────────────

    def put(self, memory: PersonaMemory) -> None:
        """A persona memory is new, or changed."""
        self._changed[memory.path] = memory

    def drop(self, path: str) -> None:
        """A persona memory is gone."""
        self._changed[path] = None

    async def catch_up(self) -> None:
        """Bring the index up to date."""
        await self._current()

    async def _current(self) -> MemoryIndex:
        catalog = await self._palace.refresh()
        async with self._turn:
            if self._index is None:
                index = self._restored(await self.saved())
                self._palace.follow(self)
                self._changed = dict.fromkeys(self._stamps)
                self._changed |= {memory.path: memory for memory in catalog}
                self._index = index
            await self._look_at_said(self._index)
            await self._look_at_palace(self._index)
        return self._index

    async def _look_at_said(self, index: MemoryIndex) -> None:
        edits = self._ledger.edits
        version, last = edits.version(), edits.last
        if version == self._version:
            return
        heads = None if self._seq < 0 else edits.said_since(self._seq)
        if heads is None:
            heads = edits.said()
            for slot in self._said.keys() - {head.slot for head in heads}:
                self._forget(index, slot)
        stamped = [(head, head.id[:_STAMP_BYTES].hex()) for head in heads]
        fresh = {
            head.slot: (head, stamp)
            for head, stamp in stamped
            if head.slot not in self._said or self._said[head.slot].stamp != stamp
        }
        records = await self._reader.opened([(head.slot, head.seq) for head, _ in fresh.values()])
        await self._read(index, fresh, records)
        self._version, self._seq = version, last

    async def _read(
        self,
        index: MemoryIndex,
        fresh: dict[str, tuple[Placed, str]],
        records: Iterable[tuple[Opened, Record]],
    ) -> None:
        """Put flat memories and entries that are new into the index."""
        for slot in fresh.keys() & self._said.keys():
            self._forget(index, slot)
        found = {opened.id: (opened, record) for opened, record in records}
        waiting = list(fresh.values())
        while waiting:
            part, waiting = waiting[:_PART_COUNT], waiting[_PART_COUNT:]
            items = []
            for head, stamp in part:
                said, item = _Said("", stamp, head.seq, 0.0), None
                if head.id in found:
                    opened, record = found[head.id]
                    created_at = _time(record, opened.created_at)
                    item = _item_of(record, head.id.hex(), created_at)
                if item is not None:
                    said = _Said(item.id, stamp, head.seq, created_at)
                    self._slots[item.id] = head.slot
                    items.append(item)
                self._said[head.slot] = said
            await self._put(index, items)

    async def _put(self, index: MemoryIndex, items: Sequence[SearchItem]) -> None:
        index.put_many(items)
        self.unsaved += len(items)
        if len(items) > _PART_COUNT // 2:
            await asyncio.sleep(0)  # that was a while, and other tasks want their turn

    def _forget(self, index: MemoryIndex, slot: str) -> None:
        known = self._said.pop(slot)
        if known.name and self._slots.get(known.name) == slot:
            del self._slots[known.name]
            index.drop(known.name)

    async def _look_at_palace(self, index: MemoryIndex) -> None:
        while self._changed:
            items = []
            for path in list(islice(self._changed, _PART_COUNT)):
                memory = self._changed.pop(path)
                if memory is None:
                    self._stamps.pop(path, None)
                    index.drop(f"{Kind.PALACE}/{path}")
                elif self._stamps.get(path) != (stamp := _stamp_of(memory)):
                    self._stamps[path] = stamp
                    items.append(_item_of_persona(memory))
            await self._put(index, items)

    # ── Finding ─────────────────────────────────────────────────────────────────────────

    def _filter(self, scope: Scope) -> Callable[[str], bool]:
        kinds = tuple(f"{kind}/" for kind in scope.within)
        if scope.since is None and scope.source is None:
            return lambda name: name.startswith(kinds)

        def is_meant(name: str) -> bool:
            if not name.startswith(kinds):
                return False
            memory = self._memory(name)
            if memory is not None:
                is_new = scope.since is None or memory.created_at >= scope.since
                return is_new and _came_from(memory.source, scope.source)
            if scope.source is not None or name not in self._slots:
                return False
            return scope.since is None or self._written_at(name) >= scope.since

        return is_meant

    def _memory(self, name: str) -> PersonaMemory | None:
        """The persona memory that a name in the index means."""
        kind, _, path = name.partition("/")
        return self._palace.catalog.get(path) if kind == Kind.PALACE else None

    def _written_at(self, name: str) -> float:
        return self._said[self._slots[name]].created_at

    async def _hit(self, found: SearchHit, weigher: Weigher) -> Hit | None:
        kind, _, path = found.id.partition("/")
        memory = self._memory(found.id)
        if memory is not None:
            fields = {"key": memory.key, "themes": " \n".join(memory.themes), "value": memory.value}
            more: dict[str, Any] = {"created_at": memory.created_at, "event_id": memory.event_id}
            more["source"] = memory.source
        else:
            said = self._said.get(self._slots.get(found.id, ""))
            opened = [] if said is None else await self._reader.opened([(self._slots[found.id], said.seq)])
            if said is None or not opened:
                return None  # forgotten while this search waited
            ((event, record),) = opened
            fields = {"value": _text(record)} | ({"key": path} if kind == Kind.FLAT else {})
            more = {"created_at": said.created_at, "event_id": event.id.hex()}
        why = weigher.explain(found, fields)
        return Hit(kind=Kind(kind), path=path, value=fields["value"], score=found.score, why=why, **more)

    # ── Keeping ─────────────────────────────────────────────────────────────────────────

    def dumped(self) -> bytes:
        """The index as bytes, with what it was made from."""
        if self._index is None:
            return b""
        said = {slot: tuple(row) for slot, row in self._said.items()}
        head = orjson.dumps([said, self._stamps])
        return len(head).to_bytes(8, "big") + head + self._index.dump()

    def _restored(self, saved: bytes | None) -> MemoryIndex:
        """The index of the last time, or a new one."""
        if saved:
            try:
                end = 8 + int.from_bytes(saved[:8], "big")
                said, self._stamps = orjson.loads(saved[8:end])
                self._said = {slot: _Said(*row) for slot, row in said.items()}
                self._slots = {row.name: slot for slot, row in self._said.items() if row.name}
                return MemoryIndex.load(saved[end:], self._levers)
            except (ValueError, KeyError, TypeError, IndexError):  # a cache: it is made anew
                self._said, self._slots, self._stamps = {}, {}, {}
        return MemoryIndex(self._levers, LANGUAGE)


def _came_from(source: str, wanted: str | None) -> bool:
    return wanted is None or source == wanted or source.startswith(f"{wanted}:")


def _text(record: Record) -> str:
    return str(record.fields["content" if record.type is RecordType.JOURNAL else "value"])


def _time(record: Record, event_time: int) -> float:
    ts = record.fields.get("ts")
    return float(ts) if type(ts) is float or type(ts) is int else float(event_time)


def _item_of(record: Record, event_id: str, created_at: float) -> SearchItem | None:
    """A flat memory or journal entry as the index takes it; None for anything else."""
    if record.type is RecordType.JOURNAL:
        return SearchItem(f"{Kind.JOURNAL}/{event_id}", _text(record), created_at)
    if record.type is not RecordType.FLAT:
        return None
    key = record.fields["key"]
    return SearchItem(f"{Kind.FLAT}/{key}", _weighed(key, (), _text(record)))


def _item_of_persona(memory: PersonaMemory) -> SearchItem:
    text = _weighed(memory.key, memory.themes, memory.value)
    speaker = memory.source if memory.source in ROLES else ""
    return SearchItem(f"{Kind.PALACE}/{memory.path}", text, speaker=speaker)


def _weighed(key: str, themes: Sequence[str], value: str) -> str:
    return " \n".join((*(key,) * _KEY_TIMES, *tuple(themes) * _THEMES_TIMES, value))


def _stamp_of(memory: PersonaMemory) -> str:
    joined = "\0".join((memory.key, *memory.themes, "", memory.value, memory.source))
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=_STAMP_BYTES).hexdigest()
