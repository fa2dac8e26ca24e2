from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sense_memory import LocalSigner
from sense_memory.config import keyring as keychain
from sense_memory.config.key_file import read_key_text, write_ncryptsec
from sense_memory.errors import BadKey
from sense_memory.interfaces.cli import app, invocation, keys
from sense_memory.nostr.keys import npub, parse_secret
from sense_memory.nostr.nip49 import encrypt_secret
from tests.interfaces.cli.conftest import NSEC


PASSWORD = "correct horse"


@pytest.fixture
def key_file(home):
    return home / "keys" / "default.key"


def mode(path):
    return path.stat().st_mode & 0o777


def test_init_makes_a_private_key_file_and_shows_the_public_key_only(cli, key_file):
    shown = cli("init").stdout

    with parse_secret(read_key_text(key_file)) as secret:
        assert npub(secret.public_key) in shown
        assert secret.nsec() not in shown
        assert secret.reveal().hex() not in shown
    assert str(key_file) in shown
    assert (mode(key_file), mode(key_file.parent), mode(key_file.parent.parent)) == (0o600, 0o700, 0o700)


def test_init_explains_the_backup_in_a_few_lines_that_fit_80_columns(cli):
    shown, explanation, following = cli("init").stdout.split("\n\n")

    assert 3 <= len(explanation.splitlines()) <= 5
    assert explanation.startswith("Back it up")
    assert all(len(line) <= 80 for line in f"{explanation}\n{following}".splitlines())
    assert all(len(line) <= 80 for line in shown.splitlines() if "/" not in line)  # a path has its length
    assert following == "Next: sense-memory remember KEY VALUE\n"


def test_after_an_import_comes_what_brings_the_memory_back(cli, nsec):
    following = cli("--agent", "bob", "init", "--import", stdin=nsec).stdout.split("\n\n")[2].splitlines()

    assert [line.strip() for line in following[1:]] == [
        "sense-memory --agent bob relays add wss://relay.example",
        "sense-memory --agent bob sync",
        "sense-memory --agent bob import FILE",
    ]


def test_a_missing_key_is_explained_with_the_agent_it_is_missing_for(cli):
    assert "make one with `sense-memory init`" in cli("list", code=1).stderr

    found = cli("list", "--agent", "bob", code=1).stderr
    assert "no secret key of agent bob yet" in found
    assert "make one with `sense-memory --agent bob init`" in found


@pytest.mark.parametrize("chosen", [("--agent", "bob"), ()])
def test_a_key_file_is_advised_only_where_it_would_be_used(cli, agent, home, monkeypatch, chosen):
    key = home / "keys" / "default.key"
    if not chosen:
        monkeypatch.setenv("SENSE_MEMORY_AGENT", "bob")
    advice = cli(*chosen, "list", code=1).stderr
    monkeypatch.setenv("SENSE_MEMORY_KEY_FILE", str(key))

    assert ("or set SENSE_MEMORY_KEY_FILE\nLooked in:\n  " in advice) == (not chosen)
    cli(*chosen, "list", code=1 if chosen else 0)
    if chosen:
        assert "or choose an agent of `sense-memory --agent bob agents`\nLooked in:\n  " in advice
        assert "default" in cli("--agent", "bob", "agents").stdout


def test_a_public_key_in_place_of_the_secret_one_is_recognised(cli, nsec):
    with LocalSigner.from_nsec(nsec)._secret as secret:
        public = npub(secret.public_key)

    assert "this is an npub, the public half" in cli("init", "--import", stdin=public, code=2).stderr
    with pytest.raises(BadKey, match="this is an npub, the public half"):
        LocalSigner.from_nsec(public)


def test_a_key_is_never_overwritten(cli, key_file, nsec):
    cli("init")
    before = key_file.read_bytes()

    assert "never overwritten" in cli("init", code=1).stderr
    assert cli.json("init", code=1)["error"]["type"] == "UnsafeFile"
    cli("init", "--import", stdin=nsec, code=1)
    cli("init", "--import", "--show-nsec", stdin=nsec, code=1)
    assert key_file.read_bytes() == before


def test_every_agent_name_has_a_key_of_its_own(cli, home):
    cli("init")
    cli("--agent", "bob", "init")
    cli("--agent", "bob", "remember", "k", "bob's")

    assert sorted(path.name for path in (home / "keys").iterdir()) == ["bob.key", "default.key"]
    assert cli("--agent", "bob", "recall", "k").stdout == "bob's\n"
    cli("recall", "k", code=4)
    assert cli("--agent", "../x", "init", code=2).stderr.startswith("error: --agent (from the command line)")


@pytest.mark.parametrize("given", ["{nsec}", "{nsec}\n", "  {hex}\r\n", "{HEX}"])
def test_a_key_is_imported_from_stdin_as_nsec_or_hex(cli, key_file, nsec, secrets, given):
    text = given.format(nsec=nsec, hex=secrets[1], HEX=secrets[2])

    result = cli("init", "--import", stdin=text)

    assert key_file.read_text() == f"{nsec}\n"
    assert result.stdout.startswith("Imported the key for agent 'default'.")
    assert not any(secret in result.output for secret in secrets)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "not a valid secret key (nothing was given); give nsec1…, ncryptsec1… or 64 hex digits"),
        ("nsec1", "not a valid secret key (5 characters given); an nsec has 63 characters"),
        (f"{NSEC[:-1]}q", "the checksum of this nsec is wrong: look for a typing error"),
        ("no key", "not a valid secret key (6 characters given); give nsec1…, ncryptsec1… or 64 hex digits"),
        ("f" * 63, "not a valid secret key (63 characters given)"),
    ],
)
def test_what_is_no_key_is_refused_with_2_and_not_repeated(cli, key_file, given, problem):
    result = cli("init", "--import", stdin=given, code=2)

    assert problem in result.stderr
    assert "nothing was written" in result.stderr
    assert len(given) < 6 or given not in result.output
    assert not key_file.exists()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_what_init_shows_can_be_imported_on_another_machine(agent, nsec, tmp_path, monkeypatch, form):
    shown = agent("init", "--show-nsec", *form).stdout
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "other"))

    agent("init", "--import", stdin=shown)

    assert (tmp_path / "other/keys/default.key").read_text().strip() == nsec


def test_a_text_with_two_keys_is_refused_because_one_would_be_a_guess(cli, key_file, nsec):
    from sense_memory import LocalSigner

    result = cli("init", "--import", stdin=f"{nsec}\n{LocalSigner.generate().export_nsec()}\n", code=2)

    assert result.exit_code == 2
    assert nsec not in result.output
    assert not key_file.exists()


def test_a_terminal_is_asked_for_the_key_without_echo(home, key_file, nsec, monkeypatch):
    asked = []

    class Terminal:
        @staticmethod
        def isatty():
            return True

    monkeypatch.setattr(keys.sys, "stdin", Terminal)
    monkeypatch.setattr(keys.typer, "prompt", lambda text, **options: asked.append(options) or nsec)
    with keys._imported(password_stdin=False) as secret:
        assert secret.nsec() == nsec
    assert asked == [{"hide_input": True, "err": True}]


@pytest.mark.parametrize("arguments", [["init", "--import"], ["init"], [], ["recall"]])
def test_a_key_among_the_arguments_is_refused_and_not_repeated(cli, key_file, secrets, arguments):
    result = CliRunner().invoke(app, [*arguments, secrets[0]])

    assert result.exit_code == 2
    assert "a secret key was given as an argument" in " ".join(result.stderr.replace("│", " ").split())
    assert secrets[0] not in result.output
    assert not key_file.exists()


def test_a_hex_key_behind_init_is_refused_and_not_repeated(cli, key_file, secrets):
    result = cli("init", "--import", secrets[1], code=2)

    assert "init takes no argument" in result.stderr
    assert secrets[1] not in result.output
    assert not key_file.exists()


def test_the_secret_is_shown_only_when_asked_for_and_also_later(agent, nsec, key_file):
    before = key_file.read_bytes()

    assert f"nsec        {nsec}\n" in agent("init", "--show-nsec").stdout
    assert agent.json("init", "--show-nsec")["nsec"] == nsec
    assert key_file.read_bytes() == before


def test_init_as_json(cli, key_file):
    found = cli.json("init")

    assert found == {
        "agent": "default",
        "npub": found["npub"],
        "place": f"the key file {key_file}",
        "key_file": str(key_file),
        "done": "made",
        "nsec": None,
    }
    assert cli.json("--agent", "bob", "init", "--show-nsec")["nsec"].startswith("nsec1")


def test_a_key_that_another_one_hides_is_warned_about(cli, nsec, monkeypatch):
    monkeypatch.setenv("NOSTR_NSEC", nsec)

    result = cli("init")

    assert "NOSTR_NSEC in the environment is in use instead of this key" in result.stderr
    assert nsec not in result.output


@pytest.fixture
def encrypted(home, cheap, nsec):
    """The agent's key, encrypted with a password, as its only key."""
    with parse_secret(nsec) as secret:
        write_ncryptsec(home / "keys" / "default.ncryptsec", encrypt_secret(secret, PASSWORD, log_n=16))


def test_an_encrypted_key_is_not_hidden_by_a_new_one(cli, encrypted, key_file, nsec):
    assert "default.ncryptsec" in cli("init", code=1).stderr
    cli("init", "--import", stdin=nsec, code=1)
    assert not key_file.exists()


def test_a_key_in_the_keyring_is_not_hidden_by_a_new_one(cli, home, key_file, nsec, monkeypatch):
    monkeypatch.setattr("platformdirs.user_data_path", lambda *_, **__: home)
    monkeypatch.setattr(keychain, "installed", lambda: True)
    monkeypatch.setattr(keychain, "load", lambda agent: parse_secret(nsec) if agent == "default" else None)

    assert "the system's keyring" in cli("init", code=1).stderr
    assert cli.json("init", "--show-nsec")["nsec"] == nsec
    assert not key_file.exists()
    cli("--agent", "bob", "init")


def test_a_keyring_entry_of_another_home_folder_is_nothing_to_hide(cli, key_file, nsec, monkeypatch):
    monkeypatch.setattr(keychain, "installed", lambda: True)
    monkeypatch.setattr(keychain, "load", lambda agent: parse_secret(nsec))

    assert cli.json("init")["done"] == "made"
    assert key_file.exists()


def test_without_a_terminal_nobody_is_asked_for_a_password(cli, encrypted):
    for command in (["init", "--show-nsec"], ["list"]):
        assert "its password could not be asked for" in cli(*command, code=1).stderr


def test_in_a_terminal_the_password_is_asked_for_unseen(cli, encrypted, nsec, monkeypatch):
    asked = []
    for module in (invocation, keys):
        monkeypatch.setattr(
            module, "password_prompt", lambda: lambda prompt: asked.append(prompt) or PASSWORD
        )

    assert cli.json("list") == []
    assert cli.json("init", "--show-nsec")["nsec"] == nsec
    assert len(asked) == 2


def test_a_password_prompt_needs_a_terminal(monkeypatch):
    class Terminal:
        @staticmethod
        def isatty():
            return True

    assert invocation.password_prompt() is None
    monkeypatch.setattr(invocation.sys, "stderr", Terminal)
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"<{prompt}>")
    assert invocation.password_prompt()("Password for it") == "<Password for it: >"


def test_init_writes_the_file_that_the_settings_name(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("SENSE_MEMORY_KEY_FILE", str(tmp_path / "elsewhere" / "my.key"))

    cli("init")

    assert mode(tmp_path / "elsewhere" / "my.key") == 0o600


# ── An encrypted key, imported ──────────────────────────────────────────────────────────


@pytest.fixture
def ncryptsec(cheap, nsec):
    with parse_secret(nsec) as secret:
        return encrypt_secret(secret, PASSWORD, log_n=16)


def test_an_encrypted_key_is_imported_with_its_password_from_stdin(cli, key_file, nsec, ncryptsec):
    result = cli("init", "--import", "--password-stdin", stdin=f"{ncryptsec}\n{PASSWORD}\n")

    assert key_file.read_text() == f"{nsec}\n"
    assert result.stdout.startswith("Imported the key for agent 'default'.")
    assert PASSWORD not in result.output
    assert ncryptsec[20:] not in result.output


def test_an_encrypted_key_is_imported_with_its_password_typed_unseen(
    cli, key_file, nsec, ncryptsec, monkeypatch
):
    asked = []
    monkeypatch.setattr(keys, "password_prompt", lambda: lambda prompt: asked.append(prompt) or PASSWORD)

    cli("init", "--import", stdin=f"{ncryptsec}\n")

    assert key_file.read_text() == f"{nsec}\n"
    assert asked == ["Password for the key that was given"]


def test_a_plain_key_needs_no_password_even_where_one_could_follow(cli, key_file, nsec):
    cli("init", "--import", "--password-stdin", stdin=nsec)

    assert key_file.read_text() == f"{nsec}\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--password-stdin"], "the password does not open"),
        ([], "as the second line of stdin with --password-stdin"),
    ],
)
def test_an_encrypted_key_that_does_not_open_leaves_nothing(cli, key_file, ncryptsec, options, problem):
    result = cli("init", "--import", *options, stdin=f"{ncryptsec}\n", code=2)

    assert problem in result.stderr
    assert "nothing was written" in result.stderr
    assert ncryptsec[20:] not in result.output
    assert not key_file.exists()


def test_a_password_without_a_key_to_import_is_wrong_usage(cli, key_file):
    assert "give --import too" in cli("init", "--password-stdin", code=2).stderr
    assert not key_file.exists()


# ── agents ──────────────────────────────────────────────────────────────────────────────


def test_agents_are_listed_with_key_ledger_size_and_last_sync(agent, relay):
    bob = agent.json("--agent", "bob", "init")["npub"]
    agent("--agent", "bob", "remember", "k", "v")
    agent("--relay", relay, "sync")

    found = {line["name"]: line for line in agent.json("agents")}

    assert list(found) == ["bob", "default"]
    assert found["bob"]["npub"] == bob
    assert found["bob"]["ledger"].endswith(f"{bob}.db")
    assert found["bob"]["bytes"] > 0
    assert found["bob"]["last_sync"] is None
    assert (
        found["default"]["last_sync"] == agent.json("--relay", relay, "status")["relays"][0]["last_complete"]
    )
    assert [line["is_in_use"] for line in found.values()] == [False, True]
    lines = agent("--agent", "bob", "agents").stdout.splitlines()
    assert [line.split("\t")[::5] for line in lines] == [["bob", "*"], ["default", ""]]


def test_before_the_first_key_there_are_no_agents(cli):
    assert cli.json("agents") == []
    told = cli("agents")
    assert (told.stdout, told.stderr) == (
        "",
        "There are no agents here yet. Make one with: sense-memory init\n",
    )


def test_no_key_is_unlocked_for_the_list_of_agents_and_a_ledger_without_a_name_is_listed_too(
    agent, home, nsec, cheap, monkeypatch
):
    agent("remember", "k", "v")
    (owner,) = [line["npub"] for line in agent.json("agents")]
    (home / "keys" / "default.key").unlink()
    write_ncryptsec(home / "keys" / "default.ncryptsec", encrypt_secret(parse_secret(nsec), PASSWORD))
    monkeypatch.setattr(keychain, "_ask", lambda _: pytest.fail("the keyring was opened"))
    (home / "keys" / "open.key").write_text(nsec)
    (home / "keys" / "open.key").chmod(0o644)

    shown = [(line["name"], line["npub"], line["key"]) for line in agent.json("agents")]

    assert shown == [("default", None, "encrypted"), ("open", None, "unusable"), (None, owner, "none")]


def test_the_key_in_the_environment_is_that_of_the_agent_in_use(cli, nsec, monkeypatch):
    monkeypatch.setenv("NOSTR_NSEC", nsec)
    with parse_secret(nsec) as secret:
        assert [line["npub"] for line in cli.json("agents")] == [npub(secret.public_key)]
    assert nsec not in cli("agents").stdout
