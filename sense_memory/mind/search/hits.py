"""Hits of a search of the mind, and how corrections rank among them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.mind.search.corrections import corrects_in_words
from sense_memory.mind.search.revisions import Revision, best_revisions
from sense_memory.mind.sentence_kinds import is_correction, split_sentences
from sense_memory.search.newest import Aged, newest_first
from sense_memory.search.ranking import Reason


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STEP: Final = 1e-5  # the score of a correction above the corrected hit


class Place(StrEnum):
    """Where a hit was found."""

    CONVERSATION = "conversation"  # a message
    ARCHIVE = "archive"  # a passage
    LOG = "log"  # any other entry of the log


EVERYWHERE: Final = tuple(Place)


@dataclass(frozen=True, slots=True)
class MindHit:
    """A message, an entry of the log or a passage that was found.

    Attributes:
        place: where it was found.
        id: the id of the entry or the passage.
        text: its text.
        at: when it was written, seconds since 1970.
        score: higher is better; comparable within one search only.
        actor: who said it; empty for a passage.
        conversation: the conversation's id, or None.
        tags, topics: the tags and topics of a passage.
        why: the reasons that make up the score, largest first.
        answer_confidence: the estimated probability that it answers the query, 0 to 1; comparable across searches.
        corrected_by: the id of a later hit that corrects this hit and ranks before it, see `corrections`; or empty.
        is_from_tool: whether it is the result of a tool.
    """

    place: Place
    id: str
    text: str = field(repr=False)
    at: float
    score: float
    actor: str = ""
    conversation: str | None = None
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    why: tuple[Reason, ...] = field(default=(), repr=False)
    corrected_by: str = ""
    answer_confidence: float = 0.0
    is_from_tool: bool = False

    def __str__(self) -> str:
        """The text alone; `repr` shows everything else."""
        return self.text


@dataclass(frozen=True, slots=True)
class LaterWord:
    """What was said later about a hit.

    Attributes:
        hit: the later message.
        is_sure: whether it surely corrects the earlier hit, which is marked then.
    """

    hit: MindHit
    is_sure: bool


def with_corrections_first(
    hits: Iterable[MindHit], said_after: Mapping[str, LaterWord] | None = None
) -> list[MindHit]:
    """Hits in which each correction ranks just before the hit that it corrects; the other hits keep their order.

    A speaker corrects only its own statements and those of an assistant, in the same conversation; in another
    conversation only its own, and only where it says that it corrects. The result of a tool corrects only results of that
    tool: a page that was fetched must not mark as wrong what somebody said. What may only be a correction ranks before the
    earlier hit too, and marks nothing.

    Args:
        hits: the hits.
        said_after: what was said soon after a hit about it, by the id of that hit; see `said_after`.
    """
    after = said_after or {}
    scored: dict[str, MindHit] = {later.hit.id: replace(later.hit, score=0.0) for later in after.values()}
    scored |= {hit.id: hit for hit in hits}
    by_age = sorted(scored.values(), key=lambda hit: (hit.at, hit.id))
    for place, new in enumerate(by_age):
        may = {hit.id: hit for hit in by_age[:place] if _may_correct(new, hit)}
        best = best_revisions(new.text, [hit.text for hit in may.values()])
        ids = list(may)
        revised = {ids[at]: grade for at, grade in best.items()}
        graded = [
            (hit, _grade(new, hit, after.get(hit.id), revised, may=hit.id in may)) for hit in by_age[:place]
        ]
        old = [scored[hit.id] for hit, grade in graded if grade]
        for hit, grade in graded:
            if grade is Revision.SURE:
                scored[hit.id] = replace(scored[hit.id], corrected_by=new.id)
        added = max((hit.score for hit in old), default=0.0) + _STEP - new.score
        if old and added > 0:
            why = (*new.why, Reason("corrects", "", added))
            scored[new.id] = replace(new, score=new.score + added, why=why)
    return sorted(scored.values(), key=lambda hit: -hit.score)


def _grade(
    new: MindHit, old: MindHit, later: LaterWord | None, revised: Mapping[str, Revision], *, may: bool
) -> Revision:
    """How surely a later hit corrects an earlier one: if it `may`, being of the same conversation, or says that it does."""
    if later is not None and later.hit.id == new.id:
        return Revision.SURE if later.is_sure else Revision.SUSPECTED
    grade = revised.get(old.id, Revision.NONE)
    if grade is not Revision.SURE and (may or _says_so_elsewhere(new, old)):
        return Revision.SURE if corrects_in_words(new.text, old.text) else grade
    return grade


def with_newest_first(hits: Sequence[MindHit], question: str) -> list[MindHit]:
    """Hits in which, where a question asks for what holds now, the newest of those about one thing ranks first."""
    aged = [Aged(_words_of(hit), hit.score, hit.at) for hit in hits]
    ranked = list[MindHit]()
    for at in reversed(newest_first(question, aged)):
        hit, added = hits[at], ranked[-1].score - hits[at].score if ranked else 0.0
        if added > 0:
            hit = replace(hit, score=ranked[-1].score, why=(*hit.why, Reason("newest", "", added)))
        ranked.append(hit)
    return ranked[::-1]


def _words_of(hit: MindHit) -> frozenset[str]:
    """The words of the question that a hit has; none for a question, which says nothing about what holds."""
    is_question = hit.text.rstrip().endswith("?")
    return frozenset(reason.detail for reason in hit.why if reason.kind == "word" and not is_question)


def _may_correct(new: MindHit, old: MindHit) -> bool:
    """Whether two hits are in one place and conversation, and of one speaker or the older one of an assistant."""
    if new.is_from_tool and not old.is_from_tool:
        return False
    is_spoken = old.actor in {new.actor, "assistant"}
    return is_spoken and (new.place, new.conversation) == (old.place, old.conversation)


def _says_so_elsewhere(new: MindHit, old: MindHit) -> bool:
    """Whether a message says that it corrects something, and an older one is of its speaker in another conversation."""
    is_elsewhere = new.place is old.place is Place.CONVERSATION and new.conversation != old.conversation
    is_same = new.actor == old.actor and new.is_from_tool == old.is_from_tool
    return is_elsewhere and is_same and any(map(is_correction, split_sentences(new.text)))
