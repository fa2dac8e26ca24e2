from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from sense_memory.config.key_file import read_key_text, write_ncryptsec
from sense_memory.interfaces.cli import backup
from sense_memory.nostr import nip49
from sense_memory.nostr.keys import Secret, parse_secret
from tests.conftest import read_until
from tests.time_unit import SECOND


PASSWORD = "correct horse battery staple"


@pytest.fixture
def written(agent, cheap):
    """An agent with a memory and a journal entry."""
    agent("remember", "k", "v")
    agent("journal", "hello")
    return agent


@pytest.fixture
def usb(tmp_path):
    return tmp_path / "usb"


def files(folder):
    return sorted(path.name.replace(path.stem[-15:], "TIME") for path in folder.glob("*.jsonl"))


def test_a_backup_restores_everything_on_an_empty_machine(written, usb, home, nsec):
    made = written.json("backup", usb, "--password-stdin", stdin=f"{PASSWORD}\n")
    memories = written.json("list")
    home.rename(home.with_name("lost"))

    written(
        "init",
        "--import",
        "--password-stdin",
        stdin=f"{read_key_text(usb / 'default.ncryptsec')}\n{PASSWORD}\n",
    )
    assert written("import", made["memories_file"]).stdout == "new  known\n  2      0\n"

    assert written.json("list") == memories
    assert written.json("recent")[0]["value"] == "hello"
    assert (home / "keys" / "default.key").read_text() == f"{nsec}\n"


def test_a_backup_says_what_to_keep_where(written, usb):
    shown = written("backup", usb, "--password-stdin", stdin=f"{PASSWORD}\n").stdout

    assert shown.startswith("Backup of agent 'default', npub1")
    assert f"  key       {usb}/default.ncryptsec  (encrypted with the password)\n" in shown
    (memories,) = usb.glob("*.jsonl")
    assert f"  memories  {memories}  (2 events, {memories.stat().st_size / 1_000:.1f} kB)\n" in shown
    assert "keep the password elsewhere" in shown
    assert "sense-memory init --import < KEY" in shown
    assert all(len(line) <= 120 for line in shown.splitlines()[4:])
    assert files(usb) == ["default-TIME.jsonl"]
    for path in usb.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert usb.stat().st_mode & 0o777 == 0o700


def test_a_backup_as_json_names_the_files_and_no_secret(written, usb, secrets):
    result = written("--json", "backup", usb, "--password-stdin", stdin=PASSWORD)

    made = written.json("--agent", "default", "backup", usb / "again", "--password-stdin", stdin=PASSWORD)
    assert set(made) == {"agent", "npub", "memories_file", "events", "key_file", "key_done"}
    assert (made["agent"], made["events"], made["key_done"]) == ("default", 2, "written")
    held = "".join(path.read_text() for path in usb.rglob("*") if path.is_file())
    for secret in (*secrets, PASSWORD):
        assert secret not in result.output
        assert secret not in held


def test_a_second_backup_keeps_the_first_and_checks_the_password(written, usb, monkeypatch):
    written("backup", usb, "--password-stdin", stdin=PASSWORD)
    before = (usb / "default.ncryptsec").read_text()
    monkeypatch.setattr(backup.time, "time", lambda: 1_800_000_000)

    assert "the password opens it" in written("backup", usb, "--password-stdin", stdin=PASSWORD).stdout
    assert (usb / "default.ncryptsec").read_text() == before
    assert files(usb) == ["default-TIME.jsonl"] * 2
    assert (usb / "default-20270115-080000.jsonl").exists()

    wrong = written("backup", usb, "--password-stdin", stdin="wrong", code=2)
    assert "exists, and was not touched" in wrong.stderr


def test_a_disk_that_knows_no_permissions_takes_a_backup_too(written, usb):
    """A memory stick shows every file as readable by all."""
    written("backup", usb, "--password-stdin", stdin=PASSWORD)
    (memories,) = usb.glob("*.jsonl")
    memories.unlink()
    (usb / "default.ncryptsec").chmod(0o755)

    assert written.json("backup", usb, "--password-stdin", stdin=PASSWORD)["key_done"] == "checked"


def test_a_password_that_does_not_open_the_key_that_is_there_writes_nothing(written, usb):
    written("backup", usb, "--password-stdin", stdin=PASSWORD)
    before = sorted(usb.iterdir())
    (memories,) = usb.glob("*.jsonl")
    memories.rename(usb / "kept.jsonl")

    result = written("backup", usb, "--password-stdin", stdin="wrong", code=1)

    assert "the password does not open" in result.stderr
    assert "was not changed" in result.stderr
    assert sorted(usb.iterdir()) == [usb / "default.ncryptsec", usb / "kept.jsonl"] != before


def test_a_folder_with_the_key_of_another_is_refused(written, usb):
    write_ncryptsec(usb / "default.ncryptsec", nip49.encrypt_secret(Secret.generate(), PASSWORD))

    result = written("backup", usb, "--password-stdin", stdin=PASSWORD, code=2)

    assert "contains another key, which was not touched" in result.stderr
    assert files(usb) == []


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_password(written, usb):
    usb.write_text("mine")

    told = written("backup", usb, code=2).stderr

    assert told == f"error: {usb} is a file, which was not touched; choose another folder\n"
    assert usb.read_text() == "mine"


@pytest.mark.parametrize("given", ["", "\n", "\r\n"])
def test_an_empty_password_is_refused(written, usb, given):
    result = written("backup", usb, "--password-stdin", stdin=given, code=2)

    assert "the password is empty, and nothing was written; give another one" in result.stderr
    assert not usb.exists()


@pytest.mark.parametrize(
    ("given", "problem"),
    [("12345678901", "is short (11 characters)"), ("123456789012", "has digits only")],
)
def test_a_weak_password_is_warned_about_and_taken(written, usb, given, problem):
    made = written("backup", usb, "--password-stdin", stdin=given)

    assert made.stderr.startswith(f"warning: this password {problem}")
    assert made.stderr.count("\n") == 1
    assert given not in made.stderr
    with nip49.decrypt_secret(read_key_text(usb / "default.ncryptsec"), given):
        pass
    for memories in usb.glob("*.jsonl"):
        memories.unlink()  # of the same second, perhaps
    again = written("backup", usb, "--password-stdin", stdin="staple?", code=1)
    assert "warning" not in again.stderr  # the key is there: its password is not chosen now


def test_a_weak_password_may_be_kept_or_replaced_as_often_as_one_likes(home, monkeypatch, capsys):
    monkeypatch.setattr(backup.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(backup.sys.stderr, "isatty", lambda: True, raising=False)
    asked = []

    def answers(*given):
        left = [*given]
        monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or left.pop(0))

    answers("short", "", "short")
    assert backup._asked(None, again=True) == "short"
    answers("short", "123456789012", PASSWORD, PASSWORD)
    assert backup._asked(None, again=True) == PASSWORD
    answers("short")
    assert backup._asked(None, again=False) == "short"

    assert capsys.readouterr().err.count("warning: this password") == 3
    assert asked.count("Another password, or Enter to keep this one: ") == 3


def test_without_a_terminal_nobody_is_asked(written, usb):
    assert "--password-stdin" in written("backup", usb, code=2).stderr
    assert not usb.exists()


def test_a_terminal_is_asked_twice_without_echo(agent, usb, nsec):
    """A real terminal, at the real cost: what is typed comes back neither on it nor in the output."""
    agent("remember", "k", "v")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    answers = {
        b"Password for the key: ": "1234567890123",
        b"Another password, or Enter to keep this one: ": PASSWORD,
        b"The same password once more: ": PASSWORD,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "sense_memory", "backup", str(usb)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    ) as running:
        os.close(theirs)
        shown = b""
        for prompt, answer in answers.items():
            shown += read_until(ours, prompt)
            os.write(ours, f"{answer}\n".encode())
        try:
            while part := os.read(ours, 65_536):
                shown += part
        except OSError:  # Linux says EIO where the other end has closed
            pass
        os.close(ours)
        assert running.wait(20 * SECOND) == 0
    assert b"Backup of agent 'default'" in shown
    assert b"warning: this password has digits only" in shown
    assert PASSWORD.encode() not in shown
    lines = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown.decode().rpartition("Backup of agent")[2]).splitlines()
    assert max(len(line) for line in lines[1:]) <= 80
    with nip49.decrypt_secret(read_key_text(usb / "default.ncryptsec"), PASSWORD) as secret:
        assert secret == parse_secret(nsec)


def test_passwords_that_differ_or_are_empty_write_nothing(home, usb, monkeypatch):
    class Context:
        def fail(self, message):
            raise AssertionError(message)

    class Terminal:
        @staticmethod
        def isatty():
            return True

    monkeypatch.setattr(backup.sys, "stdin", Terminal)
    monkeypatch.setattr(backup.sys, "stderr", Terminal)
    answers = [PASSWORD, PASSWORD.upper(), "", "once"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop(0))

    with pytest.raises(backup.InvalidInput, match="differ; nothing was written"):
        backup._asked(Context(), again=True)
    with pytest.raises(backup.InvalidInput, match="the password is empty"):
        backup._asked(Context(), again=True)
    assert backup._asked(Context(), again=False) == "once"
