"""Credentials in text files: which lines look like a secret, so that a mirror refuses the file.

The rules have the names that gitleaks gives them, where it has them. A finding has the rule and the number of the line,
never the secret. Rules miss what has no shape; they are a net, not a promise. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator

_RULES: Final = {
    "private-key": r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----",
    "putty-private-key": r"^PuTTY-User-Key-File-\d",
    "nostr-secret-key": r"\bnsec1[02-9ac-hj-np-z]{58}\b",
    "age-secret-key": r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}\b",
    "aws-access-token": r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "github-pat": r"\bgh[pousr]_[0-9A-Za-z]{36}",
    "github-fine-grained-pat": r"\bgithub_pat_\w{22,}",
    "gitlab-pat": r"\bgl(?:pat|dt|rt|ptt|soat)-[\w-]{20}",
    "anthropic-api-key": r"\bsk-ant-[\w-]{20,}",
    "openai-api-key": r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}",
    "slack-token": r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}|\bxapp-\d-[A-Z0-9]+-\d+-\w+",
    "slack-webhook-url": r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w+/]{20,}",
    "gcp-api-key": r"\bAIza[\w-]{35}",
    "google-oauth-secret": r"\bGOCSPX-[\w-]{20,}",
    "stripe-access-token": r"\b(?:sk|rk)_(?:test|live|prod)_[0-9A-Za-z]{10,}",
    "npm-access-token": r"\bnpm_[0-9A-Za-z]{36}\b",
    "pypi-upload-token": r"\bpypi-AgE[\w-]{50,}",
    "huggingface-access-token": r"\bhf_[A-Za-z]{34}\b",
    "sendgrid-api-token": r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    "telegram-bot-api-token": r"\b\d{8,10}:AA[\w-]{33}\b",
    "digitalocean-pat": r"\bdo[oprt]_v1_[0-9a-f]{64}\b",
    "jwt": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "curl-auth-header": r"(?i)\bauthorization\b[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+[\w.~+/=-]{16,}",
    "url-with-password": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:(?![\s$<{*]|x+@)[^\s/@\"'<>]{3,200}@[\w.\[-]",
}
_rules = {name: re.compile(pattern) for name, pattern in _RULES.items()}
_hint = re.compile(
    r"-----BEGIN|PuTTY|nsec1|AGE-SECRET|A3T|AKIA|ASIA|ABIA|ACCA|gh[pousr]_|github_pat_|gl\w{2,4}-|sk-|xox|xapp-|hooks\.slack|AIza"
    r"|GOCSPX|[sr]k_|npm_|pypi-|hf_|SG\.|\d:AA|do[oprt]_v1_|eyJ|(?i:authorization)|://"
).search
_assigned = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase|wort)?|pwd|secret(?:[_-]?key)?|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token"
    r"|access[_-]?token|refresh[_-]?token|bearer[_-]?token|client[_-]?secret|credentials?|token)"
    r"[\w-]{0,20}[\"'`*]{0,4}\s{0,5}(?:=|:=|:|=>)\s{0,5}[*]{0,2}([\"'`]?)([^\s\"'`]{6,300})"
).finditer
_placeholder = re.compile(
    r"(?i)^(?:[<\[{(%*]|\$|x{3,}|\.{3}|your|example|changeme|placeholder|redacted|none|null|true|false|process\.env"
    r"|os\.|env\.|getenv|https?:|op://|vault:|file:|/|~/|\d+$)|[(){}<>]|\*{3}|\.\.\.|…"
).search
_files = re.compile(
    r"(?i)(?:^|/)(?:\.env(?:\..+)?|.+\.env|id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|\.pgpass|\.npmrc|\.pypirc|credentials"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore|ppk|kdbx|nsec))$"
).search
_harmless = re.compile(r"(?i)\.env\.(?:example|sample|template|dist)$").search


@dataclass(frozen=True, slots=True)
class Credential:
    """A line that looks like a secret.

    Attributes:
        rule: the name of the rule, such as `github-pat`.
        line: its number, from 1; 0 where the name of the file says it.
    """

    rule: str
    line: int

    def __str__(self) -> str:
        """Where it is, without the secret."""
        return f"line {self.line} ({self.rule})" if self.line else f"its name ({self.rule})"


def credentials_in(name: str, text: str) -> list[Credential]:
    """The lines of a file that look like a secret, each once.

    Args:
        name: of the file, as some names say that a file holds secrets.
        text: of the file.
    """
    found = [Credential("credential-file", 0)] if _files(name) and not _harmless(name) else []
    for number, line in enumerate(text.split("\n"), 1):
        rule = next(_rules_of(line), "")
        if rule:
            found.append(Credential(rule, number))
    return found


def _rules_of(line: str) -> Iterator[str]:
    if _hint(line):
        yield from (name for name, rule in _rules.items() if rule.search(line))
    for match in _assigned(line):
        if _is_secret(match[2], is_quoted=bool(match[1])):
            yield "generic-api-key"


def _is_secret(value: str, *, is_quoted: bool) -> bool:
    """Whether the value of an assignment looks like a secret, and not like a word or a placeholder."""
    value = value.rstrip(".,;:)*")
    if len(value) < 6 or _placeholder(value):
        return False
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return is_quoted or (has_digit and has_letter) or bool(set(value) & set("!@#$%^&+=~"))
