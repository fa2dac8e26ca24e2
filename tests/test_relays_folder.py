"""The files under relays/ keep what they say: presets are safe to dial, strfry's limits hold our memories."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

import sense_memory
from sense_memory import EmbeddedRelay, limits
from sense_memory.config.relays import presets
from sense_memory.interfaces.cli import app
from tests.time_unit import SECOND


RELAYS = Path(__file__).parent.parent / "relays"
PRESETS = tomllib.loads((RELAYS / "presets.toml").read_text("utf-8"))


def read_conf(text):
    """strfry's configuration as a flat table, such as {"relay.port": 7777}."""
    settings, sections = {}, []
    for line in text.splitlines():
        bare = line.partition("#")[0].strip()
        if bare.endswith("{"):
            sections.append(bare[:-1].strip())
        elif bare == "}":
            sections.pop()
        elif bare:
            name, value = (part.strip() for part in bare.split("=", 1))
            settings[".".join([*sections, name])] = int(value) if value.isdigit() else value.strip('"')
    assert sections == []
    return settings


@pytest.fixture
def conf():
    return read_conf((RELAYS / "strfry" / "strfry.conf").read_text("utf-8"))


def test_every_preset_is_encrypted_or_on_this_machine():
    for group in PRESETS["groups"].values():
        for url in group["relays"]:
            parts = urlsplit(url)
            assert parts.hostname
            assert parts.scheme == ("ws" if parts.hostname == "127.0.0.1" else "wss")


def test_every_relay_of_a_group_has_a_note_and_every_note_a_group():
    named = {url for group in PRESETS["groups"].values() for url in group["relays"]}
    assert named == set(PRESETS["relays"])
    assert all(relay["note"].strip() and relay["software"] for relay in PRESETS["relays"].values())
    assert all(group["about"] for group in PRESETS["groups"].values())


def test_strfry_takes_everything_that_is_written(conf):
    assert conf["events.maxEventSize"] >= 65_536
    assert conf["relay.maxWebsocketPayloadSize"] >= conf["events.maxEventSize"] + 1_024
    assert conf["events.maxNumTags"] >= limits.MAX_TAGS_COUNT
    assert conf["events.maxTagValSize"] >= limits.MAX_D_TAG_BYTES
    assert conf["events.rejectEventsNewerThanSeconds"] >= limits.MAX_FUTURE_SECONDS
    assert conf["events.rejectEventsOlderThanSeconds"] >= 50 * 365 * 86_400


def test_strfry_serves_what_is_asked_for(conf):
    assert conf["relay.maxFilterLimit"] >= limits.PAGE_COUNT
    assert conf["relay.maxReqFilterSize"] >= limits.ADDRESS_BATCH_COUNT
    assert conf["events.maxEventSize"] + 1_024 <= limits.MAX_FRAME_BYTES


def test_strfry_hides_no_kind_of_ours(conf):
    assert conf["relay.auth.restrictedReadKinds"] == ""


def test_the_image_of_strfry_is_one_release():
    text = (RELAYS / "strfry" / "compose.yaml").read_text("utf-8")
    (release,) = re.findall(r"strfry\.git#(\S+)$", text, re.MULTILINE)
    assert re.findall(r"image: (\S+)$", text, re.MULTILINE) == [f"strfry:{release}"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", release)


def test_strfry_logs_no_message(conf):
    assert {conf[f"relay.logging.{name}"] for name in ("dumpInAll", "dumpInEvents", "dumpInReqs")} == {
        "false"
    }


def test_every_value_of_strfry_is_explained():
    """A comment stands above each value, or above the first of its group."""
    above = ""
    for line in (RELAYS / "strfry" / "strfry.conf").read_text("utf-8").splitlines():
        if "=" in line and not line.strip().startswith("#"):
            assert above.startswith("#") or "=" in above, line
        above = line.strip()


def test_composes_port_is_open_to_this_machine_only(conf):
    text = (RELAYS / "strfry" / "compose.yaml").read_text("utf-8")
    ports = re.findall(r'- "([\d.]+):(\d+):(\d+)"', text)
    assert ports == [("127.0.0.1", "7777", str(conf["relay.port"]))]
    assert f"strfry-db:{conf['db'].rstrip('/')}" in text


def test_the_presets_are_a_file_of_the_package_so_a_wheel_has_them_too():
    assert (RELAYS / "presets.toml").resolve() == Path(
        sense_memory.__file__
    ).parent / "config" / "presets.toml"
    assert {preset.name for preset in presets()} == PRESETS["groups"].keys()


def decided(events, keys, tmp_path):
    """What the write policy of strfry says to events, as (id, action)."""
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
    lines = "".join(
        json.dumps({"event": event, "type": "new"}, separators=(",", ":")) + "\n" for event in events
    )
    done = subprocess.run(
        ["sh", RELAYS / "strfry" / "write_policy.sh", allowed],
        input=lines,
        text=True,
        capture_output=True,
        timeout=10 * SECOND,
        check=True,
    )
    answers = list(map(json.loads, done.stdout.splitlines()))
    assert [answer["id"] for answer in answers] == [event["id"] for event in events]
    return [answer["action"] for answer in answers]


def written_by(key, content="text", tags=()):
    return {"content": content, "id": "1" * 64, "kind": 30078, "pubkey": key, "tags": list(tags)}


OURS, THEIRS = "a1" * 32, "b2" * 32


def test_the_write_policy_takes_the_events_of_the_keys_on_its_list(tmp_path):
    events = [written_by(OURS), written_by(THEIRS), written_by(OURS)]

    assert decided(events, ["# ours", OURS], tmp_path) == ["accept", "reject", "accept"]
    assert decided(events, [], tmp_path) == ["reject"] * 3
    assert decided(events, ["*"], tmp_path) == ["accept"] * 3


@pytest.mark.parametrize(
    "text", [f'"pubkey":"{OURS}"', f'\\"pubkey":"{OURS}"', f'{{"pubkey":"{OURS}","id":"x"}}', "*", "\\"]
)
def test_no_text_of_a_client_looks_like_its_key_to_the_write_policy(text, tmp_path):
    events = [written_by(THEIRS, text, [["pubkey", OURS], [text]]), written_by(text, text)]

    assert decided(events, [OURS], tmp_path) == ["reject", "reject"]


def test_what_is_shipped_takes_events_of_anybody_until_the_star_is_removed(tmp_path):
    shipped = (RELAYS / "strfry" / "allowed.txt").read_text("utf-8").splitlines()

    assert shipped[-1] == "*"
    assert decided([written_by(THEIRS)], shipped, tmp_path) == ["accept"]
    assert decided([written_by(THEIRS)], shipped[:-1], tmp_path) == ["reject"]


def test_the_health_check_of_the_relay_in_a_container_tells_whether_it_answers():
    text = (RELAYS / "agent" / "compose.yaml").read_text("utf-8")
    (check,) = re.findall(r"- -c\n +- \|\n((?: {10}.*\n)+)", text)

    async def codes():
        async with EmbeddedRelay() as relay:
            program = textwrap.dedent(check).replace(
                "http://127.0.0.1:7447", relay.url.replace("ws:", "http:")
            )
            ask = asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False
            )
            up = await ask
        down = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False
        )
        return up.returncode, down.returncode

    assert asyncio.run(codes()) == (0, 1)


def test_the_containers_run_commands_that_exist_and_copy_files_that_exist():
    compose = (RELAYS / "agent" / "compose.yaml").read_text("utf-8")
    program = typer.main.get_command(app)
    lines = re.findall(r'command: (\[.*\])|test: (\["CMD", "sense-memory".*\])', compose)
    commands = [json.loads(one or other) for one, other in lines]
    assert len(commands) == 3
    for words in commands:
        name, *options = words[2:] if words[0] == "CMD" else words
        known = {option for param in program.commands[name].params for option in param.opts}
        assert {word for word in options if word.startswith("--")} <= known
    for line in re.findall(
        r"^COPY (.+) \S+$", (RELAYS / "agent" / "Dockerfile").read_text("utf-8"), re.MULTILINE
    ):
        assert all((RELAYS.parent / name).exists() for name in line.split()), line
