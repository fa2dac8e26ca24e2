"""The index that the environment names, and the view over it: refusals that repeat nothing, and no entry of others."""

from __future__ import annotations

import json

import pytest

from sense_memory.errors import InvalidSetting, MissingExtra
from sense_memory.mind.indexes.derived import _with_scores
from sense_memory.mind.log import LogEntry
from sense_memory.mind.memory_index import HybridIndex, ScoredMemoryIndex, memory_index_from_env
from sense_memory.mind.salience import SalienceMemory, jaccard, words


SECRET = "hunter2"


def entry(number, text, actor="baker", kind="agent.spoke"):
    return LogEntry(f"evt-{number}", kind, actor, {"text": text}, float(number), number)


@pytest.mark.parametrize("switch", ["", "0", "false", "No", " off "])
def test_there_is_no_index_unless_the_environment_asks_for_one(switch):
    assert memory_index_from_env({"MEMORY_INDEX": switch, "MEMORY_INDEX_BACKEND": "hybrid"}) is None
    assert memory_index_from_env({}) is None


def test_the_environment_names_the_backend_and_its_options():
    index = memory_index_from_env({"MEMORY_INDEX": "1", "MEMORY_INDEX_BACKEND": "hybrid"})
    assert isinstance(index, HybridIndex)
    index.index([entry(1, "the silver locket")])
    assert [hit.id for hit in index.search("locket", 3)] == ["evt-1"]
    index.clear()
    assert index.search("locket", 3) == []


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("MEMORY_INDEX", {"MEMORY_INDEX": SECRET}),
        ("MEMORY_INDEX_BACKEND", {"MEMORY_INDEX_BACKEND": SECRET}),
        ("MEMORY_INDEX_BACKEND", {"MEMORY_INDEX": "cloud", "MEMORY_INDEX_BACKEND": "chroma"}),
        ("MEMORY_INDEX_CONFIG", {"MEMORY_INDEX_CONFIG": f"{{{SECRET}"}),
        ("MEMORY_INDEX_CONFIG", {"MEMORY_INDEX_CONFIG": f'["{SECRET}"]'}),
        ("MEMORY_INDEX_CONFIG", {"MEMORY_INDEX_CONFIG": json.dumps({SECRET: 1})}),
        ("MEMORY_INDEX_CONFIG", {"MEMORY_INDEX_CONFIG": json.dumps({"embedder": SECRET})}),
        ("MEMORY_INDEX_CONFIG", {"MEMORY_INDEX_CONFIG": json.dumps({"embedder": [SECRET]})}),
        ("MEM0_API_KEY", {"MEMORY_INDEX": "cloud", "MEMORY_INDEX_BACKEND": ""}),
        ("MEM0_API_KEY", {"MEMORY_INDEX_BACKEND": "cloud", "MEM0_ORG_ID": SECRET}),
    ],
)
def test_a_value_that_cannot_be_used_is_named_and_not_repeated(name, environ):
    with pytest.raises(InvalidSetting) as caught:
        memory_index_from_env({"MEMORY_INDEX": "yes", "MEMORY_INDEX_BACKEND": "hybrid"} | environ)
    assert caught.value.name == name
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("backend", "extra"),
    [("mem0", "memory"), ("cloud", "memory"), ("pgvector", "pgvector"), ("chroma", "chroma")],
)
def test_a_backend_whose_package_is_missing_says_what_to_install(monkeypatch, backend, extra):
    monkeypatch.setattr("sense_memory.mind.indexes.derived.find_spec", lambda package: None)
    environ = {"MEMORY_INDEX": "1", "MEMORY_INDEX_BACKEND": backend, "MEM0_API_KEY": SECRET}
    if backend == "pgvector":
        environ["MEMORY_INDEX_CONFIG"] = json.dumps({"url": f"postgresql://me:{SECRET}@127.0.0.1/x"})
    with pytest.raises(MissingExtra, match=rf"\[{extra}\]") as caught:
        memory_index_from_env(environ)
    assert SECRET not in str(caught.value)


class Shared:
    """An index that others fill too, also with an entry that says it is one of ours, and never ends."""

    def __init__(self, *others):
        self.others, self.mine, self.asked = others, {}, []

    def index(self, events):
        self.mine |= {event.id: event for event in events}

    def search(self, query, k):
        self.asked.append(k)
        return [*self.others, *self.mine.values()][:k]


def test_an_index_that_others_fill_shows_nothing_of_theirs_and_keeps_its_ranks():
    log = [entry(1, "bread"), entry(2, "flour"), entry(3, "I stole it", "smith", "agent.thought")]
    forged = entry(1, "the baker confessed")
    shared = Shared(*(entry(number, "secret", "smith") for number in range(100, 150)), forged)
    found = SalienceMemory("baker", index=shared).scored(log, "the theft")
    assert [item.entry for item in found] == log[:2]
    assert [item.relevance for item in found] == [1.0, 0.5]
    assert "evt-3" not in shared.mine


def test_an_index_that_only_ever_has_more_of_others_is_asked_a_bounded_number_of_times():
    class Endless(Shared):
        def search(self, query, k):
            self.asked.append(k)
            return [self.others[0]] * k

    shared = Endless(entry(9, "secret", "smith"))
    assert SalienceMemory("baker", index=shared).scored([entry(1, "bread")], "theft")[0].relevance == 0.0
    assert len(shared.asked) < 15


# ── Scores ──────────────────────────────────────────────────────────────────────────────

CLUES = (
    ("the silver locket was hidden in the mill", "Where was the silver locket hidden?"),
    ("the smith owes the judge forty coins", "How many coins does the smith owe the judge?"),
    ("the judge wore a red coat at the fair", "Who wore a red coat at the fair?"),
)


class Ranking:
    """An index that ranks by shared words, and says no scores."""

    def __init__(self):
        self.mine = {}

    def index(self, events):
        self.mine |= {event.id: event for event in events}

    def scored(self, query, k):
        wanted = words(query)
        scores = [(jaccard(words(entry.text), wanted), entry) for entry in self.mine.values()]
        best = sorted(scores, key=lambda item: -item[0])[:k]
        return [
            (entry, 0.6 + 0.4 * score) for score, entry in best
        ]  # as cosines are: 0.6 for what has nothing of it

    def search(self, query, k):
        return [entry for entry, _ in self.scored(query, k)]


class OnlyIds:
    """An index as the protocol of the agent ledger has it."""

    def __init__(self):
        self.inner = Ranking()

    def index(self, events):
        self.inner.index(events)

    def search(self, query, k):
        return self.inner.search(query, k)


@pytest.mark.parametrize("index", [None, HybridIndex, Ranking, OnlyIds])
@pytest.mark.parametrize(("clue", "scene"), CLUES)
def test_one_clue_among_sixty_entries_is_in_view_with_every_index(index, clue, scene):
    log = [entry(0, clue, kind="clue.found")]
    log += [entry(number, f"loaf number {number} came out of the oven") for number in range(1, 60)]
    view = SalienceMemory("baker", index=None if index is None else index())
    assert log[0] in view.visible(log, scene, turn=60)
    assert view.scored(log, scene, turn=60)[0].relevance > 0.2


def test_an_index_with_nothing_that_stands_out_makes_nothing_relevant():
    log = [entry(number, f"loaf number {number}") for number in range(20)]
    found = SalienceMemory("baker", top_k=20, index=Ranking()).scored(log, "the silver locket")
    assert {item.relevance for item in found} == {0.0}


@pytest.mark.parametrize("given", [(0.2, 0.9), (None, None), (float("nan"), 0.1), ("high", "low")])
def test_scores_that_are_none_are_replaced_by_ranks(given):
    assert [score for _, score in _with_scores([(entry(1, "a"), given[0]), (entry(2, "b"), given[1])])] == [
        1.0,
        0.5,
    ]


def test_scores_stay_between_0_and_1():
    hits = [(entry(1, "a"), 1.2), (entry(2, "b"), 0.4), (entry(3, "c"), -0.3)]
    assert [score for _, score in _with_scores(hits)] == [1.0, 0.4, 0.0]
    assert isinstance(HybridIndex(), ScoredMemoryIndex)
    assert not isinstance(OnlyIds(), ScoredMemoryIndex)
