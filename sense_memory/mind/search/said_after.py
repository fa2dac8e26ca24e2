"""The corrections that were said after a hit, which a search by words does not find, such as "No, it's the 14th"."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from sense_memory.mind.chat.messages import is_from_tool, text_of
from sense_memory.mind.search.corrections import corrected
from sense_memory.mind.search.hits import LaterWord, MindHit, Place
from sense_memory.mind.search.revisions import Revision, revised
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.mind.chat.message_index import MessageIndex, MessageList
    from sense_memory.mind.log import LogEntry

_NEAR_COUNT: Final = 12  # messages after a hit
_FAR_COUNT: Final = 30  # messages after one of the first hits
_FIRST_COUNT: Final = 10  # hits for which weaker signs are looked for, and farther away
_BEFORE_COUNT: Final = 12  # messages before a hit, which a correction may mean instead


async def said_after(hits: Sequence[MindHit], messages: MessageIndex) -> dict[str, LaterWord]:
    """The correction of each message among some hits, by the id of the message; with the score of the message."""
    found = dict[str, LaterWord]()
    conversations = {hit.conversation for hit in hits if hit.place is Place.CONVERSATION}
    lists = {name: await messages.of(name) for name in conversations if name is not None}
    for number, hit in enumerate(hits):
        if hit.place is Place.CONVERSATION and hit.conversation is not None:
            said = lists[hit.conversation]
            after = [
                entry
                for entry in islice(said.after(hit.id), _FAR_COUNT)
                if hit.is_from_tool or not is_from_tool(entry)
            ]
            if (later := _correction(hit, after[:_NEAR_COUNT])) is not None:
                found[hit.id] = LaterWord(_as_hit(later, hit.score), is_sure=True)
            elif number < _FIRST_COUNT and (revising := _revision(hit, after, said)) is not None:
                entry, is_sure = revising
                found[hit.id] = LaterWord(_as_hit(entry, hit.score), is_sure=is_sure)
    return found


def _as_hit(entry: LogEntry, score: float) -> MindHit:
    text = text_of(entry.payload)
    about = entry.actor, entry.conversation
    return MindHit(
        Place.CONVERSATION, entry.id, text, entry.at, score, *about, is_from_tool=is_from_tool(entry)
    )


def _revision(hit: MindHit, after: Sequence[LogEntry], said: MessageList) -> tuple[LogEntry, bool] | None:
    """The first of some messages that surely revises a hit, or else may, and nothing said before the hit; is it sure?"""
    suspected: LogEntry | None = None
    for number, entry in enumerate(after):
        text = text_of(entry.payload)
        if hit.actor not in {entry.actor, "assistant"} or revised(text, [hit.text]) is None:
            continue
        actors = {entry.actor, "assistant"}
        earlier = [
            text_of(other.payload) for other in said.before(hit.id, _BEFORE_COUNT) if other.actor in actors
        ]
        between = [text_of(other.payload) for other in after[:number] if other.actor in actors]
        found = revised(text, [*earlier, hit.text, *between])
        if found is None or found[0] != len(earlier):
            continue
        if found[1] is Revision.SURE:
            return entry, True
        suspected = suspected or entry
    return None if suspected is None else (suspected, False)


def _correction(hit: MindHit, after: Sequence[LogEntry]) -> LogEntry | None:
    """The first of some messages that corrects a hit, and nothing that was said in between."""
    if hit.actor not in {entry.actor for entry in after} | {"assistant"}:
        return None
    between = [hit.text]
    for entry in after:
        text = text_of(entry.payload)
        if hit.actor in {entry.actor, "assistant"} and _corrects_first(text, between):
            return entry
        if entry.actor == hit.actor:
            between.append(text)
    return None


def _corrects_first(text: str, said: Sequence[str]) -> bool:
    return any(corrected(sentence, said) == 0 for sentence in _correcting(text))


@lru_cache(4_096)  # asked again for each hit before a message
def _correcting(text: str) -> tuple[str, ...]:
    """The sentences of a text that are corrections."""
    return tuple(
        sentence for sentence in split_sentences(text) if kind_of(sentence) is SentenceKind.CORRECTION
    )
