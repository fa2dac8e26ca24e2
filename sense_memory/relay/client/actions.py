"""The interface of a session and its driver: timeouts, actions, and the error that ends a connection.

The session decides, the driver acts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory import limits


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.verdict import RelayVerdict


CONNECTION_LOST: Final = "connection lost"  # the problem begins with these words if the relay hung up
TOO_LARGE_LOST: Final = f"{CONNECTION_LOST} (code 1009)"  # RFC 6455, 7.4.1: too large for the relay


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a relay and for a signer, in seconds.

    Attributes:
        open: for name lookup, TCP, TLS and the WebSocket upgrade together.
        idle: silence of a relay that owes an answer to a request; each good frame of an answer restarts this wait.
        total: for the whole answer to a request, or for one event's OK, whatever arrives meanwhile.
        notice_settle: after a NOTICE that is the only answer so far; after an EOSE of a relay that went on sending
            after an earlier EOSE; for the first answer of a relay that may not know NIP-45 or NIP-77; and for the
            challenge of a relay that refused a request until we authenticate.
        ok: silence of a relay that owes an OK; each OK restarts this wait.
        send: for the relay to read what was written.
        sign: for the signer to sign a challenge.
        close: for the relay to answer our close frame.
    """

    open: float = limits.OPEN_SECONDS
    idle: float = limits.IDLE_SECONDS
    total: float = limits.TOTAL_SECONDS
    notice_settle: float = limits.NOTICE_SETTLE_SECONDS
    ok: float = limits.OK_SECONDS
    send: float = limits.SEND_SECONDS
    sign: float = limits.SIGN_SECONDS
    close: float = limits.CLOSE_SECONDS

    @property
    def shortest(self) -> float:
        """The shortest time after which a new request can be overdue."""
        return min(self.idle, self.total, self.notice_settle, self.ok, self.sign)


class ConnectionLost(Exception):
    """The connection has ended.

    Attributes:
        problem: why the connection has ended, in our words.
        misbehaving: whether the relay broke the protocol or our limits.
    """

    def __init__(self, problem: str, *, misbehaving: bool = False) -> None:
        self.problem, self.misbehaving = problem, misbehaving
        super().__init__(problem)


# ── Actions ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SessionAction:
    """One thing for the driver to do. An action that ends a request is defined beside its result, as `PageDone` is."""


@dataclass(frozen=True, slots=True)
class Send(SessionAction):
    """Write this text message."""

    text: str


@dataclass(frozen=True, slots=True)
class LookUpIds(SessionAction):
    """Look up which of these claimed ids are stored here, then call `Session.looked_up`."""

    subscription: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class LiveEvents(SessionAction):
    """These events arrived on a live subscription; no events mean that the relay has opened the subscription."""

    subscription: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class EventJudged(SessionAction):
    """The relay's verdict on a published event."""

    event_id: str
    verdict: RelayVerdict


@dataclass(frozen=True, slots=True)
class SignAuth(SessionAction):
    """Sign `auth_event` for this challenge, then call `Session.authenticated` or `Session.signing_failed`."""

    challenge: str


@dataclass(frozen=True, slots=True)
class Hangup(SessionAction):
    """Close the connection, because the relay misbehaves. The reason is in our words."""

    reason: str
