"""Things that are numbered: texts that differ in the number that tells which thing is meant never end each other."""

from __future__ import annotations

import random

import pytest

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.contradictions.vocabulary import words


ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth"),
    *("seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"),
)
# n: a number; m, m2, x: what is said of the thing; w, o: the number as a word; h: as an id; d, d2: a day.
TEMPLATES = """
value number {n} of load
value number {n} of load is {m}
this is the old job {n}.txt
our job v{n} is in the list
the value number {n} is stored
this is value number {n}
this is memory number {n} of the load test
this is memory {n} of 250
load test value {n}
load test value {n} of 250
load test memory {n} with some text
load value {n} of the run
memory {n} of the load test
memory no. {n} of the load test
entry nr {n} of the load test
generated entry {n} for the load test
random fact {n} about nothing
stress item {n} in batch {m}
batch {m} item {n}
chapter {n} is about boats
chapter {n} of the book has {m} pages
the book's chapter {n} has {m} pages
Chapter {w} is about boats
chapter {w} has {x} pages
the {o} chapter is about boats
the {o} chapter has {m} pages
ticket #{n} is open
issue #{n} was fixed by Ana
server {n} has {m} GB
server {n} has {m} GB of RAM
server {n} runs at {m} degrees
our server {n} has {m} GB
the server number {n} has {m} GB
node {n} has {m} GB of memory
machine {n} is in rack {m}
test {n} passed
test number {n} passed
test case {n} passed in {m} ms
the test case {n} takes {m} ms
test_{n} takes {m} ms
step {n} takes {m} minutes
in step {n} the dough rests {m} minutes
in chapter {n} the hero finds {m} coins
on page {n} there are {m} errors
at stop {n} the bus waits {m} minutes
on day {n} we walked {m} km
day {n}: we walked {m} km
on day {n} of the trip we walked {m} km
week {n} had {m} orders
in week {n} we sold {m} boxes
run {n} had a loss of 0.{m}
epoch {n}: loss 0.{m}
the loss at epoch {n} is 0.{m}
the loss of run {n} is 0.{m}
sensor {n} reads {m} degrees
the reading of sensor {n} is {m} degrees
tenant {n} pays {m} euros
the rent of tenant {n} is {m} euros
apartment {n} costs {m} euros
the rent of apartment {n} is {m} euros
player {n} has {m} points
user {n} is {m} years old
person {n} is {m} years old
patient {n} weighs {m} kg
the age of person {n} is {m}
customer no. {n} pays {m} euros
order {n} contains {m} boxes
invoice {n} is due on {m2} May
invoice no. {n} amounts to {m} euros
account {n} holds {m} dollars
question {n} has {m} answers
the answer to question {n} is {m}
track {n} lasts {m} minutes
shelf {n} holds {m} books
box {n} weighs {m} kg
box number {n} weighs {m} kg
seat {n} is taken
line {n} of the file is too long
line {n} has {m} characters
level {n} has {m} enemies
port {n} is open
channel {n} is at {m} MHz
pin {n} is high
slot {n} is free
key {n} has value {m}
key number {n} has the value {m}
k{n} = {m}
key{n} is {m}
the value of key {n} is {m}
the value of x{n} is {m}
value of parameter {n}: {m}
parameter {n} is {m}
variable v{n} equals {m}
room {n} costs {m} euros
floor {n} has {m} offices
file_{n}.txt has {m} lines
report-{n}.pdf has {m} pages
IMG_{n}.jpg shows the harbour
photo {n} shows the harbour
the file data{n}.csv has {m} rows
backup {n} has {m} MB
commit {h} changed {m} files
commit {h} fixes the parser
the object {h} has {m} bytes
block 0x{h} has {m} transactions
hash {h} belongs to file {n}
device {h} is online
event {h} was sent to {m} relays
session {h} lasted {m} minutes
id {h}: {m} points
v1.{n}.0 was released
version 1.{n} has {m} fixes
version 1.{n}.0 adds {m} features
release 2.{n} adds {m} features
python 3.{n} supports {m} platforms
on 2026-05-{d2} the temperature was {m} degrees
2026-05-{d2}: {m} visitors
on {d} May we had {m} visitors
on {d} May the meeting had {m} guests
the log of 2026-05-{d2} has {m} entries
in 19{d2} the city had {m} thousand people
in 20{d2} the company had {m} employees
the report of {d} May has {m} pages
at {d}:00 the sensor read {m} degrees
episode {n} lasts {m} minutes
season {n} has {m} episodes
lesson {n} has {m} words
exercise {n} has {m} parts
recipe {n} needs {m} eggs
problem {n} is worth {m} points
section {n} is {m} pages long
figure {n} shows {m} curves
table {n} has {m} rows
equation {n} has {m} terms
row {n} has {m} columns
column {n} has {m} values
bus {n} leaves at {d}:00
flight {n} leaves at {d}:00
train {n} takes {m} minutes
gate {n} opens at {d}:00
team {n} has {m} members
group {n} has {m} members
class {n} has {m} pupils
worker {n} handled {m} jobs
thread {n} took {m} ms
process {n} uses {m} MB
request {n} took {m} ms
message {n} has {m} words
note {n} has {m} words
fact {n}: there are {m} stars
fact number {n}: there are {m} stars
sample {n} weighs {m} g
the sample {n} weighs {m} g
the {o} sample weighs {m} g
sample {w} weighs {m} g
house {w} has {x} windows
agent {w} has {x} tools
attempt {n} took {m} minutes
the {o} attempt took {m} minutes
trial {n} took {m} minutes
round {n} took {m} minutes
lap {n} took {m} seconds
item {n} costs {m} dollars
article {n} costs {m} euros
product {n} costs {m} dollars
part {n} weighs {m} grams
Wert Nummer {n} der Last
Wert Nr. {n} ist {m}
der Wert Nummer {n} ist {m}
Kapitel {n} hat {m} Seiten
das Kapitel {n} hat {m} Seiten
Server {n} hat {m} GB
Zimmer {n} kostet {m} Euro
Eintrag {n} des Lasttests
Test {n} dauert {m} Minuten
Tag {n}: {m} km
valeur numéro {n} de la charge
la valeur numéro {n} est {m}
le chapitre {n} a {m} pages
le serveur {n} a {m} Go
la chambre {n} coûte {m} euros
valor número {n} de la carga
el valor número {n} es {m}
el capítulo {n} tiene {m} páginas
el servidor {n} tiene {m} GB
la habitación {n} cuesta {m} euros
valor número {n} da carga
o capítulo {n} tem {m} páginas
o servidor {n} tem {m} GB
o quarto {n} custa {m} euros
I saved value {n}
I wrote {n} as a test
we ran test {n}
we ran test {n} in {m} ms
I read chapter {n} in {m} minutes
number {n} has the value {m}
number {n} of 250
{n}
{n}: {m}
{n}. buy {m} eggs
#{n} costs {m} euros
No. {n} costs {m} euros
no {n} weighs {m} kg
the number {n} is prime
{n} squared is {m}
{n} plus {m} is {s}
the square of {n} is {m}
the product of {n} and {m} is {s}
the word for {n} is {m}
Lisa's test {n} took {m} minutes
the house at Main Street {n} has {m} windows
Main Street {n} has {m} windows
route {n} is {m} km long
highway {n} is {m} km long
bus line {n} takes {m} minutes
the bus line {n} takes {m} minutes
the relay at port {n} holds {m} events
the load of worker {n} is {m}
the price of item {n} is {m} dollars
item {n} has a price of {m} dollars
the size of file {n} is {m} MB
the score of player {n} is {m}
the length of track {n} is {m} minutes
the weight of box {n} is {m} kg
the color of box {n} is c{m}
box {n} is red
the deadline of task {n} is {d} May
task {n} is due on {d} May
the deadline for ticket {n} is {d} May
""".strip().splitlines()

FRONTS = ("", "", "this is ", "here is ", "note: ")
OWNERS = (
    "",
    "test ",
    "load ",
    "load test ",
    "old ",
    "Lisa's ",
    "my ",
    "the ",
    "our ",
    "the red ",
    "the big ",
)
NOUNS = sorted(
    words("""value entry item memory record test run step sample shard replica bucket row cell chapter lesson slide photo
sketch draft order parcel crate shelf seat locker bed plot tree robot drone sensor probe camera lamp valve pump motor panel
worker thread batch job query prompt message song verse scene take lap stage level round week day trip visit patient guest
pupil tenant customer ticket bug case rule clause article section page line figure table question answer task goal idea
dream wish poem recipe process lens""")
)
NUMBERS = (
    *(
        "{n}",
        "number {n}",
        "no. {n}",
        "No. {n}",
        "nr. {n}",
        "nº {n}",
        "#{n}",
        "{w}",
        "number {w}",
        "0x{h}",
        "{h}",
        "{n}a",
    ),
    *("v{n}", "1.{n}", "2026-05-{d2}", "{n}.txt"),
)
ENDS = (
    *(
        "",
        "of load",
        "of the load",
        "of 250",
        "for the load test",
        "from the load test",
        "in the list",
        "with some text",
    ),
    *(
        "on the list",
        "at the end",
        "is fine",
        "is done",
        "was written",
        "was written by the test",
        "passed",
        "failed",
    ),
    *(
        "exists",
        "contains text",
        "has {m} parts",
        "has {x} parts",
        "weighs {m} kg",
        "costs {m} euros",
        "took {m} minutes",
    ),
    *(
        "is {m}",
        "is {m} degrees",
        "is about boats",
        "says hello",
        "says {m}",
        "lives in Rome",
        "belongs to Ana",
    ),
    *(
        "starts at {d}:00",
        "is due on {d} May",
        "is red",
        "looks good today",
        "and nothing else",
        "to remember",
        "by hand",
    ),
)


def filled(template, number):
    """A template with a number, and with other figures that depend on the number."""
    return template.format(
        n=number,
        m=10 + number * 7 % 97,
        m2=number % 27 + 1,
        w=ONES[number % 12],
        x=ONES[number * 5 % 12],
        o=ORDINALS[number % 12],
        h=f"{number * 2654435761 % 2**28:07x}",
        d=number % 11 + 1,
        d2=f"{number % 27 + 1:02}",
        s=number * 3 + 1,
    )


def verdict(old, new, keys=("some", "other")):
    one, other = (
        PersonaMemory(domain="world", facet="facts", key=key, value=value, created_at=float(at))
        for at, (key, value) in enumerate(zip(keys, (old, new), strict=True))
    )
    return compare(one, other)


@pytest.mark.parametrize(("one", "other"), [(3, 4), (100, 101)])
def test_of_a_numbered_series_nothing_supersedes_another_and_hardly_anything_is_suspected(one, other):
    suspected = 0
    for template in TEMPLATES:
        texts = [filled(template, number) for number in (one, other)]
        for keys in (("some", "other"), (f"item-{one}", f"item-{other}")):
            found = verdict(*texts, keys)
            assert found is None or not found.acts, (texts, found.reason)
            suspected += found is not None

    assert suspected <= len(TEMPLATES) * 2 * 0.03


def test_nor_does_it_in_sentences_put_together_at_random():
    rng, suspected = random.Random(20), 0
    for _ in range(800):
        template = f"{rng.choice(FRONTS)}{rng.choice(OWNERS)}{rng.choice(NOUNS)} {rng.choice(NUMBERS)} {rng.choice(ENDS)}"
        one = rng.choice([3, 5, 9, 11, 17, 100, 248])
        texts = [filled(template.strip(), number) for number in (one, one + rng.choice([1, 2, 7]))]
        found = verdict(*texts)
        assert found is None or not found.acts, (texts, found.reason)
        suspected += found is not None

    assert suspected <= 800 * 0.03


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My age is 31", "My age is 32"),
        ("Emil is 7 years old", "Emil is 8 years old"),
        ("The rent is 900", "The rent is 950"),
        ("The load is 3", "The load is 4"),
        ("The relay listens on port 7777", "The relay listens on port 8080"),
        ("Ana has 3 cats", "Ana has 4 cats"),
        ("I drink 2 coffees a day", "I drink 3 coffees a day"),
        ("We smoke ten cigarettes a day", "We smoke five cigarettes a day"),
        ("Our company employs 30 people", "Our company employs 40 people"),
        ("Ich habe 3 Kinder", "Ich habe 4 Kinder"),
        ("Das Team hat 5 Mitglieder", "Das Team hat 6 Mitglieder"),
        ("J'ai 3 enfants", "J'ai 4 enfants"),
        ("Ik heb 3 kinderen", "Ik heb 4 kinderen"),
        ("The exhibition shows 24 linocuts", "The exhibition shows 30 linocuts"),
        ("The importer retries a request 3 times", "The importer retries a request 5 times"),
        ("Server 4 has 16 GB", "Server 4 has 32 GB"),
        ("Chapter 3 has 20 pages", "Chapter 3 has 24 pages"),
        ("Room 5 costs 60 euros", "Room 5 costs 70 euros"),
        ("The deadline is 3 May", "The deadline is 9 May"),
    ],
)
def test_where_the_sentence_says_that_there_is_one_such_number_the_later_one_counts(old, new):
    assert verdict(old, new).acts


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("box-{}", "weighs 17 kg", "weighs 18 kg"),
        ("run-{}", "The loss is 0.31", "The loss is 0.29"),
        ("sensor_{}", "17 degrees", "18 degrees"),
        ("sensor-{}", "It is online", "It is offline"),
        ("price-202{}", "An evening costs 65 dollars", "An evening costs 78 dollars"),
    ],
)
def test_where_only_the_keys_have_a_number_they_name_two_things(key, old, new):
    assert verdict(old, new, (key.format(3), key.format(4))) is None
    assert verdict(old, new, (key.format(3), f"{key.format(3)}-now")).acts


@pytest.mark.parametrize(
    "keys",
    [
        ("cost-31", "cost-32"),
        ("note-1", "note-2"),
        ("fact-1", "fact-2"),
        ("user-fact-1", "user-fact-2"),
        ("k1", "k2"),
    ],
)
def test_the_number_of_a_note_or_of_the_value_itself_names_no_thing(keys):
    assert verdict("An evening takes 31 euros", "An evening takes 32 euros", keys).acts
