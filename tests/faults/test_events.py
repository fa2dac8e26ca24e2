"""E rows: events that are forged, foreign, misfiled or unasked for."""

from __future__ import annotations

import json

import pytest

from relays.faults import CloseEvery, Forge, Inject, Record, Refuse
from sense_memory import EmbeddedRelay
from sense_memory.errors import NeedsNewerVersion
from sense_memory.limits import CURSOR_OVERLAP_SECONDS
from sense_memory.nostr.event import Unsigned
from tests.inside import ledger_of


class CountingSigner:
    """A signer that counts what it was asked to open."""

    def __init__(self, signer) -> None:
        self._signer = signer
        self.public_key = signer.public_key
        self.opened: list[str] = []

    async def sign(self, unsigned: Unsigned):
        return await self._signer.sign(unsigned)

    async def encrypt(self, plaintext: bytes, reader: str) -> str:
        return await self._signer.encrypt(plaintext, reader)

    async def decrypt(self, payload: str, author: str) -> bytes:
        self.opened.append(payload)
        return await self._signer.decrypt(payload, author)


def frame(event):
    """The event in an EVENT frame for whichever subscription it is injected into."""
    return json.dumps(["EVENT", "$sub", event])


def slot(key):
    return f"sense-memory/{key}"


async def test_e01_bad_signature_is_dropped(stage):
    """Also the second of two forgeries: that an event failed once is not what drops it."""
    forge = Forge("sig")
    forge.on = False
    old, new = await stage.event("k", "old", at=-60), await stage.event("k", "new")
    async with stage.liar(forge) as liar, stage.relay() as honest, stage.store(liar, honest) as store:
        await stage.put(liar.upstream, old)
        await stage.sync(store)
        await stage.put(liar.upstream, new)

        forge.on = True
        for _ in range(2):
            line = (await stage.sync(store)).relays[0]
            assert line.useless["invalid"] == line.pulled.invalid == 1
            assert (await store.recall("k")).event_id == old["id"]

        forge.on = False
        await stage.sync(store)
        assert (await store.recall("k")).event_id == new["id"]


@pytest.mark.parametrize("what", ["content", "tag", "time", "author"])
async def test_e02_id_must_match_content(stage, what):
    events = [await stage.event(f"k{number}", at=-number) for number in range(3)]
    async with (
        stage.liar(Forge(what)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, *events)
        line = (await stage.sync(store)).relays[0]

        useless = line.useless.get("invalid", 0) + line.useless.get("over_delivered", 0)
        assert useless == len(events)
        assert store.status().counts["events"] == 0
        assert await stage.stored(honest.url) == []


async def test_e03_other_author_is_dropped_before_decrypt(stage):
    """Valid, encrypted to us, at the right address, newer than ours: only the author is another."""
    signer = CountingSigner(stage.signer)
    ours = await stage.event("k", "ours", at=-60)
    theirs = await stage.event("k", "theirs", signer=stage.stranger)
    async with (
        stage.liar(Inject(frame(theirs))) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, signer=signer) as store,
    ):
        await stage.put(liar.upstream, ours)
        line = (await stage.sync(store)).relays[0]

        assert line.useless["over_delivered"] == line.pulled.over_delivered >= 3  # each subscription
        assert signer.opened == [ours["content"]]
        assert (await store.recall("k")).event_id == ours["id"]
        assert store.status().counts["events"] == 1


async def test_e04_known_id_with_other_body_is_verified_again(stage):
    event = await stage.event("k", "true")
    other = await stage.event("k", "other", at=-60)
    lie = Inject(frame({**event, "content": other["content"]}), kind=30078)
    lie.on = False
    async with stage.liar(lie) as liar, stage.relay() as honest, stage.store(liar, honest) as store:
        await stage.put(honest.url, event)
        await stage.sync(store)
        before = set(ledger_of(store).bodies())

        lie.on = True
        line = (await stage.sync(store, full=True)).relays[0]

        assert line.useless["invalid"] == line.pulled.invalid >= 1
        assert set(ledger_of(store).bodies()) == before
        assert (await store.recall("k")).value == f"{stage.plaintext} true"
        assert [json.loads(body) for body in before] == [event]


async def test_e05_failed_verification_is_not_cached(stage):
    """The same forged bytes twice on one connection, and on another: dropped each time, the true event not."""
    event = await stage.event("k", "true")
    forge = Forge("sig")
    forge.plant(7)
    lie = Inject(*[frame(forge.altered(event))] * 2, kind=30078)
    forge.plant(7)
    twice = Inject(frame(forge.altered(event)), kind=30078)
    async with (
        stage.liar(lie) as one,
        stage.liar(twice) as two,
        stage.relay() as honest,
        stage.store(one, two, honest) as store,
    ):
        for _ in range(2):
            first, second, _ = (await stage.sync(store)).relays
            assert (first.pulled.invalid, second.pulled.invalid) == (2, 1)
            assert store.status().counts["events"] == 0
        await stage.put(honest.url, event)
        await stage.sync(store)
        assert (await store.recall("k")).event_id == event["id"]


@pytest.mark.parametrize("what", ["sig", "content", "only the id"])
async def test_e06_forged_copy_never_hides_the_real_event(stage, what):
    """One relay sends a forged copy first, another the real event afterwards; and both in one answer."""
    event = await stage.event("k", "real")
    if what == "only the id":
        fake = {"id": event["id"]}
    else:
        forge = Forge(what)
        forge.plant(7)
        fake = forge.altered(event)
        assert fake["id"] == event["id"]
    async with stage.liar(Inject(frame(fake), kind=30078)) as liar, stage.relay() as honest:
        async with stage.store(liar, ledger="k.db") as store:
            line = (await stage.sync(store)).relays[0]
            assert line.pulled.invalid == 1
        await stage.put(honest.url, event)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)
            assert (await store.recall("k")).event_id == event["id"]
    async with (
        stage.liar(Inject(frame(fake), frame(event), kind=30078)) as liar,
        stage.store(liar) as store,
    ):
        await stage.sync(store)
        assert (await store.recall("k")).event_id == event["id"]


async def test_e07_cursor_ignores_unverified_time(stage):
    """Forgeries, a stranger's event and our own from the future, all dated 2100; then the relay hangs up."""
    year_2100 = 4_102_444_800 - int(stage.clock())
    unsigned = {**await stage.event("forged", at=year_2100), "sig": "0" * 128}
    strange = await stage.event("strange", at=year_2100, signer=stage.stranger)
    future = await stage.event("future", at=year_2100)
    record, lie, hangup = (
        Record(),
        Inject(*map(frame, (unsigned, strange, future)), kind=30078),
        CloseEvery(3),
    )
    hangup.on = False
    async with stage.liar(record, lie, hangup) as liar:
        await stage.put(liar.upstream, await stage.event("k", at=-60))
        cursors = []
        for hangup.on in (False, True, False):
            async with stage.store(liar, ledger="k.db") as store:
                await stage.sync(store)
                cursors.append(ledger_of(store).relays.state(liar.url).cursor)
        expected = int(stage.clock()) - 60 - CURSOR_OVERLAP_SECONDS
        assert cursors == [expected] * 3
        record.frames.clear()
        stage.clock.advance(1)
        async with stage.store(liar, ledger="k.db", background=True) as store:
            await stage.until(lambda: store.status().relays[0].last_complete == stage.clock())
            assert ledger_of(store).relays.state(liar.url).cursor == expected
            assert store.status().counts["quarantined"] == 1
        asked = [wanted for request in record.said("REQ") for wanted in request[2:]]
        walked = [wanted for wanted in asked if "ids" not in wanted and wanted["limit"] > 1]
        assert {wanted["since"] for wanted in walked} == {expected}


async def test_e07_cursor_ignores_what_a_comparison_brings_from_the_future(stage):
    """Verified and ours, and yet its time says nothing: it is quarantined."""
    year_2100 = 4_102_444_800
    async with EmbeddedRelay(clock=lambda: year_2100) as relay:
        async with stage.store(relay, ledger="k.db") as store:
            await store.remember_many((f"k{number}", stage.plaintext) for number in range(3))
            await stage.sync(store)
        stage.clock.advance(7_200)
        await stage.put(relay.url, await stage.event("new", at=-60))
        await stage.put(relay.url, await stage.event("future", at=year_2100 - int(stage.clock())))
        async with stage.store(relay, ledger="k.db") as store:
            await stage.sync(store, full=True)
            assert (
                ledger_of(store).relays.state(relay.url).cursor
                == int(stage.clock()) - 60 - CURSOR_OVERLAP_SECONDS
            )
            assert store.status().counts["quarantined"] == 1


async def test_e08_filter_is_enforced_locally(stage):
    """Ours and valid, but not what the subscription asked for: wrong kind, or before its `since`."""
    note = await stage.event("note", kind=1, tags=[])
    old = await stage.event("old", at=-30 * 86_400)
    late = Inject(frame(note), frame(old), kind=30078)
    late.on = False
    record = Record()
    async with (
        stage.liar(record, late) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, await stage.event("new"))
        await stage.sync(store)

        late.on = True
        line = (await stage.sync(store)).relays[0]

        asked = [wanted for request in record.said("REQ") for wanted in request[2:]]
        assert any(wanted.get("since", 0) > old["created_at"] for wanted in asked)
        assert line.useless["over_delivered"] == line.pulled.over_delivered >= 2
        assert await store.recall("old") is None
        assert store.status().counts["events"] == 1


async def test_e08_other_address_than_asked_for_is_dropped(stage):
    """A relay that claims to have a newer version is asked for that address, and answers with another."""
    other = await stage.event("other", at=-5)
    record = Record()
    async with (
        stage.liar(record, Inject(frame(other), kind=30078), Refuse("replaced: have newer event")) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, offline_first=True) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        line = (await store.flush()).relays[0]

        (asked,) = [wanted for request in record.said("REQ") for wanted in request[2:]]
        assert asked["#d"] == [slot("k")]
        assert line.sent == {"superseded": 1}
        assert line.useless["over_delivered"] == 1
        assert await store.recall("k")
        assert (await store.recall("k")).event_id == ident
        assert store.status().counts["events"] == 1


async def test_e09_misfiled_ciphertext_is_rejected(stage):
    """Our own words under another of our addresses, signed with our key."""
    real = await stage.event("will", "real", at=-60)
    moved = Unsigned(int(stage.clock()), 30078, (("d", slot("address")),), real["content"])
    moved = json.loads((await stage.signer.sign(moved)).body())
    address = await stage.event("address", "before", at=-60)
    async with stage.liar() as liar, stage.relay() as honest, stage.store(liar, honest) as store:
        await stage.put(liar.upstream, real, address)
        await stage.sync(store)
        await stage.put(liar.upstream, moved)
        line = (await stage.sync(store)).relays[0]

        assert line.served["misfiled"] == 1
        assert (await store.recall("address")).event_id == address["id"]
        assert moved["id"] not in [event["id"] for event in await stage.stored(honest.url)]


async def test_e10_extra_or_missing_d_is_rejected(stage):
    """Each signed with our key, so that nothing but the tag is wrong."""
    tags = {
        "none": [],
        "without a value": [["d"]],
        "empty": [["d", ""]],
        "two": [["d", slot("k")], ["d", slot("other")]],
        "the same twice": [["d", slot("k")], ["d", slot("k")]],
    }
    events = [await stage.event("k", name, tags=wrong) for name, wrong in tags.items()]
    no_text = {**(await stage.event("k")), "tags": [["d", 1]]}
    async with (
        stage.liar(Inject(*map(frame, [*events, no_text]), kind=30078)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        line = (await stage.sync(store)).relays[0]

        assert line.useless["invalid"] == line.pulled.invalid == len(tags) + 1
        assert store.status().counts["events"] == 0
        assert await store.recall("k") is None


async def test_e11_foreign_30078_of_same_key_is_left_alone(stage):
    """Other programs' data under our key: not opened, not healed, not deleted, not sent elsewhere, counted."""
    settings = await stage.event("x", tags=[["d", "other-app/settings"]])
    note = await stage.event(
        "x", kind=4, tags=[["p", stage.signer.public_key]], inside={"type": "a note to self"}
    )
    letter = await stage.event("x", kind=4, tags=[["p", stage.stranger.public_key]])
    deletion = Unsigned(int(stage.clock()), 5, (("e", "ab" * 32), ("k", "1")), "")
    deletion = json.loads((await stage.signer.sign(deletion)).body())
    foreign = [settings, note, letter, deletion]
    record = Record()
    async with (
        stage.liar(record) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, ledger="k.db") as store,
    ):
        await stage.put(liar.upstream, *foreign)
        await store.remember("k", stage.plaintext)
        await store.forget("settings")
        line = (await stage.sync(store)).relays[0]
        assert line.served["foreign"] == 3  # the letter to somebody else was not asked for
        stage.clock.advance(3_601)
        await stage.sync(store, full=True)
        await stage.sync(store)

        assert {event["id"] for event in await stage.stored(liar.upstream)} > {
            event["id"] for event in foreign
        }
        assert not {event["id"] for event in await stage.stored(honest.url)} & {e["id"] for e in foreign}
        assert not {event["id"] for event in foreign} & set(record.published)
        assert [memory.key for memory in await store.recall_all()] == ["k"]
        assert await store.recent() == []
        assert not any(b"other-app" in body for body in ledger_of(store).bodies())


async def test_e12_future_schema_is_kept_not_shown(stage):
    """A newer program's memory: kept, passed on to relays, never shown half understood, never overwritten."""
    newer = await stage.event("k", "newer", inside={"v": 2}, at=-60)
    other = await stage.event("l", "newer", inside={"type": "sense-memory:dream"}, at=-60)
    async with (
        stage.relay() as one,
        stage.relay() as two,
        stage.store(one, two, ledger="k.db") as store,
    ):
        await stage.put(one.url, newer, other)
        await stage.sync(store)
        for key in ("k", "l"):
            with pytest.raises(NeedsNewerVersion):
                await store.recall(key)
            for overwrite in (store.remember(key, "mine"), store.refresh(key)):
                with pytest.raises(NeedsNewerVersion):
                    await overwrite
            assert await store.undo(key) is None
        assert await store.recall_all() == []
        assert store.status().counts["heads"] == 2
        for relay in (one, two):
            assert {event["id"] for event in await stage.stored(relay.url)} == {newer["id"], other["id"]}
