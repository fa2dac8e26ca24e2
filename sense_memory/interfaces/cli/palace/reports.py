"""An introspection in words: what was found, why, and the commands that act on it. Pure.

Lines come with a style; `reviewing` prints them. Every text of a memory is escaped here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sense_memory.interfaces.cli.palace.shapes import counted
from sense_memory.interfaces.cli.text import age, iso, local_time, one_line, quantity, quoted


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sense_memory.models import IntrospectionReport, PalaceChanges, PersonaMemory, SuggestedContradiction

MAX_ITEMS: Final = 5  # of one section
_EXCERPT_CHARS: Final = 70
_MAX_NAMES: Final = 8  # memories named in one line of changes
_MOVES: Final = ("new", "gone", "revived", "faded", "forgotten", "dissolved")

HEADING: Final = "bold"
COMMAND: Final = "cyan"
PLAIN: Final = ""
FAINT: Final = "dim"


@dataclass(frozen=True, slots=True)
class Section:
    """A list of the report.

    Attributes:
        name: the list's.
        title: what it holds, as a heading.
        advice: what to do about it.
    """

    name: str
    title: str
    advice: str


SECTIONS: Final = (
    Section("suggested_contradictions", "These seem to contradict each other", "If the second one is right:"),
    Section("contradictions", "Contradicted or superseded", "If both are right, take the mark away:"),
    Section("conflicts", "Written on two devices at once", "Keep what is right in the other, then:"),
    Section("suggested_revisions", "May need a new look", "Look, then write it anew or forget it:"),
    Section("stale_beliefs", "Weak beliefs that hardly anybody uses", "Revive them with `recall`, or:"),
    Section("suggested_connections", "Could be connected", "Accept or decline:"),
    Section("orphaned", "Not connected with anything", ""),
    Section("overloaded_facets", "Full facets", "Some of these may belong into a facet of their own."),
    Section(
        "suggested_compressions", "Too much for a prompt as it is", "In shorthand, the most relevant first:"
    ),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its style. A `COMMAND` is one to copy, and must not be broken."""

    text: str
    style: str = PLAIN


def lines(report: IntrospectionReport, now: float, limit: int | None = MAX_ITEMS) -> Iterator[Line]:
    """A report, line by line.

    Args:
        report: what introspection found.
        now: seconds since 1970.
        limit: how many items of each list are shown; None shows all.
    """
    states = {name: getattr(report, name) for name in ("active", "fading", "forgotten", "dissolved")}
    total = quantity(report.total_memories, "memory", "memories")
    there = f": {counted(states)}" if report.total_memories else ""
    yield Line(f"{total}{there}", HEADING)
    if report.changes is not None:
        yield from _changes(report.changes, now)
    found = [section for section in SECTIONS if getattr(report, section.name)]
    for section in found:
        yield Line("")
        yield from _section(section, report, limit)
    if not found:
        yield Line("")
        yield Line("Nothing needs attention.")


def _changes(changes: PalaceChanges, now: float) -> Iterator[Line]:
    moved = [(name, getattr(changes, name)) for name in _MOVES]
    since = f"{age(changes.since, now)} ({local_time(changes.since)})"
    if not any(paths for _, paths in moved) and not changes.contradicted:
        yield Line(
            f"Nothing came, went, faded, revived or was contradicted since the last introspection, {since}.",
            FAINT,
        )
    else:
        yield Line(f"Since the last introspection, {since}:")
    for name, paths in moved:
        if paths:
            yield Line(f"  {name} {len(paths):,}: {_named(paths)}")
    if changes.contradicted:
        pairs = [f"{one} by {other}" for one, other in changes.contradicted]
        yield Line(f"  contradicted {len(pairs):,}: {_named(pairs)}")
    for words in changes.untold:
        yield Line(f"  not known: {words}", FAINT)


def _named(paths: Sequence[str]) -> str:
    more = f", … and {len(paths) - _MAX_NAMES:,} more" if len(paths) > _MAX_NAMES else ""
    return ", ".join(map(one_line, paths[:_MAX_NAMES])) + more


def _section(section: Section, report: IntrospectionReport, limit: int | None) -> Iterator[Line]:
    items = getattr(report, section.name)
    reasons = report.reasons.get(section.name, ())
    yield Line(f"{section.title} · {len(items):,}", HEADING)
    if section.name == "orphaned" and limit is not None:
        yield Line(f"  {_named([memory.path for memory in items])}")
        return
    for number, item in enumerate(items[:limit]):
        reason = reasons[number] if number < len(reasons) else ""
        yield from _item(section, item, one_line(reason))
    if limit is not None and len(items) > limit:
        yield Line(f"  … and {len(items) - limit:,} more; all with --all", FAINT)
    if section.name in report.bounded:
        yield Line(f"  not complete: {report.bounded[section.name]}", FAINT)


def _item(section: Section, item: Any, reason: str) -> Iterator[Line]:
    """One thing that was found, why, and what to do about it."""
    match section.name:
        case "contradictions":
            old, new = item
            yield Line(f"  {reason}")
            yield from _texts(old, new)
            yield from _do(section.advice, f"undo {quoted(old.path)}")
        case "suggested_contradictions":
            suggestion: SuggestedContradiction = item
            yield Line(f"  {reason} ({suggestion.confidence:.0%} sure)")
            yield from _texts(suggestion.old, suggestion.new)
            pair = f"{quoted(suggestion.old.path)} {quoted(suggestion.new.path)}"
            yield from _do(section.advice, f"palace contradict {pair}")
            yield from _do("If both are:", f"palace dismiss {pair}")
        case "suggested_connections":
            one, other = item
            yield Line(f"  {one_line(one.path)} and {one_line(other.path)}: {reason}")
            pair = f"{quoted(one.path)} {quoted(other.path)}"
            yield from _do("", f"palace connect {pair}", f"palace dismiss {pair}")
        case "conflicts" | "stale_beliefs" | "suggested_revisions":
            yield Line(f"  {one_line(item.path)}: {reason}")
            yield Line(f"    {_excerpt(item)}", FAINT)
            verb = "show" if section.name == "suggested_revisions" else "forget"
            yield from _do(section.advice, f"palace {verb} {quoted(item.path)}")
        case "orphaned":
            yield Line(f"  {one_line(item.path)}: {reason}")
        case "overloaded_facets":
            yield Line(f"  {one_line(item)}: {reason}")
        case _:
            yield Line(f"  {one_line(item)}: {reason}")
            yield from _do("", f"palace compress {quoted(item)}")


def _texts(old: PersonaMemory, new: PersonaMemory) -> Iterator[Line]:
    for memory in (old, new):
        yield Line(f"    {one_line(memory.path)}: {_excerpt(memory)}", FAINT)


def _excerpt(memory: PersonaMemory) -> str:
    cut = "…" if len(memory.value) > _EXCERPT_CHARS else ""
    return one_line(memory.value, _EXCERPT_CHARS) + cut


def _do(advice: str, *commands: str) -> Iterator[Line]:
    if advice:
        yield Line(f"    {advice}", FAINT)
    for command in commands:
        yield Line(f"    sense-memory {command}", COMMAND)


# ── For programs ────────────────────────────────────────────────────────────────────────


def data(report: IntrospectionReport) -> dict[str, Any]:
    """A report for JSON: counts, changes, and each list with paths and reasons."""
    found: dict[str, Any] = {"created_at": iso(report.created_at), "total_memories": report.total_memories}
    found |= {name: getattr(report, name) for name in ("active", "fading", "forgotten", "dissolved")}
    for section in SECTIONS:
        items, reasons = getattr(report, section.name), report.reasons.get(section.name, ())
        found[section.name] = [
            {**_item_data(item), "reason": reasons[number] if number < len(reasons) else None}
            for number, item in enumerate(items)
        ]
    found["bounded"] = dict(report.bounded)
    changes = None if report.changes is None else report.changes.model_dump(mode="json")
    if report.changes is not None and changes is not None:
        changes["since"] = iso(report.changes.since)
    found["changes"] = changes
    return found


def _item_data(item: Any) -> Mapping[str, Any]:
    """What a finding is about: one memory or two, or a domain or facet by its name."""
    name, confidence = None, None
    memories: tuple[PersonaMemory, ...] = ()
    if isinstance(item, str):
        name = item
    elif isinstance(item, tuple):
        memories = item
    elif hasattr(item, "old"):
        memories, confidence = (item.old, item.new), round(item.confidence, 3)
    else:
        memories = (item,)
    return {"paths": [memory.path for memory in memories], "name": name, "confidence": confidence}
