"""What operating systems do differently: locks, private files, their owners, and the signals that end a program.

POSIX systems are what this package is used and tested on. The branch of Windows has run in tests only, with a lock from
portalocker that was replaced: nobody has run it there. What Windows has no equal of is said where it is missing: a
file's access list is not read, so a file counts as private there, and the folder of a user as the user's own.
"""

from __future__ import annotations

import os
import signal
import stat
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

IS_WINDOWS: Final = os.name == "nt"
if not IS_WINDOWS:
    import fcntl
    import grp
    import pwd

_BINARY: Final = getattr(os, "O_BINARY", 0)  # Windows would change line ends otherwise
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, no wait for a pipe
_PRIVATE: Final = 0o600
_END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


# ── Locks between processes ─────────────────────────────────────────────────────────────
# The system releases a lock when its process ends, however it ends.


def lock(descriptor: int, *, shared: bool = False, waits: bool = False) -> bool:
    """Lock an open file, exclusively or `shared` with other holders; returns whether that was possible.

    Args:
        descriptor: of the file.
        shared: whether others may hold the lock too, if they share it.
        waits: whether to wait until it is possible.

    Raises:
        OSError: the file system has no locks.
    """
    if IS_WINDOWS:
        return _lock_on_windows(descriptor, shared=shared, waits=waits)
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock of an open file."""
    if IS_WINDOWS:
        import portalocker

        portalocker.unlock(descriptor)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock_on_windows(descriptor: int, *, shared: bool, waits: bool) -> bool:
    import portalocker

    flags = portalocker.LockFlags.SHARED if shared else portalocker.LockFlags.EXCLUSIVE
    if not waits:
        flags |= portalocker.LockFlags.NON_BLOCKING
    try:
        portalocker.lock(descriptor, flags)
    except portalocker.LockException:
        return False
    return True


# ── Files ───────────────────────────────────────────────────────────────────────────────


def open_plain(path: Path) -> int:
    """Open a file for reading, following no link and waiting for no pipe; returns its descriptor.

    Windows has no flag for the first: a link is looked for before the file is opened.

    Raises:
        OSError: there is no such file, it is a link, or it cannot be opened.
    """
    if IS_WINDOWS and path.is_symlink():
        raise OSError(f"{path} is a symbolic link")
    return os.open(path, os.O_RDONLY | _NO_LINK | _BINARY)


def create_private(path: Path) -> int:
    """Create a file that only its owner can read, and open it for writing; returns its descriptor.

    Raises:
        FileExistsError: there is one already, or a link.
        OSError: it cannot be created.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _PRIVATE)
    set_mode(descriptor, _PRIVATE)  # the umask may have removed bits
    return descriptor


def set_mode(descriptor: int, mode: int) -> None:
    """Set who may read and write an open file; Windows has no such bits."""
    if not IS_WINDOWS:
        os.fchmod(descriptor, mode)


def open_to_others(status: os.stat_result) -> int:
    """The bits of a file's mode that let others read or write; 0 on Windows, whose access lists are not read."""
    return 0 if IS_WINDOWS else stat.S_IMODE(status.st_mode) & 0o077


def user_number() -> int:
    """The number of the user that this process acts for; 0 on Windows, where every file says 0."""
    return 0 if IS_WINDOWS else os.geteuid()


def is_private_file(status: os.stat_result) -> bool:
    """Whether a file is a plain one that belongs to this user, and that others can neither read nor write."""
    return stat.S_ISREG(status.st_mode) and not open_to_others(status) and status.st_uid == user_number()


def is_own_group(group: int) -> bool:
    """Whether a group belongs to this user alone. Many systems give each user a group of their own, and umask 002."""
    if IS_WINDOWS:
        return False
    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    # Some user directories do not list all users, so the group must also have the name of the user.
    if user.pw_gid != group or found.gr_name != user.pw_name or set(found.gr_mem) - {user.pw_name}:
        return False
    return all(other.pw_uid == user.pw_uid for other in pwd.getpwall() if other.pw_gid == group)


# ── Signals ─────────────────────────────────────────────────────────────────────────────


def on_end(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    """Call a function in the loop when somebody wants this program to end: Ctrl-C, or SIGTERM."""
    for number in _END_SIGNALS:
        if IS_WINDOWS:  # its event loop takes no handlers
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
        else:
            loop.add_signal_handler(number, stop)
