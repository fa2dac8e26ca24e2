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
    "dismiss": lambda store: store.persona_dismiss("other", "home"),
    "undo": lambda store: store.undo(path("home")),
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
