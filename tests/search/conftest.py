"""What the tests of search share: items in a line, and days as times."""

from __future__ import annotations

import pytest

from sense_memory.search.calendar_days import DAY_SECONDS, number
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex


@pytest.fixture
def at():
    """The time of a day, at noon."""
    return lambda year, month, day: number(year, month, day) * DAY_SECONDS + DAY_SECONDS / 2


@pytest.fixture
def index_of():
    """An index of texts, each named by its place."""

    def make(*texts, **options):
        index = SearchIndex(**options)
        index.put_many(SearchItem(str(place), text) for place, text in enumerate(texts))
        return index

    return make


@pytest.fixture
def found():
    """The ids of what a search finds, best first."""
    return lambda index, query, **options: [hit.id for hit in index.search(query, **options)]
