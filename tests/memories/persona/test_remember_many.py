"""Many persona memories in one call: as if each were written alone, in order, and durable batch by batch."""

from __future__ import annotations

import pytest

from sense_memory import InvalidInput, State
from sense_memory.errors import PlanLimitError, SenseMemoryError
from sense_memory.limits import MAX_BATCH_COUNT
from tests.inside import parts_of


DAY = 86_400


def memory(key, value="v", **fields):
    return {"domain": "people", "facet": "facts", "key": key, "value": value, **fields}


async def test_a_batch_is_what_single_calls_would_have_made(open_store, clock):
    """Contradictions with what is there and within the batch, links, and a path that is given twice."""
    given = [
        memory("home", "Lisa lives in Lisbon"),
        memory("work", "Lisa works at the print shop", themes=["work"], connections=["people/facts/home"]),
        memory("home 2", "Lisa lives in Berlin"),
        memory("work", "Lisa works at the print shop in town"),
    ]
    async with open_store("many") as many, open_store("single") as single:
        for store in (many, single):
            await store.persona_remember("people", "facts", "old", "Lisa lives in Porto")
        clock.advance(10)
        told = await many.persona_remember_many(given)
        for fields in given:
            await single.persona_remember(**fields)

        found, expected = [
            {
                memory.path: (memory.value, memory.themes, set(memory.connections), memory.superseded_by)
                for memory in await store.persona_recall(include_forgotten=True)
            }
            for store in (many, single)
        ]
        assert found == expected
        assert told[0].superseded == ("people/facts/old",)
        assert told[2].superseded == ("people/facts/home",)
        assert told[1] == told[3]
        assert len(await many.history("people/facts/work")) == 1


async def test_a_batch_marks_nothing_for_a_text_that_it_replaces(open_store):
    async with open_store() as store:
        await store.persona_remember_many(
            [memory("home", "Lisa lives in Berlin"), memory("town", "Lisa lives in Rome")]
        )
        await store.persona_reconcile("home", "town")  # looked at again where a text claims something else
        told = await store.persona_remember_many(
            [memory("home", "Karl smokes"), memory("town", "Lisa lives in Oslo")]
        )

        assert [item.contradictions for item in told] == [(), ()]
        assert (await store.persona_stats())["superseded"] == 0


async def test_contradictions_in_a_batch_can_be_suggested_or_left(open_store):
    given = [memory("home", "Lisa lives in Lisbon"), memory("home 2", "Lisa lives in Berlin")]
    for mode, suspected in (("suggest", ("people/facts/home",)), ("off", ())):
        async with open_store(mode) as store:
            told = await store.persona_remember_many(given, contradictions=mode)

            assert [item.superseded for item in told] == [(), ()]
            assert told[1].suspected == suspected


async def test_more_than_one_batch_is_written_with_progress(open_store):
    counts = []
    async with open_store() as store:
        told = await store.persona_remember_many(
            (memory(f"k{number}", f"fact number {number}") for number in range(MAX_BATCH_COUNT + 5)),
            progress=counts.append,
        )

        assert counts == [MAX_BATCH_COUNT, MAX_BATCH_COUNT + 5]
        assert len(set(told)) == len(await store.persona_recall()) == MAX_BATCH_COUNT + 5


async def test_a_memory_fades_from_the_date_of_an_import_on(open_store, clock):
    """One half-life ago, one hour ago, and an edit whose date is older than the memory."""
    now = clock()
    async with open_store() as store:
        await store.persona_remember_many(
            [memory("old", created_at=now - 30 * DAY), memory("new")], created_at=now - 3_600
        )
        await store.persona_remember("people", "facts", "ancient", "v", created_at=now - 400 * DAY)
        shown = {item.key: item for item in await store.persona_recall(include_forgotten=True)}

        assert shown["old"].current_relevance == pytest.approx(0.5, abs=1e-9)
        assert shown["old"].created_at == now - 30 * DAY
        assert shown["new"].created_at == now - 3_600
        assert shown["ancient"].state is State.DISSOLVED

        await store.persona_remember("people", "facts", "new", "w", created_at=now - 10 * DAY)
        (edited,) = [item for item in await store.persona_recall() if item.key == "new"]
        assert (edited.value, edited.created_at) == ("w", now - 10 * DAY)
        assert edited.current_relevance > 0.99


async def test_what_failed_to_be_written_contradicts_nothing(open_store):
    """A batch that the clock forbids becomes drafts, and its texts leave no trace in later comparisons."""
    async with open_store() as store:
        await store.persona_remember("people", "facts", "dog", "Lisa owns a dog")
        before = parts_of(store).writer.write

        async def failing(*_, **__):
            raise ZeroDivisionError

        parts_of(store).writer.write = failing
        with pytest.raises(ZeroDivisionError):
            await store.persona_remember_many([memory("home", "Lisa lives in Lisbon")])
        parts_of(store).writer.write = before

        told = await store.persona_remember_many([memory("home 2", "Lisa lives in Berlin")])
        assert told[0].contradictions == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([memory("a"), {"key": "b"}], "entry 2 .'b'.: it must be a mapping with a path"),
        ([memory("a"), memory("b", wings=2)], "entry 2 .'b'.: a memory has no field 'wings'"),
        ([memory("a"), memory("b", " ")], "entry 2 .'b'.: "),
        ([memory("a"), memory("b", created_at=4e9)], "entry 2 .'b'.: created_at must"),
        ([memory("a"), memory("b", "x" * 50_000)], "entry 2 .'people/facts/b'.: "),
        ("text", "a list"),
    ],
)
async def test_a_bad_memory_is_named_and_nothing_is_written(open_store, given, says):
    async with open_store() as store:
        with pytest.raises(InvalidInput, match=says):
            await store.persona_remember_many(given)

        assert await store.persona_recall() == []


@pytest.mark.parametrize("link", ["people/facts/last", "last", "nobody", "a/b/c/d/e", "//"])
async def test_a_link_that_leads_nowhere_is_named_before_the_first_batch_is_written(open_store, link):
    given = [memory(f"k{number}") for number in range(MAX_BATCH_COUNT)]
    async with open_store() as store:
        with pytest.raises(SenseMemoryError, match=rf"entry {MAX_BATCH_COUNT + 1} \('people/facts/last'\)"):
            await store.persona_remember_many([*given, memory("last", connections=[link])])

        assert (await store.persona_stats())["total"] == 0


async def test_the_plan_counts_the_whole_batch(open_store):
    async with open_store(plan="free") as store:
        with pytest.raises(PlanLimitError):
            await store.persona_remember_many(memory(f"k{number}") for number in range(2_000))

        assert await store.persona_recall() == []


async def test_a_memory_that_moves_here_brings_its_past(open_store, clock):
    """The decay goes on where it was: a memory that was written long ago and recalled yesterday is not dissolved."""
    past = {
        "relevance": 0.9,
        "last_accessed": clock() - DAY,
        "last_reinforced": clock() - 2 * DAY,
        "access_count": 7,
        "contradicts": ["people/facts/max"],
        "superseded_by": "people/facts/max",
        "dismissed": ["people/facts/eva"],
    }
    lisa = {"domain": "people", "facet": "facts", "key": "lisa", "value": "Lisa", "created_at": 1_000.0}
    async with open_store() as store:
        max_ = lisa | {"key": "max", "value": "Max"}
        await store.persona_remember_many([max_, lisa | past], contradictions="off")
        (found,) = [memory for memory in await store.persona_as_of(clock()) if memory.key == "lisa"]
        kept = {name: getattr(found, name) for name in past}
        assert kept == past | {"contradicts": ("people/facts/max",), "dismissed": ("people/facts/eva",)}
        assert found.created_at == 1_000.0

        await store.persona_remember_many([lisa | past | {"value": "Lisa moved"}], contradictions="off")
        (again,) = await store.persona_recall("people", "facts", "lisa")
        assert (again.relevance, again.superseded_by) == (
            1.0,
            None,
        )  # an edit here counts, not the past elsewhere


@pytest.mark.parametrize(
    "past",
    [
        {"relevance": 2},
        {"access_count": -1},
        {"last_accessed": "soon"},
        {"superseded_by": ""},
        {"contradicts": "x"},
    ],
)
async def test_a_past_that_cannot_be_is_refused(open_store, past):
    async with open_store() as store:
        with pytest.raises(InvalidInput, match="entry 1"):
            await store.persona_remember_many(
                [{"domain": "d", "facet": "f", "key": "k", "value": "v", **past}]
            )
        assert await store.persona_recall() == []


async def test_what_is_given_last_of_a_path_is_its_later_text(open_store):
    said = (("a", "Ana lives in Rome"), ("b", "Ana lives in Oslo"), ("a", "Ana lives in Paris"))
    given = [{"domain": "people", "facet": "facts", "key": key, "value": value} for key, value in said]
    async with open_store() as store:
        await store.persona_remember_many(given)
        marked = {
            memory.key: memory.superseded_by for memory in await store.persona_recall("people", "facts")
        }
        assert marked == {"a": None, "b": "people/facts/a"}
