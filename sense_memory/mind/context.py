"""`ContextBuilder`: the layers of a prompt, in the order of the agent-ledger memory, within a budget of tokens. Pure.

    IDENTITY · CURRENT SCENE · YOUR MEMORY · VISITOR · EXTRA · OUTPUT FORMAT

Identity, scene and output format are never shortened. The rest of the budget goes to the last visitors' words, then to
memory, which loses its oldest entries first, then to the extra part. Text of the log is data: each entry is one line,
labelled with its turn, actor and kind. A line of another part that equals the name of a layer is indented, so a prompt
has only the layers that were built. Hidden characters are escaped (`plain_text`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.palace import estimated_tokens
from sense_memory.plain_text import label, one_line, without_headings


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.mind.log import LogEntry

VISITOR_KIND: Final = "user.injected"
VISITOR_COUNT: Final = 3
MAX_LINE_CHARS: Final = 600  # of one entry in a prompt
_HEADINGS: Final = frozenset(
    {"IDENTITY", "CURRENT SCENE", "YOUR MEMORY", "VISITOR", "EXTRA", "OUTPUT FORMAT"}
)
_BREAK_TOKENS: Final = 2  # the line breaks around a layer


@dataclass(frozen=True, slots=True)
class Context:
    """A built prompt.

    Attributes:
        text: the layers.
        tokens: the cost of the text, by `count_tokens`.
        entries: the entries in YOUR MEMORY and VISITOR, in the order of time.
        left_out: the number of chosen entries that did not fit.
    """

    text: str = field(repr=False)
    tokens: int
    entries: tuple[LogEntry, ...]
    left_out: int


@checked
@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds prompts.

    Attributes:
        budget: the largest number of tokens of a prompt.
        count_tokens: counts the tokens of a text; by default an estimate that errs upward.
    """

    budget: int
    count_tokens: Callable[[str], int] = estimated_tokens

    def build(
        self,
        entries: Sequence[LogEntry],
        *,
        identity: str,
        memory: Callable[[Sequence[LogEntry]], Sequence[LogEntry]],
        scene: str = "",
        extra: str = "",
        output_format: str = "",
    ) -> Context:
        """The prompt for an agent.

        Args:
            entries: the log, oldest first.
            identity: who the agent is.
            memory: chooses the entries of YOUR MEMORY, such as `EpisodicMemory("baker").visible`.
            scene: the current scene, in words.
            extra: an extra part, left out if it does not fit.
            output_format: how the model should answer.

        Raises:
            InvalidInput: identity, scene and output format alone exceed the budget.
        """
        identity, scene, extra, output_format = (
            without_headings(part, _HEADINGS) for part in (identity, scene, extra, output_format)
        )
        fixed = {"IDENTITY": identity, "CURRENT SCENE": scene, "OUTPUT FORMAT": output_format}
        left = self.budget - sum(self._cost(name, text) for name, text in fixed.items())
        if left < 0:
            raise InvalidInput(
                f"raise the budget: identity, scene and output format alone take {self.budget - left:,} tokens of "
                f"{self.budget:,}"
            )
        visitors = [entry for entry in entries if entry.kind == VISITOR_KIND][-VISITOR_COUNT:]
        seen = {entry.id for entry in visitors}
        chosen = [entry for entry in memory(entries) if entry.id not in seen]
        words, left = self._newest("VISITOR", visitors, left)
        kept, left = self._newest("YOUR MEMORY", chosen, left)
        has_extra = self._cost("EXTRA", extra) <= left
        layers = {
            "IDENTITY": identity,
            "CURRENT SCENE": scene,
            "YOUR MEMORY": "\n".join(map(line, kept)),
            "VISITOR": "\n".join(map(line, words)),
            "EXTRA": extra if has_extra else "",
            "OUTPUT FORMAT": output_format,
        }
        text = "\n\n".join(f"{name}\n{part}" for name, part in layers.items() if part)
        shown = tuple(sorted((*kept, *words), key=lambda entry: (entry.at, entry.id)))
        return Context(text, self.count_tokens(text), shown, len(chosen) + len(visitors) - len(shown))

    def _newest(self, name: str, entries: Sequence[LogEntry], left: int) -> tuple[list[LogEntry], int]:
        """The newest entries that fit, in the order of time, and the tokens that are left."""
        kept: list[LogEntry] = []
        left -= self._cost(name, "…")
        for entry in reversed(entries):
            cost = self.count_tokens(line(entry)) + 1
            if cost > left:
                break
            kept.append(entry)
            left -= cost
        return kept[::-1], left if kept else left + self._cost(name, "…")

    def _cost(self, name: str, text: str) -> int:
        return self.count_tokens(f"{name}\n{text}") + _BREAK_TOKENS if text else 0


def line(entry: LogEntry) -> str:
    """An entry as one line of a prompt: turn, actor and kind, then its text, cut and without line breaks."""
    text = one_line(entry.text)
    text = text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
    when = "" if entry.turn is None else f"turn {entry.turn}, "
    return f"{label(f'{when}{entry.actor}, {entry.kind}')} {text}"
