"""R rows: relays that ask who we are (NIP-42), once, without end, or in another's name."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import serve

from relays.faults import AuthGate, AuthStorm, Record


_silent = logging.getLogger(f"{__name__}.library")  # the raw peer's words are no leak of ours
_silent.setLevel(logging.CRITICAL)


class Witness:
    """A signer that notes the challenges it was given to sign."""

    def __init__(self, signer) -> None:
        self._signer, self.public_key = signer, signer.public_key
        self.signed: list[dict[str, str]] = []

    async def sign(self, unsigned):
        if unsigned.kind == 22242:
            self.signed.append(dict(unsigned.tags))
        return await self._signer.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        return await self._signer.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        return await self._signer.decrypt(payload, author)


@pytest.fixture
def witness(stage):
    return Witness(stage.signer)


@pytest.mark.virtual_time
async def test_r08_auth_storm(stage, witness):
    """Ten thousand challenges and never content: three signatures a connection, each for another challenge."""
    async with (
        stage.liar(AuthStorm(10_000)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, signer=witness, offline_first=True, timeouts=stage.quick) as store,
    ):
        await store.remember_many((f"k{number}", stage.plaintext) for number in range(20))
        with stage.traced() as most:
            bad, good = (await stage.sync(store)).relays
            assert most() < 5 * 1024 * 1024

        challenges = [tags["challenge"] for tags in witness.signed]
        assert len(challenges) == 3 * len(liar.upgrades)
        assert len(set(challenges)) == len(challenges)
        assert not bad.complete
        assert good.in_step


@asynccontextmanager
async def redirecting(url):
    """A raw peer: sends every upgrade on to another relay."""

    def redirect(connection, request):
        response = connection.respond(302, "quokka")
        response.headers["Location"] = url
        return response

    async def never(_):
        raise AssertionError

    async with serve(never, "127.0.0.1", 0, process_request=redirect, logger=_silent) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_r09_auth_for_other_url(stage, witness):
    """What is signed names the URL that was dialled, whoever stands behind it; nobody else hears of it."""
    gate, record, other, unasked = AuthGate(), Record(), Record(), AuthGate("unasked")
    async with (
        stage.liar(record, gate) as liar,
        stage.liar(other, unasked) as curious,
        redirecting(liar.url) as elsewhere,
        stage.store(liar, curious, elsewhere, signer=witness) as store,
    ):
        unasked.on = False
        await store.remember("k", stage.plaintext)
        reports = (await stage.sync(store)).relays

        assert reports[0].in_step
        assert reports[1].in_step
        assert reports[2].problem.startswith("configure the address to which it redirects")
        assert [tags["relay"] for tags in witness.signed] == [liar.url]
        (frame,) = record.said("AUTH")
        assert {tuple(tag) for tag in frame[1]["tags"]} == {
            ("relay", liar.url),
            ("challenge", gate.challenge),
        }
        assert other.said("AUTH") == []
        assert len(liar.upgrades) == 1  # nobody followed the redirect


async def test_r10_auth_required_then_ok(stage, witness):
    """Refused, authenticated, sent once more with the same bytes, accepted."""
    record = Record()
    async with (
        stage.liar(record, AuthGate()) as liar,
        stage.store(liar, signer=witness) as store,
    ):
        idents = await store.remember_many((f"k{number}", stage.plaintext) for number in range(3))
        (line,) = (await stage.sync(store)).relays

        assert line.in_step
        assert line.sent == {"accepted": 3}
        assert sorted(record.published) == sorted(idents * 2)
        assert len({str(frame) for frame in record.said("EVENT")}) == 3
        assert len(witness.signed) == 1
        assert {store.relays.holders(ident)[liar.url] for ident in idents} == {"acked"}


async def test_r10_a_relay_that_asks_before_anything_else_is_synced_like_any_other(stage, witness):
    """The embedded relay as a private one: reads and writes need authentication."""
    async with stage.relay(require_auth=True) as relay:
        async with stage.store(relay, signer=witness) as store:
            await store.remember("k", stage.plaintext)
            assert (await stage.sync(store)).in_step
        async with stage.store(relay, signer=witness) as fresh:
            assert (await fresh.recall("k")).value == stage.plaintext
    assert {tags["relay"] for tags in witness.signed} == {relay.url}
