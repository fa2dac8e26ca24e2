"""Search in the palace: the specification's weights times relevance, on words that are stemmed and folded."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory
from sense_memory.palace.lifecycle import current_relevance
from sense_memory.palace.search import PalaceIndex, PersonaHit, Why, with_successors_first
from sense_memory.search.direct_relevance import DirectRelevance
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex


NOW = 1_775_000_000.0
DAY = 86_400.0


def memory(key, value="", themes=(), **fields):
    return PersonaMemory(
        **{
            "domain": "people",
            "facet": "facts",
            "key": key,
            "value": value,
            "themes": themes,
            "created_at": NOW,
        }
        | fields
    )


def index_of(*memories):
    index = PalaceIndex()
    index.put_many(memories)
    return index


def found(index, query, **options):
    return [hit.path.rpartition("/")[2] for hit in index.search(query, now=NOW, **options)]


def days_ago(days):
    return {"last_accessed": NOW - days * DAY}


def test_a_word_of_a_key_does_not_outvote_a_meaning_that_fits_far_better():
    index = index_of(memory("ana", "Ana reports to Kaja"), memory("password-manager", "the password manager"))
    near = {"people/facts/ana": 0.35, "people/facts/password-manager": 0.1}

    assert found(index, "Who is her manager?", near=near) == ["ana", "password-manager"]
    assert found(index, "password manager", near=near) == ["password-manager", "ana"]


def test_what_shares_one_word_with_a_question_is_not_found_by_its_meaning_too():
    kinds = ("stage", "file", "window", "night")
    index = index_of(memory("vera", "Vera reports to Paul"), *(memory(f"{kind}-manager") for kind in kinds))
    near = {"people/facts/vera": 0.3} | {f"people/facts/{kind}-manager": 0.25 for kind in kinds}

    assert found(index, "Who is her manager?", near=near)[0] == "vera"
    assert found(index, "manager", near=near)[-1] == "vera"
    assert found(index, "Who is the night manager?", near=near)[0] == "night-manager"


def test_another_word_of_the_stem_of_a_word_is_not_nearer_in_meaning():
    index = index_of(memory("breakfast", "bread with jam"), memory("printer-jammed", "jammed"))
    near = {"people/facts/breakfast": 0.1, "people/facts/printer-jammed": 0.4}

    for query in ("jam", "Which jam do I like?"):
        assert found(index, query, near=near) == ["breakfast", "printer-jammed"]
    assert found(index, "jammed", near=near) == ["printer-jammed", "breakfast"]


# ── The specification ───────────────────────────────────────────────────────────────────

NAMES = ["alpha", "beta", "gamma", "delta"]
some = st.lists(st.sampled_from(NAMES), max_size=3)
palaces = st.lists(
    st.builds(
        lambda number, key, themes, value, days, links: memory(
            "-".join([*key, f"m{number}"]),
            " ".join(value),
            tuple(themes),
            connections=links,
            **days_ago(days),
        ),
        st.integers(0, 99),
        some,
        some,
        some,
        st.integers(0, 50),
        st.sampled_from([(), ("a/b/c",)]),
    ),
    max_size=12,
    unique_by=lambda m: m.path,
)


def by_hand(memories, word):
    """Key 3, themes 2, value 1, times relevance. The forgotten are left out; the fading count as if about to fade, unless
    the word is neither a theme nor rare: then they are left out too.
    """
    scores, count = {}, len(memories)
    holders = sum(
        word in {*m.key.split("-"), *" ".join(m.themes).split(), *m.value.split()} for m in memories
    )
    is_rare = math.log1p((count - holders + 0.5) / (holders + 0.5)) > math.log(max(count, 1) / 10)
    for m in memories:
        relevance = current_relevance(m, NOW)
        points = (
            3 * (word in m.key.split("-"))
            + 2 * (word in " ".join(m.themes).split())
            + (word in m.value.split())
        )
        if points and (relevance > 0.3 or (relevance >= 0.1 and (word in m.themes or is_rare))):
            scores[m.path] = points * max(0.3, relevance)
    return scores


@settings(max_examples=80, deadline=None)
@given(palaces, st.sampled_from(NAMES))
def test_a_single_word_scores_what_the_specification_says(memories, word):
    hits = index_of(*memories).search(word, now=NOW, limit=99)

    expected = by_hand(memories, word)
    assert {hit.path: pytest.approx(hit.score, rel=1e-5) for hit in hits} == expected
    relevant = {m.path: current_relevance(m, NOW) for m in memories}
    best_first = sorted(expected, key=lambda path: (-round(expected[path], 6), -relevant[path], path))
    assert [hit.path for hit in hits] == best_first


def test_key_themes_and_value_weigh_three_two_and_one():
    index = index_of(
        memory("a", "otters"),
        memory("b", "x", ("otters",)),
        memory("otters"),
        memory("otters-c", "otters", ("otter",)),
    )
    hits = index.search("otter", now=NOW)
    assert [(hit.path.rpartition("/")[2], hit.score) for hit in hits] == [
        *[("otters-c", 6.0), ("otters", 3.0), ("b", 2.0), ("a", 1.0)]
    ]


def test_a_word_that_stands_twice_counts_once_and_a_rare_word_counts_for_more():
    index = index_of(*(memory(f"m{n}", "meeting meeting") for n in range(5)), memory("z", "meeting otters"))
    scores = {hit.path[-1]: hit.score for hit in index.search("meeting", now=NOW)}
    assert set(scores.values()) == {1.0}
    assert found(index, "meeting otters")[0] == "z"


def test_a_floor_lets_age_move_memories_less():
    index = index_of(memory("old", "otters", ("otters",), **days_ago(45)), memory("new", "otters"))
    assert found(index, "otters") == ["old", "new"]
    aged = index_of(memory("old", "otters here", ("otter care",), **days_ago(45)), memory("new", "otters"))
    assert found(aged, "otters") == ["old", "new"]
    older = index_of(memory("old-otters", "x", **days_ago(50)), memory("new", "x", ("otters",)))
    assert found(older, "otters") == ["new", "old-otters"]
    assert found(older, "otters", relevance_floor=0.9) == ["old-otters", "new"]


# ── States ──────────────────────────────────────────────────────────────────────────────


def test_forgotten_and_dissolved_memories_are_never_found():
    index = index_of(
        memory("lisa", "artist", ("art",), **days_ago(120)), memory("ann", "artist", **days_ago(900))
    )
    for query in ("lisa", "art", '"artist"', "ann", "artist"):
        assert found(index, query) == []


@pytest.mark.parametrize(
    ("query", "is_direct"),
    [
        ("old plan", True),  # the whole key
        ("what is the old plan for may?", True),
        ("garden design", True),  # a whole theme
        ("plant roses along the wall", True),  # its text
        ("are there roses along some wall?", True),  # all words of a question
        ("which roses grow along the wall", True),  # most of them
        ("designing gardens", True),
        ("trellis", True),  # a word that only it has
        ("which roses grow along the canal", False),
        ("roses", False),  # a word that half of all memories have
        ("plan", False),
        ("garden", False),
        ("rose*", False),
        ("what did the gardener plan for the neighbours", False),
        ('"roses along the wall"', True),  # a phrase it has
        ('"roses plan"', False),
    ],
)
def test_a_fading_memory_is_found_only_where_it_is_directly_meant(query, is_direct):
    fading = memory(
        "old-plan", "plant roses along the wall, on a trellis", ("garden design", "tea"), **days_ago(75)
    )
    others = [memory(f"note-{number}", "roses in the garden, plan what grows") for number in range(30)]
    more = [memory(f"other-{number}", "a canal, a gardener, the neighbours") for number in range(30)]
    hits = found(index_of(fading, *others, *more), query, limit=100)
    assert ("old-plan" in hits) == is_direct


def test_a_fading_memory_is_found_by_a_meaning_that_stands_out():
    index = index_of(memory("ana", "Ana reports to Kaja", **days_ago(75)))
    assert found(index, "Who is the boss?", near={"people/facts/ana": 0.6}) == ["ana"]
    assert found(index, "Who is the boss?", near={"people/facts/ana": 0.3}) == []


@pytest.mark.parametrize("floor", [0.0, 0.9])
def test_a_fading_memory_ranks_by_its_evidence_as_if_it_were_about_to_fade(floor):
    old, new = memory("old", "otters swim in the river", **days_ago(75)), memory("new", "otters")
    (hit, other) = index_of(old, new).search("otters swim in the river", now=NOW, relevance_floor=floor)
    assert (hit.path.rpartition("/")[2], other.why.factor) == ("old", 1)
    assert hit.why.factor == pytest.approx(floor + (1 - floor) * 0.3)
    assert hit.why.relevance == pytest.approx(0.5**2.5)


def test_forgotten_memories_that_are_directly_meant_are_counted_and_follow_the_others_where_wanted():
    index = index_of(
        memory("new", "otters"),
        memory("gone", "otters swim in the river", **days_ago(120)),
        memory("dust", "otters swim in the river", **days_ago(900)),
        memory("else", "a canal", **days_ago(120)),
    )

    def search(**options):
        hits = index.search("otters swim in the river", now=NOW, **options)
        return [hit.path.rpartition("/")[2] for hit in hits], hits.forgotten

    assert search() == (["new"], 2)
    assert search(forgotten=True) == (["new", "gone", "dust"], 0)
    assert search(forgotten=True, limit=2) == (["new", "gone"], 1)
    assert search(only=lambda path: not path.endswith("dust")) == (["new"], 1)
    assert search(state="active") == (["new"], 0)
    assert search(state="forgotten") == (["gone", "dust"], 0)
    assert search(state="dissolved") == (["dust"], 0)


# ── Words ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kept", "query"),
    [
        ({"key": "vergel-prefers-vanilla-js"}, "preferences of Vergel"),
        ({"key": "k", "value": "Das Café in São Paulo"}, "cafe sao paulo"),
        ({"key": "k", "value": "猫の名前はタマです"}, "猫"),
        ({"key": "k", "value": "Wir haben Geburtstagskuchen"}, "Kuchen"),
        ({"key": "k", "themes": ("photography",)}, "photo*"),
        ({"key": "k", "value": "teaches workshops"}, '"teaches workshops"'),
        ({"key": "k", "value": "what and who"}, "who"),
    ],
)
def test_words_are_found_as_in_every_search(kept, query):
    index = index_of(memory("other", "nothing"), memory(**kept))
    assert found(index, query) == [kept["key"]]


def test_where_memories_have_what_is_quoted_only_these_are_found():
    index = index_of(
        memory("a", "the wall of roses"),
        memory("b", "roses on the wall"),
        memory("c", "wall", **days_ago(120)),
    )
    for query, names in (
        ('"the wall"', ["a", "b"]),
        ('"wall of roses"', ["a"]),
        ('roses "on"', ["b"]),
        ('"wall of roses" "on the"', ["a", "b"]),  # no memory has both
        ('"walls of rose"', ["a"]),  # docs/search.md: in any form
    ):
        assert found(index, query) == names
        everything = index.index.search(query, factors=lambda ids: [float(not i.endswith("c")) for i in ids])
        assert sorted(hit.id[-1] for hit in everything) == names
    (hit, _) = index.search('"wall and roses"', now=NOW)
    assert hit.why.text.endswith("no memory has all that is quoted")


def test_filters_leave_out_memories_before_the_best_are_cut_off():
    kept = [memory(f"otter-{n}", "otters", state="active") for n in range(30)]
    kept += [memory("z", "otters", facet="notes"), memory("old", "otters here", **days_ago(75))]
    index = index_of(*kept, memory("gone", "otters", **days_ago(120)))
    assert found(index, "otters", limit=2, only=lambda path: path.startswith("people/notes")) == ["z"]
    for state, names in (("fading", ["old"]), ("forgotten", ["gone"]), ("dissolved", [])):
        assert found(index, "otters", limit=2, state=state) == names


@pytest.mark.parametrize("query", ["", " ", "?!", "zebra", "zebra*", '"zebra crossing"', "\ud800", "(.*)+"])
def test_what_nobody_keeps_finds_nothing(query):
    assert found(index_of(memory("lisa", "artist")), query) == []
    assert found(PalaceIndex(), query) == []


# ── Why ─────────────────────────────────────────────────────────────────────────────────


def test_a_hit_says_which_words_in_which_fields_and_how_relevant_it_still_is():
    (hit,) = index_of(memory("lisa", "Lisa paints", ("art", "painting"), **days_ago(30))).search(
        "Lisa's painting", now=NOW
    )
    assert [(match.field, match.term, round(match.contribution, 6)) for match in hit.why.matches] == [
        *[
            ("key", "lisa's", 1.5),
            ("themes", "painting", 1.0),
            ("value", "lisa's", 0.5),
            ("value", "painting", 0.5),
        ]
    ]
    assert sum(match.contribution for match in hit.why.matches) == pytest.approx(hit.score)
    assert hit.why.relevance == pytest.approx(0.5)
    assert hit.why.text == (
        "lisa's in key, painting in themes, lisa's in value, painting in value; relevance 0.50"
    )


def test_a_persona_hit_is_the_memory_with_its_score_and_reasons():
    kept = memory("lisa", "artist", ("art",))
    (hit,) = index_of(kept).search("artist", now=NOW)
    shown = PersonaHit.of(kept, hit.score, hit.why)
    assert isinstance(shown, PersonaMemory)
    assert (shown.path, shown.value, shown.themes, shown.score) == (kept.path, "artist", ("art",), 1.0)
    assert shown.why.matches[0].field == "value"
    assert PersonaHit.model_validate_json(shown.model_dump_json()) == shown
    assert "artist" not in repr(shown)


# ── Changes ─────────────────────────────────────────────────────────────────────────────


def answers(index):
    return [
        [(hit.path, pytest.approx(hit.score), hit.why.text) for hit in index.search(query, now=NOW)]
        for query in [*NAMES, "alpha gamma", '"alpha beta"', "m*", "beta m7"]
    ]


@settings(max_examples=60, deadline=None)
@given(palaces, palaces, st.data())
def test_an_index_that_changed_answers_as_one_built_anew_and_one_loaded(first, second, data):
    changed = index_of(*first)
    for m in second:
        changed.put(m)
    gone = data.draw(st.sets(st.sampled_from([m.path for m in first + second]))) if first + second else set()
    for path in gone:
        changed.drop(path)
        changed.drop(path)
    left = [m for path, m in {m.path: m for m in first + second}.items() if path not in gone]

    assert len(changed) == len(left)
    assert answers(changed) == answers(index_of(*left))
    loaded = SearchIndex.load(b"".join(changed.index.dump()))
    assert answers(PalaceIndex(loaded)) == answers(changed)


def test_a_memory_that_only_aged_is_not_indexed_again():
    index = index_of(memory("lisa", "artist", **days_ago(30)))
    before = index.search("artist", now=NOW)[0].score
    index.put(memory("lisa", "artist"))
    assert index.search("artist", now=NOW)[0].score == pytest.approx(2 * before)
    assert len(index.index.documents) == 1


def test_rows_left_behind_by_changes_are_cleared_away(monkeypatch):
    monkeypatch.setattr("sense_memory.search.index.SPARE_ROWS", 10)
    index = index_of(memory("kept", "otters", ("river life",)))
    for number in range(100):
        index.put(memory("changing", f"version{number}"))
    assert found(index, "version99") == ["changing"]
    assert found(index, "river life") == ["kept"]
    assert len(index.index.documents) < 20


OTHERS = [
    SearchItem("journal/1", "alpha beta zebra photographs of the old plan", 1.0),
    SearchItem("flat/2", "alpha", key="gamma", themes=("beta", "delta")),
]


@settings(max_examples=60, deadline=None)
@given(palaces)
def test_what_else_lies_in_the_index_changes_nothing(memories):
    alone, among = index_of(*memories), PalaceIndex()
    among.index.put_many(OTHERS)
    among.put_many(memories)

    assert answers(among) == answers(alone)


def test_a_word_that_only_other_memories_have_still_means_those_that_resemble_it():
    index = PalaceIndex()
    index.index.put_many(OTHERS)
    index.put(memory("k", "photographic plates in zebrano"))

    assert found(index, "photographs") == found(index, "zebra") == ["k"]


def test_a_beginning_stands_for_words_of_persona_memories_however_many_others_begin_so():
    index = PalaceIndex()
    index.index.put_many(SearchItem(f"flat/{number}", f"pho{number:03}x") for number in range(100))
    index.put(memory("k", "phonetics"))

    assert found(index, "pho*") == ["k"]


def test_a_long_memory_has_its_key_and_themes_whichever_piece_they_stand_in():
    long = memory(
        "otter-care", "They swim. " * 200 + "They sleep.", ("river life",) * 1 + ("a b c d e f g h",) * 1
    )
    index = index_of(long, memory("x", "nothing"))
    assert len(index.index.documents.column("first_piece")) == 2

    (hit,) = index.search("otters river sleeping swim", now=NOW)
    assert [(match.field, match.term) for match in hit.why.matches] == [
        ("key", "otters"),
        ("themes", "river"),
        ("value", "sleeping"),
        ("value", "swim"),
    ]
    assert hit.score == pytest.approx(3 + 2 + 1 + 1)


def test_a_phrase_lies_within_one_field():
    index = index_of(memory("b-a", "c d", ("e f", "g")), memory("x", "b a c d e f"))
    for phrase, meant in (
        ('"b a"', [1, 1]),
        ('"a b"', [0, 0]),
        ('"e f"', [1, 1]),
        ('"d e"', [0, 1]),
        ('"f g"', [1, 0]),
    ):
        direct = DirectRelevance(index.index, phrase, index.index.documents.of_kind("palace"))
        assert direct.named().tolist() == [bool(one) for one in meant], phrase


def test_no_index_prints_what_it_holds():
    index = index_of(memory("lisa", "secret words", ("hidden",)))
    shown = repr(index) + repr(index.search("secret", now=NOW))
    assert "hidden" not in shown
    assert "secret" not in shown


# ── The question as a whole ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Where does Kaja live?", "kaja-home"),  # both words in the text before one rare word in a key
        ("live music", "live-music"),
        ("tires", "car"),
        ("Where are the tires?", "car"),
        ("tired", "tired-again"),
        ("Which jam do I like?", "breakfast"),
        ("jammed", "printer-jammed"),
        ("Who has pictures of roses?", "album"),
    ],
)
def test_what_covers_the_question_comes_first_and_a_word_before_other_words_of_its_stem(query, first):
    index = index_of(
        memory("kaja-home", "Kaja lives in Graz"),
        memory("live-music", "every Thursday"),
        memory("car", "new tires for it"),
        memory("tired-again", "tired since Monday, so tired"),
        memory("breakfast", "bread with apricot jam"),
        memory("printer-jammed", "the printer jammed", ("jammed",)),
        memory("album", "a photo of a rose", ("Ines",)),
    )
    assert found(index, query)[0] == first
    everything = [hit.id.rpartition("/")[2] for hit in index.index.search(query)]
    assert everything[0] == first


def test_a_memory_with_one_of_two_equally_rare_words_keeps_a_quarter_of_its_score():
    index = index_of(memory("otters", "x"), memory("b", "otters beavers"), memory("c", "beavers"))
    scores = {hit.path[-1]: hit.score for hit in index.search("otters beavers", now=NOW)}
    assert scores == {"b": 2.0, "s": 0.75, "c": 0.25}


def test_memories_that_supersede_one_another_are_all_listed_once():
    """As two devices may mark them at once."""
    ring = {
        f"people/facts/{key}": memory(key, superseded_by=f"people/facts/{by}")
        for key, by in ("ab", "bc", "ca")
    }
    why = Why(matches=(), evidence=(), relevance=1.0, factor=1.0, text="")
    hits = [PersonaHit.of(ring[f"people/facts/{key}"], score, why) for key, score in (("a", 2.0), ("b", 1.0))]

    ranked = with_successors_first(hits, ring.get, lambda one: PersonaHit.of(one, 0.0, why))
    assert [(hit.key, hit.score) for hit in ranked] == [("c", 2.0), ("b", 2.0), ("a", 2.0)]
