"""What operating systems do differently: POSIX as it is, and the branch of Windows with a lock that stands for its own."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from enum import IntFlag
from types import SimpleNamespace

import pytest

from sense_memory import operating_system


class Locked(Exception):
    """As portalocker raises it."""


class LockFlags(IntFlag):
    EXCLUSIVE = 1
    SHARED = 2
    NON_BLOCKING = 4


@pytest.fixture
def windows(monkeypatch):
    """The branch of Windows; what is locked is known by its inode."""
    held: dict[int, int] = {}

    def lock(descriptor, flags):
        inode = os.fstat(descriptor).st_ino
        if held.get(inode, descriptor) != descriptor and not flags & LockFlags.SHARED:
            raise Locked
        held[inode] = descriptor

    def unlock(descriptor):
        held.pop(os.fstat(descriptor).st_ino, None)

    fake = SimpleNamespace(lock=lock, unlock=unlock, LockFlags=LockFlags, LockException=Locked)
    monkeypatch.setitem(sys.modules, "portalocker", fake)
    monkeypatch.setattr(operating_system, "IS_WINDOWS", True)


@pytest.fixture(params=["posix", "windows"])
def system(request):
    if request.param == "windows":
        request.getfixturevalue("windows")
    return request.param


def test_a_lock_has_one_holder_until_it_is_released(system, tmp_path):
    path = tmp_path / "lock"
    path.touch()
    one, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        assert operating_system.lock(one)
        assert not operating_system.lock(other)
        operating_system.unlock(one)
        assert operating_system.lock(other, waits=True)
    finally:
        os.close(one)
        os.close(other)


def test_a_shared_lock_has_many_holders(system, tmp_path):
    path = tmp_path / "lock"
    path.touch()
    one, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        assert operating_system.lock(one, shared=True)
        assert operating_system.lock(other, shared=True)
    finally:
        os.close(one)
        os.close(other)


def test_a_link_is_not_followed(system, tmp_path):
    (tmp_path / "real").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
        operating_system.open_plain(tmp_path / "link")
    descriptor = operating_system.open_plain(tmp_path / "real")
    assert os.read(descriptor, 10) == b"text"
    os.close(descriptor)


def test_a_private_file_is_new_and_open_to_nobody_else(system, tmp_path):
    path = tmp_path / "new"
    before = os.umask(0)
    try:
        os.close(operating_system.create_private(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert operating_system.open_to_others(path.stat()) == 0
    with pytest.raises(FileExistsError):
        operating_system.create_private(path)


def test_a_file_of_this_user_belongs_to_this_user(tmp_path):
    assert tmp_path.stat().st_uid == operating_system.user_number()


def test_where_windows_says_nothing_a_file_counts_as_private(windows, tmp_path):
    path = tmp_path / "open"
    path.touch(mode=0o644)
    assert operating_system.open_to_others(path.stat()) == 0
    assert operating_system.user_number() == 0
    assert not operating_system.is_own_group(0)


async def test_a_signal_that_ends_programs_calls_the_function_in_the_loop(system):
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        operating_system.on_end(loop, ended.set)
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            await ended.wait()
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
