"""What every test may ask for: coroutine tests, and a clock that only moves when told."""

from __future__ import annotations

import asyncio
import inspect
import os

import pytest


# No test asks the keyring of whoever runs it: this backend holds nothing and keeps nothing.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run `async def` tests, each in a loop of its own, bounded at 60 s."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await pyfuncitem.obj(**wanted)

    asyncio.run(bounded())
    return True


class FakeClock:
    """Seconds since 1970 that move only by `advance`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
