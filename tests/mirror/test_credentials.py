"""Lines that look like a secret, and lines that only speak of one. No secret here is a real one."""

from __future__ import annotations

import pytest

from sense_memory.mirror.credentials import credentials_in


A = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789"
SECRETS = {
    "private-key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "nostr-secret-key": "nsec1" + "q" * 58,
    "age-secret-key": "AGE-SECRET-KEY-1" + "Q" * 58,
    "aws-access-token": "AKIAIOSFODNN7EXAMPLE",
    "github-pat": "ghp_" + A[:36],
    "github-fine-grained-pat": "github_pat_" + A[:40],
    "gitlab-pat": "glpat-" + A[:20],
    "anthropic-api-key": "sk-ant-api03-" + A[:40],
    "openai-api-key": "sk-proj-" + A[:40],
    "slack-token": "xoxb-" + "1" * 12 + "-" + A[:20],
    "slack-webhook-url": "https://hooks.slack.com/services/T00000000/B00000000/" + A[:24],
    "gcp-api-key": "AIza" + A[:35],
    "stripe-access-token": "sk_live_" + A[:24],
    "npm-access-token": "npm_" + A[:36],
    "huggingface-access-token": "hf_" + "a" * 34,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + A[:20],
    "curl-auth-header": "Authorization: Bearer " + A[:30],
    "url-with-password": "postgres://ada:hunter2@db.example/app",
    "generic-api-key": 'password = "correct horse"'.replace(" horse", "horse"),
}
HARMLESS = (
    "The password is in the vault; ask Ada.",
    "api_key: stored in 1Password",
    "password: <your password>",
    "token = os.environ['TOKEN']",
    "export API_KEY=$API_KEY",
    "password=changeme",
    "secret: ${{ secrets.DEPLOY }}",
    "Tokens: 1500 of 2000",
    "token_limit: 128000",
    "https://ada@github.com/ada/engine.git",
    "https://user:${PASSWORD}@host.example/",
    "npub1" + "q" * 58,
    "-----BEGIN PUBLIC KEY-----",
    "the task-based sk-learn pipeline",
    "risk-assessment-of-the-whole-organisation-and-more",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "password: see the wiki",
    "keep the secret: never tell",
)


@pytest.mark.parametrize(("rule", "line"), SECRETS.items(), ids=SECRETS)
def test_a_secret_is_found_by_its_line_and_never_repeated(rule, line):
    (found,) = credentials_in("notes.md", f"# Notes\n\nuse {line} here\n")

    assert (found.rule, found.line) == (rule, 3)
    assert line not in str(found)


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_only_speaks_of_a_secret_is_none(line):
    assert credentials_in("notes.md", f"{line}\n") == []


@pytest.mark.parametrize(
    "name", [".env", "prod.env", ".env.local", "keys/id_ed25519", ".netrc", "server.pem", "a/.npmrc"]
)
def test_some_names_say_that_a_file_holds_secrets(name):
    assert [str(found) for found in credentials_in(name, "x\n")] == ["its name (credential-file)"]
    assert credentials_in(".env.example", "x\n") == []


def test_a_line_that_was_made_to_be_slow_is_not():
    hard = (
        "password" * 400,
        "a" * 20_000 + "://" + "b" * 20_000,
        "token=" * 3_000,
        "-----BEGIN " + "A " * 9_000,
    )
    for line in hard:
        credentials_in("notes.md", line)
