"""The device id: it has one holder at a time, and no copy of a ledger has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sense_memory.ledger import Ledger, device_id
from tests.inside import database_of


@pytest.fixture
def open_at(me, tmp_path):
    """Opens the ledger in a file; every ledger that a test leaves open is closed, as by the end of its process."""
    opened = []

    def open_at(name="a.db"):
        opened.append(Ledger(tmp_path / name, me.public_key))
        return opened[-1]

    yield open_at
    for ledger in opened:
        database_of(ledger).close()


def write(me, ledger, number):
    """Write one memory under the device id; returns the id."""
    name = ledger.edits.device
    assert ledger.append_versions([me.memory(f"k{number}", at=1_000 + number)], [], 2_000.0)
    return name


def copy(tmp_path, source, target):
    for file in tmp_path.glob(f"{target}*"):
        file.unlink()
    for file in tmp_path.glob(f"{source}*"):
        shutil.copy(file, tmp_path / file.name.replace(source, target, 1))


def test_the_next_process_takes_the_id_over(me, open_at):
    names = set()
    for number in range(5):
        ledger = open_at()
        names.add(write(me, ledger, number))
        assert not ledger.edits.device_id.is_renewed
        ledger.close()

    assert len(names) == 1
    assert len(names.pop()) == 8


def test_a_copy_has_an_id_of_its_own_and_the_original_keeps_its_id(me, open_at, tmp_path):
    ledger = open_at()
    name = write(me, ledger, 0)
    ledger.close()
    copy(tmp_path, "a.db", "b.db")

    other = open_at("b.db")
    assert other.edits.device != name
    assert other.edits.device_id.is_renewed
    assert open_at().edits.device == name


def test_a_ledger_that_was_set_back_gets_a_new_id(me, open_at, tmp_path):
    ledger = open_at()
    name = write(me, ledger, 0)
    ledger.close()
    copy(tmp_path, "a.db", "image.db")
    ledger = open_at()
    assert write(me, ledger, 1) == name
    ledger.close()
    copy(tmp_path, "image.db", "a.db")

    assert open_at().edits.device != name


def test_an_image_that_was_made_while_a_process_wrote_gets_a_new_id(me, open_at, tmp_path):
    ledger = open_at()
    name = write(me, ledger, 0)
    copy(tmp_path, "a.db", "image.db")
    write(me, ledger, 1)
    ledger.close()
    copy(tmp_path, "image.db", "a.db")

    assert open_at().edits.device != name


def test_an_image_that_misses_nothing_may_keep_the_id(me, open_at, tmp_path):
    ledger = open_at()
    name = write(me, ledger, 0)
    ledger.close()
    copy(tmp_path, "a.db", "image.db")
    copy(tmp_path, "image.db", "a.db")

    assert open_at().edits.device == name


def test_two_containers_of_one_image_that_share_their_memory_do_not_get_one_id(me, open_at, tmp_path):
    ledger = open_at()
    write(me, ledger, 0)
    ledger.close()
    copy(tmp_path, "a.db", "image.db")
    one = open_at()
    copy(tmp_path, "image.db", "a.db")

    assert one.edits.device != open_at().edits.device


def test_two_processes_at_once_have_two_ids_and_later_processes_make_no_more(me, open_at):
    names = set()
    for number in range(4):
        one, two = open_at(), open_at()
        pair = {write(me, one, 2 * number), write(me, two, 2 * number + 1)}
        assert len(pair) == 2
        names |= pair
        one.close()
        two.close()

    assert len(names) == 2


def test_a_killed_process_takes_its_id_along(me, open_at):
    killed = open_at()
    name = write(me, killed, 0)
    database_of(killed).close()

    assert open_at().edits.device != name


def test_an_id_is_not_kept_when_the_clock_jumps_against_the_time_since_the_start(me, open_at, monkeypatch):
    """As when the memory of a virtual machine is set back."""
    ledger, running = open_at(), open_at("b.db")
    name, other = write(me, ledger, 0), write(me, running, 0)
    ledger.close()
    now = device_id._clock_offset()
    monkeypatch.setattr(device_id, "_clock_offset", lambda: now + 3_600)

    assert open_at().edits.device != name
    assert running.edits.device != other


def test_without_a_place_in_memory_each_process_has_an_id_of_its_own(me, open_at, monkeypatch, tmp_path):
    """A folder of the disk may be a part of a container's image."""
    monkeypatch.setattr(device_id, "_MEMORY", tmp_path)
    ledger = open_at()
    name = write(me, ledger, 0)
    ledger.close()

    assert open_at().edits.device != name
    assert not list(tmp_path.glob("sense-memory-*"))


def test_a_folder_to_which_others_may_write_is_not_used(me, open_at, monkeypatch, tmp_path):
    monkeypatch.setattr(device_id, "_MEMORY", tmp_path)
    monkeypatch.setattr(device_id.os.path, "ismount", lambda _: True)
    ledger = open_at()
    name = write(me, ledger, 0)
    ledger.close()
    (folder,) = tmp_path.glob("sense-memory-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)

    assert open_at().edits.device != name


def test_handovers_do_not_pile_up(me, open_at, monkeypatch, tmp_path):
    monkeypatch.setattr(device_id, "_MEMORY", tmp_path)
    monkeypatch.setattr(device_id.os.path, "ismount", lambda _: True)
    monkeypatch.setattr(device_id, "_KEPT_COUNT", 4)
    for number in range(12):
        ledger = open_at(f"{number}.db")
        name = write(me, ledger, number)
        ledger.close()
    (folder,) = tmp_path.glob("sense-memory-*")

    assert len(list(folder.iterdir())) <= 4
    assert open_at("11.db").edits.device == name


def test_a_ledger_knows_the_ids_under_which_it_has_written(me, open_at):
    first = open_at()
    name = write(me, first, 0)
    with database_of(first).transaction():  # as an earlier version noted its id
        database_of(first).execute("INSERT INTO meta VALUES ('device', '0badcafe')")
    database_of(first).close()
    again = open_at()
    write(me, again, 1)

    assert again.edits.is_own(name)
    assert again.edits.is_own(again.edits.device)
    assert again.edits.is_own("0badcafe")
    assert not again.edits.is_own("")
    assert not again.edits.is_own("00000000")


def test_a_ledger_of_an_earlier_version_may_have_been_copied(me, open_at):
    ledger = open_at()
    with database_of(ledger).transaction():
        database_of(ledger).execute("INSERT INTO meta VALUES ('device', '0badcafe')")

    assert ledger.edits.device != "0badcafe"
    assert ledger.edits.device_id.is_renewed


def test_a_ledger_in_memory_has_an_id_and_leaves_nothing_behind(me, monkeypatch, tmp_path):
    monkeypatch.setattr(device_id, "_MEMORY", tmp_path)
    monkeypatch.setattr(device_id.os.path, "ismount", lambda _: True)
    ledger = Ledger(":memory:", me.public_key)
    assert len(ledger.edits.device) == 8
    ledger.close()

    assert not list(Path(tmp_path).iterdir())


def test_a_process_whose_memory_was_set_back_leaves_no_id_when_it_closes(me, open_at, monkeypatch):
    ledger = open_at()
    name = write(me, ledger, 0)
    offset = device_id._clock_offset()
    monkeypatch.setattr(device_id, "_clock_offset", lambda: offset + 60)
    ledger.close()

    assert open_at().edits.device != name


def test_a_folder_that_is_removed_while_it_is_read_costs_a_new_id_only(me, open_at, monkeypatch, tmp_path):
    monkeypatch.setattr(device_id, "_folder", lambda: tmp_path / "gone")
    ledger = open_at()
    assert len(write(me, ledger, 0)) == 8
    ledger.close()
