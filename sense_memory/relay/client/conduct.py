"""What is expected of a relay on a connection, and what it did instead: timeouts, counters, and its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sense_memory import limits


CONNECTION_LOST: Final = "connection lost"  # how the problem of a connection begins that the relay ended
TOO_LARGE_LOST: Final = f"{CONNECTION_LOST} (code 1009)"  # RFC 6455, 7.4.1: a message was too large for it


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Patience with a relay and with a signer, in seconds.

    Attributes:
        open: to dial, TLS and upgrade.
        idle: silence after a REQ, or after the last good event of its answer.
        total: one page, or one event's OK, whatever happens meanwhile.
        notice_settle: after a NOTICE, when a REQ has brought nothing yet; and after an EOSE that is not
            believed, because the relay went on after one before.
        ok: silence of a relay that owes an OK; each OK it sends starts it anew.
        send: for the relay to read what was written.
        sign: for the signer to sign a challenge.
        close: to say goodbye.
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
        """The least time in which something new can become overdue."""
        return min(self.idle, self.total, self.notice_settle, self.ok, self.sign)


@dataclass(slots=True)
class UselessCounts:
    """What a relay sent on one connection that was of no use.

    Attributes:
        malformed: messages that are no frame, and challenges that are too long.
        invalid: malformed or forged events.
        duplicates: events that the same page already held.
        over_delivered: events that the subscription had not asked for.
        after_eose: events of a subscription that the relay had declared finished.
        unasked: frames for subscriptions that are not open.
        stray_oks: OKs for events that are not waiting for one.
        notices: NOTICE frames.
        challenges: NIP-42 challenges.
    """

    malformed: int = 0
    invalid: int = 0
    duplicates: int = 0
    over_delivered: int = 0
    after_eose: int = 0
    unasked: int = 0
    stray_oks: int = 0
    notices: int = 0
    challenges: int = 0


class ConnectionLost(Exception):
    """The connection is gone.

    Attributes:
        problem: why, in our words.
        misbehaving: whether the relay broke the protocol or our limits.
    """

    def __init__(self, problem: str, *, misbehaving: bool = False) -> None:
        self.problem, self.misbehaving = problem, misbehaving
        super().__init__(problem)
