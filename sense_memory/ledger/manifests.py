"""What the ledger remembers of manifests: the sequence last seen of each device, when this ledger wrote its own, and what the
last check found. And the check as callers get it.

The notes are rows of the table `meta`. They are as safe as the ledger: where it is lost, the next sync is a first one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.copies import CopyCounts, copy_counts
from sense_memory.ledger.device_id import wrote
from sense_memory.ledger.listing import ListedState, slot_states


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sense_memory.ledger.database import Database

_SEEN: Final = (
    "manifest:"  # begins the name of a device's row: its highest sequence, and a hash of what it said then
)
_WRITTEN: Final = "manifest-written"
_CHECK: Final = "manifest-check"
_SENT: Final = (
    "SELECT r.url, o.state, o.due_at FROM outbox o JOIN relays r USING (relay) WHERE o.event = ? "
    "AND o.state IN ('queued', 'acked', 'confirmed')"
)
_SHOWN: Final = (
    "SELECT s.slot FROM slots s JOIN outbox o ON o.event = s.head AND o.state = 'confirmed' "
    "JOIN relays r USING (relay)"
)


@dataclass(frozen=True, slots=True)
class DeviceManifest:
    """The newest manifest of one device.

    Attributes:
        device: the device id.
        seq: its sequence: one more with each manifest of the device.
        heads: how many memories it counts.
        written_at: when it was written, seconds since 1970, by the clock of the device.
        unlisted: how many of its memories stand on pages of its list that are not here, so that nobody can look for them.
        seen_seq: the highest sequence of the device that was ever seen here.
        is_doubled: whether two different manifests of the device have this sequence.
    """

    device: str
    seq: int
    heads: int
    written_at: float
    unlisted: int = 0
    seen_seq: int = 0
    is_doubled: bool = False

    @property
    def is_set_back(self) -> bool:
        """Whether its sequence is below one that was seen before."""
        return self.seq < self.seen_seq


@dataclass(frozen=True, slots=True)
class ManifestCheck:
    """What the manifests of other devices say about the memories here.

    Attributes:
        checked_at: when this was found, seconds since 1970; None if nothing was checked yet.
        devices: the manifests that were found.
        expected: the memories that should be here: named by a manifest, and not deleted since.
        missing: of these, those that no relay has shown, in any version.
        outdated: of these, those of which relays have shown an older version only.
        undeleted: memories that are here although a device had deleted them, because no relay has shown the deletion.
        ahead: memories that are dated too far ahead of this clock to be judged.
        lacking: by relay that was asked for the first time, how many of the expected memories that are here now it did not
            show, so that other relays had to.
        unanswered: relays that did not show everything, so that they may hold what is missing.
        relapsed: relays that had a manifest, and no longer showed it: they lost it or were set back.
    """

    checked_at: float | None = None
    devices: tuple[DeviceManifest, ...] = ()
    expected: int = 0
    missing: int = 0
    outdated: int = 0
    undeleted: int = 0
    ahead: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    unanswered: tuple[str, ...] = ()
    relapsed: tuple[str, ...] = ()

    @property
    def here(self) -> int:
        """How many expected memories are here, as listed or newer."""
        return self.expected - self.missing - self.outdated

    @property
    def unlisted(self) -> int:
        """How many memories are counted by manifests, on pages that are not here."""
        return sum(device.unlisted for device in self.devices)

    @property
    def holds(self) -> bool:
        """Whether everything that manifests name is here: nothing is missing, outdated or undeleted, and no page lacks."""
        return not (self.missing or self.outdated or self.undeleted or self.unlisted)

    @property
    def is_alarming(self) -> bool:
        """Whether something is withheld, lost or set back."""
        odd = any(device.is_set_back or device.is_doubled for device in self.devices)
        return not self.holds or odd or bool(self.relapsed)


NOTHING_CHECKED: Final = ManifestCheck()


class ManifestRows:
    """The notes of a ledger about manifests, the states that are compared with them, and what relays have.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def states(self) -> dict[str, ListedState]:
        """The state of every slot that a list may name."""
        return slot_states(self._db)

    def wrote(self, device: str, event_id: str) -> bool:
        """Whether this ledger, as it stands, wrote a manifest: it then lacks nothing of it."""
        return wrote(self._db, device, event_id)

    def shown_by(self, url: str) -> set[str]:
        """The slots whose head a relay has shown."""
        return {slot for (slot,) in self._db.rows(f"{_SHOWN} WHERE r.url = ?", url)}

    def shown_by_any(self) -> set[str]:
        """The slots whose head any relay has shown."""
        return {slot for (slot,) in self._db.rows(_SHOWN)}

    def copies(self, urls: Sequence[str], min_acks: int) -> CopyCounts:
        """How many relays have each current record, see `copies.copy_counts`."""
        return copy_counts(self._db, urls, min_acks)

    def sent(self, seqs: Collection[int]) -> dict[int, dict[str, tuple[str, float]]]:
        """By seq of some events, and by relay: the state there, and when the event was last sent or is due."""
        return {seq: {url: (state, due) for url, state, due in self._db.rows(_SENT, seq)} for seq in seqs}

    def seen(self, device: str) -> tuple[int, str]:
        """The highest sequence that was seen of a device, and a hash of what was said with it; 0 and empty if none was."""
        seq, _, said = self._read(_SEEN + device).partition(":")
        return int(seq or 0), said

    def note_seen(self, device: str, seq: int, said: str) -> None:
        """Note the sequence of a device."""
        self._write(_SEEN + device, f"{seq}:{said}")

    def written(self) -> tuple[float, str]:
        """When this ledger last wrote a manifest, seconds since 1970, and a hash of its list; 0 and empty for never."""
        at, _, said = self._read(_WRITTEN).partition(":")
        return float(at or 0), said

    def note_written(self, at: float, said: str) -> None:
        """Note that a manifest was written."""
        self._write(_WRITTEN, f"{at}:{said}")

    def last_check(self) -> ManifestCheck:
        """What the last check found."""
        stored = json.loads(self._read(_CHECK) or "{}")
        devices = tuple(DeviceManifest(**device) for device in stored.pop("devices", ()))
        for name in ("unanswered", "relapsed"):
            stored[name] = tuple(stored.get(name, ()))
        return ManifestCheck(devices=devices, **stored)

    def note_check(self, found: ManifestCheck) -> None:
        """Note what a check found."""
        self._write(_CHECK, json.dumps(asdict(found)))

    def _read(self, name: str) -> str:
        (value,) = self._db.row("SELECT value FROM meta WHERE name = ?", name) or ("",)
        return str(value)

    def _write(self, name: str, value: str) -> None:
        with self._db.transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", name, value)
