"""What a session asks its driver to do: the session decides, the driver acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.verdict import RelayVerdict


@dataclass(frozen=True, slots=True)
class SessionAction:
    """One thing to do. An action that ends a question is defined beside its result, as `PageDone` is."""


@dataclass(frozen=True, slots=True)
class Send(SessionAction):
    """Write this text message."""

    text: str


@dataclass(frozen=True, slots=True)
class LookUpIds(SessionAction):
    """Find out which of these claimed ids are stored here, then call `looked_up`."""

    subscription: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class LiveEvents(SessionAction):
    """A live subscription brought these events; none means that the relay has opened the subscription."""

    subscription: str
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class EventJudged(SessionAction):
    """The relay's verdict on a published event."""

    event_id: str
    verdict: RelayVerdict


@dataclass(frozen=True, slots=True)
class SignAuth(SessionAction):
    """Sign `auth_event` for this challenge, then call `authenticated` or `signing_failed`."""

    challenge: str


@dataclass(frozen=True, slots=True)
class Hangup(SessionAction):
    """Close the connection because the relay misbehaves. The reason is in our words."""

    reason: str
