"""Marks, `contradicts` and `superseded_by`: whatever set them, a call takes them away, and then they stay away."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import InvalidInput, LocalSigner, MemoryStore
from sense_memory.errors import TooLargeError


FACT = ("people", "facts")
KEYS = ("a", "b", "c")
TEXTS = ("Lisa lives in Berlin", "Lisa lives in Lisbon", "Lisa lives in Rome", "Omar likes tea")
DAY = 86_400


def path(key):
    return f"people/facts/{key}"


async def marks(store):
    """The pairs (memory, who contradicts or supersedes it) that a store shows."""
    return {
        (memory.path, name)
        for memory in await store.persona_recall(include_forgotten=True)
        for name in (*memory.contradicts, memory.superseded_by)
        if name is not None
    }


async def meet(one, other, is_given=lambda _: True):
    """Exchange every event, or those for which `is_given`, both ways, and merge what was written apart."""
    for giver, taker in ((one, other), (other, one)):
        file = BytesIO()
        giver.export(file)
        events = filter(is_given, file.getvalue().splitlines(keepends=True))
        await taker.import_(BytesIO(b"".join(events)))


async def marked(store):
    """Two memories, of which the second has superseded the first."""
    await store.persona_remember(*FACT, "a", TEXTS[0])
    await store.persona_remember(*FACT, "b", TEXTS[1])
    assert await marks(store) == {(path("a"), path("b"))}


# ── What takes a mark away ──────────────────────────────────────────────────────────────


REMEDIES = {
    "reconcile": lambda store: store.persona_reconcile("a", "b"),
    "reconcile the other way": lambda store: store.persona_reconcile("b", "a"),
    "dismiss": lambda store: store.palace.reconcile("a", "b"),
    "say it again": lambda store: store.persona_remember(*FACT, "a", TEXTS[0]),
}


@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES)
async def test_a_mark_that_was_taken_away_stays_away(open_store, clock, remedy):
    async with open_store("one") as one, open_store("two") as two:
        await marked(one)
        await meet(one, two)
        await two.persona_recall(*FACT, "a")  # an access, which the other device has not heard of
        clock.advance(5)
        await remedy(one)
        assert await marks(one) == set()

        await two.persona_connect("a", "b")
        await meet(one, two)
        await meet(two, one)
        assert await marks(one) == await marks(two) == set()
        for store in (one, two):
            clock.advance(5)
            await store.persona_remember(*FACT, "b", TEXTS[1], ["moved"])
            await store.persona_remember(*FACT, "a", TEXTS[0], ["home"])
            await store.persona_remember(*FACT, "b", f"{TEXTS[1]}.")
            assert await marks(store) == set()


async def test_a_mark_goes_with_the_memory_that_set_it_and_does_not_come_back_with_another_text(
    open_store, clock, written_fields
):
    async with open_store("one") as one, open_store("two") as two:
        await marked(one)
        await meet(one, two)
        await one.persona_forget(*FACT, "b")
        assert await marks(one) == set()
        (old,) = await one.persona_recall(*FACT)
        assert old.current_relevance == pytest.approx(1.0)
        clock.advance(5)
        await meet(one, two)
        assert await marks(two) == set()
        assert (await two.persona_stats())["superseded"] == 0

        await two.persona_remember(
            *FACT, "a", TEXTS[0], halflife_days=9
        )  # the next write drops it for older clients
        assert (await written_fields(two, path("a")))["superseded_by"] is None
        await one.persona_remember(*FACT, "b", TEXTS[3])
        assert await marks(one) == set()
        await meet(one, two)
        assert await marks(one) == await marks(two) == set()


async def test_a_mark_of_a_forgotten_memory_is_not_there_again_after_a_recall_and_a_new_start(
    open_on_disk, clock
):
    async with open_on_disk() as store:
        await marked(store)
        await store.persona_forget(*FACT, "b")
        await store.persona_recall(*FACT, "a")
        clock.advance(5)
        await store.persona_remember(*FACT, "b", TEXTS[3])
    async with open_on_disk() as store:
        assert await marks(store) == set()


async def test_what_is_said_again_is_the_newer_one_and_marks_nothing(open_store, clock):
    async def suspected(store):
        found = (await store.persona_introspect(dry_run=True)).suggested_contradictions
        return [(item.old.key, item.new.key) for item in found]

    async with open_store() as store:
        await marked(store)
        for old, new in (("b", "a"), ("b", "a"), ("a", "b")):
            clock.advance(5)
            told = await store.persona_remember(*FACT, new, TEXTS["ab".index(new)])
            assert (told.superseded, told.suspected) == ((), (path(old),))
            assert [(item.old, item.new, item.acts) for item in told.contradictions] == [
                (path(old), path(new), False)
            ]
            assert (await marks(store), await suspected(store)) == (set(), [(old, new)])
            assert f"(compare {new}, written later)" in await store.persona_compress()
        await store.persona_reconcile("a", "b")
        assert await suspected(store) == []


async def test_a_write_tells_which_marks_it_removed(open_store, clock):
    async with open_store() as store:
        await marked(store)
        await store.persona_remember(*FACT, "c", TEXTS[2])
        clock.advance(5)
        for key, text, gone in (
            ("c", "Lisa paints", {("b", "c")}),
            ("c", "Lisa swims", set()),
            ("a", TEXTS[0], {("a", "b")}),
        ):
            told = await store.persona_remember(*FACT, key, text)
            assert {(one, other) for one, other in told.unmarked} == {(path(a), path(b)) for a, b in gone}


@pytest.mark.parametrize(("is_marked_first", "left"), [(True, set()), (False, {(path("a"), path("b"))})])
async def test_of_a_text_said_again_and_a_mark_by_hand_made_apart_the_later_one_counts(
    open_store, clock, is_marked_first, left
):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[2:], strict=True):
            await one.persona_remember(*FACT, key, text)
        await meet(one, two)
        for says_again in (not is_marked_first, is_marked_first):
            clock.advance(5)
            if says_again:
                await one.persona_remember(*FACT, "a", TEXTS[2])
            else:
                await two.persona_contradict("a", "b")
        await meet(one, two)
        await meet(two, one)
        assert await marks(one) == await marks(two) == left


WAYS_BACK = {
    "undo": lambda store: store.undo(path("b")),
    "remember": lambda store: store.persona_remember(*FACT, "b", "Lisa has a dog"),
    "remember many": lambda store: store.persona_remember_many(
        [{"domain": "people", "facet": "facts", "key": "b", "value": "Lisa's sister lives in Rome"}]
    ),
}


@pytest.mark.parametrize("correct", WAYS_BACK.values(), ids=WAYS_BACK)
async def test_a_mark_goes_with_the_text_that_made_it_and_comes_with_it_again(open_store, clock, correct):
    async with open_store("one") as one, open_store("two") as two:
        await one.persona_remember(*FACT, "a", TEXTS[0])
        await one.persona_remember(*FACT, "b", "Lisa has a dog")
        clock.advance(5)
        assert (await one.persona_remember(*FACT, "b", TEXTS[1])).superseded == (path("a"),)
        await meet(one, two)
        await two.persona_connect("a", "b")  # of which the other device has not heard
        clock.advance(5)

        await correct(one)
        assert await marks(one) == set()
        await meet(one, two)
        await meet(two, one)
        assert await marks(one) == await marks(two) == set()

        clock.advance(5)
        assert (await two.persona_remember(*FACT, "b", TEXTS[2])).superseded == (path("a"),)
        await meet(one, two)
        assert await marks(one) == await marks(two) == {(path("a"), path("b"))}


async def test_undo_sets_the_mark_again_that_went_with_the_text(open_store, clock):
    async with open_store() as store:
        await marked(store)
        clock.advance(5)
        await store.persona_remember(*FACT, "b", "Lisa has a dog")
        assert await marks(store) == set()

        await store.undo(path("b"))

        assert await marks(store) == {(path("a"), path("b"))}


@pytest.mark.parametrize(
    ("texts", "undone", "left"),
    [
        # The text of the mark is gone: what the undo brings back was about another one.
        ({"a": TEXTS[0], "b": TEXTS[1], "b ": TEXTS[3]}, "a", set()),
        ({"a": TEXTS[0], "b": TEXTS[1], "b ": "Lisa will live in Lisbon"}, "a", set()),
        # Said again meanwhile, the other text is the newer one.
        ({"a": TEXTS[0], "b": TEXTS[1], "b ": "note", "a ": TEXTS[0]}, "b", set()),
        # Both texts are what they were.
        ({"a": TEXTS[0], "b": TEXTS[1], "a ": "note"}, "a", {"ab"}),
    ],
)
async def test_undo_brings_back_only_marks_that_the_texts_of_today_account_for(
    open_store, clock, texts, undone, left
):
    async with open_store() as store:
        for key, text in texts.items():
            clock.advance(5 if key == "a " else 0)
            await store.persona_remember(*FACT, key.strip(), text)
        await store.undo(path(undone))
        assert await marks(store) == {(path(one), path(other)) for one, other in left}


async def test_a_mark_stays_while_the_text_clearly_contradicts_the_other_one_or_if_a_hand_set_it(
    open_store, clock
):
    async with open_store() as store:
        await marked(store)
        await store.persona_remember(*FACT, "c", TEXTS[3])
        await store.persona_contradict("c", "b")
        clock.advance(5)
        assert (await store.persona_remember(*FACT, "b", TEXTS[2])).unmarked == ()
        assert await marks(store) == {(path("a"), path("b")), (path("c"), path("b"))}
        told = await store.persona_remember(*FACT, "b", "Lisa lives in Trastevere")  # only suspected
        assert (told.unmarked, told.suspected) == (((path("a"), path("b")),), (path("a"),))
        assert await marks(store) == {(path("c"), path("b"))}
        found = (await store.persona_introspect(dry_run=True)).suggested_contradictions
        assert [(item.old.key, item.new.key) for item in found] == [("a", "b")]
        await store.persona_remember(*FACT, "b", "Lisa has a dog")
        assert await marks(store) == {(path("c"), path("b"))}


@pytest.mark.parametrize("mode", ["act", "off"])
async def test_a_mark_that_a_hand_set_and_the_rules_would_set_too_stays_until_a_hand_takes_it_away(
    open_store, clock, mode
):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[:2], strict=True):
            await one.persona_remember(*FACT, key, text, contradictions=mode)
        await one.persona_contradict("a", "b")
        await meet(one, two)
        await two.persona_recall(*FACT, "a")
        clock.advance(5)
        for text in ("Lisa has a dog", TEXTS[2]):
            await two.persona_remember(*FACT, "b", text)
            await meet(one, two)
            assert await marks(one) == await marks(two) == {(path("a"), path("b"))}
        clock.advance(5)
        await two.persona_reconcile("a", "b")
        await two.persona_remember(*FACT, "b", TEXTS[1])  # now the rules mark it
        assert await marks(two) == {(path("a"), path("b"))}
        clock.advance(5)
        await two.persona_remember(*FACT, "b", "Lisa has a dog")
        await meet(one, two)
        assert await marks(one) == await marks(two) == set()


async def test_a_memory_that_was_forgotten_marks_again_once_it_is_remembered_anew(open_store, clock):
    async with open_store() as store:
        await marked(store)
        await store.persona_forget(*FACT, "b")
        clock.advance(5)
        remembered = await store.persona_remember(*FACT, "b", TEXTS[1])

        assert remembered.superseded == (path("a"),)
        assert await marks(store) == {(path("a"), path("b"))}


async def test_what_is_imported_from_the_past_supersedes_nothing_that_was_said_later(open_store, clock):
    year = 365 * DAY
    async with open_store() as store:
        await store.persona_remember(*FACT, "a", TEXTS[0], created_at=clock() - year)
        old = await store.persona_remember(*FACT, "b", TEXTS[1], created_at=clock() - 2 * year)
        assert (old.superseded, old.suspected) == ((), (path("a"),))
        assert [(item.old, item.new, item.acts) for item in old.contradictions] == [
            (path("b"), path("a"), False)
        ]
        assert await marks(store) == set()

        new = await store.persona_remember(*FACT, "c", TEXTS[2], created_at=clock() - year / 2)
        assert set(new.superseded) == {path("a"), path("b")}


async def test_a_mark_of_a_memory_that_was_pruned_does_not_count(open_store, clock):
    async with open_store() as store:
        await marked(store)
        await store.persona_remember(*FACT, "b", TEXTS[1], halflife_days=1)
        for _ in range(4):
            clock.advance(20 * DAY)
            await store.persona_recall(*FACT, "a")
            await store.persona_prune()
        assert [memory.key for memory in await store.persona_recall(include_forgotten=True)] == ["a"]
        assert await marks(store) == set()


async def test_what_was_reconciled_is_looked_at_again_where_a_text_claims_something_else(open_store, clock):
    async with open_store() as store:
        await marked(store)
        await store.persona_reconcile("a", "b")
        remembered = await store.persona_remember(*FACT, "b", TEXTS[2])

        assert remembered.superseded == (path("a"),)
        assert await marks(store) == {(path("a"), path("b"))}
        await store.persona_reconcile("a", "b")
        assert await marks(store) == set()


async def test_whoever_insists_may_mark_what_was_reconciled(open_store):
    async with open_store("one") as one, open_store("two") as two:
        await marked(one)
        await one.persona_reconcile("a", "b")
        await one.persona_contradict("a", "b")
        await meet(one, two)

        assert await marks(one) == await marks(two) == {(path("a"), path("b"))}


@pytest.mark.parametrize(
    "decisions",
    [
        ("reconcile", "contradict"),
        ("contradict", "reconcile"),
        (
            "reconcile",
            "contradict",
            "reconcile",
        ),  # which changes nothing on its device, until the devices meet
        ("contradict", "reconcile", "contradict"),
    ],
)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_what_a_hand_decided_on_two_devices_in_turn_the_last_counts(
    open_store, clock, decisions, order
):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[2:], strict=True):
            await one.persona_remember(*FACT, key, text)
        await meet(one, two)
        for number, decision in enumerate(decisions):
            clock.advance(5)
            await getattr((one, two)[number % 2], f"persona_{decision}")("a", "b")
        clock.advance(5)
        for store in (one, two):  # a later version, which decides nothing, is no later decision
            await store.persona_pin("a")
        for _ in range(2):
            await meet(*((one, two)[number] for number in order))

        expected = {(path("a"), path("b"))} if decisions[-1] == "contradict" else set()
        assert await marks(one) == await marks(two) == expected


async def test_what_is_decided_about_a_pair_is_decided_for_both_of_them(open_store, clock):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[2:], strict=True):
            await one.persona_remember(*FACT, key, text)
        await one.persona_contradict("b", "a")
        clock.advance(5)
        await one.persona_remember(*FACT, "b", "Lisa has a dog")
        await meet(one, two)
        clock.advance(5)
        await two.persona_contradict("a", "b")
        clock.advance(5)
        await one.undo(path("b"))
        assert await marks(one) == {(path("b"), path("a"))}
        await one.persona_reconcile("a", "b")  # here, only "b" is marked: "a" dismisses it from before
        await meet(one, two)

        assert await marks(one) == await marks(two) == set()


async def test_of_two_marked_by_each_other_on_two_devices_the_newer_stands(open_store, clock):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[2:], strict=True):
            await one.persona_remember(*FACT, key, text)
            clock.advance(5)
        await meet(one, two)
        await one.persona_contradict("a", "b")
        await two.persona_contradict("b", "a")
        await meet(one, two)
        await meet(two, one)
        assert await marks(one) == await marks(two) == {(path("a"), path("b"))}
        with pytest.raises(InvalidInput, match="cannot supersede"):
            await two.persona_contradict("b", "a")
        await two.persona_remember(*FACT, "b", TEXTS[3])  # says again what stands
        assert await marks(two) == {(path("a"), path("b"))}

        for days in (
            60,
            40,
        ):  # a superseded memory dissolves within the first, and is deleted after the second
            clock.advance(days * DAY)
            await one.persona_prune()
        assert [memory.key for memory in await one.persona_recall(include_forgotten=True)] == ["b"]


async def test_two_that_were_marked_by_each_other_on_two_devices_are_both_freed(open_store, clock):
    async with open_store("one") as one, open_store("two") as two:
        for key, text in zip("ab", TEXTS[2:], strict=True):
            await one.persona_remember(*FACT, key, text)
        await meet(one, two)
        await one.persona_contradict("a", "b")
        await two.persona_contradict("b", "a")
        await meet(one, two)
        await meet(two, one)
        await two.persona_reconcile("a", "b")
        await meet(one, two)
        assert await marks(one) == await marks(two) == set()

        await one.persona_contradict("b", "a")
        await meet(one, two)
        assert await marks(one) == await marks(two) == {(path("b"), path("a"))}


async def test_a_memory_as_long_as_an_event_can_be_freed(open_store):
    async with open_store() as store:
        await store.persona_remember(*FACT, "b", "x")
        shortest, longest = 40_000, 40_960
        while shortest + 1 < longest:
            length = (shortest + longest) // 2
            try:
                await store.persona_remember(*FACT, "a", "v" * length)
                await store.persona_contradict("a", "b")
            except TooLargeError:
                longest = length
            else:
                shortest = length
        await store.persona_remember(*FACT, "a", "v" * shortest)
        await store.persona_contradict("a", "b")
        await store.persona_reconcile("a", "b")

        assert await marks(store) == set()


# ── Any sequence ────────────────────────────────────────────────────────────────────────


WHATS = (
    *("remember",) * 5,
    *("contradict", "contradict", "reconcile", "reconcile", "forget", "undo", "undo", "connect", "recall"),
    *("meet", "meet", "meet in part", "meet in part", "prune"),
)
moves = st.tuples(
    st.sampled_from(WHATS),
    st.integers(0, 1),
    st.sampled_from(KEYS),
    st.sampled_from(KEYS),
    st.sampled_from(TEXTS),
    st.sampled_from((1, 1, 60, 40 * DAY)),
)


def dealt(seed, count):
    """Moves from a seed."""
    chance = random.Random(seed)
    draw = chance.choice
    return [
        (draw(WHATS), chance.randrange(2), draw(KEYS), draw(KEYS), draw(TEXTS), draw((1, 1, 60, 40 * DAY)))
        for _ in range(count)
    ]


class Devices:
    """Two devices of one key, which exchange events when they meet."""

    def __init__(self):
        self.now = 1_800_000_000.0

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            signer = LocalSigner.from_hex("2a" * 32)
            options = {"ledger": ":memory:", "background": False, "clock": lambda: self.now}
            self.stores = [await stack.enter_async_context(MemoryStore(signer, **options)) for _ in range(2)]
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    async def move(self, deal):
        what, device, key, other, text, seconds = deal
        self.now += seconds
        store = self.stores[device]
        match what:
            case "remember":
                await store.persona_remember(*FACT, key, text)
            case "forget":
                await store.persona_forget(*FACT, key)
            case "undo":
                await store.undo(path(key))
            case "recall":
                await store.persona_recall(*FACT, key)
            case "prune":
                await store.persona_prune()
            case "meet":
                await meet(store, self.stores[1 - device])
            case "meet in part":  # of a pair of memories that changed together, one may arrive alone
                chance = random.Random(str(deal))
                await meet(store, self.stores[1 - device], lambda _: chance.random() < 0.5)
            case _:
                with suppress(InvalidInput):  # there is no such memory, or it supersedes the other already
                    await getattr(store, f"persona_{what}")(path(key), path(other))

    async def free(self, device):
        """Take away every mark that one device shows, while the other one changes the memories; returns the pairs."""
        freed, store, other = set(), self.stores[device], self.stores[1 - device]
        for pair in sorted(await marks(store)):
            if pair in await marks(store):  # else it went with another one
                await store.persona_reconcile(*pair)
                freed.add(frozenset(pair))
                with suppress(InvalidInput):
                    await other.persona_connect(*pair)
        assert await marks(store) == set()
        return freed

    async def shown(self):
        return {frozenset(pair) for store in self.stores for pair in await marks(store)}


async def game(deal):
    """Play, then take away what is marked: nothing of it comes back, whatever the devices tell each other."""
    async with Devices() as devices:
        for move in deal:
            await devices.move(move)
        freed = set()
        for device in (
            0,
            1,
            0,
            1,
        ):  # a mark may have been hidden here, because its memory was forgotten here only
            freed |= await devices.free(device)
            devices.now += 10
            await meet(*devices.stores)
            assert not await devices.shown() & freed
        assert await devices.shown() == set()
        for store in devices.stores:
            for memory in await store.persona_recall(include_forgotten=True):
                devices.now += 10
                await store.persona_remember(*FACT, memory.key, memory.value)
                assert not await devices.shown() & freed
        await meet(*devices.stores)
        assert not await devices.shown() & freed


@settings(max_examples=25)
@given(st.lists(moves, max_size=30))
def test_no_sequence_of_calls_leaves_a_mark_that_no_call_can_take_away(deal):
    asyncio.run(game(deal))
