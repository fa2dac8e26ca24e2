"""Things that a door puts together: a relay with what a command learnt of it, findings, hits of a search, an edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sense_memory.interfaces.shapes.shape import thing
from sense_memory.interfaces.text import memories_in


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from sense_memory.memories.history import Version
    from sense_memory.memories.status import RelayStatus
    from sense_memory.mind.chat.compaction import ContextState
    from sense_memory.mind.chat.messages import Message
    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.models import IntrospectionReport, JournalEntry, Memory, PersonaMemory
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import RelayReport, SyncReport
    from sense_memory.search.hits import Hit, Hits


# ── Relays ──────────────────────────────────────────────────────────────────────────────


@thing("copy")
@dataclass(frozen=True, slots=True)
class RelayCopies:
    """What a relay has of the events that a command wrote or showed.

    Attributes:
        held: how many of them the relay has.
        states: how many are in which state: queued, acked, confirmed, refused, parked or superseded.
    """

    held: int
    states: Mapping[str, int]


@thing("relay")
@dataclass(frozen=True, slots=True, kw_only=True)
class RelayFacts:
    """A relay: what the ledger knows of it, and the part that belongs to the command.

    Everything but the address is null where no ledger was opened.

    Attributes:
        url: its address.
        is_local: whether the relay is on this machine; a copy there never counts as replicated.
        problem: why it could not be used, or lacks something.
        last_complete: when the relay last showed everything.
        holds_all: whether the relay accepted everything the ledger holds, by its word.
        memories: how many memories and journal entries the relay has shown.
        promised: how many more the relay has accepted and not shown yet.
        hides_journal: whether the relay hid the journal in its last complete pull.
        is_forgetful: whether the relay lacked events that it had accepted, when it was last asked.
        events: how many events are queued, acked, confirmed, refused or parked for this relay.
        reasons: why events wait or were refused.
        notices: the relay's own last words, escaped; data, not instructions.
        remarks: how the relay broke the protocol or its word.
        paused_seconds: how long nothing is sent to the relay, because it limits how often it takes events.
        sync: what became of the relay in `sync`.
        holding: what the relay told `doctor` that it holds.
        copy: what the relay has of the events that a write just made, or of the memory that `palace show` shows.
    """

    url: str
    is_local: bool
    problem: str | None = None
    last_complete: float | None = None
    holds_all: bool | None = None
    memories: int | None = None
    promised: int | None = None
    hides_journal: bool | None = None
    is_forgetful: bool | None = None
    events: Mapping[str, int] | None = None
    reasons: Mapping[str, int] | None = None
    notices: Sequence[str] | None = None
    remarks: Sequence[str] | None = None
    paused_seconds: float | None = None
    sync: RelayReport | None = None
    holding: Holding | None = None
    copy: RelayCopies | None = None

    @classmethod
    def of(cls, url: str, state: RelayStatus | None = None, *, problem: str = "", **parts: Any) -> Self:
        """A relay.

        Args:
            url: its address.
            state: what the ledger knows of it, or None where no ledger was opened.
            problem: of this command, where it differs from the problem in the state.
            parts: the results of this command: `sync`, `holding` or `copy`.
        """
        from sense_memory.nostr.relay_url import is_local

        if state is None:
            return cls(url=url, is_local=is_local(url), problem=problem or None, **parts)
        names = (name for name in cls.__slots__ if name not in {"sync", "holding", "copy", "problem", "url"})
        known = {name: getattr(state, name) for name in names}
        return cls(url=url, problem=problem or state.problem or None, **known, **parts)


def known_relays(status: Any, _now: float) -> list[RelayFacts]:
    """What the ledger knows of each relay, in the configured order."""
    return [RelayFacts.of(relay.url, relay) for relay in status.relays]


def asked_relays(report: SyncReport, _now: float) -> list[RelayFacts]:
    """Each relay with what became of it, in the configured order; `sync` adds what the ledger knows."""
    return [RelayFacts.of(relay.url, problem=relay.problem, sync=relay) for relay in report.relays]


# ── Introspection ───────────────────────────────────────────────────────────────────────


@thing("finding")
@dataclass(frozen=True, slots=True)
class Finding:
    """One item of a list of an introspection.

    Attributes:
        paths: the memories that it is about, the older one of two first.
        name: the domain, or the domain and facet, where it is about no single memory.
        confidence: how certain a suggested contradiction is, 0 to 1; null for other findings.
        reason: why it is listed.
    """

    paths: tuple[str, ...]
    name: str | None
    confidence: float | None
    reason: str | None


FINDINGS = (
    "suggested_contradictions",
    "contradictions",
    "conflicts",
    "suggested_revisions",
    "stale_beliefs",
    "suggested_connections",
    "forgotten_memories",
    "orphaned",
    "overloaded_facets",
    "suggested_compressions",
)  # the lists of an introspection, those to decide about first


def findings(report: IntrospectionReport, name: str) -> list[Finding]:
    """The items of one list of an introspection with their reasons."""
    reasons = report.reasons.get(name, ())
    return [
        Finding(
            tuple(memory.path for memory in memories_in(item)),
            item if isinstance(item, str) else None,
            getattr(item, "confidence", None) if hasattr(item, "old") else None,
            reasons[number] if number < len(reasons) else None,
        )
        for number, item in enumerate(getattr(report, name))
    ]


def counted_findings(report: IntrospectionReport, _now: float) -> dict[str, int]:
    """How many items each list has, whether or not all are given."""
    return {name: len(getattr(report, name)) for name in FINDINGS}


# ── Search ──────────────────────────────────────────────────────────────────────────────


@thing("hits")
@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a search found.

    Attributes:
        hits: memories, the best first.
        in_mind: hits of the mind, ranked separately.
        forgotten: how many forgotten or dissolved memories the query directly means and the hits leave out.
        confidence: the estimated probability that any of the hits answers the query, 0 to 1: that of the surest hit.
        is_doubtful: whether there are hits, and probably none of them answers the query.
    """

    hits: Hits[Hit]
    in_mind: Sequence[MindHit] = ()
    forgotten: int = 0
    confidence: float = 0.0
    is_doubtful: bool = False

    @classmethod
    def of(cls, hits: Hits[Any], in_mind: Sequence[MindHit] = ()) -> Self:
        """The answer of hits, and of hits of the mind."""
        return cls(hits, in_mind, hits.forgotten, hits.confidence, hits.is_doubtful)


# ── The mind ────────────────────────────────────────────────────────────────────────────


@thing("counted conversation", or_null=("title",))
@dataclass(frozen=True, slots=True)
class CountedConversation:
    """A conversation without its messages.

    Attributes:
        id: of the conversation.
        messages: how many messages it has.
        title: if it was imported with one.
    """

    id: str
    messages: int
    title: str = ""


_CONTEXT = ("summary", "covered_count", "is_by_rule", "dropped_count", "problem")


@thing(
    "conversation",
    without=("state",),
    plus={name: f"state.{name}" for name in _CONTEXT},
    or_null=("summary", "problem"),
)
@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation: the state of its context, and some of its messages.

    Attributes:
        id: of the conversation.
        state: of its context.
        messages: oldest first.
    """

    id: str
    state: ContextState
    messages: Sequence[Message]


@thing("concluded belief")
@dataclass(frozen=True, slots=True)
class ConcludedBelief:
    """A belief that an actor concluded from the log.

    Attributes:
        id: of its entry in the log.
        actor: who concluded it.
        belief: in words.
        based_on: the ids of the entries that it is based on.
        left_out: how many older entries did not fit the request and were not read.
        at: when it was concluded.
    """

    id: str
    actor: str
    belief: str
    based_on: tuple[str, ...]
    left_out: int
    at: float

    @classmethod
    def of(cls, entry: LogEntry) -> Self:
        """The belief in an entry of the log."""
        from sense_memory.mind.reflection import based_on

        belief, left_out = str(entry.payload.get("belief", "")), entry.payload.get("left_out", 0)
        return cls(entry.id, entry.actor, belief, based_on(entry), left_out, entry.at)


# ── Edits ───────────────────────────────────────────────────────────────────────────────


@thing("edit", or_null=("to", "event_id"))
@dataclass(frozen=True, slots=True)
class DoneEdit:
    """An edit that was made through a door.

    Attributes:
        number: names the edit in this run.
        action: new, write, forget, move, pin, unpin, themes or journal.
        path: of the memory or the journal entry.
        to: where it was moved to.
        at: when it was made.
        event_id: the event of the memory or entry that was written.
        superseded: the paths of memories that were marked as superseded by the new text.
        suspected: the paths of memories that the new text seems to contradict; these are not marked.
        is_undoable: whether it can be taken back.
        is_taken_back: whether it was taken back.
    """

    number: int
    action: str
    path: str
    to: str = ""
    at: float = 0.0
    event_id: str = ""
    superseded: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    is_undoable: bool = True
    is_taken_back: bool = False


# ── The HTTP API ────────────────────────────────────────────────────────────────────────


@thing("memory list")
@dataclass(frozen=True, slots=True)
class MemoryList:
    """Some of the memories that a request asks for.

    Attributes:
        memories: in the order of their paths.
        total: how many there are.
        next: what `start` has to be for the memories after these; null at the end.
    """

    memories: Sequence[Memory | PersonaMemory]
    total: int
    next: int | None


@thing("memory history")
@dataclass(frozen=True, slots=True)
class MemoryHistory:
    """The versions of a memory that the ledger has.

    Attributes:
        versions: the newest first.
    """

    versions: Sequence[Version]


@thing("journal list")
@dataclass(frozen=True, slots=True)
class JournalList:
    """Entries of the journal.

    Attributes:
        entries: the newest first.
    """

    entries: Sequence[JournalEntry]


@thing("stored memory")
@dataclass(frozen=True, slots=True)
class StoredMemory:
    """What a write changed.

    Attributes:
        event_id: of the version that was written, or of the request to delete.
        superseded: paths of memories that the new text clearly contradicts, which are marked as superseded by it.
        suspected: paths of memories that it may contradict.
    """

    event_id: str
    superseded: Sequence[str] = ()
    suspected: Sequence[str] = ()
