"""Machines of one agent, each with a folder that is mirrored."""

from __future__ import annotations

import functools
import os
import time
from contextlib import AsyncExitStack

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


OLD = 1_700_000_000  # when files were written: long ago, so none seems to be half written


class Machine:
    """A store, and the folder that it mirrors."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder

    @property
    def files(self):
        return self.store.mind.files

    def write(self, name, text, *, is_young=False):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if not is_young:
            os.utime(path, (OLD, OLD))

    def read(self, name):
        return (self.folder / name).read_bytes().decode()

    def names(self):
        return sorted(
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()
        )

    async def sync(self, **options):
        (report,) = await self.store.mirror.sync(self.folder, **{"seconds": 20, **options})
        return report

    async def steps(self, **options):
        return [(str(step.what), step.name) for step in (await self.sync(**options)).steps]


class Machines:
    """Makes machines of one agent, all at one relay; they are closed with the test."""

    def __init__(self, place):
        self.place, self.signer = place, LocalSigner.generate()
        self.stack, self.relay = AsyncExitStack(), None

    async def __call__(self, name, *, project="app", clock=time.time, **options):
        if self.relay is None:
            self.relay = await self.stack.enter_async_context(EmbeddedRelay(clock=clock))
        folder = self.place / name
        folder.mkdir()
        ledger = self.place / f"{name}.db"
        store = MemoryStore(self.signer, [self.relay.url], ledger=ledger, background=False, clock=clock)
        await self.stack.enter_async_context(store)
        await store.mirror.add(folder, project=project, **options)
        return Machine(store, folder)


@pytest.fixture
def machines(tmp_path):
    return Machines(tmp_path)


@pytest.fixture
def machine(tmp_path):
    """A machine; `pytest_pyfunc_call` makes it, because that has to be awaited."""
    return


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Close the machines at the end of each test, in its own loop."""
    test, names = pyfuncitem.obj, pyfuncitem._fixtureinfo.argnames
    if not {"machine", "machines"} & {*names}:
        return
    made = pyfuncitem.funcargs.get("machines") or Machines(pyfuncitem.funcargs["tmp_path"])

    @functools.wraps(test)
    async def closing(**wanted):
        async with made.stack:
            if "machine" in names:
                wanted["machine"] = await made("one")
            await test(**wanted)

    pyfuncitem.obj = closing
