"""Relays: connections, synchronisation, the embedded relay, and the log `sense_memory.relay`.

The log never contains a plaintext, a key or a text of a relay. An unexpected exception is therefore logged with its type
and the lines that raised it, but without its message, which may quote any of these.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator


log: Final = logging.getLogger("sense_memory.relay")


def log_fault(url: str, error: BaseException) -> str:
    """Log an unexpected exception; returns the sentence for a report."""
    log.error("%s: unexpected %s; will try again\n%s", url, _name(error), silent_traceback(error))
    return f"stopped by a bug in sense-memory ({_name(error)}); the log has the traceback"


def silent_traceback(error: BaseException) -> str:
    """The tracebacks of an exception and of its causes, the first cause first, without their messages."""
    return "".join(_traces(error))


def _name(error: BaseException) -> str:
    return type(error).__name__


def _traces(error: BaseException | None) -> Iterator[str]:
    if error is None:
        return
    yield from _traces(error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{_name(error)}\n"
