"""How a command ends that cannot read or print, or that is interrupted: in a sentence, never with a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from sense_memory.interfaces.cli import inputs
from sense_memory.limits import MAX_PLAINTEXT_BYTES
from tests.time_unit import SECOND


STDIN, STDOUT, STDERR = range(3)
CLOSED, UNREAD, FULL = "closed", "unread", "/dev/full"
RESTORE = "to restore memories from relays, run `sense-memory relays add URL`, then `sense-memory sync`\n"
NO_MEMORIES = f"{RESTORE}There are no flat memories.\n"
NO_SPACE = b"error: stdout could not be written: No space left on device\n"


@pytest.fixture
def ends(agent, forks):
    """Runs a command with other streams; returns its exit code and what it says on stderr."""

    def run(*arguments, streams, stdin=b""):
        done = forks("-m", "sense_memory", *arguments, stdin=stdin, streams=streams)
        assert b"Traceback" not in done.stderr
        assert b"Exception ignored" not in done.stderr
        return done.code, done.stderr

    return run


@pytest.fixture
def filled(agent):
    agent("remember", "--many", "-", stdin=json.dumps({f"k{n}": "v" * 200 for n in range(400)}))
    agent("journal", "hello")
    return agent


@pytest.mark.parametrize(
    "command",
    ["list", "recent", "export -", "--help", "recall k1", "--json recall none", "completion bash"],
)
def test_a_full_disk_is_an_error_and_a_reader_that_has_enough_is_none(filled, ends, command):
    """Printed by ourselves, by rich, by the exporter and by typer, and found out while an error is printed."""
    assert ends(*command.split(), streams={STDOUT: FULL}) == (1, NO_SPACE)
    assert ends(*command.split(), streams={STDOUT: UNREAD}) == (0, b"")


def test_what_was_asked_for_is_done_whether_it_can_be_told_or_not(agent, ends):
    assert ends("remember", "k", "v", streams={STDOUT: FULL}) == (1, NO_SPACE)
    assert agent("recall", "k").stdout == "v\n"


def test_a_plan_that_nobody_can_read_is_not_carried_out(agent, long_ago, remembers, ends):
    long_ago((700, remembers("a/facts/old", "x", halflife_days=5)))

    code, said = ends("palace", "prune", "--yes", streams={STDOUT: UNREAD})

    assert (code, said) == (
        1,
        b"error: the plan could not be printed (its reader has left); nothing was pruned\n",
    )
    assert len(agent.json("palace", "prune", "--dry-run")["lines"]) == 1


@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [
        ("remember k", [STDIN], 2),
        ("palace prune", [STDIN], 0),
        ("init --import --agent bob", [STDIN], 2),
        ("backup b --password-stdin", [STDIN], 2),
        ("status", [STDOUT], 0),
        ("recall none", [STDERR], 4),
        ("remember k v", [STDIN, STDOUT, STDERR], 0),
    ],
)
def test_a_closed_stream_is_an_empty_one(agent, ends, command, closed, code):
    assert ends(*command.split(), streams=dict.fromkeys(closed, CLOSED))[0] == code


def test_an_error_that_nobody_can_read_keeps_its_exit_code(agent, ends):
    assert ends("recall", "none", streams={STDERR: FULL}) == (4, b"")
    assert ends("nonsense", streams={STDERR: FULL}) == (2, b"")


# ── stdin has a bound ───────────────────────────────────────────────────────────────────


class Endless:
    """A stdin without an end, which counts how much of it is read."""

    count = 0

    def read(self, size=-1):
        assert 0 <= size, "read without a bound"
        self.count += size
        return b"a" * size


@pytest.mark.parametrize("command", [["remember", "k"], ["journal"], ["palace", "remember", "a/b/c", "-"]])
def test_no_more_is_read_of_stdin_than_fits_a_memory(agent, monkeypatch, command):
    stdin = Endless()
    monkeypatch.setattr(inputs.typer, "get_binary_stream", lambda _: stdin)

    said = agent(*command, code=2).stderr

    assert "stdin has more than 40,960 bytes, the limit of one " in said
    assert said.endswith("nothing was written. Split it into several.\n")
    assert stdin.count == MAX_PLAINTEXT_BYTES + 1


def test_no_more_is_read_of_many_memories_than_the_limit(agent, monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "MAX_MANY_BYTES", 1_000)
    (tmp_path / "many.json").write_text("a" * 1_001)
    for source in ("many.json", "/dev/zero"):
        said = agent("remember", "--many", source, code=2).stderr
        assert said.startswith(
            f"error: {source} has more than 1,000 bytes, the limit of one `remember --many`;"
        )


def test_a_folder_or_a_device_is_no_file_of_memories(agent, tmp_path):
    assert agent("remember", "--many", tmp_path, code=1).stderr == f"error: {tmp_path}: Is a directory\n"
    assert agent("import", "/dev/null").stdout == "new  known\n  0      0\n"


# ── A full disk below the ledger, the key, the settings ─────────────────────────────────


NO_FILE_GROWS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
from sense_memory.interfaces.cli import main
sys.argv[0] = "sense-memory"
main()
"""


def run(program, *arguments, python=sys.executable):
    """A process of its own, with pipes."""
    return subprocess.run(
        [python, "-c", program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=30 * SECOND,
    )


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("--agent bob init", "/keys/bob.key: File too large"),
        ("relays add wss://relay.example", "/agents/default.toml: File too large"),
        ("remember k v", " could not be written (disk full or failing)"),
    ],
)
def test_a_disk_that_takes_nothing_is_told_with_the_file(agent, forks, command, told):
    """No file may grow, which is what a full disk is to whoever writes."""
    done = run(NO_FILE_GROWS, *command.split(), python=forks.python)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


# ── Ctrl-C ──────────────────────────────────────────────────────────────────────────────

INTERRUPTED = """
import atexit, os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

moment = sys.argv[1]
sys.meta_path.insert(0, Interrupts())
if moment == "the end":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from sense_memory.interfaces.cli import main
sys.argv[1:2] = []
main()
"""


@pytest.mark.parametrize(
    ("moment", "code"),
    [
        ("sense_memory.interfaces.cli.streams", -signal.SIGINT),
        ("sense_memory.interfaces.cli.program", -signal.SIGINT),
        ("sense_memory.store", 130),
        ("the end", -signal.SIGINT),
    ],
)
def test_ctrl_c_ends_a_command_without_a_traceback_whenever_it_comes(agent, moment, code):
    """While it starts, which shells report as 130 too, while it works, and while the interpreter ends."""
    done = run(INTERRUPTED, moment, "list")

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr in ({NO_MEMORIES} if moment == "the end" else {"", RESTORE})


def test_ctrl_c_is_not_lost_where_python_can_raise_nothing(agent):
    """As in a callback of the import system."""
    program = INTERRUPTED.replace(
        "            os.kill(os.getpid(), signal.SIGINT)\n",
        "            thing = type('Thing', (), {})()\n"
        "            ref = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "            del thing\n",
    ).replace("import atexit, ", "import weakref, atexit, ")

    done = run(program, "sense_memory.config.settings", "list")

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_stays_ignored_where_it_was(agent):
    """As in a script behind `nohup … &`."""
    program = INTERRUPTED.replace("moment = ", "signal.signal(signal.SIGINT, signal.SIG_IGN)\nmoment = ")

    assert run(program, "sense_memory.store", "list").returncode == 0


# ── Narrow terminals ────────────────────────────────────────────────────────────────────


def test_what_is_said_beside_a_result_is_broken_between_words(agent, dead_relay, forks, monkeypatch):
    agent("palace", "remember", "people/facts/lisa", "artist")
    monkeypatch.setenv("COLUMNS", "40")
    for command in (["list"], ["remember", "k", "v"], ["forget", "none", "--wait", "0"], ["recall", "lisa"]):
        _, shown = forks.on_terminal("-m", "sense_memory", "--relay", dead_relay, *command)
        lines = shown.splitlines()
        assert max(map(len, lines)) <= 40
        words = " ".join(lines).split()
        assert not {"rel", "ay", "connecti", "de", "letion", "pal", "ace"} & set(words)
