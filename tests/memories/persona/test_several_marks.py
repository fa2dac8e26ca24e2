"""A memory with several marks, and marks that come back: nothing correct is lost with what was wrong."""

from __future__ import annotations

import pytest

from tests.memories.persona.test_links import FACT, meet, path


async def home(store):
    """The memory `home` as a listing shows it."""
    (found,) = [one for one in await store.persona_recall(include_forgotten=True) if one.key == "home"]
    return found


async def marked_twice(store):
    """`home`, which `moved` has superseded, and then by mistake `other`."""
    await store.persona_remember(*FACT, "home", "Hanna lives in Leipzig.")
    await store.persona_remember(*FACT, "moved", "Hanna lives in Berlin.")
    await store.persona_remember(*FACT, "other", "Jonas eats fish again.")
    assert (await home(store)).superseded_by == path("moved")
    await store.persona_contradict("home", "other")
    assert (await home(store)).superseded_by == path("other")


REMEDIES = {
    "reconcile": lambda store: store.persona_reconcile("home", "other"),
    "dismiss": lambda store: store.palace.reconcile("other", "home"),
    "forget": lambda store: store.persona_forget(*FACT, "other"),
}


@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES)
async def test_when_the_superseding_mark_goes_the_one_before_it_supersedes_again_on_every_device(
    open_store, clock, remedy
):
    async with open_store("one") as one, open_store("two") as two:
        await marked_twice(one)
        await meet(one, two)
        clock.advance(5)

        await remedy(one)
        await two.persona_pin("home")  # without knowing of the remedy
        await meet(one, two)

        for store in (one, two):
            found = await home(store)
            assert (found.superseded_by, found.contradicts) == (path("moved"), (path("moved"),))
        await one.persona_reconcile("home", "moved")
        assert (await home(one)).superseded_by is None


async def test_a_mark_that_does_not_supersede_anymore_can_go_first(open_store, clock):
    async with open_store("one") as store:
        await marked_twice(store)
        await store.persona_contradict("home", "moved")  # the latest again
        clock.advance(5)

        await store.persona_reconcile("home", "other")
        assert (await home(store)).superseded_by == path("moved")

        await store.persona_reconcile("home", "moved")
        assert ((await home(store)).superseded_by, (await home(store)).contradicts) == (None, ())


AGE = "Mila is 7 years old"
BIRTHDAY = "Mila is 8 years old"
LATER = "Mila is 8 years old and in the third grade"


async def age(store):
    """Who supersedes `age`, and who perhaps contradicts it."""
    (found,) = await store.persona_recall(*FACT, "age", revive=False)
    return found.superseded_by, found.suspected_by


@pytest.mark.parametrize("days", [0, 5])
async def test_undo_brings_a_mark_back_that_a_text_made_which_was_suspected_afterwards(
    open_store, clock, days
):
    async with open_store() as store:
        await store.persona_remember(*FACT, "age", AGE)
        clock.advance(days * 86_400)
        await store.persona_remember(*FACT, "birthday", BIRTHDAY)
        assert await age(store) == (path("birthday"), ())
        clock.advance(days * 86_400)
        await store.persona_remember(*FACT, "birthday", LATER)
        assert await age(store) == (None, (path("birthday"),))

        await store.undo(path("birthday"))
        assert await age(store) == (path("birthday"), ())

        assert await store.undo(path("birthday")) is None  # there was no earlier text
        await store.persona_reconcile("age", "birthday")
        assert await age(store) == (None, ())


@pytest.mark.parametrize("mode", ["suggest", "off"])
async def test_undo_sets_no_mark_that_the_text_did_not_make_and_suspects_instead(open_store, clock, mode):
    async with open_store() as store:
        await store.persona_remember(*FACT, "age", AGE)
        await store.persona_remember(*FACT, "birthday", BIRTHDAY, contradictions=mode)
        clock.advance(5)
        await store.persona_remember(*FACT, "birthday", LATER)

        await store.undo(path("birthday"))

        assert await age(store) == (None, (path("birthday"),))


async def test_undo_neither_marks_nor_suspects_what_was_reconciled(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "age", AGE)
        await store.persona_remember(*FACT, "birthday", BIRTHDAY)
        await store.persona_reconcile("age", "birthday")
        clock.advance(5)
        await store.persona_remember(*FACT, "birthday", "Mila likes horses")

        await store.undo(path("birthday"))

        assert await age(store) == (None, ())


async def test_undo_compares_nothing_where_nothing_is_compared(open_store, clock):
    async with open_store(contradictions="off") as store:
        await store.persona_remember(*FACT, "age", AGE)
        await store.persona_remember(*FACT, "birthday", BIRTHDAY)
        clock.advance(5)
        await store.persona_remember(*FACT, "birthday", LATER)

        await store.undo(path("birthday"))

        assert await age(store) == (None, ())
