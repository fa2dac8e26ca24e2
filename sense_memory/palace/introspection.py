"""Introspection: the contents of a palace, the memories that need attention, and the changes since the last time. Pure.

Each list of the report has one function below, whose docstring defines the list. Guaranteed: nothing is changed, the
agent decides; the report does not depend on the order of the memories; and where a search for pairs reached its bound,
the report says so in `bounded`. An introspection of 100,000 memories takes a fraction of a second: each memory is
visited once, and everything else works on columns of numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from sense_memory.limits import (
    CHARS_PER_TOKEN_COUNT,
    CONTEXT_TOKENS_COUNT,
    DAY_SECONDS,
    FORGOTTEN_FROM,
    LEAST_SUSPICION,
    LOW_CONFIDENCE,
    OVERLOADED_FACET_COUNT,
    REVISION_HALFLIVES_COUNT,
    SUGGESTED_PAIRS_COUNT,
)
from sense_memory.models import IntrospectionReport, State, SuggestedContradiction
from sense_memory.palace.catalog import STATES, Columns, states_at
from sense_memory.palace.connections import Links, suggest
from sense_memory.palace.introspection_log import Baseline, changes, to_log
from sense_memory.palace.lifecycle import is_by_hand


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from sense_memory.models import PalaceChanges, PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction


# ── The palace as columns ───────────────────────────────────────────────────────────────
# Visiting a memory costs more than any computation on its numbers, so each memory is visited once, in the given order.

_TEXTS: Final = attrgetter("domain", "facet", "key", "value", "written_at")


@dataclass(frozen=True, slots=True)
class PalaceTable:
    """The memories of a palace, and columns of their properties; a place is an index into all of these.

    Attributes:
        memories: all memories, in the given order; sorting them would cost more than the introspection.
        now: seconds since 1970.
        by_path: the places of the memories, in the order of their paths.
        columns: the values that decay depends on.
        relevances: the current relevance of each memory.
        states: the current state of each memory, as an index into `STATES`.
        facets: every pair of domain and facet.
        facet_of: the facet of each memory, as an index into `facets`.
        sizes: the number of characters of key and value.
        written: when the text of each memory was written, seconds since 1970.
        links: the links between memories, and the paths.
    """

    memories: tuple[PersonaMemory, ...]
    now: float
    by_path: NDArray[np.int64]
    columns: Columns
    relevances: NDArray[np.float64]
    states: NDArray[np.int8]
    facets: tuple[tuple[str, str], ...]
    facet_of: NDArray[np.int64]
    sizes: NDArray[np.int64]
    written: NDArray[np.float64]
    links: Links

    @classmethod
    def of(cls, memories: tuple[PersonaMemory, ...], now: float, columns: Columns | None) -> PalaceTable:
        """The table of some memories (each path once) at a time; `columns` are computed if None."""
        columns = Columns.of(memories) if columns is None else columns
        relevances = columns.relevances(now)
        facets: dict[tuple[str, str], int] = {}
        paths: list[str] = []
        facet_of: list[int] = []
        sizes: list[int] = []
        written: list[float] = []
        for domain, facet, key, value, at in map(_TEXTS, memories):
            written.append(at)
            paths.append(f"{domain}/{facet}/{key}")
            facet_of.append(facets.setdefault((domain, facet), len(facets)))
            sizes.append(len(key) + len(value))
        by_path = np.array(sorted(range(len(paths)), key=paths.__getitem__), np.int64)
        numbers = (np.array(facet_of, np.int64), np.array(sizes, np.int64), np.array(written, np.float64))
        states = states_at(relevances)
        links = Links(memories, paths)
        return cls(memories, now, by_path, columns, relevances, states, tuple(facets), *numbers, links)

    def linked(self) -> NDArray[np.int64]:
        """Connections and dismissals, each as one number, sorted; they do not depend on the order of the memories."""
        count, ranks = len(self.memories), np.empty_like(self.by_path)
        ranks[self.by_path] = np.arange(count)
        edges = self.links.connected
        lists = self.links.dismissed.items()
        declined = [(place, other) for place, others in lists for other in others]
        owners, others = np.array(declined, np.int64).reshape(-1, 2).T
        connected = ranks[edges.owners] * count + ranks[edges.others]
        return np.concatenate((np.unique(connected), -1 - np.unique(ranks[owners] * count + ranks[others])))

    def in_order(self) -> tuple[list[PersonaMemory], Columns]:
        """The memories and their columns in the order of their paths."""
        order, columns = self.by_path, self.columns
        memories = [self.memories[place] for place in order.tolist()]
        return memories, Columns(columns.last_accessed[order], columns.rates[order], columns.factors[order])

    def state(self, place: int) -> State:
        """The current state of the memory at a place."""
        return STATES[self.states[place]]

    def places(self, *states: State, facets: Iterable[str] | None = None) -> list[int]:
        """The places of the memories in some states; if `facets` are given, only in facets with these names."""
        wanted = np.isin(self.states, [STATES.index(state) for state in states])
        if facets is not None:
            names = frozenset(facets)
            wanted &= np.array([facet in names for _, facet in self.facets], np.bool_)[self.facet_of]
        found: list[int] = np.flatnonzero(wanted).tolist()
        return found

    def ranked(self, found: Mapping[int, str]) -> list[tuple[PersonaMemory, str]]:
        """The memories at some places with their reasons, most relevant first, then by path."""
        places = np.fromiter(found, np.int64, len(found))
        ranks = np.empty_like(self.by_path)
        ranks[self.by_path] = np.arange(len(ranks))
        order = places[np.lexsort((ranks[places], -self.relevances[places]))]
        return [(self.memories[place], found[place]) for place in order.tolist()]


BELIEFS: Final = "beliefs"  # these two facets of the specification have special rules
DECISIONS: Final = "decisions"
_Loads: TypeAlias = dict[tuple[str, str], tuple[int, int]]  # domain and facet → memories and characters
_AGEING: Final = (BELIEFS, DECISIONS)

_UNTIL: Final = re.compile(r"\b(?:until|till|expires(?: on)?) (\d{4}-\d{2}-\d{2})\b", re.IGNORECASE)


def introspect(
    memories: Iterable[PersonaMemory],
    now: float,
    *,
    columns: Columns | None = None,
    previous: Baseline | None = None,
    suspected: Iterable[Contradiction] | None = None,
    all_searched: bool = True,
    near: Iterable[tuple[str, str, float]] = (),
) -> IntrospectionReport:
    """The introspection report of a palace (sense-memory v2, "Introspection"). The order of memories does not matter.

    Args:
        memories: all memories, each path once.
        now: seconds since 1970.
        columns: the columns of the same memories in the same order; computed if None.
        previous: the baseline of the last introspection, from `palace.introspection_log.from_log`; None for the first.
        suspected: the contradictions that `palace.contradictions.claim_index` found; None if there was no search.
        all_searched: whether that search compared all memories.
        near: pairs (path, path, similarity) that are near in meaning, see `palace.connections.suggest`.
    """
    palace = PalaceTable.of(tuple(memories), now, columns)
    bounded: dict[str, str] = {}
    suspected = None if suspected is None else tuple(suspected)
    loads = _loads(palace)
    found: dict[str, list[tuple[Any, str]]] = {
        "contradictions": _contradictions(palace),
        "conflicts": _conflicts(palace),
        "stale_beliefs": _stale_beliefs(palace),
        "orphaned": _orphaned(palace),
        "overloaded_facets": _overloaded(loads),
        "suggested_connections": _connections(palace, near, suspected or (), bounded),
        "suggested_contradictions": _suspected(palace, suspected, bounded, is_whole=all_searched),
        "suggested_revisions": _revisions(palace),
        "suggested_compressions": _compressions(loads),
        "forgotten_memories": _forgotten(palace),
    }
    pairs = ((one.path, other.path) for (one, other), _ in found["contradictions"])
    paths = [palace.links.paths[place] for place in palace.by_path.tolist()]
    in_order = palace.by_path
    baseline = Baseline.of(
        paths, palace.states[in_order], now, pairs, written=palace.written[in_order], links=palace.linked()
    )
    counts: dict[str, Any] = {state.value: baseline.counts[state] for state in STATES}
    lists: dict[str, Any] = {name: tuple(item for item, _ in items) for name, items in found.items()}
    report = IntrospectionReport(
        **counts,
        **lists,
        created_at=now,
        total_memories=len(palace.memories),
        reasons={name: tuple(reason for _, reason in items) for name, items in found.items()},
        bounded=bounded,
        changes=None if previous is None else changes(previous, baseline, *palace.in_order()),
    )
    return report.model_copy(update={"digest": tuple(_digest(report)), "log": to_log(report, baseline)})


def _contradictions(palace: PalaceTable) -> list[tuple[tuple[PersonaMemory, PersonaMemory], str]]:
    """Pairs in which one memory names the other in `contradicts` or `superseded_by`: those that no hand marked, then the
    others, newest first.

    The contradicted memory of a pair comes first; if both name each other, the older memory.
    """
    named: dict[tuple[int, int], str] = {}
    for place, others in palace.links.opposed.items():
        memory = palace.memories[place]
        replacing = None if memory.superseded_by is None else palace.links.place(memory.superseded_by)
        for other in others:
            how = "is superseded by" if other == replacing else "is contradicted by"
            by_hand = ", decided by hand" if is_by_hand(memory, palace.memories[other]) else ""
            named[place, other] = f"{memory.path} {how} {palace.links.paths[other]}{by_hand}"
    found = []
    for (one, other), reason in named.items():
        first, second = palace.memories[one], palace.memories[other]
        if (other, one) not in named or (first.written_at, first.path) < (second.written_at, second.path):
            found.append(((first, second), reason))
    return sorted(found, key=lambda item: (is_by_hand(*item[0]), -item[0][1].written_at, *_paths(item[0])))


def _paths(pair: tuple[PersonaMemory, PersonaMemory]) -> tuple[str, str]:
    return pair[0].path, pair[1].path


def _conflicts(palace: PalaceTable) -> list[tuple[PersonaMemory, str]]:
    """Siblings: copies that keep a value which lost to a concurrent edit."""
    return palace.ranked(
        {
            place: f"lost to a concurrent edit of {memory.conflict_of} on another device"
            for place in palace.links.dismissed
            if (memory := palace.memories[place]).conflict_of is not None
        }
    )


def _stale_beliefs(palace: PalaceTable) -> list[tuple[PersonaMemory, str]]:
    """Fading or forgotten beliefs with a confidence below 0.5: uncertain, and hardly used."""
    return palace.ranked(
        {
            place: f"confidence {memory.confidence:.2g}, relevance {palace.relevances[place]:.2f}"
            for place in palace.places(State.FADING, State.FORGOTTEN, facets=(BELIEFS,))
            if (memory := palace.memories[place]).confidence < LOW_CONFIDENCE
        }
    )


def _forgotten(palace: PalaceTable) -> list[tuple[PersonaMemory, str]]:
    """Forgotten memories; those that dissolve soonest come first."""
    places = palace.places(State.FORGOTTEN)
    halvings = np.log2(palace.relevances[places] / FORGOTTEN_FROM)
    days = (halvings / palace.columns.rates[places] / DAY_SECONDS).tolist()
    found = [(left, palace.memories[place]) for place, left in zip(places, days, strict=True)]
    ranked = sorted(found, key=lambda item: (item[0], item[1].path))
    return [(memory, f"dissolves in {left:,.0f} days") for left, memory in ranked]


def _orphaned(palace: PalaceTable) -> list[tuple[PersonaMemory, str]]:
    """Active and fading memories without a connection to or from an existing memory."""
    connected = np.zeros(len(palace.memories), np.bool_)
    for places in palace.links.connected:
        connected[places] = True
    missing = "its connections lead to no existing memory"
    return palace.ranked(
        {
            place: missing if palace.memories[place].connections else "no connections"
            for place in palace.places(State.ACTIVE, State.FADING)
            if not connected[place]
        }
    )


def _overloaded(loads: _Loads) -> list[tuple[str, str]]:
    """Facets with more than 50 active memories, as `domain/facet`, fullest first."""
    full = [(f"{domain}/{facet}", count) for (domain, facet), (count, _) in loads.items()]
    return [
        (name, f"{count:,} active memories, more than {OVERLOADED_FACET_COUNT}")
        for name, count in sorted(full, key=lambda item: (-item[1], item[0]))
        if count > OVERLOADED_FACET_COUNT
    ]


def _compressions(loads: _Loads) -> list[tuple[str, str]]:
    """Domains with more than 500 tokens of uncompressed active memories, or with an overloaded facet."""
    chars = Counter[str]()
    full = set()
    for (domain, _), (count, length) in loads.items():
        chars[domain] += length
        if count > OVERLOADED_FACET_COUNT:
            full.add(domain)
    tokens = {domain: -(-length // CHARS_PER_TOKEN_COUNT) for domain, length in chars.items()}
    found = []
    for domain, count in sorted(tokens.items(), key=lambda item: (-item[1], item[0])):
        if count > CONTEXT_TOKENS_COUNT:
            found.append(
                (domain, f"about {count:,} tokens of active memories; the target is {CONTEXT_TOKENS_COUNT}")
            )
        elif domain in full:
            found.append((domain, "a facet has too many active memories"))
    return found


def _loads(palace: PalaceTable) -> _Loads:
    """The number of active memories and of their characters, by facet."""
    active = palace.places(State.ACTIVE)
    facet_of, count = palace.facet_of[active], len(palace.facets)
    counts = np.bincount(facet_of, minlength=count).tolist()
    sizes = np.bincount(facet_of, palace.sizes[active], minlength=count).astype(np.int64).tolist()
    loads = zip(palace.facets, zip(counts, sizes, strict=True), strict=True)
    return {facet: load for facet, load in loads if load[0]}


def _revisions(palace: PalaceTable) -> list[tuple[PersonaMemory, str]]:
    """Memories that may need an update, each with all reasons that apply.

    * an active or fading belief with a confidence below 0.5;
    * an active memory that is contradicted, but not superseded;
    * an active belief that was not written or connected for three half-lives, so that only recalls keep it active;
    * an active decision that names its end ("until 2026-05-01"), and the end has passed.
    """
    today = str(np.datetime64(int(palace.now), "s").astype("datetime64[D]"))
    ageing = palace.places(State.ACTIVE, State.FADING, facets=_AGEING)
    alive = {STATES.index(State.ACTIVE), STATES.index(State.FADING)}
    found = {}
    for place in dict.fromkeys(chain(ageing, palace.links.opposed)):
        if palace.states[place] in alive and (reasons := _reasons(palace, place, today)):
            found[place] = "; ".join(reasons)
    return palace.ranked(found)


def _reasons(palace: PalaceTable, place: int, today: str) -> list[str]:
    memory = palace.memories[place]
    reasons = []
    is_active = palace.state(place) is State.ACTIVE
    if memory.facet == BELIEFS and memory.confidence < LOW_CONFIDENCE:
        reasons.append(f"confidence {memory.confidence:.2g}")
    if is_active and memory.contradicts and memory.superseded_by is None:
        others = palace.links.opposed[place]
        if others:
            path = min(palace.links.paths[other] for other in others)
            reasons.append(f"still active, though {path} contradicts it")
    if is_active and memory.facet == BELIEFS:
        age = (palace.now - memory.last_reinforced) / (memory.halflife_days * DAY_SECONDS)
        if age >= REVISION_HALFLIVES_COUNT:
            reasons.append(f"not reinforced for {int(age)} half-lives")
    if is_active and memory.facet == DECISIONS and memory.value.count("-") > 1:  # most memories name no date
        ended = [date for date in _UNTIL.findall(memory.value) if date < today]
        if ended:
            reasons.append(f"its end, {max(ended)}, has passed")
    return reasons


def _connections(
    palace: PalaceTable,
    near: Iterable[tuple[str, str, float]],
    suspected: Iterable[Contradiction],
    bounded: dict[str, str],
) -> list[tuple[tuple[PersonaMemory, PersonaMemory], str]]:
    """Pairs of active or fading memories that share two or more themes, are not connected, and are not suspected to
    contradict each other, best first.
    """
    undecided = [(item.old, item.new) for item in suspected if item.confidence >= LEAST_SUSPICION]
    found = suggest(palace.memories, palace.relevances, links=palace.links, near=near, undecided=undecided)
    if found.bounded:
        bounded["suggested_connections"] = "; ".join(found.bounded)
    return [((pair.first, pair.second), pair.reason) for pair in found.pairs]


def _suspected(
    palace: PalaceTable, suspected: Iterable[Contradiction] | None, bounded: dict[str, str], *, is_whole: bool
) -> list[tuple[SuggestedContradiction, str]]:
    """Suspected contradictions between existing memories that are not dissolved, and of which neither marks or dismisses
    the other.
    """
    if suspected is None:
        bounded["suggested_contradictions"] = "contradictions were not searched for"
        return []
    found: dict[frozenset[int], SuggestedContradiction] = {}
    for contradiction in suspected:
        if not contradiction.confidence >= LEAST_SUSPICION:
            continue
        old, new = palace.links.place(contradiction.old), palace.links.place(contradiction.new)
        if (
            old is None
            or new is None
            or old == new
            or State.DISSOLVED in (palace.state(old), palace.state(new))
        ):
            continue
        opposed = palace.links.opposed
        first, second = palace.memories[old], palace.memories[new]
        if second.path in first.dismissed or first.path in second.dismissed:
            continue
        if new in opposed.get(old, ()) or old in opposed.get(new, ()):
            continue
        known = found.get(frozenset((old, new)))
        if known is None or known.confidence < contradiction.confidence:
            found[frozenset((old, new))] = SuggestedContradiction(
                old=palace.memories[old],
                new=palace.memories[new],
                confidence=contradiction.confidence,
                reason=contradiction.reason,
            )
    best = sorted(found.values(), key=lambda item: (-item.confidence, item.old.path, item.new.path))
    limits = [] if is_whole else ["not every memory was compared with every other"]
    if len(best) > SUGGESTED_PAIRS_COUNT:
        limits.append(f"only the best {SUGGESTED_PAIRS_COUNT} of {len(best):,} are listed")
    if limits:
        bounded["suggested_contradictions"] = "; ".join(limits)
    return [(item, item.reason) for item in best[:SUGGESTED_PAIRS_COUNT]]


# ── The digest ──────────────────────────────────────────────────────────────────────────
# One line for each kind of finding, so the number of lines is bounded. Certain findings come first, then suspicions, then
# suggestions; within a line the best come first, as in the lists.

_HOUR_SECONDS: Final = 3_600
_NAMED_COUNT: Final = 2  # findings that a line names
_LINE_CHARS: Final = 280
_MOVES: Final = (
    "new",
    "gone",
    "rewritten",
    "revived",
    "faded",
    "forgotten",
    "dissolved",
    "contradicted",
    "settled",
)


def _digest(report: IntrospectionReport) -> Iterator[str]:
    """The report in at most ten lines."""
    yield _headline(report)
    if report.changes is not None:
        yield _moved(report.changes, report.created_at)
    for start, singular, plural, findings in _decisions(report):
        if findings:
            count = f"{len(findings):,} {singular if len(findings) == 1 else plural}"
            shown = "; ".join(findings[:_NAMED_COUNT])
            more = f"; and {len(findings) - _NAMED_COUNT:,} more" if len(findings) > _NAMED_COUNT else ""
            line = f"{start} {count}: {shown}"
            room = _LINE_CHARS - len(more)
            yield (line if len(line) <= room else line[: room - 1] + "…") + more
    if report.orphaned:
        yield f"Not connected with anything: {len(report.orphaned):,}."


def _headline(report: IntrospectionReport) -> str:
    counts = {name: getattr(report, name) for name in ("active", "fading", "forgotten", "dissolved")}
    states = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    total = f"{report.total_memories:,} {'memory' if report.total_memories == 1 else 'memories'}"
    return f"{total}: {states}" if states else total


def _moved(changes: PalaceChanges, now: float) -> str:
    moved = {name: len(getattr(changes, name)) for name in _MOVES}
    counts = ", ".join(f"{count:,} {name}" for name, count in moved.items() if count)
    counts = counts or ("only links" if changes.relinked else "no changes")
    known = "" if changes.exact else ", as far as known"
    return f"Since the last introspection, {_ago(now - changes.since)}: {counts}{known}."


def _ago(seconds: float) -> str:
    hours = int(seconds // _HOUR_SECONDS)
    if hours < 1:
        return "less than an hour ago"
    days = hours // 24
    return f"{days:,} days ago" if days > 1 else f"{hours} hours ago" if hours > 1 else "an hour ago"


def _decisions(report: IntrospectionReport) -> Iterator[tuple[str, str, str, list[str]]]:
    """The findings that need a decision: a verb, a noun in singular and plural, and the findings in words."""

    def reasoned(name: str) -> Iterator[tuple[Any, str]]:
        return zip(getattr(report, name), report.reasons.get(name, ()), strict=False)

    new = set() if report.changes is None else {frozenset(pair) for pair in report.changes.contradicted}
    marks: dict[bool, list[str]] = {
        True: [],
        False: [],
    }  # by whether they are new; a mark is there until it is removed, or confirmed by hand
    for (one, other), reason in reasoned("contradictions"):
        if is_by_hand(one, other):
            continue
        marks[frozenset((one.path, other.path)) in new].append(reason)
    prefix = "new " if marks[True] and not marks[False] else ""
    suffix = f", {len(marks[True]):,} of them new" if marks[True] and marks[False] else ""
    yield "Check", f"{prefix}mark", f"{prefix}marks{suffix}", marks[True] + marks[False]
    yield (
        "Settle",
        "lost edit",
        "lost edits",
        [f"{item.path}: {reason}" for item, reason in reasoned("conflicts")],
    )
    suspected = [
        f"{item.old.path} against {item.new.key} ({item.confidence:.0%}; {reason})"
        for item, reason in reasoned("suggested_contradictions")
    ]
    yield "Decide on", "suspected contradiction", "suspected contradictions", suspected
    revisions = [f"{item.path} ({reason})" for item, reason in reasoned("suggested_revisions")]
    yield "Review", "memory", "memories", revisions
    forgotten = [f"{item.path} ({reason})" for item, reason in reasoned("forgotten_memories")]
    yield "Recall or lose", "forgotten memory", "forgotten memories", forgotten
    connections = [
        f"{one.path} and {other.path}, {reason}" for (one, other), reason in reasoned("suggested_connections")
    ]
    yield "Connect or decline", "pair", "pairs", connections
    full = [
        f"{name} ({reason})"
        for name, reason in (*reasoned("overloaded_facets"), *reasoned("suggested_compressions"))
    ]
    yield "Compress or split", "place", "places", full
