"""`rotate` on the command line: from plan to the end, after a kill at each step, and from and to a bunker."""

from __future__ import annotations

import pytest

from sense_memory.config.rotated_keys import RotatedKeys
from sense_memory.interfaces.cli import rotate
from tests.interfaces.cli.test_bunker import bunker  # noqa: F401 - a fixture


class Killed(BaseException):
    pass


def fill(agent, relay):
    agent("relays", "add", relay)
    agent("remember", "tea", "green")
    agent("remember", "people/facts/lisa", "likes tea")
    agent("journal", "saw Lisa")
    agent("sync")


def holds_all(agent):
    assert agent("recall", "tea").stdout == "green\n"
    assert agent.json("status")["counts"]["entries"] == 1
    assert agent.json("status")["counts"]["heads"] >= 3


def test_an_agent_gets_a_new_key_and_everything_with_it(agent, home, relay):
    fill(agent, relay)
    before = agent.json("status")["npub"]
    plan = agent.json("rotate", "--dry-run")
    assert (plan["npub"], plan["stage"], plan["counts"]["heads"]) == (before, "none", 3)
    assert not (home / "keys" / "rotation").exists()
    assert "nothing was changed" in agent("rotate", code=2).stderr

    done = agent.json("rotate", "--yes")
    assert (done["old"], done["carried"]["missing"]) == (before, 0)
    assert done["goodbye"]["is_confirmed"]
    assert agent.json("status")["npub"] == done["new"] != before
    holds_all(agent)
    assert [path.name for path in (home / "keys" / "rotation").iterdir()] == [f"default.{before[:12]}.key"]
    assert [line["name"] for line in agent.json("agents") if line["name"]] == ["default"]
    agent("rotate", "--yes")
    holds_all(agent)


@pytest.mark.parametrize("step", ["_make_next", "_carry", "switch", "after switch", "_delete", "keep_old"])
def test_a_rotation_that_is_killed_at_any_step_goes_on(agent, home, relay, monkeypatch, step):
    fill(agent, relay)
    before = agent.json("status")["npub"]

    async def die(*_, **__):
        raise Killed

    def die_now(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        if step in {"switch", "keep_old"}:
            patch.setattr(RotatedKeys, step, die_now)
        elif step == "after switch":
            patch.setattr("pathlib.Path.unlink", die_now)
            patch.setattr(rotate, "_delete", die)
        else:
            patch.setattr(rotate, step, die)
        with pytest.raises(Killed):
            agent("rotate", "--yes")
    holds_all(agent)  # with whichever key is in use
    done = agent.json("rotate", "--yes")
    assert (done["old"], agent.json("status")["npub"]) == (before, done["new"])
    assert done["goodbye"]["is_confirmed"]
    holds_all(agent)


def test_another_device_is_told_and_so_is_this_one_until_it_is_finished(agent, relay, tmp_path, monkeypatch):
    fill(agent, relay)
    second = tmp_path / "second.db"
    agent("sync", "--ledger", second)
    old = (tmp_path / "home" / "keys" / "default.key").read_text()
    assert "given up" not in agent("status", "--ledger", second).stderr
    with monkeypatch.context() as patch:
        patch.setattr(RotatedKeys, "switch", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            agent("rotate", "--yes")
    assert "finish it with `sense-memory rotate`" in agent("status").stderr.replace("\n", " ")
    new = agent.json("rotate", "--yes")["new"]
    assert agent("status").stderr == ""

    (tmp_path / "home" / "keys" / "other.key").write_text(old)
    (tmp_path / "home" / "keys" / "other.key").chmod(0o600)
    said = agent("--agent", "other", "--relay", relay, "--ledger", second, "sync").stderr.replace("\n", " ")
    assert "this key was given up" in said
    assert f"its memories are under {new} now" in said


def test_nothing_is_deleted_while_no_relay_has_everything(agent, faulty_relay):
    from relays.faults import ForgetAfterAck

    liar = faulty_relay(ForgetAfterAck())
    agent("relays", "add", liar)
    agent("remember", "tea", "green")
    before = agent.json("status")["npub"]
    said = agent("rotate", "--yes", code=1).stderr.replace("\n", " ")
    assert "nothing was deleted" in said
    assert agent.json("status")["npub"] == before
    assert agent("recall", "tea").stdout == "green\n"


def test_a_key_goes_into_a_bunker_and_out_of_it_again(agent, home, relay, bunker):  # noqa: F811
    fill(agent, relay)
    done = agent.json("rotate", "--yes", "--bunker", stdin=bunker.url)
    assert done["new"] == bunker.user.npub
    assert not (home / "keys" / "default.key").exists()
    holds_all(agent)
    back = agent.json("rotate", "--yes")
    assert (back["old"], (home / "keys" / "default.bunker").exists()) == (bunker.user.npub, False)
    holds_all(agent)


def test_a_key_in_the_environment_is_not_rotated(agent, monkeypatch):
    monkeypatch.setenv("NOSTR_NSEC", "11" * 32)
    assert "take it out of the environment" in agent("rotate", "--yes", code=2).stderr.replace("\n", " ")


def test_a_memory_with_private_addresses_is_rotated_to_private_addresses(agent, relay, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_ADDRESSES", "private")
    fill(agent, relay)
    done = agent.json("rotate", "--yes")
    assert (done["carried"]["missing"], done["goodbye"]["is_confirmed"]) == (0, True)
    holds_all(agent)
    plan = agent.json("addresses", "private", "--dry-run")
    assert (plan["to_write"], plan["to_remove"]) == (0, 0)
