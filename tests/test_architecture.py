"""The arrows run downward: read from the imports themselves, so that docs/how-it-is-built.md cannot drift from the code."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import sense_memory
import sense_memory.mind
import sense_memory.palace
import sense_memory.search
from sense_memory import errors
from tests.time_unit import SECOND


ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sense_memory"
MAX_LINES = 600
MAX_FUNCTION_LINES = 70

# The order of the folders is the architecture: a module imports from its own folder and from those below it.
LAYERS = (
    "interfaces",
    "exchange",
    "checks",
    "sync_store",
    "store",
    "mirror",
    "mind",
    "memories",
    "signers",
    "relay.sync",
    "relay.server",
    "relay.client",
    "relay",
    "records",
    "ledger",
    "config",
    "palace",
    "search",
    "loop_thread",
    "arguments",
    "nostr",
    "models",
    "plain_text",
    "operating_system",
    "limits",
    "errors",
    "__about__",
)


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(file):
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@dataclass(frozen=True, slots=True)
class Facts:
    """What these tests ask of a file; its syntax tree is read once, and not kept.

    Attributes:
        imports: every module that it imports.
        imports_at_run_time: only what importing the file itself imports.
        definitions: the names of its functions and classes.
        classes: the names of its classes.
        has_docstring: whether it begins by saying what it is for.
        opens_databases: whether it calls `sqlite3.connect`.
    """

    imports: frozenset[str]
    imports_at_run_time: frozenset[str]
    definitions: tuple[str, ...]
    classes: tuple[str, ...]
    has_docstring: bool
    opens_databases: bool


@cache
def facts_of(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    return Facts(
        imports=_imported(file, nodes),
        imports_at_run_time=_imported(file, _at_module_level(tree.body)),
        definitions=tuple(
            node.name
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        has_docstring=bool(ast.get_docstring(tree)),
        opens_databases=any(
            isinstance(node, ast.Attribute)
            and node.attr == "connect"
            and ast.unparse(node.value) == "sqlite3"
            for node in nodes
        ),
    )


def imports_of(file, *, at_run_time=False):
    """Every module that a file imports; with `at_run_time` only what importing the file itself imports."""
    facts = facts_of(file)
    return facts.imports_at_run_time if at_run_time else facts.imports


def _imported(file, nodes):
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                found.add(longer if _is_module(longer) else node.module)
    return frozenset(found)


def _at_module_level(body):
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _at_module_level(node.body)
        else:
            yield node


@cache
def _is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def part_of(module):
    """`sense_memory.relay.sync.walk` → `relay`; empty for the package itself and for what is not ours."""
    names = module.split(".")
    return names[1] if names[0] == "sense_memory" and len(names) > 1 else ""


def layer_of(module):
    """How far down a module lies; None for the two entrances of the package, and for what is not ours."""
    name = module.removeprefix("sense_memory.")
    if name in {module, "__main__"}:
        return None
    return next(place for place, layer in enumerate(LAYERS) if f"{name}.".startswith(f"{layer}."))


# ── Arrows ──────────────────────────────────────────────────────────────────────────────


def test_arrows_run_downward():
    wrong = [
        f"{name_of(file)} imports {module}"
        for file in modules()
        for module in imports_of(file)
        if None not in (layers := (layer_of(name_of(file)), layer_of(module))) and layers[1] < layers[0]
    ]

    assert wrong == []


def test_relay_code_never_sees_a_memory():
    """It carries verified events whose content it cannot read. (Views never see a relay: they lie below.)"""
    parts = {part_of(module) for file in (PACKAGE / "relay").rglob("*.py") for module in imports_of(file)}

    assert parts.isdisjoint({"models", "records"})


def test_the_protocol_knows_limits_errors_and_itself():
    known = {part_of(module) for file in (PACKAGE / "nostr").glob("*.py") for module in imports_of(file)}

    assert known <= {"", "nostr", "limits", "errors"}


def test_nothing_imports_in_a_circle():
    """Between files, whatever the import is for: at run time, late, or for a type checker."""
    graph = {name_of(file): imports_of(file) for file in modules() if file != PACKAGE / "__init__.py"}
    done, path = set(), []

    def visit(module):
        if module in path:
            pytest.fail(" → ".join([*path[path.index(module) :], module]))
        if module in graph and module not in done:
            path.append(module)
            for below in sorted(graph[module]):
                visit(below)
            done.add(path.pop())

    for module in graph:
        visit(module)


def test_this_test_sees_imports_wherever_they_stand():
    """Hollow-proof: late imports and imports for type checkers count as arrows too."""
    replication = PACKAGE / "memories" / "replication.py"

    assert {"sense_memory.relay.sync.pool", "sense_memory.ledger"} <= imports_of(replication)
    assert "sense_memory.relay.sync.pool" not in imports_of(replication, at_run_time=True)
    assert "sense_memory.limits" in imports_of(replication, at_run_time=True)


# ── Edges of the world ──────────────────────────────────────────────────────────────────


def importers_of(*names):
    return {
        name_of(file)
        for file in modules()
        if any(module.split(".")[0] in names for module in imports_of(file))
    }


def test_only_the_ledger_the_embedded_relays_event_store_and_the_access_file_open_databases():
    """The embedded relay's other parts may catch what its event store raises; nobody else knows what SQLite is.

    An import opens copies of files that other programs wrote, and nothing of ours. The access file has no memory: it
    says which programs elsewhere may ask for them.
    """
    foreign = {"sense_memory.exchange.sqlite_files", "sense_memory.interfaces.mcp.oauth.access_file"}
    openers = {name_of(file) for file in modules() if facts_of(file).opens_databases}

    assert openers - foreign == {
        "sense_memory.ledger.database",
        "sense_memory.ledger.schema",
        "sense_memory.relay.server.event_store",
    }
    assert {part_of(module) for module in importers_of("sqlite3") - foreign} == {"ledger", "relay"}
    assert "sqlite3" not in {
        module
        for file in [*(PACKAGE / "relay" / "sync").glob("*.py"), *(PACKAGE / "relay" / "client").glob("*.py")]
        for module in imports_of(file)
    }


def test_only_relay_drivers_the_endpoint_of_embeddings_and_servers_of_this_machine_open_sockets():
    """The endpoint is asked only where a setting names it; some modules take URLs apart; servers listen on loopback."""
    speakers = importers_of("websockets", "socket", "ssl", "http", "urllib", "httpx", "requests", "aiohttp")

    others = {
        "sense_memory.search.embedders.endpoint",
        "sense_memory.nostr.relay_url",
        "sense_memory.nostr.remote_signing",
        "sense_memory.exchange.items",
        "sense_memory.exchange.markdown",
        "sense_memory.interfaces.loopback",
        "sense_memory.interfaces.mcp.http",
        "sense_memory.interfaces.mcp.oauth.application",
        "sense_memory.interfaces.mcp.oauth.consent",
        "sense_memory.interfaces.mcp.oauth.provider",
    }
    assert {part_of(module) for module in speakers - others} <= {"relay"}


def test_the_protocol_has_no_io_and_no_clock():
    worldly = {
        "asyncio",
        "socket",
        "sqlite3",
        "websockets",
        "time",
        "datetime",
        "os",
        "pathlib",
        "threading",
        "subprocess",
    }
    found = {
        f"{name_of(file)} imports {module}"
        for file in (PACKAGE / "nostr").glob("*.py")
        for module in imports_of(file)
        if module.split(".")[0] in worldly
    }

    assert found == set()


def test_the_session_of_a_relay_has_no_io():
    """Frames, time and what is known go in, actions come out: see `relay.client.session`."""
    begun, pure = ["sense_memory.relay.client.session"], set()
    while begun:
        module = begun.pop()
        file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        if module not in pure and file.exists():
            pure.add(module)
            begun += imports_of(file, at_run_time=True)
    outside = {"asyncio", "socket", "sqlite3", "websockets", "time", "threading", "subprocess"}
    assert {"sense_memory.relay.client.page", "sense_memory.relay.client.actions"} <= pure
    assert not {module for module in pure if module.startswith("sense_memory.ledger")}
    for module in pure:
        assert not outside & imports_of(
            ROOT.joinpath(*module.split(".")).with_suffix(".py"), at_run_time=True
        )


def test_nobody_hands_the_session_of_a_relay_anything_that_could_do_io():
    """Of all that is annotated there, only the maker of subscription ids can be called."""
    callables = set()
    for name in ("session", "requests", "page", "authentication", "actions"):
        file = PACKAGE / "relay" / "client" / f"{name}.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            annotation = getattr(node, "annotation", None)
            if annotation is not None and "Callable" in ast.unparse(annotation):
                callables.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
    assert callables == {"new_id"}


def test_time_is_a_parameter_below_the_store():
    """The clock is read where a user's call or a relay's connection begins, and handed down from there."""
    clockless = {"sense_memory.ledger.database", "sense_memory.mind.tools"}  # one waits, one writes a date
    clockless |= {"sense_memory.mind.prompts.dates", "sense_memory.arguments"}  # writes dates; takes them
    clockless |= {"sense_memory.signers.remote_signer"}  # its user may give another
    clockless |= {"sense_memory.ledger.device_id"}  # whether the machine's clock has jumped
    clockless |= {"sense_memory.exchange.items", "sense_memory.exchange.readable"}  # the dates in files
    clocks = importers_of("time", "datetime") - clockless

    assert {part_of(module) for module in clocks} <= {"store", "sync_store", "relay", "interfaces", "config"}
    timeless = {"client.session", "client.page", "sync.walk", "sync.relay_sync", "sync.pool"}
    assert not {f"sense_memory.relay.{name}" for name in timeless} & clocks


def test_the_command_line_is_the_only_part_that_talks_to_a_terminal():
    assert {part_of(module) for module in importers_of("typer", "rich", "click")} == {"interfaces"}


# ── Shape ───────────────────────────────────────────────────────────────────────────────


def test_a_module_that_outgrows_600_lines_is_two_modules():
    lengths = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in modules()}

    long = {name: count for name, count in lengths.items() if count > MAX_LINES}
    assert long == {}


def test_a_function_that_outgrows_70_lines_is_two_functions():
    lengths = {
        f"{name_of(file)}.{node.name}": node.end_lineno - node.lineno + 1
        for file in modules()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: count for name, count in lengths.items() if count > MAX_FUNCTION_LINES} == {}


def test_nothing_is_called_utils_helpers_or_manager():
    vague = ("util", "helper", "manager")
    documented = {"MemoryManager", "manager"}  # a name of the four-tier memory, and the call that gives one
    names = [file.stem for file in modules()]
    names += [name for file in modules() for name in facts_of(file).definitions]

    found = {name for name in names if any(word in name.lower() for word in vague)}
    assert found <= documented


def test_no_two_classes_have_the_same_name():
    """Whoever reads a name in a traceback, or looks for it, finds one class."""
    names = Counter(name for file in modules() for name in facts_of(file).classes)

    assert [name for name, count in names.items() if count > 1] == []


def test_every_module_begins_by_saying_what_it_is_for():
    for file in modules():
        assert facts_of(file).has_docstring, name_of(file)


def test_scripts_use_only_what_is_public():
    """From the package, from `mind`, `palace` and `search`, and errors that one rarely catches.

    What writes a page of this repository reads what the page is about.
    """
    of_the_house = {ROOT / "scripts" / f"generate_{name}.py" for name in ("json_docs", "plugins")}
    packages = (sense_memory, sense_memory.mind, sense_memory.palace, sense_memory.search)
    public = {module.__name__: set(module.__all__) for module in packages}
    public["sense_memory.errors"] = {name for name, item in vars(errors).items() if isinstance(item, type)}
    for file in sorted({*(ROOT / "scripts").rglob("*.py")} - of_the_house):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sense_memory":
                assert {alias.name for alias in node.names} <= public.get(node.module, set()), file


# ── What importing costs ────────────────────────────────────────────────────────────────

HEAVY = {
    "anthropic",
    "langgraph",
    "openai",
    "websockets",
    "typer",
    "rich",
    "sqlite3",
    "requests",
    "pydantic",
    "numpy",
    "tornado",
    "asyncio",
    "nostr_sdk",
}


def loaded_by(statement):
    """The heavy modules that a fresh interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30 * SECOND,
        check=True,
        cwd=ROOT,
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import sense_memory") == set()


def test_errors_and_versions_are_free():
    assert loaded_by("from sense_memory import SenseMemoryError, StoreClosed, __version__, errors") == set()


def test_a_store_without_relays_loads_no_sockets_and_no_terminal():
    assert loaded_by("from sense_memory import LocalSigner, MemoryStore") <= {
        "sqlite3",
        "pydantic",
        "asyncio",
    }


def test_every_public_name_can_be_had():
    for name in sense_memory.__all__:
        assert getattr(sense_memory, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sense_memory.nonsense  # noqa: B018 - the access is the test
