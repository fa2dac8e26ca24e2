"""The plugins and manifests in the repository: what `install` writes, in the layouts of the programs that read them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.generate_plugins import plugin_files
from sense_memory.interfaces.harness.specs import CLAUDE_HOOKS, Launch, opencode_plugin
from tests.late import Late
from tests.time_unit import SECOND


ROOT = Path(__file__).resolve().parents[1]
FILES = plugin_files()
REGISTRY_SCHEMA = ROOT / "tests/vectors/mcp_registry/server.schema.json"


def of(name):
    return json.loads(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_what_its_source_says(name):
    assert (ROOT / name).read_text("utf-8") == FILES[name], "run `make plugins`"


def test_no_other_file_lies_among_the_plugins():
    held = {path.relative_to(ROOT).as_posix() for path in (ROOT / "plugins").rglob("*") if path.is_file()}

    assert held - FILES.keys() == {"plugins/README.md"}


def test_claude_codes_plugin_has_the_hooks_of_install_and_waits_for_none_at_the_end():
    hooks = of("plugins/claude-code/hooks/hooks.json")["hooks"]

    assert hooks.keys() == CLAUDE_HOOKS.keys()
    for event, (group,) in hooks.items():
        (hook,) = group["hooks"]
        assert hook["command"].startswith("{ " if event == "SessionEnd" else "sense-memory hook ")


def test_a_hook_that_nobody_waits_for_gets_the_harnesss_json(tmp_path):
    out = tmp_path / "out"
    launch = Launch((sys.executable, "-c", f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"))
    command = launch.detached_hook("session-end")

    done = subprocess.run(
        ["sh", "-c", command], input="{}", text=True, capture_output=True, timeout=20 * SECOND, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    reading = subprocess.Popen(["sh", "-c", f'until test -s "{out}"; do sleep 0.02; done'])
    assert reading.wait(20 * SECOND) == 0
    assert out.read_text() == "{}"


def test_the_registrys_entry_is_what_the_registrys_schema_says():
    """The schema is the registry's of 2025-12-11, word for word; its licence (MIT) is beside it."""
    entry, schema = of("server.json"), json.loads(REGISTRY_SCHEMA.read_text("utf-8"))
    assert entry["$schema"] == schema["$id"]
    validator = Late("jsonschema").Draft7Validator(schema)

    assert [error.message for error in validator.iter_errors(entry)] == []
    for spoiled in ({"name": "sense-memory"}, {"version": 2}, {"packages": [{"registryType": "pypi"}]}):
        assert list(validator.iter_errors(entry | spoiled)), spoiled


def test_the_registrys_entry_is_within_its_limits():
    entry = of("server.json")

    assert len(entry["description"]) <= 100
    assert entry["version"] == entry["packages"][0]["version"]
    assert entry["name"].count("/") == 1


NODE = shutil.which("node")
PLAY = """
import { SenseMemory } from PLUGIN;
const at = 1800000000000;
const said = (role, text, more = {}) => ({ info: { role, time: { created: at } }, parts: [{ type: "text", text, ...more }] });
const messages = [said("user", "Hello."), said("user", "<file>", { synthetic: true }), said("assistant", "Hi.")];
const client = { session: {
  get: async ({ path }) => ({ data: path.id === "side" ? { parentID: "s" } : {} }),
  messages: async () => ({ data: messages }),
} };
const hooks = await SenseMemory({ client, directory: "/work/kiln" });
for (const sessionID of ["s", "side"]) await hooks.event({ event: { type: "session.idle", properties: { sessionID } } });
await hooks["experimental.session.compacting"]({ sessionID: "s" }, {});
const output = { system: [] };
for (let i = 0; i < 2; i++) await hooks["experimental.chat.system.transform"]({ sessionID: "s" }, output);
console.log(JSON.stringify(output.system));
"""
PROGRAM = """
import json, sys
open(OUT, "a").write(json.dumps([sys.argv[1:], json.loads(sys.stdin.read())]) + "\\n")
if sys.argv[2] == "session-start":
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "Lisa paints."}}))
"""


@pytest.fixture
def play(tmp_path):
    """Plays a session to OpenCode's plugin with a program; returns what the plugin told, and what the program was told."""

    def played(program):
        plugin, out = tmp_path / "plugin.mjs", tmp_path / "out"
        plugin.write_text(opencode_plugin(Launch(program(out), ("--agent", "bob"))))
        script = tmp_path / "play.mjs"
        script.write_text(PLAY.replace("PLUGIN", json.dumps(str(plugin))))
        done = subprocess.run(
            [NODE, str(script)], capture_output=True, text=True, timeout=20 * SECOND, check=True
        )
        calls = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
        return json.loads(done.stdout), calls

    return played


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_opencodes_plugin_runs_the_hooks_with_the_words_of_both_sides(play):
    told, calls = play(lambda out: (sys.executable, "-c", PROGRAM.replace("OUT", repr(str(out)))))

    assert told == ["Lisa paints."] * 2
    assert [words[:2] for words, _ in calls] == [
        ["hook", "turn-end"],
        ["hook", "pre-compact"],
        ["hook", "session-start"],
    ]
    words, event = calls[0]
    assert words[2:] == ["--agent", "bob"]
    assert (event["session_id"], event["cwd"]) == ("s", "/work/kiln")
    assert [record["message"] for record in event["records"]] == [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
    ]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("words", [("/none/sense-memory",), (sys.executable, "-c", "raise SystemExit(2)")])
def test_opencodes_plugin_lives_without_the_program(play, words):
    assert play(lambda _: words) == ([], [])


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("claude", ["plugin", "validate", "."]),
        ("claude", ["plugin", "validate", "plugins/claude-code"]),
        ("mcpb", ["validate", "plugins/mcpb/manifest.json"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
def test_the_programs_themselves_find_nothing_wrong(program, words, tmp_path):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    env = {**os.environ, "HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1"}
    done = subprocess.run(
        [program, *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60 * SECOND, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
