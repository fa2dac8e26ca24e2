"""Access from elsewhere: who gets a token, what it is worth and for how long; and whom no page and no stranger can send where.

The requests are those of a browser and of a client behind the reverse proxy; the time is set by hand. At the end, the SDK's
own client goes the whole way to the real program through a real proxy.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import closing
from hashlib import sha256
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from sense_memory import InvalidInput
from sense_memory.errors import UnsafeFile
from sense_memory.interfaces.mcp.http import RemoteAccess, TokenGuard, public_origin
from sense_memory.interfaces.mcp.oauth import access_file
from sense_memory.interfaces.mcp.oauth.access_file import (
    ACCESS_SECONDS,
    AUTHORIZATION_SECONDS,
    CODE_SECONDS,
    MAX_WRONG_COUNT,
    REFRESH_SECONDS,
    RETRY_SECONDS,
    AccessFile,
    AccessUnknown,
)
from sense_memory.interfaces.mcp.program import ServerOptions
from tests.interfaces.mcp.conftest import asgi_client


ORIGIN = "https://memory.example.org"
BACK = "https://claude.ai/api/mcp/auth_callback"
LOCAL_TOKEN = "local-token-" + "x" * 32
VISIT = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


class Elsewhere:
    """A server behind a proxy, and what a client and a browser elsewhere do."""

    def __init__(self, home, *, origin=ORIGIN, reach="read and change"):
        self.now, self.origin = 1_800_000_000.0, origin
        self.file = AccessFile(home, "default", lambda: self.now)
        self.guard = TokenGuard(mcp, 8765, LOCAL_TOKEN, RemoteAccess(origin, self.file, "default", reach))
        self.verifier = secrets.token_urlsafe(48)
        self.challenge = urlsafe_b64encode(sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    async def ask(self, method, path, *, base=None, **given):
        async with asgi_client(self.guard, base or self.origin) as client:
            return await client.request(method, path, **given)

    async def register(self, *uris, name="Claude"):
        return await self.ask(
            "POST", "/register", json={"redirect_uris": list(uris or (BACK,)), "client_name": name}
        )

    async def client_id(self, *uris, name="Claude"):
        return (await self.register(*uris, name=name)).json()["client_id"]

    async def authorize(self, client_id, /, *, headers=VISIT, **changed):
        asked = {
            "client_id": client_id,
            "response_type": "code",
            "redirect_uri": BACK,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "state": "s t&t",
            "resource": f"{self.origin}/mcp",
        } | changed
        asked = {name: value for name, value in asked.items() if value is not None}
        return await self.ask("GET", f"/authorize?{urlencode(asked)}", headers=headers)

    async def page(self, client_id, **changed):
        """The consent page, and the request in its form."""
        shown = await self.ask("GET", (await self.authorize(client_id, **changed)).headers["location"])
        return shown, unescape(re.search(r'name="request" value="([^"]*)"', shown.text)[1])

    async def answer(self, request, code, *, answer="allow", headers=None):
        headers = {"origin": self.origin} if headers is None else headers
        form = {"request": request, "code": code, "answer": answer}
        return await self.ask("POST", "/consent", data=form, headers=headers)

    async def code(self, client_id, **changed):
        """The authorization code that a client gets when the user agrees."""
        _, request = await self.page(client_id, **changed)
        agreed = await self.answer(request, self.file.new_code())
        return parse_qs(urlsplit(agreed.headers["location"]).query)["code"][0]

    async def redeem(self, client_id, code, /, **changed):
        form = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": code,
            "code_verifier": self.verifier,
            "redirect_uri": BACK,
        } | changed
        return await self.ask("POST", "/token", data=form)

    async def refresh(self, client_id, token):
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": token}
        return await self.ask("POST", "/token", data=form)

    async def connect(self):
        """A client that the user allowed: its id and its tokens."""
        client_id = await self.client_id()
        return client_id, (await self.redeem(client_id, await self.code(client_id))).json()

    async def status(self, token, **given):
        """Of a request to MCP with a token."""
        answer = await self.ask("POST", "/mcp", headers={"authorization": f"Bearer {token}"}, **given)
        return answer.status_code


async def mcp(_scope, _receive, send):
    """In place of the SDK's."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the memory"})


@pytest.fixture
def elsewhere(tmp_path):
    made = Elsewhere(tmp_path)
    yield made
    made.file.close()


# ── The way to a token ──────────────────────────────────────────────────────────────────


async def test_a_client_learns_from_the_refusal_where_to_ask(elsewhere):
    """RFC 9728, then RFC 8414; the documents agree with each other to the letter."""
    refused = await elsewhere.ask("POST", "/mcp")
    where = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])[1]
    resource = (await elsewhere.ask("GET", where)).json()
    server = (await elsewhere.ask("GET", "/.well-known/oauth-authorization-server")).json()

    assert refused.status_code == 401
    assert where == f"{ORIGIN}/.well-known/oauth-protected-resource/mcp"
    assert (resource["resource"], resource["authorization_servers"]) == (f"{ORIGIN}/mcp", [server["issuer"]])
    assert server["issuer"] == ORIGIN
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["token_endpoint_auth_methods_supported"] == ["none"]


async def test_whom_the_user_allows_reaches_the_memory_and_nobody_else(elsewhere):
    client_id = await elsewhere.client_id()
    shown, request = await elsewhere.page(client_id)
    assert "Claude" in shown.text
    assert "<strong>claude.ai</strong>" in shown.text

    agreed = await elsewhere.answer(request, elsewhere.file.new_code().lower().replace("-", " "))

    assert agreed.status_code == 303
    assert agreed.headers["location"].startswith(f"{BACK}?code=")
    told = parse_qs(urlsplit(agreed.headers["location"]).query)
    assert (told["state"], told["iss"]) == (["s t&t"], [ORIGIN])
    tokens = (await elsewhere.redeem(client_id, told["code"][0])).json()
    assert (tokens["expires_in"], tokens["scope"], tokens["token_type"]) == (
        ACCESS_SECONDS,
        "memory",
        "Bearer",
    )
    assert await elsewhere.status(tokens["access_token"]) == 200
    assert await elsewhere.status(tokens["refresh_token"]) == 401
    assert await elsewhere.status("x" * 43) == 401
    assert await elsewhere.status("") == 401


async def test_a_wrong_code_gives_nothing_and_after_some_the_right_one_is_void(elsewhere):
    _, request = await elsewhere.page(await elsewhere.client_id())
    code = elsewhere.file.new_code()
    for _ in range(MAX_WRONG_COUNT):
        wrong = await elsewhere.answer(request, "0000-0000")
        assert (wrong.status_code, "This is not the code" in wrong.text) == (403, True)

    assert (await elsewhere.answer(request, code)).status_code == 403
    assert (await elsewhere.answer(request, elsewhere.file.new_code())).status_code == 303


async def test_a_code_is_for_one_answer_and_ten_minutes(elsewhere):
    _, request = await elsewhere.page(await elsewhere.client_id())
    assert (await elsewhere.answer(request, "")).status_code == 403  # there is none yet
    code = elsewhere.file.new_code()
    assert (await elsewhere.answer(request, code)).status_code == 303
    assert (await elsewhere.answer(request, code)).status_code == 403

    late = elsewhere.file.new_code()
    elsewhere.now += CODE_SECONDS - 1
    _, request = await elsewhere.page(await elsewhere.client_id())
    elsewhere.now += 2
    assert (await elsewhere.answer(request, late)).status_code == 403


async def test_an_old_consent_page_and_one_made_up_are_not_answered(elsewhere):
    _, request = await elsewhere.page(await elsewhere.client_id())
    elsewhere.now += 601
    code = elsewhere.file.new_code()
    for wrong in (request, request[:-2], "", "ä", f"{request}A"):
        assert (await elsewhere.answer(wrong, code)).status_code == 400
    assert elsewhere.file.spend_code(code)  # it was not asked for


async def test_who_does_not_agree_is_not_sent_away_and_gives_nothing(elsewhere):
    _, request = await elsewhere.page(await elsewhere.client_id())
    code = elsewhere.file.new_code()

    shown = await elsewhere.answer(request, code, answer="deny")

    assert shown.status_code == 200
    assert "location" not in shown.headers
    link = unescape(re.search(r'href="([^"]+)"', shown.text)[1])
    assert parse_qs(urlsplit(link).query)["error"] == ["access_denied"]
    assert elsewhere.file.grants() == []
    assert elsewhere.file.spend_code(code)


# ── Registration and redirection ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("https://claude.ai/api/mcp/auth_callback", 201),
        ("http://127.0.0.1:33418/", 201),
        ("http://localhost/callback", 201),
        ("http://[::1]:8080/callback", 201),
        ("http://claude.ai/callback", 400),
        ("javascript:alert(1)", 400),
        ("data:text/html,x", 400),
        ("cursor://anysphere/callback", 400),
        ("https://claude.ai@evil.com/callback", 400),
        ("https://claude.ai/callback#fragment", 400),
        ("http://localhost.evil.com/callback", 400),
        ("https://a.example;sandbox/", 400),  # it would end a directive of the page's policy
        ("https://*/", 400),
        (f"https://long.example/{'x' * 300}", 400),
    ],
)
async def test_a_client_is_reached_over_https_or_on_its_own_machine(elsewhere, uri, status):
    """The MCP specification: redirect URIs must be https or localhost."""
    assert (await elsewhere.register(uri)).status_code == status


async def test_clients_have_no_secret_and_cost_the_server_nothing(elsewhere, tmp_path):
    before = elsewhere.file.path.stat().st_size
    for number in range(50):
        registered = (await elsewhere.register(name=f"client {number}" * 99)).json()
    assert registered.get("client_secret") is None
    assert registered["token_endpoint_auth_method"] == "none"
    assert len(registered["client_name"]) == 80
    assert elsewhere.file.path.stat().st_size == before
    assert (await elsewhere.register(*[f"https://h{n}.example" for n in range(11)])).status_code == 400


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "https://evil.com/"},
        {"redirect_uri": f"{BACK}/../evil"},
        {"redirect_uri": "http://127.0.0.1:1/"},
        {"response_type": "token"},
        {"code_challenge": None},
        {"code_challenge": "plain"},
        {"code_challenge_method": "plain"},
        {"resource": "https://other.example/mcp"},
        {"state": "s" * 1_501},
        {"client_id": "made-up"},
    ],
    ids=str,
)
async def test_a_wrong_request_is_answered_here_and_redirects_nowhere(elsewhere, changed):
    """Anybody can register a client, so an error that redirects would make this server an open redirector."""
    answer = await elsewhere.authorize(await elsewhere.client_id(), **changed)

    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "remove the connection there and add it anew" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_client_whose_address_looks_like_the_consent_page_is_not_redirected_to(elsewhere):
    for evil in ("https://evil.com/consent", f"{ORIGIN}.evil.com/consent"):
        client_id = await elsewhere.client_id(evil)
        answer = await elsewhere.authorize(client_id, redirect_uri=evil, response_type="token")
        assert (answer.status_code, "location" in answer.headers) == (400, False)


async def test_a_program_on_its_own_machine_may_use_any_port_and_only_that_may_differ(elsewhere):
    """RFC 8252, 7.3."""
    client_id = await elsewhere.client_id("http://127.0.0.1:4000/callback")

    for uri, status in (
        ("http://127.0.0.1:5000/callback", 302),
        ("http://127.0.0.1/callback", 302),
        ("http://127.0.0.1:5000/other", 400),
        ("http://localhost:4000/callback", 400),
        ("https://127.0.0.1:4000/callback", 400),
    ):
        assert (await elsewhere.authorize(client_id, redirect_uri=uri)).status_code == status, uri


async def test_an_address_without_a_path_is_that_with_a_slash(elsewhere):
    """Parsers of URLs differ in it, those of the SDK included."""
    for registered in ("https://app.example", "https://app.example/"):
        client_id = await elsewhere.client_id(registered)
        for uri in ("https://app.example", "https://app.example/"):
            assert (await elsewhere.authorize(client_id, redirect_uri=uri)).status_code == 302
            code = await elsewhere.code(client_id, redirect_uri=uri)
            assert (await elsewhere.redeem(client_id, code, redirect_uri=uri)).status_code == 200


async def test_a_clients_name_is_text_on_the_page_and_one_line(elsewhere):
    shown, _ = await elsewhere.page(await elsewhere.client_id(name='<script>"\n\u202eevil</script>'))

    assert "<script" not in shown.text
    assert "&lt;script&gt;" in shown.text
    assert "\u202e" not in shown.text


# ── Pages of others ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "reach"),
    [
        ({"read_only": True}, "read the memory"),
        ({}, "read and change the memory"),
        ({"allow_destructive": True}, "read, change and delete the memory"),
    ],
)
async def test_the_page_says_what_the_program_will_be_able_to_do(tmp_path, options, reach):
    server = Elsewhere(tmp_path, reach=ServerOptions(**options).reach)
    shown, _ = await server.page(await server.client_id())
    server.file.close()

    assert reach in shown.text


async def test_the_consent_page_runs_nothing_and_cannot_be_framed(elsewhere):
    shown, _ = await elsewhere.page(await elsewhere.client_id())
    policy = shown.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' https://claude.ai" in policy
    assert shown.headers["x-frame-options"] == "DENY"
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "null"}, {"origin": "https://evil.com"}, {"origin": f"{ORIGIN}.evil.com"}],
    ids=str,
)
async def test_only_the_page_itself_can_send_its_form(elsewhere, headers):
    _, request = await elsewhere.page(await elsewhere.client_id())
    code = elsewhere.file.new_code()

    assert (await elsewhere.answer(request, code, headers=headers)).status_code == 403
    assert elsewhere.file.spend_code(code)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/authorize", {**VISIT, "sec-fetch-dest": "iframe"}, 403),
        ("GET", "/authorize", {**VISIT, "sec-fetch-mode": "no-cors"}, 403),
        ("GET", "/consent", {"origin": "https://evil.com"}, 403),
        ("POST", "/token", {"origin": "https://evil.com"}, 403),
        ("POST", "/register", VISIT, 403),
        ("OPTIONS", "/token", {"origin": "https://evil.com"}, 403),
        ("POST", "/mcp", {"origin": "https://evil.com"}, 403),
        ("POST", "/mcp", {"origin": ORIGIN}, 401),
        ("GET", "/authorize?" + "x" * 8_200, {}, 414),
        ("GET", "/mcp-token", {}, 404),
        ("PUT", "/consent", {}, 405),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_other_sites_get_no_answer(elsewhere, method, path, headers, status):
    assert (await elsewhere.ask(method, path, headers=headers)).status_code == status


async def test_names_that_are_pointed_to_the_server_are_refused(elsewhere):
    for base in ("https://evil.com", f"{ORIGIN}.evil.com", f"{ORIGIN}:8443", "http://192.168.1.2:8765"):
        for path in ("/mcp", "/authorize", "/consent"):
            assert (await elsewhere.ask("GET", path, base=base)).status_code == 421


async def test_bodies_are_small(elsewhere):
    for path in ("/register", "/token", "/revoke", "/consent"):
        answer = await elsewhere.ask("POST", path, content=b"x" * 16_385, headers={"origin": ORIGIN})
        assert answer.status_code == 413


# ── What tokens are worth ───────────────────────────────────────────────────────────────


async def test_the_token_of_this_machine_is_worth_nothing_elsewhere_and_the_other_way_round(elsewhere):
    here = "http://127.0.0.1:8765"
    _, tokens = await elsewhere.connect()

    assert await elsewhere.status(LOCAL_TOKEN) == 401
    assert await elsewhere.status(LOCAL_TOKEN, base=here) == 200
    assert await elsewhere.status(tokens["access_token"], base=here) == 401
    assert (await elsewhere.ask("GET", "/authorize", base=here)).status_code == 404


async def test_a_code_needs_its_verifier_its_client_and_its_address(elsewhere):
    """PKCE (RFC 7636), and OAuth 2.1."""
    client_id = await elsewhere.client_id()
    other = await elsewhere.client_id(name="Other")
    code = await elsewhere.code(client_id)

    for changed in (
        {"code_verifier": "wrong" * 10},
        {"client_id": other},
        {"redirect_uri": "https://claude.ai/other"},
        {"code": "wrong"},
        {"client_id": "made-up"},
    ):
        answer = await elsewhere.redeem(client_id, code, **changed)
        assert answer.status_code in {400, 401}, changed
        assert "access_token" not in answer.text
    assert (await elsewhere.redeem(client_id, code)).status_code == 200


async def test_a_code_that_is_used_twice_ends_all_that_came_of_it(elsewhere):
    client_id = await elsewhere.client_id()
    code = await elsewhere.code(client_id)
    tokens = (await elsewhere.redeem(client_id, code)).json()
    assert await elsewhere.status(tokens["access_token"]) == 200

    assert (await elsewhere.redeem(client_id, code)).json()["error"] == "invalid_grant"

    assert await elsewhere.status(tokens["access_token"]) == 401
    assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 400


async def test_a_code_is_for_two_minutes(elsewhere):
    client_id = await elsewhere.client_id()
    code = await elsewhere.code(client_id)
    elsewhere.now += AUTHORIZATION_SECONDS + 1
    assert elsewhere.file.redeem("code", code) is None


async def test_an_access_token_is_for_an_hour_and_a_refresh_token_gives_the_next(elsewhere):
    client_id, first = await elsewhere.connect()
    elsewhere.now += ACCESS_SECONDS + 1
    assert await elsewhere.status(first["access_token"]) == 401

    second = (await elsewhere.refresh(client_id, first["refresh_token"])).json()

    assert second["refresh_token"] != first["refresh_token"]
    assert await elsewhere.status(second["access_token"]) == 200


async def test_a_refresh_token_that_comes_again_ends_the_grant_unless_the_answer_was_just_lost(elsewhere):
    client_id, first = await elsewhere.connect()
    second = (await elsewhere.refresh(client_id, first["refresh_token"])).json()
    elsewhere.now += RETRY_SECONDS
    again = (await elsewhere.refresh(client_id, first["refresh_token"])).json()
    assert await elsewhere.status(again["access_token"]) == 200

    elsewhere.now += 1
    assert (await elsewhere.refresh(client_id, first["refresh_token"])).json()["error"] == "invalid_grant"

    for tokens in (second, again):
        assert await elsewhere.status(tokens["access_token"]) == 401
        assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 400


async def test_a_client_that_is_not_used_for_sixty_days_has_to_ask_again(elsewhere):
    _, tokens = await elsewhere.connect()
    elsewhere.now += REFRESH_SECONDS + 1

    assert elsewhere.file.redeem("refresh", tokens["refresh_token"]) is None
    assert elsewhere.file.grants() == []


async def test_a_refresh_token_is_its_clients_alone(elsewhere):
    client_id, tokens = await elsewhere.connect()

    assert (await elsewhere.refresh(await elsewhere.client_id(), tokens["refresh_token"])).status_code == 400
    assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 200


async def test_what_is_revoked_ends_at_once(elsewhere):
    _, one = await elsewhere.connect()
    client_id, two = await elsewhere.connect()
    (first, _) = elsewhere.file.grants()
    elsewhere.file.revoke(first.number)
    assert await elsewhere.status(one["access_token"]) == 401
    assert await elsewhere.status(two["access_token"]) == 200

    for token in (two["refresh_token"], "unknown"):  # RFC 7009: the same answer
        revoked = await elsewhere.ask("POST", "/revoke", data={"token": token, "client_id": client_id})
        assert revoked.status_code == 200
    assert await elsewhere.status(two["access_token"]) == 401


async def test_tokens_are_for_one_public_url_and_for_one_agent(elsewhere, tmp_path):
    """RFC 8707: the audience of a token."""
    client_id, tokens = await elsewhere.connect()
    moved = Elsewhere(tmp_path, origin="https://other.example")
    assert await moved.status(tokens["access_token"]) == 401
    assert (await moved.refresh(client_id, tokens["refresh_token"])).status_code == 400
    moved.file.close()

    other = AccessFile(tmp_path, "bob", elsewhere.file.clock)
    assert other.verify(tokens["access_token"], f"{ORIGIN}/mcp") is None
    other.close()


async def test_of_two_who_redeem_a_code_at_once_one_gets_tokens_that_end_with_the_other(elsewhere):
    client_id = await elsewhere.client_id()
    code = await elsewhere.code(client_id)
    answers = await asyncio.gather(*(elsewhere.redeem(client_id, code) for _ in range(4)))
    (tokens,) = [one.json() for one in answers if one.status_code == 200]

    assert [one.json()["error"] for one in answers if one.status_code != 200] == ["invalid_grant"] * 3
    assert await elsewhere.status(tokens["access_token"]) == 401
    assert elsewhere.file.grants() == []


async def test_of_two_who_type_the_same_code_one_is_let_in(elsewhere):
    _, request = await elsewhere.page(await elsewhere.client_id())
    code = elsewhere.file.new_code()
    answers = await asyncio.gather(*(elsewhere.answer(request, code) for _ in range(4)))

    assert sorted(one.status_code for one in answers) == [303, 403, 403, 403]
    assert len(elsewhere.file.grants()) == 1


async def test_a_server_that_starts_anew_at_every_step_goes_on_where_it_was(tmp_path):
    async def anew(step):
        server = Elsewhere(tmp_path)
        server.verifier, server.challenge = verifier, challenge
        try:
            return await step(server)
        finally:
            server.file.close()

    first = Elsewhere(tmp_path)
    verifier, challenge = first.verifier, first.challenge
    client_id = await first.client_id()
    first.file.close()
    _, request = await anew(lambda server: server.page(client_id))
    typed = await anew(lambda server: asyncio.sleep(0, server.file.new_code()))
    agreed = await anew(lambda server: server.answer(request, typed))
    code = parse_qs(urlsplit(agreed.headers["location"]).query)["code"][0]
    tokens = (await anew(lambda server: server.redeem(client_id, code))).json()
    assert await anew(lambda server: server.status(tokens["access_token"])) == 200
    renewed = await anew(lambda server: server.refresh(client_id, tokens["refresh_token"]))
    assert renewed.status_code == 200
    again = await anew(lambda server: server.redeem(client_id, code))  # a code is spent for every server
    assert again.json()["error"] == "invalid_grant"
    assert await anew(lambda server: server.status(renewed.json()["access_token"])) == 401


async def test_a_clock_that_is_set_back_a_little_ends_no_grant(elsewhere):
    client_id, tokens = await elsewhere.connect()
    await elsewhere.refresh(client_id, tokens["refresh_token"])
    elsewhere.now -= 5

    assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 200


async def test_no_address_with_a_user_name_gets_a_code(elsewhere):
    client_id = await elsewhere.client_id("http://localhost:8123/back")
    refused = await elsewhere.authorize(client_id, redirect_uri="http://claude.ai@localhost:9/back")

    assert (refused.status_code, "location" in refused.headers) == (400, False)


# ── The file ────────────────────────────────────────────────────────────────────────────


async def test_a_client_is_answered_while_another_process_writes_the_file(elsewhere):
    _, tokens = await elsewhere.connect()
    with closing(sqlite3.connect(elsewhere.file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await elsewhere.status(tokens["access_token"]) == 200
        assert [grant.used_at for grant in elsewhere.file.grants()] == [None]
        other.execute("ROLLBACK")
    await elsewhere.status(tokens["access_token"])

    assert [grant.used_at for grant in elsewhere.file.grants()] == [elsewhere.now]


async def test_where_the_file_cannot_be_used_nobody_is_let_in(tmp_path, monkeypatch, caplog):
    """Another process that stands still, in the middle of reading or of writing."""
    monkeypatch.setattr(access_file, "_BUSY_SECONDS", 0.05)
    elsewhere = Elsewhere(tmp_path)
    client_id, tokens = await elsewhere.connect()
    with closing(sqlite3.connect(elsewhere.file.path, isolation_level=None)) as other:
        for lock in ("BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM grants"):
            for statement in lock.split(";"):
                other.execute(statement).fetchall()
            refused = await elsewhere.refresh(client_id, tokens["refresh_token"])
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            assert str(tmp_path) not in refused.text
            other.execute("ROLLBACK")
            assert "cannot be used now" in caplog.text
        assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 200
    elsewhere.file.close()


async def test_whoever_waits_for_the_file_keeps_nobody_else_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(access_file, "_BUSY_SECONDS", 30)
    elsewhere = Elsewhere(tmp_path)
    client_id, tokens = await elsewhere.connect()
    loop, has_begun, find = asyncio.get_running_loop(), asyncio.Event(), elsewhere.file.find

    def found(*given):
        loop.call_soon_threadsafe(has_begun.set)
        return find(*given)

    monkeypatch.setattr(elsewhere.file, "find", found)
    with closing(sqlite3.connect(elsewhere.file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(elsewhere.refresh(client_id, tokens["refresh_token"]))
        await has_begun.wait()
        answer = await elsewhere.ask("GET", "/.well-known/oauth-authorization-server")
        assert (answer.status_code, waiting.done()) == (200, False)
        other.execute("ROLLBACK")

    assert (await waiting).status_code == 200
    elsewhere.file.close()


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_server_whose_file_was_deleted_lets_nobody_in(elsewhere, tmp_path, caplog, is_replaced):
    """Otherwise it would go on with the old file, and never see what is revoked in the new one."""
    client_id, tokens = await elsewhere.connect()
    elsewhere.file.path.rename(tmp_path / "elsewhere")
    if is_replaced:
        AccessFile(tmp_path, "default").close()

    assert await elsewhere.status(tokens["access_token"]) == 503
    assert (await elsewhere.refresh(client_id, tokens["refresh_token"])).status_code == 503
    assert "until the server is started again" in caplog.text
    assert tokens["access_token"] not in caplog.text


def test_a_damaged_file_is_named(tmp_path):
    file = AccessFile(tmp_path, "default")
    file.close()
    file.path.write_bytes(b"no database" * 1_000)

    with pytest.raises(AccessUnknown, match="cannot be used now"):
        AccessFile(tmp_path, "default")


async def test_the_list_says_who_has_access_since_when_and_when_it_was_used(elsewhere):
    begun = elsewhere.now
    _, tokens = await elsewhere.connect()
    assert [grant.used_at for grant in elsewhere.file.grants()] == [None]
    elsewhere.now += 100
    await elsewhere.status(tokens["access_token"])
    elsewhere.now += 10
    await elsewhere.status(tokens["access_token"])

    (grant,) = elsewhere.file.grants()

    assert (grant.name, grant.place, grant.created_at, grant.used_at) == (
        "Claude",
        "claude.ai",
        begun,
        begun + 100,
    )


# ── The file ────────────────────────────────────────────────────────────────────────────


async def test_the_file_is_private_and_has_no_token_and_no_code(elsewhere):
    code = elsewhere.file.new_code()
    client_id = await elsewhere.client_id()
    authorization = await elsewhere.code(client_id)
    tokens = (await elsewhere.redeem(client_id, authorization)).json()
    stored = elsewhere.file.path.read_bytes()

    assert elsewhere.file.path.stat().st_mode & 0o777 == 0o600
    for secret in (
        code,
        code.replace("-", ""),
        authorization,
        tokens["access_token"],
        tokens["refresh_token"],
    ):
        assert secret.encode() not in stored
    assert tokens["access_token"] not in repr(elsewhere.file.redeem("refresh", tokens["refresh_token"]))


def test_a_file_that_others_can_read_or_redirect_is_not_used(tmp_path):
    AccessFile(tmp_path, "default").close()
    path = tmp_path / "access" / "default.db"
    path.chmod(0o640)
    with pytest.raises(UnsafeFile, match="was not used"):
        AccessFile(tmp_path, "default")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile, match="was not used"):
        AccessFile(tmp_path, "default")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://memory.example.org", "https://memory.example.org"),
        ("https://Memory.Example.org:443/", "https://memory.example.org"),
        ("https://memory.example.org:8443", "https://memory.example.org:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://memory.example.org", None),
        ("https://memory.example.org/mcp", None),
        ("https://user@memory.example.org", None),
        ("https://memory.example.org?x", None),
        ("https://memory.example.org:port", None),
        ("https://", None),
        ("https://ä.example", None),
        ("memory.example.org", None),
        ("https://memory.example.org evil", None),
    ],
)
def test_a_public_url_is_an_https_origin_or_one_of_this_machine(url, origin):
    if origin is not None:
        assert public_origin(url) == origin
        return
    with pytest.raises(InvalidInput, match="--public-url takes https://HOST"):
        public_origin(url)
