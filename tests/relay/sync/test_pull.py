"""One pull of one relay: what is asked, what the ledger records, and when it counts as complete.

Pages are filed while the next ones are on their way, and a walk is over when all of them are filed. What follows from an
answer has its tables in `test_conclusions`.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from sense_memory.ledger import FiledEvent, Ledger, Role
from sense_memory.ledger.relays import LedgerReason, PullProgress, Remark, reason_sentence
from sense_memory.ledger.versions import slot_of
from sense_memory.limits import BACKGROUND_SECONDS, CURSOR_OVERLAP_SECONDS, HEAL_SECONDS, SPOT_CHECK_COUNT
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE, KINDS, Unsigned
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from sense_memory.relay.client.page import LATE, EventPage
from sense_memory.relay.client.requests import Comparison, Counted
from sense_memory.relay.sync.agenda import BEGINNING, RelayQuestion
from sense_memory.relay.sync.pull import Puller, walk_and_file
from sense_memory.relay.sync.reconcile import InventoryCache
from sense_memory.relay.sync.walk import HIDDEN
from tests.time_unit import SECOND


class Relay:
    """Serves one event a page, newest first; says when it was asked."""

    def __init__(self, *events) -> None:
        self.events = events
        self.asked = [asyncio.Event() for _ in range(len(events) + 2)]
        self._requests = iter(self.asked)

    async def fetch(self, filters):
        next(self._requests).set()
        (wanted,) = filters
        found = [event for event in self.events if wanted.matches(event)]
        return EventPage(
            tuple(sorted(found, key=lambda event: -event.created_at)[: wanted.limit]), complete=True
        )


@pytest.fixture
def relay(make_event):
    return Relay(make_event(2), make_event(1))


async def test_the_next_page_is_asked_for_before_the_last_one_is_filed(relay):
    taken = []

    async def take(events):
        await relay.asked[len(taken) + 1].wait()
        taken.extend(events)

    async with asyncio.timeout(5 * SECOND):
        found = await walk_and_file(relay.fetch, take, Filter(), page_size=2)

    assert (taken, found.received, found.complete) == ([*relay.events], 2, True)


async def test_a_walk_is_over_only_when_its_last_page_is_filed(relay):
    taken, may_go_on = [], asyncio.Event()

    async def take(events):
        await may_go_on.wait()
        taken.extend(events)

    walk = asyncio.create_task(walk_and_file(relay.fetch, take, Filter(), page_size=500))
    async with asyncio.timeout(5 * SECOND):
        await relay.asked[2].wait()
        assert not walk.done()
        may_go_on.set()
        await walk

    assert taken == [*relay.events]


async def test_what_can_not_be_filed_ends_the_walk_with_its_error(relay):
    async def take(events):
        raise OSError("disk full")

    async with asyncio.timeout(5 * SECOND):
        with pytest.raises(OSError, match="disk full"):
            await walk_and_file(relay.fetch, take, Filter(), page_size=500)


async def test_a_cancelled_walk_leaves_no_page_behind_that_is_still_being_filed(relay):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def take(events):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    walk = asyncio.create_task(walk_and_file(relay.fetch, take, Filter(), page_size=500))
    async with asyncio.timeout(5 * SECOND):
        await begun.wait()
        walk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await walk

    assert ended.is_set()


async def test_pages_are_filed_one_after_the_other(make_event):
    """The cursor of a pull that is cut off may lie below a page only if every page above was filed."""
    relay = Relay(make_event(3), make_event(2), make_event(1))
    begun, may_end = [], asyncio.Event()

    async def take(events):
        begun.append(events)
        await may_end.wait()

    walk = asyncio.create_task(walk_and_file(relay.fetch, take, Filter(), page_size=2))
    async with asyncio.timeout(5 * SECOND):
        await relay.asked[1].wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(begun) == 1
        may_end.set()
        await walk

    assert len(begun) == 2


# ── A pull, and what the ledger records ─────────────────────────────────────────────────

URL = "wss://relay.example/"
NOW = 1_800_000_000
HOUR = 3_600
NEWER, RECENT, COMPARE, SWEEP = (
    RelayQuestion.NEWER,
    RelayQuestion.RECENT,
    RelayQuestion.COMPARE,
    RelayQuestion.SWEEP,
)


class Peer:
    """An open connection to a relay in memory.

    Attributes:
        events: what it holds.
        hides: kinds that it refuses.
        withheld: ids that it claims to hold and does not serve.
        compares: whether it knows NIP-77.
        asked: the filters of the requests, in order.
        waited: whether each request waited after EOSE.
        late: for each coming request, how many events arrive after an EOSE meanwhile; a request that waits names them.
        cut_after: requests after which the line is lost, or None.
    """

    def __init__(self, *events) -> None:
        self.events, self.hides, self.withheld, self.compares = list(events), set(), set(), False
        self.asked, self.waited, self.late, self.cut_after = [], [], [], None
        self.information, self.counts = None, SimpleNamespace(after_eose=0)
        self.problem, self.misbehaving = None, False

    @property
    def is_open(self):
        return self.problem is None

    async def fetch(self, filters, *, wait_after_eose=False):
        (wanted,) = filters
        self.asked.append(wanted)
        self.waited.append(wait_after_eose)
        if self.cut_after is not None and len(self.asked) > self.cut_after:
            self.problem = "connection lost"
        if self.problem:
            return EventPage((), complete=False, reason=self.problem, outcome=RelayOutcome.RETRY)
        if self.hides & set(wanted.kinds):
            return EventPage((), complete=False, reason="auth-required", outcome=RelayOutcome.REFUSED)
        late = self.late.pop(0) if self.late else 0
        if late and wait_after_eose:
            return EventPage((), complete=False, reason=LATE, outcome=RelayOutcome.RETRY)
        self.counts.after_eose += late
        found = [event for event in self.events if wanted.matches(event) and event.id not in self.withheld]
        found.sort(key=lambda event: (-event.created_at, event.id))
        return EventPage(tuple(found[: wanted.limit]), complete=True)

    async def count(self, filters, **_):
        (wanted,) = filters
        return Counted(sum(map(wanted.matches, self.events)))

    async def compare(self, wanted, items, **_):
        if self.cut_after == 0:
            self.problem = "connection lost"
        if self.problem or not self.compares or self.hides & set(wanted.kinds):
            return Comparison(complete=False, reason=self.problem or "unsupported")
        ours = set(items.ids_except(frozenset()))
        theirs = {bytes.fromhex(event.id) for event in self.events if wanted.matches(event)}
        return Comparison(tuple(ours - theirs), tuple(theirs - ours))


class Stage:
    """A ledger, a relay and the puller between them; the clock stands still."""

    def __init__(self, ledger, signer, sign) -> None:
        self.ledger, self._signer, self._sign = ledger, signer, sign
        ledger.relays.add([URL])
        self.now, self.peer, self.filed = float(NOW), Peer(), []
        self.restart()

    def restart(self):
        """A new process."""
        inventories = InventoryCache(self.ledger)
        self.puller = Puller(
            URL, self.ledger, self._signer.public_key, inventories=inventories, clock=lambda: self.now
        )

    def event(self, name="a", at=NOW - HOUR, kind=KIND_APP_DATA):
        me = self._signer.public_key
        tags = (("p", me),) if kind == KIND_DIRECT_MESSAGE else (("d", f"sense-memory/{name}"),)
        return self._sign(self._signer, Unsigned(at, kind, tags, f"sealed {name}"))

    def wrote(self, *events):
        """This device wrote events, and the relay accepted them."""
        assert self.ledger.append_versions([_item(event) for event in events], [URL], self.now)
        seqs = [self.ledger.by_id(event.id).seq for event in events]
        accepted = RelayVerdict(RelayOutcome.ACCEPTED)
        self.ledger.outbox.record_verdicts(URL, dict.fromkeys(seqs, accepted), self.now)

    async def file(self, events):
        self.filed += events
        items = [_item(event) for event in events]
        self.ledger.file_events(items, URL, self.now)

    async def pull(self, question=RECENT):
        self.peer.asked.clear()
        self.peer.waited.clear()
        return await self.puller.pull(self.peer, self.file, question, self.now)

    def since(self, kind=KIND_APP_DATA):
        """The dates from which events of a kind were asked for, without requests by id."""
        asked = self.peer.asked
        return {wanted.since for wanted in asked if kind in wanted.kinds and wanted.ids is None}

    @property
    def cursor(self):
        return self.ledger.relays.state(URL).cursor

    def remarked(self, remark):
        return self.ledger.relays.has_remark(URL, remark)

    def remark(self, remark):
        self.ledger.relays.add_remark(URL, remark, self.now)


def _item(event):
    return FiledEvent(event, slot_of(event), Role.DELETION if event.kind == KIND_DELETION else Role.MEMORY)


@pytest.fixture
def stage(signer, sign):
    ledger = Ledger(":memory:", signer.public_key)
    yield Stage(ledger, signer, sign)
    ledger.close()


async def test_a_complete_pull_moves_the_cursor_and_the_next_one_begins_there(stage):
    stage.peer.events = [stage.event(at=NOW - HOUR)]
    assert (await stage.pull()).complete
    assert stage.cursor == NOW - HOUR - CURSOR_OVERLAP_SECONDS
    assert stage.since() == {None}
    await stage.pull()
    assert stage.since() == {stage.cursor}


async def test_the_cursor_does_not_go_back_when_the_relay_shows_less(stage):
    stage.peer.events = [stage.event(at=NOW - HOUR)]
    await stage.pull()
    stage.peer.events = [stage.event("b", at=NOW - 50 * HOUR)]
    await stage.pull(SWEEP)
    assert stage.cursor == NOW - HOUR - CURSOR_OVERLAP_SECONDS


async def test_an_event_dated_a_little_ahead_moves_the_cursor_no_further_than_the_clock(stage):
    stage.peer.events = [stage.event(at=NOW + 200)]
    await stage.pull()
    assert stage.cursor == NOW - CURSOR_OVERLAP_SECONDS
    await stage.pull(NEWER)
    assert stage.since() == {NOW + 1}


async def test_an_event_dated_far_ahead_moves_no_cursor(stage):
    stage.peer.events = [stage.event(at=NOW + 5_000)]
    await stage.pull()
    assert stage.cursor is None


async def test_a_pull_that_the_relay_does_not_end_moves_no_cursor(stage):
    stage.peer.events = [stage.event()]
    stage.peer.cut_after = 2
    assert not (await stage.pull()).complete
    assert stage.cursor is None
    assert stage.ledger.relays.state(URL).completed_at is None


async def test_newer_events_are_asked_for_after_the_newest_second_seen_and_move_no_cursor(stage):
    stage.peer.events = [stage.event(at=NOW - HOUR)]
    await stage.pull()
    cursor = stage.cursor
    stage.peer.events.append(stage.event("b", at=NOW - 60))
    await stage.pull(NEWER)
    assert (stage.since(), stage.cursor) == ({NOW - HOUR + 1}, cursor)
    await stage.pull(NEWER)
    assert stage.since() == {NOW - 60 + 1}


# Losses


async def test_what_the_relay_accepted_and_does_not_show_is_queued_and_remarked(stage):
    event = stage.event()
    stage.now -= HOUR
    stage.wrote(event)
    stage.now += HOUR
    found = await stage.pull()
    assert (found.missing, stage.remarked(Remark.FORGETFUL)) == (1, True)
    assert stage.ledger.outbox.counts(URL) == {"queued": 1}
    assert stage.ledger.relays.state(URL).healed_at == stage.now


async def test_the_remark_stands_until_a_pull_of_everything_lacks_nothing(stage):
    event = stage.event(at=NOW - 20 * HOUR)
    stage.peer.events = [event, stage.event("b", at=NOW - HOUR)]
    await stage.pull()
    stage.remark(Remark.FORGETFUL)
    stage.ledger.relays.record_healing(
        URL, stage.now
    )  # a forgetful relay is asked for everything once an hour only
    await stage.pull(RECENT)
    assert stage.since() == {stage.cursor}
    assert stage.remarked(Remark.FORGETFUL)
    await stage.pull(SWEEP)
    assert not stage.remarked(Remark.FORGETFUL)


async def test_a_resumed_pull_of_everything_stays_one_though_recent_events_are_asked_for_once_more(stage):
    stage.peer.events = [stage.event()]
    await stage.pull()
    stage.remark(Remark.FORGETFUL)
    stage.ledger.relays.save_unfinished_pull(
        URL, PullProgress(stage.now - BACKGROUND_SECONDS - 1, None, 0, BEGINNING)
    )
    await stage.pull(SWEEP)
    assert stage.since() == {None, stage.cursor}
    assert not stage.remarked(Remark.FORGETFUL)


async def test_events_that_were_confirmed_are_asked_for_once_an_hour_and_a_loss_leads_to_all_others(stage):
    old = [stage.event(f"old {number}", at=NOW - 20 * HOUR) for number in range(30)]
    stage.now -= HOUR
    stage.wrote(*old)
    stage.now += HOUR
    stage.peer.events = [*old, stage.event("new")]
    await stage.pull()
    stage.now += HEAL_SECONDS + 1

    def by_id():
        return sum(len(wanted.ids) for wanted in stage.peer.asked if wanted.ids is not None)

    await stage.pull()  # the first pull since then begins the hour
    stage.now += HEAL_SECONDS + 1
    await stage.pull()
    assert by_id() == SPOT_CHECK_COUNT
    await stage.pull()
    assert by_id() == 0
    stage.peer.events = stage.peer.events[-1:]
    stage.now += HEAL_SECONDS + 1
    found = await stage.pull()
    assert (None in stage.since(), found.missing) == (True, 30)


async def test_after_a_pull_of_everything_no_confirmed_event_is_asked_for(stage):
    stage.peer.events = [stage.event(f"{number}") for number in range(3)]
    for _ in range(3):
        await stage.pull(SWEEP)
        assert all(wanted.ids is None for wanted in stage.peer.asked)
        stage.now += HEAL_SECONDS + 1


# Comparisons


async def test_a_relay_that_does_not_serve_what_it_claims_to_hold_is_walked_from_the_beginning(stage):
    old = stage.event("old", at=NOW - 20 * HOUR)
    new = stage.event("new")
    stage.peer.events = [old, new]
    await stage.pull()
    stage.restart()
    stage.peer.compares, stage.peer.withheld = True, {old.id}
    stage.now += 60
    found = await stage.pull(COMPARE)
    assert None in stage.since()
    assert found.missing == 1


async def test_a_comparison_fetches_what_is_new_and_moves_the_cursor(stage):
    stage.peer.events = [stage.event("old", at=NOW - 20 * HOUR)]
    await stage.pull()
    stage.peer.compares = True
    stage.peer.events.append(stage.event("new", at=NOW - 60))
    assert (await stage.pull(COMPARE)).complete
    assert stage.since() == set()  # nothing was walked
    assert (len(stage.filed), stage.cursor) == (2, NOW - 60 - CURSOR_OVERLAP_SECONDS)


# Late events


async def test_one_late_event_costs_one_more_walk_and_two_of_them_a_wait_after_each_page(stage):
    stage.peer.late = [1]
    assert (await stage.pull()).complete
    assert stage.peer.waited == [False] * 6
    stage.peer.late = [2]
    assert (await stage.pull()).complete
    assert stage.peer.waited == [False] * 3 + [True] * 3
    stage.peer.late = [1, 0, 0, 1]
    assert (await stage.pull()).complete
    assert stage.peer.waited == [False] * 6 + [True] * 3


async def test_a_relay_that_goes_on_after_its_end_is_incomplete_remarked_and_waited_for(stage):
    stage.peer.late = [2, 0, 0, 1]
    assert (await stage.pull()).reasons == (LATE,)
    assert stage.remarked(Remark.LATE)
    stage.restart()
    stage.peer.counts.after_eose = 0  # of a new connection
    assert (await stage.pull()).complete
    assert stage.peer.waited == [True] * 3
    assert not stage.remarked(Remark.LATE)


# Positions


async def test_a_pull_that_was_cut_off_goes_on_where_it_was(stage):
    stage.peer.events = [stage.event(f"{number}", at=NOW - number) for number in range(700)]
    stage.peer.cut_after = 4  # the first pages of three kinds, and the second page of memories
    found = await stage.pull()
    assert (found.reasons, stage.puller.made_progress) == (("connection lost",), True)
    assert not stage.remarked(Remark.INCOMPLETE)
    left = stage.ledger.relays.unfinished_pull(URL)
    assert left.walks.keys() == {KIND_APP_DATA}
    stage.peer.problem, stage.peer.cut_after = None, None
    assert (await stage.pull()).complete
    assert {wanted.kinds for wanted in stage.peer.asked} == {(KIND_APP_DATA,)}
    assert {event.id for event in stage.filed} == {event.id for event in stage.peer.events}
    assert stage.ledger.relays.unfinished_pull(URL) is None


async def test_a_pull_that_was_cut_off_before_anything_arrived_made_no_progress(stage):
    stage.peer.events, stage.peer.cut_after = [stage.event()], 0
    await stage.pull()
    assert not stage.puller.made_progress
    assert stage.ledger.relays.unfinished_pull(URL) is None
    assert stage.remarked(Remark.INCOMPLETE)


async def test_a_pull_of_newer_events_that_was_cut_off_is_not_resumed(stage):
    stage.peer.events = [stage.event()]
    await stage.pull()
    stage.peer.cut_after = 0
    assert (await stage.pull(NEWER)).reasons == ("connection lost",)
    assert not stage.puller.made_progress


async def test_a_comparison_that_was_cut_off_is_tried_again_at_once(stage):
    stage.peer.events = [stage.event()]
    await stage.pull()
    stage.peer.compares, stage.peer.cut_after = True, 0
    assert (await stage.pull(COMPARE)).reasons == ("connection lost",)
    assert stage.puller.made_progress


async def test_the_events_that_a_pull_from_the_cursor_fetched_again_are_counted(stage):
    stage.peer.events = [stage.event(f"{number}") for number in range(5)]
    await stage.pull()
    assert stage.puller.received_in_overlap == 0
    await stage.pull()
    assert stage.puller.received_in_overlap == 5


async def test_a_relay_honours_deletions_again_once_a_later_pull_of_everything_shows_nothing_deleted(stage):
    stage.remark(Remark.UNDELETED)
    await stage.pull(SWEEP)
    assert stage.remarked(Remark.UNDELETED)  # it may have been seen in this pull
    stage.now += 1
    await stage.pull(SWEEP)
    assert not stage.remarked(Remark.UNDELETED)


async def test_a_pull_from_a_relay_that_broke_the_protocol_is_not_resumed(stage):
    stage.peer.events = [stage.event(f"{number}", at=NOW - number) for number in range(700)]
    stage.peer.cut_after, stage.peer.misbehaving = 4, True
    await stage.pull()
    assert not stage.puller.made_progress
    assert stage.ledger.relays.unfinished_pull(URL) is None
    assert stage.remarked(Remark.INCOMPLETE)


async def test_a_complete_pull_removes_the_remark_that_the_relay_shows_not_everything(stage):
    stage.remark(Remark.INCOMPLETE)
    await stage.pull()
    assert not stage.remarked(Remark.INCOMPLETE)


async def test_a_relay_that_shows_a_deletion_request_keeps_deletion_requests(stage, sign, signer):
    stage.remark(Remark.DROPS_DELETIONS)
    address = f"30078:{signer.public_key}:sense-memory/gone"
    request = sign(signer, Unsigned(NOW - HOUR, KIND_DELETION, (("a", address),), ""))
    await stage.pull()
    assert stage.remarked(Remark.DROPS_DELETIONS)
    stage.peer.events = [request]
    await stage.pull()
    assert not stage.remarked(Remark.DROPS_DELETIONS)


# A hidden journal


async def test_a_hidden_journal_is_named_and_the_cursor_moves_with_the_others(stage):
    stage.peer.hides = {KIND_DIRECT_MESSAGE}
    stage.peer.events = [stage.event()]
    found = await stage.pull()
    assert (found.reasons, found.complete, found.shows_all_but_hidden) == ((HIDDEN,), False, True)
    assert stage.cursor == NOW - HOUR - CURSOR_OVERLAP_SECONDS
    assert stage.remarked(Remark.HIDES_JOURNAL)
    assert not stage.remarked(Remark.INCOMPLETE)


@pytest.mark.parametrize("compares", [False, True])
async def test_the_entries_of_a_hidden_journal_do_not_count_as_lost_but_are_sent_again_if_others_are(
    stage, compares
):
    kept, gone = stage.event("kept"), stage.event("gone")
    entry = stage.event(kind=KIND_DIRECT_MESSAGE)
    stage.now -= HOUR
    stage.wrote(kept, gone, entry)
    stage.now += HOUR
    stage.peer.hides, stage.peer.compares, stage.peer.events = {KIND_DIRECT_MESSAGE}, compares, [kept, entry]
    stage.ledger.relays.record_pull(URL, None, stage.now - HOUR, swept=False)
    found = await stage.pull(COMPARE)
    assert (found.missing, found.reasons) == (1, (HIDDEN,))
    assert stage.ledger.outbox.counts(URL) == {"queued": 2, "confirmed": 1}
    assert stage.ledger.outbox.reasons(URL) == {
        reason_sentence(LedgerReason.LOST): 1,
        reason_sentence(LedgerReason.UNSEEN): 1,
    }
    stage.peer.events.append(gone)
    assert (await stage.pull(COMPARE)).missing == 0
    assert stage.ledger.outbox.counts(URL) == {"queued": 1, "confirmed": 2}


async def test_while_the_journal_is_hidden_the_check_of_confirmed_events_is_of_the_others(stage):
    entries = [stage.event(f"{n}", at=NOW - 20 * HOUR, kind=KIND_DIRECT_MESSAGE) for n in range(40)]
    stage.peer.events = [
        *(stage.event(f"{n}", at=NOW - 20 * HOUR) for n in range(5)),
        *entries,
        stage.event("new"),
    ]
    await stage.pull()
    stage.peer.hides = {KIND_DIRECT_MESSAGE}
    await stage.pull()
    stage.now += HEAL_SECONDS + 1
    await stage.pull()
    (checked,) = [wanted for wanted in stage.peer.asked if wanted.ids is not None]
    assert len(checked.ids) == SPOT_CHECK_COUNT


async def test_a_journal_is_hidden_where_the_relay_compares_it_and_refuses_the_request(stage):
    stage.peer.events = [stage.event()]
    await stage.pull()
    stage.peer.compares, stage.peer.hides = True, {KIND_DIRECT_MESSAGE}
    assert (await stage.pull(COMPARE)).reasons == (HIDDEN,)
    assert stage.since() == set()  # the others are compared


async def test_a_journal_that_was_hidden_is_walked_though_the_relay_compares_it_now(stage):
    stage.peer.hides, stage.peer.compares = {KIND_DIRECT_MESSAGE}, True
    stage.peer.events = [stage.event(), stage.event("e", at=NOW - 50 * HOUR, kind=KIND_DIRECT_MESSAGE)]
    await stage.pull()
    stage.peer.hides = set()
    assert (await stage.pull(COMPARE)).complete
    assert stage.since(KIND_DIRECT_MESSAGE) == {None}
    assert len(stage.filed) == 2
    assert not stage.remarked(Remark.HIDES_JOURNAL)


async def test_a_journal_that_is_shown_again_is_asked_for_whatever_the_age_of_its_entries(stage):
    stage.peer.hides = {KIND_DIRECT_MESSAGE}
    stage.peer.events = [stage.event(), stage.event("e", at=NOW - 50 * HOUR, kind=KIND_DIRECT_MESSAGE)]
    await stage.pull()
    await stage.pull()
    assert (stage.since(), stage.since(KIND_DIRECT_MESSAGE)) == ({stage.cursor}, {None})
    stage.peer.hides = set()
    assert (await stage.pull(NEWER)).reasons == (HIDDEN,)  # that asks only for what is new
    assert (await stage.pull()).complete
    assert len([event for event in stage.filed if event.kind == KIND_DIRECT_MESSAGE]) == 1
    assert not stage.remarked(Remark.HIDES_JOURNAL)
    await stage.pull()
    assert stage.since(KIND_DIRECT_MESSAGE) == {stage.cursor}


async def test_a_relay_that_hides_every_kind_is_never_complete(stage):
    stage.peer.hides = set(KINDS)
    found = await stage.pull()
    assert (found.reasons, found.refused) == (("auth-required",), True)
    assert stage.ledger.relays.state(URL).completed_at is None


async def test_a_comparison_that_leaves_out_a_journal_that_the_relay_serves_is_not_believed(stage):
    """As strfry, which compares only what everybody may see."""
    entries = [stage.event(f"{n}", at=NOW - n * HOUR, kind=KIND_DIRECT_MESSAGE) for n in range(5)]
    stage.peer.events = [stage.event(), *entries]
    await stage.pull()
    stage.peer.compares, compare = True, stage.peer.compare

    async def blind(wanted, items, **options):
        if KIND_DIRECT_MESSAGE in wanted.kinds:
            return Comparison(tuple(items.ids_except(frozenset())), ())
        return await compare(wanted, items, **options)

    stage.peer.compare = blind
    stage.remark(Remark.LATE)
    stage.peer.events.append(stage.event("new", at=NOW - 60, kind=KIND_DIRECT_MESSAGE))
    for _ in range(2):
        stage.now += 60
        found = await stage.pull(COMPARE)
        assert (found.complete, found.missing) == (True, 0)
    assert stage.remarked(Remark.LATE)  # memories were not walked
    assert {event.id for event in stage.filed} == {event.id for event in stage.peer.events}
