"""One JSON shape for each thing: the rules that hold for all of them, and that every door sends the same."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore
from sense_memory.interfaces.shapes import schema, shape_of, thing
from sense_memory.interfaces.shapes.schema import things
from sense_memory.interfaces.shapes.shape import DECLARED
from sense_memory.interfaces.shapes.table import TABLE
from sense_memory.interfaces.tools import memory_tools
from sense_memory.mind.scenes.membership import SceneKey, SceneState
from tests.interfaces.web.test_api import Client


DAY = 86_400


def class_of(name):
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)


def own_fields(kind):
    if is_dataclass(kind):
        return {item.name for item in fields(kind) if not item.name.startswith("_")}
    return {name for name, info in getattr(kind, "model_fields", {}).items() if not info.exclude}


# ── The declarations ────────────────────────────────────────────────────────────────────


def test_every_declared_class_is_there_and_so_is_what_its_shape_names():
    for name, shape in TABLE.items():
        known = own_fields(class_of(name))
        assert {*shape.without} <= known, name
        assert {*shape.or_null} <= known - {*shape.without} | {*shape.plus}, name


def test_every_thing_has_a_name_of_its_own_and_every_field_a_meaning():
    found = things()

    assert len({one.name for one in found}) == len(found)
    assert not [(one.name, field.name) for one in found for field in one.fields if not field.meaning]


def test_what_a_model_calls_seconds_since_1970_is_a_time_in_json():
    """Times are known by their names; a new name that is none of them is found here."""
    shown = {one.name: {field.name: field.type for field in one.fields} for one in things()}
    for name, shape in (TABLE | DECLARED).items():
        about = schema._about(class_of(name))
        for field in shown.get(shape.thing, {}).keys() & about.keys():
            assert ("seconds since 1970" not in about[field]) or "time" in shown[shape.thing][field], (
                name,
                field,
            )


# ── The values ──────────────────────────────────────────────────────────────────────────


@thing("sample")
@dataclass(frozen=True, slots=True)
class Sample:
    """A sample.

    Attributes:
        number: any.
        text: any.
        at: any.
        path: any.
    """

    number: float
    text: str
    at: float
    path: Path


@given(number=st.floats(), text=st.text(), at=st.floats(), name=st.text("ab/", min_size=1, max_size=9))
@example(number=math.inf, text="", at=math.nan, name="a")
def test_every_value_of_a_shape_is_json(number, text, at, name):
    found = shape_of(Sample(number, text, at, Path(name)))

    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert list(found) == ["number", "text", "at", "path"]
    if math.isfinite(number):
        assert math.isclose(found["number"], number, abs_tol=1e-6)


@dataclass(frozen=True, slots=True)
class Undeclared:
    secret: str


@pytest.mark.parametrize(
    "hidden",
    [
        Undeclared("x"),
        [Undeclared("x")],
        {"a": (Undeclared("x"),)},
        LocalSigner.generate(),
        bytearray(b"key"),
    ],
)
def test_what_is_not_declared_has_no_shape_wherever_it_stands(hidden):
    with pytest.raises(TypeError, match="has no shape"):
        shape_of(hidden)


def test_a_scene_shows_none_of_its_keys():
    secret = "5e" * 32
    state = SceneState("id", "village", "owner", (SceneKey(secret, {"owner": "baker"}),), ("ws://a",))

    shown = shape_of(state)

    assert secret not in json.dumps(shown)
    assert shown["members"] == {"owner": "baker"}
    with pytest.raises(TypeError):
        shape_of(state.keys[0])


# ── The doors ───────────────────────────────────────────────────────────────────────────


async def test_page_and_tools_send_the_fields_of_the_shape_with_its_values(clock):
    """The command line prints whole shapes (tests/interfaces/cli/test_output.py); other doors choose some fields."""
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", background=False, clock=clock) as store:
        await store.persona_remember("people", "facts", "lisa", "Lisa paints", themes=["art"], source="user")
        await store.remember("timezone", "Lisbon")
        await store.journal("Lisa called.")
        clock.advance(DAY)
        page = Client(store, clock)
        tools = {tool.name: tool for tool in memory_tools(store, read_only=True, clock=clock)}
        (memory,) = await store.persona_recall("people", "facts", "lisa", revive=False)
        flat, (entry,) = await store.recall("timezone"), await store.recent(1)
        hits = await store.search("Lisa")
        sent = [
            (memory, (await page("/api/memory?path=people/facts/lisa"))[1]["memory"]),
            (memory, (await tools["recall"].call({"path": "people/facts/lisa"}))["memories"][0]),
            (flat, (await page("/api/memory?path=timezone"))[1]["memory"]),
            (flat, (await page("/api/flat"))[1]["rows"][0]),
            (flat, (await tools["recall"].call({"path": "timezone"}))["memories"][0]),
            (entry, (await page("/api/journal"))[1]["rows"][0]),
            (entry, (await tools["recent"].call({}))["entries"][0]),
            *zip(hits, (await page("/api/search?q=Lisa"))[1]["hits"], strict=True),
            *zip(hits, (await tools["search"].call({"query": "Lisa"}))["hits"], strict=True),
            (store.status(), await tools["status"].call({})),
        ]

    for item, told in sent:
        whole = shape_of(item, clock())
        assert told.keys() - {"age", "is_cut"} <= whole.keys()
        for name in told.keys() & whole.keys() - {"why"}:
            assert told[name] == pytest.approx(whole[name], abs=5e-4), name
