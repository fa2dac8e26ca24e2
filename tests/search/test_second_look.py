"""A second look: what is kept about a name that only the best hit brings in."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.search import SearchIndex, SearchItem
from sense_memory.search.second_look import RARE_COUNT, asks_on, named_in, new_names


NOTES = {
    "office-cleaner": "The office is cleaned by Rosalind on Tuesdays.",
    "rosalind-key": "Rosalind has none of her own and must be let in at six.",
    **{f"office-{number}": f"In the office stands chair number {number}." for number in range(12)},
}
QUESTION = "Does the lady who cleans the office let herself in?"


@asynccontextmanager
async def office():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        for key, value in NOTES.items():
            await store.persona_remember("work", "facts", key, value)
        yield store


async def test_a_memory_about_a_name_in_the_best_hit_follows_the_direct_hits_and_says_so():
    async with office() as store:
        hits = await store.search("Who is cleaning the office?", 10)
        assert hits[0].key == "office-cleaner"
        (named,) = [hit for hit in hits if hit.key == "rosalind-key"]
        assert named is hits[-1]
        assert named.why.text.startswith("rosalind, named in work/facts/office-cleaner")
        assert sum(item.contribution for item in named.why.evidence) == named.score < hits[-2].score
        assert named.answer_confidence == 0


@pytest.mark.parametrize("limit", [1, 5, 9])
async def test_a_short_list_keeps_its_direct_hits(limit):
    async with office() as store:
        hits = await store.search("Who is cleaning the office?", limit)
        assert len(hits) == limit
        assert "rosalind-key" not in [hit.key for hit in hits]


async def test_the_first_seven_of_ten_stay_where_they_are():
    async with office() as store:
        nine = await store.search("Who is cleaning the office?", 9)
        ten = await store.search("Who is cleaning the office?", 10)
        assert [hit.path for hit in ten[:7]] == [hit.path for hit in nine[:7]]
        assert [hit.score for hit in ten] == sorted((hit.score for hit in ten), reverse=True)


async def test_what_the_search_may_not_show_is_not_named_either():
    async with office() as store:
        await store.persona_remember("home", "facts", "rosalind-dog", "Rosalind walks a dog.")
        notes = [
            {"domain": "home", "facet": "facts", "key": f"day-{n}", "value": f"Day {n} was dry."}
            for n in range(60)
        ]
        await store.persona_remember_many(notes)
        hits = await store.search(QUESTION, 10, domain="work")
        assert "rosalind-key" in [hit.key for hit in hits]
        assert "rosalind-dog" not in [hit.key for hit in hits]
        await store.persona_forget("work", "facts", "rosalind-key")
        hits = await store.search(QUESTION, 10, domain="work")
        assert "rosalind-key" not in [hit.key for hit in hits]


@pytest.mark.parametrize("query", ["office", '"office"', "anything about the office?"])
def test_words_that_are_looked_up_or_quoted_get_no_second_look(query):
    assert not asks_on(query)
    assert asks_on(QUESTION)


def test_a_name_is_a_capital_within_a_sentence_that_the_question_lacks():
    text = 'Nobody asks. For Ruth the GP is Dr Mbeki-Shaw, on Mondays; "Anaïs\'s" viola is hers.'
    assert new_names(text, "Who is Ruth's GP?") == ["mbeki", "shaw", "anais"]
    assert (
        new_names("Das Büro wird von der Frau im Haus geputzt, und sie hat einen Schlüssel.", "Wer putzt?")
        == []
    )


@pytest.mark.parametrize(("others", "is_found"), [(1, True), (RARE_COUNT + 1, False)])
def test_only_a_rare_name_leads_on(others, is_found):
    index = SearchIndex()
    index.put_many(SearchItem(f"other-{number}", "a note on nothing") for number in range(2_000))
    index.put_many(SearchItem(f"named-{number}", "Samira has Fridays off") for number in range(others))
    found = named_in(index, "Ollie got Samira as a mentor.", "When is the mentor of our junior away?")
    assert bool(found) == is_found
    assert all(one.name == "samira" for one in found)


def test_of_two_memories_with_the_name_the_one_with_words_of_the_question_comes_first():
    index = SearchIndex()
    index.put_many(SearchItem(f"other-{number}", "a note on nothing") for number in range(100))
    index.put(SearchItem("a", "Ike likes tea."))
    index.put(SearchItem("b", "Ike cannot drive."))
    found = named_in(index, "Dominic took on a lad called Ike.", "Could the apprentice drive the sideboard?")
    assert [one.id for one in found] == ["b", "a"]
