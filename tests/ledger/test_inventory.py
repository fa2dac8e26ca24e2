"""Inventories: what each relay should hold, what it holds besides, and what a comparison with it changes."""

from __future__ import annotations

import random
import sqlite3

import pytest

from sense_memory.ledger import FiledEvent, Ledger
from sense_memory.ledger.relays import LedgerReason, Remark, reason_sentence
from sense_memory.ledger.schema import MIGRATIONS
from sense_memory.nostr.event import KIND_APP_DATA
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict


OTHER = "wss://other.example/"
NOW = 10_000.0
HOUR = 3_600.0
ACCEPTED = RelayVerdict(RelayOutcome.ACCEPTED)
REFUSED = RelayVerdict(RelayOutcome.REFUSED, "blocked")


def pair(item):
    event = item.event if isinstance(item, FiledEvent) else item
    return event.created_at, bytes.fromhex(event.id)


def pairs(*items):
    return sorted(map(pair, items))


def ids(*items):
    return {ident for _, ident in map(pair, items)}


class Stage:
    """A ledger and two relays; what is not said of another is said of the first."""

    def __init__(self, ledger, relay) -> None:
        self.ledger, self.relay = ledger, relay
        ledger.relays.add([relay, OTHER])

    def inventory(self, url=None):
        """What a relay should hold, in order."""
        return sorted(set(self.ledger.inventory.pairs(self.version(url))))

    def version(self, url=None):
        return self.ledger.inventory.version(url or self.relay)

    def write(self, *items, relays=None):
        assert self.ledger.append_versions(items, [self.relay] if relays is None else relays, NOW)

    def take(self, *items):
        """The relay served something."""
        return [self.ledger.file_events([item], self.relay, NOW)[0].value for item in items]

    def judge(self, *items, verdict=ACCEPTED):
        """The relay's word on what is queued for it."""
        seqs = {self.ledger.by_id(item.event.id).seq for item in items}
        self.ledger.outbox.record_verdicts(self.relay, dict.fromkeys(seqs, verdict), NOW)

    def settle(self, lacks=(), holds=(), *, url=None, version=None, now=NOW):
        """A comparison with a relay; returns how many events were lost there."""
        holds = [pair(item) for item in holds]
        version = version or self.version(url)
        return self.ledger.inventory.record_comparison(
            url or self.relay, version, ids(*lacks), holds, now, begun=now
        )

    def due(self, url=None, now=NOW):
        self.ledger.outbox.queue_missing(url or self.relay, now)
        return {entry.id for entry in self.ledger.outbox.due(url or self.relay, now, 1_000)}

    def states(self, item):
        return self.ledger.outbox.states_by_relay(self.ledger.by_id(item.event.id).seq)


@pytest.fixture
def stage(ledger, relay):
    return Stage(ledger, relay)


# ── What a relay should hold ────────────────────────────────────────────────────────────


def test_every_head_belongs_there(me, stage):
    memory, entry, old, new = me.memory("a", 50), me.journal(51), me.memory("b", 52), me.memory("b", 53)
    deletion, grave = me.deletion(60, ["c"]), me.tombstone("c", 60)
    stage.write(memory, entry, old, new)
    stage.take(grave, deletion)
    ahead = me.memory("d", int(NOW) + 1_000)
    stage.take(ahead)
    assert stage.take(ahead) == ["quarantined"]
    assert stage.inventory(OTHER) == pairs(memory, entry, new, grave, deletion)


def test_an_empty_ledger_has_empty_inventories(stage):
    assert stage.inventory() == []
    assert stage.inventory("wss://unknown.example/") == []


def test_a_tombstone_is_out_where_its_deletion_was_accepted(me, stage):
    grave, deletion = me.tombstone("a", 50), me.deletion(50, ["a"])
    stage.write(grave, deletion, relays=["wss://relay.example/", OTHER])
    assert stage.inventory() == pairs(grave, deletion)
    stage.judge(deletion)
    assert stage.inventory() == pairs(deletion)
    assert stage.inventory(OTHER) == pairs(grave, deletion)


def test_a_tombstone_newer_than_the_accepted_deletion_stays(me, stage):
    stage.write(me.tombstone("a", 50), me.deletion(50, ["a"]))
    stage.judge(me.deletion(50, ["a"]))
    newer = me.tombstone("a", 60)
    stage.write(newer)
    assert stage.inventory() == pairs(me.deletion(50, ["a"]), newer)


def test_a_relay_that_drops_deletions_need_not_hold_them_and_must_hold_the_tombstone(me, stage):
    grave, deletion = me.tombstone("a", 50), me.deletion(50, ["a"])
    stage.write(grave, deletion)
    stage.judge(grave)
    stage.ledger.relays.add_remark(stage.relay, Remark.DROPS_DELETIONS, NOW)
    assert stage.inventory() == pairs(grave, deletion)  # it was not sent yet
    stage.judge(deletion)
    assert stage.inventory() == pairs(grave)
    assert stage.inventory(OTHER) == pairs(grave, deletion)


def test_what_a_relay_refused_is_not_expected_there(me, stage):
    stage.write(me.memory("a"), me.memory("b"))
    stage.judge(me.memory("a"), verdict=REFUSED)
    assert stage.inventory() == pairs(me.memory("b"))
    assert stage.inventory(OTHER) == pairs(me.memory("a"), me.memory("b"))


def test_of_some_ids_those_are_lacking_that_a_relay_should_hold(me, stage):
    old, new, refused = me.memory("a", 50), me.memory("a", 60), me.memory("b")
    stage.write(old)
    stage.write(new, refused)
    stage.judge(refused, verdict=REFUSED)
    asked = ids(old, new, refused, me.memory("never seen"))
    assert stage.ledger.inventory.lacking_count(stage.version(), asked) == 1
    assert stage.ledger.inventory.lacking_count(stage.version(OTHER), asked) == 2


def test_a_relay_holds_the_memories_that_it_showed_and_those_that_it_only_accepted(me, stage):
    """Tombstones, deletions and older versions are no memories that it holds."""
    stage.write(
        me.memory("a", 50), me.journal(51), me.memory("b", 52), me.tombstone("c", 60), me.deletion(60, ["c"])
    )
    stage.judge(me.memory("a", 50), me.journal(51), me.tombstone("c", 60), me.deletion(60, ["c"]))
    stage.take(me.memory("d", 53), me.memory("a", 40), me.tombstone("e", 60))
    assert stage.ledger.inventory.held_counts(stage.relay) == (1, 2)
    assert stage.ledger.inventory.held_counts(OTHER) == (0, 0)


# ── Versions ────────────────────────────────────────────────────────────────────────────


def test_the_version_is_the_same_while_nothing_changes_and_for_relays_alike(me, stage):
    stage.write(me.memory("a"), relays=[stage.relay, OTHER])
    before = stage.version()
    stage.judge(me.memory("a"))
    stage.ledger.edits.record_accesses([("sense-memory/a", NOW, 1)])
    stage.ledger.relays.record_pull(stage.relay, 5, NOW, swept=True)
    assert stage.version() == before == stage.version(OTHER)
    assert hash(stage.version()) == hash(before)


@pytest.mark.parametrize(
    "change", ["append", "apply", "delete", "refuse", "accept deletion", "aside", "gone"]
)
def test_the_version_changes_with_the_inventory(me, stage, change):
    stage.settle(holds=[me.journal(9, "theirs")])
    stage.write(me.memory("a", 50), me.tombstone("b", 50), me.deletion(50, ["b"]))
    before = stage.version()
    match change:
        case "append":
            stage.write(me.memory("c"))
        case "apply":
            stage.take(me.memory("a", 60))
        case "delete":
            stage.take(me.deletion(60, ids=[me.memory("a", 50).event.id]))
        case "refuse":
            stage.judge(me.memory("a", 50), verdict=REFUSED)
        case "accept deletion":
            stage.judge(me.deletion(50, ["b"]))
        case "aside":
            stage.settle(holds=[me.journal(9, "more of theirs")])
        case "gone":
            stage.settle(lacks=[me.journal(9, "theirs")])
    assert stage.version() != before


# ── What a relay lacks ──────────────────────────────────────────────────────────────────


def test_only_what_a_relay_lacks_is_queued_for_it(me, stage):
    here = [me.memory(name) for name in "abc"]
    stage.write(*here, relays=())
    assert stage.settle(lacks=here[:1]) == 0
    assert stage.due() == {here[0].event.id}
    assert stage.states(here[1]) == {stage.relay: "confirmed"}


def test_what_waits_for_a_relay_that_has_it_already_waits_no_longer(me, stage):
    here = [me.memory(name) for name in "abc"]
    stage.write(*here)
    stage.settle(lacks=here[:1])
    assert stage.due() == {here[0].event.id}


def test_what_was_accepted_is_confirmed_where_it_is_there_and_only_there(me, stage):
    here = [me.memory(name) for name in "abc"]
    stage.write(*here)
    stage.judge(*here[:2])
    stage.judge(here[2], verdict=REFUSED)
    assert stage.settle(lacks=here[:1]) == 1
    assert [stage.states(item)[stage.relay] for item in here] == ["queued", "confirmed", "refused"]


def test_what_was_written_meanwhile_is_still_due(me, stage):
    stage.write(me.memory("a"))
    version = stage.version()
    stage.write(me.memory("b"))
    stage.write(me.memory("c"), relays=())
    stage.settle(version=version)
    assert stage.due() == {me.memory("b").event.id, me.memory("c").event.id}


def test_what_was_replaced_meanwhile_is_not_sent(me, stage):
    stage.write(me.memory("a", 50))
    version = stage.version()
    stage.write(me.memory("a", 60))
    stage.settle(lacks=[me.memory("a", 50)], version=version)
    assert stage.due() == {me.memory("a", 60).event.id}


def test_what_a_relay_lost_is_counted_and_sent_again_at_most_once_an_hour(me, stage):
    item = me.memory("a")
    stage.write(item)
    stage.judge(item)
    assert stage.settle(lacks=[item], now=NOW + 60) == 1
    assert stage.ledger.outbox.reasons(stage.relay) == {reason_sentence(LedgerReason.LOST): 1}
    assert stage.due(now=NOW + HOUR - 1) == set()
    assert stage.settle(lacks=[item], now=NOW + HOUR - 1) == 1
    assert stage.due(now=NOW + HOUR - 1) == set()
    assert stage.due(now=NOW + HOUR) == {item.event.id}


def test_what_a_relay_refused_is_not_sent_again(me, stage):
    item = me.memory("a")
    stage.write(item)
    stage.judge(item, verdict=REFUSED)
    stage.settle(lacks=[item], now=NOW + 2 * HOUR)
    assert stage.due(now=NOW + 2 * HOUR) == set()
    assert stage.states(item) == {stage.relay: "refused"}


def test_a_settled_tombstone_is_neither_sent_nor_taken_for_held(me, stage):
    grave, deletion = me.tombstone("a", 50), me.deletion(50, ["a"])
    stage.write(grave, deletion)
    stage.judge(deletion)
    stage.settle()
    assert stage.states(grave) == {stage.relay: "queued"}


def test_each_relay_has_its_own(me, stage):
    stage.write(me.memory("a"), relays=[stage.relay, OTHER])
    stage.settle(url=OTHER)
    assert stage.due(OTHER) == set()
    assert stage.due() == {me.memory("a").event.id}


# ── What a relay holds besides ──────────────────────────────────────────────────────────


def test_a_strangers_business_is_set_aside_until_it_is_gone(me, stage):
    theirs = me.signed(KIND_APP_DATA, 40, [("d", "other-app/x")])
    stage.settle(holds=[theirs])
    assert stage.inventory() == pairs(theirs)
    assert stage.inventory(OTHER) == []
    stage.settle(holds=[theirs])  # twice is once
    assert stage.inventory() == pairs(theirs)
    stage.settle(lacks=[theirs])
    assert stage.inventory() == []


def test_a_head_that_was_just_fetched_is_nothing_special(me, stage):
    item = me.memory("a")
    stage.take(item)
    stage.settle(holds=[item])
    assert stage.inventory(OTHER) == stage.inventory() == pairs(item)
    stage.settle(lacks=[item])
    assert stage.inventory() == pairs(item)  # it was not aside


def test_an_older_version_is_aside_only_where_the_head_is_there_too(me, stage):
    old, new = me.memory("a", 50), me.memory("a", 60)
    stage.write(old)
    stage.write(new)
    stage.settle(lacks=[new], holds=[old])  # the head will replace it
    assert stage.inventory() == pairs(new)
    stage.settle(holds=[old])  # a relay that keeps every version
    assert stage.inventory() == pairs(old, new)


def test_what_was_forgotten_here_is_aside_where_it_stays(me, stage):
    stage.take(me.tombstone("a", 60), me.deletion(60, ["a"]))
    gone = me.memory("a", 50)
    assert stage.take(gone) == ["deleted"]
    stage.settle(holds=[gone])
    assert stage.inventory() == pairs(gone, me.deletion(60, ["a"]))


def test_a_settled_tombstone_is_aside_where_it_stays(me, stage):
    grave, deletion = me.tombstone("a", 50), me.deletion(50, ["a"])
    stage.write(grave, deletion)
    stage.judge(grave, deletion)
    stage.settle(holds=[grave])
    assert stage.inventory() == pairs(grave, deletion)


def test_what_was_refused_and_is_there_after_all_belongs_there_again(me, stage):
    item = me.memory("a")
    stage.write(item)
    stage.judge(item, verdict=REFUSED)
    stage.settle(holds=[item])
    assert stage.states(item) == {stage.relay: "acked"}
    version = stage.version()
    assert stage.ledger.inventory.pairs(version) == pairs(item)
    assert not version.aside


def test_what_waits_in_quarantine_is_aside_until_its_time(me, stage):
    ahead = me.memory("a", int(NOW) + 1_000)
    stage.take(ahead)
    stage.settle(holds=[ahead])
    assert stage.inventory() == pairs(ahead)
    assert stage.inventory(OTHER) == []
    assert stage.ledger.file_quarantined(NOW + 1_000) == 1
    assert stage.inventory(OTHER) == stage.inventory() == pairs(ahead)


def test_a_forgotten_relay_takes_its_asides_along(me, stage):
    stage.settle(holds=[me.journal(9, "theirs")])
    stage.ledger.relays.remove(stage.relay)
    stage.ledger.relays.add([stage.relay])
    assert stage.inventory() == []


def test_a_relay_that_was_dropped_meanwhile_is_left_alone(me, stage):
    stage.write(me.memory("a"), me.memory("b"))
    version = stage.version()
    stage.ledger.relays.remove(stage.relay)
    assert stage.settle([me.memory("a")], [me.journal(9, "theirs")], version=version) == 0
    assert stage.ledger.relays.state(stage.relay).completed_at is None


def test_the_known_are_those_that_lie_here_whatever_became_of_them(me, stage):
    old, new = me.memory("a", 50), me.memory("a", 60)
    stage.write(old)
    stage.write(new)
    asked = [pair(item)[1] for item in (old, new, me.memory("b"))]
    assert sorted(stage.ledger.inventory.known_pairs(asked)) == pairs(old, new)


# ── Long runs ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(5))
def test_comparisons_come_to_rest_whatever_a_relay_holds(me, stage, seed):
    """A relay that keeps all that it had and takes all that it gets."""
    rng = random.Random(seed)
    ours = [me.memory(name, rng.randrange(10, 90)) for name in "abcdefgh"]
    forgotten = [me.tombstone(name, 95) for name in "mn"] + [me.deletion(95, ["m", "n"])]
    theirs = [me.memory(name, rng.randrange(10, 90), "other") for name in "efghmnop"]
    theirs += [me.signed(KIND_APP_DATA, at, [("d", "other-app/x")]) for at in range(5)]
    stage.write(*ours)
    for item in forgotten:
        stage.write(item)
    held = set(map(pair, theirs))
    by_pair = {pair(item): item for item in [*ours, *forgotten, *theirs]}
    for _ in range(5):
        expected = set(stage.inventory())
        lacks, holds = expected - held, held - expected
        known = set(stage.ledger.inventory.known_pairs([ident for _, ident in holds]))
        stage.take(*(by_pair[one] for one in holds - known if isinstance(by_pair[one], FiledEvent)))
        stage.settle([by_pair[one] for one in lacks], [by_pair[one] for one in holds])
        held |= lacks
    assert (lacks, holds) == (set(), set())
    assert ids(*forgotten) < {ident for _, ident in held}


# ── The file ────────────────────────────────────────────────────────────────────────────


def test_a_ledger_of_the_step_before_is_brought_up_to_date(me, tmp_path, relay):
    path = tmp_path / "ledger" / "a.db"
    step = next(number for number, script in enumerate(MIGRATIONS) if "CREATE TABLE aside" in script)
    made = Ledger(path, me.public_key)
    made.append_versions([me.memory("a")], [], NOW)
    made.close()
    with sqlite3.connect(path) as connection:
        for later in MIGRATIONS[step:]:
            for line in later.splitlines():
                if line.strip().startswith("CREATE TABLE "):
                    connection.execute(f"DROP TABLE {line.split()[2]}")
                for table in ("relays", "drafts"):
                    if line.strip().startswith(f"ALTER TABLE {table} ADD COLUMN "):
                        connection.execute(f"ALTER TABLE {table} DROP COLUMN {line.split()[5]}")
        connection.execute("DROP INDEX events_replaced")
        connection.execute("DROP INDEX events_that_delete")
        connection.execute(f"PRAGMA user_version = {step}")
    connection.close()

    ledger = Ledger(path, me.public_key)
    ledger.relays.add([relay])
    version = ledger.inventory.version(relay)
    ledger.inventory.record_comparison(relay, version, set(), [pair(me.journal(9, "theirs"))], NOW, begun=NOW)
    assert len(ledger.inventory.pairs(ledger.inventory.version(relay))) == 2
    ledger.close()


# ── Some kinds only ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("since", [None, 0])
def test_nothing_is_recorded_of_a_kind_that_was_not_compared(me, stage, ledger, relay, since):
    memory, entry, unqueued = me.memory("a"), me.journal(51), me.journal(52, "from elsewhere")
    stage.write(memory, entry)
    stage.judge(memory, entry)
    ledger.file_events([unqueued], OTHER, NOW)
    version = stage.version()
    ledger.inventory.record_comparison(
        relay, version, set(), [], NOW, begun=NOW, since=since, kinds=[5, KIND_APP_DATA]
    )
    assert [stage.states(item).get(relay) for item in (memory, entry, unqueued)] == [
        "confirmed",
        "acked",
        None,
    ]
    assert stage.due() == {unqueued.event.id}
    assert [kind for kind, _ in ledger.inventory.sample_confirmed(relay, 5)] == [KIND_APP_DATA]
    assert ledger.inventory.sample_confirmed(relay, 5, [4]) == []


def test_the_ids_of_the_journal_are_those_of_its_kind_forgotten_entries_included(me, stage, ledger):
    kept, gone = me.journal(51), me.journal(52, "gone")
    stage.write(me.memory("a"), kept, gone)
    stage.write(me.deletion(53, ids=[gone.event.id]))
    assert ids(kept) <= ledger.inventory.journal_ids() <= ids(kept, gone)


def test_events_of_other_kinds_are_not_lost_where_the_pull_did_not_cover_them(me, stage, ledger, relay):
    memory, entry = me.memory("a"), me.journal(51)
    stage.write(memory, entry)
    stage.judge(memory, entry)
    begun = NOW + HOUR
    seqs = {kind: ledger.outbox.lost_events(relay, begun, 0, [kind]) for kind in (4, 5, KIND_APP_DATA)}
    assert {kind: len(found) for kind, found in seqs.items()} == {4: 1, 5: 0, KIND_APP_DATA: 1}
    assert sorted(ledger.outbox.lost_events(relay, begun)) == sorted(seqs[4] + seqs[KIND_APP_DATA])
