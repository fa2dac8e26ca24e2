"""Key files: one secret key, plain or encrypted, in a file that only its owner can read.

A key file is written once (mode 0600, folder 0700, on disk before the call returns) and never overwritten. A file that
others can read, replace or redirect is refused, with the command that repairs it. Permissions are never changed
silently, because a readable key may have been copied already. No temporary file ever holds a key, and no error repeats
a part of a key.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from typing import TYPE_CHECKING, Final

from sense_memory.errors import BadKey, KeyMissing, UnsafeFile
from sense_memory.nostr.nip49 import log_n_of
from sense_memory.operating_system import IS_WINDOWS, create_private, open_plain, open_to_others, user_number


if TYPE_CHECKING:
    from pathlib import Path

    from sense_memory.nostr.keys import Secret

_MAX_KEY_FILE_BYTES: Final = 1_024  # an nsec has 63 bytes, an ncryptsec 162


def read_key_text(path: Path, *, max_bytes: int = _MAX_KEY_FILE_BYTES) -> str:
    """The text of a key file, if the file is safe. The text may not be a key at all.

    Treat the text as a secret: pass it to a parser and nowhere else.

    Args:
        path: the file.
        max_bytes: of the longest text that is read.

    Raises:
        KeyMissing: there is no such file.
        UnsafeFile: others can read or replace the file, or it is not a plain file; the error says what to do.
        BadKey: the file is too long to be a key file.
    """
    try:
        _refuse_unsafe_folder(path)
        descriptor = open_plain(path)
    except FileNotFoundError:
        raise KeyMissing((f"the key file {path}",)) from None
    except OSError as error:
        raise UnsafeFile(f"the key file {path} cannot be opened ({error.strerror})") from None
    try:
        _refuse_unsafe_file(path, os.fstat(descriptor))
        raw = os.read(descriptor, max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(raw) > max_bytes:
        raise BadKey(f"{path} is not a key file: it is longer than {max_bytes:,} bytes")
    # "replace", because a UnicodeDecodeError would carry the bytes
    return raw.decode("utf-8-sig", errors="replace").strip()


def write_secret(path: Path, secret: Secret) -> None:
    """Write a secret key as nsec to a new file of mode 0600; a new folder gets mode 0700.

    The file and its directory entry are on disk when this returns. If writing fails, no file is left behind.

    Raises:
        UnsafeFile: the file exists (it was not touched), or its folder is open to others.
        OSError: the folder cannot be written, or the disk is full.
    """
    write_private(path, secret.nsec(), instead="another agent name")


def write_ncryptsec(path: Path, text: str) -> None:
    """Write an encrypted key (NIP-49) into a new file, as `write_secret` does.

    Raises:
        BadKey: the text is not an encrypted key that can be opened here; a plain key is never written.
        UnsafeFile: the file exists (it was not touched), or its folder is open to others.
        OSError: the folder cannot be written, or the disk is full.
    """
    log_n_of(text)
    write_private(path, text.strip(), instead="another file name")


def write_private(path: Path, text: str, *, instead: str) -> None:
    """Write a text that holds a key into a new file, as `write_secret` does; `instead` is what to choose if it exists."""
    private_folder(path.parent)
    _refuse_unsafe_folder(path)
    try:
        descriptor = create_private(path)
    except FileExistsError:
        raise UnsafeFile(
            f"the key file {path} exists already, and a key is never overwritten; choose {instead}, or move the file away first"
        ) from None
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(f"{text}\n".encode())
            file.flush()
            os.fsync(descriptor)
        sync_folder(path.parent)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)
        raise


def replace_private(path: Path, text: str) -> None:
    """Replace the text of a file that holds a key, whole or not at all; errors as `write_private`."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # of a process that was killed
    write_private(fresh, text, instead="another file name")
    fresh.replace(path)
    sync_folder(path.parent)


def private_folder(path: Path) -> None:
    """Create a folder and its missing parents with mode 0700; an existing folder keeps its mode."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        # another process may create the same folder at this moment
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def sync_folder(path: Path) -> None:
    """Flush a folder to disk (fsync), so that a new or renamed file survives a power loss."""
    if IS_WINDOWS:  # a folder cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {
            errno.EINVAL,
            errno.ENOTSUP,
        }:  # some network file systems do not support fsync of a folder
            raise
    finally:
        os.close(descriptor)


def _refuse_unsafe_folder(path: Path) -> None:
    """Refuse a folder that others can write or redirect: they could replace the key."""
    folder = path.parent
    if path.is_symlink() or folder.is_symlink():
        what = "the key file" if path.is_symlink() else "the folder of the key file"
        raise UnsafeFile(
            f"{what} {path} is a symbolic link, which others may redirect, so the key was not used; set SENSE_MEMORY_KEY_FILE={_quoted(path.resolve())}"
        )
    mode = folder.stat().st_mode if folder.exists() else 0
    # In a sticky folder such as /tmp nobody can replace the file of another user.
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise UnsafeFile(
            f"everyone on this machine can write to the folder of the key file {path}, so the key was not used; run `chmod go-w {_quoted(folder)}`"
        )


def _refuse_unsafe_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFile(f"the key file {path} is not a plain file; the key was not used")
    if status.st_uid not in {user_number(), 0}:
        raise UnsafeFile(
            f"the key file {path} belongs to another user of this machine, so the key was not used; run `chown $(id -u) {_quoted(path)}` if the key is yours"
        )
    mode = stat.S_IMODE(status.st_mode)
    if open_to_others(status):
        raise UnsafeFile(
            f"others can read the key file {path} (mode {mode:04o}), so the key was not used; run `chmod 600 {_quoted(path)}`"
        )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
