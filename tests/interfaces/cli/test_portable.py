"""`export` and `import` on the command line; what a file may hold is tested in tests/test_portable.py."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from sense_memory import LocalSigner, MemoryStore
from tests.time_unit import SECOND


NO_PLAN = {"format": "events"} | dict.fromkeys(("left_out", "notes", "steps", "gone", "written"))


@pytest.fixture
def written(agent):
    """An agent with three memories and a journal entry."""
    for key in ("a", "b", "c"):
        agent("remember", key, f"value of {key}")
    agent("journal", "hello")
    return agent


def test_an_export_brings_everything_to_an_empty_ledger(written, tmp_path):
    shown = written("export", "all.jsonl").stdout

    assert shown.startswith("4 events in all.jsonl, ")
    assert shown.endswith(" kB, useless without the key\n")
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o777 == 0o600
    assert "value of" not in (tmp_path / "all.jsonl").read_text()
    assert written("--ledger", "new.db", "import", "all.jsonl").stdout == "new  known\n  4      0\n"
    for command in ("list", "recent"):
        assert written.json("--ledger", "new.db", command) == written.json(command)
    assert written("import", "all.jsonl").stdout == "new  known\n  0      4\n"


def test_an_export_as_json(written, tmp_path):
    found = written.json("export", "all.jsonl")

    size = (tmp_path / "all.jsonl").stat().st_size
    assert found == {
        "file": "all.jsonl",
        "events": 4,
        "bytes": size,
        "memories": None,
        "filter": None,
        "left_out": None,
    }


def test_a_file_that_exists_is_replaced_only_by_force(written, tmp_path):
    (tmp_path / "all.jsonl").write_text("precious")

    assert "exists, and was not touched" in written("export", "all.jsonl", code=2).stderr
    assert (tmp_path / "all.jsonl").read_text() == "precious"
    written("export", "all.jsonl", "--force")
    assert (tmp_path / "all.jsonl").read_text().count("\n") == 4


def test_a_folder_that_is_not_there_is_one_sentence(written):
    assert "cannot be written" in written("export", "none/all.jsonl", code=2).stderr


def test_a_dash_is_stdout_and_stdin(written):
    events = written("export", "-")

    assert events.stderr == ""
    assert [json.loads(line)["kind"] for line in events.stdout.splitlines()] == [30078, 30078, 30078, 4]
    result = written("--ledger", "new.db", "import", "-", stdin=events.stdout_bytes)
    assert result.stdout == "new  known\n  4      0\n"


def test_events_never_go_to_a_terminal_or_between_json(written, forks):
    written("export", "-", "--json", code=2)
    script = f"import pty, sys; sys.exit(pty.spawn(['{forks.program}', 'export', '-']) >> 8)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=20 * SECOND, check=False
    )
    assert done.returncode == 2
    assert b'"sig"' not in done.stdout


def test_bad_lines_are_listed_by_number_and_the_others_are_taken(written, tmp_path):
    first, second, *rest = written("export", "-").stdout.splitlines()
    lines = [first, "{}", second.replace('"kind":30078', '"kind":30079'), "", *rest, "\x1b[31mnot json"]
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines))

    result = written("--ledger", "new.db", "import", "mixed.jsonl", code=1)

    assert result.stdout.splitlines() == [
        "new  known",
        "  3      0",
        "",
        "3 lines not imported:",
        "  line 2: id, pubkey and sig must be 64, 64 and 128 lower-case hex digits",
        "  line 3: the id does not match the event",
        "  line 7: not JSON",
    ]
    found = written.json("--ledger", "new.db", "import", "mixed.jsonl", code=1)
    assert found["counts"] == {"known": 3}
    assert [line["number"] for line in found["bad"]] == [2, 3, 7]


def test_of_many_bad_lines_the_first_are_shown(written, tmp_path):
    (tmp_path / "bad.jsonl").write_text("x\n" * 50)

    shown = written("import", "bad.jsonl", "--as", "events", code=1).stdout.splitlines()

    assert shown[3] == "50 lines not imported:"
    assert shown[-2] == "  and 30 more; --json lists them all"
    assert shown[-1].startswith("To import keys and values, run `sense-memory remember --many")
    assert len(shown) == 4 + 20 + 2
    assert len(written.json("import", "bad.jsonl", "--as", "events", code=1)["bad"]) == 50


def test_an_export_of_another_agent_is_refused_with_the_key_that_signed_it(written, tmp_path):
    other = LocalSigner.from_hex("02" * 32)

    async def export():
        async with MemoryStore(other, ledger=":memory:", background=False) as store:
            await store.remember_many([("a", "1"), ("b", "2")])
            store.export(tmp_path / "other.jsonl")

    asyncio.run(export())

    shown = written("import", "other.jsonl", code=1).stdout.splitlines()

    own = LocalSigner.from_hex("01" * 32).npub
    assert shown[-5:] == [
        "2 lines not imported:",
        "  line 1: signed by another key",
        "  line 2: signed by another key",
        f"2 events are signed by {other.npub}; this key is {own}.",
        "To import them, use the agent with that key: sense-memory --agent NAME import FILE",
    ]
    bad = written.json("import", "other.jsonl", code=1)["bad"]
    assert [line["author"] for line in bad] == [other.npub] * 2


def test_several_files_are_one_import_and_a_bad_one_does_not_spoil_the_others(written, tmp_path):
    lines = written("export", "-").stdout.splitlines()
    (tmp_path / "a.jsonl").write_text("\n".join(lines[:2]))
    (tmp_path / "b.jsonl").write_text(f"{lines[1]}\nnot json\n{lines[2]}\n")
    (tmp_path / "c.jsonl").mkdir()
    (tmp_path / "d.jsonl").write_text(lines[3])
    files = ("a.jsonl", "b.jsonl", "c.jsonl", "none.jsonl", "d.jsonl")

    result = written("--ledger", "new.db", "import", *files, code=1)

    assert result.stdout.splitlines() == [
        "new  known",
        "  4      1",
        "",
        "1 line not imported:",
        "  b.jsonl, line 2: not JSON",
    ]
    assert result.stderr.splitlines()[1:] == [
        "error: c.jsonl: Is a directory",
        "error: none.jsonl: No such file or directory",
    ]
    assert written.json("--ledger", "new.db", "list") == written.json("list")
    assert written.json("--ledger", "new.db", "import", *files, code=1) == NO_PLAN | {
        "counts": {"known": 5},
        "bad": [{"file": "b.jsonl", "number": 2, "problem": "not JSON", "author": None}],
        "unread": [
            {"file": "c.jsonl", "problem": "Is a directory"},
            {"file": "none.jsonl", "problem": "No such file or directory"},
        ],
    }
    assert written("import", "a.jsonl", "d.jsonl").stdout == "new  known\n  0      3\n"


def test_where_no_file_can_be_read_no_ledger_is_made(written, tmp_path):
    result = written("--ledger", "new.db", "import", "none.jsonl", "nor.jsonl", code=1)

    assert (result.stdout, result.stderr.count("error: ")) == ("", 2)
    assert not (tmp_path / "new.db").exists()


def test_a_pipe_that_a_shell_makes_is_read_once(written):
    written("export", "all.jsonl")
    command = f"{sys.executable} -m sense_memory --ledger new.db import <(cat all.jsonl)"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=20 * SECOND, check=True
    )

    assert done.stdout == "new  known\n  4      0\n"


def test_older_and_forgotten_events_are_counted_in_plain_words(written, tmp_path):
    before = written("export", "-").stdout
    written("remember", "a", "newer")
    written("forget", "b")
    written("--ledger", "new.db", "import", "-", stdin=written("export", "-").stdout.splitlines()[-4] + "\n")

    after = written("--ledger", "other.db", "import", "-", stdin=written("export", "-").stdout)
    assert after.stdout.split()[:2] == ["new", "known"]
    result = written("--ledger", "other.db", "import", "-", stdin=before)

    header, counts = (line.split() for line in result.stdout.splitlines())
    assert dict(zip(header, counts, strict=True)) == {"new": "0", "known": "3", "forgotten": "1"}


def test_what_was_imported_is_sent_by_the_next_sync_and_that_is_said(written, relay):
    written("export", "all.jsonl")
    settings = ("--relay", relay, "--ledger", "new.db")

    result = written(*settings, "import", "all.jsonl")

    assert result.stdout.endswith(
        "\nRelays get the new memories with the next sync: sense-memory --ledger new.db sync\n"
    )
    assert written.json(*settings, "sync")["relays"][0]["sync"]["sent"] == {"accepted": 4}
    assert written(*settings, "import", "all.jsonl").stdout == "new  known\n  0      4\n"


def test_a_file_that_is_not_there_or_empty(written, tmp_path):
    missing = "none.jsonl cannot be read (No such file or directory); check the path"
    assert written("import", "none.jsonl", code=2).stderr == f"error: {missing}\n"
    (tmp_path / "empty.jsonl").touch()
    assert written.json("import", "empty.jsonl") == NO_PLAN | {"counts": {}, "bad": [], "unread": []}
    assert written("import", "empty.jsonl").stdout == "new  known\n  0      0\n"


def test_progress_is_shown_on_stderr_of_a_terminal_only(written, terminal, forks):
    written("export", "all.jsonl")
    script = f"import pty, sys; sys.exit(pty.spawn(['{forks.program}', 'import', 'all.jsonl']) >> 8)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=20 * SECOND, check=True
    )

    assert b"verifying" in done.stdout
    assert b"4/4" in done.stdout
    assert "exporting" not in terminal("export", "other.jsonl")
