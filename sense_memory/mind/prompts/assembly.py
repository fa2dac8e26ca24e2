"""A prompt from what was gathered, within one budget. Pure.

How the budget is shared. The instructions of the caller are never cut. Of the rest, the parts of the system prompt get
what they need, up to 40 %; then the newest exchange, which is the last message of the user and what follows it. What is
left is shared by recalled memories and older messages, the newest first; what one of them does not need, the other
gets, and the best memory comes before older messages. An exchange that does not fit loses the middles of its longest
messages, so a prompt is never empty.

Guaranteed: the prompt costs no more than the budget; a tool's result is never shown without its call; nothing that is
shown in a message is recalled; and a part without content has no heading.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.chat.messages import answers, counted, packed, role_of, text_of, unpacked
from sense_memory.mind.log import LogEntry
from sense_memory.mind.prompts.budget import Part, fitted, without_middle
from sense_memory.mind.prompts.dates import moment
from sense_memory.mind.prompts.prompt import PartReport, Prompt, PromptReport
from sense_memory.mind.prompts.recall import as_text, recalled, within
from sense_memory.plain_text import label


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.mind.prompts.budget import Fitted
    from sense_memory.mind.prompts.recall import Recalled

_SYSTEM_SHARE: Final = (
    0.4  # of the budget, for the parts of the system prompt apart from the caller's instructions
)
_SCENE_SHARE: Final = 0.15  # of what the instructions leave
_LEAST_RECALLED_SHARE: Final = 0.2  # which a long exchange leaves for recalled memories
_RECALLED_SHARE: Final = 0.6  # of what is left, for recalled memories; older messages get the rest
_SHARES: Final = {"blocks": 0.25, "identity": 0.08, "objectives": 0.08, "preferences": 0.15, "summary": 0.12}
_LEAST_PART_TOKENS: Final = 60  # of the system prompt, so that an allergy is not left out of a small window
_FRESH_SECONDS: Final = 3_600  # the time of a message that is not older tells what time it is
_MESSAGE_TOKENS: Final = 4  # of the frame that an API puts around a message
_LEAST_TEXT_TOKENS: Final = 12  # of a message that lost its middle
_LEAST_TOKENS: Final = 100  # for everything but the instructions
_NO_ROOM: Final = "no room in the budget"
_NO_ROOM_IN_SHARE: Final = "no room in this part's share of the budget"


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a prompt is made of.

    Attributes:
        instructions: the caller's own words, which open the system prompt.
        system: the other parts of the system prompt, in their order.
        scene: the scene; without lines if there is none.
        messages: the messages in context, oldest first.
        recalled: memories of all searches.
        query: what was looked for.
        is_compacted: whether earlier messages of the conversation are summarised.
        now: seconds since 1970.
        problems: what could not be read.
        told: the words of each line of the preferences, by its ident; what they tell is not recalled.
    """

    instructions: str = ""
    system: tuple[Part, ...] = ()
    scene: Part = field(default_factory=lambda: Part("scene", ()))
    messages: tuple[LogEntry, ...] = ()
    recalled: tuple[Recalled, ...] = ()
    query: str = ""
    is_compacted: bool = False
    now: float = 0.0
    problems: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)


def assembled(given: Gathered, budget: int, count: Callable[[str], int]) -> Prompt:
    """The prompt of what was gathered.

    Args:
        given: what was gathered.
        budget: the largest number of tokens.
        count: counts the tokens of a text.

    Raises:
        InvalidInput: the instructions leave less than 100 tokens of the budget.
    """
    return _Assembly(given, budget, count).prompt()


class _Assembly:
    """One assembly of a prompt, which keeps count of the tokens that are left."""

    def __init__(self, given: Gathered, budget: int, count: Callable[[str], int]) -> None:
        self._given, self._budget, self._count = given, budget, count
        self._left = budget - (self._cost(given.instructions) if given.instructions else 0)
        if self._left < _LEAST_TOKENS:
            raise InvalidInput(
                f"the instructions take {budget - self._left:,}, and the rest of a prompt needs {_LEAST_TOKENS}; raise the budget to {budget - self._left + _LEAST_TOKENS:,} tokens or more, not {budget:,}"
            )
        self._rest = self._left  # what all parts share
        self._now = _time_of(given)
        self._left -= self._cost(self._now) if self._now else 0
        self._reports: dict[str, PartReport] = {}
        self._problems = list(given.problems)

    def prompt(self) -> Prompt:
        """The prompt."""
        given = self._given
        if given.instructions:
            tokens = self._cost(given.instructions)
            self._reports["instructions"] = PartReport(name="instructions", tokens=tokens, shown=1)
        place = _exchange_of(given.messages)
        system = self._system()
        scene = self._fit(given.scene, int(_SCENE_SHARE * self._rest))
        exchange = self._exchange([_dated(entry) for entry in given.messages[place:]])
        shown, memories = self._shared(given.messages[:place], exchange)
        volatile = "\n\n".join(filter(None, (scene.part.text, self._now, as_text(memories))))
        entries = [*shown, *([_unsaid(volatile, given.now)] if volatile else []), *exchange]
        return Prompt(
            system,
            tuple(memories),
            self._report(),
            tuple(entries),
            given.is_compacted or len(shown) < place,
        )

    def _report(self) -> PromptReport:
        return PromptReport(
            budget=self._budget,
            tokens=self._budget - self._left,
            query=self._given.query,
            parts=tuple(part for part in self._reports.values() if part.shown or part.left_out),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    # ── The system prompt ───────────────────────────────────────────────────────────────

    def _system(self) -> str:
        room, texts = int(_SYSTEM_SHARE * self._rest), [self._given.instructions]
        for part in self._given.system:
            share = max(int(_SHARES[part.name] * self._rest), _LEAST_PART_TOKENS)
            found = self._fit(part, min(room, share))
            room -= found.tokens
            texts.append(found.part.text)
        return "\n\n".join(filter(None, texts))

    def _fit(self, part: Part, room: int) -> Fitted:
        reason = _NO_ROOM_IN_SHARE if room < self._left else _NO_ROOM
        found = fitted(part, min(room, self._left) - _MESSAGE_TOKENS, self._count)
        tokens = found.tokens + _MESSAGE_TOKENS if found.tokens else 0
        self._left -= tokens
        if part.lines:
            self._reports[part.name] = PartReport(
                name=part.name,
                tokens=tokens,
                shown=len(found.part.lines),
                left_out=len(found.left_out),
                why=reason if found.left_out else "",
                ids=tuple(line.ident for line in found.part.lines if line.ident),
            )
        if found.cut_count:
            self._problems.append(f"the {part.name} lost {found.cut_count:,} characters of its middle")
        return found

    # ── Messages and memories ───────────────────────────────────────────────────────────

    def _exchange(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """The newest exchange, in which the longest messages lose their middles until it fits."""
        wanted = self._memories({entry.id for entry in entries})
        kept_free = min(int(_LEAST_RECALLED_SHARE * self._rest), self._cost_of_memories(wanted))
        room = self._left - kept_free
        found, costs = list(entries), [self._cost_of(entry) for entry in entries]
        if sum(costs) > room:
            found = self._cut(found, costs, room)
            costs = [self._cost_of(entry) for entry in found]
        while len(found) > 1 and sum(costs) > room:  # many messages, of which each is short
            found, costs = found[1:], costs[1:]
        self._left -= sum(costs)
        left_out = len(entries) - len(found)
        self._reports["messages"] = PartReport(
            name="messages",
            tokens=sum(costs),
            shown=len(found),
            left_out=left_out,
            why=_NO_ROOM if left_out else "",
            ids=tuple(entry.id for entry in found),
        )
        return found

    def _cut(self, entries: list[LogEntry], costs: Sequence[int], room: int) -> list[LogEntry]:
        """Messages of which the long ones lose their middles, so that all fit a room."""
        limit, found = _level(costs, room), list[LogEntry]()
        for entry, cost in zip(entries, costs, strict=True):
            if cost > limit:
                length = len(text_of(entry.payload))
                self._problems.append(
                    f"a message of {length:,} characters is longer than the budget: the prompt has its beginning and its end"
                )
                text_room = limit - (cost - self._count(text_of(entry.payload)))
                found.append(_shortened(entry, max(_LEAST_TEXT_TOKENS, text_room), self._count))
            else:
                found.append(entry)
        return found

    def _shared(
        self, before: Sequence[LogEntry], exchange: Sequence[LogEntry]
    ) -> tuple[list[LogEntry], list[Recalled]]:
        """The older messages and the recalled memories that fit what is left."""
        room, said = self._left, {entry.id for entry in exchange}
        older, costs = self._affordable(before, room)
        wanted = self._memories(said)
        least = max(int(_RECALLED_SHARE * room), self._cost_of_memories(wanted[:1]))  # the best, if it fits
        reserved = min(least, room, self._cost_of_memories(wanted))
        start = _start(older, costs, room - reserved, is_whole=len(older) == len(before))
        # What the window shows is not recalled, and what that saves goes to more messages.
        wanted = self._memories(said | {entry.id for entry in older[start:]})
        memories, others = within(wanted, room - sum(costs[start:]) - _MESSAGE_TOKENS, self._count)
        if start > 0:
            left = room - self._cost_of_memories(memories)
            more = _start(older, costs, left, is_whole=len(older) == len(before))
            again = {entry.id for entry in older[more:start]}
            start, memories = more, [item for item in memories if again.isdisjoint(item.idents)]
            others = [item for item in others if again.isdisjoint(item.idents)]
        spent = self._cost_of_memories(memories)
        self._left -= sum(costs[start:]) + spent
        self._report_messages(older[start:], sum(costs[start:]), len(before) - len(older[start:]))
        self._reports["recalled"] = PartReport(
            name="recalled",
            tokens=spent,
            shown=len(memories),
            left_out=len(others),
            why=_NO_ROOM if others else "",
            ids=tuple(item.ident for item in memories),
        )
        return older[start:], memories

    def _affordable(self, before: Sequence[LogEntry], room: int) -> tuple[list[LogEntry], list[int]]:
        """The newest messages that fit a room, dated, and their costs: others need not be counted."""
        found, costs = list[LogEntry](), list[int]()
        for entry in reversed(before):
            shown = _dated(entry)
            cost = self._cost_of(shown)
            room -= cost
            if room < 0:
                break
            found.append(shown)
            costs.append(cost)
        return found[::-1], costs[::-1]

    def _report_messages(self, older: Sequence[LogEntry], tokens: int, left_out: int) -> None:
        """Add older messages to the report of the exchange."""
        known = self._reports["messages"]
        self._reports["messages"] = PartReport(
            name="messages",
            tokens=known.tokens + tokens,
            shown=known.shown + len(older),
            left_out=known.left_out + left_out,
            why=_NO_ROOM if known.left_out + left_out else "",
            ids=(*(entry.id for entry in older), *known.ids),
        )

    def _cost_of_memories(self, items: Sequence[Recalled]) -> int:
        return self._cost(as_text(items)) if items else 0

    def _memories(self, shown: set[str]) -> list[Recalled]:
        given, preferences = self._given, self._reports.get("preferences")
        told = [given.told.get(ident, "") for ident in preferences.ids] if preferences else []
        return recalled(given.recalled, without=shown, told=told, query=given.query)

    def _cost(self, text: str) -> int:
        return self._count(text) + _MESSAGE_TOKENS

    def _cost_of(self, entry: LogEntry) -> int:
        return sum(map(self._count, counted(entry))) + _MESSAGE_TOKENS


# ── Messages ────────────────────────────────────────────────────────────────────────────


def _time_of(given: Gathered) -> str:
    """The time of the prompt in words, unless the user's last message tells it, or there is no message."""
    said = next((entry.at for entry in reversed(given.messages) if role_of(entry) == "user"), 0.0)
    is_told = not given.messages or abs(given.now - said) < _FRESH_SECONDS
    return "" if is_told else f"It is {moment(given.now)} (UTC)."


def _exchange_of(messages: Sequence[LogEntry]) -> int:
    """The place of the last message of a user; the last message if there is none."""
    places = (place for place in reversed(range(len(messages))) if role_of(messages[place]) == "user")
    return next(places, max(0, len(messages) - 1))


def _start(older: Sequence[LogEntry], costs: Sequence[int], room: int, *, is_whole: bool) -> int:
    """The place of the first older message that is shown: the newest fit the room, and a user's message is the first.

    A conversation that fits as a whole begins as it began.
    """
    place = len(older)
    while place > 0 and costs[place - 1] <= room:
        place -= 1
        room -= costs[place]
    if place == 0 and is_whole:
        return 0
    while place < len(older) and (role_of(older[place]) != "user" or any(answers(older[place].payload))):
        place += 1
    return place


def _level(costs: Sequence[int], room: int) -> int:
    """The largest cost of a message so that all together fit a room, if longer ones are cut to it."""
    left, rest = room, len(costs)
    for cost in sorted(costs):
        if cost * rest >= left:
            return left // rest
        left, rest = left - cost, rest - 1
    return room


def _dated(entry: LogEntry) -> LogEntry:
    """A user's message that begins with its time, and with the speaker if there are several.

    Other messages stay as they are: a model would imitate a time in its own messages, and they follow at once.
    """
    if role_of(entry) != "user":
        return entry
    payload = entry.payload
    who = "" if entry.actor == "user" else f", {entry.actor}"
    mark = label(f"{moment(entry.at)}{who}")
    if "blocks" not in payload:
        return _with_text(entry, f"{mark} {text_of(payload)}")
    blocks = unpacked(payload)
    if any(block.get("type") == "tool_result" for block in blocks):  # results have to come first
        return entry
    text, held = packed([{"type": "text", "text": mark}, *blocks])
    return replace(entry, payload={**payload, "content": text, "blocks": held})


def _with_text(entry: LogEntry, text: str) -> LogEntry:
    return replace(entry, payload={**entry.payload, "content": text})


def _shortened(entry: LogEntry, room: int, count: Callable[[str], int]) -> LogEntry:
    """A message whose texts lose their middles; each block keeps a share that fits its length."""
    payload = entry.payload
    whole = max(1, len(text_of(payload)))
    if "blocks" not in payload:
        return _with_text(entry, without_middle(text_of(payload), room, count))

    def shorten(value: Any, name: str = "") -> Any:
        if isinstance(value, list):
            return [shorten(item) for item in value]
        if isinstance(value, dict) and value.get("type") in {"text", "tool_result"}:
            return {key: shorten(held, key) for key, held in value.items()}
        is_text = isinstance(value, str) and name in {"text", "content"}
        return (
            without_middle(value, max(_LEAST_TEXT_TOKENS, room * len(value) // whole), count)
            if is_text
            else value
        )

    text, held = packed(shorten(unpacked(payload)))
    return replace(entry, payload={**payload, "content": text, "blocks": held})


def _unsaid(text: str, now: float) -> LogEntry:
    """The message with what changes with every question, which nobody said."""
    return LogEntry("", "message.user", "user", {"content": text}, now)
