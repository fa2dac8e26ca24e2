"""The things of the product, by the full name of their class, and what differs from its own fields; see `Shape`.

Classes are named by text, so that a command imports only those whose objects it shows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sense_memory.interfaces.shapes.shape import Shape
from sense_memory.interfaces.shapes.views import (
    FINDINGS,
    Finding,
    RelayFacts,
    asked_relays,
    counted_findings,
    findings,
    known_relays,
)


if TYPE_CHECKING:
    from sense_memory.memories.history import Version
    from sense_memory.memories.status import Status
    from sense_memory.mind.scenes.share import SharedMemory
    from sense_memory.models import IntrospectionReport, JournalEntry, PalaceChanges, PersonaMemory, State
    from sense_memory.palace.compression import Compressed
    from sense_memory.search.hits import Hit


def _relevance(memory: PersonaMemory, now: float) -> float:
    """The relevance at the moment of the command, 0 or more."""
    from sense_memory.palace.lifecycle import current_relevance

    return current_relevance(memory, now)


def _state(memory: PersonaMemory, now: float) -> State:
    """The state at the moment of the command, which follows from the relevance."""
    from sense_memory.palace.lifecycle import current_state

    return current_state(memory, now)


def _entry_path(entry: JournalEntry, _now: float) -> str:
    return f"journal/{entry.event_id}"


def _hit_path(hit: Hit, _now: float) -> str:
    return f"journal/{hit.path}" if hit.kind == "journal" else hit.path


def _is_forgotten(version: Version, _now: float) -> bool:
    """Whether this version is a tombstone: the memory was forgotten."""
    return version.value is None


def _text(found: Compressed, _now: float) -> str:
    """The shorthand."""
    return str(found)


def _trust(found: Compressed, _now: float) -> str | None:
    """The least trusted source in the text, which bounds the trust in the whole text."""
    return found.trust or None


def _found(name: str, report: IntrospectionReport, _now: float) -> list[Finding]:
    return findings(report, name)


CHANGED: Final = (
    "new",
    "gone",
    "rewritten",
    "faded",
    "forgotten",
    "dissolved",
    "revived",
    "contradicted",
    "settled",
)  # the lists of `PalaceChanges`


def _counted_changes(changes: PalaceChanges, _now: float) -> dict[str, int]:
    """How many memories each list has, whether or not all are given."""
    return {name: len(getattr(changes, name)) for name in CHANGED}


def _npub(item: SharedMemory, _now: float) -> str:
    """The public key of the agent that shares the memory."""
    from sense_memory.nostr.keys import npub

    return npub(item.owner)


def _memories(status: Status, _now: float) -> int:
    """How many memories are here, without journal entries."""
    return status.counts["heads"] - status.counts["entries"]


def _journal_entries(status: Status, _now: float) -> int:
    """How many journal entries are here."""
    return status.counts["entries"]


def _drafts(status: Status, _now: float) -> int:
    """How many drafts are here."""
    return status.counts["drafts"]


_MEMORIES: Final = {
    "models.Memory": Shape("memory", path="key", kind="flat", or_null=("source", "session")),
    "models.PersonaMemory": Shape(
        "palace memory",
        path="path",
        kind="palace",
        without=("seen",),
        plus={"current_relevance": _relevance, "state": _state},
        or_null=("source", "session"),
    ),
    "models.JournalEntry": Shape(
        "journal entry",
        path=_entry_path,
        kind="journal",
        plus={"value": "content"},
        or_null=("source", "session"),
    ),
    "models.Draft": Shape("draft", path="key", or_null=("reason",)),
    "models.Change": Shape("change", path="path", plus={"relay_url": "relay"}),
    "memories.history.Version": Shape(
        "version", plus={"forgotten": _is_forgotten}, or_null=("restored",), is_named=True
    ),
    "models.PalaceChanges": Shape("changes", plus={"counts": _counted_changes}),
    "models.IntrospectionReport": Shape(
        "introspection",
        without=("reasons",),
        plus={"counts": counted_findings, **{name: partial(_found, name) for name in FINDINGS}},
    ),
    "palace.compression.Compressed": Shape(
        "shorthand",
        plus={
            "text": _text,
            "tokens": "tokens",
            "included": "included",
            "left_out": "left_out",
            "sources": "sources",
            "trust": _trust,
            "has_answer": "has_answer",
            "is_doubtful": "is_doubtful",
            "untrusted": "untrusted",
        },
    ),
    "exchange.import_plan.Step": Shape(
        "import step",
        without=("item",),
        plus={"kind": "item.kind", "path": "item.path", "file": "item.file", "number": "item.line"},
        or_null=("path", "reason"),
    ),
    "palace.pruning.PruneReport": Shape("pruning", plus={"count": "count"}),
    "palace.pruning.PruneLine": Shape("step"),
    "palace.contradictions.detection.Contradiction": Shape("contradicting pair"),
    "memories.embedding_jobs.EmbedReport": Shape(
        "embedding", plus={"left": "count", "problem": "trouble"}, without=("unread",), or_null=("model",)
    ),
}
_HITS: Final = {
    "search.hits.Hit": Shape("hit", path=_hit_path, or_null=("source", "session")),
    "search.hits.Explanation": Shape("explanation"),
    "search.hits.Evidence": Shape("evidence", or_null=("detail",)),
    "palace.search.PersonaHit": Shape(
        "palace hit",
        path="path",
        without=("seen",),
        plus={"current_relevance": _relevance, "state": _state},
        or_null=("source", "session"),
    ),
    "palace.search.Why": Shape("palace explanation"),
    "palace.search.Match": Shape("match"),
    "mind.search.hits.MindHit": Shape("mind hit", or_null=("actor", "corrected_by")),
    "search.ranking.Reason": Shape("reason", plus={"contribution": "share"}, or_null=("detail",)),
}
_RELAYS: Final = {
    "memories.status.Status": Shape(
        "store",
        plus={
            "memories": _memories,
            "journal_entries": _journal_entries,
            "drafts": _drafts,
            "relays": known_relays,
            "copies_elsewhere": "copies_elsewhere",
            "is_replicated": "is_replicated",
        },
    ),
    "memories.status.RelayStatus": Shape("relay", view=lambda state: RelayFacts.of(state.url, state)),
    "relay.sync.reports.SyncReport": Shape(
        "synchronisation",
        plus={
            "in_step": "in_step",
            "complete": "complete",
            "first": "is_first",
            "relays": asked_relays,
        },
    ),
    "relay.sync.reports.FirstTrust": Shape("trust on first use"),
    "ledger.manifests.ManifestCheck": Shape(
        "manifest check", plus={"here": "here", "holds": "holds", "is_alarming": "is_alarming"}
    ),
    "ledger.manifests.DeviceManifest": Shape("device manifest", plus={"is_set_back": "is_set_back"}),
    "ledger.copies.MemoryCopies": Shape(
        "memory copies",
        without=("states",),
        plus={"is_replicated": "is_replicated", "is_durable": "is_durable"},
    ),
    "ledger.copies.CopyCounts": Shape("copy counts"),
    "relay.sync.audit.RelayAudit": Shape(
        "relay audit", plus={"complete": "complete", "is_sound": "is_sound"}
    ),
    "relay.sync.reports.RelayReport": Shape(
        "sync part",
        without=("url", "problem", "pulled", "paused_seconds"),
        plus={
            "complete": "complete",
            "in_step": "in_step",
            "incomplete": "pulled.reasons",
            "received": "pulled.received",
            "missing": "pulled.missing",
        },
    ),
    "relay.sync.holdings.Holding": Shape("holding", without=("url",), or_null=("problem",)),
    "memories.address_moves.AddressPlan": Shape("address plan"),
    "ledger.rescue.RescueReport": Shape("rescue"),
    "interfaces.cli.rotate.Rotated": Shape("rotation"),
    "memories.rotation.Carried": Shape("carried"),
    "memories.rotation.ReadBack": Shape("read back", or_null=("problem",)),
    "memories.goodbye.Goodbye": Shape("goodbye", plus={"is_confirmed": "is_confirmed"}),
    "memories.goodbye.RelayGoodbye": Shape("goodbye of a relay", or_null=("problem",)),
    "config.relays.Preset": Shape("preset"),
    "memories.agents.AgentFiles": Shape("agent"),
    "interfaces.mcp.oauth.access_file.Grant": Shape("access grant", or_null=("name",)),
}
_MIND: Final = {
    "mind.blocks.Block": Shape("block", or_null=("session",)),
    "mind.files.MirroredFile": Shape(
        "mirrored file", path="full_name", kind="file", plus={"value": "text"}, without=("seen", "restored")
    ),
    "mirror.decisions.MirrorReport": Shape(
        "mirrored folder",
        plus={"in_step": "in_step_count"},
        without=("has_passing",),
        or_null=("problem",),
    ),
    "mirror.decisions.MirrorStep": Shape("mirror step", or_null=("note",)),
    "mind.layers.archive.Passage": Shape("passage", or_null=("title", "source", "origin", "session")),
    "mind.layers.topics.Topic": Shape("topic", or_null=("last",)),
    "mind.layers.topics.TopicProposal": Shape("topic proposal"),
    "mind.layers.identity.AgentIdentity": Shape("identity", without=("sketch",)),
    "mind.layers.identity.Objective": Shape("objective"),
    "mind.proposals.ProposedMemory": Shape("proposed memory", or_null=("replaces", "conversation")),
    "palace.trust.TrustRule": Shape(
        "trust rule", without=("digest",), or_null=("source", "session", "name", "made_by")
    ),
    "mind.trust.TrustStep": Shape("trust step"),
    "mind.log.LogEntry": Shape("log entry", plus={"text": "text"}, or_null=("author",)),
    "mind.chat.messages.Message": Shape("message", or_null=("name",)),
    "mind.chat.messages.ToolCall": Shape("tool call", or_null=("name",)),
    "mind.scenes.membership.SceneState": Shape("scene", without=("keys",), plus={"members": "members"}),
    "mind.scenes.share.SharedMemory": Shape("shared memory", plus={"owner": _npub}),
    "mind.prompts.prompt.Prompt": Shape("prompt", without=("recalled",), plus={"messages": "messages"}),
    "mind.prompts.prompt.PromptReport": Shape("prompt report"),
    "mind.prompts.prompt.PartReport": Shape("prompt part"),
}

TABLE: Final[dict[str, Any]] = {
    f"sense_memory.{name}": shape for name, shape in (_MEMORIES | _HITS | _RELAYS | _MIND).items()
}
