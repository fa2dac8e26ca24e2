"""The error tree. Every error says what happened, what is safe, and what to do.

    SenseMemoryError
    ├── InvalidInput (ValueError)      what the caller passed cannot become a memory
    │   ├── InvalidAddress             a key, domain, facet or path
    │   ├── InvalidRelayUrl            not a relay one may dial
    │   ├── InvalidSetting             a setting's value; says where it came from
    │   └── TooLargeError              does not fit the relays' event size
    ├── BadKey (ValueError)            not a secret or public key; never echoes it
    ├── KeyMissing                     no key was found anywhere, or only a locked one
    ├── KeychainError                  the system's keyring could not be used
    ├── UnsafeKeyFile                  a key or ledger that others could read
    ├── MissingExtra                   an optional library is not installed
    ├── MalformedFrame (ValueError)    bytes from a relay that are no Nostr frame
    ├── InvalidEvent (ValueError)      an event that breaks shape, id or signature
    ├── BadPayload (ValueError)        ciphertext that is not NIP-44, or not for this key
    │   └── UnsupportedVersion         a NIP-44 version we do not know
    ├── EnvelopeError                  a verified event whose inside cannot be shown
    │   ├── MisfiledError              the inside names another address
    │   ├── NeedsNewerVersion          written by a newer schema; kept, not shown
    │   └── SealVerificationError      what was sealed does not open again; nothing was stored
    ├── ClockSkewError                 a version could only be stamped far in the future
    ├── PlanLimitError                 the plan in force does not include it
    ├── LedgerError                    the local file
    │   ├── WrongKeyError              belongs to another key
    │   ├── LedgerBusy                 another process writes to it for too long
    │   ├── LedgerCorrupt              is damaged
    │   ├── LedgerTooNew               was written by a newer sense-memory
    │   └── StorageFullError           the disk is full
    ├── RelayError                     a relay could not be used; says which
    ├── NotSynced                      not in the ledger, and no relay could be asked yet
    ├── EmbedderError                  texts could not be turned into vectors; words still find them
    ├── WrongThreadError               a store was used in another thread than the one that opened it
    ├── ChangesMissed                  a `watch` was read too slowly; says how to catch up
    └── StoreClosed                    the store was used outside `async with`
        └── StoreForked                in a process that is a fork of the one that opened it

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

    Its text is one printable line, whatever was given and is told in it: what is not printable is escaped, and of
    a very long one the beginning and the end are kept.
    """

    def __init__(self, *texts: Any) -> None:
        super().__init__(*(_line(text) if isinstance(text, str) else text for text in texts))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions unpickle by calling the class with the sentence, which our own do not take.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def _line(text: str) -> str:
    if len(text) > _MAX_CHARS:
        text = f"{text[: _MAX_CHARS - _END_CHARS]} … {text[-_END_CHARS:]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]


class InvalidInput(SenseMemoryError, ValueError):
    """What the caller passed cannot become a memory. Nothing was written."""


class InvalidAddress(InvalidInput):
    """A key, domain, facet or path breaks the naming rules."""


class InvalidRelayUrl(InvalidInput):
    """Not a URL of a relay that may be dialled."""


class InvalidSetting(InvalidInput):
    """A setting's value cannot be used.

    Attributes:
        name: the setting.
        origin: where its value came from, such as "environment".
    """

    def __init__(self, name: str, origin: str, problem: str) -> None:
        self.name, self.origin = name, origin
        super().__init__(f"{name} (from {origin}): {problem}")


class TooLargeError(InvalidInput):
    """A memory does not fit.

    Attributes:
        size: bytes of the sealed JSON.
        limit: bytes that fit.
    """

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(
            f"the memory needs {size:,} bytes and at most {limit:,} fit an event that common relays accept; "
            "nothing was written. Split it into several memories."
        )


class BadKey(SenseMemoryError, ValueError):
    """Not a usable key. The message tells its length at most, never a part of it."""


class KeyMissing(SenseMemoryError):
    """No secret key was found in any of the places that were looked at, or one that nobody unlocked.

    Attributes:
        looked: the places, in words.
        locked: the place of an encrypted key whose password nobody could be asked for, or None.
        agent: whose key was looked for, or None; the agent called "default" needs no mention.
    """

    def __init__(self, looked: tuple[str, ...], locked: str | None = None, agent: str | None = None) -> None:
        self.looked, self.locked, self.agent = looked, locked, agent
        if locked is None:
            is_named = agent not in {None, "default"}
            name, option = (f" of agent {agent}", f" --agent {agent}") if is_named else ("", "")
            super().__init__(
                f"no secret key{name} found; looked at {', '.join(looked)}. "
                f"Make one with `sense-memory{option} init`, bring yours with `sense-memory{option} init --import`, "
                "or point SENSE_MEMORY_KEY_FILE to it."
            )
        else:
            super().__init__(
                f"the only secret key found, in {locked}, is encrypted, and nobody could be asked for its "
                f"password; it is untouched. Looked at {', '.join(looked)}. "
                "Run this in a terminal, or pass `ask_password` to `find_secret`."
            )


class KeychainError(SenseMemoryError):
    """The system's keyring could not be used. Nothing that was stored there has changed.

    Attributes:
        problem: why, in words; never what a backend said.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the system's keyring: {problem}. A key file of mode 600 works without it.")


class MissingExtra(SenseMemoryError):
    """Something optional was asked for and its library is not installed.

    Attributes:
        extra: the name of the extra in pyproject.toml.
    """

    def __init__(self, extra: str, requirement: str) -> None:
        self.extra = extra
        # On the registry, our own name is another publisher's package.
        if requirement == f"sense-memory[{extra}]":
            run = f"Run, in a checkout of sense-memory: pip install '.[{extra}]'"
        else:
            run = f"Run: pip install '{requirement}'"
        super().__init__(f"this needs the extra `{extra}`, which is not installed. {run}")


class UnsafeKeyFile(SenseMemoryError):
    """A file that holds a key or a ledger is not safe to use as it is."""


class MalformedFrame(SenseMemoryError, ValueError):
    """A message that is not a Nostr frame. Carries no part of it."""


class InvalidEvent(SenseMemoryError, ValueError):
    """An event that breaks the shape rules, its id, or its signature."""


class BadPayload(SenseMemoryError, ValueError):
    """Not a NIP-44 payload that this key can open."""


class UnsupportedVersion(BadPayload):
    """A NIP-44 version other than 2."""


class EnvelopeError(SenseMemoryError):
    """A verified event of ours whose inside cannot be shown."""


class MisfiledError(EnvelopeError):
    """The address inside an event is not the address it lies at.

    Attributes:
        event_id: the event's id, hex.
    """

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id
        super().__init__(
            f"event {event_id[:16]}… holds a memory of another address; it was not applied. "
            "Someone with this key moved it, or a writer is faulty."
        )


class NeedsNewerVersion(EnvelopeError):
    """Written by a newer schema: kept as it is, neither shown nor overwritten."""

    def __init__(self, event_id: str, version: int) -> None:
        self.event_id, self.version = event_id, version
        super().__init__(
            f"event {event_id[:16]}… needs a newer version of sense-memory (schema {version}); "
            "it is kept untouched. Upgrade to read it."
        )


class SealVerificationError(EnvelopeError):
    """What the signer sealed does not open to what was given. Nothing was stored or sent."""

    def __init__(self) -> None:
        super().__init__(
            "the signer's ciphertext does not open to the text that was given; nothing was stored or sent, "
            "the text is still yours. Check the signer and try again."
        )


class ClockSkewError(SenseMemoryError):
    """The next version of an address could only be stamped too far ahead of this clock.

    Attributes:
        now: this machine's time, seconds since 1970.
        mark: the newest version seen, seconds since 1970.
        drafts: numbers of the drafts as which the texts are kept, sealed; see `MemoryStore.drafts`.
    """

    def __init__(self, now: int, mark: int, drafts: tuple[int, ...] = ()) -> None:
        self.now, self.mark, self.drafts = now, mark, drafts
        kept = ""
        if len(drafts) == 1:
            kept = f", and the text is kept as draft {drafts[0]}"
        elif drafts:
            kept = f", and the texts are kept as drafts {drafts[0]} to {drafts[-1]}"
        super().__init__(
            f"this clock reads {now} but the newest version seen is from {mark}, {mark - now} s ahead; "
            f"nothing was written{kept}. Check the clocks of this and the other devices."
        )


class PlanLimitError(SenseMemoryError):
    """The plan in force does not include what was asked for. Nothing was written, nothing was lost.

    Attributes:
        plan: its name.
        limit: which of its limits: `max_memories`, `max_domains`, `max_facets`, `search`, `compression`,
            `halflife` or `introspection`.
        advice: what to do besides choosing another plan, or empty.
    """

    def __init__(self, plan: str, limit: str, problem: str, advice: str = "") -> None:
        self.plan, self.limit, self.advice = plan, limit, advice
        either = f"{advice}, or choose" if advice else "Choose"
        super().__init__(
            f"the plan `{plan}` {problem}; nothing was written, and nothing that is stored was lost. "
            f"{either} another plan with SENSE_MEMORY_PLAN; self_hosted has no limits."
        )


class LedgerError(SenseMemoryError):
    """The local ledger cannot be used as asked."""


class WrongKeyError(LedgerError):
    """The ledger belongs to another key. Nothing was written.

    Attributes:
        ledger: npub of the ledger's owner.
        given: npub of the signer.
    """

    def __init__(self, ledger: str, given: str) -> None:
        self.ledger, self.given = ledger, given
        super().__init__(
            f"this ledger belongs to {ledger}, the key given is {given}; nothing was written. "
            "Use that key, or another ledger file."
        )


class LedgerBusy(LedgerError):
    """Another process writes to the ledger, for too long. Nothing was written."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path or 'the ledger in memory'} is held by another process; this change was not written. "
            "Try again, or end that process."
        )


class LedgerCorrupt(LedgerError):
    """The ledger file is damaged. It was left where it is."""


class LedgerTooNew(LedgerError):
    """The ledger was written by a newer sense-memory; it was not touched."""


class StorageFullError(LedgerError):
    """The disk is full; the transaction was rolled back and nothing was sent."""


class RelayError(SenseMemoryError):
    """A relay could not be used.

    Attributes:
        url: the relay.
    """

    def __init__(self, url: str, problem: str) -> None:
        self.url, self.problem = url, problem
        super().__init__(f"{url}: {problem}")


class NotSynced(SenseMemoryError):
    """Not in the ledger, and no relay has ever answered completely: it may well exist there."""

    def __init__(self, what: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(
            f"{what} not in the local ledger, and no relay could be asked completely yet "
            f"({'; '.join(problems) or 'none has answered'}): it may exist there. Try `sync` when a relay is reachable."
        )


class EmbedderError(SenseMemoryError):
    """Texts could not be turned into vectors: a model or a service failed. Searching by words goes on.

    Attributes:
        embedder: its name.
        problem: what happened, and what to do where that is known; no text, no key, no words of a service.
    """

    def __init__(self, embedder: str, problem: str) -> None:
        self.embedder, self.problem = embedder, problem
        super().__init__(
            f"the embedder {embedder}: {problem.removesuffix('.')}{'' if problem.endswith('?') else '.'} "
            "Nothing was lost; memories are still found by their words."
        )


class ChangesMissed(SenseMemoryError):
    """A `watch` was read too slowly, and ends. Nothing is lost: the ledger holds every change."""

    def __init__(self) -> None:
        super().__init__(
            "more changes came in than were waited for, so this watch has ended; the ledger holds them all. "
            "Watch again, then read everything with `recall_all` and `recent`."
        )


class RelayLimitWarning(UserWarning):
    """A relay says (NIP-11) that it takes no event as long as one that is about to be signed. Nothing is lost."""


def warn_of_limit(message: str) -> None:
    """A `RelayLimitWarning` at the line that called this package; one that is made an error is logged instead.

    What it is about is written by then, and whoever wrote it needs to know that.
    """
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    try:
        warnings.warn(message, RelayLimitWarning, stacklevel=level)
    except RelayLimitWarning:
        logging.getLogger("sense_memory").warning("%s", message)


class WrongThreadError(SenseMemoryError):
    """The store was opened in another thread; its event loop and its SQLite connection live there."""

    def __init__(self) -> None:
        super().__init__(
            "use a `SyncMemoryStore`, which any thread may call, or `asyncio.run_coroutine_threadsafe`: "
            "this store was opened in another thread. Nothing was read or written."
        )


class StoreClosed(SenseMemoryError):
    """The store is not open."""

    def __init__(self) -> None:
        super().__init__("the store is not open; use it inside `async with MemoryStore(...) as store:`")


class StoreForked(StoreClosed):
    """The store was opened by the process that this one is a fork of; SQLite and sockets do not survive that."""

    def __init__(self) -> None:
        SenseMemoryError.__init__(
            self,
            "this store was opened before a fork; nothing was written. Open one in the process that uses it.",
        )
