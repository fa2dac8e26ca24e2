"""How a server begins and ends: keys, the 1.x line of the SDK, a kill in the middle, signals, and the end of stdin."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.config.settings import Settings
from sense_memory.interfaces.mcp.program import CannotOpen, LazyStore
from tests.interfaces.mcp.conftest import PROGRAM, environment, http_client, http_server, needs_line_1
from tests.time_unit import SECOND


CLIENT_1 = Path(__file__).with_name("sdk_1_client.py")
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


# ── The 1.x line, a kill, and a restart ─────────────────────────────────────────────────


@needs_line_1
def test_on_the_1x_line_a_server_that_is_killed_in_the_middle_loses_nothing_that_it_confirmed(tmp_path):
    """Its own client over stdio; then the same memory over HTTP."""
    seen = json.loads(
        subprocess.run(
            [sys.executable, CLIENT_1, PROGRAM, "mcp", "--create-key"],
            env=environment(tmp_path, line=1),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60 * SECOND,
            check=True,
        ).stdout
    )
    assert (seen["server"], len(seen["tools"]), seen["found"]) == ("sense-memory", 11, 50)
    assert seen["written"] == {"remembered": "people/facts/lisa"}
    assert seen["refused"] == [True, '{"error": "remember: `value` is missing"}']
    assert seen["palace"] == {"people": {"facts": {"lisa": "active"}}}
    assert seen["prompt"]
    assert (
        "there is no tool 'forget', as this server was started; ask the user to start it with --allow-destructive"
        in seen["unknown"]
    )
    assert seen["last"] == {"remembered": "people/facts/last"}

    with http_server(tmp_path, "--read-only", line=1) as served:
        with http_client(served.url, served.token) as client:
            assert "remember" not in {tool.name for tool in client.list_tools().tools}
            for key in ("lisa", "last"):
                assert client.call("recall", path=f"people/facts/{key}")["memories"]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10 * SECOND) == 0


# ── stdin ends ──────────────────────────────────────────────────────────────────────────


def test_what_was_asked_before_stdin_ended_is_answered_and_the_process_ends_well(
    tmp_path, forks, monkeypatch
):
    """As a shell pipes it: no client waits for each answer. There is no key, and none may be made."""
    for name, value in environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
    ]
    half = {"name": "recall", "arguments": {"path": "half of a character: \ud83d"}}
    messages.append({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": half})
    deep = f'{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"[" * 100_000}'
    # What the SDK drops: no method, parameters or ids of another kind, an older version, too deep for its parser.
    nested = f'{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{"x":{"[" * 900}{"]" * 900}}}}}'
    dropped = [
        {"jsonrpc": "2.0", "id": 6},
        {"jsonrpc": "2.0", "id": "seven", "method": "ping", "params": [1]},
        {"jsonrpc": "1.0", "id": 8, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        [{"jsonrpc": "2.0", "id": 9, "method": "ping"}],
    ]
    lines = ["not json at all", "", *map(json.dumps, messages), deep, nested, *map(json.dumps, dropped)]
    done = forks(PROGRAM, "--agent", "bob", "mcp", stdin="\n".join(lines).encode())

    assert done.code == 0
    sent = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {answer.get("id"): answer for answer in sent}
    told = answers[2]["result"]

    assert answers[4]["error"]["code"] == answers[5]["error"]["code"] == -32700
    assert {answers[name]["error"]["code"] for name in (6, "seven", 8)} == {-32600}
    codes = [answer["error"]["code"] for answer in sent if answer["id"] is None]
    assert codes == [-32700, -32600, -32600]
    assert answers[3]["result"]["isError"]  # answered, and not dropped
    assert len(answers[1]["result"]["tools"]) == 11
    assert told["isError"]
    assert "sense-memory --agent bob init" in told["content"][0]["text"]
    assert str(tmp_path).encode() not in done.stdout
    assert b"no secret key of agent bob" in done.stderr
    assert not (tmp_path / "home" / "keys").exists()


# ── A store that is opened when it is needed ────────────────────────────────────────────


def lazy(tmp_path, *, create_key, said=None):
    settings = Settings.load(home=tmp_path, environ={})
    lines = [] if said is None else said

    def make(signer):
        return MemoryStore(signer, ledger=":memory:")

    return LazyStore(settings, make, lines.append, create_key=create_key)


async def test_a_key_is_made_when_a_tool_is_used_and_not_before(tmp_path):
    store = lazy(tmp_path, create_key=True)
    await store.open_early()
    assert not (tmp_path / "keys").exists()

    first, *others = await asyncio.gather(*(store.open() for _ in range(5)))
    assert all(other is first for other in others)
    assert (tmp_path / "keys" / "default.key").stat().st_mode & 0o777 == 0o600
    await store.close()

    again = lazy(tmp_path, create_key=True)
    await again.open_early()
    assert (await again.open()).public_key == first.public_key
    await again.close()


async def test_without_leave_no_key_is_made_and_the_user_is_told_once(tmp_path):
    said = []
    store = lazy(tmp_path, create_key=False, said=said)
    for _ in range(3):
        with pytest.raises(CannotOpen, match=r"`sense-memory init`.*--create-key"):
            await store.open()
    assert len(said) == 1
    assert not (tmp_path / "keys").exists()

    LocalSigner.generate()  # the user runs `init` meanwhile: no restart is needed
    make_key(tmp_path)
    assert await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [("nonsense", "BadKey.*doctor"), ("ncryptsec", "without a password"), (None, "UnsafeFile.*doctor")],
)
async def test_a_key_that_cannot_be_used_is_never_replaced_and_its_place_is_not_told_to_the_agent(
    tmp_path, text, told
):
    said = []
    path = make_key(tmp_path)
    if text == "ncryptsec":
        path.unlink()
        text = encrypted()
        path = path.with_suffix(".ncryptsec")
    if text is None:
        path.chmod(0o644)
    else:
        path.write_text(text)
        path.chmod(0o600)
    before = path.read_text()
    with pytest.raises(CannotOpen, match=told) as error:
        await lazy(tmp_path, create_key=True, said=said).open()

    assert str(tmp_path) not in str(error.value)
    assert str(tmp_path) in said[0]
    assert path.read_text() == before
    assert [file.name for file in (tmp_path / "keys").iterdir()] == [path.name]


def make_key(home):
    from sense_memory.config.key_file import write_secret
    from sense_memory.nostr.keys import Secret

    path = home / "keys" / "default.key"
    write_secret(path, Secret.generate())
    return path


def encrypted():
    from sense_memory.nostr.keys import Secret
    from sense_memory.nostr.nip49 import encrypt_secret

    return encrypt_secret(Secret.generate(), "password", log_n=16)
