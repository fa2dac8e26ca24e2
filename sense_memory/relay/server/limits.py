"""The limits of the embedded relay, and the information document that states them (NIP-11)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from sense_memory.errors import InvalidSetting
from sense_memory.limits import MAX_FRAME_BYTES, MAX_SAFE_INTEGER, MAX_SUBSCRIPTION_ID_CHARS, MAX_TAGS_COUNT


SUPPORTED_NIPS: Final = (1, 9, 11, 40, 42, 45, 70, 77)

MAX_LIMIT_COUNT: Final = 5_000
MAX_SUBSCRIPTIONS_COUNT: Final = 50
MAX_FILTERS_COUNT: Final = 50
MAX_FILTER_VALUES_COUNT: Final = 5_000  # SQLite takes 32,766 in one statement
MAX_COMPARISONS_COUNT: Final = 4  # a client needs one; each costs about 230 bytes for every event compared
MAX_COMPARED_COUNT: Final = 250_000
MAX_AHEAD_SECONDS: Final = 900  # strfry's default
MAX_BACKLOG_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """The relay's limits. Clients can read all of them.

    Attributes:
        require_auth: whether a client has to authenticate first (NIP-42).
        max_message_bytes: largest message; a longer one closes the connection with code 1009.
        max_limit: most stored events in the answer to one filter, and the default limit of a filter.
        max_subscriptions: open subscriptions of one connection.
        max_filters: filters of one REQ.
        max_filter_values: values in all lists of one filter together.
        max_comparisons: open comparisons of one connection (NIP-77).
        max_compared: events of one comparison.
        max_future_seconds: seconds that an event may be dated ahead of the relay's clock.
        max_backlog_bytes: bytes that may wait for a client that does not read; with more, the connection is cut.

    Raises:
        InvalidSetting: a limit is not positive, or messages would be larger than the frame parser reads.
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
