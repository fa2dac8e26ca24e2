"""What a mirror last saw the same on both sides, and which folders are mirrored: files beside the ledger.

Each mirror has one file of JSON lines: its mapping, then a line for each change. A line that a kill cut off is ignored, as
if the kill had come earlier. The file names versions by their events and holds no text. Nothing of this is written into a
mirrored folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from sense_memory.operating_system import create_private, lock


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CUT_OFF: Final = 1 << 40  # as a number of lines: the last line is not whole, so the file is written anew
_REWRITTEN: Final = 2  # times as many lines as files: then the file is written anew


@dataclass(frozen=True, slots=True)
class Mirror:
    """A folder that is mirrored.

    Attributes:
        folder: its absolute path, links resolved.
        project: whose files it holds.
        only: patterns of the names that are mirrored; empty for all text files.
        allow: names of files that may hold what looks like credentials.
    """

    folder: str
    project: str
    only: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class Base(NamedTuple):
    """The version of a file that was last the same on both sides.

    Attributes:
        event_id: of the version in the ledger.
        digest: of the bytes in the folder.
    """

    event_id: str
    digest: str


def digest_of(data: bytes) -> str:
    """A short hash of the bytes of a file."""
    return hashlib.sha256(data).hexdigest()[:32]


@dataclass(slots=True)
class MirrorState:
    """The state of one mirror, which follows its file.

    Attributes:
        path: of its file; None for a ledger in memory.
        mirror: the mapping.
        bases: by name.
        seq: how far the ledger was read.
        due: by name, since when a deleted file is due to be erased, seconds since 1970.
        number: the number by which the file system knows the folder; -1 before the first run.
        lines: of its file.
    """

    path: Path | None
    mirror: Mirror
    bases: dict[str, Base] = field(default_factory=dict)
    seq: int = -1
    number: int = -1
    due: dict[str, float] = field(default_factory=dict)
    lines: int = 0

    def set_base(self, name: str, base: Base | None) -> None:
        """Note, or forget, what both sides have."""
        if self.bases.get(name) == base:
            return
        if base is None:
            del self.bases[name]
        else:
            self.bases[name] = base
        self._append({"name": name, "base": base and [*base]})

    def set_seq(self, seq: int) -> None:
        """Note how far the ledger was read."""
        if seq != self.seq:
            self.seq = seq
            self._append({"seq": seq})

    def set_number(self, number: int) -> None:
        """Note which folder it is."""
        if number != self.number:
            self.number = number
            self._append({"number": number})

    def set_due(self, name: str, since: float | None) -> None:
        """Note since when a deleted file is due to be erased, or that it is not."""
        if self.due.get(name) == since:
            return
        if since is None:
            del self.due[name]
        else:
            self.due[name] = since
        self._append({"due": name, "since": since})

    def _append(self, line: dict[str, Any]) -> None:
        if self.path is None:
            return
        if self.lines > _REWRITTEN * len(self.bases) + 100:
            self.save()
            return
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self.lines += 1

    def save(self) -> None:
        """Write the file anew."""
        if self.path is None:
            return
        mirror = self.mirror
        head = {
            "folder": mirror.folder,
            "project": mirror.project,
            "only": list(mirror.only),
            "allow": list(mirror.allow),
        }
        lines: list[dict[str, Any]] = [head, {"seq": self.seq}, {"number": self.number}]
        lines += [{"due": name, "since": since} for name, since in self.due.items()]
        lines += [{"name": name, "base": [*base]} for name, base in self.bases.items()]
        temporary = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}.new")
        descriptor = create_private(temporary)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        self.lines = len(lines)


class MirrorStates:
    """The states of all mirrors of a ledger.

    Args:
        folder: where they are kept; None for a ledger in memory, which keeps them in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, MirrorState] = {}  # of a ledger in memory

    def all(self) -> list[Mirror]:
        """Every mirror, by folder."""
        if self._folder is None:
            found = [state.mirror for state in self._held.values()]
        else:
            states = (_read(path) for path in sorted(self._folder.glob("*.mirror")))
            found = [state.mirror for state in states if state is not None]
        return sorted(found, key=lambda mirror: mirror.folder)

    def get(self, folder: str) -> MirrorState | None:
        """The state of the mirror of a folder; None if the folder is not mirrored."""
        if self._folder is None:
            return self._held.get(folder)
        return _read(self._folder / _file_of(folder))

    def put(self, mirror: Mirror) -> None:
        """Add a mirror, or change its mapping; with another project it begins anew."""
        state = self.get(mirror.folder)
        if state is None or state.mirror.project != mirror.project:
            path = None if self._folder is None else self._folder / _file_of(mirror.folder)
            state = MirrorState(path, mirror)
        state.mirror = mirror
        if self._folder is None:
            self._held[mirror.folder] = state
        else:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            state.save()

    def remove(self, folder: str) -> bool:
        """Forget a mirror; returns whether there was one."""
        if self._folder is None:
            return self._held.pop(folder, None) is not None
        with suppress(FileNotFoundError):
            (self._folder / _file_of(folder)).unlink()
            return True
        return False


def _file_of(folder: str) -> str:
    """The name of the file with the state of a folder."""
    return f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}.mirror"


def _read(path: Path) -> MirrorState | None:
    """The state in a file; None if there is no file, or none with a mapping."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    lines = list(_lines_of(data))
    head = lines[0] if lines else {}
    folder, project = head.get("folder"), head.get("project")
    if not isinstance(folder, str) or not isinstance(project, str):
        return None
    state = MirrorState(path, Mirror(folder, project, _texts(head.get("only")), _texts(head.get("allow"))))
    for line in lines[1:]:
        name, base, seq, number, due = (line.get(key) for key in ("name", "base", "seq", "number", "due"))
        if isinstance(seq, int):
            state.seq = seq
        elif isinstance(number, int):
            state.number = number
        elif isinstance(due, str):
            state.due.pop(due, None)
            if isinstance(since := line.get("since"), int | float):
                state.due[due] = since
        elif isinstance(name, str):
            state.bases.pop(name, None)
            if isinstance(base, list) and len(base) == len(Base._fields):
                state.bases[name] = Base(*map(str, base))
    state.lines = len(lines) if data.endswith(b"\n") else _CUT_OFF
    return state


def _lines_of(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n"):
        with suppress(orjson.JSONDecodeError):
            found = orjson.loads(line)
            if isinstance(found, dict):
                yield found


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


# ── One mirror of a folder at a time ────────────────────────────────────────────────────


class FolderLock:
    """The lock of a mirrored folder, on this machine: whichever agent mirrors it. The folder gets no file for it.

    Args:
        folder: that is mirrored.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def __enter__(self) -> bool:
        """Take the lock; returns whether it was free. Where the file system has no locks, it counts as free."""
        try:
            self._descriptor = os.open(self._folder, os.O_RDONLY)
        except OSError:  # Windows opens no folders
            return True
        try:
            return lock(self._descriptor)
        except OSError:
            return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
