"""Which topics a model is shown: all of them, or those nearest to a text where all are too many for one request.

Guaranteed: the topics of one request have `MAX_LISTED_CHARS` characters at most, and the caller learns how many were left
out. The index is built only where topics have to be left out, and then takes in only topics that have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.mind.model import MAX_LISTED_CHARS


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sense_memory.search.index import SearchIndex

SHOWN_SUMMARY_CHARS: Final = 2_000  # of one topic's summary; `UpdateTopicSummary` asks for 120 words
_QUOTES_CHARS: Final = 8  # around a name and a summary, in JSON
_NEAREST_COUNT: Final = 1_000  # topics that are ranked, more than a request holds


class TopicChoice:
    """Chooses the topics for the classification of texts."""

    def __init__(self) -> None:
        self._index: SearchIndex | None = None
        self._indexed: dict[str, str] = {}

    def nearest(self, known: Mapping[str, str], text: str) -> dict[str, str]:
        """The topics for one request: all, or those nearest to a text and then the first of the others.

        Args:
            known: the summary of each topic, the most used topics first.
            text: the text to classify.
        """
        chosen = fitting(known.items())
        if len(chosen) == len(known):
            return chosen
        names = dict.fromkeys((*self._ranked(known, text), *chosen))
        return fitting((name, known[name]) for name in names)

    def _ranked(self, known: Mapping[str, str], text: str) -> Iterator[str]:
        """The topics that share words with a text, nearest first."""
        from sense_memory.search.documents import SearchItem  # slow to import, with numpy
        from sense_memory.search.index import SearchIndex
        from sense_memory.search.ranking import SearchOptions
        from sense_memory.search.tokens import words

        if self._index is None:
            # Topics are not a sequence of messages: topics beside each other are not related.
            self._index = SearchIndex(
                SearchOptions(neighbours=False, session=False, speaker=False, dates=False)
            )
        for name in self._indexed.keys() - known.keys():
            self._index.drop(name)
        changed = {name: said for name, said in known.items() if self._indexed.get(name) != said}
        self._index.put_many(
            SearchItem(name, said[:SHOWN_SUMMARY_CHARS], key=name.replace("-", " "))
            for name, said in changed.items()
        )
        self._indexed = dict(known)
        query = " ".join(dict.fromkeys(words(text)))  # words alone: a quotation would exclude other topics
        return (hit.id for hit in self._index.search(query, _NEAREST_COUNT, explain=False))


def fitting(topics: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first of some topics with their summaries, as many as fit one request; long summaries are cut."""
    found, left = dict[str, str](), MAX_LISTED_CHARS
    for name, summary in topics:
        shown = summary[:SHOWN_SUMMARY_CHARS]
        left -= len(name) + len(shown) + _QUOTES_CHARS
        if left < 0:
            break
        found[name] = shown
    return found
