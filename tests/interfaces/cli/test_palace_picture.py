"""What the palace is drawn from: bars, shelves, curves, reports, names. Pure functions, looked at alone."""

from __future__ import annotations

import pytest

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.interfaces.cli import names
from sense_memory.interfaces.cli.palace import shapes
from sense_memory.interfaces.cli.palace.picture import ASCII, UNICODE, facts, fate, picture
from sense_memory.interfaces.cli.palace.reviews import (
    COMMAND,
    SECTIONS,
    prune_steps,
    report_data,
    report_lines,
)
from sense_memory.interfaces.cli.palace.shapes import (
    BOUNDS,
    Insight,
    Life,
    StateChoice,
    arrange,
    bar,
    counted,
    excerpt,
)
from sense_memory.interfaces.text import as_json
from sense_memory.models import IntrospectionReport, PalaceChanges, PersonaMemory, State
from sense_memory.palace.introspection import introspect
from sense_memory.palace.introspection_log import LISTS, from_log
from sense_memory.palace.lifecycle import current_relevance, current_state
from sense_memory.palace.pruning import PruneReport, plan


DAY = 86_400
NOW = 1_800_000_000.0


def memory(path="people/facts/lisa", value="artist", ago=0.0, **fields):
    domain, facet, key = path.split("/")
    made = PersonaMemory(
        domain=domain, facet=facet, key=key, value=value, created_at=NOW - ago * DAY, **fields
    )
    return made.changed(state=current_state(made, NOW))


def drawn(of, **options):
    """The rows of a picture, without styles."""
    return ["".join(text for text, _ in row) for row in picture(of, NOW, **{"width": 79, **options})]


# ── Bars and shelves ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("relevance", "shown"),
    [
        (1.4, "████"),
        (1.0, "████"),
        (0.5, "██░░"),
        (0.3, "█░░░"),
        (0.01, "█░░░"),
        (0.0099, "░░░░"),
        (0, "░░░░"),
    ],
)
def test_a_bar_is_as_long_as_what_is_left(relevance, shown):
    assert bar(relevance, width=4) == shown
    assert bar(relevance, width=4, is_ascii=True) == shown.replace("█", "#").replace("░", "-")


def test_states_are_those_of_memories():
    assert {state.value for state in StateChoice} == {state.value for state in State} == set(shapes.STYLES)


def test_memories_are_arranged_by_domain_and_facet_and_the_most_relevant_are_drawn():
    given = [Insight(memory(f"{path}/{number}"), 1 - number / 10) for number in range(4)
             for path in ("world/facts", "people/facts", "people/beliefs")]  # fmt: skip

    people, world = arrange(given, 3)

    assert (people.name, people.count, people.facet_count, world.name) == ("people", 8, 2, "world")
    assert [(facet.name, facet.count) for facet in people.facets] == [("beliefs", 4), ("facts", 4)]
    assert [insight.memory.key for insight in people.facets[1].insights] == ["0", "1", "2"]
    assert len(arrange(given, None)[0].facets[0].insights) == 4


def test_facets_are_bounded_too_unless_everything_is_wanted():
    given = [Insight(memory(f"world/facet-{number:02}/x"), 1) for number in range(30)]

    assert len(arrange(given, 5)[0].facets) == shapes.MAX_FACETS
    assert (arrange(given, 5)[0].facet_count, len(arrange(given, None)[0].facets)) == (30, 30)


def test_an_excerpt_is_one_line_and_says_what_has_superseded_it():
    assert excerpt(memory(value="a\nb\x1b"), 80) == "a↵ b\\u001b"
    assert excerpt(memory(superseded_by="people/facts/lisa-2"), 80) == "[superseded by lisa-2] artist"
    assert excerpt(memory(superseded_by="world/facts/x"), 80) == "[superseded by world/facts/x] artist"


def test_counts_in_words():
    assert counted({"fading": 1, "active": 1_200, "forgotten": 0}) == "1,200 active, 1 fading"
    assert counted({}) == ""


# ── The curve ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [{}, {"halflife_days": 3.0}, {"superseded_by": "a/b/c", "contradicts": ("a/b/c",)},
     {"connections": ("a/b/c", "a/b/d")}, {"relevance": 0.05}],
)  # fmt: skip
def test_a_life_tells_when_relevance_falls_to_each_bound(fields):
    of = memory(ago=10, **fields)

    life = Life.of(of)

    for state, at in life.begins.items():
        if at > life.start:
            assert current_relevance(of, at) == pytest.approx(BOUNDS[state])
        else:
            assert life.first <= BOUNDS[state]
    assert list(life.begins.values()) == sorted(life.begins.values())


def test_a_memory_that_never_was_relevant_is_dissolved_from_the_start():
    life = Life.of(memory(relevance=0.0))

    assert set(life.begins.values()) == {life.start}
    assert len(drawn(memory(relevance=0.0))) == 11


def test_a_curve_falls_and_shows_the_bounds_and_now():
    rows = drawn(memory(ago=30), height=8)

    assert rows[0].startswith("  1.0 ┤")
    assert rows[5].startswith("  0.3 ┤█")
    assert rows[7].startswith("  0.1 ┤█")
    heights = [sum(row[column] not in " ┄" for row in rows[:8]) for column in range(7, 79)]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (8, 1)
    ticks = [column for column, char in enumerate(rows[8]) if char == "┴"]
    assert [rows[9].index(label) for label in (" 0.3", " 0.1", " 0.01")][:2] == [ticks[0] - 1, ticks[1] - 1]
    # Of 6.64 half-lives the first is over, and a half-life earlier 0.3 would be 1.74 half-lives away.
    now = rows[10].index("▲")
    assert (now - 7) / 72 == pytest.approx(1 / (6.644 * 1.03), abs=0.02)
    assert ticks[0] > now
    assert max(map(len, rows)) <= 79


def test_a_memory_that_is_long_gone_has_now_at_the_end():
    rows = drawn(memory(ago=4_000))

    assert rows[10].endswith("now ▲")
    assert len(rows[10]) <= 79


def test_labels_that_would_touch_are_left_out():
    row = drawn(memory(ago=1, relevance=0.05, halflife_days=1.0))[9]

    assert row.split() == ["0.1", "0.01"]


def test_connections_lift_the_top():
    assert drawn(memory(connections=("a/b/c", "a/b/d")))[0].startswith("  1.2 ┤▆")


@pytest.mark.parametrize("width", [20, 40, 79, 119])
def test_a_curve_fits_and_is_ascii_where_it_has_to_be(width):
    rows = drawn(memory(ago=20), width=width, is_ascii=True)

    assert all(row.isascii() for row in rows)
    assert max(map(len, rows)) <= max(30, width)


def test_the_styles_of_a_curve_are_those_of_the_states():
    (*_, low), styles = picture(memory(), NOW, width=79)[:8], shapes.STYLES

    assert [style for _, style in low[1:]] == [
        styles["active"],
        styles["fading"],
        styles["forgotten"],
        styles["dissolved"],
    ]
    assert ASCII.levels[0] == UNICODE.levels[0] == " "


# ── Facts and fate ──────────────────────────────────────────────────────────────────────


def test_the_fate_of_memories():
    soon = dict(fate(memory(ago=30), NOW))
    assert list(soon) == ["fading from", "forgotten from", "dissolved from"]
    assert soon["fading from"].endswith("(in 22 days)")
    gone = dict(fate(memory(ago=400), NOW))
    assert list(gone)[:3] == ["fading since", "forgotten since", "dissolved since"]
    assert gone["deleted by"] == "`prune`, 30 days after a `prune` first sees the memory dissolved"
    assert dict(fate(memory(ago=400, dissolved_at=NOW - 40 * DAY), NOW))["deleted by"] == "the next `prune`"
    assert dict(fate(memory(ago=400, dissolved_at=NOW - 20 * DAY), NOW))["deleted by"].endswith(
        "(in 10 days)"
    )
    assert "deleted by" not in dict(fate(memory(halflife_days=36_500.0), NOW))


def test_the_facts_of_a_memory_without_what_is_empty():
    found = dict(facts(memory(ago=2, access_count=3, themes=("art", "x\x1b"), confidence=0.7), NOW))

    assert found["recalled"] == "3 times, last 2 days ago"
    assert found["themes"] == "art, x\\u001b"
    assert found["confidence"] == "0.7"
    assert "source" not in found
    assert dict(facts(memory(halflife_days=36_500.0), NOW))["half-life"] == "a hundred years: never pruned"


# ── Reports ─────────────────────────────────────────────────────────────────────────────


def test_every_list_of_a_report_has_a_section():
    assert {section.name for section in SECTIONS} == set(LISTS)


def test_a_report_is_bounded_and_its_commands_are_quoted():
    odd = memory("people/facts/it's odd")
    report = IntrospectionReport(
        created_at=NOW, total_memories=9, active=9,
        suggested_connections=((odd, memory()),) * 7, orphaned=tuple(memory(f"a/b/{n}") for n in range(12)),
        overloaded_facets=("a/b",), suggested_compressions=("a",), conflicts=(memory("a/b/c~1"),),
        reasons={"suggested_connections": ("share: \x1b",) * 7, "conflicts": ("an edit",)},
        bounded={"suggested_connections": "only the best 7 are listed"},
    )  # fmt: skip

    shown = list(report_lines(report, NOW))

    texts = [line.text for line in shown]
    commands = [line.text.strip() for line in shown if line.style == COMMAND]
    assert commands[1] == "sense-memory palace connect 'people/facts/it'\"'\"'s odd' people/facts/lisa"
    assert "sense-memory palace compress a" in commands
    assert "sense-memory forget 'a/b/c~1'" in commands  # not the old spelling `palace forget`
    assert "  people/facts/it's odd and people/facts/lisa: share: \\u001b" in texts
    assert "  … and 2 more; --all shows all" in texts
    assert "  not complete: only the best 7 are listed" in texts
    assert not any("a/b/7" in text for text in texts)  # the digest has their number
    assert len(list(report_lines(report, NOW, None))) > len(shown)
    assert report_data(report)["suggested_connections"][0]["paths"] == [
        "people/facts/it's odd",
        "people/facts/lisa",
    ]


def test_the_json_of_a_thousand_memories_is_short_unless_everything_is_asked_for():
    ages = (0, 70, 130)
    palace = [
        PersonaMemory(
            domain=("people", "projects", "self")[number % 3], facet="beliefs", key=f"what-is-remembered-{number}",
            value="A sentence of ordinary length about somebody. " * 2, themes=["one", "two", f"t{number // 9}"],
            created_at=NOW - ages[number % 7 % 3] * DAY, confidence=0.4, conflict_of="people/beliefs/other",
        )
        for number in range(1_000)
    ]  # fmt: skip
    before = introspect([], NOW - DAY)
    report = introspect(palace, NOW, previous=from_log(before.to_log()))

    data = report_data(report)

    assert len(as_json(data).encode()) < 20_000
    assert data["orphaned"] == []
    assert data["counts"]["conflicts"] == len(report_data(report, None)["conflicts"]) == 1_000
    assert data["changes"]["counts"]["new"] == len(report_data(report, None)["changes"]["new"]) > 20


def test_a_report_without_findings_says_so_and_what_can_not_be_told():
    changes = PalaceChanges(since=NOW - DAY, before={}, exact=False, untold=("the names of 3 memories",))

    texts = [line.text for line in report_lines(IntrospectionReport(created_at=NOW, changes=changes), NOW)]

    assert any(text.startswith("Since 20") and text.endswith(", 1 day ago") for text in texts)
    assert "  not known: the names of 3 memories" in texts
    assert texts[-1] == "Nothing needs attention."


def test_what_can_not_be_undone_stands_last_in_a_plan():
    report = PruneReport.dry(
        plan([memory("a/b/fading", ago=60).changed(state=State.ACTIVE),
              memory("a/b/due", ago=400, dissolved_at=NOW - 40 * DAY)], NOW)
    )  # fmt: skip

    assert [(words, [line.path for line in found]) for words, found in prune_steps(report)] == [
        ("active → fading", ["a/b/fading"]),
        ("delete for good", ["a/b/due"]),
    ]


# ── Names ───────────────────────────────────────────────────────────────────────────────


def test_paths_and_places():
    assert names.parts("persona/people/facts/lisa") == ("people", "facts", "lisa")
    assert names.parts("persona/facts/lisa") == ("persona", "facts", "lisa")  # a domain of that name
    assert names.place(None) == (None, None)
    assert names.place("persona/facts") == ("persona", "facts")
    assert names.place("people") == names.place("people/") == ("people", None)
    assert names.place("people/facts") == ("people", "facts")
    for bad in ("", "/x", "a//b", "a/b/c"):
        with pytest.raises(InvalidAddress):
            names.place(bad)


def test_a_memory_is_found_by_path_or_by_a_key_that_is_unique():
    everything = [memory("a/b/c"), memory("a/b/d"), memory("x/b/d"), memory("a/b/caf\u00e9")]

    assert names.find(everything, "c").path == names.find(everything, "a/b/c").path == "a/b/c"
    assert names.find(everything, "cafe\u0301").key == "caf\u00e9"
    assert names.find(everything, "none") is None
    assert names.find(everything, "a/b/none") is None
    with pytest.raises(InvalidInput, match="'a/b/d', 'x/b/d'"):
        names.find(everything, "d")
