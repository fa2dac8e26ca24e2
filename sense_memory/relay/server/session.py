"""The protocol of one connection to the embedded relay, and the limits: messages and time in, actions out. No I/O.

The session checks everything that can be checked without the event store: frames, limits, authentication (NIP-42)
and signatures. A message that passes becomes an action; any other message becomes a refusal, which is sent.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from sense_memory.errors import InvalidEvent, InvalidSetting, MalformedFrame
from sense_memory.limits import MAX_FRAME_BYTES, MAX_SAFE_INTEGER, MAX_SUBSCRIPTION_ID_CHARS, MAX_TAGS_COUNT
from sense_memory.nostr.event import KIND_AUTH, RawEvent, is_hex64, verify
from sense_memory.nostr.wire import (
    Authenticate,
    Close,
    Count,
    NegClose,
    NegMessage,
    NegOpen,
    Publish,
    Request,
    frame,
    parse_client_frame,
)
from sense_memory.relay.server.event_store import expires_at, is_protected


if TYPE_CHECKING:
    from collections.abc import Collection

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter


# ── Limits, and the information document that states them (NIP-11) ──────────────────────

SUPPORTED_NIPS: Final = (1, 9, 11, 40, 42, 45, 70, 77)

MAX_LIMIT_COUNT: Final = 5_000
MAX_SUBSCRIPTIONS_COUNT: Final = 50
MAX_FILTERS_COUNT: Final = 50
MAX_FILTER_VALUES_COUNT: Final = 5_000  # SQLite allows 32,766 in one statement
MAX_COMPARISONS_COUNT: Final = 4  # a client needs one; each costs about 230 bytes for every compared event
MAX_COMPARED_COUNT: Final = 250_000
MAX_AHEAD_SECONDS: Final = 900  # strfry's default
MAX_BACKLOG_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """The limits of the relay.

    Attributes:
        require_auth: whether clients have to authenticate before anything else (NIP-42).
        max_message_bytes: maximum size of a message; a longer message closes the connection with code 1009.
        max_limit: maximum number of stored events in the answer to one filter, and the default limit of a filter.
        max_subscriptions: maximum number of open subscriptions of one connection.
        max_filters: maximum number of filters in one REQ or COUNT.
        max_filter_values: maximum number of values in all lists of one filter together.
        max_comparisons: maximum number of open comparisons of one connection (NIP-77).
        max_compared: maximum number of events in one comparison.
        max_future_seconds: how many seconds an event may be dated ahead of the relay's clock.
        max_backlog_bytes: maximum bytes that wait for a client that does not read; with more, the connection is
            aborted.

    Raises:
        InvalidSetting: a limit is not positive, or `max_message_bytes` is more than the frame parser reads.
    """

    require_auth: bool = False
    max_message_bytes: int = MAX_FRAME_BYTES
    max_limit: int = MAX_LIMIT_COUNT
    max_subscriptions: int = MAX_SUBSCRIPTIONS_COUNT
    max_filters: int = MAX_FILTERS_COUNT
    max_filter_values: int = MAX_FILTER_VALUES_COUNT
    max_comparisons: int = MAX_COMPARISONS_COUNT
    max_compared: int = MAX_COMPARED_COUNT
    max_future_seconds: int = MAX_AHEAD_SECONDS
    max_backlog_bytes: int = MAX_BACKLOG_BYTES

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if name != "require_auth" and (type(limit) is not int or not 0 < limit <= MAX_SAFE_INTEGER):
                raise InvalidSetting(name, "argument", "must be a positive number")
        if self.max_message_bytes > MAX_FRAME_BYTES:
            raise InvalidSetting("max_message_bytes", "argument", f"must be at most {MAX_FRAME_BYTES:,}")


def information(limits: RelayLimits) -> dict[str, Any]:
    """The NIP-11 document of a relay with these limits."""
    return {
        "name": "sense-memory embedded relay",
        "description": "A relay for one machine: it listens on the loopback interface only.",
        "software": "sense-memory",
        "version": _version(),
        "supported_nips": list(SUPPORTED_NIPS),
        "limitation": {
            "max_message_length": limits.max_message_bytes,
            "max_subscriptions": limits.max_subscriptions,
            "max_filters": limits.max_filters,
            "max_limit": limits.max_limit,
            "default_limit": limits.max_limit,
            "max_subid_length": MAX_SUBSCRIPTION_ID_CHARS,
            "max_event_tags": MAX_TAGS_COUNT,
            "created_at_upper_limit": limits.max_future_seconds,
            "auth_required": limits.require_auth,
            "payment_required": False,
            "restricted_writes": limits.require_auth,
        },
    }


@functools.cache  # parsing the package's metadata takes longer than the rest of the answer
def _version() -> str:
    try:
        return version("sense-memory")
    except PackageNotFoundError:  # a source tree that was never installed
        return "unknown"


# ── The session ─────────────────────────────────────────────────────────────────────────

AUTH_WINDOW_SECONDS: Final = 600  # NIP-42: the date of an AUTH event must be within about ten minutes

_AUTH_REQUIRED: Final = "auth-required: this relay serves authenticated clients only"


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send this frame."""

    frame: str


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """Store this event and send its OK."""

    event: Event


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """Send the stored events that match these filters, then EOSE; from now on also send new events that match."""

    subscription: str
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Send nothing more for this subscription."""

    subscription: str


# COUNT and comparisons need the event store, so their frames are returned unchanged.
ServerAction: TypeAlias = (
    SendFrame | StoreEvent | AnswerRequest | EndRequest | Count | NegOpen | NegMessage | NegClose
)


class ServerSession:
    """The state of one connection: which keys have authenticated, and which subscriptions are open.

    Args:
        limits: the relay's limits.
        urls: the URLs under which clients can dial this relay, without a final slash.
        challenge: random text, new for every connection (NIP-42).
    """

    def __init__(self, limits: RelayLimits, urls: Collection[str], challenge: str) -> None:
        self._limits, self._urls, self._challenge = limits, urls, challenge
        self._authenticated: set[str] = set()
        self._subscriptions: dict[str, tuple[Filter, ...]] = {}

    def greeting(self) -> str:
        """The first frame of a connection: the challenge that an AUTH event must contain (NIP-42)."""
        return frame("AUTH", self._challenge)

    def handle_message(self, data: str | bytes, now: float) -> ServerAction:
        """Decide how to answer one message of the client.

        Args:
            data: the message as it was received.
            now: seconds since 1970.
        """
        try:
            found = parse_client_frame(data)
        except (MalformedFrame, InvalidEvent) as problem:
            return SendFrame(_refusal(data, f"invalid: {problem}"))
        match found:
            case Publish(event):
                return self._publish(event, now)
            case Request(subscription, filters):
                return self._request(subscription, filters)
            case Close(subscription):
                self.end_subscription(subscription)
                return EndRequest(subscription)
            case Authenticate(event):
                return self._authenticate(event, now)
            case Count(subscription, filters):
                refusal = self._filter_refusal(filters)
                return found if refusal is None else SendFrame(frame("CLOSED", subscription, refusal))
            case NegOpen(subscription, wanted, _):
                refusal = self._filter_refusal((wanted,))
                return found if refusal is None else SendFrame(frame("NEG-ERR", subscription, refusal))
            case NegMessage() | NegClose():
                return found

    def end_subscription(self, subscription: str) -> None:
        """Forget a subscription, if it is open."""
        self._subscriptions.pop(subscription, None)

    def matching_subscriptions(self, event: RawEvent) -> list[str]:
        """The ids of the subscriptions that an event matches."""
        return [
            subscription
            for subscription, filters in self._subscriptions.items()
            if any(wanted.matches(event) for wanted in filters)
        ]

    def _publish(self, event: RawEvent, now: float) -> ServerAction:
        refusal = self._event_refusal(event, now)
        if refusal is None:
            try:
                return StoreEvent(verify(event))
            except InvalidEvent as problem:
                refusal = f"invalid: {problem}"
        return SendFrame(frame("OK", event.id, False, refusal))

    def _event_refusal(self, event: RawEvent, now: float) -> str | None:
        """Why an event is refused, as far as that shows without checking its signature; or None."""
        if self._must_authenticate():
            return _AUTH_REQUIRED
        if event.kind == KIND_AUTH:
            return "invalid: an AUTH event is not for publishing"
        if event.created_at > now + self._limits.max_future_seconds:
            return "invalid: created_at too late"
        expiry = expires_at(event)
        if expiry is not None and expiry <= now:
            return "invalid: the event has expired"
        if is_protected(event) and event.pubkey not in self._authenticated:
            return "auth-required: only its authenticated author may publish this event"
        return None

    def _request(self, subscription: str, filters: tuple[Filter, ...]) -> ServerAction:
        refusal = self._filter_refusal(filters)
        if refusal is None and subscription not in self._subscriptions and self._is_full():
            refusal = "error: too many subscriptions"
        if refusal is not None:
            return SendFrame(frame("CLOSED", subscription, refusal))
        self._subscriptions[subscription] = filters
        return AnswerRequest(subscription, filters)

    def _filter_refusal(self, filters: tuple[Filter, ...]) -> str | None:
        """Why the relay refuses some filters, or None."""
        if self._must_authenticate():
            return _AUTH_REQUIRED
        if len(filters) > self._limits.max_filters:
            return f"invalid: more than {self._limits.max_filters} filters"
        if any(_size(wanted) > self._limits.max_filter_values for wanted in filters):
            return f"invalid: more than {self._limits.max_filter_values} values in a filter"
        return None

    def _authenticate(self, event: RawEvent, now: float) -> ServerAction:
        refusal = self._auth_fault(event, now)
        if refusal is None:
            self._authenticated.add(event.pubkey)
        return SendFrame(frame("OK", event.id, refusal is None, f"invalid: {refusal}" if refusal else ""))

    def _auth_fault(self, event: RawEvent, now: float) -> str | None:
        """What is wrong with an AUTH event (NIP-42), or None."""
        if event.kind != KIND_AUTH:
            return f"an AUTH event has kind {KIND_AUTH}"
        if event.tag_values("challenge") != [self._challenge]:
            return "not this connection's challenge"
        if [url.removesuffix("/") for url in event.tag_values("relay")] not in [[url] for url in self._urls]:
            return "meant for another relay"
        if abs(event.created_at - now) > AUTH_WINDOW_SECONDS:
            return "dated too far from this relay's clock"
        try:
            verify(event)
        except InvalidEvent as problem:
            return str(problem)
        return None

    def _must_authenticate(self) -> bool:
        return self._limits.require_auth and not self._authenticated

    def _is_full(self) -> bool:
        return len(self._subscriptions) >= self._limits.max_subscriptions


def _size(wanted: Filter) -> int:
    """How many values a filter lists."""
    lists = (wanted.ids, wanted.authors, wanted.kinds, *wanted.tags.values())
    return sum(len(values) for values in lists if values is not None)


def _refusal(data: str | bytes, text: str) -> str:
    """The answer to a bad frame: an OK, CLOSED or NEG-ERR if the frame shows what it was, otherwise a NOTICE.

    Source: NIP-01, NIP-45 and NIP-77.
    """
    with suppress(orjson.JSONDecodeError):
        match orjson.loads(data):
            case ["EVENT" | "AUTH", {"id": str(ident)}] if is_hex64(ident):
                return frame("OK", ident, False, text)
            case ["REQ" | "COUNT" | "NEG-OPEN" | "NEG-MSG" as verb, str(subscription), *_] if (
                0 < len(subscription) <= MAX_SUBSCRIPTION_ID_CHARS
            ):
                return frame("NEG-ERR" if verb.startswith("NEG-") else "CLOSED", subscription, text)
    return frame("NOTICE", text)
