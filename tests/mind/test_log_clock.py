"""The log under a clock that ran ahead and was set right: everything goes on at once, and no entry is lost or hidden."""

from __future__ import annotations

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.nostr import address
from tests.inside import database_of, ledger_of, name_device, parts_of


ME = LocalSigner.from_hex("5" * 64)
AHEAD = pytest.mark.parametrize("ahead", [600, 2 * 86_400, 400 * 86_400])


def opened(ledger=":memory:", relays=(), **options):
    return MemoryStore(ME, relays, ledger=ledger, **{"background": False, "snapshot": False} | options)


async def say(store, text):
    return await store.mind.log.append("agent.spoke", {"text": text}, actor="me")


async def said(store):
    return sorted(entry.text for entry in await store.mind.log.entries())


async def say_ahead(store, clock, text, ahead):
    clock.advance(ahead)
    entry = await say(store, text)
    await store.mind.flush()
    clock.advance(-ahead)
    return entry


@AHEAD
@pytest.mark.parametrize("step", ["sync", "flush", "close"])
async def test_after_the_clock_is_set_right_everything_goes_on_at_once(step, ahead, clock, tmp_path):
    async with EmbeddedRelay(clock=clock) as relay, opened(tmp_path / "b.db", [relay.url], clock=clock) as b:
        await b.remember("from b", "z")
        await b.sync()
        async with opened(tmp_path / "a.db", [relay.url], clock=clock, background=step == "close") as a:
            await a.sync()
            await say_ahead(a, clock, "ahead", ahead)
            await say(a, "today")
            await a.remember("other", "an unrelated memory")
            if step != "close":
                await getattr(a, step)()
            assert await said(a) == ["ahead", "today"]
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as a:
            assert not ledger_of(a).log_rows
        await b.sync()
        assert (await b.recall("other")).value == "an unrelated memory"
        assert await said(b) == ["ahead", "today"]


@AHEAD
async def test_an_entry_said_ahead_reaches_others_without_another_entry(ahead, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as a,
        opened(relays=[relay.url], clock=clock) as b,
    ):
        await say_ahead(a, clock, "ahead", ahead)
        await a.sync()
        await b.sync()

        assert await said(a) == await said(b) == ["ahead"]
        assert len(a.mind.log.pages()) == 2
        await a.sync()
        assert len(a.mind.log.pages()) == 2
        assert await a.mind.flush() == 0  # the copy is made once


@AHEAD
async def test_an_entry_in_a_page_dated_ahead_can_be_removed(ahead, clock, tmp_path):
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as a:
            clock.advance(ahead)
            secret, kept = await say(a, "a secret"), await say(a, "kept")
            await a.sync()
            clock.advance(-ahead)
            await a.mind.log.remove(secret.id)
            assert await said(a) == ["kept"]
            await say(a, "later")
            await a.sync()
            assert await a.mind.log.get(secret.id) is None
            assert await a.mind.log.get(kept.id) == kept
            slots = [slot for slot, _ in ledger_of(a).heads.seqs_beneath(address.LOG_PAGES)]
            assert not ledger_of(a).heads.dated_ahead(address.LOG_PAGES, clock()).keys() & set(slots)
        async with opened(tmp_path / "a.db", [relay.url], clock=clock) as again:
            assert await said(again) == ["kept", "later"]
        async with opened(relays=[relay.url], clock=clock) as bare:
            await bare.sync()
            assert await said(bare) == ["kept", "later"]
            clock.advance(ahead + 3_600)
            await bare.sync()
            assert await said(bare) == ["kept", "later"]


async def test_a_page_that_another_device_dates_ahead_stops_nothing(clock):
    """Both clocks were ahead, so the page is no news in quarantine; the other device removes an entry of it."""
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as a,
        opened(relays=[relay.url], clock=clock) as b,
    ):
        clock.advance(86_400)
        secret = await say(a, "a secret")
        await say(a, "kept")
        await a.sync()
        await b.sync()
        clock.advance(-86_400)
        await say(b, "of b")
        await b.sync()
        await b.mind.log.remove(secret.id)
        await b.sync()
        await a.sync()
        await b.sync()

        assert await said(a) == await said(b) == ["kept", "of b"]


async def test_a_page_that_another_device_withdrew_is_not_written_again(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as a,
        opened(relays=[relay.url], clock=clock) as b,
    ):
        clock.advance(86_400)
        secret = await say(a, "a secret")
        await a.sync()
        await b.sync()
        clock.advance(-86_400)
        await b.mind.log.remove(secret.id)
        await b.sync()
        await parts_of(a).replication.sync()
        await say(a, "later")
        await a.sync()
        await b.sync()

        assert await said(a) == await said(b) == ["later"]


async def test_versions_of_a_page_dated_ahead_wait_for_its_date_and_stop_nothing(clock, tmp_path):
    """Two ledgers of an earlier version, copies of each other, have written one page while the clock was ahead."""
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as a,
        opened(relays=[relay.url], clock=clock) as b,
    ):
        for store in (a, b):
            name_device(store, "0badcafe")
        clock.advance(86_400)
        await say(a, "of a")
        await a.sync()
        await say(b, "of b")
        await b.mind.flush()
        await parts_of(b).replication.sync()
        clock.advance(-86_400)
        await say(b, "later")
        await b.sync()
        await a.sync()

        assert await said(a) == await said(b) == ["later", "of a", "of b"]


async def test_entries_of_a_page_that_was_deleted_are_gone_from_every_running_process(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(relays=[relay.url], clock=clock) as a,
        opened(relays=[relay.url], clock=clock) as b,
    ):
        await say(a, "of a")
        await a.sync()
        await b.sync()
        await say(b, "of b")
        assert await said(b) == ["of a", "of b"]
        (slot,) = a.mind.log.pages()
        await a.mind.records.forget([slot.removeprefix(address.PREFIX)])
        for store in (a, b, a):
            await store.sync()

        assert await said(a) == await said(b) == ["of b"]


async def test_a_clock_that_is_behind_does_not_write_the_whole_log_again(clock, tmp_path):
    """As on a machine without a battery: all pages seem to be dated ahead."""
    async with opened(tmp_path / "a.db", clock=clock) as store:
        for number in range(24):
            await say(store, f"{number:02} " + "x" * 10_000)
        await store.mind.flush()
        pages = len(store.mind.log.pages())
        clock.advance(-86_400 * 365 * 5)
        await say(store, "years ago")
        await store.mind.flush()
        assert len(store.mind.log.pages()) == pages + 1
        clock.advance(86_400 * 365 * 5)
        await say(store, "today")
        await store.mind.flush()
    async with opened(tmp_path / "a.db", clock=clock) as again:
        assert len(await said(again)) == 26


async def test_many_pages_dated_ahead_that_no_relay_took_reach_others_when_the_clock_is_right(clock):
    async with EmbeddedRelay(clock=clock) as relay, opened(relays=[relay.url], clock=clock) as store:
        clock.advance(86_400)
        for number in range(24):
            await say(store, f"{number:02} " + "x" * 10_000)
        await store.mind.flush()
        clock.advance(-86_400)
        await store.sync()
        async with opened(relays=[relay.url], clock=clock) as other:
            await other.sync()
            assert len(await said(other)) == 24


async def test_a_clock_that_is_behind_writes_no_page_again_that_a_relay_took(clock):
    async with EmbeddedRelay(clock=clock) as relay, opened(relays=[relay.url], clock=clock) as store:
        for number in range(24):
            await say(store, f"{number:02} " + "x" * 10_000)
        await store.sync()
        pages = len(store.mind.log.pages())
        clock.advance(-86_400 * 365)
        await say(store, "a year ago")
        await store.mind.flush()
        assert len(store.mind.log.pages()) == pages + 1


async def test_a_page_dated_ahead_is_left_alone_until_its_date_and_nothing_is_doubled(clock, tmp_path):
    async with opened(tmp_path / "a.db", clock=clock) as store:
        await say_ahead(store, clock, "ahead", 86_400)
        await say(store, "today")
        await store.mind.flush()
        ahead = ledger_of(store).heads.dated_ahead(address.LOG_PAGES, clock())
        (before,) = database_of(ledger_of(store)).row("SELECT count(*) FROM events WHERE slot = ?", *ahead)
        clock.advance(2 * 86_400)
        await say(store, "tomorrow")
        await store.mind.flush()
        (after,) = database_of(ledger_of(store)).row("SELECT count(*) FROM events WHERE slot = ?", *ahead)
        assert (before, after) == (1, 1)
        assert await said(store) == ["ahead", "today", "tomorrow"]


async def test_status_names_what_is_dated_ahead_and_counts_what_is_in_no_page(clock):
    async with opened(clock=clock) as store:
        await say_ahead(store, clock, "ahead", 86_400)
        await say(store, "today")
        status = store.status()

        ((name, at),) = status.dated_ahead.items()
        assert name.startswith("mind/log/")
        assert at >= clock() + 86_000
        assert status.unflushed == 1
        await store.mind.flush()
        assert store.status().unflushed == 0
