"""Words out of text: folded, cut, stemmed; the same way for what is kept and for what is asked.

Case, accents, width and vowel points are folded away. Latin, Cyrillic, Greek, Arabic and other spaced
scripts are cut into words; Chinese, Japanese, Korean, Thai and their kin, which do without spaces or glue
particles to words, into overlapping pairs of characters. Numbers stay whole ("2.3.1", "10:30", "1,200").
Nothing is thrown away here: stop words are a matter of questions (`search.query`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

import Stemmer

from sense_memory.search.forms import SAME_WORD


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_WORD_CHARS: Final = 64  # of a longer run of letters only these count: it is no word of a language

# Scripts without spaces between words, and Hangul, whose particles cling to the noun.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_MARKS: Final = "\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u0f00-\u0fff"  # vowels that re calls no letters
_EMOJI: Final = "\u2600-\u27bf\U0001f300-\U0001faff"
_NUMBER: Final = r"v(?=\d+\.\d)|\d+(?:[.,:]\d+)*(?:(?:st|nd|rd|th)\b)?"  # "v2.3.1" is "v" and a number

_ASCII_WORDS: Final = re.compile(rf"{_NUMBER}|[a-z0-9]+(?:'[a-z]+)?")
_UNSPACED_CHAR: Final = f"[{UNSPACED}]"
# What is no ASCII waits for the first such text: to compile it takes some milliseconds of every start.
_WORDS: Final = (
    rf"(?P<unspaced>[{UNSPACED}]+)|{_NUMBER}"
    rf"|(?:(?![{UNSPACED}_])[\w{_MARKS}])+(?:'[a-z]+)?|[{_EMOJI}]"
)
_HYPHENATED: Final = re.compile(r"(?<![\w-])([^\W\d_]{1,12})-([^\W_]{2,12})(?![\w-])")
_ACCENTS: Final = (
    r"(?<=[a-z\u0370-\u03ff\u0590-\u05ff\u0620-\u06ff])[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640]+"
)
_HAN: Final = "[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_LETTERS: Final = str.maketrans(
    {
        "ё": "\u0435",
        "ى": "ي",
        "ة": "\u0647",
        "ـ": "",
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "æ": "ae",
        "œ": "oe",
        "\u0131": "i",
    }
    | {"\u2019": "'", "\u2018": "'", "\u02bc": "'", "`": "'", "\u200c": "", "\u200d": "", "\u00ad": ""}
)
# Between words of ASCII stands whatever can be in none of them; `_` is in none either, but keeps "3rd_" from being one.
_SEPARATORS: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "'.,:_`")
} | {ord("`"): "'"}
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ORDINAL: Final = re.compile(r"(\d+)(?:st|nd|rd|th)")

# The stemmer for what is not Latin, by the first letter of a word.
_STEMMERS: Final = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0531", "\u058f", "armenian"),
    ("\u0620", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


def fold(text: str) -> str:
    """Text without case, accents, vowel points, or differences of width and apostrophe."""
    if text.isascii():
        return text.lower().replace("`", "'")
    decomposed = normalize("NFKD", normalize("NFKD", text).casefold())
    return normalize("NFC", re.sub(_ACCENTS, "", decomposed)).translate(_LETTERS)


def words(text: str) -> list[str]:
    """The folded words of a text, in order; of unspaced scripts each pair of neighbours is one.

    Args:
        text: any text; what is no letter, digit or emoji separates.
    """
    folded = fold(text)
    if folded.isascii():
        return _ASCII_WORDS.findall(folded)
    found: list[str] = []
    for match in re.finditer(_WORDS, folded):
        if match["unspaced"]:
            found += pairs(match["unspaced"])
        else:
            found.append(match[0])
    return found


def chunks(text: str) -> list[str] | None:
    """The pieces of an ASCII text of which each gives its words alone; None of any other text.

    Many of them are just one word that was seen before, and a dictionary knows it faster than a pattern.
    """
    return text.lower().translate(_SEPARATORS).split() if text.isascii() else None


def words_of(chunk: str) -> list[str]:
    """The words of one chunk, in order."""
    return _ASCII_WORDS.findall(chunk)


def pairs(run: str) -> list[str]:
    """The overlapping pairs of a run of characters; the character itself where it is alone."""
    return [run[i : i + 2] for i in range(len(run) - 1)] if len(run) > 1 else [run]


def asides(text: str) -> list[str]:
    """What a text can be found by besides its words: each Han character, "email" for "e-mail", "e52" for "E-52"."""
    found = []
    if "-" in text:
        found = ["".join(parts) for parts in _HYPHENATED.findall(fold(" ".join(_with_hyphens(text))))]
    return found if text.isascii() else found + re.findall(_HAN, fold(text))


def _with_hyphens(text: str) -> Iterator[str]:
    """What stands between two spaces and has a hyphen in it."""
    end, hyphen = 0, text.find("-")
    while hyphen >= 0:
        begin, end = text.rfind(" ", end, hyphen) + 1 or end, text.find(" ", hyphen)
        yield text[begin:end] if end >= 0 else text[begin:]
        hyphen = text.find("-", end) if end >= 0 else -1


def is_unspaced(word: str) -> bool:
    """Whether a word is a piece of an unspaced script."""
    return not word.isascii() and bool(re.match(_UNSPACED_CHAR, word))


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """The stem of a folded word.

    Args:
        language: of words in Latin letters, as Snowball names it ("english", "german", "portuguese", …).

    Raises:
        KeyError: no such language.
    """
    engines = {name: Stemmer.Stemmer(name, 0) for name in {language, *(row[2] for row in _STEMMERS)}}
    latin, same = engines[language].stemWord, SAME_WORD if language == "english" else {}

    def stem(word: str) -> str:
        word = word[:MAX_WORD_CHARS]
        first = word[:1]
        if first.isascii():
            root = same.get(word.removesuffix("'s"), word)
            return _number(root) if root[:1].isdigit() else str(latin(root)) or root
        for low, high, name in _STEMMERS:
            if low <= first <= high:
                return str(engines[name].stemWord(word)) or word
        return str(latin(word)) if first < "\u0250" else word

    return stem


def _number(word: str) -> str:
    """1,200 is 1200 and 3rd is 3; times and versions stay as they are."""
    if ordinal := _ORDINAL.fullmatch(word):
        return ordinal[1]
    return word.replace(",", "") if _THOUSANDS.fullmatch(word) else word
