"""Frames: bytes in, typed frames out. Whatever a peer sends, a listed error is the worst of it."""

from __future__ import annotations

import contextlib
import json
import random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidEvent, MalformedFrame
from sense_memory.limits import MAX_FRAME_BYTES
from sense_memory.nostr import wire
from sense_memory.nostr.event import RawEvent, verify
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.wire import parse_client_frame, parse_relay_frame


seeded = settings(max_examples=30, deadline=None, derandomize=True)

ID = "ab" * 32
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
VERBS = (
    "EVENT", "OK", "EOSE", "CLOSED", "NOTICE", "AUTH", "REQ", "CLOSE", "COUNT",
    "NEG-OPEN", "NEG-MSG", "NEG-ERR", "NEG-CLOSE",
)  # fmt: skip
frames = (
    st.binary(max_size=60)
    | st.text(max_size=60)
    | st.builds(json.dumps, json_values)
    | st.builds(
        lambda verb, rest: json.dumps([verb, *rest]),
        st.sampled_from(VERBS),
        st.lists(json_values, max_size=4),
    )
)


@pytest.fixture(scope="module")
def every_frame():
    """One well-formed frame of each kind, either direction; the same bytes in every run."""
    event = RawEvent(ID, ID, 1_800_000_000, 30_078, (("d", "sense-memory/x"),), "sealed", ID * 2).as_json()
    asked = {"ids": [ID], "authors": [ID], "kinds": [5], "#d": ["x"], "since": 1, "until": 2, "limit": 3}
    return [
        orjson.dumps(frame)
        for frame in (
            ["EVENT", "sub", event],
            ["OK", ID, True, "x"],
            ["EOSE", "sub"],
            ["CLOSED", "sub", "error: x"],
            ["NOTICE", "x"],
            ["AUTH", "challenge"],
            ["EVENT", event],
            ["REQ", "sub", asked, {}],
            ["CLOSE", "sub"],
            ["AUTH", event],
            ["COUNT", "sub", {"count": 7}],
            ["COUNT", "sub", asked, {}],
            ["NEG-OPEN", "sub", asked, "61000002"],
            ["NEG-MSG", "sub", "61000002"],
            ["NEG-ERR", "sub", "blocked: x"],
            ["NEG-CLOSE", "sub"],
        )
    ]


@pytest.mark.parametrize(
    ("sent", "frame"),
    [
        (["EVENT", "sub", {"id": 1}], wire.EventFrame("sub", {"id": 1})),
        (["EVENT", "", None], wire.EventFrame("", None)),
        (["OK", ID, True, ""], wire.OkFrame(ID, True, "")),
        (["OK", ID, False, "blocked: x"], wire.OkFrame(ID, False, "blocked: x")),
        (["OK", ID, True], wire.OkFrame(ID, True, "")),
        (["EOSE", "sub"], wire.EoseFrame("sub")),
        (["CLOSED", "sub", "error: x"], wire.ClosedFrame("sub", "error: x")),
        (["CLOSED", "sub"], wire.ClosedFrame("sub", "")),
        (["NOTICE", "x"], wire.NoticeFrame("x")),
        (["AUTH", "challenge"], wire.AuthFrame("challenge")),
        (["COUNT", "sub", {"count": 0}], wire.CountFrame("sub", 0)),
        (["COUNT", "sub", {"count": 7, "approximate": True, "hll": "00"}], wire.CountFrame("sub", 7)),
        (["NEG-MSG", "sub", "6100ff"], wire.NegMessage("sub", b"\x61\x00\xff")),
        (["NEG-MSG", "sub", ""], wire.NegMessage("sub", b"")),
        (["NEG-ERR", "sub", "blocked: x"], wire.NegError("sub", "blocked: x")),
        (
            ["NEG-ERR", "sub", "blocked: too many query results", 1_000_000],
            wire.NegError("sub", "blocked: too many query results"),
        ),
    ],
)
def test_what_a_relay_says(sent, frame):
    assert frame == parse_relay_frame(json.dumps(sent)) == parse_relay_frame(json.dumps(sent).encode())


def test_what_a_client_says(make_event):
    event = make_event("grüße")
    raw = RawEvent.loads(event.body())
    asked = Filter(kinds=(30_078,), tags={"d": ("x",)}, limit=5)
    assert wire.Publish(raw) == parse_client_frame(wire.publish(event.body()))
    assert wire.Request("sub", (asked, Filter())) == parse_client_frame(
        wire.request("sub", [asked, Filter()])
    )
    assert wire.Close("sub") == parse_client_frame(wire.close("sub"))
    assert wire.Authenticate(raw) == parse_client_frame(wire.frame("AUTH", event.as_json()))
    assert wire.Count("sub", (asked, Filter())) == parse_client_frame(wire.count("sub", [asked, Filter()]))
    assert wire.NegOpen("sub", asked, b"\x61\x00") == parse_client_frame(
        wire.neg_open("sub", asked, b"\x61\x00")
    )
    assert wire.NegMessage("sub", b"\xab") == parse_client_frame(wire.neg_message("sub", b"\xab"))
    assert wire.NegClose("sub") == parse_client_frame(wire.neg_close("sub"))


def test_published_bytes_are_the_stored_bytes(make_event):
    """No re-encoding on the way out: the ledger's bytes are what every relay gets."""
    body = make_event("grüße \u2028 \x7f").body()
    assert wire.publish(body).encode() == b'["EVENT",' + body + b"]"


def test_an_event_frame_is_verified_by_nobody_here(make_event):
    value = make_event().as_json() | {"sig": "0" * 128}
    frame = parse_relay_frame(orjson.dumps(["EVENT", "sub", value]))
    with pytest.raises(InvalidEvent):
        verify(RawEvent.parse(frame.value))


@pytest.mark.parametrize(
    "sent",
    [
        ["REQ", "sub"],
        ["REQ", "", {}],
        ["REQ", "x" * 65, {}],
        ["REQ", "sub", []],
        ["REQ", "sub", {"ids": ["x"]}],
        ["REQ", "sub", {}, {"kinds": [True]}],
        ["REQ", 5, {}],
        ["CLOSE"],
        ["CLOSE", 5],
        ["CLOSE", "a", "b"],
        ["OK", ID, True, ""],
        ["EVENT"],
        ["COUNT", "sub"],
        ["COUNT", "", {}],
        ["COUNT", "sub", {"count": 1}, 5],
        ["NEG-OPEN", "sub", {}],
        ["NEG-OPEN", "", {}, "61"],
        ["NEG-OPEN", "x" * 65, {}, "61"],
        ["NEG-OPEN", "sub", [{}], "61"],
        ["NEG-OPEN", "sub", {}, {}, "61"],
        ["NEG-OPEN", "sub", {"ids": ["x"]}, "61"],
        ["NEG-OPEN", "sub", {}, 61],
        ["NEG-MSG", "sub"],
        ["NEG-MSG", 5, "61"],
        ["NEG-ERR", "sub", "blocked: x"],
        ["NEG-CLOSE"],
        ["NEG-CLOSE", 5],
        [["EVENT"]],
    ],
)
def test_a_relay_refuses_what_no_client_may_say(sent):
    with pytest.raises(MalformedFrame):
        parse_client_frame(json.dumps(sent))


@pytest.mark.parametrize("subscription", ["x", "x" * 64])
def test_a_subscription_id_has_1_to_64_characters(subscription):
    assert parse_client_frame(wire.request(subscription, [Filter()])).subscription == subscription


@pytest.mark.parametrize("verb", ["EVENT", "AUTH"])
@pytest.mark.parametrize("value", [None, {}, [], "x", {"id": ID}])
def test_a_clients_bad_event_is_named_as_such(verb, value):
    with pytest.raises(InvalidEvent):
        parse_client_frame(json.dumps([verb, value]))


@pytest.mark.parametrize("parts", [("AUTH", "\ud800"), ("REQ", "sub", {"#d": ["\udfff"]})])
def test_what_is_no_unicode_is_not_sent(parts):
    with pytest.raises(InvalidEvent):
        wire.frame(*parts)


@seeded
@given(frames)
def test_fuzzed_frames_raise_listed_errors_only(data):
    with contextlib.suppress(MalformedFrame):
        parse_relay_frame(data)
    with contextlib.suppress(MalformedFrame, InvalidEvent):
        parse_client_frame(data)


# ── Rows of the threat model ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "opening", ["[", '{"a":', '["EVENT","s",{"tags":', '["EVENT","s",' + "[" * 50, '["REQ","s",{"a":']
)
def test_w01_deep_nesting_is_refused_before_parsing(opening):
    """100,000 levels: no RecursionError, whether the brackets are closed or not."""
    depth = 100_000 // len(opening)
    for data in (opening * depth, "[" * 100_000, "[" * 100_000 + "]" * 100_000):
        for parse in (parse_relay_frame, parse_client_frame):
            with pytest.raises(MalformedFrame):
                parse(data)
            with pytest.raises(MalformedFrame):
                parse(data.encode())


def test_w02_oversized_frames_are_refused_before_parsing():
    """The connection closes earlier still; this is the second lock."""
    fits = json.dumps(["NOTICE", "x" * (MAX_FRAME_BYTES - len('["NOTICE", ""]'))])
    assert len(fits) == MAX_FRAME_BYTES
    assert parse_relay_frame(fits)
    for data in (fits + " ", "x" * 2_097_152):
        for parse in (parse_relay_frame, parse_client_frame):
            with pytest.raises(MalformedFrame, match="too long"):
                parse(data)


@pytest.mark.parametrize("escaped", [r"\ud800", r"\udfff", r"\ude00\ud83d", r"ok\ud83dx"])
def test_w04_lone_surrogate_is_malformed(make_event, escaped):
    body = make_event("MARK").body().decode()
    for frame in (
        f'["NOTICE","{escaped}"]',
        f'["EVENT","s",{body.replace("MARK", escaped)}]',
        '["NOTICE","\ud800"]',
    ):
        with pytest.raises(MalformedFrame):
            parse_relay_frame(frame)
    with pytest.raises(MalformedFrame):
        parse_client_frame(f'["EVENT",{body.replace("MARK", escaped)}]')


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b'["NOTICE","\xff"]', b'["NOTICE","\xed\xa0\x80"]', b"\x00", b""]
)
def test_w04_bytes_that_are_no_utf8_are_malformed(data):
    with pytest.raises(MalformedFrame):
        parse_relay_frame(data)


def test_w05_escapes_in_a_frame_do_not_change_the_event(make_event):
    event = make_event("a&b/c\nd\u2028\x7f")
    body = event.body().decode().replace("&", r"\u0026").replace("/", r"\/").replace(r"\n", r"\u000a")
    frame = parse_relay_frame(f'[ "\\u0045VENT" ,\n"s", {body}\t]')
    assert event == verify(RawEvent.parse(frame.value))


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "01", "1.", "+1", "0x1", "1e", "9" * 5_000]
)
def test_w06_what_is_no_json_number_is_malformed(number):
    with pytest.raises(MalformedFrame):
        parse_relay_frame(f'["EVENT","s",{{"kind":{number}}}]')


@pytest.mark.parametrize("number", ["1", "0", "null", '"true"', "1.0", "[]"])
def test_w06_accepted_is_a_boolean(number):
    with pytest.raises(MalformedFrame):
        parse_relay_frame(f'["OK","{ID}",{number},""]')


@pytest.mark.parametrize(
    "bad", [ID.upper(), ID[:-1], ID + "0", " " + ID[1:], ID[:-1] + "\n", "\uff11" + ID[1:], ""]
)
def test_w08_hex_is_exact(bad):
    with pytest.raises(MalformedFrame):
        parse_relay_frame(json.dumps(["OK", bad, True, ""]))
    for field in ("ids", "authors"):
        with pytest.raises(MalformedFrame):
            parse_client_frame(json.dumps(["REQ", "s", {field: [bad]}]))


@pytest.mark.parametrize("bad", ["6", "6g", "6A", "61 ", " 61", "0x61", "\uff161", "61\n", "6 1 "])
def test_the_hex_of_a_comparison_is_exact(bad):
    assert parse_relay_frame('["NEG-MSG","s","61"]').message == b"a"
    with pytest.raises(MalformedFrame):
        parse_relay_frame(json.dumps(["NEG-MSG", "s", bad]))
    for frame in (["NEG-MSG", "s", bad], ["NEG-OPEN", "s", {}, bad]):
        with pytest.raises(MalformedFrame):
            parse_client_frame(json.dumps(frame))


def test_only_a_comparison_may_be_longer_than_other_frames():
    """strfry answers with messages of up to 500,000 bytes, which are a million digits."""
    long = "61" * 500_000
    assert len(parse_relay_frame(f'["NEG-MSG","s","{long}"]').message) == 500_000
    assert len(parse_relay_frame(f'["NEG-MSG","s","{long}"]'.encode()).message) == 500_000
    for data in (f'["NOTICE","{long}"]', f' ["NEG-MSG","s","{long}"]', f'["NEG-MSG","s","{long * 2}"]'):
        with pytest.raises(MalformedFrame, match="too long"):
            parse_relay_frame(data)


@pytest.mark.parametrize(
    "data",
    [
        '["EOSE"]',
        "[]",
        "{}",
        '"hi"',
        "5",
        "null",
        "",
        " ",
        '["OK"]',
        f'["OK","{ID}"]',
        '["OK","x",true,""]',
        f'["OK","{ID}",true,5]',
        f'["OK","{ID}",true,"",""]',
        '["EOSE",5]',
        '["EVENT","s"]',
        '["EVENT",{}]',
        '["EVENT",5,{}]',
        '["CLOSED"]',
        '["NOTICE"]',
        '["NOTICE",{}]',
        '["AUTH",{}]',
        '["COUNT","s"]',
        '["COUNT","s",{}]',
        '["COUNT","s",{"count":-1}]',
        '["COUNT","s",{"count":true}]',
        '["COUNT","s",{"count":1.0}]',
        '["COUNT","s",{"count":9007199254740992}]',
        '["NEG-OPEN","s",{},"61"]',
        '["NEG-MSG","s"]',
        '["NEG-ERR","s"]',
        '["NEG-CLOSE","s"]',
        '["eose","s"]',
        '["EOSE","s"',
        '["EOSE","s"]]',
        '["EOSE","s"]["EOSE","s"]',
        "['EOSE','s']",
        '["EOSE","s",]',
        b"\x00\x01\x02\x03",
        b"\x1f\x8b\x08",
    ],
)
def test_w09_unknown_or_short_frames_are_malformed(data):
    """For the session to count and to ignore; the error holds no part of what came."""
    with pytest.raises(MalformedFrame) as refused:
        parse_relay_frame(data)
    try:
        expected = "not a frame that a relay sends" if type(json.loads(data)) is list else "not a JSON array"
    except ValueError:
        expected = "not JSON"
    assert expected == str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_w11_no_repr_of_a_frame_shows_the_relays_words():
    said = "\x1b[2Jmarker\r\n</script>"
    for sent in (
        ["EVENT", said, {said: said}],
        ["OK", ID, False, said],
        ["EOSE", said],
        ["CLOSED", said, said],
        ["NOTICE", said],
        ["AUTH", said],
        ["COUNT", said, {"count": 1}],
        ["NEG-MSG", said, "61"],
        ["NEG-ERR", said, said],
    ):
        frame = parse_relay_frame(json.dumps(sent))
        assert "marker" not in f"{frame!r}{frame}"


def test_w12_fuzzed_frames_only_raise_listed_errors(every_frame):
    """10,000 mutations of valid frames, seeded: bytes changed, cut, doubled, and swapped in from others."""
    source = random.Random(12)
    read = 0
    for _ in range(10_000):
        data = _mutated(source, every_frame)
        with contextlib.suppress(MalformedFrame, InvalidEvent):
            frame = parse_relay_frame(data)
            read += 1
            if isinstance(frame, wire.EventFrame):
                RawEvent.parse(frame.value)
        with contextlib.suppress(MalformedFrame, InvalidEvent):
            parse_client_frame(data)
    assert 100 < read < 9_000  # neither all refused nor all harmless


def _mutated(source, every_frame):
    data = bytearray(source.choice(every_frame))
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(data) + 1)
        match source.randrange(5):
            case 0:
                data[at : at + 1] = bytes([source.randrange(256)])
            case 1:
                del data[at : at + source.randint(1, 20)]
            case 2:
                data[at:at] = data[source.randrange(len(data) + 1) :][: source.randint(1, 20)]
            case 3:
                data[at:at] = source.choice(every_frame)[:: source.randint(1, 2)]
            case 4:
                data[at:at] = source.choice(
                    [b"[", b"]", b"{", b'"', b"\\u", b"1e9", b"null", b",", b"\\ud800"]
                )
    return bytes(data)
