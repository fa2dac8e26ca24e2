"""What several devices decide about the members of a scene becomes one decision."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner
from sense_memory.mind.scenes.membership import (
    MAX_INVITATION_BYTES,
    MAX_RECORD_BYTES,
    MAX_RELAYS,
    SceneKey,
    SceneState,
    ended,
    fields_of,
    fits,
    settled,
    state_of,
    united,
)


OWNER = LocalSigner.from_hex("7" * 64).public_key
FIRST = SceneState(
    "0" * 16, "village", OWNER, (SceneKey("1" * 64, {OWNER: "owner"}),), ("wss://relay.example",)
)
PEOPLE = [f"{number:064x}" for number in range(1, 5)]


class Device:
    """A device of the owner: it knows a state, and changes it."""

    def __init__(self, number):
        self.state, self.number, self.drawn = FIRST, number, 0

    def secret(self):
        self.drawn += 1
        return f"{self.number + 2}{self.drawn:063x}"

    def do(self, what, person):
        if what == "invite":
            self.state = self.state.with_member(person, f"name {person[-1]}")
        elif person in self.state.members:
            rest = {key: name for key, name in self.state.members.items() if key != person}
            self.state = self.state.with_key(self.secret(), rest)

    def hear(self, other):
        state, members = settled(united(self.state, other), decides=True)
        self.state = state if members is None else state.with_key(self.secret(), members)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["invite", "invite", "remove", "hear"]),
        st.sampled_from(PEOPLE),
        st.integers(0, 2),
    ),
    max_size=10,
)


@settings(max_examples=20)
@given(STEPS)
def test_devices_that_have_heard_of_each_other_agree_and_no_removed_member_has_their_key(steps):
    devices = [Device(number) for number in range(3)]
    for place, what, person, other in steps:
        if what == "hear":
            devices[place].hear(devices[other].state)
        else:
            devices[place].do(what, person)
    for _ in range(4):
        for device in devices:
            for other in devices:
                device.hear(other.state)
    one, *others = (device.state for device in devices)
    for other in others:
        assert other.keys[-1] == one.keys[-1]
        assert {key.id for key in other.keys} == {key.id for key in one.keys}
    assert OWNER in one.members
    assert all(state_of(fields_of(state)) == state for state in (one, *others))


def test_who_was_removed_by_a_device_that_did_not_know_of_the_other_key_is_out():
    one, two = Device(0), Device(1)
    for person in PEOPLE[:3]:
        one.do("invite", person)
    two.hear(one.state)
    one.do("remove", PEOPLE[0])
    two.do("remove", PEOPLE[1])
    two.do("invite", PEOPLE[3])
    two.hear(one.state)
    assert set(two.state.members) == {OWNER, PEOPLE[2], PEOPLE[3]}
    assert len(two.state.keys) == 4
    one.hear(two.state)
    assert one.state.keys[-1] == two.state.keys[-1]


def test_two_devices_that_remove_the_same_member_take_one_of_the_two_keys():
    one, two = Device(0), Device(1)
    for person in PEOPLE[:2]:
        one.do("invite", person)
    two.hear(one.state)
    for device in (one, two):
        device.do("remove", PEOPLE[0])
    one.hear(two.state)
    two.hear(one.state)
    assert one.state == two.state
    assert len(one.state.keys) == 3
    assert set(one.state.members) == {OWNER, PEOPLE[1]}


def test_a_state_of_an_earlier_program_is_a_line_of_keys():
    keys = [
        {"secret": "1" * 64, "members": {OWNER: "a", PEOPLE[0]: "b"}},
        {"secret": "2" * 64, "members": {OWNER: "a"}},
    ]
    state = state_of({"id": "0" * 16, "name": "n", "owner": OWNER, "keys": keys, "relays": []})
    assert (state.keys[1].removed, state.keys[1].after) == ({PEOPLE[0]}, {state.keys[0].id})
    assert [set(row) >= {"secret", "members"} for row in fields_of(state)["keys"]] == [True, True]


@pytest.mark.parametrize(("count", "least_record", "least_invitation"), [(5, 120, 60), (100, 40, 15)])
def test_how_many_keys_fit_into_a_record_and_an_invitation(count, least_record, least_invitation):
    members = {OWNER: "owner"} | {f"{number:064x}": f"member {number}" for number in range(1, count)}
    state = SceneState(FIRST.id, FIRST.name, OWNER, (SceneKey("1" * 64, members),), FIRST.relays)
    for number in range(least_record):
        state = state.with_key(f"{number + 2:064x}", members)
    assert fits(state)
    assert len(orjson.dumps(fields_of(state))) <= MAX_RECORD_BYTES
    invitation = fields_of(state, MAX_INVITATION_BYTES)
    assert len(orjson.dumps(invitation)) <= MAX_INVITATION_BYTES
    assert len(invitation["keys"]) >= least_invitation
    assert state_of(invitation).keys[-1] == state.keys[-1]


# ── What counts of a removed member ─────────────────────────────────────────────────────

ADA, BO = PEOPLE[:2]


def chain(*, counts=True):
    """Keys 0, 1 and 2 of a scene: bo is removed with the second key, ada with the third."""
    keys = [SceneKey("1" * 64, {OWNER: "owner", ADA: "ada", BO: "bo"})]
    for number, (members, gone) in enumerate((({OWNER: "owner", ADA: "ada"}, BO), ({OWNER: "owner"}, ADA))):
        after = frozenset({keys[-1].id})
        secret = str(number + 2) * 64
        keys.append(SceneKey(secret, members, frozenset({gone}), after, number + 1, counts=counts))
    return SceneState("0" * 16, "village", OWNER, tuple(keys), ())


def test_of_a_removed_member_only_what_is_named_counts_under_every_earlier_key():
    state = chain()
    first, second, third = (key.id for key in state.keys)
    named = {second: {BO: frozenset("x")}, third: {ADA: frozenset("y"), OWNER: frozenset("z")}}
    assert ended(state, named) == {
        first: {BO: frozenset("x"), ADA: frozenset("y")},
        second: {ADA: frozenset("y")},
        third: {},
    }


def test_nothing_of_a_removed_member_counts_before_what_counts_has_arrived():
    state = chain()
    assert ended(state, {})[state.keys[0].id] == {BO: frozenset(), ADA: frozenset()}


def test_everything_counts_that_an_earlier_version_removed_until_somebody_names_it():
    state = chain(counts=False)
    first, second, _ = (key.id for key in state.keys)
    assert ended(state, {})[first] == {}
    assert ended(state, {second: {BO: frozenset()}})[first] == {BO: frozenset()}


def test_that_the_owner_names_what_counts_is_kept_in_fields_and_in_every_union():
    state = chain()
    assert [key.counts for key in state_of(fields_of(state)).keys] == [False, True, True]
    older = chain(counts=False)
    for one, other in ((state, older), (older, state)):
        assert [key.counts for key in united(one, other).keys] == [False, True, True]


def test_keys_that_follow_each_other_in_a_circle_stop_nothing():
    one, other = SceneKey("1" * 64, {OWNER: "owner"}), SceneKey("2" * 64, {OWNER: "owner"})
    circle = (replace(one, after=frozenset({other.id})), replace(other, after=frozenset({one.id})))
    state = replace(FIRST, keys=circle)
    for decides in (True, False):
        made, members = settled(united(state, FIRST), decides=decides)
        assert members is None or made.with_key("3" * 64, members).members == members
        assert made.members


def test_only_urls_of_relays_are_relays_of_a_scene():
    fields = fields_of(FIRST)
    odd = [
        "wss://relay.example/",
        "wss://relay.example",
        "x/\n",
        "http://a.example",
        "",
        None,
        1,
        [],
        {},
        "ws://b.example",
    ]
    assert state_of({**fields, "relays": odd}).relays == ("wss://relay.example", "ws://b.example")
    for value in (None, True, 1, "wss://relay.example", {}, {"wss://relay.example": 1}):
        assert state_of({**fields, "relays": value}).relays == ()
    many = [f"wss://relay-{number}.example" for number in range(1_000)]
    assert len(state_of({**fields, "relays": many}).relays) == MAX_RELAYS
