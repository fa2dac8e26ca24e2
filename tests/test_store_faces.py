"""`store.palace`, `store.journal` and `store.relays`: what belongs together, in both faces of a store."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import threading

import pytest

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.store.palace import StorePalace
from sense_memory.store.persona_names import PersonaNames


LISA = "people/facts/lisa"
NAMES = [name for name in vars(PersonaNames) if name.startswith("persona_")]


@pytest.fixture
def signer():
    return LocalSigner.generate()


def parameters_of(function):
    return [(item.name, item.kind, item.default) for item in inspect.signature(function).parameters.values()][
        1:
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_specification_takes_what_the_call_of_the_palace_takes(name):
    """A domain, a facet and a key are a path there; `palace.memories` is `persona_recall` without a key, too."""
    short = {"persona_recall": "memories"}.get(name, name.removeprefix("persona_"))
    given, wanted = parameters_of(getattr(MemoryStore, name)), parameters_of(getattr(StorePalace, short))
    if wanted[:1] and wanted[0][0] == "path":
        assert [item[0] for item in given[:3]] == ["domain", "facet", "key"]
        given, wanted = given[3:], wanted[1:]
    assert given == wanted


async def test_the_specifications_names_are_calls_of_the_palace(signer):
    async with MemoryStore(signer, ledger=":memory:", clock=lambda: 1_790_000_000.0) as store:
        await store.persona_remember("people", "facts", "lisa", "Lisa teaches printmaking.", ["art"])
        assert [memory.path for memory in await store.palace.memories()] == [LISA]
        (recalled,) = await store.persona_recall("people", "facts", "lisa", revive=False)
        assert recalled == await store.palace.recall(LISA, revive=False)
        assert await store.persona_search("printmaking") == await store.palace.search("printmaking")
        await store.persona_forget("people", "facts", "lisa")
        assert await store.palace.recall(LISA) is None


@pytest.mark.parametrize("name", ["/a/b", "a//b", "a/b/", "/", "a/b", "a/b/c/d"])
async def test_what_is_neither_a_key_nor_a_path_is_refused_by_what_it_should_be(signer, name):
    said = f"'{name}' is neither a key nor a path domain/facet/key"
    async with MemoryStore(signer, ledger=":memory:") as store:
        for call in (store.recall, store.palace.recall, store.forget, store.history):
            with pytest.raises(InvalidAddress) as refused:
                await call(name)
            assert str(refused.value).removesuffix("; nothing was forgotten") == said


async def test_of_many_names_one_that_is_no_text_forgets_none(signer):
    async with MemoryStore(signer, ledger=":memory:") as store:
        await store.remember("zone", "Lisbon")
        with pytest.raises(InvalidAddress) as refused:
            await store.forget_many(["zone", None])
        assert str(refused.value) == "the name of a memory must be text, not NoneType; nothing was forgotten"
        assert (await store.recall("zone")).value == "Lisbon"


async def test_a_path_is_a_path_in_every_call_that_takes_a_key(signer):
    async with MemoryStore(signer, ledger=":memory:") as store:
        await store.remember("zone", "Lisbon")
        await store.remember(LISA, "Lisa teaches printmaking.")
        await store.remember(LISA, "Lisa teaches etching.")
        recalled = await store.recall(LISA)
        assert recalled is not None
        assert (recalled.value, recalled.access_count) == ("Lisa teaches etching.", 1)
        assert [version.value for version in await store.history(LISA)][-1] == "Lisa teaches printmaking."
        undone = await store.undo(LISA)
        assert undone is not None
        assert undone.value == "Lisa teaches printmaking."
        assert await store.refresh(LISA)
        await store.forget_many([LISA, "zone"])
        assert (await store.recall(LISA), await store.recall("zone")) == (None, None)


async def test_a_name_with_too_few_or_too_many_parts_is_refused(signer):
    async with MemoryStore(signer, ledger=":memory:") as store:
        for name in ("people/lisa", "a/b/c/d", "/", "people//lisa"):
            for call in (store.remember(name, "x"), store.recall(name), store.forget(name)):
                with pytest.raises(InvalidAddress):
                    await call
        assert await store.palace.memories() == []


async def test_a_memory_of_many_may_be_named_by_its_path(signer):
    async with MemoryStore(signer, ledger=":memory:") as store:
        await store.palace.remember_many([{"path": LISA, "value": "Lisa teaches printmaking."}])
        with pytest.raises(InvalidInput, match="a path and a value"):
            await store.palace.remember_many([{"path": LISA, "key": "lisa", "value": "x"}])
        assert [memory.path for memory in await store.palace.memories()] == [LISA]


def test_the_blocking_store_has_the_same_parts(signer):
    with SyncMemoryStore(signer, ["wss://relay.example"], ledger=":memory:", background=False) as store:
        store.palace.remember(LISA, "Lisa teaches printmaking.")
        assert store.recall(LISA).value == "Lisa teaches printmaking."
        assert [memory.path for memory in store.palace.memories()] == [LISA]
        ident = store.journal("Met Lisa.")
        assert [entry.event_id for entry in store.journal.recent()] == [ident]
        assert store.relays == ("wss://relay.example",)
        assert ([*store.relays], len(store.relays), store.relays[0]) == (
            ["wss://relay.example"],
            1,
            "wss://relay.example",
        )
        assert isinstance(store.relays, tuple)
        assert json.loads(json.dumps({"relays": store.relays})) == {"relays": ["wss://relay.example"]}
        assert repr(store.relays) == "('wss://relay.example',)"
        assert store.relays.holders(ident) == {"wss://relay.example": "queued"}
        assert not store.relays.were_ever_complete()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))]
)
def test_a_copy_of_the_relays_is_a_plain_tuple(signer, copied):
    urls = ("wss://relay.example",)
    assert type(copied(MemoryStore(signer, urls, ledger=":memory:").relays)) is tuple
    with SyncMemoryStore(signer, urls, ledger=":memory:", background=False) as store:
        assert copied({"relays": store.relays}) == {"relays": urls}
        assert type(copied(store.relays)) is tuple


def test_no_call_of_the_blocking_store_is_overwritten_by_mistake(signer):
    with SyncMemoryStore(signer, ledger=":memory:", background=False) as store:
        for part, call in (
            (store.palace, "remember"),
            (store.mind, "conversation"),
            (store.journal, "write"),
        ):
            with pytest.raises(AttributeError, match=f"no attribute '{call}' to set"):
                setattr(part, call, None)
        store.remember(LISA, "Lisa teaches printmaking.")
        assert store.recall(LISA).value == "Lisa teaches printmaking."


def test_what_is_printed_is_the_text_and_what_is_logged_is_not(signer):
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        store.remember(LISA, "Lisa teaches printmaking.")
        store.remember("zone", "Lisbon")
        store.journal("Met Lisa.")
        hits = [*store.search("printmaking"), *store.palace.search("printmaking")]
        shown = [store.recall(LISA), *hits, store.recall("zone"), *store.recent()]
        assert [str(item) for item in shown] == [*(["Lisa teaches printmaking."] * 3), "Lisbon", "Met Lisa."]
        assert not [item for item in shown if str(item) in repr(item)]


def test_of_threads_that_open_one_store_at_once_one_does_and_the_others_get_an_error(signer):
    for _ in range(4):
        store, start, outcomes = SyncMemoryStore(signer, ledger=":memory:"), threading.Barrier(6), []

        def opens(store=store, start=start, outcomes=outcomes):
            start.wait()
            try:
                store.__enter__()
                outcomes.append("open")
            except InvalidInput:
                outcomes.append("refused")

        threads = [threading.Thread(target=opens) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["open", *["refused"] * 5]
        store.remember("zone", "Lisbon")
        store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sense-memory"]
