"""Events: shape, id, signature. "Verified" is a type that nothing but a signature can make."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidEvent
from sense_memory.limits import MAX_SAFE_INTEGER, MAX_TAGS_COUNT
from sense_memory.nostr.event import (
    KIND_APP_DATA,
    KIND_AUTH,
    KIND_DELETION,
    KIND_DIRECT_MESSAGE,
    Event,
    RawEvent,
    event_id,
    is_hex64,
    verify,
    wins_over,
)


seeded = settings(max_examples=30, deadline=None, derandomize=True)

text = st.text(max_size=60)
hex64 = st.binary(min_size=32, max_size=32).map(bytes.hex)
raw_events = st.builds(
    RawEvent,
    id=hex64,
    pubkey=hex64,
    created_at=st.integers(0, MAX_SAFE_INTEGER),
    kind=st.integers(0, 65_535),
    tags=st.lists(st.lists(text, max_size=3).map(tuple), max_size=4).map(tuple),
    content=text,
    sig=st.binary(min_size=64, max_size=64).map(bytes.hex),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("id", "pubkey", "created_at", "kind", "tags", "content", "sig")


@pytest.fixture(scope="session")
def plain(make_event):
    """A valid event as the JSON value that a relay would send, fresh each call."""
    value = json.loads(make_event("hello", tags=(("d", "sense-memory/x"), ("t", "art"))).body())
    return lambda **changes: {**copy.deepcopy(value), **changes}


def test_a_signed_event_reads_back_and_verifies(make_event):
    event = make_event("hello")
    assert event == verify(RawEvent.loads(event.body()))
    assert event == Event.restored(event.body())


def test_the_id_is_the_sha256_of_the_serialisation():
    """NIP-01's array, written out by hand."""
    serial = '[0,"' + "a" * 64 + '",1,30078,[["d","é"]],"line\\n\\"quoted\\""]'
    assert hashlib.sha256(serial.encode()).hexdigest() == event_id(
        "a" * 64, 1, 30078, (("d", "é"),), 'line\n"quoted"'
    )


@seeded
@given(st.text(), st.lists(st.lists(st.text(), max_size=3).map(tuple), max_size=3).map(tuple))
def test_the_id_agrees_with_the_standard_librarys_json(content, tags):
    """`json` and `orjson` are two writers; NIP-01 leaves them no freedom except control characters."""
    serial = json.dumps([0, "b" * 64, 7, 1, tags, content], ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(serial.encode()).hexdigest() == event_id("b" * 64, 7, 1, tags, content)


@seeded
@given(raw_events)
def test_a_body_loads_to_the_same_event(raw):
    assert raw == RawEvent.loads(raw.body()) == RawEvent.parse(raw.as_json())
    assert raw.body() == RawEvent.loads(raw.body()).body()


@seeded
@given(json_values)
def test_parsing_arbitrary_json_raises_nothing_but_invalid_event(value):
    with pytest.raises(InvalidEvent):
        RawEvent.parse(value)


@settings(seeded, max_examples=75)
@given(st.sampled_from(FIELDS), json_values)
def test_an_event_with_any_field_replaced_is_read_or_refused(plain, name, value):
    try:
        raw = RawEvent.parse(plain(**{name: value}))
        assert value == json.loads(raw.body())[name]
    except InvalidEvent:
        pass


@seeded
@given(st.binary(max_size=80) | text)
def test_loading_arbitrary_bytes_raises_nothing_but_invalid_event(body):
    with pytest.raises(InvalidEvent):
        RawEvent.loads(body)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_needed(plain, name):
    value = plain()
    del value[name]
    with pytest.raises(InvalidEvent):
        RawEvent.parse(value)


def test_unknown_fields_are_ignored_and_not_passed_on(plain):
    raw = RawEvent.parse(plain(note="extra"))
    assert verify(raw)
    assert b"extra" not in raw.body()


def test_kinds_are_those_of_the_nips():
    assert (KIND_DIRECT_MESSAGE, KIND_DELETION) == (4, 5)  # NIP-04, NIP-09
    assert (KIND_AUTH, KIND_APP_DATA) == (22_242, 30_078)  # NIP-42, NIP-78


def test_tags_are_bounded(plain):
    assert RawEvent.parse(plain(tags=[["t", "x"]] * MAX_TAGS_COUNT))
    with pytest.raises(InvalidEvent):
        RawEvent.parse(plain(tags=[["t", "x"]] * (MAX_TAGS_COUNT + 1)))


@pytest.mark.parametrize("tags", [None, "d", {"d": "x"}, ["d"], [["d", 1]], [["d", None]], [[["d"]]], [{}]])
def test_tags_must_be_lists_of_strings(plain, tags):
    with pytest.raises(InvalidEvent):
        RawEvent.parse(plain(tags=tags))


def test_tag_values_come_in_order_and_leave_out_bare_tags(make_event):
    event = make_event(kind=1, tags=(("p", "one"), ("p",), ("e", "x"), ("p", "two", "wss://r"), ()))
    assert event.tag_values("p") == ["one", "two"]
    assert event.tag_values("q") == []


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((("d", "x"),), "x"),
        ((("d", "x", "more"),), "x"),
        ((("t", "x"),), None),
        ((("d",),), None),
        ((("d", ""),), None),
        ((("d", "x"), ("d", "y")), None),
    ],
)
def test_the_d_tag_is_the_one_that_is_there(make_event, tags, expected):
    assert expected == make_event(kind=1, tags=tags).d_tag


# ── Rows of the threat model ────────────────────────────────────────────────────────


@pytest.mark.parametrize("escaped", [r"\ud800", r"\udfff", r"\ude00\ud83d", r"ok\ud83d"])
def test_w04_lone_surrogate_is_malformed(plain, escaped):
    body = json.dumps(plain(content="MARK")).replace("MARK", escaped)
    with pytest.raises(InvalidEvent):
        RawEvent.loads(body)


def test_w04_lone_surrogates_of_another_json_reader_end_as_invalid_event(plain):
    """The standard library's reader lets them through; every way out of such an event must be ours."""
    raw = RawEvent.parse(json.loads(json.dumps(plain(content="\ud800"))))
    for way_out in (raw.body, lambda: verify(raw)):
        with pytest.raises(InvalidEvent):
            way_out()


def test_w05_escapes_do_not_change_the_id(make_event):
    """`\\u0026`, `\\/`, `\\u000a`, and raw U+2028 and 0x7f are all the same text (NIP-01)."""
    event = make_event("a&b/c\nd\u2028e\x7ff\x01")
    spelled = {"&": r"\u0026", "/": r"\/", r"\n": r"\u000a"}
    body = event.body().decode()
    for plain_text, escape in spelled.items():
        other = body.replace(plain_text, escape)
        assert other != body
        assert event == verify(RawEvent.loads(other))
    assert "\u2028" in body
    assert "\x7f" in body
    assert event == verify(RawEvent.loads(json.dumps(json.loads(body), ensure_ascii=True)))


@pytest.mark.parametrize("field", ["created_at", "kind"])
@pytest.mark.parametrize(
    "number",
    [
        "true",
        "false",
        "30078.0",
        "1e3",
        "-1",
        "NaN",
        "Infinity",
        '"1"',
        "null",
        "[1]",
        "0x1",
        "01",
        "9" * 5_000,
        str(2**53),
        str(2**63),
        str(2**64),
        str(2**65),
    ],
)
def test_w06_numbers_must_be_plain_integers(plain, field, number):
    body = json.dumps(plain(**{field: "MARK"})).replace('"MARK"', number)
    with pytest.raises(InvalidEvent):
        RawEvent.loads(body)


@pytest.mark.parametrize(("field", "last"), [("created_at", MAX_SAFE_INTEGER), ("kind", 65_535)])
def test_w06_the_ends_of_a_range_belong_to_it(plain, field, last):
    for number in (0, last):
        assert number == getattr(RawEvent.parse(plain(**{field: number})), field)
    with pytest.raises(InvalidEvent):
        RawEvent.parse(plain(**{field: last + 1}))


@pytest.mark.parametrize(
    ("doubled", "value"),
    [("content", '"other"'), ("id", '"' + "0" * 64 + '"'), ("created_at", "1"), ("tags", "[]")],
)
def test_w07_duplicate_keys_never_split_the_truth(make_event, doubled, value):
    """Whichever value is read, that one is verified and that one is written; no reader sees another."""
    event = make_event()
    body = event.body().decode()
    before, after = f'{{"{doubled}":{value},' + body[1:], body[:-1] + f',"{doubled}":{value}}}'
    verdicts = []
    for text_of_two in (before, after):
        raw = RawEvent.loads(text_of_two)
        try:
            assert event == verify(raw)
            assert event.body() == raw.body()
            verdicts.append(True)
        except InvalidEvent:
            verdicts.append(False)
    assert sorted(verdicts) == [False, True]


def _bad_hexes(good):
    return [
        good.upper() if good.upper() != good else "A" * len(good),
        good[:-1],
        good + "0",
        good[:-1] + "\n",
        good + "\n",
        " " + good[1:],
        good[:-1] + "g",
        "\uff11" + good[1:],  # a full-width digit, which int() would read
        "٣" + good[1:],
        "0x" + good[2:],
        "",
    ]


@pytest.mark.parametrize("field", ["id", "pubkey", "sig"])
def test_w08_hex_is_exact(plain, field):
    for bad in [*_bad_hexes(plain()[field]), 5, None, [plain()[field]]]:
        assert not (field != "sig" and is_hex64(bad))
        with pytest.raises(InvalidEvent):
            RawEvent.parse(plain(**{field: bad}))


def test_e01_bad_signature_is_dropped(make_event):
    """Every single bit of the signature counts."""
    event = make_event()
    sig = bytes.fromhex(event.sig)
    for bit in range(512):
        flipped = bytearray(sig)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidEvent, match="signature"):
            verify(RawEvent(*_values(event)[:6], bytes(flipped).hex()))


def test_e01_a_valid_signature_of_another_author_is_dropped(make_event, stranger):
    ours, theirs = make_event("same"), make_event("same", by=stranger)
    with pytest.raises(InvalidEvent, match="signature"):
        verify(RawEvent(*_values(ours)[:6], theirs.sig))
    with pytest.raises(InvalidEvent, match="id"):
        verify(RawEvent(ours.id, theirs.pubkey, *_values(ours)[2:]))


@pytest.mark.parametrize(
    "change",
    [
        {"content": "altered"},
        {"created_at": 1_800_000_001},
        {"kind": 30_079},
        {"tags": [["d", "sense-memory/y"]]},
        {"tags": [["d", "sense-memory/x", ""], ["t", "art"]]},
        {"id": "0" * 64},
        {"pubkey": "f" * 64},
    ],
)
def test_e02_id_must_match_content(plain, change):
    with pytest.raises(InvalidEvent, match="id does not match"):
        verify(RawEvent.parse(plain(**change)))


def test_e05_failed_verification_is_not_cached(make_event):
    event = make_event()
    forged = RawEvent(*_values(event)[:6], "0" * 128)
    for _ in range(2):
        with pytest.raises(InvalidEvent):
            verify(forged)
    assert event == verify(RawEvent.loads(event.body()))
    with pytest.raises(InvalidEvent):
        verify(forged)


@pytest.mark.parametrize(
    "tags",
    [
        (),
        (("t", "x"),),
        (("d",),),
        (("d", ""),),
        (("d", "x"), ("d", "y")),
        (("d", "x"), ("d",)),
        (("D", "x"),),
    ],
)
def test_e10_extra_or_missing_d_is_rejected(make_event, tags):
    """The signature is good in each case: only the shape is wrong."""
    for kind in (30_000, 30_078, 39_999):
        with pytest.raises(InvalidEvent, match="d tag"):
            verify(RawEvent.loads(make_event(kind=kind, tags=tags).body()))
    for kind in (1, 5, 29_999, 40_000):
        assert verify(RawEvent.loads(make_event(kind=kind, tags=tags).body()))


# ── The type ────────────────────────────────────────────────────────────────────────────


def test_an_event_can_not_be_made_by_hand(make_event):
    event = make_event()
    for proof in ((), (None,), (True,), (object(),)):
        with pytest.raises(TypeError):
            Event(*_values(event), *proof)
    with pytest.raises(TypeError):
        dataclasses.replace(event, content="other")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.content = "other"


def test_a_claim_is_never_equal_to_a_verified_event(make_event):
    event = make_event()
    raw = RawEvent.loads(event.body())
    assert raw != event
    assert isinstance(event, RawEvent)
    assert not isinstance(raw, Event)


@pytest.mark.parametrize(
    "stored", [b"", b"{", b"[]", b"null", b"{}", b'{"id":1}', b'"text"', b"\xff", b'{"tags":5}']
)
def test_restoring_damaged_bytes_is_an_invalid_event(stored):
    with pytest.raises(InvalidEvent):
        Event.restored(stored)


def test_events_survive_pickling_and_copying(make_event):
    event = make_event()
    assert event == pickle.loads(pickle.dumps(event)) == copy.deepcopy(event)


def test_no_repr_shows_content_or_tags(make_event):
    event = make_event("marker-content", tags=(("d", "sense-memory/marker-tag"),))
    for shown in (repr(event), str(RawEvent.loads(event.body())), f"{event!r:>200}"):
        assert "marker" not in shown
        assert event.id[:16] in shown


# ── Which version wins ──────────────────────────────────────────────────────────────────


versions = st.tuples(st.integers(0, 3), st.sampled_from(["00" * 32, "0f" * 32, "f0" * 32, "ff" * 32]))


def test_the_later_version_wins_and_at_a_tie_the_lower_id():
    """NIP-01 on replaceable events."""
    assert wins_over(2, "f" * 64, 1, "0" * 64)
    assert wins_over(1, "0" * 64, 1, "f" * 64)
    assert not wins_over(1, "0" * 64, 1, "0" * 64)


@seeded
@given(versions, versions, versions)
def test_winning_is_a_strict_total_order(one, two, three):
    assert not wins_over(*one, *one)
    if one != two:
        assert wins_over(*one, *two) is not wins_over(*two, *one)
    if wins_over(*one, *two) and wins_over(*two, *three):
        assert wins_over(*one, *three)


@seeded
@given(st.lists(versions, min_size=1, max_size=4, unique=True))
def test_every_order_of_arrival_ends_with_the_same_head(arrivals):
    heads = set()
    for order in itertools.permutations(arrivals):
        head = order[0]
        for version in order[1:]:
            head = version if wins_over(*version, *head) else head
        heads.add(head)
    assert heads == {min(arrivals, key=lambda version: (-version[0], version[1]))}


def _values(event):
    return [getattr(event, name) for name in FIELDS]
