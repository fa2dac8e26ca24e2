"""Insights as an agent keeps them: sentences of many shapes about people, work and the world, from a seed.

Names follow a curve like that of real notes: a few are in many memories, most are in a handful. All texts differ, and
no text is filler, because the costs of search and contradictions depend on the words.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterator

DAY: Final = 86_400.0
_DOMAINS: Final = ("self", "people", "projects", "world", "skills")
_FACETS: Final = ("facts", "beliefs", "decisions", "procedures", "emotions")
_ONSETS: Final = (
    "b",
    "br",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "st",
    "t",
    "v",
    "w",
    "z",
)
_VOWELS: Final = ("a", "e", "i", "o", "u", "ai", "ea")
_CODAS: Final = ("", "l", "m", "n", "r", "s", "th", "nd", "x")
_THINGS: Final = (
    "invoice", "parser", "kitchen", "timetable", "relay", "poster", "garden", "contract", "prototype", "recipe",
    "backup", "studio", "camera", "workshop", "ledger", "bicycle", "newsletter", "database", "harbour", "notebook",
    "budget", "interview", "translation", "boiler", "playlist", "insurance", "telescope", "printer", "archive", "ferry",
)  # fmt: skip
_QUALITIES: Final = (
    "quiet", "early", "handmade", "unreliable", "cheap", "open", "slow", "seasonal", "local", "formal",
    "bright", "fragile", "shared", "portable", "annual", "digital", "wooden", "northern", "weekly", "remote",
)  # fmt: skip
_DOINGS: Final = (
    "repairs", "collects", "prefers", "teaches", "avoids", "studies", "designs", "exports", "compares", "restores",
    "publishes", "measures", "negotiates", "translates", "paints", "reviews", "archives", "rents", "tests", "cooks",
)  # fmt: skip
_SHAPES: Final = (
    "{name} {doing} {quality} {things} with {other} every {count} weeks.",
    "We chose the {quality} {thing} over the {thing2}, because {name} needs {count} of them.",
    "To reach the {thing} at {name}: open the {thing2}, then call {other} after {count} o'clock.",
    "{name} feels that the {thing} is more {quality} than the {thing2} {other} had in mind.",
    "The {thing} of {name} has {count} pages about {quality} {things} and one about {other}.",
    "{other} owes {name} {count} euros for the {quality} {thing}.",
    "Since the {thing} moved to {name}, {other} {doing} it {count} times a month.",
    "{name}'s {thing}: {quality}, {count} years old, looked after by {other}.",
)


def insights(seed: int, count: int, now: float) -> Iterator[dict[str, Any]]:
    """`count` insights, as the fields of persona memories: all active at `now`, a few weeks old at most.

    Args:
        seed: decides everything in them.
        count: how many.
        now: seconds since 1970.
    """
    dice = random.Random(seed)  # noqa: S311 - texts, not secrets
    names = [_name(dice) for _ in range(max(50, count // 8))]
    for number in range(count):
        name, other = _often_the_first(dice, names), _often_the_first(dice, names)
        thing, thing2, quality = dice.choice(_THINGS), dice.choice(_THINGS), dice.choice(_QUALITIES)
        written = now - dice.random() * 20 * DAY
        yield {
            "domain": _DOMAINS[number % 5],
            "facet": _FACETS[number // 5 % 5],
            "key": f"{name.lower()}-{thing}-{number}",
            "value": dice.choice(_SHAPES).format(
                name=name,
                other=other,
                thing=thing,
                thing2=thing2,
                things=f"{thing2}s",
                quality=quality,
                doing=dice.choice(_DOINGS),
                count=dice.randrange(2, 400),
            ),
            "themes": [name.lower(), thing, *([quality] if number % 3 else [])],
            "created_at": written,
            "last_accessed": written,
            "last_reinforced": written,
        }


def queries(seed: int, count: int, amount: int) -> list[str]:
    """Queries over the insights of a seed: a name and a thing, a thing and its quality, three words."""
    dice = random.Random(seed)  # noqa: S311 - texts, not secrets
    names = [_name(dice) for _ in range(max(50, count // 8))]
    shapes = ("{name} {thing}", "{quality} {thing}", "{name} {quality} {thing}", "{name}")
    return [
        dice.choice(shapes).format(
            name=_often_the_first(dice, names), thing=dice.choice(_THINGS), quality=dice.choice(_QUALITIES)
        )
        for _ in range(amount)
    ]


def _name(dice: random.Random) -> str:
    syllables = ("".join(map(dice.choice, (_ONSETS, _VOWELS, _CODAS))) for _ in range(dice.choice((2, 2, 3))))
    return "".join(syllables).capitalize()


def _often_the_first(dice: random.Random, names: list[str]) -> str:
    return names[int(len(names) * dice.random() ** 3)]
