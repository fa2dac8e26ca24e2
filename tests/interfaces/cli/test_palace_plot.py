"""The year ahead of a palace: as a table, as JSON, and as a picture that really is one."""

from __future__ import annotations

import struct
import sys
import time
from xml.etree import ElementTree as ET

import pytest

from sense_memory import MemoryStore


STATES = ("active", "fading", "forgotten", "dissolved")


def test_the_table_begins_with_the_palace_as_it_is_and_ends_with_what_time_leaves(palace):
    today = palace.json("palace", "stats")["states"]

    lines = [line.split("\t") for line in palace("palace", "plot").stdout.splitlines()]
    ahead = palace.json("palace", "plot")["ahead"]

    assert [int(count) for count in lines[0][1:]] == [today.get(state, 0) for state in STATES]
    assert [list(map(int, line[1:])) for line in lines] == [list(item["states"].values()) for item in ahead]
    assert len(lines) == 5
    assert sum(ahead[-1]["states"].values()) == sum(today.values())
    assert ahead[-1]["states"]["active"] < today["active"]


def test_the_forecast_is_what_the_palace_will_be_if_nothing_is_recalled(palace, monkeypatch):
    """As a store says whose clock is half a year ahead."""
    (_, _, _, half_a_year, _) = palace.json("palace", "plot")["ahead"]
    then = time.time() + 182 * 86_400
    monkeypatch.setitem(MemoryStore.__init__.__kwdefaults__, "clock", lambda: then)

    found = palace.json("palace", "stats")["states"]

    assert half_a_year["states"] == {state: found.get(state, 0) for state in STATES}


def test_one_domain_and_fewer_days_narrow_the_forecast_and_nothing_is_revived(palace):
    before = palace.json("list", "--palace")

    found = palace.json("palace", "plot", "--domain", "people", "--days", "40")

    assert [domain["domain"] for domain in found["domains"]] == ["people"]
    assert found["total"] == found["domains"][0]["count"] == 3
    assert len(found["ahead"]) == 3
    assert [memory["access_count"] for memory in palace.json("list", "--palace")] == [
        memory["access_count"] for memory in before
    ]
    palace("palace", "plot", "--domain", "nowhere", code=4)


def test_a_picture_is_a_png_or_an_svg_and_names_of_memories_are_only_words_in_it(palace, tmp_path):
    palace("remember", "$x^$/facts/k", "markup that matplotlib could not read", "--wait", "0")
    png, svg = tmp_path / "palace.png", tmp_path / "new folder" / "palace.SVG"

    assert palace("palace", "plot", png).stdout == f"drew 8 memories in {png}\n"
    assert "--force" in palace("palace", "plot", png, code=2).stderr
    assert palace.json("palace", "plot", svg)["file"] == str(svg)

    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png.read_bytes()[16:24]) == (1650, 1200)
    drawn = ET.parse(svg).getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    assert "The year ahead of the palace" in svg.read_text("utf-8")
    assert "artist, teaches workshops" not in svg.read_text("utf-8")


@pytest.mark.parametrize("name", ["palace", "palace.pdf", "png"])
def test_another_kind_of_picture_is_refused_before_anything_is_read(cli, tmp_path, name):
    assert "*.png or *.svg" in cli("palace", "plot", tmp_path / name, code=2).stderr
    assert not (tmp_path / name).exists()


def test_without_matplotlib_the_table_is_there_and_a_picture_says_what_to_install(
    palace, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    assert palace("palace", "plot").stdout.count("\n") == 5
    assert "pip install '.[plot]'" in palace("palace", "plot", tmp_path / "p.png", code=1).stderr


def test_an_empty_palace_has_nothing_to_plot(agent):
    assert "There are no memories in the palace yet" in agent("palace", "plot").stderr
    assert agent.json("palace", "plot") == {"file": None, "total": 0, "ahead": [], "domains": []}
