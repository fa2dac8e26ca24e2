"""Machines of one agent, each with a folder that is mirrored."""

from __future__ import annotations

import os
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


@pytest.fixture
async def machines(tmp_path):
    """Makes machines of one agent, all at one relay."""
    signer = LocalSigner.generate()
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(EmbeddedRelay())

        async def made(name, *, project="app", folder=None, ledger=None, **options):
            place = folder or tmp_path / name
            place.mkdir(parents=True, exist_ok=True)
            store = MemoryStore(
                signer, [relay.url], ledger=ledger or tmp_path / f"{name}.db", background=False
            )
            await stack.enter_async_context(store)
            await store.mirror.add(place, project=project, **options)
            return Machine(store, place)

        yield made


@pytest.fixture
async def machine(machines):
    return await machines("one")
