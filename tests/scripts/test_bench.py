"""The benchmark measures what it says, and says so to people and to programs. No test here judges a time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import large
from scripts.bench.__main__ import main
from scripts.bench.contradictions import labelled
from scripts.bench.stage import Stage
from tests.time_unit import SECOND


ROOT = Path(__file__).parents[2]

FIGURES = {
    "writing": {
        "remember until durable, p50",
        "remember_many(50)",
        "50 rewrites of one key, each",
        "forget_many(50), each",
    },
    "relays": {
        "publish 50",
        "restore 50, verified and decrypted",
        "embedded relay, verified events in",
        "embedded relay, events out",
    },
    "reading": {
        "recall(key), 50 open and warm, p50",
        "cold open to first recall, 50",
        "cold open, 50 decoded, no snapshot",
        "cold open, 50 decoded, from the snapshot",
    },
    "starting": {
        "import sense_memory and its MemoryStore, best",
        "sense-memory recall, 50, one process, best",
    },
    "in-step": {
        "in step on 50, one sync: bytes",
        "in step on 50, one sync: time",
        "50 scattered differences in 50, first sync: bytes",
    },
    "memory": {"memory of an open store, 50 decoded"},
    "contradictions": {
        *(
            f"{name}, {half} half"
            for name in (
                "precision of acts",
                "found, acts and suspicions",
                "found in four other languages",
                "traps that do not act",
            )
            for half in {pair["half"] for pair in labelled("contradictions_by_class")}
        ),
        "found, other authors",
        "precision, other authors",
        "found, everyday changes",
        "unsuspected, of what may both hold",
        f"untouched of 1,000 of {len(labelled('quiet')[::2])} quiet notes",
        f"unsuspected of 1,000 of {len(labelled('quiet')[::2])} quiet notes",
        "put one memory, p50",
        "check against 50 of one facet, p50",
        "check against 50 of one facet, p99",
    },
    "introspection": {
        "states of 500 memories",
        "introspect 500 memories, without themes",
        "introspect 500 memories, all",
        "introspect 50 memories of 60 words",
    },
    "compression": {
        "a palace of 200, all of it",
        "key facts that survive, all",
        "key facts that survive, in 500 tokens",
        *(
            f"{what}, {encoding}"
            for what in (
                "memories in 500 tokens, bracketed",
                "facts in 500 tokens, bracketed",
                "facts in 500 tokens, plain",
                "all of it, bracketed",
            )
            for encoding in ("cl100k_base", "o200k_base")
        ),
        "compress 50 memories, relevances known",
    },
    "palace": {
        "persona_remember into 50, p50",
        "persona_search among 50, p50",
        "persona_stats of 50",
        "persona_compress of 50",
        "persona_introspect of 50, first of a process",
        "persona_introspect of 50, when all were compared",
        "open and search a palace of 50",
        "sense-memory search --in palace, 50, one process, best",
        "memory of a palace, 50 open and indexed",
    },
    "searching": {
        "SearchIndex.search among 50, p50",
        "SearchIndex.search among 50, p95",
        "SearchIndex.put among 50, mean",
        "SearchIndex.put among 50, the slowest",
        "search among 50, p50",
        "search among 50, p95",
        "sense-memory search, 50, one process, best",
    },
    "log": {
        "append to the log until durable, p50",
        "restore 500 messages",
        "messages for each event, 500",
        "conversation_search among 500, p50",
        "compile the blocks, p50",
        "a turn of a chat among 5 messages, CPU, p50",
        "a turn of a chat among 50 messages, CPU, p50",
        "a context from 50 entries, p50",
    },
    "thoughts": {
        "the first search of the mind among 500",
        "making the rest of its index, 500",
        "a recall after an insert among 50, p50",
        "a thought by rules after 15 others, p50",
    },
}


# `python -m scripts.bench` with fewer rounds of each measurement, and forks for the processes that it starts: it is
# what they say that is tested, not how well.
FEWER = """
import sys
sys.executable = sys.argv.pop()
from scripts.bench import __main__ as program, contradictions, in_step, log, palace, replicating, searching, starting, thoughts
for module, name, few in (
    (contradictions, "_CHECKS_COUNT", 50),
    (in_step, "_SYNC_COUNT", 1),
    (log, "_APPENDS_COUNT", 20),
    (log, "_ASKED_COUNT", 20),
    (log, "_COMPILED_COUNT", 20),
    (palace, "_ROUNDS_COUNT", 4),
    (palace, "_SINGLE_COUNT", 20),
    (palace, "_STARTS_COUNT", 1),
    (replicating, "_ASKED_COUNT", 1),
    (replicating, "_FILTER_COUNT", 500),
    (searching, "_ENTRIES_COUNT", 20),
    (searching, "_PUTS_COUNT", 60),
    (searching, "_SEARCHES_COUNT", 20),
    (searching, "_STARTS_COUNT", 1),
    (starting, "_START_COUNT", 1),
    (thoughts, "_ASKED_COUNT", 5),
    (thoughts, "_FEW_COUNT", 5),
):
    assert getattr(module, name) > few
    setattr(module, name, few)
labelled = contradictions.labelled
contradictions.labelled = lambda name="contradictions": labelled(name)[:: 2 if name == "quiet" else 12]
program.main(sys.argv[1:])
"""


def bench(*options, python=sys.executable, program=("-m", "scripts.bench"), cwd=ROOT, scratch=None):
    command = (python, *program, *map(str, options))
    env = {**os.environ, "PYTHONPATH": str(ROOT), **({"TMPDIR": str(scratch)} if scratch else {})}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120 * SECOND, check=False
    )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def run(tmp_path_factory, scratch, forks):
    path = tmp_path_factory.mktemp("bench") / "result.json"
    options = ("--count", 50, "--repeat", 1, "--seed", 7, "--json", path)
    done = bench(*options, forks.python, python=forks.python, program=("-c", FEWER), scratch=scratch)
    assert done.returncode == 0, done.stderr
    return done, json.loads(path.read_text())


def test_every_figure_stands_beside_its_floor_and_its_target(run):
    _, found = run

    names = {group: {item["name"] for item in items} for group, items in found["figures"].items()}
    assert names == FIGURES
    for item in (item for items in found["figures"].values() for item in items):
        assert item["value"] > 0, item
        assert item["floor"] > 0, item
        assert item["floor_name"], item
        assert item["target"], item
        assert item["met"] in {True, False}, item
        slower = item["floor"] / item["value"] if item["unit"] == "/s" else item["value"] / item["floor"]
        assert item["ratio"] == pytest.approx(slower), item


def test_the_json_names_the_machine_and_what_was_asked_for(run):
    _, found = run

    assert set(found["machine"]) == {"cpu", "cores", "system", "python", "sqlite"}
    assert all(found["machine"].values())
    assert found["options"] == {"count": 50, "repeat": 1, "seed": 7, "large": False}


def test_the_table_shows_every_figure_with_its_verdict_and_the_progress_stays_out_of_it(run):
    done, found = run

    words = " ".join(done.stdout.split())
    for items in found["figures"].values():
        for item in items:
            first = item["name"].partition(",")[0]
            assert first in words, first
    verdicts = [line.split() for line in done.stdout.splitlines()]
    shown = sum("hit" in line or "miss" in line for line in verdicts)
    assert shown == sum(map(len, FIGURES.values()))
    assert "measuring" not in done.stdout
    assert "measuring: remember, one by one" in done.stderr


def test_nothing_is_left_behind_and_no_key_is_shown(run, scratch):
    done, _ = run

    assert list(scratch.iterdir()) == []
    assert "nsec" not in done.stdout + done.stderr


def test_one_group_can_be_asked_for_and_json_goes_to_the_current_folder_where_no_path_is_given(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    main(["--only", "writing", "--count", "5", "--repeat", "1", "--json"])

    assert list(json.loads((tmp_path / "bench.json").read_text())["figures"]) == ["writing"]
    assert "bench.json" in capsys.readouterr().out


@pytest.mark.parametrize("option", [("--count", 0), ("--repeat", "-1"), ("--only", "nothing")])
def test_a_run_that_makes_no_sense_is_refused(option, capsys):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, option)))

    assert end.value.code == 2
    assert option[0] in capsys.readouterr().err


def test_the_first_search_in_a_large_ledger_is_measured_with_what_others_wait(tmp_path):
    stage = Stage(tmp_path, 60, 1, 7, lambda _: None)
    figures = large.first_search(stage, stage.mixed())

    assert [figure.unit for figure in figures] == ["s", "ms"]
    assert all(figure.value > 0 and figure.floor > 0 for figure in figures)
