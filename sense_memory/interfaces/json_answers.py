"""Answers of the HTTP servers: JSON that nobody stores, and the status of an error, the same in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response

from sense_memory.errors import InvalidInput, LedgerBusy, NotSynced, SenseMemoryError
from sense_memory.relay import silent_traceback


if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

RETRY_SECONDS: Final = 5  # after an answer that may be another soon
_STATUSES: Final[tuple[tuple[type[SenseMemoryError], int], ...]] = (  # the first that fits
    (NotSynced, 503),
    (LedgerBusy, 503),
    (InvalidInput, 400),
    (SenseMemoryError, 409),
)


class NotHere(SenseMemoryError):
    """There is no such memory."""


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that nobody stores."""
    return Response(
        orjson.dumps(content), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json"
    )


def error_answer(
    status: int, kind: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """An error as `--json` prints it; `more` stands beside it."""
    return json_answer({"error": {"type": kind, "message": message}, **more}, status, headers)


def problem(error: SenseMemoryError, **more: Any) -> Response:
    """The answer to a request that failed: 404 nothing there, 503 try again later, 400 never, 409 not as it is now."""
    if isinstance(error, NotHere):
        return error_answer(404, "NotFound", str(error), **more)
    status = next(status for kind, status in _STATUSES if isinstance(error, kind))
    later = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    return error_answer(status, type(error).__name__, str(error), later, **more)


def bug(error: Exception, name: str, log: logging.Logger) -> Response:
    """The answer to a request that failed because of a bug; its message may quote a memory, and is neither shown nor logged."""
    log.error("%s failed because of a bug\n%s", name, silent_traceback(error))
    return error_answer(
        500, "Bug", f"{name} failed because of a bug ({type(error).__name__}); the terminal shows where"
    )
