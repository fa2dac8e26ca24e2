"""sense-memory: a sovereign memory for AI agents.

An agent's key owns its memory: signed, encrypted Nostr events in a local ledger, replicated to relays of
the owner's choice. `MemoryStore` is the object to hold; everything public is exported here.
"""

from __future__ import annotations

from sense_memory.__about__ import __version__


TYPE_CHECKING = False  # typing's own takes longer to import than all of this module
if TYPE_CHECKING:
    from typing import Any

    from sense_memory.errors import (
        InvalidInput,
        KeyMissing,
        LedgerError,
        NotSynced,
        SenseMemoryError,
        StoreClosed,
    )
    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona.reviews import Pruned
    from sense_memory.memories.portable import BadLine, ImportReport
    from sense_memory.memories.status import RelayStatus, Status
    from sense_memory.models import (
        Change,
        ChangeKind,
        Draft,
        IntrospectionReport,
        JournalEntry,
        Memory,
        PersonaMemory,
        State,
        SuggestedContradiction,
    )
    from sense_memory.nostr.signer import LocalSigner, Signer
    from sense_memory.palace.lifecycle import current_relevance
    from sense_memory.palace.plan import Plan
    from sense_memory.palace.search import PersonaHit
    from sense_memory.relay.client.timeouts import Timeouts
    from sense_memory.relay.server.server import EmbeddedRelay
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import RelayReport, SyncReport
    from sense_memory.search.embedders.choice import open_embedder
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.embedders.static import StaticEmbedder
    from sense_memory.search.hits import Evidence, Explanation, Hit
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore


# Where each public name lives. They are imported when first used: a script that only prints the
# version, or a command line that only recalls, does not pay for sockets and models it never touches.
_HOMES = {
    "BadLine": "memories.portable",
    "Change": "models",
    "ChangeKind": "models",
    "Draft": "models",
    "EmbedReport": "memories.embedding_jobs",
    "EmbeddedRelay": "relay.server.server",
    "Embedder": "search.embedders.embedder",
    "Evidence": "search.hits",
    "Explanation": "search.hits",
    "Gaps": "memories.embedding_jobs",
    "Hit": "search.hits",
    "Holding": "relay.sync.holdings",
    "ImportReport": "memories.portable",
    "IntrospectionReport": "models",
    "JournalEntry": "models",
    "LocalSigner": "nostr.signer",
    "Memory": "models",
    "MemoryStore": "store",
    "PersonaHit": "palace.search",
    "PersonaMemory": "models",
    "Plan": "palace.plan",
    "Pruned": "memories.persona.reviews",
    "RelayReport": "relay.sync.reports",
    "RelayStatus": "memories.status",
    "RescueReport": "ledger.rescue",
    "Signer": "nostr.signer",
    "StaticEmbedder": "search.embedders.static",
    "State": "models",
    "Status": "memories.status",
    "SuggestedContradiction": "models",
    "SyncMemoryStore": "sync_store",
    "SyncReport": "relay.sync.reports",
    "Timeouts": "relay.client.timeouts",
    "Version": "memories.history",
    "current_relevance": "palace.lifecycle",
    "open_embedder": "search.embedders.choice",
}

__all__ = [
    "BadLine",
    "Change",
    "ChangeKind",
    "Draft",
    "EmbedReport",
    "EmbeddedRelay",
    "Embedder",
    "Evidence",
    "Explanation",
    "Gaps",
    "Hit",
    "Holding",
    "ImportReport",
    "IntrospectionReport",
    "InvalidInput",
    "JournalEntry",
    "KeyMissing",
    "LedgerError",
    "LocalSigner",
    "Memory",
    "MemoryStore",
    "NotSynced",
    "PersonaHit",
    "PersonaMemory",
    "Plan",
    "Pruned",
    "RelayReport",
    "RelayStatus",
    "RescueReport",
    "SenseMemoryError",
    "Signer",
    "State",
    "StaticEmbedder",
    "Status",
    "StoreClosed",
    "SuggestedContradiction",
    "SyncMemoryStore",
    "SyncReport",
    "Timeouts",
    "Version",
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
