"""What a store makes of checks: each line holds or does not, with the reason. Nothing is revived, and nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.checks.check_file import FOUND_COUNT, Demand, Expectation, MemoryCheck
from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.mind.prompts.prompt import Prompt
    from sense_memory.store import MemoryStore

PROMPT_TOKENS: Final = 8_000  # the budget of the prompt that a check looks at, as `mind prompt`
_SHOWN_CHARS: Final = 120
_SEARCHED: Final = ("palace", "journal", "flat")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether one line of a check holds.

    Attributes:
        check: the check.
        expected: the line.
        ok: whether it holds.
        why: what was there instead; empty if it holds.
    """

    check: MemoryCheck
    expected: Expectation
    ok: bool
    why: str = ""


async def outcomes(store: MemoryStore, checks: Iterable[MemoryCheck]) -> list[Outcome]:
    """Whether each line of some checks holds in a store, as it is. Times of the checks are the caller's business.

    Args:
        store: an open store.
        checks: what to check.

    Raises:
        NotSynced: there is nothing here, and no relay has shown everything yet.
    """
    found: list[Outcome] = []
    for check in checks:
        wanted = {one.wanted for one in check.expected}
        hits = await _hits(store, check.question) if wanted & {Demand.FIND, Demand.NOT_FIND} else []
        prompt = None
        if wanted - {Demand.FIND, Demand.NOT_FIND}:
            prompt = await store.mind.prompt(query=check.question, budget=PROMPT_TOKENS, revive=False)
        found += (_outcome(check, one, hits, prompt) for one in check.expected)
    return found


async def _hits(store: MemoryStore, question: str) -> list[str]:
    """The names and texts of the best hits: of the memories and of the mind, in turn."""
    if not question:
        return []
    memories = [
        f"{hit.path}: {hit.value}" for hit in await store.search(question, FOUND_COUNT, within=_SEARCHED)
    ]
    said = [hit.text for hit in await store.mind.search(question, FOUND_COUNT)] if store.has_mind() else []
    longest = range(max(len(memories), len(said)))
    both = (part[place] for place in longest for part in (memories, said) if place < len(part))
    return list(both)[: 2 * FOUND_COUNT]


def _outcome(check: MemoryCheck, one: Expectation, hits: Sequence[str], prompt: Prompt | None) -> Outcome:
    words = one.text.casefold()
    if one.wanted in {Demand.FIND, Demand.NOT_FIND}:
        shown = hits[: one.count if one.count < FOUND_COUNT else None]
        there = next((hit for hit in shown if words in hit.casefold()), None)
        if one.wanted is Demand.FIND:
            best = f"the best hit is {_short(hits[0])}" if hits else "nothing was found"
            return Outcome(check, one, there is not None, "" if there is not None else best)
        return Outcome(check, one, there is None, "" if there is None else f"found in {_short(there)}")
    text, tokens = ("", MAX_SAFE_INTEGER) if prompt is None else (prompt.text, prompt.report.tokens)
    if one.wanted is Demand.TOKENS:
        ok = tokens <= one.count
        return Outcome(check, one, ok, "" if ok else f"the prompt has {tokens:,} tokens")
    line = next((part for part in text.splitlines() if words in part.casefold()), None)
    is_there = line is not None or words in text.casefold()
    if one.wanted is Demand.PUT:
        return Outcome(check, one, is_there, "" if is_there else "it is not in the prompt")
    return Outcome(check, one, not is_there, f"in the line {_short(line or text)}" if is_there else "")


def _short(text: str) -> str:
    plain = one_line(text)
    return repr(plain if len(plain) <= _SHOWN_CHARS else f"{plain[:_SHOWN_CHARS]}…")
