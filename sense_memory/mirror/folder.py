"""A mirrored folder: which files it has, and writes that overwrite nothing that was not read.

Guaranteed: a file is replaced or removed only if it holds the bytes that the caller has seen. A new text is written into a
temporary file in the same folder, made durable, and renamed, so that every reader sees the old text or the new one. Just
before the rename the file is read again. A hard link keeps the old file until after the rename: a program that wrote into it
in between gets it back. What remains is the instant between that look and the rename, for a program that itself renames a
file into this place.

Links are never followed, and nothing is written through one, so nothing outside the folder is read or changed.
"""

from __future__ import annotations

import os
import secrets
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.limits import MAX_PLAINTEXT_BYTES
from sense_memory.mirror.name_patterns import OURS, is_plain_name
from sense_memory.operating_system import open_plain
from sense_memory.plain_text import is_unicode


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.mirror.name_patterns import Patterns

MAX_FILES_COUNT: Final = 5_000  # of one mirror; more is most likely a folder that was not meant
MAX_DEPTH_COUNT: Final = 32  # folders in one another
YOUNG_SECONDS: Final = 2.0  # a file that was written less than this ago may still be being written


class ChangedMeanwhile(Exception):
    """A file is not, or no longer, as the caller has seen it; it was left as it is."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A text file in a folder.

    Attributes:
        path: relative, as the file system spells it.
        data: its bytes.
        is_young: whether it was written just now.
    """

    path: str
    data: bytes = field(repr=False)
    is_young: bool = False

    @property
    def text(self) -> str:
        """Its text, word for word."""
        return self.data.decode()


@dataclass(slots=True)
class FolderScan:
    """What a folder holds.

    Attributes:
        files: the text files by name: the path, NFC-normalised, with `/`.
        left: by name, why a file is left alone; the names of folders end in `/`, and stand for all that is in them.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def is_left(self, name: str) -> bool:
        """Whether a name is left alone, by itself or with a folder."""
        parts = name.split("/")
        return name in self.left or any(
            f"{'/'.join(parts[:count])}/" in self.left for count in range(1, len(parts))
        )


# ── Reading ─────────────────────────────────────────────────────────────────────────────


class MirroredFolder:
    """A folder of files.

    Args:
        path: absolute, links resolved.
        patterns: which names are meant.
        clock: seconds since 1970, by which the file system dates files.
    """

    def __init__(self, path: Path, patterns: Patterns, clock: Callable[[], float]) -> None:
        self.path, self._patterns, self._clock = path, patterns, clock

    def number(self) -> int:
        """The number by which the file system knows the folder: another one if something is mounted there, or no longer.

        The number of the device is no help: for many file systems it changes when the machine starts.

        Raises:
            OSError: the folder is not there.
        """
        return self.path.stat().st_ino

    def scan(self, known: Callable[[str, bytes], bool] = lambda _name, _data: False) -> FolderScan:
        """Read the folder.

        Args:
            known: whether the text of a file is known elsewhere; what a kill left behind is removed only then.

        Raises:
            OSError: the folder is not there, or cannot be read.
        """
        scan = FolderScan()
        self._scan_folder("", scan, known, 0)
        return scan

    def _scan_folder(
        self, folder: str, scan: FolderScan, known: Callable[[str, bytes], bool], depth: int
    ) -> None:
        with os.scandir(self.path / folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith(OURS):
                self._clear(path, known)
                continue
            name = unicodedata.normalize("NFC", path)
            if not is_unicode(name):
                scan.left[path.encode("utf-8", "replace").decode()] = "its name is not valid Unicode"
            elif entry.is_dir(follow_symlinks=False):
                self._scan_inner(path, name, scan, known, depth)
            elif entry.is_symlink() and entry.is_dir():
                if self._patterns.reach(name) and is_plain_name(name):
                    scan.left[f"{name}/"] = self._link(path)
            elif self._patterns.holds(name):
                self._add(entry, path, name, scan)

    def _scan_inner(
        self, path: str, name: str, scan: FolderScan, known: Callable[[str, bytes], bool], depth: int
    ) -> None:
        if not self._patterns.reach(name):
            return
        if depth >= MAX_DEPTH_COUNT:
            scan.left[f"{name}/"] = f"more than {MAX_DEPTH_COUNT} folders in one another"
            return
        try:
            self._scan_folder(path, scan, known, depth + 1)
        except OSError as error:
            scan.left[f"{name}/"] = f"cannot be read ({error.strerror or error})"

    def _add(self, entry: os.DirEntry[str], path: str, name: str, scan: FolderScan) -> None:
        if entry.is_symlink():
            scan.left[name] = self._link(path)
        elif not entry.is_file(follow_symlinks=False):
            scan.left[name] = "not a file but a pipe, a socket or a device"
        elif name in scan.files or name in scan.left:
            scan.left[name] = "two files have this name in different Unicode normalisations"
            scan.files.pop(name, None)
        else:
            self._read(path, name, scan)

    def _read(self, path: str, name: str, scan: FolderScan) -> None:
        try:
            data, status = self._bytes(path)
        except FileNotFoundError:
            return
        except OSError as error:
            scan.left[name] = f"cannot be read ({error.strerror or error})"
            return
        is_young = abs(self._clock() - status.st_mtime) < YOUNG_SECONDS
        problem = _problem(data, is_young=is_young)
        if problem:
            scan.left[name] = problem
        else:
            scan.files[name] = FoundFile(path, data, is_young)

    def _bytes(self, path: str) -> tuple[bytes, os.stat_result]:
        """The bytes of a file, one more than fit at most, and its status."""
        descriptor = open_plain(self.path / path)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError("not a file")
            return file.read(MAX_PLAINTEXT_BYTES + 1), status

    def _link(self, path: str) -> str:
        target = Path(os.path.realpath(self.path / path))
        where = "a link" if target.is_relative_to(self.path) else "a link that leads out of the folder"
        return f"{where}; links are not followed"

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    def signature(self) -> dict[str, tuple[int, ...]]:
        """By path, what changes with a file: times, size and number. For a quick look whether anything did.

        The second time is that of the last change of the file or of its mode, which no program can set back.
        """
        found: dict[str, tuple[int, ...]] = {}
        for above, folders, files in os.walk(self.path):
            beneath = os.path.relpath(above, self.path).replace(os.sep, "/")
            start = "" if beneath == "." else f"{beneath}/"
            folders[:] = [name for name in folders if self._patterns.reach(start + name)]
            for name in files:
                if self._patterns.holds(unicodedata.normalize("NFC", start + name)):
                    with suppress(OSError):
                        status = (Path(above) / name).stat(follow_symlinks=False)
                        times = status.st_mtime_ns, status.st_ctime_ns
                        found[start + name] = *times, status.st_size, status.st_ino
        return found

    def write(self, name: str, data: bytes, seen: FoundFile | None) -> None:
        """Write a file, durably.

        Args:
            name: relative.
            data: its bytes.
            seen: the file as the caller has read it; None if it was not there.

        Raises:
            ChangedMeanwhile: the file has other bytes by now; nothing was written.
            OSError: it cannot be written, or a link is in the way.
        """
        target = self._place(name if seen is None else seen.path, makes=True)
        temporary = target.with_name(f"{OURS}new-{secrets.token_hex(6)}")
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if seen is not None:
                    temporary.chmod(stat.S_IMODE(target.stat(follow_symlinks=False).st_mode) & 0o777)
                file.flush()
                os.fsync(file.fileno())
            if seen is None:
                self._put_new(temporary, target)
            else:
                self._replace(temporary, target, seen)
        finally:
            temporary.unlink(missing_ok=True)
        _make_durable(target.parent)

    def _put_new(self, temporary: Path, target: Path) -> None:
        """Give a new file its name, which must be free."""
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise ChangedMeanwhile from None
        except OSError:  # a file system without hard links
            if os.path.lexists(target):
                raise ChangedMeanwhile from None
            temporary.rename(target)

    def _replace(self, temporary: Path, target: Path, seen: FoundFile) -> None:
        aside = target.with_name(f"{OURS}old-{secrets.token_hex(6)}-{target.name}"[:250])
        try:
            os.link(target, aside, follow_symlinks=False)
        except FileNotFoundError:
            raise ChangedMeanwhile from None
        except (OSError, NotImplementedError):  # a file system without hard links
            if not self._holds(target, seen.data):
                raise ChangedMeanwhile from None
            temporary.replace(target)
            return
        try:
            if not self._holds(aside, seen.data):
                raise ChangedMeanwhile
            temporary.replace(target)
            if not self._holds(aside, seen.data):  # somebody wrote into the old file meanwhile: it goes on
                aside.replace(target)
                raise ChangedMeanwhile
        finally:
            aside.unlink(missing_ok=True)

    def remove(self, seen: FoundFile) -> None:
        """Remove a file, and the folders that are empty without it.

        Raises:
            ChangedMeanwhile: the file has other bytes by now; it stays.
            OSError: it cannot be removed.
        """
        target = self._place(seen.path)
        aside = target.with_name(f"{OURS}old-{secrets.token_hex(6)}-{target.name}"[:250])
        try:
            target.rename(aside)
        except FileNotFoundError:
            raise ChangedMeanwhile from None
        if not self._holds(aside, seen.data):
            self._put_new(aside, target)
            aside.unlink()
            raise ChangedMeanwhile
        aside.unlink()
        _make_durable(target.parent)
        for above in target.relative_to(self.path).parents[:-1]:
            try:
                (self.path / above).rmdir()
            except OSError:
                break

    def _holds(self, path: Path, data: bytes) -> bool:
        try:
            return self._bytes(os.fspath(path))[0] == data
        except OSError:
            return False

    def _place(self, name: str, *, makes: bool = False) -> Path:
        """Where a file lies; no folder on the way is a link.

        Raises:
            OSError: a link, or a file, is in the way.
        """
        *above, last = name.split("/")
        folder = self.path
        for part in above:
            folder /= part
            if makes:
                with suppress(FileExistsError):
                    folder.mkdir()
            if not stat.S_ISDIR(folder.stat(follow_symlinks=False).st_mode):
                raise NotADirectoryError(f"{folder} is a link or a file")
        return folder / last

    def is_free(self, name: str) -> bool:
        """Whether nothing has this name, in whichever spelling the file system takes for the same."""
        return not os.path.lexists(self.path / name)

    def is_folder(self, name: str) -> bool:
        """Whether a folder, or a link to one, has this name."""
        return (self.path / name).is_dir()

    def _clear(self, path: str, known: Callable[[str, bytes], bool]) -> None:
        """Remove a file that a killed process left behind; a text that nobody else has becomes a file of its own."""
        ours = self.path / path
        *_, what = path.rpartition("/")
        kind, _, rest = what.removeprefix(OURS).partition("-")
        token, _, original = rest.partition("-")
        with suppress(OSError):
            if kind != "old" or not original:
                ours.unlink()
                return
            data, _ = self._bytes(path)
            folder = path[: len(path) - len(what)]
            if known(unicodedata.normalize("NFC", folder + original), data):
                ours.unlink()
            else:
                stem, dot, suffix = original.rpartition(".")
                rescued = (
                    f"{stem}.recovered-{token[:6]}.{suffix}"
                    if dot and stem
                    else f"{original}.recovered-{token[:6]}"
                )
                self._put_new(ours, ours.with_name(rescued))
                ours.unlink()


def _problem(data: bytes, *, is_young: bool) -> str:
    """Why a file cannot be mirrored; empty if it can."""
    if len(data) > MAX_PLAINTEXT_BYTES:
        return f"larger than {MAX_PLAINTEXT_BYTES:,} bytes, which is more than one memory may have"
    if b"\0" in data:
        return "not text but binary"
    try:
        data.decode()
    except UnicodeDecodeError:
        if is_young:
            return "not valid UTF-8, perhaps because it is still being written"
        return "not valid UTF-8, so it is binary or in another encoding"
    return ""


def _make_durable(folder: Path) -> None:
    """Make the names in a folder durable; some systems cannot."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
