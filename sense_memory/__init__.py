"""sense-memory: a sovereign memory for AI agents.

An agent's key owns its memory: signed, encrypted Nostr events in a local ledger, replicated to relays of
the owner's choice. `MemoryStore` is the object to hold; everything public is exported here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from sense_memory.blocking import SyncMemoryStore
    from sense_memory.errors import (
        BadKey,
        BadPayload,
        ClockSkewError,
        EnvelopeError,
        InvalidAddress,
        InvalidEvent,
        InvalidInput,
        InvalidRelayUrl,
        InvalidSetting,
        KeychainError,
        KeyMissing,
        LedgerCorrupt,
        LedgerError,
        LedgerTooNew,
        MalformedFrame,
        MisfiledError,
        MissingExtra,
        NeedsNewerVersion,
        NotSynced,
        RelayError,
        SealVerificationError,
        SenseMemoryError,
        StorageFullError,
        StoreClosed,
        TooLargeError,
        UnsafeKeyFile,
        UnsupportedVersion,
        WrongKeyError,
    )
    from sense_memory.models import Draft, JournalEntry, Memory
    from sense_memory.nostr.signer import LocalSigner, Signer
    from sense_memory.portable import BadLine, ImportReport
    from sense_memory.relay.embedded import EmbeddedRelay
    from sense_memory.relay.report import RelayReport, SyncReport
    from sense_memory.relay.session import Timeouts
    from sense_memory.status import RelayStatus, Status
    from sense_memory.store import MemoryStore
    from sense_memory.timeline import Version

__version__ = "2.0.0a1"

# Where each public name lives. They are imported when first used: a script that only prints the
# version, or a command line that only recalls, does not pay for sockets and models it never touches.
_HOMES = {
    "Draft": "models",
    "BadLine": "portable",
    "EmbeddedRelay": "relay.embedded",
    "ImportReport": "portable",
    "JournalEntry": "models",
    "LocalSigner": "nostr.signer",
    "Memory": "models",
    "MemoryStore": "store",
    "RelayReport": "relay.report",
    "RelayStatus": "status",
    "Signer": "nostr.signer",
    "Status": "status",
    "SyncMemoryStore": "blocking",
    "SyncReport": "relay.report",
    "Timeouts": "relay.session",
    "Version": "timeline",
}

__all__ = [
    "BadKey",
    "BadLine",
    "BadPayload",
    "ClockSkewError",
    "Draft",
    "EmbeddedRelay",
    "EnvelopeError",
    "ImportReport",
    "InvalidAddress",
    "InvalidEvent",
    "InvalidInput",
    "InvalidRelayUrl",
    "InvalidSetting",
    "JournalEntry",
    "KeyMissing",
    "KeychainError",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "LocalSigner",
    "MalformedFrame",
    "Memory",
    "MemoryStore",
    "MisfiledError",
    "MissingExtra",
    "NeedsNewerVersion",
    "NotSynced",
    "RelayError",
    "RelayReport",
    "RelayStatus",
    "SealVerificationError",
    "SenseMemoryError",
    "Signer",
    "Status",
    "StorageFullError",
    "StoreClosed",
    "SyncMemoryStore",
    "SyncReport",
    "Timeouts",
    "TooLargeError",
    "UnsafeKeyFile",
    "UnsupportedVersion",
    "Version",
    "WrongKeyError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sense_memory' has no attribute {name!r}")
    value = getattr(import_module(f"sense_memory.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
