"""The estimate of tokens: never below what real tokenizers count, and hardly above for English."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.mind.token_counter import tokenizer
from sense_memory.palace.token_estimate import estimated_tokens


texts = st.text(st.characters(codec="utf-8"), max_size=80)
COUNTED = [
    json.loads(row)
    for row in Path(__file__).with_name("token_counts.jsonl").read_text(encoding="utf-8").splitlines()
]  # by the real tokenizers, so that nobody has to install them


@pytest.mark.parametrize("text", COUNTED, ids=lambda text: text["what"])
def test_the_estimate_is_never_below_what_real_tokenizers_count(text):
    assert estimated_tokens(text["text"]) >= max(text["cl100k"], text["o200k"])


def test_the_estimate_of_english_shorthand_is_at_most_8_percent_above():
    shorthands = [text for text in COUNTED if text["what"].startswith("palace, compressed")]
    counted = sum(max(text["cl100k"], text["o200k"]) for text in shorthands)
    assert counted > 4_000
    assert sum(estimated_tokens(text["text"]) for text in shorthands) <= 1.08 * counted


NAMES = ["Oskar", "Evelyn", "Caroline", "Jonas", "Gina", "Mireille", "Sana", "Vergel", "Katrin", "Emil"]


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_names_that_begin_a_line_are_counted_without_the_space_of_their_tokens(encoding):
    text = "\n".join(f"{name} likes {thing}." for name in NAMES for thing in ("tea", "rain", "old maps"))
    assert estimated_tokens(text) >= tokenizer(encoding)(text)


@given(texts, texts)
def test_more_text_never_costs_less(first, second):
    assert estimated_tokens(first + " " + second) >= estimated_tokens(first)
