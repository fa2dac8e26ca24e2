"""A mirrored folder: what a person sees on one machine and on the other."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import unicodedata

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput, LedgerError, StoreClosed
from sense_memory.interfaces.cli.invocation import CommandFailed
from sense_memory.interfaces.cli.names import file_named
from sense_memory.mind.records import RecordView
from sense_memory.mirror import mirrors
from sense_memory.mirror.folder import FoundFile, MirroredFolder
from sense_memory.mirror.name_patterns import Patterns
from sense_memory.mirror.state import FolderLock, MirrorState, MirrorStates
from sense_memory.mirror.text_merge import NOTE
from tests.mirror.deaths import Killed, dying
from tests.time_unit import SECOND


COUNT = 300  # of many files; a thousand take 2 s on an idle machine
BASE = "---\nname: app\n---\n# Memory\n\n- one\n- two\n\n## Deploy\n\nOn Friday.\n"


async def both(machines, **files):
    """Two machines that have the same files."""
    one, two = await machines("one"), await machines("two")
    for name, text in files.items():
        one.write(name.replace("_", "."), text)
    await one.sync()
    await two.sync()
    return one, two


# ── Word for word ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "no final newline",
        "windows\r\nlines\r\n",
        "\ufeffwith a mark\n",
        "mixed\r\nends\n\n\n",
        "\tcontrol \x0b \x1c \u2028 and emoji 🦆\n",
        BASE,
    ],
)
async def test_a_file_has_the_same_bytes_on_the_other_machine(machines, text):
    one, two = await both(machines, MEMORY_md=text)

    assert two.read("MEMORY.md") == text
    assert await one.steps() == await two.steps() == []


async def test_a_dry_run_says_what_would_be_done_and_writes_nothing(machines, tmp_path):
    one = await machines("one")
    one.write("MEMORY.md", BASE)
    other = tmp_path / "other"
    other.mkdir()

    plan = await one.store.mirror.plan(one.folder)
    there = await one.store.mirror.plan(other, project="app")

    assert [(step.what, step.name) for step in plan.steps] == [("keep", "MEMORY.md")]
    assert (plan.is_plan, there.steps) == (True, ())
    assert await one.files.all() == []
    assert [mirror.folder for mirror in one.store.mirror.all()] == [str(one.folder)]


async def test_a_file_keeps_its_mode_and_a_script_does_not_become_one(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    (two.folder / "MEMORY.md").chmod(0o600)
    one.write("MEMORY.md", BASE + "more\n")
    (one.folder / "MEMORY.md").chmod(0o755)

    await one.sync()
    await two.sync()

    assert (two.folder / "MEMORY.md").stat().st_mode & 0o777 == 0o600


# ── Edits here and there ────────────────────────────────────────────────────────────────


async def test_edits_of_different_sections_merge_without_a_word(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    one.write("MEMORY.md", BASE.replace("- two\n", "- two\n- three\n"))
    two.write("MEMORY.md", BASE.replace("Friday", "Monday").replace("name: app", "name: the app"))

    for machine in (one, two, one):
        report = await machine.sync()

    expected = BASE.replace("- two\n", "- two\n- three\n").replace("Friday", "Monday")
    assert one.read("MEMORY.md") == two.read("MEMORY.md") == expected.replace("name: app", "name: the app")
    assert [step.note for step in report.steps] == [""]


async def test_a_section_that_both_changed_has_both_texts_and_says_so(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    one.write("MEMORY.md", BASE.replace("Friday", "Monday"))
    two.write("MEMORY.md", BASE.replace("Friday", "Sunday"))

    await one.sync()
    report = await two.sync()
    await one.sync()

    text = one.read("MEMORY.md")
    assert text == two.read("MEMORY.md")
    assert text.endswith(f"## Deploy\n\nOn Monday.\n\n*{NOTE}*\n\nOn Sunday.\n")
    assert "<<<<" not in text
    assert "one section was changed on two machines at once" in report.steps[0].note


async def test_a_field_that_both_changed_stands_once_and_the_other_value_as_a_comment(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    one.write("MEMORY.md", BASE.replace("name: app", "name: first"))
    two.write("MEMORY.md", BASE.replace("name: app", "name: second"))

    for machine in (one, two, one):
        await machine.sync()

    front = one.read("MEMORY.md").split("---\n")[1].split("\n")
    assert front[0] == "name: first"
    assert front[2] == "# name: second"


async def test_the_other_text_of_a_file_that_cannot_hold_both_becomes_a_file(machines):
    one, two = await both(machines, data_json='{"a": 1}')
    one.write("data.json", '{"a": 2}')
    two.write("data.json", '{"a": 3}')

    for machine in (one, two, one, two):
        await machine.sync()

    assert one.names() == two.names()
    assert len(one.names()) == 2
    assert {one.read(name) for name in one.names()} == {'{"a": 2}', '{"a": 3}'}


async def test_folders_that_meet_for_the_first_time_keep_what_each_has(machines):
    one, two = await machines("one"), await machines("two")
    one.write("MEMORY.md", "# Memory\n\n- from one\n")
    two.write("MEMORY.md", "# Memory\n\n- from two\n")

    for machine in (one, two, one):
        await machine.sync()

    assert one.read("MEMORY.md") == two.read("MEMORY.md") == "# Memory\n\n- from one\n- from two\n"


async def test_an_old_copy_that_meets_memory_becomes_new_and_brings_nothing_back(machines):
    one, two = await both(machines, MEMORY_md="- one\n- two\n")
    one.write("MEMORY.md", "- one\n")
    await one.sync()
    three = await machines("three")
    await two.sync()
    two.store.mirror.remove(two.folder)
    two.write("MEMORY.md", "- one\n- two\n")
    await two.store.mirror.add(two.folder, project="app")

    await two.sync()
    await three.sync()

    assert two.read("MEMORY.md") == three.read("MEMORY.md") == "- one\n"


# ── Deletions ───────────────────────────────────────────────────────────────────────────


async def test_a_deleted_file_is_in_the_history_and_undo_brings_it_back(machines):
    one, two = await both(machines, MEMORY_md=BASE, notes_md="hello\n")
    (one.folder / "notes.md").unlink()
    await one.sync()
    assert await two.steps() == [("remove", "notes.md")]
    assert [version.value for version in await two.files.history("app:notes.md")] == [None, "hello\n"]

    await two.files.undo("app:notes.md")
    await two.sync()
    await one.sync()

    assert one.read("notes.md") == two.read("notes.md") == "hello\n"


async def test_a_deleted_file_is_erased_after_thirty_days_but_not_by_a_clock_that_jumps(machines):
    now = [1_800_000_000.0]
    one = await machines("one", clock=lambda: now[0])
    one.write("MEMORY.md", BASE)
    one.write("notes.md", "hello\n")
    await one.sync()
    (one.folder / "notes.md").unlink()
    await one.sync()

    now[0] += 40 * 86_400
    await one.sync()
    now[0] -= 39 * 86_400
    await one.sync()
    now[0] += 20 * 86_400
    await one.sync()
    assert [version.value for version in await one.files.history("app:notes.md")] == [None, "hello\n"]

    for days in (10, 2):
        now[0] += days * 86_400
        await one.sync()
    assert await one.files.history("app:notes.md") == []
    assert one.names() == ["MEMORY.md"]


async def test_an_edit_wins_over_a_deletion_that_did_not_know_it(machines):
    one, two = await both(machines, notes_md="hello\n", MEMORY_md=BASE)
    (one.folder / "notes.md").unlink()
    two.write("notes.md", "hello\nworld\n")

    for machine in (one, two, one):
        await machine.sync()

    assert one.read("notes.md") == two.read("notes.md") == "hello\nworld\n"


async def test_a_folder_that_is_gone_or_empty_deletes_nothing(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    aside = one.folder.with_name("aside")
    one.folder.rename(aside)

    gone = await one.sync()
    one.folder.mkdir()
    empty = await one.sync()
    await two.sync()

    assert "nothing counts as deleted" in gone.problem
    assert "may not be mounted" in empty.problem
    assert two.read("MEMORY.md") == BASE
    assert one.names() == []


@pytest.mark.parametrize("empty", ["ask", "restore"])
async def test_a_folder_that_is_unmounted_during_a_run_deletes_nothing(machines, monkeypatch, empty):
    one, two = await both(machines, MEMORY_md=BASE, notes_md="hello\n")
    two.write("notes.md", "hello\nworld\n")
    await two.sync()
    real, left = os.fsync, [1]

    def meanwhile(descriptor):
        if left:
            left.pop()
            one.folder.rename(one.folder.with_name("aside"))
            one.folder.mkdir()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    report = await one.sync(empty=empty)
    await two.sync()

    assert left == []
    assert "may not be mounted" in report.problem
    assert two.names() == ["MEMORY.md", "notes.md"]


@pytest.mark.parametrize(("empty", "left"), [("restore", ["MEMORY.md"]), ("delete", [])])
async def test_a_person_says_what_an_empty_folder_means(machines, empty, left):
    one, two = await both(machines, MEMORY_md=BASE)
    (one.folder / "MEMORY.md").unlink()

    assert (await one.sync()).problem
    assert not (await one.sync(empty=empty)).problem
    await two.sync()

    assert one.names() == two.names() == left


async def test_another_folder_at_the_same_place_deletes_nothing(machines):
    """As if something else were mounted there."""
    one, two = await both(machines, MEMORY_md=BASE, notes_md="hello\n")
    one.folder.rename(one.folder.with_name("aside"))
    one.folder.mkdir()
    one.write("other.md", "from the other disk\n")

    await one.sync()
    await two.sync()

    assert one.names() == two.names() == ["MEMORY.md", "notes.md", "other.md"]


async def test_the_plan_of_another_folder_at_the_same_place_is_what_a_run_then_does(machine):
    machine.write("MEMORY.md", BASE)
    machine.write("notes.md", "one\n")
    await machine.sync()
    machine.folder.rename(machine.folder.with_name("aside"))
    machine.folder.mkdir()
    machine.write("notes.md", "one\n")

    plan = await machine.store.mirror.plan(machine.folder)

    assert [(str(step.what), step.name) for step in plan.steps] == [("write", "MEMORY.md")]
    assert await machine.steps() == [("write", "MEMORY.md")]


async def test_a_file_of_another_folder_at_the_same_place_replaces_nothing_that_it_never_had(machine):
    machine.write("MEMORY.md", "- of this disk\n")
    await machine.sync()
    machine.folder.rename(machine.folder.with_name("aside"))
    machine.folder.mkdir()
    machine.write("MEMORY.md", "- of the other disk\n")

    await machine.sync()

    assert sorted(machine.read("MEMORY.md").splitlines()) == ["- of the other disk", "- of this disk"]


@pytest.mark.parametrize("is_restored", [True, False])
async def test_a_text_that_the_ledger_does_not_have_any_more_is_kept_again(machines, tmp_path, is_restored):
    one, ledger = await machines("one"), tmp_path / "one.db"
    one.write("MEMORY.md", "- of the backup\n")
    await one.sync()
    await one.store.close()
    backup = ledger.read_bytes()
    async with MemoryStore(machines.signer, ledger=ledger, background=False) as store:
        one.write("MEMORY.md", "- written since\n")
        one.write("notes.md", "new\n")
        await store.mirror.sync(one.folder)
    ledger.unlink()
    if is_restored:
        ledger.write_bytes(backup)

    async with MemoryStore(machines.signer, ledger=ledger, background=False) as store:
        await store.mirror.sync(one.folder)
        kept = {file.name: file.text for file in await store.mind.files.all()}

    lines = ["- of the backup"] * is_restored + ["- written since"]
    assert sorted(one.read("MEMORY.md").splitlines()) == lines
    assert kept == {"MEMORY.md": one.read("MEMORY.md"), "notes.md": "new\n"}


async def test_a_forgotten_file_stays_where_it_is_until_somebody_changes_it(machines):
    one, two = await both(machines, notes_md="hello\n", MEMORY_md=BASE)
    await one.files.forget(["app:notes.md"])
    await one.store.sync()

    report = await two.sync()

    assert [step.name for step in report.steps] == ["notes.md"]
    assert "it was forgotten" in report.steps[0].note
    assert two.read("notes.md") == "hello\n"
    two.write("notes.md", "hello again\n")
    assert await two.steps() == [("keep", "notes.md")]


# ── What is left alone ──────────────────────────────────────────────────────────────────


async def test_what_is_no_text_or_leads_elsewhere_is_left_alone_and_named(machine, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("outside\n")
    machine.write("ok.md", "fine\n")
    machine.write("binary.md", b"a\0b")
    machine.write("latin.md", "café".encode("latin-1"))
    machine.write("half.md", b"half of a \xf0\x9f", is_young=True)
    machine.write("huge.md", "x" * 50_000)
    machine.write("large.md", '"\n' * 15_000)
    (machine.folder / "link.md").symlink_to(outside / "secret.md")
    (machine.folder / "inner.md").symlink_to(machine.folder / "ok.md")
    (machine.folder / "links").symlink_to(outside)
    os.mkfifo(machine.folder / "pipe.md")

    report = await machine.sync()
    notes = {step.name: step.note for step in report.steps if step.what == "left"}

    assert [one.name for one in await machine.files.all()] == ["ok.md"]
    assert notes.keys() == {
        *("binary.md", "latin.md", "half.md", "huge.md", "large.md"),
        *("link.md", "inner.md", "links/", "pipe.md"),
    }
    assert "still being written" in notes["half.md"]
    assert "out of the folder" in notes["link.md"]
    assert "out of the folder" in notes["links/"]


async def test_a_file_from_elsewhere_is_never_written_through_a_link(machines, tmp_path):
    one, two = await both(machines, MEMORY_md=BASE)
    outside = tmp_path / "outside"
    outside.mkdir()
    (two.folder / "sub").symlink_to(outside)
    one.write("sub/x.md", "hello\n")

    await one.sync()
    report = await two.sync()

    assert list(outside.iterdir()) == []
    assert [step.name for step in report.steps] == ["sub/"]


@pytest.mark.parametrize("name", ["../x.md", "/tmp/x.md", ".git/hooks/post-commit", "a\\b.md", ".bashrc"])
async def test_a_name_that_leads_elsewhere_is_never_written(machine, name):
    from sense_memory.mind.files import FileEdit

    await machine.files.write([FileEdit("app", name, "hello\n")], "")

    await machine.sync()

    assert machine.names() == []
    assert sorted(machine.folder.parent.rglob("x.md")) == []


async def test_a_file_that_was_emptied_just_now_is_looked_at_again_later(machine):
    machine.write("MEMORY.md", BASE)
    await machine.sync()
    machine.write("MEMORY.md", "", is_young=True)

    assert await machine.steps() == [("left", "MEMORY.md")]
    machine.write("MEMORY.md", "")
    assert await machine.steps() == [("keep", "MEMORY.md")]


async def test_a_file_that_is_a_folder_elsewhere_stays_and_both_machines_say_so(machines):
    one, two = await both(machines, notes_md="one\n")
    (one.folder / "notes.md").unlink()
    one.write("notes.md/today.md", "new\n")
    two.write("notes.md", "one\ntwo\n")
    await one.sync()

    inner = (await two.sync()).steps[-1]
    outer = (await one.sync()).steps[0]

    assert (inner.name, outer.name) == ("notes.md/today.md", "notes.md")
    assert "is a link or a file" in inner.note
    assert "a folder has this name" in outer.note
    assert (one.read("notes.md/today.md"), two.read("notes.md")) == ("new\n", "one\ntwo\n")


async def test_names_in_another_normalisation_are_one_file(machines):
    one, two = await machines("one"), await machines("two")
    one.write(unicodedata.normalize("NFC", "für.md"), "hello\n")
    two.write(unicodedata.normalize("NFD", "für.md"), "hello\n")

    for machine in (one, two, one):
        await machine.sync()

    assert [len(machine.names()) for machine in (one, two)] == [1, 1]
    assert len(await one.files.all()) == 1


async def test_two_files_that_differ_only_in_normalisation_are_left_alone(machine):
    machine.write(unicodedata.normalize("NFC", "für.md"), "one\n")
    machine.write(unicodedata.normalize("NFD", "für.md"), "two\n")

    report = await machine.sync()

    assert ["normalisations" in step.note for step in report.steps] == [True]
    assert await machine.files.all() == []


async def test_names_that_differ_in_case_are_two_files_where_the_file_system_has_both(machines):
    one, two = await machines("one"), await machines("two")
    one.write("Notes.md", "upper\n")
    one.write("notes.md", "lower\n")

    await one.sync()
    await two.sync()

    assert two.names() == ["Notes.md", "notes.md"]


async def test_a_file_system_that_takes_two_names_for_one_keeps_its_file(machines, monkeypatch):
    one, two = await both(machines, Notes_md="upper\n", MEMORY_md=BASE)
    one.write("notes.md", "lower\n")
    await one.sync()
    monkeypatch.setattr(MirroredFolder, "is_free", lambda self, name: name != "notes.md")

    report = await two.sync()

    assert "in other letters" in report.steps[0].note
    assert two.names() == ["MEMORY.md", "Notes.md"]


async def test_a_file_is_known_by_its_names_without_any_file_being_read(machine, monkeypatch):
    for name in ("MEMORY.md", "sub/notes.md"):
        machine.write(name, f"of {name}\n")
    await machine.sync()
    (machine.folder / "MEMORY.md").unlink()
    await machine.sync()

    with monkeypatch.context() as patch:
        patch.delattr(RecordView, "refresh")
        for name in ("MEMORY.md", "sub/notes.md"):
            assert await file_named(machine.store, f"app:{name}") == f"app:{name}"
            assert await file_named(machine.store, str(machine.folder / name)) == f"app:{name}"
        for name in ("timezone", "people/facts/lisa", "\udcff", "app:\udcff", str(machine.folder)):
            assert await file_named(machine.store, name) is None
    assert await file_named(machine.store, "user:timezone") is None
    with pytest.raises(CommandFailed, match="no mirrored file 'app:none"):
        await file_named(machine.store, "app:none.md")


# ── Undo ────────────────────────────────────────────────────────────────────────────────


async def test_undos_at_once_each_go_one_text_further_back(machine):
    for number in range(5):
        machine.write("MEMORY.md", f"text {number}\n")
        await machine.sync()

    found = await asyncio.gather(*(machine.files.undo("app:MEMORY.md") for _ in range(3)))

    assert sorted(file.text for file in found) == ["text 1\n", "text 2\n", "text 3\n"]
    assert (await machine.files.get("app:MEMORY.md")).text == "text 1\n"


# ── Credentials ─────────────────────────────────────────────────────────────────────────


async def test_a_file_with_a_credential_is_refused_by_line_and_allowed_by_name(machines):
    secret = "ghp_" + "0123456789abcdefghij0123456789abcdef"
    one = await machines("one")
    one.write("setup.md", f"# Setup\n\nuse {secret}\n")

    report = await one.sync()

    assert "line 3 (github-pat)" in report.steps[0].note
    assert secret not in repr(report)
    assert await one.files.all() == []
    await one.store.mirror.add(one.folder, allow=["setup.md"])
    assert await one.steps() == [("keep", "setup.md")]


# ── Which folders, which names ──────────────────────────────────────────────────────────


async def test_only_the_names_that_were_asked_for_are_mirrored(machines):
    one = await machines("one", only=["CLAUDE.md", "docs/**/*.md", ".cursorrules"])
    for name in (
        "CLAUDE.md",
        "README.md",
        "docs/a/b.md",
        "docs/x.txt",
        ".cursorrules",
        ".env",
        "src/CLAUDE.md",
    ):
        one.write(name, f"of {name}\n")

    await one.sync()

    assert [file.name for file in await one.files.all()] == [".cursorrules", "CLAUDE.md", "docs/a/b.md"]


async def test_a_name_that_is_no_longer_mirrored_was_not_deleted(machines):
    one, two = await both(machines, MEMORY_md=BASE, notes_md="hello\n")
    await one.store.mirror.add(one.folder, only=["MEMORY.md"])
    await one.sync()
    (one.folder / "notes.md").unlink()
    await one.sync()
    await two.sync()

    assert two.names() == ["MEMORY.md", "notes.md"]


async def test_another_project_begins_anew_and_deletes_nothing(machines):
    one, two = await both(machines, MEMORY_md=BASE)
    await one.store.mirror.add(one.folder, project="other")
    await one.sync()
    await two.sync()

    assert [file.full_name for file in await one.files.all()] == ["app:MEMORY.md", "other:MEMORY.md"]
    assert one.names() == two.names() == ["MEMORY.md"]


async def test_two_folders_of_one_project_on_one_machine_are_in_step(machines, tmp_path):
    one = await machines("one")
    other = tmp_path / "clone"
    other.mkdir()
    await one.store.mirror.add(other, project="app")
    one.write("MEMORY.md", "- one\n- two\n- three\n")
    await one.store.mirror.sync()
    one.write("MEMORY.md", "- one\n- two\n- three\n- from the first\n")
    (other / "MEMORY.md").write_text("- zero\n- one\n- two\n- three\n")

    for _ in range(3):
        await one.store.mirror.sync()

    assert one.read("MEMORY.md") == "- zero\n- one\n- two\n- three\n- from the first\n"
    assert (other / "MEMORY.md").read_text() == one.read("MEMORY.md")


async def test_a_folder_that_is_not_mirrored_is_refused(machine, tmp_path):
    with pytest.raises(InvalidInput, match="is not mirrored"):
        await machine.store.mirror.sync(tmp_path)
    with pytest.raises(InvalidInput, match="is not a folder"):
        await machine.store.mirror.add(tmp_path / "nowhere")
    assert machine.store.mirror.remove(machine.folder)
    assert not machine.store.mirror.remove(machine.folder)


async def test_a_folder_at_which_another_process_is_is_left_alone(machine, monkeypatch):
    monkeypatch.setattr(mirrors, "_LOCK_SECONDS", 0)
    machine.write("MEMORY.md", BASE)

    with FolderLock(machine.folder) as is_free:
        assert is_free
        report = await machine.sync()

    assert report.problem == mirrors.AT_WORK
    assert await machine.files.all() == []
    assert await machine.steps() == [("keep", "MEMORY.md")]


async def test_a_run_does_nothing_where_another_process_ended_the_mirror_just_before(machine, monkeypatch):
    elsewhere = MirrorStates(machine.folder.parent / "one.db.mirrors")

    class Ended(FolderLock):
        def __enter__(self):
            assert elsewhere.remove(str(machine.folder))
            return super().__enter__()

    machine.write("MEMORY.md", BASE)
    monkeypatch.setattr(mirrors, "FolderLock", Ended)

    report = await machine.sync()

    assert (report.problem, report.steps) == (mirrors.ENDED, ())
    assert await machine.files.all() == []
    assert machine.store.mirror.all() == elsewhere.all() == []


# ── Never overwritten unseen ────────────────────────────────────────────────────────────


async def test_what_is_written_between_the_look_and_the_rename_is_not_overwritten(machines, monkeypatch):
    one, two = await both(machines, MEMORY_md="- one\n- two\n")
    one.write("MEMORY.md", "- one\n- two\n- three\n")
    await one.sync()
    real, left = os.fsync, [1]

    def meanwhile(descriptor):
        if left:
            left.pop()
            two.write("MEMORY.md", "- zero\n- one\n- two\n")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    await two.sync()

    assert two.read("MEMORY.md") == "- zero\n- one\n- two\n- three\n"


async def test_what_is_written_while_a_merge_is_written_is_merged_too(machines, monkeypatch):
    """Both versions are of this machine and of one second, and neither knows the other."""
    one, two = await both(machines, MEMORY_md="- one\n- two\n")
    one.write("MEMORY.md", "- one\n- two\n- three\n")
    await one.sync()
    two.write("MEMORY.md", "- zero\n- one\n- two\n")
    real, left = os.fsync, [1]

    def meanwhile(descriptor):
        if left:
            left.pop()
            two.write("MEMORY.md", "- zero\n- one\n- one and a half\n- two\n")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    await two.sync()

    assert two.read("MEMORY.md") == "- zero\n- one\n- one and a half\n- two\n- three\n"


async def test_a_program_that_writes_into_the_old_file_during_the_rename_gets_it_back(machines, monkeypatch):
    one, two = await both(machines, MEMORY_md="- one\n- two\n")
    one.write("MEMORY.md", "- one\n- two\n- three\n")
    await one.sync()
    real = os.replace
    late = (two.folder / "MEMORY.md").open("r+")

    def meanwhile(*paths):
        if not late.closed and str(paths[1]).endswith("MEMORY.md"):
            late.write("- zero\n- one\n- two\n")
            late.close()
        real(*paths)

    monkeypatch.setattr(os, "replace", meanwhile)
    await two.sync()

    assert two.read("MEMORY.md") == "- zero\n- one\n- two\n- three\n"


@pytest.mark.parametrize("step", [1, 2, 4, 6, 9, 12, 16, 20])
async def test_a_kill_at_any_step_loses_nothing_and_the_next_run_converges(machines, step):
    one, two = await both(machines, MEMORY_md=BASE, notes_md="hello\n", gone_md="bye\n")
    one.write("MEMORY.md", BASE.replace("Friday", "Monday"))
    one.write("new.md", "new\n")
    (one.folder / "gone.md").unlink()
    await one.sync()
    two.write("MEMORY.md", BASE.replace("- two", "- two, really"))
    two.write("notes.md", "hello there\n")
    await two.store.sync()

    try:
        with dying(step):
            await two.sync(seconds=0)
    except Killed:
        pass
    for machine in (two, one, two):
        await machine.sync()

    expected = BASE.replace("Friday", "Monday").replace("- two", "- two, really")
    for machine in (one, two):
        assert machine.names() == ["MEMORY.md", "new.md", "notes.md"]
        assert machine.read("MEMORY.md") == expected
        assert machine.read("notes.md") == "hello there\n"
        assert list(machine.folder.rglob(".*")) == []


# ── Size and time ───────────────────────────────────────────────────────────────────────


async def test_hundreds_of_files_take_a_second(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(COUNT):
        (folder / f"{number}.md").write_text(f"# {number}\n\n- a fact\n")
    async with MemoryStore(LocalSigner.generate(), ledger=tmp_path / "x.db") as store:
        await store.mirror.add(folder, project="app")
        begun = time.process_time()
        (report,) = await store.mirror.sync()
        (again,) = await store.mirror.sync()

    assert (len(report.steps), len(again.steps)) == (COUNT, 0)
    assert time.process_time() - begun < 4 * SECOND


async def test_the_state_of_a_mirror_says_nothing_about_the_texts_and_lies_beside_the_ledger(machine):
    machine.write("MEMORY.md", "a very private fact\n")

    await machine.sync()

    notes = list((machine.folder.parent / "one.db.mirrors").iterdir())
    assert len(notes) == 2
    assert not any(b"private fact" in path.read_bytes() for path in notes)
    assert not any(path.stat().st_mode & 0o077 for path in notes)
    assert machine.names() == ["MEMORY.md"]


async def test_an_edit_in_a_followed_folder_is_kept_without_another_call(machine):
    seen = asyncio.Queue()
    following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
    machine.write("MEMORY.md", BASE)

    async with asyncio.timeout(10 * SECOND):
        report = await seen.get()
    following.cancel()

    assert [step.name for step in report.steps] == ["MEMORY.md"]


async def test_a_full_disk_ends_neither_a_run_nor_the_task_that_follows_folders(machine, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    seen = asyncio.Queue()
    machine.write("MEMORY.md", BASE)
    with monkeypatch.context() as patch:
        patch.setattr(MirrorState, "_append", full)
        problem = (await machine.sync()).problem
        following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
        async with asyncio.timeout(10 * SECOND):
            told = await seen.get()
    machine.write("notes.md", "later\n")
    async with asyncio.timeout(10 * SECOND):
        while not any(step.name == "notes.md" for step in (await seen.get()).steps):
            pass
    following.cancel()

    assert "No space left on device" in problem == told.problem
    assert [file.name for file in await machine.files.all()] == ["MEMORY.md", "notes.md"]


async def test_a_ledger_that_cannot_be_read_for_a_moment_does_not_end_the_following_of_folders(
    machine, monkeypatch
):
    seen, left = asyncio.Queue(), [1]
    real = mirrors.Mirrors.all

    def once_busy(self):
        if left:
            left.pop()
            raise LedgerError("busy")
        return real(self)

    monkeypatch.setattr(mirrors.Mirrors, "all", once_busy)
    machine.write("MEMORY.md", BASE)
    following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
    async with asyncio.timeout(10 * SECOND):
        report = await seen.get()
    following.cancel()

    assert ([step.name for step in report.steps], left) == (["MEMORY.md"], [])


async def test_a_folder_that_another_process_held_is_looked_at_again_though_nothing_changes(
    machine, monkeypatch
):
    monkeypatch.setattr(mirrors, "_LOCK_SECONDS", 0)
    seen = asyncio.Queue()
    machine.write("MEMORY.md", BASE)
    async with asyncio.timeout(10 * SECOND):
        with FolderLock(machine.folder) as is_free:
            following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
            held = await seen.get()
        kept = await seen.get()
    following.cancel()

    assert (is_free, held.problem) == (True, mirrors.AT_WORK)
    assert [step.name for step in kept.steps] == ["MEMORY.md"]


async def test_a_followed_file_that_was_emptied_is_looked_at_again_though_nothing_changes(
    machine, monkeypatch
):
    machine.write("MEMORY.md", BASE)
    await machine.sync()
    machine.write("MEMORY.md", "", is_young=True)
    written = (machine.folder / "MEMORY.md").stat().st_mtime
    times = iter([written])  # of the first look; later ones find the file old
    monkeypatch.setattr(machine.store.mirror, "_file_clock", lambda: next(times, written + 10))
    seen = asyncio.Queue()

    async with asyncio.timeout(10 * SECOND):
        following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
        report = await seen.get()
    following.cancel()

    assert [(str(step.what), step.name) for step in report.steps] == [("keep", "MEMORY.md")]


async def test_a_followed_file_that_got_its_old_time_back_is_seen(machine):
    machine.write("MEMORY.md", "one\n")
    seen = asyncio.Queue()
    async with asyncio.timeout(10 * SECOND):
        following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
        await seen.get()
        machine.write("MEMORY.md", "two\n")
        await seen.get()
    following.cancel()

    assert (await machine.files.get("app:MEMORY.md")).text == "two\n"


async def test_a_store_that_is_closed_ends_the_following_of_its_folders(machine):
    seen = asyncio.Queue()
    machine.write("MEMORY.md", BASE)
    following = asyncio.create_task(machine.store.mirror.follow(seen.put_nowait, every=0.01))
    async with asyncio.timeout(10 * SECOND):
        await seen.get()
        machine.write("MEMORY.md", "changed as the store closes\n")
        await machine.store.close()
        with pytest.raises(StoreClosed):
            await following

    assert machine.read("MEMORY.md") == "changed as the store closes\n"


async def test_the_search_finds_files_and_a_prompt_does_not_have_them(machine):
    machine.write("MEMORY.md", "- The deploy key rotates every Friday at noon.\n")
    await machine.sync()

    (hit,) = await machine.store.search("when does the deploy key rotate")
    prompt = await machine.store.mind.prompt(query="when does the deploy key rotate")

    assert (hit.kind, hit.path) == ("file", "app:MEMORY.md")
    assert prompt.messages == ()
    assert await machine.store.search("when does the deploy key rotate", within=("palace", "flat")) == []


async def test_a_hit_in_a_long_file_shows_the_lines_that_match(machine):
    lines = [f"- fact number {number} about nothing" for number in range(500)]
    lines[250] = "- The deploy key rotates every Friday at noon."
    machine.write("MEMORY.md", "\n".join(lines))
    await machine.sync()

    (hit,) = await machine.store.search("when does the deploy key rotate")

    assert "rotates every Friday" in hit.value
    assert len(hit.value) < 900
    assert hit.value.startswith("…")


async def test_relays_learn_neither_the_name_nor_the_project_of_a_file(machine):
    machine.write("MEMORY.md", "hello\n")
    await machine.sync()

    tags = [
        stored.event().d_tag for stored in machine.store._open.ledger.heads.live_under("sense-memory/file/")
    ]

    assert len(tags) == 1
    assert "MEMORY" not in tags[0]
    assert "app" not in tags[0]


def test_nothing_is_written_or_removed_through_a_link_even_where_a_scan_did_not_see_it(tmp_path):
    """The link is made between the look at the folder and the write."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "x.md").write_text("outside\n")
    (root / "sub").symlink_to(outside)
    folder = MirroredFolder(root, Patterns(), time.time)
    seen = FoundFile("sub/x.md", b"outside\n")

    for act in (lambda: folder.write("sub/x.md", b"new\n", seen), lambda: folder.remove(seen)):
        with pytest.raises(NotADirectoryError):
            act()
    assert (outside / "x.md").read_text() == "outside\n"
