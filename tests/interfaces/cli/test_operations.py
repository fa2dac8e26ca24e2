"""Commands as operations: what the decorator does for each of them, and when their modules are imported."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pytest
from typer.testing import CliRunner

from sense_memory.interfaces.cli import app
from sense_memory.interfaces.cli.groups import Program
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, WaitOption, argument, option
from sense_memory.interfaces.cli.mind import commands as of_mind
from sense_memory.interfaces.cli.operations import (
    FromStdin,
    Write,
    as_sentence,
    as_table,
    as_text,
    deletion,
    operation,
)
from sense_memory.interfaces.cli.palace.group import commands as of_palace
from sense_memory.interfaces.cli.program import Commands, options
from sense_memory.interfaces.shapes import thing
from tests.time_unit import SECOND


if TYPE_CHECKING:
    from sense_memory import MemoryStore


@thing("wave")
@dataclass(frozen=True)
class Wave:
    height: float
    name: str


NameArgument = Annotated[str, argument("NAME", "Whom.")]
HeightOption = Annotated[float, option("M", "How high.")]


@pytest.fixture
def demo(agent):
    """Runs a function as the command `demo`; returns what the runner saw."""

    def run(function, *words, stdin=None, **how):
        root = Program(name="sense-memory", cls=Commands)
        root.callback()(options)
        operation(root, "demo", "sense-memory demo", **how)(function)
        operation(root, "other", hidden=True)(function)  # of one command alone typer makes no group
        result = CliRunner().invoke(root, ["demo", *words], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "new.db"


async def wave(store: MemoryStore, name: NameArgument, *, height: HeightOption = 1.5) -> Wave:
    """Raise a wave. It is high."""
    assert store.public_key
    return Wave(height, name)


# ── Options ─────────────────────────────────────────────────────────────────────────────


def test_the_parameters_after_the_store_are_those_of_the_command_and_the_docstring_is_its_page(demo):
    page = demo(wave, "--help").stdout

    assert page.startswith("Usage: sense-memory demo [OPTIONS] NAME\n\nRaise a wave. It is high.\n")
    assert "  --height M  How high." in page
    assert "--json" in page
    assert "--wait" not in page
    assert "store" not in page.partition("Options of every command")[0].lower()


def test_a_command_that_writes_has_wait_once_and_acks_if_it_is_asked_for(demo):
    async def waits(store: MemoryStore, *, wait: WaitOption = WAIT_SECONDS) -> Write:
        """Wait."""

    assert demo(wave, "--help", writes=True).stdout.count("  --wait ") == 1
    assert demo(waits, "--help", writes=True).stdout.count("  --wait ") == 1
    assert "--require-acks" in demo(wave, "--help", writes=True, with_acks=True).stdout


def test_options_that_do_not_go_together_are_refused_before_a_store_is_open(demo, ledger):
    result = demo(
        wave,
        *("x", "--height", "9", "--ledger", str(ledger)),
        writes=True,
        refuses=lambda given: "too high" if given.height > 8 else "",
    )

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: too high\nUsage: sense-memory demo ")
    assert not ledger.exists()


def test_a_ledger_is_made_where_a_command_writes_or_its_options_say_so(demo, ledger):
    words = ("x", "--ledger", str(ledger))

    assert demo(wave, *words).exit_code == 2
    assert demo(wave, *words, writes=True, creates=False).exit_code == 2
    assert demo(wave, *words, creates=lambda given: given.height > 8).exit_code == 2
    assert not ledger.exists()
    assert "made a new ledger" in demo(wave, *words, writes=True).stderr


# ── Texts from stdin ────────────────────────────────────────────────────────────────────


async def say(
    store: MemoryStore,
    text: Annotated[str | None, argument("TEXT", "The text."), FromStdin("word", unless=("height",))] = None,
    *,
    height: Annotated[float | None, option("M", "How high.")] = None,
) -> str:
    """Say it."""
    return repr(text)


def test_a_missing_text_is_stdin_without_its_last_line_break(demo):
    shows = as_text(str)

    assert demo(say, "a", stdin="b\n", shows=shows).stdout == "'a'\n"
    assert demo(say, stdin="b\n", shows=shows).stdout == "'b'\n"
    assert demo(say, "-", "--height", "1", stdin="b\nc\n", shows=shows).stdout == "'b\\nc'\n"
    assert demo(say, "--height", "1", stdin="b\n", shows=shows).stdout == "None\n"


def test_stdin_is_read_before_a_store_is_open(demo, ledger):
    result = demo(say, "--ledger", str(ledger), stdin="", writes=True, shows=as_text(str))

    assert result.exit_code == 2
    assert result.stderr.startswith("error: stdin is empty; give the word there")
    assert not ledger.exists()


# ── Results ─────────────────────────────────────────────────────────────────────────────


def test_json_is_the_shape_of_the_result_and_of_each_item_of_a_list(demo):
    async def waves(store: MemoryStore) -> list[Wave]:
        """Raise two."""
        return [Wave(1.0, "a"), Wave(2.0, "b")]

    assert json.loads(demo(wave, "x", "--json").stdout) == {"height": 1.5, "name": "x"}
    assert json.loads(demo(waves, "--json").stdout)[1] == {"height": 2.0, "name": "b"}
    assert json.loads(demo(waves, "--json", json=lambda one: one.name).stdout) == ["a", "b"]


def test_a_table_has_a_line_for_each_item_in_a_pipe_and_says_with_the_options_that_there_is_none(demo):
    async def waves(store: MemoryStore, name: NameArgument) -> list[Wave]:
        """Raise some."""
        return [Wave(1.0, "a\nb")] if name == "a" else []

    table = as_table(
        ("name", "height"), lambda one, _: (one.name, str(one.height)), none="No {name!r}: {program}"
    )

    assert demo(waves, "a", shows=table).stdout == "a↵ b\t1.0\n"
    empty = demo(waves, "b", "--agent", "default", shows=table)
    assert (empty.stdout, empty.stderr) == ("", "No 'b': sense-memory --agent default\n")
    assert demo(waves, "b", "--json", shows=table).stdout == "[]\n"


def test_a_sentence_is_one_line_and_nothing_hidden_reaches_a_terminal(demo):
    assert demo(wave, "a\n\x1b[31mb", shows=as_sentence(lambda one: one.name)).stdout == "a↵ \\u001b[31mb\n"


def test_what_comes_after_a_result_goes_to_stderr_and_sets_the_exit_code(demo):
    for words in (["x"], ["x", "--json"]):
        result = demo(wave, *words, shows=as_sentence(str), ends_with=lambda found: 3)

        assert result.exit_code == 3
        assert "x" in result.stdout


# ── Writes ──────────────────────────────────────────────────────────────────────────────


def test_a_write_is_sent_and_reported_and_what_else_there_is_to_say_is_said_even_after_a_failure(demo):
    async def keep(store: MemoryStore) -> Write:
        """Keep it."""
        ident = await store.remember("k", "v")
        return Write([ident], "kept it", {"key": "k"}, tells=lambda: print("and more"), notes=["by the way"])  # noqa: T201

    kept = demo(keep, writes=True, with_acks=True)
    assert kept.stdout == "kept it · on this machine only: no relays are configured\nand more\n"
    few = demo(keep, "--require-acks", "1", writes=True, with_acks=True)
    assert few.exit_code == 3
    assert few.stdout.endswith("\nand more\n")
    assert few.stderr.endswith("by the way\n")
    shown = demo(keep, "--json", writes=True, with_acks=True)
    assert json.loads(shown.stdout) == {"key": "k", "acks": 0, "outdated": False, "relays": []}
    assert shown.stderr == "by the way\n"


def test_a_relay_has_what_a_command_wrote_when_the_command_ends(demo, relay):
    async def keep(store: MemoryStore) -> Wave:
        """Keep it, without naming an event."""
        await store.mind.log.append("agent.spoke", {"text": "hello"}, actor="agent")
        return Wave(1.0, "a")

    async def waits(store: MemoryStore) -> dict[str, int]:
        """What waits for the relay."""
        return dict(store.status().relays[0].events)

    assert demo(keep, "--relay", relay, writes=True, shows=as_sentence(str)).stderr == ""
    sent = json.loads(demo(waits, "--relay", relay, "--json").stdout)
    assert sent["acked"]
    assert not sent.get("queued")


def test_a_deletion_says_that_it_is_one(demo):
    async def remove(store: MemoryStore) -> Write:
        """Remove it."""
        return deletion(await store.forget(await _kept(store)), "gone", name="k")

    async def _kept(store):
        await store.remember("k", "v")
        return "k"

    assert demo(remove, writes=True).stdout == "gone here · no relays are configured\n"


# ── Imports ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("group", [app, of_palace, of_mind], ids=["all", "palace", "mind"])
def test_the_module_in_the_table_registers_the_command_and_no_command_is_missing_from_the_table(group):
    for name in group.names():
        assert group.built(name).name == name

    assert {*group.registered} == {*group.names()}
    assert not group.registered_commands  # typer would build them together with the group


MODULES = {
    *app.modules.values(),
    *(f"mind.{module}" for module in of_mind.modules.values()),
    *(f"palace.{module}" for module in of_palace.modules.values()),
} - {"program"}


@pytest.mark.parametrize(
    ("line", "own"),
    [("--version", set()), ("recall none", {"memories"}), ("mind blocks list", {"mind", "mind.blocks"})],
)
def test_a_command_imports_its_own_module_and_no_other(line, own, agent):
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['sense-memory', *{line.split()}]\n"
        "from sense_memory.interfaces.cli import main\n"
        "main()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20 * SECOND, check=False
    )

    loaded = done.stderr.splitlines()[-1].split()
    assert {name for name in MODULES if f"sense_memory.interfaces.cli.{name}" in loaded} == own
