"""P-07 and what stands beside it: what an audit says of each relay, and what healing does."""

from __future__ import annotations

import pytest

from relays.faults import FaultyRelay, NoNegentropy, Withhold
from tests.inside import ledger_of


def seen(audit):
    return audit.held, audit.missing, audit.lost, audit.stale, audit.undeleted, audit.extra


async def written(stage, store):
    """Ten memories and an entry, of which one is edited and one forgotten."""
    for number in range(10):
        await store.remember(f"k{number}", f"{stage.plaintext} {number}")
    await store.journal(stage.plaintext)
    await store.sync()
    await store.remember("k1", f"{stage.plaintext} edited")
    await store.forget("k2")
    await store.sync()


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize("full", [True, False])
async def test_a_relay_in_step_is_sound(stage, compares, full):
    opened = stage.relay() if compares else stage.liar(NoNegentropy())
    async with opened as relay, stage.store(relay) as store:
        await written(stage, store)
        (audit,) = await store.relays.audit(full=full)
        assert audit.method == ("negentropy" if compares and not full else "pages")
        assert (*seen(audit), audit.is_sound) == (
            11,
            0,
            0,
            0,
            0,
            0,
            True,
        )  # nine memories, an entry, a deletion


async def test_p07_acks_but_forgets(stage):
    """What a relay accepted and has no longer is told apart from what it never had; healing sends both."""
    async with stage.relay() as emptied, stage.liar() as relay:
        stage.honest.discard(emptied.url)
        async with stage.store(relay, ledger="k.db") as store:
            await written(stage, store)
        relay.upstream = emptied.url
        stage.clock.advance(60)
        async with stage.store(relay, ledger="k.db") as store:
            await store.remember("new", stage.plaintext)
            (audit,) = await store.relays.audit()
            assert seen(audit) == (0, 12, 11, 0, 0, 0)
            stage.clock.advance(60)
            await store.sync(full=True)
            (audit,) = await store.relays.audit()
            assert (*seen(audit), audit.is_sound) == (12, 0, 0, 0, 0, 0, True)


async def test_older_versions_and_what_is_new_or_of_others_are_told_apart(stage):
    async with stage.relay() as home, stage.relay() as old:
        stage.honest.discard(old.url)
        async with stage.store(home, ledger="k.db") as store:
            await store.remember("k1", f"{stage.plaintext} one")
            await store.remember("k2", f"{stage.plaintext} two")
            await store.sync()
            before = await stage.stored(home.url)
            await store.remember("k1", f"{stage.plaintext} edited")
            await store.forget("k2")
            await store.sync()
        other = await stage.event("x", tags=(("d", "another-program"),))
        await stage.put(old.url, *before, await stage.event("unknown"), other)
        async with stage.store(home, old, ledger="k.db") as store:
            _, audit = await store.relays.audit()
            # It lacks the edit, the tombstone and its request; it has both older versions, and two unknown here.
            assert seen(audit) == (0, 3, 0, 2, 0, 2)
            await store.sync(full=True)
            _, audit = await store.relays.audit()
            assert (*seen(audit)[:5], audit.is_sound) == (3, 0, 0, 0, 0, True)


@pytest.mark.parametrize("addresses", ["readable", "private"])
async def test_a_deletion_that_is_not_honoured_is_told(stage, addresses):
    async with stage.relay() as relay:
        stage.honest.discard(relay.url)
        async with stage.store(relay, ledger="k.db", addresses=addresses) as store:
            await store.remember("k", stage.plaintext)
            await store.sync()
            kept = next(event for event in await stage.stored(relay.url) if not _is_key(store, event))
            await store.forget("k")
            await store.sync()
        keeps = Keeps(kept)
        async with (
            stage.liar(NoNegentropy(), keeps) as liar,
            stage.store(liar, ledger="k.db", addresses=addresses) as store,
        ):
            await store.remember("k", stage.plaintext)
            await store.forget("k")
            await store.sync()
            (audit,) = await store.relays.audit()
            assert (audit.undeleted, audit.is_sound) == (1, False)


def _is_key(store, event):
    return ledger_of(store).places.slot_at(event["tags"][0][1]).startswith("sense-memory/address-key/")


class Keeps(Withhold):
    """Still serves an event although its deletion was accepted."""

    def __init__(self, event):
        super().__init__(())
        self.event = event

    def from_relay(self, frame, talk):
        if frame[0] == "EOSE" and talk.asks_for(frame[1], 30_078):
            yield ["EVENT", frame[1], self.event]
        yield frame


async def test_what_was_not_shown_is_not_said_to_be_missing(stage):
    async with (
        stage.liar(Withhold(lambda _: False)) as relay,
        stage.store(relay, "ws://127.0.0.1:9") as store,
    ):
        await store.remember("k", stage.plaintext)
        await store.sync()
        shown, dead = await store.relays.audit()
        assert shown.is_sound
        assert (dead.missing, dead.lost, dead.complete, dead.is_sound, dead.method) == (
            None,
            None,
            False,
            False,
            "none",
        )
        assert dead.reasons


async def test_a_claim_that_fails_its_sample_is_read_page_by_page(stage):
    """A relay that claims in a comparison what it does not serve."""
    hidden = Withhold(lambda event: event["kind"] == 30_078 and event["tags"][0][1].endswith(("1", "3", "5")))
    hidden.on = False
    async with (
        stage.relay() as upstream,
        FaultyRelay(upstream.url, hidden, negentropy=True) as relay,
        stage.store(relay) as store,
    ):
        await written(stage, store)
        hidden.on = True
        (audit,) = await store.relays.audit()
        assert (audit.method, audit.missing, audit.lost) == ("pages", 3, 3)


async def test_an_audit_changes_nothing(stage):
    async with stage.relay() as relay, stage.store(relay) as store:
        await written(stage, store)
        before = await stage.stored(relay.url), store.status()
        seen_counts = []
        await store.relays.audit(full=True, progress=lambda url, count: seen_counts.append((url, count)))
        assert (await stage.stored(relay.url), store.status()) == before
        assert seen_counts[-1][0] == relay.url


# ── Quorum ──────────────────────────────────────────────────────────────────────────────


async def test_replicated_is_acknowledged_and_durable_is_read_back(stage, monkeypatch):
    """By more than half of the relays elsewhere, unless `min_acks` says how many."""
    async with stage.relay() as one, stage.relay() as other:
        async with stage.store(one, other, ledger="k.db") as store:
            ident = await store.remember("k", stage.plaintext)
            await store.sync()
            copies = store.relays.copies(ident)
            assert (copies.acks, copies.is_replicated) == (0, False)  # relays on this machine do not count
            monkeypatch.setattr("sense_memory.ledger.copies.is_local", lambda _: False)
            copies = store.relays.copies(ident)
            assert (copies.min_acks, copies.acks, copies.shown) == (2, 2, 0)
            assert (copies.is_replicated, copies.is_durable) == (True, False)
            await store.sync()
            copies = store.relays.copies(ident)
            assert (copies.is_replicated, copies.is_durable) == (True, True)
            await store.remember("waits", stage.plaintext)
            counts = store.status().copies
            assert (counts.min_acks, counts.records, counts.replicated, counts.durable) == (2, 2, 1, 1)
        async with stage.store(one, other, ledger="k.db", min_acks=3) as store:
            assert store.status().copies.replicated == 0
            assert not store.relays.copies(ident).is_replicated


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, "2"])
def test_min_acks_is_a_whole_number_of_relays(stage, bad):
    with pytest.raises(ValueError, match="min_acks"):
        stage.store(min_acks=bad)
