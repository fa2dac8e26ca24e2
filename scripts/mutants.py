"""Plant small defects, one at a time, and see which of them the tests notice: `make mutants`.

    python scripts/mutants.py                            # 10 defects in each module, seed 1
    python scripts/mutants.py heads outbox --count 40    # modules by the end of their path, without `.py`
    python scripts/mutants.py mind/log --count 0         # every defect of one module
    python scripts/mutants.py --list heads               # show what would be planted

A defect turns `<` into `<=`, `and` into `or`, `max` into `min`, a condition into its opposite, a number into the next, or
leaves a call out. Defects are planted inside SQL too, where the ledger makes half of its decisions; that is why this is a
program of its own: mutmut changes a string only as a whole or in its case, and nothing outside of functions, and cosmic-ray
leaves strings alone. A defect counts as killed if a test of its module fails or ends too late. The tests of a module are
`tests/<its path>`, then those in `ALSO`.

Nothing is planted in this folder: the tree is copied first, and each worker has a copy of its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "sense_memory"
MODULES: Final = (
    "ledger/[a-z]*.py",
    "relay/sync/[a-z]*.py",
    "records/[a-z]*.py",
    "memories/bulk.py",
    "memories/index_keeper.py",
    "palace/lifecycle.py",
    "palace/pruning.py",
    "palace/sources.py",
    "mind/log*.py",
    "mind/versioned.py",
)


def _faults(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/faults/test_{name}.py" for name in names)


ALSO: Final = {
    "ledger": (
        "tests/ledger/test_database.py",
        "tests/ledger/test_versions.py",
        *_faults("deletion", "versions"),
    ),
    "ledger/edits.py": ("tests/ledger/test_removals.py",),
    "ledger/removals.py": ("tests/ledger/test_edits.py",),
    "ledger/schema.py": ("tests/ledger/test_removals.py",),
    "ledger/roles.py": ("tests/records/test_kinds.py", "tests/ledger/test_ledger.py"),
    "ledger/versions.py": (
        "tests/ledger/test_ledger.py",
        "tests/memories/persona/test_conflicts.py",
        "tests/test_copies.py",
    ),
    "ledger/outbox.py": _faults("outbox", "set_back"),
    "ledger/relays.py": ("tests/relay/sync/test_pull.py", *_faults("set_back")),
    "ledger/inventory.py": ("tests/relay/sync/test_reconcile.py", *_faults("set_back")),
    "ledger/stamps.py": ("tests/records/test_writer.py", *_faults("rewrites", "time")),
    "ledger/suspicions.py": ("tests/memories/persona",),
    "ledger/caches.py": (
        "tests/records/test_sealed_caches.py",
        "tests/records/test_snapshot.py",
        "tests/memories/test_shared_embeddings.py",
    ),
    "ledger/rescue.py": ("tests/ledger/test_ledger.py", *_faults("ledger")),
    "ledger/device_id.py": ("tests/test_copies.py",),
    "relay/sync": _faults("pages", "relays", "outbox", "publish", "fresh", "hidden_kinds"),
    "relay/sync/conclusions.py": ("tests/relay/sync/test_pull.py",),
    "relay/sync/link.py": _faults("background", "watching"),
    "relay/sync/live.py": _faults("background"),
    "relay/sync/pool.py": _faults("background"),
    "records": (*_faults("events"), "tests/test_store_local.py"),
    "records/kinds.py": (
        "tests/new_kind/test_new_kind.py",
        "tests/memories/test_watch.py",
        "tests/memories/test_history.py",
        "tests/exchange/test_readable.py",
        "tests/mind/test_records.py",
        "tests/test_copies.py",
    ),
    "records/writer.py": _faults("deletion", "versions"),
    "memories/bulk.py": (
        "tests/memories/test_flat.py",
        "tests/memories/test_forget.py",
        "tests/memories/persona/test_remember_many.py",
        "tests/test_busy.py",
    ),
    "memories/index_keeper.py": (
        "tests/memories/test_search.py",
        "tests/memories/test_embedding_jobs.py",
        "tests/mind/search/test_warm_search.py",
    ),
    "palace/sources.py": ("tests/palace/test_standing.py", "tests/palace/test_compression.py"),
    "palace": ("tests/memories/persona",),
    "mind/versioned.py": ("tests/mind/test_blocks.py", "tests/mind/layers/test_layers.py"),
    "mind": (
        "tests/mind/test_log.py",
        "tests/mind/test_log_clock.py",
        "tests/mind/test_sync.py",
        "tests/test_copies.py",
    ),
}

_COMPARISONS: Final = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is not": "is", "is": "is not", "not in": "in",
    "in": "not in",
}  # fmt: skip
_OPERATORS: Final = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.BitOr: ("|", "&")}
_TWINS: Final = {"max": "min", "min": "max", "any": "all", "all": "any", "sorted": "list"}
_IS_SQL: Final = re.compile(r"\b(SELECT|WHERE|UPDATE|INSERT|DELETE|JOIN|AND|ORDER BY|CONFLICT|EXISTS)\b")
_SQL: Final = (
    (r" <= ", " < "), (r" >= ", " > "), (r" < ", " <= "), (r" > ", " >= "), (r" <> ", " = "), (r" AND ", " OR "),
    (r" OR (?!IGNORE|REPLACE)", " AND "), (r"NOT EXISTS", "EXISTS"), (r"IS NOT NULL", "IS NULL"), (r"IS NULL", "IS NOT NULL"),
    (r"NOT IN", "IN"), (r" DESC", ""), (r"\bmax\(", "min("), (r"\bmin\(", "max("), (r"quarantined = 0", "quarantined >= 0"),
)  # fmt: skip
_LATE_SECONDS: Final = 30.0  # added to four times what the tests of a module take


@dataclass(frozen=True, slots=True)
class Defect:
    """One planted defect.

    Attributes:
        module: path inside the package.
        start: where the replaced text begins, in bytes.
        old: the text, as bytes.
        new: what replaces it.
        line: the number of the line.
    """

    module: str
    start: int
    old: bytes
    new: bytes
    line: int

    def planted(self, source: bytes) -> bytes:
        """The module with this defect."""
        return source[: self.start] + self.new + source[self.start + len(self.old) :]

    def __str__(self) -> str:
        old, new = (" ".join(text.decode().split()) for text in (self.old, self.new))
        return f"{self.module}:{self.line}  {old}  →  {new or '(left out)'}"


# ── What can be planted ─────────────────────────────────────────────────────────────────


class _Places(ast.NodeVisitor):
    """Finds the defects of a module in its syntax tree."""

    def __init__(self, module: str, source: bytes) -> None:
        self._module, self._source = module, source
        self._lines = [0, *(match.end() for match in re.finditer(rb"\n", source))]
        self.found: list[Defect] = []
        self.docstrings: set[int] = set()

    def _at(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends, in bytes."""
        assert node.end_lineno is not None  # noqa: S101 - of a tree that was parsed
        assert node.end_col_offset is not None  # noqa: S101
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def add(self, start: int, end: int, new: str) -> None:
        """Note one defect."""
        line = self._source.count(b"\n", 0, start) + 1
        self.found.append(Defect(self._module, start, self._source[start:end], new.encode(), line))

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start, end = self.span(left)[1], self.span(right)[0]
        found = re.search(rf"(?<![\w<>=!]){re.escape(old)}(?![\w=])", self._source[start:end].decode())
        if found:
            before = len(found.string[: found.start()].encode())
            self.add(start + before, start + before + len(old.encode()), new)

    def visit_If(self, node: ast.If) -> None:
        """Leave type checkers' imports alone."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Turn the condition round."""
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):  # these have defects of their own
            start, end = self.span(test)
            self.add(start, end, f"not ({self._source[start:end].decode()})")

    def visit_Compare(self, node: ast.Compare) -> None:
        """Move the limit, or turn the comparison round."""
        for left, kind, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            old = _sign(kind)
            self._between(left, right, old, _COMPARISONS[old])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Both instead of one, or one instead of both."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave `not` out."""
        if isinstance(node.op, ast.Not):
            start, _ = self.span(node)
            self.add(start, start + len("not "), "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Another operator."""
        if type(node.op) in _OPERATORS:
            self._between(node.left, node.right, *_OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """The other truth value, or the next number."""
        if isinstance(node.value, bool):
            self.add(*self.span(node), str(not node.value))
        elif isinstance(node.value, int):
            self.add(*self.span(node), str(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """`max` instead of `min`, and the like."""
        if isinstance(node.func, ast.Name) and node.func.id in _TWINS:
            self.add(*self.span(node.func), _TWINS[node.func.id])
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave a call out."""
        if isinstance(node.value, ast.Constant):
            self.docstrings.add(node.lineno)
            return
        if isinstance(node.value, ast.Call | ast.Await):
            self.add(*self.span(node), "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Leave types alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Leave types alone."""
        for default in filter(None, (*node.defaults, *node.kw_defaults)):
            self.visit(default)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Leave decorators alone."""
        for part in node.body:
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Leave types and decorators alone, and `__repr__`."""
        if node.name != "__repr__":
            for part in (node.args, *node.body):
                self.visit(part)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """As any function."""
        self.visit_FunctionDef(node)


def _sign(kind: ast.cmpop) -> str:
    signs = dict(
        zip(
            ("Lt", "LtE", "Gt", "GtE", "Eq", "NotEq", "IsNot", "Is", "NotIn", "In"), _COMPARISONS, strict=True
        )
    )
    return signs[type(kind).__name__]


def defects(module: str, source: bytes) -> list[Defect]:
    """Every defect that can be planted in a module, in the order of its lines.

    Args:
        module: path inside the package.
        source: its text.
    """
    places = _Places(module, source)
    places.visit(ast.parse(source))
    for start, text in _sql(places, source):
        for old, new in _SQL:
            for found in re.finditer(old, text):
                before = start + len(text[: found.start()].encode())
                places.add(before, before + len(found[0].encode()), new)
    distinct = {(item.start, item.old, item.new): item for item in places.found}
    return sorted(distinct.values(), key=lambda item: (item.start, item.new))


def _sql(places: _Places, source: bytes) -> Iterator[tuple[int, str]]:
    """The texts of strings that hold SQL, and where they begin, in bytes."""
    kinds = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    lines = source.decode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    for token in tokenize.generate_tokens(io.StringIO(source.decode()).readline):
        row, column = token.start
        if token.type in kinds and row not in places.docstrings and _IS_SQL.search(token.string):
            yield starts[row - 1] + len(lines[row - 1][:column].encode()), token.string


# ── Planting ────────────────────────────────────────────────────────────────────────────


class Copy:
    """A copy of the tree in which defects are planted, and its tests run.

    Args:
        folder: a new folder for the copy.

    Attributes:
        folder: the copy.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        leave = shutil.ignore_patterns(
            ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist"
        )
        shutil.copytree(ROOT, self.folder, ignore=leave, symlinks=True)
        self._written = time.time()

    def write(self, module: str, text: bytes) -> None:
        """Replace a module. Its time is later each time, so that no compiled file is taken for the text of before."""
        path = self.folder / PACKAGE / module
        path.write_bytes(text)
        self._written += 2
        os.utime(path, (self._written, self._written))

    def passes(self, tests: Sequence[str], seconds: float | None = None) -> bool:
        """Whether the tests pass in time."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        with subprocess.Popen(  # noqa: S603 - this interpreter
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as running:  # fmt: skip
            try:
                return running.wait(seconds) == 0
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, 9)  # with the programs that the tests have started
                return False


def modules(wanted: Sequence[str]) -> list[str]:
    """The modules whose path ends in one of some names; all of `MODULES` without names.

    Raises:
        SystemExit: a name fits no module.
    """
    package = ROOT / PACKAGE
    every = sorted({str(path.relative_to(package)) for glob in MODULES for path in package.glob(glob)})
    for name in wanted:
        if not any(_is_named(module, name) for module in every):
            raise SystemExit(f"no module ends in {name}; there are: {', '.join(every)}")
    return [module for module in every if not wanted or any(_is_named(module, name) for name in wanted)]


def _is_named(module: str, name: str) -> bool:
    return f"/{module}".removesuffix(".py").endswith(f"/{name.removesuffix('.py')}")


def files_of(module: str) -> list[str]:
    """The test files of a module, those named after it first."""
    folder, _, name = module.rpartition("/")
    own = f"tests/{folder}/test_{name}"
    found = [own, *ALSO.get(module, ()), *ALSO.get(folder, ())]
    return [path for path in dict.fromkeys(found) if (ROOT / path).exists()]


def sample(every: Sequence[Defect], count: int, seed: int) -> list[Defect]:
    """So many of some defects, the same for the same seed; all if `count` is 0."""
    drawn = random.Random(seed).sample(every, min(count or len(every), len(every)))  # noqa: S311 - no secret
    return sorted(drawn, key=lambda item: item.start)


def in_turn(plans: Sequence[Sequence[Defect]]) -> list[Defect]:
    """The defects of several modules in turn, so that a limit of time is fair."""
    return [item for item in chain.from_iterable(zip_longest(*plans)) if item is not None]


def run(chosen: Sequence[Defect], *, jobs: int, seconds: float) -> tuple[Counter[str], Counter[str]]:
    """Plant defects and print the survivors; returns how many were planted and killed, by module.

    Raises:
        SystemExit: the tests of a module fail without any defect.
    """
    planted: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    deadline, here = time.monotonic() + seconds, threading.local()
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, ThreadPoolExecutor(jobs) as pool:

        def copy() -> Copy:
            if not hasattr(here, "copy"):
                here.copy = Copy(Path(tempfile.mkdtemp(dir=place)))
            return here.copy  # type: ignore[no-any-return]

        def measured(module: str) -> float:
            begun = time.monotonic()
            if not copy().passes(files_of(module)):
                raise SystemExit(
                    f"the tests of {module} fail without any defect: {' '.join(files_of(module))}"
                )
            return time.monotonic() - begun

        def plant(defect: Defect) -> None:
            if time.monotonic() > deadline:
                return
            source = (copy().folder / PACKAGE / defect.module).read_bytes()
            copy().write(defect.module, defect.planted(source))
            survived = copy().passes(files_of(defect.module), 4 * usual[defect.module] + _LATE_SECONDS)
            copy().write(defect.module, source)
            planted[defect.module] += 1
            killed[defect.module] += not survived
            if survived:
                print(f"SURVIVED  {defect}", flush=True)

        names = list(dict.fromkeys(defect.module for defect in chosen))
        usual = dict(zip(names, pool.map(measured, names), strict=True))
        list(pool.map(plant, chosen))
    return planted, killed


def main() -> None:
    """Read the command line, plant, and print the figure of each module."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=summary, epilog=details, formatter_class=shown)
    parser.add_argument("modules", nargs="*", help="the end of their paths; all without")
    parser.add_argument(
        "--count", type=int, default=10, help="defects in each module; 0 for all (default: 10)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="plant no more after this time (default: 60)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies at work at once")
    parser.add_argument("--list", action="store_true", help="show the defects and plant none")
    given = parser.parse_args()
    found = {name: defects(name, (ROOT / PACKAGE / name).read_bytes()) for name in modules(given.modules)}
    chosen = in_turn([sample(every, given.count, given.seed) for every in found.values()])
    if given.list:
        print(*chosen, sep="\n")
        return
    planted, killed = run(chosen, jobs=given.jobs, seconds=given.minutes * 60)
    for name in filter(planted.get, found):
        print(f"{killed[name]:>5} of {planted[name]:>4} killed ({len(found[name])} possible)  {name}")
    print(f"{killed.total():>5} of {planted.total():>4} killed in all")


if __name__ == "__main__":
    main()
