"""Checks of what callers pass to a store, made before anything is done; each fault has its own sentence."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Required, TypedDict, TypeVar, cast, get_args

from sense_memory.errors import InvalidInput, InvalidRelayUrl, InvalidSetting
from sense_memory.limits import MAX_FUTURE_SECONDS, MAX_LINGER_SECONDS, MAX_SEND_JITTER_SECONDS
from sense_memory.plain_text import printable


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

_FunctionT = TypeVar("_FunctionT", bound="Callable[..., Any]")

ReviveRule = Literal["use", "recall"]  # what revives a memory; the first is the default
AddressMode = Literal["readable", "private"]  # the names that relays see; the first is the default
ContradictionMode = Literal["act", "suggest", "off"]  # the first is the default
SearchedPart = Literal["palace", "journal", "flat", "file"]
StateName = Literal["active", "fading", "forgotten", "dissolved"]
PlanName = Literal["free", "keep", "self_hosted"]
ADDRESS_MODES: Final[tuple[AddressMode, ...]] = get_args(AddressMode)
REVIVALS: Final = get_args(ReviveRule)
PROPOSAL_MODES: Final = ("review", "accept", "off")  # what hooks do with proposals; the first is the default
CONTRADICTION_MODES: Final[tuple[ContradictionMode, ...]] = get_args(ContradictionMode)


class MemoryFields(TypedDict, total=False):
    """The arguments of one memory of `palace.remember_many`: a path, or a domain, a facet and a key; and a value.

    The last ones are the past of a memory that moves here from another program.
    """

    value: Required[str]
    path: str
    domain: str
    facet: str
    key: str
    themes: Sequence[str]
    connections: Sequence[str]
    halflife_days: float | None
    source: str | None
    session: str | None
    observed_at: datetime | float | None
    derived_from: Sequence[str] | None
    sources: Sequence[str] | None
    confidence: float | None
    created_at: datetime | float | None
    relevance: float | None
    last_accessed: datetime | float | None
    last_reinforced: datetime | float | None
    written_at: datetime | float | None
    access_count: int | None
    contradicts: Sequence[str]
    superseded_by: str | None
    marked_by_hand: Sequence[str]
    dismissed: Sequence[str]


# ── Of calls ────────────────────────────────────────────────────────────────────────────


def value(given: object) -> str:
    """The text of a memory. Blank ones are refused when written; existing ones stay readable."""
    if not isinstance(given, str):
        raise InvalidInput(f"a memory's value must be text, not {type(given).__name__}; nothing was written")
    if not given.strip():
        raise InvalidInput(
            "a memory's value must not be blank (to remove the memory, forget it); nothing was written"
        )
    return given


def several(names: object, what: str) -> list[Any]:
    """A list of names from any iterable but a single text, whose items would be letters."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InvalidInput(f"{what} must be a list or another iterable; nothing was changed")
    return list(names)


def pairs(given: object) -> Iterable[object]:
    """Pairs of key and value, from a mapping or any iterable."""
    if isinstance(given, Mapping):
        return given.items()
    if not isinstance(given, Iterable):
        raise InvalidInput("give a mapping, or pairs of key and value; nothing was written")
    return given


def callback(given: object, name: str) -> None:
    """Check that an argument is a function or None; a class is not a function."""
    if given is not None and (not callable(given) or isinstance(given, type)):
        raise InvalidInput(f"{name} must be a function, or None; nothing was done")


def file(given: object, method: str) -> Path | BinaryIO:
    """A path, or an open file with a method of that name."""
    if isinstance(given, str | os.PathLike):
        return path(given)
    if not callable(getattr(given, method, None)) or isinstance(given, type):
        raise InvalidInput("give the name of a file, or an open binary file; nothing was done")
    return cast("BinaryIO", given)


def path(given: object) -> Path:
    """A path that a file can have."""
    named = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(named, str) or not named or "\0" in named or not _is_encodable(named):
        raise InvalidInput(f"{printable(repr(given))} cannot be the name of a file; nothing was done")
    return Path(named)


def draft_number(given: object) -> int:
    """A number that a draft can have."""
    if type(given) is not int or not 0 < given < 2**63:
        raise InvalidInput(f"there is no draft {printable(repr(given))}; nothing was changed")
    return given


def moment(given: object) -> float:
    """A time in seconds since 1970, from such a number or a `datetime`."""
    at = _seconds(given)
    if isinstance(at, bool) or not isinstance(at, int | float) or math.isnan(at):
        raise InvalidInput("a time must be a datetime or a number of seconds since 1970")
    return at


def _seconds(given: object) -> object:
    """A `datetime` as seconds since 1970, or None if it cannot be converted; anything else unchanged."""
    timestamp = getattr(given, "timestamp", None)
    try:
        return timestamp() if callable(timestamp) and not isinstance(given, type) else given
    except (ValueError, OverflowError):  # a datetime without a zone, so early that no local time exists
        return None


def written_at(given: object, now: float) -> float:
    """When something was written: seconds since 1970, a `datetime`, or None for now.

    Raises:
        InvalidInput: no such time, one before 1970, or one further in the future than a clock may be wrong.
    """
    if given is None:
        return now
    at = _seconds(given)
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= now + MAX_FUTURE_SECONDS:
        raise InvalidInput(
            "created_at must be a datetime or a number of seconds since 1970, and not in the future; "
            "nothing was written"
        )
    return float(at)


def contradictions(given: object) -> ContradictionMode:
    """A mode for contradictions: act, suggest or off."""
    if given not in CONTRADICTION_MODES:
        raise InvalidInput(f"contradictions must be 'act', 'suggest' or 'off', not {printable(repr(given))}")
    return given


def revive(given: object) -> ReviveRule:
    """What revives a memory: use or recall."""
    if given not in REVIVALS:
        raise InvalidInput(f"revive must be 'use' or 'recall', not {printable(repr(given))}")
    return cast("ReviveRule", given)


def min_acks(given: object) -> int | None:
    """How many relays must have a memory, 1 or more; or None."""
    if given is not None and (type(given) is not int or given < 1):
        raise InvalidInput("min_acks must be a whole number of relays, 1 or more, or None")
    return given


# ── Of the constructor ──────────────────────────────────────────────────────────────────


def urls(given: object) -> Iterable[Any]:
    """URLs of relays; a single text is one URL."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InvalidRelayUrl("give relays as a list of URLs")
    return given


def settings(agent: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that override settings; relays as a list, or None."""
    if agent is not None and not isinstance(agent, str):
        raise InvalidSetting("agent", "argument", "must be a name")
    relays = None if options.get("relays") is None else list(urls(options["relays"]))
    if any(not isinstance(url, str) for url in relays or ()):
        raise InvalidRelayUrl("give relays as a list of URLs")
    ledger(options.get("ledger"))
    return {**options, "relays": relays}


def ledger(given: object) -> str | Path | None:
    """Where a ledger lies: a path, `:memory:`, or None."""
    return None if given is None else ":memory:" if given == ":memory:" else path(given)


def function(given: _FunctionT, name: str) -> _FunctionT:
    """A function; a class is not a function."""
    if not callable(given) or isinstance(given, type):
        raise InvalidInput(f"{name} must be a function")
    return given


def timeout(seconds: object, name: str) -> float:
    """How long a call may wait, in seconds."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= cast("float", seconds) <= MAX_LINGER_SECONDS:
        raise InvalidSetting(
            name, "argument", f"must be a number of seconds from 0 to {MAX_LINGER_SECONDS:,}"
        )
    return float(cast("float", seconds))


@dataclass(frozen=True, slots=True)
class ShownToRelays:
    """What relays learn of what a store writes.

    Attributes:
        addresses: whether they see names.
        pads: whether they see one of four sizes instead of the length of each text.
        send_jitter: seconds, at most, by which the background sends later than something was written.
    """

    addresses: AddressMode
    pads: bool
    send_jitter: float


def shown_to_relays(addresses: object, pad_sizes: object, send_jitter: object) -> ShownToRelays:
    """The arguments of `MemoryStore` about what relays learn; texts are padded by default where addresses are private."""
    if addresses not in ADDRESS_MODES:
        raise InvalidInput(f"addresses must be 'readable' or 'private', not {printable(repr(addresses))}")
    if not (pad_sizes is None or isinstance(pad_sizes, bool)):
        raise InvalidInput(f"pad_sizes must be True, False or None, not {printable(repr(pad_sizes))}")
    is_number = isinstance(send_jitter, int | float) and not isinstance(send_jitter, bool)
    if not is_number or not 0 <= cast("float", send_jitter) <= MAX_SEND_JITTER_SECONDS:
        problem = f"must be a number of seconds from 0 to {MAX_SEND_JITTER_SECONDS}"
        raise InvalidSetting("send_jitter", "argument", problem)
    mode: AddressMode = addresses
    pads = mode == "private" if pad_sizes is None else pad_sizes
    return ShownToRelays(mode, pads, float(cast("float", send_jitter)))


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
