from __future__ import annotations

import json
import signal
import tomllib

import pytest

from sense_memory import MemoryStore
from sense_memory.interfaces.cli.output import relay_data
from tests.time_unit import SECOND


A, B = "wss://a.example", "wss://b.example"


@pytest.fixture
def config(home):
    return home / "agents" / "default.toml"


@pytest.fixture
def shared(home):
    """The relays of all agents; before agents had relays of their own, this was where every relay stood."""
    return home / "config.toml"


# ── relays add, remove, list ────────────────────────────────────────────────────────────


def test_relays_are_added_listed_and_removed_and_stay_so(cli, config):
    cli("relays", "add", A)
    cli("relays", "add", "WSS://B.example:443/")
    assert cli("relays", "list").stdout == f"{A}\tagent 'default', {config}\n{B}\tagent 'default', {config}\n"

    assert cli("relays", "remove", A).stdout == f"removed {A} · 1 relay in {config}\n"

    assert tomllib.loads(config.read_text()) == {"relays": [B]}
    assert config.stat().st_mode & 0o777 == 0o600


def test_adding_a_relay_twice_changes_nothing(cli, config):
    assert cli("relays", "add", A).stdout == f"added {A} · 1 relay in {config}\n"
    assert cli("relays", "add", f"{A}/").stdout == f"already configured: {A} · agent 'default', {config}\n"

    assert tomllib.loads(config.read_text()) == {"relays": [A]}


def listed(*urls, **others):
    """Relays as JSON, of which only the addresses are known."""
    return {"relays": [relay_data(url) for url in urls], **others}


def test_relays_as_json(cli, config):
    assert cli.json("relays", "add", A) == listed(A, config=str(config), cancelled=None)
    local = "ws://127.0.0.1:7447"
    cli.json("relays", "add", local)
    own = dict.fromkeys((A, local), "agents/default.toml")
    assert cli.json("relays", "list") == listed(A, local, origin="config.toml", origins=own)
    assert [relay["is_local"] for relay in cli.json("relays", "list")["relays"]] == [False, True]
    assert cli.json("relays", "remove", local) == listed(A, config=str(config), cancelled=0)


def test_a_relay_on_this_machine_is_never_called_a_backup(cli):
    assert "not a backup" in cli("relays", "add", "ws://localhost:7447").stdout
    assert cli("relays", "list").stdout.endswith("\tthis machine: not a backup\n")


def test_one_relay_of_this_machine_under_two_names_is_pointed_out(cli, config):
    cli("relays", "add", "ws://127.0.0.1:7447")

    shown = cli("relays", "add", "ws://localhost:7447").stderr

    assert shown.startswith("warning: ws://127.0.0.1:7447 is most likely the same relay")
    assert "sense-memory relays remove ws://localhost:7447" in shown
    assert cli("relays", "add", "ws://localhost:7448").stderr == ""
    assert len(tomllib.loads(config.read_text())["relays"]) == 3


def test_a_url_that_is_refused_is_named(cli, monkeypatch):
    assert cli("relays", "add", "https://a.example", code=2).stderr.startswith("error: https://a.example: ")
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", f"{A} ws://b.example")
    shown = cli("relays", "list", code=2).stderr
    assert "ws://b.example: ws:// is not encrypted" in shown
    assert shown.endswith("(URL 2 of 2)\n")


@pytest.mark.parametrize(
    "url", ["relay.example", "ws://relay.example", "https://relay.example", "wss://u:p@x.example"]
)
def test_a_url_that_must_not_be_dialled_is_refused_with_2(cli, config, url):
    result = cli("relays", "add", url, code=2)

    assert result.stderr.startswith("error: ")
    assert "u:p" not in result.stderr
    assert not config.exists()


def test_a_relay_of_one_agent_is_not_used_by_another_and_one_of_all_agents_is(cli, config, shared):
    cli("relays", "add", A)
    cli("--agent", "bob", "relays", "add", B)
    cli("relays", "add", "wss://all.example", "--all-agents")

    def origins(*agent):
        return cli.json(*agent, "relays", "list")["origins"]

    assert origins() == {"wss://all.example": "config.toml", A: "agents/default.toml"}
    assert origins("--agent", "bob") == {"wss://all.example": "config.toml", B: "agents/bob.toml"}
    assert f"wss://all.example\tall agents, {shared}\n" in cli("relays", "list").stdout
    assert config.stat().st_mode & 0o777 == 0o600


def test_relays_of_a_config_from_before_are_those_of_all_agents_until_they_are_removed_there(cli, shared):
    shared.parent.mkdir()
    shared.write_text(f'# mine\nrelays = ["{A}"]\n')

    assert cli("relays", "add", A).stdout == f"already configured: {A} · all agents, {shared}\n"
    refused = cli("relays", "remove", A, code=4).stderr
    assert f"sense-memory relays remove {A} --all-agents" in refused
    assert cli.json("--agent", "bob", "relays", "list")["relays"] == [relay_data(A)]

    cli("relays", "remove", A, "--all-agents")
    assert cli.json("relays", "list")["relays"] == []
    assert shared.read_text().startswith("# mine")


def test_a_relay_that_stays_in_use_for_another_reason_is_named(cli):
    cli("relays", "add", A)
    cli("relays", "add", A, "--all-agents")

    assert f"{A} stays in use: all agents" in cli("relays", "remove", A).stderr
    cli("relays", "remove", A, "--all-agents")
    assert cli.json("relays", "list")["relays"] == []


def test_a_preset_adds_its_relays_and_those_that_are_there_stay_once(cli, config):
    presets = {preset["name"]: preset["relays"] for preset in cli.json("relays", "presets")}
    first = presets["starter"][0]
    cli("relays", "add", first)

    shown = cli("relays", "add", "--preset", "starter").stdout

    assert f"already configured: {first} · agent 'default', {config}\n" in shown
    assert tomllib.loads(config.read_text())["relays"] == presets["starter"]
    assert "anybody can see the names of the memories" in shown
    assert cli("relays", "presets").stdout.count("\n") == len(presets)


@pytest.mark.parametrize("args", [(), (A, "--preset", "starter"), ("--preset", "none-such"), ("--preset",)])
def test_a_url_or_a_known_preset_has_to_be_given(cli, home, args):
    assert cli("relays", "add", *args, code=2).stderr.startswith("error: ")
    assert not (home / "agents").exists()


async def test_a_store_from_settings_has_the_relays_of_its_agent(cli):
    for agent, relay in (("bob", A), ("eve", B)):
        cli("--agent", agent, "init")
        cli("--agent", agent, "relays", "add", relay)

    assert MemoryStore.from_settings(agent="bob").relays == (A,)
    assert MemoryStore.from_settings(agent="eve").relays == (B,)


def test_a_relay_that_is_not_configured_can_not_be_removed(cli):
    assert cli.json("relays", "remove", A, code=4)["error"]["type"] == "NotFound"


def test_removing_a_relay_cancels_what_waits_for_it_and_adding_it_again_sends_everything(
    agent, relay, dead_relay
):
    agent("relays", "add", relay)
    agent("relays", "add", dead_relay)
    for key in ("a", "b"):
        agent("remember", key, "v", "--wait", "1")
    agent("relays", "remove", relay)
    agent("remember", "c", "v", "--wait", "0")

    removed = agent("relays", "remove", dead_relay)

    assert removed.stdout.endswith("default.toml · 3 queued events cancelled\n")
    assert agent.json("status")["relays"] == []
    agent("relays", "add", dead_relay)
    assert agent.json("status")["relays"][0]["events"] == {}
    agent("relays", "remove", dead_relay)

    agent("relays", "add", relay)
    (line,) = agent.json("sync")["relays"]
    assert line["sync"]["served"] == {"known": 2}
    assert line["sync"]["sent"] == {"accepted": 1}
    assert line["sync"]["in_step"]


def test_a_relay_that_other_settings_still_name_keeps_what_waits(agent, dead_relay, monkeypatch):
    agent("relays", "add", dead_relay)
    agent("remember", "a", "v", "--wait", "0")
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", dead_relay)

    result = agent("relays", "remove", dead_relay)

    assert "cancelled" not in result.stdout
    assert "replace it" in result.stderr
    assert agent.json("status")["relays"][0]["events"] == {"queued": 1}


def test_a_relay_can_be_removed_while_the_key_can_not_be_used(agent, home, dead_relay):
    agent("relays", "add", dead_relay)
    agent("remember", "a", "v", "--wait", "0")
    (home / "keys" / "default.key").chmod(0o644)

    result = agent("relays", "remove", dead_relay)

    assert "events for this relay stay queued in the ledger" in result.stderr
    assert agent.json("relays", "list")["relays"] == []


def test_no_relays_is_said_with_what_to_do(cli):
    assert cli("relays", "list").stdout == ""
    assert cli.json("relays", "list") == {"relays": [], "origin": "default", "origins": {}}


def test_a_change_that_the_environment_hides_is_warned_about(cli, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", B)

    assert (
        "because relays from SENSE_MEMORY_RELAYS in the environment replace it"
        in cli("relays", "add", A).stderr
    )
    assert cli("relays", "list").stdout == f"{B}\tSENSE_MEMORY_RELAYS in the environment\n"


def test_relays_given_before_the_command_replace_the_configured_ones(cli):
    cli("relays", "add", A)

    assert cli.json("--relay", B, "relays", "list") == listed(B, origin="argument", origins={B: "argument"})


def test_a_config_file_of_another_shape_is_left_alone(cli, home, config):
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text('relays = "wss://a.example"\n')

    cli("relays", "add", A, code=2)

    assert config.read_text() == 'relays = "wss://a.example"\n'


# ── relay ───────────────────────────────────────────────────────────────────────────────


def test_a_relay_serves_until_ctrl_c_and_keeps_its_data(agent, started, home):
    agent("remember", "k", "v")
    for _ in range(2):
        with started("relay", "--port", "0") as process:
            first, second = process.stdout.readline(), process.stdout.readline()
            url = first.split()[2].rstrip(",")
            assert first == f"relay on {url}, data in {home / 'relay.db'}\n"
            assert f"sense-memory relays add {url}" in second
            agent("--relay", url, "--ledger", home / f"{process.pid}.db", "sync")
            agent("--relay", url, "sync")
            process.send_signal(signal.SIGINT)
            assert process.wait(10 * SECOND) == 0
            assert (process.stdout.read(), process.stderr.read()) == ("relay ended; its data is kept\n", "")
    assert agent("--ledger", home / f"{process.pid}.db", "recall", "k").stdout == "v\n"
    assert (home / "relay.db").stat().st_mode & 0o777 == 0o600


def test_a_relay_as_json_on_a_chosen_file_ends_by_sigterm(home, started, tmp_path):
    with started("relay", "--json", "--port", "0", "--data", str(tmp_path / "mine.db")) as process:
        shown = "".join(iter(process.stdout.readline, "}\n")) + "}"
        found = json.loads(shown)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10 * SECOND) == 0

    assert found["relay"]["url"].startswith("ws://127.0.0.1:")
    assert found["file"] == str(tmp_path / "mine.db")
    assert (tmp_path / "mine.db").exists()


def test_a_port_that_is_taken_is_one_sentence(cli, relay):
    result = cli("relay", "--port", relay.rpartition(":")[2], code=1)

    assert result.stderr.count("\n") == 1
    assert "cannot listen (Address already in use)" in result.stderr
    assert f"`lsof -i :{relay.rpartition(':')[2]}` shows it" in result.stderr
    assert f"`sense-memory relays add {relay}` uses that relay" in result.stderr


def test_a_data_file_that_another_relay_uses_is_one_sentence(cli, start_relay, tmp_path):
    start_relay(path=tmp_path / "mine.db")

    result = cli("relay", "--port", "0", "--data", tmp_path / "mine.db", code=1)

    assert "another relay is using the file" in result.stderr
    assert "its own --data file" in result.stderr
