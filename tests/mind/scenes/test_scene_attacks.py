"""What a member can do to others with the key of a scene alone: nothing that outlasts their next syncs."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from websockets.asyncio.client import connect

from sense_memory import LocalSigner
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from tests.mind.scenes.test_scenes import BAKER, agent, in_step, texts, village
from tests.mind.test_log import loop_clock


pytestmark = pytest.mark.virtual_time


async def publish(relay, scene, slot, text):
    """Publish an event under the key of a scene; `text` is what is encrypted, or None for junk."""
    key = LocalSigner.from_hex(scene.state.keys[-1].secret)
    content = "junk" if text is None else await key.encrypt(text, key.public_key)
    event = await key.sign(Unsigned(int(loop_clock()()) + 1, KIND_APP_DATA, (("d", slot),), content))
    async with connect(relay.url) as socket:
        await socket.send(b'["EVENT",' + orjson.dumps(event.as_json()) + b"]", text=True)
        while (frame := orjson.loads(await socket.recv()))[0] != "OK":
            pass
    assert frame[2], frame
    await asyncio.sleep(3.0)


def record(slot, **fields):
    return orjson.dumps({"type": "sense-memory:mind", "path": slot.removeprefix(address.PREFIX), **fields})


def own_page(scene):
    return next(slot for slot in scene.log.pages() if scene.log._is_own(slot))


@pytest.mark.parametrize("digits", [3, 12, 13, 151])
async def test_a_page_number_that_a_member_chose_keeps_no_entry_of_another_from_anybody(digits):
    async with village() as (relay, _, baker, smith):
        await smith.append("world.observed", {"text": "first"})
        await in_step(smith, baker)
        slot = f"{own_page(smith).rpartition('-')[0]}-{'9' * digits}"
        await publish(relay, smith, slot, record(slot, entries=[]))
        await smith.sync()
        for number in range(8):
            await smith.append("world.observed", {"text": f"{number} {'x' * 6_000}"})
            await smith.flush()
        await in_step(smith, baker)
        assert len(await texts(smith)) == len(await texts(baker)) == 9


async def test_a_record_that_is_nested_too_deeply_to_be_written_again_stops_nothing():
    async with village() as (relay, _, baker, smith):
        await smith.append("world.observed", {"text": "it rains"})
        await in_step(smith, baker)
        for slot in (own_page(smith), f"{address.LOG_PAGES}0badcafe-1"):
            deep = b"[" * 300 + b"]" * 300
            await publish(relay, smith, slot, record(slot, entries=["here"]).replace(b'"here"', deep))
        await smith.append("world.observed", {"text": "it snows"})
        await in_step(smith, baker)
        assert await texts(smith) == await texts(baker) == ["it rains", "it snows"]


@pytest.mark.parametrize("text", [None, b'{"type":"sense-memory:kv","key":"k","value":"v"}'])
async def test_a_page_that_a_member_replaced_by_what_does_not_open_is_written_again_after_an_hour(text):
    async with village() as (relay, _, baker, smith):
        await smith.append("world.observed", {"text": "it rains"})
        await in_step(smith, baker)
        await publish(relay, smith, own_page(smith), text)
        await in_step(smith)
        await asyncio.sleep(3_700.0)
        await in_step(smith)
        await baker._records.store.replication.sync()
        async with agent(BAKER, relay) as bare:
            await bare.sync()
            again = await bare.mind.scenes.open(baker.state.id)
            await again.sync()
            assert await texts(again) == ["it rains"]
