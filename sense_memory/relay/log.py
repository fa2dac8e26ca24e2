"""The log of replication, `sense_memory.relay`: what changes with a relay, and faults of this program.

Every line is in our words: no plaintext, no key, nothing that a relay said. So an unexpected exception is logged
with its type and the lines that raised it, and without its message, which may quote anything.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Final

from sense_memory.nostr.verdict import Outcome


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.relay.report import RelayReport

log: Final = logging.getLogger("sense_memory.relay")


def log_fault(url: str, error: BaseException) -> str:
    """Log an exception that nobody foresaw; returns what to say of it in a report."""
    log.error("%s: unexpected %s; it is tried again\n%s", url, _name(error), "".join(_traces(error)))
    return f"stopped by a fault of this program ({_name(error)}); the log has its traceback"


class RelayLog:
    """Logs what changes with one relay: each problem once, and its end.

    Args:
        url: the relay.
    """

    def __init__(self, url: str) -> None:
        self._url, self._state = url, ""

    def connected(self) -> None:
        """The relay was dialled."""
        log.info("%s: connected", self._url)

    def lost(self, problem: str) -> None:
        """The connection was found to be gone."""
        self._change(logging.WARNING, problem)

    def ended(self, report: RelayReport, rest: float) -> None:
        """A run of the background ended; the next begins after so many seconds, if it has to wait at all."""
        if count := report.sent.get(Outcome.REFUSED.value, 0):
            log.warning("%s: events refused: %d (%s)", self._url, count, ", ".join(report.reasons))
        self._change(*_state(report))
        if rest:
            log.info("%s: backing off for %.0f s", self._url, rest)

    def _change(self, level: int, state: str) -> None:
        if state and state != self._state:
            self._state = state
            log.log(level, "%s: %s", self._url, state)


def _state(report: RelayReport) -> tuple[int, str]:
    """How a relay stands after a run, and how loud that is; empty where nothing was asked of it."""
    if report.problem:
        return logging.WARNING, report.problem
    if not report.asked:
        return logging.INFO, ""
    if not report.complete:
        return logging.WARNING, f"incomplete: {', '.join(report.pulled.reasons)}"
    return logging.INFO, "in step" if report.in_step else "not in step: it does not hold everything yet"


def _name(error: BaseException) -> str:
    return type(error).__name__


def _traces(error: BaseException | None) -> Iterator[str]:
    """The tracebacks of an exception and of those behind it, the first cause first, without their messages."""
    if error is None:
        return
    yield from _traces(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{_name(error)}\n"
