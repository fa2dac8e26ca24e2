"""Every query of heads, over one small world in which each slot is there because a query has to leave it out.

A slot is named after its state: a memory, a memory that was rewritten, forgotten, covered, …
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger import FiledEvent, Ledger, Removal, Role
from sense_memory.ledger.heads import LOGS
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.records.kinds import SECTIONS


NOW = 10_000.0
AHEAD = int(NOW) + 301  # quarantined
AT = 50  # the second of most events
PRUNED = Removal(
    upto=AT - 1
)  # a deletion that knew only versions from before AT: it covers, and removes nothing

FLAT = "sense-memory/flat"
TWICE = "sense-memory/twice"  # two versions
GONE = "sense-memory/gone"  # a tombstone
FORGOTTEN = "sense-memory/forgotten"  # a tombstone and the deletion of its second
EMPTY = "sense-memory/empty"  # every version deleted by id: a slot without a head
COVERED = "sense-memory/covered"  # pruned a second later by a device that did not know the version
TOUCHED = "sense-memory/touched"  # pruned likewise, in the second of the version
AGAIN = "sense-memory/again"  # written again after it was pruned
WAITING = "sense-memory/waiting"  # a second version, which is in quarantine
HASHED = "sense-memory/~0123456789abcdef0123456789abcdef"
DEEP = "sense-memory/persona/people/facts/lisa"
DEEPER = "sense-memory/persona/people/facts/lisa/more"
NEAR = "sense-memory/personal"  # begins like the domain, and is none
VECTORS = "sense-memory/embed/flat"
HASHED_VECTORS = "sense-memory/~fedcba9876543210fedcba9876543210"
LOG = f"{LOGS}1700000000"
PAGE = f"{address.LOG_PAGES}device/1"
OLD_ENTRY = f"{address.JOURNAL_PREFIX}1700000000"

LIVE = {FLAT, TWICE, AGAIN, WAITING, HASHED, DEEP, DEEPER, NEAR, LOG, PAGE, OLD_ENTRY}
EMBEDDINGS = {VECTORS, HASHED_VECTORS}
TOMBSTONES = {GONE, FORGOTTEN}
HEADLESS = {EMPTY, COVERED, TOUCHED}
DELETIONS = 5


class Filing:
    """Files events in a ledger, as a relay would serve them."""

    def __init__(self, me, ledger) -> None:
        self.me, self.ledger, self.heads = me, ledger, ledger.heads

    def file(self, slot, at, role=Role.MEMORY, text="one") -> str:
        event = self.me.signed(KIND_APP_DATA, at, [("d", slot)], text)
        self.ledger.file_events([FiledEvent(event, slot, role)], None, NOW)
        return event.id

    def journal(self, text) -> str:
        event = self.me.signed(KIND_DIRECT_MESSAGE, AT, [("p", self.me.public_key)], text)
        self.ledger.file_events([FiledEvent(event, f"#{event.id}")], None, NOW)
        return event.id

    def delete(self, at, slots=(), ids=(), removal=PRUNED) -> None:
        tags = [("a", address.coordinate(self.me.public_key, slot)) for slot in slots]
        event = self.me.signed(KIND_DELETION, at, [*tags, *(("e", ident) for ident in ids)])
        removals = {} if removal is None else dict.fromkeys(slots, removal)
        item = FiledEvent(event, f"#{event.id}", Role.DELETION, removals=removals)
        self.ledger.file_events([item], None, NOW)


class World(Filing):
    """A ledger with these slots; the journal entry's slot is its id."""

    def __init__(self, me, ledger) -> None:
        super().__init__(me, ledger)
        for slot in LIVE | {COVERED, TOUCHED}:
            self.file(slot, AT)
        self.newest = self.file(TWICE, AT + 1, text="two")
        for slot in TOMBSTONES:
            self.file(slot, AT)
            self.file(slot, AT + 1, Role.TOMBSTONE)
        self.delete(AT + 1, [FORGOTTEN])
        lone = self.file(EMPTY, AT)
        self.delete(AT + 1, ids=[lone])
        self.delete(AT + 1, [COVERED])
        self.delete(AT, [TOUCHED])
        self.delete(AT, [AGAIN])
        self.file(AGAIN, AT + 1, text="again")
        self.file(WAITING, AHEAD, text="later")
        for slot in EMBEDDINGS:
            self.file(slot, AT, Role.EMBEDDING)
        self.entry = self.journal("dear diary")
        self.entry_slot = f"#{self.entry}"


@pytest.fixture
def world(me, ledger):
    return World(me, ledger)


def names(found) -> set[str]:
    """The slots of heads, or of rows that begin with the slot, each of which must be there once."""
    slots = [item if isinstance(item, str) else getattr(item, "slot", item[0]) for item in found]
    assert len(slots) == len(set(slots))
    return set(slots)


EVERYTHING = (*LIVE, *TOMBSTONES, *HEADLESS, *EMBEDDINGS, "sense-memory/never seen")


# ── At some slots ───────────────────────────────────────────────────────────────────────


def test_the_head_of_a_slot_is_its_newest_version_or_its_tombstone(world):
    assert world.heads.at(TWICE).id.hex() == world.newest
    assert world.heads.at(WAITING).created_at == AT  # what is in quarantine does not count yet
    assert world.heads.at(GONE).role is Role.TOMBSTONE
    assert world.heads.at(VECTORS).role is Role.EMBEDDING
    assert [world.heads.at(slot) for slot in HEADLESS] == [None] * 3
    assert world.heads.at("sense-memory/never seen") is None


def test_heads_of_some_slots(world):
    assert names(world.heads.seqs_at(EVERYTHING)) == LIVE | TOMBSTONES | EMBEDDINGS
    assert names(world.heads.live_at(EVERYTHING)) == LIVE
    assert names(world.heads.live_heads_at(EVERYTHING)) == LIVE
    assert names(world.heads.live_at([TWICE, GONE])) == {TWICE}


def test_what_a_query_says_of_a_head_is_true_of_its_event(world):
    head = world.heads.at(TWICE)

    assert dict(world.heads.seqs_at([TWICE])) == {TWICE: head.seq}
    assert world.heads.live_at([TWICE]) == [head]
    assert [(item.seq, item.id) for item in world.heads.live_heads_at([TWICE])] == [(head.seq, head.id)]
    assert dict(world.heads.uncovered_under(address.PREFIX))[TWICE] == head.seq
    assert world.heads.live_ids()[TWICE] == head.id


@pytest.mark.parametrize(
    ("slot", "second", "is_live"),
    [
        (FLAT, AT - 1, True),
        (FLAT, AT, False),  # not after its own second
        (VECTORS, AT - 1, True),  # an embedding counts
        (VECTORS, AT, False),
        (GONE, AT - 1, False),
        (EMPTY, AT - 1, False),
        (WAITING, AT, False),
    ],
)
def test_whether_something_lives_that_is_dated_after_a_second(world, slot, second, is_live):
    assert world.heads.is_live_after(slot, second) is is_live


# ── Under a prefix ──────────────────────────────────────────────────────────────────────

FLAT_LIVE = {FLAT, TWICE, AGAIN, WAITING, HASHED, NEAR}


def test_directly_under_a_prefix(world):
    facts = "sense-memory/persona/people/facts/"

    assert names(world.heads.live_under(address.PREFIX)) == FLAT_LIVE
    assert names(world.heads.live_under(facts)) == {DEEP}
    assert names(world.heads.live_under(address.JOURNAL_PREFIX)) == {OLD_ENTRY}
    assert names(world.heads.slots_under(address.PREFIX)) == (
        FLAT_LIVE | TOMBSTONES | HEADLESS | {HASHED_VECTORS}
    )
    assert names(world.heads.slots_under(facts)) == {DEEP}


def test_uncovered_heads_come_by_slot_without_the_tombstones_whose_deletion_is_known(world):
    """A tombstone without its request is a row that somebody has to read, and there are few of these."""
    found = world.heads.uncovered_under(address.PREFIX)

    assert names(found) == FLAT_LIVE | {GONE, HASHED_VECTORS}
    assert found == sorted(found)
    assert all(seq is not None for _, seq in found)


def test_at_or_beneath_prefixes(world):
    persona, embeddings = "sense-memory/persona/", "sense-memory/embed/"

    assert names(world.heads.seqs_beneath(persona, embeddings)) == {DEEP, DEEPER, VECTORS}
    assert names(world.heads.seqs_beneath(address.PREFIX)) == ((LIVE - {OLD_ENTRY}) | TOMBSTONES | EMBEDDINGS)
    assert names(world.heads.live_beneath(persona)) == {DEEP, DEEPER}
    assert names(world.heads.live_beneath(address.PREFIX)) == LIVE - {OLD_ENTRY}
    assert world.heads.is_live_beneath(persona)
    assert not world.heads.is_live_beneath(embeddings)
    assert not world.heads.is_live_beneath(GONE)


def test_a_prefix_begins_at_the_slot_of_that_name_and_ends_before_the_next(world):
    assert names(world.heads.seqs_beneath(FLAT)) == {FLAT}
    assert world.heads.seqs_beneath("sense-memory/flas") == []  # the next name is that of a slot


def test_slots_with_more_than_one_version_without_what_is_in_quarantine(world):
    assert names(world.heads.crowded_beneath(address.PREFIX)) == {TWICE, AGAIN}
    assert world.heads.crowded_beneath(address.LOG_PAGES) == []


def test_embeddings_at_readable_and_at_hashed_addresses(world):
    assert names(world.heads.embeddings()) == EMBEDDINGS
    assert names(world.heads.embeddings([VECTORS, FLAT])) == {VECTORS}
    assert world.heads.embeddings([]) == {}
    assert world.heads.embeddings()[VECTORS] == world.heads.at(VECTORS).seq


# ── Of a whole kind ─────────────────────────────────────────────────────────────────────


def test_flat_memories_and_journal_entries_of_both_kinds(world):
    assert names(world.heads.live_records()) == FLAT_LIVE | {world.entry_slot, OLD_ENTRY}


def test_counts_of_live_heads(world):
    assert world.heads.flat_count() == len(FLAT_LIVE - {HASHED})
    assert world.heads.live_counts(SECTIONS) == (
        len(LIVE) + 1,
        2,
        {"logs": 1, "mind": 1, "files": 0, "manifests": 0, "address_keys": 0},
    )  # entries: kind 4, and that of 0.3.1


def test_an_empty_ledger_counts_nothing(ledger):
    nothing = {"logs": 0, "mind": 0, "files": 0, "manifests": 0, "address_keys": 0}
    assert ledger.heads.live_counts(SECTIONS) == (0, 0, nothing)
    assert ledger.heads.flat_count() == 0


def test_live_heads_in_parts_by_slot(world):
    expected = sorted(LIVE | {world.entry_slot})
    assert names(world.heads.live_ids()) == set(expected)

    found, last = [], ""
    while part := world.heads.live_after(last, 4):
        assert len(part) <= 4
        found += part
        last = part[-1].slot

    assert [head.slot for head in found] == expected


# ── Of every role ───────────────────────────────────────────────────────────────────────


def test_heads_since_a_second_by_date_and_id(world):
    every = world.heads.dated_since(0)

    assert [row[1:] for row in every] == sorted(row[1:] for row in every)
    assert len(every) == len(LIVE | TOMBSTONES | EMBEDDINGS) + 1 + DELETIONS
    assert world.heads.dated_since(AT) == every  # that second included
    assert {at for _, at, _ in world.heads.dated_since(AT + 1)} == {AT + 1}
    assert world.heads.dated_since(AT + 2) == []
    assert (world.heads.at(TWICE).seq, AT + 1, bytes.fromhex(world.newest)) in every


def test_kinds_of_heads(world):
    kinds = [kind for kind, _ in world.heads.kinds()]

    assert kinds.count(KIND_DIRECT_MESSAGE) == 1
    assert kinds.count(KIND_DELETION) == DELETIONS
    assert kinds.count(KIND_APP_DATA) == len(LIVE | TOMBSTONES | EMBEDDINGS)
    assert {seq for _, seq in world.heads.kinds()} == {seq for seq, _, _ in world.heads.dated_since(0)}


def test_which_events_are_heads(world):
    newest, before = (stored for stored in world.ledger.versions(TWICE))

    assert world.heads.seqs_of_ids([newest.id, before.id, bytes(32)]) == {newest.seq}
    assert world.heads.is_head(newest.seq)
    assert not world.heads.is_head(before.seq)
    assert not world.heads.is_head(None)


# ── The law of covered versions ─────────────────────────────────────────────────────────


@given(
    events=st.lists(
        st.tuples(st.sampled_from(["memory", "tombstone", "pruned", "forgotten"]), st.integers(AT, AT + 4)),
        max_size=8,
        unique=True,
    ),
)
def test_no_live_head_is_covered_in_whatever_order_things_arrive(me, events):
    """No query looks for a covered head, because there is none."""
    ledger = Ledger(":memory:", me.public_key)
    world = Filing(me, ledger)
    until = -1
    for kind, second in events:
        if kind in {"memory", "tombstone"}:
            world.file(FLAT, second, Role.TOMBSTONE if kind == "tombstone" else Role.MEMORY)
        else:
            world.delete(second, [FLAT], removal=PRUNED if kind == "pruned" else None)
            until = max(until, second)
        live = ledger.heads.live_heads_at([FLAT])
        assert all(ledger.heads.at(head.slot).created_at > until for head in live)
    ledger.close()
