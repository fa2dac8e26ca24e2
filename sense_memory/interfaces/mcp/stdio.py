"""The stdio transport: lines of JSON-RPC on stdin and stdout, and nothing else on stdout.

While the server runs, descriptor 1 of the process is stderr and descriptor 0 is empty, so that a library that prints,
or a child process that reads, cannot disturb the protocol. A thread reads messages, because a read of stdin cannot be
cancelled; the event loop writes them, so that a client that does not read holds up nothing else. A message that is too
large, not JSON or not JSON-RPC is answered with an error here, because the SDK would not answer. If a message cannot
be parsed, its id is searched for in its first and last bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from sense_memory.limits import TURN_SECONDS


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

MAX_MESSAGE_BYTES: Final = 16 * 2**20
ANSWER_SECONDS: Final = 5.0  # for calls in progress when stdin ends
_READ_BYTES: Final = 2**16
_EDGE_BYTES: Final = 300  # where the id of a message is searched for
_WAITING_COUNT: Final = 64  # messages read ahead
_TOO_LARGE: Final = f"a message has at most {MAX_MESSAGE_BYTES // 2**20} MiB; send less"
_NO_JSON: Final = "this message is not JSON, or is nested too deeply; send JSON"
_NO_MESSAGE: Final = "this line is not one JSON-RPC 2.0 message; send one on each line"
_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2

_find_id = re.compile(rb'"id"\s*:\s*(-?\d{1,18}(?!\d)|"[^"\\]{0,100}")').findall


async def serve_stdio(server: Any, idle: asyncio.Event) -> None:
    """Serve one client on stdin and stdout, until stdin ends.

    Args:
        server: the SDK's low-level server.
        idle: set while no call is in progress; calls that came before the end of stdin are answered.
    """
    from mcp.server.stdio import stdio_server

    async with _wire() as (stdin, stdout):
        lines = _Lines(stdin, stdout, idle)
        async with stdio_server(lines, lines) as (received, sent):  # type: ignore[arg-type, unused-ignore]
            await server.run(received, sent, server.create_initialization_options())


@asynccontextmanager
async def _wire() -> AsyncIterator[tuple[int, _Writer]]:
    """The protocol's own descriptors; 0 and 1 are diverted until the process ends."""
    stdin, stdout = os.dup(_STDIN), os.dup(_STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    writer = await _Writer.on(stdout)
    try:
        yield stdin, writer
    finally:
        writer.close()


class _Lines:
    """stdin and stdout as the SDK's transport uses them: an iterator of lines, and a file."""

    def __init__(self, stdin: int, stdout: _Writer, idle: asyncio.Event) -> None:
        self._stdin, self._stdout, self._idle = stdin, stdout, idle
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_COUNT)
        threading.Thread(target=self._read, daemon=True, name="mcp-stdin").start()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while (line := await self._queue.get()) is not None:
            if len(line) > MAX_MESSAGE_BYTES:
                await self._stdout.write(_refusal(_searched_id(line), -32600, _TOO_LARGE))
                continue
            if not line.strip():
                continue
            try:
                text, message = _parsed(line)
            except ValueError:
                await self._stdout.write(_refusal(_searched_id(line), -32700, _NO_JSON))
                continue
            if _is_message(message):
                return text
            await self._stdout.write(_refusal(_id_of(message), -32600, _NO_MESSAGE))
        await self._wait_for_answers()
        raise StopAsyncIteration

    async def write(self, text: str) -> None:
        """Write a message."""
        await self._stdout.write(text.encode())

    async def flush(self) -> None:
        """Messages are never held back."""

    async def _wait_for_answers(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.sleep(TURN_SECONDS)  # what was received last becomes a call
                await self._idle.wait()
                await asyncio.sleep(TURN_SECONDS)  # and its answer is written

    def _read(self) -> None:
        """In a thread: put each line into the queue; a full queue stops the reading."""
        with suppress(RuntimeError, CancelledError):  # the loop has ended, before a call or while it waited
            for line in _lines(self._stdin):
                asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()
            asyncio.run_coroutine_threadsafe(self._queue.put(None), self._loop).result()


def _lines(descriptor: int) -> Iterator[bytes]:
    """The lines of a file. A line that is too long is cut to its first and last bytes, and stays too long."""
    held = bytearray()
    while data := _chunk(descriptor):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield bytes(held + end)
            held.clear()
        held += rest
        if len(held) > MAX_MESSAGE_BYTES + 2 * _READ_BYTES:  # the middle is not needed
            del held[_EDGE_BYTES : len(held) - MAX_MESSAGE_BYTES - _READ_BYTES]
    if held:
        yield bytes(held)


def _chunk(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:
        return b""


def _parsed(line: bytes) -> tuple[str, Any]:
    """A message as text that the SDK can parse, and its parsed value. Raises ValueError for other messages.

    The SDK drops a message with half a character, and the client would wait in vain: the half becomes U+FFFD.
    """
    from pydantic_core import from_json

    text = line.decode("utf-8", "replace")
    try:
        return text, from_json(text)
    except ValueError:
        try:
            text = json.dumps(json.loads(text), ensure_ascii=False)
        except RecursionError:
            raise ValueError from None
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text, from_json(text)


def _is_message(found: Any) -> bool:
    """Whether JSON is a request, a notification or an answer that the SDK accepts; the SDK drops all others silently."""
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        return False
    is_call = isinstance(found.get("method"), str) and isinstance(found.get("params", {}), dict | None)
    has_id = "id" not in found or _is_id(found["id"])
    return has_id and (is_call or "result" in found or "error" in found)


def _is_id(found: Any) -> bool:
    return isinstance(found, int | str) and not isinstance(found, bool)


def _id_of(message: Any) -> bytes:
    found = message.get("id") if isinstance(message, dict) else None
    return json.dumps(found).encode() if _is_id(found) else b"null"


def _searched_id(line: bytes) -> bytes:
    found = _find_id(line[:_EDGE_BYTES]) or _find_id(line[-_EDGE_BYTES:])
    return bytes(found[-1]) if found else b"null"


def _refusal(ident: bytes, code: int, problem: str) -> bytes:
    error = b'{"code":%d,"message":"%b"}' % (code, problem.encode())
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (ident, error)


class _Writer:
    """Writes to a descriptor without blocking the event loop, unless the descriptor is a plain file."""

    def __init__(self, descriptor: int, stream: asyncio.StreamWriter | None) -> None:
        self._descriptor, self._stream = descriptor, stream

    @classmethod
    async def on(cls, descriptor: int) -> _Writer:
        """A writer on a pipe, a socket, a terminal or a file."""
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return cls(descriptor, None)
        loop = asyncio.get_running_loop()
        file = os.fdopen(descriptor, "wb", buffering=0)
        made = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        return cls(descriptor, asyncio.StreamWriter(*made, None, loop))

    async def write(self, data: bytes) -> None:
        """Write all of it. A client that is gone is no error here: stdin will end."""
        if self._stream is None:
            os.write(self._descriptor, data)
            return
        with suppress(ConnectionError):
            self._stream.write(data)
            await self._stream.drain()

    def close(self) -> None:
        """Write what is left, and close."""
        if self._stream is None:
            os.close(self._descriptor)
        else:
            self._stream.close()
