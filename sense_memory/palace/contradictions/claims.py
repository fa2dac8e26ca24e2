"""What a memory says: clauses, each a row of words and figures.

No grammar is parsed. A text is split into clauses at punctuation and conjunctions. The key of a word is its stem; opposites
have one key, their axis, and two sides; an idiom or a relation is one word ("moved to" and "lives in" are one relation);
figures have a kind. Words form phrases, each with the function word that leads it. `Alignment` puts the nearest clauses of two
texts side by side: what they share, and what only one of them says. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product, zip_longest
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.figures import BEFORE_FIGURES, MONTH, WHEN, WORD, Figure, items
from sense_memory.palace.contradictions.vocabulary import axis, in_one_word, stem, words


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.figures import Item

MAX_READ_CHARS: Final = 400  # of a value; what stands beyond counts as not said, and no embedder sees it
MAX_CLAUSES_COUNT: Final = 12
_MAX_KEY_CHARS: Final = 256
_MAX_BARE_COUNT: Final = 3
_UNIT_CHARS: Final = 2  # of a unit that `figures` does not know: "mg", "Hz"


@dataclass(frozen=True, slots=True)
class Word:
    """A word that carries content.

    Attributes:
        key: what it is compared by: a stem; `±` and an axis, `→` and a relation, `#` and a number that
            tells which thing.
        text: as it was written.
        lead: what leads its phrase, if it begins one: a preposition, `be`, `→` (a relation), `0` (a figure), `start`, an
            article or an owner ("the", "his"); else nothing.
        article: `a` or `the`, if there is one before it.
        phrase: the number of its phrase.
    """

    key: str
    text: str
    lead: str = ""
    article: str = ""
    phrase: int = 0


@dataclass(frozen=True, slots=True)
class Clause:
    """What stands between two punctuation marks or conjunctions.

    Attributes:
        text: as it was written.
        joint: the conjunction that it begins with, or `,` where it follows a comma, a dash or a bracket; nothing where it
            begins a sentence.
        words: those that carry content, in order.
        keys: their keys.
        row: all its words, in lower case, and its figures, in order, without articles.
        figures: what figures it gives.
        polarity: whether it is affirmed.
        sides: its axes, each with the side that it takes and the word for it.
        owned: whether it begins with a possession: "Nora's brother", so it is not about Nora.
        definite: whether it begins with something already known: "the", "my", "Nora's".
        flags: which of `terms.FLAGS` it shows: `turn` ("sold"), `hint` ("now"), `ongoing`, `plan`, `past`, `added` ("too") …
    """

    text: str = field(compare=False, repr=False)
    joint: str
    words: tuple[Word, ...]
    keys: frozenset[str]
    row: tuple[Item, ...] = field(compare=False)
    figures: tuple[Figure, ...]
    polarity: bool
    sides: dict[str, tuple[bool, str]]
    owned: bool
    definite: bool
    flags: frozenset[str] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a memory says.

    Attributes:
        text: as it was written, up to `MAX_READ_CHARS`.
        clauses: at most `MAX_CLAUSES_COUNT`.
        whole: whether all of it was read, and it begins with a letter or a digit: a bullet, a quotation mark or a `[label]`
            may limit what it says.
        named: the stems of the words of its key.
        index_terms: what the memory is found by; they depend on its key and value only.
        keys: the keys of all its words. Two memories whose words contradict each other share a key.
        names: the stems of its words with a capital.
        numbered: the words that tell a thing from others of its sort: `#5` of "room 5", `beta_search`; not a version, `#3.11`.
        flags: those of its clauses, and what "since …" or "from …" adds: `now`, `hint`, `plan`.
    """

    text: str = field(repr=False)
    clauses: tuple[Clause, ...]
    whole: bool
    named: tuple[str, ...]
    index_terms: frozenset[str]
    keys: frozenset[str]
    names: frozenset[str]
    numbered: frozenset[str]
    flags: frozenset[str]


# ── How English, mostly, says things ─────────────────────────────────────────────────────

_LABEL: Final = re.compile(r"^\s*(?:note|update|fyi|ps):\s*", re.IGNORECASE)
_QUOTES: Final = str.maketrans("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb", "''" + '"' * 5)
_SHORT: Final = tuple(
    (re.compile(short, re.IGNORECASE), long)
    for short, long in {
        r"[^.!?;\n]*\?": " ",  # a question claims nothing
        r"\bn(?:e |')((?:(?:[smtl]'|[smt]e |les? |la |lui |leur |en |y ))*\w+) plus\b": r"no longer \1",
        r"\bkein\w*((?: \w+)+?) mehr\b": r"no longer\1",
        r"\bcan(?:'t|not)\b": "can not",
        r"\bwon't\b": "will not",
        r"n't\b": " not",
        r"\b(he|she|it|that|there|who)'s\b": r"\1 is",
        r"'(?:re|m)\b": " are",
        r"'(?:ve|d(?= rather))\b": "",
        r"'ll\b": " will",
        r"'d\b": " would",
        r"\b([cdjlmnst]|qu)'(?=[^\W\d_])": r"\1' ",
        r"\bn[or]\. ?(?=\d)": "number ",
        r"(\w+)-(year|month|week)s?-old\b": r"\1 \2s old",
    }.items()
)
_SHORTENED: Final = re.compile(
    r"['?]|-old|annot|\bn[or]\.|\b(?:plus|mehr)\b", re.IGNORECASE
)  # most texts are not
# Team A, Agent X, Vitamin D: the letter is part of the name. Not "I", not "is A", and not the "A" of A Title In Capitals.
_LETTERED: Final = re.compile(
    r"\b(?!(?:is|are|was|at|to|of|in|on|for|by|and|or|not) )([A-Za-z]*[a-z]) ((?:[B-HJ-Z]|A(?! ?[A-Z]))\b(?![.'&]))"
)
_SINCE: Final = re.compile(
    rf"(?:^|,? )\b(?:since|as of|seit|depuis|desde) (?!next)(?:\w+ )?(?:\d{{4}}|{WHEN})\b(?:,(?= ))?",
    re.IGNORECASE,
)
_FROM: Final = re.compile(
    rf"(?<=[\da-z] )(?:from|ab|as of) (?:next )?(?:(?!(?:mon|tues)day)(?:\d{{4}}|{WHEN})\b|(?:mon|tues)day(?=[.,;]|$))",
    re.IGNORECASE,
)
_JOINTS: Final = (
    "because|but|although|while|so|and|after|before|until|unless|if|when|since|which|who|due to|thanks to"
)
_SENTENCE: Final = re.compile(
    rf"""[.;!\n\r](?:(?<=[\n\r])|(?=\s|$)(?:(?<![.])|(?<!\d.)(?<!\bmr.)(?<!\bdr.)(?<!\bst.)(?<!\bmrs.)(?<!\b\w.)|
(?<=\d.)(?=\s+(?!{MONTH}\b)[^\W\d_]|\s*$)))""",
    re.IGNORECASE | re.VERBOSE,
)
_CLAUSE: Final = re.compile(
    rf"[,](?=\s(?!\d{{4}}\b)|$)|[()\u2014\u2013]+|\s-\s|\s(?=(?:{_JOINTS})\s(?!\d))", re.IGNORECASE
)
_JOINT: Final = re.compile(rf"\s*(?:{_JOINTS})\b(?!-)", re.IGNORECASE)
_KEY_WORD: Final = re.compile(r"[^\W_]+")
_NAME: Final = re.compile(r"\b[A-ZÀ-Þ][^\W\d_]+")
_NUMBERED: Final = re.compile(r"#(?!\d+[.]\d).*|[^→]*_.*|\w+-[a-z]$")
_VERBS: Final = terms.AUXILIARIES | terms.RELATIONS.keys()
_INDEFINITE: Final = words("a an ein eine einen un une una um uma")
_DEFINITE: Final = words("the my our this der die das le la les el los las o a os as")
_OWNERS: Final = words("my your his her its their our mein meine mon ma mes mi mis meu minha")


# ── Reading ─────────────────────────────────────────────────────────────────────────────


def read(memory: PersonaMemory) -> Reading:
    """What a memory says."""
    named = tuple(map(stem, _KEY_WORD.findall(memory.key[:_MAX_KEY_CHARS].lower())))
    written = memory.value[:MAX_READ_CHARS]
    text = _LABEL.sub("", written.translate(_QUOTES))
    if _SHORTENED.search(text):
        for short, long in _SHORT:
            text = short.sub(long, text)
    text = _LETTERED.sub(r"\1-\2", text)
    text, since = _SINCE.subn("", text)
    text, start = _FROM.subn("", text)
    parts = [
        (part.strip(), "," if at else "")
        for sentence in _SENTENCE.split(text)
        for at, part in enumerate(_CLAUSE.split(sentence))
        if part and not part.isspace()
    ]
    clauses = tuple(filter(None, (_clause(*part, frozenset(named)) for part in parts[:MAX_CLAUSES_COUNT])))
    moods = {"now", "hint"} if since else {"plan", "hint"} if start else set()
    flags = frozenset(moods).union(*(clause.flags for clause in clauses))
    keys = frozenset[str]().union(*(clause.keys for clause in clauses))
    return Reading(
        written,
        clauses,
        len(memory.value) <= MAX_READ_CHARS
        and len(parts) <= MAX_CLAUSES_COUNT
        and memory.value[:1].isalnum(),
        named,
        frozenset(key for clause in clauses for key in _found_by(clause)),
        keys,
        frozenset(stem(name.lower()) for name in _NAME.findall(text)),
        frozenset(filter(_NUMBERED.fullmatch, keys)),
        flags,
    )


def claim_the_same(one: Reading, other: Reading) -> bool:
    """Whether two texts say the same, as facts of the same time, be it said to be new or not."""
    moods = (one.flags ^ other.flags) & {"plan", "past", "event", "added"}
    return one.clauses == other.clauses and not moods


def _found_by(clause: Clause) -> Iterator[str]:
    """The words of a clause, and its relation together with its subject."""
    for word in clause.words:
        yield word.key.lstrip("±")
        if word.key[0] == "→":
            subject = sorted(one.key for one in clause.words if one.phrase == 0 and one.key[0] != "→")
            yield f"{word.key}|{' '.join(subject)}"


def _flags(text: str, meant: str) -> set[str]:
    """The flags of a lowercase clause: `past` and `now` of what its idioms mean, the others of what is written."""
    searched = {name: meant if name in {"past", "now"} else text for name in terms.FLAGS}
    found = {name for name, pattern in terms.FLAGS.items() if pattern.search(searched[name])}
    return found - ({"past", "event"} if "lasting" in found else set())


def _clause(text: str, joint: str, named: frozenset[str]) -> Clause | None:
    """One clause; None where nothing is said, or only an article."""
    if match := _JOINT.match(text):
        joint = match[0].strip().lower()
    said = text[match.end() :] if match else text
    meant = in_one_word(said.lower())
    found = items(meant)
    row = tuple(
        item if isinstance(item, Figure) else item.removesuffix("'s")
        for item in found
        if item not in terms.ENGLISH_ARTICLES
    )
    if not row:
        return None
    spelled = {word.lower(): word for word in WORD.findall(said)}
    subject = tuple(_subject(found, named))
    tokens = (*subject, *_words(found, spelled, "be" if subject else "start"))
    contents = [item.removesuffix("'s") for item in found if isinstance(item, str) and item not in terms.STOP]
    sides = {name: (side, item) for item in reversed(contents) for name, side in [axis(item)]}
    owned = any(str(item).endswith("'s") for item in found[:2]) or found[0] in _OWNERS
    return Clause(
        text=text,
        joint=joint,
        words=tokens,
        keys=frozenset(token.key for token in tokens),
        row=row,
        figures=tuple(item for item in found if isinstance(item, Figure)),
        polarity=sum(item in terms.NEGATORS for item in found) % 2 == 0,
        sides=sides,
        owned=owned,
        definite=found[0] in _DEFINITE or owned,
        flags=frozenset(_flags(text.lower(), meant)),
    )


def _subject(found: Sequence[Item], named: frozenset[str]) -> Iterator[Word]:
    """The words of the key, where a clause begins with a pronoun or a relation, or is a bare value: a timezone.
    Attributes are last, because the last word of a phrase is its head.
    """
    is_bare = len(found) <= _MAX_BARE_COUNT and _VERBS.isdisjoint(found)
    if (is_bare and named & terms.ATTRIBUTES) or found[0] in terms.PRONOUNS or found[0] in terms.RELATIONS:
        said = {stem(item) for item in found if isinstance(item, str)}
        for word in sorted(named - terms.KEY_NOISE - said, key=lambda word: (word in terms.ATTRIBUTES, word)):
            yield Word(word, word, "start")


def _words(found: Sequence[Item], spelled: dict[str, str], lead: str) -> Iterator[Word]:
    """The words of a clause that carry content, each with what leads its phrase."""
    article, phrase = "", 0
    for item in found:
        if isinstance(item, Figure):
            lead, article = "0", ""
        elif item in terms.NEGATORS:
            continue
        elif item in terms.STOP:
            if item in terms.ARTICLES:
                article = "a" if item in _INDEFINITE else "the"
            if item in terms.BE:
                lead = lead if lead == "→" else "be"
            elif item in terms.LEADS:
                lead = item
            elif item in terms.ARTICLES or item in _OWNERS:
                lead = lead or item
        else:
            phrase += bool(lead) and lead != "start"
            word = item.removesuffix("'s")
            key = f"→{word}" if word in terms.RELATIONS else axis(word)[0]
            yield Word(
                key, spelled.get(item, word.replace("_", " ")).removesuffix("'s"), lead, article, phrase
            )
            lead, article = "→" if key[0] == "→" else "", ""


def tells_how_many(clause: Clause, figure: Figure) -> bool:
    """Whether a figure of a clause surely tells how many or how much, and not which one of several is meant.

    It does if it has a unit, or follows a verb, a preposition or what is measured: "Ana has 3 cats", "I drink 2 coffees",
    and not "value 3 of load", "motor 3 from the shop".
    """
    at = clause.row.index(figure)
    ahead = [item for item in clause.row[:at] if item not in terms.ARTICLES]
    before = ahead[-1] if ahead else ""
    after = next(iter(clause.row[at + 1 :]), "")
    if figure.kind == "date":
        return not before or not isinstance(before, str) or bool({before, stem(before)} & _DATED)
    if figure.kind or after in terms.TIMES or not isinstance(before, str):
        return True
    is_verb = len(ahead) > 1 and ahead[-2] in terms.SUBJECTS  # "they drink 2", whatever the verb
    is_counted = (
        after in terms.PLURALS
        or str(after).endswith("s")
        or (len(str(after)) <= _UNIT_CHARS and after not in terms.STOP)
    )
    # "shows 24 prints", "takes 5 mg"; not "the lens 24 cracked"
    is_count = before.endswith("s") and stem(before) != before and is_counted
    return not before or is_verb or is_count or bool({before, stem(before)} & _COUNTING)


# Not behind words that are nouns too: "take 3", "turn 17".
_COUNTING: Final = (BEFORE_FIGURES - words("take turn hold last")) | terms.MEASURED | terms.HAVE

_DATED: Final = BEFORE_FIGURES | terms.SCHEDULED | terms.OCCASIONS | words("es est")


# ── Alignment ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Alignment:
    """The two clauses of two texts that share most and are not the same, and what only one of them says.

    Attributes:
        old_reading: what the earlier text says.
        new_reading: what the later one says.
        old: the clause of the earlier text.
        new: the clause of the later one.
        shared: the keys of both.
        old_only: the words of the old clause that the new one has not.
        new_only: those of the new clause that the old one has not.
        apart: their figures, each with the other's at its place, that are not the same.
        flips: the axes on which they take two sides, with the words of both.
        relation: the name of the relation of both, or nothing.
    """

    old_reading: Reading
    new_reading: Reading
    old: Clause
    new: Clause
    shared: frozenset[str]
    old_only: tuple[Word, ...]
    new_only: tuple[Word, ...]
    apart: tuple[tuple[Figure | None, Figure | None], ...]
    flips: tuple[tuple[str, str, str], ...]
    relation: str

    @classmethod
    def of(cls, old_reading: Reading, new_reading: Reading) -> Alignment:
        """The alignment of two texts that share a key."""
        old, new = max(product(old_reading.clauses, new_reading.clauses), key=_nearness)
        shared = old.keys & new.keys
        figures = zip_longest(old.figures, new.figures)
        sides = ((name, *old.sides[name], *new.sides[name]) for name in old.sides.keys() & new.sides)
        return cls(
            old_reading,
            new_reading,
            old,
            new,
            shared,
            tuple(word for word in old.words if word.key not in shared),
            tuple(word for word in new.words if word.key not in shared),
            tuple((a, b) for a, b in figures if not a or not b or a.kind != b.kind or a.differs(b)),
            tuple(sorted((name, a, b) for name, up, a, to, b in sides if up != to)),
            next((key[1:] for key in sorted(shared) if key[0] == "→"), ""),
        )


def _nearness(pair: tuple[Clause, Clause]) -> float:
    one, other = pair
    shared = len(one.keys & other.keys)
    return shared - 0.1 * (len(one.keys) + len(other.keys) - 2 * shared) - 99 * (one.row == other.row)
