"""Removals: what was forgotten or pruned at a slot, by whom knowing what; and which versions that reaches.

A removal comes with a tombstone or a deletion, from inside its ciphertext. Every device decides from it alone, in
whatever order events arrive, and removals of one slot join (maximum, union), so that all decide the same:

* A text that somebody *forgot* goes by date: what was said up to the second of forgetting. The forgetter also
  names the texts that it had; those go whatever their date, and copies of them at other addresses go too. A text
  that it did not have goes, but whoever said it keeps a draft.
* What was *pruned* goes by knowledge: only versions that the pruner knew, whatever the dates. Any edit, link or
  access that it did not know lives, and the memory with it.

Nothing here knows a text: it is about numbers, ids and devices. One row a slot, some bytes for each forgetting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from sense_memory.limits import MAX_FORGOTTEN_TEXTS_COUNT


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.ledger.database import Database

ID_CHARS: Final = 16  # of an event id, by which a removal names a text
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a version comes from: the part of its inside that removals and lost edits depend on.

    Attributes:
        at: the version's created_at, seconds since 1970.
        said: id of the event that said its text first, 64 hex digits; its own, where the text is new.
        said_at: that event's created_at.
        device: who said the text; empty where the writer kept no version vector.
        count: that device's count of edits with it.
        seen: the version vector: what the version knew, by device.
        copy_of: the slot of the memory that it is a conflict copy of, or empty.
        text: a fingerprint of the text, good within this process.
        is_flat: whether it is a flat memory, which its address does not tell where that is a hash.
    """

    at: int
    said: str
    said_at: int
    device: str = ""
    count: int = 0
    seen: Mapping[str, int] = field(default_factory=dict)
    copy_of: str = ""
    text: int = 0
    is_flat: bool = False

    @classmethod
    def plain(cls, event_id: str, created_at: int) -> Origin:
        """Of a version that says nothing of itself, or cannot be read here."""
        return cls(created_at, event_id, created_at)

    def knows(self, other: Origin) -> bool:
        """Whether this version was written in knowledge of another's text."""
        return bool(other.device) and self.seen.get(other.device, 0) >= other.count


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed at one slot.

    Attributes:
        until: what was said up to this second is forgotten; -1 for nothing.
        texts: ids (their first 16 digits) of events whose texts are forgotten whatever their date, newest last.
        seen: versions within this vector are pruned.
        upto: versions without a vector up to this second are pruned; -1 for none.
        kept: texts that the forgetter had and saw elsewhere too, as copies that it did not forget.
        is_automatic: nobody asked for it: time, or what was decided elsewhere.
        is_blind: nobody knows what the forgetter had: an older program or another client.
        copies: the slots at which copies of the texts may lie.
    """

    until: int = _NEVER
    texts: tuple[str, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    upto: int = _NEVER
    kept: frozenset[str] = frozenset()
    is_automatic: bool = False
    is_blind: bool = False
    copies: tuple[str, ...] = ()

    @classmethod
    def blind(cls, until: int) -> Removal:
        """Of a deletion that says nothing of itself: everything up to its second is forgotten."""
        return cls(until, is_blind=True)

    def names(self, event_id: str) -> bool:
        """Whether the text that an event said is forgotten wherever it lies."""
        return event_id[:ID_CHARS] in self.texts

    def forgets(self, origin: Origin) -> bool:
        """Whether a version's text is forgotten."""
        return origin.said_at <= self.until or self.names(origin.said)

    def prunes(self, origin: Origin) -> bool:
        """Whether a version is one that a pruner knew."""
        if not origin.seen:
            return origin.at <= self.upto
        return all(self.seen.get(device, 0) >= count for device, count in origin.seen.items())

    def reaches(self, origin: Origin) -> bool:
        """Whether a version is removed."""
        return self.forgets(origin) or self.prunes(origin)

    def knew(self, origin: Origin) -> bool:
        """Whether the forgetter had a version's text; of a blind one that is supposed."""
        return self.is_blind or self.names(origin.said) or origin.said[:ID_CHARS] in self.kept

    def joined(self, other: Removal) -> Removal:
        """Both. Of texts the last 1,000 are kept."""
        seen = dict(self.seen)
        for device, count in other.seen.items():
            seen[device] = max(count, seen.get(device, 0))
        texts = tuple(dict.fromkeys(chain(self.texts, other.texts)))[-MAX_FORGOTTEN_TEXTS_COUNT:]
        return Removal(max(self.until, other.until), texts, seen, max(self.upto, other.upto))


NOTHING: Final = Removal()


def read(db: Database, slot: str) -> Removal:
    """What is removed at a slot, by all that came in; nothing where nothing was."""
    found = db.row("SELECT until, upto, texts, seen FROM removals WHERE slot = ?", slot)
    if found is None:
        return NOTHING
    until, upto, texts, seen = found
    return Removal(until, tuple(texts.split()), json.loads(seen) if seen else {}, upto)


def add(db: Database, slot: str, removal: Removal) -> None:
    """Join a removal with those of its slot, inside a transaction."""
    now = read(db, slot).joined(removal)
    db.execute(
        "INSERT OR REPLACE INTO removals (slot, until, upto, texts, seen) VALUES (?, ?, ?, ?, ?)",
        slot,
        now.until,
        now.upto,
        " ".join(now.texts),
        json.dumps(now.seen, separators=(",", ":")) if now.seen else "",
    )
