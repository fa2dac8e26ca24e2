"""Which event it is at which a relay hangs up, so that one that it cannot take does not block all others. No I/O.

A relay whose limits nobody knows ends the connection when it is sent an event that is too large for it: with code
1009, or without a word. Everything in flight goes back, and the next connection would end the same way. So what was
in flight is sent again in parts, the smallest events first and each part twice as large as the one before. The part
at which the relay hangs up holds the suspects for the next connection, until one of them is alone.

What is guaranteed: an event is given up only if nothing else was in flight when the relay hung up, and the relay had
answered a question right before it; once where the code says that a message is too large, else three times, and only
if the relay took other events meanwhile. So trouble of the network refuses no event; what it cuts off stays queued,
and whatever is alone under suspicion lets the others go first. The cost is some log2(n) connections for n events.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Sequence

VAIN_COUNT: Final = 2  # connections in a row that ended with events in flight, none of them answered
ALONE_COUNT: Final = 3  # hang-ups at one event, without a reason, before that event is given up


class Isolation:
    """What is known of one relay's hanging up.

    Attributes:
        suspects: seqs of events of which one makes the relay hang up; empty while there is no reason to look.
        moved: whether the last connection that ended brought it further.
        gave_up: whether that ended because of an event that was given up for it.
    """

    def __init__(self) -> None:
        self.suspects: tuple[int, ...] = ()
        self.moved = self.gave_up = False
        self._in_vain = 0
        self._takes_others = False  # whether the relay has taken any event since it began to hang up
        self._alone: Counter[int] = Counter()

    @property
    def aside(self) -> int | None:
        """The only suspect, for which the others do not wait; None where there are more, or none."""
        return self.suspects[0] if len(self.suspects) == 1 else None

    def begin(self) -> None:
        """A run over a connection begins."""
        self.moved = self.gave_up = False

    def ended(self, lost: Sequence[int], *, answered: bool, is_too_large: bool) -> None:
        """The usual sending ended.

        Args:
            lost: seqs of what was in flight when the relay hung up; none where it did not.
            answered: whether it had answered any event before.
            is_too_large: whether it said that a message is too large.
        """
        self._takes_others = (self._takes_others or answered) and bool(lost or self.suspects)
        self._in_vain = self._in_vain + 1 if lost and not answered else 0
        if lost and (is_too_large or self._in_vain >= VAIN_COUNT):
            self.moved = is_too_large or self._takes_others or not self.suspects
            self.suspects = tuple(lost)

    def took(self) -> None:
        """The relay took a part of the suspects."""
        self._takes_others = self.moved = True

    def failed(self, lost: Sequence[int], *, is_too_large: bool) -> bool:
        """The relay hung up at a part of the suspects; whether that was one event, which is to be given up."""
        self.suspects = tuple(lost)
        self.moved |= len(lost) > 1 or is_too_large or self._takes_others
        if len(lost) > 1 or not (is_too_large or self._takes_others):
            return False
        self._alone[lost[0]] += 1
        if not is_too_large and self._alone[lost[0]] < ALONE_COUNT:
            return False
        del self._alone[lost[0]]
        self.passed()
        self.gave_up = True
        return True

    def passed(self) -> None:
        """Nothing is suspected any more."""
        self.suspects, self._in_vain = (), 0
