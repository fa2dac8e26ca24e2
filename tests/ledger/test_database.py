"""The file under the ledger: what is opened, what is refused untouched, and what several processes do to it."""

from __future__ import annotations

import fcntl
import itertools
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from sense_memory import operating_system
from sense_memory.errors import (
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerTooNew,
    StorageFullError,
    StoreClosed,
    UnsafeFile,
    WrongKeyError,
)
from sense_memory.ledger import Ledger, Role, database, files
from sense_memory.ledger import database as pages
from sense_memory.ledger.database import APPLICATION_ID, MIGRATIONS, VERSION, Database
from sense_memory.ledger.files import FileLock
from sense_memory.limits import PAGE_BYTES
from sense_memory.nostr.keys import npub
from tests.inside import database_of
from tests.time_unit import SECOND


RELAY = "wss://relay.example/"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger" / "a.db"


@pytest.fixture
def written(me, path):
    """A closed ledger with one memory; returns its path."""
    ledger = Ledger(path, me.public_key)
    ledger.append_versions([me.memory()], [], 100.0)
    ledger.close()
    return path


def snapshot(folder):
    """Every file's name, mode and bytes: what must not change when a file is refused."""
    return {file.name: (file.stat().st_mode, file.read_bytes()) for file in folder.iterdir()}


def foreign_file(path, *statements):
    path.parent.mkdir(mode=0o700, exist_ok=True)
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    path.chmod(0o644)


# ── Opening ─────────────────────────────────────────────────────────────────────────────


def test_a_new_ledger_is_ours_at_the_current_version(me, path):
    Ledger(path, me.public_key).close()

    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_marked_file_without_tables_is_migrated(me, path):
    """What a process leaves that died between making the file and its first transaction."""
    foreign_file(path, f"PRAGMA application_id={APPLICATION_ID}", "CREATE TABLE t (x)", "DROP TABLE t")

    ledger = Ledger(path, me.public_key)

    assert ledger.append_versions([me.memory()], [], 100.0)
    assert ledger.integrity() == []
    ledger.close()


@pytest.mark.parametrize("place", ["a.db", ":memory:"])
def test_a_new_ledger_is_what_the_steps_of_the_schema_lead_to(me, path, place):
    """It is a copy of an empty one, which is made once in a process."""
    foreign_file(
        path.with_name("steps.db"),
        f"PRAGMA page_size={PAGE_BYTES}",
        f"PRAGMA application_id={APPLICATION_ID}",
    )
    stepwise = Database(path.with_name("steps.db"), me.public_key)
    new = Database(path if place == "a.db" else place, me.public_key)
    looks = (
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name",
        "SELECT * FROM meta",
        "PRAGMA application_id",
        "PRAGMA user_version",
        *(("PRAGMA page_size", "PRAGMA journal_mode") if place == "a.db" else ()),
    )

    assert [new.rows(look) for look in looks] == [stepwise.rows(look) for look in looks]
    assert new.integrity() == []
    new.close()
    stepwise.close()


def test_roles_have_the_numbers_that_every_ledger_so_far_has_in_its_file():
    assert {role.name: int(role) for role in Role} == {
        "MEMORY": 0,
        "TOMBSTONE": 1,
        "DELETION": 2,
        "EMBEDDING": 3,
        "REPLACED": 4,
    }


def test_closing_leaves_one_file_and_the_lock(me, written):
    assert {file.name for file in written.parent.iterdir()} == {"a.db", "a.db.lock", "a.db.writers"}


def test_closing_twice_is_harmless(me, path):
    ledger = Ledger(path, me.public_key)
    ledger.close()
    ledger.close()


def test_what_was_written_is_there_after_reopening(me, written):
    ledger = Ledger(written, me.public_key)

    assert ledger.head("sense-memory/a").event() == me.memory().event
    ledger.close()


def test_durability_and_erasure_are_switched_on(me, path):
    db = Database(path, me.public_key)
    pragmas = ("synchronous", "secure_delete", "foreign_keys", "trusted_schema", "wal_autocheckpoint")

    assert [db.row(f"PRAGMA {name}") for name in pragmas] == [(2,), (1,), (1,), (0,), (0,)]
    db.close()


def test_two_threads_may_make_the_same_ledger_at_once(me, path):
    barrier, failures = threading.Barrier(8), []

    def make():
        barrier.wait(5 * SECOND)
        try:
            Ledger(path, me.public_key).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * SECOND)

    assert failures == []
    assert {file.name for file in path.parent.iterdir()} == {"a.db", "a.db.lock", "a.db.writers"}


# ── What is refused stays untouched ─────────────────────────────────────────────────────


def test_the_wrong_key_is_told_both_names_and_writes_nothing(me, stranger, written):
    """L-04."""
    before = snapshot(written.parent)

    with pytest.raises(WrongKeyError) as caught:
        Ledger(written, stranger.public_key)

    assert (caught.value.ledger, caught.value.given) == (npub(me.public_key), npub(stranger.public_key))
    assert npub(me.public_key) in str(caught.value)
    assert npub(stranger.public_key) in str(caught.value)
    assert before == snapshot(written.parent)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE bookmarks (url)",),
        ("PRAGMA application_id=1", "CREATE TABLE bookmarks (url)"),
        ("CREATE TABLE t (x)", "DROP TABLE t"),
    ],
)
def test_another_programs_file_is_refused_untouched(me, path, statements):
    foreign_file(path, *statements)
    before = snapshot(path.parent)

    with pytest.raises(LedgerCorrupt, match="another program"):
        Ledger(path, me.public_key)

    assert before == snapshot(path.parent)


def test_a_newer_ledger_is_refused_untouched(me, written):
    """L-07."""
    foreign_file(written, "PRAGMA user_version=99")
    before = snapshot(written.parent)

    with pytest.raises(LedgerTooNew, match="schema 99"):
        Ledger(written, me.public_key)

    assert before == snapshot(written.parent)


def test_an_older_ledger_of_the_wrong_key_is_not_even_migrated(me, stranger, written, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x TEXT) STRICT"))
    monkeypatch.setattr(database, "VERSION", VERSION + 1)
    before = snapshot(written.parent)

    with pytest.raises(WrongKeyError):
        Ledger(written, stranger.public_key)

    assert before == snapshot(written.parent)


def test_an_older_ledger_is_migrated_and_keeps_what_it_holds(me, written, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x TEXT) STRICT"))
    monkeypatch.setattr(database, "VERSION", VERSION + 1)

    ledger = Ledger(written, me.public_key)

    assert ledger.head("sense-memory/a") is not None
    assert database_of(ledger).rows("SELECT * FROM later") == []
    assert database_of(ledger).row("PRAGMA user_version") == (VERSION + 1,)
    ledger.close()


def test_a_failing_migration_changes_nothing(me, written, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE later (x TEXT) STRICT; NONSENSE"))
    monkeypatch.setattr(database, "VERSION", VERSION + 1)
    with pytest.raises(LedgerError):
        Ledger(written, me.public_key)

    connection = sqlite3.connect(written)
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'later'").fetchone() is None
    connection.close()


@pytest.mark.parametrize("leftover", ["", "-wal"])
def test_an_empty_file_is_never_silently_a_new_ledger(me, path, leftover):
    """L-03."""
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    if leftover:
        Path(f"{path}{leftover}").write_bytes(b"x" * 5_000)

    with pytest.raises(LedgerCorrupt, match="empty"):
        Ledger(path, me.public_key)

    assert path.stat().st_size == 0


@pytest.mark.parametrize("size", [1, 100, 4_095, 4_096, 20_000])
def test_a_truncated_file_is_damaged_and_never_silently_shorter(me, path, size):
    """L-03."""
    ledger = Ledger(path, me.public_key)
    ledger.append_versions([me.memory(str(number)) for number in range(100)], [], 100.0)
    ledger.close()
    whole = path.read_bytes()
    assert len(whole) > 20_000
    path.write_bytes(whole[:size])

    with pytest.raises(LedgerCorrupt):
        Ledger(path, me.public_key)

    assert path.read_bytes() == whole[:size]


def test_a_file_of_something_else_is_refused(me, path):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"Dear diary, " * 1_000)

    with pytest.raises(LedgerCorrupt):
        Ledger(path, me.public_key)

    assert path.read_bytes() == b"Dear diary, " * 1_000


def test_a_ledger_without_an_owner_is_refused(me, written):
    foreign_file(written, "DELETE FROM meta")

    with pytest.raises(LedgerCorrupt, match="whose"):
        Ledger(written, me.public_key)


def test_a_folder_or_a_path_through_a_file_is_a_clear_error(me, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir(mode=0o700)

    for path in (tmp_path / "file" / "a.db", tmp_path / "file" / "deep" / "a.db", tmp_path / "folder"):
        with pytest.raises(LedgerError, match="cannot be opened"):
            Ledger(path, me.public_key)


def test_a_file_that_can_not_be_made_is_a_clear_error(me, path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(LedgerError, match="Permission denied"):
        Ledger(path, me.public_key)

    assert list(path.parent.iterdir()) == []


# ── Permissions (L-08) ──────────────────────────────────────────────────────────────────


def test_a_new_ledger_is_private_whatever_the_umask(me, path):
    before = os.umask(0)
    try:
        ledger = Ledger(path, me.public_key)
        ledger.append_versions([me.memory()], [], 100.0)
        assert ledger.outbox is not None
        database_of(ledger).try_lock()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        ledger.close()
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm", "a.db.lock", "a.db.writers"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_ledger_that_others_could_read_is_closed_to_them(me, written):
    written.chmod(0o644)

    Ledger(written, me.public_key).close()

    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o770, 0o703])
def test_a_folder_that_others_may_write_to_is_refused(me, written, mode, own_group):
    """With the command that mends it, which takes away from nobody what he may read."""
    own_group("me", members=["somebody else"])
    written.parent.chmod(mode)
    try:
        with pytest.raises(UnsafeFile, match=f"mode 0{mode:o}.*run `chmod go-w {written.parent}`"):
            Ledger(written, me.public_key)
        written.parent.chmod(mode & ~0o022)
        Ledger(written, me.public_key).close()
    finally:
        written.parent.chmod(0o700)


@pytest.fixture
def own_group(monkeypatch):
    """Who is in the group of this user's files, by what the system would say."""

    def say(name, *, members=(), primary_of=()):
        uid, gid = os.geteuid(), os.getegid()
        user = SimpleNamespace(pw_uid=uid, pw_gid=gid, pw_name="me")
        others = [SimpleNamespace(pw_uid=uid + 1, pw_gid=gid, pw_name=other) for other in primary_of]
        far = SimpleNamespace(pw_uid=uid + 2, pw_gid=gid + 2, pw_name="far")
        group = SimpleNamespace(gr_name=name, gr_mem=list(members))
        monkeypatch.setattr(operating_system.pwd, "getpwuid", {uid: user}.__getitem__)
        monkeypatch.setattr(operating_system.pwd, "getpwall", lambda: [user, far, *others])
        monkeypatch.setattr(operating_system.grp, "getgrgid", {gid: group}.__getitem__)

    return say


@pytest.mark.parametrize("members", [[], ["me"]])
def test_a_group_that_is_only_this_users_own_is_nobody_else(me, written, own_group, members):
    """As systems with a private group for each user, and umask 002, make folders."""
    own_group("me", members=members)
    written.parent.chmod(0o775)

    Ledger(written, me.public_key).close()


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("users", {}),  # a group of many, in a directory that does not list them
        ("me", {"members": ["me", "somebody else"]}),
        ("me", {"primary_of": ["somebody else"]}),
    ],
)
def test_a_group_of_others_is_not_this_users_own(me, written, own_group, name, others):
    own_group(name, **others)
    written.parent.chmod(0o775)
    with pytest.raises(UnsafeFile):
        Ledger(written, me.public_key)


def test_a_folder_of_another_user_is_not_private_by_its_group(me, written, own_group, monkeypatch):
    written.parent.chmod(0o775)
    uid = os.geteuid()
    monkeypatch.setattr(files.os, "geteuid", lambda: uid + 7)
    own_group("me")
    with pytest.raises(UnsafeFile):
        Ledger(written, me.public_key)


def test_a_sticky_folder_is_as_good_as_a_private_one(me, path):
    path.parent.mkdir()
    path.parent.chmod(0o1777)

    Ledger(path, me.public_key).close()


def test_symbolic_links_are_refused(me, written, tmp_path):
    (tmp_path / "link").symlink_to(written.parent)
    (tmp_path / "link.db").symlink_to(written)
    (tmp_path / "dangling.db").symlink_to(tmp_path / "nowhere.db")

    for path in (tmp_path / "link" / "a.db", tmp_path / "link.db", tmp_path / "dangling.db"):
        with pytest.raises(UnsafeFile, match="symbolic link"):
            Ledger(path, me.public_key)
    assert not (tmp_path / "nowhere.db").exists()


def left_beside(path, name):
    """A file that somebody began to make beside a ledger."""
    file = path.parent / f".{path.name}.{name}"
    file.write_text("half")
    return file


def test_what_dead_creators_left_is_swept_and_nothing_else(me, written):
    """Neither what a living one is writing, nor what bears another name, is ours to remove."""
    dead = [
        left_beside(written, f"abc_12{n}z.new{side}")
        for n in "34"
        for side in ("", "-wal", "-shm", "-journal")
    ]
    kept = [
        left_beside(written, "abcdefgh.newer"),
        left_beside(written, "short.new"),
        left_beside(written.with_name("b.db"), "abcdefgh.new"),
        left_beside(written.with_name("a.db.old"), "abcdefgh.new"),
    ]
    link = written.parent / f".{written.name}.ijklmnop.new"
    link.symlink_to(kept[0])
    folder = written.parent / f".{written.name}.qrstuvwx.new"
    folder.mkdir()

    with files.unfinished(written) as living:
        Ledger(written, me.public_key).close()
        assert living.exists()

    assert not living.exists()
    assert not any(file.exists() for file in dead)
    assert all(file.read_text() == "half" for file in kept)
    assert link.is_symlink()
    assert folder.is_dir()


def test_what_was_swept_before_it_was_locked_is_begun_anew(me, written, monkeypatch):
    """Between the making of a file and its lock somebody else may take it for a dead one's."""
    lock, swept = operating_system.fcntl.flock, []

    def late(descriptor, how):
        if not swept:
            (begun,) = written.parent.glob(".a.db.*.new")
            swept.append(begun)
            monkeypatch.setattr(operating_system.fcntl, "flock", lock)
            files.sweep(written)
        lock(descriptor, how)

    monkeypatch.setattr(operating_system.fcntl, "flock", late)
    with files.unfinished(written) as file:
        assert file.exists()
        assert not swept[0].exists()
    assert not file.exists()


def test_a_second_name_that_a_killed_creator_left_goes_and_the_ledger_stays(me, written):
    second = written.parent / f".{written.name}.abcdefgh.new"
    os.link(written, second)

    ledger = Ledger(written, me.public_key)

    assert not second.exists()
    assert ledger.head("sense-memory/a") is not None
    ledger.close()


def test_a_first_start_sweeps_as_well(me, path):
    path.parent.mkdir(mode=0o700)
    left = left_beside(path, "abcdefgh.new")

    Ledger(path, me.public_key).close()

    assert not left.exists()
    assert path.exists()


# ── Transactions ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_transaction_is_rolled_back_and_closed_on_any_error(me, path, error):
    db = Database(path, me.public_key)

    def broken():
        with db.transaction():
            db.execute("INSERT INTO relays (url) VALUES ('x')")
            raise error

    with pytest.raises(error):
        broken()

    assert not db.in_transaction
    assert db.rows("SELECT * FROM relays") == []
    db.close()


def test_a_transaction_inside_another_is_a_part_of_it_and_both_are_undone(me, path):
    db = Database(path, me.public_key)

    def nested():
        with db.transaction():
            with db.transaction():
                db.execute("INSERT INTO relays (url) VALUES ('x')")
            raise ValueError("after the inner one")

    with pytest.raises(ValueError, match="after"):
        nested()

    assert not db.in_transaction
    assert db.rows("SELECT * FROM relays") == []
    db.close()


def test_a_faulty_statement_is_an_error_of_ours(me, path):
    db = Database(path, me.public_key)
    for call in (db.rows, db.row, db.execute):
        with pytest.raises(LedgerError, match="no such table"):
            call("SELECT * FROM absent")
    db.close()
    with pytest.raises(StoreClosed):
        db.row("SELECT 1")
    with pytest.raises(StoreClosed), db.transaction():
        raise AssertionError


@pytest.mark.parametrize("room", range(0, 12, 2))
def test_disk_full_rolls_back_and_opens_again(me, path, room):
    """P-14: whichever page is the one that does not fit."""
    ledger = Ledger(path, me.public_key)
    ledger.relays.add([RELAY])
    ledger.append_versions([me.memory("before")], [RELAY], 100.0)
    ledger.checkpoint()
    (pages,) = database_of(ledger).row("PRAGMA page_count")
    database_of(ledger).row(f"PRAGMA max_page_count={pages + room}")
    with pytest.raises(StorageFullError, match="rolled back"):
        ledger.append_versions(
            [me.memory(str(number), text="x" * 5_000) for number in range(60)], [RELAY], 100.0
        )

    assert not database_of(ledger).in_transaction
    assert ledger.counts_by_kind()["events"] == 1
    ledger.close()
    reopened = Ledger(path, me.public_key)
    assert [entry.slot for entry in reopened.outbox.due(RELAY, 100.0, 9)] == ["sense-memory/before"]
    assert reopened.append_versions([me.memory("after")], [RELAY], 100.0)
    assert reopened.integrity() == []
    reopened.close()


def test_a_transaction_waits_before_it_reads_and_not_only_before_it_writes(me, written):
    """Else two that read first would both see room for a stamp, and one of them would fail to write."""
    one, two = Database(written, me.public_key), Database(written, me.public_key, patience=0.01)
    entered = []

    def read():
        with two.transaction():
            entered.append(two.row("SELECT count(*) FROM events"))

    with one.transaction(), pytest.raises(LedgerError, match="locked by another"):
        read()

    assert entered == []
    one.close()
    two.close()


def test_a_file_held_by_another_program_is_a_clear_error(me, written):
    ledger = Ledger(written, me.public_key, patience=0.01)
    other = sqlite3.connect(written, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="locked by another process"):
        ledger.append_versions([me.memory("b")], [], 100.0)

    other.execute("ROLLBACK")
    other.close()
    assert ledger.append_versions([me.memory("b")], [], 100.0)
    ledger.close()


def test_the_write_ahead_log_does_not_grow_for_ever(me, path, monkeypatch):
    """A process that runs for weeks without forgetting anything must not keep a second copy of it all."""
    monkeypatch.setattr(database, "MAX_WAL_BYTES", 100_000)
    ledger = Ledger(path, me.public_key)
    sizes = []
    for number in range(60):
        ledger.append_versions([me.memory(str(number), text="x" * 4_000)], [], 100.0)
        sizes.append(Path(f"{path}-wal").stat().st_size)
    ledger.close()

    assert max(sizes) <= 100_000
    assert sizes.count(0) >= 2


# ── Several processes ───────────────────────────────────────────────────────────────────

WRITER = """
    import asyncio, sys
    from sense_memory import LocalSigner, MemoryStore

    async def main(path, secret, name):
        async with MemoryStore(LocalSigner.from_hex(secret), ledger=path) as store:
            for first in range(0, 50, 5):
                print("ready", flush=True)
                sys.stdin.readline()
                for number in range(first, first + 5):
                    await store.remember("shared", f"{name} {number}")
                    await store.remember(f"{name} {number}", "own")

    asyncio.run(main(*sys.argv[1:]))
"""

HOLDER = """
    import sys
    from sense_memory.ledger.database import Database

    db = Database(*sys.argv[1:])
    print(db.try_lock(), flush=True)
    sys.stdin.readline()
    db.close()
"""


def program(source, *arguments, python=sys.executable):
    return subprocess.Popen(
        [python, "-c", textwrap.dedent(source), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_processes_write_and_nothing_is_lost_or_stamped_twice(me, forks, path):
    """L-05, with 100 writes each, half of them to one address, in ten rounds that both begin together."""
    secret = me.signer._secret.reveal().hex()
    writers = [program(WRITER, path, secret, name, python=forks.python) for name in ("left", "right")]
    for _ in range(10):
        assert [writer.stdout.readline() for writer in writers] == ["ready\n", "ready\n"]
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
    errors = [writer.communicate(timeout=50 * SECOND)[1] for writer in writers]
    assert errors == ["", ""]

    ledger = Ledger(path, me.public_key)
    arrived = [ledger.by_id(stored.id.hex()) for stored in ledger.versions("sense-memory/shared")]
    stamps = [stored.event().created_at for stored in sorted(arrived, key=lambda stored: stored.seq)]
    assert len(stamps) == 100
    assert stamps == sorted(stamps)
    own = [
        stored for stored in ledger.heads.live_under("sense-memory/") if stored.slot != "sense-memory/shared"
    ]
    assert len(own) == 100
    order = [stored.slot.split("/")[1].split()[0] for stored in sorted(own, key=lambda stored: stored.seq)]
    turns = sum(before != after for before, after in itertools.pairwise(order))
    assert turns >= 10, "the writes did not interleave, so this shows nothing"
    assert ledger.integrity() == []
    ledger.close()


def test_the_lock_is_exclusive_across_processes_and_free_when_its_holder_ends(me, path):
    mine = Database(path, me.public_key)
    holder = program(HOLDER, path, me.public_key)
    assert holder.stdout.readline() == "True\n"
    assert not mine.try_lock()

    holder.communicate("\n", timeout=20 * SECOND)

    assert mine.try_lock()
    refused = program(HOLDER, path, me.public_key)
    assert refused.stdout.readline() == "False\n"
    refused.communicate("\n", timeout=20 * SECOND)
    mine.close()


def test_a_killed_holder_does_not_keep_the_lock(me, path):
    mine = Database(path, me.public_key)
    holder = program(HOLDER, path, me.public_key)
    assert holder.stdout.readline() == "True\n"

    holder.kill()
    holder.communicate(timeout=20 * SECOND)

    assert mine.try_lock()
    mine.close()


def test_the_lock_is_re_entrant_within_one_ledger(me, path):
    one, two = Database(path, me.public_key), Database(path, me.public_key)
    assert one.try_lock()
    assert one.try_lock()
    one.unlock()
    assert not two.try_lock()

    one.unlock()

    assert two.try_lock()
    one.close()
    two.close()


def test_l05_a_checkpoint_never_runs_beside_a_writer(me, path):
    """SQLite would fall back to one that does, and up to 3.51.2 that can damage the file ("the WAL-reset bug")."""
    one, two = Ledger(path, me.public_key), Ledger(path, me.public_key)
    one.checkpoint()
    one.append_versions([me.memory()], [], 100.0)
    before = path.stat()

    with database_of(two).transaction():
        assert not database_of(one).checkpoint()
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        assert not database_of(two).checkpoint()  # nor beside its own
    assert database_of(one).checkpoint()

    assert path.stat().st_mtime_ns != before.st_mtime_ns
    assert Path(f"{path}-wal").stat().st_size == 0
    one.close()
    two.close()


def test_l05_nobody_writes_beside_a_checkpoint(me, path):
    ledger, other = Database(path, me.public_key), FileLock(Path(f"{path}.writers"))
    assert other.acquire()
    with ledger.impatient(), pytest.raises(LedgerBusy), ledger.transaction():
        pass

    other.release()

    with ledger.transaction():
        assert not other.acquire()
        assert other.acquire(shared=True)  # another writer waits for SQLite's own lock
    assert not ledger.checkpoint()
    other.close()
    assert ledger.checkpoint()
    ledger.close()


def test_a_checkpoint_waits_for_nobody_who_publishes(me, path):
    one, two = Ledger(path, me.public_key), Ledger(path, me.public_key)
    one.append_versions([me.memory()], [], 100.0)
    assert database_of(two).try_lock()

    one.checkpoint()
    assert Path(f"{path}-wal").stat().st_size > 0
    database_of(two).unlock()
    one.checkpoint()

    assert Path(f"{path}-wal").stat().st_size == 0
    one.close()
    two.close()


async def test_publishing_yields_to_the_process_that_holds_the_lock(me, path):
    one, two = Ledger(path, me.public_key), Ledger(path, me.public_key)
    async with one.publishing() as ours:
        assert ours
        async with one.publishing() as also, two.publishing(wait=0) as theirs:
            assert also
            assert not theirs
    async with two.publishing(wait=0) as theirs:
        assert theirs
    one.close()
    two.close()


async def test_the_lock_is_given_back_after_an_error(me, path):
    one, two = Ledger(path, me.public_key), Ledger(path, me.public_key)
    with pytest.raises(ValueError, match="while publishing"):
        async with one.publishing():
            raise ValueError("while publishing")

    async with two.publishing(wait=0) as theirs:
        assert theirs
    one.close()
    two.close()


# ── Integrity ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE events SET body = (SELECT body FROM events WHERE seq = 2) WHERE seq = 1",
        "UPDATE events SET created_at = created_at + 1 WHERE seq = 1",
        "UPDATE events SET slot = 'sense-memory/b' WHERE seq = 1",
        "UPDATE events SET kind = 4 WHERE seq = 1",
        "UPDATE events SET body = x'00' WHERE seq = 1",
        "UPDATE events SET body = '[]' WHERE seq = 1",
    ],
)
def test_integrity_finds_rows_that_do_not_say_what_their_event_says(me, path, tampering):
    ledger = Ledger(path, me.public_key)
    ledger.append_versions([me.memory("a"), me.memory("b"), me.journal()], [], 100.0)
    assert ledger.integrity() == []
    ledger.close()
    connection = sqlite3.connect(path)
    connection.execute(tampering.replace("'[]'", "x'5b5d'"))
    connection.commit()
    connection.close()

    ledger = Ledger(path, me.public_key)

    assert ledger.integrity() == ["event 1 is damaged or misplaced"]
    ledger.close()


# ── Pages ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small(me, path, monkeypatch):
    """A closed ledger with pages of 4 KB, as earlier versions made it; returns its path."""
    with monkeypatch.context() as past:
        past.setattr(database, "PAGE_BYTES", 4_096)
        past.setattr(pages, "PAGE_BYTES", 4_096)
        ledger = Ledger(path, me.public_key)
    ledger.append_versions([me.memory()], [], 100.0)
    ledger.close()
    assert page_bytes(path) == 4_096
    return path


def page_bytes(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA page_size").fetchone()[0]


def test_a_new_ledger_has_large_pages(written):
    assert page_bytes(written) == PAGE_BYTES


def test_a_ledger_with_small_pages_gets_large_ones_when_it_is_opened(me, small):
    inode = small.stat().st_ino
    ledger = Ledger(small, me.public_key)

    assert list(ledger.bodies()) == [me.memory().event.body()]
    assert ledger.integrity() == []
    ledger.close()
    assert page_bytes(small) == PAGE_BYTES
    assert (small.stat().st_ino, stat.S_IMODE(small.stat().st_mode)) == (inode, 0o600)
    assert {file.name for file in small.parent.iterdir()} <= {"a.db", "a.db.lock", "a.db.writers"}


def test_pages_do_not_grow_under_somebody_who_has_the_ledger_open(me, small, monkeypatch):
    with monkeypatch.context() as past:
        past.setattr(pages, "PAGE_BYTES", 4_096)
        first = Ledger(small, me.public_key)
    second = Ledger(small, me.public_key)
    second.append_versions([me.memory("b")], [], 101.0)

    assert first.counts_by_kind()["heads"] == 2
    first.close()
    second.close()
    assert page_bytes(small) == 4_096
    Ledger(small, me.public_key).close()
    assert page_bytes(small) == PAGE_BYTES


@pytest.mark.parametrize("trouble", ["no room", "too long", "a full disk", "a busy publisher"])
def test_where_pages_can_not_grow_the_ledger_stays_in_use_as_it_is(me, small, monkeypatch, trouble):
    match trouble:
        case "no room":
            left = SimpleNamespace(free=small.stat().st_size)
            monkeypatch.setattr("sense_memory.ledger.database.shutil.disk_usage", lambda _: left)
        case "too long":
            monkeypatch.setattr("sense_memory.ledger.database.MAX_REBUILT_BYTES", 1)
        case "a full disk":

            class Full(sqlite3.Connection):
                def backup(self, target, **options):
                    super().backup(target, pages=2, progress=self.fail)

                def fail(self, *_):
                    raise sqlite3.OperationalError("database or disk is full")

            connect = sqlite3.connect
            monkeypatch.setattr(
                sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=Full)
            )
        case "a busy publisher":
            other = os.open(f"{small}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(other, fcntl.LOCK_EX)
    ledger = Ledger(small, me.public_key)
    monkeypatch.undo()

    ledger.append_versions([me.memory("b")], [], 101.0)
    assert ledger.counts_by_kind()["heads"] == 2
    assert ledger.integrity() == []
    ledger.close()
    assert page_bytes(small) == 4_096
    assert list(small.parent.glob("*.new")) == []
