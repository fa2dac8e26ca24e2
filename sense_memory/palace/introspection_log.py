"""The log that an introspection leaves for the next one, and the changes between two introspections. Pure.

Guaranteed: a log fits one event, and contains paths and counts, never texts; and changes are never guessed. Long lists
are cut, and their counts are kept. A log lists the memories in each state, for as many states as fit, smallest first; in
a small palace those are all memories, and the changes are exact. For other memories the earlier state is computed by
decay, if they were not touched since. The same holds for texts: a log of a small palace has the second in which each was
written; of a larger one, those that were written since are found by their dates, and a hash tells whether that may be all.
Changes that cannot be computed are counted, and `PalaceChanges.untold` says how many there are. The cost is one pass over
the memories.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from sense_memory.limits import (
    DAY_SECONDS,
    LOG_BASELINE_BYTES,
    LOG_CHANGE_BYTES,
    LOG_LIST_BYTES,
    LOG_PAIRS_BYTES,
    LOG_WRITTEN_BYTES,
)
from sense_memory.models import PalaceChanges, PersonaMemory, State, SuggestedContradiction
from sense_memory.palace.catalog import STATES


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import IntrospectionReport
    from sense_memory.palace.catalog import Columns

_HOUR_SECONDS: Final = 3_600
# Of each span of time, only the newest log is kept once the end of the span has an age: (length, age), in seconds.
_SPANS: Final = ((_HOUR_SECONDS, 0), (DAY_SECONDS, DAY_SECONDS), (7 * DAY_SECONDS, 30 * DAY_SECONDS))

LISTS: Final = (
    "contradictions",
    "conflicts",
    "stale_beliefs",
    "orphaned",
    "overloaded_facets",
    "suggested_connections",
    "suggested_contradictions",
    "suggested_revisions",
    "suggested_compressions",
    "forgotten_memories",
)
_COUNTS: Final = ("total_memories", "active", "fading", "forgotten", "dissolved")
_MOVES: Final = (
    "new",
    "gone",
    "rewritten",
    "faded",
    "forgotten",
    "dissolved",
    "revived",
    "contradicted",
    "settled",
)
_LOWERED: Final = {State.FADING: "faded", State.FORGOTTEN: "forgotten", State.DISSOLVED: "dissolved"}
_LEAST_BYTES: Final = 4  # the shortest key in a list, with quotation marks and comma
_RANKS: Final = {state: rank for rank, state in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The states of memories at one introspection, as many as a log can hold.

    Attributes:
        created_at: the time of the introspection, seconds since 1970.
        counts: the number of memories in each state.
        listed: the states of memories by path; holds every memory in one of the `complete` states.
        complete: the states whose memories are all listed.
        pairs: the contradicting pairs, the contradicted memory first, or in any order if they are from a log; None if
            there were too many for the log.
        digest: a hash of the states of all memories; it is equal if no memory is new, gone or in another state.
        seconds: when the text of each memory was written, whole seconds since 1970, in the order of the paths; None if
            there were too many.
        texts: a hash of `seconds`; empty in a log of an older sense-memory.
        links: a hash of all connections and dismissals, which new memories change too; empty likewise.
    """

    created_at: float
    counts: Mapping[State, int]
    listed: Mapping[str, State]
    complete: frozenset[State]
    pairs: frozenset[tuple[str, str]] | None
    digest: str
    seconds: NDArray[np.uint32] | None = field(default=None, compare=False)
    texts: str = ""
    links: str = ""

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        states: NDArray[np.int8],
        now: float,
        pairs: Iterable[tuple[str, str]],
        *,
        written: NDArray[np.float64],
        links: NDArray[np.int64],
    ) -> Baseline:
        """The baseline of a palace with all memories listed.

        Args:
            paths: of the memories, sorted.
            states: of the same memories, as indices into `STATES`.
            now: seconds since 1970.
            pairs: of paths that contradict each other.
            written: when the text of each memory was written, seconds since 1970.
            links: connections and dismissals, as sorted numbers.
        """
        listed = dict(zip(paths, map(STATES.__getitem__, states.tolist()), strict=True))
        seconds = np.minimum(written, 0xFFFFFFFF).astype(">u4")
        counts = dict(zip(STATES, np.bincount(states, minlength=len(STATES)).tolist(), strict=True))
        return cls(
            now,
            counts,
            listed,
            frozenset(State),
            frozenset(pairs),
            _digest(map("\t".join, listed.items())),
            seconds,
            _digest((*paths, seconds.tobytes().hex())),
            _digest([links.tobytes().hex()]),
        )

    def compact(self) -> dict[str, Any]:
        """As plain values for a log: as many states as fit, and the pairs if all of them fit."""
        groups: dict[State, dict[str, list[str]]] = {state: {} for state in STATES}
        few = [state for state in STATES if self.counts.get(state, 0) <= LOG_BASELINE_BYTES // _LEAST_BYTES]
        for path, state in self.listed.items() if few else ():
            if state in few:
                group, _, key = path.rpartition("/")
                groups[state].setdefault(group, []).append(key)
        room, listed = LOG_BASELINE_BYTES, {}
        for state in sorted(STATES, key=lambda state: self.counts.get(state, 0)):
            size = max(_size(groups[state]), self.counts.get(state, 0) * _LEAST_BYTES)
            if size > room:
                break
            room -= size
            listed[state.value] = groups[state]
        pairs = sorted((min(pair), max(pair)) for pair in self.pairs or ())
        seconds = b"" if self.seconds is None else b64encode(self.seconds.tobytes())
        has_room = len(listed) == len(STATES) and len(seconds) <= LOG_WRITTEN_BYTES
        return {
            "counts": {state.value: self.counts.get(state, 0) for state in STATES},
            "listed": listed,
            "contradictions": pairs if _size(pairs) <= LOG_PAIRS_BYTES else None,
            "digest": self.digest,
            "written": seconds.decode() if has_room else None,
            "texts": self.texts,
            "links": self.links,
        }


def from_log(log: Mapping[str, Any]) -> Baseline | None:
    """The baseline in a log of `IntrospectionReport.to_log`; None if the values are not such a log."""
    try:
        kept = log["standing"]
        listed = {
            f"{group}/{key}": State(state)
            for state, groups in kept["listed"].items()
            for group, keys in groups.items()
            for key in keys
        }
        pairs, written = kept["contradictions"], kept.get("written")
        seconds = None if written is None else np.frombuffer(b64decode(written), ">u4")
        if seconds is not None and len(seconds) != len(listed):
            return None
        return Baseline(
            created_at=float(log["created_at"]),
            counts={State(state): int(count) for state, count in kept["counts"].items()},
            listed=listed,
            complete=frozenset(State(state) for state in kept["listed"]),
            pairs=None if pairs is None else frozenset((str(one), str(other)) for one, other in pairs),
            digest=str(kept["digest"]),
            seconds=seconds,
            texts=str(kept.get("texts", "")),
            links=str(kept.get("links", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None  # written by another program or version, and of no use for a comparison


def outdated(seconds: Iterable[int], now: float) -> list[int]:
    """The logs to delete: one an hour is kept for a day, one a day for a month, and one a week after that.

    Only the newest log of a span of time is kept, once the span is over and old enough. Spans nest, so the order of
    deletions does not matter: every device keeps the newest log of a span, whichever other logs it knows.

    Args:
        seconds: when the logs were written, seconds since 1970.
        now: seconds since 1970.

    Returns:
        The times of the logs to delete, oldest first; never the newest log of all.
    """
    dated = sorted(set(seconds))
    found: set[int] = set()
    for length, age in _SPANS:
        for older, newer in pairwise(dated):
            if older // length == newer // length and (older // length + 1) * length <= now - age:
                found.add(older)
    return sorted(found)


def to_log(report: IntrospectionReport, baseline: Baseline) -> dict[str, Any]:
    """A report as plain values that fit one event."""
    log: dict[str, Any] = {"created_at": report.created_at}
    log |= {name: getattr(report, name) for name in _COUNTS}
    log |= {name: _cut(getattr(report, name), LOG_LIST_BYTES) for name in LISTS}
    log["bounded"] = dict(report.bounded)
    if report.changes is not None:
        changes = report.changes
        log["changes"] = {name: _cut(getattr(changes, name), LOG_CHANGE_BYTES) for name in _MOVES}
        log["changes"] |= {"since": changes.since, "exact": changes.exact, "untold": list(changes.untold)}
    log["standing"] = baseline.compact()
    return log


def changes(
    before: Baseline, after: Baseline, memories: Sequence[PersonaMemory], columns: Columns
) -> PalaceChanges:
    """The changes of a palace between two introspections.

    Args:
        before: the baseline from a log.
        after: the baseline of `memories`.
        memories: the memories now, in the order of their paths.
        columns: the columns of the same memories, in the same order.
    """
    moved: dict[str, list[Any]] = {name: [] for name in _MOVES}
    untold: list[str] = []
    if before.digest != after.digest:
        untold = _compare(before, after, memories, columns, moved)
    now = after.pairs or frozenset()
    if before.pairs is None:
        untold.append("new contradictions are unknown: the last log had no room for all of them")
    else:
        known, left = ({frozenset(pair) for pair in pairs} for pairs in (before.pairs, now))
        moved["contradicted"] = [pair for pair in now if frozenset(pair) not in known]
        gone = (pair for pair in before.pairs if frozenset(pair) not in left)
        moved["settled"] = [pair for pair in gone if after.listed.keys() >= {*pair}]
    moved["rewritten"] = list(_rewritten(before, after, memories).difference(moved["new"]))
    if before.seconds is None and before.texts != after.texts:
        untold.append(
            "texts that were written before the last introspection, and came from another device after it"
        )
    sorted_moves = {name: tuple(sorted(found)) for name, found in moved.items()}
    counts = {state: before.counts.get(state, 0) for state in STATES}
    return PalaceChanges(
        since=before.created_at,
        before=counts,
        exact=not untold,
        untold=tuple(untold),
        relinked=not moved["new"] and not moved["gone"] and before.links not in {"", after.links},
        **sorted_moves,
    )


def _rewritten(before: Baseline, after: Baseline, memories: Iterable[PersonaMemory]) -> set[str]:
    """The memories whose text was written since a baseline, as far as it tells; new ones are among them."""
    found = {memory.path for memory in memories if memory.written_at > before.created_at}
    if before.seconds is not None and after.seconds is not None and before.texts != after.texts:
        was = dict(zip(sorted(before.listed), before.seconds.tolist(), strict=True))
        now = zip(after.listed, after.seconds.tolist(), strict=True)
        found |= {path for path, second in now if was.get(path) != second}
    return found


def _compare(
    before: Baseline,
    after: Baseline,
    memories: Sequence[PersonaMemory],
    columns: Columns,
    moved: dict[str, list[Any]],
) -> list[str]:
    """Add each memory to a list in `moved` by its change; returns in words the changes that are not known."""
    unlisted = [state for state in STATES if state not in before.complete and before.counts.get(state, 0)]
    computed = columns.states(before.created_at).tolist() if unlisted else []
    unclear = 0
    for place, ((path, now), memory) in enumerate(zip(after.listed.items(), memories, strict=True)):
        was = before.listed.get(path)
        if was is None:
            if not unlisted or memory.created_at > before.created_at:
                moved["new"].append(path)
                continue
            was = _computed(memory, STATES[computed[place]], unlisted, before.created_at)
            if was is None:
                unclear += 1
                continue
        if now is not was:
            moved[_LOWERED[now] if _RANKS[now] < _RANKS[was] else "revived"].append(path)
    moved["gone"] = [path for path in before.listed if path not in after.listed]
    if not unlisted:
        return []
    count = sum(before.counts[state] for state in unlisted)
    how = "their earlier states are computed from the current ones, and new memories are recognised by their dates"
    untold = [f"memories that the last log does not list: {count:,}; {how}"]
    if unclear:
        untold.append(f"memories that are not listed, and were recalled or changed since: {unclear:,}")
    gone = sum(before.counts.values()) + len(moved["new"]) - len(memories) - len(moved["gone"])
    if gone > 0:
        untold.append(f"memories that are gone, and whose names are not known: {gone:,}")
    return untold


def _computed(memory: PersonaMemory, state: State, unlisted: list[State], then: float) -> State | None:
    """The earlier state of an unlisted memory; None if it is not known.

    It is known if only one state is not listed; or by decay, if the memory was not touched since.
    """
    if len(unlisted) == 1:
        return unlisted[0]
    untouched = max(memory.last_accessed, memory.last_reinforced) <= then
    return state if untouched and state in unlisted else None


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _named(item: Any) -> Any:
    """An item of a report, with a path for each memory."""
    match item:
        case PersonaMemory():
            return item.path
        case SuggestedContradiction():
            return [item.old.path, item.new.path, round(item.confidence, 3)]
        case (PersonaMemory() as one, PersonaMemory() as other):
            return [one.path, other.path]
    return item


def _cut(items: Sequence[Any], limit: int) -> dict[str, Any]:
    """The length of a list, and as many of its items as fit `limit` bytes."""
    listed: list[Any] = []
    room = limit
    for item in items:
        named = _named(item)
        room -= _size(named) + 1
        if room < 0:
            break
        listed.append(named)
    return {"count": len(items), "listed": listed}


def _size(value: Any) -> int:
    """The length of a value as JSON, in bytes."""
    return len(orjson.dumps(value))
