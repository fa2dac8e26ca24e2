"""The words of every command: its help page, its usual outputs and its errors, one file for each command.

A file in `golden/` is a session: after each line that begins with `$`, what the command printed, with `! ` before the lines
of stderr, and the exit code in brackets if it is not 0. To add a case, write its `$` line; to take over new words, run
`pytest tests/interfaces/cli/test_golden.py --update-golden` and read the difference. Each session begins with the memories
of the fixture `palace`. `$ID` in a command is the last id that was printed; `<<<` gives it stdin. What differs from run to
run, such as ids and times, is masked.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sense_memory.interfaces.cli import app


GOLDEN = Path(__file__).parent / "golden"
SESSIONS = sorted(GOLDEN.glob("*.txt"))
MASKS = (
    (r"wss?://127\.0\.0\.1:\d+", "<relay>"),
    (r"npub1[a-z0-9]{58}", "<npub>"),
    (r"nevent1[a-z0-9]+", "<id>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b", "<id>"),
    (r"\b[0-9a-f]{8,64}\b", "<id>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "<time>"),
    (r"(just now|\b\d+ s(ec|econds?)? ago)", "just now"),
    (r"\b\d\.\d{2,3}\b", "<share>"),
    (r"\b[\d,.]+ (bytes|kB|MB)\b|(?<=\t)\d{5,}(?=\t)", "<size>"),
)


def walk(command, path=()):
    yield " ".join(("sense-memory", *path)), command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from walk(child, (*path, name))


def lines_of(text, mark=""):
    return [f"{mark}{line}".rstrip() for line in text.splitlines()]


class Session:
    """Runs command lines one after another, and writes down what they printed."""

    def __init__(self, folder, secrets):
        self.folder, self.secrets, self.ident = folder, secrets, ""

    def run(self, line):
        call, _, stdin = line.partition(" <<< ")
        words = shlex.split(call.replace("$ID", self.ident))
        assert words[0] == "sense-memory", line
        result = CliRunner().invoke(app, words[1:], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert not any(secret in result.output for secret in self.secrets), line
        self.ident = next(reversed(re.findall(r"\b[0-9a-f]{8,64}\b", result.output)), self.ident)
        shown = [*lines_of(result.stdout), *lines_of(result.stderr, "! ")]
        code = [f"[{result.exit_code}]"] if result.exit_code else []
        is_page = words[-1] == "--help"
        assert not is_page or max(map(len, shown)) <= 80, line
        told = shown if is_page else map(self._masked, shown)
        return "\n".join((f"$ {line}", *told, *code))

    def _masked(self, line):
        for name, mask in ((self.folder / "home", "<home>"), (self.folder, "<folder>")):
            line = line.replace(str(name), mask)
        for pattern, mask in MASKS:
            line = re.sub(pattern, mask, line)
        return line


def test_there_is_a_session_for_every_command_and_it_begins_with_its_help_page():
    wanted = {name for name, _ in walk(typer.main.get_command(app))}

    assert {path.stem.replace("-", " ") for path in SESSIONS} == {name.replace("-", " ") for name in wanted}
    for path in SESSIONS:
        assert path.read_text("utf-8").startswith("$ sense-memory"), path
        assert path.read_text("utf-8").partition("\n")[0].endswith("--help"), path


@pytest.fixture
def session(palace, secrets, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Session(tmp_path, secrets)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_a_command_says_what_it_said(path, session, pytestconfig):
    told = path.read_text("utf-8")

    shown = "\n\n".join(map(session.run, re.findall(r"^\$ (.*)$", told, re.MULTILINE))) + "\n"

    if pytestconfig.getoption("--update-golden"):
        path.write_text(shown, "utf-8")
    else:
        assert shown == told
