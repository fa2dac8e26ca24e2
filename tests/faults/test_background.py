"""The background has a voice, and never dies unseen: what it logs, and what a fault of ours costs (R-22)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from relays.faults import Fault, FaultyRelay, Refuse
from sense_memory.errors import LedgerError
from tests.inside import ledger_of


class Stumble(Exception):
    """What no code expects; its message quotes what a log must not hold."""


class Stumbling:
    """A clock that raises once, whenever it is told to."""

    def __init__(self, clock, words) -> None:
        self._clock, self._words, self.raises = clock, words, False

    def __call__(self) -> float:
        if self.raises:
            self.raises = False
            raise Stumble(self._words)
        return self._clock()


@pytest.fixture
def lines(caplog):
    """What was logged so far on `sense_memory.relay`: level and text."""
    caplog.set_level(logging.INFO, "sense_memory.relay")

    def found():
        records = [record for record in caplog.records if record.name == "sense_memory.relay"]
        return [(record.levelname, record.getMessage()) for record in records]

    return found


def assert_one_fault(lines, raised_in):
    (fault,) = [text for level, text in lines() if level == "ERROR"]
    assert "unexpected Stumble" in fault
    assert "Traceback (most recent call last)" in fault
    assert raised_in in fault  # its words are looked for by the stage


@pytest.mark.virtual_time
async def test_r22_one_link_dies_of_a_bug(stage, lines):
    """That relay is tried again; the other has the memory at once, and this one soon."""
    clock = Stumbling(stage.clock, stage.plaintext)
    async with (
        stage.relay() as one,
        stage.relay() as other,
        stage.store(one, other, background=True, clock=clock) as store,
    ):
        await stage.passes(60)
        await store.remember("k", stage.plaintext)
        clock.raises = True
        await stage.passes(0.5)
        held = [len(await stage.stored(relay.url)) for relay in (one, other)]
        assert sorted(held) == [0, 1]
        assert_one_fault(lines, "link.py")
        problems = [relay.problem for relay in store.status().relays]
        assert sum("bug in sense-memory (Stumble)" in problem for problem in problems) == 1

        await stage.passes(10)
        assert [len(await stage.stored(relay.url)) for relay in (one, other)] == [1, 1]
        assert [relay.problem for relay in store.status().relays] == ["", ""]
        assert len([text for _, text in lines() if "Stumble" in text and "Traceback" not in text]) == 1


@pytest.mark.virtual_time
async def test_r22_a_listener_dies_of_a_bug(stage, lines):
    """What it failed to file, the next pull brings."""
    clock = Stumbling(stage.clock, stage.plaintext)
    async with stage.relay() as relay, stage.store(relay, clock=clock) as store:
        watch = asyncio.create_task(anext(store.watch()))
        await stage.passes(61)
        async with stage.store(relay) as other:
            clock.raises = True
            await other.remember("k", stage.plaintext)
            await other.sync()
        assert (await watch).value == stage.plaintext
    assert_one_fault(lines, "live.py")


@pytest.mark.virtual_time
async def test_r22_a_round_that_somebody_asks_for_says_that_it_failed(stage, lines):
    clock = Stumbling(stage.clock, stage.plaintext)

    class Trips(Fault):
        def from_relay(self, frame, talk):
            clock.raises = frame[0] == "EOSE"
            yield frame

    async with stage.liar(Trips()) as liar, stage.store(liar, clock=clock) as store:
        (line,) = (await store.sync()).relays
        assert "bug in sense-memory (Stumble)" in line.problem
        assert not line.complete
        liar.faults[0].on = False
        assert (await stage.sync(store)).in_step
    assert_one_fault(lines, "link.py")


@pytest.mark.virtual_time
async def test_the_background_logs_what_changes_with_a_relay_and_nothing_else(stage, lines):
    async with stage.relay() as behind, FaultyRelay(behind.url, refuse := Refuse("blocked: no")) as relay:
        refuse.on = False
        async with stage.store(relay, background=True) as store:
            await stage.passes(300)
            refuse.on = True
            await store.remember("k", stage.plaintext)
            await stage.passes(30)
            await relay.__aexit__(None, None, None)
            await stage.passes(300)
            await relay.__aenter__()
            await stage.passes(600)
    told = [line for line in lines() if "backing off" not in line[1]]
    assert told == [
        ("INFO", f"{relay.url}: connected"),
        ("INFO", f"{relay.url}: in step"),
        ("WARNING", f"{relay.url}: events refused: 1 (blocked)"),
        ("INFO", f"{relay.url}: not in step: the relay does not hold everything yet"),
        ("WARNING", f"{relay.url}: connection lost"),
        ("WARNING", f"{relay.url}: refused the connection"),
        ("INFO", f"{relay.url}: connected"),
        ("INFO", f"{relay.url}: not in step: the relay does not hold everything yet"),
    ]
    assert 3 < len(lines()) - len(told) < 12


async def test_a_failure_of_the_ledger_is_raised_and_is_in_no_relays_report(stage, monkeypatch):
    """It is this machine's, so every other relay fails alike, and none of them is to blame."""
    async with stage.relay() as one, stage.relay() as other, stage.store(one, other) as store:
        await store.remember("k", stage.plaintext)

        def fail(*_):
            raise LedgerError("the disk is full")

        with monkeypatch.context() as full:
            full.setattr(type(ledger_of(store).outbox), "drop_outdated", fail)
            with pytest.raises(LedgerError, match="the disk is full"):
                await store.sync()
        assert (await stage.sync(store)).in_step
