"""Layers 1 to 3 of the agent-ledger memory: the window, salience, reflection, and the belief graph over them."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.errors import InvalidInput
from sense_memory.mind.beliefs import BeliefGraph
from sense_memory.mind.episodic import GLOBAL_KINDS, EpisodicMemory
from sense_memory.mind.log import LogEntry
from sense_memory.mind.memory_index import HybridIndex, MemoryIndex
from sense_memory.mind.reflection import ReflectionTracker, digest
from sense_memory.mind.salience import SalienceMemory


KINDS = (*sorted(GLOBAL_KINDS), "agent.spoke", "agent.thought", "clue.found")


def entry(number, kind="agent.spoke", actor="baker", text="", turn=None, **payload):
    return LogEntry(
        f"evt-{number}",
        kind,
        actor,
        {"text": text} | payload,
        float(number),
        number if turn is None else turn,
    )


def played(count, seed=7):
    """A log of three agents and the world."""
    chance = random.Random(seed)
    actors = ("baker", "smith", "judge", "world")
    return [
        entry(number, chance.choice(KINDS), chance.choice(actors), f"line {number} of the play")
        for number in range(count)
    ]


# ── The window ──────────────────────────────────────────────────────────────────────────


def test_the_window_holds_the_newest_own_and_globally_visible_entries_in_order():
    log = played(200)
    expected = [item for item in log if item.actor == "baker" or item.kind in GLOBAL_KINDS][-8:]
    assert EpisodicMemory("baker", max_recent=8).visible(log) == expected


def test_nobody_sees_what_another_agent_thought():
    secret = entry(1, "agent.thought", "smith", "I stole the bread")
    for view in (
        EpisodicMemory("baker"),
        SalienceMemory("baker"),
        SalienceMemory("baker", index=HybridIndex()),
    ):
        assert view.visible([secret]) == []
    assert EpisodicMemory("smith").visible([secret]) == [secret]


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_window_of_no_entries_is_refused(size):
    with pytest.raises(InvalidInput):
        EpisodicMemory("baker", max_recent=size)
    with pytest.raises(InvalidInput):
        SalienceMemory("baker", top_k=size)


# ── Salience ────────────────────────────────────────────────────────────────────────────


def test_salience_is_the_documented_sum():
    log = [
        entry(0, "clue.found", text="a red key under the mat", turn=0),
        entry(1, "agent.spoke", text="good morning", turn=10),
    ]
    clue, greeting = SalienceMemory("baker").scored(log, "who has the red key", turn=12)
    assert clue.salience == pytest.approx(0.30 * (3 / 8) + 0.40 * exp(-1.2) + 0.30 * 0.80)
    assert greeting.salience == pytest.approx(0.30 * 0.0 + 0.40 * exp(-0.2) + 0.30 * 0.50)


@pytest.mark.parametrize(
    ("kind", "importance"),
    [
        ("user.injected", 0.95),
        ("verdict.final", 1.00),
        ("judge.verdict", 0.90),
        ("agent.reflected", 0.85),
        ("clue.found", 0.80),
        ("world.observed", 0.70),
        ("agent.spoke", 0.50),
        ("agent.thought", 0.40),
        ("run.started", 0.30),
    ],
)
def test_importance_goes_by_kind(kind, importance):
    assert SalienceMemory("baker").scored([entry(1, kind)])[0].importance == importance


def test_the_most_salient_entries_come_in_the_order_of_time():
    log = played(100)
    found = SalienceMemory("baker", top_k=12).visible(log, "line 3 of the play")
    assert len(found) == 12
    assert found == sorted(found, key=lambda item: item.at)


def test_an_entry_that_claims_a_later_turn_fades_like_the_others():
    log = [entry(0, text="rain", turn=1), entry(1, actor="baker", text="me first", turn=10**9)]
    honest, claimed = SalienceMemory("baker").scored(log, turn=1)
    assert honest.recency == claimed.recency == 1.0
    later = [*log, entry(2, text="sun", turn=30)]
    honest, claimed, newest = SalienceMemory("baker").scored(later, turn=30)
    assert honest.recency == claimed.recency < 0.1 < newest.recency


def test_a_planted_clue_comes_back_after_two_hundred_turns():
    clue = entry(0, "clue.found", text="the silver locket was hidden in the mill", turn=0)
    log = [
        clue,
        *(entry(turn, text=f"small talk about the weather, day {turn}", turn=turn) for turn in range(1, 200)),
    ]
    scene = "Where was the silver locket hidden?"
    assert clue not in EpisodicMemory("baker").visible(log)
    assert clue in SalienceMemory("baker").visible(log, scene, turn=200)
    assert clue in SalienceMemory("baker", index=HybridIndex()).visible(log, scene, turn=200)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.text(max_size=20), st.integers(0, 30)), max_size=30),
    st.text(),
)
def test_without_an_index_salience_depends_on_the_arguments_alone(drawn, scene):
    log = [entry(number, kind, text=text, turn=turn) for number, (kind, text, turn) in enumerate(drawn)]
    view = SalienceMemory("baker", top_k=5)
    assert repr(view.scored(log, scene, 31)) == repr(view.scored(list(log), scene, 31))
    assert {item.id for item in view.visible(log, scene)} <= {item.id for item in log}


def test_indexing_an_entry_twice_changes_nothing():
    index = HybridIndex()
    assert isinstance(index, MemoryIndex)
    log = tuple(played(20))
    index.index(log)
    first = index.search("line 3", 5)
    index.index(log)
    assert index.search("line 3", 5) == first
    assert index.search("line 3", 0) == []


# ── Reflection ──────────────────────────────────────────────────────────────────────────


def reflection(number, actor="baker", belief="the smith lies", based_on=(), **more):
    return LogEntry(
        f"ref-{number}",
        "agent.reflected",
        actor,
        {"belief": belief, "based_on": list(based_on)} | more,
        float(number),
        number,
    )


def test_a_reflection_is_due_after_so_many_visible_entries_since_the_last():
    tracker = ReflectionTracker("baker", threshold=5)
    log = [entry(number) for number in range(4)] + [entry(9, "agent.thought", "smith")]
    assert not tracker.observe(log)
    log.append(entry(10))
    assert tracker.observe(log)
    log.append(reflection(11))
    assert not tracker.observe(log)
    assert tracker.pending([*log, reflection(12, "smith"), entry(13)]) == [entry(13)]


def test_reflections_compact_a_context_from_n_times_k_plus_window_to_k_plus_window():
    every, rounds, window = 10, 20, 8
    log = []
    for turn in range(every * rounds):
        log.append(entry(turn))
        if (turn + 1) % every == 0:
            log.append(reflection(turn + 0.5, based_on=[item.id for item in log[-every:]]))
    log += [entry(1_000 + turn) for turn in range(window)]
    assert len(digest(log, "baker", window)) == rounds + window


# ── Beliefs ─────────────────────────────────────────────────────────────────────────────


def test_a_belief_has_the_confidence_and_the_support_that_its_reflection_says_and_no_other():
    log = [
        entry(1),
        entry(2),
        reflection(3, belief="the smith lies about the bread", based_on=["evt-1", "evt-2", "evt-99"]),
        reflection(4, "judge", belief="the smith lies about the bread again"),
        reflection(5, belief="the mill is haunted", confidence=0.7),
        reflection(
            6, "judge", belief="the smith is no honest man", confidence=0.9, supports=["ref-3", "ref-99"]
        ),
    ]
    graph = BeliefGraph(log)
    belief = graph.belief("ref-3")
    assert (belief.evidence, belief.missing, belief.supports) == (("evt-1", "evt-2"), 1, ("ref-6",))
    assert belief.confidence is None
    assert graph.belief("ref-4").supports == ()
    assert graph.evidence("ref-3") == log[:2]
    assert [found.id for found in graph.about("is the mill haunted?", limit=1)] == ["ref-5"]
    assert [found.id for found in graph.beliefs(holder="judge")] == ["ref-6", "ref-4"]
    assert [found.id for found in graph.beliefs()] == ["ref-6", "ref-5", "ref-4", "ref-3"]
    assert [found.id for found in graph.beliefs(at_least=0.8)] == ["ref-6"]


@pytest.mark.parametrize("value", [7, -0.1, "high", True, float("nan"), None, [0.5]])
def test_what_is_no_confidence_is_none(value):
    assert BeliefGraph([reflection(1, confidence=value)]).belief("ref-1").confidence is None


CONTRADICTING = [
    ("The smith lives in Graz", "The smith lives in Linz"),
    ("The gate is open at night", "The gate is closed at night"),
    ("The baker trusts the judge", "The baker does not trust the judge"),
    ("The mill has two doors", "The mill has three doors"),
    ("The fair begins on Monday", "The fair begins on Tuesday"),
    ("The smith works at the mill", "The smith no longer works at the mill"),
]


@pytest.mark.parametrize(("one", "other"), CONTRADICTING)
@pytest.mark.parametrize("number", [2, 12])
def test_beliefs_that_cannot_both_be_true_are_in_tension_and_no_support(one, other, number):
    """Whatever numbers their ids have."""
    log = [reflection(number, belief=one), reflection(number + 1, "judge", belief=other)]
    graph = BeliefGraph(log)
    assert [(old.id, new.id) for old, new in graph.tensions()] == [(f"ref-{number}", f"ref-{number + 1}")]
    assert graph.belief(f"ref-{number}").supports == ()


def test_a_tension_that_no_rule_sees_is_kept_where_a_model_says_so():
    log = [
        reflection(2, belief="The night watch can be relied on"),
        reflection(
            3, belief="Nobody was at the gate when it mattered", contradicts=["ref-2"], supports=["ref-2"]
        ),
    ]
    graph = BeliefGraph(log)
    assert [(old.id, new.id) for old, new in graph.tensions()] == [("ref-2", "ref-3")]
    assert graph.belief("ref-3").supports == ()


def test_what_two_speakers_say_of_themselves_is_no_tension():
    said = [("baker", "baker: I live in Graz."), ("judge", "smith: I live in Linz.")]
    log = [
        reflection(number, who, belief=text, is_by_rule=True) for number, (who, text) in enumerate(said, 2)
    ]
    assert BeliefGraph(log).tensions() == []


@pytest.mark.parametrize("at", [-1.0, -1e300, 1e300])
def test_a_reflection_of_any_claimed_time_keeps_no_belief_from_anybody(at):
    claimed = replace(reflection(2, "judge", belief="The smith lives in Linz"), at=at)
    graph = BeliefGraph([claimed, reflection(3, belief="The smith lives in Graz")])
    assert {belief.id for belief in graph.beliefs()} == {"ref-2", "ref-3"}
    assert [{old.id, new.id} for old, new in graph.tensions()] == [{"ref-2", "ref-3"}]


@given(st.lists(st.tuples(st.text(max_size=30), st.lists(st.integers(0, 40), max_size=4)), max_size=12))
def test_the_evidence_of_a_belief_is_in_the_log(drawn):
    log = [entry(number) for number in range(10)]
    log += [
        reflection(number + 100, belief=text, based_on=[f"evt-{name}" for name in named])
        for number, (text, named) in enumerate(drawn)
    ]
    for belief in BeliefGraph(log).beliefs():
        assert belief.confidence is None
        assert set(belief.evidence) <= {item.id for item in log}
