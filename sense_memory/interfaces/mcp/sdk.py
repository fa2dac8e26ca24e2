"""A `MemoryServer` as a server of the MCP SDK, on its 1.x and its 2.x line.

The low-level server of each line takes a handler for each request. The handlers are the same; the lines differ in how a
handler is given, and in the class of an error. Requests and results cross this border as the protocol's JSON, which both
lines read and write.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sense_memory import __version__
from sense_memory.errors import MissingExtra
from sense_memory.interfaces.mcp.server import INSTRUCTIONS, UnknownName


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.interfaces.mcp.server import MemoryServer

_NAME: Final = "sense-memory"
_INVALID_PARAMS: Final = -32602
_INTERNAL_ERROR: Final = -32603


def sdk_server(offers: MemoryServer) -> Any:
    """The SDK's low-level server with these offers.

    Raises:
        MissingExtra: the SDK is not installed.
    """
    try:
        from mcp.server.lowlevel import Server
    except ImportError:
        raise MissingExtra("mcp") from None
    options: dict[str, Any] = {"version": __version__, "instructions": INSTRUCTIONS}
    if not hasattr(Server, "list_tools"):  # 2.x
        handlers = {_snake(name): partial(_answer_2, offers, name) for name in offers.methods}
        return Server(_NAME, **options, **handlers)
    from mcp import types

    server = Server(_NAME, **options)
    for name in offers.methods:
        server.request_handlers[getattr(types, f"{name}Request")] = partial(_answer_1, offers, name)
    return server


def _snake(name: str) -> str:
    """ListTools as on_list_tools."""
    return "on" + "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


async def _answer_1(offers: MemoryServer, name: str, request: Any) -> Any:
    from mcp import types
    from mcp.shared.exceptions import McpError

    try:
        result = await offers.methods[name](_json(request.params))
    except Exception as error:  # also a bug: a client must not wait in vain
        raise McpError(types.ErrorData(code=_code(error), message=offers.problem(name, error))) from None
    return types.ServerResult(getattr(types, f"{name}Result").model_validate(result))


async def _answer_2(offers: MemoryServer, name: str, _context: Any, params: Any) -> Any:
    from mcp import types
    from mcp.shared.exceptions import MCPError

    try:
        result = await offers.methods[name](_json(params))
    except Exception as error:  # also a bug: a client must not wait in vain
        raise MCPError(_code(error), offers.problem(name, error)) from None
    return getattr(types, f"{name}Result").model_validate(result)


def _json(params: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {} if params is None else params.model_dump(mode="json", by_alias=True)
    return found


def _code(error: Exception) -> int:
    return _INVALID_PARAMS if isinstance(error, UnknownName) else _INTERNAL_ERROR
