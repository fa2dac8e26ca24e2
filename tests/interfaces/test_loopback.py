"""Servers for this machine: the socket, and which requests none of them answers (rows I-04 and I-05)."""

from __future__ import annotations

import socket

import pytest

from sense_memory.interfaces.loopback import listening_socket, refusal


HOSTS = ("127.0.0.1:8765", "localhost:8765")
OURS = (b"host", b"127.0.0.1:8765")


def test_answers_are_sent_without_delay():
    """asyncio switches Nagle's algorithm off for sockets that are named as TCP only; it adds 40 ms to an answer."""
    with listening_socket("127.0.0.1", 0) as listener:
        assert socket.IPPROTO_TCP == listener.proto


@pytest.mark.parametrize(
    "headers",
    [
        [OURS],
        [(b"Host", b"localhost:8765")],
        [OURS, (b"origin", b"http://127.0.0.1:8765"), (b"sec-fetch-site", b"same-origin")],
        [OURS, (b"sec-fetch-site", b"none")],
    ],
)
def test_a_request_that_names_the_server_is_answered(headers):
    assert refusal(headers, HOSTS) is None


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (421, []),
        (421, [OURS, OURS]),
        (421, [(b"host", b"127.0.0.1")]),
        (421, [(b"host", b"127.0.0.1:8765.evil.example")]),
        (421, [(b"host", b"rebound.example:8765")]),
        (403, [OURS, (b"origin", b"null")]),
        (403, [OURS, (b"origin", b"https://127.0.0.1:8765")]),
        (403, [OURS, (b"origin", b"http://127.0.0.1:8766")]),
        (403, [OURS, (b"origin", b"http://127.0.0.1:8765"), (b"origin", b"http://evil.example")]),
        (403, [OURS, (b"sec-fetch-site", b"same-site")]),
        (403, [OURS, (b"Sec-Fetch-Site", b"cross-site")]),
    ],
)
def test_any_other_name_or_origin_is_refused(status, headers):
    found = refusal(headers, HOSTS)

    assert found is not None
    assert status == found[0]
