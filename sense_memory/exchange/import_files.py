"""The files of a folder, of a zip archive, or a single file; and the decoding of their bytes.

Imported files are not trusted, so their size is bounded: a file may have `MAX_FILE_BYTES`, even if an archive states
another size; all files together `MAX_TOTAL_BYTES`; and no large file may unpack to more than a hundred times its size.
Links to folders are not followed, because they may form a circle, nor links to files outside of the folder, because these
may be secrets. Nothing is unpacked to disk, so a name in an archive cannot reach outside.
"""

from __future__ import annotations

import codecs
import os
import stat
import zipfile
import zlib
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.exchange.items import Problem


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

MAX_FILE_BYTES: Final = 1_000_000_000  # an export of ten years of chats has some 500 MB
MAX_TOTAL_BYTES: Final = 2_000_000_000  # of all files together, whose texts are held in memory
MAX_NOTE_BYTES: Final = 50_000_000  # of one Markdown file
MAX_FILES_COUNT: Final = 200_000
MAX_DEPTH: Final = 100  # of folders; `os.walk` of Python 3.11 is recursive
_PIECE_BYTES: Final = 1 << 20
_SMALL_BYTES: Final = 10_000_000  # a file of at most this size may have any compression ratio
_MAX_RATIO: Final = 100  # exports of chats are compressed to a tenth
_HIDDEN: Final = "hidden files and folders"
SQLITE_COMPANIONS: Final = ("-wal", "-journal")  # files beside a SQLite file that hold changes of it
SQLITE_HEAD: Final = b"SQLite format 3\0"
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to import.

    Attributes:
        name: its path within the folder or archive, with `/`.
        shown: its name for people and for `document:` origins, such as `vault/People/Lisa.md`.
        size: its size in bytes, as the folder or archive states.
        open: opens the file; raises InvalidInput if it must not be unpacked.
        budget: how many bytes of the import may still be read.
    """

    name: str
    shown: str
    size: int
    open: Callable[[], IO[bytes]] = field(repr=False)
    budget: Budget = field(repr=False)

    @property
    def path(self) -> PurePosixPath:
        """The name as a path."""
        return PurePosixPath(self.name)


@dataclass(slots=True)
class SourceFiles:
    """The files to import, and what was left out while listing them.

    Attributes:
        label: the name of the folder, archive or file, such as `vault`.
        sources: the files, by name.
        problems: files that cannot be read, each with the reason.
        left_out: how many files were left out, by reason.
        is_single: whether a single file is imported, which is no archive.
    """

    label: str
    sources: list[Source] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    is_single: bool = False

    def named(self, *names: str) -> list[Source]:
        """The files with these names, in any case, in the top folder."""
        wanted = {name.casefold() for name in names}
        return [source for source in self.sources if source.name.casefold() in wanted]


def open_files(path: Path) -> SourceFiles:
    """The files of a folder, of a zip archive, or one file.

    Raises:
        InvalidInput: the path is neither a file nor a folder, is an empty folder, or is a damaged archive.
        OSError: the path cannot be read.
    """
    label = _label(path)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        files = _folder(path, label)
        if not files.sources and not files.problems:
            raise InvalidInput(f"{path} contains no files; nothing was written")
        return files
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is neither a file nor a folder; nothing was written")
    with path.open("rb") as file:
        head = file.read(len(SQLITE_HEAD))
    if head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}:
        return _archive(path, path.name)
    # The name of the folder belongs to the origin, because every project has a MEMORY.md.
    shown = f"{path.absolute().parent.name}/{path.name}".lstrip("/")
    budget = Budget()
    beside = [path.with_name(f"{path.name}{suffix}") for suffix in SQLITE_COMPANIONS if head == SQLITE_HEAD]
    sources = [
        Source(each.name, shown, each.stat().st_size, partial(_open, each), budget)
        for each in (path, *(each for each in beside if each.is_file() and not each.is_symlink()))
    ]
    return SourceFiles(label, sources, is_single=True)


def _label(path: Path) -> str:
    return path.name if path.name not in {"", ".", ".."} else path.resolve().name or "files"


def _folder(root: Path, label: str) -> SourceFiles:
    files, budget = SourceFiles(label), Budget()

    def failed(error: OSError) -> None:
        name = os.path.relpath(error.filename, root) if error.filename else label
        files.problems.append(Problem(f"{label}/{name}", 0, f"cannot be read ({error.strerror})"))

    for folder, folders, names in os.walk(root, onerror=failed):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        depth = len(here.relative_to(root).parts)
        if depth >= MAX_DEPTH and folders:
            shown = f"{label}/{here.relative_to(root).parts[0]}/…"
            files.problems.append(
                Problem(shown, 0, f"has folders more than {MAX_DEPTH} deep; they were left out")
            )
            folders.clear()
        for name in links:
            files.problems.append(
                Problem(f"{label}/{(here / name).relative_to(root).as_posix()}", 0, "a link to a folder")
            )
        hidden = {name for name in folders if name.startswith(".") or name == "node_modules"}
        files.left_out[_HIDDEN] += len(hidden)
        folders[:] = sorted(name for name in folders if name not in {*links, *hidden})
        for name in sorted(names):
            _add_file(files, root, here / name, label, budget)
        if len(files.sources) > MAX_FILES_COUNT:
            raise InvalidInput(
                f"import its folders one by one; {root} has more than {MAX_FILES_COUNT:,} files"
            )
    files.left_out += Counter()  # drops zeros
    return files


def _add_file(files: SourceFiles, root: Path, path: Path, label: str, budget: Budget) -> None:
    """Add a file of a folder to the sources, or say why it is left out."""
    name = path.relative_to(root).as_posix()
    if path.name.startswith("."):
        files.left_out[_HIDDEN] += 1
        return
    try:
        found = path.stat()
    except OSError as error:
        files.problems.append(Problem(f"{label}/{name}", 0, f"cannot be read ({error.strerror})"))
        return
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        files.problems.append(Problem(f"{label}/{name}", 0, "a link to a file elsewhere"))
        return
    if not stat.S_ISREG(found.st_mode):
        files.left_out["neither files nor folders"] += 1
        return
    files.sources.append(
        Source(_printable(name), _printable(f"{label}/{name}"), found.st_size, partial(_open, path), budget)
    )


def _printable(name: str) -> str:
    """A file name in which bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


class Budget:
    """How many bytes of one import may still be read."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL_BYTES

    def read(self, file: IO[bytes]) -> bytes:
        """Read a whole file.

        Raises:
            InvalidInput: the file has too many bytes, alone or together with the files read before.
        """
        found = file.read(min(MAX_FILE_BYTES, self._left) + 1)
        if len(found) > MAX_FILE_BYTES:
            raise InvalidInput(f"has more than {MAX_FILE_BYTES:,} bytes")
        if len(found) > self._left:
            self._left = 0
            raise InvalidInput(
                f"import the files in parts; together they have more than {MAX_TOTAL_BYTES:,} bytes"
            )
        self._left -= len(found)
        return found

    def copy(self, file: IO[bytes], target: IO[bytes]) -> None:
        """Copy a whole file, piece by piece.

        Raises: as `read`.
        """
        size, most = 0, min(MAX_FILE_BYTES, self._left)
        while piece := file.read(_PIECE_BYTES):
            size += len(piece)
            if size > most:
                raise InvalidInput(f"has more than {most:,} bytes, which is what may still be read")
            target.write(piece)
        self._left -= size


def _archive(path: Path, label: str) -> SourceFiles:
    try:
        archive = zipfile.ZipFile(path)
        infos = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InvalidInput(f"{path} is a damaged zip archive ({error}); nothing was written") from None
    if len(infos) > MAX_FILES_COUNT:
        raise InvalidInput(f"{path} contains more than {MAX_FILES_COUNT:,} files; nothing was written")
    files, budget = SourceFiles(label), Budget()
    names = [info.filename.replace("\\", "/") for info in infos]
    top = {name.partition("/")[0] for name in names if not name.startswith("__MACOSX/")}
    prefix = f"{next(iter(top))}/" if len(top) == 1 and all("/" in name for name in names) else ""
    for info, full in zip(infos, names, strict=True):
        name = full.removeprefix(prefix)
        if any(part.startswith(".") or part == "__MACOSX" for part in full.split("/")):
            files.left_out[_HIDDEN] += 1
        else:
            opener = partial(_open_packed, archive, info)
            files.sources.append(Source(name, f"{label}/{name}", info.file_size, opener, budget))
    return files


def _open_packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & 1:
        raise InvalidInput("unpack the archive with its password first; this file is encrypted")
    if info.file_size > max(_SMALL_BYTES, _MAX_RATIO * info.compress_size):
        raise InvalidInput(
            f"unpack the archive first; this file unpacks to more than {_MAX_RATIO} times its size"
        )
    return archive.open(info)


def read_source(source: Source, size: int | None = None) -> bytes:
    """The bytes of a file.

    Args:
        source: the file.
        size: read only so many bytes from the beginning; they do not count towards `MAX_TOTAL_BYTES`. None reads the
            whole file.

    Raises:
        InvalidInput: the file cannot be read, or has too many bytes.
    """
    with _reading(), source.open() as file:
        return source.budget.read(file) if size is None else file.read(size)


@contextmanager
def _reading() -> Iterator[None]:
    """Turn the errors of reading a file into InvalidInput."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"cannot be unpacked ({error})") from None
    except MemoryError:
        raise InvalidInput("is too large for the memory of this machine") from None


def copy_source(source: Source, target: Path) -> None:
    """Copy a file, piece by piece.

    Raises: as `read_source`.
    """
    with _reading(), source.open() as file, target.open("xb") as copy:
        source.budget.copy(file, copy)


def text_of(raw: bytes) -> tuple[str, str]:
    """Decode bytes; returns the text, and the name of the encoding if it is not UTF-8.

    The encodings are tried in this order: the one that a byte order mark names, UTF-8, UTF-16 if nearly every second byte
    is zero, Windows-1252, Latin-1.

    Raises:
        InvalidInput: the bytes are not text.
    """
    for mark, name in _BOMS:
        if raw.startswith(mark):
            try:
                return raw.decode(name), "" if name == "utf-8-sig" else name.upper()
            except UnicodeDecodeError:
                raise InvalidInput(
                    f"begins with the byte order mark of {name.upper()}, but is not {name.upper()}"
                ) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        if "\0" not in text:
            return text, ""
    head = raw[:4_000]
    for zeros, name in ((head[1::2], "utf-16-le"), (head[::2], "utf-16-be")):
        if zeros and zeros.count(0) > 0.4 * len(zeros):
            with suppress(UnicodeDecodeError):
                text = raw.decode(name)
                if _is_text(text):
                    return text, name.upper()
    for name, shown in (("cp1252", "Windows-1252"), ("latin-1", "Latin-1")):
        with suppress(UnicodeDecodeError):
            text = raw.decode(name)
            if _is_text(text):
                return text, shown
    raise InvalidInput("is not text")


def utf8_of(raw: bytes) -> bytes:
    """JSON in any encoding that `text_of` recognises, in UTF-8. Damaged UTF-8 stays as it is, so that its lines are named.

    Raises: as `text_of`.
    """
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    if not bad:
        return raw.removeprefix(codecs.BOM_UTF8) if "\0" not in text else text_of(raw)[0].encode()
    good = sum(not char.isascii() for char in text) - bad
    return raw if good > bad and "\0" not in text else text_of(raw)[0].encode()


def _is_text(text: str) -> bool:
    """Whether at least 98 % of the first characters are printable."""
    odd = sum(not char.isprintable() and char not in "\r\n\t\f" for char in text[:10_000])
    return "\0" not in text and odd <= 0.02 * len(text[:10_000])
