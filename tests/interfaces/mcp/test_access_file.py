"""Laws of what is given away and kept: sealed texts, and a random game of tokens beside a model in memory."""

from __future__ import annotations

import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.interfaces.mcp.oauth.access_file import (
    ACCESS_SECONDS,
    AUTHORIZATION_SECONDS,
    REFRESH_SECONDS,
    RETRY_SECONDS,
    AccessFile,
)
from sense_memory.interfaces.mcp.oauth.sealed_text import Sealer


RESOURCE = "https://memory.example.org/mcp"
STEPS = (1.0, RETRY_SECONDS + 1.0, AUTHORIZATION_SECONDS + 1.0, ACCESS_SECONDS + 1.0, REFRESH_SECONDS + 1.0)
KINDS = ("code", "refresh", "access")


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(), st.text() | st.none() | st.lists(st.text())),
    st.integers(min_value=0),
    st.integers(0, 255),
)
def test_what_was_sealed_is_opened_as_it_was_and_a_changed_text_is_not(value, place, byte):
    sealer = Sealer(b"k" * 32, lambda: 100.0)
    text = sealer.seal("client", value, 5)
    changed = list(text)
    changed[place % len(text)] = "-" if changed[place % len(text)] != "-" else "_"

    assert sealer.opened("client", text) == value
    assert sealer.opened("consent", text) is None
    assert Sealer(bytes([byte]) * 32, lambda: 100.0).opened("client", text) in (
        None,
        value if byte == ord("k") else None,
    )
    assert Sealer(b"k" * 32, lambda: 106.0).opened("client", text) is None
    # The last character has bits that mean nothing.
    assert sealer.opened("client", "".join(changed)) is None or place % len(text) == len(text) - 1


class Model:
    """What the file should know, as plain as it can be."""

    def __init__(self):
        self.tokens, self.alive = {}, set()

    def issue(self, token, kind, grant, until):
        self.tokens[token] = {"kind": kind, "grant": grant, "until": until, "spent": None}

    def redeemable(self, kind, token, now):
        """Whether a token gives new ones; one that is used again too late ends its grant."""
        known = self.tokens.get(token)
        if known is None or known["kind"] != kind or known["grant"] not in self.alive or known["until"] < now:
            return False
        if known["spent"] is None or (kind == "refresh" and now - known["spent"] <= RETRY_SECONDS):
            known["spent"] = now if known["spent"] is None else known["spent"]
            return True
        self.alive.discard(known["grant"])
        return False

    def admits(self, token, now):
        known = self.tokens.get(token)
        return bool(
            known and known["kind"] == "access" and known["grant"] in self.alive and known["until"] >= now
        )

    def listed(self, now):
        open_ = (one for one in self.tokens.values() if one["spent"] is None and one["until"] >= now)
        return {one["grant"] for one in open_} & self.alive


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_tokens_are_worth_what_the_model_says(tmp_path, seed):
    rng, now, numbers = random.Random(seed), [1_800_000_000.0], count(1)
    file, model = AccessFile(tmp_path, "default", lambda: now[0]), Model()
    for _ in range(60):
        deed = rng.choice(("allow", "redeem", "redeem", "redeem", "verify", "revoke", "wait"))
        token = rng.choice([*model.tokens][-8:] or ["unknown"])
        if deed == "allow":
            code, grant = file.allow("client", "Claude", "claude.ai", RESOURCE, {}), next(numbers)
            model.alive.add(grant)
            model.issue(code, "code", grant, now[0] + AUTHORIZATION_SECONDS)
        elif deed == "redeem":
            kind = rng.choice(KINDS[:2])
            expected, pair = model.redeemable(kind, token, now[0]), file.redeem(kind, token)
            assert (pair is not None) == expected
            if pair is not None:
                grant = model.tokens[token]["grant"]
                model.issue(pair.access, "access", grant, now[0] + ACCESS_SECONDS)
                model.issue(pair.refresh, "refresh", grant, now[0] + REFRESH_SECONDS)
        elif deed == "revoke" and model.alive:
            grant = rng.choice(sorted(model.alive))
            file.revoke(grant)
            model.alive.discard(grant)
        elif deed == "wait":
            now[0] += rng.choice(STEPS)
        for one in [*model.tokens][-8:]:
            assert (file.verify(one, RESOURCE) is not None) == model.admits(one, now[0])
        assert {grant.number for grant in file.grants()} == model.listed(now[0])
    file.close()
