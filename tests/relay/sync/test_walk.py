"""The walk over a relay's pages, against a relay so dumb that it cannot be wrong: a sorted list with a cap.

Promises: an event is handed over at most once; a pull is called complete only when
everything was; a crowded second costs completeness and nothing else.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sense_memory.limits import ADDRESS_BATCH_COUNT, PAGE_COUNT
from sense_memory.nostr.event import RawEvent
from sense_memory.nostr.filters import Filter
from sense_memory.relay.client.page import EventPage
from sense_memory.relay.sync.walk import GAP, Position, PullResult, by_address, walk_filter


ME = "ab" * 32
CROWDED = "more events in one second than fit a page"
EVERYTHING = Filter(authors=(ME,), kinds=(30078,))


def run(coroutine):
    """A walk over a relay that answers at once, and so never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the walk waited for something")


def events_at(*seconds):
    """Events of distinct addresses at these seconds; ids are scattered, as real ones are."""
    made = []
    for number, second in enumerate(seconds):
        ident = hashlib.sha256(f"{number} {second}".encode()).hexdigest()
        made.append(RawEvent(ident, ME, second, 30078, (("d", f"sense-memory/{number}"),), "", "0" * 128))
    return made


def tags_of(events):
    return [event.d_tag for event in events]


class DumbRelay:
    """Newest first, lowest id first, at most `cap` of each filter; remembers what it was asked."""

    def __init__(self, events, cap, *, fails_at=None) -> None:
        self._events = sorted(events, key=lambda event: (-event.created_at, event.id))
        self._cap, self._fails_at = cap, fails_at
        self.asked = []

    def most(self):
        return self._cap

    def served(self):
        return self._events

    def matches(self, wanted, event):
        return wanted.matches(event)

    async def fetch(self, filters):
        self.asked.append(tuple(filters))
        assert len(self.asked) < 1_000, "the walk does not end"
        found = {}
        for wanted in filters:
            assert wanted.until is None or wanted.until >= (wanted.since or 0), "asked for no time at all"
            matching = [event for event in self.served() if self.matches(wanted, event)]
            found |= {event.id: event for event in matching[: min(self.most(), wanted.limit)]}
        if len(self.asked) == self._fails_at:
            some = tuple(found.values())[:1]
            return EventPage(some, complete=False, reason="went silent", invalid=2, over_delivered=1)
        return EventPage(tuple(found.values()), complete=True)


class MoodyRelay(DumbRelay):
    """Returns as few as it likes, but never nothing: "returning fewer events is acceptable" (NIP-01)."""

    def __init__(self, events, moods) -> None:
        super().__init__(events, cap=max(moods))
        self._moods = moods

    def most(self):
        return self._moods[len(self.asked) % len(self._moods)]


class ExclusiveRelay(DumbRelay):
    """Leaves out the second that `until` names, as some relays do, where `is_exclusive` says so of a request."""

    def __init__(self, events, cap, *, is_exclusive=lambda _: True, fails_at=None) -> None:
        super().__init__(events, cap, fails_at=fails_at)
        self._is_exclusive = is_exclusive

    def matches(self, wanted, event):
        above = wanted.until is not None and event.created_at >= wanted.until and self._is_exclusive(self)
        return wanted.matches(event) and not above


class BusyRelay(DumbRelay):
    """Another device replaces the oldest event of each page as soon as it was shown: it is gone from here."""

    def served(self):
        gone = len(self.asked) - 1
        return self._events[: self._cap - 1] + self._events[self._cap - 1 + min(gone, 3) :]


class LiarRelay(DumbRelay):
    """Never shows an event twice, unless it is asked for by its id."""

    def __init__(self, events, cap) -> None:
        super().__init__(events, cap)
        self._shown = set()

    async def fetch(self, filters):
        page = await super().fetch(filters)
        self._shown |= {event.id for event in page.events}
        return page

    def matches(self, wanted, event):
        return wanted.matches(event) and (wanted.ids is not None or event.id not in self._shown)


class Basket:
    """Where the walk hands events over."""

    def __init__(self) -> None:
        self.events = []

    async def take(self, events):
        assert events, "nothing was handed over"
        self.events += events

    def times(self):
        return Counter(event.created_at for event in self.events)


def walk(relay, wanted=EVERYTHING, known=(), page_size=PAGE_COUNT):
    basket = Basket()
    pulled = run(walk_filter(relay.fetch, basket.take, wanted, lambda: known, page_size=page_size))
    assert pulled.received == len(basket.events)
    assert len({event.id for event in basket.events}) == len(basket.events), "an event was handed over twice"
    assert pulled.newest == max(basket.times(), default=0)
    return pulled, basket


# ── Plain cases ─────────────────────────────────────────────────────────────────────────


def test_an_empty_relay_costs_one_request_and_is_complete():
    relay = DumbRelay([], cap=500)

    pulled, basket = walk(relay)

    assert pulled == PullResult()
    assert pulled.complete
    assert basket.events == []
    assert len(relay.asked) == 1


def test_what_fits_one_page_costs_three_requests():
    """One page, the oldest second once more, and a look below it: the relay's word that nothing is there."""
    relay = DumbRelay(events_at(5, 9, 7), cap=500)

    pulled, basket = walk(relay)

    assert pulled.complete
    assert basket.times() == Counter([5, 7, 9])
    assert [asked[0].until for asked in relay.asked] == [None, 5, 4]


def test_several_memories_of_one_second_are_complete_where_a_page_could_hold_more():
    pulled, basket = walk(DumbRelay(events_at(5, 5, 5), cap=500))

    assert pulled.complete
    assert len(basket.events) == 3


def test_pages_overlap_by_a_second_and_lose_nothing_at_the_edge():
    pulled, basket = walk(DumbRelay(events_at(9, 8, 7, 7, 7, 6, 5), cap=4))

    assert pulled.complete
    assert basket.times() == Counter([9, 8, 7, 7, 7, 6, 5])


def test_every_request_repeats_the_filter_and_its_own_limit():
    wanted = Filter(authors=(ME,), kinds=(30078,), since=2, until=8)
    relay = DumbRelay(events_at(1, 3, 5, 9), cap=500)

    _, basket = walk(relay, wanted, page_size=7)

    assert basket.times() == Counter([3, 5])
    assert {(asked[0].since, asked[0].limit, asked[0].authors) for asked in relay.asked} == {(2, 7, (ME,))}


def test_nothing_is_asked_below_since_or_below_zero():
    for wanted, second in ((Filter(since=5), 5), (Filter(), 0)):
        relay = DumbRelay(events_at(second), cap=500)
        pulled, _ = walk(relay, wanted)

        assert pulled.complete
        assert len(relay.asked) == 2


# ── Crowded seconds ─────────────────────────────────────────────────────────────────────


def test_a_crowded_second_is_named_and_what_is_older_still_comes():
    pulled, basket = walk(DumbRelay(events_at(9, *[5] * 10, 3, 2), cap=4))

    assert pulled.reasons == (CROWDED,)
    assert not pulled.complete
    assert basket.times() == Counter({9: 1, 5: 4, 3: 1, 2: 1})


def test_known_addresses_of_a_crowded_second_are_fetched_by_name():
    events = events_at(9, *[5] * 10, 3)
    relay = DumbRelay(events, cap=4)

    pulled, basket = walk(relay, known=[*tags_of(events), "sense-memory/elsewhere"])

    assert basket.times() == Counter({9: 1, 5: 10, 3: 1})
    assert pulled.reasons == (CROWDED,)  # addresses that we do not know may hide there
    by_name = [asked for asked in relay.asked if asked[0].tags]
    assert {(wanted.since, wanted.until, wanted.limit) for asked in by_name for wanted in asked} == {
        (5, 5, 1)
    }


def test_a_crowded_oldest_second_is_noticed_too():
    """Nothing lies below it, so only its fullness tells; pages before it showed how full they get."""
    pulled, basket = walk(DumbRelay(events_at(9, 8, *[5] * 10), cap=3))

    assert pulled.reasons == (CROWDED,)
    assert basket.times() == Counter({9: 1, 8: 1, 5: 3})


def test_a_crowded_only_second_is_noticed_where_the_page_is_full():
    pulled, basket = walk(DumbRelay(events_at(*[5] * 10), cap=500), page_size=4)

    assert pulled.reasons == (CROWDED,)
    assert len(basket.events) == 4


def test_a_crowded_second_at_the_cursor_is_noticed_without_looking_below_it():
    relay = DumbRelay(events_at(7, *[5] * 10), cap=4)

    pulled, _ = walk(relay, Filter(since=5))

    assert pulled.reasons == (CROWDED,)


def test_two_crowded_seconds_hand_over_each_event_once():
    """Fetching by address must not make the walk forget what it has seen of the second it stands at."""
    events = events_at(*[9] * 6, *[8] * 6, *[7] * 2)

    pulled, basket = walk(DumbRelay(events, cap=3), known=tags_of(events))

    assert pulled.reasons == (CROWDED,)
    assert basket.times() == Counter({9: 6, 8: 6, 7: 2})


def test_many_known_addresses_of_a_crowded_second_are_handed_over_once():
    """Several batches by name, and each names some that the walk had seen before."""
    events = events_at(9, *[5] * 3 * ADDRESS_BATCH_COUNT, 3)

    pulled, basket = walk(DumbRelay(events, cap=4), known=tags_of(events))

    assert pulled.reasons == (CROWDED,)
    assert basket.times() == Counter({9: 1, 5: 3 * ADDRESS_BATCH_COUNT, 3: 1})


def test_a_relay_that_hides_its_cap_and_shows_one_second_only_can_not_be_seen_through():
    """A pinned gap: three events of one second look the same whether there are three or ten.

    Our own writer never puts more than 200 into a second, and relays cap at 500 and more.
    """
    pulled, basket = walk(DumbRelay(events_at(*[5] * 10), cap=3), page_size=500)

    assert pulled.complete
    assert len(basket.events) == 3


# ── Relays whose `until` means something else ───────────────────────────────────────────


def test_r20_nothing_is_skipped_where_until_leaves_its_second_out():
    """Found with a relay from a registry: 1,000 of 1,200 came back, and the pull was called complete."""
    relay = ExclusiveRelay(events_at(9, 8, *[7] * 3, *[6] * 3, *[5] * 3, 4), cap=4)

    pulled, basket = walk(relay)

    assert pulled.complete
    assert basket.times() == Counter({9: 1, 8: 1, 7: 3, 6: 3, 5: 3, 4: 1})
    asked = [asked[0].until for asked in relay.asked]
    assert asked[:3] == [None, 7, 8]  # two requests find it out, once
    assert asked[3:] == [7, 6, 5, 4]


def test_r20_a_crowded_second_is_named_where_until_leaves_its_second_out():
    events = events_at(9, *[5] * 10, 3)
    pulled, basket = walk(ExclusiveRelay(events, cap=4), known=tags_of(events))

    assert pulled.reasons == (CROWDED,)
    assert basket.times() == Counter({9: 1, 5: 10, 3: 1})


@pytest.mark.parametrize("request_number", range(2, 8))
def test_r20_a_walk_that_is_cut_off_goes_on_without_a_gap(request_number):
    events, at = events_at(9, *[7] * 3, *[6] * 3, *[5] * 3, 4), Position()
    basket = Basket()
    cut = ExclusiveRelay(events, cap=4, fails_at=request_number)
    first = run(walk_filter(cut.fetch, basket.take, EVERYTHING, position=at))
    assert not first.complete

    rest = run(walk_filter(ExclusiveRelay(events, cap=4).fetch, basket.take, EVERYTHING, position=at))

    assert rest.complete
    assert {event.id for event in basket.events} == {event.id for event in events}


def test_what_another_device_replaces_meanwhile_does_not_make_a_walk_incomplete():
    """The event at the edge of a page is gone when the next is asked for: so its id finds nothing either."""
    relay = BusyRelay(events_at(*range(20, 0, -1)), cap=4)

    pulled, basket = walk(relay)

    assert pulled.complete
    assert {event.created_at for event in relay.served()} <= basket.times().keys()


def test_r20_a_relay_that_does_not_show_again_what_it_has_is_never_complete():
    pulled, _ = walk(LiarRelay(events_at(*range(20, 0, -1)), cap=4))

    assert GAP in pulled.reasons


def test_r20_a_relay_that_changes_its_mind_is_never_complete():
    relay = ExclusiveRelay(events_at(*range(20, 0, -1)), cap=4, is_exclusive=lambda it: len(it.asked) > 3)

    pulled, _ = walk(relay)

    assert GAP in pulled.reasons


# ── Incomplete pages ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("request_number", [1, 2, 3, 4])
def test_an_incomplete_page_ends_the_walk_and_keeps_what_came(request_number):
    relay = DumbRelay(events_at(9, 8, 7, 6, 5), cap=2, fails_at=request_number)

    pulled, basket = walk(relay)

    assert pulled.reasons == ("went silent",)
    assert (pulled.invalid, pulled.over_delivered) == (2, 1)
    assert len(relay.asked) == request_number
    expected = [9] if request_number == 1 else [9, 8, 7, 6, 5][:request_number]
    assert sorted(basket.times(), reverse=True) == expected


def test_an_incomplete_look_below_a_full_second_does_not_call_it_crowded():
    relay = DumbRelay(events_at(5, 5, 5, 3), cap=3, fails_at=3)

    pulled, basket = walk(relay)

    assert pulled.reasons == ("went silent",)
    assert basket.times() == Counter({5: 3, 3: 1})


def test_an_incomplete_answer_by_address_is_a_reason_and_the_walk_goes_on():
    events = events_at(*[5] * 6, 3)

    pulled, basket = walk(DumbRelay(events, cap=3, fails_at=4), known=tags_of(events))

    assert pulled.reasons == (CROWDED, "went silent")
    assert basket.times()[3] == 1


# ── By address ──────────────────────────────────────────────────────────────────────────


def test_addresses_are_asked_for_once_each_in_batches_of_single_filters():
    events = events_at(*range(45))
    relay, basket = DumbRelay(events, cap=500), Basket()

    pulled = run(by_address(relay.fetch, basket.take, EVERYTHING, tags_of(events) * 2))

    assert pulled.complete
    assert pulled.received == len(basket.events) == 45
    assert [len(asked) for asked in relay.asked] == [ADDRESS_BATCH_COUNT, ADDRESS_BATCH_COUNT, 5]
    assert all(len(wanted.tags["d"]) == 1 and wanted.limit == 1 for asked in relay.asked for wanted in asked)


def test_no_addresses_are_no_requests():
    relay = DumbRelay(events_at(1), cap=500)

    assert run(by_address(relay.fetch, Basket().take, EVERYTHING, [])) == PullResult()
    assert relay.asked == []


def test_an_address_that_could_not_be_asked_for_is_a_reason():
    events = events_at(*range(45))
    relay, basket = DumbRelay(events, cap=500, fails_at=2), Basket()

    pulled = run(by_address(relay.fetch, basket.take, EVERYTHING, tags_of(events)))

    assert pulled.reasons == ("went silent",)
    assert len(basket.events) == 20 + 1 + 5


def test_outcomes_add_up_and_name_each_reason_once():
    one, two = PullResult(("a", "b"), 2, 9, 1, 0), PullResult(("b", "c"), 3, 7, 0, 4)

    assert one + two == PullResult(("a", "b", "c"), 5, 9, 1, 4)
    assert (one + PullResult()) == one


# ── Any relay ───────────────────────────────────────────────────────────────────────────

seconds = st.lists(st.integers(0, 12), max_size=30)


@given(times=seconds, cap=st.integers(1, 12), page_size=st.integers(1, 12), data=st.data())
def test_r20_a_walk_is_complete_exactly_when_nothing_is_hidden_whatever_until_means(
    times, cap, page_size, data
):
    """A relay that takes it now for this and now for that is at least walked to an end, each event once."""
    moods = data.draw(st.sampled_from([(True,), (False,)]) | st.lists(st.booleans(), min_size=1, max_size=4))
    events, page = events_at(*times), min(cap, page_size)
    per_second = Counter(event.created_at for event in events)
    assume(not (cap < page_size and len(per_second) == 1 and len(events) > cap))  # the pinned gap
    relay = ExclusiveRelay(events, cap, is_exclusive=lambda it: moods[len(it.asked) % len(moods)])

    pulled, basket = walk(relay, page_size=page_size)

    if len(set(moods)) == 1:
        if pulled.complete:
            assert len(basket.events) == len(events)
        if all(count < page for count in per_second.values()):
            assert pulled.complete


@given(
    times=seconds,
    cap=st.integers(1, 12),
    page_size=st.integers(1, 12),
    window=st.tuples(st.none() | st.integers(0, 12), st.none() | st.integers(0, 12)),
    knows=st.integers(0, 30),
)
@example(times=[5] * 10 + [9], cap=3, page_size=500, window=(None, None), knows=0)
def test_a_walk_is_complete_exactly_when_nothing_is_hidden(times, cap, page_size, window, knows):
    since, until = window
    assume(since is None or until is None or since <= until)
    wanted = Filter(authors=(ME,), kinds=(30078,), since=since, until=until)
    events = events_at(*times)
    there = [event for event in events if wanted.matches(event)]
    per_second = Counter(event.created_at for event in there)
    page = min(cap, page_size)
    # What no client can tell: see the pinned gap above.
    assume(not (cap < page_size and len(per_second) == 1 and len(there) > cap))

    pulled, basket = walk(DumbRelay(events, cap), wanted, tags_of(events[:knows]), page_size)

    got = {event.id for event in basket.events}
    assert got <= {event.id for event in there}
    if pulled.complete:
        assert got == {event.id for event in there}
    if all(count < page for count in per_second.values()):
        assert pulled.complete
    for second, count in per_second.items():
        assert basket.times()[second] >= min(count, page)
        if count < page:
            assert basket.times()[second] == count
    if not pulled.complete:
        assert pulled.reasons == (CROWDED,)
        crowded = {second for second, count in per_second.items() if count > page}
        known = {event.id for event in events[:knows] if event.created_at in crowded and event in there}
        assert known <= got


@given(times=seconds, moods=st.lists(st.integers(1, 6), min_size=1, max_size=9))
def test_a_relay_that_returns_as_few_as_it_likes_is_walked_to_its_oldest_second(times, moods):
    events = events_at(*times)

    _, basket = walk(MoodyRelay(events, moods))

    assert set(basket.times()) == set(times)
