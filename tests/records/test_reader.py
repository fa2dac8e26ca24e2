"""The intake and the opening: what a relay serves is believed only as far as our key and the address inside go."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest

from sense_memory import MemoryStore, SyncMemoryStore
from sense_memory.errors import InvalidEvent, LedgerCorrupt
from sense_memory.ledger import Ledger
from sense_memory.nostr.event import (
    KIND_APP_DATA,
    KIND_DELETION,
    KIND_DIRECT_MESSAGE,
    Event,
    RawEvent,
    Unsigned,
    verify,
)
from sense_memory.nostr.signer import LocalSigner
from sense_memory.records import envelope
from sense_memory.records.reader import Reader
from tests.inside import ledger_of


RELAY = "wss://relay.example/"
NOW = 1_800_000_000


class Counting:
    """A signer that counts what it is asked to open."""

    def __init__(self) -> None:
        self._inner = LocalSigner.generate()
        self.public_key = self._inner.public_key
        self.opened = 0

    async def sign(self, unsigned):
        return await self._inner.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        return await self._inner.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        self.opened += 1
        return await self._inner.decrypt(payload, author)


@pytest.fixture
def signer():
    return Counting()


@pytest.fixture
def ledger(signer):
    opened = Ledger(":memory:", signer.public_key)
    opened.relays.add([RELAY])
    yield opened
    opened.close()


@pytest.fixture
def reader(signer, ledger):
    return Reader(signer, ledger, lambda: float(NOW))


@pytest.fixture
def flat(signer):
    """An event of ours with a flat memory inside; sealing opens it once, which is not counted."""

    async def make(key="x", value="v", at=NOW, by=None):
        writer = by or signer
        plaintext = json.dumps(
            {"type": "sense-memory:kv", "key": key, "value": value, "ts": float(at)}
        ).encode()
        content = await writer.encrypt(plaintext, signer.public_key)
        return await writer.sign(Unsigned(at, KIND_APP_DATA, (("d", f"sense-memory/{key}"),), content))

    return make


@pytest.fixture
def deletion(signer):
    async def make(*tags, at=NOW, by=None):
        return await (by or signer).sign(Unsigned(at, KIND_DELETION, tags, ""))

    return make


def coordinate(author, name="x", prefix="sense-memory"):
    return "a", f"30078:{author.public_key}:{prefix}/{name}"


# ── What is kept ────────────────────────────────────────────────────────────────────────


async def test_records_that_are_too_many_to_be_kept_are_found_all_the_same(signer, ledger, flat, deletion):
    """A restore of any size takes the same memory; what is not kept is opened when somebody asks for it."""
    reader = Reader(signer, ledger, lambda: float(NOW), held_bytes=2_000)
    await reader.file_served(
        [await flat(f"k{number:02}", f"v{number}", NOW - 9) for number in range(20)], RELAY
    )
    await reader.file_served([await flat("k00", "edited"), await flat("k19", "edited")], RELAY)
    await reader.file_served(
        [await deletion(coordinate(signer, "k01")), await deletion(coordinate(signer, "k18"))], RELAY
    )
    filed = signer.opened

    async def values():
        return [opened.record.fields["value"] for opened in await reader.live("sense-memory/")]

    assert await values() == ["edited", *(f"v{number}" for number in range(2, 18)), "edited"]
    opened = signer.opened - filed
    assert 10 <= opened < 18
    assert len(await values()) == 18
    assert signer.opened - filed == opened


# ── Deletions (D-02) ────────────────────────────────────────────────────────────────────


async def test_a_strangers_deletion_is_ignored(signer, ledger, reader, flat, deletion):
    event = await flat()
    await reader.file_served([event], RELAY)
    theirs = await deletion(coordinate(signer), ("e", event.id), by=LocalSigner.generate())

    assert await reader.file_served([theirs], RELAY) == {"foreign": 1}
    assert ledger.head("sense-memory/x").event() == event
    assert ledger.counts_by_kind()["deletions"] == 0


async def test_a_forged_deletion_never_becomes_an_event(signer, deletion):
    theirs = await deletion(coordinate(signer), by=LocalSigner.generate())
    claimed = {**theirs.as_json(), "pubkey": signer.public_key}
    forged = RawEvent.parse(claimed)

    with pytest.raises(InvalidEvent):
        verify(forged)
    with pytest.raises(TypeError):
        Event(**claimed)


async def test_our_deletion_of_a_strangers_event_touches_nothing_of_ours(
    signer, ledger, reader, flat, deletion
):
    event = await flat()
    await reader.file_served([event], RELAY)

    assert await reader.file_served([await deletion(coordinate(LocalSigner.generate()))], RELAY) == {
        "foreign": 1
    }
    assert ledger.head("sense-memory/x").event() == event


@pytest.mark.parametrize(
    "tags",
    [
        (),
        (("e", "11" * 32), ("k", "1")),
        (("e", "11" * 32), ("k", "7"), ("k", "1")),
        (("a", "30023:me:article"),),
    ],
)
async def test_deletions_of_another_programs_events_are_left_alone(ledger, reader, deletion, tags):
    assert await reader.file_served([await deletion(*tags)], RELAY) == {"foreign": 1}
    assert ledger.counts_by_kind()["events"] == 0


@pytest.mark.parametrize(
    "tags",
    [
        (("e", "11" * 32),),
        (("e", "11" * 32), ("k", "30078")),
        (("e", "11" * 32), ("k", "1"), ("k", "4")),
    ],
)
async def test_deletions_that_may_concern_us_are_kept(ledger, reader, deletion, tags):
    assert await reader.file_served([await deletion(*tags)], RELAY) == {"new": 1}
    assert ledger.counts_by_kind()["deletions"] == 1


async def test_the_published_packages_deletion_is_obeyed(signer, ledger, reader, flat, deletion):
    """0.3.1 sends one `a` tag and nothing else."""
    await reader.file_served([await flat(at=NOW - 5)], RELAY)

    assert await reader.file_served([await deletion(coordinate(signer), at=NOW)], RELAY) == {"new": 1}
    assert ledger.head("sense-memory/x") is None


async def test_the_published_packages_deletion_of_a_long_key_is_obeyed(
    signer, ledger, reader, flat, deletion
):
    key = "k" * 256
    await reader.file_served([await flat(key, at=NOW - 5)], RELAY)
    (head,) = ledger.heads.live_under("sense-memory/")

    await reader.file_served([await deletion(coordinate(signer, key), at=NOW)], RELAY)

    assert head.slot.startswith("sense-memory/~")
    assert list(ledger.heads.live_under("sense-memory/")) == []


# ── What is not ours ────────────────────────────────────────────────────────────────────


async def test_other_author_is_dropped_before_decrypt(signer, ledger, reader, flat):
    """E-03: signed by a stranger, sealed to us, at the right address."""
    theirs = await flat(by=LocalSigner.generate())

    assert await reader.file_served([theirs], RELAY) == {"foreign": 1}
    assert signer.opened == 0
    assert ledger.counts_by_kind()["events"] == 0


@pytest.mark.parametrize("tag", ["other-app/x", "sense-memory", "sense-memor/x", "SENSE-MEMORY/x"])
async def test_another_programs_records_of_the_same_key_are_left_alone(signer, ledger, reader, tag):
    """E-11."""
    event = await signer.sign(Unsigned(NOW, KIND_APP_DATA, (("d", tag),), "settings"))

    assert await reader.file_served([event], RELAY) == {"foreign": 1}
    assert signer.opened == 0
    assert ledger.counts_by_kind()["events"] == 0


@pytest.mark.parametrize("tags", [(), (("d", ""),), (("d", "sense-memory/x"), ("d", "sense-memory/y"))])
async def test_extra_or_missing_d_is_rejected(signer, ledger, reader, tags):
    """E-10."""
    event = await signer.sign(Unsigned(NOW, KIND_APP_DATA, tags, "sealed"))

    assert await reader.file_served([event], RELAY) == {"foreign": 1}
    with pytest.raises(InvalidEvent):
        verify(RawEvent.loads(event.body()))


async def test_notes_to_self_of_another_client_are_left_alone(signer, ledger, reader):
    mine = signer.public_key
    notes = [
        await signer.encrypt(b"buy milk", mine),
        await signer.encrypt(b'{"type": "todo"}', mine),
        "old?iv=nip04",
    ]
    events = [await signer.sign(Unsigned(NOW, KIND_DIRECT_MESSAGE, (("p", mine),), note)) for note in notes]

    assert await reader.file_served(events, RELAY) == {"foreign": 3}
    assert ledger.counts_by_kind()["events"] == 0


async def test_a_message_to_somebody_else_is_left_alone(signer, ledger, reader):
    other = LocalSigner.generate().public_key
    content = await signer.encrypt(b"hello", other)
    event = await signer.sign(Unsigned(NOW, KIND_DIRECT_MESSAGE, (("p", other),), content))

    assert await reader.file_served([event], RELAY) == {"foreign": 1}


async def test_garbage_at_our_address_is_unreadable_and_not_kept(signer, ledger, reader):
    event = await signer.sign(Unsigned(NOW, KIND_APP_DATA, (("d", "sense-memory/x"),), "garbage"))

    assert await reader.file_served([event], RELAY) == {"unreadable": 1}
    assert ledger.counts_by_kind()["events"] == 0


async def test_one_bad_event_does_not_keep_the_others_out(signer, ledger, reader, flat, deletion):
    bad = await signer.sign(Unsigned(NOW, KIND_APP_DATA, (("d", "sense-memory/x"),), "garbage"))
    theirs = await deletion(("e", "11" * 32), by=LocalSigner.generate())

    counts = await reader.file_served([bad, await flat("a"), theirs, await flat("b")], RELAY)

    assert counts == {"new": 2, "unreadable": 1, "foreign": 1}


# ── How events are filed ────────────────────────────────────────────────────────────────


async def test_each_fate_is_counted_by_its_name(signer, reader, flat, deletion):
    new, old, future = await flat(at=NOW), await flat(at=NOW - 9, value="old"), await flat(at=NOW + 301)

    assert await reader.file_served([new, new, old, future], RELAY) == {
        "new": 1,
        "known": 1,
        "stale": 1,
        "quarantined": 1,
    }
    await reader.file_served([await deletion(coordinate(signer))], RELAY)
    assert await reader.file_served([new], RELAY) == {"deleted": 1}


async def test_nothing_at_all_is_nothing(reader):
    assert await reader.file_served([], RELAY) == {}


async def test_what_is_known_is_not_opened_again(signer, reader, flat):
    event, stale = await flat(at=NOW), await flat(at=NOW - 9)
    await reader.file_served([event, stale], RELAY)
    before = signer.opened

    assert await reader.file_served([event, stale], "wss://other.example/") == {"known": 2}
    assert signer.opened == before


# ── Opening ─────────────────────────────────────────────────────────────────────────────


async def test_a_record_that_just_arrived_needs_no_second_opening(signer, ledger, reader, flat):
    await reader.file_served([await flat()], RELAY)
    before = signer.opened

    record = await reader.record(ledger.head("sense-memory/x"))

    assert record.fields["value"] == "v"
    assert signer.opened == before


async def test_a_stored_record_is_opened_once(signer, ledger, reader, flat):
    await reader.file_served([await flat()], RELAY)
    fresh = Reader(signer, ledger, lambda: float(NOW))
    before = signer.opened

    for _ in range(3):
        await fresh.record(ledger.head("sense-memory/x"))

    assert signer.opened == before + 1


async def test_history_and_head_are_never_mixed_up(ledger, reader, flat):
    for age, value in ((1, "new"), (9, "old"), (5, "middle")):
        await reader.file_served([await flat(value=value, at=NOW - age)], RELAY)
    head = ledger.head("sense-memory/x")

    for _ in range(2):
        opened = [await reader.record(stored) for stored in ledger.versions("sense-memory/x")]
        assert [record.fields["value"] for record in opened] == ["new", "middle", "old"]
        assert (await reader.record(head)).fields["value"] == "new"


async def test_a_key_written_a_thousand_times_is_held_in_memory_once(signer, ledger, reader, flat):
    for number in range(50):
        await reader.file_served([await flat(value=f"MARKER {number}", at=NOW - 50 + number)], RELAY)

    assert len(reader._open) == 1


async def test_what_was_deleted_is_not_held_in_memory_either(signer, reader, flat, deletion):
    await reader.file_served([await flat(value="MARKER", at=NOW - 1)], RELAY)

    await reader.file_served([await deletion(coordinate(signer))], RELAY)

    assert reader._open == {}


async def test_a_version_that_lost_is_not_held_in_memory(reader, flat):
    await reader.file_served([await flat(value="new", at=NOW)], RELAY)

    await reader.file_served([await flat(value="LOSER", at=NOW - 1)], RELAY)

    assert [item.record.fields["value"] for item in reader._open.values()] == ["new"]


@pytest.mark.parametrize("damage", ["not json", "another event", "another address"])
async def test_a_damaged_event_is_named_and_nothing_of_it_is_shown(tmp_path, signer, flat, damage):
    ledger = Ledger(tmp_path / "a.db", signer.public_key)
    await Reader(signer, ledger, lambda: float(NOW)).file_served(
        [await flat("x", "MARKER"), await flat("y")], RELAY
    )
    ledger.close()
    body = {
        "not json": b"MARKER",
        "another event": json.dumps({**(await flat()).as_json(), "content": "MARKER"}).encode(),
        "another address": (await flat("y", "MARKER")).body(),
    }[damage]
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("UPDATE events SET body = ? WHERE slot = 'sense-memory/x'", (body,))
    connection.commit()
    connection.close()

    ledger = Ledger(tmp_path / "a.db", signer.public_key)
    reader, head = Reader(signer, ledger, lambda: float(NOW)), ledger.head("sense-memory/x")
    with pytest.raises(LedgerCorrupt, match="aside, with its files -wal and -shm, and sync") as caught:
        await reader.record(head)

    assert head.id.hex()[:16] in str(caught.value)
    assert "MARKER" not in str(caught.value)
    assert (await reader.record(ledger.head("sense-memory/y"))).fields["value"] == "v"
    ledger.close()


def test_reprs_of_what_is_filed_show_neither_text_nor_ciphertext(signer, ledger, reader):
    """K-02."""

    async def filed():
        sealed = await envelope.seal(signer, envelope.flat("x", "MARKER", 1.0))
        event = await signer.sign(sealed.at(NOW))
        await reader.file_served([event], RELAY)
        return event, ledger.filed_before([event])[event.id]

    event, item = asyncio.run(filed())
    shown = repr((item, ledger.head("sense-memory/x"), ledger.outbox.due(RELAY, NOW, 9), reader))

    assert "MARKER" not in shown
    assert event.content not in shown


async def test_what_another_program_rewrites_in_its_own_second_is_never_missed_while_it_is_read(
    tmp_path, monkeypatch
):
    """The other program writes between the look at the heads and the reading of them."""
    shared = {"ledger": tmp_path / "k.db", "background": False, "clock": lambda: float(NOW)}
    signer = LocalSigner.generate()
    async with MemoryStore(signer, **shared) as store:
        await store.remember("k", "0")
        await store.mind.blocks.create("shared", "0")
        with SyncMemoryStore(signer, **shared) as other:
            heads, count = ledger_of(store).heads, iter(range(1, 99))

            def overtaken(name):
                look = getattr(heads, name)

                def overtaking(*given):
                    found = look(*given)
                    text = str(next(count))
                    other.remember("k", text)
                    other.mind.blocks.update("shared", value=text)
                    return found

                monkeypatch.setattr(heads, name, overtaking)

            overtaken("uncovered_under")
            overtaken("live_heads_at")
            assert [memory.key for memory in await store.recall_all()] == ["k"]
            assert (await store.mind.blocks.get("shared")).label == "shared"
            assert "shared" in [block.label for block in await store.mind.blocks.all()]
            monkeypatch.undo()
            assert (await store.recall("k")).value == str(next(count) - 1)
