"""The token of a server on this machine: from the environment, or from a file that is made once."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from sense_memory.config.key_file import private_folder
from sense_memory.errors import InvalidInput, UnsafeFile
from sense_memory.operating_system import create_private, is_private_file, open_plain


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_MIN_TOKEN_CHARS: Final = 32
_MAX_TOKEN_BYTES: Final = 1_024


def server_token(path: Path, environ: Mapping[str, str], variable: str) -> tuple[str, str]:
    """The token that clients must send, and in words its place.

    Args:
        path: the file; it is made where the environment has no token.
        environ: the environment.
        variable: its name there, which comes first.

    Raises:
        UnsafeFile: others can read the file, or it is not a plain file.
        InvalidInput: the token is too short.
    """
    given = environ.get(variable, "").strip()
    place = f"{variable} in the environment"
    if not given:
        given, place = _stored_token(path), str(path)
    if len(given) < _MIN_TOKEN_CHARS or not given.isascii() or not given.isprintable() or " " in given:
        raise InvalidInput(f"the token in {place} must have {_MIN_TOKEN_CHARS} or more letters and digits")
    return given, place


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request, by its headers as ASGI has them, carries a token: `Authorization: Bearer …`, once."""
    given = bearer_of(headers)
    return given is not None and compare_digest(given, token.encode())


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The token that a request carries; None if it carries none, or several."""
    given = [value for name, value in headers if name.lower() == b"authorization"]
    scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token if scheme.lower() == b"bearer" else None


def _stored_token(path: Path) -> str:
    private_folder(path.parent)
    with suppress(FileExistsError):
        descriptor = create_private(path)
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
            token = secrets.token_urlsafe()
            file.write(f"{token}\n")
        return token
    try:
        descriptor = open_plain(path)
    except OSError as error:
        raise UnsafeFile(f"the token file {path} cannot be opened ({error.strerror})") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - as above
        if not is_private_file(os.fstat(descriptor)):
            raise UnsafeFile(
                f"others can read or replace {path}, so its token was not used; delete the file, and a new token is made"
            )
        return file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
