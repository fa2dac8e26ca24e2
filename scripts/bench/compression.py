"""The cost of a palace in a prompt: tokens against a plain listing, key facts that survive, and the time.

The palace is that of the tests, 200 memories with labelled facts; the time is measured with the memories of the run. Facts
in 500 tokens are counted with real tokenizers, for both styles and for a naive listing: the texts as they are under short
headers, without any key, the most relevant first, and as many as fit.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory import PersonaMemory
from sense_memory.mind import tokenizer
from sense_memory.palace import Columns, compress, estimated_tokens

from .figure import Figure, Rule
from .stage import in_turn


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .stage import Stage

_NOW: Final = 1_775_000_000.0
_DAY: Final = 86_400.0
_PALACE: Final = Path(__file__).parents[2] / "tests" / "palace" / "palace_200.jsonl"
_ALL_TOKENS: Final = 100_000
_BUDGET: Final = 500
_ENCODINGS: Final = ("cl100k_base", "o200k_base")
# Brackets cost some 4 tokens more per facet than a heading; keys cost what a listing without them saves, and tell whom a
# memory is about.
_BRACKETED, _PLAIN = 0.95, 0.87
_LIMIT_MS: Final = 50.0


def measure(stage: Stage) -> list[Figure]:
    """The figures of compression."""
    stage.say("a palace of 200 in a prompt")
    rows = [json.loads(row) for row in _PALACE.read_text(encoding="utf-8").splitlines()]
    items = _palace(rows, len(rows))
    return [
        _tokens(items),
        _facts(rows, items, _ALL_TOKENS, "all"),
        _facts(rows, items, 500, "in 500 tokens"),
        *(figure for name in _ENCODINGS for figure in _in_500(rows, items, name, tokenizer(name))),
        _time(stage, _palace(rows, stage.count)),
    ]


def _tokens(items: Sequence[PersonaMemory]) -> Figure:
    listing = "\n".join(f"{item.path}: {item.value}" for item in items)
    shown = compress(items, _NOW, max_tokens=_ALL_TOKENS)
    floor = float(estimated_tokens(listing))
    return Figure(
        "a palace of 200, all of it", "tokens", float(shown.tokens), floor, "plain listing", Rule.RATIO, 0.87
    )


def _facts(rows: Sequence[Any], items: Sequence[PersonaMemory], max_tokens: int, which: str) -> Figure:
    shown = compress(items, _NOW, max_tokens=max_tokens)
    text = _plain(shown)
    facts = [fact for row in rows if row["path"] in set(shown.included) for fact in row["facts"]]
    kept = sum(_stands(fact, text) for fact in facts)
    return Figure(
        f"key facts that survive, {which}",
        "%",
        100.0 * kept / len(facts),
        float(len(facts)),
        f"facts of {len(shown.included)} memories",
        Rule.AT_LEAST,
        95.0,
    )


def _in_500(
    rows: Sequence[Any], items: Sequence[PersonaMemory], name: str, count: Callable[[str], int]
) -> list[Figure]:
    """Key facts that can be read in 500 tokens, and the tokens of all memories, in both styles against sentences."""
    facts = {row["path"]: [*row["facts"], *_subject(row)] for row in rows}

    def held(text: str, paths: Sequence[str]) -> float:
        lines = _plain(text)
        return float(sum(_stands(fact, lines) for path in paths for fact in facts[path]))

    listed: list[PersonaMemory] = []
    for item in sorted(items, key=lambda item: (-item.created_at, item.path)):
        listed = [*listed, item] if count(_naive([*listed, item])) <= _BUDGET else listed
    naive = held(_naive(listed), [item.path for item in listed])
    said = compress(items, _NOW, max_tokens=_BUDGET, count=count, style="plain")
    short = compress(items, _NOW, max_tokens=_BUDGET, count=count)
    plain, brief = held(said, said.included), held(short, short.included)
    every = compress(items, _NOW, max_tokens=_ALL_TOKENS, count=count, style="plain")
    whole = compress(items, _NOW, max_tokens=_ALL_TOKENS, count=count)
    return [
        Figure(
            f"memories in 500 tokens, bracketed, {name}",
            "memories",
            float(len(short.included)),
            float(len(listed)),
            f"no keys; plain: {len(said.included)}",
            Rule.AT_LEAST,
            float(len(said.included) - 1),
        ),
        Figure(
            f"facts in 500 tokens, bracketed, {name}",
            "facts",
            brief,
            plain,
            "plain",
            Rule.AT_LEAST,
            _BRACKETED * plain,
        ),
        Figure(
            f"facts in 500 tokens, plain, {name}",
            "facts",
            plain,
            naive,
            "no keys",
            Rule.AT_LEAST,
            _PLAIN * naive,
        ),
        Figure(
            f"all of it, bracketed, {name}", "tokens", whole.tokens, every.tokens, "plain", Rule.RATIO, 1.01
        ),
    ]


def _subject(row: Any) -> list[str]:
    """The person or project that a memory is about, if only its key says so: it is a fact too."""
    domain, _, key = row["path"].split("/")
    name = key.partition("-")[0]
    is_hidden = domain in {"people", "projects"} and name not in _plain(row["value"])
    return [name] if is_hidden else []


def _naive(items: Sequence[PersonaMemory]) -> str:
    sections: dict[str, list[str]] = {}
    for item in items:
        sections.setdefault(f"# {item.domain} {item.facet}", []).append(item.value)
    return "\n".join("\n".join((head, *values)) for head, values in sections.items())


def _stands(fact: str | list[str], text: str) -> bool:
    if isinstance(fact, list):
        return any(_stands(one, text) for one in fact)
    words = [re.escape(_plain(side)) for side in fact.split(" > ")]
    return re.search(r".{0,24}?(?:>|over|instead of|rather than).{0,8}?".join(words), text) is not None


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub("[-_]", " ", text.lower()))


def _time(stage: Stage, items: Sequence[PersonaMemory]) -> Figure:
    stage.say("compression, the default budget")
    relevances = Columns.of(items).relevances(_NOW)
    value, floor = in_turn(
        max(stage.repeat, 5),
        lambda: _seconds(lambda: compress(items, _NOW, relevances=relevances)),
        lambda: _seconds(lambda: np.argsort(-relevances, kind="stable")),
    )
    return Figure(
        f"compress {len(items):,} memories, relevances known",
        "ms",
        value * 1e3,
        floor * 1e3,
        "sorting their relevances",
        Rule.AT_MOST,
        _LIMIT_MS * max(1.0, 3 * len(items) / 100_000),
    )


def _palace(rows: Sequence[Any], count: int) -> list[PersonaMemory]:
    """The rows, repeated under other keys, of every age below that of fading."""
    found = []
    for index in range(count):
        row = rows[index % len(rows)]
        domain, facet, key = row["path"].split("/")
        written = _NOW - index * 37 % 450 / 10 * _DAY
        found.append(
            PersonaMemory(
                domain=domain,
                facet=facet,
                key=key if index < len(rows) else f"{key}-{index}",
                value=row["value"],
                created_at=written,
                last_accessed=written,
                last_reinforced=written,
            )
        )
    return found


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
