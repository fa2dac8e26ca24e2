"""Every snippet and every command of the README and of docs/ is run, page by page, as a reader would."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from scripts import two_machines
from sense_memory import MemoryStore
from sense_memory.interfaces.cli import app
from sense_memory.store.journal import StoreJournal
from sense_memory.store.palace import StorePalace
from sense_memory.store.relays import StoreRelays
from tests.time_unit import SECOND


ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
PROSE = {
    name: re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) for name, text in TEXTS.items()
}
OTHERS = ("CHANGELOG.md", "SECURITY.md", "relays/README.md", "scripts/demo/README.md")
PORT = "7447"  # the pages' relay; the tests move it to a free one
# The last line of a snippet for a framework, or an extra, that is not here.
NOT_INSTALLED = re.compile(
    rb"(?:MissingExtra: .*|ModuleNotFoundError: No module named '(?!sense_memory).*)\n$"
).search
PROGRAM = re.compile(r"((?:[A-Z_]+=\S+ )*)python (\w+\.py.*)").fullmatch
SHELL = re.compile(r"[|<>$*;()=]").search  # what only a shell understands


def blocks(name: str, language: str) -> list[str]:
    """The texts of all blocks of a page in a language."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    assert {kind for kind, _ in found} <= {"sh", "python", "console", "text"}  # each is run, but text
    return [text for kind, text in found if kind == language]


def pages_with(language: str) -> list[str]:
    return [name for name in TEXTS if blocks(name, language)]


def saved(name: str, folder: Path) -> list[Path]:
    """Save the programs that a page gives a file name."""
    found = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    for file, text in found:
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file, _ in found]


@pytest.fixture
def home(tmp_path, monkeypatch, forks):
    """An environment in which only what the page says exists; `sense-memory` in it is played by forks."""
    for name in ("NOSTR_NSEC", "SENSE_MEMORY_KEY_FILE", "SENSE_MEMORY_RELAYS", "SENSE_MEMORY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))  # of the harnesses
    programs = Path(forks.program).parent, Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, programs), os.environ["PATH"]]))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, cwd=folder, text=True, capture_output=True, timeout=50 * SECOND, check=False
    )


# ── Python ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "snippet", [pytest.param(text, id=name) for name in TEXTS for text in blocks(name, "python")]
)
def test_every_python_snippet_runs_as_it_stands(snippet, home, forks):
    program = home / "snippet.py"
    program.write_text(snippet, encoding="utf-8")
    if "from_settings()" in snippet:  # after `sense-memory init`, as its comment says
        assert forks("-m", "sense_memory", "init", folder=home).code == 0

    done = forks(program, folder=home)

    if missing := NOT_INSTALLED(done.stderr):
        pytest.skip(missing[0].decode())
    assert (0, b"") == (done.code, done.stderr)
    assert done.stdout


def test_the_agent_of_the_readme_knows_in_its_second_run_what_it_was_told_in_the_first(home, forks):
    (program,) = saved("README.md", home)
    assert forks("-m", "sense_memory", "init", folder=home).code == 0

    first, second = (forks(program, *words, folder=home) for words in ((), ("When is my workshop?",)))

    assert (first.code, second.code) == (0, 0)
    told = b"My workshop is on Friday, for six people."
    assert told in first.stdout
    assert told in second.stdout.partition(b"When is my workshop?")[0]


def test_every_call_that_a_page_names_is_one_of_the_store():
    """`await store.x(` is a coroutine, `store.x(` is none; so are calls of its palace, its journal and its relays."""
    pattern = r"(await )?\bstore\.(palace\.|journal\.|relays\.)?(\w+)\("
    calls = {call for text in TEXTS.values() for call in re.findall(pattern, text)}
    assert calls
    kinds = {"": MemoryStore, "palace.": StorePalace, "journal.": StoreJournal, "relays.": StoreRelays}
    for awaited, part, name in calls - {("await ", "", "journal")}:
        if (method := getattr(kinds[part], name, None)) is None:
            pytest.fail(f"`store.{part}` has no {name}")
        if awaited:
            assert inspect.iscoroutinefunction(method), name


def test_every_name_of_the_page_of_the_api_exists():
    names = re.findall(r"^::: (\S+)$", TEXTS["docs/api.md"], flags=re.MULTILINE)

    assert names
    for name in names:
        assert pkgutil.resolve_name(name).__doc__, name


def test_every_call_of_the_store_is_in_the_page_of_python():
    internal = {"close", "discard_draft", "integrity", "rescue"}
    named = set(re.findall(r"\bstore\.(\w+)\(", TEXTS["docs/python.md"]))
    public = {
        name for name, method in vars(MemoryStore).items() if inspect.isfunction(method) and name[0] != "_"
    }

    assert public - named - internal == set()


# ── Commands ────────────────────────────────────────────────────────────────────────────


def test_the_two_commands_exist_and_the_demo_restores_everything():
    lines = [
        line.partition("#")[0].strip() for block in blocks("README.md", "sh") for line in block.splitlines()
    ]
    assert lines == ["make demo", ". .venv/bin/activate", "sense-memory init", "make test"]
    assert "scripts/demo/demo.py" in (ROOT / "Makefile").read_text()  # `make test` here would never end

    done = run([sys.executable, "scripts/demo/demo.py"], ROOT)

    assert (0, "") == (done.returncode, done.stderr)
    assert "Everything came back." in done.stdout
    assert done.stdout.endswith("sense-memory init\n\n")
    assert not [line for line in done.stdout.splitlines() if line.endswith(" ")]


def expected(lines: list[str]) -> re.Pattern[str]:
    """The output a console block shows; `…` stands for anything that differs from run to run."""
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


class Terminal:
    """Runs commands in the folder of a reader; `sense-memory relay` runs on, as in a second terminal."""

    def __init__(self, forks, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        self._forks, self.folder = forks, folder
        self._installed = Path(sys.executable).with_name("sense-memory")
        self._relay = None

    def __call__(self, command: str) -> tuple[int, str]:
        """The exit code, and what is shown."""
        here = command.replace(PORT, self.port)
        if here == "sense-memory relay":
            return 0, self._start_relay()
        if program := PROGRAM(here):
            settings = dict(word.split("=", 1) for word in program[1].split())
            file, *words = shlex.split(program[2])
            done = self._forks(
                self.folder / file, *words, folder=self.folder, environment={**os.environ, **settings}
            )
        elif SHELL(here):
            done = self._forks.in_shell(here, folder=self.folder)
        else:
            done = self._forks(self._installed, *shlex.split(here)[1:], folder=self.folder)
        shown = (done.stdout + done.stderr).decode()
        return done.code, "\n".join(line.rstrip() for line in shown.splitlines()).strip().replace(
            self.port, PORT
        )

    def _start_relay(self) -> str:
        self._relay = subprocess.Popen(
            [self._forks.program, "relay", "--port", self.port],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
        )
        assert self.port in self._relay.stdout.readline()
        return ""

    def close(self) -> None:
        if self._relay is not None:
            self._relay.send_signal(signal.SIGINT)
            assert self._relay.wait(10 * SECOND) == 0
            self._relay.stdout.close()


@pytest.fixture
def terminal(home, forks):
    begun = Terminal(forks, home)
    yield begun
    begun.close()


@pytest.mark.parametrize("name", pages_with("console"))
def test_the_commands_of_a_page_print_what_it_shows(name, terminal):
    """All blocks of a page are one session; one that makes no key begins with the key and the relay of the README."""
    saved(name, terminal.folder)
    if not re.search(r"^\$ sense-memory init$", TEXTS[name], flags=re.MULTILINE):
        assert "README.md#60-seconds" in TEXTS[name]  # where the reader is told so
        for command in ("init", "relay", f"relays add ws://127.0.0.1:{PORT}"):
            code, shown = terminal(f"sense-memory {command}")
            assert code == 0, shown
    for command, output in (step for block in blocks(name, "console") for step in steps(block)):
        code, shown = terminal(command)
        fails = any(line.startswith("error:") for line in output)
        assert fails == bool(code), f"{command}: exit {code}\n{shown}"
        assert expected(output).fullmatch(shown), f"{command}\n{shown}"


def test_the_moving_picture_shows_what_its_commands_print(home, terminal, forks, monkeypatch):
    terminal("sense-memory relay")
    monkeypatch.setenv("SENSE_MEMORY_RELAYS", f"ws://127.0.0.1:{terminal.port}")

    def run(command, machine):
        monkeypatch.setenv("SENSE_MEMORY_HOME", str(home / machine))
        done = forks.in_shell(command, folder=home)
        assert done.code == 0, (command, done)
        return done.stdout.decode().replace(terminal.port, PORT)

    run("sense-memory init", "laptop")
    run("sense-memory init --import < laptop/keys/default.key", "server")

    assert two_machines.PICTURE.read_text(encoding="utf-8") == two_machines.drawn(two_machines.played(run))


# ── What pages name ─────────────────────────────────────────────────────────────────────


def inline_code(name: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", PROSE[name])


def named_commands(name: str) -> list[list[str]]:
    """The words of every call of ours, in console blocks and in the text, without options in front of them."""
    lines = [command for block in blocks(name, "console") for command, _ in steps(block)] + inline_code(name)
    calls = [call for line in lines for call in re.findall(r"\bsense-memory (?![\d<])([^|]*)", line)]
    return [re.sub(r"^(--(agent|ledger|relay|env-file) \S+ |--\w+ ?)+", "", call).split() for call in calls]


@pytest.fixture(scope="module")
def program():
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_that_a_page_names_is_one_that_the_help_lists(name, program):
    for words in named_commands(name):
        command = program
        for word in words:
            if word.startswith("-") or not (known := getattr(command, "commands", {})):
                break
            assert word in known, words
            command = known[word]
            assert not command.hidden, words


def test_every_target_of_make_that_a_page_names_exists():
    targets = {
        code.split()[-1]
        for name in TEXTS
        for code in inline_code(name)
        if re.match(r"(\w+=\S+ )*make ", code)
    }
    makefile = (ROOT / "Makefile").read_text()

    assert targets
    assert {name for name in targets if not re.search(rf"^{name}:", makefile, flags=re.MULTILINE)} == set()


@pytest.mark.parametrize("name", [*TEXTS, *OTHERS])
def test_every_link_of_a_page_leads_somewhere(name):
    """To files of this repository, and to headings in them; what is on the web is not asked."""
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", (ROOT / name).read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert heading in {
                re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles
            }, target


FOLDERS = ("sense_memory/", "relays/", "scripts/", "tests/", "docs/")


@pytest.mark.parametrize("name", TEXTS)
def test_every_path_and_module_that_a_page_names_exists(name):
    for code in inline_code(name):
        if code.startswith(FOLDERS):
            assert (ROOT / code).exists(), code
        elif re.fullmatch(r"sense_memory(\.\w+)+", code) and code != "sense_memory.relay":  # also a logger
            path = ROOT / code.replace(".", "/")
            assert path.with_suffix(".py").exists() or path.is_dir() or hasattr_of(code), code


def hasattr_of(code: str) -> bool:
    module, _, attribute = code.rpartition(".")
    return hasattr(__import__(module, fromlist=[attribute]), attribute)
