"""A new kind of record is five files: this adds one, sightings, to a copy of the package, and looks what becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sense_memory
from tests.time_unit import SECOND


HERE = Path(__file__).parent
PACKAGE = Path(sense_memory.__file__).parent
FIVE_FILES = {
    "records/kinds.py",
    "mind/sightings.py",
    "mind/mind.py",
    "interfaces/cli/mind/sightings.py",
    "interfaces/shapes/table.py",
}
KIND = """\
    SIGHTING = (
        "sense-memory:sighting",
        KindTraits(
            ("path", "place"),
            lambda fields: fields["path"],
            role=Role.{role},
            text="note",
            says_edits=True,
            names_path=True,
            is_exported=True,
            prefix="sighting/",
            counted_as="sightings",
            counted=("sighting", "sightings"),
        ),
    )
"""
ROLE = """\
    LATEST = 5, Traits(is_live=True, removed_by=RemovedBy.ORIGIN)  # of its versions, only the newest is kept
"""


class Copy:
    """A copy of the package, of links, in which files are changed as a developer would change them.

    Args:
        folder: an empty folder.
    """

    def __init__(self, folder):
        self.folder, self.changed = folder, set()
        for above, _, names in os.walk(PACKAGE):
            there = folder / "sense_memory" / Path(above).relative_to(PACKAGE)
            there.mkdir(parents=True)
            for name in names:
                (there / name).symlink_to(Path(above) / name)

    def write(self, name, text):
        file = self.folder / "sense_memory" / name
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        self.changed.add(name)

    def add(self, name, *lines):
        """Add each text after a place that the file has once."""
        text = (PACKAGE / name).read_text(encoding="utf-8")
        for place, more in lines:
            assert text.count(place) == 1, place
            text = text.replace(place, place + more)
        self.write(name, text)


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path / "copy")


def add_sightings(copy, role="MEMORY"):
    copy.add(
        "records/kinds.py", ("            role=Role.TOMBSTONE,\n        ),\n    )\n", KIND.format(role=role))
    )
    copy.write("mind/sightings.py", (HERE / "sightings.py").read_text(encoding="utf-8"))
    copy.add(
        "mind/mind.py",
        (
            "from sense_memory.mind.blocks import Blocks\n",
            "from sense_memory.mind.sightings import Sightings\n",
        ),
        (
            "        self.archive = Archive(self.records)\n",
            "        self.sightings = Sightings(self.records)\n",
        ),
    )
    copy.write("interfaces/cli/mind/sightings.py", (HERE / "commands.py").read_text(encoding="utf-8"))
    copy.add(
        "interfaces/shapes/table.py",
        (
            '    "mind.blocks.Block": Shape("block", or_null=("session",)),\n',
            '    "mind.sightings.Sighting": Shape("sighting"),\n',
        ),
    )


def seen(copy, tmp_path, *parts):
    """What the scenario saw in a process that imports the copy."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "scenario.py"), str(tmp_path), *parts],
        capture_output=True,
        text=True,
        timeout=60 * SECOND,
        check=False,
        env={**os.environ, "PYTHONPATH": str(copy.folder), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_five_files_make_a_kind_that_is_treated_as_its_traits_say(copy, tmp_path):
    """Written, edited, synced between two devices, named where edits meet, exported, imported, counted, forgotten."""
    add_sightings(copy)
    assert copy.changed == FIVE_FILES

    saw = seen(copy, tmp_path, "commands")

    check(saw, versions=["new lake", "old lake"])
    assert saw["listed"] == ["heron", "owl"]
    assert "3 events: 1 current, 2 sightings" in saw["status"]


def test_one_more_line_makes_a_role_that_the_ledger_treats_as_its_traits_say(copy, tmp_path):
    """Of this role only the newest version is kept; all else is as for any record that the user has."""
    add_sightings(copy, "LATEST")
    copy.add("ledger/roles.py", ("keeps_older=True, history_of=0)\n", ROLE))

    check(seen(copy, tmp_path), versions=["new lake"])


def check(saw, *, versions):
    assert saw["sent"]
    assert saw["versions"] == versions
    assert saw["counts"] == {"heads": 0, "sightings": 1, "older": len(versions) - 1, "tombstones": 0}
    assert saw["memories"] == [0, 0, 0]
    assert saw["in step"]
    assert saw["named"] == ["sighting/heron"]
    assert saw["left"] == [[], []]
    assert saw["counts after"] == {"heads": 0, "sightings": 0, "older": 0, "tombstones": 1}
    assert saw["shown whole"]


def test_the_page_names_the_five_files():
    page = (PACKAGE.parent / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
    section = page.partition("## Where a new kind of record is added")[2].partition("\n## ")[0]

    for name in FIVE_FILES:
        is_new = name.endswith("sightings.py")
        place = (
            f"a new module in `sense_memory/{name.removesuffix('sightings.py')}`"
            if is_new
            else f"`sense_memory/{name}`"
        )
        assert place in section
