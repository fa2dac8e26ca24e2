"""Which of several hits holds now: one that supersedes another, that may contradict it, or that is the newest. Pure.

Guaranteed: a memory never ranks before the memory that supersedes it, directly or through others, if a search may show
the latter; nor before a later hit that may contradict it and is about what is asked. Evidence cannot tell the two
apart: both are about the same thing, and an outdated memory may well be nearer to the words of the question. A question
for what is "current" or "latest" prefers the newest of the hits that have the same words of it. A hit that moves up
takes the score of the hit that it passes, and gives that as a reason. This costs one look at each hit, and a look-up
for each superseded one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from sense_memory.models import State
from sense_memory.palace.search import KIND, Match, PersonaHit, Why
from sense_memory.search.hits import Evidence, Explanation, Hit, told
from sense_memory.search.newest import Aged, newest_first


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.models import PersonaMemory

LATER_SHARE: Final = 0.5  # of the question's words in the earlier hit, which the later one must have too
_LATE: Final = frozenset({State.FORGOTTEN, State.DISSOLVED})
_H = TypeVar("_H", Hit, PersonaHit)


def with_successors_first(
    hits: Sequence[_H],
    named: Callable[[str], PersonaMemory | None],
    joining: Callable[[PersonaMemory], _H | None],
) -> list[_H]:
    """Hits in which each memory that supersedes another ranks just before it, or higher; the others keep their order.

    Args:
        hits: the best first, each path once.
        named: returns the memory that a mark names; None if there is none.
        joining: returns a hit, with score 0 and without evidence, for a memory that is not among the hits; None if the
            search may not show it.
    """
    found = {hit.path: hit for hit in hits if hit.kind == KIND}
    ranked: dict[tuple[str, str], _H] = {}
    for hit in hits:
        line, name, seen = [hit], hit.superseded_by, {hit.path}  # line: the oldest first
        while name is not None and (memory := named(name)) is not None:
            if memory.path in seen or (KIND, memory.path) in ranked:
                break
            seen.add(memory.path)
            newer = found.get(memory.path) or joining(memory)
            if newer is not None:
                line.append(_raised(newer, line[-1]))
            name = memory.superseded_by
        for one in reversed(line):
            ranked.setdefault((one.kind, one.path), one)
    return list(ranked.values())


def with_later_first(hits: Sequence[_H]) -> list[_H]:
    """Hits in which each later one that may contradict another (`suspected_by`) ranks just before it, or higher.

    Not one with less than `LATER_SHARE` of the words of the question that the other has: it is about something else.
    """
    found = {hit.path: hit for hit in hits if hit.kind == KIND}
    ranked: dict[tuple[str, str], _H] = {}

    def rank(hit: _H, seen: frozenset[str]) -> None:
        for path in hit.suspected_by:
            later = found.get(path)
            if later is None or path in seen or (KIND, path) in ranked:
                continue
            asked = _words_of(hit.why)
            if len(asked & _words_of(later.why)) >= LATER_SHARE * len(asked):
                rank(_raised(later, hit, "later"), seen | {path})
        ranked.setdefault((hit.kind, hit.path), hit)

    for hit in hits:
        rank(hit, frozenset({hit.path}))
    return list(ranked.values())


def with_newest_first(hits: Sequence[_H], question: str) -> list[_H]:
    """Hits in which, where a question asks for what holds now, the newest of those about one thing ranks first.

    Forgotten hits stay behind all others, and are ordered in the same way among themselves.
    """
    first, late = list[_H](), list[_H]()
    for hit in hits:
        (late if hit.state in _LATE else first).append(hit)
    return _newest_first(first, question) + _newest_first(late, question)


def _newest_first(hits: Sequence[_H], question: str) -> list[_H]:
    order: list[int] = newest_first(
        question, [Aged(_words_of(hit.why), hit.score, hit.written_at) for hit in hits]
    )
    ranked = list[_H]()
    for place, at in reversed([*enumerate(order)]):
        passes = any(other < at for other in order[place + 1 :])
        ranked.append(_raised(hits[at], ranked[-1], "newest") if passes else hits[at])
    return ranked[::-1]


def _words_of(why: Explanation) -> frozenset[str]:
    return frozenset(item.detail for item in why.evidence if item.kind == "word")


def _raised(hit: _H, older: _H, kind: str = "supersedes") -> _H:
    """The hit of a memory, with at least the score of the older one that it passes."""
    if hit.answer_confidence < older.answer_confidence:  # it says what became of the answer
        hit = hit.model_copy(update={"answer_confidence": older.answer_confidence})
    share = older.score - hit.score
    if share <= 0:
        return hit
    why = _with_reason(hit.why, Evidence(kind=kind, detail=older.path, contribution=share))
    return hit.model_copy(update={"score": older.score, "why": why})


def _with_reason(why: Explanation, reason: Evidence) -> Explanation:
    changed: dict[str, Any] = {"text": f"{told(reason)}{', ' if why.evidence else '; '}{why.text}"}
    changed["evidence"] = tuple(sorted((*why.evidence, reason), key=lambda item: -item.contribution))
    if isinstance(why, Why):
        match = Match(field=reason.kind, term=reason.detail, contribution=reason.contribution)
        changed["matches"] = tuple(sorted((*why.matches, match), key=lambda item: -item.contribution))
    return why.model_copy(update=changed)
