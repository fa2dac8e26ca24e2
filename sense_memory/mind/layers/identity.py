"""The identity of an agent, distilled from its topics, and its objectives (layered memory, layer 4).

The identity is one record; every refresh is a new version, and earlier identities stay in the history. A refresh is due
after enough new thoughts, or when the summaries of the topics have changed enough; a single request never causes one.
Each objective is a record; the identity names the active objectives.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from sense_memory.errors import InvalidInput
from sense_memory.mind.call_checks import checked
from sense_memory.mind.fields import list_in
from sense_memory.mind.layers.topic_choice import fitting
from sense_memory.mind.model import CheckCoherence, Coherence, DistillIdentity
from sense_memory.mind.salience import words
from sense_memory.mind.versioned import VersionedRecords
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sense_memory.mind.layers.topics import Topics
    from sense_memory.mind.model import LanguageModel
    from sense_memory.mind.records import MindRecord, MindRecords

STATUSES: Final = ("active", "done", "dropped")
EVERY_COUNT: Final = 20  # thoughts between two refreshes
MOVED_SHARE: Final = 0.5  # a refresh is due if this share of the words in topic summaries has changed
_IDENTITY: Final = "identity"


@dataclass(frozen=True, slots=True)
class Objective:
    """A goal that persists.

    Attributes:
        id: 16 hex digits.
        text: the goal.
        priority: 1 is the highest.
        status: active, done or dropped.
        at: when it was set, seconds since 1970.
    """

    id: str
    text: str
    priority: int = 3
    status: str = "active"
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The identity model of the layered memory.

    Attributes:
        themes: a narrative summary.
        roles: what the agent is.
        objectives: the ids of the active objectives, by priority.
        values: the agent's values.
        tensions: views of the agent that conflict.
        recent_reflections: the ids of the newest thoughts at the time of the distillation.
        covered: the number of thoughts at that time.
        sketch: a sketch of the words in the topic summaries, which shows how much they have changed since.
        at: when the identity was distilled, seconds since 1970; None for the empty identity.
        is_by_rule: whether rules distilled the identity, and not a language model.
        own_roles, own_values: roles and values that were set by hand; they come first, and a refresh keeps them.
        left_out: how many topics with summaries were too many for the request, and not read; those with fewest passages.
    """

    themes: str = ""
    roles: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    tensions: tuple[str, ...] = ()
    recent_reflections: tuple[str, ...] = ()
    covered: int = 0
    sketch: tuple[int, ...] = field(default=(), repr=False)
    at: float | None = None
    is_by_rule: bool = False
    own_roles: tuple[str, ...] = ()
    own_values: tuple[str, ...] = ()
    left_out: int = 0

    def lines(self) -> tuple[str, ...]:
        """The identity as lines of text for a prompt: themes, roles, tensions."""
        roles = (f"I am a {role}." for role in self.roles)
        return tuple(filter(None, (self.themes, *roles, *self.tensions)))


@checked
class IdentityKernel:
    """The identity and the objectives of an agent.

    Args:
        records: reads and writes the identity and the objectives.
        topics: the topics from which the identity is distilled; they also give the model.
    """

    def __init__(self, records: MindRecords, topics: Topics) -> None:
        self._clock, self._topics = records.store.options.clock, topics
        self._identities = VersionedRecords(records, address.MIND, _identity, _fields)
        self._objectives = VersionedRecords(
            records, f"{address.MIND}objective/", _objective, _objective_fields
        )

    @property
    def _model(self) -> LanguageModel:
        return self._topics.model

    # ── Identity ────────────────────────────────────────────────────────────────────────

    async def get(self) -> AgentIdentity:
        """The current identity; an empty identity before the first refresh."""
        return await self._identities.get(_IDENTITY) or AgentIdentity()

    async def history(self) -> list[AgentIdentity]:
        """The versions of the identity in this ledger, newest first."""
        return await self._identities.history(_IDENTITY)

    async def is_due(self, *, every: int = EVERY_COUNT, moved: float = MOVED_SHARE) -> bool:
        """Whether there are enough new thoughts, or enough changes of topic summaries, since the last refresh.

        Args:
            every: the number of thoughts that make a refresh due.
            moved: the share of changed words in all summaries that makes a refresh due, 0 to 1.
        """
        before, topics = await self.get(), await self._topics.all()
        covered = sum(topic.covered for topic in topics)
        if not covered:
            return False
        if before.at is None or covered - before.covered >= every:
            return True
        return 1 - _similarity(before.sketch, _sketch(topic.summary for topic in topics)) >= moved

    async def refresh_identity_kernel(self) -> AgentIdentity:
        """Distil a new identity from the topic summaries, as many as fit a request; topics with most passages come first.

        Raises:
            ModelError: the model gave no valid answer; the identity was not changed.
        """
        topics, objectives = await self._topics.all(), await self.objectives()
        summaries = {topic.name: topic.summary for topic in topics if topic.summary}
        shown = fitting(summaries.items())
        newest = [topic.last for topic in topics if topic.last]

        async def distilled(before: AgentIdentity) -> AgentIdentity:
            task = DistillIdentity(
                topic_summaries=shown,
                objectives=tuple(objective.text for objective in objectives),
                previous_themes=before.themes,
                left_out=len(summaries) - len(shown),
            )
            answer = await self._model.answer(task)
            return replace(
                before,
                themes=answer.themes,
                roles=_first(before.own_roles, answer.roles),
                objectives=tuple(objective.id for objective in objectives),
                values=_first(before.own_values, answer.values),
                tensions=answer.tensions,
                recent_reflections=tuple(sorted(newest, reverse=True)[:10]),
                covered=sum(topic.covered for topic in topics),
                sketch=_sketch(summaries.values()),
                is_by_rule=answer.is_by_rule,
                left_out=task.left_out,
            )

        return await self._rewrite(distilled)

    async def set_values(self, values: Iterable[str] | str) -> AgentIdentity:
        """Set the values of the agent, such as "never share private keys"; an empty list removes them.

        These values come before the values that are distilled from topics. Every refresh keeps them, and `check` compares
        outputs with them.

        Raises:
            InvalidInput: a value is not a text, or is empty; nothing was changed.
        """
        own = _checked_texts(values, "value")

        async def edited(before: AgentIdentity) -> AgentIdentity:
            found = (value for value in before.values if value not in before.own_values)
            return replace(before, own_values=own, values=_first(own, found))

        return await self._rewrite(edited)

    async def set_roles(self, roles: Iterable[str] | str) -> AgentIdentity:
        """Set the roles of the agent, such as "careful archivist"; as `set_values`."""
        own = _checked_texts(roles, "role")

        async def edited(before: AgentIdentity) -> AgentIdentity:
            found = (role for role in before.roles if role not in before.own_roles)
            return replace(before, own_roles=own, roles=_first(own, found))

        return await self._rewrite(edited)

    async def _rewrite(self, edit: Callable[[AgentIdentity], Awaitable[AgentIdentity]]) -> AgentIdentity:
        """Edit the current identity, again if it changes meanwhile; returns the new version."""

        async def edited(before: AgentIdentity | None) -> AgentIdentity:
            return replace(await edit(before or AgentIdentity()), at=self._clock())

        return await self._identities.change(_IDENTITY, edited)

    async def check(self, output: str) -> Coherence:
        """Compare an output with the identity, the active objectives and the values.

        Raises:
            ModelError: the model gave no valid answer.
        """
        identity, objectives = await self.get(), await self.objectives()
        task = CheckCoherence(
            output=output,
            identity=identity.lines(),
            objectives=tuple(objective.text for objective in objectives),
            values=identity.values,
        )
        return await self._model.answer(task)

    # ── Objectives ──────────────────────────────────────────────────────────────────────

    async def objectives(self, *, status: str | None = "active") -> list[Objective]:
        """The objectives by priority, then by age.

        Args:
            status: only objectives with this status; None for all.
        """
        found = await self._objectives.all()
        wanted = (objective for objective in found.values() if status is None or objective.status == status)
        return sorted(wanted, key=lambda objective: (objective.priority, objective.at, objective.id))

    async def set_objective(self, text: str, *, priority: int = 3) -> Objective:
        """Add an objective. Raises InvalidInput if the text is empty or the priority is not 1 to 9."""
        new = Objective(secrets.token_hex(8), text, priority, "active", self._clock())
        return await self._change(new.id, lambda _: new, new)

    async def change_objective(
        self,
        objective_id: str,
        *,
        text: str | None = None,
        priority: int | None = None,
        status: str | None = None,
    ) -> Objective:
        """Change the given fields of an objective; returns the new version.

        Raises:
            InvalidInput: no objective has this id, or a value is not valid; nothing was changed.
        """
        given = {"text": text, "priority": priority, "status": status}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if not any(item.id == objective_id for item in await self.objectives(status=None)):
            raise InvalidInput("no objective has this id")
        return await self._change(objective_id, lambda found: replace(found, **changes))

    async def _change(
        self, objective_id: str, edit: Callable[[Objective], Objective], new: Objective | None = None
    ) -> Objective:
        """Edit the current version of an objective, again if it changes meanwhile; returns the new version."""

        async def edited(found: Objective | None) -> Objective:
            before = found or new
            if before is None:
                raise InvalidInput("no objective has this id")
            return _checked(edit(before))

        return await self._objectives.change(objective_id, edited)


def _first(own: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *others)))


def _checked_texts(given: Iterable[str], what: str) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise InvalidInput(f"each {what} must be a non-empty text")
    return tuple(dict.fromkeys(" ".join(text.split()) for text in texts))


def _checked(objective: Objective) -> Objective:
    if not isinstance(objective.text, str) or not objective.text.strip():
        raise InvalidInput("an objective must be a non-empty text")
    if type(objective.priority) is not int or not 1 <= objective.priority <= 9:
        raise InvalidInput("the priority of an objective must be 1 to 9")
    if objective.status not in STATUSES:
        raise InvalidInput(f"the status of an objective must be {', '.join(STATUSES)}")
    return objective


_SKETCH_COUNT: Final = 256


def _sketch(texts: Iterable[str]) -> tuple[int, ...]:
    """The smallest hashes of the words of some texts (Broder's bottom-k sketch): 256 numbers, whatever the length."""
    return tuple(sorted({crc32(word.encode()) for text in texts for word in words(text)})[:_SKETCH_COUNT])


def _similarity(one: Sequence[int], other: Sequence[int]) -> float:
    """The Jaccard similarity of two sets of words, estimated from their sketches; exact for up to 256 words."""
    union = sorted({*one, *other})[:_SKETCH_COUNT]
    return len(set(one) & set(other) & set(union)) / len(union) if union else 1.0


_LISTS: Final = (
    "roles", "objectives", "values", "tensions", "recent_reflections", "own_roles", "own_values"
)  # fmt: skip


def _fields(identity: AgentIdentity) -> dict[str, Any]:
    return {
        "themes": identity.themes,
        **{name: list(getattr(identity, name)) for name in _LISTS},
        "covered": identity.covered,
        "sketch": list(identity.sketch),
        "ts": identity.at,
        "is_by_rule": identity.is_by_rule,
        "left_out": identity.left_out,
    }


def _identity(record: MindRecord) -> AgentIdentity:
    return AgentIdentity(
        themes=record.text("themes"),
        **{name: record.texts(name) for name in _LISTS},
        covered=record.whole("covered"),
        sketch=tuple(item for item in list_in(record.fields, "sketch") if type(item) is int),
        at=record.written_at,
        is_by_rule=record.is_true("is_by_rule"),
        left_out=record.whole("left_out"),
    )


def _objective_fields(objective: Objective) -> dict[str, Any]:
    return {
        "text": objective.text,
        "priority": objective.priority,
        "status": objective.status,
        "ts": objective.at,
    }


def _objective(record: MindRecord) -> Objective:
    return Objective(
        record.name,
        record.text("text"),
        record.whole("priority", 3),
        record.text("status", "active"),
        record.written_at,
    )
