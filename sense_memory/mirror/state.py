"""What a mirror last saw the same on both sides, and which folders are mirrored: files beside the ledger.

Each mirror has two files. `FOLDER.mirror` says how the folder is mirrored; only `MirrorStates` writes it, when somebody changes
or ends the mirror. `FOLDER.TOKEN.state` has a JSON line for each thing that a run noted; only runs write it. So a run that goes
on meanwhile cannot undo such a change. Each mirror, and each other project of it, has a token of its own: what was noted
under one counts for no other.

A line that a kill cut off is ignored, as if the kill had come earlier. The files name versions by their events and hold no text.
Nothing of this is written into a mirrored folder.
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
    from collections.abc import Iterable, Iterator
    from pathlib import Path

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
        path: of the file with the notes; None for a ledger in memory.
        mirror: the mapping.
        token: of this mirror, which is part of the file's name.
        bases: by name.
        seq: how far the ledger was read.
        number: the number by which the file system knows the folder; -1 before the first run.
        due: by name, since when a deleted file is due to be erased, seconds since 1970.
        lines: of its file.
        is_whole: whether the file is there and its last line is whole; else the next note writes the file anew.
    """

    path: Path | None
    mirror: Mirror
    token: str = ""
    bases: dict[str, Base] = field(default_factory=dict)
    seq: int = -1
    number: int = -1
    due: dict[str, float] = field(default_factory=dict)
    lines: int = 0
    is_whole: bool = False

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
        if self.is_whole and not self.path.exists():  # the mirror was ended meanwhile
            return
        if not self.is_whole or self.lines > _REWRITTEN * len(self.bases) + 100:
            self.save()
            return
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self.lines += 1

    def save(self) -> None:
        """Write the file anew."""
        if self.path is None:
            return
        lines: list[dict[str, Any]] = [{"seq": self.seq}, {"number": self.number}]
        lines += [{"due": name, "since": since} for name, since in self.due.items()]
        lines += [{"name": name, "base": [*base]} for name, base in self.bases.items()]
        _write_anew(self.path, lines)
        self.lines, self.is_whole = len(lines), True

    def read(self, older: Iterable[dict[str, Any]]) -> None:
        """Read the file.

        Args:
            older: the notes if there is no file: earlier versions of the program kept them beside the mapping.
        """
        data = b""
        if self.path is not None:
            with suppress(FileNotFoundError):
                data, older = self.path.read_bytes(), ()
        lines = [*older, *_lines_of(data)]
        for line in lines:
            self._take(line)
        self.lines, self.is_whole = len(lines), data.endswith(b"\n")

    def _take(self, line: dict[str, Any]) -> None:
        name, base, seq, number, due = (line.get(key) for key in ("name", "base", "seq", "number", "due"))
        if isinstance(seq, int):
            self.seq = seq
        elif isinstance(number, int):
            self.number = number
        elif isinstance(due, str):
            self.due.pop(due, None)
            if isinstance(since := line.get("since"), int | float):
                self.due[due] = since
        elif isinstance(name, str):
            self.bases.pop(name, None)
            if isinstance(base, list) and len(base) == len(Base._fields):
                self.bases[name] = Base(*map(str, base))


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
            mappings = (_mapping(path) for path in sorted(self._folder.glob("*.mirror")))
            found = [mapping.mirror for mapping in mappings if mapping is not None]
        return sorted(found, key=lambda mirror: mirror.folder)

    def get(self, folder: str) -> MirrorState | None:
        """The state of the mirror of a folder; None if the folder is not mirrored."""
        if self._folder is None:
            return self._held.get(folder)
        mapping = _mapping(self._folder / f"{_name_of(folder)}.mirror")
        if mapping is None:
            return None
        state = self._state(mapping.mirror, mapping.token)
        state.read(mapping.notes)
        return state

    def put(self, mirror: Mirror) -> None:
        """Add a mirror, or change its mapping; with another project it begins anew."""
        state = self.get(mirror.folder)
        if state is None or state.mirror.project != mirror.project:
            state = self._state(mirror, secrets.token_hex(4))
        state.mirror = mirror
        if self._folder is None:
            self._held[mirror.folder] = state
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not state.is_whole:
            state.save()
        head = {
            "folder": mirror.folder,
            "project": mirror.project,
            "only": list(mirror.only),
            "allow": list(mirror.allow),
            "token": state.token,
        }
        _write_anew(self._folder / f"{_name_of(mirror.folder)}.mirror", [head])
        self._remove_notes(mirror.folder, state.path)

    def remove(self, folder: str) -> bool:
        """Forget a mirror; returns whether there was one."""
        if self._folder is None:
            return self._held.pop(folder, None) is not None
        with suppress(FileNotFoundError):
            (self._folder / f"{_name_of(folder)}.mirror").unlink()
            self._remove_notes(folder)
            return True
        return False

    def _state(self, mirror: Mirror, token: str) -> MirrorState:
        """The state of a mirror, not read yet."""
        path = None if self._folder is None else self._folder / f"{_name_of(mirror.folder)}.{token}.state"
        return MirrorState(path, mirror, token)

    def _remove_notes(self, folder: str, kept: Path | None = None) -> None:
        """Remove what was noted about the mirrors of a folder, except for one file."""
        for path in self._folder.glob(f"{_name_of(folder)}.*.state") if self._folder else ():
            if path != kept:
                path.unlink(missing_ok=True)


class _Mapping(NamedTuple):
    """What the file with a mapping says.

    Attributes:
        mirror: the mapping.
        token: of the mirror; empty in a file of an earlier version.
        notes: what an earlier version noted after the mapping.
    """

    mirror: Mirror
    token: str
    notes: list[dict[str, Any]]


def _mapping(path: Path) -> _Mapping | None:
    """The mapping in a file; None if there is no file, or none with a mapping."""
    try:
        head, *notes = [*_lines_of(path.read_bytes())] or [{}]
    except FileNotFoundError:
        return None
    folder, project, token = head.get("folder"), head.get("project"), head.get("token", "")
    if not isinstance(folder, str) or not isinstance(project, str) or not _is_token(token):
        return None
    return _Mapping(
        Mirror(folder, project, _texts(head.get("only")), _texts(head.get("allow"))), token, notes
    )


def _is_token(value: Any) -> bool:
    """Whether a value can be part of a file's name."""
    return isinstance(value, str) and (not value or value.isalnum())


def _name_of(folder: str) -> str:
    """How the names of the files about a mirrored folder begin."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _write_anew(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write a file of JSON lines durably; a kill leaves the old file or the new one."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        with os.fdopen(create_private(temporary), "wb") as file:
            file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
