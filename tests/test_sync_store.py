"""The blocking twin is generated from `MemoryStore`, and typed as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from scripts import generate_sync_store
from tests.time_unit import SECOND


ROOT = Path(__file__).parents[1]
STRICT = (
    *("sense_memory/__init__.py", "sense_memory/arguments.py", "sense_memory/nostr/signer.py"),
    *(
        f"sense_memory/store/{name}.py"
        for name in ("__init__", "memory_store", "palace", "journal", "lifetime", "persona_names")
    ),
    "sense_memory/sync_store.pyi",
)


def test_the_twin_is_what_the_generator_makes_of_the_store():
    assert generate_sync_store.TARGET.read_text(encoding="utf-8") == generate_sync_store.generated()


def test_a_type_checker_refuses_what_neither_face_takes_and_knows_the_mind_behind_them(tmp_path):
    """Only the modules named are read, which takes a second; everything else counts as Any."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore\n"
        "with SyncMemoryStore(LocalSigner.generate(), ledger=':memory:') as store:\n"
        "    text: str = store.remember('key', 'value')\n"
        "SyncMemoryStore(42, ledgr='x')\n"
        "number: int = store.remember('key', 5)\n"
        "text = store.mind.blocks.compile()\n"
        "path = store.palace.memories()[0].path\n"
        "number = store.mind.blocks.compile()\n"
        "store.search('x', within=['palce'])\n"
        "store.palace.remember('a/b/c', 'x', contradictions='atc')\n"
        "store.palace.remember_many([{'path': 'a/b/c', 'value': 'x', 'tehmes': []}])\n"
        "store.mind.records\n"
        "async def use(store: MemoryStore) -> None:\n"
        "    await store.palace.recall('a/b/c', revives=True)\n"
        "    number: int = await store.journal('x')\n"
        "MemoryStore(LocalSigner.generate(), revive='never')\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", tmp_path, snippet, *STRICT],
        capture_output=True,
        text=True,
        timeout=120 * SECOND,
        cwd=ROOT,
        check=False,
    )
    assert re.findall(r"snippet\.py:(\d+): error: .*\[(.*)\]", checked.stdout) == [
        ("4", "call-arg"),
        ("4", "arg-type"),
        ("5", "assignment"),
        ("5", "arg-type"),
        ("8", "assignment"),
        ("9", "list-item"),
        ("10", "arg-type"),
        ("11", "typeddict-unknown-key"),
        ("12", "attr-defined"),
        ("14", "call-arg"),
        ("15", "assignment"),
        ("16", "arg-type"),
    ], checked.stdout
