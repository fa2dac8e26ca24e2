"""The words that carry grammar rather than content, and the stems of those that carry content.

English; other languages pass through as unknown words, which no rule acts on. Data and lookups only.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final
from unicodedata import normalize

import Stemmer


_LATIN_END: Final = "\u0250"
_ENGLISH: Final = Stemmer.Stemmer("english")
_IRREGULAR: Final = {
    "chose": "choose", "chosen": "choose", "led": "lead", "wrote": "write", "written": "write", "built": "build",
    "went": "go", "goes": "go", "married": "marry", "has": "have", "having": "have", "licence": "license",
    "licensed": "license", "colour": "color", "colours": "color", "favourite": "favorite", "favour": "favor",
    "centre": "center", "ran": "run", "made": "make", "got": "get", "lives": "live", "lived": "live",
    "js": "javascript", "ts": "typescript", "postgresql": "postgres", "tz": "timezone",
}  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lowercase word; British and irregular forms that matter here come out as one."""
    plain_word = word if word.isascii() else _unaccented(word)
    return str(_ENGLISH.stemWord(_IRREGULAR.get(plain_word, plain_word)))


def _unaccented(word: str) -> str:
    """`tomás` as `tomas`, the way keys are mostly written; other scripts keep their marks."""
    return "".join(
        decomposed[0] if sign < _LATIN_END and len(decomposed := normalize("NFD", sign)) > 1 else sign
        for sign in word
    )


def stems(text: str) -> frozenset[str]:
    """The stems of words separated by spaces."""
    return frozenset(map(stem, text.split()))


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Said before tokens are cut: idioms that mean one word.
_IDIOMS: Final = {
    r"no longer|not any longer|not any ?more": "not",
    r"(?:has |have |had )?(?:stopped|quit|quits|gave up|given up|gives up|ceased)(?= \w+ing\b)": "not",
    r"(?:can't|cannot|can not|couldn't) (?:stand|bear)": "hates",
    r"(?:is |am |are )?not a (?:big )?fan of": "dislikes",
    r"(?:is |am |are )?(?:a (?:big |huge )?fan of|fond of|keen on|into)(?= )": "likes",
    r"night owl|evening person|night person|late riser": "nightowl",
    r"morning person|early riser|early bird": "morningperson",
    r"(?:turned|switched) on": "enabled",
    r"(?:turned|switched) off": "disabled",
    r"(?:is|am|are) (?:for|in favou?r of)(?= )": "supports",
    r"(?:is|am|are) (?:against|opposed to)": "opposes",
    r"(?:has been |was |is )?(?:shut down|taken down|switched off)": "offline",
    r"in progress|in the works|work in progress|being built": "inprogress",
    r"under ?way": "underway",
    r"in review|under review": "inreview",
    r"on hold": "onhold",
    r"not (?:yet )?started|to do": "notstarted",
    r"called off": "calledoff",
    r"end[- ]to[- ]end": "endtoend",
    r"vs ?code|visual studio code": "vscode",
    r"operating system": "os",
    r"time zone": "timezone",
    r"(?:instead of|rather than|, (?:and )?not(?= ))": "over",
    r"pull request": "pr",
    r"open source": "opensource",
    r"closed source": "proprietary",
    r"any ?more|from now on|these days|at the moment|right now|as of now": "now",
    r"used to(?= \w)": "formerly",
    r"as a (?:child|kid|student|teenager)": "formerly",
    r"looked after by": "led by",
}
_IDIOM: Final = re.compile(rf"\b(?:{'|'.join(_IDIOMS)})(?!\w)")
_MEANINGS: Final = tuple(_IDIOMS.values())


def plain(text: str) -> str:
    """A lowercase clause with its idioms said in one word each."""
    return _IDIOM.sub(_meaning, text)


def _meaning(match: re.Match[str]) -> str:
    found = _each_idiom().match(match.string, match.start())
    return _MEANINGS[found.lastindex - 1] if found and found.lastindex else match[0]


@cache
def _each_idiom() -> re.Pattern[str]:
    """As `_IDIOM`, with a group for each: it takes more than twice as long to see that there is none."""
    return re.compile(rf"\b(?:({')|('.join(_IDIOMS)}))(?!\w)")


NEGATORS: Final = _set("not no never without cannot nor neither none nobody nothing lack lacks hardly")
STOP: Final = _set("""a an the this that these those and or to of in on at by for from with into onto about as it its it's he she
they them his her hers their theirs him i me my mine we us our ours you your yours who which what is are am was were be
been being do does did done's have has had having will would shall should can could may might must there here so too also
very really quite rather just still currently now already always usually mostly only even again yet then than over both every
each any some all own such s t d ll re ve m mr mrs ms dr per during while until since because if when unless though although
but however please get gets got make makes offer offers provide provides it'll that's there's need's not finally actually
definitely absolutely simply truly mainly generally kind sort bit lot much many well enough  ok okay""")
GENERIC: Final = stems("""think thinks find finds feel feels felt seem seems look looks believe say said new now
current currently is are not no has have do does set use using get make more really""")
KEY_NOISE: Final = stems("""new now note update updated current info fact old is are not no the of a an and or to in on at fix
moved switched changed 1 2 3 yes prefers prefer preference preferences likes choice decision setting settings config""")
PRONOUNS: Final = _set("he she it they his her its their him them this that")
FIRST: Final = _set("i my we our me us mine i'm we're")
BE: Final = _set("is are am was were be been being isn't aren't wasn't weren't :")
PAST: Final = _set("""was were had did went felt drove lived worked used grew studied ran wrote took came saw met bought sold said told gave
spent wasn't weren't didn't hadn't""")
FORMERLY: Final = _set("formerly previously once originally former earlier ex")
CHANGES: Final = _set("now moved switched changed renamed migrated became replaced instead updated relocated")
NOT_EVENTS: Final = _set("""moved switched changed renamed migrated decided settled picked need based hosted called named married
licensed written printed located planned scheduled signed red allowed fixed embed seed speed feed limited retired advanced
dedicated unsigned shared indeed founded unfixed failed opted failed wed united related""")
HYPOTHETICAL: Final = _set("""if might maybe perhaps would could considering proposed proposes suggests suggested wonder wonders imagine
hypothetically dream dreams wish wishes hopes thinking whether possibly probably""")
REPORTED: Final = _set(
    "says said claims claimed told wrote writes according reportedly allegedly heard rumour rumor"
)
FUZZY: Final = _set("about around roughly approximately almost nearly approx circa ca")
RELATIVE: Final = _set("tomorrow yesterday today tonight next last ago")
# After these, a slot's value is over and what limits it begins.
QUALIFIERS: Final = _set(
    "because since when if as for over than until so which who while unless during whenever except including"
)
IDENTIFYING: Final = _set("""issue pr crate version v week step milestone rfc nip chapter room part level phase sprint invoice ticket bug item
lesson section figure table build case option season episode volume relay server node drawer box batch order shard""")
