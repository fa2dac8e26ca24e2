"""Values of any JSON type in any field: another program under the own key, or a member of a scene, may have written them.

Nothing of that stops a sync, a prompt or a search.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress

import orjson
import pytest

from sense_memory import MemoryStore
from sense_memory.errors import InvalidInput
from sense_memory.mind.context import ContextBuilder
from sense_memory.mind.episodic import EpisodicMemory
from sense_memory.mind.log import NewEntry
from sense_memory.mind.records import MindRecords
from sense_memory.mind.salience import SalienceMemory
from sense_memory.mind.scenes.invitations import KIND_INVITATION
from sense_memory.mind.scenes.membership import fields_of
from sense_memory.nostr.event import Unsigned
from tests.mind.scenes.test_scenes import BAKER, SMITH, in_step, texts, village
from tests.mind.test_mind import KEY, everything, fill


VALUES = [
    None,
    True,
    -1,
    2**63,
    1e300,
    "",
    "x/\n../~\u202e",
    "é" * 300,
    [],
    [None, 1, {}, ["a"]],
    [[["a", 1], 2], "b"],
    {},
    {"a": [1], "": None},
]


def variants(fields):
    """The fields with each hostile value in each of their places, one after the other, with a number."""
    made = ({**fields, name: value} for name in sorted(fields) for value in VALUES)
    return enumerate(made)


async def everything_works(opened):
    mind = opened.mind
    found = await everything(mind)
    for topic in found["topics"]:
        await mind.topics.get(topic.name)
    for state in found["scenes"]:
        await mind.scenes.open(state.id)
    await mind.blocks.history("human")
    await mind.identity.check("I sell pots.")
    await mind.identity.is_due()
    await mind.conversation("chat").as_messages(await mind.manager("chat").system_prompt())
    for tool in mind.tools():
        if tool.name.endswith("_search"):
            await tool.call({"query": "cobalt"})
    entries = found["log"]
    for memory in (EpisodicMemory("potter").visible, SalienceMemory("potter").visible):
        ContextBuilder(10**7).build(entries, identity="I am potter.", scene="glaze", memory=memory)
    await mind.shares.read()


async def first_of(mind, kind):
    return (await mind.records.under(f"mind/{kind}/", asks=False))[0]


async def test_a_field_of_any_type_in_any_record_stops_nothing(clock):
    async with MemoryStore(KEY, ledger=":memory:", background=False, clock=clock) as opened:
        mind = opened.mind
        await fill(mind)
        for kind in ("block", "archive", "topic", "objective", "conversation", "scene"):
            fields = (await first_of(mind, kind)).fields
            made = {f"mind/{kind}/v{number}": found for number, found in variants(fields)}
            assert len(made) >= 3 * len(VALUES)
            await mind.records.write(made)
            if kind == "conversation":
                for number in range(len(made)):
                    await mind.conversation(f"v{number}").as_messages()
        await everything_works(opened)


async def test_a_field_of_any_type_in_the_identity_stops_nothing(clock):
    async with MemoryStore(KEY, ledger=":memory:", background=False, clock=clock) as opened:
        await fill(opened.mind)
        identity = await opened.mind.records.read("mind/identity")
        for _, made in variants(identity.fields):
            await opened.mind.records.write({identity.path: made})
            await opened.mind.identity.check("I sell pots.")
            await opened.mind.identity.is_due()


async def test_a_field_of_any_type_in_a_block_in_pieces_stops_nothing(clock):
    more, piece = {"device": "0badcafe", "of": "token", "count": 1}, {"of": "token", "text": "second"}
    async with MemoryStore(KEY, ledger=":memory:", background=False, clock=clock) as opened:
        made = {}
        for number, odd in variants(more):
            made[f"mind/block/m{number}"] = {"value": "first", "more": odd}
        for number, odd in variants(piece):
            made |= {
                f"mind/block/p{number}": {"value": "first", "more": more},
                f"mind/more/p{number}/0badcafe-0": odd,
            }
        await opened.mind.records.write(made)
        assert (await opened.mind.blocks.compile()).count("first") == 5 * len(VALUES)


async def test_a_record_whose_name_is_no_name_stops_nothing(clock):
    async with MemoryStore(KEY, ledger=":memory:", background=False, clock=clock) as opened:
        await fill(opened.mind)
        for kind in ("block", "archive", "topic", "objective", "conversation", "scene"):
            (record, *_) = await opened.mind.records.under(f"mind/{kind}/", asks=False)
            for name in ("a b><c", "\u202e", "0"):
                await opened.mind.records.write({f"mind/{kind}/{name}": record.fields})
        await everything_works(opened)
        assert "><" not in await opened.mind.blocks.compile()


async def test_a_value_of_any_type_in_any_payload_or_row_stops_nothing(clock):
    async with MemoryStore(KEY, ledger=":memory:", background=False, clock=clock) as opened:
        await fill(opened.mind)
        entries = await opened.mind.log.entries()
        payloads = {entry.kind: entry for entry in entries}.values()
        new = [
            NewEntry(entry.kind, made, entry.actor, 1, entry.conversation)
            for entry in payloads
            for _, made in variants(entry.payload)
        ]
        await opened.mind.log.append_many(new)
        await everything_works(opened)
        row = ["0" * 19 + "1", 1.0, "world.observed", "world", 1, "chat", {"text": "a row"}]
        rows = [
            [*row[:place], value, *row[place + 1 :]]
            for place in range(7)
            for value in [*VALUES, -1e300, 10**15]
        ]
        for number, bad in enumerate(rows):
            bad[0] = f"{number:020x}" if bad[0] == row[0] else bad[0]
        page = {"entries": [*rows, [], None, 1, [1] * 9], "removed": VALUES, "moved": VALUES}
        await opened.mind.records.write({"mind/log/0badcafe-1": page})
        for number, value in enumerate(VALUES):
            await opened.mind.records.write(
                {f"mind/log/0badcafe-{number + 2}": {"entries": value, "removed": value}}
            )
        await everything_works(opened)
        await opened.sync()


# ── Scenes ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.virtual_time
async def test_whatever_the_owner_announces_the_members_go_on():
    async with village() as (_, _, baker, smith):
        key = baker.state.keys[-1].id
        announced = {
            "id": baker.state.id,
            "members": {},
            "key": key,
            "invitations": {},
            "removed": [],
            "counted": {},
        }
        payloads = [made for _, made in variants(announced)]
        payloads += [
            {**announced, name: {smith._me: value}}
            for name in ("members", "invitations", "counted")
            for value in VALUES
        ]
        await baker.log.append_many([NewEntry("scene.moved", payload, "baker") for payload in payloads])
        await baker.append("world.observed", {"text": "it rains"})
        await in_step(baker, smith)
        assert await texts(smith) == ["it rains"]


@pytest.mark.virtual_time
async def test_whatever_a_record_of_the_scene_holds_its_owner_and_its_members_go_on():
    async with village() as (_, (store, other, _), baker, smith):
        await baker.append("world.observed", {"text": "it rains"})
        await in_step(baker, smith)
        for opened, scene in ((store, baker), (other, smith)):
            records = opened.mind.records
            fields = (await first_of(opened.mind, "scene")).fields
            rows = [{**fields, "keys": [made]} for _, made in variants(fields["keys"][0])]
            for made in [*(made for _, made in variants(fields)), *rows]:
                await records.write({f"mind/scene/{scene.state.id}": made})
            await in_step(scene)
            assert await texts(scene) == ["it rains"]


@pytest.mark.virtual_time
async def test_whatever_the_record_of_what_counts_holds_the_owner_goes_on():
    async with village() as (_, (store, _, _), baker, smith):
        await baker.remove(smith._me)
        (record,) = await store.mind.records.under(f"mind/counted/{baker.state.id}/", asks=False)
        made = {f"{record.path}{number}": fields for number, fields in variants(record.fields)}
        await store.mind.records.write(made)
        await in_step(baker)
        assert await texts(baker) == []


@pytest.mark.virtual_time
async def test_whatever_an_owner_puts_into_an_invitation_it_opens_or_is_refused():
    async with village() as (_, (_, other, _), baker, smith):
        fields = fields_of(baker.state)
        rows = [{**fields, "keys": [made]} for _, made in variants(fields["keys"][0])]
        for made in [*(made for _, made in variants(fields)), *rows]:
            content = await BAKER.encrypt(orjson.dumps(made), SMITH.public_key)
            event = await BAKER.sign(Unsigned(0, KIND_INVITATION, (("p", SMITH.public_key),), content))
            with suppress(InvalidInput):
                await other.mind.scenes.join("sense-scene:" + urlsafe_b64encode(event.body()).decode())
        await in_step(baker, smith)
        await baker.append("world.observed", {"text": "it rains"})
        await in_step(baker, smith)
        assert await texts(smith) == ["it rains"]


@pytest.mark.virtual_time
async def test_whatever_a_reader_writes_under_the_key_of_a_share_the_others_read_on():
    async with village() as (_, (store, other, _), _, _):
        await store.persona_remember("people", "facts", "lisa", "Lisa is here.")
        scene = await other.mind.scenes.join(await store.share("people", "facts", with_=SMITH.npub))
        await in_step(scene)
        (before,) = await other.mind.shares.read()
        records = MindRecords(scene.store)
        for record in await records.under("mind/shared/", asks=False):
            nested = [{**record.fields, "fields": made} for _, made in variants(record.fields["fields"])]
            deep = orjson.Fragment(b"[" * 300 + b"]" * 300)
            nested.append({**record.fields, "fields": {"value": deep}})
            for made in [*(made for _, made in variants(record.fields)), *nested]:
                await records.write({record.path: made})
        assert await other.mind.shares.read() == [before]
