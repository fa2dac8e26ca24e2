"""A figure: a measured value, its floor, its target, and whether the target was met. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Rule(Enum):
    """The kind of a target."""

    RATIO = "ratio at most"  # value ÷ floor
    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes:
        name: what was measured.
        unit: of value and floor: "s", "ms", "µs", "B", "MB", "%" or "/s".
        value: the median over the repetitions; where the name says "best", the best repetition.
        floor: the same of the floor.
        floor_name: what the floor does.
        rule: the kind of the target.
        limit: of the target: a ratio, or a number in `unit`.
    """

    name: str
    unit: str
    value: float
    floor: float
    floor_name: str
    rule: Rule
    limit: float

    @property
    def ratio(self) -> float:
        """The value as a multiple of the floor; for a rate, how many times slower it is than the floor."""
        above, below = (self.floor, self.value) if self.unit == "/s" else (self.value, self.floor)
        return above / below if below else 0.0

    @property
    def met(self) -> bool:
        """Whether the target was met."""
        match self.rule:
            case Rule.RATIO:
                return self.ratio <= self.limit
            case Rule.AT_MOST:
                return self.value <= self.limit
            case Rule.AT_LEAST:
                return self.value >= self.limit

    @property
    def target(self) -> str:
        """The target in short: `≤ 1.5x`, `≤ 30 µs`."""
        match self.rule:
            case Rule.RATIO:
                return f"≤ {self.limit:g}x"
            case Rule.AT_MOST:
                return f"≤ {amount(self.limit, self.unit)}"
            case Rule.AT_LEAST:
                return f"≥ {amount(self.limit, self.unit)}"

    def as_json(self) -> dict[str, Any]:
        """The figure as plain values."""
        return {
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "floor": self.floor,
            "floor_name": self.floor_name,
            "ratio": self.ratio,
            "target": self.target,
            "met": self.met,
        }


def amount(value: float, unit: str) -> str:
    """A number with its unit, to three digits or so: `0.812 s`, `5,512 /s`."""
    digits = 0 if value >= 100 or unit == "B" else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}"
