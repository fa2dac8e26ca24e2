"""Counting (NIP-45) and comparing (NIP-77): what a store finds out about a relay without fetching anything.

The messages of comparisons are written out by hand from the protocol's text.
"""

from __future__ import annotations

import hashlib
import random

import pytest


EVERYTHING = "61 00 00"  # version 1, and a range up to infinity
NO_IDS = bytes.fromhex(EVERYTHING + "02 00").hex()
IN_STEP = "61"


async def count(client, *filters):
    await client.send("COUNT", "how many", *filters)
    kind, subscription, answer = await client.next()
    assert (kind, subscription) == ("COUNT", "how many")
    return answer["count"]


def listed(events):
    """The message that lists the ids of fewer than 128 events."""
    ids = [event["id"] for event in sorted(events, key=lambda event: (event["created_at"], event["id"]))]
    return bytes.fromhex(f"{EVERYTHING} 02 {len(ids):02x} {''.join(ids)}").hex()


def fingerprint(events):
    """The message that stands for fewer than 128 events by the fingerprint of their ids."""
    total = sum(int.from_bytes(bytes.fromhex(event["id"]), "little") for event in events) % 2**256
    digest = hashlib.sha256(total.to_bytes(32, "little") + bytes([len(events)])).hexdigest()
    return bytes.fromhex(f"{EVERYTHING} 01 {digest[:32]}").hex()


async def compare(client, message, subscription="n", **wanted):
    """The answer to the first message of a comparison, which is closed again."""
    await client.send("NEG-OPEN", subscription, wanted, message)
    frame = await client.next()
    await client.send("NEG-CLOSE", subscription)
    assert frame[:2] == ["NEG-MSG", subscription]
    return frame[2]


@pytest.fixture(scope="session")
def notes(author):
    """Forty notes, dated by their numbers, four to a second."""
    return [author.event(1, str(number), at=number // 4) for number in range(40)]


# ── NIP-45 ──────────────────────────────────────────────────────────────────────────────


async def test_what_matches_is_counted(relay, author, stranger, notes):
    async with relay() as dial, dial() as client:
        assert await count(client, {}) == 0
        for event in (*notes[:5], stranger.event(1), author.memory()):
            await client.publish(event)
        assert await count(client, {}) == 7
        assert await count(client, {"authors": [author.pubkey], "kinds": [1]}) == 5
        assert await count(client, {"since": notes[4]["created_at"], "kinds": [1]}) == 1
        assert await count(client, {"#d": ["sense-memory/lisa"]}) == 1
        assert await count(client, {"kinds": [7]}) == 0


@pytest.mark.nostr_sdk_differs("only the first filter is counted")
async def test_what_several_filters_match_is_counted_once(relay, author, notes):
    async with relay() as dial, dial() as client:
        for event in (*notes[:3], author.memory()):
            await client.publish(event)
        assert await count(client, {"kinds": [1]}, {"ids": [notes[0]["id"]]}, {"kinds": [30078]}) == 4


async def test_what_was_replaced_or_deleted_is_not_counted(relay, author):
    old, new, gone = author.memory("a", "old", 1), author.memory("a", "new", 2), author.memory("b", "", 3)
    deletion = author.event(5, "", [["a", author.address("b")], ["k", "30078"]], 4)
    async with relay() as dial, dial() as client:
        for event in (old, new, gone, deletion):
            await client.publish(event)
        assert await count(client, {"kinds": [30078]}) == 1


# ── NIP-77 ──────────────────────────────────────────────────────────────────────────────


async def test_to_a_client_without_events_the_relay_lists_its_own_in_order(relay, author, notes):
    async with relay() as dial, dial() as client:
        assert await compare(client, NO_IDS) == NO_IDS
        for event in random.Random(1).sample(notes, 20):
            await client.publish(event)
        stored = await client.query({})
        assert await compare(client, NO_IDS) == listed(stored)


async def test_a_comparison_is_about_what_its_filter_matches(relay, author, stranger, notes):
    memory, other = author.memory(at=50), stranger.memory("other", at=51)
    mine = {"authors": [author.pubkey]}
    async with relay() as dial, dial() as client:
        for event in (*notes, memory, other):
            await client.publish(event)
        assert await compare(client, NO_IDS, kinds=[30078]) == listed([memory, other])
        assert await compare(client, NO_IDS, **mine, kinds=[30078]) == listed([memory])
        assert await compare(client, NO_IDS, **mine, since=notes[38]["created_at"]) == listed(
            [*notes[36:], memory]
        )
        assert await compare(client, NO_IDS, until=notes[3]["created_at"]) == listed(notes[:4])
        assert await compare(client, NO_IDS, ids=[notes[7]["id"]]) == listed([notes[7]])
        assert await compare(client, NO_IDS, **{"#d": ["sense-memory/other"]}) == listed([other])


async def test_what_was_replaced_or_deleted_is_not_compared(relay, author):
    old, new, gone = author.memory("a", "old", 1), author.memory("a", "new", 2), author.memory("b", "", 3)
    deletion = author.event(5, "", [["a", author.address("b")], ["k", "30078"]], 4)
    async with relay() as dial, dial() as client:
        for event in (old, new, gone, deletion):
            await client.publish(event)
        assert await compare(client, NO_IDS) == listed([new, deletion])


async def test_sets_in_step_are_answered_with_nothing_to_say(relay, notes):
    async with relay() as dial, dial() as client:
        for event in notes:
            await client.publish(event)
        assert await compare(client, fingerprint(notes)) == IN_STEP


async def test_a_set_that_differs_is_described_more_closely(relay, notes):
    async with relay() as dial, dial() as client:
        for event in notes:
            await client.publish(event)
        answer = bytes.fromhex(await compare(client, fingerprint(notes[1:])))
        assert answer[0] == 0x61
        assert len(answer) > 16 * 16  # sixteen fingerprints


async def test_a_comparison_goes_on_until_it_is_closed(relay, notes):
    unknown = ["NEG-ERR", "n"]
    async with relay() as dial, dial() as client:
        for event in notes[:4]:
            await client.publish(event)
        await client.send("NEG-MSG", "n", NO_IDS)
        assert (await client.next())[:2] == unknown
        await client.send("NEG-OPEN", "n", {}, fingerprint(notes[:4]))
        assert await client.next() == ["NEG-MSG", "n", IN_STEP]
        await client.send("NEG-MSG", "n", NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", listed(notes[:4])]
        await client.send("NEG-CLOSE", "n")
        await client.send("NEG-MSG", "n", NO_IDS)
        assert (await client.next())[:2] == unknown


async def test_opening_a_comparison_again_replaces_it(relay, author, notes):
    async with relay() as dial, dial() as client:
        for event in (*notes[:3], author.memory()):
            await client.publish(event)
        await client.send("NEG-OPEN", "n", {"kinds": [30078]}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", listed([author.memory()])]
        await client.send("NEG-OPEN", "n", {"kinds": [1]}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", listed(notes[:3])]


async def test_comparisons_and_subscriptions_do_not_share_their_names(relay, notes):
    async with relay() as dial, dial() as client:
        await client.publish(notes[0])
        await client.send("REQ", "same", {})
        assert await client.stored("same") == [notes[0]]
        await client.send("NEG-OPEN", "same", {}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "same", listed(notes[:1])]
        await client.send("NEG-CLOSE", "same")
        await client.send("EVENT", notes[1])
        frames = [await client.next(), await client.next()]
        assert sorted(frame[0] for frame in frames) == ["EVENT", "OK"]  # the subscription lives on


async def test_another_version_is_answered_with_ours(relay):
    async with relay() as dial, dial() as client:
        assert await compare(client, "60") == IN_STEP


async def test_what_is_no_hex_ends_the_comparison_with_a_word(relay):
    async with relay() as dial, dial() as client:
        await client.send("NEG-OPEN", "n", {}, "zz")
        kind, subscription, text = await client.next()
        assert (kind, subscription) == ("NEG-ERR", "n")
        assert text
