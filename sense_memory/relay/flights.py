"""Events on their way to a relay: sent and waiting for an OK, or held back until one has authenticated. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.relay.actions import Send


if TYPE_CHECKING:
    from sense_memory.nostr.verdict import Verdict
    from sense_memory.relay.conduct import Timeouts


@dataclass(slots=True)
class Flight:
    """An event on its way: its frame, when it was sent, whether for the second time, and why it was held back."""

    text: str
    sent_at: float
    resent: bool = False
    refusal: Verdict | None = None


class Flights:
    """What one connection has in flight, by event id.

    Args:
        patience: how long to wait for OKs.
    """

    def __init__(self, patience: Timeouts) -> None:
        self._patience = patience
        self._sent: dict[str, Flight] = {}  # in the order in which they were sent
        self._held: dict[str, Flight] = {}
        self._answered_at = float("-inf")  # when the last OK judged something

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._sent or event_id in self._held

    def send(self, event_id: str, text: str, now: float) -> Send:
        """An event takes off."""
        self._sent[event_id] = Flight(text, now)
        return Send(text)

    def land(self, event_id: str, now: float) -> Flight | None:
        """An OK came in; the flight that it judges, or None."""
        flight = self._sent.pop(event_id, None)
        if flight is not None:
            self._answered_at = now
        return flight

    def hold(self, event_id: str, flight: Flight, refusal: Verdict) -> None:
        """Keep a flight that landed until one has authenticated."""
        flight.refusal = refusal
        self._held[event_id] = flight

    def resend(self, now: float) -> list[Send]:
        """Send again what was held back."""
        held, self._held = self._held, {}
        for event_id, flight in held.items():
            self._sent[event_id] = Flight(flight.text, now, resent=True)
        return [Send(flight.text) for flight in held.values()]

    def give_up_held(self) -> dict[str, Verdict | None]:
        """Forget what was held back; returns the ids, and why each was."""
        held, self._held = self._held, {}
        return {event_id: flight.refusal for event_id, flight in held.items()}

    def give_up(self) -> list[str]:
        """Forget everything; returns the ids."""
        sent, self._sent = self._sent, {}
        return [*sent, *self.give_up_held()]

    def give_up_overdue(self, now: float) -> list[str]:
        """Forget those that were waited for long enough; returns the ids."""
        late: list[str] = []
        for event_id, flight in self._sent.items():
            if self._due(flight) > now:
                break
            late.append(event_id)
        for event_id in late:
            del self._sent[event_id]
        return late

    @property
    def due(self) -> float | None:
        """When the first of them is overdue, or None."""
        return self._due(next(iter(self._sent.values()))) if self._sent else None

    def _due(self, flight: Flight) -> float:
        """Judged by the relay's progress: a slow relay that keeps answering is not a silent one."""
        silence = max(flight.sent_at, self._answered_at) + self._patience.ok
        return min(silence, flight.sent_at + self._patience.total)
