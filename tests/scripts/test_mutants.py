"""`make mutants`: what it plants is a change of meaning and still a program, and it is planted in a copy only."""

from __future__ import annotations

import ast

import pytest

from scripts import mutants


SOURCE = '''"""Not SQL: SELECT nothing WHERE 1 < 2 — and no defect."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from x import y

_QUERY = f"SELECT … FROM events e WHERE e.seq > ? AND e.role <> {ROLE}"

@dataclass(frozen=True)
class C:
    x: int

def f(a: int = 1) -> bool:
    """Whether 1 < 2 AND 2 < 3."""
    act(a)
    if a:
        return max(a, 2) < 3 and not b
    return a is not None or a in {True}
'''


def planted() -> dict[str, str]:
    """Each defect of the source above, as its line reads then."""
    found = mutants.defects("m.py", SOURCE.encode())
    texts = [item.planted(SOURCE.encode()).decode() for item in found]
    return {text.splitlines()[item.line - 1].strip(): text for item, text in zip(found, texts, strict=True)}


def test_every_kind_of_defect_is_found_where_it_can_be():
    assert set(planted()) == {
        '_QUERY = f"SELECT … FROM events e WHERE e.seq >= ? AND e.role <> {ROLE}"',
        '_QUERY = f"SELECT … FROM events e WHERE e.seq > ? OR e.role <> {ROLE}"',
        '_QUERY = f"SELECT … FROM events e WHERE e.seq > ? AND e.role = {ROLE}"',
        "def f(a: int = 2) -> bool:",
        "pass",
        "if not (a):",
        "return min(a, 2) < 3 and not b",
        "return max(a, 3) < 3 and not b",
        "return max(a, 2) <= 3 and not b",
        "return max(a, 2) < 4 and not b",
        "return max(a, 2) < 3 or not b",
        "return max(a, 2) < 3 and b",
        "return a is None or a in {True}",
        "return a is not None and a in {True}",
        "return a is not None or a not in {True}",
        "return a is not None or a in {False}",
    }


def test_every_defect_is_a_program_that_differs_from_the_others_and_from_the_source():
    texts = list(planted().values())

    assert len(set(texts)) == len(texts)
    assert SOURCE not in texts
    for text in texts:
        ast.parse(text)


@pytest.mark.parametrize("module", mutants.modules([]))
def test_every_defect_of_a_module_can_be_compiled_and_some_test_is_asked(module):
    source = (mutants.ROOT / mutants.PACKAGE / module).read_bytes()
    drawn = mutants.sample(mutants.defects(module, source), 3, seed=1)

    for defect in drawn:
        ast.parse(defect.planted(source))
    assert mutants.files_of(module) or not drawn


def test_a_sample_is_the_same_for_the_same_seed_and_takes_modules_in_turn():
    source = SOURCE.encode()
    one, two = mutants.defects("one.py", source), mutants.defects("two.py", source)

    assert mutants.sample(one, 3, seed=1) == mutants.sample(one, 3, seed=1)
    assert mutants.sample(one, 3, seed=1) != mutants.sample(one, 3, seed=2)
    assert mutants.sample(one, 0, seed=1) == one
    turns = [item.module for item in mutants.in_turn([one[:2], two[:3]])]
    assert turns == ["one.py", "two.py", "one.py", "two.py", "two.py"]


def test_modules_are_named_by_the_end_of_their_path():
    assert mutants.modules(["heads"]) == ["ledger/heads.py"]
    assert mutants.modules(["sync/pull", "palace/pruning.py"]) == ["palace/pruning.py", "relay/sync/pull.py"]
    with pytest.raises(SystemExit, match="no module ends in eads"):
        mutants.modules(["eads"])


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A tree with one module, whose test holds one of its two limits; it is run here, without the start of a program."""
    module = tmp_path / "sense_memory" / "palace" / "pruning.py"
    module.parent.mkdir(parents=True)
    module.write_text("def held(a):\n    return a < 5\n\ndef loose(a):\n    return a > 7\n")
    asked = []

    def passes(copy, tests, seconds=None):
        asked.append(copy.folder)
        found = {}
        exec((copy.folder / module.relative_to(tmp_path)).read_text(), found)
        return (found["held"](4), found["held"](5), found["loose"](9)) == (True, False, True)

    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants.Copy, "passes", passes)
    yield module
    assert tmp_path not in asked
    assert not any(folder.exists() for folder in asked)


def test_what_no_test_notices_is_printed_and_the_tree_stays_as_it_was(small, capsys):
    name, source = "palace/pruning.py", small.read_bytes()
    found = [item for item in mutants.defects(name, source) if item.old in {b"<", b">"}]

    planted, killed = mutants.run(found, jobs=1, seconds=60)

    assert (planted[name], killed[name]) == (2, 1)
    assert capsys.readouterr().out == "SURVIVED  palace/pruning.py:5  >  →  >=\n"
    assert small.read_bytes() == source


def test_after_the_time_nothing_more_is_planted(small):
    found = mutants.defects("palace/pruning.py", small.read_bytes())

    assert mutants.run(found, jobs=2, seconds=0)[0].total() == 0


def test_tests_that_fail_anyway_are_no_judges(small):
    source = small.read_text()
    small.write_text(source.replace("5", "6"))

    with pytest.raises(SystemExit, match="fail without any defect"):
        mutants.run(mutants.defects("palace/pruning.py", source.encode())[:1], jobs=1, seconds=60)


def test_no_compiled_file_of_the_text_before_is_taken(tmp_path, monkeypatch):
    """Python compares whole seconds and sizes, and a defect is planted in less than a second."""
    module = tmp_path / "sense_memory" / "one.py"
    module.parent.mkdir()
    module.write_text("A = 1")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    copy = mutants.Copy(tmp_path / "copy")
    times = set()
    for number in range(3):
        copy.write("one.py", f"A = {number}".encode())
        times.add(int((copy.folder / "sense_memory" / "one.py").stat().st_mtime))

    assert len(times) == 3
