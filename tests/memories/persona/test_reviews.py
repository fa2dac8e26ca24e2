"""Search, compression, introspection and pruning through the store."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

from websockets.asyncio.client import connect

from sense_memory import EmbeddedRelay, MemoryStore, State
from sense_memory.ledger.heads import LOGS
from sense_memory.memories.persona import contradictions
from sense_memory.palace.contradictions import claim_index
from sense_memory.palace.introspection_log import outdated
from tests.inside import ledger_of, parts_of
from tests.time_unit import SECOND


DAY = 86_400
LISA = ("people", "facts", "lisa")


# ── Search and compression ──────────────────────────────────────────────────────────────


async def test_search_follows_edits_links_and_forgetting(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", ["painting"])
        (hit,) = await store.persona_search("artist")
        assert (hit.path, hit.state, hit.score > 0) == ("people/facts/lisa", State.ACTIVE, True)
        assert "artist in value" in hit.why.text
        await store.persona_remember(*LISA, "sculptor")
        assert await store.persona_search("artist") == []
        assert [hit.value for hit in await store.persona_search("painting")] == ["sculptor"]
        await store.persona_forget(*LISA)
        assert await store.persona_search("painting") == []


async def test_search_sees_what_another_process_wrote(open_on_disk):
    async with open_on_disk() as store, open_on_disk() as other:
        await store.persona_remember(*LISA, "artist")
        await store.persona_search("artist")
        await other.persona_remember("people", "facts", "bob", "another artist")

        assert {hit.key for hit in await store.persona_search("artist")} == {"lisa", "bob"}


async def test_compression_has_the_specs_shape(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist, teaches workshops")
        await store.persona_remember("self", "beliefs", "keys", "every process needs its own key")
        text = await store.persona_compress()

        assert text.startswith("[domain:people/facet:facts]\nlisa: ")
        assert "[domain:self/facet:beliefs]" in text
        assert await store.persona_compress("people") == text.split("\n\n")[0]


async def test_a_prompt_holds_what_is_pinned_and_what_a_question_needs_by_ones_own_tokenizer(devices):
    async with devices() as (one, other):
        for number in range(40):
            await one.persona_remember("work", "facts", f"w{number}", f"work fact number {number}")
        await one.persona_remember(*LISA, "Lisa lives in Graz", ["art"])
        await one.persona_pin("w7")
        await one.sync()
        await other.sync()

        shown = await other.persona_compress(max_tokens=60, count=lambda text: len(text.split()))
        assert shown.tokens == len(shown.split()) <= 60
        assert shown.included[0] == "work/facts/w7"
        assert len(shown.included) + len(shown.left_out) == 41
        asked = await other.persona_compress(question="Where does Lisa live?")
        assert asked.included[:2] == ("work/facts/w7", "people/facts/lisa")
        assert (asked.has_answer, len(asked.included), asked.left_out) == (True, 41, ())
        told = await other.persona_compress(question="Where does Lisa live?", style="plain")
        assert told.startswith("# work facts\n")
        assert told.endswith("\n# people facts\nLisa lives in Graz")
        await other.persona_unpin("work/facts/w7")
        assert (await other.persona_recall("work", "facts", "w7"))[0].themes == ()
        assert (await other.persona_recall(*LISA))[0].themes == ("art",)


# ── Introspection ───────────────────────────────────────────────────────────────────────


async def test_introspection_reports_and_leaves_a_log_for_any_device(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*LISA, "artist", ["art", "berlin"])
        await one.persona_remember("people", "facts", "bob", "painter", ["art", "berlin"])
        report = await one.persona_introspect()
        assert (report.total_memories, report.active, report.changes) == (2, 2, None)
        assert [{a.key, b.key} for a, b in report.suggested_connections] == [{"lisa", "bob"}]
        await one.sync()
        await other.sync()
        clock.advance(60 * DAY)
        await other.persona_remember("people", "facts", "eve", "plumber")
        later = await other.persona_introspect()

        assert later.changes.new == ("people/facts/eve",)
        assert later.changes.faded == ("people/facts/bob", "people/facts/lisa")


async def test_a_declined_connection_is_not_suggested_again(open_store):
    async with open_store() as store:
        for key in ("lisa", "bob"):
            await store.persona_remember("people", "facts", key, "x", ["art", "berlin"])
        assert (await store.persona_introspect()).suggested_connections
        await store.palace.reconcile("lisa", "bob")
        assert not (await store.persona_introspect()).suggested_connections


async def test_a_memory_is_read_once_for_what_it_claims_however_often_it_is_introspected(
    open_on_disk, monkeypatch
):
    read, counted = claim_index.read, Counter()
    monkeypatch.setattr(claim_index, "read", lambda item: counted.update([item.key]) or read(item))
    async with open_on_disk() as writer:
        for number in range(6):
            await writer.persona_remember("people", "facts", f"p{number}", f"Person {number} is kind.")
    counted.clear()
    async with open_on_disk() as store:
        first = await store.persona_introspect()
        again = await store.persona_introspect()
        await store.persona_recall("people", "facts", "p3")  # an access says nothing new
        await store.persona_introspect()

    assert "suggested_contradictions" not in first.bounded | again.bounded
    assert counted == {f"p{number}": 1 for number in range(6)}


async def test_of_a_large_palace_each_introspection_reads_some_more_and_says_so(open_on_disk, monkeypatch):
    monkeypatch.setattr(contradictions, "MAX_READ_COUNT", 2)
    async with open_on_disk() as store:
        for number in range(4):
            await store.persona_remember("people", f"facts-{number}", "k", f"Lisa lives in city {number}.")
    async with open_on_disk() as store:
        reports = [await store.persona_introspect() for _ in range(3)]

    bounded = ["suggested_contradictions" in report.bounded for report in reports]
    assert bounded == [True, False, False]


async def test_the_log_holds_no_texts(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "a text that is nobody's business", ["art"])
        await store.persona_introspect()
        (head,) = ledger_of(store).heads.seqs_beneath("sense-memory/introspection/")
        (stored,) = ledger_of(store).read([head[1]])
        record = await parts_of(store).reader.readable_record(stored)

        assert record.fields["report"]["total_memories"] == 1
        assert "business" not in str(record.fields)


async def relay_has(url):
    """The d-tags of the memories, tombstones included, that a relay serves, asked without sense-memory."""
    async with connect(url, compression=None) as socket:
        await socket.send(json.dumps(["REQ", "all", {"kinds": [30078]}]))
        found = []
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT":
                found += [value for name, value in frame[2]["tags"] if name == "d"]
        return sorted(found)


async def test_over_a_year_two_devices_and_the_relay_keep_the_same_few_logs(open_store, clock):
    hours = [*range(0, 72, 6), *range(72, 60 * 24, 24), *range(60 * 24, 366 * 24, 15 * 24)]
    begun, written = clock(), set()
    async with (
        EmbeddedRelay(clock=clock) as relay,
        open_store("one", [relay.url]) as one,
        open_store("two", [relay.url]) as two,
    ):
        await one.persona_remember(*LISA, "artist")
        for store in (one, two):
            await store.sync()
        for number, hour in enumerate(hours):
            clock.advance(max(0.0, begun + hour * 3_600 - clock()))
            for store in (one, two):  # at the same time, and a minute later
                await store.persona_introspect()
                written.add(int(clock()))
                if number % 2:
                    clock.advance(60)
            if hour % 240 == 0:
                for store in (one, two, one):
                    await store.sync()
        for store in (one, two, one, two):
            await store.sync()
        await one.persona_introspect()  # the last one before it was made with the other device's logs unknown
        written.add(int(clock()))
        for store in (one, two):
            await store.sync()

        kept = {int(slot.rpartition("/")[2]) for slot, _ in ledger_of(one).heads.live_beneath(LOGS)}
        assert kept == written - set(outdated(written, clock()))
        assert kept == {int(slot.rpartition("/")[2]) for slot, _ in ledger_of(two).heads.live_beneath(LOGS)}
        held = [tag for tag in await relay_has(relay.url) if not tag.startswith("sense-memory/device/")]
        assert held == sorted(
            ["sense-memory/persona/people/facts/lisa", *(f"{LOGS}{second}" for second in kept)]
        )
        assert max(written) in kept
        assert len(kept) < 90
        assert await one.drafts() == await two.drafts() == []


async def test_the_next_process_compares_only_what_is_new(open_on_disk, monkeypatch):
    """What was compared lies in the snapshot, in which no forgotten memory stays."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr(contradictions, "MAX_READ_COUNT", 4)
    notes = [("Karl runs on", city) for city in ("Oslo trails", "Bergen trails")]
    notes += [("Zoe likes", f"dish {number}") for number in range(8)]
    unasked = {"contradictions": "off"}
    compared, known = [], claim_index.compare_readings
    monkeypatch.setattr(claim_index, "compare_readings", lambda *sides: compared.append(1) or known(*sides))

    async def look(store):
        compared.clear()
        report = await store.persona_introspect()
        pairs = [(item.old.key, item.new.key) for item in report.suggested_contradictions]
        return pairs, "suggested_contradictions" in report.bounded, len(compared)

    async with open_on_disk() as store:
        for number, (who, what) in enumerate(notes):
            await store.persona_remember("people", "facts", f"k{number}", f"{who} {what}", **unasked)
        whole = [await look(store) for _ in range(4)]
        await store.persona_remember("people", "facts", "home-1", "Mira works at Bosch", **unasked)
        await store.persona_remember("people", "facts", "home-2", "Mira works at Siemens", **unasked)
        found, _, count = await look(store)
    assert [bounded for _, bounded, _ in whole] == [True, True, False, False]
    assert whole[-1][2] == 0
    assert ("home-1", "home-2") in found
    assert 0 < count

    async with open_on_disk() as store:
        assert await look(store) == (found, False, 0)
        await store.persona_forget("people", "facts", "home-1")
        await store.persona_remember("people", "facts", "k0", "Karl runs on Rome trails", **unasked)
    async with open_on_disk() as store:
        gone, bounded, count = await look(store)
    assert ("home-1", "home-2") not in gone
    assert not bounded
    assert 0 < count < 12


# ── Pruning ─────────────────────────────────────────────────────────────────────────────


async def test_pruning_writes_states_and_deletes_after_thirty_days(open_store, clock, written_fields):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember("people", "facts", "old", "x", halflife_days=1)
        clock.advance(60 * DAY)
        planned = await store.persona_prune(dry_run=True)
        assert (planned, len(planned.report.lines)) == (2, 2)
        assert (await written_fields(store, "people/facts/lisa"))["state"] == "active"
        assert await store.persona_prune() == 2
        assert (await written_fields(store, "people/facts/lisa"))["state"] == "fading"
        assert (await written_fields(store, "people/facts/old"))["dissolved_at"] == clock()
        assert await store.persona_prune() == 0
        clock.advance(29 * DAY)
        await store.persona_recall(*LISA)
        await store.persona_prune()
        assert await written_fields(store, "people/facts/old") is not None
        clock.advance(2 * DAY)
        done = await store.persona_prune()
        assert done == 1
        assert done.report.totals == {"delete done": 1}

        assert [memory.key for memory in await store.persona_recall(include_forgotten=True)] == ["lisa"]
        assert store.status().counts["tombstones"] == 1


async def test_a_dissolved_memory_that_is_recalled_lives_on(open_store, clock, written_fields):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", halflife_days=1)
        clock.advance(60 * DAY)
        await store.persona_prune()
        clock.advance(31 * DAY)
        (memory,) = await store.persona_recall(*LISA)
        assert memory.state is State.ACTIVE
        assert await store.persona_prune() == 0
        assert (await written_fields(store, "people/facts/lisa"))["state"] == "active"
        assert "dissolved_at" not in await written_fields(store, "people/facts/lisa")


async def test_hundreds_are_deleted_with_few_requests(open_store, clock):
    async with open_store() as store:
        for number in range(120):
            await store.persona_remember("people", "facts", f"key {number}", "x", halflife_days=1)
        clock.advance(60 * DAY)
        await store.persona_prune()
        clock.advance(31 * DAY)
        assert await store.persona_prune() == 120
        assert store.status().counts["deletions"] == 4  # 32 each
        assert await store.persona_recall(include_forgotten=True) == []
        assert store.integrity() == []


async def test_destructive_steps_need_complete_pulls(open_store, clock, written_fields):
    """P-08: a relay that cannot be asked may hold a newer access; it is named, and can be left out by name."""
    gone = "ws://127.0.0.1:9/"
    async with EmbeddedRelay(clock=clock) as relay, open_store(relays=[relay.url, gone]) as store:
        await store.persona_remember(*LISA, "artist", halflife_days=1)
        await store.persona_remember("people", "facts", "bob", "painter", halflife_days=60)
        clock.advance(60 * DAY)
        await store.persona_prune()
        clock.advance(31 * DAY)
        refused = await store.persona_prune()
        (line,) = refused.report.refused
        assert (refused, line.path, gone.rstrip("/") in line.reason) == (0, "people/facts/lisa", True)
        assert await written_fields(store, "people/facts/lisa") is not None
        assert await store.persona_prune(without=[gone]) == 1

        assert [memory.key for memory in await store.persona_recall(include_forgotten=True)] == ["bob"]


async def test_what_was_used_on_another_device_is_not_deleted(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*LISA, "artist", halflife_days=1)
        clock.advance(60 * DAY)
        await one.persona_prune()
        await one.sync()
        await other.sync()
        clock.advance(31 * DAY)
        await other.persona_recall(*LISA)
        await other.flush()

        assert await one.persona_prune() == 0
        assert [memory.state for memory in await one.persona_recall()] == [State.ACTIVE]


async def test_deletions_of_pruning_reach_the_other_devices(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*LISA, "artist", halflife_days=1)
        clock.advance(60 * DAY)
        await one.persona_prune()
        await one.sync()
        await other.sync()
        clock.advance(31 * DAY)
        assert await one.persona_prune() == 1
        await one.sync()
        await other.sync()

        assert await other.persona_recall(include_forgotten=True) == []


# ── Settling in the background ──────────────────────────────────────────────────────────


async def test_the_background_settles_too(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with open_store("one", [relay.url]) as one:
            await one.persona_remember(*LISA, "artist")
            await one.sync()
        async with open_store("two", [relay.url], background=True, offline_first=True) as two:
            await two.persona_remember(*LISA, "sculptor")
            async with asyncio.timeout(5 * SECOND):
                while len(await two.persona_recall()) < 2:  # noqa: ASYNC110 - settling makes no noise
                    await asyncio.sleep(0)
            assert {memory.value for memory in await two.persona_recall()} == {"artist", "sculptor"}


async def test_introspection_logs_are_counted_apart_from_memories(signer):
    async with MemoryStore(signer, ledger=":memory:", background=False) as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        await store.persona_introspect()
        counts = store.status().counts
        assert (counts["heads"], counts["logs"], counts["events"]) == (1, 1, 2)


async def test_of_many_suspected_pairs_each_introspection_compares_some_more_and_none_twice(
    open_on_disk, monkeypatch, clock
):
    """Nothing but a bounded number of comparisons stands between the caller and the report, in whatever process."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr(contradictions, "MAX_CONFIRMED_COUNT", 2)
    monkeypatch.setattr(contradictions, "MAX_READ_COUNT", 0)  # so that only suspected pairs are compared
    compared, known = [], claim_index.compare_readings
    monkeypatch.setattr(claim_index, "compare_readings", lambda *sides: compared.append(1) or known(*sides))
    people = ("Ana", "Bela", "Carlo", "Dora", "Emil")

    async def look(store):
        compared.clear()
        report = await store.persona_introspect()
        pairs = [(item.old.key, item.new.key) for item in report.suggested_contradictions]
        return pairs, "suggested_contradictions" in report.bounded, len(compared)

    async with open_on_disk(snapshot=False) as store:
        for who in people:
            for what in ("tabs", "spaces"):
                key = f"{who.lower()}-{what}"
                await store.persona_remember("people", "facts", key, f"{who} prefers {what}")
                clock.advance(5)
    async with open_on_disk() as store:
        looks = [await look(store) for _ in range(5)]
        await store.persona_remember("people", "facts", "ana-tabs", "Ana collects stamps")
        changed = await look(store)
    async with open_on_disk() as store:
        again = await look(store)

    assert [(len(pairs), is_bounded) for pairs, is_bounded, _ in looks[:2]] == [(2, True), (4, True)]
    assert sorted(looks[2][0]) == sorted((f"{who.lower()}-tabs", f"{who.lower()}-spaces") for who in people)
    assert looks[4] == (looks[2][0], False, 0)
    assert ("ana-tabs", "ana-spaces") not in changed[0]
    assert again == (changed[0], False, 0)
