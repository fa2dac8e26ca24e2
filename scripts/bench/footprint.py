"""The memory of an open store. Each figure comes from a fresh process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import child
from .figure import Figure, Rule
from .raw_socket import RawSocket
from .stage import in_turn


if TYPE_CHECKING:
    from .stage import Stage


def measure(stage: Stage) -> list[Figure]:
    """The figure of an open store."""
    stage.say(f"memory of an open store, {stage.count:,}")
    value, floor = in_turn(
        stage.repeat,
        lambda: child.asked("opened", stage.filled(), stage.seed),
        lambda: child.asked("plain", stage.filled(), stage.seed),
    )
    return [
        Figure(
            f"memory of an open store, {stage.count:,} decoded",
            "MB",
            value,
            floor,
            "the same texts in a dict, the same imports",
            Rule.AT_MOST,
            _limit(stage.count),
        )
    ]


def restoring(stage: Stage) -> Figure:
    """The most memory that a restore takes."""
    stage.say(f"memory of a restore, {stage.count:,}")
    with child.running("relay", stage.path("relay"), stage.port) as url:
        with RawSocket(url) as connection:
            connection.publish(stage.events)
        value = child.asked("restored", stage.path("restored"), stage.seed, url)
    return Figure(
        f"memory of a restore, {stage.count:,}, peak",
        "MB",
        value,
        child.asked("plain", stage.filled(), stage.seed),
        "the same texts in a dict, the same imports",
        Rule.AT_MOST,
        min(_limit(stage.count), 198.0 * max(1.0, stage.count / 100_000)),
    )


def _limit(count: int) -> float:
    """The allowed MB, at 10,000 and at 100,000 memories; in proportion beyond."""
    return 120.0 if count <= 10_000 else 700.0 * max(1.0, count / 100_000)
