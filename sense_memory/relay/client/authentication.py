"""NIP-42 on one connection: when to sign which challenge, and what the relay's answer means. No I/O, no clock.

What is guaranteed: we sign only when a request or an event needs authentication, never sign a challenge twice, and sign
at most `MAX_SIGNATURES_COUNT` times per connection, however many challenges a relay sends. Every request and event that
waits for authentication is sent again or gets a verdict, because each wait has a deadline.

Why it is safe: the signed event names the URL that we dialled, so a relay cannot pass it on to another relay.

What it costs: our public key becomes known to a relay that asks for it; one signature and one message each way.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from sense_memory import limits
from sense_memory.nostr.event import KIND_AUTH, Unsigned
from sense_memory.nostr.verdict import RESTRICTED, RelayOutcome, RelayVerdict


if TYPE_CHECKING:
    from sense_memory.nostr.event import Event


class Phase(Enum):
    """The state of the authentication of a connection."""

    IDLE = auto()  # no request or event has needed authentication yet
    UNCHALLENGED = auto()  # authentication is needed, and the relay has not sent a challenge
    SIGNING = auto()
    SENT = auto()
    ACCEPTED = auto()
    REFUSED = auto()


_NOT_ABLE = RelayVerdict(RelayOutcome.REFUSED, "auth-required")
_REFUSED = RelayVerdict(RelayOutcome.REFUSED, "authentication refused")
_TOO_OFTEN = RelayVerdict(RelayOutcome.RETRY, "asks for authentication too often")
_OVERDUE = {
    Phase.UNCHALLENGED: _NOT_ABLE,
    Phase.SIGNING: RelayVerdict(RelayOutcome.RETRY, "the signer did not answer"),
    Phase.SENT: RelayVerdict(RelayOutcome.RETRY, "did not answer the authentication"),
}
# Why a request failed that a relay shows only to clients that it knows.
UNAUTHENTICATED: Final = frozenset(
    verdict.reason for verdict in (_NOT_ABLE, _REFUSED, _TOO_OFTEN, RESTRICTED, *_OVERDUE.values())
)


def auth_event(url: str, challenge: str, created_at: int) -> Unsigned:
    """The event to sign for a challenge (NIP-42), which names the URL that *we* dialled.

    Args:
        url: the relay, canonical.
        challenge: the relay's newest challenge.
        created_at: seconds since 1970.
    """
    return Unsigned(created_at, KIND_AUTH, (("relay", url), ("challenge", challenge)), "")


class Authentication:
    """The authentication of one connection.

    Args:
        can_sign: whether there is a signer.
        sign_seconds: how long to wait for the signer.
        ok_seconds: how long to wait for the relay's OK.
        challenge_seconds: how long to wait for a challenge, once in a connection; most relays send one when we connect.

    Attributes:
        phase: the state of the authentication.
        due: when to give up waiting for the signer or the relay; None if there is nothing to wait for.
    """

    def __init__(
        self, *, can_sign: bool, sign_seconds: float, ok_seconds: float, challenge_seconds: float
    ) -> None:
        self.phase = Phase.IDLE
        self.due: float | None = None
        self._can_sign = can_sign
        self._sign_seconds, self._ok_seconds = sign_seconds, ok_seconds
        self._challenge_seconds, self._has_waited = challenge_seconds, False
        self._challenge: str | None = None
        self._used: str | None = None  # the challenge that was signed last
        self._event_id: str | None = None
        self._signatures = 0
        self._failure = _REFUSED  # why the challenge that was signed last did not succeed
        self._accepted_at = float("-inf")

    @property
    def settled(self) -> bool:
        """Whether the relay accepted us and has sent no newer challenge since."""
        return self.phase is Phase.ACCEPTED and self._used == self._challenge

    def may_help(self, sent_at: float) -> bool:
        """Whether a refusal may change once we are authenticated, because we were not when we asked.

        Some relays answer `restricted` to unauthenticated clients, where NIP-42 says `auth-required`.

        Args:
            sent_at: when the refused request or event was sent, seconds.
        """
        if self.settled:
            return sent_at <= self._accepted_at
        is_unused = self._challenge is not None and self._challenge != self._used
        may_sign = self._can_sign and self._signatures < limits.MAX_SIGNATURES_COUNT
        return self.phase in {Phase.SIGNING, Phase.SENT} or (is_unused and may_sign)

    def challenged(self, challenge: str, now: float) -> str | None:
        """Remember the relay's newest challenge; returns the challenge if it must be signed at once."""
        self._challenge = challenge
        return self._sign(now) if self.phase is Phase.UNCHALLENGED else None

    def demand(self, now: float) -> str | RelayVerdict | None:
        """Start authenticating, because a request or an event needs authentication.

        Returns:
            The challenge to sign; None if authentication is under way; a verdict if authentication is impossible.
        """
        if not self._can_sign:
            return _NOT_ABLE
        if self.phase in {Phase.UNCHALLENGED, Phase.SIGNING, Phase.SENT}:
            return None
        if self._challenge is None:
            if self._has_waited:
                return _NOT_ABLE
            self.phase, self.due, self._has_waited = Phase.UNCHALLENGED, now + self._challenge_seconds, True
            return None
        if self._challenge == self._used:
            return self._failure
        return self._sign(now) if self._signatures < limits.MAX_SIGNATURES_COUNT else _TOO_OFTEN

    def signed(self, event: Event, now: float) -> bool:
        """The signer signed `event`; returns whether to send the event to the relay."""
        if self.phase is not Phase.SIGNING:
            return False
        self.phase, self.due, self._event_id = Phase.SENT, now + self._ok_seconds, event.id
        return True

    def is_answer(self, event_id: str) -> bool:
        """Whether an OK for this id answers our AUTH event."""
        return self.phase is Phase.SENT and event_id == self._event_id

    def answered(self, *, accepted: bool, now: float) -> str | RelayVerdict | None:
        """The relay answered our AUTH event with an OK.

        Returns:
            None if the relay accepted; a newer challenge to sign; or the verdict on everything that waited for
            authentication.
        """
        self.phase, self.due = (Phase.ACCEPTED if accepted else Phase.REFUSED), None
        self._failure = _REFUSED
        self._accepted_at = now if accepted else self._accepted_at
        return None if accepted else self.demand(now)

    def overdue(self, now: float) -> RelayVerdict | None:
        """Give up if the deadline has passed; returns the verdict on everything that waited, or None."""
        return self.give_up() if self.due is not None and self.due <= now else None

    def give_up(self) -> RelayVerdict:
        """Stop waiting for the signer or the relay; returns the verdict on everything that waited."""
        self._failure = _OVERDUE.get(self.phase, _REFUSED)
        self.phase = Phase.IDLE if self.phase is Phase.UNCHALLENGED else Phase.REFUSED
        self.due = None
        return self._failure

    def _sign(self, now: float) -> str | None:
        self.phase, self.due = Phase.SIGNING, now + self._sign_seconds
        self._used = self._challenge
        self._signatures += 1
        return self._challenge
