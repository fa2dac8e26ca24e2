"""The output of `--json`: one shape for one thing, whichever command prints it. docs/json.md lists all shapes.

Every field of a shape is always present; a value that is absent, or not known to the command, is null. Times are ISO 8601 in
UTC. A memory's name is its `path`, and `key` is the last part of that; its text is its `value`.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sense_memory.interfaces.cli.text import iso


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.memories.history import Version
    from sense_memory.memories.status import RelayStatus
    from sense_memory.models import Change, Draft, JournalEntry, Memory, PersonaMemory
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import RelayReport
    from sense_memory.search.hits import Hit

_JOURNAL: Final = "journal/"
_PALACE_TIMES: Final = ("created_at", "last_accessed", "last_reinforced", "dissolved_at")


def shown_path(path: str) -> str:
    """A path as the commands name it, without the prefix of the palace."""
    from sense_memory.nostr.address import persona_name

    return persona_name(path)


def name_data(path: str) -> dict[str, Any]:
    """The names of a memory: its path, and the key at the end of the path."""
    shown = shown_path(path)
    return {"path": shown, "key": shown.rpartition("/")[2]}


def memory_data(memory: Memory) -> dict[str, Any]:
    """A memory under a plain key."""
    return {**name_data(memory.key), **memory.model_dump(), "created_at": iso(memory.created_at)}


def entry_data(entry: JournalEntry) -> dict[str, Any]:
    """A journal entry."""
    return {
        **name_data(f"{_JOURNAL}{entry.event_id}"),
        "value": entry.content,
        "created_at": iso(entry.created_at),
        "event_id": entry.event_id,
    }


def palace_data(memory: PersonaMemory, now: float | None = None) -> dict[str, Any]:
    """A memory of the palace; for a hit also its score and its reasons.

    Args:
        memory: its state is that of `now`.
        now: seconds since 1970; None for this moment.
    """
    from sense_memory.palace.lifecycle import current_relevance

    relevance = current_relevance(memory, time.time() if now is None else now)
    fields = memory.model_dump(mode="json", exclude={"seen"})
    times = {name: iso(getattr(memory, name)) for name in _PALACE_TIMES}
    known = {"source": memory.source or None, "current_relevance": round(relevance, 4)}
    return {**name_data(memory.path), **fields, **times, **known}


def version_data(path: str, version: Version) -> dict[str, Any]:
    """One version of a memory."""
    return {
        **name_data(path),
        "value": version.value,
        "created_at": iso(version.created_at),
        "event_id": version.event_id,
        "is_head": version.is_head,
        "forgotten": version.value is None,
        "restored": version.restored or None,
    }


def draft_data(draft: Draft) -> dict[str, Any]:
    """A draft."""
    fields = draft.model_dump(mode="json") | {"created_at": iso(draft.created_at)}
    return {**fields, **name_data(draft.key), "reason": draft.reason or None}


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit of a search over everything."""
    fields = hit.model_dump(mode="json")
    for item in fields["why"]["evidence"]:
        item["detail"] = item["detail"] or None
    path = f"{_JOURNAL}{hit.path}" if hit.kind == "journal" else hit.path
    return {**fields, **name_data(path), "created_at": iso(hit.created_at), "source": hit.source or None}


def change_data(change: Change) -> dict[str, Any]:
    """A change by another device or program."""
    fields = change.model_dump(mode="json") | {"created_at": iso(change.created_at)}
    relay = fields.pop("relay")
    return {**fields, **name_data(change.path), "relay_url": relay}


# ── Relays ──────────────────────────────────────────────────────────────────────────────


def relay_data(
    url: str, state: RelayStatus | None = None, *, problem: str = "", **parts: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A relay.

    Args:
        url: its address.
        state: what the ledger knows of it, or None where no ledger was opened.
        problem: of this command, where it differs from the problem in the state.
        parts: the results of this command: `sync`, `holding` or `copy`, from the functions below.
    """
    from sense_memory.nostr.relay_url import is_local

    return {
        "url": url,
        "is_local": is_local(url),
        "problem": problem or (state.problem if state else "") or None,
        "last_complete": iso(state.last_complete) if state else None,
        "holds_all": state.holds_all if state else None,
        "memories": state.memories if state else None,
        "promised": state.promised if state else None,
        "events": dict(state.events) if state else None,
        "reasons": dict(state.reasons) if state else None,
        "notices": list(state.notices) if state else None,
        "remarks": list(state.remarks) if state else None,
        "paused_seconds": round(state.paused_seconds, 3) if state else None,
        "sync": None,
        "holding": None,
        "copy": None,
        **parts,
    }


def sync_data(report: RelayReport, *, in_step: bool) -> dict[str, Any]:
    """The result of a sync for one relay."""
    return {
        "complete": report.complete,
        "in_step": in_step,
        "asked": report.asked,
        "held_back": report.held_back,
        "incomplete": list(report.pulled.reasons),
        "received": report.pulled.received,
        "missing": report.pulled.missing,
        "served": dict(report.served),
        "sent": dict(report.sent),
        "reasons": dict(report.reasons),
        "waiting": report.waiting,
        "refused": report.refused,
        "useless": dict(report.useless),
        "serves_deleted": report.serves_deleted,
        "misbehaving": report.misbehaving,
        "seconds": round(report.seconds, 3),
    }


def holding_data(holding: Holding) -> dict[str, Any]:
    """What a relay says it holds."""
    found = asdict(holding) | {"problem": holding.problem or None}
    del found["url"]
    return found


def copy_data(states: Mapping[str, int], held: int) -> dict[str, Any]:
    """How many of the events that this command wrote or showed a relay has, and how many are in which state."""
    return {"held": held, "states": dict(states)}
