"""How many relays have each memory: acknowledged (replicated) and read back (durable), against a quorum.

Relays on this machine are not counted, because they are lost with it. Cost: one query of one event; of all memories, a
pass over the heads and their outbox rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.heads import beneath
from sense_memory.ledger.listing import MANIFESTS
from sense_memory.ledger.roles import IS_LIVE
from sense_memory.ledger.schema import HELD
from sense_memory.nostr.relay_url import is_local


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.ledger.database import Database

_COUNTS = (
    "SELECT count(*), total(held >= ?2), total(shown >= ?2) FROM (SELECT "
    f"(SELECT count(*) FROM outbox o WHERE o.event = e.seq AND o.state IN {HELD} "
    "AND o.relay IN (SELECT relay FROM relays WHERE url IN (SELECT value FROM json_each(?1)))) AS held, "
    "(SELECT count(*) FROM outbox o WHERE o.event = e.seq AND o.state = 'confirmed' "
    "AND o.relay IN (SELECT relay FROM relays WHERE url IN (SELECT value FROM json_each(?1)))) AS shown "
    f"FROM slots s JOIN events e ON e.seq = s.head WHERE e.{IS_LIVE} AND NOT (s.slot >= ?3 AND s.slot < ?4))"
)


def quorum(urls: Sequence[str], min_acks: int | None) -> int:
    """How many relays must have a memory: `min_acks`, or more than half of the relays elsewhere; at least 1."""
    elsewhere = sum(not is_local(url) for url in urls)
    return min_acks if min_acks is not None else elsewhere // 2 + 1


@dataclass(frozen=True, slots=True)
class MemoryCopies:
    """The copies of one memory.

    Attributes:
        states: by relay, the state of its event: queued, acked, confirmed, refused, parked or superseded.
        min_acks: how many relays on other machines must have it.
        acks: how many of these have acknowledged it, those that showed it included.
        shown: how many of these have shown it since: it was read back.
    """

    states: Mapping[str, str]
    min_acks: int
    acks: int
    shown: int

    @property
    def is_replicated(self) -> bool:
        """Whether enough relays acknowledged it."""
        return self.acks >= self.min_acks

    @property
    def is_durable(self) -> bool:
        """Whether it was read back from enough relays."""
        return self.shown >= self.min_acks


def memory_copies(states: Mapping[str, str], min_acks: int) -> MemoryCopies:
    """The copies of a memory, from the states of its event by relay."""
    elsewhere = [state for url, state in states.items() if not is_local(url)]
    acks = sum(state in HELD for state in elsewhere)
    return MemoryCopies(states, min_acks, acks, elsewhere.count("confirmed"))


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """The copies of all memories and other records of a ledger.

    Attributes:
        min_acks: how many relays on other machines must have each.
        records: how many there are.
        replicated: how many of them enough relays acknowledged.
        durable: how many of them were read back from enough relays.
    """

    min_acks: int = 1
    records: int = 0
    replicated: int = 0
    durable: int = 0


NOTHING_COUNTED: Final = CopyCounts()


def copy_counts(db: Database, urls: Sequence[str], min_acks: int) -> CopyCounts:
    """The copies of all current records, at the relays elsewhere among some URLs."""
    elsewhere = json.dumps([url for url in urls if not is_local(url)])
    total, held, shown = db.row(_COUNTS, elsewhere, min_acks, *beneath(MANIFESTS)) or (0, 0, 0)
    return CopyCounts(min_acks, int(total), int(held), int(shown))
