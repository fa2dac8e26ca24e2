"""The OpenAPI document of the HTTP API: requests from the signatures of the calls, answers from the declared shapes."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from sense_memory import __version__
from sense_memory.interfaces.http_api.calls import ApiCalls
from sense_memory.interfaces.http_api.routes import routes_of
from sense_memory.interfaces.shapes.schema import component, json_schema, things


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sense_memory.interfaces.http_api.routes import ApiRoute
    from sense_memory.interfaces.shapes.schema import ThingSchema

EVENTS_PATH: Final = "/v1/events"
DOCUMENT_PATH: Final = "/v1/openapi.json"
_ERROR: Final = {
    "type": "object",
    "description": "Why a request failed.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "description": "the name of the error"},
                "message": {"type": "string", "description": "a sentence that says what to do"},
            },
            "required": ["type", "message"],
        }
    },
    "required": ["error"],
}
_FAILURES: Final = {
    "400": "The request cannot be used; nothing was done.",
    "401": "The token is missing or wrong.",
    "403": "The server was started without this right, or a page of another origin asked.",
    "404": "There is no such memory here.",
    "409": "The memory cannot do this now; the message says why.",
    "413": "The body is too large.",
    "503": "Try again later: no relay has shown everything yet, so the memory may be elsewhere, another process has locked the ledger, or too many streams are open.",
}
_EVENTS: Final = {
    "operationId": "events",
    "summary": "Changes as they arrive, as server-sent events.",
    "description": "`hello` first, then a `change` for each memory or journal entry that changed, with the fields of a change; `missed` where changes were lost on the way: read everything again; `problem` before the stream ends with an error. A comment every 15 seconds keeps the stream open. 16 can be open at once.",
    "responses": {
        "200": {
            "description": "The stream.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **{code: {"$ref": f"#/components/responses/Error{code}"} for code in ("401", "403", "503")},
    },
}
_references = re.compile(r"#/components/schemas/(\w+)").findall


def document() -> dict[str, Any]:
    """The document, in OpenAPI 3.1."""
    routes = routes_of(ApiCalls)
    paths: dict[str, dict[str, Any]] = {}
    for one in routes:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    paths[EVENTS_PATH] = {"get": _EVENTS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sense-memory",
            "version": __version__,
            "description": "The memory of an agent, for programs of this machine: `sense-memory api`. See docs/http-api.md.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "http://127.0.0.1:8766"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {f"Error{code}": _failure(text) for code, text in _FAILURES.items()},
            "schemas": {"Error": _ERROR, **_schemas(paths)},
        },
    }


def _operation(one: ApiRoute) -> dict[str, Any]:
    summary, _, rest = (inspect.getdoc(one.function) or "").partition("\n\n")
    answer = json_schema(get_type_hints(one.function)["return"])
    failures = {code: {"$ref": f"#/components/responses/Error{code}"} for code in _FAILURES}
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": " ".join(summary.split()),
        **({"description": " ".join(rest.split())} if rest else {}),
        "responses": {"200": {"description": "Done.", "content": _json(answer)}, **failures},
    }
    if one.has_query:
        found["parameters"] = list(_parameters(one.schema()))
    else:
        found["requestBody"] = {"required": True, "content": _json(one.schema())}
    return found


def _failure(description: str) -> dict[str, Any]:
    return {"description": description, "content": _json({"$ref": "#/components/schemas/Error"})}


def _parameters(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, part in schema["properties"].items():
        described = dict(part)
        yield {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": described.pop("description", ""),
            "schema": described,
        }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _schemas(paths: Mapping[str, Any]) -> dict[str, Any]:
    """The things that the answers have, and those that these name, by the names of their components."""
    known = {component(thing.name): thing for thing in things()}
    found: dict[str, Any] = {}
    wanted = set(_references(repr(paths)))
    while wanted:
        name = wanted.pop()
        found[name] = _schema(known[name])
        wanted |= set(_references(repr(found[name]))) - set(found)
    return dict(sorted(found.items()))


def _schema(thing: ThingSchema) -> dict[str, Any]:
    properties = {
        field.name: {**field.schema, **({} if "$ref" in field.schema else {"description": field.meaning})}
        for field in thing.fields
    }
    return {
        "type": "object",
        "description": thing.summary,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
