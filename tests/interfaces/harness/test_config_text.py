"""Edits of a configuration's text: one entry goes in and out, every other character stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.harness.config_text import (
    json_append,
    json_remove,
    json_set,
    json_value,
    toml_remove,
    toml_set,
    toml_value,
)


PATH = ("mcpServers", "sense-memory")
SERVER = {"command": "/opt/über mich/sense-memory", "args": ["mcp"], "env": {"A": 'b"c'}}
TEXTS = {
    "two spaces": '{\n  "theme": "dark",\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n',
    "no other server": '{\n  "theme": "dark"\n}\n',
    "tabs and CRLF": '{\r\n\t"theme": "dark"\r\n}\r\n',
    "four spaces, no line break at the end": '{\n    "a": [1, 2],\n    "b": null\n}',
    "on one line": '{"a": 1}',
    "empty": "{}\n",
    "comments": '// top\n{\n  "a": 1, // one\n  /* two */ "b": 2 // the last\n  // end\n}\n// bottom\n',
    "trailing commas": '{\n  "a": [1,],\n  "mcpServers": {\n    "o": {},\n  },\n}\n',
    "JSON5": "{\n  // mine\n  agents: { defaults: { workspace: '~/x' } },\n  n: +0x1F, f: .5,\n  s: 'it\\'s',\n}\n",
    "a byte order mark": '\ufeff{\n  "a": 1\n}\n',
    "braces in texts": '{\n  "a": "}, // {",\n  "b": "\\"]"\n}\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_put_into_json_can_be_taken_out_to_the_last_byte(text):
    put = json_set(text, PATH, SERVER)

    assert json_value(put) == {
        **json_value(text),
        "mcpServers": {**json_value(text).get("mcpServers", {}), "sense-memory": SERVER},
    }
    assert json_set(put, PATH, SERVER) == put
    assert json_remove(put, PATH) == text


def test_json_without_comments_stays_json_of_the_same_style():
    put = json_set(TEXTS["two spaces"], PATH, {"args": ["mcp"]})

    assert put == json.dumps(json.loads(put), indent=2).replace(
        '{\n      "command": "x"\n    }', '{"command": "x"}'
    ) + ("\n")


def test_an_item_goes_to_the_end_of_a_list_and_out_again():
    text = '{\n  "hooks": {\n    "Start": [\n      {"a": 1} // mine\n    ]\n  }\n}\n'
    put = json_append(text, ("hooks", "Start"), {"b": 2})

    assert json_value(put) == {"hooks": {"Start": [{"a": 1}, {"b": 2}]}}
    assert "// mine" in put
    assert json_remove(put, ("hooks", "Start", 1)) == text
    assert json_value(json_append("", ("hooks", "Stop"), 1)) == {"hooks": {"Stop": [1]}}


def test_what_stands_after_our_entry_stays():
    text = json_set(json_set("{}", PATH, SERVER), ("later",), True)

    assert json_value(json_remove(text, PATH)) == {"later": True}
    assert json_value(json_remove(json_set(text, PATH, {"args": []}), ("later",))) == {
        "mcpServers": {"sense-memory": {"args": []}}
    }


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.dictionaries(st.text(max_size=6), _plain, max_size=4),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.data(),
)
def test_any_json_in_any_style_survives_an_entry(value, indent, data):
    value.pop("mcpServers", None)
    text = json.dumps(value, indent=indent, ensure_ascii=data.draw(st.booleans()))

    put = json_set(text, PATH, SERVER)

    assert json.loads(put) == {**value, "mcpServers": {"sense-memory": SERVER}}
    assert json_remove(put, PATH) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, a comma or } is missing"),
        ('{"a": 1', "line 1, a comma or } is missing"),
        ('{"a" 1}', "a colon is missing"),
        ('{"a": "x\n"}', "a string does not end"),
        ('{"a": nope}', "line 1, a value is neither a string"),
        ("{} {}", "more follows"),
        ("[" * 5_000, "nested more than 100 deep"),
        ("{/* no end", "a value is missing"),
        ('{"a": 1}}', "more follows"),
        ('{"a": 1_x}', "a value is neither"),
    ],
)
def test_malformed_json_is_refused_with_the_line(text, problem):
    with pytest.raises(InvalidInput, match=problem):
        json_set(text, PATH, SERVER)


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": "x"}', "[]", "1"])
def test_something_else_in_the_place_of_an_object_is_refused(text):
    with pytest.raises(InvalidInput, match="something else"):
        json_set(text, PATH, SERVER)
    with pytest.raises(InvalidInput):
        json_append('{"a": {}}', ("a",), 1)


def test_an_object_that_becomes_empty_stays_if_it_has_a_comment():
    text = '{\n  "mcpServers": {\n    // none yet\n  }\n}\n'

    assert json_remove(json_set(text, PATH, SERVER), PATH) == text


def test_a_key_that_stands_twice_is_not_guessed_at():
    text = '{"mcpServers": {"sense-memory": 1, "sense-memory": 2}}'

    with pytest.raises(InvalidInput, match="edit it by hand"):
        json_remove(text, PATH)


# ── TOML ────────────────────────────────────────────────────────────────────────────────

TABLE = ("mcp_servers", "sense-memory")
TOMLS = {
    "comments": '# mine\nmodel = "x" # why\n\n[mcp_servers.other]\ncommand = "y" # keep\n',
    "a parent": "[mcp_servers]\n",
    "empty": "",
    "texts like headers": 'a = """\n[mcp_servers.sense-memory]\n"""\n',
}


@pytest.mark.parametrize("text", TOMLS.values(), ids=TOMLS)
def test_what_is_put_into_toml_can_be_taken_out_to_the_last_byte(text):
    put = toml_set(text, TABLE, SERVER)

    servers = toml_value(text).get("mcp_servers", {})
    assert toml_value(put) == {**toml_value(text), "mcp_servers": {**servers, "sense-memory": SERVER}}
    assert toml_set(put, TABLE, SERVER) == put
    if '"""' in text:  # the search for the table is misled, and the check sees it
        with pytest.raises(InvalidInput):
            toml_remove(put, TABLE)
    else:
        assert toml_remove(put, TABLE) == text


def test_a_table_is_replaced_where_it_stands():
    text = toml_set("", TABLE, SERVER) + "\n# of the next\n[after]\na = 1\n"

    put = toml_set(text, TABLE, {"command": "z", "args": []})

    assert toml_value(put) == {
        "mcp_servers": {"sense-memory": {"command": "z", "args": []}},
        "after": {"a": 1},
    }
    assert put.index("[mcp_servers") < put.index("# of the next") < put.index("[after]")
    assert toml_value(toml_remove(put, TABLE)) == {"after": {"a": 1}}


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "x" } }\n',
        "a = \n",
        'mcp_servers = "x"\n',
        '[mcp_servers]\nsense-memory = { command = "sense-memory" }\n',
    ],
)
def test_toml_that_cannot_be_edited_safely_is_refused(text):
    with pytest.raises(InvalidInput):
        toml_set(text, TABLE, SERVER)
