"""The embedder over a service: an OpenAI-compatible `/v1/embeddings`, or Ollama's `/api/embed`.

The operator of a service can read the texts, so only the service that a setting names is called. Requests are bounded in
time and size, follow no redirect and use no proxy; every answer is checked before use. No error contains the key, a
text, or words that the service sent.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from ipaddress import ip_address
from socket import SHUT_RDWR, gaierror, socket
from threading import Event, Timer
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import numpy as np
import orjson

from sense_memory.errors import EmbedderError, InvalidInput
from sense_memory.search.embedders.embedder import KEY_VARIABLE, normalised


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

BATCH_COUNT: Final = 64  # texts in one request
MAX_TEXT_CHARS: Final = (
    8_000  # about 2,000 tokens, within the context of common models; the rest of a text is cut
)
MAX_DIMENSION: Final = 8_192  # the largest models have 4,096
MAX_RESPONSE_BYTES: Final = 16_000_000  # 64 vectors of 8,192 numbers of 30 characters
_CHUNK_BYTES: Final = 65_536
_PATHS: Final = {"openai": ("/v1", "/embeddings"), "ollama": ("", "/api/embed")}

_PROBLEMS: Final = {
    400: "refused the request (HTTP 400). Is the model an embedding model?",
    401: f"refused the key (HTTP 401). Check {KEY_VARIABLE}",
    403: f"refused the key (HTTP 403). Check {KEY_VARIABLE}",
    404: "does not know this path or this model (HTTP 404). Check both, and whether the model is installed there",
    413: "refused the texts as too large (HTTP 413)",
    429: "is busy (HTTP 429). Try again later",
}


class EndpointEmbedder:
    """The embedder over a service.

    Args:
        kind: "openai" or "ollama".
        model: the service's name for the model.
        url: the service, such as https://HOST/v1 or http://127.0.0.1:11434.
        key: sent as a bearer token; None for no key.
        timeout: seconds for one whole request.

    Raises:
        InvalidInput: the URL may not be called, or the key is not valid.
    """

    def __init__(
        self, kind: str, model: str, url: str, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        self._url = checked_url(url)
        self._kind, self._model, self._timeout = kind, model, timeout
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            if not key.isascii() or not key.isprintable() or " " in key or "nsec1" in key.lower():
                raise InvalidInput(f"the value of {KEY_VARIABLE} is not a valid key; check it")
            self._headers["Authorization"] = f"Bearer {key}"
        self._dimension: int | None = None

    def __repr__(self) -> str:
        return f"<EndpointEmbedder {self.name}>"

    @property
    def name(self) -> str:
        """The model and where it runs."""
        return f"{self._kind}:{self._model}@{self._url}"

    @property
    def dimension(self) -> int:
        """The dimension of every vector; calls the service, once.

        Raises:
            EmbedderError: the service could not be called.
        """
        if self._dimension is None:
            self._request(["dimension"])
        assert self._dimension is not None  # noqa: S101 - set by every request that succeeds
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text; zeros for blank texts, which are not sent. Blocks.

        Raises:
            EmbedderError: the service could not be called, or its answer is not valid.
        """
        rows = [row for row, text in enumerate(texts) if text.strip()]
        parts = []
        for first in range(0, len(rows), BATCH_COUNT):
            batch = [texts[row][:MAX_TEXT_CHARS] for row in rows[first : first + BATCH_COUNT]]
            parts.append(self._request([text.encode("utf-8", "replace").decode() for text in batch]))
        found = np.zeros((len(texts), self.dimension), np.float32)
        if parts:
            found[rows] = np.concatenate(parts)
        return found

    def _request(self, texts: list[str]) -> NDArray[np.float32]:
        option = {"encoding_format": "float"} if self._kind == "openai" else {"truncate": True}
        body = orjson.dumps({"model": self._model, "input": texts, **option})
        base, path = _PATHS[self._kind]
        parts = urlsplit(self._url)
        target = (parts.path or base) + path
        with _Exchange(parts.scheme, parts.hostname or "", parts.port, self._timeout, self._fail) as exchange:
            raw = exchange.post(target, body, self._headers)
        try:
            rows = _rows(orjson.loads(raw), self._kind, len(texts))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self._fail(f"did not answer with {len(texts)} vectors") from None
        return normalised(self._checked(rows))

    def _checked(self, rows: list[list[float]]) -> NDArray[np.float64]:
        """The rows as an array of finite numbers, all of one dimension."""
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or not 0 < max(sizes) <= MAX_DIMENSION:
            raise self._fail("answered with vectors of impossible or different dimensions")
        if any(type(value) not in {float, int} for row in rows for value in row):
            raise self._fail("answered with something that is not a number")
        values = np.array(rows, np.float64)
        if not np.isfinite(values).all() or np.abs(values).max() > 1e30:
            raise self._fail("answered with NaN or infinity")
        (size,) = sizes
        if self._dimension not in {None, size}:
            raise self._fail(
                f"answered with {size} dimensions instead of {self._dimension}: the model behind it has changed"
            )
        self._dimension = size
        return values

    def _fail(self, problem: str) -> EmbedderError:
        return EmbedderError(self.name, problem)


def checked_url(url: str) -> str:
    """The URL of a service that may be called, without the slash at its end.

    Raises:
        InvalidInput: the URL is neither https nor http to this machine, or holds a user name, a query or a fragment,
            where keys hide. The error repeats nothing of the URL.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except (ValueError, UnicodeError):
        host, port = "", None
    if not host or port == 0 or parts.scheme not in {"http", "https"} or not url.isprintable():
        raise InvalidInput("this is not the URL of an embedding service, such as https://HOST/v1")
    if "@" in parts.netloc or parts.query or parts.fragment or " " in url.strip():
        raise InvalidInput(
            f"the URL of an embedding service cannot contain a user name, a query or a fragment; put the key into {KEY_VARIABLE}"
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise InvalidInput(
            "http:// is not encrypted, and is only for a service on this machine; use https://"
        )
    path = parts.path.rstrip("/")
    for _, end in _PATHS.values():
        path = path.removesuffix(end)
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _rows(answer: Any, kind: str, count: int) -> list[list[float]]:
    """The vectors in an answer, in the order of the texts."""
    if kind == "ollama":
        rows = answer["embeddings"]
    else:
        data = answer["data"]
        placed = {item.get("index", place): item["embedding"] for place, item in enumerate(data)}
        rows = [placed[place] for place in range(len(data))]
    if len(rows) != count or not all(isinstance(row, list) for row in rows):
        raise ValueError("not a vector for each text")
    return list(rows)


def _why(error: Exception) -> str:
    """Why an exchange failed, in words of this program: an error repeats nothing that the service sent."""
    match error:
        case ConnectionRefusedError():
            return "did not answer. Is it running?"
        case gaierror():
            return "was not found: the name has no address. Is the name spelt right, and is the network up?"
        case ssl.SSLCertVerificationError():
            return "has no certificate that this machine trusts; nothing was sent"
        case ssl.SSLError():
            return "does not speak TLS properly. Is the service on https://?"
        case ConnectionError() | IncompleteRead():  # also http.client's "closed without an answer"
            return "closed the connection without an answer. Is it running properly?"
        case OSError():
            return "could not be reached. Is the network up?"
        case _:
            return "did not answer in HTTP. Is the address right?"


class _Exchange:
    """One request and its response. A timer closes the connection when the timeout is over."""

    def __init__(
        self, scheme: str, host: str, port: int | None, timeout: float, fail: Callable[[str], EmbedderError]
    ) -> None:
        self._fail, self._timeout, self._host = fail, timeout, host
        if scheme == "https":
            context = ssl.create_default_context()
            self._connection: HTTPConnection = HTTPSConnection(host, port, timeout=timeout, context=context)
        else:
            self._connection = HTTPConnection(host, port, timeout=timeout)
        self._socket: socket | None = None
        self._is_late = Event()
        self._timer = Timer(timeout, self._hang_up)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        self._connection.close()

    def post(self, target: str, body: bytes, headers: dict[str, str]) -> bytes:
        """Send a request; returns the body of the response."""
        try:
            self._connection.connect()
            self._socket = self._connection.sock
            self._connection.request("POST", target, body, headers)
            with self._connection.getresponse() as response:
                return b"".join(self._read(response))
        except TimeoutError:
            raise self._late() from None
        except (OSError, HTTPException, ValueError) as error:
            if self._is_late.is_set():
                raise self._late() from None
            raise self._fail(f"the service at {self._host} {_why(error)}") from None

    def _read(self, response: HTTPResponse) -> Iterator[bytes]:
        if response.status != 200:
            known = _PROBLEMS.get(response.status)
            raise self._fail(known or f"failed (HTTP {response.status})")
        size = 0
        while chunk := response.read1(_CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise self._fail(f"answered with more than {MAX_RESPONSE_BYTES:,} bytes")
            yield chunk
        if self._is_late.is_set():
            raise self._late()

    def _late(self) -> EmbedderError:
        return self._fail(f"did not answer within {self._timeout:g} s")

    def _hang_up(self) -> None:
        """Close the connection. Socket timeouts apply to each read, so a slow trickle of bytes would never end."""
        self._is_late.set()
        if self._socket is not None:
            with suppress(OSError):
                socket.shutdown(self._socket, SHUT_RDWR)
