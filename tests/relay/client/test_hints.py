"""What a relay's information document means for comparisons (NIP-77)."""

from __future__ import annotations

import pytest

from sense_memory.nostr import wire
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import FRAME_BYTES, MIN_FRAME_BYTES
from sense_memory.relay.client.nip11 import RelayInformation, frame_bytes, ids_count, may_compare


@pytest.mark.parametrize(
    ("information", "expected"),
    [
        (None, True),
        (RelayInformation(), False),
        (RelayInformation(supported_nips=(1, 9, 11)), False),
        (RelayInformation(supported_nips=(1, 9, 11, 77)), True),
    ],
)
def test_a_relay_is_asked_to_compare_if_it_says_it_can_or_says_nothing_at_all(information, expected):
    assert may_compare(information) is expected


@pytest.mark.parametrize("told", [None, 1, 2_000, 8_192, 16_384, 65_535, 131_072, 10_000_000])
def test_frames_fit_what_the_relay_takes(told):
    information = RelayInformation(max_message_length=told)
    size, count = frame_bytes(information), ids_count(information)
    assert MIN_FRAME_BYTES <= size <= FRAME_BYTES
    assert 1 <= count <= 500
    author = "ab" * 32
    wanted = Filter(authors=(author,), kinds=(4, 5, 30078))
    fetching = Filter(ids=(author,) * count, authors=(author,), kinds=(4, 5, 30078), limit=500)
    if told is not None and told >= 2 * MIN_FRAME_BYTES + 1_024:
        assert len(wire.neg_open("s" * 16, wanted, bytes(size))) <= told
    if told is not None and told >= 2_000:
        assert len(wire.request("s" * 16, [fetching])) <= told


def test_nobody_said_anything():
    assert (frame_bytes(None), ids_count(None)) == (FRAME_BYTES, 500)


def test_no_more_ids_are_asked_for_than_the_relay_answers_with():
    assert ids_count(RelayInformation(max_limit=100)) == 100
