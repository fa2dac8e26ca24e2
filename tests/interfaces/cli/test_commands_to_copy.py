"""Commands that are printed to be copied act on the memory that the command itself was about."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sense_memory.config.key_file import write_secret
from sense_memory.interfaces import cli as package
from sense_memory.interfaces.cli import app
from sense_memory.nostr.keys import parse_secret


HOME, MOVED, FOOD, DIET = "people/facts/home", "people/facts/moved", "people/facts/food", "people/facts/diet"
COMMANDS = re.compile(r"sense-memory (?=[a-z-]|$)")
STATIC = (  # a key that was refused before options were read, and texts about another agent than that of the command
    "a secret key was given as an argument, which other programs and the shell's history see",
    "To import them, use the agent with that key: sense-memory --agent NAME import FILE",
    ", and a key is never overwritten or hidden; choose another agent name",
)
STATIC_NAMES = {"_SHARED_OPTIONS", "_SCRIPTS", "app"}
HELP = {"ends", "command", "group", "Program", "add_typer", "callback"}


@pytest.fixture
def two(agent, home):
    """The command line; the agents `default` and `bob` have a key each, and no memories yet."""
    write_secret(home / "keys" / "bob.key", parse_secret("02" * 32))
    (home.parent / "my.env").write_text("SENSE_MEMORY_EMBEDDER=none\n")
    return agent


def remember_all(*given):
    """Write memories that contradict each other; returns what was printed."""
    return run_all(
        given,
        ("palace",),
        ("search", "x"),
        ("remember", HOME, "Lisa lives in Berlin."),
        ("remember", MOVED, "Lisa lives in Lisbon."),
        ("remember", FOOD, "Tom lives in Oslo.", "--contradictions", "suggest"),
        ("remember", DIET, "Tom lives in Rome.", "--contradictions", "suggest"),
    )


def use_all(*given):
    """Run the commands whose texts name commands, after `remember_all`; returns what was printed."""
    return run_all(
        given,
        ("recall", FOOD),
        ("palace", "show", HOME),
        ("palace", "introspect"),
        ("palace", "contradict", FOOD, DIET),
        ("undo", FOOD),
        ("palace", "reconcile", FOOD, DIET),
        ("palace", "dismiss", FOOD, DIET),
        ("recall", "people/facts/nobody"),
        ("forget", "people/facts/nobody"),
        ("remember", "editor", "vi"),
        ("palace", "recall", "editor"),
        ("recall", "home"),
        ("forget", "home"),
        ("journal", "It rains."),
        ("list",),
        ("status",),
        ("sync",),
        ("sync", "--json"),
        ("drafts", "--publish", "7"),
        ("mind", "identity", "show"),
        ("mind", "topics"),
        ("relays", "list"),
        ("doctor",),
    )


def run_all(given, *commands):
    results = [CliRunner().invoke(app, [*given, *words]) for words in commands]
    assert [
        result.exception for result in results if not isinstance(result.exception, SystemExit | None)
    ] == []
    return results


def commands_in(results):
    """What begins with `sense-memory` in the texts that were printed, up to the end of each line."""
    printed = "\n".join(result.stdout + result.stderr for result in results)
    return [line[found.start() :] for line in printed.split("\n") for found in COMMANDS.finditer(line)]


@pytest.mark.parametrize(
    "given",
    [
        ("--agent", "bob"),
        ("--ledger", "my own.db"),
        ("--env-file", "my.env"),
        ("--agent", "bob", "--ledger", "my own.db", "--env-file", "my.env"),
    ],
    ids=lambda words: " ".join(word for word in words if word.startswith("--")),
)
def test_every_command_that_is_printed_names_the_memory_that_was_named(two, given):
    called = f"sense-memory {shlex.join(given)} "

    written = remember_all(*given)
    found = commands_in([*written, *use_all(*given)])

    for verb in ("reconcile", "contradict", "dismiss", "relays add", "relay`"):
        assert any(verb in command for command in found), verb
    assert [command for command in found if not command.startswith(called)] == []


def test_options_after_a_command_are_named_too_and_without_options_no_command_has_any(two, dead_relay):
    remember_all("--agent", "bob")
    decided = two("palace", "contradict", FOOD, DIET, "--wait", "0", "--agent", "bob", "--relay", dead_relay)
    (command,) = commands_in([decided])
    assert command == f"sense-memory --agent bob palace reconcile {FOOD} {DIET}"  # --relay is for one command

    found = commands_in([*remember_all(), *use_all()])

    assert len(found) > 10
    assert [command for command in found if "--agent" in command or "--ledger" in command] == []


def test_a_command_that_is_copied_decides_about_the_agent_that_was_told(two):
    remember_all()
    (copied,) = (command for command in commands_in(remember_all("--agent", "bob")) if "reconcile" in command)

    two(*shlex.split(copied)[1:])

    assert two.json("--agent", "bob", "recall", HOME)["superseded_by"] is None
    assert two.json("recall", HOME)["superseded_by"] == MOVED


def names_of(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def help_and_docstrings(tree):
    """The parts of a module whose texts no command prints as a hint."""
    for node in ast.walk(tree):
        yield from getattr(node, "decorator_list", ())
        if (
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.Call) and names_of(node) in HELP)
            or (isinstance(node, ast.FunctionDef) and node.name == "_version")
        ):
            yield node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if {ast.unparse(target) for target in targets} & STATIC_NAMES:
                yield node


def test_no_text_of_the_command_line_names_a_command_without_program():
    found = []
    for file in sorted(Path(package.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        static = {id(inner) for part in help_and_docstrings(tree) for inner in ast.walk(part)}
        found += [
            f"{file.name}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in static
            if COMMANDS.search(node.value) and not node.value.startswith(STATIC)
        ]
    assert found == [], "begin the command with `program()`, so that it has the global options"
