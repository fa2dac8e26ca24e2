"""Relay URLs: which may be dialled, and that each relay has one spelling."""

from __future__ import annotations

import pytest

from sense_memory.errors import InvalidRelayUrl
from sense_memory.nostr.relay_url import is_local, is_same_relay, relay_url


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("wss://relay.example", "wss://relay.example"),
        ("  WSS://Relay.Example/\n", "wss://relay.example"),
        ("wss://relay.example:443/", "wss://relay.example"),
        ("wss://relay.example:8443/", "wss://relay.example:8443"),
        ("wss://relay.example.", "wss://relay.example"),
        ("wss://relay.example/Inbox/", "wss://relay.example/Inbox/"),
        ("wss://relay.example/?key=a%20b", "wss://relay.example/?key=a%20b"),
        ("wss://relay.example/größe", "wss://relay.example/gr%C3%B6%C3%9Fe"),
        ("wss://bücher.example", "wss://xn--bcher-kva.example"),
        ("wss://192.0.2.7", "wss://192.0.2.7"),
        ("wss://[2001:DB8:0:0::1]:443", "wss://[2001:db8::1]"),
        ("ws://localhost:80/", "ws://localhost"),
        ("ws://LOCALHOST:7777", "ws://localhost:7777"),
        ("ws://127.0.0.1:7777/", "ws://127.0.0.1:7777"),
        ("ws://127.1.2.3", "ws://127.1.2.3"),
        ("ws://[0::1]:7777", "ws://[::1]:7777"),
    ],
)
def test_a_relay_has_one_spelling(given, canonical):
    assert relay_url(given) == canonical
    assert relay_url(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "relay.example",
        "relay.example:443",
        "http://relay.example",
        "https://relay.example",
        "file:///etc/passwd",
        "wss:relay.example",
        "wss://",
        "wss:///path",
        "wss://relay.example:0",
        "wss://relay.example:99999",
        "wss://relay.example:port",
        "wss://relay .example",
        "wss://relay.example/a b",
        "wss://relay.example/\r\nHost: evil",
        "wss://relay\\.example",
        "wss://relay..example",
        "wss://-relay.example",
        "wss://relay%2eexample",
        "wss://[::1",
        "wss://[not-an-address]",
        "wss://[fe80::1%25eth0]",
        "wss://" + "a" * 64 + ".example",
        "wss://" + "a." * 2_000,
        "wss://user@relay.example",
        "wss://relay.example#fragment",
        None,
        7,
    ],
)
def test_what_is_no_relay_url_is_refused(text):
    with pytest.raises(InvalidRelayUrl):
        relay_url(text)


@pytest.mark.parametrize(
    "url",
    [
        "ws://relay.example",
        "ws://10.0.0.1",
        "ws://localhost.evil.example",
        "ws://127.0.0.1.evil.example",
        "ws://[::2]",
        "ws://0.0.0.0",
        "ws://2130706433",
    ],
)
def test_r17_plain_ws_stays_on_this_machine(url):
    with pytest.raises(InvalidRelayUrl, match="not encrypted"):
        relay_url(url)
    assert relay_url(url, allow_plain=True) == url


def test_errors_never_repeat_what_was_given():
    for text in (
        "wss://agent:hunter2@relay.example",
        "https://agent:hunter2@relay.example",
        "ws://hunter2",
        "hunter2",
        "wss://hunter2:x",
        "wss:hunter2.example",
        "https://relay.example/hunter2?hunter2#hunter2",
        f"http://{'hunter2' * 8}.example",
    ):
        with pytest.raises(InvalidRelayUrl) as caught:
            relay_url(text)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ws://relay.example", "ws://relay.example: ws:// is not encrypted"),
        ("https://Relay.example/path", "https://relay.example: a relay URL starts with wss://"),
        ("http://localhost:7447", "http://localhost: a relay URL starts with wss://"),
        ("relay.example", "relay.example: a relay URL starts with wss://"),
        ("wss://relay.example#there", "wss://relay.example: a relay URL must not have a fragment"),
    ],
)
def test_an_error_names_the_url_by_scheme_and_host(text, named):
    with pytest.raises(InvalidRelayUrl) as caught:
        relay_url(text)
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("ws://localhost:7777", True),
        ("ws://127.0.0.1:7777", True),
        ("wss://127.9.9.9", True),
        ("ws://[::1]", True),
        ("wss://relay.example", False),
        ("wss://localhost.example", False),
        ("wss://128.0.0.1", False),
        ("not a url", False),
        ("wss://[::1", False),
    ],
)
def test_a_relay_on_this_machine_is_told_apart(url, local):
    assert is_local(url) is local


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ws://localhost:7447", "ws://127.0.0.1:7447", True),
        ("ws://[::1]:7447", "ws://127.0.0.1:7447", True),
        ("ws://localhost", "ws://127.0.0.1", True),
        ("ws://localhost:7447", "ws://localhost:7448", False),
        ("ws://localhost:7447", "ws://127.0.0.1:7447/other", False),
        ("wss://relay.example", "wss://relay.example", True),
        ("wss://relay.example", "wss://other.example", False),
        ("wss://relay.example", "ws://127.0.0.1", False),
    ],
)
def test_one_relay_of_this_machine_is_known_by_all_its_names(one, other, same):
    assert is_same_relay(one, other) is same
    assert is_same_relay(other, one) is same
