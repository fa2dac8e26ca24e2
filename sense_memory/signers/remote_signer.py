"""`RemoteSigner`: a signer whose key lies in a bunker (NIP-46), and never on this machine.

Guaranteed: nothing that a bunker answers is used before it was compared with what was asked. Each request ends within
`timeout` seconds, the approval of a person included, with an answer or with a `SignerError` that says why.

Why it is safe: requests carry random ids and are encrypted between two key pairs, so no relay can answer, or replay an
answer. A signed event is verified, and every field compared. A bunker that begins to sign with another key is noticed at
the start of each session, before anything is sealed for that key.

Cost: one round trip over a relay for each call, and one more for each session. Calls run at once, up to
`BUNKER_REQUESTS_COUNT` of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import BadKey, BadPayload, InvalidEvent, SignerError, TooLargeError
from sense_memory.limits import BUNKER_REQUESTS_COUNT, BUNKER_SECONDS
from sense_memory.nostr import nip44
from sense_memory.nostr import remote_signing as protocol
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.keys import Secret, npub
from sense_memory.nostr.signer import LocalSigner
from sense_memory.signers.bunker_file import BunkerAccount


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.remote_signing import BunkerAnswer, BunkerUrl
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.signers.bunker_line import BunkerLine

_log: Final = logging.getLogger("sense_memory.signer")
_ATTEMPTS_COUNT: Final = 3  # to send one request, where every relay hangs up
_PROBE: Final = b"sense-memory"
_NO_URL: Final = "the bunker"


def _log_url(url: str) -> None:
    _log.warning("the remote signer asks a person to approve at %s", url or _NO_URL)


class RemoteSigner:
    """A signer in a bunker.

    Args:
        account: how the bunker is reached.
        on_auth_url: called once a session with the URL where the bunker wants a person to approve; empty if the URL
            is not one to open. By default it is logged.
        timeout: seconds for one request.
        now: seconds since 1970.
        timeouts: of connections to the bunker's relays.

    Attributes:
        is_remote: true; see `nostr.signer.is_remote`.
        round_trips: how many requests were answered.
    """

    is_remote = True

    def __init__(
        self,
        account: BunkerAccount,
        *,
        on_auth_url: Callable[[str], None] = _log_url,
        timeout: float = BUNKER_SECONDS,
        now: Callable[[], float] = time.time,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._account, self._client = account, LocalSigner(account.client)
        self._on_auth_url, self._timeout, self._now, self._timeouts = on_auth_url, timeout, now, timeouts
        self.round_trips = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: BunkerLine | None = None
        self._waiting: dict[str, asyncio.Future[BunkerAnswer]] = {}
        self._room = asyncio.Semaphore(BUNKER_REQUESTS_COUNT)
        self._checking: asyncio.Task[None] | None = None
        self._approve_at: str | None = None
        self._probe: str | None = None

    @classmethod
    async def connected(cls, url: BunkerUrl, **options: Any) -> RemoteSigner:
        """A signer for a `bunker://` URL, which makes this client's key pair and introduces it to the bunker.

        The bunker is asked for its key, for its current relays, and to seal a text and open it again. The account is not
        kept: `account.saved(path)` does that.

        Raises:
            SignerError: the bunker refuses, does not answer, or answers something else than it was asked.
        """
        signer = cls(BunkerAccount(Secret.generate(), url.signer, url.relays, ""), **options)
        try:
            await signer._introduce(url)
        except BaseException:
            await signer.disconnect()
            raise
        return signer

    @property
    def account(self) -> BunkerAccount:
        """How the bunker is reached."""
        return self._account

    @property
    def public_key(self) -> str:
        """64 hex digits."""
        return self._account.public_key

    @property
    def relays(self) -> tuple[str, ...]:
        """Where the bunker listens."""
        return self._account.relays

    @property
    def npub(self) -> str:
        """The public key as NIP-19 text, safe to show."""
        return npub(self.public_key)

    @property
    def client_npub(self) -> str:
        """The public key of this client, by which the bunker's owner revokes it."""
        return self._client.npub

    # ── What a signer does ──────────────────────────────────────────────────────────────

    async def sign(self, unsigned: Unsigned) -> Event:
        """Have exactly these fields signed.

        Raises:
            SignerError: the bunker refused or did not answer, or signed anything else.
        """
        result = await self._ask("sign_event", protocol.unsigned_text(unsigned, self.public_key))
        try:
            return protocol.signed_event(result, unsigned, self.public_key)
        except InvalidEvent as error:
            raise SignerError(
                f"was asked to sign an event, and its answer is wrong: {error}; check the signer"
            ) from None

    async def encrypt(self, plaintext: bytes, reader: str) -> str:
        """Have a text sealed for a reader.

        Raises:
            SignerError: the bunker refused or did not answer, or answered something that is not sealed.
            TooLargeError: the text does not fit a request.
        """
        result = await self._ask("nip44_encrypt", reader, plaintext.decode())
        try:
            return protocol.sealed_payload(result)
        except BadPayload:
            raise SignerError(
                "was asked to seal a text, and its answer is not sealed (NIP-44); check the signer"
            ) from None

    async def decrypt(self, payload: str, author: str) -> bytes:
        """Have a payload opened. Drafts that this client sealed itself need no bunker.

        Raises:
            BadPayload: not NIP-44, or not for this key.
            SignerError: the bunker refused or did not answer.
        """
        nip44.check_form(payload)
        if author == self._client.public_key:
            return await self._client.decrypt(payload, self.public_key)
        try:
            return (await self._ask("nip44_decrypt", author, payload)).encode()
        except _Refused:
            # Whether it is the payload, or this client was revoked, a payload that is known to be good shows.
            await self._check_can_decrypt()
            raise BadPayload("the remote signer cannot open this payload") from None

    async def seal_draft(self, plaintext: bytes) -> str:
        """Seal a draft without the bunker: between this client and the agent, so that either of the two can open it."""
        return f"{self._client.public_key}:{await self._client.encrypt(plaintext, self.public_key)}"

    async def ping(self) -> None:
        """Check that the bunker answers. Raises SignerError."""
        if await self._ask("ping") != "pong":
            raise SignerError("was pinged, and its answer is wrong; check the signer")

    async def disconnect(self) -> None:
        """Hang up, unless a request is under way; the next call connects again."""
        if self._waiting and self._loop is asyncio.get_running_loop():
            return
        checking, self._checking = self._checking, None
        if checking is not None:
            checking.cancel()
        line, self._line = self._line, None
        if line is not None and self._loop is asyncio.get_running_loop():
            await line.close()

    def close(self) -> None:
        """Overwrite the client's key."""
        self._client.close()

    def __repr__(self) -> str:
        return f"RemoteSigner({self.npub if self.public_key else 'not connected'})"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a RemoteSigner cannot be pickled or copied")

    # ── Sessions ────────────────────────────────────────────────────────────────────────

    async def _introduce(self, url: BunkerUrl) -> None:
        """Connect with a bunker for the first time, and learn whose key it has."""
        answer = await self._request("connect", protocol.connect_params(url))
        if answer not in {"ack", url.secret}:
            raise SignerError(
                "answered with another secret than its URL has, so it was not believed; copy the URL anew"
            )
        public_key = await self._request_public_key()
        self._account = BunkerAccount(self._account.client, url.signer, url.relays, public_key)
        self._checking = asyncio.create_task(self._switch_relays())
        await self._checking
        await self._check_can_decrypt()

    async def _session(self) -> None:
        """Once a session, before anything else is asked: whether the bunker still has the same key, and where it listens."""
        self._follow_loop()
        if self._checking is None:
            self._checking = asyncio.create_task(self._begin_session())
        checking = self._checking
        try:
            await asyncio.shield(checking)
        except BaseException:
            if self._checking is checking and checking.done():
                self._checking = None  # the next call tries again
            raise

    async def _begin_session(self) -> None:
        found = await self._request_public_key()
        if found != self.public_key:
            raise SignerError(
                f"now has the key {npub(found)}, and this memory belongs to {self.npub}; choose that key in the "
                "bunker, or connect another agent with `sense-memory init --bunker`"
            )
        await self._switch_relays()

    async def _switch_relays(self) -> None:
        """Go along where the bunker moves to other relays. Bunkers that do not know the request stay where they are."""
        with suppress(_Refused):
            relays = protocol.new_relays(await self._request("switch_relays", []))
            if relays and relays != self._account.relays:
                with suppress(OSError):  # the old relays are asked again next time
                    self._account = self._account.moved(relays)

    async def _request_public_key(self) -> str:
        try:
            return protocol.read_public_key(await self._request("get_public_key", []))
        except BadPayload:
            raise SignerError(
                "was asked for its public key, and its answer is none; check the signer"
            ) from None

    async def _check_can_decrypt(self) -> None:
        """Check that the bunker opens what it sealed. Raises SignerError."""
        if self._probe is None:
            self._probe = await self.encrypt(_PROBE, self.public_key)
        if await self._ask("nip44_decrypt", self.public_key, self._probe) != _PROBE.decode():
            raise SignerError("does not open what it sealed; check the signer")

    # ── Requests ────────────────────────────────────────────────────────────────────────

    async def _ask(self, method: str, *params: str) -> str:
        """The result of a request in a session. Raises SignerError."""
        async with self._room:
            await self._session()
            return await self._request(method, list(params))

    async def _request(self, method: str, params: list[str]) -> str:
        """The result of one request, within the timeout. Raises SignerError."""
        self._follow_loop()
        ident = protocol.request_id()
        text = protocol.request_text(ident, method, params)
        if len(text) > nip44.MAX_SHORT_BYTES:
            raise TooLargeError(len(text), nip44.MAX_SHORT_BYTES)
        answered = self._waiting[ident] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._exchange(text, answered)
        except TimeoutError:
            raise SignerError(self._silence()) from None
        finally:
            del self._waiting[ident]
        self.round_trips += 1
        if answer.error:
            raise _Refused(
                f"refuses {method}; allow this client ({self._client.npub}) to do that in the bunker, or connect anew "
                "with `sense-memory init --bunker`"
            )
        return answer.result

    async def _exchange(self, text: bytes, answered: asyncio.Future[BunkerAnswer]) -> BunkerAnswer:
        """Send a request and wait for its answer; send it again where every connection ended meanwhile."""
        content = await self._client.encrypt(text, self._account.signer)
        tags = (("p", self._account.signer),)
        unsigned = Unsigned(int(self._now()), protocol.KIND_REMOTE_SIGNING, tags, content)
        event = await self._client.sign(unsigned)
        line = self._lines()
        for _ in range(_ATTEMPTS_COUNT):
            await line.connect(self._account.relays)
            await line.send(event)
            lost: asyncio.Future[Any] = asyncio.ensure_future(line.lost())
            try:
                await asyncio.wait({answered, lost}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                lost.cancel()
            if answered.done():
                return answered.result()
        raise SignerError(
            "cannot be asked: its relays hang up after each request; try again, or use other relays"
        )

    def _lines(self) -> BunkerLine:
        from sense_memory.relay.client.actions import Timeouts
        from sense_memory.signers.bunker_line import BunkerLine

        if self._line is None:
            timeouts = self._timeouts or Timeouts()
            self._line = BunkerLine(self._client, self._account.signer, self._arrived, self._now, timeouts)
        return self._line

    def _follow_loop(self) -> None:
        """Forget what belongs to an event loop that ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._line, self._checking = loop, None, None
            self._waiting, self._room = {}, asyncio.Semaphore(BUNKER_REQUESTS_COUNT)

    def _arrived(self, event: Event) -> None:
        """Take in an event of the bunker. What is no answer to an open request is ignored."""
        key = nip44.conversation_key(self._account.client.reveal(), self._account.signer)
        with suppress(BadPayload, BadKey):
            answer = protocol.read_answer(nip44.decrypt(event.content, key))
            waiting = None if answer is None else self._waiting.get(answer.id)
            if answer is None or waiting is None or waiting.done():
                return
            if answer.approve_at is None:
                waiting.set_result(answer)
            elif self._approve_at is None:  # shown once, however often the bunker repeats it
                self._approve_at = answer.approve_at
                self._on_auth_url(answer.approve_at)

    def _silence(self) -> str:
        if self._approve_at is not None:
            where = self._approve_at or _NO_URL
            return f"waits for a person to approve at {where}, and nobody did within {self._timeout:.0f} s; approve, then try again"
        return f"did not answer within {self._timeout:.0f} s; start it, or look there whether it waits for you, then try again"


class _Refused(SignerError):
    """The bunker answered with an error."""
