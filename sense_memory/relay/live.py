"""A live subscription: one REQ that is never finished, so that a relay tells what comes in while it comes. No I/O.

What was stored before is the next pull's business, and what is known already is of no use, such as our own events,
which come back this way too: both are dropped unread, which costs less than looking at them. A `LookUp` asks which
events are known: at first about one event, then about all that came before the answer. The others pass the same checks
as those of a page. A subscription that brings too much of no use ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from sense_memory import limits
from sense_memory.relay.actions import Heard, LookUp
from sense_memory.relay.page import Fate, OpenPage


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sense_memory.relay.actions import Action
    from sense_memory.relay.conduct import Timeouts


@dataclass(slots=True, kw_only=True)
class OpenLive(OpenPage):
    """A subscription that stays; it ends as an incomplete page.

    Attributes:
        begun: whether the relay has said that from now on it tells.
    """

    begun: bool = False
    _begins: bool = False
    _useless: int = 0
    _asked: list[object] = field(default_factory=list)  # what a `LookUp` is about
    _aside: list[object] = field(default_factory=list)  # what came since
    _aside_bytes: int = 0

    def take(self, value: object, size: int, now: float) -> Fate:  # noqa: ARG002 - as for a page
        """Put an event aside until its `LookUp` is answered.

        Over budget: too many known events in a row, too many new ones, or too many that wait.
        """
        self.received += 1
        is_flood = len(self._ids) >= limits.MAX_LIVE_COUNT or self._useless >= limits.MAX_NOISE_COUNT
        if not self.begun:
            self._useless += 1
            return Fate.OVER_BUDGET if is_flood else Fate.KEPT
        self._aside.append(value)
        self._aside_bytes += size
        is_late = len(self._aside) > limits.MAX_LIVE_WAITING_COUNT
        is_late |= self._aside_bytes > limits.MAX_LIVE_WAITING_BYTES
        return Fate.OVER_BUDGET if is_flood or is_late else Fate.KEPT

    def admit(self, known: Collection[str]) -> Iterator[Fate]:
        """Judge the events that a `LookUp` was about, but for those that are known."""
        asked, self._asked = self._asked, []
        for value in asked:
            self._useless += 1
            if _claimed_id(value) not in known:
                before = len(self.events)
                yield super(OpenLive, self)._judge(value)  # a class with slots is made twice
                if len(self.events) > before:
                    self._useless = 0

    def end(self, now: float) -> bool:
        """What was stored has been sent: from now on it is live."""
        self._begins, self.begun, self.heard_at = True, True, now
        return False

    def news(self, subscription: str) -> list[Action]:
        """What came, to be handed on, and what is to be looked up."""
        actions: list[Action] = []
        if self.events or self._begins:
            actions.append(Heard(subscription, tuple(self.events)))
            self.events, self._begins = [], False
        if self._aside and not self._asked:
            self._asked, self._aside, self._aside_bytes = self._aside, [], 0
            actions.append(LookUp(subscription, tuple(filter(None, map(_claimed_id, self._asked)))))
        return actions

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not agreed yet."""
        return not self.begun

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        return [(inf, "")] if self.begun else super(OpenLive, self)._ends(patience)


def _claimed_id(value: object) -> str:
    """What an event says its id is; empty where it says nothing of the kind."""
    claimed = value.get("id") if isinstance(value, dict) else None
    return claimed if isinstance(claimed, str) else ""
