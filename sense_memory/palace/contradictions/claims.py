"""What a memory claims: for each clause who is spoken of, what is said, with what value, under which conditions.

A claim is (subject, relation, value, scope, polarity). A clause makes one claim of the relation that it names ("Nora works
at Bosch"), where `vocabulary` knows it, and always one of what it says as a whole: its words, with opposites folded into
an axis and figures set apart, so that "telemetry is enabled" and "telemetry is off" are one sentence with two sides.
Nothing else is understood. Long texts are read up to a bound. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.figures import Figure, items, measures
from sense_memory.palace.contradictions.vocabulary import (
    ARTICLES,
    ATTRIBUTES,
    AUXILIARIES,
    BE,
    CHANGES,
    FIRST,
    KEY_NOISE,
    LASTING,
    NEGATORS,
    PAST,
    PLANS,
    PRONOUNS,
    RELATION,
    RELATION_NAMES,
    SAME_RELATION,
    STATES,
    STATUS,
    STOP,
    TURNS,
    axis,
    plain,
    stem,
    words,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.figures import Item

MAX_READ_CHARS: Final = 2_000  # of a value; notes are far shorter, and a clause beyond counts as not said
MAX_CLAIMS_COUNT: Final = 8  # clauses read of one memory
MAX_CLAUSE_ITEMS: Final = 40  # a longer clause is not a short note
_MAX_KEY_CHARS: Final = 256
_MAX_SUBJECT_WORDS: Final = 6
_MAX_VALUE_WORDS: Final = 6
_MAX_BARE_ITEMS: Final = 3
_MAX_SURE_CLAUSES: Final = 2
_TRIVIAL: Final = words("new now note updat current old later my 1 2 3")
SAYS: Final = "says"  # the relation of a clause as a whole

_CLAUSE: Final = re.compile(
    r"(?<=[^\W\d])[.](?=\s|$)|(?<=[\d%)'\"])[.](?=\s+[^\W\d_]|\s*$)|[!;\n\r()\u2014\u2013]+|(?<=\?)|,? but "
)
_LABEL: Final = re.compile(
    r"^\s*(?:\[[^\]]{0,40}\]|\(?\d{4}-\d\d-\d\d\)?|(?:note|update|fyi|ps|correction)(?=:))[:,]?\s*",
    re.IGNORECASE,
)
_QUOTES: Final = str.maketrans("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb", "''" + '"' * 5)
_SHORT: Final = tuple(
    (re.compile(short, re.IGNORECASE), long)
    for short, long in {
        r"\bcan(?:'t|not)\b": "can not",
        r"\bwon't\b": "will not",
        r"\b(could|would|do|does|did|is|are|was|were|has|have|had|must|should)n't\b": r"\1 not",
        r"\b(he|she|it|that|there|who)'s\b": r"\1 is",
        r"\bI'm\b": "I am",
        r"'re\b": " are",
        r"'ve\b": " have",
        r"'ll\b": " will",
        r"(?<=\w)'s\b|(?<=s)'(?=\s)": "",
        r"\b([ldmtsjnq])'(?=[aeiouyhàâéèêî])": r"\1' ",
        r"(\w+)-(year|month|week)s?-old\b": r"\1 \2s old",
    }.items()
)
_REASON: Final = re.compile(
    r",? (?:because|so that|due to|thanks to|since (?=he|she|it|they|the |i )|as (?=it|she|he|they|i |the )).*$",
    re.IGNORECASE,
)
# Team A, Agent X, Vitamin D: the letter is part of the name. Not "I", and not the "A" of A Title In Capitals.
_LETTERED: Final = re.compile(r"\b([A-Za-z]*[a-z]) ((?:[B-HJ-Z]|A(?! ?[A-Z]))\b(?![.'&]))")
_HEDGE: Final = re.compile(
    r"\b(?:will|shall|going to|wird|werden|sera|será|vai|va a|including|excluding|incl|excl|plus|before tax|after tax|"
    r"inklusive|exklusive|zzgl|sans|avec|compris|incluido|incluído|sin|sem)\b"
)
_SINCE: Final = re.compile(
    r",? \b(?:since|as of|from|ab|seit|depuis|desde) (?:\w+ )?(?:\d{4}|january|february|march|april|may|june|july|august|september|october|november|december|\w+day|spring|summer|autumn|winter)\b|,? for (?:\w+|\d+) (?:years|months|weeks)\b",
    re.IGNORECASE,
)
_ASIDE: Final = re.compile(
    r", | (?:with (?=(?:my|his|her|their|our)\b)|which|who|whose|where|while|and (?=(?:he|she|it|they|is|has|\w+s)\b)|\w+ing)\b",
    re.IGNORECASE,
)
_END: Final = re.compile(
    r",(?!\d)| - |(?<![\w.@/-])(?:and|or|but|when|whenever|where|which|who|whose|with|without|for|in|on|at|during|until|unless|while|if|from|"
    r"near|among|after|before|by|so|to|than|over|instead|rather|including|except|every|each|these|this|as|via|since|now|again|any|"
    r"ab|seit|für|als|depuis|pour|avec|à|al|para|con|com|desde|mit|bei|gezogen|umgezogen)\b",
    re.IGNORECASE,
)
_OVER: Final = re.compile(
    r" (?:over|(?:better|more) than|rather than|instead of|to|than|als|à|au|aux|al|a|do que|que|ao) ",
    re.IGNORECASE,
)
_COPULA: Final = re.compile(
    r"^(?P<subject>[^,:]{2,80}?)(?: (?:(?:was|has been|is) (?:moved|postponed|changed|raised|cut|lowered|increased|reduced|"
    r"extended|shifted|pushed|set)(?: back| forward)? to|went (?:up|down) to|will be|has been|is|are|am|was|ist|sind|est|sont|es|son|é|são)"
    r"(?: now| currently| set to| jetzt| maintenant| ahora| agora)?(?: at| on| in| am| le| el)? |: )(?P<value>.+)$",
    re.IGNORECASE,
)
_DATED: Final = re.compile(
    r"^(?P<subject>(?!an? |there )[^,:]{2,80}?) (?:(?P<moved>(?:(?:was|has been|is|got) )?(?:now )?(?:moved|postponed|pushed|put|"
    r"shifted|rescheduled|delayed|changed|brought|slipped)(?: back| forward| up| out)? (?:to|until))|"
    r"(?:takes place|happens|is(?: now)?(?: due| scheduled| planned| set)?)(?: on| for| at)?) (?P<value>.+)$",
    re.IGNORECASE,
)
_DWELLING: Final = re.compile(r"^ (?:an?|the) [\w -]{2,30}? in (?=[A-ZÀ-Þ])")
_OWNER: Final = re.compile(r"(?!an? |one )\w+ ", re.IGNORECASE)
_MODAL_NAME: Final = re.compile(r"^(Will|May)\b(?=(?: (?!be\b)|'s))")
_PART: Final = re.compile(r",|\band\b(?= [a-z])|\bto\b(?= [a-z])")
_OWNS: Final = re.compile(r"\s*(?:\w+(?:'s|s') |(?:my|his|her|their|our) )", re.IGNORECASE)
_RENEWED: Final = frozenset(("new", "current"))
_LATELY: Final = re.compile(
    r"^(?:(?:last|this) \w+|in \w+|on \w+day|yesterday|recently|lately),? ", re.IGNORECASE
)
_MOVES: Final = re.compile(r"moved|switched|migrated|renamed|settled|relocated|(?:has|ist|se|a|mudou) ")
_LEADING_ARTICLE: Final = re.compile(r"^(?:the|my|our) ", re.IGNORECASE)
_SORT: Final = re.compile(r"(?:now )?(?:an?|eine?|une?|uma?|una) ", re.IGNORECASE)
_SWITCH: Final = re.compile(r"^ ?from (?P<left>.+?) to (?P<new>.+)$", re.IGNORECASE)
_OPENING: Final = re.compile(
    r"^(?:in|at|on|for|during|since|until|before|after|with|without|as|when|if|every|each|outside|under|according to|im|am|bei|pour|en|nas?|por|à) "
    r"(?:[^,]{1,60},|(?:the |an? )?(?:\d{4}|winter|summer|spring|autumn|fall|mornings?|evenings?|weekends?|weekdays?|\w+days?)\b)",
    re.IGNORECASE,
)
_ADVERBS: Final = frozenset(("also", "set"))
_CLAUSAL: Final = words("who that which if when whether said says thinks believes and or because")
_LEADING: Final = words("in by on with via to at under using wants want")
_CAPITAL: Final = re.compile(r"(?<=[\w,] )[A-ZÀ-Þ][\w-]+")
_DEFINITE: Final = words("the my our this der die das le la les el los las o a os as")
_KEY_WORD: Final = re.compile(r"[^\W_]+")
_NAME_LIKE: Final = re.compile(r"[^\W\d_]*[A-ZÀ-ÞŠŽ\d@/.#+][\w@/.#+-]*")


@dataclass(frozen=True, slots=True)
class Value:
    """The noun phrase that a relation gives.

    Attributes:
        words: its stems, in order.
        text: as it was written, without an article.
        kind: `name`, `figure`, `list`, `a` (one of a sort), or `word`.
        figures: what figures it has.
    """

    words: tuple[str, ...]
    text: str
    kind: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a memory says.

    Attributes:
        subject: stems of whom it is about; of a clause as a whole, all its words but figures, `±` for an axis.
        relation: a name of `vocabulary`, `is` for an attribute named in the subject, or `SAYS`.
        value: what the relation gives.
        scope: stems of the conditions it holds under; `placed` tells that they are names only, such as of a town.
        polarity: whether it is affirmed.
        mood: `fact`, `past` or `plan`.
        sides: of a whole clause, its axes, the side of each, and the word for it.
        figures: of a whole clause, what figures it gives.
        states: of a whole clause, the states that it names: a number of `STATES` and a side.
        names: of a whole clause, stems of its capitalised words, except the first.
        definite: whether a clause begins with something already known: "the", "my", "Nora's".
        told: of a whole clause, the words after a form of `be` or a preposition: what the clause says about its subject.
        over: what the value is preferred over.
        changed: whether it says that something is new.
        turned: of a whole clause, stems of the part that reports a change: what was left, moved or cancelled.
        aside: whether the clause says more than the claim.
        hedged: whether the clause says that the value is to come, or what it includes.
        owned: whether a clause begins with a possession: "Nora's brother", so the claim is not about Nora.
        spoken: stems and the words as they were written, in order; of an attribute its name.
        measures: of a clause with a number, in what it is measured: per month, before tax.
    """

    subject: frozenset[str]
    relation: str
    value: Value | None = None
    scope: frozenset[str] = frozenset()
    placed: bool = False
    polarity: bool = True
    mood: str = "fact"
    sides: tuple[tuple[str, bool, str], ...] = ()
    figures: tuple[Figure, ...] = ()
    states: frozenset[tuple[int, bool]] = frozenset()
    names: frozenset[str] = frozenset()
    definite: bool = False
    told: frozenset[str] = frozenset()
    over: tuple[str, ...] = ()
    changed: bool = False
    turned: frozenset[str] = frozenset()
    aside: bool = False
    hedged: bool = False
    owned: bool = False
    spoken: tuple[tuple[str, str], ...] = ()
    measures: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Reading:
    """A memory as claims.

    Attributes:
        claims: of at most `MAX_CLAIMS_COUNT` clauses.
        context: stems of the key and the themes: what a clause may leave unsaid.
        whole: whether everything was read and has two clauses at most: a longer memory says other things too.
        keys: what the memory is found by. Two memories whose words contradict each other share a key. Keys depend
            on the memory's key, themes and value only.
    """

    claims: tuple[Claim, ...]
    context: frozenset[str]
    whole: bool
    keys: frozenset[str]


def read(memory: PersonaMemory) -> Reading:
    """The claims of a memory."""
    key = key_words(memory.key)
    themes = frozenset(word for theme in memory.themes[:16] for word in key_words(theme[:_MAX_KEY_CHARS]))
    claims: list[Claim] = []
    whole, count, before = len(memory.value) <= MAX_READ_CHARS, 0, frozenset[str]()
    for clause, owned in _clauses(_LABEL.sub("", memory.value[:MAX_READ_CHARS].translate(_QUOTES))):
        if count == MAX_CLAIMS_COUNT:
            whole = False
            break
        count += 1
        said = list(_claims(clause, owned, before or key - KEY_NOISE, key))
        if any(not figure.is_date for claim in said for figure in claim.figures):
            said = [replace(claim, measures=measures(clause.lower())) for claim in said]
        whole = whole and bool(said)
        claims += said
        before = before or next((claim.subject for claim in said if claim.relation != SAYS), before)
    return Reading(tuple(claims), key | themes, whole and count <= _MAX_SURE_CLAUSES, _keys(claims))


def key_words(text: str) -> frozenset[str]:
    """The stems of the words of a key or a theme."""
    return frozenset(
        stem(word) for word in _KEY_WORD.findall(text[:_MAX_KEY_CHARS].lower()) if word not in STOP
    )


def _keys(claims: Iterable[Claim]) -> frozenset[str]:
    """Each relation with its subject, and the words of each whole clause."""
    keys: set[str] = set()
    for claim in claims:
        if claim.relation == SAYS:
            keys.update(word.lstrip("±~") for word in claim.subject)
        else:
            keys.add(f"{claim.relation}|{' '.join(sorted(claim.subject))}")
    return frozenset(keys)


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """The clauses of a text, and whether each begins with what somebody has."""
    for clause in _CLAUSE.split(text):
        if clause and not clause.isspace():
            said = clause
            if "'" in said or "-old" in said or "cannot" in said:
                for short, long in _SHORT:
                    said = short.sub(long, said)
            yield " ".join(said.split()), _OWNS.match(clause) is not None


def _claims(clause: str, owned: bool, unnamed: frozenset[str], key: frozenset[str]) -> Iterator[Claim]:
    """The claims of one clause; `unnamed` is the subject if it names none, `key` the words of the key."""
    if "?" in clause or '"' in clause:
        return
    text = plain(_REASON.sub("", _MODAL_NAME.sub(r"\1_", _LETTERED.sub(r"\1-\2", clause))))
    lower = text.lower()
    found = items(lower)
    if not 0 < len(found) <= MAX_CLAUSE_ITEMS:
        return
    mood = "plan" if PLANS.search(lower) else "fact"
    if mood == "fact" and found[-1] not in STATUS and not LASTING.search(lower):
        mood = "past" if PAST.search(lower) or _is_event(found) else "fact"
    changed = not CHANGES.isdisjoint(item for item in found if isinstance(item, str))
    yield _whole(found, clause, mood, unnamed, owned=owned)
    if mood == "fact":
        hedged = _HEDGE.search(lower) is not None
        related = list(_related(text, unnamed, changed)) or list(_bare(found, text, key, changed))
        yield from (replace(claim, hedged=True) for claim in related) if hedged else related


def _is_event(found: Sequence[Item]) -> bool:
    """Whether the second or third word is a verb of the past: "Nora played", not "a used car", "is based"."""
    for at, item in enumerate(found[1:3], 1):
        if isinstance(item, str) and len(item) > 4 and item.endswith("ed") and item not in STATUS:
            return not axis(item)[0] and not (
                {found[at - 1]} & (AUXILIARIES | ARTICLES | FIRST - {"i", "we"})
            )
    return False


def _bare(found: Sequence[Item], text: str, key: frozenset[str], changed: bool) -> Iterator[Claim]:
    """A value alone, such as a timezone: its key tells of what."""
    if len(found) <= _MAX_BARE_ITEMS and AUXILIARIES.isdisjoint(found) and key & ATTRIBUTES:
        yield from _filled(_Subject(key - _TRIVIAL, True, True), "is", f" {text}", changed=changed)


def _turned(clause: str) -> frozenset[str]:
    """The stems of those parts of a clause that tell of a turn of things."""
    parts = _PART.split(clause) if TURNS.search(clause) else ()
    turns = [part.lower() for part in parts if TURNS.search(part)]
    return frozenset(word for part in turns for word in _contents(items(part)))


# ── Relations ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Subject:
    """Whom a clause is about: stems, whether only the key tells it, and whether what follows is affirmed of it."""

    words: frozenset[str]
    keyed: bool
    positive: bool


def _related(text: str, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """The claims of relations that a clause names: at most one, and what a switch from it denies."""
    if (said := _DATED.match(text)) and (dated := list(_scheduled(said, unnamed, changed))):
        yield from dated
        return
    lower = text.lower()
    for match in RELATION.finditer(lower if len(lower) == len(text) else text):
        moved = changed or _MOVES.search(match[0]) is not None
        before = text[: match.start()]
        subject = _subject(_LATELY.sub("", before) if moved else before, unnamed)
        name = RELATION_NAMES[int((match.lastgroup or "r0")[1:])]
        if subject is not None and not (name == "lives in" and subject.words & ATTRIBUTES):
            yield from _said_of(subject, name, text[match.end() :], before, moved)
            return
    if said := _COPULA.match(text):
        yield from _sort(said["subject"], said["value"], unnamed, changed)
        yield from _attribute(said["subject"], said["value"], unnamed, changed)


def _scheduled(said: re.Match[str], unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`The launch is on 3 March`, `… was moved to 17 March`: when something takes place."""
    subject = _subject(said["subject"], unnamed)
    if subject is not None and not subject.words & ATTRIBUTES:
        moved = changed or said["moved"] is not None
        for claim in _filled(subject, "takes place on", f" {said['value']}", changed=moved):
            if claim.value and claim.value.kind == "figure" and claim.value.figures[0].is_date:
                yield claim


def _said_of(subject: _Subject, name: str, after: str, before: str, changed: bool) -> Iterator[Claim]:
    """The claims of one relation, between what stands before it and after it."""
    if name == "lives in":
        after = _DWELLING.sub(" ", after)
    elif name == "uses" and (switch := _SWITCH.match(after)):
        yield from _filled(replace(subject, positive=False), name, switch["left"], changed=True)
        after = f" {switch['new']}"
    elif name == "leads":  # one leads many, and each is led by one
        led = _value(after)
        if led is not None and not subject.keyed:
            words = frozenset(led[0].words)
            yield from _filled(replace(subject, words=words), "led by", before, changed=changed)
        return
    yield from _filled(subject, name, after, changed=changed)


def _attribute(left: str, right: str, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`The deadline of X is …`, `… is Nora's employer`: what an attribute's owner has."""
    for owner, value in ((left, right), (right, left)):
        subject = _subject(owner, unnamed)
        if subject is None or not subject.positive or (owner is right and not _OWNER.match(owner)):
            continue
        changed = changed or not subject.words.isdisjoint(_RENEWED)
        subject = replace(subject, words=subject.words - _RENEWED or subject.words)
        attributes = subject.words & ATTRIBUTES
        if not attributes and (owner is right or len(subject.words) < 2):
            continue
        name = SAME_RELATION.get(*attributes) if len(attributes) == 1 else None
        if name and len(subject.words) == 2:
            subject = replace(subject, words=subject.words - attributes)
            yield from _filled(subject, name, f" {value}", changed=changed)
        else:
            spoken = [(stem(item), item) for item in items(owner.lower()) if isinstance(item, str)]
            label = _LEADING_ARTICLE.sub("", owner.strip())
            for claim in _filled(subject, "is", f" {value}", changed=changed):
                yield replace(claim, spoken=(("", label), *spoken))
        return


def _sort(left: str, right: str, unnamed: frozenset[str], changed: bool) -> Iterator[Claim]:
    """`Nora is a nurse`: what sort somebody is of."""
    subject = _subject(left, unnamed)
    if subject is not None and subject.positive and _SORT.match(right) and not subject.words & ATTRIBUTES:
        yield from _filled(subject, "is a", f" {right}", changed=changed)


def _subject(text: str, unnamed: frozenset[str]) -> _Subject | None:
    """The subject of a clause, from the words before its verb; None if they are not a noun phrase."""
    bare = text.strip().lower()
    found = items(bare)
    said = [item for item in found if isinstance(item, str)]
    if len(said) < len(found) or "," in bare or _OPENING.match(bare):
        return None
    words = [word for word in said if word not in NEGATORS]
    positive = (len(said) - len(words)) % 2 == 0
    while words and (words[-1] in AUXILIARIES or words[-1] in CHANGES or words[-1] in _ADVERBS):
        words.pop()
    if not AUXILIARIES.isdisjoint(words) or not _CLAUSAL.isdisjoint(words):
        return None
    if not words or (words[0] in PRONOUNS and len(words) == 1):
        return _Subject(unnamed, True, positive) if unnamed else None
    stems = {stem(word) for word in words if word in FIRST or word not in STOP}
    if words[0] in PRONOUNS:
        stems |= unnamed
    return _Subject(frozenset(stems), False, positive) if 0 < len(stems) <= _MAX_SUBJECT_WORDS else None


def _filled(subject: _Subject, name: str, after: str, *, changed: bool) -> Iterator[Claim]:
    """The claim that a subject has the value at the start of a text, under the conditions that follow it."""
    found = _value(after)
    if found is None or not subject.words:
        return
    value, rest, over = found
    words = subject.words - set(value.words) if subject.keyed else subject.words
    rest, since = _SINCE.subn("", rest)
    aside = _ASIDE.search(rest)
    scope = rest[: aside.start()] if aside else rest
    yield Claim(
        subject=words or subject.words,
        relation=name,
        value=value,
        scope=frozenset(_contents(items(scope.lower()))),
        placed=all(word[0].isupper() for word in scope.split() if word.lower() not in STOP),
        polarity=subject.positive,
        over=over,
        changed=changed or since > 0,
        aside=aside is not None and bool(rest[aside.start() :].strip(" ,")),
    )


def _value(after: str) -> tuple[Value, str, tuple[str, ...]] | None:
    """The value at the start of a text, what comes after it, and what it is preferred over."""
    text = after.strip(" :").rstrip(" .,'")
    over: tuple[str, ...] = ()
    if preferred := _OVER.search(text):
        over = tuple(_contents(items(_cut(text[preferred.end() :]).lower())))
    phrase = _cut(text[: preferred.start()] if preferred else text)
    figures = [item for item in items(text[: len(phrase)].lower()) if isinstance(item, Figure)]
    if not phrase.strip() and (dated := _after_preposition(items(text.lower()))):
        phrase, figures = text, dated
    rest = text[len(phrase) :]
    if preferred and preferred.start() <= len(phrase) + 1:
        rest = text[preferred.end() + len(_cut(text[preferred.end() :])) :]
    words = phrase.split()
    article = words[0].lower() if words and words[0].lower() in ARTICLES else ""
    spoken = " ".join(words[1:] if article else words)
    stems = tuple(word for word in _contents(items(spoken.lower())) if word[0] != "#" or "(" not in word)
    if not (stems or figures) or len(stems) > _MAX_VALUE_WORDS:
        return None
    if re.match(r" ?(?:and|or|und|et|y|e|,) ?\w", rest, re.IGNORECASE) and not _ASIDE.match(rest):
        kind = "list"
    elif figures and not stems:
        kind = "figure"
    elif article in {"a", "an", "ein", "eine", "un", "une", "una", "um", "uma"}:
        kind = "a"
    elif _is_name(spoken.split(), article):
        kind = "name"
    else:
        kind = "word"
    return Value(stems, spoken, kind, tuple(figures)), rest, over


def _after_preposition(found: Sequence[Item]) -> list[Figure]:
    """The figures that only a preposition stands before: "on 3 May", but not "for children 3 euros"."""
    for item in found:
        if isinstance(item, Figure):
            return [each for each in found if isinstance(each, Figure)]
        if item not in STOP:
            break
    return []


def _is_name(words: Sequence[str], article: str) -> bool:
    """Whether words are written as a name: with capitals, figures or signs; behind an article all of them."""
    like = [_NAME_LIKE.fullmatch(word) is not None for word in words]
    return all(like) if article else like[0] or like[-1]


def _cut(text: str) -> str:
    """A text up to the end of its first noun phrase."""
    for match in _END.finditer(text):
        if match.start() > 0:
            return text[: match.start()].rstrip()
        break
    return text if not (first := _END.match(text)) else ("" if first else text)


# ── Whole clauses ───────────────────────────────────────────────────────────────────────


def _whole(found: Sequence[Item], clause: str, mood: str, unnamed: frozenset[str], *, owned: bool) -> Claim:
    """A clause as one statement: its words, the axes it takes sides on, its figures, whether it is denied."""
    verb = _verb_at(found)
    negations, sides, figures = 0, list[tuple[str, bool, str]](), list[Figure]()
    words: dict[str, str] = {}
    told: set[str] = set()
    for at, item in enumerate(found):
        if isinstance(item, Figure):
            if item.is_date and _opens(found, at, verb):
                words[f"@{item.text}"] = item.text
            else:
                figures.append(item)
            continue
        if item in NEGATORS:
            negations += 1
            continue
        if item in STOP and item not in FIRST and not (at == 0 and item in PRONOUNS):
            continue
        word = (
            f"~{STATUS[item]}" if item in STATUS and (at == len(found) - 1 or 0 < verb < at) else stem(item)
        )
        name, side = axis(item) if word[0] != "~" else ("", True)
        opposed = any(taken[:2] == (name, not side) for taken in sides)
        if name and not opposed and not _adorns(found, at, verb):
            word = name
            if name not in words:
                sides.append((name, side, item))
        words.setdefault(word, item)
        before = found[at - 1] if at > 1 else ""
        before = found[at - 2] if before in ARTICLES else before
        if before in BE or before in _LEADING:
            told.add(word)
    if found and isinstance(found[0], str) and found[0] in PRONOUNS:
        words.pop(stem(found[0]), None)
        words |= {word: word for word in unnamed}
    return Claim(
        subject=frozenset(words),
        relation=SAYS,
        polarity=negations % 2 == 0,
        mood=mood,
        sides=tuple(sorted(sides)),
        figures=tuple(figures),
        told=frozenset(told),
        turned=_turned(clause),
        states=frozenset(state for raw in words.values() if (state := STATES.get(stem(raw)))),
        names=frozenset(stem(name.lower()) for name in _CAPITAL.findall(clause)),
        definite=found[0] in _DEFINITE or owned,
        owned=owned,
        spoken=tuple(words.items()),
    )


def _verb_at(found: Sequence[Item]) -> int:
    """The place of the first auxiliary, which hints at the verb; 0 if there is no auxiliary."""
    return next((at for at, item in enumerate(found) if at and item in AUXILIARIES), 0)


def _opens(found: Sequence[Item], at: int, verb: int) -> bool:
    """Whether a date stands before the verb, or opens the clause: it tells which occasion is meant."""
    return at < verb or (at <= 2 and found[0] in {"on", "in", "at", "since", "every", "by", "until", "from"})


def _adorns(found: Sequence[Item], at: int, verb: int) -> bool:
    """Whether a word belongs to the noun behind it in the subject: "the big dog" is another than "the small dog"."""
    if at + 1 >= len(found) or (at >= verb if verb else at != 1):
        return False
    following = found[at + 1]
    opening = found[at - 1] in ARTICLES or found[at - 1] in {"my", "our"} if at else bool(verb)
    return opening and isinstance(following, str) and following not in STOP and following not in AUXILIARIES


def _contents(found: Iterable[Item]) -> list[str]:
    """The stems of the words that carry content, and the figures as words."""
    return [
        stem(item) if isinstance(item, str) else f"#{item.kind}{item.value}"
        for item in found
        if not (isinstance(item, str) and item in STOP and item not in FIRST)
    ]
