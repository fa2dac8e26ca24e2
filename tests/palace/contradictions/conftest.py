"""Comparing with what the real table of words says of two notes."""

from __future__ import annotations

import pytest

from sense_memory import open_embedder
from sense_memory.palace import Sentences, compare


@pytest.fixture(scope="session")
def asking():
    """Calls with a function that tells how near two notes are, once to be asked and once to answer."""
    embedder, sentences = open_embedder("static"), Sentences()

    def answered(call):
        call(sentences.near)
        asked = sentences.asked()
        sentences.learn(asked, embedder.embed(asked))
        return call(sentences.near)

    return answered


@pytest.fixture(scope="session")
def judge(asking):
    return lambda old, new: asking(lambda near: compare(old, new, near))
