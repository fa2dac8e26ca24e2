"""Scenes: a log that several agents share; nobody speaks for another, and nobody without the key reads a byte."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import BadPayload, InvalidInput, LedgerCorrupt, StoreClosed
from sense_memory.limits import LOG_QUIET_SECONDS, LOG_WAIT_SECONDS
from sense_memory.mind.episodic import EpisodicMemory
from sense_memory.mind.log import Log, NewEntry
from sense_memory.mind.records import MindRecords
from sense_memory.mind.scenes.scene import Scene, _opened_ledger
from sense_memory.nostr import address
from tests.mind.test_log import loop_clock


pytestmark = pytest.mark.virtual_time  # a page that is written twice in a second waits for its second
BAKER, SMITH, JUDGE = (LocalSigner.from_hex(digit * 64) for digit in "567")


@asynccontextmanager
async def agent(signer, relay, ledger=":memory:"):
    options = {"background": False, "snapshot": False, "clock": loop_clock()}
    async with MemoryStore(signer, [relay.url], ledger=ledger, **options) as store:
        yield store


@asynccontextmanager
async def village():
    """A relay, three agents, and the baker's scene, which the smith has joined."""
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        agent(BAKER, relay) as baker,
        agent(SMITH, relay) as smith,
        agent(JUDGE, relay) as judge,
    ):
        scene = await baker.mind.scenes.create("village", as_name="baker")
        invitation = await scene.invite(SMITH.npub, "smith")
        await scene.sync()
        yield relay, (baker, smith, judge), scene, await smith.mind.scenes.join(invitation)


async def texts(scene):
    return [entry.text for entry in await scene.entries()]


async def begun(store, name):
    """A scene of the baker's, in which something has happened."""
    scene = await store.mind.scenes.create(name, as_name="baker")
    await scene.append("world.observed", {"text": "it rains"})
    return scene


async def kept_scene(relay, ledger):
    """The id and the ledger of a scene that the baker began, synced and closed."""
    async with agent(BAKER, relay, ledger) as baker:
        scene = await begun(baker, "village")
        await baker.sync()
        return scene.state.id, scene.store.ledger.path


async def in_step(*scenes):
    for _ in range(2):
        for scene in scenes:
            await scene.sync()


async def test_members_share_what_is_globally_visible_and_keep_the_rest_to_themselves():
    async with village() as (_, _, baker, smith):
        await baker.append("world.observed", {"text": "it rains"}, actor="world", turn=1)
        await baker.append("agent.thought", {"text": "I distrust the smith"}, turn=1)
        await smith.append("agent.reflected", {"belief": "the baker is tired", "based_on": []}, turn=2)
        await in_step(baker, smith)
        assert await texts(baker) == ["it rains", "I distrust the smith", "the baker is tired"]
        assert await texts(smith) == ["it rains", "the baker is tired"]
        assert [entry.author for entry in await smith.entries()] == [BAKER.public_key, SMITH.public_key]


async def test_two_members_may_write_at_once():
    async with village() as (_, _, baker, smith):
        for number in range(5):
            await baker.append("world.observed", {"text": f"baker {number}"})
            await smith.append("world.observed", {"text": f"smith {number}"})
        await in_step(baker, smith)
        assert await texts(baker) == await texts(smith)
        assert len(await texts(baker)) == 10


async def test_who_is_not_invited_reads_nothing_of_all_that_the_relay_holds():
    async with village() as (relay, (_, _, judge), baker, _):
        secret = "the silver locket is in the mill"
        await baker.append("world.observed", {"text": secret})
        await baker.sync()
        held = [event async for event in everything(relay)]
        assert held
        assert not any("locket" in str(event) or "village" in str(event) for event in held)
        for event in held:
            for author in {event["pubkey"], BAKER.public_key}:
                with pytest.raises(BadPayload):
                    await JUDGE.decrypt(event["content"], author)
        with pytest.raises(InvalidInput, match="no scene"):
            await judge.mind.scenes.open(baker.state.id)


async def everything(relay):
    """Every event that a relay holds, read by somebody without a key."""
    import orjson
    from websockets.asyncio.client import connect

    async with connect(relay.url) as socket:
        await socket.send('["REQ","all",{}]')
        while (frame := orjson.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT":
                yield frame[2]


async def test_a_member_who_speaks_for_another_is_shown_as_forged():
    """The smith holds the scene's key, so it can write what it likes; it cannot sign as the baker."""
    async with village() as (_, _, baker, smith):
        with pytest.raises(InvalidInput, match="only 'baker' itself"):
            await smith.append("world.observed", {"text": "I confess"}, actor="baker")
        for name in ("baker", "world"):
            await smith.log.append("world.observed", {"text": f"{name} confesses"}, actor=name)
        unsigned = Log(MindRecords(smith.store))
        await unsigned.append("world.observed", {"text": "nobody signed this"}, actor="baker")
        await unsigned.flush()
        await in_step(smith, baker)
        assert await texts(baker) == []
        assert await baker.forged_count() == 3


async def test_what_a_member_said_cannot_be_changed_moved_or_repeated_by_another():
    async with village() as (_, _, baker, smith):
        said = await baker.append("world.observed", {"text": "the mill burns"})
        await in_step(baker, smith)
        shared = Log(MindRecords(smith.store))
        (row,) = [
            row
            for page in smith.log._pages.by_slot.values()
            for row in page.entries.values()
            if row[0] == said.id
        ]
        forged = [
            [row[0], row[1], row[2], row[3], row[4], row[5], {"text": "the mill stands"}, *row[7:]],
            ["0" * 20, *row[1:]],
            [*row[:8], "0" * 128],
        ]
        store = smith.store
        cipher = await shared._opened_cipher()
        from orjson import dumps

        await store.ledger.write(store.ledger.log_rows.add, [cipher.seal(dumps(item)) for item in forged])
        await in_step(smith, baker)
        assert await texts(baker) == ["the mill burns"]


ATTACKS = {
    "said to be moved": lambda rows: {"entries": [], "moved": [row[0] for row in rows]},
    "forged": lambda rows: {"entries": [[*row[:6], {"text": "forged"}, *row[7:]] for row in rows]},
    "deleted": lambda rows: None,
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_a_member_said_is_back_after_its_next_sync_whatever_another_did_to_its_page(attack):
    async with village() as (relay, (store, _, _), baker, smith):
        await baker.append("world.observed", {"text": "the mill burns"})
        await in_step(baker, smith)
        await store.sync()
        await smith.entries()
        shared = MindRecords(smith.store)
        (page,) = await shared.under("mind/log/")
        if (fields := ATTACKS[attack](page.fields["entries"])) is None:
            await shared.forget([page.path])
        else:
            await shared.write({page.path: fields})
        for scene in (
            smith,
            baker,
            baker,
        ):  # the first sync finds the attack, the next one sends what it restored
            await scene.sync()
        assert await texts(baker) == ["the mill burns"]
        async with agent(BAKER, relay) as bare:
            await bare.sync()
            again = await bare.mind.scenes.open(baker.state.id)
            await again.sync()
            assert await texts(again) == ["the mill burns"]


async def test_a_member_cannot_hide_an_entry_by_taking_its_id():
    async with village() as (_, _, baker, smith):
        await baker.append("world.observed", {"text": "the mill burns"})
        await in_step(baker, smith)
        shared = MindRecords(smith.store)
        (page,) = await shared.under("mind/log/")
        for row in page.fields["entries"]:
            own = [*row[:3], "smith", *row[4:6], {"text": "all is well"}]
            signed = [*own, *await smith.signing.signature(own)]
            await shared.write(
                {f"mind/log/0-{row[0]}": {"entries": [signed]}, page.path: {"entries": [signed]}}
            )
        await in_step(smith, baker, smith)
        assert "the mill burns" in await texts(baker)
        assert "the mill burns" in await texts(smith)


async def test_a_removed_member_reads_nothing_that_comes_after():
    async with village() as (_, (_, _, judge), baker, smith):
        third = await judge.mind.scenes.join(await baker.invite(JUDGE.npub, "judge"))
        await baker.append("world.observed", {"text": "before"})
        await in_step(baker, smith, third)
        await baker.remove(SMITH.npub)
        await baker.append("world.observed", {"text": "after"})
        await in_step(baker, smith, third)
        assert await texts(smith) == ["before"]
        assert await texts(third) == await texts(baker) == ["before", "after"]
        await third.append("world.observed", {"text": "the judge heard it"})
        await in_step(third, baker)
        assert (await texts(baker))[-1] == "the judge heard it"


async def test_another_device_of_the_owner_writes_nothing_that_a_removed_member_reads():
    async with village() as (relay, (store, _, _), baker, smith), agent(BAKER, relay) as second:
        await store.sync()
        await second.sync()
        also_baker = await second.mind.scenes.open(baker.state.id)
        await baker.remove(SMITH.npub)
        await store.sync()
        await second.sync()
        await also_baker.sync()
        await also_baker.append("world.observed", {"text": "after"})
        await in_step(also_baker, baker, smith)
        assert await texts(baker) == ["after"]
        assert await texts(smith) == []


async def test_a_member_can_be_removed_from_a_scene_with_many():
    async with village() as (_, _, baker, smith):
        for number in range(15):
            await baker.invite(LocalSigner.from_hex(f"{number + 1000:064x}").npub, f"member {number}")
        await baker.remove(LocalSigner.from_hex(f"{1000:064x}").npub)
        await baker.append("world.observed", {"text": "after"})
        await in_step(baker, smith)
        assert await texts(smith) == ["after"]


async def test_a_wiped_machine_is_back_in_its_scenes():
    async with village() as (relay, (_, smith_store, _), baker, smith):
        await smith.append("world.observed", {"text": "the forge is cold"})
        await baker.append("world.observed", {"text": "bread"})
        await in_step(smith, baker)
        await smith_store.sync()
        async with agent(SMITH, relay) as bare:
            await bare.sync()
            (state,) = await bare.mind.scenes.all()
            assert state.name == "village"
            again = await bare.mind.scenes.open(state.id)
            assert sorted(await texts(again)) == ["bread", "the forge is cold"]


async def test_an_invitation_opens_for_nobody_else_and_an_altered_one_for_nobody():
    async with village() as (_, (_, smith, judge), baker, _):
        invitation = await baker.invite(JUDGE.npub, "judge")
        with pytest.raises(InvalidInput, match="not an invitation"):
            await smith.mind.scenes.join(invitation)
        for text in ("", "hello", invitation[:-9], invitation.replace("A", "B"), None):
            with pytest.raises(InvalidInput, match="not an invitation"):
                await judge.mind.scenes.join(text)
        scene = await judge.mind.scenes.join(invitation)
        assert await judge.mind.scenes.join(invitation) is scene


async def test_only_the_owner_changes_members():
    async with village() as (_, _, baker, smith):
        with pytest.raises(InvalidInput, match="only the owner"):
            await smith.invite(JUDGE.npub, "judge")
        with pytest.raises(InvalidInput, match="only the owner"):
            await smith.remove(BAKER.npub)
        with pytest.raises(InvalidInput, match="give the new member another one"):
            await baker.invite(JUDGE.npub, "smith")
        with pytest.raises(InvalidInput, match="another member"):
            await baker.remove(JUDGE.npub)


async def test_who_leaves_a_scene_forgets_its_key():
    async with village() as (_, (_, smith_store, _), _, smith):
        await smith_store.mind.scenes.leave(smith.state.id)
        assert await smith_store.mind.scenes.all() == []


async def test_scenes_are_closed_although_the_log_could_not_be_flushed(tmp_path, clock):
    """The clock is set back: the page of the agent's own log cannot be dated."""
    options = {"ledger": tmp_path / "a.db", "background": False, "snapshot": False, "clock": clock}
    async with MemoryStore(BAKER, **options) as store:
        scene = await store.mind.scenes.create("village", as_name="baker")
        await store.mind.log.append("agent.thought", {"text": "one"}, actor="baker")
        await store.mind.flush()
        clock.now -= 86_400 * 10
        await store.mind.log.append("agent.thought", {"text": "two"}, actor="baker")
    with pytest.raises(StoreClosed):
        scene.store.check()


# ── Two devices of the owner ────────────────────────────────────────────────────────────


@asynccontextmanager
async def two_owners(*members):
    """The village with some more members, and a second device of the baker."""
    async with (
        village() as (relay, (store, _, judge_store), baker, smith),
        agent(BAKER, relay) as second,
    ):
        judge = None
        if members:
            judge = await judge_store.mind.scenes.join(await baker.invite(JUDGE.npub, "judge"))
        for one in (store, second):
            await one.sync()
        also = await second.mind.scenes.open(baker.state.id)
        yield (store, second), (baker, also), smith, judge


async def settle(stores, *scenes):
    for _ in range(4):  # two devices that make a key in the same second need the fourth
        for one in stores:
            await one.sync()
        for scene in scenes:
            await scene.sync()


def key_of(scene):
    return scene.state.keys[-1].id


async def test_two_devices_that_remove_at_once_end_with_one_key_that_neither_removed_member_has():
    async with two_owners(JUDGE) as (stores, (one, two), smith, judge):
        await one.remove(SMITH.npub)
        await two.remove(JUDGE.npub)
        await one.append("world.observed", {"text": "said on one"})
        await two.append("world.observed", {"text": "said on two"})
        await settle(stores, smith, judge)
        assert key_of(one) == key_of(two)
        assert set(one.state.members) == set(two.state.members) == {BAKER.public_key}
        assert await texts(one) == await texts(two) == ["said on one", "said on two"]
        await one.append("world.observed", {"text": "after"})
        await settle(stores, smith, judge)
        assert "after" in await texts(two)
        assert "after" not in [*await texts(smith), *await texts(judge)]


async def test_who_is_invited_while_another_device_removes_somebody_is_a_member():
    async with village() as (relay, (store, _, judge_store), one, smith), agent(BAKER, relay) as second:
        for device in (store, second):
            await device.sync()
        two = await second.mind.scenes.open(one.state.id)
        await one.remove(SMITH.npub)
        judge = await judge_store.mind.scenes.join(await two.invite(JUDGE.npub, "judge"))
        await settle((store, second), judge, smith)
        assert key_of(one) == key_of(two) == key_of(judge)
        assert set(judge.state.members.values()) == {"baker", "judge"}
        await one.append("world.observed", {"text": "after"})
        await settle((store, second), judge, smith)
        assert (await texts(judge), await texts(smith)) == (["after"], [])


async def test_members_that_two_devices_invite_at_once_are_all_members():
    async with two_owners() as (stores, (one, two), smith, _):
        await one.invite(JUDGE.npub, "judge")
        await two.invite(LocalSigner.from_hex("8" * 64).npub, "miller")
        await settle(stores, smith)
        expected = {"baker", "smith", "judge", "miller"}
        for scene in (one, two, smith):
            assert set(scene.state.members.values()) == expected


async def test_two_processes_that_invite_at_once_lose_no_member(tmp_path):
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        agent(BAKER, relay, tmp_path / "a.db") as one,
        agent(BAKER, relay, tmp_path / "a.db") as two,
    ):
        scene = await one.mind.scenes.create("village", as_name="baker")
        same = await two.mind.scenes.open(scene.state.id)
        await asyncio.gather(scene.invite(SMITH.npub, "smith"), same.invite(JUDGE.npub, "judge"))
        await scene.sync()
        await same.sync()
        assert (
            set(scene.state.members.values())
            == set(same.state.members.values())
            == {"baker", "smith", "judge"}
        )


async def test_names_are_tidied_and_told_apart_whatever_their_case():
    async with village() as (_, (baker_store, _, _), baker, _):
        for name in ("Smith", " sMITH ", "BAKER"):
            with pytest.raises(InvalidInput, match="give the new member another one"):
                await baker.invite(JUDGE.npub, name)
        await baker.invite(JUDGE.npub, "  the   judge ")
        assert baker.state.members[JUDGE.public_key] == "the judge"
        with pytest.raises(InvalidInput, match="has no name; give one"):
            await baker.invite(JUDGE.npub, " ")
        scene = await baker_store.mind.scenes.create("  new  town ", as_name=" me ")
        assert (scene.state.name, scene.name_of_self) == ("new town", "me")


async def test_no_name_hides_a_character_that_makes_it_look_like_another():
    async with village() as (_, (store, _, _), baker, _):
        for name in ("smith\u200b", "smi\U000e0041th", "\u202ehtims"):
            with pytest.raises(
                InvalidInput, match="invisible characters; give the new member a name without them"
            ):
                await baker.invite(JUDGE.npub, name)
            with pytest.raises(InvalidInput, match="invisible characters; give names without them"):
                await store.mind.scenes.create("mill", as_name=name)
        await baker.invite(JUDGE.npub, "judge 👩\u200d🎨")


async def test_who_may_not_speak_is_told_who_may():
    async with village() as (_, _, baker, smith):
        for name, problem in (
            ("world", "only the owner of the scene may speak as 'world'"),
            ("baker", "only 'baker' itself"),
        ):
            with pytest.raises(InvalidInput, match=problem):
                await smith.append("world.observed", {"text": "x"}, actor=name)
        for name in ("smith", "Smith", " SMITH"):
            with pytest.raises(InvalidInput, match="only 'smith' itself"):
                await baker.append("world.observed", {"text": "x"}, actor=name)


@pytest.mark.parametrize("name", ["smith", "Smith", "smith "])
async def test_not_even_the_owner_is_shown_under_a_name_that_looks_like_a_members(name):
    async with village() as (_, _, baker, smith):
        await baker.log.append("world.observed", {"text": "I confess"}, actor=name)
        await baker.log.append("world.observed", {"text": "it rains"}, actor="The World")
        await in_step(baker, smith)
        assert await texts(smith) == ["it rains"]
        assert await smith.forged_count() == 1


async def test_a_removal_that_could_not_be_announced_is_announced_by_the_next_sync(monkeypatch):
    async with village() as (_, _, baker, smith):
        third = LocalSigner.from_hex("9" * 64)
        await baker.invite(third.npub, "miller")
        announced = Log.append_many

        async def fails(self, entries):
            raise InvalidInput("the disk is full")

        monkeypatch.setattr(Log, "append_many", fails)
        with pytest.raises(InvalidInput, match="disk"):
            await baker.remove(third.npub)
        monkeypatch.setattr(Log, "append_many", announced)
        assert "miller" not in baker.state.members.values()
        await in_step(baker, smith)
        assert key_of(smith) == key_of(baker)


async def test_a_removed_member_that_goes_on_writing_is_shown_to_nobody_and_changes_nothing():
    async with village() as (_, (_, _, judge_store), baker, smith):
        await smith.append("world.observed", {"text": "the forge is cold"})
        await in_step(smith, baker)
        await baker.remove(SMITH.npub)
        await smith.append("world.observed", {"text": "I am still here"})
        await smith.log.append("scene.moved", {"members": {SMITH.public_key: "smith"}}, actor="smith")
        await in_step(smith, baker)
        judge = await judge_store.mind.scenes.join(await baker.invite(JUDGE.npub, "judge"))
        await baker.append("world.observed", {"text": "under the new key"})
        await in_step(smith, baker, judge)
        assert await texts(baker) == await texts(judge) == ["the forge is cold", "under the new key"]
        assert await texts(smith) == ["the forge is cold", "I am still here"]
        assert set(baker.state.members.values()) == {"baker", "judge"}
        assert await baker.forged_count() == await judge.forged_count() == 2


async def test_no_member_brings_a_removed_one_back_by_repeating_what_the_owner_said_of_an_earlier_key():
    async with village() as (_, (_, _, judge_store), baker, smith):
        judge = await judge_store.mind.scenes.join(await baker.invite(JUDGE.npub, "judge"))
        await in_step(baker, smith)
        pages = await MindRecords(smith.store).under("mind/log/")
        said = [row for page in pages for row in page.fields["entries"] if row[2] == "scene.moved"]
        old = [[*row[:6], {"id": smith.state.id, "members": dict(baker.state.members)}] for row in said[:1]]
        unbound = [
            [*row, *await baker.signing.signature(row)] for row in old
        ]  # as earlier programs announced
        await baker.remove(JUDGE.npub)
        await in_step(baker, smith)
        assert key_of(smith) == key_of(baker)
        await MindRecords(smith.store).write({"mind/log/0badcafe-1": {"entries": [*said, *unbound]}})
        for _ in range(2):
            await in_step(smith, baker, judge)
        await baker.append("world.observed", {"text": "after"})
        await in_step(baker, smith, judge)
        for scene in (baker, smith):
            assert set(scene.state.members.values()) == {"baker", "smith"}
        assert (await texts(smith), await texts(judge)) == (["after"], [])


async def test_entries_that_are_read_while_members_change_stay_in_the_scene():
    async with village() as (_, _, baker, smith):
        for number in range(60):
            await baker.append("world.observed", {"text": f"{number} {'y' * 600}"})
        await in_step(baker, smith)
        await baker.append("world.observed", {"text": "last"})
        await baker.flush()
        reads = asyncio.create_task(baker.entries())
        await asyncio.sleep(0)
        assert not reads.done()
        baker.log.judge(baker.signing)
        await reads
        assert len(await baker.entries()) == 61


async def test_a_flush_during_which_members_change_replaces_no_page_by_one_with_less():
    async with village() as (_, _, baker, smith):
        await baker.append("world.observed", {"text": "one"})
        await smith.append("world.observed", {"text": "of the smith"})
        await in_step(baker, smith)
        await smith.append("world.observed", {"text": "more of the smith"})
        await smith.sync()
        await baker.store.replication.sync()  # brings the smith's page, which the log has not read yet
        await baker.append("world.observed", {"text": "two"})
        flushing = asyncio.create_task(baker.log.flush())
        await asyncio.sleep(0)
        baker.log.judge(baker.signing)
        await flushing
        heads = baker.store.ledger.heads.seqs_beneath(address.LOG_PAGES)
        pages = [item.record.fields["entries"] for item in await baker.store.reader.opened(heads)]
        said = {row[6]["text"] for page in pages for row in page if "text" in row[6]}
        assert said == {"one", "two", "of the smith", "more of the smith"}


@pytest.fixture
def being_opened(monkeypatch):
    """The ledgers of keys that are being opened, which takes a second each."""
    found = asyncio.Queue()

    async def slowly(*given):
        store = await _opened_ledger(*given)
        found.put_nowait(store)
        await asyncio.sleep(1)
        return store

    monkeypatch.setattr("sense_memory.mind.scenes.scene._opened_ledger", slowly)
    return found


async def begin(call, being_opened):
    """Begin a call, and return when it opens the ledger of a new key."""
    while not being_opened.empty():
        being_opened.get_nowait()
    task = asyncio.create_task(call)
    await being_opened.get()
    return task


async def test_what_is_read_and_appended_while_a_new_key_is_opened_is_of_the_scene(being_opened):
    async with three() as (_, _, (baker, smith, _)):
        await baker.remove(JUDGE.npub)
        await baker.sync()
        following = await begin(smith.sync(), being_opened)
        before = await texts(smith)
        await smith.append("world.observed", {"text": "meanwhile"})
        assert not following.done()
        await following
        await in_step(smith, baker)
        assert await texts(smith) == await texts(baker) == [*before, "meanwhile"]
        assert len(before) == 3


async def test_calls_that_learn_of_a_new_key_at_once_open_one_ledger_for_it(being_opened):
    async with village() as (_, _, baker, _):
        await asyncio.gather(await begin(baker.remove(SMITH.npub), being_opened), baker.sync())
        assert being_opened.empty()


def open_files():
    return len(list(Path("/dev/fd").iterdir()))


async def test_a_sync_of_many_scenes_has_few_files_open_at_once_and_none_afterwards(tmp_path):
    counts, ticks = [], loop_clock()

    def clock():
        counts.append(open_files())
        return ticks()

    options = {"ledger": tmp_path / "ledger", "background": False, "snapshot": False, "clock": clock}
    async with MemoryStore(BAKER, **options) as store:
        for number in range(12):
            await store.mind.scenes.create(f"village {number}", as_name="baker")
    async with MemoryStore(BAKER, **options) as store:
        (_, state, *_) = await store.mind.scenes.all()
        held = await store.mind.scenes.open(state.id)
        await held.append("world.observed", {"text": "it rains"})
        before = open_files()
        counts.clear()
        await store.sync()
        assert max(counts) - before <= 20  # the scenes that are closed have 44 files
        assert open_files() == before
        assert await texts(held) == ["it rains"]  # a scene that the caller holds stays open

        syncing = asyncio.create_task(store.sync())
        await asyncio.sleep(0)
        states = await store.mind.scenes.all()
        opened = [await store.mind.scenes.open(state.id) for state in states[2:5]]
        await syncing
        for scene in opened:  # and so does one that is opened while it is synced
            await scene.append("world.observed", {"text": "it snows"})
            assert await texts(scene) == ["it snows"]


async def test_scenes_with_damaged_ledgers_keep_no_other_from_its_sync(tmp_path):
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        async with agent(BAKER, relay, tmp_path / "ledger") as baker:
            for number in range(6):
                await baker.mind.scenes.create(f"village {number}", as_name="baker")
            ids = [state.id for state in await baker.mind.scenes.all()]
            scenes = [await baker.mind.scenes.open(scene_id) for scene_id in ids]
            await scenes[-1].append("world.observed", {"text": "it rains"})
            paths = [scene.store.ledger.path for scene in scenes]
        for path in paths[:4]:  # as many as a sync opens at once
            path.write_bytes(b"not a ledger")
        async with agent(BAKER, relay, tmp_path / "ledger") as baker:
            with pytest.raises(LedgerCorrupt):
                await baker.sync()
        async with agent(BAKER, relay) as bare:
            await bare.sync()
            assert await texts(await bare.mind.scenes.open(ids[-1])) == ["it rains"]


async def test_a_scene_that_is_left_during_a_sync_does_not_fail_the_sync():
    async with village() as (_, (baker, *_), *_):
        for number in range(6):
            await baker.mind.scenes.create(f"village {number}", as_name="baker")
        for state in await baker.mind.scenes.all():
            syncing = asyncio.create_task(baker.mind.scenes.sync())
            for _ in range(30):
                await asyncio.sleep(0)
            await baker.mind.scenes.leave(state.id)
            await syncing
        assert await baker.mind.scenes.all() == []


async def test_a_scene_that_cannot_be_closed_keeps_no_other_open(tmp_path):
    before = open_files()

    async def work():
        async with MemoryStore(BAKER, ledger=tmp_path / "ledger", clock=loop_clock()) as store:
            for name in ("mill", "market", "forge"):
                scene = await begun(store, name)
            scene.store.ledger.close()

    with pytest.raises(StoreClosed):
        await work()
    assert open_files() == before


@pytest.mark.parametrize("uses_it", [True, False])
async def test_closing_a_store_with_a_damaged_open_scene_raises_nothing_and_keeps_nothing_open(
    tmp_path, uses_it, caplog
):
    """The damage is an error of whatever uses the scene, and not of the close."""
    before, ledger = open_files(), tmp_path / "ledger"
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        async with agent(BAKER, relay, ledger) as baker:
            for name in ("mill", "forge"):
                await begun(baker, name)
            ids = {state.name: state.id for state in await baker.mind.scenes.all()}
            damaged = (await baker.mind.scenes.open(ids["mill"])).store.ledger.path
        with closing(sqlite3.connect(damaged)) as connection, connection:
            connection.execute("UPDATE events SET body = zeroblob(200)")
        async with agent(BAKER, relay, ledger) as baker:
            mill, forge = [await baker.mind.scenes.open(ids[name]) for name in ("mill", "forge")]
            for scene in (mill, forge):
                await scene.append("world.observed", {"text": "it snows"})
            for use in (mill.entries, mill.flush, mill.sync) if uses_it else ():
                with pytest.raises(LedgerCorrupt, match=f"^move {damaged} aside, "):
                    await use()
        async with agent(BAKER, relay, ledger) as baker:
            assert await texts(await baker.mind.scenes.open(ids["forge"])) == ["it rains", "it snows"]
            with pytest.raises(LedgerCorrupt):
                await (await baker.mind.scenes.open(ids["mill"])).entries()
    assert open_files() == before
    assert caplog.records == []


async def test_a_damaged_scene_names_the_file_to_move_which_the_next_sync_restores_or_is_left(tmp_path):
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        scene_id, path = await kept_scene(relay, tmp_path / "ledger")
        for damage in (b"", b"not a ledger"):
            path.write_bytes(damage)
            async with agent(BAKER, relay, tmp_path / "ledger") as baker:
                with pytest.raises(LedgerCorrupt) as caught:
                    await baker.mind.scenes.open(scene_id)
                assert str(caught.value).startswith(
                    f"move {path} aside, with its files -wal and -shm, and sync"
                )
                assert "--rescue" not in str(caught.value)
                path.rename(tmp_path / "aside")
                for companion in tmp_path.glob(f"{path.name}*"):
                    companion.unlink()
                await baker.sync()
                assert await texts(await baker.mind.scenes.open(scene_id)) == ["it rains"]
        path.write_bytes(b"not a ledger")
        async with agent(BAKER, relay, tmp_path / "ledger") as baker:
            await baker.mind.scenes.leave(scene_id)
            assert await baker.mind.scenes.all() == []
            assert path.read_bytes() == b"not a ledger"
            with pytest.raises(InvalidInput, match="no scene"):
                await baker.mind.scenes.leave(scene_id)


async def test_reading_a_scene_with_an_altered_event_names_the_file_to_move(tmp_path):
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        scene_id, path = await kept_scene(relay, tmp_path / "ledger")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE events SET body = zeroblob(200)")
        async with agent(BAKER, relay, tmp_path / "ledger") as baker:
            scene = await baker.mind.scenes.open(scene_id)
            for use in (scene.entries, scene.sync, scene.forged_count):
                with pytest.raises(LedgerCorrupt, match=f"^move {path} aside, "):
                    await use()
            await baker.mind.scenes.leave(scene_id)
            assert await baker.mind.scenes.all() == []


# ── What a removed member wrote ─────────────────────────────────────────────────────────


@asynccontextmanager
async def three():
    """A scene of three agents; each has said something, and the others have heard it."""
    async with village() as (relay, stores, baker, smith):
        judge = await stores[2].mind.scenes.join(await baker.invite(JUDGE.npub, "judge"))
        for scene, name in ((baker, "baker"), (smith, "smith"), (judge, "judge")):
            await scene.append("world.observed", {"text": f"the {name} was here"})
        await in_step(baker, smith, judge)
        yield relay, stores, (baker, smith, judge)


async def as_before(scene, *entries):
    """Write under a member's earliest key, as a changed program does that ignores the removal."""
    store, log = scene._opened[scene.state.keys[0].id]
    await log.append_many(
        [NewEntry("world.observed", {"text": text}, "smith", at=at) for text, at in entries]
    )
    await log.flush()
    await store.replication.sync()


BEFORE = ["the baker was here", "the smith was here", "the judge was here"]


@pytest.mark.parametrize("at", [None, 0.0, 1.0, 250_000_000_000.0])
async def test_what_a_removed_member_writes_under_the_old_key_is_shown_nowhere_whatever_time_it_claims(at):
    async with three() as (relay, (_, _, judge_store), (baker, smith, judge)):
        await baker.remove(SMITH.npub)
        await baker.append("world.observed", {"text": "after"})
        await in_step(baker, judge)
        await as_before(smith, ("I am still here", at))
        await in_step(baker, judge)
        for scene in (baker, judge):
            assert await texts(scene) == [*BEFORE, "after"]
            assert await scene.forged_count() == 1
        async with agent(JUDGE, relay) as bare:
            await judge_store.sync()
            await bare.sync()
            assert await texts(await bare.mind.scenes.open(judge.state.id)) == [*BEFORE, "after"]


async def test_a_removed_member_cannot_change_what_counts_of_its_words():
    """It holds the old key, so it can replace its own pages, and sign another text under the id of one that counts."""
    async with three() as (relay, (_, _, judge_store), (baker, smith, judge)):
        await baker.remove(SMITH.npub)
        await in_step(baker, judge)
        shared = MindRecords(smith._opened[smith.state.keys[0].id][0])
        for page in await shared.under("mind/log/"):
            rows = page.fields["entries"]
            for row in rows:
                if row[3] == "smith":
                    changed = [*row[:6], {"text": "the smith was always right"}]
                    row[:] = [*changed, *await smith.signing.signature(changed)]
            await shared.write({page.path: {"entries": rows}})
        await shared.store.replication.sync()
        async with agent(JUDGE, relay) as bare:
            await judge_store.sync()
            await bare.sync()
            again = await bare.mind.scenes.open(judge.state.id)
            await in_step(baker, judge, again)
            assert await texts(baker) == await texts(judge) == BEFORE
            assert await texts(again) == ["the baker was here", "the judge was here"]


async def test_what_a_remaining_member_wrote_under_the_old_key_during_the_removal_counts():
    async with three() as (_, _, (baker, smith, judge)):
        await judge.append("world.observed", {"text": "in flight"})
        await smith.append("world.observed", {"text": "in flight too"})
        await baker.remove(SMITH.npub)
        await in_step(smith, judge, baker, judge)
        assert await texts(baker) == await texts(judge) == [*BEFORE, "in flight"]


async def test_a_removed_member_learns_of_it_with_its_next_sync_and_appends_no_more():
    async with three() as (_, _, (baker, smith, judge)):
        await baker.remove(SMITH.npub)
        await baker.sync()
        await smith.append("world.observed", {"text": "nobody has told me"})
        assert await smith.is_member()
        await smith.sync()
        assert smith.name_of_self == ""
        assert [await scene.is_member() for scene in (baker, smith, judge)] == [True, False, True]
        with pytest.raises(InvalidInput, match="no longer a member"):
            await smith.append("world.observed", {"text": "again"})
        assert judge.name_of_self == "judge"
        assert await texts(smith) == [*BEFORE, "nobody has told me"]


async def test_who_is_invited_again_after_a_removal_speaks_again():
    async with three() as (_, (_, store, _), (baker, smith, judge)):
        await baker.remove(SMITH.npub)
        await in_step(baker, smith, judge)
        await as_before(smith, ("while I was out", None))
        await store.mind.scenes.join(await baker.invite(SMITH.npub, "smith"))
        await in_step(baker, smith, judge)
        assert smith.name_of_self == "smith"
        await smith.append("world.observed", {"text": "I am back"})
        await in_step(smith, baker, judge)
        for scene in (baker, smith, judge):
            assert await texts(scene) == [*BEFORE, "I am back"]


async def test_a_removal_whose_announcement_failed_names_what_counted_then_and_not_what_came_since(
    monkeypatch,
):
    async with three() as (_, _, (baker, smith, judge)):
        announced = Log.append_many

        async def fails(self, entries):
            raise InvalidInput("the disk is full")

        monkeypatch.setattr(Log, "append_many", fails)
        with pytest.raises(InvalidInput, match="disk"):
            await baker.remove(SMITH.npub)
        monkeypatch.setattr(Log, "append_many", announced)
        await as_before(smith, ("between", None))
        await in_step(baker, judge)
        assert await texts(baker) == await texts(judge) == BEFORE


async def test_two_devices_that_remove_at_once_count_what_either_had_seen():
    async with three() as (relay, (store, _, _), (baker, smith, judge)), agent(BAKER, relay) as second:
        await store.sync()
        await second.sync()
        other = await second.mind.scenes.open(baker.state.id)
        await smith.append("world.observed", {"text": "seen by one device"})
        await in_step(smith, other)
        await other.remove(SMITH.npub)
        await baker.remove(SMITH.npub)
        for _ in range(3):
            await store.sync()
            await second.sync()
            await in_step(baker, other, judge)
        await as_before(smith, ("late", None))
        await in_step(baker, other, judge)
        for scene in (baker, other, judge):
            assert await texts(scene) == [*BEFORE, "seen by one device"]


async def test_a_member_who_was_removed_by_an_earlier_version_is_ended_by_the_next_sync_of_the_owner(
    monkeypatch,
):
    async with three() as (_, _, (baker, smith, judge)):
        monkeypatch.setattr(Scene, "_with_counts", unchanged)
        await baker.remove(SMITH.npub)
        await in_step(baker, judge)
        monkeypatch.undo()
        assert await texts(judge) == BEFORE
        await in_step(baker, judge)
        await as_before(smith, ("late", None))
        await in_step(baker, judge)
        assert await texts(baker) == await texts(judge) == BEFORE


async def unchanged(_, state):
    return state, {}


async def test_many_entries_of_a_removed_member_still_count():
    async with three() as (_, _, (baker, smith, judge)):
        await smith.log.append_many(
            [NewEntry("world.observed", {"text": f"{number}"}, "smith") for number in range(1_100)]
        )
        await in_step(smith, baker)
        await baker.remove(SMITH.npub)
        await in_step(baker, judge)
        assert len(await judge.entries()) == len(await baker.entries()) == 1_103


# ── The time of an entry ────────────────────────────────────────────────────────────────


async def test_no_entry_is_later_than_the_page_in_which_it_arrived():
    async with three() as (_, _, (baker, smith, judge)):
        await as_before(smith, *[(f"from the future {number}", 250_000_000_000.0) for number in range(8)])
        await in_step(judge)
        await asyncio.sleep(5)
        await baker.append("world.observed", {"text": "now"})
        await in_step(baker, judge)
        window = EpisodicMemory("judge").visible(await judge.entries())
        assert window[-1].text == "now"
        assert [entry.at for entry in window] == sorted(entry.at for entry in window)


async def test_honest_entries_keep_their_times():
    async with three() as (_, _, (baker, _, judge)):
        said = [await baker.append("world.observed", {"text": f"{number}"}) for number in range(5)]
        await in_step(baker, judge)
        assert [entry for entry in await judge.entries() if entry.text.isdigit()] == said


# ── When entries travel ─────────────────────────────────────────────────────────────────


@asynccontextmanager
async def background():
    """A scene of two agents whose stores follow their relay, as servers do."""
    options = {"ledger": ":memory:", "background": True, "snapshot": False}
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        MemoryStore(BAKER, [relay.url], clock=loop_clock(), **options) as baker,
        MemoryStore(SMITH, [relay.url], clock=loop_clock(), **options) as smith,
    ):
        scene = await baker.mind.scenes.create("village", as_name="baker")
        joined = await smith.mind.scenes.join(await scene.invite(SMITH.npub, "smith"))
        await in_step(scene, joined)
        yield scene, joined


async def test_what_is_appended_travels_after_a_quiet_moment_without_a_sync():
    async with background() as (baker, smith):
        passes = asyncio.get_running_loop().passes
        await baker.append("world.observed", {"text": "it rains"})
        await passes(LOG_QUIET_SECONDS / 2)
        await smith.sync()
        assert await texts(smith) == []
        await passes(LOG_QUIET_SECONDS / 2 + 5)
        await smith.sync()
        assert await texts(smith) == ["it rains"]


async def test_members_who_follow_their_relays_need_no_sync_at_all():
    async with background() as (baker, smith):
        await baker.append("world.observed", {"text": "it rains"})
        await asyncio.get_running_loop().passes(60)
        assert await texts(smith) == ["it rains"]


async def test_an_entry_of_a_busy_scene_travels_in_a_bounded_time():
    async with background() as (baker, smith):
        for number in range(6):
            await baker.append("world.observed", {"text": f"{number}"})
            await asyncio.get_running_loop().passes(LOG_WAIT_SECONDS / 4)
        await smith.sync()
        assert (await texts(smith))[:1] == ["0"]


async def test_a_scene_that_is_closed_while_entries_wait_keeps_them(tmp_path):
    async with EmbeddedRelay(clock=loop_clock()) as relay:
        options = {"ledger": tmp_path / "ledger", "snapshot": False, "clock": loop_clock()}
        async with MemoryStore(BAKER, [relay.url], **options) as store:
            scene = await begun(store, "village")
        async with agent(BAKER, relay, tmp_path / "ledger") as store:
            assert await texts(await store.mind.scenes.open(scene.state.id)) == ["it rains"]
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_removal_by_a_device_that_has_read_nothing_yet_hides_nothing_that_others_have_seen():
    async with village() as (relay, (store, _, _), baker, smith):
        await smith.append("world.observed", {"text": "the mill burns"})
        await in_step(smith, baker)
        await store.sync()
        async with agent(BAKER, relay) as bare:
            await bare.mind.records.store.replication.sync()
            await (await bare.mind.scenes.open(baker.state.id)).remove(SMITH.npub)
            await bare.sync()
        await store.sync()
        await in_step(baker)
        assert await texts(baker) == ["the mill burns"]


async def test_a_removal_while_no_relay_answers_names_what_counts_when_one_does(monkeypatch):
    async def answered_by_none(scene):
        return []

    async with village() as (relay, (store, _, _), baker, smith):
        await smith.append("world.observed", {"text": "the mill burns"})
        await in_step(smith, baker)
        await store.sync()
        async with agent(BAKER, relay) as bare:
            await bare.mind.records.store.replication.sync()
            scene = await bare.mind.scenes.open(baker.state.id)
            with monkeypatch.context() as patch:
                patch.setattr(Scene, "sync", answered_by_none)
                await scene.remove(SMITH.npub)
            await bare.sync()
            await in_step(scene)
            assert await texts(scene) == ["the mill burns"]
        await store.sync()
        await in_step(baker)
        assert await texts(baker) == ["the mill burns"]
