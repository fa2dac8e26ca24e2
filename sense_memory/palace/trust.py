"""Who may speak: which memories may enter a prompt by themselves, and which are withheld, by rules. Pure.

A rule is a decision of a person about a source, a session or one text: to trust it, to quarantine it, or to revoke it.
Rules are records of the agent's memory, so every device applies them, also to what arrives later.

Guaranteed: trust never rises on the way. What is derived from others may speak only if every one of its sources may, and
is withheld if one of its parts is. A rule that trusts one text names its digest: another text at that path is not trusted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sense_memory.palace.sources import is_of, speaks


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LOG_PART: Final = "log:"  # `log:CONVERSATION/ID` names an entry of the log as a part
PASSAGE_PART: Final = "archive:"
BLOCK_PART: Final = "block:"
JOURNAL_PART: Final = "journal:"
_DIGEST_CHARS: Final = 32


class Effect(StrEnum):
    """What a rule does with what it is about."""

    TRUST = "trust"  # it may enter prompts by itself
    QUARANTINE = "quarantine"  # it is kept, and shown only when asked for
    REVOKE = (
        "revoke"  # as quarantine, and what lies at an address is forgotten, with a sealed copy for the undo
    )


@dataclass(frozen=True, slots=True)
class Statement:
    """What the rules have to know of one memory.

    Attributes:
        name: the path of a palace memory, a flat key, `archive:ID`, `block:LABEL`, `journal:ID` or
            `log:CONVERSATION/ID`.
        source: who said it.
        sources: the sources of everything that it is derived from.
        session: in which session, conversation or import it was written; empty if unknown.
        at: when the text was written, seconds since 1970.
        derived_from: the names of what it was made of.
        text: the words.
    """

    name: str
    source: str = ""
    sources: tuple[str, ...] = ()
    session: str = ""
    at: float = 0.0
    derived_from: tuple[str, ...] = ()
    text: str = field(default="", repr=False)

    @property
    def every_source(self) -> tuple[str, ...]:
        """Its own source, and those of what it is derived from."""
        return (self.source, *self.sources)


@dataclass(frozen=True, slots=True)
class TrustRule:
    """A decision about a source, a session, or one memory. What is empty does not narrow it.

    Attributes:
        id: names the rule.
        effect: trust, quarantine or revoke.
        source: such as `tool:browser`; `tool` means every tool.
        session: a session, a conversation, or an import.
        name: of one memory, see `Statement`.
        digest: of the text of that memory, for a rule that trusts.
        since: only what was written at this time or later, seconds since 1970; None for all.
        taken: the names of what the rule has forgotten; what is derived from them is withheld.
        made_at: when it was made, seconds since 1970.
        made_by: who made it.
        undone_at: when it was undone; None while it holds.
    """

    id: str
    effect: Effect
    source: str = ""
    session: str = ""
    name: str = ""
    digest: str = ""
    since: float | None = None
    taken: tuple[str, ...] = ()
    made_at: float = 0.0
    made_by: str = ""
    undone_at: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it was not undone."""
        return self.undone_at is None

    @property
    def withholds(self) -> bool:
        """Whether it holds, and keeps memories back."""
        return self.holds and self.effect is not Effect.TRUST

    def is_about(self, one: Statement) -> bool:
        """Whether a memory is one of those that the rule names, whatever it is derived from."""
        return (
            (not self.source or is_of(one.source, self.source))
            and (not self.session or one.session == self.session)
            and (not self.name or one.name == self.name)
            and (self.since is None or one.at >= self.since)
        )

    def reaches(self, one: Statement, withheld: Mapping[str, str], known: Mapping[str, Statement]) -> bool:
        """Whether a memory is derived from what the rule withholds.

        Where a part is gone, or was written again since, the sources that the memory names decide.

        Args:
            one: the memory.
            withheld: what is known to be withheld, by name.
            known: all memories by name.
        """
        if any(name in withheld or name in self.taken for name in one.derived_from):
            return True
        late = self.since is None or one.at >= self.since
        has_source = not self.source or any(is_of(source, self.source) for source in one.sources)
        if self.name or not late or not has_source:
            return False
        if self.session:
            return any(_conversation_of(name) == self.session for name in one.derived_from)
        parts = [known.get(name) for name in one.derived_from]
        return not parts or any(part is None or part.at > one.at for part in parts)


class TrustJudge:
    """Applies the rules that hold.

    Args:
        rules: all rules.
    """

    def __init__(self, rules: Iterable[TrustRule]) -> None:
        holding = [rule for rule in rules if rule.holds]
        self._withholding = [rule for rule in holding if rule.withholds]
        trusted = [rule for rule in holding if rule.effect is Effect.TRUST]
        self._texts = {(rule.name, rule.digest) for rule in trusted if rule.name}
        self._trusted = [rule for rule in trusted if not rule.name]

    @property
    def withholds(self) -> bool:
        """Whether any rule keeps memories back."""
        return bool(self._withholding)

    def may_speak(self, one: Statement) -> bool:
        """Whether a memory may enter a prompt although nobody asked for it. What is withheld never may, see `withheld`."""
        if (one.name, digest_of(one.text)) in self._texts:
            return True
        if any(rule.session and rule.is_about(one) for rule in self._trusted):
            return True
        if not speaks(one.source) and not self._trusts(one.source, one.at):
            return False
        return all(speaks(source) or self._trusts(source, one.at) for source in one.sources)

    def _trusts(self, source: str, at: float) -> bool:
        """Whether a whole source is trusted: a rule about one session of it says nothing about what others made of it."""
        about = Statement("", source, at=at)
        return any(not rule.session and rule.is_about(about) for rule in self._trusted)

    def withheld(
        self, statements: Iterable[Statement], held: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """The id of the rule that keeps a memory back, by the memory's name; also of what is derived from it.

        Args:
            statements: all memories.
            held: what is known to be kept back already, by name.
        """
        known = {one.name: one for one in statements}
        found = dict(held)
        waiting = list(known.values())
        while fresh := {one.name: rule for one in waiting if (rule := self.holds_back(one, found, known))}:
            found |= fresh
            waiting = [one for one in waiting if one.name not in fresh and (one.derived_from or one.sources)]
        return found

    def holds_back(self, one: Statement, held: Mapping[str, str], known: Mapping[str, Statement]) -> str:
        """The id of the rule that keeps one memory back; empty if none does.

        Args:
            one: the memory.
            held: what is kept back, by name, as far as it is known.
            known: what it may be derived from, by name.
        """
        for rule in self._withholding:
            if rule.is_about(one) or rule.reaches(one, held, known):
                return rule.id
        return ""


def digest_of(text: str) -> str:
    """What names a text in a rule: 32 hex digits of its SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]


def _conversation_of(name: str) -> str | None:
    """The conversation in the name of an entry of the log; None for other names."""
    return name.removeprefix(LOG_PART).rpartition("/")[0] if name.startswith(LOG_PART) else None
