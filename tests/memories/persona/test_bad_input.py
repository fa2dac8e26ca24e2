"""Whatever is passed to a persona method: an error of its own that says what is wrong, and nothing is written.

Beside the faults with a sentence each, every argument of every method is given everything that does not
belong there. A call may take it or refuse it with an `InvalidInput`; it never fails with anything else.
"""

from __future__ import annotations

import pytest

from sense_memory import InvalidInput
from sense_memory.errors import InvalidAddress, TooLargeError
from tests.inside import ledger_of, parts_of


LISA = ("people", "facts", "lisa")
NESTED = "[" * 20_000 + "]" * 20_000


async def state_of(store):
    """Everything that is held: events, drafts, what waits for relays, and accesses."""
    await parts_of(store).persona().palace.refresh()
    await parts_of(store).persona().palace.save_accesses()
    ledger = ledger_of(store)
    return (
        sorted(ledger.bodies()),
        [draft.content for draft in ledger.drafts.all()],
        ledger.edits.accesses(),
        sorted(memory.path for memory in parts_of(store).persona().palace.catalog),
    )


def remember(**fields):
    """A call with one thing wrong in it."""
    good = {"domain": "people", "facet": "facts", "key": "new", "value": "text"}
    return lambda store: store.persona_remember(**{**good, **fields})


MISTAKES = [  # the call, its error, and words of what it says
    (remember(domain=None), InvalidAddress, "a domain must be a non-empty string"),
    (remember(facet="f\\g"), InvalidAddress, r"a facet must not contain '/', '\\', control characters"),
    (remember(key="k\x00"), InvalidAddress, "a memory key must not contain"),
    (remember(key="a..b"), InvalidAddress, r"a memory key must not contain '\.\.'"),
    (remember(key="~k"), InvalidAddress, "must not start with '~'"),
    (remember(domain="d" * 65), InvalidAddress, "a domain may have at most 64 characters, not 65"),
    (remember(key="ﬀ" * 257), InvalidAddress, "at most 256 characters, not 257"),
    (remember(value=None), InvalidInput, "a memory's value must be text, not NoneType"),
    (remember(facet=" "), InvalidAddress, "a facet must not be blank"),
    (remember(value=" \n"), InvalidInput, "a memory's value must not be blank"),
    (remember(value=b"bytes"), InvalidInput, "not bytes"),
    (remember(value="v" * 41 * 1024), TooLargeError, "at most 40,960 fit"),
    (remember(value="\u0001" * 10_000), TooLargeError, "at most 40,960 fit"),  # as JSON six times as long
    (remember(value="half \ud83d of it"), InvalidInput, "not valid Unicode"),
    (remember(themes="art"), InvalidInput, "themes must be a list of texts"),
    (remember(themes={"art": 1}), InvalidInput, "themes must be a list of texts"),
    (remember(themes=0), InvalidInput, "themes must be a list of texts"),
    (remember(themes=["art", ""]), InvalidInput, "themes must be non-empty texts"),
    (remember(themes=["art", 7]), InvalidInput, "themes must be non-empty texts"),
    (remember(themes=["\ud800"]), InvalidInput, "not valid Unicode"),
    (remember(themes=[f"theme {number}" for number in range(65)]), InvalidInput, "at most 64, and 65 were given"),
    (remember(connections="lisa"), InvalidInput, "connections must be a list of texts"),
    (remember(connections=["x/y"]), InvalidInput, "no memory 'x/y' to connect with"),
    (remember(connections=["x/y/"]), InvalidAddress, "a memory key must be a non-empty string"),
    (remember(connections=[f"a/b/{n}" for n in range(257)]), InvalidInput, "at most 256, and 257 were given"),
    (remember(connections=["new"]), InvalidInput, "there is no memory 'new' to connect with"),
    (remember(connections=["people/facts/new"]), InvalidInput, "cannot be connected with itself"),
    (remember(connections=["twin"]), InvalidInput, "several memories have the key 'twin'"),
    (remember(halflife_days=float("nan")), InvalidInput, "halflife_days must be between 1e-05 and 36,500"),
    (remember(halflife_days=float("inf")), InvalidInput, "halflife_days must be"),
    (remember(halflife_days=-30), InvalidInput, "halflife_days must be"),
    (remember(halflife_days=True), InvalidInput, "halflife_days must be"),
    (remember(halflife_days="30"), InvalidInput, "halflife_days must be"),
    (remember(confidence=-0.1), InvalidInput, "confidence must be between 0 and 1"),
    (remember(source="hearsay"), InvalidInput, "source must be user, agent, import, tool:<name>"),
    (remember(source="tool:"), InvalidInput, "source must be"),
    (remember(source="tool:a b"), InvalidInput, "source must be"),
    (remember(source="user\n"), InvalidInput, "source must be"),
    (remember(source=7), InvalidInput, "source must be"),
    (lambda s: s.persona_connect("lisa", "people/facts/lisa"), InvalidInput, "connected with itself"),
    (lambda s: s.persona_connect("lisa", 7), InvalidAddress, "name a memory by domain/facet/key"),
    (lambda s: s.persona_connect("lisa", "k" * 50_000), InvalidInput, "there is no memory 'kkk"),
    (lambda s: s.persona_disconnect("nobody", "lisa"), InvalidInput, "there is no memory 'nobody'"),
    (lambda s: s.persona_contradict("old", "old"), InvalidInput, "contradicted by itself"),
    (lambda s: s.persona_contradict("newer", "old"), InvalidInput, "cannot supersede"),
    (lambda s: s.persona_contradict("newest", "old"), InvalidInput, "directly or through others"),
    (lambda s: s.persona_compress([]), InvalidAddress, "a domain must be"),
    (lambda s: s.persona_compress(count=7), InvalidInput, "count must be a function"),
    (lambda s: s.persona_pin("nobody"), InvalidInput, "there is no memory"),
    (lambda s: s.persona_compress(max_tokens="500"), InvalidInput, "max_tokens must be a whole number"),
    (lambda s: s.persona_facets(""), InvalidAddress, "a domain must be"),
    (lambda s: s.persona_prune(without=7), InvalidInput, "relays must be given by their URLs"),
    (lambda s: s.persona_as_of("yesterday"), InvalidInput, "seconds since 1970"),
    (lambda s: s.persona_as_of(float("nan")), InvalidInput, "seconds since 1970"),
    (lambda s: s.persona_search("lisa", "\ud800" * 5_000), InvalidInput, "limit must be between 1 and 1,000"),
    (lambda s: s.undo(7), InvalidAddress, "the name of a memory must be text"),
]  # fmt: skip


async def test_each_mistake_is_named_and_leaves_everything_as_it_was(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        for domain in ("people", "world"):
            await store.persona_remember(domain, "facts", "twin", f"of {domain}")
        for key in ("old", "newer", "newest"):
            await store.persona_remember("self", "beliefs", key, f"thought {key}")
        await store.persona_contradict("old", "newer")
        await store.persona_contradict("newer", "newest")
        before = await state_of(store)
        for call, error, words in MISTAKES:
            with pytest.raises(error, match=words) as caught:
                await call(store)

            assert type(caught.value) is error, words
            assert len(str(caught.value)) < 600, words
            assert str(caught.value).isprintable(), words
            assert await state_of(store) == before, words


STRANGE = [
    *(None, True, 7, -1, 10**30, 7.5, float("nan"), float("inf"), b"x", object(), range(3)),
    *(
        [],
        {},
        ["x"],
        [None],
        [["x"]],
        [b"x"],
        ["\ud800"],
        {"a": 1},
        {"x"},
        ("a", "b"),
        ["k" * 5_000],
        ["a"] * 300,
    ),
    *(
        "",
        " ",
        "a/b",
        "a/b/c",
        "\\",
        "\x00",
        "\ud800",
        "..",
        "~x",
        "\u202e",
        "k" * 65,
        "k" * 257,
        "v" * 41_000,
    ),
    *("flat", "people/facts/lisa", "persona/people/facts/lisa", "é" * 100, NESTED, '"', "*", '"*"'),
]
ARGUMENTS = {
    "domain": lambda s, x: s.persona_remember(x, "facts", "new", "text"),
    "facet": lambda s, x: s.persona_remember("people", x, "new", "text"),
    "key": lambda s, x: s.persona_remember("people", "facts", x, "text"),
    "value": lambda s, x: s.persona_remember("people", "facts", "new", x),
    "themes": lambda s, x: s.persona_remember("people", "facts", "new", "text", x),
    "connections": lambda s, x: s.persona_remember("people", "facts", "new", "text", (), x),
    "halflife": lambda s, x: s.persona_remember("people", "facts", "new", "text", halflife_days=x),
    "source": lambda s, x: s.persona_remember("people", "facts", "new", "text", source=x),
    "confidence": lambda s, x: s.persona_remember("people", "facts", "new", "text", confidence=x),
    "recall domain": lambda s, x: s.persona_recall(x),
    "recall facet": lambda s, x: s.persona_recall("people", x),
    "recall key": lambda s, x: s.persona_recall("people", "facts", x),
    "recall a key alone": lambda s, x: s.persona_recall(key=x),
    "forget": lambda s, x: s.persona_forget("people", "facts", x),
    "connect": lambda s, x: s.persona_connect("lisa", x),
    "disconnect": lambda s, x: s.persona_disconnect(x, "lisa"),
    "dismiss": lambda s, x: s.palace.reconcile("lisa", x),
    "contradict": lambda s, x: s.persona_contradict(x, "lisa"),
    "search": lambda s, x: s.persona_search(x),
    "search limit": lambda s, x: s.persona_search("lisa", x),
    "compress": lambda s, x: s.persona_compress(x),
    "compress tokens": lambda s, x: s.persona_compress(max_tokens=x),
    "facets": lambda s, x: s.persona_facets(x),
    "prune": lambda s, x: s.persona_prune(without=x),
    "as of": lambda s, x: s.persona_as_of(x),
    "as of domain": lambda s, x: s.persona_as_of(0.0, x),
    "undo": lambda s, x: s.undo(x),
    "history": lambda s, x: s.history(x),
}


@pytest.mark.parametrize("call", ARGUMENTS.values(), ids=ARGUMENTS)
async def test_whatever_is_passed_is_taken_or_refused_as_invalid(open_store, call):
    async with open_store(ledger=":memory:") as store:
        await store.persona_remember(*LISA, "artist")
        for strange in STRANGE:
            before, refused = await state_of(store), None
            try:
                await call(store, strange)
            except InvalidInput as error:
                refused = str(error)
            if refused is not None:
                assert refused.isprintable()
                assert len(refused) < 600
                assert await state_of(store) == before
        await store.persona_remember(*LISA, "still an artist")
        assert store.integrity() == []
