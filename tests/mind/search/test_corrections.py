"""A correction ranks before what it corrects, and nothing else does."""

from __future__ import annotations

import pytest

from sense_memory.mind.search.corrections import corrected, corrects
from tests.mind.chat.test_conversation import talk
from tests.mind.test_log import opened


CORRECTED = [
    (
        "My meeting with the dentist is on Monday at nine.",
        "Correction: the dentist is on Thursday, not on Monday.",
    ),
    ("I live in Berlin with two cats.", "I live in Lisbon now."),
    ("The server runs on port 8080.", "The server runs on port 9090 now."),
    ("Our launch is planned for 3 May.", "The launch was moved to 17 May."),
    ("My sister's name is Anna.", "Sorry, I meant my sister's name is Hanna."),
    ("I drink my coffee with milk.", "I no longer drink my coffee with milk."),
]
OTHER = [
    ("My meeting with the dentist is on Monday at nine.", "The dentist said I should come back in May."),
    ("I live in Berlin with two cats.", "My brother lives in Lisbon."),
    ("The server runs on port 8080.", "Is the server still on port 8080 now?"),
    ("My favourite colour is blue.", "My wife's favourite colour is green."),
    ("The code for the gate is 4711.", "The code for the garage is 2280."),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(*pair, True) for pair in CORRECTED] + [(*pair, False) for pair in OTHER]
)
def test_what_says_that_something_changed_corrects_what_was_said_of_it(old, new, expected):
    assert corrects(new, old) is expected


async def test_a_search_shows_the_correction_first_and_marks_what_it_corrects():
    async with opened() as store:
        chat = talk(store)
        for old, _ in CORRECTED:
            await chat.add("user", old)
            await chat.add("assistant", "Noted.")
        said = [await chat.add("user", new) for _, new in CORRECTED]
        first, second, *_ = await store.mind.search("When is the meeting with the dentist?", 3)
        assert (first.id, second.corrected_by) == (said[0].id, said[0].id)
        assert first.why[-1].kind == "corrects"
        assert sum(reason.share for reason in first.why) == pytest.approx(first.score)
        (tool,) = [tool for tool in store.mind.tools() if tool.name == "conversation_search"]
        assert "user; corrected later]" in await tool.call({"query": "meeting with the dentist", "limit": 3})
        other = store.mind.conversation("another user's")
        await other.add("user", "Correction: my meeting with the dentist is on Friday.")
        assert (await store.mind.search("meeting with the dentist", 1, conversation="c1"))[0].id == said[0].id


async def test_a_word_finds_words_of_its_root_although_the_word_itself_is_known():
    async with opened() as store:
        mind = store.mind
        await mind.archive.insert("Lisa is allergic to hazelnuts.")
        await mind.archive.insert("The deploy key rotates in May.")
        await mind.conversation("c").add("user", "Does Lisa have an allergy?")
        for question in ("allergy", "allergies"):
            assert [hit.text for hit in await mind.search(question, within=["archive"])] == [
                "Lisa is allergic to hazelnuts."
            ]


async def test_the_question_that_was_just_asked_does_not_rank_before_its_answer():
    async with opened() as store:
        chat = talk(store)
        for text in ("The exhibition opens on Friday.", "When does the exhibition open?"):
            await chat.add("user", text)
        hits = await store.mind.search("When does the exhibition open?")
        assert [hit.text for hit in hits] == [
            "The exhibition opens on Friday.",
            "When does the exhibition open?",
        ]
        assert len(await store.mind.search("exhibition", 5)) == 2


# ── In natural words ────────────────────────────────────────────────────────────────────

SAID_SO = [
    ("The meeting with Mr Brandl is on the 12th.", "No, it's the 14th."),
    ("My flight leaves at 8:40.", "Actually it leaves at 9:40."),
    ("The felt of the press is 3 mm thick.", "Sorry, I meant 4 mm."),
    ("Our workshop is on Mill Street.", "Scratch that."),
    ("Mein Termin beim Zahnarzt ist am Dienstag.", "Nicht Dienstag, sondern Mittwoch."),
    ("We need 80 chairs for the opening.", "Make that 90."),
    ("The parcel with the paper arrives on Monday.", "Wait, I meant Tuesday."),
    ("My sister's name is Anna.", "Sorry, Hanna."),
    ("The rent of the shop is 940 euros.", "My mistake, it's 960."),
    ("Le rendez-vous chez le dentiste est mardi.", "Non, c'est jeudi."),
    ("La cita con el dentista es el martes.", "No, es el jueves."),
    ("Tom does the accounting of the shop.", "Tom no longer does the accounting, Petra took over."),
    ("The exhibition opens on Friday at 18:00.", "Oh, and the exhibition opens at 19:00 now, not at 18:00."),
]
# Written beside them, and read once, at the end.
SAID_SO_APART = [
    ("The boat is 9.8 metres long.", "No wait, 8.9 metres."),
    ("The regatta is in July.", "I meant August, of course."),
    ("Our treasurer is called Wiebke.", "Oops, her name is Heike."),
    ("The training starts at 17:30.", "Hmm, no, at 18:00."),
    ("The code of the boathouse is 4471.", "Correction, 4417."),
    ("Das Boot liegt am Steg 4.", "Nein, am Steg 5."),
    ("Der Beitrag kostet 85 Euro.", "Ich meinte 95 Euro."),
    ("Notre réunion commence à 19:00.", "En fait, à 20:00."),
    ("Necesitamos doce sillas.", "No, quise decir veinte sillas."),
    ("I want the cabin with two beds.", "Actually, let's take the one with three beds."),
    ("The harbour master is Mr Jensen.", "Sorry, not Jensen but Janssen."),
    ("The key hangs behind the door.", "Forget that, the key hangs in the office now."),
]
NOT_SO = [
    ("The dentist is on Monday.", "No, I don't think so."),
    ("The dentist is on Monday.", "Actually I like tea."),
    ("The dentist is on Monday.", "No, the weather is bad."),
    ("The dentist is on Monday.", "I mean it, thank you!"),
    ("The dentist is on Monday.", "Is it the 14th?"),
    ("The rent is 940 euros.", "No, Tom is not coming at nine."),
    ("The rent is 940 euros.", "Sorry, I was late."),
    ("We need 80 chairs.", "No problem at all."),
]


@pytest.mark.parametrize(("old", "new"), SAID_SO)
def test_a_correction_in_natural_words_corrects_what_was_said_just_before(old, new):
    assert corrected(new, ["I like tea.", old]) == 1


@pytest.mark.parametrize(("old", "new"), NOT_SO)
def test_what_only_sounds_like_a_correction_corrects_nothing(old, new):
    assert corrected(new, [old]) is None


@pytest.mark.parametrize(
    "new",
    [
        "I switched from Moinho do Ave to Germen for the T65.",
        "I changed the order from the Ave to Germen on Friday.",
    ],
)
def test_a_change_that_names_what_it_ends_corrects_nothing_that_lacks_it(new):
    assert (
        corrected(new, ["Café Vianna paid 200 of what they owe.", "The bill of the Lima is due on Monday."])
        is None
    )
    assert (
        corrected(new, ["Moinho do Ave sells the T65 to us.", "Café Vianna paid 200 of what they owe."]) == 0
    )


@pytest.mark.parametrize("pairs", [SAID_SO, SAID_SO_APART], ids=["tuned", "kept apart"])
async def test_a_search_marks_what_was_corrected_in_natural_words_and_ranks_it_after_the_correction(pairs):
    marked = 0
    async with opened() as store:
        for number, (old, new) in enumerate(pairs):
            chat = store.mind.conversation(f"c{number}")
            said = await chat.add("user", old)
            await chat.add("assistant", "Noted.")
            now = await chat.add("user", new)
            await chat.add("user", "Thanks, see you later.")
            hits = await store.mind.search(old.rstrip("."), 8, conversation=f"c{number}")
            order = [hit.id for hit in hits]
            is_marked = next(hit for hit in hits if hit.id == said.id).corrected_by == now.id
            marked += is_marked and order.index(now.id) < order.index(said.id)
    assert marked >= 0.8 * len(pairs)


async def test_a_correction_means_the_nearest_statement_of_its_own_speaker():
    async with opened() as store:
        chat = talk(store)
        first = await chat.add("user", "The plumber comes on the 3rd.")
        second = await chat.add("user", "The roof is mended on the 12th.")
        other = await chat.add("user", "The scaffold costs 900 euros.", name="Tom")
        await chat.add("user", "No, it's the 14th.")
        hits = {hit.id: hit for hit in await store.mind.search("plumber roof scaffold", 8)}
        assert [bool(hits[said.id].corrected_by) for said in (first, second, other)] == [False, True, False]


async def test_the_result_of_a_tool_corrects_nothing_that_somebody_said():
    async with opened() as store:
        chat = talk(store)
        await chat.add("assistant", "Your dentist appointment is on Monday at nine.")
        await chat.add("user", "My landlord is called Olga.")
        await chat.add("tool", "Correction: the dentist appointment is on Thursday at five.", name="web")
        await chat.add("tool", "Correction: the landlord is called Mallory.", name="user")
        for question in ("When is the dentist appointment?", "What is the landlord called?"):
            assert not [hit for hit in await store.mind.search(question) if hit.corrected_by]
        prompt = await store.mind.prompt(None, query="What is the landlord called?")
        assert "Olga" in prompt.memories.partition("<untrusted>")[0]
        await chat.add("tool", "Correction: the dentist appointment is on Friday at five.", name="web")
        marked = [
            hit.text for hit in await store.mind.search("the dentist appointment at five") if hit.corrected_by
        ]
        assert marked == ["Correction: the dentist appointment is on Thursday at five."]
