"""Why two versions have the same text: `history` says what else a version changed."""

from __future__ import annotations

import pytest

from sense_memory import EmbeddedRelay, MemoryStore


DAY = 86_400
LISA = ("people", "facts", "lisa")
NAME, BOB = "people/facts/lisa", "people/facts/bob"


@pytest.fixture
def open_store(signer, clock, tmp_path):
    def make(name="a", relays=()):
        return MemoryStore(signer, relays, ledger=tmp_path / f"{name}.db", clock=clock, background=False)

    return make


STEPS = [
    (lambda store: store.persona_connect("lisa", "bob"), (f"connected with {BOB}",)),
    (lambda store: store.persona_disconnect("lisa", "bob"), (f"no longer connected with {BOB}",)),
    (lambda store: store.persona_contradict("lisa", "bob"), (f"marked as contradicted by {BOB}",)),
    (
        lambda store: store.persona_reconcile("lisa", "bob"),
        (f"no longer marked as contradicted by {BOB}", f"without suggestions about {BOB}"),
    ),
    (lambda store: store.persona_remember(*LISA, "artist", halflife_days=60), ("half-life 30 → 60 days",)),
    (lambda store: store.persona_remember(*LISA, "artist", ["art"]), ("other themes",)),
    (lambda store: store.persona_remember(*LISA, "artist"), ("the same text written again",)),
    (lambda store: store.refresh(NAME), ("signed again",)),
    (lambda store: store.persona_remember(*LISA, "painter"), ()),
    (lambda store: store.persona_remember(*LISA, "sculptor", ["stone"]), ("other themes",)),
]


async def test_each_version_says_what_it_changed_other_than_its_text(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "bob", "text of bob")
        await store.persona_remember(*LISA, "artist")
        for step, words in STEPS:
            clock.advance(60)
            await step(store)
            assert (await store.history(NAME))[0].changes == words
        clock.advance(DAY)
        for _ in range(2):
            await store.persona_recall(*LISA)
        await store.persona_connect("lisa", "bob")

        newest = (await store.history(NAME))[0]
        assert newest.changes == (f"connected with {BOB}", "recalled 2 times")
        assert (await store.history(NAME))[-1].changes == ()


async def test_a_flat_memory_that_is_said_or_signed_again_says_so(open_store, clock):
    async with open_store() as store:
        await store.remember("k", "one")
        for step in (store.remember("k", "one"), store.refresh("k"), store.remember("k", "two")):
            clock.advance(60)
            await step

        told = [version.changes for version in await store.history("k")]
        assert told == [(), ("signed again",), ("the same text written again",), ()]


async def test_a_version_of_a_flat_memory_that_did_not_know_the_one_before_says_so(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay, open_store("a", [relay.url]) as one:
        async with open_store("b", [relay.url]) as other:
            for store, text in ((one, "here"), (other, "elsewhere")):
                clock.advance(60)
                await store.remember("k", text)
            await other.sync()
            await one.sync()
            await one.remember("k", "in knowledge of both")

        told = [(version.value, version.changes) for version in await one.history("k")]
        assert told == [
            ("in knowledge of both", ()),
            ("elsewhere", ("written without knowing the version before",)),
            ("here", ()),
        ]
