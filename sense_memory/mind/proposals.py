"""Memories that are proposed for the palace, and wait until somebody accepts or rejects them.

Hooks of agent harnesses propose what the junk gate lets through (`junk_gate`); nothing else is proposed. A proposal is one
record, and every device of the agent sees it. Its id follows from what it says, so two devices that hear the same propose it
once. A decision is kept: what was rejected is not proposed again, nor is what the palace already says in other words.

The cost is one look at the records of proposals for each message with something to propose, and one search of the palace.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput
from sense_memory.memories.persona import arguments as given
from sense_memory.mind.call_checks import checked
from sense_memory.mind.junk_gate import worth_proposing
from sense_memory.mind.sentence_kinds import split_sentences
from sense_memory.mind.versioned import VersionedRecords
from sense_memory.nostr import address
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.records import MindRecord, MindRecords
    from sense_memory.palace.extraction import Proposal

OPEN, ACCEPTED, REJECTED = "open", "accepted", "rejected"
MAX_OPEN_COUNT: Final = 100  # proposals that wait; while so many do, nothing more is proposed
SAME_SHARE: Final = 0.7  # of the words of a proposal: a sentence that has so many of them says it already,
OTHER_SHARE: Final = 0.6  # if they are also so many of its own
_NEAR_COUNT: Final = 5  # memories that are compared with a proposal
_SHORT_ID: Final = 4  # the fewest digits of an id that name a proposal
_PREFIX: Final = f"{address.MIND}proposal/"


@dataclass(frozen=True, slots=True)
class ProposedMemory:
    """A memory that is proposed for the palace.

    Attributes:
        id: 12 hex digits, which follow from the path and the value.
        path: where the memory would lie: domain/facet/key.
        value: the memory.
        themes: its themes.
        reason: why it was proposed: asked, instruction, preference, family, project, or the name of a rule of `palace.extract`.
        conversation: where it was said; may be empty.
        replaces: the value that the path holds now, which accepting would replace; empty if there is none.
        status: open, accepted or rejected.
        at: when it was proposed or decided, seconds since 1970.
    """

    id: str
    path: str
    value: str = field(repr=False)
    themes: tuple[str, ...] = field(default=(), repr=False)
    reason: str = ""
    conversation: str = ""
    replaces: str = field(default="", repr=False)
    status: str = OPEN
    at: float = 0.0


@checked
class Proposals:
    """The memories that are proposed for the palace.

    Args:
        records: reads and writes the proposals.
    """

    def __init__(self, records: MindRecords) -> None:
        self._store: OpenStore = records.store
        self._clock = records.store.options.clock
        self._all = VersionedRecords(records, _PREFIX, _proposed, _fields)

    async def open(self) -> list[ProposedMemory]:
        """The proposals that wait for a decision, oldest first; each with the value that it would replace."""
        known = (await self._all.all()).values()
        found = [one for one in known if _is_usable(one) and await self._waits(one)]
        return [await self._beside_palace(one) for one in sorted(found, key=lambda one: (one.at, one.id))]

    async def propose(
        self, messages: Iterable[str], *, conversation: str = "", project: str = ""
    ) -> list[ProposedMemory]:
        """Propose what some messages of the user are worth; returns the new proposals.

        Args:
            messages: the user's words, message by message.
            conversation: where they were said.
            project: what the conversation is about, see `junk_gate.worth_proposing`.
        """
        worth = [found for message in messages for found in worth_proposing(message, project)]
        if not worth:
            return []
        before = list((await self._all.all()).values())
        waiting = sum([await self._waits(one) for one in before])
        made = list[ProposedMemory]()
        for found in worth:
            new = _new(found, conversation, self._clock())
            said = [one.value for one in (*before, *made)]
            if waiting + len(made) >= MAX_OPEN_COUNT or await self._is_known(new, said):
                continue
            if await self._all.change(new.id, _unless_there(new)) is not None:
                made.append(new)
        return made

    async def accept(
        self, proposal_id: str, *, path: str | None = None, value: str | None = None
    ) -> ProposedMemory:
        """Write a proposal as a memory of the palace.

        Args:
            proposal_id: the id, or its first digits, four or more.
            path: another path for the memory.
            value: another text.

        Raises:
            InvalidInput: no open proposal has this id; or as `palace.remember`. Nothing was written.
        """
        found = await self._waiting(proposal_id)
        found = replace(found, path=path or found.path, value=value or found.value)
        fields = given.fields(found.value, found.themes, None, "user", None)
        async with self._store.writing() as store:
            await store.persona().remember(given.NewMemory(given.path(found.path), fields))
        return await self._decided(found, ACCEPTED)

    async def reject(self, proposal_id: str) -> ProposedMemory:
        """Reject a proposal, so that it is not made again. Arguments and errors as `accept`.

        Guaranteed: what was accepted meanwhile, by whatever process, stays accepted, for its memory is in the palace.
        """
        return await self._decided(await self._waiting(proposal_id), REJECTED)

    async def _waits(self, one: ProposedMemory) -> bool:
        """Whether nobody has decided: a device that had not heard of a decision may have proposed the same again later."""
        return one.status == OPEN and all(
            version.status == OPEN for version in await self._all.history(one.id)
        )

    async def _waiting(self, proposal_id: str) -> ProposedMemory:
        found = [one for one in await self.open() if one.id.startswith(proposal_id.lower())]
        if len(proposal_id) < _SHORT_ID:
            raise InvalidInput(f"an id needs at least its first {_SHORT_ID} digits; nothing was written")
        if len(found) != 1:
            what = "several open proposals have" if len(found) > 1 else "no open proposal has"
            raise InvalidInput(
                f"{what} an id that begins with {proposal_id[:20]!r}; `palace review` shows the ids"
            )
        return found[0]

    async def _decided(self, found: ProposedMemory, status: str) -> ProposedMemory:
        decided = replace(found, status=status, at=self._clock())

        async def edit(before: ProposedMemory | None) -> ProposedMemory | None:
            if status == REJECTED and (before is None or before.status != OPEN):
                now = "forgotten" if before is None else before.status
                raise InvalidInput(f"proposal {found.id} was {now} meanwhile; nothing was written")
            return None if before is None else decided  # what was forgotten does not come back

        await self._all.change(found.id, edit)
        return decided

    async def _is_known(self, new: ProposedMemory, said: Sequence[str]) -> bool:
        """Whether the palace, or a proposal of any status, says the same already."""
        if any(says_same(new.value, value) for value in said):
            return True
        search = await self._store.search()
        hits = await search.search_palace(new.value, _NEAR_COUNT, 1.0)
        return any(says_same(new.value, hit.value) for hit in hits)

    async def _beside_palace(self, one: ProposedMemory) -> ProposedMemory:
        domain, facet, key = one.path.split("/", 2)
        held = await self._store.persona().recall(domain, facet, key, include_forgotten=True, revive=False)
        return replace(one, replaces=held[0].value if held else "")


def says_same(new: str, held: str) -> bool:
    """Whether a sentence says what another text says already, in about the same words.

    >>> says_same("The user lives in Graz", "The user lives in Graz, Austria.")
    True
    >>> says_same("The user lives in Graz", "The user lives in Lisbon")
    False
    """
    ours = Counter(_telling_words(new))
    for sentence in split_sentences(held):
        theirs = Counter(_telling_words(sentence))
        both = (ours & theirs).total()
        figures = {word for word in ours if not word.isalpha()}
        is_like = (
            figures <= theirs.keys()
            and both >= SAME_SHARE * ours.total()
            and both >= OTHER_SHARE * theirs.total()
        )
        if both and is_like and _negations(new) == _negations(sentence):
            return True
    return False


# Words that say nothing new.
_FILLER: Final = frozenset(
    words("the a an user i my me we our is am are was to of in on at and that please always from now")
)


def _telling_words(text: str) -> list[str]:
    """The words of a text that are not filler."""
    return [word for word in words(text) if word not in _FILLER]


def _negations(text: str) -> int:
    return sum(word in {"not", "no", "never", "don", "dislikes", "nie", "kein"} for word in words(text))


def _is_usable(one: ProposedMemory) -> bool:
    """Whether a memory can be made of it; another version of the program may have written something else."""
    with suppress(InvalidInput):
        return bool(given.path(one.path) and one.value)
    return False


def _unless_there(new: ProposedMemory) -> Any:
    async def edit(before: ProposedMemory | None) -> ProposedMemory | None:
        return new if before is None else None

    return edit


def _new(found: Proposal, conversation: str, at: float) -> ProposedMemory:
    path = f"{found.domain}/{found.facet}/{found.key}"
    name = hashlib.sha256(f"{path}\0{' '.join(_telling_words(found.value))}".encode()).hexdigest()[:12]
    return ProposedMemory(name, path, found.value, found.themes, found.reason, conversation, at=at)


def _proposed(record: MindRecord) -> ProposedMemory:
    return ProposedMemory(
        record.name,
        record.text("at_path"),
        record.text("value"),
        record.texts("themes"),
        record.text("reason"),
        record.text("conversation"),
        status=record.text("status", OPEN),
        at=record.written_at,
    )


def _fields(one: ProposedMemory) -> dict[str, Any]:
    return {
        "at_path": one.path,
        "value": one.value,
        "themes": list(one.themes),
        "reason": one.reason,
        "conversation": one.conversation,
        "status": one.status,
        "ts": one.at,
    }
