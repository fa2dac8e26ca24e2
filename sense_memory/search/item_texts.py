"""The texts of an item: one for an embedder, and one row of words, for each piece of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.search import evidence
from sense_memory.search.lexical import RowText
from sense_memory.search.postings import FIELD_WEIGHTS, KEY, THEMES


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.search.documents import SearchItem


_LINE: Final = " \n"  # between keys, themes and the text


def texts_of(item: SearchItem, *, is_cut: bool = True) -> list[str]:
    """The texts to embed for an item: one for each of its pieces, or one for the whole item."""
    text = _weighed(item)
    return evidence.embedding_texts(evidence.pieces(text) if is_cut else [text])


def _weighed(item: SearchItem) -> str:
    """An item as one text: its key and themes, repeated by their weights, then the text."""
    if not item.key and not item.themes:
        return item.text
    keys, themes = (item.key,) * FIELD_WEIGHTS[KEY], item.themes * FIELD_WEIGHTS[THEMES]
    return _LINE.join((*keys, *themes, item.text))


def rows_of(item: SearchItem, *, is_cut: bool) -> list[RowText]:
    """The rows of an item's words, as many as `texts_of` has texts."""
    names = tuple(dict.fromkeys((item.key, *item.themes))) if item.key or item.themes else ()
    parts = evidence.piece_sentences(_weighed(item)) if is_cut else [[]]
    if len(parts) == 1:
        return [RowText(item.text, _LINE.join(item.themes), item.key, names)]
    if not names:
        return [RowText("\n".join(part)) for part in parts]
    return [
        RowText("\n".join(value), "\n".join(themes), "\n".join(key), () if number else names)
        for number, (value, themes, key) in enumerate(_by_field(item, parts))
    ]


def _by_field(item: SearchItem, parts: Sequence[Sequence[str]]) -> Iterator[tuple[list[str], ...]]:
    """The sentences of each piece of `_weighed` by field; of repeated keys and themes only the first occurrence."""
    text, at = _weighed(item), 0
    key, themes = len(item.key) + len(_LINE), sum(len(theme) + len(_LINE) for theme in item.themes)
    heads = FIELD_WEIGHTS[KEY] * key
    values = heads + FIELD_WEIGHTS[THEMES] * themes
    for part in parts:
        fields: tuple[list[str], ...] = ([], [], [])
        for sentence in part:
            start = text.index(sentence, at)
            at = start + len(sentence)
            if start >= values:
                fields[0].append(sentence)
            elif heads <= start < heads + themes:
                fields[1].append(sentence)
            elif start < key:
                fields[2].append(sentence)
        yield fields
