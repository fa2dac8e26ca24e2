"""The relay information document, from relays that mean well and relays that do not."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sense_memory.nostr import wire
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import FRAME_BYTES, MIN_FRAME_BYTES
from sense_memory.relay.client.nip11 import (
    RelayInformation,
    frame_bytes,
    ids_count,
    may_compare,
    relay_information,
)
from sense_memory.relay.server.server import EmbeddedRelay
from tests.time_unit import SECOND


@asynccontextmanager
async def says(answer: bytes, requests=None, *, hold_open=False, tls=None):
    """A server that reads one request head, answers with these bytes, and hangs up unless told otherwise."""
    release = asyncio.Event()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if requests is not None:
            requests.append(head.decode())
        writer.write(answer)
        if hold_open:
            await release.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        release.set()
        server.close()
        await server.wait_closed()


def http(body: bytes, status="200 OK", headers=()):
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def localhost_certificate():
    """A self-signed certificate for localhost and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(1), now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(encoding), secret


async def test_the_embedded_relay_tells_its_limits():
    async with EmbeddedRelay() as relay:
        found = await relay_information(relay.url)
    assert found.name == "sense-memory embedded relay"
    assert {1, 9, 11, 42} <= set(found.supported_nips)
    assert found.max_message_length > 65_536
    assert found.auth_required is False


async def test_the_request_is_the_one_of_nip11():
    requests = []
    async with says(http(b"{}"), requests) as url:
        assert await relay_information(f"{url}/inbox?a=b") == RelayInformation()
    (head,) = requests
    assert head.startswith("GET /inbox?a=b HTTP/1.1\r\n")
    assert "\r\nAccept: application/nostr+json\r\n" in head
    assert f"\r\nHost: {url.removeprefix('ws://')}\r\n" in head


@pytest.mark.parametrize(
    "answer",
    [
        http(b'{"name":"x"}', headers=["Connection: keep-alive"]),
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8;a=b\r\n{"name":\r\n4\r\n"x"}\r\n0\r\nT: y\r\n\r\n',
        b'HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n{"name":"x"}and more',
    ],
    ids=["length", "chunks", "http/1.0"],
)
async def test_r19_the_answer_ends_where_http_says_although_the_relay_keeps_the_connection_open(answer):
    async with asyncio.timeout(5 * SECOND), says(answer, hold_open=True) as url:
        assert (await relay_information(url, timeout=60 * SECOND)).name == "x"


async def test_an_answer_without_a_length_ends_with_the_connection():
    async with says(b'HTTP/1.1 200 OK\r\n\r\n{"name":"x"}') as url:
        assert (await relay_information(url)).name == "x"


async def test_a_wss_relay_is_asked_over_https(tmp_path, monkeypatch):
    certificate, key = localhost_certificate()
    pem = tmp_path / "relay.pem"
    pem.write_bytes(certificate + key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pem)
    async with says(http(b'{"name":"x"}'), hold_open=True, tls=tls) as url:
        wss = url.replace("ws://127.0.0.1", "wss://localhost")
        assert await relay_information(wss) is None  # its certificate is nobody's
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        assert (await relay_information(wss)).name == "x"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n",
        http(b"<html>a relay</html>"),
        http(b"[1,2]"),
        http(b"[" * 60_000),
        http(b"{}", "404 Not Found"),
        http(b"{}", "500 Internal Server Error"),
        http(b'{"name": "' + b"x" * 100_000 + b'"}'),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1;" + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 70_000 + b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        # It was asked for no encoding.
        http(gzip.compress(b"{}", mtime=0), headers=["Content-Encoding: gzip"]),
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    ],
)
async def test_r16_what_is_no_document_is_none(answer):
    async with says(answer) as url:
        assert await relay_information(url) is None


@pytest.mark.virtual_time
async def test_a_relay_that_drips_its_answer_is_none_in_time():
    hung_up = asyncio.Event()

    async def drip(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b" ")
            await asyncio.get_running_loop().passes(0.005)
        hung_up.set()

    async with asyncio.timeout(5 * SECOND), await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await relay_information(url, timeout=0.1) is None
        await hung_up.wait()


async def test_r16_a_hundred_megabytes_are_not_read():
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while sent < 100_000_000:
                writer.write(b" " * 65_536)
                sent += 65_536
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            done.set()

    done = asyncio.Event()
    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await relay_information(url) is None
        await done.wait()
    assert sent < 50_000_000


async def test_redirects_are_not_followed():
    asked = []
    async with (
        says(http(b'{"name":"inside"}'), asked) as inside,
        says(http(b"", "302 Found", [f"Location: {inside.replace('ws', 'http')}/"])) as url,
    ):
        assert await relay_information(url) is None
    assert asked == []


async def test_a_relay_that_does_not_answer_is_none_in_time():
    async with asyncio.timeout(5 * SECOND):
        async with says(b"HTTP/1.1 200 OK\r\n", hold_open=True) as url:
            assert await relay_information(url, timeout=0.05) is None


async def test_a_relay_that_is_not_there_is_none():
    async with says(b"") as url:
        pass
    assert await relay_information(url) is None
    assert await relay_information("wss://" + url.removeprefix("ws://")) is None


def test_r16_wrong_types_count_as_absent():
    found = RelayInformation.parse(
        json.dumps(
            {
                "name": ["x"],
                "software": 7,
                "version": None,
                "supported_nips": [1, "9", True, -3, 1.5, 2**70, None, 42],
                "limitation": {
                    "max_message_length": -1,
                    "max_limit": 0,
                    "max_content_length": "8196",
                    "min_pow_difficulty": 1.5,
                    "auth_required": "yes",
                    "payment_required": 1,
                },
            }
        ).encode()
    )
    assert found == RelayInformation(supported_nips=(1, 42))


@pytest.mark.parametrize("body", [b'{"limitation": []}', b'{"limitation": "x", "supported_nips": {}}', b"{}"])
def test_missing_or_misplaced_parts_count_as_absent(body):
    assert RelayInformation.parse(body) == RelayInformation()


def test_sensible_limits_are_read():
    found = RelayInformation.parse(
        json.dumps(
            {
                "limitation": {
                    "max_message_length": 16_384,
                    "max_limit": 500,
                    "max_content_length": 8_196,
                    "min_pow_difficulty": 0,
                    "auth_required": True,
                    "payment_required": False,
                }
            }
        ).encode()
    )
    assert found == RelayInformation(
        max_message_length=16_384,
        max_limit=500,
        max_content_length=8_196,
        min_pow_difficulty=0,
        auth_required=True,
        payment_required=False,
    )


def test_a_relays_name_is_made_printable():
    found = RelayInformation.parse(json.dumps({"name": "\x1b[31mred" + "x" * 1_000}).encode())
    assert found.name.isprintable()
    assert len(found.name) < 300


def test_a_document_of_more_than_64_kib_is_none():
    assert RelayInformation.parse(b"{}" + b" " * 65_534) == RelayInformation()
    assert RelayInformation.parse(b"{}" + b" " * 65_535) is None


# ── What a document means for comparisons (NIP-77) ──────────────────────────────────────


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
