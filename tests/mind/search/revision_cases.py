"""Later statements that correct an earlier one in natural words, and later statements that only speak of the same subject."""

from __future__ import annotations

from typing import Final


# question, earlier statement, correction
CORRECTIONS: Final = [
    (
        "When does the plumber come?",
        "The plumber comes on Thursday.",
        "Plumber can't do Thursday after all, Friday it is.",
    ),
    ("What is the gate code?", "Gate code is 4410.", "4410 stopped working, try 7702."),
    (
        "What's Rosa's husband called?",
        "Rosa's husband is called Martin.",
        "Rosa's husband is Marvin, I misread the card.",
    ),
    (
        "When does the library close?",
        "The library closes at 18:00.",
        "Stood in front of a locked door. They close at 17:00.",
    ),
    (
        "Where does Uncle Bert live?",
        "Uncle Bert lives in Hull.",
        "Uncle Bert hasn't lived in Hull for years, it's Grimsby.",
    ),
    (
        "How many does the tent sleep?",
        "The tent sleeps four.",
        "Read the label properly: three people, not four.",
    ),
    (
        "When is the museum free?",
        "The museum is free on Mondays.",
        "Monday was last season. Free entry is the first Sunday now.",
    ),
    (
        "On which floor is Dr Kaur's clinic?",
        "Dr Kaur's clinic is on the second floor.",
        "Climbed for nothing, Dr Kaur is on the ground floor.",
    ),
    ("Until when does the loan run?", "The loan runs until 2031.", "Bank letter came: 2033."),
    (
        "Which cable goes to the router?",
        "The white cable goes to the router.",
        "Swap that: it's the grey cable that goes to the router.",
    ),
    ("What does Felix eat?", "Felix is vegetarian.", "Felix eats fish, so vegetarian was too strong."),
    (
        "How much is the deposit?",
        "The deposit is 400 euros.",
        "They want 450 for the deposit, I had the old list.",
    ),
    (
        "When is chapter 7 due?",
        "Chapter 7 is due on the 3rd.",
        "Editor wrote, chapter 7 isn't due until the 10th.",
    ),
    ("What breed is Hanne's dog?", "Hanne's dog is a beagle.", "Hanne corrected me: he's a harrier."),
    (
        "Where is the spare key?",
        "The spare key is under the blue pot.",
        "Nothing under the blue pot! The neighbour has the spare key.",
    ),
    ("Where do we have lunch?", "Lunch is at the Anchor.", "The Anchor is shut, so lunch is at the Swan."),
    ("Wann fährt der Zug?", "Der Zug fährt um 8:14.", "Der Zug um 8:14 fällt weg, es ist der um 8:44."),
    ("Wo ist Annas Büro?", "Annas Büro ist im dritten Stock.", "Falsch gemerkt: Annas Büro ist im vierten."),
    (
        "Quand est le cours de yoga ?",
        "Le cours de yoga est le mardi.",
        "Finalement le cours de yoga est le jeudi.",
    ),
    ("How hot does the loaf bake?", "Bake the loaf at 250 degrees.", "250 burnt it. 220 degrees."),
]
# question, earlier statement, a later statement that corrects nothing
OTHER: Final = [
    ("What does part 3 need?", "Part 3 of the recipe needs salt.", "Part 11 of the recipe needs salt."),
    (
        "When does the plumber come?",
        "The plumber comes on Thursday.",
        "The plumber left his torch behind on Thursday.",
    ),
    ("What is the gate code?", "Gate code is 4410.", "The gate squeaks, needs oil."),
    ("What's Rosa's husband called?", "Rosa's husband is called Martin.", "Rosa came with her sister Paula."),
    ("When does the library close?", "The library closes at 18:00.", "The library was full at 16:30."),
    ("Where does Uncle Bert live?", "Uncle Bert lives in Hull.", "Uncle Bert wrote a card from Whitby."),
    ("How many does the tent sleep?", "The tent sleeps four.", "Aired the tent for two days."),
    (
        "When is the museum free?",
        "The museum is free on Mondays.",
        "Went to the museum on Sunday with the boys, they loved the whale.",
    ),
    (
        "On which floor is Dr Kaur's clinic?",
        "Dr Kaur's clinic is on the second floor.",
        "Dr Kaur has a new receptionist.",
    ),
    ("Until when does the loan run?", "The loan runs until 2031.", "Paid 300 off the loan today."),
    (
        "Which cable goes to the router?",
        "The white cable goes to the router.",
        "The router is blinking again.",
    ),
    ("What does Felix eat?", "Felix is vegetarian.", "Felix says the soup was lovely."),
    ("How much is the deposit?", "The deposit is 400 euros.", "Sent the deposit, the bank took 3 days."),
    (
        "When is chapter 7 due?",
        "Chapter 7 is due on the 3rd.",
        "Chapter 7 has got a new opening, I'm happy with it.",
    ),
    ("What breed is Hanne's dog?", "Hanne's dog is a beagle.", "Hanne's dog chased 2 geese."),
    (
        "Where is the spare key?",
        "The spare key is under the blue pot.",
        "Repotted the geranium in the blue pot.",
    ),
    ("Where do we have lunch?", "Lunch is at the Anchor.", "The Anchor has a new chef, says Ida."),
    ("Wann fährt der Zug?", "Der Zug fährt um 8:14.", "Der Zug war heute voll."),
    ("Wo ist Annas Büro?", "Annas Büro ist im dritten Stock.", "In Annas Büro wurde heute gestrichen."),
    (
        "Quand est le cours de yoga ?",
        "Le cours de yoga est le mardi.",
        "Le cours de yoga était dur, deux heures.",
    ),
    (
        "How hot does the loaf bake?",
        "Bake the loaf at 250 degrees.",
        "The loaf turned out well, no complaints.",
    ),
]
# Said between them: about nothing that the statements are about.
QUIET: Final = [
    "The post came early.",
    "Ironed eleven shirts during the radio play.",
    "Read an article on slime moulds, fascinating.",
    "My left ear is blocked from swimming.",
    "The pool was closed, so I walked home.",
    "It's raining on the washing.",
    "Bought two lamps at the market in Deal.",
    "No mail from Susan.",
]
