"""The error tree: drawn, exported and worded as promised. A changed sentence is a changed promise."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

import sense_memory
from sense_memory import errors
from sense_memory.errors import SenseMemoryError


ID = "ab" * 32
CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if inspect.isclass(found) and issubclass(found, SenseMemoryError)
}

# Those with a sentence of their own: the error and every word of it.
SENTENCES = [
    (
        errors.InvalidSetting("SENSE_MEMORY_RELAYS", "environment", "not a relay"),
        "SENSE_MEMORY_RELAYS (from the environment): not a relay",
    ),
    (
        errors.TooLargeError(40_961, 40_960),
        (
            "the memory needs 40,961 bytes, and at most 40,960 fit an event that common relays accept, so nothing was written; split the memory into several"
        ),
    ),
    (
        errors.KeyMissing(("the environment", "/home/a/.env")),
        (
            "no secret key yet; make one with `sense-memory init`, import yours with `sense-memory init --import`, "
            "or set SENSE_MEMORY_KEY_FILE (looked in: the environment, /home/a/.env)"
        ),
    ),
    (
        errors.KeyMissing(("the key file b.key",), agent="bob"),
        (
            "no secret key of agent bob yet; make one with `sense-memory --agent bob init`, import yours with "
            "`sense-memory --agent bob init --import`, or set SENSE_MEMORY_KEY_FILE (looked in: the key file b.key)"
        ),
    ),
    (
        errors.KeyMissing(("the key file b.key",), agent="bob", is_chosen=True),
        (
            "no secret key of agent bob yet; make one with `sense-memory --agent bob init`, import yours with "
            "`sense-memory --agent bob init --import`, or choose an agent of `sense-memory agents` (looked in: the "
            "key file b.key)"
        ),
    ),
    (
        errors.KeyMissing(("the key file b.key",), setting="SENSE_MEMORY_KEY_FILE in the environment"),
        (
            "the key file b.key does not exist; correct SENSE_MEMORY_KEY_FILE in the environment, or put the key there. If the path is right and you have no key yet, `sense-memory init` creates one at the path in SENSE_MEMORY_KEY_FILE"
        ),
    ),
    (
        errors.KeyMissing(("the key file",), locked="the key file a.key"),
        (
            "the only secret key found, in the key file a.key, is encrypted, and its password could not be asked for, so the key is untouched; run this in a terminal, or pass `ask_password` to `find_secret` (looked in: the key file)"
        ),
    ),
    (
        errors.KeyringError("it is locked"),
        "the system's keyring: it is locked. A key file of mode 600 needs no keyring.",
    ),
    (
        errors.MissingExtra("keyring"),
        (
            "run, in a checkout of sense-memory: pip install '.[keyring]' (the extra `keyring` is not installed)"
        ),
    ),
    (
        errors.EmbedderError("static", "its table cannot be read"),
        (
            "the embedder static: its table cannot be read. "
            "Nothing was lost; memories are still found by their words."
        ),
    ),
    (
        errors.MemoryIndexError("chroma", "it raised OSError"),
        (
            "the memory index chroma: it raised OSError. Nothing was lost: the log has every entry, and the index can "
            "be cleared and built again."
        ),
    ),
    (
        errors.ModelError("ollama:m", "did not answer. Is it running?"),
        (
            "the language model ollama:m: did not answer. Is it running? "
            "Nothing of this answer was written; what was written before stays."
        ),
    ),
    (
        errors.MisfiledError(ID),
        (
            "event abababababababab… was not applied, because its content names another address; a faulty program "
            "wrote the event, or somebody with this key moved the memory"
        ),
    ),
    (
        errors.NeedsNewerVersion(ID, 2),
        (
            "upgrade sense-memory to read event abababababababab…, which a newer version wrote (schema 2); "
            "the event is kept untouched"
        ),
    ),
    (
        errors.SealVerificationError(),
        (
            "the signer's ciphertext does not decrypt to the original text, so nothing was stored or sent; check the signer and try again"
        ),
    ),
    (
        errors.ClockSkewError(1_000, 87_400),
        (
            "the newest version is dated 86,400 s ahead of this clock; nothing was written; check the clocks of this and your other devices"
        ),
    ),
    (
        errors.ClockSkewError(1_000, 87_400, (3,)),
        (
            "the newest version is dated 86,400 s ahead of this clock; nothing was written, and the text is kept as draft 3; check the clocks of this and your other devices"
        ),
    ),
    (
        errors.ClockSkewError(1_000, 87_400, (3, 4, 5)),
        (
            "the newest version is dated 86,400 s ahead of this clock; nothing was written, and the texts are kept as drafts 3 to 5; check the clocks of this and your other devices"
        ),
    ),
    (
        errors.PlanLimitError("free", "max_memories", "allows 100 memories", "forget some"),
        (
            "forget some, or choose another plan with SENSE_MEMORY_PLAN (self_hosted has no limits): "
            "the plan `free` allows 100 memories; nothing was written, and nothing was lost"
        ),
    ),
    (
        errors.PlanLimitError("free", "search", "searches by themes only"),
        (
            "choose another plan with SENSE_MEMORY_PLAN (self_hosted has no limits): "
            "the plan `free` searches by themes only; nothing was written, and nothing was lost"
        ),
    ),
    (
        errors.WrongKeyError("npub1one", "npub1two"),
        (
            "the given key is npub1two, and this ledger belongs to npub1one; use that key, or another ledger file"
        ),
    ),
    (errors.RelayError("wss://relay.example/", "no answer"), "wss://relay.example/: no answer"),
    (
        errors.NotSynced("this memory is", ()),
        (
            "this memory is not in the local ledger, but a relay may hold what is missing (no relay has shown everything yet: none has answered); run `sync` when a relay is reachable"
        ),
    ),
    (
        errors.NotSynced("memories are", ("a: refused", "b: silent")),
        (
            "memories are not in the local ledger, but a relay may hold what is missing (no relay has shown everything yet: a: refused; b: silent); run `sync` when a relay is reachable"
        ),
    ),
    (
        errors.EditConflict("people/facts/lisa"),
        (
            "'people/facts/lisa' has changed since it was read; nothing was written. Read it again, then edit what is "
            "there now"
        ),
    ),
    (
        errors.ChangesMissed(),
        (
            "watch again, then read everything with `recall_all` and `recent`: this watch has ended, because changes "
            "arrived faster than they were read; the ledger holds every change"
        ),
    ),
    (
        errors.LedgerBusy("/home/a/a.db"),
        "/home/a/a.db is locked by another process, so nothing was changed; try again, or end the other process",
    ),
    (
        errors.WrongThreadError(),
        (
            "this store was opened in another thread; nothing was read or written; use a `SyncMemoryStore`, which any thread may call, or `asyncio.run_coroutine_threadsafe`"
        ),
    ),
    (
        errors.SignerError("did not answer within 60 s; start it", (7,)),
        (
            "the remote signer did not answer within 60 s; start it. Nothing was written or sent. "
            "The text is kept as draft 7: publish it when the signer answers."
        ),
    ),
    (
        errors.SignerError("signed with another key", (7, 8)),
        (
            "the remote signer signed with another key. Nothing was written or sent. "
            "The texts are kept as drafts 7 to 8: publish them when the signer answers."
        ),
    ),
    (
        errors.StoreForked(),
        "this store was opened before a fork; open a store in the process that uses it",
    ),
    (
        errors.StoreClosed(),
        (
            "the store is not open; use it inside `async with MemoryStore(...) as store:` or `with SyncMemoryStore(...) as store:`"
        ),
    ),
]

# Those whose sentence is written where they are raised.
PLAIN = {
    "SenseMemoryError",
    "InvalidInput",
    "InvalidAddress",
    "InvalidRelayUrl",
    "BadKey",
    "UnsafeFile",
    "MalformedFrame",
    "InvalidEvent",
    "BadPayload",
    "UnsupportedVersion",
    "EnvelopeError",
    "LedgerError",
    "LedgerCorrupt",
    "LedgerTooNew",
    "StorageFullError",
}


@pytest.mark.parametrize(("error", "sentence"), SENTENCES, ids=lambda item: type(item).__name__)
def test_each_error_says_its_sentence(error, sentence):
    assert str(error) == sentence


def test_the_table_of_sentences_is_complete():
    assert {type(error).__name__ for error, _ in SENTENCES} | PLAIN == set(CLASSES)


def test_a_plain_error_says_what_it_was_given():
    for name in PLAIN:
        assert str(CLASSES[name]("a sentence")) == "a sentence"


def test_the_package_exports_the_errors_that_one_catches():
    """The others, which say what went wrong inside, are had from `sense_memory.errors`."""
    caught = {"InvalidInput", "KeyMissing", "LedgerError", "NotSynced", "SenseMemoryError", "StoreClosed"}

    assert CLASSES.keys() & set(sense_memory.__all__) == caught
    assert all(getattr(sense_memory, name) is CLASSES[name] for name in caught)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_each_error_has_a_docstring_of_its_own(name):
    assert len((CLASSES[name].__doc__ or "").splitlines()[0]) > 15


def drawn():
    """The tree of the module's docstring: name → (parent, builtin base or None)."""
    found, path = {}, {}
    for line in errors.__doc__.splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+)(?: \((\w+)\))?(?:  +\S.*)?$", line)
        if match and (match[1] or match[2] == "SenseMemoryError"):
            depth = len(match[1]) // 4
            path[depth] = match[2]
            found[match[2]] = path.get(depth - 1), match[3]
    return found


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    real = {
        name: (
            next((base.__name__ for base in found.__bases__ if issubclass(base, SenseMemoryError)), None),
            next((base.__name__ for base in found.__bases__ if base is ValueError), None),
        )
        for name, found in CLASSES.items()
    }

    assert real == drawn()


def test_every_line_of_the_tree_says_what_the_error_means():
    lines = [line for line in errors.__doc__.splitlines() if "──" in line]

    assert len(lines) == len(CLASSES) - 1
    assert all(re.search(r"\w  +\S", line.split("── ")[1]) or len(line) > 60 for line in lines)


def test_fields_are_kept_for_programs_to_read():
    assert vars(errors.TooLargeError(3, 2)) == {"size": 3, "limit": 2}
    assert vars(errors.ClockSkewError(1, 9)) == {"now": 1, "mark": 9, "drafts": ()}
    assert vars(errors.WrongKeyError("a", "b")) == {"ledger": "a", "given": "b"}
    assert vars(errors.MisfiledError(ID)) == {"event_id": ID}
    assert vars(errors.NeedsNewerVersion(ID, 2)) == {"event_id": ID, "version": 2}
    assert vars(errors.RelayError("u", "p")) == {"url": "u", "problem": "p"}
    assert vars(errors.NotSynced("x", ("p",))) == {"problems": ("p",)}
    assert vars(errors.InvalidSetting("n", "o", "p")) == {"name": "n", "origin": "o"}
    assert vars(errors.PlanLimitError("p", "l", "x", "a")) == {"plan": "p", "limit": "l", "advice": "a"}


def test_one_except_clause_catches_everything():
    for error in [error for error, _ in SENTENCES] + [CLASSES[name]("x") for name in PLAIN]:
        with pytest.raises(SenseMemoryError):
            raise error


def test_bad_arguments_are_value_errors_too():
    """So that code that knows nothing of us still catches what it caused."""
    caught = {name for name, found in CLASSES.items() if issubclass(found, ValueError)}

    assert caught == {
        "InvalidInput",
        "InvalidAddress",
        "InvalidRelayUrl",
        "InvalidSetting",
        "TooLargeError",
        "BadKey",
        "MalformedFrame",
        "InvalidEvent",
        "BadPayload",
        "UnsupportedVersion",
    }


@pytest.mark.parametrize("error", [error for error, _ in SENTENCES], ids=lambda error: type(error).__name__)
def test_errors_cross_process_borders(error):
    """`multiprocessing` pickles what a worker raises; an error that cannot be unpickled hangs the pool."""
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
