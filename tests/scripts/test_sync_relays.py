from __future__ import annotations

import json
import time

import pytest


DEAD = "ws://127.0.0.1:9"  # the discard port: nobody listens there


async def write(agent, url, *keys, value="v", later=0):
    async with agent.store(url, clock=lambda: time.time() + later) as store:
        await store.remember_many((key, value) for key in keys)
        assert (await store.sync()).in_step


async def held(agent, url):
    """What a new device gets from one relay."""
    async with agent.store(url) as store:
        await store.sync()
        return {memory.key: memory.value for memory in await store.recall_all()}


def lines(done):
    return {line["url"]: line for line in json.loads(done.out)["relays"]}


async def test_every_relay_gets_what_the_others_hold(agent, relays):
    async with relays(3) as (one, two, three):
        await write(agent, one, "a", "b")
        await write(agent, two, "b", "c", value="newer", later=5)
        async with agent.store(three) as store:
            await store.journal("entry")
            await store.sync()

        done = await agent.run("sync_relays.py", one, two, three)

        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines() == [
            f"{one}: holds 2 events, lacks 3",
            f"{two}: holds 2 events, lacks 2",
            f"{three}: holds 1 event, lacks 3",
            f"{one}: 3 sent, in step",
            f"{two}: 2 sent, in step",
            f"{three}: 3 sent, in step",
        ]
        for url in (one, two, three):
            assert await held(agent, url) == {"a": "v", "b": "newer", "c": "newer"}
        assert not (agent.home / "ledgers").exists()


async def test_a_mirror_in_step_sends_nothing_and_leaves_nothing(agent, relays, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    async with relays(2) as urls:
        await write(agent, urls[0], "a")
        await agent.run("sync_relays.py", *urls)

        found = lines(await agent.run("sync_relays.py", *urls, "--json"))

    assert [(line["holds"], line["lacks"], line["sent"], line["problem"]) for line in found.values()] == [
        (1, 0, {}, ""),
        (1, 0, {}, ""),
    ]
    assert list(scratch.iterdir()) == []


async def test_from_and_to_copy_in_one_direction(agent, relays):
    async with relays(2) as (one, two):
        await write(agent, one, "a")
        await write(agent, two, "b")

        done = await agent.run("sync_relays.py", "--from", one, "--to", two)

        assert done.out.splitlines() == [
            f"{one}: holds 1 event",
            f"{two}: holds 1 event, lacks 1",
            f"{two}: 1 sent, in step",
        ]
        assert await held(agent, one) == {"a": "v"}
        assert await held(agent, two) == {"a": "v", "b": "v"}


async def test_what_was_forgotten_is_forgotten_everywhere(agent, relays):
    async with relays(2) as (one, two):
        await write(agent, one, "a", "b")
        await agent.run("sync_relays.py", one, two)
        async with agent.store(two) as store:
            await store.sync()
            await store.forget("a")
            await store.sync()

        assert (await agent.run("sync_relays.py", one, two)).code == 0

        assert await held(agent, one) == await held(agent, two) == {"b": "v"}


async def test_a_dry_run_shows_the_plan_and_sends_nothing(agent, relays):
    async with relays(2) as (one, two):
        await write(agent, one, "a")

        done = await agent.run("sync_relays.py", one, two, "--dry-run")
        found = lines(await agent.run("sync_relays.py", one, two, "--dry-run", "--json"))

        assert done.out.splitlines() == [
            f"{one}: holds 1 event, lacks 0",
            f"{two}: holds 0 events, lacks 1",
        ]
        assert found[two] == {**found[two], "lacks": 1, "sent": {}, "gives": True, "takes": True}
        assert await held(agent, two) == {}


async def test_a_relay_that_is_down_is_left_alone_and_the_others_are_served(agent, relays):
    async with relays(2) as (one, two):
        await write(agent, one, "a")

        done = await agent.run("sync_relays.py", one, DEAD, two)

        assert done.code == 1
        plan = done.out.splitlines()[1]
        assert plan.startswith(f"{DEAD}: holds 0 events, but did not show everything (")
        assert plan.endswith("; nothing is sent to it")
        assert await held(agent, two) == {"a": "v"}
        assert (await agent.run("sync_relays.py", one, DEAD, "--dry-run")).code == 1


async def test_without_arguments_the_configured_relays_are_mirrored(agent, relays, monkeypatch):
    async with relays(2) as (one, two):
        await write(agent, one, "a")
        monkeypatch.setenv("SENSE_MEMORY_RELAYS", f"{one},{two}")

        assert (await agent.start("sync_relays.py")).code == 0

        assert await held(agent, two) == {"a": "v"}


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ([], 1, "give two different relays"),
        ([DEAD], 1, "give two different relays"),
        ([DEAD, f"{DEAD}/"], 1, "give two different relays"),
        (["--from", DEAD], 2, "or both --from and --to"),
        (["--to", DEAD], 2, "or both --from and --to"),
        ([DEAD, "--from", DEAD, "--to", DEAD], 2, "or both --from and --to"),
        ([DEAD, "http://relay.example"], 1, "error: "),
    ],
)
async def test_what_makes_no_sense_is_refused(agent, arguments, code, problem):
    done = await agent.run("sync_relays.py", *arguments)

    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert "Traceback" not in done.err


async def test_help(agent):
    done = await agent.run("sync_relays.py", "--help")

    assert done.code == 0
    for word in ("--from", "--to", "--dry-run", "--json", "--agent"):
        assert word in done.out
