"""Routes from async functions: the signature says what a request may have, and is checked before the call."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from sense_memory.errors import InvalidInput, SenseMemoryError
from sense_memory.interfaces.json_answers import bug, json_answer, problem
from sense_memory.interfaces.shapes import shape_of
from sense_memory.mind.agent_tool import Access, arguments_of, problems


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    _Handler = Callable[[Request], Awaitable[Response]]

_Function = TypeVar("_Function", bound="Callable[..., Awaitable[Any]]")
_ROUTE: Final = "http_route"
_log: Final = logging.getLogger("sense_memory.http_api")


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One route.

    Attributes:
        name: of the call.
        method: of HTTP. GET and DELETE take their arguments from the query, the others from a JSON object.
        path: of the URL.
        access: what the call may do.
        function: the call, an async function that takes the arguments by name.
    """

    name: str
    method: str
    path: str
    access: Access
    function: Callable[..., Awaitable[Any]]

    @property
    def has_query(self) -> bool:
        """Whether the arguments are in the query."""
        return self.method in {"GET", "DELETE"}

    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return arguments_of(_plain(self.function))[1]

    def handler(self) -> _Handler:
        """What answers a request: the shape of what the call gives, or an error."""

        async def answer(request: Request) -> Response:
            try:
                given = self._of_query(request) if self.has_query else await _of_body(request)
                return json_answer(shape_of(await self.function(**self._checked(given))))
            except SenseMemoryError as error:
                return problem(error)
            except Exception as error:
                return bug(error, self.name, _log)

        return answer

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        model, _ = arguments_of(_plain(self.function))
        try:
            checked = model.model_validate(given)
        except ValidationError as error:
            raise InvalidInput(f"{problems(error)}; nothing was done") from None
        return {name: getattr(checked, name) for name in checked.model_fields_set}

    def _of_query(self, request: Request) -> dict[str, Any]:
        """The arguments of a query: a list is repeated (`within=palace&within=flat`), all else stands once."""
        properties, found = self.schema()["properties"], dict[str, Any]()
        for name in request.query_params:
            kind, texts = properties.get(name, {}).get("type"), request.query_params.getlist(name)
            if kind == "array":
                found[name] = texts
            elif len(texts) > 1:
                raise InvalidInput(f"`{name}` is there {len(texts)} times; nothing was done")
            else:
                found[name] = _value(texts[0], kind)
        return found


def route(method: str, path: str, access: Access) -> Callable[[_Function], _Function]:
    """Makes a route of a method: `routes_of` finds it."""

    def mark(function: _Function) -> _Function:
        setattr(function, _ROUTE, (method, path, access))
        return function

    return mark


def routes_of(calls: object) -> list[ApiRoute]:
    """The routes among the methods of an object, or of a class, in the order of their definition."""
    kind = calls if isinstance(calls, type) else type(calls)
    marked = {name: getattr(item, _ROUTE) for name, item in vars(kind).items() if hasattr(item, _ROUTE)}
    return [
        ApiRoute(name, method, path, access, getattr(calls, name))
        for name, (method, path, access) in marked.items()
    ]


async def _of_body(request: Request) -> dict[str, Any]:
    try:
        found = orjson.loads(await request.body())
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("the body must be a JSON object; nothing was done")
    return found


def _value(text: str, kind: str | None) -> Any:
    """A text of a query as JSON has it; what is not of its kind stays a text, and is refused with a reason."""
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if kind in {"integer", "number"}:
        try:
            return int(text) if kind == "integer" else float(text)
        except ValueError:
            return text
    return text


def _plain(function: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = inspect.unwrap(getattr(function, "__func__", function))
    return found
