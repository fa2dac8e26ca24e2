"""The whole way from elsewhere: the SDK's own OAuth client, a real proxy, the real program."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sense_memory.interfaces.mcp.oauth.access_file import AccessFile
from tests.interfaces.mcp.conftest import (
    client_of,
    environment,
    http_server,
    needs_line_1,
)
from tests.late import Late
from tests.time_unit import SECOND


BACK = "http://localhost:3999/callback"
CADDYFILE = """{{
	admin off
	auto_https off
}}
http://127.0.0.1:{port} {{
	bind 127.0.0.1
	reverse_proxy 127.0.0.1:{server}
}}
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=SECOND):
        return True
    return False


@contextmanager
def proxy_before(server, folder):
    """The port of a proxy: Caddy where it is installed."""
    port = free_port()
    caddy = shutil.which("caddy")
    if caddy is None:
        command = [sys.executable, str(Path(__file__).with_name("reverse_proxy.py")), str(port), str(server)]
    else:
        config = folder / "Caddyfile"
        config.write_text(CADDYFILE.format(port=port, server=server))
        command = [caddy, "run", "--adapter", "caddyfile", "--config", str(config)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(folder)
    ) as process:
        try:
            for _ in range(200):
                if answers(port):
                    break
                with suppress(subprocess.TimeoutExpired):
                    pytest.fail(f"the proxy ended with {process.wait(0.02 * SECOND)}")
            yield port
        finally:
            process.terminate()


class Storage:
    """What a client keeps."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


class Browser:
    """The user: opens the page, has a code of the command `access code`, agrees, and is sent back to the client."""

    def __init__(self, origin, file):
        self.origin, self.file, self.asked, self.location = origin, file, 0, ""

    async def open(self, url):
        self.asked += 1
        async with Late("httpx2").AsyncClient(follow_redirects=True) as http:
            page = await http.get(url)
            request = unescape(re.search(r'name="request" value="([^"]*)"', page.text)[1])
            self.code = self.file.new_code()
            form = {"request": request, "code": self.code, "answer": "allow"}
            agreed = await http.post(
                f"{self.origin}/consent", data=form, headers={"origin": self.origin}, follow_redirects=False
            )
        self.location = agreed.headers["location"]

    async def back(self):
        told = {name: values[0] for name, values in parse_qs(urlsplit(self.location).query).items()}
        assert self.location.startswith(BACK)
        return Late("mcp.shared.auth").AuthorizationCodeResult(**told)


@contextmanager
def connected(browser, storage):
    """The SDK's client with its own way through OAuth."""
    auth, shared = Late("mcp.client.auth"), Late("mcp.shared.auth")

    provider = auth.OAuthClientProvider(
        server_url=f"{browser.origin}/mcp",
        client_metadata=shared.OAuthClientMetadata(client_name="Test client", redirect_uris=[BACK]),
        storage=storage,
        redirect_handler=browser.open,
        callback_handler=browser.back,
    )

    def expire():
        provider.context.token_expiry_time = 1  # the client believes that an hour has passed

    @asynccontextmanager
    async def transport():
        async with (
            Late("httpx2").AsyncClient(auth=provider, follow_redirects=True, timeout=30 * SECOND) as http,
            Late("mcp.client.streamable_http").streamable_http_client(
                f"{browser.origin}/mcp", http_client=http
            ) as streams,
        ):
            yield streams

    with client_of(transport) as client:
        client.expire = expire
        yield client


@pytest.mark.parametrize("line", [2, pytest.param(1, marks=needs_line_1)])
def test_a_client_elsewhere_is_allowed_once_and_its_access_can_be_taken_away(tmp_path, line):
    server, storage, file = free_port(), Storage(), AccessFile(tmp_path, "default")
    with closing(file), proxy_before(server, tmp_path) as port:
        browser = Browser(f"http://127.0.0.1:{port}", file)
        options = ("--create-key", "--public-url", browser.origin)
        with http_server(tmp_path, *options, listen=f"127.0.0.1:{server}", line=line) as served:
            with connected(browser, storage) as client:
                assert client.call("remember", path="people/facts/lisa", value="Lisa paints")["remembered"]
                first = storage.tokens
                client.expire()
                found = client.call("recall", path="people/facts/lisa")["memories"]
                (grant,) = file.grants()
                file.revoke(grant.number)
                assert client.call("recall", path="people/facts/lisa")["memories"][0]["value"]
            served.process.send_signal(signal.SIGTERM)
            said = served.said + served.process.stderr.read()

    assert found[0]["value"] == "Lisa paints"
    assert (grant.name, grant.place) == ("Test client", "localhost")
    assert browser.asked == 2  # at first, and after the access was taken away: not for new tokens
    assert first.refresh_token != storage.tokens.refresh_token
    assert f"Clients elsewhere use {browser.origin}/mcp" in said
    secrets = (
        browser.code,
        first.access_token,
        first.refresh_token,
        storage.tokens.refresh_token,
        served.token,
    )
    assert not [secret for secret in secrets if secret in said]
