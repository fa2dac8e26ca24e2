"""Which memories a prompt hands over: each line judged as the agent that needs the answer now."""

from __future__ import annotations

import itertools

import pytest

from sense_memory.mind.prompts.recall import as_text, within
from sense_memory.mind.prompts.standing import holds_for_all
from tests.mind.prompts.test_prompt import by_words, said
from tests.mind.test_log import opened
from tests.search.test_second_look import office


async def talk(store, *texts, conversation="week"):
    """Messages of which those of the assistant begin with a dash."""
    roles = (f"assistant: {text[2:]}" if text.startswith("- ") else f"user: {text}" for text in texts)
    return await said(store, *roles, conversation=conversation)


def lines(prompt):
    return [
        line.strip().removeprefix("- ").partition(": ")[2]
        for item in prompt.recalled
        for line in item.line.split("\n")
    ]


# ── Corrections ─────────────────────────────────────────────────────────────────────────


async def test_what_was_corrected_never_stands_without_its_correction():
    async with opened() as store:
        await talk(
            store,
            "My knee hurts. The doctor, Dr. Amin, wants to see me on 30 November at 11.",
            "- 30 November at 11, Dr. Amin.",
            "Actually no, they called: it's the 2nd of December at 8:30.",
        )
        for budget in (200, 300, 2_000):
            found = await store.mind.prompt(query="When is my appointment with Dr. Amin?", budget=budget)
            text = "\n".join(lines(found))
            assert "2nd of December" in text
            told = [line for line in text.split("\n") if "30 November" in line]
            assert all(line.endswith("(corrected later)") for line in told)
            assert "8:30. (corrected later)" not in text


def minutes():
    """A clock that is a minute later at each look."""
    ticks = itertools.count(1_700_000_000, 60)
    return lambda: float(next(ticks))


@pytest.mark.parametrize("later", ["people/facts/lisa-move", "people/events/lisa-move"])
async def test_where_a_memory_names_a_later_one_the_prompt_has_both(later):
    async with opened(clock=minutes()) as store:
        await store.palace.remember("people/facts/lisa-home", "Lisa lives in Berlin.")
        await store.palace.remember(later, "Lisa moved from Berlin to Lisbon.")
        await store.palace.remember("people/events/lisa-show", "Lisa had an exhibition in Berlin.")
        for budget in (300, 2_000):
            found = await store.mind.prompt(query="Where does Lisa live now?", budget=budget)
            assert [item.ident for item in found.recalled][:2] == ["people/facts/lisa-home", later]
            assert f"compare {later}, written later" in found.recalled[0].line
        if later.startswith("people/events"):
            await store.palace.reconcile("people/facts/lisa-home", later)
            decided = await store.mind.prompt(query="Where does Lisa live now?")
            assert not any("compare" in item.line for item in decided.recalled)


async def test_a_later_memory_that_nobody_vouches_for_is_not_named_beside_the_one_that_it_contradicts():
    async with opened(clock=minutes()) as store:
        await store.palace.remember("people/facts/lisa-home", "Lisa lives in Berlin.")
        await store.palace.remember(
            "web/pages/lisa-move", "Lisa moved from Berlin to Lisbon.", source="tool:browser"
        )
        found = await store.mind.prompt(query="Where does Lisa live now?")
        assert [item.ident for item in found.recalled] == ["people/facts/lisa-home"]
        assert "lisa-move" not in found.text


async def test_of_two_memories_only_the_later_one_can_have_ended_the_other():
    async with opened(clock=minutes()) as store:
        await store.palace.remember("people/events/lisa-move", "Lisa moved from Berlin to Lisbon.")
        await store.palace.remember("people/facts/lisa-home", "Lisa lives in Berlin.")
        found = await store.mind.prompt(query="Where does Lisa live now?")
        assert not any("compare" in item.line for item in found.recalled)


async def test_a_passage_that_was_corrected_stands_above_its_correction():
    async with opened() as store:
        await store.mind.archive.insert("The roller of the press is 62 mm wide.")
        await store.mind.archive.insert("Correction: the roller of the press is 64 mm wide.")
        found = await store.mind.prompt(query="How wide is the roller of the press?")
        assert lines(found) in (
            [
                "The roller of the press is 62 mm wide. (corrected later)",
                "Correction: the roller of the press is 64 mm wide.",
            ],
            ["Correction: the roller of the press is 64 mm wide."],
        )


async def test_a_question_that_its_asker_answered_later_comes_with_that_answer_as_corrected():
    async with opened() as store:
        await talk(
            store,
            "How many eggs are in the brioche again?",
            "- I don't know that yet.",
            "14 eggs for 5 kilos of flour.",
            "- 14 eggs.",
            "Correction: 16 eggs, I looked it up.",
        )
        found = lines(await store.mind.prompt(query="How many eggs are in the brioche?"))
        assert found[:3] == [
            "How many eggs are in the brioche again?",
            "14 eggs for 5 kilos of flour. (corrected later)",
            "Correction: 16 eggs, I looked it up.",
        ]
        assert not [line for line in found if "know" in line]


async def test_a_speaker_corrects_its_own_word_in_another_conversation_and_nobody_elses():
    async with opened() as store:
        await talk(
            store,
            "The dentist of Ida is on Monday at nine.",
            "- The dentist of Ida is on Monday.",
            conversation="a",
        )
        other = store.mind.conversation("b")
        await other.add("user", "The dentist of Ida is on Monday, I think.", name="Tobias")
        await talk(store, "Correction: the dentist of Ida is on Thursday.", conversation="c")
        await talk(store, "The dentist of Ida has a new door.", conversation="d")
        await talk(store, "I live in Graz, near the dentist of Ida.", conversation="e")
        await talk(
            store, "I live in Vienna now, near the dentist of Ida.", conversation="f"
        )  # perhaps somebody else
        hits = await store.mind.search("When is the dentist of Ida?", 20)
        corrected = [(hit.actor, hit.text) for hit in hits if hit.corrected_by]
        assert corrected == [("user", "The dentist of Ida is on Monday at nine.")]
        text = (await store.mind.prompt(query="When is the dentist of Ida?")).text
        *first, second = (line for line in text.splitlines() if "nine" in line or "Thursday" in line)
        assert all(line.endswith("(corrected later)") for line in first)
        assert "Correction" in second


async def test_a_new_name_for_one_thing_corrects_no_other_name():
    async with opened() as store:
        await talk(
            store,
            "We'll call the rye bread Nussknacker.",
            "Our starter is called Frieda.",
            "From now on call me Reni.",
        )
        hits = await store.mind.search("What is the rye bread called?")
        assert [hit.text for hit in hits if hit.corrected_by] == []


async def test_a_number_that_two_statements_share_is_not_their_subject():
    async with opened() as store:
        await talk(
            store,
            "Lena starts as an apprentice on 1 February. She's 19 and comes from Halle.",
            "First bread from the new oven: a bit dark, 250 degrees is too hot. 235 worked.",
        )
        hits = await store.mind.search("When does Lena start with the bread?")
        assert len(hits) == 2
        assert [hit.text for hit in hits if hit.corrected_by] == []


async def test_a_temperature_does_not_correct_a_date():
    async with opened() as store:
        await talk(
            store,
            "The new deck oven arrives on Thursday 19 November at 10:00.",
            "First bread from the new oven: a bit dark, 250 degrees is too hot. 235 worked.",
        )
        hits = await store.mind.search("When does the deck oven arrive?")
        assert [hit.text for hit in hits if hit.corrected_by] == []


# ── Noise ───────────────────────────────────────────────────────────────────────────────


async def test_beside_an_answer_that_the_window_shows_weak_hits_are_no_memories():
    async with opened() as store:
        await talk(store, "OK, gotta run, the dough is waiting!", "- See you.", conversation="other")
        await store.persona_remember("shop", "facts", "website", "The website runs on Hetzner.")
        chat = await talk(
            store, "The warranty runs for 24 months.", "- Noted.", "How long does the warranty run?"
        )
        assert (await store.mind.prompt(chat)).recalled == ()


async def test_what_was_said_after_a_message_never_comes_without_it():
    async with opened() as store:
        await talk(
            store,
            "Jana Kowalke from Dresden, who had a bakery near the river until last year, sells a mixer to us and to two others; "
            "she also sells the shelves, the scales, eleven baskets, the sign above the door and a boat.",
            "She'd go down to 2,100 euros.",
        )
        counts = set()
        for budget in range(100, 260, 20):
            found = await store.mind.prompt(
                query="What do belt, motor and bowl of the mixer weigh?", budget=budget
            )
            shown = {item.ident for item in found.recalled}
            assert all(item.context_of in shown for item in found.recalled if item.is_context)
            counts.add(len(shown))
        assert counts == {0, 1, 2}


async def test_what_was_said_after_a_preference_that_the_prompt_shows_does_not_come():
    async with opened() as store:
        await talk(store, "I'm allergic to sesame.", "The roller of the press is 62 mm wide.")
        found = await store.mind.prompt(query="To which of the five nuts am I allergic?")
        assert "sesame" in found.system
        assert found.recalled == ()


async def test_what_was_said_before_a_message_comes_only_with_a_question_for_reasons():
    async with opened() as store:
        await talk(
            store, "The flood took the whole cellar in May.", "We moved the press to Linz.", "- That is far."
        )
        what = lines(await store.mind.prompt(query="Where did the press with the red wheel go?"))
        why = lines(await store.mind.prompt(query="Why did the press go to Linz?"))
        assert what == ["We moved the press to Linz."]
        assert "The flood took the whole cellar in May." in why


async def test_a_question_in_german_needs_no_context_where_its_words_are_there():
    async with opened() as store:
        await talk(
            store,
            "Die Hefe liefert Marta Wolny am Dienstag.",
            "- Marta Wolny, verstanden.",
            "Heute war die Hölle los, 240 Brötchen vor acht.",
        )
        found = await store.mind.prompt(query="Wer liefert die Hefe?")
        assert lines(found) == ["Die Hefe liefert Marta Wolny am Dienstag."]


async def test_a_name_that_leads_on_from_the_best_hit_brings_its_memory():
    async with office() as store:
        found = await store.mind.prompt(query="Who is cleaning the office?")
        assert "must be let in at six" in found.text
        assert found.recalled[0].ident == "work/facts/office-cleaner"


# ── Room ────────────────────────────────────────────────────────────────────────────────


async def test_the_best_memory_comes_before_older_messages():
    async with opened() as store:
        answer = "The counter of Brandt is three metres long, made of oak, and costs 3,450 euros with the delivery to Leipzig."
        await talk(store, answer, conversation="old")
        chat = await talk(
            store,
            *(f"Today I baked {number} loaves of bread." for number in range(30)),
            "How much is the counter?",
        )
        found = await store.mind.prompt(chat, budget=120)
        assert lines(found) == [answer]


async def test_the_best_memory_is_there_where_it_just_fits():
    async with opened() as store:
        await store.mind.archive.insert("The counter of Brandt costs 3,450 euros.")
        await store.mind.archive.insert("The counter stands to the left of the oven.")
        best, other = (await store.mind.prompt(query="How much is the counter?")).recalled
        assert within([best, other], by_words(as_text([best])), by_words) == ([best], [other])


# ── What holds for every answer ─────────────────────────────────────────────────────────


async def test_health_goes_before_instructions_and_these_before_wishes():
    async with opened() as store:
        await store.persona_remember("travel", "preferences", "seat", "Renate prefers a window seat.")
        await store.persona_remember("self", "rules", "money", "Never state a price without its currency.")
        await store.persona_remember("health", "facts", "walnuts", "Ines is allergic to walnuts.")
        await talk(store, "Please always answer briefly.", "Ich bin gegen Sesam allergisch.")
        found = await store.mind.prompt(query="Which cake?", budget=2_000)
        order = ("Sesam", "walnuts", "briefly", "price", "window")
        places = [found.system.index(word) for word in order]
        assert places == sorted(places)
        assert "walnuts. (20" in found.system  # the key repeats the text
        assert "seat. (20" in found.system
        assert "currency. (money, 20" in found.system
        small = await store.mind.prompt(query="Which cake?", budget=150)
        assert "Sesam" in small.system


@pytest.mark.parametrize(
    "said",
    [
        "I prefer metric spoons... no wait, grams.",
        "I'm allergic to walnuts. Oh no, wait, hazelnuts.",
        "Please always answer in German. Scratch that, in French.",
    ],
)
async def test_a_standing_sentence_that_is_taken_back_at_once_is_quoted_with_what_takes_it_back(said):
    async with opened() as store:
        await store.mind.conversation("c").add("user", f"Good morning! {said} The oven is warm.")
        assert f"- {said} (the user, " in (await store.mind.prompt(query="What now?")).system


async def test_standing_texts_take_a_bounded_share_of_a_prompt():
    async with opened() as store:
        for number in range(40):
            await store.persona_remember(
                "self", "rules", f"rule{number}", f"Never call customer {number} before noon."
            )
        for budget in (400, 1_000):
            part = (await store.mind.prompt(query="Whom may I call?", budget=budget)).report.part(
                "preferences"
            )
            assert 0 < part.tokens <= max(60, 0.15 * budget)
            assert part.left_out
            assert part.why == "no room in this part's share of the budget"


@pytest.mark.parametrize(
    ("sentence", "is_standing"),
    [
        ("Ich hätte gern ab jetzt die Rezepte in Gramm.", True),
        ("Ich bin gegen Sesam allergisch.", True),
        ("Antworte bitte auf Deutsch.", True),
        ("Je suis allergique aux noix.", True),
        ("Réponds en français.", True),
        ("Soy vegetariana.", True),
        ("Ich gehe immer gern ins Kino.", False),
        ("Schreib mir eine Mail in der Früh.", False),
        ("Ab heute arbeite ich bei Siemens.", False),
        ("Bin ich gegen Sesam allergisch?", False),
    ],
)
def test_a_sentence_in_german_french_or_spanish_holds_for_every_answer(sentence, is_standing):
    assert holds_for_all(sentence) is is_standing
