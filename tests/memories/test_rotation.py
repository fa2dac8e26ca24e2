"""Rotation: everything under a new key, told to other devices, and deleted under the old one only afterwards."""

from __future__ import annotations

import pytest

from relays.faults import FaultyRelay, ForgetAfterAck
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError
from sense_memory.memories.rotation import LINK_SLOT
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent, Unsigned
from sense_memory.records import envelope
from sense_memory.store.rotation import Rotation, rotated_to
from tests.inside import ledger_of, parts_of
from tests.local_relays import PATIENT


class Keys:
    def __init__(self, clock, folder, mode):
        self.clock, self.folder, self.mode = clock, folder, mode
        self.old, self.new = LocalSigner.generate(), LocalSigner.generate()

    def store(self, signer, relays, ledger):
        options = {"background": False, "timeouts": PATIENT, "clock": self.clock, "addresses": self.mode}
        return MemoryStore(signer, relays, ledger=self.folder / ledger, **options)

    def before(self, *relays, ledger="old.db"):
        return self.store(self.old, relays, ledger)

    def after(self, *relays, ledger="new.db"):
        return self.store(self.new, relays, ledger)


@pytest.fixture(params=["readable", "private"])
def keys(clock, tmp_path, request):
    return Keys(clock, tmp_path, request.param)


async def fill(store, clock):
    await store.remember("tea", "green", created_at=1_000_000_000)
    clock.advance(5)
    await store.remember("tea", "black")
    await store.remember("tea", "white")  # in the same second
    await store.remember("gone", "x")
    await store.persona_remember("people", "facts", "lisa", "likes tea")
    await store.persona_remember("people", "facts", "tom", "likes Lisa", connections=["people/facts/lisa"])
    await store.persona_remember("people", "facts", "long " * 40, "a hashed address")
    await store.journal("first", created_at=1_500_000_000)
    await store.journal("second")
    await store.mind.blocks.create("persona", "calm")
    await store.mind.log.append("note", {"text": "hello"}, actor="user")
    await store.forget("gone")
    clock.advance(5)


async def shown(store):
    return {
        "flat": [(memory.key, memory.value, memory.created_at) for memory in await store.recall_all()],
        "history": [(version.value, version.created_at) for version in await store.history("tea")],
        "palace": [
            (memory.path, memory.value, memory.created_at, memory.connections)
            for memory in await store.palace.memories(revive=False)
        ],
        "journal": [(entry.content, entry.created_at) for entry in await store.recent()],
        "block": (await store.mind.blocks.get("persona")).value,
        "log": [entry.payload for entry in await store.mind.log.entries()],
    }


async def test_everything_is_the_same_under_the_new_key(keys, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with keys.before(relay.url) as old, keys.after(relay.url) as new:
            await fill(old, clock)
            was = await shown(old)
            carried = await Rotation(old, new).carry()
            assert carried.missing == 0
            assert await shown(new) == was
            assert all(found.is_whole for found in await Rotation(old, new).read_back())
        async with keys.after(relay.url, ledger="elsewhere.db") as elsewhere:
            await elsewhere.sync()
            there = await shown(elsewhere)
            assert {name: there[name] for name in there if name != "history"} == {
                name: was[name] for name in was if name != "history"
            }


async def test_the_old_key_is_deleted_and_another_device_learns_of_the_new_one(keys, clock):
    async with EmbeddedRelay(clock=clock) as relay, keys.before(relay.url, ledger="second.db") as device:
        async with keys.before(relay.url) as old, keys.after(relay.url) as new:
            await fill(old, clock)
            await old.sync()
            await device.sync()
            assert await rotated_to(device) is None
            clock.advance(5)
            rotation = Rotation(old, new)
            await rotation.carry()
            clock.advance(5)
            assert (await rotation.delete_old()).is_confirmed
            assert await new.recall("tea") is not None
        await device.sync()
        link = await rotated_to(device)
        assert (link.old, link.new) == (keys.old.public_key, keys.new.public_key)
        assert await device.recall_all() == []


async def test_carrying_twice_carries_nothing_twice(keys, clock):
    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        first = await Rotation(old, new).carry()
        was = await shown(new)
        second = await Rotation(old, new).carry()
        assert (first.versions > 0, second.versions) == (True, 0)
        assert await shown(new) == was


async def test_what_was_forgotten_between_two_calls_is_forgotten_under_the_new_key(keys, clock):
    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        await Rotation(old, new).carry()
        clock.advance(5)
        await old.forget("tea")
        await old.journal.forget((await old.recent())[0].event_id)
        await old.remember("new", "later")
        clock.advance(5)
        await Rotation(old, new).carry()
        ours, theirs = await shown(old), await shown(new)
        assert {**ours, "history": None} == {**theirs, "history": None}


async def test_a_rotation_that_dies_in_the_middle_is_finished(keys, clock, monkeypatch):
    monkeypatch.setattr("sense_memory.memories.rotation._BATCH_COUNT", 3)

    class Killed(Exception):
        pass

    def kill(count):
        if count >= 5:
            raise Killed

    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        with pytest.raises(Killed):
            await Rotation(old, new).carry(kill)
    async with keys.before() as old, keys.after() as new:
        assert (await Rotation(old, new).carry()).missing == 0
        assert await shown(old) == await shown(new)


async def test_a_relay_that_accepts_and_forgets_is_not_whole(keys, clock):
    async with (
        EmbeddedRelay(clock=clock) as honest,
        FaultyRelay(honest.url, ForgetAfterAck()) as liar,
        keys.before(liar.url, "ws://127.0.0.1:1") as old,
        keys.after(liar.url, "ws://127.0.0.1:1") as new,
    ):
        await fill(old, clock)
        carried = await Rotation(old, new).carry()
        found = await Rotation(old, new).read_back()
        assert [relay.is_whole for relay in found] == [False, False]
        assert found[0].missing >= carried.heads
        assert found[1].missing is None


async def test_relays_do_not_learn_that_one_key_followed_the_other(keys, clock):
    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        await Rotation(old, new).carry()
        for store, other in ((old, keys.new), (new, keys.old)):
            for body in ledger_of(store).bodies():
                assert other.public_key.encode() not in body
                assert RawEvent.loads(body).kind in {4, 5, 30078}


@pytest.mark.parametrize("forged", ["signed_by_old", "signed_by_new", "at", "new"])
async def test_a_link_that_is_not_signed_by_both_keys_is_no_link(keys, clock, forged):
    async with keys.before() as old, keys.after() as new:
        await Rotation(old, new).carry()
        stored = ledger_of(old).head(LINK_SLOT)
        record = await envelope.open_event(keys.old, stored.event())
        other = {"at": 5, "new": "ab" * 32}.get(forged, "{}")
        fields = {**record.fields, forged: other}
        clock.advance(5)
        await old._now_open().writer.write([envelope.record_at(record.path, fields)], drafts=False)
        assert await rotated_to(old) is None


def test_the_link_lies_at_an_address_of_its_own():
    assert LINK_SLOT == address.PREFIX + "mind/key/rotation"


async def test_drafts_are_carried_once_and_can_be_published_under_the_new_key(keys, clock):
    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        clock.advance(-(10**9))
        with pytest.raises(ClockSkewError):  # the clock went back: the text is a draft
            await old.remember("tea", "a draft")
        clock.advance(10**9)
        was = await old.drafts()
        for _ in range(2):
            await Rotation(old, new).carry()
        assert [(one.key, one.value, one.created_at, one.reason) for one in await new.drafts()] == [
            (one.key, one.value, one.created_at, one.reason) for one in was
        ]
        clock.advance(5)
        await Rotation(old, new).delete_old()
        assert await old.drafts() == []
        (draft,) = await new.drafts()
        await new.publish_draft(draft.number)
        assert (await new.recall("tea")).value == "a draft"


async def test_rules_of_trust_and_the_list_of_relays_hold_under_the_new_key(keys, clock, monkeypatch):
    monkeypatch.setattr("sense_memory.mind.relay_list.is_local", lambda _: False)
    monkeypatch.setattr("sense_memory.memories.rotation._BATCH_COUNT", 2)
    async with EmbeddedRelay(clock=clock) as relay, keys.before(relay.url) as old, keys.after() as new:
        await fill(old, clock)
        await old.remember("web", "poison", source="tool:browser")
        bad = await old.journal("a poisoned entry")
        await decide(old, "quarantine", name=f"journal:{bad}")
        await decide(old, "revoke", source="tool:browser")
        await old.sync()
        clock.advance(5)
        assert (await Rotation(old, new).carry()).missing == 0
        await new.remember("web again", "poison", source="tool:browser")
        held = await new.mind.trust.kept_back()
        assert {one.text for one in held.values()} == {"poison", "a poisoned entry"}
        assert await new.relays.found() == [relay.url]
        rule = next(one for one in await new.mind.trust.rules() if one.source)
        await new.mind.trust.undo(rule.id)
        assert (await new.recall("web")).value == "poison"


async def decide(store, effect, **about):
    return await store.mind.trust.apply(await store.mind.trust.plan(effect, **about))


# ── Private addresses ───────────────────────────────────────────────────────────────────


@pytest.fixture
def private_keys(clock, tmp_path):
    return Keys(clock, tmp_path, "private")


def d_tags(store):
    events = [RawEvent.loads(body) for body in ledger_of(store).bodies()]
    return {tag for event in events for tag in event.tag_values("d") if tag.startswith(address.PREFIX)}


async def test_no_private_address_is_the_same_under_both_keys_and_the_mode_stays(private_keys, clock):
    keys = private_keys
    async with keys.before() as old:
        await fill(old, clock)
        keys.mode = "readable"  # the new store is opened as if nobody knew
        async with keys.after() as new:
            assert (await Rotation(old, new).carry()).missing == 0
            await new.remember("later", "x")
            before, after = d_tags(old), d_tags(new)
            assert all(map(address.is_private, before | after))
            assert before.isdisjoint(after)
            assert len(await parts_of(new).reader.addresses.keys()) == 1
            for body in ledger_of(new).bodies():
                event = RawEvent.loads(body)
                inside = (await keys.new.decrypt(event.content, keys.new.public_key)).decode()
                assert not any(address.private_hex(tag) in inside for tag in before)


async def test_what_was_private_stays_so_although_the_store_was_opened_for_readable_addresses(
    private_keys, clock
):
    keys = private_keys
    async with keys.before() as old:
        await fill(old, clock)
        before = d_tags(old)
    keys.mode = "readable"
    async with keys.before() as old, keys.after() as new:
        assert (await Rotation(old, new).carry()).missing == 0
        after = d_tags(new) - {LINK_SLOT}
        assert all(map(address.is_private, after))
        assert before.isdisjoint(after)
        assert await shown(new) == await shown(old)


async def test_a_memory_that_was_switched_keeps_its_history(private_keys, clock):
    keys = private_keys
    keys.mode = "readable"
    async with keys.before() as old, keys.after() as new:
        await fill(old, clock)
        await old.relays.switch_addresses("private")
        clock.advance(5)
        was = await shown(old)
        await Rotation(old, new).carry()
        assert await shown(new) == was
        assert (await Rotation(old, new).carry()).versions == 0
        assert (await new.undo("tea")).value == (await old.undo("tea")).value


async def test_an_entry_at_an_address_of_the_first_release_is_carried_as_it_is(private_keys, clock):
    keys = private_keys
    text = b'{"type":"sense-memory:journal","content":"old","ts":1500000000.5}'
    content = await keys.old.encrypt(text, keys.old.public_key)
    tags = (("d", "sense-journal/1500000000.5"),)
    event = await keys.old.sign(Unsigned(1_500_000_000, 30078, tags, content))
    async with keys.before() as old, keys.after() as new:
        await parts_of(old).reader.file_events([event], None)
        for _ in range(2):
            assert (await Rotation(old, new).carry()).missing == 0
        assert [entry.content for entry in await new.recent()] == ["old"]


async def test_manifests_are_of_one_key_and_raise_no_alarm_under_the_next(keys, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with keys.before(relay.url) as old, keys.after(relay.url) as new:
            await fill(old, clock)
            await old.remember_many({f"k{number}": "x" for number in range(20)})
            await old.forget("k3")
            await old.sync()
            assert await old.relays.write_manifest()
            clock.advance(5)
            assert (await Rotation(old, new).carry()).missing == 0
            assert await new.relays.write_manifest()
            assert (await Rotation(old, new).carry()).missing == 0  # does not remove the new one
        async with keys.after(relay.url, ledger="elsewhere.db") as elsewhere:
            await elsewhere.sync()
            found = elsewhere.status().manifests
            assert (len(found.devices), found.is_alarming) == (1, False)
            assert found.expected == found.here > 20
