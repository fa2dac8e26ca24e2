"""`access`: what programs elsewhere may reach, as the user sees and ends it."""

from __future__ import annotations

import re

import pytest

from sense_memory.interfaces.mcp.oauth.access_file import AccessFile


@pytest.fixture
def allow(home):
    """Allows a client, as the consent page does."""

    def allowed(name, agent="default"):
        file = AccessFile(home, agent)
        file.allow(name, name, "claude.ai", "https://memory.example.org/mcp", {})
        file.close()

    return allowed


def test_nobody_has_access_until_somebody_allows_it(cli, allow):
    assert "No program elsewhere has access" in cli("access").stderr + cli("access").stdout
    assert cli.json("access") == {"grants": []}
    allow("Claude")
    assert re.fullmatch(r"1\tClaude\tclaude.ai\tjust now|1\tClaude\t.*\tnever\n", cli("access").stdout)


def test_a_code_stands_alone_on_stdout_and_works_once(cli, home):
    code = cli("access", "code").stdout.strip()
    file = AccessFile(home, "default")
    assert re.fullmatch(r"[0-9A-Z]{4}-[0-9A-Z]{4}", code)
    assert file.spend_code(code)
    assert not file.spend_code(code)
    file.close()


def test_the_access_of_one_program_or_of_all_is_ended(cli, allow):
    for name in ("one", "two", "three"):
        allow(name)

    assert cli("access", "revoke", 2).stdout == "revoked: 1 program\n"
    assert [grant["number"] for grant in cli.json("access")["grants"]] == [1, 3]
    assert "no access with the number 2" in cli("access", "revoke", 2, code=4).stderr
    assert cli.json("access", "revoke", "--all") == {"revoked": [1, 3]}
    assert cli.json("access") == {"grants": []}
    for wrong in (("access", "revoke"), ("access", "revoke", "1", "--all")):
        assert "give either a number or --all" in cli(*wrong, code=2).stderr


def test_each_agent_has_a_list_and_a_code_of_its_own(cli, home, allow):
    allow("Claude", agent="bob")
    assert cli.json("access") == {"grants": []}
    assert len(cli.json("--agent", "bob", "access")["grants"]) == 1

    code = cli("access", "code", "--agent", "bob").stdout.strip()
    file = AccessFile(home, "default")
    assert not file.spend_code(code)
    file.close()
    assert "nsec" not in (home / "access" / "bob.db").read_bytes().decode("latin-1")


def test_the_public_url_needs_a_server_and_must_be_https(cli):
    assert "--public-url needs --listen" in cli("mcp", "--public-url", "https://m.example", code=2).stderr
    wrong = cli("mcp", "--listen", "127.0.0.1:0", "--public-url", "http://m.example", code=2).stderr
    assert "--public-url takes https://HOST" in wrong
