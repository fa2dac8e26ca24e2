"""The blocking twin is generated from `MemoryStore`, and typed as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from scripts import generate_sync_store
from tests.time_unit import SECOND


ROOT = Path(__file__).parents[1]
STRICT = ("sense_memory/__init__.py", "sense_memory/sync_store.py", "sense_memory/nostr/signer.py")


def test_the_twin_is_what_the_generator_makes_of_the_store():
    assert generate_sync_store.TARGET.read_text(encoding="utf-8") == generate_sync_store.generated()


def test_a_type_checker_refuses_what_the_twin_does_not_take(tmp_path):
    """Only the modules named are read, which takes a second; everything else counts as Any."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "from sense_memory import LocalSigner, SyncMemoryStore\n"
        "with SyncMemoryStore(LocalSigner.generate(), ledger=':memory:') as store:\n"
        "    text: str = store.remember('key', 'value')\n"
        "SyncMemoryStore(42, ledgr='x')\n"
        "number: int = store.remember('key', 5)\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "--cache-dir", tmp_path, snippet, *STRICT],
        capture_output=True,
        text=True,
        timeout=120 * SECOND,
        cwd=ROOT,
        check=False,
    )
    assert re.findall(r"snippet\.py:(\d): error: .*\[(.*)\]", checked.stdout) == [
        ("4", "call-arg"),
        ("4", "arg-type"),
        ("5", "assignment"),
        ("5", "arg-type"),
    ], checked.stdout
