from __future__ import annotations

import os
import stat

import pytest

from sense_memory.config.agent_key import open_key
from sense_memory.config.key_file import private_folder, read_key_text, write_secret
from sense_memory.errors import BadKey, KeyMissing, UnsafeFile
from sense_memory.nostr.keys import Secret


@pytest.fixture
def secret():
    return Secret(bytes(range(1, 33)))


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path / "keys"


def read_secret(path):
    """The secret in a key file, as the search for a key reads it."""
    return open_key(read_key_text(path), f"the key file {path}", None)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def shown(error):
    """Everything of an error that could reach a log: its text, and what it drags along."""
    return f"{error.value!s} {error.value!r} {error.value.__context__!r} {error.value.__cause__!r}"


def test_a_written_key_reads_back_and_is_private(folder, secret):
    path = folder / "lisa.key"
    write_secret(path, secret)
    assert read_secret(path) == secret
    assert mode(path) == 0o600
    assert mode(folder) == 0o700
    assert [entry.name for entry in folder.iterdir()] == ["lisa.key"]


def test_a_loose_or_tight_umask_does_not_change_the_modes(folder, secret):
    path = folder / "lisa.key"
    for umask in (0o000, 0o277):
        folder.mkdir(mode=0o700, exist_ok=True)
        before = os.umask(umask)
        try:
            write_secret(path, secret)
        finally:
            os.umask(before)
        assert mode(path) == 0o600
        path.unlink()


def test_a_key_is_never_overwritten(folder, secret):
    path = folder / "lisa.key"
    write_secret(path, secret)
    with pytest.raises(UnsafeFile, match="never overwritten") as error:
        write_secret(path, Secret.generate())
    assert "choose another agent name" in str(error.value)
    assert read_secret(path) == secret


def test_a_dangling_link_is_not_written_through(folder, secret, tmp_path):
    private_folder(folder)
    (folder / "lisa.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile, match="symbolic link"):
        write_secret(folder / "lisa.key", secret)
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_no_part_of_a_key(folder, secret, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_secret(folder / "lisa.key", secret)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("blanks", ["{}", "{}\n", "  {}\r\n\r\n", "\ufeff{}\n"])
@pytest.mark.parametrize("form", ["nsec", "hex"])
def test_a_key_written_by_hand_is_read(folder, secret, blanks, form):
    private_folder(folder)
    path = folder / "lisa.key"
    text = secret.nsec() if form == "nsec" else secret.reveal().hex()
    path.write_text(blanks.format(text), encoding="utf-8", newline="")
    path.chmod(0o600)
    assert read_secret(path) == secret


def test_a_missing_file_names_itself_and_what_to_do(folder):
    with pytest.raises(KeyMissing, match="sense-memory init") as error:
        read_secret(folder / "lisa.key")
    assert str(folder / "lisa.key") in str(error.value)


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610])
def test_permissions_a_file_open_to_others_is_refused_with_the_command(folder, secret, bits):
    path = folder / "my key"
    write_secret(path, secret)
    path.chmod(bits)
    with pytest.raises(UnsafeFile) as error:
        read_secret(path)
    assert f"mode {bits:04o}" in str(error.value)
    assert str(error.value).endswith(f"the key was not used; run `chmod 600 '{path}'`")
    assert mode(path) == bits
    path.chmod(0o600)
    assert read_secret(path) == secret


def test_permissions_a_key_only_readable_by_its_owner_is_fine(folder, secret):
    path = folder / "lisa.key"
    write_secret(path, secret)
    path.chmod(0o400)
    assert read_secret(path) == secret


def test_permissions_a_symlinked_key_or_folder_is_refused_naming_the_real_file(folder, secret, tmp_path):
    path = folder / "lisa.key"
    write_secret(path, secret)
    (folder / "link.key").symlink_to(path)
    (tmp_path / "other").symlink_to(folder)
    for way in (folder / "link.key", tmp_path / "other" / "lisa.key"):
        with pytest.raises(UnsafeFile, match="symbolic link") as error:
            read_secret(way)
        assert f"SENSE_MEMORY_KEY_FILE={path}" in str(error.value)


@pytest.mark.parametrize("bits", [0o777, 0o702])
def test_permissions_a_folder_that_everyone_can_write_is_refused_for_reading_and_writing(
    folder, secret, bits
):
    write_secret(folder / "lisa.key", secret)
    folder.chmod(bits)
    with pytest.raises(UnsafeFile, match=f"the key was not used; run `chmod go-w {folder}`$"):
        read_secret(folder / "lisa.key")
    with pytest.raises(UnsafeFile, match=f"the key was not used; run `chmod go-w {folder}`$"):
        write_secret(folder / "new.key", secret)
    assert not (folder / "new.key").exists()


def test_permissions_a_sticky_folder_is_fine_because_nobody_can_replace_a_file_there(folder, secret):
    write_secret(folder / "lisa.key", secret)
    folder.chmod(0o1777)
    assert read_secret(folder / "lisa.key") == secret


def test_permissions_a_key_of_another_user_is_refused(folder, secret, monkeypatch):
    path = folder / "lisa.key"
    write_secret(path, secret)
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafeFile, match="belongs to another user"):
        read_secret(path)


def test_a_folder_or_a_pipe_in_place_of_the_key_is_refused_without_waiting(folder):
    private_folder(folder)
    (folder / "a.key").mkdir()
    os.mkfifo(folder / "b.key", 0o600)
    for name in ("a.key", "b.key"):
        with pytest.raises(UnsafeFile, match="not a plain file"):
            read_secret(folder / name)


@pytest.mark.parametrize("damage", ["upper", "cut", "npub", "twice", "latin", "long", "empty"])
def test_a_bad_key_is_named_by_its_file_and_not_echoed(folder, secret, damage):
    nsec = secret.nsec()
    raw = {
        "upper": (nsec[:10] + nsec[10:].upper()).encode(),
        "cut": nsec[:-1].encode(),
        "npub": b"npub1" + nsec[5:].encode(),
        "twice": f"{nsec}\n{nsec}\n".encode(),
        "latin": nsec.encode() + b"\xff\xfe",
        "long": nsec.encode() + b" " * 5_000,
        "empty": b"",
    }[damage]
    private_folder(folder)
    path = folder / "lisa.key"
    path.write_bytes(raw)
    path.chmod(0o600)
    with pytest.raises(BadKey) as error:
        read_secret(path)
    assert str(path) in str(error.value)
    body = nsec[5:]
    pieces = {body[at : at + 8] for at in range(len(body) - 8)}
    assert not any(piece in shown(error).lower() for piece in pieces)


def test_new_folders_are_private_and_old_ones_stay_as_they_are(tmp_path):
    tmp_path.chmod(0o755)
    private_folder(tmp_path / "a" / "b")
    private_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path) == 0o755
