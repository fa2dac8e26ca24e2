"""`import` of other formats and `export --readable` on the command line."""

from __future__ import annotations

import json
import shutil

import pytest

from sense_memory.exchange import NAMES


@pytest.fixture
def workspace(tmp_path):
    """An OpenClaw workspace."""
    files = {
        "MEMORY.md": "## User\n- **Name:** Anna\n- likes tea\n",
        "memory/2026-11-20.md": "## Standup\nshipped\n",
        "SOUL.md": "Be kind.\n",
        "pic.png": "x",
        "bad.md": "\0\1",
    }
    for name, text in files.items():
        (tmp_path / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / name).write_text(text)
    return tmp_path / "ws"


PLAN = """\
Found: an OpenClaw workspace
becomes          new
palace memories    3
journal entries    1
places: memory/user 2, self/notes 1
left out: .png files (1)
1 cannot be imported:
  ws/bad.md: is not text
"""


def test_a_plan_is_shown_and_nothing_is_written(agent, workspace):
    assert agent("import", workspace, "--plan", code=1).stdout == PLAN
    assert agent.json("list", "--palace") == []


def test_without_a_terminal_a_program_has_to_say_yes(agent, workspace):
    assert "add --yes" in agent("import", workspace, code=2).stderr
    assert agent.json("list", "--palace") == []

    assert agent("import", workspace, "--yes", code=1).stdout.startswith(
        f"{PLAN}4 entries written\nSearch finds them; they enter no prompt by themselves. Let them in with: sense-memory "
        "trust --session import-"
    )
    assert [memory["path"] for memory in agent.json("list", "--palace")] == [
        "self/notes/be-kind",
        "memory/user/likes-tea",
        "memory/user/name",
    ]
    assert agent.json("recent")[0]["created_at"] == "2026-11-20T12:00:00.000Z"
    assert "known" in agent("import", workspace, "--yes", code=1).stdout


def test_a_plan_as_json_names_every_step(agent, workspace):
    (workspace / "bad.md").unlink()
    found = agent.json("import", workspace, "--plan")

    assert (found["format"], found["counts"], found["written"]) == ("an OpenClaw workspace", {"new": 4}, None)
    assert found["steps"][0] == {
        "kind": "palace",
        "path": "memory/user/name",
        "fate": "new",
        "reason": None,
        "file": "ws/MEMORY.md",
        "number": 2,
    }
    assert agent.json("import", workspace, "--yes")["written"] == {"palace": 3, "journal": 1}


def test_a_readable_export_moves_to_another_agent(agent, tmp_path):
    agent("remember", "city", "Lisbon ")
    agent("remember", "people/facts/lisa", "likes tea", "--theme", "tea")
    agent("journal", "a day")
    shown = agent("export", "--readable", "out")

    assert shown.stdout.startswith("1 in the palace, 1 flat, 1 in the journal in out, ")
    assert "plain text: whoever can read these files can read the memories" in shown.stdout
    assert (
        (tmp_path / "out" / "palace" / "people" / "facts" / "lisa.md")
        .read_text()
        .endswith("---\nlikes tea\n")
    )
    assert "not touched" in agent("export", "--readable", "out", code=2).stderr
    agent("export", "--readable", "out.jsonl")
    assert "not touched" in agent("export", "--readable", "out.jsonl", code=2).stderr
    for source in ("out", "out.jsonl"):
        shown = agent("--ledger", f"{source}.db", "import", source, "--yes").stdout
        assert shown.endswith("3 entries written\n")
        assert agent("--ledger", f"{source}.db", "recall", "city").stdout == "Lisbon \n"
    assert agent.json("export", "--readable", "again")["memories"] == {"palace": 1, "flat": 1, "journal": 1}
    agent("export", "--readable", "-", code=2)


def test_conversations_are_counted_and_named(agent, tmp_path):
    lines = [
        {"role": "user", "content": "hi", "id": "1"},
        {"role": "assistant", "content": "hello", "id": "2"},
    ]
    (tmp_path / "chat.json").write_text(json.dumps([{"id": "7", "title": "Trip", "messages": lines}]))
    assert agent("import", "chat.json", "--yes", "--trusted").stdout == (
        "Found: conversations\nbecomes             new\nentries of the log    3\n"
        "conversations: chat-7\n3 entries written\n"
    )
    agent("mind", "conversations", "add", "own", "hi")
    assert agent.json("mind", "conversations", "list") == [
        {"id": "own", "messages": 1, "title": None},
        {"id": "chat-7", "messages": 2, "title": "Trip"},
    ]
    assert agent("mind", "conversations", "list").stdout == "own\t1\nchat-7\t2\tTrip\n"


def test_an_export_in_an_archive_is_read_too(agent, tmp_path):
    agent("remember", "city", "Lisbon")
    agent("export", "--readable", "out")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "out")

    assert agent.json("--ledger", "new.db", "import", "packed.zip", "--yes")["counts"] == {"new": 1}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["wss://relay.example"], "relays add wss://relay.example"),
        (["x.json", "--as", "nonsense"], "choose readable, openclaw"),
        (["empty"], "contains no files"),
        (["broken.zip"], "damaged zip archive"),
        (["x.bin", "--yes"], "is not recognised, and nothing was written"),
        (["text.bin"], "an OpenClaw workspace (openclaw); "),
        (["x.json", "--into", "flat/x", "--yes"], "reserved"),
        (["x.json", "--into", "a/b/c", "--yes"], "must not contain"),
        (["x.json", "--halflife", "-1", "--yes"], "half-life must be between"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(agent, tmp_path, arguments, says):
    (tmp_path / "x.json").write_text(json.dumps([{"content": "x"}]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.bin").write_bytes(b"\x00\x01\xff\xfe" * 100)
    (tmp_path / "text.bin").write_text("neither events nor notes\n")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no archive")
    shown = agent("import", *arguments, code=2).stderr

    assert says in shown
    assert "Traceback" not in shown


def test_a_part_of_an_export_says_so_in_words_and_as_json(agent, tmp_path):
    agent("remember", "people/facts/lisa", "likes tea", "--theme", "tea")
    agent("remember", "city", "Lisbon")
    words = agent("export", "--readable", "part", "--theme", "tea")
    told = json.loads(agent("export", "events.jsonl", "--prefix", "people/", "--json").stdout)

    assert "1 in the palace in part" in words.stdout
    assert "partial: this is only a part (theme tea), and no backup: 1 memory left out" in " ".join(
        words.stderr.split()
    )
    assert (told["events"], told["filter"], told["left_out"]) == (1, {"prefix": "people/"}, 1)
    everything = json.loads(agent("export", "all.jsonl", "--json").stdout)
    assert (everything["events"], everything["filter"], everything["left_out"]) == (2, None, None)


@pytest.mark.parametrize(
    "option", [("--theme", ""), ("--prefix", " "), ("--since", "soon"), ("--theme", "x")]
)
def test_an_empty_filter_does_not_export_everything(agent, tmp_path, option):
    agent("remember", "city", "Lisbon")

    assert agent("export", "--readable", "part", *option, code=2).stdout == ""
    assert not (tmp_path / "part").exists()


def test_the_help_of_import_names_every_format(agent):
    told = agent("import", "--help").stdout.split("--as FORMAT")[1].split("--into")[0]

    assert set(NAMES) == {word.strip(".,") for word in told.split("recognising it:")[1].split()} - {"or"}
