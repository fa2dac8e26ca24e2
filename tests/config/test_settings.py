from __future__ import annotations

import os
import stat
import tomllib
import warnings
from pathlib import Path

import pytest

from sense_memory.config import settings as module
from sense_memory.config.key_file import write_secret
from sense_memory.config.relays import save_relays
from sense_memory.config.settings import (
    Settings,
    SettingsWarning,
    find_embedder,
    find_model,
    find_secret,
    ledger_path,
)
from sense_memory.errors import BadKey, InvalidInput, InvalidSetting, KeyMissing, UnsafeFile
from sense_memory.nostr.keys import Secret, npub


ONE = "wss://one.example"
TWO = "wss://two.example"


@pytest.fixture(autouse=True)
def nothing_told_yet(monkeypatch):
    monkeypatch.setattr(module, "_warned", set())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A data folder, while standing in another folder whose files must not matter."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def load(home):
    """`Settings.load` in that home, with an environment of its own."""

    def load(environ=None, **arguments):
        return Settings.load(**{"home": home, "environ": environ or {}, **arguments})

    return load


def write_env(home, text, bits=0o600):
    path = home / ".env"
    path.write_text(text, encoding="utf-8")
    path.chmod(bits)
    return path


def new_key(home, agent):
    secret = Secret.generate()
    write_secret(home / "keys" / f"{agent}.key", secret)
    return secret


# ── Where values come from ──────────────────────────────────────────────────────────────


def test_without_anything_the_platform_decides_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    found = Settings.load(environ={})
    assert found.home.name == "sense-memory"
    assert found.home.is_relative_to(tmp_path)
    assert found.agent == "default"
    assert found.relays == ()
    assert found.key_file == found.home / "keys" / "default.key"
    assert found.ledger is None
    assert found.env_file == found.home / ".env"
    assert set(found.origins.values()) == {"default"}
    assert list(tmp_path.iterdir()) == []


def test_each_origin_gives_way_to_the_one_before_it(home, load):
    arguments = {"agent": "argument", "relays": ["wss://argument.example"]}
    environ = {"SENSE_MEMORY_AGENT": "environment", "SENSE_MEMORY_RELAYS": "wss://environment.example"}
    dotenv = "SENSE_MEMORY_AGENT=dotenv\nSENSE_MEMORY_RELAYS=wss://dotenv.example\n"
    save_relays(home, ["wss://config.example"])

    def told(found):
        return [(found.agent, found.origins["agent"]), (found.relays[0], found.origins["relays"])]

    assert told(load()) == [("default", "default"), ("wss://config.example", "config.toml")]
    write_env(home, dotenv)
    assert told(load()) == [("dotenv", ".env"), ("wss://dotenv.example", ".env")]
    assert told(load(environ)) == [
        ("environment", "environment"),
        ("wss://environment.example", "environment"),
    ]
    assert told(load(environ, **arguments)) == [
        ("argument", "argument"),
        ("wss://argument.example", "argument"),
    ]


def test_the_home_comes_from_argument_then_environment(home, tmp_path):
    other = tmp_path / "other"
    by_environment = Settings.load(environ={"SENSE_MEMORY_HOME": str(other)})
    assert (by_environment.home, by_environment.origins["home"]) == (other, "environment")
    by_argument = Settings.load(home=home, environ={"SENSE_MEMORY_HOME": str(other)})
    assert (by_argument.home, by_argument.origins["home"]) == (home, "argument")


def test_a_blank_variable_counts_as_unset(load):
    found = load({"SENSE_MEMORY_AGENT": " ", "SENSE_MEMORY_RELAYS": "", "SENSE_MEMORY_KEY_FILE": ""})
    assert (found.agent, found.relays, found.origins["key_file"]) == ("default", (), "default")


def test_an_empty_list_of_relays_means_local_only(load):
    found = load({"SENSE_MEMORY_RELAYS": ONE}, relays=())
    assert (found.relays, found.origins["relays"]) == ((), "argument")


def test_a_dotenv_in_the_current_folder_is_never_read(load):
    Path(".env").write_text("SENSE_MEMORY_AGENT=stranger\n", encoding="utf-8")
    Path("config.toml").write_text(f'relays = ["{ONE}"]\n', encoding="utf-8")
    found = load()
    assert (found.agent, found.relays) == ("default", ())


def test_a_named_env_file_replaces_the_one_of_the_home(home, load, tmp_path):
    write_env(home, f"SENSE_MEMORY_AGENT=home\nSENSE_MEMORY_RELAYS={ONE}\n")
    named = tmp_path / "named.env"
    named.write_text("SENSE_MEMORY_AGENT=named\nSENSE_MEMORY_KEY_FILE=mine.key\n", encoding="utf-8")
    found = load(env_file=named)
    assert (found.agent, found.relays, found.env_file) == ("named", (), named)
    assert found.key_file == tmp_path / "mine.key"
    assert found.origins["key_file"] == ".env"


def test_a_named_env_file_can_name_the_home(tmp_path):
    named = tmp_path / "named.env"
    named.write_text("SENSE_MEMORY_HOME=there\n", encoding="utf-8")
    found = Settings.load(env_file=named, environ={})
    assert (found.home, found.origins["home"]) == (tmp_path / "there", ".env")


def test_a_named_env_file_has_to_exist(load, tmp_path):
    with pytest.raises(InvalidSetting, match=r"no such file: .*absent\.env"):
        load(env_file=tmp_path / "absent.env")


def test_the_platform_home_can_not_be_moved_by_its_own_dotenv(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = Settings.load(environ={}).home
    folder.mkdir(parents=True)
    write_env(folder, "SENSE_MEMORY_HOME=/somewhere/else\n")
    with pytest.raises(InvalidSetting, match="SENSE_MEMORY_HOME") as error:
        Settings.load(environ={})
    assert error.value.origin == ".env"
    write_env(folder, f"SENSE_MEMORY_HOME={folder}\n")
    assert Settings.load(environ={}).home == folder


def test_dotenv_values_are_taken_as_written(home, load, monkeypatch):
    monkeypatch.setenv("USER_NAME", "expanded")
    write_env(home, '# a comment\nexport SENSE_MEMORY_AGENT="lisa" # after\nSENSE_MEMORY_RELAYS\n')
    assert load().agent == "lisa"
    write_env(home, "SENSE_MEMORY_AGENT=${USER_NAME}\n")
    with pytest.raises(InvalidSetting, match="1 to 64"):
        load()


def test_loading_changes_nothing_in_the_environment(home, load):
    write_env(home, f"NOSTR_NSEC={Secret.generate().nsec()}\nSENSE_MEMORY_AGENT=lisa\n")
    before = dict(os.environ)
    find_secret(load(), environ={})
    assert dict(os.environ) == before


def test_relative_paths_start_where_one_stands(load):
    found = load({"SENSE_MEMORY_KEY_FILE": "mine.key"}, home="here", ledger="agent.db")
    assert found.home == Path.cwd() / "here"
    assert found.key_file == Path.cwd() / "mine.key"
    assert (found.ledger, found.origins["ledger"]) == (Path("agent.db"), "argument")


def test_a_tilde_is_the_home_directory_wherever_it_stands(home, load, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    write_env(home, "SENSE_MEMORY_KEY_FILE=~/mine.key\n")
    found = load(home="~")
    assert (found.home, found.key_file) == (home, home / "mine.key")
    with pytest.raises(InvalidSetting, match="write the full path"):
        load({"SENSE_MEMORY_KEY_FILE": "~nobody-of-this-name/mine.key"})


# ── What is refused ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a", "Lisa-2", "a.b_c", "_x", "x" * 64])
def test_agent_names_that_are_file_names_are_taken(home, load, name):
    assert load(agent=name).key_file == home / "keys" / f"{name}.key"


@pytest.mark.parametrize("name", ["", ".hidden", "..", "a/b", "a b", "ä", "x" * 65, "a\n", "../../etc"])
def test_agent_names_that_could_leave_the_folder_are_refused(load, name):
    with pytest.raises(InvalidSetting, match="1 to 64") as error:
        load(agent=name)
    assert (error.value.name, error.value.origin) == ("agent", "argument")


def test_a_bad_name_says_which_variable_holds_it(load):
    with pytest.raises(InvalidSetting, match=r"SENSE_MEMORY_AGENT \(from the environment\)"):
        load({"SENSE_MEMORY_AGENT": "a/b"})


@pytest.mark.parametrize("setting", ["agent", "home", "key_file", "relays"])
@pytest.mark.parametrize("form", ["nsec", "hex", "ncryptsec"])
def test_a_key_in_the_wrong_place_is_refused_without_echo(load, setting, form):
    secret = Secret.generate()
    nsec = secret.nsec()
    text = {"nsec": nsec, "hex": secret.reveal().hex(), "ncryptsec": f"ncryptsec1{nsec[5:]}"}[form]
    value = [text] if setting == "relays" else text
    with pytest.raises(InvalidSetting, match="looks like a key") as by_argument:
        load(**{setting: value})
    with pytest.raises(InvalidSetting, match="looks like a key") as by_environment:
        Settings.load(environ={f"SENSE_MEMORY_{setting.upper()}": text})
    for error in (by_argument, by_environment):
        assert not any(text[at : at + 8] in str(error.value) for at in range(10, len(text) - 8))


@pytest.mark.parametrize(
    ("origin", "given"),
    [("argument", {"relays": ["http://one.example"]}), ("environment", {}), (".env", {})],
)
def test_a_bad_relay_names_its_origin(home, load, origin, given):
    bad = {"SENSE_MEMORY_RELAYS": f"{ONE}, http://one.example"}
    if origin == ".env":
        write_env(home, f"SENSE_MEMORY_RELAYS={ONE},http://one.example\n")
    with pytest.raises(InvalidSetting) as error:
        load(bad if origin == "environment" else None, **given)
    assert error.value.origin == origin


@pytest.mark.parametrize(
    "text", ['relays = "wss://one.example"', "relays = [1]", "relays = [", "\udcff", "relays.a = 1"]
)
def test_a_bad_config_file_is_named(home, load, text):
    (home / "config.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidSetting, match="config"):
        load()


def test_relays_are_listed_once_and_split_at_commas_and_blanks(load):
    assert load({"SENSE_MEMORY_RELAYS": f"{ONE},{TWO} ,\n{ONE} {ONE}/"}).relays == (ONE, TWO)


def test_one_text_is_not_a_list_of_relays(load):
    with pytest.raises(InvalidSetting, match="a list of URLs"):
        load(relays=ONE)


# ── The key ─────────────────────────────────────────────────────────────────────────────


def test_the_key_of_the_default_agent_is_found_last(home, load):
    secret = new_key(home, "default")
    assert find_secret(load(), environ={}) == (secret, f"the key file {home}/keys/default.key")


def test_without_a_key_every_place_that_was_looked_at_is_listed(home, load):
    with pytest.raises(KeyMissing) as error:
        find_secret(load(), environ={})
    assert error.value.looked == (
        "NOSTR_NSEC in the environment",
        f"NOSTR_NSEC in {home}/.env",
        f"the key file {home}/keys/default.key",
        f"the key file {home}/keys/default.ncryptsec",
    )


@pytest.mark.filterwarnings("ignore::sense_memory.config.settings.SettingsWarning")
def test_the_order_of_key_sources(home, load, tmp_path):
    """What stands first decides: each step adds a source that comes before all the ones so far."""
    agent = new_key(home, "default")
    assert find_secret(load(), environ={})[0] == agent

    by_dotenv = Secret.generate()
    write_env(home, f"NOSTR_NSEC={by_dotenv.nsec()}\n")
    assert find_secret(load(), environ={}) == (by_dotenv, f"NOSTR_NSEC in {home}/.env")

    file_in_dotenv = new_key(tmp_path, "dotenv")
    write_env(
        home, f"NOSTR_NSEC={by_dotenv.nsec()}\nSENSE_MEMORY_KEY_FILE={tmp_path / 'keys' / 'dotenv.key'}\n"
    )
    assert find_secret(load(), environ={})[0] == file_in_dotenv

    environ = {"SENSE_MEMORY_AGENT": "bob"}
    bob = new_key(home, "bob")
    assert find_secret(load(environ), environ=environ)[0] == bob

    by_environment = Secret.generate()
    environ["NOSTR_NSEC"] = by_environment.nsec()
    assert find_secret(load(environ), environ=environ) == (by_environment, "NOSTR_NSEC in the environment")

    file_in_environment = new_key(tmp_path, "environment")
    environ["SENSE_MEMORY_KEY_FILE"] = str(tmp_path / "keys" / "environment.key")
    assert find_secret(load(environ), environ=environ)[0] == file_in_environment

    lisa = new_key(home, "lisa")
    assert find_secret(load(environ, agent="lisa"), environ=environ)[0] == lisa

    given = new_key(tmp_path, "given")
    settings = load(environ, agent="lisa", key_file=tmp_path / "keys" / "given.key")
    assert find_secret(settings, environ=environ)[0] == given


def test_an_agent_asked_for_by_name_never_gets_another_key(home, load):
    environ = {"NOSTR_NSEC": Secret.generate().nsec()}
    new_key(home, "default")
    with pytest.raises(KeyMissing) as error:
        find_secret(load(environ, agent="bob"), environ=environ)
    assert error.value.looked == (
        f"the key file {home}/keys/bob.key",
        f"the key file {home}/keys/bob.ncryptsec",
    )


def test_a_key_file_that_was_named_and_is_missing_is_not_skipped(load, tmp_path):
    environ = {
        "SENSE_MEMORY_KEY_FILE": str(tmp_path / "absent.key"),
        "NOSTR_NSEC": Secret.generate().nsec(),
    }
    with pytest.raises(KeyMissing, match=r"absent\.key"):
        find_secret(load(environ), environ=environ)


@pytest.mark.parametrize("origin", ["argument", "environment", ".env"])
def test_the_setting_that_names_a_missing_key_file_is_to_be_corrected(home, load, tmp_path, origin):
    path, environ, options = tmp_path / "mistyped.key", {}, {}
    if origin == "argument":
        options, named_by = {"key_file": path}, "the argument `key_file`"
    elif origin == "environment":
        environ, named_by = {"SENSE_MEMORY_KEY_FILE": str(path)}, "SENSE_MEMORY_KEY_FILE in the environment"
    else:
        write_env(home, f"SENSE_MEMORY_KEY_FILE={path}\n")
        named_by = f"SENSE_MEMORY_KEY_FILE in {home}/.env"

    with pytest.raises(KeyMissing) as error:
        find_secret(load(environ, **options), environ=environ)

    shown = f"the key file {path} does not exist; correct {named_by}, or put the key there."
    assert str(error.value).startswith(shown)
    assert (error.value.setting, error.value.looked[-1]) == (named_by, f"the key file {path}")


def test_permissions_of_the_key_file_are_checked(load, tmp_path):
    new_key(tmp_path, "mine")
    path = tmp_path / "keys" / "mine.key"
    path.chmod(0o644)
    environ = {"SENSE_MEMORY_KEY_FILE": str(path)}
    with pytest.raises(UnsafeFile, match=f"; run `chmod 600 {path}`$"):
        find_secret(load(environ), environ=environ)


def test_env_key_warns_once(load):
    secret = Secret.generate()
    environ = {"NOSTR_NSEC": secret.nsec()}
    with pytest.warns(SettingsWarning) as told:
        assert find_secret(load(environ), environ=environ)[0] == secret
    assert len(told) == 1
    message = str(told[0].message)
    assert "child processes" in message
    assert "SENSE_MEMORY_KEY_FILE" in message
    assert not any(secret.nsec()[at : at + 8] in message for at in range(5, 55))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_secret(load(environ), environ=environ)[0] == secret


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604])
def test_a_readable_dotenv_with_a_key_warns_once_and_names_the_command(home, load, bits):
    secret = Secret.generate()
    path = write_env(home, f"NOSTR_NSEC={secret.nsec()}\n", bits)
    with pytest.warns(SettingsWarning) as told:
        assert find_secret(load(), environ={})[0] == secret
    assert [str(one.message).rpartition("; ")[2] for one in told] == [f"run `chmod 600 {path}`"]
    assert secret.nsec()[5:13] not in str(told[0].message)


def test_a_readable_dotenv_without_a_key_is_fine(home, load):
    write_env(home, "SENSE_MEMORY_AGENT=lisa\n", 0o644)
    assert load().agent == "lisa"


@pytest.mark.parametrize("where", ["environment", ".env"])
def test_bad_nsec_is_not_echoed(home, load, where):
    nsec = Secret.generate().nsec()
    bad = nsec[:20] + nsec[20:].upper()
    environ = {"NOSTR_NSEC": bad} if where == "environment" else {}
    if where == ".env":
        write_env(home, f"NOSTR_NSEC={bad}\n")
    with pytest.raises(BadKey, match="63 characters given") as error:
        find_secret(load(), environ=environ)
    assert where in str(error.value)
    shown = f"{error.value!r} {error.value.__cause__!r} {error.value.__context__!r}".lower()
    assert not any(nsec[at : at + 8] in shown for at in range(5, 55))


def test_reprs_are_redacted(home, load):
    nsec = Secret.generate().nsec()
    write_env(home, f"NOSTR_NSEC={nsec}\n")
    found = load({"NOSTR_NSEC": nsec})
    everything = f"{found!r} {[getattr(found, name) for name in found.__slots__]}"
    assert nsec[5:13] not in everything


def test_settings_can_not_be_changed(load):
    found = load()
    with pytest.raises(AttributeError):
        found.agent = "other"
    with pytest.raises(TypeError):
        found.origins["agent"] = "other"
    assert hash(found) == hash(load())


def test_a_ledger_is_named_after_its_public_key(home):
    public = Secret(bytes(31) + b"\x01").public_key
    path = ledger_path(home, public)
    assert path == home / "ledgers" / f"{npub(public)}.db"
    assert ledger_path(home, npub(public)) == path
    with pytest.raises(BadKey):
        ledger_path(home, "../../etc/passwd")


# ── config.toml ─────────────────────────────────────────────────────────────────────────


def test_saved_relays_are_read_back_from_a_private_commented_file(tmp_path, load):
    home = tmp_path / "new" / "home"
    assert save_relays(home, [ONE, TWO, ONE]) == (ONE, TWO)
    found = load(home=home)
    assert (found.relays, found.origins["relays"]) == ((ONE, TWO), "config.toml")
    path = home / "config.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert path.read_text(encoding="utf-8").startswith("# ")
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]


def test_no_relays_can_be_saved_too(home, load):
    save_relays(home, [ONE])
    save_relays(home, [])
    found = load()
    assert (found.relays, found.origins["relays"]) == ((), "config.toml")


@pytest.mark.parametrize(
    "before",
    [
        f'# mine\nrelays = ["{TWO}"] # old\nother = "kept"\n',
        f'other = "kept"\nrelays = [\n  "{TWO}", # a ] in a comment\n]\n# the end\n',
        'other = "kept" # no newline at the end',
        'other = "kept"\n\n[table]\nrelays = ["not ours"]\n',
        'other = "kept"\n[table]\nx = [\n["nested"],\n]\n',
        "  relays   =   [ ]\nother = '''\nrelays = [1]\n'''\n",
    ],
)
def test_saving_relays_keeps_everything_else(home, load, before):
    path = home / "config.toml"
    path.write_text(before, encoding="utf-8")
    comments = [line for line in before.splitlines() if line.startswith("#")]
    save_relays(home, [ONE])
    after = path.read_text(encoding="utf-8")
    assert tomllib.loads(after) == {**tomllib.loads(before), "relays": [ONE]}
    assert all(comment in after for comment in comments)
    with pytest.warns(SettingsWarning, match="other.* has no effect"):
        assert load().relays == (ONE,)
    save_relays(home, [ONE])
    assert path.read_text(encoding="utf-8") == after


@pytest.mark.parametrize(
    "before",
    [
        'x = """\nrelays = [\n"""\nrelays = ["wss://old.example"]\n',
        f'"relays" = ["{TWO}"]\n',
        "this is not TOML",
    ],
)
def test_a_file_that_can_not_be_rewritten_safely_is_left_alone(home, before):
    path = home / "config.toml"
    path.write_text(before, encoding="utf-8")
    with pytest.raises(InvalidSetting):
        save_relays(home, [ONE])
    assert path.read_text(encoding="utf-8") == before
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]


def test_a_bad_relay_is_not_saved(home):
    with pytest.raises(InvalidSetting):
        save_relays(home, [ONE, "ftp://one.example"])
    assert list(home.iterdir()) == []


def test_a_full_disk_leaves_the_old_config(home, load, monkeypatch):
    save_relays(home, [ONE])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_relays(home, [TWO])
    assert load().relays == (ONE,)
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]


def test_a_linked_config_stays_a_link(home, load, tmp_path):
    real = tmp_path / "elsewhere" / "shared.toml"
    real.write_text("", encoding="utf-8")
    (home / "config.toml").symlink_to(real)
    save_relays(home, [ONE])
    assert (home / "config.toml").is_symlink()
    assert load().relays == (ONE,)


def test_an_unknown_key_is_pointed_out_once(home, load):
    (home / "config.toml").write_text(f'relay = ["{ONE}"]\n', encoding="utf-8")
    with pytest.warns(
        SettingsWarning, match="relay has no effect; the settings in this file are relays and model"
    ) as told:
        assert load().relays == load().relays == ()
    assert len(told) == 1


# ── The language model ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "model", "url"),
    [
        ("ollama:qwen3:4b", "qwen3:4b", "http://127.0.0.1:11434/v1"),
        ("openai:gpt@https://Api.example", "gpt", "https://api.example/v1"),
        ("openai:a/b@https://x.example/api/v1/chat/completions", "a/b", "https://x.example/api/v1"),
    ],
)
def test_a_language_model_is_named_as_an_embedder_is(tmp_path, text, model, url):
    environ = {"SENSE_MEMORY_MODEL": text, "SENSE_MEMORY_MODEL_KEY": "sk-secret"}
    settings = Settings.load(home=tmp_path, environ=environ)
    found = find_model(settings, environ=environ)
    assert (found.model, found.url, found.key) == (model, url, "sk-secret")
    assert "sk-secret" not in repr(found) + repr(settings)


def test_the_config_file_names_a_language_model_and_the_environment_overrides_it(tmp_path):
    assert find_model(Settings.load(home=tmp_path, environ={}), environ={}) is None
    (tmp_path / "config.toml").write_text('model = "ollama:small"\n', encoding="utf-8")
    found = Settings.load(home=tmp_path, environ={})
    assert (found.model.model, found.origins["model"]) == ("small", "config.toml")
    assert Settings.load(home=tmp_path, environ={"SENSE_MEMORY_MODEL": "none"}).model is None


@pytest.mark.parametrize(
    "text",
    ["gpt", "openai:gpt", "openai:m@http://far.example/v1", "openai:m@https://u:sk-1@x.example", "static"],
)
def test_a_mistyped_language_model_is_an_error_only_to_who_needs_it(tmp_path, text):
    environ = {"SENSE_MEMORY_MODEL": text}
    found = Settings.load(home=tmp_path, environ=environ)
    with pytest.raises(
        InvalidSetting, match=r"SENSE_MEMORY_MODEL .*name a language model as none, ollama:MODEL or"
    ) as raised:
        find_model(found, environ=environ)
    assert "sk-1" not in str(raised.value)
    with pytest.raises(InvalidInput, match="the value of SENSE_MEMORY_MODEL_KEY is not a valid key"):
        find_model(
            Settings.load(home=tmp_path, environ={"SENSE_MEMORY_MODEL": "ollama:m"}),
            environ={"SENSE_MEMORY_MODEL_KEY": "two words"},
        )


# ── The embedder ────────────────────────────────────────────────────────────────────────


def test_a_mistyped_embedder_is_an_error_only_to_who_needs_it_but_in_an_argument_at_once(tmp_path):
    found = Settings.load(home=tmp_path, environ={"SENSE_MEMORY_EMBEDDER": "statik"})

    assert found.wants_embedder
    with pytest.raises(
        InvalidSetting, match=r"'statik' cannot be used: not an embedder; write one of none, static"
    ):
        find_embedder(found, environ={})
    with pytest.raises(InvalidSetting, match=r"^embedder \(from argument\): 'statik' cannot be used"):
        Settings.load(home=tmp_path, embedder="statik", environ={})
    assert not Settings.load(home=tmp_path, environ={}).wants_embedder


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("openai:m@https://joe:SECRET@host.example/v1", "openai:m@https://…@host.example/v1"),
        ("openai:m@https://joe:SE/C@RET@host.example/v1", "openai:m@https://…@host.example/v1"),
        ("openai:m@https://host.example/v1?key=SECRET", "openai:m@https://host.example/v1?…"),
        ("openai:m@https://host.example/v1#SECRET", "openai:m@https://host.example/v1#…"),
        ("openai:m@joe:SECRET@host.example", "openai:m@…@host.example"),
        ("https://joe:SECRET@host.example", "https://…@host.example"),
        ("openai:sk-SECRET", "openai:…"),
        ("openai:m@https://joe:SEC\nRET@host", "openai:m@https://…@host"),
        ("openai:m@http://192.0.2.1/v1", "openai:m@http://192.0.2.1/v1"),
        ("sta\x1b[31mtik", "sta\\u001b[31mtik"),
        ("x" * 500, "x" * 100),
    ],
)
def test_what_was_meant_as_an_embedder_is_shown_without_what_may_be_secret(tmp_path, text, shown):
    found = Settings.load(home=tmp_path, environ={"SENSE_MEMORY_EMBEDDER": text})

    with pytest.raises(InvalidSetting) as refused:
        find_embedder(found, environ={})
    assert f"'{shown}' cannot be used: " in str(refused.value)
    assert "SEC" not in str(refused.value)
    assert "RET" not in str(refused.value)


def test_what_revives_and_whether_forgotten_memories_are_shown_come_from_every_source(tmp_path):
    def loaded(**environ):
        settings = Settings.load(home=tmp_path, environ=environ)
        return settings.revive, settings.search_forgotten

    assert loaded() == ("use", False)
    (tmp_path / "config.toml").write_text('revive = "recall"\nsearch_forgotten = true\n')
    assert loaded() == ("recall", True)
    assert loaded(SENSE_MEMORY_REVIVE="use", SENSE_MEMORY_SEARCH_FORGOTTEN="no") == ("use", False)
    with pytest.raises(InvalidSetting, match="must be use or recall"):
        loaded(SENSE_MEMORY_REVIVE="never")
