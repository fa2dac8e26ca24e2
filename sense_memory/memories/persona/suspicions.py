"""Which later memories may contradict a memory, as far as `remember` and introspection have found.

Comparing memories costs far more than searching them, and so does reading what was compared: 0.4 s for 10,000
memories. So `remember` and introspection keep what they suspect in the ledger, and recalls and searches of every process
look it up there.

Guaranteed: a suspicion is shown only while both memories have the texts that were compared, the later one is not
dissolved, and nothing is decided between them; see `lifecycle.is_undecided`. Costs one query after each change of the
ledger, and 0.1 ms when a suspicion is first shown after it.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from sense_memory.__about__ import __version__
from sense_memory.errors import LedgerError
from sense_memory.limits import LEAST_SUSPICION, MAX_SUSPECTED_BY_COUNT
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.contradictions import RULES_VERSION
from sense_memory.palace.lifecycle import current_state, is_undecided
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.feed import Cursor
    from sense_memory.ledger.suspicions import Suspicion
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.palace.search import PersonaHit
    from sense_memory.records.reader import Reader
    from sense_memory.search.hits import Hit

RULES_ID: Final = f"{__version__} {RULES_VERSION}"
_H = TypeVar("_H", "Hit", "PersonaHit")
_T = TypeVar("_T", "Hit", "PersonaHit", "PersonaMemory")


class Suspicions:
    """The known suspicions between the memories of a palace.

    Args:
        palace: the memories.
        ledger: keeps the suspicions.
        reader: decrypts the texts that were compared.
        clock: seconds since 1970.
        shows: whether suspicions are shown; not where contradictions are off.
    """

    def __init__(
        self, palace: Palace, ledger: Ledger, reader: Reader, clock: Callable[[], float], *, shows: bool
    ) -> None:
        self._palace, self._ledger, self._reader, self._clock = palace, ledger, reader, clock
        self._shows = shows
        self._cursor: Cursor | None = None
        # As of the cursor, by the path of the earlier memory: what the ledger has, and what of it still counts.
        self._known: dict[str, list[Suspicion]] = {}
        self._later: dict[str, tuple[str, ...]] = {}

    async def keep(self, found: Sequence[Contradiction], written: Mapping[str, str] | None = None) -> None:
        """Keep suspicions. Where the ledger cannot be written, introspection finds most again.

        Args:
            found: between memories as the catalog has them, or as they were just written.
            written: the ids of the events that were just written, by path.
        """
        paths = {path for item in found for path in (item.old, item.new)}
        ids = {memory.path: memory.event_id for memory in self._palace.catalog.all_of(paths)}
        ids.update(written or {})
        pairs = [
            (ids[item.old], ids[item.new])
            for item in found
            if item.confidence >= LEAST_SUSPICION and {item.old, item.new} <= ids.keys()
        ]
        if pairs:
            with suppress(LedgerError):
                await self._ledger.write(self._ledger.suspicions.add, pairs, RULES_ID)

    async def annotated(self, found: Sequence[_T]) -> list[_T]:
        """Memories or hits with `suspected_by`: the later memories that may contradict each, the latest first, at most 3."""
        if not self._shows:
            return list(found)
        later = await self._later_than({item.path for item in found})
        return [
            item.model_copy(update={"suspected_by": later[item.path]}) if later.get(item.path) else item
            for item in found
        ]

    async def ranked(self, hits: Sequence[_H]) -> list[_H]:
        """Hits as `annotated`, in which each later one ranks just before what it may contradict, or higher."""
        from sense_memory.palace.succession import with_later_first

        return with_later_first(await self.annotated(hits))

    async def pairs(self) -> list[tuple[str, str]]:
        """The suspicions that count, each as the paths of the earlier and the later memory."""
        found = await self._later_than(self._palace.catalog.paths())
        return [(path, later) for path, others in found.items() for later in others]

    async def _later_than(self, paths: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """By path, the later memories that may contradict some memories; of others at least those that were read before."""
        if self._cursor is not self._palace.cursor:
            self._look_up()
        known, later = self._known, self._later
        if unread := known.keys() & paths - later.keys():
            later |= await self._read({path: known[path] for path in unread})
        return later

    def _look_up(self) -> None:
        self._cursor, self._known, self._later = self._palace.cursor, {}, {}
        for pair in self._ledger.suspicions.found_by(RULES_ID):
            if (path := self._palace.path_at(pair.slot)) is not None:
                self._known.setdefault(path, []).append(pair)

    async def _read(self, known: Mapping[str, Iterable[Suspicion]]) -> dict[str, tuple[str, ...]]:
        """By path, the later memories of the suspicions that still count."""
        pairs = [pair for suspicions in known.values() for pair in suspicions]
        said = await self._memories_at({seq for pair in pairs for seq in (pair.earlier, pair.later)})
        later: defaultdict[str, list[PersonaMemory]] = defaultdict(list)
        for pair in pairs:
            one, other = said.get(pair.earlier), said.get(pair.later)
            if one and other and self._is_open(one, other):
                later[one.path].append(other)
        ranked = {
            path: sorted(later[path], key=lambda other: (-other.written_at, other.path)) for path in known
        }
        return {
            path: tuple(other.path for other in others[:MAX_SUSPECTED_BY_COUNT])
            for path, others in ranked.items()
        }

    def _is_open(self, earlier: PersonaMemory, later: PersonaMemory) -> bool:
        return (
            earlier.written_at <= later.written_at
            and is_undecided(earlier, later)
            and current_state(later, self._clock()) is not State.DISSOLVED
        )

    async def _memories_at(self, seqs: Iterable[int]) -> dict[int, PersonaMemory]:
        """By the seq of a version, its memory as it is now, if it still has the text of the version."""
        found = {}
        for stored, record in await self._reader.records([*self._ledger.read([*seqs])]):
            if record.type is RecordType.PERSONA:
                memory = self._palace.catalog.get(record.path.removeprefix(address.PERSONA))
                if memory is not None and memory.value == record.fields.get("value"):
                    found[stored.seq] = memory
        return found
