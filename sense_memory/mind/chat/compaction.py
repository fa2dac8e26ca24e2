"""Compaction: older messages in context become a summary, so that a chat can go on. It always ends.

Guaranteed, whatever the model answers: after a compaction the context takes less than `COMPACTION_SHARE` of the window; a
tool call stays with its result; and the state says what became of each message. A summary that a model does not give, or
that does not fit, is written by rules; if only a few words of that fit, the messages leave the context without a summary
and are counted in `dropped_count`. The log has them all.

A model is asked about parts that fit its own window and `PART_CHARS`, oldest first, each with the summary so far. It is
asked no more once it has failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.errors import ModelError
from sense_memory.mind.chat.messages import answers, by_speaker, calls, line, role_of
from sense_memory.mind.model import MAX_SUMMARY_WORDS, SummarizeConversation
from sense_memory.plain_text import is_unicode, one_line


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.mind.model import LanguageModel, Summary

COMPACTION_SHARE: Final = 0.8  # of the context window: a fuller context needs compaction
SUMMARY_SHARE: Final = 0.25  # of the context window, for the summary
KEPT_SHARE: Final = 0.3  # of the context window, for messages that stay verbatim
KEPT_COUNT: Final = 1_000  # messages that stay verbatim, at most: their ids take 23 of the 40 KB of an event
PART_CHARS: Final = 300_000  # of one question to a model; `EndpointModel` cuts inputs of more than 400,000
PART_SHARE: Final = 0.75  # of the context window, for one question to a model
_LEAST_PART_TOKENS: Final = 2_000  # which every model takes
MAX_SUMMARY_CHARS: Final = 4_000  # words may have any length, and the state has to fit an event
_MAX_SUMMARY_BYTES: Final = 12_000  # as JSON, beside the ids of `KEPT_COUNT` messages
_MAX_PROBLEM_CHARS: Final = 160
_LEAST_WORDS: Final = 12  # a summary may always have so many words
_LEAST_RULE_WORDS: Final = 6  # fewer words of the rules' summary say nothing


@dataclass(frozen=True, slots=True)
class ContextState:
    """The state of the context when it was last written; later messages are in context too.

    Attributes:
        summary: the summary of the messages that are no longer in context; empty before the first compaction.
        covers: the id of the last message that a compaction took out of the context; empty for none.
        covered_count: the number of messages that the summary covers.
        message_ids: the messages in context when the state was written.
        upto: the greatest message id at that time; ids grow with time, so a message with a greater id is later.
        is_by_rule: whether rules wrote the summary, and not a language model.
        seen: the newest message ids at that time, at most `SEEN_COUNT`. A message in their range with another id arrived
            late, and is in context.
        dropped_count: the number of messages that left the context without being summarised; the log has them.
        problem: why the last compaction did without the model's summary; empty if it took it.
    """

    summary: str = field(default="", repr=False)
    covers: str = ""
    covered_count: int = 0
    message_ids: tuple[str, ...] = ()
    upto: str = ""
    is_by_rule: bool = False
    seen: tuple[str, ...] = ()
    dropped_count: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Compacts a context.

    Attributes:
        window: the size of the model's context window in tokens.
        count_tokens: counts the tokens of a text.
        model: writes the summaries.
    """

    window: int
    count_tokens: Callable[[str], int]
    model: LanguageModel

    async def compacted(
        self, state: ContextState, context: Sequence[LogEntry], costs: Sequence[int]
    ) -> ContextState:
        """The state after a compaction of a context; the same state if there is nothing to do.

        Args:
            state: the state before.
            context: the messages in context, oldest first.
            costs: the tokens of each.
        """
        place = self._first_kept(context, costs)
        left = COMPACTION_SHARE * self.window - sum(costs[place:])
        if not place and self._fits(state.summary, left):
            return state
        after = replace(state, message_ids=tuple(entry.id for entry in context[place:]), problem="")
        for start, end in self._parts(context[:place], costs):
            after = await self._without(after, context[start:end], sum(costs[start:end]), left)
        if self._fits(after.summary, left):
            return after
        # The summary before was written for a larger window.
        dropped = after.dropped_count + after.covered_count
        problem = after.problem or "the summary does not fit the window"
        return replace(after, summary="", covered_count=0, dropped_count=dropped, problem=problem)

    async def _without(
        self, state: ContextState, part: Sequence[LogEntry], cost: int, left: float
    ) -> ContextState:
        """The state without some messages, which the summary covers now, or which are dropped."""
        state = replace(state, covers=part[-1].id)
        # A summary stands in the system prompt, where what a tool found must not stand as if the agent had said it.
        said = [one for entry in part for one in by_speaker(entry)]
        told = [one for one in said if role_of(one) != "tool"]
        text = "\n".join(map(line, told or said))
        task = SummarizeConversation(
            conversation_history=text,
            previous_summary=state.summary,
            max_words=self._words(text, cost, left),
        )
        found = None
        if told and not state.problem:
            found, problem = await self._by_model(task, left)
            state = replace(state, problem=problem)
        found = found or await self._by_rules(task, left)
        if found is None:
            return replace(state, dropped_count=state.dropped_count + len(part))
        covered = state.covered_count + len(part)
        return replace(state, summary=found.summary, is_by_rule=found.is_by_rule, covered_count=covered)

    async def _by_model(self, task: SummarizeConversation, left: float) -> tuple[Summary | None, str]:
        """The summary of the model, or None and why there is none."""
        try:
            found = await self.model.answer(task)
        except ModelError as error:
            return None, one_line(error.problem[:_MAX_PROBLEM_CHARS])[:_MAX_PROBLEM_CHARS]
        text = getattr(found, "summary", None)  # a model is foreign code
        if not isinstance(text, str) or not text.strip() or not is_unicode(text):
            return None, "gave no summary"
        if not self._fits(text, left):
            return None, "the summary does not fit the window"
        return found, ""

    async def _by_rules(self, task: SummarizeConversation, left: float) -> Summary | None:
        """The summary of the rules, as far as it fits; None if only a few words fit."""
        from sense_memory.mind.rule_model import RuleModel  # slow to import: see `Mind`

        found = await RuleModel().answer(task)
        words = found.summary.split()
        while words and not self._fits(" ".join(words), left):
            words.pop()
        is_short = len(words) < min(_LEAST_RULE_WORDS, len(found.summary.split()))
        return None if is_short else found.model_copy(update={"summary": " ".join(words)})

    def _fits(self, summary: str, left: float) -> bool:
        is_short = len(summary) <= MAX_SUMMARY_CHARS and len(orjson.dumps(summary)) <= _MAX_SUMMARY_BYTES
        return is_short and (not summary or self.count_tokens(summary) < left)

    def _words(self, text: str, cost: int, left: float) -> int:
        """The largest number of words of a summary, by the tokens for each word of what it summarises."""
        share = min(SUMMARY_SHARE * self.window, left) * len(text.split()) / max(1, cost)
        return max(_LEAST_WORDS, min(MAX_SUMMARY_WORDS - 1, int(share)))

    def _parts(self, old: Sequence[LogEntry], costs: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The places of the messages that a model is asked about together."""
        start, chars, tokens = 0, 0, 0
        room = max(PART_SHARE * self.window, _LEAST_PART_TOKENS)
        for place, entry in enumerate(old):
            length = len(line(entry)) + 1
            is_full = chars + length > PART_CHARS or tokens + costs[place] > room
            if is_full and place > start:
                yield start, place
                start, chars, tokens = place, 0, 0
            chars, tokens = chars + length, tokens + costs[place]
        if start < len(old):
            yield start, len(old)

    def _first_kept(self, context: Sequence[LogEntry], costs: Sequence[int]) -> int:
        """The place of the first message that stays verbatim, never between a tool call and its result.

        The newest messages stay, up to `KEPT_SHARE`, and at least the last one, unless it fills the context alone.
        """
        left, place = KEPT_SHARE * self.window, len(context)
        while place > 0 and len(context) - place < KEPT_COUNT:
            if place < len(context) and costs[place - 1] > left:
                break
            place -= 1
            left -= costs[place]
        place = _before_calls(context, place)
        is_too_much = sum(costs[place:]) >= COMPACTION_SHARE * self.window
        return len(context) if is_too_much or len(context) - place > KEPT_COUNT else place


def _before_calls(context: Sequence[LogEntry], place: int) -> int:
    """The place, moved back to before each call whose result is behind it. Some models use an id again."""
    made, pairs = dict[str, int](), list[tuple[int, int]]()
    for number, entry in enumerate(context):
        if len(entry.payload) == 1:  # neither calls nor results
            continue
        pairs += [(made[ident], number) for ident in answers(entry.payload) if ident in made]
        made |= {call.id: number for call in calls(entry.payload)}
    while cut := [call for call, result in pairs if call < place <= result]:
        place = min(cut)
    return place
