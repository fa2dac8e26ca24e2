"""Values that the server gives away and recognizes when they come back, so that it keeps nothing for strangers.

Anybody may register a client and ask for access. If the server remembered that, a stranger could fill its memory, or push
out the request of the user. So the client's id and the address of the consent page carry the values themselves, with a
code (HMAC-SHA256) that only this server can make. They are readable, and no secret.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

import orjson


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CODE_BYTES: Final = 32


class Sealer:
    """Seals values, and opens what it sealed.

    Args:
        key: of this server; whoever has it can seal too.
        clock: seconds since 1970.
    """

    def __init__(self, key: bytes, clock: Callable[[], float]) -> None:
        self._key, self._clock = key, clock

    def seal(self, kind: str, value: Mapping[str, Any], seconds: float | None = None) -> str:
        """A value as text for a URL.

        Args:
            kind: what it is; `opened` finds it under the same kind only.
            value: JSON.
            seconds: how long `opened` accepts the text; None for ever.
        """
        until = None if seconds is None else self._clock() + seconds
        text = orjson.dumps([value, until])
        return urlsafe_b64encode(self._code(kind, text) + text).decode().rstrip("=")

    def opened(self, kind: str, text: str) -> dict[str, Any] | None:
        """The value of a sealed text; None where the server did not seal it as this kind, or its time is over."""
        try:
            found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except (UnicodeEncodeError, binascii.Error):
            return None
        code, sealed = found[:_CODE_BYTES], found[_CODE_BYTES:]
        if not hmac.compare_digest(code, self._code(kind, sealed)):
            return None
        value, until = orjson.loads(sealed)
        return None if until is not None and until < self._clock() else value

    def _code(self, kind: str, text: bytes) -> bytes:
        return hmac.digest(self._key, kind.encode() + b"\0" + text, "sha256")
