"""Which later memories may contradict a memory, as far as `remember` and introspection have found.

Comparing costs far more than searching, and so does reading what was compared: 0.4 s for 10,000 memories. So what
was found lies in the ledger, where each door looks it up at once, in every process.

Guaranteed: a suspicion is told only while both memories say what was compared, the later one is not dissolved, and
nothing is decided between them; see `lifecycle.is_undecided`. Costs one query after each change of the ledger, and
0.1 ms for each suspicion that is then told first.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from sense_memory.__about__ import __version__
from sense_memory.errors import LedgerError
from sense_memory.limits import LEAST_SUSPICION
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.lifecycle import current_state, is_undecided
from sense_memory.records.envelope import RecordType


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

RULES_VERSION: Final = 8  # of the rules in `palace.contradictions`; what others found is not told
RULES: Final = f"{__version__} {RULES_VERSION}"
_PALACE: Final = "palace"  # the kind of a hit
_T = TypeVar("_T", "Hit", "PersonaHit", "PersonaMemory")


class Suspicions:
    """The known suspicions between the memories of a palace.

    Args:
        palace: the memories.
        ledger: keeps the suspicions.
        reader: decrypts the texts that were compared.
        clock: seconds since 1970.
    """

    def __init__(self, palace: Palace, ledger: Ledger, reader: Reader, clock: Callable[[], float]) -> None:
        self._palace, self._ledger, self._reader, self._clock = palace, ledger, reader, clock
        self._cursor: Cursor | None = None
        # As of the cursor, by the path of the earlier memory: what the ledger has, and what of it still counts.
        self._known: dict[str, list[Suspicion]] = {}
        self._later: dict[str, tuple[str, ...]] = {}

    async def keep(self, found: Iterable[Contradiction]) -> None:
        """Keep suspicions between memories that are written. Without room in the ledger they are found again later."""
        pairs = [(_slot(item.old), _slot(item.new)) for item in found if item.confidence >= LEAST_SUSPICION]
        if pairs:
            with suppress(LedgerError):
                await self._ledger.write(self._ledger.suspicions.add, pairs, RULES)

    async def told(self, found: Sequence[_T]) -> list[_T]:
        """Memories or hits, each with the paths of the later memories that may contradict it, the latest first."""
        if self._cursor is not self._palace.cursor:
            self._look_up()
        known, later = self._known, self._later
        if not known:
            return list(found)
        if unread := {item.path for item in found if item.path in known} - later.keys():
            later |= await self._read({path: known[path] for path in unread})
        return [
            item.model_copy(update={"suspected_by": later[item.path]})
            if later.get(item.path) and getattr(item, "kind", _PALACE) == _PALACE
            else item
            for item in found
        ]

    def _look_up(self) -> None:
        self._cursor, self._known, self._later = self._palace.cursor, {}, {}
        for pair in self._ledger.suspicions.found_by(RULES):
            if (path := self._palace.path_at(pair.slot)) is not None:
                self._known.setdefault(path, []).append(pair)

    async def pairs(self) -> list[tuple[PersonaMemory, PersonaMemory]]:
        """The earlier and the later memory of each suspicion that still counts."""
        self._look_up()
        return await self._open([pair for pairs in self._known.values() for pair in pairs])

    async def _open(self, pairs: Sequence[Suspicion]) -> list[tuple[PersonaMemory, PersonaMemory]]:
        said = await self._memories_at({seq for pair in pairs for seq in (pair.earlier, pair.later)})
        both = ((said.get(pair.earlier), said.get(pair.later)) for pair in pairs)
        return [(one, other) for one, other in both if one and other and self._is_open(one, other)]

    async def _read(self, known: Mapping[str, Iterable[Suspicion]]) -> dict[str, tuple[str, ...]]:
        """By path, the later memories of the suspicions that still count."""
        later: defaultdict[str, list[PersonaMemory]] = defaultdict(list)
        for one, other in await self._open([pair for pairs in known.values() for pair in pairs]):
            later[one.path].append(other)
        ranked = {
            path: sorted(later[path], key=lambda other: (-other.written_at, other.path)) for path in known
        }
        return {path: tuple(other.path for other in others) for path, others in ranked.items()}

    def _is_open(self, earlier: PersonaMemory, later: PersonaMemory) -> bool:
        return (
            earlier.written_at <= later.written_at
            and is_undecided(earlier, later)
            and current_state(later, self._clock()) is not State.DISSOLVED
        )

    async def _memories_at(self, seqs: Iterable[int]) -> dict[int, PersonaMemory]:
        """The memories, as they are now, that still say what some versions said, by the seq of the version."""
        found = {}
        for stored, record in await self._reader.records([*self._ledger.read([*seqs])]):
            if record.type is RecordType.PERSONA:
                memory = self._palace.catalog.get(record.path.removeprefix(address.PERSONA))
                if memory is not None and memory.value == record.fields.get("value"):
                    found[stored.seq] = memory
        return found


def _slot(path: str) -> str:
    return address.d_tag(address.PERSONA + path)
