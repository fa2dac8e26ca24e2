"""sense-memory: a sovereign memory for AI agents.

An agent's key owns its memory: signed, encrypted Nostr events in a local ledger, replicated to relays of
the owner's choice. `MemoryStore` is the object to hold; everything public is exported here.
"""

from __future__ import annotations

from sense_memory.__about__ import __version__


TYPE_CHECKING = False  # typing's own takes longer to import than all of this module
if TYPE_CHECKING:
    from typing import Any

    from sense_memory.blocking import SyncMemoryStore
    from sense_memory.embedding import EmbedReport, Gaps
    from sense_memory.errors import (
        BadKey,
        BadPayload,
        ChangesMissed,
        ClockSkewError,
        EmbedderError,
        EnvelopeError,
        InvalidAddress,
        InvalidEvent,
        InvalidInput,
        InvalidRelayUrl,
        InvalidSetting,
        KeychainError,
        KeyMissing,
        LedgerBusy,
        LedgerCorrupt,
        LedgerError,
        LedgerTooNew,
        MalformedFrame,
        MisfiledError,
        MissingExtra,
        NeedsNewerVersion,
        NotSynced,
        PlanLimitError,
        RelayError,
        RelayLimitWarning,
        SealVerificationError,
        SenseMemoryError,
        StorageFullError,
        StoreClosed,
        StoreForked,
        TooLargeError,
        UnsafeKeyFile,
        UnsupportedVersion,
        WrongKeyError,
        WrongThreadError,
    )
    from sense_memory.models import (
        Change,
        Draft,
        IntrospectionReport,
        JournalEntry,
        Memory,
        PersonaMemory,
        State,
        SuggestedContradiction,
    )
    from sense_memory.nostr.signer import LocalSigner, Signer
    from sense_memory.palace.hits import PersonaHit
    from sense_memory.palace.lifecycle import current_relevance
    from sense_memory.palace.plan import Plan
    from sense_memory.persona.reviews import Pruned
    from sense_memory.portable import BadLine, ImportReport
    from sense_memory.relay.embedded import EmbeddedRelay
    from sense_memory.relay.holdings import Holding
    from sense_memory.relay.report import RelayReport, SyncReport
    from sense_memory.relay.session import Timeouts
    from sense_memory.search.embedder import Embedder
    from sense_memory.search.embedders import open_embedder
    from sense_memory.search.fusion import Levers
    from sense_memory.search.hits import Evidence, Explanation, Hit
    from sense_memory.search.index import MemoryIndex
    from sense_memory.search.ranking import SearchHit
    from sense_memory.search.shelf import SearchItem
    from sense_memory.search.static import StaticEmbedder
    from sense_memory.status import RelayStatus, Status
    from sense_memory.store import MemoryStore
    from sense_memory.timeline import Version


# Where each public name lives. They are imported when first used: a script that only prints the
# version, or a command line that only recalls, does not pay for sockets and models it never touches.
_HOMES = {
    "BadLine": "portable",
    "Change": "models",
    "Draft": "models",
    "EmbedReport": "embedding",
    "EmbeddedRelay": "relay.embedded",
    "Embedder": "search.embedder",
    "Evidence": "search.hits",
    "Explanation": "search.hits",
    "Gaps": "embedding",
    "Hit": "search.hits",
    "Holding": "relay.holdings",
    "ImportReport": "portable",
    "IntrospectionReport": "models",
    "JournalEntry": "models",
    "Levers": "search.fusion",
    "LocalSigner": "nostr.signer",
    "Memory": "models",
    "MemoryIndex": "search.index",
    "MemoryStore": "store",
    "PersonaHit": "palace.hits",
    "PersonaMemory": "models",
    "Plan": "palace.plan",
    "Pruned": "persona.reviews",
    "RelayReport": "relay.report",
    "RelayStatus": "status",
    "SearchHit": "search.ranking",
    "SearchItem": "search.shelf",
    "Signer": "nostr.signer",
    "StaticEmbedder": "search.static",
    "State": "models",
    "Status": "status",
    "SuggestedContradiction": "models",
    "SyncMemoryStore": "blocking",
    "SyncReport": "relay.report",
    "Timeouts": "relay.session",
    "Version": "timeline",
    "current_relevance": "palace.lifecycle",
    "open_embedder": "search.embedders",
}

__all__ = [
    "BadKey",
    "BadLine",
    "BadPayload",
    "Change",
    "ChangesMissed",
    "ClockSkewError",
    "Draft",
    "EmbedReport",
    "EmbeddedRelay",
    "Embedder",
    "EmbedderError",
    "EnvelopeError",
    "Evidence",
    "Explanation",
    "Gaps",
    "Hit",
    "Holding",
    "ImportReport",
    "IntrospectionReport",
    "InvalidAddress",
    "InvalidEvent",
    "InvalidInput",
    "InvalidRelayUrl",
    "InvalidSetting",
    "JournalEntry",
    "KeyMissing",
    "KeychainError",
    "LedgerBusy",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "Levers",
    "LocalSigner",
    "MalformedFrame",
    "Memory",
    "MemoryIndex",
    "MemoryStore",
    "MisfiledError",
    "MissingExtra",
    "NeedsNewerVersion",
    "NotSynced",
    "PersonaHit",
    "PersonaMemory",
    "Plan",
    "PlanLimitError",
    "Pruned",
    "RelayError",
    "RelayLimitWarning",
    "RelayReport",
    "RelayStatus",
    "SealVerificationError",
    "SearchHit",
    "SearchItem",
    "SenseMemoryError",
    "Signer",
    "State",
    "StaticEmbedder",
    "Status",
    "StorageFullError",
    "StoreClosed",
    "StoreForked",
    "SuggestedContradiction",
    "SyncMemoryStore",
    "SyncReport",
    "Timeouts",
    "TooLargeError",
    "UnsafeKeyFile",
    "UnsupportedVersion",
    "Version",
    "WrongKeyError",
    "WrongThreadError",
    "__version__",
    "current_relevance",
    "open_embedder",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sense_memory' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"sense_memory.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
