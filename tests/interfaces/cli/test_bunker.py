"""The command line of an agent whose key is in a bunker."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import pytest

from tests.signers.bunkers import Bunker


@asynccontextmanager
async def _bunker(relay):
    bunker = Bunker(relay, time.time)
    async with bunker.running():
        yield bunker


@pytest.fixture
def bunker(background, relay):
    return background(_bunker(relay))


def test_an_agent_is_connected_with_a_bunker_and_used_as_any_other(cli, home, bunker, relay):
    said = cli("init", "--bunker", stdin=f"{bunker.url}\n").stdout
    assert bunker.user.npub in said
    assert bunker.secret not in said
    assert not (home / "keys" / "default.key").exists()

    cli("remember", "tea", "green")
    assert cli("recall", "tea").stdout == "green\n"
    cli("relays", "add", relay)
    cli("sync")
    assert cli.json("status")["bunker"] == [relay]
    assert f"in a bunker, asked over {relay}" in cli("status").stdout
    assert [agent["npub"] for agent in cli.json("agents")] == [bunker.user.npub]
    found = cli("doctor").stdout
    assert "answered in" in found.replace("\n", " ")
    assert [check["state"] for check in cli.json("doctor")["checks"] if check["name"] == "bunker"] == ["ok"]


def test_a_second_key_is_refused_whichever_way_round(cli, bunker):
    cli("init", "--bunker", stdin=bunker.url)
    for arguments in (["init"], ["init", "--bunker"]):
        assert "has a key already, in a bunker" in cli(*arguments, stdin=bunker.url, code=1).stderr.replace(
            "\n", " "
        )


def test_neither_a_wrong_url_nor_a_bunker_that_refuses_leaves_anything(cli, home, bunker):
    for url, problem in (
        ("bunker://nonsense", "64 hex digits"),
        (bunker.url.replace(bunker.secret, "wrong-one"), "refuses connect"),
    ):
        said = cli("init", "--bunker", stdin=url, code=1 if "refuses" in problem else 2).stderr
        assert problem in said.replace("\n", " ")
        assert "wrong-one" not in said
    assert not (home / "keys").exists()


def test_what_needs_the_key_itself_says_that_a_bunker_has_it(cli, bunker, tmp_path):
    cli("init", "--bunker", stdin=bunker.url)
    cli("remember", "tea", "green")
    said = cli(
        "backup", tmp_path / "usb", "--password-stdin", stdin="long enough, is it not\n", code=2
    ).stderr
    assert "the key is in a bunker, which gives it to nobody" in said.replace("\n", " ")
    cli("export", tmp_path / "memories.jsonl")


def test_doctor_says_that_a_bunker_refuses(cli, bunker):
    cli("init", "--bunker", stdin=bunker.url)
    bunker.clients.clear()
    checks = {check["name"]: check for check in cli.json("doctor", code=1)["checks"]}
    assert checks["bunker"]["state"] == "fail"
    assert "refuses get_public_key; allow this client (npub1" in checks["bunker"]["finding"]
