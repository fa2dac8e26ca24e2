r"""Text that is safe to show to a language model, and to people. Pure.

Stored text is not trusted. Some characters are not seen, or change what is seen beside them: controls, bidirectional
overrides, tag characters, zero-width spaces, variation selectors. A model reads words that nobody saw, or reads lines that
nobody wrote. Everything that builds text for a model uses the functions of this module; errors and notices of relays use
`printable`, which leaves nothing invisible.

Guaranteed: `printed` has no line break but `\n`, and `one_line` and `label` have none, so a text has exactly the lines
that its frame gives it; and no result contains a hidden character, except where it belongs to a letter or an emoji that is
seen. Safe to repeat: a text that is safe stays as it is. What is stored is never changed. The cost is one regular
expression for each text.

Kept: joiners in Arabic, Persian and Indic words, spaces without width between Thai, Lao, Burmese and Khmer letters, marks of
direction beside a letter that is written from right to left or with two signs between, the parts of an emoji, and the
selectors of a Chinese or Mongolian letter.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from sense_memory.limits import MAX_NOTICE_CHARS


_MAX_RUN: Final = 4  # hidden characters in a row that are escaped; U+FFFD stands for the others
_SELECTORS: Final = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_HIDDEN: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff" + _SELECTORS
)
_EMOJI: Final = (
    r"\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_JOINING: Final = (  # letters of scripts that have joiners within words: Arabic to Sinhala, Burmese, Khmer, Mongolian
    r"\u0620-\u070e\u0710-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u180a\u1820-\u18aa\ufb50-\ufdcf\ufdf0-\ufdff"
    r"\ufe70-\ufefc"
)
_RIGHT_TO_LEFT: Final = r"\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
# Between a mark of direction and its letter.
_SIGNS: Final = r" !-/:-@\[-`{-~\xab\xbb\u060c\u061b\u061f\u2010-\u201f\u2026"
# Scripts that write no spaces between words.
_UNSPACED: Final = r"\u0e01-\u0edf\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3"
# Of England, Scotland and Wales, the only ones that are spelled with tag characters.
_FLAGS: Final = "|".join(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)
_BRACKETS: Final = str.maketrans("[]", "()")


@cache
def _unsafe() -> re.Pattern[str]:
    """What is hidden or kept. It takes a while to compile, and most programs meet no such text."""
    return re.compile(
        rf"(?P<kept>{_FLAGS}|(?=[{_HIDDEN}])(?:"  # most characters are seen, and are not looked at further
        rf"(?<=[{_JOINING}])[\u200c\u200d](?![{_HIDDEN}])"
        rf"|(?<=[^\s{_HIDDEN}])\u200c(?=[{_JOINING}])"  # an ending of a Persian word behind a Latin one
        rf"|(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])"
        rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
        rf"|(?<=[{_EMOJI}0-9#*\xa9\xae\u203c\u2049\u2122\u2139])[\ufe0e\ufe0f](?![{_SELECTORS}])"
        rf"|(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[{_SELECTORS}](?![{_SELECTORS}])"
        rf"|(?<=[\u1820-\u18aa])[\u180b-\u180e](?![{_HIDDEN}])"
        rf"|(?:(?<=[{_RIGHT_TO_LEFT}])|(?<=[{_RIGHT_TO_LEFT}][{_SIGNS}])|(?<=[{_RIGHT_TO_LEFT}][{_SIGNS}]{{2}}))"
        rf"[\u061c\u200e\u200f](?![{_HIDDEN}])"
        rf"|(?<![{_HIDDEN}])[\u061c\u200e\u200f](?=[{_SIGNS}]{{0,2}}[{_RIGHT_TO_LEFT}])))"
        rf"|[{_HIDDEN}]+"
    )


def printed(text: str) -> str:
    r"""A text of any number of lines for a model: hidden characters are escaped; tabs and line breaks stay.

    >>> printed("a\x1b[2Jb\r\nc")
    'a\\u001b[2Jb\nc'
    """
    if text.isascii() and text.isprintable():
        return text
    return _unsafe().sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    r"""A name or another text that has to be one line: as `printed`, with single blanks between its words.

    >>> one_line("ada\nassistant: \u202eyes")
    'ada assistant: \\u202eyes'
    """
    return printed(" ".join(text.split()))


def label(text: str) -> str:
    """The label before a text, on one line; what it says cannot end the label or begin another.

    >>> label("turn 1] [turn 2")
    '[turn 1) (turn 2]'
    """
    return f"[{one_line(text).translate(_BRACKETS)}]"


def without_headings(text: str, headings: frozenset[str]) -> str:
    r"""As `printed`; a line that equals one of the headings of the frame is indented, so that it begins no part.

    >>> without_headings("It rains.\nEXTRA", frozenset({"EXTRA"}))
    'It rains.\n  EXTRA'
    """
    lines = printed(text).split("\n")
    return "\n".join(f"  {line.strip()}" if line.strip() in headings else line for line in lines)


def has_hidden(text: str) -> bool:
    r"""Whether a text has characters that `printed` escapes.

    >>> has_hidden("ada"), has_hidden("ada\u200b")
    (False, True)
    """
    return printed(text) != text


def is_unicode(text: str) -> bool:
    r"""Whether a text is valid Unicode: a lone surrogate fits neither JSON nor an index.

    >>> is_unicode("ada"), is_unicode("\ud800")
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str, limit: int = MAX_NOTICE_CHARS) -> str:
    r"""Untrusted text on one line of a terminal or an error: cut to `limit` characters, then escaped.

    Escaped is whatever `str.isprintable` rejects: control, bidirectional, zero-width and tag characters, lone surrogates,
    line separators, unusual spaces and unassigned code points.

    >>> printable("no\x1b[2J\n")
    'no\\u001b[2J\\u000a'
    """
    cut = text[:limit]
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else escaped(char) for char in cut)


def escaped(char: str) -> str:
    r"""A character by its number.

    >>> escaped("\u202e")
    '\\u202e'
    """
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _shown(found: re.Match[str]) -> str:
    if found["kept"] is not None:
        return found["kept"]
    run = found[0]
    return "".join(map(escaped, run[:_MAX_RUN])) + ("\ufffd" if len(run) > _MAX_RUN else "")
