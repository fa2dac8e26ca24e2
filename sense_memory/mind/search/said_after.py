"""The corrections that were said soon after a hit, which a search by words does not find, such as "No, it's the 14th"."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from sense_memory.mind.chat.messages import message
from sense_memory.mind.search.corrections import corrected
from sense_memory.mind.search.hits import MindHit, Place
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.chat.message_index import MessageIndex
    from sense_memory.mind.log import LogEntry

_AFTER_COUNT: Final = 12  # messages after a hit


async def said_after(hits: Iterable[MindHit], messages: MessageIndex) -> dict[str, MindHit]:
    """The correction of each message among some hits, by the id of the message; with the score of the message."""
    found = dict[str, MindHit]()
    for hit in hits:
        if hit.place is Place.CONVERSATION and hit.conversation is not None:
            after = list(islice((await messages.of(hit.conversation)).after(hit.id), _AFTER_COUNT))
            if (entry := _correction(hit, after)) is not None:
                text, more = message(entry).content, (entry.actor, entry.conversation)
                found[hit.id] = MindHit(Place.CONVERSATION, entry.id, text, entry.at, hit.score, *more)
    return found


def _correction(hit: MindHit, after: Sequence[LogEntry]) -> LogEntry | None:
    """The first of some messages that corrects a hit, and nothing that was said in between."""
    if hit.actor not in {entry.actor for entry in after} | {"assistant"}:
        return None
    between = [hit.text]
    for entry in after:
        text = message(entry).content
        if hit.actor in {entry.actor, "assistant"} and _corrects_first(text, between):
            return entry
        if entry.actor == hit.actor:
            between.append(text)
    return None


def _corrects_first(text: str, said: Sequence[str]) -> bool:
    return any(
        kind_of(sentence) is SentenceKind.CORRECTION and corrected(sentence, said) == 0
        for sentence in split_sentences(text)
    )
