"""Dates in questions and in texts: "last May", "before the summer", "zwischen Ostern und Pfingsten", "hier soir".

A pure function from a text and a time to periods; no clock is read here. Periods are in wall-clock seconds of whatever
zone `now` is in, so that days begin at multiples of `DAY_SECONDS`; the caller adds the zone's offset to its times.

An expression without a year ("in March", "at Christmas") means that period of every year that the memories cover; beside
"before", "after", "since" and "until" it means the last one that has begun, or the next one in a question about what is to
come. Seasons are those of the north, in whole months. Parts of the day are hours: the morning 5 to 12, noon 11 to 14, the
afternoon 12 to 18, the evening 17 to 23, the night 18 to 6. A word that is more often something else ("may", "sun",
"fall") counts only with a word beside it that makes it a date.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.search import date_words as roles
from sense_memory.search.calendar_days import DAY_SECONDS, Period
from sense_memory.search.date_patterns import UNIT_SECONDS, DatedText, SingleDate, edge, single_dates


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.search.calendar_days import Span

MAX_PERIODS: Final = 300  # of one text; more would only mean every day
_LONGEST: Final = 367 * DAY_SECONDS  # of "from A to B"
_DIRECTIONS: Final = {
    roles.BEFORE: "before",
    roles.AGO_BEFORE: "before",
    roles.AFTER: "after",
    roles.SINCE: "since",
    roles.UNTIL: "until",
}
_EDGE: Final = re.compile("E[Lt]*$")
_OPENING: Final = re.compile("[BF][ptLa]*$")
_LINK: Final = re.compile("[-&_a]+[ptLa]*")
_SIDE: Final = re.compile("(?:(?P<count>[naiDN])?(?P<unit>[Ue]))?(?P<side>[<>+_V])[pLtai]*$")
_COMING_WORDS: Final = """
will going plan plans planned planning upcoming due scheduled shall must wird werden geplant prevu previsto planeado
"""
_COMING: Final = frozenset(_COMING_WORDS.split())


class DateReading(NamedTuple):
    """What a text says about times.

    Attributes:
        periods: in the order of the text; empty if it names no time.
        words: the folded words by which it names them.
    """

    periods: tuple[Period, ...] = ()
    words: frozenset[str] = frozenset()


NOTHING: Final = DateReading()


def read_dates(text: str, now: float, covered: Span | None = None) -> DateReading:
    """The times that a text names.

    Args:
        text: folded text (`search.tokens.fold`).
        now: when the text was written or asked, in wall-clock seconds.
        covered: the days from the first memory to the last, for a question. None for the text of a memory: there an
            expression without a year means the nearest one, a direction is left out, and a bare weekday, a bare year and
            the day itself ("today") mean nothing.
    """
    tokens = roles.tokens_of(text)
    codes = "".join(token.role for token in tokens)
    asked = DatedText(tokens, codes, now, covered, any(token.text in _COMING for token in tokens))
    found = [_at_edge(asked, dated) for dated in single_dates(asked)]
    whole = [_beside(asked, dated) for dated in _joined(asked, found)]
    if not whole:
        return NOTHING
    names = (tokens[at].text for first, end, _ in whole for at in range(first, end))
    all_of = dict.fromkeys(period for dated in whole for period in dated.periods)
    return DateReading(
        tuple(all_of)[:MAX_PERIODS], frozenset(part for name in names for part in name.split())
    )


def _at_edge(text: DatedText, dated: SingleDate) -> SingleDate:
    """The beginning, the middle or the end of a period: "early March", "Ende letzten Monats"."""
    found = _EDGE.search(text.codes[: dated.first])
    if found is None:
        return dated
    which = text.tokens[found.start()].value
    return SingleDate(found.start(), dated.end, [edge(period, which) for period in dated.periods])


def _joined(text: DatedText, found: Sequence[SingleDate]) -> Iterator[SingleDate]:
    """Dates in which "between A and B" and "from A to B" are one."""
    at = 0
    while at < len(found):
        this, at = found[at], at + 1
        after = found[at] if at < len(found) else None
        opening = _OPENING.search(text.codes[: this.first])
        link = text.codes[this.end : after.first] if after else ""
        if after is None or not _LINK.fullmatch(link) or not (opening or link[0] in "-_"):
            yield this
            continue
        at += 1
        both = [
            Period(period.start, min(ends))
            for period in this.periods
            if (ends := [other.end for other in after.periods if 0 < other.end - period.start <= _LONGEST])
        ]
        yield SingleDate(this.first if opening is None else opening.start(), after.end, both)


def _beside(text: DatedText, dated: SingleDate) -> SingleDate:
    """A date with its direction: "before the summer", "seit Oktober", "two days after Easter"."""
    found = _SIDE.search(text.codes[: dated.first])
    if found is None or not dated.periods:
        return dated
    side, named = _DIRECTIONS[found["side"]], _one_of(text, dated.periods)
    if found["unit"] and side in {"before", "after"}:
        count = 1 if found["count"] is None else text.tokens[found.start("count")].value
        unit = text.tokens[found.start("unit")].value
        return SingleDate(found.start(), dated.end, [_beyond(named, side, count, unit)])
    if text.covered is None:
        return dated
    return SingleDate(found.start("side"), dated.end, [named._replace(direction=side)])


def _one_of(text: DatedText, named: Sequence[Period]) -> Period:
    """Of the periods of several years, the last that has begun; or the next, where what is to come is asked for."""
    if text.is_coming:
        coming = min((period for period in named if period.end > text.now), default=None)
        if coming is not None:
            return coming
    return max((period for period in named if period.start <= text.now), default=named[0])


def _beyond(named: Period, side: str, count: int, unit: str) -> Period:
    """The day that lies some days from a period; for longer units, all the time up to there."""
    length = count * UNIT_SECONDS[unit]
    if unit == "day":
        first = named.start - length if side == "before" else named.end - DAY_SECONDS + length
        return Period(first, first + DAY_SECONDS)
    if side == "before":
        return Period(named.start - length, named.start)
    return Period(named.end, named.end + length)
