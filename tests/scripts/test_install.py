"""`make demo` installs with `scripts/install.py`: progress on a terminal, plain lines in a pipe, pip's words if it fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.time_unit import SECOND


SCRIPT = Path(__file__).parents[2] / "scripts" / "install.py"
OFFLINE = ("--no-index", "--no-deps")  # without the second, pip checks all that is installed


def test_a_terminal_sees_seconds_and_the_step(forks):
    code, shown = forks.on_terminal(SCRIPT, *OFFLINE, "pip")

    assert code == 0
    assert re.search(
        r"^[|/\\-] +\d+ s  \w", shown.replace("\r", "\n").replace("\033[K", ""), flags=re.MULTILINE
    )
    assert shown.endswith("\r\033[K")  # and the line is gone at the end


def test_a_pipe_sees_few_lines_without_names_and_why_it_failed():
    good, bad = (
        subprocess.run(
            [sys.executable, SCRIPT, *OFFLINE, wanted],
            capture_output=True,
            text=True,
            timeout=50 * SECOND,
            check=False,
        )
        for wanted in ("pip", "there-is-no-such-package")
    )

    assert (good.returncode, good.stderr, bad.returncode) == (0, "", 1)
    for done in (good, bad):
        assert re.fullmatch(r"( +\d+ s  \w.*\n)+", done.stdout)
        assert "Collecting" not in done.stdout
    assert good.stdout.endswith(": done\n")
    assert bad.stdout.endswith(": failed\n")
    assert "No matching distribution found for there-is-no-such-package" in bad.stderr
