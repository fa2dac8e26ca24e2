"""Answers of the page's API: JSON below a megabyte, lists in pieces, and errors as answers; and the numbers of a query."""

from __future__ import annotations

import logging
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
from starlette.responses import Response

from sense_memory.errors import InvalidInput, NotSynced, SenseMemoryError
from sense_memory.interfaces.json_answers import bug, json_answer, problem
from sense_memory.interfaces.shapes import shape_of


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request

    Handler = Callable[[Request], Awaitable[Any]]

_T = TypeVar("_T")
MAX_ANSWER_BYTES: Final = 700_000  # of one list; the rest of an answer is small
_log: Final = logging.getLogger("sense_memory.web")


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler whose errors are answers."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            found = await handler(request)
            return found if isinstance(found, Response) else json_answer(found)
        except SenseMemoryError as error:
            return problem(error)
        except Exception as error:
            return bug(error, request.url.path, _log)

    return answer


def bounded(rows: Iterable[bytes], start: int) -> tuple[list[orjson.Fragment], int | None]:
    """The first rows that fit an answer, at least one; and where the next piece starts, None at the end."""
    size, kept = 0, list[orjson.Fragment]()
    for row in rows:
        size += len(row) + 1
        if size > MAX_ANSWER_BYTES and kept:
            return kept, start + len(kept)
        kept.append(orjson.Fragment(row))
    return kept, None


def first_of(items: Iterable[Any]) -> list[orjson.Fragment]:
    """The first items of a list, at most about 200 KB."""
    rows, size = [], 0
    for item in items:
        row = orjson.dumps(shape_of(item))
        size += len(row)
        if size > MAX_ANSWER_BYTES // 4:
            break
        rows.append(orjson.Fragment(row))
    return rows


async def or_else(reading: Awaitable[_T], nothing: _T) -> _T:
    """What a read finds; `nothing` if no relay has ever been asked, which the page shows too."""
    try:
        return await reading
    except NotSynced:
        return nothing


def or_nothing(reading: Awaitable[list[Any]]) -> Awaitable[list[Any]]:
    """As `or_else`, for a list."""
    return or_else(reading, [])


def number_in(request: Request, name: str) -> float | None:
    """A number of the query; None where there is none.

    Raises:
        InvalidInput: it is not a number of at least 0.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 2**53:
        raise InvalidInput(f"{name} must be a number, 0 or more")
    return number


def whole_in(request: Request, name: str) -> int | None:
    """As `number_in`, for a whole number."""
    number = number_in(request, name)
    if number is not None and not number.is_integer():
        raise InvalidInput(f"{name} must be a whole number")
    return None if number is None else int(number)
