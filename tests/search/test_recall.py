"""The retrieval benchmark's side of this repository: retrievers as the benchmark asks for them, and their table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from scripts.bench import recall
from scripts.bench.plain_retrievers import Cosines
from sense_memory.errors import MissingExtra


TURNS = [
    ("1", "Ann: I adopted an otter.", "2024-05-01T10:00:00", "s"),
    ("2", "Bob: What is it called?", "2024-05-01T10:00:00", "s"),
    ("3", "Ann: Pebbles!", "2024-05-01T10:00:00", "s"),
    ("4", "Bob: I like trains.", "", "t"),
    ("5", "a note of nobody", "yesterday", "t"),
]


@dataclass
class Turn:
    id: str
    text: str
    session: str


@dataclass
class Question:
    gold: set[str]


@dataclass
class Conversation:
    turns: list[Turn]
    questions: list[Question]


class LettersEmbedder:
    """How many vowels of each kind a text has, as a direction."""

    name, dimension = "letters", 5

    def embed(self, texts):
        rows = np.array([[text.count(vowel) for vowel in "aeiou"] for text in texts], np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


BENCH = '''
"""A benchmark of one question, with the names that the real one has."""
def load(dataset, root):
    return [dataset, root]

def evaluate(factory, conversations):
    retriever = factory()
    retriever.index([("1", "Ann: an otter", "", "s"), ("2", "Bob: a train", "", "s")])
    recall = float(retriever.search("the otter", 10)[:1] == ["1"])
    main = {"turn_recall@10": recall, "ndcg@10": recall, "mrr": recall}
    return {"main": main, "q_p50_ms": 1.0, "q_p95_ms": 2.0, "index_s": 0.1}

def paired_diff(one, other, metric):
    return 0.0, -0.1, 0.1
'''


@pytest.mark.parametrize("variant", ["spec", "fts5", "lexical"])
def test_a_variant_retrieves(variant):
    retriever = recall.factory(variant)
    retriever.index(TURNS)
    assert retriever.search("the otter that was adopted", 10)[0] == "1"
    assert retriever.search("zebra", 10) == []


def test_the_speaker_is_taken_from_the_line():
    retriever = recall.factory()
    retriever.index(TURNS)
    assert retriever.search("What did Bob like?", 1) == ["4"]


def test_a_transcript_of_several_turns_is_nobodys():
    retriever = recall.factory()
    first = "Ann: I adopted an otter, and a train, and a bell.\nBob: I paint.\nAnn: Good."
    other = "Bob: Well.\nAnn: I paint and paint.\nBob: Good."
    retriever.index([("1", first, "", "s"), ("2", other, "", "s")])
    assert retriever.search("What did Ann paint?", 1) == ["2"]


def test_a_variant_that_is_missing_says_so(monkeypatch):
    monkeypatch.setattr("sense_memory.search.embedders.local_models.package_folder", lambda name: None)
    with pytest.raises(MissingExtra, match="minilm"):
        recall.factory("minilm")
    with pytest.raises(ValueError, match="no variant 'magic'"):
        recall.factory("magic")


def test_an_embedder_alone_ranks_by_cosine():
    retriever = Cosines(LettersEmbedder())
    retriever.index([("1", "ooo o", "", "s"), ("2", "aaa", "", "s"), ("3", "aao", "", "s")])
    assert retriever.search("a a", 2) == ["2", "3"]


def test_sessions_as_items_are_transcripts_and_answer_what_their_turns_answer():
    turns = [Turn("1", "Ann: Hi.", "s"), Turn("2", "Bob: Hello.", "s"), Turn("3", "Ann: Bye.", "t")]
    found = recall.of_sessions(Conversation(turns, [Question({"2", "3"})]))
    assert [(turn.id, turn.text) for turn in found.turns] == [
        ("s", "Ann: Hi.\nBob: Hello."),
        ("t", "Ann: Bye."),
    ]
    assert found.questions == [Question({"s", "t"})]


def test_the_table_has_a_row_for_each_variant_and_each_lever(tmp_path, capsys):
    program = tmp_path / "memory_bench.py"
    program.write_text(BENCH)
    options = ["--bench", str(program), "--data", str(tmp_path), "--dataset", "beam"]
    recall.main([*options, "--variant", "spec", "--variant", "lexical", "--levers"])
    rows = [line.strip() for line in capsys.readouterr().out.splitlines()]
    names = [row.partition("  ")[0] for row in rows if "1.000" in row]
    levers = ["neighbours", "speaker", "dates", "session", "spread", "pieces"]
    assert names == ["spec", "lexical", *(f"lexical without {lever}" for lever in levers)]


def test_a_path_that_is_not_there_is_refused(capsys):
    with pytest.raises(SystemExit):
        recall.main(["--bench", "nowhere.py", "--data", "."])
    assert "nowhere.py does not exist" in capsys.readouterr().err
