"""Lies in the answers to REQ: withheld, invented, old, forged, repeated, slow, or never finished.

Each stands between an honest relay and a client (see `relays.proxy`).
"""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from relays.proxy import Fault, Pause


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from relays.proxy import Frame, NostrEvent, Reply, Talk


_TOKENS = (
    "[", "]", "{", "}", '"', ",", ":", "\\", "\\u0000", "\\ud800", "null", "true", "NaN", "-1", "1e400", "9" * 400,
    "0.1", '""', '"EVENT"', "[" * 40, '{"id":1}', "\u2028", "\uff11", "\x7f", "\U0001f9e0", " ", "\n",
)  # fmt: skip


class Stall(Fault):
    """Falls silent in the middle of an answer, after so many events of it (R-03, R-04)."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow the rest of an answer, EOSE included."""
        if frame[0] in {"EVENT", "EOSE"} and talk.answered[frame[1]] >= self.after:
            return
        yield frame


class NoEose(Fault):
    """Sends every stored event and never says that this was all (R-03)."""

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow EOSE."""
        if frame[0] != "EOSE":
            yield frame


class EarlyEose(Fault):
    """Says at once that this was all, and sends the stored events afterwards (R-06).

    A CLOSE does not stop it.
    """

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """End each answer before it begins."""
        if frame[0] == "REQ":
            talk.answer(["EOSE", frame[1]])
        if frame[0] != "CLOSE":
            yield frame

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow the true end."""
        if frame[0] != "EOSE":
            yield frame


class Drip(Fault):
    """Sends one event of an answer in so many seconds, and never ends (R-04)."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Wait before each event; swallow EOSE."""
        if frame[0] == "EVENT":
            yield Pause(self.seconds)
        if frame[0] != "EOSE":
            yield frame


class ClosedOnly(Fault):
    """Refuses every REQ with CLOSED and the same words (R-07)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "REQ":
            talk.answer(["CLOSED", frame[1], self.text])
        else:
            yield frame


class NoticeOnly(Fault):
    """Refuses a REQ with nothing but a NOTICE, as old relays do (R-05, W-11)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "REQ":
            talk.answer(["NOTICE", self.text])
        else:
            yield frame


class Withhold(Fault):
    """Leaves events out of its answers: by id, or whatever a predicate names (V-06, V-09).

    Attributes:
        withheld: ids that were left out so far.
    """

    def __init__(self, what: Collection[str] | Callable[[NostrEvent], bool]) -> None:
        super().__init__()
        self._hides = what if callable(what) else lambda event: event["id"] in what
        self.withheld: set[str] = set()

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow the events."""
        if frame[0] == "EVENT" and self._hides(frame[2]):
            self.withheld.add(frame[2]["id"])
        else:
            yield frame


class SplitView(Fault):
    """Shows each client another world (V-05).

    Args:
        hides: whether an event is hidden on a connection, counted from 1.
    """

    def __init__(self, hides: Callable[[int, NostrEvent], bool]) -> None:
        super().__init__()
        self.hides = hides

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow what this client is not to see."""
        if frame[0] != "EVENT" or not self.hides(talk.number, frame[2]):
            yield frame


class Rollback(Fault):
    """Serves older versions as if the newer had never been (V-01, D-01).

    Args:
        old: the older events.
        beside: serve the newer version too; otherwise the old one takes its place.
    """

    def __init__(self, old: Sequence[NostrEvent], *, beside: bool = False) -> None:
        super().__init__()
        self.old, self.beside = list(old), beside

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow what is newer, and serve the old before EOSE wherever its kind was asked for."""
        if frame[0] == "EOSE":
            for event in self.old:
                if talk.asks_for(frame[1], event["kind"]):
                    yield ["EVENT", frame[1], event]
        elif frame[0] == "EVENT" and not self.beside and self._is_rolled_back(frame[2]):
            return
        yield frame

    def _is_rolled_back(self, event: NostrEvent) -> bool:
        return event["kind"] >= 30_000 and _address(event) in map(_address, self.old)


class Forge(Fault):
    """Alters the events it serves (E-01, E-02, E-05).

    Args:
        what: "sig" and "content" change one random character, "author" the key, "time" and "tag" what
            they say; nothing is signed again.
        beside: serve the true event too, after the forged one (E-06).
    """

    def __init__(
        self, what: Literal["sig", "content", "author", "time", "tag"], *, beside: bool = False
    ) -> None:
        super().__init__()
        self.what, self.beside = what, beside

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Serve the altered event."""
        if frame[0] == "EVENT":
            yield ["EVENT", frame[1], self.altered(frame[2])]
        if frame[0] != "EVENT" or self.beside:
            yield frame

    def altered(self, event: NostrEvent) -> dict[str, Any]:
        """A forged copy."""
        match self.what:
            case "sig" | "content":
                return {**event, self.what: self._one_off(event[self.what])}
            case "author":
                return {**event, "pubkey": self.random.randbytes(32).hex()}
            case "time":
                return {**event, "created_at": event["created_at"] + self.random.randint(1, 60)}
            case "tag":
                return {**event, "tags": [*event["tags"], ["t", self.random.randbytes(4).hex()]]}

    def _one_off(self, text: str) -> str:
        """One hex digit (or letter of base64) replaced by another."""
        place = self.random.randrange(len(text))
        other = self.random.choice([digit for digit in "0123456789abcdef" if digit != text[place]])
        return text[:place] + other + text[place + 1 :]


class Inject(Fault):
    """Sends arbitrary raw messages before the EOSE of each answer, or when a client connects (W rows, E rows).

    Args:
        messages: text, in which `$sub` stands for the subscription's id; or bytes, sent as they are.
        kind: only in answers to subscriptions that ask for this kind.
        at_connect: on connecting instead, once.
    """

    def __init__(self, *messages: str | bytes, kind: int | None = None, at_connect: bool = False) -> None:
        super().__init__()
        self.messages, self.kind, self.at_connect = messages, kind, at_connect

    def on_connect(self, talk: Talk) -> Iterable[Reply]:
        """Send them now, if that was asked for."""
        return self.messages if self.at_connect else ()

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Send them before EOSE."""
        if (
            frame[0] == "EOSE"
            and not self.at_connect
            and (self.kind is None or talk.asks_for(frame[1], self.kind))
        ):
            for message in self.messages:
                yield message if isinstance(message, bytes) else message.replace("$sub", frame[1])
        yield frame


class Flood(Fault):
    """Sends the last event of each answer again and again before EOSE (R-11)."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self._last: dict[str, Frame] = {}

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Repeat the event before EOSE."""
        if frame[0] == "EVENT":
            self._last[frame[1]] = frame
        if frame[0] == "EOSE" and (event := self._last.pop(frame[1], None)):
            text = json.dumps(event)
            for _ in range(self.count):
                yield text
        yield frame


class Fuzz(Fault):
    """Sends so many randomly altered frames before each EOSE (W-12).

    Attributes:
        sent: how many so far.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count, self.sent = count, 0
        self._event: Frame = ["EVENT", "", {}]

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Send them before EOSE; the last event that passed is one of the models."""
        if frame[0] == "EVENT":
            self._event = frame
        if frame[0] == "EOSE":
            for _ in range(self.count):
                self.sent += 1
                yield self.altered(frame[1])
        yield frame

    def altered(self, subscription: str) -> str | bytes:
        """A frame that a relay might send, with one to four random alterations."""
        event = self._event[2]
        models: list[Frame] = [
            ["EVENT", subscription, event],
            ["EOSE", subscription],
            ["OK", event.get("id", "0" * 64), True, ""],
            ["CLOSED", subscription, "error: no"],
            ["NOTICE", "slow down"],
            ["AUTH", self.random.randbytes(16).hex()],
            ["COUNT", subscription, {"count": 3}],
            ["NEG-MSG", subscription, "6100000200"],
            ["NEG-ERR", subscription, "blocked: too many records"],
        ]
        text = json.dumps(self.random.choice(models), ensure_ascii=self.random.random() < 0.5)
        for _ in range(self.random.randint(1, 4)):
            text = self._alteration(text)
        return text.encode() if self.random.random() < 0.02 else text

    def _alteration(self, text: str) -> str:
        start, end = sorted(self.random.randint(0, len(text)) for _ in range(2))
        token = self.random.choice(_TOKENS)
        match self.random.randint(0, 5):
            case 0:
                return text[:start] + text[end:]
            case 1:
                return text[:end] + text[start:]
            case 2:
                return text[:start]
            case 3:
                return text[:start] + token + text[start:]
            case 4:
                return text[:start] + token + text[start + 1 :]
            case _:
                parts = text.split(",")
                parts[self.random.randrange(len(parts))] = token
                return ",".join(parts)


class Oversized(Fault):
    """Answers a REQ with one message that is too large for anybody (W-02)."""

    def __init__(self, size: int = 2 * 1024 * 1024) -> None:
        super().__init__()
        self.size = size

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "REQ":
            talk.answer(json.dumps(["NOTICE", "x" * self.size]))
        else:
            yield frame


def _address(event: NostrEvent) -> tuple[int, str]:
    """Kind and first `d` tag: what a newer version replaces."""
    return event["kind"], next((tag[1] for tag in event["tags"] if tag[:1] == ["d"] and len(tag) > 1), "")
