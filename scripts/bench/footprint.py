"""What an open store takes of the machine's memory. Each figure comes from a fresh process."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from . import child
from .figure import Figure, Rule
from .raw_ledger import bodies
from .raw_socket import RawSocket


if TYPE_CHECKING:
    from .stage import Stage

_LIMITS_MB = {10_000: 120.0, 100_000: 700.0}


def measure(stage: Stage) -> list[Figure]:
    """The figure of an open store."""
    stage.say(f"memory of an open store, {stage.count:,}")
    path = stage.filled()
    value = statistics.median(child.asked("opened", path, stage.seed) for _ in range(stage.repeat))
    floor = statistics.median(child.asked("plain", path, stage.seed) for _ in range(stage.repeat))
    limit = next((limit for count, limit in _LIMITS_MB.items() if stage.count <= count), 0.0)
    return [
        Figure(
            f"memory of an open store, {stage.count:,} decoded",
            "MB",
            value,
            floor,
            "the same texts in a dict, the same imports",
            Rule.AT_MOST if limit else Rule.NONE,
            limit,
        )
    ]


def restoring(stage: Stage) -> Figure:
    """The most memory that a restore takes."""
    stage.say(f"memory of a restore, {stage.count:,}")
    filled = stage.filled()
    with child.running("relay", stage.path("relay"), stage.port) as url:
        with RawSocket(url) as connection:
            connection.publish(bodies(filled))
        value = child.asked("restored", stage.path("restored"), stage.seed, url)
    return Figure(
        f"memory of a restore, {stage.count:,}, peak",
        "MB",
        value,
        child.asked("plain", filled, stage.seed),
        "the same texts in a dict, the same imports",
    )
