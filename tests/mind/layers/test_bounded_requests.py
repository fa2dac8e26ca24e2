"""What a model is sent is bounded, however much there is: the nearest topics, the newest entries, and how many are missing."""

from __future__ import annotations

from sense_memory.mind.layers.topic_choice import SHOWN_SUMMARY_CHARS, TopicChoice
from sense_memory.mind.model import MAX_LISTED_CHARS, ClassifyTopic, DistillIdentity, Reflect, TopicNames
from sense_memory.mind.rule_model import RuleModel
from tests.mind.test_log import opened


class Recording(RuleModel):
    """Answers by rules, or as told, and keeps every task."""

    def __init__(self, answers=None):
        super().__init__()
        self.answers, self.tasks = answers or {}, []

    async def answer(self, task):
        self.tasks.append(task)
        return self.answers.get(type(task)) or await super().answer(task)

    def last(self, kind):
        return [task for task in self.tasks if isinstance(task, kind)][-1]


SAID = "The oven was cleaned and the shelves were counted again on a quiet afternoon. " * 10


async def with_many_topics(store, count=60):
    """As many topics, each with one passage and a long summary; the first few have more passages."""
    mind = store.mind
    await mind.records.write(
        {
            f"mind/topic/topic-{number}": {"summary": f"{SAID} Note {number}.", "covered": 1}
            for number in range(count)
        }
    )
    await mind.records.write(
        {"mind/topic/violins": {"summary": "Kaja restores old violins with hide glue.", "covered": 1}}
    )
    for number in (3, 4):
        await mind.archive.insert("x", topics=[f"topic-{number}"])


async def test_of_more_topics_than_fit_a_request_the_nearest_are_sent_and_the_others_counted():
    async with opened() as store:
        await with_many_topics(store)
        store.mind.model = model = Recording()
        topics = await store.mind.topics.classify("Hide glue holds an old violin's neck.")
        task = model.last(ClassifyTopic)
        assert len(task.model_dump_json()) <= MAX_LISTED_CHARS + 1_000
        assert next(iter(task.existing_topics)) == "violins"
        assert [*task.existing_topics][1:3] == ["topic-3", "topic-4"]  # then those with most passages
        assert task.left_out == 61 - len(task.existing_topics) > 0
        assert topics == ("violins",)


async def test_topics_that_fit_a_request_are_all_sent():
    async with opened() as store:
        await with_many_topics(store, 10)
        store.mind.model = model = Recording()
        await store.mind.topics.classify("Nothing of this kind.")
        assert (len(model.last(ClassifyTopic).existing_topics), model.last(ClassifyTopic).left_out) == (11, 0)


async def test_a_topic_that_was_not_sent_is_still_a_known_name():
    async with opened() as store:
        await with_many_topics(store)
        store.mind.model = model = Recording({ClassifyTopic: TopicNames(topics=("topic-59", "New_Name"))})
        assert await store.mind.topics.classify("violin") == ("topic-59", "new-name")
        assert "topic-59" not in model.last(ClassifyTopic).existing_topics


def test_the_choice_follows_summaries_that_change_or_go_and_quotations_exclude_nothing():
    choice, known = TopicChoice(), {f"topic-{number}": SAID for number in range(60)}

    def nearest(text):
        return next(iter(choice.nearest(known, text)))

    known["violins"] = "old violins"
    assert nearest('On "a quiet afternoon" she tuned her violins') == "violins"
    known["violins"], known["topic-59"] = "a bicycle", "old violins"
    assert nearest("The violins") == "violins"  # by its name
    assert nearest("my bicycle") == "violins"
    del known["violins"]
    assert nearest("The violins") == "topic-59"
    assert nearest("a bicycle") == "topic-0"


def test_one_endless_summary_leaves_room_for_others():
    shown = TopicChoice().nearest({"endless": "word " * 50_000, "short": "A cat."}, "word")
    assert [len(summary) for summary in shown.values()] == [SHOWN_SUMMARY_CHARS, 6]


async def test_an_identity_is_distilled_from_the_topics_used_most_and_says_how_many_it_left_out():
    async with opened() as store:
        await with_many_topics(store)
        store.mind.model = model = Recording()
        found = await store.mind.identity.refresh_identity_kernel()
        task = model.last(DistillIdentity)
        assert len(task.model_dump_json()) <= MAX_LISTED_CHARS + 1_000
        assert [*task.topic_summaries][:2] == ["topic-3", "topic-4"]
        assert task.left_out == found.left_out == 61 - len(task.topic_summaries) > 0
        assert await store.mind.identity.get() == found


async def test_a_first_reflection_reads_the_newest_entries_and_says_how_many_it_left_out():
    async with opened() as store:
        log = store.mind.log
        for number in range(120):
            await log.append("agent.spoke", {"text": f"{number}: {SAID}"}, actor="smith")
        store.mind.model = model = Recording()
        found = await store.mind.reflect("smith")
        task = model.last(Reflect)
        entries = await log.entries(kind="agent.spoke")
        assert sum(map(len, task.experiences)) <= MAX_LISTED_CHARS
        assert task.experiences[-1].startswith("smith: 119: ")
        assert found.payload["left_out"] == task.left_out == 120 - len(task.experiences) > 0
        assert {*found.payload["based_on"]} <= {entry.id for entry in entries[task.left_out :]}
        assert found.payload["based_on"][0] in {entry.id for entry in entries}
        quoted = [await log.get(ident) for ident in found.payload["based_on"]]
        assert all(found.payload["belief"].removeprefix("smith: ") in entry.text for entry in quoted)


async def test_a_reflection_that_read_everything_claims_no_gap():
    async with opened() as store:
        for number in range(20):
            await store.mind.log.append(
                "agent.spoke", {"text": f"The bread took {number} hours."}, actor="smith"
            )
        assert "left_out" not in (await store.mind.reflect("smith")).payload
