"""Private addresses: what a relay sees, reading both modes, and switching an existing memory while devices go on."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import random
import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput, InvalidSetting, MisfiledError
from sense_memory.ledger.places import PlaceState
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.records import envelope
from tests.conftest import FakeClock
from tests.inside import ledger_of, parts_of


SIZES = {1_456, 5_552, 21_936, 54_704}  # characters of NIP-44 around 1, 4, 16 and 40 KiB
PRIVATE = re.compile(r"sense-memory/[0-9a-f]{64}")


async def held_by(relay):
    """Every event that a relay holds, as it serves them to anybody."""
    async with connect(relay.url) as socket:
        await socket.send(json.dumps(["REQ", "all", {}]))
        found = []
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            found += [frame[2]] if frame[0] == "EVENT" else []
        assert found
        return found


async def sent_to(relay, event):
    async with connect(relay.url) as socket:
        await socket.send(json.dumps(["EVENT", event]))
        while (frame := json.loads(await socket.recv()))[0] != "OK":
            pass
        return frame


def tags_of(events):
    return [tag[1] for event in events for tag in event["tags"] if tag[0] in {"d", "a"}]


@pytest.fixture
def signer():
    return LocalSigner.generate()


@pytest.fixture
def opened(signer, clock, tmp_path):
    """Opens a device of the agent by its name."""

    def device(name, *relays, **options):
        given = {"background": False, "clock": clock, "snapshot": False, **options}
        return MemoryStore(signer, [relay.url for relay in relays], ledger=tmp_path / f"{name}.db", **given)

    return device


async def fill(store):
    """One record of each kind, with names that no relay may see."""
    await store.remember("secret-name", "tea")
    await store.persona_remember("people", "secret-facet", "lisa", "artist", themes=["art"])
    await store.journal("seen an otter")
    await store.mind.log.append("agent.spoke", {"text": "hello"}, actor="me")
    await store.mind.blocks.create("human", value="likes tea")
    await store.persona_introspect()


# ── What a relay sees ───────────────────────────────────────────────────────────────────


async def test_a_relay_sees_keyed_hashes_and_four_sizes(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay, addresses="private") as store:
        await fill(store)
        await store.remember("large", "x" * 3_000)
        await store.sync()
        await store.forget("large")
        await store.sync()
        dump = await held_by(relay)

    assert all(PRIVATE.search(tag) for tag in tags_of(dump))
    assert {tag[0] for event in dump for tag in event["tags"]} <= {"d", "p", "a", "e", "k"}
    assert {len(event["content"]) for event in dump} <= SIZES
    assert not re.search("secret|lisa|otter|human|persona|mind|introspection", json.dumps(dump))


async def test_with_readable_addresses_a_relay_sees_names_and_lengths(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as store:
        await fill(store)
        await store.sync()
        dump = await held_by(relay)

    assert {"sense-memory/secret-name", "sense-memory/persona/people/secret-facet/lisa"} <= set(tags_of(dump))
    assert len({len(event["content"]) for event in dump}) > 3


async def lines_held(mode, clock):
    """What a relay holds of four records, a line for each event, as docs/private-addresses.md shows it."""
    async with EmbeddedRelay(clock=clock) as relay:
        options = {"ledger": ":memory:", "background": False, "clock": clock, "addresses": mode}
        async with MemoryStore(LocalSigner.generate(), [relay.url], **options) as store:
            await store.remember("user_timezone", "America/Vancouver")
            await store.persona_remember(
                "people", "facts", "lisa", "artist, teaches workshops", themes=["art"]
            )
            await store.mind.blocks.create("human", value="Lisa paints")
            await store.journal("Lisa asked for the studio's hours.")
            await store.sync()
            dump = await held_by(relay)
    dump.sort(key=lambda event: (event["kind"], len(event["content"])))
    return [
        (str(event["kind"]), *(tag[1] for tag in event["tags"]), str(len(event["content"]))) for event in dump
    ]


@pytest.mark.parametrize("mode", ["readable", "private"])
async def test_the_page_of_the_docs_shows_what_a_relay_holds(mode, clock):
    page = (Path(__file__).parents[2] / "docs" / "private-addresses.md").read_text(encoding="utf-8")
    shown = page.partition(f"<!-- dump {mode} -->\n```text\n")[2].partition("```")[0]
    held = await lines_held(mode, clock)

    def masked(rows):
        return [[re.sub("[0-9a-f]{64}", "HEX", word) for word in row] for row in rows]

    assert masked(line.split() for line in shown.splitlines()) == masked(held)


async def test_a_private_d_tag_is_an_hmac_of_the_path_under_the_oldest_key(opened):
    async with opened("a", addresses="private") as store:
        await store.remember("tz", "Rome")
        parts = parts_of(store)
        (key,) = await parts.reader.addresses.keys()
        (place,) = parts.ledger.places.of("sense-memory/tz")

    wanted = hmac.new(key, b"sense-memory/v1/d\0tz", hashlib.sha256).hexdigest()
    assert place.tag == f"sense-memory/{wanted}"


async def test_padding_is_declined_or_asked_for_by_itself(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with opened("a", relay, addresses="private", pad_sizes=False) as store:
            await store.remember("tz", "Rome")
            await store.sync()
            short = await held_by(relay)
        async with opened("b", relay, pad_sizes=True) as store:
            await store.sync()
            await store.remember("tz", "Oslo")
            await store.sync()
            (padded,) = [event for event in await held_by(relay) if "sense-memory/tz" in tags_of([event])]

    assert not {len(event["content"]) for event in short} & SIZES
    assert len(padded["content"]) in SIZES


@pytest.mark.parametrize("size", [1, 900, 1_024, 1_025, 16_384, 40_950, 40_960])
def test_every_text_is_padded_to_one_of_four_sizes_and_reads_the_same(size):
    text = json.dumps("x" * (size - 2)).encode()

    assert len(envelope.padded(text)) in {1_024, 4_096, 16_384, 40_960}
    assert json.loads(envelope.padded(text)) == json.loads(text)


def test_what_cannot_be_meant_is_refused(signer):
    with pytest.raises(InvalidInput, match="addresses must be"):
        MemoryStore(signer, addresses="hidden")
    with pytest.raises(InvalidInput, match="pad_sizes"):
        MemoryStore(signer, pad_sizes="yes")
    with pytest.raises(InvalidSetting, match="0 to 120"):
        MemoryStore(signer, send_jitter=121)


# ── Reading both ────────────────────────────────────────────────────────────────────────


async def test_both_modes_are_one_memory(opened, clock):
    """What one device writes privately, another edits readably; each reads what is newest, under one name."""
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened("a", relay, addresses="private") as one,
        opened("b", relay) as two,
    ):
        await fill(one)
        await one.sync()
        await two.sync()
        assert (await two.recall("secret-name")).value == "tea"
        assert (await two.persona_recall("people", "secret-facet", "lisa"))[0].value == "artist"
        assert [entry.content for entry in await two.recent(5)] == ["seen an otter"]
        clock.advance(5)
        await two.remember("secret-name", "coffee")
        await two.sync()
        await one.sync()
        assert (await one.recall("secret-name")).value == "coffee"
        clock.advance(5)
        await one.forget("secret-name")
        await one.sync()
        await two.sync()
        assert await two.recall("secret-name") is None
        assert ledger_of(one).integrity() == ledger_of(two).integrity() == []
        assert "sense-memory/secret-name" not in tags_of(await held_by(relay))


async def test_an_event_at_the_private_address_of_another_path_is_misfiled(opened, signer):
    async with opened("a", addresses="private") as store:
        await store.remember("mine", "1")
        keys = await parts_of(store).reader.addresses.keys()

    record, elsewhere = envelope.flat("mine", "2", 1.0), address.private_d_tag(keys[0], "other")
    sealed = await envelope.seal(signer, record, address.private_d_tag(keys[0], "mine"))
    moved = await signer.sign(Unsigned(1_800_000_000, KIND_APP_DATA, (("d", elsewhere),), sealed.content))
    with pytest.raises(MisfiledError):
        await envelope.open_event(signer, moved, keys)
    plain = await envelope.seal(signer, record)
    without = await signer.sign(Unsigned(1_800_000_000, KIND_APP_DATA, (("d", elsewhere),), plain.content))
    with pytest.raises(MisfiledError):
        await envelope.open_event(signer, without, keys)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_deletion_by_another_client_of_a_private_address_is_understood(
    opened, clock, signer, is_known
):
    """It says nothing inside; the event at the address does, whether it arrived before or with the deletion."""
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay, addresses="private") as one:
        await one.remember("tz", "Rome")
        await one.sync()
        tag = ledger_of(one).head("sense-memory/tz").event().d_tag
        old = [event for event in await held_by(relay) if tag in tags_of([event])]
        clock.advance(30)
        request = envelope.deletion(signer.public_key, (tag,), (), int(clock()))
        async with EmbeddedRelay(clock=clock) as other, opened("b", other) as two:
            for event in (*old, (await signer.sign(request)).as_json()):
                await sent_to(other, event)
                if is_known:
                    await two.sync()
            await two.sync()
            assert await two.recall("tz") is None
            lines = b"".join(json.dumps(event).encode() + b"\n" for event in old)
            async with opened("c") as three:
                await three.import_(io.BytesIO(lines + (await signer.sign(request)).body() + b"\n"))
                assert await three.recall("tz") is None


async def test_an_event_that_does_not_repeat_its_d_tag_is_checked_by_the_key(signer):
    key, record = os.urandom(32), envelope.flat("mine", "2", 1.0)
    sealed = await envelope.seal(signer, record)
    tags = (("d", address.private_d_tag(key, "mine")),)
    event = await signer.sign(Unsigned(1_800_000_000, KIND_APP_DATA, tags, sealed.content))

    assert await envelope.open_event(signer, event, (os.urandom(32), key)) == record


async def test_a_flat_memory_may_be_named_like_a_private_address(opened, clock):
    name = "ab" * 32
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as store:
        await store.remember(name, "1")
        await store.sync()
        async with opened("b", relay, addresses="private") as other:
            await other.sync()
            assert (await other.recall(name)).value == "1"
            await other.forget(name)
            await other.sync()
        await store.sync()
        assert await store.recall(name) is None


async def test_the_largest_memory_has_a_private_address_too(opened, clock):
    """There is no room for its d-tag inside, and a device that does not know the key yet reads it nevertheless."""
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay, addresses="private") as store:
        size = 40_960 - envelope.plaintext_bytes(envelope.flat("big", "", 1_800_000_000.0)) - 90
        while True:
            try:
                await store.remember("big", "x" * size)
            except Exception:
                break
            size += 1
        await store.sync()
        async with opened("b", relay) as other:
            await other.sync()
            assert len((await other.recall("big")).value) == size - 1


# ── Keys ────────────────────────────────────────────────────────────────────────────────


async def test_two_devices_that_each_made_a_key_use_the_older_one(opened, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened("a", relay, addresses="private") as one,
        opened("b", relay, addresses="private") as two,
    ):
        await one.remember("first", "1")
        clock.advance(10)
        await two.remember("first", "2")
        await two.remember("second", "2")
        for store in (one, two, one, two):
            await store.sync()
            clock.advance(10)
        keys = [await parts_of(store).reader.addresses.keys() for store in (one, two)]
        assert len(keys[0]) == 2
        assert keys[0] == keys[1]
        for store in (one, two):
            assert (await store.recall("first")).value == "2"
            assert (await store.recall("second")).value == "2"
        await two.remember("second", "3")
        await two.sync()
        await one.sync()
        assert (await one.recall("second")).value == "3"
        last = ledger_of(two).head("sense-memory/second").event().d_tag
        assert last == address.private_d_tag(keys[0][0], "second")
        await one.forget("second")
        for store in (one, two):
            await store.sync()
        assert await two.recall("second") is None


# ── Switching ───────────────────────────────────────────────────────────────────────────


async def snapshot_of(store):
    return {
        "flat": {memory.key: memory.value for memory in await store.list_keys()}
        if hasattr(store, "list_keys")
        else None,
        "secret": getattr(await store.recall("secret-name"), "value", None),
        "lisa": [memory.value for memory in await store.persona_recall("people", "secret-facet", "lisa")],
        "log": [entry.payload for entry in await store.mind.log.entries()],
        "block": (await store.mind.blocks.get("human")).value,
        "history": [version.value for version in await store.history("secret-name")][-1:],
    }


async def test_a_memory_is_switched_and_back_and_its_old_addresses_are_gone(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as store, opened("b", relay) as other:
        await fill(store)
        await store.sync()
        before = await snapshot_of(store)
        clock.advance(60)
        plan = await store.relays.switch_addresses("private", dry_run=True)
        assert plan.to_write == plan.records > 4
        done = await store.relays.switch_addresses("private")
        assert done.is_done
        assert all(PRIVATE.search(tag) for tag in tags_of(await held_by(relay)))
        assert await snapshot_of(store) == before
        await other.sync()
        assert await snapshot_of(other) == before
        clock.advance(60)
        assert (await other.relays.switch_addresses("readable")).is_done
        await store.sync()
        assert await snapshot_of(store) == before
        at = {tag for event in await held_by(relay) for name, tag, *_ in event["tags"] if name == "d"}
        assert len({tag for tag in at if PRIVATE.fullmatch(tag)}) == 1  # the key stays where it is


async def test_old_addresses_are_left_until_every_relay_has_shown_the_new_ones(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with EmbeddedRelay(clock=clock) as gone, opened("a", relay, gone) as store:
            await store.remember("tz", "Rome")
            await store.sync()
        async with opened("a", relay, gone, read_timeout=1) as store:
            clock.advance(60)
            done = await store.relays.switch_addresses("private")
            assert (done.to_write, done.to_remove, done.unread) == (0, 1, 1)
            assert "sense-memory/tz" in tags_of(await held_by(relay))
            assert (await store.relays.switch_addresses("private", without=[gone.url])).is_done
            assert "sense-memory/tz" not in tags_of(await held_by(relay))


async def test_without_relays_no_old_name_is_ever_sent(opened, clock):
    """A name that never left the machine must not leave it in what removes it."""
    async with opened("a") as store:
        await store.remember("secret-name", "tea")
        assert (await store.relays.switch_addresses("private")).is_done
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay, addresses="private") as store:
        await store.sync()
        await store.sync()
        assert "secret" not in json.dumps(await held_by(relay))
        assert (await store.recall("secret-name")).value == "tea"


async def test_an_edit_of_another_device_wins_over_the_copy_that_did_not_know_it(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as one, opened("b", relay) as two:
        await one.remember("tz", "Rome")
        await one.persona_remember("people", "facts", "lisa", "artist")
        await one.sync()
        await two.sync()
        clock.advance(60)
        await two.remember("tz", "Oslo")
        await two.persona_remember("people", "facts", "lisa", "painter")
        clock.advance(60)
        await one.relays.switch_addresses("private")
        for store in (two, one, two, one):
            clock.advance(5)
            await store.sync()
        for store in (one, two):
            assert (await store.recall("tz")).value == "Oslo"
            assert (await store.persona_recall("people", "facts", "lisa"))[0].value == "painter"
        assert await one.drafts() == []


async def test_an_edit_wins_over_a_copy_that_relays_prefer_at_its_own_address(opened, clock):
    """A copy back to the readable address is dated later than the edit there, so a relay drops the edit."""
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as one, opened("b", relay) as two:
        await one.remember("tz", "Rome")
        await one.sync()
        await two.sync()
        clock.advance(60)
        await two.remember("tz", "Oslo")
        for mode in ("private", "readable"):
            clock.advance(60)
            await one.relays.switch_addresses(mode)
        for store in (two, one, two, one):
            clock.advance(5)
            await store.sync()
        assert [(await store.recall("tz")).value for store in (one, two)] == ["Oslo", "Oslo"]


async def test_what_another_device_forgot_meanwhile_stays_forgotten(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as one, opened("b", relay) as two:
        await fill(one)
        await one.sync()
        await two.sync()
        clock.advance(60)
        await two.forget("secret-name")
        await two.persona_forget("people", "secret-facet", "lisa")
        clock.advance(60)
        await one.relays.switch_addresses("private")
        for store in (two, one, two, one, two):
            clock.advance(5)
            await store.sync()
        for store in (one, two):
            assert await store.recall("secret-name") is None
            assert await store.persona_recall("people", "secret-facet", "lisa") == []
        async with opened("c", relay) as fresh:
            await fresh.sync()
            assert await fresh.recall("secret-name") is None


async def test_an_old_address_that_a_relay_replays_does_not_return(opened, clock, signer):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as store:
        await store.remember("tz", "Rome")
        await store.remember("gone", "x")
        await store.sync()
        old = [event for event in await held_by(relay) if event["kind"] == KIND_APP_DATA]
        clock.advance(60)
        await store.relays.switch_addresses("private")
        await store.remember("tz", "Oslo")
        await store.forget("gone")
        await store.sync()
        async with EmbeddedRelay(clock=clock) as liar, opened("b", relay, liar) as other:
            for event in old:
                await sent_to(liar, event)
            clock.advance(60)
            await other.sync()
            await other.sync()
            assert (await other.recall("tz")).value == "Oslo"
            assert await other.recall("gone") is None
            async with opened("a", relay, liar) as again:
                await again.sync()
                assert (await again.recall("tz")).value == "Oslo"
                assert await again.recall("gone") is None


class _Killed(BaseException):
    """The process ends here."""


@asynccontextmanager
async def dying_after(store, steps):
    """Let so many transactions of a store's ledger happen, and then no more."""
    ledger, left = ledger_of(store), [steps]
    write = ledger.write

    async def counted(change, *values, **options):
        if left[0] <= 0:
            raise _Killed
        left[0] -= 1
        return await write(change, *values, **options)

    ledger.write = counted
    try:
        yield left
    finally:
        ledger.write = write


async def test_a_switch_that_dies_at_any_step_goes_on_where_it_was(opened, clock):
    async with EmbeddedRelay(clock=clock) as relay, opened("a", relay) as store, opened("b", relay) as other:
        await fill(store)
        await store.sync()
        await other.sync()
        before, step, deaths = await snapshot_of(store), 0, 0
        for mode in ("private", "readable"):
            while True:
                clock.advance(60)
                async with dying_after(store, step):
                    try:
                        done = await store.relays.switch_addresses(mode)
                    except _Killed:
                        deaths, step = deaths + 1, step + 1
                    else:
                        break
                await other.sync()
                assert await snapshot_of(other) == before
            assert done.is_done
            step = 0
        assert deaths > 10
        assert await snapshot_of(store) == before
        assert ledger_of(store).places.count(PlaceState.LEFT_OVER) == 0


# ── The game ────────────────────────────────────────────────────────────────────────────


async def play(moves, modes):
    """The memories of two devices after some moves, all syncs done; `modes` are their addresses, None for no switches."""
    clock, signer = FakeClock(), LocalSigner.generate()
    async with EmbeddedRelay(clock=clock) as relay:
        stores = [
            MemoryStore(
                signer,
                [relay.url],
                ledger=":memory:",
                background=False,
                clock=clock,
                addresses=mode or "readable",
            )
            for mode in modes
        ]
        async with stores[0], stores[1]:
            for number, (what, device, key) in enumerate(moves):
                clock.advance(7)
                store = stores[device]
                if what == "write":
                    await store.remember(key, f"{number}")
                elif what == "palace":
                    await store.persona_remember("people", "facts", key, f"{number}")
                elif what == "forget":
                    await store.forget(key)
                elif what == "sync":
                    await store.sync()
                elif modes[device] is not None:
                    now = parts_of(store).reader.addresses.mode
                    await store.relays.switch_addresses("readable" if now == "private" else "private")
                else:
                    await store.sync()
                    await store.sync()
            for _ in range(4):
                for store in stores:
                    clock.advance(7)
                    await store.sync()
            found = []
            for store in stores:
                flat = {key: getattr(await store.recall(key), "value", None) for key in "ab"}
                palace = {
                    memory.path: memory.value for memory in await store.persona_recall("people", "facts")
                }
                found.append((flat, palace))
                assert ledger_of(store).integrity() == []
            return found


@pytest.mark.parametrize("seed", [0, 2018])
async def test_devices_in_different_modes_end_as_devices_in_one_mode_do(seed):
    """The oracle is the same game with readable addresses alone."""
    rng = random.Random(seed)
    choices = ("write", "write", "palace", "forget", "sync", "sync", "switch")
    moves = [(rng.choice(choices), rng.randrange(2), rng.choice("ab")) for _ in range(25)]
    plain = await play(moves, (None, None))
    mixed = await play(moves, ("private", "readable"))
    assert mixed[0] == mixed[1]
    assert [flat for flat, _ in mixed] == [flat for flat, _ in plain]
    assert [sorted(palace.values()) for _, palace in mixed] == [
        sorted(palace.values()) for _, palace in plain
    ]


@settings(max_examples=5, deadline=None)
@given(st.lists(st.text("abcxyz/", min_size=1, max_size=40), min_size=2, max_size=20, unique=True))
def test_private_d_tags_of_different_paths_differ_and_look_alike(paths):
    key = b"k" * 32
    tags = [address.private_d_tag(key, path) for path in paths]

    assert len(set(tags)) == len(paths)
    assert all(PRIVATE.fullmatch(tag) for tag in tags)
