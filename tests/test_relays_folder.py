"""The files under relays/ keep what they say: presets are safe to dial, strfry's limits hold our memories."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import sense_memory
from sense_memory import limits
from sense_memory.config.relays import presets


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
