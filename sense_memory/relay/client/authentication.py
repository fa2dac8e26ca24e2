"""NIP-42 on one connection: when to sign which challenge, and what the relay's answer means.

We sign only when a request or an event needs authentication, never sign a challenge twice, and sign at most
`MAX_SIGNATURES_COUNT` times per connection, however many challenges a relay sends. No I/O, no clock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from sense_memory import limits
from sense_memory.nostr.event import KIND_AUTH, Unsigned
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict


if TYPE_CHECKING:
    from sense_memory.nostr.event import Event


class Phase(Enum):
    """How far the authentication of a connection has come."""

    IDLE = auto()  # nothing needed authentication yet
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


def auth_event(url: str, challenge: str, created_at: int) -> Unsigned:
    """The event to sign for a challenge (NIP-42). The event names the URL that *we* dialled.

    Args:
        url: the relay, canonical.
        challenge: the relay's newest challenge.
        created_at: seconds since 1970.
    """
    return Unsigned(created_at, KIND_AUTH, (("relay", url), ("challenge", challenge)), "")


class Authentication:
    """The authentication of one connection.

    Args:
        able: whether there is a signer.
        sign_seconds: how long to wait for the signer.
        ok_seconds: how long to wait for the relay's challenge, and for the relay's OK.
    """

    def __init__(self, *, able: bool, sign_seconds: float, ok_seconds: float) -> None:
        self.phase = Phase.IDLE
        self.due: float | None = None
        self._able = able
        self._sign_seconds, self._ok_seconds = sign_seconds, ok_seconds
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

    def may_help(self, asked_at: float) -> bool:
        """Whether the relay may grant a refused request to an authenticated client, and we were not authenticated.

        Some relays answer `restricted` to unauthenticated clients, where NIP-42 says `auth-required`.

        Args:
            asked_at: when the refused request was sent, seconds.
        """
        if self.settled:
            return asked_at <= self._accepted_at
        is_unused = self._challenge is not None and self._challenge != self._used
        can_sign = self._able and self._signatures < limits.MAX_SIGNATURES_COUNT
        return self.phase in {Phase.SIGNING, Phase.SENT} or (is_unused and can_sign)

    def challenged(self, challenge: str, now: float) -> str | None:
        """Remember the newest challenge; returns the challenge if it has to be signed at once."""
        self._challenge = challenge
        return self._sign(now) if self.phase is Phase.UNCHALLENGED else None

    def demand(self, now: float) -> str | RelayVerdict | None:
        """Start authenticating, because a request or an event needs authentication.

        Returns:
            The challenge to sign; None if authentication is under way; a verdict if authentication is impossible.
        """
        if not self._able:
            return _NOT_ABLE
        if self.phase in {Phase.UNCHALLENGED, Phase.SIGNING, Phase.SENT}:
            return None
        if self._challenge is None:
            self.phase, self.due = Phase.UNCHALLENGED, now + self._ok_seconds
            return None
        if self._challenge == self._used:
            return self._failure
        return self._sign(now) if self._signatures < limits.MAX_SIGNATURES_COUNT else _TOO_OFTEN

    def signed(self, event: Event, now: float) -> bool:
        """The signer answered; returns whether to send the signed event to the relay."""
        if self.phase is not Phase.SIGNING:
            return False
        self.phase, self.due, self._event_id = Phase.SENT, now + self._ok_seconds, event.id
        return True

    def is_answer(self, event_id: str) -> bool:
        """Whether an OK for that id answers our AUTH event."""
        return self.phase is Phase.SENT and event_id == self._event_id

    def answered(self, *, accepted: bool, now: float) -> str | RelayVerdict | None:
        """The relay answered our AUTH event with an OK.

        Returns:
            None if the relay accepted; a newer challenge to sign; or the verdict for everything that waited for
            authentication.
        """
        self.phase, self.due = (Phase.ACCEPTED if accepted else Phase.REFUSED), None
        self._failure = _REFUSED
        self._accepted_at = now if accepted else self._accepted_at
        return None if accepted else self.demand(now)

    def overdue(self, now: float) -> RelayVerdict | None:
        """The verdict for everything that waited for authentication, if the time to wait is over."""
        return self.give_up() if self.due is not None and self.due <= now else None

    def give_up(self) -> RelayVerdict:
        """Stop waiting for the signer or the relay; returns the verdict for everything that waited."""
        self._failure = _OVERDUE.get(self.phase, _REFUSED)
        self.phase = Phase.IDLE if self.phase is Phase.UNCHALLENGED else Phase.REFUSED
        self.due = None
        return self._failure

    def _sign(self, now: float) -> str | None:
        self.phase, self.due = Phase.SIGNING, now + self._sign_seconds
        self._used = self._challenge
        self._signatures += 1
        return self._challenge
