"""What every relay has to do that a memory store can rely on: NIP-01, NIP-09, NIP-40.

Where nostr-sdk's relay may differ within the NIPs, the test says so at the spot.
"""

from __future__ import annotations

import json

import pytest


def ids(events):
    return [event["id"] for event in events]


async def test_published_event_comes_back_unaltered(relay, author):
    event = author.event(
        1, 'ASCII, äöü, \U0001f9e0, "quotes", \\, \n, \t, \u2028, <&>', [["t", "ünï"], ["x", "a", "b"]]
    )
    async with relay() as dial, dial() as client:
        assert (await client.publish(event))[0]
        assert await client.query({"ids": [event["id"]]}) == [event]


async def test_escapes_in_the_frame_do_not_change_the_event(relay, author):
    event = author.event(1, "ä/\n\u2028&")
    escaped = json.dumps(["EVENT", event]).replace("/", "\\/").replace("&", "\\u0026")
    async with relay() as dial, dial() as client:
        await client.socket.send(escaped)
        assert (await client.next())[2:3] == [True]
        assert await client.query({"ids": [event["id"]]}) == [event]


async def test_each_field_of_a_filter_narrows_the_answer(relay, author, stranger):
    note = author.event(1, at=1)
    memory = author.memory(at=2)
    other = stranger.memory(at=3)
    async with relay() as dial, dial() as client:
        for event in (note, memory, other):
            await client.publish(event)

        assert ids(await client.query({})) == ids([other, memory, note])
        assert await client.query({"ids": [note["id"]]}) == [note]
        assert ids(await client.query({"authors": [author.pubkey]})) == ids([memory, note])
        assert ids(await client.query({"kinds": [30078]})) == ids([other, memory])
        assert ids(await client.query({"#d": ["sense-memory/lisa"]})) == ids([other, memory])
        assert await client.query({"authors": [author.pubkey], "kinds": [30078]}) == [memory]
        assert await client.query({"authors": [author.pubkey], "#d": ["sense-memory/ruca"]}) == []


@pytest.mark.nostr_sdk_differs("a filter with several #d is answered with one event")
async def test_a_filter_with_several_tag_values_finds_each_of_them(relay, author):
    memories = [author.memory(f"m{number}", at=number) for number in range(5)]
    async with relay() as dial, dial() as client:
        for event in memories:
            await client.publish(event)

        wanted = {"authors": [author.pubkey], "kinds": [30078], "#d": ["sense-memory/m1", "sense-memory/m3"]}
        assert ids(await client.query(wanted)) == ids([memories[3], memories[1]])


async def test_several_tag_filters_must_all_match(relay, author):
    both = author.event(1, "", [["t", "art"], ["p", author.pubkey]], 1)
    one = author.event(1, "", [["t", "art"]], 2)
    async with relay() as dial, dial() as client:
        await client.publish(both)
        await client.publish(one)
        assert await client.query({"#t": ["art"], "#p": [author.pubkey]}) == [both]


async def test_only_the_first_value_of_a_tag_is_searched(relay, author):
    event = author.event(1, "", [["t", "first", "second"]])
    async with relay() as dial, dial() as client:
        await client.publish(event)
        assert await client.query({"#t": ["first"]}) == [event]
        assert await client.query({"#t": ["second"]}) == []


async def test_since_and_until_are_inclusive(relay, author):
    events = [author.event(1, str(at), at=at) for at in range(5)]
    start = events[0]["created_at"]
    async with relay() as dial, dial() as client:
        for event in events:
            await client.publish(event)
        found = await client.query({"since": start + 1, "until": start + 3})
        assert ids(found) == ids([events[3], events[2], events[1]])


async def test_answers_come_newest_first_and_lowest_id_first_within_a_second(relay, author):
    events = [author.event(1, str(number), at=number // 4) for number in range(12)]
    expected = sorted(events, key=lambda event: (-event["created_at"], event["id"]))
    async with relay() as dial, dial() as client:
        for event in events:
            await client.publish(event)
        assert ids(await client.query({})) == ids(expected)


async def test_limit_keeps_the_lowest_ids_of_its_last_second(relay, author):
    events = sorted((author.event(1, str(number)) for number in range(6)), key=lambda event: event["id"])
    async with relay() as dial, dial() as client:
        for event in reversed(events):
            await client.publish(event)
        assert ids(await client.query({"limit": 3})) == ids(events[:3])


async def test_limit_keeps_the_newest(relay, author):
    events = [author.event(1, str(at), at=at) for at in range(6)]
    async with relay() as dial, dial() as client:
        for event in events:
            await client.publish(event)
        assert ids(await client.query({"limit": 2})) == ids(events[:-3:-1])


async def test_limit_zero_gets_the_end_mark_only_and_stays_live(relay, author):
    old, new = author.event(1, "old"), author.event(1, "new", at=1)
    async with relay() as dial, dial() as client, dial() as other:
        await other.publish(old)
        await client.send("REQ", "live", {"limit": 0})
        assert await client.stored("live") == []
        await other.publish(new)
        assert await client.next() == ["EVENT", "live", new]


async def test_each_filter_of_a_request_has_its_own_limit(relay, author):
    notes = [author.event(1, str(at), at=at) for at in range(3)]
    memories = [author.memory(f"m{at}", at=10 + at) for at in range(3)]
    async with relay() as dial, dial() as client:
        for event in (*notes, *memories):
            await client.publish(event)
        found = await client.query({"kinds": [1], "limit": 1}, {"kinds": [30078], "limit": 2})
        assert set(ids(found)) == {notes[2]["id"], memories[2]["id"], memories[1]["id"]}


async def test_an_event_that_matches_two_filters_comes_once(relay, author):
    event = author.event(1)
    async with relay() as dial, dial() as client:
        await client.publish(event)
        assert await client.query({"kinds": [1]}, {"authors": [author.pubkey]}) == [event]


async def test_a_duplicate_is_accepted_and_stored_once(relay, author):
    event = author.event(1)
    async with relay() as dial, dial() as client:
        await client.publish(event)
        accepted, text = await client.publish(event)
        assert (accepted, text.startswith("duplicate:")) == (True, True)
        assert await client.query({}) == [event]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("kind", [0, 3, 10002, 30078])
async def test_only_the_newest_version_of_an_address_is_kept(relay, author, kind, newest_first):
    tags = [["d", "x"]] if kind == 30078 else []
    versions = [author.event(kind, str(at), tags, at) for at in range(3)]
    async with relay() as dial, dial() as client:
        for event in reversed(versions) if newest_first else versions:
            await client.publish(event)
        assert await client.query({"kinds": [kind]}) == versions[2:]


async def test_an_older_version_is_refused_as_replaced(relay, author):
    async with relay() as dial, dial() as client:
        await client.publish(author.memory(content="new", at=1))
        accepted, text = await client.publish(author.memory(content="old"))
        assert not accepted
        # NIP-01 names no prefix for it: ours is strfry's "replaced:", nostr-sdk says so in other words.
        if relay.name == "embedded":
            assert text == "replaced: have newer event"


@pytest.mark.parametrize("lowest_first", [True, False])
async def test_at_the_same_second_the_lowest_id_wins(relay, author, lowest_first):
    versions = sorted(
        (author.memory(content=str(number)) for number in range(4)), key=lambda event: event["id"]
    )
    async with relay() as dial, dial() as client:
        for event in versions if lowest_first else reversed(versions):
            await client.publish(event)
        assert await client.query({"#d": ["sense-memory/lisa"]}) == versions[:1]


async def test_authors_kinds_and_d_tags_do_not_replace_each_other(relay, author, stranger):
    events = [
        author.memory("lisa", at=1),
        author.memory("ruca", at=2),
        stranger.memory("lisa", at=3),
        author.event(30079, "", [["d", "sense-memory/lisa"]], 4),
        author.event(1, "", [["d", "sense-memory/lisa"]], 5),
    ]
    async with relay() as dial, dial() as client:
        for event in events:
            assert (await client.publish(event))[0]
        assert set(ids(await client.query({}))) == set(ids(events))


async def test_regular_events_do_not_replace_each_other(relay, author):
    events = [author.event(4, str(at), [["p", author.pubkey]], at) for at in range(3)]
    async with relay() as dial, dial() as client:
        for event in events:
            await client.publish(event)
        assert ids(await client.query({"kinds": [4], "#p": [author.pubkey]})) == ids(reversed(events))


async def test_a_deletion_removes_the_authors_event_and_keeps_it_away(relay, author):
    event = author.event(1)
    deletion = author.event(5, "", [["e", event["id"]], ["k", "1"]], 1)
    async with relay() as dial, dial() as client:
        await client.publish(event)
        assert (await client.publish(deletion))[0]
        assert await client.query({}) == [deletion]
        accepted, text = await client.publish(event)
        assert not accepted
        assert "delet" in text
        assert await client.query({}) == [deletion]


async def test_a_deletion_by_address_removes_versions_up_to_its_own_time(relay, author):
    deletion = author.event(5, "", [["a", author.address()]], 5)
    at_that_second = author.memory(content="same second", at=5)
    async with relay() as dial, dial() as client:
        await client.publish(at_that_second)
        await client.publish(deletion)
        assert await client.query({}) == [deletion]
        assert not (await client.publish(author.memory(content="older", at=4)))[0]
        assert await client.query({}) == [deletion]


async def test_a_memory_may_be_written_again_after_its_deletion(relay, author):
    deletion = author.event(5, "", [["a", author.address()]], 5)
    again = author.memory(content="again", at=6)
    async with relay() as dial, dial() as client:
        await client.publish(author.memory(content="first"))
        await client.publish(deletion)
        assert (await client.publish(again))[0]
        assert await client.query({}) == [again, deletion]


async def test_a_deletion_leaves_a_newer_version_alone(relay, author):
    memory = author.memory(at=6)
    async with relay() as dial, dial() as client:
        await client.publish(memory)
        await client.publish(author.event(5, "", [["a", author.address()]], 5))
        assert await client.query({"kinds": [30078]}) == [memory]


async def test_a_late_older_deletion_does_not_lower_the_mark(relay, author):
    """D-04."""
    async with relay() as dial, dial() as client:
        await client.publish(author.event(5, "", [["a", author.address()]], 5))
        await client.publish(author.event(5, "", [["a", author.address()]], 2))
        assert not (await client.publish(author.memory(at=4)))[0]
        assert await client.query({"kinds": [30078]}) == []


async def test_a_strangers_deletion_has_no_effect(relay, author, stranger):
    """D-02."""
    memory = author.memory()
    async with relay() as dial, dial() as client:
        await client.publish(memory)
        await client.publish(stranger.event(5, "", [["e", memory["id"]]], 1))
        await client.publish(stranger.event(5, "", [["a", author.address()]], 2))
        assert await client.query({"kinds": [30078]}) == [memory]


async def test_a_strangers_deletion_that_comes_first_has_no_effect(relay, author, stranger):
    memory = author.memory()
    async with relay() as dial, dial() as client:
        await client.publish(stranger.event(5, "", [["e", memory["id"]]], 1))
        await client.publish(stranger.event(5, "", [["a", author.address()]], 2))
        assert (await client.publish(memory))[0]
        assert await client.query({"kinds": [30078]}) == [memory]


@pytest.mark.nostr_sdk_differs("deletes deletions; NIP-09 says that this has no effect")
async def test_a_deletion_can_not_be_deleted(relay, author):
    deletion = author.event(5, "", [["e", "0" * 64]], 1)
    async with relay() as dial, dial() as client:
        await client.publish(deletion)
        await client.publish(author.event(5, "", [["e", deletion["id"]]], 2))
        assert await client.query({"ids": [deletion["id"]]}) == [deletion]


@pytest.mark.nostr_sdk_differs("splits the address at every colon")
async def test_a_d_tag_with_colons_is_deleted_by_its_address(relay, author):
    memory = author.memory("a:b:c")
    async with relay() as dial, dial() as client:
        await client.publish(memory)
        await client.publish(author.event(5, "", [["a", author.address("a:b:c")]], 1))
        assert await client.query({"kinds": [30078]}) == []


@pytest.mark.parametrize("field", ["id", "sig", "content", "created_at", "pubkey"])
async def test_an_event_that_does_not_verify_is_refused(relay, author, stranger, field):
    event = author.event(1, "true")
    forged = (
        event
        | {
            "id": {"id": stranger.event(1)["id"]},
            "sig": {"sig": event["sig"][:-1] + ("0" if event["sig"][-1] != "0" else "1")},
            "content": {"content": "forged"},
            "created_at": {"created_at": event["created_at"] + 1},
            "pubkey": {"pubkey": stranger.pubkey},
        }[field]
    )
    async with relay() as dial, dial() as client:
        accepted, text = await client.publish(forged)
        assert (accepted, text.startswith("invalid:")) == (False, True)
        assert await client.query({}) == []
        assert (await client.publish(event))[0]


async def test_an_expired_event_is_not_served(relay, author):
    """NIP-40: relays SHOULD drop it; nostr-sdk's may take it, but must not hand it out."""
    expired = author.event(1, "", [["expiration", str(author.event()["created_at"] + 10)]])
    lasting = author.event(1, "", [["expiration", "4102444800"]])
    async with relay() as dial, dial() as client:
        accepted, _ = await client.publish(expired)
        if relay.name == "embedded":
            assert not accepted
        assert (await client.publish(lasting))[0]
        assert await client.query({}) == [lasting]


async def test_an_ephemeral_event_is_passed_on_and_not_stored(relay, author):
    event = author.event(20_001, "now")
    async with relay() as dial, dial() as client, dial() as other:
        await client.send("REQ", "live", {"kinds": [20_001]})
        assert await client.stored("live") == []
        assert (await other.publish(event))[0]
        assert await client.next() == ["EVENT", "live", event]
        assert await other.query({"kinds": [20_001]}) == []


async def test_a_subscription_hears_of_new_events_that_match(relay, author, stranger):
    first, second = author.event(1, "first"), author.event(1, "second", at=1)
    async with relay() as dial, dial() as client, dial() as other:
        await other.publish(first)
        await client.send("REQ", "live", {"authors": [author.pubkey]})
        assert await client.stored("live") == [first]
        await other.publish(stranger.event(1))
        await other.publish(second)
        assert await client.next() == ["EVENT", "live", second]


async def test_a_closed_subscription_is_silent(relay, author):
    async with relay() as dial, dial() as client, dial() as other:
        await client.send("REQ", "closed", {"kinds": [1]})
        await client.stored("closed")
        await client.send("REQ", "open", {"kinds": [1]})
        await client.stored("open")
        await client.close("closed")
        assert await client.query({"limit": 0}) == []  # by its EOSE, the CLOSE was handled
        event = author.event(1)
        await other.publish(event)
        assert await client.next() == ["EVENT", "open", event]
        again = author.event(1, "again")
        await other.publish(again)
        assert await client.next() == ["EVENT", "open", again]


async def test_a_request_under_an_open_name_replaces_its_filters(relay, author):
    async with relay() as dial, dial() as client, dial() as other:
        await client.send("REQ", "same", {"kinds": [1]})
        await client.stored("same")
        await client.send("REQ", "same", {"kinds": [2]})
        await client.stored("same")
        await other.publish(author.event(1))
        event = author.event(2)
        await other.publish(event)
        assert await client.next() == ["EVENT", "same", event]


async def test_a_superseded_version_is_not_announced(relay, author):
    new = author.event(1, "after")
    async with relay() as dial, dial() as client, dial() as other:
        await other.publish(author.memory(at=5))
        await client.send("REQ", "live", {"since": 0, "limit": 0})
        await client.stored("live")
        await other.publish(author.memory(content="old", at=1))
        await other.publish(new)
        assert await client.next() == ["EVENT", "live", new]


@pytest.mark.parametrize(
    "bad", ["hi", "{}", "[]", '["EVENT"]', '["REQ"]', '["REQ","x",{"ids":["zz"]}]', '["NOPE",1]']
)
async def test_a_bad_frame_does_not_end_the_connection(relay, author, bad):
    event = author.event(1)
    async with relay() as dial, dial() as client:
        await client.socket.send(bad)
        await client.send("EVENT", event)
        answers = [await client.next()]
        while answers[-1][0] != "OK":
            answers.append(await client.next())
        assert answers[-1][:3] == ["OK", event["id"], True]
        assert {answer[0] for answer in answers[:-1]} <= {"NOTICE", "CLOSED"}


@pytest.mark.parametrize("name", ["s", "s" * 64, 'ü☃\\"'])
async def test_a_subscription_is_named_as_the_client_likes(relay, author, name):
    event = author.event(1)
    async with relay() as dial, dial() as client:
        await client.publish(event)
        await client.send("REQ", name, {})
        assert await client.stored(name) == [event]


@pytest.mark.nostr_sdk_differs("its default allows 250 characters")
async def test_a_name_of_more_than_64_characters_is_refused(relay):
    async with relay() as dial, dial() as client:
        await client.send("REQ", "s" * 65, {})
        assert (await client.next())[0] in {"NOTICE", "CLOSED"}


async def test_every_one_of_many_pipelined_events_gets_its_ok(relay, author):
    events = [author.memory(f"m{number}", at=number) for number in range(300)]
    async with relay() as dial, dial() as client:
        for event in events:
            await client.send("EVENT", event)
        answers = [await client.next() for _ in events]
        assert [answer[:3] for answer in answers] == [["OK", event["id"], True] for event in events]
        assert ids(await client.query({"limit": 400})) == ids(reversed(events))


async def test_a_large_memory_fits(relay, author):
    """40,960 bytes of plaintext become an event of just under strfry's 65,536 bytes."""
    event = author.memory(content="A" * 65_000)
    async with relay() as dial, dial() as client:
        assert (await client.publish(event))[0]
        assert await client.query({}) == [event]
