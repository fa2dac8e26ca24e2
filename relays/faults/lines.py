"""Lies of the connection itself: cut, deaf, never authenticated enough, or described wrongly."""

# ruff: noqa: ARG002 - the hooks share one signature

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Literal

from relays.proxy import HANGUP, TOO_LARGE, Fault, Pause


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from relays.proxy import Frame, NostrEvent, Reply, Talk


class CloseEvery(Fault):
    """Hangs up after every n messages that it sent, over all connections; its greeting is none (R-14)."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.sent = n, 0

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Deliver the n-th message and cut the line."""
        yield frame
        if frame[0] != "AUTH":
            self.sent += 1
            if self.sent % self.n == 0:
                yield HANGUP


class HangUpAt(Fault):
    """Hangs up at some events, and says nothing of its limits (P-17).

    Args:
        what: at which.
        says_why: with code 1009, as for a message that is too large; otherwise without a word.
    """

    def __init__(self, what: Callable[[NostrEvent], bool], *, says_why: bool = True) -> None:
        super().__init__()
        self.what, self.says_why = what, says_why

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Cut the line at such an event."""
        if frame[0] == "EVENT" and self.what(frame[1]):
            yield TOO_LARGE if self.says_why else HANGUP
        else:
            yield frame

    def information(self, document: bytes) -> bytes:
        """Say nothing."""
        return b""


class Deaf(Fault):
    """Stops reading what the client sends, after so many messages of a connection (R-15)."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after
        self._read: Counter[int] = Counter()

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Take no notice of anything for a hundred years."""
        self._read[talk.number] += 1
        if self._read[talk.number] > self.after:
            yield Pause(3e9)
        yield frame


class AuthGate(Fault):
    """Takes events of authenticated clients only, and believes every authentication (R-09, R-10).

    Attributes:
        challenge: what it sends to whoever connects.
    """

    def __init__(self, challenge: str = "prove it") -> None:
        super().__init__()
        self.challenge = challenge
        self._known: set[int] = set()

    def on_connect(self, talk: Talk) -> Iterable[Reply]:
        """Challenge the client."""
        return [["AUTH", self.challenge]]

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow the challenge of the relay behind."""
        if frame[0] != "AUTH":
            yield frame

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Let events through once there was an AUTH."""
        if frame[0] == "AUTH":
            self._known.add(talk.number)
            talk.answer(["OK", frame[1]["id"], True, ""])
        elif frame[0] == "EVENT" and talk.number not in self._known:
            talk.answer(["OK", frame[1]["id"], False, "auth-required: who are you"])
        else:
            yield frame


class HidesKinds(Fault):
    """Hides kinds from clients that it does not know, as strfry does since July 2026 (R-23).

    It refuses a filter that names only such kinds, and a count that names any of them, and leaves them out of a mixed
    answer, of a live subscription and of a comparison without a word.

    Args:
        kinds: which.
        auth: what becomes of an authentication: it "works"; it is "refused", as where strfry has no `serviceUrl`; or
            it never begins, because there is "no challenge".
        compares: whether comparisons contain the kinds for clients that it knows; those of strfry do not.
        says_so: whether it refuses a filter that names only such kinds; otherwise its answer is empty.
        counts: whether its document says that it counts (NIP-45).
    """

    def __init__(
        self,
        *kinds: int,
        auth: Literal["works", "refused", "no challenge"] = "no challenge",
        compares: bool = False,
        says_so: bool = True,
        counts: bool = True,
    ) -> None:
        super().__init__()
        self.kinds, self.auth, self.compares, self.says_so = frozenset(kinds), auth, compares, says_so
        self.counts = counts
        self._known: set[int] = set()
        self._challenged: set[int] = set()

    def information(self, document: bytes) -> bytes:
        """Leave NIP-45 out if it does not count."""
        return document if self.counts else _without_nip(document, 45)

    def from_relay(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Swallow the events of the kinds, and the challenge of the relay behind."""
        hidden = frame[0] == "EVENT" and frame[2]["kind"] in self.kinds and talk.number not in self._known
        if frame[0] != "AUTH" and not hidden:
            yield frame

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay where only such kinds are asked for, and take them out of other comparisons."""
        known, verb = talk.number in self._known, frame[0]
        if verb == "AUTH":
            self._authenticate(frame, talk)
            return
        if verb in {"REQ", "COUNT", "NEG-OPEN"} and self.says_so and not known and self._must_refuse(frame):
            self._refuse(frame, talk)
            return
        if verb == "NEG-OPEN" and not (known and self.compares):
            frame[2] = self._visible(frame[2])
        yield frame

    def _must_refuse(self, frame: Frame) -> bool:
        wanted = frame[2:3] if frame[0] == "NEG-OPEN" else frame[2:]
        if frame[0] == "COUNT":
            return not all(self.kinds.isdisjoint(one.get("kinds") or ()) for one in wanted)
        return all(self.kinds.issuperset(one.get("kinds") or [-1]) for one in wanted)

    def _visible(self, wanted: NostrEvent) -> NostrEvent:
        kinds = [kind for kind in wanted["kinds"] if kind not in self.kinds]
        return {**wanted, "kinds": kinds} if kinds else {**wanted, "ids": ["0" * 64]}

    def _refuse(self, frame: Frame, talk: Talk) -> None:
        if self.auth != "no challenge" and talk.number not in self._challenged:
            self._challenged.add(talk.number)
            talk.answer(["AUTH", f"challenge {talk.number}"])
        words = "auth-required: requested filter requires authentication"
        if frame[0] == "NEG-OPEN":
            talk.answer(["NEG-ERR", frame[1], words])
        else:
            talk.answer(["CLOSED", frame[1], f"ERROR: {words}"])

    def _authenticate(self, frame: Frame, talk: Talk) -> None:
        if self.auth == "works":
            self._known.add(talk.number)
            talk.answer(["OK", frame[1]["id"], True, "successfully authenticated"])
        else:
            words = "error: relay needs serviceUrl to be configured before AUTH can work"
            talk.answer(["OK", frame[1]["id"], False, words])


class AuthStorm(Fault):
    """Sends challenges without end and is never satisfied by any answer (R-08).

    Args:
        count: challenges on connecting; every EVENT and REQ brings another.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def on_connect(self, talk: Talk) -> Iterable[Reply]:
        """Challenge the client so many times."""
        return (self._challenge() for _ in range(self.count))

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Ask for another authentication, whatever it is."""
        match frame[0]:
            case "AUTH":
                talk.answer(self._challenge(), ["OK", frame[1]["id"], False, "error: too slow, once more"])
            case "EVENT":
                talk.answer(self._challenge(), ["OK", frame[1]["id"], False, "auth-required: once more"])
            case "REQ":
                talk.answer(self._challenge(), ["CLOSED", frame[1], "auth-required: once more"])
            case _:
                yield frame

    def _challenge(self) -> Frame:
        return ["AUTH", self.random.randbytes(16).hex()]


class Information(Fault):
    """Describes itself as it likes (NIP-11; R-16, P-15).

    Args:
        document: instead of the relay's own: bytes as they are, anything else as JSON.
    """

    def __init__(self, document: object) -> None:
        super().__init__()
        self.document = document if isinstance(document, bytes) else json.dumps(document).encode()

    def information(self, document: bytes) -> bytes:
        """Hand out another document."""
        return self.document


class NoNegentropy(Fault):
    """No lie: does not compare (NIP-77), as older relays, and does not say that it would."""

    def information(self, document: bytes) -> bytes:
        """Leave 77 out."""
        return _without_nip(document, 77)

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Not know what the client means."""
        if frame[0].startswith("NEG-"):
            talk.answer(["NOTICE", "ERROR: bad msg: unknown cmd"])
        else:
            yield frame


class ClaimsEquality(Fault):
    """Says in every comparison (NIP-77) that nothing differs, whatever it holds."""

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Answer instead of the relay."""
        if frame[0] == "NEG-OPEN":
            talk.answer(["NEG-MSG", frame[1], "61"])
        elif frame[0] not in {"NEG-MSG", "NEG-CLOSE"}:
            yield frame


class ExclusiveUntil(Fault):
    """Leaves out the second that `until` names, which NIP-01 takes in (R-20)."""

    def from_client(self, frame: Frame, talk: Talk) -> Iterable[Reply]:
        """Ask the relay behind for what ends a second earlier."""
        if frame[0] == "REQ":
            frame[2:] = [
                wanted | {"until": wanted["until"] - 1} if wanted.get("until") else wanted
                for wanted in frame[2:]
            ]
        yield frame


def _without_nip(document: bytes, left_out: int) -> bytes:
    found = json.loads(document or b"{}")
    found["supported_nips"] = [nip for nip in found.get("supported_nips", []) if nip != left_out]
    return json.dumps(found).encode()
