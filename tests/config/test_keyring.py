"""The system's keyring, and the whole order of key sources with it; no test asks a real keyring."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringLocked

import sense_memory
from sense_memory.config import keyring as keychain
from sense_memory.config import settings as settings_module
from sense_memory.config.agent_key import child_environment
from sense_memory.config.key_file import read_key_text, write_ncryptsec, write_secret
from sense_memory.config.settings import Settings, SettingsWarning, find_secret
from sense_memory.errors import BadKey, KeyMissing, KeyringError, MissingExtra, UnsafeFile
from sense_memory.nostr.keys import Secret


# NIP-49's own vector: under the password "nostr", with the cheapest cost that is accepted.
VECTOR = (
    "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4j"
    "dzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
)
WRONG_PASSWORD = "correct horse battery staple"
VECTOR_KEY = "3501454135014541350145413501453fefb02227e449e57cf4d3a3ce05378683"


class Memory(KeyringBackend):
    """A keyring that forgets when the test ends."""

    priority = 5

    def __init__(self):
        super().__init__()
        self.entries = {}

    def get_password(self, service, username):
        return self.entries.get((service, username))

    def set_password(self, service, username, password):
        self.entries[service, username] = password

    def delete_password(self, service, username):
        del self.entries[service, username]


class Plain(Memory):
    """One that the library itself does not recommend, as a plain-text file is."""

    priority = 0.5


class Forgetful(Memory):
    """One that says yes and keeps nothing."""

    def set_password(self, service, username, password):
        pass


class Clinging(Memory):
    """One that does not let go."""

    def delete_password(self, service, username):
        pass


class Failing(Memory):
    """One whose system's library fails, with what it was given in its words."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def get_password(self, service, username):
        raise self.error

    def set_password(self, service, username, password):
        raise RuntimeError(f"could not store {password}")


class Stubborn(Failing):
    """One that only fails when it is to store something."""

    def get_password(self, service, username):
        return None


@pytest.fixture
def use():
    """Put a backend in place of the machine's keyring."""
    before = keyring.get_keyring()

    def use(backend):
        keyring.set_keyring(backend)
        return backend

    yield use
    keyring.set_keyring(before)


@pytest.fixture
def ring(use):
    return use(Memory())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data folder that is the platform's own, in this test."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: folder)
    return folder


@pytest.fixture
def find(home, monkeypatch):
    """`find_secret` for an agent in that home."""
    monkeypatch.setattr(settings_module, "_warned", set())

    def find(agent=None, *, environ=None, ask_password=None, **arguments):
        environ = environ or {}
        found = Settings.load(agent=agent, home=home, environ=environ, **arguments)
        return find_secret(found, environ=environ, ask_password=ask_password)

    return find


def nobody(prompt):
    raise AssertionError("nobody should be asked for a password")


def everything(error):
    shown = "".join(traceback.format_exception(error))
    while error is not None:
        shown += repr(error) + repr(error.args) + repr(vars(error))
        error = error.__context__
    return shown


# ── The keyring ─────────────────────────────────────────────────────────────────────────


def test_a_saved_key_is_loaded_and_deleted_again(ring):
    secret = Secret.generate()
    keychain.save("lisa", secret)
    assert ring.entries == {("sense-memory", "lisa"): secret.nsec()}
    assert keychain.load("lisa") == secret
    assert keychain.load("bob") is None
    assert keychain.delete("lisa") is True
    assert keychain.delete("lisa") is False
    assert keychain.load("lisa") is None


def test_an_entry_is_never_overwritten(ring):
    secret = Secret.generate()
    keychain.save("lisa", secret)
    keychain.save("lisa", secret)
    with pytest.raises(KeyringError, match="another key of lisa"):
        keychain.save("lisa", Secret.generate())
    assert keychain.load("lisa") == secret


def test_an_entry_that_is_no_key_is_neither_used_nor_echoed_nor_overwritten(ring):
    nsec = Secret.generate().nsec()
    ring.entries["sense-memory", "lisa"] = nsec[:-1]
    for use in (lambda: keychain.load("lisa"), lambda: keychain.save("lisa", Secret.generate())):
        with pytest.raises(BadKey, match="62 characters given") as refused:
            use()
        assert nsec[5:13] not in everything(refused.value)
    assert ring.entries["sense-memory", "lisa"] == nsec[:-1]


@pytest.mark.parametrize(
    ("backend", "problem"),
    [
        (Plain(), "does not protect"),
        (null.Keyring(), "does not protect"),
        (fail.Keyring(), "does not protect"),
        (Forgetful(), "did not store"),
        (Failing(KeyringLocked("nsec1words")), "is locked; unlock it"),
        (Stubborn(None), r"failed \(RuntimeError\)"),
    ],
)
def test_a_keyring_that_does_not_keep_a_key_safely_is_not_trusted_with_one(use, backend, problem):
    use(backend)
    secret = Secret.generate()
    with pytest.raises(KeyringError, match=problem) as refused:
        keychain.save("lisa", secret)
    assert "nsec1" not in everything(refused.value)
    assert getattr(backend, "entries", {}) == {}


def test_an_entry_that_stays_is_not_called_deleted(use):
    use(Clinging())
    keychain.save("lisa", Secret.generate())
    with pytest.raises(KeyringError, match="did not remove"):
        keychain.delete("lisa")


def test_without_the_extra_nothing_is_found_and_storing_names_it(monkeypatch, find, home):
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert keychain.installed() is False
    assert keychain.load("lisa") is None
    for use in (lambda: keychain.save("lisa", Secret.generate()), lambda: keychain.delete("lisa")):
        with pytest.raises(MissingExtra, match="the extra `keyring`") as refused:
            use()
        assert refused.value.extra == "keyring"
    with pytest.raises(KeyMissing) as missing:
        find("lisa")
    assert missing.value.looked == tuple(
        f"the key file {home}/keys/lisa.{end}" for end in ("key", "ncryptsec")
    )


def test_the_keyring_library_is_imported_only_when_it_is_asked():
    program = "import sys, sense_memory.config.settings, sense_memory.config.keyring; print('keyring' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ── The order of key sources ────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore::sense_memory.config.settings.SettingsWarning")
def test_the_keyring_stands_between_the_key_file_and_the_encrypted_one(find, home, ring):
    """Each step adds a source that comes before all the ones so far."""
    write_ncryptsec(home / "keys" / "lisa.ncryptsec", VECTOR)
    with pytest.raises(KeyMissing) as missing:
        find("lisa")
    assert missing.value.locked == f"the key file {home}/keys/lisa.ncryptsec"

    in_keyring = Secret.generate()
    keychain.save("lisa", in_keyring)
    assert find("lisa", ask_password=nobody) == (in_keyring, "the system's keyring")

    in_file = Secret.generate()
    write_secret(home / "keys" / "lisa.key", in_file)
    assert find("lisa", ask_password=nobody) == (in_file, f"the key file {home}/keys/lisa.key")

    in_environment = Secret.generate()
    environ = {"SENSE_MEMORY_AGENT": "lisa", "NOSTR_NSEC": in_environment.nsec()}
    assert find(environ=environ)[0] == in_environment
    assert find("lisa", environ=environ)[0] == in_file


def test_an_agent_never_gets_the_keyring_entry_of_another(find, ring):
    keychain.save("default", Secret.generate())
    with pytest.raises(KeyMissing) as missing:
        find("bob")
    assert "the system's keyring (no entry for bob)" in missing.value.looked


def test_the_keyring_serves_the_platforms_own_home_folder_and_no_other(ring, home, tmp_path):
    """Its entries carry an agent's name only, and two data folders may both have a "default"."""
    secret = Secret.generate()
    keychain.save("default", secret)
    other = tmp_path / "other"

    for environ in ({}, {"SENSE_MEMORY_HOME": str(home)}):
        assert find_secret(Settings.load(environ=environ), environ=environ)[0] == secret
    for settings in (
        Settings.load(environ={"SENSE_MEMORY_HOME": str(other)}),
        Settings.load(home=other, environ={}),
    ):
        with pytest.raises(KeyMissing) as missing:
            find_secret(settings, environ={})
        assert missing.value.looked[-2:] == tuple(
            f"the key file {other}/keys/default.{end}" for end in ("key", "ncryptsec")
        )


def test_a_key_file_that_was_named_and_is_missing_is_not_replaced_by_the_keyring(find, home, ring, tmp_path):
    keychain.save("default", Secret.generate())
    write_ncryptsec(tmp_path / "absent.ncryptsec", VECTOR)
    with pytest.raises(KeyMissing) as missing:
        find(key_file=tmp_path / "absent.key", ask_password=nobody)
    assert missing.value.looked[-1] == f"the key file {tmp_path}/absent.key"
    assert missing.value.locked is None


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (KeyringLocked("Failed to unlock nsec1words"), "it is locked; unlock it and try again"),
        (OSError("the bus said nsec1words"), "it failed (OSError)"),
        (None, "there is no keyring on this machine"),
    ],
)
def test_a_keyring_that_fails_is_named_and_does_not_hide_the_rest(find, home, use, error, word):
    use(fail.Keyring() if error is None else Failing(error))
    with pytest.raises(KeyMissing) as missing:
        find("lisa")
    assert missing.value.looked == (
        f"the key file {home}/keys/lisa.key",
        f"the system's keyring ({word})",
        f"the key file {home}/keys/lisa.ncryptsec",
    )
    assert "nsec1words" not in everything(missing.value)
    write_ncryptsec(home / "keys" / "lisa.ncryptsec", VECTOR)
    with pytest.raises(KeyMissing, match="its password could not be asked for") as locked:
        find("lisa")
    assert f"the system's keyring ({word})" in locked.value.looked
    secret = Secret.generate()
    write_secret(home / "keys" / "lisa.key", secret)
    assert find("lisa")[0] == secret


# ── Encrypted keys ──────────────────────────────────────────────────────────────────────


def test_an_encrypted_key_opens_with_the_password_that_is_asked_for_once(find, home, ring):
    path = home / "keys" / "lisa.ncryptsec"
    write_ncryptsec(path, VECTOR)
    prompts = []

    def ask(prompt):
        prompts.append(prompt)
        return "nostr"

    secret, place = find("lisa", ask_password=ask)
    assert secret.reveal().hex() == VECTOR_KEY
    assert place == f"the key file {path}"
    assert prompts == [f"Password for the key file {path}"]


def test_a_locked_key_says_how_to_unlock_it_and_not_to_make_a_new_one(find, home, ring):
    path = home / "keys" / "default.ncryptsec"
    write_ncryptsec(path, VECTOR)
    with pytest.raises(KeyMissing) as locked:
        find()
    message = str(locked.value)
    assert str(path) in message
    assert "encrypted" in message
    assert "ask_password" in message
    assert "untouched" in message
    assert "init" not in message
    assert VECTOR[10:18] not in everything(locked.value)


@pytest.mark.parametrize("where", ["key file", "named file", "environment", ".env"])
def test_an_encrypted_key_is_understood_wherever_a_key_may_lie(find, home, ring, tmp_path, where):
    """Seen by whose password would be asked for; only one test pays for scrypt."""
    environ, arguments = {}, {}
    if where == "key file":
        write_ncryptsec(home / "keys" / "default.key", VECTOR)
    elif where == "named file":
        arguments["key_file"] = tmp_path / "backup.txt"
        write_ncryptsec(arguments["key_file"], VECTOR)
    elif where == "environment":
        environ["NOSTR_NSEC"] = VECTOR
    else:
        (home / ".env").write_text(f"NOSTR_NSEC={VECTOR}\n", encoding="utf-8")
        (home / ".env").chmod(0o600)

    class Asked(Exception):
        pass

    def ask(prompt):
        raise Asked(prompt)

    place = {
        "key file": f"the key file {home}/keys/default.key",
        "named file": f"the key file {tmp_path}/backup.txt",
        "environment": "NOSTR_NSEC in the environment",
        ".env": f"NOSTR_NSEC in {home}/.env",
    }[where]
    with pytest.raises(Asked) as asked:
        find(environ=environ, ask_password=ask, **arguments)
    assert str(asked.value) == f"Password for {place}"
    with pytest.raises(KeyMissing) as locked:
        find(environ=environ, **arguments)
    assert locked.value.locked == place


def test_nobody_is_asked_for_the_password_of_a_text_that_can_not_be_opened(find, home, ring):
    path = home / "keys" / "lisa.ncryptsec"
    write_ncryptsec(path, VECTOR)
    path.write_text(VECTOR[:-1] + "q", encoding="utf-8")
    with pytest.raises(BadKey, match="not a valid encrypted key") as refused:
        find("lisa", ask_password=nobody)
    assert str(path) in str(refused.value)
    assert VECTOR[20:28] not in everything(refused.value)


def test_a_password_that_is_wrong_names_the_file_and_is_not_repeated(find, home, ring, monkeypatch):
    def wrong(text, password):
        raise BadKey("the password does not open this encrypted key")

    monkeypatch.setattr("sense_memory.config.agent_key.decrypt_secret", wrong)
    path = home / "keys" / "lisa.ncryptsec"
    write_ncryptsec(path, VECTOR)
    with pytest.raises(BadKey, match="does not open") as refused:
        find("lisa", ask_password=lambda prompt: WRONG_PASSWORD)
    assert str(path) in str(refused.value)
    assert WRONG_PASSWORD not in everything(refused.value)


def test_permissions_an_encrypted_key_that_others_could_read_or_replace_is_refused(find, home, ring):
    path = home / "keys" / "lisa.ncryptsec"
    write_ncryptsec(path, VECTOR)
    path.chmod(0o644)
    with pytest.raises(UnsafeFile, match=f"; run `chmod 600 {path}`$"):
        find("lisa", ask_password=nobody)


def test_a_written_encrypted_key_is_private_and_never_overwritten(home):
    path = home / "keys" / "lisa.ncryptsec"
    write_ncryptsec(path, f" {VECTOR}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.read_text(encoding="utf-8") == f"{VECTOR}\n"
    assert read_key_text(path) == VECTOR
    with pytest.raises(UnsafeFile, match="choose another file name"):
        write_ncryptsec(path, VECTOR)
    assert read_key_text(path) == VECTOR


def test_a_plain_key_is_never_written_where_an_encrypted_one_is_meant(home):
    nsec = Secret.generate().nsec()
    with pytest.raises(BadKey, match="not a valid encrypted key") as refused:
        write_ncryptsec(home / "backup.ncryptsec", nsec)
    assert nsec[5:13] not in everything(refused.value)
    assert list(home.iterdir()) == []


# ── A key in the environment ────────────────────────────────────────────────────────────


def test_k07_env_key_warns_once_and_child_processes_get_env_without_it(find, ring):
    secret = Secret.generate()
    environ = {**os.environ, "NOSTR_NSEC": secret.nsec(), "SENSE_MEMORY_AGENT": "lisa"}
    environ_before = dict(environ)
    with pytest.warns(SettingsWarning) as told:
        found = [find(environ=environ)[0] for _ in range(2)]
    assert found == [secret, secret]
    assert len(told) == 1
    assert secret.nsec()[5:13] not in str(told[0].message)

    def seen_by_a_child(env):
        program = "import json, os; print(json.dumps(dict(os.environ)))"
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    assert seen_by_a_child(environ)["NOSTR_NSEC"] == secret.nsec()
    seen = seen_by_a_child(child_environment(environ))
    assert "NOSTR_NSEC" not in seen
    assert secret.nsec() not in seen.values()
    assert seen["SENSE_MEMORY_AGENT"] == "lisa"
    assert environ == environ_before


def test_k07_whatever_starts_a_process_in_this_package_leaves_the_key_out():
    starts = re.compile(
        r"\bimport (subprocess|multiprocessing|pty)\b|\bos\.(fork|system|popen|posix_spawn|exec|spawn)"
        r"|create_subprocess_"
    )
    assert starts.search("import subprocess\n")
    for path in Path(sense_memory.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not starts.search(text) or "child_environment" in text, path
