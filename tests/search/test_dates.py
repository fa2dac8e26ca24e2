"""Dates in questions, and the calendar under them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.search.calendar_days import (
    DAY_SECONDS,
    Span,
    date,
    days_in,
    month_span,
    number,
    weekday,
    year_span,
)
from sense_memory.search.date_words import mentions_date
from sense_memory.search.dates import read_dates
from sense_memory.search.holidays import HOLIDAYS, easter, holiday
from sense_memory.search.tokens import fold


EPOCH = dt.date(1970, 1, 1)
TODAY = number(2023, 7, 12)  # a Wednesday
COVERED = Span(number(2022, 3, 1), TODAY)


def day(text):
    return (dt.date.fromisoformat(text) - EPOCH).days


def meant(query, *, today=TODAY, covered=COVERED):
    found = read_dates(query, today * DAY_SECONDS, covered).periods
    ends = [(period.start // DAY_SECONDS, period.end // DAY_SECONDS - 1) for period in found]
    return [tuple(str(EPOCH + dt.timedelta(end)) for end in pair) for pair in ends]


@given(st.dates(dt.date(1, 3, 1)))
def test_days_have_the_numbers_and_names_of_the_standard_library(when):
    at = (when - EPOCH).days
    assert number(when.year, when.month, when.day) == at
    assert date(at) == (when.year, when.month, when.day)
    assert weekday(at) == when.weekday()


def test_months_know_their_length():
    assert [days_in(2023, 2), days_in(2024, 2), days_in(1900, 2), days_in(2000, 2)] == [28, 29, 28, 29]
    assert month_span(2023, 14) == Span(day("2024-02-01"), day("2024-02-29"))
    assert year_span(2023) == Span(day("2023-01-01"), day("2023-12-31"))


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("what happened last may", "2023-05-01", "2023-05-31"),
        ("last august", "2022-08-01", "2022-08-31"),
        ("this july", "2023-07-01", "2023-07-31"),
        ("next may", "2024-05-01", "2024-05-31"),
        ("next august", "2023-08-01", "2023-08-31"),
        ("on may 3rd, 2023", "2023-05-03", "2023-05-03"),
        ("on the 3rd of may 2023", "2023-05-03", "2023-05-03"),
        ("march 15-20, 2023", "2023-03-15", "2023-03-20"),
        ("between august 11 and august 15 2022", "2022-08-11", "2022-08-15"),
        ("from may 30, 2022 to june 2, 2022", "2022-05-30", "2022-06-02"),
        ("in may 2023", "2023-05-01", "2023-05-31"),
        ("im mai 2023", "2023-05-01", "2023-05-31"),
        ("em marco de 2023", "2023-03-01", "2023-03-31"),
        ("on 2023-05-03", "2023-05-03", "2023-05-03"),
        ("am 15.03.2023", "2023-03-15", "2023-03-15"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("yesterday", "2023-07-11", "2023-07-11"),
        ("the day before yesterday", "2023-07-10", "2023-07-10"),
        ("today", "2023-07-12", "2023-07-12"),
        ("two weeks ago", "2023-06-25", "2023-07-01"),
        ("3 days ago", "2023-07-09", "2023-07-09"),
        ("last week", "2023-07-03", "2023-07-09"),
        ("last weekend", "2023-07-07", "2023-07-09"),
        ("last month", "2023-06-01", "2023-06-30"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("last friday", "2023-07-07", "2023-07-07"),
        ("on monday", "2023-07-10", "2023-07-10"),
        ("last night", "2023-07-11", "2023-07-11"),
        ("last summer", "2022-06-01", "2022-08-31"),
        ("last winter", "2022-12-01", "2023-02-28"),
        ("summer of 2022", "2022-06-01", "2022-08-31"),
    ],
)
def test_an_expression_means_its_days(query, first, last):
    assert meant(query) == [(first, last)]


def test_what_leaves_the_year_or_the_month_open_means_each_that_is_covered():
    assert [first for first, _ in meant("may 3")] == ["2022-05-03", "2023-05-03"]
    assert [first for first, _ in meant("in march")] == ["2022-03-01", "2023-03-01"]
    assert [first[:7] for first, _ in meant("on the 3rd")][:2] == ["2022-03", "2022-04"]
    assert len(meant("on the 3rd")) == 17


def test_a_slash_may_put_the_month_first_or_second():
    assert meant("3/5/2023") == [("2023-03-05", "2023-03-05"), ("2023-05-03", "2023-05-03")]
    assert meant("3/25/2023") == [("2023-03-25", "2023-03-25")]


@pytest.mark.parametrize(
    "query",
    ["you may go", "they march on", "at 5pm", "the third option", "room 12", "99/99/2023", "", "2023-13-45"],
)
def test_what_is_no_date_means_no_days(query):
    assert meant(query) == []


def test_a_day_that_a_month_lacks_is_its_last():
    assert meant("february 31, 2023") == [("2023-02-28", "2023-02-28")]


@given(st.text(alphabet="0123456789/.- aegilmnostuvwy", max_size=60))
def test_any_text_has_sound_spans(query):
    found = read_dates(query, TODAY * DAY_SECONDS, COVERED)
    for period in found.periods:
        assert period.start < period.end
    if found.periods:
        assert mentions_date(query)


# ── Many languages ──────────────────────────────────────────────────────────────────────
# Asked on Wednesday, 16 July 2025, at 14:00, over memories since March 2022. "~" is a time of about that length there.

AFTERNOON = number(2025, 7, 16) * DAY_SECONDS + 14 * 3_600
SINCE_2022 = Span(number(2022, 3, 1), number(2025, 7, 16))
NAMED = """
last week | 2025-07-07..2025-07-13
What did we discuss between Easter and Whitsun? | 2025-04-18..2025-06-09
What were the sales in Q3? | 2024-07-01..2024-09-30
the weekend before last | 2025-07-04..2025-07-06
What has changed since October? | since 2024-10-01..2024-10-31
Where did we go before the summer? | before 2025-06-01..2025-08-31
Was haben wir im März gemacht? | 2025-03-01..2025-03-31
Qu'est-ce qu'on a fait le mois dernier ? | 2025-06-01..2025-06-30
¿Qué hicimos el año pasado? | 2024-01-01..2024-12-31
What did she say yesterday evening? | 2025-07-15T17..2025-07-15T23
What did I write this morning? | 2025-07-16T05..2025-07-16T12
What did we cook at Christmas? | 2024-12-24..2024-12-26
Was war letzte Woche? | 2025-07-07..2025-07-13
Was habe ich gestern Abend gegessen? | 2025-07-15T17..2025-07-15T23
Wohin sind wir an Ostern gefahren? | 2025-04-18..2025-04-21
Was geschah vor drei Wochen? | ~2025-06-22..2025-06-28
Was war vor dem Sommer geplant? | before 2025-06-01..2025-08-31
Was hat sich seit Oktober geändert? | since 2024-10-01..2024-10-31
vorgestern | 2025-07-14
Was ist übermorgen? | 2025-07-18
heute Morgen | 2025-07-16T05..2025-07-16T12
Was machten wir im Sommer 2023? | 2023-06-01..2023-08-31
zwischen März und Mai 2024 | 2024-03-01..2024-05-31
am 14. Juni 2025 | 2025-06-14
am 3. Mai | 2025-05-03
letzten Freitag | 2025-07-11
am Montag | 2025-07-14
in den letzten zwei Wochen | ~2025-07-02..2025-07-16
vor einem Jahr | ~2024-01-17..2025-01-15
Anfang März | 2025-03-01..2025-03-10
Ende letzten Monats | 2025-06-21..2025-06-30
nach Weihnachten | after 2024-12-24..2024-12-26
an Silvester | 2024-12-31
im dritten Quartal 2024 | 2024-07-01..2024-09-30
hier soir | 2025-07-15T17..2025-07-15T23
la semaine dernière | 2025-07-07..2025-07-13
il y a deux semaines | ~2025-06-29..2025-07-05
avant l'été | before 2025-06-01..2025-08-31
depuis octobre | since 2024-10-01..2024-10-31
Qu'avons-nous mangé à Noël ? | 2024-12-24..2024-12-26
entre mars et mai 2024 | 2024-03-01..2024-05-31
le 14 juin 2025 | 2025-06-14
ce matin | 2025-07-16T05..2025-07-16T12
avant-hier | 2025-07-14
l'été dernier | 2025-06-01..2025-08-31 || 2024-06-01..2024-08-31
lundi dernier | 2025-07-14
début mars | 2025-03-01..2025-03-10
ces trois derniers mois | ~2025-04-16..2025-07-16
à Pâques | 2025-04-18..2025-04-21
en août 2024 | 2024-08-01..2024-08-31
au printemps 2024 | 2024-03-01..2024-05-31
en 2023 | 2023-01-01..2023-12-31
après le 3 mai 2024 | after 2024-05-03
jusqu'à vendredi dernier | until 2025-07-11
ayer por la tarde | 2025-07-15T12..2025-07-15T20 || 2025-07-15T12..2025-07-15T18
la semana pasada | 2025-07-07..2025-07-13
hace tres días | 2025-07-13
hace dos semanas | ~2025-06-29..2025-07-05
antes del verano | before 2025-06-01..2025-08-31
desde octubre | since 2024-10-01..2024-10-31
en Navidad | 2024-12-24..2024-12-26
entre marzo y mayo de 2024 | 2024-03-01..2024-05-31
el 14 de junio de 2025 | 2025-06-14
esta mañana | 2025-07-16T05..2025-07-16T12
anteayer | 2025-07-14
el verano pasado | 2024-06-01..2024-08-31
el lunes pasado | 2025-07-14
a principios de marzo | 2025-03-01..2025-03-10
los últimos tres meses | ~2025-04-16..2025-07-16
en Semana Santa | 2025-04-13..2025-04-19 || 2025-04-13..2025-04-20
en agosto de 2024 | 2024-08-01..2024-08-31
en la primavera de 2024 | 2024-03-01..2024-05-31
después de Semana Santa | after 2025-04-13..2025-04-19 || after 2025-04-13..2025-04-20
hasta el 3 de mayo de 2024 | until 2024-05-03
mañana | 2025-07-17
What happened two weekends ago? | 2025-07-04..2025-07-06
What did Mira say on Tuesday morning? | 2025-07-15T05..2025-07-15T12
on the 14th of June | 2025-06-14
June 14, 2025 | 2025-06-14
from March to May 2024 | 2024-03-01..2024-05-31
in early March | 2025-03-01..2025-03-10
at the end of last month | 2025-06-21..2025-06-30
over the last two weeks | ~2025-07-02..2025-07-16
in the past 3 months | ~2025-04-16..2025-07-16
since last Friday | since 2025-07-11
until Easter | until 2025-04-18..2025-04-21
after Thanksgiving | after 2024-11-28
on New Year's Eve | 2024-12-31
last Christmas | 2024-12-24..2024-12-26
in the summer of 2023 | 2023-06-01..2023-08-31
in the third quarter of 2024 | 2024-07-01..2024-09-30
Q1 2024 | 2024-01-01..2024-03-31
by 3 May 2024 | until 2024-05-03
tonight | 2025-07-16T18..2025-07-17T06
last night | 2025-07-15T18..2025-07-16T06
earlier today | 2025-07-16
this afternoon | 2025-07-16T12..2025-07-16T18
the day before yesterday | 2025-07-14
tomorrow evening | 2025-07-17T17..2025-07-17T23
next week | 2025-07-21..2025-07-27
next month | 2025-08-01..2025-08-31
15-20 March 2024 | 2024-03-15..2024-03-20
in March | 2025-03-01..2025-03-31
during the winter of 2023 | 2023-12-01..2024-02-29
a year ago | ~2024-01-17..2025-01-15
a couple of days ago | ~2025-07-14
What was decided before March 2024? | before 2024-03-01..2024-03-31
since 2023 | since 2023-01-01..2023-12-31
on 2024-05-03 at noon | 2024-05-03 || 2024-05-03T11..2024-05-03T14
on Good Friday | 2025-04-18
over Whitsun | 2025-06-08..2025-06-09
at Halloween | 2024-10-31
last spring | 2025-03-01..2025-05-31
this year | 2025-01-01..2025-12-31
What did I note in the first week of May? | 2025-05-01..2025-05-07
in the middle of June | 2025-06-11..2025-06-20
ieri sera | 2025-07-15T17..2025-07-15T23
la settimana scorsa | 2025-07-07..2025-07-13
due settimane fa | ~2025-06-29..2025-07-05
prima dell'estate | before 2025-06-01..2025-08-31
a Natale | 2024-12-24..2024-12-26
il 14 giugno 2025 | 2025-06-14
stamattina | 2025-07-16T05..2025-07-16T12
vorige week | 2025-07-07..2025-07-13
twee weken geleden | ~2025-06-29..2025-07-05
gisteravond | 2025-07-15T17..2025-07-15T23
met Kerst | 2024-12-24..2024-12-26
vanochtend | 2025-07-16T05..2025-07-16T12
sinds oktober | since 2024-10-01..2024-10-31
na semana passada | 2025-07-07..2025-07-13
ontem à noite | 2025-07-15T18..2025-07-16T06 || 2025-07-15T17..2025-07-15T23
há duas semanas | ~2025-06-29..2025-07-05
antes do verão | before 2025-06-01..2025-08-31
no Natal | 2024-12-24..2024-12-26
hoje de manhã | 2025-07-16T05..2025-07-16T12
am Wochenende | 2025-07-11..2025-07-13
last Saturday afternoon | 2025-07-12T12..2025-07-12T18
Wann war das Treffen am Montagabend? | 2025-07-14T17..2025-07-14T23
le week-end dernier | 2025-07-11..2025-07-13
este fin de semana | 2025-07-18..2025-07-20
in the second half of 2024 | 2024-07-01..2024-12-31
after the summer of 2023 | after 2023-06-01..2023-08-31
diesen Monat | 2025-07-01..2025-07-31
Mitte Juni | 2025-06-11..2025-06-20
im Januar | 2025-01-01..2025-01-31
in the week of May 5 | 2025-05-05 || 2025-05-05..2025-05-11
the week before Christmas | 2024-12-17..2024-12-23 || before 2024-12-24..2024-12-26
on the weekend | 2025-07-11..2025-07-13
two days after Easter | 2025-04-23 || after 2025-04-18..2025-04-21
vor Ostern | before 2025-04-18..2025-04-21
zwischen den Jahren | 2024-12-24..2024-12-31 || 2024-12-27..2024-12-30
an Heiligabend | 2024-12-24
"""
UNNAMED = """
Can you tell me what I may do?
They march on the capital
Where is the sun cream?
Who came in second?
Wait a second
What is the recipe for Christmas cookies?
Which Easter egg is in the game?
How do I fall asleep?
Which spring holds the door?
How much is 2000 euros in dollars?
The flight costs 1999 dollars
Who sat next to Mira?
What does Mar say about the sea?
¿De qué color es el mar?
El niño va al mar
Quel est le numéro de la rue ?
Elle a été malade
J'ai mal à la tête, que faire ?
Wie geht es so?
Das ist mein erster Versuch
Was soll ich tun?
Wer ist der letzte in der Reihe?
Who was the last to leave?
What is the next step?
Is this the first time?
Who wed whom?
She has a cat called April
Ask June about her car
Which port does the server use, 8080?
Does August like fish?
version 3.5 of the package
How far is it, 15 km?
Chapter 12 verse 3
Where do I keep my day book?
What is Sunday's full name?
Which night light do we have?
Who is the author of The Summer Book?
Which week planner does she use?
the year of the dragon book
My minute hand is broken
Non lo so mai
Je ne sais plus où est le set
Ich mag die Mai-Scholle nicht
Room 101 is free
the second floor
Autumn is the name of my sister
How many days does the trip take?
How long is a month?
He decided to seat her
What is the monthly budget?
"""


def asked(question):
    folded = fold(question)
    return read_dates(folded, AFTERNOON, SINCE_2022).periods if mentions_date(folded) else ()


def moment(text, *, is_end=False):
    day, _, hour = text.partition("T")
    return (dt.date.fromisoformat(day) - EPOCH).days * DAY_SECONDS + (
        int(hour) * 3_600 if hour else is_end * DAY_SECONDS
    )


def is_meant(period, wanted):
    """Whether a period is what a line of `NAMED` says: "since 2024-10-01..2024-10-31"."""
    direction, _, ends = wanted.rpartition(" ")
    first, _, last = ends.removeprefix("~").partition("..")
    start, end = moment(first), moment(last or first, is_end=True)
    if direction != period.direction:
        return False
    if not ends.startswith("~"):
        return (period.start, period.end) == (start, end)
    shared = min(period.end, end) - max(period.start, start)
    return shared > 0.4 * (max(period.end, end) - min(period.start, start))


@pytest.mark.parametrize("line", NAMED.strip().splitlines())
def test_a_question_names_its_time(line):
    question, _, wanted = line.partition(" | ")
    found = asked(question)
    assert any(is_meant(period, one.strip()) for period in found for one in wanted.split("||")), found


@pytest.mark.parametrize("question", UNNAMED.strip().splitlines())
def test_a_word_that_is_no_date_names_no_time(question):
    assert asked(question) == ()


@pytest.mark.parametrize(
    ("year", "month", "day"),
    [(1954, 4, 18), (1981, 4, 19), (2000, 4, 23), (2008, 3, 23), (2024, 3, 31), (2038, 4, 25), (2049, 4, 18)],
)
def test_easter_is_computed(year, month, day):
    assert easter(year) == number(year, month, day)


def test_holidays_follow_their_rules():
    days = {name: date(holiday(name, 2025).first)[1:] for name in HOLIDAYS}
    wanted = {"good friday": (4, 18), "pentecost": (6, 8), "ascension": (5, 29), "carnival": (2, 27)}
    wanted |= {
        "thanksgiving": (11, 27),
        "memorial day": (5, 26),
        "mothers day": (5, 11),
        "christmas": (12, 24),
    }
    assert {name: days[name] for name in wanted} == wanted


# ── Texts of memories ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The wedding is on 14 June 2026", "2026-06-14"),
        ("We met yesterday evening", "2025-07-15T17..2025-07-15T23"),
        ("Nächste Woche kommt Paul", "2025-07-21..2025-07-27"),
        ("The fair was in May", "2025-05-01..2025-05-31"),
        ("We fly on 3 January", "2026-01-03"),
    ],
)
def test_a_text_names_the_nearest_such_time(text, wanted):
    (found,) = read_dates(fold(text), AFTERNOON).periods
    assert is_meant(found, wanted)


@pytest.mark.parametrize("text", ["We meet on Friday", "in 2024 somehow", "I am tired today"])
def test_a_text_names_no_time_by_a_bare_weekday_or_year_or_its_own_day(text):
    assert read_dates(fold(text), AFTERNOON).periods == ()


def test_what_is_to_come_is_the_next_one():
    (found,) = read_dates("what is planned before christmas", AFTERNOON, SINCE_2022).periods
    assert is_meant(found, "before 2025-12-24..2025-12-26")
