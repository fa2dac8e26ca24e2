"""Lies in the answers to EVENT: refused, swallowed, contradicted, or accepted and thrown away."""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from relays.proxy import Fault


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from relays.proxy import Frame, NostrEvent, Reply, Talk


class Refuse(Fault):
    """Refuses events with the same words (P-02, P-06, T-06, P-15).

    Args:
        text: of each OK false.
        when: which events; all of them unless given.
    """

    def __init__(self, text: str, when: Callable[[NostrEvent], bool] = lambda _: True) -> None:
        super().__init__()
        self.text, self.when = text, when

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "EVENT" and self.when(frame[1]):
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


class ForgetAfterAck(Fault):
    """Says OK to events and throws them away (P-07).

    Args:
        what: which events; all of them unless given.
    """

    def __init__(self, what: Callable[[NostrEvent], bool] = lambda _: True) -> None:
        super().__init__()
        self.what = what

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "EVENT" and self.what(frame[1]):
            talk.answer(["OK", frame[1]["id"], True, ""])
        else:
            yield frame


class DeletesWhateverTheDate(Fault):
    """Deletes at once all that a kind 5 names, newer versions too; later ones are welcome (D-12, D-13).

    Args:
        keeps: whether it keeps the kind 5; `@nostr-relay/core` does not.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        super().__init__()
        self.keeps = keeps
        self._published: dict[str, set[str]] = {}  # ids by address
        self._gone: set[str] = set()

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Note what is published, and hide what is deleted."""
        if frame[0] == "EVENT" and frame[1]["kind"] == 5:
            for name, value, *_ in frame[1]["tags"]:
                self._gone |= {value} if name == "e" else self._published.get(value, set())
            if not self.keeps:
                talk.answer(["OK", frame[1]["id"], True, ""])
                return
        elif frame[0] == "EVENT":
            event = frame[1]
            address = f"{event['kind']}:{event['pubkey']}:{event['tags'][0][1]}"
            self._published.setdefault(address, set()).add(event["id"])
            self._gone.discard(event["id"])
        yield frame

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow what was deleted."""
        if frame[0] != "EVENT" or frame[2]["id"] not in self._gone:
            yield frame


class RateLimit(Fault):
    """Takes so many events in so many seconds and refuses the others for now (P-10).

    Args:
        tokens: events at once, and in each period.
        per: seconds of a period.
        clock: seconds; the fault has none of its own.
    """

    def __init__(self, tokens: int, per: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self.tokens, self.per, self._clock = tokens, per, clock
        self._left, self._filled_at = float(tokens), clock()

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay where there is no token left."""
        if frame[0] == "EVENT" and not self._has_token():
            talk.answer(["OK", frame[1]["id"], False, "rate-limited: slow down"])
        else:
            yield frame

    def _has_token(self) -> bool:
        now = self._clock()
        gained = (now - self._filled_at) * self.tokens / self.per
        self._left, self._filled_at = min(self._left + gained, float(self.tokens)), now
        if self._left < 1:
            return False
        self._left -= 1
        return True
