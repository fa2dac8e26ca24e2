"""Which later memories may contradict a memory, as far as `remember` and introspection have found.

Comparing costs far more than searching, and so does reading what was compared: 0.4 s for 10,000 memories. So what
was found lies in the ledger, where each door looks it up at once, in every process.

Guaranteed: a suspicion is told only while both memories say what was compared, the later one is not dissolved, and
nothing is decided between them; see `lifecycle.is_undecided`. Costs one query; 0.1 ms more where there is a suspicion.
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
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.palace.search import PersonaHit
    from sense_memory.records.reader import Reader
    from sense_memory.search.hits import Hit

RULES_VERSION: Final = 7  # of the rules in `palace.contradictions`; what others found is not told
_RULES: Final = f"{__version__} {RULES_VERSION}"
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

    async def keep(self, found: Iterable[Contradiction]) -> None:
        """Keep suspicions between memories that are written. Without room in the ledger they are found again later."""
        pairs = [(_slot(item.old), _slot(item.new)) for item in found if item.confidence >= LEAST_SUSPICION]
        if pairs:
            with suppress(LedgerError):
                await self._ledger.write(self._ledger.suspicions.add, pairs, _RULES)

    async def told(self, found: Sequence[_T]) -> list[_T]:
        """Memories or hits, each with the paths of the later memories that may contradict it, the latest first."""
        paths = [item.path for item in found if getattr(item, "kind", _PALACE) == _PALACE]
        later = await self._later(paths) if paths else {}
        return [
            item.model_copy(update={"suspected_by": later[item.path]}) if item.path in later else item
            for item in found
        ]

    async def _later(self, paths: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        known = self._ledger.suspicions.against([_slot(path) for path in paths], _RULES)
        if not known:
            return {}
        said = await self._memories_at({seq for pair in known for seq in pair})
        found: defaultdict[str, list[PersonaMemory]] = defaultdict(list)
        for pair in known:
            earlier, later = said.get(pair.earlier), said.get(pair.later)
            if earlier is not None and later is not None and self._is_open(earlier, later):
                found[earlier.path].append(later)
        return {
            path: tuple(
                memory.path for memory in sorted(others, key=lambda other: (-other.written_at, other.path))
            )
            for path, others in found.items()
        }

    def _is_open(self, earlier: PersonaMemory, later: PersonaMemory) -> bool:
        return (
            (earlier.written_at, earlier.path) < (later.written_at, later.path)
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
