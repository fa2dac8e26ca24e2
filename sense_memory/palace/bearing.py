"""How much a standing memory bears on a request: "Book me a table for Friday" → "Caleb eats no meat or fish". Pure.

A request seldom shares a word with the preference that it has to keep, so a search does not find it. What both share is a
topic (food), a person, or with an embedder a meaning. `bearings` adds these up, and the words that both have, each by how
rare it is among the standing memories: a topic that half of them have tells little.

It orders memories and drops none: a topic that is missed here costs a place in the order. Topics are those of everyday
requests, in English; elsewhere words, names and meaning remain. Cost: 0.1 to 0.3 ms for each standing memory.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from math import log1p
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from sense_memory.search.hits import Kind
from sense_memory.search.query import names_in, stop_words
from sense_memory.search.tokens import fold, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.candidates import Bears
    from sense_memory.search.index import SearchIndex


_NAME_WEIGHT: Final = 3.0  # of a person whom the request names too
_OTHER_WEIGHT: Final = 1.5  # taken from a memory of other persons, if the request names one
_ANSWERS_WEIGHT: Final = 1.2  # of how every answer is to be: its length, its tone, its language
_MORE_SHARE: Final = 0.4  # of a second topic in common, which is often told by the same word
_WORD_WEIGHT: Final = 0.7  # of a word, beside a topic of the same rarity
_MEANING_WEIGHT: Final = 1.0  # of one standard deviation of similarity
_LEAST_SPREAD: Final = 1e-6  # of similarities that are all equal
_MAX_STEMS_COUNT: Final = 10_000  # of words that are remembered
_READ_CHARS: Final = 400  # of a text

# Each line names a topic, then words that tell it; the name is one of them. A topic may have several lines.
_TOPICS_TEXT: Final = """
answers answer reply response explanation emoji
food eat meal breakfast lunch dinner supper brunch restaurant cafe table dish recipe cook bake menu takeaway snack buffet cater picnic
food barbecue vegetarian vegan meat fish gluten coeliac lactose nuts spicy chilli grocery supermarket roast soup cake dessert sandwich
food thai indian italian chinese japanese vietnamese mexican curry pizza sushi lamb chicken egg cheese milk taste sugar coriander
drink drink wine beer alcohol bottle coffee tea juice cocktail bar pub champagne whisky
travel travel trip train rail flight fly plane airport station seat ride drive taxi bus ferry journey luggage departure passenger car tram
lodging hotel room bed night stay overnight accommodation pillow apartment inn hostel housekeeping bedding sleep airbnb
access stairs lift elevator floor wheelchair step flat walk mobility
meeting meeting meet appointment calendar schedule diary slot invite sync interview agenda workshop retrospective morning afternoon
meeting hour reschedule midweek
reminder remind reminder nudge forget remember appointment
contact mail email message phone ring call voicemail tell know inform contact reach chat sms news text
writing write draft letter summary post wording brochure spelling announce newsletter blog style translate describe introduction
writing card explain sentence sign subject essay proposal application leave explanation
figures figure number income revenue sales report spreadsheet chart graph plot statistics customer total quarter pdf turnover
units far hot warm cold temperature distance kilometre mile weigh heavy tall celsius fahrenheit weather metric unit degree kilo pound
dates date day month deadline milestone timeline year iso format
code code function script helper program parse python golang javascript typescript test coverage bug refactor class module api handler
code library sql orm endpoint compile linter upload query
storage database store storage column schema migration postgres sql persist record booking rename backup prototype
release release deploy production ship rollout live version hotfix
tickets ticket issue bug tracker file crash hang error defect sign-in
purchase buy order purchase quote supplier print offer shop price cheap vendor deliver subscription leaflet furniture software
money pay payment invoice money salary wage raise transfer cost budget expense refund approve fee
gift gift present christmas birthday buy wrap flowers bouquet
celebration birthday party celebrate surprise anniversary wedding housewarming farewell goodbye christmas fiftieth sixtieth sixth
music music song play playlist listen background concert radio instrumental band jazz loud
film film movie cinema watch series horror theatre screen evening show television
reading book read novel story author spoiler print paperback poem
health doctor health medicine antibiotic tablet pain allergy allergic migraine clinic surgery knee exercise training sport run dentist
clothes clothes shirt shoe wear jacket size wool dress trousers hat jumper
children child children kid family school homework toddler son daughter teenager nephew niece
outing outing weekend swim beach lake boat park hike sun outdoors excursion water sea sailing pool
privacy share public channel publish instagram private confidential secret password token website everyone social
photos photo picture camera snap image instagram
slides slide deck presentation present powerpoint
garden garden allotment plant slug flowers lawn
pets cat dog pet vet
household clean detergent laundry washing perfume scent rash
hiring candidate interview hire applicant job
language language german french english spanish portuguese italian translate
ai model ai assistant service customer data upload
"""
_DAYS_TEXT: Final = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october
november december
"""
_ANSWERS: Final = "answers"
_ENGLISH: Final = stemmer("english")


class _About(NamedTuple):
    """What a text is about: the stems of its words, its topics, and the stems of its names."""

    words: frozenset[str]
    topics: frozenset[str]
    names: frozenset[str]

    @classmethod
    def of(cls, text: str, sentence: str) -> Self:
        """What a text is about; names are looked for in the sentence."""
        found = _content(text)
        topic_of = _topics()
        topics = frozenset[str]().union(*(topic_of.get(stem, ()) for stem in found))
        return cls(found, topics, frozenset(_stems(sorted(names_in(sentence)))) - _days())


@lru_cache(1)
def _days() -> frozenset[str]:
    return frozenset(_stems(_DAYS_TEXT.split()))


@lru_cache(1)
def _topics() -> Mapping[str, frozenset[str]]:
    """By stem, the topics that a word tells."""
    found: dict[str, set[str]] = {}
    for line in _TOPICS_TEXT.strip().splitlines():
        topic, *others = line.split()
        for stem in _stems([topic, *others]):
            found.setdefault(stem, set()).add(topic)
    return {stem: frozenset(topics) for stem, topics in found.items()}


@lru_cache(_MAX_STEMS_COUNT)
def _stem(word: str) -> str:
    return _ENGLISH(fold(word))


def _stems(found: Sequence[str]) -> list[str]:
    return [_stem(word) for word in found]


def _content(text: str) -> frozenset[str]:
    """The stems of the words of a text, without stop words."""
    found = words(text[:_READ_CHARS])
    stops = stop_words(found)
    return frozenset(_stems([word for word in found if word not in stops]))


def _text_of(memory: PersonaMemory) -> str:
    return " ".join((memory.facet, memory.key, *memory.themes, memory.value))


def _rarity(count: int, of_all: int) -> float:
    return log1p((of_all - count + 0.5) / (count + 0.5))


def bearing_on(index: SearchIndex, request: str, direction: NDArray[Any] | None) -> Bears:
    """How much standing memories of an index bear on a request, as a function of some of them.

    Args:
        index: holds palace memories, under their names in it.
        request: what is asked for, in a person's words.
        direction: the vector of the request; None without an embedder.
    """
    similar = None if direction is None else index.similar(direction)
    if similar is None:
        return partial(bearings, request)
    rows = index.documents.rows

    def bears(memories: Sequence[PersonaMemory]) -> list[float]:
        there = (rows.get(f"{Kind.PALACE}/{memory.path}") for memory in memories)
        return bearings(request, memories, [0.0 if row is None else float(similar[row]) for row in there])

    return bears


def bearings(
    request: str, memories: Sequence[PersonaMemory], similar: Sequence[float] | None = None
) -> list[float]:
    """How much each of some standing memories bears on a request; higher is more, and 0 is nothing.

    Args:
        request: what is asked for, in a person's words.
        memories: the standing ones, all of them: rarity is counted among them.
        similar: the similarity in meaning of each to the request, if an embedder knows it.
    """
    known = [_About.of(_text_of(memory), memory.value) for memory in memories]
    asked = _About.of(request, f"- {request}")  # so that its first word may be a name too
    word_counts = Counter(stem for about in known for stem in about.words)
    topic_counts = Counter(topic for about in known for topic in about.topics)
    persons = frozenset[str]().union(*(about.names for about in known))
    total = len(known)
    found = []
    for about in known:
        rarities = [_rarity(topic_counts[topic], total) for topic in about.topics & asked.topics]
        by_topics = _MORE_SHARE * sum(rarities) + (1 - _MORE_SHARE) * max(rarities, default=0.0)
        shared = sum(_rarity(word_counts[stem], total) for stem in about.words & asked.words - asked.names)
        bearing = by_topics + _WORD_WEIGHT * shared + _ANSWERS_WEIGHT * (_ANSWERS in about.topics)
        if about.words & asked.names:
            bearing += _NAME_WEIGHT
        elif asked.names & persons and about.words & persons:
            bearing -= _OTHER_WEIGHT
        found.append(bearing)
    if similar is None or not total:
        return found
    near = np.asarray(similar, np.float64)
    places = (near - near.mean()) / max(float(near.std()), _LEAST_SPREAD)
    return [bearing + _MEANING_WEIGHT * place for bearing, place in zip(found, places.tolist(), strict=True)]
