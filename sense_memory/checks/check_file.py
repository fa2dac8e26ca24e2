r"""The file of checks: lines that a person reads aloud. Pure.

    # Comments, and blank lines, are for people.
    asked "Where does Lisa live?"
      must find "Lisbon"
      must find "Lisbon" in the first 3
      must not find "Berlin"
      must put "Lisbon" into a prompt
      must not put "ignore previous" into a prompt
      at most 800 tokens
    as of 2026-11-01
    asked "Who leads the guild?"
      must find "Ada"
    as of now

`asked` begins a check, and the lines below it say what is expected of its answer; before the first `asked` they are about a
prompt without a question. `as of` holds for the checks below it. Texts are compared without regard to case; a `\\"` in a text is
a quote.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sense_memory.errors import InvalidInput


MAX_FILE_BYTES: Final = 1_000_000
FOUND_COUNT: Final = 10  # hits that `must find` looks at
_TEXT: Final = r'("(?:[^"\\]|\\.)*")'
_asked = re.compile(rf"asked {_TEXT}").fullmatch
_as_of = re.compile(r"as of (.+)").fullmatch
_find = re.compile(rf"must (not )?find {_TEXT}(?: in the first (\d+))?").fullmatch
_put = re.compile(rf"must (not )?put {_TEXT} into a prompt").fullmatch
_tokens = re.compile(r"at most ([\d,_]+) tokens").fullmatch
_HOW: Final = (
    'asked "…", must find "…", must find "…" in the first 3, must not find "…", must put "…" into a prompt, '
    'must not put "…" into a prompt, at most 800 tokens, as of 2026-11-01'
)


class Demand(StrEnum):
    """What a line expects."""

    FIND = "must find"
    NOT_FIND = "must not find"
    PUT = "must put into a prompt"
    NOT_PUT = "must not put into a prompt"
    TOKENS = "at most tokens"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of a check.

    Attributes:
        wanted: what it expects.
        text: the words; empty for a number of tokens.
        count: among how many hits, or the number of tokens.
        line: its number in the file, from 1.
    """

    wanted: Demand
    text: str
    count: int
    line: int

    @property
    def told(self) -> str:
        """The line as a person wrote it, without what is a default."""
        shown = json.dumps(self.text, ensure_ascii=False)
        match self.wanted:
            case Demand.TOKENS:
                return f"at most {self.count:,} tokens"
            case Demand.FIND | Demand.NOT_FIND:
                first = "" if self.count == FOUND_COUNT else f" in the first {self.count}"
                return f"{self.wanted} {shown}{first}"
        return f"{self.wanted.removesuffix(' into a prompt')} {shown} into a prompt"


@dataclass(frozen=True, slots=True)
class MemoryCheck:
    """A question, and what is expected of its answer.

    Attributes:
        question: what is asked; empty for a prompt without a question.
        when: the time that the check is about, as the file says it; empty for now.
        expected: the lines, in their order.
        line: of the question, from 1.
    """

    question: str
    when: str
    expected: tuple[Expectation, ...]
    line: int


def parsed(text: str) -> tuple[MemoryCheck, ...]:
    """The checks of a file, in their order.

    Raises:
        InvalidInput: a line cannot be read, or there is nothing to check; names the line.
    """
    found: list[MemoryCheck] = []
    question, when, start, lines = "", "", 1, list[Expectation]()

    def end() -> None:
        if lines:
            found.append(MemoryCheck(question, when, tuple(lines), start))
            lines.clear()

    for number, raw in enumerate(text.splitlines(), 1):
        line = " ".join(raw.split()) if '"' not in raw else raw.strip()
        if not line or line.startswith("#"):
            continue
        if asked := _asked(line):
            end()
            question, start = _said(asked[1], number), number
        elif as_of := _as_of(line):
            end()
            question, when, start = "", "" if as_of[1].strip() == "now" else as_of[1].strip(), number
        else:
            lines.append(_expectation(line, number))
            if not question and lines[-1].wanted in {Demand.FIND, Demand.NOT_FIND}:
                raise InvalidInput(f'line {number} needs a question above it: asked "…"')
    end()
    if not found:
        raise InvalidInput(f"the file has no checks; a line is one of: {_HOW}")
    return tuple(found)


def _expectation(line: str, number: int) -> Expectation:
    if found := _find(line):
        wanted = Demand.NOT_FIND if found[1] else Demand.FIND
        count = int(found[3]) if found[3] else FOUND_COUNT
        if not 1 <= count <= FOUND_COUNT:
            raise InvalidInput(f"line {number}: look among the first 1 to {FOUND_COUNT} hits")
        return Expectation(wanted, _said(found[2], number), count, number)
    if put := _put(line):
        return Expectation(Demand.NOT_PUT if put[1] else Demand.PUT, _said(put[2], number), 0, number)
    if tokens := _tokens(line):
        return Expectation(Demand.TOKENS, "", int(re.sub(r"[,_]", "", tokens[1])), number)
    raise InvalidInput(f"line {number} cannot be read: {line[:80]!r}; a line is one of: {_HOW}")


def _said(quoted: str, number: int) -> str:
    try:
        text = json.loads(quoted, strict=False)
    except ValueError:
        text = ""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"line {number}: a text must not be empty")
    return text
