"""What a session asks its driver to do. It decides; the driver acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.verdict import Verdict
    from sense_memory.relay.comparison import Comparison
    from sense_memory.relay.counting import Counted
    from sense_memory.relay.page import Page


@dataclass(frozen=True, slots=True)
class Send:
    """Write this text message."""

    text: str


@dataclass(frozen=True, slots=True)
class PageDone:
    """A subscription has ended; this is its page."""

    subscription: str
    page: Page


@dataclass(frozen=True, slots=True)
class CompareDone:
    """A comparison has ended; this is what it found."""

    subscription: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class CountDone:
    """A question for a count has ended; this is the answer."""

    subscription: str
    counted: Counted


@dataclass(frozen=True, slots=True)
class LookUp:
    """Find out which of these events, by what claims to be their ids, are stored here; then call `looked_up`."""

    subscription: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class Heard:
    """A live subscription brought these events; with none, the relay says that from now on it tells."""

    subscription: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Judged:
    """An event that was being published has its verdict."""

    event_id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SignAuth:
    """Sign `auth_event` for this challenge, then call `authenticated` or `signing_failed`."""

    challenge: str


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the connection: the relay misbehaves. The reason is in our words."""

    reason: str


Action: TypeAlias = Send | PageDone | CompareDone | CountDone | LookUp | Heard | Judged | SignAuth | Hangup
