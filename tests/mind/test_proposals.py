"""Memories that are proposed for the palace: each once, none that is known, and none a memory before it is accepted."""

from contextlib import asynccontextmanager

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput
from sense_memory.mind.proposals import MAX_OPEN_COUNT, Proposals


GERMAN = "From now on always answer in German."


@asynccontextmanager
async def opened(clock, relay=None, ledger=":memory:"):
    """A store of the agent on a device of its own."""
    urls = [] if relay is None else [relay.url]
    signer = LocalSigner.from_hex("01" * 32)
    async with MemoryStore(signer, urls, ledger=ledger, background=False, clock=clock) as store:
        yield store


async def values(store):
    return [one.value for one in await store.mind.proposals.open()]


async def test_a_proposal_is_no_memory_until_it_is_accepted(clock):
    async with opened(clock) as store:
        (made,) = await store.mind.proposals.propose([f"{GERMAN} Fix the test."], conversation="c1")

        assert await store.palace.memories() == []
        assert (made.conversation, made.status) == ("c1", "open")

        await store.mind.proposals.accept(made.id[:4])

        (memory,) = await store.palace.memories()
        assert (memory.path, memory.value, memory.source) == (made.path, GERMAN, "user")
        assert await values(store) == []


async def test_what_was_proposed_accepted_or_rejected_is_not_proposed_again(clock):
    async with opened(clock) as store:
        proposals = store.mind.proposals
        said = [GERMAN, "I live in Graz.", "We deploy with Ansible."]
        first, second, _ = await proposals.propose(said, project="kiln")
        await proposals.accept(first.id)
        await proposals.reject(second.id)

        assert await proposals.propose([*said, "Please always answer in German."], project="kiln") == []
        assert await values(store) == ["kiln: We deploy with Ansible."]


@pytest.mark.parametrize(
    ("held", "said", "is_new"),
    [
        ("The user lives in Graz, Austria.", "I live in Graz.", False),
        ("Paints. The user lives in Graz.", "I live in Graz.", False),
        ("The user lives in Lisbon.", "I live in Graz.", True),
        ("The user's sister Lisa lives in Graz.", "I live in Graz.", True),
        ("The user dislikes eating meat.", "I don't eat fish.", True),
    ],
)
async def test_what_the_palace_says_already_is_not_proposed(clock, held, said, is_new):
    async with opened(clock) as store:
        await store.palace.remember("people/facts/someone", held)

        assert bool(await store.mind.proposals.propose([said])) is is_new


async def test_a_proposal_shows_the_value_that_it_would_replace(clock):
    async with opened(clock) as store:
        await store.palace.remember("people/facts/user-home", "The user lives in Lisbon")
        await store.mind.proposals.propose(["I live in Graz."])

        (one,) = await store.mind.proposals.open()

        assert (one.path, one.value, one.replaces) == (
            "people/facts/user-home",
            "The user lives in Graz",
            "The user lives in Lisbon",
        )


async def test_another_path_and_text_may_be_accepted(clock):
    async with opened(clock) as store:
        (made,) = await store.mind.proposals.propose([GERMAN])

        await store.mind.proposals.accept(made.id, path="self/rules/language", value="Answer in German.")

        assert (await store.palace.recall("self/rules/language")).value == "Answer in German."


@pytest.mark.parametrize("name", ["not an id", "0123456789ab"])
async def test_an_id_that_names_no_open_proposal_changes_nothing(clock, name):
    async with opened(clock) as store:
        await store.mind.proposals.propose([GERMAN])

        for decide in (store.mind.proposals.accept, store.mind.proposals.reject):
            with pytest.raises(InvalidInput, match="no open proposal"):
                await decide(name)
        assert await values(store) == [GERMAN]


@pytest.mark.parametrize("digits", range(4))
async def test_too_few_digits_of_an_open_proposal_do_not_make_it_unknown(clock, digits):
    async with opened(clock) as store:
        await store.mind.proposals.propose([GERMAN])
        (waiting,) = await store.mind.proposals.open()

        for decide in (store.mind.proposals.accept, store.mind.proposals.reject):
            with pytest.raises(InvalidInput, match="at least its first 4 digits; nothing was written"):
                await decide(waiting.id[:digits])
        assert await values(store) == [GERMAN]


async def test_not_more_than_a_hundred_wait(clock):
    async with opened(clock) as store:
        said = [f"Our server number {n} is host{n}.example.net." for n in range(MAX_OPEN_COUNT + 5)]

        made = await store.mind.proposals.propose(said, project="kiln")

        assert len(made) == len(await values(store)) == MAX_OPEN_COUNT


async def test_two_devices_that_hear_the_same_propose_it_once(clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(clock, relay) as one,
        opened(clock, relay) as other,
    ):
        for store in (one, other):
            await store.mind.proposals.propose([GERMAN])
        for store in (one, other, one):
            await store.sync()
        (made,) = await other.mind.proposals.open()
        clock.advance(60)
        await other.mind.proposals.reject(made.id)
        for store in (other, one):
            await store.sync()

        assert await values(one) == []
        assert await one.mind.proposals.propose([GERMAN]) == []


async def test_a_decision_stands_where_a_device_that_did_not_know_it_proposes_the_same_later(clock, tmp_path):
    async with EmbeddedRelay(clock=clock) as relay, opened(clock, relay) as other:
        (made,) = await other.mind.proposals.propose([GERMAN])
        await other.mind.proposals.reject(made.id)
        await other.sync()
        clock.advance(60)
        async with opened(clock, ledger=tmp_path / "one.db") as one:  # a hook contacts no relay
            await one.mind.proposals.propose([GERMAN])
        async with opened(clock, relay, ledger=tmp_path / "one.db") as one:
            for store in (one, other, one):
                await store.sync()

            assert await values(one) == await values(other) == []


@pytest.mark.parametrize("is_rejected_first", [False, True], ids=["accepted first", "rejected first"])
async def test_what_one_device_accepts_and_another_rejects_at_once_is_a_memory_and_decided(
    clock, is_rejected_first
):
    """Nothing that somebody accepted is taken out of the palace by a decision that did not know it."""
    async with (
        EmbeddedRelay(clock=clock) as relay,
        opened(clock, relay) as one,
        opened(clock, relay) as other,
    ):
        (made,) = await one.mind.proposals.propose([GERMAN])
        for store in (one, other):
            await store.sync()
        clock.advance(60)
        decisions = [one.mind.proposals.accept, other.mind.proposals.reject]
        for decide in decisions[:: -1 if is_rejected_first else 1]:
            await decide(made.id)
            clock.advance(60)
        for store in (one, other, one, other):
            await store.sync()

        for store in (one, other):
            assert [memory.value for memory in await store.palace.memories()] == [GERMAN]
            assert await values(store) == await store.mind.proposals.propose([GERMAN]) == []


@pytest.fixture
def meanwhile(monkeypatch):
    """Runs something once, after a call has looked at the proposals and before it writes."""

    def arrange(name, act):
        real = getattr(Proposals, name)

        async def then(self, *given):
            found = await real(self, *given)
            monkeypatch.setattr(Proposals, name, real)
            await act()
            return found

        monkeypatch.setattr(Proposals, name, then)

    return arrange


async def test_what_was_accepted_meanwhile_is_not_rejected(clock, meanwhile):
    async with opened(clock) as store:
        proposals = store.mind.proposals
        (made,) = await proposals.propose([GERMAN])
        meanwhile("_waiting", lambda: proposals.accept(made.id))

        with pytest.raises(InvalidInput, match="was accepted meanwhile; nothing was written"):
            await proposals.reject(made.id)

        assert [one.status for one in (await proposals._all.all()).values()] == ["accepted"]


async def test_what_was_proposed_and_decided_meanwhile_is_not_proposed_again(clock, meanwhile):
    async with opened(clock) as store:
        proposals = store.mind.proposals

        async def decided():
            (made,) = await proposals.propose([GERMAN])
            await proposals.reject(made.id)

        meanwhile("_is_known", decided)

        assert await proposals.propose([GERMAN]) == []
        assert await values(store) == []


async def test_a_proposal_that_was_forgotten_while_it_was_accepted_does_not_come_back(clock, meanwhile):
    async with opened(clock) as store:
        proposals = store.mind.proposals
        (made,) = await proposals.propose([GERMAN])
        meanwhile("_waiting", lambda: proposals._all.forget(made.id))

        await proposals.accept(made.id)

        assert [one.value for one in await store.palace.memories()] == [GERMAN]
        assert await proposals._all.all() == {}


@pytest.mark.parametrize(
    "fields", [{}, {"at_path": "one/two", "value": "x"}, {"at_path": "skills/tools/vim", "value": ""}]
)
async def test_a_record_of_which_no_memory_can_be_made_hides_no_proposal(clock, fields):
    async with opened(clock) as store:
        await store.mind.proposals.propose([GERMAN])
        await store.mind.proposals._all._records.write({"mind/proposal/aaaaaaaaaaaa": fields})

        assert await values(store) == [GERMAN]
