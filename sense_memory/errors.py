"""The error tree. Every error says what to do, what happened, and what is safe.

    SenseMemoryError
    ├── InvalidInput (ValueError)      an argument that cannot be used
    │   ├── InvalidAddress             a key, domain, facet or path that breaks the naming rules
    │   ├── InvalidRelayUrl            not a URL of a relay that may be dialled
    │   ├── InvalidSetting             a value of a setting; says where the value came from
    │   └── TooLargeError              a memory that does not fit the event size of common relays
    ├── BadKey (ValueError)            not a secret or public key; never echoes the text
    ├── KeyMissing                     no secret key was found, or only an encrypted one
    ├── KeyringError                   the system's keyring cannot be used
    ├── SignerError                    a remote signer refused, lied or was silent; texts stay as drafts
    ├── UnsafeFile                     a key or ledger file that others can read
    ├── MissingExtra                   an optional library is not installed
    ├── MalformedFrame (ValueError)    a message from a relay that is not a Nostr frame
    ├── InvalidEvent (ValueError)      an event with a wrong shape, id or signature
    ├── BadPayload (ValueError)        ciphertext that is not NIP-44, or not for this key
    │   └── UnsupportedVersion         a NIP-44 version we do not know
    ├── EnvelopeError                  a verified event whose content cannot be shown
    │   ├── MisfiledError              the content names another address than the event
    │   ├── NeedsNewerVersion          a newer schema; the event is kept, and not shown
    │   └── SealVerificationError      the signer's ciphertext does not decrypt; nothing was stored
    ├── ClockSkewError                 the next version would be dated too far in the future
    ├── PlanLimitError                 the plan in force does not include what was asked for
    ├── LedgerError                    the ledger file cannot be used as asked
    │   ├── WrongKeyError              the ledger belongs to another key
    │   ├── LedgerBusy                 another process has locked the ledger for too long
    │   ├── LedgerCorrupt              the ledger is damaged
    │   ├── LedgerTooNew               a newer sense-memory wrote the ledger
    │   └── StorageFullError           the disk is full
    ├── RelayError                     a relay cannot be used; says which
    ├── NotSynced                      not in the ledger, and no relay has shown everything yet
    ├── EmbedderError                  texts could not be embedded; search by words still works
    ├── MemoryIndexError               a backend of a memory index failed; the log has everything
    ├── ModelError                     a language model gave no usable answer, of which nothing was written
    ├── WrongThreadError               the store was opened in another thread
    ├── EditConflict                   a memory has another text than the caller saw; nothing was written
    ├── ChangesMissed                  a `watch` ended because it was read too slowly
    └── StoreClosed                    the store is not open
        └── StoreForked                the store was opened before a fork

No message carries a secret, a memory's text, or a relay's raw words.
"""

from __future__ import annotations

import copyreg
import inspect
import logging
import warnings
from pathlib import Path
from typing import Any, Final


_MAX_CHARS: Final = 1_000  # of an error's text, which may name a path
_END_CHARS: Final = 300
_PACKAGE: Final = str(Path(__file__).parent)


class SenseMemoryError(Exception):
    """The root: catching it catches everything this package raises on purpose.

    The text of an error is one printable line: other characters are escaped, and a very long text is cut in the
    middle.
    """

    def __init__(self, *texts: Any) -> None:
        super().__init__(*(_line(text) if isinstance(text, str) else text for text in texts))

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling calls the class with the message, but most classes here take other arguments.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def _line(text: str) -> str:
    if len(text) > _MAX_CHARS:
        text = f"{text[: _MAX_CHARS - _END_CHARS]} … {text[-_END_CHARS:]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]


class InvalidInput(SenseMemoryError, ValueError):
    """An argument cannot be used. Nothing was written."""


class InvalidAddress(InvalidInput):
    """A key, domain, facet or path breaks the naming rules."""


class InvalidRelayUrl(InvalidInput):
    """Not the URL of a relay that may be dialled."""


class InvalidSetting(InvalidInput):
    """A setting has a value that cannot be used.

    Attributes:
        name: the setting.
        origin: where the value came from, such as "environment".
    """

    def __init__(self, name: str, origin: str, problem: str) -> None:
        self.name, self.origin = name, origin
        place = "the environment" if origin == "environment" else origin
        source = (
            "" if name.endswith(origin) else f" (from {place})"
        )  # a file that is named by its path already
        super().__init__(f"{name}{source}: {problem}")


class TooLargeError(InvalidInput):
    """A memory does not fit an event that common relays accept.

    Attributes:
        size: bytes of the JSON to seal.
        limit: bytes that fit.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"the memory needs {size:,} bytes, and at most {limit:,} fit an event that common relays accept, so nothing was written; split the memory into several"
        )


class BadKey(SenseMemoryError, ValueError):
    """Not a usable key. The message may name the length of the text, and never contains a part of it."""


class KeyMissing(SenseMemoryError):
    """No secret key was found, or only an encrypted one without its password.

    Attributes:
        looked: the places that were searched, in words.
        locked: the place of an encrypted key whose password could not be asked for, or None.
        agent: the agent whose key was wanted, or None; the agent "default" is not named in the message.
        setting: the setting that named a key file that does not exist, the last of `looked`; else None.
        is_chosen: whether an argument named the agent; then no setting of the environment can name another key file.
    """

    def __init__(
        self,
        looked: tuple[str, ...],
        locked: str | None = None,
        agent: str | None = None,
        setting: str | None = None,
        *,
        is_chosen: bool = False,
    ) -> None:
        self.looked, self.locked, self.agent, self.setting = looked, locked, agent, setting
        self.is_chosen = is_chosen
        if locked is None and setting is not None:
            super().__init__(
                f"{looked[-1]} does not exist; correct {setting}, or put the key there. If the path is right and you have no key yet, `sense-memory init` creates one at the path in SENSE_MEMORY_KEY_FILE"
            )
        elif locked is None:
            is_named = agent not in {None, "default"}
            name, option = (f" of agent {agent}", f" --agent {agent}") if is_named else ("", "")
            others = "choose an agent of `sense-memory agents`" if is_chosen else "set SENSE_MEMORY_KEY_FILE"
            super().__init__(
                f"no secret key{name} yet; make one with `sense-memory{option} init`, import yours with "
                f"`sense-memory{option} init --import`, or {others} (looked in: {', '.join(looked)})"
            )
        else:
            super().__init__(
                f"the only secret key found, in {locked}, is encrypted, and its password could not be asked for, so the key is untouched; run this in a terminal, or pass `ask_password` to `find_secret` (looked in: {', '.join(looked)})"
            )


class KeyringError(SenseMemoryError):
    """The system's keyring cannot be used. Nothing in the keyring has changed.

    Attributes:
        problem: why, in this package's words; never the message of a backend.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the system's keyring: {problem}. A key file of mode 600 needs no keyring.")


class MissingExtra(SenseMemoryError):
    """The library of an optional feature is not installed.

    Attributes:
        extra: the extra in pyproject.toml that installs the library.
    """

    def __init__(self, extra: str) -> None:
        self.extra = extra
        # Not `pip install sense-memory[…]`: on the registry, that name belongs to another publisher.
        run = f"run, in a checkout of sense-memory: pip install '.[{extra}]'"
        super().__init__(f"{run} (the extra `{extra}` is not installed)")


class UnsafeFile(SenseMemoryError):
    """A file with a key or a ledger is not safe to use: others can read it, or it is not a plain file."""


class SignerError(SenseMemoryError):
    """A remote signer (NIP-46) did not do what it was asked. What needed it was not done; nothing was lost.

    Attributes:
        problem: what happened, and the remedy; never the signer's own words.
        drafts: the numbers of the sealed drafts that keep the texts; see `MemoryStore.drafts`.
    """

    def __init__(self, problem: str, drafts: tuple[int, ...] = ()) -> None:
        self.problem, self.drafts = problem, drafts
        kept = ""
        if len(drafts) == 1:
            kept = f" The text is kept as draft {drafts[0]}: publish it when the signer answers."
        elif drafts:
            kept = f" The texts are kept as drafts {drafts[0]} to {drafts[-1]}: publish them when the signer answers."
        super().__init__(f"the remote signer {problem.removesuffix('.')}. Nothing was written or sent.{kept}")


class MalformedFrame(SenseMemoryError, ValueError):
    """A message is not a Nostr frame. The error contains no part of the message."""


class InvalidEvent(SenseMemoryError, ValueError):
    """An event has a wrong shape, a wrong id or a wrong signature."""


class BadPayload(SenseMemoryError, ValueError):
    """A text is not a NIP-44 payload that this key can open."""


class UnsupportedVersion(BadPayload):
    """A payload has a NIP-44 version other than 2."""


class EnvelopeError(SenseMemoryError):
    """The content of a verified event of this agent cannot be shown."""


class MisfiledError(EnvelopeError):
    """The content of an event names another address than the event itself.

    Attributes:
        event_id: the event id, hex.
    """

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id
        super().__init__(
            f"event {event_id[:16]}… was not applied, because its content names another address; a faulty program "
            "wrote the event, or somebody with this key moved the memory"
        )


class NeedsNewerVersion(EnvelopeError):
    """An event has a newer schema; the event is kept, and neither shown nor overwritten.

    Attributes:
        event_id: the event id, hex.
        version: the schema version.
    """

    def __init__(self, event_id: str, version: int) -> None:
        self.event_id, self.version = event_id, version
        super().__init__(
            f"upgrade sense-memory to read event {event_id[:16]}…, which a newer version wrote (schema {version}); "
            "the event is kept untouched"
        )


class SealVerificationError(EnvelopeError):
    """The signer's ciphertext does not decrypt to the original text. Nothing was stored or sent."""

    def __init__(self) -> None:
        super().__init__(
            "the signer's ciphertext does not decrypt to the original text, so nothing was stored or sent; check the signer and try again"
        )


class ClockSkewError(SenseMemoryError):
    """The next version of a memory would be dated too far ahead of this clock.

    Attributes:
        now: the time of this clock, seconds since 1970.
        mark: the date of the newest version, seconds since 1970.
        drafts: the numbers of the sealed drafts that keep the texts; see `MemoryStore.drafts`.
    """

    def __init__(self, now: int, mark: int, drafts: tuple[int, ...] = ()) -> None:
        self.now, self.mark, self.drafts = now, mark, drafts
        kept = ""
        if len(drafts) == 1:
            kept = f", and the text is kept as draft {drafts[0]}"
        elif drafts:
            kept = f", and the texts are kept as drafts {drafts[0]} to {drafts[-1]}"
        super().__init__(
            f"the newest version is dated {mark - now:,} s ahead of this clock; nothing was written{kept}; check the clocks of this and your other devices"
        )


class PlanLimitError(SenseMemoryError):
    """The plan in force does not include what was asked for. Nothing was written, and nothing was lost.

    Attributes:
        plan: the name of the plan.
        limit: the limit that was reached: `max_memories`, `max_domains`, `max_facets`, `search`, `compression`,
            `halflife` or `introspection`.
        advice: what to do instead of choosing another plan, or empty.
    """

    def __init__(self, plan: str, limit: str, problem: str, advice: str = "") -> None:
        self.plan, self.limit, self.advice = plan, limit, advice
        either = f"{advice}, or choose" if advice else "choose"
        super().__init__(
            f"{either} another plan with SENSE_MEMORY_PLAN (self_hosted has no limits): the plan `{plan}` {problem}; "
            "nothing was written, and nothing was lost"
        )


class LedgerError(SenseMemoryError):
    """The ledger file cannot be used as asked."""


class WrongKeyError(LedgerError):
    """The ledger belongs to another key. Nothing was written.

    Attributes:
        ledger: the npub of the owner of the ledger.
        given: the npub of the signer.
    """

    def __init__(self, ledger: str, given: str) -> None:
        self.ledger, self.given = ledger, given
        super().__init__(
            f"the given key is {given}, and this ledger belongs to {ledger}; use that key, or another ledger file"
        )


class LedgerBusy(LedgerError):
    """Another process has locked the ledger for too long. Nothing was changed."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path or 'the ledger in memory'} is locked by another process, so nothing was changed; try again, or end the other process"
        )


class LedgerCorrupt(LedgerError):
    """The ledger file is damaged. The file was left where it is."""


class LedgerTooNew(LedgerError):
    """A newer sense-memory wrote the ledger. The file was not touched."""


class StorageFullError(LedgerError):
    """The disk is full. The transaction was rolled back, and nothing was sent."""


class RelayError(SenseMemoryError):
    """A relay cannot be used.

    Attributes:
        url: the relay.
    """

    def __init__(self, url: str, problem: str) -> None:
        self.url, self.problem = url, problem
        super().__init__(f"{url}: {problem}")


class NotSynced(SenseMemoryError):
    """A memory is not in the ledger, but a relay may hold it: no relay has shown everything yet.

    Attributes:
        problems: for each relay, why it has not shown everything.
    """

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(
            f"{what} not in the local ledger, but a relay may hold what is missing (no relay has shown everything yet: {'; '.join(problems) or 'none has answered'}); run `sync` when a relay is reachable"
        )


class EmbedderError(SenseMemoryError):
    """A model or a service could not embed texts. Search by words still works.

    Attributes:
        embedder: the name of the embedder.
        problem: what happened, and the remedy if one is known; never a text, a key, or a service's message.
    """

    def __init__(self, embedder: str, problem: str) -> None:
        self.embedder, self.problem = embedder, problem
        super().__init__(
            f"the embedder {embedder}: {problem.removesuffix('.')}{'' if problem.endswith('?') else '.'} "
            "Nothing was lost; memories are still found by their words."
        )


class MemoryIndexError(SenseMemoryError):
    """A backend of a memory index failed.

    Attributes:
        backend: the name of the backend.
        problem: what happened; never a text, a key, or a service's message.
    """

    def __init__(self, backend: str, problem: str) -> None:
        self.backend, self.problem = backend, problem
        super().__init__(
            f"the memory index {backend}: {problem}. Nothing was lost: the log has every entry, and the index can "
            "be cleared and built again."
        )


class ModelError(SenseMemoryError):
    """A language model gave no usable answer. Nothing of the answer was written; what was written before stays.

    Attributes:
        model: the name of the model.
        problem: what happened, and what to do; never a prompt, an answer, a key, or a service's message.
    """

    def __init__(self, model: str, problem: str) -> None:
        self.model, self.problem = model, problem
        super().__init__(
            f"the language model {model}: {problem.removesuffix('.')}{'' if problem.endswith('?') else '.'} "
            "Nothing of this answer was written; what was written before stays."
        )


class EditConflict(SenseMemoryError):
    """A memory no longer has the text that the caller saw, so the edit was not made.

    Attributes:
        path: of the memory.
    """

    def __init__(
        self, path: str, problem: str = "has changed since it was read; nothing was written"
    ) -> None:
        super().__init__(f"{path!r} {problem}. Read it again, then edit what is there now")
        self.path = path


class ChangesMissed(SenseMemoryError):
    """A `watch` ended because its changes were read too slowly. Nothing is lost: the ledger holds every change."""

    def __init__(self) -> None:
        super().__init__(
            "watch again, then read everything with `recall_all` and `recent`: this watch has ended, because changes "
            "arrived faster than they were read; the ledger holds every change"
        )


class RelayLimitWarning(UserWarning):
    """A relay says (NIP-11) that it does not accept events as long as the one to be signed. Nothing is lost."""


def warn_of_limit(message: str) -> None:
    """Warn with `RelayLimitWarning` at the line that called this package; if warnings are errors, log it instead.

    The memory is already written, so an exception would mislead the caller.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(message, RelayLimitWarning, stacklevel=level)
    except RelayLimitWarning:
        logging.getLogger("sense_memory").warning("%s", message)


class WrongThreadError(SenseMemoryError):
    """The store was opened in another thread, to which its event loop and its SQLite connection belong."""

    def __init__(self) -> None:
        super().__init__(
            "this store was opened in another thread; nothing was read or written; use a `SyncMemoryStore`, which any thread may call, or `asyncio.run_coroutine_threadsafe`"
        )


class StoreClosed(SenseMemoryError):
    """The store is not open."""

    def __init__(self) -> None:
        super().__init__(
            "the store is not open; use it inside `async with MemoryStore(...) as store:` or `with SyncMemoryStore(...) as store:`"
        )


class StoreForked(StoreClosed):
    """The store was opened before a fork; SQLite connections and sockets do not survive a fork."""

    def __init__(self) -> None:
        SenseMemoryError.__init__(
            self,
            "this store was opened before a fork; open a store in the process that uses it",
        )
