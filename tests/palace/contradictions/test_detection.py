"""What contradicts what: one sentence of behaviour per kind and per trap, and the labelled pairs as a whole."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.detection import ACT_BOUND, compare


PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "contradictions.jsonl").read_text(encoding="utf-8").splitlines()
]


def memory(value, key="note", themes=(), created_at=1.0, **fields):
    place = {"domain": "people", "facet": "facts"} | fields
    return PersonaMemory(key=key, value=value, themes=themes, created_at=created_at, **place)


def verdict(old, new, old_key="first-note", new_key="second-note", **fields):
    return compare(memory(old, old_key, **fields), memory(new, new_key, **fields))


def score(chosen):
    right = wrong = missed = 0
    for pair in chosen:
        found = compare(
            PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)
        )
        acted, opposed = found is not None and found.acts, pair["label"] == "contradiction"
        right += acted and opposed
        wrong += acted and not opposed
        missed += opposed and not acted
    return right / (right + wrong), right / (right + missed)


# ── The labelled pairs ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("half", "batch", "recall"), [("tune", 1, 0.90), ("held", 1, 0.88), ("tune", 2, 0.55), ("held", 2, 0.50)]
)
def test_what_acts_is_right_and_most_contradictions_of_known_phrasing_act(half, batch, recall):
    chosen = [pair for pair in PAIRS if (pair["half"], pair["batch"]) == (half, batch)]

    found_precision, found_recall = score(chosen)

    assert found_precision >= 0.95
    assert found_recall >= recall


@pytest.mark.parametrize("half", ["tune", "held"])
def test_each_half_acts_with_a_precision_of_95_percent(half):
    assert score(pair for pair in PAIRS if pair["half"] == half)[0] >= 0.95


def test_the_labelled_pairs_are_many_and_a_third_of_them_are_traps():
    traps = [pair for pair in PAIRS if pair["label"] == "none"]

    assert len(PAIRS) >= 320
    assert len(traps) >= len(PAIRS) / 3
    assert len({pair["id"] for pair in PAIRS}) == len(PAIRS)
    assert {pair["old"]["domain"] for pair in PAIRS} == {"self", "people", "projects", "world", "skills"}


def test_no_note_in_another_language_acts():
    foreign = [pair for pair in PAIRS if pair["kind"] == "language"]

    assert len(foreign) >= 12
    for pair in foreign:
        found = compare(
            PersonaMemory(**pair["old"], created_at=1), PersonaMemory(**pair["new"], created_at=2)
        )
        assert found is None or not found.acts


# ── Kinds ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("negation", "Vergel uses Vim", "Vergel no longer uses Vim"),
        ("antonym", "The repository is public", "The repository is private"),
        ("sentiment", "Lisa loves olives", "Lisa can't stand olives"),
        ("value", "Mara lives in Berlin", "Mara lives in Lisbon"),
        ("value", "Vergel prefers tabs", "Vergel prefers spaces"),
        ("value", "We chose Orpheus over Kokoro", "We chose Kokoro over Orpheus"),
        ("value", "Mara lives in Berlin", "Mara moved to Lisbon"),
        ("number", "An evening costs 65 dollars", "An evening costs 78 dollars"),
        ("number", "The cache TTL is 10 minutes", "The cache TTL is 1 hour"),
        ("date", "The deadline of VoxRelay is March 3", "The deadline of VoxRelay is 2026-03-17"),
        ("date", "Standup is at 9:30", "Standup is at 10 am"),
        ("status", "The website relaunch is in progress", "The website relaunch is done"),
    ],
)
def test_an_opposing_statement_acts_and_says_of_what_kind_it_is(kind, old, new):
    found = verdict(old, new)

    assert found is not None
    assert (found.kind, found.acts) == (kind, True)
    assert found.old == "people/facts/first-note"
    assert found.new == "people/facts/second-note"


def test_the_reason_shows_both_values():
    assert verdict("Mara lives in Berlin", "Mara lives in Lisbon").reason == "lives in: berlin → lisbon"
    assert (
        verdict("An evening costs 65 dollars", "An evening costs 78 dollars").reason
        == "65 dollars → 78 dollars"
    )


def test_the_key_names_the_subject_of_a_bare_value():
    found = verdict("America/Vancouver", "Europe/Lisbon", "user_timezone", "timezone-of-user")

    assert found is not None
    assert found.acts


# ── Traps ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ruca speaks German", "Ruca speaks French"),  # an addition
        ("Lisa is an artist", "Lisa is an artist who teaches workshops"),  # a refinement
        ("Lisa lives in Vancouver", "Lisa lives in Vancouver, Canada"),
        ("Lisa lives in Vancouver", "Ruca lives in Porto"),  # another subject
        ("Lisa lives in Vancouver", "Lisa's brother lives in Munich"),
        ("Lamp 3 is in the hall", "Lamp 5 is in the hall"),
        ("Mara lived in Berlin until 2019", "Mara lives in Lisbon"),  # another time
        ("In 2025 an evening cost 65 dollars", "In 2026 an evening costs 78 dollars"),
        ("For work Vergel prefers VS Code", "At home Vergel prefers Vim"),  # a condition
        ("The call is at 15:00", "The call is at 3 pm"),  # the same, said otherwise
        ("The dataset has 10k rows", "The dataset has 10,000 rows"),
        ("Telemetry is disabled", "Telemetry is not enabled"),
        ("The API is stable", "The API is not unstable"),  # a double negation
        ("VoxRelay is hosted on Cloudflare", "Should VoxRelay be hosted on Hetzner?"),  # a question
        ("Ben works at Stripe", "Ben might work at Adyen"),  # a hypothesis
        ("The new logo is beautiful", 'A customer wrote: "the new logo is ugly"'),  # a quote
        ("We chose Orpheus over Kokoro", "We chose Orpheus over Piper"),  # a comparison that agrees
        ("The exhibition opens on 18 September", "The exhibition closes on 30 October"),  # another slot
        ("The supplier is Tanabe", "The supplier is reliable"),
        ("Lisa lives in Vancouver", "Lisa lives in Canada"),  # a place within a place
        ("Ben works at Stripe", "Ben works at the Berlin office"),
        ("CI runs on Woodpecker", "CI runs on every push"),
        ("The site is built with Astro", "The site is built with Tailwind"),
        ("Standup on Monday is at 9:00", "Standup on Tuesday is at 9:00"),
        ("Emil mag Kuchen", "Emil mag keinen Kuchen"),  # another language
        ("京都の夏は暑い", "京都の冬は寒い"),
    ],
)
def test_the_same_theme_without_a_contradiction_does_not_act(old, new):
    for found in (verdict(old, new), verdict(old, new, themes=("theme", "of-both"))):
        assert found is None or not found.acts


def test_a_doubtful_opposition_is_a_suggestion():
    found = verdict("Mara lives in Lisbon", "Mara formerly lives in Lisbon")

    assert found is not None
    assert found.confidence < ACT_BOUND
    assert not found.acts


def test_one_sentence_of_a_long_note_does_not_bury_the_note():
    profile = "Lisa lives in Bremen. She has a son. She teaches linocut. She plays the cello."

    found = verdict(profile, "Lisa lives in Vancouver")

    assert found is not None
    assert not found.acts


def test_a_note_that_repeats_the_old_one_beside_something_new_does_not_oppose_it():
    assert verdict("Lisa lives in Bremen", "Lisa lives in Bremen. Her sister lives in Rome.") is None


# ── What is compared ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        {"facet": "beliefs"},
        {"domain": "projects"},
        {"superseded_by": "people/facts/other"},
        {"contradicts": ("people/facts/new",)},
        {"conflict_of": "people/facts/new"},
    ],
)
def test_other_facets_settled_contradictions_and_edit_conflicts_are_left_alone(change):
    old, new = memory("Mara lives in Berlin", "old"), memory("Mara lives in Lisbon", "new")

    assert compare(old, new) is not None
    assert compare(memory("Mara lives in Berlin", "old", **change), new) is None


# ── Whatever comes ──────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    [
        "Lisa",
        "Mara",
        "lives",
        "in",
        "Berlin",
        "Lisbon",
        "prefers",
        "tabs",
        "spaces",
        "not",
        "no",
        "longer",
        "is",
        "open",
        "closed",
        "3",
        "5",
        "March",
        "12",
        "dollars\n",
        "",
        "",
        "",
        "over",
        "than",
        "the",
        "used",
        "to",
        "done",
        "planned",
        "at",
        "9:30",
        "loves",
        "hates",
        ".",
        ";",
        ",",
        "?",
        '"',
        "never",
        "without",
        "2026-03-01",
        "Kaffee",
        "京都",
        "\x00",
    ]
)
VALUES = st.lists(WORDS, max_size=9).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80) | VALUES, st.text(max_size=80) | VALUES)
def test_any_text_gets_the_same_bounded_answer_twice(old, new):
    found = verdict(old, new)

    assert found == verdict(old, new)
    assert found is None or (0 <= found.confidence <= 1 and found.acts == (found.confidence >= ACT_BOUND))


def test_a_reason_stays_short_and_on_one_line():
    long = "x" * 5_000

    found = verdict(f"The default branch is {long}", f"The default branch is y{long}")

    assert found is not None
    assert len(found.reason) < 200
    assert found.reason.isprintable()
