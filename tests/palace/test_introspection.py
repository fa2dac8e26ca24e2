"""Introspection: what each list of the report means, what changed since the last run, and the log between them."""

from __future__ import annotations

import random
from dataclasses import fields

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.limits import LEAST_SUSPICION, MAX_PLAINTEXT_BYTES, SUGGESTED_PAIRS_COUNT
from sense_memory.models import IntrospectionReport, PersonaMemory, State
from sense_memory.palace import introspection_log as logs
from sense_memory.palace.catalog import Columns
from sense_memory.palace.contradictions.detection import Contradiction
from sense_memory.palace.introspection import introspect
from sense_memory.palace.introspection_log import LISTS, Baseline, from_log
from sense_memory.palace.lifecycle import current_relevance, current_state


NOW = 1_775_000_000.0  # 2026-03-31
DAY = 86_400.0
seeded = settings(max_examples=30, deadline=None, derandomize=True)

# Days without an access after which a memory with the default half-life stands so.
AGES = {State.ACTIVE: 0, State.FADING: 61, State.FORGOTTEN: 121, State.DISSOLVED: 301}


def memory(path, state=State.ACTIVE, **given):
    domain, facet, key = path.split("/")
    written = NOW - AGES[state] * DAY
    return PersonaMemory(
        **{"domain": domain, "facet": facet, "key": key, "value": "text", "created_at": written} | given
    )


def paths(items):
    return [item.path for item in items]


def pairs(items):
    return [(one.path, other.path) for one, other in items]


def through_a_log(report):
    """What the next run gets: through JSON, as an event carries it."""
    return from_log(orjson.loads(orjson.dumps(report.to_log())))


# ── Counts ──────────────────────────────────────────────────────────────────────────────


def test_everybody_is_counted_by_current_state_whatever_was_stored():
    palace = [
        *[memory(f"a/facts/{number}") for number in range(4)],
        *[memory(f"b/facts/{number}", State.FADING) for number in range(3)],
        *[memory(f"c/facts/{number}", State.FORGOTTEN) for number in range(2)],
        memory("d/facts/1", State.DISSOLVED),
    ]
    report = introspect(palace, NOW)
    assert (report.total_memories, report.active, report.fading, report.forgotten, report.dissolved) == (
        10,
        4,
        3,
        2,
        1,
    )
    assert report.created_at == NOW


def test_an_empty_palace_has_nothing_to_tell():
    report = introspect([], NOW)
    assert report.total_memories == 0
    assert all(getattr(report, name) == () for name in LISTS)
    assert introspect([], NOW + DAY, previous=through_a_log(report)).changes.exact


# ── What needs attention ────────────────────────────────────────────────────────────────


def test_contradictions_are_pairs_of_links_whose_both_ends_are_there():
    palace = [
        memory("a/facts/old", contradicts=["a/facts/new", "a/facts/missing"]),
        memory("a/facts/new", created_at=NOW - 5),
        memory("a/facts/left", superseded_by="right", created_at=NOW - 9),
        memory("a/facts/right", created_at=NOW - 7),
        memory("a/facts/alone", contradicts=["x/y/z"], superseded_by="nobody"),
    ]
    report = introspect(palace, NOW)
    assert pairs(report.contradictions) == [("a/facts/old", "a/facts/new"), ("a/facts/left", "a/facts/right")]
    assert report.reasons["contradictions"] == (
        "a/facts/old is contradicted by a/facts/new",
        "a/facts/left is superseded by a/facts/right",
    )


def test_a_pair_that_names_each_other_is_listed_once_the_older_first():
    palace = [
        memory("a/facts/x", contradicts=["a/facts/y"], created_at=NOW - 1),
        memory("a/facts/y", contradicts=["a/facts/x"], superseded_by="a/facts/x", created_at=NOW - 2),
    ]
    report = introspect(palace, NOW)
    assert pairs(report.contradictions) == [("a/facts/y", "a/facts/x")]
    assert report.reasons["contradictions"] == ("a/facts/y is superseded by a/facts/x",)


def test_siblings_of_concurrent_edits_are_conflicts():
    palace = [memory("a/facts/x"), memory("a/facts/x~1", conflict_of="a/facts/x")]
    report = introspect(palace, NOW)
    assert paths(report.conflicts) == ["a/facts/x~1"]
    assert "a/facts/x on another device" in report.reasons["conflicts"][0]


def test_stale_beliefs_are_doubtful_and_hardly_used():
    palace = [
        memory("a/beliefs/stale", State.FADING, confidence=0.49),
        memory("a/beliefs/buried", State.FORGOTTEN, confidence=0.0),
        memory("a/beliefs/doubtful", State.ACTIVE, confidence=0.49),
        memory("a/beliefs/even", State.FADING, confidence=0.5),
        memory("a/facts/other", State.FADING, confidence=0.1),
        memory("a/beliefs/over", State.DISSOLVED, confidence=0.1),
    ]
    report = introspect(palace, NOW)
    assert paths(report.stale_beliefs) == ["a/beliefs/stale", "a/beliefs/buried"]
    assert report.reasons["stale_beliefs"][0] == "confidence 0.49, relevance 0.24"


def test_a_belief_at_the_bound_of_active_is_stale_and_just_above_it_is_not():
    below, above = (
        memory(f"a/beliefs/{key}", confidence=0.1, relevance=value)
        for key, value in (("b", 0.3), ("a", 0.301))
    )
    assert introspect([below, above], NOW).stale_beliefs == (below,)


def test_orphans_are_active_or_fading_and_connected_to_nobody_in_either_direction():
    palace = [
        memory("a/facts/from", connections=["a/facts/to"]),
        memory("a/facts/to"),
        memory("a/facts/alone"),
        memory("a/facts/fading", State.FADING),
        memory("a/facts/missing", connections=["x/y/z"]),
        memory("a/facts/self", connections=["a/facts/self"]),
        memory("a/facts/forgotten", State.FORGOTTEN),
    ]
    report = introspect(palace, NOW)
    assert set(paths(report.orphaned)) == {
        "a/facts/alone",
        "a/facts/fading",
        "a/facts/missing",
        "a/facts/self",
    }
    why = dict(zip(paths(report.orphaned), report.reasons["orphaned"], strict=True))
    assert why["a/facts/alone"] == "no connections"
    assert why["a/facts/missing"] == "its connections lead to no existing memory"


def test_a_facet_is_overloaded_above_fifty_active_memories():
    full = [memory(f"a/facts/{number}") for number in range(51)]
    report = introspect([*full, memory("b/facts/x")], NOW)
    assert report.overloaded_facets == ("a/facts",)
    assert report.reasons["overloaded_facets"] == ("51 active memories, more than 50",)
    assert introspect([*full[1:], memory("a/facts/old", State.FADING)], NOW).overloaded_facets == ()


# ── Suggestions ─────────────────────────────────────────────────────────────────────────


def test_connections_are_suggested_with_what_is_shared():
    palace = [memory("a/facts/x", themes=["art", "sea"]), memory("b/facts/y", themes=["Sea", "Art"])]
    report = introspect(palace, NOW)
    assert pairs(report.suggested_connections) == [("a/facts/x", "b/facts/y")]
    assert report.reasons["suggested_connections"] == ("share: art, sea",)
    assert "suggested_connections" not in report.bounded


def test_pairs_near_in_meaning_are_suggested_too():
    palace = [memory("a/facts/x"), memory("b/facts/y")]
    report = introspect(palace, NOW, near=[("b/facts/y", "a/facts/x", 0.91)])
    assert report.reasons["suggested_connections"] == ("near in meaning (0.91)",)


def verdict(old, new, confidence=0.7):
    return Contradiction(old, new, "negation", confidence, "no longer", acts=False)


def test_no_connection_is_suggested_for_a_pair_that_is_suspected_to_contradict():
    """One dismissal settles every question about a pair, so there is one question."""
    palace = [memory(f"a/facts/{name}", themes=["art", "sea"]) for name in ("x", "y", "z")]
    near = [("a/facts/x", "a/facts/y", 0.91)]
    others = [("a/facts/x", "a/facts/z"), ("a/facts/y", "a/facts/z")]
    for found in (verdict("a/facts/x", "a/facts/y"), verdict("a/facts/y", "a/facts/x")):
        report = introspect(palace, NOW, suspected=[found, verdict("a/facts/gone", "a/facts/x")], near=near)
        assert pairs(report.suggested_connections) == others
    for faint in ([], [verdict("a/facts/x", "a/facts/y", LEAST_SUSPICION / 2)]):
        report = introspect(palace, NOW, suspected=faint, near=near)
        assert sorted(pairs(report.suggested_connections)) == [("a/facts/x", "a/facts/y"), *others]


def test_suspected_contradictions_are_passed_on_unless_they_are_settled_dissolved_or_gone():
    palace = [
        memory("a/facts/x"),
        memory("a/facts/y"),
        memory("a/facts/z", contradicts=["a/facts/x"]),
        memory("a/facts/over", State.DISSOLVED),
    ]
    found = [
        verdict("a/facts/x", "a/facts/y"),
        verdict("a/facts/y", "a/facts/x", 0.9),
        verdict("a/facts/x", "a/facts/z"),
        verdict("a/facts/over", "a/facts/x"),
        verdict("a/facts/gone", "a/facts/x"),
        verdict("a/facts/x", "a/facts/x"),
        verdict("a/facts/z", "a/facts/y", 0.8),
    ]
    report = introspect(palace, NOW, suspected=found)
    assert [(item.old.path, item.new.path, item.confidence) for item in report.suggested_contradictions] == [
        ("a/facts/y", "a/facts/x", 0.9),
        ("a/facts/z", "a/facts/y", 0.8),
    ]
    assert report.reasons["suggested_contradictions"] == ("no longer", "no longer")
    assert "suggested_contradictions" not in report.bounded


def test_a_search_for_contradictions_that_was_cut_or_not_made_is_pointed_out():
    palace = [memory(f"a/facts/{number:03}") for number in range(SUGGESTED_PAIRS_COUNT + 2)]
    found = [verdict("a/facts/000", item.path) for item in palace[1:]]
    assert (
        introspect(palace, NOW).bounded["suggested_contradictions"] == "contradictions were not searched for"
    )
    report = introspect(palace, NOW, suspected=found, all_searched=False)
    assert len(report.suggested_contradictions) == SUGGESTED_PAIRS_COUNT
    assert report.bounded["suggested_contradictions"] == (
        "not every memory was compared with every other; only the best 50 of 51 are listed"
    )


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (memory("a/beliefs/x", confidence=0.3), "confidence 0.3"),
        (memory("a/beliefs/x", State.FADING, confidence=0.3), "confidence 0.3"),
        (memory("a/beliefs/x", State.FORGOTTEN, confidence=0.3), None),
        (memory("a/facts/x", confidence=0.3), None),
        (
            memory("a/facts/x", contradicts=["a/facts/other"]),
            "still active, though a/facts/other contradicts it",
        ),
        (memory("a/facts/x", contradicts=["a/facts/gone"]), None),
        (memory("a/facts/x", contradicts=["a/facts/other"], superseded_by="a/facts/other"), None),
        (memory("a/facts/x", contradicts=["a/facts/other"], relevance=0.5), None),
        (memory("a/beliefs/x", last_reinforced=NOW - 90 * DAY), "not reinforced for 3 half-lives"),
        (memory("a/beliefs/x", last_reinforced=NOW - 89 * DAY), None),
        (memory("a/facts/x", last_reinforced=NOW - 900 * DAY), None),
        (
            memory("a/decisions/x", value="Use Kokoro until 2026-03-30, then look again"),
            "its end, 2026-03-30, has passed",
        ),
        (memory("a/decisions/x", value="Use Kokoro until 2026-03-31"), None),
        (memory("a/decisions/x", value="Use Kokoro until 2026-04-01"), None),
        (memory("a/decisions/x", value="Chose Orpheus on 2026-03-01"), None),
        (memory("a/decisions/x", State.FADING, value="The offer expires on 2026-01-01"), None),
        (memory("a/facts/x", value="The offer expires on 2026-01-01"), None),
    ],
)
def test_a_memory_is_to_be_revised_for_a_clear_reason(item, reason):
    report = introspect([item, memory("a/facts/other")], NOW)
    found = dict(zip(paths(report.suggested_revisions), report.reasons["suggested_revisions"], strict=True))
    assert found == ({} if reason is None else {item.path: reason})


def test_a_memory_with_several_reasons_is_listed_once_with_all_of_them():
    item = memory("a/beliefs/x", confidence=0.2, last_reinforced=NOW - 150 * DAY)
    report = introspect([item], NOW)
    assert report.reasons["suggested_revisions"] == ("confidence 0.2; not reinforced for 5 half-lives",)


def test_domains_that_fill_a_prompt_could_be_compressed():
    fits = memory("a/facts/x", value="v" * 1_999)
    over = memory("b/facts/x", value="v" * 2_000)
    faded = memory("c/facts/x", State.FADING, value="v" * 9_000)
    report = introspect([fits, over, faded], NOW)
    assert report.suggested_compressions == ("b",)
    assert report.reasons["suggested_compressions"] == (
        "about 501 tokens of active memories; the target is 500",
    )


def test_a_domain_with_an_overloaded_facet_could_be_compressed_however_short_its_memories_are():
    report = introspect([memory(f"a/facts/{number}", value="") for number in range(51)], NOW)
    assert report.suggested_compressions == ("a",)
    assert report.reasons["suggested_compressions"] == ("a facet has too many active memories",)


# ── The report as a whole ───────────────────────────────────────────────────────────────


PATHS = [f"{domain}/{facet}/{key}" for domain in "ab" for facet in ("facts", "beliefs") for key in "xyz"]
links = st.lists(st.sampled_from([*PATHS, "x", "gone/facts/x"]), max_size=2)


@st.composite
def palaces(draw):
    chosen = draw(st.lists(st.sampled_from(PATHS), unique=True))
    return [
        memory(
            path,
            draw(st.sampled_from(State)),
            confidence=draw(st.sampled_from([0.2, 0.5, 1.0])),
            connections=draw(links),
            contradicts=draw(links),
            superseded_by=draw(st.sampled_from([None, *PATHS])),
            themes=draw(st.lists(st.sampled_from(["art", "sea", "ink"]), max_size=3)),
        )
        for path in chosen
    ]


@seeded
@given(palaces(), st.randoms())
def test_the_order_of_the_memories_does_not_matter(palace, dice):
    shuffled = list(palace)
    dice.shuffle(shuffled)
    report = introspect(palace, NOW)
    again = introspect(shuffled, NOW, columns=Columns.of(shuffled))
    assert again == report
    assert again.to_log() == report.to_log()


@seeded
@given(palaces())
def test_lists_agree_with_their_definitions(palace):
    def ends(links):
        named = [item for item in palace for link in links if link in {item.path, item.key}]
        return {item.path for item in named if sum(other.key == item.key for other in palace) == 1} | {
            item.path for item in named if item.path in links
        }

    report = introspect(palace, NOW)
    opposed = {
        frozenset((item.path, end))
        for item in palace
        for end in ends([*item.contradicts, item.superseded_by]) - {item.path}
    }
    assert {frozenset(pair) for pair in pairs(report.contradictions)} == opposed
    assert len(report.contradictions) == len(opposed)
    linked = {
        path for item in palace for end in ends(item.connections) - {item.path} for path in (end, item.path)
    }
    alive = {item.path for item in palace if current_relevance(item, NOW) >= 0.1}
    assert set(paths(report.orphaned)) == alive - linked
    for name in LISTS:
        assert len(report.reasons[name]) == len(getattr(report, name))
        assert all(report.reasons[name])


def test_the_most_relevant_are_listed_first():
    palace = [
        memory(f"a/facts/{key}", relevance=value) for key, value in (("x", 0.5), ("y", 0.9), ("z", 0.5))
    ]
    assert paths(introspect(palace, NOW).orphaned) == ["a/facts/y", "a/facts/x", "a/facts/z"]


def test_a_report_shows_counts_and_no_texts():
    palace = [memory(f"a/facts/{key}", value="secret words", themes=["hidden", "veiled"]) for key in "xy"]
    shown = repr(introspect(palace, NOW))
    assert "orphaned=2" in shown
    assert "suggested_connections=1" in shown
    assert not any(word in shown for word in ("secret", "hidden", "veiled"))


def test_a_report_has_every_field_of_the_specification_and_is_json():
    names = "total_memories active fading forgotten contradictions stale_beliefs orphaned overloaded_facets"
    suggestions = "suggested_connections suggested_revisions suggested_compressions"
    assert {*names.split(), *suggestions.split()} <= set(IntrospectionReport.model_fields)
    report = introspect([memory("a/facts/x", contradicts=["a/facts/y"]), memory("a/facts/y")], NOW)
    restored = IntrospectionReport.model_validate_json(report.model_dump_json())
    assert restored == report.model_copy(update={"log": {}})
    assert IntrospectionReport.model_json_schema()["properties"]["contradictions"]["type"] == "array"


# ── Changes ─────────────────────────────────────────────────────────────────────────────


@st.composite
def histories(draw):
    """A palace, and what it has become when some time had passed."""
    before = draw(palaces())
    later = NOW + draw(st.sampled_from([0, 20, 40, 90])) * DAY
    after = []
    for item in before:
        match draw(st.sampled_from(["keep", "keep", "drop", "recall", "edit"])):
            case "keep":
                after.append(item)
            case "recall":
                after.append(item.changed(relevance=1.0, last_accessed=max(later, NOW + 1)))
            case "edit":
                written = draw(st.sampled_from([max(later, NOW + 1), NOW - 7]))  # here, or elsewhere before
                edited = {"contradicts": tuple(draw(links)), "last_reinforced": max(later, NOW + 1)}
                after.append(item.changed(**edited, written_at=written))
    there = {item.path for item in before}
    added = set(draw(st.lists(st.sampled_from(PATHS), max_size=3))) - there
    after += [memory(path, created_at=max(later, NOW + 1)) for path in sorted(added)]
    return before, after, later


def by_brute_force(before, after, later):
    """The changes, by the definition."""
    ranks = list(reversed(State))
    old = {item.path: current_state(item, NOW) for item in before}
    new = {item.path: current_state(item, later) for item in after}
    both = {path: (old[path], new[path]) for path in old.keys() & new.keys()}
    found = {"new": new.keys() - old.keys(), "gone": old.keys() - new.keys()}
    for name, state in (("faded", "fading"), ("forgotten", "forgotten"), ("dissolved", "dissolved")):
        found[name] = {
            path for path, (a, b) in both.items() if b == state and ranks.index(b) < ranks.index(a)
        }
    found["revived"] = {path for path, (a, b) in both.items() if ranks.index(b) > ranks.index(a)}
    texts = [{item.path: item.written_at for item in palace} for palace in (before, after)]
    found["rewritten"] = {path for path in both if texts[0][path] != texts[1][path]}
    return {name: tuple(sorted(items)) for name, items in found.items()}


@seeded
@given(histories())
def test_changes_of_a_small_palace_are_exact(history):
    before, after, later = history
    first = introspect(before, NOW)
    changes = introspect(after, later, previous=through_a_log(first)).changes
    truth = by_brute_force(before, after, later)
    assert {name: getattr(changes, name) for name in truth} == truth
    assert (changes.exact, changes.untold, changes.since) == (True, (), NOW)
    assert changes.before == {
        State.ACTIVE: first.active,
        State.FADING: first.fading,
        State.FORGOTTEN: first.forgotten,
        State.DISSOLVED: first.dissolved,
    }
    old = {frozenset(pair) for pair in pairs(first.contradictions)}
    now = {frozenset(pair) for pair in pairs(introspect(after, later).contradictions)}
    assert {frozenset(pair) for pair in changes.contradicted} == now - old
    assert {*changes.contradicted} <= {*pairs(introspect(after, later).contradictions)}
    assert {frozenset(pair) for pair in changes.settled} == {
        pair for pair in old - now if pair <= {item.path for item in after}
    }


@seeded
@given(histories(), st.sampled_from([0, 45, 80]))
def test_where_a_log_could_not_list_everybody_what_is_told_is_true_and_the_rest_is_pointed_out(history, room):
    before, after, later = history
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LOG_BASELINE_BYTES", room)
        previous = through_a_log(introspect(before, NOW))
    changes = introspect(after, later, previous=previous).changes
    truth = by_brute_force(before, after, later)
    for name, items in truth.items():
        assert set(getattr(changes, name)) <= set(items), name
    if changes.exact:
        assert {name: getattr(changes, name) for name in truth} == truth
    touched = {item.path for item in after if max(item.last_accessed, item.last_reinforced) > NOW}
    for name in ("new", "faded", "forgotten", "dissolved"):
        assert set(truth[name]) - touched <= set(getattr(changes, name)), name
    hidden = len(truth["gone"]) - len(changes.gone)
    assert (f"memories that are gone, and whose names are not known: {hidden:,}" in changes.untold) == (
        hidden > 0
    )


def test_a_state_that_was_not_listed_is_known_where_it_is_the_only_one():
    palace = [memory(f"a/facts/active-{number:04}") for number in range(1_000)]
    faded = memory("a/facts/faded", State.FADING)
    first = introspect([*palace, faded], NOW)
    recalled = [item.changed(last_accessed=NOW + DAY) for item in (*palace, faded)]
    changes = introspect(recalled, NOW + DAY, previous=through_a_log(first)).changes
    assert changes.revived == ("a/facts/faded",)
    assert changes.faded == changes.forgotten == changes.new == ()
    assert not changes.exact


def test_where_nobody_moved_the_changes_are_exact_however_large_the_palace_is(monkeypatch):
    palace = [memory("a/facts/x"), memory("a/facts/y", State.FADING)]
    monkeypatch.setattr(logs, "LOG_BASELINE_BYTES", 0)
    previous = through_a_log(introspect(palace, NOW))
    assert introspect(palace, NOW + 1, previous=previous).changes.exact
    assert not introspect(palace, NOW + 60 * DAY, previous=previous).changes.exact


def unlisted_but_fading():
    """A log that lists who was fading, nobody, but neither the active one nor the forgotten one."""
    counts = {State.ACTIVE: 1, State.FADING: 0, State.FORGOTTEN: 1, State.DISSOLVED: 0}
    complete = frozenset({State.FADING, State.DISSOLVED})
    return Baseline(NOW, counts, {}, complete, frozenset(), digest="")


def test_a_memory_that_was_touched_since_is_not_said_to_have_moved():
    """It was forgotten, lost its contradictions, and faded: computed backwards it would have been active."""
    touched = memory("a/facts/x", last_accessed=NOW, last_reinforced=NOW + DAY)
    changes = introspect([touched], NOW + 61 * DAY, previous=unlisted_but_fading()).changes
    assert changes.faded == changes.revived == ()
    assert "memories that are not listed, and were recalled or changed since: 1" in changes.untold


def test_a_state_that_can_not_have_been_is_not_computed():
    """Its links were changed by a writer that left the times alone: computed backwards it was fading."""
    relinked = memory("a/facts/x", State.FADING, superseded_by=None)
    changes = introspect([relinked], NOW + 60 * DAY, previous=unlisted_but_fading()).changes
    assert changes.forgotten == ()
    assert any("recalled or changed since: 1" in untold for untold in changes.untold)


def test_too_many_contradictions_to_list_are_pointed_out(monkeypatch):
    palace = [memory("a/facts/x", contradicts=["a/facts/y"]), memory("a/facts/y")]
    monkeypatch.setattr(logs, "LOG_PAIRS_BYTES", 5)
    changes = introspect(palace, NOW, previous=through_a_log(introspect(palace, NOW))).changes
    assert changes.contradicted == ()
    assert changes.untold == ("new contradictions are unknown: the last log had no room for all of them",)


def test_without_a_log_to_compare_with_there_are_no_changes():
    assert introspect([memory("a/facts/x")], NOW).changes is None


@pytest.mark.parametrize(
    "log",
    [
        {},
        {"standing": None},
        {"created_at": NOW, "standing": {"counts": {}, "listed": [], "contradictions": None, "digest": ""}},
        {
            "created_at": NOW,
            "standing": {"counts": {"x": 1}, "listed": {}, "contradictions": None, "digest": ""},
        },
        {"created_at": "soon", "standing": {"counts": {}, "listed": {}, "contradictions": [], "digest": ""}},
        {"created_at": NOW, "standing": {"counts": {}, "listed": {}, "contradictions": [[1]], "digest": ""}},
        {"timestamp": NOW, "total_memories": 3, "orphaned": ["a"]},  # of the published 0.3.1
    ],
)
def test_a_log_of_another_kind_is_nothing_to_compare_with(log):
    assert from_log(log) is None


# ── The log ─────────────────────────────────────────────────────────────────────────────


def test_a_log_holds_keys_and_counts_and_no_texts():
    palace = [
        memory("a/beliefs/x", value="secret", themes=["hidden", "veiled"], confidence=0.1, source="spy"),
        memory("a/facts/y", value="secret", themes=["hidden", "veiled"], contradicts=["a/beliefs/x"]),
    ]
    report = introspect(palace, NOW, suspected=[])
    log = orjson.loads(orjson.dumps(report.to_log()))
    assert log["total_memories"] == 2
    assert log["contradictions"] == {"count": 1, "listed": [["a/facts/y", "a/beliefs/x"]]}
    assert log["suggested_revisions"] == {"count": 2, "listed": ["a/beliefs/x", "a/facts/y"]}
    assert not any(word in str(log) for word in ("secret", "hidden", "veiled", "spy"))


def test_a_small_palace_goes_through_a_log_unchanged():
    palace = [memory(path, state) for path, state in zip(PATHS, list(State) * 3, strict=True)]
    baseline = through_a_log(introspect(palace, NOW))
    assert baseline.listed == {item.path: current_state(item, NOW) for item in palace}
    assert baseline.complete == frozenset(State)
    assert {field.name for field in fields(Baseline)} >= {"counts", "listed", "digest"}


def test_a_log_of_the_longest_names_fits_one_event():
    wide = "\N{DROMEDARY CAMEL}"
    palace = [
        memory(
            f"{wide * 64}/{facet}/{wide * 252}{number:04}",
            state,
            contradicts=[f"{wide * 64}/{facet}/{wide * 252}{number - 1:04}"],
            themes=["art", "sea"],
            confidence=0.1,
            conflict_of="a/b/c" if number % 2 else None,
        )
        for number in range(400)
        for facet, state in (("beliefs", State.ACTIVE), (wide * 64, State.FADING))
    ]
    first = introspect(palace, NOW)
    later = introspect(palace[::2], NOW + 90 * DAY, previous=through_a_log(first), suspected=[])
    assert len(orjson.dumps(first.to_log())) < MAX_PLAINTEXT_BYTES - 4_096
    assert len(orjson.dumps(later.to_log())) < MAX_PLAINTEXT_BYTES - 4_096


def test_twenty_thousand_memories_fit_one_log_and_bounded_lists_say_so():
    dice = random.Random(1)
    base = memory("a/beliefs/x")
    ages, themes = [dice.random() * 400 * DAY for _ in range(1_000)], ["art", "sea", "ink", "bread"]
    palace = [
        base.changed(
            key=f"insight-{number:06}",
            facet="beliefs" if number % 3 else "facts",
            last_accessed=NOW - ages[number % 1_000],
            created_at=NOW - 400 * DAY,
            confidence=0.2 + number % 2,
            themes=tuple(themes[number % 3 :]),
            contradicts=(f"a/facts/insight-{number - 1:06}",) if number % 10 == 1 else (),
        )
        for number in range(20_000)
    ]
    first = introspect(palace, NOW)
    assert first.active + first.fading + first.forgotten + first.dissolved == first.total_memories == 20_000
    assert len(orjson.dumps(first.to_log())) < MAX_PLAINTEXT_BYTES - 4_096
    assert len(first.suggested_connections) == SUGGESTED_PAIRS_COUNT
    assert first.bounded["suggested_connections"]
    log = first.to_log()
    assert log["orphaned"]["count"] == len(first.orphaned) > len(log["orphaned"]["listed"]) > 0

    later = introspect(palace, NOW + 10 * DAY, previous=through_a_log(first))
    assert not later.changes.exact
    truth = [
        item.path
        for item in palace
        if current_state(item, NOW) is State.ACTIVE and current_state(item, NOW + 10 * DAY) is State.FADING
    ]
    assert list(later.changes.faded) == sorted(truth)
    assert later.changes.new == later.changes.gone == later.changes.revived == ()
    assert len(orjson.dumps(later.to_log())) < MAX_PLAINTEXT_BYTES - 4_096
    assert introspect(palace, NOW, previous=through_a_log(first)).changes.faded == ()


# ── Logs thin out ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ages", "kept"),
    [  # in hours before the end of a week
        ([], []),
        ([0.2, 0.4, 0.6], [0.2, 0.4, 0.6]),  # this hour is not over
        ([1.1, 1.3, 1.9, 2.5], [1.1, 2.5]),  # one an hour
        ([3, 30, 31, 52, 53, 54], [3, 30, 31, 52]),  # yesterday as it is, one for the day before
        ([24 * 20, 24 * 21 + 1, 24 * 22 + 1], [24 * 20, 24 * 21 + 1, 24 * 22 + 1]),  # one a day for a month
        ([24 * 43, 24 * 44, 24 * 45, 24 * 60], [24 * 43, 24 * 60]),  # then one a week
        ([9_000], [9_000]),  # never the newest, however old
    ],
)
def test_logs_are_kept_hourly_for_a_day_daily_for_a_month_and_weekly_after(ages, kept):
    end = 2_940 * 7 * DAY - 0.5  # the last second of a week
    seconds = {age: int(end - age * 3_600) for age in ages}
    gone = logs.outdated(seconds.values(), end)
    assert [age for age in ages if seconds[age] not in gone] == kept


@seeded
@given(
    st.lists(st.tuples(st.integers(0, 400 * 24), st.booleans(), st.booleans()), max_size=60),
    st.lists(st.integers(0, 400 * 24), max_size=4),
)
def test_devices_that_know_different_logs_keep_those_that_one_device_would_keep(known, times):
    end = NOW + 400 * DAY
    seconds = {int(NOW + hour * 3_600 // 7): (one, other or not one) for hour, one, other in known}
    gone = {
        second
        for now in (*(NOW + hour * 3_600 for hour in sorted(times)), end)
        for side in (0, 1)
        for second in logs.outdated([at for at, has in seconds.items() if has[side] and at <= now], now)
    }
    gone |= set(logs.outdated(seconds.keys() - gone, end))
    assert gone == set(logs.outdated(seconds, end))
    assert not seconds or max(seconds) not in gone


def test_a_confidence_out_of_range_does_not_cost_the_report():
    palace = [memory(f"a/facts/{name}") for name in "abcdef"]
    found = [
        Contradiction(f"a/facts/{one}", f"a/facts/{other}", "number", confidence, "one → two", acts=False)
        for one, other, confidence in (("a", "b", -0.04), ("c", "d", 1.7), ("e", "f", float("nan")))
    ]
    report = introspect(palace, NOW, suspected=found)
    assert [(item.old.key, item.confidence) for item in report.suggested_contradictions] == [("c", 1.0)]


# ── The digest ──────────────────────────────────────────────────────────────────────────


def test_forgotten_memories_are_listed_those_that_dissolve_first_at_the_top():
    palace = [
        memory("a/facts/slow", State.FORGOTTEN, halflife_days=31),
        memory("a/facts/quick", State.FORGOTTEN),
        memory("a/facts/gone", State.DISSOLVED),
    ]
    report = introspect(palace, NOW)
    assert paths(report.forgotten_memories) == ["a/facts/quick", "a/facts/slow"]
    assert report.reasons["forgotten_memories"] == ("dissolves in 78 days", "dissolves in 85 days")


def test_a_digest_tells_what_changed_then_what_to_decide_and_last_what_is_alone():
    before = introspect([memory("a/facts/one"), memory("a/beliefs/weak", confidence=0.2)], NOW - DAY)
    palace = [
        memory("a/facts/one", superseded_by="a/facts/two", contradicts=["a/facts/two"]),
        memory("a/facts/two", themes=["x", "y"]),
        memory("a/facts/three", themes=["x", "y"]),
        memory("a/beliefs/weak", confidence=0.2),
        memory("b/facts/lost", conflict_of="b/facts/won"),
        memory("b/facts/old", State.FORGOTTEN),
        *[memory(f"c/facts/{number}") for number in range(51)],
    ]
    found = [Contradiction("c/facts/1", "c/facts/2", "value", 0.6, "rome → oslo", acts=False)]
    report = introspect(palace, NOW, previous=through_a_log(before), suspected=found)
    assert [line.split(":")[0] for line in report.digest] == [
        "57 memories",
        "Since the last introspection, 24 hours ago",
        "Check 1 new mark",
        "Settle 1 lost edit",
        "Decide on 1 suspected contradiction",
        "Review 1 memory",
        "Recall or lose 1 forgotten memory",
        "Connect or decline 1 pair",
        "Compress or split 2 places",
        "Not connected with anything",
    ]
    assert report.digest[4] == ("Decide on 1 suspected contradiction: c/facts/1 against 2 (60%; rome → oslo)")


def test_a_digest_names_marks_until_they_are_removed_and_new_ones_first():
    def marked(*names):
        old = [memory(f"a/facts/{name}", superseded_by=f"b/facts/{name}") for name in names]
        return [*old, *(memory(f"b/facts/{name}") for name in "opq")]

    before, said = None, []
    for palace in (marked("o"), marked("o"), marked("o", "p", "q"), marked("p", "q"), marked()):
        report = introspect(palace, NOW, previous=before and through_a_log(before))
        said.append([line for line in report.digest if line.startswith("Check")])
        before = report
    one, two, three = (f"a/facts/{name} is superseded by b/facts/{name}" for name in "opq")
    assert said == [
        [f"Check 1 mark: {one}"],
        [f"Check 1 mark: {one}"],
        [f"Check 3 marks, 2 of them new: {two}; {three}; and 1 more"],
        [f"Check 2 marks: {two}; {three}"],
        [],
    ]


def test_a_mark_that_a_hand_set_or_confirmed_is_listed_last_and_not_to_be_checked():
    new = memory("b/facts/new")
    by_hand = {"contradicts": [new.path], "superseded_by": new.path, "marked_by_hand": [new.path]}
    report = introspect(
        [new, memory("a/facts/1", **by_hand), memory("a/facts/2", superseded_by=new.path)], NOW
    )
    assert report.reasons["contradictions"] == (
        "a/facts/2 is superseded by b/facts/new",
        "a/facts/1 is superseded by b/facts/new, decided by hand",
    )
    assert "Check 1 mark: a/facts/2 is superseded by b/facts/new" in report.digest


@seeded
@given(palaces())
def test_a_digest_has_at_most_ten_short_lines_and_stays_out_of_the_log(palace):
    long = [item.changed(key=item.key + "k" * 200) for item in palace]
    report = introspect({item.path: item for item in (*palace, *long)}.values(), NOW)
    assert 1 <= len(report.digest) <= 10
    assert max(map(len, report.digest)) <= 280
    assert "digest" not in report.to_log()
    assert report.digest[-1] not in repr(report)
