"""What commands print: the shapes of `--json`, memories for every command, and warnings that a list may be incomplete.

A thing has the same shape in every command; docs/json.md lists all shapes. Every field of a shape is always present;
null stands for a value that is absent or not known to the command. Times are ISO 8601 in UTC. A memory has a `path`, a
`key` (the last part of the path) and a `value` (the text).
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import echo_all, note, program
from sense_memory.interfaces.text import (
    as_json,
    as_json_list,
    caution,
    iso,
    one_line,
    quantity,
    quoted,
    safe,
    some,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.interfaces.cli.palace.shapes import Insight
    from sense_memory.memories.embedding_jobs import Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.status import RelayStatus
    from sense_memory.mind.search.hits import MindHit
    from sense_memory.models import Change, Draft, JournalEntry, Memory, PersonaMemory
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import RelayReport, SyncReport
    from sense_memory.search.hits import Hit
    from sense_memory.store import MemoryStore

_JOURNAL: Final = "journal/"
_PALACE_TIMES: Final = ("created_at", "written_at", "last_accessed", "last_reinforced", "dissolved_at")


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
    """A palace memory; for a hit also its score and its reasons.

    Args:
        memory: its state is that of `now`.
        now: seconds since 1970; None for this moment.
    """
    from sense_memory.palace.lifecycle import current_relevance

    relevance = current_relevance(memory, time.time() if now is None else now)
    fields = memory.model_dump(mode="json", exclude={"seen"})
    for item in fields.get("why", {}).get("evidence", ()):
        item["detail"] = item["detail"] or None
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
        "changes": list(version.changes),
        "conflicts": list(version.conflicts),
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
    times = {"created_at": iso(hit.created_at), "written_at": iso(hit.written_at)}
    return {**fields, **name_data(path), **times, "source": hit.source or None}


def mind_hit_data(hit: MindHit) -> dict[str, Any]:
    """A hit of a search of the mind."""
    return {
        "place": hit.place.value,
        "id": hit.id,
        "text": hit.text,
        "at": iso(hit.at),
        "score": round(hit.score, 6),
        "actor": hit.actor or None,
        "conversation": hit.conversation,
        "tags": list(hit.tags),
        "topics": list(hit.topics),
    }


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


# ── Tables ──────────────────────────────────────────────────────────────────────────────

_CELL_CHARS: Final = 200  # of a text in a table on a terminal


def show_rows(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, none: str = "", numbers: Sequence[str] = ()
) -> None:
    """Rows as a table on a terminal, or one line each with tabs in a pipe.

    Args:
        headers: of the table.
        rows: the cells of each row.
        none: said on stderr if there are no rows.
        numbers: the columns that a terminal aligns to the right.
    """
    if not rows:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from rich.text import Text

        from sense_memory.interfaces.cli.tables import console, plain_table

        table = plain_table(*headers, numbers=numbers)
        for row in rows:
            table.add_row(*(Text(one_line(cell, _CELL_CHARS)) for cell in row))
        console().print(table)
    else:
        echo_all("\t".join(map(one_line, row)) for row in rows)


# ── Memories ────────────────────────────────────────────────────────────────────────────


def show_memory(invocation: Invocation, memory: Memory | PersonaMemory, then: float | None = None) -> None:
    """One memory: as JSON, or as `as_value` prints it.

    Args:
        invocation: of the command.
        memory: flat, or of the palace.
        then: the time of its state, in seconds since 1970; None for now.
    """
    if invocation.as_json:
        typer.echo(as_json(any_memory_data(memory, then)))
    else:
        as_value(memory)


def as_value(memory: Memory | PersonaMemory, _: Any = None) -> None:
    """The text of a memory: escaped for a terminal, or byte for byte in a pipe; stderr says why it may not hold."""
    if sys.stdout.isatty():
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    else:
        typer.echo(memory.value.encode(), nl=False)
    for line in _caution_lines(memory):
        typer.echo(line, err=True)


def _caution_lines(memory: Memory | PersonaMemory) -> Iterator[str]:
    """The memory to which this one lost as an edit, that superseded it, and the later ones that may contradict it, with the
    commands that decide.
    """
    path = getattr(memory, "path", "")
    if (original := getattr(memory, "conflict_of", None)) is not None:
        yield f"an edit that lost to {one_line(original)} on another device"
        yield f"If it is not needed: {program()} forget {quoted(path)}"
    if (by := getattr(memory, "superseded_by", None)) is not None:
        yield f"superseded by {one_line(by)}"
    for later in getattr(memory, "suspected_by", ()):
        pair = quoted(path, later)
        yield f"A later memory may contradict this: {one_line(later)}."
        yield f"If this is wrong now: {program()} palace contradict {pair}"
        yield f"If both are right: {program()} palace dismiss {pair}"


def any_memory_data(memory: Memory | PersonaMemory, then: float | None = None) -> dict[str, object]:
    """A flat memory or one of the palace for JSON, each in its own shape."""
    from sense_memory.models import PersonaMemory

    return palace_data(memory, then) if isinstance(memory, PersonaMemory) else memory_data(memory)


def show_memories(invocation: Invocation, memories: Sequence[Memory], *, none: str) -> None:
    """Flat memories as JSON, as a table for a terminal, or one line each in a pipe; `none` if there are none."""
    if invocation.as_json:
        echo_all(as_json_list(memory_data(memory) for memory in memories), "")
    elif not memories:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_memories

        print_memories(memories, time.time())
    else:
        echo_all(
            f"{one_line(memory.key)}\t{iso(memory.created_at)}\t{one_line(memory.value)}"
            for memory in memories
        )


def show_insights(invocation: Invocation, insights: Sequence[Insight], then: float, *, none: str) -> None:
    """Palace memories as they are at a time: JSON, a table for a terminal, or one line each in a pipe."""
    if invocation.as_json:
        typer.echo(as_json([palace_data(insight.memory, then) for insight in insights]))
    elif not insights:
        typer.echo(safe(none), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_list

        print_list(insights)
    else:
        print_lines(insights)


def print_lines(insights: Sequence[Insight]) -> None:
    """One line for each memory: path, state, relevance, text, and why it may not hold, with tabs between; see `caution`."""
    typer.echo("".join(map(_piped, insights)), nl=False)


def _piped(insight: Insight) -> str:
    memory = insight.memory
    line = f"{one_line(memory.path)}\t{memory.state.value}\t{insight.relevance:.3f}\t{one_line(memory.value)}"
    return "\t".join(filter(None, (line, caution(memory)))) + "\n"


def warn_if_incomplete(store: MemoryStore) -> None:
    """Warn on stderr if a list may lack memories that relays hold."""
    if not store.relays and not store.status().counts["heads"]:
        note(f"to restore memories from relays, run `{program()} relays add URL`, then `{program()} sync`")
    if not store.was_ever_complete():
        note(f"incomplete: no relay has shown everything yet, so there may be more; run `{program()} sync`")


def warn_of_gaps(gaps: Gaps) -> None:
    """Warn on stderr if memories were searched by words only although there is an embedder."""
    if gaps.trouble is not None:
        note(f"searched by words only: {gaps.trouble}")
    elif gaps.count:
        count = quantity(gaps.count, "memory was", "memories were")
        note(f"{count} searched by words only, not embedded yet; run `{program()} embed`")


async def told_by(store: MemoryStore, report: SyncReport) -> str:
    """What a synchronisation has to tell about memories: edits that lost, and forgotten memories that are there again.

    It names all of them, because the store reports them only once.
    """
    told = [lost_edits(report.overruled, await store.drafts())] if report.overruled else []
    if again := report.written_again:
        told.append(
            f"{_counted(again)} written again on another device after being forgotten: {_all(again)}. "
            f"To forget it again: `{program()} forget NAME`."
        )
    if copies := report.conflicts:
        told.append(
            f"{_counted(copies)} edited on another device too, and the edit here counts now. The text of the other device is "
            f"kept: {_all(copies)}."
        )
    if won := report.prevailed:
        told.append(
            f"{_counted(won)} edited on another device too, and the edit here counts now: {_all(won)}.{_other_text(won)}"
        )
    if names := report.unclaimed:
        told.append(
            f"Of {quantity(len(names), 'memory', 'memories')}, another text was written under an id of this ledger, here before "
            f"it was set back or on a copy of it: {_all(names)}.{_other_text(names)}"
        )
    return " ".join(told)


def lost_edits(names: Sequence[str], drafts: Sequence[Draft]) -> str:
    """The memories whose edits lost, and where the text that was written here is kept.

    Args:
        names: of the memories, as `SyncReport.overruled` has them.
        drafts: of the store. A text that another device forgot unseen is a draft, and its memory has no history.
    """
    from sense_memory.ledger.removals import TOO_LARGE

    reasons = {draft.key: draft.reason for draft in drafts}
    forgotten = [name for name in names if reasons.get(name, "") not in {"", TOO_LARGE}]
    edited = [name for name in names if name not in forgotten]
    drafts_shown = f"`{program()} drafts`"
    ways = _histories(edited)
    if reasons.keys() & set(edited):
        ways.append(drafts_shown)
    told = []
    if edited:
        lost = f"{_counted(edited)} edited on another device too, and the edit there counts now"
        told.append(f"{lost}: {_all(edited)}.{_kept(ways)}")
    if forgotten:
        lost = f"{_counted(forgotten)} forgotten by another device, which had not seen the text of this one"
        told.append(f"{lost}: {_all(forgotten)}.{_kept([drafts_shown])}")
    return " ".join(told)


_BLOCK: Final = "mind/block/"


def _histories(names: Sequence[str]) -> list[str]:
    """The commands that show the histories of memories; those of objectives have no command."""
    labels = [name.removeprefix(_BLOCK) for name in names if name.startswith(_BLOCK)]
    memories = [name for name in names if not name.startswith((_BLOCK, "mind/objective/"))]
    commands = {f"{program()} history": memories, f"{program()} mind blocks history": labels}
    return [
        f"`{command} {quoted(found[0])}`{' (and so on)' if found[1:] else ''}"
        for command, found in commands.items()
        if found
    ]


def _other_text(names: Sequence[str]) -> str:
    ways = _histories(names)
    return f" The other text is in {' and '.join(ways)}." if ways else ""


def _counted(names: Sequence[str]) -> str:
    return quantity(len(names), "memory was", "memories were")


def _all(names: Sequence[str]) -> str:
    return some(names, len(names))


def _kept(ways: Sequence[str]) -> str:
    return f" What was written here is kept: see {' and '.join(ways)}." if ways else ""
