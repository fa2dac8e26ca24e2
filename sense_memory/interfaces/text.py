"""Words for people and JSON for machines, from plain values. No terminal, no rich, no I/O.

Texts of memories and relays are not trusted: they are escaped before they reach a terminal, in tables, in sentences and
in JSON.
"""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sense_memory.plain_text import escaped, printed


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sense_memory.models import PersonaMemory, State
    from sense_memory.search.hits import Hit

_STEPS: Final = (  # the bound in seconds, the unit, and the seconds of the unit
    (60, "s", 1),
    (3_600, "min", 60),
    (86_400, "h", 3_600),
    (60 * 86_400, "days", 86_400),
    (730 * 86_400, "months", 30 * 86_400),
    (float("inf"), "years", 365 * 86_400),
)
_ENDS: Final = "'\\"  # what ends `$'…'`, or begins an escape in it
_UNUSUAL: Final = re.compile(r"[^ -~\n]")  # all other characters are printable


def age(then: float, now: float) -> str:
    """How long ago, such as "3 min ago", from two times in seconds since 1970."""
    seconds = now - then
    if abs(seconds) < 1:
        return "just now"
    _, unit, size = next(step for step in _STEPS if abs(seconds) < step[0])
    count = int(abs(seconds) // size)
    unit = unit.removesuffix("s") if count == 1 and len(unit) > 1 else unit
    return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"


def iso(then: float | None) -> str | None:
    """A time in seconds since 1970 as ISO 8601 in UTC, to the millisecond; None where it is not a date."""
    moment = _moment(then)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def local_time(then: float) -> str:
    """A time in seconds since 1970 as date and time of this machine's time zone."""
    moment = _moment(then)
    return f"{moment.astimezone():%Y-%m-%d %H:%M}" if moment else "at no known time"


def quantity(count: int, noun: str, plural: str = "") -> str:
    """A count and its noun: "1 relay", "1,200 relays"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """A number of bytes: "512 bytes", "1.4 kB", "2.1 MB"."""
    if count < 1_000:
        return quantity(count, "byte")
    unit, divisor = ("kB", 1_000) if count < 999_950 else ("MB", 1_000_000)
    return f"{count / divisor:,.1f} {unit}"


def safe(text: str) -> str:
    """A text for a terminal: line breaks, tabs and all kinds of spaces stay; other invisible characters are escaped.

    What `plain_text` hides from a model is escaped here too, and so are joiners, which terminals show in different ways.
    """
    if not text.isprintable():
        text = "".join(char if _is_harmless(char) else escaped(char) for char in text)
    return printed(text)


def one_line(text: str, limit: int | None = None) -> str:
    """A text on one line, at most `limit` characters long, for a terminal."""
    cut = text if limit is None else text[:limit]
    return safe(cut.replace("\r\n", "\n").replace("\n", "↵ ").replace("\t", " "))


def quoted(*texts: str) -> str:
    """Texts as the last words of a command line to copy; bash and zsh read exactly these texts.

    Invisible characters are written as bytes (ANSI-C quoting). If a text begins with a dash, `--` comes first, so that
    no text is an option.
    """
    words = " ".join(map(word, texts))
    return f"-- {words}" if any(text.startswith("-") for text in texts) else words


def word(text: str) -> str:
    """A text as one word of a command line to copy, even if it begins with a dash."""
    import shlex

    if text.isprintable():
        return shlex.quote(text)
    chars = (char if char.isprintable() and char not in _ENDS else _bytes(char) for char in text)
    return f"$'{''.join(chars)}'"


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def wrap(text: str, width: int, indent: int = 2) -> str:
    """A text whose lines fit a width; continuation lines are indented, and paths are broken after a `/`."""
    lines = (_Folder(width, subsequent_indent=" " * indent).fill(line) for line in text.split("\n"))
    return "\n".join(lines)


def some(names: Sequence[str], limit: int) -> str:
    """The first few names, separated by commas, and the number of the others."""
    rest = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(one_line(name) for name in names[:limit]) + rest


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON that people can read too: indented, or (None) on one line; unprintable characters are escaped."""
    shown = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNUSUAL.sub(lambda found: _shown(found[0]), shown)


def as_json_list(items: Iterable[Any]) -> Iterator[str]:
    """`as_json` of a list and a line break at its end, in pieces: a long list is never one text."""
    before = "["
    for item in items:
        yield before + "\n  " + as_json(item).replace("\n", "\n  ")
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _shown(char: str) -> str:
    return char if char.isprintable() else _json_escape(char)


class _Folder(textwrap.TextWrapper):
    """Breaks lines at spaces, and in a path after each folder."""

    wordsep_simple_re = re.compile(r"( +|(?<=[^/]/)(?!/))")

    def __init__(self, width: int, **options: Any) -> None:
        super().__init__(width, break_on_hyphens=False, **options)


def _moment(then: float | None) -> datetime | None:
    try:
        return None if then is None else datetime.fromtimestamp(then, UTC)
    except (OverflowError, OSError, ValueError):
        return None  # a number that is not a date of this calendar


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


PROBABLY_NOTHING: Final = "Probably nothing about this is kept; these are only the nearest."


def caution(memory: PersonaMemory | Hit, place: str = "") -> str:
    """Why a memory may not hold: it is an edit that lost, another memory superseded it, or may contradict it.

    Empty if there is no reason. Paths are given without the prefix `place`.
    """
    reasons = []
    if memory.conflict_of is not None:
        reasons.append(f"an edit that lost to {one_line(memory.conflict_of.removeprefix(place))}")
    if memory.superseded_by is not None:
        reasons.append(f"superseded by {one_line(memory.superseded_by.removeprefix(place))}")
    elif memory.suspected_by:
        latest, *others = memory.suspected_by
        more = f" and {len(others):,} more" if others else ""
        reasons.append(f"perhaps contradicted by {one_line(latest.removeprefix(place))}{more}")
    return "; ".join(reasons)


def state_mark(state: State | None) -> str:
    """The state of a hit, if it is not active: "fading", "forgotten" or "dissolved"; empty otherwise."""
    return "" if state is None or state == "active" else state.value


def hit_caution(hit: Hit) -> str:
    """Why a hit is not as good as others: its state, or a reason of `caution`; empty if there is none."""
    return "; ".join(filter(None, (state_mark(hit.state), caution(hit))))


def forgotten_note(count: int, way: str = "--state forgotten") -> str:
    """How many forgotten memories match that a search does not show, and how to see them; empty if there are none.

    Args:
        count: of `Hits.forgotten`.
        way: what shows them.
    """
    if not count:
        return ""
    what = (
        f"{quantity(count, 'forgotten memory', 'forgotten memories')} {'matches' if count == 1 else 'match'}"
    )
    return f"{what}; {way} shows {'it' if count == 1 else 'them'}, recall brings one back"


def untrusted_note(count: int) -> str:
    """How many memories are not in a prompt because nobody vouched for where they came from."""
    what = quantity(count, "active memory", "active memories")
    return f"{what} from tools, documents or imports left out; search finds them, and `trust` lets them in"


def bracketed(note: str) -> str:
    """A note as it stands before a text; empty if there is none."""
    return f"[{note}] " if note else ""


def memories_in(item: Any) -> tuple[PersonaMemory, ...]:
    """The memories of an item that an introspection lists; none where the item is the name of a domain or a facet."""
    if isinstance(item, str):
        return ()
    if isinstance(item, tuple):
        return item
    return (item.old, item.new) if hasattr(item, "old") else (item,)
