"""The archive: passages of long-term memory (four-tier memory, tier 3), and thoughts (layered memory, layer 2).

A passage is one record with its tags and topics. A thought is a passage that names its entry of the log as its source;
storing the thought of the same entry again replaces it. `MindSearch` searches the archive.

Cost: the passages stay in RAM once they were read, and only changed ones are read again, so an insert and the next count
of topics cost the same among ten passages and ten thousand.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput
from sense_memory.memories.persona.arguments import provenance
from sense_memory.mind.call_checks import checked
from sense_memory.mind.records import RecordView
from sense_memory.mind.versioned import VersionedRecords
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.mind.records import MindRecord, MindRecords

_PREFIX: Final = f"{address.MIND}archive/"


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of the archive.

    Attributes:
        id: 16 hex digits, or the id of the source.
        content: the text.
        tags: chosen by the agent.
        topics: assigned by classification, see `Topics`.
        title: the title of the source; may be empty.
        source: the id of the log entry that the passage came from; may be empty.
        at: when it was written, seconds since 1970.
        origin: who said it, as the source of a palace memory; empty for the user or the agent.
        sources: the sources of what it is derived from, the least trusted last.
        derived_from: the names of that, as of a palace memory.
        session: in which session it was written; empty if unknown.
    """

    id: str
    content: str = field(repr=False)
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    title: str = ""
    source: str = ""
    at: float = 0.0
    origin: str = ""
    sources: tuple[str, ...] = ()
    derived_from: tuple[str, ...] = ()
    session: str = ""


@checked
class Archive:
    """The passages of an agent.

    Args:
        records: reads and writes the passages.
    """

    def __init__(self, records: MindRecords) -> None:
        self._records = records
        self._passages = VersionedRecords(records, _PREFIX, _passage, _fields)
        self._view = RecordView(records, _PREFIX, _passage)
        self._topics, self._counted = Counter[str](), dict[str, tuple[str, ...]]()
        self._seen = 0

    async def insert(
        self,
        content: str,
        tags: Iterable[str] | str = (),
        *,
        topics: Iterable[str] = (),
        title: str = "",
        source: str = "",
        at: float | None = None,
        origin: str = "",
        sources: Iterable[str] = (),
        derived_from: Iterable[str] = (),
        session: str = "",
    ) -> Passage:
        """Add a passage.

        Args:
            content: the text.
            tags: chosen by the agent; blanks around a tag and empty tags are removed.
            topics: the topics of the passage.
            title: the title of the source.
            source: the id of the log entry that the passage came from; a second passage of a source replaces the first.
            at: when it was written, seconds since 1970; now by default.
            origin: who said it, as the source of a palace memory, such as `tool:browser`.
            sources: the sources of what it is derived from, see `Trust.sources_of`.
            derived_from: the names of that.
            session: in which session it was written.

        Raises:
            InvalidInput: the content is empty, or no source has such a form; nothing was written.
            TooLargeError: the passage does not fit an event (some 40,000 bytes); nothing was written.
        """
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("a passage must be a non-empty text")
        when = self._records.store.options.clock() if at is None else float(at)
        ident = source or secrets.token_hex(8)
        about = provenance(origin, session, None, list(derived_from), list(sources))
        passage = Passage(
            *(ident, content, _names(tags), _names(topics), title, source, when),
            origin=about["source"],
            **{name: about[name] for name in ("sources", "derived_from", "session")},
        )
        await self.replace(passage)
        return passage

    async def replace(self, passage: Passage) -> None:
        """Write a passage over its earlier version."""
        await self._records.write(await self._passages.records_of(passage.id, passage))

    async def rename_topics(self, passage_id: str, names: Mapping[str, str]) -> None:
        """Rename topics of a passage, together with concurrent changes of it; a passage that is gone stays gone."""

        async def renamed(passage: Passage | None) -> Passage | None:
            if passage is None:
                return None
            topics = tuple(dict.fromkeys(names.get(topic, topic) for topic in passage.topics))
            return replace(passage, topics=topics) if topics != passage.topics else None

        await self._passages.change(passage_id, renamed)

    async def get(self, passage_id: str) -> Passage | None:
        """One passage; None if no passage has the id."""
        return await self._passages.get(passage_id)

    async def all(self) -> list[Passage]:
        """Every passage, oldest first."""
        found = await self._view.refresh()
        return sorted(found.values(), key=lambda passage: (passage.at, passage.id))

    async def count(self) -> int:
        """The number of passages."""
        return len(await self._view.refresh())

    async def changes(self, seen: int) -> tuple[Mapping[str, Passage], Sequence[str]]:
        """The passages by id, and the ids of passages that were added, changed or removed.

        Args:
            seen: the number of changes that the follower has seen.
        """
        return await self._view.refresh(), self._view.changed[seen:]

    async def delete(self, passage_id: str) -> str:
        """Forget a passage here, and ask relays to delete it; returns the id of the deletion request.

        Raises:
            InvalidInput: no passage has this id.
        """
        if await self.get(passage_id) is None:
            raise InvalidInput("no passage has this id; nothing was removed")
        return await self._passages.forget(passage_id)

    async def tags(self) -> dict[str, int]:
        """Every tag with the number of passages that have it, most frequent first."""
        passages = await self._view.refresh()
        return _by_count(Counter(tag for passage in passages.values() for tag in passage.tags))

    async def topics(self) -> dict[str, int]:
        """Every topic with the number of passages that have it, most frequent first."""
        passages = await self._view.refresh()
        changed, self._seen = self._view.changed[self._seen :], len(self._view.changed)
        for ident in dict.fromkeys(changed):
            self._topics.subtract(self._counted.pop(ident, ()))
            if ident in passages:
                self._counted[ident] = passages[ident].topics
                self._topics.update(passages[ident].topics)
        return _by_count(+self._topics)


def _by_count(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _names(given: Iterable[str]) -> tuple[str, ...]:
    """Tags or topics from a list, or from a text with commas, as models write them."""
    parts = given.split(",") if isinstance(given, str) else given
    if not all(isinstance(part, str) for part in parts):
        raise InvalidInput("tags and topics must be texts")
    return tuple(dict.fromkeys(name for part in parts if (name := part.strip())))


def _fields(passage: Passage) -> dict[str, Any]:
    return {
        "content": passage.content,
        "tags": list(passage.tags),
        "topics": list(passage.topics),
        "title": passage.title,
        "source": passage.source,
        "ts": passage.at,
        **{name: getattr(passage, name) for name in ("origin", "session") if getattr(passage, name)},
        **{name: list(found) for name in ("sources", "derived_from") if (found := getattr(passage, name))},
    }


def _passage(record: MindRecord) -> Passage:
    return Passage(
        record.name,
        record.text("content"),
        record.texts("tags"),
        record.texts("topics"),
        record.text("title"),
        record.text("source"),
        record.written_at,
        record.text("origin"),
        record.texts("sources"),
        record.texts("derived_from"),
        record.text("session"),
    )
