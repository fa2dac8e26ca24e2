"""Whatever a call is given, it does it or raises an error of this package, whose text is one printable line."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial

import pytest

from sense_memory import (
    EmbeddedRelay,
    LocalSigner,
    MemoryStore,
    SenseMemoryError,
    SyncMemoryStore,
    open_embedder,
)
from sense_memory.errors import InvalidInput
from tests.time_unit import SECOND


STRANGE = {
    "none": None,
    "a number": 5,
    "a negative number": -1,
    "a huge number": 10**30,
    "a number beyond SQLite": 2**63,
    "no number": float("nan"),
    "infinity": float("inf"),
    "a boolean": True,
    "bytes": b"\xff",
    "an empty text": "",
    "a text with NUL": "a\x00b",
    "a text with an escape": "\x1b[2J",
    "a text that runs backwards": "\u202eabc",
    "a lone surrogate": "\ud800",
    "a long text": "x" * 70_000,
    "two lines": "a\nb",
    "a list of a number": [5],
    "a list of a list": [["a"]],
    "a list of strange texts": ["\ud800", "\x00"],
    "a dictionary": {"a": 1},
    "an object": object(),
    "a class": dict,
}
LONGEST = 1_200  # characters of an error's text
ORDINARY = {  # what is passed for the other parameters
    "key": "k", "key1": "d/f/one", "key2": "d/f/two", "old_key": "d/f/one", "new_key": "d/f/two", "value": "v",
    "keys": ["k"], "pairs": [("k", "v")], "domain": "d", "facet": "f", "number": 1, "time": 0, "content": "entry",
    "event_id": "0" * 64, "query": "word", "every": 60, "url": "wss://relay.example", "paths": ["d/f/one"],
    "entries": ["entry"], "memories": [("d", "f", "k", "v")], "text": "I live in Graz.", "with_": "5" * 64,
}  # fmt: skip
CLOSING = {"close", "rescue", "from_settings"}


def calls_of(store, folder):
    """Every public method with each of its parameters in turn being strange: a name, and how to call it."""
    for name, method in inspect.getmembers(store, callable):
        if name.startswith("_") or name in CLOSING:
            continue
        parameters = inspect.signature(method).parameters
        given = {
            key: ORDINARY[key]
            for key, item in parameters.items()
            if item.default is item.empty and key in ORDINARY
        }
        if "path" in parameters:
            given["path"] = folder / "export.jsonl"
        for parameter in parameters:
            yield f"{name}({parameter})", method, given, parameter


def assert_is_ours(error):
    text = str(error)
    assert text.isprintable(), repr(text[:200])
    assert len(text) <= LONGEST, text[:200]


async def attempted(call):
    """Whatever it returns; an error of ours is looked at."""
    try:
        done = call()
        if inspect.isawaitable(done):
            async with asyncio.timeout(20 * SECOND):
                await done
        elif hasattr(done, "aclose"):
            await done.aclose()
    except SenseMemoryError as error:
        assert_is_ours(error)


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
async def test_every_method_does_it_or_raises_an_error_of_ours(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a strange name may well be that of a file
    failures = []
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        await store.persona_remember("d", "f", "one", "text one")
        await store.persona_remember("d", "f", "two", "text two")
        for name, method, given, parameter in calls_of(store, tmp_path):
            try:
                await attempted(lambda: method(**{**given, parameter: value}))  # noqa: B023 - called at once
            except Exception as error:
                failures.append((name, repr(error)[:120]))
        assert not failures, "\n".join(map(str, failures))
        assert store.integrity() == []
        await store.recall_all()  # whatever was taken can be read
        await store.persona_recall(include_forgotten=True)


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_so_does_the_blocking_twin(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures = []
    with SyncMemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        for name, method, given, parameter in calls_of(store, tmp_path):
            if name.startswith(("watch", "persona_introspections")):
                continue
            try:
                method(**{**given, parameter: value})
            except SenseMemoryError as error:
                assert_is_ours(error)
            except Exception as error:
                failures.append((name, repr(error)[:120]))
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
async def test_so_does_the_constructor(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failures = []
    for parameter in inspect.signature(MemoryStore).parameters:
        options = {
            "signer": LocalSigner.generate(),
            "ledger": ":memory:",
            "background": False,
            parameter: value,
        }
        try:
            async with MemoryStore(**options) as store:
                await store.remember("k", "v")
                await store.search("v")
        except SenseMemoryError as error:
            assert_is_ours(error)
        except Exception as error:
            failures.append((parameter, repr(error)[:120]))
    assert not failures, "\n".join(map(str, failures))


async def test_so_do_the_other_constructors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "home"))
    failures = []

    async def relay(**options):
        async with EmbeddedRelay(**options):
            pass

    calls = [
        partial(relay, **{name: value})
        for name in inspect.signature(EmbeddedRelay).parameters
        for value in STRANGE.values()
    ]
    calls += [
        partial(MemoryStore.from_settings, **{name: value})
        for name in ("agent", "relays", "ledger", "plan")
        for value in STRANGE.values()
    ]
    calls += [
        partial(make, value)
        for make in (LocalSigner.from_nsec, LocalSigner.from_hex, LocalSigner.from_pynostr, open_embedder)
        for value in STRANGE.values()
    ]
    for call in calls:
        try:
            await attempted(call)
        except Exception as error:
            failures.append((repr(call)[:200], repr(error)[:120]))
    assert not failures, "\n".join(map(str, failures))


def test_no_error_shows_more_than_a_line_of_what_it_was_given():
    text = str(InvalidInput("\x1b[2Jone\ntwo\u2028three\ud800" + "x" * 10_000 + " end."))

    assert text.startswith("\\x1b[2Jone\\ntwo\\u2028three\\ud800xxx")
    assert text.endswith("xxx end.")
    assert len(text) <= LONGEST
