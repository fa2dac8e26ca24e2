"""V-06, V-07: what relays withhold from a new device, told exactly; and what raises no alarm."""

from __future__ import annotations

import re
from itertools import combinations_with_replacement

import pytest

from relays.faults import Record, Refuse, Withhold
from sense_memory.errors import NotSynced
from sense_memory.mind.records import MindRecords
from sense_memory.mind.relay_list import RelayList
from tests.inside import ledger_of, parts_of


DAY = 86_400
KINDS = ("honest", "lost half", "day back", "hides a range")


def keys(count):
    return [f"k{number:02}" for number in range(count)]


async def grown(stage, *relays, count=12):
    """A device that has written `count` memories and its manifest, and has gone."""
    async with stage.store(*relays, ledger="writer.db") as store:
        for key in keys(count):
            await store.remember(key, f"{stage.plaintext} {key}")
        await store.sync()
        assert await store.relays.write_manifest()


# ── Three relays in every state ─────────────────────────────────────────────────────────


class World:
    """What each relay was given, hour by hour, and what a relay in each state has of it: the oracle."""

    def __init__(self, stage) -> None:
        self.stage = stage
        self.yesterday, self.today = [], []

    async def write(self, relay):
        """Twelve memories; a day later five are edited, one is forgotten, two are new; then the manifest."""
        stage = self.stage
        async with stage.store(relay, ledger="writer.db") as store:
            for key in keys(12):
                await store.remember(key, f"{stage.plaintext} {key}")
            await store.sync()
            assert await store.relays.write_manifest()
            self.yesterday = await stage.stored(relay.url)
            stage.clock.advance(DAY + 60)
            for key in keys(5):
                await store.remember(key, f"{stage.plaintext} {key} edited")
            await store.forget("k11")
            for key in ("new1", "new2"):
                await store.remember(key, f"{stage.plaintext} {key}")
            await store.sync()
            await store.relays.write_manifest()
            self.today = await stage.stored(relay.url)

    def shown(self, kind):
        """What a relay of a kind shows."""
        if kind == "honest":
            return self.today
        if kind == "day back":
            return self.yesterday
        chosen = {f"sense-memory/k{n:02}" for n in range(0, 12, 2)} if kind == "lost half" else None
        hidden = chosen or {f"sense-memory/k{n:02}" for n in range(3, 9)}
        return [event for event in self.today if _tag(event) not in hidden]


def _tag(event):
    return next((tag[1] for tag in event["tags"] if tag[0] == "d"), "")


def _truth(world, kinds):
    """Of the fourteen memories and one deletion of today, what a device must be told that sees these relays."""
    lists = [event["created_at"] for kind in kinds for event in world.shown(kind) if _is_manifest(event)]
    known = world.today if max(lists) > min(_times(world.yesterday)) + DAY else world.yesterday
    best = {}
    gone = False
    for kind in kinds:
        for event in world.shown(kind):
            gone |= event["kind"] == 5
            tag = _tag(event)
            if tag and not _is_manifest(event):
                best[tag] = max(best.get(tag, 0), event["created_at"])
    wanted = {_tag(event): event["created_at"] for event in known if _tag(event) and not _is_manifest(event)}
    missing = sum(tag not in best for tag in wanted)
    outdated = sum(best.get(tag, 0) < at for tag, at in wanted.items()) - missing
    hides = known is world.today and not gone and "sense-memory/k11" in best
    return len(wanted), missing, outdated, int(hides)


def _times(events):
    return [_time(event) for event in events]


def _is_manifest(event):
    return _tag(event).startswith("sense-memory/device/")


async def test_v06_what_three_relays_withhold_is_told_exactly_in_every_combination(stage):
    """Each three of the four states, in an order that differs from one to the next."""
    world = World(stage)
    async with stage.relay() as home:
        await world.write(home)
    for number, chosen in enumerate(combinations_with_replacement(KINDS, 3)):
        kinds = (*chosen[number % 3 :], *chosen[: number % 3])
        async with stage.relay() as a, stage.relay() as b, stage.relay() as c:
            for relay, kind in zip((a, b, c), kinds, strict=True):
                await stage.put(relay.url, *reversed(world.shown(kind)))
            async with stage.store(a, b, c) as fresh:
                report = await fresh.sync()
                found = report.manifests
                told = found.expected, found.missing, found.outdated, found.undeleted
                assert told == _truth(world, kinds), kinds
                assert report.in_step == report.complete == (not any(told[1:])), kinds
                assert {relay.complete for relay in report.relays} == {True}
                assert fresh.status().manifests == found
                assert report.trust.agreeing == _agreeing([world.shown(kind) for kind in kinds]), kinds


def _agreeing(worlds):
    """How many of some relays show the newest of everything that any of them shows and none deletes."""
    newest = {}
    for event in sorted((event for shown in worlds for event in shown if _tag(event)), key=_time):
        newest[_tag(event)] = event["id"]
    for event in (event for shown in worlds for event in shown if event["kind"] == 5):
        for name, value in event["tags"]:
            newest.pop(value.partition(":")[2].partition(":")[2], None) if name == "a" else None
    return sum(set(newest.values()) <= {event["id"] for event in shown} for shown in worlds)


def _time(event):
    return event["created_at"]


# ── What is told, and what is not ───────────────────────────────────────────────────────


def is_list(event):
    return _is_manifest(event)


async def test_v06_manifest_reveals_withholding(stage):
    """Three of twelve are hidden: said at once, kept for `status`, no longer said when they are shown."""
    hidden = {f"sense-memory/{key}" for key in ("k03", "k07", "k11")}
    lie = Withhold(lambda event: _tag(event) in hidden)
    async with stage.liar(lie) as liar:
        await grown(stage, liar.upstream)
        async with stage.store(liar, ledger="restored.db") as fresh:
            report = await fresh.sync()
            assert (report.manifests.expected, report.manifests.here, report.manifests.missing) == (12, 9, 3)
            assert not report.in_step
            assert not report.complete
            assert report.relays[0].complete  # the relay itself says that this is all
        async with stage.store(liar, ledger="restored.db") as fresh:
            assert fresh.status().manifests.missing == 3
            lie.on = False
            report = await fresh.sync(full=True)
            assert (report.manifests.expected, report.manifests.missing, report.in_step) == (12, 0, True)
            assert fresh.status().manifests.missing == 0


async def test_v07_first_sync_is_marked_tofu(stage):
    """How many relays agree, of those that answered; only at the first sync."""
    lie = Withhold(lambda event: _tag(event) == "sense-memory/k03")
    async with stage.liar(lie) as liar, stage.relay() as one, stage.relay() as other:
        await grown(stage, liar.upstream, one, other)
        async with stage.store(liar, one, other) as fresh:
            report = await fresh.sync()
            assert (report.trust.relays, report.trust.complete, report.trust.agreeing) == (3, 3, 2)
            assert report.manifests.lacking == {liar.url: 1, one.url: 0, other.url: 0}
            assert (report.manifests.expected, report.manifests.missing) == (12, 0)
            assert (await fresh.sync()).trust is None
    async with stage.store("ws://127.0.0.1:9", ledger=":memory:") as alone:
        report = await alone.sync()
        assert (report.trust.relays, report.trust.complete, report.trust.agreeing) == (1, 0, 0)


async def test_a_relay_is_not_said_to_lack_what_this_device_alone_has_newer(stage):
    async with stage.relay() as a, stage.relay() as b:
        await grown(stage, a, b)
        async with stage.store(a, b, ledger="second.db") as second:
            stage.clock.advance(60)
            await second.remember("k03", "edited here before the first sync")
            report = await second.sync()
            assert report.manifests.lacking == {a.url: 0, b.url: 0}
            assert report.in_step


async def test_relays_that_all_hide_both_are_not_found_out(stage):
    """The limit, as the documentation says it: without a manifest nothing is missed."""
    lie = Withhold(lambda event: _tag(event) == "sense-memory/k03" or is_list(event))
    async with stage.liar(lie) as liar:
        await grown(stage, liar.upstream)
        async with stage.store(liar) as fresh:
            report = await fresh.sync()
            assert (report.manifests.expected, report.manifests.devices, report.complete) == (0, (), True)


async def test_a_hidden_page_of_a_list_is_told_as_what_cannot_be_looked_for(stage):
    lie = Withhold(lambda event: is_list(event) and _tag(event).count("/") == 3)
    async with stage.liar(lie) as liar:
        await grown(stage, liar.upstream)
        async with stage.store(liar) as fresh:
            report = await fresh.sync()
            assert (report.manifests.unlisted, report.manifests.expected, report.complete) == (12, 0, False)


async def test_a_hidden_deletion_is_told(stage):
    """A relay shows what another device had deleted, and hides the deletion."""
    async with stage.relay() as honest, stage.relay() as liar:
        async with stage.store(honest, ledger="writer.db") as store:
            for key in keys(3):
                await store.remember(key, f"{stage.plaintext} {key}")
            await store.sync()
            old = await stage.stored(honest.url)
            await store.forget("k01")
            await store.sync()
            assert await store.relays.write_manifest()
        manifest = [event for event in await stage.stored(honest.url) if is_list(event)]
        await stage.put(liar.url, *old, *manifest)
        async with stage.store(liar) as fresh:
            found = (await fresh.sync()).manifests
            assert (found.expected, found.missing, found.undeleted) == (2, 0, 1)


async def test_deletions_late_arrivals_edits_and_a_device_that_was_away_raise_no_alarm(stage):
    async with stage.relay() as relay:
        async with stage.store(relay, ledger="away.db") as away:
            await away.remember("of the one that was away", stage.plaintext)
            entry = await away.journal(f"{stage.plaintext} an entry")
            await away.sync()
            assert await away.relays.write_manifest()
            await away.remember("late", f"{stage.plaintext} written offline")
        stage.clock.advance(40 * DAY)
        async with stage.store(relay, ledger="writer.db") as store:
            await store.sync()
            for key in keys(4):
                await store.remember(key, f"{stage.plaintext} {key}")
            await store.persona_remember("people", "facts", "lisa", f"{stage.plaintext} artist")
            await store.sync()
            assert await store.relays.write_manifest()
            await store.remember("k00", f"{stage.plaintext} edited since")
            await store.persona_remember("people", "facts", "lisa", f"{stage.plaintext} edited since")
            await store.forget("k01")
            await store.forget("of the one that was away")
            await store.journal.forget(entry)
            await store.remember("since", stage.plaintext)
            await store.sync()
        async with stage.store(relay) as fresh:
            report = await fresh.sync()
            assert (report.in_step, report.manifests.is_alarming) == (True, False)
            assert report.manifests.expected == report.manifests.here == 4  # k00, k02, k03, lisa
        async with stage.store(relay, ledger="away.db") as away:
            report = await away.sync()
            assert (report.in_step, report.manifests.is_alarming) == (True, False)
            assert (await away.recall("late")).value.endswith("offline")
        async with stage.store(relay) as fresh:
            assert not (await fresh.sync()).manifests.is_alarming


async def test_what_no_relay_took_is_in_no_list(stage):
    """A memory that every relay refuses cannot be withheld."""
    refuse = Refuse("blocked: too large for us", lambda event: _tag(event).endswith("large"))
    async with stage.liar(refuse) as liar:
        async with stage.store(liar, ledger="writer.db") as store:
            await store.remember("small", stage.plaintext)
            await store.remember("large", stage.plaintext)
            await store.sync()
            assert await store.relays.write_manifest()
        async with stage.store(liar) as fresh:
            found = (await fresh.sync()).manifests
            assert ([device.heads for device in found.devices], found.expected) == ([1], 1)
            assert found.missing == 0


# ── Attacks on manifests ────────────────────────────────────────────────────────────────


def said(seq, *, device="0a1b2c3d", at=0.0, **more):
    """The inside of a manifest that counts one memory and has no list."""
    fields = {"type": "sense-memory:device", "device": device, "seq": seq, "heads": 1, "digest": "d" * 64}
    return {**fields, "ts": at, **more}


async def told(stage, *insides, signer=None, at=0, tag="sense-memory/device/0a1b2c3d"):
    """What one device is told that syncs after each of some manifests was put to its relay, each a second later."""
    found = []
    async with stage.relay() as relay, stage.store(relay) as store:
        for number, inside in enumerate(insides):
            event = await stage.event("", at=at + number, inside=inside, signer=signer, tags=(("d", tag),))
            await stage.put(relay.url, event)
            report = await store.sync()
            found.append(report.manifests)
    return found


async def test_a_sequence_below_one_that_was_seen_is_an_alarm_of_its_own(stage):
    nine, back, again, on = await told(stage, said(9), said(3), said(3), said(10))
    assert (nine.is_alarming, nine.holds) == (False, True)
    for found in (back, again):
        (device,) = found.devices
        assert (device.seq, device.seen_seq, device.is_set_back, found.is_alarming) == (3, 9, True, True)
        assert found.holds  # nothing is missing; that the device was set back is another thing
    assert not on.is_alarming


async def test_two_manifests_with_one_number_are_an_alarm_and_one_signed_again_is_none(stage):
    first, signed_again, doubled = await told(stage, said(5), said(5), said(5, at=1.0))
    assert [found.is_alarming for found in (first, signed_again, doubled)] == [False, False, True]
    assert doubled.devices[0].is_doubled


async def test_a_manifest_of_a_stranger_counts_for_nothing(stage):
    (found,) = await told(stage, said(5, heads=800), signer=stage.stranger)
    assert found.devices == ()


async def test_a_manifest_from_a_clock_ahead_waits_and_stops_no_later_one(stage):
    """It is quarantined, as any event that is dated ahead."""
    (ahead,) = await told(stage, said(5, pages=[[800, "0" * 16]]), at=600)
    assert (ahead.devices, ahead.is_alarming) == ((), False)


@pytest.mark.parametrize(
    "inside",
    [
        said("nine"),
        said(True),
        said(-1),
        said(2**60),
        said(1, heads=None),
        said(1, digest=7),
        said(1, pages=7),
        said(1, pages=[7, ["x"], [1, 2]]),
        said(1, pages=[[-5, "0" * 16]], ts="never"),
        said(1, ts=1e308),
        said(1, unknown={"of": ["a newer version"]}),
    ],
)
async def test_what_another_program_may_have_put_into_a_manifest_breaks_nothing(stage, inside):
    (found,) = await told(stage, inside)
    assert (found.expected, found.missing) == (0, 0)


async def test_a_page_that_is_no_list_is_a_page_that_is_not_there(stage):
    page = {"type": "sense-memory:device", "device": "0a1b2c3d", "page": 0, "seq": 1, "lines": "no base64"}
    async with stage.relay() as relay, stage.store(relay) as store:
        for tag, inside in (
            ("sense-memory/device/0a1b2c3d/0", page),
            ("sense-memory/device/0a1b2c3d", said(1, pages=[[1, "0" * 16]])),
        ):
            await stage.put(relay.url, await stage.event("", inside=inside, tags=(("d", tag),)))
        found = (await store.sync()).manifests
        assert (found.unlisted, found.holds) == (1, False)


async def test_a_relay_that_no_longer_shows_a_manifest_that_it_had_is_named(stage):
    async with stage.relay() as backup, stage.liar() as liar:
        await grown(stage, liar.upstream, count=3)
        await stage.put(
            backup.url, *[event for event in await stage.stored(liar.upstream) if not is_list(event)]
        )
        async with stage.store(liar, ledger="k.db") as store:
            assert (await store.sync()).manifests.relapsed == ()
        liar.upstream = backup.url
        stage.clock.advance(3_700)
        async with stage.store(liar, ledger="k.db") as store:
            found = (await store.sync(full=True)).manifests
            assert (found.relapsed, found.is_alarming, found.missing) == ((liar.url,), True, 0)
            stage.clock.advance(3_700)
            assert (await store.sync(full=True)).manifests.relapsed == ()


async def test_an_old_manifest_that_is_served_again_changes_nothing(stage):
    """A relay that replays it is behind, and the newest stays what counts."""
    async with stage.relay() as relay, stage.relay() as replaying:
        await grown(stage, relay, count=3)
        old = [event for event in await stage.stored(relay.url) if is_list(event)]
        stage.clock.advance(DAY + 60)
        async with stage.store(relay, ledger="writer.db") as store:
            await store.remember("more", stage.plaintext)
            await store.sync()
            assert await store.relays.write_manifest()
        await stage.put(replaying.url, *old)
        async with stage.store(relay, replaying) as fresh:
            found = (await fresh.sync()).manifests
            assert ([device.seq for device in found.devices], found.expected) == ([2], 4)
            assert not found.is_alarming


async def test_two_copies_of_a_ledger_write_under_two_ids_and_raise_no_alarm(stage):
    async with stage.relay() as relay:
        await grown(stage, relay, count=3)
        for name in ("copy.db", "writer.db", "copy.db", "writer.db"):
            path = stage.folder / name
            if not path.exists():
                path.write_bytes((stage.folder / "writer.db").read_bytes())
            stage.clock.advance(DAY + 60)
            async with stage.store(relay, ledger=name) as store:
                await store.sync()
                await store.remember(f"{name} {stage.clock():.0f}", stage.plaintext)
                await store.sync()
                assert await store.relays.write_manifest()
        async with stage.store(relay) as fresh:
            found = (await fresh.sync()).manifests
            assert (len(found.devices), found.is_alarming) == (2, False)
            assert found.expected == found.here == 7


async def test_a_manifest_is_written_once_a_day_and_only_if_something_changed(stage):
    record = Record()
    async with stage.liar(record) as liar, stage.store(liar) as store:
        written = []
        for hours in (0, 1, 24, 25, 48, 49):
            stage.clock.now = 1_800_000_000.0 + hours * 3_600 + 60
            if hours in {0, 25}:
                await store.remember_many((f"k{n} {hours}", stage.plaintext) for n in range(10))
            await store.sync()
            written.append(
                sum(
                    _is_manifest(frame[1])
                    for who, frame in record.frames
                    if frame[0] == "EVENT" and who == "client"
                )
            )
        assert written == [0, 0, 2, 2, 4, 4]  # two events: the first a day later, then what came at 25 h


async def test_nothing_is_written_while_a_relay_did_not_show_everything(stage):
    async with stage.relay() as relay, stage.store(relay, "ws://127.0.0.1:9", ledger="k.db") as store:
        await store.remember("k", stage.plaintext)
        with pytest.raises(NotSynced):
            await store.relays.write_manifest()
        assert not [event for event in await stage.stored(relay.url) if is_list(event)]


async def test_losses_that_are_accepted_are_expected_no_longer(stage):
    lie = Withhold(lambda event: _tag(event) == "sense-memory/k03")
    async with stage.liar(lie) as liar:
        await grown(stage, liar.upstream)
        async with stage.store(liar) as fresh:
            assert (await fresh.sync()).manifests.missing == 1
            assert await fresh.relays.accept_losses() == 1
            report = await fresh.sync()
            assert (report.manifests.missing, report.in_step) == (0, True)
        lie.on = False
        stage.clock.advance(DAY + 60)
        async with stage.store(liar, ledger="writer.db") as store:  # the device lives, and says it again
            await store.sync()
            await store.remember("more", stage.plaintext)
            await store.sync()
            assert await store.relays.write_manifest()
        async with stage.store(liar) as fresh:
            assert (await fresh.sync()).manifests.expected == 13


# ── Private addresses ───────────────────────────────────────────────────────────────────


async def test_v06_what_is_withheld_at_private_addresses_is_told_exactly(stage):
    """600 memories, of which one relay hides 37; it sees neither names nor which events are manifests."""
    texts = {f"k{number:03}": f"{stage.plaintext} {number}" for number in range(600)}
    hidden: set[str] = set()
    lie = Withhold(lambda event: _tag(event) in hidden)
    options = {"addresses": "private", "pad_sizes": False}
    async with stage.liar(lie) as liar:
        async with stage.store(liar.upstream, ledger="writer.db", **options) as store:
            await store.remember_many(texts)
            await store.sync()
            assert (
                await store.relays.write_manifest() is False
            )  # a device of so many has written it by itself
            for full in (False, True):
                (audit,) = await store.relays.audit(full=full)
                assert (audit.held, audit.missing, audit.stale, audit.undeleted, audit.extra) == (
                    *(audit.should, 0, 0, 0, 0),
                )
            places = ledger_of(store).places
            hidden |= {place.tag for n in range(100, 137) for place in places.of(f"sense-memory/k{n}")}
        assert len(hidden) == 37
        stored = await stage.stored(liar.upstream)
        assert all(re.fullmatch("sense-memory/[0-9a-f]{64}", _tag(event)) for event in stored)
        async with stage.store(liar, ledger="restored.db") as fresh:
            found = (await fresh.sync()).manifests
            assert (found.expected, found.missing, found.outdated, found.undeleted) == (601, 37, 0, 0)
            lie.on = False
            found = (await fresh.sync(full=True)).manifests
            assert (found.expected, found.here, found.is_alarming) == (601, 601, False)


@pytest.mark.parametrize("modes", [("readable", "private"), ("private", "readable")])
async def test_a_switch_of_addresses_raises_no_alarm_on_any_device_and_keeps_the_rules(
    stage, monkeypatch, modes
):
    """A manifest from before, in the middle and after; a device that was away, one that stays in its mode, a new one."""
    monkeypatch.setattr("sense_memory.mind.relay_list.is_local", lambda _: False)
    before, after = modes

    async def quiet(store):
        report = await store.sync()
        assert report.in_step, report
        assert not report.manifests.is_alarming
        assert report.manifests.missing == report.manifests.outdated == report.manifests.undeleted == 0
        return report.manifests

    async with (
        stage.relay() as relay,
        stage.store(relay, ledger="a.db", addresses=before) as store,
        stage.store(relay, ledger="b.db", addresses=before) as other,
    ):
        await store.remember_many({key: f"{stage.plaintext} {key}" for key in keys(12)})
        await store.remember("web", stage.plaintext, source="tool:browser")
        await store.mind.trust.apply(await store.mind.trust.plan("quarantine", source="tool:browser"))
        await store.forget("k03")
        await store.sync()
        await store.relays.write_manifest()
        await quiet(other)
        for mode in (after, before):
            stage.clock.advance(DAY + 60)
            left = await store.relays.switch_addresses(mode)
            assert (left.to_write, left.to_remove) == (0, 0)
            async with stage.store(relay, addresses=mode) as fresh:  # the manifest is from before the switch
                await quiet(fresh)
            await quiet(other)
            await store.relays.write_manifest()
            await other.remember("k01", f"{stage.plaintext} {mode}")  # in its own mode
            await quiet(other)
            await quiet(store)
            async with stage.store(relay, addresses=mode) as fresh:
                assert (await quiet(fresh)).expected >= 12
                assert list(await fresh.mind.trust.kept_back()) == ["web"]
                assert await RelayList(MindRecords(parts_of(fresh))).known() == [relay.url]
