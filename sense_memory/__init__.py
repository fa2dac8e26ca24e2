"""sense-memory: a sovereign memory for AI agents.

An agent's key owns its memory: signed, encrypted Nostr events in a local ledger, replicated to relays of the owner's
choice. `MemoryStore` is the object to hold. This module exports what users hold and the errors that they catch;
`sense_memory.errors` has all errors, `sense_memory.palace` and `sense_memory.search` have the pure parts.

One noun for one thing
    flat memory     One value under one key, which never fades: `remember`, `recall`, `forget`.
    palace memory  One value under a domain, a facet and a key, which fades unless it is recalled: `persona_remember`, …
    palace          All palace memories of an agent together, and the views of them (introspection, compression, …).
    journal entry   A dated text that is never replaced; the journal holds all entries.
    domain          The broad area of a palace memory: self, people, projects, world, skills, or another name.
    facet           The type of knowledge within a domain: facts, beliefs, decisions, procedures, emotions, or another.
    key             The name of a flat memory, or of a palace memory within its facet.
    path            The full name of a memory: its key, or `domain/facet/key`.
    record          The inside of an event: a type, a path and fields, which only the agent's key can read.
    event           A record as relays carry it: encrypted, signed, and dated to the second (Nostr, NIP-01).
    address         The place of an event on relays, its d-tag: `sense-memory/` and the path, or a hash of the path.
    slot            The place of an event in the ledger: its address, or its id if it has no address.
    version         One of the events at an address, ordered by date; the ledger keeps every version that it has seen.
    head            The version that counts: the latest; of two with the same date, the one with the lower id.
    tombstone       The version that replaces a forgotten memory; the earlier versions are purged.
    draft           A text that could not become a version; it is kept encrypted on this machine only.
    access          A recall of a palace memory by its exact key, which revives the memory. A search is not an access.
    relevance       How alive a palace memory is: 1 when it is written or revived, a tenth more for each connection,
                    less as time passes.
    half-life       The days after which the relevance of a palace memory has halved.
    ledger          The SQLite file on this machine with every event; every read answers from it.
    outbox          The part of the ledger that lists, for each relay, the events still to be sent.
"""

from __future__ import annotations

from sense_memory.__about__ import __version__


TYPE_CHECKING = False  # typing's own takes longer to import than all of this module
if TYPE_CHECKING:
    from typing import Any

    from sense_memory.arguments import (
        ContradictionMode,
        MemoryFields,
        PlanName,
        ReviveRule,
        SearchedPart,
        StateName,
    )
    from sense_memory.errors import (
        InvalidInput,
        KeyMissing,
        LedgerError,
        NotSynced,
        SenseMemoryError,
        StoreClosed,
    )
    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.backup import BadLine, ImportReport
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.memories.persona.reviews import Pruned
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
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.server.server import EmbeddedRelay
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import RelayReport, SyncReport
    from sense_memory.search.embedders.choice import open_embedder
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.embedders.local_models import StaticEmbedder
    from sense_memory.search.hits import Evidence, Explanation, Hit, Hits
    from sense_memory.store import MemoryStore
    from sense_memory.sync_store import SyncMemoryStore


# Where each public name lives. They are imported when first used: a script that only prints the
# version, or a command line that only recalls, does not pay for sockets and models it never touches.
_HOMES = {
    "BadLine": "memories.backup",
    "Change": "models",
    "ContradictionMode": "arguments",
    "ChangeKind": "models",
    "Draft": "models",
    "EmbedReport": "memories.embedding_jobs",
    "EmbeddedRelay": "relay.server.server",
    "Embedder": "search.embedders.embedder",
    "Evidence": "search.hits",
    "Explanation": "search.hits",
    "Gaps": "memories.embedding_jobs",
    "Hit": "search.hits",
    "Hits": "search.hits",
    "Holding": "relay.sync.holdings",
    "ImportReport": "memories.backup",
    "IntrospectionReport": "models",
    "JournalEntry": "models",
    "LocalSigner": "nostr.signer",
    "Memory": "models",
    "MemoryFields": "arguments",
    "MemoryStore": "store",
    "PersonaHit": "palace.search",
    "PersonaMemory": "models",
    "Plan": "palace.plan",
    "PlanName": "arguments",
    "Pruned": "memories.persona.reviews",
    "RelayReport": "relay.sync.reports",
    "RelayStatus": "memories.status",
    "Remembered": "memories.persona.remembered",
    "RescueReport": "ledger.rescue",
    "ReviveRule": "arguments",
    "SearchedPart": "arguments",
    "Signer": "nostr.signer",
    "StaticEmbedder": "search.embedders.local_models",
    "State": "models",
    "StateName": "arguments",
    "Status": "memories.status",
    "SuggestedContradiction": "models",
    "SyncMemoryStore": "sync_store",
    "SyncReport": "relay.sync.reports",
    "Timeouts": "relay.client.actions",
    "Version": "memories.history",
    "current_relevance": "palace.lifecycle",
    "open_embedder": "search.embedders.choice",
}

__all__ = [
    "BadLine",
    "Change",
    "ChangeKind",
    "ContradictionMode",
    "Draft",
    "EmbedReport",
    "EmbeddedRelay",
    "Embedder",
    "Evidence",
    "Explanation",
    "Gaps",
    "Hit",
    "Hits",
    "Holding",
    "ImportReport",
    "IntrospectionReport",
    "InvalidInput",
    "JournalEntry",
    "KeyMissing",
    "LedgerError",
    "LocalSigner",
    "Memory",
    "MemoryFields",
    "MemoryStore",
    "NotSynced",
    "PersonaHit",
    "PersonaMemory",
    "Plan",
    "PlanName",
    "Pruned",
    "RelayReport",
    "RelayStatus",
    "Remembered",
    "RescueReport",
    "ReviveRule",
    "SearchedPart",
    "SenseMemoryError",
    "Signer",
    "State",
    "StateName",
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
