"""Write sense_memory/sync_store.py, the blocking twin of `MemoryStore`, from sense_memory/store.py: `make sync-store`.

Each public method keeps its signature and its docstring. A method that awaits runs in the store's thread; an iterable
argument is read in the caller's thread. The few methods that differ are named below.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Final


ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "sense_memory" / "store.py"
TARGET: Final = ROOT / "sense_memory" / "sync_store.py"

BY_HAND: Final = frozenset({"from_settings", "close", "mind"})  # in `CLASS`
NEEDS_NO_LOOP: Final = frozenset({"gaps", "public_key", "npub", "relays"})
BODIES: Final = {
    "rescue": "return asyncio.run(self._store.rescue())",
    "watch": (
        "watch = self._loop.call(self._store.watch, on_relay=on_relay)\n"
        "return BlockingIterator(self._loop, watch.next, watch.aclose)"
    ),
    "persona_introspections": (
        "reports = self._store.persona_introspections(every)\n\n"
        "async def following() -> IntrospectionReport | None:\n"
        "    return await anext(reports, None)\n\n"
        "return BlockingIterator(self._loop, following)"
    ),
}
RETURNS: Final = {
    "Watch": "BlockingIterator[Change]",
    "IntrospectionSchedule": "BlockingIterator[IntrospectionReport]",
}
HERE: Final = "\n\nThe callback is called in the caller's thread."
THERE: Final = "\n\nThe callback is called in the store's thread, and cannot call the store."

HEADER: Final = '''\
"""`SyncMemoryStore`: the blocking twin of `MemoryStore`, for code without an event loop.

Generated from store.py by scripts/generate_sync_store.py (`make sync-store`): change that file, not this one.
The store lives in an event loop of its own in a background thread, see `loop_thread`.
"""

from __future__ import annotations
'''
CLASS: Final = """
    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> SyncMemoryStore:
        {from_settings}
        signer, options = configured(agent, options)
        return cls(signer, **options)

    def __enter__(self) -> Self:
        self._loop.begin(self._store.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its twin's private name: nobody else is in a fork what it is there.
        self._loop.end(lambda: self._store.__aexit__(kind, error, trace), self._store._abandon)  # noqa: SLF001

    def close(self) -> None:
        {close}
        self._loop.end(self._store.close, self._store._abandon)  # noqa: SLF001 - as above

    def __repr__(self) -> str:
        return f"Sync{{self._store!r}}"

    @property
    def mind(self) -> BlockingView:
        {mind}
        return BlockingView(self._loop, self._loop.call(lambda: self._store.mind))

    @property
    def inner(self) -> tuple[MemoryStore, LoopThread]:
        \"\"\"The store inside, and the thread with its event loop: for adapters that await calls of the store there.\"\"\"
        return self._store, self._loop
"""


def generated() -> str:
    """The text of the module."""
    text = SOURCE.read_text(encoding="utf-8")
    tree = ast.parse(text)
    store = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    methods = {
        node.name: node for node in store.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    body = _class(store, methods, text.splitlines())
    code = f"{HEADER}\n{_imports(tree, body)}\n\n{body}"
    return _ruff("format", _ruff("check", code, "--fix", "--quiet"))


def _class(
    store: ast.ClassDef, methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef], lines: list[str]
) -> str:
    init = methods["__init__"]
    given = ", ".join(_passed(init, {}))
    parts = [
        f"class SyncMemoryStore:\n    {_docstring(store)}\n",
        f"    def __init__({ast.unparse(init.args)}) -> None:",
        f"        self._store = MemoryStore({given})",
        "        self._loop = LoopThread()",
        "        self._store._tell = self._loop.warnings.append  # noqa: SLF001 - its twin",
        CLASS.format(**{name: _docstring(methods[name]) for name in BY_HAND}),
    ]
    public = (node for name, node in methods.items() if not name.startswith("_") and name not in BY_HAND)
    return "\n".join([*parts, *(_method(node, lines[node.lineno - 1]) for node in public)])


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef, line: str) -> str:
    """One method of the twin."""
    note = f"  {line[line.index('# noqa') :]}\n" if "# noqa" in line else ""
    returns = ast.unparse(node.returns) if node.returns is not None else "None"
    decorators = [f"    @{ast.unparse(item)}" for item in node.decorator_list]
    head = f"    def {node.name}({note}{ast.unparse(node.args)}) -> {RETURNS.get(returns, returns)}:"
    body = BODIES.get(node.name) or _call(node)
    return "\n".join(
        [
            *decorators,
            head,
            f"        {_docstring(node)}",
            *(f"        {row}" for row in body.splitlines()),
            "",
        ]
    )


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The body of a method: the same call of the inner store, in the store's thread."""
    target = f"self._store.{node.name}"
    if node.name in NEEDS_NO_LOOP:
        return f"return {target}" + ("" if node.decorator_list else "()")
    collected = {name: f"collected({name})" for name in _iterables(node)}
    if isinstance(node, ast.FunctionDef):
        return f"return self._loop.call({', '.join([target, *_passed(node, collected)])})"
    if not _counts_here(node):
        return f"return self._loop.wait({target}({', '.join(_passed(node, collected))}))"
    before = [f"{name} = {value}" for name, value in collected.items()]
    given = ", ".join(_passed(node, {"progress": "count"}))
    return "\n".join([*before, f"return self._loop.wait_counting(lambda count: {target}({given}), progress)"])


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [item for item in (*node.args.args, *node.args.kwonlyargs) if item.arg != "self"]


def _annotation(item: ast.arg) -> str:
    return "" if item.annotation is None else ast.unparse(item.annotation)


def _iterables(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Parameters that may be an iterator of the caller."""
    return [item.arg for item in _parameters(node) if "Iterable" in _annotation(item)]


def _counts_here(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether progress is reported in the caller's thread: where the counted items come from that thread."""
    return "progress" in {item.arg for item in _parameters(node)} and bool(_iterables(node))


def _passed(node: ast.FunctionDef | ast.AsyncFunctionDef, instead: dict[str, str]) -> list[str]:
    """The arguments with which a method calls its twin."""
    positional = [item.arg for item in node.args.args if item.arg != "self"]
    named = [f"{item.arg}={instead.get(item.arg, item.arg)}" for item in node.args.kwonlyargs]
    return [*(instead.get(name, name) for name in positional), *named]


def _docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The docstring of a method or the class, for callers that do not await."""
    text = ast.get_docstring(node, clean=False) or ""
    for pattern, words in (
        (r"async for", "for"),
        (r"async with MemoryStore", "with SyncMemoryStore"),
        (r"`aclose`", "`close`"),
        (
            r"many tasks of one event loop; threads and processes open their own",
            "any thread; processes open their own",
        ),
    ):
        text = re.sub(pattern, words, text)
    if not isinstance(node, ast.ClassDef) and any(
        "Callable" in _annotation(item) for item in _parameters(node)
    ):
        note = (HERE if _counts_here(node) else THERE).replace("\n", "\n        ").replace("        \n", "\n")
        text = f"{text.rstrip()}{note}\n        " if "\n" in text else f"{text}{note}\n        "
    return f'"""{text}"""'


def _imports(tree: ast.Module, body: str) -> str:
    """The imports of store.py that the twin needs too, and the twin's own."""
    names = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    always = [
        "import asyncio",
        "from sense_memory.loop_thread import BlockingIterator, BlockingView, LoopThread, collected",
    ]
    always += [
        "from sense_memory.memories.open_store import configured",
        "from sense_memory.store import MemoryStore",
        "from typing import TYPE_CHECKING, Any, Self",
    ]
    known = {"annotations", "asyncio", "configured", "TYPE_CHECKING", "Any", "Self"}
    checked = ["from sense_memory.models import Change"]
    typing = [node for item in tree.body if isinstance(item, ast.If) for node in item.body]
    at_run_time = {"time", "LINGER_SECONDS"}  # in defaults
    for node in [*tree.body, *typing]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                if name not in names or name in known:
                    continue
                row = (
                    f"import {name}" if isinstance(node, ast.Import) else f"from {node.module} import {name}"
                )
                (always if name in at_run_time else checked).append(row)
    indented = "\n".join(f"    {row}" for row in dict.fromkeys(checked))
    return "\n".join(dict.fromkeys(always)) + f"\n\nif TYPE_CHECKING:\n{indented}\n"


def _ruff(command: str, code: str, *options: str) -> str:
    """Code, formatted by ruff."""
    arguments = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", str(TARGET), "-"]
    done = subprocess.run(  # noqa: S603 - our own ruff
        arguments, input=code, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if not done.stdout:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
