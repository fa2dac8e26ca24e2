"""Liars: small, composable, seeded faults in front of an honest relay, for tests and drills.

`async with FaultyRelay(upstream_url, Withhold(ids), NoEose(), seed=7) as liar: … liar.url …` is a relay
on the loopback interface that lies in these ways; the first fault stands nearest to the client. With
`fault.on = False` a fault is honest again. The rows are those of the fault matrix.
"""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

from relays.proxy import HANGUP, Fault, FaultyRelay


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from relays.proxy import Frame, NostrEvent, Reply, Talk

__all__ = [
    "HANGUP", "CloseEvery", "Fault", "FaultyRelay", "Forge", "Inject", "LieInOk", "NoEose", "NoticeOnly",
    "Oversized", "Record", "Refuse", "Rollback", "Stall", "SwallowPublish", "Withhold",
]  # fmt: skip


# ── Witness ─────────────────────────────────────────────────────────────────────────────


class Record(Fault):
    """No lie: keeps what passes where it stands. First, it sees what the client sent and was told.

    Attributes:
        frames: (direction, frame) in order; the direction is "client" or "relay", whoever said it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[Literal["client", "relay"], Frame]] = []
        self._news = asyncio.Event()

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Note it."""
        return self._note("relay", frame)

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Note it."""
        return self._note("client", frame)

    def _note(self, who: Literal["client", "relay"], frame: Frame) -> Iterator[Frame]:
        self.frames.append((who, frame))
        self._news.set()
        yield frame

    def said(self, kind: str) -> list[Frame]:
        """The client's frames of a kind, such as "EVENT"."""
        return [frame for who, frame in self.frames if who == "client" and frame[0] == kind]

    def heard(self, kind: str) -> list[Frame]:
        """The relay's frames of a kind, such as "OK"."""
        return [frame for who, frame in self.frames if who == "relay" and frame[0] == kind]

    @property
    def published(self) -> list[str]:
        """Ids of the events that the client sent, in order, each as often as it was sent."""
        return [frame[1]["id"] for frame in self.said("EVENT")]

    async def until(self, happened: Callable[[Record], bool]) -> None:
        """Wait until something is true of this record; the caller bounds the wait."""
        while not happened(self):
            self._news.clear()
            await self._news.wait()


# ── Answers to REQ ──────────────────────────────────────────────────────────────────────


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


# ── Answers to EVENT ────────────────────────────────────────────────────────────────────


class Refuse(Fault):
    """Refuses every event with the same words (P-02, P-06)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "EVENT":
            talk.answer(["OK", frame[1]["id"], False, self.text])
        else:
            yield frame


class SwallowPublish(Fault):
    """Never answers an EVENT (P-05).

    Args:
        stores: whether the relay keeps it all the same.
    """

    def __init__(self, *, stores: bool = True) -> None:
        super().__init__()
        self.stores = stores

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Drop the event, unless it is to be stored."""
        if frame[0] != "EVENT" or self.stores:
            yield frame

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow OK."""
        if frame[0] != "OK":
            yield frame


class LieInOk(Fault):
    """Says OK to the wrong thing (P-04).

    Args:
        how: "other": of an event nobody sent, and nothing is stored. "early": of the events named, before
            they were sent, and nothing is stored. "twice": the true word, and then the opposite.
        early: ids of these events.
    """

    def __init__(self, how: Literal["other", "early", "twice"], early: Sequence[str] = ()) -> None:
        super().__init__()
        self.how, self.early = how, early

    def on_connect(self, talk: Talk) -> Iterable[Reply]:
        """OK before anything was sent."""
        return [["OK", ident, True, ""] for ident in self.early]

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Keep the events from the relay, unless it may tell the truth first."""
        if frame[0] == "EVENT" and self.how == "other":
            talk.answer(["OK", self.random.randbytes(32).hex(), True, ""])
        if frame[0] != "EVENT" or self.how == "twice":
            yield frame

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Say the opposite as well."""
        yield frame
        if frame[0] == "OK" and self.how == "twice":
            yield ["OK", frame[1], not frame[2], "blocked: changed my mind"]


# ── The connection ──────────────────────────────────────────────────────────────────────


class CloseEvery(Fault):
    """Hangs up after every n messages that it sent, over all connections (R-14)."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.sent = n, 0

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Deliver the n-th message and cut the line."""
        self.sent += 1
        yield frame
        if self.sent % self.n == 0:
            yield HANGUP


def _address(event: NostrEvent) -> tuple[int, str]:
    """Kind and first `d` tag: what a newer version replaces."""
    return event["kind"], next((tag[1] for tag in event["tags"] if tag[:1] == ["d"] and len(tag) > 1), "")
