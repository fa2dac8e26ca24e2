"""The device id: the name under which this ledger counts its edits and numbers its pages of the log.

Other devices conclude from an id and a count what a version knew, and a page of the log is written by the device that its
address names. So two writers must never have one id, even if a ledger was copied: by `cp -r`, in the image of a container
or a virtual machine, or by a restored snapshot of a disk.

Guaranteed: an id has one holder at a time, and the holder's ledger contains everything that was written under the id.

Why it is safe: a process gets an id by taking the id's *handover*, a small file in a file system that lies in memory
only, so no copy of a disk contains it. Removing the file takes it, and only one process can remove it. When the process
closes its ledger, it puts the file back. The file names the event that was written last under the id, and the ledger
notes the same event in the transaction that writes it. A handover is used only if both agree, so a ledger that was set
back does not get the id. Handovers are kept by the path of the ledger, so a copy at another path finds none. If the
memory of the whole machine was set back, its clock has jumped against the time since it was started, and the handover
is not used either. If the memory of a process was copied all the same, the id is given up as soon as a relay serves a text
under it that this ledger never wrote, and the edit is named as one that may have lost. A process without a handover makes
a new id: after a restart of the machine, if the last process was killed, or while another process uses the ledger.

An id may go on elsewhere: the original of a copy writes under it, and so did this ledger before it was set back. So an id
alone does not say who wrote a text. Beside the last event, the ledger notes how many events it had then. A text under
an id is its own only if its event came before that; a later one came from a relay (see `wrote`).

Cost: one row of the table `meta` in each transaction that writes events; one file for each process that writes; an id of
eight digits for each time that a handover was lost, which version vectors keep (see `records.origins`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.operating_system import user_number


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.ledger.database import Database

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of this user's own is made in it
# Handovers of one user, 4 KB each; then the older half goes, which costs new ids at most.
_KEPT_COUNT: Final = 1_000
_JUMP_SECONDS: Final = 10  # a clock that was set by less is not suspected
# Begins the name of an id's row. Its value is the id (hex) of the last event, a colon and the last seq of the ledger then;
# empty before the first event. Earlier versions wrote the id alone.
_ROW: Final = "device:"
_IS_OWN: Final = f"SELECT 1 FROM meta WHERE name = '{_ROW}' || ?1 OR (name = 'device' AND value = ?1)"


class DeviceId:
    """The id of this process's ledger.

    Args:
        db: the open ledger file.

    Attributes:
        is_renewed: whether this process has made an id although the ledger had one before, so that the ledger may be a
            copy, or may have been set back.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._id, self._last, self._offset = "", "", 0
        self.is_renewed = False

    def get(self) -> str:
        """The id, 8 hex digits; taken over or made at the first call."""
        if self._id and abs(_clock_offset() - self._offset) <= _JUMP_SECONDS:
            return self._id
        self._id, self._offset = "", _clock_offset()
        for device, last in _taken(self._db.path):
            if self._db.row("SELECT value FROM meta WHERE name = ?", _ROW + device) == (last,):
                self._id, self._last = device, last
                return device
        device = secrets.token_hex(4)
        with self._db.transaction():
            self.is_renewed |= self._db.row(_ANY) is not None
            self._db.execute("INSERT INTO meta VALUES (?, '')", _ROW + device)
        self._id, self._last = device, ""
        return device

    def record(self, event_id: str) -> None:
        """Record the last event of a transaction that writes events; call this in the transaction.

        Args:
            event_id: 64 hex digits.
        """
        if self._id:
            (seq,) = self._db.row("SELECT max(seq) FROM events") or (None,)
            self._last = f"{event_id}:{seq or 0}"
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", _ROW + self._id, self._last)

    def renew_if_shared(self, device: str, said: str, event_id: str) -> bool:
        """Give the id up if a relay serves a text under it that this ledger never wrote; returns whether it did.

        Then the memory of this process was copied with the file.

        Args:
            device: the id under which the text was written.
            said: id of the event that had the text first, 64 hex digits.
            event_id: id of the event that was served, which this ledger did not have before.
        """
        if not self._id or device != self._id:
            return False
        if said != event_id and self._db.row("SELECT 1 FROM events WHERE id = ?", bytes.fromhex(said)):
            return False
        self._id = ""
        return True

    def hand_over(self) -> None:
        """Leave the id to the next process. After this, this process makes a new id when it needs one."""
        device, self._id = self._id, ""
        if device and self._db.path is not None and abs(_clock_offset() - self._offset) <= _JUMP_SECONDS:
            _put(self._db.path, device, self._last)


_ANY: Final = f"SELECT 1 FROM meta WHERE name = 'device' OR substr(name, 1, {len(_ROW)}) = '{_ROW}' LIMIT 1"


def is_own_device(db: Database, device: str) -> bool:
    """Whether a version with a device id was written by this ledger, or by the ledger of which it is a copy."""
    return bool(device) and db.row(_IS_OWN, device) is not None


def wrote(db: Database, device: str, said: str) -> bool:
    """Whether this ledger, as it stands, wrote a text: not a copy of it, and not this ledger before it was set back.

    Of an id of an earlier version of this program, whose last event is not known, every text is taken for its own.

    Args:
        db: the open ledger file.
        device: the id under which the text was written.
        said: id of the event that had the text first, 64 hex digits.
    """
    if not is_own_device(db, device):
        return False
    (last,) = db.row("SELECT value FROM meta WHERE name = ?", _ROW + device) or (None,)
    upto = None if last is None else _seq_in(db, last)
    (seq,) = db.row(_SEQ, bytes.fromhex(said)) or (None,)
    return upto is None or (seq is not None and seq <= upto)


_SEQ: Final = "SELECT seq FROM events WHERE id = ?"


def _seq_in(db: Database, last: str) -> int | None:
    """The seq up to which a ledger held what was written under an id, from the id's row; None if it is not known."""
    event_id, _, seq = last.partition(":")
    if seq or not event_id:
        return int(seq or 0)
    (found,) = db.row(_SEQ, bytes.fromhex(event_id)) or (None,)
    return None if found is None else int(found)


# ── Handovers ───────────────────────────────────────────────────────────────────────────
# Each ledger has a folder, named by a hash of its path. A file in it, named by the device id, holds the last event's id and
# the clock's offset.


def _taken(path: Path | None) -> Iterator[tuple[str, str]]:
    """Take the handovers of a ledger one by one: the id, and the last event that was written under it."""
    home = None if path is None else _folder()
    if path is None or home is None:
        return
    folder, names = home / _name(path), list[str]()
    with suppress(OSError):  # there is no handover
        names = os.listdir(folder)  # noqa: PTH208 - paths take five times as long
    for file in (folder / name for name in sorted(names)):
        with suppress(OSError, ValueError):  # another process was faster
            last, _, offset = file.read_text().partition(" ")
            file.unlink()
            if abs(int(offset) - _clock_offset()) <= _JUMP_SECONDS:
                yield file.name, last


def _put(path: Path, device: str, last: str) -> None:
    home = _folder()
    if home is None:
        return
    folder = home / _name(path)
    with suppress(OSError):  # the next process makes a new id
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _remove_oldest(home)
        made = os.open(folder / device, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(made, "w") as file:
            file.write(f"{last} {_clock_offset()}")


def _remove_oldest(home: Path) -> None:
    """Remove the handovers of the ledgers that gave one the longest ago, if there are very many ledgers."""
    links = home.stat().st_nlink  # 2, and one for each folder, where the file system counts them
    if 2 <= links <= _KEPT_COUNT + 2:
        return  # without reading a list of a thousand names
    folders = list(home.iterdir())
    if len(folders) > _KEPT_COUNT:
        for folder in sorted(folders, key=lambda other: other.stat().st_mtime)[: _KEPT_COUNT // 2]:
            shutil.rmtree(folder, ignore_errors=True)


def _name(path: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]


def _folder() -> Path | None:
    """The folder of this user's handovers; None if the system has no place that is empty after a restart."""
    place, session = _MEMORY, ""
    if sys.platform == "darwin":  # no file system lies in memory, but each start of the system has a name
        place, session = Path(tempfile.gettempdir()), _boot_session()
        if not session:
            return None
    elif not os.path.ismount(os.path.realpath(place)):  # of a container's image, perhaps
        return None
    folder = place / f"sense-memory-{user_number()}{session}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == user_number() and not found.st_mode & 0o022:
            return folder
    return None


def _boot_session() -> str:
    """The name of this start of macOS, with a leading hyphen; empty if it is not known."""
    import ctypes

    with suppress(OSError, AttributeError, ValueError):
        value, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        system = ctypes.CDLL(None)
        if system.sysctlbyname(b"kern.bootsessionuuid", value, ctypes.byref(size), None, 0) == 0:
            return f"-{value.value.decode('ascii')}"
    return ""


def _clock_offset() -> int:
    """The time at which the machine was started, seconds since 1970; 0 where sleep stops the clock that counts from it.

    It changes only if the clock is set, or if the memory of the machine is set back.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if boot is None else round(time.time() - time.clock_gettime(boot))
