"""LangGraph's store in a palace: against LangGraph's own store in memory, and in what goes beyond it."""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore, StoreClosed, SyncMemoryStore
from sense_memory.errors import InvalidInput, NotSynced, TooLargeError


pytest.importorskip("langgraph.store.base", reason="the extra `langgraph` is not installed")

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from sense_memory.interfaces.langgraph_store import SenseMemoryStore


KEY = LocalSigner.generate()
DAY = 86_400.0
USER = ("users", "1")


@asynccontextmanager
async def opened(clock=None, **options):
    more = {} if clock is None else {"clock": clock}
    async with MemoryStore(KEY, ledger=":memory:", **more) as palace:
        yield SenseMemoryStore(palace, **options), palace


def seen(items):
    return {(item.namespace, item.key): item.value for item in items}


# ── The same as LangGraph's own ─────────────────────────────────────────────────────────

LABEL = st.sampled_from(["a", "b", "c/d", "e\u0301", "~", "flat", "x" * 65])
SPACE = st.lists(LABEL, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "", "a.b", "..", "%2F", "\x00"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
VALUES = st.one_of(
    st.fixed_dictionaries({"content": st.text() | JSON}),
    st.fixed_dictionaries({"n": st.integers(-3, 3), "tag": st.sampled_from("xy")}, optional={"x": JSON}),
    st.dictionaries(st.sampled_from(["langgraph", "value", "content"]), JSON),
)
FILTERS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"tag": st.sampled_from("xy")}),
    st.fixed_dictionaries({"tag": st.fixed_dictionaries({"$ne": st.sampled_from("xy")})}),
    st.fixed_dictionaries({"x": JSON}),
)
CONDITION = st.tuples(
    st.sampled_from(["prefix", "suffix"]), st.lists(LABEL | st.just("*"), max_size=2).map(tuple)
).map(lambda given: MatchCondition(*given))
INDEX = st.sampled_from([None, False, ["content"]])
PUT = st.tuples(SPACE, KEYS, VALUES | st.none(), INDEX).map(lambda given: PutOp(*given))
GET = st.tuples(SPACE, KEYS).map(lambda given: GetOp(*given))
SEARCH = st.tuples(st.lists(LABEL, max_size=2).map(tuple), FILTERS).map(
    lambda given: SearchOp(*given, limit=1_000)
)
LIST = st.tuples(st.none() | st.lists(CONDITION, max_size=2).map(tuple), st.none() | st.integers(1, 3)).map(
    lambda given: ListNamespacesOp(*given, limit=1_000)
)


@settings(max_examples=25)
@given(st.lists(st.lists(PUT | GET | SEARCH, min_size=1, max_size=6), max_size=6), LIST)
def test_it_answers_as_the_store_in_memory_does(batches, listing):
    """Any batches of operations. The one in memory lists namespaces that hold nothing, so its items are listed."""

    async def play():
        reference = InMemoryStore()
        async with opened() as (store, _):
            for batch in batches:
                for wanted, found in zip(reference.batch(batch), await store.abatch(batch), strict=True):
                    if isinstance(wanted, list):
                        assert seen(wanted) == seen(found)
                    elif wanted is None:
                        assert found is None
                    else:
                        assert seen([wanted]) == seen([found])
            items = await store.asearch((), limit=1_000)
            mirror = InMemoryStore()
            mirror.batch([PutOp(item.namespace, "k", {}) for item in items])
            assert mirror.batch([listing]) == await store.abatch([listing])

    asyncio.run(play())


NUMBERS = [{"n": n, "s": chr(97 + n), "o": {"p": n, "q": [n]}} for n in range(5)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": {"$gt": 2}}, {3, 4}),
        ({"n": {"$gte": 2, "$lt": 4}}, {2, 3}),
        ({"n": {"$lte": 0}}, {0}),
        ({"n": {"$eq": 1}}, {1}),
        ({"n": {"$ne": 1}}, {0, 2, 3, 4}),
        ({"s": {"$gt": "c"}}, {3, 4}),
        ({"s": {"$gt": 1}}, set()),
        ({"missing": {"$gt": 1}}, set()),
        ({"missing": None}, {0, 1, 2, 3, 4}),
        ({"o": {"p": {"$gt": 3}}}, {4}),
        ({"o": {"q": [2]}}, {2}),
        ({"o": {"q": [2, 3]}}, set()),
        ({"n": 1, "s": "c"}, set()),
    ],
)
async def test_filters(wanted, found):
    async with opened() as (store, _):
        await store.abatch([PutOp(USER, str(value["n"]), value) for value in NUMBERS])

        items = await store.asearch(("users",), filter=wanted)

        assert {item.value["n"] for item in items} == found


async def test_pages_put_together_are_the_whole_newest_first(clock):
    async with opened(clock) as (store, _):
        for n in range(7):
            clock.advance(1)
            await store.aput(USER, f"k{n}", {"n": n, "content": "coffee"})

        pages = [await store.asearch(USER, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
        hits = [await store.asearch(USER, query="coffee", limit=3, offset=offset) for offset in (0, 3, 6, 9)]

        assert [3, 3, 1, 0] == [len(page) for page in pages] == [len(page) for page in hits]
        assert [6, 5, 4, 3, 2, 1, 0] == [item.value["n"] for page in pages for item in page]
        assert len({item.key for page in hits for item in page}) == 7


async def test_namespaces_are_cut_and_paged():
    async with opened() as (store, _):
        for space in (
            ("a", "b", "c"),
            ("a", "b", "d", "e"),
            ("a", "b", "d", "i"),
            ("a", "b", "f"),
            ("a", "c", "f"),
        ):
            await store.aput(space, "k", {"n": 1})

        cut = await store.alist_namespaces(prefix=("a", "b"), max_depth=3)

        assert [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")] == cut
        assert [("a", "b", "f"), ("a", "c", "f")] == await store.alist_namespaces(suffix=("f",))
        assert [("a", "b", "d", "i")] == await store.alist_namespaces(
            prefix=("a", "*", "d"), limit=1, offset=1
        )


# ── One palace ──────────────────────────────────────────────────────────────────────────


async def test_a_graph_and_its_owner_see_the_same_memories():
    async with opened(fill=False) as (store, palace):
        await palace.persona_remember("people", "facts", "lisa", "Teaches printmaking.")
        await store.aput(("people", "facts"), "tom", {"content": "Bakes bread."})
        await store.aput(("people", "facts"), "ann", {"name": "Ann", "age": 41})

        written = {memory.key: memory.value for memory in await palace.persona_recall("people", "facts")}

        assert {
            "lisa": "Teaches printmaking.",
            "tom": "Bakes bread.",
            "ann": '{"name": "Ann", "age": 41}',
        } == written
        assert {"content": "Teaches printmaking."} == (await store.aget(("people", "facts"), "lisa")).value
        assert ["lisa"] == [hit.key for hit in await store.asearch(("people",), query="printmaking")]


async def test_a_memory_that_no_namespace_leads_to_is_not_shown():
    async with opened() as (store, palace):
        for domain, facet, key in (("v1.2", "f", "k"), ("d", "v1%2E2", "k"), ("d", "a.b", "k")):
            await palace.persona_remember(domain, facet, key, "coffee")

        assert [("d", "a", "b")] == await store.alist_namespaces()
        for found in (await store.asearch(()), await store.asearch((), query="coffee")):
            assert [(("d", "a", "b"), "k")] == [(item.namespace, item.key) for item in found]
            assert await store.aget(found[0].namespace, found[0].key) is not None


async def test_a_put_marks_no_other_memory_as_superseded():
    async with opened() as (store, palace):
        await palace.persona_remember("self", "facts", "home", "I live in Lisbon.")
        await store.aput(("self", "facts"), "home2", {"content": "I live in Porto."})

        (before,) = await palace.persona_recall("self", "facts", "home")

        assert (None, ()) == (before.superseded_by, before.contradicts)


async def test_dates(clock, tmp_path):
    async with opened(clock) as (store, palace):
        await store.aput(USER, "k", {"n": 1})
        clock.advance(60)
        await store.aput(USER, "k", {"n": 2})
        clock.advance(60)

        item = await store.aget(USER, "k")

        assert [clock.now - 120, clock.now - 60] == [item.created_at.timestamp(), item.updated_at.timestamp()]
        assert item.created_at.tzinfo is not None
        await palace.flush()
        palace.export(tmp_path / "all.jsonl")

    async with opened(clock) as (store, palace):
        await palace.import_(tmp_path / "all.jsonl")
        clock.advance(60)
        assert item == await store.aget(USER, "k")  # the times too, though it was recalled and restored


# ── Search ──────────────────────────────────────────────────────────────────────────────


async def test_a_query_finds_by_words_with_a_score_the_best_first():
    async with opened(fill=False) as (store, _):
        await store.aput(USER, "a", {"content": "She prefers green tea in the morning."})
        await store.aput(USER, "b", {"content": "Green walls."})
        await store.aput(("others",), "c", {"content": "Green tea."})

        hits = await store.asearch(USER, query="Which green tea does she like?")

        assert ["a", "b"] == [hit.key for hit in hits]
        assert hits[0].score > hits[1].score > 0
        assert [] == await store.asearch(USER, query="printmaking")


async def test_index_says_what_a_query_searches():
    value = {
        "title": "Sailing in Norway",
        "pages": [{"text": "fjords"}, {"text": "harbours"}],
        "secret": "coffee",
    }
    async with opened(fill=False) as (store, _):
        await store.aput(USER, "whole", value)
        await store.aput(USER, "never", value, index=False)
        await store.aput(USER, "some", value, index=["title", "pages[*].text"])
        await store.aput(USER, "first", value, index=["pages[0].text"])

        async def found(query):
            return {hit.key for hit in await store.asearch(USER, query=query)}

        assert {"whole", "some"} == await found("sailed")
        assert {"whole", "some", "first"} == await found("fjord")
        assert {"whole", "some"} == await found("harb*")
        assert {"whole"} == await found("coffee")
        assert {value["title"]} == {item.value["title"] for item in await store.asearch(USER)}
        assert value == (await store.aget(USER, "never")).value


async def test_fields_are_the_default_of_index():
    async with opened(fields=["title"], fill=False) as (store, _):
        await store.aput(USER, "k", {"title": "Sailing", "secret": "coffee"})

        assert [] == await store.asearch(USER, query="coffee")
        assert ["k"] == [hit.key for hit in await store.asearch(USER, query="sailing")]


async def test_much_that_a_filter_leaves_out_hides_nothing():
    async with opened() as (store, _):
        await store.abatch(
            [PutOp(USER, f"k{n}", {"content": "coffee " * (50 - n % 50), "n": n}) for n in range(150)]
        )

        hits = await store.asearch(USER, query="coffee", filter={"n": {"$gte": 147}}, limit=3)

        assert {147, 148, 149} == {hit.value["n"] for hit in hits}


# ── Time to live ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("minutes", [0.001, 1 / 60, 0.05, 0.1, 60, 60 * 24 * 365])
async def test_an_item_is_there_until_its_time_is_over(clock, minutes):
    async with opened(clock) as (store, palace):
        await store.aput(USER, "k", {"content": "coffee"}, ttl=minutes)
        for share in (0.2, 0.4, 0.6, 0.999):  # also while it fades
            clock.now = 1_800_000_000 + minutes * 60 * share
            assert await store.aget(USER, "k", refresh_ttl=False) is not None
            assert ["k"] == [hit.key for hit in await store.asearch(USER, query="coffee", refresh_ttl=False)]

        clock.now = 1_800_000_000 + minutes * 60 * 1.001

        assert await store.aget(USER, "k") is None
        assert [] == await store.asearch(USER) == await store.asearch(USER, query="coffee")
        assert [] == await store.alist_namespaces()
        assert [0] == [memory.access_count for memory in await palace.persona_recall(include_forgotten=True)]


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.aget(USER, "k"),
        lambda store: store.asearch(USER),
        lambda store: store.asearch(USER, query="coffee"),
    ],
)
@pytest.mark.parametrize("minutes", [1 / 60, 60])
async def test_reading_begins_the_time_anew_unless_it_is_not_to(clock, read, minutes):
    async with (
        opened(clock, ttl={"default_ttl": minutes}) as (store, _),
        opened(clock, ttl={"default_ttl": minutes, "refresh_on_read": False}) as (other, _),
    ):
        for each in (store, other):
            await each.aput(USER, "k", {"content": "coffee"})
        for _ in range(2):
            clock.advance(minutes * 45)
            await read(store)
            await read(other)

        assert await store.aget(USER, "k") is not None
        assert await other.aget(USER, "k") is None


async def test_without_a_time_to_live_an_item_never_fades_and_a_search_counts_as_a_use_of_other_memories(
    clock,
):
    async with opened(clock) as (store, palace):
        await palace.persona_remember("users", "1", "mine", "Coffee, at nine.")
        await store.aput(USER, "k", {"content": "coffee"})
        clock.advance(60 * DAY)
        (kept,) = [memory for memory in await palace.persona_recall() if memory.key == "k"]
        assert kept.current_relevance > 0.99
        await store.asearch(USER, query="coffee")

        there = {memory.key: memory for memory in await palace.persona_recall()}

        assert there["k"].current_relevance > 0.99
        assert math.isclose(there["mine"].current_relevance, 0.5**0.5)


@pytest.mark.parametrize("minutes", [0, -1, math.inf, math.nan, True, "60", 1e12])
async def test_a_time_to_live_that_cannot_be_kept_is_refused(minutes):
    async with opened() as (store, palace):
        with pytest.raises(InvalidInput, match="ttl must be a number of minutes"):
            await store.aput(USER, "k", {"n": 1}, ttl=minutes)

        assert [] == await palace.persona_recall()


# ── Refusals ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [
        {1: "a"},
        {"a": {2: "b"}},
        {"a": math.nan},
        {"a": math.inf},
        {"a": object()},
        {"a": {1, 2}},
        {"a": 10**5_000},
    ],
)
async def test_what_json_cannot_hold_is_refused_and_nothing_of_the_batch_is_written(value):
    async with opened() as (store, palace):
        with pytest.raises(InvalidInput, match="a value must be JSON"):
            await store.abatch([PutOp(USER, "good", {"n": 1}), PutOp(USER, "bad", value)])

        assert [] == await palace.persona_recall()


async def test_a_value_that_is_too_long_is_refused_and_the_earlier_one_stays():
    async with opened() as (store, _):
        await store.aput(USER, "k", {"content": "coffee"})
        with pytest.raises(TooLargeError):
            await store.abatch([PutOp(USER, "other", {"n": 1}), PutOp(USER, "k", {"content": "x" * 50_000})])

        assert {(USER, "k"): {"content": "coffee"}} == seen(await store.asearch(()))


async def test_a_namespace_may_be_a_list_wherever_it_may_be_a_tuple():
    async with opened() as (store, _):
        await store.aput([*USER, "notes"], "k", {"content": "tea"})
        await store.aput((*USER, "notes"), "other", {"content": "tea"})

        for kind in (list, tuple):
            user, space = kind(USER), kind([*USER, "notes"])
            found = await store.aget(space, "k")
            assert ((*USER, "notes"), {"content": "tea"}) == (found.namespace, found.value)
            assert 2 == len(await store.asearch(user)) == len(await store.asearch(user, query="tea"))
            for wanted in ({"prefix": user}, {"suffix": kind(["*", "notes"])}):
                assert [(*USER, "notes")] == await store.alist_namespaces(**wanted)
            got, hits, spaces, put = await store.abatch(
                [
                    GetOp(space, "k"),
                    SearchOp(user),
                    ListNamespacesOp(kind([MatchCondition("prefix", user)]), max_depth=2),
                    PutOp(space, "k", {"content": "tea"}),
                ]
            )
            assert (found.value, 2, [USER], None) == (got.value, len(hits), spaces, put)

        await store.abatch([PutOp([*USER, "notes"], "k", {"n": 1}), PutOp((*USER, "notes"), "k", {"n": 2})])
        assert {"n": 2} == (
            await store.aget((*USER, "notes"), "k")
        ).value  # one item, and the last write counts
        await store.adelete([*USER, "notes"], "k")
        assert await store.aget((*USER, "notes"), "k") is None


@pytest.mark.parametrize("space", ["ab", None, 5, {"a": 1}, {"a"}])
@pytest.mark.parametrize("operation", [PutOp, GetOp, SearchOp, ListNamespacesOp])
async def test_what_is_no_namespace_at_all_is_refused(operation, space):
    given = {
        PutOp: (space, "k", {}),
        GetOp: (space, "k"),
        SearchOp: (space,),
        ListNamespacesOp: ([MatchCondition("prefix", space)],),
    }
    async with opened() as (store, palace):
        await store.aput(("a", "b"), "k", {"n": 1})
        with pytest.raises(InvalidInput, match="a namespace must be a tuple or a list of labels"):
            await store.abatch([operation(*given[operation])])

        assert 1 == len(await palace.persona_recall())


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", True, math.nan])
@pytest.mark.parametrize("name", ["limit", "offset", "max_depth"])
async def test_a_number_that_is_none_is_refused(name, wrong):
    ops = [ListNamespacesOp(**{name: wrong})]
    ops += [] if name == "max_depth" else [SearchOp((), **{name: wrong})]
    async with opened() as (store, _):
        for op in ops:
            with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
                await store.abatch([op])


@pytest.mark.parametrize("space", [("a.b",), ("",), ("a", "x\x00"), (1,)])
@pytest.mark.parametrize("operation", [PutOp, GetOp, SearchOp, ListNamespacesOp])
async def test_a_namespace_that_cannot_be_one_is_refused_also_in_a_batch(operation, space):
    given = {
        PutOp: (space, "k", {}),
        GetOp: (space, "k"),
        SearchOp: (space,),
        ListNamespacesOp: ((MatchCondition("prefix", space),),),
    }
    async with opened() as (store, _):
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([operation(*given[operation])])


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        (PutOp((), "k", {}), "cannot be empty"),
        (PutOp(USER, "k" * 257, {}), "at most 256"),
        (PutOp(USER, "k", {}, index="content"), "index must be"),
        (SearchOp(USER, {"n": {"$in": [1]}}), "a filter may have"),
        (ListNamespacesOp((MatchCondition("infix", ("a",)),)), "prefix or a suffix"),
        (ListNamespacesOp(max_depth=0), "1 or more"),
        (ListNamespacesOp((("prefix", ("a",)),)), "list of MatchCondition"),
        (ListNamespacesOp(5), "list of MatchCondition"),
        (SearchOp(USER, [1]), "a filter must be a dict, not list"),
        (GetOp(USER, 5), "a key must be text, not int"),
        (PutOp(USER, None, {}), "a key must be text, not NoneType"),
        (PutOp(USER, "k", [1]), "a value must be a dict, not list"),
        ("get", "not an operation"),
    ],
)
async def test_what_no_store_can_do_is_refused(op, problem):
    async with opened() as (store, palace):
        await store.aput(USER, "there", {"n": 1})
        with pytest.raises(InvalidInput, match=problem):
            await store.abatch([op])

        assert 1 == len(await palace.persona_recall())


async def test_deleting_what_is_not_there_writes_nothing():
    async with opened() as (store, palace):
        await store.adelete(USER, "k")

        assert 0 == palace.status().counts["events"]


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"langgraph": {"index": false}, "value": {"a": 1}}', "{", " ", ""]
)
async def test_a_text_that_looks_like_json_stays_a_text(text):
    async with opened() as (store, _):
        await store.aput(USER, "k", {"content": text})

        assert {"content": text} == (await store.aget(USER, "k")).value


async def test_names_that_nothing_can_have_are_not_there():
    async with opened() as (store, _):
        assert await store.aget(USER, "k" * 300) is None
        assert (
            await store.abatch([GetOp((), "k"), PutOp((), "k", None), PutOp(USER, "k" * 300, None)])
            == [None] * 3
        )


async def test_not_asked_is_not_absent():
    async with MemoryStore(
        KEY, ["ws://127.0.0.1:9"], ledger=":memory:", background=False, close_timeout=0
    ) as palace:
        with pytest.raises(NotSynced):
            await SenseMemoryStore(palace).aget(USER, "k")


# ── Threads and loops ───────────────────────────────────────────────────────────────────


async def test_many_at_once_and_from_threads():
    async with opened() as (store, palace):
        await asyncio.gather(
            *(store.abatch([PutOp(USER, f"k{n}", {"n": n}), GetOp(USER, "k0")]) for n in range(100))
        )
        threads = [asyncio.to_thread(store.put, USER, f"t{n}", {"n": n}) for n in range(10)]
        loops = [asyncio.to_thread(asyncio.run, store.aput(USER, f"l{n}", {"n": n})) for n in range(10)]
        await asyncio.gather(*threads, *loops)

        assert (
            120
            == len(await asyncio.to_thread(store.search, USER, limit=200))
            == len(await palace.persona_recall())
        )


async def test_one_put_that_fails_fails_alone():
    async with opened() as (store, _):
        puts = [store.aput(USER, f"k{n}", {"content": "x" * (50_000 if n == 5 else 5)}) for n in range(10)]
        done = await asyncio.gather(*puts, return_exceptions=True)

        assert [5] == [n for n, result in enumerate(done) if isinstance(result, TooLargeError)]
        assert 9 == len(await store.asearch(USER, limit=20))


async def test_a_blocking_call_in_the_loop_of_the_store_is_refused_and_does_not_hang():
    async with opened() as (store, _):
        with pytest.raises(asyncio.InvalidStateError, match="await the asynchronous method"):
            store.get(USER, "k")


def test_a_program_without_a_loop_uses_the_blocking_store():
    with SyncMemoryStore(KEY, ledger=":memory:") as palace:
        store = SenseMemoryStore(palace)
        store.put(USER, "k", {"n": 1})
        store.delete(USER, "gone")

        assert {"n": 1} == store.get(USER, "k").value
        assert {"n": 1} == asyncio.run(store.aget(USER, "k")).value


def test_it_cannot_be_made_where_no_store_can_answer():
    with pytest.raises(InvalidInput, match="no event loop runs here"):
        SenseMemoryStore(MemoryStore(KEY, ledger=":memory:"))
    with pytest.raises(InvalidInput, match="give an open MemoryStore"):
        SenseMemoryStore("store")


async def test_a_thread_that_waits_while_the_loop_of_the_store_ends_is_told():
    """`asyncio.run` ends by cancelling what still runs; whoever waits for that in a thread must not hang."""

    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.get_running_loop().create_future()  # the cancellation ends it

    async with opened() as (store, _):
        with pytest.raises(StoreClosed):
            await asyncio.to_thread(store._calls.wait, cancelled())


def test_after_the_store_is_closed_every_call_says_so():
    async def play():
        async with opened() as (store, _):
            pass
        with pytest.raises(StoreClosed):
            await store.aget(USER, "k")
        return store

    store = asyncio.run(play())
    for call in (lambda: store.get(USER, "k"), lambda: asyncio.run(store.aput(USER, "k", {"n": 1}))):
        with pytest.raises(StoreClosed):
            call()
