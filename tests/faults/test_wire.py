"""W rows: bytes that a relay may send instead of Nostr frames."""

from __future__ import annotations

import json
import logging
import zlib

import orjson
import pytest
from websockets.asyncio.server import serve

from relays.faults import Fuzz, Inject, NoticeOnly, Oversized
from sense_memory.relay.client import page
from tests.inside import ledger_of


_silent = logging.getLogger(f"{__name__}.library")  # of the raw peer
_silent.setLevel(logging.CRITICAL)


def event_text(event, **raw):
    """The EVENT frame of an event for any subscription, some fields spelled as given."""
    fields = [f'"{name}":{raw.get(name, json.dumps(value))}' for name, value in event.items()]
    return '["EVENT","$sub",{' + ",".join(fields) + "}]"


async def useless(stage, *messages, **options):
    """What one relay that sends these was good for: its report line, beside an honest relay."""
    async with (
        stage.liar(Inject(*messages, **options)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await store.remember("kept", f"{stage.plaintext} here")
        report = await stage.sync(store)
        assert "kept" in [memory.key for memory in await store.recall_all()]
        return report.relays[0], await store.recall_all()


async def test_w01_deep_nesting_is_refused_before_parsing(stage):
    line, memories = await useless(stage, "[" * 100_000, at_connect=True)
    assert line.in_step
    assert line.useless["malformed"] == 1
    assert [memory.key for memory in memories] == ["kept"]


async def test_w02_oversized_frame_closes_that_relay_only(stage):
    async with (
        stage.liar(Oversized(2 * 1024 * 1024)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await store.remember("kept", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert not bad.complete
        assert bad.misbehaving
        assert "sent a message of more than 1,048,576 bytes" in " ".join((bad.problem, *bad.pulled.reasons))
        assert bad.waiting == 1
        assert good.in_step
        assert not good.misbehaving
    assert liar.close_codes in ([1009], [1006])  # the farewell is lost where a reset overtakes it


async def test_w03_compression_is_not_offered(stage):
    """The proxy would negotiate permessage-deflate with anybody who offers it."""
    async with stage.liar() as liar, stage.store(liar) as store:
        await store.remember("kept", stage.plaintext)
        assert (await stage.sync(store)).in_step
    assert [headers.get("Sec-WebSocket-Extensions") for headers in liar.upgrades] == [None]


async def test_w03_compression_that_was_not_offered_is_not_inflated(stage):
    """A raw peer: it claims an extension nobody offered, and sends a bomb of 10 MiB under it."""
    deflate = zlib.compressobj(9, wbits=-15)
    bomb = deflate.compress(b"x" * 10 * 1024 * 1024) + deflate.flush(zlib.Z_SYNC_FLUSH)
    bomb = bomb.removesuffix(b"\x00\x00\xff\xff")

    def insist(connection, request, response):
        response.headers["Sec-WebSocket-Extensions"] = "permessage-deflate"

    async def explode(connection):
        connection.transport.write(b"\xc1\x7e" + len(bomb).to_bytes(2, "big") + bomb)
        await connection.wait_closed()

    async with (
        serve(explode, "127.0.0.1", 0, compression=None, process_response=insist, logger=_silent) as server,
        stage.relay() as honest,
    ):
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with stage.store(url, honest) as store:
            await store.remember("kept", stage.plaintext)
            bad, good = (await stage.sync(store)).relays

    assert len(bomb) < 65_536
    assert bad.problem == "does not speak the WebSocket protocol"
    assert bad.waiting == 1
    assert good.in_step


@pytest.mark.parametrize("where", ["content", "tag", "notice"])
async def test_w04_lone_surrogate_is_malformed(stage, where):
    event = await stage.event("surrogate")
    text = {
        "content": event_text(event, content='"\\ud800"'),
        "tag": event_text(event, tags='[["d","sense-memory/\\udfff"]]'),
        "notice": '["NOTICE","\\ud83d alone"]',
    }[where]
    line, memories = await useless(stage, text, kind=30078)
    assert line.useless["malformed"] == 1
    assert line.in_step
    assert [memory.key for memory in memories] == ["kept"]


async def test_w05_escapes_do_not_change_the_id(stage):
    tags = [["d", "sense-memory/a&b\u2028c"], ["alt", "line\nfeed / slash \x7f & \u2028 \U0001f9e0"]]
    event = await stage.event("a&b\u2028c", tags=tags)
    spelled = (
        json.dumps(event, ensure_ascii=False)
        .replace("&", "\\u0026")
        .replace("/", "\\/")
        .replace("\\n", "\\u000a")
        .replace("\U0001f9e0", "\\ud83e\\udde0")
    )
    assert "\u2028" in spelled
    assert "\x7f" in spelled
    assert event == json.loads(spelled)
    async with (
        stage.liar(Inject('["EVENT","$sub",' + spelled + "]", kind=30078)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.sync(store)

        assert event["id"] == (await store.recall("a&b\u2028c")).event_id
        assert [event] == await stage.stored(honest.url)


NO_INTEGERS = {
    "kind true": {"kind": "true"},
    "kind float": {"kind": "30078.0"},
    "kind text": {"kind": '"30078"'},
    "kind exponent": {"kind": "3.0078e4"},
    "kind too large": {"kind": "65536"},
    "time negative": {"created_at": "-1"},
    "time exponent": {"created_at": "1e3"},
    "time beyond 63 bits": {"created_at": str(2**63)},
    "time beyond 2**53": {"created_at": str(2**53)},
    "time of 5,000 digits": {"created_at": "1" * 5_000},
    "time NaN": {"created_at": "NaN"},
    "time null": {"created_at": "null"},
}


@pytest.mark.parametrize("raw", NO_INTEGERS.values(), ids=NO_INTEGERS)
async def test_w06_numbers_must_be_plain_integers(stage, raw):
    line, memories = await useless(stage, event_text(await stage.event("number"), **raw), kind=30078)
    assert line.useless.get("malformed", 0) + line.useless.get("invalid", 0) == 1
    assert line.in_step
    assert [memory.key for memory in memories] == ["kept"]


@pytest.mark.parametrize("field", ["id", "content", "created_at", "sig"])
async def test_w07_duplicate_keys_never_split_the_truth(stage, field):
    """Accepted only as the values that were parsed, and exactly those are stored."""
    good, other = await stage.event("twice", "good", at=-5), await stage.event("twice", "other", at=-3)
    right, wrong = json.dumps(good[field]), json.dumps(other[field])
    liar_first = event_text(good, **{field: f'{wrong},"{field}":{right}'})
    liar_last = event_text(good, **{field: f'{right},"{field}":{wrong}'})
    for text in (liar_first, liar_last):
        parsed = json.loads(text)[2]
        async with (
            stage.liar(Inject(text, kind=30078)) as liar,
            stage.relay() as honest,
            stage.store(liar, honest) as store,
        ):
            line = (await stage.sync(store)).relays[0]
            kept = [orjson.loads(body) for body in ledger_of(store).bodies()]

            assert ([good] if parsed == good else []) == kept == await stage.stored(honest.url)
            assert kept or line.useless["invalid"] == 1


def _hex_variants(text):
    return {
        "upper case": text.upper(),
        "one upper-case digit": text.replace(next(c for c in text if c.isalpha()), "A", 1).upper()[:1]
        + text[1:]
        if text[0].isalpha()
        else "A" + text[1:],
        "space in front": " " + text[1:],
        "space behind": text + " ",
        "one digit short": text[:-1],
        "one digit long": text + "0",
        "full-width digit": "\uff11" + text[1:],
        "prefix": "0x" + text[2:],
        "empty": "",
    }


@pytest.mark.parametrize("field", ["id", "pubkey", "sig"])
async def test_w08_hex_is_exact(stage, field):
    event = await stage.event("hex")
    spellings = _hex_variants(event[field])
    texts = [event_text({**event, field: spelling}) for spelling in spellings.values()]
    line, memories = await useless(stage, *texts, kind=30078)
    assert len(spellings) == line.useless["invalid"]
    assert [memory.key for memory in memories] == ["kept"]


JUNK = (
    '["EOSE"]', "[]", "{}", '"hi"', '["OK"]', b'["EOSE","$sub"]', '["COUNT","$sub"]', "null",
    "", "[null]", '["EVENT"]', '["EVENT","$sub"]', '["EVENT",{}]', '["EOSE",1]', '["OK","xyz",true,""]',
    '["OK","' + "0" * 64 + '","true",""]', '["NOTICE"]', '["CLOSED"]', '["quokka","$sub"]',
)  # fmt: skip


UNASKED = (
    '["COUNT","$sub",{"count":812}]', '["NEG-MSG","$sub","61"]', '["NEG-ERR","$sub","blocked: quokka"]',
)  # fmt: skip


async def test_w09_unknown_or_short_frames_are_ignored(stage):
    line, memories = await useless(stage, *JUNK, *UNASKED, kind=30078)
    assert {"malformed": len(JUNK), "unasked": len(UNASKED)} == line.useless
    assert line.in_step
    assert [memory.key for memory in memories] == ["kept"]


async def test_w10_wrong_subscription_id_never_delivers(stage, monkeypatch):
    """The event is real and ours: only the subscription it is sent for is wrong."""
    verified = []
    monkeypatch.setattr(page, "verify", lambda raw: verified.append(raw.id))
    event = json.dumps(await stage.event("elsewhere"))
    messages = [f'["EVENT",{json.dumps(sub)},{event}]' for sub in ("", "sub", "0" * 16, "x" * 65)]
    line, memories = await useless(stage, *messages, kind=30078)

    assert verified == []
    assert len(messages) == line.useless["unasked"]
    assert line.in_step
    assert [memory.key for memory in memories] == ["kept"]


async def test_w11_notice_text_is_data(stage):
    text = f"{stage.words} \x1b[31mred\x1b[0m\r\n</script>\u202e " + "x" * 200_000
    async with (
        stage.liar(Inject(json.dumps(["NOTICE", text]), at_connect=True)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await store.remember("kept", stage.plaintext)
        assert (await stage.sync(store)).in_step
        (notice,) = store.status().relays[0].notices

    assert notice.startswith(f"{stage.words} \\u001b[31mred\\u001b[0m\\u000d\\u000a</script>\\u202e xxx")
    assert len(notice) <= 256 + 6 * 5
    assert notice.isprintable()


@pytest.mark.virtual_time
async def test_w11_a_notice_never_changes_data(stage):
    """Whatever it says, also as the only answer: it is no EOSE, and nobody acts on it."""
    words = f"{stage.words}: everything was deleted, please forget it"
    async with (
        stage.liar(NoticeOnly(words)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        await store.remember("kept", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.pulled.reasons == ("answered with a notice only",)
        assert good.in_step
        assert stage.plaintext == (await store.recall("kept")).value
        assert words in store.status().relays[0].notices


@pytest.mark.virtual_time
async def test_w12_fuzzed_frames_only_raise_listed_errors(stage):
    """Altered frames: each is counted or is what it was; whatever happens is said in our words.

    Ten thousand more, for a tenth of the time, are read without a store in `nostr/` and `relay/client/`.
    """
    event = await stage.event("k", "true", at=-60)
    sent = 0
    async with stage.relay() as honest:
        await stage.put(honest.url, event)
        for seed in range(12):
            fuzz = Fuzz(90)
            async with (
                stage.liar(fuzz, seed=seed) as liar,
                stage.store(liar, honest, timeouts=stage.quick) as store,
            ):
                await stage.put(liar.upstream, event)
                line = (await stage.sync(store)).relays[0]
                assert sum(line.useless.values()) > 0
                assert [orjson.loads(body) for body in ledger_of(store).bodies()] == [event]
                assert (await store.recall("k")).event_id == event["id"]
            sent += fuzz.sent
    assert sent >= 3_000
