"""The cost of a look over a whole palace, ten times larger than elsewhere: the states of all memories, and a report.

Then a look over a palace of few words, in which many memories are suspected to contradict each other.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from sense_memory import MemoryStore, PersonaMemory
from sense_memory.palace import Columns, introspect

from .figure import Figure, Rule
from .stage import in_turn


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory import MemoryFields

    from .stage import Stage

_NOW: Final = 1_775_000_000.0
_DAY: Final = 86_400.0
_VOCABULARY_COUNT: Final = 60
_DOMAINS: Final = ("self", "people", "projects", "world", "skills")
_FACETS: Final = ("facts", "beliefs", "decisions", "procedures", "emotions")
_THEMES: Final = [f"theme-{number}" for number in range(500)]


def measure(stage: Stage) -> list[Figure]:
    """The figures of introspection."""
    stage.say(f"a palace of {10 * stage.count:,}")
    palace = _palace(stage)
    plain = [memory.changed(themes=()) for memory in palace]
    return [
        _states(stage, palace),
        _report(stage, plain, "without themes", 1.0),
        _report(stage, palace, "all", 2.0),
        asyncio.run(_few_words(stage)),
    ]


def _states(stage: Stage, palace: Sequence[PersonaMemory]) -> Figure:
    stage.say("the state of everybody")
    columns = Columns.of(palace)
    ages = np.linspace(-20.0, 0.0, len(palace))
    value, floor = in_turn(
        max(stage.repeat, 5),
        lambda: _time(lambda: columns.states(_NOW)),
        lambda: _time(lambda: np.exp2(ages)),
    )
    return Figure(
        f"states of {len(palace):,} memories",
        "ms",
        value * 1e3,
        floor * 1e3,
        "one exp2 over as many numbers",
        Rule.AT_MOST,
        20.0,
    )


def _report(stage: Stage, palace: Sequence[PersonaMemory], which: str, limit: float) -> Figure:
    stage.say(f"introspection, {which}")
    value, floor = in_turn(
        stage.repeat, lambda: _time(lambda: introspect(palace, _NOW)), lambda: _time(lambda: _touch(palace))
    )
    return Figure(
        f"introspect {len(palace):,} memories, {which}",
        "s",
        value,
        floor,
        "a loop that reads three fields of each",
        Rule.AT_MOST,
        limit * max(1.0, len(palace) / 100_000),
    )


async def _few_words(stage: Stage) -> Figure:
    stage.say(f"introspection, {_VOCABULARY_COUNT} words")
    dice = random.Random(stage.seed)  # noqa: S311 - texts, not secrets
    syllables = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
    words = ["".join(dice.choices(syllables, k=3)) for _ in range(_VOCABULARY_COUNT)]

    def said() -> str:
        one, two, three, four = dice.choices(words, k=4)
        return f"{one} likes {two} and {three} is {four}"

    names = ("domain", "facet", "key", "value")
    new = [dict(zip(names, ("projects", "facts", f"k-{n}", said()), strict=True)) for n in range(stage.count)]
    path = stage.path("few-words")
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        await store.palace.remember_many(cast("list[MemoryFields]", new))
    async with MemoryStore(stage.signer, ledger=path, background=False) as store:
        await store.persona_stats()
        begun = time.process_time()
        await store.persona_introspect()
        seconds = time.process_time() - begun
    return Figure(
        f"introspect {stage.count:,} memories of {_VOCABULARY_COUNT} words",
        "s",
        seconds,
        0.001 * stage.count / 1_000,
        "a microsecond for each memory",
        Rule.AT_MOST,
        2.0 * max(1.0, stage.count / 10_000),
    )


def _touch(palace: Sequence[PersonaMemory]) -> int:
    return sum(len(memory.key) + len(memory.connections) + len(memory.contradicts) for memory in palace)


def _palace(stage: Stage) -> list[PersonaMemory]:
    """Memories of every age, some connected, some contradicted, most with themes."""
    dice = random.Random(stage.seed)  # noqa: S311 - texts, not secrets
    count = 10 * stage.count
    base = PersonaMemory(
        domain="self",
        facet="facts",
        key="x",
        value=stage.pairs[0][1][:200],
        created_at=_NOW,
        last_accessed=_NOW,
        last_reinforced=_NOW,
    )
    names = [f"{_DOMAINS[i % 5]}/{_FACETS[i // 5 % 5]}/insight-{i:06}" for i in range(count)]
    found = []
    for name in names:
        domain, facet, key = name.split("/")
        age = dice.random() * 120 * _DAY
        found.append(
            base.changed(
                domain=domain,
                facet=facet,
                key=key,
                created_at=_NOW - age,
                last_accessed=_NOW - age * dice.random(),
                last_reinforced=_NOW - age,
                confidence=dice.choice((1.0, 1.0, 0.4)),
                themes=tuple(dice.choices(_THEMES, k=dice.randrange(6))),
                connections=tuple(dice.choices(names, k=dice.choice((0, 0, 1, 3)))),
                contradicts=(dice.choice(names),) if dice.random() < 0.02 else (),
            )
        )
    return found


def _time(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
