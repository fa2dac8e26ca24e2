"""One facet of the palace is read along by another key, and by nobody else."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import BadKey, BadPayload, InvalidInput
from sense_memory.mind.records import MindRecords
from tests.mind.scenes.test_scenes import everything


OWNER, READER, THIRD = (LocalSigner.from_hex(digit * 64) for digit in "567")


@asynccontextmanager
async def stores(clock):
    async with EmbeddedRelay(clock=clock) as relay:
        options = {"ledger": ":memory:", "background": False, "snapshot": False, "clock": clock}
        async with (
            MemoryStore(OWNER, [relay.url], **options) as owner,
            MemoryStore(READER, [relay.url], **options) as reader,
            MemoryStore(THIRD, [relay.url], **options) as third,
        ):
            await owner.persona_remember("people", "facts", "lisa", "Lisa paints.", themes=["art"])
            await owner.persona_remember("people", "beliefs", "lisa", "Lisa is shy.")
            yield relay, owner, reader, third


async def read(store):
    for state in await store.mind.scenes.all():
        await (await store.mind.scenes.open(state.id)).sync()
    return {memory.path: memory.value for memory in await store.mind.shares.read()}


async def test_a_reader_sees_one_facet_as_it_is_and_nobody_else_sees_anything(clock):
    async with stores(clock) as (relay, owner, reader, third):
        invitation = await owner.share("people", "facts", with_=READER.npub)
        await reader.mind.scenes.join(invitation)
        assert await read(reader) == {"people/facts/lisa": "Lisa paints."}
        (shared,) = await reader.mind.shares.read()
        assert (shared.owner, shared.themes, shared.state) == (OWNER.public_key, ("art",), "active")

        clock.advance(60)
        await owner.persona_remember("people", "facts", "lisa", "Lisa paints and prints.")
        await owner.persona_remember("people", "facts", "kaja", "Kaja lives in Graz.")
        await owner.sync()
        assert await read(reader) == {
            "people/facts/lisa": "Lisa paints and prints.",
            "people/facts/kaja": "Kaja lives in Graz.",
        }
        clock.advance(60)
        await owner.persona_forget("people", "facts", "lisa")
        await owner.sync()
        assert await read(reader) == {"people/facts/kaja": "Kaja lives in Graz."}

        with pytest.raises(InvalidInput, match="not an invitation"):
            await third.mind.scenes.join(invitation)
        assert await read(third) == {}
        async for event in everything(relay):
            assert "Graz" not in str(event)
            assert (
                "kaja" not in str(event) or event["pubkey"] == OWNER.public_key
            )  # names of its own are visible
            for author in (event["pubkey"], OWNER.public_key):
                with pytest.raises(BadPayload):
                    await THIRD.decrypt(event["content"], author)


async def test_a_share_that_was_ended_shows_nothing_of_what_comes_later(clock):
    async with stores(clock) as (_, owner, reader, third):
        for store, key in ((reader, READER), (third, THIRD)):
            await store.mind.scenes.join(await owner.share("people", "facts", with_=key.npub))
        clock.advance(60)
        await owner.unshare("people", "facts", with_=READER.npub)
        await owner.persona_remember("people", "facts", "kaja", "Kaja lives in Graz.")
        clock.advance(60)
        await owner.sync()
        assert "people/facts/kaja" not in await read(reader)
        assert set(await read(third)) == {"people/facts/kaja", "people/facts/lisa"}
        for with_, error in ((READER.npub, InvalidInput), (OWNER.npub, InvalidInput), ("none", BadKey)):
            with pytest.raises(error):
                await owner.unshare("people", "facts", with_=with_)
        with pytest.raises(InvalidInput, match="own"):
            await owner.share("people", "facts", with_=OWNER.npub)


async def test_a_facet_that_two_devices_shared_is_read_once_and_can_be_ended_on_either(clock):
    async with stores(clock) as (relay, owner, reader, third):
        options = {"background": False, "snapshot": False, "clock": clock}
        async with MemoryStore(OWNER, [relay.url], ledger=":memory:", **options) as laptop:
            await owner.sync()
            await laptop.sync()
            for device, store, key in (
                (owner, reader, READER),
                (laptop, third, THIRD),
                (laptop, reader, READER),
            ):
                await store.mind.scenes.join(await device.share("people", "facts", with_=key.npub))
            for device in (owner, laptop, owner):
                await device.sync()
            for store in (reader, third):
                await read(store)
                assert len(await store.mind.shares.read()) == 1
            for key in (READER, THIRD):
                await owner.unshare("people", "facts", with_=key.npub)
            await owner.persona_remember("people", "facts", "kaja", "Kaja lives in Graz.")
            for device in (owner, laptop, owner):
                clock.advance(60)
                await device.sync()
            assert "people/facts/kaja" not in await read(reader)
            assert "people/facts/kaja" not in await read(third)


async def test_a_reader_cannot_write_for_another_reader(clock):
    async with stores(clock) as (_, owner, reader, third):
        for store, key in ((reader, READER), (third, THIRD)):
            await store.mind.scenes.join(await owner.share("people", "facts", with_=key.npub))
        await read(reader)
        (state,) = await reader.mind.scenes.all()
        scene = await reader.mind.scenes.open(state.id)
        (record,) = [
            one for one in await MindRecords(scene.store).under("mind/shared/") if one.name != "index"
        ]
        forged = {**record.fields, "fields": {**record.fields["fields"], "value": "Lisa steals."}}
        clock.advance(60)
        await MindRecords(scene.store).write({record.path: forged, "mind/shared/other": forged})
        await scene.sync()
        assert await read(third) == {}
        clock.advance(60)
        await owner.sync()
        assert await read(third) == {"people/facts/lisa": "Lisa paints."}


async def test_a_reader_that_repeats_or_moves_what_the_owner_signed_shows_nobody_anything_old(clock):
    async with stores(clock) as (_, owner, reader, third):
        for store, key in ((reader, READER), (third, THIRD)):
            await store.mind.scenes.join(await owner.share("people", "facts", with_=key.npub))
        await owner.persona_remember("people", "facts", "kaja", "Kaja lives in Graz.")
        await owner.sync()
        await read(third)
        await read(reader)
        (state,) = await reader.mind.scenes.all()
        scene = await reader.mind.scenes.open(state.id)
        records = MindRecords(scene.store)
        old = {record.path: record.fields for record in await records.under("mind/shared/")}
        clock.advance(60)
        await owner.persona_remember("people", "facts", "lisa", "Lisa prints.")
        await owner.persona_forget("people", "facts", "kaja")
        await owner.sync()
        now = {"people/facts/lisa": "Lisa prints."}
        assert await read(third) == now
        await read(reader)
        clock.advance(60)
        moved = {f"mind/shared/{number:032x}": fields for number, fields in enumerate(old.values())}
        await records.write(old | moved)
        await scene.sync()
        assert await read(third) == now
        clock.advance(60)
        await owner.sync()
        assert await read(third) == now


async def test_a_facet_without_a_memory_cannot_be_shared(clock):
    async with stores(clock) as (_, owner, _, _):
        with pytest.raises(InvalidInput, match="no memory in people/fatcs"):
            await owner.share("people", "fatcs", with_=READER.npub)
        assert await owner.mind.scenes.all() == []
