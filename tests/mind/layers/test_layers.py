"""The layered memory: thoughts, topics, the identity, and the draft pipeline over them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from sense_memory import EmbeddedRelay
from sense_memory.errors import InvalidInput
from sense_memory.mind.layers.draft import backfill, draft, store_thought
from sense_memory.mind.model import Coherence, Reply, TopicNames
from sense_memory.mind.records import MindRecords
from sense_memory.mind.rule_model import RuleModel
from tests.mind.test_log import loop_clock, opened


class Failing:
    """A model that answers by rules until it meets a task of one type."""

    def __init__(self, at, rules=None):
        self.at, self.rules = at, rules or RuleModel()

    async def answer(self, task):
        if type(task).__name__ == self.at:
            raise ConnectionError("no model")
        return await self.rules.answer(task)


async def think(mind, text, **more):
    entry = await mind.log.append("agent.output", {"text": text}, actor="agent")
    return await store_thought(mind, entry, **more)


async def test_thoughts_gather_under_topics_and_topics_are_used_again():
    async with opened() as store:
        mind = store.mind
        first = await think(mind, "Memory is what lets an agent persist. Memory needs a log.")
        second = await think(mind, "An agent without memory is decorative.")
        assert first == second
        (topic,) = await mind.topics.all()
        assert (topic.name, topic.passages, topic.covered, topic.is_by_rule) == (first[0], 2, 2, True)
        assert "decorative" in topic.summary
        assert await mind.topics.list_topics() == [topic.name]


async def test_recall_finds_a_thought_of_long_ago_and_can_keep_to_a_topic():
    async with opened() as store:
        mind = store.mind
        await think(mind, "Sourdough wants patience and warm water.", topics=["baking"])
        for number in range(30):
            await think(mind, f"Release {number} shipped without incident.", topics=["work"])
        assert (await mind.recall("How do I make sourdough?"))[0].topics == ("baking",)
        assert await mind.recall("sourdough", topic="work") == []
        assert len(await mind.recall("release shipped", n_results=3)) == 3


async def test_the_pipeline_recalls_drafts_checks_and_remembers():
    async with opened() as store:
        mind = store.mind
        await think(mind, "Kaja lives in Graz.", topics=["people"])
        result = await draft(mind, "Where does Kaja live?")
        assert (result.ok, result.text, result.topics) == (True, "Kaja lives in Graz.", ("people",))
        kinds = [entry.kind for entry in await mind.log.entries()]
        assert kinds == ["agent.output", "agent.input", "agent.output"]


async def test_a_draft_sees_what_the_one_prompt_sees_and_a_repeated_memory_is_no_new_thought():
    async with opened() as store:
        await store.persona_remember("people", "facts", "kaja", "Kaja lives in Graz.")
        await store.journal("Kaja paints bridges in winter.")
        await store.mind.conversation("old").add("user", "The studio of Kaja costs 400 euros.")
        for question, answer in (
            ("Where does Kaja live?", "Kaja lives in Graz."),
            ("What does Kaja paint in winter?", "Kaja paints bridges in winter."),
            ("What does the studio of Kaja cost?", "The studio of Kaja costs 400 euros."),
        ):
            result = await store.mind.draft(question)
            assert answer in result.text
            assert (result.ok, result.is_new, result.recalled) == (True, False, ())
        assert await store.mind.archive.all() == []


class Talkative(RuleModel):
    """Rules that add a sentence of their own to each reply."""

    async def answer(self, task):
        found = await super().answer(task)
        return (
            found.model_copy(update={"text": f"{found.text} {task.input} The town lies on a river."})
            if isinstance(found, Reply)
            else found
        )


async def test_drafting_the_same_input_again_adds_nothing_to_the_memory():
    async with opened() as store:
        mind = store.mind
        await think(mind, "Kaja lives in Graz.", topics=["people"])
        for model in (RuleModel(), Talkative()):
            mind.model = model
            first = await mind.draft("Where does Kaja live?")
            assert first.is_new is isinstance(model, Talkative)
            before = await mind.archive.all(), await mind.topics.all(), await mind.identity.get()
            for _ in range(5):
                assert not (await mind.draft("Where does Kaja live?")).is_new
            assert (await mind.archive.all(), await mind.topics.all(), await mind.identity.get()) == before
        assert await mind.backfill() == 0


async def test_an_output_is_no_evidence_for_itself():
    async with opened() as store:
        mind = store.mind
        await think(mind, "Kaja lives in Graz.", topics=["people"])
        await think(mind, "Kaja paints bridges.", topics=["people"])
        mind.model = Talkative()
        drafted = await mind.draft("Where does Kaja live?")
        assert drafted.is_new
        later = await mind.draft("And where does Kaja live today?")
        assert {hit.text for hit in later.recalled} == {"Kaja lives in Graz.", "Kaja paints bridges."}
        for passage in await mind.archive.all():
            if passage.content.startswith("Kaja"):
                await mind.archive.delete(passage.id) if passage.content != drafted.text else None
        alone = await mind.draft("Where does Kaja live?")
        assert drafted.text in [hit.text for hit in alone.recalled]


async def test_an_answer_that_says_nothing_is_no_thought():
    async with opened() as store:
        found = await store.mind.draft("Where does Kaja live?")
        assert (found.ok, found.is_new) == (True, False)
        assert await store.mind.archive.all() == []


async def test_an_incoherent_output_is_not_remembered():
    class Against(RuleModel):
        async def answer(self, task):
            answer = await super().answer(task)
            if isinstance(answer, Coherence):
                issue = {"against": "value", "statement": "honesty", "excerpt": "x", "reason": "it lies"}
                return Coherence.model_validate({"is_coherent": False, "issues": [issue]})
            return answer

    async with opened() as store:
        store.mind.model = Against()
        result = await draft(store.mind, "Say something.")
        assert (result.ok, result.reason) == (False, "value: it lies (honesty)")
        assert [entry.kind for entry in await store.mind.log.entries()] == ["agent.input"]
        assert await store.mind.archive.all() == []


async def test_a_model_that_writes_no_reply_leaves_the_input_alone():
    async with opened() as store:
        store.mind.model = Failing("WriteReply")
        with pytest.raises(ConnectionError):
            await draft(store.mind, "Say something.")
        assert [entry.kind for entry in await store.mind.log.entries()] == ["agent.input"]


NOT_DONE = {
    "Canonicalize": ["canonicalise", "check", "remember", "store the thought", "refresh the identity"],
    "CheckCoherence": ["check", "remember", "store the thought", "refresh the identity"],
    "ClassifyTopic": ["store the thought", "refresh the identity"],
    "UpdateTopicSummary": ["store the thought", "refresh the identity"],
    "DistillIdentity": ["refresh the identity"],
}


@pytest.mark.parametrize("task", NOT_DONE)
async def test_a_reply_reaches_the_caller_whatever_fails_after_it_and_what_was_not_done_is_named(task):
    async with opened() as store:
        mind = store.mind
        await think(mind, "Kaja lives in Graz.", topics=["people"])
        mind.model = model = Failing(task, Talkative())
        found = await mind.draft("Where does Kaja live?", identity_every=1)
        assert (found.ok, list(found.not_done), type(found.error)) == (False, NOT_DONE[task], ConnectionError)
        assert "Kaja lives in Graz." in found.text
        assert found.reason.startswith(f"not done: {NOT_DONE[task][0]}")
        is_logged = "agent.output" in [entry.kind for entry in (await mind.log.entries())[1:]]
        assert is_logged is ("remember" not in found.not_done)
        model.at = ""
        assert await mind.backfill() == ("backfill" in found.reason) == (NOT_DONE[task][0][:5] == "store")
        stored = {passage.content for passage in await mind.archive.all()}
        assert (found.text in stored) is is_logged


async def test_the_identity_is_refreshed_after_enough_thoughts_or_when_topics_move_and_old_ones_stay():
    async with opened() as store:
        mind = store.mind
        assert not await mind.identity.is_due()
        await think(mind, "I am a careful archivist. I value plain words.", topics=["self"])
        assert await mind.identity.is_due()
        first = await mind.identity.refresh_identity_kernel()
        assert (first.roles, first.values) == (("careful archivist",), ("plain words",))
        assert not await mind.identity.is_due()
        for _ in range(3):
            await think(mind, "I value plain words.", topics=["self"])
        assert not await mind.identity.is_due(every=4)
        assert await mind.identity.is_due(every=3)
        await think(
            mind, "Bridges, rivers, ferries, harbours and their masters fill another book.", topics=["world"]
        )
        assert await mind.identity.is_due(moved=0.3)
        second = await mind.identity.refresh_identity_kernel()
        assert await mind.identity.history() == [second, first]


async def test_values_and_roles_that_were_set_stay_and_outputs_are_checked_against_them():
    async with opened() as store:
        mind = store.mind
        await mind.identity.set_values(["never share private keys", " keep  addresses private "])
        await mind.identity.set_roles("archivist")
        await think(mind, "I am a careful gardener. I value plain words.", topics=["self"])
        found = await mind.identity.refresh_identity_kernel()
        assert found.values == ("never share private keys", "keep addresses private", "plain words")
        assert found.roles == ("archivist", "careful gardener")
        assert not (await mind.identity.check("I will share the private keys.")).is_coherent
        refused = await mind.draft("Say it.", model=Saying("I post the addresses of all of them."))
        assert (refused.ok, refused.reason.partition(":")[0]) == (False, "value")
        assert (await mind.identity.set_values([])).values == ("plain words",)
        assert (await mind.identity.check("I will share the private keys.")).is_coherent
        with pytest.raises(InvalidInput):
            await mind.identity.set_values(["", 7])


class Saying(RuleModel):
    """Rules that reply with one sentence, whatever is asked."""

    def __init__(self, text):
        super().__init__()
        self.text = text

    async def answer(self, task):
        found = await super().answer(task)
        return found.model_copy(update={"text": self.text}) if isinstance(found, Reply) else found


async def test_objectives_are_records_that_the_identity_names():
    async with opened() as store:
        identity = store.mind.identity
        later = await identity.set_objective("Learn Portuguese")
        first = await identity.set_objective("Ship version 2", priority=1)
        assert await identity.objectives() == [first, later]
        done = await identity.change_objective(first.id, status="done")
        assert await identity.objectives() == [later]
        assert await identity.objectives(status="done") == [done]
        assert (await identity.refresh_identity_kernel()).objectives == (later.id,)
        for change in ({"text": ""}, {"priority": 0}, {"status": "maybe"}):
            with pytest.raises(InvalidInput):
                await identity.change_objective(later.id, **change)
        with pytest.raises(InvalidInput, match="no objective"):
            await identity.change_objective("0" * 16, status="done")


async def test_topics_that_are_alike_are_proposed_for_merging_and_merged():
    async with opened() as store:
        mind = store.mind
        await think(mind, "Agents need memory.", topics=["agent-memory"])
        await think(mind, "Memory of agents fades.", topics=["memory-agent"])
        (proposal,) = await mind.topics.proposals()
        assert (proposal.kind, set(proposal.topics)) == ("merge", {"agent-memory", "memory-agent"})
        merged = await mind.topics.merge(["memory-agent"], into="agent-memory")
        assert merged.covered == 2
        assert await mind.topics.list_topics() == ["agent-memory"]
        assert {passage.topics for passage in await mind.archive.all()} == {("agent-memory",)}


async def test_a_topic_that_holds_most_thoughts_is_proposed_for_splitting():
    async with opened() as store:
        mind = store.mind
        for number in range(20):
            await mind.archive.insert(f"thought {number}", topics=["everything"])
        await mind.archive.insert("aside", topics=["other"])
        assert [(item.kind, item.topics) for item in await mind.topics.proposals()] == [
            ("split", ("everything",))
        ]


@pytest.mark.parametrize("place", range(4))
async def test_a_merge_that_was_interrupted_is_completed_by_calling_it_again(monkeypatch, place):
    """It ends before its write or removal number `place`; nothing is lost or counted twice."""
    async with opened() as store:
        mind = store.mind
        for text, topic in (
            ("Tea wants water.", "tea"),
            ("Tea wants time.", "teas"),
            ("Tea is green.", "teas"),
        ):
            await think(mind, text, topics=[topic])
        left = place

        def stopping(inner):
            async def stops(self, *values, **options):
                nonlocal left
                left -= 1
                if left == -1:
                    raise ConnectionError("interrupted")
                return await inner(self, *values, **options)

            return stops

        with monkeypatch.context() as patch:
            for name in ("write", "forget"):
                patch.setattr(MindRecords, name, stopping(getattr(MindRecords, name)))
            with pytest.raises(ConnectionError):
                await mind.topics.merge(["teas"], into="tea")
        assert sum(topic.passages for topic in await mind.topics.all()) == 3
        merged = await mind.topics.merge(["teas"], into="tea")
        assert (merged.covered, merged.passages) == (3, 3)
        assert await mind.topics.list_topics() == ["tea"]
        for text in ("water", "time", "green"):
            assert text in merged.summary


@pytest.mark.virtual_time
@pytest.mark.parametrize("winner", [0, 1])
async def test_a_topic_that_two_devices_merge_into_different_topics_counts_in_one_of_them(winner):
    """Tea is merged into drinks and into plants, and then everything into garden: each thought counts once throughout."""
    async with EmbeddedRelay(clock=(clock := loop_clock())) as relay, AsyncExitStack() as stack:
        devices = [await stack.enter_async_context(opened(relays=[relay.url], clock=clock)) for _ in range(2)]

        async def counts():
            for _ in range(2):
                for device in devices:
                    await device.sync()
            one, other = [
                {topic.name: (topic.covered, topic.passages) for topic in await device.mind.topics.all()}
                for device in devices
            ]
            assert one == other
            return one

        for number, topic in enumerate(["tea", "tea", "tea", "drinks", "plants", "garden"]):
            await think(devices[0].mind, f"Thought {number} is of {topic}.", topics=[topic])
        await counts()
        targets = ["drinks", "plants"]
        for place in (1 - winner, winner):
            await devices[place].mind.topics.merge(["tea"], into=targets[place])
            await asyncio.sleep(5)
        kept, other = targets[winner], targets[1 - winner]
        assert await counts() == {kept: (4, 4), other: (1, 1), "garden": (1, 1)}
        await devices[winner].mind.topics.merge([kept], into="garden")
        assert await counts() == {"garden": (5, 5), other: (1, 1)}
        await devices[winner].mind.topics.merge([other], into="garden")
        assert await counts() == {"garden": (6, 6)}
        await think(devices[0].mind, "More of tea.", topics=["tea"])
        await devices[0].mind.topics.merge(["tea"], into="garden")
        assert await counts() == {"garden": (7, 7)}


@pytest.mark.virtual_time
async def test_of_summaries_that_two_devices_update_at_once_the_later_counts_and_no_thought_is_lost():
    """`covered` says what that summary covers; `passages` counts the thoughts of both devices, and recall finds them."""
    async with EmbeddedRelay(clock=(clock := loop_clock())) as relay, AsyncExitStack() as stack:
        devices = [await stack.enter_async_context(opened(relays=[relay.url], clock=clock)) for _ in range(2)]
        for device, text in zip(devices, ("Tea wants water.", "Tea wants patience."), strict=True):
            await think(device.mind, text, topics=["tea"])
            await asyncio.sleep(5)
        for device in devices * 2:
            await device.sync()
        for device in devices:
            (topic,) = await device.mind.topics.all()
            assert (topic.covered, topic.passages) == (1, 2)
            assert "patience" in topic.summary
            assert len(await device.mind.recall("tea", topic="tea")) == 2


AT_ONCE = {  # what each device does, the later one last; and the counts of a, b and c, which are 2, 3 and 5 before
    "merged, and merged on": ([(0, "a", "b"), (1, "b", "c")], {"c": 10}),
    "merged on, and merged": ([(1, "b", "c"), (0, "a", "b")], {"c": 10}),
    "two into one": ([(0, "a", "c"), (1, "b", "c")], {"c": 10}),
    "into each other": ([(0, "a", "b"), (1, "b", "a")], {"a": 5, "c": 5}),
    "a later thought": ([(0, "a", "b"), (1, "a")], {"a": 1, "b": 5, "c": 5}),
    "a later thought in the target": ([(0, "a", "b"), (1, "b")], {"b": 6, "c": 5}),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("case", AT_ONCE)
async def test_every_thought_counts_once_whatever_two_devices_merge_at_once(case):
    """Also after the merges and thoughts that follow."""
    steps, expected = AT_ONCE[case]
    async with EmbeddedRelay(clock=(clock := loop_clock())) as relay, AsyncExitStack() as stack:
        devices = [await stack.enter_async_context(opened(relays=[relay.url], clock=clock)) for _ in range(2)]
        topics = [device.mind.topics for device in devices]

        async def counts():
            await asyncio.sleep(5)
            for device in devices * 2:
                await device.sync()
            one, other = [{found.name: found.covered for found in await each.all()} for each in topics]
            assert one == other
            return {name: count for name, count in one.items() if count}

        for number, name in enumerate("aabbbccccc"):
            await topics[0].update_topic_summary(name, f"Thought {number} is of {name}.")
        await counts()
        for device, name, *into in steps:
            change = topics[device].merge([name], *into) if into else topics[device].update_topic_summary
            await (change if into else change(name, "A later thought."))
            await asyncio.sleep(5)
        found = await counts()
        assert found == expected
        for name in found:
            await topics[1].update_topic_summary(name, "One more.")
        total = sum(found.values()) + len(found)
        assert await counts() == {name: count + 1 for name, count in found.items()}
        await topics[0].merge(found, into="d")
        assert await counts() == {"d": total}


async def test_topics_that_an_earlier_version_merged_go_on_counting():
    """Its records name no generations; a was merged into b and, by a later version of its record, into c."""
    async with opened() as store:
        records = {
            "mind/into/a": {"into": ["c"]},
            "mind/topic/b": {"summary": "Of b.", "covered": 5, "parts": [[3, [["a", 0, "b"]]]]},
            "mind/topic/c": {"summary": "Of c.", "covered": 7, "parts": [[3, [["a", 0, "c"]]]]},
        }
        await store.mind.records.write(records)
        assert [(topic.name, topic.covered) for topic in await store.mind.topics.all()] == [
            ("b", 2),
            ("c", 7),
        ]
        assert (await store.mind.topics.update_topic_summary("b", "One more.")).covered == 3
        assert (await store.mind.topics.merge(["b"], into="c")).covered == 10
        assert (await store.mind.topics.merge(["c"], into="d")).covered == 10


@pytest.mark.virtual_time
@pytest.mark.parametrize("way", ["onward", "together", "to and fro"])
async def test_topics_can_be_merged_again_and_again(way):
    """Merges are remembered in the topic's record, which has to fit an event that relays take."""
    async with opened(clock=loop_clock()) as store:
        topics, names = store.mind.topics, [f"{number:03}-{'long-name-' * 5}" for number in range(60)]
        for name in names[:2] if way == "to and fro" else names:
            await topics.update_topic_summary(name, "Thoughts are green.")
        merges = {
            "onward": [([source], target) for source, target in pairwise(names)],
            "together": [(names[:-1], names[-1])],
            "to and fro": [([names[number % 2]], names[1 - number % 2]) for number in range(60)],
        }
        for sources, target in merges[way]:
            await topics.merge(sources, target)
            await asyncio.sleep(2)
        (left,) = await topics.all()
        assert left.covered == (2 if way == "to and fro" else 60)


async def test_backfilling_keeps_each_output_of_the_log_once():
    async with opened() as store:
        mind = store.mind
        for number in range(3):
            await mind.log.append(
                "agent.spoke", {"text": f"The oven holds {number + 3} loaves."}, actor="agent"
            )
        for text in (
            "I know.",
            "haha, yum",
            "Where is the oven?",
            "Open the oven.",
            "90 cm",
            "The oven holds 3 loaves.",
        ):
            await mind.log.append("agent.spoke", {"text": text}, actor="agent")
        await mind.log.append("agent.input", {"text": "a question"}, actor="user")
        steps = []
        assert await backfill(mind, progress=steps.append) == 3
        assert steps == [1, 2, 3]
        assert await backfill(mind) == 0
        assert len(await mind.archive.all()) == 3


async def test_a_thought_that_is_stored_again_counts_once_and_one_without_a_summary_is_not_kept():
    async with opened() as store:
        mind, rules = store.mind, store.mind.model
        entry = await mind.log.append(
            "agent.output", {"text": "The press is in Graz. The press is from 1930."}, actor="me"
        )
        mind.model = Failing("UpdateTopicSummary")
        with pytest.raises(ConnectionError):
            await mind.store_thought(entry)
        assert await mind.archive.all() == []
        mind.model = rules
        for _ in range(2):
            (name,) = await mind.store_thought(entry)
        topic = await mind.topics.get(name)
        assert (topic.covered, topic.passages) == (1, 1)


async def test_a_new_name_from_a_model_is_written_like_the_others():
    class Loud(RuleModel):
        async def answer(self, task):
            return TopicNames(topics=("Agent Epistemology!", "agent epistemology"))

    async with opened() as store:
        store.mind.model = Loud()
        assert await store.mind.topics.classify_topic("x") == "agent-epistemology"


async def test_a_bare_machine_has_topics_identity_and_objectives():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            mind = store.mind
            await think(mind, "I am a careful archivist.", topics=["self"])
            await mind.identity.set_objective("Ship it", priority=1)
            await mind.identity.refresh_identity_kernel()
            expected = await mind.topics.all(), await mind.identity.get(), await mind.identity.objectives()
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            mind = bare.mind
            found = await mind.topics.all(), await mind.identity.get(), await mind.identity.objectives()
            assert found == expected
