"""The N-th step harness: a scenario is killed at its first step, its second, … until it survives."""

from __future__ import annotations

import asyncio
import inspect
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest


KILLED = -9
MOST_STEPS = 400  # a scenario that takes more is too long for its test


@dataclass(frozen=True)
class Death:
    """How one run ended.

    Attributes:
        step: the step at which it was to die.
        at: that step's name, or empty for a run that survived.
        said: what the scenario was told is done, in order.
    """

    step: int
    at: str
    said: list[dict[str, object]]

    def was_told(self, what: str) -> list[object]:
        return [line[what] for line in self.said if what in line]


class Killer:
    """Has the scenarios of `victim.py` played, and killed on the way."""

    def __init__(self, folder, forks) -> None:
        self._folder, self._forks = folder, forks

    async def run(self, scenario, step=0, **order) -> Death:
        log = self._folder / f"{scenario}.log"
        log.unlink(missing_ok=True)
        whole = json.dumps({"scenario": scenario, "step": step, "log": str(log), **order})
        done = await asyncio.to_thread(
            self._forks, "-m", "crash.victim", whole
        )  # the relays are in this thread
        said = [json.loads(text) for text in log.read_text().splitlines()]
        at = str(said[-1].get("killed", ""))
        assert done.code == (KILLED if at else 0), (done, said)
        return Death(step, at, said)

    async def at_every_step(self, scenario, order):
        """Deaths at step 1, 2, 3 … and then the run that survived; `order(step)` makes each run's own stage."""
        for step in range(1, MOST_STEPS):
            made = order(step)
            death = await self.run(scenario, step, **(await made if inspect.isawaitable(made) else made))
            yield death
            if not death.at:
                return
        raise AssertionError(f"{scenario} takes more than {MOST_STEPS} steps")


@pytest.fixture
def folder():
    """In memory where the system offers that: what a killed process wrote is the kernel's, on a disk or not."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def kill(folder, forks):
    return Killer(folder, forks)
