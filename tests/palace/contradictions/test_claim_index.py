"""The index of claims: what it finds among many memories, and that it answers as comparing with each would."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions import claim_index
from sense_memory.palace.contradictions.claim_index import MAX_CANDIDATES_COUNT, ClaimIndex
from sense_memory.palace.contradictions.detection import compare


def memory(value, key="note", themes=(), created_at=1.0, **fields):
    place = {"domain": "people", "facet": "facts"} | fields
    return PersonaMemory(key=key, value=value, themes=themes, created_at=created_at, **place)


def index(memories):
    claims = ClaimIndex()
    for item in memories:
        claims.put(item)
    return claims


def pairs(claims, limit=50):
    for _ in claims.scan():
        pass
    return claims.pairs(limit)


VALUES = st.lists(
    st.sampled_from(
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
            "the",
            "at",
            "9:30",
            "loves",
            "hates",
            ".",
            ";",
            ",",
            "never",
            "2026-03-01",
            "Kaffee",
            "京都",
        ]
    ),
    max_size=9,
).map(" ".join)
MEMORIES = st.builds(
    lambda value, key, when: memory(value, key, created_at=when),
    VALUES,
    st.sampled_from(["lisa-home", "mara-home", "a", "b", "user_timezone", "京都"]),
    st.integers(0, 5),
)


def test_a_memory_never_contradicts_its_own_earlier_version():
    claims = ClaimIndex()
    claims.put(memory("Mara lives in Berlin", "mara-home"))

    assert claims.check(memory("Mara lives in Lisbon", "mara-home")) == []


def test_checking_finds_among_many_and_shows_the_surest_first():
    claims = ClaimIndex()
    for number in range(1_000):
        claims.put(memory(f"Person{number} lives in Berlin", f"person{number}-home"))
    claims.put(memory("Person7 is always late for calls with the team", "person7-late"))

    found = claims.check(memory("Person7 lives in Lisbon", "person7-moved"))

    assert [item.old for item in found] == ["people/facts/person7-home"]
    assert found == sorted(found, key=lambda item: -item.confidence)


def test_common_words_alone_still_lead_to_the_same_slot():
    claims = ClaimIndex()
    for number in range(800):
        claims.put(memory(f"Lisa likes dish{number}", f"lisa-dish-{number}"))
        claims.put(memory(f"Person{number} lives in City{number}", f"home-{number}"))
    claims.put(memory("Lisa lives in Bremen", "lisa-home"))

    assert [item.old for item in claims.check(memory("Lisa lives in Rome", "x"))] == [
        "people/facts/lisa-home"
    ]


def test_a_dropped_memory_contradicts_nothing():
    claims = ClaimIndex()
    claims.put(memory("Mara lives in Berlin", "mara-home"))
    claims.drop("people/facts/mara-home")
    claims.drop("people/facts/never-there")

    assert claims.check(memory("Mara lives in Lisbon", "new")) == []


def test_a_look_over_a_palace_sets_the_newer_against_the_older_and_says_when_it_was_cut():
    palace = [
        memory("Mara lives in Berlin", "b", created_at=2.0),
        memory("Mara lives in Lisbon", "a", created_at=3.0),
        memory("The shop is open", "c", created_at=1.0),
        memory("The shop is closed", "d", created_at=4.0),
    ]

    whole, cut = pairs(index(palace), 10), pairs(index(palace), 1)

    assert {(item.old[-1], item.new[-1]) for item in whole.contradictions} == {("b", "a"), ("c", "d")}
    assert not whole.bounded
    assert len(cut.contradictions) == 1
    assert cut.bounded


@settings(max_examples=75, deadline=None)
@given(
    st.lists(MEMORIES, max_size=12), st.lists(st.sampled_from(["a", "b", "lisa-home"]), max_size=3), MEMORIES
)
def test_claims_kept_up_answer_as_claims_built_anew(written, dropped, asked):
    kept = ClaimIndex()
    for item in written:
        kept.put(item)
        pairs(kept)  # what is found now must not outlive what comes later
    for key in dropped:
        kept.drop(f"people/facts/{key}")
    left = {item.path: item for item in written if item.key not in dropped}
    rebuilt = ClaimIndex()
    for item in sorted(left.values(), key=lambda item: item.value):
        rebuilt.put(item)

    assert kept.check(asked) == rebuilt.check(asked)
    assert pairs(kept) == pairs(rebuilt)


@settings(max_examples=75, deadline=None)
@given(st.lists(MEMORIES, max_size=MAX_CANDIDATES_COUNT), MEMORIES)
def test_a_check_says_what_comparing_with_each_memory_says(written, asked):
    claims = ClaimIndex()
    for item in written:
        claims.put(item)
    each = [compare(item, asked) for item in {item.path: item for item in written}.values()]

    found = claims.check(asked)

    assert sorted(found, key=repr) == sorted((item for item in each if item), key=repr)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " \n\t ",
        "word " * 100_000,
        "not " * 100_000,
        "a" * 500_000,
        "1" * 100_000,
        "9" * 400 + " dollars",
        "." * 100_000,
        "Lisa lives in Rome. " * 5_000,
        "\x00\x1b[31m\u202e lives in \ud7ff",
        "'" * 10_000,
        "is is is : : over over than at at",
        "at 99:99 on 2026-99-99, the 45th of May, 1,000,000,000,000,000k €",
    ],
)
def test_hostile_text_neither_fails_nor_acts(value):
    claims = ClaimIndex()
    claims.put(memory("Lisa lives in Bremen", "lisa-home"))
    claims.put(memory(value, "hostile", themes=("", " ", "x" * 10_000)))

    for found in (*claims.check(memory(value, "again")), *claims.check(memory("Lisa sings", "lisa-sings"))):
        assert found.old == "people/facts/lisa-home"


def test_a_scan_goes_on_where_the_last_one_ended_and_says_so(monkeypatch):
    homes = [
        memory(f"Lisa lives in {city}", f"lisa-{city}", created_at=float(number))
        for number, city in enumerate(("Berlin", "Lisbon", "Rome"))
    ]
    claims = index(homes)
    monkeypatch.setattr(claim_index, "MAX_PAIRS_COUNT", MAX_CANDIDATES_COUNT)

    scans = [pairs(claims) for _ in range(3)]

    assert [(len(scan.contradictions), scan.bounded) for scan in scans] == [(2, True), (3, True), (3, False)]


def test_only_what_changed_is_compared_again(monkeypatch):
    claims, compared = index(memory(f"Lisa lives in city {n}", f"home-{n}") for n in range(5)), []
    known = claim_index.compare_readings

    def counted(old, old_reading, new, *rest):
        compared.append(frozenset((old.key, new.key)))
        return known(old, old_reading, new, *rest)

    monkeypatch.setattr(claim_index, "compare_readings", counted)
    pairs(claims)
    assert len(compared) == len(set(compared)) == 10
    pairs(claims)
    assert len(compared) == 10
    claims.put(memory("Lisa lives in city 9", "home-2"))
    pairs(claims)

    assert len(compared) == 14
    assert all("home-2" in pair for pair in compared[10:])


def test_memories_may_come_and_go_while_a_scan_pauses():
    claims = index(memory(f"Lisa lives in city {n}", f"home-{n}", created_at=n) for n in range(4))
    scan = claims.scan()
    next(scan)  # home-3 is compared
    claims.drop("people/facts/home-1")
    claims.put(memory("Lisa lives in city 7", "home-7", created_at=7))

    assert [*scan] == [None, None]
    seen = {found.old[-1] + found.new[-1] for found in claims.pairs(50).contradictions}
    assert seen == {"02", "03", "23", "07", "27"}
    assert claims.pairs(50).bounded
    assert {found.old[-1] + found.new[-1] for found in pairs(claims).contradictions} == seen | {"37"}


def test_a_pair_that_was_dismissed_is_left_alone():
    old = memory("Lisa lives in Berlin", "lisa-home", created_at=1.0)
    new = memory("Lisa lives in Lisbon", "lisa-city", created_at=2.0)
    claims = index([old, new])
    assert pairs(claims).contradictions
    claims.put(old.changed(dismissed=(new.path,)))
    assert not pairs(claims).contradictions
    assert not pairs(index([old, new.changed(dismissed=(old.path,))])).contradictions


def test_a_restored_index_knows_what_was_compared_and_found(monkeypatch):
    notes = [memory(f"Lisa lives in city {n}", f"home-{n}", created_at=float(n)) for n in range(5)]
    claims = index(notes)
    found, saved, read = pairs(claims).contradictions, claims.dump(), []
    known = claim_index.read
    monkeypatch.setattr(claim_index, "read", lambda one: read.append(one.key) or known(one))

    again = ClaimIndex.restored(saved, {one.path: one for one in notes})
    assert (len(again), pairs(again).contradictions, read) == (5, found, [])

    newer = memory("Lisa lives in city 7", "home-7", created_at=7.0)
    assert [one.old for one in again.check(newer)] == [one.old for one in claims.check(newer)]
    assert len(found) == 9  # of one memory at most three


def test_a_memory_that_is_checked_and_then_put_with_its_marks_is_read_once(monkeypatch):
    claims, known, read = ClaimIndex(), claim_index.read, []
    monkeypatch.setattr(claim_index, "read", lambda one: read.append(one.key) or known(one))
    new = memory("Lisa lives in Rome", "lisa-home")

    claims.check(new)
    claims.put(new.changed(contradicts=("people/facts/lisa",)))
    claims.check(memory("Lisa lives in Rome", "lisa"))  # another key, so perhaps of somebody else

    assert read == ["lisa-home", "lisa"]


def test_what_changed_since_an_index_was_saved_is_not_taken_over():
    notes = [memory(f"Lisa lives in city {n}", f"home-{n}", created_at=float(n)) for n in range(4)]
    claims = index(notes)
    pairs(claims)
    changed = notes[1].changed(value="Lisa lives in the country")
    again = ClaimIndex.restored(claims.dump(), {one.path: one for one in (notes[0], changed, notes[2])})

    assert changed.path not in again
    assert [(one.old[-1], one.new[-1]) for one in pairs(again).contradictions] == [("0", "2")]
    again.put(changed)
    assert pairs(again) == pairs(index([notes[0], changed, notes[2]]))


@pytest.mark.parametrize(
    "saved", [b"", b"[]", b"7", b"[[[1]],[]]", b"[[],[7]]", b'[[],[{"old":"a"}]]', b"[[],[{}]]", b'{"a":1}']
)
def test_what_no_index_wrote_is_refused(saved):
    with pytest.raises((ValueError, TypeError)):
        ClaimIndex.restored(saved, {})
