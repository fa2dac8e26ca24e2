"""How long to wait for a relay, in seconds, and the error that ends a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sense_memory import limits


CONNECTION_LOST: Final = "connection lost"  # how the problem begins when the relay hung up
TOO_LARGE_LOST: Final = f"{CONNECTION_LOST} (code 1009)"  # RFC 6455, 7.4.1: too large for the relay


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a relay and for a signer, in seconds.

    Attributes:
        open: to dial, TLS and upgrade.
        idle: silence after a REQ, or after the last good event of its answer.
        total: one page, or one event's OK, whatever happens meanwhile.
        notice_settle: after a NOTICE, when a REQ has brought nothing yet; and after an EOSE that is not
            believed, because the relay went on sending after an earlier EOSE.
        ok: silence of a relay that owes an OK; each OK from the relay restarts this wait.
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
