"""Every snippet and every command of the README is run, in its order, as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.time_unit import SECOND


ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
PORT = "7447"  # the README's relay; the test moves it to a free one
SHELL = re.compile(r"[|<>$*;()=]").search  # what only a shell understands


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An environment in which only what the README says exists."""
    for name in ("NOSTR_NSEC", "SENSE_MEMORY_KEY_FILE", "SENSE_MEMORY_RELAYS", "SENSE_MEMORY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def run(command: str, folder: Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=50 * SECOND,
        check=False,
        **options,
    )


def test_every_block_is_of_a_kind_that_is_run():
    assert {"sh", "python", "console", "text"} >= {name for name, _ in BLOCKS}


@pytest.mark.parametrize("snippet", blocks("python"))
def test_every_python_snippet_runs_as_it_stands(snippet, home):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet],
        cwd=home,
        text=True,
        capture_output=True,
        timeout=50 * SECOND,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout


def test_the_two_commands_exist_and_the_demo_restores_everything():
    (commands,) = [block.split() for block in blocks("sh") if "make demo" in block]
    assert ["make", "demo", "make", "test"] == commands
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^test:", makefile, flags=re.MULTILINE)  # running it here would never end
    assert "scripts/demo/demo.py" in makefile

    done = run(f"{sys.executable} scripts/demo/demo.py", ROOT)

    assert (0, "") == (done.returncode, done.stderr)
    assert "Everything came back." in done.stdout


def expected(lines: list[str]) -> re.Pattern[str]:
    """The output a README block shows; `…` stands for anything that differs from run to run."""
    text = "\n".join(line.rstrip() for line in lines).strip()
    return re.compile(".*".join(map(re.escape, text.split("…"))), flags=re.DOTALL)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The (command, output lines) of a console block."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_the_console_session_prints_what_the_readme_shows(home, port, forks):
    """All console blocks are one session; `sense-memory relay` runs on beside it, as in a second terminal."""
    relay, program = None, shutil.which("sense-memory")
    try:
        for command, output in (step for block in blocks("console") for step in steps(block)):
            here = command.replace(PORT, port)
            if here.startswith("sense-memory relay") and "relays" not in here:
                relay = subprocess.Popen(
                    [program, *here.split()[1:], "--port", port],
                    cwd=home,
                    text=True,
                    stdout=subprocess.PIPE,
                )
                first = relay.stdout.readline()
                assert port in first
                continue
            if SHELL(here):
                done = run(here, home)
                code, told = done.returncode, done.stdout + done.stderr
            else:
                done = forks(program, *shlex.split(here)[1:], folder=home)
                code, told = done.code, (done.stdout + done.stderr).decode()
            fails = any(line.startswith("error:") for line in output)
            assert fails == bool(code), f"{command}: exit {code}\n{told}"
            shown = "\n".join(line.rstrip() for line in told.splitlines()).strip()
            assert expected(output).fullmatch(shown.replace(port, PORT)), f"{command}\n{shown}"
    finally:
        if relay is not None:
            relay.send_signal(signal.SIGINT)
            assert relay.wait(10 * SECOND) == 0
            relay.stdout.close()
