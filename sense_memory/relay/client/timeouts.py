"""Patience with one relay, in seconds, and the error that ends a connection."""

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


class ConnectionLost(Exception):
    """The connection has ended.

    Attributes:
        problem: why, in our words.
        misbehaving: whether the relay broke the protocol or our limits.
    """

    def __init__(self, problem: str, *, misbehaving: bool = False) -> None:
        self.problem, self.misbehaving = problem, misbehaving
        super().__init__(problem)
