"""Help pages: complete, readable at 80 columns, and every example on them runs as it stands."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer

from sense_memory import LocalSigner
from sense_memory.interfaces.cli import app
from sense_memory.interfaces.cli.help_pages import ends, first_sentence, page, usage
from sense_memory.interfaces.cli.invocation import Invocation
from tests.time_unit import SECOND


PROGRAM = typer.main.get_command(app)
ENDLESS = {
    "api",
    "mcp",
    "relay",
    "watch",
    "web",
    "--schedule",
}  # they run until somebody ends them, and have tests of their own
SHELL = re.compile(r"^(?:[^'|<>$*~]|'[^']*')*[|<>$*~]").search  # what only a shell understands
ENDS_WITH = {
    "rotate": 2,  # asks on a terminal
    # where no 0 can be expected: nobody to ask, no such thing
    "access revoke 1": 4,
    "init": 1,  # the agent has a key already
    **dict.fromkeys(("trust --undo 3f2a90c1", "quarantine --undo 3f2a90c1", "revoke --undo 3f2a90c1"), 2),
    **dict.fromkeys(("check memory.checks", "check memory.checks --at yesterday"), 2),
    **dict.fromkeys(("check memory.checks --json", "bisect memory.checks"), 2),
    "--agent bob init": 1,
    "init --import < usb/default.ncryptsec": 1,
    "backup usb": 2,
    "import CLAUDE.md --into projects/website": 2,
    "palace review --accept 3f2a --accept 91bc --reject 07de": 2,
    "palace pin self/facts/name": 4,
    "palace unpin self/facts/name": 4,
    'as-of "1 min ago" user_timezone': 4,
    "as-of yesterday people/facts/lisa": 4,
    "journal --remove 3f2a90c1": 4,
    "drafts --publish 1": 4,
    "drafts --discard 1": 4,
    "mind archive forget 3f2a90c1": 4,
    "mind objectives done 3f2a90c1": 4,
    "mind scenes join sense-scene:eyJpZCI6…": 2,
}


def walk(command=PROGRAM, path=()):
    """Every command and group, by its words."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk(child, (*path, name))


COMMANDS = dict(walk())


def examples_of(command):
    """The examples on a command's page, without remarks."""
    epilog = (
        inspect.cleandoc(command.epilog or "")
        .replace("\nExample: ", "\nExamples:\n")
        .partition("Examples:\n")
    )
    return [
        line.strip() for line in epilog[2].splitlines() if line.strip() and not line.strip().startswith("#")
    ]


EXAMPLES = [(path, example) for path, command in COMMANDS.items() for example in examples_of(command)]
CALLS = re.compile(r"(?<![\w/])sense-memory( [^|<>;)]*)?").findall


# ── Shape ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_page_is_complete_and_fits(cli, path, monkeypatch):
    """On a wide terminal; at 80 columns it stands in its golden session, whose width is tested too."""
    monkeypatch.setenv("COLUMNS", "120")
    command = COMMANDS[path]

    shown = cli(*path, "--help").stdout

    assert max(map(len, shown.splitlines())) <= 100
    assert shown.startswith(f"Usage: sense-memory{''.join(f' {word}' for word in path)} [OPTIONS]")
    assert "\n\nOptions:\n" in shown
    assert "\n\nExit codes:\n  0  " in shown
    assert "\n\nExamples:\n  " in shown
    for param in command.params:
        assert param.help, f"{param.name} has no help"
        assert (param.metavar or param.is_flag) or param.param_type_name == "argument", param.name
    assert not re.search(r"<\w+>|\[required\]|list\[", shown)
    assert not re.search(r"[\x1b─│╭]", shown)


def test_a_heading_is_bold_on_a_terminal_and_plain_with_no_color(terminal, monkeypatch):
    assert "\x1b" not in terminal("recall", "--help")
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[1mExamples:\x1b[0m" in terminal("recall", "--help")


def test_the_main_page_lists_every_command_with_one_sentence(cli):
    lines = cli("--help").stdout.splitlines()

    for name, command in PROGRAM.commands.items():
        assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in lines), name
        assert len(first_sentence(command.help)) <= 100, name


# ── Examples ────────────────────────────────────────────────────────────────────────────


def test_every_command_has_an_example_of_itself():
    for path, command in COMMANDS.items():
        assert any(" ".join(path) in example for example in examples_of(command)), path


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=str)
def test_every_example_is_a_right_command_line(path, example):
    """Parsed as the program would, without doing it: those that run for ever too."""
    calls = CALLS(example)
    assert calls
    for call in calls:
        words = shlex.split(call, comments=True)
        context = PROGRAM.make_context("sense-memory", list(words), obj=Invocation())
        command, rest = PROGRAM, [*context._protected_args, *context.args]
        while hasattr(command, "commands") and rest:
            name, command, rest = command.resolve_command(context, rest)
            context = command.make_context(name, list(rest), parent=context)
            rest = (
                [*getattr(context, "_protected_args", ()), *context.args]
                if hasattr(command, "commands")
                else []
            )


@pytest.fixture
def stage(agent, start_relay, home, tmp_path, monkeypatch):
    """An agent with memories, two relays, and the files that the examples name."""
    relays = [start_relay(), start_relay()]
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", " ".join(relays))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / ".config/fish/completions").mkdir(parents=True)
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "CLAUDE.md").write_text("# Rules\n\n- Small commits.\n")
    (tmp_path / ".openclaw/workspace").mkdir(parents=True)
    (tmp_path / ".openclaw/workspace/MEMORY.md").write_text("# Memory\n\n- Lisa paints.\n")
    with zipfile.ZipFile(tmp_path / "chatgpt-export.zip", "w") as export:
        export.writestr("conversations.json", "[]")
    (tmp_path / "memories.json").write_text('{"a": "1", "b": "2"}')
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb/default-2027-01-15.jsonl").touch()
    (tmp_path / "usb/default.ncryptsec").write_text("not read: the agent has a key already")
    agent("--agent", "bob", "init")
    for value in ("x", "y"):
        agent("remember", "user_timezone", value)
    for key in ("facts/lisa", "facts/lisa-home", "facts/lisa-moved", "facts/workshop"):
        agent("palace", "remember", f"people/{key}", f"about {key}", "--wait", "0")
    agent("palace", "remember", "projects/facts/workshop", "on Fridays", "--wait", "0")
    agent("remember", "notes", "n")
    monkeypatch.setenv("NPUB", LocalSigner.from_hex("06" * 32).npub)
    agent("mind", "blocks", "create", "human", "Lives in Porto.", "--wait", "0")
    agent("mind", "conversations", "add", "chat", "Where were we?", "--wait", "0")
    agent("export", "memories.jsonl")
    subprocess.run(["gzip", "--keep", "memories.jsonl"], check=True, timeout=10 * SECOND)
    return relays[0]


@pytest.mark.usefixtures("whole_seconds")
def test_every_example_runs(agent, stage, forks, monkeypatch):
    by_shell = set()  # each starts programs: once is enough where two pages share one
    for path, example in EXAMPLES:
        monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "static" if path == ("embed",) else "none")
        if ENDLESS & {*path[:1], *example.split()} or "zsh" in example or "--password-stdin" in example:
            continue  # the last one is in the README too, which is run as it stands
        if example.endswith(".png") or ".svg" in example:
            continue  # a library of pictures takes seconds to load; `test_palace_plot.py` draws both kinds
        here = example.replace("wss://relay.example", stage).replace("/media/usb/sense-memory", "usb")
        here = here.replace("$NPUB", os.environ["NPUB"])  # for which alone no shell is needed
        short = here.removeprefix("sense-memory ")
        if SHELL(here):
            if here in by_shell:
                continue
            by_shell.add(here)
            done = forks.in_shell(here)
            assert done.code == ENDS_WITH.get(short, 0), f"{here}\n{done.stderr.decode()}"
        else:
            agent(*shlex.split(short), code=ENDS_WITH.get(short, 0))
        for value in ("v", "w") if path == ("forget",) else ():  # for the commands after it
            agent("remember", "user_timezone", value)
            agent("remember", "people/facts/lisa", value)


# ── The writer of pages ─────────────────────────────────────────────────────────────────


def demo(**options):
    program = typer.Typer(rich_markup_mode=None)

    @program.command(**options)
    def one(
        name: str = typer.Argument(metavar="NAME", help="Whom."),
        loud: bool = typer.Option(False, "--loud", help="Shout."),
        a_very_long_option_name: int = typer.Option(3, metavar="NUMBER", help="How often."),
    ) -> None:
        """Greet: once.

        More
        of it.
        """

    command = typer.main.get_command(program)
    return command, page(command, typer.Context(command, info_name="greet"))


def test_a_page_from_its_parts(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    command, shown = demo(
        epilog=ends("greet Lisa", "# Loudly:", "greet Lisa --loud", codes={4: "nobody there"})
    )

    assert usage(command) == ["[OPTIONS]", "NAME"]
    body = shown.partition("\n\n")[2]
    assert body.startswith("Greet: once.\n\nMore of it.\n\nArguments:\n  NAME  Whom.\n\nOptions:\n")
    assert "  --loud  " in body
    assert (
        "  --a-very-long-option-name NUMBER\n                              How often. Default: 3.\n" in body
    )
    assert body.endswith(
        "\nExit codes:\n  0  done\n  1  an error, which is explained\n"
        "  2  wrong usage or input; nothing was changed\n  4  nobody there\n"
        "\nExamples:\n  greet Lisa\n  # Loudly:\n  greet Lisa --loud\n"
    )


def test_an_example_in_one_line_is_an_example_too(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    _, shown = demo(epilog="Example: greet Lisa")

    assert shown.endswith("\nExamples:\n  greet Lisa\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Do it.", "Do it"),
        ("Do it: now.", "Do it"),
        ("Do\nit. And more.\n\nMuch more.", "Do it"),
        ("No full stop\n\nhere.", "No full stop"),
        ("See config.toml first. Then go.", "See config.toml first"),
    ],
)
def test_the_first_sentence_is_what_lists_show(text, sentence):
    assert first_sentence(text) == sentence
