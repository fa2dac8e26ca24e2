"""A live subscription: one REQ that is never finished, so that a relay tells what comes in while it comes. No I/O.

Events take the same checks as those of a page. What was stored before is the next pull's business, and what is
known already is of no use, such as our own events, which come back this way too: both are dropped unread, which
costs less than looking at them. A relay that sends too much of that is listened to no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from sense_memory import limits
from sense_memory.relay.actions import Heard
from sense_memory.relay.page import Fate, OpenPage


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.relay.actions import Action
    from sense_memory.relay.conduct import Timeouts


@dataclass(slots=True, kw_only=True)
class OpenLive(OpenPage):
    """A subscription that stays; it ends as an incomplete page.

    Attributes:
        is_known: whether an event is of no use any more, by its id.
        heard: called with the events that came; without any, when the relay says that from now on it tells.
        begun: whether it has said so.
    """

    is_known: Callable[[str], bool]
    heard: Callable[[Sequence[Event]], None]
    begun: bool = False
    _begins: bool = False
    _useless: int = 0

    def take(self, value: object, size: int, now: float) -> Fate:  # noqa: ARG002 - as for a page
        """As for a page; the budget is of events that are new to nobody, in a row, and of all that are new."""
        self.received += 1
        if len(self._ids) >= limits.MAX_LIVE_COUNT or self._useless >= limits.MAX_NOISE_COUNT:
            return Fate.OVER_BUDGET
        ident = value.get("id") if isinstance(value, dict) else None
        fate = Fate.KEPT
        if self.begun and not (isinstance(ident, str) and self.is_known(ident)):
            fate = super(OpenLive, self)._judge(value)  # a class with slots is made twice
        if self.events:
            self._useless = 0
        else:
            self._useless += 1
        return fate

    def end(self, now: float) -> bool:
        """What was stored has been sent: from now on it is live."""
        self._begins, self.begun, self.heard_at = True, True, now
        return False

    def news(self, subscription: str) -> list[Action]:  # noqa: ARG002 - as for a page
        """What came, to be handed on."""
        if not self.events and not self._begins:
            return []
        fresh, self.events, self._begins = tuple(self.events), [], False
        return [Heard(self.heard, fresh)]

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not agreed yet."""
        return not self.begun

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        return [(inf, "")] if self.begun else super(OpenLive, self)._ends(patience)
