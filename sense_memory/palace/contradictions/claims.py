"""What a memory claims: for each clause who is spoken of, what is said, with what value, under which conditions.

No grammar is parsed. A clause is read as a row of tokens: stems, with opposites folded into an axis and its side, idioms and relations in one word each ("moved to" and "lives in"
are one relation), figures and dates typed. Tokens form phrases, each with the function word that leads it. What is the
value and what the scope shows when two clauses are aligned: see `detection`. Long texts are read up to a bound. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.figures import Figure, items
from sense_memory.palace.contradictions.suspicion import Note
from sense_memory.palace.contradictions.vocabulary import axis, plain, stem, words


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.figures import Item

MAX_READ_CHARS: Final = 2_000  # of a value; notes are far shorter, and a clause beyond counts as not said
MAX_NOTE_CHARS: Final = 400  # of a value read as a whole
MAX_CLAUSES_COUNT: Final = 8  # read of one memory
MAX_CLAUSE_ITEMS: Final = 40  # a longer clause is not a short note
_MAX_KEY_CHARS: Final = 256
_MAX_BARE_ITEMS: Final = 3
_MAX_SURE_CLAUSES: Final = 2


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a clause that carries content.

    Attributes:
        key: what it is compared by: a stem; `±` and an axis, `~` and a status, `→` and a relation, `#`
            and a number that tells which thing.
        text: as it was written.
        lead: what leads its phrase, if it begins one: a preposition, `be`, `→` (a relation), `the` or `start`;
            `and` before a further thing of a list, an article; else nothing.
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
    """What a clause says.

    Attributes:
        text: as it was written.
        tokens: its words, in order, without figures.
        keys: their keys.
        polarity: whether it is affirmed.
        mood: `fact`, `past` or `plan`.
        sides: its axes, the side of each, and the word for it.
        figures: what figures it gives.
        owned: whether it begins with a possession: "Nora's brother", so it is not about Nora.
        definite: whether it begins with something already known: "the", "my", "Nora's".
        changed: whether it says that something is new.
        added: whether it says that what was said before stays true: "too", "also".
    """

    text: str = field(compare=False, repr=False)
    tokens: tuple[Token, ...]
    keys: frozenset[str]
    polarity: bool
    mood: str
    sides: tuple[tuple[str, bool, str], ...]
    figures: tuple[Figure, ...]
    owned: bool
    definite: bool
    changed: bool
    added: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """What a memory says.

    Attributes:
        clauses: at most `MAX_CLAUSES_COUNT`.
        whole: whether everything was read and has two clauses at most: a longer memory says other things too.
        note: the whole text, for `suspicion`.
        keys: what the memory is found by. Two memories whose words contradict each other share a key. Keys depend
            on the memory's key and value only.
    """

    clauses: tuple[Clause, ...]
    whole: bool
    note: Note = field(compare=False)
    keys: frozenset[str]


# ── How English, mostly, says things ─────────────────────────────────────────────────────


def _any_case(*parts: str) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_CLAUSE: Final = _any_case(
    r"(?<=[^\W\d])[.](?=\s|$)|(?<=[\d%)'\"])[.](?=\s+[^\W\d_]|\s*$)|[!;\n\r()\u2014\u2013]+|(?<=\?)|,? but "
)
_SPLICE: Final = _any_case(r", (?=(?:they|he|she|it|we|everything|everybody|both|all|the) \w+ )")
_LABEL: Final = _any_case(
    r"^\s*(?:\[[^\]]{0,40}\]|\(?\d{4}-\d\d-\d\d\)?|(?:note|update|fyi|ps|correction)(?=:))[:,]?\s*"
)
_QUOTES: Final = str.maketrans("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb", "''" + '"' * 5)
_SHORT: Final = tuple(
    (_any_case(short), long)
    for short, long in {
        r"\bcan(?:'t|not)\b": "can not",
        r"\bwon't\b": "will not",
        r"\b(could|would|do|does|did|is|are|was|were|has|have|had|must|should)n't\b": r"\1 not",
        r"\b(he|she|it|that|there|who)'s\b": r"\1 is",
        r"\bI'm\b": "I am",
        r"'re\b": " are",
        r"'ve\b": " have",
        r"'ll\b": " will",
        r"'d rather\b": " rather",
        r"(?<=\w)'s\b|(?<=s)'(?=\s)": "",
        r"\b([ldmtsjnq])'(?=[aeiouyhàâéèêî])": r"\1' ",
        r"(\w+)-(year|month|week)s?-old\b": r"\1 \2s old",
    }.items()
)
_SWITCH: Final = _any_case(r"^(.+?) (?:switched|migrated) from (.+?) to (.+)$")
_SWITCHED: Final = r"\1 no longer uses \2; \1 uses \3"
_REASON: Final = _any_case(
    r",? (?:because|so that|due to|thanks to|since (?=he|she|it|they|the |i )|as (?=it|she|he|they|i |the )).*$"
)
# Team A, Agent X, Vitamin D: the letter is part of the name. Not "I", and not the "A" of A Title In Capitals.
_LETTERED: Final = re.compile(r"\b([A-Za-z]*[a-z]) ((?:[B-HJ-Z]|A(?! ?[A-Z]))\b(?![.'&]))")
_SINCE: Final = _any_case(
    r"(?:^|,? )\b(?:since|as of|ab|seit|depuis|desde|(?<=\d )from|(?<=[a-z] )from(?= (?!monday|tuesday))) (?:\w+ )?(?:\d{4}|january|",
    r"february|march|april|may|june|july|august|september|october|november|december|\w+day|spring|summer|autumn|winter)\b",
)
_RENEWED: Final = _any_case(r"^((?:my|our|his|her|their|the \w+|[\w-]+'s) )(?:new|current) ")
_COMMA: Final = re.compile(r", (?!\d)")
_OWNS: Final = _any_case(r"\s*(?:\w+(?:'s|s') |(?:my|his|her|their|our) )")
_KEY_WORD: Final = re.compile(r"[^\W_]+")
_SPELLED: Final = re.compile(r"[^\W_]\w*(?:['./_&+\#@-]+\w+)*[+\#]*")
# Nora played; not "a used car", "is based", "is it unused".
_EVENT: Final = re.compile(
    r"(?!(?:is|are|the|an?|my|our)\b)[\w#-]+ (?!un|dis|enabled|activated|resolved)\w{3,}ed\b"
)
_VERBS: Final = terms.AUXILIARIES | terms.RELATIONS.keys()
_SILENT: Final = terms.STOP | terms.RELATIONS.keys()
_INDEFINITE: Final = words("a an ein eine einen un une una um uma")
_DEFINITE: Final = words("the my our this der die das le la les el los las o a os as")
_OWNERS: Final = words("my your his her its their our")
_AND: Final = words("and or und et y e &")


# ── Reading ─────────────────────────────────────────────────────────────────────────────


def read(memory: PersonaMemory) -> Reading:
    """What a memory claims."""
    named = frozenset(map(stem, _KEY_WORD.findall(memory.key[:_MAX_KEY_CHARS].lower())))
    texts = _split(_LABEL.sub("", memory.value[:MAX_READ_CHARS].translate(_QUOTES)))
    found = [_clause(*text, named) for text in texts[:MAX_CLAUSES_COUNT]]
    clauses = tuple(filter(None, found))
    whole = len(memory.value) <= MAX_READ_CHARS and len(texts) <= _MAX_SURE_CLAUSES and all(found)
    keys = frozenset(key for clause in clauses for key in _found_by(clause))
    return Reading(clauses, whole, Note.of(memory.value[:MAX_NOTE_CHARS]), keys)


def _found_by(clause: Clause) -> Iterator[str]:
    """The words of a clause, and its relation together with its subject."""
    for token in clause.tokens:
        yield token.key.lstrip("±~")
        if token.key[0] == "→":
            subject = sorted(one.key for one in clause.tokens if one.phrase == 0 and one.key[0] != "→")
            yield f"{token.key}|{' '.join(subject)}"


def _split(text: str) -> list[tuple[str, str, bool]]:
    """The clauses of a text as written, without short forms, and whether each begins with what somebody has."""
    found = []
    for sentence in _CLAUSE.split(text):
        for clause in _SPLICE.split(sentence):
            if not clause or clause.isspace():
                continue
            said = clause
            if "'" in said or "-old" in said or "cannot" in said:
                for short, long in _SHORT:
                    said = short.sub(long, said)
            owned = _OWNS.match(clause) is not None
            parts = _SWITCH.sub(_SWITCHED, said).split("; ")
            found += [(clause, " ".join(part.split()), owned) for part in parts]
    return found


def _clause(written: str, said: str, owned: bool, named: frozenset[str]) -> Clause | None:
    """One clause; None for a question, a quotation, and what is too long for a note."""
    if "?" in said or '"' in said:
        return None
    text, since = _SINCE.subn("", _REASON.sub("", _LETTERED.sub(r"\1-\2", said)))
    text, renewed = _RENEWED.subn(r"\1", text)
    lower = plain(text.lower())
    found = items(_COMMA.sub(" and ", lower))
    if not 0 < len(found) <= MAX_CLAUSE_ITEMS:
        return None
    spelled = {word.lower(): word for word in _SPELLED.findall(text)}
    subject = tuple(_subject(found, named))
    tokens = (*subject, *_tokens(found, spelled, "be" if subject else "start"))
    contents = [item for item in found if isinstance(item, str) and item not in _SILENT]
    sides = {name: (name, side, item) for item in reversed(contents) for name, side in [axis(item)]}
    return Clause(
        text=written,
        tokens=tokens,
        keys=frozenset(token.key for token in tokens),
        polarity=sum(item in terms.NEGATORS for item in found) % 2 == 0,
        mood=_mood(lower, text.lower(), found),
        sides=tuple(sorted(value for name, value in sides.items() if name)),
        figures=tuple(item for item in found if isinstance(item, Figure)),
        owned=owned,
        definite=found[0] in _DEFINITE or owned,
        changed=since + renewed > 0
        or not terms.CHANGES.isdisjoint(item for item in found if isinstance(item, str)),
        added=terms.ADDED.search(lower) is not None,
    )


def _subject(found: Sequence[Item], named: frozenset[str]) -> Iterator[Token]:
    """The words of the key, where a clause begins with a pronoun or a relation, or is a bare value: a timezone."""
    is_bare = len(found) <= _MAX_BARE_ITEMS and _VERBS.isdisjoint(found)
    if (is_bare and named & terms.ATTRIBUTES) or found[0] in terms.PRONOUNS or found[0] in terms.RELATIONS:
        said = {stem(item) for item in found if isinstance(item, str)}
        for word in sorted(named - terms.KEY_NOISE - said):
            yield Token(word, word, "start")


def _tokens(found: Sequence[Item], spelled: dict[str, str], lead: str) -> Iterator[Token]:
    """The words of a clause that carry content, each with what leads its phrase."""
    article, phrase, is_said = "", 0, lead == "be"
    seen: dict[str, bool] = {}
    for at, item in enumerate(found):
        if isinstance(item, Figure):
            lead, article = "0", ""
        elif item in terms.NEGATORS:
            continue
        elif item in terms.STOP and item not in terms.FIRST:
            if item in terms.ARTICLES:
                article = "a" if item in _INDEFINITE else "the"
            if item in terms.BE:
                lead, is_said = lead if lead == "→" else "be", True
            elif item in terms.LEADS:
                lead = item
            elif item in _AND:
                lead = lead or "and"
            elif item in terms.ARTICLES or item in _OWNERS:
                lead = lead or item
        else:
            phrase += bool(lead) and lead not in {"and", "start"}
            key = _key(item, seen, is_said, at == len(found) - 1)
            yield Token(key, spelled.get(item, item.replace("_", " ")), lead, article, phrase)
            lead, article = "→" if key[0] == "→" else "", ""


def _key(item: str, seen: dict[str, bool], is_said: bool, is_last: bool) -> str:
    """What a word is compared by; `seen` are the axes of the clause so far."""
    if item in terms.RELATIONS:
        return f"→{item}"
    if item in terms.STATUS and (is_said or is_last):
        return f"~{terms.STATUS[item]}"
    name, side = axis(item)
    return name if name and seen.setdefault(name, side) == side else stem(item)


def _mood(lower: str, written: str, found: Sequence[Item]) -> str:
    if terms.PLANS.search(lower):
        return "plan"
    if found[-1] in terms.STATUS or terms.LASTING.search(written):
        return "fact"
    return "past" if terms.PAST.search(lower) or _EVENT.match(written) else "fact"
