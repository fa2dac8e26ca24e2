"""What the SDK's OAuth handlers ask: which client it is, where the user is asked, and what a code or a token is worth.

Clients are public: they get no secret, and PKCE protects their codes. A client's id carries its registration, and the
address of the consent page the request, so nothing is kept before the user agrees (`sealed_text.py`).
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizeError,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull, OAuthToken

from sense_memory.interfaces.mcp.oauth.access_file import ACCESS_SECONDS
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from mcp.server.auth.provider import AuthorizationParams

    from sense_memory.interfaces.mcp.oauth.access_file import AccessFile, TokenKind
    from sense_memory.interfaces.mcp.oauth.sealed_text import Sealer

SCOPE: Final = "memory"  # the only one: the tools that the server offers
_METHOD: Final = "none"  # clients have no secret
CONSENT_PATH: Final = "/consent"
CONSENT_SECONDS: Final = 600  # for the user to fetch a code and agree
_MAX_NAME_CHARS: Final = 80
_MAX_URIS_COUNT: Final = 10
_MAX_URI_CHARS: Final = 300
_MAX_URIS_CHARS: Final = 1_500  # of all: they are in every address of the consent page
_MAX_STATE_CHARS: Final = 1_500
_CHALLENGE_CHARS: Final = 43  # of SHA-256 in base64url (RFC 7636, 4.2)
_is_host = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|::1").fullmatch
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ConsentRequest(NamedTuple):
    """What a client asks the user for.

    Attributes:
        client_id: of the client.
        name: what the client calls itself.
        place: the host that gets the answer.
        redirect_uri: the address that gets the answer.
        state: the client's own, sent back with the answer.
        details: what the token request has to match.
    """

    client_id: str
    name: str
    place: str
    redirect_uri: str
    state: str | None
    details: dict[str, Any]


class PublicClient(OAuthClientInformationFull):  # type: ignore[misc]  # the SDK is not followed
    """A registered client: it has the one scope, and a program of this machine may use any port (RFC 8252, 7.3)."""

    def validate_scope(self, requested_scope: str | None) -> list[str]:  # noqa: ARG002 - the SDK's signature
        """The one scope, whichever the client asked for; the token says which it got."""
        return [SCOPE]

    def validate_redirect_uri(self, redirect_uri: Any) -> Any:
        """The address, if the client registered it.

        Raises:
            InvalidRedirectUriError: it did not, or it registered several and names none.
        """
        known = [_with_path(str(uri)) for uri in self.redirect_uris or ()]
        if redirect_uri is None and len(known) == 1:
            return self.redirect_uris[0]
        given = _with_path(str(redirect_uri))
        if given in known or _without_port(given) in set(filter(None, map(_without_port, known))):
            return redirect_uri
        raise InvalidRedirectUriError("the redirect_uri is not one that this client registered")


class RemoteProvider:
    """The provider of the SDK's authorization server.

    Args:
        file: who may reach the memory.
        sealer: for what is given away.
        origin: the public URL of the server, such as https://memory.example.org.
        resource: the URL of the MCP endpoint, for which tokens are issued.
    """

    def __init__(self, file: AccessFile, sealer: Sealer, origin: str, resource: str) -> None:
        self._file, self._sealer, self._origin, self._resource = file, sealer, origin, resource

    # ── Clients ─────────────────────────────────────────────────────────────────────────

    async def register_client(self, client_info: Any) -> None:
        """Make a client public, and put its registration into its id.

        Raises:
            RegistrationError: an address is neither https nor on the machine of the client, or there is too much text.
        """
        uris = list(map(str, client_info.redirect_uris or ()))
        if not uris or len(uris) > _MAX_URIS_COUNT or sum(map(len, uris)) > _MAX_URIS_CHARS:
            raise RegistrationError("invalid_redirect_uri", "give 1 to 10 short redirect_uris")
        if not all(map(_is_safe, uris)):
            raise RegistrationError(
                "invalid_redirect_uri",
                "a redirect_uri must be an https URL, or http on 127.0.0.1, ::1 or localhost",
            )
        name = one_line(client_info.client_name or "").strip()[:_MAX_NAME_CHARS]
        grant_types = ["authorization_code", "refresh_token"]
        registered = {"name": name, "redirect_uris": uris, "number": secrets.token_hex(8)}
        client_info.client_id = self._sealer.seal("client", registered)
        client_info.client_name, client_info.scope, client_info.grant_types = name or None, SCOPE, grant_types
        client_info.token_endpoint_auth_method = _METHOD
        client_info.client_secret = client_info.client_secret_expires_at = None

    async def get_client(self, client_id: str) -> PublicClient | None:
        """The client that an id describes; None if this server did not make the id."""
        found = self._sealer.opened("client", client_id)
        if found is None:
            return None
        return PublicClient(
            client_id=client_id,
            client_name=found["name"] or None,
            redirect_uris=found["redirect_uris"],
            scope=SCOPE,
            token_endpoint_auth_method=_METHOD,
        )

    # ── The user's consent ──────────────────────────────────────────────────────────────

    async def authorize(self, client: Any, params: AuthorizationParams) -> str:
        """The address of the consent page for a request.

        Raises:
            AuthorizeError: the request is for another server, or cannot be used.
        """
        if params.resource is not None and not self._is_own(params.resource):
            raise AuthorizeError("invalid_target", f"this server gives access to {self._resource} only")
        if len(params.code_challenge) != _CHALLENGE_CHARS or len(params.state or "") > _MAX_STATE_CHARS:
            raise AuthorizeError("invalid_request", "code_challenge is not one of S256, or state is too long")
        uri = str(params.redirect_uri)
        details = {
            "code_challenge": params.code_challenge,
            "redirect_uri": uri,
            "is_explicit": params.redirect_uri_provided_explicitly,
        }
        place = urlsplit(uri).hostname or ""
        asked = ConsentRequest(client.client_id, client.client_name or "", place, uri, params.state, details)
        sealed = self._sealer.seal("consent", asked._asdict(), CONSENT_SECONDS)
        return f"{self._origin}{CONSENT_PATH}?{urlencode({'request': sealed})}"

    def consent_request(self, sealed: str) -> ConsentRequest | None:
        """The request of a consent page; None if the server did not make it, or its time is over."""
        found = self._sealer.opened("consent", sealed)
        return None if found is None else ConsentRequest(**found)

    async def allow(self, asked: ConsentRequest) -> str:
        """The user agrees: the address that takes the user back to the client, with an authorization code."""
        grant = asked.client_id, asked.name, asked.place, self._resource, asked.details
        code = await self._file.apart(self._file.allow, *grant)
        return self._answer(asked, code=code)

    def deny(self, asked: ConsentRequest) -> str:
        """The user does not agree: the address that tells the client so."""
        return self._answer(asked, error="access_denied")

    def _answer(self, asked: ConsentRequest, **answer: str) -> str:
        location: str = construct_redirect_uri(
            asked.redirect_uri, **answer, state=asked.state, iss=self._origin
        )
        return location

    # ── Codes and tokens ────────────────────────────────────────────────────────────────

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        """The authorization code of a client; None if there is none, or it was used."""
        found = await self._file.apart(self._file.find, "code", authorization_code, client.client_id)
        if found is None or found.resource != self._resource:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=[SCOPE],
            expires_at=found.expires_at,
            client_id=client.client_id,
            code_challenge=found.details["code_challenge"],
            redirect_uri=found.details["redirect_uri"],
            redirect_uri_provided_explicitly=found.details["is_explicit"],
            resource=found.resource,
        )

    async def exchange_authorization_code(self, _client: Any, authorization_code: Any) -> Any:
        """The first tokens of a client. Raises TokenError if the code was used meanwhile."""
        return await self._tokens("code", authorization_code.code)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        """The refresh token of a client; None if there is none, or it was used."""
        found = await self._file.apart(self._file.find, "refresh", refresh_token, client.client_id)
        if found is None or found.resource != self._resource:
            return None
        return RefreshToken(
            token=refresh_token,
            client_id=client.client_id,
            scopes=[SCOPE],
            expires_at=int(found.expires_at),
            resource=found.resource,
        )

    async def exchange_refresh_token(self, _client: Any, refresh_token: Any, _scopes: list[str]) -> Any:
        """New tokens for a refresh token. Raises TokenError if it was used meanwhile."""
        return await self._tokens("refresh", refresh_token.token)

    async def load_access_token(self, token: str) -> Any:
        """The access token; None if it admits nobody."""
        grant = await self._file.apart(self._file.verify, token, self._resource)
        return None if grant is None else AccessToken(token=token, client_id=str(grant), scopes=[SCOPE])

    async def revoke_token(self, token: Any) -> None:
        """End the grant of a token."""
        await self._file.apart(self._file.revoke_token, token.token)

    async def _tokens(self, kind: TokenKind, token: str) -> Any:
        pair = await self._file.apart(self._file.redeem, kind, token)
        if pair is None:
            raise TokenError(
                "invalid_grant", "it was used or revoked meanwhile, or has expired; ask the user again"
            )
        return OAuthToken(
            access_token=pair.access, refresh_token=pair.refresh, expires_in=ACCESS_SECONDS, scope=SCOPE
        )

    def _is_own(self, resource: str) -> bool:
        """Whether a resource is this server: its endpoint, or its origin, which some clients send."""
        return resource.rstrip("/").lower() in {self._resource, self._origin}


def _is_safe(uri: str) -> bool:
    """Whether an address may get an authorization code: https, or this machine as the client sees it."""
    parts = urlsplit(uri)
    if len(uri) > _MAX_URI_CHARS or parts.fragment or "@" in parts.netloc:
        return False
    if not _is_host(parts.hostname or ""):  # it stands in a header, too
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _with_path(uri: str) -> str:
    """An address whose empty path is a slash, as some parsers of URLs write it and others do not."""
    parts = urlsplit(uri)
    return uri if parts.path else parts._replace(path="/").geturl()


def _without_port(uri: str) -> str:
    """An address on the machine of the client without its port; empty for another address."""
    parts = urlsplit(uri)
    if parts.scheme != "http" or parts.hostname not in _LOOPBACK or "@" in parts.netloc:
        return ""
    return parts._replace(netloc=parts.hostname or "").geturl()
