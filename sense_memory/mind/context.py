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
from sense_memory.mind.prompts.budget import Line, Part, fitted
from sense_memory.palace import estimated_tokens
from sense_memory.plain_text import label, one_line, without_headings


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.mind.log import LogEntry

VISITOR_KIND: Final = "user.injected"
VISITOR_COUNT: Final = 3
MAX_LINE_CHARS: Final = 600  # of one entry in a prompt
_LAYERS: Final = ("IDENTITY", "CURRENT SCENE", "YOUR MEMORY", "VISITOR", "EXTRA", "OUTPUT FORMAT")
_HEADINGS: Final = frozenset(_LAYERS)
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
        texts = {
            name: without_headings(text, _HEADINGS)
            for name, text in zip(_LAYERS, (identity, scene, "", "", extra, output_format), strict=True)
        }
        parts = {name: _part(name, (Line(text),) if text else ()) for name, text in texts.items()}
        left = self.budget
        for name in ("IDENTITY", "CURRENT SCENE", "OUTPUT FORMAT"):
            left -= self._cost(parts[name])
        if left < 0:
            raise InvalidInput(
                f"identity, scene and output format alone take {self.budget - left:,} tokens of {self.budget:,}; raise the budget"
            )
        visitors = [entry for entry in entries if entry.kind == VISITOR_KIND][-VISITOR_COUNT:]
        seen = {entry.id for entry in visitors}
        chosen = [entry for entry in memory(entries) if entry.id not in seen]
        for name, listed in (("VISITOR", visitors), ("YOUR MEMORY", chosen)):
            lines = tuple(Line(line(entry), entry.id) for entry in listed)
            parts[name] = fitted(
                _part(name, lines, keeps_last=True), left - _BREAK_TOKENS, self.count_tokens
            ).part
            left -= self._cost(parts[name])
        if self._cost(parts["EXTRA"]) > left:
            parts["EXTRA"] = _part("EXTRA", ())
        text = "\n\n".join(part.text for part in parts.values() if part.lines)
        kept = {item.ident for part in parts.values() for item in part.lines}
        known = {entry.id: entry for entry in (*chosen, *visitors) if entry.id in kept}
        shown = tuple(sorted(known.values(), key=lambda entry: (entry.at, entry.id)))
        return Context(text, self.count_tokens(text), shown, len(chosen) + len(visitors) - len(shown))

    def _cost(self, part: Part) -> int:
        return self.count_tokens(part.text) + _BREAK_TOKENS if part.lines else 0


def _part(name: str, lines: tuple[Line, ...], *, keeps_last: bool = False) -> Part:
    return Part(name, lines, name, keeps_last=keeps_last)


def line(entry: LogEntry) -> str:
    """An entry as one line of a prompt: turn, actor and kind, then its text, cut and without line breaks."""
    text = one_line(entry.text)
    text = text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
    when = "" if entry.turn is None else f"turn {entry.turn}, "
    return f"{label(f'{when}{entry.actor}, {entry.kind}')} {text}"
